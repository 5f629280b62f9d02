//! One wait for all fabrics: on the doorbell alone, or on the doorbell's socket together with the network's
//! descriptor and any that its owner added.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
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
/// with as many as those the 100 microseconds before a sleep were a millisecond. For the same reason nobody lingers.
const LOOKS: u32 = 2;

/// What threads sleep on while others use the fabrics.
#[derive(Clone, Debug)]
pub struct Sleeper {
    bell: shm::Sleeper,
    sockets: Option<Arc<Sockets>>,
}

/// What to poll where the doorbell is not all.
struct Sockets {
    knocks: Knocks,
    /// The network's descriptor, and any other.
    others: Vec<OwnedFd>,
    /// Threads that announced a sleep. Whoever is the last to end one forgets the knocks, so that a knock ends the sleep of all of
    /// them, as a futex would.
    sleepers: Mutex<u32>,
}

impl fmt::Debug for Sockets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sockets")
    }
}

impl Sockets {
    fn new(knocks: Knocks, fd: OwnedFd) -> Sockets {
        Sockets {
            knocks,
            others: vec![fd],
            sleepers: Mutex::new(0),
        }
    }

    fn sleepers(&self) -> MutexGuard<'_, u32> {
        self.sleepers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Announces a sleep: no knock from here on is forgotten before its end.
    fn announce(&self) -> Announced<'_> {
        *self.sleepers() += 1;
        Announced(self)
    }

    /// Sleeps until one of the sockets has something, or the deadline.
    fn sleep(&self, deadline: Option<Instant>) {
        let look = sys::clock::after(LOOK);
        let until = match (deadline, look) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        let mut fds = vec![PollFd::new(&self.knocks, PollFlags::IN)];
        let others = self.others.iter();
        fds.extend(others.map(|fd| PollFd::new(fd, PollFlags::IN)));
        // An interruption is an early return like any other.
        let _ = poll(&mut fds, sys::clock::timespec_left(until).as_ref());
    }

    /// Lets those run that the same knock has woken: until they have, it ends every sleep at once, and what woke them may be theirs.
    fn let_others_wake(&self) {
        if *self.sleepers() > 0 {
            std::thread::yield_now();
        }
    }
}

/// One thread's sleep on the sockets, from before it looks for the last time.
#[derive(Debug)]
struct Announced<'a>(&'a Sockets);

impl Drop for Announced<'_> {
    fn drop(&mut self) {
        let mut sleepers = self.0.sleepers();
        *sleepers -= 1;
        if *sleepers == 0 {
            self.0.knocks.drain();
        }
    }
}

impl Sleeper {
    /// Sleeps for these fabrics. It fails where the system has no descriptor left.
    pub(crate) fn new(shm: &Shm, tcp: Option<&Tcp>) -> io::Result<Sleeper> {
        let mut sleeper = Sleeper {
            bell: shm.sleeper(),
            sockets: None,
        };
        match tcp {
            None => Ok(sleeper),
            Some(tcp) => sleeper.add(shm, tcp.fd().as_fd()).map(|()| sleeper),
        }
    }

    /// Sleeps on this descriptor too, before anybody has slept.
    fn add(&mut self, shm: &Shm, fd: BorrowedFd<'_>) -> io::Result<()> {
        let fd = fd.try_clone_to_owned()?;
        match &mut self.sockets {
            None => {
                let sockets = Sockets::new(shm.bell().listen()?, fd);
                self.sockets = Some(Arc::new(sockets));
            }
            Some(sockets) => match Arc::get_mut(sockets) {
                Some(sockets) => sockets.others.push(fd),
                None => return Err(io::ErrorKind::ResourceBusy.into()),
            },
        }
        Ok(())
    }
}

/// An announced sleep.
#[derive(Debug)]
pub struct Armed<'a> {
    bell: shm::Armed<'a>,
    sockets: Option<Announced<'a>>,
}

impl mtmi::Sleeper for Sleeper {
    type Armed<'a> = Armed<'a>;

