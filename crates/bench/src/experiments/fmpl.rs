//! The experiments of chapter 6 of the paper on FMPL: O. Tatebe, U. Nagashima, S. Sekiguchi, H. Kitabayashi,
//! Y. Hayashida, Design and implementation of FMPL, a fast message-passing library based on remote memory
//! operations. What the paper prints was measured on a Hitachi SR8000 with up to 16 nodes; MPI is Hitachi's, BLACS-FMPL
//! is BLACS on FMPL, MPIBLACS that of netlib on MPI. Figures that are only drawn are not repeated here.

use super::{BYTES, KI, MI};
use crate::experiment::{
    Axis, Experiment, GIGABYTES, Interface, MICROSECONDS, Panel, Printed, Ranks,
};

/// An array in memory of FMPL's, or in any other.
const MAPPED_OR_HEAP: &[&str] = &["mapped", "heap"];
/// By flags and faces in the memory of the machine, which stand for the paper's hardware; by trees of messages.
const HARDWARE_OR_SOFTWARE: &[&str] = &["hardware", "software"];

/// Numbers of processes, as in the paper's figures.
const PROCESSES: Axis = Axis {
    name: "ranks",
    values: &[2, 3, 4, 6, 8, 12, 16],
    tour: &[2, 4],
    quick: &[2],
    limits: (2, 64),
};

/// Whose kernels take part in collective operations.
const COLLECTIVE: &[(Interface, &str)] = &[
    (Interface::Fmpl, "paper_fmpl.c"),
    (Interface::Mpi, "paper_mpi.c"),
    (Interface::Blacs, "paper_blacs.c"),
];

/// These, and the machine itself.
const WITH_RAW: [(Interface, &str); 4] = [
    COLLECTIVE[0],
    COLLECTIVE[1],
    COLLECTIVE[2],
    (Interface::Raw, "raw_slot.c"),
];

/// A collective operation on a growing number of processes.
const fn by_ranks(
    name: &'static str,
    about: &'static str,
    kernels: &'static [(Interface, &'static str)],
    panels: &'static [Panel],
) -> Experiment {
    Experiment {
        name,
        about,
        kernels,
        axis: PROCESSES,
        ranks: Ranks::Swept,
        calibrated: true,
        panels,
    }
}

/// The panel of such an operation.
const fn operation(name: &'static str, about: &'static str) -> Panel {
    Panel {
        name,
        about,
        others: &[(Interface::Fmpl, HARDWARE_OR_SOFTWARE)],
        ..Panel::PLAIN
    }
}

/// The latency of 8 bytes (6.1). The paper's 4.7 us are a remote write prepared once and started again.
pub const LATENCY: Experiment = Experiment {
    name: "fmpl-latency",
    about: "Time of a short message (6.1): FMPL, BLACS, MPI, and beside them a slot, data and a flag in C",
    kernels: &[
        (Interface::Fmpl, "paper_fmpl.c"),
        (Interface::Mpi, "latency.c"),
        (Interface::Blacs, "paper_blacs.c"),
        (Interface::Raw, "raw_slot.c"),
    ],
    axis: Axis {
        values: &[8],
        tour: &[8],
        quick: &[8],
        // A raw slot has that much.
        limits: (8, 4 * KI),
        ..BYTES
    },
    ranks: Ranks::Exactly(2),
    calibrated: true,
    panels: &[Panel {
        name: "latency",
        about: "one way, receives posted when the message is awaited, or ahead",
        others: &[
            (Interface::Fmpl, &["blocking", "ahead"]),
            (Interface::Raw, &["blocking", "ahead"]),
        ],
        printed: &[
            Printed::new("FMPL", 8, 12.8),
            Printed::new("BLACS-FMPL", 8, 15.7),
            Printed::new("MPI", 8, 20.0),
            Printed::new("MPIBLACS", 8, 34.0),
            Printed::new("a prepared remote write", 8, 4.7),
        ],
        ..Panel::PLAIN
    }],
};

/// Table 1. What can be measured around calls: the paper's beginning (0.5) is in each of them.
pub const PARTS: Experiment = Experiment {
    name: "fmpl-parts",
    about: "Where a message of 8 bytes spends its time (table 1)",
    kernels: &[(Interface::Fmpl, "paper_fmpl.c")],
    axis: BYTES,
    ranks: Ranks::Exactly(2),
    calibrated: true,
    panels: &[
        Panel {
            name: "post",
            about: "fmpl_irecv: the header is sent",
            printed: &[
                Printed::new("receive: beginning", 0, 0.5),
                Printed::new("header sent", 0, 6.1),
            ],
            single: true,
            ..Panel::PLAIN
        },
        Panel {
            name: "send",
            about: "fmpl_send whose header has come: the data are sent",
            printed: &[
                Printed::new("send: beginning", 0, 0.5),
                Printed::new("header received", 0, 5.0),
                Printed::new("data sent", 0, 8.1),
            ],
            single: true,
            ..Panel::PLAIN
        },
        Panel {
            name: "take",
            about: "fmpl_irecv_wait for data that have come",
            printed: &[Printed::new("receive: data received", 0, 5.6)],
            single: true,
            ..Panel::PLAIN
        },
    ],
};

