//! Ranks that compute: their collectives end without them.

mod world;

use cad_softirq::layout::{Op, Type};
use cad_softirq::rank::{End, Member, Part};
use cad_softirq::resend::Resend;
use std::hint::black_box;
use std::time::Instant;
use world::{LIMIT, World, apart, lossy, noise};

/// A ring, if the machine lets one be.
fn resend(member: &Member) -> Option<Resend> {
    match Resend::new(member) {
        Ok(resend) => Some(resend),
        Err(why) => {
            world::skipped(&format!("io_uring: {why}"));
            None
        }
    }
}

/// Computes until the collective is over: no system call.
fn compute(member: &Member) {
    let (end, mut sum, mut seed) = (Instant::now() + LIMIT, 0, 1);
    while !member.is_over() {
        for _ in 0..200 {
            sum ^= noise(&mut seed);
        }
        assert!(Instant::now() < end, "nothing came to a rank that computes");
    }
    black_box(sum);
}

#[test]
fn over_a_lossy_link_collectives_of_ranks_that_compute_end() {
    apart(|| {
        let mut world = World::new(&[1, 1, 1, 1, 1], 2);
        let resends: Option<Vec<_>> = world.ranks.iter().map(resend).collect();
        let Some(resends) = resends else {
            return;
        };
        let _lossy = lossy();
        std::thread::scope(|scope| {
            let ranks = world.ranks.iter_mut().zip(resends);
            for (rank, (member, mut resend)) in (0_u64..).zip(ranks) {
                scope.spawn(move || {
                    for round in 0..200_u64 {
                        let mine = (rank * 1000 + round).to_le_bytes().repeat(125);
                        // Of all lengths, as one chain serves many starts.
                        let bytes = [8, 0, 1000][round as usize % 3];
                        let part = match bytes {
                            0 => Part::Nothing,
                            _ => Part::Reduce(Op::Sum, Type::U64, &mine[..bytes]),
                        };
                        member.start(part).unwrap();
                        if !member.is_over() {
                            resend.follow(member).unwrap();
                            compute(member);
                        }
                        let mut all = vec![0; bytes];
                        assert_eq!(member.result(&mut all), Some(End::Done));
                        let sum = (10_000 + 5 * round).to_le_bytes();
                        assert!(all.chunks(8).all(|word| word == sum));
                    }
                });
            }
        });
    });
}

#[test]
fn what_was_started_is_said_until_that_is_ended() {
    apart(|| {
        let mut world = World::new(&[2], 1);
        let Some(mut resend) = resend(&world.ranks[0]) else {
            return;
        };
        world.ranks[0].start(Part::Nothing).unwrap();
        resend.follow(&world.ranks[0]).unwrap();
        let repeated = |world: &World| world.tables.counts(world.places[0]).unwrap().repeated;
        let begin = Instant::now();
        while repeated(&world) < 3 {
            assert!(begin.elapsed() < LIMIT, "it is not said again");
            black_box(begin);
        }
        resend.disarm().unwrap();
        assert!(resend.said() >= 3);
        let told = repeated(&world);
        std::thread::sleep(std::time::Duration::from_millis(50));
        assert_eq!(repeated(&world), told);
        // It can be done over and over, also if it never has to say anything.
        for _ in 0..100 {
            resend.follow(&world.ranks[0]).unwrap();
            resend.disarm().unwrap();
        }
        drop(resend);
        world.ranks[1].start(Part::Nothing).unwrap();
        while !world.ranks.iter().all(Member::is_over) {}
    });
}
