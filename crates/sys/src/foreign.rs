//! Memory of another process, read and written by the kernel. Nothing is mapped and the other does nothing for it; the kernel asks for the
//! rights that a debugger needs.

use std::io;

/// Bytes whose pages the kernel is to pin at a time. It counts a page's users before it copies and again behind, and has the counters of so few in its caches
/// still. Two processors of a Xeon of the fourth generation, each reading from the other: 4 MiB and more take 1.01 times as long where it pins what it can at
/// once, an alltoall of 8 MiB 1.02 times; what is shorter as long.
const PINNED: usize = 512 << 10;
/// Such pieces that one system call copies.
const PIECES: usize = 16;

/// Copies `bytes` bytes from the address `from` of the process `pid` to `to`. What the other writes meanwhile may come in part.
///
/// # Errors
/// [`NotFound`](io::ErrorKind::NotFound) where there is no such process (any more), else what the system says: `EPERM` without the right, `EFAULT`
/// where not all of it is memory.
///
/// # Safety
/// `to` is writable for `bytes` bytes.
pub unsafe fn read(pid: i32, from: u64, to: *mut u8, bytes: usize) -> io::Result<()> {
    piecewise(to, from, bytes, |local, remote| {
        // SAFETY: the local range is inside what the caller promised; the kernel checks the other process's.
        unsafe { libc::process_vm_readv(pid, local, 1, remote.as_ptr(), remote.len() as u64, 0) }
    })
}

/// Copies `bytes` bytes from `from` to the address `to` of the process `pid`.
///
/// # Errors
/// As [`read`]; some of it may be written then.
///
/// # Safety
/// `from` is readable for `bytes` bytes, and whoever runs as `pid` expects to be written to there.
pub unsafe fn write(pid: i32, to: u64, from: *const u8, bytes: usize) -> io::Result<()> {
    piecewise(from.cast_mut(), to, bytes, |local, remote| {
        // SAFETY: the local range is inside what the caller promised, and is only read; the kernel checks the other process's.
        unsafe { libc::process_vm_writev(pid, local, 1, remote.as_ptr(), remote.len() as u64, 0) }
    })
}

/// Has `step` move a range here from or to pieces that lie side by side there, of which it may move less than it is given.
#[inline]
fn piecewise(
    here: *mut u8,
    there: u64,
    bytes: usize,
    step: impl Fn(*const libc::iovec, &[libc::iovec]) -> isize,
) -> io::Result<()> {
    let range = |at: usize, bytes| libc::iovec {
        iov_base: at as *mut libc::c_void,
        iov_len: bytes,
    };
    let mut remote = [range(0, 0); PIECES];
    let mut done = 0;
    while done < bytes {
        let pieces = (bytes - done).div_ceil(PINNED).min(PIECES);
        let mut end = done;
        for piece in &mut remote[..pieces] {
            let len = PINNED.min(bytes - end);
            *piece = range((there as usize).wrapping_add(end), len);
            end += len;
        }
        let local = libc::iovec {
            iov_base: here.wrapping_add(done).cast(),
            iov_len: end - done,
        };
        match usize::try_from(step(&raw const local, &remote[..pieces])) {
            Err(_) => return Err(failed(io::Error::last_os_error())),
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(n) => done += n,
        }
    }
    Ok(())
}

/// The library of Rust has no kind of its own for a process that is not there.
#[cold]
fn failed(error: io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(libc::ESRCH) => io::ErrorKind::NotFound.into(),
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process may read itself.
    fn read_own(from: u64, to: &mut [u8]) -> io::Result<()> {
        let pid = std::process::id() as i32;
        // SAFETY: a slice is writable.
        unsafe { read(pid, from, to.as_mut_ptr(), to.len()) }
    }

    #[test]
    fn what_is_there_is_read_and_what_is_not_is_an_error() {
        let bytes: Vec<u8> = (0..=255).cycle().take(100_000).collect();
        let mut out = vec![0; bytes.len()];
        let at = bytes.as_ptr().expose_provenance() as u64;
        match read_own(at, &mut out) {
            Ok(()) => assert_eq!(out, bytes),
            // Where processes are confined, that call is refused.
            Err(e) => assert_eq!(e.kind(), io::ErrorKind::PermissionDenied),
        }
        assert!(read_own(64, &mut out).is_err());
        let pid = std::process::id() as i32;
        // SAFETY: `out` is there, and nobody else looks at it.
        let written = unsafe {
            write(
                pid,
                out.as_mut_ptr().expose_provenance() as u64,
                [7; 9].as_ptr(),
                9,
            )
        };
        match written {
            Ok(()) => assert_eq!((out[8], out[9]), (7, 9)),
            Err(e) => assert_eq!(e.kind(), io::ErrorKind::PermissionDenied),
        }
        assert!(read_own(at, &mut []).is_ok());
    }

    #[test]
    fn more_is_read_than_one_call_copies() {
        // Bytes of which no piece repeats another.
        let bytes: Vec<u8> = (0..PINNED * (PIECES + 1) + 4321)
            .map(|i| (i % 251) as u8)
            .collect();
        let mut out = vec![0; bytes.len() + 1];
        let at = bytes.as_ptr().expose_provenance() as u64;
        match read_own(at, &mut out[..bytes.len()]) {
            Ok(()) => assert!(out[..bytes.len()] == bytes[..]),
            // Where processes are confined, that call is refused.
            Err(e) => assert_eq!(e.kind(), io::ErrorKind::PermissionDenied),
        }
        assert_eq!(out.last(), Some(&0));
    }

    #[test]
    fn no_process_has_the_greatest_number() {
        let mut out = [0; 8];
        // SAFETY: an array is writable.
        let read = unsafe { read(i32::MAX, 0, out.as_mut_ptr(), 8) };
        // Where processes are confined, that call is refused.
        let kinds = [io::ErrorKind::NotFound, io::ErrorKind::PermissionDenied];
        assert!(kinds.contains(&read.unwrap_err().kind()));
    }
}
