//! The signal by which the kernel has the rank calculate while the program computes.
//!
//! A bell is a pipe. A chain writes to it, upon which the kernel raises the signal in the rank's thread (`O_ASYNC`, with the
//! thread as owner), and reads what it wrote back, so the pipe never fills and the handler need not empty it. Which
//! calculation it is about, the handler finds in the table of `calls`, where the kernel has noted that before.
//!
//! # Why SIGURG, and not a real-time signal
//!
//! * It is never lost: one that is pending stands for all, as the handler does all that is due; so none needs a place in the
//!   thread's queue. A real-time signal for which the queue has no place becomes SIGIO, which ends a program that does not expect it.
//! * Its default is to be ignored. A program that resets it, as some reset all, is not ended by the next bell.
//! * Debuggers pass it on without stopping.
//!
//! # Sharing it
//!
//! A program that has a handler of its own for SIGURG when the ring begins keeps it, and one that installs one later
//! is not called for plans issued afterwards ([`Bell::rings`]): their calculations wait for its calls, as do those that are
//! due while it blocks the signal. The handler runs on the alternative stack, if the thread has one, and system calls that can be are
//! restarted; others, as `poll` and `nanosleep`, give `EINTR`, as with any handler. When the last ring of the process ends, the signal
//! is as it was before the first.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr;
use std::rc::Rc;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use boundary::UserBuf;
use cad_run::{Descriptor, Plan};
use libc::{c_int, c_void, siginfo_t};
use rustix::pipe::{PipeFlags, pipe_with};

use crate::calls::{self, Prepared};
use crate::code::Ask;
use crate::uring::{Act, Name, Step, Unusable, Uring, token};

/// The signal.
const SIGNAL: c_int = libc::SIGURG;

/// Of `fcntl.h`, which the crate libc leaves out: which signal a descriptor raises, and for whom.
const F_SETSIG: c_int = 10;
const F_SETOWN_EX: c_int = 15;
const F_OWNER_TID: c_int = 0;

/// `struct f_owner_ex`.
#[repr(C)]
struct Owner {
    kind: c_int,
    id: c_int,
}

/// How long trying the signal out takes at most. It is there at once or never.
const TRIAL: Duration = Duration::from_secs(1);

/// The bells of this process, and what the signal did before the first.
struct Installed {
    bells: usize,
    before: Option<libc::sigaction>,
}

static INSTALLED: Mutex<Installed> = Mutex::new(Installed {
    bells: 0,
    before: None,
});

fn installed() -> MutexGuard<'static, Installed> {
    // Nothing panics with it in hand.
    INSTALLED.lock().unwrap_or_else(PoisonError::into_inner)
}

extern "C" fn handler(_signal: c_int, _info: *mut siginfo_t, _context: *mut c_void) {
    // The program may be about to look at it, and what is calculated may set it.
    // SAFETY: the place is the calling thread's own, and there as long as that; nobody else refers to it here.
    let errno = unsafe { *libc::__errno_location() };
    calls::run_due();
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}

/// What the signal does.
fn disposition() -> Option<libc::sigaction> {
    let mut now = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: asks only; `now` has room for the answer.
    let result = unsafe { libc::sigaction(SIGNAL, ptr::null(), now.as_mut_ptr()) };
    // SAFETY: the call has filled it in.
    (result == 0).then(|| unsafe { now.assume_init() })
}

/// The address of the signal's handler. Each issue asks, so it asks the system itself: libc's call copies what nobody needs here.
fn installed_handler() -> Option<usize> {
    // The system's structure, which is shorter, begins with the handler.
    let mut now = [0usize; 8];
    // SAFETY: asks only; `now` has room for the answer.
    let result = unsafe {
        let (none, size) = (ptr::null::<c_void>(), size_of::<u64>());
        libc::syscall(libc::SYS_rt_sigaction, SIGNAL, none, now.as_mut_ptr(), size)
    };
    (result == 0).then_some(now[0])
}

fn ours(action: &libc::sigaction) -> bool {
    action.sa_sigaction == handler as *const () as usize
}

/// Has the signal do this.
fn dispose(action: &libc::sigaction) -> bool {
    // SAFETY: the action is the system's own earlier answer, or that of `install`, whose handler has the signature that
    // `SA_SIGINFO` asks for and does what a handler may.
    unsafe { libc::sigaction(SIGNAL, action, ptr::null_mut()) == 0 }
}

/// Installs the handler, unless the program has one.
fn install() -> Result<(), String> {
    calls::open();
    let mut installed = installed();
    let now = disposition().ok_or("the system does not tell what SIGURG does")?;
    if !ours(&now) {
        if now.sa_sigaction != libc::SIG_DFL && now.sa_sigaction != libc::SIG_IGN {
            return Err("the program has a handler of its own for SIGURG".to_owned());
        }
        let mut action = now;
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
        // SAFETY: the set is initialised by the call.
        unsafe { libc::sigemptyset(&raw mut action.sa_mask) };
        if !dispose(&action) {
            return Err("the system refuses a handler for SIGURG".to_owned());
        }
        installed.before = Some(now);
    }
    installed.bells += 1;
    Ok(())
}

/// Whether the calling thread has the signal blocked.
fn is_blocked() -> bool {
    let mut mask = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: asks only; `mask` has room for the answer.
    let result = unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, ptr::null(), mask.as_mut_ptr()) };
    // SAFETY: the call has filled it in.
    result == 0 && unsafe { libc::sigismember(mask.as_ptr(), SIGNAL) } == 1
}

/// A part in the handler; the last one puts back what was before.
struct Share;

