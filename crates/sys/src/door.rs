//! A short way to state under a [lock](crate::lock), without taking the lock: it lies at a fixed place, so there is not even a
//! pointer to load.
//!
//! The state is [blank](crate::blank) while nothing may be done that way, and whoever goes it finds that out by what it looks for
//! there anyway: there is no test before. Its user fills it while the door is open, which it can't be while the lock is threaded, and
//! empties it before the door is shut. In a forked child it is blank too, since the kernel empties its page there; a kernel that
//! cannot do that never has the door open.
//!
//! # What its user promises
//! The state is written with the lock held, or, while the door is open, by one thread at a time, as for a lock that is not threaded.
//! With threads all of them look, without the lock, and find it blank: so what is looked at first is not written then, and what
//! lies behind that is looked at with the lock held.

use std::cell::Cell;
use std::ffi::c_void;
use std::mem::MaybeUninit;

use crate::blank::Blank;
use crate::lock::BigLock;
use crate::process::{PAGE, wipe_on_fork};

/// A door and the state behind it, in pages of their own. See the [module](self).
#[repr(C, align(4096))]
pub struct Door<T: 'static> {
    state: T,
    open: Cell<bool>,
    /// Whether the kernel empties these pages in a child.
    wiped: Cell<bool>,
}

const _: () = assert!(align_of::<Door<u8>>() == PAGE);

// SAFETY: by its user's promise one thread at a time writes it, and nobody looks meanwhile at what is written: a thread without the lock looks
// at what comes first, which is blank with threads, and then at nothing more.
unsafe impl<T> Sync for Door<T> {}

impl<T: Blank> Door<T> {
    /// A door that is shut, before blank state. It has to be a static: only those lie in memory that the kernel gave zeroed, which
    /// it can empty.
    pub const fn new() -> Door<T> {
        // SAFETY: zeros are a value of the state, and `false` twice.
        unsafe { MaybeUninit::zeroed().assume_init() }
    }

    /// The state.
    #[inline(always)]
    pub fn state(&self) -> &T {
        &self.state
    }

    /// Whether it is open: whether the state may be filled.
    pub fn is_open(&self) -> bool {
        self.open.get()
    }

    /// Opens the door to what is under `lock`, unless that is threaded. Says whether it is open.
    pub fn open<L>(&'static self, lock: &'static BigLock<L>) -> bool {
        // Of larger pages others' memory might be part.
        if !self.wiped.get() && rustix::param::page_size() == PAGE {
            let at: *const Self = self;
            // SAFETY: the pages are this static's alone, as aligned as they are large, and zeros are a value of it.
            let wiped = unsafe { wipe_on_fork(at.cast_mut().cast::<c_void>(), size_of::<Self>()) };
            self.wiped.set(wiped);
        }
        self.open.set(self.wiped.get() && !lock.is_threaded());
        self.open.get()
    }

    /// Whether the state is blank in a forked child. (Not known before the first try to open it.)
    pub fn is_wiped(&self) -> bool {
        self.wiped.get()
    }

    /// Shuts it; its user empties the state.
    pub fn shut(&self) {
        self.open.set(false);
    }
}

impl<T: Blank> Default for Door<T> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_only_without_threads_and_blank_in_a_child() {
        static LOCK: BigLock<()> = BigLock::new(());
        static DOOR: Door<Cell<u32>> = Door::new();
        assert!(!DOOR.is_open());
        assert!(!DOOR.open(&LOCK), "the lock begins threaded");
        let inside = LOCK.enter();
        LOCK.set_threaded(false);
        drop(inside);
        assert!(DOOR.open(&LOCK) && DOOR.is_open());
        DOOR.state().set(7);
        // SAFETY: the child calls nothing but `_exit`, which is safe after a fork.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let code = i32::from(DOOR.is_open() || DOOR.state().get() != 0);
            // SAFETY: ends the forked child without running the parent's exit handlers.
            unsafe { libc::_exit(code) };
        }
        let mut status = -1;
        // SAFETY: waits for the child made above; `status` outlives the call.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert_eq!(status, 0);
        assert_eq!(DOOR.state().get(), 7);
        DOOR.shut();
        assert!(!DOOR.is_open());
        LOCK.set_threaded(true);
        assert!(!DOOR.open(&LOCK));
    }
}
