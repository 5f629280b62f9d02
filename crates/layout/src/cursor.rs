//! The executor: a position in `count` repetitions of a program, resumable at any byte.
//!
//! Displacement arithmetic wraps: the verifier bounded what one repetition reaches, and the address
//! a wrapped sum would name is one the buffer's owner vouched for or never reaches.

use std::rc::Rc;

use boundary::UserBuf;

use crate::grid::Grid;
use crate::kernels::{Gatherer, Mover, Packer, Scatterer, Still, Unpacker};
use crate::{Insn, Kind, Op, Program};

/// A stretch of bytes that lie together in the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Where it starts, in bytes from the buffer's address.
    pub disp: i64,
    /// Bytes.
    pub len: usize,
    /// Element class.
    pub kind: Kind,
}

#[derive(Clone, Copy, Debug)]
struct Frame {
    /// The loop instruction.
    pc: usize,
    /// Iterations begun before the present one.
    i: u32,
    /// `cur` outside the loop.
    cur: i64,
}

/// A resumable position over `count` repetitions of a program.
#[derive(Clone, Debug)]
pub struct Cursor {
    program: Rc<Program>,
    at: Position,
}

/// The position itself; its methods are given the program.
#[derive(Clone, Debug)]
struct Position {
    total: u64,
    done: u64,
    rep: u64,
    pc: usize,
    cur: i64,
    /// Fragments of the present leaf that are finished.
    idx: u32,
    /// Bytes of the present fragment that are finished.
    off: u64,
    stack: Vec<Frame>,
}

/// Displacement of iteration `i` of the loop `insn`.
#[inline(always)]
fn step(program: &Program, insn: &Insn, i: u32) -> i64 {
    match insn.op {
        Op::Loop => insn.b.wrapping_mul(i64::from(i)),
        _ => program.table[insn.b as usize + i as usize],
    }
}

impl Cursor {
    /// The start of `count` repetitions of `program`.
    pub fn new(program: &Rc<Program>, count: u64) -> Cursor {
        Cursor {
            program: program.clone(),
            at: Position {
                // More than 2^64 bytes can't be there; no call reaches that.
                total: program.size().saturating_mul(count),
                done: 0,
                rep: 0,
                pc: 0,
                cur: 0,
                idx: 0,
                off: 0,
                stack: Vec::new(),
            },
        }
    }

    /// Packed bytes from here to the end.
    #[inline]
    pub fn remaining(&self) -> u64 {
        self.at.total - self.at.done
    }

    /// Packed bytes before this position.
    #[inline]
    pub fn position(&self) -> u64 {
        self.at.done
    }

    /// Copies bytes of the buffer at `base` into `out`, from this position on, and advances.
    /// Returns how many: `out.len()`, or fewer at the end.
    pub fn pack(&mut self, base: UserBuf, out: &mut [u8]) -> usize {
        let n = self.limit(out.len());
        self.at.run(
            &self.program,
            &mut Packer {
                base,
                out: &mut out[..n],
                at: 0,
            },
        );
        n
    }

    /// Copies packed bytes from `input` into the buffer at `base`, from this position on, and
    /// advances. Returns how many: `input.len()`, or fewer at the end.
    pub fn unpack(&mut self, base: UserBuf, input: &[u8]) -> usize {
        let n = self.limit(input.len());
        self.at.run(
            &self.program,
            &mut Unpacker {
                base,
                input: &input[..n],
            },
        );
        n
    }

    /// As [`Cursor::pack`], into the `room` bytes of the buffer at `to`.
    pub fn gather(&mut self, base: UserBuf, to: UserBuf, room: usize) -> usize {
        let room = self.limit(room);
        self.at.run(&self.program, &mut Gatherer { base, to, room });
        room
    }

    /// As [`Cursor::unpack`], from the `room` bytes of the buffer at `from`.
    pub fn scatter(&mut self, base: UserBuf, from: UserBuf, room: usize) -> usize {
        let room = self.limit(room);
        self.at
            .run(&self.program, &mut Scatterer { base, from, room });
        room
    }

