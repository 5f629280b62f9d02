//! When a blocking collective of few ranks that share memory goes without a graph, and how: the thresholds. The engine's module of the same name
//! does it.
//!
//! Measured on a Xeon of the fifth generation with 2 ranks on processors that don't share a cache, unless it says otherwise. On processors that
//! hand lines over fast by themselves nothing is read where it lies (`shm::Choice`): on an EPYC of the fifth generation an allreduce of
//! 64 KiB takes 5.1 us so in place of 12, of 1 MiB 82 in place of 128.

use std::ops::Range;

/// Most ranks: all look at all, which beyond this would take longer than a tree.
pub const RANKS_MAX: u32 = 16;
/// Bytes of a chunk: those that are out at a time stay in a second-level cache.
pub const CHUNK: usize = 32 << 10;
/// Bytes of the least chunk of what one rank writes for others (a broadcast of 8 KiB: 1.9 us in two chunks, 2.2 in one).
pub const CHUNK_MIN: u64 = 4 << 10;
/// From so many bytes on the block of one of two ranks is read where it lies (on a Xeon of the sixth generation, 32 KiB from each: 3.0 us, through common memory 3.4;
/// 16 KiB 2.1 and 1.75),
pub const BLOCK_OF_TWO: u64 = 32 << 10;
/// and from so many on it is written to where the other wants it (allgathers of 512 KiB: 58 us in place of 67, 8 MiB: 1600 in place of 1860; 256 KiB: 26 and 25;
/// alltoalls on a Xeon of the fourth generation of 8 MiB 1.01 to 1.03 times as fast again and again, 1 to 4 MiB as fast, 512 KiB 0.99, but where the program fills
/// and reads its buffers between, 512 KiB 1.07, 1 to 4 MiB 1.03 to 1.06);
pub const BLOCK_GIVEN: u64 = 512 << 10;
/// the block that one of two has for the other, which both copy (on a Xeon of the sixth generation 512 KiB: 26 us in place of 27, 4 MiB 202 in place of 315; but 256 KiB 13.5 and 12.0),
pub const BLOCK_OF_ONE: u64 = 512 << 10;
/// and a block that is for one rank of more (of four on two processors, 32 KiB for each: 24 us against 26, 64 KiB: 33 against 51; 8 KiB: 14
/// against 8). What is for all ranks of more than two is written once and read by many: that is better in common memory at any
/// length.
pub const BLOCK_FOR_ONE: u64 = 32 << 10;
/// From so many bytes on a vector that more than two ranks combine is read where it lies (of four on two processors, 1 MiB: 450 us against 500). Of two it is better in
/// common memory at any length (on a Xeon of the sixth generation, 64 KiB and 1 MiB: 4.6 and 109 us against 10.5 and 130).
pub const VECTOR: u64 = 1 << 20;
/// Vectors of two ranks of so many bytes that one of them combines are read where they lie, and both combine a part, unless the root has its operand where the result goes: below, one of them does sooner alone, in common memory
/// (on a Xeon of the sixth generation 8, 16 and 32 KiB: 1.05, 1.84 and 3.2 us against 1.4, 1.9 and 2.9), and above, the kernel doesn't copy so fast (512 KiB: 30 us against 38, 768 KiB:
/// 55 against 52; on one of the fifth 64 KiB: 7.8 us if both combine, 8.9 if one does, 11 in common memory).
pub const PAIR: Range<u64> = 32 << 10..640 << 10;
/// From so many bytes of more than two ranks together on, each combines a part of the vector for all, which takes a second round.
pub const PARTED: usize = 16 << 10;
