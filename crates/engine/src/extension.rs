//! The extension: what else uses this process's transport beside MPI, so that a wait in one makes progress for
//! the other.
//!
//! The engine calls it behind one flag test: at every progress, before every sleep, when a completion is not one of its own
//! requests', when a process is gone and at the end. The extension, in turn, enters the engine as MPI's
//! calls do, and finds here what these use: the transport, waiting, starting and ending.
//!
//! Invariants: the transport is borrowed only while a closure runs, never while anybody waits; an extension's
//! methods are called with the transport in hand, so they must not call the engine.
//!
//! Who calls it: `fmpl-entry`; and [`Engine::wait_on`] is how [`together`](crate::together) waits too.

use std::time::Instant;

use mtmi::slot::{Slots, wait_until};
use mtmi::{Completion, Endpoint, Sleeper, Transport};
use sys::blank::Blank;
use sys::door::Door;
use types::{Result, consts, fault};

use crate::state::{Engine, Phase, lock};
use crate::wait::{Asleep, Waiting};
use crate::world::Fabric;

/// Cookies of an extension's messages have this bit. The engine's hold a handle, and in their upper half the
/// number of a part, which is small.
pub const EXTENSION_COOKIE: u64 = 1 << 63;

/// What uses the transport beside MPI.
pub trait Extension {
    /// Moves what can move now. Says whether anything did.
    fn progress(&self, fabric: &mut Fabric) -> bool;

    /// Whether anything waits that nobody inside a call waits for, so that MPI's sleeps must look at it.
    fn is_waiting(&self) -> bool;

    /// A message with a cookie of the extension is over.
    fn completed(&self, completion: &Completion);

    /// Whether nothing of it is still in this process's hands.
    fn flushed(&self) -> bool;

    /// A process is gone: dead, or (`left`) it has left in order.
    fn peer_failed(&self, peer: Endpoint, left: bool);

    /// Nothing may be done from here on without [entering](crate::enter) the engine: threads call, or MPI ends.
    fn shut(&self);

    /// MPI ends: the transport goes away.
    fn ended(&self);
}

/// Polls of what is waited for before the first pass of progress: a short message that is under way comes within them, and
/// nothing but its line has to be looked at.
const SPINS: u32 = 64;
/// The same for messages longer than a line, which move by progress.
const SPINS_LONG: u32 = 2;
/// Most bytes of a short message.
const SHORT: u64 = 64;
/// Where processes outnumber processors, polls before the first turn is given away: who polls keeps those from running that it
/// waits for,
const SPINS_CROWDED: u32 = 2;
/// and turns that are given away before a sleep, which costs more than many of them.
const TURNS: u32 = 32;

impl Engine {
    /// Sets the extension; there is one, for as long as MPI runs.
    pub fn set_extension(&self, extension: &'static dyn Extension) {
        self.extension.set(Some(extension));
        self.beside.set(true);
    }

    /// Starts MPI for an extension, if nobody has: `MPI_Init` may still follow, and takes it over.
    pub fn start_for_extension(&self) -> Result<()> {
        match self.phase.get() {
            Phase::Running => Ok(()),
            Phase::Finalized => Err(fault(consts::ERR_OTHER, "MPI is already finalized")),
            Phase::Before => {
                // Its program may start MPI later, with more threads.
                self.start_world(consts::THREAD_SINGLE, false)?;
                self.lent.set(true);
                Ok(())
            }
        }
    }

    /// Ends MPI, if it was started for an extension and `MPI_Init` has not been called since.
    pub fn end_for_extension(&self) -> Result<()> {
        match self.lent.replace(false) && self.phase.get() == Phase::Running {
            true => self.stop_world(),
            false => Ok(()),
        }
    }

    /// Opens an extension's door, behind which nothing is entered, unless threads call or MPI does not run. Says whether it is open.
    pub fn open_door<T: Blank>(&self, door: &'static Door<T>) -> bool {
        self.is_running() && door.open(lock())
    }

    /// Where the process stands.
    pub fn phase(&self) -> Phase {
        self.phase.get()
    }

