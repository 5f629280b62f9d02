//! Long data, copied by the kernel between the programs' buffers: one copy in place of two.
//!
//! A round says where data lie, and where others may write; who is through with that says so, and whoever showed something waits for that before its call is over, as its
//! buffer then is the program's again. Where one of two ranks has what the other needs, both have the kernel copy, each a part. Between two processors of a Xeon of the sixth generation 64 KiB from each of two ranks take 4.7 us so, and 6.0 through
//! common memory, whose lines have to be fetched from the reader before they are written.
//!
//! Data that have gaps are packed first, so whoever shows some shows bytes that lie side by side. Only a broadcast's go by common memory, which needs no memory for all of
//! them.
//!
//! The system may refuse at any time what it allowed when the members agreed. Who is through with a round so also says whether it has failed ([`Way::close_all`]). Then
//! all do the collective again by common memory, unless something was overwritten that it needs, which is an error at all of them; and the kernel copies no more for them.

use std::ops::Range;

use boundary::{AlignedBuf, UserBuf};
use cad::together::{BLOCK_FOR_ONE, BLOCK_GIVEN, BLOCK_OF_ONE, BLOCK_OF_TWO, PAIR, VECTOR};
use cad::{allgather, alltoall};
use fabrics::Foreign;
use layout::{Data, transfer};
use types::{Result, consts, fault};

use super::bodies::Round;
use super::moves::{Chunks, OwnBlock};
use super::reductions::{Span, Vector};
use super::rounds::Way;
use crate::internal::own_memory;

/// Bytes that are read at a time where they are combined: each piece is a system call (1 MiB in pieces of 16 KiB: 174 us, of
/// 128 KiB: 142).
const PIECE: usize = 128 << 10;

/// Eighths of the vector of two ranks that the one combines which is not the root: it reads as much as the root does for a part, and writes it too.
const HELPED: usize = 3;
/// Bytes that say where data lie: four words.
const SHOWN: usize = 32;
/// What both copy is cut where a multiple of so many bytes ends: a page, if it begins with one.
const CUT: u64 = 4096;

/// With blocks of a length in this range an alltoall of two ranks goes through them from the end to the beginning every other time: what the call before touched last is
/// in the caches still, of which who goes through more than they hold in the same order again finds nothing. Two processors of a Xeon of the fourth
/// generation, 2 MiB of second-level cache each, again and again: 1 MiB goes 1.19 times as fast as always onwards, 2 MiB 1.10 and 4 MiB 1.03 times, but 8 MiB 0.98 times, and 0.96
/// in the first twenty calls with new buffers. Where the program fills and reads its buffers between, 1 to 8 MiB go as fast (0.98 to 1.03), but 512 KiB 0.93 times.
const TURNED: Range<u64> = 1 << 20..8 << 20;
/// Bytes that go from their beginning to their end even so.
const TURNED_PIECE: usize = 256 << 10;

/// Data to be read by others, and memory to be written by another.
pub(super) struct Shown {
    at: UserBuf,
    /// Where as many bytes as lie there may be written.
    to: Option<UserBuf>,
    /// Bytes from a block to the next, and of each.
    stride: i64,
    bytes: u64,
    /// Where they were packed.
    _memory: Option<AlignedBuf>,
}

impl Shown {
    /// One block.
    pub fn one(data: &Data) -> Result<Shown> {
        Shown::blocks(1, |_| Some(data.clone()))
    }

    /// These bytes.
    fn bytes(at: UserBuf, bytes: u64) -> Shown {
        Shown {
            at,
            to: None,
            stride: 0,
            bytes,
            _memory: None,
        }
    }

    /// A place for these data, if they lie side by side there.
    fn place(data: &Data) -> Shown {
        let run = data.contiguous().map(|(at, _)| at);
        Shown {
            to: run,
            ..Shown::bytes(run.unwrap_or(UserBuf::NULL), data.len())
        }
    }

