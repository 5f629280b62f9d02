//! Copying small matrices so that rows become columns.
//!
//! Compilers move elements one by one, or find vectors for it only as long as nothing around it changes. So this says in vectors of 16 bytes, which every processor
//! of x86-64 has, what is to be done with elements of 2, 4 and 8 bytes. Where rows lie a power of two apart they share few places of the caches; each is therefore read once.
//!
//! Who calls it: `layout`, for matrices that are packed across the way they lie.

use crate::UserBuf;

/// Rows of elements that lie side by side.
#[derive(Clone, Copy, Debug)]
pub struct Rows {
    /// The first row.
    pub at: UserBuf,
    /// Bytes from a row to the next.
    pub step: i64,
}

impl Rows {
    /// Where byte `at` of row `row` lies.
    #[inline(always)]
    fn byte(self, row: usize, at: usize) -> *mut u8 {
        let down = self.step.wrapping_mul(row as i64);
        self.at.offset(down.wrapping_add(at as i64)).as_mut_ptr()
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

/// Copies `rows` rows of `columns` elements of `N` bytes to as many columns of `to`.
#[inline(always)]
pub fn turn<const N: usize>(from: Rows, to: Rows, rows: usize, columns: usize) {
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
fn block<const N: usize>(from: Rows, to: Rows, i: usize, j: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        let rows = |k: usize| from.byte(i + k, j * N).cast_const();
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
fn element<const N: usize>(from: Rows, to: Rows, i: usize, j: usize) {
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
        let mut from: Vec<u8> = (0..rows * wide).map(|i| (i * 7 + i / 256) as u8).collect();
        let mut to = vec![0xee; columns * high];
        let place = |memory: &mut [u8], step: usize| Rows {
            at: UserBuf::of_array(memory),
            step: step as i64,
        };
        let (source, target) = (place(&mut from, wide), place(&mut to, high));
        source.ask(rows);
        turn::<N>(source, target, rows, columns);
        for (j, column) in to.chunks(high).enumerate() {
            let (data, gap) = column.split_at(rows * N);
            for (i, element) in data.chunks(N).enumerate() {
                assert_eq!(
                    element,
                    &from[i * wide + j * N..][..N],
                    "{N} {rows} {columns}"
                );
            }
            assert!(gap.iter().all(|&byte| byte == 0xee));
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
