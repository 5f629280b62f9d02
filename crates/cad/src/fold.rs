//! What the butterfly reductions share: survivors of the fold to a power of two, and an
//! accumulator that keeps operands in rank order without copies.
//!
//! A calculation computes `dst = src op dst`, so its result lies where the *higher* ranks' operand
//! was. The accumulator follows it: with a higher partner the received buffer becomes the current
//! one. Every combination therefore is (lower ranks) op (higher ranks), which is right for
//! operations that do not commute, and makes results the same on all processes to the bit.

use crate::graph::{BufId, Builder, NodeId, Region, START, TypeSlot};
use crate::shape::{Shape, Team};
use crate::tree::floor_pow2;

/// Elements `[start, end)` of the vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    pub start: u64,
    pub end: u64,
}

impl Range {
    pub(crate) fn halves(self) -> (Range, Range) {
        let mid = self.start + (self.end - self.start) / 2;
        (
            Range {
                start: self.start,
                end: mid,
            },
            Range {
                start: mid,
                end: self.end,
            },
        )
    }

    /// As many elements, from the first on.
    pub(crate) fn moved_to_start(self) -> Range {
        Range {
            start: 0,
            end: self.end - self.start,
        }
    }

    /// This range of the elements of `buf`.
    pub(crate) fn of(self, buf: BufId, ty: &Shape) -> Region {
        elements(buf, ty, self.start, self.end - self.start)
    }
}

/// `count` elements of a reduction's type from element `first` on.
pub(crate) fn elements(buf: BufId, ty: &Shape, first: u64, count: u64) -> Region {
    Region {
        buf,
        offset: ty.at(first as i64),
        count,
        ty: TypeSlot::Recv,
    }
}

/// The processes that take part in a butterfly: a power of two. Of the first `2 * folded` ranks
/// each even one gives its data to its odd neighbour, or takes its neighbour's when it is favoured.
/// The survivors' order is the order of ranks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Survivors {
    pub size: u32,
    folded: u32,
    favoured: Option<u32>,
}

impl Survivors {
    /// Survivors among `team`; `favoured` (the root of a reduction) is always one.
    pub(crate) fn new(team: Team, favoured: Option<u32>) -> Survivors {
        let size = floor_pow2(team.size);
        Survivors {
            size,
            folded: team.size - size,
            favoured,
        }
    }

    /// The rank of survivor `v`.
    pub(crate) fn rank(&self, v: u32) -> u32 {
        if v >= self.folded {
            v + self.folded
        } else if self.favoured == Some(2 * v) {
            2 * v
        } else {
            2 * v + 1
        }
    }

    /// The lowest rank that survivor `v` stands for; for `v == size`, the number of ranks.
    pub(crate) fn first(&self, v: u32) -> u32 {
        v + v.min(self.folded)
    }

    /// Which survivor stands for `rank`.
    pub(crate) fn of(&self, rank: u32) -> u32 {
        if rank < 2 * self.folded {
            rank / 2
        } else {
            rank - self.folded
        }
    }

    /// The rank that folds into survivor `v`, if any.
    pub(crate) fn twin(&self, v: u32) -> Option<u32> {
        (v < self.folded).then(|| 4 * v + 1 - self.rank(v))
    }
}

/// The data of one process while it is being combined with others'.
#[derive(Debug)]
pub(crate) struct Accumulator {
    ty: Shape,
    /// Where the current data lie. Not in `owned`: in a buffer that may only be read.
    pub current: BufId,
    owned: [BufId; 2],
    /// The node after which the current data are complete and nothing else uses the buffers.
    pub last: NodeId,
}

impl Accumulator {
    /// Data in `start`, combined in `owned`.
    pub(crate) fn new(ty: Shape, start: BufId, owned: [BufId; 2]) -> Accumulator {
        Accumulator {
            ty,
            current: start,
            owned,
            last: START,
        }
    }

