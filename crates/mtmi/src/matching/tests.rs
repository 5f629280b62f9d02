//! The matching library against a naive model: two plain lists searched from the front.

use proptest::prelude::*;

use super::{Posted, Slot, Unexpected};
use crate::words::{Context, Endpoint, Source, TagSel};

type Selector = (Source, Context, TagSel);
type Message = (Endpoint, Context, i32);

fn accepts(s: Selector, m: Message) -> bool {
    let from = match s.0 {
        Source::Any => true,
        Source::From(e) => e == m.0,
    };
    let tag = match s.2 {
        TagSel::Any => true,
        TagSel::Exact(t) => t == m.2,
    };
    from && tag && s.1 == m.1
}

#[derive(Default)]
struct Naive {
    posted: Vec<(Selector, u64)>,
    unexpected: Vec<(Message, u64)>,
}

#[derive(Clone, Debug)]
enum Step {
    Receive(Selector),
    Arrive(Message),
    Probe(Selector),
    Mprobe(Selector),
    /// Cancels the n-th (modulo) value ever posted.
    CancelReceive(usize),
    /// Removes the n-th (modulo) message ever arrived.
    CancelSend(usize),
}

fn selector() -> impl Strategy<Value = Selector> {
    (0u32..5, 0u32..2, 0i32..6).prop_map(|(s, c, t)| {
        let from = s
            .checked_sub(1)
            .map_or(Source::Any, |s| Source::From(Endpoint(s)));
        let tag = if t == 0 {
            TagSel::Any
        } else {
            TagSel::Exact(t - 1)
        };
        (from, Context(c), tag)
    })
}

fn message() -> impl Strategy<Value = Message> {
    (0u32..4, 0u32..2, 0i32..5).prop_map(|(s, c, t)| (Endpoint(s), Context(c), t))
}

/// `bias` shifts between mostly receives and mostly messages, so that both queues grow deep.
fn step(bias: u32) -> impl Strategy<Value = Step> {
    prop_oneof![
        10 + bias => selector().prop_map(Step::Receive),
        30 - bias => message().prop_map(Step::Arrive),
        3 => selector().prop_map(Step::Probe),
        1 => selector().prop_map(Step::Mprobe),
        2 => (0usize..1000).prop_map(Step::CancelReceive),
        2 => (0usize..1000).prop_map(Step::CancelSend),
    ]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(0u32..20, 1..5).prop_flat_map(|biases| {
        let parts: Vec<_> = biases
            .into_iter()
            .map(|b| prop::collection::vec(step(b), 0..120))
            .collect();
        parts.prop_map(|v| v.concat())
    })
}

fn run(steps: &[Step]) -> Result<(), TestCaseError> {
    let mut naive = Naive::default();
    let mut posted: Posted<u64> = Posted::new();
    let mut unexpected: Unexpected<u64> = Unexpected::new();
    let mut receive_slots: Vec<(Slot, u64)> = Vec::new();
    let mut message_slots: Vec<(Slot, u64)> = Vec::new();
    for (id, step) in (0u64..).zip(steps) {
        match step.clone() {
            Step::Receive(s) | Step::Mprobe(s) => {
                let want = naive.unexpected.iter().position(|(m, _)| accepts(s, *m));
                let want = want.map(|i| naive.unexpected.remove(i));
                let got = unexpected.take(s.0, s.1, s.2);
                prop_assert_eq!(got, want.map(|((e, _, t), v)| (e, t, v)));
                if got.is_none() && matches!(step, Step::Receive(_)) {
                    naive.posted.push((s, id));
                    receive_slots.push((posted.post(s.0, s.1, s.2, id), id));
                }
            }
            Step::Arrive(m) => {
                let want = naive.posted.iter().position(|(s, _)| accepts(*s, m));
                let want = want.map(|i| naive.posted.remove(i).1);
                prop_assert_eq!(posted.take(m.0, m.1, m.2), want);
                if want.is_none() {
                    naive.unexpected.push((m, id));
                    message_slots.push((unexpected.arrive(m.0, m.1, m.2, id), id));
                }
            }
            Step::Probe(s) => {
                let want = naive.unexpected.iter().find(|(m, _)| accepts(s, *m));
                let slot = unexpected.find(s.0, s.1, s.2);
                let got = slot
                    .and_then(|s| unexpected.get(s))
                    .map(|(e, t, v)| (e, t, *v));
                prop_assert_eq!(got, want.map(|((e, _, t), v)| (*e, *t, *v)));
            }
            Step::CancelReceive(n) => {
                let Some(&(slot, id)) = receive_slots.get(n % receive_slots.len().max(1)) else {
                    continue;
                };
                let want = naive.posted.iter().position(|(_, v)| *v == id);
                let want = want.map(|i| naive.posted.remove(i));
                let got = if n % 2 == 0 {
                    posted.remove(slot)
                } else {
                    posted.take_where(|from, context, tag, v| {
                        *v == id && want.is_some_and(|(s, _)| s == (from, context, tag))
                    })
                };
                prop_assert_eq!(got, want.map(|(_, v)| v));
            }
            Step::CancelSend(n) => {
                let Some(&(slot, id)) = message_slots.get(n % message_slots.len().max(1)) else {
                    continue;
                };
                let want = naive.unexpected.iter().position(|(_, v)| *v == id);
                let want = want.map(|i| naive.unexpected.remove(i));
                let slot = if n % 2 == 0 {
                    Some(Slot::from_bits(slot.to_bits()))
                } else {
                    unexpected.find_where(|_, v| *v == id)
                };
                let got = slot.and_then(|s| unexpected.remove(s));
                prop_assert_eq!(got, want.map(|((e, _, t), v)| (e, t, v)));
            }
        }
        prop_assert_eq!(posted.len(), naive.posted.len());
        prop_assert_eq!(unexpected.len(), naive.unexpected.len());
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]
    #[test]
    fn agrees_with_the_naive_model(steps in steps()) {
        run(&steps)?;
    }
}

/// Matching the last of many must not walk over the others: 100,000 entries, taken from the back.
#[test]
fn depth_costs_nothing() {
    let n = 100_000;
    let mut posted = Posted::new();
    let mut unexpected = Unexpected::new();
    for t in 0..n {
        posted.post(Source::Any, Context(1), TagSel::Exact(t), t);
        unexpected.arrive(Endpoint(3), Context(1), t, t);
    }
    for t in (0..n).rev() {
        assert_eq!(posted.take(Endpoint(7), Context(1), t), Some(t));
        let got = unexpected.take(Source::Any, Context(1), TagSel::Exact(t));
        assert_eq!(got, Some((Endpoint(3), t, t)));
    }
    assert!(posted.is_empty() && unexpected.is_empty());
}
