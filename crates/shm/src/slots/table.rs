//! What is known of slots: tables, pairs, pipes, and what is under way.

use std::collections::{HashSet, VecDeque};
use std::io;
use std::ptr::NonNull;
use std::rc::Rc;

use layout::{Data, Reader, Writer};
use mtmi::slot::{Delivery, Landed, SlotError};
use sys::memfd::Mapping;

pub(super) use super::area::Entry;
use super::area::{Area, Directory};
use super::arena::{Arena, Windows};
use super::line::{Line, NOWHERE};
use super::pipes::Pipes;
use super::port::{Posted, Side, SlotPorts};
use crate::split::Cut;
use crate::state::Offer;

/// Slots of one process.
pub(crate) struct SlotState {
    pub tables: Vec<Option<Table>>,
    /// By endpoint; empty until the first table is opened or mapped memory used.
    pub links: Vec<Link>,
    /// The node's file, or why there is none.
    pub area: Result<Area, i32>,
    pub arena: Arena,
    /// Peers with whom something streams or is split.
    pub busy: Vec<u32>,
    /// Deliveries under way.
    pub pending: u32,
    /// Names of tables that were closed.
    pub closed: HashSet<u32>,
    /// Closed tables of which peers may still read.
    pub retired: Vec<Retired>,
    /// Receives that were asked back by peers before this process opened their tables.
    pub early: Vec<(u32, Ask)>,
}

/// A table.
pub(crate) struct Table {
    pub name: u32,
    /// Where this process's lines are.
    pub entry: Entry,
    /// Its number in the directory.
    pub number: u64,
    /// By endpoint.
    pub pairs: Vec<Pair>,
    /// The same for short messages, if they are used.
    pub ports: Option<Rc<SlotPorts>>,
}

/// A table with one peer. Empty until it is used.
#[derive(Default)]
pub(crate) struct Pair {
    /// The lines that this process writes,
    pub mine: Option<Lines>,
    /// and those that the peer writes, once it has opened the table.
    pub theirs: Option<Lines>,
    receives: Vec<Receive>,
    pub deliveries: Vec<Deliver>,
    /// What short messages share with these.
    pub sides: Box<[Side]>,
    /// Entries of the peer's directory at the last look for the table.
    pub seen: u64,
    /// Why nothing new can begin here.
    pub trouble: Option<SlotError>,
}

/// The lines of a pair in one direction.
pub(crate) struct Lines {
    first: NonNull<Line>,
    count: u32,
    /// Where they are.
    _mapping: Mapping,
}

/// What ports point to goes with it.
impl Drop for Table {
    fn drop(&mut self) {
        if let Some(ports) = &self.ports {
            ports.hide_all();
        }
    }
}

impl Pair {
    /// Has these lines to write from here on.
    pub fn use_lines(&mut self, lines: Option<Lines>, count: usize) {
        self.mine = lines;
        self.receives = vec![Receive::NEW; count];
        self.deliveries = vec![Deliver::NEW; count];
        self.sides = (0..count).map(|_| Side::new()).collect();
    }

    /// The receiving side of a slot, also of a receive that was posted as a short one, and what its messages land in.
    #[inline(always)]
    pub fn taking(&mut self, index: u32) -> Option<(Option<&Lines>, &mut Receive, &Side)> {
        let at = index as usize;
        let (receive, side) = (self.receives.get_mut(at)?, self.sides.get(at)?);
        if side.posted.get() == Posted::Short {
            receive.take_over(side);
        }
        Some((self.theirs.as_ref(), receive, side))
    }

    /// What the messages of a slot land in, once the peer has opened the table, and whether its receive is known to be waited for.
    #[inline(always)]
    pub fn awaiting(&mut self, index: u32) -> Option<(&Lines, &mut bool, &Side)> {
        let at = index as usize;
        let (receive, side) = (self.receives.get_mut(at)?, self.sides.get(at)?);
        Some((self.theirs.as_ref()?, &mut receive.awaited, side))
    }

    /// The receiving side of a slot without that,
    #[inline(always)]
    pub fn receive(&mut self, index: u32) -> Option<(&mut Receive, &Side)> {
        let (_, receive, side) = self.taking(index)?;
        Some((receive, side))
    }

