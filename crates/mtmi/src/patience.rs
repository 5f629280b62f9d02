//! How long to poll before sleeping.

use std::time::{Duration, Instant};

/// Polls between two looks at the clock.
const POLLS: u32 = 32;

/// How long to poll before sleeping: spinning, then giving the processor to others in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// Spinning, without giving up the processor.
    pub spin: Duration,
    /// Times that the processor is offered to others after that,
    pub yields: u32,
    /// and polls after each of them.
    pub polls: u32,
}

impl Patience {
    /// Polls until something is ready or the deadline passes (`true`), or it is time to sleep.
    pub fn poll(self, mut ready: impl FnMut() -> bool, deadline: Option<Instant>) -> bool {
        let start = Instant::now();
        loop {
            for _ in 0..POLLS {
                if ready() {
                    return true;
                }
                std::hint::spin_loop();
            }
            let now = Instant::now();
            if deadline.is_some_and(|d| now >= d) {
                return true;
            }
            if now - start >= self.spin {
                break;
            }
        }
        for _ in 0..self.yields {
            std::thread::yield_now();
            for _ in 0..self.polls {
                if ready() {
                    return true;
                }
                std::hint::spin_loop();
            }
        }
        false
    }
}
