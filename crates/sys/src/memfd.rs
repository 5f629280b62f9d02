//! Shared memory as sealed memfds: nothing to clean up, nothing that a peer can shrink.
//!
//! A segment is made with [`create_sealed`], its descriptor passed over a [Unix
//! socket](crate::unix), and mapped by the receiver with [`open_sealed`], which insists on the
//! seals and the size, so no access to a [`Mapping`] can raise `SIGBUS`.
//!
//! What lies in a mapping changes under one's eyes. The safe accessors therefore give references
//! only to [`Shared`] types, atomics in effect, or copy bytes in and out.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicI8, AtomicI16};
use std::sync::atomic::{AtomicI32, AtomicI64, AtomicU8, AtomicU16, AtomicU32, AtomicU64};

use rustix::fs::{
    MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create,
};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::process::{Resource, getrlimit};

/// Seals without which a segment is not mapped: its size is final.
const SEALS: SealFlags = SealFlags::SHRINK
    .union(SealFlags::GROW)
    .union(SealFlags::SEAL);

/// Types that may lie in memory which other processes change at any time.
///
/// # Safety
/// Every bit pattern is a valid value, every part that is ever read is atomic (or read by raw
/// copies), and there is nothing to drop.
pub unsafe trait Shared: Sync + 'static {}

macro_rules! shared {
    ($($t:ty)*) => { $(
        // SAFETY: an atomic integer of which every bit pattern is valid.
        unsafe impl Shared for $t {}
    )* };
}
shared!(AtomicU8 AtomicU16 AtomicU32 AtomicU64 AtomicI8 AtomicI16 AtomicI32 AtomicI64);

// SAFETY: elements keep the promise, and an array adds nothing of its own.
unsafe impl<T: Shared, const N: usize> Shared for [T; N] {}

/// Makes a segment of `bytes` zero bytes, sealed against changing its size and closed on `exec`,
/// and maps it. `name` shows in `/proc` only.
///
/// # Errors
/// When the system refuses, or `bytes` is 0.
pub fn create_sealed(name: &str, bytes: usize) -> io::Result<(OwnedFd, Mapping)> {
    let fd = create_sealed_file(name, bytes as u64)?;
    let map = Mapping::at_offset(&fd, 0, bytes)?;
    Ok((fd, map))
}

/// The same without mapping it.
pub(crate) fn create_sealed_file(name: &str, bytes: u64) -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let fd = match memfd_create(name, flags | MemfdFlags::NOEXEC_SEAL) {
        // Before Linux 6.3 the flag is unknown.
        Err(Errno::INVAL) => memfd_create(name, flags),
        other => other,
    }?;
    set_size(&fd, bytes)?;
    fcntl_add_seals(&fd, SEALS)?;
    Ok(fd)
}

/// Gives a memory file its size.
///
/// The limit on the size of files holds for memory files, too, and exceeding it is a signal (SIGXFSZ) that
/// ends the process. So the limit is asked before.
///
/// # Errors
/// When the limit is too low, which the error then names, or what the system says.
pub fn set_size(fd: impl AsFd, bytes: u64) -> io::Result<()> {
    match getrlimit(Resource::Fsize).current {
        Some(limit) if limit < bytes => Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!(
                "shared memory of {bytes} bytes is larger than the limit on the size of files \
                 (ulimit -f), which is {limit} bytes: raise it"
            ),
        )),
        _ => Ok(ftruncate(fd, bytes)?),
    }
}

/// Maps a segment that another process made, after checking that it is sealed and has exactly
/// `expected_bytes`. The descriptor is not needed afterwards.
///
/// # Errors
/// `InvalidData` when it is not such a segment, or what the system says.
pub fn open_sealed(fd: impl AsFd, expected_bytes: usize) -> io::Result<Mapping> {
    if sealed_size(&fd)? != expected_bytes as u64 {
        return Err(strange("has the wrong size"));
    }
    Mapping::at_offset(fd, 0, expected_bytes)
}

/// The size of a segment that another process made, after checking that it is final.
pub(crate) fn sealed_size(fd: impl AsFd) -> io::Result<u64> {
    // Seals first: only then is the size final.
    let seals = fcntl_get_seals(&fd).map_err(|_| strange("is not a memory file"))?;
    if !seals.contains(SEALS) {
        return Err(strange("is not sealed"));
    }
    u64::try_from(fstat(&fd)?.st_size).map_err(|_| strange("has the wrong size"))
}

fn strange(what: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("the shared segment {what}"),
    )
}

/// A segment in this process's memory, until dropped. To keep it for ever, `Box::leak` it.
#[derive(Debug)]
pub struct Mapping {
    at: NonNull<u8>,
    len: usize,
}

