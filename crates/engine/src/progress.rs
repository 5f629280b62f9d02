//! Progress: letting MTMI move data and recording what completed.

use mtmi::{Completion, Cookie, Sleeper, Transport};
use types::{Handle, Result};

use crate::beside::BINDS;
use crate::extension::EXTENSION_COOKIE;
use crate::request::{Kind, cookie};
use crate::state::{Engine, lock};
use crate::wait::Waiting;
use crate::world::Fabric;

/// [Cycles](sys::clock::cycles) for which a test goes on while data move, a tenth of a millisecond; and passes, where they are short. Whoever sends goes on
/// meanwhile, so what comes through a pipe may be much more than it holds, and a program that computes between its tests would wait for each such piece
/// in turn. (A broadcast of 4 MiB along three ranks, of which the middle one tests each 16 us, takes 210 us in place of 640.) A last pass may take longer:
/// as long as what lies in all peers' pipes.
const GOES_ON: u64 = 250_000;
/// See [`GOES_ON`].
const PASSES: u32 = 16;

impl Engine {
    /// Uses the transport. Its borrow ends before anything else of the engine runs.
    #[inline]
    pub(crate) fn transport<R>(&self, f: impl FnOnce(&mut Fabric) -> R) -> R {
        let mut world = self.world.borrow_mut();
        f(&mut world.as_mut().expect("MPI is running").fabric)
    }

    /// Moves what can move and records what completed. Says whether anything moved.
    pub(crate) fn progress(&self) -> bool {
        let mut done = self.completions.borrow_mut();
        let mut moved = self.transport(|m| m.progress(&mut done));
        let any = !done.is_empty();
        drop(done);
        if any {
            self.record_completions();
        }
        if self.beside.get() {
            moved = self.progress_beside(moved);
        }
        if moved {
            self.notice_failures();
            self.wake_waiters();
        }
        if self.failures.told.get() {
            self.hear_of_deaths();
        }
        moved
    }

    fn record_completions(&self) {
        // Taken out while it is used: a collective's completion may run the program's reduction
        // function, which may call MPI and make progress.
        let mut done: Vec<Completion> = self.completions.take();
        for completion in done.drain(..) {
            if completion.cookie.0 & EXTENSION_COOKIE == 0 {
                self.on_completion(&completion);
            } else if let Some(extension) = self.extension.get() {
                extension.completed(&completion);
            }
        }
        self.completions.replace(done);
    }

    /// What a test does that has found nothing over: moves what can move, as long as something does. Other threads get in between.
    pub(crate) fn go_on(&self, over: impl Fn() -> bool) {
        if !self.progress() || over() {
            return;
        }
        let began = sys::clock::cycles();
        for _ in 1..PASSES {
            lock().relax();
            let late = sys::clock::cycles().wrapping_sub(began) > GOES_ON;
            if late || over() || !self.progress() {
                break;
            }
        }
    }

    /// Something may have completed: this process's other threads that wait in MPI look again.
    #[inline]
    pub(crate) fn wake_waiters(&self) {
        self.changes.set(self.changes.get() + 1);
        if self.sleeping.get() > 0 {
            self.wake_sleepers();
        }
    }

    fn wake_sleepers(&self) {
        if self.sleeping.get() & !BINDS > 0 {
            self.transport(|m| m.sleeper()).wake();
        }
    }

    /// Cancels part 0 of a request in the way `how`; its completion tells whether that worked.
    pub(crate) fn cancel_part(
        &self,
        request: Handle,
        how: impl FnOnce(&mut Fabric, Cookie) -> bool,
    ) {
        self.transport(|m| how(m, cookie(request, 0)));
        self.progress();
    }

    /// A handle of the pre-completed request that finished sends share, and collectives to which this rank has [given](crate::coll) all.
    pub(crate) fn done_request(&self) -> Result<Handle> {
        if let Some(handle) = self.shared_done.get() {
            return Ok(handle);
        }
        let (handle, request) = self.new_request(Kind::Send, 0, None)?;
        request.permanent.set(true);
        self.shared_done.set(Some(handle));
        Ok(handle)
    }

    /// Waits until nothing this process sent is still in its hands.
    pub(crate) fn drain(&self, call: &'static str) {
        let what = move || Waiting::new(call, 0);
        self.wait_until(what, |e| {
            e.is_flushed_beside() && e.transport(|m| m.flushed())
        });
    }
}
