//! Random layouts against a naive list of every byte's displacement.

use std::rc::Rc;

use boundary::AlignedBuf;
use layout::{Bounds, Cursor, Data, Error, Insn, Kind, MAX_INSNS, Op, Program, Tree, transfer};
use proptest::prelude::*;

/// A layout twice: as a tree and as the displacement and kind of each byte in order.
#[derive(Clone, Debug)]
struct Pair {
    tree: Tree,
    bytes: Vec<(i64, Kind)>,
}

const LIMIT: usize = 4000;

fn leaf() -> impl Strategy<Value = Pair> {
    (
        -40i64..40,
        prop_oneof![0u64..20, Just(4), Just(8), Just(16)],
        0u8..2,
    )
        .prop_map(|(disp, len, kind)| {
            let kind = if kind == 0 { Kind::OPAQUE } else { Kind::HOST };
            let bytes = (disp..disp + len as i64).map(|d| (d, kind)).collect();
            Pair {
                tree: Tree::block(disp, len, kind).unwrap(),
                bytes,
            }
        })
}

fn at(bytes: &[(i64, Kind)], by: i64) -> impl Iterator<Item = (i64, Kind)> + '_ {
    bytes.iter().map(move |&(d, k)| (d + by, k))
}

fn pair() -> impl Strategy<Value = Pair> {
    leaf().prop_recursive(5, 40, 5, |inner| {
        prop_oneof![
            (
                inner.clone(),
                prop_oneof![4 => 0u64..7, 1 => 30u64..40],
                prop_oneof![-60i64..60, Just(8), Just(4)]
            )
                .prop_map(|(p, count, step)| {
                    let count = if p.bytes.len() * count as usize > LIMIT {
                        1
                    } else {
                        count
                    };
                    let bytes =
                        (0..count as i64).flat_map(|i| at(&p.bytes, i * step).collect::<Vec<_>>());
                    Pair {
                        tree: p.tree.repeat(count, step).unwrap(),
                        bytes: bytes.collect(),
                    }
                }),
            (inner.clone(), prop::collection::vec(-100i64..100, 0..6)).prop_map(|(p, disps)| {
                let disps = if p.bytes.len() * disps.len() > LIMIT {
                    vec![7]
                } else {
                    disps
                };
                let bytes = disps
                    .iter()
                    .flat_map(|&d| at(&p.bytes, d).collect::<Vec<_>>());
                Pair {
                    bytes: bytes.collect(),
                    tree: p.tree.scatter(&disps).unwrap(),
                }
            }),
            prop::collection::vec((inner, -50i64..50), 0..6).prop_map(|parts| {
                let trees: Vec<Tree> = parts
                    .iter()
                    .map(|(p, d)| p.tree.shifted(*d).unwrap())
                    .collect();
                let bytes = parts
                    .iter()
                    .flat_map(|(p, d)| at(&p.bytes, *d).collect::<Vec<_>>());
                Pair {
                    bytes: bytes.collect(),
                    tree: Tree::seq(&trees).unwrap(),
                }
            }),
            prop::collection::vec((-100i64..100, 0u64..12), 0..9).prop_map(|spans| {
                let bytes = spans.iter().flat_map(|&(d, n)| d..d + n as i64);
                Pair {
                    bytes: bytes.map(|d| (d, Kind::OPAQUE)).collect(),
                    tree: Tree::blocks(spans, Kind::OPAQUE).unwrap(),
                }
            }),
        ]
    })
}

/// Displacements of all bytes of `count` repetitions.
fn all(p: &Pair, count: u64, extent: i64) -> Vec<(i64, Kind)> {
    (0..count as i64)
        .flat_map(|i| at(&p.bytes, i * extent).collect::<Vec<_>>())
        .collect()
}

/// A buffer of pseudo-random bytes reaching `lo..hi` around its base.
struct Arena {
    buf: AlignedBuf,
    lo: i64,
    copy: Vec<u8>,
}

impl Arena {
    fn new(lo: i64, hi: i64) -> Arena {
        let mut buf = AlignedBuf::new((hi - lo) as usize + 1).unwrap();
        let copy: Vec<u8> = (0..buf.len())
            .map(|i| (i * 167 + i / 251 + 1) as u8)
            .collect();
        buf.buf().write(&copy);
        Arena { buf, lo, copy }
    }

    fn base(&mut self) -> boundary::UserBuf {
        self.buf.buf().offset(-self.lo)
    }

    fn contents(&mut self) -> Vec<u8> {
        let mut out = vec![0; self.copy.len()];
        self.buf.buf().read(&mut out);
        out
    }
}

fn range(bytes: &[(i64, Kind)]) -> (i64, i64) {
    let lo = bytes.iter().map(|b| b.0).min().unwrap_or(0);
    (lo, bytes.iter().map(|b| b.0 + 1).max().unwrap_or(0))
}