    /// In which order to pass two owned buffers so that the data end in `home` after combining with
    /// partners of which `lower` says whether they are lower; only data that start in a read-only
    /// buffer leave the choice.
    pub(crate) fn arrange(home: BufId, other: BufId, lower: &[bool]) -> [BufId; 2] {
        let mut at = None;
        for &low in lower {
            at = match (at, low) {
                (None, low) => Some(low),
                (Some(second), true) => Some(second),
                (Some(second), false) => Some(!second),
            };
        }
        if at == Some(true) {
            [other, home]
        } else {
            [home, other]
        }
    }

    /// Sends `give` (if any) to the partner and combines `keep` with what the partner sends.
    pub(crate) fn exchange(
        &mut self,
        b: &mut Builder,
        partner: u32,
        tag: u32,
        give: Option<Range>,
        keep: Range,
        partner_is_lower: bool,
    ) {
        let ty = self.ty;
        let spare = self.owned[usize::from(self.current == self.owned[0])];
        let recv = b.recv(partner, tag, keep.of(spare, &ty), &[self.last]);
        let mut send = START;
        if let Some(give) = give {
            send = b.send(partner, tag, give.of(self.current, &ty), &[self.last]);
        }
        if partner_is_lower {
            let mut copied = START;
            if !self.owned.contains(&self.current) {
                let writable = self.owned[usize::from(spare == self.owned[0])];
                let (from, to) = (keep.of(self.current, &ty), keep.of(writable, &ty));
                copied = b.copy(from, to, &[self.last]);
                self.current = writable;
            }
            let (src, dst) = (keep.of(spare, &ty), keep.of(self.current, &ty));
            self.last = b.calc(src, dst, &[recv, send, copied]);
        } else {
            let (src, dst) = (keep.of(self.current, &ty), keep.of(spare, &ty));
            self.last = b.calc(src, dst, &[recv, send]);
            self.current = spare;
        }
    }

    /// Moves `range` to `home` unless it lies there.
    pub(crate) fn settle(&mut self, b: &mut Builder, home: BufId, range: Range) {
        if self.current != home {
            let (from, to) = (range.of(self.current, &self.ty), range.of(home, &self.ty));
            self.last = b.copy(from, to, &[self.last]);
            self.current = home;
        }
    }
}

/// One step of a reduce-scatter by halving: the partner, and the range that both held before.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub mask: u32,
    pub before: Range,
}

/// Rabenseifner's reduce-scatter among survivors: vector halving with *doubling* distances, so that
/// operands stay in rank order. Returns the steps and the range that survivor `v` ends with.
pub(crate) fn halve(
    b: &mut Builder,
    acc: &mut Accumulator,
    who: &Survivors,
    v: u32,
    count: u64,
    first_tag: u32,
) -> (Vec<Step>, Range) {
    let mut held = Range {
        start: 0,
        end: count,
    };
    let mut steps = Vec::new();
    let mut mask = 1;
    while mask < who.size {
        let (keep, give) = split(held, v & mask != 0);
        let tag = first_tag + steps.len() as u32;
        acc.exchange(b, who.rank(v ^ mask), tag, Some(give), keep, v & mask != 0);
        steps.push(Step { mask, before: held });
        held = keep;
        mask *= 2;
    }
    (steps, held)
}

/// The half that is kept, and the other one.
pub(crate) fn split(range: Range, upper: bool) -> (Range, Range) {
    let (low, high) = range.halves();
    if upper { (high, low) } else { (low, high) }
}

/// Whether the partner is lower, for each combination that survivor `v` of rank `rank` does.
pub(crate) fn directions(who: &Survivors, v: u32, rank: u32) -> Vec<bool> {
    let twin = who.twin(v).map(|t| t < rank);
    let steps = (0..who.size.trailing_zeros()).map(|k| v & (1 << k) != 0);
    twin.into_iter().chain(steps).collect()
}
