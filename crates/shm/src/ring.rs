//! The ring protocol: how one process hands cells to one other, without the memory it uses.
//!
//! A ring has [`CELLS`] cells of one cache line. A message takes one, which carries a sequence word, and is there when that
//! word equals the number the consumer expects: one load and one compare, nothing to clear, no second line. Numbers are odd (where a cell
//! is in the endless sequence of their bytes, plus one), so the zero of fresh memory is
//! none, and some of a number's bits say where in the ring its cell is. Every cell gets a number in every round, so none is there that is due again.
//! What of a message does not fit into its cell lies in [lines](crate::lines).
//!
//! Beside them is the *box*, a cell that any number may lie in. A producer that knows of an empty ring writes there, and a consumer looks there
//! too. Two processes that answer each other so use one line each: 8 bytes take 52 ns in place of 82,
//! as going round on more than 8 to 16 lines costs two bare threads 20 ns as well. That the ring is empty tells a word behind the message in the peer's
//! box: how far it has consumed. In one of many rounds, which is *quiet*, the box is emptied and not used, so that no cell's number gets as old as the numbers' round.
//!
//! Credit flows back as one word, the number of the next cell to be consumed less one, stored after each [`BATCH`] cells, and where the
//! lines want it. Therefore a producer always gets a cell in the end.
//!
//! Invariants: what is in the box is the next message; at most `CELLS` cells have room; a producer writes only these, from `next` on, a consumer
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
/// A number in a quiet round has all of these bits.
const QUIET: u32 = u32::MAX >> 1 & !(SPAN - 1);

/// Where a cell begins, in bytes from where the ring does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct At(u32);

impl At {
    /// The box.
    pub const BOX: At = At(SPAN);

    /// The cell of a number.
    #[inline(always)]
    pub fn of(number: u32) -> At {
        At(number & (SPAN - STEP))
    }

    /// Bytes from where the ring begins.
    #[inline(always)]
    pub fn bytes(self) -> usize {
        self.0 as usize
    }

    /// Whether it is the box.
    #[inline(always)]
    pub fn is_box(self) -> bool {
        self == At::BOX
    }
}

const _: () = assert!(STEP as usize == CELL);

