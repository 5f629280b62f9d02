//! Copies between a buffer and packed bytes, with inner loops for the usual fragment sizes.
//!
//! A [`Mover`] is one direction. The lengths a program names most (4, 8 and 16 bytes) are copied as
//! arrays, which compile to plain loads and stores.

use boundary::UserBuf;
use boundary::turn::Readable;

use crate::grid::Grid;

/// One direction of copying; the packed side advances by what is moved.
pub(crate) trait Mover {
    /// Bytes that the packed side still has room for.
    fn room(&self) -> usize;

    /// Moves `N` bytes at `disp`. `N <= room()`.
    fn array<const N: usize>(&mut self, disp: i64);

    /// Moves `len` bytes at `disp`, `len <= room()`.
    fn bytes(&mut self, disp: i64, len: usize);

    /// Moves `len` bytes at `disp`, `len <= room()`, quickly where `len` is small.
    #[inline(always)]
    fn block(&mut self, disp: i64, len: usize) {
        match len {
            4 => self.array::<4>(disp),
            8 => self.array::<8>(disp),
            16 => self.array::<16>(disp),
            _ => self.bytes(disp, len),
        }
    }

    /// Moves `N` bytes at each of `count` `disps`, together no more than `room()`.
    #[inline(always)]
    fn arrays<const N: usize>(&mut self, disps: impl Iterator<Item = i64>, _count: usize) {
        disps.for_each(|d| self.array::<N>(d));
    }

    /// Moves `len` bytes at each of `count` `disps`, together no more than `room()`.
    #[inline(always)]
    fn fragments(&mut self, disps: impl Iterator<Item = i64>, count: usize, len: usize) {
        match len {
            1 => self.arrays::<1>(disps, count),
            2 => self.arrays::<2>(disps, count),
            4 => self.arrays::<4>(disps, count),
            8 => self.arrays::<8>(disps, count),
            12 => self.arrays::<12>(disps, count),
            16 => self.arrays::<16>(disps, count),
            24 => self.arrays::<24>(disps, count),
            32 => self.arrays::<32>(disps, count),
            _ => disps.for_each(|d| self.bytes(d, len)),
        }
    }

    /// Moves a matrix of elements of `N` bytes, in tiles of `W` columns and `H` rows; together no more than `room()`.
    fn tiles<const N: usize, const W: usize, const H: usize>(&mut self, grid: &Grid);

    /// The same in tiles whose columns and rows are a cache line of `T` elements, or narrower ones.
    #[inline(always)]
    fn square<const N: usize, const T: usize>(&mut self, grid: &Grid) {
        match grid.is_narrow(T) {
            false => self.tiles::<N, T, T>(grid),
            true => self.tiles::<N, 4, T>(grid),
        }
    }

    /// Moves a matrix of elements of `len` bytes, [for which there is a way](Grid::is_column).
    #[inline(always)]
    fn matrix(&mut self, grid: &Grid, len: u16) {
        match len {
            2 => self.square::<2, 32>(grid),
            4 => self.square::<4, 16>(grid),
            8 => self.square::<8, 8>(grid),
            _ => self.square::<16, 4>(grid),
        }
    }
}

/// From the buffer to packed bytes.
pub(crate) struct Packer<'a> {
    pub(crate) base: UserBuf,
    pub(crate) out: &'a mut [u8],
    /// Bytes of `out` that are filled.
    pub(crate) at: usize,
}

impl Mover for Packer<'_> {
    #[inline(always)]
    fn room(&self) -> usize {
        self.out.len() - self.at
    }

    #[inline(always)]
    fn array<const N: usize>(&mut self, disp: i64) {
        if let Some(out) = self.out[self.at..].first_chunk_mut::<N>() {
            self.base.offset(disp).read(out);
            self.at += N;
        }
    }

    #[inline(always)]
    fn arrays<const N: usize>(&mut self, disps: impl Iterator<Item = i64>, count: usize) {
        let (out, _) = self.out[self.at..][..count * N].as_chunks_mut::<N>();
        out.iter_mut()
            .zip(disps)
            .for_each(|(out, d)| self.base.offset(d).read(out));
        self.at += count * N;
    }

    #[inline(always)]
    fn bytes(&mut self, disp: i64, len: usize) {
        self.base.offset(disp).read(&mut self.out[self.at..][..len]);
        self.at += len;
    }

    fn tiles<const N: usize, const W: usize, const H: usize>(&mut self, grid: &Grid) {
        let bytes = grid.bytes::<N>();
        let out = UserBuf::of_array(&mut self.out[self.at..][..bytes]);
        grid.pack::<N, W, H>(self.base, out);
        self.at += bytes;
    }
}

