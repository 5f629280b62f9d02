//! Reductions inside a machine: each member puts what it has on its board, piece after piece, and its parent takes them from there.
//! While the parent combines one, the next is on its way; nobody waits for a receive to be posted.
//!
//! # Numbers
//! Reductions of a communicator are counted, alike at all members. Piece `i` of reduction `r` has the number `r << 32 | i + 1`, which
//! only grows, whoever is whose parent: [`Flag::Offered`] of a member says which it has put out, and [`Flag::Taken`] of
//! a parent, for each level of its children, which it has taken. A member waits only before it overwrites a piece, for
//! whoever was to take that, who hands the piece's memory back first (8 KiB in 0.77 us, else 0.84 to 1.2).
//!
//! # Lengths
//! The pieces of a reduction begin at the first place or in the middle, in turn, and its length stands where that says. So a
//! parent that has another length than its child notices at the first piece, and says so to all its children, which then
//! wait for nothing, and to its own parent by a length that nobody has; so does one that misses a child. The root says so to all members.

use std::ops::Range;

use fmpl_table::code;
use mtmi::{Boards, Endpoint};

use crate::barrier::{ALL, look, looks, of_one, raise, reached, wait_on};
use crate::comm::{Comm, Offer};
use crate::face::{self, Flag, PIECE, PIECES};
use crate::flat;
use crate::host::{Below, Host, Waiting};
use crate::ops::Func;
use crate::reduce::{Reduction, Tree};

/// Up to so many bytes pieces are at most [`SMALL_PIECE`] long, so that both sides are busy at once, and their places are waited for and given
/// back as one. Between two processors that share a cache (an EPYC of the fifth generation) 8 KiB take 1.01 times what 8 KiB one way
/// and their sum do, and 1.14 to 1.19 in three pieces each of which is waited for and given back.
const SMALL: u64 = 16 << 10;
const SMALL_PIECE: usize = 2048;

// No place is used twice before it is given back.
const _: () = assert!(SMALL <= (PIECES * SMALL_PIECE) as u64);

/// The number of a piece of a reduction.
pub(crate) fn number(reduction: u64, piece: u64) -> u64 {
    reduction << 32 | (piece + 1)
}

/// A number as large as that of any piece of a reduction.
fn last(reduction: u64) -> u64 {
    reduction << 32 | u64::from(u32::MAX)
}

/// The place of a reduction's first piece.
pub(crate) fn first_place(reduction: u64) -> usize {
    (reduction % 2) as usize * (PIECES / 2)
}

/// How a reduction's length stands on the board: no other that may stand there looks like it, be it of another reduction, or of
/// one that goes the other way (`flat`). Arrays are shorter than 2^47 bytes.
pub(crate) fn length(reduction: u64, bytes: u64, flat: bool) -> u64 {
    bytes ^ (reduction << 49 >> 1) ^ (u64::from(flat) << 63)
}

/// No reduction's: there is nothing to take, as lengths differ below,
const DIFFERS: u64 = u64::MAX;
/// or as somebody is missing there.
const MISSING: u64 = u64::MAX - 1;

// Of a reduction's length this bit is not set.
const _: () = assert!(DIFFERS & MISSING & 1 << 47 != 0);

/// How one reduction is cut.
struct Cut {
    /// Its number.
    reduction: u64,
    pieces: u64,
    /// Bytes of each piece but the last,
    each: u64,
    /// and of all.
    bytes: u64,
}

impl Cut {
    fn new(reduction: &Reduction<'_>) -> Cut {
        let bytes = reduction.bytes;
        let element = u64::from(reduction.args.func.size());
        let most = if bytes <= SMALL { SMALL_PIECE } else { PIECE } as u64;
        // `run` is called for elements that fit a place.
        let each = (most / element * element).max(element);
        Cut {
            reduction: reduction.number,
            // Also nothing is a piece: so all wait alike, whatever is reduced.
            pieces: bytes.div_ceil(each).max(1),
            each,
            bytes,
        }
    }

    /// The number of a piece.
    fn number(&self, piece: u64) -> u64 {
        number(self.reduction, piece)
    }

    /// Its length, as it stands on the board.
    fn length(&self) -> u64 {
        length(self.reduction, self.bytes, false)
    }

    /// The place of the first piece.
    fn first_place(&self) -> usize {
        first_place(self.reduction)
    }

