//! Whose turn it is to read a rank's own memory, where ranks share processors.
//!
//! To copy out of another process's memory the kernel locks its page table for each page, and counts that page's users up and down. Two processors that do so to the
//! same pages wait for each other's cache lines: 1 MiB that two ranks read at once takes each of them 170 to 200 microseconds, and one that is alone 100 (measured on a Xeon of
//! the fifth generation). So they take turns, a chunk each: who finds somebody reading does something else and looks again when it makes progress, and a rank that computes goes on
//! with that.
//!
//! Who waits comes first. A rank that has nothing else to do looks again [soon](SOON) and says in the word that the turn is *wanted*; who reads then leaves the next turn to others
//! for [a while](GIVEN_WAY). A rank that computes looks seldom, and hardly ever says so. (Who reads takes the next turn sooner than others can look: a rank that computes and found 1 MiB
//! first used to read all of it between two of its products, while another waited.) A rank that computes and gives way reads on when it looks next: one that looks as seldom as each few
//! milliseconds does so once in a message, as it has waited for [long enough](Waiting::has_waited) then.
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
/// Cycles within which a rank looks again that does nothing but wait: five to eight microseconds, in which others on its processor look too.
const SOON: u64 = 1 << 14;
/// Cycles for which who gave way leaves the turn to others: one or two microseconds, in which a rank that waits has looked.
const GIVEN_WAY: u64 = 1 << 12;

/// Bits of the word that say who reads, as its index on the node and one; zero: nobody.
const READER: u64 = 0xffff;
/// Bit of the word that says that somebody waits for the end of this turn. The rest counts turns.
const WANTED: u64 = 1 << READER.count_ones();
/// One turn more.
const NEXT: u64 = WANTED << 1;

const _: () = assert!((crate::segment::MOST_RANKS as u64) < READER);

/// What a reader knows of others' turns while it waits for its own in one message.
#[derive(Clone, Copy, Default)]
pub(crate) struct Waiting {
    /// When it first was refused one or gave way, in cycles,
    since: Option<u64>,
    /// when it last was refused one,
    refused: Option<u64>,
    /// the word that it saw then, but for who wants it, and since when,
    seen: (u64, u64),
    /// and the word with which it gave way, and when, until it reads again.
    gave_way: Option<(u64, u64)>,
}

impl Waiting {
    /// Whether rank `local` may read the next chunk of a message of so many bytes; if so, it says at the [end](end) of that.
    pub fn may_read(&mut self, word: &AtomicU64, local: u32, bytes: u64, now: u64) -> bool {
        let seen = word.load(Relaxed);
        if let Some((left, at)) = self.gave_way
            && seen == left
            && now.saturating_sub(at) < GIVEN_WAY
        {
            return false;
        }
        self.gave_way = None;
        if seen & READER != 0 && !self.is_over(seen, bytes, now) {
            self.refuse(word, seen, now);
            return false;
        }
        let next = ((seen & !(NEXT - 1)).wrapping_add(NEXT)) | mark(local);
        // Where another was quicker it is that one's turn, unless enough was waited.
        word.compare_exchange(seen, next, Relaxed, Relaxed).is_ok()
            || self.is_over(word.load(Relaxed), bytes, now)
    }

    /// Rank `local`, which [ends](end) its turn now and has more to read, leaves the next one to others if one of them waits for it.
    pub fn give_way(&mut self, word: &AtomicU64, local: u32, bytes: u64, now: u64) {
        let seen = word.load(Relaxed);
        let wanted = seen & (WANTED | READER) == WANTED | mark(local);
        if wanted && !self.has_waited(bytes, now) {
            self.gave_way = Some((seen & !READER, now));
        }
    }

    /// It is another's turn, according to the word `seen`: one that looks again soon says that it waits.
    fn refuse(&mut self, word: &AtomicU64, seen: u64, now: u64) {
        let soon = self.refused.is_some_and(|at| now.saturating_sub(at) < SOON);
        self.refused = Some(now);
        if soon && seen & WANTED == 0 {
            // It fails where that turn is over.
            let _ = word.compare_exchange(seen, seen | WANTED, Relaxed, Relaxed);
        }
    }

