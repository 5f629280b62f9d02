//! Point-to-point communication: the four send modes and the receive, blocking and not.

use std::rc::Rc;

use boundary::UserBuf;
use layout::Data;
use mtmi::{Completion, Context, Endpoint, SendMode, Source, Submit, TagSel, Transport};
use types::{Handle, Result, Status, consts, fault};

use crate::bound::{Incoming, Outgoing, Stream};
use crate::comm::{Comm, counted};
use crate::request::{Kind, Request, SendKind, completed_status, cookie, retire_light};
use crate::short::{Args, Started};
use crate::state::Engine;
use crate::typeobj::TypeObj;
use crate::wait::Waiting;

/// The checked arguments of a send or receive.
pub(crate) struct Transfer {
    pub comm: Rc<Comm>,
    pub datatype: Rc<TypeObj>,
    pub buf: UserBuf,
    pub count: u64,
    pub peer: i32,
    pub tag: i32,
}

impl Transfer {
    /// The data as MTMI takes it.
    pub fn data(&self) -> Data {
        self.datatype.data(self.buf, self.count)
    }

    /// Bytes of the data.
    pub fn bytes(&self) -> u64 {
        self.datatype.size() * self.count
    }

    /// What to say of it in a hang report.
    pub fn waiting(&self, call: &'static str) -> Waiting {
        Waiting {
            peer: self.peer,
            tag: self.tag,
            bytes: self.bytes(),
            ..Waiting::new(call, self.comm.context())
        }
    }

    /// All messages like this send.
    pub fn stream(&self) -> Stream {
        Stream {
            peer: Endpoint(self.comm.group.endpoint(self.peer as u32)),
            context: Context(self.comm.context()),
            tag: self.tag,
        }
    }

    /// This receive, as part `part` of `request`.
    pub fn incoming(&self, request: Handle, part: u32) -> Incoming {
        Incoming {
            from: self.source(),
            context: Context(self.comm.context()),
            tag: tag_selector(self.tag),
            data: self.data(),
            cookie: cookie(request, part),
        }
    }

    /// From whom this receive is.
    fn source(&self) -> Source {
        match self.peer {
            consts::ANY_SOURCE => Source::Any,
            rank => Source::From(Endpoint(self.comm.group.endpoint(rank as u32))),
        }
    }
}

/// Which message a receive's or probe's tag argument selects.
pub(crate) fn tag_selector(tag: i32) -> TagSel {
    match tag {
        consts::ANY_TAG => TagSel::Any,
        tag => TagSel::Exact(tag),
    }
}

/// Checks what a buffer, a count and a type can be checked for.
pub(crate) fn check_buffer(
    e: &Engine,
    buf: UserBuf,
    count: i64,
    datatype: Handle,
) -> Result<Rc<TypeObj>> {
    if count < 0 {
        return Err(fault(
            consts::ERR_COUNT,
            format!("the count is {count}, which is negative"),
        ));
    }
    let datatype = e.committed_type(datatype)?;
    let missing = buf.is_null() && count > 0 && datatype.basic().is_some();
    if missing {
        return Err(fault(
            consts::ERR_BUFFER,
            format!("the buffer is NULL, but the count is {count}"),
        ));
    }
    if buf.is_in_place() {
        return Err(fault(
            consts::ERR_BUFFER,
            "MPI_IN_PLACE is not a buffer here",
        ));
    }
    if i64::try_from(u128::from(datatype.size()) * count as u128).is_err() {
        return Err(fault(
            consts::ERR_COUNT,
            format!("{count} elements exceed the address space"),
        ));
    }
    Ok(datatype)
}

/// Checks the rank of a destination.
pub(crate) fn check_destination(comm: &Comm, dest: i32) -> Result<()> {
    if dest == consts::PROC_NULL || (dest >= 0 && (dest as u32) < comm.size()) {
        return Ok(());
    }
    Err(fault(
        consts::ERR_RANK,
        format!(
            "the destination is rank {dest}, but the communicator has {}",
            counted(comm.size(), "rank")
        ),
    ))
}

/// Checks the rank of a source, which may be a wildcard.
pub(crate) fn check_source(comm: &Comm, source: i32) -> Result<()> {
    if source == consts::ANY_SOURCE || check_destination(comm, source).is_ok() {
        return Ok(());
    }
    Err(fault(
        consts::ERR_RANK,
        format!(
            "the source is rank {source}, but the communicator has {}",
            counted(comm.size(), "rank")
        ),
    ))
}

