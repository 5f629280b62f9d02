//! The node's file of slots and mapped memory: where whose parts are.
//!
//! Every process of the segment has an area: a directory, a pipe to every peer, the pipes that it has in common with the peers behind it, lines, and
//! an arena. All places that a peer names are checked against this map.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::process::{Resource, getrlimit};
use sys::memfd::Mapping;
use sys::sparse::Sparse;

use crate::common::AREAS;
use crate::lane;
use crate::slots::Line;

const PAGE: u64 = 4096;
/// Bytes of a directory: 65,535 tables in the life of a process.
const DIRECTORY: u64 = 1 << 20;
/// Its first 16 bytes hold the number of entries; an entry is as long.
const ENTRY: usize = 16;
const ENTRIES: u64 = DIRECTORY / ENTRY as u64 - 1;
/// Bytes of a pipe: the words that steer it,
pub(super) const PIPE_CONTROL: usize = lane::BYTES.next_multiple_of(PAGE as usize);
/// then the chunks.
const PIPE: u64 = (PIPE_CONTROL + lane::PIPE) as u64;
/// Bytes of the pipes that two processes have in common.
const COMMONS: u64 = (AREAS * lane::COMMON_PIPE) as u64;
/// Largest and smallest area of a process. The former holds 13,000 tables of 5,000 slots for 256 processes, and
/// 2 TiB of mapped memory.
const LARGEST: u64 = 1 << 42;
const SMALLEST: u64 = 1 << 26;
/// Most slots of a table.
pub(crate) const MOST_SLOTS: u32 = 1 << 24;

/// The size of the file for so many processes, as far as the limit on the size of files allows.
pub(crate) fn size(ranks: u32) -> u64 {
    let limit = getrlimit(Resource::Fsize).current.unwrap_or(u64::MAX);
    let mut each = LARGEST;
    while each > SMALLEST && each * u64::from(ranks) > limit {
        each /= 2;
    }
    each * u64::from(ranks)
}

/// The file, as one process uses it.
#[derive(Debug)]
pub(crate) struct Area {
    file: Sparse,
    /// Processes that have an area.
    ranks: u32,
    /// This one, among them.
    pub local: u32,
    each: u64,
    /// From the start of an area to its lines.
    lines: u64,
    directory: Option<Mapping>,
    /// Bytes of lines that were given out.
    used: u64,
}

/// A table in a process's directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Entry {
    pub count: u32,
    /// Bytes from the start of the process's lines to the table's.
    pub offset: u64,
    pub open: bool,
}

/// Bytes of one peer's lines.
fn stride(count: u32) -> u64 {
    (u64::from(count) * size_of::<Line>() as u64).next_multiple_of(PAGE)
}

