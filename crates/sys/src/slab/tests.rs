//! Slabs and pools, and a model of them.

use std::collections::HashMap;
use std::rc::Rc;

use proptest::prelude::*;

use super::*;

#[derive(Default)]
struct Thing {
    number: Cell<u64>,
    _more: [u64; 20],
}

impl Pooled for Thing {}
impl Pooled for Cell<u8> {}

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
fn near_ones_are_found_by_address() {
    #[derive(Default)]
    struct Even {
        state: Cell<u32>,
        _room: [u64; 28],
    }
    impl Pooled for Even {
        fn made(&self, handle: u32) {
            self.state.set(handle);
        }
    }
    let near: &'static Near<Even> = Box::leak(Box::new(Near::BLANK));
    let pool = Pool::beside(5, near);
    assert!(near.free().is_none());
    near.show();
    assert!([0, 256, usize::MAX].iter().all(|&a| near.find(a).is_none()));
    let handles: Vec<u32> = (0..300).map(|_| pool.acquire().unwrap().0).collect();
    assert!(near.find(span::address(handles[3])).is_none());
    near.show();
    let find = |h: u32| near.find(span::address(h));
    let found = |h: &&u32| {
        let same = |f: &Found<Even>| ptr::eq(f.value(), pool.get(**h).unwrap());
        find(**h).filter(same).is_some()
    };
    assert_eq!(handles.iter().filter(found).count(), span::PAGE / 256);
    let one = handles[3];
    assert_eq!(pool.get(one).unwrap().state.get(), one);
    for strange in [1, 64, 255, 1 << 16, 1 << 40] {
        assert!(near.find(span::address(one) ^ strange).is_none());
    }
    let release = |h: u32, word: u32| find(h).unwrap().release_if(word);
    assert!(!release(one, 1) && release(one, 0));
    assert!(!release(one, 0) && pool.get(one).is_none());
    let take = || near.free().map(Free::take);
    assert_eq!(take(), Some(span::address(one)));
    assert!(pool.get(one).is_some());
    assert!(release(one, 0) && !release(one, 0));
    assert_eq!(pool.live(), 299);
    near.free().unwrap().value().state.set(one);
    assert_eq!(pool.live(), 299, "only looked at");
    let taken = take().unwrap() as u32;
    assert_eq!(pool.get(taken).unwrap().state.get(), one);
    near.hide();
    assert!(find(one).is_none() && near.find_hidden(span::address(one)).is_some());
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
    impl Pooled for Page {}
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
    impl Pooled for Nested {}
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
