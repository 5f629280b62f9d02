//! All state of FMPL in a process.

use std::collections::HashMap;
use std::rc::Rc;

use fmpl_table::{code, consts};
use mtmi::slot::{SlotTable, Slots};
use mtmi::{Completion, Context, Cookie, Endpoint};

use crate::area::{Area, At, refused};
use crate::comm::{Comm, IDS, UsedIds};
use crate::flat::Scratch;
use crate::host::Below;

/// First of the names of FMPL's slot tables ("FMP" and a number).
pub const NAME_OF_TABLES: u32 = u32::from_be_bytes(*b"FMP\0");

/// Cookies of FMPL's own messages have this bit; the engine's never have.
const OURS: u64 = 1 << 63;

/// Whether a completion is that of a message of FMPL.
#[inline]
pub fn is_ours(completion: &Completion) -> bool {
    completion.cookie.0 & OURS != 0
}

/// FMPL's contexts have this bit; those of MPI's communicators never have.
const CONTEXTS: u32 = 1 << 31;

/// Slots of each communicator, for each ordered pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// From a parent to its child in a tree.
    Down,
    /// From a child to its parent.
    Up,
    /// Of a barrier.
    Round,
}

const LANES: u32 = 3;

/// The matching area of the program.
pub const PROGRAM: usize = 0;
/// The matching area of libraries.
pub const LIBRARY: usize = 1;

/// The state.
pub struct Core {
    /// This process.
    pub me: u32,
    /// Processes of the job.
    pub size: u32,
    areas: [Option<Area>; 2],
    /// The slots of collectives.
    lanes: Option<SlotTable>,
    pub(crate) comms: Vec<Option<Rc<Comm>>>,
    pub(crate) ids: UsedIds,
    pub(crate) software: bool,
    /// Messages of our own that are under way, with their ends.
    under_way: HashMap<u64, Option<Completion>>,
    next_cookie: u64,
    /// Processes that are gone,
    failed: Vec<u32>,
    /// and those of them that have not left in order.
    dead: Vec<u32>,
    pub(crate) scratch: Scratch,
}

impl Core {
    /// The state of a process that has begun nothing.
    pub fn new(below: &impl Below) -> Core {
        let me = below.endpoint().0;
        let size = below.limits().endpoints;
        Core {
            me,
            size,
            areas: [None, None],
            lanes: None,
            comms: vec![None, None],
            ids: UsedIds::new(),
            software: false,
            under_way: HashMap::new(),
            next_cookie: 0,
            failed: Vec::new(),
            dead: Vec::new(),
            scratch: Scratch::default(),
        }
    }

    /// Opens the matching area `which` with `count` indices.
    pub fn open(&mut self, below: &mut impl Below, which: usize, count: u32) -> Result<(), i32> {
        if self.areas[which].is_some() {
            return Err(code::ERR_INITIALISED);
        }
        if self.lanes.is_none() {
            let table = below.open_slots(NAME_OF_TABLES, IDS * LANES);
            self.lanes = Some(table.map_err(refused)?);
        }
        let name = NAME_OF_TABLES + 1 + which as u32;
        let mut area = Area::open(below, name, count, self.size).map_err(refused)?;
        self.failed.iter().for_each(|&peer| area.peer_failed(peer));
        self.areas[which] = Some(area);
        let together = (0..self.size).all(|p| below.sees_board(Endpoint(p)));
        let world = Comm::new(which, which as u32, None, self.me, self.size, together);
        self.look_over(&world);
        self.comms[which] = Some(Rc::new(world));
        Ok(())
    }

    /// Closes a matching area in which nothing is under way, with its communicators. Their numbers stay taken, as
    /// what they left on the boards stays.
    pub fn close(&mut self, below: &mut impl Slots, which: usize) {
        if let Some(area) = self.areas[which].take() {
            below.close_slots(area.table());
        }
        let gone = |c: &Rc<Comm>| c.area == which;
        for comm in &mut self.comms {
            if comm.as_ref().is_some_and(gone) {
                *comm = None;
            }
        }
    }

    /// Whether the matching area is open.
    pub fn is_open(&self, which: usize) -> bool {
        self.areas[which].is_some()
    }

    /// The matching area, if it is open.
    #[inline]
    pub fn area(&mut self, which: usize) -> Result<&mut Area, i32> {
        self.areas[which].as_mut().ok_or(code::ERR_NOT_INITIALISED)
    }

    /// The communicator of a number.
    #[inline]
    pub fn comm(&self, number: i32) -> Result<&Rc<Comm>, i32> {
        let at = usize::try_from(number).map_err(|_| code::ERR_COMM)?;
        match self.comms.get(at) {
            Some(Some(comm)) => Ok(comm),
            _ if number == consts::COMM_WORLD => Err(code::ERR_NOT_INITIALISED),
            _ => Err(code::ERR_COMM),
        }
    }

    /// The process and the area that a rank of a communicator names.
    #[inline]
    pub fn peer(&self, number: i32, rank: i32) -> Result<(u32, usize), i32> {
        let comm = self.comm(number)?;
        let peer = comm.peer(rank).ok_or(code::ERR_RANK)?;
        Ok((peer, comm.area))
    }

