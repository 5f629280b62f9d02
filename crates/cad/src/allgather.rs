//! Allgather and allgatherv.
//!
//! In place the own block already lies in the receive buffer. Both share the ring and Bruck's
//! algorithm, written over a list of blocks.

use crate::graph::{BufId, Builder, Graph, MAX_TAG, NodeId, Region, START, TypeSlot};
use crate::shape::{Block, Part, Shape, Team};
use crate::shared::{self, Whole};
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
    /// The same in segments, each of which lies once for all others.
    Shared {
        /// Bytes of a segment.
        segment: u64,
    },
}

/// Bytes of all blocks together up to which fewer rounds win over Bruck's additional copy: Thakur,
/// Rabenseifner and Gropp (2005), 80 KiB.
pub const BRUCK_MAX: u64 = 80 << 10;

/// Bytes of all blocks together up to which recursive doubling, which copies nothing, wins over
/// the ring: the same authors' 512 KiB.
pub const DOUBLING_MAX: u64 = 512 << 10;

/// How blocks go to all who want them, of which the longest has so many bytes: if all find room there, each lies [once](crate::shared) where all others read it.
/// On an EPYC of the fifth generation, of three, four and eight ranks that wait on two processors, 16 KiB take 7.3, 8.6 and 22 us in place of 8.7, 9.9 and 45, 256 KiB 48, 64 and 183 in place of
/// 58, 112 and 625, 4 MiB 0.8, 0.8 and 0.6 times as long.
fn straight_or_shared(team: Team, longest: u64) -> Algorithm {
    let most = match team.lends {
        true => shared::BESIDE_LOANS,
        false => shared::longest(1),
    };
    match longest > shared::ABOVE && longest <= most {
        true => Algorithm::Shared {
            segment: shared::segment(longest, 1),
        },
        false => Algorithm::Straight,
    }
}

/// The algorithm for these parameters; the same on every process.
pub fn choose(p: &Params) -> Algorithm {
    let total = p.recv.bytes() * u64::from(p.team.size);
    if p.team.straight {
        straight_or_shared(p.team, p.recv.bytes())
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
    let lengths = || p.recv.iter().map(|b| p.recv_ty.bytes(b.count));
    let total: u64 = lengths().sum();
    if p.team.straight {
        straight_or_shared(p.team, lengths().max().unwrap_or(0))
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
            ty: part.ty,
            bytes: &|_| part.bytes(),
            region: &|r| part.region(BufId::Recv, TypeSlot::Recv, r, 1),
        };
        let send = (!p.in_place).then_some(p.send);
        match algorithm {
            Algorithm::RecursiveDoubling => doubling(&mut b, p, &list),
            Algorithm::Bruck => bruck(&mut b, p.team, send, &list),
            Algorithm::Ring => ring(&mut b, p.team, send, &list),
            Algorithm::Straight => straight(&mut b, p.team, send, &list),
            Algorithm::Shared { segment } => shared(&mut b, p.team, send, &list, segment),
        }
    }
    b.finish()
}

/// The graph of the chosen algorithm.
pub fn graph_v(p: &ParamsV) -> Graph {
    build_v(p, choose_v(p))
}

/// The graph of a given algorithm: Bruck, straight, shared or, for any other, the ring.
pub fn build_v(p: &ParamsV, algorithm: Algorithm) -> Graph {
    let mut b = Builder::new(p.team);
    for block in p.recv {
        b.recv_block(p.recv_ty, block.disp, block.count);
    }
    let list = List {
        ty: p.recv_ty,
        bytes: &|r| p.recv_ty.bytes(p.recv[r as usize].count),
        region: &|r| p.recv[r as usize].region(BufId::Recv, TypeSlot::Recv, &p.recv_ty),
    };
    let send = (!p.in_place).then_some(p.send);
    match algorithm {
        Algorithm::Bruck => bruck(&mut b, p.team, send, &list),
        Algorithm::Straight => straight(&mut b, p.team, send, &list),
        Algorithm::Shared { segment } => shared(&mut b, p.team, send, &list, segment),
        _ => ring(&mut b, p.team, send, &list),
    }
    b.finish()
}

/// The receive buffer's blocks.
struct List<'a> {
    ty: Shape,
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

/// Has the own block sent by `give` (its region, the type there, and after which node), and copies it to its place.
fn give_own(
    b: &mut Builder,
    team: Team,
    send: Option<Part>,
    list: &List,
    give: impl FnOnce(&mut Builder, Region, Shape, NodeId),
) {
    let bytes = (list.bytes)(team.rank);
    match send {
        // From where the program has it, as it need not be copied first then; but not with gaps, which the copy needn't have.
        Some(send)
            if send.bytes() == bytes
                && bytes > 0
                && (send.ty.contiguous || !list.ty.contiguous) =>
        {
            let from = send.region(BufId::Send, TypeSlot::Send, 0, 1);
            give(b, from, send.ty, START);
            own_block(b, team, Some(send), list);
        }
        _ => {
            let own = own_block(b, team, send, list);
            if bytes > 0 {
                give(b, (list.region)(team.rank), list.ty, own);
            }
        }
    }
}

fn doubling(b: &mut Builder, p: &Params, list: &List) {
    let own = own_block(b, p.team, (!p.in_place).then_some(p.send), list);
    let (rank, size) = (p.team.rank, p.team.size);
    let (mut sent, mut received, mut mask, mut round) = (own, START, 1, 0);
    while mask < size {
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

fn ring(b: &mut Builder, team: Team, send: Option<Part>, list: &List) {
    let (size, mut have) = (team.size, own_block(b, team, send, list));
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

fn straight(b: &mut Builder, team: Team, send: Option<Part>, list: &List) {
    give_own(b, team, send, list, |b, from, _, after| {
        send_to(b, others(team), from, after);
    });
    for rank in others(team).filter(|&rank| (list.bytes)(rank) > 0) {
        b.recv(rank, 0, (list.region)(rank), &[]);
    }
}

fn shared(b: &mut Builder, team: Team, send: Option<Part>, list: &List, segment: u64) {
    give_own(b, team, send, list, |b, from, ty, after| {
        let own = Whole::new(from, &ty);
        shared::give(b, others(team), &own, segment, after);
    });
    for rank in others(team).filter(|&rank| (list.bytes)(rank) > 0) {
        let block = Whole::new((list.region)(rank), &list.ty);
        shared::receive(b, rank, &block, segment, START);
    }
}

fn bruck(b: &mut Builder, team: Team, send: Option<Part>, list: &List) {
    let (size, own) = (team.size, own_block(b, team, send, list));
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
