//! The short paths: a message of one cache line, or of some KiB, sent at once, a receive posted or a message received with few checks, a request
//! that is over.
//!
//! There are two, and both do something only if every check holds and nothing is in the way; else they have changed nothing, and the
//! long path does the call again from its first check, which also finds the words for what is wrong. So there is one cold exit, no
//! allocation, no reference count and no `RefCell`.
//! * [`short`] is the shorter: an entry point tries it before it enters the engine. It takes handles as the ABI writes them
//!   ([`Plain`]) and compares: one communicator is known at a time ([`Short`]), the one used last whose ranks are a run of processes.
//!   Of several requests [`Short::look`] says what they are before one is given back, and [`wait_plain`] waits for them.
//! * [`Engine::send_short`] and its siblings are tried inside: with `MPI_THREAD_MULTIPLE`, where the lock has to be taken,
//!   for the other communicators, and for messages without data.
//!
//! With threads, one that is alone so far, to which the lock leans, takes and sends a message of a cell by the first all the same, inside and
//! with a communicator that is known there ([`Short::send_inside`], [`Short::recv_inside`]).
//!
//! What they leave costs no request of its own where it need not: a message that leaves within the call is sent by
//! [`Engine::send_at_once`], one that comes right now whole is received by [`Engine::take_coming`], and a receive that has to wait is posted light. Messages of derived types go these ways as bytes, where that is
//! possible ([`Engine::send_derived`], [`Engine::recv_derived`]).
//!
//! # Why the shorter one needs no check of these
//! The [door](sys::door) is open only while MPI runs in this very process, threads don't call at the same time, and no persistent
//! request may be bound to slots; while it is shut no communicator is known, and no request is found. Sends that must not overtake others find their port shut, receives that have to go the ordinary way
//! their row barred.
//!
//! MPI has to make progress for others in every call sooner or later: each [`TURN`]th receive goes the long way, which does, and a port
//! sends a call there now and then ([`Engine::every_so_often`]).

mod inside;
mod several;

use std::cell::Cell;
use std::rc::Rc;

use boundary::UserBuf;
use fabrics::{AtOnce, Port, Ports};
use layout::Data;
use mtmi::matching::{Light, Ordinary, Row, has_ordinary};
use mtmi::{Context, Endpoint, TagSel};
use sys::blank;
use sys::blank::Table;
use sys::door::Door;
use sys::slab::Near;
use types::basic::BASICS;
use types::{Handle, Result, Status, consts};

use crate::comm::Comm;
use crate::request::Request;
use crate::state::{Engine, Phase, lock, lock_if_any};

pub(crate) use inside::Started;
pub use several::{Look, wait_plain};

/// Of so many calls one goes the long way. It costs some 1,000 instructions, and it may move a ring's 64 messages to the
/// unexpected ones, which are then received the long way too: together some 100 instructions for each call.
const TURN: u32 = 1024;
/// Bytes of the largest buffer that a receive on the shorter path has.
const MOST: usize = i32::MAX as usize;
/// Of so many sends that went the long way, a power of two, one makes progress. Each does where the launcher tells of deaths, which
/// progress hears of: what is sent to who is dead should fail.
const SENDS: u32 = 64;
const _: () = assert!(SENDS.is_power_of_two());

/// A context of messages that programs send, as far as [rows](Row) are concerned: any even one.
const EVEN: Context = Context(0);

static DOOR: Door<Short> = Door::new();

/// What the shorter path looks at.
#[inline(always)]
pub fn short() -> &'static Short {
    DOOR.state()
}

/// Sizes of datatypes: so many words of an ABI may have one.
/// They are as wide as what they are multiplied with, which takes no conversion.
pub type Sizes = [Cell<usize>; 1024];

/// The arguments that sends and receives share.
#[derive(Clone, Copy)]
pub struct Args {
    /// The buffer.
    pub buf: UserBuf,
    /// Elements.
    pub count: i64,
    /// Their type.
    pub datatype: Handle,
    /// Rank of the destination or source.
    pub peer: i32,
    /// Tag.
    pub tag: i32,
    /// Communicator.
    pub comm: Handle,
}

/// The same, half converted.
#[derive(Clone, Copy)]
pub struct Plain {
    /// The buffer.
    pub buf: UserBuf,
    /// Elements; negative, if it is no count.
    pub count: i32,
    /// What [`Short::sizes`] says of an element; 0: nothing.
    pub size: usize,
    /// Rank of the destination or source.
    pub peer: i32,
    /// Tag, as the ABI writes it,
    pub tag: i32,
    /// and how it writes any tag.
    pub any_tag: i32,
    /// Communicator, as the ABI writes it.
    pub comm: usize,
}

