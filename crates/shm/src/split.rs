//! A copy between two mapped buffers that both sides make.
//!
//! The sender takes chunks from the back, the receiver from the front, so whoever comes late does less and nobody waits for
//! the other's half. One word says how many chunks each has taken; it is changed by compare and swap only. Beside it each
//! side counts the chunks that it has copied. There is one such copy at a time where the words are, and its number is in
//! every word, so that late looks at an older one are recognised: it was complete, or the next could not have begun.
//!
//! Deliveries to slots have words in front of their pipe (`slots::split`), messages have them in their lane (`mapped`).

#[cfg(not(all(test, loom)))]
use std::sync::atomic::AtomicU64;

#[cfg(all(test, loom))]
use loom::sync::atomic::AtomicU64;

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

/// Copies of so many bytes are split. Both ranks copying halves is 1.5 times as fast from there on (76 against 53 GB/s
/// at 64 KiB, 98 against 55 at 256 KiB, measured between near cores).
pub(crate) const SPLIT: u64 = 32 << 10;
/// Bytes of a chunk: few for short deliveries, so that there is something for both (84 against 55 GB/s at 128 KiB), and
/// more for long ones (98 against 92 at 256 KiB).
const fn chunk(bytes: u64) -> u64 {
    if bytes < 256 << 10 {
        16 << 10
    } else {
        32 << 10
    }
}

/// The words of a split copy.
#[repr(C)]
pub(crate) struct Words {
    taken: Line,
    front: Line,
    back: Line,
}

#[repr(C, align(64))]
struct Line(AtomicU64);

// SAFETY: atomic words of which every value is valid, and padding that is never read. (The model's are not, but it maps none.)
unsafe impl sys::memfd::Shared for Words {}

/// Bits of a count: copies of up to 32 GiB are split. Those of a number: a look that is 16 million copies late would mistake
/// one for another.
const COUNT: u32 = 20;
const MASK: u64 = (1 << COUNT) - 1;
const NUMBER: u32 = 2 * COUNT;
/// In place of a number of chunks that a side has copied: it can't copy one that it took.
pub(crate) const FAILED: u32 = MASK as u32;
/// Largest number of a copy.
pub(crate) const LAST: u32 = u32::MAX >> (NUMBER - u32::BITS);

/// What is known of a split copy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Seen {
    /// So many chunks were taken from the front and from the back.
    Taken(u32, u32),
    /// Another one has begun since.
    Newer,
}

impl Words {
    #[cfg(test)]
    pub fn new() -> Words {
        Words {
            taken: Line(AtomicU64::new(0)),
            front: Line(AtomicU64::new(0)),
            back: Line(AtomicU64::new(0)),
        }
    }

    /// Begins split copy number `number`; the sender's call, before it tells the receiver.
    pub fn begin(&self, number: u32) {
        let number = u64::from(number) << NUMBER;
        self.front.0.store(number, Relaxed);
        self.back.0.store(number, Relaxed);
        self.taken.0.store(number, Release);
    }

    /// How far it is.
    pub fn seen(&self, number: u32) -> Seen {
        let word = self.taken.0.load(Acquire);
        match word >> NUMBER == u64::from(number) {
            true => Seen::Taken((word & MASK) as u32, (word >> COUNT & MASK) as u32),
            false => Seen::Newer,
        }
    }

    /// Takes a chunk of `chunks`: the next from the front, or from the back; how many were taken there before. `None`
    /// when there are none left.
    pub fn take(&self, number: u32, chunks: u32, back: bool) -> Option<u32> {
        let mut word = self.taken.0.load(Acquire);
        loop {
            let (front, rear) = (word & MASK, word >> COUNT & MASK);
            if word >> NUMBER != u64::from(number) || front + rear >= u64::from(chunks) {
                return None;
            }
            let step = if back { 1 << COUNT } else { 1 };
            let new = self
                .taken
                .0
                .compare_exchange(word, word + step, AcqRel, Acquire);
            match new {
                Ok(_) => return Some(if back { rear } else { front } as u32),
                Err(now) => word = now,
            }
        }
    }

    /// Takes all of `chunks` that are left, from the front. A peer that turns the word back gets no more of them.
    pub fn take_rest(&self, number: u32, chunks: u32) {
        for _ in 0..chunks {
            if self.take(number, chunks, false).is_none() {
                break;
            }
        }
    }

    /// This side has copied so many chunks.
    pub fn set_copied(&self, number: u32, copied: u32, back: bool) {
        let line = if back { &self.back } else { &self.front };
        let word = u64::from(number) << NUMBER | u64::from(copied);
        line.0.store(word, Release);
    }

    /// Whether a side has copied so many chunks.
    pub fn has_copied(&self, number: u32, copied: u32, back: bool) -> bool {
        let line = if back { &self.back } else { &self.front };
        line.0.load(Acquire) == u64::from(number) << NUMBER | u64::from(copied)
    }
}

/// How data are cut.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cut {
    /// How many bytes there are,
    pub bytes: u64,
    /// and in how many a chunk is.
    pub chunk: u64,
}

impl Cut {
    /// Where chunk `i` lies.
    pub fn range(self, i: u32) -> (usize, usize) {
        let start = u64::from(i) * self.chunk;
        (
            start as usize,
            (self.bytes - start).min(self.chunk) as usize,
        )
    }

    /// How many there are.
    pub fn chunks(self) -> u32 {
        self.bytes.div_ceil(self.chunk) as u32
    }

    /// Whether both sides can copy: there is enough for them, and no more than the words count.
    pub fn fits(self) -> bool {
        self.bytes >= SPLIT && self.bytes.div_ceil(self.chunk) < FAILED.into()
    }
}

/// How data between mapped buffers are cut.
pub(crate) fn cut(bytes: u64) -> Cut {
    Cut {
        bytes,
        chunk: chunk(bytes),
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn every_chunk_is_taken_once() {
        let words = Words::new();
        words.begin(7);
        let mut taken = vec![0; 10];
        for back in [
            true, false, false, true, false, true, true, true, false, true,
        ] {
            let i = words.take(7, 10, back).unwrap();
            taken[if back { 9 - i } else { i } as usize] += 1;
        }
        assert_eq!(taken, [1; 10]);
        assert_eq!(words.take(7, 10, true), None);
        assert_eq!(words.seen(7), Seen::Taken(4, 6));
        words.set_copied(7, 4, false);
        assert!(words.has_copied(7, 4, false) && !words.has_copied(7, 6, true));
        // A late look at an older one.
        words.begin(8);
        assert_eq!(
            (words.seen(7), words.take(7, 10, false)),
            (Seen::Newer, None)
        );
    }

    #[test]
    fn the_last_chunk_is_short() {
        for whole in [SPLIT, 1 << 20] {
            let bytes = whole + 5;
            let cut = cut(bytes);
            assert_eq!(cut.range(cut.chunks() - 1), (whole as usize, 5));
            assert_eq!(cut.range(0), (0, chunk(bytes) as usize));
        }
    }
}
