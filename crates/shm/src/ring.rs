//! The ring protocol: how one process hands cells to one other, without the memory it uses.
//!
//! A ring has [`CELLS`] cells of one cache line. A message takes consecutive cells; only its first
//! carries a sequence word, and the message is there when that word equals the number the consumer
//! expects: one load and one compare, nothing to clear, no second line. Numbers are odd (where a cell
//! is in the endless sequence of their bytes, plus one), so the zero of fresh or cleared memory is
//! none, and some of a number's bits say where in the ring its cell is. Cells behind the first stand for
//! payload, which lies elsewhere; they keep their old numbers. These would come again after all `u32` have been used, so
//! the consumer clears them during two rounds of each half of that: see [`sweeps`].
//!
//! Credit flows back as one word, the number of the next cell to be consumed less one, stored when
//! at least [`BATCH`] cells were consumed since. Therefore a producer always gets
//! `CELLS - BATCH + 1` cells in the end, which is the length of the longest message.
//!
//! Invariants: at most `CELLS` cells have room; a producer writes only these, from `next` on, a consumer
//! reads only below what was published. [`Tx`] and [`Rx`] hold no memory and use [`RingMemory`], so
//! loom tests run this very code.

use std::cell::Cell;

/// Whether this is the loom model, which explores a smaller ring.
pub(crate) const MODEL: bool = cfg!(all(test, loom));
/// Cells in a ring.
pub(crate) const CELLS: u32 = if MODEL { 4 } else { 64 };
/// Bytes of a cell.
pub(crate) const CELL: usize = 64;
/// Cells consumed before credit is returned.
const BATCH: u32 = CELLS / 2;
/// Longest message, in cells.
pub(crate) const LONGEST: u32 = CELLS - BATCH + 1;
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
}

/// A peer did what no correct one does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Hostile;

/// The cell of a number.
#[inline(always)]
pub(crate) fn cell(number: u32) -> u32 {
    number / STEP % CELLS
}

/// Numbers after which there is a sweep.
const HALF: u32 = 1 << 31;

/// Whether the cells behind message `number` are to be cleared. In the second of two such rounds every cell gets a number or is cleared, as no
/// message is longer than a round.
#[inline(always)]
fn sweeps(number: u32) -> bool {
    number % HALF < 2 * SPAN
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

    /// Free cells as far as we know.
    #[inline]
    pub fn room(&self) -> u32 {
        self.room.get()
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

    /// Publishes a message of `cells` cells (at most [`room`](Tx::room)) that was written there.
    #[inline(always)]
    pub fn publish(&self, memory: &impl RingMemory, cells: u32) {
        memory.set_sequence(cell(self.next()), self.next());
        self.published(cells);
    }

    /// A message of so many cells was published.
    #[inline(always)]
    pub fn published(&self, cells: u32) {
        self.next.set(self.next.get().wrapping_add(cells * STEP));
        self.room.set(self.room.get() - cells);
    }

    /// Leaves no more than `cells` free, as far as we know, until the next `refresh`.
    pub fn keep_only(&self, cells: u32) {
        self.room.set(self.room.get().min(cells));
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
    returned: Cell<u32>,
}

impl Rx {
    /// Nothing was received yet.
    pub fn new() -> Rx {
        Rx {
            next: Cell::new(1),
            returned: Cell::new(1),
        }
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

    /// Gives back the message of `cells` cells that was read. True: credit was returned, so the
    /// producer may have to be woken.
    #[inline(always)]
    pub fn consume(&self, memory: &impl RingMemory, cells: u32) -> bool {
        self.consume_at(memory, self.next(), cells)
    }

    /// The same for a caller that has [`next`](Rx::next) at hand.
    #[inline(always)]
    pub fn consume_at(&self, memory: &impl RingMemory, next: u32, cells: u32) -> bool {
        if cells > 1 && sweeps(next) {
            for i in 1..cells {
                memory.set_sequence(cell(next.wrapping_add(i * STEP)), 0);
            }
        }
        let next = next.wrapping_add(cells * STEP);
        self.next.set(next);
        if next.wrapping_sub(self.returned.get()) < BATCH * STEP {
            return false;
        }
        memory.set_credit(next.wrapping_sub(1));
        self.returned.set(next);
        true
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    struct Plain {
        sequence: [Cell<u32>; CELLS as usize],
        credit: Cell<u32>,
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
    }

    fn ring() -> Plain {
        Plain {
            sequence: [const { Cell::new(0) }; CELLS as usize],
            credit: Cell::new(0),
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
            returned: Cell::new(start),
        };
        (tx, rx)
    }

    /// Messages of all lengths, around the ring and across the wrap of the numbers.
    #[test]
    fn every_length_goes_round() {
        let memory = ring();
        let (tx, rx) = sides(&memory, 1u32.wrapping_sub(3000 * STEP));
        for round in 0..5000u32 {
            let cells = 1 + round * 7 % LONGEST;
            tx.refresh(&memory).unwrap();
            assert!(
                tx.room() >= cells,
                "a drained ring takes the longest message"
            );
            assert!(!rx.ready(&memory));
            tx.publish(&memory, cells);
            assert!(rx.ready(&memory));
            rx.consume(&memory, cells);
            assert!(!rx.ready(&memory));
        }
    }

    /// Whatever the lengths, no cell keeps a number until that is due again.
    #[test]
    fn old_numbers_are_cleared() {
        for (half, cells) in [(0, 2), (0, LONGEST), (HALF, 2), (HALF, 7), (HALF, LONGEST)] {
            let memory = ring();
            let begin = half.wrapping_sub(2 * SPAN).wrapping_add(1);
            for number in (0..CELLS).map(|i| begin.wrapping_add(i * STEP)) {
                memory.set_sequence(cell(number), number.wrapping_sub(SPAN));
            }
            let (tx, rx) = sides(&memory, begin);
            while rx.next().wrapping_sub(begin) < 6 * SPAN {
                tx.refresh(&memory).unwrap();
                tx.publish(&memory, cells);
                rx.consume(&memory, cells);
            }
            for i in 0..CELLS {
                let number = memory.sequence(i);
                assert!(
                    number == 0 || number.wrapping_sub(begin) >= 2 * SPAN,
                    "{half} {cells} {i}"
                );
            }
        }
    }

    #[test]
    fn impossible_credit_is_noticed() {
        let memory = ring();
        let tx = Tx::new();
        assert!(tx.is_full());
        tx.refresh(&memory).unwrap();
        assert_eq!(tx.room(), CELLS);
        tx.publish(&memory, 1);
        for credit in [2, 2 * STEP, 1, STEP.wrapping_neg(), SPAN] {
            memory.set_credit(credit);
            assert_eq!(tx.refresh(&memory), Err(Hostile));
        }
        memory.set_credit(STEP);
        assert_ne!(tx.credit_seen(), memory.credit());
        tx.refresh(&memory).unwrap();
        assert_eq!(tx.room(), CELLS);
    }
}
