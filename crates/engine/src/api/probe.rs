//! Probing: looking at a message before receiving it, and taking it out of matching.

use std::rc::Rc;

use boundary::UserBuf;
use layout::Data;
use mtmi::{Context, Endpoint, Envelope, MessageId, Source, Submit, Transport};
use types::{Handle, Result, Status, consts, fault};

use super::p2p::{check_buffer, check_source, outcome, tag_selector};
use crate::comm::Comm;
use crate::request::{Kind, cookie};
use crate::state::{Engine, out_of_objects};
use crate::wait::Waiting;

/// A message taken out of matching by a matched probe (`MPI_Message`).
#[derive(Clone)]
pub struct Matched {
    id: MessageId,
    comm: Rc<Comm>,
    bytes: u64,
}

/// A probe's checked arguments.
struct Probe {
    comm: Rc<Comm>,
    source: Source,
    tag: i32,
    peer: i32,
}

impl Probe {
    fn waiting(&self, call: &'static str) -> Waiting {
        Waiting {
            peer: self.peer,
            tag: self.tag,
            ..Waiting::new(call, self.comm.context())
        }
    }

    fn context(&self) -> Context {
        Context(self.comm.context())
    }

    fn status(&self, found: &Envelope) -> Status {
        let source = self
            .comm
            .group
            .rank_of(found.source.0)
            .map_or(consts::ANY_SOURCE, |r| r as i32);
        Status {
            source,
            tag: found.tag,
            bytes: found.bytes as i64,
            ..Status::EMPTY
        }
    }

    fn look(&self, e: &Engine) -> Option<Envelope> {
        e.make_way((self.source, self.context(), tag_selector(self.tag)));
        e.transport(|m| m.probe(self.source, self.context(), tag_selector(self.tag)))
    }

    fn take(&self, e: &Engine) -> Option<(MessageId, Envelope)> {
        e.make_way((self.source, self.context(), tag_selector(self.tag)));
        e.transport(|m| m.mprobe(self.source, self.context(), tag_selector(self.tag)))
    }
}

/// Checks the arguments; `None` for `MPI_PROC_NULL`.
fn check(e: &Engine, source: i32, tag: i32, comm: Handle) -> Result<Option<Probe>> {
    let comm = e.comm(comm)?;
    check_source(&comm, source)?;
    if tag < 0 && tag != consts::ANY_TAG {
        return Err(fault(
            consts::ERR_TAG,
            format!("the tag is {tag}; it must be 0 or more, or MPI_ANY_TAG"),
        ));
    }
    let from = match source {
        consts::PROC_NULL => return Ok(None),
        consts::ANY_SOURCE => Source::Any,
        rank => Source::From(Endpoint(comm.group.endpoint(rank as u32))),
    };
    Ok(Some(Probe {
        comm,
        source: from,
        tag,
        peer: source,
    }))
}

fn put(out: Option<&mut Status>, status: Status) {
    if let Some(out) = out {
        *out = Status {
            error: out.error,
            ..status
        };
    }
}

/// `MPI_Probe`.
pub fn probe(
    e: &Engine,
    source: i32,
    tag: i32,
    comm: Handle,
    status: Option<&mut Status>,
) -> Result<()> {
    let Some(probe) = check(e, source, tag, comm)? else {
        put(status, Status::PROC_NULL);
        return Ok(());
    };
    let mut found = None;
    e.wait_until(
        || probe.waiting("MPI_Probe"),
        |e| {
            found = probe.look(e);
            found.is_some() || e.is_gone(probe.source, &probe.comm)
        },
    );
    put(
        status,
        probe.status(&found.ok_or_else(|| e.lost_rank(&probe.comm, source))?),
    );
    Ok(())
}

/// `MPI_Iprobe`.
pub fn iprobe(
    e: &Engine,
    source: i32,
    tag: i32,
    comm: Handle,
    flag: &mut bool,
    status: Option<&mut Status>,
) -> Result<()> {
    let Some(probe) = check(e, source, tag, comm)? else {
        *flag = true;
        put(status, Status::PROC_NULL);
        return Ok(());
    };
    // A message that lies behind others may take several looks.
    e.go_on(|| probe.look(e).is_some());
    let found = probe.look(e);
    *flag = found.is_some();
    match found {
        Some(envelope) => put(status, probe.status(&envelope)),
        None if e.is_gone(probe.source, &probe.comm) => {
            return Err(e.lost_rank(&probe.comm, source));
        }
        None => e.relax(),
    }
    Ok(())
}

fn matched(e: &Engine, probe: &Probe, id: MessageId, envelope: &Envelope) -> Result<Handle> {
    let message = Matched {
        id,
        comm: probe.comm.clone(),
        bytes: envelope.bytes,
    };
    e.messages
        .insert(message)
        .map(Handle)
        .ok_or_else(out_of_objects)
}

