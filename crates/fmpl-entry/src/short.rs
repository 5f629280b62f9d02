//! The short path: messages of a few bytes between processes of a node, before the engine is entered.
//!
//! It does something only if every check holds and nothing is in the way; else it has changed nothing, and the ordinary path does the
//! call again from its first check, which also finds the words for what is wrong. One communicator is known at a time: the one that was
//! used last of those whose ranks are a run of processes.
//!
//! # Why it needs no check of these
//! The [door](sys::door) is open only while MPI runs in this very process, threads don't call at the same time, and no process is known
//! to be gone; while it is shut no communicator is known. Of slots in which something waits their [ports](fabrics::SlotPort) know.
//!
//! Progress for others is made by calls that find nothing to take, as on the ordinary path.
//!
//! Who calls it: `messages`; `groups` and `process` when something goes away.

use std::cell::Cell;
use std::rc::Rc;

use boundary::UserBuf;
use fabrics::{SlotPort, SlotPorts, Taken};
use fmpl::Host;
use fmpl::p2p::{Args, LOOKS_FOR_END, Name};
use fmpl_table::code;
use sys::blank;
use sys::blank::Table;
use sys::door::Door;

use crate::host::Entered;

static DOOR: Door<Short> = Door::new();

blank! {
    /// What the short path looks at.
    struct Short {
        /// The communicator that is known,
        comm: Cell<u32>,
        /// and the ways to its ranks; none, if none is known.
        ways: Table<SlotPort, ()>,
        /// The ways of each matching area to all processes.
        ports: [Cell<Option<&'static Rc<SlotPorts>>>; 2],
    }
}

/// What came of a call here.
pub enum Done {
    /// It is over.
    Over(i32),
    /// A receive is posted, for which it has to wait.
    Posted,
    /// Nothing was done.
    Nothing,
}

impl Short {
    #[inline(always)]
    fn port(&self, rank: i32, comm: i32) -> Option<&'static SlotPort> {
        if comm as u32 != self.comm.get() {
            return None;
        }
        let (port, ()) = self.ways.get(rank as u32)?;
        Some(port)
    }
}

/// The way to a message's process and its buffer, if that is one of at most [`SlotPort::MOST`] bytes.
#[inline(always)]
fn checked(args: &Args) -> Option<(&'static SlotPort, UserBuf, usize)> {
    let len = args.size as usize;
    if len > SlotPort::MOST || args.buf.is_null() {
        return None;
    }
    Some((DOOR.state().port(args.rank, args.comm)?, args.buf, len))
}

/// `fmpl_send`.
#[inline(always)]
pub fn send(args: &Args) -> Done {
    let sent = checked(args).and_then(|(port, buf, len)| port.deliver(args.mai as u32, buf, len));
    sent.map_or(Done::Nothing, Done::Over)
}

/// `fmpl_irecv`.
#[inline(always)]
pub fn irecv(args: &Args) -> Done {
    match checked(args) {
        Some((port, buf, len)) if port.post(args.mai as u32, buf, len) => Done::Over(code::SUCCESS),
        _ => Done::Nothing,
    }
}

/// `fmpl_recv`.
#[inline(always)]
pub fn recv(args: &Args) -> Done {
    let Some((port, buf, len)) = checked(args) else {
        return Done::Nothing;
    };
    if !port.post(args.mai as u32, buf, len) {
        return Done::Nothing;
    }
    match port.take(args.mai as u32, LOOKS_FOR_END) {
        Taken::Whole => Done::Over(code::SUCCESS),
        Taken::NotYet | Taken::Otherwise => Done::Posted,
    }
}

/// `fmpl_irecv_wait`: [whole](Taken::Whole) if the message comes within some looks and is a short one.
#[inline(always)]
pub fn irecv_wait(name: Name) -> Taken {
    match DOOR.state().port(name.rank, name.comm) {
        Some(port) => port.take(name.mai as u32, LOOKS_FOR_END),
        None => Taken::Otherwise,
    }
}

/// A communicator was used on the ordinary path: it is known from here on, if it can be.
#[inline]
pub fn know(entered: &Entered, comm: i32) {
    let short = DOOR.state();
    if short.ways.get(0).is_none() || short.comm.get() != comm as u32 {
        know_now(entered, comm);
    }
}

#[inline(never)]
fn know_now(entered: &Entered, number: i32) {
    let short = DOOR.state();
    // Opening it writes there, where other threads look.
    if entered.is_threaded() || entered.with(|core, _| core.has_failures()) {
        return;
    }
    if !entered.engine().open_door(&DOOR) {
        return;
    }
    let known = entered.with(|core, below| {
        let comm = core.comm(number).ok()?.clone();
        let run = comm.run.clone()?;
        let ports = match short.ports[comm.area].get() {
            Some(ports) => ports,
            None => {
                let area = core.area(comm.area).ok()?;
                let ports = below.fabric().slot_ports(area.table(), area.count())?;
                // An area is opened once in the life of a process.
                let ports: &'static Rc<SlotPorts> = Box::leak(Box::new(ports));
                short.ports[comm.area].set(Some(ports));
                ports
            }
        };
        ports.of(run)
    });
    if let Some(ports) = known {
        // The table has two lists; elements of no size take no memory, so nothing is leaked.
        let nothing: &'static [()] = Box::leak(vec![(); ports.len()].into_boxed_slice());
        short.ways.set(ports, nothing);
        short.comm.set(number as u32);
    }
}

/// No communicator is known: one goes away.
pub fn forget() {
    // Only where one is: while it is shut other threads may look.
    if DOOR.is_open() {
        DOOR.state().ways.clear();
    }
}

/// Nothing may be done here from now on until it is opened again.
pub fn shut() {
    forget();
    DOOR.shut();
}
