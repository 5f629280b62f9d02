//! The ring protocol: how one process hands cells to one other, without the memory it uses.
//!
//! A ring has [`CELLS`] cells of one cache line. A message takes one, which carries a sequence word, and is there when that
//! word equals the number the consumer expects: one load and one compare, nothing to clear, no second line. Numbers are odd (where a cell
//! is in the endless sequence of their bytes, plus one), so the zero of fresh memory is
//! none, and some of a number's bits say where in the ring its cell is. Every cell gets a number in every round, so none is there that is due again.
//! What of a message does not fit into its cell lies in [lines](crate::lines).
//!
//! Credit flows back as one word, the number of the next cell to be consumed less one, stored after each [`BATCH`] cells, and where the
//! lines want it. Therefore a producer always gets a cell in the end.
//!
//! Invariants: at most `CELLS` cells have room; a producer writes only these, from `next` on, a consumer
//! reads only below what was published. [`Tx`] and [`Rx`] hold no memory and use [`RingMemory`], so
//! loom tests run this very code.

use std::cell::Cell;

use crate::lines::Span;

/// Whether this is the loom model, which explores a smaller ring.
pub(crate) const MODEL: bool = cfg!(all(test, loom));
/// Cells in a ring.
pub(crate) const CELLS: u32 = if MODEL { 4 } else { 64 };
/// Bytes of a cell.
pub(crate) const CELL: usize = 64;
/// Cells consumed before credit is returned.
const BATCH: u32 = CELLS / 2;
/// What the number grows by from a cell to the next.
pub(crate) const STEP: u32 = CELL as u32;
/// What the number grows by once around the ring.
const SPAN: u32 = CELLS * STEP;

/// The words of a ring that both sides touch.
pub(crate) trait RingMemory {
    /// Loads the sequence word of `cell` (acquire).
    fn sequence(&self, cell: u32) -> u32;
    /// Stores the sequence word of `cell` (release).
    fn set_sequence(&self, cell: u32, number: u32);
    /// Loads the credit word (acquire).
    fn credit(&self) -> u32;
    /// Stores the credit word (release).
    fn set_credit(&self, credit: u32);
    /// Loads the place up to which lines were given back (acquire).
    fn lines_returned(&self) -> u32;
    /// Stores it (release).
    fn set_lines_returned(&self, place: u32);
}

/// A peer did what no correct one does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Hostile;

/// The cell of a number.
#[inline(always)]
pub(crate) fn cell(number: u32) -> u32 {
    number / STEP % CELLS
}

/// The producing side.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Tx {
    next: Cell<u32>,
    /// Between the two that change together, which the compiler would otherwise add to at once, with more instructions.
    credit: Cell<u32>,
    /// Free cells as far as we know. None at first, so that the first message takes the slow path, where the pair is connected.
    /// A count and not the number where they end: who compares that with `next` needs both in registers.
    room: Cell<u32>,
}

impl Tx {
    /// Nothing was sent yet.
    pub fn new() -> Tx {
        Tx {
            next: Cell::new(1),
            room: Cell::new(0),
            credit: Cell::new(0),
        }
    }

    /// The number to be published next.
    #[inline(always)]
    pub fn next(&self) -> u32 {
        self.next.get()
    }

    /// Whether no cell is free as far as we know.
    #[inline(always)]
    pub fn is_full(&self) -> bool {
        self.room.get() == 0
    }

    /// Takes up new credit.
    pub fn refresh(&self, memory: &impl RingMemory) -> Result<(), Hostile> {
        let credit = memory.credit();
        let unseen = credit.wrapping_sub(self.credit.get());
        let possible = self.next().wrapping_sub(1).wrapping_sub(self.credit.get());
        if !credit.is_multiple_of(STEP) || unseen > possible {
            return Err(Hostile);
        }
        self.credit.set(credit);
        // What is still possible is what was sent and not given back, at most `SPAN`.
        self.room.set((SPAN - (possible - unseen)) / STEP);
        Ok(())
    }

    /// The credit that `refresh` last saw.
    #[inline]
    pub fn credit_seen(&self) -> u32 {
        self.credit.get()
    }

    /// Publishes the message that was written to the next cell, which is free.
    #[inline(always)]
    pub fn publish(&self, memory: &impl RingMemory) {
        memory.set_sequence(cell(self.next()), self.next());
        self.published();
    }

    /// A message was published.
    #[inline(always)]
    pub fn published(&self) {
        self.next.set(self.next.get().wrapping_add(STEP));
        self.room.set(self.room.get() - 1);
    }

    /// Leaves no more than one cell free, as far as we know, until the next `refresh`.
    pub fn keep_one(&self) {
        self.room.set(self.room.get().min(1));
    }

