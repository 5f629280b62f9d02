//! Receives posted, delivered to and taken the short way and the ordinary one, in any mixture, against a model.

use boundary::UserBuf;
use layout::Data;
use mtmi::slot::{Delivery, Landed, Slot, SlotError, SlotTable, Slots};
use mtmi::{Endpoint, Matched, Transport};
use proptest::prelude::*;

use super::port::{SlotPort, Taken};
use super::tests::ends;
use crate::Shm;

const COUNT: u32 = 3;
/// Slots that are used the short way too.
const LIMIT: u32 = 2;
/// Bytes of a receive's memory, and what is beyond it.
const ROOM: usize = 64;
const EDGE: u8 = 0xee;

/// What the two processes do: who, in which slot, and for how many bytes.
#[derive(Clone, Copy, Debug)]
enum Act {
    Post { short: bool },
    Deliver { short: bool },
    Take { short: bool },
    Clear(bool),
    Withdraw,
    Advance,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        4 => any::<bool>().prop_map(|short| Act::Post { short }),
        4 => any::<bool>().prop_map(|short| Act::Deliver { short }),
        4 => any::<bool>().prop_map(|short| Act::Take { short }),
        1 => any::<bool>().prop_map(Act::Clear),
        1 => Just(Act::Withdraw),
        1 => Just(Act::Advance),
    ]
}

/// A receive, as the model has it.
#[derive(Clone, Default)]
struct Expected {
    /// Bytes that it takes, while its end is not told.
    posted: Option<usize>,
    /// What was delivered to it.
    landed: Option<Vec<u8>>,
    /// Whether the delivering side has said that nothing waits.
    clear: bool,
    /// Whether it is, or may have been, asked back.
    asked: bool,
}

/// One process: its end, its memory, and what the model says of what it receives.
struct Side {
    shm: Matched<Shm>,
    memory: Vec<[u8; ROOM]>,
    expected: Vec<Expected>,
}

impl Side {
    fn port(&mut self, me: usize) -> &'static SlotPort {
        // Kept for the rest of the test, as those who use it keep it.
        let ports = Box::leak(Box::new(
            self.shm.fabric().slot_ports(SlotTable(0), LIMIT).unwrap(),
        ));
        &ports.of(0..2).unwrap()[1 - me]
    }

    fn buf(&mut self, index: usize) -> UserBuf {
        UserBuf::of_array(&mut self.memory[index])
    }
}

fn slot(peer: usize, index: usize) -> Slot {
    Slot {
        table: SlotTable(0),
        peer: Endpoint(peer as u32),
        index: index as u32,
    }
}

fn post(side: &mut Side, me: usize, index: usize, len: usize, short: bool) {
    let buf = side.buf(index);
    let free = side.expected[index].posted.is_none();
    let done = match short {
        true => {
            let done = side.port(me).post(index as u32, buf, len);
            assert!(free || !done, "two receives in a slot");
            assert!(
                done || !free || len > SlotPort::MOST || index as u32 >= LIMIT,
                "refused without a reason"
            );
            done
        }
        false => match side
            .shm
            .post(slot(1 - me, index), &Data::bytes(buf, len as u64))
        {
            Ok(()) => {
                assert!(free, "two receives in a slot");
                true
            }
            Err(e) => {
                assert!(!free && e == SlotError::Busy, "{e}");
                false
            }
        },
    };
    if done {
        side.memory[index] = [EDGE; ROOM];
        side.expected[index].posted = Some(len);
    }
}

/// `me` delivers to what `other` has posted.
fn deliver(sides: &mut [Side; 2], me: usize, index: usize, bytes: &[u8], short: bool) {
    let mut from = bytes.to_vec();
    let buf = UserBuf::of_array(&mut from);
    let to = sides[1 - me].expected[index].clone();
    let room = to.posted.filter(|_| to.landed.is_none());
    let done = match short {
        true => {
            let port = sides[me].port(me);
            let done = port.deliver(index as u32, buf, bytes.len()).is_some();
            let can = room.is_some_and(|room| bytes.len() <= room.min(SlotPort::MOST));
            // One that was asked back may have been given back.
            assert!(!done || can, "delivered without a receive");
            let open = to.clear && (index as u32) < LIMIT && !to.asked;
            assert!(done || !open || !can, "refused without a reason");
            assert!(!done || to.clear, "overtook what waits");
            done
        }
        false => {
            let at = slot(1 - me, index);
            match sides[me]
                .shm
                .deliver(at, &Data::bytes(buf, bytes.len() as u64), 7)
            {
                Ok(Delivery::Done { .. }) => {
                    assert!(room.is_some(), "delivered without a receive");
                    true
                }
                Err(SlotError::NotOffered) => {
                    assert!(room.is_none() || to.asked, "refused without a reason");
                    false
                }
                other => panic!("{other:?}"),
            }
        }
    };
    if done {
        sides[1 - me].expected[index].landed = Some(bytes.to_vec());
    }
}

