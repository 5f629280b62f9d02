//! The ring protocol: how one process hands cells to one other, without the memory it uses.
//!
//! A ring has [`CELLS`] cells of one cache line. A message takes one, which carries a sequence word, and is there when that
//! word equals the number the consumer expects: one load and one compare, nothing to clear, no second line. Numbers are odd (where a cell
//! is in the endless sequence of their bytes, plus one), so the zero of fresh memory is
//! none, and some of a number's bits say where in the ring its cell is. Every cell gets a number in every round, so none is there that is due again.
//! What of a message does not fit into its cell lies in [lines](crate::lines).
//!
//! Beside the ring is the *box*, a cell that any number may lie in: a consumer looks there and where the number's own cell is. One of the two processes may
//! write to its box at a time: who consumes what the peer has put there may put the next there. So two processes that answer each other
//! use one line each: 8 bytes take 52 ns in place of 82, as going round on more than 8 to 16 lines costs two bare threads 20 ns as well. Cells whose messages
//! go by the box keep what they hold. Once in many rounds the producer empties all that were consumed ([`QUIET`]), so that no number gets as old as the
//! numbers' round.
//!
//! Credit flows back as one word, the number of the next cell to be consumed less one, stored after each [`BATCH`] cells, and where the
//! lines want it. Therefore a producer always gets a cell in the end.
//!
//! Invariants: who may write to its box knows that it was consumed; at most `CELLS` cells have room; a producer writes only these, from `next` on, a consumer
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
/// When the next number has all of these bits, cells are emptied whenever credit is taken up, which is at least once in the round. Four rounds of all numbers
/// are such: what one leaves, as it was not consumed or came later, the next one empties, as it is then a little more than a quarter of all numbers old.
const QUIET: u32 = u32::MAX >> 2 & !(SPAN - 1);

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
    /// Free cells as far as we know. None at first, so that the first message takes the slow path, where the pair is connected.
    /// A count and not the number where they end: who compares that with `next` needs both in registers.
    room: Cell<u16>,
    /// Of the credit as last seen, how many cells that is, modulo so many.
    credit: Cell<u16>,
    /// Where the next message is to be written, as [`At`] has it.
    place: Cell<u16>,
}

const _: () = assert!(At::BOX.0 <= u16::MAX as u32);

