//! Copying small matrices so that rows become columns.
//!
//! Compilers move elements one by one, or find vectors for it only as long as nothing around it changes. So this says in vectors of 16 bytes, which every processor
//! of x86-64 has, what is to be done with elements of 2, 4 and 8 bytes.
//!
//! Who calls it: `layout`, for matrices that are packed across the way they lie.

use crate::UserBuf;

/// Memory that is only read.
#[derive(Clone, Copy, Debug)]
pub struct Readable(UserBuf);

impl Readable {
    /// Memory of our own, for the time that `memory` is borrowed by the call it is passed to.
    pub fn of_bytes(memory: &[u8]) -> Readable {
        // SAFETY: it is valid for that time, and nothing writes through what this module keeps to itself.
        Readable(unsafe { UserBuf::new(memory.as_ptr() as usize) })
    }
}

impl From<UserBuf> for Readable {
    #[inline(always)]
    fn from(buf: UserBuf) -> Readable {
        Readable(buf)
    }
}

/// Rows of elements that lie side by side.
#[derive(Clone, Copy, Debug)]
pub struct Rows<Buf> {
    /// The first row.
    at: Buf,
    /// Bytes from a row to the next.
    step: i64,
}

impl Rows<Readable> {
    /// Rows that are read: the first begins `start` bytes behind `buf`, and each `step` bytes behind the one before.
    #[inline(always)]
    pub fn read(buf: Readable, start: i64, step: i64) -> Rows<Readable> {
        Rows {
            at: Readable(buf.0.offset(start)),
            step,
        }
    }

    #[inline(always)]
    fn byte(self, row: usize, at: usize) -> *const u8 {
        place(self.at.0, self.step, row, at)
    }

    /// Asks for the line in which each of so many rows begins, into the second cache: the first has few places for them.
    #[inline(always)]
    pub fn ask(self, rows: usize) {
        #[cfg(target_arch = "x86_64")]
        for row in 0..rows {
            use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
            // SAFETY: a prefetch never faults, whatever the address.
            unsafe { _mm_prefetch::<_MM_HINT_T1>(self.byte(row, 0).cast::<i8>()) }
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = rows;
    }
}

impl Rows<UserBuf> {
    /// Rows that are written, which lie in the same way.
    #[inline(always)]
    pub fn written(buf: UserBuf, start: i64, step: i64) -> Rows<UserBuf> {
        Rows {
            at: buf.offset(start),
            step,
        }
    }

    #[inline(always)]
    fn byte(self, row: usize, at: usize) -> *mut u8 {
        place(self.at, self.step, row, at)
    }
}

/// Where byte `at` of row `row` lies.
#[inline(always)]
fn place(buf: UserBuf, step: i64, row: usize, at: usize) -> *mut u8 {
    let down = step.wrapping_mul(row as i64);
    buf.offset(down.wrapping_add(at as i64)).as_mut_ptr()
}

/// Copies `rows` rows of `columns` elements of `N` bytes to as many columns of `to`.
#[inline(always)]
pub fn turn<const N: usize>(from: Rows<Readable>, to: Rows<UserBuf>, rows: usize, columns: usize) {
    let edge = edge::<N>();
    let (whole_rows, whole_columns) = (rows / edge * edge, columns / edge * edge);
    for j in (0..whole_columns).step_by(edge) {
        for i in (0..whole_rows).step_by(edge) {
            block::<N>(from, to, i, j);
        }
    }
    for j in 0..columns {
        let done = if j < whole_columns { whole_rows } else { 0 };
        for i in done..rows {
            element::<N>(from, to, i, j);
        }
    }
}

/// Elements on a side of a block.
const fn edge<const N: usize>() -> usize {
    match N {
        2 | 4 if cfg!(target_arch = "x86_64") => 4,
        8 if cfg!(target_arch = "x86_64") => 2,
        _ => 1,
    }
}

#[inline(always)]
fn block<const N: usize>(from: Rows<Readable>, to: Rows<UserBuf>, i: usize, j: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        let rows = |k: usize| from.byte(i + k, j * N);
        let columns = |k: usize| to.byte(j + k, i * N);
        // SAFETY: the makers of both promised memory where the elements lie, and each processor of this architecture has SSE2.
        unsafe {
            match N {
                2 => return vectors::four_of_2(rows, columns),
                4 => return vectors::four_of_4(rows, columns),
                8 => return vectors::two_of_8(rows, columns),
                _ => {}
            }
        }
    }
    element::<N>(from, to, i, j);
}

#[inline(always)]
fn element<const N: usize>(from: Rows<Readable>, to: Rows<UserBuf>, i: usize, j: usize) {
    let (from, to) = (from.byte(i, j * N), to.byte(j, i * N));
    // SAFETY: the makers of both promised memory where the elements lie; any bytes are an array.
    unsafe {
        let element = from.cast::<[u8; N]>().read_unaligned();
        to.cast::<[u8; N]>().write_unaligned(element);
    }
}

