//! Alltoall, alltoallv and alltoallw.
//!
//! In place the data to send lie in the receive buffer, in the blocks that will be received; they
//! are packed into a temporary buffer first.

use crate::graph::{BufId, Builder, Graph, NodeId, Region, START, TypeSlot};
use crate::shape::{Block, Part, Shape, Team};
use crate::shared::{self, Whole};
use crate::straight::others;

/// Parameters of an alltoall.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Params {
    /// This process.
    pub team: Team,
    /// What is sent to each process (not read when in place).
    pub send: Part,
    /// What is received from each process.
    pub recv: Part,
    /// Whether the data to send lie in the receive buffer.
    pub in_place: bool,
}

/// The algorithms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// Bruck's: `ceil(log2 size)` rounds, each forwards half of all blocks.
    Bruck,
    /// Each block goes straight to its destination, `window` exchanges at a time.
    Pairwise {
        /// Exchanges under way at a time, at least one.
        window: u32,
    },
    /// The same, all at once and in segments that lie where their receivers [read](crate::shared) them.
    Shared {
        /// Bytes of a segment.
        segment: u64,
    },
}

/// Bytes of a block up to which Bruck's fewer messages outweigh sending the data `log2(size)/2`
/// times: Thakur, Rabenseifner and Gropp (2005), 256 bytes.
pub const BRUCK_MAX: u64 = 256;

/// Processes from which on Bruck has fewer messages worth the copies (the same authors' 8).
const BRUCK_RANKS: u32 = 8;

/// Bytes of a block up to which a window of exchanges hides latency; larger ones fill a link alone,
/// so that few at a time keep order on it.
const MEDIUM_MAX: u64 = 32 << 10;

/// Exchanges at a time up to [`MEDIUM_MAX`]: enough messages to cover a round trip.
const WINDOW_MEDIUM: u32 = 32;

/// Exchanges at a time above: the next is matched while one moves.
const WINDOW_LARGE: u32 = 4;

/// The window of direct exchanges for blocks of `bytes`.
fn window(bytes: u64) -> u32 {
    if bytes <= MEDIUM_MAX {
        WINDOW_MEDIUM
    } else {
        WINDOW_LARGE
    }
}

/// Bytes of the segments of a block, which only two processes may know, if those lie where its receiver [reads](crate::shared) them, as they do if a process's blocks of that length all find room.
/// On an EPYC of the fifth generation, of four ranks that wait on two processors, blocks of 64 KiB, 256 KiB and 2 MiB take 30, 88 and 1260 us in place of 33, 132 and 1790, of eight 64 and 256 KiB 106 and
/// 590 in place of 134 and 967, of three as long or a tenth less.
fn shared_segment(team: Team, bytes: u64) -> Option<u64> {
    let others = team.size - 1;
    let fits = team.straight && bytes > shared::ABOVE && bytes <= shared::longest(others);
    (!team.lends && fits).then(|| shared::segment(bytes, others))
}

