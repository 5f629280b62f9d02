//! Virtual topologies: who is whose neighbour on a communicator, and in which order.
//!
//! A topology never changes once made. It knows this process's neighbours, for neighbourhood collectives, with the
//! numbers that tell several messages between two processes apart: both ends come to the same number.

use cad::neighbor::{Edge, in_order};
use types::{Result, consts, fault};

/// A topology, and the neighbours of this process in it.
#[derive(Debug)]
pub struct Topology {
    /// Its kind, with what the program said.
    pub shape: Shape,
    /// Whom this process receives from in neighbourhood collectives; `None` beyond an edge of a grid.
    pub sources: Vec<Option<Edge>>,
    /// Whom it sends to.
    pub destinations: Vec<Option<Edge>>,
}

/// The kinds of topology.
#[derive(Debug)]
pub enum Shape {
    /// A grid.
    Cart(Cart),
    /// A graph that all processes know.
    Graph(Graph),
    /// A graph of which each process knows its own edges.
    Dist(Dist),
}

impl Topology {
    /// A grid, seen by the process with this rank.
    pub fn cart(cart: Cart, rank: u32) -> Topology {
        let place = cart.coords(rank);
        let mut neighbors = Vec::with_capacity(2 * place.len());
        for direction in 0..place.len() {
            neighbors.push(cart.shifted(&place, direction, -1));
            neighbors.push(cart.shifted(&place, direction, 1));
        }
        // What is sent downwards is received from above, also where both are one process.
        let slots = |flip: usize| {
            let slot = |(i, &peer): (usize, &Option<u32>)| {
                let tag = (i ^ flip) as u32 & cad::MAX_TAG;
                peer.map(|peer| Edge { peer, tag })
            };
            neighbors.iter().enumerate().map(slot).collect()
        };
        Topology {
            sources: slots(0),
            destinations: slots(1),
            shape: Shape::Cart(cart),
        }
    }

    /// A graph, seen by the process with this rank.
    pub fn graph(graph: Graph, rank: u32) -> Topology {
        let neighbors = in_order(graph.neighbors(rank));
        Topology {
            sources: neighbors.clone(),
            destinations: neighbors,
            shape: Shape::Graph(graph),
        }
    }

    /// A distributed graph.
    pub fn dist(dist: Dist) -> Topology {
        Topology {
            sources: in_order(&dist.sources),
            destinations: in_order(&dist.destinations),
            shape: Shape::Dist(dist),
        }
    }
}

/// A grid of processes, in row-major order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cart {
    /// Processes in each dimension: at least one, or none of the grid that `MPI_Cart_map` is only asked about.
    pub dims: Vec<u32>,
    /// Which dimensions are rings.
    pub periods: Vec<bool>,
}

impl Cart {
    /// Number of processes: one in a grid without dimensions.
    pub fn size(&self) -> u32 {
        // Where a dimension has none, the others are as large as they like.
        match self.dims.contains(&0) {
            true => 0,
            false => self.dims.iter().product(),
        }
    }

    /// The coordinates of a rank of the grid.
    pub fn coords(&self, rank: u32) -> Vec<u32> {
        let mut rest = rank;
        let mut coords = vec![0; self.dims.len()];
        for (coord, &dim) in coords.iter_mut().zip(&self.dims).rev() {
            *coord = rest % dim;
            rest /= dim;
        }
        coords
    }

    /// The rank at coordinates inside the grid.
    pub fn rank(&self, coords: &[u32]) -> u32 {
        let down = |rank, (&coord, &dim): (&u32, &u32)| rank * dim + coord;
        coords.iter().zip(&self.dims).fold(0, down)
    }

    /// A coordinate brought into a dimension, if the dimension has such a place.
    pub fn wrapped(&self, direction: usize, coord: i64) -> Option<u32> {
        let dim = i64::from(self.dims[direction]);
        if self.periods[direction] {
            return Some(coord.rem_euclid(dim) as u32);
        }
        (0..dim).contains(&coord).then_some(coord as u32)
    }

    /// The rank `by` further in one direction, if there is one.
    pub fn shifted(&self, from: &[u32], direction: usize, by: i64) -> Option<u32> {
        let mut to = from.to_vec();
        to[direction] = self.wrapped(direction, i64::from(from[direction]) + by)?;
        Some(self.rank(&to))
    }
}

/// A graph that all processes know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Graph {
    /// For each node, how many edges it and all before it have.
    pub index: Vec<u32>,
    /// The neighbours of the first node, then those of the next, and so on.
    pub edges: Vec<u32>,
}

