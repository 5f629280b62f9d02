//! A simulator: some ranks in one process execute graphs over byte buffers, with nodes started,
//! messages matched and completions delivered in random order.
//!
//! It is harsher than any executor: receive buffers are poisoned when a receive starts, sent data
//! may be read late and must not have changed, sends may wait for their receive.

#![allow(dead_code, reason = "each test file uses its own part")]

use cad::{BufId, Graph, Kind, NodeId, Region, Run, Shape, TypeSlot};
use std::collections::{HashMap, VecDeque};

/// xorshift64*: small, seeded, good enough to shuffle.
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Rng {
        Rng(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }
    pub fn below(&mut self, n: usize) -> usize {
        ((self.next() >> 33) as usize) % n
    }
    pub fn coin(&mut self) -> bool {
        self.next() >> 63 == 1
    }
}

/// A datatype as a list of (displacement, length).
#[derive(Clone, Debug)]
pub struct Ty {
    pub blocks: Vec<(i64, usize)>,
    pub extent: i64,
}

impl Ty {
    pub fn flat(n: usize) -> Ty {
        Ty {
            blocks: vec![(0, n)],
            extent: n as i64,
        }
    }
    /// The same `n` bytes in two pieces with gaps before, between and after.
    pub fn gappy(n: usize) -> Ty {
        let half = n / 2;
        Ty {
            blocks: vec![(4, half), (8 + half as i64, n - half)],
            extent: n as i64 + 13,
        }
    }
    /// As `gappy`, elements laid out downwards.
    pub fn downward(n: usize) -> Ty {
        Ty {
            extent: -(n as i64) - 10,
            ..Ty::gappy(n)
        }
    }
    pub fn size(&self) -> usize {
        self.blocks.iter().map(|b| b.1).sum()
    }
    pub fn true_lb(&self) -> i64 {
        self.blocks.iter().map(|b| b.0).min().unwrap_or(0)
    }
    pub fn true_ub(&self) -> i64 {
        self.blocks
            .iter()
            .map(|b| b.0 + b.1 as i64)
            .max()
            .unwrap_or(0)
    }
    pub fn shape(&self) -> Shape {
        Shape {
            size: self.size() as u64,
            extent: self.extent,
            true_extent: (self.true_ub() - self.true_lb()) as u64,
            contiguous: self.blocks == [(0, self.size())] && self.extent == self.size() as i64,
        }
    }
}

/// Memory whose address zero may lie inside it.
#[derive(Clone, Debug, PartialEq)]
pub struct Mem {
    pub bytes: Vec<u8>,
    pub origin: i64,
}

impl Mem {
    /// Random bytes for elements `[first, first + count)` of `ty`, with a guard on both sides.
    pub fn elements(rng: &mut Rng, ty: &Ty, first: i64, count: u64) -> Mem {
        let ends = [first, first + (count as i64 - 1).max(0)].map(|i| i * ty.extent);
        let low = ends[0].min(ends[1]).min(0) - 16;
        let high = ends[0].max(ends[1]).max(0) + ty.true_ub().max(0) + 16;
        Mem {
            bytes: (low..high).map(|_| rng.next() as u8).collect(),
            origin: -low,
        }
    }
    pub fn pack(&self, ty: &Ty, offset: i64, count: u64) -> Vec<u8> {
        let mut out = Vec::with_capacity(ty.size() * count as usize);
        for i in 0..count as i64 {
            for &(d, n) in &ty.blocks {
                let at = (self.origin + offset + i * ty.extent + d) as usize;
                out.extend_from_slice(&self.bytes[at..at + n]);
            }
        }
        out
    }
    pub fn unpack(&mut self, ty: &Ty, offset: i64, count: u64, data: &[u8]) {
        assert_eq!(data.len(), ty.size() * count as usize);
        let mut done = 0;
        for i in 0..count as i64 {
            for &(d, n) in &ty.blocks {
                let at = (self.origin + offset + i * ty.extent + d) as usize;
                self.bytes[at..at + n].copy_from_slice(&data[done..done + n]);
                done += n;
            }
        }
    }
}

/// One rank: its graph and its memory.
pub struct Rank {
    pub graph: Graph,
    pub send: Mem,
    pub recv: Mem,
    pub send_ty: Ty,
    pub recv_ty: Ty,
    pub send_w: Vec<Ty>,
    pub recv_w: Vec<Ty>,
    temps: Vec<Mem>,
}

