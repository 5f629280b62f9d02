//! Every algorithm that computes, against the definition of its collective: the operands combined
//! in rank order. Operations that do not commute where the algorithm allows them.

mod sim;

use cad::{Team, allreduce, reduce, reduce_scatter, scan};
use sim::{Mem, Op, Rank, Rng, Ty, check_order, combine, compose, execute, sum};

const SIZES: [u32; 11] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17];
const COUNTS: [u64; 5] = [0, 1, 2, 7, 100];

fn each_case(f: impl Fn(&mut Rng, u32, u64, bool, bool)) {
    for size in SIZES {
        for count in COUNTS {
            for case in 0..4 {
                let rng = &mut Rng::new(u64::from(size) * 1000 + count * 4 + case);
                f(rng, size, count, case % 2 == 1, case / 2 == 1);
            }
        }
    }
}

fn op(commutative: bool) -> Op {
    if commutative { sum } else { compose }
}

fn any_ty(rng: &mut Rng) -> Ty {
    match rng.below(4) {
        0 => Ty::flat(16),
        1 => Ty::gappy(16),
        2 => Ty::downward(16),
        // So far apart that operands arrive one after the other.
        _ => Ty {
            extent: 100,
            ..Ty::gappy(16)
        },
    }
}

/// Packed vectors of all ranks; multipliers odd, so that no product vanishes.
fn vectors(rng: &mut Rng, size: u32, count: u64) -> Vec<Vec<u8>> {
    (0..size)
        .map(|_| {
            let words = (0..count * 2).map(|i| rng.next() | u64::from(i % 2 == 0));
            words.flat_map(u64::to_le_bytes).collect()
        })
        .collect()
}

/// `data[0] op data[1] op ...`; `None` of none.
fn total(data: &[Vec<u8>], op: Op) -> Option<Vec<u8>> {
    data.iter().cloned().reduce(|a, b| combine(op, &a, &b))
}

fn empty() -> Mem {
    Mem {
        bytes: vec![],
        origin: 0,
    }
}

/// Buffers of a rank whose data are `data`; the receive buffer has room for `room` elements.
fn buffers(rng: &mut Rng, ty: &Ty, data: &[u8], room: u64, in_place: bool) -> (Mem, Mem) {
    let count = data.len() as u64 / 16;
    let mut recv = Mem::elements(rng, ty, 0, if in_place { room.max(count) } else { room });
    if in_place {
        recv.unpack(ty, 0, count, data);
        return (empty(), recv);
    }
    let mut send = Mem::elements(rng, ty, 0, count);
    send.unpack(ty, 0, count, data);
    (send, recv)
}

fn run(rng: &mut Rng, mut ranks: Vec<Rank>, expected: Vec<Mem>, op: Op, what: &str) {
    for r in &ranks {
        if r.graph.nodes().len() < 300 {
            check_order(r);
        }
    }
    let sent: Vec<Mem> = ranks.iter().map(|r| r.send.clone()).collect();
    execute(rng, &mut ranks, op);
    for (i, r) in ranks.iter().enumerate() {
        assert!(r.recv == expected[i], "{what}: rank {i} has a wrong result");
        assert!(r.send == sent[i], "{what}: rank {i}'s send buffer changed");
    }
}

#[test]
fn reduce_combines_in_rank_order() {
    use reduce::Algorithm::*;
    each_case(|rng, size, count, in_place, commutative| {
        for root in 0..size {
            let parts = [1, 3, 100].map(|segment| Parts { segment });
            let others = [Binomial, Rabenseifner, Straight];
            for algorithm in others.into_iter().chain(parts) {
                let data = vectors(rng, size, count);
                let ty = any_ty(rng);
                let (mut ranks, mut expected) = (vec![], vec![]);
                for rank in 0..size {
                    let in_place = in_place && rank == root;
                    let p = reduce::Params {
                        team: Team::new(rank, size),
                        root,
                        count,
                        ty: ty.shape(),
                        commutative,
                        in_place,
                    };
                    let (send, mut recv) = buffers(rng, &ty, &data[rank as usize], count, in_place);
                    if rank != root {
                        recv = empty();
                    }
                    let mut e = recv.clone();
                    if rank == root {
                        e.unpack(&ty, 0, count, &total(&data, op(commutative)).unwrap());
                    }
                    expected.push(e);
                    let graph = reduce::build(&p, algorithm);
                    ranks.push(Rank::new(rng, graph, send, recv, ty.clone(), ty.clone()));
                }
                let what = format!("{algorithm:?} {size} {count} {root} {in_place} {commutative}");
                run(rng, ranks, expected, op(commutative), &what);
            }
        }
    });
}

