//! Answering callers, most of whom may be strangers.
//!
//! Until a caller has proved itself it costs a descriptor and a fixed buffer; there are at most [`MOST`] at a
//! time, the oldest goes for a new one, and each has [`PATIENCE`]. Nobody else waits for any of them.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use mtmi::Queues;
use rustix::io::Errno;

use crate::Tcp;
use crate::callers::{Caller, Filled, Role};
use crate::handshake::{Acceptor, HELLO, LONGEST, PROOF, Refused, Verdict};
use crate::socket;
use crate::timers::Timer;

/// Callers that have proved nothing, at a time.
pub(crate) const MOST: usize = 256;
/// How long a caller may take: a rank that is computing calls again.
const PATIENCE: Duration = Duration::from_secs(5);
/// Callers taken before others get their turn.
const TURN: usize = 64;
/// Before callers are taken again after descriptors or memory ran out.
const PAUSE: Duration = Duration::from_millis(100);
/// What a caller has to prove itself before it may go for want of descriptors.
pub(crate) const GRACE: Duration = Duration::from_millis(200);
/// Lines about strangers that a process writes; the rest are only counted.
const LINES: u32 = 4;

/// Callers that have proved nothing.
#[derive(Default)]
pub(crate) struct Strangers {
    /// With the time they came, oldest first; some may be gone.
    waiting: VecDeque<(Instant, u64)>,
    /// How many of them are not.
    pub present: usize,
    /// Whether more may wait at the listening socket.
    pub knocking: bool,
    /// Whether `Timer::Strangers` is set.
    timed: bool,
    /// How many were dropped.
    pub count: u64,
    lines: u32,
}

impl Tcp {
    /// Takes callers. Returns whether there were any.
    pub(crate) fn take_callers(&mut self, queues: &mut Queues) -> bool {
        if self.deaf {
            self.strangers.knocking = false;
            return false;
        }
        for i in 0..TURN {
            match socket::accept(&self.listener) {
                Ok((fd, remote)) => {
                    let nobody = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
                    self.take_caller(queues, fd, remote.unwrap_or(nobody));
                }
                Err(Errno::AGAIN) => {
                    self.strangers.knocking = false;
                    return i > 0;
                }
                // The kernel looks for a descriptor first, and only then whether anybody is there.
                Err(e) if socket::no_room(e) && !socket::is_readable(&self.listener) => {
                    self.strangers.knocking = false;
                    return i > 0;
                }
                Err(e) if socket::no_room(e) => {
                    self.found_no_room(e);
                    if !self.evict(GRACE, "its descriptor is needed") {
                        self.strangers.knocking = false;
                        self.timers.set(PAUSE, Timer::Accept);
                        return i > 0;
                    }
                }
                // It was gone before we looked.
                Err(_) => {}
            }
        }
        true
    }

    fn take_caller(&mut self, queues: &mut Queues, fd: rustix::fd::OwnedFd, remote: SocketAddr) {
        let mut nonce = [0; 32];
        if sys::random::fill(&mut nonce).is_err() {
            return;
        }
        if self.strangers.present >= MOST {
            self.evict(Duration::ZERO, "too many callers prove nothing");
        }
        let name = self.callers.insert(Caller {
            fd,
            remote,
            role: Role::Answers {
                acceptor: Box::new(Acceptor::new(&self.job, &nonce)),
                greeted: false,
            },
            buffer: [0; LONGEST],
            filled: 0,
        });
        if let Some(caller) = self.callers.get(name)
            && self.reactor.add(caller.fd.as_fd(), name).is_err()
        {
            self.callers.remove(name);
            return;
        }
        let strangers = &mut self.strangers;
        strangers.present += 1;
        if strangers.waiting.len() >= 4 * MOST {
            let callers = &mut self.callers;
            strangers.waiting.retain(|(_, n)| callers.get(*n).is_some());
        }
        strangers.waiting.push_back((Instant::now(), name));
        if !strangers.timed {
            strangers.timed = true;
            self.timers.set(PATIENCE, Timer::Strangers);
        }
        self.answer_event(queues, name);
    }

    /// Closes the oldest caller that said nothing sensible, or else the oldest, if it has been here for `grace`. Says why. Returns
    /// whether there was one.
    pub(crate) fn evict(&mut self, grace: Duration, why: &str) -> bool {
        let mut oldest = None;
        for &(since, name) in &self.strangers.waiting {
            if since.elapsed() < grace {
                break;
            }
            match self.callers.get(name).map(|c| (&c.role, c.remote)) {
                Some((Role::Answers { greeted: false, .. }, remote)) => {
                    oldest = Some((name, remote));
                    break;
                }
                Some((_, remote)) => oldest = oldest.or(Some((name, remote))),
                None => {}
            }
        }
        let Some((name, remote)) = oldest else {
            return false;
        };
        self.drop_stranger(name);
        self.report(remote, why);
        true
    }

