//! The memory of one direction between two processes: a ring of cells and a pipe of chunks.
//!
//! A lane is one page of ring and a line for its box, the lines for payload that does not fit into a cell, then the credit words, the headers of the chunks, the words of a split copy and those of the
//! common pipes, each on lines of its own; the chunks lie elsewhere in the segment. All `unsafe` of the data path is here.
//!
//! Invariants: a lane's pointers stay valid while its segment lives; the protocol gives each byte to
//! one side at a time, so the slices handed out are that side's alone. A peer that breaks the
//! protocol can change bytes under our eyes, which makes wrong data and nothing worse: bytes have no
//! invalid values, and everything that steers us is read once (volatile or atomic) and bounded.

use std::sync::atomic::{AtomicU32, Ordering};

use boundary::UserBuf;
use mtmi::TagSel;

use crate::chunking;
use crate::common::{AREAS, Turn};
use crate::lines;
use crate::lines::Span;
use crate::ring::{At, CELL, CELLS, Hostile, RingMemory};
use crate::sheets::{self, Sheet};
use crate::shelf::turned::Turned;
use crate::split::Words;
use crate::wire::{HEADER, Header, INLINE, Kind, pack, unpack};

/// Most bytes of a chunk: with four of them both cores copy at full speed inside their caches.
pub(crate) const CHUNK: usize = 32 * 1024;
/// So many of these a pipe holds, wherever they begin.
pub(crate) const CHUNKS: u32 = 4;
/// Bytes that a whole pipe holds.
pub(crate) const WINDOW: usize = CHUNKS as usize * CHUNK;
/// Chunks that are out at a time.
pub(crate) const CHUNK_HEADERS: u32 = 64;
/// What decides where chunks begin: data begin at any place of so many bytes.
pub(crate) const PLAY: usize = 4096;
/// Bytes of a pipe's memory: long streams have more chunks under way than a window. What two ranks move that compute, and test now and then, is this much for each test: an MPI_Iallreduce of 4 MiB takes 430 us in place of
/// 580 with 256 KiB, of 1 MiB 149 in place of 159 (tests between products of 16 us, on an EPYC of the fifth generation); with 1 MiB it takes no less. Messages of
/// 256 KiB to 1 MiB take 1 to 3 % less.
pub(crate) const PIPE: usize = 512 << 10;
/// Bytes of one that both directions have in common: what has to go through in several rounds is written to lines that oneself wrote last. With
/// 512 KiB messages of 1 and 2 MiB to and fro take 19.5 and 41.9 us in place of 18.8 and 39.1, between cores further apart of 1 MiB 43 in place of 35.
pub(crate) const COMMON_PIPE: usize = 1 << 20;

const _: () = assert!(CHUNKS as usize * (CHUNK + PLAY) <= PIPE);

const RING: usize = CELLS as usize * CELL;
/// The lines for payload, behind it and its box, which has the pair of lines for itself that some processors fetch together.
const LINES: usize = RING + 2 * CELL;
/// The words of a header, behind the sequence word.
const KIND_LENGTH_AND_LINE: usize = 1;
const TAG: usize = 2;
const CONTEXT: usize = 3;
const CREDIT: usize = LINES + lines::LINES as usize * CELL;
const LINES_RETURNED: usize = CREDIT + 4;
const DRAINED: usize = CREDIT + 2 * CELL;
const WISHES: usize = DRAINED + 4;
const TURNED: usize = WISHES + 4;
const HEADERS: usize = CREDIT + 4 * CELL;
const SPLIT: usize = HEADERS + CHUNK_HEADERS as usize * CELL;
const TURN: usize = SPLIT + size_of::<Words>();
/// Bytes of a lane's ring and control lines.
pub(crate) const BYTES: usize = TURN + AREAS * size_of::<Turn>();

/// One direction's memory: over its own pipe, or a common one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lane<const ROOM: usize = PIPE> {
    ring: *mut u8,
    pipe: *mut u8,
}

/// A chunk's header, as read: start and length are bounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChunkHeader {
    /// Where in the pipe its bytes begin.
    pub start: usize,
    pub len: usize,
    pub target: u64,
    pub whose: Whose,
}

