//! Messages that two ranks give each other at the same time.

use std::rc::Rc;

use layout::{Bounds, Kind, Tree};

use super::*;
use crate::direct::ANSWERS;
use crate::trial::SAMPLES;

/// Both ranks send `bytes` to each other, out of the first half of their memory into the second. The second is the last to do anything.
fn exchange(a: &mut Rank, b: &mut Rank, bytes: usize) {
    for (me, rank) in [(0, &mut *a), (1, &mut *b)] {
        let (peer, half) = (Endpoint(1 - me), LONG / 2);
        let at = |start: usize| rank.memory.as_ptr().expose_provenance() + start;
        // SAFETY: the vector stays as it is until the rank is dropped, and so its transport.
        let [from, to] = [0, half].map(|start| unsafe { UserBuf::new(at(start)) });
        let [from, to] = [from, to].map(|buf| Data::bytes(buf, bytes as u64));
        let (source, context) = (Source::From(peer), Context(0));
        let received = (rank.t).irecv(source, context, TagSel::Any, to, RECEIVED);
        rank.keep(received);
        let sent = (rank.t).isend(peer, context, 3, SendMode::Standard, from, SENT);
        rank.keep(sent);
    }
}

fn check_exchange(a: &mut Rank, b: &mut Rank, bytes: usize) {
    for (rank, other) in [(&*a, &*b), (&*b, &*a)] {
        assert_eq!(rank.outcome(SENT), Some(Outcome::Done));
        assert_eq!(rank.outcome(RECEIVED), Some(Outcome::Done));
        assert!(rank.memory[LONG / 2..][..bytes] == other.memory[..bytes]);
    }
    for rank in [a, b] {
        rank.done.clear();
        rank.memory[LONG / 2..].fill(0);
    }
}

#[test]
fn in_an_exchange_each_reads_alone() {
    let Some((mut a, mut b)) = two(Choice::Direct, true) else {
        return;
    };
    b.memory = pattern().into_iter().rev().collect();
    // The first from there shows where to read.
    exchange(&mut a, &mut b, SHORTEST as usize);
    run(&mut a, &mut b);
    check_exchange(&mut a, &mut b, SHORTEST as usize);
    let splits = |rank: &mut Rank, peer: usize| rank.t.fabric().peers[peer].copies.splits();
    for bytes in [SHORTEST as usize, 65_537, LONG / 2] {
        let before = (splits(&mut a, 1), splits(&mut b, 0));
        exchange(&mut a, &mut b, bytes);
        assert!(lent(&mut a) && lent(&mut b));
        run(&mut a, &mut b);
        check_exchange(&mut a, &mut b, bytes);
        assert_eq!(splits(&mut a, 1), before.0);
        // Of a short one the first has read all in its turn, and may help the second.
        assert!(bytes <= CHUNK as usize || splits(&mut b, 0) == before.1);
    }
    // A short loan keeps nobody from helping with a long one, and none does for more than one message.
    for (lends, helps) in [
        (SHORTEST as usize, true),
        (LONG / 2, false),
        (LONG / 2, true),
    ] {
        let before = splits(&mut b, 0);
        let from = Data::bytes(b.buf(), lends as u64);
        if lends == SHORTEST as usize || !helps {
            let sent = (b.t).isend(
                Endpoint(0),
                Context(0),
                3,
                SendMode::Synchronous,
                from,
                SENT,
            );
            b.keep(sent);
        }
        b.receive_bytes(LONG / 2);
        a.send(SendMode::Standard, LONG / 2);
        run(&mut a, &mut b);
        assert_eq!(b.outcome(RECEIVED), Some(Outcome::Done));
        assert_eq!(splits(&mut b, 0), before + u32::from(helps), "{lends}");
        a.done.clear();
        b.done.clear();
    }
    for _ in 0..2 {
        let to = Data::bytes(a.buf(), LONG as u64);
        let (source, context) = (Source::From(Endpoint(1)), Context(0));
        let received = (a.t).irecv(source, context, TagSel::Any, to, RECEIVED);
        a.keep(received);
        run(&mut a, &mut b);
    }
    // What was read before is nothing that a helper would have to do first.
    let before = splits(&mut b, 0);
    b.receive_bytes(LONG / 2);
    a.send(SendMode::Standard, LONG / 2);
    run(&mut a, &mut b);
    assert_eq!(splits(&mut b, 0), before + 1);
}

