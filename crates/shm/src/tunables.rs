//! The tunables of this fabric, for `yamabiko info`. What they mean in full stands beside the
//! constants.

use types::Tunable;

use crate::{chunking, lane, mapped, ring, slots, split, wire};

/// The tunables of the fabric, on this machine.
pub fn tunables() -> [Tunable; 9] {
    [
        tunable(
            "shm.ring.cells",
            ring::CELLS as u64,
            "cache lines",
            "one page for each direction of a pair",
        ),
        tunable(
            "shm.inline_max",
            wire::INLINE as u64,
            "bytes",
            "a cache line less its header",
        ),
        tunable("shm.eager_max", wire::EAGER as u64, "bytes", "half a ring"),
        tunable(
            "shm.pipe.chunk",
            lane::CHUNK as u64,
            "bytes",
            "measured: both cores copy inside their caches",
        ),
        tunable(
            "shm.pipe.bytes",
            lane::PIPE as u64,
            "bytes",
            "measured: more than what a core has just read",
        ),
        tunable(
            "shm.pipe.chunk_min",
            chunking::here().min,
            "bytes",
            "measured on each kind of processor; messages that fit into a pipe go in several chunks down to this",
        ),
        tunable(
            "shm.mapped.sent_max",
            mapped::LONGEST_SENT,
            "bytes",
            "a pipe, as what fits completes without its receiver",
        ),
        tunable(
            "shm.slots.inline_max",
            slots::INLINE as u64,
            "bytes",
            "a cache line less a header and the words of a landing",
        ),
        tunable(
            "shm.split_min",
            split::SPLIT,
            "bytes",
            "measured: from here on both sides copying between mapped buffers is faster",
        ),
    ]
}

const fn tunable(
    name: &'static str,
    value: u64,
    unit: &'static str,
    source: &'static str,
) -> Tunable {
    Tunable {
        name,
        value,
        unit,
        source,
    }
}
