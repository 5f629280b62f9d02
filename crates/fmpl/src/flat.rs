//! Reductions inside a machine of few bytes among few: each member puts all it has on its board, and the root takes it from there.
//! No member waits for another but the root, so where members share processors each needs one turn of one, and the tree as
//! many as it has levels: 8 KiB among 8 on 2 processors take 13 us, along the tree 28.
//!
//! # The order
//! It is the tree's, of which the root combines every part: counted from the root, members are taken in the order 1, 2, 3, …, and what a member
//! with children has is collected beside (in [`Scratch`]) until its last one is there. So the bits are those of the tree, of
//! pieces and of messages.
//!
//! # Numbers, lengths and memory
//! These are those of [`crate::pieces`], where a reduction here is one piece, in as many places as it needs, whose taking the root tells all by
//! one flag ([`Flag::Gathered`]). Its length is marked, so that whoever takes the one for the other, as a program's processes don't agree on
//! the length or the function, notices.

use std::ops::Range;

use boundary::{AlignedBuf, UserBuf};
use fmpl_table::code;
use mtmi::{Boards, Endpoint};

use crate::barrier::{Goal, raise, reached_some};
use crate::comm::Offer;
use crate::face::{self, Flag, PIECE, PIECES};
use crate::host::{Below, Host};
use crate::ops::Func;
use crate::pieces::{self, freed, length, number, refuse};
use crate::reduce::{Args, Reduction, Tree};

/// Most members.
const MEMBERS: u32 = 16;
/// Most bytes that a root takes, of all: 8 KiB of 8 members. Where each has a processor, those of a tree share more.
const BYTES: u64 = 64 << 10;
/// Bytes that are combined at a time, so that they are still in the cache where they are collected.
const STEP: usize = 4096;
/// Levels of the tree of so many members.
const LEVELS: usize = MEMBERS.ilog2() as usize;

// Two members share the work, piece by piece; three have this much at most.
const _: () = assert!(BYTES / 3 <= (PIECES / 2 * PIECE) as u64);

/// What the root collects of members that have children, a step at a time. The process keeps one for the next reduction; a reduction has it to
/// itself, as others may be under way in other threads meanwhile.
#[derive(Default)]
pub(crate) struct Scratch(AlignedBuf);

impl Scratch {
    /// The part for members of this level.
    fn part(&mut self, level: u32) -> UserBuf {
        self.0.buf().offset((level as usize % LEVELS * STEP) as i64)
    }

    fn ready(&mut self) -> Result<(), i32> {
        if self.0.is_empty() {
            self.0 = AlignedBuf::new(LEVELS * STEP).ok_or(code::ERR_MEMORY)?;
        }
        Ok(())
    }
}

/// The first place for a reduction. What takes one has each in turn, so that a member may be as many ahead of the roots as there are
/// places, and waits for them the more seldom.
fn first_place(reduction: u64, bytes: u64) -> usize {
    match bytes <= PIECE as u64 {
        true => (reduction % PIECES as u64) as usize,
        false => pieces::first_place(reduction),
    }
}

/// Whether a reduction goes this way; the same at all members.
pub(crate) fn is_small(reduction: &Reduction<'_>) -> bool {
    let (args, bytes) = (reduction.args, reduction.bytes);
    let comm = reduction.comm();
    (3..=MEMBERS).contains(&comm.size)
        && bytes.saturating_mul(u64::from(comm.size)) <= BYTES
        && args.func.size() as usize <= STEP
        // The program's function is called once for each part, as it is with messages, and sees memory of the program's.
        && !matches!(args.func, Func::User { .. })
}

/// Combines what all have into the root's array.
pub(crate) fn run<H: Host>(h: &H, reduction: &Reduction<'_>) -> Result<(), i32> {
    let tree = &reduction.tree;
    if tree.parent().is_some() {
        return offer(h, reduction);
    }
    let gathered = gather(h, reduction);
    match gathered {
        Ok(()) => h.with(|_, below| tell(below, tree, number(reduction.number, 0))),
        // What is on the boards, and may yet be, will not be taken.
        Err(_) => h.with(|_, below| refuse(below, tree, reduction.number)),
    }
    gathered
}

/// Tells all members what has been taken.
pub(crate) fn tell(below: &mut impl Below, tree: &Tree<'_>, number: u64) {
    raise(below, tree.comm, Flag::Gathered, number, &[]);
    (1..tree.comm.size).for_each(|v| below.ring(Endpoint(tree.member(v))));
}

