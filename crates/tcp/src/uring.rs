//! Watching sockets by io_uring: one multishot poll each, whose completions appear in memory.
//!
//! The kernel appends them when the thread that began the watch enters it, or is interrupted by the clock.
//! So a thread that sleeps on the ring while that one computes may hear of something some milliseconds late.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};

use io_uring::{IoUring, cqueue, opcode, squeue, types};
use rustix::event::{EventfdFlags, eventfd};

use crate::reactor::Event;
use crate::state::LISTENER;

/// Submissions at a time; each is handed to the kernel at once.
const SUBMISSIONS: u32 = 16;
/// Completions that fit: the kernel keeps more for later, at some cost.
const COMPLETIONS: u32 = 4096;
/// The token of operations whose completion nobody waits for.
const NOBODY: u64 = u64::MAX - 1;

/// Added to the token of a wait for room.
const ROOM: u64 = 1 << 62;

/// What is watched of an established connection. That it takes data is always true of it, and would be told
/// with every packet that comes; so that is asked for only when it did not.
const STREAM: u32 = (libc::POLLIN | libc::POLLRDHUP) as u32;
/// What is watched of others.
const CALLER: u32 = STREAM | libc::POLLOUT as u32;
const HUNG: i32 = (libc::POLLRDHUP | libc::POLLHUP | libc::POLLERR) as i32;

/// A ring, and what it told.
pub(crate) struct Uring {
    inner: RefCell<Inner>,
    fd: OwnedFd,
}

struct Inner {
    ring: IoUring,
    /// What is watched, by token, and for what.
    watched: HashMap<u64, (RawFd, u32)>,
    /// Events that nobody has taken.
    told: Vec<Event>,
}

impl Uring {
    /// # Errors
    /// Where the kernel has no io_uring, refuses it, or lacks multishot polls (before Linux 5.13).
    pub fn new() -> io::Result<Uring> {
        // Without an interrupt for each event (17 microseconds one way in place of 8, measured): a flag
        // in memory says that the kernel has something to tell at the next system call. Linux 5.19.
        let quiet = IoUring::builder()
            .setup_cqsize(COMPLETIONS)
            .setup_coop_taskrun()
            .setup_taskrun_flag()
            .build(SUBMISSIONS);
        let ring = match quiet {
            Err(e) if e.raw_os_error() == Some(libc::EINVAL) => IoUring::builder()
                .setup_cqsize(COMPLETIONS)
                .build(SUBMISSIONS)?,
            other => other?,
        };
        // SAFETY: the ring's descriptor is open while the ring lives; it is only duplicated here.
        let fd = unsafe { BorrowedFd::borrow_raw(ring.as_raw_fd()) }.try_clone_to_owned()?;
        let mut inner = Inner {
            ring,
            watched: HashMap::new(),
            told: Vec::new(),
        };
        inner.try_out()?;
        Ok(Uring {
            inner: RefCell::new(inner),
            fd,
        })
    }

    pub fn add(&mut self, fd: BorrowedFd<'_>, token: u64) -> io::Result<()> {
        self.inner.get_mut().add(fd, token, CALLER)
    }

    pub fn rename(&mut self, fd: BorrowedFd<'_>, old: u64, new: u64) -> io::Result<()> {
        self.remove(fd, old);
        self.inner.get_mut().add(fd, new, STREAM)
    }

    pub fn await_room(&mut self, fd: BorrowedFd<'_>, token: u64) {
        let poll = opcode::PollAdd::new(types::Fd(fd.as_raw_fd()), libc::POLLOUT as u32);
        let entry = poll.build().user_data(token | ROOM);
        let inner = self.inner.get_mut();
        if inner.submit(&entry).is_err() {
            // It is tried again.
            inner.told.push(room(token));
        }
    }

    pub fn remove(&mut self, _fd: BorrowedFd<'_>, token: u64) {
        let inner = self.inner.get_mut();
        if let Some((_, mask)) = inner.watched.remove(&token) {
            let rooms = [token | ROOM].into_iter().filter(|_| mask == STREAM);
            for token in std::iter::once(token).chain(rooms) {
                let entry = opcode::PollRemove::new(token).build().user_data(NOBODY);
                // If it fails, the watch ends with the connection.
                let _ = inner.submit(&entry);
            }
        }
    }

    #[inline]
    pub fn ready(&self) -> bool {
        let mut inner = self.inner.borrow_mut();
        inner.collect();
        !inner.told.is_empty() || inner.ring.submission().taskrun()
    }

    /// Whether the kernel has something to tell with the next system call.
    #[inline]
    pub fn hesitates(&mut self) -> bool {
        self.inner.get_mut().ring.submission().taskrun()
    }

    /// A system call for nothing else.
    pub fn urge(&mut self) {
        // If it fails, the next one will do.
        let _ = self.inner.get_mut().ring.submit();
    }

