//! Reduce_scatter and reduce_scatter_block: process `i` gets block `i` of the reduced vector.
//!
//! In place the vector lies in the receive buffer, and the result goes to its start.

use crate::fold::{Accumulator, Range, Survivors, elements};
use crate::graph::{BufId, Builder, Graph, NodeId, Region, START};
use crate::parts::{self, Home, Parts};
use crate::shape::{Shape, Team};

/// Lengths of the blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Counts<'a> {
    /// All of this many elements (reduce_scatter_block).
    Equal(u64),
    /// One length per process (reduce_scatter).
    Each(&'a [u64]),
}

/// Parameters of a reduce_scatter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Params<'a> {
    /// This process.
    pub team: Team,
    /// Elements of each block.
    pub counts: Counts<'a>,
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
    /// Recursive halving: fewest rounds. Commutative operations only.
    Halving,
    /// Each block straight to its owner, who combines neighbours' first. Commutative only.
    Pairwise,
    /// Each block straight to its owner, who combines in rank order.
    Ordered,
    /// Each block to its owner, in segments that lie where it reads them.
    Parts {
        /// Elements of a segment.
        segment: u64,
    },
}

/// Bytes of the vector from which on direct messages, which carry each element once, win over
/// halving: Thakur, Rabenseifner and Gropp (2005), 512 KiB.
pub const PAIRWISE_MIN: u64 = 512 << 10;

/// Bytes of the longest block above which few processes that share memory and may compute, and don't lend, have it lie where its owner reads it: the sender of a shorter one is done at once, too, as it fits
/// into a pipe, out of which its owner reads while it is written. Three that wait have a vector of 1 MiB after 105 us in place of 138 and four after 122 in place of 154, on an EPYC of the fifth generation
/// (of the fourth 126 in place of 145 and 159 in place of 239), and one of 4 MiB after 0.7 to 1.1 of the time (0.9 to 1.4).
pub const PARTS_ABOVE: u64 = 128 << 10;

/// The algorithm for these parameters; the same on every process.
pub fn choose(p: &Params) -> Algorithm {
    let total = match p.counts {
        Counts::Equal(n) => n * u64::from(p.team.size),
        Counts::Each(list) => list.iter().sum(),
    };
    let longest = match p.counts {
        Counts::Equal(n) => n,
        Counts::Each(list) => list.iter().copied().max().unwrap_or(0),
    };
    if parts::serves(p.team, &p.ty, total) && p.ty.bytes(longest) > PARTS_ABOVE {
        Algorithm::Parts {
            segment: parts::segment(p.team, &p.ty, longest),
        }
    } else if !p.commutative {
        Algorithm::Ordered
    } else if p.ty.bytes(total) >= PAIRWISE_MIN || p.team.straight {
        Algorithm::Pairwise
    } else {
        Algorithm::Halving
    }
}

/// The graph of the chosen algorithm.
pub fn graph(p: &Params) -> Graph {
    build(p, choose(p))
}

/// The blocks as ranges of the vector.
struct Blocks(Vec<u64>);

impl Blocks {
    fn new(p: &Params) -> Blocks {
        let mut starts = vec![0];
        let mut at = 0;
        for r in 0..p.team.size {
            at += match p.counts {
                Counts::Equal(n) => n,
                Counts::Each(list) => list[r as usize],
            };
            starts.push(at);
        }
        Blocks(starts)
    }

    fn range(&self, first: u32, end: u32) -> Range {
        Range {
            start: self.0[first as usize],
            end: self.0[end as usize],
        }
    }

    fn len(&self, r: u32) -> u64 {
        self.0[r as usize + 1] - self.0[r as usize]
    }

    fn total(&self) -> u64 {
        self.0[self.0.len() - 1]
    }
}

/// The graph of a given algorithm (which has to be the same on every process, and possible).
pub fn build(p: &Params, algorithm: Algorithm) -> Graph {
    let mut b = Builder::new(p.team);
    let blocks = Blocks::new(p);
    let (rank, size) = (p.team.rank, p.team.size);
    if p.in_place {
        b.recv_buffer(p.ty, blocks.total());
    } else {
        b.send_buffer(p.ty, blocks.total());
        b.recv_buffer(p.ty, blocks.len(rank));
    }
    let own = if p.in_place { BufId::Recv } else { BufId::Send };
    if blocks.total() == 0 {
        return b.finish();
    }
    if size == 1 {
        if !p.in_place {
            let all = blocks.range(0, 1);
            b.copy(all.of(own, &p.ty), all.of(BufId::Recv, &p.ty), &[]);
        }
        return b.finish();
    }
    match algorithm {
        Algorithm::Halving => halving(&mut b, p, &blocks, own),
        Algorithm::Pairwise => {
            let sources = (0..size).map(|i| p.team.left(i)).collect();
            direct(&mut b, p, &blocks, own, sources);
        }
        Algorithm::Ordered => direct(&mut b, p, &blocks, own, (0..size).collect()),
        Algorithm::Parts { segment } => combine_parts(&mut b, p, blocks, own, segment),
    }
    b.finish()
}

/// Tags of the messages between folded ranks: above those of at most 32 rounds.
const FOLD_TAG: u32 = 100;