impl Plain {
    /// Bytes of the buffer; large, if the count is negative, and 0, if nothing is known of the type.
    #[inline(always)]
    fn bytes(&self) -> usize {
        (self.count as usize).wrapping_mul(self.size)
    }

    /// Whether these are none, or more than `most`.
    #[inline(always)]
    fn is_outside(&self, most: usize) -> bool {
        self.bytes().wrapping_sub(1) >= most
    }
}

/// A request that was over and is given back.
#[derive(Clone, Copy)]
pub enum Over {
    /// A send.
    Sent,
    /// A receive, with its status.
    Received(Status),
}

/// The ways to and from all processes. MPI is started once, so they live as long as the process.
#[derive(Clone, Copy)]
struct Ways {
    ports: &'static Ports,
    light: &'static Light,
    /// Whether some are reached over the network only.
    network: bool,
}

blank! {
    /// The communicator that is known.
    pub(crate) struct Known {
        /// It, as the ABI writes it,
        comm: Cell<usize>,
        context: Cell<u32>,
        /// which process its first rank is,
        first: Cell<u32>,
        /// and the ways to and from its ranks; none, if no communicator is known.
        ways: Table<Port, Row>,
    }
}

blank! {
    /// What the shorter path looks at.
    pub struct Short {
        /// Bytes of an element of the predefined types whose elements lie side by side, by [`place`]; else 0.
        sizes: Sizes,
        /// What is known while the door is open.
        known: Known,
        /// The ordinary receives.
        ordinary: Ordinary,
        /// The ways to and from all processes.
        all: Cell<Option<&'static Ways>>,
        /// Requests that are used again and again; none is found while the door is shut.
        pub(crate) requests: Near<Request>,
        /// The request that finished sends share, as the ABI writes it; 0: none.
        done: Cell<usize>,
        /// Where handles lie.
        base: Cell<usize>,
        /// Receives until one goes the long way; 0: as many as there are numbers.
        turns: Cell<u32>,
        /// Sends that went the long way,
        sends: Cell<u32>,
        /// and which bits of their number are 0 where one makes progress.
        sends_mask: Cell<u32>,
    }
}

/// Where the size of a datatype is that the ABI writes as `word`: handles are small numbers, or differ in the low byte.
fn place(word: usize) -> usize {
    match word {
        0..1024 => word,
        _ => word & 0xff,
    }
}

/// Which tags a receive with this argument accepts, where `any` is any tag; `None`: it is no tag.
#[inline(always)]
fn selector(tag: i32, any: i32) -> Option<TagSel> {
    match tag {
        0.. => Some(TagSel::Exact(tag)),
        tag if tag == any => Some(TagSel::Any),
        _ => None,
    }
}

/// The status of a message that was received at once from rank `source`.
#[inline(always)]
fn received(source: i32, taken: AtOnce) -> Status {
    Status {
        source,
        tag: taken.tag,
        error: consts::SUCCESS,
        bytes: taken.bytes as i64,
        cancelled: false,
    }
}

impl Known {
    /// Checks what both directions have in common, and that the tag is none below `least_tag`: the ways to and from the peer.
    #[inline(always)]
    fn checked(
        &self,
        m: &Plain,
        most_bytes: usize,
        least_tag: i32,
    ) -> Option<(&'static Port, &'static Row)> {
        // NULL and MPI_IN_PLACE are 0 and 1.
        let buffer = !m.is_outside(most_bytes) && m.buf.addr() > 1;
        if !buffer || m.tag < least_tag || m.comm != self.comm.get() {
            return None;
        }
        self.ways.get(m.peer as u32)
    }

    #[inline(always)]
    fn send_to(&self, port: &Port, m: &Plain, ready: impl FnOnce() -> bool) -> Option<i32> {
        let room = port.room()?;
        if !ready() {
            return None;
        }
        Some(room.send(self.context(), m.tag, m.buf, m.bytes()))
    }

    /// Sends a message that takes more than a cell.
    #[inline(always)]
    fn send_more(&self, m: &Plain, ready: impl FnOnce() -> bool) -> Option<i32> {
        let (port, _) = self.checked(m, Port::LONGEST_COMING, 0)?;
        let match_bits = (self.context(), m.tag);
        match m.bytes() {
            n if n <= Port::MOST => None,
            n if n <= Port::LONGEST && port.has_sheet_for(n) => {
                port.send_sheet(match_bits, m.buf, m.bytes(), ready)
            }
            n if n <= Port::LINES_MOST => port.send_lines(match_bits, m.buf, m.bytes(), ready),
            _ => self.send_long(m, ready),
        }
    }