/// From packed bytes to the buffer.
pub(crate) struct Unpacker<'a> {
    pub(crate) base: UserBuf,
    pub(crate) input: &'a [u8],
}

impl Mover for Unpacker<'_> {
    #[inline(always)]
    fn room(&self) -> usize {
        self.input.len()
    }

    #[inline(always)]
    fn array<const N: usize>(&mut self, disp: i64) {
        if let Some((head, rest)) = self.input.split_first_chunk::<N>() {
            self.base.offset(disp).write(head);
            self.input = rest;
        }
    }

    #[inline(always)]
    fn arrays<const N: usize>(&mut self, disps: impl Iterator<Item = i64>, count: usize) {
        let (input, rest) = self.input.split_at(count * N);
        let (input, _) = input.as_chunks::<N>();
        input
            .iter()
            .zip(disps)
            .for_each(|(input, d)| self.base.offset(d).write(input));
        self.input = rest;
    }

    #[inline(always)]
    fn bytes(&mut self, disp: i64, len: usize) {
        let (head, rest) = self.input.split_at(len);
        self.base.offset(disp).write(head);
        self.input = rest;
    }

    fn tiles<const N: usize, const W: usize, const H: usize>(&mut self, grid: &Grid) {
        let (input, rest) = self.input.split_at(grid.bytes::<N>());
        grid.unpack::<N, W, H>(Readable::of_bytes(input), self.base);
        self.input = rest;
    }
}

/// From the buffer to packed bytes in another buffer.
pub(crate) struct Gatherer {
    pub(crate) base: UserBuf,
    pub(crate) to: UserBuf,
    pub(crate) room: usize,
}

impl Mover for Gatherer {
    #[inline(always)]
    fn room(&self) -> usize {
        self.room
    }

    #[inline(always)]
    fn array<const N: usize>(&mut self, disp: i64) {
        let mut element = [0; N];
        self.base.offset(disp).read(&mut element);
        self.to.write(&element);
        self.to = self.to.offset(N as i64);
        self.room -= N;
    }

    #[inline(always)]
    fn bytes(&mut self, disp: i64, len: usize) {
        self.to.copy_from(self.base.offset(disp), len);
        self.to = self.to.offset(len as i64);
        self.room -= len;
    }

    fn tiles<const N: usize, const W: usize, const H: usize>(&mut self, grid: &Grid) {
        let bytes = grid.bytes::<N>();
        grid.pack::<N, W, H>(self.base, self.to);
        self.to = self.to.offset(bytes as i64);
        self.room -= bytes;
    }
}

/// From packed bytes in another buffer to the buffer.
pub(crate) struct Scatterer {
    pub(crate) base: UserBuf,
    pub(crate) from: UserBuf,
    pub(crate) room: usize,
}

impl Mover for Scatterer {
    #[inline(always)]
    fn room(&self) -> usize {
        self.room
    }

    #[inline(always)]
    fn array<const N: usize>(&mut self, disp: i64) {
        let mut element = [0; N];
        self.from.read(&mut element);
        self.base.offset(disp).write(&element);
        self.from = self.from.offset(N as i64);
        self.room -= N;
    }

    #[inline(always)]
    fn bytes(&mut self, disp: i64, len: usize) {
        self.base.offset(disp).copy_from(self.from, len);
        self.from = self.from.offset(len as i64);
        self.room -= len;
    }

    fn tiles<const N: usize, const W: usize, const H: usize>(&mut self, grid: &Grid) {
        let bytes = grid.bytes::<N>();
        grid.unpack::<N, W, H>(self.from.into(), self.base);
        self.from = self.from.offset(bytes as i64);
        self.room -= bytes;
    }
}

/// Moves nothing: used where a cursor's position changes without a buffer.
pub(crate) struct Still;

impl Mover for Still {
    fn room(&self) -> usize {
        0
    }

    fn array<const N: usize>(&mut self, _: i64) {}

    fn bytes(&mut self, _: i64, _: usize) {}

    fn tiles<const N: usize, const W: usize, const H: usize>(&mut self, _: &Grid) {}
}
