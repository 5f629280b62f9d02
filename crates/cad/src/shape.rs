//! The numbers an algorithm needs: who takes part, and how wide the data are.
//!
//! The caller turns communicators and datatypes into these before a graph is built, so that a graph
//! depends on nothing else and can be cached by its parameters.

use crate::graph::{BufId, Region, TypeSlot};

/// The calling process within the group that runs the collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Team {
    /// Rank of this process, below `size`.
    pub rank: u32,
    /// Number of processes.
    pub size: u32,
    /// Whether what is sent goes [straight](crate::straight) to whoever wants it, where else another process would pass it on. The same on every process.
    pub straight: bool,
    /// Whether receivers copy what is long from where its sender has it: at most what all get and is not long is [shared](crate::shared) then. The same on every process.
    pub lends: bool,
}

impl Team {
    /// Processes that pass on what takes less time so.
    pub const fn new(rank: u32, size: u32) -> Team {
        Team {
            rank,
            size,
            straight: false,
            lends: false,
        }
    }

    /// The rank `distance` above this one, cyclically.
    pub(crate) fn right(&self, distance: u32) -> u32 {
        ((u64::from(self.rank) + u64::from(distance)) % u64::from(self.size)) as u32
    }

    /// The rank `distance` (at most `size`) below this one, cyclically.
    pub(crate) fn left(&self, distance: u32) -> u32 {
        self.right(self.size - distance)
    }
}

/// A datatype in numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    /// Bytes of data of one element.
    pub size: u64,
    /// Bytes from one element to the next; may be smaller than the size, zero or negative.
    pub extent: i64,
    /// Bytes from the first byte of data of an element to its last (the true extent).
    pub true_extent: u64,
    /// Whether `count` elements are `count * size` bytes that start at the buffer's address.
    pub contiguous: bool,
}

impl Shape {
    /// Plain bytes.
    pub const BYTE: Shape = Shape {
        size: 1,
        extent: 1,
        true_extent: 1,
        contiguous: true,
    };

    /// Bytes of data of `count` elements.
    pub fn bytes(&self, count: u64) -> u64 {
        self.size * count
    }

    /// Displacement in bytes of element `index`.
    pub fn at(&self, index: i64) -> i64 {
        self.extent * index
    }

    /// Displacement of the lowest of `count` elements: zero unless the extent is negative.
    pub fn low(&self, count: u64) -> i64 {
        if count == 0 {
            0
        } else {
            self.at(count as i64 - 1).min(0)
        }
    }

    /// Bytes from the first to the last byte that `count` elements touch.
    pub fn span(&self, count: u64) -> u64 {
        if count == 0 {
            0
        } else {
            (count - 1) * self.extent.unsigned_abs() + self.true_extent
        }
    }
}

/// What one process contributes to, or gets from, a collective with equal blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Part {
    /// Elements of a block.
    pub count: u64,
    /// Their type.
    pub ty: Shape,
}

impl Part {
    /// Bytes of data of a block.
    pub fn bytes(&self) -> u64 {
        self.ty.bytes(self.count)
    }

    /// Where a block begins in its buffer, in bytes.
    pub fn start(&self, block: u32) -> i64 {
        self.ty.at(i64::from(block) * self.count as i64)
    }

    /// `blocks` consecutive blocks of `buf` from block `first` on.
    pub(crate) fn region(&self, buf: BufId, slot: TypeSlot, first: u32, blocks: u32) -> Region {
        Region {
            buf,
            offset: self.start(first),
            count: self.count * u64::from(blocks),
            ty: slot,
        }
    }
}

/// One block of a collective whose blocks differ in length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Block {
    /// Elements.
    pub count: u64,
    /// Displacement in elements (in multiples of the extent).
    pub disp: i64,
}

impl Block {
    /// The block as a region of `buf`, whose elements are `ty`.
    pub(crate) fn region(&self, buf: BufId, slot: TypeSlot, ty: &Shape) -> Region {
        Region {
            buf,
            offset: ty.at(self.disp),
            count: self.count,
            ty: slot,
        }
    }
}
