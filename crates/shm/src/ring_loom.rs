//! The ring under loom: the production code of [`Tx`], [`Rx`] and [`Lines`] on a model of the shared memory, in
//! every order that the memory model allows with up to [`PREEMPTIONS`]. Run with
//! `RUSTFLAGS="--cfg loom" cargo test -p shm --lib loom`.

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, fence};
use loom::thread;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};

use crate::lines::{LINES, Lines, Span};
use crate::ring::{At, CELL, CELLS, RingMemory, Rx, Tx};

/// A ring, its payload (one word per cell and line), and a doorbell.
struct Memory {
    sequence: Vec<AtomicU32>,
    /// The line that a message begins in, and its tag.
    cells: Vec<UnsafeCell<(u32, u32)>>,
    lines: Vec<UnsafeCell<u32>>,
    credit: AtomicU32,
    returned: AtomicU32,
    sleepers: [AtomicU32; 2],
    turns: [AtomicU32; 2],
}

impl RingMemory for Memory {
    fn sequence(&self, at: At) -> u32 {
        self.sequence[at.bytes() / CELL].load(Acquire)
    }
    fn set_sequence(&self, at: At, number: u32) {
        self.sequence[at.bytes() / CELL].store(number, Release);
    }
    fn credit(&self) -> u32 {
        self.credit.load(Acquire)
    }
    fn set_credit(&self, credit: u32) {
        self.credit.store(credit, Release);
    }
    fn lines_returned(&self) -> u32 {
        self.returned.load(Acquire)
    }
    fn set_lines_returned(&self, place: u32) {
        self.returned.store(place, Release);
    }
}

/// Bytes of a message that takes so many lines.
fn bytes(lines: u32) -> usize {
    lines as usize * 64
}

impl Memory {
    fn new() -> Arc<Memory> {
        Arc::new(Memory {
            sequence: (0..=CELLS).map(|_| AtomicU32::new(0)).collect(),
            cells: (0..=CELLS).map(|_| UnsafeCell::new((0, 0))).collect(),
            lines: (0..LINES).map(|_| UnsafeCell::new(0)).collect(),
            credit: AtomicU32::new(0),
            returned: AtomicU32::new(0),
            sleepers: Default::default(),
            turns: Default::default(),
        })
    }

    /// Sends a message of so many lines, if there is room.
    fn send(&self, (tx, free): &(Tx, Lines), lines: u32, value: u32) -> bool {
        let fits = || !tx.is_full() && free.place(tx.next(), lines).is_some();
        if !fits() {
            tx.refresh(self).unwrap();
            free.refresh(self).unwrap();
        }
        if !fits() {
            return false;
        }
        let span = free.take(tx.next(), lines);
        for i in 0..lines {
            // SAFETY: the lines are the producer's until published; loom checks exactly that.
            self.lines[(span.first() + i) as usize].with_mut(|p| unsafe { *p = value + i });
        }
        // SAFETY: so is the cell.
        let at = tx.place();
        self.cells[at.bytes() / CELL].with_mut(|p| unsafe { *p = (span.first(), value) });
        tx.publish(self, at);
        self.ring(1);
        true
    }

    /// Takes a message of so many lines, if there is one.
    fn receive(&self, rx: &Rx, lines: u32, value: u32) -> bool {
        let Some(at) = Rx::find(self, rx.next()) else {
            return false;
        };
        // SAFETY: the cell is the consumer's until it gives it back; loom checks that.
        let (first, tag) = self.cells[at.bytes() / CELL].with(|p| unsafe { *p });
        assert_eq!(tag, value);
        for i in 0..lines {
            // SAFETY: so are the lines.
            let got = self.lines[(first + i) as usize].with(|p| unsafe { *p });
            assert_eq!(got, value + i);
        }
        let returned = match lines {
            0 => rx.consume(self, rx.next()),
            _ => rx.consume_lines(self, rx.next(), Span::new(first, bytes(lines))),
        };
        if returned {
            self.ring(0);
        }
        true
    }

    /// What a doorbell does when its fence bit is set.
    fn ring(&self, who: usize) {
        fence(SeqCst);
        if self.sleepers[who].load(Relaxed) != 0 {
            self.turns[who].fetch_add(1, Release);
        }
    }

