//! Reductions, along a binomial tree: of pieces on boards inside a machine (see [`crate::pieces`]), which the root goes through alone where it
//! is small (see [`crate::flat`]), of messages elsewhere (section 5.2: the paper's hardware has no help to give here).
//!
//! # The order
//! Ranks are counted from the root: v = (rank - root) mod p. A member combines what its children v + 1, v + 2, v + 4, …
//! (below its lowest bit) have, in this order, each into its own: `own = f(own, child's)`. So the result depends on
//! the values, the root and the number of processes, never on timing. An `allreduce` is a reduction to
//! rank 0 and a broadcast: all have the same bits.

use boundary::UserBuf;
use fmpl_table::code;

use crate::bcast;
use crate::comm::Comm;
use crate::core::Lane;
use crate::face::{self, PIECE};
use crate::flat;
use crate::host::{Host, Waiting};
use crate::ops::Func;
use crate::p2p::code_of;
use crate::pieces;
use crate::steps::{Entered, deliver, landed, part, post, waiting};

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
        let apart = self.buf.addr().abs_diff(self.work.addr()) as u64 >= bytes;
        if bytes > 0 && (self.buf.is_null() || self.work.is_null() || !apart) {
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
        entered.run(|comm| run(h, "fmpl_reduce", comm, args, bytes, root as u32))
    });
    code_of(result.map(|()| code::SUCCESS))
}

/// `fmpl_allreduce`.
pub fn allreduce<H: Host>(h: &H, args: &Args) -> i32 {
    let result = args.bytes().and_then(|bytes| {
        let entered = Entered::new(h, args.comm)?;
        entered.run(|comm| {
            run(h, "fmpl_allreduce", comm, args, bytes, 0)?;
            bcast::run(h, comm, args.buf, bytes, 0)
        })
    });
    code_of(result.map(|()| code::SUCCESS))
}

fn run<H: Host>(
    h: &H,
    call: &'static str,
    comm: &Comm,
    args: &Args,
    bytes: u64,
    root: u32,
) -> Result<(), i32> {
    let number = comm.reductions.get() + 1;
    comm.reductions.set(number);
    let reduction = Reduction {
        call,
        tree: Tree::new(comm, root),
        args,
        bytes,
        number,
    };
    let boards = args.func.size() as usize <= PIECE
        && h.with(|core, below| !core.software && face::has_faces(comm, below));
    match boards {
        true if flat::is_small(&reduction) => flat::run(h, &reduction),
        true => pieces::run(h, &reduction),
        false => messages(h, &reduction),
    }
}

/// A reduction of this process under way.
pub(crate) struct Reduction<'a> {
    /// The call.
    pub call: &'static str,
    /// Among whom, and along which tree.
    pub tree: Tree<'a>,
    /// What is combined,
    pub args: &'a Args,
    /// and its bytes.
    pub bytes: u64,
    /// How many reductions of the communicator this is, alike at all members.
    pub number: u64,
}

impl<'a> Reduction<'a> {
    /// The communicator.
    #[inline]
    pub fn comm(&self) -> &'a Comm {
        self.tree.comm
    }

    /// What a wait for a process is for.
    pub fn waiting(&self, peer: u32) -> Waiting {
        waiting(self.call, peer, self.bytes)
    }
}

/// A member's place in the tree.
pub(crate) struct Tree<'a> {
    /// Whose.
    pub comm: &'a Comm,
    root: u32,
    /// Its rank, counted from the root.
    relative: u32,
}

impl Tree<'_> {
    /// The tree with this root.
    pub fn new(comm: &Comm, root: u32) -> Tree<'_> {
        let relative = (comm.rank + comm.size - root) % comm.size;
        Tree {
            comm,
            root,
            relative,
        }
    }

    /// The process of a rank that is counted from the root.
    #[inline]
    pub fn member(&self, relative: u32) -> u32 {
        // Both are numbers of members, of which there are far fewer than 2^31.
        let rank = match relative + self.root {
            rank if rank >= self.comm.size => rank - self.comm.size,
            rank => rank,
        };
        self.comm.peer(rank as i32).unwrap_or(0)
    }

    /// The parent, and of which level this process is its child.
    pub fn parent(&self) -> Option<(u32, u32)> {
        let level = self.relative.trailing_zeros();
        (self.relative > 0).then(|| (self.member(self.relative - (1 << level)), level))
    }

    /// The children with their levels, in the order of combining.
    pub fn children(&self) -> impl Iterator<Item = (u32, u32)> {
        let below = match self.relative {
            0 => u32::BITS - 1,
            relative => relative.trailing_zeros(),
        };
        (0..below)
            .map(|level| (u64::from(self.relative) + (1 << level), level))
            .take_while(|&(child, _)| child < u64::from(self.comm.size))
            .map(|(child, level)| (self.member(child as u32), level))
    }
}

/// By messages.
fn messages<H: Host>(h: &H, reduction: &Reduction<'_>) -> Result<(), i32> {
    let (comm, args, bytes) = (reduction.comm(), reduction.args, reduction.bytes);
    let call = reduction.call;
    let work = part(args.work, 0, bytes);
    for (child, _) in reduction.tree.children() {
        post(h, comm, child, Lane::Up, &work)?;
        if landed(h, comm, call, child, Lane::Up)? != bytes {
            return Err(code::ERR_TRUNCATE);
        }
        // Nothing is borrowed here: the function may be the program's, and call us.
        args.func.apply(args.buf, args.work, args.count as u64);
    }
    let Some((parent, _)) = reduction.tree.parent() else {
        return Ok(());
    };
    let own = part(args.buf, 0, bytes);
    deliver(h, comm, call, parent, Lane::Up, &own)
}