    /// Whether MPI runs, and in this process.
    #[inline]
    pub fn is_running(&self) -> bool {
        self.phase.get() == Phase::Running && !self.fork_mark.forked()
    }

    /// The processes that are known to be gone, for an extension that comes later, and whether each has left in order.
    pub fn gone(&self) -> Vec<(Endpoint, bool)> {
        let left = self.failures.left.borrow();
        let gone = self.failures.gone.borrow();
        let with = |&peer: &u32| (Endpoint(peer), left.contains(&peer));
        gone.iter().map(with).collect()
    }

    /// Uses the transport, while MPI runs.
    ///
    /// # Panics
    /// While it does not.
    #[inline]
    pub fn fabric<R>(&self, f: impl FnOnce(&mut Fabric) -> R) -> R {
        self.transport(f)
    }

    /// Makes progress for everybody, for calls that a program polls with; lets other threads in, and others at all if nothing moved.
    pub fn make_progress(&self) -> bool {
        lock().relax();
        let moved = self.progress();
        if !moved {
            self.give_way_to_ranks();
        }
        moved
    }

    /// Waits until `look` finds something, or the deadline passes. It spins on what `look` looks at, then makes progress
    /// for everybody, gives its processor to others where there are too few, then sleeps as all waits do.
    #[inline]
    pub fn wait_beside<R>(
        &self,
        what: impl Fn() -> Waiting,
        deadline: Option<Instant>,
        mut look: impl FnMut(&mut Fabric) -> Option<R>,
    ) -> Option<R> {
        let spins = match what().bytes {
            _ if self.transport(Slots::is_crowded) => SPINS_CROWDED,
            ..=SHORT => SPINS,
            _ => SPINS_LONG,
        };
        for _ in 0..spins {
            if let Some(found) = self.transport(&mut look) {
                return Some(found);
            }
            sys::copy::pause();
        }
        self.wait_on(what, deadline, look)
    }

    /// The same for a caller that has looked many times already: begins with progress.
    #[inline(never)]
    pub fn wait_on<R>(
        &self,
        what: impl Fn() -> Waiting,
        deadline: Option<Instant>,
        mut look: impl FnMut(&mut Fabric) -> Option<R>,
    ) -> Option<R> {
        let mut turns = 0;
        let mut told = None;
        let found = loop {
            let found = self.transport(&mut look);
            if found.is_some() {
                break found;
            }
            if deadline.is_some_and(|d| Instant::now() >= d) {
                break None;
            }
            lock().relax();
            if self.progress() {
                continue;
            }
            if turns < TURNS && self.transport(Slots::is_crowded) {
                turns += 1;
                self.transport(Slots::give_way);
                continue;
            }
            self.report_waiting(&what, &mut told);
            if let Some(found) = self.sleep_beside(deadline, &mut look) {
                break Some(found);
            }
        };
        if told.is_some() {
            self.report_running();
        }
        found
    }

    /// Sleeps until something may have happened, looking at what the extension has to do as well.
    fn sleep_beside<R>(
        &self,
        deadline: Option<Instant>,
        look: &mut impl FnMut(&mut Fabric) -> Option<R>,
    ) -> Option<R> {
        let deadline = self.latest_wake(deadline);
        let mut found = None;
        let mut see = |m: &mut Fabric| {
            found = look(m);
            found.is_some() || self.look_beside(m)
        };
        if !self.is_threaded() {
            self.transport(|m| wait_until(m, see, deadline));
            return found;
        }
        if self.poll_threaded(|m| see(m) || m.ready(), deadline) {
            return found;
        }
        lock().relax();
        let sleeper = self.transport(|m| m.sleeper());
        let armed = sleeper.arm();
        if self.transport(|m| see(m) || m.ready()) {
            return found;
        }
        self.sleeping.set(self.sleeping.get() + 1);
        lock().unlocked(|| Asleep::sleep(armed, deadline));
        self.sleeping.set(self.sleeping.get() - 1);
        None
    }
}
