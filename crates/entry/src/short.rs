//! The short paths as entry points try them, before they enter the engine: see `engine`'s `short`.
//!
//! Each says what the call returns, `MPI_SUCCESS`, if it has done the whole call, with what it gives back written; else nothing was
//! done. A function that is named as one of them with `again` is tried first thing on the cold side of it.
//! An argument that is wrong makes it say `None`: the long path finds the words.

mod several;

use boundary::UserBuf;
pub use engine::Sizes;
use engine::{Over, Plain};
use types::Status;
use types::consts::SUCCESS;

use crate::out::AbiHandle;
pub use several::{
    testall, testany, testsome, wait_again, waitall, waitall_again, waitany, waitany_again,
    waitsome, waitsome_again,
};

/// A datatype of an ABI.
pub trait AbiType: Copy {
    /// What this ABI's programs give as any tag.
    const ANY_TAG: i32;
    /// Bytes of an element, which `sizes` has [by the handle](engine::Short::sizes). 0, or none, if the handle is not that of a
    /// predefined type.
    fn size(self, sizes: &Sizes) -> Option<usize>;
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

/// A count of either width: what is none is negative.
#[derive(Clone, Copy)]
pub struct Count(i32);

impl From<i32> for Count {
    #[inline(always)]
    fn from(count: i32) -> Count {
        Count(count)
    }
}

impl From<i64> for Count {
    #[inline(always)]
    fn from(count: i64) -> Count {
        Count(i32::try_from(count).unwrap_or(-1))
    }
}

/// The arguments that a send or receive begins with, as the entry point has them.
#[inline(always)]
fn plain<D: AbiType, C: AbiHandle>(
    (buf, count, datatype): (UserBuf, Count, D),
    (peer, tag, comm): (i32, i32, C),
) -> Option<Plain> {
    Some(Plain {
        buf,
        count: count.0,
        size: datatype.size(engine::short().sizes())?,
        peer,
        tag,
        any_tag: D::ANY_TAG,
        comm: comm.word(),
    })
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
) -> Option<i32> {
    let m = plain((buf, count.into(), datatype), (dest, tag, comm))?;
    engine::short().send_plain(&m, || true)
}

/// Once more, after a look whether there is room after all, and with threads.
#[inline(always)]
pub fn send_again<D: AbiType, C: AbiHandle>(
    buf: UserBuf,
    count: impl Into<Count>,
    datatype: D,
    dest: i32,
    tag: i32,
    comm: C,
) -> Option<i32> {
    let m = plain((buf, count.into(), datatype), (dest, tag, comm))?;
    let s = engine::short();
    s.send_plain_again(&m, || true)
        .or_else(|| s.send_inside(&m, || true))
}

/// A message that takes more than a cell.
#[inline(always)]
pub fn send_more<D: AbiType, C: AbiHandle>(
    buf: UserBuf,
    count: impl Into<Count>,
    datatype: D,
    dest: i32,
    tag: i32,
    comm: C,
) -> Option<i32> {
    let m = plain((buf, count.into(), datatype), (dest, tag, comm))?;
    engine::short().send_plain_more(&m, || true)
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
) -> Option<i32> {
    let m = plain((buf, count.into(), datatype), (dest, tag, comm))?;
    // The request's address came on the stack and is needed last, so it is looked at last.
    // SAFETY: the contract is the same.
    engine::short().send_plain(&m, || unsafe { tell_sent(request) })
}

/// Says in `request` that the send is over; false if there is no request.
///
/// # Safety
/// `request` is null or writable.
#[inline(always)]
unsafe fn tell_sent<R: AbiHandle>(request: *mut R) -> bool {
    if request.is_null() {
        return false;
    }
    // SAFETY: not null, so writable by the contract.
    unsafe { request.write_unaligned(R::of_word(engine::short().sent_plain())) }
    true
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
) -> Option<i32> {
    let m = plain((buf, count.into(), datatype), (dest, tag, comm))?;
    // SAFETY: the caller's contract is the same.
    engine::short().send_plain_again(&m, || unsafe { tell_sent(request) })
}

/// A message that takes more than a cell.
///
/// # Safety
/// As for [`isend`].
#[inline(always)]
pub unsafe fn isend_more<D: AbiType, C: AbiHandle, R: AbiHandle>(
    buf: UserBuf,
    count: impl Into<Count>,
    datatype: D,
    dest: i32,
    tag: i32,
    comm: C,
    request: *mut R,
) -> Option<i32> {
    let m = plain((buf, count.into(), datatype), (dest, tag, comm))?;
    // SAFETY: the caller's contract is the same.
    engine::short().send_plain_more(&m, || unsafe { tell_sent(request) })
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
) -> Option<i32> {
    let m = plain((buf, count.into(), datatype), (source, tag, comm))?;
    let got = engine::short().recv_plain(&m)?;
    // SAFETY: the caller's contract is the same.
    unsafe { give(&got, status) }
    Some(SUCCESS)
}

/// Once more: of any tag too, with a few more looks whether the message is there, and with threads.
///
/// # Safety
/// As for [`recv`].
#[inline(always)]
pub unsafe fn recv_again<D: AbiType, C: AbiHandle, S: AbiStatus>(
    buf: UserBuf,
    count: impl Into<Count>,
    datatype: D,
    source: i32,
    tag: i32,
    comm: C,
    status: *mut S,
) -> Option<i32> {
    let m = plain((buf, count.into(), datatype), (source, tag, comm))?;
    let s = engine::short();
    let got = s.recv_plain_again(&m).or_else(|| s.recv_inside(&m))?;
    // SAFETY: the caller's contract is the same.
    unsafe { give(&got, status) }
    Some(SUCCESS)
}

/// Writes the status of a receive, if it is wanted.
///
/// # Safety
/// `status` is one that is not wanted, or writable.
#[inline(always)]
unsafe fn give<S: AbiStatus>(got: &Status, status: *mut S) {
    if S::is_wanted(status) {
        // SAFETY: wanted, so writable by the contract.
        unsafe { S::write_received(status, got.source, got.tag, got.bytes) }
    }
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
) -> Option<i32> {
    let m = plain((buf, count.into(), datatype), (source, tag, comm))?;
    let word = engine::short().irecv_plain(&m, || !request.is_null())?;
    // SAFETY: not null, so writable by the contract.
    unsafe { request.write_unaligned(R::of_word(word)) }
    Some(SUCCESS)
}

/// `MPI_Wait`.
///
/// # Safety
/// `request` is null, or readable and writable; `status` is one that is not wanted, or writable.
#[inline(always)]
pub unsafe fn wait<R: AbiHandle, S: AbiStatus>(request: *mut R, status: *mut S) -> Option<i32> {
    if request.is_null() {
        return None;
    }
    // SAFETY: not null, so readable by the contract.
    let (given, s) = (unsafe { request.read_unaligned() }, engine::short());
    let over = s.over_plain(given.word(), given.address(s.base()))?;
    // SAFETY: not null, so writable by the contract.
    unsafe { request.write_unaligned(R::of(R::NULL)) }
    match over {
        // SAFETY: wanted, so writable by the contract.
        Over::Sent if S::is_wanted(status) => unsafe { S::write_empty(status) },
        Over::Sent => {}
        // SAFETY: the caller's contract is the same.
        Over::Received(got) => unsafe { give(&got, status) },
    }
    Some(SUCCESS)
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
) -> Option<i32> {
    if flag.is_null() {
        return None;
    }
    // SAFETY: the caller's contract is the same.
    let code = unsafe { wait(request, status) }?;
    // SAFETY: not null, so writable by the contract.
    unsafe { flag.write_unaligned(1) }
    Some(code)
}
