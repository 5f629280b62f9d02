//! Signals to mpiexec, and what each makes of the job.

mod common;

use common::{END_LIMIT, mpiexec, send, start};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

#[test]
fn signals_reach_every_rank() {
    for name in ["INT", "TERM", "HUP", "USR1", "USR2"] {
        let mut job = start("-n 3 SCRIPTS/catch.sh");
        job.wait_for("ready", 3);
        job.signal(name);
        let outcome = job.finish();
        assert_eq!(
            outcome.out().matches(&format!("got {name}")).count(),
            3,
            "{name}: {outcome:?}"
        );
        assert_eq!(
            outcome.code,
            Some(0),
            "{name}: the ranks handled it; {outcome:?}"
        );
    }
}

#[test]
fn unhandled_signals_end_the_job() {
    for (name, code, shown) in [
        ("INT", 130, "signal 2 (SIGINT)"),
        ("TERM", 143, "signal 15 (SIGTERM)"),
        ("HUP", 129, "signal 1 (SIGHUP)"),
        ("USR1", 138, "signal 10 (SIGUSR1)"),
    ] {
        let mut job = start("-n 2 SCRIPTS/sleep.sh");
        job.wait_for("ready", 2);
        job.signal(name);
        let outcome = job.finish();
        assert_eq!(outcome.code, Some(code), "{name}: {outcome:?}");
        let text =
            format!("mpiexec: received {shown} and passed it to the ranks; the job is ended\n");
        assert_eq!(outcome.stderr, text, "nobody failed");
        assert!(outcome.took < END_LIMIT, "{name}: {outcome:?}");
    }
}

#[test]
fn without_cleanup_a_signal_is_told_once() {
    let mut job = start("-disable-auto-cleanup -n 3 SCRIPTS/sleep.sh");
    job.wait_for("ready", 3);
    job.signal("TERM");
    let outcome = job.finish();
    assert_eq!(outcome.code, Some(143), "{outcome:?}");
    assert_eq!(outcome.stderr.lines().count(), 1, "{outcome:?}");
}

#[test]
fn a_second_signal_of_a_kind_kills() {
    for (name, code) in [("INT", 130), ("TERM", 143), ("HUP", 129)] {
        let mut job = start("-n 2 SCRIPTS/ignore.sh");
        job.wait_for("ready", 2);
        // Two at once are one: see `job::signals`.
        job.signal(name);
        job.signal(name);
        std::thread::sleep(Duration::from_millis(300));
        assert!(
            job.child.try_wait().unwrap().is_none(),
            "the ranks ignore the first {name}"
        );
        job.signal(name);
        let outcome = job.finish();
        assert_eq!(outcome.code, Some(code), "{name}: {outcome:?}");
        let text = format!("(SIG{name}) again; the job is killed\n");
        assert!(outcome.stderr.ends_with(&text), "{outcome:?}");
        assert!(outcome.took < END_LIMIT, "{outcome:?}");
    }
}

#[test]
fn a_rank_that_fails_after_a_signal_is_told_with_it() {
    let mut job = start("-n 2 SCRIPTS/fail-on-term.sh");
    job.wait_for("ready", 2);
    job.signal("TERM");
    let outcome = job.finish();
    assert_eq!(outcome.code, Some(9), "{outcome:?}");
    let (signal, failure) = outcome.stderr.split_once('\n').unwrap();
    assert!(signal.contains("received signal 15"), "{outcome:?}");
    assert!(failure.contains("exited with code 9"), "{outcome:?}");
}

#[test]
fn stop_and_continue_reach_every_rank() {
    let mut job = start("-n 2 SCRIPTS/sleep.sh");
    job.wait_for("ready", 2);
    job.signal("TSTP");
    let all_in = |job: &common::Running, wanted: &str| {
        let sleepers = job
            .processes()
            .into_iter()
            .filter(|(_, command)| command.contains("sleep") && !command.contains("mpiexec"));
        let states: Vec<String> = sleepers.map(|(pid, _)| state(pid)).collect();
        states.len() == 2 && states.iter().all(|s| wanted.contains(s.as_str()))
    };
    let own = job.child.id().cast_signed();
    wait_until(|| all_in(&job, "T") && state(own) == "T");
    job.signal("CONT");
    wait_until(|| all_in(&job, "SR") && state(own) != "T");
    job.signal("TERM");
    assert_eq!(job.finish().code, Some(143));
}

#[test]
fn quit_and_the_report_command_tell_where_ranks_wait() {
    let mut job = start("-n 2 PROBE wait");
    job.wait_for("ready", 2);
    job.signal("QUIT");
    job.wait_for_error("rank 1 (pid ");
    let command = mpiexec().with_file_name("yamabiko");
    let report = Command::new(&command)
        .args(["report", &job.child.id().to_string()])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&report.stdout).into_owned();
    for rank in 0..2 {
        let line = text.lines().nth(rank).unwrap_or_default();
        assert!(line.starts_with(&format!("rank {rank} (pid ")), "{text}");
        assert!(line.contains(": waiting in MPI_Barrier, for "), "{text}");
    }
    assert!(
        job.child.try_wait().unwrap().is_none(),
        "a report does not end the job"
    );
    job.signal("TERM");
    let outcome = job.finish();
    assert!(
        outcome.stderr.contains("): waiting in MPI_Barrier"),
        "{outcome:?}"
    );
    let nobody = Command::new(&command)
        .args(["report", "1"])
        .output()
        .unwrap();
    assert!(!nobody.status.success() && !nobody.stderr.is_empty());
}

#[test]
fn in_the_background_interrupts_are_ignored_and_reports_are_given() {
    let mut job = common::start_with("-n 2 PROBE wait", std::process::Stdio::null(), |command| {
        // As a shell script starts `mpiexec ... &`.
        // SAFETY: between fork and exec only system calls are made.
        unsafe {
            command.pre_exec(|| {
                libc::signal(libc::SIGINT, libc::SIG_IGN);
                libc::signal(libc::SIGQUIT, libc::SIG_IGN);
                Ok(())
            });
        }
    });
    job.wait_for("ready", 2);
    job.signal("INT");
    job.signal("QUIT");
    job.wait_for_error("rank 1 (pid ");
    assert!(job.child.try_wait().unwrap().is_none());
    job.signal("TERM");
    assert_eq!(job.finish().code, Some(143));
}

#[test]
fn an_ignored_hangup_stays_ignored() {
    let mut job = common::start_with(
        "-n 2 SCRIPTS/sleep.sh",
        std::process::Stdio::null(),
        |command| {
            // As `nohup mpiexec ...` does.
            let arguments: Vec<_> = command.get_args().map(ToOwned::to_owned).collect();
            let variables: Vec<_> = command
                .get_envs()
                .map(|(k, v)| (k.to_owned(), v.unwrap().to_owned()))
                .collect();
            *command = Command::new("nohup");
            command.arg(mpiexec()).args(arguments).envs(variables);
            command.stdin(std::process::Stdio::null());
            command
                .stdout(std::process::Stdio::piped())
                .stderr(std::process::Stdio::piped());
        },
    );
    job.wait_for("ready", 2);
    job.signal("HUP");
    std::thread::sleep(Duration::from_millis(200));
    assert!(job.child.try_wait().unwrap().is_none());
    send("TERM", job.child.id().cast_signed());
    assert_eq!(job.finish().code, Some(143));
}

fn state(pid: i32) -> String {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let after = text.rfind(')').map_or("", |at| &text[at + 2..]);
    after.chars().take(1).collect()
}

fn wait_until(holds: impl Fn() -> bool) {
    for _ in 0..1000 {
        if holds() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("it never came true");
}
