//! Both sides of messages that are lent, in one process, step by step. A process may read itself, unless it is confined: then there is
//! nothing to test.

mod exchanges;
mod turns;
mod unmatched;

use std::time::{Duration, Instant};

use boundary::UserBuf;
use layout::Data;
use mtmi::{
    Completion, Context, Cookie, Endpoint, Matched, Outcome, SendMode, Source, Submit, TagSel,
    Transport,
};

use crate::Shm;
use crate::direct::{CHUNK, Choice, SHORTEST};
use crate::footprint::Footprint;
use crate::foreign::Foreign;
use crate::lane::WINDOW;
use crate::places::Mover;
use crate::segment::Segment;
use crate::split::SPLIT;
use crate::trial::{CLASSES, SETTLED};

const SENT: Cookie = Cookie(1);
const RECEIVED: Cookie = Cookie(2);
/// Several chunks.
const LONG: usize = 3_000_001;

struct Rank {
    t: Matched<Shm>,
    done: Vec<Completion>,
    memory: Vec<u8>,
}

impl Rank {
    fn turn(&mut self) -> bool {
        self.t.progress(&mut self.done)
    }

    fn ended(&self, of: Cookie) -> Option<Completion> {
        self.done.iter().find(|c| c.cookie == of).copied()
    }

    fn outcome(&self, of: Cookie) -> Option<Outcome> {
        self.ended(of).map(|c| c.outcome)
    }

    fn buf(&mut self) -> UserBuf {
        // SAFETY: the vector stays as it is until the rank is dropped, and so its transport.
        unsafe { UserBuf::new(self.memory.as_mut_ptr().expose_provenance()) }
    }

    fn send(&mut self, mode: SendMode, bytes: usize) {
        let data = Data::bytes(self.buf(), bytes as u64);
        let sent = self.t.isend(Endpoint(1), Context(0), 3, mode, data, SENT);
        self.keep(sent);
    }

    fn receive(&mut self, data: Data) {
        let source = Source::From(Endpoint(0));
        let received = self
            .t
            .irecv(source, Context(0), TagSel::Any, data, RECEIVED);
        self.keep(received);
    }

    fn receive_bytes(&mut self, bytes: usize) {
        let data = Data::bytes(self.buf(), bytes as u64);
        self.receive(data);
    }

    fn keep(&mut self, submit: Submit) {
        if let Submit::Complete(c) = submit {
            self.done.push(c);
        }
    }

    /// From now on the system refuses it the other's memory.
    fn refuse(&mut self) {
        self.t
            .fabric()
            .peers
            .iter_mut()
            .for_each(|p| p.direct.refuse());
    }
}

fn pattern() -> Vec<u8> {
    (0..LONG).map(|i| (i * 7 + i / 256) as u8).collect()
}

fn run(a: &mut Rank, b: &mut Rank) {
    let mut idle = 0;
    while idle < 10 {
        idle = if a.turn() | b.turn() { 0 } else { idle + 1 };
    }
    assert!(!a.t.ready() && !b.t.ready(), "nothing is overlooked");
}

/// Two ranks that know each other; with a processor each, if they are to help each other.
fn pair(choice: Choice, help: bool) -> (Rank, Rank) {
    let (fd, mut first) = Segment::create(2, "test").unwrap();
    let mut second = Segment::open(&fd, 2, "test").unwrap();
    first.mark(&fd, 0);
    second.mark(&fd, 1);
    let rank = |segment, local: u32, memory| {
        let mut shm = Shm::new(
            segment,
            Err(std::io::ErrorKind::OutOfMemory.into()),
            local,
            vec![0, 1],
            2,
        );
        shm.choose(choice);
        shm.tried_from = [0; CLASSES];
        shm.kept_after = 0;
        shm.mover = help.then(|| Mover::new(local));
        Rank {
            t: Matched::new(shm),
            done: Vec::new(),
            memory,
        }
    };
    let (mut a, mut b) = (rank(first, 0, pattern()), rank(second, 1, vec![0; LONG]));
    // The first goes through the pipe, and they get to know each other.
    a.send(SendMode::Standard, SHORTEST as usize);
    b.receive_bytes(SHORTEST as usize);
    run(&mut a, &mut b);
    check(&a, &b, SHORTEST as usize);
    a.done.clear();
    b.done.clear();
    b.memory.fill(0);
    (a, b)
}

