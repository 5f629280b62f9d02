//! Memory of a process of this machine that it shares with nobody, read and written where it lies.

use std::io;

use boundary::UserBuf;

/// A process whose memory may be read and written, as far as the system allows it.
#[derive(Clone, Copy, Debug)]
pub struct Foreign {
    pid: i32,
}

impl Foreign {
    /// The process of this number, as this process's namespace counts.
    pub fn new(pid: i32) -> Foreign {
        Foreign { pid }
    }

    /// Copies `bytes` bytes from its address `from`.
    ///
    /// # Errors
    /// What the system says.
    pub fn read(&self, from: u64, to: UserBuf, bytes: usize) -> io::Result<()> {
        // SAFETY: the maker of `to` promised writable memory.
        unsafe { sys::foreign::read(self.pid, from, to.as_mut_ptr(), bytes) }
    }

    /// Copies `bytes` bytes to its address `to`, which it has named for that.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn write(&self, to: u64, from: UserBuf, bytes: usize) -> io::Result<()> {
        // SAFETY: the maker of `from` promised readable memory; the process itself asked to be written to there.
        unsafe { sys::foreign::write(self.pid, to, from.as_mut_ptr(), bytes) }
    }
}
