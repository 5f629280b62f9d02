//! How long messages are cut into chunks, and what is done about the lines of the pipe, which go from cache to cache all the time.
//!
//! Both depend on how the processor hands lines over ([`sys::copy::HandOver`]), so each kind has its values, measured with a ping-pong
//! between two cores. Everything else that is known of chunks is in [`space`](crate::space).
//!
//! Who calls it: [`pipe`](crate::pipe), [`lane`](crate::lane) and the slots' streams.

use sys::copy::HandOver;

use crate::lane::{CHUNK, WINDOW};

/// The values of one kind.
#[derive(Debug)]
pub(crate) struct Chunking {
    /// Chunks of a message that fits into a pipe, so that both sides copy at once,
    parts: u64,
    /// unless they got shorter than so many bytes.
    pub min: u64,
    /// Bytes of a chunk of a message that begins behind others: its receiver, which has those to copy first, waits for no chunk of it, and each costs both
    /// sides a line for its header.
    pub behind: u64,
    /// Bytes of a chunk that are asked for before it is written,
    own: usize,
    /// if it has no more than these.
    own_up_to: usize,
    /// Bytes that are asked for ahead of the next message, which is supposed to be like the one before.
    ahead: usize,
    /// In a chunk of at most so many bytes every line is written after it was read: it leaves the producer's cache, to which it is of no
    /// more use. A producer that finds a line in both caches has to have it invalidated in the other first.
    give_up_to: usize,
    /// Whether messages go through the [common](crate::common) pipes, if they can.
    pub common: bool,
    /// From so many bytes on messages lie in a [sheet](crate::sheets), if there is one, and not in lines.
    pub sheet_min: usize,
}

/// On a Xeon of the fifth generation messages of 64 KiB take 6.6 us so. With 8 KiB ahead they take 7.0, without any 7.5, and up to a
/// sixth more where lines that were read are written. Through a common pipe messages of 4 and 256 KiB take 0.93 and 18 us in place of 1.1 and 20, and others the same.
/// Streams of 16, 32, 64 and 128 KiB, 64 messages under way, carry 1.4, 1.35, 1.15 and 1.06 times as much with 16 KiB behind others as with chunks like a first one's; with 32 KiB no more.
/// In sheets messages of 64, 512 and 1024 bytes take 0.25, 0.35 and 0.42 us in place of 0.24, 0.30 and 0.38, of 2 KiB 0.53 in place of 0.56.
const ASKED: Chunking = Chunking {
    parts: 16,
    min: 2 << 10,
    behind: 16 << 10,
    own: 8 << 10,
    own_up_to: usize::MAX,
    ahead: 16 << 10,
    give_up_to: 0,
    common: true,
    sheet_min: 1536,
};

/// On an EPYC of the fifth generation messages of 8, 64 and 128 KiB take 0.36, 1.4 and 2.5 us so, between near cores; with the values above 64 and
/// 128 KiB took 3.6 and 4.3. With chunks of 4 KiB 8, 16 and 24 KiB take 0.38, 0.58 and 0.73 in place of 0.36, 0.55 and 0.65. Lines that were
/// read are worth writing where vectors copy or nearly so: 16 KiB in such chunks took 0.56 in place of 0.61. On a faster day 96 and 128 KiB took
/// 1.72 and 2.21 in eight parts, 1.77 and 2.28 in four, 1.78 and 2.32 in sixteen. Longer chunks behind others were not measured.
const TAKEN: Chunking = Chunking {
    parts: 8,
    min: 8 << 10,
    behind: 8 << 10,
    own: 4 << 10,
    own_up_to: (4 << 10) - 1,
    ahead: 0,
    give_up_to: 6 << 10,
    common: true,
    sheet_min: 0,
};

/// The values of this machine.
#[inline]
pub(crate) fn here() -> &'static Chunking {
    match sys::copy::hand_over() {
        HandOver::Asked => &ASKED,
        HandOver::Taken => &TAKEN,
    }
}

impl Chunking {
    /// Bytes of a chunk of a message of `total` bytes.
    pub fn chunk(&self, total: u64) -> u64 {
        if total > WINDOW as u64 {
            return CHUNK as u64;
        }
        let part = total.div_ceil(self.parts).next_multiple_of(64);
        part.max(self.min)
    }

    /// Bytes of a chunk of a message of `total` bytes that begins behind others.
    pub fn behind(&self, total: u64) -> u64 {
        self.chunk(total).max(self.behind)
    }

    /// How much to ask for of a chunk of `len` bytes before it is written.
    #[inline]
    pub fn own(&self, len: usize) -> usize {
        match len <= self.own_up_to {
            true => len.min(self.own),
            false => 0,
        }
    }

    /// How much to ask for ahead of a message of `total` bytes.
    #[inline]
    pub fn own_ahead(&self, total: u64) -> usize {
        (total as usize).min(self.ahead)
    }

    /// Whether the lines of a chunk of `len` bytes are written when they were read.
    #[inline]
    pub fn gives_up(&self, len: usize) -> bool {
        len <= self.give_up_to
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_that_fits_is_cut_into_few_chunks() {
        for kind in [ASKED, TAKEN] {
            for total in [2049, 5000, 40_000, 65_536, WINDOW as u64] {
                let chunk = kind.chunk(total);
                assert!(chunk >= kind.min && chunk <= CHUNK as u64);
                assert!((chunk..=CHUNK as u64).contains(&kind.behind(total)));
                assert!(total.div_ceil(chunk) <= kind.parts);
            }
            assert_eq!(kind.chunk(WINDOW as u64 + 1), CHUNK as u64);
        }
    }

    #[test]
    fn what_is_asked_for_lies_in_the_chunk() {
        for kind in [ASKED, TAKEN] {
            for len in [1, 4095, 4096, 9000, CHUNK] {
                assert!(kind.own(len) <= len && kind.own_ahead(len as u64) <= len);
            }
        }
    }
}