    /// The pieces from this one on whose places are waited for at once, and given back at once.
    fn batch(&self, first: u64) -> Range<u64> {
        match self.bytes <= SMALL {
            true => first..self.pieces,
            false => first..first + 1,
        }
    }

    fn place(&self, piece: u64) -> usize {
        (self.first_place() + (piece % PIECES as u64) as usize) % PIECES
    }

    /// Where a piece begins in the array, and its bytes.
    fn part(&self, piece: u64) -> (i64, usize) {
        let start = piece * self.each;
        (start as i64, self.each.min(self.bytes - start) as usize)
    }
}

/// Combines what the children have into this process's array, and offers the result to the parent.
pub(crate) fn run<H: Host>(h: &H, reduction: &Reduction<'_>) -> Result<(), i32> {
    let tree = &reduction.tree;
    let cut = Cut::new(reduction);
    let parent = tree.parent();
    let mut taken = Ok(());
    for child in tree.children() {
        taken = take(h, reduction, &cut, child);
        if taken.is_err() {
            h.with(|_, below| refuse(below, tree, reduction.number));
            break;
        }
    }
    let Some((parent, level)) = parent else {
        return taken;
    };
    let offer = Offer {
        number: 0,
        to: parent,
        taken: Flag::Taken(level),
    };
    match taken {
        Ok(()) => put_out(h, reduction, &cut, offer),
        // The parent is told, which else would wait.
        Err(why) => give_up(h, reduction, &cut, offer, why).and(taken),
    }
}

/// What the children of this process have put out, and may yet, will not be taken. A root says so to all members, of which some may
/// believe that they are its children.
pub(crate) fn refuse(below: &mut impl Below, tree: &Tree<'_>, reduction: u64) {
    let last = last(reduction);
    for (child, level) in tree.children() {
        raise(below, tree.comm, Flag::Taken(level), last, &[child]);
    }
    if tree.parent().is_none() {
        flat::tell(below, tree, last);
    }
}

/// Takes the pieces of a child and combines them.
fn take<H: Host>(
    h: &H,
    reduction: &Reduction<'_>,
    cut: &Cut,
    child: (u32, u32),
) -> Result<(), i32> {
    let (comm, args) = (reduction.comm(), reduction.args);
    let what = reduction.waiting(child.0);
    let mut piece = 0;
    while piece < cut.pieces {
        let offered = of_one(child.0, Flag::Offered, cut.number(piece));
        reached(h, comm, what, &offered)?;
        piece = h.with(|_, below| take_some(below, reduction, cut, child, piece))?;
    }
    if is_whole(&args.func) {
        // Nothing is borrowed here: the function may call us.
        args.func.apply(args.buf, args.work, args.count as u64);
    }
    Ok(())
}

/// Whether a function is called once, for all there is, as it is with messages: the program's, which sees memory of the program's.
fn is_whole(func: &Func) -> bool {
    matches!(func, Func::User { .. })
}

/// Takes a piece that is there, and those of its batch that come soon; gives the first one that did not.
fn take_some(
    below: &mut impl Below,
    reduction: &Reduction<'_>,
    cut: &Cut,
    (child, level): (u32, u32),
    first: u64,
) -> Result<u64, i32> {
    let comm = reduction.comm();
    if first == 0 {
        match face::length(below, comm, child, cut.first_place()) {
            MISSING => return Err(code::ERR_PEER),
            length if length != cut.length() => return Err(code::ERR_TRUNCATE),
            _ => {}
        }
    }
    let (batch, looks) = (cut.batch(first), looks(below));
    for piece in batch.clone() {
        let offered = of_one(child, Flag::Offered, cut.number(piece));
        if piece > first && !look(below, comm, &offered, &mut { ALL }, looks) {
            return Ok(piece);
        }
        take_piece(below, reduction, cut, (child, piece));
    }
    let number = cut.number(batch.end - 1);
    raise(below, comm, Flag::Taken(level), number, &[child]);
    Ok(batch.end)
}

/// Takes a piece that is there: to the work area, or to what we have. Its memory is the child's again.
fn take_piece(
    below: &mut impl Boards,
    reduction: &Reduction<'_>,
    cut: &Cut,
    (child, piece): (u32, u64),
) {
    let args = reduction.args;
    let combine = !is_whole(&args.func);
    let (start, bytes) = cut.part(piece);
    let at = face::piece(reduction.comm(), cut.place(piece));
    let child = Endpoint(child);
    let (own, work) = (args.buf.offset(start), args.work.offset(start));
    let count = bytes as u64 / u64::from(args.func.size());
    match below.board_view(child, at, bytes) {
        Some(theirs) if combine => args.func.apply(own, theirs, count),
        _ => {
            below.board_read(child, at, work, bytes);
            if combine {
                args.func.apply(own, work, count);
            }
        }
    }
    below.board_hand_back(child, at, bytes);
}

