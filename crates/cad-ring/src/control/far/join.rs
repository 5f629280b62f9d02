//! How processes of different hosts meet: each calls those of higher rank at all of their addresses, and answers the others. All do so at
//! once, which waits, as `MPI_Init` does; or each two when they need each other ([`Meet`](super::super::Meet)), which doesn't.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tcp::meeting::{Identity, Meeting, Met, Reception};

use super::super::{Control, Watched};
use super::dial::{Dials, PATIENCE};
use super::{Far, GRACE, Link, TURN};
use crate::headroom;

/// How long all processes have to meet when they join.
const MEETING: Duration = Duration::from_secs(60);
/// Between attempts at the addresses of a process.
const STAGGER: Duration = Duration::from_millis(50);

/// Calls to a process, at all of its addresses.
pub(super) struct Calls {
    /// What is to be tried, in this order: an address at which an attempt has ended comes last.
    addresses: VecDeque<SocketAddr>,
    when: Instant,
    under_way: Vec<Meeting>,
    /// Since when no attempt has got to the process's host.
    pub(super) since: Instant,
    why: String,
}

impl Calls {
    pub fn new(addresses: Vec<SocketAddr>) -> Calls {
        Calls {
            addresses: addresses.into(),
            when: Instant::now(),
            under_way: Vec::new(),
            since: Instant::now(),
            why: "no answer".to_owned(),
        }
    }

    /// Does what can be done now; the connection, if one leads there.
    pub fn go_on(&mut self, identity: &Identity, peer: u32) -> Option<Meeting> {
        let now = Instant::now();
        if let Some(&to) = self.addresses.front().filter(|_| self.when <= now) {
            self.when = now + STAGGER;
            match Meeting::dial(identity, peer, to) {
                Ok(meeting) => {
                    headroom::keep(&meeting);
                    self.addresses.pop_front();
                    self.under_way.push(meeting);
                }
                Err(e) => {
                    self.addresses.rotate_left(1);
                    self.why = e.to_string();
                }
            }
        }
        for i in (0..self.under_way.len()).rev() {
            let why = match self.under_way[i].go_on(identity, |_| false) {
                Met::Waits => continue,
                Met::With(_) => return Some(self.under_way.swap_remove(i)),
                Met::Noted(..) => "it calls back".to_owned(),
                Met::Not(why) => why,
            };
            let remote = self.under_way.swap_remove(i).remote();
            self.why = format!("{remote}: {why}");
            self.addresses.push_back(remote);
        }
        if !self.is_connecting() {
            self.since = now;
        }
        None
    }

    /// Whether no attempt has got to the process's host.
    pub(super) fn is_connecting(&self) -> bool {
        self.under_way.iter().all(Meeting::connects)
    }

    /// Whether no way leads there. A process that is in no call answers late, but its host takes the connection.
    fn is_hopeless(&self) -> bool {
        self.since.elapsed() > PATIENCE
    }
}

impl Far {
    /// One that has met nobody.
    pub fn new(
        reception: Reception,
        identity: Identity,
        rank: u32,
        addresses: BTreeMap<u32, String>,
    ) -> Far {
        Far {
            rank,
            identity,
            reception,
            addresses,
            links: BTreeMap::new(),
            calls: BTreeMap::new(),
            unsaid: BTreeMap::new(),
            knocks: BTreeMap::new(),
            dials: Dials::default(),
            closing: Vec::new(),
            early: Vec::new(),
            crowded: false,
        }
    }

    /// Meets all processes of other hosts; each process does that at the same time.
    ///
    /// # Errors
    /// In words, who can't be reached.
    pub fn meet_all(
        reception: Reception,
        identity: Identity,
        rank: u32,
        addresses: BTreeMap<u32, String>,
    ) -> Result<Far, String> {
        let mut far = Far::new(reception, identity, rank, addresses);
        let begin = Instant::now();
        let mut calls = BTreeMap::new();
        for (&peer, address) in far.addresses.range(rank + 1..) {
            let addresses = far.reception.candidates(address);
            if addresses.is_empty() {
                return Err(format!("rank {peer} gave no address that leads to it"));
            }
            calls.insert(peer, Calls::new(addresses));
        }
        let mut knock = 0;
        while far.links.len() < far.addresses.len() {
            let Far {
                identity, links, ..
            } = &mut far;
            calls.retain(|&peer, calling| {
                let met = calling.go_on(identity, peer);
                let waits = met.is_none();
                links.extend(met.map(|meeting| (peer, Link::new(meeting))));
                waits
            });
            far.answer_all(&mut knock);
            if begin.elapsed() > MEETING {
                return Err(far.missing(&calls));
            }
            if far.links.len() < far.addresses.len() {
                far.wait(&calls);
            }
        }
        Ok(far)
    }

    /// Who has not been met, and why.
    fn missing(&self, calls: &BTreeMap<u32, Calls>) -> String {
        let of_calls = calls.iter().next();
        let mut absent = self
            .addresses
            .keys()
            .filter(|p| !self.links.contains_key(p));
        match (of_calls, absent.next()) {
            (Some((peer, calling)), _) => {
                format!(
                    "rank {peer} can't be reached over the network: {}",
                    calling.why
                )
            }
            (None, Some(peer)) => format!("rank {peer} has not called over the network"),
            (None, None) => "all are there".to_owned(),
        }
    }

