//! Descriptors: nodes and edges as a program makes them, and the plan that they become.

use boundary::UserBuf;
use cad::{BufId, Builder, Graph, Invalid, Kind, MAX_TAG, NodeId, Region, Shape, Team};
use cad_softirq::calc::How;
use std::collections::HashMap;
use std::fmt;
use std::rc::Rc;

/// As the first of an edge: the second may start at once. (So may every node without an edge to it.)
pub const START: NodeId = cad::START;

/// As the second of an edge: the descriptor ends after the first. (It ends after all nodes anyway.)
pub const END: NodeId = START - 1;

/// `dst = src op dst` on a number of bytes.
pub type Calc = Rc<dyn Fn(UserBuf, UserBuf, u64)>;

/// A calculation that may run at any point of the program, in the handler of a signal too.
type Reduction = Rc<dyn Fn(UserBuf, UserBuf, u64) + Send + Sync>;

/// Why a node, an edge or a descriptor is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// There is no such process, or it is the caller.
    Peer(u32),
    /// More nodes for one process and direction than can be told apart.
    TooMany,
    /// The memory would reach beyond the end of addresses.
    Memory,
    /// There is no such node.
    Node(NodeId),
    /// The graph as a whole is not valid.
    Graph(Invalid),
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::Peer(p) => write!(f, "process {p} does not exist or is the caller itself"),
            Refused::TooMany => write!(f, "more than {} nodes for one process", MAX_TAG + 1),
            Refused::Memory => write!(f, "the buffer reaches beyond the end of memory"),
            Refused::Node(n) => write!(f, "there is no node {n}"),
            Refused::Graph(why) => write!(f, "{why}"),
        }
    }
}

impl std::error::Error for Refused {}

/// What a node of a plan does, with addresses.
pub(crate) enum Action {
    Send(UserBuf, u64),
    Recv(UserBuf, u64),
    Calc(Calc, UserBuf, UserBuf, u64),
    Reduce(Reduction, UserBuf, UserBuf, u64),
    Copy(UserBuf, UserBuf, u64),
}

/// What a reduction does, for an executor whose kernel can do it: `to = from how to`, on so many bytes.
#[derive(Clone, Debug)]
pub struct Known {
    /// The first operand.
    pub from: UserBuf,
    /// The second, and the result.
    pub to: UserBuf,
    /// Bytes of each.
    pub bytes: u64,
    /// What is done.
    pub how: How,
}

/// A descriptor that can be issued.
pub struct Plan {
    pub(crate) graph: Graph,
    pub(crate) actions: Vec<Action>,
    pub(crate) members: Option<Vec<u32>>,
    known: HashMap<NodeId, Known>,
}

impl Plan {
    /// The graph. Its regions are in the receive buffer, offsets are addresses.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// Whether the plan needs this process.
    pub fn needs(&self, process: u32) -> bool {
        self.members.as_ref().is_none_or(|m| m.contains(&process))
    }
}

/// A collective action of this process while it is being described.
pub struct Descriptor {
    team: Team,
    members: Option<Vec<u32>>,
    actions: Vec<Action>,
    peers: Vec<u32>,
    tags: Vec<u32>,
    edges: Vec<(NodeId, NodeId)>,
    made: HashMap<(u32, bool), u32>,
    known: Vec<(NodeId, Known)>,
}

impl Descriptor {
    /// An empty one for process `rank` of `size`. `members` are the processes that take part, of
    /// which a lost one ends it; `None` stands for all.
    pub fn new(rank: u32, size: u32, members: Option<Vec<u32>>) -> Descriptor {
        Descriptor {
            team: Team::new(rank, size),
            members,
            actions: Vec::new(),
            peers: Vec::new(),
            tags: Vec::new(),
            edges: Vec::new(),
            made: HashMap::new(),
            known: Vec::new(),
        }
    }

    /// Checks the other process of a message.
    fn peer(&self, peer: u32) -> Result<(), Refused> {
        let member = self.members.as_ref().is_none_or(|m| m.contains(&peer));
        match peer < self.team.size && peer != self.team.rank && member {
            true => Ok(()),
            false => Err(Refused::Peer(peer)),
        }
    }

    fn message(&mut self, peer: u32, send: bool, action: Action) -> Result<NodeId, Refused> {
        self.peer(peer)?;
        let made = self.made.entry((peer, send)).or_default();
        if *made > MAX_TAG {
            return Err(Refused::TooMany);
        }
        *made += 1;
        let tag = *made - 1;
        Ok(self.node(peer, tag, action))
    }

    fn node(&mut self, peer: u32, tag: u32, action: Action) -> NodeId {
        self.actions.push(action);
        self.peers.push(peer);
        self.tags.push(tag);
        self.actions.len() as NodeId - 1
    }

