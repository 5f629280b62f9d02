//! What every implementation of [`Slots`] has to do, as tests that each runs over pairs of its own.

use std::time::{Duration, Instant};

use layout::Data;
use mtmi::slot::{Delivery, Landed, Slot, SlotError, SlotTable, Slots};
use mtmi::{Endpoint, Transport};

use crate::Bytes;

/// Lengths at which implementations change their ways.
const LENGTHS: [usize; 12] = [
    0, 1, 8, 24, 25, 64, 4096, 5000, 32_768, 131_073, 400_000, 3_000_000,
];

/// How long anything may take.
const LIMIT: Duration = Duration::from_secs(20);

/// Two endpoints, 0 and 1, that both have table 0 with six slots.
struct Pair<T>(T, T);

fn slot(peer: u32, index: u32) -> Slot {
    Slot {
        table: SlotTable(0),
        peer: Endpoint(peer),
        index,
    }
}

/// What tells messages apart.
fn pattern(seed: u8, len: usize) -> Vec<u8> {
    (0..len)
        .map(|i| seed ^ (i ^ ((i >> 8) * 7)) as u8)
        .collect()
}

impl<T: Transport + Slots> Pair<T> {
    fn new(make: &mut impl FnMut() -> (T, T)) -> Pair<T> {
        let (mut a, mut b) = make();
        assert_eq!(a.open_slots(9, 6), Ok(SlotTable(0)));
        assert_eq!(a.open_slots(9, 6), Err(SlotError::Busy));
        assert_eq!(b.open_slots(9, 6), Ok(SlotTable(0)));
        let mut pair = Pair(a, b);
        pair.until(|p| p.0.opened(SlotTable(0), Endpoint(1)) == Some(6));
        pair.until(|p| p.1.opened(SlotTable(0), Endpoint(0)) == Some(6));
        pair
    }

    /// Both make progress until something holds.
    #[track_caller]
    fn until(&mut self, mut holds: impl FnMut(&mut Pair<T>) -> bool) {
        let end = Instant::now() + LIMIT;
        while !holds(self) {
            self.0.advance();
            self.1.advance();
            assert!(Instant::now() < end, "it never comes to that");
        }
    }

    /// Both make progress for a while.
    fn rest(&mut self) {
        for _ in 0..200 {
            self.0.advance();
            self.1.advance();
        }
    }

    #[track_caller]
    fn offered(&mut self, index: u32) -> u64 {
        self.until(|p| p.0.offered(slot(1, index)).is_some());
        self.0.offered(slot(1, index)).unwrap()
    }

    /// Endpoint 0 delivers, and what it is told in the end.
    #[track_caller]
    fn deliver(&mut self, index: u32, data: &Data, immediate: u32) -> Delivery {
        self.offered(index);
        let mut now = self.0.deliver(slot(1, index), data, immediate).unwrap();
        if now == Delivery::Pending {
            let again = self.0.deliver(slot(1, index), data, immediate);
            assert_eq!(again, Err(SlotError::Busy));
            assert!(!self.0.flushed());
            self.until(|p| {
                now = p.0.delivered(slot(1, index));
                now != Delivery::Pending
            });
        }
        assert_eq!(self.0.delivered(slot(1, index)), Delivery::Idle);
        now
    }

    /// What endpoint 1 is told of its receive.
    #[track_caller]
    fn landed(&mut self, index: u32) -> Landed {
        self.until(|p| p.1.has_landed(slot(0, index)));
        let landed = self.1.landed(slot(0, index));
        assert_ne!(landed, Landed::NotYet);
        assert_eq!(self.1.landed(slot(0, index)), Landed::Idle);
        landed
    }
}

/// Memory for a test, mapped or not.
enum Memory {
    Heap(Bytes),
    Mapped(Data),
}

impl Memory {
    fn new<T: Slots>(owner: &mut T, mapped: bool, len: usize) -> Memory {
        // There is none to be had on every fabric.
        match mapped.then(|| owner.alloc_mapped(len)).flatten() {
            Some(buf) => Memory::Mapped(Data::bytes(buf, len as u64)),
            None => Memory::Heap(Bytes::new(len)),
        }
    }

