//! A large sealed memory file of which pieces are mapped and filled as they are needed.
//!
//! The file's size costs nothing; what is touched costs memory. Who wants to write somewhere for the first time says so with
//! [`Sparse::allocate`], which gives an error where writing would raise `SIGBUS`; what is no longer needed goes back with
//! [`Sparse::release`]. Every process of the group keeps the descriptor, so no later piece needs another.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;

use crate::memfd::{Mapping, create_sealed_file, sealed_size};

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
    /// When there is no memory for it, or outside the file.
    pub fn allocate(&self, offset: u64, len: usize) -> io::Result<()> {
        self.check(offset, len)?;
        loop {
            match fallocate(&self.fd, FallocateFlags::KEEP_SIZE, offset, len as u64) {
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
    fn nothing_outside() {
        let file = Sparse::create("test", 1 << 20).unwrap();
        assert!(file.map(1 << 20, 4096).is_err() && file.map(0, 0).is_err());
        assert!(file.map(4096, 1 << 20).is_err() && file.allocate(u64::MAX, 2).is_err());
        assert!(file.map(4096, (1 << 20) - 4096).is_ok());
    }
}
