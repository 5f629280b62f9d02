//! Which elements of a column-major matrix a call is about, and copying them to and from packed memory.
//!
//! Packed memory holds the elements column by column without gaps. A [`Cursor`] walks through a shape piece
//! by piece, so that a matrix of any size passes through two faces. The matrix is only touched through
//! [`UserBuf`], whose maker vouches for it.

use boundary::UserBuf;

use crate::flow::CUT;

/// Which part of the rectangle is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// All of it.
    General,
    /// The upper trapezoid.
    Upper {
        /// The diagonal is taken to be one, and is neither sent nor written.
        unit: bool,
    },
    /// The lower trapezoid.
    Lower {
        /// As for the upper one.
        unit: bool,
    },
}

impl Part {
    /// What `UPLO` and `DIAG` say: all that isn't `U` is the lower trapezoid, or a diagonal that counts.
    pub fn trapezoid(uplo: u8, diag: u8) -> Part {
        let unit = diag.eq_ignore_ascii_case(&b'u');
        match uplo.eq_ignore_ascii_case(&b'u') {
            true => Part::Upper { unit },
            false => Part::Lower { unit },
        }
    }
}

/// Elements of a matrix in memory; all lengths in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    part: Part,
    rows: usize,
    columns: usize,
    element: usize,
    /// From one column to the next.
    stride: usize,
    bytes: usize,
}

impl Shape {
    /// `m` rows and `n` columns (none where one is negative) of elements of `element` bytes; a leading dimension
    /// below `m` counts as `m`. `None` if the matrix would be larger than the address space.
    pub fn new(part: Part, m: i32, n: i32, lda: i32, element: usize) -> Option<Shape> {
        let [m, n, lda] = [m, n, lda].map(|x| usize::try_from(x).unwrap_or(0));
        let stride = lda.max(m).checked_mul(element)?;
        isize::try_from(stride.checked_mul(n)?).ok()?;
        let mut shape = Shape {
            part,
            rows: m,
            columns: n,
            element,
            stride,
            bytes: 0,
        };
        shape.bytes = match part {
            Part::General => m * n * element,
            _ => (0..n).map(|column| shape.run(column).1).sum(),
        };
        Some(shape)
    }

    /// Bytes of a matrix that is one piece of a message from the matrix's address on; `None` says that it takes a closer look. For
    /// arguments as [`Shape::new`] has them; what [is cramped](Shape::is_cramped) takes one.
    #[inline]
    pub fn piece(part: Part, m: i32, n: i32, lda: i32, element: usize) -> Option<usize> {
        // A product of two of 32 bits can't overflow.
        let elements = u64::from(m as u32) * u64::from(n as u32);
        let whole = (m | n) >= 0 && elements <= ((CUT - 1) / element) as u64;
        let run = n == 1 || lda == m;
        (part == Part::General && whole && run).then(|| elements as usize * element)
    }

    /// The same for matrices of one column only, as most short messages are: in few instructions, as one of one element takes some hundred in
    /// all.
    #[inline(always)]
    pub fn column(part: Part, m: i32, n: i32, element: usize) -> Option<usize> {
        // What is negative is large.
        let short = (m as u32) <= ((CUT - 1) / element) as u32;
        (part == Part::General && n == 1 && short).then(|| m as usize * element)
    }

    /// Whether a leading dimension that matters is too small.
    pub fn is_cramped(m: i32, n: i32, lda: i32) -> bool {
        m > 0 && n > 1 && lda < m
    }

    /// Bytes of all its elements.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Elements.
    pub fn elements(&self) -> usize {
        self.bytes / self.element
    }