/// Table 2.
pub const DEPTH: Experiment = Experiment {
    name: "fmpl-depth",
    about: "Messages of 4 bytes for many receives that are posted ahead (table 2)",
    kernels: &[
        (Interface::Fmpl, "paper_fmpl.c"),
        (Interface::Mpi, "paper_mpi.c"),
    ],
    axis: Axis {
        name: "receives",
        values: &[1, 600, 5000],
        tour: &[1, 600],
        quick: &[1, 64],
        // One more is needed, and every MPI library has tags up to 32767.
        limits: (1, 32_000),
    },
    ranks: Ranks::Exactly(2),
    calibrated: true,
    panels: &[
        Panel {
            name: "gap",
            about: "posting one of so many receives",
            printed: &[
                Printed::new("FMPL", 600, 7.03),
                Printed::new("MPI", 600, 370.1),
            ],
            ..Panel::PLAIN
        },
        Panel {
            name: "posted",
            about: "one way, so many receives posted on both sides",
            printed: &[
                Printed::new("FMPL", 600, 9.90),
                Printed::new("MPI", 600, 945.8),
            ],
            ..Panel::PLAIN
        },
    ],
};

/// Figure 7. The paper's sizes in MB are powers of two.
pub const BANDWIDTH: Experiment = Experiment {
    name: "fmpl-bandwidth",
    about: "Bandwidth of a ping-pong (figure 7), beside a copy within a process",
    kernels: &[
        (Interface::Fmpl, "paper_fmpl.c"),
        (Interface::Mpi, "bandwidth.c"),
        (Interface::Blacs, "paper_blacs.c"),
        (Interface::Raw, "raw_slot.c"),
    ],
    axis: Axis {
        values: &[
            8,
            128,
            KI,
            4 * KI,
            16 * KI,
            64 * KI,
            256 * KI,
            512 * KI,
            MI,
            4 * MI,
            16 * MI,
        ],
        tour: &[8 * KI, 64 * KI, MI, 16 * MI],
        quick: &[8, MI],
        limits: (8, 256 * MI),
        ..BYTES
    },
    ranks: Ranks::Exactly(2),
    calibrated: true,
    panels: &[Panel {
        name: "ping-pong",
        about: "there and back, one message under way",
        unit: GIGABYTES,
        others: &[
            (Interface::Fmpl, MAPPED_OR_HEAP),
            (Interface::Mpi, &["heap", "alloc_mem"]),
        ],
        printed: &[
            Printed::new("FMPL", 16 * MI, 0.999),
            Printed::new("BLACS-FMPL", 16 * MI, 0.999),
            Printed::new("MPI (rdma)", 16 * MI, 0.997),
            Printed::new("MPI (nordma)", 16 * MI, 0.791),
            Printed::new("MPIBLACS (rdma)", 16 * MI, 0.591),
            Printed::new("MPIBLACS (nordma)", 16 * MI, 0.522),
        ],
        ..Panel::PLAIN
    }],
};

/// Figure 8.
pub const BARRIER: Experiment = by_ranks(
    "fmpl-barrier",
    "Time of a barrier (figure 8)",
    COLLECTIVE,
    &[operation("barrier", "slowest rank")],
);

/// Figure 9.
pub const BCAST: Experiment = by_ranks(
    "fmpl-bcast",
    "Time of a broadcast of 8 KiB (figure 9)",
    COLLECTIVE,
    &[operation("bcast", "slowest rank, roots in turn")],
);

/// Figure 10.
pub const BCAST_BANDWIDTH: Experiment = Experiment {
    name: "fmpl-bcast-bandwidth",
    about: "Bandwidth of a broadcast: its size by its time (figure 10), beside a copy within a process",
    kernels: &WITH_RAW,
    axis: Axis {
        values: &[8, 128, KI, 8 * KI, 64 * KI, 512 * KI, MI, 8 * MI],
        tour: &[8 * KI, MI, 8 * MI],
        quick: &[8, MI],
        limits: (8, 64 * MI),
        ..BYTES
    },
    ranks: Ranks::Free,
    calibrated: true,
    panels: &[Panel {
        name: "bcast-bandwidth",
        about: "slowest rank, roots in turn",
        unit: GIGABYTES,
        others: &[(Interface::Fmpl, &["mapped", "heap", "software"])],
        printed: &[
            Printed::new("FMPL (hardware)", 8 * MI, 0.877),
            Printed::new("FMPL (software), about", 8 * MI, 0.25),
        ],
        ..Panel::PLAIN
    }],
};

/// Figure 11. The paper reduces along trees of messages, and so does FMPL here: there is no other way.
pub const REDUCE: Experiment = by_ranks(
    "fmpl-reduce",
    "Time of a reduction of 8 KiB of doubles (figure 11), beside a single step of it in C",
    &WITH_RAW,
    &[Panel {
        name: "reduce",
        about: "sum, slowest rank, roots in turn",
        unit: MICROSECONDS,
        // In C: a message that nobody reads, and a sum beside it; or what came is what is added.
        others: &[(Interface::Raw, &["apart", "added"])],
        ..Panel::PLAIN
    }],
);
