//! Copying between a process's own memory and memory that another processor has in its cache.
//!
//! What takes time there is fetching lines, and how many of them are under way at once decides how much. `rep movsb` and the processor's own reading
//! ahead have fewer under way on Xeons than asking for lines does; on EPYCs they have as many, and asking only costs ([`HandOver`]).
//!
//! Who calls it: the fabric of shared memory, for what it writes to and reads from memory that processes share.

#[cfg(target_arch = "x86_64")]
use crate::copy::HandOver;
use crate::copy::copy;

/// Bytes of a cache line.
#[cfg(target_arch = "x86_64")]
const LINE: usize = 64;
/// Bytes ahead for which lines are asked that are written. A Xeon of the sixth generation, 16, 32 and 64 KiB to the other processor in four chunks: 2.3, 4.1 and 7.4
/// us so, 2.7, 4.5 and 8.0 with `rep movsb`; asking for the first 8 KiB alone 2.3, 4.1 and 8.1.
#[cfg(target_arch = "x86_64")]
const WRITTEN_AHEAD: usize = 1 << 10;
/// The same of lines that are read. There 64 and 256 KiB, whose lines go to and fro, take 4.7 and 12.9 us so, and 5.1 and 14.7 without; as long with 2 KiB as with 8.
#[cfg(target_arch = "x86_64")]
const READ_AHEAD: usize = 4 << 10;
/// From so many bytes on it pays to ask: shorter data the processor asks for as soon as it is told to copy them. For what is written,
#[cfg(target_arch = "x86_64")]
const WRITTEN_FROM: usize = 1 << 10;
/// and for what is read.
#[cfg(target_arch = "x86_64")]
const READ_FROM: usize = 4 << 10;

/// Bytes of a page.
#[cfg(target_arch = "x86_64")]
const PAGE: usize = 4096;
/// Pages that are read at once, if there are as many, as each has lines of its own under way that the processor asks for by itself: the 256 KiB take 12.2 us so.
#[cfg(target_arch = "x86_64")]
const PAGES: usize = 8;

/// Copies `n` bytes that do not overlap, to memory whose lines another processor has.
///
/// # Safety
/// As [`copy`].
#[inline]
pub unsafe fn hand(dst: *mut u8, src: *const u8, n: usize) {
    #[cfg(target_arch = "x86_64")]
    if n >= WRITTEN_FROM && asks() {
        // SAFETY: the caller's promise; `asks` has seen AVX2, and more than two lines are copied.
        return unsafe { asking(dst, src, n, Ahead::Written) };
    }
    // SAFETY: the caller's promise.
    unsafe { copy(dst, src, n) }
}

/// Copies `n` bytes that do not overlap, from memory whose lines another processor has written.
///
/// # Safety
/// As [`copy`].
#[inline]
pub unsafe fn fetch(dst: *mut u8, src: *const u8, n: usize) {
    #[cfg(target_arch = "x86_64")]
    if n >= READ_FROM && asks() {
        // SAFETY: the caller's promise; `asks` has seen AVX2, and more than two lines are copied.
        return unsafe { fetching(dst, src, n) };
    }
    // SAFETY: the caller's promise.
    unsafe { copy(dst, src, n) }
}

/// Whether this processor is one on which it pays to ask for lines.
#[cfg(target_arch = "x86_64")]
#[inline]
fn asks() -> bool {
    crate::copy::hand_over() == HandOver::Asked && crate::copy::has_vectors()
}

/// Copies from several pages at once, or with lines asked for ahead if there are fewer.
///
/// # Safety
/// As [`copy`], the processor has AVX2, and `n >= READ_FROM`.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
#[inline(never)]
unsafe fn fetching(dst: *mut u8, src: *const u8, n: usize) {
    let skew = dst.addr().wrapping_neg() % LINE;
    let each = (n - skew) / PAGES / LINE * LINE;
    if each + LINE < PAGE {
        // SAFETY: the caller's promise.
        return unsafe { asking(dst, src, n, Ahead::Read) };
    }
    // SAFETY: the three parts are the range, and the first and the last are shorter than the middle.
    unsafe {
        let part = |at: usize| (dst.add(at), src.add(at));
        copy(dst, src, skew);
        let (to, from) = part(skew);
        turns(to, from, each);
        let behind = skew + PAGES * each;
        let (to, from) = part(behind);
        copy(to, from, n - behind);
    }
}

