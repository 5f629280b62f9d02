//! The short paths inside the engine, for what the shorter one leaves: with `MPI_THREAD_MULTIPLE`, where the lock has to be taken, other
//! communicators than the one known, messages without data, those that only the network carries, and receives that have to
//! wait or whose message came before them.
//!
//! Whatever is not sent, received or posted here goes the long way, which does the call again from its first check.

mod derived;

use boundary::UserBuf;
use fabrics::{AtOnce, Port};
use layout::Data;
use mtmi::matching::{Row, has_ordinary};
use mtmi::{Context, Endpoint, TagSel, Transport};
use types::{Handle, Status, consts};

use super::{Args, DOOR, MOST, TURN, Ways, received, selector, short};
use crate::comm::Comm;
use crate::state::{Engine, lock};

/// What became of a receive.
pub(crate) enum Started {
    /// Its message was here.
    Over(Status),
    /// It waits.
    Posted(Handle),
}

/// A message that may go the short way.
struct Brief {
    peer: Endpoint,
    port: &'static Port,
    row: &'static Row,
    ways: &'static Ways,
    context: Context,
    /// Bytes of the buffer.
    bytes: usize,
}

impl Brief {
    /// Sends it, if there is room for it in a cell, in lines or in a sheet.
    #[inline(always)]
    fn send(&self, m: &Args) -> bool {
        if self.bytes > Port::MOST {
            return self.send_more(m);
        }
        let send = || self.port.send(self.context, m.tag, m.buf, self.bytes);
        send() || (self.port.look() && send())
    }

    #[inline(never)]
    fn send_more(&self, m: &Args) -> bool {
        let (port, n, bits) = (self.port, self.bytes, (self.context, m.tag));
        let sent = match n {
            n if n <= Port::LONGEST && port.has_sheet_for(n) => {
                port.send_sheet(bits, m.buf, n, || true)
            }
            n if n <= Port::LINES_MOST => port.send_lines(bits, m.buf, n, || true),
            _ => None,
        };
        sent.is_some()
    }
}

/// The short path inside the engine.
impl Engine {
    /// Sends at once, if that is possible: `true`.
    #[inline(always)]
    pub(crate) fn send_short(&self, m: &Args) -> bool {
        m.tag >= 0 && self.brief(m).is_some_and(|b| b.send(m))
    }

    /// Receives a message that is there or comes within a moment. `None`: nothing was done.
    #[inline(always)]
    pub(crate) fn recv_short(&self, m: &Args) -> Option<Status> {
        // After a receive whose turn it was and that tried the shorter path all turns are left.
        let was_turn = short().turns.get() == TURN;
        let is_turn = short().is_turn() || was_turn;
        let (tag, b) = (selector(m.tag, consts::ANY_TAG)?, self.brief(m)?);
        match is_turn {
            true => None,
            false => self.receive_coming(m, &b, tag),
        }
    }

    /// Sends a message that leaves within the call, where nothing was tried: `true`. Its caller receives next, so no progress is made, which might keep
    /// what it is to receive; but where the launcher tells of deaths they are heard of.
    pub(crate) fn send_now(&self, m: &Args) -> bool {
        if m.tag >= 0 && self.way_of_any(m).is_some_and(|b| b.send(m)) {
            return true;
        }
        if self.failures.told.get() {
            self.progress();
        }
        self.send_at_once(m) || self.send_derived(m)
    }

    /// Receives a message that is there or comes within a moment, where nothing was tried.
    pub(crate) fn recv_now(&self, m: &Args) -> Option<Status> {
        let is_turn = short().is_turn();
        let (tag, b) = (selector(m.tag, consts::ANY_TAG)?, self.way_of_any(m)?);
        match is_turn {
            true => None,
            false => self.receive_coming(m, &b, tag),
        }
    }

    /// Whether it is seen at once that all checks of a send and a receive find nothing. They may find nothing all the same.
    pub(crate) fn are_plain(&self, send: &Args, recv: &Args) -> bool {
        let tags = send.tag >= 0 && selector(recv.tag, consts::ANY_TAG).is_some();
        tags && self.way_of_any(send).is_some() && self.way_of_any(recv).is_some()
    }

    /// Receives a message that is there, or comes within a moment if no other thread waits to be let in.
    #[inline(always)]
    fn receive_coming(&self, m: &Args, b: &Brief, tag: TagSel) -> Option<Status> {
        let passes = b.row.is_clear(b.context, tag) && !has_ordinary(&short().ordinary);
        if !passes {
            return None;
        }
        let looks = || match lock().is_shared() {
            true => 0,
            false => b.ways.ports.looks_for(b.bytes),
        };
        let taken = b
            .port
            .receive(b.context, tag, m.buf, b.bytes, looks)
            .or_else(|| b.port.receive_more(b.context, tag, m.buf, b.bytes))
            .or_else(|| match b.port.announces() {
                true => self.take_announced(m, b, tag),
                false => None,
            })?;
        Some(received(m.peer, taken))
    }

    /// Receives a long message that comes right now.
    #[inline(never)]
    fn take_announced(&self, m: &Args, b: &Brief, tag: TagSel) -> Option<AtOnce> {
        let to = (m.buf, b.bytes as u64);
        let (tag, bytes) = self.take_coming(b.peer, (b.context, tag), to)?;
        let bytes = bytes as usize;
        Some(AtOnce { tag, bytes })
    }

