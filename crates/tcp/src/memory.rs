//! The system calls that read and write callers' memory, and the one that asks how a connection is.
//!
//! The `unsafe` of this crate but for the ring's (`uring`). The safe functions around it are as valid as what the makers of a
//! [`UserBuf`] promised: memory that is valid for the operation it belongs to. They are called with the
//! buffer of an operation that has not completed, and return before it can.

use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

use boundary::UserBuf;
use rustix::io::{Errno, Result};

fn outcome(n: isize) -> Result<usize> {
    match usize::try_from(n) {
        Ok(n) => Ok(n),
        Err(_) => Err(std::io::Error::last_os_error()
            .raw_os_error()
            .map_or(Errno::IO, Errno::from_raw_os_error)),
    }
}

fn pieces(first: (*mut u8, usize), second: (*mut u8, usize)) -> [libc::iovec; 2] {
    [first, second].map(|(base, len)| libc::iovec {
        iov_base: base.cast(),
        iov_len: len,
    })
}

/// Sends `staged` and what follows it in a caller's memory, as far as the kernel takes it now.
#[inline]
pub(crate) fn send(
    fd: BorrowedFd<'_>,
    staged: &[u8],
    (buf, len): (UserBuf, usize),
) -> Result<usize> {
    let mut pieces = pieces(
        (staged.as_ptr().cast_mut(), staged.len()),
        (buf.as_mut_ptr(), len),
    );
    let skip = usize::from(staged.is_empty());
    // SAFETY: all-zero bytes are a valid header: no name, no control data, no pieces.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = pieces[skip..].as_mut_ptr();
    header.msg_iovlen = (2 - skip) as _;
    let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
    // SAFETY: the header's pieces live until the call returns and are only read; `staged` is ours, `buf` is
    // valid for `len` bytes by its maker's promise, as the operation it belongs to has not completed.
    outcome(unsafe { libc::sendmsg(fd.as_raw_fd(), &raw const header, flags) })
}

/// Reads what is there: first to a caller's memory, then into `staging`.
#[inline]
pub(crate) fn receive(
    fd: BorrowedFd<'_>,
    (buf, len): (UserBuf, usize),
    staging: &mut [u8],
) -> Result<usize> {
    let mut pieces = pieces(
        (buf.as_mut_ptr(), len),
        (staging.as_mut_ptr(), staging.len()),
    );
    // SAFETY: as in `send`.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = pieces.as_mut_ptr();
    header.msg_iovlen = 2;
    // SAFETY: the header's pieces live until the call returns; `staging` is borrowed for writing, `buf` is valid
    // for `len` bytes by its maker's promise, as the receive it belongs to has not completed.
    outcome(unsafe { libc::recvmsg(fd.as_raw_fd(), &raw mut header, libc::MSG_DONTWAIT) })
}

/// How a connection is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Pulse {
    /// Whether the other end has not confirmed all that was sent.
    pub unconfirmed: bool,
    /// Whether it leaves packets, or questions whether its window has opened, without an answer.
    pub silent: bool,
    /// Milliseconds since it last confirmed anything.
    pub last_ms: u32,
}

/// Asks the kernel how a connection is; `None` if it doesn't say.
pub(crate) fn pulse(fd: BorrowedFd<'_>) -> Option<Pulse> {
    let mut info = MaybeUninit::<libc::tcp_info>::zeroed();
    let mut len = size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes to `info`, which has so many.
    let rc = unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut len,
        )
    };
    if rc != 0 {
        return None;
    }
    // SAFETY: the memory was zeroed, and all bytes are valid for its fields, which are integers.
    let info = unsafe { info.assume_init() };
    Some(Pulse {
        unconfirmed: info.tcpi_unacked > 0 || info.tcpi_notsent_bytes > 0,
        // One question may be on its way; three without an answer are silence.
        silent: info.tcpi_unacked > 0 || info.tcpi_probes >= 3,
        last_ms: info.tcpi_last_ack_recv,
    })
}

/// A limit of a connection that the kernel keeps.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Limit {
    /// Bytes taken beyond what can be sent now.
    Unsent,
    /// Milliseconds between two attempts to send the same (Linux 6.15).
    Resend,
}

/// The round trip that the kernel has measured on a connection, by its handshake at first.
pub(crate) fn round_trip(fd: BorrowedFd<'_>) -> Result<Duration> {
    // SAFETY: integers, of which every bit pattern is valid.
    let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
    let mut bytes = size_of_val(&info) as libc::socklen_t;
    // SAFETY: the kernel writes at most `bytes` bytes to `info`, and how many to `bytes`.
    let rc = unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            (&raw mut info).cast(),
            &raw mut bytes,
        )
    };
    outcome(rc as isize).map(|_| Duration::from_micros(info.tcpi_rtt.into()))
}

/// Sets such a limit.
pub(crate) fn set_limit(fd: BorrowedFd<'_>, limit: Limit, value: u32) -> Result<()> {
    /// `TCP_RTO_MAX_MS`, which is too new for the `libc` crate.
    const RTO_MAX_MS: libc::c_int = 44;
    let option = match limit {
        Limit::Unsent => libc::TCP_NOTSENT_LOWAT,
        Limit::Resend => RTO_MAX_MS,
    };
    // SAFETY: the option's value is the integer that `value` is, and is only read.
    let rc = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            libc::IPPROTO_TCP,
            option,
            (&raw const value).cast(),
            size_of::<u32>() as libc::socklen_t,
        )
    };
    outcome(rc as isize).map(|_| ())
}