    /// Sends a message that is longer than a port takes, if it leaves within the call. Although `None` is said `ready` may have been asked.
    #[inline(never)]
    fn send_long(&self, m: &Plain, ready: impl FnOnce() -> bool) -> Option<i32> {
        let data = Data::bytes(m.buf, m.bytes() as u64);
        let (to, bits) = (self.peer(m), (self.context(), m.tag));
        let sent = ready() && lock().enter().send_checked(to, bits, data);
        sent.then_some(0)
    }

    /// Receives a long message that comes right now, of one of the processes that are known.
    #[inline(never)]
    fn recv_coming(&self, m: &Plain, tag: TagSel) -> Option<AtOnce> {
        let to = (m.buf, m.bytes() as u64);
        let bits = (self.context(), tag);
        let (tag, bytes) = lock().enter().take_coming(self.peer(m), bits, to)?;
        let bytes = bytes as usize;
        Some(AtOnce { tag, bytes })
    }

    /// Receives a message that came before its receive, of one of the processes that are known.
    #[inline]
    fn recv_arrived(&self, m: &Plain, tag: TagSel) -> Option<Status> {
        let to = (m.buf, m.bytes() as u64);
        let (from, context) = (self.peer(m), self.context());
        let (tag, bytes) = lock().enter().take_arrived(from, context, tag, to)?;
        let bytes = bytes as usize;
        Some(received(m.peer, AtOnce { tag, bytes }))
    }

    #[inline(always)]
    fn context(&self) -> Context {
        Context(self.context.get())
    }

    /// The process of a message's other rank, which was checked.
    fn peer(&self, m: &Plain) -> Endpoint {
        Endpoint(self.first.get() + m.peer as u32)
    }

    /// Knows none.
    fn clear(&self) {
        self.ways.clear();
        self.comm.set(0);
    }
}

/// The shorter path.
impl Short {
    /// Sends at once, if that is possible: 0, which is what the call returns then. `ready` is asked last.
    #[inline(always)]
    pub fn send_plain(&self, m: &Plain, ready: impl FnOnce() -> bool) -> Option<i32> {
        let (port, _) = self.known.checked(m, Port::MOST, 0)?;
        self.known.send_to(port, m, ready)
    }

    /// The same where there was no room, if there is after a look. Nothing is called, so that there is nothing to be kept for afterwards.
    #[inline(always)]
    pub fn send_plain_again(&self, m: &Plain, ready: impl FnOnce() -> bool) -> Option<i32> {
        let (port, _) = self.known.checked(m, Port::MOST, 0)?;
        match port.look_quickly() {
            true => self.known.send_to(port, m, ready),
            false => None,
        }
    }

    /// The same with threads, of one to which the [lock leans](sys::lock), of a message of any length.
    #[inline(always)]
    pub fn send_inside(&self, m: &Plain, ready: impl FnOnce() -> bool) -> Option<i32> {
        match m.is_outside(Port::LONGEST_COMING) {
            true => None,
            false => self.send_alone(m, ready),
        }
    }

    #[inline(never)]
    fn send_alone(&self, m: &Plain, ready: impl FnOnce() -> bool) -> Option<i32> {
        let inside = lock_if_any()?.enter_alone()?;
        let known = &inside.known;
        if m.bytes() > Port::MOST {
            return known.send_more(m, ready);
        }
        let (port, _) = known.checked(m, Port::MOST, 0)?;
        known.send_to(port, m, ready)
    }

    /// The same of a message that takes more than a cell.
    #[inline(always)]
    pub fn send_plain_more(&self, m: &Plain, ready: impl FnOnce() -> bool) -> Option<i32> {
        self.known.send_more(m, ready)
    }

    /// Receives a message of one tag that is there. `None`: nothing was done, and [more](Short::recv_plain_again) may help.
    #[inline(always)]
    pub fn recv_plain(&self, m: &Plain) -> Option<Status> {
        let tag = TagSel::Exact(m.tag);
        let (port, row) = self.known.checked(m, MOST, 0)?;
        if has_ordinary(&self.ordinary) || !row.is_clear(EVEN, tag) || self.is_turn() {
            return None;
        }
        let taken = port.receive(self.known.context(), tag, m.buf, m.bytes(), || 0)?;
        Some(received(m.peer, taken))
    }

