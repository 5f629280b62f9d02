//! Where the flags and the two faces of a communicator lie on its members' boards: what takes the place of
//! the paper's barrier and broadcast hardware inside a machine.
//!
//! The paper's served one rectangular partition, and one broadcast at a time. Here each communicator has, on the board of
//! each of its members, a page of flags and two faces (section 5.2: "two faces of buffers in the static area"),
//! at a place that follows from the communicator's number, which is the same at all members. So any set of processes
//! will do, and communicators don't disturb each other. Those whose number is too large for the boards use
//! messages. Each flag is written by one process, only ever grows, and stands in lines of its own.

use mtmi::{Boards, Endpoint};

use crate::comm::Comm;

/// Bytes of a face.
pub const FACE: usize = 65_536;
const PAGE: usize = 4096;
const STRIDE: usize = PAGE + 2 * FACE;
/// Distance of flags: processors fetch lines in pairs.
const APART: usize = 128;

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
}

fn place(comm: &Comm) -> usize {
    comm.id as usize * STRIDE
}

/// Whether a communicator can use flags and faces.
pub fn has_faces(comm: &Comm, below: &impl Boards) -> bool {
    comm.together && place(comm) + STRIDE <= below.board_bytes()
}

/// A flag of a process.
#[inline]
pub fn load(below: &impl Boards, comm: &Comm, of: u32, flag: Flag) -> u64 {
    below.board_load(Endpoint(of), place(comm) + flag as usize * APART)
}

/// Sets a flag of this process.
#[inline]
pub fn store(below: &mut impl Boards, comm: &Comm, flag: Flag, value: u64) {
    below.board_store(place(comm) + flag as usize * APART, value);
}

/// Lowers all flags of this process, for the next communicator of this number.
pub fn lower(comm: &Comm, below: &mut impl Boards) {
    if has_faces(comm, below) {
        for flag in [Flag::Arrived, Flag::Released, Flag::Published, Flag::Passed] {
            store(below, comm, flag, 0);
        }
    }
}

/// Where the face of a chunk begins on the board of whoever broadcasts it.
pub fn face(comm: &Comm, chunk: u64) -> usize {
    place(comm) + PAGE + (chunk % 2) as usize * FACE
}
