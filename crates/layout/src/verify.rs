//! The static verifier: one pass over instructions and table, checked arithmetic throughout.
//!
//! It admits a program only if: operation codes, kinds and unused fields are as defined; every
//! loop is closed, nested no deeper than the limit, runs at least once and emits at least one byte
//! per iteration (so work is bounded by bytes); the indexed instructions use up the table from
//! front to back without overlap (so verification is linear); fragments are whole elements of their
//! kind; every displacement and the size fit 63 bits. It computes what the header must say.

use crate::grid::Grid;
use crate::program::{MAX_DEPTH, MAX_OWN_INSNS, MAX_TABLE};
use crate::{Error, Insn, Kind, Op};

/// What is known about a verified program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(crate) size: u64,
    pub(crate) lo: i64,
    pub(crate) hi: i64,
    pub(crate) fragments: u64,
    pub(crate) depth: usize,
    /// All bytes are one run in ascending order.
    pub(crate) one_run: bool,
    /// Some fragment is not opaque.
    pub(crate) converts: bool,
    /// The program is nothing but `Blk` instructions.
    pub(crate) flat: bool,
}

/// What the executor needs to know about an instruction besides the instruction, if that is a loop, an `End` or an `Ixv`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Link {
    /// Bytes of one iteration of a loop's body.
    pub(crate) bytes: u64,
    /// Of a loop, the index of its `End`; of an `End`, of its loop; of an `Ixv`, of its first entry
    /// in `ends`.
    pub(crate) to: u32,
    /// Of a loop or its `End`: the body is nothing but `Blk` instructions.
    pub(crate) flat: bool,
    /// The same: the body is a column of a [matrix](crate::grid).
    pub(crate) column: bool,
}

/// Sums over the body being read.
struct Body {
    /// Index of the loop instruction; of no use for the program itself.
    start: usize,
    cur: i64,
    bytes: u64,
    fragments: u64,
    /// `[lo, hi)` of the bytes so far, relative to the body's start.
    lo: i64,
    hi: i64,
    /// If the bytes so far are one run in ascending order: its start and end.
    run: Option<(i64, i64)>,
    flat: bool,
}

type Verified = (Facts, Vec<Link>, Vec<u64>);

fn narrow(x: i128) -> Result<i64, Error> {
    i64::try_from(x).map_err(|_| Error::Overflow)
}

fn sum(a: u64, b: u64) -> Result<u64, Error> {
    let s = a.checked_add(b).ok_or(Error::Overflow)?;
    if s > i64::MAX as u64 {
        Err(Error::Overflow)
    } else {
        Ok(s)
    }
}

fn product(a: u64, b: u64) -> Result<u64, Error> {
    sum(a.checked_mul(b).ok_or(Error::Overflow)?, 0)
}

/// Bytes of a part of a body: how many, in how many fragments, where, and whether as one run.
struct Part {
    bytes: u64,
    fragments: u64,
    lo: i64,
    hi: i64,
    run: bool,
}

impl Body {
    fn new(start: usize) -> Body {
        Body {
            start,
            cur: 0,
            bytes: 0,
            fragments: 0,
            lo: 0,
            hi: 0,
            run: None,
            flat: true,
        }
    }

    /// Adds a part whose displacements are relative to `cur`.
    fn add(&mut self, part: Part) -> Result<(), Error> {
        let lo = narrow(i128::from(self.cur) + i128::from(part.lo))?;
        let hi = narrow(i128::from(self.cur) + i128::from(part.hi))?;
        if self.bytes == 0 {
            (self.lo, self.hi) = (lo, hi);
            self.run = part.run.then_some((lo, hi));
        } else {
            self.run = match self.run {
                Some((start, end)) if part.run && end == lo => Some((start, hi)),
                _ => None,
            };
            self.lo = self.lo.min(lo);
            self.hi = self.hi.max(hi);
        }
        self.bytes = sum(self.bytes, part.bytes)?;
        self.fragments = sum(self.fragments, part.fragments)?;
        Ok(())
    }

    /// The body `count` times with first displacement `first`, lowest `low`, highest `high`;
    /// `dense` if each iteration starts where the one before it ended.
    fn times(&self, count: u32, low: i64, high: i64, dense: bool) -> Result<Part, Error> {
        Ok(Part {
            bytes: product(self.bytes, count.into())?,
            fragments: product(self.fragments, count.into())?,
            lo: narrow(i128::from(self.lo) + i128::from(low))?,
            hi: narrow(i128::from(self.hi) + i128::from(high))?,
            run: self.run.is_some() && (count == 1 || dense),
        })
    }
}

