//! The graph: what one process sends, receives, computes and copies in one collective, and in
//! which order.
//!
//! Nodes lie in one flat array, edges in a second (compressed successor lists); there are no
//! pointers, so a graph can lie in memory shared with another executor. START and END are implicit:
//! nodes without predecessors are START's successors, END is reached when all nodes have completed.
//!
//! Invariants: node ids index `nodes`; two nodes that touch the same bytes, at least one of them
//! writing, are ordered by edges; messages of one pair of processes carry distinct tags unless
//! edges order both their sends and their receives.

use crate::shape::{Shape, Team};
use std::fmt;

/// Index of a node in its graph.
pub type NodeId = u32;

/// As a predecessor: none. The node may start at once.
pub const START: NodeId = u32::MAX;

/// The largest tag of a node; a caller that composes a message tag reserves 15 bits for it.
pub const MAX_TAG: u32 = 0x7fff;

/// A buffer of a collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BufId {
    /// The send buffer.
    Send,
    /// The receive buffer; also the only buffer of a broadcast, and the data of in-place calls.
    Recv,
    /// A buffer that the executor allocates: index into [`Graph::temps`].
    Temp(u32),
}

/// The type of a region's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TypeSlot {
    /// Bytes (of packed data, in a temporary buffer or a contiguous user buffer).
    Bytes,
    /// The send type.
    Send,
    /// The receive type; the one type of a broadcast or reduction, whatever the buffer.
    Recv,
    /// The send type for this peer (alltoallw), or this neighbour.
    SendOf(u32),
    /// The receive type for this peer (alltoallw), or this neighbour.
    RecvOf(u32),
}

/// Elements in a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Region {
    /// The buffer.
    pub buf: BufId,
    /// Bytes from the buffer's address to the first element's origin.
    pub offset: i64,
    /// Number of elements.
    pub count: u64,
    /// Type of the elements.
    pub ty: TypeSlot,
}

impl Region {
    /// No data.
    pub const EMPTY: Region = Region {
        buf: BufId::Recv,
        offset: 0,
        count: 0,
        ty: TypeSlot::Bytes,
    };

    /// `count` bytes of `buf` from `offset` on.
    pub fn bytes(buf: BufId, offset: u64, count: u64) -> Region {
        Region {
            buf,
            offset: offset as i64,
            count,
            ty: TypeSlot::Bytes,
        }
    }
}

/// What a node does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Send `src` to `peer`.
    Send,
    /// Receive from `peer` into `dst`.
    Recv,
    /// `dst = src op dst`, element by element; `src` is the operand of the lower ranks. Both are
    /// of type [`TypeSlot::Recv`].
    Calc,
    /// Copy `src` to `dst`: the same bytes when packed, the types may differ.
    Copy,
}

/// One node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Node {
    /// What it does.
    pub kind: Kind,
    /// The other process, for Send and Recv (a rank of the team).
    pub peer: u32,
    /// Tells messages between the same two processes apart, for Send and Recv.
    pub tag: u32,
    /// What is read ([`Region::EMPTY`] for Recv).
    pub src: Region,
    /// What is written, for Calc also read ([`Region::EMPTY`] for Send).
    pub dst: Region,
}

/// A temporary buffer that the executor provides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Temp {
    /// Bytes of memory that data occupy.
    pub bytes: u64,
    /// `Bytes`: packed data, region offsets count from the buffer's start. `Recv`: elements of the
    /// receive type; the executor places the origin so that the lowest byte of data, at
    /// `true_lb + low`, is inside: at `start - true_lb - low`, kept aligned.
    pub ty: TypeSlot,
    /// Displacement of the lowest element's origin (zero unless the extent is negative).
    pub low: i64,
}

/// A collective of one process as a graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Graph {
    team: Team,
    nodes: Vec<Node>,
    first: Vec<u32>,
    next: Vec<NodeId>,
    indegree: Vec<u32>,
    temps: Vec<Temp>,
    /// How many types [`TypeSlot::SendOf`] and [`TypeSlot::RecvOf`] tell apart.
    types: u32,
    /// Whether receivers copy what it sends from where it lies.
    lends: bool,
    /// Whether receivers read what it sends from where it lies once for all.
    shares: bool,
    /// Whether all nodes are sends of what the buffers hold, and wait for nothing.
    only_sends: bool,
    send: Limit,
    recv: Limit,
}

