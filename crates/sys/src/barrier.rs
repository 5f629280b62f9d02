//! Barriers that only one of two sides pays for: [`everywhere`] makes every running thread of every process that has
//! [registered](can) execute a full one, so that the other side needs none.

use std::sync::OnceLock;

use rustix::thread::{MembarrierCommand, membarrier};

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
