//! What goes on beside ordinary messages, as seen by the rest of the engine: the extension, persistent
//! requests bound to slots ([`Bound`](crate::bound::Bound)), and collectives in the kernel ([`crate::kernel`], [`crate::softirq`])
//! or in the hands of a thread ([`crate::progress_thread`]).
//!
//! Invariants: nothing here runs, or is even asked, while no extension is set, no persistent request long enough to be bound has
//! been started (or initialised, of the collectives) and the kernel has no collectives: one flag ([`Engine::beside`]) stands before progress and sleep, and
//! one bit beside the number of sleeping threads ([`BINDS`]) before sends and receives. The transport and the bound streams are borrowed only while a closure runs; what ended is
//! taken in afterwards.
//!
//! Who calls it: `progress`, `wait`, `request`, `failure`, `coll`, and of the calls sends, receives, probes, starts, `MPI_Cancel` and
//! `MPI_Request_free`.

use mtmi::{Context, Cookie, Endpoint, SendMode, Source, Submit, TagSel, Transport};
use types::{Handle, consts};

use crate::api::p2p::Transfer;
use crate::bound::{Counts, Event, Incoming, Outgoing};
use crate::comm::counted;
use crate::request::{Kind, Request, cookie};
use crate::state::Engine;
use crate::world::Fabric;

/// The bit of [`Engine::sleeping`] that says that persistent requests may be bound.
pub(crate) const BINDS: u32 = 1 << 31;

/// The environment variable that has each rank say what its persistent messages used slots for.
pub(crate) const REPORT: &str = "YAMABIKO_SLOTS_REPORT";

impl Engine {
    /// Whether persistent sends and receives may be bound.
    #[inline]
    pub(crate) fn binds(&self) -> bool {
        self.sleeping.get() & BINDS != 0
    }

    /// Whether anything may be bound: such sends and receives, or the messages of persistent collectives.
    fn has_streams(&self) -> bool {
        self.bound.borrow().is_open()
    }

    /// Ready to bind from here on, if a request of so many bytes can be.
    fn may_bind(&self, t: &Transfer) -> bool {
        if t.bytes() <= self.least_bound.get() || t.peer < 0 {
            return false;
        }
        if !self.binds() {
            if !self.open_streams() {
                return false;
            }
            self.sleeping.set(self.sleeping.get() | BINDS);
            self.settle_door();
        }
        true
    }

    /// Has progress look after streams from here on, if there can be any. Ordinary sends and receives stay as they are: no stream of
    /// a collective concerns them.
    pub(crate) fn open_streams(&self) -> bool {
        let open = self.transport(|m| self.bound.borrow_mut().open(m));
        if open {
            self.beside.set(true);
        }
        open
    }

    /// Says what went by slots, if the environment asks for it.
    pub(crate) fn report_bound(&self, rank: u32) {
        if std::env::var_os(REPORT).is_none_or(|v| v.is_empty()) {
            return;
        }
        let Counts {
            sent,
            received,
            bound,
            unbound,
        } = self.bound.borrow().counts();
        let text = match sent + received {
            0 => "no persistent message went by a slot".to_string(),
            _ => {
                let (bound, unbound) = (counted(bound, "time"), counted(unbound, "time"));
                format!(
                    "persistent messages in slots: {sent} sent, {received} received; streams were bound {bound} and unbound {unbound}"
                )
            }
        };
        sys::say::line(&format!("yamabiko: rank {rank}: {text}"));
    }

    /// Ends all binding; the transport is gone.
    pub(crate) fn forget_bound(&self) {
        self.bound.take();
        self.sleeping.set(self.sleeping.get() & !BINDS);
        self.settle_door();
        self.beside.set(false);
    }

    /// Takes in what ended in slots.
    fn settle_bound(&self) {
        let events = self.bound.borrow_mut().events();
        for event in events {
            match event {
                Event::Split(cookie) => {
                    if let Some((_, request)) = self.request_of(cookie) {
                        request.post.set_parts(request.post.parts() + 1);
                    }
                }
                Event::PartOver(cookie) => {
                    if let Some((handle, request)) = self.request_of(cookie) {
                        self.part_done(handle, request);
                    }
                }
                Event::Completed(done) => self.on_completion(&done),
            }
        }
    }

