//! Broadcast. The buffer is [`BufId::Recv`] with [`TypeSlot::Recv`] on every process, the root too.
//!
//! Count and type may differ between processes (only the signatures are equal), so algorithms that
//! cut the data cut packed bytes: processes whose type is not contiguous pack or unpack through a
//! temporary buffer, which the others need not know.

use crate::graph::{BufId, Builder, Graph, MAX_TAG, NodeId, Region, START, TypeSlot};
use crate::shape::{Shape, Team};
use crate::shared::{self, Whole};
use crate::straight::{others, send_to};
use crate::tree::{absolute, downward, parent, relative, subtree};

/// Parameters of a broadcast.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Params {
    /// This process.
    pub team: Team,
    /// Rank that has the data.
    pub root: u32,
    /// Elements in the buffer.
    pub count: u64,
    /// Their type.
    pub ty: Shape,
    /// Where the processes are. The same on every process.
    pub spread: Spread,
}

impl Params {
    /// Whether processes that can [lend](Spread::Lending) do: few, of whom some would have to pass on what is long.
    pub fn is_for_few(&self) -> bool {
        (3..PASSES_FROM).contains(&self.team.size.into()) && self.ty.bytes(self.count) >= FLAT_MIN
    }
}

/// Where processes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Spread {
    /// All share memory.
    Together,
    /// All share memory, and receivers copy what is long from where its sender has it, also while that computes.
    Lending,
    /// Each is on a machine of its own, and what it gets is passed on at once.
    Apart(Relay),
    /// On several machines, those of each following on one another (the last is followed by the first); each waits for the end in its call.
    Blocks,
    /// Anywhere; or each on a machine of its own, and what it gets is passed on when the program calls next.
    Mixed,
}

/// Who passes on what a process gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Relay {
    /// The kernel.
    Kernel,
    /// The process, which waits for the end in its call.
    Process,
}

/// The algorithms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// Whole message down a binomial tree.
    Binomial,
    /// Whole message from the root to each.
    Flat,
    /// The same of a short one, out of and into the program's buffers whatever its type.
    Straight,
    /// Segments from the root, each of which lies once for all others.
    Shared {
        /// Bytes of a segment.
        segment: u64,
    },
    /// Binomial scatter of one chunk per process, then the chunks go round a ring
    /// (van de Geijn): each process receives the data once, whatever their number.
    ScatterRing,
    /// Segments down a chain of all processes.
    Chain {
        /// Bytes of a segment.
        segment: u64,
    },
    /// Segments down a binomial tree.
    SegmentedBinomial {
        /// Bytes of a segment.
        segment: u64,
    },
}

/// Bytes up to which latency rules and the whole message goes down the tree: the crossover that
/// Thakur, Rabenseifner and Gropp (2005) measured, 12 KiB.
pub const WHOLE_MESSAGE_MAX: u64 = 12 << 10;

/// Bytes of a pipelined segment: a few times the message size at which a transport reaches half of
/// its bandwidth, and small enough to stay in a level-2 cache between receive and send.
pub const SEGMENT: u64 = 64 << 10;

/// Longest broadcast of few that share memory of which each gets all from the root, which copies it once: none waits for another that computes and would pass it on, and who reads late
/// keeps nobody waiting. The root is done when it has started one that finds room, which is half as long if nothing else is there.
/// On an EPYC of the fifth generation 1 MiB takes 38 us in place of 42 along three ranks of which the middle one computes and tests each 16 us, 2 MiB 71 in place of 87, and where cores are far
/// apart 60 in place of 91 and 120 in place of 192; and as long if it does not test, in place of waiting for it. If all wait 1 MiB takes three, four, six and eight ranks on two processors 40,
/// 42, 75 and 82 us in place of 92, 51, 130 and 155, and 16 MiB 0.8 to 1 times as long.
pub const SHARED_MAX: u64 = 16 << 20;

/// Bytes from which also a broadcast whose receivers wait is [shared](SHARED_MAX), and does not go chunk by chunk through memory that all share. On an EPYC of the fifth generation 512 KiB take three, four and eight
/// ranks on two processors 20, 29 and 37 us in place of 29, 39 and 59, and 4 MiB 95, 197 and 382 in place of 264, 290 and 496. (Of 128 KiB both take as long.)
pub const SHARED_WAITED_MIN: u64 = 512 << 10;

