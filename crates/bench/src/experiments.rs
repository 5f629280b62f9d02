//! The experiments of `yamabiko bench`. A new one is an entry here and a kernel in `kernels`; if the kernel is
//! not an MPI program, `experiment::Interface` and `implementation` say how it is compiled and started.

mod fmpl;
mod kacc;

use crate::experiment::{
    Axis, Experiment, GIGABYTES, Interface, MESSAGES, MICROSECONDS_MORE, MILLISECONDS,
    PERCENT_GAINED, PERCENT_SPENT, Panel, Ranks, Source,
};

const KI: u64 = 1 << 10;
const MI: u64 = 1 << 20;

/// Message sizes, as most experiments sweep them.
const BYTES: Axis = Axis {
    name: "bytes",
    values: &[8, 64, KI, 8 * KI, 64 * KI, MI],
    tour: &[8, KI, 64 * KI, MI],
    quick: &[8, 64 * KI],
    limits: (0, 1 << 30),
};

/// An operation, or several, in a time by messages' sizes.
const fn operation(name: &'static str, about: &'static str) -> Panel {
    Panel {
        name,
        about,
        ..Panel::PLAIN
    }
}

/// A non-blocking operation and the computation it goes on behind.
const fn overlapped(name: &'static str, about: &'static str) -> Panel {
    Panel {
        name,
        about,
        unit: PERCENT_GAINED,
        ..Panel::PLAIN
    }
}

/// What a non-blocking operation costs a computation.
const fn added(name: &'static str, about: &'static str) -> Panel {
    Panel {
        name,
        about,
        unit: MICROSECONDS_MORE,
        ..Panel::PLAIN
    }
}

