//! Barriers that only one of two sides pays for: [`everywhere`] makes every running thread of every process that has
//! [registered](can) execute a full one, [`here`] every one of this process, so that the other side needs none.
//!
//! A program may forbid itself the call after it has registered. Then the other side's stores are given [the time](SEEN_BY_THEN) to be seen.

use std::sync::OnceLock;
use std::time::Duration;

use rustix::thread::{MembarrierCommand, membarrier};

/// Longer than any processor keeps a store to itself, or takes to have it seen.
pub const SEEN_BY_THEN: Duration = Duration::from_millis(10);

static REGISTERED: OnceLock<bool> = OnceLock::new();

/// Whether this process takes part in such barriers; registers it the first time, which may wait for all processors to be
/// scheduled if it has several threads by then.
pub fn can() -> bool {
    *REGISTERED.get_or_init(|| membarrier(MembarrierCommand::RegisterGlobalExpedited).is_ok())
}

/// A full barrier on every running thread of every process that registered. False: there was none, as this process cannot, or was
/// forbidden to since it registered.
pub fn everywhere() -> bool {
    can() && membarrier(MembarrierCommand::GlobalExpedited).is_ok()
}

/// Whether this process can have barriers of its own threads; registers it, which may wait for all processors to be scheduled if it has several
/// threads.
pub fn can_here() -> bool {
    membarrier(MembarrierCommand::RegisterPrivateExpedited).is_ok()
}

/// A full barrier on every running thread of this process. False: there was none. (Unlike the other, the kernel refuses it to who is not registered
/// any more, as after a restart from a checkpoint.)
pub fn here() -> bool {
    membarrier(MembarrierCommand::PrivateExpedited).is_ok()
}
