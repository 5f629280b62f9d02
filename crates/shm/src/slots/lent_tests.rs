//! Deliveries that the kernel copies, between two ends in one process, step by step; and in two threads, both at once, with copies that are refused in the middle of
//! others. A process may read and write itself, unless it is confined: then there is nothing to test.

use boundary::UserBuf;
use layout::Data;
use mtmi::slot::{Delivery, Landed, Slot, SlotTable, Slots};
use mtmi::{Endpoint, Matched, Transport};
use sys::sparse::Sparse;

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use super::line::{Landing, Way};
use crate::Shm;
use crate::direct::{self, Choice, SHORTEST};
use crate::places::Mover;
use crate::segment::Segment;
use crate::slots::Area;
use crate::split::{SPLIT, Words, cut};
use crate::trial::CLASSES;

const LONG: usize = 3_000_001;
const SLOTS: u32 = 4;

/// Two ends that know each other, their slots open.
struct Ends {
    a: Matched<Shm>,
    b: Matched<Shm>,
    from: Vec<u8>,
    to: Vec<u8>,
}

fn slot(peer: u32, index: u32) -> Slot {
    Slot {
        table: SlotTable(0),
        peer: Endpoint(peer),
        index,
    }
}

fn shm(segment: Segment, file: Sparse, local: u32, choice: Choice) -> Matched<Shm> {
    let mut shm = Shm::new(segment, Area::new(file, 2, local), local, vec![0, 1], 2);
    shm.choose(choice);
    shm.tried_from = [0; CLASSES];
    Matched::new(shm)
}

impl Ends {
    /// `None`: they can't read and write each other's memory.
    fn new(choice: Choice) -> Option<Ends> {
        let (fd, mut first) = Segment::create(2, "test").unwrap();
        let mut second = Segment::open(&fd, 2, "test").unwrap();
        first.mark(&fd, 0);
        second.mark(&fd, 1);
        let file = Sparse::create("test", 1 << 28).unwrap();
        let copy = Sparse::open(file.fd().try_clone_to_owned().unwrap()).unwrap();
        let mut ends = Ends {
            a: shm(first, file, 0, choice),
            b: shm(second, copy, 1, choice),
            from: (0..LONG).map(|i| (i * 7 + i / 256) as u8).collect(),
            to: vec![0; LONG],
        };
        ends.a.open_slots(7, SLOTS).unwrap();
        ends.b.open_slots(7, SLOTS).unwrap();
        // The first goes through the pipe, and they get to know each other.
        ends.exchange(SHORTEST as usize);
        let fabric = ends.a.fabric();
        let known = fabric.peers[1].direct.memory().is_some();
        known.then_some(ends)
    }

    fn data(memory: &mut [u8], bytes: usize) -> Data {
        Data::bytes(UserBuf::of_array(&mut memory[..bytes]), bytes as u64)
    }

    fn post(&mut self, index: u32, bytes: usize) {
        let to = Ends::data(&mut self.to, bytes);
        self.b.post(slot(0, index), &to).unwrap();
    }

    fn deliver(&mut self, index: u32, bytes: usize) -> Delivery {
        let from = Ends::data(&mut self.from, bytes);
        self.a.deliver(slot(1, index), &from, 5).unwrap()
    }

    fn turn(&mut self) {
        self.a.advance();
        self.b.advance();
    }

    /// What comes of a receive, and of the delivery to it.
    fn ended(&mut self, index: u32, mut delivery: Delivery) -> (Landed, Delivery) {
        let mut landed = Landed::NotYet;
        for _ in 0..100_000 {
            self.turn();
            if landed == Landed::NotYet {
                landed = self.b.landed(slot(0, index));
            }
            if delivery == Delivery::Pending {
                delivery = self.a.delivered(slot(1, index));
            }
            if landed != Landed::NotYet && delivery != Delivery::Pending {
                break;
            }
        }
        (landed, delivery)
    }

    /// A message of so many bytes, from slot 0 to slot 0.
    fn exchange(&mut self, bytes: usize) {
        self.to.fill(0);
        self.post(0, bytes);
        let delivery = self.deliver(0, bytes);
        self.check(0, bytes, delivery);
    }

    fn check(&mut self, index: u32, bytes: usize, delivery: Delivery) {
        let landed = Landed::Done {
            bytes: bytes as u64,
            immediate: 5,
        };
        let done = Delivery::Done {
            bytes: bytes as u64,
        };
        assert_eq!(self.ended(index, delivery), (landed, done));
        assert!(self.to[..bytes] == self.from[..bytes], "{bytes}");
        self.turn();
    }

    /// Copies that the sender began.
    fn lent(&mut self) -> u32 {
        self.a.fabric().slots.links[1].splits
    }

    fn refuse(shm: &mut Matched<Shm>) {
        shm.fabric()
            .peers
            .iter_mut()
            .for_each(|p| p.direct.refuse());
    }
}