/// All of them, in the order of `bench all`.
pub static ALL: &[Experiment] = &[
    Experiment {
        name: "latency",
        about: "Time of a message from one rank to another",
        kernels: &[(Interface::Mpi, "latency.c")],
        axis: BYTES,
        ranks: Ranks::Exactly(2),
        calibrated: true,
        panels: &[Panel {
            name: "latency",
            about: "one way, MPI_Send and MPI_Recv",
            ..Panel::PLAIN
        }],
    },
    Experiment {
        name: "threads",
        about: "What MPI_THREAD_MULTIPLE costs a program that has one thread all the same",
        kernels: &[(Interface::Mpi, "latency.c")],
        axis: Axis {
            values: &[8, KI, 64 * KI],
            ..BYTES
        },
        ranks: Ranks::Exactly(2),
        calibrated: true,
        panels: &[Panel {
            name: "threads",
            about: "one way, MPI_Send and MPI_Recv, initialised with MPI_THREAD_SINGLE or MPI_THREAD_MULTIPLE",
            variants: &["single", "multiple"],
            ..Panel::PLAIN
        }],
    },
    Experiment {
        name: "bandwidth",
        about: "Bytes per second from one rank to another: a stream of messages and ping-pong, from the heap and \
                from MPI_Alloc_mem",
        kernels: &[(Interface::Mpi, "bandwidth.c")],
        axis: Axis {
            values: &[KI, 8 * KI, 64 * KI, 512 * KI, 4 * MI, 16 * MI],
            tour: &[8 * KI, 64 * KI, MI, 16 * MI],
            quick: &[8 * KI, MI],
            limits: (1, 256 * MI),
            ..BYTES
        },
        ranks: Ranks::Exactly(2),
        calibrated: true,
        panels: &[
            Panel {
                name: "stream",
                about: "one way, up to 64 messages under way",
                unit: GIGABYTES,
                variants: &["heap", "alloc_mem"],
                ..Panel::PLAIN
            },
            Panel {
                name: "ping-pong",
                about: "there and back, one message under way",
                unit: GIGABYTES,
                variants: &["heap", "alloc_mem"],
                ..Panel::PLAIN
            },
        ],
    },
    Experiment {
        name: "rate",
        about: "Messages per second from one rank to another",
        kernels: &[(Interface::Mpi, "bandwidth.c")],
        axis: Axis {
            values: &[1, 8, 64, 512, 4 * KI],
            tour: &[8, 512],
            quick: &[8],
            limits: (0, MI),
            ..BYTES
        },
        ranks: Ranks::Exactly(2),
        calibrated: true,
        panels: &[Panel {
            name: "rate",
            about: "one way, 64 messages under way",
            unit: MESSAGES,
            ..Panel::PLAIN
        }],
    },
    Experiment {
        name: "exchange",
        about: "Time of an exchange in a ring, where all ranks send and receive at once",
        kernels: &[(Interface::Mpi, "exchange.c")],
        axis: Axis {
            values: &[8, KI, 4 * KI, 16 * KI, 32 * KI, 128 * KI, MI],
            tour: &[8, 16 * KI, MI],
            ..BYTES
        },
        ranks: Ranks::Free,
        calibrated: true,
        panels: &[
            operation("sendrecv", "MPI_Sendrecv, to the right and from the left"),
            operation("posted", "the same as MPI_Irecv, MPI_Isend and MPI_Waitall"),
            operation(
                "neighbours",
                "to both sides and from both: MPI_Irecv, MPI_Isend, two of each, and MPI_Waitall",
            ),
        ],
    },
    Experiment {
        name: "depth",
        about: "Time of a receive in long queues, answered in the reverse order",
        kernels: &[(Interface::Mpi, "depth.c")],
        axis: Axis {
            name: "receives",
            values: &[1, 4, 16, 64, 256, 1024, 4096],
            tour: &[1, 64, 1024],
            quick: &[1, 64],
            // Each has a tag of its own, and every MPI library has tags up to 32767.
            limits: (1, 32767),
        },
        ranks: Ranks::Exactly(2),
        calibrated: true,
        panels: &[
            Panel {
                name: "posted",
                about: "a receive, the message for the one posted last comes first",
                ..Panel::PLAIN
            },
            Panel {
                name: "unexpected",
                about: "a receive, the message that came last is received first",
                ..Panel::PLAIN
            },
        ],
    },
    Experiment {
        name: "collectives",
        about: "Time of barrier, bcast, reduce, allreduce, allgather and alltoall",
        kernels: &[(Interface::Mpi, "collectives.c")],
        axis: Axis {
            tour: &[8, 64 * KI],
            limits: (1, 64 * MI),
            ..BYTES
        },
        ranks: Ranks::Free,
        calibrated: true,
        panels: &[
            Panel {
                single: true,
                ..operation("barrier", "MPI_Barrier")
            },
            operation("bcast", "MPI_Bcast, roots in turn"),
            operation("reduce", "MPI_Reduce, sum of doubles, roots in turn"),
            operation("allreduce", "MPI_Allreduce, sum of doubles"),
            operation("allgather", "MPI_Allgather, bytes of each rank"),
            operation("alltoall", "MPI_Alltoall, bytes for each rank"),
        ],
    },
    Experiment {
        name: "overlap",
        about: "How much of a non-blocking operation goes on while the ranks compute (as IMB-NBC defines it), and what it adds \
                to a computation of 100 us and 0.1 ns for each byte, with each executor and with the others' progress threads off and on",
        kernels: &[(Interface::Progress, "overlap.c")],
        axis: Axis {
            values: &[KI, 8 * KI, 64 * KI, 512 * KI, 4 * MI],
            tour: &[64 * KI, MI],
            quick: &[64 * KI],
            limits: (4, 64 * MI),
            ..BYTES
        },
        ranks: Ranks::Free,
        calibrated: true,
        panels: &[
            overlapped(
                "isend",
                "MPI_Isend and MPI_Irecv in a ring, which no executor takes",
            ),
            overlapped("ibcast", "MPI_Ibcast, roots in turn"),
            overlapped("iallreduce", "MPI_Iallreduce, sum of floats"),
            overlapped("iallgather", "MPI_Iallgather"),
            overlapped("ialltoall", "MPI_Ialltoall"),
            added(
                "ibcast-cost",
                "what MPI_Ibcast, roots in turn, adds to a computation",
            ),
            added(
                "iallreduce-cost",
                "what MPI_Iallreduce, sum of floats, adds to a computation",
            ),
            added(
                "iallgather-cost",
                "what MPI_Iallgather adds to a computation",
            ),
            added("ialltoall-cost", "what MPI_Ialltoall adds to a computation"),
        ],
    },
    Experiment {
        name: "datatypes",
        about: "A matrix sent as a vector of vectors and received as it comes, which transposes it; beside a loop \
                in C",
        kernels: &[
            (Interface::Mpi, "transpose.c"),
            (Interface::Raw, "raw_transpose.c"),
        ],
        axis: Axis {
            name: "edge",
            values: &[16, 64, 256, 512, 2048],
            tour: &[64, 512],
            quick: &[32],
            limits: (1, 8192),
        },
        ranks: Ranks::Exactly(2),
        calibrated: true,
        panels: &[
            Panel {
                name: "pair",
                about: "a matrix of floats from one rank to another, transposed on the way",
                unit: GIGABYTES,
                ..Panel::PLAIN
            },
            Panel {
                name: "self",
                about: "a matrix of floats from a rank to itself, transposed on the way",
                unit: GIGABYTES,
                ranks: Some(1),
                ..Panel::PLAIN
            },
        ],
    },
    Experiment {
        name: "startup",
        about: "Time of MPI_Init, and of a whole mpiexec with a program that does nothing",
        kernels: &[(Interface::Mpi, "startup.c")],
        axis: Axis {
            name: "ranks",
            values: &[1, 2, 4, 8],
            tour: &[2, 4],
            quick: &[2],
            limits: (1, 4096),
        },
        ranks: Ranks::Swept,
        calibrated: false,
        panels: &[
            Panel {
                name: "init",
                about: "MPI_Init in the slowest rank",
                unit: MILLISECONDS,
                ..Panel::PLAIN
            },
            Panel {
                name: "launch",
                about: "mpiexec from start to end, of a program with MPI_Init and MPI_Finalize only",
                source: Source::Wall,
                unit: MILLISECONDS,
                ..Panel::PLAIN
            },
        ],
    },
    Experiment {
        name: "idle",
        about: "What a waiting rank takes of a processor",
        kernels: &[(Interface::Mpi, "idle.c")],
        axis: Axis {
            name: "ms waited",
            values: &[2000],
            tour: &[2000],
            quick: &[50],
            limits: (1, 60_000),
        },
        ranks: Ranks::Exactly(2),
        calibrated: false,
        panels: &[Panel {
            name: "idle",
            about: "processor time of a rank in MPI_Recv, all threads",
            unit: PERCENT_SPENT,
            ..Panel::PLAIN
        }],
    },
    fmpl::LATENCY,
    fmpl::PARTS,
    fmpl::DEPTH,
    fmpl::BANDWIDTH,
    fmpl::BARRIER,
    fmpl::BCAST,
    fmpl::BCAST_BANDWIDTH,
    fmpl::REDUCE,
    kacc::LOST,
    kacc::TIME,
    kacc::STEER,
    kacc::TEST,
    kacc::CHAIN,
    kacc::ALLREDUCE,
    kacc::CROWDED,
    kacc::CG,
    kacc::HPL,
];

