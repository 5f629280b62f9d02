//! What short messages in the slots of a table with one peer touch, beside their lines: one cache line, and half a one for each slot.
//!
//! A [`SlotPort`] is used through shared references, so whoever posts, delivers or takes a message of a few bytes needs neither the
//! fabric nor a search; the fabric's ordinary ways use the same [`Side`]s.
//!
//! # Invariants
//! * All use is in one thread at a time (nothing here is `Sync`).
//! * A port whose limit is above 0 points to both lines and to the sides of its pair, which stay where they are until the table is closed;
//!   that, and a peer that fails, sets the limit to 0.
//! * A receive that was posted here is known to its [`Side`] alone, until an ordinary way asks for it
//!   ([`Pair::receive`](super::table::Pair::receive)).
//! * Nothing goes out of a slot here before its user has said that nothing waits there ([`Side::clear`]), and when something does,
//!   its user says so.
//!
//! Who calls it: the short path of FMPL.

use std::cell::Cell;
use std::ops::Range;
use std::ptr;
use std::rc::Rc;
use std::sync::Arc;

use boundary::UserBuf;

use super::line::{Header, INLINE, Line};
use super::table::Pair;
use crate::segment::{BellRef, Segment};

/// What both ways know of a slot.
pub(crate) struct Side {
    /// The memory of a receive that was posted here,
    buf: Cell<usize>,
    /// and how long it is.
    length: Cell<u32>,
    /// Generation of the last receive that was posted.
    pub generation: Cell<u32>,
    /// Generation of the last receive that was served.
    pub consumed: Cell<u32>,
    /// Whether a receive is there.
    pub posted: Cell<Posted>,
    /// Whether deliveries may go out here.
    pub clear: Cell<bool>,
}

/// Whether a receive is in a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Posted {
    /// There is none.
    Free,
    /// There is one; how far it is, the ordinary way knows.
    Ordinary,
    /// It was posted here.
    Short,
}

impl Side {
    pub fn new() -> Side {
        Side {
            buf: Cell::new(0),
            length: Cell::new(0),
            generation: Cell::new(0),
            consumed: Cell::new(0),
            posted: Cell::new(Posted::Free),
            clear: Cell::new(false),
        }
    }

    /// The memory of a receive that was posted here.
    pub fn memory(&self) -> (UserBuf, u64) {
        // SAFETY: the address is that of a `UserBuf`, whose maker vouched for the memory until the receive is over.
        let buf = unsafe { UserBuf::new(self.buf.get()) };
        (buf, self.length.get().into())
    }
}

/// The short way to and from the slots of a table with one peer.
#[repr(C, align(64))]
pub struct SlotPort {
    /// Slots below this are used here.
    limit: Cell<u32>,
    mine: Cell<*const Line>,
    theirs: Cell<*const Line>,
    sides: Cell<*const Side>,
    bell: BellRef,
}

const _: () = assert!(size_of::<SlotPort>() == 64);

/// What came of looking for a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Taken {
    /// It is there, and the receive is over.
    Whole,
    /// It has not come.
    NotYet,
    /// The ordinary way has to look.
    Otherwise,
}

/// The parts of a slot.
struct Parts<'a> {
    mine: &'a Line,
    theirs: &'a Line,
    side: &'a Side,
}

impl SlotPort {
    /// Longest message.
    pub const MOST: usize = INLINE;

    fn new(bell: BellRef) -> SlotPort {
        SlotPort {
            limit: Cell::new(0),
            mine: Cell::new(ptr::null()),
            theirs: Cell::new(ptr::null()),
            sides: Cell::new(ptr::null()),
            bell,
        }
    }

