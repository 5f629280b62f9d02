//! However a job ends, and whoever is killed: nothing is left.

mod common;

use common::{END_LIMIT, run, send, start};

/// Jobs whose processes hide well: in a shell that waits, in the background, in a session of their
/// own, or deaf to SIGTERM.
const HIDERS: &[&str] = &[
    "-n 2 SCRIPTS/sleep.sh",
    "-n 2 bash SCRIPTS/wrapper.sh wait",
    "-n 2 SCRIPTS/ignore.sh",
    "-n 2 SCRIPTS/daemons.sh stay",
    "-n 2 PROBE wait",
];

#[test]
fn mpiexec_killed() {
    for line in HIDERS {
        let mut job = start(line);
        job.wait_for("ready", 2);
        job.signal("KILL");
        let took = job.wait_for_extinction();
        assert!(took < END_LIMIT, "{line}: {took:?}");
    }
}

#[test]
fn the_whole_group_of_mpiexec_killed() {
    for line in HIDERS {
        let mut job = common::start_with(line, std::process::Stdio::null(), |command| {
            std::os::unix::process::CommandExt::process_group(command, 0);
        });
        job.wait_for("ready", 2);
        send("KILL", -job.child.id().cast_signed());
        let took = job.wait_for_extinction();
        assert!(took < END_LIMIT, "{line}: {took:?}");
    }
}

#[test]
fn the_keeper_killed() {
    for line in HIDERS {
        let mut job = start(line);
        job.wait_for("ready", 2);
        let own = job.child.id().cast_signed();
        let is_keeper = |pid: i32| {
            std::fs::read_to_string(format!("/proc/{pid}/comm"))
                .is_ok_and(|c| c.trim() == "yamabiko-keeper")
        };
        let keeper = job
            .processes()
            .into_iter()
            .find(|(pid, _)| *pid != own && is_keeper(*pid));
        send("KILL", keeper.expect("there is a keeper").0);
        let outcome = job.finish();
        assert!(outcome.took < END_LIMIT, "{line}: {outcome:?}");
        assert_eq!(outcome.code, Some(137), "{line}: {outcome:?}");
        assert!(outcome.stderr.contains("keeper"), "{line}: {outcome:?}");
    }
}

#[test]
fn daemons_of_a_job_that_ended_well() {
    let outcome = run("-n 2 SCRIPTS/daemons.sh leave");
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert!(outcome.took < END_LIMIT, "{outcome:?}");
    // What a background process writes soon after its rank ended still arrives.
    assert_eq!(
        outcome.out().matches("late words").count(),
        2,
        "{outcome:?}"
    );
}

#[test]
fn a_rank_killed_at_random_moments() {
    for round in 0..20u32 {
        let mut job = start("-n 3 PROBE wait");
        let delay = std::time::Duration::from_micros(u64::from(round * 7919 % 20_000));
        std::thread::sleep(delay);
        let own = job.child.id().cast_signed();
        let rank = job.processes().into_iter().find(|(pid, command)| {
            *pid != own && command.contains("probe wait") && !command.contains("mpiexec")
        });
        let Some((pid, _)) = rank else {
            job.signal("TERM");
            job.wait_for_extinction();
            continue;
        };
        // It may have become another process's number only if it ended, and nothing ends here.
        send("KILL", pid);
        let begin = std::time::Instant::now();
        let outcome = job.finish();
        assert_eq!(outcome.code, Some(137), "{outcome:?}");
        assert!(
            begin.elapsed() < END_LIMIT + common::END_LIMIT,
            "{outcome:?}"
        );
        assert!(outcome.stderr.contains("SIGKILL"), "{outcome:?}");
    }
}
