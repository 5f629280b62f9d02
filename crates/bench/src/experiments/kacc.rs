//! The experiments of chapter 5 of the paper on KACC: A. Nomura, Y. Ishikawa, Design and implementation of kernel-level
//! asynchronous MPI collective communications; and others on the same question, what goes on while the ranks compute.
//!
//! The paper's 32 processes on 8 nodes multiply matrices of 4 x 4 (figure 4) and 40 x 40 (figure 5), test the
//! broadcast after each product, and count the products. What it draws is not repeated here; it prints of figure 6 which
//! part of the time of LibNBC and of explicit MPI the broadcast takes at best. Its pairs are here: CAD's tree and the
//! explicit tree on MPI, CAD's pipeline with an executor in the kernel and the same with one that is a thread (`--base`).
//!
//! Its chapter 6 announces whole applications, HPL among them. Here are two: conjugate gradients, and HPL's factorisation.

use super::{BYTES, KI, MI};
use crate::experiment::{
    Axis, Experiment, ITERATIONS, Interface, MILLISECONDS, NANOSECONDS, PERCENT_GAINED,
    PERCENT_SPENT, Panel, Printed, Ranks, TIMES,
};

/// Explicit progress, the libraries' own broadcast in all ways, and CAD's graphs.
const KERNELS: &[(Interface, &str)] = &[
    (Interface::Mpi, "kacc.c"),
    (Interface::Progress, "kacc.c"),
    (Interface::Cad, "kacc_cad.c"),
];

/// Their words for a broadcast.
const BROADCASTS: &[(Interface, &[&str])] = &[
    (Interface::Mpi, &["explicit"]),
    (Interface::Progress, &["ibcast"]),
    (Interface::Cad, &["tree", "pipeline"]),
];

const SIZES: Axis = Axis {
    values: &[
        1,
        64,
        KI,
        4 * KI,
        16 * KI,
        64 * KI,
        256 * KI,
        MI,
        4 * MI,
        16 * MI,
    ],
    tour: &[64, 64 * KI, MI],
    quick: &[64, 64 * KI],
    limits: (1, 64 * MI),
    ..BYTES
};

/// Why there may be no figure of what computes, as the kernels say (`kacc.h`, `kacc_crowded.c`).
const CHANGED: &str = "a product's time, alone, changed by more than 5 % in each attempt";
/// The same of what is seen only of a rank that was away.
const NEVER_AWAY: &str = "no rank lost its processor to another while the operation was under way";
/// The same of what only the kernel's receive path tells.
const NOT_IN_RECEIVE_PATH: &str = "another way than the kernel's receive path ran the operation";

/// A broadcast while all ranks compute.
const fn broadcast(name: &'static str, about: &'static str) -> Panel {
    Panel {
        name,
        about,
        others: BROADCASTS,
        absent: CHANGED,
        ..Panel::PLAIN
    }
}

/// What the paper prints of figure 6.
const BEST: &[Printed] = &[
    Printed::at_best("time of KACC's pipeline divided by LibNBC's:", 0.79),
    Printed::at_best("time of KACC's tree divided by explicit MPI's:", 0.55),
];

/// The time of a broadcast, which figure 6 relates to others'.
const fn timed(name: &'static str, about: &'static str) -> Panel {
    Panel {
        printed: BEST,
        ..broadcast(name, about)
    }
}

/// Figures 4 and 5.
pub const LOST: Experiment = Experiment {
    name: "kacc-lost",
    about: "Share of a processor's time that a broadcast takes from computing ranks (figures 4 and 5)",
    kernels: KERNELS,
    axis: SIZES,
    ranks: Ranks::Free,
    calibrated: true,
    panels: &[
        Panel {
            unit: PERCENT_SPENT,
            ..broadcast(
                "lost-4x4",
                "time not spent on products of 4 x 4, a test after each",
            )
        },
        Panel {
            unit: PERCENT_SPENT,
            ..broadcast(
                "lost-40x40",
                "time not spent on products of 40 x 40, a test after each",
            )
        },
    ],
};

/// Figure 6.
pub const TIME: Experiment = Experiment {
    name: "kacc-time",
    about: "Time of a broadcast while all ranks compute (figure 6)",
    kernels: KERNELS,
    axis: SIZES,
    ranks: Ranks::Free,
    calibrated: true,
    panels: &[
        timed(
            "time-4x4",
            "until the slowest rank sees the end, products of 4 x 4, a test after each",
        ),
        timed(
            "time-40x40",
            "until the slowest rank sees the end, products of 40 x 40, a test after each",
        ),
    ],
};