    /// A node that sends `bytes` at `from` to process `to`.
    ///
    /// # Errors
    /// [`Refused::Peer`], [`Refused::TooMany`], [`Refused::Memory`].
    pub fn make_send_node(
        &mut self,
        from: UserBuf,
        bytes: u64,
        to: u32,
    ) -> Result<NodeId, Refused> {
        ends(from, bytes)?;
        self.message(to, true, Action::Send(from, bytes))
    }

    /// A node that receives `bytes` from process `from` to `to`.
    ///
    /// # Errors
    /// As of a send node.
    pub fn make_recv_node(
        &mut self,
        to: UserBuf,
        bytes: u64,
        from: u32,
    ) -> Result<NodeId, Refused> {
        ends(to, bytes)?;
        self.message(from, false, Action::Recv(to, bytes))
    }

    /// A send node with a tag, up to [`cad::MAX_TAG`]: for descriptors made from graphs, whose messages have tags. Of a pair
    /// of processes, either all nodes are made with tags or none.
    ///
    /// # Errors
    /// As of a send node.
    pub fn make_tagged_send_node(
        &mut self,
        from: UserBuf,
        bytes: u64,
        to: u32,
        tag: u32,
    ) -> Result<NodeId, Refused> {
        ends(from, bytes)?;
        self.peer(to)?;
        Ok(self.node(to, tag, Action::Send(from, bytes)))
    }

    /// A receive node with a tag.
    ///
    /// # Errors
    /// As of a send node.
    pub fn make_tagged_recv_node(
        &mut self,
        to: UserBuf,
        bytes: u64,
        from: u32,
        tag: u32,
    ) -> Result<NodeId, Refused> {
        ends(to, bytes)?;
        self.peer(from)?;
        Ok(self.node(from, tag, Action::Recv(to, bytes)))
    }

    /// A node that does `dst = src op dst` on `bytes`.
    ///
    /// # Errors
    /// [`Refused::Memory`].
    pub fn make_calc_node(
        &mut self,
        op: Calc,
        src: UserBuf,
        dst: UserBuf,
        bytes: u64,
    ) -> Result<NodeId, Refused> {
        ends(src, bytes)?;
        ends(dst, bytes)?;
        Ok(self.node(0, 0, Action::Calc(op, src, dst, bytes)))
    }

    /// A node that does `dst = src op dst` on `bytes`, with an `op` that may run at any point of the program, in the handler
    /// of a signal too: it takes no lock, allocates and frees nothing, does not panic, and calls nothing that does. What it owns
    /// is dropped with the plan, never where it runs; that it shares nothing that changes unseen is in its type. An executor need
    /// not wait for a call of the program then.
    ///
    /// # Errors
    /// [`Refused::Memory`].
    pub fn make_reduction_node(
        &mut self,
        op: impl Fn(UserBuf, UserBuf, u64) + Send + Sync + 'static,
        src: UserBuf,
        dst: UserBuf,
        bytes: u64,
    ) -> Result<NodeId, Refused> {
        ends(src, bytes)?;
        ends(dst, bytes)?;
        Ok(self.node(0, 0, Action::Reduce(Rc::new(op), src, dst, bytes)))
    }

    /// Says what a [reduction](Descriptor::make_reduction_node) does, so that an executor may have the kernel do it. That has to be the same as what the
    /// node's own operation does, bit by bit, and the memory valid as a node's; who uses it else is a matter of edges, as ever.
    ///
    /// # Errors
    /// [`Refused::Node`], [`Refused::Memory`].
    pub fn know_reduction(&mut self, node: NodeId, known: Known) -> Result<(), Refused> {
        ends(known.from, known.bytes)?;
        ends(known.to, known.bytes)?;
        match self.actions.get(node as usize) {
            Some(Action::Reduce(..)) => {
                self.known.push((node, known));
                Ok(())
            }
            _ => Err(Refused::Node(node)),
        }
    }

    /// A node that copies `bytes` at `src` to `dst`.
    ///
    /// # Errors
    /// [`Refused::Memory`].
    pub fn make_copy_node(
        &mut self,
        src: UserBuf,
        dst: UserBuf,
        bytes: u64,
    ) -> Result<NodeId, Refused> {
        ends(src, bytes)?;
        ends(dst, bytes)?;
        Ok(self.node(0, 0, Action::Copy(src, dst, bytes)))
    }

    /// `after` starts when `before` has completed.
    ///
    /// # Errors
    /// [`Refused::Node`].
    pub fn connect_node(&mut self, before: NodeId, after: NodeId) -> Result<(), Refused> {
        let exists = |n: NodeId| (n as usize) < self.actions.len();
        if before != START && !exists(before) {
            return Err(Refused::Node(before));
        }
        if after != END && !exists(after) {
            return Err(Refused::Node(after));
        }
        if before != START && after != END {
            self.edges.push((before, after));
        }
        Ok(())
    }