impl Rank {
    pub fn new(
        rng: &mut Rng,
        graph: Graph,
        send: Mem,
        recv: Mem,
        send_ty: Ty,
        recv_ty: Ty,
    ) -> Rank {
        let temps = graph
            .temps()
            .iter()
            .map(|t| Mem {
                bytes: (0..t.bytes).map(|_| rng.next() as u8).collect(),
                origin: match t.ty {
                    TypeSlot::Bytes => 0,
                    _ => -t.low - recv_ty.true_lb(),
                },
            })
            .collect();
        Rank {
            graph,
            send,
            recv,
            send_ty,
            recv_ty,
            send_w: vec![],
            recv_w: vec![],
            temps,
        }
    }
    fn ty(&self, r: &Region) -> Ty {
        match r.ty {
            TypeSlot::Bytes => Ty::flat(1),
            TypeSlot::Send => self.send_ty.clone(),
            TypeSlot::Recv => self.recv_ty.clone(),
            TypeSlot::SendOf(i) => self.send_w[i as usize].clone(),
            TypeSlot::RecvOf(i) => self.recv_w[i as usize].clone(),
        }
    }
    fn read(&self, r: &Region) -> Vec<u8> {
        let ty = self.ty(r);
        let mem = match r.buf {
            BufId::Send => &self.send,
            BufId::Recv => &self.recv,
            BufId::Temp(k) => &self.temps[k as usize],
        };
        mem.pack(&ty, r.offset, r.count)
    }
    fn write(&mut self, r: &Region, data: &[u8]) {
        let ty = self.ty(r);
        let mem = match r.buf {
            BufId::Send => panic!("a graph writes the send buffer"),
            BufId::Recv => &mut self.recv,
            BufId::Temp(k) => &mut self.temps[k as usize],
        };
        mem.unpack(&ty, r.offset, r.count, data);
    }
    fn length(&self, r: &Region) -> usize {
        self.ty(r).size() * r.count as usize
    }
}

/// `inout = in op inout` on packed elements of 16 bytes.
pub type Op = fn([u64; 2], [u64; 2]) -> [u64; 2];

/// Composition of affine maps: associative, does not commute.
pub fn compose(x: [u64; 2], y: [u64; 2]) -> [u64; 2] {
    [
        x[0].wrapping_mul(y[0]),
        x[1].wrapping_mul(y[0]).wrapping_add(y[1]),
    ]
}

/// A sum: commutes.
pub fn sum(x: [u64; 2], y: [u64; 2]) -> [u64; 2] {
    [x[0].wrapping_add(y[0]), x[1].wrapping_add(y[1])]
}

/// `low op high` on packed elements.
pub fn combine(op: Op, low: &[u8], high: &[u8]) -> Vec<u8> {
    let word = |c: &[u8], i: usize| u64::from_le_bytes(c[i..i + 8].try_into().unwrap());
    low.chunks(16)
        .zip(high.chunks(16))
        .flat_map(|(a, b)| op([word(a, 0), word(a, 8)], [word(b, 0), word(b, 8)]))
        .flat_map(u64::to_le_bytes)
        .collect()
}

struct Sent {
    node: NodeId,
    data: Vec<u8>,
    /// Whether the send has completed already (its data were buffered).
    eager: bool,
}

type Channel = (usize, usize, u32);

struct World<'a> {
    ranks: &'a mut [Rank],
    runs: Vec<Run>,
    ready: Vec<(usize, NodeId)>,
    local: Vec<(usize, NodeId)>,
    sends: HashMap<Channel, VecDeque<Sent>>,
    recvs: HashMap<Channel, VecDeque<NodeId>>,
    op: Op,
}

/// Runs all graphs to the end; panics at a deadlock, a race or a length that differs.
pub fn execute(rng: &mut Rng, ranks: &mut [Rank], op: Op) {
    for r in ranks.iter() {
        r.graph.verify().unwrap();
    }
    let runs = ranks.iter().map(|r| Run::new(&r.graph)).collect();
    let mut w = World {
        ranks,
        runs,
        ready: vec![],
        local: vec![],
        sends: HashMap::new(),
        recvs: HashMap::new(),
        op,
    };
    for i in 0..w.ranks.len() {
        w.collect(i);
    }
    loop {
        let mut pairs: Vec<Channel> = w
            .recvs
            .keys()
            .filter(|c| w.sends.contains_key(*c))
            .copied()
            .collect();
        pairs.sort_unstable();
        let choices = w.ready.len() + w.local.len() + pairs.len();
        if choices == 0 {
            break;
        }
        let pick = rng.below(choices);
        if pick < w.ready.len() {
            let (rank, node) = w.ready.swap_remove(pick);
            w.start(rng, rank, node);
        } else if pick < w.ready.len() + w.local.len() {
            let (rank, node) = w.local.swap_remove(pick - w.ready.len());
            w.perform(rank, node);
            w.complete(rank, node);
        } else {
            w.transfer(pairs[pick - w.ready.len() - w.local.len()]);
        }
    }
    for (i, run) in w.runs.iter().enumerate() {
        assert!(
            run.is_done(),
            "deadlock: rank {i}, {} in flight",
            run.in_flight()
        );
    }
    assert!(w.sends.is_empty(), "messages nobody received");
}

