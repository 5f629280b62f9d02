//! Building a layout: combinators that keep the tree normalised.
//!
//! The order of fragments is the type map's order and never changes. Normal form: no empty parts,
//! no loop of one iteration, adjacent blocks of equal kind are one block, a dense loop is a block, a
//! loop that continues the loop inside it is one loop, sequences are flat, evenly spaced blocks are
//! a loop, many blocks are a table. Work and memory are proportional to what the caller lists,
//! never to a repeat count.

use std::rc::Rc;

use crate::{Error, Kind};

/// From this many separate blocks of one kind on, a sequence keeps them in a table: one
/// instruction then runs them in a tight loop.
const TABLE_FROM: usize = 4;

/// Up to so many fragments are written out as single blocks where they are a loop's body: a body of
/// nothing but blocks is run without dispatching its instructions one by one.
const UNROLL: usize = 16;
/// Loops of fewer iterations aren't worth longer bodies.
const UNROLL_FROM: u64 = 32;

/// A normalised layout, relative to the start of its buffer.
#[derive(Clone, Debug)]
pub struct Tree {
    pub(crate) disp: i64,
    pub(crate) size: u64,
    /// The bytes lie in `[lo, hi)`, relative to the buffer, not to `disp`.
    lo: i64,
    hi: i64,
    pub(crate) shape: Shape,
}

#[derive(Clone, Debug)]
pub(crate) enum Shape {
    Empty,
    Block {
        len: u64,
        kind: Kind,
    },
    /// A loop whose body is one block at 0.
    Strided {
        count: u64,
        step: i64,
        len: u64,
        kind: Kind,
    },
    /// Any other loop.
    Loop {
        count: u64,
        step: i64,
        body: Rc<Tree>,
    },
    Blocks {
        spans: Rc<[(i64, u64)]>,
        kind: Kind,
    },
    Each {
        disps: Rc<[i64]>,
        body: Rc<Tree>,
    },
    Seq(Rc<[Tree]>),
}

fn fits(size: u64) -> Result<u64, Error> {
    if size > i64::MAX as u64 {
        Err(Error::Overflow)
    } else {
        Ok(size)
    }
}

fn times(size: u64, count: u64) -> Result<u64, Error> {
    fits(size.checked_mul(count).ok_or(Error::Overflow)?)
}

fn plus(a: i64, b: i64) -> Result<i64, Error> {
    a.checked_add(b).ok_or(Error::Overflow)
}

/// The common difference of `disps` (two or more), if there is one.
fn progression(mut disps: impl Iterator<Item = i64>) -> Option<i64> {
    let (first, second) = (disps.next()?, disps.next()?);
    let step = second.checked_sub(first)?;
    let mut last = second;
    for d in disps {
        if d.checked_sub(last)? != step {
            return None;
        }
        last = d;
    }
    Some(step)
}

impl Tree {
    /// Nothing at all.
    pub const EMPTY: Tree = Tree {
        disp: 0,
        size: 0,
        lo: 0,
        hi: 0,
        shape: Shape::Empty,
    };

    /// `len` bytes of `kind` at `disp`.
    pub fn block(disp: i64, len: u64, kind: Kind) -> Result<Tree, Error> {
        if len == 0 {
            return Ok(Tree::EMPTY);
        }
        let hi = plus(disp, fits(len)? as i64)?;
        Ok(Tree {
            disp,
            size: len,
            lo: disp,
            hi,
            shape: Shape::Block { len, kind },
        })
    }

    /// Bytes of data.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Where the lowest byte lies; 0 where there is none.
    pub fn lo(&self) -> i64 {
        self.lo
    }

    /// Where the byte after the highest lies; 0 where there is none.
    pub fn hi(&self) -> i64 {
        self.hi
    }

    /// If the layout is one block: its displacement, length and kind.
    pub fn as_block(&self) -> Option<(i64, u64, Kind)> {
        match self.shape {
            Shape::Block { len, kind } => Some((self.disp, len, kind)),
            _ => None,
        }
    }

    /// The same layout `by` bytes further.
    pub fn shifted(&self, by: i64) -> Result<Tree, Error> {
        if self.size == 0 {
            return Ok(Tree::EMPTY);
        }
        Ok(Tree {
            disp: plus(self.disp, by)?,
            lo: plus(self.lo, by)?,
            hi: plus(self.hi, by)?,
            ..self.clone()
        })
    }

    /// The same layout with displacement 0: the body of a loop at this one's displacement.
    fn body(&self) -> Result<Rc<Tree>, Error> {
        let back = self.disp.checked_neg().ok_or(Error::Overflow)?;
        Ok(Rc::new(self.shifted(back)?))
    }

