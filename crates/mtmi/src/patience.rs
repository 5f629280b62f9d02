//! How long to poll before sleeping.

use std::time::{Duration, Instant};

/// Polls between two looks at the clock.
const POLLS: u32 = 32;

/// How long to poll before sleeping: spinning, then looking in between whether others need the processor.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// Spinning, without giving up the processor; 0: not at all.
    pub spin: Duration,
    /// Rounds after that, each of which begins with giving way to whoever needs the processor,
    pub rounds: u32,
    /// and polls of a round.
    pub polls: u32,
    /// Longest that all rounds together may take, if any is begun after that: what a poll takes depends on what is looked at.
    pub longest: Duration,
    /// Time for which there are more than [`rounds`](Patience::rounds).
    pub least: Duration,
}

impl Patience {
    /// Polls until `state` is ready or the deadline passes (`true`), or it is time to sleep. `give_way` lets
    /// others have the processor if that helps.
    pub fn poll<S>(
        self,
        state: &mut S,
        mut ready: impl FnMut(&mut S) -> bool,
        mut give_way: impl FnMut(&mut S),
        deadline: Option<Instant>,
    ) -> bool {
        if !self.spin.is_zero() && self.spins(state, &mut ready, deadline) {
            return true;
        }
        let (start, mut rounds) = (Instant::now(), 0_u32);
        let timed = deadline.is_some() || self.longest < Duration::MAX;
        loop {
            // To read the clock takes a tenth of the time of a yield that nobody uses.
            if timed || rounds >= self.rounds {
                let now = Instant::now();
                // Not before others had the processor: a deadline may have passed before this was called, again and again.
                if rounds > 0 && deadline.is_some_and(|deadline| now >= deadline) {
                    return true;
                }
                let took = now - start;
                if took >= self.longest || (rounds >= self.rounds && took >= self.least) {
                    return false;
                }
            }
            rounds = rounds.saturating_add(1);
            give_way(state);
            for _ in 0..self.polls {
                if ready(state) {
                    return true;
                }
                std::hint::spin_loop();
            }
        }
    }

    /// Spins until `state` is ready or the deadline passes (`true`), or it has for long enough.
    fn spins<S>(
        self,
        state: &mut S,
        mut ready: impl FnMut(&mut S) -> bool,
        deadline: Option<Instant>,
    ) -> bool {
        let start = Instant::now();
        loop {
            for _ in 0..POLLS {
                if ready(state) {
                    return true;
                }
                std::hint::spin_loop();
            }
            let now = Instant::now();
            if deadline.is_some_and(|d| now >= d) {
                return true;
            }
            if now - start >= self.spin {
                return false;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_end_by_number_or_by_time() {
        let patience = |rounds, longest| Patience {
            spin: Duration::ZERO,
            rounds,
            polls: 2,
            longest,
            least: Duration::ZERO,
        };
        let count = |patience: Patience| {
            let mut polls = 0;
            let never = |polls: &mut u32| {
                *polls += 1;
                false
            };
            assert!(!patience.poll(&mut polls, never, |_| (), None));
            polls
        };
        assert_eq!(count(patience(7, Duration::MAX)), 14);
        assert_eq!(count(patience(7, Duration::ZERO)), 0);
        let long = count(patience(u32::MAX, Duration::from_millis(1)));
        assert!(long > 0 && long.is_multiple_of(2));
        // However slow the machine is: so many rounds, and no end before the time.
        let start = Instant::now();
        let least = Duration::from_millis(2);
        let lingering = Patience {
            least,
            ..patience(7, Duration::MAX)
        };
        assert!(count(lingering) >= 14 && start.elapsed() >= least);
        assert_eq!(
            count(Patience {
                longest: Duration::ZERO,
                ..lingering
            }),
            0
        );
        // Nor beyond the deadline.
        let forever = Patience {
            least: Duration::MAX,
            ..lingering
        };
        assert!(forever.poll(&mut (), |_| false, |_| (), Some(start + 2 * least)));
    }
}
