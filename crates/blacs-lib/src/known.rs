//! The context that was used last, for matrices of one piece: to find it takes a few instructions in place of some dozens, which count
//! beside a message of one element.
//!
//! # Invariants
//! What is known is of a context that is open: it is forgotten before any is closed. It is looked at only while MPI's flag says that no
//! second thread may call, so by one thread at a time.
//!
//! Who calls it: `calls`, and `state` when all is over.

use std::ffi::c_int;
use std::hint::assert_unchecked;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicPtr, Ordering};

use blacs::Ends;
use fmpl_table::FmplTable;

use crate::state::State;

/// No context has this number.
const NONE: i64 = -1;

/// What is known.
struct Known {
    context: AtomicI64,
    ends: AtomicPtr<Ends<i32>>,
    table: AtomicPtr<FmplTable>,
    /// Whether several threads may call.
    threads: AtomicPtr<AtomicBool>,
}

static KNOWN: Known = Known {
    context: AtomicI64::new(NONE),
    ends: AtomicPtr::new(null_mut()),
    table: AtomicPtr::new(null_mut()),
    threads: AtomicPtr::new(null_mut()),
};

/// The ends of a context and FMPL's table, if it is the one that is known and no second thread may call.
#[inline(always)]
pub(crate) fn find(context: c_int) -> Option<(&'static Ends<i32>, &'static FmplTable)> {
    let known = &KNOWN;
    if known.context.load(Ordering::Relaxed) != i64::from(context as u32) {
        return None;
    }
    // SAFETY: while a context is known the flag is MPI's, which is there for ever; a context is known from the first on, so it was
    // written before.
    let threads = unsafe { &*known.threads.load(Ordering::Relaxed) };
    if threads.load(Ordering::Relaxed) {
        return None;
    }
    // SAFETY: both were written before the context, by this thread or before it could call; the ends are those of an open context, which
    // its closing forgets first, and whoever uses them is done with them before the next call.
    unsafe {
        let ends = known.ends.load(Ordering::Relaxed);
        // Lest `None` is told from a null one.
        assert_unchecked(!ends.is_null());
        Some((&*ends, &*known.table.load(Ordering::Relaxed)))
    }
}

/// The number of the context that is known, or -1.
pub(crate) fn context() -> c_int {
    KNOWN.context.load(Ordering::Relaxed) as c_int
}

/// A context was used: it is known from here on, unless several threads may call.
pub(crate) fn know(state: &State, context: c_int) {
    // SAFETY: the table's function has no preconditions.
    let threads = unsafe { (state.table.threads)() };
    // SAFETY: MPI's flag, which is there for ever.
    let threaded = unsafe { (*threads).load(Ordering::Relaxed) };
    let Ok(ends) = state.blacs.ends(context) else {
        return;
    };
    if threaded {
        return;
    }
    let (ends, table): (*const Ends<i32>, *const FmplTable) = (ends, state.table);
    KNOWN.ends.store(ends.cast_mut(), Ordering::Relaxed);
    KNOWN.table.store(table.cast_mut(), Ordering::Relaxed);
    KNOWN.threads.store(threads.cast_mut(), Ordering::Relaxed);
    let number = i64::from(context as u32);
    KNOWN.context.store(number, Ordering::Release);
}

/// No context is known: one is closed.
pub(crate) fn forget() {
    KNOWN.context.store(NONE, Ordering::Relaxed);
}
