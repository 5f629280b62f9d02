//! Copying bytes, tuned for messages, and looking for them.
//!
//! Which kernel wins was measured on two virtual cores of an EPYC of the fourth generation. Within one core's caches vectors
//! are ahead up to a page (96 against 73 GB/s for 4 KiB) and level with `rep movsb` beyond. Between cores the state of the
//! lines decides more than the kernel, as long as one case is avoided, in which `rep movsb` is up to thirty times slower: a
//! destination just behind the source, modulo a page. For long copies `rep movsb` is preferred where it is fast, since it
//! writes whole lines without fetching them first; for shorter ones too where these lines are in another processor's cache.

use std::arch::asm;
use std::ptr;
#[cfg(target_arch = "x86_64")]
use std::sync::atomic::AtomicU8;
use std::sync::atomic::{AtomicU32, Ordering};

/// Up to here overlapped loads and stores do it without a loop.
const TINY: usize = 32;
/// Up to here 16-byte loads in a loop.
const SMALL: usize = 256;
/// From here on `rep movsb` where it is fast.
#[cfg(target_arch = "x86_64")]
const STRINGS: usize = 4096;
/// Bytes of a cache line.
const LINE: usize = 64;

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
        // The other lengths out of the way.
        if let 4..=8 = n {
            return ends::<u32>(dst, src, n);
        }
        std::hint::cold_path();
        match n {
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

/// The same pointer, in a register: the compiler knows no more what it was added up from, so it does not add that up again for each
/// use, which would take more instructions than it saves where the uses are few.
#[allow(
    clippy::pointers_in_nomem_asm_block,
    reason = "nothing is accessed; its users say what may be"
)]
#[inline(always)]
pub fn opaque<T>(mut pointer: *mut T) -> *mut T {
    // SAFETY: no instruction.
    unsafe { asm!("/* {} */", inout(reg) pointer, options(pure, nomem, nostack, preserves_flags)) };
    pointer
}

/// The same word, of which the compiler doesn't know that it is the same.
#[inline(always)]
pub fn opaque_word(word: u32) -> u32 {
    // As the whole register, which has a form that is the same on all processors.
    let mut wide = u64::from(word);
    // SAFETY: no instruction.
    unsafe { asm!("/* {} */", inout(reg) wide, options(nomem, nostack, preserves_flags)) };
    wide as u32
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
/// As [`copy`], and `n > SMALL`.
#[inline(never)]
unsafe fn large(dst: *mut u8, src: *const u8, n: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        let has = features();
        if n >= STRINGS && has & FAST_STRINGS != 0 && !just_behind(dst, src) {
            // SAFETY: the caller's promise.
            return unsafe { strings(dst, src, n) };
        }
        if has & AVX2 != 0 {
            // SAFETY: the caller's promise, and the processor has AVX2.
            return unsafe { wide(dst, src, n) };
        }
    }
    // SAFETY: the caller's promise.
    unsafe { ptr::copy_nonoverlapping(src, dst, n) }
}

/// Whether the destination is, modulo a page, less than a line behind the source. That makes `rep movsb` two to thirty times
/// slower on some processors (27 and 3 GB/s in place of 73 for distances of 16 and 1, measured on an EPYC of the fourth generation).
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn just_behind(dst: *mut u8, src: *const u8) -> bool {
    let distance = dst.addr().wrapping_sub(src.addr()) % 4096;
    (1..LINE).contains(&distance)
}

/// With `rep movsb`, whose destination is aligned to a line first.
///
/// # Safety
/// As [`copy`], and `n > SMALL`.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn strings(dst: *mut u8, src: *const u8, n: usize) {
    // SAFETY: the first line is inside the ranges; what follows copies from the first line's end in the destination or
    // before, to the end. The direction flag is clear by the calling convention.
    unsafe {
        let skew = dst.addr().wrapping_neg() % LINE;
        if skew > 0 {
            small(dst, src, LINE);
        }
        std::arch::asm!("rep movsb",
            inout("rcx") n - skew => _,
            inout("rdi") dst.add(skew) => _,
            inout("rsi") src.add(skew) => _,
            options(nostack, preserves_flags));
    }
}

