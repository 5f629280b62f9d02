//! The state of one execution of a graph.
//!
//! A run does no I/O. Its owner takes ready nodes with [`Run::next_ready`], starts them, and says
//! [`Run::complete`] when one has finished; the graph itself is only read, so one cached graph can
//! serve many runs. Invariant: a node is handed out once, after all nodes before it have completed.

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
}

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

    /// A node that [`Run::next_ready`] handed out has finished; its successors may become ready.
    pub fn complete(&mut self, graph: &Graph, node: NodeId) {
        self.completed += 1;
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

    /// Nodes handed out and not completed yet.
    pub fn in_flight(&self) -> u32 {
        self.head - self.completed
    }
}
