//! `yamabiko report PID`: where each rank of a running job waits, read from outside.
//!
//! mpiexec holds the job's report page open, and /proc shows the files a process holds; so nobody
//! has to be asked, and a job whose mpiexec itself is stopped can be read as well. What ranks on other
//! hosts noted, mpiexec copies there every few seconds.

use report::{Book, FILE_NAME, Phase};
use std::fmt::Write;
use std::fs::File;
use std::path::PathBuf;

/// Said of ranks elsewhere of which nothing was heard yet.
const NEWS: &str = ", as far as is known here (news from other hosts come every 2 s)";

/// Said of a process that is stopped.
pub const STOPPED: &str = ", stopped";

/// The report on the job of the mpiexec with process number `pid`; the error is a sentence.
pub fn report_of(pid: u32) -> Result<String, String> {
    let book = find_page(pid)?;
    let mut text = String::new();
    for rank in 0..book.ranks() {
        let Some(record) = book.read(rank) else { break };
        // Of another host's processes that host tells.
        let stopped = if record.stopped { STOPPED } else { "" };
        let process = match (record.phase, record.pid, book.host(rank)) {
            (Phase::NotStarted, _, None) | (_, 0, None) => String::new(),
            (Phase::NotStarted, _, Some(host)) | (_, 0, Some(host)) => {
                format!(" (on {host}{stopped})")
            }
            (_, pid, None) => format!(" (pid {pid}{})", state_of(pid)),
            (_, pid, Some(host)) => format!(" (pid {pid} on {host}{stopped})"),
        };
        let far = record.phase == Phase::NotStarted && book.host(rank).is_some();
        let known = if far { NEWS } else { "" };
        // Writing to a string does not fail.
        let _ = writeln!(text, "rank {rank}{process}: {record}{known}");
    }
    Ok(text)
}

fn find_page(pid: u32) -> Result<Book, String> {
    let directory = format!("/proc/{pid}/fd");
    let entries = std::fs::read_dir(&directory).map_err(|e| match e.kind() {
        std::io::ErrorKind::NotFound => format!("there is no process {pid}"),
        std::io::ErrorKind::PermissionDenied => format!(
            "process {pid} may not be inspected by this user; kill -QUIT {pid} makes mpiexec itself print the report"
        ),
        _ => format!("{directory}: {e}"),
    })?;
    let name = format!("/memfd:{FILE_NAME}");
    let is_page = |path: &PathBuf| {
        std::fs::read_link(path).is_ok_and(|target| target.to_string_lossy().starts_with(&name))
    };
    let path = entries.flatten().map(|e| e.path()).find(is_page);
    let path = path.ok_or_else(|| format!("process {pid} is no mpiexec of this MPI library"))?;
    let file = File::open(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    Book::open(&file).ok_or_else(|| format!("process {pid} holds a report page of another version"))
}

/// How the process is, where that explains something.
fn state_of(pid: u32) -> &'static str {
    match letter(pid) {
        None | Some(b'Z' | b'X') => ", has ended",
        Some(b'T' | b't') => STOPPED,
        Some(_) => "",
    }
}

/// Whether this process is stopped, as by `kill -STOP` or a debugger.
pub fn is_stopped(pid: u32) -> bool {
    matches!(letter(pid), Some(b'T' | b't'))
}

/// The letter by which `ps` shows a process's state.
fn letter(pid: u32) -> Option<u8> {
    let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    let name_ends = stat.iter().rposition(|b| *b == b')')?;
    stat.get(name_ends + 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use report::Record;

    #[test]
    fn reads_a_page_from_outside() {
        // This process plays mpiexec.
        let (_page, book) = Book::create(2).unwrap();
        let text = report_of(std::process::id()).unwrap();
        assert_eq!(text, "rank 0: before MPI_Init\nrank 1: before MPI_Init\n");
        assert_eq!(book.ranks(), 2);
        book.set_host(1, "node7");
        let text = report_of(std::process::id()).unwrap();
        assert_eq!(
            text,
            "rank 0: before MPI_Init\n\
             rank 1 (on node7): before MPI_Init, as far as is known here (news from other hosts come every 2 s)\n"
        );
        let record = book.read(1).unwrap();
        book.store(
            1,
            &Record {
                stopped: true,
                ..record
            },
        );
        let text = report_of(std::process::id()).unwrap();
        assert!(text.contains("rank 1 (on node7, stopped): "), "{text}");
        assert!(report_of(1).is_err());
        assert!(report_of(u32::MAX).unwrap_err().contains("no process"));
    }
}
