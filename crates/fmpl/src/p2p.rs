//! Sends and receives by (rank, index): the calls of section 3.2.
//!
//! A short message whose receive is there takes one function from entering the engine to the line and back: what lies on
//! its way is `inline(always)` down to `shm::slots`, everything else is kept out (`inline(never)`), as calls and the
//! registers that they save cost more than the work.

use std::time::{Duration, Instant};

use boundary::UserBuf;
use fmpl_table::{code, consts};
use layout::Data;
use mtmi::slot::Slots;

use crate::area::{Area, At, Begun, Ended, Which};
use crate::core::Core;
use crate::host::{Host, Waiting};

/// The arguments of a send or receive.
#[derive(Clone, Copy, Debug)]
pub struct Args {
    /// The buffer.
    pub buf: UserBuf,
    /// Its bytes.
    pub size: i64,
    /// The other process's rank.
    pub rank: i32,
    /// The index.
    pub mai: i32,
    /// The communicator.
    pub comm: i32,
}

impl Args {
    /// The buffer, if it is one.
    #[inline]
    pub fn data(&self) -> Result<Data, i32> {
        let size = u64::try_from(self.size).map_err(|_| code::ERR_SIZE)?;
        if self.buf.is_null() && size > 0 {
            return Err(code::ERR_BUFFER);
        }
        Ok(Data::bytes(self.buf, size))
    }

    fn waiting(&self, call: &'static str, peer: u32) -> Waiting {
        Waiting {
            call,
            peer: peer as i32,
            index: self.mai,
            bytes: self.size.max(0) as u64,
        }
    }
}

/// A call's code out of a result.
pub(crate) fn code_of(result: Result<i32, i32>) -> i32 {
    result.unwrap_or_else(|code| code)
}

/// What a send or receive names, for its waits and tests.
#[derive(Clone, Copy, Debug)]
pub struct Name {
    /// The other process's rank.
    pub rank: i32,
    /// The index.
    pub mai: i32,
    /// The communicator.
    pub comm: i32,
}

/// Looks for a receive before a send is queued: one that is on its way comes within some hundred nanoseconds.
const LOOKS: u32 = 50;

/// Looks for a receive's end before progress is made for everybody: a message that is under way begins to come within them. With 2 for messages longer
/// than a line, 8 and 16 KiB into mapped memory take 0.23 and 0.42 us in place of 0.19 and 0.33, 4 KiB of four ranks on two processors 2.1 in place of 0.6
/// to 1.8.
pub const LOOKS_FOR_END: u32 = 64;

/// Of so many sends that go to the stash one makes progress: else a program that only sends would never hear that a receiver has died.
const SPOOLED_PER_PROGRESS: u32 = 16;

/// What came of looking for a receive.
enum Looked {
    /// It was there.
    Begun(At, usize, Begun),
    /// It is not there.
    NotYet,
    /// It is not there, and sends don't wait.
    Impatient,
}

#[inline(always)]
fn look_for<B: Slots>(core: &mut Core, below: &mut B, args: &Args) -> Result<Looked, i32> {
    let (at, which) = core.place(args.comm, args.rank, args.mai)?;
    let data = args.data()?;
    let area = core.area(which)?;
    Ok(match area.try_send(below, at, &data, false) {
        Some(begun) => Looked::Begun(at, which, begun),
        None if area.is_patient() => Looked::NotYet,
        None => Looked::Impatient,
    })
}

/// A send whose receive comes while we look for it further. `None`: it doesn't, and nothing was done.
fn look_on<H: Host>(h: &H, args: &Args) -> Option<Result<(At, usize, Begun), i32>> {
    for _ in 1..LOOKS {
        std::hint::spin_loop();
        let found = h.with(|core, below| look_for(core, below, args));
        match found {
            Err(code) => return Some(Err(code)),
            Ok(Looked::Begun(at, which, begun)) => return Some(Ok((at, which, begun))),
            Ok(Looked::Impatient) => return None,
            Ok(Looked::NotYet) => {}
        }
    }
    None
}

fn start_send<H: Host>(h: &H, args: &Args, keep: bool) -> Result<(At, usize, Begun), i32> {
    h.with(|core, below| {
        let (at, which) = core.place(args.comm, args.rank, args.mai)?;
        let begun = core.area(which)?.send(below, at, args.data()?, keep);
        Ok((at, which, begun))
    })
}

/// `fmpl_send`.
#[inline]
pub fn send<H: Host>(h: &H, args: &Args) -> i32 {
    match h.with(|core, below| look_for(core, below, args)) {
        Err(code) => code,
        Ok(Looked::Begun(_, _, Begun::Over(code))) => code,
        Ok(looked) => send_later(h, args, looked),
    }
}

