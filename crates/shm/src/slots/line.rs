//! The line of a slot: one cache line that one process writes and one other reads.
//!
//! Its writer offers a receive there (generation and header) and says what became of the reader's receives
//! (the landing). Each half has one word that publishes it. The header of generation `g` is written when the
//! landing of `g - 1` was seen, and not touched before the landing of `g` is; the landing of `g` is written when the header of
//! `g` was seen, and not touched before the header of `g + 1` is. So each half is stable while it is read.

#[cfg(not(all(test, loom)))]
use std::sync::atomic::{AtomicU32, AtomicU64};

#[cfg(all(test, loom))]
use loom::sync::atomic::{AtomicU32, AtomicU64};

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::ring::Hostile;

/// Bytes of a message that ride in the landing.
pub(crate) const INLINE: usize = 24;

/// Data of a landing.
pub(crate) type Payload = [u64; INLINE / 8];

/// Header and landing.
#[repr(C, align(64))]
pub(crate) struct Line {
    landed: AtomicU32,
    immediate: AtomicU32,
    /// How the data come, and how many the sender had.
    word: AtomicU64,
    payload: [AtomicU64; INLINE / 8],
    generation: AtomicU32,
    segment: AtomicU32,
    offset: AtomicU64,
    length: AtomicU64,
}

#[cfg(not(all(test, loom)))]
const _: () = assert!(size_of::<Line>() == 64);

// SAFETY: atomic integers of which every bit pattern is valid. (The model's are not, but it maps none.)
unsafe impl sys::memfd::Shared for Line {}

/// Segment of memory that has gaps, or is too short for anybody to copy there.
pub(crate) const NOWHERE: u32 = 0;
/// Segment of mapped memory: the receiver's arena.
pub(crate) const ARENA: u32 = 1;
/// Segment of all other memory of the receiver's, which only the kernel reaches.
pub(crate) const OWN: u32 = 2;

/// Where a receive's memory is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Header {
    /// One of the above.
    pub segment: u32,
    /// Bytes from the start of the arena; of its own memory the receiver's address, which means nothing to anybody but the kernel.
    pub offset: u64,
    /// Bytes that it takes.
    pub length: u64,
}

/// How data come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Way {
    /// In the landing itself.
    Inline,
    /// They are in the receive's memory.
    Direct,
    /// Through the pipe; `payload` tells of the chunk, if it is one, and of what its sender has taken. Otherwise it says when the stream began.
    Pipe,
    /// Both sides copy them; `payload` has where they lie, and the number of the copy.
    Split,
    /// Both sides have the kernel copy them; `payload` has where they lie, the number of the copy, and when it began.
    Lent,
}

impl Way {
    /// What the word of a landing has for it.
    #[inline(always)]
    const fn code(self) -> u64 {
        (self as u64 + 1) << WAY_SHIFT
    }
}

/// What became of a receive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Landing {
    pub way: Way,
    /// Bytes that the sender had.
    pub sent: u64,
    pub immediate: u32,
}

const WAY_SHIFT: u32 = 56;
/// Longest message.
pub(crate) const LONGEST: u64 = (1 << WAY_SHIFT) - 1;

impl Line {
    #[cfg(test)]
    pub fn new() -> Line {
        Line {
            landed: AtomicU32::new(0),
            immediate: AtomicU32::new(0),
            word: AtomicU64::new(0),
            payload: [(); INLINE / 8].map(|()| AtomicU64::new(0)),
            generation: AtomicU32::new(0),
            segment: AtomicU32::new(0),
            offset: AtomicU64::new(0),
            length: AtomicU64::new(0),
        }
    }

    /// Writes where the memory of the next receives is; offers none.
    #[inline(always)]
    pub fn set_header(&self, header: Header) {
        self.segment.store(header.segment, Relaxed);
        self.offset.store(header.offset, Relaxed);
        self.length.store(header.length, Relaxed);
    }

    /// Offers the receive of this generation.
    #[inline(always)]
    pub fn offer(&self, generation: u32) {
        self.generation.store(generation, Release);
    }

    /// Whether the receive of this generation is offered.
    #[inline(always)]
    pub fn is_offered(&self, generation: u32) -> bool {
        self.generation.load(Acquire) == generation
    }

    /// The header of a receive that is offered, read once. Nothing in it is checked.
    #[inline(always)]
    pub fn header(&self) -> Header {
        Header {
            segment: self.segment.load(Relaxed),
            offset: self.offset.load(Relaxed),
            length: self.length.load(Relaxed),
        }
    }

