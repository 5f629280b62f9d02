//! How processes of different hosts meet: each calls those of higher rank at all of their addresses, and answers the others. This waits,
//! as `MPI_Init` does.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tcp::meeting::{Identity, Meeting, Met, Reception};

use super::{Far, Link};
use crate::headroom;

/// How long all processes have to meet when they join.
const MEETING: Duration = Duration::from_secs(60);
/// Between attempts at two addresses of a process, and before the first is tried again.
const STAGGER: Duration = Duration::from_millis(50);

/// Calls to a process, at all of its addresses.
struct Calls {
    addresses: Vec<SocketAddr>,
    next: usize,
    when: Instant,
    under_way: Vec<Meeting>,
    why: String,
}

impl Calls {
    /// Does what can be done now; the connection, if one leads there.
    fn go_on(&mut self, identity: &Identity, peer: u32) -> Option<Meeting> {
        if self.when <= Instant::now() && self.next < self.addresses.len() {
            match Meeting::dial(identity, peer, self.addresses[self.next]) {
                Ok(meeting) => {
                    headroom::keep(&meeting);
                    self.under_way.push(meeting);
                }
                Err(e) => self.why = e.to_string(),
            }
            self.next += 1;
            self.when = Instant::now() + STAGGER;
        }
        for i in (0..self.under_way.len()).rev() {
            match self.under_way[i].go_on(identity, |_| false) {
                Met::Waits => {}
                Met::With(_) => return Some(self.under_way.swap_remove(i)),
                Met::Noted(..) => drop(self.under_way.swap_remove(i)),
                Met::Not(why) => {
                    let remote = self.under_way.swap_remove(i).remote();
                    self.why = format!("{remote}: {why}");
                }
            }
        }
        if self.under_way.is_empty() && self.next >= self.addresses.len() {
            (self.next, self.when) = (0, Instant::now() + STAGGER);
        }
        None
    }
}

impl Far {
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
        let mut far = Far {
            rank,
            identity,
            reception,
            addresses,
            links: BTreeMap::new(),
            knocks: BTreeMap::new(),
            dials: BTreeMap::new(),
            closing: Vec::new(),
            early: Vec::new(),
            deaf: false,
        };
        let begin = Instant::now();
        let mut calls = BTreeMap::new();
        for (&peer, address) in far.addresses.range(rank + 1..) {
            let calling = Calls {
                addresses: far.reception.candidates(address),
                next: 0,
                when: begin,
                under_way: Vec::new(),
                why: "no answer".to_owned(),
            };
            if calling.addresses.is_empty() {
                return Err(format!("rank {peer} gave no address that leads to it"));
            }
            calls.insert(peer, calling);
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
        while let Ok(Some(meeting)) = self.reception.accept(&self.identity) {
            headroom::keep(&meeting);
            self.take_in(*knock, meeting);
            *knock += 1;
        }
        let knocks: Vec<u32> = self.knocks.keys().copied().collect();
        for id in knocks {
            let Far {
                rank,
                addresses,
                links,
                knocks,
                identity,
                ..
            } = &mut *self;
            let welcome =
                |p: u32| p < *rank && addresses.contains_key(&p) && !links.contains_key(&p);
            let Some(meeting) = knocks.get_mut(&id) else {
                continue;
            };
            let met = meeting.go_on(identity, welcome);
            let Some(meeting) = (match met {
                Met::Waits => None,
                _ => self.knocks.remove(&id),
            }) else {
                continue;
            };
            match met {
                Met::With(peer) => drop(self.links.insert(peer, Link::new(meeting))),
                Met::Noted(peer, words) if self.addresses.contains_key(&peer) => {
                    self.early.push((peer, words, meeting.into_socket()));
                }
                _ => {}
            }
        }
    }

    /// Waits, while this process joins, until something can go on.
    fn wait(&self, calls: &BTreeMap<u32, Calls>) {
        let mut fds = vec![PollFd::new(&self.reception, PollFlags::IN)];
        fds.extend(self.knocks.values().map(|k| PollFd::new(k, PollFlags::IN)));
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