/// A chain of `p` processes takes `segments + p - 2` steps; with this many segments per process
/// filling it costs less than an eighth.
const CHAIN_SEGMENTS_PER_PROCESS: u64 = 8;

/// The same of three that share memory, where none lends and what they get is not [shared](SHARED_MAX). The alternative is a tree whose root copies each segment for both others, of whom one may share its processor.
/// (On an EPYC of the fifth generation the middle one of three computes, and tests each 16 us: 256 KiB take 17 us in place of 22, 1 MiB 54 in place of 82.) If it calls nothing while it
/// computes, the last one waits, which it would not in a tree.
const CHAIN_SEGMENTS_OF_THREE: u64 = 1;

/// Bytes from which few processes that [lend](Spread::Lending) each get the data from the root: none waits for another that computes and would pass them on. On a Xeon of the fifth
/// generation with two processors 256 KiB take 45 us in place of 75 along three ranks of which the middle one computes and tests, 92 us in place of 50 ms if it doesn't test; three that
/// wait take as long for 256 KiB and 905 us in place of 1308 for 4 MiB, seven 2.3 ms in place of 3.6. (Shorter ones of few that may compute go [straight](crate::straight) by
/// shared memory: four and eight that wait have 64 KiB a fifth sooner so than by trees and rings, three a tenth later.)
pub const FLAT_MIN: u64 = 128 << 10;

/// From so many processes on, two passes over the data beat segments down a tree, which has more than three levels then.
const PASSES_FROM: u64 = 8;

/// Bytes of the shortest segment that kernels pass on between machines: measured over links of 1 Gbit/s, 256 KiB along three ranks took 3 % longer
/// than from one to the next through a plain socket, in segments of twice as many bytes 6 %.
pub const APART_SEGMENT_MIN: u64 = 8 << 10;

/// The same that processes pass on, each of which costs them a wake-up and calls of the system. Over links of 1 Gbit/s 1 MiB takes three ranks 8.7 ms
/// along a chain and 17.4 down a tree, five 8.8 and 26.5, and six on three machines 8.7 and 17.4; 128 KiB take three 1.0 and 2.1. Over links as fast as memory, of ranks that share two
/// processors, both take as long; in segments of 8 KiB 256 KiB took three times as long as down a tree.
pub const WAITING_SEGMENT_MIN: u64 = 32 << 10;

/// Segments of such a chain for each process beyond the second, at least: filling it costs a quarter, and a tree's root sends all twice.
/// (With half as many, ranks that share processors take up to twice as long for 64 KiB.)
const WAITING_SEGMENTS_PER_PROCESS: u64 = 4;

/// Segments of such chains for each process beyond the second, if they are then neither too short nor too long: filling them costs 3 %.
const APART_SEGMENTS_PER_PROCESS: u64 = 32;

impl Spread {
    /// Who passes on what a process gets, if a chain of all carries the data into each machine once.
    fn relay(self) -> Option<Relay> {
        match self {
            Spread::Apart(relay) => Some(relay),
            Spread::Blocks => Some(Relay::Process),
            Spread::Together | Spread::Lending | Spread::Mixed => None,
        }
    }
}

impl Relay {
    /// Bytes of the shortest segment, and from how many such segments for each process beyond the second on a chain is better than a tree.
    fn shortest(self) -> (u64, u64) {
        match self {
            Relay::Kernel => (APART_SEGMENT_MIN, CHAIN_SEGMENTS_PER_PROCESS),
            Relay::Process => (WAITING_SEGMENT_MIN, WAITING_SEGMENTS_PER_PROCESS),
        }
    }
}

/// Segments at most: so many that filling a chain costs nothing against them, and few enough for their messages to have tags of
/// their own ([`MAX_TAG`]) and for a program of crate `chains`, where each takes a relay four entries.
const SEGMENTS_MAX: u64 = 6 << 10;

/// Receives of a segmented broadcast posted ahead: twice what a pipe of shared memory holds, as a process that computes takes and passes on what there
/// is when it tests, and no more than was posted. (In a chain as above 1 MiB takes 54 us, with four 77.)
const WINDOW: usize = 16;

const _: () = assert!(SEGMENTS_MAX <= MAX_TAG as u64);

