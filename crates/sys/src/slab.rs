//! Slabs: objects of one type in the [span](crate::span), named by 32 bits.
//!
//! A [`Pool`] holds slots of one type that are made once and never dropped or moved: an object
//! that was released stays a valid value of its type, so a reference to it is stale but not
//! dangling. A slot is a header followed by the value, 64-byte aligned; its *handle* is the low 32
//! bits of its address. Any 32 bits may be looked up: the span's table says which pool owns the
//! page before the slot's header is read, the offset must be one of a slot, and the header says
//! whether the object is live. Only a stale handle whose slot was given out again is not noticed.
//!
//! A [`Slab`] stores values in a pool, dropping them when they are removed.
//!
//! Neither is `Sync` or `Send`: the engine keeps them under its [lock](crate::lock).

use std::cell::{Cell, RefCell, UnsafeCell};
use std::marker::PhantomData;
use std::mem::{align_of, offset_of, size_of};
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::span;

/// A handle's page is owned by a pool: upper 24 bits its number, lower 8 its kind.
static POOLS: AtomicU32 = AtomicU32::new(1);

/// The header of a live slot,
const LIVE: u32 = 0x59ab_0001;
/// and of a free one.
const FREE: u32 = 0;

/// What an empty pool looks at: no live header.
static NOTHING: AtomicU32 = AtomicU32::new(0);

/// Slots are made in batches of about so many bytes: what one page fault brings in.
const BATCH: usize = 4096;

#[repr(C, align(64))]
struct Slot<T> {
    header: Cell<u32>,
    value: T,
}

/// A live object that was found, with what giving it back takes.
pub struct Found<'a, T: 'static> {
    pool: &'a Pool<T>,
    slot: &'static Slot<T>,
    handle: u32,
}

impl<T: Default> Found<'_, T> {
    /// The object.
    #[inline(always)]
    pub fn value(&self) -> &'static T {
        &self.slot.value
    }

    /// Gives its slot back, unless that was done already.
    #[inline(always)]
    pub fn release(self) {
        if self.slot.header.get() == LIVE {
            self.pool.give_back(self.slot, self.handle);
        }
    }
}

/// A pool of slots of one type. See the [module](self).
pub struct Pool<T: 'static> {
    /// What the span's table says of this pool's pages.
    owner: u32,
    base: Cell<usize>,
    /// The first page,
    first: Cell<u32>,
    /// and the bits that an offset into it cannot have.
    beyond: Cell<usize>,
    /// Handles of free slots; has room for every slot there is.
    free: UnsafeCell<Vec<u32>>,
    pages: RefCell<Vec<u32>>,
    /// Slots made so far.
    slots: Cell<usize>,
    /// Slots are handed out as references that must not leave the thread.
    not_send: PhantomData<*const T>,
}

