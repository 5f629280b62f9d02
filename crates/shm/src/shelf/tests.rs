//! A root and its readers in one process, step by step.

use std::sync::atomic::Ordering;

use boundary::UserBuf;
use layout::Data;
use mtmi::{
    Completion, Context, Cookie, Endpoint, Matched, Outcome, SendMode, Source, Submit, TagSel,
    Transport,
};

use super::*;
use crate::lane::Lane;
use crate::ring::{At, RingMemory};
use crate::segment::Segment;
use crate::wire::encode;

const CONTEXT: Context = Context(3);
/// Longer than what goes there.
const ROOM: usize = LONGEST as usize + 5000;
/// Messages of the longest kind that lie on a shelf at once, each with what is left of its last page.
const LONGEST_AT_ONCE: usize = SHELF / (LONGEST as usize + PLAY);

struct Rank {
    t: Matched<Shm>,
    memory: Vec<u8>,
    done: Vec<Completion>,
}

impl Rank {
    fn buf(&mut self) -> UserBuf {
        // SAFETY: the vector stays as it is until the rank is dropped, and so its transport.
        unsafe { UserBuf::new(self.memory.as_mut_ptr().expose_provenance()) }
    }

    /// Gives `len` bytes of `value` to some ranks.
    fn give(&mut self, to: &[u32], value: u8, len: usize) -> bool {
        self.memory[..len].fill(value);
        let data = Data::bytes(self.buf(), len as u64);
        let to = to.iter().copied().map(Endpoint);
        let given = self.t.send_to_all(to, CONTEXT, value.into(), &data);
        // It is the program's again.
        self.memory.fill(0xee);
        given
    }

    fn post(&mut self, value: u8, len: usize) {
        self.memory.fill(0);
        let data = Data::bytes(self.buf(), len as u64);
        let (from, tag) = (Source::From(Endpoint(0)), TagSel::Exact(value.into()));
        if let Submit::Complete(done) = self.t.irecv(from, CONTEXT, tag, data, Cookie(1)) {
            self.done.push(done);
        }
    }

    /// What has become of the receive, of which `len` bytes were asked for.
    fn check(&mut self, value: u8, len: usize, sent: usize) {
        self.t.progress(&mut self.done);
        let done = self.done.pop().expect("it was told of");
        let outcome = match sent > len {
            true => Outcome::Truncated { sent: sent as u64 },
            false => Outcome::Done,
        };
        assert_eq!((done.outcome, done.tag), (outcome, value.into()));
        let bytes = done.bytes as usize;
        assert_eq!(bytes, len.min(sent));
        assert!(self.memory[..bytes].iter().all(|&b| b == value));
        assert!(self.memory[bytes..].iter().all(|&b| b == 0));
        assert!(self.done.is_empty());
    }

    fn take(&mut self, value: u8, len: usize) {
        self.post(value, len);
        self.check(value, len, len);
    }

    fn in_use(&mut self) -> usize {
        let places = &self.t.fabric().shelf.places;
        let in_use: Vec<_> = places.iter().filter(|p| !p.readers.is_empty()).collect();
        for (i, a) in in_use.iter().enumerate() {
            assert!(a.start < a.end && a.end <= SHELF);
            let apart = |b: &&&Place| a.end <= b.start || b.end <= a.start;
            assert!(in_use[..i].iter().all(|b| apart(&b)), "{a:?} is not alone");
        }
        in_use.len()
    }
}

fn job(ranks: u32) -> (Vec<Rank>, Segment) {
    let (fd, first) = Segment::create(ranks, "test").unwrap();
    let open = || Segment::open(&fd, ranks, "test").unwrap();
    let spy = open();
    let segments = std::iter::once(first).chain(std::iter::repeat_with(open));
    let none = || Err(std::io::ErrorKind::OutOfMemory.into());
    let rank = |(local, segment)| Rank {
        t: Matched::new(Shm::new(
            segment,
            none(),
            local,
            (0..ranks).collect(),
            ranks,
        )),
        memory: vec![0; ROOM],
        done: Vec::new(),
    };
    ((0..ranks).zip(segments).map(rank).collect(), spy)
}

