//! Calling a peer: its addresses against each other, again and again until one answers or patience ends.
//!
//! The attempts start [`STAGGER`] apart and run side by side. The first whose other end says hello gets our
//! proof; the others wait until that one has failed, so the peer never has two proved connections. If both call each
//! other, the lower rank's call is the one: see `accept`.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use mtmi::{Endpoint, Queues};

use crate::Tcp;
use crate::accept::GRACE;
use crate::callers::{Caller, Filled, Role, Stage};
use crate::handshake::{Dialer, HELLO, LONGEST, Refused, VERDICT, Verdict};
use crate::reactor::Event;
use crate::socket;
use crate::timers::Timer;

/// Between the starts of two attempts: several round trips of a near network (RFC 8305 recommends 250 ms
/// between hosts of the Internet).
const STAGGER: Duration = Duration::from_millis(50);
/// Before the addresses are tried again, doubled each time up to the second figure.
const BACKOFF: Duration = Duration::from_millis(20);
const BACKOFF_MOST: Duration = Duration::from_secs(1);
/// A peer that no attempt reaches for so long has failed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(15);
/// How often patience is looked at.
const LOOK: Duration = Duration::from_secs(1);
/// So often a peer may answer and then hang up: we lost a call that met its own, or it was slow. After that it is not
/// there for us: it has given us up.
const TURNED_AWAY: u32 = 5;
/// How long we wait for a call of a peer that said it is calling.
const THEIR_TURN: Duration = Duration::from_secs(2);

/// A call under way.
pub(crate) struct Dial {
    candidates: Vec<SocketAddr>,
    /// The next of them to be tried in this round.
    next: usize,
    /// Attempts under way: names of callers.
    pub attempts: Vec<u64>,
    /// The one that has our proof.
    pub proving: Option<u64>,
    /// What came of each address the last time.
    ended: Vec<(SocketAddr, String)>,
    backoff: Duration,
    /// How often it hung up after our proof.
    turned_away: u32,
    /// Active time at which the peer was last known not to be unreachable.
    since: Duration,
    /// When to go on.
    alarm: Option<Instant>,
    /// What trying again can't change.
    fatal: bool,
}

impl Tcp {
    /// Begins to call `peer`, unless that was done before.
    pub(crate) fn call(&mut self, peer: u32) {
        let route = &mut self.routes[peer as usize];
        if route.stream.is_some() || route.dial.is_some() {
            return;
        }
        let Some(address) = &route.address else {
            return;
        };
        let worked = self.worked.get(&address.stack).copied();
        let candidates = address.candidates(&self.mine, self.stack, worked);
        self.active.tick(Instant::now());
        route.dial = Some(Box::new(Dial {
            candidates,
            next: 0,
            attempts: Vec::new(),
            proving: None,
            ended: Vec::new(),
            backoff: BACKOFF,
            turned_away: 0,
            since: self.active.now(),
            alarm: None,
            fatal: false,
        }));
        self.attempt(peer);
    }

    fn alarm(&mut self, peer: u32, after: Duration) {
        let at = self.timers.set(after, Timer::Dial(peer));
        if let Some(dial) = &mut self.routes[peer as usize].dial {
            dial.alarm = Some(at);
        }
    }

    /// The timer of a call rang.
    pub(crate) fn dial_timer(&mut self, queues: &mut Queues, peer: u32, now: Instant) {
        let Some(dial) = &mut self.routes[peer as usize].dial else {
            return;
        };
        if dial.alarm.is_none_or(|at| at > now) {
            return;
        }
        dial.alarm = None;
        let late = self.active.now().saturating_sub(dial.since) >= self.patience;
        if dial.next < dial.candidates.len() {
            self.attempt(peer);
        } else if dial.attempts.is_empty() {
            if late || dial.fatal {
                self.give_up(queues, peer);
            } else {
                dial.next = 0;
                self.attempt(peer);
            }
        } else if late && !self.is_connected(peer) {
            self.give_up(queues, peer);
        } else {
            self.alarm(peer, LOOK);
        }
    }

    /// Whether some attempt got through to somebody, who may be busy with other things.
    fn is_connected(&mut self, peer: u32) -> bool {
        let Some(dial) = &self.routes[peer as usize].dial else {
            return false;
        };
        dial.attempts.iter().any(|&name| {
            let role = self.callers.get(name).map(|c| &c.role);
            !matches!(
                role,
                Some(Role::Dials {
                    stage: Stage::Connects,
                    ..
                }) | None
            )
        })
    }

