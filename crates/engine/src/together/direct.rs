//! Long data, read by the kernel from where they lie in the other process's memory: one copy in place of two.
//!
//! A round says where data lie; who has read them says so, and whoever showed some waits for that before its call is over, as its buffer
//! then is the program's again. Between processors that don't share a cache 64 KiB from each of two ranks take 6.7 us so, and 12.4 through
//! common memory, whose lines have to be fetched from the reader before they are written.
//!
//! Data that have gaps are packed first, so whoever shows some shows bytes that lie side by side.

use boundary::{AlignedBuf, UserBuf};
use cad::together::{BLOCK_FOR_ONE, BLOCK_OF_TWO, PAIR, VECTOR, VECTOR_OF_TWO};
use cad::{allgather, alltoall};
use fabrics::Foreign;
use layout::{Data, transfer};
use types::{Result, consts, fault};

use super::reductions::{Span, Vector};
use super::rounds::{Round, Way};
use crate::internal::own_memory;

/// Bytes that are read at a time where they are combined: each piece is a system call (1 MiB in pieces of 16 KiB: 174 us, of
/// 128 KiB: 142).
const PIECE: usize = 128 << 10;

/// Bytes that say where data lie: three words.
const SHOWN: usize = 24;

/// Data to be read by others.
pub(super) struct Shown {
    at: UserBuf,
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
            stride: 0,
            bytes,
            _memory: None,
        }
    }

    /// Blocks of equal length.
    pub fn blocks(number: usize, block: impl Fn(usize) -> Option<Data>) -> Result<Shown> {
        let address = |i| block(i).and_then(|data| Some((data.contiguous()?.0, data.len())));
        match (address(0), address(1)) {
            (Some((at, bytes)), None) if number < 2 => Ok(Shown::bytes(at, bytes)),
            (Some((at, bytes)), Some((next, _))) => Ok(Shown {
                at,
                bytes,
                stride: next.addr().wrapping_sub(at.addr()) as i64,
                _memory: None,
            }),
            _ => Shown::packed(number, block),
        }
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
            stride: bytes as i64,
            bytes,
            _memory: Some(memory),
        })
    }
}

/// Where data of another process lie.
#[derive(Clone, Copy)]
struct There<'a> {
    way: Way<'a>,
    process: &'a Foreign,
    rank: usize,
    at: u64,
    stride: u64,
}

impl There<'_> {
    /// Reads bytes from byte `from` of its block `block` on.
    fn read(&self, block: usize, from: u64, to: UserBuf, bytes: usize) -> Result<()> {
        let at = self.at.wrapping_add(self.stride.wrapping_mul(block as u64));
        let read = self.process.read(at.wrapping_add(from), to, bytes);
        read.map_err(|e| self.fault(&e))
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
        let text = format!("the buffer of rank {} can't be read: {error}", self.rank);
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
        bytes >= from && self.place.foreign.is_some()
    }

    /// Whether so goes a block that is for all,
    pub fn reads_blocks(&self, bytes: u64) -> bool {
        self.is_from(bytes, BLOCK_OF_TWO, u64::MAX)
    }

    /// one that is for one rank,
    pub fn reads_own_blocks(&self, bytes: u64) -> bool {
        self.is_from(bytes, BLOCK_OF_TWO, BLOCK_FOR_ONE)
    }

    /// a vector that all combine,
    pub fn reads_vectors(&self, bytes: u64) -> bool {
        self.is_from(bytes, VECTOR_OF_TWO, VECTOR)
    }

    /// or the vector of one of two, which the other combines with its own.
    pub fn reads_other(&self, bytes: u64) -> bool {
        bytes < PAIR.end && self.is_from(bytes, PAIR.start, u64::MAX)
    }

    /// Says where data lie.
    fn show(&self, round: Round, shown: &Shown) -> Result<()> {
        let page = self.page(round, SHOWN)?;
        page.write_words(&[shown.at.addr() as u64, shown.stride as u64, shown.bytes]);
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
        })
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

    /// Says that this process has read what was shown in a round, whatever came of it, and waits until all others have.
    fn close_all(&self, round: Round, read: Result<()>) -> Result<()> {
        self.place.say_read(round);
        let others = self.wait_for_readers(round);
        read.and(others)
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

    pub fn allgather_direct(&self, p: &allgather::Params, mine: &Data) -> Result<()> {
        let round = self.place.begin(1);
        let shown = Shown::one(mine)?;
        self.show(round, &shown)?;
        let read = self.fetch_all(round, 0, |rank| self.block_in(&p.recv, rank));
        self.close_all(round, read)
    }

    pub fn alltoall_direct(&self, p: &alltoall::Params) -> Result<()> {
        let (round, size) = (self.place.begin(1), self.place.size());
        // In place others still read what this process would overwrite.
        let shown = match p.in_place {
            true => Shown::packed(size, |rank| self.block_in(&p.recv, rank))?,
            false => Shown::blocks(size, |rank| self.block_out(&p.send, rank))?,
        };
        self.show(round, &shown)?;
        let to = |rank| self.block_in(&p.recv, rank);
        let read = self.fetch_all(round, self.place.rank(), to);
        self.close_all(round, read)
    }

    /// Combines what all have of a part, which others have shown in a round, to `to`.
    fn combine_direct(&self, v: &Vector, round: Round, span: Span, to: UserBuf) -> Result<()> {
        let mut scratch = self.scratch(2 * PIECE)?;
        let each = PIECE / v.element * v.element;
        let mut combined = Ok(());
        let mut low = span.low;
        while low < span.high && combined.is_ok() {
            let piece = Span {
                low,
                high: span.high.min(low + each),
                ..span
            };
            let to = to.offset((low - span.low) as i64);
            combined = self.combine_piece(v, round, piece, to, scratch.buf());
            low = piece.high;
        }
        self.place.scratch.set(scratch);
        combined
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

    pub fn allreduce_direct(&self, v: &Vector) -> Result<()> {
        let round = self.place.begin(2);
        let mine = self.part_of(v, v.whole(), self.place.rank());
        self.show(round, &Shown::bytes(v.from, v.bytes()))?;
        let combined = self.combine_direct(v, round, mine, mine.of(v.to));
        // Who has shown its part of the result reads operands no more.
        self.show(round + 1, &Shown::bytes(v.to, v.bytes()))?;
        self.all(round + 1, SHOWN)?;
        let read = combined.and_then(|()| self.fetch_parts(v, round + 1));
        self.close_all(round + 1, read)
    }

    /// A reduction of two ranks.
    pub fn reduce_direct(&self, v: &Vector, at_root: bool) -> Result<()> {
        let round = self.place.begin(1);
        if at_root {
            let combined = self.combine_direct(v, round, v.whole(), v.to);
            self.place.say_read(round);
            return combined;
        }
        self.show(round, &Shown::bytes(v.from, v.bytes()))?;
        self.close_all(round, Ok(()))
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