    /// or with what it is offered in.
    #[inline(always)]
    pub fn posting(&mut self, index: u32) -> Option<(&Lines, &mut Receive, &Side)> {
        let at = index as usize;
        let (receive, side) = (self.receives.get_mut(at)?, self.sides.get(at)?);
        if side.posted.get() == Posted::Short {
            receive.take_over(side);
        }
        Some((self.mine.as_ref()?, receive, side))
    }
}

impl Lines {
    /// The first,
    pub fn first(&self) -> *const Line {
        self.first.as_ptr()
    }

    /// and how many there are.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// The first `count` lines of a mapping; `None` if it hasn't so many.
    pub fn new(mapping: Mapping, count: u32) -> Option<Lines> {
        let first = NonNull::from(mapping.slice::<Line>(0, count as usize)?.first()?);
        Some(Lines {
            first,
            count,
            _mapping: mapping,
        })
    }

    /// Line number `index`.
    ///
    /// # Panics
    /// When there are not so many.
    #[inline(always)]
    pub fn line(&self, index: u32) -> &Line {
        assert!(index < self.count);
        // SAFETY: `new` found `count` lines there, in the mapping that lives as long as `self`.
        unsafe { self.first.add(index as usize).as_ref() }
    }
}

/// The receiving side of a slot.
#[derive(Clone)]
pub(crate) struct Receive {
    pub memory: Data,
    pub state: Receiving,
    /// Whether `memory` stays bound.
    pub prepared: bool,
    /// In which segment the sender was told that `memory` is.
    pub segment: u32,
    /// Whether it was asked back.
    pub asked: bool,
    /// Whether somebody looked before anything had landed: he waits.
    pub awaited: bool,
}

/// How far a receive is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Receiving {
    Idle,
    Posted,
    /// Its data come through the pipe.
    Streams,
    /// Both sides copy.
    Splits,
    /// The sender was asked for a stream after all.
    Again,
    /// It is over; what came of it is in `Link::ended`.
    Ended,
    /// The sender agreed that it is taken back.
    Returned,
}

impl Receive {
    pub const NEW: Receive = Receive {
        memory: Data::EMPTY,
        state: Receiving::Idle,
        prepared: false,
        segment: NOWHERE,
        asked: false,
        awaited: false,
    };

    /// A receive that was posted as a short one is as others from here on.
    #[cold]
    fn take_over(&mut self, side: &Side) {
        let (buf, length) = side.memory();
        *self = Receive {
            memory: Data::bytes(buf, length),
            state: Receiving::Posted,
            ..Receive::NEW
        };
        side.posted.set(Posted::Ordinary);
    }

    /// Posts it: its generation.
    #[inline(always)]
    pub fn post(&mut self, side: &Side) -> u32 {
        let generation = side.generation.get().wrapping_add(1);
        side.generation.set(generation);
        side.posted.set(Posted::Ordinary);
        self.state = Receiving::Posted;
        self.asked = false;
        self.awaited = false;
        generation
    }

    /// Its end is told.
    #[inline(always)]
    pub fn end(&mut self, side: &Side) {
        self.state = Receiving::Idle;
        side.posted.set(Posted::Free);
    }
}

/// The delivering side of a slot.
#[derive(Clone, Copy)]
pub(crate) struct Deliver {
    /// Whether one is under way or its end has not been told; then it is in `Link::deliveries`.
    pub busy: bool,
}

impl Deliver {
    pub const NEW: Deliver = Deliver { busy: false };
}

/// A slot of a peer, by the number of its table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    pub table: u32,
    pub index: u32,
}