fn halving(b: &mut Builder, p: &Params, blocks: &Blocks, own: BufId) {
    let (rank, ty) = (p.team.rank, &p.ty);
    let all = Range {
        start: 0,
        end: blocks.total(),
    };
    let result = elements(BufId::Recv, ty, 0, blocks.len(rank));
    let who = Survivors::new(p.team, None);
    let v = who.of(rank);
    if who.rank(v) != rank {
        let sent = b.send(who.rank(v), FOLD_TAG, all.of(own, ty), &[]);
        // In place the result overwrites what was sent.
        let after = if p.in_place { sent } else { START };
        if result.count > 0 {
            b.recv(who.rank(v), FOLD_TAG + 1, result, &[after]);
        }
        return;
    }
    // In place the vector is in use until the result is complete, hence two buffers besides.
    let owned = [b.temp_elements(*ty, all.end), b.temp_elements(*ty, all.end)];
    let mut acc = Accumulator::new(*ty, own, owned);
    if let Some(twin) = who.twin(v) {
        acc.exchange(b, twin, FOLD_TAG, None, all, false);
    }
    // Survivors [low, high) are the group whose blocks are still combined here.
    let (mut low, mut high, mut round) = (0, who.size, 0);
    while high - low > 1 {
        let half = (high - low) / 2;
        let mid = low + half;
        let lower = blocks.range(who.first(low), who.first(mid));
        let upper = blocks.range(who.first(mid), who.first(high));
        let (partner, keep, give) = if v < mid {
            (v + half, lower, upper)
        } else {
            (v - half, upper, lower)
        };
        // The operation commutes: claiming the partner to be higher saves a copy.
        acc.exchange(b, who.rank(partner), round, Some(give), keep, false);
        (low, high) = if v < mid { (low, mid) } else { (mid, high) };
        round += 1;
    }
    let mine = blocks.range(rank, rank + 1);
    b.copy(mine.of(acc.current, ty), result, &[acc.last]);
    if let Some(twin) = who.twin(v).filter(|&t| blocks.len(t) > 0) {
        let theirs = blocks.range(twin, twin + 1);
        b.send(twin, FOLD_TAG + 1, theirs.of(acc.current, ty), &[acc.last]);
    }
}

/// Combines the own block as one of the vector's parts; in place beside the vector, which is being sent.
fn combine_parts(b: &mut Builder, p: &Params, blocks: Blocks, own: BufId, segment: u64) {
    let n = blocks.len(p.team.rank);
    let aside = (p.in_place && n > 0).then(|| b.temp_elements(p.ty, n));
    let parts = Parts {
        team: p.team,
        ty: p.ty,
        starts: blocks.0,
        segment,
        own,
        home: Home::Alone(aside.unwrap_or(BufId::Recv)),
        commutative: p.commutative,
    };
    let given = parts.give(b);
    let combined = parts.combine(b);
    if let Some(aside) = aside {
        let sends = given.into_iter().flat_map(|(_, segments)| segments);
        let after: Vec<NodeId> = sends.chain(combined).map(|(_, _, node)| node).collect();
        let [result, to] = [aside, BufId::Recv].map(|buf| elements(buf, &p.ty, 0, n));
        b.copy(result, to, &after);
    }
}

/// Sends every block to its owner and combines the own block in the order of `sources`.
fn direct(b: &mut Builder, p: &Params, blocks: &Blocks, own: BufId, sources: Vec<u32>) {
    let (team, ty) = (p.team, &p.ty);
    let mine = blocks.range(team.rank, team.rank + 1).of(own, ty);
    let mut sends: Vec<NodeId> = Vec::new();
    for i in 1..team.size {
        let to = team.right(i);
        if blocks.len(to) > 0 {
            sends.push(b.send(to, 0, blocks.range(to, to + 1).of(own, ty), &[]));
        }
    }
    let n = blocks.len(team.rank);
    if n == 0 {
        return;
    }
    // The own block is read where it lies when it comes first; all others fill two buffers in turn,
    // the last one the receive buffer (in place, that is still being sent from).
    let fills = sources.len() - usize::from(sources[0] == team.rank);
    let mut buffers = [b.temp_elements(*ty, n), BufId::Recv];
    if p.in_place {
        buffers[1] = b.temp_elements(*ty, n);
    } else if fills % 2 == 1 {
        buffers.swap(0, 1);
    }
    let part = |buf| elements(buf, ty, 0, n);
    let (mut current, mut last, mut filled): (Option<Region>, _, _) = (None, START, 0);
    for source in sources {
        if source == team.rank && current.is_none() {
            current = Some(mine);
            continue;
        }
        // What this buffer held was read by the last calculation.
        let to = part(buffers[filled % 2]);
        let free = if filled >= 2 { last } else { START };
        filled += 1;
        let arrived = match source == team.rank {
            true => b.copy(mine, to, &[free]),
            false => b.recv(source, 0, to, &[free]),
        };
        last = match current {
            None => arrived,
            Some(lower) => b.calc(lower, to, &[arrived, last]),
        };
        current = Some(to);
    }
    if let Some(result) = current.filter(|_| p.in_place) {
        sends.push(last);
        b.copy(result, part(BufId::Recv), &sends);
    }
}
