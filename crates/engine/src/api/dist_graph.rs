//! Distributed graph topologies (section 8.5.4): each process knows its own edges.

use std::rc::Rc;

use boundary::Ints;
use types::{Handle, Result, consts, fault};

use super::comm::publish_with;
use super::split::whole;
use super::topology::{check_rank, length, no_topology, read, write};
use crate::comm::{Comm, counted};
use crate::info::set_comm_hints;
use crate::state::Engine;
use crate::topology::{Dist, Shape, Topology};

/// The address `MPI_UNWEIGHTED`, as the entry points of both ABIs pass it.
const UNWEIGHTED: usize = 10;
/// The address `MPI_WEIGHTS_EMPTY`.
const WEIGHTS_EMPTY: usize = 11;

/// Calls `f` with this process's part of the distributed graph of a communicator.
fn with_dist<R>(e: &Engine, comm: Handle, f: impl FnOnce(&Dist) -> Result<R>) -> Result<R> {
    let comm = e.comm(comm)?;
    match comm.topology.as_deref() {
        Some(Topology {
            shape: Shape::Dist(dist),
            ..
        }) => f(dist),
        _ => Err(no_topology("distributed graph")),
    }
}

/// What a weights argument says.
enum Weights {
    /// `MPI_UNWEIGHTED`.
    None,
    /// There are weights, if also none for this process.
    Given(Vec<i32>),
}

/// Reads `n` weights. For none, `MPI_WEIGHTS_EMPTY` and any address will do.
fn read_weights(weights: Ints, n: usize) -> Result<Weights> {
    if weights.addr() == UNWEIGHTED {
        return Ok(Weights::None);
    }
    if n > 0 && (weights.is_null() || weights.addr() == WEIGHTS_EMPTY) {
        return Err(fault(
            consts::ERR_ARG,
            format!("there are no weights for {}", counted(n as u32, "edge")),
        ));
    }
    let weight = |i: usize| match weights.get(i) {
        w if w < 0 => Err(fault(
            consts::ERR_ARG,
            format!("weight {i} is {w}, which is negative"),
        )),
        w => Ok(w as i32),
    };
    (0..n)
        .map(weight)
        .collect::<Result<_>>()
        .map(Weights::Given)
}

/// Reads `n` ranks of `comm`.
fn read_ranks(comm: &Comm, what: &str, ranks: Ints, n: usize) -> Result<Vec<u32>> {
    let ranks = read(what, ranks, n)?;
    let narrow = |&rank: &i64| check_rank(comm, rank as i32);
    ranks.iter().map(narrow).collect()
}

/// `MPI_Dist_graph_create_adjacent`.
#[expect(clippy::too_many_arguments, reason = "the standard's parameter list")]
pub fn dist_graph_create_adjacent(
    e: &Engine,
    comm_old: Handle,
    indegree: i32,
    sources: Ints,
    sourceweights: Ints,
    outdegree: i32,
    destinations: Ints,
    destweights: Ints,
    info: Handle,
    _reorder: bool,
    comm_dist_graph: &mut Handle,
) -> Result<()> {
    let parent = e.comm(comm_old)?;
    let (ins, outs) = (
        length("sources", indegree)?,
        length("destinations", outdegree)?,
    );
    let sources = read_ranks(&parent, "sources", sources, ins)?;
    let destinations = read_ranks(&parent, "destinations", destinations, outs)?;
    let weights = match (
        read_weights(sourceweights, ins)?,
        read_weights(destweights, outs)?,
    ) {
        (Weights::Given(of_sources), Weights::Given(of_destinations)) => {
            Some((of_sources, of_destinations))
        }
        (Weights::None, Weights::Given(some)) | (Weights::Given(some), Weights::None)
            if !some.is_empty() =>
        {
            return Err(fault(
                consts::ERR_ARG,
                "one of the two arrays of weights is MPI_UNWEIGHTED, the other isn't",
            ));
        }
        _ => None,
    };
    let dist = Dist {
        sources,
        destinations,
        weights,
    };
    make_dist(e, &parent, info, dist, comm_dist_graph)
}

/// Makes the communicator of a distributed graph.
fn make_dist(
    e: &Engine,
    parent: &Rc<Comm>,
    info: Handle,
    dist: Dist,
    newcomm: &mut Handle,
) -> Result<()> {
    let asked = e.hints(info)?;
    let part = whole(e, parent)?;
    let new = publish_with(e, parent, part, Topology::dist(dist))?;
    if let Some(asked) = asked {
        set_comm_hints(&new.info.borrow(), &asked);
    }
    *newcomm = new.handle.get();
    Ok(())
}

/// An edge as it travels to its two ends.
struct Travelling {
    from: u32,
    to: u32,
    weight: i32,
}

/// Bytes of a travelling edge.
const EDGE: usize = 12;

impl Travelling {
    fn bytes(&self) -> [u8; EDGE] {
        let mut bytes = [0; EDGE];
        bytes[..4].copy_from_slice(&self.from.to_ne_bytes());
        bytes[4..8].copy_from_slice(&self.to.to_ne_bytes());
        bytes[8..].copy_from_slice(&self.weight.to_ne_bytes());
        bytes
    }

