//! Requests: operations under way, completed, or waiting to be started again.
//!
//! A request lives in a type-stable pool and is named by its slot's address, also towards MTMI: an
//! operation's cookie is the request's handle with the *part* of it in the upper half. A request
//! that consists of several transfers (a send-receive, a collective) completes when all parts
//! have.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use boundary::{AlignedBuf, UserBuf, UserFn};
use mtmi::{Completion, Cookie, Outcome};
use types::{Handle, Result, Status, consts, fault};

use crate::api::bsend::PoolKey;
use crate::coll::Running;
use crate::comm::Comm;
use crate::state::{Engine, out_of_objects};
use crate::typeobj::TypeObj;

/// What a request stands for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
    /// A generalised request's callbacks.
    Generalized(Box<Grequest>),
}

/// One request.
#[derive(Default)]
pub struct Request {
    /// What it stands for.
    pub kind: Cell<Kind>,
    /// Rank of the peer, or a sentinel: for the hang report. Of a send-receive that failed, the peer whose half did.
    pub peer: Cell<i32>,
    /// Tag, or a sentinel: for the hang report.
    pub tag: Cell<i32>,
    /// Parts still under way.
    pub parts: Cell<u32>,
    /// Whether it is under way or completed but not yet waited for; a persistent request that
    /// isn't is inactive.
    pub active: Cell<bool>,
    /// Its status, valid once no part is left.
    pub status: Cell<Status>,
    /// Nobody will wait for it: it goes away when it completes.
    pub unattended: Cell<bool>,
    /// The one pre-completed request, which many sends share and which never goes away.
    pub permanent: Cell<bool>,
    /// The communicator.
    pub comm: RefCell<Option<Rc<Comm>>>,
    /// What to do when started, for a persistent one.
    pub persistent: RefCell<Option<Persistent>>,
    /// What it owns.
    pub body: RefCell<Body>,
}

impl Request {
    /// Whether all parts are done (or it is inactive).
    #[inline]
    pub fn is_done(&self) -> bool {
        self.parts.get() == 0
    }

    pub(crate) fn is_persistent(&self) -> bool {
        self.persistent.borrow().is_some()
    }
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
        request.parts.set(parts);
        request.active.set(true);
        request.status.set(Status::EMPTY);
        request.unattended.set(false);
        request.permanent.set(false);
        request.comm.replace(comm);
        Ok((Handle(handle), request))
    }

    /// The request that `handle` names, which isn't `MPI_REQUEST_NULL`.
    pub(crate) fn request(&self, handle: Handle) -> Result<&'static Request> {
        self.requests
            .get(handle.0)
            .ok_or_else(|| fault(consts::ERR_REQUEST, format!("{handle:?} is not a request")))
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
        request.parts.set(request.parts.get() - 1);
        if !request.is_done() {
            return;
        }
        let body = request.body.take();
        if let Body::Buffered(_, key, bytes) = &body {
            self.bsend.borrow_mut().give_back(*key, *bytes);
        }
        drop(body);
        if request.unattended.get() {
            self.release_request(handle, request);
        }
    }

    fn status_of(&self, request: &Request, done: &Completion) -> Status {
        let comm = request.comm.borrow();
        let rank = comm.as_ref().and_then(|c| c.group.rank_of(done.source.0));
        completed_status(rank.map_or(consts::ANY_SOURCE, |r| r as i32), done)
    }

    /// Takes the result of a completed request: its status, and the fault if it failed. The
    /// request goes away, or becomes inactive if it is persistent.
    pub(crate) fn retire(&self, handle: &mut Handle) -> Result<Status> {
        let request = self.request(*handle)?;
        if !request.active.get() {
            return Ok(Status::EMPTY);
        }
        let queried = self.query_grequest(request);
        let status = request.status.get();
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
            queried.and(freed)?;
        }
        match status.error {
            consts::SUCCESS => Ok(status),
            class => Err(self.operation_failed(class, &status, culprit, comm.as_deref())),
        }
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
            _ => "the operation failed".to_string(),
        };
        let on = comm.map(|c| c.handle.get());
        Box::new(types::Fault { class, text, on })
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
