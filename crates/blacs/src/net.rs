//! What BLACS needs of the messages below it.

use std::fmt;
use std::time::Duration;

use boundary::UserBuf;

/// One direction between this process and another, and the index that a message of it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End<C> {
    /// The communicator in which `peer` counts.
    pub comm: C,
    /// The other process.
    pub peer: u32,
    /// The index.
    pub index: u32,
}

/// Why a message did not go well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// It was longer than the receive's memory.
    Truncated,
    /// The other process is gone.
    PeerFailed,
    /// No memory is left.
    Memory,
    /// Something else, as a sentence.
    Other(String),
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Trouble::Truncated => {
                write!(f, "the message is longer than the matrix that receives it")
            }
            Trouble::PeerFailed => write!(f, "the other process is gone"),
            Trouble::Memory => write!(f, "no memory is left"),
            Trouble::Other(why) => write!(f, "{why}"),
        }
    }
}

/// Messages with sender-side matching, as FMPL has them.
///
/// * Between two processes, messages of one index match in the order sent; there is none between indices.
/// * A receive holds its index until its wait, a send that was begun with [`Net::isend`] as well. One index has
///   one of each in flight at most.
/// * No send waits for its receiver for ever: what nobody takes is copied, and whoever waits for anything sends
///   it later.
/// * Messages to oneself work like others.
pub trait Net {
    /// A communicator: an ordered list of processes.
    type Comm: Copy + PartialEq + fmt::Debug;

    /// How many indices there are between two processes, all communicators together.
    fn indices(&self) -> u32;

    /// The rank of this process among all.
    fn rank(&self) -> u32;

    /// A communicator of these processes, named by their ranks among all; only they call it. `tag` tells it from
    /// others of the same processes.
    fn comm(&mut self, members: &[u32], tag: i32) -> Result<Self::Comm, Trouble>;

    /// Frees it; its members call.
    fn comm_free(&mut self, comm: Self::Comm) -> Result<(), Trouble>;

    /// Leaves in `bits` those that any member has set.
    fn unite(&mut self, comm: Self::Comm, bits: &mut [u64]) -> Result<(), Trouble>;

    /// Sends; `buf` is free afterwards.
    fn send(&mut self, to: End<Self::Comm>, buf: UserBuf, bytes: usize) -> Result<(), Trouble>;

    /// Begins a send.
    fn isend(&mut self, to: End<Self::Comm>, buf: UserBuf, bytes: usize) -> Result<(), Trouble>;

    /// Ends the send; `buf` is free afterwards.
    fn isend_wait(&mut self, to: End<Self::Comm>) -> Result<(), Trouble>;

    /// Bytes that the receive has room for which the next message to `to` will meet. `None` if none is posted, nor comes
    /// within `patience`, or earlier messages of that index go first.
    fn room(&mut self, to: End<Self::Comm>, patience: Duration) -> Result<Option<usize>, Trouble>;

    /// Receives; a shorter message is fine.
    fn recv(&mut self, from: End<Self::Comm>, buf: UserBuf, bytes: usize) -> Result<(), Trouble>;

    /// Begins a receive.
    fn irecv(&mut self, from: End<Self::Comm>, buf: UserBuf, bytes: usize) -> Result<(), Trouble>;

    /// Ends the receive; how many bytes came.
    fn irecv_wait(&mut self, from: End<Self::Comm>) -> Result<usize, Trouble>;

    /// Broadcasts `bytes` of `root`'s `buf`; all members call.
    fn bcast(
        &mut self,
        comm: Self::Comm,
        root: u32,
        buf: UserBuf,
        bytes: usize,
    ) -> Result<(), Trouble>;

    /// Waits until all members have called it.
    fn barrier(&mut self, comm: Self::Comm) -> Result<(), Trouble>;

    /// Memory into which messages land best, for as long as the process lives.
    fn face(&mut self, bytes: usize) -> Result<UserBuf, Trouble>;
}
