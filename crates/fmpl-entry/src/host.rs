//! The engine as FMPL's host.

use std::time::Instant;

use engine::{Engine, Fabric, Guard, Phase, enter};
use fmpl::{Core, Host, Waiting};
use fmpl_table::code;
use types::consts;

use crate::Abi;
use crate::process::{Process, process};

/// The engine, entered for a call of FMPL that needs its state.
pub struct Entered {
    guard: Guard,
    process: &'static Process,
}

impl Entered {
    /// Enters; refused where FMPL has not been started, or has ended.
    #[inline]
    pub fn new<A: Abi>() -> Result<Entered, i32> {
        let guard = enter(A::HOOKS);
        let process = process(&guard);
        match guard.is_running() && process.is_joined() {
            true => Ok(Entered { guard, process }),
            false => Err(not_ready(&guard)),
        }
    }

    /// The same, by a call that has entered.
    pub fn of(guard: Guard) -> Entered {
        let process = process(&guard);
        Entered { guard, process }
    }

    /// The engine.
    pub fn engine(&self) -> &Engine {
        &self.guard
    }

    /// FMPL's state.
    pub fn process(&self) -> &'static Process {
        self.process
    }
}

#[cold]
fn not_ready(engine: &Engine) -> i32 {
    match engine.phase() {
        Phase::Finalized => code::ERR_FINALIZED,
        Phase::Before | Phase::Running => code::ERR_NOT_INITIALISED,
    }
}

/// What a wait is for, as the engine reports it.
fn report(what: Waiting) -> engine::Waiting {
    let known = |v: i32| if v < 0 { consts::UNDEFINED } else { v };
    engine::Waiting {
        peer: known(what.peer),
        tag: known(what.index),
        bytes: what.bytes,
        ..engine::Waiting::new(what.call, 0)
    }
}

impl Host for Entered {
    type Below = Fabric;

    #[inline]
    fn with<R>(&self, f: impl FnOnce(&mut Core, &mut Fabric) -> R) -> R {
        self.process
            .core(|core| self.guard.fabric(|below| f(core, below)))
    }

    fn is_threaded(&self) -> bool {
        self.guard.is_called_by_threads()
    }

    fn progress(&self) {
        self.guard.make_progress();
    }

    #[inline]
    fn wait<R>(
        &self,
        what: Waiting,
        deadline: Option<Instant>,
        mut look: impl FnMut(&mut Core, &mut Fabric) -> Option<R>,
    ) -> Option<R> {
        self.guard.wait_beside(
            || report(what),
            deadline,
            |below| self.process.core(|core| look(core, below)),
        )
    }

    fn wait_on<R>(
        &self,
        what: Waiting,
        deadline: Option<Instant>,
        mut look: impl FnMut(&mut Core, &mut Fabric) -> Option<R>,
    ) -> Option<R> {
        self.guard.wait_on(
            || report(what),
            deadline,
            |below| self.process.core(|core| look(core, below)),
        )
    }
}
