//! The node's segment: one sealed memfd that all ranks of the node map.
//!
//! Layout: a header (magic, version, number of ranks, processors, whether ranks lend); per rank the processor it runs on; per rank a doorbell, a word that says who reads its memory, and a bit per peer that
//! ever sent to it; per ordered pair a [`Lane`] (ring, credit, chunk headers); per ordered pair a
//! pipe of chunks, and two and the sheets for both orders; per rank a board, common memory and a shelf. Only what is used is ever touched, so a big node costs address space, not memory:
//! 256 ranks make 112 GiB of the former.
//!
//! Invariant: every offset handed out lies inside the mapping, which lives as long as the
//! `Segment`; the size is sealed, so no access can fault.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use boundary::UserBuf;
use sys::doorbell::Doorbell;
use sys::mark::{FileId, Mark};
use sys::memfd::{Mapping, create_sealed, open_sealed};

use crate::common::AREAS;
use crate::lane::{self, COMMON_PIPE, Lane, PIPE, PLAY, drain, fill};
use crate::sheets;
use crate::shelf::{LONGEST, PLACES, RANKS};

/// "ymbkshm" and the layout's number.
const MAGIC: u64 = u64::from_be_bytes(*b"ymbkshm\x0b");
/// Bytes for the version's name.
pub(crate) const VERSION: usize = 48;
const HEADER: usize = 4096;
/// In the header: how many ranks reported their processors, and which.
const REPORTS: usize = 64;
/// Whether its maker says that ranks lend each other what they have.
const LENDING: usize = 72;
const CPUS: usize = 128;
const CPU_WORDS: usize = 16;
const PAGE: usize = 4096;
const LINE: usize = 64;

/// Most ranks of one node; their segment is 25 TiB of the 128 TiB of address space.
pub(crate) const MOST_RANKS: u32 = 4096;

/// Bytes of each rank's board: flags, two faces and pieces of 64 KiB each for each of 64 communicators.
pub(crate) const BOARD: usize = 64 * (PAGE + 3 * 65_536);

/// Bytes of each rank's [shelf](crate::shelf), where there are ranks enough to have one: as many of the longest messages as it has places, each with what is left of its last page.
pub(crate) const SHELF: usize = PLACES * (LONGEST as usize + PLAY);

/// Bytes of each rank's common memory: see [`crate::Stretch`].
pub(crate) const COMMON: usize = 42 << 20;

/// Where things lie for a number of ranks.
#[derive(Clone, Copy, Debug)]
struct Map {
    ranks: usize,
    bells: usize,
    rank_bytes: usize,
    lanes: usize,
    pipes: usize,
    commons: usize,
    sheets: usize,
    boards: usize,
    common: usize,
    shelves: usize,
    /// Of each shelf.
    shelf_bytes: usize,
    total: usize,
}

impl Map {
    fn new(ranks: u32) -> Map {
        let n = ranks as usize;
        let words = n.div_ceil(64);
        let rank_bytes = 2 * LINE + (words * 8).next_multiple_of(2 * LINE);
        let bells = HEADER + (n * 8).next_multiple_of(2 * LINE);
        let lanes = (bells + n * rank_bytes).next_multiple_of(PAGE);
        let pipes = (lanes + n * n * lane::BYTES).next_multiple_of(PAGE);
        let commons = (pipes + n * n * PIPE).next_multiple_of(PAGE);
        let pairs = n * (n + 1) / 2;
        let sheets = (commons + pairs * AREAS * COMMON_PIPE).next_multiple_of(PAGE);
        let boards = (sheets + pairs * sheets::ALL).next_multiple_of(PAGE);
        let common = (boards + n * BOARD).next_multiple_of(PAGE);
        let shelves = common + n * COMMON;
        // Of fewer ranks nobody could use one.
        let shelf_bytes = if n >= RANKS { SHELF } else { 0 };
        Map {
            ranks: n,
            bells,
            rank_bytes,
            lanes,
            pipes,
            commons,
            sheets,
            boards,
            common,
            shelves,
            shelf_bytes,
            total: shelves + n * shelf_bytes,
        }
    }

    fn rank(&self, rank: u32) -> usize {
        self.bells + rank as usize * self.rank_bytes
    }

    /// Lanes to one rank lie side by side.
    fn pair(&self, from: u32, to: u32) -> usize {
        to as usize * self.ranks + from as usize
    }

    /// Which pair two ranks are, in whatever order: pairs come by their second rank.
    fn both(one: u32, other: u32) -> usize {
        let (first, second) = (one.min(other) as usize, one.max(other) as usize);
        second * (second + 1) / 2 + first
    }

    /// A pair's common pipes lie side by side.
    fn common_pipe(&self, one: u32, other: u32, area: usize) -> usize {
        self.commons + (Map::both(one, other) * AREAS + area) * COMMON_PIPE
    }

