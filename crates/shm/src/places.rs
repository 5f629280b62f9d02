//! Which processor each rank of the node was last seen on: what tells a rank that polls whether it keeps a peer
//! from running.
//!
//! The scheduler may put two ranks onto one processor while another is idle (a wake-up does that, and as both poll, none
//! is ever seen to be in need). So a rank that has polled for a while writes down where it runs and looks for
//! others there. Alone on its processor it goes on polling: to yield would hand the processor to strangers, for
//! milliseconds. With company it yields, and the one with the higher index moves to a processor that no rank
//! claims: it takes the present one out of its affinity mask and puts the old mask back at once.
//!
//! The places are hints. They are stale while a rank computes, a peer may write nonsense: the worst is a needless yield or move.
//! Called by `waiting`.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Least time between two moves of a rank. Moving costs some 10 microseconds, so this bounds it to one percent where the
/// scheduler takes the rank back each time.
const BETWEEN_MOVES: Duration = Duration::from_millis(1);

/// What a rank that polls does about the ranks beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// Nobody else is on this processor.
    Alone,
    /// Somebody is, who will move or can't.
    Yield,
    /// Somebody is, and this rank is the one to move.
    Move,
}

/// A place as it stands in the segment: 0 says nothing.
fn place(cpu: usize) -> u64 {
    cpu as u64 + 1
}

fn judge(places: &[AtomicU64], local: u32, here: u64) -> Verdict {
    let is_here = |p: &AtomicU64| p.load(Ordering::Relaxed) == here;
    let (before, after) = places.split_at((local as usize).min(places.len()));
    if before.iter().any(is_here) {
        return Verdict::Move;
    }
    match after.iter().skip(1).any(is_here) {
        true => Verdict::Yield,
        false => Verdict::Alone,
    }
}

/// This rank's view of the places.
#[derive(Debug)]
pub(crate) struct Mover {
    local: u32,
    moved: Option<Instant>,
}

impl Mover {
    /// For the rank with index `local` on the node.
    pub fn new(local: u32) -> Mover {
        Mover { local, moved: None }
    }

    /// Says where this rank runs, and gives way to a rank on the same processor, if there is one.
    pub fn give_way(&mut self, places: &[AtomicU64]) {
        let cpu = sys::cpus::current();
        self.claim(places, cpu);
        match judge(places, self.local, place(cpu)) {
            Verdict::Alone => {}
            Verdict::Move if self.may_move() => self.leave(places, cpu),
            Verdict::Move | Verdict::Yield => std::thread::yield_now(),
        }
    }

    fn claim(&self, places: &[AtomicU64], cpu: usize) {
        let Some(mine) = places.get(self.local as usize) else {
            return;
        };
        // Written only if it changed: others read this line over and over.
        if mine.load(Ordering::Relaxed) != place(cpu) {
            mine.store(place(cpu), Ordering::Relaxed);
        }
    }

    fn may_move(&mut self) -> bool {
        let now = Instant::now();
        if self.moved.is_some_and(|last| now - last < BETWEEN_MOVES) {
            return false;
        }
        self.moved = Some(now);
        true
    }

    fn leave(&self, places: &[AtomicU64], cpu: usize) {
        let taken = |c: usize| places.iter().any(|p| p.load(Ordering::Relaxed) == place(c));
        if sys::cpus::leave(|c| c == cpu || taken(c)) {
            self.claim(places, sys::cpus::current());
        } else {
            std::thread::yield_now();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(cpus: &[Option<usize>]) -> Vec<AtomicU64> {
        let word = |cpu: &Option<usize>| AtomicU64::new(cpu.map_or(0, place));
        cpus.iter().map(word).collect()
    }

    #[test]
    fn the_higher_index_moves() {
        let all = places(&[Some(3), Some(0), None, Some(3)]);
        assert_eq!(judge(&all, 0, place(3)), Verdict::Yield);
        assert_eq!(judge(&all, 1, place(0)), Verdict::Alone);
        assert_eq!(judge(&all, 2, place(0)), Verdict::Move);
        assert_eq!(judge(&all, 3, place(3)), Verdict::Move);
        assert_eq!(judge(&all, 9, place(5)), Verdict::Alone);
    }

    #[test]
    fn two_on_one_processor_part() {
        let cpus = sys::cpus::affinity();
        if cpus.len() < 2 {
            return;
        }
        std::thread::spawn(move || {
            let all = places(&[Some(cpus[0]), None]);
            sys::cpus::bind(&cpus[..1]).unwrap();
            let mut mover = Mover::new(1);
            // It may go nowhere while it is bound,
            mover.give_way(&all);
            assert_eq!(sys::cpus::current(), cpus[0]);
            // and then it goes.
            sys::cpus::bind(&cpus).unwrap();
            mover.moved = None;
            while sys::cpus::current() == cpus[0] {
                mover.give_way(&all);
            }
            assert_eq!(sys::cpus::affinity(), cpus);
            assert!(mover.moved.is_some());
        })
        .join()
        .unwrap();
    }
}
