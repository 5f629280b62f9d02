//! Memory of another process, read and written by the kernel. Nothing is mapped and the other does nothing for it; the kernel asks for the
//! rights that a debugger needs.

use std::io;

/// Bytes whose pages the kernel is to pin at a time. It counts a page's users before it copies and again afterwards, and then still has the counters of so few in its
/// caches; by itself it pins 4 MiB at a time. Two processors of a Xeon of the fourth generation, each reading from the other: 4 MiB and more take 0.99 of the time
/// so, an alltoall of 8 MiB 0.98, what is shorter as long. 256 KiB and 1 MiB do as much.
const PINNED: usize = 512 << 10;
/// Such pieces that one system call copies: as many as the kernel takes without asking for memory for their addresses.
const PIECES: usize = 8;

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
        // SAFETY: one local range, inside what the caller promised; of the other process's there are as many as said, and the kernel checks them.
        unsafe {
            libc::process_vm_readv(
                pid,
                local,
                1,
                remote.as_ptr(),
                remote.len() as libc::c_ulong,
                0,
            )
        }
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
        // SAFETY: one local range, inside what the caller promised, and only read; of the other process's there are as many as said, and the kernel checks them.
        unsafe {
            libc::process_vm_writev(
                pid,
                local,
                1,
                remote.as_ptr(),
                remote.len() as libc::c_ulong,
                0,
            )
        }
    })
}

/// Has `step` move a range here from or to pieces that lie side by side there; it may move less than it is given.
#[inline]
fn piecewise(
    here: *mut u8,
    there: u64,
    bytes: usize,
    step: impl Fn(*const libc::iovec, &[libc::iovec]) -> isize,
) -> io::Result<()> {
    let range = |at: usize, len| libc::iovec {
        iov_base: at as *mut libc::c_void,
        iov_len: len,
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

    /// What a call of a step is given: here from where, and there from where in pieces of which lengths.
    type Given = (usize, Vec<(usize, usize)>);

    /// Moves so many bytes by a step that moves these numbers of them, then all that it is given.
    fn calls(bytes: usize, there: u64, answers: &[isize]) -> (io::Result<()>, Vec<Given>) {
        let calls = std::cell::RefCell::new(Vec::new());
        let here = std::ptr::without_provenance_mut(1 << 40);
        let done = piecewise(here, there, bytes, |local, remote| {
            // SAFETY: `piecewise` hands the range that it has made.
            let local = unsafe { &*local };
            let pieces: Vec<_> = remote
                .iter()
                .map(|piece| (piece.iov_base.addr(), piece.iov_len))
                .collect();
            assert_eq!(
                local.iov_len,
                pieces.iter().map(|&(_, len)| len).sum::<usize>()
            );
            let mut calls = calls.borrow_mut();
            calls.push((local.iov_base.addr() - (1 << 40), pieces));
            let all = local.iov_len as isize;
            answers.get(calls.len() - 1).map_or(all, |&n| n.min(all))
        });
        (done, calls.into_inner())
    }

    #[test]
    fn pieces_lie_side_by_side_and_none_is_empty() {
        let most = PINNED * PIECES;
        for bytes in [
            0,
            1,
            PINNED - 1,
            PINNED,
            PINNED + 1,
            most,
            most + 1,
            3 * most - 1,
        ] {
            let (done, calls) = calls(bytes, 4096, &[]);
            done.unwrap();
            assert_eq!(calls.len(), bytes.div_ceil(most));
            let mut at = 0;
            for (here, pieces) in calls {
                assert_eq!(here, at);
                for (there, len) in pieces {
                    assert_eq!(there, 4096 + at);
                    assert!(len > 0 && len <= PINNED);
                    at += len;
                }
            }
            assert_eq!(at, bytes);
        }
    }

    #[test]
    fn what_was_moved_in_part_goes_on_behind_it() {
        let bytes = 2 * PINNED + 5;
        let (done, calls) = calls(bytes, 0, &[1, PINNED as isize + 1]);
        done.unwrap();
        let pieces = |from: usize, lens: &[usize]| {
            let starts = lens.iter().scan(from, |at, &len| {
                *at += len;
                Some((*at - len, len))
            });
            (from, starts.collect::<Vec<_>>())
        };
        let expected = [
            pieces(0, &[PINNED, PINNED, 5]),
            pieces(1, &[PINNED, PINNED, 4]),
            pieces(PINNED + 2, &[PINNED, 3]),
        ];
        assert_eq!(calls, expected);
    }

    #[test]
    fn what_moves_nothing_is_an_error_and_addresses_wrap() {
        let (done, tried) = calls(PINNED * 2, u64::MAX, &[5, 0]);
        assert_eq!(done.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        assert_eq!(tried.len(), 2);
        assert_eq!(tried[1].1[0].0, 4);
        let (done, tried) = calls(PINNED * 2, 0, &[-1]);
        assert!(done.is_err());
        assert_eq!(tried.len(), 1);
    }

    #[test]
    fn a_range_that_ends_too_early_is_copied_in_part_and_an_error() {
        let page = 4096;
        let bytes = PINNED * (PIECES + 2);
        for readable in [PINNED * 3 + page, PINNED * PIECES + page, bytes] {
            // SAFETY: new memory, at a place of the system's choice, of which the end is taken back.
            let at = unsafe {
                let (rights, flags) = (
                    libc::PROT_READ | libc::PROT_WRITE,
                    libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                );
                let at = libc::mmap(std::ptr::null_mut(), bytes, rights, flags, -1, 0);
                assert_ne!(at, libc::MAP_FAILED);
                libc::memset(at, 7, bytes);
                let end = at.cast::<u8>().add(readable).cast();
                assert!(
                    readable == bytes
                        || libc::mprotect(end, bytes - readable, libc::PROT_NONE) == 0
                );
                at
            };
            let (there, pid) = (at.expose_provenance() as u64, std::process::id() as i32);
            let mut out = vec![1; bytes];
            let read = read_own(there, &mut out);
            // SAFETY: a slice is readable, and nobody else looks at the memory at `there`.
            let written =
                unsafe { write(pid, there, [9; 3].repeat(bytes / 3).as_ptr(), bytes / 3 * 3) };
            for copied in [&read, &written] {
                match copied {
                    Ok(()) => assert_eq!(readable, bytes),
                    // Where processes are confined, these calls are refused.
                    Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {}
                    Err(e) => assert_eq!(
                        (e.raw_os_error(), readable < bytes),
                        (Some(libc::EFAULT), true)
                    ),
                }
            }
            let refused = read.is_err_and(|e| e.kind() == io::ErrorKind::PermissionDenied);
            let copied = if refused { 0 } else { readable };
            assert!(out[..copied].iter().all(|&b| b == 7) && out[copied..].iter().all(|&b| b == 1));
            // SAFETY: readable so far, and no longer used afterwards.
            unsafe {
                let now = std::slice::from_raw_parts(at.cast::<u8>(), readable / 3 * 3);
                assert!(refused || now.iter().all(|&b| b == 9));
                libc::munmap(at, bytes);
            }
        }
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
