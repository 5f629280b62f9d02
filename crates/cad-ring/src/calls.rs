//! Calculations that the handler of a signal may do: what it finds of them, and who does them.
//!
//! A plan's calculation that may run anywhere ([`Plan::is_reduction`]) has an entry in a static table while its issue is
//! under way. When the chain has come to it, the kernel makes the entry's state [`DUE`] and then raises the signal. Whoever comes
//! first, the handler ([`run_due`]) or the rank in a call ([`Prepared::run`]), takes the entry by compare-exchange, calculates, and
//! posts the token for which the chain waits.
//!
//! Invariants:
//! * The handler touches atomics of the table, what the calculation touches, and one descriptor: no lock, no allocation,
//!   no thread-local, no `errno` (its one system call is made directly).
//! * An entry belongs to the thread that booked it, and only code of that thread runs it: so the handler may interrupt all that this
//!   module does, but nothing here runs beside it.
//! * The plan of an entry lives as long as the entry has it ([`Prepared`] has a reference). The kernel may write an entry's state until
//!   the chains have told that they are over; an entry of which that is not known is never used again.
//! * A forked child has a copy of the table, and shares the tokens with its parent: its handler does nothing.

use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::ptr;
use std::rc::Rc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use cad_run::Plan;
use sys::lock::thread_pointer;
use sys::process::ForkMark;

use crate::code::Ask;

/// Calculations that may be prepared at once in a process, those of all its rings; more wait for the rank's next call. As many
/// bells of 8 bytes fit a pipe of one page, which is the least that the system makes.
pub(crate) const CALLS: usize = 512;

/// States of an entry. It is free.
const FREE: u32 = 0;
/// It is to be done: this the kernel writes.
pub(crate) const DUE: u32 = 1;
/// The chain has not come to it.
const BOOKED: u32 = 2;
/// Somebody does it.
const TAKEN: u32 = 3;
/// It was done, by the handler or in a call.
const DONE_BY_HANDLER: u32 = 4;
const DONE_IN_CALL: u32 = 5;
/// It was done, but its token could not be posted.
const FAILED: u32 = 6;

/// A prepared calculation.
struct Entry {
    state: AtomicU32,
    node: AtomicU32,
    /// The number of the token's descriptor.
    token: AtomicI32,
    /// The thread it belongs to.
    owner: AtomicUsize,
    plan: AtomicPtr<Plan>,
    /// The floating-point control words of the thread when it was booked.
    control: AtomicU64,
}

static TABLE: [Entry; CALLS] = [const { Entry::new() }; CALLS];
/// Entries from here on were never used.
static TOP: AtomicUsize = AtomicUsize::new(0);
/// Entries that plans keep from one issue to the next: half of all at most, so that others find some.
static KEPT: AtomicUsize = AtomicUsize::new(0);
const KEPT_MAX: usize = CALLS / 2;
/// The process whose table it is.
static PROCESS: OnceLock<ForkMark> = OnceLock::new();

impl Entry {
    const fn new() -> Entry {
        Entry {
            state: AtomicU32::new(FREE),
            node: AtomicU32::new(0),
            token: AtomicI32::new(-1),
            owner: AtomicUsize::new(0),
            plan: AtomicPtr::new(ptr::null_mut()),
            control: AtomicU64::new(0),
        }
    }

    fn is_due(&self) -> bool {
        self.state.load(Ordering::Acquire) == DUE
    }

    /// Takes it, if it is due and nobody has.
    fn take(&self) -> bool {
        let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
        self.state
            .compare_exchange(DUE, TAKEN, success, failure)
            .is_ok()
    }