/// What is in each of the products' intervals.
pub const TEST: Experiment = Experiment {
    name: "kacc-test",
    about: "Cost of an MPI_Test, which the share of time lost has in it",
    kernels: &[(Interface::Progress, "kacc_test.c")],
    axis: SIZES,
    ranks: Ranks::Free,
    calibrated: true,
    panels: &[Panel {
        name: "test",
        about: "MPI_Test of an inactive request, of a receive and of a broadcast that do not end",
        unit: NANOSECONDS,
        variants: &["inactive", "pending", "collective"],
        single: true,
        ..Panel::PLAIN
    }],
};

/// A broadcast while all ranks compute, each on a processor of its own, where the network's work is steered there or not.
const fn steered(name: &'static str, about: &'static str) -> Panel {
    Panel {
        steered: true,
        ..broadcast(name, about)
    }
}

/// The same, as a share of time.
const fn share(name: &'static str, about: &'static str) -> Panel {
    Panel {
        unit: PERCENT_SPENT,
        ..steered(name, about)
    }
}

/// Figures 4 to 6 with what they are about: the network's work on one processor, or on the ranks' own.
pub const STEER: Experiment = Experiment {
    name: "kacc-steer",
    about: "Figures 4 to 6 with the network's work as it comes and steered to the ranks' processors, each rank on one of its own (--steering)",
    kernels: KERNELS,
    axis: SIZES,
    ranks: Ranks::Free,
    calibrated: true,
    panels: &[
        share(
            "steer-lost-4x4",
            "time of all processors not spent on products of 4 x 4, a test after each",
        ),
        share(
            "steer-lost-40x40",
            "time of all processors not spent on products of 40 x 40, a test after each",
        ),
        share(
            "steer-first-40x40",
            "the first processor's time not spent on products of 40 x 40",
        ),
        Panel {
            absent: "a product's time, alone, changed by more than 5 % in each attempt, or there are no other processors",
            ..share(
                "steer-others-40x40",
                "the other processors' time not spent on products of 40 x 40",
            )
        },
        Panel {
            printed: BEST,
            ..steered(
                "steer-time-4x4",
                "until the slowest rank sees the end, products of 4 x 4, a test after each",
            )
        },
        Panel {
            printed: BEST,
            ..steered(
                "steer-time-40x40",
                "until the slowest rank sees the end, products of 40 x 40, a test after each",
            )
        },
        Panel {
            absent: "no packet was received meanwhile",
            ..share(
                "steer-packets-40x40",
                "packets that the first processor received, of all that were, products of 40 x 40",
            )
        },
    ],
};

/// A relay that computes.
pub const CHAIN: Experiment = Experiment {
    name: "kacc-chain",
    about: "Time of a broadcast along three ranks of which the middle one computes, alone on a processor",
    kernels: &[
        (Interface::Mpi, "kacc.c"),
        (Interface::Progress, "kacc.c"),
        (Interface::Cad, "kacc_cad.c"),
        (Interface::Sockets, "kacc_sockets.c"),
    ],
    axis: Axis {
        values: &[4 * KI, 16 * KI, 64 * KI, 256 * KI, MI, 4 * MI],
        tour: &[4 * KI, MI],
        quick: &[4 * KI],
        ..SIZES
    },
    ranks: Ranks::Exactly(3),
    calibrated: true,
    panels: &[Panel {
        name: "chain",
        about: "until the leaf's wait ends; the relay tests after each product of 40 x 40, or calls nothing for 50 ms; beside plain \
                sockets, by a relay that does nothing else, and direct",
        others: &[
            (Interface::Mpi, &["explicit"]),
            (Interface::Progress, &["ibcast", "ibcast-silent"]),
            (Interface::Cad, &["pipeline", "pipeline-silent"]),
            (Interface::Sockets, &["relayed", "direct"]),
        ],
        processors: Some(2),
        ..Panel::PLAIN
    }],
};

/// A reduction that goes to all.
pub const ALLREDUCE: Experiment = Experiment {
    name: "kacc-allreduce",
    about: "Time of an MPI_Iallreduce while both ranks compute",
    kernels: &[(Interface::Progress, "kacc.c")],
    axis: SIZES,
    ranks: Ranks::Exactly(2),
    calibrated: true,
    panels: &[
        Panel {
            name: "time-4x4",
            about: "until the slower rank sees the end, products of 4 x 4, a test after each",
            variants: &["iallreduce"],
            absent: CHANGED,
            ..Panel::PLAIN
        },
        Panel {
            name: "time-40x40",
            about: "until the slower rank sees the end, products of 40 x 40, a test after each",
            variants: &["iallreduce"],
            absent: CHANGED,
            ..Panel::PLAIN
        },
    ],
};

const FIRST_TEST: &str =
    "operations found done by the first test after the rank was away from its processor";
const DONE: &str = "from the last rank's start until the kernel had the result, as it says itself; only softirq has such a time";

