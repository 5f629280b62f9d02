//! Collectives in which nobody passes on what another wants: whoever has data sends them to all who want them, when it starts. But broadcasts of more
//! than 16 MiB pass along a chain where the kernel doesn't copy them, and long vectors are combined in [parts](crate::allreduce::Algorithm::Parts) or in rounds.
//!
//! For few processes that share memory and may compute between start and wait. In a tree or in rounds the data of one wait at the next until that calls again; here all is there
//! when a process looks for the first time after the last one has started. The price is more messages, and for reductions that everybody combines.
//!
//! Four ranks on two processors of a Xeon of the fifth generation that all compute find by the first test after they were away from their processor all allreduces of 8 bytes and all
//! barriers done, in place of half, and all broadcasts of 8 bytes to 64 KiB in place of nine tenths (`yamabiko bench kacc-crowded --only first-test`).
//!
//! Called by the modules of the collectives, where the [team](crate::Team::straight) says so.

use crate::fold::Range;
use crate::graph::{BufId, Builder, NodeId, Region, START};
use crate::shape::{Shape, Team};

/// Most processes: eight on two processors that wait at once take as long for barriers, a tenth longer for allgathers of 8 bytes and two thirds of the time for
/// such of 1 MiB, as with rounds.
pub const RANKS_MAX: u32 = 8;

/// Most bytes of a vector that goes to all, each of whom combines all. If they wait at once, four have 4 KiB after 9 us in place of 14, 8 KiB after as long as in rounds and 16 KiB after 23 us in place
/// of 16; eight take as long for 8 KiB and two and a half times as long for 16 KiB.
pub const COMBINED_MAX: u64 = 8 << 10;

/// Most bytes of a vector that goes to one, who combines all: 64 KiB take three 20 us in place of 27, and as long as in rounds four to eight.
pub const COMBINED_BY_ONE_MAX: u64 = 64 << 10;

/// Bytes of a message from which receivers that may compute copy from where its sender has it, where processes lend, whatever was measured to be faster: what a receiver measures that
/// computes between two tests contains its computing. Of three that get a broadcast, the middle one of which computes, 256 KiB take 34 us in place of 43 where it is measured, 512 KiB 73 in place
/// of 98, 1 MiB 180 in place of 270. Of three to eight that wait at once gathers of 256 KiB from each take half the time, of 1 MiB three quarters; alltoalls 0.8 to 1.08, allgathers 0.94 and
/// reductions 0.85 to 1 times as long; but broadcasts to three 34 us in place of 30 for 256 KiB, to four 47 in place of 40: each is one more copy by the kernel, and they take turns.
pub const LENT_MIN: u64 = 256 << 10;

/// Times as much memory as data from which on elements lie far apart.
const SPARSE: u64 = 4;

/// Whether so many processes that share memory, and may compute, do without others that pass on.
pub fn serves(size: u32) -> bool {
    // Of two there is nobody else.
    (3..=RANKS_MAX).contains(&size)
}

/// Sends a region to these ranks; the nodes after which it may be overwritten.
pub(crate) fn send_to(
    b: &mut Builder,
    to: impl Iterator<Item = u32>,
    region: Region,
    after: NodeId,
) -> Vec<NodeId> {
    to.map(|rank| b.send(rank, 0, region, &[after])).collect()
}

/// The others, first those above a process.
pub(crate) fn others(team: Team) -> impl Iterator<Item = u32> + Clone {
    (1..team.size).map(move |distance| team.right(distance))
}

/// A vector of each process.
pub(crate) struct Operands {
    pub team: Team,
    pub ty: Shape,
    pub count: u64,
    /// Where this process has its own: in the send buffer, or in the receive buffer.
    pub own: BufId,
    /// After which it may be overwritten.
    pub sent: Vec<NodeId>,
}

impl Operands {
    /// Combines those of the first `ranks` processes, which send them here, in their order; the result lies in the receive buffer. Nothing happens if there are none.
    pub(crate) fn combine(&self, b: &mut Builder, ranks: u32) {
        let me = self.team.rank;
        let Some(top) = ranks.checked_sub(1) else {
            return;
        };
        let in_place = self.own == BufId::Recv;
        let own = self.all(self.own);
        // A calculation's result lies where the higher ranks' operand was: not where the own one still is.
        let home = match in_place && me < top {
            true => b.temp_elements(self.ty, self.count),
            false => BufId::Recv,
        };
        let (result, at_home) = (self.all(home), home == BufId::Recv);
        let free = if in_place && at_home {
            &self.sent[..]
        } else {
            &[]
        };
        let mut last = match (me == top, in_place) {
            (true, true) => b.join(free),
            (true, false) => b.copy(own, result, &[]),
            (false, _) => b.recv(top, 0, result, free),
        };
        let mut temps = self.temps();
        for rank in (0..top).rev() {
            last = if rank == me {
                b.calc(own, result, &[last])
            } else {
                let (temp, free) = temps.next(b, last);
                let arrived = b.recv(rank, 0, temp, &[free]);
                b.calc(temp, result, &[arrived, last])
            };
        }
        if !at_home {
            let all_read = [&[last], &self.sent[..]].concat();
            b.copy(result, self.all(BufId::Recv), &all_read);
        }
    }

    fn temps(&self) -> Temps<'_> {
        Temps {
            operands: self,
            only: None,
        }
    }

    fn all(&self, buf: BufId) -> Region {
        let all = Range {
            start: 0,
            end: self.count,
        };
        all.of(buf, &self.ty)
    }
}

/// Where operands arrive: each elsewhere, so that all can at once; but those whose elements lie far apart in one place, one after the other, as they would take much memory.
struct Temps<'a> {
    operands: &'a Operands,
    only: Option<Region>,
}

impl Temps<'_> {
    /// Where the next one arrives, and after which node, if the one before it is combined after `last`.
    fn next(&mut self, b: &mut Builder, last: NodeId) -> (Region, NodeId) {
        if let Some(only) = self.only {
            return (only, last);
        }
        let Operands { ty, count, .. } = *self.operands;
        let temp = self.operands.all(b.temp_elements(ty, count));
        if ty.span(count) > SPARSE * ty.bytes(count) {
            self.only = Some(temp);
        }
        (temp, START)
    }
}
