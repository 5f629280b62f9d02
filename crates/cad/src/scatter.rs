//! Scatter and scatterv: gather in the other direction.
//!
//! In place (at the root) the root's own block stays in the send buffer.

use crate::gather;
use crate::graph::{BufId, Builder, Graph, Region, TypeSlot};
use crate::shape::{Block, Part, Shape, Team};
use crate::tree::{absolute, children, parent, relative, subtree};

pub use crate::gather::Algorithm;

/// Parameters of a scatter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Params {
    /// This process.
    pub team: Team,
    /// Rank that has the data.
    pub root: u32,
    /// What the root sends to each process (read at the root only).
    pub send: Part,
    /// What this process receives (not read at the root when in place).
    pub recv: Part,
    /// Whether the root's block stays where it is.
    pub in_place: bool,
}

/// The algorithm for these parameters; the same on every process. The trade is gather's.
pub fn choose(p: &Params) -> Algorithm {
    gather::choose_by(p.team, p.block())
}

impl Params {
    /// Bytes of each process's block; the same on every process.
    pub fn block(&self) -> u64 {
        if self.team.rank == self.root {
            self.send.bytes()
        } else {
            self.recv.bytes()
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
    if root {
        b.send_buffer(p.send.ty, p.send.count * u64::from(p.team.size));
    }
    if !(root && p.in_place) {
        b.recv_buffer(p.recv.ty, p.recv.count);
    }
    if p.block() > 0 {
        match algorithm {
            Algorithm::Binomial => binomial(&mut b, p),
            Algorithm::Linear => linear(&mut b, p),
        }
        if root && !p.in_place {
            let own = p.send.region(BufId::Send, TypeSlot::Send, p.root, 1);
            b.copy(own, p.recv.region(BufId::Recv, TypeSlot::Recv, 0, 1), &[]);
        }
    }
    b.finish()
}

fn linear(b: &mut Builder, p: &Params) {
    if p.team.rank != p.root {
        b.recv(
            p.root,
            0,
            p.recv.region(BufId::Recv, TypeSlot::Recv, 0, 1),
            &[],
        );
        return;
    }
    for i in 1..p.team.size {
        let to = p.team.right(i);
        b.send(
            to,
            0,
            p.send.region(BufId::Send, TypeSlot::Send, to, 1),
            &[],
        );
    }
}

fn binomial(b: &mut Builder, p: &Params) {
    let (size, root) = (p.team.size, p.root);
    let r = relative(p.team.rank, root, size);
    let block = p.block();
    if r == 0 {
        for m in children(0, size).rev() {
            send_subtree(b, p, m);
        }
        return;
    }
    let up = absolute(parent(r), root, size);
    let own = p.recv.region(BufId::Recv, TypeSlot::Recv, 0, 1);
    let blocks = subtree(r, size);
    if blocks == 1 {
        b.recv(up, 0, own, &[]);
        return;
    }
    let temp = b.temp_bytes(block * u64::from(blocks));
    let part =
        |first: u32, n: u32| Region::bytes(temp, block * u64::from(first), block * u64::from(n));
    let have = b.recv(up, 0, part(0, blocks), &[]);
    for m in children(r, size).rev() {
        b.send(
            absolute(r + m, root, size),
            0,
            part(m, subtree(r + m, size)),
            &[have],
        );
    }
    b.copy(part(0, 1), own, &[have]);
}

/// At the root: the blocks of relative ranks `[m, 2m)`, which may wrap round in the buffer.
fn send_subtree(b: &mut Builder, p: &Params, m: u32) {
    let (size, root) = (p.team.size, p.root);
    let (to, blocks) = (absolute(m, root, size), subtree(m, size));
    let typed = |first: u32, n: u32| p.send.region(BufId::Send, TypeSlot::Send, first, n);
    let head = size - to;
    if blocks <= head {
        b.send(to, 0, typed(to, blocks), &[]);
        return;
    }
    let block = p.send.bytes();
    let (cut, all) = (block * u64::from(head), block * u64::from(blocks));
    let temp = b.temp_bytes(all);
    let high = b.copy(typed(to, head), Region::bytes(temp, 0, cut), &[]);
    let low = b.copy(
        typed(0, blocks - head),
        Region::bytes(temp, cut, all - cut),
        &[],
    );
    b.send(to, 0, Region::bytes(temp, 0, all), &[high, low]);
}

/// Parameters of a scatterv.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ParamsV<'a> {
    /// This process.
    pub team: Team,
    /// Rank that has the data.
    pub root: u32,
    /// One block per process (read at the root only).
    pub send: &'a [Block],
    /// Type of the blocks (read at the root only).
    pub send_ty: Shape,
    /// What this process receives (not read at the root when in place).
    pub recv: Part,
    /// Whether the root's block stays where it is.
    pub in_place: bool,
}

/// Scatterv: the root sends to every process, as only the root knows the lengths.
pub fn graph_v(p: &ParamsV) -> Graph {
    let mut b = Builder::new(p.team);
    let own = p.recv.region(BufId::Recv, TypeSlot::Recv, 0, 1);
    if p.team.rank != p.root {
        b.recv_buffer(p.recv.ty, p.recv.count);
        if p.recv.bytes() > 0 {
            b.recv(p.root, 0, own, &[]);
        }
        return b.finish();
    }
    for block in p.send {
        b.send_block(p.send_ty, block.disp, block.count);
    }
    for i in 1..p.team.size {
        let to = p.team.right(i);
        let block = &p.send[to as usize];
        if p.send_ty.bytes(block.count) > 0 {
            b.send(
                to,
                0,
                block.region(BufId::Send, TypeSlot::Send, &p.send_ty),
                &[],
            );
        }
    }
    let block = &p.send[p.root as usize];
    if !p.in_place && p.send_ty.bytes(block.count) > 0 {
        b.recv_buffer(p.recv.ty, p.recv.count);
        b.copy(
            block.region(BufId::Send, TypeSlot::Send, &p.send_ty),
            own,
            &[],
        );
    }
    b.finish()
}
