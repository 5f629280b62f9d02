//! Collectives to which this rank only gives: those of a broadcast's root, and of who is not the root of a gather, or of a reduction that is not long.
//!
//! Where the transport takes all of it within the call, there is nothing to wait for: no run, no memory and no request of its own is made, which takes
//! longer than sending some KiB does. What it doesn't take is sent as in any other collective.
//!
//! Invariant: nodes are sent in the order of their numbers, and the first that does not leave is the first of the run. The request is the one that sends share which are
//! over, so `MPI_Cancel`, which no program may call here, is an error only if something was left.
//!
//! Who calls it: `start_collective`, so not persistent ones, which have made all that before.

use cad::Node;
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
        let context = call.comm.context() + 1;
        let same = |one: &Node, other: &Node| one.src == other.src && one.tag == other.tag;
        let mut sent = 0;
        for nodes in call.graph.nodes().chunk_by(same) {
            let left = self.send_same_at_once(call, Context(context), (tag, mask), nodes);
            sent += left;
            if left < nodes.len() {
                break;
            }
        }
        // To send may have been to hear something.
        self.wake_waiters();
        sent
    }

    /// The same of some nodes, at least one, that send the same: together if the transport has a way for that and all of them, else one at a time.
    fn send_same_at_once(
        &self,
        call: &Call,
        context: Context,
        (tag, mask): (i32, i32),
        nodes: &[Node],
    ) -> usize {
        let node = &nodes[0];
        let at = call.base_of(node.src.buf, |_| unreachable!("it has no temporaries"));
        let data = call.data_at(at.offset(node.src.offset), &node.src);
        let tag = tag | node.tag as i32 & mask;
        let mut to = nodes
            .iter()
            .map(|node| Endpoint(call.group.endpoint(node.peer)));
        self.transport(|t| {
            if nodes.len() > 1 && t.send_to_all(to.clone(), context, tag, &data) {
                return nodes.len();
            }
            if call.is_lent(data.len()) {
                return 0;
            }
            let stays = |to| !t.send_at_once(to, context, tag, data.clone());
            to.position(stays).unwrap_or(nodes.len())
        })
    }
}
