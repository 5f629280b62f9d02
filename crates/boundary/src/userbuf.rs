//! A caller's buffer address, and memory of our own that is used like one.

use std::alloc::{Layout, alloc_zeroed};

/// The address of a buffer that an MPI call was given.
///
/// Copies through it are as valid as the caller's claim about the buffer, which the `unsafe`
/// constructor passes on. Address 0 is `MPI_BOTTOM` or NULL, address 1 is `MPI_IN_PLACE`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct UserBuf(usize);

impl UserBuf {
    /// NULL, which is also `MPI_BOTTOM`.
    pub const NULL: UserBuf = UserBuf(0);
    /// `MPI_IN_PLACE`.
    pub const IN_PLACE: UserBuf = UserBuf(1);

    /// Wraps the address `addr`.
    ///
    /// # Safety
    /// Whoever makes it promises that all memory later reached through it (`addr` plus the
    /// displacements of the datatype it is used with) is valid, for as long as the MPI operation
    /// that it is an argument of may touch it.
    #[inline(always)]
    pub const unsafe fn new(addr: usize) -> UserBuf {
        UserBuf(addr)
    }

    /// Memory of our own, for the time that `memory` is borrowed by the call it is passed to.
    pub fn of_array(memory: &mut [u8]) -> UserBuf {
        UserBuf(memory.as_mut_ptr() as usize)
    }

    /// The address as a number.
    #[inline(always)]
    pub const fn addr(self) -> usize {
        self.0
    }

    /// The address as a pointer, for a system call or a kernel with an `unsafe` of its own.
    #[inline(always)]
    pub const fn as_mut_ptr(self) -> *mut u8 {
        self.0 as *mut u8
    }

    /// Whether it is NULL (or `MPI_BOTTOM`).
    #[inline(always)]
    pub const fn is_null(self) -> bool {
        self.0 == 0
    }

    /// Whether it is `MPI_IN_PLACE`.
    #[inline(always)]
    pub const fn is_in_place(self) -> bool {
        self.0 == 1
    }

    /// The buffer `bytes` further on (or back).
    #[inline(always)]
    pub const fn offset(self, bytes: i64) -> UserBuf {
        UserBuf(self.0.wrapping_add(bytes as usize))
    }

    /// Copies from the buffer into `out`.
    #[inline(always)]
    pub fn read(self, out: &mut [u8]) {
        if !out.is_empty() {
            // SAFETY: the maker of `self` promised valid memory for the operation; `out` is ours and
            // its length bounds the copy. `copy` allows overlap, should the caller's buffer be ours.
            unsafe { std::ptr::copy(self.as_mut_ptr(), out.as_mut_ptr(), out.len()) }
        }
    }

    /// Copies `bytes` into the buffer.
    #[inline(always)]
    pub fn write(self, bytes: &[u8]) {
        if !bytes.is_empty() {
            // SAFETY: as for `read`, with the direction turned.
            unsafe { std::ptr::copy(bytes.as_ptr(), self.as_mut_ptr(), bytes.len()) }
        }
    }

    /// Copies `n` bytes from `from`; the two may overlap.
    #[inline(always)]
    pub fn copy_from(self, from: UserBuf, n: usize) {
        if n != 0 && from != self {
            // SAFETY: the makers of both promised valid memory; `copy` allows overlap.
            unsafe { std::ptr::copy(from.as_mut_ptr(), self.as_mut_ptr(), n) }
        }
    }
}

/// Bytes that are ours, aligned for every basic type, used where a collective needs scratch memory
/// or a buffered send keeps its message.
#[derive(Default)]
pub struct AlignedBuf {
    words: Vec<u128>,
}

impl AlignedBuf {
    /// `bytes` zeroed bytes, or `None` when memory is refused. Pages that nobody writes to are not used: types may have gaps of any length.
    pub fn new(bytes: usize) -> Option<AlignedBuf> {
        let n = bytes.div_ceil(size_of::<u128>());
        if n == 0 {
            return Some(AlignedBuf::default());
        }
        let layout = Layout::array::<u128>(n).ok()?;
        // SAFETY: the size is not zero.
        let start = unsafe { alloc_zeroed(layout) }.cast::<u128>();
        if start.is_null() {
            return None;
        }
        // SAFETY: `n` words, which zero is a value of, were just allocated by the same allocator with the layout that a vector of as many has.
        let words = unsafe { Vec::from_raw_parts(start, n, n) };
        Some(AlignedBuf { words })
    }

    /// Bytes available.
    pub fn len(&self) -> usize {
        self.words.len() * 16
    }

    /// Whether nothing is available.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Its address, to be used like a caller's buffer while `self` lives and isn't moved out.
    pub fn buf(&mut self) -> UserBuf {
        UserBuf(self.words.as_mut_ptr() as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_between_buffers() {
        let mut a = AlignedBuf::new(40).unwrap();
        let mut b = AlignedBuf::new(40).unwrap();
        a.buf().write(b"mountain echo");
        b.buf().offset(3).copy_from(a.buf(), 13);
        let mut out = [0; 8];
        b.buf().offset(3).read(&mut out);
        assert_eq!(&out, b"mountain");
        assert!(AlignedBuf::new(0).unwrap().is_empty() && AlignedBuf::new(usize::MAX).is_none());
        assert!(UserBuf::NULL.is_null() && UserBuf::IN_PLACE.is_in_place());
    }
}
