//! Starting persistent requests, and making those for point-to-point. Long ones may be bound to slots: see `bound`.

use boundary::{Handles, UserBuf};
use types::{Handle, Result, Status, consts, fault};

use super::p2p::{Transfer, check_recv, check_send, mode_of};
use crate::request::{Kind, Persistent, PointToPoint, Request, SendKind};
use crate::short::Args;
use crate::state::Engine;

fn prepare(e: &Engine, t: Transfer, mode: Option<SendKind>, request: &mut Handle) -> Result<()> {
    let kind = if mode.is_some() {
        Kind::Send
    } else {
        Kind::Recv
    };
    let (handle, found) = e.new_request(kind, 0, Some(t.comm))?;
    found.active.set(false);
    let Transfer {
        datatype,
        buf,
        count,
        peer,
        tag,
        ..
    } = t;
    let what = PointToPoint {
        mode,
        buf,
        count,
        datatype,
        peer,
        tag,
    };
    let what = Persistent::PointToPoint(Box::new(what));
    found.persistent.replace(Some(what));
    *request = handle;
    Ok(())
}

fn begin(e: &Engine, handle: Handle) -> Result<()> {
    let found = e.request(handle)?;
    let what = match &*found.persistent.borrow() {
        None => return Err(fault(consts::ERR_REQUEST, "the request is not persistent")),
        Some(_) if found.active.get() => {
            return Err(fault(
                consts::ERR_REQUEST,
                "the persistent request is already active",
            ));
        }
        Some(Persistent::Collective) => None,
        Some(Persistent::PointToPoint(what)) => Some(what.clone()),
    };
    match what {
        None => e.restart_collective(handle, found),
        Some(what) => begin_transfer(e, handle, found, *what),
    }
}

fn begin_transfer(e: &Engine, handle: Handle, found: &Request, what: PointToPoint) -> Result<()> {
    let Some(comm) = found.comm.borrow().clone() else {
        return Err(fault(
            consts::ERR_REQUEST,
            "the request has no communicator",
        ));
    };
    let PointToPoint {
        mode,
        buf,
        count,
        datatype,
        peer,
        tag,
    } = what;
    let t = Transfer {
        comm,
        datatype,
        buf,
        count,
        peer,
        tag,
    };
    let settled = e.is_settled(&t, handle, mode.is_some());
    let is_buffered = mode == Some(SendKind::Buffered) && peer != consts::PROC_NULL;
    if is_buffered {
        // Where there is no room it stays inactive, and can be started when there is.
        e.start_buffered(&t)?;
    }
    found.active.set(true);
    found.set_status(Status::EMPTY);
    if peer == consts::PROC_NULL {
        found.set_status(Status::PROC_NULL);
    }
    if peer == consts::PROC_NULL || is_buffered {
        return Ok(());
    }
    found.post.set_parts(1);
    e.note_peer(found, &t);
    let submit = match mode {
        None => e.start_persistent_recv(&t, handle, settled),
        Some(kind) => e.start_persistent_send(&t, mode_of(kind), handle, settled),
    };
    e.submitted(submit);
    Ok(())
}

/// `MPI_Send_init`.
#[expect(clippy::too_many_arguments, reason = "the standard's parameter list")]
pub fn send_init(
    e: &Engine,
    buf: UserBuf,
    count: i64,
    datatype: Handle,
    dest: i32,
    tag: i32,
    comm: Handle,
    request: &mut Handle,
) -> Result<()> {
    prepare(
        e,
        check_send(
            e,
            &Args {
                buf,
                count,
                datatype,
                peer: dest,
                tag,
                comm,
            },
        )?,
        Some(SendKind::Standard),
        request,
    )
}

/// `MPI_Bsend_init`.
#[expect(clippy::too_many_arguments, reason = "the standard's parameter list")]
pub fn bsend_init(
    e: &Engine,
    buf: UserBuf,
    count: i64,
    datatype: Handle,
    dest: i32,
    tag: i32,
    comm: Handle,
    request: &mut Handle,
) -> Result<()> {
    prepare(
        e,
        check_send(
            e,
            &Args {
                buf,
                count,
                datatype,
                peer: dest,
                tag,
                comm,
            },
        )?,
        Some(SendKind::Buffered),
        request,
    )
}

/// `MPI_Ssend_init`.
#[expect(clippy::too_many_arguments, reason = "the standard's parameter list")]
pub fn ssend_init(
    e: &Engine,
    buf: UserBuf,
    count: i64,
    datatype: Handle,
    dest: i32,
    tag: i32,
    comm: Handle,
    request: &mut Handle,
) -> Result<()> {
    prepare(
        e,
        check_send(
            e,
            &Args {
                buf,
                count,
                datatype,
                peer: dest,
                tag,
                comm,
            },
        )?,
        Some(SendKind::Synchronous),
        request,
    )
}

/// `MPI_Rsend_init`.
#[expect(clippy::too_many_arguments, reason = "the standard's parameter list")]
pub fn rsend_init(
    e: &Engine,
    buf: UserBuf,
    count: i64,
    datatype: Handle,
    dest: i32,
    tag: i32,
    comm: Handle,
    request: &mut Handle,
) -> Result<()> {
    prepare(
        e,
        check_send(
            e,
            &Args {
                buf,
                count,
                datatype,
                peer: dest,
                tag,
                comm,
            },
        )?,
        Some(SendKind::Ready),
        request,
    )
}

/// `MPI_Recv_init`.
#[expect(clippy::too_many_arguments, reason = "the standard's parameter list")]
pub fn recv_init(
    e: &Engine,
    buf: UserBuf,
    count: i64,
    datatype: Handle,
    source: i32,
    tag: i32,
    comm: Handle,
    request: &mut Handle,
) -> Result<()> {
    prepare(
        e,
        check_recv(
            e,
            &Args {
                buf,
                count,
                datatype,
                peer: source,
                tag,
                comm,
            },
        )?,
        None,
        request,
    )
}

/// `MPI_Start`.
pub fn start(e: &Engine, request: &mut Handle) -> Result<()> {
    begin(e, *request)
}

/// `MPI_Startall`.
pub fn startall(e: &Engine, count: i32, requests: Handles) -> Result<()> {
    if count < 0 {
        return Err(fault(
            consts::ERR_COUNT,
            format!("the count is {count}, which is negative"),
        ));
    }
    if count > 0 && requests.is_null() {
        return Err(fault(
            consts::ERR_ARG,
            format!("the array of {count} requests is NULL"),
        ));
    }
    (0..count as usize).try_for_each(|i| begin(e, requests.get(i)))
}