    /// The plan, verified.
    ///
    /// # Errors
    /// [`Refused::Graph`]: the nodes wait for each other in a circle.
    pub fn plan(self) -> Result<Plan, Refused> {
        let mut before = vec![Vec::new(); self.actions.len()];
        for &(a, b) in &self.edges {
            before[b as usize].push(a);
        }
        let mut b = Builder::new(self.team);
        let region =
            |buf: &UserBuf, bytes: &u64| Region::bytes(BufId::Recv, buf.addr() as u64, *bytes);
        for (id, action) in self.actions.iter().enumerate() {
            let (peer, tag, before) = (self.peers[id], self.tags[id], &before[id]);
            let mut known = |buf: &UserBuf, bytes: &u64| {
                b.recv_block(Shape::BYTE, buf.addr() as i64, *bytes);
            };
            match action {
                Action::Send(buf, n) | Action::Recv(buf, n) => known(buf, n),
                Action::Calc(_, src, dst, n)
                | Action::Reduce(_, src, dst, n)
                | Action::Copy(src, dst, n) => {
                    known(src, n);
                    known(dst, n);
                }
            }
            match action {
                Action::Send(buf, n) => b.send(peer, tag, region(buf, n), before),
                Action::Recv(buf, n) => b.recv(peer, tag, region(buf, n), before),
                Action::Calc(_, src, dst, n) | Action::Reduce(_, src, dst, n) => {
                    b.calc(region(src, n), region(dst, n), before)
                }
                Action::Copy(src, dst, n) => b.copy(region(src, n), region(dst, n), before),
            };
        }
        let graph = b.finish();
        graph.verify().map_err(Refused::Graph)?;
        Ok(Plan {
            graph,
            actions: self.actions,
            members: self.members,
            known: self.known.into_iter().collect(),
        })
    }
}

/// Offsets in graphs are signed, so memory ends at half of all addresses.
fn ends(buf: UserBuf, bytes: u64) -> Result<(), Refused> {
    let end = (buf.addr() as u64).checked_add(bytes);
    match end {
        Some(end) if i64::try_from(end).is_ok() => Ok(()),
        _ => Err(Refused::Memory),
    }
}

impl Plan {
    /// Whether a node is a message.
    pub(crate) fn is_message(&self, id: NodeId) -> bool {
        matches!(self.graph.node(id).kind, Kind::Send | Kind::Recv)
    }

    /// Whether a node is a calculation that [may run anywhere](Descriptor::make_reduction_node).
    pub fn is_reduction(&self, id: NodeId) -> bool {
        matches!(self.actions.get(id as usize), Some(Action::Reduce(..)))
    }

    /// What a reduction does, if it [was said](Descriptor::know_reduction).
    pub fn known(&self, id: NodeId) -> Option<&Known> {
        self.known.get(&id)
    }

    /// Does what a node that calculates or copies says; nothing for a message or no node. In the handler of a signal only
    /// where [`is_reduction`](Plan::is_reduction).
    pub fn compute(&self, id: NodeId) {
        match self.actions.get(id as usize) {
            Some(Action::Calc(op, src, dst, bytes)) => op(*src, *dst, *bytes),
            Some(Action::Reduce(op, src, dst, bytes)) => op(*src, *dst, *bytes),
            Some(Action::Copy(src, dst, bytes)) => dst.copy_from(*src, *bytes as usize),
            Some(Action::Send(..) | Action::Recv(..)) | None => {}
        }
    }

    /// Does `bytes` bytes from byte `start` on of a node that copies; nothing for another node, or
    /// beyond its end.
    pub fn copy(&self, id: NodeId, start: u64, bytes: u64) {
        if let Some(Action::Copy(src, dst, all)) = self.actions.get(id as usize)
            && start.checked_add(bytes).is_some_and(|end| end <= *all)
        {
            let at = start as i64;
            dst.offset(at).copy_from(src.offset(at), bytes as usize);
        }
    }
}

/// A barrier among all processes, as a descriptor: the dissemination barrier, messages without data.
///
/// # Errors
/// None that can happen: its peers exist.
pub fn barrier(rank: u32, size: u32) -> Result<Plan, Refused> {
    let mut cad = Descriptor::new(rank, size, None);
    let (mut before, mut distance) = ([START; 2], 1);
    while distance < size {
        let (up, down) = ((rank + distance) % size, (rank + size - distance) % size);
        let recv = cad.make_recv_node(UserBuf::NULL, 0, down)?;
        let send = cad.make_send_node(UserBuf::NULL, 0, up)?;
        for b in before {
            cad.connect_node(b, send)?;
        }
        before = [send, recv];
        distance *= 2;
    }
    cad.plan()
}
