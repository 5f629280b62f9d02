//! The collectives of crate `cad`, all algorithms: their teams are in order, and their chains move the
//! right bytes.

mod sim;

use cad::bcast::Spread;
use cad::{
    BufId, Builder, Graph, Part, Region, Shape, Team, allgather, allreduce, alltoall, barrier,
    bcast, gather, reduce, reduce_scatter, scan, scatter,
};
use chains::program::{BY_RANK, END, Entry, LINK, RECV, SEND, WAIT};
use chains::{Options, Program, compile, team};
use sim::kernel::{self, Will};
use sim::{Memory, Rng, interpret};

const ELEMENT: Shape = Shape {
    size: 8,
    extent: 8,
    true_extent: 8,
    contiguous: true,
};

fn compiled(graphs: &[Graph], options: &Options) -> Vec<Program> {
    let ranks: Vec<u32> = (0..graphs.len() as u32).collect();
    graphs
        .iter()
        .map(|g| compile(g, &ranks, None, options).unwrap())
        .collect()
}

/// Compiles the team in some ways and checks that it fits together; runs it in one of them.
fn check(rng: &mut Rng, size: u32, what: &str, graph: impl Fn(Team) -> Graph) {
    let graphs: Vec<Graph> = (0..size).map(|rank| graph(Team::new(rank, size))).collect();
    let in_kernel = Options {
        eager: 1 << 20,
        kernel_calc: 1 << 20,
        kernel_copy: 1 << 20,
        ..Options::default()
    };
    let cut = Options {
        piece: Some(100),
        ..Options::default()
    };
    let ways = [Options::default(), in_kernel, cut];
    let run = rng.below(ways.len());
    for (i, options) in ways.iter().enumerate() {
        let programs = compiled(&graphs, options);
        let fits = team::verify(&programs, size, options.eager);
        assert_eq!(fits, Ok(()), "{what}, {size} ranks, {options:?}");
        let calcs = |p: &Program| p.entries.iter().any(|e| e.flags & BY_RANK != 0);
        assert!(
            i != 1 || !programs.iter().any(calcs),
            "{what}: rank asked in vain"
        );
        if i == run {
            let mut memory: Vec<Memory> = graphs.iter().map(|g| Memory::new(rng, g)).collect();
            let mut expected = memory.clone();
            interpret(&graphs, &mut expected);
            let stuck = kernel::run(rng, &programs, &mut memory, options.eager, Will::Random);
            assert!(stuck.is_empty());
            assert!(memory == expected, "{what}, {size} ranks, {options:?}");
        }
    }
}

fn each_size(counts: &[u64], f: impl Fn(&mut Rng, u32, u64)) {
    for size in [1, 2, 3, 4, 5, 7, 8, 13, 16] {
        for &count in counts {
            f(&mut Rng::new(u64::from(size) * 10_000 + count), size, count);
        }
    }
}

fn part(count: u64) -> Part {
    Part { count, ty: ELEMENT }
}

#[test]
fn broadcasts_and_barriers() {
    use bcast::Algorithm::*;
    each_size(&[0, 1, 100, 300], |rng, size, count| {
        check(rng, size, "barrier", |team| barrier::graph(&team));
        let (chain, tree) = (Chain { segment: 200 }, SegmentedBinomial { segment: 200 });
        let shared = Shared { segment: 200 };
        for algorithm in [Binomial, Flat, shared, ScatterRing, chain, tree] {
            for root in [0, size - 1] {
                check(rng, size, &format!("bcast {algorithm:?}"), |team| {
                    let p = bcast::Params {
                        team,
                        root,
                        count,
                        ty: ELEMENT,
                        spread: Spread::Mixed,
                    };
                    bcast::build(&p, algorithm)
                });
            }
        }
    });
}

#[test]
fn reductions() {
    each_size(&[1, 5, 100], |rng, size, count| {
        for in_place in [false, true] {
            use allreduce::Algorithm::*;
            let all = [RecursiveDoubling, Rabenseifner, Ring];
            let for_two = [Pair { segment: 7 }, Halves { segment: 7 }];
            let for_two = for_two.into_iter().filter(|_| size == 2);
            for algorithm in all.into_iter().chain(for_two) {
                check(rng, size, &format!("allreduce {algorithm:?}"), |team| {
                    let p = allreduce::Params {
                        team,
                        count,
                        ty: ELEMENT,
                        commutative: true,
                        in_place,
                        together: true,
                    };
                    allreduce::build(&p, algorithm)
                });
            }
            for algorithm in [reduce::Algorithm::Binomial, reduce::Algorithm::Rabenseifner] {
                let root = size / 2;
                check(rng, size, &format!("reduce {algorithm:?}"), |team| {
                    let p = reduce::Params {
                        team,
                        root,
                        count,
                        ty: ELEMENT,
                        commutative: false,
                        in_place: in_place && team.rank == root,
                    };
                    reduce::build(&p, algorithm)
                });
            }
            let params = |team| scan::Params {
                team,
                count,
                ty: ELEMENT,
                in_place,
            };
            check(rng, size, "scan", |team| scan::graph(&params(team)));
            check(rng, size, "exscan", |team| {
                scan::graph_exclusive(&params(team))
            });
            for commutative in [false, true] {
                check(rng, size, "reduce_scatter", |team| {
                    reduce_scatter::graph(&reduce_scatter::Params {
                        team,
                        counts: reduce_scatter::Counts::Equal(count),
                        ty: ELEMENT,
                        commutative,
                        in_place,
                    })
                });
            }
        }
    });
}