/// The algorithm for these parameters; the same on every process.
pub fn choose(p: &Params) -> Algorithm {
    let bytes = p.recv.bytes();
    if let Some(segment) = shared_segment(p.team, bytes) {
        Algorithm::Shared { segment }
    } else if bytes <= BRUCK_MAX && p.team.size >= BRUCK_RANKS && !p.team.straight {
        Algorithm::Bruck
    } else {
        Algorithm::Pairwise {
            window: window(bytes),
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
    let size = u64::from(p.team.size);
    b.recv_buffer(p.recv.ty, p.recv.count * size);
    if !p.in_place {
        b.send_buffer(p.send.ty, p.send.count * size);
    }
    if p.recv.bytes() == 0 || (p.in_place && size == 1) {
        return b.finish();
    }
    let recv = |r: u32| p.recv.region(BufId::Recv, TypeSlot::Recv, r, 1);
    match algorithm {
        Algorithm::Bruck => bruck(&mut b, p),
        Algorithm::Shared { segment } => {
            let of = |buf, slot, part: Part, r| Whole::new(part.region(buf, slot, r, 1), &part.ty);
            let send = |r: u32| of(BufId::Send, TypeSlot::Send, p.send, r);
            let recv = |r: u32| of(BufId::Recv, TypeSlot::Recv, p.recv, r);
            let ends = Ends {
                send: (!p.in_place).then_some(&send),
                recv: &recv,
                segment: &|_| Some(segment),
            };
            shared(&mut b, p.team, &ends);
        }
        Algorithm::Pairwise { window } if p.in_place => {
            in_place(&mut b, p.team, window, &recv, &|_| p.recv.bytes());
        }
        Algorithm::Pairwise { window } => {
            let send = |r: u32| Some((p.send.region(BufId::Send, TypeSlot::Send, r, 1), START));
            direct(&mut b, p.team, window, &send, &|r| Some((recv(r), START)));
        }
    }
    b.finish()
}

/// What to send to, or receive from, a rank, and after which node; `None` where there is nothing.
type Leg<'a> = &'a dyn Fn(u32) -> Option<(Region, NodeId)>;

/// Straight exchanges: at distance `i` with the ranks `i` above and below, and the own block.
fn direct(b: &mut Builder, team: Team, window: u32, send: Leg, recv: Leg) {
    let window = window.max(1) as usize;
    let mut latest = vec![(START, START); window];
    for i in 1..team.size {
        let slot = &mut latest[i as usize % window];
        let (sent, received) = *slot;
        let (to, from) = (team.right(i), team.left(i));
        if let Some((region, after)) = recv(from) {
            slot.1 = b.recv(from, 0, region, &[after, sent, received]);
        }
        if let Some((region, after)) = send(to) {
            slot.0 = b.send(to, 0, region, &[after, sent, received]);
        }
    }
    if let (Some((src, a)), Some((dst, c))) = (send(team.rank), recv(team.rank)) {
        b.copy(src, dst, &[a, c]);
    }
}

/// Straight exchanges out of the receive buffer: every block is packed before it is overwritten.
fn in_place(
    b: &mut Builder,
    team: Team,
    window: u32,
    block: &dyn Fn(u32) -> Region,
    bytes: &dyn Fn(u32) -> u64,
) {
    let others = |r: u32| if r == team.rank { 0 } else { bytes(r) };
    let temp = b.temp_bytes((0..team.size).map(others).sum());
    let mut place = 0;
    let packed: Vec<Option<(Region, NodeId)>> = (0..team.size)
        .map(|r| {
            let n = others(r);
            (n > 0).then(|| {
                let flat = Region::bytes(temp, place, n);
                place += n;
                (flat, b.copy(block(r), flat, &[]))
            })
        })
        .collect();
    let send = |r: u32| packed[r as usize];
    let recv = |r: u32| packed[r as usize].map(|(_, copied)| (block(r), copied));
    direct(b, team, window, &send, &recv);
}

/// All blocks that a process gives and gets.
struct Ends<'a> {
    /// In place: nowhere but where those that it gets will be.
    send: Option<&'a dyn Fn(u32) -> Whole>,
    recv: &'a dyn Fn(u32) -> Whole,
    /// Bytes of the segments of a block of so many, if it lies where its receiver reads it.
    segment: &'a dyn Fn(u64) -> Option<u64>,
}

/// All blocks at once; those of the own ones that need not be packed before anything else.
fn shared(b: &mut Builder, team: Team, ends: &Ends) {
    // For each of the others, after which node its block may be overwritten.
    let mut free = Vec::new();
    for rank in others(team) {
        let (block, after) = match ends.send {
            Some(send) => (send(rank), START),
            None if (ends.recv)(rank).bytes > 0 => (ends.recv)(rank).packed(b, START),
            None => ((ends.recv)(rank), START),
        };
        free.push(after);
        match (ends.segment)(block.bytes) {
            Some(segment) => shared::give(b, [rank].into_iter(), &block, segment, after),
            None if block.bytes > 0 => {
                b.send(rank, 0, block.region, &[after]);
            }
            None => {}
        }
    }
    let own = (ends.recv)(team.rank);
    if let Some(send) = ends.send.filter(|_| own.bytes > 0) {
        b.copy(send(team.rank).region, own.region, &[]);
    }
    for (rank, after) in others(team).zip(free) {
        let block = (ends.recv)(rank);
        match (ends.segment)(block.bytes) {
            Some(segment) => shared::receive(b, rank, &block, segment, after),
            None if block.bytes > 0 => {
                b.recv(rank, 0, block.region, &[after]);
            }
            None => {}
        }
    }
}

fn bruck(b: &mut Builder, p: &Params) {
    let (team, size, block) = (p.team, p.team.size, p.recv.bytes());
    let total = block * u64::from(size);
    let (work, out, inn) = (
        b.temp_bytes(total),
        b.temp_bytes(total),
        b.temp_bytes(total),
    );
    let part = |buf: BufId, first: u32, n: u32| {
        Region::bytes(buf, block * u64::from(first), block * u64::from(n))
    };
    let source = |first: u32, n: u32| match p.in_place {
        true => p.recv.region(BufId::Recv, TypeSlot::Recv, first, n),
        false => p.send.region(BufId::Send, TypeSlot::Send, first, n),
    };
    // Place i: the block for the rank i above this one.
    let head = size - team.rank;
    let mut last = b.copy(source(team.rank, head), part(work, 0, head), &[]);
    if team.rank > 0 {
        let low = b.copy(source(0, team.rank), part(work, head, team.rank), &[]);
        last = b.join(&[last, low]);
    }
    let (mut bit, mut round) = (1u32, 0);
    while bit < size {
        // Runs of `bit` consecutive places whose index has this bit travel `bit` ranks up.
        let runs: Vec<(u32, u32)> = (0..)
            .map(|k| bit * (2 * k + 1))
            .take_while(|&i| i < size)
            .map(|i| (i, bit.min(size - i)))
            .collect();
        let mut filled = 0;
        let mut packed = Vec::new();
        for &(first, n) in &runs {
            packed.push(b.copy(part(work, first, n), part(out, filled, n), &[last]));
            filled += n;
        }
        let recv = b.recv(team.left(bit), round, part(inn, 0, filled), &[last]);
        let send = b.send(team.right(bit), round, part(out, 0, filled), &packed);
        let mut at = 0;
        let mut unpacked = vec![send];
        for &(first, n) in &runs {
            unpacked.push(b.copy(part(inn, at, n), part(work, first, n), &[recv, send]));
            at += n;
        }
        last = b.join(&unpacked);
        bit = bit.saturating_mul(2);
        round += 1;
    }
    for i in 0..size {
        let to = p.recv.region(BufId::Recv, TypeSlot::Recv, team.left(i), 1);
        b.copy(part(work, i, 1), to, &[last]);
    }
}

/// Parameters of an alltoallv.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ParamsV<'a> {
    /// This process.
    pub team: Team,
    /// What is sent to each process (not read when in place).
    pub send: &'a [Block],
    /// Type of the blocks sent (not read when in place).
    pub send_ty: Shape,
    /// What is received from each process.
    pub recv: &'a [Block],
    /// Type of the blocks received.
    pub recv_ty: Shape,
    /// Whether the data to send lie in the receive buffer.
    pub in_place: bool,
}