    /// Tries the next address.
    fn attempt(&mut self, peer: u32) {
        let Some(dial) = &mut self.routes[peer as usize].dial else {
            return;
        };
        let Some(&to) = dial.candidates.get(dial.next) else {
            // There is no address at all: what is there to be said about it is said when patience ends.
            dial.fatal = true;
            self.alarm(peer, Duration::ZERO);
            return;
        };
        dial.next += 1;
        let more = dial.next < dial.candidates.len();
        self.alarm(peer, if more { STAGGER } else { LOOK });
        match self.begin(peer, to) {
            Ok(name) => {
                if let Some(dial) = &mut self.routes[peer as usize].dial {
                    dial.attempts.push(name);
                }
            }
            Err(e) => self.attempt_ended(peer, to, e),
        }
    }

    fn begin(&mut self, peer: u32, to: SocketAddr) -> Result<u64, String> {
        let text = |e: io::Error| e.to_string();
        let mut nonce = [0; 32];
        sys::random::fill(&mut nonce).map_err(text)?;
        let dialed = loop {
            match socket::dial(&to) {
                Err(e) if socket::no_room(e) => {
                    self.found_no_room(e);
                    if !self.evict(GRACE, "its descriptor is needed") {
                        break Err(e);
                    }
                }
                other => break other,
            }
        };
        let caller = Caller {
            fd: dialed.map_err(|e| text(e.into()))?,
            remote: to,
            role: Role::Dials {
                peer,
                dialer: Box::new(Dialer::new(&self.job, peer, &nonce)),
                stage: Stage::Connects,
            },
            buffer: [0; LONGEST],
            filled: 0,
        };
        let name = self.callers.insert(caller);
        if let Some(caller) = self.callers.get(name)
            && let Err(e) = self.reactor.add(caller.fd.as_fd(), name)
        {
            self.callers.remove(name);
            return Err(text(e));
        }
        Ok(name)
    }

    /// Something happened to an attempt.
    pub(crate) fn dial_event(&mut self, queues: &mut Queues, name: u64, event: Event) {
        if let Some(caller) = self.callers.get(name)
            && let Role::Dials {
                dialer,
                stage: stage @ Stage::Connects,
                ..
            } = &mut caller.role
        {
            if !event.writable && !event.hung {
                return;
            }
            *stage = Stage::Greeted;
            let hello = dialer.hello();
            let connected =
                socket::dialed(caller.fd.as_fd()).map_err(|e| io::Error::from(e).to_string());
            if let Err(why) = connected.and_then(|()| caller.say(&hello)) {
                return self.end_attempt(name, why);
            }
        }
        while let Some(caller) = self.callers.get(name)
            && let Role::Dials { peer, stage, .. } = caller.role
        {
            let need = match stage {
                Stage::Greeted => HELLO,
                Stage::Proved => VERDICT,
                Stage::Connects | Stage::Held => return,
            };
            match caller.fill(need) {
                Filled::Partly => return,
                Filled::Closed(why) => return self.end_attempt(name, why),
                Filled::Wholly if stage == Stage::Greeted => self.prove(peer, name),
                Filled::Wholly => self.hear_verdict(queues, peer, name),
            }
        }
    }

    /// The other end said hello: it gets our proof, if no other attempt has it.
    fn prove(&mut self, peer: u32, name: u64) {
        let Some(dial) = &mut self.routes[peer as usize].dial else {
            return self.drop_caller(name);
        };
        let Some(caller) = self.callers.get(name) else {
            return;
        };
        let theirs = caller.message::<HELLO>();
        let remote = caller.remote;
        let Role::Dials { dialer, stage, .. } = &mut caller.role else {
            return;
        };
        if dial.proving.is_some() {
            *stage = Stage::Held;
            return;
        }
        let proof = match dialer.prove(&self.job, &theirs) {
            Ok(proof) => proof,
            Err(Refused::Stranger(why)) => return self.end_attempt(name, why.into()),
            Err(Refused::Version(version)) => {
                let ours = &self.job.version;
                let why = format!("it runs version {version} of this library, this rank {ours}");
                dial.fatal = true;
                dial.next = dial.candidates.len();
                dial.ended.push((remote, why));
                self.close_attempts(peer);
                return self.alarm(peer, Duration::ZERO);
            }
        };
        *stage = Stage::Proved;
        dial.proving = Some(name);
        // Whoever answers is there.
        if dial.turned_away < TURNED_AWAY {
            dial.since = self.active.now();
        }
        if let Err(why) = caller.say(&proof) {
            self.end_attempt(name, why);
        }
    }

