//! Every algorithm with blocks of different lengths, against the definition of its collective.

mod sim;

use cad::{Block, Graph, Part, Team, allgather, alltoall, gather, scatter};
use sim::{Mem, Rank, Rng, Ty, check_order, execute, sum};

const SIZES: [u32; 11] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17];

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

/// Random blocks, some empty, with gaps between them, in random order; and the end of the last.
fn blocks(rng: &mut Rng, counts: &[u64]) -> (Vec<Block>, u64) {
    let mut order: Vec<usize> = (0..counts.len()).collect();
    for i in (1..order.len()).rev() {
        order.swap(i, rng.below(i + 1));
    }
    let mut list = vec![Block { count: 0, disp: 0 }; counts.len()];
    let mut at = rng.below(4) as u64;
    for i in order {
        list[i] = Block {
            count: counts[i],
            disp: at as i64,
        };
        at += counts[i] + rng.below(3) as u64;
    }
    (list, at)
}

fn counts(rng: &mut Rng, n: u32) -> Vec<u64> {
    (0..n)
        .map(|_| {
            if rng.below(3) == 0 {
                0
            } else {
                rng.below(20) as u64
            }
        })
        .collect()
}

fn v_cases(f: impl Fn(&mut Rng, u32, bool)) {
    for size in SIZES {
        for seed in 0..20 {
            f(
                &mut Rng::new(u64::from(size) * 100 + seed),
                size,
                seed % 2 == 1,
            );
        }
    }
}

#[test]
fn gatherv_and_scatterv_move_blocks() {
    v_cases(|rng, size, in_place| {
        let root = rng.below(size as usize) as u32;
        let counts = counts(rng, size);
        let (list, end) = blocks(rng, &counts);
        for gathering in [true, false] {
            let big_ty = any_ty(rng, 12);
            let big = Mem::elements(rng, &big_ty, 0, end);
            let mut result = big.clone();
            let (mut ranks, mut expected) = (vec![], vec![]);
            for rank in 0..size {
                let (ty, n) = any_signature(rng, counts[rank as usize]);
                let block = list[rank as usize];
                let small = Mem::elements(rng, &ty, 0, n);
                let offset = block.disp * big_ty.extent;
                let (at_root, team) = (rank == root, Team::new(rank, size));
                let mut received = small.clone();
                if !(at_root && in_place) {
                    result.unpack(&big_ty, offset, block.count, &small.pack(&ty, 0, n));
                    received.unpack(&ty, 0, n, &big.pack(&big_ty, offset, block.count));
                }
                let part = Part {
                    count: n,
                    ty: ty.shape(),
                };
                let in_place = at_root && in_place;
                let none = Mem {
                    bytes: vec![],
                    origin: 0,
                };
                let big = if at_root { big.clone() } else { none };
                let list = if at_root { &list[..] } else { &[] };
                let big_shape = big_ty.shape();
                if gathering {
                    let p = gather::ParamsV {
                        team,
                        root,
                        send: part,
                        recv: list,
                        recv_ty: big_shape,
                        in_place,
                    };
                    expected.push(big.clone());
                    ranks.push(Rank::new(
                        rng,
                        gather::graph_v(&p),
                        small,
                        big,
                        ty,
                        big_ty.clone(),
                    ));
                } else {
                    let p = scatter::ParamsV {
                        team,
                        root,
                        send: list,
                        send_ty: big_shape,
                        recv: part,
                        in_place,
                    };
                    expected.push(received);
                    ranks.push(Rank::new(
                        rng,
                        scatter::graph_v(&p),
                        big,
                        small,
                        big_ty.clone(),
                        ty,
                    ));
                }
            }
            if gathering {
                expected[root as usize] = result;
            }
            run(
                rng,
                ranks,
                expected,
                &format!("gathering {gathering} {size} {root} {in_place}"),
            );
        }
    });
}

