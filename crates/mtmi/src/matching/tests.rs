//! The matching library against a naive model: two plain lists searched from the front.

use std::rc::Rc;

use boundary::UserBuf;
use proptest::prelude::*;

use super::{Light, Post, Posted, Slot, Unexpected, has_ordinary};
use crate::queues::{Queues, Receive};
use crate::words::{Context, Cookie, Endpoint, Source, TagSel};

/// Sources of the model, numbered from 0.
const SOURCES: u32 = 4;

impl From<&'static Post> for u64 {
    fn from(post: &'static Post) -> u64 {
        post.cookie().0
    }
}

/// Posts `id` as a light receive, if that may be.
fn post_light(light: &Light, s: Selector, id: u64) -> Option<&'static Post> {
    let Source::From(source) = s.0 else {
        return None;
    };
    let row = &light.rows()[source.index()];
    if !row.is_open(s.1, s.2) {
        return None;
    }
    let post: &'static Post = Box::leak(Box::default());
    post.set_place(UserBuf::NULL, 8 + id % 3);
    post.set_cookie(Cookie(id));
    row.post(post, (-7, s.1, s.2), light.ordinary());
    Some(post)
}

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
    /// The same as a light receive, where it can be one.
    Light(Selector),
    /// So many of these, more than a search goes along.
    LightMany(Selector, usize),
    Arrive(Message),
    /// The same, with so many bytes, for whoever would end at once.
    ArriveShort(Message, u64),
    Probe(Selector),
    Mprobe(Selector),
    /// Cancels the n-th (modulo) value ever posted.
    CancelReceive(usize),
    /// Removes the n-th (modulo) message ever arrived.
    CancelSend(usize),
}

