//! Which messages of a persistent collective are bound to slots ([`crate::bound`]).
//!
//! Partner, context, tag and length of each are known when the collective is initialised, and no other receive accepts them. Bound are those
//! that
//! * are longer than anything that ends unmatched. A shorter one leaves at once, with or without its receive: in a slot it
//!   would wait for the other process, and be more expensive than with its match (the figures are in [`crate::bound`]);
//! * are alone with their tag between their two processes, so that one slot serves each start with one message;
//! * are not lent: those are announced with where they lie, and need their sender no more, who would have to deliver them to a slot;
//! * are of a collective with no more than [`MOST`] such: all streams of a process are looked through at each start and at progress.
//!
//! What a long one gains is the way there and back in which it would ask for its receive. That is known to the sender from the moment
//! in which the receiver starts the collective (or, where a node comes before, reaches it), in one word, as the memory stays the same.
//! Measured between two hosts, 50 ms one way and 1 Gbit/s, all-to-all of 300 000 and of 1 000 000 bytes from each of two ranks, medians of 40: 186
//! and 157 ms by `MPI_Ialltoall`, 108 and 114 ms persistent.
//!
//! Non-blocking and blocking collectives have another tag in each call, so none of their messages has a stream in which
//! another matched before it.
//!
//! Invariants: both ends of a message decide alike as long as the program is correct, but for those of an alltoallv of which one shares with others, and the other doesn't. If they
//! don't, the stream stays ordinary, as it takes both to bind it. What one process says of its streams concerns only the collectives that it takes part in.

use std::collections::HashMap;

use cad::{Kind, Node, NodeId};

use super::Running;

/// Most messages of one collective that are bound.
const MOST: usize = 64;

/// The messages of a persistent collective that may be bound.
pub(super) struct Streams {
    /// For each node whether its message is one.
    nodes: Vec<bool>,
    started: bool,
    /// The last start ended well: all its messages have matched.
    settled: bool,
}

impl Streams {
    /// Whether a node's message may be bound; and then, whether the last one has matched.
    pub fn settled(&self, node: NodeId) -> Option<bool> {
        self.nodes[node as usize].then_some(self.settled)
    }

    /// It is started; `well`: it has not failed before.
    pub fn start(&mut self, well: bool) {
        self.settled = self.started && well;
        self.started = true;
    }
}

impl Running {
    /// Those of its messages that are longer than `least` bytes and may be bound, if there are any. `me`: this process.
    pub(super) fn streams_of(&self, me: u32, least: u64) -> Option<Streams> {
        if self.call.graph.lends() || self.call.graph.shares() {
            return None;
        }
        let long = |node: &Node| match node.kind {
            Kind::Send => self.data(&node.src).len() > least,
            Kind::Recv => self.data(&node.dst).len() > least,
            Kind::Calc | Kind::Copy => false,
        };
        let other = |node: &Node| self.call.group.endpoint(node.peer) != me;
        let nodes = select(self.call.graph.nodes(), |node| long(node) && other(node))?;
        Some(Streams {
            nodes,
            started: false,
            settled: false,
        })
    }
}

/// The messages that `fit` and are alone with their tag, if there are any and not too many.
fn select(nodes: &[Node], fits: impl Fn(&Node) -> bool) -> Option<Vec<bool>> {
    let is_message = |node: &&Node| matches!(node.kind, Kind::Send | Kind::Recv);
    let stream = |node: &Node| (node.kind == Kind::Send, node.peer, node.tag);
    let mut uses: HashMap<_, u32> = HashMap::new();
    for node in nodes.iter().filter(is_message) {
        *uses.entry(stream(node)).or_default() += 1;
    }
    let selected = |node: &Node| is_message(&node) && uses[&stream(node)] == 1 && fits(node);
    let selected: Vec<bool> = nodes.iter().map(selected).collect();
    let count = selected.iter().filter(|&&s| s).count();
    (1..=MOST).contains(&count).then_some(selected)
}

#[cfg(test)]
mod tests {
    use super::*;
    use cad::{BufId, Builder, Region, Team};

    /// A graph that sends messages of these lengths with these tags.
    fn sends(messages: &[(u64, u32)]) -> Vec<Node> {
        let mut builder = Builder::new(Team::new(0, 2));
        for &(bytes, tag) in messages {
            builder.send(1, tag, Region::bytes(BufId::Send, 0, bytes), &[]);
        }
        builder.finish().nodes().to_vec()
    }

    fn chosen(messages: &[(u64, u32)]) -> Option<Vec<u32>> {
        let nodes = sends(messages);
        let selected = select(&nodes, |node| node.src.count > 100)?;
        let tags = nodes.iter().zip(selected).filter(|(_, s)| *s);
        Some(tags.map(|(node, _)| node.tag).collect())
    }

    #[test]
    fn long_messages_that_are_alone_with_their_tag_are_bound() {
        assert_eq!(chosen(&[(101, 3), (100, 4), (200, 5)]), Some(vec![3, 5]));
        assert_eq!(chosen(&[(101, 3), (10, 3), (200, 5)]), Some(vec![5]));
        assert_eq!(chosen(&[(100, 3)]), None);
        assert_eq!(chosen(&[]), None);
    }

    #[test]
    fn of_a_collective_with_many_none_is() {
        let many: Vec<_> = (0..=MOST as u32).map(|tag| (101, tag)).collect();
        assert_eq!(chosen(&many[1..]).map(|tags| tags.len()), Some(MOST));
        assert_eq!(chosen(&many), None);
    }

    #[test]
    fn a_start_is_settled_when_the_one_before_ended_well() {
        let mut streams = Streams {
            nodes: vec![true, false],
            started: false,
            settled: false,
        };
        let mut start = |well| {
            streams.start(well);
            (streams.settled(0), streams.settled(1))
        };
        assert_eq!(start(true), (Some(false), None));
        assert_eq!(start(true), (Some(true), None));
        assert_eq!(start(false), (Some(false), None));
        assert_eq!(start(true), (Some(true), None));
    }
}
