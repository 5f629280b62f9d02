//! The chosen algorithms: the same on every rank whatever its datatype, and valid graphs.

use cad::bcast::{Relay, Spread};
use cad::{
    Graph, Kind, NodeId, Part, Shape, Team, allgather, allreduce, alltoall, bcast, gather, reduce,
    scatter,
};
use cad::{barrier, reduce_scatter, scan, straight};

const PLAIN: Shape = Shape {
    size: 8,
    extent: 8,
    true_extent: 8,
    contiguous: true,
};
const SPREAD: Shape = Shape {
    size: 8,
    extent: 24,
    true_extent: 20,
    contiguous: false,
};

const SPREADS: [Spread; 6] = [
    Spread::Together,
    Spread::Lending,
    Spread::Apart(Relay::Kernel),
    Spread::Apart(Relay::Process),
    Spread::Blocks,
    Spread::Mixed,
];

fn same<T: PartialEq + std::fmt::Debug>(list: Vec<T>) -> bool {
    list.windows(2).all(|w| w[0] == w[1])
}

#[test]
fn choices_agree_and_graphs_are_valid() {
    for size in [1, 2, 3, 4, 5, 8, 13, 32, 100] {
        for count in [0, 1, 5, 40, 1000, 5000, 70_000, 3_000_000] {
            let straight = straight::serves(size) && count % 2 == 1;
            let teams: Vec<(Team, Shape)> = (0..size)
                .map(|rank| {
                    (
                        Team {
                            straight,
                            ..Team::new(rank, size)
                        },
                        if rank % 2 == 0 { PLAIN } else { SPREAD },
                    )
                })
                .collect();
            let root = size / 2;
            let part = |ty| Part { count, ty };
            for spread in SPREADS {
                let b = |&(team, ty): &_| bcast::Params {
                    team,
                    root,
                    count,
                    ty,
                    spread,
                };
                assert!(same(teams.iter().map(|t| bcast::choose(&b(t))).collect()));
                for t in &teams {
                    bcast::graph(&b(t)).verify().unwrap();
                }
            }
            let g = |&(team, ty): &(Team, Shape)| gather::Params {
                team,
                root,
                send: part(ty),
                recv: part(SPREAD),
                in_place: false,
            };
            let s = |&(team, ty): &(Team, Shape)| scatter::Params {
                team,
                root,
                send: part(SPREAD),
                recv: part(ty),
                in_place: false,
            };
            assert!(same(teams.iter().map(|t| gather::choose(&g(t))).collect()));
            assert!(same(teams.iter().map(|t| scatter::choose(&s(t))).collect()));
            for t in &teams {
                gather::graph(&g(t)).verify().unwrap();
                scatter::graph(&s(t)).verify().unwrap();
                others(t.0, t.1, count);
            }
        }
    }
}

/// Whether a process sends something only after it has received something.
fn passes_on(graph: &Graph) -> bool {
    let is = |id: NodeId, kind| graph.node(id).kind == kind;
    let nodes = 0..graph.nodes().len() as NodeId;
    let mut after: Vec<NodeId> = nodes.filter(|&id| is(id, Kind::Recv)).collect();
    let mut seen = vec![false; graph.nodes().len()];
    while let Some(id) = after.pop() {
        for &next in graph.successors(id) {
            if !std::mem::replace(&mut seen[next as usize], true) {
                after.push(next);
            }
        }
    }
    (0..).zip(seen).any(|(id, seen)| seen && is(id, Kind::Send))
}

