//! Whether ranks that nobody here knows of share this processor: those of another container or another network namespace, which are peers over the
//! network. A yield that takes somewhat long tells: somebody else ran meanwhile, and yielded in turn.
//!
//! Only [`Fabrics`](crate::Fabrics) with a network ask, beside which a yield costs little; within a segment ranks know of each other. Who knows of
//! somebody yields sooner (three ranks in namespaces of their own, on two processors: 8 bytes are reduced for all in 43 us in place of 78).

/// Cycles that a yield takes at most if nobody else wants to run: half a microsecond is usual, and somebody who looks once and yields in turn takes more
/// than one.
const ALONE: u64 = 4_000;
/// And if somebody yields in turn: a tenth of a millisecond. Who computes keeps the processor for as long as the system lets it, milliseconds; to yield
/// to that one more often would only lose more.
const IN_TURN: u64 = 400_000;
/// Yields that nobody has used, in a row, until the processor counts as this process's own again: a tenth of a millisecond of polling.
const UNUSED: u32 = 64;

/// What yields have told.
#[derive(Debug, Default)]
pub(crate) struct Neighbours {
    /// Unused yields until there are none any more.
    left: u32,
}

impl Neighbours {
    /// Whether there are any.
    #[inline]
    pub fn are_there(&self) -> bool {
        self.left > 0
    }

    /// Lets them have the processor.
    pub fn give_way(&mut self) {
        let before = sys::clock::cycles();
        std::thread::yield_now();
        self.note(sys::clock::cycles().wrapping_sub(before));
    }

    /// A yield took so many cycles.
    pub fn note(&mut self, cycles: u64) {
        if cycles <= ALONE {
            self.left = self.left.saturating_sub(1);
        } else if cycles <= IN_TURN {
            self.left = UNUSED;
        } else {
            self.left = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_yield_that_is_used_tells_of_somebody_and_many_that_are_not_that_it_is_gone() {
        let mut neighbours = Neighbours::default();
        assert!(!neighbours.are_there());
        for _ in 0..2 {
            neighbours.note(ALONE + 1);
            for _ in 1..UNUSED {
                neighbours.note(ALONE);
                assert!(neighbours.are_there());
            }
            neighbours.note(ALONE);
            assert!(!neighbours.are_there());
        }
    }

    #[test]
    fn who_computes_is_no_neighbour() {
        let mut neighbours = Neighbours::default();
        neighbours.note(IN_TURN);
        assert!(neighbours.are_there());
        neighbours.note(IN_TURN + 1);
        assert!(!neighbours.are_there());
    }
}