/// Operations of ranks that share two processors.
const fn crowded(
    about: &'static str,
    absent: &'static str,
    variants: &'static [&'static str],
) -> Panel {
    Panel {
        about,
        absent,
        variants,
        processors: Some(2),
        ..Panel::PLAIN
    }
}

/// More ranks than processors.
pub const CROWDED: Experiment = Experiment {
    name: "kacc-crowded",
    about: "Four computing ranks on two processors",
    kernels: &[(Interface::Progress, "kacc_crowded.c")],
    axis: Axis {
        values: &[8, KI, 64 * KI],
        tour: &[8, 64 * KI],
        quick: &[8],
        ..SIZES
    },
    ranks: Ranks::Exactly(4),
    calibrated: true,
    panels: &[
        Panel {
            name: "first-test",
            unit: PERCENT_GAINED,
            ..crowded(FIRST_TEST, NEVER_AWAY, &["ibcast", "iallreduce"])
        },
        Panel {
            name: "done",
            ..crowded(DONE, NOT_IN_RECEIVE_PATH, &["iallreduce"])
        },
        Panel {
            name: "wall",
            unit: MILLISECONDS,
            ..crowded(
                "1000 times MPI_Iallreduce, products for 1 ms of the thread's time, MPI_Wait; 2000 ms are the products'",
                "",
                &["iallreduce"],
            )
        },
        Panel {
            name: "barrier-first-test",
            unit: PERCENT_GAINED,
            single: true,
            ..crowded(FIRST_TEST, NEVER_AWAY, &["ibarrier"])
        },
        Panel {
            name: "barrier-done",
            single: true,
            ..crowded(DONE, NOT_IN_RECEIVE_PATH, &["ibarrier"])
        },
        Panel {
            name: "barrier-wall",
            unit: MILLISECONDS,
            single: true,
            ..crowded(
                "1000 times MPI_Ibarrier, products for 1 ms of the thread's time, MPI_Wait; 2000 ms are the products'",
                "",
                &["ibarrier"],
            )
        },
    ],
};

/// Conjugate gradients; the first waits for each of its reductions.
const GRADIENTS: &[&str] = &["classical", "pipelined", "pipelined-blocking"];
/// HPL's factorisation; the first waits for each of its broadcasts.
const FACTORISATIONS: &[&str] = &["bcast", "ibcast", "ibcast-tested"];

/// All ways of an application, each by itself.
const fn whole(about: &'static str, variants: &'static [&'static str]) -> Panel {
    Panel {
        name: "time",
        about,
        unit: MILLISECONDS,
        variants,
        ..Panel::PLAIN
    }
}

/// Those that the first way of an application is related to, in turns with it.
const fn speedup(about: &'static str, variants: &'static [&'static str]) -> Panel {
    Panel {
        name: "speedup",
        about,
        unit: TIMES,
        variants: variants.split_at(1).1,
        ..Panel::PLAIN
    }
}

/// Reductions behind products of matrix and vector.
pub const CG: Experiment = Experiment {
    name: "kacc-cg",
    about: "Conjugate gradients: Poisson's equation on a square, MPI_Allreduce or MPI_Iallreduce behind the product",
    kernels: &[(Interface::Progress, "kacc_cg.c")],
    axis: Axis {
        name: "edge",
        values: &[32, 64, 128, 256],
        tour: &[64],
        quick: &[3, 40],
        limits: (1, 4096),
    },
    ranks: Ranks::Free,
    calibrated: true,
    panels: &[
        whole("until the slowest rank has the solution", GRADIENTS),
        speedup(
            "the time of classical conjugate gradients divided by that of this",
            GRADIENTS,
        ),
        Panel {
            name: "iterations",
            about: "until the residual is a millionth of what it was",
            unit: ITERATIONS,
            variants: GRADIENTS,
            ..Panel::PLAIN
        },
    ],
};

/// Broadcasts of panels behind the update of the rest of a matrix.
pub const HPL: Experiment = Experiment {
    name: "kacc-hpl",
    about: "HPL's factorisation of a matrix: MPI_Bcast of each panel, or MPI_Ibcast behind the update, look-ahead of 1",
    kernels: &[(Interface::Progress, "kacc_hpl.c")],
    axis: Axis {
        name: "order",
        values: &[128, 256, 512, 1024],
        tour: &[256],
        quick: &[32, 100],
        limits: (1, 8192),
    },
    ranks: Ranks::Free,
    calibrated: true,
    panels: &[
        whole(
            "until the slowest rank has its part of the factored matrix",
            FACTORISATIONS,
        ),
        speedup(
            "the time with MPI_Bcast divided by that of this",
            FACTORISATIONS,
        ),
    ],
};
