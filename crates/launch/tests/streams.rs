//! Standard input, output and error of a job.

mod common;

use common::{END_LIMIT, feed, run, script, start, start_with};
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

#[test]
fn lines_are_never_mixed() {
    let outcome = run("-n 4 SCRIPTS/lines.sh 2000");
    let lines = outcome.sorted();
    assert_eq!(lines.len(), 4 * 2000);
    assert_eq!(outcome.stdout.len(), 4 * 2000 * 201);
    for rank in 0..4 {
        let letter = ["a", "b", "c", "d"][rank];
        let good = |line: &&String| **line == letter.repeat(200);
        // A machine so busy that a rank pauses for 100 ms in the middle of a line splits that line.
        let whole = lines.iter().filter(good).count();
        assert!(
            whole >= 1990,
            "rank {rank}: {whole} of 2000 lines are whole"
        );
    }
}

#[test]
fn blocks_are_not_mixed() {
    let hosts = "-launcher-exec SCRIPTS/drop-host.sh -hosts a:2,b:2";
    let hosts = hosts.replace("SCRIPTS", &script(""));
    for place in ["", &format!("{hosts} ")] {
        let outcome = run(&format!("{place}-n 3 PROBE blocks"));
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
        let expected = ["a", "b", "c"].map(|letter| vec![letter.repeat(200); 100]);
        assert!(outcome.sorted() == expected.concat(), "{}", outcome.out());
    }
}

#[test]
fn labels() {
    let outcome = run("-l -n 2 SCRIPTS/lines.sh 3");
    let lines = outcome.sorted();
    assert_eq!(lines[0], format!("[0] {}", "a".repeat(200)));
    assert_eq!(lines[5], format!("[1] {}", "b".repeat(200)));
    assert_eq!(lines.len(), 6);
}

#[test]
fn an_unfinished_line_comes_after_a_moment() {
    let mut job = start("-n 2 SCRIPTS/prompt.sh");
    job.wait_for("name? ", 2);
    assert!(
        job.child.try_wait().unwrap().is_none(),
        "the ranks still wait"
    );
    job.signal("TERM");
    job.finish();
}

#[test]
fn everything_written_before_a_crash_arrives() {
    for _ in 0..5 {
        let outcome = run("-n 2 SCRIPTS/crash.sh");
        assert_eq!(outcome.code, Some(139), "{}", outcome.stderr);
        let out = outcome.out();
        assert_eq!(
            out.lines().filter(|l| l.starts_with("line ")).count(),
            20_000
        );
        assert!(out.contains("last words without end of line"));
        assert!(outcome.took < END_LIMIT + END_LIMIT);
    }
}

#[test]
fn a_hundred_megabytes_in() {
    let mut job = start_with("-n 2 SCRIPTS/count.sh", Stdio::piped(), |_| {});
    let stdin = job.stdin();
    let total = 100_000_000;
    let feeder = std::thread::spawn(move || feed(stdin, total));
    let outcome = job.finish();
    assert_eq!(feeder.join().unwrap(), total);
    assert_eq!(
        outcome.sorted(),
        ["rank 0: 100000000", "rank 1: 0"],
        "{}",
        outcome.stderr
    );
}

#[test]
fn input_is_held_back_while_rank_0_does_not_read() {
    let mut job = start_with("-n 1 SCRIPTS/sleep.sh", Stdio::piped(), |_| {});
    job.wait_for("ready", 1);
    let stdin = job.stdin();
    let feeder = std::thread::spawn(move || feed(stdin, 50_000_000));
    std::thread::sleep(Duration::from_millis(300));
    assert!(!feeder.is_finished(), "50 MB went nowhere");
    job.signal("TERM");
    job.finish();
    assert!(
        feeder.join().unwrap() < 2_000_000,
        "the writer notices the end"
    );
}

#[test]
fn end_of_input_passes_through() {
    let mut job = start_with("-n 3 SCRIPTS/count.sh", Stdio::piped(), |_| {});
    let mut stdin = job.stdin();
    stdin.write_all(b"12345").unwrap();
    drop(stdin);
    assert_eq!(
        job.finish().sorted(),
        ["rank 0: 5", "rank 1: 0", "rank 2: 0"]
    );
}

#[test]
fn no_input_if_not_wanted() {
    let mut job = start_with("-stdin none -n 1 SCRIPTS/count.sh", Stdio::piped(), |_| {});
    let _open = job.stdin();
    assert_eq!(job.finish().sorted(), ["rank 0: 0"]);
}

#[test]
fn a_hundred_megabytes_out() {
    let outcome = run("-n 1 head -c 100000000 /dev/zero");
    assert_eq!(outcome.stdout.len(), 100_000_000);
    let outcome = run("-n 2 head -c 10000000 /dev/zero");
    assert_eq!(outcome.stdout.len(), 20_000_000);
}

#[test]
fn ranks_notice_that_nobody_reads() {
    let mut job = start("-n 2 SCRIPTS/endless-output.sh");
    job.wait_for("y", 1);
    let outcome = {
        // Dropping the receiver ends the threads that read; closing the pipes is up to them.
        job.stop_reading();
        job.finish()
    };
    assert_eq!(outcome.code, Some(141), "128 + SIGPIPE, as in any pipeline");
}

#[test]
fn a_full_disk_is_no_success() {
    let job = start_with("-n 2 echo hello", Stdio::null(), |command| {
        command.stdout(std::fs::File::create("/dev/full").unwrap());
    });
    let outcome = job.finish();
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    assert!(
        outcome
            .stderr
            .contains("cannot write standard output: No space left"),
        "{outcome:?}"
    );
}

#[test]
fn many_ranks() {
    let outcome = run("-n 64 SCRIPTS/lines.sh 1");
    assert_eq!(outcome.sorted().len(), 64, "{}", outcome.stderr);
    assert_eq!(outcome.code, Some(0));
}

#[test]
fn answers_that_nobody_reads_end_in_order() {
    let ends = |program: &Path, words: &[&str], out: Stdio, err: Stdio| {
        let mut command = Command::new(program);
        command.args(words).stdin(Stdio::null());
        command.stdout(out).stderr(err).status().unwrap().code()
    };
    let full = || Stdio::from(File::options().write(true).open("/dev/full").unwrap());
    let yamabiko = Path::new(env!("CARGO_BIN_EXE_yamabiko"));
    let mpiexec = common::mpiexec();
    let answers: [(&Path, &[&str]); 3] = [
        (&mpiexec, &["--help"]),
        (&mpiexec, &["--version"]),
        (yamabiko, &["cad", "show", "bcast"]),
    ];
    for (program, words) in answers {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let unread = ends(program, words, writer.into(), Stdio::null());
        assert_eq!(unread, Some(0), "{words:?}");
        assert_eq!(ends(program, words, full(), full()), Some(1), "{words:?}");
    }
    let refused = ends(&mpiexec, &["-bogus"], Stdio::null(), full());
    assert_eq!(refused, Some(2));
    let refused = ends(yamabiko, &["report", "1"], Stdio::null(), full());
    assert_eq!(refused, Some(1));
}
