//! Simulated jobs whose streams are collectives': one request at either end of each, no wildcards, no probes.

use mtmi::Context;
use proptest::prelude::*;
use testkit::Manner;

use super::tests::{Job, Step, bound_pair, manner, play, play_step};

/// The context of a collective.
const CONTEXT: Context = Context(5);
/// Requests of different streams.
const FIRST: usize = 0;
const SECOND: usize = 2;
const TAG: i32 = 0;

fn step() -> impl Strategy<Value = Step> {
    let which = || prop_oneof![3 => Just(FIRST), 1 => Just(SECOND)];
    prop_oneof![
        12 => which().prop_map(Step::Start),
        12 => which().prop_map(Step::Await),
        1 => which().prop_map(Step::CancelSend),
        1 => which().prop_map(Step::CancelReceive),
        1 => which().prop_map(Step::Free),
        14 => (0..2usize).prop_map(Step::Progress),
        8 => (0..2usize).prop_map(Step::Look),
        2 => Just(Step::Rest),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// The n-th message that is not cancelled goes to the n-th receive that is not, in any interleaving.
    #[test]
    fn messages_of_collectives_come_in_order(
        manner in manner(),
        steps in prop::collection::vec(step(), 1..200),
    ) {
        play(manner, CONTEXT, &steps).check();
    }
}

fn after(manner: Manner, steps: &[Step]) -> Job {
    let (mut job, sends, receives) = bound_pair(manner, CONTEXT);
    for &step in steps {
        play_step(&mut job, &sends, &receives, step);
    }
    job.rest();
    job.check();
    job
}

const MANNERS: [Manner; 3] = [Manner::SHARED, Manner::NETWORK, Manner::SLOW];

/// Nothing can receive both, so no order holds between them.
#[test]
fn a_message_that_waits_for_its_receive_holds_up_no_other_stream() {
    for manner in MANNERS {
        let steps = [
            Step::Start(FIRST),
            Step::Start(SECOND),
            Step::Await(SECOND),
            Step::Rest,
        ];
        let job = after(manner, &steps);
        assert!(job.has_received_all());
        assert!(job.is_bound(TAG));
    }
}

/// The receive is in the slot when the sender frees its request: the next message comes in the ordinary way.
#[test]
fn a_receive_that_is_taken_back_is_posted_again() {
    for manner in MANNERS {
        let steps = [
            Step::Await(FIRST),
            Step::Free(FIRST),
            Step::Rest,
            Step::Start(FIRST),
            Step::Rest,
        ];
        let job = after(manner, &steps);
        assert!(job.has_received_all());
        assert!(!job.is_bound(TAG));
    }
}

/// Whether it is in the slot, on the way back or posted again.
#[test]
fn a_receive_that_is_taken_back_can_be_cancelled() {
    for manner in MANNERS {
        for looks in 0..6 {
            let mut steps = vec![Step::Await(FIRST), Step::Free(FIRST)];
            for look in 0..looks {
                steps.push(Step::Look(look % 2));
            }
            steps.extend([Step::CancelReceive(FIRST), Step::Rest]);
            steps.extend([Step::Await(FIRST), Step::Start(FIRST), Step::Rest]);
            let job = after(manner, &steps);
            assert!(job.has_received_all());
        }
    }
}
