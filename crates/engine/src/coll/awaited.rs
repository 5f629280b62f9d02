//! What the hang report says of a collective that is waited for: which it is, and whose message it waits for.
//!
//! Looked up by who has waited for a while, and by nobody else.

use types::{Handle, consts};

use super::ended::Keep;
use super::{Call, Running};
use crate::request::{Body, Request};
use crate::state::Engine;

impl Running {
    /// The rank, in the communicator, of the process to or from which it has had a message under way for longest. Others may be under way too;
    /// graphs have their messages in the order of their rounds, so the first is what the others depend on, here or elsewhere.
    fn awaited(&self) -> Option<u32> {
        let graph = &self.call.graph;
        let is_message = |node| matches!(graph.node(node).kind, cad::Kind::Send | cad::Kind::Recv);
        let node = self.run.oldest(is_message)?;
        // What the program knows is the communicator, of which the graph may have a part only.
        let endpoint = self.call.group.endpoint(graph.node(node).peer);
        self.call.comm.group.rank_of(endpoint)
    }
}

impl Call {
    /// What the program called to have its request.
    fn name(&self, is_persistent: bool) -> &'static str {
        match is_persistent {
            true => self.names.persistent,
            false => self.names.nonblocking,
        }
    }
}

impl Request {
    /// What was called to have this request, if it is no message, and the rank of the peer that it waits for, or a sentinel.
    pub(crate) fn operation(&self) -> Option<(&'static str, i32)> {
        let persistent = self.is_persistent();
        // For whom these wait, the kernel knows.
        let by_kernel = |call: &Call| Some((call.name(persistent), consts::UNDEFINED));
        match &*self.body.borrow() {
            Body::Collective(running) => {
                let peer = running.awaited();
                let peer = peer.map_or(consts::UNDEFINED, |rank| rank as i32);
                Some((running.call.name(persistent), peer))
            }
            Body::Handed(handed) => by_kernel(handed.call()),
            Body::Small(small) => by_kernel(small.call()),
            Body::Generalized(_) => Some(("MPI_Grequest_start", consts::UNDEFINED)),
            Body::Empty | Body::Scratch(_) | Body::Buffered(..) => None,
        }
    }
}

impl Engine {
    /// The rank of the peer that a collective waits for, or a sentinel.
    pub(super) fn awaited_in(&self, handle: Handle) -> i32 {
        let request = self.request(handle).ok();
        let operation = request.and_then(Request::operation);
        operation.map_or(consts::UNDEFINED, |(_, peer)| peer)
    }
}
