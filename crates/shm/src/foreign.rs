//! Memory of a process of this machine that it shares with nobody, read and written where it lies.
//!
//! Which process that is its peer only says; so before anything is copied it is looked for the [mark](sys::mark) of that rank on it. A peer that ends and whose
//! number goes to another process at once is not guarded against: the system's numbers come round in the thousands or millions, and nothing is copied
//! for a peer that is known to have failed.

use std::io;

use boundary::UserBuf;
use mtmi::Endpoint;

use crate::Shm;

/// A process whose memory may be read and written, as far as the system allows it.
#[derive(Clone, Copy, Debug)]
pub struct Foreign {
    pid: i32,
}

impl Foreign {
    /// The process of this number, as this process's namespace counts.
    pub(crate) fn new(pid: i32) -> Foreign {
        Foreign { pid }
    }

    /// Whether its memory can be read: this word is found there.
    pub fn has(&self, at: u64, word: u64) -> bool {
        let mut found = [0; 8];
        let read = self.read(at, UserBuf::of_array(&mut found), 8);
        read.is_ok() && u64::from_ne_bytes(found) == word
    }

    /// Whether its memory can be read and written: this word is found there, and put there again, at which nobody else may look or write meanwhile but in this way.
    pub fn is_open(&self, at: u64, word: u64) -> bool {
        let mut same = word.to_ne_bytes();
        self.has(at, word) && self.write(at, UserBuf::of_array(&mut same), 8).is_ok()
    }

    /// Copies `bytes` bytes from its address `from`.
    ///
    /// # Errors
    /// What the system says.
    pub fn read(&self, from: u64, to: UserBuf, bytes: usize) -> io::Result<()> {
        #[cfg(all(test, not(loom)))]
        refusals::next()?;
        // SAFETY: the maker of `to` promised writable memory.
        unsafe { sys::foreign::read(self.pid, from, to.as_mut_ptr(), bytes) }
    }

    /// Copies `bytes` bytes to its address `to`, which it has named for that.
    ///
    /// # Errors
    /// What the system says.
    pub fn write(&self, to: u64, from: UserBuf, bytes: usize) -> io::Result<()> {
        #[cfg(all(test, not(loom)))]
        refusals::next()?;
        // SAFETY: the maker of `from` promised readable memory; the process itself asked to be written to there.
        unsafe { sys::foreign::write(self.pid, to, from.as_mut_ptr(), bytes) }
    }
}

/// Where a system with the Yama module, which Debian's and Ubuntu's kernels have, says who may look at whose memory: 0, whoever could without it.
const SCOPE: &str = "/proc/sys/kernel/yama/ptrace_scope";

/// Whether processes of one user may read each other's memory here, as far as one sees by itself: no filter of its system calls refuses it that,
/// and Yama does not. What else may refuse it (SELinux, namespaces of users) shows when it is tried.
pub(crate) fn is_allowed() -> bool {
    let word = sys::clock::cycles();
    let at = std::ptr::from_ref(&word).expose_provenance() as u64;
    let own = Foreign::new(std::process::id() as i32);
    // Without that module there is no such file.
    let scope = std::fs::read_to_string(SCOPE).unwrap_or_default();
    own.has(at, word) && matches!(scope.trim(), "" | "0")
}

impl Shm {
    /// Whether long messages are read where they lie, as the rank believes that made the segment: the same for all ranks, whatever each of them finds out later.
    pub fn lends(&self) -> bool {
        self.segment.lends()
    }

    /// Whether the kernel is to copy between processes where nobody measures whether that is faster.
    pub fn copies_between(&self) -> bool {
        self.choice.copies_unmeasured()
    }

    /// The process `of`, which says that it has this number. `None`: that can't be seen, or it is not so.
    pub fn process(&mut self, of: Endpoint, pid: i32) -> Option<Foreign> {
        let member = self.members.binary_search(&of.0).ok()? as u32;
        let known = &mut self.peers[of.0 as usize].process;
        // Also that it is not, as whoever asks often would look often; but not that it could not be seen.
        if known.is_none_or(|(asked, _)| asked != pid) {
            *known = Some((pid, self.segment.is_process_of(member, pid).ok()?));
        }
        known.filter(|&(_, is_it)| is_it).map(|_| Foreign::new(pid))
    }
}

/// Copies that tests have refused in the middle of others.
#[cfg(all(test, not(loom)))]
pub(crate) mod refusals {
    use std::cell::Cell;
    use std::io;

    thread_local! {
        static ONE_IN: Cell<u64> = const { Cell::new(0) };
        static RANDOM: Cell<u64> = const { Cell::new(0) };
    }

    /// From now on one in so many copies of this thread is refused, none if that is 0.
    pub fn begin(one_in: u64, seed: u64) {
        ONE_IN.set(one_in);
        RANDOM.set(seed);
    }

    pub(super) fn next() -> io::Result<()> {
        let random = RANDOM.get();
        RANDOM.set(random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0xb));
        match ONE_IN.get() {
            0 => Ok(()),
            n if !(random >> 33).is_multiple_of(n) => Ok(()),
            _ => Err(io::ErrorKind::PermissionDenied.into()),
        }
    }
}
