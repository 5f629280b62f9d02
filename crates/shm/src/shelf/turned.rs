//! What one reader has read of the places of one owner.
//!
//! A bit for each place, which the reader turns over when it has read a message there. The owner turns over its own when it tells of one: where both are the same, the place
//! is not to be read by this reader any more.

#[cfg(not(all(test, loom)))]
use std::sync::atomic::AtomicU32;

#[cfg(all(test, loom))]
use loom::sync::atomic::AtomicU32;

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// The reader's bits. Zero in fresh memory.
#[repr(transparent)]
pub(crate) struct Turned(AtomicU32);

impl Turned {
    #[cfg(all(test, loom))]
    pub fn new() -> Turned {
        Turned(AtomicU32::new(0))
    }

    /// The reader, who alone writes here, has read a place.
    pub fn turn(&self, place: u32) {
        let bits = self.0.load(Relaxed) ^ 1 << place;
        self.0.store(bits, Release);
    }

    /// Whether it has, according to the bits of the owner.
    pub fn has_read(&self, place: u32, owners: u32) -> bool {
        (self.0.load(Acquire) ^ owners) & 1 << place == 0
    }
}