/// What is known of a peer, whatever the table.
#[derive(Default)]
pub(crate) struct Link {
    pub directory: Option<Directory>,
    pub windows: Windows,
    /// To the peer and from it.
    pub pipes: Option<Pipes>,
    /// Streams to the peer, in order.
    pub flows: VecDeque<Flow>,
    /// The stream of which the next chunk from the peer is.
    pub sink: Option<Sink>,
    /// Streams of which the peer said that they need more than one turn.
    pub announced: Vec<Place>,
    /// The split copy that this process began,
    pub split: Option<SplitOut>,
    /// its number,
    pub splits: u32,
    /// and those that the peer began.
    pub split_in: Vec<SplitIn>,
    /// Receives that are over and not told.
    pub ended: Vec<(Place, Landed)>,
    /// Deliveries that were pending at first.
    pub deliveries: Vec<(Place, Delivery)>,
    /// Whether it is in `SlotState::busy`.
    pub busy: bool,
}

/// A delivery that streams.
pub(crate) struct Flow {
    pub place: Place,
    /// What the receiver knows the slot by.
    pub target: u64,
    pub reader: Reader,
    /// Bytes that go through the pipe in all.
    pub bytes: u64,
    pub chunk: u64,
}

/// A receive that streams.
pub(crate) struct Sink {
    pub place: Place,
    pub target: u64,
    pub writer: Writer,
    /// Bytes that come in all.
    pub bytes: u64,
    pub arrived: u64,
    pub landed: Landed,
    /// When it began, if it is to be measured.
    pub since: u64,
}

/// A split copy that this process began.
pub(crate) struct SplitOut {
    pub place: Place,
    pub number: u32,
    pub cut: Cut,
    /// The data, if they are lent: they may have to be streamed.
    pub lent: Option<Data>,
    /// Whether the system refused this process a copy.
    pub failed: bool,
}

/// A split copy that the peer began.
pub(crate) struct SplitIn {
    pub place: Place,
    pub number: u32,
    pub cut: Cut,
    /// Where the peer's data lie.
    pub from: Offer,
    /// Chunks that this side copied.
    pub copied: u32,
    /// Whether the system refused this process a copy.
    pub failed: bool,
    pub landed: Landed,
    /// When it began, if it is to be measured.
    pub since: u64,
}

/// A receive that is asked back: which, and of which generation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ask {
    pub name: u32,
    pub index: u32,
    pub generation: u32,
}

/// A closed table whose lines peers may still read.
pub(crate) struct Retired {
    pub name: u32,
    pub entry: Entry,
    /// Those peers.
    pub peers: Vec<u32>,
}

impl SlotState {
    pub fn new(area: io::Result<Area>) -> SlotState {
        SlotState {
            tables: Vec::new(),
            links: Vec::new(),
            area: area.map_err(|e| number(&e)),
            arena: Arena::default(),
            busy: Vec::new(),
            pending: 0,
            closed: HashSet::new(),
            retired: Vec::new(),
            early: Vec::new(),
        }
    }

    /// Puts a peer on the list of those with whom something is under way.
    pub fn mark_busy(&mut self, peer: u32) {
        let link = &mut self.links[peer as usize];
        if !link.busy {
            link.busy = true;
            self.busy.push(peer);
        }
    }

    /// The table of a name.
    pub fn named(&self, name: u32) -> Option<u32> {
        let named = |t: &Option<Table>| t.as_ref().is_some_and(|t| t.name == name);
        self.tables.iter().position(named).map(|i| i as u32)
    }

    /// The pair of a place, if the table is open.
    #[inline]
    pub fn pair(&mut self, table: u32, peer: u32) -> Option<&mut Pair> {
        let table = self.tables.get_mut(table as usize)?.as_mut()?;
        table.pairs.get_mut(peer as usize)
    }

    /// The receiving side of a slot, if the pair is in use.
    #[inline]
    pub fn receive(&mut self, place: Place, peer: u32) -> Option<(&mut Receive, &Side)> {
        self.pair(place.table, peer)?.receive(place.index)
    }
}

/// The system's number of an error.
pub(crate) fn number(e: &io::Error) -> i32 {
    /// "Invalid argument", for errors that are not the system's.
    const INVALID: i32 = 22;
    e.raw_os_error().unwrap_or(match e.kind() {
        io::ErrorKind::OutOfMemory => rustix::io::Errno::NOMEM.raw_os_error(),
        io::ErrorKind::FileTooLarge => rustix::io::Errno::FBIG.raw_os_error(),
        _ => INVALID,
    })
}
