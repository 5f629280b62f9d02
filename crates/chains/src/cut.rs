//! Cuts nodes into pieces, so that one piece of a message can move while the next arrives.
//!
//! Pieces of a node run in order. Between nodes the rule is: where two nodes touch the same bytes,
//! one of them writing, and the graph orders them, pieces that share such a byte are ordered. An
//! edge of the graph becomes just that if every piece of the first node then comes before some piece
//! of the second, so that the second still completes after the first; any other edge puts all of
//! the first before all of the second.

use crate::Options;
use crate::lower::{Span, Work};
use crate::order::Order;
use crate::program::MAX_ENTRIES;
use cad::Kind;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

/// Index of a piece, in the order in which pieces are put into chains.
pub(crate) type PieceId = u32;

/// Nodes up to which pieces of different nodes are set against each other; the pairs are all looked at.
const NODES_MAX: usize = 4096;

/// A piece of a node.
#[derive(Clone, Debug)]
pub(crate) struct Piece {
    pub work: Work,
    /// The pieces it comes after, directly.
    pub before: Vec<PieceId>,
    /// The piece before it on its connection, or of its calculation.
    pub same: Option<PieceId>,
    /// Whether the rank has to do it.
    pub by_rank: bool,
    /// Whether it ends by itself once it has begun.
    pub finite: bool,
}

/// Which bytes of a node its pieces have.
#[derive(Clone, Copy, Debug)]
struct Cut {
    first: PieceId,
    pieces: u32,
    bytes: u64,
    total: u64,
}

impl Cut {
    fn new(work: &Work, first: PieceId, piece: u64) -> Cut {
        let total = work.bytes();
        let bytes = (piece / work.unit * work.unit).max(work.unit);
        Cut {
            first,
            pieces: total.div_ceil(bytes).clamp(1, u64::from(u32::MAX)) as u32,
            bytes,
            total,
        }
    }

    fn all(&self) -> std::ops::Range<PieceId> {
        self.first..self.first + self.pieces
    }

    fn last(&self) -> PieceId {
        self.first + self.pieces - 1
    }

    fn part(&self, work: &Work, k: u32) -> Work {
        let start = u64::from(k) * self.bytes;
        work.part(start, self.bytes.min(self.total - start))
    }
}

/// Which nodes come before which, as rows of bits.
struct Closure {
    words: usize,
    bits: Vec<u64>,
}

impl Closure {
    fn new(order: &Order) -> Closure {
        let n = order.before.len();
        let words = n.div_ceil(64);
        let mut bits = vec![0u64; n * words];
        for &id in &order.sequence {
            let id = id as usize;
            for &b in order.before[id].iter().chain(&order.stream[id]) {
                let b = b as usize;
                for w in 0..words {
                    bits[id * words + w] |= bits[b * words + w];
                }
                bits[id * words + b / 64] |= 1 << (b % 64);
            }
        }
        Closure { words, bits }
    }

    fn before(&self, a: usize, b: usize) -> bool {
        self.bits[b * self.words + a / 64] >> (a % 64) & 1 == 1
    }
}

/// The pieces of all nodes, each after those it comes after; `None` if there are too many.
pub(crate) fn cut(
    works: &[Work],
    order: &Order,
    piece: u64,
    options: &Options,
) -> Option<Vec<Piece>> {
    let piece = if works.len() > NODES_MAX {
        u64::MAX
    } else {
        piece
    };
    let mut cuts = Vec::with_capacity(works.len());
    let mut total = 0u64;
    for work in works {
        let piece = match work.kind {
            Kind::Calc if options.whole_calc => u64::MAX,
            _ => piece,
        };
        let cut = Cut::new(work, total as PieceId, piece);
        total += u64::from(cut.pieces);
        if total > MAX_ENTRIES as u64 {
            return None;
        }
        cuts.push(cut);
    }
    let mut sent: HashMap<u32, u64> = HashMap::new();
    for work in works.iter().filter(|w| w.kind == Kind::Send) {
        *sent.entry(work.peer).or_default() += work.bytes();
    }
    let mut pieces = Vec::with_capacity(total as usize);
    for (work, cut) in works.iter().zip(&cuts) {
        for k in 0..cut.pieces {
            let same = (k > 0).then(|| cut.first + k - 1);
            let part = cut.part(work, k);
            let by_rank = match work.kind {
                Kind::Calc => part.bytes() > options.kernel_calc,
                Kind::Copy => part.bytes() > options.kernel_copy,
                Kind::Send | Kind::Recv => false,
            };
            let finite = match work.kind {
                Kind::Send => sent[&work.peer] <= options.eager,
                Kind::Recv => false,
                Kind::Calc | Kind::Copy => !by_rank,
            };
            pieces.push(Piece {
                work: part,
                before: same.into_iter().collect(),
                same,
                by_rank,
                finite,
            });
        }
    }
    connect(works, order, &cuts, &mut pieces);
    Some(sorted(order, &cuts, pieces, options.interleave))
}