    /// Lets callers in, while this process joins; `knock` counts them.
    fn answer_all(&mut self, knock: &mut u32) {
        for _ in 0..TURN {
            let came = self.reception.accept(&self.identity);
            self.crowded = came.is_err();
            match came {
                Ok(Some(meeting)) => {
                    headroom::keep(&meeting);
                    if self.take_in(*knock, meeting) {
                        self.make_room(Duration::ZERO);
                    }
                    *knock += 1;
                }
                Ok(None) => break,
                Err(_) if self.make_room(GRACE) => {}
                Err(_) => break,
            }
        }
        let knocks: Vec<u32> = self.knocks.keys().copied().collect();
        for id in knocks {
            self.answer(id);
        }
    }

    /// Hangs up on the oldest caller that has proved nothing, if it has had so much time, after a last look at what it has said. Whether one went.
    fn make_room(&mut self, grace: Duration) -> bool {
        let Some(id) = self.oldest(grace) else {
            return false;
        };
        self.answer(id);
        self.knocks.remove(&id).is_some()
    }

    /// Reads what a caller has said, while this process joins.
    fn answer(&mut self, id: u32) {
        let Far {
            rank,
            addresses,
            links,
            knocks,
            identity,
            ..
        } = &mut *self;
        let welcome = |p: u32| p < *rank && addresses.contains_key(&p) && !links.contains_key(&p);
        let Some(knock) = knocks.get_mut(&id) else {
            return;
        };
        let met = knock.meeting.go_on(identity, welcome);
        if matches!(met, Met::Waits) {
            return;
        }
        let Some(knock) = knocks.remove(&id) else {
            return;
        };
        match met {
            Met::With(peer) => drop(links.insert(peer, Link::new(knock.meeting))),
            Met::Noted(peer, words) => self.take_early(peer, words, knock.meeting.into_socket()),
            _ => {}
        }
    }

    /// Waits, while this process joins, until something can go on.
    fn wait(&self, calls: &BTreeMap<u32, Calls>) {
        let mut fds = Vec::new();
        // Who can't be let in now would wake it at once.
        if !self.crowded {
            fds.push(PollFd::new(&self.reception, PollFlags::IN));
        }
        let knocks = self.knocks.values();
        fds.extend(knocks.map(|k| PollFd::new(&k.meeting, PollFlags::IN)));
        for meeting in calls.values().flat_map(|c| &c.under_way) {
            let flags = match meeting.connects() {
                true => PollFlags::OUT,
                false => PollFlags::IN,
            };
            fds.push(PollFd::new(meeting, flags));
        }
        let pause = Timespec {
            tv_sec: 0,
            tv_nsec: STAGGER.subsec_nanos().into(),
        };
        // Whatever it says, everything is looked at.
        let _ = poll(&mut fds, Some(&pause));
    }
}

impl Control {
    /// Sees to it that this process meets one of another host, if it is the one that calls.
    pub fn approach(&mut self, peer: u32) {
        let gone = self.is_lost(peer) || self.left.contains(&peer);
        let waits = gone || !self.lends_to_far(peer) || self.has_link(peer);
        let Some(far) = self.far.as_mut().filter(|_| !waits) else {
            return;
        };
        let Some(address) = far.addresses.get(&peer) else {
            return;
        };
        if far.calls.contains_key(&peer) {
            return;
        }
        let addresses = far.reception.candidates(address);
        if addresses.is_empty() {
            return self.lose(peer);
        }
        far.calls.insert(peer, Calls::new(addresses));
        self.go_on_calling();
    }

    /// Goes on with the calls to those whom this process needs.
    pub(super) fn go_on_calling(&mut self) {
        let Some(Far {
            identity, calls, ..
        }) = &mut self.far
        else {
            return;
        };
        let (mut met, mut out_of_reach) = (Vec::new(), Vec::new());
        calls.retain(|&peer, calling| {
            let answered = calling.go_on(identity, peer);
            let waits = answered.is_none() && !calling.is_hopeless();
            match answered {
                Some(meeting) => met.push((peer, meeting)),
                None if !waits => out_of_reach.push(peer),
                None => {}
            }
            waits
        });
        for (peer, meeting) in met {
            self.met(peer, meeting);
        }
        for peer in out_of_reach {
            self.lose(peer);
        }
    }

    /// This process and one of another host have met.
    pub(super) fn met(&mut self, peer: u32, meeting: Meeting) {
        let Some(far) = &mut self.far else { return };
        let mut link = Link::new(meeting);
        link.unsaid = far.unsaid.remove(&peer).unwrap_or_default();
        far.links.insert(peer, link);
        self.begin_watch(Watched::Link(peer));
        self.speak_far(peer);
    }

    /// Whether a process of another host that calls is to be let in: all have met, or it is one that this process still has to meet.
    pub(super) fn is_welcome(&self, peer: u32) -> bool {
        let gone = self.is_lost(peer) || self.left.contains(&peer);
        self.is_far(peer) && peer < self.rank && !gone && !self.has_link(peer)
    }
}