    /// Sleeps unless `ready`; a lost wake-up is an endless loop, which loom reports.
    fn sleep(&self, who: usize, ready: impl Fn() -> bool) {
        let turn = self.turns[who].load(Acquire);
        self.sleepers[who].fetch_add(1, SeqCst);
        fence(SeqCst);
        while !ready() && self.turns[who].load(Acquire) == turn {
            thread::yield_now();
            // Only a ring may end the sleep: `ready` is not looked at again.
            while self.turns[who].load(Acquire) == turn {
                thread::yield_now();
            }
        }
        self.sleepers[who].fetch_sub(1, Relaxed);
    }
}

/// Most times that a thread is interrupted where it would go on: with three all orders take 12 s, without a limit hours.
const PREEMPTIONS: usize = 3;

/// Sends messages of so many lines through a ring of four cells and eight lines, both sides sleeping when stuck.
fn transfer(lengths: &'static [u32]) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = model.preemption_bound.or(Some(PREEMPTIONS));
    model.check(move || {
        let memory = Memory::new();
        let producer = {
            let memory = memory.clone();
            thread::spawn(move || {
                let tx = (Tx::new(true), Lines::new());
                for (i, &lines) in lengths.iter().enumerate() {
                    while !memory.send(&tx, lines, 10 * i as u32) {
                        let seen = tx.0.credit_seen();
                        memory.sleep(0, || memory.credit() != seen);
                    }
                }
            })
        };
        let rx = Rx::new();
        for (i, &lines) in lengths.iter().enumerate() {
            while !memory.receive(&rx, lines, 10 * i as u32) {
                memory.sleep(1, || rx.ready(&*memory));
            }
        }
        producer.join().unwrap();
        assert!(!rx.ready(&*memory));
    });
}

/// Two rings.
struct Both([Arc<Memory>; 2]);

impl Both {
    /// Sends through one of them, in its box if that is this side's.
    fn send(&self, way: usize, tx: &Tx, value: u32) {
        let memory = &self.0[way];
        if tx.is_full() {
            tx.refresh(&**memory).unwrap();
        }
        let at = tx.place();
        // SAFETY: the cell is the producer's until published; loom checks exactly that.
        memory.cells[at.bytes() / CELL].with_mut(|p| unsafe { *p = (0, value) });
        tx.publish(&**memory, at);
    }

    /// Waits for the next message of the other.
    fn receive(&self, way: usize, tx: &Tx, rx: &Rx, value: u32) {
        let memory = &self.0[way];
        let at = loop {
            match Rx::find(&**memory, rx.next()) {
                Some(at) => break at,
                None => thread::yield_now(),
            }
        };
        // SAFETY: the cell is the consumer's until it gives it back; loom checks that.
        let (_, got) = memory.cells[at.bytes() / CELL].with(|p| unsafe { *p });
        assert_eq!(got, value);
        if at.is_box() {
            tx.have_box();
        }
        rx.consume(&**memory, rx.next());
    }
}

/// Two processes that answer each other, and one sends twice at times: the boxes go to and fro.
#[test]
fn loom_boxes() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = model.preemption_bound.or(Some(PREEMPTIONS));
    model.check(|| {
        let rings = [Memory::new(), Memory::new()];
        let both = Arc::new(Both(rings));
        let other = {
            let both = both.clone();
            thread::spawn(move || {
                let (tx, rx) = (Tx::new(false), Rx::new());
                for i in 0..2 {
                    both.receive(0, &tx, &rx, 2 * i);
                    both.send(1, &tx, i);
                    both.receive(0, &tx, &rx, 2 * i + 1);
                }
            })
        };
        let (tx, rx) = (Tx::new(true), Rx::new());
        for i in 0..2 {
            both.send(0, &tx, 2 * i);
            both.send(0, &tx, 2 * i + 1);
            both.receive(1, &tx, &rx, i);
        }
        other.join().unwrap();
    });
}

#[test]
fn loom_publish_and_consume() {
    transfer(&[0, 1]);
}

#[test]
fn loom_lines_wait_to_be_given_back() {
    transfer(&[2, 2, 2, 2]);
}

#[test]
fn loom_cells_wait_for_credit() {
    transfer(&[0, 2, 0, 0, 1]);
}