/// Which pipe a chunk lies in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whose {
    /// The direction's own.
    Own,
    /// One of both directions; and whether it is the last of a section of that, see [`common`](crate::common).
    Common { area: usize, last: bool },
}

impl Whose {
    #[inline]
    fn of(word: u32) -> Result<Whose, Hostile> {
        match word {
            0 => Ok(Whose::Own),
            1..=4 => Ok(Whose::Common {
                area: (word as usize - 1) / 2,
                last: word.is_multiple_of(2),
            }),
            _ => Err(Hostile),
        }
    }

    /// Bytes of the pipe.
    fn bytes(self) -> usize {
        match self {
            Whose::Own => PIPE,
            Whose::Common { .. } => COMMON_PIPE,
        }
    }

    #[inline]
    fn word(self) -> u32 {
        match self {
            Whose::Own => 0,
            Whose::Common { area, last } => 1 + 2 * area as u32 + u32::from(last),
        }
    }
}

const _: () = assert!(AREAS == 2);

impl ChunkHeader {
    /// What another process says of a chunk; `whose` as [`Whose::word`] has it.
    fn checked(target: u64, (start, len): (usize, usize), whose: u32) -> Result<Self, Hostile> {
        let whose = Whose::of(whose)?;
        if len == 0 || len > CHUNK || start > whose.bytes() - len {
            return Err(Hostile);
        }
        Ok(ChunkHeader {
            start,
            len,
            target,
            whose,
        })
    }

    /// What tells of chunk number `number` to somebody who knows its target. Never zeros.
    pub fn words(&self, number: u32) -> [u64; 2] {
        let both = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        [
            both(number, self.whose.word()),
            both(self.start as u32, self.len as u32),
        ]
    }

    /// The chunk with this number, if that is what the words tell of.
    pub fn of_words([about, place]: [u64; 2], number: u32, target: u64) -> Option<Self> {
        let (start, len) = (place as u32 as usize, (place >> 32) as usize);
        let header = ChunkHeader::checked(target, (start, len), (about >> 32) as u32);
        header.ok().filter(|_| about as u32 == number)
    }
}

/// Writes the words of a header, all but the sequence word.
///
/// # Safety
/// `words` are those of a cell that is the caller's.
#[inline(always)]
unsafe fn write_words(words: *mut u32, header: &Header) {
    // SAFETY: inside the cell, and the caller's.
    unsafe {
        words
            .add(KIND_LENGTH_AND_LINE)
            .write_volatile(pack(header.kind, header.len, header.line));
        words.add(TAG).write_volatile(header.tag as u32);
        words.add(CONTEXT).write_volatile(header.context);
    }
}

impl<const ROOM: usize> Lane<ROOM> {
    /// # Safety
    /// `ring` and `pipe` are valid for `BYTES` and `ROOM` bytes, the first aligned to a line, for
    /// as long as the lane or a copy of it is used, and are used by lanes only.
    pub unsafe fn new(ring: *mut u8, pipe: *mut u8) -> Self {
        debug_assert!(ring.align_offset(CELL) == 0);
        Lane { ring, pipe }
    }

    #[inline(always)]
    fn word(&self, offset: usize) -> &AtomicU32 {
        debug_assert!(offset + 4 <= BYTES && offset.is_multiple_of(4));
        // SAFETY: inside the lane (all callers reduce cell and chunk numbers), aligned, and only
        // ever accessed as an atomic or by raw copies.
        unsafe { &*self.ring.add(offset).cast::<AtomicU32>() }
    }

    /// Where a cell is.
    #[inline(always)]
    fn cell(&self, at: At) -> *mut u8 {
        // SAFETY: inside the ring, or its box behind it.
        unsafe { self.ring.add(at.bytes()) }
    }

    /// The sequence word of a cell.
    #[inline(always)]
    pub fn sequence_word(&self, at: At) -> &AtomicU32 {
        self.word(at.bytes())
    }

    /// Writes the header of a message, all but the sequence word.
    #[inline(always)]
    pub fn write_header(&self, at: At, header: &Header) {
        // SAFETY: a cell, aligned to a line, which is ours until it is published.
        unsafe { write_words(self.cell(at).cast(), header) }
    }

