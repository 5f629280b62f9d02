//! Reductions, along a binomial tree of messages (section 5.2: the hardware has no help to give here).
//!
//! # The order
//! Ranks are counted from the root: v = (rank - root) mod p. A member combines what its children v + 1, v + 2, v + 4, …
//! (below its lowest bit) have, in this order, each into its own: `own = f(own, child's)`. So the result depends on
//! the values, the root and the number of processes, never on timing. An `allreduce` is a reduction to
//! rank 0 and a broadcast: all have the same bits.

use std::rc::Rc;

use boundary::UserBuf;
use fmpl_table::code;

use crate::bcast;
use crate::comm::Comm;
use crate::core::Lane;
use crate::host::Host;
use crate::ops::Func;
use crate::p2p::code_of;
use crate::steps::{Entered, deliver, landed, part, post};

/// The arguments of a reduction.
#[derive(Clone, Copy, Debug)]
pub struct Args {
    /// What this process has, and where the result comes.
    pub buf: UserBuf,
    /// How many elements.
    pub count: i64,
    /// How they are combined.
    pub func: Func,
    /// The communicator.
    pub comm: i32,
    /// As much memory as `buf` has.
    pub work: UserBuf,
}

impl Args {
    fn bytes(&self) -> Result<u64, i32> {
        let count = u64::try_from(self.count).map_err(|_| code::ERR_SIZE)?;
        let size = u64::from(self.func.size());
        if size == 0 {
            return Err(code::ERR_FUNCTION);
        }
        let bytes = count.checked_mul(size).ok_or(code::ERR_SIZE)?;
        if bytes > i64::MAX as u64 {
            return Err(code::ERR_SIZE);
        }
        if bytes > 0 && (self.buf.is_null() || self.work.is_null()) {
            return Err(code::ERR_BUFFER);
        }
        Ok(bytes)
    }
}

/// `fmpl_reduce`.
pub fn reduce<H: Host>(h: &H, args: &Args, root: i32) -> i32 {
    let result = args.bytes().and_then(|bytes| {
        let entered = Entered::new(h, args.comm)?;
        entered.0.peer(root).ok_or(code::ERR_RANK)?;
        run(h, "fmpl_reduce", &entered.0, args, bytes, root as u32)
    });
    code_of(result.map(|()| code::SUCCESS))
}

/// `fmpl_allreduce`.
pub fn allreduce<H: Host>(h: &H, args: &Args) -> i32 {
    let result = args.bytes().and_then(|bytes| {
        let entered = Entered::new(h, args.comm)?;
        run(h, "fmpl_allreduce", &entered.0, args, bytes, 0)?;
        bcast::run(h, &entered.0, args.buf, bytes, 0)
    });
    code_of(result.map(|()| code::SUCCESS))
}

fn run<H: Host>(
    h: &H,
    call: &'static str,
    comm: &Rc<Comm>,
    args: &Args,
    bytes: u64,
    root: u32,
) -> Result<(), i32> {
    let relative = (comm.rank + comm.size - root) % comm.size;
    let member = |relative: u32| {
        let rank = (u64::from(relative) + u64::from(root)) % u64::from(comm.size);
        comm.peer(rank as i32).unwrap_or(0)
    };
    let work = part(args.work, 0, bytes);
    let mut step = 1;
    while step < comm.size {
        if relative & step != 0 {
            let own = part(args.buf, 0, bytes);
            return deliver(h, comm, call, member(relative - step), Lane::Up, &own);
        }
        if relative + step < comm.size {
            let child = member(relative + step);
            post(h, comm, child, Lane::Up, &work)?;
            if landed(h, comm, call, child, Lane::Up)? != bytes {
                return Err(code::ERR_TRUNCATE);
            }
            // Nothing is borrowed here: the function may be the program's, and call us.
            args.func.apply(args.buf, args.work, args.count as u64);
        }
        step *= 2;
    }
    Ok(())
}
