//! Copying past the caches, to memory that has left them, and how much they hold.
//!
//! An ordinary store brings its line into the cache, where it displaces another. Where what is written is only read again after more than the caches
//! hold, that is all in vain. (Messages of 4 MiB into sixteen buffers one after the other, between two near cores of an EPYC of the fifth
//! generation, whose third-level cache has 32 MiB: 42 GB/s so and 31 with `rep movsb`; between far ones 27 and 22. Into one buffer, which stays in
//! the cache: 44 and 46. Vectors of 16, 32 or 64 bytes, one line or four at a time, asked for ahead or not, it is the same.)
//!
//! Such stores are not ordered with others: [`settle`] makes them so, once for many copies, as each waits for the memory (37 GB/s where it came with
//! every 32 KiB).
//!
//! Who calls it: the fabric of shared memory, for long messages.

#[cfg(target_arch = "x86_64")]
use crate::copy::HandOver;
use crate::copy::copy;

/// Bytes of a cache line.
const LINE: usize = 64;

/// Bytes of the least cache that is believed to be the largest: some virtual machines don't show the third level.
#[cfg(any(target_arch = "x86_64", test))]
const LEAST: u64 = 2 << 20;

/// Bytes after which memory that was written has left all caches; `None` where it is not known, or nobody has measured that
/// [copying past them](copy_past) is of use: that is known of AMD's processors with fast `rep movsb` alone.
pub fn held() -> Option<u64> {
    #[cfg(target_arch = "x86_64")]
    if crate::copy::hand_over() == HandOver::Taken && std::arch::is_x86_feature_detected!("avx2") {
        return largest_cache();
    }
    None
}

/// Bytes of the largest cache, as AMD's processors tell.
#[cfg(target_arch = "x86_64")]
fn largest_cache() -> Option<u64> {
    use std::arch::x86_64::{__cpuid, __cpuid_count};
    const CACHES: u32 = 0x8000_001d;
    /// More than any processor has.
    const MOST: u32 = 16;
    if __cpuid(0x8000_0000).eax < CACHES {
        return None;
    }
    let caches = (0..MOST).map(|i| __cpuid_count(CACHES, i));
    let caches = caches.take_while(|leaf| leaf.eax & 0x1f != 0);
    let bytes = caches.map(|leaf| {
        let field = |shift: u32, bits: u32| u64::from(leaf.ebx >> shift & ((1 << bits) - 1)) + 1;
        field(0, 12) * field(12, 10) * field(22, 10) * (u64::from(leaf.ecx) + 1)
    });
    bytes.max().filter(|bytes| *bytes >= LEAST)
}

/// Copies `n` bytes that do not overlap, past the caches if the processor can. To others they may become visible later than what this thread stores after
/// them, until it calls [`settle`].
///
/// # Safety
/// As [`copy`], and nobody, this thread included, touches what was written before this thread has called [`settle`].
pub unsafe fn copy_past(dst: *mut u8, src: *const u8, n: usize) {
    #[cfg(target_arch = "x86_64")]
    if n >= 4 * LINE && std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the caller's promise, and the processor has AVX2.
        return unsafe { past(dst, src, n) };
    }
    // SAFETY: the caller's promise.
    unsafe { copy(dst, src, n) }
}

/// Has what was [copied past the caches](copy_past) become visible before whatever this thread stores from here on.
#[inline]
pub fn settle() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a fence accesses nothing, and every processor of this architecture has it.
    unsafe {
        std::arch::x86_64::_mm_sfence()
    }
}

/// # Safety
/// As [`copy_past`], and `n >= 2 * LINE`.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn past(dst: *mut u8, src: *const u8, n: usize) {
    use std::arch::x86_64::{__m256i, _mm256_loadu_si256, _mm256_stream_si256};
    const WIDTH: usize = 32;
    let skew = dst.addr().wrapping_neg() % LINE;
    let lines = (n - skew) / LINE;
    let end = skew + lines * LINE;
    // SAFETY: the first `skew` bytes, whole lines of the destination and what is left behind these are the range; each access is inside, and no
    // two are to the same bytes.
    unsafe {
        copy(dst, src, skew);
        for at in (skew..end).step_by(LINE) {
            let load = |at: usize| _mm256_loadu_si256(src.add(at).cast::<__m256i>());
            let (low, high) = (load(at), load(at + WIDTH));
            _mm256_stream_si256(dst.add(at).cast::<__m256i>(), low);
            _mm256_stream_si256(dst.add(at + WIDTH).cast::<__m256i>(), high);
        }
        copy(dst.add(end), src.add(end), n - end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_and_offset() {
        let src: Vec<u8> = (0..70_000u32).map(|i| (i * 7 + i / 256) as u8).collect();
        for n in (0..600).chain([4096, 4097, 65_536, 69_000]) {
            for (from, to) in [(0, 0), (1, 0), (0, 3), (5, 9), (16, 48)] {
                let mut dst = vec![0xee; n + 64];
                // SAFETY: `n` bytes lie behind each offset, in vectors of their own.
                unsafe { copy_past(dst.as_mut_ptr().add(to), src.as_ptr().add(from), n) }
                settle();
                assert_eq!(&dst[to..to + n], &src[from..from + n], "{n} {from} {to}");
                assert!(dst[..to].iter().chain(&dst[to + n..]).all(|&b| b == 0xee));
            }
        }
    }

    #[test]
    fn caches_hold_some_megabytes() {
        if let Some(bytes) = held() {
            assert!((LEAST..1 << 34).contains(&bytes), "{bytes}");
        }
    }
}