    /// What is done after that: of any tag too, of a message that takes more than a cell, that came before, and for one that comes within a moment. A turn that was counted there is not
    /// counted again.
    #[inline(always)]
    pub fn recv_plain_again(&self, m: &Plain) -> Option<Status> {
        self.recv_more(&self.known, m, m.tag >= 0)
    }

    /// All of that with threads, of one to which the [lock leans](sys::lock).
    #[inline(always)]
    pub fn recv_inside(&self, m: &Plain) -> Option<Status> {
        match m.is_outside(MOST) {
            true => None,
            false => self.recv_alone(m),
        }
    }

    #[inline(never)]
    fn recv_alone(&self, m: &Plain) -> Option<Status> {
        let inside = lock_if_any()?.enter_alone()?;
        self.recv_more(&inside.known, m, false)
    }

    /// `counted`: it was looked whether it is this receive's turn.
    #[inline(always)]
    fn recv_more(&self, known: &Known, m: &Plain, counted: bool) -> Option<Status> {
        let tag = selector(m.tag, m.any_tag)?;
        let (port, row) = known.checked(m, MOST, i32::MIN)?;
        if !row.is_open(EVEN, tag) {
            return match self.is_turn() {
                true => None,
                false => known.recv_arrived(m, tag),
            };
        }
        if has_ordinary(&self.ordinary) || !row.is_clear(EVEN, tag) {
            return None;
        }
        // After a receive whose turn it was all turns are left.
        let is_turn = match counted {
            true => self.turns.get() == TURN,
            false => self.is_turn(),
        };
        if is_turn {
            return None;
        }
        let context = known.context();
        let looks = || {
            let ways = self.all.get();
            ways.map_or(0, |ways| ways.ports.looks_for(m.bytes()))
        };
        let taken = port
            .receive(context, tag, m.buf, m.bytes(), looks)
            .or_else(|| port.receive_more(context, tag, m.buf, m.bytes()))
            .or_else(|| match port.announces() {
                true => known.recv_coming(m, tag),
                false => None,
            })?;
        Some(received(m.peer, taken))
    }

    /// Posts a receive, to be matched when somebody waits for it: the address of its request. `ready` is asked when all arguments are
    /// right. `None`: nothing was done.
    #[inline(always)]
    pub fn irecv_plain(&self, m: &Plain, ready: impl FnOnce() -> bool) -> Option<usize> {
        // Any tag goes the longer of the two paths.
        let (_, row) = self.known.checked(m, MOST, 0)?;
        let tag = TagSel::Exact(m.tag);
        if !row.is_open(EVEN, tag) {
            return None;
        }
        // Not before here, where the door is known to be open.
        let free = self.requests.free()?;
        let request = free.value();
        // What is known by now is written there and need not be kept in registers: there are too few.
        request.post.set_place(m.buf, m.bytes() as u64);
        if !ready() {
            return None;
        }
        let address = free.take();
        request.begin_light();
        let context = self.known.context();
        row.post(&request.post, (m.peer, context, tag), &self.ordinary);
        Some(address)
    }

    /// Gives back the request at `address`, which the ABI writes as `word`, if that is over and needs no more.
    #[inline(always)]
    pub fn over_plain(&self, word: usize, address: usize) -> Option<Over> {
        if let Some(found) = self.requests.find(address)
            && let Some(status) = found.value().retire_light(found)
        {
            return Some(Over::Received(status));
        }
        (word == self.done.get() && word != 0).then_some(Over::Sent)
    }

    /// The request of a send that is over, as the ABI writes it.
    #[inline(always)]
    pub fn sent_plain(&self) -> usize {
        self.done.get()
    }

    /// Bytes of an element of the predefined types whose elements lie side by side, by the ABI's handle or its low byte, if that is
    /// larger; else 0.
    #[inline(always)]
    pub fn sizes(&self) -> &Sizes {
        &self.sizes
    }

    /// The address whose lower half is 0 and whose upper half is that of all handles.
    #[inline(always)]
    pub fn base(&self) -> usize {
        self.base.get()
    }

    /// Whether the network is the only way to some process.
    fn has_network(&self) -> bool {
        self.all.get().is_some_and(|ways| ways.network)
    }

