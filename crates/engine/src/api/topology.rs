//! Virtual topologies (chapter 8), grids and graphs: making communicators with one, and asking about it. No process gets
//! another rank in the new communicator, whatever `reorder` says. Distributed graphs are in [`super::dist_graph`].

use boundary::Ints;
use types::{Handle, Result, consts, fault};

use super::comm::give_with;
use super::split::{by_color, first_ranks};
use crate::comm::{Comm, counted};
use crate::state::Engine;
use crate::topology::{Cart, Graph, Shape, Topology};

/// Reads `n` entries of an array, which is not NULL unless it is empty.
pub(super) fn read(what: &str, array: Ints, n: usize) -> Result<Vec<i64>> {
    check_array(what, array, n)?;
    Ok((0..n).map(|i| array.get(i)).collect())
}

fn check_array(what: &str, array: Ints, n: usize) -> Result<()> {
    if n > 0 && array.is_null() {
        return Err(fault(
            consts::ERR_ARG,
            format!("the array of {what} is NULL"),
        ));
    }
    Ok(())
}

/// Checks a count of array entries.
pub(super) fn length(what: &str, n: i32) -> Result<usize> {
    usize::try_from(n).map_err(|_| {
        fault(
            consts::ERR_ARG,
            format!("the number of {what} is {n}, which is negative"),
        )
    })
}

/// Checks that the program's array has room for all of what it asked for.
fn room(what: &str, max: i32, needed: usize) -> Result<()> {
    if usize::try_from(max).is_ok_and(|max| max >= needed) {
        return Ok(());
    }
    Err(fault(
        consts::ERR_ARG,
        format!("there is room for {max} {what}, but there are {needed}"),
    ))
}

/// Writes an array of the program's.
pub(super) fn write(
    what: &str,
    array: Ints,
    values: impl ExactSizeIterator<Item = i64>,
) -> Result<()> {
    check_array(what, array, values.len())?;
    values.enumerate().for_each(|(i, v)| array.set(i, v));
    Ok(())
}

pub(super) fn no_topology(wanted: &str) -> Box<types::Fault> {
    fault(
        consts::ERR_TOPOLOGY,
        format!("the communicator has no {wanted} topology"),
    )
}

/// Calls `f` with the grid of a communicator.
fn with_cart<R>(e: &Engine, comm: Handle, f: impl FnOnce(&Comm, &Cart) -> Result<R>) -> Result<R> {
    let comm = e.comm(comm)?;
    match comm.topology.as_deref() {
        Some(Topology {
            shape: Shape::Cart(cart),
            ..
        }) => f(&comm, cart),
        _ => Err(no_topology("Cartesian")),
    }
}

/// Calls `f` with the graph of a communicator.
fn with_graph<R>(
    e: &Engine,
    comm: Handle,
    f: impl FnOnce(&Comm, &Graph) -> Result<R>,
) -> Result<R> {
    let comm = e.comm(comm)?;
    match comm.topology.as_deref() {
        Some(Topology {
            shape: Shape::Graph(graph),
            ..
        }) => f(&comm, graph),
        _ => Err(no_topology("graph")),
    }
}

/// A rank of a topology.
pub(super) fn check_rank(comm: &Comm, rank: i32) -> Result<u32> {
    u32::try_from(rank)
        .ok()
        .filter(|&r| r < comm.size())
        .ok_or_else(|| {
            let text = format!(
                "the rank is {rank}, but the communicator has {}",
                counted(comm.size(), "rank")
            );
            fault(consts::ERR_RANK, text)
        })
}

/// `MPI_Topo_test`.
pub fn topo_test(e: &Engine, comm: Handle, status: &mut i32) -> Result<()> {
    *status = match e.comm(comm)?.topology.as_deref().map(|t| &t.shape) {
        None => consts::UNDEFINED,
        Some(Shape::Cart(_)) => consts::CART,
        Some(Shape::Graph(_)) => consts::GRAPH,
        Some(Shape::Dist(_)) => consts::DIST_GRAPH,
    };
    Ok(())
}

/// The grid that the program describes, each dimension `least` or more, which has to fit on `comm`.
fn check_cart(comm: &Comm, ndims: i32, dims: Ints, periods: Ints, least: u32) -> Result<Cart> {
    let n = length("dimensions", ndims)?;
    let wanted = read("dimensions", dims, n)?;
    let periods = read("periods", periods, n)?;
    let mut size = 1u32;
    let mut checked = Vec::with_capacity(n);
    for (i, &dim) in wanted.iter().enumerate() {
        let fits = u32::try_from(dim).ok().filter(|&d| d >= least);
        checked.push(fits.ok_or_else(|| {
            let text = format!("dimension {i} is {dim}; it must be {least} or more");
            fault(consts::ERR_DIMS, text)
        })?);
    }
    // A grid without places has none too many.
    for &dim in checked.iter().filter(|_| !checked.contains(&0)) {
        let product = size.checked_mul(dim).filter(|&p| p <= comm.size());
        size = product.ok_or_else(|| {
            let text = format!(
                "the grid has more places than the communicator has processes, {}",
                comm.size()
            );
            fault(consts::ERR_DIMS, text)
        })?;
    }
    Ok(Cart {
        dims: checked,
        periods: periods.iter().map(|&p| p != 0).collect(),
    })
}