    /// Reads the header of a message, once.
    #[inline(always)]
    pub fn read_header(&self, at: At) -> Result<Header, Hostile> {
        let (kind, len, line) = unpack(self.header_word(at, KIND_LENGTH_AND_LINE))?;
        Ok(Header {
            kind,
            len,
            line,
            tag: self.header_word(at, TAG) as i32,
            context: self.header_word(at, CONTEXT),
        })
    }

    /// Tag and length of a message, if it is in this context, has such a tag, and is an eager one of at most
    /// `INLINE` bytes, as one comparison tells: its kind is 0. Each word is read once, and looked at before the next.
    #[inline(always)]
    pub fn read_inline_header(&self, at: At, context: u32, wanted: TagSel) -> Option<(i32, usize)> {
        const { assert!(pack(Kind::Eager, INLINE, 0) == INLINE as u32) };
        if self.header_word(at, CONTEXT) != context {
            return None;
        }
        let tag = self.header_word(at, TAG) as i32;
        if matches!(wanted, TagSel::Exact(wanted) if wanted != tag) {
            return None;
        }
        let len = self.header_word(at, KIND_LENGTH_AND_LINE) as usize;
        (len <= INLINE).then_some((tag, len))
    }

    /// A word of a message's header, read once.
    #[inline(always)]
    fn header_word(&self, at: At, word: usize) -> u32 {
        debug_assert!(word < HEADER / 4);
        // SAFETY: inside a cell, aligned to a line; published to us.
        unsafe { self.cell(at).cast::<u32>().add(word).read_volatile() }
    }

    /// A whole message of at most `INLINE` bytes, which it publishes.
    #[inline(always)]
    pub fn send_inline(
        &self,
        at: At,
        number: u32,
        (context, tag): (u32, i32),
        from: UserBuf,
        len: usize,
    ) {
        assert!(len <= INLINE);
        let header = Header {
            kind: Kind::Eager,
            len,
            line: 0,
            tag,
            context,
        };
        // SAFETY: a cell, aligned to a line, which is ours until it is published, and `len` bytes fit; the maker of
        // `from` vouched for it, and no caller's buffer lies in a ring. The sequence word comes first, and is only ever accessed as an
        // atomic.
        unsafe {
            let to = sys::copy::opaque(self.cell(at));
            write_words(to.cast(), &header);
            sys::copy::copy_few(to.add(HEADER), from.as_mut_ptr(), len);
            (*to.cast::<AtomicU32>()).store(number, Ordering::Release);
        }
    }

    /// Writes all of a message that lies in a sheet, but for the sequence word.
    #[inline]
    pub fn write_sheet(&self, at: At, (context, tag): (u32, i32), sheet: Sheet) {
        let header = Header {
            kind: Kind::Sheet,
            len: size_of::<u64>(),
            line: 0,
            tag,
            context,
        };
        // SAFETY: a cell, aligned to a line, which is ours until it is published.
        unsafe {
            write_words(self.cell(at).cast(), &header);
            let word = self.cell(at).add(HEADER).cast::<u64>();
            word.write_volatile(sheet.word());
        }
    }

    /// Where a message lies that says that it lies in a sheet; read once.
    #[inline]
    pub fn sheet_of(&self, at: At) -> Result<Sheet, Hostile> {
        // SAFETY: inside a cell, aligned; published to us.
        Sheet::of(unsafe { self.cell(at).add(HEADER).cast::<u64>().read_volatile() })
    }

    /// Writes all of a message of more than `INLINE` and at most `EAGER` bytes, which lies in `span`, but for the sequence word.
    #[inline]
    pub fn send_lines(
        &mut self,
        at: At,
        (context, tag): (u32, i32),
        span: Span,
        from: UserBuf,
        len: usize,
    ) {
        let header = Header {
            kind: Kind::Eager,
            len,
            line: span.first(),
            tag,
            context,
        };
        self.own_payload(span);
        let to = self.lines_mut(span, len);
        // SAFETY: the maker of `from` vouched for `len` bytes; no caller's buffer lies in a lane.
        unsafe { sys::copy::copy(to.as_mut_ptr(), from.as_mut_ptr(), len) }
        self.write_header(at, &header);
    }

