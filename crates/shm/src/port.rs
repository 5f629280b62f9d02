//! What the shortest ways to and from a peer touch: one cache line for each.
//!
//! A [`Port`] holds both rings' positions, and which lines are free, and is changed through shared references, so whoever sends or receives a message of one
//! cache line needs neither the fabric nor a lock of its own; the fabric's other ways use the same positions.
//!
//! Invariants: all use is in one thread at a time (nothing here is `Sync`); a port's addresses stay valid while its [`Ports`] live, which
//! hold the segment. Nothing goes out here while the port is shut: before the peer knows of us, while messages wait for
//! room, which must not be overtaken, to the process itself, to a peer that failed, and where deaths are to be expected
//! ([`Shm::expect_deaths`](crate::Shm::expect_deaths)).
//!
//! Who calls it: the engine's short paths, and all of this crate that sends or receives.

use std::cell::Cell;
use std::ops::Index;
use std::sync::Arc;

use boundary::UserBuf;
use mtmi::{Context, Endpoint, TagSel};

use crate::chunking;
use crate::lane::{Lane, WINDOW};
use crate::lines::{Lines, Span, lines};
use crate::ring::{At, Hostile, Rx, Tx};
use crate::segment::{BellRef, Segment};
use crate::sheets::{self, Sheet, Sheets};
use crate::wire::{EAGER, Header, INLINE, Kind};

/// Of so many looks at the credit one is left to the ordinary way, which makes progress for others too: after 4,000 to 8,000 messages, which take less than a
/// millisecond, for some 2,750 instructions.
const TURN: u32 = 128;

/// A look more for so many bytes: between cores far from each other 64 KiB take some 3 microseconds.
const LOOK_BYTES: u32 = 256;

/// A message that was received at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AtOnce {
    /// Its tag.
    pub tag: i32,
    /// Its length.
    pub bytes: usize,
}

/// The ways to and from one peer.
#[repr(C, align(64))]
pub struct Port {
    /// The way there,
    pub(crate) lane: Lane,
    pub(crate) bell: BellRef,
    /// and back, over the sheets of both.
    pub(crate) inward: Lane<{ sheets::ALL }>,
    pub(crate) tx: Tx,
    pub(crate) rx: Rx,
    /// The lines that are free there.
    pub(crate) lines: Lines,
    /// Looks at the credit; see [`TURN`].
    looks: Cell<u8>,
    /// The sheets that are this process's.
    pub(crate) sheets: Sheets,
    /// Whether nothing goes out here, whatever the credit.
    shut: Cell<bool>,
    /// Whether the peer ever sent, and has not failed.
    known: Cell<bool>,
}

const _: () = assert!(size_of::<Port>() == 64);

impl Port {
    /// Longest message that goes here in one cell,
    pub const MOST: usize = INLINE;
    /// in lines of its own,
    pub const LINES_MOST: usize = EAGER;
    /// and at all.
    pub const LONGEST: usize = sheets::MOST;
    /// Longest message of which it may be known when it was announced that it comes at once.
    pub const LONGEST_COMING: usize = WINDOW;

    /// Of the sheets `owned` are this process's at first, and it may write to its box first or not.
    pub(crate) fn new(
        lane: Lane,
        inward: Lane<{ sheets::ALL }>,
        bell: BellRef,
        (owned, boxed): (u8, bool),
    ) -> Port {
        Port {
            lane,
            bell,
            inward,
            tx: Tx::new(boxed),
            rx: Rx::new(),
            lines: Lines::new(),
            looks: Cell::new(0),
            sheets: Sheets::new(owned),
            shut: Cell::new(true),
            known: Cell::new(false),
        }
    }

    /// Sends `len` bytes at `buf` at once, if they fit into a cell and the ring is known to have a free one. False: nothing was
    /// done, and it may help to [look](Port::look); else the ordinary way has to do it.
    #[inline(always)]
    pub fn send(&self, context: Context, tag: i32, buf: UserBuf, len: usize) -> bool {
        let room = match self.room() {
            Some(room) if len <= INLINE => room,
            _ => return false,
        };
        room.send(context, tag, buf, len);
        true
    }