    #[inline]
    pub fn take(&mut self, events: &mut Vec<Event>) {
        let inner = self.inner.get_mut();
        inner.collect();
        events.append(&mut inner.told);
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        use std::os::fd::AsFd;
        self.fd.as_fd()
    }
}

/// A connection takes data again.
fn room(token: u64) -> Event {
    Event {
        token,
        readable: false,
        writable: true,
        hung: false,
    }
}

impl Inner {
    fn submit(&mut self, entry: &squeue::Entry) -> io::Result<()> {
        // SAFETY: the entries made here (polls and their removal) refer to no memory.
        let pushed = unsafe { self.ring.submission().push(entry) };
        pushed.map_err(|_| io::Error::from(io::ErrorKind::WouldBlock))?;
        loop {
            match self.ring.submit() {
                Ok(_) => return Ok(()),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
    }

    fn add(&mut self, fd: BorrowedFd<'_>, token: u64, mask: u32) -> io::Result<()> {
        self.watched.insert(token, (fd.as_raw_fd(), mask));
        self.watch(fd.as_raw_fd(), mask, token)
    }

    fn watch(&mut self, fd: RawFd, mask: u32, token: u64) -> io::Result<()> {
        let poll = opcode::PollAdd::new(types::Fd(fd), mask).multi(true);
        self.submit(&poll.build().user_data(token))
    }

    /// Whether multishot polls work, tried with a descriptor that is readable.
    fn try_out(&mut self) -> io::Result<()> {
        let bell = eventfd(1, EventfdFlags::CLOEXEC)?;
        self.watch(bell.as_raw_fd(), STREAM, NOBODY)?;
        let refused = || io::Error::from(io::ErrorKind::Unsupported);
        let first = self.ring.completion().next().ok_or_else(refused)?;
        if first.result() < 0 || !cqueue::more(first.flags()) {
            return Err(refused());
        }
        self.submit(&opcode::PollRemove::new(NOBODY).build().user_data(NOBODY))
    }

    /// Looks at the completions; a system call only where a watch has to be renewed.
    #[inline]
    fn collect(&mut self) {
        let mut ended = Vec::new();
        let mut some = false;
        for completion in self.ring.completion() {
            some = true;
            let (token, result) = (completion.user_data(), completion.result());
            // The listener's token has every bit.
            let (token, for_room) = match token {
                LISTENER => (token, false),
                _ => (token & !ROOM, token & ROOM != 0),
            };
            if !self.watched.contains_key(&token) {
                continue;
            }
            if for_room {
                self.told.push(room(token));
                continue;
            }
            if !cqueue::more(completion.flags()) {
                ended.push(token);
            }
            self.told.push(Event {
                token,
                readable: result < 0 || result & i32::from(libc::POLLIN) != 0,
                writable: result >= 0 && result & i32::from(libc::POLLOUT) != 0,
                hung: result < 0 || result & HUNG != 0,
            });
        }
        if some {
            self.renew(&ended);
        }
    }

    /// Watches again what the kernel no longer does: it may end a watch at any time, as when the thread that
    /// began it ends. Also fetches what did not fit the ring.
    #[cold]
    fn renew(&mut self, ended: &[u64]) {
        for token in ended {
            if let Some(&(fd, mask)) = self.watched.get(token) {
                // It would fail for lack of memory only; the event above makes its owner look once more.
                let _ = self.watch(fd, mask, *token);
            }
        }
        if self.ring.submission().cq_overflow() {
            let _ = self.ring.submit();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
    use std::os::fd::AsFd;

    /// Events come again and again, also after the thread that watched first has ended.
    #[test]
    fn watches_outlive_their_thread() {
        let kind = (AddressFamily::UNIX, SocketType::STREAM);
        let (a, b) = socketpair(kind.0, kind.1, SocketFlags::CLOEXEC, None).unwrap();
        let watch = a.as_fd();
        let Ok(mut ring) = Uring::new() else {
            // This system refuses io_uring; there is nothing to be tested.
            return;
        };
        let mut ring = std::thread::scope(|scope| {
            let first = scope.spawn(move || {
                ring.add(watch, 7).unwrap();
                ring
            });
            first.join().unwrap()
        });
        let mut events = Vec::new();
        for _ in 0..3 {
            rustix::io::write(&b, b"x").unwrap();
            let end = std::time::Instant::now() + std::time::Duration::from_secs(10);
            while !events.iter().any(|e: &Event| e.token == 7 && e.readable) {
                ring.take(&mut events);
                assert!(std::time::Instant::now() < end, "no event");
            }
            rustix::io::read(&a, &mut [0; 8]).unwrap();
            events.clear();
        }
        ring.remove(a.as_fd(), 7);
        rustix::io::write(&b, b"x").unwrap();
        ring.take(&mut events);
        assert!(events.is_empty());
    }
}
