//! Slots between processes: all ways data go, both sides at once, with waits that sleep.

use mtmi::slot::{Delivery, Landed, Slot, SlotTable, Slots, wait_until};
use mtmi::{Endpoint, Matched, Transport};
use std::time::Duration;

use crate::common::{Rank, check, data, filled, launch, run};
use layout::Data;
use shm::Shm;

pub fn all() {
    run("slots/all lengths", 2, all_lengths);
    run("slots/everybody", 4, everybody);
    launch("slots/a rank that dies", 3, death);
    refused_memory();
}

fn slot(peer: u32, index: u32) -> Slot {
    Slot {
        table: SlotTable(0),
        peer: Endpoint(peer),
        index,
    }
}

/// Waits, asleep in the end, until `done`.
fn until(t: &mut Matched<Shm>, mut done: impl FnMut(&mut Matched<Shm>) -> bool) {
    let end = sys::clock::after(Duration::from_secs(30));
    while !done(t) {
        if !t.advance() {
            wait_until(t, &mut done, end);
        }
        assert!(std::time::Instant::now() < end.unwrap());
    }
}

fn deliver(t: &mut Matched<Shm>, slot: Slot, data: &Data, immediate: u32) {
    until(t, |t| t.offered(slot).is_some());
    let mut now = t.deliver(slot, data, immediate).unwrap();
    until(t, |t| {
        if now == Delivery::Pending {
            now = t.delivered(slot);
        }
        now != Delivery::Pending
    });
    assert_eq!(now, Delivery::Done { bytes: data.len() });
}

fn receive(t: &mut Matched<Shm>, slot: Slot) -> Landed {
    until(t, |t| t.has_landed(slot));
    t.landed(slot)
}

/// A buffer, mapped or not.
fn buffer(t: &mut Matched<Shm>, mapped: bool, memory: &mut Vec<u8>, len: usize) -> Data {
    match mapped {
        true => Data::bytes(t.alloc_mapped(len).unwrap(), len as u64),
        false => {
            memory.resize(len, 0);
            data(memory)
        }
    }
}

fn all_lengths(me: &mut Rank) {
    me.t.open_slots(1, 3).unwrap();
    let other = 1 - me.me;
    for len in [0, 8, 24, 25, 5000, 100_000, 262_144, 3_000_000] {
        for mapped in [false, true] {
            for round in 0..4u64 {
                let (mut a, mut b) = (Vec::new(), Vec::new());
                let out = buffer(&mut me.t, mapped, &mut a, len);
                let back = buffer(&mut me.t, mapped, &mut b, len);
                let seed = round * 2 + u64::from(me.me);
                out.writer().write(&filled(seed, len));
                me.t.post(slot(other, 2), &back).unwrap();
                if round % 3 == u64::from(me.me) {
                    // The other is asleep by now.
                    std::thread::sleep(Duration::from_millis(1));
                }
                deliver(&mut me.t, slot(other, 2), &out, round as u32);
                let bytes = len as u64;
                let immediate = round as u32;
                let landed = receive(&mut me.t, slot(other, 2));
                assert_eq!(landed, Landed::Done { bytes, immediate });
                let mut got = vec![0; len];
                back.reader().read(&mut got);
                check(round * 2 + u64::from(other), &got);
                if mapped {
                    assert!(me.t.free_mapped(out.buf) && me.t.free_mapped(back.buf));
                }
            }
        }
    }
    me.barrier();
}