    /// The elements of one column: offset from the matrix's address, and length.
    ///
    /// The trapezoid of a matrix with more rows than columns has the triangle at its bottom (upper) or top
    /// (lower), with more columns than rows at its left (upper) or right (lower).
    fn run(&self, column: usize) -> (usize, usize) {
        let (m, n) = (self.rows, self.columns);
        let (first, end) = match self.part {
            Part::General => (0, m),
            Part::Upper { unit } => {
                let below = column + m.saturating_sub(n) + usize::from(!unit);
                (0, below.min(m))
            }
            Part::Lower { unit } => {
                let full = n.saturating_sub(m);
                match column < full {
                    true => (0, m),
                    false => (column - full + usize::from(unit), m),
                }
            }
        };
        let first = first.min(end);
        (
            column * self.stride + first * self.element,
            (end - first) * self.element,
        )
    }

    /// Where all elements lie in one run: its offset from the matrix's address.
    pub fn contiguous(&self) -> Option<usize> {
        if self.part == Part::General {
            let one = self.stride == self.rows * self.element || self.columns <= 1;
            return (one || self.bytes == 0).then_some(0);
        }
        let mut found: Option<(usize, usize)> = None;
        for (offset, length) in (0..self.columns).map(|column| self.run(column)) {
            match found {
                _ if length == 0 => {}
                None => found = Some((offset, offset + length)),
                Some((start, end)) if end == offset => found = Some((start, end + length)),
                Some(_) => return None,
            }
        }
        Some(found.map_or(0, |(start, _)| start))
    }

    /// A walk through the elements, from the first.
    pub fn cursor(&self) -> Cursor {
        Cursor {
            shape: *self,
            column: 0,
            done: 0,
        }
    }
}

/// A walk through the elements of a shape.
#[derive(Clone, Debug)]
pub struct Cursor {
    shape: Shape,
    column: usize,
    /// Bytes of this column that are behind us.
    done: usize,
}

impl Cursor {
    /// Copies the next `bytes` of the matrix at `a` to `packed`.
    pub fn pack(&mut self, a: UserBuf, packed: UserBuf, bytes: usize) {
        self.walk(bytes, |offset, at, length| {
            copy(packed.offset(at as i64), a.offset(offset as i64), length);
        });
    }

    /// Copies `bytes` of `packed` to the next elements of the matrix at `a`.
    pub fn unpack(&mut self, a: UserBuf, packed: UserBuf, bytes: usize) {
        self.walk(bytes, |offset, at, length| {
            copy(a.offset(offset as i64), packed.offset(at as i64), length);
        });
    }

    /// Calls `visit(offset in the matrix, offset in packed memory, length)` for each run of the next `bytes`.
    fn walk(&mut self, bytes: usize, mut visit: impl FnMut(usize, usize, usize)) {
        let mut at = 0;
        while at < bytes && self.column < self.shape.columns {
            let (offset, length) = self.shape.run(self.column);
            let piece = (length - self.done).min(bytes - at);
            if piece > 0 {
                visit(offset + self.done, at, piece);
            }
            at += piece;
            self.done += piece;
            if self.done == length {
                self.column += 1;
                self.done = 0;
            }
        }
    }
}