/// Alltoallv: direct exchanges; pairs without data are skipped on both sides. Neither side knows
/// the lengths of other pairs, so that nothing is forwarded and one window serves all.
pub fn graph_v(p: &ParamsV) -> Graph {
    match p.team.straight && !p.team.lends {
        true => build_mixed_v(p, &|bytes| shared_segment(p.team, bytes)),
        false => build_direct_v(p),
    }
}

/// The graph of a given algorithm: shared, whatever the blocks' lengths, or, for any other, direct exchanges.
pub fn build_v(p: &ParamsV, algorithm: Algorithm) -> Graph {
    match algorithm {
        Algorithm::Shared { segment } => build_mixed_v(p, &|_| Some(segment)),
        _ => build_direct_v(p),
    }
}

fn begin_v(p: &ParamsV) -> Builder {
    let mut b = Builder::new(p.team);
    for block in p.recv {
        b.recv_block(p.recv_ty, block.disp, block.count);
    }
    let send = if p.in_place { &[] } else { p.send };
    for block in send {
        b.send_block(p.send_ty, block.disp, block.count);
    }
    b
}

/// The graph that sends blocks of so many bytes in segments of so many to where receivers read them, and the others directly.
pub fn build_mixed_v(p: &ParamsV, segment: &dyn Fn(u64) -> Option<u64>) -> Graph {
    let mut b = begin_v(p);
    let of = |buf, slot, ty: &Shape, block: Block| Whole::new(block.region(buf, slot, ty), ty);
    let send = |r: u32| of(BufId::Send, TypeSlot::Send, &p.send_ty, p.send[r as usize]);
    let recv = |r: u32| of(BufId::Recv, TypeSlot::Recv, &p.recv_ty, p.recv[r as usize]);
    let ends = Ends {
        send: (!p.in_place).then_some(&send),
        recv: &recv,
        segment,
    };
    shared(&mut b, p.team, &ends);
    b.finish()
}