    /// Lets nothing through until the next `refresh`.
    pub fn close(&self) {
        self.room.set(0);
    }
}

/// The consuming side.
#[derive(Debug)]
pub(crate) struct Rx {
    next: Cell<u32>,
}

impl Rx {
    /// Nothing was received yet.
    pub fn new() -> Rx {
        Rx { next: Cell::new(1) }
    }

    /// The number expected next.
    #[inline(always)]
    pub fn next(&self) -> u32 {
        self.next.get()
    }

    /// Whether a message is there.
    #[inline(always)]
    pub fn ready(&self, memory: &impl RingMemory) -> bool {
        Self::ready_at(memory, self.next())
    }

    /// The same for a caller that has [`next`](Rx::next) at hand.
    #[inline(always)]
    pub fn ready_at(memory: &impl RingMemory, next: u32) -> bool {
        memory.sequence(cell(next)) == next
    }

    /// Gives back the message numbered `next`, which was the [next](Rx::next) one and was read. True: credit was returned, so the
    /// producer may have to be woken.
    #[inline(always)]
    pub fn consume(&self, memory: &impl RingMemory, next: u32) -> bool {
        let next = next.wrapping_add(STEP);
        self.next.set(next);
        let returns = next % (BATCH * STEP) == 1;
        if returns {
            memory.set_credit(next - 1);
        }
        returns
    }

    /// The same of a message that lay in `lines`.
    #[inline]
    pub fn consume_lines(&self, memory: &impl RingMemory, next: u32, lines: Span) -> bool {
        let Some(place) = lines.returns() else {
            return self.consume(memory, next);
        };
        memory.set_lines_returned(place);
        let next = next.wrapping_add(STEP);
        self.next.set(next);
        memory.set_credit(next.wrapping_sub(1));
        true
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    struct Plain {
        sequence: [Cell<u32>; CELLS as usize],
        credit: Cell<u32>,
        lines: Cell<u32>,
    }

    impl RingMemory for Plain {
        fn sequence(&self, cell: u32) -> u32 {
            self.sequence[cell as usize].get()
        }
        fn set_sequence(&self, cell: u32, number: u32) {
            self.sequence[cell as usize].set(number);
        }
        fn credit(&self) -> u32 {
            self.credit.get()
        }
        fn set_credit(&self, credit: u32) {
            self.credit.set(credit);
        }
        fn lines_returned(&self) -> u32 {
            self.lines.get()
        }
        fn set_lines_returned(&self, place: u32) {
            self.lines.set(place);
        }
    }

    fn ring() -> Plain {
        Plain {
            sequence: [const { Cell::new(0) }; CELLS as usize],
            credit: Cell::new(0),
            lines: Cell::new(0),
        }
    }

    /// Both sides, where message `start` is next.
    fn sides(memory: &Plain, start: u32) -> (Tx, Rx) {
        memory.set_credit(start.wrapping_sub(1));
        let tx = Tx {
            next: Cell::new(start),
            room: Cell::new(0),
            credit: Cell::new(start.wrapping_sub(1)),
        };
        let rx = Rx {
            next: Cell::new(start),
        };
        (tx, rx)
    }

    /// As many as there are cells at a time, around the ring and across the wrap of the numbers.
    #[test]
    fn messages_go_round() {
        let memory = ring();
        let (tx, rx) = sides(&memory, 1u32.wrapping_sub(3000 * STEP));
        for round in 0..5000u32 {
            tx.refresh(&memory).unwrap();
            assert!(!tx.is_full(), "a drained ring takes a message");
            let mut sent = 0;
            while !tx.is_full() && sent <= round % CELLS {
                tx.publish(&memory);
                sent += 1;
            }
            for _ in 0..sent {
                assert!(rx.ready(&memory));
                rx.consume(&memory, rx.next());
            }
            assert!(!rx.ready(&memory));
        }
    }

    #[test]
    fn impossible_credit_is_noticed() {
        let memory = ring();
        let tx = Tx::new();
        assert!(tx.is_full());
        tx.refresh(&memory).unwrap();
        assert_eq!(tx.room.get(), CELLS);
        tx.publish(&memory);
        for credit in [2, 2 * STEP, 1, STEP.wrapping_neg(), SPAN] {
            memory.set_credit(credit);
            assert_eq!(tx.refresh(&memory), Err(Hostile));
        }
        memory.set_credit(STEP);
        assert_ne!(tx.credit_seen(), memory.credit());
        tx.refresh(&memory).unwrap();
        assert_eq!(tx.room.get(), CELLS);
    }
}
