//! The span: one range of address space that holds every object of the library.
//!
//! 2 GiB are reserved at first use, aligned to 4 GiB and not committed, so the upper 32 bits of an
//! object's address are a constant of the process and the lower 32 bits, which are never negative
//! as an `int`, name the object. Where `ulimit -v` is set the span takes at most an eighth of it
//! and is halved until the kernel agrees.
//!
//! Memory is handed out in pages of 64 KiB (the *span's* pages, not the machine's), in ascending
//! order and for ever. Page 0 of every 64 MiB block is left out: no name has its low 26 bits below
//! 65536, which is where the predefined handles of the ABIs lie. A table says who owns each page,
//! so a name that a program made up is recognised before anything is dereferenced.
//!
//! Called by [`crate::slab`] and by the entry points, which turn pointers into names and back.

use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::io::Errno;
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};
use rustix::process::{Resource, getrlimit};

/// Bytes of one of the span's pages.
pub const PAGE: usize = 1 << 16;

/// Bytes of the whole span, where address space is not limited.
pub const SIZE: usize = 1 << 31;

const ALIGNMENT: usize = 1 << 32;
const SMALLEST: usize = 4 * PAGE;
const PAGES: usize = SIZE / PAGE;
/// Page 0 of every block of so many pages (64 MiB) stays unused.
const BLOCK_PAGES: u32 = 1 << 10;
/// No machine's user space ends above, unless a program asks for such addresses.
const HIGHEST: usize = 1 << 48;

#[derive(Clone, Copy)]
struct Reservation {
    base: usize,
    size: usize,
}

static RESERVATION: OnceLock<Option<Reservation>> = OnceLock::new();
static NEXT: AtomicU32 = AtomicU32::new(1);
/// Owner of each page; 0 is nobody: the page is not committed. Twice as long as the span, so that
/// every 32-bit name has an entry and looking it up needs no bound check.
static OWNERS: [AtomicU32; 2 * PAGES] = [const { AtomicU32::new(0) }; 2 * PAGES];

/// The span, reserved if this is its first use; `None` where the kernel refused any size.
#[inline]
fn reservation() -> Option<Reservation> {
    *RESERVATION.get_or_init(reserve)
}

/// Address of the span's first byte: a multiple of 4 GiB, or 0 where there is no span.
#[inline]
pub fn base() -> usize {
    reservation().map_or(0, |r| r.base)
}

/// The upper 32 bits of every object's address.
#[inline]
pub fn upper() -> u32 {
    (base() >> 32) as u32
}

/// Bytes of the span; 0 where there is none.
pub fn size() -> usize {
    reservation().map_or(0, |r| r.size)
}

/// Whether `addr` lies in the span (which says nothing about an object being there).
#[inline]
pub fn contains(addr: usize) -> bool {
    reservation().is_some_and(|r| addr.wrapping_sub(r.base) < r.size)
}

/// The name of the object at `addr`: its lower 32 bits; `None` outside the span.
#[inline]
pub fn handle_of(addr: usize) -> Option<u32> {
    contains(addr).then_some(addr as u32)
}

/// The address that the name `handle` stands for. Nothing is checked.
#[inline]
pub fn address(handle: u32) -> usize {
    base() | handle as usize
}

/// Who owns the page that `handle` lies in; 0 where the page is not committed.
#[inline(always)]
pub(crate) fn owner(handle: u32) -> u32 {
    // Acquire: pairs with the store in `commit`, so an owner is seen after its memory.
    OWNERS[(handle >> 16) as usize].load(Ordering::Acquire)
}

/// Commits the next page for `owner` (not 0): zero-filled memory, never taken back. Returns its
/// name, or `None` when the span or the machine is full.
pub(crate) fn commit(owner: u32) -> Option<u32> {
    debug_assert_ne!(owner, 0);
    let r = reservation()?;
    let page = NEXT
        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |p| {
            let free = if p.is_multiple_of(BLOCK_PAGES) {
                p + 1
            } else {
                p
            };
            ((free as usize) < r.size / PAGE).then_some(free + 1)
        })
        .ok()?;
    let page = if page.is_multiple_of(BLOCK_PAGES) {
        page + 1
    } else {
        page
    };
    let handle = page << 16;
    let at = ptr::with_exposed_provenance_mut(r.base + handle as usize);
    // SAFETY: the page lies inside the reservation and no one else was given it; making reserved
    // memory accessible disturbs no reference.
    unsafe { mprotect(at, PAGE, MprotectFlags::READ | MprotectFlags::WRITE) }.ok()?;
    OWNERS[page as usize].store(owner, Ordering::Release);
    Some(handle)
}

