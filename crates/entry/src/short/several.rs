//! The short paths of the calls that complete several requests: where each of these is null, over, or a receive under way, and
//! known to the shorter path.
//!
//! First all are looked at; if any is unknown, the long path does the whole call. It checks them again, so a handle that is none is found
//! here too. Then those that are over are given back. One that is in the array twice is gone the second time: the long path says
//! so.
//!
//! Those that wait do so first thing on the cold side, and only then give back.

use std::cell::Cell;

use engine::{Look, Over, Short};
use types::consts::SUCCESS;

use super::{AbiStatus, give};
use crate::out::AbiHandle;

/// The requests of a call, while something is known of requests.
struct Array<R> {
    first: *mut R,
    len: usize,
    short: &'static Short,
}

/// What there is in an array all of whose requests are known.
struct Seen {
    /// The first request that is over.
    over: Option<usize>,
    /// Whether a receive is pending.
    pending: bool,
}

impl<R: AbiHandle> Array<R> {
    /// `None`: the long path has to do the call.
    ///
    /// # Safety
    /// `first` is null, or readable and writable for `count` requests while the array is used.
    #[inline(always)]
    unsafe fn new(first: *mut R, count: i32) -> Option<Array<R>> {
        let (len, short) = (usize::try_from(count).ok()?, engine::short());
        let usable = !first.is_null() && short.is_open();
        usable.then_some(Array { first, len, short })
    }

    /// Request `i`, which is one of the array's.
    #[inline(always)]
    fn get(&self, i: usize) -> R {
        debug_assert!(i < self.len);
        // SAFETY: inside the array, by the maker's contract; callers may have packed it.
        unsafe { self.first.add(i).read_unaligned() }
    }

    /// Where request `i`, which is one of the array's, has its object.
    #[inline(always)]
    fn address(&self, i: usize) -> usize {
        self.get(i).address(self.short.base())
    }

    #[inline(always)]
    fn is_null(&self, i: usize) -> bool {
        self.get(i).word() == R::of(R::NULL).word()
    }

    /// Looks at request `i`, which is one of the array's and not null.
    #[inline(always)]
    fn look(&self, i: usize) -> Look {
        self.short.look(self.get(i).word(), self.address(i))
    }

    /// Whether all requests are null or over.
    #[inline(always)]
    fn is_over(&self) -> bool {
        (0..self.len).all(|i| self.is_null(i) || self.look(i) == Look::Over)
    }

    /// Looks at all requests. `None`: one is unknown.
    #[inline(always)]
    fn seen(&self) -> Option<Seen> {
        let mut seen = Seen {
            over: None,
            pending: false,
        };
        for i in 0..self.len {
            if self.is_null(i) {
                continue;
            }
            match self.look(i) {
                Look::Over => seen.over = seen.over.or(Some(i)),
                Look::Pending => seen.pending = true,
                Look::Unknown => return None,
            }
        }
        Some(seen)
    }

    /// Gives request `i`, which is one of the array's, back if it is over, with its status in `status`.
    ///
    /// # Safety
    /// `status` is one that is not wanted, or writable.
    #[inline(always)]
    unsafe fn take<S: AbiStatus>(&self, i: usize, status: *mut S) -> Option<()> {
        let word = self.get(i).word();
        let over = self.short.over_of_several(word, self.address(i))?;
        // SAFETY: inside the array, by the maker's contract.
        unsafe { self.first.add(i).write_unaligned(R::of(R::NULL)) }
        match over {
            // SAFETY: wanted, so writable by the contract.
            Over::Sent if S::is_wanted(status) => unsafe { S::write_empty(status) },
            Over::Sent => {}
            // SAFETY: the caller's contract is the same.
            Over::Received(got) => unsafe { give(&got, status) },
        }
        Some(())
    }

    /// Gives all requests back, which are null or over, with their statuses in `statuses`.
    ///
    /// # Safety
    /// `statuses` are such that are not wanted, or writable as far as the array is long.
    #[inline(always)]
    unsafe fn take_all<S: AbiStatus>(&self, statuses: *mut S) -> Option<i32> {
        for i in 0..self.len {
            let status = status_at(statuses, i);
            if !self.is_null(i) {
                // SAFETY: the caller's contract is the same.
                unsafe { self.take(i, status) }?;
            } else if S::is_wanted(status) {
                // SAFETY: wanted, so writable by the contract.
                unsafe { S::write_empty(status) }
            }
        }
        Some(SUCCESS)
    }

