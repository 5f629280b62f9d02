//! FMPL's state of this process, which is the engine's extension.

use std::cell::{Cell, RefCell};

use engine::{Engine, Extension, Fabric};
use fmpl::Core;
use mtmi::{Completion, Endpoint};

use crate::short;

/// Where FMPL stands for the program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage {
    /// `fmpl_init` has not been called.
    Before,
    /// Between it and `fmpl_finalize`.
    Open,
    /// After an `fmpl_init` that failed: nothing is left but to finalize.
    Refused,
    /// After `fmpl_finalize`.
    Over,
}

/// The state.
pub struct Process {
    core: RefCell<Option<Core>>,
    /// Where FMPL stands for the program.
    pub stage: Cell<Stage>,
    /// Calls of `attach` that no `detach` has taken back.
    pub attached: Cell<u32>,
}

struct Shared(Process);

// SAFETY: every use enters the engine first (`process` asks for its guard's engine), whose lock lets one thread in at a
// time.
unsafe impl Sync for Shared {}

static PROCESS: Shared = Shared(Process {
    core: RefCell::new(None),
    stage: Cell::new(Stage::Before),
    attached: Cell::new(0),
});

/// The state, for whoever has entered the engine.
#[inline]
pub fn process(_entered: &Engine) -> &'static Process {
    &PROCESS.0
}

impl Process {
    /// Makes the state and tells the engine of it, unless that was done.
    pub fn join(&'static self, engine: &Engine) {
        if self.core.borrow().is_some() {
            return;
        }
        let mut core = engine.fabric(|below| Core::new(below));
        for (peer, left) in engine.gone() {
            core.peer_failed(peer.0, left);
        }
        self.core.replace(Some(core));
        engine.set_extension(self);
    }

    /// Whether there is a state.
    #[inline]
    pub fn is_joined(&self) -> bool {
        self.core.borrow().is_some()
    }

    /// Uses the state.
    ///
    /// # Panics
    /// When there is none: callers ask `is_joined` first.
    #[inline]
    pub fn core<R>(&self, f: impl FnOnce(&mut Core) -> R) -> R {
        let mut core = self.core.borrow_mut();
        f(core.as_mut().expect("FMPL has been joined"))
    }
}

impl Extension for Process {
    #[inline]
    fn progress(&self, fabric: &mut Fabric) -> bool {
        match &mut *self.core.borrow_mut() {
            Some(core) => core.progress(fabric),
            None => false,
        }
    }

    fn is_waiting(&self) -> bool {
        self.core.borrow().as_ref().is_some_and(Core::is_waiting)
    }

    fn completed(&self, completion: &Completion) {
        if let Some(core) = &mut *self.core.borrow_mut() {
            core.completed(completion);
        }
    }

    fn flushed(&self) -> bool {
        !self.core.borrow().as_ref().is_some_and(Core::has_to_send)
    }

    fn peer_failed(&self, peer: Endpoint, left: bool) {
        short::shut();
        if let Some(core) = &mut *self.core.borrow_mut() {
            core.peer_failed(peer.0, left);
        }
    }

    fn shut(&self) {
        short::shut();
    }

    fn ended(&self) {
        short::shut();
        self.core.replace(None);
        self.stage.set(Stage::Over);
    }
}
