//! A large sealed memory file of which pieces are mapped and filled as they are needed.
//!
//! The file's size costs nothing; what is touched costs memory. Who wants to write somewhere for the first time says so with
//! [`Sparse::allocate`], which gives an error where writing would raise `SIGBUS`; what is no longer needed goes back with
//! [`Sparse::release`]. It gives an error too where there would not be enough for others any more, as getting memory that is not
//! there makes the system end processes. Every process of the group keeps the descriptor, so no later piece needs another.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;

use crate::memfd::{Mapping, create_sealed_file, sealed_size};
use crate::memory;

/// Bytes that are got by one system call: until Linux 6.10 a signal ends it, and then it has done nothing.
const STEP: u64 = 1 << 20;
/// Pieces of up to so many bytes are got without asking how much there is,
const UNASKED: u64 = 16 << 20;
/// and longer ones after asking as often, since others get memory as well.
const STEPS_UNASKED: usize = (UNASKED / STEP) as usize;

/// Whether so much memory can be had; where the system does not tell, it is tried.
fn enough(bytes: u64) -> io::Result<()> {
    match memory::available() {
        Some(available) if available < bytes => Err(io::ErrorKind::OutOfMemory.into()),
        _ => Ok(()),
    }
}

/// Such a file.
#[derive(Debug)]
pub struct Sparse {
    fd: OwnedFd,
    bytes: u64,
}

impl Sparse {
    /// Makes one of `bytes` bytes. `name` shows in `/proc` only.
    ///
    /// # Errors
    /// When the system refuses, or a limit on the size of files does.
    pub fn create(name: &str, bytes: u64) -> io::Result<Sparse> {
        let fd = create_sealed_file(name, bytes)?;
        Ok(Sparse { fd, bytes })
    }

    /// The one that another process made, whose descriptor this is.
    ///
    /// # Errors
    /// `InvalidData` when its size is not final.
    pub fn open(fd: OwnedFd) -> io::Result<Sparse> {
        let bytes = sealed_size(&fd)?;
        Ok(Sparse { fd, bytes })
    }

    /// Bytes of the file.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Its descriptor, to be passed on.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Maps the `len` bytes from `offset` on, a multiple of the page size.
    ///
    /// # Errors
    /// `InvalidInput` outside the file, or what the system says, a limit on address space among it.
    pub fn map(&self, offset: u64, len: usize) -> io::Result<Mapping> {
        self.check(offset, len)?;
        Mapping::at_offset(&self.fd, offset, len)
    }

    /// Gets memory for a piece that has none yet; what is there stays.
    ///
    /// # Errors
    /// When there is no memory for it, or outside the file. A part of it may have got memory then.
    pub fn allocate(&self, offset: u64, len: usize) -> io::Result<()> {
        self.check(offset, len)?;
        let end = offset + len as u64;
        for (i, at) in (offset..end).step_by(STEP as usize).enumerate() {
            let left = end - at;
            if left > UNASKED && i.is_multiple_of(STEPS_UNASKED) {
                enough(left)?;
            }
            self.allocate_step(at, left.min(STEP))?;
        }
        Ok(())
    }

    fn allocate_step(&self, offset: u64, len: u64) -> io::Result<()> {
        loop {
            match fallocate(&self.fd, FallocateFlags::KEEP_SIZE, offset, len) {
                Err(Errno::INTR) => {}
                other => return Ok(other?),
            }
        }
    }

    /// Gives the memory of a piece back; it reads as zeros from then on.
    pub fn release(&self, offset: u64, len: usize) {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        // Refused, it costs memory until the job ends, and nothing else.
        let _ = fallocate(&self.fd, flags, offset, len as u64);
    }

    fn check(&self, offset: u64, len: usize) -> io::Result<()> {
        let end = offset.checked_add(len as u64);
        match len > 0 && end.is_some_and(|end| end <= self.bytes) {
            true => Ok(()),
            false => Err(io::ErrorKind::InvalidInput.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    use super::*;

    const HUGE: u64 = 1 << 50;

    #[test]
    fn pieces_of_a_huge_file() {
        let file = Sparse::create("test", HUGE).unwrap();
        let other = Sparse::open(file.fd().try_clone_to_owned().unwrap()).unwrap();
        assert_eq!(other.bytes(), HUGE);
        let far = HUGE - 8192;
        file.allocate(far, 8192).unwrap();
        let (a, b) = (file.map(far, 8192).unwrap(), other.map(far, 8192).unwrap());
        a.get::<AtomicU64>(8184).unwrap().store(7, Relaxed);
        assert_eq!(b.get::<AtomicU64>(8184).unwrap().load(Relaxed), 7);
        file.release(far, 8192);
        assert_eq!(b.get::<AtomicU64>(8184).unwrap().load(Relaxed), 0);
    }

    #[test]
    fn more_than_there_is_is_refused_before_it_is_tried() {
        let file = Sparse::create("test", HUGE).unwrap();
        let all = memory::available().unwrap() as usize;
        let refused = file.allocate(0, all + (1 << 30)).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::OutOfMemory);
        assert_eq!(rustix::fs::fstat(file.fd()).unwrap().st_blocks, 0);
    }

    extern "C" fn nothing(_: libc::c_int) {}

    /// As a profiler's, every millisecond: a piece that takes longer is got all the same (by one call it is not, until Linux 6.10).
    #[test]
    fn signals_hold_nothing_up() {
        use std::sync::atomic::AtomicBool;
        use std::time::{Duration, Instant};
        let handler = nothing as extern "C" fn(libc::c_int) as libc::sighandler_t;
        // SAFETY: a handler that does nothing, for a signal that nobody else here uses.
        unsafe { libc::signal(libc::SIGUSR2, handler) };
        // SAFETY: has no precondition.
        let target = unsafe { libc::pthread_self() };
        let (over, end) = (
            AtomicBool::new(false),
            Instant::now() + Duration::from_secs(20),
        );
        let over = &over;
        let in_time = std::thread::scope(|scope| {
            let signals = scope.spawn(move || {
                while !over.load(Relaxed) && Instant::now() < end {
                    std::thread::sleep(Duration::from_millis(1));
                    // SAFETY: that thread waits for this one.
                    unsafe { libc::pthread_kill(target, libc::SIGUSR2) };
                }
                over.load(Relaxed)
            });
            let file = Sparse::create("test", HUGE).unwrap();
            file.allocate(0, 64 << 20).unwrap();
            over.store(true, Relaxed);
            signals.join().unwrap()
        });
        assert!(in_time, "it went on only when the signals had ended");
    }

    #[test]
    fn nothing_outside() {
        let file = Sparse::create("test", 1 << 20).unwrap();
        assert!(file.map(1 << 20, 4096).is_err() && file.map(0, 0).is_err());
        assert!(file.map(4096, 1 << 20).is_err() && file.allocate(u64::MAX, 2).is_err());
        assert!(file.map(4096, (1 << 20) - 4096).is_ok());
    }
}
