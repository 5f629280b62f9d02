//! Watching sockets by epoll, edge-triggered.

use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

use crate::reactor::Event;

/// Events taken by one system call.
const BATCH: usize = 64;
/// Cycles between two questions where processes outnumber processors: a few microseconds, which each question in vain
/// would cost those that have something to do, and much less than being woken takes.
const REST: u64 = 10_000;
const NOW: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 0,
};

/// An epoll instance, and events that it told and nobody has taken.
pub(crate) struct Epoll {
    fd: OwnedFd,
    told: RefCell<Vec<Event>>,
    /// Whether a question that was answered with nothing is not put again at once,
    rests: bool,
    /// and when the last such answer came.
    answered: Cell<u64>,
}

fn all() -> EventFlags {
    EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET
}

impl Epoll {
    pub fn new() -> io::Result<Epoll> {
        Ok(Epoll {
            fd: epoll::create(CreateFlags::CLOEXEC)?,
            told: RefCell::new(Vec::new()),
            rests: false,
            answered: Cell::new(0),
        })
    }

    pub fn rest(&mut self, rests: bool) {
        self.rests = rests;
    }

    pub fn add(&self, fd: BorrowedFd<'_>, token: u64) -> io::Result<()> {
        Ok(epoll::add(&self.fd, fd, EventData::new_u64(token), all())?)
    }

    pub fn rename(&mut self, fd: BorrowedFd<'_>, _old: u64, new: u64) -> io::Result<()> {
        Ok(epoll::modify(&self.fd, fd, EventData::new_u64(new), all())?)
    }

    pub fn remove(&mut self, fd: BorrowedFd<'_>, _token: u64) {
        // A forked child may hold the socket too, so closing it here would not end the watch.
        let _ = epoll::delete(&self.fd, fd);
    }

    #[inline]
    pub fn ready(&self) -> bool {
        let mut told = self.told.borrow_mut();
        if told.is_empty() {
            self.ask(&mut told);
        }
        !told.is_empty()
    }

    #[inline]
    pub fn take(&mut self, events: &mut Vec<Event>) {
        let told = self.told.get_mut();
        if told.is_empty() {
            self.ask(&mut self.told.borrow_mut());
        }
        events.append(self.told.get_mut());
    }

    fn ask(&self, told: &mut Vec<Event>) {
        if self.rests && sys::clock::cycles().wrapping_sub(self.answered.get()) < REST {
            // Whoever sleeps upon this is woken at once if there is something: the descriptor tells `poll`.
            return;
        }
        let mut batch = [epoll::Event {
            flags: EventFlags::empty(),
            data: EventData::new_u64(0),
        }; BATCH];
        // A signal, or anything else that can go wrong, looks like no event yet.
        let n = epoll::wait(&self.fd, &mut batch[..], Some(&NOW)).unwrap_or(0);
        if self.rests && n == 0 {
            self.answered.set(sys::clock::cycles());
        }
        let news = batch.iter().take(n).map(|e| {
            let flags = e.flags;
            let hung = EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR;
            Event {
                token: e.data.u64(),
                readable: flags.contains(EventFlags::IN),
                writable: flags.contains(EventFlags::OUT),
                hung: flags.intersects(hung),
            }
        });
        told.extend(news);
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
    use std::time::{Duration, Instant};

    /// Questions that are left out lose nothing: `poll` tells at once, and a later question.
    #[test]
    fn a_rest_hides_no_event() {
        let mut epoll = Epoll::new().unwrap();
        epoll.rest(true);
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap();
        epoll.add(bell.as_fd(), 7).unwrap();
        let mut events = Vec::new();
        let mut readable = |epoll: &mut Epoll| {
            epoll.take(&mut events);
            events.drain(..).any(|e| e.token == 7 && e.readable)
        };
        for _ in 0..100 {
            assert!(!readable(&mut epoll));
            rustix::io::write(&bell, &1u64.to_ne_bytes()).unwrap();
            let mut fds = [PollFd::from_borrowed_fd(epoll.fd(), PollFlags::IN)];
            assert_eq!(poll(&mut fds, Some(&NOW)).unwrap(), 1);
            let end = Instant::now() + Duration::from_secs(10);
            while !readable(&mut epoll) {
                assert!(Instant::now() < end, "no event");
            }
            rustix::io::read(&bell, &mut [0; 8]).unwrap();
        }
    }
}