    /// The next stretch of at most `max` bytes, or `None` at the end (or where `max` is 0).
    pub fn next_run(&mut self, max: usize) -> Option<Run> {
        let n = self.limit(max);
        if n == 0 {
            return None;
        }
        self.at.settle(&self.program, &mut Still);
        let (disp, left, kind) = self.at.fragment(&self.program);
        let len = left.min(n as u64) as usize;
        self.at.advance(&self.program, len as u64, left);
        Some(Run { disp, len, kind })
    }

    /// Moves to packed byte `offset` (at most the total).
    pub fn seek(&mut self, offset: u64) {
        self.at.seek(&self.program, offset);
    }

    fn limit(&self, n: usize) -> usize {
        self.remaining().min(n as u64) as usize
    }
}

impl Position {
    fn seek(&mut self, program: &Program, offset: u64) {
        self.stack.clear();
        (self.pc, self.cur, self.idx, self.off) = (0, 0, 0, 0);
        self.done = offset.min(self.total);
        if program.size() == 0 {
            return;
        }
        self.rep = self.done / program.size();
        self.cur = program.extent().wrapping_mul(self.rep as i64);
        let mut rest = self.done % program.size();
        if self.done == self.total {
            return;
        }
        loop {
            let insn = &program.insns[self.pc];
            match insn.op {
                Op::Disp => self.cur = self.cur.wrapping_add(insn.b),
                Op::Loop | Op::Ixl => {
                    let link = &program.links[self.pc];
                    let i = rest / link.bytes;
                    if i >= u64::from(insn.a) {
                        rest -= link.bytes * u64::from(insn.a);
                        self.pc = link.to as usize;
                    } else {
                        rest %= link.bytes;
                        self.stack.push(Frame {
                            pc: self.pc,
                            i: i as u32,
                            cur: self.cur,
                        });
                        self.cur = self.cur.wrapping_add(step(program, insn, i as u32));
                    }
                }
                Op::End => return,
                _ => match rest.checked_sub(self.leaf_bytes(program, insn)) {
                    Some(further) => rest = further,
                    None => return self.seek_leaf(program, insn, rest),
                },
            }
            self.pc += 1;
        }
    }

    /// Bytes of the leaf `insn`, which the position is at.
    fn leaf_bytes(&self, program: &Program, insn: &Insn) -> u64 {
        match insn.op {
            Op::Blk => insn.a.into(),
            Op::Ixv => program.ixv_ends(self.pc).last().copied().unwrap_or(0),
            _ => u64::from(insn.a) * u64::from(insn.c),
        }
    }

    fn seek_leaf(&mut self, program: &Program, insn: &Insn, rest: u64) {
        match insn.op {
            Op::Blk => self.off = rest,
            Op::Ixv => {
                let ends = program.ixv_ends(self.pc);
                let i = ends.partition_point(|&end| end <= rest);
                self.idx = i as u32;
                self.off = rest - if i == 0 { 0 } else { ends[i - 1] };
            }
            _ => {
                self.idx = (rest / u64::from(insn.c)) as u32;
                self.off = rest % u64::from(insn.c);
            }
        }
    }

    /// The rest of the present fragment; the position is at a leaf.
    #[inline(always)]
    fn fragment(&self, p: &Program) -> (i64, u64, Kind) {
        let insn = &p.insns[self.pc];
        let i = self.idx as usize;
        let (disp, len) = match insn.op {
            Op::Blk => (insn.b, u64::from(insn.a)),
            Op::Vec => (insn.b.wrapping_mul(i64::from(self.idx)), u64::from(insn.c)),
            Op::Ixb => (p.table[insn.b as usize + i], u64::from(insn.c)),
            _ => {
                let at = insn.b as usize + 2 * i;
                (p.table[at], p.table[at + 1] as u64)
            }
        };
        (
            self.cur.wrapping_add(disp).wrapping_add(self.off as i64),
            len - self.off,
            insn.kind,
        )
    }

    /// Advances by `n` of the `left` bytes of the present fragment.
    #[inline(always)]
    fn advance(&mut self, program: &Program, n: u64, left: u64) {
        self.done += n;
        if n < left {
            self.off += n;
        } else {
            self.off = 0;
            self.next_fragments(program, 1);
        }
    }