/// The same, of which rank 0 may lend to rank 1.
fn two(choice: Choice, help: bool) -> Option<(Rank, Rank)> {
    let (a, mut b) = pair(choice, help);
    let known = b.t.fabric().may_lend(0);
    assert_eq!(known, choice != Choice::Pipe && reads_itself());
    known.then_some((a, b))
}

/// Whether a process may read its own memory that way.
fn reads_itself() -> bool {
    let word = 0x5eed;
    let at = (&raw const word).expose_provenance() as u64;
    Foreign::new(std::process::id() as i32).has(at, word)
}

fn check(a: &Rank, b: &Rank, bytes: usize) {
    assert_eq!(a.outcome(SENT), Some(Outcome::Done));
    let ended = b.ended(RECEIVED).unwrap();
    assert_eq!((ended.outcome, ended.bytes), (Outcome::Done, bytes as u64));
    assert!(b.memory[..bytes] == pattern()[..bytes]);
}

fn lent(rank: &mut Rank) -> bool {
    rank.t.fabric().sends.iter().any(|(_, send)| send.offered)
}

/// Whatever this machine's caches hold: here nothing, so the second and third message are written past them.
#[test]
fn past_the_caches_it_is_the_same() {
    let (mut a, mut b) = pair(Choice::Pipe, false);
    b.t.fabric().footprint = Footprint::with(Some(0));
    for bytes in [LONG, LONG, LONG - 7] {
        b.receive_bytes(bytes);
        a.send(SendMode::Standard, bytes);
        run(&mut a, &mut b);
        check(&a, &b, bytes);
        assert!(b.memory[bytes..].iter().all(|byte| *byte == 0));
        a.done.clear();
        b.done.clear();
        b.memory.fill(0);
    }
    let at = b.memory.as_ptr().addr() as u64;
    let footprint = &mut b.t.fabric().footprint;
    assert!(footprint.receives(at, 1), "it was known where they began");
    assert!(!footprint.receives(at + 1, 1));
}

#[test]
fn both_sides_copy() {
    for bytes in [SHORTEST as usize, SPLIT as usize, 65_537, LONG] {
        for help in [true, false] {
            let Some((mut a, mut b)) = two(Choice::Direct, help) else {
                return;
            };
            b.receive_bytes(bytes);
            a.send(SendMode::Standard, bytes);
            assert!(lent(&mut a));
            b.turn();
            // Who helps has written before the receiver is through.
            assert!(a.outcome(SENT).is_none());
            run(&mut a, &mut b);
            check(&a, &b, bytes);
        }
    }
}

#[test]
fn a_receiver_needs_no_help() {
    for help in [true, false] {
        let Some((mut a, mut b)) = two(Choice::Direct, help) else {
            return;
        };
        b.receive_bytes(LONG);
        a.send(SendMode::Synchronous, LONG);
        while b.turn() {}
        assert_eq!(b.outcome(RECEIVED), Some(Outcome::Done));
        assert!(!b.t.ready() && a.outcome(SENT).is_none());
        run(&mut a, &mut b);
        check(&a, &b, LONG);
    }
}

#[test]
fn what_nobody_waits_for_is_kept_if_it_is_short() {
    let cases = [
        (SendMode::Standard, WINDOW, true),
        (SendMode::Standard, WINDOW + 1, false),
        (SendMode::Synchronous, WINDOW, false),
    ];
    for (mode, bytes, kept) in cases {
        let Some((mut a, mut b)) = two(Choice::Direct, true) else {
            return;
        };
        a.send(mode, bytes);
        run(&mut a, &mut b);
        assert_eq!(a.outcome(SENT).is_some(), kept);
        if kept {
            // It is the sender's again.
            a.memory.fill(0xEE);
        }
        b.receive_bytes(bytes);
        run(&mut a, &mut b);
        check(&a, &b, bytes);
    }
}

