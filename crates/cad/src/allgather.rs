//! Allgather and allgatherv.
//!
//! In place the own block already lies in the receive buffer. Both share the ring and Bruck's
//! algorithm, written over a list of blocks.

use crate::graph::{BufId, Builder, Graph, MAX_TAG, NodeId, Region, START, TypeSlot};
use crate::shape::{Block, Part, Shape, Team};
use crate::straight::{others, send_to};

/// Parameters of an allgather.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Params {
    /// This process.
    pub team: Team,
    /// What this process sends (not read when in place).
    pub send: Part,
    /// What is received from each process.
    pub recv: Part,
    /// Whether the own block already lies in the receive buffer.
    pub in_place: bool,
}

/// Parameters of an allgatherv.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ParamsV<'a> {
    /// This process.
    pub team: Team,
    /// What this process sends (not read when in place).
    pub send: Part,
    /// One block per process.
    pub recv: &'a [Block],
    /// Type of the blocks.
    pub recv_ty: Shape,
    /// Whether the own block already lies in the receive buffer.
    pub in_place: bool,
}

/// The algorithms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// Pairs at doubling distances exchange all they have. Equal blocks and a power of two of
    /// processes only.
    RecursiveDoubling,
    /// Bruck's dissemination: `ceil(log2 size)` rounds for any size, through a temporary buffer.
    Bruck,
    /// Each block goes round a ring: `size - 1` steps, neighbours only, no temporary buffer.
    Ring,
    /// Each process sends its block to all others.
    Straight,
}

/// Bytes of all blocks together up to which fewer rounds win over Bruck's additional copy: Thakur,
/// Rabenseifner and Gropp (2005), 80 KiB.
pub const BRUCK_MAX: u64 = 80 << 10;

/// Bytes of all blocks together up to which recursive doubling, which copies nothing, wins over
/// the ring: the same authors' 512 KiB.
pub const DOUBLING_MAX: u64 = 512 << 10;

/// The algorithm for these parameters; the same on every process.
pub fn choose(p: &Params) -> Algorithm {
    let total = p.recv.bytes() * u64::from(p.team.size);
    if p.team.straight {
        Algorithm::Straight
    } else if p.team.size.is_power_of_two() && total <= DOUBLING_MAX {
        Algorithm::RecursiveDoubling
    } else if total <= BRUCK_MAX {
        Algorithm::Bruck
    } else {
        Algorithm::Ring
    }
}

/// The algorithm for these parameters; the same on every process, as each knows all lengths.
pub fn choose_v(p: &ParamsV) -> Algorithm {
    let total: u64 = p.recv.iter().map(|b| p.recv_ty.bytes(b.count)).sum();
    if p.team.straight {
        Algorithm::Straight
    } else if total <= BRUCK_MAX {
        Algorithm::Bruck
    } else {
        Algorithm::Ring
    }
}

/// The graph of the chosen algorithm.
pub fn graph(p: &Params) -> Graph {
    build(p, choose(p))
}

/// The graph of a given algorithm (which has to be the same on every process, and possible).
pub fn build(p: &Params, algorithm: Algorithm) -> Graph {
    let mut b = Builder::new(p.team);
    let (size, part) = (p.team.size, p.recv);
    b.recv_buffer(part.ty, part.count * u64::from(size));
    if part.bytes() > 0 {
        let list = List {
            bytes: &|_| part.bytes(),
            region: &|r| part.region(BufId::Recv, TypeSlot::Recv, r, 1),
        };
        let own = own_block(&mut b, p.team, (!p.in_place).then_some(p.send), &list);
        match algorithm {
            Algorithm::RecursiveDoubling => doubling(&mut b, p, own),
            Algorithm::Bruck => bruck(&mut b, p.team, own, &list),
            Algorithm::Ring => ring(&mut b, p.team, own, &list),
            Algorithm::Straight => straight(&mut b, p.team, own, &list),
        }
    }
    b.finish()
}

/// The graph of the chosen algorithm.
pub fn graph_v(p: &ParamsV) -> Graph {
    build_v(p, choose_v(p))
}

