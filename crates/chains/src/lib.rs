//! Compiles a collective's graph to few chains and tokens, for a kernel that runs linked
//! submissions (io_uring) while the rank computes.
//!
//! [`compile`] takes the [`cad::Graph`] of one process and gives its [`Program`]. Steps: `lower` (bytes
//! and world ranks), `order` (what the streams demand), `cut` (pieces, so that a relay forwards the
//! beginning of a message while its end still arrives), `cover` (chains and tokens). No I/O.
//!
//! # The order on a stream
//!
//! A connection carries plain bytes, so both sides must agree on the order of messages, each
//! knowing its own graph only. Between two processes messages go **by ascending tag**, those of equal
//! tag as the graph orders them. Each process adds that order to its graph. A team of graphs is *in
//! order* if there is one order of all its messages that agrees with all edges and in which, for each
//! pair, tags ascend. [`team::verify`] proves it for given programs; the graphs of crate `cad` are (a
//! test runs through them). Where all graphs of a team are at hand but tags don't ascend,
//! [`team::order`] finds other keys.
//!
//! # Why chains don't dead-lock
//!
//! Let a team be in order. An entry is *finite* when it ends by itself once begun: what the kernel
//! calculates or copies, and a send that the connection takes whatever the peer does
//! ([`Options::eager`]). Entry `b` follows `a` in a chain only if the graph has `a` before
//! `b`, or if `a` is finite and all that `a` waits for, finite entries apart, comes before `b` too.
//! So chains make no entry wait, directly or by way of finite ones, for a message that it did not wait
//! for before; and by the team's order the earliest message that is not complete can always move.
//! [`Options::interleave`] leaves this rule; it is for graphs whose teams were verified with it.
//!
//! # What a graph's edge still means
//!
//! A node *completes* after all nodes before it have completed, and bytes are written and read in the
//! order of the graph; but pieces of a node may begin before all pieces of one before it are
//! complete.

#![forbid(unsafe_code)]

mod costs;
mod cover;
mod cut;
mod flow;
mod lower;
mod order;
pub mod program;
pub mod team;
pub mod verify;

pub use costs::{Costs, KERNEL_CALC_MAX, PIECE_MAX, PIECE_MIN, TUNABLES};
pub use program::{Area, Entry, Program};

use cad::{Graph, NodeId};
use std::fmt;

/// What the executor can do, and what things cost it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// What decides where messages are cut.
    pub costs: Costs,
    /// Instead of the costs: bytes of a piece, at least 1.
    pub piece: Option<u64>,
    /// Bytes that a connection takes from one program for certain, even if its peer does not receive
    /// (what earlier programs may have left unread does not count).
    pub eager: u64,
    /// Bytes up to which the kernel calculates; 0: the rank does all.
    pub kernel_calc: u64,
    /// Bytes up to which the kernel copies; 0: the rank does all.
    pub kernel_copy: u64,
    /// Leaves calculations whole: for operators that know more of their elements than the graph does.
    pub whole_calc: bool,
    /// Leaves out the copies of at least so many bytes that wait for nothing but others of the kind ([`copies_first`]): whoever hands the program
    /// over has done them before.
    pub copies_first: Option<u64>,
    /// Lets a relay receive and forward piece by piece in one chain, without tokens. For graphs
    /// whose teams pass [`team::verify`] so (broadcasts do) and not in general: a receiver that is
    /// late then also delays others.
    pub interleave: bool,
}

impl Default for Options {
    /// A kernel without byte code: the rank calculates and copies, and no send is eager.
    fn default() -> Options {
        Options {
            costs: Costs::MEASURED,
            piece: None,
            eager: 0,
            kernel_calc: 0,
            kernel_copy: 0,
            whole_calc: false,
            copies_first: None,
            interleave: false,
        }
    }
}

/// Why a graph cannot be compiled; another executor has to run it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The graph is not valid.
    Invalid(cad::Invalid),
    /// The world ranks, or the keys, are not as many as the team's, or as the nodes.
    Arguments,
    /// This node's elements have gaps, or only the executor knows their type.
    Type(NodeId),
    /// This node is a message to the process itself.
    Myself(NodeId),
    /// Edges contradict the order of messages on a connection.
    Order,
    /// More entries than [`program::MAX_ENTRIES`], even without cutting messages.
    TooLong,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::Invalid(why) => write!(f, "{why}"),
            Refused::Arguments => write!(f, "a list of ranks or keys has the wrong length"),
            Refused::Type(n) => write!(f, "node {n}: elements that are not plain bytes"),
            Refused::Myself(n) => write!(f, "node {n}: a message to the process itself"),
            Refused::Order => write!(f, "edges contradict the order of tags on a connection"),
            Refused::TooLong => write!(f, "more than {} entries", program::MAX_ENTRIES),
        }
    }
}

impl std::error::Error for Refused {}

/// The copies of a graph of at least `min` bytes that wait for nothing but others of the kind, each after those that it waits for: they can be done
/// when it is issued, at once. None if its edges go round.
pub fn copies_first(graph: &Graph, min: u64) -> Vec<NodeId> {
    order::places(graph).map_or_else(Vec::new, |(place, before)| {
        let mut sequence: Vec<NodeId> = (0..place.len() as NodeId).collect();
        sequence.sort_unstable_by_key(|&id| place[id as usize]);
        order::copies_first(graph, &sequence, &before, min)
    })
}

/// The program of one process. `world` has the world rank of each rank of the graph's team; `keys`,
/// if given, replace the tags as the order of messages.
///
/// # Errors
/// See [`Refused`]. Both sides of a connection have to come to the same answer: whether a graph is
/// refused may depend on nothing that differs between processes, or all have to agree beforehand.
pub fn compile(
    graph: &Graph,
    world: &[u32],
    keys: Option<&[u32]>,
    options: &Options,
) -> Result<Program, Refused> {
    graph.verify().map_err(Refused::Invalid)?;
    let nodes = graph.nodes().len();
    if world.len() != graph.team().size as usize || keys.is_some_and(|k| k.len() != nodes) {
        return Err(Refused::Arguments);
    }
    if nodes >= program::MAX_ENTRIES {
        return Err(Refused::TooLong);
    }
    let mut works = lower::lower(graph, world)?;
    let order = order::order(graph, &works, keys)?;
    if let Some(min) = options.copies_first {
        for id in order::copies_first(graph, &order.sequence, &order.before, min) {
            works[id as usize].leave_out();
        }
    }
    let longest = works.iter().map(|w| w.bytes()).max().unwrap_or(0);
    let mut piece = options
        .piece
        .unwrap_or_else(|| options.costs.piece_bytes(longest))
        .max(1);
    loop {
        let pieces = cut::cut(&works, &order, piece, options);
        let entries = pieces.and_then(|p| cover::cover(&p, options.interleave));
        if let Some((entries, tokens)) = entries {
            return Ok(Program {
                rank: world[graph.team().rank as usize],
                areas: lower::areas(graph),
                tokens,
                entries,
            });
        }
        if piece > longest {
            return Err(Refused::TooLong);
        }
        piece = piece.saturating_mul(2);
    }
}
