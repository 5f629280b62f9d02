//! Jobs whose processes are stopped: by the user, who suspends the job, and by whatever stops one of those
//! that serve it.

mod common;

use common::{END_LIMIT, Running, daemons, expect, named, send, start, state, two, wait_until};
use std::time::{Duration, Instant};

/// Within this a stopped process is noticed and told.
const NOTICE_LIMIT: Duration = Duration::from_secs(15);

#[test]
fn stop_and_continue_reach_every_rank() {
    let mut job = start(&two("-n 4 SCRIPTS/sleep.sh"));
    job.wait_for("ready", 4);
    let own = job.child.id().cast_signed();
    let all_in = |job: &Running, wanted: &str| {
        let states: Vec<String> = named(job, "sleep").into_iter().map(state).collect();
        states.len() == 4 && states.iter().all(|s| wanted.contains(s.as_str()))
    };
    wait_until(|| all_in(&job, "SR"));
    job.signal("TSTP");
    wait_until(|| all_in(&job, "T") && state(own) == "T");
    // Long enough for the daemons to miss signs of life, had they not been told.
    std::thread::sleep(Duration::from_secs(14));
    assert!(all_in(&job, "T"));
    job.signal("CONT");
    wait_until(|| all_in(&job, "SR") && state(own) != "T");
    job.signal("TERM");
    assert_eq!(job.finish().code, Some(143));
}

#[test]
fn a_daemon_that_is_silent_is_lost_but_a_stopped_rank_is_not() {
    let mut job = start(&two("-n 4 SCRIPTS/sleep.sh"));
    job.wait_for("ready", 4);
    wait_until(|| named(&job, "sleep").len() == 4);
    send("STOP", named(&job, "sleep")[0]);
    std::thread::sleep(Duration::from_secs(14));
    assert!(
        job.child.try_wait().unwrap().is_none(),
        "a rank may be stopped for long"
    );
    let silent = daemons(&job)[0];
    send("STOP", silent);
    assert!(job.wait_for_error("nothing was heard of it for 12 s") < NOTICE_LIMIT);
    // Here it is the launcher command itself, which is killed then, and its ranks end with it.
    expect(
        &job.finish(),
        1,
        &["is lost with ranks", " ps -o pid,stat -C yamabiko-daemon"],
    );
}

/// A process of the job that was stopped, and goes on if the test fails, so that it can end.
struct Stopped(i32);

impl Stopped {
    fn new(pid: i32) -> Stopped {
        send("STOP", pid);
        wait_until(|| state(pid) == "T");
        Stopped(pid)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        if state(self.0) == "T" {
            send("CONT", self.0);
        }
    }
}

const TOLD: &str = " s (as kill -STOP does)";

/// `ps` shows a keeper with the command line of what it was forked from, so whoever means a daemon may stop it.
#[test]
fn a_keeper_that_is_stopped_is_told_and_ends_the_job() {
    for (line, ranks, place) in [
        (two("-n 4 SCRIPTS/sleep.sh"), 4, " on "),
        ("-n 2 SCRIPTS/sleep.sh".to_string(), 2, ", the process that"),
    ] {
        let mut job = start(&line);
        job.wait_for("ready", ranks);
        let _stopped = Stopped::new(named(&job, "yamabiko-keeper")[0]);
        assert!(job.wait_for_error(TOLD) < NOTICE_LIMIT, "{line}");
        // As of a host that is lost.
        let told = format!("mpiexec: yamabiko-keeper{place}");
        expect(&job.finish(), 1, &[&told, "and the ranks with it"]);
    }
}

/// A rank that is stopped is what the others wait for: the hang report says so, wherever the rank is.
#[test]
fn a_rank_that_is_stopped_is_shown_as_such() {
    for line in ["-n 4 SCRIPTS/sleep.sh", &two("-n 4 SCRIPTS/sleep.sh")] {
        let mut job = start(line);
        job.wait_for("ready", 4);
        wait_until(|| named(&job, "sleep").len() == 4);
        // Where there are two hosts, these are on both.
        let ranks = named(&job, "sleep");
        let stopped = [ranks[0], ranks[1], ranks[3]].map(Stopped::new);
        job.signal("QUIT");
        job.wait_for_error("rank 3 (pid ");
        drop(stopped);
        job.signal("TERM");
        let outcome = job.finish();
        let of = |line: &str, pid: i32| {
            let number = line.split("(pid ").nth(1).unwrap_or_default();
            number.split([')', ',', ' ']).next() == Some(&pid.to_string())
        };
        let told = |pid: i32| {
            let line = outcome.stderr.lines().find(|line| of(line, pid));
            line.unwrap_or_default().contains(", stopped): ")
        };
        let all: Vec<bool> = ranks.into_iter().map(told).collect();
        assert_eq!(all, [true, true, false, true], "{line}: {outcome:?}");
    }
}

/// Whoever wants the job to be killed does not wait for it.
#[test]
fn a_stopped_keeper_does_not_stand_in_the_way_of_signals() {
    let mut job = start("-n 2 SCRIPTS/sleep.sh");
    job.wait_for("ready", 2);
    let _stopped = Stopped::new(named(&job, "yamabiko-keeper")[0]);
    let begin = Instant::now();
    job.signal("INT");
    std::thread::sleep(Duration::from_millis(300));
    job.signal("INT");
    expect(&job.finish(), 130, &["(SIGINT) again; the job is killed"]);
    assert!(begin.elapsed() < END_LIMIT);
}

#[test]
fn time_in_which_mpiexec_itself_is_stopped_does_not_count() {
    let mut job = start("-n 2 SCRIPTS/sleep.sh");
    job.wait_for("ready", 2);
    let keeper = Stopped::new(named(&job, "yamabiko-keeper")[0]);
    // mpiexec has seen that.
    std::thread::sleep(Duration::from_millis(300));
    let own = Stopped::new(job.child.id().cast_signed());
    std::thread::sleep(Duration::from_secs(14));
    drop(own);
    std::thread::sleep(Duration::from_secs(2));
    assert!(
        job.child.try_wait().unwrap().is_none(),
        "it has been killed"
    );
    drop(keeper);
    // As if nothing had been.
    job.signal("TERM");
    let outcome = job.finish();
    expect(&outcome, 143, &[]);
    assert!(!outcome.stderr.contains("keeper"), "{outcome:?}");
}