    fn request_of(&self, cookie: Cookie) -> Option<(Handle, &'static Request)> {
        let handle = Handle(cookie.0 as u32);
        self.request(handle).ok().map(|request| (handle, request))
    }

    /// Whether a part of a request other than the first tells its outcome: the ordinary half of a bound receive may.
    #[cold]
    pub(crate) fn half_tells(&self, request: &Request, cookie: Cookie) -> bool {
        request.kind.get() == Kind::Recv && !self.bound.borrow_mut().half_ended(cookie)
    }

    // --- Progress.

    /// Moves what can move beside ordinary messages. Says whether anything did, or `moved` before.
    #[inline(never)]
    pub(crate) fn progress_beside(&self, moved: bool) -> bool {
        let mut moved = self.transport(|m| self.look_beside(m)) || moved;
        if self.has_streams() {
            self.settle_bound();
        }
        if self.kernel.is_on() {
            moved |= self.progress_kernel();
        }
        if self.softirq.is_on() {
            moved |= self.progress_softirq();
        }
        if self.progress_thread.is_on() {
            moved = self.progress_beside_thread(moved);
        }
        moved
    }

    /// The same with the transport in hand, for the moment before a sleep.
    pub(crate) fn look_beside(&self, m: &mut Fabric) -> bool {
        let mut moved = match self.extension.get() {
            Some(extension) => extension.progress(m),
            None => false,
        };
        if self.has_streams() {
            moved |= self.bound.borrow_mut().progress(m);
        }
        // What the ring has to tell, and what is left to this thread, may run the program's functions, so not here.
        moved | self.kernel.is_ready() | self.softirq.is_ready() | self.progress_thread.has_left()
    }

    /// Whether a sleep has to look beside ordinary messages.
    pub(crate) fn is_busy_beside(&self) -> bool {
        self.beside.get()
            && (self.has_streams()
                || self.kernel.is_on()
                || self.softirq.is_on()
                || self.progress_thread.is_on()
                || self.extension.get().is_some_and(|x| x.is_waiting()))
    }

    /// Whether nothing beside ordinary messages is in this process's hands.
    pub(crate) fn is_flushed_beside(&self) -> bool {
        self.extension.get().is_none_or(|x| x.flushed()) && self.bound.borrow().flushed()
    }

    /// Tells those beside ordinary messages that a process is gone.
    pub(crate) fn peer_failed_beside(&self, peer: Endpoint, left: bool) {
        if let Some(extension) = self.extension.get() {
            extension.peer_failed(peer, left);
        }
        if self.has_streams() {
            self.transport(|m| self.bound.borrow_mut().peer_failed(m, peer));
            self.settle_bound();
        }
        if self.kernel.is_on() {
            self.peer_failed_in_kernel(peer.0, left);
        }
        if self.softirq.is_on() {
            self.peer_failed_in_softirq(peer.0);
        }
    }

    // --- Sends, receives and probes while requests may be bound or threads sleep.

    /// Sends as [`Engine::submit_send`] does.
    #[cold]
    #[inline(never)]
    pub(crate) fn submit_send_beside(&self, out: Outgoing) -> Submit {
        let submit = match self.binds() {
            true => self.transport(|m| self.bound.borrow_mut().send(m, out)),
            false => self.transport(|m| out.submit(m)),
        };
        self.after_beside();
        submit
    }

    /// Receives as [`Engine::submit_recv`] does.
    #[cold]
    #[inline(never)]
    pub(crate) fn submit_recv_beside(&self, t: &Transfer, request: Handle, part: u32) -> Submit {
        let receive = t.incoming(request, part);
        let submit = match self.binds() {
            true => self.transport(|m| self.bound.borrow_mut().receive(m, receive)),
            false => self.transport(|m| receive.submit(m)),
        };
        self.after_beside();
        submit
    }

    fn after_beside(&self) {
        if self.binds() {
            self.settle_bound();
        }
        self.wake_waiters();
    }

    /// Before a probe.
    pub(crate) fn make_way(&self, t: (Source, Context, TagSel)) {
        if self.binds() {
            let (from, context, tag) = t;
            self.transport(|m| self.bound.borrow_mut().make_way(m, from, context, tag));
            self.settle_bound();
        }
    }