/// All pairs and the process itself, several slots each, receives posted before anything is delivered.
fn everybody(me: &mut Rank) {
    const SLOTS: u32 = 40;
    me.t.open_slots(7, SLOTS).unwrap();
    let lens = [8, 3000, 200_000];
    let mut back: Vec<Vec<u8>> = Vec::new();
    for i in 0..me.ranks * SLOTS {
        back.push(vec![0; lens[(i % SLOTS) as usize % 3]]);
    }
    for _ in 0..3 {
        for i in 0..me.ranks * SLOTS {
            let at = slot(i / SLOTS, i % SLOTS);
            me.t.post(at, &data(&mut back[i as usize])).unwrap();
        }
        let name = |from: u32, to: u32, i: u32| u64::from(from * 10_000 + to * 1000 + i);
        let mut out: Vec<Vec<u8>> = Vec::new();
        for i in 0..me.ranks * SLOTS {
            let (to, index) = (i / SLOTS, i % SLOTS);
            out.push(filled(
                name(me.me, to, index),
                lens[(i % SLOTS) as usize % 3],
            ));
            let at = slot(to, index);
            until(&mut me.t, |t| t.offered(at).is_some());
            let data = data(&mut out[i as usize]);
            let _ = me.t.deliver(at, &data, 1).unwrap();
        }
        for i in (0..me.ranks * SLOTS).rev() {
            let (from, index) = (i / SLOTS, i % SLOTS);
            let landed = receive(&mut me.t, slot(from, index));
            assert!(matches!(landed, Landed::Done { .. }), "{landed:?}");
            check(name(from, me.me, index), &back[i as usize]);
        }
        until(&mut me.t, |t| t.flushed());
        for i in 0..me.ranks * SLOTS {
            let _ = me.t.delivered(slot(i / SLOTS, i % SLOTS));
        }
        me.barrier();
    }
}

/// Rank 2 goes away in the middle: what needs it ends, the others go on.
fn death(rank: u32, map: &std::rc::Rc<sys::memfd::Mapping>) {
    let mut exchange = crate::common::Inherited::new(map, 3);
    let shm = Shm::init(&shm::Config::new(rank, 3), &mut exchange).unwrap();
    let mut t = Matched::new(shm);
    t.open_slots(1, 4).unwrap();
    let mut memory = vec![0; 3_000_000];
    let whole = data(&mut memory);
    for other in (0..3).filter(|&o| o != rank) {
        t.post(slot(other, 0), &whole).unwrap();
        until(&mut t, |t| t.offered(slot(other, 0)).is_some());
    }
    if rank == 2 {
        return;
    }
    let begun = t.deliver(slot(2, 0), &whole, 0).unwrap();
    assert_eq!(begun, Delivery::Pending);
    // As if the launcher had told.
    t.peer_failed(Endpoint(2));
    assert_eq!(t.delivered(slot(2, 0)), Delivery::PeerFailed);
    assert_eq!(t.landed(slot(2, 0)), Landed::PeerFailed);
    let mut word = [0; 8];
    deliver(&mut t, slot(1 - rank, 0), &data(&mut word), 9);
    let alive = Landed::Done {
        bytes: 8,
        immediate: 9,
    };
    assert_eq!(receive(&mut t, slot(1 - rank, 0)), alive);
}

/// Without address space mapped memory is refused, and slots too, by an error and not by a signal.
fn refused_memory() {
    launch("slots/refused memory", 1, |_, map| {
        let mut exchange = crate::common::Inherited::new(map, 1);
        let shm = Shm::init(&shm::Config::new(0, 1), &mut exchange).unwrap();
        let mut t = Matched::new(shm);
        let limit = libc::rlimit {
            rlim_cur: 0,
            rlim_max: libc::RLIM_INFINITY,
        };
        // SAFETY: reads the limit, which outlives the call; this process alone is limited.
        let rc = unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const limit) };
        assert_eq!(rc, 0);
        assert!(t.alloc_mapped(1 << 20).is_none());
        let refused = t.open_slots(1, 10);
        assert!(
            matches!(refused, Err(mtmi::slot::SlotError::Memory(_))),
            "{refused:?}"
        );
    });
    launch("slots/limited files", 1, |_, map| {
        let limit = libc::rlimit {
            rlim_cur: 58 << 20,
            rlim_max: libc::RLIM_INFINITY,
        };
        // SAFETY: as above.
        let rc = unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit) };
        assert_eq!(rc, 0);
        let mut exchange = crate::common::Inherited::new(map, 1);
        let shm = Shm::init(&shm::Config::new(0, 1), &mut exchange).unwrap();
        let mut t = Matched::new(shm);
        assert!(t.alloc_mapped(100).is_none());
        let refused = t.open_slots(1, 10);
        assert!(
            matches!(refused, Err(mtmi::slot::SlotError::Memory(_))),
            "{refused:?}"
        );
    });
}