#[test]
fn nobody_passes_on_where_all_goes_straight() {
    for size in 3..=straight::RANKS_MAX {
        let mut found = false;
        for (rank, in_place) in (0..size).flat_map(|r| [(r, false), (r, true)]) {
            let team = Team {
                straight: true,
                ..Team::new(rank, size)
            };
            let (ty, commutative) = (PLAIN, rank % 2 == 0);
            for count in [1, straight::COMBINED_MAX / 8] {
                let part = Part { count, ty };
                let (at_root, spread) = (rank == 1, Spread::Together);
                let mut p = allreduce::Params {
                    team,
                    count,
                    ty,
                    commutative,
                    in_place,
                    together: false,
                };
                let scan = scan::Params {
                    team,
                    count,
                    ty,
                    in_place,
                };
                let graphs = [
                    barrier::graph(&team),
                    bcast::graph(&bcast::Params {
                        team,
                        root: 1,
                        count: 10 * count,
                        ty,
                        spread,
                    }),
                    gather::graph(&gather::Params {
                        team,
                        root: 1,
                        send: part,
                        recv: part,
                        in_place: at_root && in_place,
                    }),
                    scatter::graph(&scatter::Params {
                        team,
                        root: 1,
                        send: part,
                        recv: part,
                        in_place: at_root && in_place,
                    }),
                    allgather::graph(&allgather::Params {
                        team,
                        send: part,
                        recv: part,
                        in_place,
                    }),
                    alltoall::graph(&alltoall::Params {
                        team,
                        send: part,
                        recv: part,
                        in_place,
                    }),
                    reduce::graph(&reduce::Params {
                        team,
                        root: 1,
                        count,
                        ty,
                        commutative,
                        in_place: at_root && in_place,
                    }),
                    allreduce::graph(&p),
                    reduce_scatter::graph(&reduce_scatter::Params {
                        team,
                        counts: reduce_scatter::Counts::Equal(count),
                        ty,
                        commutative,
                        in_place,
                    }),
                    scan::graph(&scan),
                    scan::graph_exclusive(&scan),
                ];
                for (i, graph) in graphs.iter().enumerate() {
                    graph.verify().unwrap();
                    assert!(!passes_on(graph), "graph {i}, {rank} of {size}, {count}");
                }
                p.team.straight = false;
                found |= passes_on(&allreduce::graph(&p));
            }
        }
        assert!(found, "what this looks for, else");
    }
}

#[test]
fn long_data_go_along_a_chain() {
    use bcast::Algorithm::{Binomial, Chain, Flat, ScatterRing, SegmentedBinomial, Shared};
    use bcast::Relay::{Kernel, Process};
    use bcast::Spread::{Apart, Blocks, Lending, Mixed, Together};
    let choose = |size, bytes, spread| {
        bcast::choose(&bcast::Params {
            team: Team::new(0, size),
            root: 0,
            count: bytes,
            ty: Shape::BYTE,
            spread,
        })
    };
    let chain = |kilobytes: u64| Chain {
        segment: kilobytes << 10,
    };
    // Between machines shorter ones, too.
    for (relay, size, bytes, segment) in [
        (Kernel, 3, 64 << 10, 8),
        (Kernel, 3, 512 << 10, 16),
        (Kernel, 3, 4 << 20, 64),
        (Kernel, 5, 192 << 10, 8),
        (Kernel, 5, 12 << 20, 64),
        (Process, 3, 128 << 10, 32),
        (Process, 3, 4 << 20, 64),
        (Process, 5, 384 << 10, 32),
        (Process, 16, 2 << 20, 32),
    ] {
        let chosen = choose(size, bytes, Apart(relay));
        assert_eq!(chosen, chain(segment), "{relay:?} {size} {bytes}");
    }
    for (relay, size, bytes) in [
        (Kernel, 3, (64 << 10) - 1),
        (Kernel, 5, 128 << 10),
        (Process, 3, (128 << 10) - 1),
        (Process, 5, 256 << 10),
    ] {
        let chosen = choose(size, bytes, Apart(relay));
        assert_eq!(
            chosen,
            choose(size, bytes, Mixed),
            "{relay:?} {size} {bytes}"
        );
    }
    // As where several ranks of a machine follow on one another.
    for (size, bytes) in [(4, 128 << 10), (4, 256 << 10), (6, 1 << 20)] {
        let chosen = choose(size, bytes, Blocks);
        assert_eq!(
            chosen,
            choose(size, bytes, Apart(Process)),
            "{size} {bytes}"
        );
    }
    // Elsewhere longer ones only, but for three that share memory.
    let tree = SegmentedBinomial { segment: 64 << 10 };
    for (size, bytes, spread, expected) in [
        (3, 1 << 20, Mixed, tree),
        (3, 128 << 10, Together, tree),
        (3, 192 << 10, Together, chain(64)),
        (4, 1 << 20, Together, tree),
        (8, 2 << 20, Together, ScatterRing),
        (8, 4 << 20, Mixed, chain(64)),
    ] {
        assert_eq!(choose(size, bytes, spread), expected, "{size} {bytes}");
    }
    // Few that copy from where the root has the data all do so, and none passes them on.
    for (size, bytes, expected) in [
        (3, (128 << 10) - 1, tree),
        (3, 128 << 10, Flat),
        (5, 1 << 20, Flat),
        (7, 64 << 20, Flat),
        (8, 64 << 10, ScatterRing),
        (8, 4 << 20, chain(64)),
    ] {
        assert_eq!(choose(size, bytes, Lending), expected, "{size} {bytes}");
    }
    // Few that share memory and may compute get what is long from the root, which puts each segment where all read it.
    let straight = |size, bytes, spread| {
        let team = Team {
            straight: true,
            ..Team::new(0, size)
        };
        bcast::choose(&bcast::Params {
            team,
            root: 0,
            count: bytes,
            ty: Shape::BYTE,
            spread,
        })
    };
    for (size, bytes, expected) in [
        (3, (128 << 10) - 1, Flat),
        (3, 128 << 10, Shared { segment: 128 << 10 }),
        (8, 4 << 20, Shared { segment: 128 << 10 }),
        (5, (4 << 20) + 1, Shared { segment: 132 << 10 }),
        (5, 8 << 20, Shared { segment: 256 << 10 }),
        (8, 16 << 20, Shared { segment: 256 << 10 }),
        (8, (16 << 20) + 1, chain(64)),
    ] {
        assert_eq!(straight(size, bytes, Together), expected, "{size} {bytes}");
    }
    assert_eq!(straight(3, 1 << 20, Lending), Flat);
    // Two have one link, and a few bytes go whole, wherever they are.
    for (size, bytes) in [(2, 1 << 20), (3, 1 << 10)] {
        assert_eq!(choose(size, bytes, Apart(Process)), Binomial);
    }
}

