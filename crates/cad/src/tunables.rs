//! The thresholds between algorithms, for `yamabiko info`. What they mean in full stands beside the
//! constants.

use types::Tunable;

use crate::{
    allgather, allreduce, alltoall, bcast, chosen, gather, parts, reduce, reduce_scatter, shared,
    straight, together,
};

const PAPER: &str = "Thakur, Rabenseifner and Gropp, 2005";

/// The tunables of this crate that choose an algorithm.
pub const TUNABLES: [Tunable; 42] = [
    bytes(
        "cad.bcast.whole_message_max",
        bcast::WHOLE_MESSAGE_MAX,
        PAPER,
    ),
    bytes(
        "cad.bcast.flat_min",
        bcast::FLAT_MIN,
        "measured with three to seven ranks of which one computes, or none",
    ),
    bytes(
        "cad.bcast.shared_max",
        bcast::SHARED_MAX,
        "measured with three to eight ranks of which one computes, or none",
    ),
    bytes(
        "cad.bcast.segment",
        bcast::SEGMENT,
        "stays in a level-2 cache between receive and send",
    ),
    bytes(
        "cad.bcast.apart_segment_min",
        bcast::APART_SEGMENT_MIN,
        "measured over links of 1 Gbit/s",
    ),
    bytes(
        "cad.bcast.waiting_segment_min",
        bcast::WAITING_SEGMENT_MIN,
        "measured between three hosts at 1 Gbit/s and at memory's speed",
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
        "cad.allreduce.pair_segment",
        allreduce::PAIR_SEGMENT,
        "measured with two ranks that compute between tests",
    ),
    bytes(
        "cad.allreduce.halves_min",
        allreduce::HALVES_MIN,
        "measured with two ranks that compute between tests, or wait",
    ),
    bytes(
        "cad.reduce_scatter.pairwise_min",
        reduce_scatter::PAIRWISE_MIN,
        PAPER,
    ),
    bytes(
        "cad.reduce_scatter.parts_above",
        reduce_scatter::PARTS_ABOVE,
        "measured with three to eight ranks that wait",
    ),
    bytes(
        "cad.allreduce.parts_min",
        allreduce::PARTS_MIN,
        "measured with three to eight ranks that wait",
    ),
    bytes(
        "cad.parts.waited_min",
        parts::WAITED_MIN,
        "measured with three to eight ranks that wait",
    ),
    bytes(
        "cad.bcast.shared_waited_min",
        bcast::SHARED_WAITED_MIN,
        "measured with three to eight ranks that wait",
    ),
    bytes(
        "cad.parts.max",
        parts::MAX,
        "chosen: the longest that was measured",
    ),
    bytes(
        "cad.shared.segment",
        shared::SEGMENT,
        "measured with three to eight ranks of which one computes, or none",
    ),
    bytes(
        "cad.shared.beside_loans",
        shared::BESIDE_LOANS,
        "measured with three ranks of which one computes, or none",
    ),
    bytes("cad.allgather.bruck_max", allgather::BRUCK_MAX, PAPER),
    bytes("cad.allgather.doubling_max", allgather::DOUBLING_MAX, PAPER),
    bytes("cad.alltoall.bruck_max", alltoall::BRUCK_MAX, PAPER),
    Tunable {
        name: "cad.straight.ranks_max",
        value: straight::RANKS_MAX as u64,
        unit: "ranks",
        source: "measured with three to eight ranks on two processors that wait at once, or compute",
    },
    bytes(
        "cad.straight.combined_max",
        straight::COMBINED_MAX,
        "non-blocking allreduces and scans: measured with three to eight ranks on two processors that wait at once",
    ),
    bytes(
        "cad.straight.combined_by_one_max",
        straight::COMBINED_BY_ONE_MAX,
        "non-blocking reduces: measured with three to eight ranks on two processors that wait at once",
    ),
    bytes(
        "cad.straight.lent_min",
        straight::LENT_MIN,
        "non-blocking collectives: measured with three to eight ranks that wait at once, or of which one computes",
    ),
    bytes(
        "cad.gather.binomial_max",
        gather::BINOMIAL_MAX,
        "size of an eager message in shared memory",
    ),
    Tunable {
        name: "cad.together.ranks_max",
        value: together::RANKS_MAX as u64,
        unit: "ranks",
        source: "beyond it a tree is shorter than looking at all",
    },
    bytes(
        "cad.together.chunk",
        together::CHUNK as u64,
        "four stay in a level-2 cache",
    ),
    bytes(
        "cad.together.chunk_min",
        together::CHUNK_MIN,
        "measured with two ranks on processors that share no cache",
    ),
    bytes(
        "cad.together.block_of_two",
        together::BLOCK_OF_TWO,
        "measured with two ranks on processors that share no cache",
    ),
    bytes(
        "cad.together.block_for_one",
        together::BLOCK_FOR_ONE,
        "measured with four ranks on two processors",
    ),
    bytes(
        "cad.together.vector",
        together::VECTOR,
        "measured with four ranks on two processors",
    ),
    bytes(
        "cad.together.pair_min",
        together::PAIR.start,
        "measured with two ranks on processors that share no cache",
    ),
    bytes(
        "cad.together.pair_max",
        together::PAIR.end,
        "measured with two ranks on processors that share no cache",
    ),
    bytes(
        "cad.together.parted",
        together::PARTED as u64,
        "bytes of all ranks that one would combine alone",
    ),
    bytes(
        "cad.chosen.straight_min",
        chosen::STRAIGHT_MIN,
        "to the ring: 1 MiB at 1 Gbit/s adds 4.1 ms to a computation, in calls 7; 256 KiB 1.0 and 0.6",
    ),
    bytes(
        "cad.chosen.relayed_min",
        chosen::RELAYED_MIN,
        "the same, if ranks pass data on: 64 KiB add 0.23 ms, in calls 0.39; 16 KiB as much",
    ),
    Tunable {
        name: "cad.chosen.ring_ranks_max",
        value: chosen::RING_RANKS_MAX as u64,
        unit: "ranks",
        source: "each reads what all have published, once",
    },
    Tunable {
        name: "cad.chosen.comms_max",
        value: chosen::COMMS_MAX as u64,
        unit: "comms",
        source: "of a rank 0 that use executors in the kernel: three descriptors for each peer",
    },
    Tunable {
        name: "cad.chosen.kept_max",
        value: chosen::KEPT_MAX as u64,
        unit: "persistent",
        source: "collectives of each of these: the same",
    },
];

const fn bytes(name: &'static str, value: u64, source: &'static str) -> Tunable {
    Tunable {
        name,
        value,
        unit: "bytes",
        source,
    }
}
