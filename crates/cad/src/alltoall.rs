//! Alltoall, alltoallv and alltoallw.
//!
//! In place the data to send lie in the receive buffer, in the blocks that will be received; they
//! are packed into a temporary buffer first.

use crate::graph::{BufId, Builder, Graph, NodeId, Region, START, TypeSlot};
use crate::shape::{Block, Part, Shape, Team};

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

/// The algorithm for these parameters; the same on every process.
pub fn choose(p: &Params) -> Algorithm {
    let bytes = p.recv.bytes();
    if bytes <= BRUCK_MAX && p.team.size >= BRUCK_RANKS && !p.team.straight {
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
    let mut b = Builder::new(p.team);
    let recv = |r: u32| p.recv[r as usize].region(BufId::Recv, TypeSlot::Recv, &p.recv_ty);
    let bytes = |r: u32| p.recv_ty.bytes(p.recv[r as usize].count);
    for block in p.recv {
        b.recv_block(p.recv_ty, block.disp, block.count);
    }
    if p.in_place {
        in_place(&mut b, p.team, WINDOW_MEDIUM, &recv, &bytes);
        return b.finish();
    }
    for block in p.send {
        b.send_block(p.send_ty, block.disp, block.count);
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
