//! Random graphs: their chains move the bytes that the graphs mean, and get to the end, whatever the
//! kernel runs first.

mod sim;

use chains::team::{self, Misfit};
use chains::{Options, Program, Refused, compile};
use sim::kernel::{self, Will};
use sim::random::{self, Tags};
use sim::{Memory, Rng, copies_first, interpret};

fn options(rng: &mut Rng) -> Options {
    Options {
        piece: Some(1 + rng.below(50) as u64),
        eager: rng.pick(&[0, 0, 5, 40, 1000]),
        kernel_calc: rng.pick(&[0, 8, 1000]),
        kernel_copy: rng.pick(&[0, 8, 1000]),
        whole_calc: rng.pick(&[false, true]),
        copies_first: rng.pick(&[None, Some(0), Some(20)]),
        ..Options::default()
    }
}

/// World ranks, in any order, some missing.
fn world(rng: &mut Rng, size: usize) -> Vec<u32> {
    let mut world: Vec<u32> = (0..size as u32 + 3).collect();
    rng.shuffle(&mut world);
    world.truncate(size);
    world
}

struct Case {
    graphs: Vec<cad::Graph>,
    programs: Vec<Program>,
    options: Options,
    world: u32,
}

fn case(rng: &mut Rng, tags: Tags, interleave: bool) -> Case {
    let graphs = random::team(rng, tags);
    let ranks = world(rng, graphs.len());
    let options = Options {
        interleave,
        ..options(rng)
    };
    let keys = match tags {
        Tags::Rising => None,
        Tags::Random => Some(team::order(&graphs).expect("the team can run")),
    };
    let programs = graphs.iter().enumerate().map(|(i, g)| {
        let keys = keys.as_ref().map(|k| k[i].as_slice());
        compile(g, &ranks, keys, &options).unwrap()
    });
    Case {
        programs: programs.collect(),
        options,
        world: ranks.len() as u32 + 3,
        graphs,
    }
}

fn runs_right(rng: &mut Rng, case: &Case, seed: u64) {
    let size = case.graphs.len();
    let start: Vec<Memory> = case.graphs.iter().map(|g| Memory::new(rng, g)).collect();
    for will in [Will::Random, Will::Starve(rng.below(size)), Will::Backwards] {
        let (mut expected, mut memory) = (start.clone(), start.clone());
        // A program can be submitted again.
        for round in 0..2 {
            interpret(&case.graphs, &mut expected);
            if let Some(min) = case.options.copies_first {
                for (graph, memory) in case.graphs.iter().zip(&mut memory) {
                    copies_first(graph, memory, min);
                }
            }
            let stuck = kernel::run(rng, &case.programs, &mut memory, case.options.eager, will);
            assert!(
                stuck.is_empty(),
                "dead-lock: seed {seed}, {will:?}, {:?}",
                case.options
            );
            for (r, (got, want)) in memory.iter().zip(&expected).enumerate() {
                assert!(
                    got == want,
                    "rank {r}: seed {seed}, round {round}, {will:?}, {:?}\n{}",
                    case.options,
                    case.programs[r]
                );
            }
        }
    }
}

#[test]
fn any_team_in_order_runs_to_the_right_bytes() {
    for seed in 0..600 {
        let rng = &mut Rng::new(seed);
        let case = case(rng, Tags::Rising, false);
        let verified = team::verify(&case.programs, case.world, case.options.eager);
        assert_eq!(verified, Ok(()), "seed {seed}, {:?}", case.options);
        runs_right(rng, &case, seed);
    }
}

#[test]
fn any_team_runs_once_it_is_put_in_order() {
    for seed in 0..400 {
        let rng = &mut Rng::new(seed + 1_000_000);
        let case = case(rng, Tags::Random, false);
        let verified = team::verify(&case.programs, case.world, case.options.eager);
        assert_eq!(verified, Ok(()), "seed {seed}, {:?}", case.options);
        runs_right(rng, &case, seed);
    }
}

#[test]
fn interleaved_relays_do_what_verify_says() {
    let (mut good, mut bad) = (0, 0);
    for seed in 0..600 {
        let rng = &mut Rng::new(seed + 2_000_000);
        let mut case = case(rng, Tags::Rising, true);
        case.options.eager = 0;
        match team::verify(&case.programs, case.world, 0) {
            Ok(()) => {
                good += 1;
                runs_right(rng, &case, seed);
            }
            Err(Misfit::DeadLock(_)) => {
                bad += 1;
                let mut memory: Vec<Memory> =
                    case.graphs.iter().map(|g| Memory::new(rng, g)).collect();
                let stuck = kernel::run(rng, &case.programs, &mut memory, 0, Will::Random);
                assert!(
                    !stuck.is_empty(),
                    "seed {seed} ran although verify saw a dead-lock"
                );
            }
            Err(other) => panic!("seed {seed}: {other}"),
        }
    }
    assert!(
        good > 100 && bad > 10,
        "{good} good and {bad} bad cases show little"
    );
}

#[test]
fn tags_out_of_order_are_refused_or_seen() {
    let (mut refused, mut locked) = (0, 0);
    for seed in 0..500 {
        let rng = &mut Rng::new(seed + 3_000_000);
        let graphs = random::team(rng, Tags::Random);
        let ranks: Vec<u32> = (0..graphs.len() as u32).collect();
        let options = Options {
            piece: Some(1000),
            ..Options::default()
        };
        let compiled: Result<Vec<Program>, Refused> = graphs
            .iter()
            .map(|g| compile(g, &ranks, None, &options))
            .collect();
        let programs = match compiled {
            Ok(programs) => programs,
            Err(why) => {
                assert_eq!(why, Refused::Order);
                refused += 1;
                continue;
            }
        };
        let mut memory: Vec<Memory> = graphs.iter().map(|g| Memory::new(rng, g)).collect();
        let mut expected = memory.clone();
        let stuck = kernel::run(rng, &programs, &mut memory, 0, Will::Random);
        assert_eq!(
            team::verify(&programs, 9, 0).is_ok(),
            stuck.is_empty(),
            "seed {seed}"
        );
        if stuck.is_empty() {
            interpret(&graphs, &mut expected);
            assert!(memory == expected, "seed {seed}");
        } else {
            locked += 1;
        }
    }
    assert!(
        refused > 10 && locked > 0,
        "{refused} refused, {locked} locked"
    );
}
