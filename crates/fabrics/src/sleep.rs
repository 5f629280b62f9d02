//! One wait for all fabrics: on the doorbell alone, or on the doorbell's socket and the network's
//! descriptor together.

use std::fmt;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use mtmi::{Fabric, Patience, Sleeper as _};
use rustix::event::{PollFd, PollFlags, poll};
use shm::Shm;
use sys::knock::Knocks;
use tcp::Tcp;

use crate::routes::Fabrics;

/// Longest sleep while there is a network: it has timers of its own (connects that are tried again,
/// peers that no longer acknowledge), which `progress` looks at.
const LOOK: Duration = Duration::from_millis(500);

/// Looks after a yield while there is a network: each is a system call and costs as much as ten at memory, so that
/// with as many as those the 100 microseconds before a sleep were a millisecond.
const LOOKS: u32 = 2;

/// What threads sleep on while others use the fabrics.
#[derive(Clone, Debug)]
pub struct Sleeper {
    bell: shm::Sleeper,
    sockets: Option<Arc<Sockets>>,
}

/// What to poll where there is a network.
struct Sockets {
    knocks: Knocks,
    network: OwnedFd,
}

impl fmt::Debug for Sockets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sockets")
    }
}

impl Sockets {
    /// Sleeps until one of the sockets has something, or the deadline.
    fn sleep(&self, deadline: Option<Instant>) {
        let look = sys::clock::after(LOOK);
        let until = match (deadline, look) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        let mut fds = [
            PollFd::new(&self.knocks, PollFlags::IN),
            PollFd::new(&self.network, PollFlags::IN),
        ];
        // An interruption is an early return like any other.
        let _ = poll(&mut fds, sys::clock::timespec_left(until).as_ref());
        self.knocks.drain();
    }
}

impl Sleeper {
    /// Sleeps for these fabrics. It fails where the system has no descriptor left.
    pub(crate) fn new(shm: &Shm, tcp: Option<&Tcp>) -> std::io::Result<Sleeper> {
        let sockets = match tcp {
            None => None,
            Some(tcp) => Some(Arc::new(Sockets {
                knocks: shm.bell().listen()?,
                network: tcp.fd().as_fd().try_clone_to_owned()?,
            })),
        };
        Ok(Sleeper {
            bell: shm.sleeper(),
            sockets,
        })
    }
}

/// An announced sleep.
#[derive(Debug)]
pub struct Armed<'a> {
    bell: shm::Armed<'a>,
    sockets: Option<&'a Sockets>,
}

impl mtmi::Sleeper for Sleeper {
    type Armed<'a> = Armed<'a>;

    fn arm(&self) -> Armed<'_> {
        Armed {
            bell: self.bell.arm(),
            sockets: self.sockets.as_deref(),
        }
    }

    fn sleep(armed: Armed<'_>, deadline: Option<Instant>) {
        match armed.sockets {
            None => shm::Sleeper::sleep(armed.bell, deadline),
            Some(sockets) => sockets.sleep(deadline),
        }
    }

    fn wake(&self) {
        self.bell.wake();
    }
}

impl Fabrics {
    /// Waits until `progress` may find something to do or the deadline passes.
    pub(crate) fn wait_for_any(&mut self, deadline: Option<Instant>) {
        let Some(tcp) = &mut self.tcp else {
            return self.shm.wait(deadline);
        };
        let patience = self.shm.patience();
        let patience = Patience {
            polls: patience.polls.min(LOOKS),
            ..patience
        };
        tcp.share_processors(self.shm.shares_processors());
        if patience.poll(self, |f| f.ready(), |f| f.shm.give_way(), deadline) {
            return;
        }
        let sleeper = self.sleeper.clone();
        let armed = sleeper.arm();
        if !self.ready() {
            Sleeper::sleep(armed, deadline);
        }
    }
}