#[test]
fn each_reads_it_whenever_it_comes() {
    let (mut ranks, _) = job(4);
    let [root, a, b, c] = &mut ranks[..] else {
        unreachable!()
    };
    for (value, len) in (1..100).zip(
        [ABOVE as usize + 1, 40_000, LONGEST as usize]
            .iter()
            .cycle(),
    ) {
        let len = *len;
        a.post(value, len);
        assert!(root.give(&[1, 2, 3], value, len));
        b.t.progress(&mut b.done);
        a.check(value, len, len);
        b.take(value, len);
        assert!(root.in_use() >= 1);
        // One that is too short, and one that is too long.
        c.post(value, len - 1);
        c.check(value, len - 1, len);
        root.t.progress(&mut root.done);
    }
    assert!(root.give(&[1, 2], 100, 20_000));
    assert_eq!(root.in_use(), 1, "those before were read");
    a.post(100, ROOM);
    a.t.progress(&mut a.done);
    let done = a.done.pop().unwrap();
    assert_eq!((done.bytes, done.outcome), (20_000, Outcome::Done));
}

#[test]
fn two_have_no_shelves() {
    let (mut ranks, _) = job(2);
    assert!(!ranks[0].give(&[1], 1, 20_000));
}

#[test]
fn what_finds_no_place_stays() {
    let (mut ranks, _) = job(3);
    let [root, a, b] = &mut ranks[..] else {
        unreachable!()
    };
    let long = LONGEST as usize;
    for len in [1, ABOVE as usize, long + 1] {
        assert!(!root.give(&[1, 2], 1, len), "not of {len} bytes");
    }
    assert!(!root.give(&[0, 1, 2], 1, long), "not for itself");
    assert!(root.give(&[1], 1, long));
    a.take(1, long);
    let mut given = (1..).take_while(|&value| root.give(&[1, 2], value, long));
    assert_eq!(given.by_ref().count(), LONGEST_AT_ONCE);
    assert_eq!(root.in_use(), LONGEST_AT_ONCE);
    // One reader is not enough to free the place.
    a.take(1, long);
    assert!(!root.give(&[1, 2], 100, long));
    b.take(3, long);
    b.take(1, long);
    assert!(root.give(&[1, 2], 100, long));
    assert!(!root.give(&[1, 2], 101, long));
    let rest = || (2..=LONGEST_AT_ONCE as u8).chain([100]);
    rest().for_each(|value| a.take(value, long));
    rest().filter(|&v| v != 3).for_each(|v| b.take(v, long));
    assert!(!a.t.ready() && !b.t.ready());
    assert!(root.give(&[1, 2], 102, long));
    assert_eq!(root.in_use(), 1);
}

#[test]
fn there_are_as_many_short_ones_as_places() {
    let (mut ranks, _) = job(3);
    let short = ABOVE as usize + 1;
    let mut given = (1..).take_while(|&value| ranks[0].give(&[2, 1], value, short));
    assert_eq!(given.by_ref().count(), PLACES);
    ranks[0].in_use();
}

/// Messages of any length, read in any order and at any time, or by a rank that fails: nobody reads anything else.
#[test]
fn places_are_nobody_elses_until_they_are_read() {
    let mut random = 5u64;
    let mut below = |n: usize| {
        random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0xb);
        (random >> 33) as usize % n
    };
    let (mut ranks, _) = job(5);
    let mut unread: Vec<(u32, u8, usize)> = Vec::new();
    let (mut given, mut value) = (0, 0);
    for round in 0..4000 {
        if round == 3000 {
            ranks[0].t.peer_failed(Endpoint(3));
            unread.retain(|u| u.0 != 3);
        }
        if below(3) > 0 && !unread.is_empty() {
            let (rank, value, len) = unread.swap_remove(below(unread.len()));
            ranks[rank as usize].take(value, len);
            continue;
        }
        let alive = [1, 2, 4, 3];
        let alive = &alive[..if round < 3000 { 4 } else { 3 }];
        let to = &alive[below(2)..];
        let len = ABOVE as usize + 1 + below((LONGEST - ABOVE) as usize);
        // Numbers of messages that are unread are not given to others.
        value = (1..=255)
            .find(|v| unread.iter().all(|u| u.1 != *v))
            .unwrap_or(value);
        if ranks[0].give(to, value, len) {
            given += 1;
            unread.extend(to.iter().map(|&rank| (rank, value, len)));
        }
        ranks[0].in_use();
    }
    assert!(given > 500, "{given}");
    unread
        .into_iter()
        .for_each(|(rank, value, len)| ranks[rank as usize].take(value, len));
    ranks[0].give(&[1, 2], 1, 20_000);
    assert_eq!(
        ranks[0].in_use(),
        1,
        "what a failed one had still to read is free"
    );
}