    fn drop_stranger(&mut self, name: u64) {
        self.strangers.present -= 1;
        self.drop_caller(name);
    }

    /// Closes callers that took too long.
    pub(crate) fn strangers_timer(&mut self, now: Instant) {
        while let Some(&(since, name)) = self.strangers.waiting.front() {
            let left = PATIENCE.saturating_sub(now.saturating_duration_since(since));
            let present = self.callers.get(name).map(|c| (c.remote, c.filled > 0));
            if let Some((remote, some)) = present {
                if !left.is_zero() {
                    self.timers.set(left, Timer::Strangers);
                    return;
                }
                self.drop_stranger(name);
                // One that is silent may be a rank that has begun to compute.
                self.strangers.count += u64::from(!some);
                if some {
                    self.report(remote, "it did not prove itself within 5 s");
                }
            }
            self.strangers.waiting.pop_front();
        }
        self.strangers.timed = false;
    }

    /// Counts a stranger and, for the first few, says so.
    fn report(&mut self, remote: SocketAddr, why: &str) {
        let (me, version) = (self.job.me, &self.job.version);
        let strangers = &mut self.strangers;
        strangers.count += 1;
        if strangers.lines >= LINES {
            return;
        }
        strangers.lines += 1;
        let last = match strangers.lines {
            LINES => " (more of this kind are not shown)",
            _ => "",
        };
        sys::say::line(&format!(
            "yamabiko {version}: rank {me} dropped a TCP connection from {remote}: {why}{last}"
        ));
    }

    /// A caller said something, or hung up.
    pub(crate) fn answer_event(&mut self, queues: &mut Queues, name: u64) {
        while let Some(caller) = self.callers.get(name)
            && let Role::Answers { greeted, .. } = caller.role
        {
            match caller.fill(if greeted { PROOF } else { HELLO }) {
                Filled::Partly => return,
                Filled::Closed(_) => {
                    let (remote, some) = (caller.remote, caller.filled > 0);
                    self.drop_stranger(name);
                    // A rank that got through at another address hangs up between two messages.
                    if some {
                        self.report(remote, "it hung up in the middle of a word");
                    }
                    return;
                }
                Filled::Wholly if greeted => return self.hear_proof(queues, name),
                Filled::Wholly => self.greet(name),
            }
        }
    }

    fn greet(&mut self, name: u64) {
        let Some(caller) = self.callers.get(name) else {
            return;
        };
        let theirs = caller.message::<HELLO>();
        let remote = caller.remote;
        let Role::Answers { acceptor, greeted } = &mut caller.role else {
            return;
        };
        let hello = acceptor.hello();
        let why = match acceptor.greet(&theirs) {
            Ok(()) => {
                *greeted = true;
                if caller.say(&hello).is_ok() {
                    return;
                }
                "it takes no data".to_string()
            }
            Err(Refused::Stranger(why)) => why.to_string(),
            Err(Refused::Version(theirs)) => {
                // So that the other end can say what is wrong; whether it hears it is its affair.
                let _ = caller.say(&hello);
                let ours = &self.job.version;
                format!("it runs version {theirs} of this library, this rank {ours}")
            }
        };
        self.drop_stranger(name);
        self.report(remote, &why);
    }

    /// A caller gave its proof: decides which connection is the one.
    ///
    /// When two ranks call each other, the lower one's call wins, once it has sent its proof. Before that
    /// it may not get through at all, so it gives way. The higher one always takes the lower one's call.
    fn hear_proof(&mut self, queues: &mut Queues, name: u64) {
        let Some(caller) = self.callers.get(name) else {
            return;
        };
        let proof = caller.message::<PROOF>();
        let remote = caller.remote;
        let Role::Answers { acceptor, .. } = &mut caller.role else {
            return;
        };
        let (peer, here) = match acceptor.check(&self.job, &proof) {
            Ok(said) => said,
            Err(Refused::Stranger(why)) => {
                self.drop_stranger(name);
                return self.report(remote, why);
            }
            Err(Refused::Version(_)) => return self.drop_stranger(name),
        };
        let route = &self.routes[peer as usize];
        let proving = route.dial.as_ref().is_some_and(|d| d.proving.is_some());
        let verdict = if !here {
            Verdict::Elsewhere
        } else if route.stream.is_some() || (proving && self.job.me < peer) {
            Verdict::MineWins
        } else {
            Verdict::Welcome
        };
        let words = acceptor.verdict(&self.job, verdict);
        // One that has failed stays failed.
        let gone = self.protocol.links[peer as usize].failed;
        if gone || caller.say(&words).is_err() || verdict != Verdict::Welcome {
            return self.drop_stranger(name);
        }
        self.strangers.present -= 1;
        self.establish(queues, peer, name);
    }
}
