//! Allreduce.
//!
//! All algorithms but the ring and halves combine operands in rank order (parts unless the operation commutes), and all give every process the same
//! bits: each element is either combined in the same order everywhere, or at one place only.
//! In place the data lie in the receive buffer.

use crate::fold::{Accumulator, Range, Survivors, directions, elements, halve, split};
use crate::graph::{BufId, Builder, Graph, MAX_TAG, START};
use crate::parts::{self, Home, Parts};
use crate::shape::{Shape, Team};
use crate::straight::{COMBINED_MAX, Operands, others, send_to};

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
    /// Whether all share memory. The same on every process, and only asked where it [matters](Params::is_for_halves).
    pub together: bool,
}

impl Params {
    /// Whether two processes that share memory combine [halves](Algorithm::Halves).
    pub fn is_for_halves(&self) -> bool {
        self.team.size == 2 && self.commutative && self.ty.bytes(self.count) >= HALVES_MIN
    }

    /// Whether few processes combine [parts](Algorithm::Parts).
    fn is_for_parts(&self) -> bool {
        self.ty.bytes(self.count) >= PARTS_MIN && parts::serves(self.team, &self.ty, self.count)
    }
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
    /// Of two processes: both send all, and combine it segment by segment as it comes, with one copy less than in rounds. Nobody waits for what the other has
    /// combined.
    Pair {
        /// Elements of a segment.
        segment: u64,
    },
    /// Of two processes: each combines every other segment, and sends the other what came of it. Half the combining, and each waits for the other
    /// once more. Commutative operations only.
    Halves {
        /// Elements of a segment.
        segment: u64,
    },
    /// Each process sends its vector to all others, and combines all in rank order.
    Straight,
    /// Each process combines a part of all, and gives it to all others.
    Parts {
        /// Elements of a segment.
        segment: u64,
    },
}

/// Bytes from which few processes that share memory and may compute, and don't lend, combine [parts](Algorithm::Parts). On an EPYC of the fifth generation three ranks that wait on two processors have
/// 32 KiB after 10 us in place of 7.6, 64 KiB after 14 in place of 15, 1 MiB after 121 in place of 168, four 1 MiB after 125 in place of 240, eight 64 KiB after 52 in place of 90 and 1 MiB after 446
/// in place of 1065.
pub const PARTS_MIN: u64 = 48 << 10;

/// Bytes up to which rounds count more than traffic: Thakur, Rabenseifner and Gropp (2005), 2 KiB.
pub const DOUBLING_MAX: u64 = 2 << 10;

/// Bytes of a ring's chunk from which on its `2 (size - 1)` steps cost no more in latency than
/// folding costs others in traffic.
pub const RING_CHUNK_MIN: u64 = 64 << 10;

/// Bytes from which on the ring is used for powers of two as well: its temporary buffers are two
/// chunks, where halving needs a second vector, which at this size no cache holds any more.
pub const RING_ALWAYS: u64 = 8 << 20;

/// Bytes of a [pair](Algorithm::Pair)'s segment: combined while a level-2 cache holds them. (Two ranks that test between products of 15 us:
/// 16 MiB in 3.3 ms in place of 4.3 in one piece, 4 MiB in 0.61 in place of 0.68; on an EPYC of the fifth generation.) It is as much as leaves before its
/// receive is known in shared memory, so nobody waits for a test of the other between two (256 KiB: 31 us in place of 40 to 50). In one segment 32 and
/// 128 KiB take 2.0 and 6.0 us in place of 2.3 and 6.9 in a round.
pub const PAIR_SEGMENT: u64 = 128 << 10;

/// Bytes from which two processes that share memory combine [halves](Algorithm::Halves), in segments as long as a pair's. (On a Xeon of the fifth generation whose ranks test between products
/// of 16 us 512 KiB take 115 us in place of 170, 1 MiB 280 in place of 360, 4 MiB 1.3 ms in place of 1.55; who waits at once has 1 MiB after 230 us in place
/// of 280. 256 KiB are equal between products, and take 50 us in place of 60 if waited for. In segments of 64 KiB all of these take a tenth to a quarter longer,
/// in such of 32 KiB longer than a pair's.)
pub const HALVES_MIN: u64 = 256 << 10;

/// Most segments of a pair: what there is to start and end of each must not count.
const PAIR_SEGMENTS: u64 = 128;

/// Segments of a pair that wait to be combined, where they have to wait elsewhere than in the receive buffer.
const PAIR_TEMPS: u64 = 4;