fn build_direct_v(p: &ParamsV) -> Graph {
    let mut b = begin_v(p);
    let recv = |r: u32| p.recv[r as usize].region(BufId::Recv, TypeSlot::Recv, &p.recv_ty);
    let bytes = |r: u32| p.recv_ty.bytes(p.recv[r as usize].count);
    if p.in_place {
        in_place(&mut b, p.team, WINDOW_MEDIUM, &recv, &bytes);
        return b.finish();
    }
    let send = |r: u32| {
        let block = &p.send[r as usize];
        (p.send_ty.bytes(block.count) > 0)
            .then(|| (block.region(BufId::Send, TypeSlot::Send, &p.send_ty), START))
    };
    let recv = |r: u32| (bytes(r) > 0).then(|| (recv(r), START));
    direct(&mut b, p.team, WINDOW_MEDIUM, &send, &recv);
    b.finish()
}

/// One block of an alltoallw.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BlockW {
    /// Elements.
    pub count: u64,
    /// Displacement in bytes.
    pub disp: i64,
    /// Bytes of data of one element.
    pub size: u64,
}

impl BlockW {
    pub(crate) fn region(&self, buf: BufId, ty: TypeSlot) -> Region {
        Region {
            buf,
            offset: self.disp,
            count: self.count,
            ty,
        }
    }
}

/// Parameters of an alltoallw.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ParamsW<'a> {
    /// This process.
    pub team: Team,
    /// What is sent to each process, of the send type for it (not read when in place).
    pub send: &'a [BlockW],
    /// What is received from each process, of the receive type for it.
    pub recv: &'a [BlockW],
    /// Whether the data to send lie in the receive buffer.
    pub in_place: bool,
}

/// Alltoallw: as alltoallv, each block with a type of its own.
pub fn graph_w(p: &ParamsW) -> Graph {
    let mut b = Builder::new(p.team);
    let recv = |r: u32| p.recv[r as usize].region(BufId::Recv, TypeSlot::RecvOf(r));
    let bytes = |r: u32| p.recv[r as usize].count * p.recv[r as usize].size;
    if p.in_place {
        in_place(&mut b, p.team, WINDOW_MEDIUM, &recv, &bytes);
        return b.finish();
    }
    let send = |r: u32| {
        let block = &p.send[r as usize];
        (block.count * block.size > 0)
            .then(|| (block.region(BufId::Send, TypeSlot::SendOf(r)), START))
    };
    let recv = |r: u32| (bytes(r) > 0).then(|| (recv(r), START));
    direct(&mut b, p.team, WINDOW_MEDIUM, &send, &recv);
    b.finish()
}
