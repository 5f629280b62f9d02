//! From a normalised tree to instructions.

use crate::program::{Bounds, MAX_OWN_INSNS, MAX_TABLE, Program};
use crate::tree::{Shape, Tree};
use crate::{Error, Insn, Kind, Op};

/// Loops of more iterations than an instruction can hold are nested, the inner one of this many.
const LONG: u64 = 1 << 31;

#[derive(Default)]
struct Emitter {
    insns: Vec<Insn>,
    table: Vec<i64>,
    /// Displacement that `Disp` instructions have added in the body being emitted.
    cur: i64,
}

impl Tree {
    /// Compiles the layout of a type with the given bounds.
    pub fn compile(&self, bounds: Bounds) -> Result<Program, Error> {
        let blocks = self.unrolled_program();
        let mut e = Emitter {
            insns: Vec::with_capacity(blocks.map_or_else(|| self.insns_if_simple(), |n| n + 1)),
            ..Emitter::default()
        };
        match blocks {
            Some(_) => e.each_block(self)?,
            None => e.tree(self, 0)?,
        }
        e.push(Insn::END)?;
        Program::new(e.insns, e.table, bounds)
    }

    /// Of the simplest layouts, which programs make again and again, so many instructions: they are allocated once.
    fn insns_if_simple(&self) -> usize {
        match self.shape {
            Shape::Block { .. } => 2,
            Shape::Strided { .. } => 2 + usize::from(self.disp != 0),
            _ => 0,
        }
    }
}

impl Emitter {
    fn push(&mut self, insn: Insn) -> Result<(), Error> {
        if self.insns.len() >= MAX_OWN_INSNS {
            return Err(Error::TooLarge);
        }
        self.insns.push(insn);
        Ok(())
    }

    fn op(&mut self, op: Op, kind: Kind, c: u16, a: u64, b: i64) -> Result<(), Error> {
        let a = u32::try_from(a).map_err(|_| Error::TooLarge)?;
        self.push(Insn { op, kind, c, a, b })
    }

    /// Moves `cur` to `disp`.
    fn go(&mut self, disp: i64) -> Result<(), Error> {
        if disp != self.cur {
            let by = disp.checked_sub(self.cur).ok_or(Error::Overflow)?;
            self.op(Op::Disp, Kind::OPAQUE, 0, 0, by)?;
            self.cur = disp;
        }
        Ok(())
    }

    /// Table words about to be appended: where they start.
    fn table_start(&self, words: usize) -> Result<i64, Error> {
        let start = self.table.len();
        if start + words > MAX_TABLE {
            return Err(Error::TooLarge);
        }
        Ok(start as i64)
    }

    /// Emits `tree`, its own displacement counted from `at` in the current body.
    fn tree(&mut self, tree: &Tree, at: i64) -> Result<(), Error> {
        let at = at.checked_add(tree.disp).ok_or(Error::Overflow)?;
        match &tree.shape {
            Shape::Empty => Ok(()),
            Shape::Block { len, kind } => self.block(at, *len, *kind),
            Shape::Strided {
                count,
                step,
                len,
                kind,
            } => self.repeat(at, *count, *step, &Tree::block(0, *len, *kind)?),
            Shape::Loop { count, step, body } => self.repeat(at, *count, *step, body),
            Shape::Blocks { spans, kind } => self.blocks(at, spans, *kind),
            Shape::Each { disps, body } => {
                self.go(at)?;
                let start = self.table_start(disps.len())?;
                self.table.extend_from_slice(disps);
                self.op(Op::Ixl, Kind::OPAQUE, 0, disps.len() as u64, start)?;
                self.body(body)
            }
            Shape::Seq(parts) => parts.iter().try_for_each(|p| self.tree(p, at)),
        }
    }

    /// Emits the blocks of `tree` one by one.
    fn each_block(&mut self, tree: &Tree) -> Result<(), Error> {
        let mut end = Ok(());
        let mut emit = |at, len, kind| {
            end = self.block(at, len, kind);
            end.is_ok()
        };
        tree.each_block(0, &mut emit);
        end
    }

    fn block(&mut self, at: i64, len: u64, kind: Kind) -> Result<(), Error> {
        if u32::try_from(len).is_ok() {
            let b = at.checked_sub(self.cur).ok_or(Error::Overflow)?;
            return self.op(Op::Blk, kind, 0, len, b);
        }
        // Longer than an instruction can say: a table of one entry.
        self.blocks(at, &[(0, len)], kind)
    }

    fn blocks(&mut self, at: i64, spans: &[(i64, u64)], kind: Kind) -> Result<(), Error> {
        self.go(at)?;
        let len = spans[0].1;
        match u16::try_from(len) {
            Ok(c) if spans.iter().all(|s| s.1 == len) => {
                let start = self.table_start(spans.len())?;
                self.table.extend(spans.iter().map(|s| s.0));
                self.op(Op::Ixb, kind, c, spans.len() as u64, start)
            }
            _ => {
                let start = self.table_start(spans.len() * 2)?;
                self.table
                    .extend(spans.iter().flat_map(|s| [s.0, s.1 as i64]));
                self.op(Op::Ixv, kind, 0, spans.len() as u64, start)
            }
        }
    }

    /// The body of the loop instruction just emitted, and its end.
    fn body(&mut self, body: &Tree) -> Result<(), Error> {
        let outer = std::mem::replace(&mut self.cur, 0);
        self.tree(body, 0)?;
        self.cur = outer;
        self.push(Insn::END)
    }

    fn repeat(&mut self, at: i64, count: u64, step: i64, body: &Tree) -> Result<(), Error> {
        if count <= u64::from(u32::MAX) {
            return self.short_loop(at, count, step, body);
        }
        let (whole, rest) = (count / LONG, count % LONG);
        let far = step.checked_mul(LONG as i64).ok_or(Error::Overflow)?;
        let inner = body.repeat(LONG, step)?;
        self.short_loop(at, whole, far, &inner)?;
        if rest > 0 {
            let skip = far.checked_mul(whole as i64).ok_or(Error::Overflow)?;
            let at = at.checked_add(skip).ok_or(Error::Overflow)?;
            self.short_loop(at, rest, step, body)?;
        }
        Ok(())
    }

    fn short_loop(&mut self, at: i64, count: u64, step: i64, body: &Tree) -> Result<(), Error> {
        if let Some((disp, len, kind)) = body.as_block()
            && let Ok(c) = u16::try_from(len)
        {
            self.go(at.checked_add(disp).ok_or(Error::Overflow)?)?;
            return self.op(Op::Vec, kind, c, count, step);
        }
        self.go(at)?;
        self.op(Op::Loop, Kind::OPAQUE, 0, count, step)?;
        self.body(body)
    }
}