    /// The next cell, if one is known to be free. Else it may help to [look](Port::look).
    #[inline(always)]
    pub fn room(&self) -> Option<Room<'_>> {
        (!self.tx.is_full()).then_some(Room(self))
    }

    /// Sends `len` bytes at `buf`, more than [`MOST`](Port::MOST) and at most [`LINES_MOST`](Port::LINES_MOST), at once: what is
    /// [done last](sys::doorbell::Doorbell::ring_last). `None`: nothing was done; the ordinary way has to do it. `ready` is asked last.
    #[inline]
    pub fn send_lines(
        &self,
        (context, tag): (Context, i32),
        buf: UserBuf,
        len: usize,
        ready: impl FnOnce() -> bool,
    ) -> Option<i32> {
        if (!self.fits(len) && !self.look_for(len)) || !ready() {
            return None;
        }
        // Not in the box: 64 bytes and their line would take 140 ns in place of 117.
        let (mut lane, at, span) = (self.lane, At::of(self.tx.next()), self.take_lines(len));
        lane.send_lines(at, (context.0, tag), span, buf, len);
        self.tx.publish(&lane, at);
        let code = self.bell.get().ring_last();
        self.own_lines(len);
        Some(code)
    }

    /// Sends `len` bytes at `buf`, more than [`MOST`](Port::MOST) and at most [`LONGEST`](Port::LONGEST), at once, if there is a sheet for
    /// them: as [`send_lines`](Port::send_lines).
    #[inline(never)]
    pub fn send_sheet(
        &self,
        (context, tag): (Context, i32),
        buf: UserBuf,
        len: usize,
        ready: impl FnOnce() -> bool,
    ) -> Option<i32> {
        let sheet = self.sheets.next(self.inward.place_for(buf), len)?;
        if (self.tx.is_full() && !self.look_for(0)) || !ready() {
            return None;
        }
        self.inward.fill_sheet(sheet, buf);
        self.sheets.give(sheet);
        let (lane, at) = (self.lane, self.tx.place());
        lane.write_sheet(at, (context.0, tag), sheet);
        self.tx.publish(&lane, at);
        Some(self.bell.get().ring_last())
    }

    /// Gives the next message back, which lay there and was read.
    #[inline(always)]
    pub(crate) fn consume(&self, at: At, number: u32) {
        if at.is_box() {
            self.tx.have_box();
        }
        if self.rx.consume(&self.inward, number) {
            self.bell.get().ring();
        }
    }

    /// The same of one that lay in lines.
    #[inline]
    pub(crate) fn consume_lines(&self, number: u32, span: Span) {
        if self.rx.consume_lines(&self.inward, number, span) {
            self.bell.get().ring();
        }
    }

    /// Whether a sheet is this process's, and a message of `len` bytes is one for that.
    #[inline(always)]
    pub fn has_sheet_for(&self, len: usize) -> bool {
        self.sheets.has_any() && len >= chunking::here().sheet_min
    }

    /// Whether a message of `len` bytes is known to fit.
    #[inline]
    pub(crate) fn fits(&self, len: usize) -> bool {
        let number = self.tx.next();
        !self.tx.is_full() && (len <= INLINE || self.lines.place(number, lines(len)).is_some())
    }

    /// Takes the lines for the next message, of `len` bytes, more than [`MOST`](Port::MOST), which [fits](Port::fits).
    #[inline]
    pub(crate) fn take_lines(&self, len: usize) -> Span {
        self.lines.take(self.tx.next(), lines(len))
    }

    /// Takes up what the peer gave back.
    pub(crate) fn refresh(&self) -> Result<(), Hostile> {
        // In this order: whoever waits for lines waits for a change of the credit.
        self.tx.refresh(&self.lane)?;
        self.lines.refresh(&self.lane)
    }

    /// Asks for what the next message will write, if that is one like the last, of `len` bytes in lines of their own.
    #[inline]
    pub(crate) fn own_lines(&self, len: usize) {
        let number = self.tx.next();
        self.lane.own_cell(At::of(number));
        // What is not known to be free may be unread.
        if let Some(span) = self.lines.place(number, lines(len)) {
            self.lane.own_payload(span);
        }
    }

    /// Whether the ring, which seemed full, has room after all.
    #[cold]
    #[inline(never)]
    pub fn look(&self) -> bool {
        self.tx.is_full() && self.look_for(0)
    }

    /// The same where nothing else is to be done; else false.
    #[inline(always)]
    pub fn look_quickly(&self) -> bool {
        self.tx.is_full()
            && self.may_look()
            && !self.tx.empties()
            && self.tx.take_up(&self.lane).is_ok()
            && !self.tx.is_full()
    }

    /// Counts a look, which may be left to the ordinary way.
    #[inline(always)]
    fn may_look(&self) -> bool {
        let looks = self.looks.get().wrapping_add(1);
        self.looks.set(looks);
        !self.shut.get() && !u32::from(looks).is_multiple_of(TURN)
    }

    /// Whether a message of `len` bytes fits after all.
    fn look_for(&self, len: usize) -> bool {
        if !self.may_look() {
            return false;
        }
        // Who waits for lines, and so for credit, has looked at both.
        let refreshed = match len <= INLINE {
            true => self.tx.refresh(&self.lane),
            false => self.refresh(),
        };
        refreshed.is_ok() && self.fits(len)
    }

    /// Takes the next message into `to`, if it is (or is within as many looks as `looks` says) one of a cell with this context and tag that fits. No
    /// receive may be posted that it might match and no message of the peer be unexpected. `None`: nothing was done.
    #[inline(always)]
    pub fn receive(
        &self,
        context: Context,
        tag: TagSel,
        to: UserBuf,
        capacity: usize,
        looks: impl FnOnce() -> u32,
    ) -> Option<AtOnce> {
        if !self.known.get() {
            return None;
        }
        let (lane, number) = (self.inward, self.rx.next());
        let at = match Rx::find(&lane, number) {
            Some(at) => at,
            None => self.wait(looks())?,
        };
        let (tag, bytes) = lane.read_inline_header(at, context.0, tag)?;
        if bytes > capacity {
            return None;
        }
        lane.read_inline(at, to, bytes);
        self.consume(at, number);
        Some(AtOnce { tag, bytes })
    }

    /// Takes the next message into `to`, if it is there and has lines of its own or lies in a sheet; else as [`receive`](Port::receive).
    #[inline]
    pub fn receive_more(
        &self,
        context: Context,
        tag: TagSel,
        to: UserBuf,
        capacity: usize,
    ) -> Option<AtOnce> {
        let lane = self.inward;
        let at = self.next()?;
        let header = lane.read_header(at).ok()?;
        if header.kind == Kind::Eager && header.len > INLINE {
            self.prefetch_lines(header.lines());
        }
        let wanted = matches!(tag, TagSel::Any) || tag == TagSel::Exact(header.tag);
        if header.context != context.0 || !wanted {
            return None;
        }
        let bytes = match header.kind {
            Kind::Eager if header.len > INLINE => self.take_lines_out(&header, to, capacity),
            Kind::Sheet => self.take_sheet_out(at, to, capacity),
            _ => None,
        }?;
        let tag = header.tag;
        Some(AtOnce { tag, bytes })
    }

    /// Where the next message is, if it is there.
    #[inline]
    pub(crate) fn next(&self) -> Option<At> {
        match self.known.get() {
            true => Rx::find(&self.inward, self.rx.next()),
            false => None,
        }
    }

    /// Whether the next message is there and is announced.
    #[inline]
    pub fn announces(&self) -> bool {
        let header = self.next().map(|at| self.inward.read_header(at));
        matches!(header, Some(Ok(header)) if header.kind == Kind::Announce)
    }

    /// Takes the next message, which has this header and lines of its own, if it fits: its length.
    #[inline]
    fn take_lines_out(&self, header: &Header, to: UserBuf, capacity: usize) -> Option<usize> {
        let (lane, number, span) = (self.inward, self.rx.next(), header.lines());
        if header.len > capacity {
            return None;
        }
        lane.read_lines(span, to, header.len);
        self.consume_lines(number, span);
        Some(header.len)
    }

    /// Takes the next message, which lies in a sheet, if it fits: its length.
    #[inline(never)]
    fn take_sheet_out(&self, at: At, to: UserBuf, capacity: usize) -> Option<usize> {
        let (lane, number) = (self.inward, self.rx.next());
        // What is wrong is found once more, and told, where the ring is drained.
        let sheet = self.sheet_of(at).ok()?;
        if sheet.len() > capacity {
            return None;
        }
        lane.read_sheet(sheet, to);
        self.sheets.keep(sheet);
        self.consume(at, number);
        Some(sheet.len())
    }

    /// Where a message lies, which says that it lies in a sheet.
    #[inline]
    pub(crate) fn sheet_of(&self, at: At) -> Result<Sheet, Hostile> {
        let sheet = self.inward.sheet_of(at)?;
        self.sheets.check(sheet)?;
        Ok(sheet)
    }

    /// Asks for the lines of a message, and for what the next message this long the other way has to know, as whoever
    /// gets something long mostly answers with the like.
    #[inline]
    pub(crate) fn prefetch_lines(&self, span: Span) {
        self.inward.prefetch_payload(span);
        self.lane.prefetch_returned();
    }

    /// Looks so many times more whether a message is there: where.
    #[inline(always)]
    fn wait(&self, looks: u32) -> Option<At> {
        // Copies: the words that are looked at can't change them, as far as the compiler knows.
        let (lane, number) = (self.inward, self.rx.next());
        let [boxed, other] = [At::BOX, At::of(number)].map(|at| lane.sequence_word(at));
        match sys::copy::look_for_either(boxed, other, number, looks) {
            true => Rx::find(&lane, number),
            false => None,
        }
    }

    /// Lets nothing through here until it is opened.
    pub(crate) fn shut(&self) {
        self.tx.close();
        self.shut.set(true);
    }

    /// What is sent here overtakes nothing.
    pub(crate) fn open(&self) {
        self.shut.set(false);
    }

    /// Whether the peer is one that sends.
    pub(crate) fn set_known(&self, known: bool) {
        self.known.set(known);
    }
}