// SAFETY: the memory is shared between processes anyway; safe access is by atomics and copies.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `len` bytes from `offset` on, which the caller knows to be inside the file.
    pub(crate) fn at_offset(fd: impl AsFd, offset: u64, len: usize) -> io::Result<Mapping> {
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice touches nothing that exists.
        let at = unsafe { mmap(ptr::null_mut(), len, prot, MapFlags::SHARED, fd, offset) }?;
        let at = NonNull::new(at.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Mapping { at, len })
    }

    /// Bytes of the segment.
    // A mapping is never empty.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Address of the `len` bytes from `offset` on, valid while the mapping lives; `None` where
    /// they are not all inside.
    #[inline]
    pub fn range(&self, offset: usize, len: usize) -> Option<*mut u8> {
        if offset > self.len || len > self.len - offset {
            return None;
        }
        // SAFETY: `offset` is within the mapping or one past its end.
        Some(unsafe { self.at.as_ptr().add(offset) })
    }

    /// The `T` at `offset`; `None` where it is not inside or not aligned.
    #[inline]
    pub fn get<T: Shared>(&self, offset: usize) -> Option<&T> {
        self.slice(offset, 1).map(|s| &s[0])
    }

    /// The `n` values of type `T` from `offset` on; `None` where they are not inside or not
    /// aligned.
    #[inline]
    pub fn slice<T: Shared>(&self, offset: usize, n: usize) -> Option<&[T]> {
        let at = self
            .range(offset, n.checked_mul(size_of::<T>())?)?
            .cast::<T>();
        if !at.is_aligned() {
            return None;
        }
        // SAFETY: inside the mapping, which `self` keeps alive, and aligned; `Shared` says that any
        // bytes are valid and may change.
        Some(unsafe { std::slice::from_raw_parts(at, n) })
    }

    /// Copies bytes from `offset` on into `out`; `false` (and nothing done) outside the segment.
    pub fn read(&self, offset: usize, out: &mut [u8]) -> bool {
        let Some(at) = self.range(offset, out.len()) else {
            return false;
        };
        // SAFETY: readable by `range`; `out` is ordinary memory, never inside the mapping, of which
        // no `&mut` is ever made.
        unsafe { crate::copy::copy(out.as_mut_ptr(), at, out.len()) }
        true
    }

    /// Copies `data` to `offset`; `false` (and nothing done) outside the segment.
    pub fn write(&self, offset: usize, data: &[u8]) -> bool {
        let Some(at) = self.range(offset, data.len()) else {
            return false;
        };
        // SAFETY: writable by `range`; `data` is not inside the mapping, of which no `&[u8]` is
        // ever made.
        unsafe { crate::copy::copy(at, data.as_ptr(), data.len()) }
        true
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range mapped in `at_offset`; references into it borrow `self` and are gone.
        let _ = unsafe { munmap(self.at.as_ptr().cast(), self.len) };
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::Relaxed;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn two_mappings_share() {
        let (fd, a) = create_sealed("test", 10_000).unwrap();
        let b = open_sealed(&fd, 10_000).unwrap();
        drop(fd);
        a.get::<AtomicU64>(64).unwrap().store(7, Relaxed);
        assert_eq!(b.get::<AtomicU64>(64).unwrap().load(Relaxed), 7);
        assert!(b.write(9_997, b"end") && !b.write(9_998, b"end"));
        let mut end = [0; 3];
        assert!(a.read(9_997, &mut end));
        assert_eq!(&end, b"end");
    }

    #[test]
    fn only_sealed_files_of_the_right_size() {
        let (fd, map) = create_sealed("test", 4096).unwrap();
        assert_eq!(map.len(), 4096);
        assert!(ftruncate(&fd, 0).is_err() && ftruncate(&fd, 8192).is_err());
        assert!(open_sealed(&fd, 4095).is_err() && open_sealed(&fd, 8192).is_err());
        let loose = memfd_create("loose", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
        ftruncate(&loose, 4096).unwrap();
        assert_eq!(
            open_sealed(&loose, 4096).unwrap_err().kind(),
            io::ErrorKind::InvalidData
        );
        fcntl_add_seals(&loose, SealFlags::SHRINK | SealFlags::SEAL).unwrap();
        assert!(open_sealed(&loose, 4096).is_err());
        let null = std::fs::File::open("/dev/null").unwrap();
        assert!(open_sealed(&null, 4096).is_err());
        assert!(create_sealed("empty", 0).is_err());
    }

    proptest! {
        #[test]
        fn accessors_stay_inside(offset in 0usize..5000, n in 0usize..700, huge in any::<usize>()) {
            let (_fd, map) = create_sealed("test", 4100).unwrap();
            let got = map.slice::<AtomicU64>(offset, n);
            prop_assert_eq!(got.is_some(), offset % 8 == 0 && offset + n * 8 <= 4100);
            prop_assert!(got.is_none_or(|s| s.iter().all(|w| w.load(Relaxed) == 0)));
            prop_assert_eq!(map.range(huge, n).is_some(), huge <= 4100 && n <= 4100 - huge);
            prop_assert!(map.slice::<AtomicU32>(offset, huge.max(1026)).is_none());
            let mut out = vec![1; n];
            prop_assert_eq!(map.read(offset, &mut out), offset + n <= 4100);
        }
    }
}
