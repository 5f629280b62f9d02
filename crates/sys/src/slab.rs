//! Slabs: objects of one type in the [span](crate::span), named by 32 bits.
//!
//! A [`Pool`] holds slots of one type that are made once and never dropped or moved: an object
//! that was released stays a valid value of its type, so a reference to it is stale but not
//! dangling. A slot is a header followed by the value, 64-byte aligned; its *handle* is the low 32
//! bits of its address. Any 32 bits may be looked up: the span's table says which pool owns the
//! page before the slot's header is read, the offset must be one of a slot, and the header says
//! whether the object is live. Only a stale handle whose slot was given out again is not noticed.
//!
//! The free slots are a list, through their headers. It begins in the pool's [`Near`], which may lie elsewhere, so that whoever uses objects
//! again and again needs to look only there: it also finds the objects in the first page of the pool with one comparison.
//!
//! A [`Slab`] stores values in a pool, dropping them when they are removed.
//!
//! Neither is `Sync` or `Send`: the engine keeps them under its [lock](crate::lock).

use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::mem::{align_of, size_of};
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::blank::Blank;
use crate::span;

/// A handle's page is owned by a pool: upper 24 bits its number, lower 8 its kind.
static POOLS: AtomicU32 = AtomicU32::new(1);

/// The mark of a live slot. A free one has the upper half of an address there, which is less.
const LIVE: u32 = 0x59ab_0001;

/// Slots are made in batches of about so many bytes: what one page fault brings in.
const BATCH: usize = 4096;

#[repr(C, align(64))]
struct Slot<T> {
    /// If it is free, the address of the next free slot, or 0: the lower half,
    next: Cell<u32>,
    /// and the upper one; else [`LIVE`]. So one store frees it. It is just before the value, which may begin with a word that is
    /// compared together with this.
    mark: Cell<u32>,
    value: T,
}

impl<T> Slot<T> {
    /// The address of the next free slot, if this is one.
    #[inline(always)]
    fn next(&self) -> usize {
        (u64::from(self.next.get()) | u64::from(self.mark.get()) << 32) as usize
    }

    /// Makes it a free one.
    #[inline(always)]
    fn set_next(&self, address: usize) {
        self.next.set(address as u32);
        self.mark.set((address as u64 >> 32) as u32);
    }
}

/// An object that lives in a [`Pool`].
pub trait Pooled: Default {
    /// It was made, and will always be found at `handle`.
    fn made(&self, _handle: u32) {}
}

/// An object that may be free, with what giving it back takes.
pub struct Found<'a, T: 'static> {
    near: &'a Near<T>,
    slot: &'static Slot<T>,
}

impl<T> Found<'_, T> {
    /// The object.
    #[inline(always)]
    pub fn value(&self) -> &'static T {
        &self.slot.value
    }

    /// Gives its slot back if it is live and `word` is 0; says whether it did. If `word` is the first of the object, both are looked
    /// at with one load.
    #[inline(always)]
    pub fn release_if(self, word: u32) -> bool {
        let both = u64::from(self.slot.mark.get()) | u64::from(word) << 32;
        if both != u64::from(LIVE) {
            return false;
        }
        self.near.put_free(self.slot);
        true
    }

    /// `word`, if the object is live. If that is its first, both are looked at with one load.
    #[inline(always)]
    pub fn word_if_live(&self, word: u32) -> Option<u32> {
        let both = u64::from(self.slot.mark.get()) | u64::from(word) << 32;
        (both as u32 == LIVE).then_some((both >> 32) as u32)
    }
}

/// The object that is taken next, if one is.
pub struct Free<'a, T: 'static> {
    near: &'a Near<T>,
    slot: &'static Slot<T>,
}

impl<T> Free<'_, T> {
    /// The object, as the last owner left it. Who is about to take it may begin to fill it.
    #[inline(always)]
    pub fn value(&self) -> &'static T {
        &self.slot.value
    }

    /// Takes it: its address, whose lower half is its handle. Nothing was taken or given back in between.
    #[inline(always)]
    pub fn take(self) -> usize {
        let address = ptr::from_ref(self.slot).addr();
        debug_assert_eq!(self.near.free.get(), address);
        self.near.free.set(self.slot.next());
        self.slot.mark.set(LIVE);
        address
    }
}

/// The part of a pool that is used again and again: the free slots, and where the first page of slots is.
pub struct Near<T: 'static> {
    /// The address of the first free slot, or 0.
    free: Cell<usize>,
    /// The address of the last slot of the first page, if objects may be looked for; else 0.
    last: Cell<usize>,
    /// The same, whether they may or not.
    place: Cell<usize>,
    /// Slots are handed out as references that must not leave the thread.
    not_send: PhantomData<*const T>,
}

// SAFETY: no free slot, and no page.
unsafe impl<T> Blank for Near<T> {}

impl<T> Near<T> {
    /// The bits of an address that say which slot of its page it is.
    const INDEX: usize = {
        assert!(
            size_of::<Slot<T>>().is_power_of_two() && size_of::<Slot<T>>() < span::PAGE,
            "addresses are checked with a mask, which leaves something of any"
        );
        span::PAGE - size_of::<Slot<T>>()
    };

