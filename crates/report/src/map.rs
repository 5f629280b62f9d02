//! The shared file: made and sealed by the launcher, checked and mapped by everybody.

#![allow(unsafe_code)]

use crate::FILE_NAME;
use crate::record::{Own, Record, WORDS, plain, put_text};
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::io::{Errno, Result};
use rustix::mm::{MapFlags, ProtFlags, mmap};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

/// First word of the file; the last digits are the layout's version.
const MAGIC: u64 = u64::from_le_bytes(*b"YMBKrep3");
/// Words of the header, which is a record's size: magic, number of ranks, number of deaths.
const RANKS: usize = 1;
const DEATHS: usize = 2;
/// Words of a host's name.
const HOST_WORDS: usize = 8;
/// More ranks than one machine runs; bounds what a hostile header can ask for.
const RANKS_MAX: usize = 1 << 16;

/// The whole file, as the launcher and the report command see it: a header, one record per rank, a bit
/// per rank that is gone and one per rank that is so because it has finalised MPI, and the name of each rank's host if that is another one.
pub struct Book {
    words: &'static [AtomicU64],
    ranks: usize,
    /// Whether this process made the file; otherwise the mapping can only be read.
    made: bool,
}

impl Book {
    /// Makes the file for `ranks` ranks, sealed; the descriptor is close-on-exec. Parts that nobody
    /// writes to cost no memory.
    pub fn create(ranks: usize) -> io::Result<(OwnedFd, Book)> {
        if ranks == 0 || ranks > RANKS_MAX {
            return Err(Errno::INVAL.into());
        }
        let fd =
            rustix::fs::memfd_create(FILE_NAME, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        let count = words_for(ranks);
        sys::memfd::set_size(&fd, (count * 8) as u64)?;
        rustix::fs::fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        let words = map(&fd, ProtFlags::READ | ProtFlags::WRITE, count)?;
        words[RANKS].store(ranks as u64, Ordering::Relaxed);
        words[0].store(MAGIC, Ordering::Release);
        let book = Book {
            words,
            ranks,
            made: true,
        };
        Ok((fd, book))
    }

    /// Opens somebody's file for reading. `None` if it is not such a file.
    pub fn open(fd: impl AsFd) -> Option<Book> {
        let (words, ranks) = check_and_map(fd, ProtFlags::READ)?;
        Some(Book {
            words,
            ranks,
            made: false,
        })
    }

    /// The number of ranks in the job.
    pub fn ranks(&self) -> usize {
        self.ranks
    }

    /// What `rank` last noted. `None` for a rank the job does not have.
    pub fn read(&self, rank: usize) -> Option<Record> {
        if rank >= self.ranks {
            return None;
        }
        Some(Record::read(record_of(self.words, rank)))
    }

    /// Notes what `rank` noted on its own host. Only the page's maker can.
    pub fn store(&self, rank: usize, record: &Record) {
        if rank < self.ranks && self.made {
            record.write(record_of(self.words, rank));
        }
    }

    /// Tells all ranks that `rank` is gone, and whether because it has finalised MPI. Only the page's maker can.
    pub fn mark_gone(&self, rank: usize, finalized: bool) {
        if rank >= self.ranks || !self.made {
            return;
        }
        let bit = 1 << (rank % 64);
        if finalized {
            left_of(self.words, self.ranks)[rank / 64].fetch_or(bit, Ordering::Relaxed);
        }
        // Release: a rank may see this bit before the count, and must not miss the one above.
        let before = gone_of(self.words, self.ranks)[rank / 64].fetch_or(bit, Ordering::Release);
        if before & bit == 0 {
            self.words[DEATHS].fetch_add(1, Ordering::Release);
        }
    }

    /// Notes that `rank` runs on the host called `name`; a long name is cut. Only the page's
    /// maker can.
    pub fn set_host(&self, rank: usize, name: &str) {
        if rank < self.ranks && self.made {
            let name = &name.as_bytes()[..name.len().min(HOST_WORDS * 8)];
            put_text(host_of(self.words, self.ranks, rank), name);
        }
    }

    /// The name of the host of `rank`, if it is another than the launcher's: visible ASCII.
    pub fn host(&self, rank: usize) -> Option<String> {
        if rank >= self.ranks {
            return None;
        }
        let words = host_of(self.words, self.ranks, rank).iter();
        let bytes = words.flat_map(|w| w.load(Ordering::Relaxed).to_le_bytes());
        let name: String = bytes.take_while(|b| *b != 0).map(plain).collect();
        (!name.is_empty()).then_some(name)
    }
}

/// What `rank` may write and read in the file behind `fd`. `None` if the file is not a report page or
/// has no such rank.
pub(crate) fn own(fd: impl AsFd, rank: usize) -> Option<Own> {
    let (words, ranks) = check_and_map(fd, ProtFlags::READ | ProtFlags::WRITE)?;
    (rank < ranks).then(|| Own {
        record: record_of(words, rank),
        deaths: &words[DEATHS],
        gone: gone_of(words, ranks),
        left: left_of(words, ranks),
    })
}

/// The part of `rank` if `variable` names an inherited report page; the descriptor is closed once
/// the page is mapped, and left alone if it is something else.
pub(crate) fn inherited(variable: &str, rank: usize) -> Option<Own> {
    use std::os::fd::{BorrowedFd, FromRawFd};
    let number: i32 = std::env::var(variable).ok()?.trim().parse().ok()?;
    if number < 0 {
        return None;
    }
    // SAFETY: the descriptor is only asked about; if it is closed, the questions fail with EBADF.
    let fd = unsafe { BorrowedFd::borrow_raw(number) };
    let own = own(fd, rank)?;
    // SAFETY: it is a report page, so the launcher opened it for this process and named it in the
    // environment for this one reader; nothing else in the process uses it.
    drop(unsafe { OwnedFd::from_raw_fd(number) });
    Some(own)
}

/// Words of the file for so many ranks.
fn words_for(ranks: usize) -> usize {
    (1 + ranks) * WORDS + 2 * ranks.div_ceil(64) + ranks * HOST_WORDS
}

fn record_of(words: &'static [AtomicU64], rank: usize) -> &'static [AtomicU64] {
    &words[(1 + rank) * WORDS..(2 + rank) * WORDS]
}

fn gone_of(words: &'static [AtomicU64], ranks: usize) -> &'static [AtomicU64] {
    let start = (1 + ranks) * WORDS;
    &words[start..start + ranks.div_ceil(64)]
}

fn left_of(words: &'static [AtomicU64], ranks: usize) -> &'static [AtomicU64] {
    let start = (1 + ranks) * WORDS + ranks.div_ceil(64);
    &words[start..start + ranks.div_ceil(64)]
}

fn host_of(words: &'static [AtomicU64], ranks: usize, rank: usize) -> &'static [AtomicU64] {
    let start = (1 + ranks) * WORDS + 2 * ranks.div_ceil(64) + rank * HOST_WORDS;
    &words[start..start + HOST_WORDS]
}

fn check_and_map(fd: impl AsFd, access: ProtFlags) -> Option<(&'static [AtomicU64], usize)> {
    let needed = SealFlags::SHRINK | SealFlags::GROW;
    if !rustix::fs::fcntl_get_seals(&fd).ok()?.contains(needed) {
        return None;
    }
    let size = usize::try_from(rustix::fs::fstat(&fd).ok()?.st_size).ok()?;
    let count = size / 8;
    if !(words_for(1)..=words_for(RANKS_MAX)).contains(&count) {
        return None;
    }
    let words = map(&fd, access, count).ok()?;
    // Read once: other holders can write here at any time.
    let ranks = usize::try_from(words[RANKS].load(Ordering::Relaxed)).ok()?;
    let known = words[0].load(Ordering::Acquire) == MAGIC;
    let fits = (1..=RANKS_MAX).contains(&ranks) && words_for(ranks) <= count;
    (known && fits).then_some((words, ranks))
}

/// Maps `count` words for the rest of the process's life: records are written until its very end,
/// also from exit handlers, so nothing may unmap them.
fn map(fd: impl AsFd, access: ProtFlags, count: usize) -> Result<&'static [AtomicU64]> {
    // SAFETY: a fresh mapping at an address the kernel chooses disturbs nothing in the process.
    let start = unsafe {
        mmap(
            std::ptr::null_mut(),
            count * 8,
            access,
            MapFlags::SHARED,
            fd,
            0,
        )
    }?;
    // SAFETY: the mapping is page-aligned, `count` words long, never unmapped and backed by a file
    // whose size is sealed; all accesses are atomic, so other processes may write at any time. A
    // mapping without write access is only ever read: `Book::open` keeps it from the writers.
    Ok(unsafe { std::slice::from_raw_parts(start.cast::<AtomicU64>(), count) })
}