/// In lines, in a sheet and through the pipe.
#[test]
fn what_comes_behind_a_matched_one_waits_for_its_receive() {
    let (mut a, mut b) = pair(Choice::Pipe, false);
    let unexpected = |b: &mut Rank| {
        let from = Source::From(Endpoint(0));
        b.t.probe(from, Context(0), TagSel::Any).is_some()
    };
    for bytes in [100, 2000, 10_000] {
        for _ in 0..3 {
            a.send(SendMode::Standard, bytes);
        }
        b.receive_bytes(bytes);
        b.turn();
        assert_eq!(b.outcome(RECEIVED), Some(Outcome::Done));
        assert!(!unexpected(&mut b) && b.t.ready());
        // Its receive is posted now.
        b.done.clear();
        b.receive_bytes(bytes);
        assert!(b.done.is_empty());
        b.turn();
        assert_eq!(b.outcome(RECEIVED), Some(Outcome::Done));
        // That of the third is not, and nothing else is to be done.
        assert!(!unexpected(&mut b));
        b.turn();
        assert!(unexpected(&mut b) && !b.t.ready());
        b.done.clear();
        b.receive_bytes(bytes);
        assert_eq!(b.outcome(RECEIVED), Some(Outcome::Done));
        assert!(b.memory[..bytes] == pattern()[..bytes]);
        run(&mut a, &mut b);
        a.done.clear();
        b.done.clear();
    }
}

#[test]
fn a_short_receive_is_told() {
    for bytes in [100, 70_000] {
        let Some((mut a, mut b)) = two(Choice::Direct, true) else {
            return;
        };
        b.receive_bytes(bytes);
        a.send(SendMode::Standard, LONG);
        run(&mut a, &mut b);
        let ended = b.ended(RECEIVED).unwrap();
        assert_eq!(ended.outcome, Outcome::Truncated { sent: LONG as u64 });
        assert!(
            b.memory[..bytes] == pattern()[..bytes] && b.memory[bytes..].iter().all(|&x| x == 0)
        );
        assert_eq!(a.outcome(SENT), Some(Outcome::Done));
    }
}

#[test]
fn a_receiver_that_is_refused_asks_for_all() {
    for (help, bytes) in [(true, LONG), (false, LONG), (true, WINDOW)] {
        let Some((mut a, mut b)) = two(Choice::Direct, help) else {
            return;
        };
        b.receive_bytes(bytes);
        a.send(SendMode::Standard, bytes);
        if bytes > WINDOW {
            b.turn();
        }
        assert!(b.outcome(RECEIVED).is_none() && lent(&mut a));
        b.refuse();
        run(&mut a, &mut b);
        check(&a, &b, bytes);
        // And no more are lent.
        a.done.clear();
        b.done.clear();
        a.send(SendMode::Standard, LONG);
        assert!(!lent(&mut a));
        b.receive_bytes(LONG);
        run(&mut a, &mut b);
        check(&a, &b, LONG);
    }
}

#[test]
fn a_sender_that_is_refused_sends_all() {
    // Of two chunks each side takes one; of more the receiver has others left.
    for bytes in [2 * CHUNK as usize, LONG] {
        let Some((mut a, mut b)) = two(Choice::Direct, true) else {
            return;
        };
        b.receive_bytes(bytes);
        a.send(SendMode::Standard, bytes);
        b.turn();
        a.refuse();
        a.turn();
        assert!(a.outcome(SENT).is_none());
        run(&mut a, &mut b);
        check(&a, &b, bytes);
    }
}

