//! The short way to the state under a [lock](crate::lock): two loads and a test, no lock.
//!
//! It is open only while the lock is not threaded and its user says so, and shut at other times: then the caller takes the
//! lock. One test thus stands for all that rarely changes (whether the library runs, whether threads call at the same time). In
//! a forked child it is shut too, since the word that opens it lies in a page that the kernel empties there; a kernel that
//! cannot do that never has it open.
//!
//! # What its user promises
//! While it is open one thread at a time calls, as for a lock that is not threaded, and all that the lock's user promises holds.

use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering::Relaxed};

use crate::lock::BigLock;
use crate::process::wiped_page;

/// What a door that was never opened looks at.
static SHUT: AtomicUsize = AtomicUsize::new(0);

/// A door to a state. See the [module](self).
pub struct Door<T: 'static> {
    /// Where the address of the state is, null while the door is shut.
    place: AtomicPtr<AtomicPtr<T>>,
    page: OnceLock<Option<usize>>,
}

// SAFETY: the state is reached through `get` only, and by its user's promise by one thread at a time; the rest is atomic.
unsafe impl<T> Sync for Door<T> {}

impl<T> Door<T> {
    /// A door that is shut.
    pub const fn new() -> Door<T> {
        Door {
            place: AtomicPtr::new((&raw const SHUT).cast_mut().cast()),
            page: OnceLock::new(),
        }
    }

    /// The state, while the door is open.
    #[inline(always)]
    pub fn get(&self) -> Option<&'static T> {
        // SAFETY: `place` is the address of `SHUT`, or of the start of a page of ours that is never given back; both are as large and
        // as aligned as a pointer and only accessed as an atomic one. Empty, they hold null.
        let place = unsafe { &*self.place.load(Relaxed) };
        // SAFETY: null, or the address of a state that lives as long as the process.
        unsafe { place.load(Relaxed).as_ref() }
    }

    /// Opens the door to the state of `lock`, unless that is threaded.
    pub fn open(&self, lock: &'static BigLock<T>) {
        if lock.is_threaded() {
            return self.shut();
        }
        let made = || wiped_page().map(|page| page.expose_provenance());
        if let Some(page) = *self.page.get_or_init(made) {
            let place: *mut AtomicPtr<T> = ptr::with_exposed_provenance_mut(page);
            // SAFETY: the page is mapped readable and writable, aligned, zero-filled, never unmapped, and this door's alone.
            unsafe { &*place }.store(ptr::from_ref(lock.state()).cast_mut(), Relaxed);
            self.place.store(place, Relaxed);
        }
    }

    /// Shuts it.
    pub fn shut(&self) {
        if let Some(Some(page)) = self.page.get() {
            let place: *mut AtomicPtr<T> = ptr::with_exposed_provenance_mut(*page);
            // SAFETY: as in `open`.
            unsafe { &*place }.store(ptr::null_mut(), Relaxed);
        }
    }
}

impl<T> Default for Door<T> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn open_only_without_threads_and_not_in_a_child() {
        static LOCK: BigLock<Cell<u32>> = BigLock::new(Cell::new(7));
        static DOOR: Door<Cell<u32>> = Door::new();
        assert!(DOOR.get().is_none());
        DOOR.shut();
        DOOR.open(&LOCK);
        assert!(DOOR.get().is_none(), "the lock begins threaded");
        let inside = LOCK.enter();
        LOCK.set_threaded(false);
        drop(inside);
        DOOR.open(&LOCK);
        assert_eq!(DOOR.get().map(Cell::get), Some(7));
        // SAFETY: the child calls nothing but `_exit`, which is safe after a fork.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let code = i32::from(DOOR.get().is_some());
            // SAFETY: ends the forked child without running the parent's exit handlers.
            unsafe { libc::_exit(code) };
        }
        let mut status = -1;
        // SAFETY: waits for the child made above; `status` outlives the call.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert_eq!(status, 0);
        DOOR.shut();
        assert!(DOOR.get().is_none());
        DOOR.open(&LOCK);
        LOCK.set_threaded(true);
        DOOR.open(&LOCK);
        assert!(DOOR.get().is_none());
    }
}