    /// Moves on by `k` whole fragments of the present leaf, to the next instruction after its last.
    #[inline(always)]
    fn next_fragments(&mut self, program: &Program, k: u32) {
        let insn = &program.insns[self.pc];
        self.idx += k;
        if insn.op == Op::Blk || self.idx == insn.a {
            self.idx = 0;
            self.pc += 1;
        }
    }

    /// Moves over control instructions to the next leaf. Whole iterations of flat bodies are moved
    /// on the way while `m` has room. Must not be called at the end of the data.
    #[inline(always)]
    fn settle<M: Mover>(&mut self, program: &Program, m: &mut M) {
        while self.done < self.total {
            let insn = &program.insns[self.pc];
            match insn.op {
                Op::Disp => {
                    self.cur = self.cur.wrapping_add(insn.b);
                    self.pc += 1;
                }
                Op::Loop | Op::Ixl => {
                    self.stack.push(Frame {
                        pc: self.pc,
                        i: 0,
                        cur: self.cur,
                    });
                    self.iterate(program, m);
                }
                Op::End => match self.stack.last_mut() {
                    Some(frame) => {
                        frame.i += 1;
                        self.iterate(program, m);
                    }
                    None => {
                        self.rep += 1;
                        self.repeat(program, m);
                    }
                },
                _ => return,
            }
        }
    }

    /// Starts the iteration that the top frame names, or leaves the loop after its last.
    #[inline(always)]
    fn iterate<M: Mover>(&mut self, program: &Program, m: &mut M) {
        let Some(frame) = self.stack.last_mut() else {
            return;
        };
        let (insn, link) = (&program.insns[frame.pc], &program.links[frame.pc]);
        let end = link.to as usize;
        if link.flat || link.column {
            let fit = fitting(m.room() as u64, link.bytes, insn.a - frame.i);
            let cur = frame.cur;
            let starts = (frame.i..frame.i + fit).map(|i| step(program, insn, i));
            let starts = starts.map(|s| cur.wrapping_add(s));
            let body = &program.insns[frame.pc + 1..end];
            if fit > 0 && repeated(m, body, (fit.into(), link.column), starts) {
                frame.i += fit;
                self.done += u64::from(fit) * link.bytes;
            }
        }
        if frame.i < insn.a {
            self.cur = frame.cur.wrapping_add(step(program, insn, frame.i));
            self.pc = frame.pc + 1;
        } else {
            self.cur = frame.cur;
            self.pc = end + 1;
            self.stack.pop();
        }
    }

    /// Starts repetition `rep`, moving whole repetitions at once where the program is flat.
    #[inline(always)]
    fn repeat<M: Mover>(&mut self, program: &Program, m: &mut M) {
        let (size, extent) = (program.size(), program.extent());
        if program.facts.flat || program.column {
            let fit = (m.room() as u64).min(self.total - self.done) / size;
            let body = &program.insns[..program.insns.len() - 1];
            let starts = (self.rep..self.rep + fit).map(|r| extent.wrapping_mul(r as i64));
            if fit > 0 && repeated(m, body, (fit, program.column), starts) {
                self.rep += fit;
                self.done += fit * size;
            }
        }
        self.pc = 0;
        self.cur = extent.wrapping_mul(self.rep as i64);
    }

    /// Moves exactly `m.room()` bytes, which must not be more than remain.
    #[inline(always)]
    fn run<M: Mover>(&mut self, program: &Program, m: &mut M) {
        if self.idx == 0 && self.off == 0 && self.done < self.total {
            let inner = self.stack.last().map(|frame| frame.pc + 1);
            match inner {
                _ if self.pc == 0 => self.repeat(program, m),
                // Where the last call ended between two iterations.
                Some(first) if self.pc == first => self.iterate(program, m),
                _ => {}
            }
        }
        while m.room() > 0 {
            self.settle(program, m);
            let room = m.room() as u64;
            if room == 0 {
                return;
            }
            let insn = &program.insns[self.pc];
            if insn.op == Op::Blk && self.off == 0 && u64::from(insn.a) <= room {
                m.block(self.cur.wrapping_add(insn.b), insn.a as usize);
                self.done += u64::from(insn.a);
                self.pc += 1;
                continue;
            }
            let (disp, left, _) = self.fragment(program);
            if left > room || self.off > 0 || insn.op == Op::Blk {
                let n = left.min(room);
                m.block(disp, n as usize);
                self.advance(program, n, left);
            } else {
                self.leaf(program, m);
            }
        }
    }

