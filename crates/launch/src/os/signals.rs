//! Signals as readable events: blocked, and read from a signalfd.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// A set of signals that are blocked before and restored in children.
#[derive(Clone, Copy)]
pub struct Mask(pub(super) libc::sigset_t);

/// Blocked signals, read one by one.
pub struct Signals {
    fd: OwnedFd,
}

impl Signals {
    /// Blocks `block` and makes those in `read` readable. Returns the mask as it was before.
    pub fn new(block: &[i32], read: &[i32]) -> io::Result<(Signals, Mask)> {
        let (block, read) = (set_of(block), set_of(read));
        let mut before = MaybeUninit::uninit();
        // SAFETY: both sets are initialised; the kernel fills `before`.
        let rc =
            unsafe { libc::sigprocmask(libc::SIG_BLOCK, &raw const block, before.as_mut_ptr()) };
        if rc != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: filled by the successful call above.
        let before = unsafe { before.assume_init() };
        // SAFETY: the set is initialised.
        let fd =
            unsafe { libc::signalfd(-1, &raw const read, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a fresh descriptor that nobody else owns.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok((Signals { fd }, Mask(before)))
    }

    /// The next signal that has arrived.
    pub fn next(&self) -> Option<i32> {
        let mut info = MaybeUninit::<libc::signalfd_siginfo>::uninit();
        let size = size_of::<libc::signalfd_siginfo>();
        // SAFETY: the buffer is as large as the read says.
        let got = unsafe { libc::read(self.fd.as_raw_fd(), info.as_mut_ptr().cast(), size) };
        if usize::try_from(got) != Ok(size) {
            return None;
        }
        // SAFETY: the kernel wrote the whole structure, which is made of integers.
        i32::try_from(unsafe { info.assume_init() }.ssi_signo).ok()
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Whether the process was started with `signal` ignored (`nohup`), which must stay so.
pub fn is_ignored(signal: i32) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: asks only; the kernel fills `action`.
    if unsafe { libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr()) } != 0 {
        return false;
    }
    // SAFETY: filled by the successful call above.
    unsafe { action.assume_init() }.sa_sigaction == libc::SIG_IGN
}

/// Ignores `ignored`; gives the other signals of `all` their default effect back.
pub fn reset(all: &[i32], ignored: &[i32]) {
    for signal in all {
        let action = match ignored.contains(signal) {
            true => libc::SIG_IGN,
            false => libc::SIG_DFL,
        };
        // SAFETY: neither action runs code of this process.
        unsafe { libc::signal(*signal, action) };
    }
}

fn set_of(signals: &[i32]) -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: `sigemptyset` initialises the set; `sigaddset` refuses numbers out of range.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for signal in signals {
            libc::sigaddset(set.as_mut_ptr(), *signal);
        }
        set.assume_init()
    }
}

/// "SIGSEGV (Segmentation fault)".
pub fn describe(signal: i32) -> String {
    const NAMES: &[(i32, &str)] = &[
        (libc::SIGHUP, "SIGHUP"),
        (libc::SIGINT, "SIGINT"),
        (libc::SIGQUIT, "SIGQUIT"),
        (libc::SIGILL, "SIGILL"),
        (libc::SIGTRAP, "SIGTRAP"),
        (libc::SIGABRT, "SIGABRT"),
        (libc::SIGBUS, "SIGBUS"),
        (libc::SIGFPE, "SIGFPE"),
        (libc::SIGKILL, "SIGKILL"),
        (libc::SIGUSR1, "SIGUSR1"),
        (libc::SIGSEGV, "SIGSEGV"),
        (libc::SIGUSR2, "SIGUSR2"),
        (libc::SIGPIPE, "SIGPIPE"),
        (libc::SIGALRM, "SIGALRM"),
        (libc::SIGTERM, "SIGTERM"),
        (libc::SIGXCPU, "SIGXCPU"),
        (libc::SIGXFSZ, "SIGXFSZ"),
        (libc::SIGSYS, "SIGSYS"),
    ];
    match NAMES.iter().find(|(n, _)| *n == signal) {
        Some((n, name)) => format!("signal {n} ({name})"),
        None => format!("signal {signal}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blocked_signal_is_read() {
        let (signals, _) = Signals::new(&[libc::SIGURG], &[libc::SIGURG]).unwrap();
        assert_eq!(signals.next(), None);
        // SAFETY: sends this thread a signal that it blocks.
        unsafe { libc::pthread_kill(libc::pthread_self(), libc::SIGURG) };
        assert_eq!(signals.next(), Some(libc::SIGURG));
        assert!(!is_ignored(libc::SIGUSR2));
        assert_eq!(describe(libc::SIGSEGV), "signal 11 (SIGSEGV)");
        assert_eq!(describe(40), "signal 40");
    }
}
