//! What is counted in this process, for tools: the performance variables of MPI_T.
//!
//! Counters say of each executor ([`cad_run::Choice`]) how many non-blocking and persistent collectives it has run here, and of the ring who
//! reduced, so that a person, or a test, can tell where they ran. One is a time: when the kernel ended the last collective in its receive path, which
//! no rank that computes could tell. All are monotonous, begin with `MPI_Init` and are never reset. `api::tool` names them to programs.

use types::consts;

use crate::state::Engine;

/// A performance variable.
pub(crate) struct Counter {
    /// Its name.
    pub name: &'static str,
    /// What it counts, or else is.
    pub text: &'static str,
    /// Its class, as MPI_T has it.
    pub class: i32,
    read: fn(&Engine) -> u64,
}

impl Counter {
    /// Its value.
    pub(crate) fn value(&self, e: &Engine) -> u64 {
        (self.read)(e)
    }
}

/// All of them.
pub(crate) const COUNTERS: [Counter; 8] = [
    Counter {
        name: "yamabiko_collectives_inline",
        text: "non-blocking and persistent collectives that this process ran in its MPI calls",
        class: consts::T_PVAR_CLASS_COUNTER,
        read: |e| e.kernel.in_calls() + e.softirq.returned() + e.progress_thread.in_calls(),
    },
    Counter {
        name: "yamabiko_collectives_ring",
        text: "those that the kernel ran for it (io_uring, YAMABIKO_CAD=ring or auto)",
        class: consts::T_PVAR_CLASS_COUNTER,
        read: |e| e.kernel.done(),
    },
    Counter {
        name: "yamabiko_collectives_softirq",
        text: "those that ran in the kernel's receive path (YAMABIKO_CAD=softirq or auto)",
        class: consts::T_PVAR_CLASS_COUNTER,
        read: |e| e.softirq.done(),
    },
    Counter {
        name: "yamabiko_collectives_thread",
        text: "those that a thread of the library brought to their end (YAMABIKO_CAD=thread)",
        class: consts::T_PVAR_CLASS_COUNTER,
        read: |e| e.progress_thread.ended(),
    },
    Counter {
        name: "yamabiko_ring_by_program",
        text: "reductions that kaccd's program did in chains of the ring",
        class: consts::T_PVAR_CLASS_COUNTER,
        read: |e| e.ring_counts().by_program,
    },
    Counter {
        name: "yamabiko_ring_in_signals",
        text: "reductions of the ring that the handler of a signal did",
        class: consts::T_PVAR_CLASS_COUNTER,
        read: |e| e.ring_counts().in_signals,
    },
    Counter {
        name: "yamabiko_collectives_copied",
        text: "blocking collectives whose data the kernel copied from one process's own memory to another's",
        class: consts::T_PVAR_CLASS_COUNTER,
        read: |e| e.places.copied(),
    },
    Counter {
        name: "yamabiko_softirq_ended",
        text: "when the kernel had the result of the collective that this process saw end there last (YAMABIKO_CAD=softirq): nanoseconds of \
               CLOCK_MONOTONIC; 0 if none has",
        class: consts::T_PVAR_CLASS_GENERIC,
        read: |e| e.softirq.ended(),
    },
];
