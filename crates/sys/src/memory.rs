//! How much memory this process can still get.

use std::fs::read_to_string;
use std::path::Path;

const CGROUPS: &str = "/sys/fs/cgroup";

/// Bytes that can still be had without taking any from other processes: of the machine, and of this process's control group
/// (v2 or v1) and every group above it. A sixteenth of the machine's memory is left out, for what others want meanwhile.
/// `None` where the system does not tell.
///
/// It costs a few file reads.
pub fn available() -> Option<u64> {
    let machine = machine(&read_to_string("/proc/meminfo").ok()?)?;
    let groups = read_to_string("/proc/self/cgroup").unwrap_or_default();
    let groups = groups.lines().filter_map(memory_group);
    let left = groups.filter_map(|(root, path)| group(Path::new(&root), &path));
    Some(left.fold(machine, u64::min))
}

fn machine(meminfo: &str) -> Option<u64> {
    let kib = |name: &str| value(meminfo, name).map(|kib| kib.saturating_mul(1024));
    let spare = kib("MemTotal:")? / 16;
    Some(kib("MemAvailable:")?.saturating_sub(spare))
}

/// The number behind a name, which begins a line.
fn value(text: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines().map(str::split_ascii_whitespace);
    let mut line = lines.find(|l| l.clone().next() == Some(name))?;
    line.nth(1)?.parse().ok()
}

/// Where the groups are that a line of `/proc/self/cgroup` is about, and this process's path there, if it is about memory.
fn memory_group(line: &str) -> Option<(String, String)> {
    let mut parts = line.splitn(3, ':').skip(1);
    let (controllers, path) = (parts.next()?, parts.next()?);
    let root = match controllers {
        "" => CGROUPS.to_owned(),
        v1 if v1.split(',').any(|c| c == "memory") => format!("{CGROUPS}/memory"),
        _ => return None,
    };
    Some((root, path.trim_start_matches('/').to_owned()))
}

/// The least that a group at `path` below `root`, or one above it, has left. What it can drop, it has.
fn group(root: &Path, path: &str) -> Option<u64> {
    let number = |dir: &Path, names: [&str; 2]| {
        let read = |name: &str| read_to_string(dir.join(name)).ok()?.trim().parse().ok();
        names.into_iter().find_map(read)
    };
    let left = |dir: &Path| -> Option<u64> {
        let limit: u64 = number(dir, ["memory.max", "memory.limit_in_bytes"])?;
        let used: u64 = number(dir, ["memory.current", "memory.usage_in_bytes"])?;
        let stat = read_to_string(dir.join("memory.stat")).unwrap_or_default();
        let names = ["inactive_file", "total_inactive_file"];
        let files = names.into_iter().filter_map(|name| value(&stat, name));
        Some(limit.saturating_sub(used.saturating_sub(files.max().unwrap_or(0))))
    };
    let leaf = root.join(path);
    let groups = leaf.ancestors().take_while(|dir| dir.starts_with(root));
    groups.filter_map(left).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_some() {
        let some = available().unwrap();
        assert!(some > 0 && some < 1 << 50);
    }

    #[test]
    fn the_machine_keeps_a_part() {
        let text = "MemTotal:       1600 kB\nMemFree:   1 kB\nMemAvailable:    900 kB\n";
        assert_eq!(machine(text), Some(800 << 10));
        assert_eq!(machine("MemTotal: 1600 kB\nMemAvailable: 7 kB\n"), Some(0));
        assert_eq!(machine("MemTotal: 1600 kB\n"), None);
        assert_eq!(machine("MemTotal: x kB\nMemAvailable:\n"), None);
    }

    #[test]
    fn groups_are_found() {
        let found = |line| memory_group(line).map(|(root, path)| format!("{root} {path}"));
        assert_eq!(found("0::/a/b").as_deref(), Some("/sys/fs/cgroup a/b"));
        let v1 = found("7:hugetlb,memory:/job").unwrap();
        assert_eq!(v1, "/sys/fs/cgroup/memory job");
        assert_eq!((found("3:cpu,cpuacct:/x"), found("nonsense")), (None, None));
    }

    #[test]
    fn the_tightest_group_counts() {
        let root = std::env::temp_dir().join(format!("yamabiko-groups-{}", std::process::id()));
        let write = |path: &str, files: &[(&str, &str)]| {
            let dir = root.join(path);
            std::fs::create_dir_all(&dir).unwrap();
            for (name, text) in files {
                std::fs::write(dir.join(name), text).unwrap();
            }
        };
        write(
            "a",
            &[("memory.max", "1000\n"), ("memory.current", "900\n")],
        );
        let stat = "anon 5\ninactive_file 300\n";
        write(
            "a/b",
            &[
                ("memory.max", "max\n"),
                ("memory.current", "7\n"),
                ("memory.stat", stat),
            ],
        );
        write(
            "a/b/c",
            &[
                ("memory.limit_in_bytes", "2000\n"),
                ("memory.usage_in_bytes", "1980\n"),
                ("memory.stat", stat),
            ],
        );
        assert_eq!(group(&root, "a/b/c"), Some(100));
        write("a", &[("memory.stat", stat)]);
        assert_eq!(group(&root, "a/b/c"), Some(320));
        assert_eq!(group(&root, "elsewhere"), None);
        std::fs::remove_dir_all(&root).unwrap();
    }
}