    /// Moves as many whole fragments of the present leaf as there is room for; the leaf is one of
    /// several fragments, and there is room for the next.
    #[inline(always)]
    fn leaf<M: Mover>(&mut self, program: &Program, m: &mut M) {
        let insn = &program.insns[self.pc];
        let (cur, from) = (self.cur, self.idx);
        let left = insn.a.wrapping_sub(from);
        let k = match insn.op {
            Op::Vec | Op::Ixb => {
                let k = fitting(m.room() as u64, insn.c.into(), left);
                if insn.op == Op::Vec {
                    let at = |i| cur.wrapping_add(insn.b.wrapping_mul(i64::from(i)));
                    m.fragments((from..from + k).map(at), k as usize, insn.c.into());
                } else {
                    let first = insn.b as usize + from as usize;
                    let disps = &program.table[first..first + k as usize];
                    let disps = disps.iter().map(|d| cur.wrapping_add(*d));
                    m.fragments(disps, k as usize, insn.c.into());
                }
                self.done += u64::from(k) * u64::from(insn.c);
                k
            }
            _ => {
                let first = insn.b as usize + 2 * from as usize;
                let entries = &program.table[first..first + 2 * left as usize];
                let mut k = 0;
                for &[disp, len] in entries.as_chunks::<2>().0 {
                    if len as u64 > m.room() as u64 {
                        break;
                    }
                    m.block(cur.wrapping_add(disp), len as usize);
                    self.done += len as u64;
                    k += 1;
                }
                k
            }
        };
        self.next_fragments(program, k);
    }
}

/// How many of `count` pieces of `size` bytes fit into `room`. A division costs as much as moving
/// several small fragments, so it is only done where not all fit.
#[inline(always)]
fn fitting(room: u64, size: u64, count: u32) -> u32 {
    match size.checked_mul(count.into()) {
        Some(all) if all <= room => count,
        _ => (room / size) as u32,
    }
}

/// Moves a body, which is blocks or the `column` of a matrix, once for each of `count` `starts`. False: it has to be done step by step.
#[inline(always)]
fn repeated<M: Mover>(
    m: &mut M,
    body: &[Insn],
    (count, column): (u64, bool),
    mut starts: impl Iterator<Item = i64>,
) -> bool {
    if !column {
        flat(m, body, count as usize, starts);
        return true;
    }
    let grid = starts.next().and_then(|at| Grid::new(&body[0], at, count));
    grid.inspect(|grid| m.matrix(grid, body[0].c)).is_some()
}

/// Moves the blocks of `body`, once for each of `count` `starts`.
#[inline(always)]
fn flat<M: Mover>(m: &mut M, body: &[Insn], count: usize, starts: impl Iterator<Item = i64>) {
    match body {
        [one] => m.fragments(starts.map(|s| s.wrapping_add(one.b)), count, one.a as usize),
        [one, two] => match (one.a, two.a) {
            (4, 4) => pairs::<M, 4, 4>(m, one.b, two.b, starts),
            (4, 8) => pairs::<M, 4, 8>(m, one.b, two.b, starts),
            (8, 4) => pairs::<M, 8, 4>(m, one.b, two.b, starts),
            (8, 8) => pairs::<M, 8, 8>(m, one.b, two.b, starts),
            _ => blocks(m, body, starts),
        },
        _ => blocks(m, body, starts),
    }
}

/// Moves `A` bytes at `a` and `B` bytes at `b` from each of `starts`.
#[inline(always)]
fn pairs<M: Mover, const A: usize, const B: usize>(
    m: &mut M,
    a: i64,
    b: i64,
    starts: impl Iterator<Item = i64>,
) {
    starts.for_each(|start| {
        m.array::<A>(start.wrapping_add(a));
        m.array::<B>(start.wrapping_add(b));
    });
}

/// Moves the blocks of `body` from each of `starts`.
#[inline(always)]
fn blocks<M: Mover>(m: &mut M, body: &[Insn], starts: impl Iterator<Item = i64>) {
    starts.for_each(|start| {
        for insn in body {
            m.block(start.wrapping_add(insn.b), insn.a as usize);
        }
    });
}
