//! Memory that the program asks for with `MPI_Alloc_mem` and gives back by its address alone.

use std::alloc::{Layout, alloc_zeroed, dealloc};

use crate::UserBuf;

/// Alignment of what the program gets: a cache line. In front of it lies a header of as many
/// bytes, whose first word is the size of the whole.
const LINE: usize = 64;

/// `bytes` zeroed bytes, aligned to a cache line; the address, or `None` when memory is refused.
/// Zero bytes have an address of their own too.
pub fn alloc(bytes: usize) -> Option<usize> {
    let whole = bytes.checked_add(LINE)?;
    let layout = Layout::from_size_align(whole, LINE).ok()?;
    // SAFETY: the size is not zero.
    let start = unsafe { alloc_zeroed(layout) };
    if start.is_null() {
        return None;
    }
    // SAFETY: the block begins with a header, aligned for a word, that is ours alone.
    unsafe { start.cast::<usize>().write(whole) };
    Some(start as usize + LINE)
}

/// Gives back what [`alloc`] gave; NULL is nothing.
///
/// Like `free` in C it believes the program that the address came from [`alloc`] and is not used
/// any more; making the [`UserBuf`] was the promise.
pub fn free(base: UserBuf) {
    if base.is_null() {
        return;
    }
    let start = base.offset(-(LINE as i64)).as_mut_ptr();
    // SAFETY: the maker of `base` promised an address from `alloc`, before which lies the header
    // that says what layout the block was allocated with.
    unsafe {
        let whole = start.cast::<usize>().read();
        dealloc(start, Layout::from_size_align_unchecked(whole, LINE));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gives_and_takes_back() {
        let sizes = [0, 1, 63, 64, 65, 4096, 1 << 20];
        let blocks = sizes.map(|n| (n, alloc(n).unwrap()));
        for (n, address) in blocks {
            assert_eq!(address % LINE, 0);
            // SAFETY: `n` bytes at `address` were just allocated.
            let buf = unsafe { UserBuf::new(address) };
            buf.write(&vec![7; n]);
            let mut back = vec![0; n];
            buf.read(&mut back);
            assert!(back.iter().all(|&b| b == 7));
            free(buf);
        }
        free(UserBuf::NULL);
        assert_eq!(alloc(usize::MAX), None);
        assert_eq!(alloc(isize::MAX as usize), None);
    }
}
