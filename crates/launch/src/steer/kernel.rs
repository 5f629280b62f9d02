//! The kernel's settings of a network namespace, as files.
//!
//! `/sys` shows the interfaces of the network namespace in which it was mounted, which need not be the caller's, and there an interface of the same name is
//! another one. So settings are reached by a sysfs that is mounted for the caller alone: it has no place, and ends with its descriptor.

use rustix::fs::{Dir, Mode, OFlags, openat};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;

/// The kind of a loopback interface (ARPHRD_LOOPBACK).
pub const LOOPBACK: &str = "772";
/// Longest setting that is read, in bytes; a set of 8192 processors has 2303.
const LONGEST: u64 = 4096;
/// Longest name of an interface, in bytes.
const NAME_MAX: usize = 15;
/// Most queues of an interface that are looked at.
const QUEUES_MAX: usize = 4096;

/// The settings of the caller's network namespace.
pub struct Kernel {
    sysfs: OwnedFd,
}

impl Kernel {
    /// Those of the calling thread's.
    ///
    /// # Errors
    /// The kernel's: mostly, that the privilege is missing.
    pub fn here() -> io::Result<Kernel> {
        let context = fsopen("sysfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
        fsconfig_create(&context)?;
        let (flags, attributes) = (FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty());
        let sysfs = fsmount(&context, flags, attributes)?;
        Ok(Kernel { sysfs })
    }

    /// A setting without the end of its line. Paths begin with `sys/` or `proc/`.
    ///
    /// # Errors
    /// The kernel's.
    pub fn read(&self, path: &str) -> io::Result<String> {
        let mut text = String::new();
        let file = self.open(path, OFlags::RDONLY)?;
        file.take(LONGEST).read_to_string(&mut text)?;
        Ok(text.trim().to_owned())
    }

    /// Changes one.
    ///
    /// # Errors
    /// The kernel's.
    pub fn write(&self, path: &str, value: &str) -> io::Result<()> {
        let mut file = self.open(path, OFlags::WRONLY)?;
        file.write_all(value.as_bytes())
    }

    /// The paths of an interface's receive queues.
    ///
    /// # Errors
    /// There is no such interface.
    pub fn queues(&self, interface: &str) -> io::Result<Vec<String>> {
        if !is_name(interface) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let folder = format!("sys/class/net/{interface}/queues");
        let directory = self.open(&folder, OFlags::RDONLY | OFlags::DIRECTORY)?;
        let mut queues = Vec::new();
        for entry in Dir::read_from(directory)?.take(QUEUES_MAX) {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy();
            if name.starts_with("rx-") {
                queues.push(format!("{folder}/{name}"));
            }
        }
        queues.sort_unstable();
        Ok(queues)
    }

    /// Whether what is sent through it comes back.
    pub fn is_loopback(&self, interface: &str) -> bool {
        let kind = self.read(&format!("sys/class/net/{interface}/type"));
        kind.is_ok_and(|kind| kind == LOOPBACK)
    }

    fn open(&self, path: &str, flags: OFlags) -> io::Result<File> {
        let flags = flags | OFlags::CLOEXEC;
        let opened = match path.strip_prefix("sys/") {
            Some(path) => openat(&self.sysfs, path, flags, Mode::empty())?,
            None => rustix::fs::open(format!("/{path}"), flags, Mode::empty())?,
        };
        Ok(opened.into())
    }
}

/// Whether an interface can have this name, and it is not a path.
fn is_name(name: &str) -> bool {
    let plain = |c: char| !c.is_whitespace() && c != '/' && c != ':';
    !name.is_empty()
        && name.len() <= NAME_MAX
        && name.chars().all(plain)
        && !matches!(name, "." | "..")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_interfaces_are_no_paths() {
        for name in ["eth0", "lo", "enp0s31f6", "a.100", "veth@x"] {
            assert!(is_name(name), "{name}");
        }
        for name in [
            "",
            ".",
            "..",
            "../lo",
            "a/b",
            "a b",
            "a\nb",
            "eth0:1",
            "sixteen-letters-",
        ] {
            assert!(!is_name(name), "{name}");
        }
    }
}
