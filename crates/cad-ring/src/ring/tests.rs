//! One ring, and a process that says anything.

use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::{Duration, Instant};

use cad_run::{Callback, Descriptor, Executor, Plan, State, UserBuf};
use sys::unix;

use super::peers::OVERS_MAX;
use super::{Opening, Ring};
use crate::claims;
use crate::control::{Control, Meet, Own};

/// Rank 0, and the control of rank 1; `None` where rings can't be made.
fn two() -> Option<(Ring, Control)> {
    let opening = Opening::new().ok()?;
    let own = Own::listen().unwrap();
    let cards = [opening.card(), own.card()];
    let ring = opening.join(0, &cards, None, Callback::Signal, Meet::AtOnce);
    let ring = ring.unwrap();
    Some((ring, own.join(1, &cards, None, Meet::AtOnce).unwrap()))
}

/// The part of rank 0 in which it gets a byte from rank 1.
fn byte_from_peer(memory: &mut [u8; 1]) -> Rc<Plan> {
    let mut cad = Descriptor::new(0, 2, None);
    cad.make_recv_node(UserBuf::of_array(memory), 1, 1).unwrap();
    Rc::new(cad.plan().unwrap())
}

/// Says something many times.
fn flood(ring: &mut Ring, liar: &mut Control, say: impl Fn(&mut Control, u32)) {
    for i in 0..3 * OVERS_MAX as u32 {
        say(liar, i);
        if liar.is_behind() {
            ring.progress();
            liar.catch_up();
        }
    }
    ring.progress();
}

#[test]
fn ends_of_what_was_never_issued_are_kept_to_a_bound() {
    let Some((mut ring, mut liar)) = two() else {
        return;
    };
    flood(&mut ring, &mut liar, |liar, i| {
        liar.tell_over(0, i, 3, State::Lost)
    });
    assert!(ring.control.is_lost(1));
    assert_eq!(ring.overs[&1].len(), OVERS_MAX);
    assert!(ring.lanes.places() <= OVERS_MAX);
}

/// A peer that has not heard of all that failed lends for an issue that is over here, again and again.
#[test]
fn who_lends_what_is_of_no_use_is_still_there() {
    let Some((mut ring, mut peer)) = two() else {
        return;
    };
    let end = || OwnedFd::from(unix::pair(unix::Kind::Stream).unwrap().0);
    peer.tell_over(0, 7, 5, State::Lost);
    for _ in 0..2 {
        peer.lend(0, 7, 1, 3, end());
    }
    ring.progress();
    assert!(!ring.control.is_lost(1));
}

/// Issues that have no stream yet, the first of a lane in a higher slot than the next: a peer that is through with a later one ends
/// both, at once.
#[test]
fn who_is_through_with_a_later_issue_ends_all_that_have_not_begun() {
    let Some((mut ring, mut peer)) = two() else {
        return;
    };
    let mut memory = [0u8];
    let plan = byte_from_peer(&mut memory);
    // The streams are the peer's to lend, and it lends none.
    let held = claims::take(7, ring.control.secrets(1)).unwrap();
    assert!(held.is_some());
    let mut over = |ring: &mut Ring, number| {
        peer.tell_over(0, 7, number, State::Cancelled);
        ring.progress();
    };
    over(&mut ring, 0);
    over(&mut ring, 1);
    let issue = |ring: &mut Ring| ring.issue(&plan, 7).unwrap();
    let told = [issue(&mut ring), issue(&mut ring)];
    assert_eq!(told.map(|i| i.query()), [State::Cancelled; 2]);
    let waiting = [issue(&mut ring), issue(&mut ring), issue(&mut ring)];
    ring.cancel(&waiting[0]);
    let next = issue(&mut ring);
    assert!(next.slot() < waiting[1].slot(), "issues 5 and 3");
    over(&mut ring, 7);
    assert_eq!(
        [&waiting[1], &next].map(|i| i.query()),
        [State::Lost; 2],
        "on the lane"
    );
    assert_eq!(waiting[2].query(), State::Pending, "on the other");
    over(&mut ring, 4);
    assert_eq!(waiting[2].query(), State::Cancelled);
}

#[test]
fn who_lends_what_was_lent_is_not_heard_any_more() {
    let Some((mut ring, mut liar)) = two() else {
        return;
    };
    let end = || OwnedFd::from(unix::pair(unix::Kind::Stream).unwrap().0);
    for _ in 0..2 {
        liar.lend(0, 7, 1, 0, end());
    }
    ring.progress();
    assert!(ring.control.is_lost(1));
    liar.tell_over(0, 8, 3, State::Lost);
    ring.progress();
    assert!(!ring.overs.contains_key(&1) && !ring.control.call(1));
}

#[test]
fn who_is_about_to_lend_may_take_its_time() {
    let Some((mut ring, mut peer)) = two() else {
        return;
    };
    let mut memory = [0u8];
    let plan = byte_from_peer(&mut memory);
    // The peer was quicker, and then lost its processor.
    let held = claims::take(7, ring.control.secrets(1)).unwrap();
    assert!(held.is_some());
    let late = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(100));
        let (near, far) = unix::pair(unix::Kind::Stream).unwrap();
        peer.lend(0, 7, 0, 0, far.into());
        near.send_all(b"x", None, None).unwrap();
        (near, peer)
    });
    let issued = ring.issue(&plan, 7).unwrap();
    let end = Instant::now() + Duration::from_secs(60);
    while issued.query() == State::Pending {
        assert!(Instant::now() < end, "it does not start without a call");
        std::hint::spin_loop();
    }
    assert_eq!((issued.query(), memory), (State::Done, *b"x"));
    drop(late.join().unwrap());
}