    // --- Persistent requests.

    /// Starts a persistent send.
    pub(crate) fn start_persistent_send(
        &self,
        t: &Transfer,
        mode: SendMode,
        handle: Handle,
        settled: bool,
    ) -> Submit {
        if !self.may_bind(t) {
            return self.submit_send(t, t.data(), mode, handle, 0);
        }
        let out = Outgoing {
            stream: t.stream(),
            mode,
            data: t.data(),
            cookie: cookie(handle, 0),
        };
        let submit = self.transport(|m| self.bound.borrow_mut().start_send(m, out, settled));
        self.after_beside();
        submit
    }

    /// Starts a persistent receive.
    pub(crate) fn start_persistent_recv(
        &self,
        t: &Transfer,
        handle: Handle,
        settled: bool,
    ) -> Submit {
        if !self.may_bind(t) {
            return self.submit_recv(t, handle, 0);
        }
        let receive = t.incoming(handle, 0);
        let submit = self.transport(|m| self.bound.borrow_mut().start_receive(m, receive, settled));
        self.after_beside();
        submit
    }

    /// Whether what goes before a start is over, as it should be: the last message of a send's stream, or the message that
    /// a receive's last start matched. To be asked before the request changes.
    pub(crate) fn is_settled(&self, t: &Transfer, handle: Handle, sends: bool) -> bool {
        if !self.binds() || t.peer < 0 {
            return false;
        }
        let last = match sends {
            true => self.bound.borrow().last_sent(t.stream()),
            false => Some(cookie(handle, 0)),
        };
        let Some((_, request)) = last.and_then(|c| self.request_of(c)) else {
            return false;
        };
        let status = request.status();
        request.is_done()
            && !status.cancelled
            && status.error == consts::SUCCESS
            && status.source == t.peer
    }

    /// A persistent request is about to be freed.
    pub(crate) fn forget_persistent(&self, handle: Handle) {
        if self.has_streams() {
            let cookie = cookie(handle, 0);
            self.transport(|m| self.bound.borrow_mut().forget(m, cookie));
            self.settle_bound();
        }
    }

    /// Cancels a send.
    pub(crate) fn cancel_send(&self, handle: Handle) {
        let cookie = cookie(handle, 0);
        let kept = self
            .binds()
            .then(|| self.bound.borrow_mut().cancel_send(cookie));
        match kept.flatten() {
            None => self.cancel_part(handle, |m, cookie| m.cancel_send(cookie)),
            Some(_) => drop(self.progress()),
        }
    }

    /// Cancels a receive.
    pub(crate) fn cancel_recv(&self, handle: Handle) {
        self.cancel_part(handle, |m, cookie| {
            let bound = self.binds().then(|| self.bound.borrow_mut());
            let kept = bound.and_then(|mut b| b.cancel_receive(m, cookie));
            kept.unwrap_or_else(|| m.cancel_recv(cookie))
        });
    }

    // --- Messages of persistent collectives. What ends of them here at once is told at the next progress.

    /// Starts a send of one.
    pub(crate) fn start_collective_send(&self, out: Outgoing, settled: bool) -> Submit {
        self.transport(|m| self.bound.borrow_mut().start_send(m, out, settled))
    }

    /// Starts a receive of one.
    pub(crate) fn start_collective_recv(&self, receive: Incoming, settled: bool) -> Submit {
        self.transport(|m| self.bound.borrow_mut().start_receive(m, receive, settled))
    }

    /// Cancels a send of a collective.
    pub(crate) fn cancel_collective_send(&self, cookie: Cookie) {
        let kept = self.bound.borrow_mut().cancel_send(cookie);
        if kept.is_none() {
            self.transport(|m| m.cancel_send(cookie));
        }
    }

    /// Cancels a receive of a collective.
    pub(crate) fn cancel_collective_recv(&self, cookie: Cookie) {
        self.transport(|m| {
            let kept = self.bound.borrow_mut().cancel_receive(m, cookie);
            kept.unwrap_or_else(|| m.cancel_recv(cookie))
        });
    }
}