/// Puts what this process has out for the root.
fn offer<H: Host>(h: &H, reduction: &Reduction<'_>) -> Result<(), i32> {
    let (tree, bytes) = (&reduction.tree, reduction.bytes);
    let (comm, root) = (tree.comm, tree.member(0));
    let first = first_place(reduction.number, bytes);
    let places = first..first + bytes.div_ceil(PIECE as u64).max(1) as usize;
    let what = reduction.waiting(root);
    let mut free = Ok(());
    for place in places.clone() {
        match freed(h, what, comm, place) {
            // What lies here may still be taken, and the root of this knows of the death as well.
            Err(code) if comm.is_broken() => return Err(code),
            other => free = free.and(other),
        }
    }
    // Whoever was to take what lay here before may have left; the root of this is not to wait for that.
    let number = number(reduction.number, 0);
    h.with(|_, below| {
        below.board_write(face::piece(comm, first), reduction.args.buf, bytes as usize);
        face::set_length(below, comm, first, length(reduction.number, bytes, true));
        let offer = Offer {
            number,
            to: root,
            taken: Flag::Gathered,
        };
        places.for_each(|place| comm.offers[place].set(Some(offer)));
        raise(below, comm, Flag::Offered, number, &[root]);
        // Who goes along the tree, as it has another length, sees by this that we do not.
        let others = tree.children().chain(tree.parent());
        others.for_each(|(other, _)| below.ring(Endpoint(other)));
    });
    free
}

/// The root's part.
fn gather<H: Host>(h: &H, reduction: &Reduction<'_>) -> Result<(), i32> {
    let mut scratch = h.with(|core, _| std::mem::take(&mut core.scratch));
    let gathered = scratch
        .ready()
        .and_then(|()| gather_in(h, reduction, &mut scratch));
    h.with(|core, _| core.scratch = scratch);
    gathered
}

fn gather_in<H: Host>(h: &H, reduction: &Reduction<'_>, scratch: &mut Scratch) -> Result<(), i32> {
    let (tree, args, bytes) = (&reduction.tree, reduction.args, reduction.bytes);
    let (comm, first) = (tree.comm, first_place(reduction.number, bytes));
    let offered = Goal {
        peers: |i| {
            let v = i as u32 + 1;
            (v < comm.size).then(|| tree.member(v))
        },
        flag: Flag::Offered,
        value: number(reduction.number, 0),
    };
    let length = length(reduction.number, bytes, true);
    let element = args.func.size() as usize;
    let step = STEP / element * element;
    let mut steps = (0..(bytes as usize).max(1))
        .step_by(step)
        .map(|start| Step {
            tree,
            args,
            at: face::piece(comm, first) + start,
            part: start..(bytes as usize).min(start + step),
        });
    let begin = steps.next();
    for v in 1..comm.size {
        let i = v as usize - 1;
        let what = reduction.waiting(tree.member(v));
        reached_some(h, comm, what, &offered, i..i + 1)?;
        h.with(|_, below| {
            if face::length(below, comm, tree.member(v), first) != length {
                return Err(code::ERR_TRUNCATE);
            }
            begin.iter().for_each(|step| step.take(scratch, below, v));
            Ok(())
        })?;
    }
    // All are there: nobody has to be let in any more.
    h.with(|_, below| {
        for step in steps {
            (1..comm.size).for_each(|v| step.take(scratch, below, v));
        }
    });
    Ok(())
}

/// Some of all members' elements.
struct Step<'a> {
    tree: &'a Tree<'a>,
    args: &'a Args,
    /// Where it begins on the boards,
    at: usize,
    /// and in the array.
    part: Range<usize>,
}

impl Step<'_> {
    /// What `v` and those below it have is combined here.
    fn own(&self, scratch: &mut Scratch, v: u32) -> UserBuf {
        match v {
            0 => self.args.buf.offset(self.part.start as i64),
            v => scratch.part(v.trailing_zeros()),
        }
    }

    /// Takes what member `v` has, when all before it have been taken.
    fn take(&self, scratch: &mut Scratch, below: &mut impl Boards, v: u32) {
        let (bytes, func) = (self.part.len(), &self.args.func);
        let count = bytes as u64 / u64::from(func.size());
        let member = Endpoint(self.tree.member(v));
        let parent = |v: u32| v & (v - 1);
        let mut own = v;
        match below.board_view(member, self.at, bytes) {
            Some(theirs) if self.last(v) == v => {
                func.apply(self.own(scratch, parent(v)), theirs, count);
                own = parent(v);
            }
            _ => below.board_read(member, self.at, self.own(scratch, v), bytes),
        }
        below.board_hand_back(member, self.at, bytes);
        // Whose last child that was has all.
        while own > 0 && self.last(own) == v {
            let (theirs, into) = (self.own(scratch, own), self.own(scratch, parent(own)));
            func.apply(into, theirs, count);
            own = parent(own);
        }
    }

    /// The last member of those below `v`, or itself.
    fn last(&self, v: u32) -> u32 {
        let beyond = v + (1 << v.trailing_zeros());
        beyond.min(self.tree.comm.size) - 1
    }
}
