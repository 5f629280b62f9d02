//! The lines under loom: the production code, in every order that the memory model allows.
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p shm --lib loom`.

use std::sync::atomic::Ordering::{Acquire, Release};

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::AtomicU32;
use loom::thread;

use super::line::{Header, Landing, Line, Way};

/// A slot between a receiver and a sender: the line that each writes, the receive's memory, and the ring's messages with
/// which a receive is asked back.
struct Slot {
    receiver: Line,
    sender: Line,
    memory: UnsafeCell<u64>,
    asked: AtomicU32,
    returned: AtomicU32,
}

impl Slot {
    fn new() -> Arc<Slot> {
        Arc::new(Slot {
            receiver: Line::new(),
            sender: Line::new(),
            memory: UnsafeCell::new(0),
            asked: AtomicU32::new(0),
            returned: AtomicU32::new(0),
        })
    }

    /// The receive's owner writes its memory, then posts it.
    fn post(&self, generation: u32) {
        // SAFETY: the memory is the receiver's until it is offered; loom checks exactly that.
        self.memory.with_mut(|m| unsafe { *m = 0 });
        self.receiver.set_header(header(generation));
        self.receiver.offer(generation);
    }

    fn deliver(&self, generation: u32, way: Way) {
        assert_eq!(self.receiver.header(), header(generation));
        if way == Way::Direct {
            // SAFETY: offered, so it is the sender's until it has landed; loom checks that.
            self.memory
                .with_mut(|m| unsafe { *m = u64::from(generation) });
        }
        let landing = Landing {
            way,
            sent: u64::from(generation) + 100,
            immediate: generation,
        };
        self.sender
            .land(generation, landing, [u64::from(generation); 3]);
    }

    /// Looks at a landing that is there.
    fn take(&self, generation: u32, way: Way) {
        let landing = self.sender.landing().unwrap();
        assert_eq!(landing.way, way);
        assert_eq!(landing.sent, u64::from(generation) + 100);
        assert_eq!(landing.immediate, generation);
        match way {
            Way::Direct => {
                // SAFETY: it has landed, so it is the receiver's again; loom checks that.
                let got = self.memory.with(|m| unsafe { *m });
                assert_eq!(got, u64::from(generation));
            }
            _ => assert_eq!(self.sender.payload(), [u64::from(generation); 3]),
        }
    }
}

fn header(generation: u32) -> Header {
    Header {
        segment: generation,
        offset: u64::from(generation) + 10,
        length: u64::from(generation) + 20,
    }
}

/// Two receives in the same slot, one after the other.
fn two(way: Way) {
    loom::model(move || {
        let slot = Slot::new();
        let sender = {
            let slot = slot.clone();
            thread::spawn(move || {
                for generation in 1..=2 {
                    while !slot.receiver.is_offered(generation) {
                        thread::yield_now();
                    }
                    slot.deliver(generation, way);
                }
            })
        };
        for generation in 1..=2 {
            slot.post(generation);
            while !slot.sender.has_landed(generation) {
                thread::yield_now();
            }
            slot.take(generation, way);
        }
        sender.join().unwrap();
    });
}

#[test]
fn loom_slots_inline() {
    two(Way::Inline);
}

#[test]
fn loom_slots_into_memory() {
    two(Way::Direct);
}

/// Each side's line carries its header and its landing at once.
#[test]
fn loom_slots_both_ways() {
    loom::model(|| {
        let lines = Arc::new([Line::new(), Line::new()]);
        let side = |lines: &[Line; 2], me: usize| {
            let (mine, theirs) = (&lines[me], &lines[1 - me]);
            mine.set_header(header(1));
            mine.offer(1);
            while !theirs.is_offered(1) {
                thread::yield_now();
            }
            assert_eq!(theirs.header(), header(1));
            let landing = Landing {
                way: Way::Inline,
                sent: 8,
                immediate: 3,
            };
            mine.land(1, landing, [5, 6, 7]);
            while !theirs.has_landed(1) {
                thread::yield_now();
            }
            assert_eq!(
                (theirs.landing(), theirs.payload()),
                (Ok(landing), [5, 6, 7])
            );
        };
        let other = {
            let lines = lines.clone();
            thread::spawn(move || side(&lines, 1))
        };
        side(&lines, 0);
        other.join().unwrap();
    });
}

/// A receive is asked back while its sender may deliver: it is returned or has landed, never both, and whoever has the
/// memory afterwards has it alone.
#[test]
fn loom_slots_taken_back() {
    loom::model(|| {
        let slot = Slot::new();
        let sender = {
            let slot = slot.clone();
            thread::spawn(move || {
                // It delivers when it happens to look, unless it was asked before.
                let mut consumed = false;
                for deliver in [true, false] {
                    if !consumed && deliver && slot.receiver.is_offered(1) {
                        slot.deliver(1, Way::Direct);
                        consumed = true;
                    }
                    while !deliver && slot.asked.load(Acquire) != 1 {
                        thread::yield_now();
                    }
                }
                if !consumed {
                    assert!(slot.receiver.is_offered(1));
                    slot.returned.store(1, Release);
                }
            })
        };
        slot.post(1);
        slot.asked.store(1, Release);
        loop {
            let (landed, returned) = (slot.sender.has_landed(1), slot.returned.load(Acquire) == 1);
            assert!(!(landed && returned));
            if landed {
                slot.take(1, Way::Direct);
                break;
            }
            if returned {
                // SAFETY: the sender has agreed that it is the receiver's; loom checks that.
                slot.memory.with_mut(|m| unsafe { *m = 9 });
                break;
            }
            thread::yield_now();
        }
        sender.join().unwrap();
    });
}