    /// Copies the payload of a message out that lies in `span`.
    #[inline]
    pub fn read_lines(&self, span: Span, to: UserBuf, len: usize) {
        let from = self.lines(span, len);
        // SAFETY: the maker of `to` vouched for `len` bytes; no caller's buffer lies in a lane.
        unsafe { sys::copy::copy(to.as_mut_ptr(), from.as_ptr(), len) }
    }

    /// Copies the payload of a one-cell message out.
    #[inline(always)]
    pub fn read_inline(&self, at: At, to: UserBuf, len: usize) {
        assert!(len <= INLINE);
        // SAFETY: inside the cell; the maker of `to` vouched for it, and no caller's buffer lies in
        // a ring.
        unsafe { sys::copy::copy_few(to.as_mut_ptr(), self.cell(at).add(HEADER), len) }
    }

    /// Where the first `len` bytes in `span` lie.
    #[inline]
    fn at(span: Span, len: usize) -> usize {
        assert!(span.end() <= lines::LINES && len <= span.bytes());
        LINES + span.first() as usize * CELL
    }

    /// The first `len` bytes in lines that are being written.
    #[inline]
    pub fn lines_mut(&mut self, span: Span, len: usize) -> &mut [u8] {
        let at = Self::at(span, len);
        // SAFETY: inside the lines; these are ours until published.
        unsafe { std::slice::from_raw_parts_mut(self.ring.add(at), len) }
    }

    /// The first `len` bytes in lines that were published to us.
    #[inline]
    fn lines(&self, span: Span, len: usize) -> &[u8] {
        let at = Self::at(span, len);
        // SAFETY: inside the lines; ours until the message is consumed.
        unsafe { std::slice::from_raw_parts(self.ring.add(at), len) }
    }

    /// The payload of a message of at most `INLINE` bytes that is being written.
    #[inline]
    pub fn inline_mut(&mut self, at: At, len: usize) -> &mut [u8] {
        assert!(len <= INLINE);
        // SAFETY: inside the cell, which is ours until published.
        unsafe { std::slice::from_raw_parts_mut(self.cell(at).add(HEADER), len) }
    }

    /// The payload of a message that was published to us with this header.
    #[inline]
    pub fn payload(&self, at: At, header: &Header) -> &[u8] {
        if header.len > INLINE {
            return self.lines(header.lines(), header.len);
        }
        // SAFETY: inside the cell; ours until it is consumed.
        unsafe { std::slice::from_raw_parts(self.cell(at).add(HEADER), header.len) }
    }

    /// Asks for the lines of a message. They are as far away as its cell was: asked for
    /// together, and before anybody looks for the receive, they cost one way and not one each.
    #[inline]
    pub fn prefetch_payload(&self, span: Span) {
        let at = Self::at(span, 0);
        for line in (0..span.bytes()).step_by(CELL) {
            sys::copy::prefetch(self.ring.wrapping_add(at + line));
        }
    }

    /// Asks for the lines of a message, to be written.
    #[inline]
    pub fn own_payload(&self, span: Span) {
        let at = Self::at(span, 0);
        sys::copy::own(self.ring.wrapping_add(at), span.bytes());
    }

