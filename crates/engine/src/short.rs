//! The short paths: a message of one cache line sent at once, a receive posted or a message received with few checks, a request
//! that is over.
//!
//! There are two, and both do something only if every check holds and nothing is in the way; else they have changed nothing, and the
//! long path does the call again from its first check, which also finds the words for what is wrong. So there is one cold exit, no
//! allocation, no reference count and no `RefCell`.
//! * [`short`] is the shorter: an entry point tries it before it enters the engine. It takes handles as the ABI writes them
//!   ([`Plain`]) and compares: one communicator is known at a time ([`Short`]), the one used last whose ranks are a run of processes.
//! * [`Engine::send_short`] and its siblings are tried inside: with `MPI_THREAD_MULTIPLE`, where the lock has to be taken,
//!   for the other communicators, and for messages without data.
//!
//! # Why the shorter one needs no check of these
//! The [door](sys::door) is open only while MPI runs in this very process, threads don't call at the same time, and no persistent
//! request may be bound to slots. Sends that must not overtake others find their port shut, receives that have to go the ordinary way
//! their row barred.
//!
//! MPI has to make progress for others in every call sooner or later: each [`TURN`]th receive goes the long way, which does, and a port
//! sends a call there now and then ([`Engine::every_so_often`]).

use std::cell::Cell;
use std::rc::Rc;

use boundary::UserBuf;
use fabrics::{AtOnce, Port, Ports};
use mtmi::matching::{Light, Row};
use mtmi::{Context, Cookie, TagSel};
use sys::door::Door;
use types::basic::BASICS;
use types::{Handle, Result, Status, consts};

use crate::comm::Comm;
use crate::request::cookie;
use crate::state::{Engine, Phase, lock};
use crate::typeobj::Predefined;

/// Of so many calls one goes the long way. It costs some 1,000 instructions, and it may move a ring's 64 messages to the
/// unexpected ones, which are then received the long way too: together some 100 instructions for each call.
const TURN: u32 = 1024;
/// Bytes of the largest buffer that a receive on the shorter path has, and one less.
const MOST: usize = i32::MAX as usize;
/// Of so many sends that went the long way one makes progress.
const SENDS: u32 = 16;

static DOOR: Door<Engine> = Door::new();

/// The engine, if the shorter path may be tried.
#[inline(always)]
pub fn short() -> Option<&'static Engine> {
    DOOR.get()
}

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
    /// Elements, below 2^32; above 2^31 it was negative.
    pub count: u64,
    /// What [`Engine::sizes`] says of an element; 0: nothing.
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
    /// Whether the buffer is one to receive something into, as far as can be seen; NULL and `MPI_IN_PLACE` are 0 and 1, and a count that
    /// was negative makes a large one.
    #[inline(always)]
    fn may_receive(&self) -> bool {
        self.capacity().wrapping_sub(1) < MOST && self.buf.addr() > 1
    }

    /// Bytes of the buffer.
    #[inline(always)]
    fn capacity(&self) -> usize {
        self.count as usize * self.size
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
}

/// What the shorter path looks at. Before MPI runs it has no ranks.
pub(crate) struct Short {
    /// Bytes of an element of the predefined types whose elements lie side by side, by the low byte of the ABI's handle; else 0.
    sizes: [Cell<u8>; 256],
    /// The communicator that is known, as the ABI writes it,
    comm: Cell<usize>,
    context: Cell<Context>,
    /// and the ways to and from its ranks.
    ports: Cell<&'static [Port]>,
    rows: Cell<&'static [Row]>,
    ways: Cell<Option<Ways>>,
    /// The light receives; an empty one before MPI runs.
    light: Cell<&'static Light>,
    /// The request that finished sends share, as the ABI writes it.
    done: Cell<usize>,
    /// What is to be added to a request's handle to have it as the ABI writes it,
    base: Cell<usize>,
    /// and where requests begin, written so.
    first: Cell<usize>,
    /// Sends that went the long way.
    sends: Cell<u32>,
}