    fn data(&mut self) -> Data {
        match self {
            Memory::Heap(bytes) => bytes.data(),
            Memory::Mapped(data) => data.clone(),
        }
    }

    fn write(&mut self, bytes: &[u8]) {
        self.data().writer().write(bytes);
    }

    fn read(&mut self) -> Vec<u8> {
        let data = self.data();
        let mut out = vec![0; data.len() as usize];
        data.reader().read(&mut out);
        out
    }

    fn free<T: Slots>(self, owner: &mut T) {
        if let Memory::Mapped(data) = self {
            assert!(owner.free_mapped(data.buf));
            assert!(!owner.free_mapped(data.buf));
        }
    }
}

/// Runs everything. `make` gives endpoints 0 and 1 of a new job of two, whose calls this thread makes by turns.
pub fn all<T: Transport + Slots>(mut make: impl FnMut() -> (T, T)) {
    deliveries_go_home(&mut make);
    many_at_once(&mut make);
    prepared_receives_start_again(&mut make);
    too_long_is_told_at_both_ends(&mut make);
    taken_back_or_delivered(&mut make);
    misuse_is_refused(&mut make);
    a_lost_peer_ends_what_needs_it(&mut make);
    tables_come_and_go(&mut make);
}

fn deliveries_go_home<T: Transport + Slots>(make: &mut impl FnMut() -> (T, T)) {
    let mut p = Pair::new(make);
    for len in LENGTHS {
        for (from, to) in [(false, false), (true, false), (false, true), (true, true)] {
            let mut out = Memory::new(&mut p.0, from, len);
            let mut back = Memory::new(&mut p.1, to, len + 8);
            out.write(&pattern(len as u8, len));
            assert_eq!(p.0.offered(slot(1, 5)), None);
            let early = p.0.deliver(slot(1, 5), &out.data(), 1);
            assert_eq!(early, Err(SlotError::NotOffered));
            p.1.post(slot(0, 5), &back.data()).unwrap();
            assert_eq!(p.1.post(slot(0, 5), &back.data()), Err(SlotError::Busy));
            assert_eq!(p.1.landed(slot(0, 5)), Landed::NotYet);
            assert_eq!(p.offered(5), len as u64 + 8);
            let bytes = len as u64;
            let sent = p.deliver(5, &out.data(), 77);
            assert_eq!(sent, Delivery::Done { bytes });
            let done = Landed::Done {
                bytes,
                immediate: 77,
            };
            assert_eq!(p.landed(5), done);
            assert!(back.read()[..len] == out.read(), "{len} {from} {to}");
            assert!(back.read()[len..].iter().all(|&b| b == 0));
            out.free(&mut p.0);
            back.free(&mut p.1);
        }
    }
    p.until(|p| p.0.flushed() && p.1.flushed());
}

/// Several slots and both directions, looked at in another order than they were served in.
fn many_at_once<T: Transport + Slots>(make: &mut impl FnMut() -> (T, T)) {
    let mut p = Pair::new(make);
    let sizes = [300_000, 10, 40_000, 500_000, 100, 300_000];
    let mut out: Vec<Bytes> = (0..6)
        .map(|i| Bytes::of(&pattern(i as u8, sizes[i])))
        .collect();
    let mut back: Vec<Bytes> = sizes.iter().map(|&n| Bytes::new(n)).collect();
    let mut answers: Vec<Bytes> = sizes.iter().map(|&n| Bytes::new(n)).collect();
    for i in 0..6u32 {
        let at = i as usize;
        p.1.post(slot(0, i), &back[at].data()).unwrap();
        p.0.post(slot(1, i), &answers[at].data()).unwrap();
    }
    for i in 0..6u32 {
        p.offered(i);
        p.until(|p| p.1.offered(slot(0, i)).is_some());
        let data = out[i as usize].data();
        let _ = p.0.deliver(slot(1, i), &data, i).unwrap();
        let _ = p.1.deliver(slot(0, i), &data, 10 + i).unwrap();
    }
    for i in [5, 1, 3, 0, 4, 2] {
        let bytes = sizes[i as usize] as u64;
        assert_eq!(
            p.landed(i),
            Landed::Done {
                bytes,
                immediate: i
            }
        );
        p.until(|p| p.0.has_landed(slot(1, i)));
        let answer = Landed::Done {
            bytes,
            immediate: 10 + i,
        };
        assert_eq!(p.0.landed(slot(1, i)), answer);
        let at = i as usize;
        assert!(back[at].bytes() == out[at].bytes() && answers[at].bytes() == out[at].bytes());
    }
    p.until(|p| p.0.flushed() && p.1.flushed());
    for i in 0..6 {
        assert_ne!(p.0.delivered(slot(1, i)), Delivery::Pending);
        assert_ne!(p.1.delivered(slot(0, i)), Delivery::Pending);
    }
}