    /// Where the ordinary receives are noted.
    pub(crate) fn ordinary(&'static self) -> &'static Ordinary {
        &self.ordinary
    }

    /// Counts a receive, and says whether it has to go the long way.
    #[inline(always)]
    fn is_turn(&self) -> bool {
        let left = self.turns.get().wrapping_sub(1);
        self.turns.set(left);
        if left == 0 {
            self.turns.set(TURN);
        }
        left == 0
    }
}

/// What opens and shuts it.
impl Engine {
    /// MPI starts: the ways are there.
    pub(crate) fn start_short(&self) -> Result<()> {
        let (s, word) = (short(), self.hooks.callback.handle);
        for row in &BASICS {
            let size = self.predefined_types.dense_size(row.handle).unwrap_or(0);
            s.sizes[place(word(row.handle))].set(size);
        }
        self.done_request()?;
        s.base.set(sys::span::base());
        s.turns.set(TURN);
        s.sends_mask.set(match self.failures.told.get() {
            true => 0,
            false => SENDS - 1,
        });
        let (ports, light) = self.transport(|m| (m.fabric().ports().clone(), m.light().clone()));
        let network = self.transport(|m| m.fabric().has_network());
        let (ports, light): (&'static Rc<Ports>, &'static Rc<Light>) =
            (Box::leak(Box::new(ports)), Box::leak(Box::new(light)));
        s.all.set(Some(Box::leak(Box::new(Ways {
            ports,
            light,
            network,
        }))));
        Ok(())
    }

    /// How often to look for something that may come within a moment, without making progress for others: not at all where ranks share
    /// processors, or threads the engine.
    pub(crate) fn looks_at_once(&self) -> u32 {
        let ways = short().all.get();
        ways.filter(|_| !lock().is_shared())
            .map_or(0, |ways| ways.ports.looks())
    }

    /// Opens or shuts the door, as things stand.
    pub(crate) fn settle_door(&self) {
        let s = short();
        if let Some(extension) = self.extension.get()
            && (self.phase.get() != Phase::Running || lock().is_threaded())
        {
            extension.shut();
        }
        if self.phase.get() == Phase::Running && !self.binds() && DOOR.open(lock()) {
            let word = |done| (self.hooks.callback.handle)(done);
            s.done.set(self.shared_done.get().map_or(0, word));
            s.requests.show();
        } else if s.done.get() != 0 {
            // Only then, for other threads may look.
            s.done.set(0);
            s.requests.hide();
            s.known.clear();
            DOOR.shut();
        }
        if !self.may_know() {
            self.known.clear();
        }
    }

    /// Knows `comm` from now on, if its ranks are a run of processes and anything may be known.
    fn know(&self, word: usize, comm: &Comm, ways: &'static Ways) {
        let s = short();
        let known = match DOOR.is_open() {
            true => &s.known,
            false if self.may_know() => &self.known,
            false => return,
        };
        let Some(run) = comm.group.run() else {
            return;
        };
        let first = run.start;
        let (ports, rows) = (
            ways.ports.all().get(run.clone()),
            ways.light.rows().get(run),
        );
        let (Some(ports), Some(rows)) = (ports, rows) else {
            return;
        };
        known.comm.set(word);
        known.context.set(comm.context());
        known.first.set(first as u32);
        known.ways.set(ports, rows);
    }

    /// Whether a communicator may be known inside the engine: with threads, to the one to which the lock leans. In a forked child what else such a
    /// message needs is blank, or none may be.
    fn may_know(&self) -> bool {
        let lock = lock();
        let leans = lock.is_threaded() && !lock.is_shared() && DOOR.is_wiped();
        leans && self.phase.get() == Phase::Running && !self.binds()
    }

    /// Knows no communicator: one goes away, or changes.
    pub(crate) fn know_none(&self) {
        for known in [&short().known, &self.known] {
            if known.comm.get() != 0 {
                known.clear();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_buffers_of_some_bytes_are_inside() {
        let outside = |count: i32, size: usize, most: usize| {
            let plain = Plain {
                buf: UserBuf::NULL,
                count,
                size,
                peer: 0,
                tag: 0,
                any_tag: consts::ANY_TAG,
                comm: 0,
            };
            plain.is_outside(most)
        };
        assert!(!outside(1, 1, 48) && !outside(6, 8, 48) && !outside(i32::MAX, 1, MOST));
        assert!(outside(49, 1, 48) && outside(i32::MAX, 255, MOST));
        assert!(outside(0, 8, MOST) && outside(8, 0, MOST), "none");
        for count in [-1, -48, i32::MIN] {
            assert!(outside(count, 1, MOST) && outside(count, 255, 48));
        }
    }
}
