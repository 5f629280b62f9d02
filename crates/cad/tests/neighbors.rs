//! Neighbourhood collectives on random graphs with repeated edges and edges to oneself, against their definition.

mod sim;

use cad::alltoall::BlockW;
use cad::neighbor::{Blocks, Edge, Params, graph, in_order};
use cad::{Block, Part, Team};
use sim::{Mem, Rank, Rng, Ty, check_order, execute, sum};

/// An edge of the whole graph, as (source, destination), and where it stands in their lists.
#[derive(Clone, Copy)]
struct Between {
    from: usize,
    to: usize,
    /// Index among the destinations of `from`.
    out: usize,
    /// Index among the sources of `to`.
    inn: usize,
    units: u64,
}

struct World {
    sources: Vec<Vec<Option<Edge>>>,
    destinations: Vec<Vec<Option<Edge>>>,
    edges: Vec<Between>,
}

/// Random edges in random order; the lists of the two ends need not be in one order but for edges between one pair. Some
/// neighbours are nobody.
fn world(rng: &mut Rng, size: u32) -> World {
    let n = size as usize;
    let (mut sources, mut destinations) = (vec![vec![]; n], vec![vec![]; n]);
    let mut pairs: Vec<(usize, usize)> = (0..rng.below(4 * n + 1))
        .map(|_| (rng.below(n), rng.below(n)))
        .collect();
    for &(from, to) in &pairs {
        destinations[from].push(to as u32);
    }
    for i in (1..pairs.len()).rev() {
        pairs.swap(i, rng.below(i + 1));
    }
    for &(from, to) in &pairs {
        sources[to].push(from as u32);
    }
    let mut numbered = |lists: &[Vec<u32>]| -> Vec<Vec<Option<Edge>>> {
        let mut all: Vec<_> = lists.iter().map(|l| in_order(l)).collect();
        for list in &mut all {
            if rng.coin() {
                list.insert(rng.below(list.len() + 1), None);
            }
        }
        all
    };
    let (sources, destinations) = (numbered(&sources), numbered(&destinations));
    let mut edges = Vec::new();
    for (from, list) in destinations.iter().enumerate() {
        for (out, edge) in list.iter().enumerate() {
            let Some(edge) = edge else { continue };
            let to = edge.peer as usize;
            let back = Edge {
                peer: from as u32,
                tag: edge.tag,
            };
            let inn = sources[to].iter().position(|e| *e == Some(back));
            edges.push(Between {
                from,
                to,
                out,
                inn: inn.expect("both ends number an edge alike"),
                units: 0,
            });
        }
    }
    World {
        sources,
        destinations,
        edges,
    }
}

fn cases(f: impl Fn(&mut Rng, u32)) {
    for size in [1, 2, 3, 5, 8] {
        for seed in 0..60 {
            f(&mut Rng::new(u64::from(size) * 1000 + seed), size);
        }
    }
}

fn run(rng: &mut Rng, mut ranks: Vec<Rank>, expected: Vec<Mem>) {
    ranks.iter().for_each(check_order);
    execute(rng, &mut ranks, sum);
    for (i, (r, e)) in ranks.iter().zip(&expected).enumerate() {
        assert!(r.recv == *e, "rank {i} has wrong data");
    }
}

#[test]
fn equal_blocks_go_to_the_neighbors() {
    cases(|rng, size| {
        let world = world(rng, size);
        let gather = rng.coin();
        let (send_ty, recv_ty) = (Ty::gappy(12), Ty::downward(6));
        let count = rng.below(4) as u64;
        let team = |rank: usize| Team::new(rank as u32, size);
        let (mut ranks, mut expected) = (Vec::new(), Vec::new());
        for rank in 0..size as usize {
            let part = Part {
                count,
                ty: send_ty.shape(),
            };
            let p = Params {
                team: team(rank),
                destinations: &world.destinations[rank],
                send: match gather {
                    true => Blocks::Same(part),
                    false => Blocks::Equal(part),
                },
                sources: &world.sources[rank],
                recv: Blocks::Equal(Part {
                    count: 2 * count,
                    ty: recv_ty.shape(),
                }),
            };
            let blocks = if gather {
                1
            } else {
                p.destinations.len() as u64
            };
            let send = Mem::elements(rng, &send_ty, 0, blocks * count);
            let recv = Mem::elements(rng, &recv_ty, 0, 2 * count * p.sources.len() as u64);
            expected.push(recv.clone());
            ranks.push(Rank::new(
                rng,
                graph(&p),
                send,
                recv,
                send_ty.clone(),
                recv_ty.clone(),
            ));
        }
        for e in &world.edges {
            let first = if gather { 0 } else { e.out as i64 };
            let data =
                ranks[e.from]
                    .send
                    .pack(&send_ty, first * count as i64 * send_ty.extent, count);
            let offset = e.inn as i64 * 2 * count as i64 * recv_ty.extent;
            expected[e.to].unpack(&recv_ty, offset, 2 * count, &data);
        }
        run(rng, ranks, expected);
    });
}