fn prepared_receives_start_again<T: Transport + Slots>(make: &mut impl FnMut() -> (T, T)) {
    let mut p = Pair::new(make);
    for (mapped, len) in [(false, 3), (true, 9000), (false, 9000)] {
        let mut back = Memory::new(&mut p.1, mapped, len);
        assert_eq!(p.1.start(slot(0, 0)), Err(SlotError::NotPrepared));
        p.1.prepare(slot(0, 0), &back.data()).unwrap();
        assert_eq!(p.1.landed(slot(0, 0)), Landed::Idle);
        assert_eq!(p.0.offered(slot(1, 0)), None);
        for i in 0..20 {
            p.1.start(slot(0, 0)).unwrap();
            assert_eq!(p.1.start(slot(0, 0)), Err(SlotError::Busy));
            assert_eq!(p.1.prepare(slot(0, 0), &back.data()), Err(SlotError::Busy));
            let mut out = Bytes::of(&pattern(i, len));
            let bytes = len as u64;
            assert_eq!(p.deliver(0, &out.data(), 4), Delivery::Done { bytes });
            assert_eq!(
                p.landed(0),
                Landed::Done {
                    bytes,
                    immediate: 4
                }
            );
            assert!(back.read() == out.bytes());
        }
        // Posted once, it is not prepared any more.
        p.1.post(slot(0, 0), &back.data()).unwrap();
        let _ = p.deliver(0, &Data::EMPTY, 0);
        let _ = p.landed(0);
        back.free(&mut p.1);
    }
}

fn too_long_is_told_at_both_ends<T: Transport + Slots>(make: &mut impl FnMut() -> (T, T)) {
    let mut p = Pair::new(make);
    for (room, len) in [
        (3, 8),
        (0, 5),
        (10, 100_000),
        (70_000, 100_000),
        (300_000, 500_000),
    ] {
        for mapped in [false, true] {
            let mut out = Memory::new(&mut p.0, mapped, len);
            out.write(&pattern(5, len));
            // What lies behind the receive's memory stays as it is.
            let mut whole = Memory::new(&mut p.1, mapped, len);
            let Data { buf, .. } = whole.data();
            p.1.post(slot(0, 1), &Data::bytes(buf, room)).unwrap();
            let sent = p.deliver(1, &out.data(), 2);
            assert_eq!(sent, Delivery::Done { bytes: room });
            let told = Landed::Truncated {
                sent: len as u64,
                immediate: 2,
            };
            assert_eq!(p.landed(1), told);
            let (is, room) = (whole.read(), room as usize);
            assert!(is[..room] == out.read()[..room], "{room} {mapped}");
            assert!(is[room..].iter().all(|&b| b == 0), "{room} {mapped}");
            out.free(&mut p.0);
            whole.free(&mut p.1);
        }
    }
}

