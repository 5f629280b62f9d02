//! The memory of one direction between two processes: a ring of cells and a pipe of chunks.
//!
//! A lane is one page of ring, then the credit words and the headers of the chunks, each on lines
//! of its own; the chunks lie elsewhere in the segment. All `unsafe` of the data path is here.
//!
//! Invariants: a lane's pointers stay valid while its segment lives; the protocol gives each byte to
//! one side at a time, so the slices handed out are that side's alone. A peer that breaks the
//! protocol can change bytes under our eyes, which makes wrong data and nothing worse: bytes have no
//! invalid values, and everything that steers us is read once (volatile or atomic) and bounded.

use std::sync::atomic::{AtomicU32, Ordering};

use boundary::UserBuf;

use crate::ring::{CELL, CELLS, Hostile, RingMemory, cell};
use crate::wire::{EAGER, HEADER, Header, INLINE, Kind, pack, unpack};

/// Bytes of a chunk: with four of them both cores copy at full speed inside their caches.
pub(crate) const CHUNK: usize = 32 * 1024;
/// Chunks of a pipe.
pub(crate) const CHUNKS: u32 = 4;
/// Bytes of a whole pipe.
pub(crate) const WINDOW: usize = CHUNKS as usize * CHUNK;

const RING: usize = CELLS as usize * CELL;
const CREDIT: usize = RING;
const DRAINED: usize = RING + 2 * CELL;
const CHUNK_HEADERS: usize = RING + 4 * CELL;

/// One direction's memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lane {
    ring: *mut u8,
    pipe: *mut u8,
}

/// A chunk's header, as read: its length is bounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChunkHeader {
    pub len: usize,
    pub target: u64,
}

impl Lane {
    /// Bytes of ring and control lines.
    pub const BYTES: usize = CHUNK_HEADERS + CHUNKS as usize * CELL;

    /// # Safety
    /// `ring` and `pipe` are valid for `BYTES` and `WINDOW` bytes, the first aligned to a line, for
    /// as long as the lane or a copy of it is used, and are used by lanes only.
    pub unsafe fn new(ring: *mut u8, pipe: *mut u8) -> Lane {
        debug_assert!(ring.align_offset(CELL) == 0);
        Lane { ring, pipe }
    }

    #[inline(always)]
    fn word(&self, offset: usize) -> &AtomicU32 {
        debug_assert!(offset + 4 <= Self::BYTES && offset.is_multiple_of(4));
        // SAFETY: inside the lane (all callers reduce cell and chunk numbers), aligned, and only
        // ever accessed as an atomic or by raw copies.
        unsafe { &*self.ring.add(offset).cast::<AtomicU32>() }
    }

    /// Writes the header of the message numbered `number`, all but the sequence word.
    #[inline(always)]
    pub fn write_header(&self, number: u32, header: &Header) {
        let at = cell(number) as usize * CELL;
        // SAFETY: inside the ring, aligned to a line; the cell is ours until it is published.
        unsafe {
            let words = self.ring.add(at).cast::<u32>();
            words.add(1).write_volatile(pack(header.kind, header.len));
            words.add(2).write_volatile(header.tag as u32);
            words.add(3).write_volatile(header.context);
        }
    }

    /// Reads the header of the message numbered `number`, once.
    #[inline(always)]
    pub fn read_header(&self, number: u32) -> Result<Header, Hostile> {
        let at = cell(number) as usize * CELL;
        // SAFETY: inside the ring, aligned to a line; published to us.
        let (word, tag, context) = unsafe {
            let words = self.ring.add(at).cast::<u32>();
            (
                words.add(1).read_volatile(),
                words.add(2).read_volatile(),
                words.add(3).read_volatile(),
            )
        };
        let (kind, len) = unpack(word)?;
        Ok(Header {
            kind,
            len,
            tag: tag as i32,
            context,
        })
    }

    /// A whole message of at most `INLINE` bytes: header and payload, not yet the sequence word.
    #[inline(always)]
    pub fn write_inline(&self, number: u32, context: u32, tag: i32, from: UserBuf, len: usize) {
        assert!(len <= INLINE);
        let header = Header {
            kind: Kind::Eager,
            len,
            tag,
            context,
        };
        self.write_header(number, &header);
        let at = cell(number) as usize * CELL + HEADER;
        // SAFETY: the cell is ours and `len` bytes fit; the maker of `from` vouched for it, and no
        // caller's buffer lies in a ring.
        unsafe { sys::copy::copy_few(self.ring.add(at), from.as_mut_ptr(), len) }
    }

    /// Copies the payload of a one-cell message out.
    #[inline(always)]
    pub fn read_inline(&self, number: u32, to: UserBuf, len: usize) {
        assert!(len <= INLINE);
        let at = cell(number) as usize * CELL + HEADER;
        // SAFETY: inside the cell; the maker of `to` vouched for it, and no caller's buffer lies in
        // a ring.
        unsafe { sys::copy::copy_few(to.as_mut_ptr(), self.ring.add(at), len) }
    }

    /// Where `len` bytes of payload of the message numbered `number` lie: behind its header, and
    /// from the ring's start on where they go round.
    #[inline]
    fn spans(number: u32, len: usize) -> [(usize, usize); 2] {
        let at = cell(number) as usize * CELL + HEADER;
        let first = len.min(RING - at);
        [(at, first), (0, len - first)]
    }

