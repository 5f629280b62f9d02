//! Collectives that compute, with the standard's operations or byte code, on types whose elements lie side by side.
//!
//! # Order
//! Operands are combined from the highest rank down, whoever does it, so all get the same bits, and in every run the same.

use std::ops::RangeInclusive;

use boundary::UserBuf;
use bytecode::Program;
use cad::together::{CHUNK, PARTED};
use cad::{allreduce, reduce, scan};
use layout::Data;
use op::Kernel;
use types::Result;

use super::bodies::Round;
use super::moves::Chunks;
use super::rounds::{Page, Way};
use crate::coll::Planned;
use crate::ops::Op;

/// Most bytes of an element: what is combined at a time has room for many.
const ELEMENT_MAX: u64 = 1 << 10;

/// Of vectors of so many bytes that both of two ranks combine each chunk is combined from two places in turn,
const HALVED: RangeInclusive<u64> = 8 << 10..=512 << 10;
/// so many bytes at each: the processor then has lines of both under way that the other rank has written, more than it asks for of one. Two far
/// cores of an EPYC of the fifth generation, 32, 64, 128, 256 and 512 KiB: 2.02, 3.45, 6.88, 13.8 and 29.0 us so, and 2.27, 4.00, 7.82, 15.6 and 29.9 from
/// one place; but 1 MiB, which their second-level caches don't hold, 58.5 and 55.6. Near ones as long both ways. With turns of 512 bytes 256 KiB take 14.2, of
/// 2 KiB 15.1, from four places 18; and a reduction at one rank takes 8 % longer from two.
const TURN: usize = 1 << 10;

/// What combines elements.
#[derive(Clone, Copy)]
pub(super) enum Combine<'a> {
    /// An operation of the standard's.
    Kernel(Kernel),
    /// Byte code.
    Program(&'a Program),
}

impl Combine<'_> {
    /// `inout[i] = input[i] op inout[i]`.
    pub fn apply(self, input: UserBuf, inout: UserBuf, count: u64) {
        match self {
            Combine::Kernel(kernel) => kernel.apply(input, inout, count),
            Combine::Program(program) => op::apply_program(program, input, inout, count),
        }
    }

    /// `to[i] = a[i] op b[i]`, where `to` overlaps neither of the two or is `b`.
    fn combine(self, a: UserBuf, b: UserBuf, to: UserBuf, count: u64) {
        match self {
            Combine::Kernel(kernel) => kernel.combine(a, b, to, count),
            Combine::Program(program) => {
                to.copy_from(b, count as usize * program.element() as usize);
                op::apply_program(program, a, to, count);
            }
        }
    }
}

/// The operands of a reduction, and where its result goes.
pub(super) struct Vector<'a> {
    pub kernel: Combine<'a>,
    /// Bytes of an element.
    pub element: usize,
    /// This process's operand,
    pub from: UserBuf,
    /// and whether the result overwrites it.
    pub in_place: bool,
    pub to: UserBuf,
    chunks: Chunks,
}

impl Vector<'_> {
    pub fn bytes(&self) -> u64 {
        self.chunks.bytes()
    }

    /// The same, in chunks for one process that combines them alone.
    fn for_one(self) -> Self {
        let chunks = Chunks::combined(self.bytes(), self.element as u64);
        Vector { chunks, ..self }
    }

    /// All of it.
    pub fn whole(&self) -> Span {
        Span::whole((0, self.bytes() as usize))
    }
}

/// A part of a chunk, or of a whole vector.
#[derive(Clone, Copy)]
pub(super) struct Span {
    /// Where the chunk begins in the vector,
    pub start: u64,
    /// its bytes,
    pub bytes: usize,
    /// and where in it the part begins and ends.
    pub low: usize,
    pub high: usize,
}

impl Span {
    fn whole((start, bytes): (u64, usize)) -> Span {
        Span {
            start,
            bytes,
            low: 0,
            high: bytes,
        }
    }

    /// The part that one of `members` combines for all.
    fn part(self, rank: usize, members: usize, element: usize) -> Span {
        let each = (self.bytes / element).div_ceil(members) * element;
        Span {
            low: (rank * each).min(self.bytes),
            high: ((rank + 1) * each).min(self.bytes),
            ..self
        }
    }

    pub fn len(&self) -> usize {
        self.high - self.low
    }

    /// Where it lies in a vector at `buf`.
    pub fn of(&self, buf: UserBuf) -> UserBuf {
        buf.offset(self.start as i64 + self.low as i64)
    }
}

/// What combines the elements of a call.
#[inline]
pub(super) fn kernel(call: &Planned) -> Option<Combine<'_>> {
    match call.op.as_deref()? {
        Op::Builtin(builtin) => {
            let kernel = op::kernel(*builtin, call.recv_type.as_ref()?.basic()?.elem);
            kernel.map(Combine::Kernel)
        }
        Op::Bytecode { program, .. } => Some(Combine::Program(program)),
        Op::User { .. } => None,
    }
}

