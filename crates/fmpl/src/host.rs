//! What calls that wait need of whoever runs them.

use std::time::Instant;

use mtmi::slot::Slots;
use mtmi::{Boards, Transport};

use crate::core::Core;

/// What carries FMPL's messages.
pub trait Below: Transport + Slots + Boards {}
impl<T: Transport + Slots + Boards> Below for T {}

/// What is waited for, as a hang report shows it.
#[derive(Clone, Copy, Debug)]
pub struct Waiting {
    /// The call.
    pub call: &'static str,
    /// World rank of the peer, or -1.
    pub peer: i32,
    /// The index, or -1.
    pub index: i32,
    /// Bytes of the message.
    pub bytes: u64,
}

/// Lends the core and the transport, and waits.
///
/// Neither is borrowed while `wait` is between two looks, so other threads, MPI's own completions and the
/// program's functions may use them then.
pub trait Host {
    /// The transport.
    type Below: Below;

    /// Uses both.
    fn with<R>(&self, f: impl FnOnce(&mut Core, &mut Self::Below) -> R) -> R;

    /// Whether other threads of the program may call, too.
    fn is_threaded(&self) -> bool {
        false
    }

    /// Makes progress for everybody once.
    fn progress(&self);

    /// Makes progress for everybody until `look` finds something or the deadline passes.
    fn wait<R>(
        &self,
        what: Waiting,
        deadline: Option<Instant>,
        look: impl FnMut(&mut Core, &mut Self::Below) -> Option<R>,
    ) -> Option<R>;

    /// As `wait`, for a caller that has looked many times already.
    fn wait_on<R>(
        &self,
        what: Waiting,
        deadline: Option<Instant>,
        look: impl FnMut(&mut Core, &mut Self::Below) -> Option<R>,
    ) -> Option<R> {
        self.wait(what, deadline, look)
    }

    /// As `wait`, for ever.
    fn wait_for<R>(
        &self,
        what: Waiting,
        mut look: impl FnMut(&mut Core, &mut Self::Below) -> Option<R>,
    ) -> R {
        loop {
            if let Some(found) = self.wait(what, None, &mut look) {
                return found;
            }
        }
    }
}