/// The algorithm for these parameters; the same on every process.
pub fn choose(p: &Params) -> Algorithm {
    let bytes = p.ty.bytes(p.count);
    let size = u64::from(p.team.size);
    if p.team.straight && bytes < FLAT_MIN {
        return match bytes <= WHOLE_MESSAGE_MAX {
            true => Algorithm::Straight,
            false => Algorithm::Flat,
        };
    }
    if p.team.straight && p.spread == Spread::Together && bytes <= SHARED_MAX {
        return Algorithm::Shared {
            segment: shared::segment(bytes, 1),
        };
    }
    if size <= 2 || bytes <= WHOLE_MESSAGE_MAX {
        return Algorithm::Binomial;
    }
    if p.spread == Spread::Lending && p.is_for_few() {
        return Algorithm::Flat;
    }
    let relays = size - 2;
    let per_process = match (p.spread, size) {
        (Spread::Together, 3) => CHAIN_SEGMENTS_OF_THREE,
        _ => CHAIN_SEGMENTS_PER_PROCESS,
    };
    if let Some(relay) = p.spread.relay()
        && let (shortest, least) = relay.shortest()
        && bytes >= shortest * least * relays
    {
        // Each link carries the data once; in a tree the root's carries them once for each child.
        let segment = bytes / (APART_SEGMENTS_PER_PROCESS * relays);
        Algorithm::Chain {
            segment: segment.clamp(shortest, SEGMENT),
        }
    } else if bytes >= SEGMENT * per_process * size {
        Algorithm::Chain { segment: SEGMENT }
    } else if size < PASSES_FROM {
        Algorithm::SegmentedBinomial { segment: SEGMENT }
    } else {
        Algorithm::ScatterRing
    }
}

/// The buffer.
fn whole(p: &Params) -> Region {
    Region {
        buf: BufId::Recv,
        offset: 0,
        count: p.count,
        ty: TypeSlot::Recv,
    }
}

/// The graph of the chosen algorithm.
pub fn graph(p: &Params) -> Graph {
    build(p, choose(p))
}

/// The graph of a given algorithm (which has to be the same on every process).
pub fn build(p: &Params, algorithm: Algorithm) -> Graph {
    let mut b = Builder::new(p.team);
    b.recv_buffer(p.ty, p.count);
    if p.team.size > 1 && p.ty.bytes(p.count) > 0 {
        match algorithm {
            Algorithm::Binomial => binomial(&mut b, p),
            Algorithm::Flat => packed(&mut b, p, flat),
            Algorithm::Straight => straight(&mut b, p),
            Algorithm::Shared { segment } => shared(&mut b, p, segment),
            Algorithm::ScatterRing => packed(&mut b, p, scatter_ring),
            Algorithm::Chain { segment } => {
                packed(&mut b, p, |b, p, wire| segmented(b, p, wire, segment, true))
            }
            Algorithm::SegmentedBinomial { segment } => packed(&mut b, p, |b, p, wire| {
                segmented(b, p, wire, segment, false)
            }),
        }
    }
    b.finish()
}

fn binomial(b: &mut Builder, p: &Params) {
    let (size, root) = (p.team.size, p.root);
    let r = relative(p.team.rank, root, size);
    let all = whole(p);
    let mut have = START;
    if r != 0 {
        have = b.recv(absolute(parent(r), root, size), 0, all, &[]);
    }
    for m in downward(r, size) {
        b.send(absolute(r + m, root, size), 0, all, &[have]);
    }
}

fn straight(b: &mut Builder, p: &Params) {
    let all = whole(p);
    if p.team.rank != p.root {
        b.recv(p.root, 0, all, &[]);
        return;
    }
    send_to(b, others(p.team), all, START);
}

fn shared(b: &mut Builder, p: &Params, segment: u64) {
    let all = Whole::new(whole(p), &p.ty);
    if p.team.rank == p.root {
        shared::give(b, others(p.team), &all, segment, START);
    } else {
        shared::receive(b, p.root, &all, segment, START);
    }
}

/// Where the packed bytes lie, and what has to complete before the root may send them.
struct Wire {
    buf: BufId,
    packed: NodeId,
}

/// Runs a byte algorithm on the buffer itself, or between a pack and an unpack. The algorithm
/// returns the nodes that receive, after which the data are complete.
fn packed(
    b: &mut Builder,
    p: &Params,
    f: impl FnOnce(&mut Builder, &Params, &Wire) -> Vec<NodeId>,
) {
    if p.ty.contiguous {
        f(
            b,
            p,
            &Wire {
                buf: BufId::Recv,
                packed: START,
            },
        );
        return;
    }
    let bytes = p.ty.bytes(p.count);
    let typed = whole(p);
    let buf = b.temp_bytes(bytes);
    let flat = Region::bytes(buf, 0, bytes);
    if p.team.rank == p.root {
        let packed = b.copy(typed, flat, &[]);
        f(b, p, &Wire { buf, packed });
    } else {
        let received = f(b, p, &Wire { buf, packed: START });
        b.copy(flat, typed, &received);
    }
}