/// Everything that the executor does with `count` repetitions, against the naive list.
fn walk(
    p: &Pair,
    (count, extent): (u64, i64),
    cuts: &[usize],
    seek: f64,
) -> Result<(), TestCaseError> {
    let program = Rc::new(p.tree.compile(Bounds { lb: 0, extent }).unwrap());
    prop_assert_eq!(program.size(), p.bytes.len() as u64);
    prop_assert_eq!((program.true_lb(), program.true_ub()), range(&p.bytes));

    prop_assert_eq!((p.tree.lo(), p.tree.hi()), range(&p.bytes));
    let bytes = all(p, count, extent);
    let (lo, hi) = range(&bytes);
    let mut arena = Arena::new(lo.min(0), hi.max(0));
    let want: Vec<u8> = bytes
        .iter()
        .map(|b| arena.copy[(b.0 - arena.lo) as usize])
        .collect();

    // In one piece, then in pieces.
    let mut whole = vec![0; want.len()];
    let data = Data::typed(arena.base(), &program, count);
    prop_assert_eq!(data.len(), want.len() as u64);
    prop_assert_eq!(data.reader().read(&mut whole), want.len());
    prop_assert_eq!(&whole, &want);
    let mut cursor = Cursor::new(&program, count);
    let mut pieces = Vec::new();
    for cut in cuts.iter().cycle() {
        let mut piece = vec![0; *cut];
        let n = cursor.pack(arena.base(), &mut piece);
        pieces.extend_from_slice(&piece[..n]);
        prop_assert_eq!(cursor.remaining(), (want.len() - pieces.len()) as u64);
        if n < *cut {
            break;
        }
    }
    prop_assert_eq!(&pieces, &want);

    // To and from another buffer.
    let mut other = AlignedBuf::new(want.len() + 1).unwrap();
    let there = Data::bytes(other.buf(), want.len() as u64);
    prop_assert_eq!(transfer(&data, &there), want.len() as u64);
    there.reader().read(&mut whole);
    prop_assert_eq!(&whole, &want);
    let mut back = Arena::new(lo.min(0), hi.max(0));
    let mut expect = vec![0; back.copy.len()];
    back.buf.buf().write(&expect);
    for (b, byte) in bytes.iter().zip(&want) {
        expect[(b.0 - back.lo) as usize] = *byte;
    }
    transfer(&there, &Data::typed(back.base(), &program, count));
    prop_assert_eq!(back.contents(), expect);

    // Runs, with kinds.
    let mut cursor = Cursor::new(&program, count);
    let mut runs = Vec::new();
    let mut cut = cuts.iter().cycle();
    while let Some(run) = cursor.next_run(*cut.next().unwrap()) {
        runs.extend((run.disp..run.disp + run.len as i64).map(|d| (d, run.kind)));
    }
    prop_assert_eq!(&runs, &bytes);

    // Seek, then to the end; and mixed runs and packs.
    let from = (seek * want.len() as f64) as usize;
    let mut cursor = Cursor::new(&program, count);
    cursor.seek(from as u64);
    let mut rest = vec![0; want.len()];
    let mut n = 0;
    if let Some(run) = cursor.next_run(cuts[0]) {
        arena.base().offset(run.disp).read(&mut rest[..run.len]);
        n = run.len;
    }
    n += cursor.pack(arena.base(), &mut rest[n..]);
    prop_assert_eq!(&rest[..n], &want[from..]);

    // Unpack in pieces equals a naive scatter.
    let packed: Vec<u8> = (0..want.len()).map(|i| (i * 31 + 7) as u8).collect();
    let mut expect = arena.copy.clone();
    for (b, byte) in bytes.iter().zip(&packed) {
        expect[(b.0 - arena.lo) as usize] = *byte;
    }
    let mut writer = Data::typed(arena.base(), &program, count).writer();
    let mut done = 0;
    for cut in cuts.iter().cycle() {
        let end = (done + cut).min(packed.len());
        done += writer.write(&packed[done..end]);
        if done == packed.len() {
            break;
        }
    }
    prop_assert_eq!(arena.contents(), expect);

    // Through another process and back.
    let copy = Program::deserialise(&program.serialise()).unwrap();
    prop_assert_eq!(&copy, &*program);
    prop_assert_eq!(copy.hash(), program.hash());
    Ok(())
}

