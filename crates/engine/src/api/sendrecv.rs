//! Send-receive: a send and a receive under way together.

use boundary::{AlignedBuf, UserBuf};
use layout::Data;
use mtmi::SendMode;
use types::{Handle, Result, Status, consts, fault};

use super::p2p::{Transfer, check_recv, check_send, exchange_at_once};
use crate::request::{Body, Kind};
use crate::short::Args;
use crate::state::Engine;

/// Starts both; the receive is part 0 of the request and gives its status. `data` is what is
/// sent, `scratch` what it lies in, if it isn't the caller's buffer.
fn start_both(
    e: &Engine,
    send: &Transfer,
    data: Data,
    scratch: Body,
    recv: &Transfer,
) -> Result<Handle> {
    let (sends, receives) = (
        send.peer != consts::PROC_NULL,
        recv.peer != consts::PROC_NULL,
    );
    let parts = u32::from(sends) + u32::from(receives);
    let (handle, request) = e.new_request(Kind::SendRecv, parts, Some(recv.comm.clone()))?;
    request.body.replace(scratch);
    e.note_peer(request, recv);
    if receives {
        let submit = e.submit_recv(recv, handle, 0);
        e.submitted(submit);
    } else {
        request.set_status(Status::PROC_NULL);
    }
    if sends {
        let submit = e.submit_send(send, data, SendMode::Standard, handle, 1);
        e.submitted(submit);
    }
    Ok(handle)
}

/// The packed data of a send, in memory of our own.
pub(crate) fn packed(t: &Transfer) -> Result<(AlignedBuf, Data)> {
    let data = t.data();
    let bytes = data.len();
    let mut scratch = usize::try_from(bytes)
        .ok()
        .and_then(AlignedBuf::new)
        .ok_or_else(|| {
            fault(
                consts::ERR_NO_MEM,
                format!("no memory for a copy of a message of {bytes} bytes"),
            )
        })?;
    let buf = scratch.buf();
    let copy = Data::bytes(buf, bytes);
    layout::transfer(&data, &copy);
    Ok((scratch, copy))
}

fn wait_both(
    e: &Engine,
    mut handle: Handle,
    call: &'static str,
    recv: &Transfer,
    status: Option<&mut Status>,
) -> Result<()> {
    e.wait_request(handle, || recv.waiting(call))?;
    if let Some(out) = status {
        *out = Status {
            error: out.error,
            ..e.request(handle)?.status()
        };
    }
    e.retire(&mut handle).map(drop)
}

/// `MPI_Sendrecv`.
#[expect(clippy::too_many_arguments, reason = "the standard's parameter list")]
pub fn sendrecv(
    e: &Engine,
    sendbuf: UserBuf,
    sendcount: i64,
    sendtype: Handle,
    dest: i32,
    sendtag: i32,
    recvbuf: UserBuf,
    recvcount: i64,
    recvtype: Handle,
    source: i32,
    recvtag: i32,
    comm: Handle,
    mut status: Option<&mut Status>,
) -> Result<()> {
    let send = Args {
        buf: sendbuf,
        count: sendcount,
        datatype: sendtype,
        peer: dest,
        tag: sendtag,
        comm,
    };
    let recv = Args {
        buf: recvbuf,
        count: recvcount,
        datatype: recvtype,
        peer: source,
        tag: recvtag,
        comm,
    };
    let call = "MPI_Sendrecv";
    if exchange_at_once(e, call, (&send, &recv), status.as_deref_mut())? {
        return Ok(());
    }
    let (send, recv) = (check_send(e, &send)?, check_recv(e, &recv)?);
    let handle = start_both(e, &send, send.data(), Body::Empty, &recv)?;
    wait_both(e, handle, call, &recv, status)
}

/// `MPI_Isendrecv`.
#[expect(clippy::too_many_arguments, reason = "the standard's parameter list")]
pub fn isendrecv(
    e: &Engine,
    sendbuf: UserBuf,
    sendcount: i64,
    sendtype: Handle,
    dest: i32,
    sendtag: i32,
    recvbuf: UserBuf,
    recvcount: i64,
    recvtype: Handle,
    source: i32,
    recvtag: i32,
    comm: Handle,
    request: &mut Handle,
) -> Result<()> {
    let send = check_send(
        e,
        &Args {
            buf: sendbuf,
            count: sendcount,
            datatype: sendtype,
            peer: dest,
            tag: sendtag,
            comm,
        },
    )?;
    let recv = check_recv(
        e,
        &Args {
            buf: recvbuf,
            count: recvcount,
            datatype: recvtype,
            peer: source,
            tag: recvtag,
            comm,
        },
    )?;
    *request = start_both(e, &send, send.data(), Body::Empty, &recv)?;
    Ok(())
}

/// The arguments of a send and of a receive that use the same buffer: `to` and `from` are ranks and tags.
fn replaced(
    (buf, count, datatype): (UserBuf, i64, Handle),
    to: (i32, i32),
    from: (i32, i32),
    comm: Handle,
) -> (Args, Args) {
    let args = |(peer, tag)| Args {
        buf,
        count,
        datatype,
        peer,
        tag,
        comm,
    };
    (args(to), args(from))
}

fn start_replace(e: &Engine, send: &Args, recv: &Args) -> Result<(Handle, Transfer)> {
    let (send, recv) = (check_send(e, send)?, check_recv(e, recv)?);
    let (scratch, data) = packed(&send)?;
    Ok((
        start_both(e, &send, data, Body::Scratch(scratch), &recv)?,
        recv,
    ))
}

/// `MPI_Sendrecv_replace`.
#[expect(clippy::too_many_arguments, reason = "the standard's parameter list")]
pub fn sendrecv_replace(
    e: &Engine,
    buf: UserBuf,
    count: i64,
    datatype: Handle,
    dest: i32,
    sendtag: i32,
    source: i32,
    recvtag: i32,
    comm: Handle,
    mut status: Option<&mut Status>,
) -> Result<()> {
    let (send, recv) = replaced(
        (buf, count, datatype),
        (dest, sendtag),
        (source, recvtag),
        comm,
    );
    let call = "MPI_Sendrecv_replace";
    // What has left at once was copied, so the buffer is free for what comes.
    if exchange_at_once(e, call, (&send, &recv), status.as_deref_mut())? {
        return Ok(());
    }
    let (handle, recv) = start_replace(e, &send, &recv)?;
    wait_both(e, handle, call, &recv, status)
}

/// `MPI_Isendrecv_replace`.
#[expect(clippy::too_many_arguments, reason = "the standard's parameter list")]
pub fn isendrecv_replace(
    e: &Engine,
    buf: UserBuf,
    count: i64,
    datatype: Handle,
    dest: i32,
    sendtag: i32,
    source: i32,
    recvtag: i32,
    comm: Handle,
    request: &mut Handle,
) -> Result<()> {
    let (send, recv) = replaced(
        (buf, count, datatype),
        (dest, sendtag),
        (source, recvtag),
        comm,
    );
    (*request, _) = start_replace(e, &send, &recv)?;
    Ok(())
}