/// What is known of a user buffer: its type and the bytes that may be touched, counted from the
/// first data byte of an element at displacement zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Limit {
    ty: Shape,
    low: i64,
    high: i64,
}

impl Limit {
    const NONE: Limit = Limit {
        ty: Shape::BYTE,
        low: 0,
        high: 0,
    };
}

/// Why a graph is not valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Invalid {
    /// The nodes' order has a cycle.
    Cycle,
    /// The edge arrays contradict each other.
    Edges,
    /// This node's peer is not in the team, or its tag exceeds [`MAX_TAG`].
    Peer(NodeId),
    /// This node touches memory outside its buffer, or a buffer or type that does not exist.
    Bounds(NodeId),
    /// This node's two regions differ in bytes.
    Lengths(NodeId),
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Invalid::Cycle => write!(f, "the graph has a cycle"),
            Invalid::Edges => write!(f, "the graph's edge arrays contradict each other"),
            Invalid::Peer(n) => write!(f, "node {n}: peer or tag out of range"),
            Invalid::Bounds(n) => write!(f, "node {n}: region out of bounds"),
            Invalid::Lengths(n) => write!(f, "node {n}: source and destination differ in length"),
        }
    }
}

impl std::error::Error for Invalid {}

impl Graph {
    /// The process that the graph is for.
    pub fn team(&self) -> Team {
        self.team
    }

    /// The nodes.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// One node.
    #[inline]
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id as usize]
    }

    /// Nodes that wait for node `id`.
    #[inline]
    pub fn successors(&self, id: NodeId) -> &[NodeId] {
        let (a, b) = (self.first[id as usize], self.first[id as usize + 1]);
        &self.next[a as usize..b as usize]
    }

    /// Whether receivers are to copy what is [long](crate::straight::LENT_MIN) from where it lies, where they can, also of what is sent again and again.
    #[inline]
    pub fn lends(&self) -> bool {
        self.lends
    }

    /// Whether what is sent is to lie where its receivers read it, where the transport has a way for that, and once for those who get the same: sends of it follow on one another.
    #[inline]
    pub fn shares(&self) -> bool {
        self.shares
    }

    /// Whether all it does is to send, out of the program's buffers, and no node waits for another.
    #[inline]
    pub fn only_sends(&self) -> bool {
        self.only_sends
    }

    /// For each node, how many nodes it waits for.
    pub fn indegree(&self) -> &[u32] {
        &self.indegree
    }

    /// The temporary buffers that the executor has to provide.
    pub fn temps(&self) -> &[Temp] {
        &self.temps
    }

    /// Checks that the graph can be run: acyclic, edges consistent, peers exist, regions within the
    /// declared buffers. (Regions of alltoallw's types are checked for the index of the type only.)
    pub fn verify(&self) -> Result<(), Invalid> {
        self.verify_order()?;
        for (id, node) in self.nodes.iter().enumerate() {
            self.verify_node(id as NodeId, node)?;
        }
        Ok(())
    }

    fn verify_order(&self) -> Result<(), Invalid> {
        let n = self.nodes.len();
        let sizes = self.first.len() == n + 1 && self.indegree.len() == n;
        let ends = self.first.first() == Some(&0)
            && self
                .first
                .last()
                .is_some_and(|&l| l as usize == self.next.len());
        if !sizes
            || !ends
            || self.first.windows(2).any(|w| w[0] > w[1])
            || self.next.iter().any(|&s| s as usize >= n)
        {
            return Err(Invalid::Edges);
        }
        let mut left = vec![0u32; n];
        for &s in &self.next {
            left[s as usize] += 1;
        }
        if left != self.indegree {
            return Err(Invalid::Edges);
        }
        let mut order: Vec<NodeId> = (0..n as u32).filter(|&i| left[i as usize] == 0).collect();
        let mut done = 0;
        while done < order.len() {
            for &s in self.successors(order[done]) {
                left[s as usize] -= 1;
                if left[s as usize] == 0 {
                    order.push(s);
                }
            }
            done += 1;
        }
        if done == n {
            Ok(())
        } else {
            Err(Invalid::Cycle)
        }
    }

    fn verify_node(&self, id: NodeId, node: &Node) -> Result<(), Invalid> {
        let message = matches!(node.kind, Kind::Send | Kind::Recv);
        if message && (node.peer >= self.team.size || node.tag > MAX_TAG) {
            return Err(Invalid::Peer(id));
        }
        for region in [&node.src, &node.dst] {
            if !self.inside(region) {
                return Err(Invalid::Bounds(id));
            }
        }
        match (self.bytes(&node.src), self.bytes(&node.dst)) {
            (Some(a), Some(b)) if !message && a != b => Err(Invalid::Lengths(id)),
            _ => Ok(()),
        }
    }

    fn shape(&self, slot: TypeSlot) -> Option<Shape> {
        match slot {
            TypeSlot::Bytes => Some(Shape::BYTE),
            TypeSlot::Send => Some(self.send.ty),
            TypeSlot::Recv => Some(self.recv.ty),
            TypeSlot::SendOf(_) | TypeSlot::RecvOf(_) => None,
        }
    }

    /// Bytes of data of a region; `None` where only the executor knows the type.
    pub fn bytes(&self, region: &Region) -> Option<u64> {
        self.shape(region.ty)?.size.checked_mul(region.count)
    }

    /// Bytes of data of one element of a region; `None` where only the executor knows the type.
    pub fn unit(&self, region: &Region) -> Option<u64> {
        Some(self.shape(region.ty)?.size)
    }

    /// A region as plain bytes: from where, counted from its buffer's address, and how many. `None`
    /// where its elements have gaps or only the executor knows the type.
    pub fn plain(&self, region: &Region) -> Option<(i64, u64)> {
        if region.count == 0 {
            return Some((0, 0));
        }
        let shape = self.shape(region.ty)?;
        let bytes = self.bytes(region)?;
        shape.contiguous.then_some((region.offset, bytes))
    }

    /// The bytes of a buffer that nodes may touch, counted from its address; empty for a temporary
    /// buffer that does not exist.
    pub fn limits(&self, buf: BufId) -> (i64, i64) {
        match buf {
            BufId::Send => (self.send.low, self.send.high),
            BufId::Recv => (self.recv.low, self.recv.high),
            BufId::Temp(k) => match self.temps.get(k as usize) {
                Some(t) => (t.low, t.low + t.bytes as i64),
                None => (0, 0),
            },
        }
    }

    fn inside(&self, region: &Region) -> bool {
        if region.count == 0 {
            return true;
        }
        let shape = match (region.ty, self.shape(region.ty)) {
            (TypeSlot::SendOf(i) | TypeSlot::RecvOf(i), _) => return i < self.types,
            (_, Some(shape)) => shape,
            (_, None) => return false,
        };
        if let BufId::Temp(k) = region.buf
            && self.temps.get(k as usize).is_none_or(|t| t.ty != region.ty)
        {
            return false;
        }
        let (low, high) = self.limits(region.buf);
        let start = i128::from(region.offset) + i128::from(shape.low(region.count));
        let end = start + i128::from(shape.span(region.count));
        i128::from(low) <= start && end <= i128::from(high)
    }
}