    /// Asks for what the consumer gave back, which the next long message has to know.
    #[inline]
    pub fn prefetch_returned(&self) {
        sys::copy::prefetch(self.ring.wrapping_add(CREDIT));
        sys::copy::prefetch(self.ring.wrapping_add(DRAINED));
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

    /// Which lengths the consumer wants to read in the producer's memory: a bit for each class of them; and what it says of these besides (`direct`).
    #[inline]
    pub fn wishes(&self) -> u32 {
        self.word(WISHES).load(Ordering::Relaxed)
    }

    /// Says so, if it is news: the producer reads the word for each long message, and would have to fetch it anew.
    #[inline]
    pub fn set_wishes(&self, classes: u32) {
        if self.wishes() != classes {
            self.word(WISHES).store(classes, Ordering::Relaxed);
        }
    }

    /// Which places of the producer's [shelf](crate::shelf) the consumer has read.
    #[inline]
    pub fn turned(&self) -> &Turned {
        // SAFETY: inside the lane, aligned, and only ever accessed as an atomic; zero, and whatever else is there, is valid.
        unsafe { &*self.ring.add(TURNED).cast::<Turned>() }
    }

    /// The words of the split copy of a message that goes this way.
    #[inline]
    pub fn split(&self) -> &Words {
        // SAFETY: inside the lane, aligned to a line as the lane and all before the words are, and only ever accessed as
        // atomics; zeros, and whatever else is there, are valid.
        unsafe { &*self.ring.add(SPLIT).cast::<Words>() }
    }

    /// The word of a common pipe.
    #[inline]
    pub fn turn(&self, area: usize) -> &Turn {
        assert!(area < AREAS);
        // SAFETY: inside the lane, aligned to a line as the lane and all before the word are, and only ever accessed as an
        // atomic; zero, and whatever else is there, is valid.
        unsafe { &*self.ring.add(TURN).cast::<Turn>().add(area) }
    }

    /// Asks for that word, to be written.
    #[inline]
    pub fn own_turn(&self, area: usize) {
        sys::copy::own(
            self.ring.wrapping_add(TURN + area * size_of::<Turn>()),
            CELL,
        );
    }

    /// Asks for a cell, to be written.
    #[inline]
    pub fn own_cell(&self, at: At) {
        sys::copy::own(self.cell(at), CELL);
    }

    fn chunk_header(chunk: u32) -> usize {
        HEADERS + (chunk % CHUNK_HEADERS) as usize * CELL
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
        let (len, target, start, whose) = unsafe {
            let line = self.ring.add(at);
            (
                line.add(4).cast::<u32>().read_volatile(),
                line.add(8).cast::<u64>().read_volatile(),
                line.add(16).cast::<u32>().read_volatile(),
                line.add(20).cast::<u32>().read_volatile(),
            )
        };
        ChunkHeader::checked(target, (start as usize, len as usize), whose)
    }

    /// Publishes a chunk whose bytes were written.
    pub fn publish_chunk(&self, chunk: u32, header: ChunkHeader) {
        let at = Self::chunk_header(chunk);
        // SAFETY: inside the lane and aligned; the header is ours until published.
        unsafe {
            let line = self.ring.add(at);
            line.add(4).cast::<u32>().write_volatile(header.len as u32);
            line.add(8).cast::<u64>().write_volatile(header.target);
            line.add(16)
                .cast::<u32>()
                .write_volatile(header.start as u32);
            line.add(20)
                .cast::<u32>()
                .write_volatile(header.whose.word());
        }
        self.word(at)
            .store(chunk.wrapping_add(1), Ordering::Release);
    }

    /// Where in a page of the pipe the next bytes of `from` begin best, if they lie side by side.
    ///
    /// That is half a page away from where they come from, modulo a page: processors hold up loads for earlier stores to the
    /// same place of another page, and `rep movsb` gets slower by ten times and more on some where the destination is that
    /// way just behind the source. Buffers of two ranks mostly begin at the same place of a page, so this suits the
    /// receiver's copy too.
    #[inline]
    pub fn place(&self, from: &layout::Reader) -> Option<usize> {
        let (buf, _) = from.contiguous()?;
        Some(self.place_for(buf))
    }

    /// The same for what lies at `buf`.
    #[inline]
    pub fn place_for(&self, buf: UserBuf) -> usize {
        (buf.addr() + PLAY / 2).wrapping_sub(self.pipe.addr()) % PLAY
    }

    /// Copies the next `len` bytes of `from` into a chunk that is being written and begins at `start`.
    #[inline]
    pub fn fill_chunk(&mut self, start: usize, len: usize, from: &mut layout::Reader) {
        assert!(len <= CHUNK && start <= ROOM - len);
        // SAFETY: inside the pipe; ours until published.
        let to = unsafe { std::slice::from_raw_parts_mut(self.pipe.add(start), len) };
        fill(to, from);
    }

    /// Asks for `len` bytes of the pipe from `start` on, and the header of chunk number `chunk`, to be written.
    #[inline]
    pub fn own_chunk(&self, chunk: u32, start: usize, len: usize) {
        let header = Self::chunk_header(chunk);
        sys::copy::own(self.ring.wrapping_add(header), CELL);
        sys::copy::own(self.pipe.wrapping_add(start), len);
    }

    /// Gives the bytes of a chunk that was published to us to `take`, at once: a copy of a whole chunk is one `rep movsb`, which
    /// reads far ahead.
    pub fn read_chunk(&self, header: ChunkHeader, take: impl FnOnce(&[u8])) {
        assert!(header.len <= CHUNK && header.start <= ROOM - header.len);
        let chunk = self.pipe.wrapping_add(header.start);
        // SAFETY: inside the pipe; ours until drained.
        take(unsafe { std::slice::from_raw_parts(chunk, header.len) });
    }

    /// Writes the lines of some chunks that were read ([`chunking`](crate::chunking)).
    pub fn give_up_chunk(&self, header: ChunkHeader) {
        assert!(header.len <= CHUNK && header.start <= ROOM - header.len);
        if chunking::here().gives_up(header.len) {
            let chunk = self.pipe.wrapping_add(header.start);
            for line in (0..header.len).step_by(CELL) {
                // SAFETY: inside the pipe; ours until drained, and nobody reads what the chunk holds any more.
                unsafe { chunk.add(line).write_volatile(0) };
            }
        }
    }
}

/// The way back, over the sheets that both directions share.
impl Lane<{ sheets::ALL }> {
    /// Copies a message into a sheet.
    #[inline]
    pub fn fill_sheet(&self, sheet: Sheet, from: UserBuf) {
        // SAFETY: a sheet's message lies inside their memory, and is ours until published; the maker of `from` vouched for as many
        // bytes, and no caller's buffer lies in a sheet.
        unsafe { sys::copy::copy(self.pipe.add(sheet.start()), from.as_mut_ptr(), sheet.len()) }
    }