    /// The layout `count` times, `step` bytes further each time.
    pub fn repeat(&self, count: u64, step: i64) -> Result<Tree, Error> {
        if count == 0 || self.size == 0 {
            return Ok(Tree::EMPTY);
        }
        if count == 1 {
            return Ok(self.clone());
        }
        let size = times(self.size, count)?;
        let last = i64::try_from(count - 1).map_err(|_| Error::Overflow)?;
        let far = step.checked_mul(last).ok_or(Error::Overflow)?;
        let (lo, hi) = (plus(self.lo, far.min(0))?, plus(self.hi, far.max(0))?);
        let over = |shape| {
            Ok(Tree {
                disp: self.disp,
                size,
                lo,
                hi,
                shape,
            })
        };

        // Whether `inner` times `small` are one step, so that both loops are one.
        let continues =
            |inner: u64, small: i64| i128::from(small) * i128::from(inner) == i128::from(step);
        match self.shape {
            Shape::Block { len, kind } if i64::try_from(len) == Ok(step) => {
                over(Shape::Block { len: size, kind })
            }
            Shape::Block { len, kind } => over(Shape::Strided {
                count,
                step,
                len,
                kind,
            }),
            Shape::Strided {
                count: inner,
                step: small,
                len,
                kind,
            } if continues(inner, small) => over(Shape::Strided {
                count: inner * count,
                step: small,
                len,
                kind,
            }),
            Shape::Loop {
                count: inner,
                step: small,
                ref body,
            } if continues(inner, small) => over(Shape::Loop {
                count: inner * count,
                step: small,
                body: body.clone(),
            }),
            _ => {
                let plain = self.body()?;
                let unrolled = match count >= UNROLL_FROM {
                    true => plain.unrolled(),
                    false => None,
                };
                let body = unrolled.unwrap_or(plain);
                over(Shape::Loop { count, step, body })
            }
        }
    }

    /// The same layout, which is more than one block, as single blocks if these are few.
    fn unrolled(&self) -> Option<Rc<Tree>> {
        let mut parts = Vec::with_capacity(self.few_blocks()?);
        let mut push = |disp, len, kind| {
            let block = Tree::block(disp, len, kind);
            block.map(|b| parts.push(b)).is_ok()
        };
        self.each_block(0, &mut push).then(|| {
            Rc::new(Tree {
                shape: Shape::Seq(parts.into()),
                disp: 0,
                ..*self
            })
        })
    }

    /// As `unrolled`, for the whole of a program, where a lone loop is as good already: how many blocks.
    pub(crate) fn unrolled_program(&self) -> Option<usize> {
        match self.shape {
            Shape::Seq(_) | Shape::Blocks { .. } => self.few_blocks(),
            _ => None,
        }
    }

    /// How many fragments there are, if these are few.
    fn few_blocks(&self) -> Option<usize> {
        let mut count = 0;
        let mut one = |_, _, _| {
            count += 1;
            count <= UNROLL
        };
        self.each_block(0, &mut one).then_some(count)
    }

    /// Hands the displacement, length and kind of each fragment, displaced by `at`, to `take` as long as that says yes; says whether it
    /// always did.
    pub(crate) fn each_block(
        &self,
        at: i64,
        take: &mut impl FnMut(i64, u64, Kind) -> bool,
    ) -> bool {
        let at = at.wrapping_add(self.disp);
        match &self.shape {
            Shape::Empty => true,
            Shape::Block { len, kind } => take(at, *len, *kind),
            Shape::Blocks { spans, kind } => spans
                .iter()
                .all(|&(disp, len)| take(at.wrapping_add(disp), len, *kind)),
            Shape::Strided {
                count,
                step,
                len,
                kind,
            } => (0..*count).all(|i| {
                let far = step.wrapping_mul(i as i64);
                take(at.wrapping_add(far), *len, *kind)
            }),
            Shape::Loop { count, step, body } => (0..*count)
                .all(|i| body.each_block(at.wrapping_add(step.wrapping_mul(i as i64)), take)),
            Shape::Each { disps, body } => disps
                .iter()
                .all(|d| body.each_block(at.wrapping_add(*d), take)),
            Shape::Seq(parts) => parts.iter().all(|p| p.each_block(at, take)),
        }
    }

    /// The layout once at each of `disps`, in that order.
    pub fn scatter(&self, disps: &[i64]) -> Result<Tree, Error> {
        if let [only] = disps {
            return self.shifted(*only);
        }
        if let Some((disp, len, kind)) = self.as_block() {
            let spans = disps.iter().map(|&d| Ok((plus(disp, d)?, len)));
            return Tree::blocks(spans.collect::<Result<Vec<_>, Error>>()?, kind);
        }
        if self.size == 0 || disps.is_empty() {
            return Ok(Tree::EMPTY);
        }
        if let Some(step) = progression(disps.iter().copied()) {
            return self.shifted(disps[0])?.repeat(disps.len() as u64, step);
        }
        let size = times(self.size, disps.len() as u64)?;
        let (low, high) = disps
            .iter()
            .fold((i64::MAX, i64::MIN), |(lo, hi), &d| (lo.min(d), hi.max(d)));
        let (lo, hi) = (plus(self.lo, low)?, plus(self.hi, high)?);
        let shape = Shape::Each {
            disps: disps.into(),
            body: self.body()?,
        };
        Ok(Tree {
            disp: self.disp,
            size,
            lo,
            hi,
            shape,
        })
    }