#[test]
fn what_meets_another_in_the_pipe_is_an_exchange() {
    let (mut a, mut b) = pair(Choice::Measured, true);
    if !reads_itself() {
        return;
    }
    let (short, bytes) = (SHORTEST as usize, 2 * SHORTEST as usize);
    exchange(&mut a, &mut b, short);
    run(&mut a, &mut b);
    check_exchange(&mut a, &mut b, short);
    for _ in 0..2 {
        exchange(&mut a, &mut b, bytes);
        // The first had sent before the second's was there.
        let meets = |rank: &mut Rank, peer: usize| rank.t.fabric().peers[peer].direct.meets();
        assert!(!meets(&mut a, 1) && meets(&mut b, 0));
        run(&mut a, &mut b);
        check_exchange(&mut a, &mut b, bytes);
        assert!(!meets(&mut b, 0), "it counts for one message");
    }
    // The first has seen nothing of it.
    let exchanged = |rank: &mut Rank, peer: usize| {
        let trials = rank.t.fabric().peers[peer].direct.trials();
        trials.unwrap().exchanged(1)
    };
    assert_eq!((exchanged(&mut a, 1), exchanged(&mut b, 0)), (0, 2));
}

#[test]
fn several_that_are_long_are_read_alone_in_an_exchange() {
    let Some((mut a, mut b)) = two(Choice::Direct, true) else {
        return;
    };
    exchange(&mut a, &mut b, SHORTEST as usize);
    run(&mut a, &mut b);
    check_exchange(&mut a, &mut b, SHORTEST as usize);
    let splits = |rank: &mut Rank, peer: usize| rank.t.fabric().peers[peer].copies.splits();
    let before = (splits(&mut a, 1), splits(&mut b, 0));
    for _ in 0..2 {
        exchange(&mut a, &mut b, LONG / 2);
    }
    run(&mut a, &mut b);
    assert_eq!((a.done.len(), b.done.len()), (4, 4));
    check_exchange(&mut a, &mut b, LONG / 2);
    assert_eq!((splits(&mut a, 1), splits(&mut b, 0)), before);
}

/// `number` messages of `bytes` from `a` to `b` alone.
fn one_way(a: &mut Rank, b: &mut Rank, (number, bytes): (u32, usize)) {
    for _ in 0..number {
        b.receive_bytes(bytes);
        a.send(SendMode::Standard, bytes);
        run(a, b);
        a.done.clear();
        b.done.clear();
    }
}

/// Which of the first classes of a peer's messages are to be lent.
fn wishes(rank: &mut Rank, peer: usize) -> u32 {
    rank.t.fabric().peers[peer].inward.wishes() & 7
}

#[test]
fn what_goes_to_and_fro_goes_as_the_first_wishes() {
    if !reads_itself() {
        return;
    }
    let bytes = 2 * SHORTEST as usize;
    // One wants all directly; the other measures, and so wants the pipe at the beginning.
    let (mut a, mut b) = pair(Choice::Measured, true);
    a.t.fabric().insist(1);
    assert_eq!((wishes(&mut a, 1), wishes(&mut b, 0)), (7, 0));
    exchange(&mut a, &mut b, bytes);
    run(&mut a, &mut b);
    check_exchange(&mut a, &mut b, bytes);
    assert_eq!((wishes(&mut a, 1), wishes(&mut b, 0)), (7, 2));
    // It measures only where it chooses.
    let measures = |rank: &mut Rank, bytes: usize| {
        let direct = &rank.t.fabric().peers[0].direct;
        direct.measures(bytes as u64)
    };
    assert!(!measures(&mut b, bytes) && measures(&mut b, 2 * bytes));
    // Also where one has many on their way to the other, of which only the last was answered; and then nothing goes fro any more.
    one_way(&mut a, &mut b, (u32::from(ANSWERS) - 1, bytes));
    assert_eq!(wishes(&mut b, 0), 2);
    one_way(&mut a, &mut b, (1, bytes));
    assert_eq!(wishes(&mut b, 0), 0);
    assert!(measures(&mut b, bytes));

    let (mut a, mut b) = pair(Choice::Measured, true);
    b.t.fabric().insist(0);
    exchange(&mut a, &mut b, bytes);
    run(&mut a, &mut b);
    assert_eq!((wishes(&mut a, 1), wishes(&mut b, 0)), (0, 7));
}