impl Tx {
    /// Nothing was sent yet. Of two processes one may write to its box first.
    pub fn new(boxed: bool) -> Tx {
        let first = if boxed { At::BOX } else { At::of(1) };
        Tx {
            next: Cell::new(1),
            room: Cell::new(0),
            credit: Cell::new(0),
            place: Cell::new(first.0 as u16),
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
        let credit = self.take_up(memory)?;
        if self.empties() {
            empty(memory, credit);
        }
        Ok(())
    }

    /// Whether cells are to be emptied, which `refresh` does.
    #[inline(always)]
    pub fn empties(&self) -> bool {
        self.next() & QUIET == QUIET
    }

    /// Takes up new credit, while no cells are to be emptied: that.
    #[inline(always)]
    pub fn take_up(&self, memory: &impl RingMemory) -> Result<u32, Hostile> {
        let credit = memory.credit();
        let out = self.next().wrapping_sub(1).wrapping_sub(credit);
        // More than were would be a credit older than the last, or one for what was never sent.
        if !credit.is_multiple_of(STEP) || out / STEP > u32::from(self.out()) {
            return Err(Hostile);
        }
        self.credit.set((credit / STEP) as u16);
        self.room.set((CELLS - out / STEP) as u16);
        Ok(credit)
    }

    /// Cells that were sent and not given back, as far as `refresh` last saw: at most `CELLS`.
    #[inline(always)]
    fn out(&self) -> u16 {
        let sent = self.next().wrapping_sub(1) / STEP;
        (sent as u16).wrapping_sub(self.credit.get())
    }

    /// The credit that `refresh` last saw.
    #[inline]
    pub fn credit_seen(&self) -> u32 {
        let sent = self.next().wrapping_sub(1);
        sent.wrapping_sub(u32::from(self.out()) * STEP)
    }

    /// Where the next message, for which there is room, is best written: in the box, if this process may.
    #[inline(always)]
    pub fn place(&self) -> At {
        At(self.place.get().into())
    }

    /// This process has consumed what was in the peer's box.
    #[inline(always)]
    pub fn have_box(&self) {
        self.place.set(At::BOX.0 as u16);
    }

    /// Publishes the next message, which was written to its best [place](Tx::place) or its own cell.
    #[inline]
    pub fn publish(&self, memory: &impl RingMemory, at: At) {
        let number = self.next();
        memory.set_sequence(at, number);
        let place = self.place();
        self.published(number);
        // The box was not used.
        if place.is_box() && !at.is_box() {
            self.have_box();
        }
    }

    /// The message of this number, the next one, was published at its best place.
    #[inline(always)]
    pub fn published(&self, number: u32) {
        let next = number.wrapping_add(STEP);
        self.next.set(next);
        self.place.set(At::of(next).0 as u16);
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

/// Empties the cells whose messages were consumed.
#[cold]
fn empty(memory: &impl RingMemory, credit: u32) {
    for at in (0..=CELLS).map(|i| At(i * STEP)) {
        if credit.wrapping_sub(memory.sequence(at)) < 1 << 31 {
            memory.set_sequence(at, 0);
        }
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
        let credit = start.wrapping_sub(1) / STEP;
        let tx = Tx {
            next: Cell::new(start),
            room: Cell::new(0),
            credit: Cell::new(credit as u16),
            place: Cell::new(At::of(start).0 as u16),
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
        boxed: u32,
    }

    impl Both {
        fn new(start: u32) -> Both {
            let rings = [ring(), ring()];
            let [(tx, rx), (other, reply)] = [0, 1].map(|i| sides(&rings[i], start));
            tx.have_box();
            Both {
                rings,
                tx: [tx, other],
                rx: [rx, reply],
                boxed: 0,
            }
        }

        /// Sends from one side, if there is room, to the best place or not.
        fn send(&mut self, from: usize, best: bool) -> bool {
            let tx = &self.tx[from];
            if tx.is_full() {
                tx.refresh(&self.rings[from]).unwrap();
            }
            if tx.is_full() {
                return false;
            }
            let at = match best {
                true => tx.place(),
                false => At::of(tx.next()),
            };
            if at.is_box() {
                self.boxed += 1;
                // What it overwrites was consumed.
                let before = self.rings[from].sequence(At::BOX);
                assert!(before == 0 || self.rx[from].next().wrapping_sub(before) < 1 << 31);
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
            if at.is_some_and(At::is_box) {
                self.tx[to].have_box();
            }
            if at.is_some() {
                rx.consume(ring, number);
            }
            at.is_some()
        }
    }

    /// A start so many rounds before cells are emptied.
    fn before_quiet(rounds: u32) -> u32 {
        (QUIET + 1).wrapping_sub(rounds * SPAN)
    }

    /// Any messages to and fro, across rounds in which cells are emptied and the wrap of the numbers: each is found where it is, in order, and the
    /// boxes go to and fro.
    #[test]
    fn a_box_is_one_sides_at_a_time() {
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
                both.send(me, below(8) > 0);
                while i / 1000 % 3 > 0 && both.receive(1 - me) {}
                if below(3) == 0 {
                    both.receive(me);
                }
                let may = [0, 1].map(|side: usize| both.tx[side].place().is_box());
                assert!(!(may[0] && may[1]), "both may");
            }
            assert!(both.boxed > 3000, "{}", both.boxed);
        }
    }

    /// Whatever the traffic is, and whenever in a round credit comes: behind a round in which cells are emptied nothing is there that is older.
    #[test]
    fn nothing_gets_old() {
        let shifts = (0..CELLS).map(|shift| (true, shift));
        for (answers, shift) in shifts.chain([(false, 0)]) {
            let (start, first) = (before_quiet(3).wrapping_add(shift * STEP), before_quiet(0));
            let mut both = Both::new(start);
            // As old as it can be: of the last such round, and the one behind it.
            let last = first.wrapping_sub(QUIET + SPAN);
            for at in (0..=CELLS).map(|i| At(i * STEP)) {
                let old = last.wrapping_add(at.0 + shift % 2 * SPAN);
                both.rings[0].set_sequence(at, old);
            }
            both.tx[0].refresh(&both.rings[0]).unwrap();
            while both.tx[0].next() != first.wrapping_add(3 * SPAN) {
                assert!(both.send(0, answers) && both.receive(1));
                if answers {
                    assert!(both.send(1, true) && both.receive(0));
                }
            }
            for at in (0..=CELLS).map(|i| At(i * STEP)) {
                let number = both.rings[0].sequence(at);
                let is_young = number.wrapping_sub(first) < 3 * SPAN;
                assert!(number == 0 || is_young, "{number:#x}");
            }
            assert_eq!(answers, both.boxed > 100);
        }
    }

    #[test]
    fn what_is_closed_stays_so() {
        let memory = ring();
        let tx = Tx::new(true);
        tx.have_box();
        assert!(tx.is_full(), "nothing is let through that was not opened");
        tx.refresh(&memory).unwrap();
        tx.keep_one();
        assert!(!tx.is_full());
        tx.publish(&memory, At::of(tx.next()));
        assert!(tx.is_full() && tx.place().is_box(), "it was not used");
        tx.keep_one();
        assert!(tx.is_full());
        tx.refresh(&memory).unwrap();
        tx.close();
        tx.have_box();
        assert!(tx.is_full());
    }

    #[test]
    fn impossible_credit_is_noticed() {
        let memory = ring();
        let tx = Tx::new(false);
        assert!(tx.is_full());
        tx.refresh(&memory).unwrap();
        assert_eq!(u32::from(tx.room.get()), CELLS);
        tx.publish(&memory, tx.place());
        for credit in [2, 2 * STEP, 1, STEP.wrapping_neg(), SPAN] {
            memory.set_credit(credit);
            assert_eq!(tx.refresh(&memory), Err(Hostile));
        }
        memory.set_credit(STEP);
        assert_ne!(tx.credit_seen(), memory.credit());
        tx.refresh(&memory).unwrap();
        assert_eq!(u32::from(tx.room.get()), CELLS);
    }
}