    /// A message in a sheet that was published to us.
    #[inline]
    pub fn sheet(&self, sheet: Sheet) -> &[u8] {
        // SAFETY: inside the sheets' memory, and ours: what we have read we write to no earlier than we answer.
        unsafe { std::slice::from_raw_parts(self.pipe.add(sheet.start()), sheet.len()) }
    }

    /// Copies it out.
    #[inline]
    pub fn read_sheet(&self, sheet: Sheet, to: UserBuf) {
        let from = self.sheet(sheet);
        // SAFETY: the maker of `to` vouched for as many bytes; no caller's buffer lies in a sheet.
        unsafe { sys::copy::copy(to.as_mut_ptr(), from.as_ptr(), from.len()) }
    }
}

/// Copies the next bytes of `from` to `to`, which it fills.
pub(crate) fn fill(to: &mut [u8], from: &mut layout::Reader) {
    match from.contiguous() {
        Some((buf, left)) if left >= to.len() as u64 => {
            // SAFETY: the buffer's maker vouched for `left` bytes; `to` is part of a lane or a shelf, where no
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
            // SAFETY: the buffer's maker vouched for `left` bytes; `from` is part of a lane, a shelf or heap
            // memory of ours, where no caller's buffer lies.
            unsafe { sys::copy::copy(buf.as_mut_ptr(), from.as_ptr(), n) }
            to.seek(to.position() + n as u64);
        }
        None => {
            to.write(from);
        }
    }
}

impl<const ROOM: usize> RingMemory for Lane<ROOM> {
    #[inline(always)]
    fn sequence(&self, at: At) -> u32 {
        self.word(at.bytes()).load(Ordering::Acquire)
    }

    #[inline(always)]
    fn set_sequence(&self, at: At, number: u32) {
        self.word(at.bytes()).store(number, Ordering::Release);
    }

    #[inline(always)]
    fn credit(&self) -> u32 {
        self.word(CREDIT).load(Ordering::Acquire)
    }

    #[inline(always)]
    fn set_credit(&self, credit: u32) {
        self.word(CREDIT).store(credit, Ordering::Release);
    }

    #[inline]
    fn lines_returned(&self) -> u32 {
        self.word(LINES_RETURNED).load(Ordering::Acquire)
    }

    #[inline]
    fn set_lines_returned(&self, place: u32) {
        self.word(LINES_RETURNED).store(place, Ordering::Release);
    }
}
