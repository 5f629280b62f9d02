//! The progress thread: with `YAMABIKO_CAD=thread` a thread of ours goes on with non-blocking and persistent collectives while
//! the program computes, as LibNBC's does. It runs the same graphs with the same messages as calls do; so each rank may choose for
//! itself, and collectives need no agreement. Without the variable nothing here runs.
//!
//! # What it does
//!
//! It begins with the first collective that is still under way when its call returns, and ends in `MPI_Finalize`. While such
//! collectives are under way and no thread of the program waits in MPI, it makes progress under the engine's lock, and sleeps, as
//! a rank that waits does ([`crate::wait`]), as soon as a pass moves nothing: it polls for nothing, since it would take the processor from
//! the program, but for its turn to read what was lent, for which nobody rings. At all other times it is parked. A thread of the program that has waited for a while makes all progress itself
//! ([`Engine::begin_wait`]), which spares both from being woken by each message.
//!
//! Whoever moves something in a call looks whether that left work which nothing will ring for ([`Engine::rouse`]).
//!
//! # The lock
//!
//! From `MPI_Init` on the engine is as with `MPI_THREAD_MULTIPLE`, whatever the program asked for ([`Engine::is_threaded`]): the
//! short paths are shut and each call takes the lock. What depends on what the *program's* threads may do asks
//! [`Engine::is_called_by_threads`]. A fork waits until the thread is outside the lock, so that a child gets its errors from MPI and
//! no dead-lock.
//!
//! # The program's functions
//!
//! A reduction with an operation of the program's own is left to the rank's next call, as the function need not bear being run
//! beside the program ([`Engine::leave_to_rank`]); unless the program vouches for it by the info key `yamabiko_op_async_safe` of the
//! communicator. Nothing else that is the program's runs in a progress pass. The thread takes no signals.

use std::cell::{Cell, RefCell};
use std::thread::{JoinHandle, park};

use cad::NodeId;
use cad_run::Choice;
use mtmi::{Sleeper, Transport};
use sys::lock::thread_pointer;
use sys::thread::{Around, around_forks, spawn};
use types::{Handle, Result};

use crate::comm::counted;
use crate::state::{Engine, lock};
use crate::wait::Asleep;
use crate::world::startup_fault;

/// The name that the system knows the thread by.
const NAME: &str = "yamabiko";

/// What the engine has of the progress thread.
#[derive(Default)]
pub(crate) struct ProgressThread {
    /// Whether collectives are left to it.
    on: Cell<bool>,
    thread: RefCell<Option<JoinHandle<()>>>,
    /// Whether the system gives no thread.
    refused: Cell<bool>,
    /// What tells the thread from others, once it runs.
    pointer: Cell<usize>,
    /// Collectives under way that are left to it.
    under_way: Cell<u32>,
    /// Waits of the program's threads that have lasted for a while.
    waits: Cell<u32>,
    /// Whether it sleeps where ranks do; else it runs, or is parked.
    asleep: Cell<bool>,
    ends: Cell<bool>,
    /// Reductions that it has left to the rank.
    left: RefCell<Vec<(Handle, NodeId)>>,
    /// Collectives that were left to it,
    taken: Cell<u64>,
    /// those of them that ended there,
    ended: Cell<u64>,
    /// and those that a call of the program brought to their end.
    ended_in_calls: Cell<u64>,
    /// Non-blocking and persistent collectives that were over when their call returned.
    at_once: Cell<u64>,
}

impl ProgressThread {
    /// Whether collectives are left to it.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.on.get()
    }

    /// Whether the caller is that thread.
    fn is_me(&self) -> bool {
        self.pointer.get() == thread_pointer()
    }

    /// Whether the caller, a thread of the program, would find reductions to do.
    pub(crate) fn has_left(&self) -> bool {
        !self.left.borrow().is_empty() && !self.is_me()
    }

    /// Whether it should make progress.
    fn is_wanted(&self) -> bool {
        self.under_way.get() > 0 && self.waits.get() == 0
    }

    /// A collective that was left to it is over.
    pub(crate) fn over(&self) {
        self.under_way.set(self.under_way.get() - 1);
        let ended = match self.is_me() {
            true => &self.ended,
            false => &self.ended_in_calls,
        };
        ended.set(ended.get() + 1);
    }

    /// Collectives that ended there.
    pub(crate) fn ended(&self) -> u64 {
        self.ended.get()
    }

    /// Collectives that ended in calls of the program although there is a thread.
    pub(crate) fn in_calls(&self) -> u64 {
        self.at_once.get() + self.ended_in_calls.get()
    }
}

/// What the thread does.
fn run() {
    let inside = lock().enter();
    let e = &*inside;
    let own = &e.progress_thread;
    own.pointer.set(thread_pointer());
    while !own.ends.get() {
        if !own.is_wanted() {
            lock().unlocked(park);
        } else if e.progress() {
            lock().relax();
        } else {
            e.sleep_as_thread();
        }
    }
}

