//! What an experiment is: data. The experiments themselves are in `experiments`.
//!
//! An experiment sweeps one parameter, its axis, and has one or more panels, each of which becomes a table
//! and a plot of its own. The series of a panel are its variants on each implementation that has a kernel.

use serde::{Serialize, Serializer};

/// What a kernel is written for, which decides the implementations that can run it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interface {
    /// A program for MPI, compiled by `mpicc`, started by `mpiexec`.
    Mpi,
    /// A program for MPI whose operations go on while it computes, in one of the ways that the library has: each way
    /// takes part as an implementation of its own.
    Progress,
    /// A program for CAD alone, with each of its executors, started by `mpiexec` as well.
    Cad,
    /// A program for FMPL, started by `mpiexec` as well.
    Fmpl,
    /// A program for BLACS, whatever that is built on.
    Blacs,
    /// A program whose ranks use MPI to find each other, and then the system's sockets alone: what the links between them can do.
    Sockets,
    /// A program for no library at all: what the machine can do.
    Raw,
}

/// An experiment.
pub struct Experiment {
    /// Its name on the command line.
    pub name: &'static str,
    /// A sentence for the help.
    pub about: &'static str,
    /// The kernel's file for each interface that takes part.
    pub kernels: &'static [(Interface, &'static str)],
    /// What is swept.
    pub axis: Axis,
    /// How many ranks it runs on.
    pub ranks: Ranks,
    /// Whether its figures depend on how far apart the processors are. Only then a round counts for nothing
    /// if that changed.
    pub calibrated: bool,
    /// What is measured.
    pub panels: &'static [Panel],
}

/// The swept parameter.
pub struct Axis {
    /// Its name: what its values are.
    pub name: &'static str,
    /// Its values, unless others are asked for.
    pub values: &'static [u64],
    /// Those of `bench all`.
    pub tour: &'static [u64],
    /// Those of `--quick`.
    pub quick: &'static [u64],
    /// The least and the most that may be asked for.
    pub limits: (u64, u64),
}

/// How many ranks an experiment runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ranks {
    /// So many.
    Exactly(u32),
    /// As many as asked for, or one for each processor (but at least 2).
    Free,
    /// As many as the axis says; each of its values is a run of its own.
    Swept,
}

/// A part of an experiment.
pub struct Panel {
    /// Its name, also the word that tells the kernel what to measure.
    pub name: &'static str,
    /// What the figure is.
    pub about: &'static str,
    /// Where the figure comes from.
    pub source: Source,
    /// What the figure is in.
    pub unit: Unit,
    /// Words that tell the kernel how to measure; each makes a series. None: one series without a word.
    pub variants: &'static [&'static str],
    /// The words for kernels of these interfaces, where they have others.
    pub others: &'static [(Interface, &'static [&'static str])],
    /// Why its kernel may give no figure; empty where it always does.
    pub absent: &'static str,
    /// Figures that a paper prints for this, to be shown beside.
    pub printed: &'static [Printed],
    /// Ranks, if other than the experiment's.
    pub ranks: Option<u32>,
    /// Processors that its kernel keeps to, if it does.
    pub processors: Option<u32>,
    /// Whether the axis plays no part; the only value is then 0.
    pub single: bool,
    /// Whether the ways to progress take part a second time, with the network's work steered to the ranks' processors. It is left out where
    /// nothing switches that.
    pub steered: bool,
}

impl Panel {
    /// Most panels; the others change a field.
    pub const PLAIN: Panel = Panel {
        name: "",
        about: "",
        source: Source::Printed,
        unit: MICROSECONDS,
        variants: &[],
        others: &[],
        absent: "",
        printed: &[],
        ranks: None,
        processors: None,
        single: false,
        steered: false,
    };

    /// The variants' words for kernels of this interface; that of a panel without variants is empty.
    pub fn words(&self, interface: Interface) -> &'static [&'static str] {
        let others = self.others.iter().find(|(one, _)| *one == interface);
        match others.map_or(self.variants, |(_, words)| words) {
            [] => &[""],
            words => words,
        }
    }
}

/// A figure that a paper prints.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Printed {
    /// What it is of, in the paper's words.
    pub what: &'static str,
    /// The value of the axis; none: that at which it was best, which the paper leaves open.
    pub value: Option<u64>,
    /// The figure, in the panel's unit; at its best: divided by that of something else.
    pub figure: f64,
}

impl Printed {
    /// So much, of something, at a value of the axis.
    pub const fn new(what: &'static str, value: u64, figure: f64) -> Printed {
        Printed {
            what,
            value: Some(value),
            figure,
        }
    }

    /// A quotient of two figures, at the value at which that is least.
    pub const fn at_best(what: &'static str, figure: f64) -> Printed {
        Printed {
            what,
            value: None,
            figure,
        }
    }
}

/// Where a figure comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The kernel prints it.
    Printed,
    /// It is the time that the whole run takes, in milliseconds; the kernel prints nothing.
    Wall,
}

/// What a figure is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unit {
    /// Its name.
    pub name: &'static str,
    /// Whether less is better.
    pub less_is_better: bool,
    /// Whether it is a share, of 100.
    pub share: bool,
    /// Whether it may be 0, as what is lost to something may be; then it is drawn on a linear axis.
    pub zero: bool,
}

impl Serialize for Unit {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name)
    }
}

/// Microseconds.
pub const MICROSECONDS: Unit = Unit {
    name: "us",
    less_is_better: true,
    share: false,
    zero: false,
};
/// Microseconds that something takes beside something else, which may be none.
pub const MICROSECONDS_MORE: Unit = Unit {
    zero: true,
    ..MICROSECONDS
};
/// Milliseconds.
pub const MILLISECONDS: Unit = Unit {
    name: "ms",
    ..MICROSECONDS
};
/// Nanoseconds.
pub const NANOSECONDS: Unit = Unit {
    name: "ns",
    ..MICROSECONDS
};
/// Iterations of a method that approaches a solution.
pub const ITERATIONS: Unit = Unit {
    name: "iterations",
    ..MICROSECONDS
};
/// How many times as fast.
pub const TIMES: Unit = Unit {
    name: "times",
    ..GIGABYTES
};
/// Gigabytes (10^9) in a second.
pub const GIGABYTES: Unit = Unit {
    name: "GB/s",
    less_is_better: false,
    share: false,
    zero: false,
};
/// Millions of messages in a second.
pub const MESSAGES: Unit = Unit {
    name: "million/s",
    ..GIGABYTES
};
/// Per cent, of something one wants.
pub const PERCENT_GAINED: Unit = Unit {
    name: "%",
    less_is_better: false,
    share: true,
    zero: true,
};
/// Per cent, of something one pays with.
pub const PERCENT_SPENT: Unit = Unit {
    less_is_better: true,
    ..PERCENT_GAINED
};