    /// A slot that is free. `None`: no slot that was made is.
    #[inline(always)]
    pub fn free(&self) -> Option<Free<'_, T>> {
        let address = self.free.get();
        if address == 0 {
            return None;
        }
        // SAFETY: the list holds addresses of slots of this type that were made, which live for ever and are only borrowed shared.
        let slot = unsafe { &*ptr::with_exposed_provenance::<Slot<T>>(address) };
        Some(Free { near: self, slot })
    }

    /// The object at `address`, if that is in the first page of a pool whose objects are of a size that is a power of two, and
    /// [may be looked for](Near::show). It may be free.
    #[inline(always)]
    pub fn find(&self, address: usize) -> Option<Found<'_, T>> {
        self.find_in(self.last.get(), address)
    }

    /// The same, whether it may be looked for or not.
    #[inline(always)]
    pub fn find_hidden(&self, address: usize) -> Option<Found<'_, T>> {
        self.find_in(self.place.get(), address)
    }

    #[inline(always)]
    fn find_in(&self, last: usize, address: usize) -> Option<Found<'_, T>> {
        // With the index filled up each slot's address is the last one's. That is never 0, so before there is a page nothing is found.
        if address | Self::INDEX != last {
            return None;
        }
        // SAFETY: the first page is full of slots of this type, which were made before `place` was set; they live for ever and
        // are only borrowed shared. `address` is that of one of them.
        let slot = unsafe { &*ptr::with_exposed_provenance::<Slot<T>>(address) };
        Some(Found { near: self, slot })
    }

    /// Objects may be looked for from now on.
    pub fn show(&self) {
        self.last.set(self.place.get());
    }

    /// No object is found from now on.
    pub fn hide(&self) {
        self.last.set(0);
    }

    /// Makes a slot free that was made and is not.
    #[inline(always)]
    fn put_free(&self, slot: &Slot<T>) {
        slot.set_next(self.free.get());
        self.free.set(ptr::from_ref(slot).addr());
    }
}

/// A pool of slots of one type. See the [module](self).
pub struct Pool<T: 'static> {
    /// What the span's table says of this pool's pages.
    owner: u32,
    base: Cell<usize>,
    near: &'static Near<T>,
    /// Whether the first page is made at once, for `near` to find the objects in it.
    near_finds: bool,
    pages: RefCell<Vec<u32>>,
    /// Slots made so far.
    slots: Cell<usize>,
}