/// `MPI_Cart_create`.
pub fn cart_create(
    e: &Engine,
    comm_old: Handle,
    ndims: i32,
    dims: Ints,
    periods: Ints,
    _reorder: bool,
    comm_cart: &mut Handle,
) -> Result<()> {
    let parent = e.comm(comm_old)?;
    let cart = check_cart(&parent, ndims, dims, periods, 1)?;
    let part = first_ranks(e, &parent, cart.size())?;
    *comm_cart = give_with(e, &parent, part, |rank| Topology::cart(cart, rank))?;
    Ok(())
}

/// `MPI_Cart_map`. A grid without places has one for nobody, as MPICH and Open MPI have it; to make it is refused.
pub fn cart_map(
    e: &Engine,
    comm: Handle,
    ndims: i32,
    dims: Ints,
    periods: Ints,
    newrank: &mut i32,
) -> Result<()> {
    let comm = e.comm(comm)?;
    let size = check_cart(&comm, ndims, dims, periods, 0)?.size();
    *newrank = mapped(&comm, size);
    Ok(())
}

/// This process's rank where the first `size` ranks take part.
fn mapped(comm: &Comm, size: u32) -> i32 {
    match comm.rank < size {
        true => comm.rank as i32,
        false => consts::UNDEFINED,
    }
}

/// `MPI_Cartdim_get`.
pub fn cartdim_get(e: &Engine, comm: Handle, ndims: &mut i32) -> Result<()> {
    with_cart(e, comm, |_, cart| {
        *ndims = cart.dims.len() as i32;
        Ok(())
    })
}

/// `MPI_Cart_get`.
pub fn cart_get(
    e: &Engine,
    comm: Handle,
    maxdims: i32,
    dims: Ints,
    periods: Ints,
    coords: Ints,
) -> Result<()> {
    with_cart(e, comm, |comm, cart| {
        room("dimensions", maxdims, cart.dims.len())?;
        write("dimensions", dims, cart.dims.iter().map(|&d| d.into()))?;
        write("periods", periods, cart.periods.iter().map(|&p| p.into()))?;
        let place = cart.coords(comm.rank);
        write("coordinates", coords, place.iter().map(|&c| c.into()))
    })
}

/// `MPI_Cart_rank`.
pub fn cart_rank(e: &Engine, comm: Handle, coords: Ints, rank: &mut i32) -> Result<()> {
    with_cart(e, comm, |_, cart| {
        let wanted = read("coordinates", coords, cart.dims.len())?;
        let place = |(i, &coord): (usize, &i64)| {
            cart.wrapped(i, coord).ok_or_else(|| {
                let text = format!(
                    "coordinate {i} is {coord}, but the dimension has {} and is not periodic",
                    counted(cart.dims[i], "place")
                );
                fault(consts::ERR_ARG, text)
            })
        };
        let inside = wanted.iter().enumerate().map(place);
        *rank = cart.rank(&inside.collect::<Result<Vec<_>>>()?) as i32;
        Ok(())
    })
}

/// `MPI_Cart_coords`.
pub fn cart_coords(e: &Engine, comm: Handle, rank: i32, maxdims: i32, coords: Ints) -> Result<()> {
    with_cart(e, comm, |comm, cart| {
        let rank = check_rank(comm, rank)?;
        room("coordinates", maxdims, cart.dims.len())?;
        let place = cart.coords(rank);
        write("coordinates", coords, place.iter().map(|&c| c.into()))
    })
}

/// `MPI_Cart_shift`.
pub fn cart_shift(
    e: &Engine,
    comm: Handle,
    direction: i32,
    disp: i32,
    rank_source: &mut i32,
    rank_dest: &mut i32,
) -> Result<()> {
    with_cart(e, comm, |comm, cart| {
        let along = usize::try_from(direction)
            .ok()
            .filter(|&d| d < cart.dims.len())
            .ok_or_else(|| {
                let text = format!(
                    "the direction is {direction}, but the grid has {}",
                    counted(cart.dims.len() as u32, "dimension")
                );
                fault(consts::ERR_DIMS, text)
            })?;
        let here = cart.coords(comm.rank);
        let there = |by: i64| {
            let rank = cart.shifted(&here, along, by);
            rank.map_or(consts::PROC_NULL, |r| r as i32)
        };
        *rank_source = there(-i64::from(disp));
        *rank_dest = there(i64::from(disp));
        Ok(())
    })
}