    /// Calculates and posts, after `take`.
    fn run(&self, done: u32) {
        // SAFETY: an entry has a plan only while `Prepared` keeps that alive; the caller is of the thread that owns both, so it
        // is not dropped meanwhile. Buffers are valid while the plan is under way (`UserBuf`), and it waits for this.
        let Some(plan) = (unsafe { self.plan.load(Ordering::Acquire).as_ref() }) else {
            return;
        };
        plan.compute(self.node.load(Ordering::Relaxed));
        let token = self.token.load(Ordering::Relaxed);
        // SAFETY: the descriptor is open while the entry has a plan: the issue closes its tokens after `Prepared` is gone.
        let token = unsafe { BorrowedFd::borrow_raw(token) };
        // A token that has no unit takes one.
        let posted = rustix::io::write(token, &1u64.to_ne_bytes());
        let state = if posted == Ok(8) { done } else { FAILED };
        self.state.store(state, Ordering::Release);
    }
}

/// Begins the use of the table in this process. To be called before a handler is installed.
pub(crate) fn open() {
    PROCESS.get_or_init(ForkMark::new);
}

/// Does what is due of the calling thread's. For the handler of the signal.
pub(crate) fn run_due() {
    if PROCESS.get().is_none_or(ForkMark::forked) {
        return;
    }
    let me = thread_pointer();
    let top = TOP.load(Ordering::Acquire).min(CALLS);
    for entry in &TABLE[..top] {
        if entry.is_due() && entry.owner.load(Ordering::Relaxed) == me && entry.take() {
            // The kernel has given the handler control words of its own; it puts the interrupted code's back.
            control::set(entry.control.load(Ordering::Relaxed));
            entry.run(DONE_BY_HANDLER);
        }
    }
}

/// What has become of a calculation after [`Prepared::run`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ran {
    /// It has no entry: whoever asks does it.
    Not,
    /// It is done, now or before.
    Done,
    /// It is done, but its chain could not be told.
    Untold,
}

/// The entries of an issue.
#[derive(Default)]
pub(crate) struct Prepared {
    plan: Option<Rc<Plan>>,
    /// By the index of the question.
    entries: Vec<Option<&'static Entry>>,
    /// How many are counted as kept.
    kept: usize,
    /// The control words that they have.
    control: u64,
}

impl Prepared {
    /// Books entries for the wanted ones of a plan's questions, which may be answered anywhere, as far as there are free ones. `tokens` are
    /// those of the issue, which have to stay open as long as this is there.
    pub fn book(
        plan: &Rc<Plan>,
        asks: &[Ask],
        tokens: &[OwnedFd],
        wanted: impl Fn(&Ask) -> bool,
    ) -> Prepared {
        let (control, mut next) = (control::get(), 0);
        let mut book = |ask: &Ask| {
            let token = tokens.get(ask.answer as usize).filter(|_| wanted(ask))?;
            let (index, entry) = free(next)?;
            next = index + 1;
            entry.node.store(ask.node, Ordering::Relaxed);
            entry.token.store(token.as_raw_fd(), Ordering::Relaxed);
            entry.control.store(control, Ordering::Relaxed);
            entry.owner.store(thread_pointer(), Ordering::Relaxed);
            let plan = Rc::as_ptr(plan).cast_mut();
            entry.plan.store(plan, Ordering::Release);
            TOP.fetch_max(index + 1, Ordering::AcqRel);
            Some(entry)
        };
        let entries: Vec<_> = asks.iter().map(&mut book).collect();
        Prepared {
            plan: Some(plan.clone()),
            entries,
            kept: 0,
            control,
        }
    }

    /// Keeps the entries for further issues, if there are as many as wanted, and enough are left for others; whether it does.
    pub fn keep(&mut self, wanted: usize) -> bool {
        let booked = self.entries.iter().flatten().count();
        if booked != wanted {
            return false;
        }
        let more = booked - self.kept;
        if KEPT.fetch_add(more, Ordering::Relaxed) + more > KEPT_MAX {
            KEPT.fetch_sub(more, Ordering::Relaxed);
            return false;
        }
        self.kept = booked;
        true
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether the entries serve further issues.
    pub fn is_kept(&self) -> bool {
        self.kept > 0
    }

    /// Prepares kept entries for the next issue.
    pub fn renew(&mut self) {
        let control = control::get();
        if control == self.control {
            return;
        }
        self.control = control;
        for entry in self.entries.iter().flatten() {
            entry.control.store(control, Ordering::Relaxed);
        }
    }

    /// Puts kept entries to rest, as the kernel writes to them no more. Says how many the handler ran.
    pub fn rest(&self) -> u64 {
        let ran = |entry: &Entry| {
            let state = entry.state.swap(BOOKED, Ordering::AcqRel);
            u64::from(state == DONE_BY_HANDLER)
        };
        self.entries.iter().flatten().map(|e| ran(e)).sum()
    }

    /// The state of a question's entry, for the kernel to write [`DUE`] to.
    pub fn state(&self, ask: u32) -> Option<&'static AtomicU32> {
        let entry = self.entries.get(ask as usize)?;
        entry.map(|entry| &entry.state)
    }

