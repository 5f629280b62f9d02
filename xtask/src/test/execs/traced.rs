//! What a rank that only computes does for collectives of 64 KiB that the kernel runs, as `strace` counts it: nothing but answering for its reductions, and no thread. It
//! is a user's without privilege. (`tests/c/coll_ring_traced.c` has `strace` attach for as long as that rank computes.)

use super::{Executor, Stage, ran, variables};
use crate::Result;
use crate::test::job::{Job, tail};
use crate::test::{Tally, apt};

/// Ranks: the third passes a broadcast on to the fourth.
const RANKS: u32 = 4;

/// What the program says of one time in which the rank computed.
#[derive(Debug, Default, PartialEq, Eq)]
struct Window {
    kind: String,
    /// Collectives that it had begun.
    collectives: u64,
    /// Its reductions that were done in the signal's handler, as the library counts them.
    reductions: u64,
    threads: u64,
    /// System calls.
    calls: Vec<(String, u64)>,
}

/// Runs it.
pub fn run(stage: &Stage<'_>, tally: &mut Tally) {
    let name = "execs/ring/system calls of a rank that only computes, by strace";
    if stage.options.wants(name) {
        tally.test(name, || traced(stage));
    }
}

fn traced(stage: &Stage<'_>) -> Result {
    apt::need(&[("strace", "strace")])?;
    let mut job = Job::new(stage.bin.join("forbid")).args(["root"]);
    job = job.args([&stage.ground.launcher]);
    job = job.args(stage.ground.start(RANKS));
    for (name, value) in variables(Executor::Ring, None) {
        job = job.args(["-genv", name]).args([value]);
    }
    let job = job.args([stage.bin.join("coll_ring_traced")]);
    let job = job.env("LD_LIBRARY_PATH", &stage.ground.library);
    let done = job.env("YAMABIKO_CAD_CALLBACK", "signal").limit_s(120);
    let done = done.passes(&["ok coll_ring_traced".to_owned()])?;
    ran(Executor::Ring, RANKS, &done.output)?;
    let windows = windows(&done.output);
    judge(&windows).map_err(|why| format!("{why}\n{}", tail(&done.output)))?;
    for window in windows {
        println!(
            "      {} {}: {:?}",
            window.collectives, window.kind, window.calls
        );
    }
    Ok(())
}

/// Reads what the program says: a line for each, then `strace`'s table.
fn windows(said: &str) -> Vec<Window> {
    let mut all: Vec<Window> = Vec::new();
    for line in said.lines() {
        let words: Vec<_> = line.split_whitespace().collect();
        let number = |at: usize| words.get(at).and_then(|w: &&str| w.parse::<u64>().ok());
        if let ["window:", kind, ..] = words[..] {
            all.push(Window {
                kind: kind.to_owned(),
                collectives: number(2).unwrap_or(0),
                reductions: number(3).unwrap_or(0),
                threads: number(4).unwrap_or(0),
                calls: Vec::new(),
            });
        } else if let (["|", rest @ ..], Some(window)) = (&words[..], all.last_mut()) {
            // Share, seconds, each, calls, perhaps errors, name; not the heading, the lines, and the sum.
            let name = rest.last().copied().unwrap_or("total");
            if let (Some(calls), false) = (number(4), name == "total") {
                window.calls.push((name.to_owned(), calls));
            }
        }
    }
    all
}

/// Whether that is all right: a write for each reduction, returns from the handler, and as much again where it had begun as many again.
fn judge(windows: &[Window]) -> Result {
    let kinds: Vec<_> = windows
        .iter()
        .map(|w| (w.kind.as_str(), w.collectives))
        .collect();
    let [few, many] = [2, 4];
    let wanted = [
        ("bcast", few),
        ("bcast", many),
        ("allreduce", few),
        ("allreduce", many),
    ];
    if kinds != wanted {
        return Err(format!("there was {kinds:?}, not {wanted:?}"));
    }
    for window in windows {
        let count = |name: &str| {
            let found = window.calls.iter().filter(|(call, _)| call == name);
            found.map(|(_, calls)| calls).sum::<u64>()
        };
        let other = |(call, _): &&(String, u64)| call != "write" && call != "rt_sigreturn";
        let (written, returned) = (count("write"), count("rt_sigreturn"));
        let reduces = window.kind == "allreduce";
        let right = window.threads == 1
            && window.calls.iter().find(other).is_none()
            && written == window.reductions
            && returned <= written
            && (reduces && returned > 0 || !reduces && written == 0);
        if !right {
            return Err(format!("not so: {window:?}"));
        }
    }
    match windows[3].reductions == 2 * windows[2].reductions {
        true => Ok(()),
        false => Err("twice as many collectives have not twice as many reductions".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "window: bcast 2 0 1\n\
        window: bcast 4 0 1\n\
        window: allreduce 2 2 1\n\
        | % time     seconds  usecs/call     calls    errors syscall\n\
        | ------ ----------- ----------- --------- --------- ----------------\n\
        |  60.00    0.000004           2         2           write\n\
        |  40.00    0.000001           1         1           rt_sigreturn\n\
        | ------ ----------- ----------- --------- --------- ----------------\n\
        | 100.00    0.000005           2         3           total\n\
        window: allreduce 4 4 1\n\
        |  60.00    0.000004           2         4           write\n\
        |  40.00    0.000001           1         4         1 rt_sigreturn\n\
        ok coll_ring_traced\n";

    #[test]
    fn tables_are_read() {
        let windows = windows(SAID);
        assert_eq!(windows.len(), 4);
        let calls = |n| vec![("write".to_owned(), n), ("rt_sigreturn".to_owned(), n)];
        assert_eq!(windows[3].calls, calls(4));
        assert_eq!(windows[0].calls, []);
        assert_eq!(judge(&windows), Ok(()));
    }

    #[test]
    fn other_calls_and_numbers_are_found() {
        for (from, to) in [
            ("rt_sigreturn\n| --", "futex\n| --"),
            ("         2           write", "         3           write"),
            ("bcast 4 0 1", "bcast 4 1 1"),
            ("bcast 4 0 1", "bcast 4 0 2"),
            ("allreduce 2 2 1", "allreduce 2 2 3"),
            ("allreduce 4 4", "allreduce 4 3"),
            ("bcast 2", "bcast 3"),
        ] {
            let said = SAID.replacen(from, to, 1);
            assert_ne!(said, SAID, "{from}");
            assert!(judge(&windows(&said)).is_err(), "{to}");
        }
    }
}
