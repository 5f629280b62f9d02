//! Messages to whoever receives from anybody (section 3.2.3): a domain of their own, matched at the receiver.
//!
//! They are ordinary messages of the transport, in a context of the communicator that nothing else uses; the index is
//! the tag. So they can't meet the slots' messages, as the paper has it.

use boundary::UserBuf;
use fmpl_table::{code, consts};
use mtmi::{Completion, Cookie, Endpoint, Outcome, SendMode, Source, Submit, TagSel, Transport};

use crate::comm::Comm;
use crate::core::Core;
use crate::host::{Host, Waiting};
use crate::p2p::Args;

/// What was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// `SUCCESS` or `ERR_TRUNCATE`.
    pub code: i32,
    /// The sender's rank in the communicator.
    pub source: i32,
    /// Bytes that the message had.
    pub bytes: u64,
    /// The index it was sent with.
    pub index: i32,
}

/// Waits for a message's end.
pub(crate) fn finish<H: Host>(h: &H, what: Waiting, cookie: Cookie, begun: Submit) -> Completion {
    match begun {
        Submit::Complete(end) => {
            h.with(|core, _| {
                core.completed(&end);
                core.end_of_message(cookie)
            });
            end
        }
        Submit::Pending => h.wait_for(what, |core, _| core.end_of_message(cookie)),
    }
}

/// `fmpl_send_any`.
pub fn send_any<H: Host>(h: &H, args: &Args) -> i32 {
    let begun = h.with(|core, below| {
        let data = args.data()?;
        if args.mai < 0 {
            return Err(code::ERR_INDEX);
        }
        let comm = core.comm(args.comm)?.clone();
        let peer = comm.peer(args.rank).ok_or(code::ERR_RANK)?;
        let cookie = core.begin_message();
        let context = Core::context(&comm, false);
        let mode = SendMode::Standard;
        let begun = below.isend(Endpoint(peer), context, args.mai, mode, data, cookie);
        Ok((peer, cookie, begun))
    });
    let (peer, cookie, begun) = match begun {
        Ok(begun) => begun,
        Err(code) => return code,
    };
    let what = Waiting {
        call: "fmpl_send_any",
        peer: peer as i32,
        index: args.mai,
        bytes: args.size as u64,
    };
    match finish(h, what, cookie, begun).outcome {
        Outcome::Done => code::SUCCESS,
        _ => code::ERR_PEER,
    }
}

/// `fmpl_recv_any`, and what it received.
pub fn recv_any<H: Host>(
    h: &H,
    buf: UserBuf,
    size: i64,
    mai: i32,
    number: i32,
) -> Result<Received, i32> {
    let args = Args {
        buf,
        size,
        rank: 0,
        mai,
        comm: number,
    };
    let (comm, cookie, begun) = h.with(|core, below| {
        let data = args.data()?;
        let tag = match mai {
            consts::TAG_ANY => TagSel::Any,
            0.. => TagSel::Exact(mai),
            _ => return Err(code::ERR_INDEX),
        };
        let comm = core.comm(number)?.clone();
        let cookie = core.begin_message();
        let context = Core::context(&comm, false);
        let begun = below.irecv(Source::Any, context, tag, data, cookie);
        Ok((comm, cookie, begun))
    })?;
    let what = Waiting {
        call: "fmpl_recv_any",
        peer: -1,
        index: mai,
        bytes: size as u64,
    };
    let end = finish(h, what, cookie, begun);
    let (code, bytes) = match end.outcome {
        Outcome::Done => (code::SUCCESS, end.bytes),
        Outcome::Truncated { sent } => (code::ERR_TRUNCATE, sent),
        Outcome::Cancelled | Outcome::PeerFailed => return Err(code::ERR_PEER),
    };
    Ok(Received {
        code,
        source: rank_of(&comm, end.source),
        bytes,
        index: end.tag,
    })
}

/// The rank of a process; -1 for one that is no member and still wrote into our context.
fn rank_of(comm: &Comm, endpoint: Endpoint) -> i32 {
    match &comm.ranks {
        None => endpoint.0 as i32,
        Some(ranks) => {
            let rank = ranks.iter().position(|&r| r == endpoint.0);
            rank.map_or(-1, |rank| rank as i32)
        }
    }
}

/// One message of fixed length to a process, for making communicators; gives a code's error.
pub(crate) fn tell<H: Host>(
    h: &H,
    call: &'static str,
    comm: &Comm,
    to: u32,
    tag: i32,
    bytes: &mut [u8],
) -> Result<(), i32> {
    let data = layout::Data::bytes(UserBuf::of_array(bytes), bytes.len() as u64);
    let (cookie, begun) = h.with(|core, below| {
        let cookie = core.begin_message();
        let context = Core::context(comm, true);
        let mode = SendMode::Standard;
        (
            cookie,
            below.isend(Endpoint(to), context, tag, mode, data, cookie),
        )
    });
    let what = crate::steps::waiting(call, to, bytes.len() as u64);
    match finish(h, what, cookie, begun).outcome {
        Outcome::Done => Ok(()),
        _ => Err(code::ERR_PEER),
    }
}

/// One message of exactly this length from a process, for making communicators.
pub(crate) fn hear<H: Host>(
    h: &H,
    call: &'static str,
    comm: &Comm,
    from: u32,
    tag: i32,
    bytes: &mut [u8],
) -> Result<(), i32> {
    let len = bytes.len() as u64;
    let data = layout::Data::bytes(UserBuf::of_array(bytes), len);
    let (cookie, begun) = h.with(|core, below| {
        let cookie = core.begin_message();
        let context = Core::context(comm, true);
        let from = Source::From(Endpoint(from));
        let begun = below.irecv(from, context, TagSel::Exact(tag), data, cookie);
        (cookie, begun)
    });
    let what = crate::steps::waiting(call, from, len);
    let end = finish(h, what, cookie, begun);
    match end.outcome {
        Outcome::Done if end.bytes == len => Ok(()),
        Outcome::Done | Outcome::Truncated { .. } => Err(code::ERR_SIZE),
        Outcome::Cancelled | Outcome::PeerFailed => Err(code::ERR_PEER),
    }
}