/// The graph of a given algorithm: Bruck, straight or, for any other, the ring.
pub fn build_v(p: &ParamsV, algorithm: Algorithm) -> Graph {
    let mut b = Builder::new(p.team);
    for block in p.recv {
        b.recv_block(p.recv_ty, block.disp, block.count);
    }
    let list = List {
        bytes: &|r| p.recv_ty.bytes(p.recv[r as usize].count),
        region: &|r| p.recv[r as usize].region(BufId::Recv, TypeSlot::Recv, &p.recv_ty),
    };
    let own = own_block(&mut b, p.team, (!p.in_place).then_some(p.send), &list);
    match algorithm {
        Algorithm::Bruck => bruck(&mut b, p.team, own, &list),
        Algorithm::Straight => straight(&mut b, p.team, own, &list),
        _ => ring(&mut b, p.team, own, &list),
    }
    b.finish()
}

/// The receive buffer's blocks.
struct List<'a> {
    bytes: &'a dyn Fn(u32) -> u64,
    region: &'a dyn Fn(u32) -> Region,
}

/// Copies the own block to its place; what follows the returned node may send it.
fn own_block(b: &mut Builder, team: Team, send: Option<Part>, list: &List) -> NodeId {
    match send {
        Some(send) if send.bytes() > 0 => {
            b.send_buffer(send.ty, send.count);
            let from = send.region(BufId::Send, TypeSlot::Send, 0, 1);
            b.copy(from, (list.region)(team.rank), &[])
        }
        _ => START,
    }
}

fn doubling(b: &mut Builder, p: &Params, own: NodeId) {
    let rank = p.team.rank;
    let (mut sent, mut received, mut mask, mut round) = (own, START, 1, 0);
    while mask < p.team.size {
        let (partner, mine) = (rank ^ mask, rank & !(mask - 1));
        let theirs = partner & !(mask - 1);
        let part = |first| p.recv.region(BufId::Recv, TypeSlot::Recv, first, mask);
        let recv = b.recv(partner, round, part(theirs), &[]);
        // The send of the round before stands for all earlier receives and the copy.
        sent = b.send(partner, round, part(mine), &[sent, received]);
        received = recv;
        mask *= 2;
        round += 1;
    }
}

fn ring(b: &mut Builder, team: Team, own: NodeId, list: &List) {
    let (size, mut have) = (team.size, own);
    for step in 0..size - 1 {
        let (out, inn, tag) = (team.left(step), team.left(step + 1), step & MAX_TAG);
        if (list.bytes)(out) > 0 {
            b.send(team.right(1), tag, (list.region)(out), &[have]);
        }
        have = if (list.bytes)(inn) > 0 {
            b.recv(team.left(1), tag, (list.region)(inn), &[])
        } else {
            START
        };
    }
}

fn straight(b: &mut Builder, team: Team, own: NodeId, list: &List) {
    if (list.bytes)(team.rank) > 0 {
        send_to(b, others(team), (list.region)(team.rank), own);
    }
    for rank in others(team).filter(|&rank| (list.bytes)(rank) > 0) {
        b.recv(rank, 0, (list.region)(rank), &[]);
    }
}

fn bruck(b: &mut Builder, team: Team, own: NodeId, list: &List) {
    let size = team.size;
    if size == 1 {
        return;
    }
    // Packed: place i holds the block of the rank i above this one.
    let mut place = vec![0u64; size as usize + 1];
    for i in 0..size {
        place[i as usize + 1] = place[i as usize] + (list.bytes)(team.right(i));
    }
    let temp = b.temp_bytes(place[size as usize]);
    let part = |first: u32, n: u32| {
        let (start, end) = (place[first as usize], place[(first + n) as usize]);
        Region::bytes(temp, start, end - start)
    };
    let mut sent = b.copy((list.region)(team.rank), part(0, 1), &[own]);
    let (mut received, mut distance, mut round) = (START, 1u32, 0);
    while distance < size {
        let n = distance.min(size - distance);
        let inn = part(distance, n);
        let recv = if inn.count > 0 {
            b.recv(team.right(distance), round, inn, &[])
        } else {
            START
        };
        let out = part(0, n);
        // What is ready so far: the copy, and all receives of earlier rounds.
        if out.count > 0 {
            sent = b.send(team.left(distance), round, out, &[sent, received]);
        }
        for i in distance..distance + n {
            if (list.bytes)(team.right(i)) > 0 {
                b.copy(part(i, 1), (list.region)(team.right(i)), &[recv]);
            }
        }
        received = recv;
        distance = distance.saturating_mul(2);
        round += 1;
    }
}