fn flat(b: &mut Builder, p: &Params, wire: &Wire) -> Vec<NodeId> {
    let all = Region::bytes(wire.buf, 0, p.ty.bytes(p.count));
    b.lend();
    b.share();
    if p.team.rank != p.root {
        return vec![b.recv(p.root, 0, all, &[])];
    }
    for rank in others(p.team) {
        b.send(rank, 0, all, &[wire.packed]);
    }
    Vec::new()
}

fn scatter_ring(b: &mut Builder, p: &Params, wire: &Wire) -> Vec<NodeId> {
    let (size, root) = (p.team.size, p.root);
    let r = relative(p.team.rank, root, size);
    let total = p.ty.bytes(p.count);
    let chunk = total.div_ceil(u64::from(size));
    let start = |i: u32| (chunk * u64::from(i)).min(total);
    let region =
        |first: u32, n: u32| Region::bytes(wire.buf, start(first), start(first + n) - start(first));
    let mut received = Vec::new();
    let mut have = wire.packed;
    let own = subtree(r, size);
    if r != 0 && region(r, own).count > 0 {
        have = b.recv(absolute(parent(r), root, size), 0, region(r, own), &[]);
        received.push(have);
    }
    for m in downward(r, size) {
        let part = region(r + m, subtree(r + m, size));
        if part.count > 0 {
            b.send(absolute(r + m, root, size), 0, part, &[have]);
        }
    }
    // After the scatter a process has the chunks of its whole subtree; the ring skips those.
    let has = |who: u32, c: u32| c >= who && c - who < subtree(who, size);
    let (left, right) = ((r + size - 1) % size, (r + 1) % size);
    for step in 0..size - 1 {
        let (out, inn) = ((r + size - step) % size, (left + size - step) % size);
        if !has(right, out) && region(out, 1).count > 0 {
            let peer = absolute(right, root, size);
            b.send(peer, tag(1 + u64::from(step)), region(out, 1), &[have]);
        }
        have = if has(r, inn) || region(inn, 1).count == 0 {
            // Chunks of the own subtree came with the scatter.
            received
                .first()
                .copied()
                .filter(|_| r != 0)
                .unwrap_or(wire.packed)
        } else {
            let peer = absolute(left, root, size);
            let recv = b.recv(peer, tag(1 + u64::from(step)), region(inn, 1), &[]);
            received.push(recv);
            recv
        };
    }
    received
}

fn tag(n: u64) -> u32 {
    (n & u64::from(MAX_TAG)) as u32
}

fn segmented(b: &mut Builder, p: &Params, wire: &Wire, segment: u64, chain: bool) -> Vec<NodeId> {
    let (size, root) = (p.team.size, p.root);
    let r = relative(p.team.rank, root, size);
    let total = p.ty.bytes(p.count);
    let segment = segment.max(1).max(total.div_ceil(SEGMENTS_MAX));
    let (up, down): (u32, Vec<u32>) = if chain {
        (r.saturating_sub(1), (r + 1..size).take(1).collect())
    } else {
        (
            if r == 0 { 0 } else { parent(r) },
            downward(r, size).into_iter().map(|m| r + m).collect(),
        )
    };
    let mut received = Vec::new();
    let mut sent: Vec<Vec<NodeId>> = vec![Vec::new(); down.len()];
    for s in 0..total.div_ceil(segment) {
        let at = s * segment;
        let part = Region::bytes(wire.buf, at, segment.min(total - at));
        let mut have = wire.packed;
        if r != 0 {
            let earlier = before(&received, WINDOW);
            have = b.recv(absolute(up, root, size), tag(s), part, &[earlier]);
            received.push(have);
        }
        for (child, sent) in down.iter().zip(&mut sent) {
            let earlier = before(sent, WINDOW);
            sent.push(b.send(absolute(*child, root, size), tag(s), part, &[have, earlier]));
        }
    }
    received
}

/// The node `window` places before the one about to be added to `nodes`.
fn before(nodes: &[NodeId], window: usize) -> NodeId {
    nodes.len().checked_sub(window).map_or(START, |i| nodes[i])
}