/// The rest of a send that was not over at once.
#[inline(never)]
fn send_later<H: Host>(h: &H, args: &Args, looked: Looked) -> i32 {
    let begun = match looked {
        Looked::Begun(at, which, begun) => Some(Ok((at, which, begun))),
        Looked::NotYet => look_on(h, args),
        Looked::Impatient => None,
    };
    match begun.unwrap_or_else(|| start_send(h, args, false)) {
        Err(code) => code,
        Ok((_, _, Begun::Over(code))) => code,
        Ok((at, which, Begun::Pending)) => {
            finish_send(h, args.waiting("fmpl_send", at.peer), at, which)
        }
    }
}

/// `fmpl_isend`. What was refused is told at once; how it ended, by the wait.
pub fn isend<H: Host>(h: &H, args: &Args) -> i32 {
    match start_send(h, args, true) {
        Err(code) => code,
        // A second one: nothing was begun.
        Ok((_, _, Begun::Over(code::ERR_BUSY))) => code::ERR_BUSY,
        Ok(_) => code::SUCCESS,
    }
}

/// Waits until the program's own send at `at` is over, in the stash at last.
fn finish_send<H: Host>(h: &H, what: Waiting, at: At, which: usize) -> i32 {
    let poll = |core: &mut Core, below: &mut H::Below| match core.area(which) {
        Err(code) => Some(code),
        Ok(area) => area.poll_send(below, at),
    };
    let time = h.with(|core, _| core.area(which).ok().and_then(|a| a.spool_time(at)));
    // One that never waits goes to the stash at once.
    if time.is_some_and(|t| t > Instant::now())
        && let Some(code) = h.wait(what, time, poll)
    {
        return code;
    }
    let (code, spooled) = h.wait_for(what, |core, below| {
        let over = poll(core, below).map(|code| (code, 0));
        over.or_else(|| {
            let area = core.area(which).ok()?;
            let code = time.and_then(|_| area.spool(at))?;
            Some((code, area.spooled()))
        })
    });
    if spooled > 0 && spooled.is_multiple_of(SPOOLED_PER_PROGRESS) {
        h.progress();
    }
    code
}

/// `fmpl_isend_wait`.
pub fn isend_wait<H: Host>(h: &H, name: Name) -> i32 {
    let found = h.with(|core, below| {
        let (at, which) = core.place(name.comm, name.rank, name.mai)?;
        let area = core.area(which)?;
        if let Some(code) = area.poll_send(below, at) {
            return Ok(Err(code));
        }
        match area.is_sending(at) {
            true => Ok(Ok((at, which))),
            false => Err(code::ERR_NOTHING),
        }
    });
    match found {
        Err(code) => code,
        Ok(Err(code)) => code,
        Ok(Ok((at, which))) => {
            let what = Waiting {
                call: "fmpl_isend_wait",
                peer: at.peer as i32,
                index: name.mai,
                bytes: 0,
            };
            finish_send(h, what, at, which)
        }
    }
}

/// `fmpl_isend_test`: `None` while the send goes on. A send whose `ipara` has passed goes to the stash here too.
pub fn isend_test<H: Host>(h: &H, name: Name) -> Result<Option<i32>, i32> {
    h.with(|core, below| {
        let (at, which) = core.place(name.comm, name.rank, name.mai)?;
        let area = core.area(which)?;
        if let Some(code) = area.poll_send(below, at) {
            return Ok(Some(code));
        }
        if !area.is_sending(at) {
            return Err(code::ERR_NOTHING);
        }
        let due = area.spool_time(at).is_some_and(|t| t <= Instant::now());
        Ok(if due { area.spool(at) } else { None })
    })
}

/// Bytes that the receive has room for which the next send of that name would meet, if it is posted, or comes within `patience`.
pub fn offered<H: Host>(h: &H, name: Name, patience: Duration) -> Result<Option<u64>, i32> {
    let (at, which) = h.with(|core, _| core.place(name.comm, name.rank, name.mai))?;
    let room = h.with(|core, below| core.area(which).map(|area| area.offered(below, at)))?;
    if room.is_some() || patience.is_zero() {
        return Ok(room);
    }
    let what = Waiting {
        call: "fmpl_send",
        peer: at.peer as i32,
        index: at.index as i32,
        bytes: 0,
    };
    let found = h.wait(
        what,
        Instant::now().checked_add(patience),
        |core, below| match core.area(which) {
            Ok(area) => area.offered(below, at).map(Ok),
            Err(code) => Some(Err(code)),
        },
    );
    found.transpose()
}

