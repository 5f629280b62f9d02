//! The shared file: made and sealed by the launcher, checked and mapped by everybody.

#![allow(unsafe_code)]

use crate::FILE_NAME;
use crate::record::{Record, WORDS};
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::io::{Errno, Result};
use rustix::mm::{MapFlags, ProtFlags, mmap};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

/// First word of the file; the last digits are the layout's version.
const MAGIC: u64 = u64::from_le_bytes(*b"YMBKrep1");
/// More ranks than one machine runs; bounds what a hostile header can ask for.
const RANKS_MAX: usize = 1 << 16;

/// The whole file, as the launcher and the report command see it: one record per rank.
pub struct Book {
    words: &'static [AtomicU64],
    ranks: usize,
}

impl Book {
    /// Makes the file for `ranks` ranks, sealed; the descriptor is close-on-exec.
    pub fn create(ranks: usize) -> Result<(OwnedFd, Book)> {
        if ranks == 0 || ranks > RANKS_MAX {
            return Err(Errno::INVAL);
        }
        let fd =
            rustix::fs::memfd_create(FILE_NAME, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        rustix::fs::ftruncate(&fd, ((1 + ranks) * WORDS * 8) as u64)?;
        rustix::fs::fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        let words = map(&fd, ProtFlags::READ | ProtFlags::WRITE, (1 + ranks) * WORDS)?;
        words[1].store(ranks as u64, Ordering::Relaxed);
        words[0].store(MAGIC, Ordering::Release);
        Ok((fd, Book { words, ranks }))
    }

    /// Opens somebody's file for reading. `None` if it is not such a file.
    pub fn open(fd: impl AsFd) -> Option<Book> {
        let (words, ranks) = check_and_map(fd, ProtFlags::READ)?;
        Some(Book { words, ranks })
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
}

/// The record of `rank` in the file behind `fd`, for writing. `None` if the file is not a report
/// page or has no such rank.
pub(crate) fn own_record(fd: impl AsFd, rank: usize) -> Option<&'static [AtomicU64]> {
    let (words, ranks) = check_and_map(fd, ProtFlags::READ | ProtFlags::WRITE)?;
    (rank < ranks).then(|| record_of(words, rank))
}

/// The record of `rank` if `variable` names an inherited report page; the descriptor is closed once
/// the page is mapped, and left alone if it is something else.
pub(crate) fn inherited_record(variable: &str, rank: usize) -> Option<&'static [AtomicU64]> {
    use std::os::fd::{BorrowedFd, FromRawFd};
    let number: i32 = std::env::var(variable).ok()?.trim().parse().ok()?;
    if number < 0 {
        return None;
    }
    // SAFETY: the descriptor is only asked about; if it is closed, the questions fail with EBADF.
    let fd = unsafe { BorrowedFd::borrow_raw(number) };
    let record = own_record(fd, rank)?;
    // SAFETY: it is a report page, so the launcher opened it for this process and named it in the
    // environment for this one reader; nothing else in the process uses it.
    drop(unsafe { OwnedFd::from_raw_fd(number) });
    Some(record)
}

fn record_of(words: &'static [AtomicU64], rank: usize) -> &'static [AtomicU64] {
    &words[(1 + rank) * WORDS..(2 + rank) * WORDS]
}

fn check_and_map(fd: impl AsFd, access: ProtFlags) -> Option<(&'static [AtomicU64], usize)> {
    let needed = SealFlags::SHRINK | SealFlags::GROW;
    if !rustix::fs::fcntl_get_seals(&fd).ok()?.contains(needed) {
        return None;
    }
    let size = usize::try_from(rustix::fs::fstat(&fd).ok()?.st_size).ok()?;
    let count = size / 8;
    if !(2 * WORDS..=(1 + RANKS_MAX) * WORDS).contains(&count) {
        return None;
    }
    let words = map(&fd, access, count).ok()?;
    // Read once: other holders can write here at any time.
    let ranks = usize::try_from(words[1].load(Ordering::Relaxed)).ok()?;
    let known = words[0].load(Ordering::Acquire) == MAGIC;
    let fits = ranks >= 1 && ranks < count / WORDS;
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
