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
        for _ in 0..self.rounds {
            give_way(state);
            for _ in 0..self.polls {
                if ready(state) {
                    return true;
                }
                std::hint::spin_loop();
            }
        }
        false
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
