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

/// Waits for a message's end. As soon as the wait is `vain`, the message is cancelled: then that is its end, or one that it has come to
/// nevertheless.
fn finish<H: Host>(
    h: &H,
    what: Waiting,
    (cookie, begun): (Cookie, Submit),
    vain: impl Fn(&Core) -> bool,
    cancel: impl Fn(&mut H::Below, Cookie) -> bool,
) -> Completion {
    if let Submit::Complete(end) = begun {
        h.with(|core, _| {
            core.completed(&end);
            core.end_of_message(cookie)
        });
        return end;
    }
    let mut cancelled = false;
    h.wait_for(what, |core, below| {
        let end = core.end_of_message(cookie);
        if end.is_none() && !cancelled && vain(core) {
            cancelled = true;
            // It says whether that is the end already or is still to be settled with the other side: either way the end is told.
            cancel(below, cookie);
        }
        end
    })
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
    // Its receiver's end is its own.
    let end = finish(h, what, (cookie, begun), |_| false, Transport::cancel_send);
    match end.outcome {
        Outcome::Done => code::SUCCESS,
        _ => code::ERR_PEER,
    }
}

/// `fmpl_recv_any`, and what it received. `ERR_PEER`: all other members are gone, and nothing is left that they sent. (With several threads
/// another may still send to this process.)
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
    let forsaken = |core: &Core| core.is_forsaken(&comm) && !h.is_threaded();
    let end = finish(h, what, (cookie, begun), forsaken, Transport::cancel_recv);
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

/// The messages of fixed length by which some processes make a communicator. When one of them dies they end, as those may have given
/// up who should send or receive them.
#[derive(Clone, Copy)]
pub(crate) struct Talk<'a> {
    /// The call.
    pub call: &'static str,
    /// In whose context they go,
    pub parent: &'a Comm,
    /// and with which tag.
    pub tag: i32,
    /// All that take part; the first decides.
    pub members: &'a [u32],
}

impl Talk<'_> {
    /// One message to a process; gives a code's error.
    pub fn tell<H: Host>(&self, h: &H, to: u32, bytes: &mut [u8]) -> Result<(), i32> {
        let data = layout::Data::bytes(UserBuf::of_array(bytes), bytes.len() as u64);
        let begun = h.with(|core, below| {
            let cookie = core.begin_message();
            let context = Core::context(self.parent, true);
            let mode = SendMode::Standard;
            let begun = below.isend(Endpoint(to), context, self.tag, mode, data, cookie);
            (cookie, begun)
        });
        let what = crate::steps::waiting(self.call, to, bytes.len() as u64);
        let vain = |core: &Core| core.has_dead(self.members);
        match finish(h, what, begun, vain, Transport::cancel_send).outcome {
            Outcome::Done => Ok(()),
            _ => Err(code::ERR_PEER),
        }
    }

    /// One message of exactly this length from a process.
    pub fn hear<H: Host>(&self, h: &H, from: u32, bytes: &mut [u8]) -> Result<(), i32> {
        let len = bytes.len() as u64;
        let data = layout::Data::bytes(UserBuf::of_array(bytes), len);
        let begun = h.with(|core, below| {
            let cookie = core.begin_message();
            let context = Core::context(self.parent, true);
            let from = Source::From(Endpoint(from));
            let begun = below.irecv(from, context, TagSel::Exact(self.tag), data, cookie);
            (cookie, begun)
        });
        let what = crate::steps::waiting(self.call, from, len);
        let vain = |core: &Core| core.has_dead(self.members);
        let end = finish(h, what, begun, vain, Transport::cancel_recv);
        match end.outcome {
            Outcome::Done if end.bytes == len => Ok(()),
            Outcome::Done | Outcome::Truncated { .. } => Err(code::ERR_SIZE),
            Outcome::Cancelled | Outcome::PeerFailed => Err(code::ERR_PEER),
        }
    }
}