    /// Blocks of one kind, each a displacement and a length, in that order.
    pub fn blocks(mut spans: Vec<(i64, u64)>, kind: Kind) -> Result<Tree, Error> {
        spans.retain(|s| s.1 > 0);
        let (mut size, mut lo, mut hi) = (0u64, i64::MAX, i64::MIN);
        for &(disp, len) in &spans {
            size = fits(size.checked_add(len).ok_or(Error::Overflow)?)?;
            lo = lo.min(disp);
            hi = hi.max(plus(disp, len as i64)?);
        }
        spans.dedup_by(|next, last| {
            let adjacent = i128::from(last.0) + i128::from(last.1) == i128::from(next.0);
            if adjacent {
                last.1 += next.1;
            }
            adjacent
        });
        let (Some(&(first, len)), count) = (spans.first(), spans.len()) else {
            return Ok(Tree::EMPTY);
        };
        if count == 1 {
            return Tree::block(first, len, kind);
        }
        if spans.iter().all(|s| s.1 == len)
            && let Some(step) = progression(spans.iter().map(|s| s.0))
        {
            return Tree::block(first, len, kind)?.repeat(count as u64, step);
        }
        Ok(Tree {
            disp: 0,
            size,
            lo,
            hi,
            shape: Shape::Blocks {
                spans: spans.into(),
                kind,
            },
        })
    }

    /// The parts one after the other.
    pub fn seq(parts: &[Tree]) -> Result<Tree, Error> {
        let mut flat = Flat::default();
        for part in parts {
            match &part.shape {
                Shape::Seq(inner) => {
                    for child in inner.iter() {
                        flat.push(child.shifted(part.disp)?)?;
                    }
                }
                _ => flat.push(part.clone())?,
            }
        }
        flat.flush()?;
        let mut parts = flat.parts;
        match parts.len() {
            0 => Ok(Tree::EMPTY),
            1 => Ok(parts.remove(0)),
            _ => {
                let (mut size, mut lo, mut hi) = (0u64, i64::MAX, i64::MIN);
                for part in &parts {
                    size = fits(size.checked_add(part.size).ok_or(Error::Overflow)?)?;
                    (lo, hi) = (lo.min(part.lo), hi.max(part.hi));
                }
                Ok(Tree {
                    disp: 0,
                    size,
                    lo,
                    hi,
                    shape: Shape::Seq(parts.into()),
                })
            }
        }
    }
}

/// Gathers neighbouring blocks of one kind while a sequence is flattened.
#[derive(Default)]
struct Flat {
    parts: Vec<Tree>,
    spans: Vec<(i64, u64)>,
    kind: Option<Kind>,
}

impl Flat {
    fn push(&mut self, part: Tree) -> Result<(), Error> {
        match &part.shape {
            Shape::Empty => {}
            Shape::Block { len, kind } => {
                self.enter(*kind)?;
                self.span(part.disp, *len);
            }
            Shape::Blocks { spans, kind } => {
                self.enter(*kind)?;
                for &(disp, len) in spans.iter() {
                    self.span(plus(disp, part.disp)?, len);
                }
            }
            _ => {
                self.flush()?;
                self.parts.push(part);
            }
        }
        Ok(())
    }

    fn enter(&mut self, kind: Kind) -> Result<(), Error> {
        if self.kind != Some(kind) {
            self.flush()?;
            self.kind = Some(kind);
        }
        Ok(())
    }

    fn span(&mut self, disp: i64, len: u64) {
        if let Some(last) = self.spans.last_mut()
            && i128::from(last.0) + i128::from(last.1) == i128::from(disp)
        {
            // Can't overflow: the two are one stretch of displacements.
            last.1 += len;
        } else {
            self.spans.push((disp, len));
        }
    }

    fn flush(&mut self) -> Result<(), Error> {
        let spans = std::mem::take(&mut self.spans);
        let Some(kind) = self.kind.take() else {
            return Ok(());
        };
        if spans.len() >= TABLE_FROM {
            self.parts.push(Tree::blocks(spans, kind)?);
        } else {
            for (disp, len) in spans {
                self.parts.push(Tree::block(disp, len, kind)?);
            }
        }
        Ok(())
    }
}
