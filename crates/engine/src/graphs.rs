//! Graphs of collectives that were built before: a program calls the same ones again and again.
//!
//! A graph depends on its parameters only (which rank of how many, counts, sizes of types, the root), not
//! on the communicator or the buffers, so one cache serves all communicators. Collectives with a
//! count for each process are built anew: their parameters are as large as their graphs.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use cad::chosen::Moves;
use cad::{Graph, Team};

use crate::coll::names::{self, Names};
use crate::state::Engine;

/// What a cached graph was built from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Plan {
    /// A barrier.
    Barrier(Team),
    /// A broadcast.
    Bcast(cad::bcast::Params),
    /// A gather.
    Gather(cad::gather::Params),
    /// A scatter.
    Scatter(cad::scatter::Params),
    /// An allgather.
    Allgather(cad::allgather::Params),
    /// An alltoall.
    Alltoall(cad::alltoall::Params),
    /// A reduce.
    Reduce(cad::reduce::Params),
    /// An allreduce.
    Allreduce(cad::allreduce::Params),
    /// A scan.
    Scan(cad::scan::Params),
    /// An exclusive scan.
    Exscan(cad::scan::Params),
}

impl Plan {
    /// The process in its team.
    pub fn team_mut(&mut self) -> &mut Team {
        match self {
            Plan::Barrier(team) => team,
            Plan::Bcast(p) => &mut p.team,
            Plan::Gather(p) => &mut p.team,
            Plan::Scatter(p) => &mut p.team,
            Plan::Allgather(p) => &mut p.team,
            Plan::Alltoall(p) => &mut p.team,
            Plan::Reduce(p) => &mut p.team,
            Plan::Allreduce(p) => &mut p.team,
            Plan::Scan(p) | Plan::Exscan(p) => &mut p.team,
        }
    }

    fn build(&self) -> Graph {
        match self {
            Plan::Barrier(team) => cad::barrier::graph(team),
            Plan::Bcast(p) => cad::bcast::graph(p),
            Plan::Gather(p) => cad::gather::graph(p),
            Plan::Scatter(p) => cad::scatter::graph(p),
            Plan::Allgather(p) => cad::allgather::graph(p),
            Plan::Alltoall(p) => cad::alltoall::graph(p),
            Plan::Reduce(p) => cad::reduce::graph(p),
            Plan::Allreduce(p) => cad::allreduce::graph(p),
            Plan::Scan(p) => cad::scan::graph(p),
            Plan::Exscan(p) => cad::scan::graph_exclusive(p),
        }
    }
}

impl Plan {
    /// What it is called.
    pub fn names(&self) -> &'static Names {
        match self {
            Plan::Barrier(_) => &names::BARRIER,
            Plan::Bcast(_) => &names::BCAST,
            Plan::Gather(_) => &names::GATHER,
            Plan::Scatter(_) => &names::SCATTER,
            Plan::Allgather(_) => &names::ALLGATHER,
            Plan::Alltoall(_) => &names::ALLTOALL,
            Plan::Reduce(_) => &names::REDUCE,
            Plan::Allreduce(_) => &names::ALLREDUCE,
            Plan::Scan(_) => &names::SCAN,
            Plan::Exscan(_) => &names::EXSCAN,
        }
    }

    /// What it moves, if it only does that; the same on all ranks.
    pub fn moves(&self) -> Option<Moves> {
        // Of three the root of a broadcast sends to both; long blocks of the others go straight.
        let (block, relayed) = match self {
            Plan::Bcast(p) => (p.ty.bytes(p.count), p.team.size > 3),
            Plan::Allgather(p) => (p.recv.bytes(), p.team.size > 2),
            Plan::Gather(p) => (p.block(), false),
            Plan::Scatter(p) => (p.block(), false),
            Plan::Alltoall(p) => (p.recv.bytes(), false),
            _ => return None,
        };
        Some(Moves { block, relayed })
    }
}

/// Most nodes of all cached graphs together (about 100 bytes each); beyond, the cache starts anew.
const NODES: usize = 1 << 15;

/// The cache.
#[derive(Default)]
pub struct Graphs {
    known: RefCell<HashMap<Plan, Rc<Graph>>>,
    /// The graph that was last asked for, which most often is the next too: finding it among all takes 700 instructions.
    last: RefCell<Option<(Plan, Rc<Graph>)>>,
}

impl Engine {
    /// The graph of a plan.
    pub(crate) fn graph(&self, plan: Plan) -> Rc<Graph> {
        if let Some((last, graph)) = &*self.graphs.last.borrow()
            && *last == plan
        {
            return graph.clone();
        }
        let graph = self.graph_among_all(plan);
        self.graphs.last.replace(Some((plan, graph.clone())));
        graph
    }

    fn graph_among_all(&self, plan: Plan) -> Rc<Graph> {
        let mut known = self.graphs.known.borrow_mut();
        if let Some(graph) = known.get(&plan) {
            return graph.clone();
        }
        let graph = Rc::new(plan.build());
        let nodes = |g: &Rc<Graph>| g.nodes().len();
        if known.values().map(nodes).sum::<usize>() + nodes(&graph) > NODES {
            known.clear();
            // They have graphs that no later call finds.
            self.ended.clear();
        }
        known.insert(plan, graph.clone());
        graph
    }
}
