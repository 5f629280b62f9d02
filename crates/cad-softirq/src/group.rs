//! A control group (version 2) below that of this process, in which it makes sockets: what the kernel says of a socket's group is the group of
//! the process that made it, at that time.
//!
//! Invariants: this process is in the group only inside [`Group::within`], and the folder is there only as long as the [`Group`]. Only a process that is killed meanwhile
//! leaves one, without members; it has the process's number in its name, and the next one takes it away ([`Group::new`]). No controller is turned on, and no other process is
//! moved. Who calls it: `calc`.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How folders' names begin.
const PREFIX: &str = "yamabiko-kaccd-";
/// Who is a member.
const MEMBERS: &str = "cgroup.procs";
/// Stands for whoever writes it.
const SELF: &str = "0";

/// A group that is going to be gone. There is one at a time in a process, which is in one group as a whole.
pub(crate) struct Group {
    _one: MutexGuard<'static, ()>,
    /// This process's own.
    above: PathBuf,
    path: PathBuf,
    folder: File,
}

impl Group {
    /// Makes one, and takes away what others have left that are gone.
    ///
    /// # Errors
    /// Why not, in words for a person.
    pub fn new() -> Result<Group, String> {
        static ONE: Mutex<()> = Mutex::new(());
        static COUNT: AtomicU32 = AtomicU32::new(0);
        // Nothing is behind it that a panic leaves half done.
        let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        let above = own()?;
        tidy(&above);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = above.join(format!("{PREFIX}{}-{count}", std::process::id()));
        let failed = |e| {
            format!(
                "no control group can be made below {}: {e}",
                above.display()
            )
        };
        fs::create_dir(&path).map_err(failed)?;
        match File::open(&path) {
            Ok(folder) => Ok(Group {
                _one,
                above,
                path,
                folder,
            }),
            Err(why) => {
                let _ = fs::remove_dir(&path);
                Err(failed(why))
            }
        }
    }

    /// Its folder.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.folder.as_fd()
    }

    /// Does something while this process is a member.
    ///
    /// # Errors
    /// The system does not let it in, or not out again.
    pub fn within<R>(&self, f: impl FnOnce() -> R) -> Result<R, String> {
        enter(&self.path)?;
        let result = f();
        enter(&self.above)?;
        Ok(result)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // If this process is still in it, the folder stays, and who comes next takes it away.
        let _ = fs::remove_dir(&self.path);
    }
}

/// Makes this process a member.
fn enter(group: &Path) -> Result<(), String> {
    let entered = fs::write(group.join(MEMBERS), SELF);
    entered.map_err(|e| {
        format!(
            "the control group {} can't be entered: {e}",
            group.display()
        )
    })
}

/// Takes away folders of processes that are gone; the system keeps those with members.
fn tidy(above: &Path) {
    for folder in fs::read_dir(above).into_iter().flatten().flatten() {
        let name = folder.file_name();
        let owner = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        let owner = owner.and_then(|rest| rest.split('-').next());
        let owner = owner.and_then(|number| number.parse::<u32>().ok());
        let gone = |pid: u32| !Path::new("/proc").join(pid.to_string()).exists();
        if owner.is_some_and(gone) {
            let _ = fs::remove_dir(folder.path());
        }
    }
}

/// The folder of this process's group.
fn own() -> Result<PathBuf, String> {
    let read = |path: &str| fs::read_to_string(path).map_err(|e: io::Error| format!("{path}: {e}"));
    let (groups, mounts) = (read("/proc/self/cgroup")?, read("/proc/self/mountinfo")?);
    let none = || "this process is in no control group of version 2".to_owned();
    let group = groups.lines().find_map(|line| line.strip_prefix("0::"));
    let group = group.ok_or_else(none)?;
    let folder = mounts.lines().find_map(|line| below(line, group));
    folder
        .ok_or_else(|| format!("control groups of version 2 are not mounted here, or not {group}"))
}

/// Where a group is, if this line of `mountinfo` is of a place where it can be found.
fn below(mount: &str, group: &str) -> Option<PathBuf> {
    let (own, system) = mount.split_once(" - ")?;
    let mut own = own.split(' ').skip(3);
    let (root, at) = (own.next()?, own.next()?);
    if system.split(' ').next()? != "cgroup2" {
        return None;
    }
    let rest = Path::new(group).strip_prefix(root).ok()?;
    Some(Path::new(at).join(rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_found_where_they_are_mounted() {
        let mount = |root, at| format!("30 24 0:26 {root} {at} rw shared:9 - cgroup2 cgroup2 rw");
        let found = |line: String, group| below(&line, group);
        let all = mount("/", "/sys/fs/cgroup");
        assert_eq!(found(all.clone(), "/"), Some("/sys/fs/cgroup/".into()));
        let deep = found(all, "/a.slice/b");
        assert_eq!(deep, Some("/sys/fs/cgroup/a.slice/b".into()));
        let part = mount("/a.slice", "/mnt");
        assert_eq!(found(part.clone(), "/a.slice/b"), Some("/mnt/b".into()));
        assert_eq!(found(part, "/b"), None);
        let old = "31 24 0:27 / /sys/fs/cgroup/cpu rw shared:9 - cgroup cgroup rw,cpu";
        assert_eq!(below(old, "/"), None);
    }
}