fn take(side: &mut Side, me: usize, index: usize, short: bool) {
    let expected = side.expected[index].clone();
    let fits = |sent: &[u8]| sent.len() <= expected.posted.unwrap_or(0);
    let over = match short {
        true => match side.port(me).take(index as u32, 0) {
            Taken::Whole => {
                let sent = expected.landed.as_deref();
                assert!(sent.is_some_and(fits), "taken without a message");
                true
            }
            Taken::NotYet => {
                assert!(expected.landed.is_none() && expected.posted.is_some());
                false
            }
            // Posted the ordinary way, or what that has to look at.
            Taken::Otherwise => false,
        },
        false => match side.shm.landed(slot(1 - me, index)) {
            Landed::NotYet => {
                assert!(expected.landed.is_none() && expected.posted.is_some());
                false
            }
            Landed::Idle => {
                assert!(expected.posted.is_none());
                false
            }
            Landed::Done { bytes, .. } => {
                let sent = expected.landed.as_deref().expect("nothing came");
                assert!(fits(sent) && sent.len() as u64 == bytes);
                true
            }
            Landed::Truncated { sent, .. } => {
                let was = expected.landed.as_deref().expect("nothing came");
                assert!(!fits(was) && was.len() as u64 == sent);
                true
            }
            Landed::Withdrawn => {
                assert!(expected.asked && expected.landed.is_none());
                side.expected[index] = Expected {
                    clear: expected.clear,
                    ..Expected::default()
                };
                return;
            }
            Landed::PeerFailed => panic!("a correct peer is said to have failed"),
        },
    };
    if !over {
        return;
    }
    let (sent, capacity) = (expected.landed.unwrap(), expected.posted.unwrap());
    let n = sent.len().min(capacity);
    assert_eq!(&side.memory[index][..n], &sent[..n]);
    assert!(
        side.memory[index][capacity..].iter().all(|&b| b == EDGE),
        "written beyond the memory"
    );
    side.expected[index] = Expected {
        clear: expected.clear,
        ..Expected::default()
    };
}

fn withdraw(side: &mut Side, me: usize, index: usize) {
    let posted = side.expected[index].posted.is_some();
    let asked = side.shm.withdraw(slot(1 - me, index));
    assert_eq!(asked.is_ok(), posted, "{asked:?}");
    side.expected[index].asked |= posted;
}

proptest! {
    #[test]
    fn both_ways_agree(acts in prop::collection::vec(
        (act(), 0..2_usize, 0..COUNT as usize, prop_oneof![0..25_usize, Just(8), 0..40_usize], any::<u8>()), 1..120)
    ) {
        let (a, b) = ends(1 << 27);
        let mut sides = [a, b].map(|shm| Side {
            shm: Matched::new(shm),
            memory: vec![[EDGE; ROOM]; COUNT as usize],
            expected: vec![Expected::default(); COUNT as usize],
        });
        for side in &mut sides {
            side.shm.open_slots(7, COUNT).unwrap();
        }
        // Each has to have found the other's lines.
        for (me, side) in sides.iter_mut().enumerate() {
            side.port(me);
            assert_eq!(side.shm.offered(slot(1 - me, 0)), None);
        }
        for (act, me, index, len, seed) in acts {
            match act {
                Act::Post { short } => post(&mut sides[me], me, index, len, short),
                Act::Deliver { short } => {
                    let bytes: Vec<u8> = (0..len).map(|i| seed.wrapping_add(i as u8)).collect();
                    deliver(&mut sides, me, index, &bytes, short);
                }
                Act::Take { short } => take(&mut sides[me], me, index, short),
                Act::Clear(clear) => {
                    sides[me].shm.set_clear(slot(1 - me, index), clear);
                    sides[1 - me].expected[index].clear = clear;
                }
                Act::Withdraw => withdraw(&mut sides[me], me, index),
                Act::Advance => {
                    sides[me].shm.advance();
                }
            }
        }
    }
}