/// The sender hears late of what became of the first; other messages of the pair follow each other at once.
#[test]
fn several_loans_that_are_refused_come_through_the_pipe() {
    let Some((mut a, mut b)) = two(Choice::Direct, true) else {
        return;
    };
    for _ in 0..3 {
        b.receive_bytes(LONG);
        a.send(SendMode::Standard, LONG);
    }
    b.refuse();
    while b.turn() {}
    assert!(b.done.is_empty());
    run(&mut a, &mut b);
    assert_eq!((a.done.len(), b.done.len()), (3, 3));
    check(&a, &b, LONG);
}

#[test]
fn a_loan_that_cannot_be_kept_stays() {
    let Some((mut a, mut b)) = two(Choice::Direct, true) else {
        return;
    };
    a.send(SendMode::Standard, WINDOW);
    b.refuse();
    run(&mut a, &mut b);
    assert!(a.outcome(SENT).is_none());
    b.receive_bytes(WINDOW);
    run(&mut a, &mut b);
    check(&a, &b, WINDOW);
}

#[test]
fn a_loan_can_be_cancelled() {
    let Some((mut a, mut b)) = two(Choice::Direct, true) else {
        return;
    };
    a.send(SendMode::Standard, LONG);
    run(&mut a, &mut b);
    a.t.cancel_send(SENT);
    run(&mut a, &mut b);
    assert_eq!(a.outcome(SENT), Some(Outcome::Cancelled));
    assert!(b.t.probe(Source::Any, Context(0), TagSel::Any).is_none());
}

#[test]
fn a_loan_that_was_kept_cannot_be_cancelled() {
    let Some((mut a, mut b)) = two(Choice::Direct, true) else {
        return;
    };
    a.send(SendMode::Standard, WINDOW);
    b.turn();
    a.t.cancel_send(SENT);
    run(&mut a, &mut b);
    assert_eq!(a.outcome(SENT), Some(Outcome::Done));
    b.receive_bytes(WINDOW);
    run(&mut a, &mut b);
    check(&a, &b, WINDOW);
}

#[test]
fn who_is_gone_in_the_middle_fails_the_other() {
    let Some((mut a, b)) = begun() else { return };
    drop(b);
    a.t.peer_failed(Endpoint(1));
    a.turn();
    assert_eq!(a.outcome(SENT), Some(Outcome::PeerFailed));
    let Some((mut a, mut b)) = begun() else {
        return;
    };
    a.turn();
    b.refuse();
    b.turn();
    drop(a);
    b.t.peer_failed(Endpoint(0));
    b.turn();
    assert_eq!(b.outcome(RECEIVED), Some(Outcome::PeerFailed));
}

/// A message that both sides have begun to copy.
fn begun() -> Option<(Rank, Rank)> {
    let (mut a, mut b) = two(Choice::Direct, true)?;
    b.receive_bytes(LONG);
    a.send(SendMode::Standard, LONG);
    b.turn();
    assert!(a.turn() && a.outcome(SENT).is_none());
    Some((a, b))
}

#[test]
fn by_default_both_ways_are_tried() {
    let Some((mut a, mut b)) = two(Choice::Measured, true) else {
        return;
    };
    let [pipe, direct] = ways(&mut a, &mut b, 30);
    assert!(pipe >= 4 && direct >= 4, "{pipe} {direct}");
}

#[test]
fn a_fast_pipe_is_the_only_way_and_is_measured_again() {
    let Some((mut a, mut b)) = two(Choice::Measured, true) else {
        return;
    };
    b.t.fabric().peers[0].direct.tries_from([u64::MAX; CLASSES]);
    assert_eq!(ways(&mut a, &mut b, SETTLED), [SETTLED, 0]);
    let measures = |b: &mut Rank| b.t.fabric().peers[0].direct.measures(WINDOW as u64);
    assert!(!measures(&mut b));
    // Also those count that come as a whole, with their announcement.
    assert_eq!(ways(&mut a, &mut b, 4), [4, 0]);
    assert!(measures(&mut b));
}