    fn hear_verdict(&mut self, queues: &mut Queues, peer: u32, name: u64) {
        let Some(caller) = self.callers.get(name) else {
            return;
        };
        let said = caller.message::<VERDICT>();
        let Role::Dials { dialer, .. } = &caller.role else {
            return;
        };
        match dialer.verdict(&self.job, &said) {
            Ok(Verdict::Welcome) => self.establish(queues, peer, name),
            Ok(Verdict::MineWins) => {
                self.close_attempts(peer);
                if let Some(dial) = &mut self.routes[peer as usize].dial {
                    dial.next = dial.candidates.len();
                }
                self.alarm(peer, THEIR_TURN);
            }
            Ok(Verdict::Elsewhere) => self.end_attempt(name, "another rank listens there".into()),
            Err(Refused::Stranger(why)) => self.end_attempt(name, why.into()),
            Err(Refused::Version(_)) => self.end_attempt(name, "it is of another version".into()),
        }
    }

    /// Ends all attempts to reach `peer`.
    pub(crate) fn close_attempts(&mut self, peer: u32) {
        let Some(dial) = &mut self.routes[peer as usize].dial else {
            return;
        };
        dial.proving = None;
        for name in std::mem::take(&mut dial.attempts) {
            self.drop_caller(name);
        }
    }

    /// An attempt came to nothing.
    fn end_attempt(&mut self, name: u64, why: String) {
        let Some(caller) = self.callers.get(name) else {
            return;
        };
        let remote = caller.remote;
        let Role::Dials { peer, .. } = caller.role else {
            return;
        };
        self.drop_caller(name);
        let Some(dial) = &mut self.routes[peer as usize].dial else {
            return;
        };
        dial.attempts.retain(|&a| a != name);
        if dial.proving == Some(name) {
            dial.proving = None;
            dial.turned_away += 1;
        }
        self.attempt_ended(peer, remote, why);
    }

    fn attempt_ended(&mut self, peer: u32, to: SocketAddr, why: String) {
        let Some(dial) = &mut self.routes[peer as usize].dial else {
            return;
        };
        dial.ended.retain(|(address, _)| *address != to);
        dial.ended.push((to, why));
        let held = dial.attempts.iter().copied().find(|&name| {
            let role = self.callers.get(name).map(|c| &c.role);
            matches!(
                role,
                Some(Role::Dials {
                    stage: Stage::Held,
                    ..
                })
            )
        });
        if let Some(name) = held
            && dial.proving.is_none()
        {
            // Its hello is still in the buffer.
            self.prove(peer, name);
        } else if dial.next < dial.candidates.len() {
            self.alarm(peer, Duration::ZERO);
        } else if dial.attempts.is_empty() {
            let wait = dial.backoff;
            dial.backoff = (wait * 2).min(BACKOFF_MOST);
            self.alarm(peer, wait);
        }
    }

    /// No address leads to `peer`.
    fn give_up(&mut self, queues: &mut Queues, peer: u32) {
        self.close_attempts(peer);
        let Some(dial) = self.routes[peer as usize].dial.take() else {
            return;
        };
        let tried = dial.candidates.iter().map(|address| {
            let end = dial.ended.iter().find(|(a, _)| a == address);
            format!("{address}: {}", end.map_or("no answer", |(_, why)| why))
        });
        let tried: Vec<String> = tried.collect();
        let address = self.routes[peer as usize].address.as_ref();
        let why = match address {
            Some(address) if tried.is_empty() => address.nothing_to_try(),
            _ => format!("it can't be reached ({})", tried.join("; ")),
        };
        self.fail(queues, peer, why);
    }

    /// A peer failed, and this fabric found out.
    pub(crate) fn fail(&mut self, queues: &mut Queues, peer: u32, why: String) {
        self.protocol.fail(queues, peer);
        queues.fail_receives(Endpoint(peer));
        self.routes[peer as usize].reason = Some(why);
        self.failures.push_back(Endpoint(peer));
    }
}
