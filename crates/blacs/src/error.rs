//! What can be wrong with a call.

use std::fmt;

use crate::Trouble;

/// Why a call could not do what it was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// No context has this number.
    Context(i32),
    /// A grid that does not fit.
    Grid(i32, i32, usize),
    /// A process of a grid's map that does not exist.
    MapRank(i32, usize),
    /// A process that stands twice in a grid's map.
    MapTwice(i32),
    /// More contexts at once than there are indices for.
    Contexts(u32),
    /// Coordinates outside the grid: what they are, and the grid.
    Place(&'static str, (i32, i32), (i32, i32)),
    /// Neither `R`, `C` nor `A`.
    Scope(u8),
    /// A letter that names no topology.
    Topology(u8),
    /// A matrix larger than the address space.
    Size(i32, i32),
    /// A broadcast that its own source wants to receive.
    OwnBroadcast,
    /// A message shorter than the matrix that receives it.
    Short {
        /// Bytes that came.
        came: usize,
        /// Bytes of the matrix.
        expected: usize,
    },
    /// What the messages below say.
    Message(Trouble),
}

impl From<Trouble> for Error {
    fn from(trouble: Trouble) -> Error {
        Error::Message(trouble)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Context(number) => write!(f, "Invalid context handle: {number}"),
            Error::Grid(rows, columns, have) => {
                write!(f, "Illegal grid ({rows} x {columns}), #procs={have}")
            }
            Error::MapRank(rank, have) => write!(
                f,
                "The grid's map names process {rank}, but the system context has {have}"
            ),
            Error::MapTwice(rank) => write!(f, "The grid's map names process {rank} twice"),
            Error::Contexts(most) => write!(
                f,
                "All {most} contexts that processes can share are in use; free one with blacs_gridexit"
            ),
            Error::Place(what, (row, column), (rows, columns)) => write!(
                f,
                "{what} out of range; it is {{{row},{column}}} in a grid of {rows} x {columns}"
            ),
            Error::Scope(letter) => write!(f, "Unknown scope '{}'", *letter as char),
            Error::Topology(letter) => write!(f, "Unknown topology '{}'", *letter as char),
            Error::Size(m, n) => write!(f, "A matrix of {m} x {n} does not fit in memory"),
            Error::OwnBroadcast => write!(f, "Node tries to recv its own broadcast"),
            Error::Short { came, expected } => write!(
                f,
                "The message has {came} bytes, but the matrix that receives it {expected}: M and N must be \
                 the same on both sides"
            ),
            Error::Message(trouble) => write!(f, "{trouble}"),
        }
    }
}
