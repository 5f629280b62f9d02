//! The state of one execution of a graph.
//!
//! A run does no I/O. Its owner takes ready nodes with [`Run::next_ready`], starts them, and says
//! [`Run::complete`] when one has finished; the graph itself is only read, so one cached graph can
//! serve many runs. Invariant: a node is handed out once, after all nodes before it have completed.

use std::cell::Cell;

use crate::graph::{Graph, NodeId};

/// One execution of one graph. Two arrays in one allocation, reused by [`Run::reset`].
#[derive(Debug, Default)]
pub struct Run {
    /// First half: predecessors each node still waits for. Second half: the queue of ready nodes
    /// in the order they became ready (each enters once, so it never wraps).
    words: Vec<u32>,
    nodes: u32,
    head: u32,
    tail: u32,
    completed: u32,
    /// So many of the queue have completed, from its first place on: how far [`Run::oldest`] has come.
    past: Cell<u32>,
}

/// Stands in the place of the predecessors of a node that has completed.
const COMPLETED: u32 = u32::MAX;

impl Run {
    /// A run of `graph` at its start.
    pub fn new(graph: &Graph) -> Run {
        let mut run = Run::default();
        run.reset(graph);
        run
    }

    /// Starts over, with the same or another graph, keeping the allocation where that has as many nodes.
    pub fn reset(&mut self, graph: &Graph) {
        let indegree = graph.indegree();
        let nodes = indegree.len();
        self.nodes = nodes as u32;
        (self.head, self.tail, self.completed) = (0, 0, 0);
        self.past.set(0);
        if self.words.len() != 2 * nodes {
            self.words = vec![0; 2 * nodes];
        }
        self.words[..nodes].copy_from_slice(indegree);
        for (node, &n) in indegree.iter().enumerate() {
            if n == 0 {
                self.push(node as NodeId);
            }
        }
    }

    fn push(&mut self, node: NodeId) {
        self.words[(self.nodes + self.tail) as usize] = node;
        self.tail += 1;
    }

    /// The next node to start, in the order in which nodes became ready.
    pub fn next_ready(&mut self) -> Option<NodeId> {
        if self.head == self.tail {
            return None;
        }
        let node = self.words[(self.nodes + self.head) as usize];
        self.head += 1;
        Some(node)
    }

    /// What [`Run::next_ready`] would hand out if nothing completed in between.
    pub fn ready(&self) -> &[NodeId] {
        &self.words[self.nodes as usize..][self.head as usize..self.tail as usize]
    }

    /// A node that [`Run::next_ready`] handed out has finished; its successors may become ready.
    pub fn complete(&mut self, graph: &Graph, node: NodeId) {
        debug_assert_ne!(self.words[node as usize], COMPLETED, "once");
        self.completed += 1;
        self.words[node as usize] = COMPLETED;
        for &s in graph.successors(node) {
            let left = &mut self.words[s as usize];
            *left -= 1;
            if *left == 0 {
                self.push(s);
            }
        }
    }

    /// Whether END is reached: every node has completed.
    pub fn is_done(&self) -> bool {
        self.completed == self.nodes
    }

    /// The node that was handed out first of those that have not completed and that `fits`. To ask again and again costs
    /// no more than what completes in between, and those behind the first that has not completed if that does not fit.
    pub fn oldest(&self, fits: impl Fn(NodeId) -> bool) -> Option<NodeId> {
        let queue = &self.words[self.nodes as usize..][..self.head as usize];
        let pending = |node: &NodeId| self.words[*node as usize] != COMPLETED;
        let over = queue[self.past.get() as usize..]
            .iter()
            .take_while(|node| !pending(node));
        let past = self.past.get() as usize + over.count();
        let mut rest = queue[past..].iter().copied();
        self.past.set(past as u32);
        rest.find(|node| pending(node) && fits(*node))
    }

    /// Nodes handed out and not completed yet.
    pub fn in_flight(&self) -> u32 {
        self.head - self.completed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BufId, Builder, Region, Team};

    #[test]
    fn the_oldest_is_the_first_that_has_not_completed() {
        let mut builder = Builder::new(Team::new(0, 4));
        let data = |at| Region::bytes(BufId::Recv, at, 1);
        let first = builder.recv(1, 0, data(0), &[]);
        let second = builder.recv(2, 0, data(1), &[]);
        let behind = builder.send(3, 0, data(0), &[first]);
        let graph = builder.finish();
        let mut run = Run::new(&graph);
        assert_eq!(run.oldest(|_| true), None, "nothing has begun");
        while run.next_ready().is_some() {}
        assert_eq!(run.oldest(|_| true), Some(first));
        assert_eq!(run.oldest(|node| node != first), Some(second));
        run.complete(&graph, second);
        assert_eq!(run.oldest(|_| true), Some(first));
        run.complete(&graph, first);
        assert_eq!(run.oldest(|_| true), None, "what is ready has not begun");
        assert_eq!(run.next_ready(), Some(behind));
        assert_eq!(run.oldest(|_| true), Some(behind));
        run.complete(&graph, behind);
        assert!(run.is_done());
        assert_eq!(run.oldest(|_| true), None);
        run.reset(&graph);
        run.next_ready();
        assert_eq!(run.oldest(|_| true), Some(first));
    }
}
