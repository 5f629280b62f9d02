//! Requests: operations under way, completed, or waiting to be started again.
//!
//! A request lives in a type-stable pool and is named by its slot's address, also towards MTMI: an
//! operation's cookie is the request's handle with the *part* of it in the upper half. A request
//! that consists of several transfers (a send-receive, a collective) completes when all parts
//! have.
//!
//! A *light* request is a receive that the short path posted: its [`Post`] is what MTMI matches, no reference to a communicator is kept,
//! and if it ends well there is no completion either: its status is in the post. Whatever needs more of it
//! (cancelling, freeing, an error, an end of its communicator) goes by the context and by a completion, which makes it an ordinary one.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use boundary::{AlignedBuf, UserBuf, UserFn};
use mtmi::matching::Post;
use mtmi::{Completion, Context, Cookie, Outcome, TagSel};
use types::{Handle, Result, Status, consts};

use crate::api::bsend::PoolKey;
use crate::coll::{Handed, Running, Small};
use crate::comm::Comm;
use crate::short::{Look, short};
use crate::softirq::LOST_DAEMON;
use crate::state::{Engine, out_of_objects};
use crate::typeobj::TypeObj;

/// What a request stands for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A send.
    #[default]
    Send,
    /// A receive.
    Recv,
    /// A send-receive: the receive is part 0, the send part 1. It fails if either does.
    SendRecv,
    /// A collective operation.
    Collective,
    /// A generalised request.
    Generalized,
}

/// What a persistent request does when started.
#[derive(Clone)]
pub enum Persistent {
    /// A send or a receive.
    PointToPoint(Box<PointToPoint>),
    /// The collective that its body holds, again.
    Collective,
}

/// A send or receive that can be started again.
#[derive(Clone)]
pub struct PointToPoint {
    /// How it sends; `None` for a receive.
    pub mode: Option<SendKind>,
    /// The buffer.
    pub buf: UserBuf,
    /// Elements.
    pub count: u64,
    /// Their type.
    pub datatype: Rc<TypeObj>,
    /// Rank of the peer, or a sentinel.
    pub peer: i32,
    /// Tag, or a sentinel.
    pub tag: i32,
}

/// The four send modes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendKind {
    /// `MPI_Send`.
    Standard,
    /// `MPI_Bsend`.
    Buffered,
    /// `MPI_Ssend`.
    Synchronous,
    /// `MPI_Rsend`.
    Ready,
}

/// Callbacks of a generalised request.
#[derive(Clone, Copy)]
pub struct Grequest {
    /// Fills the status.
    pub query: UserFn,
    /// Frees the program's state.
    pub free: UserFn,
    /// Cancels.
    pub cancel: UserFn,
    /// Passed to all three.
    pub extra_state: usize,
}

/// What a request owns besides its state.
#[derive(Default)]
pub enum Body {
    /// Nothing.
    #[default]
    Empty,
    /// Memory that a transfer reads until it is done.
    Scratch(AlignedBuf),
    /// A buffered send's memory and the pool it counts against.
    Buffered(AlignedBuf, PoolKey, u64),
    /// A collective under way, or a persistent one.
    Collective(Box<Running>),
    /// A collective that the kernel has, or a persistent one for it.
    Handed(Box<Handed>),
    /// A collective that the kernel's receive path has.
    Small(Box<Small>),
    /// A generalised request's callbacks.
    Generalized(Box<Grequest>),
}

