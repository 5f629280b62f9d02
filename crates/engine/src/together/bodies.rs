//! Where the bytes of a round lie, and what must have been read before they are written.
//!
//! Invariant: it follows from the round's number, its bytes, and whose turn it is to write the body that two members hand to each other: the same at all members.
//!
//! Who calls it: [`rounds`](super::rounds), and all that has rounds.

use std::cell::Cell;
use std::ops::{Add, Sub};

use super::{APART, BODIES, BODIES_AT, BODY, EXCHANGED, HANDED, HANDED_AT, HEADS, INLINE};

/// A round, by its number.
#[derive(Clone, Copy)]
pub(super) struct Round {
    pub number: u64,
    bodies: Bodies,
}

/// In which bodies a round's bytes lie, if there are more than fit beside a head.
#[derive(Clone, Copy)]
enum Bodies {
    /// Fewer than so many in one that its member alone writes; from so many on in one that members write in turn: where all write and all read, or
    /// who writes may well change.
    TurnedFrom(usize),
    /// All in the one that two members hand to each other, from this byte of it on.
    Handed(usize),
}

/// In whose memory the body lies that two members hand to each other.
const HANDED_IN: usize = 0;

/// Which of two members may write the body that they hand to each other: the one that has read what stands there. Both count alike.
#[derive(Default)]
pub(super) struct Hands(Cell<usize>);

impl Hands {
    /// Takes it for `writer`, one of two, if it is its turn: then it is the other's that reads it. Once for each collective, at both members.
    pub fn take(&self, writer: usize) -> bool {
        debug_assert!(writer < 2);
        let may = self.0.get() == writer;
        if may {
            self.0.set(1 - writer);
        }
        may
    }
}

impl Round {
    pub fn new(number: u64) -> Round {
        Round {
            number,
            bodies: Bodies::TurnedFrom(usize::MAX),
        }
    }

    /// The same round, with so many bytes or more in bodies that members write in turn.
    pub fn turned_from(self, from: usize) -> Round {
        Round {
            bodies: Bodies::TurnedFrom(from),
            ..self
        }
    }

    /// The same round, in the body that two members hand to each other.
    pub fn in_handed(self) -> Round {
        Round {
            bodies: Bodies::Handed(0),
            ..self
        }
    }

    /// Where its head is.
    #[inline(always)]
    pub fn head(self) -> usize {
        (self.number % HEADS) as usize * APART
    }

    /// The round of a chunk that begins at byte `start`, of rounds of which this is the first.
    #[inline(always)]
    pub fn of_chunk(self, chunk: u64, start: u64) -> Round {
        let round = self + chunk;
        debug_assert!(matches!(self.bodies, Bodies::TurnedFrom(_)) || start < HANDED as u64);
        match self.bodies {
            Bodies::TurnedFrom(_) => round,
            Bodies::Handed(at) => Round {
                bodies: Bodies::Handed(at + start as usize),
                ..round
            },
        }
    }

    /// The same round, for what nobody but its own process reads: not in a body in which another has written.
    pub fn alone(self) -> Round {
        match self.bodies {
            Bodies::TurnedFrom(_) => self,
            Bodies::Handed(_) => Round::new(self.number),
        }
    }

    /// Whether so many bytes lie in a body that members write in turn.
    #[inline(always)]
    fn turns(self, bytes: usize) -> bool {
        matches!(self.bodies, Bodies::TurnedFrom(from) if bytes >= from)
    }

    /// Where so many bytes lie, if in the body that two members hand to each other.
    #[inline(always)]
    pub fn handed_at(self, bytes: usize) -> Option<usize> {
        match self.bodies {
            Bodies::Handed(at) if bytes > INLINE => Some(HANDED_AT + at),
            _ => None,
        }
    }

    /// How often the bodies have changed hands.
    fn turn(self) -> u64 {
        self.number / EXCHANGED
    }

    /// The number of the round that everybody must have read before this one can be written with so many bytes.
    pub fn due(self, bytes: usize) -> u64 {
        let ahead = match bytes {
            ..=INLINE => HEADS,
            _ if self.turns(bytes) => EXCHANGED,
            // Whoever writes there has read what it writes over, so this is for the head.
            _ if self.handed_at(bytes).is_some() => HEADS,
            _ => BODIES,
        };
        self.number.saturating_sub(ahead)
    }

    /// In whose memory a member, one of `size`, writes so many bytes of it: in a turn in that of the member behind the one of the last turn. So
    /// of two, each writes over what it has read.
    #[inline(always)]
    pub fn host(self, rank: usize, size: usize, bytes: usize) -> usize {
        if self.handed_at(bytes).is_some() {
            return HANDED_IN;
        }
        match self.turns(bytes) {
            true => (rank + (self.turn() % size as u64) as usize) % size,
            false => rank,
        }
    }

    /// In whose memory, and where in its place, a member writes what is for another, of a round that has `each` bytes for each other one. The two
    /// write the same bytes in turn.
    #[inline(always)]
    pub fn cell(self, from: usize, to: usize, size: usize, each: usize) -> (usize, usize) {
        let all = each * (size - 1);
        if let Some(at) = self.handed_at(all) {
            return (HANDED_IN, at);
        }
        let (host, guest) = match self.turns(all) && !self.turn().is_multiple_of(2) {
            true => (to, from),
            false => (from, to),
        };
        // Nobody has a cell for itself.
        let nth = guest - usize::from(guest > host);
        (host, self.at(all) + nth * each)
    }