#[test]
fn the_kernel_copies() {
    let Some(mut ends) = Ends::new(Choice::Direct) else {
        return;
    };
    for bytes in [SHORTEST as usize, SPLIT as usize, 65_537, 600_000, LONG] {
        let before = ends.lent();
        ends.exchange(bytes);
        assert_eq!(ends.lent(), before + 1, "{bytes}");
    }
    let before = ends.lent();
    ends.exchange(SHORTEST as usize - 1);
    assert_eq!(ends.lent(), before);
}

#[test]
fn a_receive_that_is_too_short_is_told() {
    let Some(mut ends) = Ends::new(Choice::Direct) else {
        return;
    };
    let before = ends.lent();
    // One of 100,000 bytes, for more.
    ends.to.fill(0);
    ends.post(1, 100_000);
    let delivery = ends.deliver(1, LONG);
    let landed = Landed::Truncated {
        sent: LONG as u64,
        immediate: 5,
    };
    let done = Delivery::Done { bytes: 100_000 };
    assert_eq!(ends.ended(1, delivery), (landed, done));
    assert!(ends.to[..100_000] == ends.from[..100_000]);
    assert!(ends.to[100_000..].iter().all(|&b| b == 0));
    assert_eq!(ends.lent(), before + 1);
}

#[test]
fn who_is_refused_sends_a_stream() {
    for bytes in [SHORTEST as usize, SPLIT as usize, LONG] {
        let Some(mut ends) = Ends::new(Choice::Direct) else {
            return;
        };
        let before = ends.lent();
        Ends::refuse(&mut ends.a);
        ends.exchange(bytes);
        assert_eq!(ends.lent(), before + 1, "it was tried");
        // And nothing more is lent.
        ends.exchange(bytes);
        assert_eq!(ends.lent(), before + 1);
    }
}

/// The receiver looks at another slot only, or at none.
#[test]
fn what_was_refused_comes_whoever_looks() {
    let Some(mut ends) = Ends::new(Choice::Direct) else {
        return;
    };
    ends.post(2, LONG);
    Ends::refuse(&mut ends.a);
    let mut delivery = ends.deliver(2, LONG);
    assert_eq!(delivery, Delivery::Pending);
    for _ in 0..10_000 {
        ends.turn();
        if delivery == Delivery::Pending {
            delivery = ends.a.delivered(slot(1, 2));
        }
    }
    assert_ne!(delivery, Delivery::Pending);
    ends.check(2, LONG, delivery);
}

#[test]
fn a_sender_that_is_gone_fails_the_receive() {
    let Some(mut ends) = Ends::new(Choice::Direct) else {
        return;
    };
    ends.post(0, LONG);
    Ends::refuse(&mut ends.a);
    let _ = ends.deliver(0, LONG);
    ends.b.peer_failed(Endpoint(0));
    ends.b.advance();
    assert_eq!(ends.b.landed(slot(0, 0)), Landed::PeerFailed);
}

#[test]
fn both_ways_are_measured() {
    let Some(mut ends) = Ends::new(Choice::Measured) else {
        return;
    };
    let mut lent = 0;
    for _ in 0..30 {
        let before = ends.lent();
        ends.post(1, SHORTEST as usize);
        // Somebody waits.
        assert_eq!(ends.b.landed(slot(0, 1)), Landed::NotYet);
        let delivery = ends.deliver(1, SHORTEST as usize);
        ends.check(1, SHORTEST as usize, delivery);
        lent += ends.lent() - before;
    }
    assert!((4..=27).contains(&lent), "{lent}");
}

#[test]
fn nobody_lends_who_is_to_use_the_pipe() {
    assert!(Ends::new(Choice::Pipe).is_none());
}

/// Of a message that is a single chunk the landing tells no time.
#[test]
fn short_ones_are_not_measured() {
    let Some(mut ends) = Ends::new(Choice::Measured) else {
        return;
    };
    for _ in 0..3 {
        let to = Ends::data(&mut ends.to, 1000);
        ends.a.post(slot(1, 3), &to).unwrap();
        let from = Ends::data(&mut ends.from, 1000);
        let _ = ends.b.deliver(slot(0, 3), &from, 0).unwrap();
        assert!(matches!(ends.a.landed(slot(1, 3)), Landed::Done { .. }));
        ends.turn();
    }
    let measured = |ends: &mut Ends| ends.b.fabric().peers[0].direct.trials().cloned();
    let before = measured(&mut ends);
    for _ in 0..4 {
        for index in 0..2 {
            ends.post(index, 1000);
            let _ = ends.deliver(index, 1000);
        }
        // In the wrong order, so that each comes by the other's look.
        for index in [1, 0] {
            assert!(matches!(ends.b.landed(slot(0, index)), Landed::Done { .. }));
        }
        ends.turn();
    }
    assert!(before.is_some() && before == measured(&mut ends));
}