    #[inline(always)]
    fn parts(&self, index: u32) -> Option<Parts<'_>> {
        if index >= self.limit.get() {
            return None;
        }
        let at = index as usize;
        // SAFETY: below the limit, which `show` sets, all three have such an element, and they live until `hide`.
        unsafe {
            Some(Parts {
                mine: &*self.mine.get().add(at),
                theirs: &*self.theirs.get().add(at),
                side: &*self.sides.get().add(at),
            })
        }
    }

    /// Delivers `len` bytes at `buf` if a receive for so many is offered: 0, which is what the call returns then. `None`: nothing was done.
    #[inline(always)]
    pub fn deliver(&self, index: u32, buf: UserBuf, len: usize) -> Option<i32> {
        let Parts { mine, theirs, side } = self.parts(index)?;
        let generation = side.consumed.get().wrapping_add(1);
        if len > INLINE || !side.clear.get() || !theirs.is_offered(generation) {
            return None;
        }
        if theirs.length() < len as u64 {
            return None;
        }
        // SAFETY: the maker of the buffer vouched for its `len` bytes, at most `INLINE`.
        unsafe { mine.land_inline(generation, index, buf.as_mut_ptr(), len) };
        side.consumed.set(generation);
        Some(self.bell.get().ring_last())
    }

    /// Posts a receive into `len` bytes at `buf`, at most [`MOST`](SlotPort::MOST). False: nothing was done.
    #[inline(always)]
    pub fn post(&self, index: u32, buf: UserBuf, len: usize) -> bool {
        let Some(Parts { mine, side, .. }) = self.parts(index) else {
            return false;
        };
        if len > INLINE || side.posted.get() != Posted::Free {
            return false;
        }
        let generation = side.generation.get().wrapping_add(1);
        side.buf.set(buf.addr());
        side.length.set(len as u32);
        side.generation.set(generation);
        side.posted.set(Posted::Short);
        mine.set_header(Header {
            segment: 0,
            offset: 0,
            length: len as u64,
        });
        mine.offer(generation);
        self.bell.get().ring();
        true
    }

    /// Ends the receive that was posted here if its message is there, or is within so many looks more.
    #[inline(always)]
    pub fn take(&self, index: u32, looks: u32) -> Taken {
        let Some(Parts { theirs, side, .. }) = self.parts(index) else {
            return Taken::Otherwise;
        };
        let generation = side.generation.get();
        if side.posted.get() != Posted::Short {
            return Taken::Otherwise;
        }
        if !theirs.has_landed(generation) && !theirs.await_landing(generation, looks) {
            return Taken::NotYet;
        }
        let (buf, length) = side.memory();
        // SAFETY: the maker of the buffer vouched for its `length` bytes, of which no more are written.
        let whole = unsafe { theirs.read_inline(buf.as_mut_ptr(), length) };
        if !whole {
            return Taken::Otherwise;
        }
        side.posted.set(Posted::Free);
        Taken::Whole
    }
}

/// The ports of a table.
pub struct SlotPorts {
    ports: Box<[SlotPort]>,
    limit: u32,
    // What the bells point into.
    _segment: Arc<Segment>,
}

impl SlotPorts {
    /// Ports of a table with so many processes, all hidden, of which slots below `limit` are used.
    pub(super) fn new(
        bells: impl Iterator<Item = BellRef>,
        limit: u32,
        segment: Arc<Segment>,
    ) -> Rc<SlotPorts> {
        Rc::new(SlotPorts {
            ports: bells.map(SlotPort::new).collect(),
            limit,
            _segment: segment,
        })
    }

    /// Those of a run of processes.
    pub fn of(&self, processes: Range<usize>) -> Option<&[SlotPort]> {
        self.ports.get(processes)
    }

    /// A pair is used, if it can be.
    pub(super) fn show(&self, peer: u32, pair: &Pair) {
        let port = &self.ports[peer as usize];
        let (Some(mine), Some(theirs), None) = (&pair.mine, &pair.theirs, pair.trouble) else {
            return;
        };
        let count = mine.count().min(theirs.count());
        port.mine.set(mine.first());
        port.theirs.set(theirs.first());
        port.sides.set(pair.sides.as_ptr());
        port.limit
            .set(self.limit.min(count).min(pair.sides.len() as u32));
    }

    /// A pair is used no more.
    pub(super) fn hide(&self, peer: u32) {
        self.ports[peer as usize].limit.set(0);
    }

    /// No pair is.
    pub(super) fn hide_all(&self) {
        self.ports.iter().for_each(|port| port.limit.set(0));
    }
}