    /// Whether enough was waited; somebody reads, according to the word `seen`.
    fn is_over(&mut self, seen: u64, bytes: u64, now: u64) -> bool {
        if self.seen.0 != seen & !WANTED {
            self.seen = (seen & !WANTED, now);
        }
        self.has_waited(bytes, now) || now.saturating_sub(self.seen.1) >= STUCK
    }

    /// Whether this message has waited for long enough.
    fn has_waited(&mut self, bytes: u64, now: u64) -> bool {
        let since = *self.since.get_or_insert(now);
        now.saturating_sub(since) >= bytes.max(STUCK)
    }
}

/// Rank `local` has read its chunk.
pub(crate) fn end(word: &AtomicU64, local: u32) {
    let seen = word.load(Relaxed);
    if seen & READER == mark(local) {
        // One that has waited for long enough and begins just now loses its mark: it does not rely on being alone.
        word.fetch_and(!READER, Relaxed);
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

    /// Rank 3 reads, rank 0 looks at times `looks`, and behind them rank 3 ends its turn with more to read.
    fn after_a_turn(word: &AtomicU64, looks: [u64; 2]) -> (Waiting, Waiting) {
        let (mut one, mut other) = (Waiting::default(), Waiting::default());
        assert!(one.may_read(word, 3, LONG, 1));
        for at in looks {
            assert!(!other.may_read(word, 0, LONG, at));
        }
        one.give_way(word, 3, LONG, 1000 + SOON);
        end(word, 3);
        (one, other)
    }

    #[test]
    fn who_waits_comes_before_who_has_just_read() {
        let word = AtomicU64::new(0);
        let (mut one, mut other) = after_a_turn(&word, [2, 1 + SOON]);
        assert!(!one.may_read(&word, 3, LONG, 1001 + SOON));
        assert!(other.may_read(&word, 0, LONG, 1002 + SOON));
        // Nobody waits any more: this one computes, and looks once.
        assert!(!one.may_read(&word, 3, LONG, 1003 + SOON));
        other.give_way(&word, 0, LONG, 1004 + SOON);
        end(&word, 0);
        assert!(other.may_read(&word, 0, LONG, 1005 + SOON));
    }

    #[test]
    fn who_looks_seldom_is_not_waited_for() {
        let word = AtomicU64::new(0);
        let (mut one, _) = after_a_turn(&word, [2, 2 + SOON]);
        assert!(one.may_read(&word, 3, LONG, 1001 + SOON));
    }

    #[test]
    fn a_turn_that_nobody_takes_is_taken_after_a_while() {
        let word = AtomicU64::new(0);
        let (mut one, _) = after_a_turn(&word, [2, 3]);
        assert!(!one.may_read(&word, 3, LONG, 999 + SOON + GIVEN_WAY));
        assert!(one.may_read(&word, 3, LONG, 1000 + SOON + GIVEN_WAY));
        // And that one wanted it is not known of the new turn.
        end(&word, 3);
        assert!(one.may_read(&word, 3, LONG, 1001 + SOON + GIVEN_WAY));
    }

    #[test]
    fn whoever_always_wants_the_turn_keeps_nobody() {
        let (word, mut waiting) = (AtomicU64::new(0), Waiting::default());
        let mut now = 1;
        let turns = (0..).take_while(|_| {
            while !waiting.may_read(&word, 0, LONG, now) {
                now += GIVEN_WAY / 2;
            }
            word.fetch_or(WANTED, Relaxed);
            waiting.give_way(&word, 0, LONG, now);
            end(&word, 0);
            waiting.gave_way.is_some()
        });
        assert_eq!(turns.count() as u64, LONG.div_ceil(GIVEN_WAY));
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
