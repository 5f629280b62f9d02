//! Both sides of a message out of mapped memory in one process, step by step: what happens when one of them can't go on.

use boundary::UserBuf;
use layout::Data;
use mtmi::slot::Slots;
use mtmi::{
    Completion, Context, Cookie, Endpoint, Matched, Outcome, SendMode, Source, Submit, TagSel,
    Transport,
};
use sys::sparse::Sparse;

use crate::Shm;
use crate::segment::Segment;
use crate::slots::Area;

/// Several times what moves in one turn.
const LEN: usize = 4 << 20;
const SENT: Cookie = Cookie(1);
const RECEIVED: Cookie = Cookie(2);

/// A rank, and what has completed there.
struct Rank {
    t: Matched<Shm>,
    done: Vec<Completion>,
}

impl Rank {
    fn turn(&mut self) -> bool {
        self.t.progress(&mut self.done)
    }

    /// From now on it can map nothing.
    fn map_no_more(&mut self) {
        self.t.fabric().slots.area = Err(12);
    }

    fn outcome(&self, of: Cookie) -> Option<Outcome> {
        self.done.iter().find(|c| c.cookie == of).map(|c| c.outcome)
    }
}

fn two() -> [Rank; 2] {
    let (fd, first) = Segment::create(2, "test").unwrap();
    let second = Segment::open(&fd, 2, "test").unwrap();
    let file = Sparse::create("test", 1 << 27).unwrap();
    let copy = file.fd().try_clone_to_owned().unwrap();
    let files = [file, Sparse::open(copy).unwrap()];
    let mut local = 0..;
    let ranks = [first, second]
        .into_iter()
        .zip(files)
        .map(|(segment, file)| {
            let local = local.next().unwrap();
            let area = Area::new(file, 2, local);
            let t = Matched::new(Shm::new(segment, area, local, vec![0, 1], 2));
            Rank {
                t,
                done: Vec::new(),
            }
        });
    let ranks: Vec<Rank> = ranks.collect();
    ranks.try_into().ok().unwrap()
}

fn pattern() -> Vec<u8> {
    (0..LEN).map(|i| (i * 7 + i / 256) as u8).collect()
}

/// A message that the receiver has matched and begun: its first turn is over. The sender has not had one.
fn begun(heap: Option<&mut Vec<u8>>) -> ([Rank; 2], UserBuf) {
    let [mut a, mut b] = two();
    let from = a.t.alloc_mapped(LEN).unwrap();
    from.write(&pattern());
    let to = match heap {
        // SAFETY: the vector outlives the receive, as its owner waits for that.
        Some(heap) => unsafe { UserBuf::new(heap.as_mut_ptr() as usize) },
        None => b.t.alloc_mapped(LEN).unwrap(),
    };
    let data = |buf| Data::bytes(buf, LEN as u64);
    let context = Context(0);
    let standard = SendMode::Standard;
    let sent =
        a.t.isend(Endpoint(1), context, 3, standard, data(from), SENT);
    let source = Source::From(Endpoint(0));
    let received = b.t.irecv(source, context, TagSel::Any, data(to), RECEIVED);
    assert!(matches!(
        [sent, received],
        [Submit::Pending, Submit::Pending]
    ));
    while !b.turn() {}
    assert!(b.done.is_empty(), "it takes several turns");
    ([a, b], to)
}

/// Whether the receive has ended well.
fn check(b: &Rank, to: UserBuf) {
    assert_eq!(b.outcome(RECEIVED), Some(Outcome::Done));
    let mut got = vec![0; LEN];
    to.read(&mut got);
    assert!(got == pattern());
}

/// Both go on until nothing moves.
fn run(a: &mut Rank, b: &mut Rank) {
    let mut idle = 0;
    while idle < 10 {
        idle = if a.turn() | b.turn() { 0 } else { idle + 1 };
    }
}

#[test]
fn a_receiver_that_can_map_no_more_leaves_the_rest_to_the_sender() {
    let ([mut a, mut b], to) = begun(None);
    b.map_no_more();
    b.turn();
    assert!(!b.t.ready(), "it has nothing to do but wait");
    run(&mut a, &mut b);
    check(&b, to);
    assert_eq!(a.outcome(SENT), Some(Outcome::Done));
}

#[test]
fn a_receiver_that_copies_alone_and_can_map_no_more_asks_for_all() {
    let mut heap = vec![0; LEN];
    let ([mut a, mut b], to) = begun(Some(&mut heap));
    b.map_no_more();
    run(&mut a, &mut b);
    check(&b, to);
    assert_eq!(a.outcome(SENT), Some(Outcome::Done));
}

#[test]
fn a_sender_that_cannot_map_sleeps_while_the_receiver_copies() {
    let ([mut a, mut b], to) = begun(None);
    a.map_no_more();
    a.turn();
    assert!(!a.t.ready(), "it has nothing to do but wait");
    run(&mut a, &mut b);
    check(&b, to);
    assert_eq!(a.outcome(SENT), Some(Outcome::Done));
}

/// A sender takes no window into what its receiver has done alone, and may have given back since.
#[test]
fn a_sender_that_comes_late_maps_nothing() {
    let ([mut a, mut b], to) = begun(None);
    while b.outcome(RECEIVED).is_none() {
        b.turn();
    }
    check(&b, to);
    assert!(b.t.free_mapped(to));
    run(&mut a, &mut b);
    assert_eq!(a.outcome(SENT), Some(Outcome::Done));
    assert!(
        a.t.fabric()
            .slots
            .links
            .iter()
            .all(|l| l.windows.is_empty())
    );
}

#[test]
fn what_a_sender_has_done_counts_when_it_is_gone() {
    let ([mut a, mut b], to) = begun(None);
    while a.turn() {}
    assert_eq!(a.outcome(SENT), Some(Outcome::Done));
    drop(a);
    b.t.peer_failed(Endpoint(0));
    b.turn();
    check(&b, to);
}

#[test]
fn a_sender_that_is_gone_in_the_middle_fails_the_receive() {
    let ([mut a, mut b], _) = begun(None);
    a.turn();
    assert!(a.done.is_empty());
    drop(a);
    b.t.peer_failed(Endpoint(0));
    b.turn();
    assert_eq!(b.outcome(RECEIVED), Some(Outcome::PeerFailed));
}

#[test]
fn a_receiver_that_is_gone_in_the_middle_fails_the_send() {
    let ([mut a, b], _) = begun(None);
    a.turn();
    drop(b);
    a.t.peer_failed(Endpoint(1));
    a.turn();
    assert_eq!(a.outcome(SENT), Some(Outcome::PeerFailed));
}
