//! Gather and gatherv.
//!
//! In place (at the root) the root's own block already lies in the receive buffer. Types may differ
//! between processes; blocks have equal signatures, so inner nodes of the tree forward packed bytes.

use crate::graph::{BufId, Builder, Graph, NodeId, Region, TypeSlot};
use crate::shape::{Block, Part, Shape, Team};
use crate::tree::{absolute, children, parent, relative, subtree};

/// Parameters of a gather.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Params {
    /// This process.
    pub team: Team,
    /// Rank that gets the data.
    pub root: u32,
    /// What this process sends (not read at the root when in place).
    pub send: Part,
    /// What the root receives from each process (read at the root only).
    pub recv: Part,
    /// Whether the root's block already lies in its receive buffer.
    pub in_place: bool,
}

/// The algorithms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// Up a binomial tree; inner processes forward their subtree's blocks.
    Binomial,
    /// Every process sends to the root.
    Linear,
}

/// Bytes of a block up to which the root's per-message cost outweighs forwarding. A block is
/// forwarded `log2(size)/2` times on average; below an eager message's size that costs less than
/// another message at the root.
pub const BINOMIAL_MAX: u64 = 2 << 10;

/// Processes below which a tree saves the root no more than one message.
const TREE_MIN: u32 = 4;

/// The algorithm for blocks of `bytes`, each of which goes straight where that is wanted.
pub(crate) fn choose_by(team: Team, bytes: u64) -> Algorithm {
    if team.size >= TREE_MIN && !team.straight && bytes <= BINOMIAL_MAX {
        Algorithm::Binomial
    } else {
        Algorithm::Linear
    }
}

/// The algorithm for these parameters; the same on every process.
pub fn choose(p: &Params) -> Algorithm {
    choose_by(p.team, p.block())
}

impl Params {
    /// Bytes of each process's block; the same on every process.
    pub fn block(&self) -> u64 {
        if self.team.rank == self.root {
            self.recv.bytes()
        } else {
            self.send.bytes()
        }
    }
}

/// The graph of the chosen algorithm.
pub fn graph(p: &Params) -> Graph {
    build(p, choose(p))
}

/// The graph of a given algorithm (which has to be the same on every process).
pub fn build(p: &Params, algorithm: Algorithm) -> Graph {
    let mut b = Builder::new(p.team);
    let root = p.team.rank == p.root;
    if !(root && p.in_place) {
        b.send_buffer(p.send.ty, p.send.count);
    }
    if root {
        b.recv_buffer(p.recv.ty, p.recv.count * u64::from(p.team.size));
    }
    if p.block() > 0 {
        if root && !p.in_place {
            let own = p.recv.region(BufId::Recv, TypeSlot::Recv, p.root, 1);
            b.copy(p.send.region(BufId::Send, TypeSlot::Send, 0, 1), own, &[]);
        }
        match algorithm {
            Algorithm::Binomial => binomial(&mut b, p),
            Algorithm::Linear => linear(&mut b, p),
        }
    }
    b.finish()
}

fn linear(b: &mut Builder, p: &Params) {
    if p.team.rank != p.root {
        b.send(
            p.root,
            0,
            p.send.region(BufId::Send, TypeSlot::Send, 0, 1),
            &[],
        );
        return;
    }
    for i in 1..p.team.size {
        let from = p.team.right(i);
        b.recv(
            from,
            0,
            p.recv.region(BufId::Recv, TypeSlot::Recv, from, 1),
            &[],
        );
    }
}

fn binomial(b: &mut Builder, p: &Params) {
    let (size, root) = (p.team.size, p.root);
    let r = relative(p.team.rank, root, size);
    let block = p.block();
    if r == 0 {
        for m in children(0, size) {
            receive_subtree(b, p, m);
        }
        return;
    }
    let up = absolute(parent(r), root, size);
    let own = p.send.region(BufId::Send, TypeSlot::Send, 0, 1);
    let blocks = subtree(r, size);
    if blocks == 1 {
        b.send(up, 0, own, &[]);
        return;
    }
    let temp = b.temp_bytes(block * u64::from(blocks));
    let part =
        |first: u32, n: u32| Region::bytes(temp, block * u64::from(first), block * u64::from(n));
    let mut have: Vec<NodeId> = children(r, size)
        .map(|m| {
            b.recv(
                absolute(r + m, root, size),
                0,
                part(m, subtree(r + m, size)),
                &[],
            )
        })
        .collect();
    have.push(b.copy(own, part(0, 1), &[]));
    b.send(up, 0, part(0, blocks), &have);
}

/// At the root: the blocks of relative ranks `[m, 2m)`, which may wrap round in the buffer.
fn receive_subtree(b: &mut Builder, p: &Params, m: u32) {
    let (size, root) = (p.team.size, p.root);
    let (from, blocks) = (absolute(m, root, size), subtree(m, size));
    let typed = |first: u32, n: u32| p.recv.region(BufId::Recv, TypeSlot::Recv, first, n);
    let head = size - from;
    if blocks <= head {
        b.recv(from, 0, typed(from, blocks), &[]);
        return;
    }
    let block = p.recv.bytes();
    let (cut, all) = (block * u64::from(head), block * u64::from(blocks));
    let temp = b.temp_bytes(all);
    let recv = b.recv(from, 0, Region::bytes(temp, 0, all), &[]);
    b.copy(Region::bytes(temp, 0, cut), typed(from, head), &[recv]);
    b.copy(
        Region::bytes(temp, cut, all - cut),
        typed(0, blocks - head),
        &[recv],
    );
}

/// Parameters of a gatherv.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ParamsV<'a> {
    /// This process.
    pub team: Team,
    /// Rank that gets the data.
    pub root: u32,
    /// What this process sends (not read at the root when in place).
    pub send: Part,
    /// One block per process (read at the root only).
    pub recv: &'a [Block],
    /// Type of the blocks (read at the root only).
    pub recv_ty: Shape,
    /// Whether the root's block already lies in its receive buffer.
    pub in_place: bool,
}

/// Gatherv: every process sends to the root, as only the root knows the lengths.
pub fn graph_v(p: &ParamsV) -> Graph {
    let mut b = Builder::new(p.team);
    let own = p.send.region(BufId::Send, TypeSlot::Send, 0, 1);
    if p.team.rank != p.root {
        b.send_buffer(p.send.ty, p.send.count);
        if p.send.bytes() > 0 {
            b.send(p.root, 0, own, &[]);
        }
        return b.finish();
    }
    for block in p.recv {
        b.recv_block(p.recv_ty, block.disp, block.count);
    }
    for i in 1..p.team.size {
        let from = p.team.right(i);
        let block = &p.recv[from as usize];
        if p.recv_ty.bytes(block.count) > 0 {
            b.recv(
                from,
                0,
                block.region(BufId::Recv, TypeSlot::Recv, &p.recv_ty),
                &[],
            );
        }
    }
    let block = &p.recv[p.root as usize];
    if !p.in_place && p.send.bytes() > 0 {
        b.send_buffer(p.send.ty, p.send.count);
        b.copy(
            own,
            block.region(BufId::Recv, TypeSlot::Recv, &p.recv_ty),
            &[],
        );
    }
    b.finish()
}
