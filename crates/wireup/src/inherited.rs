//! Finds the launcher's socket among the inherited descriptors, or that there is none.
//!
//! `PMI_FD` alone proves nothing: a program that a rank starts inherits the variable but not the
//! socket, and the number may by then name some other descriptor. Under this project's launcher
//! the socket's inode number decides; under others it must be a connected Unix stream socket whose
//! other end was made by an ancestor of this process.

#![allow(unsafe_code)]

use crate::SOCKET_IDENTITY_VARIABLE;
use rustix::fs::FileType;
use rustix::net::{AddressFamily, SocketType, sockopt};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// What the environment says about this process, and the socket it names.
pub(crate) struct Inherited {
    /// The launcher's socket.
    pub socket: OwnedFd,
    /// This process's rank as the launcher set it.
    pub rank: u32,
    /// The job's size as the launcher set it.
    pub size: u32,
    /// Whether the socket is known to be the launcher's for certain, not only likely.
    pub certain: bool,
}

/// Looks for the launcher's socket. `None`: this process was started without one.
pub(crate) fn find() -> Option<Inherited> {
    let named = named()?;
    // SAFETY: the launcher made this socket for this process and named it in the environment for
    // the one reader that joins the job; nothing else in the process knows it, so it can be owned.
    let socket = unsafe { OwnedFd::from_raw_fd(named.fd) };
    Some(Inherited {
        socket,
        rank: named.rank,
        size: named.size,
        certain: named.certain,
    })
}

/// Ranks of the job that this process is going to join: 1 if it was started without a launcher. To be asked before it joins.
pub fn expected_size() -> u32 {
    named().map_or(1, |named| named.size)
}

/// What the environment says, where the descriptor that it names is the launcher's socket.
struct Named {
    fd: RawFd,
    rank: u32,
    size: u32,
    certain: bool,
}

fn named() -> Option<Named> {
    let fd: RawFd = number("PMI_FD")?;
    let rank = expected_rank()?;
    let size: u32 = number("PMI_SIZE")?;
    if fd < 0 || rank >= size {
        return None;
    }
    // SAFETY: the descriptor is only asked about; if it is closed, the questions fail with EBADF.
    let borrowed = unsafe { BorrowedFd::borrow_raw(fd) };
    let stat = rustix::fs::fstat(borrowed).ok()?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::Socket
        || sockopt::socket_domain(borrowed).ok()? != AddressFamily::UNIX
        || sockopt::socket_type(borrowed).ok()? != SocketType::STREAM
    {
        return None;
    }
    let certain = number::<u64>(SOCKET_IDENTITY_VARIABLE) == Some(stat.st_ino);
    (certain || made_by_ancestor(borrowed)).then_some(Named {
        fd,
        rank,
        size,
        certain,
    })
}

/// The rank that the launcher's environment names. A program that a rank starts inherits it without being that rank.
pub fn expected_rank() -> Option<u32> {
    number("PMI_RANK").or_else(|| number("PMI_ID"))
}

fn number<T: std::str::FromStr>(variable: &str) -> Option<T> {
    std::env::var(variable).ok()?.trim().parse().ok()
}

/// Whether the process that created the socket pair is an ancestor of this one, or cannot be seen
/// from here (a container with its own process numbers).
fn made_by_ancestor(socket: BorrowedFd<'_>) -> bool {
    let maker = match maker_of(socket) {
        Some(0) => return true, // made outside this pid namespace
        Some(pid) => pid,
        None => return false,
    };
    let mut pid = rustix::process::getppid().map_or(0, |p| p.as_raw_nonzero().get());
    // The depth bounds the walk: parents can change while we look.
    for _ in 0..64 {
        if pid == maker {
            return true;
        }
        if pid <= 1 {
            return false;
        }
        let Some(parent) = parent_of(pid) else {
            return false;
        };
        pid = parent;
    }
    false
}

/// The process that made the socket pair; 0 if it has no number in this pid namespace. (Not
/// through rustix, whose process numbers cannot be 0.)
fn maker_of(socket: BorrowedFd<'_>) -> Option<i32> {
    let mut cred = libc::ucred {
        pid: 0,
        uid: 0,
        gid: 0,
    };
    let mut size = libc::socklen_t::try_from(size_of::<libc::ucred>()).ok()?;
    // SAFETY: the kernel writes at most `size` bytes into `cred`, a plain structure of integers.
    let rc = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut cred).cast(),
            &raw mut size,
        )
    };
    (rc == 0).then_some(cred.pid)
}

fn parent_of(pid: i32) -> Option<i32> {
    let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    // The command's name, in parentheses, may hold anything; the fields after it do not.
    let after = stat.iter().rposition(|b| *b == b')')? + 1;
    let fields = std::str::from_utf8(&stat[after..]).ok()?;
    fields.split_ascii_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parent_is_found() {
        let parent = rustix::process::getppid().unwrap().as_raw_nonzero().get();
        assert_eq!(parent_of(std::process::id() as i32), Some(parent));
    }

    #[test]
    fn socket_of_this_process_is_no_launchers() {
        let (a, _b) = std::os::unix::net::UnixStream::pair().unwrap();
        // This process made the pair, and it is not an ancestor of itself.
        assert!(!made_by_ancestor(std::os::fd::AsFd::as_fd(&a)));
    }
}