/// Checks the arguments of a send.
pub(crate) fn check_send(e: &Engine, m: &Args) -> Result<Transfer> {
    let Args {
        buf,
        count,
        datatype,
        peer,
        tag,
        comm,
    } = *m;
    let comm = e.comm(comm)?;
    check_destination(&comm, peer)?;
    let datatype = check_buffer(e, buf, count, datatype)?;
    if tag < 0 {
        return Err(fault(
            consts::ERR_TAG,
            format!("the tag is {tag}; tags of sends are 0 or more"),
        ));
    }
    Ok(Transfer {
        comm,
        datatype,
        buf,
        count: count as u64,
        peer,
        tag,
    })
}

/// Checks the arguments of a receive.
pub(crate) fn check_recv(e: &Engine, m: &Args) -> Result<Transfer> {
    let Args {
        buf,
        count,
        datatype,
        peer,
        tag,
        comm,
    } = *m;
    let comm = e.comm(comm)?;
    check_source(&comm, peer)?;
    let datatype = check_buffer(e, buf, count, datatype)?;
    if tag < 0 && tag != consts::ANY_TAG {
        return Err(fault(
            consts::ERR_TAG,
            format!("the tag is {tag}; it must be 0 or more, or MPI_ANY_TAG"),
        ));
    }
    Ok(Transfer {
        comm,
        datatype,
        buf,
        count: count as u64,
        peer,
        tag,
    })
}

pub(crate) fn mode_of(kind: SendKind) -> SendMode {
    match kind {
        SendKind::Standard | SendKind::Buffered => SendMode::Standard,
        SendKind::Synchronous => SendMode::Synchronous,
        SendKind::Ready => SendMode::Ready,
    }
}

impl Engine {
    /// Hands a send of `data` to MTMI as part `part` of `request`.
    pub(crate) fn submit_send(
        &self,
        t: &Transfer,
        data: Data,
        mode: SendMode,
        request: Handle,
        part: u32,
    ) -> Submit {
        let out = Outgoing {
            stream: t.stream(),
            mode,
            data,
            cookie: cookie(request, part),
        };
        if self.sleeping.get() > 0 {
            return self.submit_send_beside(out);
        }
        let (submit, to_self) = self.transport(|m| {
            let to_self = out.stream.peer == m.endpoint();
            (out.submit(m), to_self)
        });
        if to_self && self.is_threaded() {
            // Another thread that polls in a probe hears of it by nothing else.
            self.wake_waiters();
        }
        submit
    }

    /// Hands a receive to MTMI as part `part` of `request`.
    pub(crate) fn submit_recv(&self, t: &Transfer, request: Handle, part: u32) -> Submit {
        if self.sleeping.get() > 0 {
            return self.submit_recv_beside(t, request, part);
        }
        let context = Context(t.comm.context());
        let cookie = cookie(request, part);
        let tag = tag_selector(t.tag);
        self.transport(|m| m.irecv(t.source(), context, tag, t.data(), cookie))
    }

    /// Notes for the hang report whom `request` is about.
    #[inline]
    pub(crate) fn note_peer(&self, request: &Request, t: &Transfer) {
        request.peer.set(t.peer);
        request.tag.set(t.tag);
    }

    /// Handles what MTMI could finish at once like what it finishes later.
    pub(crate) fn submitted(&self, submit: Submit) {
        if let Submit::Complete(done) = submit {
            self.on_completion(&done);
        }
    }

    /// Starts a send with a request of its own.
    pub(crate) fn start_send(&self, t: &Transfer, kind: SendKind) -> Result<Handle> {
        if t.peer == consts::PROC_NULL {
            return self.done_request();
        }
        if kind == SendKind::Buffered {
            self.start_buffered(t)?;
            return self.done_request();
        }
        let (handle, request) = self.new_request(Kind::Send, 1, Some(t.comm.clone()))?;
        self.note_peer(request, t);
        let submit = self.submit_send(t, t.data(), mode_of(kind), handle, 0);
        self.submitted(submit);
        Ok(handle)
    }

    /// Starts a receive with a request of its own.
    pub(crate) fn start_recv(&self, t: &Transfer) -> Result<Handle> {
        let parts = u32::from(t.peer != consts::PROC_NULL);
        let (handle, request) = self.new_request(Kind::Recv, parts, Some(t.comm.clone()))?;
        if parts == 0 {
            request.set_status(Status::PROC_NULL);
            return Ok(handle);
        }
        self.note_peer(request, t);
        let submit = self.submit_recv(t, handle, 0);
        self.submitted(submit);
        Ok(handle)
    }