    /// The edge in `bytes`, whose ends are ranks below `size`.
    fn read(bytes: &[u8], size: u32) -> Result<Travelling> {
        let word = |i: usize| {
            let mut word = [0; 4];
            word.copy_from_slice(&bytes[4 * i..4 * i + 4]);
            word
        };
        let edge = Travelling {
            from: u32::from_ne_bytes(word(0)),
            to: u32::from_ne_bytes(word(1)),
            weight: i32::from_ne_bytes(word(2)),
        };
        if edge.from >= size || edge.to >= size {
            return Err(fault(
                consts::ERR_OTHER,
                "another process described an edge between processes that don't exist",
            ));
        }
        Ok(edge)
    }
}

/// The edges that the program describes here, and whether they have weights.
fn described(
    comm: &Comm,
    n: i32,
    sources: Ints,
    degrees: Ints,
    destinations: Ints,
    weights: Ints,
) -> Result<(Vec<Travelling>, bool)> {
    let n = length("sources", n)?;
    let sources = read_ranks(comm, "sources", sources, n)?;
    let degrees = read("degrees", degrees, n)?;
    let each = |&degree: &i64| length("destinations of a source", degree as i32);
    let degrees = degrees.iter().map(each).collect::<Result<Vec<_>>>()?;
    let total = degrees.iter().sum();
    let destinations = read_ranks(comm, "destinations", destinations, total)?;
    let weights = match read_weights(weights, total)? {
        Weights::None => None,
        Weights::Given(list) => Some(list),
    };
    let from = sources.iter().zip(&degrees);
    let from = from.flat_map(|(&source, &degree)| std::iter::repeat_n(source, degree));
    let edge = |(i, (from, &to)): (usize, (u32, &u32))| Travelling {
        from,
        to,
        weight: weights.as_ref().map_or(0, |w| w[i]),
    };
    let edges = from.zip(&destinations).enumerate().map(edge).collect();
    Ok((edges, weights.is_some()))
}

/// `MPI_Dist_graph_create`: each edge is sent to both its ends. Those between the same two processes come to both in the
/// same order.
#[expect(clippy::too_many_arguments, reason = "the standard's parameter list")]
pub fn dist_graph_create(
    e: &Engine,
    comm_old: Handle,
    n: i32,
    sources: Ints,
    degrees: Ints,
    destinations: Ints,
    weights: Ints,
    info: Handle,
    _reorder: bool,
    comm_dist_graph: &mut Handle,
) -> Result<()> {
    let parent = e.comm(comm_old)?;
    let (edges, weighted) = described(&parent, n, sources, degrees, destinations, weights)?;
    let mut parts = vec![Vec::new(); parent.size() as usize];
    for edge in &edges {
        parts[edge.from as usize].extend_from_slice(&edge.bytes());
        if edge.to != edge.from {
            parts[edge.to as usize].extend_from_slice(&edge.bytes());
        }
    }
    let arrived = e.internal_exchange(&parent, &parts)?;
    let mut dist = Dist::default();
    let (mut of_sources, mut of_destinations) = (Vec::new(), Vec::new());
    for bytes in arrived.chunks_exact(EDGE) {
        let edge = Travelling::read(bytes, parent.size())?;
        if edge.to == parent.rank {
            dist.sources.push(edge.from);
            of_sources.push(edge.weight);
        }
        if edge.from == parent.rank {
            dist.destinations.push(edge.to);
            of_destinations.push(edge.weight);
        }
    }
    dist.weights = weighted.then_some((of_sources, of_destinations));
    make_dist(e, &parent, info, dist, comm_dist_graph)
}

/// `MPI_Dist_graph_neighbors_count`.
pub fn dist_graph_neighbors_count(
    e: &Engine,
    comm: Handle,
    indegree: &mut i32,
    outdegree: &mut i32,
    weighted: &mut bool,
) -> Result<()> {
    with_dist(e, comm, |dist| {
        *indegree = dist.sources.len() as i32;
        *outdegree = dist.destinations.len() as i32;
        *weighted = dist.weights.is_some();
        Ok(())
    })
}

/// The first neighbours of a list, as many as there is room for, with their weights if both sides want them.
fn write_neighbors(
    max: i32,
    ranks: &[u32],
    out: Ints,
    weights: Option<&Vec<i32>>,
    out_weights: Ints,
) -> Result<()> {
    let n = length("neighbours there is room for", max)?.min(ranks.len());
    write("neighbours", out, ranks[..n].iter().map(|&r| r.into()))?;
    let ignored = [UNWEIGHTED, WEIGHTS_EMPTY];
    match weights {
        Some(w) if !ignored.contains(&out_weights.addr()) => {
            write("weights", out_weights, w[..n].iter().map(|&w| w.into()))
        }
        _ => Ok(()),
    }
}

/// `MPI_Dist_graph_neighbors`.
#[expect(clippy::too_many_arguments, reason = "the standard's parameter list")]
pub fn dist_graph_neighbors(
    e: &Engine,
    comm: Handle,
    maxindegree: i32,
    sources: Ints,
    sourceweights: Ints,
    maxoutdegree: i32,
    destinations: Ints,
    destweights: Ints,
) -> Result<()> {
    with_dist(e, comm, |dist| {
        let (of_sources, of_destinations) = match &dist.weights {
            Some((a, b)) => (Some(a), Some(b)),
            None => (None, None),
        };
        write_neighbors(
            maxindegree,
            &dist.sources,
            sources,
            of_sources,
            sourceweights,
        )?;
        write_neighbors(
            maxoutdegree,
            &dist.destinations,
            destinations,
            of_destinations,
            destweights,
        )
    })
}
