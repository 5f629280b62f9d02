//! Whose turn it is to read a rank's own memory, where ranks share processors.
//!
//! To copy out of another process's memory the kernel locks its page table for each page, and counts that page's users up and down. Two processors that do so to the
//! same pages wait for each other's cache lines: 1 MiB that two ranks read at once takes each of them 170 to 200 microseconds, and one that is alone 100 (measured on a Xeon of
//! the fifth generation). So they take turns, a chunk each: who finds somebody reading does something else and looks again when it makes progress, and a rank that computes goes on
//! with that.
//!
//! A turn is a hint. Nobody relies on being alone, so no order of memory accesses is asked for; and nobody waits for ever, whatever a peer that died, was stopped or writes
//! nonsense leaves in the word: for a turn that does not end for [`STUCK`] cycles, and for one message as many cycles as it has bytes, which is longer than reading it takes.
//!
//! Not where each rank has a processor: there the lender helps each reader (`mapped`), and this was not measured.
//!
//! Who calls it: `mapped`, for messages that are lent and read alone.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// Shortest message for which turns are taken. It is read within some 12 microseconds; shorter ones meet rarely, and gain little.
pub(crate) const TURNS_FROM: u64 = 128 << 10;
/// Cycles (nanoseconds, where there is no counter of cycles) after which a turn that has not ended does not count any more: some three times what a chunk takes.
pub(crate) const STUCK: u64 = 200_000;

/// Bits of the word that say who reads, as its index on the node and one; zero: nobody. The rest counts turns.
const READER: u64 = 0xffff;

const _: () = assert!((crate::segment::MOST_RANKS as u64) < READER);

/// What a reader knows of others' turns while it waits for its own in one message.
#[derive(Clone, Copy, Default)]
pub(crate) struct Waiting {
    /// When it was first refused one, in cycles,
    since: Option<u64>,
    /// the word that it saw last, and since when.
    seen: (u64, u64),
}

impl Waiting {
    /// Whether rank `local` may read the next chunk of a message of so many bytes; if so, it says at the [end](end) of that.
    pub fn may_read(&mut self, word: &AtomicU64, local: u32, bytes: u64, now: u64) -> bool {
        let seen = word.load(Relaxed);
        if seen & READER != 0 && !self.is_over(seen, bytes, now) {
            return false;
        }
        let next = ((seen >> READER.count_ones()) + 1) << READER.count_ones() | mark(local);
        // Where another was quicker it is that one's turn, unless enough was waited.
        word.compare_exchange(seen, next, Relaxed, Relaxed).is_ok()
            || self.is_over(word.load(Relaxed), bytes, now)
    }

    /// Whether enough was waited; somebody reads, according to the word `seen`.
    fn is_over(&mut self, seen: u64, bytes: u64, now: u64) -> bool {
        let since = *self.since.get_or_insert(now);
        if self.seen.0 != seen {
            self.seen = (seen, now);
        }
        now.saturating_sub(self.seen.1) >= STUCK || now.saturating_sub(since) >= bytes.max(STUCK)
    }
}

/// Rank `local` has read its chunk.
pub(crate) fn end(word: &AtomicU64, local: u32) {
    let seen = word.load(Relaxed);
    if seen & READER == mark(local) {
        // It fails where somebody has waited for long enough meanwhile, whose turn it is then.
        let _ = word.compare_exchange(seen, seen & !READER, Relaxed, Relaxed);
    }
}

fn mark(local: u32) -> u64 {
    u64::from(local) + 1
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const LONG: u64 = 4 << 20;

    #[test]
    fn one_reads_and_the_other_waits_for_the_end() {
        let word = AtomicU64::new(0);
        let (mut one, mut other) = (Waiting::default(), Waiting::default());
        assert!(one.may_read(&word, 3, LONG, 1000));
        assert!(!other.may_read(&word, 0, LONG, 1001));
        end(&word, 0);
        assert!(
            !other.may_read(&word, 0, LONG, 1002),
            "that was not its own"
        );
        end(&word, 3);
        assert!(other.may_read(&word, 0, LONG, 1003));
        assert!(!one.may_read(&word, 3, LONG, 1004));
        end(&word, 0);
        assert!(one.may_read(&word, 3, LONG, 1005));
    }

    #[test]
    fn nobody_waits_for_one_that_is_gone() {
        let word = AtomicU64::new(0);
        assert!(Waiting::default().may_read(&word, 3, LONG, 1));
        let mut waiting = Waiting::default();
        assert!(!waiting.may_read(&word, 0, LONG, 10));
        assert!(!waiting.may_read(&word, 0, LONG, 9 + STUCK));
        assert!(waiting.may_read(&word, 0, LONG, 10 + STUCK));
        // And if it was not gone after all, its end is not this one's.
        end(&word, 3);
        assert!(!Waiting::default().may_read(&word, 1, LONG, 11 + STUCK));
        end(&word, 0);
        assert!(Waiting::default().may_read(&word, 1, LONG, 12 + STUCK));
    }

    #[test]
    fn nobody_waits_longer_than_for_its_own_bytes() {
        let (word, mut waiting) = (AtomicU64::new(0), Waiting::default());
        let mut now = 1;
        // Others read all the time, each briefly.
        let refused = (0..).take_while(|_| {
            assert!(Waiting::default().may_read(&word, 3, LONG, now));
            let refused = !waiting.may_read(&word, 0, LONG, now);
            end(&word, 3);
            now += STUCK / 2;
            refused
        });
        assert_eq!(refused.count() as u64, LONG.div_ceil(STUCK / 2));
        // From then on it asks nobody any more, in this message.
        end(&word, 0);
        assert!(Waiting::default().may_read(&word, 3, LONG, now));
        assert!(waiting.may_read(&word, 0, LONG, now + 1));
    }

    #[test]
    fn any_word_is_taken_for_one_of_somebody_who_reads_or_of_nobody() {
        for nonsense in [u64::MAX, u64::MAX - READER, READER, 1 << 63] {
            let (word, mut waiting) = (AtomicU64::new(nonsense), Waiting::default());
            let nobody = nonsense & READER == 0;
            assert_eq!(waiting.may_read(&word, 0, LONG, 1), nobody);
            assert!(nobody || waiting.may_read(&word, 0, LONG, 1 + STUCK));
            end(&word, 0);
            assert_eq!(word.load(Relaxed) & READER, 0);
        }
    }
}
