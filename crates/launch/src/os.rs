//! The few operating-system calls that need `unsafe`: signals, `fork` and what a child does between
//! `fork` and `exec`. Everything else in this crate is safe code on top of rustix.

#![allow(unsafe_code)]

pub mod child;
pub mod signals;

use std::io;
use std::os::fd::RawFd;

/// An error's sentence without its number.
pub fn reason(error: impl Into<io::Error>) -> String {
    let text = error.into().to_string();
    text.split(" (os error").next().unwrap_or("").to_string()
}

/// What [`fork`] returns.
pub enum Side {
    /// In the new process.
    Child,
    /// In the old process, with the new one's number.
    Parent(i32),
}

/// Forks this process.
pub fn fork() -> io::Result<Side> {
    // SAFETY: the launcher has one thread, so the child is a complete copy: no lock is held by a
    // thread that does not exist there.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Side::Child),
        pid => Ok(Side::Parent(pid)),
    }
}

/// Ends this process at once, without exit handlers (which belong to the process it was forked from).
pub fn exit_now(code: i32) -> ! {
    // SAFETY: `_exit` does nothing but end the process.
    unsafe { libc::_exit(code) }
}

/// Makes orphaned descendants children of this process instead of init's, so that they can be found.
pub fn become_subreaper() -> io::Result<()> {
    // SAFETY: changes one attribute of this process and touches no memory.
    match unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Closes all descriptors from 3 but those in `keep`. For a process that was just forked and will do
/// nothing with what it got from its parent but with these.
pub fn close_others(mut keep: Vec<RawFd>) {
    keep.sort_unstable();
    let mut first: RawFd = 3;
    for last in keep.into_iter().map(|fd| fd - 1).chain([RawFd::MAX]) {
        if first <= last {
            close_range(first, last);
        }
        first = first.max(last.saturating_add(2));
    }
}

fn close_range(first: RawFd, last: RawFd) {
    // SAFETY: the caller sees to it that nobody in this process uses these descriptors any more.
    if unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) } == 0 {
        return;
    }
    // Linux before 5.9 does not know the call.
    for fd in first..=last.min(65_535) {
        // SAFETY: as above; descriptors that are not open are refused.
        unsafe { libc::close(fd) };
    }
}

/// A child that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reaped {
    /// This process ended with this wait status.
    Ended(i32, i32),
    /// There are children, but none has ended.
    Nobody,
    /// There are no children.
    NoChildren,
}

/// Collects one ended child, without waiting.
pub fn reap() -> Reaped {
    let mut status = 0;
    // SAFETY: `status` is a valid place for the result.
    match unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG) } {
        0 => Reaped::Nobody,
        pid if pid > 0 => Reaped::Ended(pid, status),
        _ if io::Error::last_os_error().raw_os_error() == Some(libc::EINTR) => Reaped::Nobody,
        _ => Reaped::NoChildren,
    }
}

/// Sends `signal` to a process, or to a process group if `target` is negative. A process that is
/// gone is no error: it needs no signal.
pub fn kill(target: i32, signal: i32) {
    // 0 and -1 would mean "my group" and "everybody".
    if target == 0 || target == -1 {
        return;
    }
    // SAFETY: sends a signal and touches no memory.
    unsafe { libc::kill(target, signal) };
}
