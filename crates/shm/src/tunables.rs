//! The tunables of this fabric, for `yamabiko info`. What they mean in full stands beside the
//! constants.

use types::Tunable;

use crate::{
    chunking, direct, lane, lines, mapped, ring, shelf, slots, split, trial, turns, waiting, wire,
};

/// The tunables of the fabric, on this machine.
pub fn tunables() -> [Tunable; 20] {
    [
        tunable(
            "shm.ring.cells",
            ring::CELLS as u64,
            "cache lines",
            "one page for each direction of a pair, and a line beside it",
        ),
        tunable(
            "shm.ring.lines",
            u64::from(lines::LINES),
            "cache lines",
            "measured: two and four times as many make no stream of messages faster",
        ),
        tunable(
            "shm.inline_max",
            wire::INLINE as u64,
            "bytes",
            "a cache line less its header",
        ),
        tunable(
            "shm.eager_max",
            wire::EAGER as u64,
            "bytes",
            "measured: through the pipe longer ones take less time",
        ),
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
            "shm.pipe.common_bytes",
            lane::COMMON_PIPE as u64,
            "bytes",
            "measured, on an EPYC: of each of two pipes that both directions share; more than most messages, so that their lines are the peer's",
        ),
        tunable(
            "shm.pipe.chunk_min",
            chunking::here().min,
            "bytes",
            "measured on each kind of processor; messages that fit into a pipe go in several chunks down to this",
        ),
        tunable(
            "shm.pipe.chunk_behind",
            chunking::here().behind,
            "bytes",
            "measured on one kind of processor; messages that begin behind others are cut no shorter",
        ),
        tunable(
            "shm.shelf.longest",
            shelf::LONGEST,
            "bytes",
            "measured: what several ranks get at once lies in shared memory once up to here; longer messages reach them no sooner than by pipes and the kernel's copies",
        ),
        tunable(
            "shm.mapped.sent_max",
            mapped::LONGEST_SENT,
            "bytes",
            "a pipe, as what fits completes without its receiver",
        ),
        tunable(
            "shm.direct_min",
            direct::SHORTEST,
            "bytes",
            "measured, on no processor less; from here on the receiver measures whether reading the sender's memory is faster",
        ),
        tunable(
            "shm.direct.kept_after",
            mapped::KEPT_AFTER,
            "cycles",
            "chosen: more than a program takes from one receive to the next, and no more than a copy of what is kept takes",
        ),
        tunable(
            "shm.direct.chunk_max",
            direct::CHUNK,
            "bytes",
            "measured: 10 to 20 microseconds, of which one is the system call's",
        ),
        tunable(
            "shm.direct.turns_min",
            turns::TURNS_FROM,
            "bytes",
            "chosen: where ranks share processors, messages of one sender are read by one rank at a time from here on, as two at once were measured to take twice as long",
        ),
        tunable(
            "shm.direct.samples",
            trial::SAMPLES as u64,
            "messages",
            "the fastest of so many each way decides",
        ),
        tunable(
            "shm.direct.settled",
            trial::SETTLED as u64,
            "messages",
            "so that measuring costs less than a hundredth",
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
        tunable(
            "shm.linger_shared",
            waiting::LINGER_SHARED.as_micros() as u64,
            "us",
            "measured: where ranks share processors, a rank that waits gives way for so long before it sleeps",
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
