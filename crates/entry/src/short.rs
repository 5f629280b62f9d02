//! The short paths as entry points try them, before they enter the engine: see `engine`'s `short`.
//!
//! Each says `true` if it has done the whole call, successfully, with what it gives back written; else nothing was done, and a
//! request that was written is written by the long path too. A function that is named as one of them with `again` is tried first thing on the cold side of it.
//! An argument that is wrong makes it say `false`: the long path finds the words.

use std::cell::Cell;

use boundary::UserBuf;
use engine::{Over, Plain};

use crate::out::AbiHandle;

/// A datatype of an ABI.
pub trait AbiType: Copy {
    /// What this ABI's programs give as any tag.
    const ANY_TAG: i32;
    /// Bytes of an element by the handle's low byte, which `sizes` has; 0 if the handle is not that of a predefined type.
    fn size(self, sizes: &[Cell<u8>; 256]) -> usize;
}

/// A status of an ABI.
pub trait AbiStatus {
    /// Whether the caller wants one.
    fn is_wanted(to: *mut Self) -> bool;

    /// Writes that of a send, which is empty.
    ///
    /// # Safety
    /// `to` is a writable status.
    unsafe fn write_empty(to: *mut Self);

    /// Writes that of a receive, but for the error field.
    ///
    /// # Safety
    /// `to` is a writable status.
    unsafe fn write_received(to: *mut Self, source: i32, tag: i32, bytes: i64);
}

/// A count of either width, below 2^32: what is no count is large.
#[derive(Clone, Copy)]
pub struct Count(u64);

impl From<i32> for Count {
    #[inline(always)]
    fn from(count: i32) -> Count {
        Count(count as u32 as u64)
    }
}

impl From<i64> for Count {
    #[inline(always)]
    fn from(count: i64) -> Count {
        Count(u32::try_from(count).unwrap_or(u32::MAX).into())
    }
}

/// The arguments that a send or receive begins with, as the entry point has them.
#[inline(always)]
fn plain<D: AbiType, C: AbiHandle>(
    e: &engine::Engine,
    (buf, count, datatype): (UserBuf, Count, D),
    (peer, tag, comm): (i32, i32, C),
) -> Plain {
    Plain {
        buf,
        count: count.0,
        size: datatype.size(e.sizes()),
        peer,
        tag,
        any_tag: D::ANY_TAG,
        comm: comm.word(),
    }
}

/// `MPI_Send`.
#[inline(always)]
pub fn send<D: AbiType, C: AbiHandle>(
    buf: UserBuf,
    count: impl Into<Count>,
    datatype: D,
    dest: i32,
    tag: i32,
    comm: C,
) -> bool {
    let Some(e) = engine::short() else {
        return false;
    };
    let m = plain(e, (buf, count.into(), datatype), (dest, tag, comm));
    e.send_plain(&m, || ())
}

/// Once more, after a look whether there is room after all.
#[inline(always)]
pub fn send_again<D: AbiType, C: AbiHandle>(
    buf: UserBuf,
    count: impl Into<Count>,
    datatype: D,
    dest: i32,
    tag: i32,
    comm: C,
) -> bool {
    let Some(e) = engine::short() else {
        return false;
    };
    let m = plain(e, (buf, count.into(), datatype), (dest, tag, comm));
    e.has_room(&m) && e.send_plain(&m, || ())
}

/// `MPI_Isend`. The request is written when all is checked and before the message goes, so that this is the end.
///
/// # Safety
/// `request` is null or writable.
#[inline(always)]
pub unsafe fn isend<D: AbiType, C: AbiHandle, R: AbiHandle>(
    buf: UserBuf,
    count: impl Into<Count>,
    datatype: D,
    dest: i32,
    tag: i32,
    comm: C,
    request: *mut R,
) -> bool {
    let Some(e) = engine::short() else {
        return false;
    };
    if request.is_null() {
        return false;
    }
    let m = plain(e, (buf, count.into(), datatype), (dest, tag, comm));
    // SAFETY: not null, so writable by the contract.
    e.send_plain(&m, || unsafe {
        request.write_unaligned(R::of_word(e.sent_plain()))
    })
}

