//! Random nested types against the standard's own definition: the type map, copy by copy.

use std::rc::Rc;

use boundary::{AlignedBuf, UserBuf};
use datatype::{Datatype, external};
use layout::{Cursor, Program};
use proptest::prelude::*;
use types::basic::{BASICS, Basic, Class, Elem};
use types::consts::*;

/// Displacement, bytes, and whose part an entry of a type map is.
type Entry = (i64, i64, &'static Basic);

/// A type as the standard defines it.
#[derive(Clone, Debug)]
struct Naive {
    map: Vec<Entry>,
    lb: i64,
    ub: i64,
    lb_explicit: bool,
    ub_explicit: bool,
    present: bool,
}

impl Naive {
    fn extent(&self) -> i64 {
        self.ub - self.lb
    }

    fn basic(b: &'static Basic) -> Naive {
        let map = match (b.class, b.elem) {
            (Class::Pair, Elem::I16Int) => vec![(0, 2, b), (4, 4, b)],
            (Class::Pair, _) => {
                let second = if matches!(b.elem, Elem::F64x2) { 8 } else { 4 };
                let first = b.size as i64 - second;
                vec![(0, first, b), (first, second, b)]
            }
            _ => vec![(0, b.size as i64, b)],
        };
        let ub = b.extent() as i64;
        Naive {
            map,
            lb: 0,
            ub,
            lb_explicit: false,
            ub_explicit: false,
            present: true,
        }
    }

    /// Copies of types at displacements, in order.
    fn place(copies: &[(i64, &Naive)]) -> Naive {
        let map = copies
            .iter()
            .flat_map(|(d, t)| t.map.iter().map(move |e| (e.0 + d, e.1, e.2)));
        let there: Vec<_> = copies.iter().filter(|c| c.1.present).collect();
        let lbx: Vec<_> = there
            .iter()
            .filter(|c| c.1.lb_explicit)
            .map(|c| c.0 + c.1.lb)
            .collect();
        let ubx: Vec<_> = there
            .iter()
            .filter(|c| c.1.ub_explicit)
            .map(|c| c.0 + c.1.ub)
            .collect();
        let lb = lbx.iter().copied().min();
        let ub = ubx.iter().copied().max();
        Naive {
            map: map.collect(),
            lb: lb.or(there.iter().map(|c| c.0 + c.1.lb).min()).unwrap_or(0),
            ub: ub.or(there.iter().map(|c| c.0 + c.1.ub).max()).unwrap_or(0),
            lb_explicit: lb.is_some(),
            ub_explicit: ub.is_some(),
            present: !there.is_empty(),
        }
    }

    /// Blocks of elements: (displacement, length).
    fn blocks(&self, blocks: &[(i64, i64)]) -> Naive {
        let copies = blocks
            .iter()
            .flat_map(|b| (0..b.1).map(|i| b.0 + i * self.extent()));
        Naive::place(&copies.map(|d| (d, self)).collect::<Vec<_>>())
    }
}

#[derive(Clone, Debug)]
struct Pair {
    real: Rc<Datatype>,
    naive: Naive,
}

const LIMIT: usize = 600;

fn leaf() -> impl Strategy<Value = Pair> {
    (0..BASICS.len()).prop_map(|i| {
        let b = &BASICS[i];
        Pair {
            real: Datatype::basic(b),
            naive: Naive::basic(b),
        }
    })
}

fn trim(p: &Pair, lens: Vec<i64>) -> Vec<i64> {
    let total: i64 = lens.iter().sum();
    if p.naive.map.len() * total as usize > LIMIT {
        lens.iter().map(|_| 1).collect()
    } else {
        lens
    }
}

fn vector(p: Pair, count: i64, len: i64, stride: i64, how: u8, large: bool) -> Pair {
    let large_map = p.naive.map.len() as i64 * count * len > LIMIT as i64;
    let (count, len) = if large_map { (1, 1) } else { (count, len) };
    let old = &p.real;
    let e = p.naive.extent();
    let strided = |s: i64| {
        p.naive
            .blocks(&(0..count).map(|i| (i * s, len)).collect::<Vec<_>>())
    };
    let (real, naive) = match how {
        0 => (
            Datatype::contiguous(large, len, old),
            p.naive.blocks(&[(0, len)]),
        ),
        1 => (
            Datatype::vector(large, count, len, stride, old),
            strided(stride * e),
        ),
        _ => (
            Datatype::hvector(large, count, len, stride, old),
            strided(stride),
        ),
    };
    Pair {
        real: real.unwrap(),
        naive,
    }
}

fn indexed(p: Pair, lens: Vec<i64>, disps: Vec<i64>, how: u8, large: bool) -> Pair {
    let mut lens = trim(&p, lens);
    let e = if how & 1 == 0 { p.naive.extent() } else { 1 };
    let disps = &disps[..lens.len()];
    if how >= 2 {
        let first = lens.first().copied().unwrap_or(3);
        lens.iter_mut().for_each(|n| *n = first);
    }
    let blocks: Vec<_> = disps.iter().zip(&lens).map(|(d, n)| (d * e, *n)).collect();
    let one = lens.first().copied().unwrap_or(3);
    let real = match how {
        0 => Datatype::indexed(large, &lens, disps, &p.real),
        1 => Datatype::hindexed(large, &lens, disps, &p.real),
        2 => Datatype::indexed_block(large, one, disps, &p.real),
        _ => Datatype::hindexed_block(large, one, disps, &p.real),
    };
    Pair {
        real: real.unwrap(),
        naive: p.naive.blocks(&blocks),
    }
}

fn structure(parts: Vec<(Pair, i64, i64)>, large: bool) -> Pair {
    let lens: Vec<i64> = parts.iter().map(|p| trim(&p.0, vec![p.1])[0]).collect();
    let disps: Vec<i64> = parts.iter().map(|p| p.2).collect();
    let types: Vec<_> = parts.iter().map(|p| p.0.real.clone()).collect();
    let blocks: Vec<Naive> = (0..parts.len())
        .map(|i| parts[i].0.naive.blocks(&[(disps[i], lens[i])]))
        .collect();
    let mut naive = Naive::place(&blocks.iter().map(|b| (0, b)).collect::<Vec<_>>());
    if !naive.ub_explicit {
        let align = naive
            .map
            .iter()
            .map(|e| e.2.align as i64)
            .max()
            .unwrap_or(1);
        while naive.extent().rem_euclid(align) != 0 {
            naive.ub += 1;
        }
    }
    Pair {
        real: Datatype::structure(large, &lens, &disps, types).unwrap(),
        naive,
    }
}

fn bounded(mut naive: Naive, lb: i64, extent: i64) -> Naive {
    (naive.lb, naive.ub) = (lb, lb + extent);
    (naive.lb_explicit, naive.ub_explicit, naive.present) = (true, true, true);
    naive
}

/// Places elements of an array at each index for which `mine` holds, last index fastest.
fn array(p: &Pair, sizes: &[i64], order: i32, mine: impl Fn(&[i64]) -> bool) -> Naive {
    let n = sizes.len();
    // Walk in memory order: dimension `fast[0]` varies fastest.
    let fast: Vec<usize> = if order == ORDER_C {
        (0..n).rev().collect()
    } else {
        (0..n).collect()
    };
    let total: i64 = sizes.iter().product();
    let mut copies = Vec::new();
    for at in 0..total {
        let (mut rest, mut index) = (at, vec![0; n]);
        for &d in &fast {
            index[d] = rest % sizes[d];
            rest /= sizes[d];
        }
        if mine(&index) {
            copies.push((at * p.naive.extent(), &p.naive));
        }
    }
    bounded(Naive::place(&copies), 0, total * p.naive.extent())
}

fn subarray(p: Pair, dims: Vec<(i64, i64, i64)>, c_order: bool, large: bool) -> Pair {
    let p = if p.naive.map.len() > 8 {
        leaf_pair()
    } else {
        p
    };
    let order = if c_order { ORDER_C } else { ORDER_FORTRAN };
    let sizes: Vec<i64> = dims.iter().map(|d| d.0 + d.1 + d.2 - 1).collect();
    let subs: Vec<i64> = dims.iter().map(|d| d.1).collect();
    let starts: Vec<i64> = dims.iter().map(|d| d.2).collect();
    let real = Datatype::subarray(large, &sizes, &subs, &starts, order, &p.real).unwrap();
    let naive = array(&p, &sizes, order, |x| {
        (0..x.len()).all(|d| x[d] >= starts[d] && x[d] < starts[d] + subs[d])
    });
    Pair { real, naive }
}

fn leaf_pair() -> Pair {
    Pair {
        real: Datatype::basic(&BASICS[5]),
        naive: Naive::basic(&BASICS[5]),
    }
}

/// (global size, process grid size, distribution, block size or 0 for the default)
type Dist = (i64, i64, u8, i64);

fn darray(p: Pair, dims: Vec<Dist>, rank: usize, c_order: bool, large: bool) -> Pair {
    let p = if p.naive.map.len() > 8 {
        leaf_pair()
    } else {
        p
    };
    let order = if c_order { ORDER_C } else { ORDER_FORTRAN };
    let gsizes: Vec<i64> = dims.iter().map(|d| d.0).collect();
    let psizes: Vec<i64> = dims
        .iter()
        .map(|d| if d.2 == 2 { 1 } else { d.1 })
        .collect();
    let kinds = [DISTRIBUTE_BLOCK, DISTRIBUTE_CYCLIC, DISTRIBUTE_NONE];
    let distribs: Vec<i64> = dims.iter().map(|d| kinds[d.2 as usize].into()).collect();
    let blocks: Vec<i64> = (0..dims.len())
        .map(|d| match (dims[d].2, dims[d].3) {
            (0, b) => (gsizes[d] + psizes[d] - 1) / psizes[d] + b,
            (1, b) => b.max(1),
            _ => gsizes[d],
        })
        .collect();
    let dargs: Vec<i64> = (0..dims.len())
        .map(|d| {
            if dims[d].3 == 0 {
                DISTRIBUTE_DFLT_DARG.into()
            } else {
                blocks[d]
            }
        })
        .collect();
    let size: i64 = psizes.iter().product();
    let rank = rank as i64 % size;
    let mut coords = vec![0; dims.len()];
    let mut rest = rank;
    for d in (0..dims.len()).rev() {
        coords[d] = rest % psizes[d];
        rest /= psizes[d];
    }
    let real = Datatype::darray(
        large, size, rank, &gsizes, &distribs, &dargs, &psizes, order, &p.real,
    );
    let naive = array(&p, &gsizes, order, |x| {
        (0..x.len()).all(|d| x[d] / blocks[d] % psizes[d] == coords[d])
    });
    Pair {
        real: real.unwrap(),
        naive,
    }
}

fn pair() -> impl Strategy<Value = Pair> {
    let len = || 0i64..5;
    leaf().prop_recursive(4, 24, 4, move |inner| {
        let t = || inner.clone();
        let far = || prop_oneof![-200i64..200, Just(0), Just(8), Just(16)];
        let big = any::<bool>;
        prop_oneof![
            (t(), len(), len(), -6i64..7, 0u8..2, big())
                .prop_map(|(p, c, l, s, h, g)| vector(p, c, l, s, h, g)),
            (t(), len(), len(), far(), big()).prop_map(|(p, c, l, s, g)| vector(p, c, l, s, 2, g)),
            (
                t(),
                prop::collection::vec(len(), 0..7),
                prop::collection::vec(-9i64..9, 7),
                0u8..4,
                big()
            )
                .prop_map(|(p, l, d, h, g)| indexed(p, l, d, h, g)),
            (prop::collection::vec((t(), len(), far()), 0..5), big())
                .prop_map(|(p, g)| structure(p, g)),
            (t(), far(), far(), big()).prop_map(|(p, lb, extent, g)| Pair {
                real: Datatype::resized(g, lb, extent, &p.real).unwrap(),
                naive: bounded(p.naive, lb, extent),
            }),
            t().prop_map(|p| Pair {
                real: Datatype::dup(&p.real).unwrap(),
                ..p
            }),
            (
                t(),
                prop::collection::vec((1i64..4, 1i64..4, 0i64..3), 1..4),
                big(),
                big()
            )
                .prop_map(|(p, d, c, g)| subarray(p, d, c, g)),
            (
                t(),
                prop::collection::vec((1i64..9, 1i64..4, 0u8..3, 0i64..3), 1..4),
                0usize..27,
                big(),
                big()
            )
                .prop_map(|(p, d, r, c, g)| darray(p, d, r, c, g)),
        ]
    })
}

/// Memory around a base address.
struct Arena {
    buf: AlignedBuf,
    lo: i64,
}

impl Arena {
    fn new(entries: &[Entry]) -> Arena {
        let lo = entries.iter().map(|e| e.0).min().unwrap_or(0).min(0);
        let hi = entries.iter().map(|e| e.0 + e.1).max().unwrap_or(0).max(0);
        let mut buf = AlignedBuf::new((hi - lo) as usize + 1).unwrap();
        let bytes: Vec<u8> = (0..buf.len())
            .map(|i| (i * 167 + i / 251 + 1) as u8)
            .collect();
        buf.buf().write(&bytes);
        Arena { buf, lo }
    }

    fn base(&mut self) -> UserBuf {
        self.buf.buf().offset(-self.lo)
    }

    fn read(&mut self, disp: i64, n: usize) -> Vec<u8> {
        let mut out = vec![0; n];
        self.base().offset(disp).read(&mut out);
        out
    }
}

/// The "external32" form of one entry, or `None` where it is another size or format there.
fn swapped(entry: &Entry, bytes: &[u8]) -> Option<Vec<u8>> {
    let b = entry.2;
    if [LONG, UNSIGNED_LONG, WCHAR, LONG_INT].contains(&b.handle)
        || matches!(b.elem, Elem::F80 | Elem::C80 | Elem::F80Int)
    {
        return None;
    }
    let half = matches!(b.elem, Elem::C16 | Elem::C32 | Elem::C64 | Elem::C128);
    let width = if half { bytes.len() / 2 } else { bytes.len() };
    Some(
        bytes
            .chunks(width)
            .flat_map(|c| c.iter().rev().copied())
            .collect(),
    )
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 1500,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn types_equal_their_type_maps(
        p in pair(), count in 0i64..4, cuts in prop::collection::vec(1usize..60, 1..9),
        seek in 0.0f64..1.0,
    ) {
        let (t, naive) = (&p.real, &p.naive);
        let size: i64 = naive.map.iter().map(|e| e.1).sum();
        prop_assert_eq!(t.size() as i64, size);
        prop_assert_eq!((t.lb(), t.ub()), (naive.lb, naive.ub));
        prop_assert_eq!(t.extent(), naive.extent());
        let true_lb = naive.map.iter().map(|e| e.0).min().unwrap_or(0);
        let true_ub = naive.map.iter().map(|e| e.0 + e.1).max().unwrap_or(0);
        prop_assert_eq!((t.true_lb(), t.true_ub()), (true_lb, true_ub));
        prop_assert_eq!(t.elements() as usize, naive.map.len());

        // Counting.
        let ends: Vec<u64> = (0..count).flat_map(|_| naive.map.iter())
            .scan(0, |end, e| { *end += e.1 as u64; Some(*end) }).collect();
        for bytes in 0..=(size * count) as u64 {
            let want = match ends.binary_search(&bytes) {
                Ok(i) => Some(i as u64 + 1),
                Err(_) => (bytes == 0).then_some(0),
            };
            prop_assert_eq!(t.elements_in(bytes), want);
            if let Some(n) = want {
                prop_assert_eq!(t.bytes_of_elements(n), bytes);
            }
        }

        // Packing.
        let entries: Vec<Entry> = (0..count)
            .flat_map(|i| naive.map.iter().map(move |e| (e.0 + i * naive.extent(), e.1, e.2)))
            .collect();
        let mut arena = Arena::new(&entries);
        let want: Vec<u8> =
            entries.iter().flat_map(|e| arena.read(e.0, e.1 as usize)).collect();
        let program = t.commit().unwrap();
        prop_assert_eq!(t.dense_size(), program.is_contiguous().then(|| program.size()));
        let mut cursor = Cursor::new(program, count as u64);
        let mut packed = Vec::new();
        for cut in cuts.iter().cycle() {
            let mut piece = vec![0; *cut];
            let n = cursor.pack(arena.base(), &mut piece);
            packed.extend_from_slice(&piece[..n]);
            if n < *cut { break }
        }
        prop_assert_eq!(&packed, &want);
        let from = (seek * want.len() as f64) as usize;
        cursor.seek(from as u64);
        let n = cursor.pack(arena.base(), &mut packed);
        prop_assert_eq!(&packed[..n], &want[from..]);
        let copy = Program::deserialise(&program.serialise()).unwrap();
        prop_assert_eq!((copy.hash(), &copy), (program.hash(), &**program));

        // external32, where every element has the same size there.
        let there: Option<Vec<u8>> = entries.iter()
            .map(|e| swapped(e, &arena.read(e.0, e.1 as usize)))
            .try_fold(Vec::new(), |mut all, x| { all.extend(x?); Some(all) });
        if let Some(there) = there {
            prop_assert_eq!(external::size(t, count as u64), Some(there.len() as u64));
            let mut out = AlignedBuf::new(there.len() + 1).unwrap();
            let n = external::pack(t, count as u64, arena.base(), out.buf()).unwrap();
            let mut got = vec![0; n as usize];
            out.buf().read(&mut got);
            prop_assert_eq!(&got, &there);
            let mut back = Arena::new(&entries);
            back.buf.buf().write(&vec![0; back.buf.len()]);
            external::unpack(t, count as u64, out.buf(), back.base()).unwrap();
            for e in &entries {
                prop_assert_eq!(back.read(e.0, e.1 as usize), arena.read(e.0, e.1 as usize));
            }
        }
    }
}