    /// How many bytes a receive that is offered takes.
    #[inline(always)]
    pub fn length(&self) -> u64 {
        self.length.load(Relaxed)
    }

    /// Lets the reader's receive of this generation have `len` bytes at `from`, in the landing itself.
    ///
    /// # Safety
    /// `from` is readable for `len` bytes, at most [`INLINE`].
    #[inline(always)]
    pub unsafe fn land_inline(&self, generation: u32, immediate: u32, from: *const u8, len: usize) {
        self.immediate.store(immediate, Relaxed);
        self.word.store(Way::Inline.code() | len as u64, Relaxed);
        match len {
            8 => {
                // SAFETY: the caller's promise.
                let word = unsafe { from.cast::<u64>().read_unaligned() };
                self.payload[0].store(word, Relaxed);
            }
            _ => {
                let mut words: Payload = [0; INLINE / 8];
                // SAFETY: the caller's promise; the words have room for `INLINE` bytes.
                unsafe { sys::copy::copy_few(words.as_mut_ptr().cast(), from, len) };
                for (to, from) in self.payload.iter().zip(words) {
                    to.store(from, Relaxed);
                }
            }
        }
        self.landed.store(generation, Release);
    }

    /// Reads data that came in the landing itself to `to`, if they are at most `capacity` bytes. False: nothing was done.
    ///
    /// # Safety
    /// `to` is writable for `capacity` bytes.
    #[inline(always)]
    pub unsafe fn read_inline(&self, to: *mut u8, capacity: u64) -> bool {
        // What is not inline is much more than there can be.
        let len = self.word.load(Relaxed).wrapping_sub(Way::Inline.code());
        if len > capacity.min(INLINE as u64) {
            return false;
        }
        match len {
            8 => {
                let word = self.payload[0].load(Relaxed);
                // SAFETY: the caller's promise, and `len` is not more.
                unsafe { to.cast::<u64>().write_unaligned(word) };
            }
            _ => {
                let words = self.payload();
                // SAFETY: as above; the words are `INLINE` bytes, which `len` is not above.
                unsafe { sys::copy::copy_few(to, words.as_ptr().cast(), len as usize) };
            }
        }
        true
    }

    /// Says what became of the reader's receive of this generation.
    #[inline(always)]
    pub fn land(&self, generation: u32, landing: Landing, payload: Payload) {
        let word = landing.way.code() | landing.sent;
        self.immediate.store(landing.immediate, Relaxed);
        self.word.store(word, Relaxed);
        for (to, from) in self.payload.iter().zip(payload) {
            to.store(from, Relaxed);
        }
        self.landed.store(generation, Release);
    }

    /// Whether it is said what became of the receive of this generation.
    #[inline(always)]
    pub fn has_landed(&self, generation: u32) -> bool {
        self.landed.load(Acquire) == generation
    }

    /// The same with so many looks more.
    #[inline(always)]
    pub fn await_landing(&self, generation: u32, looks: u32) -> bool {
        #[cfg(not(all(test, loom)))]
        return sys::copy::look_for(&self.landed, generation, looks);
        #[cfg(all(test, loom))]
        (0..looks).any(|_| self.has_landed(generation))
    }

    /// What became of it, read once.
    #[inline(always)]
    pub fn landing(&self) -> Result<Landing, Hostile> {
        let word = self.word.load(Relaxed);
        let way = match word >> WAY_SHIFT {
            1 => Way::Inline,
            2 => Way::Direct,
            3 => Way::Pipe,
            4 => Way::Split,
            5 => Way::Lent,
            _ => return Err(Hostile),
        };
        Ok(Landing {
            way,
            sent: word & LONGEST,
            immediate: self.immediate.load(Relaxed),
        })
    }

    /// The data of a landing.
    #[inline(always)]
    pub fn payload(&self) -> Payload {
        self.payload.each_ref().map(|word| word.load(Relaxed))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn halves_do_not_touch() {
        let line = Line::new();
        let header = Header {
            segment: 1,
            offset: 64,
            length: 10,
        };
        line.set_header(header);
        assert!(!line.is_offered(1));
        line.offer(1);
        let landing = Landing {
            way: Way::Split,
            sent: LONGEST,
            immediate: u32::MAX,
        };
        line.land(5, landing, [1, 2, 3]);
        assert!(line.is_offered(1) && line.has_landed(5) && !line.has_landed(1));
        assert_eq!((line.header(), line.landing()), (header, Ok(landing)));
        assert_eq!(line.payload(), [1, 2, 3]);
        line.word.store(9 << WAY_SHIFT, Relaxed);
        assert_eq!(line.landing(), Err(Hostile));
    }
}