#[test]
fn few_that_may_compute_share_what_is_not_short() {
    let team = |size, straight, lends| Team {
        straight,
        lends,
        ..Team::new(0, size)
    };
    let part = |count| Part {
        count,
        ty: Shape::BYTE,
    };
    let gathered = |team, count| {
        allgather::choose(&allgather::Params {
            team,
            send: part(count),
            recv: part(count),
            in_place: false,
        })
    };
    let exchanged = |team, count| {
        alltoall::choose(&alltoall::Params {
            team,
            send: part(count),
            recv: part(count),
            in_place: false,
        })
    };
    const K: u64 = 1 << 10;
    for (size, bytes, lends, segment) in [
        (3, 12 * K, false, None),
        (3, 12 * K + 1, false, Some(128 * K)),
        (8, 8192 * K, false, Some(256 * K)),
        (8, 8192 * K + 1, false, None),
        (8, 64 * K, true, Some(128 * K)),
        (8, 64 * K + 1, true, None),
    ] {
        let expected = segment.map_or(allgather::Algorithm::Straight, |segment| {
            allgather::Algorithm::Shared { segment }
        });
        assert_eq!(gathered(team(size, true, lends), bytes), expected);
        // Whoever waits has them sooner in rounds.
        let waits = gathered(team(size, false, lends), bytes);
        assert!(matches!(
            waits,
            allgather::Algorithm::Ring
                | allgather::Algorithm::RecursiveDoubling
                | allgather::Algorithm::Bruck
        ));
    }
    for (size, bytes, lends, segment) in [
        (3, 12 * K, false, None),
        (3, 4096 * K, false, Some(256 * K)),
        (3, 4096 * K + 1, false, None),
        (8, 256 * K, false, Some(128 * K)),
        (8, 1024 * K, false, Some(256 * K)),
        (8, 1024 * K + 1, false, None),
        (4, 2560 * K, false, Some(256 * K)),
        (8, 256 * K, true, None),
    ] {
        let shared = match exchanged(team(size, true, lends), bytes) {
            alltoall::Algorithm::Shared { segment } => Some(segment),
            _ => None,
        };
        assert_eq!(shared, segment, "{size} {bytes}");
    }
}