/// The words of a ring that both sides touch.
pub(crate) trait RingMemory {
    /// Loads the sequence word of a cell (acquire).
    fn sequence(&self, at: At) -> u32;
    /// Stores the sequence word of a cell (release).
    fn set_sequence(&self, at: At, number: u32);
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
        // What is still possible is what was sent and not given back. That is more than `SPAN` where the box told of more.
        let left = possible - unseen;
        self.set_room(memory, SPAN.saturating_sub(left) / STEP);
        let boxed = memory.sequence(At::BOX);
        if left > 0 && self.is_quiet() && credit.wrapping_sub(boxed) < 1 << 31 {
            memory.set_sequence(At::BOX, 0);
        }
        Ok(())
    }

    /// Whether the next number is in a quiet round.
    fn is_quiet(&self) -> bool {
        self.next() & QUIET == QUIET
    }

    /// So many cells are free.
    fn set_room(&self, memory: &impl RingMemory, cells: u32) {
        if cells == CELLS && self.is_quiet() {
            memory.set_sequence(At::BOX, 0);
            return self.room.set(CELLS - 1);
        }
        self.room.set(cells);
    }

    /// The peer says that it has consumed all below this number.
    #[inline(always)]
    pub fn hear(&self, memory: &impl RingMemory, consumed: u32) {
        // Where at most one is free, it may be that no more is to be known of.
        if consumed == self.next() && self.room.get() > 1 {
            self.set_room(memory, CELLS);
        }
    }

    /// Where the next message, for which there is room, is to be written.
    #[inline(always)]
    pub fn place(&self) -> At {
        match self.room.get() {
            CELLS => At::BOX,
            _ => At::of(self.next()),
        }
    }

    /// The credit that `refresh` last saw.
    #[inline]
    pub fn credit_seen(&self) -> u32 {
        self.credit.get()
    }

    /// Publishes the next message, which was written [there](Tx::place).
    #[inline(always)]
    pub fn publish(&self, memory: &impl RingMemory, at: At) {
        memory.set_sequence(at, self.next());
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
        Self::find(memory, self.next()).is_some()
    }

    /// Where the message numbered `next` is, the [next](Rx::next) one, if it is there.
    #[inline(always)]
    pub fn find(memory: &impl RingMemory, next: u32) -> Option<At> {
        let is_at = |at| memory.sequence(at) == next;
        [At::BOX, At::of(next)].into_iter().find(|&at| is_at(at))
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
        sequence: [Cell<u32>; CELLS as usize + 1],
        credit: Cell<u32>,
        lines: Cell<u32>,
    }

    impl RingMemory for Plain {
        fn sequence(&self, at: At) -> u32 {
            self.sequence[at.bytes() / CELL].get()
        }
        fn set_sequence(&self, at: At, number: u32) {
            self.sequence[at.bytes() / CELL].set(number);
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
            sequence: [const { Cell::new(0) }; CELLS as usize + 1],
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
                tx.publish(&memory, tx.place());
                sent += 1;
            }
            for _ in 0..sent {
                assert!(rx.ready(&memory));
                rx.consume(&memory, rx.next());
            }
            assert!(!rx.ready(&memory));
        }
    }

    /// Two processes and the rings between them.
    struct Both {
        rings: [Plain; 2],
        tx: [Tx; 2],
        rx: [Rx; 2],
        /// What each has told last in its box.
        told: [u32; 2],
        boxed: u32,
    }

    impl Both {
        fn new(start: u32) -> Both {
            let rings = [ring(), ring()];
            let [(tx, rx), (other, reply)] = [0, 1].map(|i| sides(&rings[i], start));
            Both {
                rings,
                tx: [tx, other],
                rx: [rx, reply],
                told: [0; 2],
                boxed: 0,
            }
        }

        /// Sends from one side, if there is room.
        fn send(&mut self, from: usize, may_box: bool) -> bool {
            let tx = &self.tx[from];
            if tx.is_full() {
                tx.refresh(&self.rings[from]).unwrap();
            }
            if tx.is_full() {
                return false;
            }
            let at = match may_box {
                true => tx.place(),
                false => At::of(tx.next()),
            };
            if at.is_box() {
                self.boxed += 1;
                // What it overwrites was consumed.
                let before = self.rings[from].sequence(At::BOX);
                assert!(before == 0 || self.rx[from].next().wrapping_sub(before) < 1 << 31);
                self.told[from] = self.rx[1 - from].next();
            }
            tx.publish(&self.rings[from], at);
            true
        }

        /// Receives what the other side has sent, if there is anything. It always is the next one.
        fn receive(&self, to: usize) -> bool {
            let (rx, ring) = (&self.rx[to ^ 1], &self.rings[to ^ 1]);
            let number = rx.next();
            let sent = self.tx[to ^ 1].next().wrapping_sub(number) / STEP;
            let at = Rx::find(ring, number);
            assert_eq!(at.is_some(), sent > 0);
            let Some(at) = at else {
                return false;
            };
            if at.is_box() {
                self.tx[to].hear(&self.rings[to], self.told[to ^ 1]);
            }
            rx.consume(ring, number);
            true
        }
    }

    /// A start so many rounds before a quiet one.
    fn before_quiet(rounds: u32) -> u32 {
        (QUIET + 1).wrapping_sub(rounds * SPAN)
    }

    /// Any messages to and fro, across quiet rounds and the wrap of the numbers: each is found where it is, in order, and the box is used.
    #[test]
    fn a_box_holds_what_is_next() {
        let mut seed = 1u32;
        let mut below = |n: u32| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (seed >> 16) % n
        };
        let wrap = 1u32.wrapping_sub(3 * SPAN);
        for start in [before_quiet(2), wrap] {
            let mut both = Both::new(start);
            for i in 0..20_000 {
                let me = below(2) as usize;
                // Mostly each answers, at times one only sends.
                match i / 1000 % 3 {
                    0 => drop(both.send(me, below(8) > 0)),
                    _ => {
                        both.send(me, below(8) > 0);
                        while both.receive(1 - me) {}
                    }
                }
                if below(3) == 0 {
                    both.receive(me);
                }
            }
            assert!(both.boxed > 500, "{}", both.boxed);
        }
    }

    /// Whatever the traffic is: behind a quiet round nothing is there that is older.
    #[test]
    fn nothing_gets_old() {
        for answers in [false, true] {
            let start = before_quiet(3);
            let mut both = Both::new(start);
            let first = before_quiet(0);
            // As old as it can be.
            both.rings[0].set_sequence(At::BOX, start.wrapping_sub(2 * SPAN));
            while both.tx[0].next() != first.wrapping_add(3 * SPAN) {
                assert!(both.send(0, answers) && both.receive(1));
                if answers {
                    assert!(both.send(1, true) && both.receive(0));
                }
            }
            for cell in (0..CELLS).map(|i| At(i * STEP)) {
                let number = both.rings[0].sequence(cell);
                assert!(number.wrapping_sub(first) < 3 * SPAN, "{number:#x}");
            }
            let boxed = both.rings[0].sequence(At::BOX);
            assert!(boxed == 0 || boxed.wrapping_sub(first) < 3 * SPAN);
            assert_eq!(answers, boxed != 0);
        }
    }

    #[test]
    fn what_is_told_wrongly_is_not_believed() {
        let memory = ring();
        let tx = Tx::new();
        tx.hear(&memory, tx.next());
        assert!(tx.is_full(), "nothing is let through that was not opened");
        tx.refresh(&memory).unwrap();
        tx.publish(&memory, tx.place());
        for told in [0, 1, tx.next() - 1, tx.next() + STEP, u32::MAX] {
            tx.hear(&memory, told);
            assert!(!tx.place().is_box());
        }
        tx.keep_one();
        tx.hear(&memory, tx.next());
        assert!(!tx.place().is_box(), "no more than one is let through");
    }

    #[test]
    fn impossible_credit_is_noticed() {
        let memory = ring();
        let tx = Tx::new();
        assert!(tx.is_full());
        tx.refresh(&memory).unwrap();
        assert_eq!(tx.room.get(), CELLS);
        tx.publish(&memory, tx.place());
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