#[inline(always)]
fn start_receive<'a, B: Slots>(
    core: &'a mut Core,
    below: &mut B,
    args: &Args,
) -> Result<(Which, usize, &'a mut Area), i32> {
    let data = args.data()?;
    let (peer, which) = core.peer(args.comm, args.rank)?;
    let area = core.area(which)?;
    let posted = match args.mai {
        consts::TAG_ANY => area.receive_any(below, peer, &data)?,
        _ => {
            let index = index_in(area, args.mai)?;
            area.receive(below, At { peer, index }, &data)?
        }
    };
    Ok((posted, which, area))
}

/// A receive's end, if it comes while we look for it: nothing but its line is looked at, so the data has to be under way.
#[inline(always)]
fn look_for_end<B: Slots>(
    area: &mut Area,
    below: &mut B,
    receive: Which,
    looks: u32,
) -> Option<Ended> {
    area.await_receive(below, receive, looks);
    area.poll_receive(below, receive)
}

fn index_in(area: &Area, mai: i32) -> Result<u32, i32> {
    match u32::try_from(mai) {
        Ok(index) if index < area.count() => Ok(index),
        _ => Err(code::ERR_INDEX),
    }
}

/// Waits for the end of a receive that has been looked for many times.
#[inline(never)]
fn finish_receive<H: Host>(h: &H, what: Waiting, receive: Which, which: usize) -> Ended {
    loop {
        let end = h.wait_on(what, None, |core, below| match core.area(which) {
            Err(code) => Some(Ended {
                code,
                bytes: 0,
                index: 0,
            }),
            Ok(area) => area.poll_receive(below, receive),
        });
        if let Some(end) = end {
            return end;
        }
    }
}

/// `fmpl_recv`.
#[inline]
pub fn recv<H: Host>(h: &H, args: &Args) -> i32 {
    let found = h.with(|core, below| {
        let (receive, which, area) = start_receive(core, below, args)?;
        let end = look_for_end(area, below, receive, LOOKS_FOR_END);
        Ok((end, receive, which))
    });
    match found {
        Err(code) => code,
        Ok((Some(end), ..)) => end.code,
        Ok((None, receive, which)) => {
            let what = args.waiting("fmpl_recv", args.rank.max(0) as u32);
            finish_receive(h, what, receive, which).code
        }
    }
}

/// The rest of a receive that was posted before its message came.
pub fn recv_posted<H: Host>(h: &H, args: &Args) -> i32 {
    let (rank, mai, comm) = (args.rank, args.mai, args.comm);
    match h.with(|core, below| in_flight(core, below, Name { rank, mai, comm })) {
        Err(code) => code,
        Ok((receive, which)) => {
            let what = args.waiting("fmpl_recv", args.rank.max(0) as u32);
            finish_receive(h, what, receive, which).code
        }
    }
}

/// `fmpl_irecv`.
#[inline]
pub fn irecv<H: Host>(h: &H, args: &Args) -> i32 {
    match h.with(|core, below| start_receive(core, below, args).map(|_| ())) {
        Err(code) => code,
        Ok(()) => code::SUCCESS,
    }
}

/// The receive in flight that a wait or test means.
#[inline(always)]
fn in_flight<B: Slots>(core: &mut Core, below: &mut B, name: Name) -> Result<(Which, usize), i32> {
    let (peer, which) = core.peer(name.comm, name.rank)?;
    let area = core.area(which)?;
    let found = match name.mai {
        consts::TAG_ANY => area.oldest_any(peer),
        _ => {
            let index = index_in(area, name.mai)?;
            area.receive_in_flight(below, At { peer, index })
        }
    };
    found.map(|f| (f, which)).ok_or(code::ERR_NOTHING)
}

/// `fmpl_irecv_wait`; what was received comes with its code.
#[inline]
pub fn irecv_wait<H: Host>(h: &H, name: Name) -> Result<Ended, i32> {
    irecv_wait_on(h, name, LOOKS_FOR_END)
}

/// The same, where it is looked for so often before progress is made.
#[inline]
pub fn irecv_wait_on<H: Host>(h: &H, name: Name, looks: u32) -> Result<Ended, i32> {
    let (ended, receive, which) = h.with(|core, below| {
        let (receive, which) = in_flight(core, below, name)?;
        let end = look_for_end(core.area(which)?, below, receive, looks);
        Ok::<_, i32>((end, receive, which))
    })?;
    if let Some(end) = ended {
        return Ok(end);
    }
    let what = Waiting {
        call: "fmpl_irecv_wait",
        peer: name.rank,
        index: name.mai,
        bytes: 0,
    };
    Ok(finish_receive(h, what, receive, which))
}

/// `fmpl_irecv_test`: `None` while the receive goes on.
pub fn irecv_test<H: Host>(h: &H, name: Name) -> Result<Option<Ended>, i32> {
    h.with(|core, below| {
        let (receive, which) = in_flight(core, below, name)?;
        Ok(core.area(which)?.poll_receive(below, receive))
    })
}
