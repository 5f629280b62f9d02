//! Loans that come before their receives.

use super::*;

/// Rank 0 lends several messages before any receive, which are not kept for now.
fn unmatched(number: usize) -> Option<(Rank, Rank)> {
    let (mut a, mut b) = two(Choice::Direct, true)?;
    b.t.fabric().kept_after = u64::MAX;
    for _ in 0..number {
        a.send(SendMode::Standard, WINDOW);
    }
    b.turn();
    a.turn();
    assert!(b.t.ready(), "there is something to be kept");
    assert!(a.done.is_empty());
    Some((a, b))
}

#[test]
fn what_is_received_soon_is_not_kept() {
    let Some((mut a, mut b)) = unmatched(1) else {
        return;
    };
    b.receive_bytes(WINDOW);
    assert!(b.t.ready());
    run(&mut a, &mut b);
    check(&a, &b, WINDOW);
}

#[test]
fn all_that_nobody_receives_soon_is_kept_in_order() {
    let Some((mut a, mut b)) = unmatched(3) else {
        return;
    };
    b.t.fabric().kept_after = 0;
    b.turn();
    assert!(!b.t.ready(), "at once");
    a.turn();
    assert_eq!(a.done.len(), 3);
    a.memory.fill(0xEE);
    for _ in 0..3 {
        b.memory.fill(0);
        b.receive_bytes(WINDOW);
        check(&a, &b, WINDOW);
        b.done.clear();
    }
}

#[test]
fn who_is_refused_a_loan_or_loses_its_sender_keeps_none() {
    for refused in [true, false] {
        let Some((mut a, mut b)) = unmatched(3) else {
            return;
        };
        if refused {
            b.refuse();
            b.t.fabric().kept_after = 0;
            run(&mut a, &mut b);
            assert!(a.done.is_empty());
            for _ in 0..3 {
                b.receive_bytes(WINDOW);
            }
            run(&mut a, &mut b);
            assert_eq!((a.done.len(), b.done.len()), (3, 3));
            check(&a, &b, WINDOW);
        } else {
            drop(a);
            b.t.peer_failed(Endpoint(0));
            b.turn();
            assert!(!b.t.ready());
            assert!(b.t.probe(Source::Any, Context(0), TagSel::Any).is_none());
        }
    }
}

#[test]
fn a_loan_of_a_matched_probe_is_kept_and_received() {
    let Some((mut a, mut b)) = unmatched(1) else {
        return;
    };
    let (from, context) = (Source::From(Endpoint(0)), Context(0));
    let (message, _) = b.t.mprobe(from, context, TagSel::Any).unwrap();
    b.t.fabric().kept_after = 0;
    run(&mut a, &mut b);
    assert_eq!(a.outcome(SENT), Some(Outcome::Done));
    let data = Data::bytes(b.buf(), WINDOW as u64);
    let received = b.t.imrecv(message, data, RECEIVED);
    b.keep(received);
    check(&a, &b, WINDOW);
}