/// Builds a graph node by node.
#[derive(Debug)]
pub struct Builder {
    graph: Graph,
    edges: Vec<(NodeId, NodeId)>,
}

impl Builder {
    /// An empty graph for one process.
    pub fn new(team: Team) -> Builder {
        Builder {
            graph: Graph {
                team,
                nodes: Vec::new(),
                first: Vec::new(),
                next: Vec::new(),
                indegree: Vec::new(),
                temps: Vec::new(),
                types: team.size,
                lends: false,
                shares: false,
                only_sends: false,
                send: Limit::NONE,
                recv: Limit::NONE,
            },
            edges: Vec::new(),
        }
    }

    /// Receivers are to copy what it sends from where it lies, where they can.
    pub fn lend(&mut self) {
        self.graph.lends = true;
    }

    /// What is sent is to lie where its receivers read it, once for those who get the same.
    pub fn share(&mut self) {
        self.graph.shares = true;
    }

    /// There are so many types for [`TypeSlot::SendOf`] and [`TypeSlot::RecvOf`], if not one for each process.
    pub fn types(&mut self, types: u32) {
        self.graph.types = types;
    }

    /// The send buffer holds `count` elements of `ty`.
    pub fn send_buffer(&mut self, ty: Shape, count: u64) {
        self.send_block(ty, 0, count);
    }

    /// The receive buffer holds `count` elements of `ty`; with a count of zero this only tells the
    /// type.
    pub fn recv_buffer(&mut self, ty: Shape, count: u64) {
        self.recv_block(ty, 0, count);
    }

    /// The send buffer holds, among others, `count` elements of `ty` from element `disp` on.
    pub fn send_block(&mut self, ty: Shape, disp: i64, count: u64) {
        widen(&mut self.graph.send, ty, disp, count);
    }