/// With vectors, four at a time; whole lines are stored.
///
/// # Safety
/// As [`copy`], and `n > SMALL`.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn wide(dst: *mut u8, src: *const u8, n: usize) {
    use std::arch::x86_64::{__m256i, _mm256_loadu_si256, _mm256_storeu_si256};
    const WIDTH: usize = 32;
    let skew = dst.addr().wrapping_neg() % LINE;
    let mut at = skew;
    // SAFETY: every access is inside the ranges: the first and the last two lines are copied whole, and the loop stops
    // before it would pass the end. Lines may be copied twice, with the same bytes.
    unsafe {
        let load = |at: usize| _mm256_loadu_si256(src.add(at).cast::<__m256i>());
        let store = |at: usize, v| _mm256_storeu_si256(dst.add(at).cast::<__m256i>(), v);
        small(dst, src, LINE);
        while at + 2 * LINE <= n {
            let v = [0, 1, 2, 3].map(|i| load(at + i * WIDTH));
            for (i, v) in v.into_iter().enumerate() {
                store(at + i * WIDTH, v);
            }
            at += 2 * LINE;
        }
        small(dst.add(n - 2 * LINE), src.add(n - 2 * LINE), 2 * LINE);
    }
}

/// How a processor hands a line from one core's cache to another's, as far as it decides how processes copy between each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HandOver {
    /// It pays to ask for lines before they are written and read, and long data that nobody computes with are mostly copied fastest by the kernel, from where they lie. Measured
    /// on Xeons of the fifth and sixth generation; processors of which nothing is known are taken for such.
    Asked,
    /// `rep movsb` takes lines over fastest if nobody has asked for them, and the kernel's copy, which looks up and holds each page (260 ns), is
    /// slower than two copies of processes at any length. Measured on EPYCs of the fourth and fifth generation.
    Taken,
}

/// How this machine's processors do.
#[inline]
pub fn hand_over() -> HandOver {
    #[cfg(target_arch = "x86_64")]
    if features() & (AMD | FAST_STRINGS) == AMD | FAST_STRINGS {
        return HandOver::Taken;
    }
    HandOver::Asked
}

/// Whether this machine's processors have vectors of 32 bytes.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(crate) fn has_vectors() -> bool {
    features() & AVX2 != 0
}

/// What the processor has: 0 until looked up, then `KNOWN` and the others.
#[cfg(target_arch = "x86_64")]
static FEATURES: AtomicU8 = AtomicU8::new(0);
#[cfg(target_arch = "x86_64")]
const KNOWN: u8 = 1;
/// Fast `rep movsb` (ERMS or FSRM).
#[cfg(target_arch = "x86_64")]
const FAST_STRINGS: u8 = 2;
#[cfg(target_arch = "x86_64")]
const AVX2: u8 = 4;
#[cfg(target_arch = "x86_64")]
const AMD: u8 = 8;

#[cfg(target_arch = "x86_64")]
#[inline]
fn features() -> u8 {
    match FEATURES.load(Ordering::Relaxed) {
        0 => look_up(),
        known => known,
    }
}