    /// The payload of a message that is being written.
    #[inline]
    pub fn payload_mut(&mut self, number: u32, len: usize) -> [&mut [u8]; 2] {
        assert!(len <= EAGER);
        Self::spans(number, len).map(|(at, n)| {
            // SAFETY: inside the ring; the cells are ours until published, and the two spans do not
            // overlap as `EAGER` is shorter than the ring.
            unsafe { std::slice::from_raw_parts_mut(self.ring.add(at), n) }
        })
    }

    /// The payload of a message that was published to us.
    #[inline]
    pub fn payload(&self, number: u32, len: usize) -> [&[u8]; 2] {
        assert!(len <= EAGER);
        Self::spans(number, len).map(|(at, n)| {
            // SAFETY: inside the ring; ours until it is consumed.
            unsafe { std::slice::from_raw_parts(self.ring.add(at), n) }
        })
    }

    /// Chunks given back by the consumer, a running number.
    #[inline]
    pub fn drained(&self) -> u32 {
        self.word(DRAINED).load(Ordering::Acquire)
    }

    /// Gives chunks back to the producer.
    #[inline]
    pub fn set_drained(&self, chunks: u32) {
        self.word(DRAINED).store(chunks, Ordering::Release);
    }

    fn chunk_header(chunk: u32) -> usize {
        CHUNK_HEADERS + (chunk % CHUNKS) as usize * CELL
    }

    /// Whether chunk number `chunk` was published.
    #[inline]
    pub fn chunk_ready(&self, chunk: u32) -> bool {
        self.word(Self::chunk_header(chunk)).load(Ordering::Acquire) == chunk.wrapping_add(1)
    }

    /// The header of a chunk that is ready, read once.
    pub fn read_chunk_header(&self, chunk: u32) -> Result<ChunkHeader, Hostile> {
        let at = Self::chunk_header(chunk);
        // SAFETY: inside the lane and aligned.
        let (len, target) = unsafe {
            let line = self.ring.add(at);
            (
                line.add(4).cast::<u32>().read_volatile(),
                line.add(8).cast::<u64>().read_volatile(),
            )
        };
        let len = len as usize;
        if len == 0 || len > CHUNK {
            return Err(Hostile);
        }
        Ok(ChunkHeader { len, target })
    }

    /// Publishes a chunk whose bytes were written.
    pub fn publish_chunk(&self, chunk: u32, header: ChunkHeader) {
        let at = Self::chunk_header(chunk);
        // SAFETY: inside the lane and aligned; the header is ours until published.
        unsafe {
            let line = self.ring.add(at);
            line.add(4).cast::<u32>().write_volatile(header.len as u32);
            line.add(8).cast::<u64>().write_volatile(header.target);
        }
        self.word(at)
            .store(chunk.wrapping_add(1), Ordering::Release);
    }

    #[inline]
    fn chunk(&self, chunk: u32) -> *mut u8 {
        // SAFETY: the number is reduced, so it is inside the pipe.
        unsafe { self.pipe.add((chunk % CHUNKS) as usize * CHUNK) }
    }

    /// The first `len` bytes of a chunk that is being written.
    pub fn chunk_mut(&mut self, chunk: u32, len: usize) -> &mut [u8] {
        assert!(len <= CHUNK);
        // SAFETY: inside the pipe; ours until published.
        unsafe { std::slice::from_raw_parts_mut(self.chunk(chunk), len) }
    }

    /// The first `len` bytes of a chunk that was published to us.
    pub fn chunk_bytes(&self, chunk: u32, len: usize) -> &[u8] {
        assert!(len <= CHUNK);
        // SAFETY: inside the pipe; ours until drained.
        unsafe { std::slice::from_raw_parts(self.chunk(chunk), len) }
    }
}

/// Copies the next bytes of `from` to `to`, which it fills.
pub(crate) fn fill(to: &mut [u8], from: &mut layout::Reader) {
    match from.contiguous() {
        Some((buf, left)) if left >= to.len() as u64 => {
            // SAFETY: the buffer's maker vouched for `left` bytes; `to` is part of a lane, where no
            // caller's buffer lies.
            unsafe { sys::copy::copy(to.as_mut_ptr(), buf.as_mut_ptr(), to.len()) }
            from.seek(from.position() + to.len() as u64);
        }
        _ => {
            from.read(to);
        }
    }
}

/// Copies `from` to the next bytes of `to`; what does not fit is dropped.
pub(crate) fn drain(from: &[u8], to: &mut layout::Writer) {
    match to.contiguous() {
        Some((buf, left)) => {
            let n = (from.len() as u64).min(left) as usize;
            // SAFETY: the buffer's maker vouched for `left` bytes; `from` is part of a lane or heap
            // memory of ours, where no caller's buffer lies.
            unsafe { sys::copy::copy(buf.as_mut_ptr(), from.as_ptr(), n) }
            to.seek(to.position() + n as u64);
        }
        None => {
            to.write(from);
        }
    }
}

impl RingMemory for Lane {
    #[inline(always)]
    fn sequence(&self, cell: u32) -> u32 {
        self.word(cell as usize * CELL).load(Ordering::Acquire)
    }

    #[inline(always)]
    fn set_sequence(&self, cell: u32, number: u32) {
        self.word(cell as usize * CELL)
            .store(number, Ordering::Release);
    }

    #[inline(always)]
    fn credit(&self) -> u32 {
        self.word(CREDIT).load(Ordering::Acquire)
    }

    #[inline(always)]
    fn set_credit(&self, credit: u32) {
        self.word(CREDIT).store(credit, Ordering::Release);
    }
}
