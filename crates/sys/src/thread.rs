//! A thread of the library's own beside those of the program, and what its being there asks for when the program forks.

use std::ffi::c_int;
use std::io;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::OnceLock;
use std::thread::{Builder, JoinHandle};

/// Starts a thread that none of the program's signals is delivered to.
///
/// # Errors
/// The system gives no thread, or signals can't be blocked.
pub fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    let mut all = MaybeUninit::<libc::sigset_t>::uninit();
    let mut own = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: fills the set, which is large enough as its type says.
    unsafe { libc::sigfillset(all.as_mut_ptr()) };
    // SAFETY: the first set was filled, the second has room for the caller's.
    let blocked =
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), own.as_mut_ptr()) };
    errno(blocked)?;
    // A thread begins with the mask of who made it.
    let thread = Builder::new().name(name.to_owned()).spawn(run);
    // SAFETY: the set was filled by the call above, which succeeded; the old one is not asked for.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, own.as_ptr(), ptr::null_mut()) };
    thread
}

/// What is called around each fork of this process.
#[derive(Debug)]
pub struct Around {
    /// Before it,
    pub before: fn(),
    /// and after it, in the parent
    pub in_parent: fn(),
    /// and in the child, which has this one thread only.
    pub in_child: fn(),
}

static AROUND: OnceLock<Around> = OnceLock::new();

/// Has these be called around each fork from now on, by the thread that forks. The first call in a process counts.
///
/// # Errors
/// There is no memory for it.
pub fn around_forks(around: Around) -> io::Result<()> {
    if AROUND.set(around).is_err() {
        return Ok(());
    }
    // SAFETY: three functions that live as long as this library, which takes them back when it is unloaded.
    errno(unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) })
}

extern "C" fn before() {
    call(|around| around.before);
}

extern "C" fn in_parent() {
    call(|around| around.in_parent);
}

extern "C" fn in_child() {
    call(|around| around.in_child);
}

fn call(which: impl FnOnce(&Around) -> fn()) {
    if let Some(around) = AROUND.get() {
        which(around)();
    }
}

fn errno(code: c_int) -> io::Result<()> {
    match code {
        0 => Ok(()),
        code => Err(io::Error::from_raw_os_error(code)),
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::lock::BigLock;
    use std::cell::Cell;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn a_thread_takes_no_signals_and_its_maker_still_does() {
        fn blocked(signal: c_int) -> bool {
            let mut set = MaybeUninit::<libc::sigset_t>::uninit();
            // SAFETY: only asks for the mask, for which there is room.
            let code =
                unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, ptr::null(), set.as_mut_ptr()) };
            assert_eq!(code, 0);
            // SAFETY: the set was filled by the call above.
            unsafe { libc::sigismember(set.as_ptr(), signal) == 1 }
        }
        let thread = spawn("quiet", || assert!(blocked(libc::SIGUSR1)));
        assert!(!blocked(libc::SIGUSR1));
        thread.unwrap().join().unwrap();
    }

    /// A lock is held by another thread almost always when the process forks; the child can enter it all the same.
    #[test]
    fn a_child_enters_a_lock_that_others_used() {
        static LOCK: BigLock<Cell<u32>> = BigLock::new(Cell::new(0));
        static END: AtomicBool = AtomicBool::new(false);
        let others: Vec<_> = (0..2)
            .map(|_| {
                std::thread::spawn(|| {
                    while !END.load(Ordering::Relaxed) {
                        let inside = LOCK.enter();
                        inside.set(inside.get() + 1);
                    }
                })
            })
            .collect();
        around_forks(Around {
            before: || LOCK.hold(),
            in_parent: || LOCK.let_go(),
            in_child: || LOCK.forget_others(),
        })
        .unwrap();
        for holds in [true, false].into_iter().cycle().take(50) {
            let inside = holds.then(|| LOCK.enter());
            // SAFETY: the child calls nothing but `alarm`, the lock and `_exit`, which are safe after a fork.
            let child = unsafe { libc::fork() };
            if child == 0 {
                // SAFETY: no preconditions; ends the child if it waits for the lock.
                unsafe { libc::alarm(20) };
                drop(inside);
                LOCK.enter().set(7);
                let code = i32::from(LOCK.enter().get() != 7);
                // SAFETY: ends the forked child without running the parent's exit handlers.
                unsafe { libc::_exit(code) };
            }
            drop(inside);
            let mut status = -1;
            // SAFETY: waits for the child made above; `status` outlives the call.
            assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
            assert_eq!(status, 0);
        }
        END.store(true, Ordering::Relaxed);
        others.into_iter().for_each(|t| t.join().unwrap());
    }
}
