//! Neighbourhood collectives: each process sends a block to each of its destinations and receives one from each of its
//! sources, which the caller lists.
//!
//! All messages start at once. Nothing is known of the other processes' neighbours, so that nothing can be forwarded, and
//! the exchanges can't be put in an order that all agree on. A block without data is no message: the two ends of an
//! edge know equal lengths.

use crate::alltoall::BlockW;
use crate::graph::{BufId, Builder, Graph, MAX_TAG, NodeId, Region, START, TypeSlot};
use crate::shape::{Block, Part, Shape, Team};
use std::collections::HashMap;

/// A message to, or from, a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Edge {
    /// The neighbour, which may be this process.
    pub peer: u32,
    /// Tells the messages between the two apart; both ends say the same.
    pub tag: u32,
}

/// Numbers the messages between this process and each neighbour in the order of the list: so the first to a process
/// is the first that it receives from here. At most [`MAX_TAG`] + 1 have numbers of their own; more come round again.
pub fn in_order(neighbors: &[u32]) -> Vec<Option<Edge>> {
    let mut seen: HashMap<u32, u32> = HashMap::new();
    let number = |&peer: &u32| {
        let count = seen.entry(peer).or_default();
        let tag = *count & MAX_TAG;
        *count = count.wrapping_add(1);
        Some(Edge { peer, tag })
    };
    neighbors.iter().map(number).collect()
}

/// The data for, or from, each neighbour, in the order of the neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocks<'a> {
    /// One block for all.
    Same(Part),
    /// Blocks of one length, side by side.
    Equal(Part),
    /// A block for each, of elements of one type.
    Each(&'a [Block], Shape),
    /// A block for each, with a type for each.
    Typed(&'a [BlockW]),
}

/// Parameters of a neighbourhood collective. A neighbour that is `None` stands for nobody; its block stays as it is.
#[derive(Clone, Copy, Debug)]
pub struct Params<'a> {
    /// This process.
    pub team: Team,
    /// Whom it sends to.
    pub destinations: &'a [Option<Edge>],
    /// What it sends.
    pub send: Blocks<'a>,
    /// Whom it receives from.
    pub sources: &'a [Option<Edge>],
    /// What it receives.
    pub recv: Blocks<'a>,
}

/// One side of the exchange.
struct Side {
    buf: BufId,
    one_type: TypeSlot,
    type_of: fn(u32) -> TypeSlot,
}

const SEND: Side = Side {
    buf: BufId::Send,
    one_type: TypeSlot::Send,
    type_of: TypeSlot::SendOf,
};
const RECV: Side = Side {
    buf: BufId::Recv,
    one_type: TypeSlot::Recv,
    type_of: TypeSlot::RecvOf,
};

impl Blocks<'_> {
    /// Block `i`, and its bytes of data.
    fn region(&self, i: usize, side: &Side) -> (Region, u64) {
        match self {
            Blocks::Same(part) => (part.region(side.buf, side.one_type, 0, 1), part.bytes()),
            Blocks::Equal(part) => (
                part.region(side.buf, side.one_type, i as u32, 1),
                part.bytes(),
            ),
            Blocks::Each(list, ty) => (
                list[i].region(side.buf, side.one_type, ty),
                ty.bytes(list[i].count),
            ),
            Blocks::Typed(list) => (
                list[i].region(side.buf, (side.type_of)(i as u32)),
                list[i].count * list[i].size,
            ),
        }
    }

    /// Tells the builder what the buffer of `neighbors` blocks holds.
    fn declare(&self, neighbors: usize, mut hold: impl FnMut(Shape, i64, u64)) {
        match self {
            Blocks::Same(part) => hold(part.ty, 0, part.count),
            Blocks::Equal(part) => hold(part.ty, 0, part.count * neighbors as u64),
            Blocks::Each(list, ty) => list.iter().for_each(|b| hold(*ty, b.disp, b.count)),
            Blocks::Typed(_) => {}
        }
    }
}

/// The graph: the receives first, so that what arrives early finds its place.
pub fn graph(p: &Params) -> Graph {
    let mut b = Builder::new(p.team);
    b.types(p.sources.len().max(p.destinations.len()) as u32);
    p.send.declare(p.destinations.len(), |ty, disp, count| {
        b.send_block(ty, disp, count)
    });
    p.recv.declare(p.sources.len(), |ty, disp, count| {
        b.recv_block(ty, disp, count)
    });
    exchange(p.sources, &p.recv, &RECV, |edge, region, after| {
        b.recv(edge.peer, edge.tag, region, &[after])
    });
    exchange(p.destinations, &p.send, &SEND, |edge, region, after| {
        b.send(edge.peer, edge.tag, region, &[after])
    });
    b.finish()
}

/// Makes a node for each block with data. Messages that have a tag in common are in order.
fn exchange(
    neighbors: &[Option<Edge>],
    blocks: &Blocks,
    side: &Side,
    mut message: impl FnMut(Edge, Region, NodeId) -> NodeId,
) {
    let mut latest: HashMap<Edge, NodeId> = HashMap::new();
    for (i, edge) in neighbors.iter().enumerate() {
        let Some(edge) = *edge else { continue };
        let (region, bytes) = blocks.region(i, side);
        if bytes > 0 {
            let before = latest.get(&edge).copied().unwrap_or(START);
            latest.insert(edge, message(edge, region, before));
        }
    }
}