/// `MPI_Cart_sub`.
pub fn cart_sub(e: &Engine, comm: Handle, remain_dims: Ints, newcomm: &mut Handle) -> Result<()> {
    let parent = e.comm(comm)?;
    let (sub, color, key) = with_cart(e, comm, |comm, cart| {
        let remain = read("remaining dimensions", remain_dims, cart.dims.len())?;
        let place = cart.coords(comm.rank);
        let part = |keep: bool| {
            let chosen: Vec<usize> = (0..place.len())
                .filter(|&i| (remain[i] != 0) == keep)
                .collect();
            let cart = Cart {
                dims: chosen.iter().map(|&i| cart.dims[i]).collect(),
                periods: chosen.iter().map(|&i| cart.periods[i]).collect(),
            };
            let at: Vec<u32> = chosen.iter().map(|&i| place[i]).collect();
            let rank = cart.rank(&at) as i32;
            (cart, rank)
        };
        let (sub, key) = part(true);
        Ok((sub, part(false).1, key))
    })?;
    let part = by_color(e, &parent, color, key)?;
    *newcomm = give_with(e, &parent, part, |rank| Topology::cart(sub, rank))?;
    Ok(())
}

fn check_graph(comm: &Comm, nnodes: i32, index: Ints, edges: Ints) -> Result<Graph> {
    let n = length("nodes", nnodes)?;
    if n > comm.size() as usize {
        let text = format!(
            "the graph has {n} nodes, but the communicator has {}",
            counted(comm.size(), "process")
        );
        return Err(fault(consts::ERR_ARG, text));
    }
    let index = read("indices", index, n)?;
    let last = index.last().map_or(0, |&i| i.max(0));
    check_array("edges", edges, last as usize)?;
    Graph::check(&index, |i| edges.get(i))
}

/// `MPI_Graph_create`.
pub fn graph_create(
    e: &Engine,
    comm_old: Handle,
    nnodes: i32,
    index: Ints,
    edges: Ints,
    _reorder: bool,
    comm_graph: &mut Handle,
) -> Result<()> {
    let parent = e.comm(comm_old)?;
    let graph = check_graph(&parent, nnodes, index, edges)?;
    let part = first_ranks(e, &parent, graph.index.len() as u32)?;
    *comm_graph = give_with(e, &parent, part, |rank| Topology::graph(graph, rank))?;
    Ok(())
}

/// `MPI_Graph_map`.
pub fn graph_map(
    e: &Engine,
    comm: Handle,
    nnodes: i32,
    index: Ints,
    edges: Ints,
    newrank: &mut i32,
) -> Result<()> {
    let comm = e.comm(comm)?;
    let graph = check_graph(&comm, nnodes, index, edges)?;
    *newrank = mapped(&comm, graph.index.len() as u32);
    Ok(())
}

/// `MPI_Graphdims_get`.
pub fn graphdims_get(e: &Engine, comm: Handle, nnodes: &mut i32, nedges: &mut i32) -> Result<()> {
    with_graph(e, comm, |_, graph| {
        *nnodes = graph.index.len() as i32;
        *nedges = graph.edges.len() as i32;
        Ok(())
    })
}

/// `MPI_Graph_get`.
pub fn graph_get(
    e: &Engine,
    comm: Handle,
    maxindex: i32,
    maxedges: i32,
    index: Ints,
    edges: Ints,
) -> Result<()> {
    with_graph(e, comm, |_, graph| {
        room("indices", maxindex, graph.index.len())?;
        room("edges", maxedges, graph.edges.len())?;
        write("indices", index, graph.index.iter().map(|&i| i.into()))?;
        write("edges", edges, graph.edges.iter().map(|&i| i.into()))
    })
}

/// `MPI_Graph_neighbors_count`.
pub fn graph_neighbors_count(
    e: &Engine,
    comm: Handle,
    rank: i32,
    nneighbors: &mut i32,
) -> Result<()> {
    with_graph(e, comm, |comm, graph| {
        *nneighbors = graph.neighbors(check_rank(comm, rank)?).len() as i32;
        Ok(())
    })
}

/// `MPI_Graph_neighbors`.
pub fn graph_neighbors(
    e: &Engine,
    comm: Handle,
    rank: i32,
    maxneighbors: i32,
    neighbors: Ints,
) -> Result<()> {
    with_graph(e, comm, |comm, graph| {
        let found = graph.neighbors(check_rank(comm, rank)?);
        room("neighbours", maxneighbors, found.len())?;
        write("neighbours", neighbors, found.iter().map(|&n| n.into()))
    })
}
