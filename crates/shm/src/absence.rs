//! When this process was last away: between two looks for messages it did something else, as the program's computing between two tests, or combining in a reduction.
//!
//! What a message takes is measured from its announcement to its end ([`crate::trial`]). Of one that waits in the pipe, whole, while its receiver is away,
//! that would say how long the receiver is. So such a message doesn't count.
//!
//! Invariant: waiting in this fabric is not being away, asleep or not. Who sleeps elsewhere, on several fabrics or while other threads look, may count as away
//! afterwards; then a message is not measured that somebody waited for, and the next one is. Who calls it: `fabric` tells of looks, `direct` asks.

/// Cycles without a look from which on the process was away: one to two microseconds, more than a call takes that only looks, and less than a
/// computation that is worth being tested in between.
const AWAY: u64 = 4096;

/// What is known of it, in cycles ([`sys::clock::cycles`]).
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct Absence {
    /// When the last look ended; zero: nothing was under way then, and nobody has to know.
    left: u64,
    /// When the process was last back.
    back: u64,
}

impl Absence {
    /// A look begins.
    #[inline]
    pub fn looks(&mut self, now: impl FnOnce() -> u64) {
        if self.left == 0 {
            return;
        }
        let now = now();
        if now.saturating_sub(self.left) > AWAY {
            self.back = self.back.max(now);
        }
    }

    /// A look, or a wait, ends. `under_way`: messages are.
    pub fn leaves(&mut self, now: u64, under_way: bool) {
        self.left = if under_way { now } else { 0 };
    }

    /// Whether the process has been away after that moment.
    pub fn is_after(&self, moment: u64) -> bool {
        self.back > moment
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_gaps_between_looks_are_absences() {
        let mut absence = Absence::default();
        absence.looks(|| 1_000_000);
        assert!(!absence.is_after(0), "nothing was under way");
        absence.leaves(1_000_100, true);
        absence.looks(|| 1_000_100 + AWAY);
        assert!(!absence.is_after(0), "a short gap");
        absence.leaves(1_010_000, true);
        absence.looks(|| 1_020_000);
        assert!(absence.is_after(1_005_000) && !absence.is_after(1_020_000));
    }

    #[test]
    fn who_waits_is_not_away() {
        let mut absence = Absence::default();
        absence.leaves(1_000, true);
        // The end of a wait that took long.
        absence.leaves(9_000_000, true);
        absence.looks(|| 9_000_100);
        assert!(!absence.is_after(0));
        absence.leaves(9_000_200, false);
        absence.looks(|| 99_000_000);
        assert!(!absence.is_after(0));
    }
}