/// Copies `PAGES` times `each` bytes, a line of each of as many parts in turn.
///
/// # Safety
/// As [`copy`], of so many bytes; `each` is a multiple of a line.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn turns(dst: *mut u8, src: *const u8, each: usize) {
    use std::arch::x86_64::{__m256i, _mm256_loadu_si256, _mm256_storeu_si256};
    for at in (0..each).step_by(LINE) {
        // SAFETY: inside the parts.
        unsafe {
            let of = |part: usize, half: usize| part * each + at + half * (LINE / 2);
            let load = |at: usize| _mm256_loadu_si256(src.add(at).cast::<__m256i>());
            let store = |at: usize, v| _mm256_storeu_si256(dst.add(at).cast::<__m256i>(), v);
            let lines: [_; PAGES] =
                std::array::from_fn(|part| [load(of(part, 0)), load(of(part, 1))]);
            for (part, line) in lines.into_iter().enumerate() {
                store(of(part, 0), line[0]);
                store(of(part, 1), line[1]);
            }
        }
    }
}

/// Which lines are asked for.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ahead {
    Read,
    Written,
}

/// Copies with vectors, two lines at a time, and asks for lines ahead, none of which lies outside what is copied.
///
/// # Safety
/// As [`copy`], and `n >= 2 * LINE`.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
#[inline(never)]
unsafe fn asking(dst: *mut u8, src: *const u8, n: usize, which: Ahead) {
    use std::arch::x86_64::{
        __m256i, _MM_HINT_T1, _mm_prefetch, _mm256_loadu_si256, _mm256_storeu_si256,
    };
    const WIDTH: usize = 32;
    const STEP: usize = 2 * LINE;
    let ask = |at: usize| match which {
        Ahead::Read => _mm_prefetch::<_MM_HINT_T1>(src.wrapping_add(at).cast()),
        Ahead::Written => crate::copy::own(dst.wrapping_add(at), 1),
    };
    let ahead = match which {
        Ahead::Read => READ_AHEAD,
        Ahead::Written => WRITTEN_AHEAD,
    };
    (0..n.min(ahead)).step_by(LINE).for_each(ask);
    // SAFETY: every access is inside the ranges: the first and the last two lines are copied whole, and the loop stops before it would pass
    // the end. Lines may be copied twice, with the same bytes.
    unsafe {
        let load = |at: usize| _mm256_loadu_si256(src.add(at).cast::<__m256i>());
        let store = |at: usize, v| _mm256_storeu_si256(dst.add(at).cast::<__m256i>(), v);
        let lines = |at: usize| {
            let v = [0, 1, 2, 3].map(|i| load(at + i * WIDTH));
            for (i, v) in v.into_iter().enumerate() {
                store(at + i * WIDTH, v);
            }
        };
        lines(0);
        let mut at = dst.addr().wrapping_neg() % LINE;
        while at + ahead + STEP <= n {
            ask(at + ahead);
            ask(at + ahead + LINE);
            lines(at);
            at += STEP;
        }
        while at + STEP <= n {
            lines(at);
            at += STEP;
        }
        lines(n - STEP);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_and_offset() {
        let src: Vec<u8> = (0..70_000u32).map(|i| (i * 7 + i / 256) as u8).collect();
        let around_pages = (32_192..32_400).step_by(13).chain(32_760..32_770);
        let lengths = (128..600).chain([1023, 4096, 4097, 4223, 4224, 5000, 65_536, 69_000]);
        for n in lengths.chain(around_pages) {
            for (from, to) in [(0, 0), (1, 0), (0, 3), (5, 9), (63, 1), (17, 63)] {
                let all = |dst: &[u8]| {
                    assert_eq!(&dst[to..to + n], &src[from..from + n], "{n} {from} {to}");
                    assert!(dst[..to].iter().chain(&dst[to + n..]).all(|&b| b == 0xee));
                };
                let fresh = || vec![0xee; n + 64];
                let (mut dst, at) = (fresh(), src[from..].as_ptr());
                // SAFETY: `n` bytes lie behind each offset, in vectors of their own.
                unsafe { hand(dst.as_mut_ptr().add(to), at, n) }
                all(&dst);
                let mut dst = fresh();
                // SAFETY: as above.
                unsafe { fetch(dst.as_mut_ptr().add(to), at, n) }
                all(&dst);
                #[cfg(target_arch = "x86_64")]
                if crate::copy::has_vectors() {
                    for which in [Ahead::Read, Ahead::Written] {
                        let mut dst = fresh();
                        // SAFETY: as above, there are vectors, and `n` is two lines at least.
                        unsafe { asking(dst.as_mut_ptr().add(to), at, n, which) }
                        all(&dst);
                    }
                    if n >= READ_FROM {
                        let mut dst = fresh();
                        // SAFETY: the same, and `n` is what it takes.
                        unsafe { fetching(dst.as_mut_ptr().add(to), at, n) }
                        all(&dst);
                    }
                }
            }
        }
    }
}
