//! Long deliveries between two mapped buffers: both sides copy.
//!
//! The sender takes chunks from the back, the receiver from the front, so whoever comes late does less and nobody waits for
//! the other's half. One word says how many chunks each has taken; it is changed by compare and swap only. Beside it each
//! side counts the chunks that it has copied. The words lie in front of the pair's pipe; there is one split copy at a time
//! in each direction of a pair, and its number is in every word, so that late looks at an older one are recognised: it was
//! complete, or the next could not have begun.

#[cfg(not(all(test, loom)))]
use std::sync::atomic::AtomicU64;

#[cfg(all(test, loom))]
use loom::sync::atomic::AtomicU64;

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use boundary::UserBuf;
use mtmi::slot::{Delivery, Slot};

use super::line::{Landing, Payload, Way};
use super::receive::{outcome, place};
use super::table::{Pipe, Place, Receiving, SplitIn, SplitOut};
use crate::Shm;
use crate::ring::Hostile;

/// Deliveries of so many bytes are split. Both ranks copying halves is 1.5 times as fast from there on (76 against 53 GB/s
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
/// Looks at the receiver's count before the delivery is left pending: about what a chunk takes.
const PATIENCE: u32 = 64;

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
/// Largest number of a copy.
pub(super) const LAST: u32 = u32::MAX >> (NUMBER - u32::BITS);

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

pub(super) fn words(pipe: &Pipe) -> &Words {
    let words = pipe.mapping.get(0);
    words.expect("a pipe begins with a ring's worth of room")
}

/// Where chunk `i` of `bytes` bytes lies.
fn range(i: u32, bytes: u64) -> (usize, usize) {
    let start = u64::from(i) * chunk(bytes);
    (start as usize, (bytes - start).min(chunk(bytes)) as usize)
}

fn chunks(bytes: u64) -> u32 {
    bytes.div_ceil(chunk(bytes)) as u32
}

impl Shm {
    /// Begins a split copy and does this side's part. `None`: another one is under way, or this one can't be.
    pub(super) fn begin_split(
        &mut self,
        slot: Slot,
        (from, to): (UserBuf, *mut u8),
        (bytes, offset): (u64, u64),
        (sent, immediate): (u64, u32),
    ) -> Option<Delivery> {
        let peer = slot.peer.0;
        if bytes.div_ceil(chunk(bytes)) > MASK || self.slots.links[peer as usize].split.is_some() {
            return None;
        }
        self.outward_pipe(peer).ok()?;
        let link = &mut self.slots.links[peer as usize];
        link.splits = link.splits.wrapping_add(1);
        let number = link.splits & LAST;
        words(link.outward.as_ref()?).begin(number);
        link.split = Some(SplitOut {
            place: place(slot),
            number,
            bytes,
        });
        let landing = Landing {
            way: Way::Split,
            sent,
            immediate,
        };
        self.land(slot, landing, [offset, u64::from(number), 0]);
        let pipe = self.slots.links[peer as usize].outward.as_ref()?;
        let (words, all) = (words(pipe), chunks(bytes));
        let mut copied = 0;
        // A peer that turns the word back must not keep us here for ever.
        for _ in 0..all {
            let Some(i) = words.take(number, all, true) else {
                break;
            };
            let (start, len) = range(all - 1 - i, bytes);
            // SAFETY: the chunk is inside the source and inside the window, both of `bytes` bytes; nobody's buffer
            // lies in a window.
            unsafe { sys::copy::copy(to.add(start), from.as_mut_ptr().add(start), len) };
            copied += 1;
            words.set_copied(number, copied, true);
        }
        self.ports[peer].bell.get().ring();
        for _ in 0..PATIENCE {
            if self.end_split(peer) {
                return Some(Delivery::Done { bytes });
            }
            sys::copy::pause();
        }
        self.deliver_later(slot);
        Some(Delivery::Pending)
    }