/// Blocks in vectors. `rows` and `columns` say where row and column number `k` of one begin.
#[cfg(target_arch = "x86_64")]
mod vectors {
    use std::arch::x86_64::{
        __m128i, _mm_loadl_epi64, _mm_loadu_si128, _mm_storel_epi64, _mm_storeu_si128,
        _mm_unpackhi_epi32, _mm_unpackhi_epi64, _mm_unpacklo_epi16, _mm_unpacklo_epi32,
        _mm_unpacklo_epi64,
    };

    /// # Safety
    /// The rows may be read, and the columns written: 8 bytes of each of four.
    #[target_feature(enable = "sse2")]
    #[inline]
    pub unsafe fn four_of_2(rows: impl Fn(usize) -> *const u8, columns: impl Fn(usize) -> *mut u8) {
        // SAFETY: the caller's promise.
        let load = |k| unsafe { _mm_loadl_epi64(rows(k).cast::<__m128i>()) };
        let (ab, cd) = (
            _mm_unpacklo_epi16(load(0), load(1)),
            _mm_unpacklo_epi16(load(2), load(3)),
        );
        let pairs = [_mm_unpacklo_epi32(ab, cd), _mm_unpackhi_epi32(ab, cd)];
        for (k, pair) in pairs.into_iter().enumerate() {
            // SAFETY: the caller's promise.
            unsafe {
                _mm_storel_epi64(columns(2 * k).cast::<__m128i>(), pair);
                let second = _mm_unpackhi_epi64(pair, pair);
                _mm_storel_epi64(columns(2 * k + 1).cast::<__m128i>(), second);
            }
        }
    }

    /// # Safety
    /// The rows may be read, and the columns written: 16 bytes of each of four.
    #[target_feature(enable = "sse2")]
    #[inline]
    pub unsafe fn four_of_4(rows: impl Fn(usize) -> *const u8, columns: impl Fn(usize) -> *mut u8) {
        // SAFETY: the caller's promise.
        let load = |k| unsafe { _mm_loadu_si128(rows(k).cast::<__m128i>()) };
        let [a, b, c, d] = [load(0), load(1), load(2), load(3)];
        let (ab, cd) = (_mm_unpacklo_epi32(a, b), _mm_unpacklo_epi32(c, d));
        let (ab_high, cd_high) = (_mm_unpackhi_epi32(a, b), _mm_unpackhi_epi32(c, d));
        let turned = [
            _mm_unpacklo_epi64(ab, cd),
            _mm_unpackhi_epi64(ab, cd),
            _mm_unpacklo_epi64(ab_high, cd_high),
            _mm_unpackhi_epi64(ab_high, cd_high),
        ];
        for (k, column) in turned.into_iter().enumerate() {
            // SAFETY: the caller's promise.
            unsafe { _mm_storeu_si128(columns(k).cast::<__m128i>(), column) }
        }
    }

    /// # Safety
    /// The rows may be read, and the columns written: 16 bytes of each of two.
    #[target_feature(enable = "sse2")]
    #[inline]
    pub unsafe fn two_of_8(rows: impl Fn(usize) -> *const u8, columns: impl Fn(usize) -> *mut u8) {
        // SAFETY: the caller's promise.
        let load = |k| unsafe { _mm_loadu_si128(rows(k).cast::<__m128i>()) };
        let (a, b) = (load(0), load(1));
        // SAFETY: the caller's promise.
        unsafe {
            _mm_storeu_si128(columns(0).cast::<__m128i>(), _mm_unpacklo_epi64(a, b));
            _mm_storeu_si128(columns(1).cast::<__m128i>(), _mm_unpackhi_epi64(a, b));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<const N: usize>(rows: usize, columns: usize) {
        let (wide, high) = (columns * N + 3, rows * N + 5);
        let from: Vec<u8> = (0..rows * wide).map(|i| (i * 7 + i / 256) as u8).collect();
        // Also from the last row up.
        for up in [false, true] {
            let mut to = vec![0xee; columns * high];
            let (start, step) = match up {
                false => (0, wide as i64),
                true => ((rows.max(1) - 1) as i64 * wide as i64, -(wide as i64)),
            };
            let source = Rows::read(Readable::of_bytes(&from), start, step);
            source.ask(rows);
            let target = Rows::written(UserBuf::of_array(&mut to), 0, high as i64);
            turn::<N>(source, target, rows, columns);
            for (j, column) in to.chunks(high).enumerate() {
                let (data, gap) = column.split_at(rows * N);
                for (i, element) in data.chunks(N).enumerate() {
                    let row = if up { rows - 1 - i } else { i };
                    let expected = &from[row * wide + j * N..][..N];
                    assert_eq!(element, expected, "{N} {rows} {columns} {up}");
                }
                assert!(gap.iter().all(|&byte| byte == 0xee));
            }
        }
    }

    #[test]
    fn rows_become_columns() {
        for (rows, columns) in [(16, 16), (32, 4), (1, 7), (5, 1), (7, 9), (4, 0), (0, 4)] {
            check::<1>(rows, columns);
            check::<2>(rows, columns);
            check::<4>(rows, columns);
            check::<8>(rows, columns);
            check::<16>(rows, columns);
        }
    }
}
