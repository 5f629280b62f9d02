//! By which index of FMPL the next piece of each stream goes: indices rotate with the pieces of a message, so that both sides know it without
//! a word.
//!
//! A message begins with the index that the last one ended with: of a receive and a reply by one index, the header of the next receive comes in the line that
//! the reply takes. Were each message to take the next index, 4 KiB there and back would reach 0.90 of what they do between two far cores, and 0.95
//! between near ones (an EPYC of the fifth generation).

use std::cell::Cell;

use crate::context::{DEPTH, INDICES, STREAMS, Stream};
use crate::{End, Grid, Scope};

/// How many pieces have gone and come on a stream, but for the first of each message; only what they are modulo [`DEPTH`] matters.
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

    /// That of piece `number` of a stream with a process.
    #[inline(always)]
    pub(crate) fn end(&self, stream: Stream, peer: u32, number: u32) -> End<C> {
        End {
            comm: self.all,
            peer,
            index: self.first + stream as u32 * DEPTH + number % DEPTH,
        }
    }

    /// The index of piece `ahead` of the next message to `peer`.
    #[inline(always)]
    pub(crate) fn to(&self, stream: Stream, peer: u32, ahead: u32) -> End<C> {
        let sent = self.counts[peer as usize][stream as usize].sent.get();
        self.end(stream, peer, sent.wrapping_add(ahead))
    }

    /// The index of piece `ahead` of the next message of `peer`.
    #[inline(always)]
    pub(crate) fn from(&self, stream: Stream, peer: u32, ahead: u32) -> End<C> {
        let received = self.counts[peer as usize][stream as usize].received.get();
        self.end(stream, peer, received.wrapping_add(ahead))
    }

    /// A message of so many pieces, one at the least, has gone.
    #[inline(always)]
    pub(crate) fn sent(&self, stream: Stream, peer: u32, pieces: u32) {
        let sent = &self.counts[peer as usize][stream as usize].sent;
        sent.set(sent.get().wrapping_add(pieces - 1));
    }

    /// One of so many has come.
    #[inline(always)]
    pub(crate) fn received(&self, stream: Stream, peer: u32, pieces: u32) {
        let received = &self.counts[peer as usize][stream as usize].received;
        received.set(received.get().wrapping_add(pieces - 1));
    }

    /// The process at these coordinates, and its pieces to and from single processes.
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

    /// The end of the next message, of one piece, to the process at these coordinates. `None`: there is no such process.
    #[inline(always)]
    pub fn next_to(&self, place: (i32, i32)) -> Option<End<C>> {
        let (peer, counts) = self.at(place)?;
        Some(self.end(Stream::Points, peer, counts.sent.get()))
    }

    /// The same for one of that process.
    #[inline(always)]
    pub fn next_from(&self, place: (i32, i32)) -> Option<End<C>> {
        let (peer, counts) = self.at(place)?;
        Some(self.end(Stream::Points, peer, counts.received.get()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_rotate_by_process_and_direction_and_with_pieces() {
        let grid = Grid::new(2, 3, 4);
        let ends = Ends::new(&grid, 5, 7);
        let first = 5 * INDICES;
        for _ in 0..10 {
            let to = ends.next_to((1, 2)).unwrap();
            assert_eq!((to.comm, to.peer, to.index), (7, 5, first));
            ends.sent(Stream::Points, 5, 1);
        }
        for message in 0..10 {
            for piece in 0..3 {
                let to = ends.to(Stream::Points, 5, piece);
                assert_eq!(to.index, first + (2 * message + piece) % DEPTH);
            }
            ends.sent(Stream::Points, 5, 3);
            let next = ends.next_to((1, 2)).unwrap();
            assert_eq!(next.index, first + 2 * (message + 1) % DEPTH);
        }
        let there = ends.next_to((1, 2)).unwrap().index;
        ends.sent(Stream::Points, 5, 2);
        assert_ne!(ends.next_to((1, 2)).unwrap().index, there);
        let others = [
            (ends.next_to((0, 2)).unwrap(), "another process"),
            (ends.next_from((1, 2)).unwrap(), "the other direction"),
        ];
        for (end, what) in others {
            assert_eq!(end.index, first, "{what}");
        }
        assert_eq!(
            ends.to(Stream::Row, 5, 0).index,
            first + DEPTH,
            "another stream"
        );
        for nobody in [(2, 0), (0, 3), (-1, 0), (0, -1), (i32::MIN, i32::MAX)] {
            assert!(ends.next_to(nobody).is_none() && ends.next_from(nobody).is_none());
        }
        ends.received(Stream::Points, 5, 2);
        assert_eq!(ends.next_from((1, 2)).unwrap().index, first + 1);
    }
}
