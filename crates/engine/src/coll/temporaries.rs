//! Memory for the temporary buffers of graphs.
//!
//! Programs call the same collectives again and again, and memory of this length is expensive to come by: it is cleared, and where the system takes it
//! back in between each page is a fault. (An `MPI_Iallreduce` of 512 KiB, which needs that much, took 200 us of two ranks, 170 of them for the pages.)
//! So the last of it is kept.
//!
//! Invariant: kept are at most [`KEPT`] bytes in [`PIECES`] pieces. Who calls it: collectives, which take theirs when they are made and give it back when they are dropped.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use boundary::{AlignedBuf, UserBuf};
use cad::TypeSlot;
use types::Result;

use super::{Running, no_memory};

/// Largest alignment of a basic type, to which temporary elements are placed.
const ALIGN: i64 = 16;
/// Bytes that are kept at the most: a process has them while no collective uses them.
const KEPT: usize = 8 << 20;
/// Pieces that are kept at the most: all are looked through.
const PIECES: usize = 16;
/// Shorter ones are as soon made as found.
const LEAST: usize = 1 << 10;
/// A piece serves for what needs no less than this part of it.
const PART: usize = 4;

/// What collectives that are over have given back, oldest first.
#[derive(Default)]
pub(crate) struct Spare {
    pieces: RefCell<VecDeque<AlignedBuf>>,
}

impl Spare {
    /// So many bytes, whatever stands there; `None` when memory is refused.
    fn take(&self, bytes: usize) -> Option<AlignedBuf> {
        let mut pieces = self.pieces.borrow_mut();
        let fits = |piece: &AlignedBuf| (bytes..=bytes.saturating_mul(PART)).contains(&piece.len());
        // The last one is the likeliest to be in a cache.
        match pieces.iter().rposition(fits) {
            Some(at) if bytes >= LEAST => pieces.remove(at),
            _ => AlignedBuf::new(bytes),
        }
    }

    fn give(&self, piece: AlignedBuf) {
        if !(LEAST..=KEPT).contains(&piece.len()) {
            return;
        }
        let mut pieces = self.pieces.borrow_mut();
        pieces.push_back(piece);
        let mut bytes: usize = pieces.iter().map(AlignedBuf::len).sum();
        while bytes > KEPT || pieces.len() > PIECES {
            bytes -= pieces.pop_front().map_or(0, |oldest| oldest.len());
        }
    }
}

/// The temporary buffers of one collective.
pub(super) struct Temporaries {
    /// Each with the address that its regions count from.
    all: Vec<(AlignedBuf, UserBuf)>,
    /// Bytes that were asked for.
    bytes: usize,
    spare: Rc<Spare>,
}

impl Temporaries {
    pub fn new(spare: &Rc<Spare>) -> Temporaries {
        Temporaries {
            all: Vec::new(),
            bytes: 0,
            spare: spare.clone(),
        }
    }

    /// So many will be added.
    pub fn reserve(&mut self, number: usize) {
        self.all.reserve_exact(number);
    }

    /// Adds one of so many bytes; `origin` says where its regions count from, by where it begins. `None` when memory is refused.
    pub fn add(&mut self, bytes: usize, origin: impl FnOnce(UserBuf) -> UserBuf) -> Option<()> {
        let mut memory = self.spare.take(bytes)?;
        let origin = origin(memory.buf());
        self.all.push((memory, origin));
        self.bytes += bytes;
        Some(())
    }

    /// Where the regions of one count from.
    pub fn origin(&self, number: usize) -> UserBuf {
        self.all[number].1
    }

    /// Bytes that were asked for: the same for the same calls, whatever memory they got.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Temporaries {
    fn drop(&mut self) {
        for (memory, _) in self.all.drain(..) {
            self.spare.give(memory);
        }
    }
}

impl Running {
    /// Makes the graph's temporaries.
    pub(super) fn allocate(&mut self) -> Result<()> {
        let graph = self.call.graph.clone();
        self.temps.reserve(graph.temps().len());
        for temp in graph.temps() {
            let lowest = match temp.ty {
                TypeSlot::Bytes => 0,
                _ => temp.low + self.type_of(temp.ty).map_or(0, |ty| ty.datatype.true_lb()),
            };
            let origin = |start: UserBuf| {
                let origin = start.offset(-lowest);
                let slack = (-(origin.addr() as i64)).rem_euclid(ALIGN);
                origin.offset(slack)
            };
            usize::try_from(temp.bytes)
                .ok()
                .and_then(|bytes| self.temps.add(bytes + ALIGN as usize, origin))
                .ok_or_else(|| no_memory(graph.temps().iter().map(|t| t.bytes).sum()))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(spare: &Rc<Spare>, lengths: &[usize]) -> Temporaries {
        let mut all = Temporaries::new(spare);
        lengths.iter().for_each(|&bytes| {
            all.add(bytes, |start| start).unwrap();
        });
        all
    }

    #[test]
    fn the_same_memory_serves_again() {
        let spare = Rc::default();
        let first = of(&spare, &[5000, 5000]);
        let places = [first.origin(0), first.origin(1)].map(UserBuf::addr);
        assert_ne!(places[0], places[1]);
        drop(first);
        let second = of(&spare, &[4000, 5000]);
        let mut again = [second.origin(0), second.origin(1)].map(UserBuf::addr);
        again.sort_unstable();
        let mut places = places;
        places.sort_unstable();
        assert_eq!(again, places);
        assert_eq!(second.bytes(), 9000);
    }

    #[test]
    fn nothing_short_gets_what_is_long_and_nothing_long_what_is_short() {
        let spare: Rc<Spare> = Rc::default();
        drop(of(&spare, &[100_000]));
        let others = of(&spare, &[10_000, 100_100]);
        assert!(others.all[0].0.len() < 11_000 && others.all[1].0.len() >= 100_100);
        assert_eq!(spare.pieces.borrow().len(), 1);
    }

    #[test]
    fn little_is_kept() {
        let spare: Rc<Spare> = Rc::default();
        let kept = || {
            spare
                .pieces
                .borrow()
                .iter()
                .map(AlignedBuf::len)
                .sum::<usize>()
        };
        drop(of(&spare, &[LEAST / 2, KEPT + 16]));
        assert_eq!(kept(), 0);
        drop(of(&spare, &[KEPT / 2, KEPT / 2, KEPT / 4]));
        assert_eq!(kept(), KEPT / 4 * 3);
        drop(of(&spare, &[LEAST; 100]));
        assert_eq!(spare.pieces.borrow().len(), PIECES);
    }
}
