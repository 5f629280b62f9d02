//! Allreduce.
//!
//! All algorithms but the ring combine operands in rank order, and all give every process the same
//! bits: each element is either combined in the same order everywhere, or at one place only.
//! In place the data lie in the receive buffer.

use crate::fold::{Accumulator, Range, Survivors, directions, elements, halve, split};
use crate::graph::{BufId, Builder, Graph, MAX_TAG, START};
use crate::shape::{Shape, Team};

/// Parameters of an allreduce.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Params {
    /// This process.
    pub team: Team,
    /// Elements.
    pub count: u64,
    /// Their type.
    pub ty: Shape,
    /// Whether the operation commutes.
    pub commutative: bool,
    /// Whether the data lie in the receive buffer.
    pub in_place: bool,
}

/// The algorithms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// Whole vectors between partners at doubling distances: fewest rounds.
    RecursiveDoubling,
    /// Reduce-scatter by halving, allgather by doubling: about two vectors of traffic.
    Rabenseifner,
    /// Chunks round a ring twice: least traffic for any size. Commutative operations only.
    Ring,
}

/// Bytes up to which rounds count more than traffic: Thakur, Rabenseifner and Gropp (2005), 2 KiB.
pub const DOUBLING_MAX: u64 = 2 << 10;

/// Bytes of a ring's chunk from which on its `2 (size - 1)` steps cost no more in latency than
/// folding costs others in traffic.
pub const RING_CHUNK_MIN: u64 = 64 << 10;

/// Bytes from which on the ring is used for powers of two as well: its temporary buffers are two
/// chunks, where halving needs a second vector, which at this size no cache holds any more.
pub const RING_ALWAYS: u64 = 8 << 20;

/// The algorithm for these parameters; the same on every process.
pub fn choose(p: &Params) -> Algorithm {
    let (bytes, size) = (p.ty.bytes(p.count), u64::from(p.team.size));
    let long_chunks = bytes >= RING_CHUNK_MIN * size;
    let large = bytes >= RING_ALWAYS || !size.is_power_of_two();
    if bytes <= DOUBLING_MAX || p.count < size || size <= 2 {
        Algorithm::RecursiveDoubling
    } else if p.commutative && long_chunks && large {
        Algorithm::Ring
    } else {
        Algorithm::Rabenseifner
    }
}

/// The graph of the chosen algorithm.
pub fn graph(p: &Params) -> Graph {
    build(p, choose(p))
}

/// The graph of a given algorithm (which has to be the same on every process, and possible).
pub fn build(p: &Params, algorithm: Algorithm) -> Graph {
    let mut b = Builder::new(p.team);
    b.recv_buffer(p.ty, p.count);
    if !p.in_place {
        b.send_buffer(p.ty, p.count);
    }
    let own = if p.in_place { BufId::Recv } else { BufId::Send };
    if p.count == 0 {
        return b.finish();
    }
    if p.team.size == 1 {
        if !p.in_place {
            let all = Range {
                start: 0,
                end: p.count,
            };
            b.copy(all.of(own, &p.ty), all.of(BufId::Recv, &p.ty), &[]);
        }
        return b.finish();
    }
    match algorithm {
        Algorithm::RecursiveDoubling => butterfly(&mut b, p, own, false),
        Algorithm::Rabenseifner => butterfly(&mut b, p, own, true),
        Algorithm::Ring => ring(&mut b, p, own),
    }
    b.finish()
}

/// Tag of the messages between folded ranks: above those of at most 2 * 32 rounds.
const FOLD_TAG: u32 = 100;

