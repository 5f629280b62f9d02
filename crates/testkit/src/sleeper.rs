//! Sleeping until somebody tells the process something.

use std::sync::Arc;
use std::time::Instant;

use crate::world::Shared;

/// What threads of a simulated process sleep on.
#[derive(Clone)]
pub struct Sleeper {
    pub(crate) shared: Arc<Shared>,
    pub(crate) me: u32,
}

/// An announced sleep.
pub struct Armed<'a> {
    sleeper: &'a Sleeper,
    seen: u64,
}

impl mtmi::Sleeper for Sleeper {
    type Armed<'a> = Armed<'a>;

    fn arm(&self) -> Armed<'_> {
        Armed {
            sleeper: self,
            seen: self.shared.lock().ranks[self.me as usize].news,
        }
    }

    fn sleep(armed: Armed<'_>, deadline: Option<Instant>) {
        let sleeper = armed.sleeper;
        sleeper.shared.sleep(sleeper.me, armed.seen, deadline);
    }

    fn wake(&self) {
        let mut state = self.shared.lock();
        self.shared.wake(&mut state, self.me);
    }
}
