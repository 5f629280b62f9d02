//! The sheets of two processes: where a message of 2 to some 10 KiB lies that goes with one cell.
//!
//! Two processes have [`COUNT`] of them, and each of these belongs to one of the two, as both know without a word that they would share: who
//! names a sheet in a cell that it publishes gives it away, and who has copied out what is in there has it from then on. So nothing is unread in what a process
//! owns: there is no room to account for, and the cell is announcement, header and end of the message in one. Who answers writes to the lines that it has just read, as
//! in a [common pipe](crate::common). Who has no sheet left, as it sends and is not answered, goes the ordinary way, which waits for none.
//!
//! Invariants: a [`Sheet`] lies in the sheets' memory. A peer that names a sheet which is not its own is found out.
//!
//! Who calls it: [`port`](crate::port), which has both sides, and [`incoming`](crate::incoming).

use std::cell::Cell;

use crate::lane::PLAY;
use crate::ring::Hostile;
use crate::wire::EAGER;

/// Sheets of two processes.
const COUNT: usize = 8;
/// Longest message in a sheet.
pub(crate) const MOST: usize = 12 << 10;
/// Bytes of a sheet: wherever in a page its message begins.
const BYTES: usize = MOST + PLAY;
/// Bytes of all of them.
pub(crate) const ALL: usize = COUNT * BYTES;

/// Where a message lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Sheet {
    start: u32,
    len: u32,
}

impl Sheet {
    /// From the word that a cell has.
    #[inline]
    pub fn of(word: u64) -> Result<Sheet, Hostile> {
        let (start, len) = (word as u32, (word >> 32) as u32);
        let sheet = Sheet { start, len };
        let (at, bytes) = (start as usize, len as usize);
        let inside = at < ALL && bytes > EAGER && bytes <= MOST && at % BYTES <= BYTES - bytes;
        if inside { Ok(sheet) } else { Err(Hostile) }
    }

    /// The word that says it in a cell.
    #[inline]
    pub fn word(self) -> u64 {
        u64::from(self.len) << 32 | u64::from(self.start)
    }

    /// Where it begins.
    #[inline]
    pub fn start(self) -> usize {
        self.start as usize
    }

    /// Bytes of the message.
    #[inline]
    pub fn len(self) -> usize {
        self.len as usize
    }

    /// Its sheet's bit.
    #[inline]
    fn bit(self) -> u8 {
        1 << (self.start as usize / BYTES)
    }
}

/// The sheets that a process owns of those that it shares with a peer: a bit for each.
#[derive(Debug)]
pub(crate) struct Sheets(Cell<u8>);

impl Sheets {
    /// None.
    pub const NONE: u8 = 0;
    /// Those that the first of the two has at the beginning,
    pub const FIRST: u8 = 0x0f;
    /// and the other.
    pub const OTHER: u8 = !Sheets::FIRST;

    /// These.
    pub fn new(owned: u8) -> Sheets {
        Sheets(Cell::new(owned))
    }

    /// Whether there is one.
    #[inline(always)]
    pub fn has_any(&self) -> bool {
        self.0.get() != 0
    }

    /// Where a message of `len` bytes, more than `EAGER` and at most [`MOST`], goes that begins best at `place` of a page. Not before it is [given](Sheets::give) it leaves
    /// this process.
    #[inline]
    pub fn next(&self, place: usize, len: usize) -> Option<Sheet> {
        debug_assert!(place < PLAY && len > EAGER && len <= MOST);
        let owned = self.0.get();
        (owned != 0).then_some(Sheet {
            start: (owned.trailing_zeros() as usize * BYTES + place) as u32,
            len: len as u32,
        })
    }

    /// The peer has it now.
    #[inline]
    pub fn give(&self, sheet: Sheet) {
        self.0.set(self.0.get() & !sheet.bit());
    }

    /// Whether the peer may name it.
    #[inline]
    pub fn check(&self, sheet: Sheet) -> Result<(), Hostile> {
        match self.0.get() & sheet.bit() {
            0 => Ok(()),
            _ => Err(Hostile),
        }
    }

    /// What the peer named was read.
    #[inline]
    pub fn keep(&self, sheet: Sheet) {
        self.0.set(self.0.get() | sheet.bit());
    }
}
