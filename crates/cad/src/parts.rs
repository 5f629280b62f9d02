//! Long vectors of few processes that share memory and may compute: each process combines a part of all, segment by segment, out of what the others gave when they started. What came of it
//! it gives to whoever wants it.
//!
//! So between the start of the last and the end at all, each has to look only once more than where nobody combines for others, and whoever is late with that keeps the others waiting for its part
//! alone. In rounds, each waits for the last one at each round.
//!
//! Called by allreduce. Invariants: operands are combined in the order of ranks, if the operation does not commute, and each element at one place.

use crate::fold::Range;
use crate::graph::{BufId, Builder, NodeId, START};
use crate::shape::{Shape, Team};
use crate::shared;
use crate::straight::others;

/// A vector of which each process combines a part.
pub(crate) struct Parts {
    pub team: Team,
    pub ty: Shape,
    /// Elements of all parts.
    pub count: u64,
    /// Elements of a segment.
    pub segment: u64,
    /// Where this process has its own vector: in the send buffer, or in the receive buffer.
    pub own: BufId,
    pub commutative: bool,
}

/// Elements of segments of a vector of so many, which leave room for what all processes give at once.
pub(crate) fn segment(team: Team, ty: &Shape, count: u64) -> u64 {
    let longest = ty.bytes(count.div_ceil(u64::from(team.size)));
    (shared::segment(longest, team.size) / ty.size.max(1)).max(1)
}

impl Parts {
    /// What a process combines.
    fn part(&self, rank: u32) -> Range {
        let start =
            |r: u32| (u128::from(self.count) * u128::from(r) / u128::from(self.team.size)) as u64;
        Range {
            start: start(rank),
            end: start(rank + 1),
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

    /// Gives each process what it combines; for each segment after which node it may be overwritten.
    pub fn give(&self, b: &mut Builder) -> Vec<(u32, u32, Range, NodeId)> {
        b.share();
        let mut given = Vec::new();
        for rank in others(self.team) {
            for (number, range) in self.segments(rank) {
                let sent = b.send(rank, number, range.of(self.own, &self.ty), &[]);
                given.push((rank, number, range, sent));
            }
        }
        given
    }

    /// Combines the own part in the receive buffer: its segments with their numbers, and the nodes after which they are there.
    pub fn combine(&self, b: &mut Builder) -> Vec<(u32, Range, NodeId)> {
        let me = self.team.rank;
        let most = self.segment.min(self.part(me).end - self.part(me).start);
        let mut temps = Temps {
            bufs: [(); 2].map(|()| b.temp_elements(self.ty, most)),
            free: [START; 2],
            next: 0,
        };
        let mut combined = Vec::new();
        for (number, range) in self.segments(me) {
            let last = match (self.own, self.commutative) {
                (BufId::Recv, true) => self.combine_here(b, number, range, &mut temps),
                _ => self.in_order(b, number, range, &mut temps),
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
        let in_place = self.own == BufId::Recv;
        let (mut current, mut last, mut was) = (None, START, None);
        for (i, source) in sources.into_iter().enumerate() {
            if i == 0 && source == me {
                current = Some(own);
                continue;
            }
            let home = i as u32 == size - 1 && !in_place;
            let temp = (!home).then(|| temps.take());
            let (to, free) = match temp {
                Some((at, buf)) => (range.moved_to_start().of(buf, &self.ty), temps.free[at]),
                None => (range.of(BufId::Recv, &self.ty), START),
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
                last = b.copy(result, range.of(BufId::Recv, &self.ty), &[last]);
                temps.free[at] = last;
                last
            }
            _ => last,
        }
    }

    /// Gives all others the own part, and receives theirs, after their operands have `given` the place free.
    pub fn exchange(
        &self,
        b: &mut Builder,
        combined: Vec<(u32, Range, NodeId)>,
        given: Vec<(u32, u32, Range, NodeId)>,
    ) {
        // So many numbers are the operands'.
        let most = (0..self.team.size).map(|r| self.segments(r).count() as u32);
        let first = most.max().unwrap_or(0);
        for (number, range, last) in combined {
            for rank in others(self.team) {
                b.send(
                    rank,
                    first + number,
                    range.of(BufId::Recv, &self.ty),
                    &[last],
                );
            }
        }
        for (rank, number, range, sent) in given {
            // In place the result overwrites what was sent.
            let after = if self.own == BufId::Recv { sent } else { START };
            b.recv(
                rank,
                first + number,
                range.of(BufId::Recv, &self.ty),
                &[after],
            );
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
