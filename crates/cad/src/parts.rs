//! Long vectors of few processes that share memory and may compute: each process combines a part of all, segment by segment, out of what the others gave when they started. What came of it
//! it gives to whoever wants it.
//!
//! So between the start of the last and the end at all, each has to look only once more than where nobody combines for others, and whoever is late with that keeps the others waiting for its part
//! alone. In rounds, each waits for the last one at each round.
//!
//! Called by allreduce, reduce and reduce_scatter. Invariants: operands are combined in the order of ranks, if the operation does not commute, and else from the one who combines round to the one before it: so the last bits of
//! a sum depend on where in the vector it stands, but are the same at all processes, and in each run.

use crate::fold::Range;
use crate::graph::{BufId, Builder, NodeId, Region, START};
use crate::shape::{Shape, Team};
use crate::shared;
use crate::straight::others;

/// A vector of which each process combines a part.
pub(crate) struct Parts {
    pub team: Team,
    pub ty: Shape,
    /// The element with which each process's part begins, and behind them the end of the last.
    pub starts: Vec<u64>,
    /// Elements of a segment.
    pub segment: u64,
    /// Where this process has its own vector: in the send buffer, or in the receive buffer.
    pub own: BufId,
    pub home: Home,
    pub commutative: bool,
}

/// Where what comes of a process's own part lies.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Home {
    /// Among the other parts in the receive buffer.
    InPlace,
    /// Alone at the start of a buffer.
    Alone(BufId),
}

/// Segments of a part with their numbers, and after which node each may be read, or overwritten.
type Segments = Vec<(u32, Range, NodeId)>;

/// Bytes of the longest vector of which it is known to take less time than in rounds: of 32 MiB allreduces of three, four and eight ranks take 0.4, 0.4 and 0.7 times as long as by the ring.
pub const MAX: u64 = 32 << 20;

/// Bytes from which also processes that wait combine parts by messages, and not chunk by chunk in memory that all share. On an EPYC of the fifth generation three, four and eight ranks on two processors have an
/// allreduce of 128 KiB after 31, 38 and 88 us in place of 48, 52 and 110, one of 1 MiB after 155, 173 and 371 in place of 298, 395 and 930. (Intel MPI 2021.18: 251, 184 and 462.)
pub const WAITED_MIN: u64 = 128 << 10;

/// Whether processes combine parts of a vector that is long enough.
pub(crate) fn serves(team: Team, ty: &Shape, count: u64) -> bool {
    team.straight && !team.lends && ty.bytes(count) <= MAX && count >= team.size.into()
}

/// Elements of segments of parts of which the longest has so many, which leave room for what all processes give at once.
pub(crate) fn segment(team: Team, ty: &Shape, longest: u64) -> u64 {
    (shared::segment(ty.bytes(longest), team.size) / ty.size.max(1)).max(1)
}

/// Elements of the longest of [even](even_starts) parts.
pub(crate) fn longest_even(team: Team, count: u64) -> u64 {
    count.div_ceil(u64::from(team.size))
}

/// Starts of parts of a vector that are as long as each other.
pub(crate) fn even_starts(team: Team, count: u64) -> Vec<u64> {
    let start = |r| (u128::from(count) * u128::from(r) / u128::from(team.size)) as u64;
    (0..=team.size).map(start).collect()
}

impl Parts {
    /// What a process combines.
    fn part(&self, rank: u32) -> Range {
        let rank = rank as usize;
        Range {
            start: self.starts[rank],
            end: self.starts[rank + 1],
        }
    }

    /// Segments of that with their numbers.
    fn segments(&self, rank: u32) -> impl Iterator<Item = (u32, Range)> + use<> {
        let (Range { start, end }, step) = (self.part(rank), self.segment);
        (0..)
            .zip((start..end).step_by(step as usize))
            .map(move |(number, at)| {
                let end = end.min(at + step);
                (number, Range { start: at, end })
            })
    }

    /// Memory for what comes of the own part alone.
    pub fn temporary_home(&self, b: &mut Builder) -> Home {
        let Range { start, end } = self.part(self.team.rank);
        Home::Alone(b.temp_elements(self.ty, end - start))
    }

    /// Where what comes of a segment of the own part lies.
    fn result(&self, range: Range) -> Region {
        let (buf, start) = match self.home {
            Home::InPlace => (BufId::Recv, 0),
            Home::Alone(buf) => (buf, self.part(self.team.rank).start),
        };
        let within = Range {
            start: range.start - start,
            end: range.end - start,
        };
        within.of(buf, &self.ty)
    }

    /// Whether what comes of the own part lies where its own operand is.
    fn overwrites_own(&self) -> bool {
        self.own == BufId::Recv && self.home == Home::InPlace
    }

