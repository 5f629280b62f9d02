//! Reductions that the kernel does as a step of a chain: kaccd's program, at a socket that it gives a process for that
//! ([`cad_softirq::calc`]). No signal, no call, nothing of the rank's runs.
//!
//! Invariants: a chain has a cell of its own while its issue is under way, or as long as a kept plan keeps its chains, so no two chains mix their
//! operands; byte code that has a slot keeps it, so no chain finds another's there. An issue for which there are no cells has its reductions done as without all this, and nothing waits
//! for a cell: who held one might wait for the one that waits.
//!
//! The socket outlives kaccd, so what runs by it goes on when that is killed; only byte code that came later has no way there any more.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use boundary::UserBuf;
use cad_softirq::calc::{CELLS, Formula, How};
use cad_softirq::client::Client;
use cad_softirq::flat::Flat;
use cad_softirq::layout::{Op, SLOTS, Type};
use io_uring::types::Fd;
use io_uring::{opcode, squeue};

use crate::uring::{Act, Name, Step, Unusable, Uring};

/// How long trying it out takes at most. It is done at once or never.
const TRIAL: Duration = Duration::from_secs(1);

/// What this process's ring has of kaccd.
pub(crate) struct Cells {
    /// Its name. There is a connection only while something is asked, as it has not that many.
    kaccd: Vec<u8>,
    socket: OwnedFd,
    free: Vec<u32>,
    /// What stands in the slots.
    coded: Vec<Arc<Flat>>,
}

impl Cells {
    /// Cells that were tried out with a ring that runs nothing yet.
    ///
    /// # Errors
    /// In words, why there are none.
    pub fn new(kaccd: &[u8], uring: &mut Uring) -> Result<Cells, Unusable> {
        let none = |why: &dyn std::fmt::Display| Unusable(why.to_string());
        let client = Client::new(kaccd).map_err(|why| none(&why))?;
        let socket = client.calculate().map_err(|why| none(&why))?;
        let cells = Cells {
            kaccd: kaccd.to_vec(),
            socket,
            free: (0..CELLS).rev().collect(),
            coded: Vec::new(),
        };
        cells.try_out(uring)?;
        Ok(cells)
    }

    /// The socket.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// What it calls a way of combining operands, if it can do that.
    pub fn formula(&mut self, how: &How) -> Option<Formula> {
        let flat = match how {
            How::Standard(formula) => return Some(*formula),
            How::Coded(flat) => flat,
        };
        let known = self.coded.iter().position(|known| known == flat);
        if let Some(slot) = known {
            return Formula::coded(slot as u32);
        }
        let slot = self.coded.len() as u32;
        let put = || Client::new(&self.kaccd).and_then(|kaccd| kaccd.code(self.fd(), slot, flat));
        let put = slot < SLOTS && put().is_ok();
        put.then(|| self.coded.push(flat.clone()))?;
        Formula::coded(slot)
    }

    /// So many cells, if there are as many.
    pub fn take(&mut self, wanted: u32) -> Option<Vec<u32>> {
        let left = self.free.len().checked_sub(wanted as usize)?;
        Some(self.free.split_off(left))
    }

    /// Cells that no chain uses any more.
    pub fn give_back(&mut self, cells: &mut Vec<u32>) {
        self.free.append(cells);
    }

    /// Has the kernel add two numbers in a chain.
    fn try_out(&self, uring: &mut Uring) -> Result<(), Unusable> {
        let failed =
            |why: &str| Unusable(format!("trying a calculation in a chain out failed: {why}"));
        let sum = Formula::of(Op::Sum, Type::U64);
        let sum = sum.ok_or_else(|| failed("there are no sums"))?;
        let mut memory = Box::new([5u64.to_ne_bytes(), (7u64 << 40).to_ne_bytes()]);
        let [from, to] = memory.each_mut().map(|m| UserBuf::of_array(m));
        let acts = [
            Act::Load(to, 8, 0),
            Act::Combine(from, 8, 0, sum),
            Act::Give(to, 8, 0),
        ];
        let success = Uring::success(&acts[2]);
        let step = |act| Step {
            act,
            fd: Some(self.fd()),
        };
        let mut entries = Vec::new();
        uring.chain(0, 0, &acts.map(step), &mut entries);
        // SAFETY: the chain uses the memory, which lives until it is over, as none of its steps waits for anything; should that not be known,
        // the memory is leaked (below). The socket is open.
        let pushed = unsafe { uring.push(&entries) };
        let pushed = pushed.and_then(|()| uring.flush());
        let over = pushed
            .map_err(|e| failed(&e.to_string()))
            .map(|()| over(uring));
        match over {
            Ok(Some((true, told))) if told == success => {}
            Ok(Some((_, told))) => {
                let error = std::io::Error::from_raw_os_error(told.saturating_neg());
                return Err(failed(&format!("io_uring's commands to sockets: {error}")));
            }
            other => {
                std::mem::forget(memory);
                return Err(other.err().unwrap_or_else(|| failed("it does not end")));
            }
        }
        match u64::from_ne_bytes(memory[1]) == (7 << 40) + 5 {
            true => Ok(()),
            false => Err(failed("the result is wrong")),
        }
    }
}

/// A step that sets an option.
pub(crate) fn option(fd: Fd, level: u32, name: u32, value: UserBuf, bytes: u32) -> squeue::Entry {
    opcode::SetSockOpt::new(fd, level, name, value.as_mut_ptr().cast(), bytes).build()
}

/// The same, but it asks for the option: the crate `io-uring` has only the other one.
pub(crate) fn asked(mut entry: squeue::Entry) -> squeue::Entry {
    /// `SOCKET_URING_OP_GETSOCKOPT`, and where an entry has a command's number.
    const GET: u32 = 2;
    const COMMAND: usize = 8;
    const { assert!(size_of::<squeue::Entry>() == 64 && align_of::<squeue::Entry>() >= 4) };
    // SAFETY: an entry is the kernel's `struct io_uring_sqe` (`repr(C)` of it alone), a structure of numbers; the four bytes are inside, and aligned.
    unsafe {
        (&raw mut entry)
            .cast::<u8>()
            .add(COMMAND)
            .cast::<u32>()
            .write(GET)
    };
    entry
}

/// Waits for the one chain of a ring: whether it came to its last step, and what it told.
fn over(uring: &mut Uring) -> Option<(bool, i32)> {
    let (deadline, mut told) = (Instant::now() + TRIAL, Vec::new());
    while Instant::now() < deadline {
        uring.take(&mut told);
        for one in &told {
            if let Name::Chain { last, .. } = one.name {
                return Some((last, one.result));
            }
        }
        uring.wait(Some(Instant::now() + Duration::from_millis(10)));
    }
    None
}