    /// The receive buffer holds, among others, `count` elements of `ty` from element `disp` on.
    pub fn recv_block(&mut self, ty: Shape, disp: i64, count: u64) {
        widen(&mut self.graph.recv, ty, disp, count);
    }

    fn temp(&mut self, temp: Temp) -> BufId {
        self.graph.temps.push(temp);
        BufId::Temp(self.graph.temps.len() as u32 - 1)
    }

    /// A temporary buffer for packed data.
    pub fn temp_bytes(&mut self, bytes: u64) -> BufId {
        self.temp(Temp {
            bytes,
            ty: TypeSlot::Bytes,
            low: 0,
        })
    }

    /// A temporary buffer for `count` elements of the receive type, which is `ty`.
    pub fn temp_elements(&mut self, ty: Shape, count: u64) -> BufId {
        self.temp(Temp {
            bytes: ty.span(count),
            ty: TypeSlot::Recv,
            low: ty.low(count),
        })
    }

    fn push(&mut self, node: Node, after: &[NodeId]) -> NodeId {
        let id = self.graph.nodes.len() as NodeId;
        self.graph.nodes.push(node);
        self.edges
            .extend(after.iter().filter(|&&a| a != START).map(|&a| (a, id)));
        id
    }

    /// Sends `src` to `peer`.
    pub fn send(&mut self, peer: u32, tag: u32, src: Region, after: &[NodeId]) -> NodeId {
        self.push(
            Node {
                kind: Kind::Send,
                peer,
                tag,
                src,
                dst: Region::EMPTY,
            },
            after,
        )
    }

    /// Receives `dst` from `peer`.
    pub fn recv(&mut self, peer: u32, tag: u32, dst: Region, after: &[NodeId]) -> NodeId {
        self.push(
            Node {
                kind: Kind::Recv,
                peer,
                tag,
                src: Region::EMPTY,
                dst,
            },
            after,
        )
    }

    /// `dst = src op dst`.
    pub fn calc(&mut self, src: Region, dst: Region, after: &[NodeId]) -> NodeId {
        self.push(
            Node {
                kind: Kind::Calc,
                peer: 0,
                tag: 0,
                src,
                dst,
            },
            after,
        )
    }

    /// Copies `src` to `dst`.
    pub fn copy(&mut self, src: Region, dst: Region, after: &[NodeId]) -> NodeId {
        self.push(
            Node {
                kind: Kind::Copy,
                peer: 0,
                tag: 0,
                src,
                dst,
            },
            after,
        )
    }

    /// A node that does nothing but wait for `after` (a copy of no data), so that many nodes can
    /// wait for many others without an edge for each pair.
    pub fn join(&mut self, after: &[NodeId]) -> NodeId {
        match *after {
            [] => START,
            [one] => one,
            _ => self.copy(Region::EMPTY, Region::EMPTY, after),
        }
    }

    /// The graph.
    pub fn finish(self) -> Graph {
        let Builder {
            mut graph,
            mut edges,
        } = self;
        edges.sort_unstable();
        edges.dedup();
        let n = graph.nodes.len();
        graph.first = vec![0; n + 1];
        graph.indegree = vec![0; n];
        graph.next = Vec::with_capacity(edges.len());
        for &(from, to) in &edges {
            graph.indegree[to as usize] += 1;
            // An edge from a node that does not exist stays in the count: `verify` finds it.
            if let Some(successors) = graph.first.get_mut(from as usize + 1) {
                *successors += 1;
                graph.next.push(to);
            }
        }
        for i in 0..n {
            graph.first[i + 1] += graph.first[i];
        }
        let gives =
            |node: &Node| node.kind == Kind::Send && !matches!(node.src.buf, BufId::Temp(_));
        graph.only_sends = edges.is_empty() && graph.nodes.iter().all(gives);
        graph
    }
}

fn widen(limit: &mut Limit, ty: Shape, disp: i64, count: u64) {
    if *limit == Limit::NONE {
        *limit = Limit { ty, ..Limit::NONE };
    }
    if count == 0 {
        return;
    }
    let start = ty.at(disp) + ty.low(count);
    let end = start + ty.span(count) as i64;
    if limit.low == limit.high {
        (limit.low, limit.high) = (start, end);
    } else {
        limit.low = limit.low.min(start);
        limit.high = limit.high.max(end);
    }
}