    /// Waits until all requests, which are known, are null, over, or known no more.
    fn wait_for_all(&self, call: &'static str) {
        let at = Cell::new(0);
        let is_pending = || !self.is_null(at.get()) && self.look(at.get()) == Look::Pending;
        let done = || {
            while at.get() < self.len && !is_pending() {
                at.set(at.get() + 1);
            }
            at.get() == self.len
        };
        engine::wait_plain(call, || self.address(at.get()), done);
    }

    /// Waits until a request is over, or one is known no more.
    fn wait_for_any(&self, call: &'static str) {
        let done = || self.seen().is_none_or(|seen| seen.over.is_some());
        // Of several it says nothing.
        engine::wait_plain(call, || 0, done);
    }
}

/// Status `i` of an array of them; the constant that says that none is wanted stays what it is.
#[inline(always)]
fn status_at<S: AbiStatus>(statuses: *mut S, i: usize) -> *mut S {
    match S::is_wanted(statuses) {
        true => statuses.wrapping_add(i),
        false => statuses,
    }
}

/// `MPI_Waitall`, of requests that are over.
///
/// # Safety
/// `requests` is null, or readable and writable for `count` of them; `statuses` are such that are not wanted, or writable as far.
#[inline(always)]
pub unsafe fn waitall<R: AbiHandle, S: AbiStatus>(
    count: i32,
    requests: *mut R,
    statuses: *mut S,
) -> Option<i32> {
    // SAFETY: the caller's contract is the same.
    let array = unsafe { Array::new(requests, count) }?;
    if !array.is_over() {
        return None;
    }
    // SAFETY: the caller's contract is the same.
    unsafe { array.take_all(statuses) }
}

/// Once more, when they are.
///
/// # Safety
/// As for [`waitall`].
pub unsafe fn waitall_again<R: AbiHandle, S: AbiStatus>(
    count: i32,
    requests: *mut R,
    statuses: *mut S,
) -> Option<i32> {
    // SAFETY: the caller's contract is the same.
    unsafe { wait_for(count, requests, statuses, "MPI_Waitall") }
}

/// `MPI_Wait`, when the request is over.
///
/// # Safety
/// As for [`wait`](super::wait).
pub unsafe fn wait_again<R: AbiHandle, S: AbiStatus>(
    request: *mut R,
    status: *mut S,
) -> Option<i32> {
    // SAFETY: the caller's contract is the same, for an array of one.
    unsafe { wait_for(1, request, status, "MPI_Wait") }
}

/// Waits for all, and gives them back.
///
/// # Safety
/// As for [`waitall`].
#[inline(always)]
unsafe fn wait_for<R: AbiHandle, S: AbiStatus>(
    count: i32,
    requests: *mut R,
    statuses: *mut S,
    call: &'static str,
) -> Option<i32> {
    // SAFETY: the caller's contract is the same.
    let array = unsafe { Array::new(requests, count) }?;
    if !array.seen()?.pending {
        return None;
    }
    array.wait_for_all(call);
    if !array.is_over() {
        return None;
    }
    // SAFETY: the caller's contract is the same.
    unsafe { array.take_all(statuses) }
}

/// `MPI_Testall`, of requests that are over.
///
/// # Safety
/// As for [`waitall`]; `flag` is null or writable.
#[inline(always)]
pub unsafe fn testall<R: AbiHandle, S: AbiStatus>(
    count: i32,
    requests: *mut R,
    flag: *mut i32,
    statuses: *mut S,
) -> Option<i32> {
    if flag.is_null() {
        return None;
    }
    // SAFETY: the caller's contract is the same.
    let code = unsafe { waitall(count, requests, statuses) }?;
    // SAFETY: not null, so writable by the contract.
    unsafe { flag.write_unaligned(1) }
    Some(code)
}

