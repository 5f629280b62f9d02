//! Pieces of arrays: `MPI_Type_create_subarray` and `MPI_Type_create_darray`.
//!
//! Both are built dimension by dimension from the fastest-varying one, each dimension with the exact
//! distance between its elements in the whole array.

use layout::Tree;
use types::{DARG_NUMBER, Result, consts, fault};

use crate::bounds::{Bounds, plus, times};
use crate::refused;

/// Which elements of one dimension belong to the piece.
#[derive(Clone, Copy, Debug)]
struct Dimension {
    /// Elements in the whole array.
    whole: i64,
    /// First element.
    start: i64,
    /// Whole blocks, of how many elements, how many elements apart.
    blocks: i64,
    len: i64,
    apart: i64,
    /// Elements of a last, shorter block.
    rest: i64,
}

/// A piece of an array; dimensions from the fastest-varying on.
#[derive(Debug)]
pub(crate) struct Piece {
    extent: i64,
    dimensions: Vec<Dimension>,
}

impl Piece {
    /// The piece that a subarray's arguments describe: the number of dimensions, sizes, sizes of the piece, starts, order.
    pub(crate) fn subarray(v: &[i64], extent: i64) -> Piece {
        let n = v[0] as usize;
        let (v, order) = (&v[1..1 + 3 * n], v[1 + 3 * n]);
        let mut dimensions: Vec<Dimension> = (0..n)
            .map(|d| Dimension {
                whole: v[d],
                start: v[2 * n + d],
                blocks: 1,
                len: v[n + d],
                apart: 0,
                rest: 0,
            })
            .collect();
        if order == i64::from(consts::ORDER_C) {
            dimensions.reverse();
        }
        Piece { extent, dimensions }
    }

    /// The piece that a darray's arguments describe: processes, rank, the number of dimensions, global sizes, distributions, their arguments,
    /// sizes of the process grid, order.
    pub(crate) fn darray(v: &[i64], extent: i64) -> Result<Piece> {
        let n = v[2] as usize;
        let list = |i: usize| &v[3 + i * n..3 + (i + 1) * n];
        let (gsizes, distribs, dargs, psizes) = (list(0), list(1), list(2), list(3));
        let order = v[3 + 4 * n];
        // Process coordinates are row-major whatever the array's order is.
        let (mut procs, mut left) = (v[0], v[1]);
        let mut dimensions = Vec::with_capacity(n);
        for d in 0..n {
            procs /= psizes[d];
            let coord = left / procs;
            left %= procs;
            let distribution = Distribution {
                whole: gsizes[d],
                procs: psizes[d],
                coord,
            };
            dimensions.push(distribution.dimension(distribs[d] as i32, dargs[d])?);
        }
        if order == i64::from(consts::ORDER_C) {
            dimensions.reverse();
        }
        Ok(Piece { extent, dimensions })
    }

    /// Elements of the piece.
    pub(crate) fn elements(&self) -> Result<i64> {
        self.dimensions
            .iter()
            .try_fold(1, |n, d| times(n, plus(times(d.blocks, d.len)?, d.rest)?))
    }

    /// The bounds: those of the whole array.
    pub(crate) fn bounds(&self) -> Result<Bounds> {
        let whole = self
            .dimensions
            .iter()
            .try_fold(self.extent, |n, d| times(n, d.whole))?;
        Bounds::explicit(0, whole)
    }

    /// The layout, given that of one element.
    pub(crate) fn tree(&self, element: &Tree) -> Result<Tree> {
        let mut tree = element.clone();
        let mut stride = self.extent;
        for d in &self.dimensions {
            tree = d.tree(&tree, stride)?;
            stride = times(stride, d.whole)?;
        }
        Ok(tree)
    }
}

impl Dimension {
    fn tree(&self, inner: &Tree, stride: i64) -> Result<Tree> {
        let apart = times(self.apart, stride)?;
        let block = inner.repeat(self.len as u64, stride).map_err(refused)?;
        let mut tree = block.repeat(self.blocks as u64, apart).map_err(refused)?;
        if self.rest > 0 {
            let last = inner.repeat(self.rest as u64, stride).map_err(refused)?;
            let last = last.shifted(times(apart, self.blocks)?).map_err(refused)?;
            tree = Tree::seq(&[tree, last]).map_err(refused)?;
        }
        tree.shifted(times(self.start, stride)?).map_err(refused)
    }
}

/// One dimension of a distributed array as one process sees it.
struct Distribution {
    whole: i64,
    procs: i64,
    coord: i64,
}

impl Distribution {
    fn dimension(&self, distribution: i32, darg: i64) -> Result<Dimension> {
        let default = darg == i64::from(consts::DISTRIBUTE_DFLT_DARG);
        let darg = if darg >= DARG_NUMBER {
            darg - DARG_NUMBER
        } else {
            darg
        };
        match distribution {
            consts::DISTRIBUTE_BLOCK => {
                let size = if default {
                    self.whole / self.procs + i64::from(self.whole % self.procs != 0)
                } else {
                    darg
                };
                if size <= 0 || i128::from(size) * i128::from(self.procs) < i128::from(self.whole) {
                    let why = format!(
                        "blocks of {size} elements on {} processes do not cover a dimension of {}",
                        self.procs, self.whole
                    );
                    return Err(fault(consts::ERR_ARG, why));
                }
                let start = times(size, self.coord)?;
                let len = size.min(self.whole - start).max(0);
                Ok(self.one(if len == 0 { 0 } else { start }, len))
            }
            consts::DISTRIBUTE_CYCLIC => {
                let size = if default { 1 } else { darg };
                if size <= 0 {
                    let why = format!("a cyclic distribution of blocks of {size} elements");
                    return Err(fault(consts::ERR_ARG, why));
                }
                self.cyclic(size)
            }
            consts::DISTRIBUTE_NONE if self.procs == 1 => Ok(self.one(0, self.whole)),
            consts::DISTRIBUTE_NONE => {
                let why = format!(
                    "a dimension that is not distributed has {} processes instead of 1",
                    self.procs
                );
                Err(fault(consts::ERR_ARG, why))
            }
            other => Err(fault(
                consts::ERR_ARG,
                format!("unknown distribution {other}"),
            )),
        }
    }

    fn one(&self, start: i64, len: i64) -> Dimension {
        Dimension {
            whole: self.whole,
            start,
            blocks: 1,
            len,
            apart: 0,
            rest: 0,
        }
    }

    fn cyclic(&self, size: i64) -> Result<Dimension> {
        let (start, apart) = (times(size, self.coord)?, times(size, self.procs)?);
        if start >= self.whole {
            return Ok(self.one(0, 0));
        }
        let span = self.whole - start;
        let (rounds, tail) = (span / apart, span % apart);
        // What is left after the whole rounds may hold one more whole block, or a shorter one.
        let (blocks, rest) = if tail >= size {
            (rounds + 1, 0)
        } else {
            (rounds, tail)
        };
        Ok(Dimension {
            whole: self.whole,
            start,
            blocks,
            len: size,
            apart,
            rest,
        })
    }
}