    /// Blocks of equal length.
    pub fn blocks(number: usize, block: impl Fn(usize) -> Option<Data>) -> Result<Shown> {
        let address = |i| block(i).and_then(|data| Some((data.contiguous()?.0, data.len())));
        match (address(0), address(1)) {
            (Some((at, bytes)), None) if number < 2 => Ok(Shown::bytes(at, bytes)),
            (Some((at, bytes)), Some((next, _))) => Ok(Shown {
                at,
                to: None,
                bytes,
                stride: next.addr().wrapping_sub(at.addr()) as i64,
                _memory: None,
            }),
            _ => Shown::packed(number, block),
        }
    }

    /// Where a block begins.
    fn block(&self, number: usize) -> UserBuf {
        self.at.offset(self.stride * number as i64)
    }

    /// Blocks that are packed first.
    pub fn packed(number: usize, block: impl Fn(usize) -> Option<Data>) -> Result<Shown> {
        let bytes = block(0).map_or(0, |data| data.len());
        let mut memory = own_memory(bytes as usize * number)?;
        let at = memory.buf();
        for (i, data) in (0..number).filter_map(|i| Some((i, block(i)?))) {
            let to = at.offset(i as i64 * bytes as i64);
            transfer(&data, &Data::bytes(to, bytes));
        }
        Ok(Shown {
            at,
            to: None,
            stride: bytes as i64,
            bytes,
            _memory: Some(memory),
        })
    }
}

/// Bytes from the beginning to the end, or back: where pieces of them begin, and their bytes.
fn pieces(bytes: u64, back: bool) -> impl Iterator<Item = (u64, usize)> {
    let each = if back { TURNED_PIECE } else { bytes as usize };
    let chunks = Chunks::new(bytes, each, 1);
    let last = chunks.number().saturating_sub(1);
    (0..chunks.number()).map(move |i| chunks.part(if back { last - i } else { i }))
}

/// Where data of another process lie.
#[derive(Clone, Copy)]
struct There<'a> {
    way: Way<'a>,
    process: &'a Foreign,
    rank: usize,
    at: u64,
    stride: u64,
    /// Where it may be written, if anywhere.
    to: Option<u64>,
}

impl There<'_> {
    /// Reads bytes from byte `from` of its block `block` on.
    fn read(&self, block: usize, from: u64, to: UserBuf, bytes: usize) -> Result<()> {
        let at = self.at.wrapping_add(self.stride.wrapping_mul(block as u64));
        let read = self.process.read(at.wrapping_add(from), to, bytes);
        read.map_err(|e| self.fault(&e))
    }

    /// Writes bytes behind the first `skipped` of where `to` says.
    fn write(&self, to: u64, skipped: u64, from: UserBuf, bytes: usize) -> Result<()> {
        let written = self.process.write(to.wrapping_add(skipped), from, bytes);
        written.map_err(|e| self.fault(&e))
    }

    #[cold]
    fn fault(&self, error: &std::io::Error) -> Box<types::Fault> {
        if error.kind() == std::io::ErrorKind::NotFound {
            // So its death is heard of first.
            return self
                .way
                .engine
                .lost_rank(&self.way.call.comm, self.rank as i32);
        }
        if self.way.has_given_up(self.rank) {
            // Its buffer is the program's again.
            return self.way.unsound();
        }
        let text = format!("the buffer of rank {} can't be reached: {error}", self.rank);
        fault(consts::ERR_OTHER, text)
    }
}

impl<'a> Way<'a> {
    /// Whether data from so many bytes on are read where they lie, of two ranks and of more.
    fn is_from(&self, bytes: u64, of_two: u64, of_more: u64) -> bool {
        let from = if self.place.size() == 2 {
            of_two
        } else {
            of_more
        };
        bytes >= from && self.place.is_direct()
    }

    /// Whether so goes a block that is for all,
    pub fn reads_blocks(&self, bytes: u64) -> bool {
        self.is_from(bytes, BLOCK_OF_TWO, u64::MAX)
    }

    /// one that is for one rank,
    pub fn reads_own_blocks(&self, bytes: u64) -> bool {
        self.is_from(bytes, BLOCK_OF_TWO, BLOCK_FOR_ONE)
    }