#[test]
fn what_waited_for_its_receiver_does_not_count() {
    let Some((mut a, mut b)) = two(Choice::Measured, true) else {
        return;
    };
    let absence = &mut b.t.fabric().absence;
    absence.leaves(1, true);
    absence.looks(|| u64::MAX);
    assert_eq!(ways(&mut a, &mut b, 30), [30, 0]);
}

#[test]
fn what_is_to_be_lent_is_lent_and_nothing_learnt_of_it() {
    let Some((mut a, mut b)) = two(Choice::Measured, false) else {
        return;
    };
    let send = |a: &mut Rank, b: &mut Rank, mode| {
        b.receive_bytes(LONG);
        a.send(mode, LONG);
        let is_lent = lent(a);
        run(a, b);
        check(a, b, LONG);
        a.done.clear();
        b.done.clear();
        is_lent
    };
    // Nothing was measured, and the pipe comes first.
    assert!(!send(&mut a, &mut b, SendMode::Standard));
    let before = b.t.fabric().peers[0].direct.trials().cloned();
    assert!(before.is_some());
    for _ in 0..20 {
        assert!(send(&mut a, &mut b, SendMode::Lent));
    }
    assert_eq!(b.t.fabric().peers[0].direct.trials().cloned(), before);
    assert!(!send(&mut a, &mut b, SendMode::Standard));
    // A receiver that is refused one copy is lent no more.
    b.refuse();
    assert!(send(&mut a, &mut b, SendMode::Lent));
    assert!(!send(&mut a, &mut b, SendMode::Lent));
}

/// So many messages, of which some came through the pipe, and some directly.
fn ways(a: &mut Rank, b: &mut Rank, messages: u32) -> [u32; 2] {
    let mut ways = [0; 2];
    for _ in 0..messages {
        b.receive_bytes(WINDOW);
        a.send(SendMode::Standard, WINDOW);
        ways[usize::from(lent(a))] += 1;
        run(a, b);
        check(a, b, WINDOW);
        a.done.clear();
        b.done.clear();
    }
    ways
}

/// Where the program of a process begins, and with what: every process has such a word, which so is no proof that it is a peer. `None`: it is not there yet.
fn known_word(pid: u32) -> Option<(u64, u64)> {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).ok()?;
    let at = u64::from_str_radix(maps.split('-').next()?, 16).ok()?;
    let mut found = [0; 8];
    let read = Foreign::new(pid as i32).read(at, UserBuf::of_array(&mut found), 8);
    (read.is_ok() && found.starts_with(b"\x7fELF")).then(|| (at, u64::from_ne_bytes(found)))
}

#[test]
fn who_says_that_it_is_another_process_is_not_believed() {
    if !reads_itself() {
        return;
    }
    let mut child = std::process::Command::new("sleep")
        .arg("60")
        .spawn()
        .unwrap();
    let (fd, mut segment) = Segment::create(2, "test").unwrap();
    segment.mark(&fd, 1);
    let slots = Err(std::io::ErrorKind::OutOfMemory.into());
    let mut shm = Shm::new(segment, slots, 0, vec![0, 1], 2);
    shm.choose(Choice::Direct);
    let soon = Instant::now() + Duration::from_secs(10);
    let found = loop {
        match known_word(child.id()) {
            None if Instant::now() < soon => std::thread::sleep(Duration::from_millis(1)),
            found => break found,
        }
    };
    if let Some((at, word)) = found {
        shm.take_introduction(1, [child.id().into(), at, word, 0]);
    }
    let believed = shm.may_lend(1);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(found.is_some() && !believed);
    // It is the number that was wrong.
    let me = std::process::id();
    let (at, word) = known_word(me).unwrap();
    shm.take_introduction(1, [me.into(), at, word, 0]);
    assert!(shm.may_lend(1));
}

#[test]
fn who_wants_the_pipe_gets_it() {
    assert!(two(Choice::Pipe, true).is_none());
}
