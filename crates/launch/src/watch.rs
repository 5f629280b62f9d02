//! One round of `poll`: what to wait for, and what has happened.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

/// Descriptors to wait for, each with a token that says what it is.
pub struct Watch<'a, T> {
    tokens: Vec<T>,
    fds: Vec<PollFd<'a>>,
}

impl<'a, T> Watch<'a, T> {
    /// Nothing yet.
    pub fn new() -> Watch<'a, T> {
        Watch {
            tokens: Vec::new(),
            fds: Vec::new(),
        }
    }

    /// Adds a descriptor. With no flags only its errors and its end count.
    pub fn add(&mut self, fd: BorrowedFd<'a>, flags: PollFlags, token: T) {
        self.tokens.push(token);
        self.fds.push(PollFd::from_borrowed_fd(fd, flags));
    }

    /// Waits until something happens or `deadline`, and tells what happened.
    pub fn wait(mut self, deadline: Option<Instant>) -> Vec<T> {
        let limit = deadline.map(|d| timespec(d.saturating_duration_since(Instant::now())));
        // An interruption is no event; the caller comes back.
        if poll(&mut self.fds, limit.as_ref()).is_err() {
            return Vec::new();
        }
        let ready = self.fds.iter().map(|fd| !fd.revents().is_empty());
        self.tokens
            .into_iter()
            .zip(ready)
            .filter_map(|(token, ready)| ready.then_some(token))
            .collect()
    }
}

/// Whether `fd` takes bytes now.
pub fn is_writable(fd: BorrowedFd<'_>) -> bool {
    let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::OUT)];
    poll(&mut fds, Some(&timespec(Duration::ZERO))) == Ok(1)
}

fn timespec(duration: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(duration.subsec_nanos()),
    }
}
