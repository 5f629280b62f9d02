//! Mapped results. Who calls it: `rank`.

use rustix::mm::{MapFlags, ProtFlags};
use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

/// The first entry of a [`Shape::Mapped`](super::Shape::Mapped) map, as words.
#[derive(Debug)]
pub struct Page {
    at: NonNull<AtomicU64>,
    words: usize,
}

impl Page {
    /// Maps the first `words` words of a map. What the descriptor really is does not matter: what is
    /// mapped is readable or a signal.
    ///
    /// # Errors
    /// The kernel's: it is not such a map, or shorter.
    pub fn new(map: BorrowedFd<'_>, words: usize) -> io::Result<Page> {
        let (protect, flags) = (ProtFlags::READ, MapFlags::SHARED);
        // SAFETY: a mapping of its own, at an address that the kernel picks.
        let at =
            unsafe { rustix::mm::mmap(std::ptr::null_mut(), words * 8, protect, flags, map, 0) };
        let at = NonNull::new(at?.cast()).ok_or(io::ErrorKind::AddrNotAvailable)?;
        Ok(Page { at, words })
    }

    /// The words, which the kernel changes.
    pub fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping is aligned to pages, that long, and lives as long as `self`. Others change it, so
        // they are atomics, which are only loaded from.
        unsafe { std::slice::from_raw_parts(self.at.as_ptr(), self.words) }
    }
}

// SAFETY: the memory belongs to nobody's thread, and all access is by atomic loads.
unsafe impl Send for Page {}
// SAFETY: as above.
unsafe impl Sync for Page {}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: it is a mapping of this length, and nobody has a reference to it any more. Nothing can be done if it
        // fails.
        let _ = unsafe { rustix::mm::munmap(self.at.as_ptr().cast(), self.words * 8) };
    }
}