    /// a vector that all combine, if they are more than two,
    pub fn reads_vectors(&self, bytes: u64) -> bool {
        self.is_from(bytes, u64::MAX, VECTOR)
    }

    /// the block that one of two has for the other,
    pub fn copies_block(&self, bytes: u64) -> bool {
        self.is_from(bytes, BLOCK_OF_ONE, u64::MAX)
    }

    /// or the vector of one of two, which the other combines with its own.
    pub fn reads_other(&self, bytes: u64) -> bool {
        bytes < PAIR.end && self.is_from(bytes, PAIR.start, u64::MAX)
    }

    /// Says where data lie.
    fn show(&self, round: Round, shown: &Shown) -> Result<()> {
        let page = self.page(round, SHOWN)?;
        let to = shown.to.map_or(0, |to| to.addr() as u64);
        page.write_words(&[shown.at.addr() as u64, shown.stride as u64, shown.bytes, to]);
        page.publish();
        Ok(())
    }

    /// Where a rank says that its data lie, of so many bytes a block.
    fn there(&self, rank: usize, round: Round, bytes: u64) -> Result<There<'a>> {
        let theirs = self.theirs(rank, round, SHOWN)?;
        if theirs.word(2) != bytes {
            return Err(self.mismatch(rank, theirs.word(2), bytes));
        }
        let process = self.place.foreign.as_deref().and_then(|all| all.get(rank));
        let process = process.expect("data are shown where all may be read");
        Ok(There {
            way: *self,
            process,
            rank,
            at: theirs.word(0),
            stride: theirs.word(1),
            to: Some(theirs.word(3)).filter(|&to| to != 0),
        })
    }

    /// The rank of the other one of two.
    fn other(&self) -> usize {
        1 - self.place.rank()
    }

    /// A broadcast of two ranks. False: it is to be done by common memory.
    pub fn bcast_direct(&self, data: &Data, at_root: bool) -> Result<bool> {
        let round = self.place.begin(1);
        let place = Shown::place(data);
        let shown = Shown {
            to: place.to.filter(|_| !at_root),
            ..place
        };
        self.show(round, &shown)?;
        // Gaps at the root: nobody copies, so nobody waits for that.
        if at_root && shown.at == UserBuf::NULL {
            return Ok(false);
        }
        let there = self.there(self.other(), round, data.len());
        if !at_root && there.as_ref().is_ok_and(|there| there.at == 0) {
            return Ok(false);
        }
        let copied = there.and_then(|there| self.copy_part(&there, &shown, data, at_root));
        self.close_all(round, copied, true)
    }

    /// Of a broadcast's data the other rank reads the first half, and the root writes the second, if it can.
    fn copy_part(
        &self,
        there: &There<'_>,
        shown: &Shown,
        data: &Data,
        at_root: bool,
    ) -> Result<()> {
        let half = (data.len() / 2).next_multiple_of(CUT).min(data.len());
        let rest = (data.len() - half) as usize;
        match (at_root, there.to, shown.to) {
            (true, Some(to), _) => there.write(to, half, shown.at.offset(half as i64), rest),
            (true, None, _) => Ok(()),
            (false, _, Some(to)) => there.read(0, 0, to, half as usize),
            (false, _, None) => self.fetch(there, 0, data),
        }
    }

    /// Reads a block of another's to `to`.
    fn fetch(&self, there: &There<'_>, block: usize, to: &Data) -> Result<()> {
        if let Some((buf, bytes)) = to.contiguous() {
            return there.read(block, 0, buf, bytes as usize);
        }
        let mut scratch = self.scratch(PIECE)?;
        let (mut writer, mut at) = (to.writer(), 0);
        let read = loop {
            let bytes = (writer.remaining() as usize).min(PIECE);
            if bytes == 0 {
                break Ok(());
            }
            let read = there.read(block, at, scratch.buf(), bytes);
            if read.is_err() {
                break read;
            }
            let mut done = 0;
            while let Some((buf, run)) = writer.next_run(bytes - done) {
                buf.copy_from(scratch.buf().offset(done as i64), run);
                done += run;
            }
            at += bytes as u64;
        };
        self.place.scratch.set(scratch);
        read
    }

    /// Memory to work in, to be put back.
    fn scratch(&self, bytes: usize) -> Result<AlignedBuf> {
        let scratch = self.place.scratch.take();
        match scratch.len() >= bytes {
            true => Ok(scratch),
            false => own_memory(bytes),
        }
    }

    /// Says that this process is through with what was shown in a round, and what came of it, and waits until all others are. `again`: nothing was overwritten that is
    /// needed to do it again. False: all have to, by common memory.
    fn close_all(&self, round: Round, copied: Result<()>, again: bool) -> Result<bool> {
        let place = self.place;
        if copied.is_err() {
            place.say_failed(round, again);
        }
        place.say_read(round);
        let others = self.wait_for_readers(round);
        if place.spoilt.get() || others.is_err() {
            return copied.and(others).map(|()| true);
        }
        let Some(again) = place.failed(round) else {
            self.engine.places.count_copied();
            return copied.map(|()| true);
        };
        place.direct.set(false);
        match (again, copied) {
            (true, _) => Ok(false),
            (false, Err(fault)) => Err(fault),
            (false, Ok(())) => {
                let text = "another rank could not reach a buffer that it was to read or write";
                Err(fault(consts::ERR_OTHER, text))
            }
        }
    }

    /// What is shown of data of so many bytes: nothing, if there was no memory to pack them into.
    fn or_nothing(shown: Result<Shown>, bytes: u64) -> (Shown, Result<()>) {
        match shown {
            Ok(shown) => (shown, Ok(())),
            Err(fault) => (Shown::bytes(UserBuf::NULL, bytes), Err(fault)),
        }
    }

    /// Reads the blocks of all others.
    fn fetch_all(
        &self,
        round: Round,
        block: usize,
        to: impl Fn(usize) -> Option<Data>,
    ) -> Result<()> {
        for rank in self.place.others() {
            if let Some(to) = to(rank) {
                let there = self.there(rank, round, to.len())?;
                self.fetch(&there, block, &to)?;
            }
        }
        Ok(())
    }

    /// An allgather of two ranks. False: it is to be done by common memory.
    pub fn allgather_direct(
        &self,
        p: &allgather::Params,
        mine: &Data,
        own: Option<&OwnBlock>,
    ) -> Result<bool> {
        if mine.len() >= BLOCK_GIVEN {
            return self.allgather_given(p, mine, own);
        }
        let round = self.place.begin(1);
        let (shown, packed) = Self::or_nothing(Shown::one(mine), mine.len());
        self.show(round, &shown)?;
        // While that gets to the others. Before it, 64 KiB took 1.035 times as long (two processors of a Xeon of the fourth generation).
        if let Some(own) = own {
            own.copy_all();
        }
        let to = |rank| self.block_in(&p.recv, rank);
        let read = packed.and_then(|()| self.fetch_all(round, 0, to));
        self.close_all(round, read, true)
    }

    /// The same, and each writes its block to the other piece by piece, while it copies it for itself: so it is fetched once for both.
    fn allgather_given(
        &self,
        p: &allgather::Params,
        mine: &Data,
        own: Option<&OwnBlock>,
    ) -> Result<bool> {
        let round = self.place.begin(1);
        let theirs = self.block_in(&p.recv, self.other());
        let place = theirs.as_ref().and_then(Data::contiguous);
        let (shown, packed) = Self::or_nothing(Shown::one(mine), mine.len());
        let shown = Shown {
            to: place.map(|(to, _)| to),
            ..shown
        };
        self.show(round, &shown)?;
        let given = packed.and_then(|()| self.give_block(round, &shown, own));
        let moved = given.and_then(|there| match theirs.filter(|_| shown.to.is_none()) {
            Some(to) => self.fetch(&there, 0, &to),
            None => Ok(()),
        });
        self.close_all(round, moved, true)
    }

    /// Copies what is shown to this process's own block, and to where the other one of two wants it.
    fn give_block(&self, round: Round, shown: &Shown, own: Option<&OwnBlock>) -> Result<There<'a>> {
        let there = self.there(self.other(), round, shown.bytes)?;
        let chunks = Chunks::new(shown.bytes, PIECE, 1);
        for (start, bytes) in (0..chunks.number()).map(|i| chunks.part(i)) {
            if let Some(own) = own {
                own.copy((start, bytes));
            }
            if let Some(to) = there.to {
                there.write(to, start, shown.at.offset(start as i64), bytes)?;
            }
        }
        Ok(there)
    }

    /// An alltoall: blocks are read where they lie, or long ones of two ranks written to where they are wanted, if neither of these places has gaps. False: it
    /// is to be done by common memory, this process's own block too.
    pub fn alltoall_direct(
        &self,
        p: &alltoall::Params,
        own: Option<&OwnBlock>,
        bytes: u64,
    ) -> Result<bool> {
        let gives = self.place.size() == 2 && bytes >= BLOCK_GIVEN;
        let back = gives && TURNED.contains(&bytes) && self.place.turn();
        let (round, size) = (self.place.begin(1), self.place.size());
        // In place others still read what this process would overwrite.
        let shown = match p.in_place {
            true => Shown::packed(size, |rank| self.block_in(&p.recv, rank)),
            false => Shown::blocks(size, |rank| self.block_out(&p.send, rank)),
        };
        let (shown, packed) = Self::or_nothing(shown, bytes);
        let (to, me) = (|rank| self.block_in(&p.recv, rank), self.place.rank());
        let place = || to(self.other())?.contiguous();
        let shown = Shown {
            to: gives.then(place).flatten().map(|(at, _)| at),
            ..shown
        };
        self.show(round, &shown)?;
        // While that gets to the others. Before it, 32 KiB took 1.05 times as long (two processors of a Xeon of the fourth generation), from 256 KiB on as long.
        if let Some(own) = own.filter(|_| !back) {
            own.copy_all();
        }
        let moved = packed.and_then(|()| match gives && self.give_other(round, &shown, back)? {
            true => Ok(()),
            false => self.fetch_all(round, me, to),
        });
        if let Some(own) = own.filter(|_| back) {
            own.copy_pieces(pieces(bytes, back));
        }
        self.close_all(round, moved, !p.in_place)
    }

    /// Writes the block for the other one of two to where it wants it, if it does the same: both have said where. Else both read.
    fn give_other(&self, round: Round, shown: &Shown, back: bool) -> Result<bool> {
        let there = self.there(self.other(), round, shown.bytes)?;
        let (Some(to), Some(_)) = (there.to, shown.to) else {
            return Ok(false);
        };
        let from = shown.block(self.other());
        for (start, bytes) in pieces(shown.bytes, back) {
            there.write(to, start, from.offset(start as i64), bytes)?;
        }
        Ok(true)
    }

    /// Combines what all have of a part, which others have shown in a round, to `to`.
    fn combine_direct(&self, v: &Vector, round: Round, span: Span, to: UserBuf) -> Result<()> {
        self.by_piece(v, span, |piece, scratch| {
            let to = to.offset((piece.low - span.low) as i64);
            self.combine_piece(v, round, piece, to, scratch)
        })
    }

    /// Calls `step` with pieces of a part, in order, and memory for three of them.
    fn by_piece(
        &self,
        v: &Vector,
        span: Span,
        step: impl Fn(Span, UserBuf) -> Result<()>,
    ) -> Result<()> {
        let mut scratch = self.scratch(3 * PIECE)?;
        let each = PIECE / v.element * v.element;
        let mut done = Ok(());
        let mut low = span.low;
        while low < span.high && done.is_ok() {
            let piece = Span {
                low,
                high: span.high.min(low + each),
                ..span
            };
            done = step(piece, scratch.buf());
            low = piece.high;
        }
        self.place.scratch.set(scratch);
        done
    }

    fn combine_piece(
        &self,
        v: &Vector,
        round: Round,
        piece: Span,
        to: UserBuf,
        scratch: UserBuf,
    ) -> Result<()> {
        let (me, bytes) = (self.place.rank(), piece.len());
        let (highest, count) = (self.place.size() - 1, (bytes / v.element) as u64);
        let (theirs, spare) = (scratch, scratch.offset(PIECE as i64));
        let mut own = piece.of(v.from);
        let from = piece.start + piece.low as u64;
        if me == highest {
            to.copy_from(own, bytes);
        } else {
            if own == to {
                spare.copy_from(own, bytes);
                own = spare;
            }
            self.there(highest, round, v.bytes())?
                .read(0, from, to, bytes)?;
        }
        for rank in (0..highest).rev() {
            let operand = match rank == me {
                true => own,
                false => {
                    let there = self.there(rank, round, v.bytes())?;
                    there.read(0, from, theirs, bytes)?;
                    theirs
                }
            };
            v.kernel.apply(operand, to, count);
        }
        Ok(())
    }

    /// False: it is to be done by common memory.
    pub fn allreduce_direct(&self, v: &Vector) -> Result<bool> {
        let round = self.place.begin(2);
        let mine = self.part_of(v, v.whole(), self.place.rank());
        self.show(round, &Shown::bytes(v.from, v.bytes()))?;
        let combined = self.combine_direct(v, round, mine, mine.of(v.to));
        // Who has shown its part of the result reads operands no more.
        self.show(round + 1, &Shown::bytes(v.to, v.bytes()))?;
        self.all(round + 1, SHOWN)?;
        let read = combined.and_then(|()| self.fetch_parts(v, round + 1));
        self.close_all(round + 1, read, !v.in_place)
    }

    /// A reduction of two ranks: the one that is not the root combines the first part, and writes it to the root's memory; unless that has its operand there, which it
    /// needs if this fails. False: it is to be done by common memory.
    pub fn reduce_direct(&self, v: &Vector, at_root: bool) -> Result<bool> {
        let round = self.place.begin(1);
        let whole = v.whole();
        let cut = whole.len() / 8 * HELPED / v.element * v.element;
        let shown = Shown {
            to: (at_root && !v.in_place).then_some(v.to),
            // It is the same at both, if the elements are.
            stride: cut as i64,
            ..Shown::bytes(v.from, v.bytes())
        };
        self.show(round, &shown)?;
        let there = self.there(self.other(), round, v.bytes());
        let combined = there.and_then(|there| match (at_root, shown.to, there.to) {
            _ if there.stride != cut as u64 => {
                Err(self.mismatch(there.rank, there.stride, cut as u64))
            }
            (true, Some(to), _) => {
                let rest = Span { low: cut, ..whole };
                self.combine_direct(v, round, rest, rest.of(to))
            }
            (true, None, _) => self.combine_direct(v, round, whole, v.to),
            (false, _, Some(to)) => {
                self.combine_for_root(v, round, (&there, to), Span { high: cut, ..whole })
            }
            (false, _, None) => Ok(()),
        });
        self.close_all(round, combined, !v.in_place)
    }

    /// Combines a part, and writes it to where the other one of two has it.
    fn combine_for_root(
        &self,
        v: &Vector,
        round: Round,
        (there, to): (&There<'_>, u64),
        span: Span,
    ) -> Result<()> {
        self.by_piece(v, span, |piece, scratch| {
            let combined = scratch.offset(2 * PIECE as i64);
            self.combine_piece(v, round, piece, combined, scratch)?;
            there.write(to, piece.low as u64, combined, piece.len())
        })
    }

    /// Reads the parts of the result that others have shown.
    fn fetch_parts(&self, v: &Vector, round: Round) -> Result<()> {
        for rank in self.place.others() {
            let part = self.part_of(v, v.whole(), rank);
            let there = self.there(rank, round, v.bytes())?;
            there.read(0, part.low as u64, part.of(v.to), part.len())?;
        }
        Ok(())
    }
}
