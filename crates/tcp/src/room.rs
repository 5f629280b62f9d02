//! Descriptors: each connection is one, and a process may open only so many.
//!
//! The soft limit is raised when the process joins. Where there is no descriptor all the same for a connection that is wanted,
//! callers that prove nothing go first. If that does not help for [`PATIENCE`], peers without a connection will not have one: they count as
//! failed, with a sentence that says what to do, and who calls from now on is refused, so that his patience ends, too.
//!
//! Told of by `accept` and `dial`, whenever they find no room.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use mtmi::Queues;
use rustix::io::Errno;
use rustix::net::{Shutdown, shutdown};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::Tcp;
use crate::state::LISTENER;
use crate::timers::Timer;

/// Descriptors that are left to the program and to callers that have proved nothing.
const SPARE: u64 = 512;
/// Handshakes that should find room at a time, for the limit that is recommended.
const HANDSHAKES: u64 = 16;
/// How long there is no room before that counts: a program may close files, and attempts at addresses end.
const PATIENCE: Duration = Duration::from_secs(4);
/// How often that is looked at.
const LOOK: Duration = Duration::from_secs(1);
/// A shortage of which nothing was seen for so long is over: whoever lacks a descriptor tries again every second.
const OVER: Duration = Duration::from_secs(2);
/// With so many callers that have proved nothing it is them who take the descriptors.
const CROWD: usize = 16;

/// There is no descriptor for a connection that is wanted.
pub(crate) struct Shortage {
    /// In active time, since when
    since: Duration,
    /// and when it was last seen.
    last: Duration,
    why: Errno,
}

impl Tcp {
    /// There was no room for a connection.
    #[cold]
    pub(crate) fn found_no_room(&mut self, why: Errno) {
        if self.strangers.present >= CROWD {
            return;
        }
        let now = self.active.now();
        match &mut self.shortage {
            Some(shortage) => shortage.last = now,
            None => {
                let (since, last) = (now, now);
                self.shortage = Some(Shortage { since, last, why });
                self.timers.set(LOOK, Timer::Room);
            }
        }
    }

    /// Looks whether a shortage is over or lasts for too long.
    pub(crate) fn room_timer(&mut self, queues: &mut Queues) {
        let now = self.active.now();
        let Some(shortage) = &self.shortage else {
            return;
        };
        if now.saturating_sub(shortage.last) > OVER {
            self.shortage = None;
        } else if now.saturating_sub(shortage.since) < PATIENCE {
            self.timers.set(LOOK, Timer::Room);
        } else {
            let why = shortage.why;
            self.shortage = None;
            self.do_without(queues, why);
        }
    }

    /// Gives up all peers that there is no connection to.
    fn do_without(&mut self, queues: &mut Queues, e: Errno) {
        let peers = (0u32..).zip(&self.routes);
        let missing: Vec<u32> = peers
            .filter(|(peer, route)| {
                let failed = self.protocol.links[*peer as usize].failed;
                route.address.is_some() && route.stream.is_none() && !failed
            })
            .map(|(peer, _)| peer)
            .collect();
        if missing.is_empty() {
            return;
        }
        let why = self.shortage_text(e, missing.len() as u64);
        self.deaf = true;
        self.reactor.remove(self.listener.as_fd(), LISTENER);
        // Closes what waits there, and whoever calls is refused.
        let _ = shutdown(&self.listener, Shutdown::Both);
        let (count, version) = (missing.len(), &self.job.version);
        sys::say::line(&format!(
            "yamabiko {version}: {why}; {count} peers are given up"
        ));
        for peer in missing {
            self.close_attempts(peer);
            self.routes[peer as usize].dial = None;
            self.fail(queues, peer, why.clone());
        }
    }

    fn shortage_text(&self, e: Errno, missing: u64) -> String {
        let me = self.job.me;
        let limit = getrlimit(Resource::Nofile).current;
        let (Errno::MFILE, Some(limit)) = (e, limit) else {
            let e = io::Error::from(e);
            return format!("rank {me} can make no more connections: {e}");
        };
        let unproved = self.callers.iter().count() as u64;
        let needed = limit.saturating_sub(unproved) + missing + HANDSHAKES;
        format!(
            "rank {me} can make no more connections, for it may open only {limit} files and all are in use; \
             raise the limit on its host to {needed} or more (ulimit -n {needed}; ulimit -H -n shows how far it can be raised)"
        )
    }
}

/// Raises the soft limit of open files where so many connections need it, as far as it goes.
pub(crate) fn make_room(peers: u64) {
    let limit = getrlimit(Resource::Nofile);
    let needed = peers + SPARE;
    if limit.current.is_some_and(|now| now < needed) {
        let current = Some(limit.maximum.map_or(needed, |most| most.min(needed)));
        let maximum = limit.maximum;
        // If it is refused, connections may fail later and say so.
        let _ = setrlimit(Resource::Nofile, Rlimit { current, maximum });
    }
}