/// A free cell to a peer, for one message.
pub struct Room<'a>(&'a Port);

impl Room<'_> {
    /// Sends `len` bytes at `buf`, and returns 0, as what is [done last](sys::doorbell::Doorbell::ring_last).
    ///
    /// # Panics
    /// When they are more than [`Port::MOST`].
    #[inline(always)]
    pub fn send(self, context: Context, tag: i32, buf: UserBuf, len: usize) -> i32 {
        let port = self.0;
        // A copy: what is written to the ring can't change it, as far as the compiler knows.
        let (lane, number) = (port.lane, port.tx.next());
        lane.send_inline(port.tx.place(), number, (context.0, tag), buf, len);
        port.tx.published(number);
        port.bell.get().ring_last()
    }
}

/// The ports of all processes of the job, and the memory that they point into.
pub struct Ports {
    ports: Box<[Port]>,
    /// Looks into a ring for a message that is to be received at once.
    looks: Cell<u32>,
    _segment: Arc<Segment>,
}

impl Ports {
    pub(crate) fn new(ports: impl Iterator<Item = Port>, segment: Arc<Segment>) -> Ports {
        Ports {
            ports: ports.collect(),
            looks: Cell::new(0),
            _segment: segment,
        }
    }

    /// One port for each process of the job, in order.
    #[inline(always)]
    pub fn all(&self) -> &[Port] {
        &self.ports
    }

    /// How often to look for a message that is to be received at once.
    #[inline(always)]
    pub fn looks(&self) -> u32 {
        self.looks.get()
    }

    /// The same for a message of up to `capacity` bytes, which takes longer to come the longer it is.
    #[inline(always)]
    pub fn looks_for(&self, capacity: usize) -> u32 {
        match self.looks.get() {
            0 => 0,
            looks => looks + capacity.min(WINDOW) as u32 / LOOK_BYTES,
        }
    }

    pub(crate) fn set_looks(&self, looks: u32) {
        self.looks.set(looks);
    }
}

impl Index<u32> for Ports {
    type Output = Port;

    #[inline(always)]
    fn index(&self, peer: u32) -> &Port {
        &self.ports[peer as usize]
    }
}

impl Index<Endpoint> for Ports {
    type Output = Port;

    #[inline(always)]
    fn index(&self, peer: Endpoint) -> &Port {
        &self.ports[peer.index()]
    }
}
