//! What a process needs to know about itself: whether it was forked off, and whether another MPI
//! library of ours is at work in it.

use std::ffi::c_void;
use std::fs;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap};

/// Bytes of a page.
pub(crate) const PAGE: usize = 4096;

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

/// How many descriptors this process may have, if it raises its limit as far as it may.
pub fn descriptors_max() -> u64 {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    limit.maximum.unwrap_or(u64::MAX)
}

/// A page of zeros that the kernel empties in a forked child; never given back.
fn wiped_page() -> Option<*mut c_void> {
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
    if !unsafe { wipe_on_fork(page, PAGE) } {
        // SAFETY: the mapping was made above and no reference into it exists.
        let _ = unsafe { munmap(page, PAGE) };
        return None;
    }
    Some(page)
}

/// Has the kernel empty memory in a forked child. False: it can't, and nothing was done.
///
/// # Safety
/// `at` and `len` are of whole pages in which zeros may appear, and nothing else lies.
pub(crate) unsafe fn wipe_on_fork(at: *mut c_void, len: usize) -> bool {
    // SAFETY: the caller's promise.
    unsafe { madvise(at, len, Advice::LinuxWipeOnFork) }.is_ok()
}

fn marked_page() -> Option<&'static AtomicU32> {
    let page = wiped_page()?;
    // SAFETY: the page is mapped readable and writable, aligned, zero-filled and never unmapped.
    let mark = unsafe { &*page.cast::<AtomicU32>() };
    mark.store(1, Relaxed);
    Some(mark)
}

/// Where the page lies that a library maps to say that it is in use. Neither a position-independent
/// program nor one at a fixed address has its memory there, and a 39-bit address space has the place.
const CLAIM: usize = 0x59_4d42_0000;
/// What the name of that page's file starts with; the library's name follows.
const CLAIM_NAME: &str = "yamabiko-in-use:";

/// Takes this process for `library`; the name of another that took it before, if there is one.
///
/// Two copies of this code in one process share no variable. They share the address space, so the
/// one that comes first maps a page at a fixed place, never accessed and never given back, that only
/// one mapping can have. Its file's name says who it is, so the process's mappings need to be read
/// only by the second. Where the place is taken by a stranger (a sanitizer's shadow memory) or the
/// kernel refuses the page, nobody is found.
pub fn claim(library: &str) -> Option<String> {
    let file = memfd_create(format!("{CLAIM_NAME}{library}"), MemfdFlags::CLOEXEC).ok()?;
    let place = ptr::with_exposed_provenance_mut(CLAIM);
    let flags = MapFlags::PRIVATE | MapFlags::FIXED_NOREPLACE;
    // SAFETY: without `MAP_FIXED` the kernel replaces no existing mapping; no access is allowed.
    match unsafe { mmap(place, PAGE, ProtFlags::empty(), flags, &file, 0) } {
        Ok(got) if got == place => None,
        Ok(got) => {
            // A kernel before 4.17 takes the address as a wish only.
            // SAFETY: the mapping was made just now and is not used.
            let _ = unsafe { munmap(got, PAGE) };
            claimed_by()
        }
        Err(_) => claimed_by(),
    }
}

/// Who mapped the page at [`CLAIM`], if it is one of us.
fn claimed_by() -> Option<String> {
    let maps = fs::read_to_string("/proc/self/maps").ok()?;
    let start = format!("{CLAIM:x}-");
    let line = maps.lines().find(|line| line.starts_with(&start))?;
    let (_, name) = line.split_once(CLAIM_NAME)?;
    name.split_whitespace().next().map(str::to_owned)
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
    fn first_claim_wins() {
        assert_eq!(claim("libfirst.so.1"), None);
        assert_eq!(claim("libsecond.so.2").as_deref(), Some("libfirst.so.1"));
        assert_eq!(claim("libthird.so.3").as_deref(), Some("libfirst.so.1"));
    }

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
