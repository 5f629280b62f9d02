//! Every algorithm that moves data, against the definition of its collective.

mod sim;

use cad::bcast::Spread;
use cad::{Part, Team, allgather, alltoall, barrier, bcast, gather, scatter};
use sim::{Mem, Rank, Rng, Ty, check_order, execute, sum};

const SIZES: [u32; 11] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17];
const COUNTS: [u64; 5] = [0, 1, 2, 7, 100];

fn each_size(f: impl Fn(&mut Rng, u32, u64)) {
    for size in SIZES {
        for count in COUNTS {
            f(&mut Rng::new(u64::from(size) * 1000 + count), size, count);
        }
    }
}

fn any_ty(rng: &mut Rng, bytes: usize) -> Ty {
    match rng.below(3) {
        0 => Ty::flat(bytes),
        1 => Ty::gappy(bytes),
        _ => Ty::downward(bytes),
    }
}

/// 12 bytes per unit: `count` elements of 12, or twice as many of 6.
fn any_signature(rng: &mut Rng, count: u64) -> (Ty, u64) {
    if rng.coin() {
        (any_ty(rng, 12), count)
    } else {
        (any_ty(rng, 6), count * 2)
    }
}

fn run(rng: &mut Rng, mut ranks: Vec<Rank>, expected: Vec<Mem>, what: &str) {
    for r in &ranks {
        if r.graph.nodes().len() < 300 {
            check_order(r);
        }
    }
    execute(rng, &mut ranks, sum);
    for (i, (r, e)) in ranks.iter().zip(&expected).enumerate() {
        assert!(r.recv == *e, "{what}: rank {i} has wrong data");
    }
}

#[test]
fn barriers_wait_for_everyone() {
    for (size, straight) in SIZES.into_iter().flat_map(|s| [(s, false), (s, true)]) {
        let rng = &mut Rng::new(7);
        let mut ranks: Vec<Rank> = (0..size)
            .map(|rank| {
                let none = Mem {
                    bytes: vec![],
                    origin: 0,
                };
                let graph = barrier::graph(&Team {
                    straight,
                    ..Team::new(rank, size)
                });
                Rank::new(rng, graph, none.clone(), none, Ty::flat(1), Ty::flat(1))
            })
            .collect();
        ranks.iter().for_each(check_order);
        execute(rng, &mut ranks, sum);
        // Everyone reaches everyone: knowledge spread along messages covers all ranks.
        let mut knows: Vec<u64> = (0..size).map(|r| 1 << r).collect();
        for round in 0..32 {
            let mut next = knows.clone();
            for r in &ranks {
                for n in r.graph.nodes().iter().filter(|n| n.tag == round) {
                    if n.kind == cad::Kind::Recv {
                        next[r.graph.team().rank as usize] |= knows[n.peer as usize];
                    }
                }
            }
            knows = next;
        }
        assert!(knows.iter().all(|&k| k.count_ones() == size));
    }
}

#[test]
fn bcast_gives_all_the_roots_data() {
    use bcast::Algorithm::*;
    let algorithms = [
        Binomial,
        Flat,
        Straight,
        Shared { segment: 100 },
        ScatterRing,
        Chain { segment: 100 },
        SegmentedBinomial { segment: 64 },
    ];
    each_size(|rng, size, count| {
        for root in 0..size {
            for algorithm in algorithms {
                let kinds: Vec<_> = (0..size).map(|_| any_signature(rng, count)).collect();
                let before: Vec<Mem> = kinds
                    .iter()
                    .map(|(ty, n)| Mem::elements(rng, ty, 0, *n))
                    .collect();
                let (ty, n) = &kinds[root as usize];
                let data = before[root as usize].pack(ty, 0, *n);
                let (mut ranks, mut expected) = (vec![], vec![]);
                for (rank, (mem, (ty, n))) in (0..size).zip(before.iter().zip(&kinds)) {
                    let team = Team::new(rank, size);
                    let p = bcast::Params {
                        team,
                        root,
                        count: *n,
                        ty: ty.shape(),
                        spread: Spread::Mixed,
                    };
                    let graph = bcast::build(&p, algorithm);
                    let none = Mem {
                        bytes: vec![],
                        origin: 0,
                    };
                    ranks.push(Rank::new(
                        rng,
                        graph,
                        none,
                        mem.clone(),
                        ty.clone(),
                        ty.clone(),
                    ));
                    let mut e = mem.clone();
                    e.unpack(ty, 0, *n, &data);
                    expected.push(e);
                }
                run(
                    rng,
                    ranks,
                    expected,
                    &format!("{algorithm:?} {size} {count} {root}"),
                );
            }
        }
    });
}