/// `MPI_Mprobe`.
pub fn mprobe(
    e: &Engine,
    source: i32,
    tag: i32,
    comm: Handle,
    message: &mut Handle,
    status: Option<&mut Status>,
) -> Result<()> {
    let Some(probe) = check(e, source, tag, comm)? else {
        *message = consts::MESSAGE_NO_PROC;
        put(status, Status::PROC_NULL);
        return Ok(());
    };
    let mut found = None;
    e.wait_until(
        || probe.waiting("MPI_Mprobe"),
        |e| {
            found = probe.take(e);
            found.is_some() || e.is_gone(probe.source, &probe.comm)
        },
    );
    let (id, envelope) = found.ok_or_else(|| e.lost_rank(&probe.comm, source))?;
    *message = matched(e, &probe, id, &envelope)?;
    put(status, probe.status(&envelope));
    Ok(())
}

/// `MPI_Improbe`.
pub fn improbe(
    e: &Engine,
    source: i32,
    tag: i32,
    comm: Handle,
    flag: &mut bool,
    message: &mut Handle,
    status: Option<&mut Status>,
) -> Result<()> {
    let Some(probe) = check(e, source, tag, comm)? else {
        (*flag, *message) = (true, consts::MESSAGE_NO_PROC);
        put(status, Status::PROC_NULL);
        return Ok(());
    };
    e.go_on(|| probe.look(e).is_some());
    let found = probe.take(e);
    *flag = found.is_some();
    match found {
        Some((id, envelope)) => {
            *message = matched(e, &probe, id, &envelope)?;
            put(status, probe.status(&envelope));
        }
        None => {
            *message = consts::MESSAGE_NULL;
            if e.is_gone(probe.source, &probe.comm) {
                return Err(e.lost_rank(&probe.comm, source));
            }
            e.relax();
        }
    }
    Ok(())
}

/// Takes the message object that `handle` names, unless it is `MPI_MESSAGE_NO_PROC`.
fn take_message(e: &Engine, handle: &mut Handle) -> Result<Option<Matched>> {
    if *handle == consts::MESSAGE_NO_PROC {
        *handle = consts::MESSAGE_NULL;
        return Ok(None);
    }
    let message = e.messages.remove(handle.0).ok_or_else(|| match *handle {
        consts::MESSAGE_NULL => fault(consts::ERR_REQUEST, "the message is MPI_MESSAGE_NULL"),
        h => e.is_not(consts::ERR_REQUEST, h, "a message"),
    })?;
    *handle = consts::MESSAGE_NULL;
    Ok(Some(message))
}

/// Receives the message with this request. A thread may sleep until it is: the one that sent it, if that is one of this process's.
fn receive(e: &Engine, taken: &Matched, data: Data, request: Handle) -> Submit {
    let submit = e.transport(|m| m.imrecv(taken.id, data, cookie(request, 0)));
    if e.is_threaded() {
        e.wake_waiters();
    }
    submit
}

/// `MPI_Mrecv`.
pub fn mrecv(
    e: &Engine,
    buf: UserBuf,
    count: i64,
    datatype: Handle,
    message: &mut Handle,
    status: Option<&mut Status>,
) -> Result<()> {
    let datatype = check_buffer(e, buf, count, datatype)?;
    let Some(taken) = take_message(e, message)? else {
        put(status, Status::PROC_NULL);
        return Ok(());
    };
    let (mut handle, request) = e.new_request(Kind::Recv, 1, Some(taken.comm.clone()))?;
    let data = datatype.data(buf, count as u64);
    let submit = receive(e, &taken, data, handle);
    if let Submit::Complete(done) = submit {
        e.release_request(handle, request);
        let (received, result) = outcome(e, &taken.comm, &done);
        put(status, received);
        return result;
    }
    let (bytes, context) = (taken.bytes, taken.comm.context());
    e.wait_request(handle, || Waiting {
        bytes,
        ..Waiting::new("MPI_Mrecv", context)
    })?;
    put(status, request.status());
    e.retire(&mut handle).map(drop)
}

/// `MPI_Imrecv`.
pub fn imrecv(
    e: &Engine,
    buf: UserBuf,
    count: i64,
    datatype: Handle,
    message: &mut Handle,
    request: &mut Handle,
) -> Result<()> {
    let datatype = check_buffer(e, buf, count, datatype)?;
    let Some(taken) = take_message(e, message)? else {
        let (handle, found) = e.new_request(Kind::Recv, 0, None)?;
        found.set_status(Status::PROC_NULL);
        *request = handle;
        return Ok(());
    };
    let (handle, _) = e.new_request(Kind::Recv, 1, Some(taken.comm.clone()))?;
    *request = handle;
    let data = datatype.data(buf, count as u64);
    let submit = receive(e, &taken, data, handle);
    e.submitted(submit);
    Ok(())
}
