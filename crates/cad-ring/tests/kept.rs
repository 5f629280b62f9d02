//! Plans that are kept from one issue to the next: each issue is as good as the first, whatever happened between.

mod world;

use cad_ring::Kept;
use cad_run::{Callback, Descriptor, Executor, Issued, State, UserBuf};
use std::rc::Rc;
use world::line::{Line, alone, block, did};
use world::{Rank, run, run_with, soon};

/// A line of numbers that is kept on a channel of its own.
struct KeptLine {
    line: Line,
    kept: Kept,
}

fn keep(r: &mut Rank, numbers: usize, channel: u32) -> KeptLine {
    let mut line = Line::new(numbers);
    let plan = line.plan(r);
    let kept = r.ring.keep(&plan, channel);
    KeptLine { line, kept }
}

impl KeptLine {
    fn issue(&mut self, r: &mut Rank, round: i64) -> Issued {
        self.line.fill(r.rank, round);
        r.ring.issue_kept(&self.kept).unwrap()
    }

    fn end(&self, r: &mut Rank, issued: &Issued, round: i64) {
        assert_eq!(r.ring.wait(issued, soon()), State::Done);
        self.line.check(r.rank, round);
    }

    fn run(&mut self, r: &mut Rank, round: i64) {
        let issued = self.issue(r, round);
        self.end(r, &issued, round);
    }
}

#[test]
fn many_are_started_in_any_order() {
    let _alone = alone();
    for callback in [Callback::Signal, Callback::None] {
        run_with(4, callback, |mut r| {
            let mut all: Vec<KeptLine> =
                (0..7).map(|n| keep(&mut r, 10 * n + 1, n as u32)).collect();
            for round in 0..30 {
                // Another order on each rank: by a factor that has none in common with 7.
                let turn = |i: usize| (i * (r.rank as usize + 1) + round as usize) % 7;
                let order: Vec<usize> = (0..7).map(turn).collect();
                let issued: Vec<(usize, Issued)> = order
                    .into_iter()
                    .map(|i| (i, all[i].issue(&mut r, round)))
                    .collect();
                for (i, issued) in issued {
                    all[i].end(&mut r, &issued, round);
                }
            }
            r.meet();
        });
    }
}

#[test]
fn one_channel_has_many_at_once() {
    let _alone = alone();
    run(3, |mut r| {
        let mut all: Vec<KeptLine> = (0..5).map(|_| keep(&mut r, 3, 9)).collect();
        for round in 0..30 {
            let issued: Vec<Issued> = all.iter_mut().map(|l| l.issue(&mut r, round)).collect();
            for (line, issued) in all.iter().zip(&issued) {
                line.end(&mut r, issued, round);
            }
            // The lanes are another's the next time.
            all.rotate_left(1);
            all[0].run(&mut r, round + 100);
        }
        r.meet();
    });
}

#[test]
fn after_one_is_taken_back_the_next_is_as_good() {
    let _alone = alone();
    run(3, |mut r| {
        let mut line = keep(&mut r, 5, 0);
        let mut never = [0u8; 8];
        let mut cad = Descriptor::new(r.rank, 3, None);
        cad.make_recv_node(UserBuf::of_array(&mut never), 8, (r.rank + 1) % 3)
            .unwrap();
        let nobody = Rc::new(cad.plan().unwrap());
        let nobody = r.ring.keep(&nobody, 0);
        for round in 0..20 {
            line.run(&mut r, round);
            line.run(&mut r, round + 100);
            let stuck = r.ring.issue_kept(&nobody).unwrap();
            r.meet();
            r.ring.cancel(&stuck);
            assert_eq!(r.ring.wait(&stuck, soon()), State::Cancelled);
            r.meet();
        }
        line.run(&mut r, 1000);
        r.meet();
    });
}

#[test]
fn what_is_dropped_is_given_to_others() {
    let _alone = alone();
    run(2, |mut r| {
        for round in 0..40 {
            // In all, many times the handler's entries.
            let mut all: Vec<KeptLine> = (0..20).map(|n| keep(&mut r, 2, n)).collect();
            for line in &mut all {
                line.run(&mut r, round);
                line.run(&mut r, round + 1);
                line.run(&mut r, round + 2);
            }
            let issued: Vec<Issued> = all.iter_mut().map(|l| l.issue(&mut r, round)).collect();
            // Whoever is dropped while it is under way goes on.
            let lines: Vec<Line> = all.into_iter().map(|kept| kept.line).collect();
            let mut other = keep(&mut r, 2, 50);
            other.run(&mut r, round);
            for (line, issued) in lines.iter().zip(&issued) {
                assert_eq!(r.ring.wait(issued, soon()), State::Done);
                line.check(r.rank, round);
            }
            r.meet();
        }
    });
}

#[test]
fn the_handler_does_its_part_of_each_unless_it_may_not() {
    let _alone = alone();
    run(2, |mut r| {
        let mut line = keep(&mut r, 4, 0);
        for round in 0..4 {
            line.run(&mut r, round);
        }
        let before = did(&mut r.ring);
        for round in 0..10 {
            if round == 5 {
                block(true);
            }
            line.run(&mut r, round);
        }
        block(false);
        r.meet();
        let after = did(&mut r.ring);
        let done = (after.0 - before.0) + (after.1 - before.1);
        assert_eq!(done, if r.rank > 0 { 10 } else { 0 });
        r.meet();
    });
}