    fn arm(&self) -> Armed<'_> {
        // In this order: whoever sees the bell armed knocks.
        let sockets = self.sockets.as_deref().map(Sockets::announce);
        let bell = self.bell.arm();
        Armed { bell, sockets }
    }

    fn sleep(armed: Armed<'_>, deadline: Option<Instant>) {
        match &armed.sockets {
            None => shm::Sleeper::sleep(armed.bell, deadline),
            Some(announced) => {
                announced.0.sleep(deadline);
                let sockets = announced.0;
                drop(armed);
                sockets.let_others_wake();
            }
        }
    }

    fn wake(&self) {
        self.bell.wake();
    }
}

impl Fabrics {
    /// Has sleeps end also when this descriptor becomes readable. To be called before anybody has slept.
    ///
    /// # Errors
    /// The system has no descriptor left, or somebody sleeps already.
    pub fn sleep_on_too(&mut self, fd: BorrowedFd<'_>) -> io::Result<()> {
        self.sleeper.add(&self.shm, fd)
    }

    /// How long to poll before a sleep, whatever else is looked at meanwhile.
    pub(crate) fn patience_for_all(&mut self) -> Patience {
        let patience = self.shm.patience();
        let Some(tcp) = &mut self.tcp else {
            return patience;
        };
        tcp.share_processors(self.shm.shares_processors());
        let spin = match self.neighbours.are_there() {
            true => Duration::ZERO,
            false => patience.spin,
        };
        Patience {
            spin,
            polls: patience.polls.min(LOOKS),
            least: Duration::ZERO,
            ..patience
        }
    }

    /// Lets others have the processor while this process polls. Which processor a peer beyond this machine's segment is on nobody knows here, and
    /// it may be this one: ranks of another container, or of another network namespace. Beside looks that are system calls a yield costs little.
    pub(crate) fn give_way_to_all(&mut self) {
        self.shm.give_way();
        if self.may_have_neighbours() {
            self.neighbours.give_way();
        }
    }

    /// Whether ranks that nobody here knows of may share this processor. Where known ones do, giving way to these is giving way to all.
    fn may_have_neighbours(&self) -> bool {
        self.tcp.is_some() && !self.shm.shares_processors()
    }

    /// A thread of this process gave way by itself, and had the processor again after so many [cycles](sys::clock::cycles).
    pub fn gave_way(&mut self, cycles: u64) {
        if self.may_have_neighbours() {
            self.neighbours.note(cycles);
        }
    }

    /// Waits until `progress` may find something to do or the deadline passes.
    pub(crate) fn wait_for_any(&mut self, deadline: Option<Instant>) {
        if self.sleeper.sockets.is_none() {
            return self.shm.wait(deadline);
        }
        let patience = self.patience_for_all();
        if patience.poll(self, |f| f.ready(), Fabrics::give_way_to_all, deadline) {
            return;
        }
        let sleeper = self.sleeper.clone();
        let armed = sleeper.arm();
        if !self.ready() {
            Sleeper::sleep(armed, deadline);
        }
    }
}

#[cfg(test)]
mod tests {
    use sys::doorbell::Doorbell;

    use super::*;

    fn knocked(sockets: &Sockets) -> bool {
        let now = rustix::event::Timespec::default();
        let mut fds = [PollFd::new(&sockets.knocks, PollFlags::IN)];
        poll(&mut fds, Some(&now)) == Ok(1)
    }

    /// A knock that one of several sleeping threads forgot would leave the others asleep.
    #[test]
    fn a_knock_ends_the_sleep_of_all_threads() {
        let bell = Doorbell::new();
        bell.open();
        let (silent, _writer) = rustix::pipe::pipe().unwrap();
        let sockets = Sockets::new(bell.listen().unwrap(), silent);
        let minute = sys::clock::after(Duration::from_secs(60));
        let armed = [0; 3].map(|_| (sockets.announce(), bell.prepare()));
        bell.ring();
        for (announced, prepared) in armed {
            assert!(knocked(&sockets));
            announced.0.sleep(minute);
            drop((prepared, announced));
        }
        assert!(!knocked(&sockets));
    }
}
