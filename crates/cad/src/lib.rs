//! CAD (collective action descriptors): a collective operation of one process as a graph of SEND,
//! RECV, CALC and COPY nodes between START and END.
//!
//! An algorithm is a function from numbers (ranks, counts, extents) to a [`Graph`]; nothing here
//! does I/O or knows of MPI. One module per collective: `Params`, the `Algorithm`s, `choose` and
//! `graph`. An executor provides buffers and types for the ids in the graph, and performs nodes as
//! a [`Run`] makes them ready. The engine runs graphs inline, from MPI calls, or hands them to the kernel: [`chosen`] is the rule for that.
//!
//! What an executor has to guarantee: a message matches by (peer, tag), in order of submission
//! among equals, within one instance of the collective; a receive gets exactly the bytes sent; a
//! node completes when its buffers may be used again.

#![forbid(unsafe_code)]

pub mod allgather;
pub mod allreduce;
pub mod alltoall;
pub mod barrier;
pub mod bcast;
pub mod chosen;
mod dot;
mod fold;
pub mod gather;
pub mod graph;
pub mod neighbor;
pub mod parts;
mod picture;
pub mod reduce;
pub mod reduce_scatter;
mod run;
pub mod scan;
pub mod scatter;
pub mod shape;
pub mod shared;
pub mod straight;
pub mod together;
mod tree;
mod tunables;

pub use graph::{
    BufId, Builder, Graph, Invalid, Kind, MAX_TAG, Node, NodeId, Region, START, Temp, TypeSlot,
};
pub use run::Run;
pub use shape::{Block, Part, Shape, Team};
pub use tunables::TUNABLES;
