//! Where the flags and the two faces of a communicator lie on its members' boards: what takes the place of
//! the paper's barrier and broadcast hardware inside a machine.
//!
//! The paper's served one rectangular partition, and one broadcast at a time. Here each communicator has, on the board of
//! each of its members, a page of flags, two faces (section 5.2: "two faces of buffers in the static area") and places for
//! the pieces of reductions, at a place that follows from the communicator's number, which is the same at all members. So any set of processes
//! will do, and communicators don't disturb each other. Those whose number is too large for the boards use
//! messages. Each flag is written by one process, only ever grows, and stands in lines of its own.

use mtmi::{Boards, Endpoint, Watched};

use crate::comm::Comm;

/// Bytes of a face.
pub const FACE: usize = 65_536;
/// Most bytes of a piece of a reduction,
pub const PIECE: usize = 8192;
/// and how many of a member's lie on its board.
pub const PIECES: usize = 8;
/// Most levels of a tree of pieces: more members than that has no machine.
pub const LEVELS: u32 = 26;
const PAGE: usize = 4096;
const STRIDE: usize = PAGE + 2 * FACE + PIECES * PIECE;
/// Distance of flags: processors fetch lines in pairs.
const APART: usize = 128;

// A flag, and a length for each place.
const _: () = assert!(8 + PIECES * 8 <= APART);
const _: () = assert!((6 + LEVELS as usize) * APART <= PAGE);

/// The flags of a member.
#[derive(Clone, Copy, Debug)]
pub enum Flag {
    /// Barriers that it, and the members below it in the tree, have reached.
    Arrived,
    /// Barriers that it has seen end.
    Released,
    /// Chunks broadcast up to and with the last in its faces.
    Published,
    /// Chunks that it needs no more.
    Passed,
    /// Pieces of reductions that it has put out.
    Offered,
    /// Reductions of which it has taken all members' parts.
    Gathered,
    /// Pieces that it has taken from its child of this level.
    Taken(u32),
}

impl Flag {
    /// Where its line is in the page of flags.
    #[inline]
    fn place(self) -> usize {
        let number = match self {
            Flag::Arrived => 0,
            Flag::Released => 1,
            Flag::Published => 2,
            Flag::Passed => 3,
            Flag::Offered => 4,
            Flag::Gathered => 5,
            Flag::Taken(level) => 6 + level.min(LEVELS - 1) as usize,
        };
        number * APART
    }
}

fn place(comm: &Comm) -> usize {
    comm.id as usize * STRIDE
}

/// Whether a communicator can use flags and faces.
pub fn has_faces(comm: &Comm, below: &impl Boards) -> bool {
    comm.together && comm.size < 1 << LEVELS && place(comm) + STRIDE <= below.board_bytes()
}

/// A flag of a process.
#[inline]
pub fn load(below: &impl Boards, comm: &Comm, of: u32, flag: Flag) -> u64 {
    below.board_load(Endpoint(of), place(comm) + flag.place())
}

/// The same, for whoever looks at it many times; `None` where only `load` reads it.
#[inline]
pub fn watch<'a, B: Boards>(below: &'a B, comm: &Comm, of: u32, flag: Flag) -> Option<Watched<'a>> {
    below.board_watch(Endpoint(of), place(comm) + flag.place())
}

/// Sets a flag of this process.
#[inline]
pub fn store(below: &mut impl Boards, comm: &Comm, flag: Flag, value: u64) {
    below.board_store(place(comm) + flag.place(), value);
}

/// Lowers all flags of this process, for the next communicator of this number.
pub fn lower(comm: &Comm, below: &mut impl Boards) {
    if has_faces(comm, below) {
        for flag in [
            Flag::Arrived,
            Flag::Released,
            Flag::Published,
            Flag::Passed,
            Flag::Offered,
            Flag::Gathered,
        ] {
            store(below, comm, flag, 0);
        }
        (0..LEVELS).for_each(|level| store(below, comm, Flag::Taken(level), 0));
    }
}

/// Where the face of a chunk begins on the board of whoever broadcasts it.
pub fn face(comm: &Comm, chunk: u64) -> usize {
    place(comm) + PAGE + (chunk % 2) as usize * FACE
}

/// Where the piece in one of the places for them begins.
pub fn piece(comm: &Comm, at: usize) -> usize {
    place(comm) + PAGE + 2 * FACE + at % PIECES * PIECE
}

/// Where the length of the reduction whose first piece is in a place stands: beside [`Flag::Offered`].
fn length_at(comm: &Comm, first: usize) -> usize {
    place(comm) + Flag::Offered.place() + 8 + first % PIECES * 8
}

/// The length of a reduction of a process.
pub fn length(below: &impl Boards, comm: &Comm, of: u32, first: usize) -> u64 {
    below.board_load(Endpoint(of), length_at(comm, first))
}

/// Says how long this process's reduction is.
pub fn set_length(below: &mut impl Boards, comm: &Comm, first: usize, bytes: u64) {
    below.board_store(length_at(comm, first), bytes);
}
