//! What leaves at once: collectives to which this rank only gives (a broadcast's root, and who is not the root of a gather, or of a reduction that is not long), and
//! what it gives to several, or one by one where a graph [shares](cad::Graph::shares).
//!
//! Where the transport takes all of it within the call, there is nothing to wait for: no run, no memory and no request of its own is made, which takes
//! longer than sending some KiB does. What it doesn't take is sent as in any other collective.
//!
//! Invariant: nodes are sent in the order of their numbers, and the first that does not leave is the first of the run. The request is the one that sends share which are
//! over, so `MPI_Cancel`, which no program may call here, is an error only if something was left.
//!
//! Who calls it: `start_collective`, so not persistent ones, which have made all that before; and `advance`, where a graph [shares](cad::Graph::shares).

use cad::shared::BESIDE_LOANS;
use cad::{Kind, Node, NodeId};
use layout::Data;
use mtmi::{Context, Endpoint, Transport};

use super::{Call, Running, Tags};
use crate::state::Engine;
use crate::world::Fabric;

/// Whether two nodes send the same.
fn is_same(one: &Node, other: &Node) -> bool {
    one.kind == other.kind && one.src == other.src && one.tag == other.tag
}

/// Sends what nodes send alike to all their peers together, if there are several, or the graph shares, and the transport has a way for that and all of them.
fn share(
    t: &mut Fabric,
    call: &Call,
    nodes: &[Node],
    (context, tag): (Context, i32),
    data: &Data,
) -> bool {
    let to = nodes
        .iter()
        .map(|node| Endpoint(call.group.endpoint(node.peer)));
    let rather_lent = data.len() > BESIDE_LOANS && call.graph.lends() && t.fabric().lends();
    let fits = nodes.len() > 1 || call.graph.shares();
    fits && !rather_lent && t.send_to_all(to, context, tag, data)
}

impl Running {
    /// Those of the next nodes that send the same.
    fn next_alike(&self) -> Option<&[Node]> {
        let (ready, nodes) = (self.run.ready(), self.call.graph.nodes());
        let from = *ready.first()?;
        let first = nodes.get(from as usize).filter(|n| n.kind == Kind::Send)?;
        let alike = |&(id, &next): &(NodeId, &NodeId)| {
            id == next && nodes.get(id as usize).is_some_and(|n| is_same(n, first))
        };
        let count = (from..).zip(ready).take_while(alike).count();
        Some(&nodes[from as usize..][..count])
    }
}

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
        let mut sent = 0;
        for nodes in call.graph.nodes().chunk_by(is_same) {
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
            if share(t, call, nodes, (context, tag), &data) {
                return nodes.len();
            }
            if call.is_lent(data.len()) {
                return 0;
            }
            let stays = |to| !t.send_at_once(to, context, tag, data.clone());
            to.position(stays).unwrap_or(nodes.len())
        })
    }

    /// Sends what comes next in a run of a graph that [shares](cad::Graph::shares), as long as it leaves at once for all who get the same.
    pub(super) fn share_next(&self, running: &mut Running) {
        let context = Context(running.call.comm.context() + 1);
        while let Some(nodes) = running.next_alike() {
            let tag = running.tag | nodes[0].tag as i32 & running.node_tag;
            let data = running.data(&nodes[0].src);
            let shared = self.transport(|t| share(t, &running.call, nodes, (context, tag), &data));
            if !shared {
                return;
            }
            let sent = nodes.len();
            running.skip(sent);
            self.wake_waiters();
        }
    }
}