fn taken_back_or_delivered<T: Transport + Slots>(make: &mut impl FnMut() -> (T, T)) {
    let mut p = Pair::new(make);
    for len in [4, 5000, 200_000] {
        let mut back = Bytes::new(len);
        assert_eq!(p.1.withdraw(slot(0, 2)), Err(SlotError::NotPrepared));
        // The sender hears of it first.
        p.1.post(slot(0, 2), &back.data()).unwrap();
        p.offered(2);
        p.1.withdraw(slot(0, 2)).unwrap();
        assert_eq!(
            p.1.landed(slot(0, 2)),
            Landed::NotYet,
            "the sender has not agreed"
        );
        assert_eq!(p.landed(2), Landed::Withdrawn);
        assert_eq!(p.0.offered(slot(1, 2)), None);
        let late = p.0.deliver(slot(1, 2), &Data::EMPTY, 0);
        assert_eq!(late, Err(SlotError::NotOffered));
        // The sender is faster.
        p.1.post(slot(0, 2), &back.data()).unwrap();
        p.offered(2);
        p.1.withdraw(slot(0, 2)).unwrap();
        p.1.withdraw(slot(0, 2)).unwrap();
        let mut out = Bytes::of(&pattern(1, len));
        let bytes = len as u64;
        let _ = p.0.deliver(slot(1, 2), &out.data(), 0).unwrap();
        assert_eq!(
            p.landed(2),
            Landed::Done {
                bytes,
                immediate: 0
            }
        );
        assert_eq!(back.bytes(), out.bytes());
        p.rest();
        p.until(|p| p.0.delivered(slot(1, 2)) != Delivery::Pending);
        // The slot goes on as before.
        p.1.post(slot(0, 2), &back.data()).unwrap();
        assert_eq!(p.deliver(2, &out.data(), 3), Delivery::Done { bytes });
        assert_eq!(
            p.landed(2),
            Landed::Done {
                bytes,
                immediate: 3
            }
        );
    }
}

fn misuse_is_refused<T: Transport + Slots>(make: &mut impl FnMut() -> (T, T)) {
    let mut p = Pair::new(make);
    let mut memory = Bytes::new(1);
    let data = memory.data();
    let none = SlotError::NoSuchSlot;
    let other = Slot {
        table: SlotTable(3),
        ..slot(1, 0)
    };
    for wrong in [
        slot(1, 6),
        slot(1, u32::MAX),
        slot(2, 0),
        slot(u32::MAX, 0),
        other,
    ] {
        assert_eq!(p.0.post(wrong, &data), Err(none));
        assert_eq!(p.0.prepare(wrong, &data), Err(none));
        assert_eq!(p.0.deliver(wrong, &data, 0), Err(none));
        assert!(p.0.start(wrong).is_err() && p.0.withdraw(wrong).is_err());
        assert_eq!(p.0.landed(wrong), Landed::Idle);
        assert_eq!(p.0.delivered(wrong), Delivery::Idle);
        assert_eq!(p.0.offered(wrong), None);
    }
    assert!(p.0.alloc_mapped(usize::MAX).is_none());
    assert!(!p.0.free_mapped(data.buf));
}

