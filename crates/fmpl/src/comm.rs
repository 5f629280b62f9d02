//! Communicators: members, and the numbers that their collectives go by.

use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;

use crate::face::{Flag, PIECES};

/// Communicators that may exist at a time; their numbers are below this. Each has slots of its own; the table of all
/// takes some 200 KB for each pair that uses any.
pub const IDS: u32 = 512;

/// Words of a set of numbers.
pub const ID_WORDS: usize = (IDS / 64) as usize;

/// A collective is under way.
const BUSY: u8 = 1;
/// A member is missing.
const BROKEN: u8 = 2;

/// A communicator.
#[derive(Debug)]
pub struct Comm {
    /// Which matching area: the program's or the libraries'.
    pub area: usize,
    /// The same number at all members, and at each of them the number of no other communicator.
    pub id: u32,
    /// World ranks of the members; `None`: all processes.
    pub ranks: Option<Rc<[u32]>>,
    /// This process.
    pub rank: u32,
    /// Number of members.
    pub size: u32,
    /// The processes of its ranks, if these are a run of them.
    pub run: Option<Range<usize>>,
    /// Whether all members see each other's boards.
    pub together: bool,
    /// What keeps a collective from beginning: [`BUSY`] and [`BROKEN`].
    bars: Cell<u8>,
    /// Barriers by flags so far.
    pub barriers: Cell<u64>,
    /// Chunks broadcast so far.
    pub chunks: Cell<u64>,
    /// The chunk that this process last put into each of its two faces, plus one; 0 for none.
    pub faces: [Cell<u64>; 2],
    /// Reductions so far.
    pub reductions: Cell<u64>,
    /// The piece that this process last put into each of the places for them.
    pub offers: [Cell<Option<Offer>>; PIECES],
}

/// The run that these processes are, if they are one.
fn run_of(ranks: Option<&[u32]>, size: u32) -> Option<Range<usize>> {
    let Some(ranks) = ranks else {
        return Some(0..size as usize);
    };
    let first = *ranks.first()?;
    let follows = (first..).zip(ranks).all(|(at, &rank)| at == rank);
    follows.then(|| first as usize..first as usize + ranks.len())
}

/// A piece that a process has put out.
#[derive(Clone, Copy, Debug)]
pub struct Offer {
    /// Its number.
    pub number: u64,
    /// Who takes it,
    pub to: u32,
    /// and by which flag it says so.
    pub taken: Flag,
}

impl Comm {
    /// A communicator of these processes.
    pub fn new(
        area: usize,
        id: u32,
        ranks: Option<Rc<[u32]>>,
        rank: u32,
        size: u32,
        together: bool,
    ) -> Comm {
        Comm {
            area,
            id,
            run: run_of(ranks.as_deref(), size),
            ranks,
            rank,
            size,
            together,
            bars: Cell::new(0),
            barriers: Cell::new(0),
            chunks: Cell::new(0),
            faces: Default::default(),
            reductions: Cell::new(0),
            offers: Default::default(),
        }
    }

    /// Whether a collective can begin.
    #[inline]
    pub fn is_open(&self) -> bool {
        self.bars.get() == 0
    }

    /// Whether a collective of this process is under way.
    pub fn is_busy(&self) -> bool {
        self.bars.get() & BUSY > 0
    }

    /// A collective of this process is under way, or no more.
    pub fn set_busy(&self, busy: bool) {
        let others = self.bars.get() & !BUSY;
        self.bars.set(if busy { others | BUSY } else { others });
    }

    /// Whether a member is dead, or a collective has missed one that is gone: then all collectives end, and none begins, as those
    /// that others have given up leave nobody to wait for.
    #[inline]
    pub fn is_broken(&self) -> bool {
        self.bars.get() & BROKEN > 0
    }

    /// It is so from now on.
    pub fn set_broken(&self) {
        self.bars.set(self.bars.get() | BROKEN);
    }

    /// The process of a rank.
    #[inline]
    pub fn peer(&self, rank: i32) -> Option<u32> {
        let rank = u32::try_from(rank).ok().filter(|&r| r < self.size)?;
        match &self.ranks {
            None => Some(rank),
            Some(ranks) => ranks.get(rank as usize).copied(),
        }
    }

    /// The member with this distance, at most the number of members, from this process, around the ring of ranks.
    #[inline]
    pub fn around(&self, distance: u32) -> u32 {
        // No division: barriers ask for each member.
        let rank = self.rank.wrapping_add(distance);
        let rank = match rank >= self.size {
            true => rank.wrapping_sub(self.size),
            false => rank,
        };
        self.peer(rank as i32).unwrap_or(0)
    }

    /// Whether a process is a member.
    pub fn has(&self, process: u32) -> bool {
        match &self.ranks {
            None => process < self.size,
            Some(ranks) => ranks.contains(&process),
        }
    }

    /// World ranks of all members.
    pub fn members(&self) -> Vec<u32> {
        match &self.ranks {
            None => (0..self.size).collect(),
            Some(ranks) => ranks.to_vec(),
        }
    }
}

/// Which numbers have communicators, in this process or in any of some.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UsedIds(pub [u64; ID_WORDS]);

impl UsedIds {
    /// The two that are given from the start.
    pub fn new() -> UsedIds {
        let mut used = [0; ID_WORDS];
        used[0] = 0b11;
        UsedIds(used)
    }

    /// What is used here or there.
    pub fn join(&mut self, other: &[u64; ID_WORDS]) {
        self.0.iter_mut().zip(other).for_each(|(a, b)| *a |= b);
    }

    /// The lowest that is not used.
    pub fn lowest(&self) -> Option<u32> {
        let word = self.0.iter().position(|&w| w != u64::MAX)?;
        Some(word as u32 * 64 + self.0[word].trailing_ones())
    }

    /// Whether a number is used; those that there aren't are.
    pub fn has(&self, id: u32) -> bool {
        let word = self.0.get((id / 64) as usize);
        word.is_none_or(|word| word & (1 << (id % 64)) != 0)
    }

    /// A number is used, or no more.
    pub fn set(&mut self, id: u32, used: bool) {
        let Some(word) = self.0.get_mut((id / 64) as usize) else {
            return;
        };
        match used {
            true => *word |= 1 << (id % 64),
            false => *word &= !(1 << (id % 64)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_and_go() {
        let mut used = UsedIds::new();
        let mut other = UsedIds::new();
        other.set(2, true);
        used.join(&other.0);
        assert_eq!(used.lowest(), Some(3));
        (3..IDS).for_each(|id| used.set(id, true));
        assert_eq!(used.lowest(), None);
        used.set(IDS - 1, false);
        used.set(IDS + 7, false);
        assert_eq!(used.lowest(), Some(IDS - 1));
        assert!(used.has(3) && !used.has(IDS - 1) && used.has(IDS + 7));
    }

    #[test]
    fn ranks_outside_are_nobody() {
        let comm = Comm::new(0, 5, Some(Rc::from([4, 2, 9])), 1, 3, true);
        let peers: Vec<_> = (-1..4).map(|r| comm.peer(r)).collect();
        assert_eq!(peers, [None, Some(4), Some(2), Some(9), None]);
        assert_eq!((comm.around(1), comm.around(2)), (9, 4));
        let world = Comm::new(0, 0, None, 1, 3, true);
        assert_eq!((world.peer(2), world.peer(3)), (Some(2), None));
    }
}
