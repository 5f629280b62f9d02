//! The lines of a ring: where the payload lies of messages that do not fit into a cell and have no [sheet](crate::sheets).
//!
//! There are [`LINES`] of them for each ring, so that a producer may be well ahead of its consumer: streams of messages of 1 and 2 KiB take 53 and 87 ns
//! for each so, in place of 189 and 382 where three of 1 KiB filled a ring (between near cores of an EPYC of the fifth generation). A message takes consecutive ones, and begins at the first if there are too
//! few up to the last; its header says where it begins. Places follow each other in one endless sequence, of which the producer knows
//! where the next message begins and up to where lines were given back; what is skipped counts as used. A ring that few messages
//! have gone through keeps to its [first](FEW) lines, so that ranks which all talk to all, but seldom, touch little memory.
//!
//! The consumer needs no more than a message's header: it gives back all up to the message's end, together with credit, where that
//! message ends in another [block](BLOCK) than it begins in.
//!
//! Invariants: lines in use never are all, so a place modulo `LINES` says how many were given back. What was consumed and is not given
//! back is less than a block before the first line and one behind it, so the longest message fits in the end.
//!
//! Who calls it: [`port`](crate::port) for the producer, [`ring`](crate::ring) for the consumer.

use std::cell::Cell;

use crate::ring::{CELL, Hostile, MODEL, RingMemory, STEP};
use crate::wire::{EAGER, INLINE};

/// Lines of a ring. With two and four times as many no stream was faster.
pub(crate) const LINES: u32 = if MODEL { 8 } else { 512 };
/// Lines used before [`WARM`] messages have gone through.
const FEW: u32 = if MODEL { 8 } else { 128 };
/// Messages of any length after which all lines are used.
const WARM: u32 = 1024;
/// Lines of a block.
const BLOCK: u32 = if MODEL { 2 } else { 32 };
/// Lines of the longest message.
const LONGEST: u32 = if MODEL { 2 } else { lines(EAGER) };

// Places are `u16`, and wrap.
const _: () = assert!(LINES.is_power_of_two() && LINES <= 1 << 15 && FEW <= LINES);
// What was consumed before the first line and behind it and is not given back, what is skipped between these beyond the lines that are used, and
// the longest message.
const _: () = assert!(2 * (BLOCK - 1) + (LONGEST - 1) + LONGEST < FEW);

/// Lines of a message with `len` bytes of payload; none, if they fit into its cell.
#[inline(always)]
pub(crate) const fn lines(len: usize) -> u32 {
    match len <= INLINE {
        true => 0,
        false => len.div_ceil(CELL) as u32,
    }
}

/// Consecutive lines.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Span {
    first: u32,
    lines: u32,
}

impl Span {
    /// Those of a message of `len` bytes that begins in line `first`.
    #[inline(always)]
    pub const fn new(first: u32, len: usize) -> Span {
        Span {
            first,
            lines: lines(len),
        }
    }

    /// The first line.
    #[inline(always)]
    pub const fn first(self) -> u32 {
        self.first
    }

    /// The line behind the last.
    #[inline(always)]
    pub const fn end(self) -> u32 {
        self.first + self.lines
    }

    /// How many bytes fit.
    #[inline(always)]
    pub const fn bytes(self) -> usize {
        self.lines as usize * CELL
    }

    /// The place up to which lines are given back when these were read, if that is worth telling.
    #[inline(always)]
    pub fn returns(self) -> Option<u32> {
        (self.first / BLOCK != self.end() / BLOCK).then_some(self.end() % LINES)
    }
}

/// The producer's view.
#[derive(Debug)]
pub(crate) struct Lines {
    /// Where the next message begins at the earliest,
    head: Cell<u16>,
    /// and up to where lines were given back, as far as we know.
    tail: Cell<u16>,
}

impl Lines {
    /// None is in use.
    pub fn new() -> Lines {
        Lines {
            head: Cell::new(0),
            tail: Cell::new(0),
        }
    }

    /// Where in the sequence message `number` of `lines` lines begins and ends, whether there is room or not.
    #[inline]
    fn next(&self, number: u32, lines: u32) -> (u16, u16) {
        let most = if number < WARM * STEP { FEW } else { LINES };
        let head = self.head.get();
        let line = u32::from(head) % LINES;
        let skipped = if line + lines > most { LINES - line } else { 0 };
        let start = head.wrapping_add(skipped as u16);
        (start, start.wrapping_add(lines as u16))
    }