impl Drop for Share {
    fn drop(&mut self) {
        let mut installed = installed();
        installed.bells -= 1;
        if installed.bells > 0 {
            return;
        }
        let before = installed.before.take();
        // What the program has installed since stays.
        if let (Some(before), true) = (before, disposition().is_some_and(|now| ours(&now))) {
            dispose(&before);
        }
    }
}

/// A pipe that raises the signal in the thread that made this.
pub(crate) struct Bell {
    read: OwnedFd,
    write: OwnedFd,
    _share: Share,
}

impl Bell {
    /// A bell that was tried out with a ring that runs nothing yet.
    ///
    /// # Errors
    /// In words, why not.
    pub fn new(uring: &mut Uring) -> Result<Bell, Unusable> {
        install().map_err(Unusable)?;
        let share = Share;
        let system =
            |e: io::Error| Unusable(format!("the system refuses a pipe that signals: {e}"));
        let flags = PipeFlags::CLOEXEC | PipeFlags::NONBLOCK;
        let (read, write) = pipe_with(flags).map_err(|e| system(e.into()))?;
        raises(&read).map_err(system)?;
        let bell = Bell {
            read,
            write,
            _share: share,
        };
        bell.try_out(uring)?;
        Ok(bell)
    }

    /// Whether it calls our handler: not if the program has installed another since.
    pub fn rings(&self) -> bool {
        installed_handler() == Some(handler as *const () as usize)
    }

    /// What a chain writes a unit to in order to ring.
    pub fn to_ring(&self) -> BorrowedFd<'_> {
        self.write.as_fd()
    }

    /// What it takes the unit from again.
    pub fn to_still(&self) -> BorrowedFd<'_> {
        self.read.as_fd()
    }

    /// Has the handler do a calculation of a chain's.
    fn try_out(&self, uring: &mut Uring) -> Result<(), Unusable> {
        if is_blocked() {
            // It may be let through later.
            return Ok(());
        }
        let system = |e: io::Error| Unusable(format!("trying the signal out failed: {e}"));
        let answer = [token().map_err(system)?];
        let mut memory = Box::new([[1u8; 8], [2u8; 8]]);
        let plan = trial(&mut memory).map_err(Unusable)?;
        let ask = Ask {
            node: 0,
            start: 0,
            bytes: 8,
            answer: 0,
            anywhere: true,
            known: false,
        };
        let mut prepared = Prepared::book(&plan, &[ask], &answer, |_| true);
        let state = prepared.state(0);
        let state =
            state.ok_or_else(|| Unusable("too many calculations are prepared".to_owned()))?;
        let step = |act, fd| Step { act, fd: Some(fd) };
        let steps = [
            Step {
                act: Act::Due(state),
                fd: None,
            },
            step(Act::Post, self.to_ring()),
            step(Act::Take, self.to_still()),
            step(Act::Take, answer[0].as_fd()),
        ];
        let mut entries = Vec::new();
        uring.chain(0, 0, &steps, &mut entries);
        // SAFETY: the chain uses no memory but what is static; descriptors stay open until it is over (below).
        unsafe { uring.push(&entries) }.map_err(system)?;
        uring.flush().map_err(system)?;
        let ended = over(uring);
        match (prepared.settle(), memory[0] == memory[1], ended) {
            (1, true, true) => Ok(()),
            _ => Err(Unusable(
                "the kernel does not raise SIGURG for a pipe".to_owned(),
            )),
        }
    }
}

/// A plan that copies by a calculation.
fn trial(memory: &mut [[u8; 8]; 2]) -> Result<Rc<Plan>, String> {
    let [from, to] = memory.each_mut().map(|m| UserBuf::of_array(m));
    let copy = |from: UserBuf, to: UserBuf, n: u64| to.copy_from(from, n as usize);
    let mut cad = Descriptor::new(0, 1, None);
    let made = cad.make_reduction_node(copy, from, to, 8);
    let plan = made.and_then(|_| cad.plan());
    plan.map(Rc::new).map_err(|why| why.to_string())
}

/// Waits for the one chain of a ring; whether it came to its end in time.
fn over(uring: &mut Uring) -> bool {
    let (deadline, mut told) = (Instant::now() + TRIAL, Vec::new());
    let end = Name::Chain {
        slot: 0,
        chain: 0,
        last: true,
    };
    loop {
        uring.take(&mut told);
        let chain = |name| matches!(name, Name::Chain { .. });
        if let Some(one) = told.iter().find(|c| chain(c.name)) {
            return one.name == end && one.result == Uring::success(&Act::Take);
        }
        if Instant::now() >= deadline {
            uring.cancel(0, 0);
        }
        uring.wait(Some(Instant::now() + Duration::from_millis(10)));
    }
}

/// Has a pipe raise the signal in the calling thread when something is written to it.
fn raises(read: &OwnedFd) -> io::Result<()> {
    let fd = read.as_raw_fd();
    let owner = Owner {
        kind: F_OWNER_TID,
        id: rustix::thread::gettid().as_raw_nonzero().get(),
    };
    let done = |result: c_int| match result {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    };
    // SAFETY: the descriptor is open; the owner is read during the call only.
    done(unsafe { libc::fcntl(fd, F_SETOWN_EX, &raw const owner) })?;
    // SAFETY: the descriptor is open, the argument a number.
    done(unsafe { libc::fcntl(fd, F_SETSIG, SIGNAL) })?;
    // SAFETY: as above.
    done(unsafe { libc::fcntl(fd, libc::F_SETFL, libc::O_NONBLOCK | libc::O_ASYNC) })
}