    /// Gives each of the others what it combines.
    pub fn give(&self, b: &mut Builder) -> Vec<(u32, Segments)> {
        b.share();
        let mut give_one = |rank| {
            let of = |(number, range): (u32, Range)| {
                let sent = b.send(rank, number, range.of(self.own, &self.ty), &[]);
                (number, range, sent)
            };
            (rank, self.segments(rank).map(of).collect())
        };
        others(self.team).map(&mut give_one).collect()
    }

    /// Combines the own part.
    pub fn combine(&self, b: &mut Builder) -> Segments {
        let me = self.team.rank;
        let Range { start, end } = self.part(me);
        if start == end {
            return Vec::new();
        }
        let most = self.segment.min(end - start);
        let mut temps = Temps {
            bufs: [(); 2].map(|()| b.temp_elements(self.ty, most)),
            free: [START; 2],
            next: 0,
        };
        let mut combined = Vec::new();
        for (number, range) in self.segments(me) {
            let last = match self.overwrites_own() && self.commutative {
                true => self.combine_here(b, number, range, &mut temps),
                false => self.in_order(b, number, range, &mut temps),
            };
            combined.push((number, range, last));
        }
        combined
    }

    /// All others' operands into the own one, where that lies.
    fn combine_here(
        &self,
        b: &mut Builder,
        number: u32,
        range: Range,
        temps: &mut Temps,
    ) -> NodeId {
        let mut last = START;
        for i in 1..self.team.size {
            let (at, buf) = temps.take();
            let to = range.moved_to_start().of(buf, &self.ty);
            let arrived = b.recv(self.team.left(i), number, to, &[temps.free[at]]);
            last = b.calc(to, range.of(BufId::Recv, &self.ty), &[arrived, last]);
            temps.free[at] = last;
        }
        last
    }

    /// Each operand with all before it, into where it arrived, the last one where the result belongs.
    fn in_order(&self, b: &mut Builder, number: u32, range: Range, temps: &mut Temps) -> NodeId {
        let (me, size) = (self.team.rank, self.team.size);
        let own = range.of(self.own, &self.ty);
        let sources: Vec<u32> = match self.commutative {
            true => (0..size).map(|i| self.team.left(i)).collect(),
            false => (0..size).collect(),
        };
        let (mut current, mut last, mut was) = (None, START, None);
        for (i, source) in sources.into_iter().enumerate() {
            if i == 0 && source == me {
                current = Some(own);
                continue;
            }
            let home = i as u32 == size - 1 && !self.overwrites_own();
            let temp = (!home).then(|| temps.take());
            let (to, free) = match temp {
                Some((at, buf)) => (range.moved_to_start().of(buf, &self.ty), temps.free[at]),
                None => (self.result(range), START),
            };
            let arrived = match source == me {
                true => b.copy(own, to, &[free]),
                false => b.recv(source, number, to, &[free]),
            };
            last = match current {
                Some(lower) => b.calc(lower, to, &[arrived, last]),
                None => arrived,
            };
            // What was read is free.
            if let Some(at) = was {
                temps.free[at] = last;
            }
            (current, was) = (Some(to), temp.map(|(at, _)| at));
        }
        match (current, was) {
            (Some(result), Some(at)) => {
                last = b.copy(result, self.result(range), &[last]);
                temps.free[at] = last;
                last
            }
            _ => last,
        }
    }

    /// The number of the first segment of results: those below are the operands'.
    fn first_result(&self) -> u32 {
        let counts = (0..self.team.size).map(|r| self.segments(r).count() as u32);
        counts.max().unwrap_or(0)
    }

    /// Gives what came of the own part to these ranks.
    pub fn tell(&self, b: &mut Builder, to: impl Iterator<Item = u32> + Clone, combined: Segments) {
        let first = self.first_result();
        for (number, range, last) in combined {
            for rank in to.clone() {
                b.send(rank, first + number, self.result(range), &[last]);
            }
        }
    }

    /// Receives what came of the others' parts, whose operands were `given`.
    pub fn learn(&self, b: &mut Builder, given: Vec<(u32, Segments)>) {
        let first = self.first_result();
        for (rank, segments) in given {
            for (number, range, sent) in segments {
                // In place the result overwrites what was sent.
                let after = if self.own == BufId::Recv { sent } else { START };
                let to = range.of(BufId::Recv, &self.ty);
                b.recv(rank, first + number, to, &[after]);
            }
        }
    }
}

/// Two segments' memory, used in turn, and after which nodes each is free.
struct Temps {
    bufs: [BufId; 2],
    free: [NodeId; 2],
    next: usize,
}

impl Temps {
    fn take(&mut self) -> (usize, BufId) {
        let at = self.next % 2;
        self.next += 1;
        (at, self.bufs[at])
    }
}