#[test]
fn data_movement() {
    each_size(&[1, 40], |rng, size, count| {
        let (send, recv) = (part(count), part(count));
        for in_place in [false, true] {
            for root in [0, size - 1] {
                let in_place = |team: Team| in_place && team.rank == root;
                check(rng, size, "gather", |team| {
                    gather::graph(&gather::Params {
                        team,
                        root,
                        send,
                        recv,
                        in_place: in_place(team),
                    })
                });
                check(rng, size, "scatter", |team| {
                    scatter::graph(&scatter::Params {
                        team,
                        root,
                        send,
                        recv,
                        in_place: in_place(team),
                    })
                });
            }
            check(rng, size, "allgather", |team| {
                allgather::graph(&allgather::Params {
                    team,
                    send,
                    recv,
                    in_place,
                })
            });
            check(rng, size, "alltoall", |team| {
                alltoall::graph(&alltoall::Params {
                    team,
                    send,
                    recv,
                    in_place,
                })
            });
        }
    });
}

fn allreduce_of_8_bytes(size: u32) -> Vec<Graph> {
    let params = |rank| allreduce::Params {
        team: Team::new(rank, size),
        count: 1,
        ty: ELEMENT,
        commutative: true,
        in_place: false,
        together: true,
    };
    (0..size).map(|r| allreduce::graph(&params(r))).collect()
}

#[test]
fn a_small_allreduce_is_one_chain_without_tokens() {
    let options = Options {
        eager: 4096,
        kernel_calc: 64,
        kernel_copy: 64,
        ..Options::default()
    };
    for size in [2, 4, 8, 16] {
        for p in compiled(&allreduce_of_8_bytes(size), &options) {
            assert_eq!((p.chains().count(), p.tokens), (1, 0), "{size}: {p}");
        }
    }
}

#[test]
fn a_relay_interleaves_in_one_chain_and_fits() {
    let options = Options {
        interleave: true,
        ..Options::default()
    };
    for size in [2, 3, 4, 7, 8, 16] {
        for algorithm in [
            bcast::Algorithm::Binomial,
            bcast::Algorithm::Chain { segment: 64 << 10 },
            bcast::Algorithm::SegmentedBinomial { segment: 64 << 10 },
        ] {
            let graphs: Vec<Graph> = (0..size)
                .map(|rank| {
                    let p = bcast::Params {
                        team: Team::new(rank, size),
                        root: 0,
                        count: 1 << 17,
                        ty: ELEMENT,
                        spread: Spread::Mixed,
                    };
                    bcast::build(&p, algorithm)
                })
                .collect();
            let programs = compiled(&graphs, &options);
            assert_eq!(team::verify(&programs, size, 0), Ok(()));
            for p in programs.iter().filter(|p| p.entries[0].code == RECV) {
                let waits = p.entries.iter().filter(|e| e.code == WAIT).count();
                assert_eq!((p.chains().count(), waits), (1, 0), "{algorithm:?}\n{p}");
                assert!(p.entries.len() >= 17);
            }
        }
    }
}

#[test]
fn a_broadcast_is_not_too_long_for_a_program() {
    for count in [1 << 28, 1 << 33] {
        let p = bcast::Params {
            team: Team::new(1, 3),
            root: 0,
            count,
            ty: ELEMENT,
            spread: Spread::Mixed,
        };
        let program = compile(&bcast::graph(&p), &[0, 1, 2], None, &Options::default());
        assert!(program.is_ok_and(|p| p.entries.len() > 1 << 14));
    }
}

#[test]
fn a_barrier_holds_all_until_the_last_has_come() {
    for size in [2, 3, 5, 8] {
        let graphs: Vec<Graph> = (0..size)
            .map(|rank| barrier::graph(&Team::new(rank, size)))
            .collect();
        for late in 0..size as usize {
            let mut programs = compiled(&graphs, &Options::default());
            // It waits for a token that nobody posts, before all else.
            let late = &mut programs[late];
            let token = late.tokens;
            late.tokens += 1;
            let chains: Vec<Vec<Entry>> = late.chains().map(<[Entry]>::to_vec).collect();
            let wait = Entry {
                code: WAIT,
                flags: LINK,
                peer: token,
                ..Entry::default()
            };
            late.entries = chains
                .into_iter()
                .flat_map(|c| [vec![wait], c].concat())
                .collect();
            let rng = &mut Rng::new(u64::from(size));
            let mut memory: Vec<Memory> = graphs.iter().map(|g| Memory::new(rng, g)).collect();
            let stuck = kernel::run(rng, &programs, &mut memory, 64, Will::Random);
            assert_eq!(stuck.len(), size as usize);
        }
    }
}

#[test]
fn an_answer_waits_for_the_whole_message() {
    // A send of the first bytes of what was received says that all has come.
    let mut b = Builder::new(Team::new(0, 2));
    b.recv_buffer(Shape::BYTE, 40);
    let got = b.recv(1, 0, Region::bytes(BufId::Recv, 0, 40), &[]);
    b.send(1, 0, Region::bytes(BufId::Recv, 0, 4), &[got]);
    let options = Options {
        piece: Some(4),
        ..Options::default()
    };
    let p = compile(&b.finish(), &[0, 1], None, &options).unwrap();
    let codes: Vec<u8> = p.entries.iter().map(|e| e.code).collect();
    assert_eq!(codes, [vec![RECV; 10], vec![SEND, END]].concat());
    assert_eq!(p.chains().count(), 1);
}