/// A process that is gone has left what it told of.
#[test]
fn what_was_told_of_outlives_its_sender() {
    let (mut ranks, _) = job(3);
    let [root, a, b] = &mut ranks[..] else {
        unreachable!()
    };
    assert!(root.give(&[1, 2], 9, 30_000));
    assert!(root.give(&[1, 2], 10, 40_000));
    a.t.progress(&mut a.done);
    for rank in [a, b] {
        rank.t.peer_failed(Endpoint(0));
        let probed = rank.t.probe(Source::Any, CONTEXT, TagSel::Exact(10));
        assert_eq!(probed.unwrap().bytes, 40_000);
        rank.take(10, 40_000);
        let found = rank.t.mprobe(Source::Any, CONTEXT, TagSel::Any);
        let (message, envelope) = found.unwrap();
        assert_eq!((envelope.tag, envelope.bytes), (9, 30_000));
        rank.memory.fill(0);
        let data = Data::bytes(rank.buf(), 30_000);
        let Submit::Complete(done) = rank.t.imrecv(message, data, Cookie(2)) else {
            panic!("it is all there");
        };
        rank.done.push(done);
        rank.check(9, 30_000, 30_000);
    }
}

/// What is behind other messages is told of behind them.
#[test]
fn nothing_is_overtaken() {
    let (mut ranks, _) = job(3);
    let data = Data::bytes(ranks[0].buf(), 8);
    // Until one has to wait for room.
    while ranks[0].t.fabric().peers[2].queue.is_empty() {
        let to = Endpoint(2);
        let _ = ranks[0]
            .t
            .isend(to, CONTEXT, 7, SendMode::Standard, data.clone(), Cookie(9));
    }
    assert!(!ranks[0].give(&[1, 2], 7, 20_000));
    assert_eq!(ranks[0].in_use(), 0);
    let rank = &mut ranks[1];
    rank.post(7, ROOM);
    rank.t.progress(&mut rank.done);
    assert!(rank.done.is_empty(), "nor was anybody told");
}

/// Tells rank 1 of a message on rank 0's shelf.
fn tell(lane: &mut Lane, number: u32, words: Words) {
    let at = At::of(number);
    let header = Header {
        kind: Kind::Shelved,
        len: WORDS,
        line: 0,
        tag: 7,
        context: CONTEXT.0,
    };
    lane.write_header(at, &header);
    lane.inline_mut(at, WORDS).copy_from_slice(&encode(words));
    lane.set_sequence(at, number);
}

#[test]
fn what_is_not_on_the_shelf_is_not_read() {
    let (shelf, longest) = (SHELF as u64, LONGEST);
    for words in [
        [PLACES as u64, 100, 0, 0],
        [0, longest + 1, 0, 0],
        [0, longest, shelf - longest + 1, 0],
        [0, 100, u64::MAX, 0],
        [0, u64::MAX, 0, 0],
        [u64::MAX, 100, 0, 0],
    ] {
        let (mut ranks, spy) = job(3);
        spy.senders(1)[0].fetch_or(1, Ordering::SeqCst);
        ranks[1].post(7, ROOM);
        tell(&mut spy.lane(0, 1), 1, words);
        let mut done = Vec::new();
        ranks[1].t.progress(&mut done);
        assert_eq!(done.len(), 1, "{words:?}");
        assert_eq!(done[0].outcome, Outcome::PeerFailed, "{words:?}");
    }
    // At its very end there is something; but two ranks have none.
    for (number, failed) in [(3, false), (2, true)] {
        let (mut ranks, spy) = job(number);
        spy.senders(1)[0].fetch_or(1, Ordering::SeqCst);
        ranks[1].post(7, ROOM);
        tell(&mut spy.lane(0, 1), 1, [31, longest, shelf - longest, 0]);
        ranks[1].t.progress(&mut Vec::new());
        assert_eq!(ranks[1].t.fabric().peers[0].failed, failed);
    }
}

#[test]
fn who_says_what_is_not_so_harms_itself_alone() {
    let (mut ranks, spy) = job(3);
    let [root, a, b] = &mut ranks[..] else {
        unreachable!()
    };
    let liar = spy.lane(0, 1);
    for value in 1..=200 {
        // It has read everything, and everything again.
        (0..PLACES as u32).for_each(|place| liar.turned().turn(place));
        if root.give(&[1, 2], value, 30_000) {
            b.take(value, 30_000);
        }
        root.in_use();
        a.t.progress(&mut a.done);
    }
}