    fn shelf(&self, rank: u32) -> usize {
        self.shelves + rank as usize * self.shelf_bytes
    }

    fn sheets(&self, one: u32, other: u32) -> usize {
        self.sheets + Map::both(one, other) * sheets::ALL
    }
}

/// A rank's doorbell, kept beside what rings it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BellRef(NonNull<Doorbell>);

impl BellRef {
    /// The doorbell.
    #[inline(always)]
    pub fn get(&self) -> &Doorbell {
        // SAFETY: made from a doorbell of the segment by `Segment::bell_ref`; `Ports` and `SlotPorts`, which hold the
        // only copies, drop them before the segment, which they hold too.
        unsafe { self.0.as_ref() }
    }
}

/// The bits of a rank's senders, kept by that rank.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SendersRef(NonNull<[AtomicU64]>);

impl SendersRef {
    /// The bits.
    #[inline(always)]
    pub fn get(&self) -> &[AtomicU64] {
        // SAFETY: made from a slice of the segment by `Segment::senders_ref`; `Shm`, which holds the
        // only copy, drops it before the segment.
        unsafe { self.0.as_ref() }
    }
}

/// The mapped segment.
#[derive(Debug)]
pub(crate) struct Segment {
    mapping: Mapping,
    map: Map,
    /// Which file it is,
    file: FileId,
    /// and the page of it by which others know this process: the one that is as many as its rank.
    mark: Option<Mark>,
}

impl Segment {
    /// Makes the segment for `ranks` ranks.
    pub fn create(ranks: u32, version: &str) -> io::Result<(OwnedFd, Segment)> {
        let map = Map::new(ranks);
        let (fd, mapping) = create_sealed("yamabiko", map.total)?;
        let segment = Segment::new(&fd, mapping, map)?;
        let mut name = [0; VERSION];
        let n = version.len().min(VERSION - 1);
        name[..n].copy_from_slice(&version.as_bytes()[..n]);
        segment.mapping.write(16, &name);
        segment.word(8).store(u64::from(ranks), Ordering::Relaxed);
        segment.word(0).store(MAGIC, Ordering::Release);
        for rank in 0..ranks {
            segment.bell(rank).open();
        }
        Ok((fd, segment))
    }