/// Nor are copies between mapped buffers, which go neither way.
#[test]
fn mapped_ones_are_not_measured() {
    const N: usize = 1 << 20;
    let Some(mut ends) = Ends::new(Choice::Measured) else {
        return;
    };
    let from = Data::bytes(ends.a.alloc_mapped(N).unwrap(), N as u64);
    let to = Data::bytes(ends.b.alloc_mapped(N).unwrap(), N as u64);
    let measured = |ends: &mut Ends| ends.b.fabric().peers[0].direct.trials().cloned();
    let (before, copies) = (measured(&mut ends), ends.lent());
    ends.b.post(slot(0, 0), &to).unwrap();
    let delivery = ends.a.deliver(slot(1, 0), &from, 0).unwrap();
    let (landed, _) = ends.ended(0, delivery);
    assert!(matches!(landed, Landed::Done { .. }) && ends.lent() == copies + 1);
    assert!(before.is_some() && before == measured(&mut ends));
}

/// The words of what goes from the first end to the second.
fn words(ends: &mut Ends) -> &'static Words {
    let pipes = ends.a.fabric().outward_pipes(1).unwrap();
    // SAFETY: they are in a mapping that lives as long as the ends, which the caller drops last.
    unsafe { &*std::ptr::from_ref(pipes.out.split()) }
}

/// The first end lets the second's receive in slot 1 have so many bytes at `at`, by a copy of this number.
fn land(ends: &mut Ends, way: Way, sent: u64, (at, number): (u64, u32)) {
    let lines = ends
        .a
        .fabric()
        .slots
        .pair(0, 1)
        .unwrap()
        .mine
        .as_ref()
        .unwrap();
    let landing = Landing {
        way,
        sent,
        immediate: 5,
    };
    lines.line(1).land(1, landing, [at, number.into(), 0]);
}

#[test]
fn what_came_whole_is_seen_though_its_sender_is_gone() {
    let Some(mut ends) = Ends::new(Choice::Direct) else {
        return;
    };
    ends.post(0, LONG);
    assert!(matches!(ends.deliver(0, LONG), Delivery::Done { .. }));
    // As if the sender were at its last chunk when the receiver looks first.
    let (number, all) = (ends.lent(), direct::cut(LONG as u64).chunks());
    let words = words(&mut ends);
    words.set_copied(number, all - 1, true);
    assert_eq!(ends.b.landed(slot(0, 0)), Landed::NotYet);
    words.set_copied(number, all, true);
    ends.b.peer_failed(Endpoint(0));
    ends.b.advance();
    let done = Landed::Done {
        bytes: LONG as u64,
        immediate: 5,
    };
    assert_eq!(ends.b.landed(slot(0, 0)), done);
}

#[test]
fn nothing_is_written_when_the_sender_has_failed() {
    const N: usize = 1 << 20;
    let Some(mut ends) = Ends::new(Choice::Pipe).or_else(|| Ends::new(Choice::Direct)) else {
        return;
    };
    let to = ends.b.alloc_mapped(N).unwrap();
    let from = ends.a.alloc_mapped(N).unwrap();
    // A stream goes the other way, so they are busy with each other.
    ends.b.fabric().lend_no_more(0);
    let mut other = vec![0; LONG];
    let theirs = Ends::data(&mut other, LONG);
    ends.a.post(slot(1, 3), &theirs).unwrap();
    let long = Ends::data(&mut ends.from, LONG);
    assert_eq!(ends.b.deliver(slot(0, 3), &long, 0), Ok(Delivery::Pending));
    let data = Data::bytes(to, N as u64);
    ends.b.post(slot(0, 1), &data).unwrap();
    let number = 5;
    let at = ends.a.fabric().slots.arena.find(from, N as u64).unwrap();
    let words = words(&mut ends);
    words.begin(number);
    // Everything is taken from the back, and nothing copied.
    while words.take(number, cut(N as u64).chunks(), true).is_some() {}
    land(&mut ends, Way::Split, N as u64, (at, number));
    ends.b.peer_failed(Endpoint(0));
    assert_eq!(ends.b.landed(slot(0, 1)), Landed::PeerFailed);
    data.writer().write(&[0xaa; N]);
    ends.b.advance();
    words.begin(number);
    ends.b.advance();
    let mut now = vec![0; N];
    to.read(&mut now);
    assert!(now.iter().all(|&b| b == 0xaa));
    assert_eq!(ends.b.landed(slot(0, 1)), Landed::Idle);
}

/// A sender that turns the word back does not keep a receiver to which the copy is refused.
#[test]
fn who_turns_the_word_back_keeps_nobody() {
    /// So many chunks that a liar is at work all the time.
    const SENT: u64 = 130 << 30;
    let Some(mut ends) = Ends::new(Choice::Direct) else {
        return;
    };
    ends.b.fabric().mover = Some(Mover::new(1));
    Ends::refuse(&mut ends.b);
    // Nothing is ever written there, as what the liar names can't be read.
    let long = Data::bytes(UserBuf::of_array(&mut ends.to), SENT);
    ends.b.post(slot(0, 1), &long).unwrap();
    let words = words(&mut ends);
    words.begin(5);
    land(&mut ends, Way::Lent, SENT, (8, 5));
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Relaxed) {
                words.begin(5);
            }
        });
        // It is back after as many steps as there are chunks.
        let _ = ends.b.landed(slot(0, 1));
        stop.store(true, Relaxed);
    });
}
