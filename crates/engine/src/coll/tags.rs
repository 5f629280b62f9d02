//! The tags of a collective's messages: which collective of its communicator it is, and which of its messages.

use crate::comm::Comm;
use crate::numbers::{Lease, NUMBERS};

/// Bits of a message tag that the graph uses; the collective's number comes above them.
const NODE_TAG_BITS: u32 = cad::MAX_TAG.count_ones();
/// Tells the numbers of persistent collectives from the others'.
const PERSISTENT_TAG: u32 = NUMBERS << NODE_TAG_BITS;
/// Set in tags that stand alone, without a number.
const LONE_TAG: i32 = i32::MIN;
const _: () = assert!(PERSISTENT_TAG == 1 << 30);

/// What tells a collective's messages from those of others on its communicator.
pub(crate) enum Tags {
    /// The communicator's next number.
    Next,
    /// A persistent collective's number.
    Kept(Lease),
    /// This tag, chosen by the program, for all messages: only part of the communicator takes part.
    Lone(i32),
    /// The number that a collective has begun with, as its messages' tag and mask.
    Begun(i32, i32),
}

impl Tags {
    /// The tag of a collective's messages, and which bits of a node's tag go into it.
    pub fn resolve(&self, comm: &Comm) -> (i32, i32) {
        let above = |number: u32| ((number % NUMBERS) << NODE_TAG_BITS) as i32;
        match self {
            Tags::Next => (above(comm.next_collective()), cad::MAX_TAG as i32),
            Tags::Kept(lease) => (
                PERSISTENT_TAG as i32 | above(lease.number()),
                cad::MAX_TAG as i32,
            ),
            Tags::Lone(tag) => (tag | LONE_TAG, 0),
            Tags::Begun(tag, mask) => (*tag, *mask),
        }
    }
}