impl World<'_> {
    fn collect(&mut self, rank: usize) {
        while let Some(n) = self.runs[rank].next_ready() {
            self.ready.push((rank, n));
        }
    }

    fn complete(&mut self, rank: usize, node: NodeId) {
        self.runs[rank].complete(&self.ranks[rank].graph, node);
        self.collect(rank);
    }

    fn start(&mut self, rng: &mut Rng, rank: usize, id: NodeId) {
        let node = *self.ranks[rank].graph.node(id);
        match node.kind {
            Kind::Send => {
                let eager = rng.coin();
                let data = self.ranks[rank].read(&node.src);
                let channel = (rank, node.peer as usize, node.tag);
                self.sends.entry(channel).or_default().push_back(Sent {
                    node: id,
                    data,
                    eager,
                });
                if eager {
                    self.complete(rank, id);
                }
            }
            Kind::Recv => {
                let poison = vec![0xDD; self.ranks[rank].length(&node.dst)];
                self.ranks[rank].write(&node.dst, &poison);
                let channel = (node.peer as usize, rank, node.tag);
                self.recvs.entry(channel).or_default().push_back(id);
            }
            Kind::Calc | Kind::Copy => self.local.push((rank, id)),
        }
    }

    fn perform(&mut self, rank: usize, id: NodeId) {
        let node = *self.ranks[rank].graph.node(id);
        let rank = &mut self.ranks[rank];
        let mut data = rank.read(&node.src);
        if node.kind == Kind::Calc {
            data = combine(self.op, &data, &rank.read(&node.dst));
        }
        rank.write(&node.dst, &data);
    }

    fn transfer(&mut self, channel: Channel) {
        let (from, to, _) = channel;
        let sent = pop(&mut self.sends, channel);
        let recv = pop(&mut self.recvs, channel);
        let dst = self.ranks[to].graph.node(recv).dst;
        assert_eq!(
            self.ranks[to].length(&dst),
            sent.data.len(),
            "lengths on {channel:?}"
        );
        if !sent.eager {
            let src = self.ranks[from].graph.node(sent.node).src;
            assert!(
                self.ranks[from].read(&src) == sent.data,
                "data changed while being sent"
            );
            self.complete(from, sent.node);
        }
        self.ranks[to].write(&dst, &sent.data);
        self.complete(to, recv);
    }
}

fn pop<T>(map: &mut HashMap<Channel, VecDeque<T>>, channel: Channel) -> T {
    let queue = map.get_mut(&channel).unwrap();
    let item = queue.pop_front().unwrap();
    if queue.is_empty() {
        map.remove(&channel);
    }
    item
}

/// Checks without running: nodes that touch the same bytes, one of them writing, are ordered, and
/// so are messages that can't be told apart.
pub fn check_order(rank: &Rank) {
    let g = &rank.graph;
    let n = g.nodes().len();
    let words = n.div_ceil(64);
    let mut reach = vec![0u64; n * words];
    let mut order: Vec<NodeId> = Vec::new();
    let mut run = Run::new(g);
    while let Some(id) = run.next_ready() {
        order.push(id);
        run.complete(g, id);
    }
    for &id in order.iter().rev() {
        let row = id as usize * words;
        for &s in g.successors(id) {
            reach[row + s as usize / 64] |= 1 << (s % 64);
            for k in 0..words {
                reach[row + k] |= reach[s as usize * words + k];
            }
        }
    }
    let before = |a: usize, b: usize| reach[a * words + b / 64] >> (b % 64) & 1 == 1;
    let extent = |r: &Region| {
        let ty = rank.ty(r);
        let ends = [0, (r.count as i64 - 1).max(0) * ty.extent];
        let low = r.offset + ends[0].min(ends[1]) + ty.true_lb();
        let high = r.offset + ends[0].max(ends[1]) + ty.true_ub();
        (r.buf, low, if rank.length(r) == 0 { low } else { high })
    };
    let clash = |a: &Region, b: &Region| {
        let ((x, a0, a1), (y, b0, b1)) = (extent(a), extent(b));
        x == y && a0 < b1 && b0 < a1 && a0 < a1 && b0 < b1
    };
    for (i, a) in g.nodes().iter().enumerate() {
        for (j, b) in g.nodes().iter().enumerate().take(i) {
            let message = matches!(a.kind, Kind::Send | Kind::Recv);
            let same = message && a.kind == b.kind && (a.peer, a.tag) == (b.peer, b.tag);
            let race = clash(&a.dst, &b.dst) || clash(&a.dst, &b.src) || clash(&a.src, &b.dst);
            assert!(
                !(same || race) || before(i, j) || before(j, i),
                "nodes {j} and {i} are not ordered: {b:?} {a:?}"
            );
        }
    }
}
