//! Matrices that are packed across the way they lie: column by column, where each row lies in one run.
//!
//! One element of each line after the other is what a program says then (a vector in a loop of as many bytes as one element has), and done so it
//! fetches every line as often as that has elements, most of them from where rows lie a power of two apart and share few places of the cache.
//! Here tiles of as many rows as a line has elements are turned in vectors ([`boundary::turn`]), so each line is read and written as a whole before others take its place. A matrix of 512 by 512
//! floats was packed at 18 GB/s in place of 3.4 and unpacked at 19 in place of 0.65 so, one of 2048 by 2048 at 3.2 and 3.7 in place of 0.73 and 0.61, when tiles were
//! turned element by element (in chunks of 32 KiB on an EPYC of the fifth generation). In vectors matrices of 64, 256 and 512 by as many floats are moved at 23, 22 and 14 GB/s in place
//! of 8.3, 15 and 8.3 (on a Xeon of the sixth generation).
//!
//! Who calls it: the [movers](crate::kernels), for what the [cursor](crate::cursor) finds.

use boundary::UserBuf;
use boundary::turn::{Readable, Rows, turn};

use crate::{Insn, Op};

/// Bytes up to which a matrix is moved element by element: 8 by 8 floats take as long both ways, 16 by 16 are moved at 3.1 GB/s so and at 5.5 in tiles.
const NEAR: u64 = 256;

/// Bytes from which on a matrix may have left the second cache (2048 by 2048 floats are moved at 1.2 GB/s where no rows are asked for, and at 1.9 so).
const FAR: u64 = 512 << 10;

/// Some columns of a matrix.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grid {
    /// Where the first column begins, in bytes from the buffer's address; the others lie behind it, element by element.
    start: i64,
    columns: usize,
    rows: usize,
    /// Bytes from one row to the next.
    stride: i64,
}

impl Grid {
    /// Whether there are few columns, as where only part of a matrix has room.
    #[inline]
    pub(crate) fn is_narrow(&self, tile: usize) -> bool {
        self.columns < tile
    }

    /// Whether there is a way for elements of so many bytes.
    const fn takes(element: u16) -> bool {
        matches!(element, 2 | 4 | 8 | 16)
    }

    /// Whether a body of this alone, repeated `step` bytes further each time, is a column of a matrix that is worth a way of its own.
    #[inline]
    pub(crate) fn is_column(only: &Insn, step: i64) -> bool {
        if only.op != Op::Vec || step != i64::from(only.c) || !Grid::takes(only.c) {
            return false;
        }
        only.b.unsigned_abs().saturating_mul(only.a.into()) > NEAR
    }

    /// So many such columns, the first of which begins at `start`. `None`: it is one column, or rows overlap, and which is written first is the program's business.
    #[inline]
    pub(crate) fn new(column: &Insn, start: i64, columns: u64) -> Option<Grid> {
        let row = columns.saturating_mul(column.c.into());
        (columns > 1 && row <= column.b.unsigned_abs()).then_some(Grid {
            start,
            columns: columns as usize,
            rows: column.a as usize,
            stride: column.b,
        })
    }

    /// Bytes of data, of elements of `N` bytes.
    pub(crate) fn bytes<const N: usize>(&self) -> usize {
        self.columns * self.rows * N
    }

    /// Packs the matrix that lies behind `base` to `packed`, in tiles of `W` columns and `H` rows.
    #[inline(always)]
    pub(crate) fn pack<const N: usize, const W: usize, const H: usize>(
        &self,
        base: UserBuf,
        packed: UserBuf,
    ) {
        let (is_long, base) = (self.is_long(), base.into());
        self.tiles::<W, H>(|tile| {
            if is_long {
                let below = self.displacement::<N>(&tile, H);
                Rows::read(base, below, self.stride).ask(tile.height);
            }
            let lines = Rows::read(base, self.displacement::<N>(&tile, 0), self.stride);
            let (start, step) = self.packed::<N>(&tile);
            let columns = Rows::written(packed, start, step);
            turn::<N>(lines, columns, tile.height, tile.width);
        });
    }

    /// The other way.
    #[inline(always)]
    pub(crate) fn unpack<const N: usize, const W: usize, const H: usize>(
        &self,
        packed: Readable,
        base: UserBuf,
    ) {
        self.tiles::<W, H>(|tile| {
            let (start, step) = self.packed::<N>(&tile);
            let columns = Rows::read(packed, start, step);
            let lines = Rows::written(base, self.displacement::<N>(&tile, 0), self.stride);
            turn::<N>(columns, lines, tile.width, tile.height);
        });
    }

    /// Where the row begins that is `down` rows below a tile's first.
    #[inline(always)]
    fn displacement<const N: usize>(&self, tile: &Tile, down: usize) -> i64 {
        let rows = self.stride.wrapping_mul((tile.row + down) as i64);
        self.start
            .wrapping_add(rows)
            .wrapping_add((tile.column * N) as i64)
    }

    /// The packed byte at which a tile's first column begins, and how many it is from one column to the next.
    #[inline(always)]
    fn packed<const N: usize>(&self, tile: &Tile) -> (i64, i64) {
        let start = (tile.column * self.rows + tile.row) * N;
        (start as i64, (self.rows * N) as i64)
    }

    /// Whether rows are to be asked for before they are read.
    #[inline]
    fn is_long(&self) -> bool {
        self.stride.unsigned_abs().saturating_mul(self.rows as u64) >= FAR
    }

    /// Calls `take` for each tile of at most `W` by `H` elements, for whole ones with lengths that the compiler knows.
    #[inline(always)]
    fn tiles<const W: usize, const H: usize>(&self, mut take: impl FnMut(Tile)) {
        for column in (0..self.columns).step_by(W) {
            for row in (0..self.rows).step_by(H) {
                let (width, height) = (W.min(self.columns - column), H.min(self.rows - row));
                match width == W && height == H {
                    true => take(Tile {
                        column,
                        row,
                        width: W,
                        height: H,
                    }),
                    false => take(Tile {
                        column,
                        row,
                        width,
                        height,
                    }),
                }
            }
        }
    }
}

/// Some elements of a matrix: its first column and row, and how many of each.
struct Tile {
    column: usize,
    row: usize,
    width: usize,
    height: usize,
}
