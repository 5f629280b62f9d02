//! The thresholds between algorithms, for `yamabiko info`. What they mean in full stands beside the
//! constants.

use types::Tunable;

use crate::{allgather, allreduce, alltoall, bcast, gather, reduce, reduce_scatter};

const PAPER: &str = "Thakur, Rabenseifner and Gropp, 2005";

/// The tunables of this crate that choose an algorithm.
pub const TUNABLES: [Tunable; 11] = [
    bytes(
        "cad.bcast.whole_message_max",
        bcast::WHOLE_MESSAGE_MAX,
        PAPER,
    ),
    bytes(
        "cad.bcast.segment",
        bcast::SEGMENT,
        "stays in a level-2 cache between receive and send",
    ),
    bytes("cad.reduce.binomial_max", reduce::BINOMIAL_MAX, PAPER),
    bytes("cad.allreduce.doubling_max", allreduce::DOUBLING_MAX, PAPER),
    bytes(
        "cad.allreduce.ring_chunk_min",
        allreduce::RING_CHUNK_MIN,
        "latency of a ring's steps against traffic of folding",
    ),
    bytes(
        "cad.allreduce.ring_always",
        allreduce::RING_ALWAYS,
        "a second vector no longer fits a cache",
    ),
    bytes(
        "cad.reduce_scatter.pairwise_min",
        reduce_scatter::PAIRWISE_MIN,
        PAPER,
    ),
    bytes("cad.allgather.bruck_max", allgather::BRUCK_MAX, PAPER),
    bytes("cad.allgather.doubling_max", allgather::DOUBLING_MAX, PAPER),
    bytes("cad.alltoall.bruck_max", alltoall::BRUCK_MAX, PAPER),
    bytes(
        "cad.gather.binomial_max",
        gather::BINOMIAL_MAX,
        "size of an eager message in shared memory",
    ),
];

const fn bytes(name: &'static str, value: u64, source: &'static str) -> Tunable {
    Tunable {
        name,
        value,
        unit: "bytes",
        source,
    }
}