    /// Where in a place its bytes lie, if it has so many.
    #[inline(always)]
    pub fn at(self, bytes: usize) -> usize {
        if let Some(at) = self.handed_at(bytes) {
            return at;
        }
        let body = match bytes {
            ..=INLINE => return self.head() + 8,
            _ if self.turns(bytes) => BODIES + self.number % EXCHANGED,
            _ => self.number % BODIES,
        };
        BODIES_AT + body as usize * BODY
    }
}

impl Add<u64> for Round {
    type Output = Round;

    #[inline(always)]
    fn add(self, rounds: u64) -> Round {
        Round {
            number: self.number + rounds,
            ..self
        }
    }
}

/// The first round has number 1.
impl Sub<u64> for Round {
    type Output = Round;

    #[inline(always)]
    fn sub(self, rounds: u64) -> Round {
        Round {
            number: self.number.saturating_sub(rounds),
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rounds() -> impl Iterator<Item = Round> {
        let kinds = |number| KINDS.map(|from| Round::new(number).turned_from(from));
        (1..=5 * BODIES).flat_map(kinds)
    }

    const LONG: usize = 16 << 10;
    const KINDS: [usize; 3] = [usize::MAX, LONG, INLINE + 1];

    const LENGTHS: [usize; 6] = [0, INLINE, INLINE + 1, LONG - 1, LONG, BODY];

    #[test]
    fn what_is_written_anew_was_due_to_be_read() {
        let of_all = || rounds().flat_map(|r| LENGTHS.map(|bytes| (r, bytes)));
        for (round, bytes) in of_all() {
            let range = |at: usize, bytes: usize| at..at + bytes.max(1);
            let new = range(round.at(bytes), bytes);
            for (old, bytes_then) in of_all().filter(|(r, _)| r.number < round.number) {
                let old_range = range(old.at(bytes_then), bytes_then);
                let meet = old_range.start < new.end && new.start < old_range.end;
                assert!(!meet || old.number <= round.due(bytes));
            }
        }
    }

    #[test]
    fn each_body_has_one_writer() {
        for (round, size) in rounds().flat_map(|r| (2..6).map(move |size| (r, size))) {
            for bytes in LENGTHS {
                let mut hosts: Vec<_> = (0..size).map(|r| round.host(r, size, bytes)).collect();
                hosts.sort_unstable();
                assert!(hosts.into_iter().eq(0..size));
            }
        }
    }

    #[test]
    fn of_two_each_writes_over_what_it_has_read() {
        for round in rounds().filter(|round| round.turns(BODY)) {
            let next = round + EXCHANGED;
            assert_eq!(round.at(BODY), next.at(BODY));
            assert_eq!(round.host(1, 2, BODY), next.host(0, 2, BODY));
            // What is for one is so for any number.
            for size in 2..6 {
                let each = BODY / (size - 1);
                assert_eq!(round.cell(1, 0, size, each), next.cell(0, 1, size, each));
            }
        }
    }

    #[test]
    fn cells_lie_apart() {
        for (round, size) in rounds().flat_map(|r| (2..6).map(move |size| (r, size))) {
            for bytes in [INLINE, BODY / 4, BODY] {
                let each = bytes / (size - 1);
                let pairs = (0..size * size).map(|i| (i / size, i % size));
                let pairs = pairs.filter(|(from, to)| from != to);
                let mut cells: Vec<_> = pairs.map(|(a, b)| round.cell(a, b, size, each)).collect();
                cells.sort_unstable();
                let start = round.at(each * (size - 1));
                for (nth, cell) in cells.into_iter().enumerate() {
                    let (host, nth) = (nth / (size - 1), nth % (size - 1));
                    assert_eq!(cell, (host, start + nth * each));
                }
            }
        }
    }

    #[test]
    fn what_is_handed_over_has_been_read() {
        let hands = Hands::default();
        let mut last = None;
        for step in 0..200u64 {
            let writer = (step.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 63) as usize;
            let may = hands.take(writer);
            // Who writes it has read what the other one wrote there; and whoever hasn't written it last may.
            assert_eq!(may, last.map_or(writer == 0, |last| last != writer));
            last = if may { Some(writer) } else { last };
        }
    }

    #[test]
    fn what_is_handed_over_lies_apart() {
        let handed = |number| Round::new(number).in_handed();
        for (older, number) in (1..=5 * BODIES).zip(2..) {
            let chunks = [(0, 4 << 10), (4 << 10, INLINE + 1), (8 << 10, 8 << 10)];
            let at = chunks.map(|(start, bytes)| handed(number).of_chunk(0, start).at(bytes));
            assert_eq!(at, chunks.map(|(start, _)| HANDED_AT + start as usize));
            assert_eq!(handed(older).at(HANDED), handed(number).at(HANDED));
            // No body of another kind, nor what its own process alone reads, meets it.
            for (other, bytes) in rounds().flat_map(|r| LENGTHS.map(|bytes| (r, bytes))) {
                assert!(other.at(bytes) + bytes <= HANDED_AT);
            }
            assert!(handed(number).alone().at(HANDED) + HANDED <= HANDED_AT);
            let turned = Round::new(number).turned_from(INLINE + 1);
            assert_eq!(turned.alone().at(HANDED), turned.at(HANDED));
            // What fits lies beside a head all the same, and heads are written as ever.
            assert_eq!(handed(number).at(INLINE), Round::new(number).at(INLINE));
            assert_eq!(handed(number).due(HANDED), Round::new(number).due(0));
        }
        for size in [INLINE + 1, HANDED] {
            let cells = [(0, 1), (1, 0)].map(|(a, b)| handed(7).cell(a, b, 2, size));
            assert_eq!(cells, [(HANDED_IN, HANDED_AT); 2]);
            assert_eq!(
                [0, 1].map(|rank| handed(7).host(rank, 2, size)),
                [HANDED_IN; 2]
            );
        }
    }
}