    /// What to say in a hang report of a `call` that receives with this request.
    fn received_by(&self, handle: Handle, call: &'static str, m: &Args) -> Waiting {
        let size = self.committed_type(m.datatype).map_or(0, |t| t.size());
        let context = self.request(handle).map_or(0, Request::context);
        Waiting {
            peer: m.peer,
            tag: m.tag,
            bytes: size * m.count as u64,
            ..Waiting::new(call, context)
        }
    }

    fn blocking_send(&self, call: &'static str, t: &Transfer, kind: SendKind) -> Result<()> {
        if t.peer == consts::PROC_NULL {
            return Ok(());
        }
        if kind == SendKind::Buffered {
            return self.start_buffered(t);
        }
        let mut handle = self.start_send(t, kind)?;
        self.wait_request(handle, || t.waiting(call))?;
        self.retire(&mut handle).map(drop)
    }
}

/// `MPI_Send`.
pub fn send(
    e: &Engine,
    buf: UserBuf,
    count: i64,
    datatype: Handle,
    dest: i32,
    tag: i32,
    comm: Handle,
) -> Result<()> {
    let m = Args {
        buf,
        count,
        datatype,
        peer: dest,
        tag,
        comm,
    };
    if e.send_short(&m) {
        return Ok(());
    }
    e.every_so_often();
    if e.send_at_once(&m) || e.send_derived(&m) {
        return Ok(());
    }
    let t = check_send(e, &m)?;
    e.blocking_send("MPI_Send", &t, SendKind::Standard)
}

/// `MPI_Bsend`.
pub fn bsend(
    e: &Engine,
    buf: UserBuf,
    count: i64,
    datatype: Handle,
    dest: i32,
    tag: i32,
    comm: Handle,
) -> Result<()> {
    let t = check_send(
        e,
        &Args {
            buf,
            count,
            datatype,
            peer: dest,
            tag,
            comm,
        },
    )?;
    e.blocking_send("MPI_Bsend", &t, SendKind::Buffered)
}

/// `MPI_Ssend`.
pub fn ssend(
    e: &Engine,
    buf: UserBuf,
    count: i64,
    datatype: Handle,
    dest: i32,
    tag: i32,
    comm: Handle,
) -> Result<()> {
    let t = check_send(
        e,
        &Args {
            buf,
            count,
            datatype,
            peer: dest,
            tag,
            comm,
        },
    )?;
    e.blocking_send("MPI_Ssend", &t, SendKind::Synchronous)
}

/// `MPI_Rsend`.
pub fn rsend(
    e: &Engine,
    buf: UserBuf,
    count: i64,
    datatype: Handle,
    dest: i32,
    tag: i32,
    comm: Handle,
) -> Result<()> {
    let t = check_send(
        e,
        &Args {
            buf,
            count,
            datatype,
            peer: dest,
            tag,
            comm,
        },
    )?;
    e.blocking_send("MPI_Rsend", &t, SendKind::Ready)
}

/// `MPI_Isend`.
#[expect(clippy::too_many_arguments, reason = "the standard's parameter list")]
pub fn isend(
    e: &Engine,
    buf: UserBuf,
    count: i64,
    datatype: Handle,
    dest: i32,
    tag: i32,
    comm: Handle,
    request: &mut Handle,
) -> Result<()> {
    let over = e.done_request()?;
    let m = Args {
        buf,
        count,
        datatype,
        peer: dest,
        tag,
        comm,
    };
    if e.send_short(&m) {
        *request = over;
        return Ok(());
    }
    e.every_so_often();
    if e.send_at_once(&m) || e.send_derived(&m) {
        *request = over;
        return Ok(());
    }
    let t = check_send(e, &m)?;
    *request = e.start_send(&t, SendKind::Standard)?;
    Ok(())
}

/// `MPI_Ibsend`.
#[expect(clippy::too_many_arguments, reason = "the standard's parameter list")]
pub fn ibsend(
    e: &Engine,
    buf: UserBuf,
    count: i64,
    datatype: Handle,
    dest: i32,
    tag: i32,
    comm: Handle,
    request: &mut Handle,
) -> Result<()> {
    let t = check_send(
        e,
        &Args {
            buf,
            count,
            datatype,
            peer: dest,
            tag,
            comm,
        },
    )?;
    *request = e.start_send(&t, SendKind::Buffered)?;
    Ok(())
}