fn butterfly(b: &mut Builder, p: &Params, own: BufId, halving: bool) {
    let (rank, ty) = (p.team.rank, &p.ty);
    let all = Range {
        start: 0,
        end: p.count,
    };
    let who = Survivors::new(p.team, None);
    let v = who.of(rank);
    if who.rank(v) != rank {
        let sent = b.send(who.rank(v), FOLD_TAG, all.of(own, ty), &[]);
        // In place the result overwrites what was sent.
        let after = if p.in_place { sent } else { START };
        b.recv(who.rank(v), FOLD_TAG + 1, all.of(BufId::Recv, ty), &[after]);
        return;
    }
    let temp = b.temp_elements(p.ty, p.count);
    let owned = Accumulator::arrange(BufId::Recv, temp, &directions(&who, v, rank));
    let mut acc = Accumulator::new(p.ty, own, owned);
    if let Some(twin) = who.twin(v) {
        acc.exchange(b, twin, FOLD_TAG, None, all, twin < rank);
    }
    let mut complete = vec![];
    if halving {
        let (steps, mut held) = halve(b, &mut acc, &who, v, p.count, 0);
        acc.settle(b, BufId::Recv, held);
        let (mut sent, mut received) = (acc.last, START);
        for (i, step) in steps.iter().enumerate().rev() {
            let partner = who.rank(v ^ step.mask);
            let tag = (steps.len() + i) as u32;
            let (_, theirs) = split(step.before, v & step.mask != 0);
            let recv = b.recv(partner, tag, theirs.of(BufId::Recv, ty), &[acc.last]);
            sent = b.send(partner, tag, held.of(BufId::Recv, ty), &[sent, received]);
            received = recv;
            held = step.before;
        }
        complete = vec![sent, received];
    } else {
        for k in 0..who.size.trailing_zeros() {
            let lower = v & (1 << k) != 0;
            acc.exchange(b, who.rank(v ^ (1 << k)), k, Some(all), all, lower);
        }
        acc.settle(b, BufId::Recv, all);
        complete.push(acc.last);
    }
    if let Some(twin) = who.twin(v) {
        b.send(twin, FOLD_TAG + 1, all.of(BufId::Recv, ty), &complete);
    }
}

fn ring(b: &mut Builder, p: &Params, own: BufId) {
    let (team, ty, size) = (p.team, &p.ty, p.team.size);
    let (left, right) = (team.left(1), team.right(1));
    let start = |c: u32| (u128::from(p.count) * u128::from(c) / u128::from(size)) as u64;
    let chunk = |buf, c: u32| elements(buf, ty, start(c), start(c + 1) - start(c));
    let longest = p.count.div_ceil(u64::from(size));
    let temps = [
        b.temp_elements(p.ty, longest),
        b.temp_elements(p.ty, longest),
    ];
    let temp =
        |step: u32, c: u32| elements(temps[step as usize % 2], ty, 0, start(c + 1) - start(c));
    // Reduce-scatter: in step s the partial result of chunk rank-s leaves, that of the chunk before
    // arrives and takes in the own contribution.
    let first = b.send(right, 0, chunk(own, team.rank), &[]);
    let (mut sent, mut last) = (first, START);
    for s in 0..size - 1 {
        let c = team.left(s + 1);
        // What lay in this step's temporary buffer left with the send of the step before.
        let free = if s > 1 { sent } else { START };
        if s > 0 {
            sent = b.send(right, s & MAX_TAG, temp(s - 1, team.left(s)), &[last]);
        }
        let (src, dst, free) = match (s == size - 2, p.in_place) {
            (true, true) => (temp(s, c), chunk(BufId::Recv, c), free),
            (true, false) => (chunk(own, c), chunk(BufId::Recv, c), START),
            (false, _) => (chunk(own, c), temp(s, c), free),
        };
        let arrives = if src.buf == own { dst } else { src };
        let recv = b.recv(left, s & MAX_TAG, arrives, &[free]);
        last = b.calc(src, dst, &[recv, last]);
    }
    // Allgather of the finished chunks. In place they overwrite contributions used above.
    let overwrites = if p.in_place {
        [last, first]
    } else {
        [START, START]
    };
    let mut have = last;
    for s in 0..size - 1 {
        let (out, inn) = (team.left((size - 1 + s) % size), team.left(s));
        let tag = (size + s) & MAX_TAG;
        b.send(right, tag, chunk(BufId::Recv, out), &[have]);
        have = b.recv(left, tag, chunk(BufId::Recv, inn), &overwrites);
    }
}