impl<T: Pooled + 'static> Pool<T> {
    const STRIDE: usize = {
        assert!(
            size_of::<Slot<T>>() <= span::PAGE,
            "the type does not fit a page of the span"
        );
        assert!(
            align_of::<Slot<T>>() == 64,
            "the type asks for more than a cache line's alignment"
        );
        size_of::<Slot<T>>()
    };
    const PER_PAGE: usize = span::PAGE / Self::STRIDE;

    /// An empty pool whose objects are of the given kind, which [`kind_of`] tells.
    ///
    /// # Panics
    /// When 16 million pools were made before.
    pub fn new(kind: u8) -> Pool<T> {
        Pool::with(kind, Box::leak(Box::new(Near::BLANK)), false)
    }

    /// The same, whose [`Near`] is this one, which no other pool has. It finds the objects of the first page.
    ///
    /// # Panics
    /// As [`Pool::new`].
    pub fn beside(kind: u8, near: &'static Near<T>) -> Pool<T> {
        Pool::with(kind, near, true)
    }

    fn with(kind: u8, near: &'static Near<T>, near_finds: bool) -> Pool<T> {
        let number = POOLS.fetch_add(1, Ordering::Relaxed);
        assert!(number < 1 << 24, "too many pools");
        Pool {
            owner: number << 8 | u32::from(kind),
            base: Cell::new(0),
            near,
            near_finds,
            pages: RefCell::new(Vec::new()),
            slots: Cell::new(0),
        }
    }

    /// Takes a free slot. Its value is what the last owner left, or `T::default()`. `None` when
    /// memory or the span is full.
    #[inline]
    pub fn acquire(&self) -> Option<(u32, &'static T)> {
        let free = match self.near.free() {
            Some(free) => free,
            None => self.grow().and_then(|()| self.near.free())?,
        };
        let value = free.value();
        // The low half of its address.
        Some((free.take() as u32, value))
    }

    /// Gives a slot back; `false` (and nothing done) when `handle` is not of a live object here.
    #[inline]
    pub fn release(&self, handle: u32) -> bool {
        let Some(slot) = self.find(handle) else {
            return false;
        };
        self.near.put_free(slot);
        true
    }

    /// The live object that `handle` names; `None` for any other 32 bits.
    #[inline]
    pub fn get(&self, handle: u32) -> Option<&'static T> {
        self.find(handle).map(|slot| &slot.value)
    }

    /// Number of live objects.
    pub fn live(&self) -> usize {
        self.handles().count()
    }

    /// Handles of the live objects, in the order of their addresses within a page. Objects may be
    /// acquired and released meanwhile.
    pub fn handles(&self) -> impl Iterator<Item = u32> + '_ {
        (0..)
            .map_while(|i| self.pages.borrow().get(i).copied())
            .flat_map(|page| (0..Self::PER_PAGE).map(move |i| page + (i * Self::STRIDE) as u32))
            .filter(|&handle| self.find(handle).is_some())
    }

    #[inline(always)]
    fn find(&self, handle: u32) -> Option<&'static Slot<T>> {
        if span::owner(handle) != self.owner
            || !(handle as usize % span::PAGE).is_multiple_of(Self::STRIDE)
        {
            return None;
        }
        let slot = self.slot(handle);
        // SAFETY: this pool owns the page, so it is committed, and `handle` is a multiple of 64
        // inside it, so the mark's four bytes are readable and aligned.
        if unsafe { (&raw const (*slot).mark).cast::<u32>().read() } != LIVE {
            return None;
        }
        // SAFETY: the page holds slots of `T` only, at multiples of `STRIDE`; a live mark is
        // written only into a slot that was made, and slots live for ever, borrowed shared.
        Some(unsafe { &*slot })
    }

    #[inline(always)]
    fn slot(&self, handle: u32) -> *const Slot<T> {
        ptr::with_exposed_provenance(self.base.get() + handle as usize)
    }

    /// Makes a batch of free slots. `None` when it can't make one.
    #[cold]
    #[inline(never)]
    fn grow(&self) -> Option<()> {
        let whole = self.near_finds && self.slots.get() == 0;
        let batch = match whole {
            true => Self::PER_PAGE,
            false => (BATCH / Self::STRIDE).max(1),
        };
        for i in 0..batch {
            // Made before the slot is chosen: `default` may be anybody's code and call back.
            let value = T::default();
            let Some(handle) = self.next_slot() else {
                return (i > 0).then_some(());
            };
            let slot = self.slot(handle).cast_mut();
            let new = Slot {
                next: Cell::new(0),
                mark: Cell::new(0),
                value,
            };
            // SAFETY: `next_slot` gives each slot out once, inside a committed page of ours, so
            // nobody refers to it yet. It is written without reading what was there.
            let slot = unsafe {
                slot.write(new);
                &*slot
            };
            slot.value.made(handle);
            self.near.put_free(slot);
        }
        if whole {
            let first = self.base.get() + self.pages.borrow()[0] as usize;
            let last = first + (Self::PER_PAGE - 1) * Self::STRIDE;
            self.near.place.set(last);
        }
        Some(())
    }

    /// The handle of the next slot that was never made.
    fn next_slot(&self) -> Option<u32> {
        let made = self.slots.get();
        let mut pages = self.pages.borrow_mut();
        let index = made % Self::PER_PAGE;
        if made / Self::PER_PAGE == pages.len() {
            pages.try_reserve(1).ok()?;
            pages.push(span::commit(self.owner)?);
            self.base.set(span::base());
        }
        self.slots.set(made + 1);
        pages
            .last()
            .map(|page| page + (index * Self::STRIDE) as u32)
    }
}

/// The kind of the pool that the page of `handle` belongs to, whatever object may lie there: for
/// messages such as "this is a datatype, not a communicator".
pub fn kind_of(handle: u32) -> Option<u8> {
    match span::owner(handle) {
        0 => None,
        owner => Some(owner as u8),
    }
}

impl<T> Pooled for RefCell<Option<T>> {}

/// Values named by handles. See the [module](self).
pub struct Slab<T: Clone + 'static> {
    pool: Pool<RefCell<Option<T>>>,
}

impl<T: Clone + 'static> Slab<T> {
    /// An empty slab whose objects are of the given kind.
    ///
    /// # Panics
    /// As [`Pool::new`].
    pub fn new(kind: u8) -> Slab<T> {
        Slab {
            pool: Pool::new(kind),
        }
    }

    /// Stores a value and names it; `None`, the value dropped, when there is no room.
    pub fn insert(&self, value: T) -> Option<u32> {
        let (handle, place) = self.pool.acquire()?;
        place.replace(Some(value));
        Some(handle)
    }

    /// A copy of the value that `handle` names. `T::clone` must not remove it.
    #[inline]
    pub fn get(&self, handle: u32) -> Option<T> {
        self.pool.get(handle)?.borrow().clone()
    }

    /// Takes the value that `handle` names out; the handle is free from then on.
    pub fn remove(&self, handle: u32) -> Option<T> {
        let value = self.pool.get(handle)?.take();
        self.pool.release(handle);
        value
    }

    /// Number of values stored.
    pub fn live(&self) -> usize {
        self.pool.live()
    }

    /// Handles of the values stored. Values may be inserted and removed meanwhile.
    pub fn handles(&self) -> impl Iterator<Item = u32> + '_ {
        self.pool.handles()
    }
}

impl<T: Clone + 'static> Drop for Slab<T> {
    fn drop(&mut self) {
        for handle in self.pool.handles() {
            drop(self.remove(handle));
        }
    }
}

#[cfg(test)]
mod tests;