    /// The lines that message `number` would take of `lines` lines, if they are known to be free.
    #[inline]
    pub fn place(&self, number: u32, lines: u32) -> Option<Span> {
        let (start, end) = self.next(number, lines);
        let used = u32::from(end.wrapping_sub(self.tail.get()));
        (used < LINES).then_some(Span {
            first: u32::from(start) % LINES,
            lines,
        })
    }

    /// Takes them.
    #[inline]
    pub fn take(&self, number: u32, lines: u32) -> Span {
        let (start, end) = self.next(number, lines);
        self.head.set(end);
        Span {
            first: u32::from(start) % LINES,
            lines,
        }
    }

    /// Takes up what the consumer gave back.
    pub fn refresh(&self, memory: &impl RingMemory) -> Result<(), Hostile> {
        let (place, tail) = (memory.lines_returned(), self.tail.get());
        let used = u32::from(self.head.get().wrapping_sub(tail));
        let returned = place.wrapping_sub(u32::from(tail)) % LINES;
        if returned > used || place >= LINES {
            return Err(Hostile);
        }
        self.tail.set(tail.wrapping_add(returned as u16));
        Ok(())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::ring::At;

    struct Returned(Cell<u32>);

    impl RingMemory for Returned {
        fn sequence(&self, _: At) -> u32 {
            0
        }
        fn set_sequence(&self, _: At, _: u32) {}
        fn credit(&self) -> u32 {
            0
        }
        fn set_credit(&self, _: u32) {}
        fn lines_returned(&self) -> u32 {
            self.0.get()
        }
        fn set_lines_returned(&self, place: u32) {
            self.0.set(place);
        }
    }

    /// Numbers of messages, and of such as have no lines between them.
    fn numbers() -> impl Iterator<Item = u32> {
        (0..6000).map(|i| 1 + i * STEP)
    }

    /// Messages of any lengths, one at a time: the next one always fits.
    #[test]
    fn a_drained_ring_takes_any_message() {
        for step in 0..40 {
            let (memory, tx) = (Returned(Cell::new(0)), Lines::new());
            for (i, number) in numbers().enumerate() {
                let len = INLINE + 1 + i * (1 + step * 97) % (EAGER - INLINE);
                tx.refresh(&memory).unwrap();
                let place = tx.place(number, lines(len)).expect("there is room");
                let span = tx.take(number, lines(len));
                assert_eq!(span, place);
                assert!(span.end() <= LINES && span.bytes() >= len);
                assert!(i >= WARM as usize || span.end() <= FEW);
                assert_eq!(span, Span::new(span.first(), len));
                if let Some(place) = span.returns() {
                    memory.set_lines_returned(place);
                }
            }
        }
    }

    /// As many as fit at a time: those under way don't overlap, and there are many of them.
    #[test]
    fn messages_under_way_have_lines_of_their_own() {
        let (memory, tx) = (Returned(Cell::new(0)), Lines::new());
        let (mut under_way, mut most) = (std::collections::VecDeque::<Span>::new(), 0);
        for (i, number) in numbers().enumerate() {
            let count = lines(INLINE + 1 + i * 97 % 1500);
            while tx.place(number, count).is_none() {
                let span = under_way.pop_front().expect("some are under way");
                if let Some(place) = span.returns() {
                    memory.set_lines_returned(place);
                }
                tx.refresh(&memory).unwrap();
            }
            let span = tx.take(number, count);
            let overlaps = |one: &Span| one.first < span.end() && span.first < one.end();
            assert!(!under_way.iter().any(overlaps), "{span:?}");
            under_way.push_back(span);
            let used: u32 = under_way.iter().map(|one| one.lines).sum();
            most = most.max(used);
        }
        assert!(most > LINES - 2 * LONGEST);
    }

    #[test]
    fn impossible_places_are_noticed() {
        let (memory, tx) = (Returned(Cell::new(0)), Lines::new());
        tx.take(1, 10);
        for place in [11, LINES - 1, LINES, LINES + 10, u32::MAX] {
            memory.set_lines_returned(place);
            assert_eq!(tx.refresh(&memory), Err(Hostile));
        }
        memory.set_lines_returned(10);
        assert_eq!(tx.refresh(&memory), Ok(()));
    }
}