/// Once more, after a look whether there is room after all.
///
/// # Safety
/// As for [`isend`].
#[inline(always)]
pub unsafe fn isend_again<D: AbiType, C: AbiHandle, R: AbiHandle>(
    buf: UserBuf,
    count: impl Into<Count>,
    datatype: D,
    dest: i32,
    tag: i32,
    comm: C,
    request: *mut R,
) -> bool {
    let Some(e) = engine::short() else {
        return false;
    };
    let count = count.into();
    let m = plain(e, (buf, count, datatype), (dest, tag, comm));
    // SAFETY: the caller's contract is the same.
    e.has_room(&m) && unsafe { isend(buf, count, datatype, dest, tag, comm, request) }
}

/// `MPI_Recv`.
///
/// # Safety
/// `status` is one that is not wanted, or writable.
#[inline(always)]
pub unsafe fn recv<D: AbiType, C: AbiHandle, S: AbiStatus>(
    buf: UserBuf,
    count: impl Into<Count>,
    datatype: D,
    source: i32,
    tag: i32,
    comm: C,
    status: *mut S,
) -> bool {
    let Some(e) = engine::short() else {
        return false;
    };
    let m = plain(e, (buf, count.into(), datatype), (source, tag, comm));
    let Some(got) = e.recv_plain(&m) else {
        return false;
    };
    if S::is_wanted(status) {
        // SAFETY: wanted, so writable by the contract.
        unsafe { S::write_received(status, got.source, got.tag, got.bytes) }
    }
    true
}

/// `MPI_Irecv`.
///
/// # Safety
/// `request` is null or writable.
#[inline(always)]
pub unsafe fn irecv<D: AbiType, C: AbiHandle, R: AbiHandle>(
    buf: UserBuf,
    count: impl Into<Count>,
    datatype: D,
    source: i32,
    tag: i32,
    comm: C,
    request: *mut R,
) -> bool {
    let Some(e) = engine::short() else {
        return false;
    };
    if request.is_null() {
        return false;
    }
    let m = plain(e, (buf, count.into(), datatype), (source, tag, comm));
    let Some(word) = e.irecv_plain(&m) else {
        return false;
    };
    // SAFETY: not null, so writable by the contract.
    unsafe { request.write_unaligned(R::of_word(word)) }
    true
}

/// `MPI_Wait`.
///
/// # Safety
/// `request` is null, or readable and writable; `status` is one that is not wanted, or writable.
#[inline(always)]
pub unsafe fn wait<R: AbiHandle, S: AbiStatus>(request: *mut R, status: *mut S) -> bool {
    if request.is_null() {
        return false;
    }
    let Some(e) = engine::short() else {
        return false;
    };
    // SAFETY: not null, so readable by the contract.
    let word = unsafe { request.read_unaligned() }.word();
    let Some(over) = e.over_plain(word) else {
        return false;
    };
    // SAFETY: not null, so writable by the contract.
    unsafe { request.write_unaligned(R::of(R::NULL)) }
    if S::is_wanted(status) {
        // SAFETY: wanted, so writable by the contract.
        unsafe {
            match over {
                Over::Sent => S::write_empty(status),
                Over::Received(got) => S::write_received(status, got.source, got.tag, got.bytes),
            }
        }
    }
    true
}

/// `MPI_Test`, of a request that is over.
///
/// # Safety
/// As for [`wait`]; `flag` is null or writable.
#[inline(always)]
pub unsafe fn test<R: AbiHandle, S: AbiStatus>(
    request: *mut R,
    flag: *mut i32,
    status: *mut S,
) -> bool {
    // SAFETY: the caller's contract is the same.
    if flag.is_null() || !unsafe { wait(request, status) } {
        return false;
    }
    // SAFETY: not null, so writable by the contract.
    unsafe { flag.write_unaligned(1) }
    true
}