/// The algorithm for these parameters; the same on every process.
pub fn choose(p: &Params) -> Algorithm {
    let (bytes, size) = (p.ty.bytes(p.count), u64::from(p.team.size));
    let long_chunks = bytes >= RING_CHUNK_MIN * size;
    let large = bytes >= RING_ALWAYS || !size.is_power_of_two();
    if size == 2 && bytes > DOUBLING_MAX {
        let most = p.count.div_ceil(PAIR_SEGMENTS);
        let segment = most.max(PAIR_SEGMENT / p.ty.size.max(1)).max(1);
        match p.together && p.is_for_halves() {
            true => Algorithm::Halves { segment },
            false => Algorithm::Pair { segment },
        }
    } else if p.team.straight && bytes <= COMBINED_MAX {
        Algorithm::Straight
    } else if p.is_for_parts() {
        Algorithm::Parts {
            segment: parts::segment(p.team, &p.ty, parts::longest_even(p.team, p.count)),
        }
    } else if bytes <= DOUBLING_MAX || p.count < size || size <= 2 {
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
        Algorithm::Pair { segment } => pair(&mut b, p, own, segment),
        Algorithm::Halves { segment } => halves(&mut b, p, own, segment),
        Algorithm::Straight => straight(&mut b, p, own),
        Algorithm::Parts { segment } => combine_parts(&mut b, p, own, segment),
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

/// Each segment of the other's is combined with the own one in the order of ranks: into itself, if the other is the higher one, and then lies in the
/// receive buffer at once unless the own data do.
fn pair(b: &mut Builder, p: &Params, own: BufId, segment: u64) {
    let (partner, ty) = (1 - p.team.rank, &p.ty);
    // Temporary buffers are as long as a segment, and elements may lie far apart.
    let segment = segment.min(p.count);
    let is_lower = partner == 0;
    let direct = !is_lower && !p.in_place;
    let temps = match direct {
        true => 0,
        false => PAIR_TEMPS.min(p.count.div_ceil(segment)),
    };
    let temps: Vec<BufId> = (0..temps).map(|_| b.temp_elements(p.ty, segment)).collect();
    // After which a temporary buffer is free again.
    let mut free = vec![START; temps.len()];
    for (i, start) in (0..p.count).step_by(segment as usize).enumerate() {
        let len = segment.min(p.count - start);
        let place = |buf| elements(buf, ty, start, len);
        let tag = i as u32 & MAX_TAG;
        let sent = b.send(partner, tag, place(own), &[]);
        if direct {
            let recv = b.recv(partner, tag, place(BufId::Recv), &[]);
            b.calc(place(own), place(BufId::Recv), &[recv]);
            continue;
        }
        let at = i % temps.len();
        let temp = elements(temps[at], ty, 0, len);
        let recv = b.recv(partner, tag, temp, &[free[at]]);
        free[at] = match (is_lower, p.in_place) {
            (true, true) => b.calc(temp, place(BufId::Recv), &[recv, sent]),
            (true, false) => {
                // Not before, so that it is in the cache for what follows.
                let copied = b.copy(place(own), place(BufId::Recv), &[recv]);
                b.calc(temp, place(BufId::Recv), &[copied])
            }
            (false, _) => {
                let combined = b.calc(place(own), temp, &[recv]);
                b.copy(temp, place(BufId::Recv), &[combined, sent])
            }
        };
    }
}

/// Each segment is combined in the receive buffer of one of the two: of process 0 first, then in turn.
fn halves(b: &mut Builder, p: &Params, own: BufId, segment: u64) {
    let (partner, ty) = (1 - p.team.rank, &p.ty);
    let segment = segment.min(p.count);
    let mine = |i: usize| i as u32 % 2 == p.team.rank;
    let segments = p.count.div_ceil(segment);
    let temps = match p.in_place {
        true => PAIR_TEMPS.min(segments),
        false => 0,
    };
    let temps: Vec<BufId> = (0..temps).map(|_| b.temp_elements(p.ty, segment)).collect();
    // After which a temporary buffer is free again.
    let mut free = vec![START; temps.len()];
    for (i, start) in (0..p.count).step_by(segment as usize).enumerate() {
        let len = segment.min(p.count - start);
        let place = |buf| elements(buf, ty, start, len);
        // Where messages go in the order of their tags, no operand waits for a result.
        let [operand, result] =
            [i as u64, segments + i as u64].map(|n| (n & u64::from(MAX_TAG)) as u32);
        if !mine(i) {
            let sent = b.send(partner, operand, place(own), &[]);
            // In place the result overwrites what was sent.
            let after = if p.in_place { sent } else { START };
            b.recv(partner, result, place(BufId::Recv), &[after]);
            continue;
        }
        let combined = match temps.len() {
            0 => {
                let recv = b.recv(partner, operand, place(BufId::Recv), &[]);
                b.calc(place(own), place(BufId::Recv), &[recv])
            }
            count => {
                let at = i / 2 % count;
                let temp = elements(temps[at], ty, 0, len);
                let recv = b.recv(partner, operand, temp, &[free[at]]);
                free[at] = b.calc(temp, place(BufId::Recv), &[recv]);
                free[at]
            }
        };
        b.send(partner, result, place(BufId::Recv), &[combined]);
    }
}

fn straight(b: &mut Builder, p: &Params, own: BufId) {
    let all = elements(own, &p.ty, 0, p.count);
    let operands = Operands {
        team: p.team,
        ty: p.ty,
        count: p.count,
        own,
        sent: send_to(b, others(p.team), all, START),
    };
    operands.combine(b, p.team.size);
}

fn combine_parts(b: &mut Builder, p: &Params, own: BufId, segment: u64) {
    let parts = Parts {
        team: p.team,
        ty: p.ty,
        starts: parts::even_starts(p.team, p.count),
        segment,
        own,
        home: Home::InPlace,
        commutative: p.commutative,
    };
    let given = parts.give(b);
    let combined = parts.combine(b);
    parts.tell(b, others(p.team), combined);
    parts.learn(b, given);
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