    /// The place that (rank, index) of a communicator names, and which area it is in.
    #[inline]
    pub fn place(&mut self, number: i32, rank: i32, mai: i32) -> Result<(At, usize), i32> {
        let (peer, which) = self.peer(number, rank)?;
        match u32::try_from(mai) {
            Ok(index) if index < self.area(which)?.count() => Ok((At { peer, index }, which)),
            _ => Err(code::ERR_INDEX),
        }
    }

    /// Puts a communicator into the list and numbers it.
    pub(crate) fn enlist(&mut self, comm: Comm) -> i32 {
        self.look_over(&comm);
        self.ids.set(comm.id, true);
        let free = self.comms.iter().skip(2).position(Option::is_none);
        let at = free.map_or(self.comms.len(), |at| at + 2);
        if at == self.comms.len() {
            self.comms.push(None);
        }
        self.comms[at] = Some(Rc::new(comm));
        at as i32
    }

    /// Takes a communicator out of the list. `whole`: all members have left it, so its number may be used again.
    pub(crate) fn strike(&mut self, number: i32, whole: bool) {
        let Ok(at) = usize::try_from(number) else {
            return;
        };
        if let Some(comm) = self.comms.get_mut(at).and_then(Option::take) {
            self.ids.set(comm.id, !whole);
        }
    }

    /// The slot of a communicator with a process.
    pub(crate) fn lane(&self, comm: &Comm, peer: u32, lane: Lane) -> mtmi::slot::Slot {
        mtmi::slot::Slot {
            // Open as long as any communicator is; a closed table's slots are refused below.
            table: self.lanes.unwrap_or(SlotTable(u32::MAX)),
            peer: Endpoint(peer),
            index: comm.id * LANES + lane as u32,
        }
    }

    /// The context of a communicator's messages to anybody, or (`building`) of those that make communicators.
    pub(crate) fn context(comm: &Comm, building: bool) -> Context {
        Context(CONTEXTS | comm.id << 1 | u32::from(building))
    }

    /// Sends what waits and can go.
    #[inline]
    pub fn progress(&mut self, below: &mut impl Slots) -> bool {
        let mut moved = false;
        for area in self.areas.iter_mut().flatten() {
            moved |= area.progress(below);
        }
        moved
    }

    /// Whether anything waits to be sent, so that `progress` matters.
    #[inline]
    pub fn is_waiting(&self) -> bool {
        self.areas.iter().flatten().any(Area::is_waiting)
    }

    /// Whether messages lie in a stash, or are being delivered.
    pub fn has_to_send(&self) -> bool {
        let busy = |area: &Area| area.is_spooled() || area.is_moving();
        self.areas.iter().flatten().any(busy)
    }

    /// Whether barrier and broadcast go by messages everywhere, for comparison.
    pub fn set_software(&mut self, software: bool) {
        self.software = software;
    }

    /// A name for a message of our own.
    pub(crate) fn begin_message(&mut self) -> Cookie {
        self.next_cookie = (self.next_cookie + 1) & !OURS;
        self.under_way.insert(self.next_cookie, None);
        Cookie(OURS | self.next_cookie)
    }

    /// The end of a message of our own, told once.
    pub(crate) fn end_of_message(&mut self, cookie: Cookie) -> Option<Completion> {
        let name = cookie.0 & !OURS;
        let end = (*self.under_way.get(&name)?)?;
        self.under_way.remove(&name);
        Some(end)
    }

    /// A message of our own is over. See [`is_ours`].
    pub fn completed(&mut self, completion: &Completion) {
        if let Some(end) = self.under_way.get_mut(&(completion.cookie.0 & !OURS)) {
            *end = Some(*completion);
        }
    }

    /// A process is gone: dead, or (`left`) it has left in order, and what others need of it is done.
    pub fn peer_failed(&mut self, peer: u32, left: bool) {
        self.failed.push(peer);
        for area in self.areas.iter_mut().flatten() {
            area.peer_failed(peer);
        }
        if !left {
            self.dead.push(peer);
            self.comms.iter().flatten().for_each(|c| self.look_over(c));
        }
    }

    /// Marks a communicator if a member is dead.
    fn look_over(&self, comm: &Comm) {
        if self.dead.iter().any(|&peer| comm.has(peer)) {
            comm.set_broken();
        }
    }

    /// Whether one of these processes is dead.
    pub(crate) fn has_dead(&self, among: &[u32]) -> bool {
        self.dead.iter().any(|peer| among.contains(peer))
    }

    /// Whether all other members of a communicator are gone.
    pub(crate) fn is_forsaken(&self, comm: &Comm) -> bool {
        self.has_failures()
            && comm.size > 1
            && (1..comm.size).all(|distance| self.has_failed(comm.around(distance)))
    }

    /// Whether any is.
    pub fn has_failures(&self) -> bool {
        !self.failed.is_empty()
    }

    /// Whether a process is gone.
    pub(crate) fn has_failed(&self, peer: u32) -> bool {
        self.failed.contains(&peer)
    }
}
