//! Contexts: a grid, its communicators, and where its streams of messages stand.

use crate::{Ends, Error, Grid, Net};

/// Which processes a broadcast, combine or barrier is among.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The row of the grid that this process is in.
    Row,
    /// Its column.
    Column,
    /// The whole grid.
    All,
}

impl Scope {
    /// What BLACS' letter says.
    pub fn of(letter: u8) -> Result<Scope, Error> {
        match letter.to_ascii_lowercase() {
            b'r' => Ok(Scope::Row),
            b'c' => Ok(Scope::Column),
            b'a' => Ok(Scope::All),
            _ => Err(Error::Scope(letter)),
        }
    }

    pub(crate) fn stream(self) -> Stream {
        match self {
            Scope::Row => Stream::Row,
            Scope::Column => Stream::Column,
            Scope::All => Stream::All,
        }
    }
}

/// One of the streams between two processes of a context. What is in one has no order against what is in another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stream {
    Points,
    Row,
    Column,
    All,
}

pub(crate) const STREAMS: u32 = 4;

/// Indices of a stream: as many pieces of a message may be in flight at a time. Four keep a pipeline of chunks filled;
/// two is what the faces need.
pub(crate) const DEPTH: u32 = 4;

/// Indices of a context.
pub(crate) const INDICES: u32 = STREAMS * DEPTH;

/// What `blacs_set` may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Chains of topology `M` for broadcasts; backwards where negative.
    pub broadcast_rings: i32,
    /// Branches of topology `T` for broadcasts, counted as in BLACS: 1 is the binary one.
    pub broadcast_branches: i32,
    /// The same for combines.
    pub combine_rings: i32,
    /// The same for combines.
    pub combine_branches: i32,
    /// Only repeatable topologies were asked for. All of ours are: the order of operations is fixed by topology,
    /// scope and destination.
    pub repeatable: bool,
    /// Only topologies that give all the same bits were asked for.
    pub coherent: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            broadcast_rings: 1,
            broadcast_branches: 1,
            combine_rings: 1,
            combine_branches: 1,
            repeatable: false,
            coherent: false,
        }
    }
}

/// A context of this process.
pub(crate) struct Context<C> {
    pub(crate) grid: Grid,
    pub(crate) options: Options,
    /// The system context that the grid's processes form; what `blacs_get` gives.
    pub(crate) system: i32,
    /// Where its messages go by, and the communicator of all.
    pub(crate) ends: Box<Ends<C>>,
    /// The communicators of our row and column, where they have more than one process.
    pub(crate) row: Option<C>,
    pub(crate) column: Option<C>,
    /// Its indices begin at `place` times [`INDICES`].
    pub(crate) place: u32,
    /// How many contexts this process had made by then.
    pub(crate) made: u64,
    /// Broadcasts and combines so far, by scope.
    operations: [u32; STREAMS as usize],
}

impl<C: Copy> Context<C> {
    pub(crate) fn new(grid: Grid, system: i32, place: u32, all: C) -> Context<C> {
        let ends = Box::new(Ends::new(&grid, place, all));
        Context {
            grid,
            options: Options::default(),
            system,
            ends,
            row: None,
            column: None,
            place,
            made: 0,
            operations: [0; STREAMS as usize],
        }
    }

    /// Frees the communicators.
    pub(crate) fn close<N: Net<Comm = C>>(self, net: &mut N) -> Result<(), Error> {
        let comms = [self.row, self.column, Some(self.ends.all)];
        for comm in comms.into_iter().flatten() {
            net.comm_free(comm)?;
        }
        Ok(())
    }

    /// The communicator of a scope with more than one process.
    pub(crate) fn comm(&self, scope: Scope) -> Option<C> {
        match scope {
            Scope::Row => self.row,
            Scope::Column => self.column,
            Scope::All => (self.grid.size(scope) > 1).then_some(self.ends.all),
        }
    }

    /// Counts a broadcast or combine.
    pub(crate) fn operate(&mut self, scope: Scope) {
        let count = &mut self.operations[scope.stream() as usize];
        *count = count.wrapping_add(1);
    }

    /// A number that all processes of the scope give the next broadcast.
    pub(crate) fn operation_id(&self, scope: Scope) -> u32 {
        let stream = scope.stream();
        self.ends
            .end(stream, 0, self.operations[stream as usize])
            .index
    }
}
