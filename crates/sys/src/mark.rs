//! A mark that a process sets on itself, and that others find in what the kernel tells of it: so a number that is said to be a certain process's can be
//! believed.
//!
//! The mark is a page of a memory file that only some processes have, mapped without any rights. Whoever has the file can so mark itself, but no other
//! process; which page stands for whom is the callers' to agree on. A copy of the process (`fork`) has its marks too.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::os::fd::AsFd;
use std::ptr::{self, NonNull};

use rustix::fs::{fstat, major, minor};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// Bytes of a page of this machine.
fn page_bytes() -> usize {
    rustix::param::page_size()
}

/// Which file it is, among all that are open anywhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FileId {
    major: u32,
    minor: u32,
    inode: u64,
}

impl FileId {
    /// The file behind a descriptor.
    ///
    /// # Errors
    /// What the system says.
    pub fn of(fd: impl AsFd) -> io::Result<FileId> {
        let stat = fstat(fd)?;
        Ok(FileId {
            major: major(stat.st_dev),
            minor: minor(stat.st_dev),
            inode: stat.st_ino,
        })
    }
}

/// A page by which this process can be known, until dropped.
#[derive(Debug)]
pub struct Mark(NonNull<libc::c_void>);

// SAFETY: nobody reads or writes through the address.
unsafe impl Send for Mark {}
// SAFETY: as above.
unsafe impl Sync for Mark {}

impl Mark {
    /// Marks this process by a page of a file.
    ///
    /// # Errors
    /// What the system says.
    pub fn set(file: impl AsFd, page: u64) -> io::Result<Mark> {
        let (len, offset) = (page_bytes(), page * page_bytes() as u64);
        let none = ProtFlags::empty();
        // SAFETY: a new mapping at an address of the kernel's choice touches nothing that exists.
        let at = unsafe { mmap(ptr::null_mut(), len, none, MapFlags::SHARED, file, offset) }?;
        Ok(Mark(NonNull::new(at).ok_or(io::ErrorKind::OutOfMemory)?))
    }

    /// Whether the process `pid`, as this one's namespace counts, has marked itself by that page.
    ///
    /// # Errors
    /// What the system says where it can't be looked at.
    pub fn is_on(pid: i32, file: FileId, page: u64) -> io::Result<bool> {
        let maps = File::open(format!("/proc/{pid}/maps"))?;
        let lines = BufReader::new(maps).split(b'\n').map_while(Result::ok);
        Ok(lines.filter_map(|line| parse(&line)).any(|pages| {
            pages.file == file && page >= pages.first && page - pages.first < pages.number
        }))
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        // SAFETY: mapped by `set`; nobody uses the address.
        let _ = unsafe { munmap(self.0.as_ptr(), page_bytes()) };
    }
}

/// Pages of a file, mapped without rights. The kernel tells of adjacent ones together.
#[derive(Debug, PartialEq, Eq)]
struct Pages {
    file: FileId,
    first: u64,
    number: u64,
}

/// A line of `/proc/PID/maps`: `from-to rights offset major:minor inode name`, all but the inode in hexadecimal digits. `None` where the process has any rights.
fn parse(line: &[u8]) -> Option<Pages> {
    let mut words = line.split(|&b| b == b' ');
    let mut word = || std::str::from_utf8(words.next()?).ok();
    let hex = |text: &str| u64::from_str_radix(text, 16).ok();
    let ((from, to), rights) = (word()?.split_once('-')?, word()?);
    if rights != "---s" {
        return None;
    }
    let (offset, device, inode) = (hex(word()?)?, word()?.split_once(':')?, word()?);
    Some(Pages {
        file: FileId {
            major: u32::from_str_radix(device.0, 16).ok()?,
            minor: u32::from_str_radix(device.1, 16).ok()?,
            inode: inode.parse().ok()?,
        },
        first: offset / page_bytes() as u64,
        number: hex(to)?.checked_sub(hex(from)?)? / page_bytes() as u64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memfd::create_sealed;

    #[test]
    fn a_process_is_known_by_its_marks_alone() {
        let (fd, _mapping) = create_sealed("marks", 1 << 20).unwrap();
        let (other, _mapping) = create_sealed("marks", 1 << 20).unwrap();
        let file = FileId::of(&fd).unwrap();
        let me = std::process::id() as i32;
        let seen = |page| Mark::is_on(me, file, page).unwrap();
        // All of it is mapped, but nothing is marked.
        assert!(!seen(0) && !seen(3));
        let mark = Mark::set(&fd, 3).unwrap();
        assert!(seen(3) && !seen(2) && !seen(4));
        assert!(!Mark::is_on(me, FileId::of(&other).unwrap(), 3).unwrap());
        // Adjacent ones may become one mapping.
        let more = [4, 2].map(|page| Mark::set(&fd, page).unwrap());
        assert!((2..5).all(seen) && !seen(1) && !seen(5));
        drop((mark, more));
        assert!(!seen(3));
        assert!(Mark::is_on(i32::MAX, file, 3).is_err());
    }

    #[test]
    fn another_process_is_not_this_one() {
        let (fd, _mapping) = create_sealed("marks", 1 << 20).unwrap();
        let _mark = Mark::set(&fd, 1).unwrap();
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let marked = Mark::is_on(child.id() as i32, FileId::of(&fd).unwrap(), 1).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!marked);
    }

    #[test]
    fn lines_of_the_kernel_are_read() {
        let file = FileId {
            major: 0,
            minor: 0x1f,
            inode: 1041,
        };
        let (page, from) = (page_bytes() as u64, 0x7f10_0000);
        let line = format!(
            "{from:x}-{:x} ---s {:08x} 00:1f 1041      /memfd:yamabiko (deleted)",
            from + 2 * page,
            3 * page
        );
        assert_eq!(
            parse(line.as_bytes()),
            Some(Pages {
                file,
                first: 3,
                number: 2
            })
        );
        for line in [
            "",
            "7f10a000-7f10c000 rw-s 00003000 00:1f 1041 x",
            "7f10a000-7f10c000 ---p 00003000 00:1f 1041",
            "7f10a000-7f10c000 ---s 00003000 00:1f",
            "7f10c000-7f10a000 ---s 00003000 00:1f 1041 x",
            "7f10c000 ---s 00003000 00:1f 1041 x",
        ] {
            assert_eq!(parse(line.as_bytes()), None, "{line}");
        }
    }
}