    /// Ends the split copy that this process began, if the receiver has copied what it took. Returns whether it is over.
    pub(super) fn end_split(&mut self, peer: u32) -> bool {
        let link = &mut self.slots.links[peer as usize];
        let (Some(split), Some(pipe)) = (&link.split, &link.outward) else {
            return true;
        };
        let (number, all) = (split.number, chunks(split.bytes));
        let over = match words(pipe).seen(number) {
            Seen::Taken(front, back) => {
                front + back >= all && words(pipe).has_copied(number, front, false)
            }
            // Only this process begins one.
            Seen::Newer => {
                self.suspect(peer);
                return false;
            }
        };
        if over {
            let (place, bytes) = (split.place, split.bytes);
            link.split = None;
            self.end_delivery(peer, place, Delivery::Done { bytes });
        }
        over
    }

    /// Whether the split copy that this process began can be ended.
    pub(super) fn split_ready(&self, peer: u32) -> bool {
        let link = &self.slots.links[peer as usize];
        let (Some(split), Some(pipe)) = (&link.split, &link.outward) else {
            return false;
        };
        let number = split.number;
        match words(pipe).seen(number) {
            Seen::Taken(front, _) => words(pipe).has_copied(number, front, false),
            Seen::Newer => true,
        }
    }

    /// A receive's landing says that both sides copy.
    pub(super) fn join_split(
        &mut self,
        place: Place,
        peer: u32,
        landing: Landing,
        [offset, number, _]: Payload,
    ) -> Result<(), Hostile> {
        let receive = self.slots.receive(place, peer).ok_or(Hostile)?;
        let capacity = receive.memory.len();
        let bytes = landing.sent.min(capacity);
        if number > u64::from(LAST) || bytes < SPLIT || bytes.div_ceil(chunk(bytes)) > MASK {
            return Err(Hostile);
        }
        receive.state = Receiving::Splits;
        self.slots.links[peer as usize].split_in.push(SplitIn {
            place,
            number: number as u32,
            bytes,
            offset,
            copied: 0,
            landed: outcome(landing, capacity),
        });
        self.help_split(place, peer)
    }

    /// Does this side's part of a split copy, and ends it if the sender has done its own.
    pub(super) fn help_split(&mut self, place: Place, peer: u32) -> Result<(), Hostile> {
        let memory = self.slots.receive(place, peer).map(|r| r.memory.clone());
        let rank = self.peers[peer as usize].slot;
        let (Some(memory), Ok(area)) = (memory, &self.slots.area) else {
            return Ok(());
        };
        let link = &mut self.slots.links[peer as usize];
        let found = link.split_in.iter().position(|s| s.place == place);
        let (Some(i), Some(pipe)) = (found, &link.inward) else {
            return Ok(());
        };
        let split = &mut link.split_in[i];
        let (words, number, all) = (words(pipe), split.number, chunks(split.bytes));
        // Where the sender's memory can't be mapped, it does everything.
        let from = link.windows.find(area, rank, split.offset, split.bytes);
        let (to, _) = memory.contiguous().ok_or(Hostile)?;
        while let Some(from) = from
            && split.copied < all
            && let Some(chunk) = words.take(number, all, false)
        {
            if chunk >= all {
                return Err(Hostile);
            }
            let (start, len) = range(chunk, split.bytes);
            // SAFETY: the chunk is inside the window and inside the receive's memory, both of at least `bytes` bytes;
            // nobody's buffer lies in a window.
            unsafe { sys::copy::copy(to.as_mut_ptr().add(start), from.add(start), len) };
            split.copied += 1;
            words.set_copied(number, split.copied, false);
        }
        let over = match words.seen(number) {
            Seen::Taken(front, back) => front + back >= all && words.has_copied(number, back, true),
            Seen::Newer => true,
        };
        if split.copied > 0 {
            self.ports[peer].bell.get().ring();
        }
        if over {
            let landed = split.landed;
            link.split_in.swap_remove(i);
            self.end_receive(place, peer, landed);
        }
        Ok(())
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
            let all = chunks(bytes);
            assert_eq!(range(all - 1, bytes), (whole as usize, 5));
            assert_eq!(range(0, bytes), (0, chunk(bytes) as usize));
        }
    }
}