impl Short {
    pub(crate) fn new() -> Short {
        Short {
            sizes: [const { Cell::new(0) }; 256],
            comm: Cell::new(0),
            context: Cell::new(Context(0)),
            ports: Cell::new(&[]),
            rows: Cell::new(&[]),
            ways: Cell::new(None),
            light: Cell::new(Box::leak(Box::default())),
            done: Cell::new(0),
            base: Cell::new(0),
            first: Cell::new(0),
            sends: Cell::new(0),
        }
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

/// The shorter path.
impl Engine {
    /// Sends at once, if that is possible: `true`. `checked` runs before, where all arguments are right.
    #[inline(always)]
    pub fn send_plain(&self, m: &Plain, checked: impl FnOnce()) -> bool {
        let s = &self.short;
        let bytes = m.capacity();
        // What has no bytes is large here. NULL and MPI_IN_PLACE are 0 and 1.
        if bytes.wrapping_sub(1) >= Port::MOST
            || m.tag < 0
            || m.buf.addr() <= 1
            || m.comm != s.comm.get()
        {
            return false;
        }
        match s.ports.get().get(m.peer as u32 as usize) {
            Some(port) => {
                checked();
                port.send(s.context.get(), m.tag, m.buf, bytes)
            }
            None => false,
        }
    }

    /// Whether there was no room for such a message, but is after a look.
    pub fn has_room(&self, m: &Plain) -> bool {
        let port = self.short.ports.get().get(m.peer as u32 as usize);
        m.comm == self.short.comm.get() && port.is_some_and(Port::look)
    }

    /// Receives a message that is there or comes within a moment. `None`: nothing was done.
    #[inline(always)]
    pub fn recv_plain(&self, m: &Plain) -> Option<Status> {
        let (s, turn) = (&self.short, self.turns.get().wrapping_add(1));
        self.turns.set(turn);
        let tag = selector(m.tag, m.any_tag)?;
        if !m.may_receive() || m.comm != s.comm.get() || turn.is_multiple_of(TURN) {
            return None;
        }
        let row = s.rows.get().get(m.peer as u32 as usize)?;
        let port = s.ports.get().get(m.peer as u32 as usize)?;
        let (ways, context) = (s.ways.get()?, s.context.get());
        if !row.is_clear(context, tag) || ways.light.has_ordinary() {
            return None;
        }
        let looks = ways.ports.looks();
        let taken = port.receive(context, tag, m.buf, m.capacity(), looks)?;
        Some(received(m.peer, taken))
    }

    /// Posts a receive, to be matched when somebody waits for it: its request, as the ABI writes it. `None`: nothing was done.
    #[inline(always)]
    pub fn irecv_plain(&self, m: &Plain) -> Option<usize> {
        let s = &self.short;
        // Any tag goes the longer of the two paths.
        if !m.may_receive() || m.tag < 0 || m.comm != s.comm.get() {
            return None;
        }
        let row = s.rows.get().get(m.peer as u32 as usize)?;
        let (light, context, tag) = (s.light.get(), s.context.get(), TagSel::Exact(m.tag));
        if !row.is_open(context, tag) {
            return None;
        }
        let (handle, request) = self.requests.acquire_made()?;
        request.begin_light();
        let place = (m.buf, m.capacity() as u64);
        let cookie = Cookie(u64::from(handle));
        light.post(row, &request.post, (m.peer, context, tag), place, cookie);
        Some(s.base.get() + handle as usize)
    }

    /// Gives back the request that the ABI writes as `word`, if that is over and needs no more.
    #[inline(always)]
    pub fn over_plain(&self, word: usize) -> Option<Over> {
        let s = &self.short;
        if word == s.done.get() {
            return Some(Over::Sent);
        }
        let status = self.retire_light(word.wrapping_sub(s.first.get()))?;
        Some(Over::Received(status))
    }

    /// The request of a send that is over, as the ABI writes it.
    #[inline(always)]
    pub fn sent_plain(&self) -> usize {
        self.short.done.get()
    }

    /// Bytes of an element of the predefined types whose elements lie side by side, by the low byte of the ABI's handle; else 0.
    #[inline(always)]
    pub fn sizes(&self) -> &[Cell<u8>; 256] {
        &self.short.sizes
    }

    /// MPI starts: the ways are there.
    pub(crate) fn start_short(&self) -> Result<()> {
        let (s, word) = (&self.short, self.hooks.callback.handle);
        for row in &BASICS {
            let size = self.predefined_types.dense_size(row.handle).unwrap_or(0);
            s.sizes[word(row.handle) & 0xff].set(size as u8);
        }
        let done = self.done_request()?;
        s.done.set(word(done));
        s.base.set(word(done).wrapping_sub(done.0 as usize));
        s.first
            .set(s.base.get().wrapping_add(self.requests.first() as usize));
        let (ports, light) = self.transport(|m| (m.fabric().ports().clone(), m.light().clone()));
        let (ports, light): (&'static Rc<Ports>, &'static Rc<Light>) =
            (Box::leak(Box::new(ports)), Box::leak(Box::new(light)));
        s.ways.set(Some(Ways { ports, light }));
        s.light.set(light);
        Ok(())
    }

    /// Opens or shuts the door, as things stand.
    pub(crate) fn settle_door(&self) {
        match self.phase.get() == Phase::Running && !self.binds() {
            true => DOOR.open(lock()),
            false => DOOR.shut(),
        }
    }

    /// Knows `comm` from now on, if its ranks are a run of processes.
    fn know(&self, word: usize, comm: &Comm, ways: Ways) {
        let Some(run) = comm.group.run() else {
            return;
        };
        let (ports, rows) = (
            ways.ports.all().get(run.clone()),
            ways.light.rows().get(run),
        );
        let (Some(ports), Some(rows)) = (ports, rows) else {
            return;
        };
        let s = &self.short;
        s.comm.set(word);
        s.context.set(Context(comm.context()));
        s.ports.set(ports);
        s.rows.set(rows);
    }

    /// Knows no communicator: one goes away, or changes.
    pub(crate) fn know_none(&self) {
        self.short.ports.set(&[]);
        self.short.rows.set(&[]);
        self.short.comm.set(0);
    }
}

/// A message that may go the short way.
struct Brief {
    port: &'static Port,
    row: &'static Row,
    light: &'static Light,
    context: Context,
    /// Bytes of the buffer.
    bytes: usize,
}

/// The short path inside the engine.
impl Engine {
    /// Sends at once, if that is possible: `true`.
    #[inline(always)]
    pub(crate) fn send_short(&self, m: &Args) -> bool {
        let send = |b: Brief| {
            let send = || b.port.send(b.context, m.tag, m.buf, b.bytes);
            send() || (b.port.look() && send())
        };
        m.tag >= 0 && self.brief(m).is_some_and(send)
    }

    /// Receives a message that is there or comes within a moment. `None`: nothing was done.
    #[inline(always)]
    pub(crate) fn recv_short(&self, m: &Args) -> Option<Status> {
        let turn = self.turns.get().wrapping_add(1);
        self.turns.set(turn);
        let (tag, b) = (selector(m.tag, consts::ANY_TAG)?, self.brief(m)?);
        let passes = b.row.is_clear(b.context, tag) && !b.light.has_ordinary();
        if turn.is_multiple_of(TURN) || !passes {
            return None;
        }
        let looks = self.short.ways.get()?.ports.looks();
        let taken = b.port.receive(b.context, tag, m.buf, b.bytes, looks)?;
        Some(received(m.peer, taken))
    }

    /// Posts a receive, to be matched when somebody waits for it. `None`: nothing was done.
    #[inline(always)]
    pub(crate) fn irecv_short(&self, m: &Args) -> Option<Handle> {
        let (tag, b) = (selector(m.tag, consts::ANY_TAG)?, self.brief(m)?);
        if !b.row.is_open(b.context, tag) {
            return None;
        }
        let (handle, request) = self.requests.acquire()?;
        let handle = Handle(handle);
        request.begin_light();
        let place = (m.buf, b.bytes as u64);
        b.light.post(
            b.row,
            &request.post,
            (m.peer, b.context, tag),
            place,
            cookie(handle, 0),
        );
        if self.is_threaded() {
            // Another thread may sleep until it is over.
            request.post.tell();
        }
        Some(handle)
    }

    /// Whether `request` is the one that sends share which are over.
    #[inline(always)]
    pub(crate) fn is_over(&self, request: Handle) -> bool {
        self.shared_done.get() == Some(request)
    }

    /// For sends that went the long way.
    pub(crate) fn every_so_often(&self) {
        let turn = self.short.sends.get().wrapping_add(1);
        self.short.sends.set(turn);
        if turn.is_multiple_of(SENDS) {
            self.progress();
        }
    }

    /// Checks what both directions have in common.
    #[inline(always)]
    fn brief(&self, m: &Args) -> Option<Brief> {
        let size = self.predefined_types.dense_size(m.datatype)?;
        // A count that is negative is large here. Persistent requests may have to come first.
        if m.count as u64 > Predefined::MOST_SHORT || self.binds() {
            return None;
        }
        if m.buf.is_in_place() || (m.buf.is_null() && m.count > 0) {
            return None;
        }
        let (ways, is_open) = (self.short.ways.get()?, short().is_some());
        let word = (self.hooks.callback.handle)(m.comm);
        if is_open && word == self.short.comm.get() && m.count > 0 && m.tag >= 0 {
            // The shorter path was tried.
            return None;
        }
        let with = |comm: &Comm| {
            if is_open {
                self.know(word, comm, ways);
            }
            let peer = *comm.group.members().get(m.peer as u32 as usize)?;
            Some(Brief {
                port: ways.ports.all().get(peer as usize)?,
                row: ways.light.rows().get(peer as usize)?,
                light: ways.light,
                context: Context(comm.context()),
                bytes: m.count as usize * size,
            })
        };
        match m.comm {
            consts::COMM_WORLD => with(self.comm_world.borrow().as_ref()?),
            other => with(&*self.comms.get(other.0)?),
        }
    }
}