/// `MPI_Issend`.
#[expect(clippy::too_many_arguments, reason = "the standard's parameter list")]
pub fn issend(
    e: &Engine,
    buf: UserBuf,
    count: i64,
    datatype: Handle,
    dest: i32,
    tag: i32,
    comm: Handle,
    request: &mut Handle,
) -> Result<()> {
    let t = check_send(
        e,
        &Args {
            buf,
            count,
            datatype,
            peer: dest,
            tag,
            comm,
        },
    )?;
    *request = e.start_send(&t, SendKind::Synchronous)?;
    Ok(())
}

/// `MPI_Irsend`.
#[expect(clippy::too_many_arguments, reason = "the standard's parameter list")]
pub fn irsend(
    e: &Engine,
    buf: UserBuf,
    count: i64,
    datatype: Handle,
    dest: i32,
    tag: i32,
    comm: Handle,
    request: &mut Handle,
) -> Result<()> {
    let t = check_send(
        e,
        &Args {
            buf,
            count,
            datatype,
            peer: dest,
            tag,
            comm,
        },
    )?;
    *request = e.start_send(&t, SendKind::Ready)?;
    Ok(())
}

/// `MPI_Recv`.
#[expect(clippy::too_many_arguments, reason = "the standard's parameter list")]
pub fn recv(
    e: &Engine,
    buf: UserBuf,
    count: i64,
    datatype: Handle,
    source: i32,
    tag: i32,
    comm: Handle,
    status: Option<&mut Status>,
) -> Result<()> {
    let m = Args {
        buf,
        count,
        datatype,
        peer: source,
        tag,
        comm,
    };
    match e.recv_short(&m) {
        Some(done) => give(status, done),
        None => receive(e, "MPI_Recv", &m, status)?,
    }
    Ok(())
}

/// Says what was received, but for the error.
fn give(status: Option<&mut Status>, done: Status) {
    if let Some(out) = status {
        *out = Status {
            error: out.error,
            ..done
        };
    }
}

/// Receives a message for `call` where none was found at once.
fn receive(e: &Engine, call: &'static str, m: &Args, status: Option<&mut Status>) -> Result<()> {
    let mut handle = match e.recv_light(m).or_else(|| e.recv_derived(m)) {
        Some(Started::Over(done)) => {
            give(status, done);
            return Ok(());
        }
        Some(Started::Posted(handle)) => handle,
        None => e.start_recv(&check_recv(e, m)?)?,
    };
    e.wait_request(handle, || e.received_by(handle, call, m))?;
    if let Some(done) = retire_light(handle) {
        give(status, done);
        return Ok(());
    }
    give(status, e.request(handle)?.status());
    e.retire(&mut handle).map(drop)
}

/// Sends and receives one behind the other for `call`, if what is sent leaves at once: `true`. Else nothing was sent or received.
pub(crate) fn exchange_at_once(
    e: &Engine,
    call: &'static str,
    (send, recv): (&Args, &Args),
    status: Option<&mut Status>,
) -> Result<bool> {
    // Nothing is sent where the receive is wrong.
    if !e.are_plain(send, recv) {
        check_send(e, send)?;
        check_recv(e, recv)?;
    }
    if recv.peer == consts::PROC_NULL {
        // No other progress is made where nothing is received.
        e.every_so_often();
    }
    if send.peer != consts::PROC_NULL && !e.send_now(send) {
        return Ok(false);
    }
    match e.recv_now(recv) {
        Some(done) => give(status, done),
        None => receive(e, call, recv, status)?,
    }
    Ok(true)
}

/// `MPI_Irecv`.
#[expect(clippy::too_many_arguments, reason = "the standard's parameter list")]
pub fn irecv(
    e: &Engine,
    buf: UserBuf,
    count: i64,
    datatype: Handle,
    source: i32,
    tag: i32,
    comm: Handle,
    request: &mut Handle,
) -> Result<()> {
    let m = Args {
        buf,
        count,
        datatype,
        peer: source,
        tag,
        comm,
    };
    *request = match e.irecv_light(&m).or_else(|| e.irecv_derived(&m)) {
        Some(started) => started,
        None => e.start_recv(&check_recv(e, &m)?)?,
    };
    Ok(())
}

/// The status and the error of a message received outside a request.
pub(crate) fn outcome(e: &Engine, comm: &Comm, done: &Completion) -> (Status, Result<()>) {
    let rank = comm.group.rank_of(done.source.0);
    let status = completed_status(rank.map_or(consts::ANY_SOURCE, |r| r as i32), done);
    let result = match status.error {
        consts::SUCCESS => Ok(()),
        class => Err(e.operation_failed(class, &status, status.source, Some(comm))),
    };
    (status, result)
}