impl Area {
    /// The file of `ranks` processes, of which this is number `local`.
    pub fn new(file: Sparse, ranks: u32, local: u32) -> io::Result<Area> {
        let each = file.bytes() / u64::from(ranks);
        let lines = DIRECTORY + u64::from(ranks) * (PIPE + COMMONS);
        if !each.is_power_of_two() || lines > each / 4 {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        Ok(Area {
            file,
            ranks,
            local,
            each,
            lines,
            directory: None,
            used: 0,
        })
    }

    /// Bytes of an arena.
    pub fn arena_bytes(&self) -> u64 {
        self.each / 2
    }

    fn start(&self, rank: u32) -> u64 {
        u64::from(rank) * self.each
    }

    /// Maps a piece of a file, with memory behind it, so that touching it can't fail.
    fn piece(&self, offset: u64, len: u64) -> io::Result<Mapping> {
        let len = usize::try_from(len).map_err(|_| io::ErrorKind::OutOfMemory)?;
        self.file.allocate(offset, len)?;
        self.file.map(offset, len)
    }

    /// Maps part of a process's arena, in whole pages. `None` outside of it, or where that is refused.
    ///
    /// Only the owner gets memory for it: what a correct peer names has some, and by the time that somebody looks it may be
    /// given back, which would otherwise give it memory that nobody uses.
    pub fn arena(&self, rank: u32, offset: u64, len: u64) -> Option<Mapping> {
        let end = offset.checked_add(len)?;
        if end > self.arena_bytes() || !(offset | len).is_multiple_of(PAGE) {
            return None;
        }
        let at = self.start(rank) + self.each / 2 + offset;
        match rank == self.local {
            true => self.piece(at, len).ok(),
            false => self.file.map(at, usize::try_from(len).ok()?).ok(),
        }
    }

    /// Gives the memory of part of this process's arena back.
    pub fn release(&self, offset: u64, len: u64) {
        let at = self.start(self.local) + self.each / 2 + offset;
        self.file.release(at, len as usize);
    }

    /// Where the pipe from one process to another begins.
    fn pipe_start(&self, from: u32, to: u32) -> u64 {
        self.start(from) + DIRECTORY + u64::from(to) * PIPE
    }

    /// The pipe from one process to another: its words, and behind [`PIPE_CONTROL`] bytes its chunks.
    pub fn pipe(&self, from: u32, to: u32) -> io::Result<Mapping> {
        self.file.map(self.pipe_start(from, to), PIPE as usize)
    }

    /// Gets memory for the pipe from this process to another, and for the words of that in the other direction, which both write.
    pub fn back_pipe(&self, to: u32) -> io::Result<()> {
        let (out, inward) = (
            self.pipe_start(self.local, to),
            self.pipe_start(to, self.local),
        );
        self.file.allocate(out, PIPE as usize)?;
        self.file.allocate(inward, PIPE_CONTROL)
    }

    /// The pipes that two processes have in common, one behind the other. As those of the segment they get memory where they are touched: most stay
    /// at their beginning.
    pub fn common_pipes(&self, one: u32, other: u32) -> io::Result<Mapping> {
        let pipes = DIRECTORY + u64::from(self.ranks) * PIPE;
        let at = self.start(one.min(other)) + pipes + u64::from(one.max(other)) * COMMONS;
        self.file.map(at, COMMONS as usize)
    }

    /// Room for the lines of a new table of this process.
    pub fn reserve(&mut self, count: u32) -> io::Result<u64> {
        let bytes = stride(count).saturating_mul(u64::from(self.ranks));
        let end = self.used.saturating_add(bytes);
        if end > self.each / 2 - self.lines {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        Ok(std::mem::replace(&mut self.used, end))
    }

    /// The lines of a table of process `from`, which it writes for process `to`.
    pub fn lines(&self, from: u32, to: u32, entry: Entry) -> io::Result<Mapping> {
        let bytes = stride(entry.count);
        let at = u64::from(to) * bytes;
        let inside = entry.offset.checked_add(at + bytes);
        let room = self.each / 2 - self.lines;
        if entry.count > MOST_SLOTS
            || !entry.offset.is_multiple_of(PAGE)
            || inside.is_none_or(|end| end > room)
        {
            return Err(io::ErrorKind::InvalidData.into());
        }
        self.piece(self.start(from) + self.lines + entry.offset + at, bytes)
    }

    /// Gives the memory of a closed table of this process back.
    pub fn release_lines(&self, entry: Entry) {
        let bytes = stride(entry.count) * u64::from(self.ranks);
        let at = self.start(self.local) + self.lines + entry.offset;
        self.file.release(at, bytes as usize);
    }

    /// Tells the peers of a table of this process; returns its number in the directory.
    pub fn publish(&mut self, name: u32, entry: Entry) -> io::Result<u64> {
        if self.directory.is_none() {
            self.directory = Some(self.file.map(self.start(self.local), DIRECTORY as usize)?);
        }
        let Some(directory) = &self.directory else {
            return Err(io::ErrorKind::OutOfMemory.into());
        };
        let number = word(directory, 0).load(Ordering::Relaxed);
        if number >= ENTRIES {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        let at = (number as usize + 1) * ENTRY;
        let page = at as u64 / PAGE * PAGE;
        self.file.allocate(self.start(self.local), PAGE as usize)?;
        self.file
            .allocate(self.start(self.local) + page, PAGE as usize)?;
        let first = u64::from(name) << 32 | u64::from(entry.count);
        word(directory, at).store(first, Ordering::Relaxed);
        word(directory, at + 8).store(entry.offset | 1, Ordering::Relaxed);
        word(directory, 0).store(number + 1, Ordering::Release);
        Ok(number)
    }

    /// Tells the peers that a table is closed.
    pub fn retract(&self, number: u64, entry: Entry) {
        if let Some(directory) = &self.directory {
            let at = (number as usize + 1) * ENTRY;
            word(directory, at + 8).store(entry.offset, Ordering::Release);
        }
    }

    /// Maps a peer's directory.
    pub fn directory(&self, rank: u32) -> io::Result<Directory> {
        self.file.allocate(self.start(rank), PAGE as usize)?;
        let mapping = self.file.map(self.start(rank), DIRECTORY as usize)?;
        Ok(Directory(mapping))
    }
}

fn word(directory: &Mapping, offset: usize) -> &AtomicU64 {
    directory
        .get(offset)
        .expect("entries are inside the directory")
}

/// A peer's directory.
#[derive(Debug)]
pub(crate) struct Directory(Mapping);

impl Directory {
    /// How many entries there are.
    #[inline]
    pub fn used(&self) -> u64 {
        word(&self.0, 0).load(Ordering::Acquire).min(ENTRIES)
    }

    /// The entry of a table; later ones are more likely asked for.
    pub fn find(&self, name: u32) -> Option<Entry> {
        (1..=self.used() as usize).rev().find_map(|i| {
            let first = word(&self.0, i * ENTRY).load(Ordering::Relaxed);
            if first >> 32 != u64::from(name) {
                return None;
            }
            let second = word(&self.0, i * ENTRY + 8).load(Ordering::Acquire);
            Some(Entry {
                count: first as u32,
                offset: second & !1,
                open: second & 1 != 0,
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn area(ranks: u32, local: u32, each: u64) -> io::Result<Area> {
        let file = Sparse::create("test", u64::from(ranks) * each)?;
        Area::new(file, ranks, local)
    }

    #[test]
    fn parts_stay_inside() {
        let mut a = area(3, 1, SMALLEST).unwrap();
        let entry = Entry {
            count: 100,
            offset: a.reserve(100).unwrap(),
            open: true,
        };
        assert!(a.lines(1, 2, entry).is_ok());
        let outside = [
            Entry {
                offset: SMALLEST / 2,
                ..entry
            },
            Entry {
                offset: u64::MAX - 4095,
                ..entry
            },
            Entry {
                offset: 64,
                ..entry
            },
            Entry {
                count: u32::MAX,
                ..entry
            },
        ];
        for entry in outside {
            assert!(a.lines(2, 1, entry).is_err());
        }
        let whole = a.arena_bytes();
        assert!(a.arena(2, whole - PAGE, PAGE).is_some());
        assert!(a.arena(2, whole, PAGE).is_none());
        assert!(a.arena(2, u64::MAX - 4095, PAGE).is_none());
        assert!(a.arena(2, 64, PAGE).is_none());
        assert!(a.reserve(MOST_SLOTS).is_err(), "more than an area holds");
        assert!(area(600, 0, SMALLEST).is_err(), "no room for the pipes");
        assert_eq!(size(4), 4 * LARGEST);
    }

    #[test]
    fn directories_tell_of_tables() {
        let mut a = area(2, 0, SMALLEST).unwrap();
        let seen = a.directory(0).unwrap();
        assert_eq!((seen.find(7), seen.used()), (None, 0));
        let entry = Entry {
            count: 5,
            offset: 4096,
            open: true,
        };
        let number = a.publish(7, entry).unwrap();
        assert_eq!(seen.used(), 1);
        assert_eq!(seen.find(7), Some(entry));
        a.retract(number, entry);
        assert!(!seen.find(7).unwrap().open);
        assert_eq!(seen.find(8), None);
    }
}
