//! Descendants of this process, found in /proc, and their end.
//!
//! Both the keeper and mpiexec are subreapers, so a process that a rank started, however it detached
//! itself (background, `setsid`, double fork), stays a descendant until it ends.

use crate::os::{self, Reaped};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// A living descendant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its process number.
    pub pid: i32,
    /// Its process group.
    pub group: i32,
}

/// All living descendants of this process but `except` and theirs; zombies are left out.
pub fn descendants(except: &[i32]) -> Vec<Member> {
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    let mut children: HashMap<i32, Vec<(Member, bool)>> = HashMap::new();
    for entry in entries.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|n| n.parse().ok()) else {
            continue;
        };
        if let Some((parent, group, alive)) = stat(pid) {
            children
                .entry(parent)
                .or_default()
                .push((Member { pid, group }, alive));
        }
    }
    let mut found = Vec::new();
    let mut parents = vec![i32::try_from(std::process::id()).unwrap_or(0)];
    // A process has one parent, so the walk visits each at most once; `remove` makes that certain
    // also when numbers were reused while we read.
    while let Some(parent) = parents.pop() {
        for (member, alive) in children.remove(&parent).unwrap_or_default() {
            if except.contains(&member.pid) {
                continue;
            }
            parents.push(member.pid);
            if alive {
                found.push(member);
            }
        }
    }
    found
}

/// Parent, process group, and whether it lives.
fn stat(pid: i32) -> Option<(i32, i32, bool)> {
    let text = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    // The command's name, in parentheses, may hold anything; the fields after it do not.
    let after = text.iter().rposition(|b| *b == b')')? + 1;
    let mut fields = std::str::from_utf8(&text[after..])
        .ok()?
        .split_ascii_whitespace();
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    let group = fields.next()?.parse().ok()?;
    Some((parent, group, !matches!(state, "Z" | "X")))
}

/// Kills all descendants and waits for their end, at most `limit`.
pub fn exterminate(limit: Duration) {
    let deadline = Instant::now() + limit;
    loop {
        for member in descendants(&[]) {
            os::kill(member.pid, libc::SIGKILL);
        }
        loop {
            match os::reap() {
                Reaped::Ended(..) => {}
                Reaped::Nobody => break,
                Reaped::NoChildren => return,
            }
        }
        if Instant::now() >= deadline {
            return;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Kills all descendants but `except` and theirs, until none of them lives, at most for `limit`.
pub fn exterminate_but(except: &[i32], limit: Duration) {
    let deadline = Instant::now() + limit;
    loop {
        let found = descendants(except);
        if found.is_empty() || Instant::now() >= deadline {
            return;
        }
        for member in found {
            os::kill(member.pid, libc::SIGKILL);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}
