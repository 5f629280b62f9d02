//! The guard: a process that puts settings back when the one that changed them is gone, however that ended.
//!
//! It is this program once more, with a hidden command. Its standard input, a pipe, holds what was there ([`Change`]s, a line each) before there is a guard, so
//! that none ever runs that does not know; the end of that input is the daemon's end, as nobody else has the other end of the pipe. Its standard output is the lock on the
//! network namespace, which so lasts until everything is back. Signals that end a daemon and all beside it (of a terminal, of a service's stop) it ignores.

use super::kernel::Kernel;
use super::{Change, is_same};
use crate::os::signals;
use rustix::pipe::{fcntl_getpipe_size, fcntl_setpipe_size};
use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::time::Duration;

/// The hidden command's name.
pub const COMMAND: &str = "kaccd-guard";

/// Most that a guard reads, in bytes: queues of many interfaces.
const NOTES_MAX: u64 = 1 << 22;

/// How often a guard that was killed gets a successor.
const SUCCESSION: Duration = Duration::from_secs(1);

/// A running guard. Dropped, it puts everything back, which is waited for.
pub(super) struct Guard {
    child: Child,
    /// Whose end the guard waits for.
    pipe: Option<PipeWriter>,
    lock: File,
    notes: String,
}

impl Guard {
    /// One that knows what these changes will replace.
    pub fn start(lock: File, changes: &[Change]) -> io::Result<Guard> {
        let notes: String = changes.iter().map(Change::note).collect();
        let (child, pipe) = spawn(&lock, &notes)?;
        Ok(Guard {
            child,
            pipe: Some(pipe),
            lock,
            notes,
        })
    }

    /// Sees to it, in a thread, that there is a guard until this process ends.
    pub fn keep(mut self) {
        std::thread::spawn(move || {
            loop {
                let pipe = self.pipe.take();
                // The guard goes before its pipe ends only if somebody kills it. (`wait` would close what it knew of the pipe.)
                let _ = self.child.wait();
                drop(pipe);
                match spawn(&self.lock, &self.notes) {
                    Ok((child, pipe)) => (self.child, self.pipe) = (child, Some(pipe)),
                    Err(why) => {
                        sys::say::line(&format!("yamabiko: kaccd: steering has no guard: {why}"))
                    }
                }
                std::thread::sleep(SUCCESSION);
            }
        });
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        drop(self.pipe.take());
        // There is nobody to tell.
        let _ = self.child.wait();
    }
}

/// A pipe in which the notes lie, which nobody reads yet.
fn told(notes: &str) -> io::Result<(PipeReader, PipeWriter)> {
    let (input, mut pipe) = io::pipe()?;
    if notes.len() > fcntl_getpipe_size(&pipe)? {
        fcntl_setpipe_size(&pipe, notes.len())?;
    }
    pipe.write_all(notes.as_bytes())?;
    Ok((input, pipe))
}

fn spawn(lock: &File, notes: &str) -> io::Result<(Child, PipeWriter)> {
    let (input, pipe) = told(notes)?;
    // This program, also when its file has been replaced.
    let mut command = Command::new("/proc/self/exe");
    command.arg0("yamabiko").arg(COMMAND);
    command.stdin(input).stdout(lock.try_clone()?);
    // A terminal's signals are for the daemon.
    let child = command.process_group(0).spawn()?;
    Ok((child, pipe))
}

impl Change {
    fn note(&self) -> String {
        format!("{} {} {}\n", self.path, self.old, self.new)
    }

    fn of(note: &str) -> Option<Change> {
        let mut words = note.split(' ').map(str::to_owned);
        let mut next = || words.next();
        let change = Change {
            path: next()?,
            old: next()?,
            new: next()?,
        };
        let is_ours = change.path.starts_with("sys/class/net/") || change.path == super::TABLE;
        (is_ours && next().is_none() && !change.path.contains("..")).then_some(change)
    }
}

/// What the guard does.
///
/// # Errors
/// What could not be put back, in words for a person.
pub fn run() -> Result<(), String> {
    let ending = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];
    signals::reset(&ending, &ending);
    let kernel = Kernel::here().map_err(|e| super::refused("a sysfs of its own", &e))?;
    let mut notes = String::new();
    let told = io::stdin().take(NOTES_MAX).read_to_string(&mut notes);
    told.map_err(|e| e.to_string())?;
    let mut failed = Vec::new();
    // What was changed last first.
    for change in notes
        .lines()
        .filter_map(Change::of)
        .collect::<Vec<_>>()
        .iter()
        .rev()
    {
        match kernel.read(&change.path) {
            Ok(now) if is_same(&now, &change.new) => {
                let back = kernel.write(&change.path, &change.old);
                failed.extend(back.err().map(|e| super::refused(&change.path, &e)));
            }
            // Somebody else has set it meanwhile, or the interface is gone.
            Ok(_) | Err(_) => {}
        }
    }
    match failed.is_empty() {
        true => Ok(()),
        false => Err(failed.join("\n")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_that_no_pipe_holds_by_itself_are_told() {
        let notes = "sys/class/net/eth0 0 1\n".repeat(10_000);
        let (input, _pipe) = told(&notes).unwrap();
        let mut read = vec![0; notes.len()];
        (&input).read_exact(&mut read).unwrap();
        assert_eq!(read, notes.as_bytes());
    }

    #[test]
    fn what_is_noted_is_read_again() {
        let change = Change {
            path: "sys/class/net/eth0/queues/rx-0/rps_flow_cnt".to_owned(),
            old: "0".to_owned(),
            new: "32768".to_owned(),
        };
        assert_eq!(Change::of(change.note().trim_end()), Some(change.clone()));
        for wrong in [
            "",
            "sys/class/net/x 0",
            "sys/class/net/x 0 1 2",
            "proc/sys/kernel/core_pattern 0 1",
            "sys/class/net/../../x 0 1",
        ] {
            assert_eq!(Change::of(wrong), None, "{wrong}");
        }
    }
}