#[test]
fn allreduce_combines_in_rank_order() {
    use allreduce::Algorithm::*;
    each_case(|rng, size, count, in_place, commutative| {
        let pairs = [1, 3, 100].map(|segment| Pair { segment });
        let halves = [1, 3, 100].map(|segment| Halves { segment });
        let parts = [1, 3, 100].map(|segment| Parts { segment });
        for algorithm in [RecursiveDoubling, Rabenseifner, Ring, Straight]
            .into_iter()
            .chain(pairs)
            .chain(halves)
            .chain(parts)
        {
            let for_two = matches!(algorithm, Pair { .. } | Halves { .. });
            let in_any_order = matches!(algorithm, Ring | Halves { .. });
            if (in_any_order && !commutative) || (for_two && size != 2) {
                continue;
            }
            let data = vectors(rng, size, count);
            let ty = any_ty(rng);
            let (mut ranks, mut expected) = (vec![], vec![]);
            for rank in 0..size {
                let p = allreduce::Params {
                    team: Team::new(rank, size),
                    count,
                    ty: ty.shape(),
                    commutative,
                    in_place,
                    together: true,
                };
                let (send, recv) = buffers(rng, &ty, &data[rank as usize], count, in_place);
                let mut e = recv.clone();
                e.unpack(&ty, 0, count, &total(&data, op(commutative)).unwrap());
                expected.push(e);
                let graph = allreduce::build(&p, algorithm);
                ranks.push(Rank::new(rng, graph, send, recv, ty.clone(), ty.clone()));
            }
            let what = format!("{algorithm:?} {size} {count} {in_place} {commutative}");
            run(rng, ranks, expected, op(commutative), &what);
        }
    });
}

fn reduce_scatter_case(
    rng: &mut Rng,
    counts: reduce_scatter::Counts,
    lengths: &[u64],
    in_place: bool,
    commutative: bool,
) {
    use reduce_scatter::Algorithm::*;
    let size = lengths.len() as u32;
    let parts = [1, 3, 100].map(|segment| Parts { segment });
    for algorithm in [Halving, Pairwise, Ordered].into_iter().chain(parts) {
        if matches!(algorithm, Halving | Pairwise) && !commutative {
            continue;
        }
        let data = vectors(rng, size, lengths.iter().sum());
        let all = total(&data, op(commutative)).unwrap();
        let ty = any_ty(rng);
        let (mut ranks, mut expected, mut at) = (vec![], vec![], 0);
        for rank in 0..size {
            let p = reduce_scatter::Params {
                team: Team::new(rank, size),
                counts,
                ty: ty.shape(),
                commutative,
                in_place,
            };
            let n = lengths[rank as usize];
            let (send, recv) = buffers(rng, &ty, &data[rank as usize], n, in_place);
            let mut e = recv.clone();
            e.unpack(&ty, 0, n, &all[at..at + n as usize * 16]);
            at += n as usize * 16;
            expected.push(e);
            let graph = reduce_scatter::build(&p, algorithm);
            ranks.push(Rank::new(rng, graph, send, recv, ty.clone(), ty.clone()));
        }
        let what = format!("{algorithm:?} {lengths:?} {in_place} {commutative}");
        run(rng, ranks, expected, op(commutative), &what);
    }
}

#[test]
fn reduce_scatter_gives_each_its_block() {
    each_case(|rng, size, count, in_place, commutative| {
        let equal = vec![count; size as usize];
        let counts = reduce_scatter::Counts::Equal(count);
        reduce_scatter_case(rng, counts, &equal, in_place, commutative);
        let random: Vec<u64> = (0..size)
            .map(|_| if rng.coin() { 0 } else { rng.below(9) as u64 })
            .collect();
        let counts = reduce_scatter::Counts::Each(&random);
        reduce_scatter_case(rng, counts, &random, in_place, commutative);
    });
}

#[test]
fn scans_combine_lower_ranks_in_order() {
    each_case(|rng, size, count, in_place, inclusive| {
        // Long vectors go no other way for that.
        let straight = rng.coin();
        let data = vectors(rng, size, count);
        let ty = any_ty(rng);
        let (mut ranks, mut expected) = (vec![], vec![]);
        for rank in 0..size {
            let p = scan::Params {
                team: Team {
                    straight,
                    ..Team::new(rank, size)
                },
                count,
                ty: ty.shape(),
                in_place,
            };
            let (send, recv) = buffers(rng, &ty, &data[rank as usize], count, in_place);
            let mut e = recv.clone();
            if let Some(t) = total(&data[..rank as usize + usize::from(inclusive)], compose) {
                e.unpack(&ty, 0, count, &t);
            }
            expected.push(e);
            let graph = if inclusive {
                scan::graph(&p)
            } else {
                scan::graph_exclusive(&p)
            };
            ranks.push(Rank::new(rng, graph, send, recv, ty.clone(), ty.clone()));
        }
        run(
            rng,
            ranks,
            expected,
            compose,
            &format!("{inclusive} {size} {count} {in_place} {straight}"),
        );
    });
}