impl<'a> Way<'a> {
    /// Whether a reduction of `count` elements goes here.
    pub fn reduces(&self, count: u64) -> bool {
        let fits = |size: u64| size <= ELEMENT_MAX && size.checked_mul(count).is_some();
        let ty = self.call.recv_type.as_ref();
        ty.is_some_and(|ty| ty.is_dense() && fits(ty.size())) && self.kernel.is_some()
    }

    /// The operands of `count` elements, if it has some.
    fn vector(&self, count: u64, in_place: bool) -> Option<Vector<'a>> {
        let element = self.call.recv_type.as_ref()?.size();
        let to = self.call.recv;
        let vector = Vector {
            kernel: self.kernel?,
            element: element as usize,
            from: if in_place { to } else { self.call.send },
            in_place,
            to,
            chunks: Chunks::new(count * element, CHUNK, element),
        };
        (count > 0).then_some(vector)
    }

    /// Writes this process's part of a chunk for a round.
    fn put(&self, v: &Vector, round: Round, span: Span) -> Result<Page<'_>> {
        let page = self.page(round, span.bytes)?;
        page.write(
            &Data::bytes(v.from, v.chunks.bytes()),
            span.start,
            span.bytes,
        );
        Ok(page)
    }

    /// Waits for what the first `ranks` ranks, but this one, have published in a round.
    fn wait_for(&self, ranks: usize, round: Round, bytes: usize) -> Result<()> {
        let below = |&rank: &usize| rank < ranks;
        for rank in self.place.others().filter(below) {
            self.theirs(rank, round, bytes)?;
        }
        Ok(())
    }

    /// Combines what the first `ranks` ranks have of a part of what they have published in a round.
    fn combine(&self, v: &Vector, ranks: usize, round: Round, span: Span, to: UserBuf) {
        let operand = |rank| self.operand(v, rank, round, span);
        let count = (span.len() / v.element) as u64;
        match ranks {
            0 => return,
            1 => return to.copy_from(operand(0), span.len()),
            _ => {
                let (last, before) = (operand(ranks - 1), operand(ranks - 2));
                v.kernel.combine(before, last, to, count);
            }
        }
        let rest = (0..ranks - 2).rev();
        rest.for_each(|rank| v.kernel.apply(operand(rank), to, count));
    }

    /// What a rank has of a part of what was published in a round.
    fn operand(&self, v: &Vector, rank: usize, round: Round, span: Span) -> UserBuf {
        let page = match (rank == self.place.rank(), v.in_place) {
            (true, false) => return span.of(v.from),
            (true, true) => self.published_by(rank, round.alone(), span.bytes),
            (false, _) => self.published_by(rank, round, span.bytes),
        };
        page.memory(span.low, span.len())
    }

    /// The same as [`combine`](Way::combine) of the only two ranks, half by half in turn.
    fn combine_halves(&self, v: &Vector, round: Round, span: Span, to: UserBuf) {
        let [first, last] = [0, 1].map(|rank| self.operand(v, rank, round, span));
        let part = |start: usize, bytes: usize| {
            let [first, last, to] = [first, last, to].map(|buf| buf.offset(start as i64));
            let count = bytes / v.element;
            v.kernel.combine(first, last, to, count as u64);
        };
        let turn = TURN / v.element * v.element;
        let half = span.len() / 2 / turn * turn;
        for start in (0..half).step_by(turn) {
            part(start, turn);
            part(half + start, turn);
        }
        part(2 * half, span.len() - 2 * half);
    }

    /// Whether each member combines a part for all.
    fn is_parted(&self, span: Span) -> bool {
        let members = self.place.size();
        members > 2 && span.bytes * members >= PARTED
    }

    pub fn allreduce(&self, p: &allreduce::Params) -> Result<()> {
        let Some(v) = self.vector(p.count, p.in_place) else {
            return Ok(());
        };
        if self.reads_vectors(v.chunks.bytes()) && self.allreduce_direct(&v)? {
            return Ok(());
        }
        if self.is_parted(Span::whole(v.chunks.part(0))) {
            return self.allreduce_parted(&v);
        }
        let all = self.place.size();
        let put = |chunk, round| {
            let page = self.put(&v, round, Span::whole(v.chunks.part(chunk)))?;
            page.publish();
            Ok(())
        };
        let take = |chunk, round| {
            let span = Span::whole(v.chunks.part(chunk));
            self.wait_for(all, round, span.bytes)?;
            match all {
                2 if HALVED.contains(&v.bytes()) => {
                    self.combine_halves(&v, round, span, span.of(v.to))
                }
                _ => self.combine(&v, all, round, span, span.of(v.to)),
            }
            Ok(())
        };
        self.exchange(v.chunks.number(), put, take)
    }

    /// Publishes a chunk and waits for the others': the part that this process combines.
    fn share(&self, v: &Vector, round: Round, span: Span) -> Result<Span> {
        self.put(v, round, span)?.publish();
        self.wait_for(self.place.size(), round, span.bytes)?;
        Ok(self.part_of(v, span, self.place.rank()))
    }

    pub(super) fn part_of(&self, v: &Vector, span: Span, rank: usize) -> Span {
        span.part(rank, self.place.size(), v.element)
    }

    fn allreduce_parted(&self, v: &Vector) -> Result<()> {
        let first = self.place.begin(2 * v.chunks.number());
        for chunk in 0..v.chunks.number() {
            let (round, span) = (first + 2 * chunk, Span::whole(v.chunks.part(chunk)));
            let mine = self.share(v, round, span)?;
            self.combine(v, self.place.size(), round, mine, mine.of(v.to));
            self.place.all_have_read(round - 1);
            let page = self.page(round + 1, mine.len())?;
            page.write(
                &Data::bytes(mine.of(v.to), mine.len() as u64),
                0,
                mine.len(),
            );
            page.publish();
            self.read_parts(v, round + 1, span)?;
            self.place.all_have_read(round);
        }
        Ok(())
    }

    /// Reads the parts that the others have combined.
    fn read_parts(&self, v: &Vector, round: Round, span: Span) -> Result<()> {
        for rank in self.place.others() {
            let part = self.part_of(v, span, rank);
            let theirs = self.theirs(rank, round, part.len())?;
            let to = Data::bytes(part.of(v.to), part.len() as u64);
            theirs.read(&to, 0, part.len());
        }
        Ok(())
    }

    pub fn reduce(&self, p: &reduce::Params) -> Result<()> {
        let Some(v) = self.vector(p.count, p.in_place) else {
            return Ok(());
        };
        let at_root = p.team.rank == p.root;
        if self.reads_other(v.chunks.bytes()) && self.reduce_direct(&v, at_root)? {
            return Ok(());
        }
        if self.is_parted(Span::whole(v.chunks.part(0))) {
            return self.reduce_parted(&v, at_root);
        }
        let v = v.for_one();
        let all = self.place.size();
        let writer = Way::other_than(p.root as usize);
        let first = self.begin_written(&v.chunks, writer, usize::MAX);
        for chunk in 0..v.chunks.number() {
            let span = Span::whole(v.chunks.part(chunk));
            let round = first.of_chunk(chunk, span.start);
            if !at_root {
                self.put(&v, round, span)?.publish_only();
                continue;
            }
            if v.in_place {
                // Nobody reads that but this process, after the result has begun to take its place.
                self.put(&v, round.alone(), span)?;
            }
            self.wait_for(all, round, span.bytes)?;
            self.combine(&v, all, round, span, span.of(v.to));
            self.place.all_have_read(round - 1);
            self.place.say_read(round);
        }
        Ok(())
    }

    fn reduce_parted(&self, v: &Vector, at_root: bool) -> Result<()> {
        let all = self.place.size();
        let first = self.place.begin(2 * v.chunks.number());
        for chunk in 0..v.chunks.number() {
            let (round, span) = (first + 2 * chunk, Span::whole(v.chunks.part(chunk)));
            let mine = self.share(v, round, span)?;
            if at_root {
                self.combine(v, all, round, mine, mine.of(v.to));
                self.place.all_have_read(round - 1);
                self.read_parts(v, round + 1, span)?;
                self.place.say_read(round + 1);
            } else {
                let page = self.page(round + 1, mine.len())?;
                self.combine(v, all, round, mine, page.memory());
                self.place.all_have_read(round - 1);
                page.publish_only();
            }
        }
        Ok(())
    }

    /// A scan, with this process's own operand or without.
    pub fn scan(&self, p: &scan::Params, inclusive: bool) -> Result<()> {
        let Some(v) = self.vector(p.count, p.in_place) else {
            return Ok(());
        };
        let ranks = self.place.rank() + usize::from(inclusive);
        let first = self.place.begin(v.chunks.number());
        for chunk in 0..v.chunks.number() {
            let (round, span) = (first + chunk, Span::whole(v.chunks.part(chunk)));
            self.put(&v, round, span)?.publish();
            self.wait_for(ranks, round, span.bytes)?;
            self.combine(&v, ranks, round, span, span.of(v.to));
            self.place.say_read(round);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cover_a_chunk() {
        for (bytes, members, element) in [(8, 3, 8), (24, 3, 8), (100, 7, 4), (32, 16, 16)] {
            let whole = Span::whole((64, bytes));
            let mut next = 0;
            for rank in 0..members {
                let part = whole.part(rank, members, element);
                assert_eq!(part.low.min(bytes), next);
                assert!(part.len().is_multiple_of(element));
                next = part.high;
            }
            assert_eq!(next, bytes);
        }
    }
}
