//! The order of nodes: the graph's edges, and the order of messages on each connection.

use crate::Refused;
use crate::lower::Work;
use cad::{Graph, Kind, NodeId};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// Nodes in order.
#[derive(Debug)]
pub(crate) struct Order {
    /// All nodes, each after those before it.
    pub sequence: Vec<NodeId>,
    /// For each node, those of its predecessors in the graph.
    pub before: Vec<Vec<NodeId>>,
    /// For each node, the message before it on the same connection in the same direction.
    pub stream: Vec<Option<NodeId>>,
}

/// All nodes, each after those in `before`, else in order of their ids; `None` if there is a cycle.
fn sequence(before: &[Vec<NodeId>], stream: &[Option<NodeId>]) -> Option<Vec<NodeId>> {
    let n = before.len();
    let mut after = vec![Vec::new(); n];
    let mut left = vec![0u32; n];
    for id in 0..n {
        for &b in before[id].iter().chain(&stream[id]) {
            after[b as usize].push(id as NodeId);
            left[id] += 1;
        }
    }
    let mut ready: BinaryHeap<Reverse<NodeId>> = (0..n as NodeId)
        .filter(|&i| left[i as usize] == 0)
        .map(Reverse)
        .collect();
    let mut out = Vec::with_capacity(n);
    while let Some(Reverse(id)) = ready.pop() {
        out.push(id);
        for &a in &after[id as usize] {
            left[a as usize] -= 1;
            if left[a as usize] == 0 {
                ready.push(Reverse(a));
            }
        }
    }
    (out.len() == n).then_some(out)
}

/// For each node, the place at which the graph's edges put it, and its predecessors.
pub(crate) fn places(graph: &Graph) -> Option<(Vec<u32>, Vec<Vec<NodeId>>)> {
    let n = graph.nodes().len();
    let mut before = vec![Vec::new(); n];
    for id in 0..n as NodeId {
        for &s in graph.successors(id) {
            before[s as usize].push(id);
        }
    }
    let mut place = vec![0; n];
    for (i, &id) in sequence(&before, &vec![None; n])?.iter().enumerate() {
        place[id as usize] = i as u32;
    }
    Some((place, before))
}

/// Those copies of a `sequence` of nodes, of at least `min` bytes, that have only such before them, in its order.
pub(crate) fn copies_first(
    graph: &Graph,
    sequence: &[NodeId],
    before: &[Vec<NodeId>],
    min: u64,
) -> Vec<NodeId> {
    let is_copy = |id: NodeId| {
        let node = graph.node(id);
        node.kind == Kind::Copy && graph.bytes(&node.dst).is_some_and(|bytes| bytes >= min)
    };
    let mut first = vec![false; before.len()];
    for &id in sequence {
        let waits = before[id as usize].iter().any(|&b| !first[b as usize]);
        first[id as usize] = !waits && is_copy(id);
    }
    let of = |id: &NodeId| first[*id as usize];
    sequence.iter().copied().filter(of).collect()
}

/// The order of a lowered graph; messages of a connection by key, then as the graph orders them.
pub(crate) fn order(graph: &Graph, works: &[Work], keys: Option<&[u32]>) -> Result<Order, Refused> {
    let (place, before) = places(graph).ok_or(Refused::Order)?;
    let key = |id: NodeId| keys.map_or(graph.node(id).tag, |k| k[id as usize]);
    let mut streams: BTreeMap<(u32, bool), Vec<NodeId>> = BTreeMap::new();
    for (id, work) in works.iter().enumerate() {
        if work.is_message() {
            let stream = (work.peer, work.kind == Kind::Send);
            streams.entry(stream).or_default().push(id as NodeId);
        }
    }
    let mut stream = vec![None; works.len()];
    for list in streams.values_mut() {
        list.sort_by_key(|&id| (key(id), place[id as usize]));
        for pair in list.windows(2) {
            stream[pair[1] as usize] = Some(pair[0]);
        }
    }
    Ok(Order {
        sequence: sequence(&before, &stream).ok_or(Refused::Order)?,
        before,
        stream,
    })
}