/// `MPI_Waitany`, where one is over.
///
/// # Safety
/// `requests` is null, or readable and writable for `count` of them; `index` is null or writable; `status` is one that is not wanted, or
/// writable.
#[inline(always)]
pub unsafe fn waitany<R: AbiHandle, S: AbiStatus>(
    count: i32,
    requests: *mut R,
    index: *mut i32,
    status: *mut S,
) -> Option<i32> {
    if index.is_null() {
        return None;
    }
    // SAFETY: the caller's contract is the same.
    let array = unsafe { Array::new(requests, count) }?;
    let i = array.seen()?.over?;
    // SAFETY: the caller's contract is the same.
    unsafe { array.take(i, status) }?;
    // SAFETY: not null, so writable by the contract.
    unsafe { index.write_unaligned(i as i32) }
    Some(SUCCESS)
}

/// Once more, when one is.
///
/// # Safety
/// As for [`waitany`].
pub unsafe fn waitany_again<R: AbiHandle, S: AbiStatus>(
    count: i32,
    requests: *mut R,
    index: *mut i32,
    status: *mut S,
) -> Option<i32> {
    // SAFETY: the caller's contract is the same.
    let array = unsafe { Array::new(requests, count) }?;
    if array.seen()?.pending {
        array.wait_for_any("MPI_Waitany");
    }
    // SAFETY: the caller's contract is the same.
    unsafe { waitany(count, requests, index, status) }
}

/// `MPI_Testany`, where one is over.
///
/// # Safety
/// As for [`waitany`]; `flag` is null or writable.
#[inline(always)]
pub unsafe fn testany<R: AbiHandle, S: AbiStatus>(
    count: i32,
    requests: *mut R,
    index: *mut i32,
    flag: *mut i32,
    status: *mut S,
) -> Option<i32> {
    if flag.is_null() {
        return None;
    }
    // SAFETY: the caller's contract is the same.
    let code = unsafe { waitany(count, requests, index, status) }?;
    // SAFETY: not null, so writable by the contract.
    unsafe { flag.write_unaligned(1) }
    Some(code)
}

/// `MPI_Waitsome`, where some are over.
///
/// # Safety
/// `requests` is null, or readable and writable for `count` of them; `out_count` is null or writable; `indices` and `statuses` are null,
/// such that are not wanted, or writable as far.
#[inline(always)]
pub unsafe fn waitsome<R: AbiHandle, S: AbiStatus>(
    count: i32,
    requests: *mut R,
    out_count: *mut i32,
    indices: *mut i32,
    statuses: *mut S,
) -> Option<i32> {
    if out_count.is_null() || indices.is_null() {
        return None;
    }
    // SAFETY: the caller's contract is the same.
    let array = unsafe { Array::new(requests, count) }?;
    let first = array.seen()?.over?;
    let mut taken = 0;
    for i in first..array.len {
        if array.is_null(i) || array.look(i) != Look::Over {
            continue;
        }
        // SAFETY: no more are taken than there are, so both are writable by the contract.
        unsafe {
            array.take(i, status_at(statuses, taken))?;
            indices.add(taken).write_unaligned(i as i32);
        }
        taken += 1;
    }
    // SAFETY: not null, so writable by the contract.
    unsafe { out_count.write_unaligned(taken as i32) }
    Some(SUCCESS)
}

/// Once more, when some are.
///
/// # Safety
/// As for [`waitsome`].
pub unsafe fn waitsome_again<R: AbiHandle, S: AbiStatus>(
    count: i32,
    requests: *mut R,
    out_count: *mut i32,
    indices: *mut i32,
    statuses: *mut S,
) -> Option<i32> {
    // SAFETY: the caller's contract is the same.
    let array = unsafe { Array::new(requests, count) }?;
    if array.seen()?.pending {
        array.wait_for_any("MPI_Waitsome");
    }
    // SAFETY: the caller's contract is the same.
    unsafe { waitsome(count, requests, out_count, indices, statuses) }
}

/// `MPI_Testsome`, where some are over.
///
/// # Safety
/// As for [`waitsome`].
#[inline(always)]
pub unsafe fn testsome<R: AbiHandle, S: AbiStatus>(
    count: i32,
    requests: *mut R,
    out_count: *mut i32,
    indices: *mut i32,
    statuses: *mut S,
) -> Option<i32> {
    // SAFETY: the caller's contract is the same.
    unsafe { waitsome(count, requests, out_count, indices, statuses) }
}