/// One request. What the short path touches comes first; the four marks are one word.
#[derive(Default)]
#[repr(C)]
pub struct Request {
    /// Parts still under way; the whole receive, if the request is light.
    pub post: Post,
    /// What it stands for.
    pub kind: Cell<Kind>,
    /// Whether it is under way or completed but not yet waited for; a persistent request that
    /// isn't is inactive.
    pub active: Cell<bool>,
    /// Nobody will wait for it: it goes away when it completes.
    pub unattended: Cell<bool>,
    /// Whether it is a light receive, of which no completion has told.
    pub light: Cell<bool>,
    /// Rank of the peer, or a sentinel: for the hang report. Of a send-receive that failed, the peer whose half did.
    pub peer: Cell<i32>,
    /// Tag, or a sentinel: for the hang report.
    pub tag: Cell<i32>,
    /// The one pre-completed request, which many sends share, and collectives that were nothing else here, and which never goes away.
    pub permanent: Cell<bool>,
    status: Cell<Status>,
    /// The communicator.
    pub comm: RefCell<Option<Rc<Comm>>>,
    /// What to do when started, for a persistent one.
    pub persistent: RefCell<Option<Persistent>>,
    /// What it owns.
    pub body: RefCell<Body>,
}

impl sys::slab::Pooled for Request {
    /// Part 0 is that of a light receive.
    fn made(&self, handle: u32) {
        self.post.set_cookie(cookie(Handle(handle), 0));
    }
}

impl Request {
    /// Gives it back, as it was found, if it is a light receive that is over: its status.
    #[inline(always)]
    pub(crate) fn retire_light(&self, found: sys::slab::Found<Request>) -> Option<Status> {
        // The status stays there.
        found
            .release_if(self.post.state())
            .then(|| received(&self.post))
    }

    /// What is known of it, as it was found, by its first word alone.
    #[inline(always)]
    pub(crate) fn look(found: &sys::slab::Found<Request>) -> Look {
        match found.word_if_live(found.value().post.state()) {
            Some(0) => Look::Over,
            Some(Post::PENDING) => Look::Pending,
            _ => Look::Unknown,
        }
    }

    /// Whether all parts are done (or it is inactive).
    #[inline]
    pub fn is_done(&self) -> bool {
        self.post.parts() == 0
    }

    /// Its status, valid once no part is left.
    pub fn status(&self) -> Status {
        match self.light.get() {
            true => received(&self.post),
            false => self.status.get(),
        }
    }

    /// Sets its status.
    pub(crate) fn set_status(&self, status: Status) {
        self.status.set(status);
    }

    /// Makes a free request a light receive, to be posted.
    #[inline(always)]
    pub(crate) fn begin_light(&self) {
        self.kind.set(Kind::Recv);
        self.active.set(true);
        self.unattended.set(false);
        self.light.set(true);
    }

    /// The peer's rank and the tag, or sentinels: for the hang report.
    pub(crate) fn awaited(&self) -> (i32, i32) {
        match (self.light.get(), self.post.selector()) {
            (false, _) => (self.peer.get(), self.tag.get()),
            (true, TagSel::Exact(tag)) => (self.post.origin().0, tag),
            (true, TagSel::Any) => (self.post.origin().0, consts::ANY_TAG),
        }
    }

    /// In which context it communicates; 0 where it has no communicator.
    pub(crate) fn context(&self) -> u32 {
        match self.light.get() {
            true => self.post.context().0,
            false => self.comm.borrow().as_ref().map_or(0, |c| c.context()),
        }
    }

    pub(crate) fn is_persistent(&self) -> bool {
        self.persistent.borrow().is_some()
    }
}

/// The status of a light receive that ended at once.
#[inline(always)]
fn received(post: &Post) -> Status {
    let (source, tag) = post.origin();
    Status {
        source,
        tag,
        error: consts::SUCCESS,
        bytes: post.bytes() as i64,
        cancelled: false,
    }
}

/// Gives the request back that `handle` names, if that is a light receive that ended at once: its status.
#[inline]
pub(crate) fn retire_light(handle: Handle) -> Option<Status> {
    let address = sys::span::address(handle.0);
    let found = short().requests.find_hidden(address)?;
    found.value().retire_light(found)
}

/// The cookie of part `part` of a request.
#[inline]
pub fn cookie(request: Handle, part: u32) -> Cookie {
    Cookie(u64::from(request.0) | u64::from(part) << 32)
}