fn others(team: Team, ty: Shape, count: u64) {
    let (send, recv) = (Part { count, ty }, Part { count, ty: PLAIN });
    for in_place in [false, true] {
        allgather::graph(&allgather::Params {
            team,
            send,
            recv,
            in_place,
        })
        .verify()
        .unwrap();
        alltoall::graph(&alltoall::Params {
            team,
            send,
            recv,
            in_place,
        })
        .verify()
        .unwrap();
        for commutative in [false, true] {
            let p = allreduce::Params {
                team,
                count,
                ty,
                commutative,
                in_place,
                together: true,
            };
            allreduce::graph(&p).verify().unwrap();
            let root = team.size - 1;
            let in_place_root = in_place && team.rank == root;
            let p = reduce::Params {
                team,
                root,
                count,
                ty,
                commutative,
                in_place: in_place_root,
            };
            reduce::graph(&p).verify().unwrap();
            let counts = reduce_scatter::Counts::Equal(count);
            let p = reduce_scatter::Params {
                team,
                counts,
                ty,
                commutative,
                in_place,
            };
            reduce_scatter::graph(&p).verify().unwrap();
        }
        let p = scan::Params {
            team,
            count,
            ty,
            in_place,
        };
        scan::graph(&p).verify().unwrap();
        scan::graph_exclusive(&p).verify().unwrap();
    }
}

#[test]
fn dot_shows_every_node() {
    let team = Team::new(0, 8);
    let g = bcast::graph(&bcast::Params {
        team,
        root: 0,
        count: 1,
        ty: PLAIN,
        spread: Spread::Mixed,
    });
    let dot = g.to_dot();
    assert!(dot.contains("START -> n0") && dot.contains("-> END"));
    assert_eq!(dot.matches("SEND to").count(), 3);
}

#[test]
fn invalid_graphs_are_refused() {
    use cad::{BufId, Builder, Invalid, Region};
    let team = Team::new(0, 2);
    let mut b = Builder::new(team);
    b.send(2, 0, Region::EMPTY, &[]);
    assert_eq!(b.finish().verify(), Err(Invalid::Peer(0)));
    let mut b = Builder::new(team);
    b.send_buffer(Shape::BYTE, 8);
    b.send(1, 0, Region::bytes(BufId::Send, 4, 5), &[]);
    assert_eq!(b.finish().verify(), Err(Invalid::Bounds(0)));
    let mut b = Builder::new(team);
    b.send(1, 0, Region::EMPTY, &[1]);
    b.send(1, 1, Region::EMPTY, &[0]);
    assert_eq!(b.finish().verify(), Err(Invalid::Cycle));
    let mut b = Builder::new(team);
    b.send(1, 0, Region::EMPTY, &[7]);
    assert_eq!(b.finish().verify(), Err(Invalid::Edges));
    let mut b = Builder::new(team);
    b.recv_buffer(Shape::BYTE, 8);
    b.copy(
        Region::bytes(BufId::Recv, 0, 2),
        Region::bytes(BufId::Recv, 4, 3),
        &[],
    );
    assert_eq!(b.finish().verify(), Err(Invalid::Lengths(0)));
}

#[test]
fn two_that_share_memory_combine_halves_of_what_is_long() {
    use allreduce::Algorithm::{Halves, Pair};
    let of = |bytes: u64, commutative, together| {
        let (team, ty, count) = (Team::new(0, 2), PLAIN, bytes / 8);
        let in_place = false;
        allreduce::choose(&allreduce::Params {
            team,
            count,
            ty,
            commutative,
            in_place,
            together,
        })
    };
    let segment = (128 << 10) / 8;
    for bytes in [256 << 10, 1 << 20, 16 << 20] {
        assert_eq!(of(bytes, true, true), Halves { segment });
        assert_eq!(of(bytes, true, false), Pair { segment });
        assert_eq!(of(bytes, false, true), Pair { segment });
        assert_eq!(of((256 << 10) - 8, true, true), Pair { segment });
    }
}

