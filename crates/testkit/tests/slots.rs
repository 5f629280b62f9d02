//! Slots over the simulated fabric, in every manner: what whoever uses them may rely on.

use std::time::{Duration, Instant};

use mtmi::slot::{Delivery, Landed, Slot, SlotError, SlotTable, Slots, wait_until};
use mtmi::{
    Completion, Context, Cookie, Endpoint, Matched, Outcome, SendMode, Source, Submit, TagSel,
    Transport,
};
use testkit::{Bytes, Manner, Sim, World};

fn slot(peer: u32, index: u32) -> Slot {
    Slot {
        table: SlotTable(0),
        peer: Endpoint(peer),
        index,
    }
}

fn pair(manner: Manner) -> (World, Matched<Sim>, Matched<Sim>) {
    let world = World::new(2, manner);
    let mut a = Matched::new(world.join(0));
    let mut b = Matched::new(world.join(1));
    assert_eq!(a.opened(SlotTable(0), Endpoint(1)), None);
    assert_eq!(a.open_slots(9, 6), Ok(SlotTable(0)));
    assert_eq!(b.open_slots(9, 6), Ok(SlotTable(0)));
    assert_eq!(a.opened(SlotTable(0), Endpoint(1)), Some(6));
    (world, a, b)
}

fn both(a: &mut Matched<Sim>, b: &mut Matched<Sim>) {
    while a.advance() | b.advance() {}
}

#[test]
fn every_manner_keeps_the_rules() {
    for manner in [Manner::SHARED, Manner::NETWORK, Manner::SLOW] {
        testkit::suite::all(|| {
            let world = World::new(2, manner);
            (Matched::new(world.join(0)), Matched::new(world.join(1)))
        });
    }
}

#[test]
fn to_oneself() {
    let mut a = Matched::new(World::new(1, Manner::SLOW).join(0));
    a.open_slots(1, 2).unwrap();
    let mut back = Bytes::new(4);
    let me = slot(0, 1);
    assert_eq!(a.landed(me), Landed::Idle);
    assert_eq!(a.post(slot(0, 2), &back.data()), Err(SlotError::NoSuchSlot));
    a.post(me, &back.data()).unwrap();
    assert_eq!(a.offered(me), Some(4));
    assert_eq!(a.landed(me), Landed::NotYet);
    let sent = a.deliver(me, &Bytes::of(b"yamabiko").data(), 1);
    assert_eq!(sent, Ok(Delivery::Done { bytes: 4 }));
    assert_eq!(a.offered(me), None);
    assert!(a.has_landed(me));
    let told = Landed::Truncated {
        sent: 8,
        immediate: 1,
    };
    assert_eq!(a.landed(me), told);
    assert_eq!(back.bytes(), b"yama");
    a.post(me, &back.data()).unwrap();
    a.withdraw(me).unwrap();
    assert_eq!(a.landed(me), Landed::Withdrawn);
    a.close_slots(SlotTable(0));
    assert_eq!(a.post(me, &back.data()), Err(SlotError::NoSuchSlot));
}

#[test]
fn a_dead_peer_ends_what_needs_it() {
    let (world, mut a, mut b) = pair(Manner::SLOW);
    let mut memory = Bytes::new(4);
    a.post(slot(1, 0), &memory.data()).unwrap();
    a.post(slot(1, 1), &memory.data()).unwrap();
    b.post(slot(0, 0), &memory.data()).unwrap();
    both(&mut a, &mut b);
    let _ = b
        .deliver(slot(0, 0), &Bytes::of(b"last").data(), 0)
        .unwrap();
    let pending = a.deliver(slot(1, 0), &memory.data(), 0);
    assert_eq!(pending, Ok(Delivery::Pending));
    assert!(!a.flushed());
    world.kill(1);
    a.advance();
    assert!(
        matches!(a.landed(slot(1, 0)), Landed::Done { .. }),
        "it came whole"
    );
    assert_eq!(a.landed(slot(1, 1)), Landed::PeerFailed);
    assert_eq!(a.delivered(slot(1, 0)), Delivery::PeerFailed);
    assert_eq!(
        a.post(slot(1, 2), &memory.data()),
        Err(SlotError::PeerFailed)
    );
    assert_eq!(a.next_failure(), Some(Endpoint(1)));
    assert!(a.flushed());
}

/// Threads that sleep until the other's message: every wake-up arrives.
#[test]
fn waiting_wakes_up() {
    World::run(2, Manner::NETWORK, |me, rank| {
        me.open_slots(1, 1).unwrap();
        let other = slot(1 - rank, 0);
        let end = Instant::now() + Duration::from_secs(60);
        let mut back = Bytes::new(4);
        for round in 0..300u32 {
            me.post(other, &back.data()).unwrap();
            let wait = |me: &mut Matched<Sim>, done: fn(&mut Matched<Sim>, Slot) -> bool| {
                while !done(me, other) {
                    if !me.advance() {
                        wait_until(me, |m| done(m, other), Some(end));
                    }
                    assert!(Instant::now() < end);
                }
            };
            wait(me, |m, s| m.offered(s).is_some());
            let mut out = Bytes::of(&round.to_le_bytes());
            let _ = me.deliver(other, &out.data(), 0).unwrap();
            wait(me, |m, s| m.has_landed(s));
            assert!(matches!(me.landed(other), Landed::Done { .. }));
            assert_eq!(back.bytes(), round.to_le_bytes());
        }
    });
}

/// Messages travel too, and keep their completions while slots make progress.
#[test]
fn messages_beside_slots() {
    let (_, mut a, mut b) = pair(Manner::NETWORK);
    let (mut out, mut back) = (Bytes::of(b"hi"), Bytes::new(2));
    let from = Source::From(Endpoint(0));
    let posted = b.irecv(from, Context(1), TagSel::Any, back.data(), Cookie(1));
    let mode = SendMode::Synchronous;
    let sent = a.isend(Endpoint(1), Context(1), 3, mode, out.data(), Cookie(2));
    assert_eq!((posted, sent), (Submit::Pending, Submit::Pending));
    both(&mut a, &mut b);
    let ends = |m: &mut Matched<Sim>| {
        let mut done: Vec<Completion> = Vec::new();
        m.progress(&mut done);
        done.iter()
            .map(|c| (c.cookie.0, c.outcome))
            .collect::<Vec<_>>()
    };
    assert_eq!(ends(&mut b), [(1, Outcome::Done)]);
    assert_eq!(ends(&mut a), [(2, Outcome::Done)]);
    assert_eq!(back.bytes(), b"hi");
}

#[test]
fn mapped_memory_is_aligned_and_goes_back() {
    let (_, mut a, _) = pair(Manner::SHARED);
    let memory = a.alloc_mapped(100).unwrap();
    assert_eq!(memory.addr() % 64, 0);
    assert!(a.free_mapped(memory));
    assert!(!a.free_mapped(memory));
}
