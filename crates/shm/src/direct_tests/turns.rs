//! Loans of one sender that several ranks read.

use std::sync::atomic::Ordering::Relaxed;

use super::*;
use crate::turns::{STUCK, TURNS_FROM, Waiting};

/// Rank 0 lends so many bytes while a third rank, of which there is only the turn, reads its memory. Rank 1 has received nothing yet.
fn while_another_reads(bytes: usize, help: bool) -> Option<(Rank, Rank)> {
    let (mut a, mut b) = two(Choice::Direct, help)?;
    b.receive_bytes(bytes);
    a.send(SendMode::Synchronous, bytes);
    let now = sys::clock::cycles();
    let word = a.t.fabric().segment.turn(0);
    assert!(Waiting::default().may_read(word, 2, bytes as u64, now));
    Some((a, b))
}

#[test]
fn who_finds_another_reading_looks_again_and_reads_what_there_is() {
    let Some((mut a, mut b)) = while_another_reads(LONG, false) else {
        return;
    };
    // It announces itself, but takes nothing.
    b.turn();
    assert!(b.t.ready(), "it does not sleep: nobody would wake it");
    assert!(b.memory.iter().all(|&byte| byte == 0));
    crate::turns::end(a.t.fabric().segment.turn(0), 2);
    run(&mut a, &mut b);
    check(&a, &b, LONG);
    let reader = a.t.fabric().segment.turn(0).load(Relaxed) & 0xffff;
    assert_eq!(reader, 0, "and leaves the turn to others");
}

#[test]
fn who_does_not_end_its_turn_keeps_nobody() {
    let Some((mut a, mut b)) = while_another_reads(LONG, false) else {
        return;
    };
    let since = sys::clock::cycles();
    while b.outcome(RECEIVED).is_none() {
        b.turn();
        assert!(sys::clock::cycles() - since < 1 << 36, "it waits for ever");
    }
    assert!(sys::clock::cycles() - since >= STUCK);
    run(&mut a, &mut b);
    check(&a, &b, LONG);
}

#[test]
fn short_loans_and_those_with_help_wait_for_nobody() {
    for (bytes, help) in [(TURNS_FROM as usize - 1, false), (LONG, true)] {
        let Some((mut a, mut b)) = while_another_reads(bytes, help) else {
            return;
        };
        let turn = a.t.fabric().segment.turn(0).load(Relaxed);
        run(&mut a, &mut b);
        check(&a, &b, bytes);
        assert_eq!(a.t.fabric().segment.turn(0).load(Relaxed), turn);
    }
}

#[test]
fn each_message_waits_anew() {
    let Some((mut a, mut b)) = while_another_reads(LONG, false) else {
        return;
    };
    for _ in 0..2 {
        b.turn();
        assert!(
            b.memory.iter().all(|&byte| byte == 0),
            "it was not its turn"
        );
        crate::turns::end(a.t.fabric().segment.turn(0), 2);
        run(&mut a, &mut b);
        check(&a, &b, LONG);
        let late = sys::clock::cycles() + 1000 * STUCK;
        let word = a.t.fabric().segment.turn(0);
        assert!(Waiting::default().may_read(word, 2, LONG as u64, late));
        (a.done, b.done) = (Vec::new(), Vec::new());
        b.memory.fill(0);
        b.receive_bytes(LONG);
        a.send(SendMode::Synchronous, LONG);
    }
}