impl Engine {
    /// Has collectives be left to a thread, if the environment asks for it. Before the level of threads is set.
    pub(crate) fn choose_progress_thread(&self, size: u32) -> Result<()> {
        let choice = Choice::from_environment().map_err(startup_fault)?;
        if choice == Choice::Thread && size > 1 {
            self.progress_thread.on.set(true);
            self.beside.set(true);
        }
        Ok(())
    }

    /// Counts a collective that was started in a call, and leaves it to the thread if it is still under way.
    pub(crate) fn leave_to_thread(&self, handle: Handle) {
        let own = &self.progress_thread;
        if !own.is_on() {
            return self.kernel.count_in_calls();
        }
        if own.refused.get() || !self.mark_left(handle) {
            return own.at_once.set(own.at_once.get() + 1);
        }
        own.taken.set(own.taken.get() + 1);
        own.under_way.set(own.under_way.get() + 1);
        if own.thread.borrow().is_none() {
            self.start_progress_thread();
        } else {
            self.rouse();
        }
    }

    fn start_progress_thread(&self) {
        let around = Around {
            before: || lock().hold(),
            in_parent: || lock().let_go(),
            in_child: || lock().forget_others(),
        };
        match around_forks(around).and_then(|()| spawn(NAME, run)) {
            Ok(thread) => drop(self.progress_thread.thread.replace(Some(thread))),
            Err(why) => {
                self.progress_thread.refused.set(true);
                self.progress_thread.taken.set(0);
                let variable = Choice::VARIABLE;
                sys::say::line(&format!(
                    "yamabiko: {variable}=thread has no effect: the system gives no thread: {why}"
                ));
            }
        }
    }

    /// Ends the thread, and says what it did, if the environment asks for it. In a program that is right nothing is under way any
    /// more.
    pub(crate) fn stop_progress_thread(&self, rank: u32) {
        let own = &self.progress_thread;
        if !own.is_on() {
            return;
        }
        own.ends.set(true);
        if let Some(thread) = own.thread.take() {
            thread.thread().unpark();
            self.transport(|m| m.sleeper()).wake();
            // It fails if the thread panicked, which has been said.
            let _ = lock().unlocked(|| thread.join());
            // A later thread may have the same.
            own.pointer.set(0);
        }
        if std::env::var_os(Choice::REPORT).is_none_or(|v| v.is_empty()) {
            return;
        }
        let taken = counted(own.taken.get(), "collective");
        let (ended, in_calls) = (own.ended.get(), own.at_once.get());
        sys::say::line(&format!(
            "yamabiko: rank {rank}: left to a thread: {taken}, {ended} of which ended there; at once in calls: {in_calls}"
        ));
    }

    /// The thread has nothing to do until something comes.
    fn sleep_as_thread(&self) {
        let own = &self.progress_thread;
        let deadline = self.latest_wake(None);
        let sleeper = self.transport(|m| m.sleeper());
        let armed = sleeper.arm();
        if self.transport(|m| m.ready() || self.look_beside(m)) {
            drop(armed);
            // As a rank that waits does, whose other threads sleep.
            return self.relax();
        }
        own.asleep.set(true);
        lock().unlocked(|| Asleep::sleep(armed, deadline));
        own.asleep.set(false);
        if own.waits.get() > 0 {
            // What woke this thread may have been for one that sleeps in the same place, and is not told twice.
            sleeper.wake();
        }
    }

    /// Has the thread look, if there may be work that nothing rings for. Called by threads of the program that did something.
    pub(crate) fn rouse(&self) {
        let own = &self.progress_thread;
        if !own.is_wanted() {
            return;
        }
        if !own.asleep.get() {
            if let Some(thread) = &*own.thread.borrow() {
                thread.thread().unpark();
            }
        } else if self.transport(|m| m.ready()) {
            self.transport(|m| m.sleeper()).wake();
        }
    }

    /// What is done in a progress pass: the reductions that the thread has left to its rank, if the caller is not the thread; if something
    /// `moved` there, it may have to look. Says whether anything moved.
    pub(crate) fn progress_beside_thread(&self, moved: bool) -> bool {
        let own = &self.progress_thread;
        if own.is_me() {
            return moved;
        }
        // Taken out: the program's function may call MPI and come here again.
        let left = own.left.take();
        for &(handle, node) in &left {
            self.run_left(handle, node);
        }
        let moved = moved || !left.is_empty();
        if moved && own.asleep.get() {
            self.rouse();
        }
        moved
    }

    /// Leaves a reduction to the rank, if the caller is the thread and must not do it; whether it has.
    pub(crate) fn leave_to_rank(&self, handle: Handle, node: NodeId, is_safe: bool) -> bool {
        let own = &self.progress_thread;
        let leaves = !is_safe && own.is_me();
        if leaves {
            own.left.borrow_mut().push((handle, node));
        }
        leaves
    }

    /// A thread of the program has waited for a while: it makes progress for all.
    pub(crate) fn begin_wait(&self) {
        let own = &self.progress_thread;
        own.waits.set(own.waits.get() + 1);
    }

    /// Such a wait is over.
    pub(crate) fn end_wait(&self) {
        let own = &self.progress_thread;
        own.waits.set(own.waits.get() - 1);
        self.rouse();
    }
}