    /// Maps the segment that another rank made.
    pub fn open(fd: impl AsFd, ranks: u32, version: &str) -> io::Result<Segment> {
        let map = Map::new(ranks);
        let mapping = open_sealed(&fd, map.total)?;
        let segment = Segment::new(fd, mapping, map)?;
        let mut name = [0; VERSION];
        segment.mapping.read(16, &mut name);
        let end = name.iter().position(|&b| b == 0).unwrap_or(VERSION);
        let same = segment.word(0).load(Ordering::Acquire) == MAGIC
            && segment.word(8).load(Ordering::Relaxed) == u64::from(ranks)
            && name[..end] == *version.as_bytes();
        if !same {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!(
                    "the shared segment was made by version {:?} of Yamabiko",
                    String::from_utf8_lossy(&name[..end])
                ),
            ));
        }
        Ok(segment)
    }

    fn new(fd: impl AsFd, mapping: Mapping, map: Map) -> io::Result<Segment> {
        Ok(Segment {
            mapping,
            map,
            file: FileId::of(fd)?,
            mark: None,
        })
    }

    /// Marks this process as that of a rank. Where that fails it is none whose memory others copy from or to.
    pub fn mark(&mut self, fd: impl AsFd, rank: u32) {
        self.mark = Mark::set(fd, rank.into()).ok();
    }

    /// Whether the process of that number is a rank's.
    ///
    /// # Errors
    /// When that can't be seen now.
    pub fn is_process_of(&self, rank: u32, pid: i32) -> io::Result<bool> {
        Mark::is_on(pid, self.file, rank.into())
    }

    fn word(&self, offset: usize) -> &AtomicU64 {
        self.mapping
            .get(offset)
            .expect("the header is inside the segment")
    }

    /// Its maker says, before it hands it out, that [ranks lend each other what they have](crate::Shm::lends).
    pub fn lend(&self) {
        self.word(LENDING).store(1, Ordering::Relaxed);
    }

    /// Whether its maker said so.
    pub fn lends(&self) -> bool {
        self.word(LENDING).load(Ordering::Relaxed) == 1
    }

    /// A rank reports which processors it may use.
    pub fn report_cpus(&self, cpus: &[usize]) {
        for &cpu in cpus {
            if let Some(word) = self.cpus().get(cpu / 64) {
                word.fetch_or(1 << (cpu % 64), Ordering::Relaxed);
            }
        }
        self.word(REPORTS).fetch_add(1, Ordering::Release);
    }

    /// How many processors all ranks together may use, once all of them have reported.
    pub fn cpus_of_all(&self) -> Option<usize> {
        let reports = self.word(REPORTS).load(Ordering::Acquire);
        let count = |w: &AtomicU64| w.load(Ordering::Relaxed).count_ones() as usize;
        (reports >= self.map.ranks as u64).then(|| self.cpus().iter().map(count).sum())
    }

    fn cpus(&self) -> &[AtomicU64] {
        self.mapping
            .slice(CPUS, CPU_WORDS)
            .expect("the header is inside the segment")
    }

    /// Where each rank was last seen to run; see `places`.
    pub fn places(&self) -> &[AtomicU64] {
        self.mapping
            .slice(HEADER, self.map.ranks)
            .expect("places are inside the segment")
    }

    /// The doorbell of a rank.
    pub fn bell(&self, rank: u32) -> &Doorbell {
        assert!((rank as usize) < self.map.ranks);
        self.mapping
            .get(self.map.rank(rank))
            .expect("doorbells are inside the segment")
    }

    /// The doorbell of a rank, to be kept no longer than the segment.
    pub fn bell_ref(&self, rank: u32) -> BellRef {
        BellRef(NonNull::from(self.bell(rank)))
    }

    /// Whose turn it is to read a rank's own memory; see [`turns`](crate::turns).
    pub fn turn(&self, rank: u32) -> &AtomicU64 {
        assert!((rank as usize) < self.map.ranks);
        self.mapping
            .get(self.map.rank(rank) + LINE)
            .expect("the words of turns are inside the segment")
    }

    /// Bits of the peers that ever sent to a rank.
    pub fn senders(&self, rank: u32) -> &[AtomicU64] {
        assert!((rank as usize) < self.map.ranks);
        self.mapping
            .slice(self.map.rank(rank) + 2 * LINE, self.map.ranks.div_ceil(64))
            .expect("sender bits are inside the segment")
    }

    /// The same, to be kept no longer than the segment.
    pub fn senders_ref(&self, rank: u32) -> SendersRef {
        SendersRef(NonNull::from(self.senders(rank)))
    }

    /// Address of a stretch of a rank's board; `None` where it is not inside.
    #[inline]
    pub fn board(&self, rank: u32, at: usize, bytes: usize) -> Option<*mut u8> {
        if (rank as usize) >= self.map.ranks || at > BOARD || bytes > BOARD - at {
            return None;
        }
        let board = self.map.boards + rank as usize * BOARD;
        self.mapping.range(board + at, bytes)
    }

    /// A word of a rank's board; `None` where it is not inside or not aligned.
    #[inline]
    pub fn board_word(&self, rank: u32, at: usize) -> Option<&AtomicU64> {
        if (rank as usize) >= self.map.ranks || at > BOARD - 8 {
            return None;
        }
        self.mapping
            .get(self.map.boards + rank as usize * BOARD + at)
    }

    /// Address of a stretch of a rank's common memory; `None` where it is not inside or begins within a line.
    pub fn common(&self, rank: u32, at: usize, bytes: usize) -> Option<*mut u8> {
        let outside = at > COMMON || bytes > COMMON - at || !at.is_multiple_of(LINE);
        if (rank as usize) >= self.map.ranks || outside {
            return None;
        }
        let common = self.map.common + rank as usize * COMMON;
        self.mapping.range(common + at, bytes)
    }

    /// Bytes of a rank's shelf.
    pub fn shelf_bytes(&self) -> usize {
        self.map.shelf_bytes
    }

    /// Address of a stretch of a rank's shelf.
    #[inline]
    fn shelf(&self, rank: u32, at: usize, bytes: usize) -> *mut u8 {
        let room = self.shelf_bytes();
        assert!((rank as usize) < self.map.ranks && at <= room && bytes <= room - at);
        let stretch = self.map.shelf(rank) + at;
        let stretch = self.mapping.range(stretch, bytes);
        stretch.expect("shelves are inside the segment")
    }

    /// Where in a page of a rank's shelf data begin best that come from `from`; see [`Lane::place`].
    #[inline]
    pub fn shelf_phase(&self, rank: u32, from: &layout::Reader) -> usize {
        let shelf = self.shelf(rank, 0, 0).addr();
        let phase = |(buf, _): (UserBuf, _)| (buf.addr() + PLAY / 2).wrapping_sub(shelf) % PLAY;
        from.contiguous().map_or(0, phase)
    }

    /// Copies the next `len` bytes of `from` to a stretch of the shelf of this process, which is rank `rank`, that nobody has still to read.
    pub fn fill_shelf(&self, rank: u32, at: usize, len: usize, from: &mut layout::Reader) {
        let to = self.shelf(rank, at, len);
        // SAFETY: inside the segment, and this process's own until it tells of it, as `Shelf::find` gives it to one message at a time.
        fill(unsafe { std::slice::from_raw_parts_mut(to, len) }, from);
    }

    /// Copies a message on a rank's shelf to `to`.
    pub fn drain_shelf(&self, rank: u32, at: usize, len: usize, to: &mut layout::Writer) {
        let from = self.shelf(rank, at, len);
        // SAFETY: inside the segment; its owner told of it, and waits until it is read. One that does not changes bytes under our eyes, which makes wrong data and nothing worse.
        drain(unsafe { std::slice::from_raw_parts(from, len) }, to);
    }

    /// What carries messages from one rank to another.
    pub fn lane(&self, from: u32, to: u32) -> Lane {
        self.lane_over(from, to, self.map.pipes + self.map.pair(from, to) * PIPE)
    }

    /// The same, over one of the pipes that both directions have in common.
    pub fn common_lane(&self, from: u32, to: u32, area: usize) -> Lane<COMMON_PIPE> {
        assert!(area < AREAS);
        self.lane_over(from, to, self.map.common_pipe(from, to, area))
    }

    /// The same, over the sheets of both directions.
    pub fn sheet_lane(&self, from: u32, to: u32) -> Lane<{ sheets::ALL }> {
        self.lane_over(from, to, self.map.sheets(from, to))
    }

    fn lane_over<const ROOM: usize>(&self, from: u32, to: u32, pipe: usize) -> Lane<ROOM> {
        assert!((from as usize) < self.map.ranks && (to as usize) < self.map.ranks);
        let lane = self.map.lanes + self.map.pair(from, to) * lane::BYTES;
        let lane = self.mapping.range(lane, lane::BYTES);
        match (lane, self.mapping.range(pipe, ROOM)) {
            // SAFETY: both ranges lie inside the mapping and belong to this pair alone; the callers
            // (`Shm`, `Ports`) drop their lanes before the segment.
            (Some(lane), Some(pipe)) => unsafe { Lane::new(lane, pipe) },
            _ => unreachable!("lanes are inside the segment"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_do_not_overlap() {
        for ranks in [1, 2, 3, 65, 300] {
            let map = Map::new(ranks);
            assert!(HEADER + ranks as usize * 8 <= map.rank(0));
            assert!(map.rank(ranks) <= map.lanes);
            let last = map.pair(ranks - 1, ranks - 1) + 1;
            assert!(map.lanes + last * lane::BYTES <= map.pipes);
            assert!(map.pipes + last * PIPE <= map.common_pipe(0, 0, 0));
            assert!(map.common_pipe(ranks - 1, ranks - 1, AREAS - 1) + COMMON_PIPE <= map.sheets);
            assert!(map.sheets(ranks - 1, ranks - 1) + sheets::ALL <= map.boards);
            assert!(map.boards + ranks as usize * BOARD <= map.common);
            assert_eq!(map.common + ranks as usize * COMMON, map.shelves);
            assert_eq!(map.shelf(ranks), map.total);
            assert_eq!(map.shelf(0) % PAGE, 0);
            assert_eq!((map.pipes % PAGE, map.boards % PAGE), (0, 0));
            assert_eq!((map.common % PAGE, map.commons % PAGE), (0, 0));
            assert_eq!(map.sheets % PAGE, 0);
            let pairs = (0..ranks).flat_map(|b| (0..=b).map(move |a| (a, b)));
            for (i, (a, b)) in pairs.enumerate() {
                assert_eq!(
                    map.common_pipe(a, b, 0),
                    map.commons + i * AREAS * COMMON_PIPE
                );
                assert_eq!(
                    map.common_pipe(b, a, 1),
                    map.common_pipe(a, b, 0) + COMMON_PIPE
                );
                assert_eq!(map.sheets(a, b), map.sheets + i * sheets::ALL);
                assert_eq!(map.sheets(a, b), map.sheets(b, a));
            }
        }
    }

    #[test]
    fn all_hear_alike_whether_ranks_lend() {
        for lends in [false, true] {
            let (fd, segment) = Segment::create(3, "test").unwrap();
            if lends {
                segment.lend();
            }
            assert_eq!(Segment::open(&fd, 3, "test").unwrap().lends(), lends);
        }
    }

    #[test]
    fn another_version_is_refused_by_name() {
        let (fd, segment) = Segment::create(3, "0.0.7").unwrap();
        assert_eq!(segment.senders(2).len(), 1);
        assert!(Segment::open(&fd, 3, "0.0.7").is_ok());
        assert!(Segment::open(&fd, 2, "0.0.7").is_err());
        let e = Segment::open(&fd, 3, "0.0.8").unwrap_err();
        assert!(e.to_string().contains("0.0.7"), "{e}");
    }
}