    /// Receives a message that is here, or posts a receive that somebody will wait for. `None`: nothing was done.
    pub(crate) fn recv_light(&self, m: &Args) -> Option<Started> {
        let (tag, b) = (selector(m.tag, consts::ANY_TAG)?, self.way_of_any(m)?);
        if b.row.is_open(b.context, tag) {
            return self.post_light(m, &b, tag).map(Started::Posted);
        }
        let to = (m.buf, b.bytes as u64);
        let (tag, bytes) = self.take_arrived(b.peer, b.context, tag, to)?;
        Some(Started::Over(Status {
            source: m.peer,
            tag,
            error: consts::SUCCESS,
            bytes: bytes as i64,
            cancelled: false,
        }))
    }

    /// The same with a request, which may be over.
    pub(crate) fn irecv_light(&self, m: &Args) -> Option<Handle> {
        let (tag, b) = (selector(m.tag, consts::ANY_TAG)?, self.way_of_any(m)?);
        if b.row.is_open(b.context, tag) {
            return self.post_light(m, &b, tag);
        }
        let (handle, request) = self.requests.acquire()?;
        let to = (m.buf, b.bytes as u64);
        let Some((tag, bytes)) = self.take_arrived(b.peer, b.context, tag, to) else {
            self.requests.release(handle);
            return None;
        };
        request.begin_light();
        let who = (m.peer, b.context);
        request.post.end_unposted(who, tag, bytes);
        Some(Handle(handle))
    }

    /// Receives a message that nobody had posted a receive for: its tag and length.
    pub(super) fn take_arrived(
        &self,
        from: Endpoint,
        context: Context,
        tag: TagSel,
        to: (UserBuf, u64),
    ) -> Option<(i32, u64)> {
        // Threads that sleep would have to be woken.
        if self.sleeping.get() > 0 {
            return None;
        }
        self.transport(|t| t.receive_at_once(from, context, tag, to))
    }

    /// Receives a message that comes right now: its tag and length.
    pub(super) fn take_coming(
        &self,
        from: Endpoint,
        wanted: (Context, TagSel),
        to: (UserBuf, u64),
    ) -> Option<(i32, u64)> {
        // Threads that sleep would have to be woken.
        if self.sleeping.get() > 0 {
            return None;
        }
        self.transport(|t| t.receive_coming(from, wanted, to))
    }

    /// Posts a receive where the row is open.
    #[inline(always)]
    fn post_light(&self, m: &Args, b: &Brief, tag: TagSel) -> Option<Handle> {
        let (handle, request) = self.requests.acquire()?;
        request.begin_light();
        request.post.set_place(m.buf, b.bytes as u64);
        let who = (m.peer, b.context, tag);
        b.row.post(&request.post, who, &short().ordinary);
        if self.is_threaded() {
            // Another thread may sleep until it is over.
            request.post.tell();
        }
        Some(Handle(handle))
    }

    /// Sends a message at once that is too long for a cell or goes over the network, if that is possible: `true`.
    pub(crate) fn send_at_once(&self, m: &Args) -> bool {
        self.send_data_at_once(m, |b| Data::bytes(m.buf, b.bytes as u64))
    }

    /// Sends a message at once that was checked.
    pub(super) fn send_checked(
        &self,
        to: Endpoint,
        (context, tag): (Context, i32),
        data: Data,
    ) -> bool {
        self.every_so_often();
        // Threads that sleep would have to be woken.
        self.sleeping.get() == 0 && self.transport(|t| t.send_at_once(to, context, tag, data))
    }

    /// The same of a message of as many bytes that moves `data`.
    fn send_data_at_once(&self, m: &Args, data: impl FnOnce(&Brief) -> Data) -> bool {
        // Threads that sleep would have to be woken.
        if m.tag < 0 || self.sleeping.get() > 0 {
            return false;
        }
        let Some(b) = self.way_of_any(m) else {
            return false;
        };
        if b.bytes <= Port::MOST && !short().has_network() {
            return false;
        }
        let data = data(&b);
        self.transport(|t| t.send_at_once(b.peer, b.context, m.tag, data))
    }

    /// Whether `request` is the one that sends and collectives share which are over when they have begun.
    #[inline(always)]
    pub(crate) fn is_over(&self, request: Handle) -> bool {
        self.shared_done.get() == Some(request)
    }

    /// For sends that go the long way.
    pub(crate) fn every_so_often(&self) {
        let turn = short().sends.get().wrapping_add(1);
        short().sends.set(turn);
        if turn & short().sends_mask.get() == 0 {
            self.progress();
        }
    }

    /// Checks what both directions have in common, where the shorter path was not tried.
    #[inline(always)]
    fn brief(&self, m: &Args) -> Option<Brief> {
        self.way(m, true)
    }

    /// The same, whatever was tried.
    #[inline(always)]
    fn way_of_any(&self, m: &Args) -> Option<Brief> {
        self.way(m, false)
    }

    /// Checks that. `untried`: unless the shorter path was tried.
    #[inline(always)]
    fn way(&self, m: &Args, untried: bool) -> Option<Brief> {
        let size = self.predefined_types.dense_size(m.datatype)?;
        // A count that is negative is large here. Persistent requests may have to come first.
        if m.count as u64 > MOST as u64 || self.binds() {
            return None;
        }
        if m.buf.is_in_place() || (m.buf.is_null() && m.count > 0) {
            return None;
        }
        let (ways, is_open) = (short().all.get()?, DOOR.is_open());
        let word = (self.hooks.callback.handle)(m.comm);
        let known = match is_open {
            true => &short().known,
            false => &self.known,
        };
        let is_known = word == known.comm.get();
        if untried && is_open && is_known && m.count > 0 && m.tag >= 0 {
            return None;
        }
        let with = |comm: &Comm| {
            if !is_known {
                self.know(word, comm, ways);
            }
            let peer = *comm.group.members().get(m.peer as u32 as usize)?;
            Some(Brief {
                peer: Endpoint(peer),
                port: ways.ports.all().get(peer as usize)?,
                row: ways.light.rows().get(peer as usize)?,
                ways,
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