#[test]
fn gather_and_scatter_move_blocks() {
    use gather::Algorithm::*;
    each_size(|rng, size, count| {
        for case in 0..size * 4 {
            let (root, in_place) = (case / 4, case % 2 == 1);
            let algorithm = if case / 2 % 2 == 0 { Binomial } else { Linear };
            let what = format!("{algorithm:?} {size} {count} {root} {in_place}");
            let (ranks, expected) = gather_case(rng, size, count, root, in_place, algorithm);
            run(rng, ranks, expected, &format!("gather {what}"));
            let (ranks, expected) = scatter_case(rng, size, count, root, in_place, algorithm);
            run(rng, ranks, expected, &format!("scatter {what}"));
        }
    });
}

type Case = (Vec<Rank>, Vec<Mem>);

fn gather_case(
    rng: &mut Rng,
    size: u32,
    count: u64,
    root: u32,
    in_place: bool,
    algorithm: gather::Algorithm,
) -> Case {
    let (rty, rn) = any_signature(rng, count);
    let big = Mem::elements(rng, &rty, 0, rn * u64::from(size));
    let mut result = big.clone();
    let (mut ranks, mut expected) = (vec![], vec![]);
    for rank in 0..size {
        let (sty, sn) = any_signature(rng, count);
        let send = Mem::elements(rng, &sty, 0, sn);
        let at_root = rank == root;
        if !(at_root && in_place) {
            let offset = rty.extent * i64::from(rank) * rn as i64;
            result.unpack(&rty, offset, rn, &send.pack(&sty, 0, sn));
        }
        let p = gather::Params {
            team: Team::new(rank, size),
            root,
            send: Part {
                count: sn,
                ty: sty.shape(),
            },
            recv: Part {
                count: if at_root { rn } else { 5 },
                ty: rty.shape(),
            },
            in_place: at_root && in_place,
        };
        let recv = if at_root {
            big.clone()
        } else {
            Mem {
                bytes: vec![],
                origin: 0,
            }
        };
        expected.push(recv.clone());
        ranks.push(Rank::new(
            rng,
            gather::build(&p, algorithm),
            send,
            recv,
            sty,
            rty.clone(),
        ));
    }
    expected[root as usize] = result;
    (ranks, expected)
}

fn scatter_case(
    rng: &mut Rng,
    size: u32,
    count: u64,
    root: u32,
    in_place: bool,
    algorithm: gather::Algorithm,
) -> Case {
    let (sty, sn) = any_signature(rng, count);
    let big = Mem::elements(rng, &sty, 0, sn * u64::from(size));
    let (mut ranks, mut expected) = (vec![], vec![]);
    for rank in 0..size {
        let (rty, rn) = any_signature(rng, count);
        let recv = Mem::elements(rng, &rty, 0, rn);
        let at_root = rank == root;
        let mut e = recv.clone();
        if !(at_root && in_place) {
            let offset = sty.extent * i64::from(rank) * sn as i64;
            e.unpack(&rty, 0, rn, &big.pack(&sty, offset, sn));
        }
        expected.push(e);
        let p = scatter::Params {
            team: Team::new(rank, size),
            root,
            send: Part {
                count: if at_root { sn } else { 5 },
                ty: sty.shape(),
            },
            recv: Part {
                count: rn,
                ty: rty.shape(),
            },
            in_place: at_root && in_place,
        };
        let send = if at_root {
            big.clone()
        } else {
            Mem {
                bytes: vec![],
                origin: 0,
            }
        };
        ranks.push(Rank::new(
            rng,
            scatter::build(&p, algorithm),
            send,
            recv,
            sty.clone(),
            rty,
        ));
    }
    (ranks, expected)
}

