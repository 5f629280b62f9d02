//! The words of a split copy under loom: the production code, in every order that the memory model allows.
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p shm --lib loom`.

use std::sync::atomic::Ordering::{Acquire, Release};

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::AtomicU32;
use loom::thread;

use crate::split::{Seen, Words};

const CHUNKS: u32 = 2;

/// A number that says from when on the words are those of which copy, and the chunks.
struct Copied {
    words: Words,
    begun: AtomicU32,
    chunks: [UnsafeCell<u32>; CHUNKS as usize],
}

impl Copied {
    fn new() -> Arc<Copied> {
        Arc::new(Copied {
            words: Words::new(),
            begun: AtomicU32::new(0),
            chunks: [UnsafeCell::new(0), UnsafeCell::new(0)],
        })
    }

    fn begin(&self, number: u32) {
        self.words.begin(number);
        self.begun.store(number, Release);
    }

    fn await_begun(&self, number: u32) {
        while self.begun.load(Acquire) < number {
            thread::yield_now();
        }
    }

    /// Copies what this side gets; how many chunks.
    fn copy(&self, number: u32, back: bool) -> u32 {
        let mut copied = 0;
        while let Some(i) = self.words.take(number, CHUNKS, back) {
            let at = if back { CHUNKS - 1 - i } else { i } as usize;
            // SAFETY: whoever took a chunk is the only one to write it; loom checks that.
            self.chunks[at].with_mut(|m| unsafe { *m += 1 });
            copied += 1;
            self.words.set_copied(number, copied, back);
        }
        copied
    }

    /// Waits until the other side has copied what it took.
    fn finish(&self, number: u32, back: bool) {
        loop {
            let Seen::Taken(front, rear) = self.words.seen(number) else {
                // The other side has begun the next, so this one is over.
                return;
            };
            let others = if back { front } else { rear };
            if front + rear == CHUNKS && self.words.has_copied(number, others, !back) {
                return;
            }
            thread::yield_now();
        }
    }

    fn check(&self, copies: u32) {
        for chunk in &self.chunks {
            // SAFETY: all chunks were copied; loom checks that nobody writes any more.
            assert_eq!(chunk.with(|m| unsafe { *m }), copies);
        }
    }
}

/// A delivery to a slot, which the sender begins: every chunk once, and neither side is done before all of them are.
#[test]
fn loom_split_of_a_delivery() {
    loom::model(|| {
        let all = Copied::new();
        let receiver = {
            let all = all.clone();
            thread::spawn(move || {
                all.await_begun(3);
                all.copy(3, false);
                all.finish(3, false);
                all.check(1);
            })
        };
        all.begin(3);
        all.copy(3, true);
        all.finish(3, true);
        receiver.join().unwrap();
        all.check(1);
    });
}

/// Two messages, which the receiver begins: it may begin the second before the sender has seen that the first is over.
#[test]
fn loom_split_of_messages() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(|| {
        let all = Copied::new();
        let sender = {
            let all = all.clone();
            thread::spawn(move || {
                for number in [1, 2] {
                    all.await_begun(number);
                    all.copy(number, true);
                    all.finish(number, true);
                }
            })
        };
        for number in [1, 2] {
            all.begin(number);
            all.copy(number, false);
            all.finish(number, false);
            all.check(number);
        }
        sender.join().unwrap();
        all.check(2);
    });
}