/// Names for several experiments: all whose name begins with this and `-`. With a sentence for the help.
pub static GROUPS: &[(&str, &str)] = &[
    (
        "fmpl",
        "The experiments of the paper on FMPL, beside what it prints: all that follow here with that name",
    ),
    (
        "kacc",
        "The experiments of the paper on KACC, and others on operations behind which the ranks compute, with each \
         executor and with the others' progress threads on and off, two applications among them: all that follow here \
         with that name",
    ),
];

/// Whether `asked` is this experiment's name or that of its group.
pub fn is_meant(experiment: &Experiment, asked: &str) -> bool {
    let rest = experiment.name.strip_prefix(asked);
    let is_group = GROUPS.iter().any(|(group, _)| *group == asked);
    rest.is_some_and(|rest| rest.is_empty() || is_group && rest.starts_with('-'))
}

/// The experiment of this name, for tests.
#[cfg(test)]
pub fn named(name: &str) -> Option<&'static Experiment> {
    ALL.iter().find(|experiment| experiment.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sound() {
        for (i, experiment) in ALL.iter().enumerate() {
            let name = experiment.name;
            assert!(
                named(name).is_some_and(|found| std::ptr::eq(found, &ALL[i])),
                "{name} twice"
            );
            let Axis {
                limits: (least, most),
                values,
                tour,
                quick,
                ..
            } = experiment.axis;
            for list in [values, tour, quick] {
                assert!(!list.is_empty(), "{name}");
                assert!(list.is_sorted_by(|a, b| a < b), "{name}: {list:?}");
                assert!(
                    list.iter().all(|v| (least..=most).contains(v)),
                    "{name}: {list:?}"
                );
            }
            assert!(
                !experiment.panels.is_empty() && !experiment.kernels.is_empty(),
                "{name}"
            );
            for panel in experiment.panels {
                let others = panel.others.iter().flat_map(|(_, words)| *words);
                let words = [panel.name]
                    .into_iter()
                    .chain(panel.words(Interface::Mpi).iter().copied());
                let words: Vec<_> = words
                    .chain(others.copied())
                    .filter(|w| !w.is_empty())
                    .collect();
                assert!(panel.variants.iter().all(|w| !w.is_empty()), "{name}");
                // They become arguments and parts of file names.
                let plain =
                    |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "_-".contains(c);
                assert!(
                    words.iter().all(|w| !w.is_empty() && w.chars().all(plain)),
                    "{words:?}"
                );
                assert!(
                    panel.ranks.is_none() || experiment.ranks != Ranks::Swept,
                    "{name}"
                );
            }
        }
    }

    #[test]
    fn a_groups_name_means_all_of_it() {
        let of = |asked| ALL.iter().filter(move |one| is_meant(one, asked));
        assert!(of("fmpl").count() > 1);
        assert!(of("fmpl").all(|one| one.name.starts_with("fmpl-")));
        assert_eq!(of("fmpl-bcast").count(), 1);
        assert_eq!(of("latency").count(), 1);
        assert_eq!(of("nothing").count(), 0);
        // Each is worth a word, and means no experiment.
        assert!(
            GROUPS
                .iter()
                .all(|(name, _)| of(name).count() > 0 && named(name).is_none())
        );
    }

    #[test]
    fn printed_figures_are_at_values_that_are_measured() {
        for experiment in ALL {
            for panel in experiment.panels {
                for one in panel.printed {
                    let measured = one.value.is_none_or(|value| match panel.single {
                        true => value == 0,
                        false => experiment.axis.values.contains(&value),
                    });
                    assert!(measured && one.figure > 0.0, "{}: {one:?}", panel.name);
                }
            }
        }
    }

    #[test]
    fn kernels_are_there() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels");
        for experiment in ALL {
            for (_, file) in experiment.kernels {
                assert!(folder.join(file).is_file(), "{file}");
            }
        }
    }
}