fn selector() -> impl Strategy<Value = Selector> {
    (0..SOURCES + 1, 0u32..2, 0i32..6).prop_map(|(s, c, t)| {
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
    (0..SOURCES, 0u32..2, 0i32..5).prop_map(|(s, c, t)| (Endpoint(s), Context(c), t))
}

/// `bias` shifts between mostly receives and mostly messages, so that both queues grow deep.
fn step(bias: u32) -> impl Strategy<Value = Step> {
    prop_oneof![
        5 + bias => selector().prop_map(Step::Receive),
        5 + bias => selector().prop_map(Step::Light),
        1 => (selector(), 25usize..50).prop_map(|(s, n)| Step::LightMany(s, n)),
        30 - bias => message().prop_map(Step::Arrive),
        15 => (message(), 0u64..12).prop_map(|(m, len)| Step::ArriveShort(m, len)),
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
        parts.prop_map(|v| spread(&v.concat()))
    })
}

/// One step for each receive.
fn spread(steps: &[Step]) -> Vec<Step> {
    let each = |step: &Step| match *step {
        Step::LightMany(s, n) => vec![Step::Light(s); n],
        ref other => vec![other.clone()],
    };
    steps.iter().flat_map(each).collect()
}

fn run(steps: &[Step]) -> Result<(), TestCaseError> {
    let mut naive = Naive::default();
    let light = Rc::new(Light::new(SOURCES as usize));
    let mut posted: Posted<u64> = Posted::with(light.clone());
    let mut unexpected: Unexpected<u64> = Unexpected::with(light.clone());
    let mut receive_slots: Vec<(Result<Slot, &'static Post>, u64)> = Vec::new();
    let mut message_slots: Vec<(Slot, u64)> = Vec::new();
    for (id, step) in (0u64..).zip(steps) {
        match step.clone() {
            Step::LightMany(..) => unreachable!("they were spread"),
            Step::Receive(s) | Step::Light(s) | Step::Mprobe(s) => {
                let want = naive.unexpected.iter().position(|(m, _)| accepts(s, *m));
                let want = want.map(|i| naive.unexpected.remove(i));
                if matches!(step, Step::Light(_)) {
                    // A receive that does not want what it sees leaves it.
                    let seen = |e, t, v: &mut u64| (v.is_multiple_of(3)).then_some((e, t, *v));
                    let got = unexpected.take_if(s.0, s.1, s.2, seen);
                    let wanted = want.filter(|(_, v)| v.is_multiple_of(3));
                    prop_assert_eq!(got, wanted.map(|((e, _, t), v)| (e, t, v)));
                    if got.is_some() {
                        continue;
                    }
                }
                let got = unexpected.take(s.0, s.1, s.2);
                prop_assert_eq!(got, want.map(|((e, _, t), v)| (e, t, v)));
                if got.is_none() && !matches!(step, Step::Mprobe(_)) {
                    naive.posted.push((s, id));
                    let slot = match step {
                        Step::Light(s) => post_light(&light, *s, id),
                        _ => None,
                    };
                    let slot = slot.map_or_else(|| Ok(posted.post(s.0, s.1, s.2, id)), Err);
                    receive_slots.push((slot, id));
                }
            }
            Step::Arrive(m) | Step::ArriveShort(m, _) => {
                let all = naive.posted.iter().filter(|(s, _)| accepts(*s, m));
                let all: Vec<u64> = all.map(|(_, v)| *v).collect();
                prop_assert_eq!(posted.accepting(m, |v| *v, |p| p.cookie().0), all);
                let want = naive.posted.iter().position(|(s, _)| accepts(*s, m));
                let want = want.map(|i| naive.posted.remove(i).1);
                let at_once = match step {
                    Step::ArriveShort(_, len) => posted.take_at_once(m.0, m.1, m.2, *len),
                    _ => None,
                };
                if let Some(post) = at_once {
                    post.finish(m.2, 1);
                    prop_assert!(post.is_finished());
                    prop_assert_eq!((post.parts(), post.origin()), (0, (-7, m.2)));
                    prop_assert_eq!(Some(post.cookie().0), want);
                    continue;
                }
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
                let got = match slot {
                    Err(post) => {
                        let this = |source, p: &Post| {
                            let selector = (Source::From(source), p.context(), p.selector());
                            std::ptr::eq(p, post) && want.is_some_and(|(s, _)| s == selector)
                        };
                        let taken = posted.take_light_where(this);
                        taken.map(|(_, post)| post.cookie().0)
                    }
                    Ok(slot) if n % 2 == 0 => posted.remove(slot),
                    Ok(_) => posted.take_where(|from, context, tag, v| {
                        *v == id && want.is_some_and(|(s, _)| s == (from, context, tag))
                    }),
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
        for (row, source) in light.rows().iter().zip(0..) {
            let mut left = naive
                .unexpected
                .iter()
                .filter(|(m, _)| m.0 == Endpoint(source));
            let only = |(from, _, _): Selector| from == Source::From(Endpoint(source));
            let waits = naive.posted.iter().any(|(s, _)| only(*s));
            if !waits && left.clone().next().is_none() {
                prop_assert!(row.is_clear(Context(0), TagSel::Any));
            }
            let opens =
                |m: Message| row.is_open(m.1, TagSel::Exact(m.2)) || row.is_open(m.1, TagSel::Any);
            prop_assert!(!left.any(|(m, _)| opens(*m)));
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

/// What may end at once is only what comes first, has room and nobody waits to be told of.
#[test]
fn at_once_is_not_out_of_turn() {
    let light = Rc::new(Light::new(1));
    let mut posted: Posted<u64> = Posted::with(light.clone());
    let (source, context) = (Source::From(Endpoint(0)), Context(3));
    let message = |posted: &Posted<u64>, len| posted.take_at_once(Endpoint(0), context, 5, len);
    posted.post(Source::Any, context, TagSel::Any, 1);
    let post = post_light(&light, (source, context, TagSel::Exact(5)), 2).unwrap();
    assert!(has_ordinary(light.ordinary()) && message(&posted, 1).is_none());
    assert_eq!(posted.take(Endpoint(0), context, 5), Some(1));
    assert!(!has_ordinary(light.ordinary()) && message(&posted, post.capacity() + 1).is_none());
    post.tell();
    assert!(message(&posted, 1).is_none());
    assert_eq!(posted.take(Endpoint(0), context, 5), Some(2));
    let third = post_light(&light, (source, context, TagSel::Exact(6)), 3).unwrap();
    assert_eq!(posted.take(Endpoint(0), context, 6), Some(3));
    third.part_ended();
    assert!(
        third.parts() == 0 && !third.is_finished(),
        "told by a completion"
    );
    let again = post_light(&light, (source, context, TagSel::Any), 3).unwrap();
    assert_eq!(
        message(&posted, 1).map(|p| p.cookie()),
        Some(again.cookie())
    );
    assert!(light.rows()[0].is_clear(context, TagSel::Any));
}

/// A list is as long as it gets while messages come in order. Where they don't it is moved to bins, its receives end as they would
/// have, and the row is open again when they have.
#[test]
fn lists_are_kept_while_messages_come_in_order() {
    const MANY: u64 = 1000;
    let light = Rc::new(Light::new(1));
    let posted: Posted<u64> = Posted::with(light.clone());
    let tag = |id: u64| id as i32;
    let post = |ids: std::ops::Range<u64>| {
        ids.map(|id| {
            let selector = (
                Source::From(Endpoint(0)),
                Context(0),
                TagSel::Exact(tag(id)),
            );
            post_light(&light, selector, id)
        })
        .filter(Option::is_some)
        .count() as u64
    };
    let take = |id| {
        let post = posted.take_at_once(Endpoint(0), Context(0), tag(id), 1);
        assert_eq!(post.unwrap().cookie().0, id);
    };
    let is_open = || light.rows()[0].is_open(Context(0), TagSel::Exact(1));
    assert_eq!(post(0..MANY), MANY);
    (0..MANY - 1).for_each(take);
    assert_eq!(post(0..MANY - 1), MANY - 1);
    assert!(is_open());
    (0..MANY - 1).rev().for_each(|id| {
        take(id);
        assert!(!is_open() && post(0..1) == 0);
    });
    take(MANY - 1);
    assert!(is_open() && posted.is_empty());
    assert_eq!(post(0..1), 1);
}

/// An unexpected message bars receives that might be for it, not others; a failed source bars all, for ever.
#[test]
fn bars_are_for_some() {
    let light = Rc::new(Light::new(2));
    let mut unexpected: Unexpected<u64> = Unexpected::with(light.clone());
    let (row, exact) = (&light.rows()[1], TagSel::Exact);
    let slot = unexpected.arrive(Endpoint(1), Context(4), 9, 0);
    assert!(!row.is_open(Context(4), exact(9)) && !row.is_open(Context(6), TagSel::Any));
    assert!(row.is_open(Context(4), exact(8)) && row.is_clear(Context(5), exact(9)));
    assert!(
        !row.is_open(Context(0), exact(9)),
        "who knows that it is even asks for any"
    );
    assert!(light.rows()[0].is_clear(Context(4), TagSel::Any));
    unexpected.remove(slot).unwrap();
    assert!(row.is_clear(Context(4), exact(9)));
    light.bar_all(Endpoint(1));
    let slot = unexpected.arrive(Endpoint(1), Context(4), 9, 0);
    unexpected.remove(slot).unwrap();
    assert!(!row.is_open(Context(4), exact(8)));
}

/// The sources that receives name, of both kinds.
#[test]
fn awaited_sources() {
    let light = Rc::new(Light::new(4));
    let mut posted: Posted<u64> = Posted::with(light.clone());
    let (context, exact) = (Context(1), TagSel::Exact);
    posted.post(Source::Any, context, exact(1), 0);
    assert!(posted.sources().is_empty());
    let slot = posted.post(Source::From(Endpoint(3)), context, exact(1), 1);
    posted.post(Source::From(Endpoint(3)), context, exact(2), 2);
    let post: &'static Post = Box::leak(Box::default());
    light.rows()[2].post(post, (2, context, exact(1)), light.ordinary());
    assert!(posted.sources().into_iter().eq([Endpoint(2), Endpoint(3)]));
    posted.remove(slot);
    assert!(posted.sources().contains(&Endpoint(3)));
    posted.take(Endpoint(3), context, 2);
    assert!(!posted.sources().contains(&Endpoint(3)));
}

/// Probes that named a source in vain are told of once.
#[test]
fn awaited_by_probes() {
    let mut queues = Queues::with(&Rc::new(Light::new(4)));
    let receive = Receive {
        data: layout::Data::bytes(UserBuf::NULL, 0),
        cookie: Cookie(1),
    };
    let (context, tag) = (Context(1), TagSel::Any);
    queues
        .posted
        .post(Source::From(Endpoint(2)), context, tag, receive);
    for from in [Source::From(Endpoint(1)), Source::Any] {
        queues.note_vain_probe(from);
    }
    // No process has that number.
    queues.note_vain_probe(Source::From(Endpoint(4)));
    let told = queues.take_awaited();
    assert!(told.into_iter().eq([Endpoint(1), Endpoint(2)]));
    assert!(queues.take_awaited().into_iter().eq([Endpoint(2)]));
}

/// Matching the last of many must not walk over the others: 100,000 entries, taken from the back.
#[test]
fn depth_costs_nothing() {
    let n = 100_000;
    let light = Rc::new(Light::new(1));
    let mut posted: Posted<u64> = Posted::with(light.clone());
    let mut unexpected = Unexpected::new();
    for t in 0..n {
        let selector = (Source::From(Endpoint(0)), Context(0), TagSel::Exact(t));
        post_light(&light, selector, t as u64).unwrap();
        posted.post(Source::Any, Context(1), TagSel::Exact(t), t as u64);
        unexpected.arrive(Endpoint(3), Context(1), t, t);
    }
    for t in (0..n).rev() {
        assert_eq!(posted.take(Endpoint(7), Context(1), t), Some(t as u64));
        assert_eq!(posted.take(Endpoint(0), Context(0), t), Some(t as u64));
        let got = unexpected.take(Source::Any, Context(1), TagSel::Exact(t));
        assert_eq!(got, Some((Endpoint(3), t, t)));
    }
    assert!(posted.is_empty() && unexpected.is_empty());
}
