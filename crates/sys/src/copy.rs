//! Copying bytes, tuned for messages, and the two hints that go with waiting for them.
//!
//! Which kernel wins was measured on two virtual cores, one copying what the other wrote. `rep
//! movsb` writes whole lines without first fetching them, so for large copies it beats loops of
//! vector stores, two times between near cores and four times between distant ones. Between cores
//! the kernels are alike from 256 bytes to 4 KiB; within one core `rep movsb` takes some 10 ns to
//! start, which is why it begins at 512 bytes only.

use std::ptr;
#[cfg(target_arch = "x86_64")]
use std::sync::atomic::{AtomicU8, Ordering};

/// Up to here overlapped loads and stores do it without a loop.
const TINY: usize = 32;
/// Up to here 16-byte loads in a loop.
const SMALL: usize = 512;

/// Copies `n` bytes that do not overlap. The source may be written by another process meanwhile:
/// what arrives is then some mixture of old and new bytes, to be validated by the caller.
///
/// # Safety
/// `src` is readable and `dst` writable for `n` bytes, and the two do not overlap.
#[inline]
pub unsafe fn copy(dst: *mut u8, src: *const u8, n: usize) {
    if n <= TINY {
        // SAFETY: the caller's promise.
        unsafe { tiny(dst, src, n) }
    } else if n <= SMALL {
        // SAFETY: the caller's promise, and n > 32 >= 16.
        unsafe { small(dst, src, n) }
    } else {
        // SAFETY: the caller's promise.
        unsafe { large(dst, src, n) }
    }
}

/// The same for the at most 48 bytes of a short message, without a loop or a call. Mostly they are 4 to 8: these are tested for first.
///
/// # Safety
/// As [`copy`], and `n <= 48`.
#[inline(always)]
pub unsafe fn copy_few(dst: *mut u8, src: *const u8, n: usize) {
    // SAFETY: the caller's promise, and the lengths are those that each kernel takes; up to 48, the first 16 and the last 32
    // bytes are all.
    unsafe {
        match n {
            4..=8 => ends::<u32>(dst, src, n),
            9..=16 => ends::<u64>(dst, src, n),
            17..=32 => ends::<u128>(dst, src, n),
            33.. => {
                dst.cast::<u128>()
                    .write_unaligned(src.cast::<u128>().read_unaligned());
                ends::<u128>(dst.add(n - 32), src.add(n - 32), 32);
            }
            2.. => ends::<u16>(dst, src, n),
            1 => dst.write(src.read()),
            0 => {}
        }
    }
}

/// Copies `src` to `dst`, of equal length.
///
/// # Panics
/// When the lengths differ.
#[inline]
pub fn copy_slice(dst: &mut [u8], src: &[u8]) {
    assert_eq!(dst.len(), src.len());
    // SAFETY: both slices are valid for their common length, and a `&mut` overlaps nothing.
    unsafe { copy(dst.as_mut_ptr(), src.as_ptr(), src.len()) }
}

/// # Safety
/// As [`copy`], and `n <= 32`.
#[inline(always)]
unsafe fn tiny(dst: *mut u8, src: *const u8, n: usize) {
    // SAFETY: each arm copies `size_of::<W>()` bytes from both ends of a range at least that long.
    unsafe {
        match n {
            16.. => ends::<u128>(dst, src, n),
            8.. => ends::<u64>(dst, src, n),
            4.. => ends::<u32>(dst, src, n),
            2.. => ends::<u16>(dst, src, n),
            1 => dst.write(src.read()),
            0 => {}
        }
    }
}

/// # Safety
/// As [`copy`], with `size_of::<W>() <= n <= 2 * size_of::<W>()`, `W` an integer.
#[inline(always)]
unsafe fn ends<W>(dst: *mut u8, src: *const u8, n: usize) {
    let last = n - size_of::<W>();
    // SAFETY: offsets 0 and `last` leave `size_of::<W>()` bytes before `n`. Both are loaded before
    // either is stored.
    unsafe {
        let head = src.cast::<W>().read_unaligned();
        let tail = src.add(last).cast::<W>().read_unaligned();
        dst.cast::<W>().write_unaligned(head);
        dst.add(last).cast::<W>().write_unaligned(tail);
    }
}