#[test]
fn blocks_of_different_lengths_and_types_go_to_the_neighbors() {
    cases(|rng, size| {
        let mut world = world(rng, size);
        for e in &mut world.edges {
            e.units = rng.below(4) as u64;
        }
        let typed = rng.coin();
        let ty = Ty::gappy(5);
        let (mut ranks, mut expected) = (Vec::new(), Vec::new());
        for rank in 0..size as usize {
            let lay = |list: &[Option<Edge>], units: &dyn Fn(usize) -> u64| {
                let mut at = 0;
                let mut blocks = Vec::new();
                for i in 0..list.len() {
                    let count = units(i);
                    blocks.push(Block { count, disp: at });
                    at += count as i64 + 1;
                }
                (blocks, at as u64)
            };
            let mine = |i: usize| world.edges.iter().find(|e| (e.from, e.out) == (rank, i));
            let theirs = |i: usize| world.edges.iter().find(|e| (e.to, e.inn) == (rank, i));
            let (out, out_end) = lay(&world.destinations[rank], &|i| {
                mine(i).map_or(2, |e| e.units)
            });
            let (inn, inn_end) = lay(&world.sources[rank], &|i| theirs(i).map_or(2, |e| e.units));
            let wide = |blocks: &[Block]| -> Vec<BlockW> {
                let block = |b: &Block| BlockW {
                    count: b.count,
                    disp: b.disp * ty.extent,
                    size: 5,
                };
                blocks.iter().map(block).collect()
            };
            let (wide_out, wide_in) = (wide(&out), wide(&inn));
            let p = Params {
                team: Team::new(rank as u32, size),
                destinations: &world.destinations[rank],
                send: match typed {
                    true => Blocks::Typed(&wide_out),
                    false => Blocks::Each(&out, ty.shape()),
                },
                sources: &world.sources[rank],
                recv: match typed {
                    true => Blocks::Typed(&wide_in),
                    false => Blocks::Each(&inn, ty.shape()),
                },
            };
            let send = Mem::elements(rng, &ty, 0, out_end);
            let recv = Mem::elements(rng, &ty, 0, inn_end);
            expected.push((recv.clone(), inn.clone(), out.clone()));
            let mut r = Rank::new(rng, graph(&p), send, recv, ty.clone(), ty.clone());
            r.send_w = vec![ty.clone(); p.destinations.len()];
            r.recv_w = vec![ty.clone(); p.sources.len()];
            ranks.push(r);
        }
        for e in &world.edges {
            let from = expected[e.from].2[e.out].disp * ty.extent;
            let data = ranks[e.from].send.pack(&ty, from, e.units);
            let to = expected[e.to].1[e.inn].disp * ty.extent;
            expected[e.to].0.unpack(&ty, to, e.units, &data);
        }
        run(rng, ranks, expected.into_iter().map(|e| e.0).collect());
    });
}

#[test]
fn more_messages_between_a_pair_than_tags_stay_in_order() {
    let many = vec![0u32; cad::MAX_TAG as usize + 3];
    let edges = in_order(&many);
    assert_eq!(edges[0], edges[cad::MAX_TAG as usize + 1]);
    let part = Part {
        count: 1,
        ty: cad::Shape::BYTE,
    };
    let made = graph(&Params {
        team: Team::new(0, 1),
        destinations: &edges,
        send: Blocks::Same(part),
        sources: &edges,
        recv: Blocks::Equal(part),
    });
    made.verify().unwrap();
    let waits = made.indegree().iter().filter(|&&n| n == 1).count();
    assert_eq!(waits, 4);
}