impl Engine {
    /// A new active request of `kind` with `parts` parts under way.
    pub(crate) fn new_request(
        &self,
        kind: Kind,
        parts: u32,
        comm: Option<Rc<Comm>>,
    ) -> Result<(Handle, &'static Request)> {
        let (handle, request) = self.requests.acquire().ok_or_else(out_of_objects)?;
        request.kind.set(kind);
        request.peer.set(consts::UNDEFINED);
        request.tag.set(consts::UNDEFINED);
        request.post.set_parts(parts);
        request.active.set(true);
        request.light.set(false);
        request.status.set(Status::EMPTY);
        request.unattended.set(false);
        request.permanent.set(false);
        request.comm.replace(comm);
        Ok((Handle(handle), request))
    }

    /// The communicator whose messages are in `context`.
    fn comm_of(&self, context: Context) -> Option<Rc<Comm>> {
        let created = self.comms.handles().filter_map(|h| self.comms.get(h));
        let predefined = [consts::COMM_WORLD, consts::COMM_SELF];
        let mut all = predefined
            .into_iter()
            .filter_map(|h| self.comm(h).ok())
            .chain(created);
        all.find(|c| c.context() == context.0)
    }

    /// Has the light receives on a communicator that is to go away keep what they need of it.
    pub(crate) fn keep_comm(&self, comm: &Rc<Comm>) {
        // Those that have failed are told of first: it can still be found.
        self.progress();
        for request in self.requests.handles().filter_map(|h| self.requests.get(h)) {
            if request.light.get() && !request.is_done() && request.context() == comm.context() {
                request.comm.replace(Some(comm.clone()));
                request.post.tell();
            }
        }
    }