#[test]
fn few_that_may_compute_combine_parts_of_what_is_long() {
    use allreduce::Algorithm::Parts;
    let of = |size, bytes: u64, straight, lends| {
        let team = Team {
            straight,
            lends,
            ..Team::new(0, size)
        };
        let (ty, count) = (PLAIN, bytes / 8);
        let (commutative, in_place, together) = (true, false, true);
        allreduce::choose(&allreduce::Params {
            team,
            count,
            ty,
            commutative,
            in_place,
            together,
        })
    };
    const K: u64 = 1 << 10;
    for (size, bytes, segment) in [
        (3, 48 * K, 128 * K),
        (8, 4096 * K, 128 * K),
        (5, 32 << 20, 256 * K),
    ] {
        let segment = segment / 8;
        assert_eq!(of(size, bytes, true, false), Parts { segment });
        let others = [
            of(size, bytes, false, false),
            of(size, bytes, true, true),
            of(size, 48 * K - 8, true, false),
            of(size, (32 << 20) + 8, true, false),
        ];
        assert!(!others.iter().any(|a| matches!(a, Parts { .. })));
    }
}

#[test]
fn of_long_blocks_few_that_may_compute_combine_their_own() {
    use reduce_scatter::Algorithm::Parts;
    use reduce_scatter::Counts::{self, Each, Equal};
    let of = |size, counts: Counts, commutative, straight, lends| {
        let team = Team {
            straight,
            lends,
            ..Team::new(0, size)
        };
        let (ty, in_place) = (PLAIN, false);
        reduce_scatter::choose(&reduce_scatter::Params {
            team,
            counts,
            ty,
            commutative,
            in_place,
        })
    };
    const K: u64 = (1 << 10) / 8;
    for commutative in [true, false] {
        for (size, bytes) in [(3, 128 * K + 1), (8, 512 * K)] {
            let chosen = of(size, Equal(bytes), commutative, true, false);
            let segment = 128 * K;
            assert_eq!(chosen, Parts { segment });
        }
        let uneven = Each(&[0, 5, 3 * 4096 * K]);
        let segment = 256 * K;
        assert_eq!(of(3, uneven, commutative, true, false), Parts { segment });
        let others = [
            of(3, Equal(128 * K), commutative, true, false),
            of(3, Equal(512 * K), commutative, false, false),
            of(3, Equal(512 * K), commutative, true, true),
            of(4, Equal(8192 * K + 1), commutative, true, false),
        ];
        assert!(!others.iter().any(|a| matches!(a, Parts { .. })));
    }
}

/// Whoever only gives need not run a graph; nobody else may be taken for such.
#[test]
fn who_only_gives_is_known() {
    let only_sends = |rank, bytes: u64, ty| {
        let team = Team::new(rank, 3);
        let params = bcast::Params {
            team,
            root: 0,
            count: bytes / 8,
            ty,
            spread: Spread::Mixed,
        };
        bcast::graph(&params).only_sends()
    };
    // The root, whatever its type, but not where it packs for a tree of segments first, and no other.
    assert!(only_sends(0, 4096, PLAIN) && only_sends(0, 4096, SPREAD));
    assert!(only_sends(0, 1 << 20, PLAIN) && !only_sends(0, 1 << 20, SPREAD));
    assert!((1..3).all(|rank| !only_sends(rank, 4096, PLAIN)));

    use cad::{BufId, Builder, Region};
    let team = Team::new(0, 2);
    let part = Region::bytes(BufId::Send, 0, 8);
    let mut b = Builder::new(team);
    b.send_buffer(Shape::BYTE, 8);
    let first = b.send(1, 0, part, &[]);
    b.send(1, 1, part, &[first]);
    assert!(!b.finish().only_sends(), "one waits for the other");
    let mut b = Builder::new(team);
    let temp = b.temp_bytes(8);
    b.send(1, 0, Region::bytes(temp, 0, 8), &[]);
    assert!(!b.finish().only_sends(), "out of memory of its own");
}