/// Puts the pieces out for the parent.
fn put_out<H: Host>(h: &H, reduction: &Reduction<'_>, cut: &Cut, offer: Offer) -> Result<(), i32> {
    let (comm, what) = (reduction.comm(), reduction.waiting(offer.to));
    let mut batch = cut.batch(0);
    while !batch.is_empty() {
        freed_all(h, what, comm, batch.clone().map(|piece| cut.place(piece)))?;
        h.with(|_, below| put_out_some(below, reduction, cut, offer, batch.clone()));
        batch = match batch.end {
            end if end < cut.pieces => cut.batch(end),
            end => end..end,
        };
    }
    Ok(())
}

/// Puts pieces out whose places are free.
fn put_out_some(
    below: &mut impl Below,
    reduction: &Reduction<'_>,
    cut: &Cut,
    offer: Offer,
    batch: Range<u64>,
) {
    let (comm, args) = (reduction.comm(), reduction.args);
    let number = cut.number(batch.end - 1);
    for piece in batch.clone() {
        let (place, (start, bytes)) = (cut.place(piece), cut.part(piece));
        below.board_write(face::piece(comm, place), args.buf.offset(start), bytes);
        comm.offers[place].set(Some(Offer { number, ..offer }));
        if piece == 0 {
            // In the flag's line, which the parent looks at all the time: it is to go there and back once.
            face::set_length(below, comm, place, cut.length());
        }
        face::store(below, comm, Flag::Offered, cut.number(piece));
    }
    below.ring(Endpoint(offer.to));
    let root = reduction.tree.member(0);
    if batch.start == 0 && root != offer.to {
        // One that takes from all at once, as it has another length, sees that we do not.
        below.ring(Endpoint(root));
    }
}

/// Has the parent notice that nothing comes.
fn give_up<H: Host>(
    h: &H,
    reduction: &Reduction<'_>,
    cut: &Cut,
    offer: Offer,
    why: i32,
) -> Result<(), i32> {
    let comm = reduction.comm();
    freed(h, reduction.waiting(offer.to), comm, cut.first_place())?;
    let number = last(cut.reduction);
    let length = match why {
        code::ERR_PEER => MISSING,
        _ => DIFFERS,
    };
    h.with(|_, below| {
        face::set_length(below, comm, cut.first_place(), length);
        comm.offers[cut.first_place()].set(Some(Offer { number, ..offer }));
        let who = [offer.to, reduction.tree.member(0)];
        raise(below, comm, Flag::Offered, number, &who);
    });
    Ok(())
}

/// The same as [`freed`], of several places. What was put into some as one is looked after once.
fn freed_all<H: Host>(
    h: &H,
    what: Waiting,
    comm: &Comm,
    places: impl Iterator<Item = usize>,
) -> Result<(), i32> {
    let mut known = None;
    for place in places {
        let number = comm.offers[place].get().map(|before| before.number);
        if number != known {
            freed(h, what, comm, place)?;
            known = number;
        }
    }
    Ok(())
}

/// Waits until what this process last put into a place has been taken, or never will be.
pub(crate) fn freed<H: Host>(h: &H, what: Waiting, comm: &Comm, place: usize) -> Result<(), i32> {
    let Some(before) = comm.offers[place].get() else {
        return Ok(());
    };
    let is_free = |below: &H::Below| {
        let reached = |flag, value| face::load(below, comm, before.to, flag) >= value;
        // Who has put out something of its own, and has not taken this, never will. Where roots rotate this flag was the last to be
        // looked at, so its line is here; the other's is not.
        reached(Flag::Offered, number(before.number >> 32, 0))
            || reached(before.taken, before.number)
    };
    let soon = h.with(|_, below| {
        (0..looks(below)).any(|_| {
            let free = is_free(below);
            if !free {
                std::hint::spin_loop();
            }
            free
        })
    });
    if soon {
        return Ok(());
    }
    wait_on(h, what, |core, below| match is_free(below) {
        true => Some(Ok(())),
        false => {
            let vain = comm.is_broken() || core.has_failed(before.to);
            vain.then_some(Err(code::ERR_PEER))
        }
    })
}