fn a_lost_peer_ends_what_needs_it<T: Transport + Slots>(make: &mut impl FnMut() -> (T, T)) {
    let mut p = Pair::new(make);
    let mut memory: Vec<Bytes> = (0..4).map(|_| Bytes::new(3_000_000)).collect();
    p.0.post(slot(1, 0), &memory[0].data()).unwrap();
    p.0.post(slot(1, 1), &memory[1].data()).unwrap();
    p.0.prepare(slot(1, 2), &memory[2].data()).unwrap();
    p.1.post(slot(0, 0), &memory[3].data()).unwrap();
    p.offered(0);
    p.until(|p| p.1.offered(slot(0, 0)).is_some());
    let _ =
        p.1.deliver(slot(0, 0), &Bytes::of(b"last").data(), 0)
            .unwrap();
    p.until(|p| p.0.has_landed(slot(1, 0)));
    // More than is taken without the receiver.
    let mut out = Bytes::new(3_000_000);
    let pending = p.0.deliver(slot(1, 0), &out.data(), 0);
    assert_eq!(pending, Ok(Delivery::Pending));
    p.0.peer_failed(Endpoint(1));
    p.0.advance();
    let whole = Landed::Done {
        bytes: 4,
        immediate: 0,
    };
    assert_eq!(p.0.landed(slot(1, 0)), whole, "it came whole");
    assert!(p.0.has_landed(slot(1, 1)));
    assert_eq!(p.0.landed(slot(1, 1)), Landed::PeerFailed);
    assert_eq!(p.0.landed(slot(1, 1)), Landed::Idle);
    assert_eq!(p.0.delivered(slot(1, 0)), Delivery::PeerFailed);
    assert_eq!(p.0.delivered(slot(1, 0)), Delivery::Idle);
    let gone = Err(SlotError::PeerFailed);
    assert_eq!(p.0.post(slot(1, 3), &memory[2].data()), gone);
    assert_eq!(p.0.start(slot(1, 2)), gone);
    assert_eq!(p.0.withdraw(slot(1, 2)), gone);
    assert!(p.0.deliver(slot(1, 0), &out.data(), 0).is_err());
    assert!(p.0.flushed());
}

fn tables_come_and_go<T: Transport + Slots>(make: &mut impl FnMut() -> (T, T)) {
    let (mut a, b) = make();
    assert_eq!(a.open_slots(1, 0), Err(SlotError::NoSuchSlot));
    let mut p = Pair(a, b);
    for name in 20..40 {
        let count = name % 7 + 1;
        // One side is early: it may post, but nobody delivers before the other is there.
        let mut back = Bytes::new(1000);
        let ta = p.0.open_slots(name, count).unwrap();
        let there = Slot {
            table: ta,
            peer: Endpoint(1),
            index: count - 1,
        };
        p.0.post(there, &back.data()).unwrap();
        p.rest();
        assert_eq!(p.0.opened(ta, Endpoint(1)), None);
        let tb = p.1.open_slots(name, count).unwrap();
        let here = Slot {
            table: tb,
            peer: Endpoint(0),
            index: count - 1,
        };
        p.until(|p| p.1.offered(here).is_some());
        let mut out = Bytes::of(&pattern(name as u8, 1000));
        let _ = p.1.deliver(here, &out.data(), 0).unwrap();
        if name % 2 == 0 {
            // Closed before the receiver has looked.
            p.until(|p| p.1.flushed());
            p.1.close_slots(tb);
        }
        p.until(|p| p.0.has_landed(there));
        assert!(matches!(p.0.landed(there), Landed::Done { .. }));
        assert_eq!(back.bytes(), out.bytes());
        // Asked back, whoever has closed the table agrees.
        p.0.post(there, &back.data()).unwrap();
        p.0.withdraw(there).unwrap();
        p.until(|p| p.0.has_landed(there));
        assert_eq!(p.0.landed(there), Landed::Withdrawn);
        p.1.close_slots(tb);
        p.0.close_slots(ta);
        assert_eq!(p.0.open_slots(name, count), Err(SlotError::Busy));
    }
    // Another number of slots.
    let ta = p.0.open_slots(99, 10).unwrap();
    p.1.open_slots(99, 11).unwrap();
    p.until(|p| p.0.opened(ta, Endpoint(1)) == Some(11));
    let wrong = Slot {
        table: ta,
        peer: Endpoint(1),
        index: 0,
    };
    let refused = Err(SlotError::Count { theirs: 11 });
    assert_eq!(p.0.post(wrong, &Bytes::new(1).data()), refused);
    // Asked back before the peer has opened the table: it answers then, if not before.
    let ta = p.0.open_slots(100, 1).unwrap();
    let early = Slot { table: ta, ..wrong };
    p.0.post(early, &Bytes::new(1).data()).unwrap();
    p.0.withdraw(early).unwrap();
    p.rest();
    p.1.open_slots(100, 1).unwrap();
    p.until(|p| p.0.has_landed(early));
    assert_eq!(p.0.landed(early), Landed::Withdrawn);
}