/// # Safety
/// As [`copy`], and `n >= 16`.
#[inline(always)]
unsafe fn small(dst: *mut u8, src: *const u8, n: usize) {
    let mut at = 0;
    // SAFETY: every access starts at most 16 bytes before `n`; the last one may overlap the one
    // before it.
    unsafe {
        while at + 16 < n {
            let w = src.add(at).cast::<u128>().read_unaligned();
            dst.add(at).cast::<u128>().write_unaligned(w);
            at += 16;
        }
        let w = src.add(n - 16).cast::<u128>().read_unaligned();
        dst.add(n - 16).cast::<u128>().write_unaligned(w);
    }
}

/// # Safety
/// As [`copy`].
#[inline(never)]
unsafe fn large(dst: *mut u8, src: *const u8, n: usize) {
    #[cfg(target_arch = "x86_64")]
    if fast_strings() {
        // SAFETY: the caller's promise; the direction flag is clear by the calling convention.
        unsafe {
            std::arch::asm!("rep movsb",
                inout("rcx") n => _, inout("rdi") dst => _, inout("rsi") src => _,
                options(nostack, preserves_flags));
        }
        return;
    }
    // SAFETY: the caller's promise.
    unsafe { ptr::copy_nonoverlapping(src, dst, n) }
}

/// 0 until looked up, then 1 for no, 2 for yes.
#[cfg(target_arch = "x86_64")]
static FAST_STRINGS: AtomicU8 = AtomicU8::new(0);

/// Whether the processor has fast `rep movsb` (ERMS or FSRM).
#[cfg(target_arch = "x86_64")]
#[inline]
fn fast_strings() -> bool {
    match FAST_STRINGS.load(Ordering::Relaxed) {
        0 => look_up(),
        known => known == 2,
    }
}

#[cfg(target_arch = "x86_64")]
#[cold]
fn look_up() -> bool {
    use std::arch::x86_64::{__cpuid, __cpuid_count};
    let yes = __cpuid(0).eax >= 7 && {
        let leaf = __cpuid_count(7, 0);
        leaf.ebx & 1 << 9 != 0 || leaf.edx & 1 << 4 != 0
    };
    FAST_STRINGS.store(1 + u8::from(yes), Ordering::Relaxed);
    yes
}

/// Asks for the cache line at `addr`, to be read soon. Any address will do.
#[inline(always)]
pub fn prefetch(addr: *const u8) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch never faults, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(addr.cast()) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = addr;
}

/// To be executed between two polls: spares the core's sibling, and the line that is polled.
#[inline(always)]
pub fn pause() {
    std::hint::spin_loop();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_and_offset() {
        let src: Vec<u8> = (0..70_000u32).map(|i| (i * 7 + i / 256) as u8).collect();
        let lengths = (0..600).chain([1023, 4096, 4097, 65_536, 69_000]);
        for n in lengths {
            for (from, to) in [(0, 0), (1, 0), (0, 3), (5, 9)] {
                let mut dst = vec![0xee; n + 16];
                copy_slice(&mut dst[to..to + n], &src[from..from + n]);
                assert_eq!(&dst[to..to + n], &src[from..from + n], "{n} {from} {to}");
                assert!(dst[..to].iter().chain(&dst[to + n..]).all(|&b| b == 0xee));
                if n <= 48 {
                    let mut few = vec![0xee; n + 16];
                    // SAFETY: `n` bytes lie behind each offset, in vectors of their own.
                    unsafe { copy_few(few.as_mut_ptr().add(to), src.as_ptr().add(from), n) }
                    assert_eq!(few, dst, "{n} {from} {to}");
                }
            }
        }
    }

    #[test]
    fn hints_do_nothing() {
        prefetch(ptr::null());
        prefetch(ptr::dangling());
        pause();
    }
}