impl Graph {
    /// Checks a description: `index` rises, and all edges lead to nodes.
    pub fn check(index: &[i64], edges: impl Fn(usize) -> i64) -> Result<Graph> {
        let mut ends = Vec::with_capacity(index.len());
        let mut last = 0;
        for (node, &end) in index.iter().enumerate() {
            let end = u32::try_from(end)
                .ok()
                .filter(|&e| e >= last && e <= i32::MAX as u32);
            last = end.ok_or_else(|| {
                let text = format!(
                    "entry {node} of index is {}; it must be {last} or more",
                    index[node]
                );
                fault(consts::ERR_ARG, text)
            })?;
            ends.push(last);
        }
        let nodes = index.len();
        let edge = |i: usize| {
            let to = edges(i);
            u32::try_from(to)
                .ok()
                .filter(|&to| (to as usize) < nodes)
                .ok_or_else(|| {
                    let text = format!(
                        "edge {i} leads to node {to}; the graph has {}",
                        crate::comm::counted(nodes as u32, "node")
                    );
                    fault(consts::ERR_RANK, text)
                })
        };
        Ok(Graph {
            edges: (0..last as usize).map(edge).collect::<Result<_>>()?,
            index: ends,
        })
    }

    /// The neighbours of a node.
    pub fn neighbors(&self, node: u32) -> &[u32] {
        let end = self.index[node as usize];
        let start = match node {
            0 => 0,
            _ => self.index[node as usize - 1],
        };
        &self.edges[start as usize..end as usize]
    }
}

/// This process's edges in a distributed graph.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dist {
    /// Processes with an edge to this one.
    pub sources: Vec<u32>,
    /// Processes that this one has an edge to.
    pub destinations: Vec<u32>,
    /// The weights of both, if there are weights.
    pub weights: Option<(Vec<i32>, Vec<i32>)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cart(dims: &[u32], periods: &[bool]) -> Cart {
        Cart {
            dims: dims.to_vec(),
            periods: periods.to_vec(),
        }
    }

    #[test]
    fn ranks_are_in_row_major_order() {
        let c = cart(&[2, 3, 4], &[false; 3]);
        assert_eq!(c.size(), 24);
        assert_eq!(c.coords(23), [1, 2, 3]);
        assert_eq!(c.coords(6), [0, 1, 2]);
        for rank in 0..24 {
            assert_eq!(c.rank(&c.coords(rank)), rank);
        }
        let point = cart(&[], &[]);
        assert_eq!(
            (point.size(), point.rank(&[]), point.coords(0).len()),
            (1, 0, 0)
        );
    }

    #[test]
    fn shifts_end_at_edges_and_go_round_rings() {
        let c = cart(&[3, 4], &[false, true]);
        let at = c.coords(1);
        assert_eq!(c.shifted(&at, 0, -1), None);
        assert_eq!(c.shifted(&at, 0, 2), Some(9));
        assert_eq!(c.shifted(&at, 0, 3), None);
        assert_eq!(c.shifted(&at, 1, -2), Some(3));
        assert_eq!(
            c.shifted(&at, 1, i64::from(i32::MAX)),
            Some((1 + i32::MAX as u32) % 4)
        );
    }

    #[test]
    fn what_goes_down_a_ring_comes_from_above() {
        // A ring of two: the neighbour below is the one above too.
        let t = Topology::cart(cart(&[2], &[true]), 0);
        let edge = |tag| Some(Edge { peer: 1, tag });
        assert_eq!(t.sources, [edge(0), edge(1)]);
        assert_eq!(t.destinations, [edge(1), edge(0)]);
    }

    #[test]
    fn bad_graphs_are_refused() {
        let edges = [1, 0, 2, 5];
        let of = |index: &[i64]| Graph::check(index, |i| edges[i]);
        let good = of(&[1, 3, 3]).unwrap();
        assert_eq!(good.neighbors(0), [1]);
        assert_eq!(good.neighbors(1), [0, 2]);
        assert_eq!(good.neighbors(2), [0; 0]);
        let class = |index: &[i64]| of(index).unwrap_err().class;
        assert_eq!(class(&[1, 0, 2]), consts::ERR_ARG);
        assert_eq!(class(&[-1, 0, 2]), consts::ERR_ARG);
        assert_eq!(class(&[1, 3, 4]), consts::ERR_RANK);
        assert_eq!(class(&[3]), consts::ERR_RANK);
    }
}
