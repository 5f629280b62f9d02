//! Watching sockets: one of two ways, chosen at start.
//!
//! Epoll unless io_uring is asked for: a ring tells of events without a system call, but makes one of its own of
//! every packet (the poll's completion, run with the receiver's next call), and a connection in use is read without
//! asking anyway. 8 bytes one way between two hosts took 4.4 to 4.7 us with epoll, 4.9 to 5.2 with io_uring and
//! 4.0 to 4.3 over plain sockets; 1 MiB took the same with both.
//!
//! Both tell *changes*: a socket that became readable, writable or closed is told once, with the token it was added
//! with. Whoever takes an event reads until there is nothing left, or remembers that there is.

use std::io;
use std::os::fd::BorrowedFd;

use crate::config::ReactorKind;
use crate::epoll::Epoll;
use crate::uring::Uring;

/// What happened to a socket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Event {
    pub token: u64,
    pub readable: bool,
    pub writable: bool,
    /// The other end sends no more, or the connection is broken.
    pub hung: bool,
}

/// What watches the sockets.
pub(crate) enum Reactor {
    Epoll(Epoll),
    Uring(Box<Uring>),
}

macro_rules! either {
    ($self:expr, $one:ident => $what:expr) => {
        match $self {
            Reactor::Epoll($one) => $what,
            Reactor::Uring($one) => $what,
        }
    };
}

/// Whether this system lets a process watch its sockets so, for `yamabiko info`.
pub fn is_allowed_here(kind: ReactorKind) -> bool {
    Reactor::new(Some(kind)).is_ok()
}

impl Reactor {
    /// The one asked for.
    pub fn new(kind: Option<ReactorKind>) -> io::Result<Reactor> {
        match kind {
            None | Some(ReactorKind::Epoll) => Ok(Reactor::Epoll(Epoll::new()?)),
            Some(ReactorKind::IoUring) => Ok(Reactor::Uring(Box::new(Uring::new()?))),
        }
    }

    /// Which one it is.
    pub fn kind(&self) -> ReactorKind {
        match self {
            Reactor::Epoll(_) => ReactorKind::Epoll,
            Reactor::Uring(_) => ReactorKind::IoUring,
        }
    }

    /// Tells when an established connection takes data that did not before.
    pub fn await_room(&mut self, fd: BorrowedFd<'_>, token: u64) {
        match self {
            // It tells every change anyway.
            Reactor::Epoll(_) => {}
            Reactor::Uring(ring) => ring.await_room(fd, token),
        }
    }

    /// Whether to ask the kernel less often, once it had nothing to tell.
    pub fn rest(&mut self, rests: bool) {
        match self {
            Reactor::Epoll(epoll) => epoll.rest(rests),
            // It is asked by looking at memory.
            Reactor::Uring(_) => {}
        }
    }

    /// Watches a socket.
    pub fn add(&mut self, fd: BorrowedFd<'_>, token: u64) -> io::Result<()> {
        either!(self, r => r.add(fd, token))
    }

    /// Watches a socket again that was [removed](Reactor::remove) for a while and is still open. What is there already is told. Only epoll's
    /// are.
    pub fn watch_again(&self, fd: BorrowedFd<'_>, token: u64) -> io::Result<()> {
        match self {
            Reactor::Epoll(epoll) => epoll.add(fd, token),
            Reactor::Uring(_) => Ok(()),
        }
    }

    /// Gives a watched socket, whose connection is now established, another token. What is there already is told
    /// again.
    pub fn rename(&mut self, fd: BorrowedFd<'_>, old: u64, new: u64) -> io::Result<()> {
        either!(self, r => r.rename(fd, old, new))
    }

    /// Watches a socket no longer; to be called before it is closed.
    pub fn remove(&mut self, fd: BorrowedFd<'_>, token: u64) {
        either!(self, r => r.remove(fd, token));
    }

    /// Whether there are events.
    #[inline]
    pub fn ready(&self) -> bool {
        either!(self, r => r.ready())
    }

    /// Moves the events that are there to `events`.
    #[inline]
    pub fn take(&mut self, events: &mut Vec<Event>) {
        either!(self, r => r.take(events));
    }

    /// Whether the next system call, whichever it is, will bring events.
    #[inline]
    pub fn hesitates(&mut self) -> bool {
        match self {
            Reactor::Epoll(_) => false,
            Reactor::Uring(ring) => ring.hesitates(),
        }
    }

    /// Makes a system call for that.
    pub fn urge(&mut self) {
        if let Reactor::Uring(ring) = self {
            ring.urge();
        }
    }

    /// What to sleep on: readable for `poll` while there are events.
    pub fn fd(&self) -> BorrowedFd<'_> {
        either!(self, r => r.fd())
    }
}