#[test]
fn the_first_chooses_for_both_only_where_it_knows() {
    if !reads_itself() {
        return;
    }
    let bytes = 2 * SHORTEST as usize;
    let follows = |b: &mut Rank| b.t.fabric().peers[0].direct.follows();
    let (mut a, mut b) = pair(Choice::Measured, true);
    let exchanges = |a: &mut Rank, b: &mut Rank, number: u32| {
        for _ in 0..number {
            exchange(a, b, bytes);
            run(a, b);
            check_exchange(a, b, bytes);
        }
    };
    // It measures at first, as the second does.
    exchanges(&mut a, &mut b, 2 * SAMPLES - 1);
    assert_eq!(follows(&mut b), 0);
    exchanges(&mut a, &mut b, 2 * SAMPLES);
    assert_eq!(follows(&mut b), 2);
    assert_eq!(wishes(&mut b, 0), wishes(&mut a, 1));
    // Where the system has refused it a copy it knows nothing.
    a.t.fabric().lend_no_more(1);
    exchanges(&mut a, &mut b, 1);
    assert_eq!(follows(&mut b), 0);
}

#[test]
fn who_has_to_ask_for_what_is_lent_follows_nobody() {
    if !reads_itself() {
        return;
    }
    let bytes = 2 * SHORTEST as usize;
    let (mut a, mut b) = pair(Choice::Measured, true);
    a.t.fabric().insist(1);
    exchange(&mut a, &mut b, bytes);
    run(&mut a, &mut b);
    check_exchange(&mut a, &mut b, bytes);
    assert_eq!(wishes(&mut b, 0), 2);
    let every_other = (Tree::block(0, 1, Kind::OPAQUE).unwrap())
        .repeat(bytes as u64, 2)
        .unwrap();
    let (lb, extent) = (0, 2 * bytes as i64);
    let gaps = Rc::new(every_other.compile(Bounds { lb, extent }).unwrap());
    let follows = |b: &mut Rank| b.t.fabric().peers[0].direct.follows();
    assert_eq!(follows(&mut b), 2);
    b.memory.fill(0);
    let to = Data::typed(b.buf(), &gaps, 1);
    b.receive(to);
    a.send(SendMode::Standard, bytes);
    run(&mut a, &mut b);
    assert_eq!(b.outcome(RECEIVED), Some(Outcome::Done));
    let mut spread = b.memory.chunks(2).zip(&a.memory[..bytes]);
    assert!(spread.all(|(pair, &sent)| pair == [sent, 0]));
    assert_eq!((follows(&mut b), wishes(&mut b, 0)), (0, 0));
    for rank in [&mut a, &mut b] {
        rank.done.clear();
    }
    // Not for ever.
    one_way(&mut a, &mut b, (u32::from(ANSWERS), bytes));
    exchange(&mut a, &mut b, bytes);
    run(&mut a, &mut b);
    assert_eq!((follows(&mut b), wishes(&mut b, 0)), (2, 2));
}

#[test]
fn what_is_always_lent_is_no_answer() {
    if !reads_itself() {
        return;
    }
    let bytes = 2 * SHORTEST as usize;
    let (mut a, mut b) = pair(Choice::Measured, true);
    a.t.fabric().insist(1);
    for mode in [SendMode::Lent, SendMode::Standard] {
        let to = Data::bytes(a.buf(), LONG as u64);
        let (source, context) = (Source::From(Endpoint(1)), Context(0));
        let received = (a.t).irecv(source, context, TagSel::Any, to, RECEIVED);
        a.keep(received);
        let from = Data::bytes(b.buf(), bytes as u64);
        let sent = (b.t).isend(Endpoint(0), context, 3, mode, from, SENT);
        b.keep(sent);
        run(&mut a, &mut b);
        for rank in [&mut a, &mut b] {
            assert_eq!(rank.done.len(), 1);
            rank.done.clear();
        }
        one_way(&mut a, &mut b, (1, bytes));
        let answered = u32::from(mode == SendMode::Standard);
        assert_eq!(wishes(&mut b, 0), 2 * answered);
    }
}
