//! The pipes that two processes have in common, beside one for each direction, and whose turn it is to write to them.
//!
//! Who answers a message writes the answer best to where that message lay: these lines it has just read, and the peer, who wrote them, reads
//! them again. Between two cores of an EPYC of the fifth generation, messages to and fro of 8, 16, 64 and 128 KiB take 0.27, 0.40, 1.18 and 2.1 us that way, and 0.32, 0.53,
//! 1.33 and 2.37 through a pipe for each direction; between cores further apart of 4, 8 and 128 KiB 0.74, 0.89 and 4.6 in place of 0.97, 1.26 and 5.8 to 7.4. Exchanged at the same time
//! messages of 8 and 64 KiB take 0.40 and 2.1 in place of 0.65 and 2.7. On a Xeon it is a sixth at 4 KiB, a tenth at 256 KiB, and little in between.
//!
//! There are two, so that who sends at the same time as the peer also writes to what it has read. What is written there are *sections*: runs of chunks, each the whole of what a message has to send at that time. One word counts the sections that were ever begun. A process
//! that has begun or read to its end every one of them may begin the next, by compare and swap. So it is read what the peer wrote there before anything else is, and who comes late has a pipe of its own.
//!
//! Invariants: between beginning a section and the peer's reading of its end the common pipe is one process's to write; what of its sections
//! is still unread its [`Space`](crate::space::Space) knows. Of a peer that counts otherwise only the messages to and from it suffer.
//!
//! Who calls it: [`pipe`](crate::pipe) and [`early`](crate::early), and the slots' streams, which have pipes of their own.

#[cfg(not(all(test, loom)))]
use std::sync::atomic::AtomicU32;

#[cfg(all(test, loom))]
use loom::sync::atomic::AtomicU32;

use std::sync::atomic::Ordering::{AcqRel, Acquire};

use crate::lane::{COMMON_PIPE, ChunkHeader, Lane, Whose};

/// How many sections were begun.
#[repr(C, align(64))]
pub(crate) struct Turn(AtomicU32);

impl Turn {
    #[cfg(all(test, loom))]
    pub fn new(begun: u32) -> Turn {
        Turn(AtomicU32::new(begun))
    }

    #[cfg(test)]
    pub fn set(&self, begun: u32) {
        self.0.store(begun, std::sync::atomic::Ordering::Relaxed);
    }

    /// Begins a section, if the `known` ones are all that were begun.
    #[inline]
    pub fn begin(&self, known: u32) -> bool {
        let next = known.wrapping_add(1);
        self.0
            .compare_exchange(known, next, AcqRel, Acquire)
            .is_ok()
    }
}

/// How many such pipes two processes have: when both send at the same time, each has one.
pub(crate) const AREAS: usize = 2;

/// A common pipe, as this process sees it.
struct Area {
    /// The directions' lanes over its memory.
    out: Lane<COMMON_PIPE>,
    inward: Lane<COMMON_PIPE>,
    /// The one of them that has the word.
    turn: Lane<COMMON_PIPE>,
    /// Sections that this process has begun or read.
    known: u32,
    /// Where the first of the peer's sections begins that it has read since it began one.
    read: Option<usize>,
}

/// What reading changes.
#[derive(Clone, Copy)]
pub(crate) struct Mark {
    areas: [(u32, Option<usize>); AREAS],
    next: usize,
}

/// The common pipes of this process and a peer.
pub(crate) struct Common {
    areas: [Area; AREAS],
    /// Where it writes a section.
    open: Option<usize>,
    /// Where it begins the next best: where it read last.
    next: usize,
}

impl Common {
    /// With the lanes out and back over each common pipe; and whether the peer comes first of the two.
    pub fn new(
        lanes: impl Fn(usize) -> (Lane<COMMON_PIPE>, Lane<COMMON_PIPE>),
        peer_first: bool,
    ) -> Common {
        let area = |i| {
            let (out, inward) = lanes(i);
            Area {
                out,
                inward,
                turn: if peer_first { inward } else { out },
                known: 0,
                read: None,
            }
        };
        Common {
            areas: [area(0), area(1)],
            open: None,
            next: usize::from(peer_first),
        }
    }

    /// The way out through one of them.
    #[inline]
    pub fn out(&self, area: usize) -> Lane<COMMON_PIPE> {
        self.areas[area].out
    }

    /// How things stand, to be [restored](Common::restore) if what is read now counts as unread.
    #[inline]
    pub fn mark(&self) -> Mark {
        Mark {
            areas: [0, 1].map(|i| (self.areas[i].known, self.areas[i].read)),
            next: self.next,
        }
    }

    /// How things stood.
    pub fn restore(&mut self, mark: Mark) {
        for (area, before) in self.areas.iter_mut().zip(mark.areas) {
            (area.known, area.read) = before;
        }
        self.next = mark.next;
    }

    /// Whether a section is being written.
    #[inline]
    pub fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Begins a section in the best one whose turn it is, and says where in there it lies best, if not behind the one before: where what it answers lay.
    #[inline]
    pub fn begin(&mut self) -> Option<(usize, Option<usize>)> {
        let other = AREAS - 1 - self.next;
        [self.next, other]
            .into_iter()
            .find(|&area| self.begin_in(area))
            .map(|area| (area, self.areas[area].read.take()))
    }

    /// Begins one in this one, behind the one before, if it is this process's turn.
    #[inline]
    pub fn begin_in(&mut self, i: usize) -> bool {
        debug_assert!(self.open.is_none());
        let area = &mut self.areas[i];
        let begun = area.turn.turn(i).begin(area.known);
        if begun {
            area.known = area.known.wrapping_add(1);
            self.open = Some(i);
        }
        begun
    }

    /// Where the next chunk of a message lies, the last of it or not.
    #[inline]
    pub fn place(&mut self, last: bool) -> Whose {
        let Some(area) = self.open else {
            return Whose::Own;
        };
        if last {
            self.open = None;
        }
        Whose::Common { area, last }
    }

    /// Gives the bytes of a chunk from the peer to `take`. `own` is the direction's lane.
    #[inline]
    pub fn drain(&mut self, own: Lane, header: ChunkHeader, take: impl FnOnce(&[u8])) {
        // Who was answered mostly answers: the lines of its first chunk stay.
        let first = match header.whose {
            Whose::Own => false,
            Whose::Common { area, .. } => self.areas[area].read.is_none(),
        };
        self.read(own, header, take);
        match header.whose {
            Whose::Own => own.give_up_chunk(header),
            Whose::Common { area, .. } if !first => self.areas[area].inward.give_up_chunk(header),
            Whose::Common { .. } => {}
        }
    }

    /// The same, and the bytes stay as they are.
    #[inline]
    pub fn read(&mut self, own: Lane, header: ChunkHeader, take: impl FnOnce(&[u8])) {
        let Whose::Common { area: i, last } = header.whose else {
            return own.read_chunk(header, take);
        };
        let area = &mut self.areas[i];
        if area.read.is_none() {
            area.read = Some(header.start);
            // The word comes while the bytes are copied.
            area.turn.own_turn(i);
        }
        area.inward.read_chunk(header, take);
        if last {
            area.known = area.known.wrapping_add(1);
            self.next = i;
        }
    }
}
