//! Collectives to which this rank only gives: a broadcast's root, who is no root of a gather or a short reduction.
//!
//! Where the transport takes all of it within the call, there is nothing to wait for: no run, no memory and no request of its own is made, which takes
//! longer than sending some KiB does. What it doesn't take is sent as in any other collective.
//!
//! Who calls it: `start_collective`, so not persistent ones, which have made all that before.

use cad::bcast::LENT_MIN;
use mtmi::{Context, Endpoint, Transport};

use super::{Call, Tags};
use crate::state::Engine;

impl Engine {
    /// Sends what a graph of nothing but sends sends, from its first node on, as long as it leaves at once: how many nodes did. Of these the call's
    /// tags keep the number.
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
        call.graph.nodes().iter().take_while(leaves).count()
    }
}