impl<T: Default + 'static> Pool<T> {
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
        let number = POOLS.fetch_add(1, Ordering::Relaxed);
        assert!(number < 1 << 24, "too many pools");
        Pool {
            owner: number << 8 | u32::from(kind),
            base: Cell::new((&raw const NOTHING).expose_provenance()),
            first: Cell::new(0),
            beyond: Cell::new(usize::MAX),
            free: UnsafeCell::new(Vec::new()),
            pages: RefCell::new(Vec::new()),
            slots: Cell::new(0),
            not_send: PhantomData,
        }
    }

    /// Takes a free slot. Its value is what the last owner left, or `T::default()`. `None` when
    /// memory or the span is full.
    #[inline]
    pub fn acquire(&self) -> Option<(u32, &'static T)> {
        // SAFETY: `free` is touched only inside this type's methods, which the type's lack of
        // `Sync` keeps to one thread, and no other borrow of it is alive here.
        let handle = match unsafe { (*self.free.get()).pop() } {
            Some(handle) => handle,
            None => self.grow()?,
        };
        // SAFETY: handles in `free` and from `grow` are of slots that were made.
        Some((handle, unsafe { self.begin(handle) }))
    }

    /// The same, but only of the slots that were made already: nothing is called.
    #[inline(always)]
    pub fn acquire_made(&self) -> Option<(u32, &'static T)> {
        // SAFETY: as in `acquire`.
        let handle = unsafe { (*self.free.get()).pop() }?;
        // SAFETY: as in `acquire`.
        Some((handle, unsafe { self.begin(handle) }))
    }

    /// Makes a free slot's object live.
    ///
    /// # Safety
    /// `handle` is of a slot of this pool that was made.
    #[inline(always)]
    unsafe fn begin(&self, handle: u32) -> &'static T {
        // SAFETY: the caller's promise; slots live for ever and are only ever borrowed shared.
        let slot: &'static Slot<T> = unsafe { &*self.slot(handle) };
        slot.header.set(LIVE);
        &slot.value
    }

    /// Gives a slot back; `false` (and nothing done) when `handle` is not of a live object here.
    #[inline]
    pub fn release(&self, handle: u32) -> bool {
        let Some(slot) = self.find(handle) else {
            return false;
        };
        self.give_back(slot, handle);
        true
    }

    /// Gives back the slot of `handle`, which was found live just now.
    #[inline(always)]
    fn give_back(&self, slot: &Slot<T>, handle: u32) {
        slot.header.set(FREE);
        // SAFETY: as in `acquire`; the slot was made and is not free.
        unsafe { self.put_free(handle) };
    }

    /// The handle that would be that of the first slot; 0 before there is one.
    pub fn first(&self) -> u32 {
        self.first.get()
    }

    /// The live object that lies `offset` bytes behind the first, if that is in the same page of the span: less work than looking
    /// up a handle, for the objects that are used again and again.
    #[inline(always)]
    pub fn near(&self, offset: usize) -> Option<Found<'_, T>> {
        const {
            assert!(
                Self::STRIDE.is_power_of_two(),
                "offsets are checked with a mask"
            )
        };
        if offset & self.beyond.get() != 0 {
            return None;
        }
        let handle = self.first.get().wrapping_add(offset as u32);
        let slot = self.slot(handle);
        // SAFETY: the first page is committed and this pool's, and `offset` is a multiple of `STRIDE` inside it: its header's
        // four bytes are readable and aligned. Before there is a page the offset is 0, and this is `NOTHING`.
        if unsafe { (&raw const (*slot).header).cast::<u32>().read() } != LIVE {
            return None;
        }
        // SAFETY: as in `find`.
        let slot = unsafe { &*slot };
        Some(Found {
            pool: self,
            slot,
            handle,
        })
    }

    /// The live object that `handle` names; `None` for any other 32 bits.
    #[inline]
    pub fn get(&self, handle: u32) -> Option<&'static T> {
        self.find(handle).map(|slot| &slot.value)
    }

    /// Number of live objects.
    pub fn live(&self) -> usize {
        // SAFETY: as in `acquire`.
        self.slots.get() - unsafe { (*self.free.get()).len() }
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
        // inside it, so the header's four bytes are readable and aligned.
        if unsafe { (&raw const (*slot).header).cast::<u32>().read() } != LIVE {
            return None;
        }
        // SAFETY: the page holds slots of `T` only, at multiples of `STRIDE`; a live header is
        // written only into a slot that was made, and slots live for ever, borrowed shared.
        Some(unsafe { &*slot })
    }

    #[inline(always)]
    fn slot(&self, handle: u32) -> *const Slot<T> {
        ptr::with_exposed_provenance(self.base.get() + handle as usize)
    }

    /// Appends to the free handles.
    ///
    /// # Safety
    /// No borrow of `free` is alive, and `handle` is of a slot of this pool that is not in it.
    #[inline(always)]
    unsafe fn put_free(&self, handle: u32) {
        // SAFETY: the caller's promise. `next_slot` made room for every slot there is and each is
        // in the array at most once, so the length is below the capacity.
        unsafe {
            let free = &mut *self.free.get();
            let len = free.len();
            debug_assert!(len < free.capacity());
            free.as_mut_ptr().add(len).write(handle);
            free.set_len(len + 1);
        }
    }

    /// Makes a batch of slots and returns one of them.
    #[cold]
    #[inline(never)]
    fn grow(&self) -> Option<u32> {
        let batch = (BATCH / Self::STRIDE).max(1);
        let mut first = None;
        for _ in 0..batch {
            // Made before the slot is chosen: `default` may be anybody's code and call back.
            let value = T::default();
            let Some(handle) = self.next_slot() else {
                break;
            };
            let slot = self.slot(handle).cast_mut();
            // SAFETY: `next_slot` gives each slot out once, inside a committed page of ours, so
            // nobody refers to it yet. Header and value are written without reading the old ones.
            unsafe {
                slot.byte_add(offset_of!(Slot<T>, header))
                    .cast::<u32>()
                    .write(FREE);
                (&raw mut (*slot).value).write(value);
            }
            match first {
                None => first = Some(handle),
                // SAFETY: as in `acquire`; the slot was made just now.
                Some(_) => unsafe { self.put_free(handle) },
            }
        }
        first
    }

    /// The handle of the next slot that was never made.
    fn next_slot(&self) -> Option<u32> {
        let made = self.slots.get();
        let mut pages = self.pages.borrow_mut();
        let index = made % Self::PER_PAGE;
        if made / Self::PER_PAGE == pages.len() {
            // SAFETY: as in `acquire`. The length is at most `made`.
            let free = unsafe { &mut *self.free.get() };
            free.try_reserve(made + Self::PER_PAGE - free.len()).ok()?;
            pages.try_reserve(1).ok()?;
            pages.push(span::commit(self.owner)?);
            self.first.set(pages[0]);
            self.beyond.set(!(span::PAGE - Self::STRIDE));
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
mod tests {
    use std::collections::HashMap;
    use std::rc::Rc;

    use proptest::prelude::*;

    use super::*;

    #[derive(Default)]
    struct Thing {
        number: Cell<u64>,
        _more: [u64; 20],
    }

    #[test]
    fn slots_come_and_go() {
        let pool = Pool::<Thing>::new(7);
        let (h, thing) = pool.acquire().unwrap();
        assert_eq!(h % 64, 0);
        assert!(h as i32 > 0);
        thing.number.set(42);
        assert_eq!(pool.get(h).unwrap().number.get(), 42);
        assert_eq!(span::address(h) >> 32, span::upper() as usize);
        assert_eq!((pool.live(), kind_of(h)), (1, Some(7)));
        assert!(pool.release(h));
        assert!(!pool.release(h));
        assert!(pool.get(h).is_none());
        assert_eq!(thing.number.get(), 42);
        assert_eq!(pool.acquire().unwrap().0, h);
        assert_eq!(kind_of(0), None);
    }

    #[test]
    fn near_ones_are_found_by_offset() {
        #[derive(Default)]
        struct Even {
            _room: [u64; 28],
        }
        let pool = Pool::<Even>::new(5);
        assert!(pool.near(0).is_none() && pool.near(256).is_none());
        let handles: Vec<u32> = (0..300).map(|_| pool.acquire().unwrap().0).collect();
        let near = |h: u32| pool.near((h as usize).wrapping_sub(pool.first() as usize));
        let found = |h: &&u32| {
            let same = |f: &Found<Even>| ptr::eq(f.value(), pool.get(**h).unwrap());
            near(**h).filter(same).is_some()
        };
        assert_eq!(handles.iter().filter(found).count(), span::PAGE / 256);
        let one = handles[3];
        for strange in [1, 64, 255, 1 << 16, 1 << 40, usize::MAX] {
            assert!(pool.near((one - pool.first()) as usize ^ strange).is_none());
        }
        near(one).unwrap().release();
        assert!(near(one).is_none() && pool.get(one).is_none());
        assert_eq!(pool.acquire().unwrap().0, one);
        let (first, second) = (near(one).unwrap(), near(one).unwrap());
        first.release();
        second.release();
        assert_eq!(pool.live(), 299);
    }

    #[test]
    fn other_pools_handles_are_strange() {
        let (a, b) = (Pool::<Thing>::new(1), Pool::<Thing>::new(1));
        let c = Pool::<Cell<u8>>::new(2);
        let (ha, hb, hc) = (
            a.acquire().unwrap().0,
            b.acquire().unwrap().0,
            c.acquire().unwrap().0,
        );
        assert!(a.get(hb).is_none() && b.get(ha).is_none() && c.get(ha).is_none());
        assert!(a.get(hc).is_none() && !a.release(hb) && b.get(hb).is_some());
    }

    #[test]
    fn grows_over_pages_and_blocks() {
        #[derive(Default)]
        struct Page {
            _room: [[u64; 32]; 31],
        }
        let pool = Pool::<Page>::new(3);
        let handles: Vec<u32> = (0..9000).map(|_| pool.acquire().unwrap().0).collect();
        assert_eq!(pool.live(), 9000);
        assert!(handles.iter().all(|h| h & 0x3ff_ffff >= 0x1_0000));
        assert_eq!(pool.handles().count(), 9000);
        for h in pool.handles() {
            assert!(pool.release(h));
        }
        assert_eq!((pool.live(), pool.handles().count()), (0, 0));
    }

    #[test]
    fn default_may_call_back() {
        calls_back::check();
    }

    /// A type whose `default` acquires from the very pool that is making it.
    mod calls_back {
        use super::*;

        struct Shared(Pool<Nested>);
        // SAFETY: the test below is the only user, on one thread.
        unsafe impl Sync for Shared {}
        // SAFETY: as above.
        unsafe impl Send for Shared {}
        static POOL: std::sync::OnceLock<Shared> = std::sync::OnceLock::new();
        static DEPTH: AtomicU32 = AtomicU32::new(0);

        struct Nested(Cell<u32>);
        impl Default for Nested {
            fn default() -> Nested {
                if DEPTH.fetch_add(1, Ordering::Relaxed) == 3 {
                    let (h, n) = POOL.get().unwrap().0.acquire().unwrap();
                    n.0.set(h);
                }
                Nested(Cell::new(0))
            }
        }

        pub fn check() {
            let pool = &POOL.get_or_init(|| Shared(Pool::new(4))).0;
            let taken: Vec<u32> = (0..200).map(|_| pool.acquire().unwrap().0).collect();
            let all: std::collections::HashSet<u32> = taken.iter().copied().collect();
            assert_eq!(all.len(), 200);
            assert_eq!(pool.live(), 201);
            let marked = pool
                .handles()
                .filter(|&h| pool.get(h).unwrap().0.get() == h)
                .count();
            assert_eq!(marked, 1);
        }
    }

    #[test]
    fn slab_drops_what_it_held() {
        let value = Rc::new(5);
        let slab = Slab::new(9);
        let h = slab.insert(value.clone()).unwrap();
        let g = slab.insert(value.clone()).unwrap();
        assert_eq!(slab.get(h).as_deref(), Some(&5));
        assert_eq!(Rc::strong_count(&value), 3);
        assert!(slab.remove(h).is_some() && slab.remove(h).is_none() && slab.get(h).is_none());
        assert_eq!(
            (slab.live(), slab.handles().collect::<Vec<_>>()),
            (1, vec![g])
        );
        drop(slab);
        assert_eq!(Rc::strong_count(&value), 1);
    }

    #[derive(Debug, Clone)]
    enum Step {
        Insert(u16),
        Remove(usize),
        Near(usize, i32),
        Any(u32),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            any::<u16>().prop_map(Step::Insert),
            any::<usize>().prop_map(Step::Remove),
            (any::<usize>(), -300..300).prop_map(|(i, d)| Step::Near(i, d)),
            any::<u32>().prop_map(Step::Any),
        ]
    }

    proptest! {
        #[test]
        fn behaves_like_a_map(steps in proptest::collection::vec(step(), 1..200)) {
            let slab = Slab::<Rc<u16>>::new(1);
            let other = Slab::<Rc<u16>>::new(2);
            let mut oracle = HashMap::new();
            let mut known = vec![0];
            for s in steps {
                match s {
                    Step::Insert(v) => {
                        let h = slab.insert(Rc::new(v)).unwrap();
                        prop_assert!(oracle.insert(h, v).is_none());
                        known.push(h);
                        known.push(other.insert(Rc::new(v)).unwrap());
                    }
                    Step::Remove(i) => {
                        let h = known[i % known.len()];
                        prop_assert_eq!(slab.remove(h).map(|v| *v), oracle.remove(&h));
                    }
                    Step::Near(i, d) => {
                        let h = known[i % known.len()].wrapping_add_signed(d);
                        prop_assert_eq!(slab.get(h).map(|v| *v), oracle.get(&h).copied());
                    }
                    Step::Any(h) => {
                        prop_assert_eq!(slab.get(h).map(|v| *v), oracle.get(&h).copied());
                        prop_assert_eq!(slab.pool.release(h), oracle.remove(&h).is_some());
                    }
                }
                prop_assert_eq!(slab.live(), oracle.len());
            }
        }
    }

    #[test]
    fn a_million_random_handles() {
        let pool = Pool::<Thing>::new(1);
        let live: std::collections::HashSet<u32> =
            (0..1000).map(|_| pool.acquire().unwrap().0).collect();
        let mut x = 0x2545_f491_4f6c_dd1d_u64;
        for _ in 0..1_000_000 {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            // Half of them near the start of the span, where the committed pages are.
            let h = if x & 1 == 0 {
                (x >> 32) as u32
            } else {
                (x >> 32) as u32 & 0xff_ffff
            };
            assert_eq!(pool.get(h).is_some(), live.contains(&h));
        }
    }
}