#[test]
fn allgatherv_gives_all_all_blocks() {
    v_cases(|rng, size, in_place| {
        let counts = counts(rng, size);
        for algorithm in [
            allgather::Algorithm::Ring,
            allgather::Algorithm::Bruck,
            allgather::Algorithm::Straight,
            allgather::Algorithm::Shared { segment: 100 },
        ] {
            let data: Vec<Vec<u8>> = counts
                .iter()
                .map(|n| (0..n * 12).map(|_| rng.next() as u8).collect())
                .collect();
            let (mut ranks, mut expected) = (vec![], vec![]);
            for rank in 0..size {
                let (sty, sn) = any_signature(rng, counts[rank as usize]);
                let rty = any_ty(rng, 12);
                let (list, end) = blocks(rng, &counts);
                let (mut send, mut recv) = (
                    Mem::elements(rng, &sty, 0, sn),
                    Mem::elements(rng, &rty, 0, end),
                );
                send.unpack(&sty, 0, sn, &data[rank as usize]);
                let mut e = recv.clone();
                for (i, b) in list.iter().enumerate() {
                    e.unpack(&rty, b.disp * rty.extent, b.count, &data[i]);
                }
                if in_place {
                    let b = list[rank as usize];
                    recv.unpack(&rty, b.disp * rty.extent, b.count, &data[rank as usize]);
                }
                let p = allgather::ParamsV {
                    team: Team::new(rank, size),
                    send: Part {
                        count: sn,
                        ty: sty.shape(),
                    },
                    recv: &list,
                    recv_ty: rty.shape(),
                    in_place,
                };
                expected.push(e);
                ranks.push(Rank::new(
                    rng,
                    allgather::build_v(&p, algorithm),
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
                &format!("{algorithm:?} {size} {in_place}"),
            );
        }
    });
}

/// Alltoallv, directly, by memory where receivers read, or some blocks so and some so; alltoallw.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Kind {
    Direct,
    Shared,
    Mixed,
    PerRank,
}

#[test]
fn alltoallv_and_alltoallw_exchange_blocks() {
    v_cases(|rng, size, in_place| {
        let n = size as usize;
        // drawn[i][j]: what i sends to j; in place the lengths are symmetric.
        let drawn: Vec<Vec<u64>> = (0..n).map(|_| counts(rng, size)).collect();
        let length = |i: usize, j: usize| match in_place {
            true => drawn[i.max(j)][i.min(j)],
            false => drawn[i][j],
        };
        let lengths: Vec<Vec<u64>> = (0..n)
            .map(|i| (0..n).map(|j| length(i, j)).collect())
            .collect();
        let data: Vec<Vec<Vec<u8>>> = lengths
            .iter()
            .map(|row| {
                row.iter()
                    .map(|n| (0..n * 12).map(|_| rng.next() as u8).collect())
                    .collect()
            })
            .collect();
        for kind in [Kind::Direct, Kind::Shared, Kind::Mixed, Kind::PerRank] {
            let (mut ranks, mut expected) = (vec![], vec![]);
            for me in 0..n {
                let (rank, e) = exchange_rank(rng, me, &lengths, &data, in_place, kind);
                ranks.push(rank);
                expected.push(e);
            }
            run(
                rng,
                ranks,
                expected,
                &format!("alltoall {kind:?} {size} {in_place}"),
            );
        }
    });
}

fn exchange_rank(
    rng: &mut Rng,
    me: usize,
    lengths: &[Vec<u64>],
    data: &[Vec<Vec<u8>>],
    in_place: bool,
    kind: Kind,
) -> (Rank, Mem) {
    let w = kind == Kind::PerRank;
    let n = lengths.len();
    let team = Team::new(me as u32, n as u32);
    // Alltoallw: each peer's type holds 12 bytes within 40, in one of two ways.
    let pick = |rng: &mut Rng| match rng.below(2) {
        0 => Ty {
            blocks: vec![(0, 12)],
            extent: 40,
        },
        _ => Ty {
            blocks: vec![(3, 5), (20, 7)],
            extent: 40,
        },
    };
    let (st, rt) = if w {
        (pick(rng), pick(rng))
    } else {
        (any_ty(rng, 12), any_ty(rng, 12))
    };
    let types = |rng: &mut Rng, ty: &Ty| -> Vec<Ty> {
        (0..n)
            .map(|_| if w { pick(rng) } else { ty.clone() })
            .collect()
    };
    let (sts, rts) = (types(rng, &st), types(rng, &rt));
    let column: Vec<u64> = (0..n).map(|j| lengths[j][me]).collect();
    let ((sl, send_end), (rl, recv_end)) = (blocks(rng, &lengths[me]), blocks(rng, &column));
    let (mut send, mut recv) = (
        Mem::elements(rng, &st, 0, send_end + 1),
        Mem::elements(rng, &rt, 0, recv_end + 1),
    );
    for j in 0..n {
        if in_place {
            recv.unpack(
                &rts[j],
                rl[j].disp * rts[j].extent,
                rl[j].count,
                &data[me][j],
            );
        } else {
            send.unpack(
                &sts[j],
                sl[j].disp * sts[j].extent,
                sl[j].count,
                &data[me][j],
            );
        }
    }
    let mut e = recv.clone();
    for j in 0..n {
        e.unpack(
            &rts[j],
            rl[j].disp * rts[j].extent,
            rl[j].count,
            &data[j][me],
        );
    }
    let graph: Graph = if w {
        let wide = |list: &[Block], types: &[Ty]| -> Vec<alltoall::BlockW> {
            let one = |(b, t): (&Block, &Ty)| alltoall::BlockW {
                count: b.count,
                disp: b.disp * t.extent,
                size: t.size() as u64,
            };
            list.iter().zip(types).map(one).collect()
        };
        let (send, recv) = (wide(&sl, &sts), wide(&rl, &rts));
        alltoall::graph_w(&alltoall::ParamsW {
            team,
            send: &send,
            recv: &recv,
            in_place,
        })
    } else {
        let p = alltoall::ParamsV {
            team,
            send: &sl,
            send_ty: st.shape(),
            recv: &rl,
            recv_ty: rt.shape(),
            in_place,
        };
        match kind {
            Kind::Shared => alltoall::build_v(&p, alltoall::Algorithm::Shared { segment: 100 }),
            Kind::Mixed => alltoall::build_mixed_v(&p, &|bytes| (bytes % 24 == 0).then_some(36)),
            _ => alltoall::graph_v(&p),
        }
    };
    let mut rank = Rank::new(rng, graph, send, recv, st, rt);
    (rank.send_w, rank.recv_w) = (sts, rts);
    (rank, e)
}
