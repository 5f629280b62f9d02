//! By which index of FMPL the next message of each stream goes: indices rotate, so that both sides know it without a word.

use std::cell::Cell;

use crate::context::{DEPTH, INDICES, STREAMS, Stream};
use crate::{End, Grid, Scope};

/// How many messages have gone and come on a stream; only what they are modulo [`DEPTH`] matters.
#[derive(Default)]
struct Counts {
    sent: Cell<u32>,
    received: Cell<u32>,
}

/// The ends of a context's streams. They lie where they are as long as the context does, and are used through shared references, so
/// that who knows a context need not look for it.
pub struct Ends<C> {
    columns: u32,
    /// The communicator of all processes.
    pub(crate) all: C,
    /// The first index.
    first: u32,
    /// By process and stream.
    counts: Box<[[Counts; STREAMS as usize]]>,
}

impl<C: Copy> Ends<C> {
    /// Those of a context with this grid, whose indices begin at `place` times [`INDICES`].
    pub(crate) fn new(grid: &Grid, place: u32, all: C) -> Ends<C> {
        let (_, columns) = grid.sides();
        let counts = (0..grid.size(Scope::All)).map(|_| Default::default());
        Ends {
            columns: columns as u32,
            all,
            first: place * INDICES,
            counts: counts.collect(),
        }
    }

    /// That of message `number` of a stream with a process.
    #[inline(always)]
    pub(crate) fn end(&self, stream: Stream, peer: u32, number: u32) -> End<C> {
        End {
            comm: self.all,
            peer,
            index: self.first + stream as u32 * DEPTH + number % DEPTH,
        }
    }

    /// The index of the `ahead`-th of the next messages to `peer`.
    #[inline(always)]
    pub(crate) fn to(&self, stream: Stream, peer: u32, ahead: u32) -> End<C> {
        let sent = self.counts[peer as usize][stream as usize].sent.get();
        self.end(stream, peer, sent.wrapping_add(ahead))
    }

    /// The index of the `ahead`-th of the next messages of `peer`.
    #[inline(always)]
    pub(crate) fn from(&self, stream: Stream, peer: u32, ahead: u32) -> End<C> {
        let received = self.counts[peer as usize][stream as usize].received.get();
        self.end(stream, peer, received.wrapping_add(ahead))
    }

    /// So many more messages have gone.
    #[inline(always)]
    pub(crate) fn sent(&self, stream: Stream, peer: u32, count: u32) {
        let sent = &self.counts[peer as usize][stream as usize].sent;
        sent.set(sent.get().wrapping_add(count));
    }

    /// So many more messages have come.
    #[inline(always)]
    pub(crate) fn received(&self, stream: Stream, peer: u32, count: u32) {
        let received = &self.counts[peer as usize][stream as usize].received;
        received.set(received.get().wrapping_add(count));
    }

    /// The process at these coordinates, and how many of its messages there were to or from single processes.
    #[inline(always)]
    fn at(&self, (row, column): (i32, i32)) -> Option<(u32, &Counts)> {
        // What is negative is large. Where there is such a column, only rows that there are have such numbers.
        let (row, column) = (row as u32, column as u32);
        if column >= self.columns {
            return None;
        }
        let number = u64::from(row) * u64::from(self.columns) + u64::from(column);
        let counts = self.counts.get(usize::try_from(number).ok()?)?;
        Some((number as u32, &counts[Stream::Points as usize]))
    }

    /// The end of the next message of one piece to the process at these coordinates, which is counted. `None`: there is no such process.
    #[inline(always)]
    pub fn next_to(&self, place: (i32, i32)) -> Option<End<C>> {
        let (peer, counts) = self.at(place)?;
        let sent = counts.sent.get();
        counts.sent.set(sent.wrapping_add(1));
        Some(self.end(Stream::Points, peer, sent))
    }

    /// The same for one of that process.
    #[inline(always)]
    pub fn next_from(&self, place: (i32, i32)) -> Option<End<C>> {
        let (peer, counts) = self.at(place)?;
        let received = counts.received.get();
        counts.received.set(received.wrapping_add(1));
        Some(self.end(Stream::Points, peer, received))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_rotate_by_process_and_direction() {
        let grid = Grid::new(2, 3, 4);
        let ends = Ends::new(&grid, 5, 7);
        let first = 5 * INDICES;
        for round in 0..10 {
            let to = ends.next_to((1, 2)).unwrap();
            assert_eq!((to.comm, to.peer), (7, 5));
            assert_eq!(to.index, first + round % DEPTH);
        }
        assert_eq!(
            ends.next_to((0, 2)).unwrap().index,
            first,
            "another process"
        );
        let from = ends.next_from((1, 2)).unwrap();
        assert_eq!(from.index, first, "the other direction");
        assert_eq!(
            ends.to(Stream::Row, 5, 0).index,
            first + DEPTH,
            "another stream"
        );
        for nobody in [(2, 0), (0, 3), (-1, 0), (0, -1), (i32::MIN, i32::MAX)] {
            assert!(ends.next_to(nobody).is_none() && ends.next_from(nobody).is_none());
        }
        assert_eq!(ends.to(Stream::Points, 5, 0).index, first + 10 % DEPTH);
    }
}