fn reserve() -> Option<Reservation> {
    let mut size = first_size(getrlimit(Resource::As).current);
    while size >= SMALLEST {
        if let Some(base) = reserve_bytes(size) {
            return Some(Reservation { base, size });
        }
        size /= 2;
    }
    None
}

/// The size to try first under a limit of address space: the program wants most of it.
fn first_size(limit: Option<u64>) -> usize {
    match limit {
        None => SIZE,
        Some(bytes) => {
            let share = usize::try_from(bytes / 8)
                .unwrap_or(SIZE)
                .clamp(SMALLEST, SIZE);
            1 << share.ilog2()
        }
    }
}

/// Reserves `size` bytes at a multiple of 4 GiB: below where the kernel would map something now,
/// or else above.
fn reserve_bytes(size: usize) -> Option<usize> {
    let probe = map(0, PAGE, MapFlags::empty()).ok()?;
    // SAFETY: the mapping was made on the line above and is not used.
    let _ = unsafe { munmap(ptr::with_exposed_provenance_mut(probe), PAGE) };
    let here = probe & !(ALIGNMENT - 1);
    let below = (1..4096).map(|i| here.wrapping_sub(i * ALIGNMENT));
    let above = (0..4096).map(|i| here + i * ALIGNMENT);
    for base in below
        .chain(above)
        .filter(|b| (ALIGNMENT..HIGHEST).contains(b))
    {
        match map(base, size, MapFlags::FIXED_NOREPLACE) {
            Ok(got) if got == base => return Some(base),
            Ok(got) => {
                // A kernel before 4.17 takes the address as a wish only.
                // SAFETY: the mapping was made just now and is not used.
                let _ = unsafe { munmap(ptr::with_exposed_provenance_mut(got), size) };
            }
            Err(Errno::NOMEM) => return None,
            Err(_) => {}
        }
    }
    None
}

fn map(at: usize, size: usize, flags: MapFlags) -> rustix::io::Result<usize> {
    // SAFETY: without `MAP_FIXED` the kernel replaces no existing mapping.
    let got = unsafe {
        mmap_anonymous(
            ptr::with_exposed_provenance_mut(at),
            size,
            ProtFlags::empty(),
            MapFlags::PRIVATE | MapFlags::NORESERVE | flags,
        )
    }?;
    Ok(got.expose_provenance())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_aligned_and_named() {
        let base = base();
        assert_ne!(base, 0);
        assert_eq!(base % ALIGNMENT, 0);
        assert_eq!(upper() as usize, base >> 32);
        assert!(contains(base) && contains(base + size() - 1));
        assert!(!contains(base + size()) && !contains(base - 1) && !contains(0));
        assert_eq!(handle_of(base + 0x12340), Some(0x12340));
        assert_eq!(handle_of(0x500), None);
        assert_eq!(address(0x12340), base + 0x12340);
    }

    #[test]
    fn first_pages_of_blocks_stay_free() {
        let mut last = 0;
        for _ in 0..2100 {
            let h = commit(u32::MAX).expect("room");
            assert!(h & 0x3ff_ffff >= 0x1_0000, "{h:#x}");
            assert!(h > last);
            assert_eq!(owner(h), u32::MAX);
            last = h;
        }
        assert_eq!(owner(0), 0);
        assert_eq!(owner(0x400_0000), 0);
        assert_eq!(owner(u32::MAX), 0);
        assert_eq!(owner(0x7fff_ffff), 0);
    }

    #[test]
    fn limits_shrink_the_first_try() {
        assert_eq!(first_size(None), SIZE);
        assert_eq!(first_size(Some(u64::MAX - 1)), SIZE);
        assert_eq!(first_size(Some(4 << 30)), 512 << 20);
        assert_eq!(first_size(Some(5 << 30)), 512 << 20);
        assert_eq!(first_size(Some(0)), SMALLEST);
    }

    #[test]
    fn second_reservation_lands_elsewhere() {
        let a = reserve_bytes(SIZE).unwrap();
        let b = reserve_bytes(SIZE).unwrap();
        assert_ne!(a, b);
        for at in [a, b] {
            assert_eq!(at % ALIGNMENT, 0);
            // SAFETY: reserved above for this test alone, nothing was placed in it.
            unsafe { munmap(ptr::with_exposed_provenance_mut(at), SIZE) }.unwrap();
        }
    }
}