struct Verifier<'a> {
    insns: &'a [Insn],
    table: &'a [i64],
    /// Table words used so far.
    used: usize,
    /// One for each instruction, or none as long as none needs one.
    links: Vec<Link>,
    ends: Vec<u64>,
    /// The body being read,
    body: Body,
    /// and those around it, from the program itself on.
    outer: Vec<Body>,
    depth: usize,
    converts: bool,
}

pub(crate) fn verify(insns: &[Insn], table: &[i64]) -> Result<Verified, Error> {
    if insns.len() > MAX_OWN_INSNS || table.len() > MAX_TABLE {
        return Err(Error::TooLarge);
    }
    let mut v = Verifier {
        insns,
        table,
        used: 0,
        links: Vec::new(),
        ends: Vec::new(),
        body: Body::new(0),
        outer: Vec::new(),
        depth: 0,
        converts: false,
    };
    for at in 0..insns.len() {
        if v.insn(at)? {
            return v.finish(at);
        }
    }
    Err(Error::Malformed("no end"))
}

impl Verifier<'_> {
    fn finish(self, at: usize) -> Result<Verified, Error> {
        let body = &self.body;
        if at + 1 != self.insns.len() {
            return Err(Error::Malformed("instructions after the end"));
        }
        if self.used != self.table.len() {
            return Err(Error::Malformed("table words that no instruction uses"));
        }
        let facts = Facts {
            size: body.bytes,
            lo: body.lo,
            hi: body.hi,
            fragments: body.fragments,
            depth: self.depth,
            one_run: body.bytes == 0 || body.run.is_some(),
            converts: self.converts,
            flat: body.flat && body.bytes > 0,
        };
        Ok((facts, self.links, self.ends))
    }

    /// Checks instruction `at`; says whether it ends the program, whose sums are then in `body`.
    fn insn(&mut self, at: usize) -> Result<bool, Error> {
        let insn = self.insns[at];
        self.check_fields(insn)?;
        if !matches!(insn.op, Op::Blk | Op::End) {
            self.body.flat = false;
        }
        let part = match insn.op {
            Op::Disp => {
                self.body.cur = narrow(i128::from(self.body.cur) + i128::from(insn.b))?;
                return Ok(false);
            }
            Op::Loop | Op::Ixl => {
                if self.outer.len() >= MAX_DEPTH {
                    return Err(Error::TooLarge);
                }
                if insn.op == Op::Ixl {
                    self.take(insn.b, insn.a as usize)?;
                }
                self.outer
                    .push(std::mem::replace(&mut self.body, Body::new(at)));
                self.depth = self.depth.max(self.outer.len());
                return Ok(false);
            }
            Op::End => {
                let Some(outer) = self.outer.pop() else {
                    return Ok(true);
                };
                let body = std::mem::replace(&mut self.body, outer);
                self.close(at, &body)?
            }
            Op::Blk => {
                let hi = narrow(i128::from(insn.b) + i128::from(insn.a))?;
                Part {
                    bytes: insn.a.into(),
                    fragments: 1,
                    lo: insn.b,
                    hi,
                    run: true,
                }
            }
            Op::Vec => {
                let (low, high) = span(insn.a, insn.b)?;
                let len = i64::from(insn.c);
                Part {
                    bytes: product(insn.a.into(), insn.c.into())?,
                    fragments: insn.a.into(),
                    lo: low,
                    hi: narrow(i128::from(high) + i128::from(len))?,
                    run: insn.a == 1 || insn.b == len,
                }
            }
            Op::Ixb => self.indexed_blocks(insn)?,
            Op::Ixv => self.indexed(at, insn)?,
        };
        if insn.op != Op::End {
            self.converts |= insn.kind != Kind::OPAQUE;
        }
        self.body.add(part)?;
        Ok(false)
    }

    fn check_fields(&self, insn: Insn) -> Result<(), Error> {
        let Insn { op, kind, c, a, b } = insn;
        let leaf = matches!(op, Op::Blk | Op::Vec | Op::Ixb | Op::Ixv);
        let sized = matches!(op, Op::Vec | Op::Ixb);
        let unused = (!leaf && kind != Kind::OPAQUE)
            || (!sized && c != 0)
            || (matches!(op, Op::End | Op::Disp) && a != 0)
            || (op == Op::End && b != 0);
        if unused {
            return Err(Error::Malformed("a field that must be zero is not"));
        }
        if !kind.is_valid() {
            return Err(Error::Malformed("unknown element kind"));
        }
        if (sized && c == 0) || (!matches!(op, Op::End | Op::Disp) && a == 0) {
            return Err(Error::Malformed("a zero count or length"));
        }
        let len = if sized { c.into() } else { u64::from(a) };
        if (sized || op == Op::Blk) && len % kind.element() != 0 {
            return Err(Error::Malformed("a fragment is not whole elements"));
        }
        Ok(())
    }

    /// The next `words` table words, which must start at index `b`.
    fn take(&mut self, b: i64, words: usize) -> Result<(), Error> {
        let end = self.used + words;
        if b != self.used as i64 || end > self.table.len() {
            return Err(Error::Malformed("table words out of order or out of range"));
        }
        self.used = end;
        Ok(())
    }

    fn indexed_blocks(&mut self, insn: Insn) -> Result<Part, Error> {
        let from = self.used;
        self.take(insn.b, insn.a as usize)?;
        let disps = &self.table[from..self.used];
        let len = i64::from(insn.c);
        let (low, high) = extremes(disps);
        Ok(Part {
            bytes: product(insn.a.into(), insn.c.into())?,
            fragments: insn.a.into(),
            lo: low,
            hi: narrow(i128::from(high) + i128::from(len))?,
            run: disps
                .windows(2)
                .all(|w| w[0].checked_add(len) == Some(w[1])),
        })
    }

    fn indexed(&mut self, at: usize, insn: Insn) -> Result<Part, Error> {
        let from = self.used;
        self.take(insn.b, insn.a as usize * 2)?;
        let to = self.ends.len() as u32;
        self.set_link(
            at,
            Link {
                to,
                ..Link::default()
            },
        );
        let mut body = Body::new(at);
        for &[disp, len] in self.table[from..self.used].as_chunks::<2>().0 {
            let bytes = u64::try_from(len).unwrap_or(0);
            if bytes == 0 || bytes % insn.kind.element() != 0 {
                return Err(Error::Malformed("length of an indexed fragment"));
            }
            let hi = narrow(i128::from(disp) + i128::from(len))?;
            body.add(Part {
                bytes,
                fragments: 1,
                lo: disp,
                hi,
                run: true,
            })?;
            self.ends.push(body.bytes);
        }
        body.times(1, 0, 0, true)
    }

    fn set_link(&mut self, at: usize, link: Link) {
        if self.links.is_empty() {
            self.links = vec![Link::default(); self.insns.len()];
        }
        self.links[at] = link;
    }

    /// Closes the loop whose body is `body` with the `End` at `at`.
    fn close(&mut self, at: usize, body: &Body) -> Result<Part, Error> {
        let start = body.start;
        let insn = self.insns[start];
        if body.bytes == 0 {
            return Err(Error::Malformed("a loop that emits nothing"));
        }
        let column = insn.op == Op::Loop
            && matches!(&self.insns[start + 1..at], [only] if Grid::is_column(only, insn.b));
        let link = |to: usize| Link {
            bytes: body.bytes,
            to: to as u32,
            flat: body.flat,
            column,
        };
        self.set_link(start, link(at));
        self.set_link(at, link(start));
        let run_len = body.bytes as i64;
        if insn.op == Op::Loop {
            let (low, high) = span(insn.a, insn.b)?;
            return body.times(insn.a, low, high, insn.b == run_len);
        }
        // In range: `take` saw this index and count at the `Ixl`.
        let from = insn.b as usize;
        let disps = &self.table[from..from + insn.a as usize];
        let (low, high) = extremes(disps);
        let dense = disps
            .windows(2)
            .all(|w| w[0].checked_add(run_len) == Some(w[1]));
        body.times(insn.a, low, high, dense)
    }
}

/// Lowest and highest displacement of `count` steps of `step`.
fn span(count: u32, step: i64) -> Result<(i64, i64), Error> {
    let last = narrow(i128::from(step) * i128::from(count - 1))?;
    Ok((last.min(0), last.max(0)))
}

/// Lowest and highest of one or more displacements.
fn extremes(disps: &[i64]) -> (i64, i64) {
    disps
        .iter()
        .fold((i64::MAX, i64::MIN), |(lo, hi), &d| (lo.min(d), hi.max(d)))
}