fn connect(works: &[Work], order: &Order, cuts: &[Cut], pieces: &mut [Piece]) {
    let mut soft = false;
    for id in 0..works.len() {
        let first = cuts[id].first as usize;
        if let Some(s) = order.stream[id] {
            let last = cuts[s as usize].last();
            pieces[first].before.push(last);
            pieces[first].same = Some(last);
        }
        for &b in &order.before[id] {
            if order.stream[id] != Some(b) && is_soft(works, cuts, b as usize, id) {
                soft = true;
            } else {
                pieces[first].before.push(cuts[b as usize].last());
            }
        }
    }
    if !soft {
        return;
    }
    let closure = Closure::new(order);
    for (id, work) in works.iter().enumerate() {
        for (b, earlier) in works.iter().enumerate() {
            if closure.before(b, id) && earlier.conflicts(work) {
                conflicts(works, cuts, pieces, b, id);
            }
        }
    }
}

/// Whether every piece of `a` shares a byte that matters with node `b`.
fn is_soft(works: &[Work], cuts: &[Cut], a: usize, b: usize) -> bool {
    let several = cuts[a].pieces > 1 || cuts[b].pieces > 1;
    let part = |k| cuts[a].part(&works[a], k);
    several && (0..cuts[a].pieces).all(|k| part(k).conflicts(&works[b]))
}

/// Orders the pieces of `a` and `b` that share bytes: each of `b` after the last such of `a`.
fn conflicts(works: &[Work], cuts: &[Cut], pieces: &mut [Piece], a: usize, b: usize) {
    let (work, cut) = (&works[a], &cuts[a]);
    let last = |s: &Span, t: &Span| {
        let end = (s.offset + s.bytes as i64).min(t.offset + t.bytes as i64);
        s.meets(t).then(|| (end - 1 - s.offset) as u64 / cut.bytes)
    };
    for y in cuts[b].all() {
        let later = &mut pieces[y as usize];
        let (src, dst) = (later.work.src, later.work.dst);
        let pairs = [(work.dst, dst), (work.dst, src), (work.src, dst)];
        let found = pairs.iter().filter_map(|(s, t)| last(s, t)).max();
        later.before.extend(found.map(|k| cut.first + k as PieceId));
    }
}

/// The pieces renumbered in an order in which they can be put into chains: finite ones as soon as
/// possible, since others may follow them in their chains; node by node, or, to interleave them, the
/// first piece of each node before the second of any.
fn sorted(order: &Order, cuts: &[Cut], pieces: Vec<Piece>, interleave: bool) -> Vec<Piece> {
    let n = pieces.len();
    let mut rank = vec![(0u32, 0u32); n];
    for (place, &id) in order.sequence.iter().enumerate() {
        for (k, x) in cuts[id as usize].all().enumerate() {
            let k = if interleave { k as u32 } else { 0 };
            rank[x as usize] = (k, place as u32);
        }
    }
    let mut after: Vec<Vec<PieceId>> = vec![Vec::new(); n];
    let mut left = vec![0u32; n];
    for (y, piece) in pieces.iter().enumerate() {
        for &x in &piece.before {
            after[x as usize].push(y as PieceId);
            left[y] += 1;
        }
    }
    let entry = |x: PieceId| Reverse((!pieces[x as usize].finite, rank[x as usize], x));
    let mut ready: BinaryHeap<_> = (0..n as PieceId)
        .filter(|&x| left[x as usize] == 0)
        .map(entry)
        .collect();
    let mut renumbered = vec![0; n];
    let mut sequence = Vec::with_capacity(n);
    while let Some(Reverse((_, _, x))) = ready.pop() {
        renumbered[x as usize] = sequence.len() as PieceId;
        sequence.push(x);
        for &y in &after[x as usize] {
            left[y as usize] -= 1;
            if left[y as usize] == 0 {
                ready.push(entry(y));
            }
        }
    }
    let mut slots: Vec<Option<Piece>> = pieces.into_iter().map(Some).collect();
    let mut out: Vec<Piece> = sequence
        .iter()
        .filter_map(|&x| slots[x as usize].take())
        .collect();
    for piece in &mut out {
        for x in piece.before.iter_mut().chain(&mut piece.same) {
            *x = renumbered[*x as usize];
        }
        piece.before.sort_unstable();
        piece.before.dedup();
    }
    out
}