#[test]
fn allgather_gives_all_all_blocks() {
    use allgather::Algorithm::*;
    each_size(|rng, size, count| {
        for case in 0..10 {
            let shared = Shared { segment: 100 };
            let algorithms = [RecursiveDoubling, Bruck, Ring, Straight, shared];
            let (algorithm, in_place) = (algorithms[case / 2], case % 2 == 1);
            if algorithm == RecursiveDoubling && !size.is_power_of_two() {
                continue;
            }
            let all: Vec<u8> = (0..count * 12 * u64::from(size))
                .map(|_| rng.next() as u8)
                .collect();
            let block = count as usize * 12;
            let (mut ranks, mut expected) = (vec![], vec![]);
            for rank in 0..size {
                let ((sty, sn), (rty, rn)) = (any_signature(rng, count), any_signature(rng, count));
                let own = &all[rank as usize * block..][..block];
                let mut send = Mem::elements(rng, &sty, 0, sn);
                let mut recv = Mem::elements(rng, &rty, 0, rn * u64::from(size));
                if in_place {
                    recv.unpack(&rty, rty.extent * i64::from(rank) * rn as i64, rn, own);
                } else {
                    send.unpack(&sty, 0, sn, own);
                }
                let mut e = recv.clone();
                e.unpack(&rty, 0, rn * u64::from(size), &all);
                expected.push(e);
                let p = allgather::Params {
                    team: Team::new(rank, size),
                    send: Part {
                        count: sn,
                        ty: sty.shape(),
                    },
                    recv: Part {
                        count: rn,
                        ty: rty.shape(),
                    },
                    in_place,
                };
                ranks.push(Rank::new(
                    rng,
                    allgather::build(&p, algorithm),
                    send,
                    recv,
                    sty,
                    rty,
                ));
            }
            run(
                rng,
                ranks,
                expected,
                &format!("{algorithm:?} {size} {count} {in_place}"),
            );
        }
    });
}

#[test]
fn alltoall_transposes() {
    use alltoall::Algorithm::*;
    let algorithms = [
        Bruck,
        Pairwise { window: 1 },
        Pairwise { window: 3 },
        Pairwise { window: 32 },
        Shared { segment: 100 },
    ];
    each_size(|rng, size, count| {
        for case in 0..10 {
            let (algorithm, in_place) = (algorithms[case / 2], case % 2 == 1);
            let n = u64::from(size);
            let block = count as usize * 12;
            let data: Vec<Vec<u8>> = (0..size)
                .map(|_| {
                    (0..block * size as usize)
                        .map(|_| rng.next() as u8)
                        .collect()
                })
                .collect();
            let (mut ranks, mut expected) = (vec![], vec![]);
            for rank in 0..size {
                let ((sty, sn), (rty, rn)) = (any_signature(rng, count), any_signature(rng, count));
                let mut send = Mem::elements(rng, &sty, 0, sn * n);
                let mut recv = Mem::elements(rng, &rty, 0, rn * n);
                if in_place {
                    recv.unpack(&rty, 0, rn * n, &data[rank as usize]);
                } else {
                    send.unpack(&sty, 0, sn * n, &data[rank as usize]);
                }
                let mut e = recv.clone();
                let column: Vec<u8> = data
                    .iter()
                    .flat_map(|d| &d[rank as usize * block..][..block])
                    .copied()
                    .collect();
                e.unpack(&rty, 0, rn * n, &column);
                expected.push(e);
                let p = alltoall::Params {
                    team: Team::new(rank, size),
                    send: Part {
                        count: sn,
                        ty: sty.shape(),
                    },
                    recv: Part {
                        count: rn,
                        ty: rty.shape(),
                    },
                    in_place,
                };
                ranks.push(Rank::new(
                    rng,
                    alltoall::build(&p, algorithm),
                    send,
                    recv,
                    sty,
                    rty,
                ));
            }
            run(
                rng,
                ranks,
                expected,
                &format!("{algorithm:?} {size} {count} {in_place}"),
            );
        }
    });
}