    /// The request that `handle` names, which isn't `MPI_REQUEST_NULL`.
    pub(crate) fn request(&self, handle: Handle) -> Result<&'static Request> {
        self.requests
            .get(handle.0)
            .ok_or_else(|| self.is_not(consts::ERR_REQUEST, handle, "a request"))
    }

    /// Gives a request back to the pool.
    pub(crate) fn release_request(&self, handle: Handle, request: &Request) {
        if request.permanent.get() {
            return;
        }
        request.active.set(false);
        request.comm.take();
        request.persistent.take();
        let body = request.body.take();
        self.requests.release(handle.0);
        drop(body);
    }

    /// Records that a transfer ended.
    pub(crate) fn on_completion(&self, done: &Completion) {
        let handle = Handle(done.cookie.0 as u32);
        let part = (done.cookie.0 >> 32) as u32;
        let Some(request) = self.requests.get(handle.0) else {
            return;
        };
        if request.kind.get() == Kind::Collective {
            self.collective_part_done(handle, request, part, done);
        } else {
            if request.kind.get() == Kind::SendRecv {
                self.half_done(request, part, done);
            } else if part == 0 || self.half_tells(request, done.cookie) {
                request.status.set(self.status_of(request, done));
            }
            self.part_done(handle, request);
        }
    }

    /// One half of a send-receive is done: the receive gives the status, either of them the error.
    fn half_done(&self, request: &Request, part: u32, done: &Completion) {
        let (ended, before) = (self.status_of(request, done), request.status.get());
        let error = match before.error {
            consts::SUCCESS => ended.error,
            first => first,
        };
        if before.error == consts::SUCCESS && error != consts::SUCCESS {
            request.peer.set(ended.source);
        }
        let status = if part == 0 { ended } else { before };
        request.status.set(Status { error, ..status });
    }

    /// One part of a request is done; at the last one the request is complete.
    pub(crate) fn part_done(&self, handle: Handle, request: &Request) {
        request.post.part_ended();
        if !request.is_done() {
            return;
        }
        let body = request.body.take();
        if let Body::Buffered(_, key, bytes) = &body {
            self.buffered_left(handle, *key, *bytes);
        }
        drop(body);
        if request.unattended.get() {
            self.release_request(handle, request);
        }
    }

    fn status_of(&self, request: &Request, done: &Completion) -> Status {
        if request.light.replace(false) {
            // It has one that was freed meanwhile, which can't be found any more: see `keep_comm`.
            let has_comm = request.comm.borrow().is_some();
            if done.outcome != Outcome::Done && !has_comm {
                let comm = self.comm_of(request.post.context());
                request.comm.replace(comm);
            }
            return completed_status(request.post.origin().0, done);
        }
        let comm = request.comm.borrow();
        let rank = comm.as_ref().and_then(|c| c.group.rank_of(done.source.0));
        completed_status(rank.map_or(consts::ANY_SOURCE, |r| r as i32), done)
    }

    /// Takes the result of a completed request, as [`Engine::retire_with_status`] does; the status if it did not fail.
    pub(crate) fn retire(&self, handle: &mut Handle) -> Result<Status> {
        let (status, result) = self.retire_with_status(handle);
        result.map(|()| status)
    }

    /// Takes the result of a completed request: its status, and the fault if it failed. The
    /// request goes away, or becomes inactive if it is persistent.
    pub(crate) fn retire_with_status(&self, handle: &mut Handle) -> (Status, Result<()>) {
        let request = match self.request(*handle) {
            Ok(request) => request,
            Err(fault) => return (Status::EMPTY, Err(fault)),
        };
        if !request.active.get() {
            return (Status::EMPTY, Ok(()));
        }
        let queried = self.query_grequest(request);
        let status = request.status();
        let comm = match status.error {
            consts::SUCCESS => None,
            _ => request.comm.borrow().clone(),
        };
        let culprit = match request.kind.get() {
            Kind::SendRecv => request.peer.get(),
            _ => status.source,
        };
        if request.is_persistent() {
            request.active.set(false);
        } else {
            let freed = self.free_grequest(request);
            self.release_request(*handle, request);
            *handle = consts::REQUEST_NULL;
            if let Err(fault) = queried.and(freed) {
                return (status, Err(fault));
            }
        }
        let result = match status.error {
            consts::SUCCESS => Ok(()),
            class => Err(self.operation_failed(class, &status, culprit, comm.as_deref())),
        };
        (status, result)
    }

    /// The fault of an operation on `comm` that completed with an error, because of rank `culprit`.
    #[cold]
    pub(crate) fn operation_failed(
        &self,
        class: i32,
        status: &Status,
        culprit: i32,
        comm: Option<&Comm>,
    ) -> Box<types::Fault> {
        if let (consts::ERR_PROC_ABORTED, Some(comm)) = (class, comm) {
            return self.lost_rank(comm, culprit);
        }
        let text = match class {
            consts::ERR_TRUNCATE => format!(
                "the message from rank {} with tag {} is longer than the {} bytes of the receive buffer",
                status.source, status.tag, status.bytes
            ),
            consts::ERR_OTHER if self.has_lost_daemon() => LOST_DAEMON.to_string(),
            _ => "the operation failed".to_string(),
        };
        let on = comm.map(|c| self.raised_on(c));
        Box::new(types::Fault {
            class,
            text,
            on,
            of_request: None,
        })
    }
}

/// The status that a completion gives to a receive or send whose peer has rank `source`.
pub(crate) fn completed_status(source: i32, done: &Completion) -> Status {
    let error = match done.outcome {
        Outcome::Done | Outcome::Cancelled => consts::SUCCESS,
        Outcome::Truncated { .. } => consts::ERR_TRUNCATE,
        Outcome::PeerFailed => consts::ERR_PROC_ABORTED,
    };
    Status {
        source,
        tag: done.tag,
        error,
        bytes: done.bytes as i64,
        cancelled: done.outcome == Outcome::Cancelled,
    }
}
