//! What a process needs to know about itself: whether it was forked off.

use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};

const PAGE: usize = 4096;

/// Tells the process that made it from a child that was forked later; one load to ask.
///
/// The mark lies in a page that the kernel empties in a forked child, so a raw `clone` is noticed
/// as well as `fork`. Where the kernel cannot do that (before Linux 4.14), process ids are compared.
pub struct ForkMark {
    page: Option<&'static AtomicU32>,
    pid: i32,
}

impl ForkMark {
    /// Marks the calling process. The page is never given back.
    pub fn new() -> ForkMark {
        ForkMark {
            page: marked_page(),
            pid: pid(),
        }
    }

    /// Whether the caller is a forked child of the process that made the mark.
    #[inline]
    pub fn forked(&self) -> bool {
        match self.page {
            Some(mark) => mark.load(Relaxed) == 0,
            None => pid() != self.pid,
        }
    }
}

impl Default for ForkMark {
    fn default() -> ForkMark {
        ForkMark::new()
    }
}

fn pid() -> i32 {
    rustix::process::getpid().as_raw_nonzero().get()
}

fn marked_page() -> Option<&'static AtomicU32> {
    // SAFETY: a new mapping at an address of the kernel's choice touches nothing that exists.
    let page = unsafe {
        mmap_anonymous(
            ptr::null_mut(),
            PAGE,
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::PRIVATE,
        )
    }
    .ok()?;
    // SAFETY: the range is the mapping just made, which holds nothing yet.
    if unsafe { madvise(page, PAGE, Advice::LinuxWipeOnFork) }.is_err() {
        // SAFETY: the mapping was made above and no reference into it exists.
        let _ = unsafe { rustix::mm::munmap(page, PAGE) };
        return None;
    }
    // SAFETY: the page is mapped readable and writable, aligned, zero-filled and never unmapped.
    let mark = unsafe { &*page.cast::<AtomicU32>() };
    mark.store(1, Relaxed);
    Some(mark)
}

/// Ends the process with `code`: what C's streams hold is written, exit handlers don't run (they
/// might call back into whoever decided to end).
pub fn end(code: i32) -> ! {
    // SAFETY: flushing all streams has no preconditions.
    unsafe { libc::fflush(ptr::null_mut()) };
    // SAFETY: ends the process; nothing of it is used afterwards.
    unsafe { libc::_exit(code) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn child_knows() {
        let mark = ForkMark::new();
        let by_pid = ForkMark {
            page: None,
            pid: pid(),
        };
        assert!(!mark.forked() && !by_pid.forked());
        // SAFETY: the child calls nothing but `getpid` and `_exit`, which are safe after a fork.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let code = i32::from(!(mark.forked() && by_pid.forked()));
            // SAFETY: ends the forked child without running the parent's exit handlers.
            unsafe { libc::_exit(code) };
        }
        let mut status = -1;
        // SAFETY: waits for the child made above; `status` outlives the call.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert_eq!(status, 0);
        assert!(!mark.forked());
    }
}