/// Copies one run. Rows of a matrix are runs of one element: a call of the C library for each would cost more than
/// the copy.
#[inline(always)]
fn copy(to: UserBuf, from: UserBuf, length: usize) {
    match length {
        4 => to.copy_from(from, 4),
        8 => to.copy_from(from, 8),
        16 => to.copy_from(from, 16),
        _ => to.copy_from(from, length),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Whether row `i` (from 0) of column `j` belongs to the shape, by the definition of the trapezoids.
    fn belongs(part: Part, m: usize, n: usize, i: usize, j: usize) -> bool {
        let (i, j, m, n) = (i as i64, j as i64, m as i64, n as i64);
        // The diagonal runs through the last element of an upper trapezoid with m > n, and through the last one
        // of a lower trapezoid with n > m.
        match part {
            Part::General => true,
            Part::Upper { unit } => i - (m - n).max(0) < j + i64::from(!unit),
            Part::Lower { unit } => i + (n - m).max(0) + i64::from(!unit) > j,
        }
    }

    fn parts() -> impl Strategy<Value = Part> {
        prop_oneof![
            Just(Part::General),
            any::<bool>().prop_map(|unit| Part::Upper { unit }),
            any::<bool>().prop_map(|unit| Part::Lower { unit }),
        ]
    }

    proptest! {
        #[test]
        fn packs_what_belongs(
            part in parts(), m in 0usize..12, n in 0usize..12, extra in 0usize..3,
            element in prop::sample::select(vec![4usize, 8, 16]), piece in 1usize..70,
        ) {
            let lda = m + extra;
            let shape = Shape::new(part, m as i32, n as i32, lda as i32, element).unwrap();
            let mut a: Vec<u8> = (0..lda * n * element).map(|x| (x * 7 % 251) as u8).collect();
            let mut expected = Vec::new();
            let mut inside = vec![false; a.len()];
            for j in 0..n {
                for i in 0..m {
                    if belongs(part, m, n, i, j) {
                        let at = (j * lda + i) * element;
                        expected.extend(&a[at..at + element]);
                        inside[at..at + element].fill(true);
                    }
                }
            }
            prop_assert_eq!(shape.bytes(), expected.len());
            let mut packed = vec![0u8; expected.len()];
            let mut cursor = shape.cursor();
            for start in (0..packed.len()).step_by(piece) {
                let end = (start + piece).min(packed.len());
                let to = UserBuf::of_array(&mut packed[start..end]);
                cursor.pack(UserBuf::of_array(&mut a), to, end - start);
            }
            prop_assert_eq!(&packed, &expected);
            if let Some(offset) = shape.contiguous() {
                prop_assert_eq!(&a[offset..offset + expected.len()], &expected[..]);
            } else {
                let runs = inside.windows(2).filter(|pair| pair[0] && !pair[1]).count();
                prop_assert!(runs + usize::from(inside.last() == Some(&true)) > 1);
            }
            let mut back = vec![0xffu8; a.len()];
            let mut cursor = shape.cursor();
            for start in (0..packed.len()).step_by(piece) {
                let end = (start + piece).min(packed.len());
                let from = UserBuf::of_array(&mut packed[start..end]);
                cursor.unpack(UserBuf::of_array(&mut back), from, end - start);
            }
            for at in 0..a.len() {
                prop_assert_eq!(back[at], if inside[at] { a[at] } else { 0xff });
            }
        }
    }

    proptest! {
        #[test]
        fn a_piece_is_what_a_closer_look_finds(
            part in parts(), m in -2i32..300, n in -2i32..70, lda in -1i32..400,
            element in prop::sample::select(vec![4usize, 8, 16]),
        ) {
            let shape = Shape::new(part, m, n, lda, element).unwrap();
            let piece = Shape::piece(part, m, n, lda, element);
            let column = Shape::column(part, m, n, element);
            prop_assert_eq!(column, piece.filter(|_| n == 1));
            if let Some(bytes) = piece {
                prop_assert!(bytes < CUT);
                prop_assert_eq!((shape.contiguous(), shape.bytes()), (Some(0), bytes));
            } else if part == Part::General && m >= 0 && n >= 0 && !Shape::is_cramped(m, n, lda) {
                prop_assert!(shape.bytes() >= CUT || shape.bytes() == 0 || shape.contiguous().is_none());
            }
        }
    }

    #[test]
    fn sizes_are_bounded() {
        assert!(Shape::new(Part::General, i32::MAX, i32::MAX, i32::MAX, 16).is_none());
        let none = Shape::new(Part::General, -3, 4, 1, 8).unwrap();
        assert_eq!((none.bytes(), none.contiguous()), (0, Some(0)));
    }

    #[test]
    fn letters() {
        assert_eq!(Part::trapezoid(b'u', b'N'), Part::Upper { unit: false });
        assert_eq!(Part::trapezoid(b'L', b'U'), Part::Lower { unit: true });
        assert_eq!(Part::trapezoid(b'x', b'x'), Part::Lower { unit: false });
    }
}
