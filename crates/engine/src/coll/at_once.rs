//! Collectives to which this rank only gives: those of a broadcast's root, and of who is not the root of a gather or of a short reduction.
//!
//! Where the transport takes all of it within the call, there is nothing to wait for: no run, no memory and no request of its own is made, which takes
//! longer than sending some KiB does. What it doesn't take is sent as in any other collective.
//!
//! Invariant: nodes are sent in the order of their numbers, and the first that does not leave is the first of the run. The request is the one that sends share which are
//! over, so `MPI_Cancel`, which no program may call here, is an error only if something was left.
//!
//! Who calls it: `start_collective`, so not persistent ones, which have made all that before.

use cad::bcast::LENT_MIN;
use mtmi::{Context, Endpoint, Transport};

use super::{Call, Tags};
use crate::state::Engine;

impl Engine {
    /// Sends what a graph of nothing but sends has to send, from its first node on, as long as it leaves at once: how many nodes did. The collective
    /// has begun then: the call's tags are those of its messages.
    pub(super) fn send_all_at_once(&self, call: &mut Call) -> usize {
        if !call.graph.only_sends() || call.own.is_some() {
            return 0;
        }
        let (tag, mask) = call.tags.resolve(&call.comm);
        call.tags = Tags::Begun(tag, mask);
        let context = Context(call.comm.context() + 1);
        let leaves = |node: &&cad::Node| {
            let at = call.base_of(node.src.buf, |_| unreachable!("it has no temporaries"));
            let data = call.data_at(at.offset(node.src.offset), &node.src);
            if call.graph.lends() && data.len() >= LENT_MIN {
                return false;
            }
            let to = Endpoint(call.group.endpoint(node.peer));
            let tag = tag | node.tag as i32 & mask;
            self.transport(|t| t.send_at_once(to, context, tag, data))
        };
        let sent = call.graph.nodes().iter().take_while(leaves).count();
        // To send may have been to hear something.
        self.wake_waiters();
        sent
    }
}
