//! What jobs could leave behind: processes of ours, maps and programs of eBPF, links that have one run, control groups, names.

use crate::{Result, build};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long what is ending may take.
const LIMIT: Duration = Duration::from_secs(5);

/// How the names of kaccd's control groups begin; its number follows.
const GROUP: &str = "yamabiko-kaccd-";

/// For how long nothing changes where all is at rest: some of the kernel's grace periods.
const QUIET: Duration = Duration::from_millis(300);

/// Everything there is. A map or a program exists as long as a process has a descriptor of it, or a mapping; nothing of ours is pinned.
pub fn all() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.bytes().all(|byte| byte.is_ascii_digit()) {
            of_process(&name, &entry.path(), &mut found);
        }
    }
    for entry in fs::read_dir("/dev/shm").into_iter().flatten().flatten() {
        let path = entry.path().display().to_string();
        if path.contains("yamabiko") {
            found.insert(path);
        }
    }
    let groups = groups().map(|group| format!("control group {}", group.display()));
    found.extend(groups);
    found
}

/// Whether there is a control group that this kaccd has made.
pub fn has_group(kaccd: u32) -> bool {
    let begin = format!("{GROUP}{kaccd}-");
    let name = |group: PathBuf| group.file_name().map(|n| n.to_string_lossy().into_owned());
    groups()
        .filter_map(name)
        .any(|name| name.starts_with(&begin))
}

/// Those that kaccds have made: they lie below that of this process, which is theirs too.
fn groups() -> impl Iterator<Item = PathBuf> {
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    let (own, mounts) = (read("/proc/self/cgroup"), read("/proc/self/mountinfo"));
    let own = own.lines().find_map(|line| line.strip_prefix("0::"));
    let folder = own.and_then(|own| mounts.lines().find_map(|mount| below(mount, own)));
    let folders = folder.and_then(|folder| fs::read_dir(folder).ok());
    let paths = folders.into_iter().flatten().flatten();
    paths.map(|entry| entry.path()).filter(|path| {
        let name = path.file_name().unwrap_or_default();
        name.to_string_lossy().starts_with(GROUP)
    })
}

/// Where a control group is, if this line of `mountinfo` is of version 2 and shows it.
fn below(mount: &str, group: &str) -> Option<PathBuf> {
    let (place, _) = mount.split_once(" - cgroup2 ")?;
    let mut words = place.split(' ').skip(3);
    let (root, at) = (words.next()?, words.next()?);
    let rest = Path::new(group).strip_prefix(root).ok()?;
    Some(Path::new(at).join(rest))
}

fn of_process(pid: &str, folder: &Path, found: &mut BTreeSet<String>) {
    let ours = [
        build::prefix(false).join("bin"),
        build::target().join("test"),
    ];
    let exe = fs::read_link(folder.join("exe")).unwrap_or_default();
    if ours.iter().any(|place| exe.starts_with(place)) {
        found.insert(format!("process {pid}, {}", exe.display()));
    }
    let mut held = BTreeMap::new();
    for entry in fs::read_dir(folder.join("fdinfo"))
        .into_iter()
        .flatten()
        .flatten()
    {
        let info = fs::read_to_string(entry.path()).unwrap_or_default();
        let kinds = ["map_id:", "prog_id:", "link_id:"];
        let lines = info
            .lines()
            .filter(|line| kinds.iter().any(|kind| line.starts_with(kind)));
        for line in lines {
            let kind = line.split(':').next().unwrap_or(line);
            *held.entry(kind.to_owned()).or_insert(0) += 1;
        }
    }
    // By number, not by name: kaccd replaces the pages that it keeps ready.
    for (kind, count) in held {
        let each = 1..=count;
        found.extend(each.map(|nth| format!("process {pid} has {nth} or more of {kind}")));
    }
    let maps = fs::read_to_string(folder.join("maps")).unwrap_or_default();
    if maps.lines().any(|line| line.ends_with("bpf-map")) {
        found.insert(format!("process {pid} has a map mapped"));
    }
}

/// Everything there is when nothing has come or gone for a while.
pub fn at_rest() -> BTreeSet<String> {
    let begin = Instant::now();
    let mut before = all();
    loop {
        std::thread::sleep(QUIET);
        let now = all();
        if now == before || begin.elapsed() > LIMIT {
            return now;
        }
        before = now;
    }
}

/// Fails if there is something that was not there before.
pub fn nothing_since(before: &BTreeSet<String>) -> Result {
    let begin = Instant::now();
    loop {
        let left: Vec<_> = all().difference(before).cloned().collect();
        if left.is_empty() {
            return Ok(());
        }
        if begin.elapsed() > LIMIT {
            return Err(format!("left behind:\n{}", left.join("\n")));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_groups_are_found_where_they_are_mounted() {
        let mount = |root, at| format!("30 24 0:26 {root} {at} rw shared:9 - cgroup2 cgroup2 rw");
        let found = |root, at, group| below(&mount(root, at), group);
        let deep = found("/", "/sys/fs/cgroup", "/a.slice/b");
        assert_eq!(deep, Some("/sys/fs/cgroup/a.slice/b".into()));
        assert_eq!(found("/a", "/mnt", "/a/b"), Some("/mnt/b".into()));
        assert_eq!(found("/a", "/mnt", "/b"), None);
        assert_eq!(below("31 24 0:27 / /x rw - cgroup cgroup rw", "/"), None);
    }
}
