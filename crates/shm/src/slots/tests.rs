//! Slots between two processes' worth of fabric in one process.

use boundary::UserBuf;
use layout::Data;
use mtmi::slot::{Delivery, Landed, Slot, SlotTable, Slots};
use mtmi::{Endpoint, Matched};
use sys::sparse::Sparse;

use crate::Shm;
use crate::segment::Segment;
use crate::slots::Area;

/// Both ends of a node's memory, with areas of so many bytes.
pub(super) fn ends(each: u64) -> (Shm, Shm) {
    let (fd, mine) = Segment::create(2, "test").unwrap();
    let theirs = Segment::open(&fd, 2, "test").unwrap();
    let file = Sparse::create("test", 2 * each).unwrap();
    let copy = Sparse::open(file.fd().try_clone_to_owned().unwrap()).unwrap();
    let a = Shm::new(mine, Area::new(file, 2, 0), 0, vec![0, 1], 2);
    let b = Shm::new(theirs, Area::new(copy, 2, 1), 1, vec![0, 1], 2);
    (a, b)
}

#[test]
fn the_rules_are_kept() {
    testkit::suite::all(|| {
        let (a, b) = ends(1 << 32);
        (Matched::new(a), Matched::new(b))
    });
}

/// A stream that waits for room goes on although somebody else has seen that there is some.
#[test]
fn a_stream_goes_on_beside_others() {
    const BYTES: usize = 4 << 20;
    let slot = |peer, index| Slot {
        table: SlotTable(0),
        peer: Endpoint(peer),
        index,
    };
    let (mut a, mut b) = ends(1 << 27);
    let mut memory = [
        vec![1; BYTES],
        vec![2; BYTES],
        vec![0; BYTES],
        vec![0; BYTES],
    ];
    let [one, other, first, second] = memory
        .each_mut()
        .map(|m| Data::bytes(UserBuf::of_array(m), BYTES as u64));
    a.open_slots(7, 2).unwrap();
    b.open_slots(7, 2).unwrap();
    b.post(slot(0, 0), &first).unwrap();
    b.post(slot(0, 1), &second).unwrap();
    assert_eq!(a.deliver(slot(1, 0), &one, 0), Ok(Delivery::Pending));
    assert!(!a.slots_ready(), "the pipe is full");
    assert_eq!(b.landed(slot(0, 0)), Landed::NotYet);
    assert_eq!(a.deliver(slot(1, 1), &other, 0), Ok(Delivery::Pending));
    assert!(a.slots_ready(), "there is room");
    let done = Landed::Done {
        bytes: BYTES as u64,
        immediate: 0,
    };
    for index in 0..2 {
        let mut landed = Landed::NotYet;
        while landed == Landed::NotYet {
            a.serve_slots();
            landed = b.landed(slot(0, index));
        }
        assert_eq!(landed, done);
    }
    assert!(memory[0] == memory[2] && memory[1] == memory[3]);
}