#[cfg(target_arch = "x86_64")]
#[cold]
fn look_up() -> u8 {
    use std::arch::x86_64::{__cpuid, __cpuid_count};
    let mut has = KNOWN;
    let leaf = __cpuid(0);
    let vendor = [leaf.ebx, leaf.edx, leaf.ecx].map(u32::to_le_bytes);
    if vendor.as_flattened() == b"AuthenticAMD" {
        has |= AMD;
    }
    if leaf.eax >= 7 {
        let leaf = __cpuid_count(7, 0);
        if leaf.ebx & 1 << 9 != 0 || leaf.edx & 1 << 4 != 0 {
            has |= FAST_STRINGS;
        }
    }
    if std::arch::is_x86_feature_detected!("avx2") {
        has |= AVX2;
    }
    FEATURES.store(has, Ordering::Relaxed);
    has
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

/// Asks for the cache lines of `n` bytes at `addr`, to be written soon: other processors' caches give them up. 1 KiB that another
/// processor has read is written and read in 390 nanoseconds in place of 510 then, and in 350 if it was asked for long before; more than
/// some 8 KiB at once are not worth it (measured on a Xeon of the fifth generation; see [`HandOver`]). Any address will do.
#[inline(always)]
pub fn own(addr: *mut u8, n: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        let own = |line: *mut u8| {
            // SAFETY: a prefetch never faults, whatever the address, and changes nothing.
            unsafe {
                asm!("prefetchw [{}]", in(reg) line, options(nostack, preserves_flags, readonly))
            }
        };
        let mut at = 0;
        while at + 4 * LINE <= n {
            (0..4).for_each(|i| own(addr.wrapping_add(at + i * LINE)));
            at += 4 * LINE;
        }
        while at < n {
            own(addr.wrapping_add(at));
            at += LINE;
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (addr, n);
}

/// To be executed between two polls: spares the core's sibling, and the line that is polled.
#[inline(always)]
pub fn pause() {
    std::hint::spin_loop();
}

/// Looks up to `looks` times whether either of two words is `value`, with a pause before each look (acquire, where it is). Who looks all the time pulls their
/// lines away from the processor that writes it: 8 bytes from one rank to another take 65 ns in place of 43 then, and between cores further
/// apart 256 in place of 186.
///
/// It is written in the processor's instructions since what compilers make of it takes 42 to 51 ns, depending on where the linker puts it;
/// these take 42 wherever they are.
#[inline(always)]
pub fn look_for_either(one: &AtomicU32, other: &AtomicU32, value: u32, looks: u32) -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        if looks == 0 {
            return false;
        }
        let left: u32;
        // SAFETY: the words are alive, and nothing but they is read. The compiler takes it that any memory is, so it moves no access
        // across, and the processor moves none before a load that came earlier.
        unsafe {
            asm!(
                ".p2align 6",
                "2:",
                "pause",
                "cmp dword ptr [{one}], {value:e}",
                "je 3f",
                "cmp dword ptr [{other}], {value:e}",
                "je 3f",
                "dec {left:e}",
                "jne 2b",
                "3:",
                one = in(reg) one.as_ptr(),
                other = in(reg) other.as_ptr(),
                value = in(reg) value,
                left = inout(reg) looks => left,
                options(nostack),
            );
        }
        left != 0
    }
    #[cfg(not(target_arch = "x86_64"))]
    (0..looks).any(|_| {
        pause();
        [one, other]
            .iter()
            .any(|word| word.load(Ordering::Acquire) == value)
    })
}

/// The same of one word. It is looked at twice each time, which costs a cycle of some fifty.
#[inline(always)]
pub fn look_for(word: &AtomicU32, value: u32, looks: u32) -> bool {
    look_for_either(word, word, value, looks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn either_word_is_seen() {
        let (one, other) = (AtomicU32::new(7), AtomicU32::new(8));
        for value in [7, 8] {
            assert!(look_for_either(&one, &other, value, 1));
            assert!(!look_for_either(&one, &other, value, 0));
        }
        assert!(!look_for_either(&one, &other, 9, 100));
    }

    #[test]
    fn looks_are_counted() {
        let word = AtomicU32::new(7);
        assert!(look_for(&word, 7, 1) && look_for(&word, 7, u32::MAX));
        assert!(!look_for(&word, 7, 0) && !look_for(&word, 8, 1) && !look_for(&word, 8, 1000));
        std::thread::scope(|s| {
            s.spawn(|| {
                std::thread::sleep(std::time::Duration::from_millis(1));
                word.store(8, Ordering::Release);
            });
            while !look_for(&word, 8, 100) {}
        });
    }

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
        own(ptr::null_mut(), 100);
        pause();
    }
}