/// A matrix of which columns are packed, and how often it is repeated, each time how much further: as a loop, or column by column.
fn matrix() -> impl Strategy<Value = (Pair, u64, i64)> {
    let stride = prop_oneof![
        900i64..3000,
        -3000i64..-900,
        4i64..64,
        Just(2048),
        Just(8192)
    ];
    let element = prop_oneof![Just(2u64), Just(4), Just(8), Just(16), Just(12)];
    (element, 1u64..70, 1u64..40, stride, any::<bool>()).prop_map(
        |(element, rows, columns, stride, repeats)| {
            let leaf = Tree::block(3, element, Kind::OPAQUE).unwrap();
            let column = leaf.repeat(rows, stride).unwrap();
            let count = if repeats { 1 } else { columns };
            let bytes = (0..count as i64).flat_map(|c| {
                (0..rows as i64).flat_map(move |r| {
                    (0..element as i64)
                        .map(move |i| (3 + c * element as i64 + r * stride + i, Kind::OPAQUE))
                })
            });
            let pair = Pair {
                bytes: bytes.collect(),
                tree: column.repeat(count, element as i64).unwrap(),
            };
            match repeats {
                true => (pair, columns, element as i64),
                false => (pair, 2, element as i64 * columns as i64 - 3),
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 300,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn matrices_equal_a_naive_walk(
        (p, count, extent) in matrix(),
        cuts in prop::collection::vec(prop_oneof![1usize..5000, Just(2048)], 1..6),
        seek in 0.0f64..1.0,
    ) {
        walk(&p, (count, extent), &cuts, seek)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 1500,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn executor_equals_naive_walk(
        p in pair(), count in 0u64..5, extent in -300i64..300,
        cuts in prop::collection::vec(1usize..40, 1..12), seek in 0.0f64..1.0,
    ) {
        walk(&p, (count, extent), &cuts, seek)?;
    }

    #[test]
    fn transfer_moves_packed_bytes(a in pair(), b in pair(), count in 0u64..4) {
        let bounds = Bounds { lb: 0, extent: 2000 };
        let (pa, pb) = (a.tree.compile(bounds).unwrap(), b.tree.compile(bounds).unwrap());
        let (la, lb) = (all(&a, count, 2000), all(&b, count, 2000));
        let (ra, rb) = (range(&la), range(&lb));
        let mut from = Arena::new(ra.0.min(0), ra.1.max(0));
        let mut to = Arena::new(rb.0.min(0), rb.1.max(0));
        let n = transfer(
            &Data::typed(from.base(), &Rc::new(pa), count),
            &Data::typed(to.base(), &Rc::new(pb), count),
        );
        prop_assert_eq!(n as usize, la.len().min(lb.len()));
        let mut expect = to.copy.clone();
        for (x, y) in la.iter().zip(&lb) {
            expect[(y.0 - to.lo) as usize] = from.copy[(x.0 - from.lo) as usize];
        }
        prop_assert_eq!(to.contents(), expect);
    }

    /// Hostile bytes never panic, and what is admitted stays within its stated bounds.
    #[test]
    fn mutated_programs_are_refused_or_safe(
        p in pair(), hits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let program = p.tree.compile(Bounds { lb: 0, extent: 64 }).unwrap();
        let mut bytes = program.serialise();
        for (at, value) in hits {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        if let Ok(program) = Program::deserialise(&bytes) {
            let program = Rc::new(program);
            let mut cursor = Cursor::new(&program, 1);
            for _ in 0..10_000 {
                let Some(run) = cursor.next_run(usize::MAX) else { break };
                prop_assert!(run.disp >= program.true_lb());
                prop_assert!(run.disp + run.len as i64 <= program.true_ub());
            }
        }
    }
}

fn program(insns: &[Insn], table: &[i64]) -> Result<Program, Error> {
    Program::new(insns.to_vec(), table.to_vec(), Bounds { lb: 0, extent: 0 })
}

fn insn(op: Op, c: u16, a: u32, b: i64) -> Insn {
    Insn {
        op,
        kind: Kind::OPAQUE,
        c,
        a,
        b,
    }
}

#[test]
fn malformed_programs_are_refused() {
    let end = Insn::END;
    let blk = insn(Op::Blk, 0, 8, 0);
    assert!(program(&[blk, end], &[]).is_ok());
    let bad: &[(&[Insn], &[i64])] = &[
        (&[], &[]),
        (&[blk], &[]),
        (&[end, end], &[]),
        (&[blk, end], &[1]),
        (&[insn(Op::Loop, 0, 2, 8), end, end], &[]),
        (&[insn(Op::Loop, 0, 2, 8), blk, end], &[]),
        (&[insn(Op::Blk, 0, 0, 0), end], &[]),
        (&[insn(Op::Vec, 0, 3, 8), end], &[]),
        (&[insn(Op::Ixb, 4, 3, 0), end], &[1, 2]),
        (&[insn(Op::Ixb, 4, 2, 1), end], &[1, 2, 3]),
        (&[insn(Op::Ixv, 0, 1, 0), end], &[0, -1]),
        (&[insn(Op::Ixv, 0, 1, 0), end], &[i64::MAX, 8]),
        (&[insn(Op::Blk, 0, 8, i64::MAX), end], &[]),
        (&[insn(Op::Vec, 8, 4, i64::MAX / 2), end], &[]),
        (
            &[
                Insn {
                    kind: Kind(5),
                    ..blk
                },
                end,
            ],
            &[],
        ),
        (
            &[
                Insn {
                    kind: Kind::SWAP16,
                    ..blk
                },
                end,
            ],
            &[],
        ),
        (&[Insn { c: 1, ..blk }, end], &[]),
    ];
    for (insns, table) in bad {
        assert!(program(insns, table).is_err(), "{insns:?} {table:?}");
    }
    let deep: Vec<Insn> = (0..100)
        .map(|_| insn(Op::Loop, 0, 1, 0))
        .chain([blk])
        .collect();
    let deep: Vec<Insn> = deep.into_iter().chain((0..101).map(|_| end)).collect();
    assert_eq!(program(&deep, &[]).unwrap_err(), Error::TooLarge);
    let wide: Vec<Insn> = (0..64)
        .map(|_| insn(Op::Loop, 0, u32::MAX, 0))
        .chain([blk])
        .collect();
    let wide: Vec<Insn> = wide.into_iter().chain((0..65).map(|_| end)).collect();
    assert_eq!(program(&wide, &[]).unwrap_err(), Error::Overflow);
}

#[test]
fn regular_layouts_are_short_programs() {
    let double = Tree::block(0, 8, Kind::OPAQUE).unwrap();
    let bounds = Bounds { lb: 0, extent: 0 };
    // 100 x 100 floats transposed.
    let float = Tree::block(0, 4, Kind::OPAQUE).unwrap();
    let column = float.repeat(100, 400).unwrap();
    let matrix = column.repeat(100, 4).unwrap().compile(bounds).unwrap();
    assert_eq!(matrix.insns().len(), 4);
    // A vector of vectors that continue each other is one vector.
    let v = double
        .repeat(10, 16)
        .unwrap()
        .repeat(7, 160)
        .unwrap()
        .compile(bounds)
        .unwrap();
    assert_eq!(v.insns()[0], insn(Op::Vec, 8, 70, 16));
    // Dense at every level.
    let d = double
        .repeat(10, 8)
        .unwrap()
        .repeat(7, 80)
        .unwrap()
        .compile(bounds)
        .unwrap();
    assert_eq!(d.insns()[0], insn(Op::Blk, 0, 560, 0));
    // Evenly spaced entries of a table are a vector.
    let even = double
        .scatter(&[16, 48, 80])
        .unwrap()
        .compile(bounds)
        .unwrap();
    assert_eq!(even.insns()[1], insn(Op::Vec, 8, 3, 32));
}

/// A type may list millions of parts that nothing makes regular. What another process sends is bounded more narrowly.
#[test]
fn own_programs_may_be_longer_than_those_of_others() {
    let parts = (0..MAX_INSNS as i64).map(|i| insn(Op::Blk, 0, 4 + (i % 2) as u32, 16 * i));
    let insns: Vec<Insn> = parts.chain([Insn::END]).collect();
    let long = program(&insns, &[]).unwrap();
    assert_eq!(long.size(), 9 * MAX_INSNS as u64 / 2);
    let sent = long.serialise();
    assert_eq!(Program::deserialise(&sent).unwrap_err(), Error::TooLarge);
}

#[test]
fn huge_counts_cost_nothing() {
    let byte = Tree::block(0, 1, Kind::OPAQUE).unwrap();
    let n = (1u64 << 33) + 5;
    let p = byte
        .repeat(n, 2)
        .unwrap()
        .compile(Bounds { lb: 0, extent: 0 })
        .unwrap();
    assert_eq!((p.size(), p.true_ub()), (n, 2 * (n as i64 - 1) + 1));
    let mut cursor = Cursor::new(&Rc::new(p), 1);
    for at in [0, 1 << 31, (1 << 33) - 1, 1 << 33, (1 << 33) + 4] {
        cursor.seek(at);
        assert_eq!(cursor.next_run(9).unwrap().disp, 2 * at as i64);
    }
    assert!(cursor.next_run(9).is_none());
    let long = Tree::block(3, 1 << 40, Kind::OPAQUE).unwrap();
    let p = long.compile(Bounds { lb: 0, extent: 0 }).unwrap();
    assert_eq!(
        (p.size(), p.true_lb(), p.true_ub()),
        (1 << 40, 3, 3 + (1 << 40))
    );
    assert!(matches!(byte.repeat(1 << 62, 3), Err(Error::Overflow)));
    let dense = byte.repeat(1 << 62, 1).unwrap();
    assert!(matches!(dense.repeat(2, 1), Err(Error::Overflow)));
}
