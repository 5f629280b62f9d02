//! Which processor each rank of the node was last seen on: what tells a rank that polls whether it keeps a peer
//! from running.
//!
//! The scheduler may put two ranks onto one processor while another is idle (a wake-up does that, and as both poll, none
//! is ever seen to be in need). So a rank that has polled for a while writes down where it runs and looks for
//! others there. Alone on its processor it goes on polling: to yield would hand the processor to strangers, for
//! milliseconds. With company it yields, and the one with the higher index moves to a processor that no rank
//! claims: it takes the present one out of its affinity mask and puts the old mask back at once.
//!
//! Where ranks share processors all of them yield, and none is ever seen to be in need either: four on two processors may stay three
//! on one for seconds (a barrier takes 3.1 us then in place of 2.3). So one that yields looks now and then whether its processor has at least two ranks more than
//! another that it may use; of the ranks there the one with the highest index goes ([`Spread`]).
//!
//! The places are hints. They are stale while a rank computes, a peer may write nonsense: the worst is a needless yield or move.
//! Called by `waiting`.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Least time between two moves of a rank. Moving costs some 10 microseconds, so this bounds it to one percent where the
/// scheduler takes the rank back each time.
const BETWEEN_MOVES: Duration = Duration::from_millis(1);

/// The same where ranks share processors: what was looked at is as old.
const BETWEEN_LOOKS: Duration = Duration::from_millis(4);
/// Of so many yields one asks what time it is.
const YIELDS: u32 = 16;

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

/// Says where a rank runs.
fn claim(places: &[AtomicU64], local: u32, cpu: usize) {
    let Some(mine) = places.get(local as usize) else {
        return;
    };
    // Written only if it changed: others read this line over and over.
    if mine.load(Ordering::Relaxed) != place(cpu) {
        mine.store(place(cpu), Ordering::Relaxed);
    }
}

/// How many ranks claim a place.
fn count(sorted: &[u64], place: u64) -> usize {
    sorted.partition_point(|&p| p <= place) - sorted.partition_point(|&p| p < place)
}

/// Whether rank `local`, which is at `here`, is the one to go elsewhere if others have fewer ranks.
fn is_last(places: &[AtomicU64], local: u32, here: u64) -> bool {
    let after = places.iter().skip(local as usize + 1);
    after
        .map(|p| p.load(Ordering::Relaxed))
        .all(|place| place != here)
}

/// Where ranks share processors: this rank's part in spreading them evenly.
#[derive(Debug)]
pub(crate) struct Spread {
    local: u32,
    yields: u32,
    looked: Option<Instant>,
}

impl Spread {
    /// For the rank with index `local` on the node.
    pub fn new(local: u32) -> Spread {
        Spread {
            local,
            yields: 0,
            looked: None,
        }
    }

    /// Says where this rank runs, and gives its processor to whoever needs it, or goes to another that has fewer ranks.
    pub fn give_way(&mut self, places: &[AtomicU64]) {
        let cpu = sys::cpus::current();
        claim(places, self.local, cpu);
        self.yields = self.yields.wrapping_add(1);
        if self.yields.is_multiple_of(YIELDS) && self.is_time() && self.leave(places, cpu) {
            return;
        }
        std::thread::yield_now();
    }

    fn is_time(&mut self) -> bool {
        let now = Instant::now();
        if self.looked.is_some_and(|last| now - last < BETWEEN_LOOKS) {
            return false;
        }
        self.looked = Some(now);
        true
    }

    /// Goes to a processor with at least two ranks fewer, if there is one and no other rank is to go first.
    fn leave(&self, places: &[AtomicU64], cpu: usize) -> bool {
        if !is_last(places, self.local, place(cpu)) {
            return false;
        }
        let mut sorted: Vec<u64> = places.iter().map(|p| p.load(Ordering::Relaxed)).collect();
        sorted.sort_unstable();
        let here = count(&sorted, place(cpu));
        let left = here >= 2 && sys::cpus::leave(|c| count(&sorted, place(c)) + 2 > here);
        if left {
            claim(places, self.local, sys::cpus::current());
        }
        left
    }
}

/// This rank's view of the places, where there is a processor for each.
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
        claim(places, self.local, cpu);
        match judge(places, self.local, place(cpu)) {
            Verdict::Alone => {}
            Verdict::Move if self.may_move() => self.leave(places, cpu),
            Verdict::Move | Verdict::Yield => std::thread::yield_now(),
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
            claim(places, self.local, sys::cpus::current());
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
    fn the_last_of_too_many_goes() {
        let all = places(&[Some(1), Some(1), None, Some(1), Some(0)]);
        assert!(is_last(&all, 3, place(1)) && !is_last(&all, 1, place(1)));
        assert!(is_last(&all, 4, place(0)) && is_last(&all, 9, place(1)));
        let sorted = [0, 1, 2, 2, 2];
        assert_eq!(
            [0, 1, 2, 3].map(|cpu| count(&sorted, place(cpu))),
            [1, 3, 0, 0]
        );
        let cpus = sys::cpus::affinity();
        if cpus.len() < 2 {
            return;
        }
        std::thread::spawn(move || {
            sys::cpus::bind(&cpus[..1]).unwrap();
            sys::cpus::bind(&cpus).unwrap();
            let here = sys::cpus::current();
            let other = *cpus.iter().find(|&&c| c != here).unwrap();
            // One more is as it should be,
            let fair: Vec<_> = cpus.iter().map(|&c| Some(c)).chain([Some(here)]).collect();
            assert!(!Spread::new(fair.len() as u32 - 1).leave(&places(&fair), here));
            // two are too many, for the last of them.
            let crowd: Vec<_> = std::iter::repeat_n(Some(here), 3)
                .chain(
                    cpus.iter()
                        .filter(|&&c| c != here && c != other)
                        .map(|&c| Some(c)),
                )
                .collect();
            assert!(!Spread::new(0).leave(&places(&crowd), here));
            let (all, mut spread) = (places(&crowd), Spread::new(2));
            while sys::cpus::current() == here {
                spread.looked = None;
                spread.give_way(&all);
            }
            assert_eq!(sys::cpus::affinity(), cpus);
        })
        .join()
        .unwrap();
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