    /// Does a calculation that has come to its turn, unless the handler has.
    pub fn run(&self, ask: u32) -> Ran {
        let Some(entry) = self.entries.get(ask as usize).copied().flatten() else {
            return Ran::Not;
        };
        if entry.take() {
            entry.run(DONE_IN_CALL);
        }
        match entry.state.load(Ordering::Acquire) {
            DONE_BY_HANDLER | DONE_IN_CALL => Ran::Done,
            _ => Ran::Untold,
        }
    }

    /// Gives the entries back, as the kernel writes to them no more. Says how many the handler ran.
    pub fn settle(&mut self) -> u64 {
        let mut by_handler = 0;
        for entry in self.entries.drain(..).flatten() {
            // From here on the handler does not take it.
            let state = entry.state.swap(TAKEN, Ordering::AcqRel);
            by_handler += u64::from(state == DONE_BY_HANDLER);
            entry.plan.store(ptr::null_mut(), Ordering::Release);
            entry.state.store(FREE, Ordering::Release);
        }
        self.plan = None;
        KEPT.fetch_sub(std::mem::take(&mut self.kept), Ordering::Relaxed);
        by_handler
    }
}

impl Drop for Prepared {
    fn drop(&mut self) {
        // Not settled: the kernel may still write to these, so they stay booked, with nothing to be done.
        for entry in self.entries.drain(..).flatten() {
            entry.plan.store(ptr::null_mut(), Ordering::Release);
        }
        KEPT.fetch_sub(self.kept, Ordering::Relaxed);
    }
}

/// Books a free entry, looking from `start` on.
fn free(start: usize) -> Option<(usize, &'static Entry)> {
    let (success, failure) = (Ordering::AcqRel, Ordering::Relaxed);
    let mut from = TABLE.iter().enumerate().skip(start);
    from.find(|(_, entry)| {
        entry
            .state
            .compare_exchange(FREE, BOOKED, success, failure)
            .is_ok()
    })
}

/// How floating-point numbers are rounded, and what becomes of the smallest. Linux on x86 starts a handler with the defaults,
/// not with what the program has set; elsewhere the handler has the program's.
#[cfg(target_arch = "x86_64")]
mod control {
    use std::arch::asm;

    /// That of the calling thread.
    pub(super) fn get() -> u64 {
        let (mut vector, mut x87) = (0u32, 0u16);
        // SAFETY: both store a control word to a local of its size.
        unsafe {
            asm!("stmxcsr [{}]", "fnstcw [{}]", in(reg) &raw mut vector, in(reg) &raw mut x87,
                options(nostack, preserves_flags));
        }
        u64::from(vector) | u64::from(x87) << 32
    }

    /// Makes it that of the calling thread: of a handler, whose return puts the interrupted code's back.
    pub(super) fn set(control: u64) {
        let (vector, x87) = (control as u32, (control >> 32) as u16);
        // SAFETY: both load what `get` stored, so no reserved bit is set; the code that follows is called through a pointer,
        // and does with numbers what it would do if the program called it.
        unsafe {
            asm!("ldmxcsr [{}]", "fldcw [{}]", in(reg) &raw const vector, in(reg) &raw const x87,
                options(nostack, preserves_flags, readonly));
        }
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod control {
    pub(super) fn get() -> u64 {
        0
    }

    pub(super) fn set(_: u64) {}
}
