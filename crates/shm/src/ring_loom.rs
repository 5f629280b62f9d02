//! The ring under loom: the production code of [`Tx`] and [`Rx`] on a model of the shared memory, in
//! every order that the memory model allows. Run with
//! `RUSTFLAGS="--cfg loom" cargo test -p shm --lib loom`.

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, fence};
use loom::thread;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};

use crate::ring::{CELLS, LONGEST, RingMemory, Rx, STEP, Tx, cell};

/// A ring, its payload (one word per cell), and a doorbell.
struct Memory {
    sequence: Vec<AtomicU32>,
    payload: Vec<UnsafeCell<u32>>,
    credit: AtomicU32,
    sleepers: [AtomicU32; 2],
    turns: [AtomicU32; 2],
}

impl RingMemory for Memory {
    fn sequence(&self, cell: u32) -> u32 {
        self.sequence[cell as usize].load(Acquire)
    }
    fn set_sequence(&self, cell: u32, number: u32) {
        self.sequence[cell as usize].store(number, Release);
    }
    fn credit(&self) -> u32 {
        self.credit.load(Acquire)
    }
    fn set_credit(&self, credit: u32) {
        self.credit.store(credit, Release);
    }
}

impl Memory {
    fn new() -> Arc<Memory> {
        Arc::new(Memory {
            sequence: (0..CELLS).map(|_| AtomicU32::new(0)).collect(),
            payload: (0..CELLS).map(|_| UnsafeCell::new(0)).collect(),
            credit: AtomicU32::new(0),
            sleepers: Default::default(),
            turns: Default::default(),
        })
    }

    /// Sends a message of `cells` cells, if there is room.
    fn send(&self, tx: &Tx, cells: u32, value: u32) -> bool {
        if tx.room() < cells {
            tx.refresh(self).unwrap();
        }
        if tx.room() < cells {
            return false;
        }
        for i in 0..cells {
            let number = tx.next() + STEP * i;
            // SAFETY: the cells are the producer's until published; loom checks exactly that.
            self.payload[cell(number) as usize].with_mut(|p| unsafe { *p = value + i });
        }
        tx.publish(self, cells);
        self.ring(1);
        true
    }

    /// Takes a message of `cells` cells, if there is one.
    fn receive(&self, rx: &Rx, cells: u32, value: u32) -> bool {
        if !rx.ready(self) {
            return false;
        }
        for i in 0..cells {
            let number = rx.next() + STEP * i;
            // SAFETY: the cells are the consumer's until it gives them back; loom checks that.
            let got = self.payload[cell(number) as usize].with(|p| unsafe { *p });
            assert_eq!(got, value + i);
        }
        if rx.consume(self, cells) {
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

/// Sends messages of these lengths through a ring of four cells, both sides sleeping when stuck.
fn transfer(lengths: &'static [u32]) {
    loom::model(move || {
        let memory = Memory::new();
        let producer = {
            let memory = memory.clone();
            thread::spawn(move || {
                let tx = Tx::new();
                for (i, &cells) in lengths.iter().enumerate() {
                    while !memory.send(&tx, cells, 10 * i as u32) {
                        let seen = tx.credit_seen();
                        memory.sleep(0, || memory.credit() != seen);
                    }
                }
            })
        };
        let rx = Rx::new();
        for (i, &cells) in lengths.iter().enumerate() {
            while !memory.receive(&rx, cells, 10 * i as u32) {
                memory.sleep(1, || rx.ready(&*memory));
            }
        }
        producer.join().unwrap();
        assert!(!rx.ready(&*memory));
    });
}

#[test]
fn loom_publish_and_consume() {
    transfer(&[1, 1]);
}

#[test]
fn loom_long_messages_wait_for_credit() {
    assert_eq!(LONGEST, 3);
    transfer(&[2, 3]);
}

#[test]
fn loom_around_the_ring() {
    transfer(&[3, 2, 1]);
}
