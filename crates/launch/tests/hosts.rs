//! Jobs over several hosts, which are all this machine: the launcher command drops the host's name.

mod common;

use common::{
    END_LIMIT, REACH, daemons, expect, feed, mpiexec, named, run, send, start, start_with, two,
    wait_until,
};
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

#[test]
fn ranks_are_laid_out_by_slots() {
    let file = format!("{}/hostfile", env!("CARGO_TARGET_TMPDIR"));
    std::fs::write(&file, "# two\n\na slots = 1\nb:3\n").unwrap();
    for (line, expected) in [
        (
            two("-n 3 SCRIPTS/where.sh"),
            ["0/3 0/2", "1/3 1/2", "2/3 0/1"],
        ),
        (
            format!("{REACH} -f {file} -n 3 SCRIPTS/where.sh"),
            ["0/3 0/1", "1/3 0/2", "2/3 1/2"],
        ),
        (
            format!("{REACH} -hosts a,b:2 SCRIPTS/where.sh"),
            ["0/3 0/1", "1/3 0/2", "2/3 1/2"],
        ),
        (
            format!("{REACH} -f {file} -ppn 1 -n 3 SCRIPTS/where.sh"),
            ["0/3 0/2", "1/3 0/1", "2/3 1/2"],
        ),
        (
            format!("{REACH} -host a -n 1 SCRIPTS/where.sh : -host b -n 2 SCRIPTS/where.sh"),
            ["0/3 0/1", "1/3 0/2", "2/3 1/2"],
        ),
    ] {
        let outcome = run(&line);
        expect(&outcome, 0, &[]);
        assert_eq!(outcome.stderr, "");
        let lines = outcome.sorted();
        assert_eq!(lines.len(), 3, "{line}: {outcome:?}");
        for (got, expected) in lines.iter().zip(expected) {
            assert!(
                got.starts_with(&format!("{expected} dir=")),
                "{line}: {got}"
            );
        }
    }
}

#[test]
fn this_machine_needs_no_daemon() {
    // The launcher command would fail.
    let outcome = run("-launcher rsh -hosts localhost:2 -n 2 SCRIPTS/where.sh");
    expect(&outcome, 0, &[]);
    assert!(outcome.sorted()[0].starts_with("0/2 0/2 "), "{outcome:?}");
    // A command that was given is used for every host that is named, and only for those.
    for (hosts, code) in [("-hosts localhost ", 1), ("-host localhost ", 1), ("", 0)] {
        let outcome = run(&format!("-launcher-exec false {hosts}-n 1 true"));
        expect(&outcome, code, &[]);
    }
}

#[test]
fn environment_directory_and_mask_are_carried() {
    let line = two(
        "-genv A all -n 2 SCRIPTS/where.sh : -wdir /usr -env A own -n 1 SCRIPTS/where.sh : -n 1 -wdir share -envnone SCRIPTS/where.sh",
    );
    let job = start_with(&line, Stdio::null(), |command| {
        let arguments: Vec<_> = command.get_args().map(ToOwned::to_owned).collect();
        let mark = command
            .get_envs()
            .find(|(name, _)| *name == "LAUNCH_TEST_MARK");
        let mark = mark.unwrap().1.unwrap().to_owned();
        *command = Command::new("sh");
        command.args(["-c", "umask 027; exec \"$@\"", "sh"]);
        command.arg(mpiexec()).args(arguments).current_dir("/usr");
        command.env("LAUNCH_TEST_MARK", mark);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
    });
    let outcome = job.finish();
    assert_eq!(
        outcome.sorted(),
        [
            "0/4 0/2 dir=/usr umask=0027 A=all",
            "1/4 1/2 dir=/usr umask=0027 A=all",
            "2/4 0/2 dir=/usr umask=0027 A=own",
            "3/4 1/2 dir=/usr/share umask=0027 A=all",
        ],
        "{outcome:?}"
    );
}

#[test]
fn pmi_reaches_everybody() {
    for line in [
        "-n 4 PROBE hello",
        "-n 3 PROBE hello : -n 2 PROBE hello",
        "-n 4 bash SCRIPTS/twice.sh",
    ] {
        expect(&run(&two(line)), 0, &[]);
    }
}

#[test]
fn a_tree_of_twenty_hosts() {
    let log = format!(
        "{}/tree-{}",
        env!("CARGO_TARGET_TMPDIR"),
        std::process::id()
    );
    let hosts: Vec<String> = (0..20).map(|i| format!("h{i}")).collect();
    let line = format!("{REACH} -hosts {} -n 40 PROBE hello", hosts.join(","));
    let job = start_with(&line, Stdio::null(), |command| {
        command.env("DROP_HOST_LOG", &log);
    });
    let own = job.child.id().to_string();
    let outcome = job.finish();
    expect(&outcome, 0, &[]);
    assert_eq!(outcome.sorted().len(), 40);
    let log = {
        let text = std::fs::read_to_string(&log).unwrap();
        std::fs::remove_file(&log).unwrap();
        text
    };
    let started = |by_mpiexec: bool| {
        let of = |line: &&str| line.ends_with(&format!(" {own}")) == by_mpiexec;
        log.lines().filter(of).count()
    };
    assert_eq!((started(true), started(false)), (8, 12), "{log}");
}

#[test]
fn failures_are_told_with_their_hosts() {
    for (line, code, errors) in [
        (
            "-n 4 SCRIPTS/exit.sh 3 7",
            7,
            &["rank 3 (pid ", " on b) exited with code 7; it was"][..],
        ),
        (
            "-n 4 SCRIPTS/die.sh 1 SEGV",
            139,
            &["rank 1 (pid ", " on a) was killed by signal 11 (SIGSEGV)"],
        ),
        (
            "-n 3 SCRIPTS/stubborn.sh",
            5,
            &[" on a) exited with code 5"],
        ),
        (
            "-n 3 PROBE abort 42",
            42,
            &[" on a) aborted the job with code 42: a test\n"],
        ),
        (
            "-n 3 PROBE unfinalized",
            1,
            &["without calling MPI_Finalize"],
        ),
        (
            "-n 3 PROBE absent",
            1,
            &[" on a) ended without calling MPI_Init, while rank "],
        ),
        (
            "-n 3 PROBE die-waiting KILL",
            137,
            &["it was waiting in MPI_Recv, peer 0, tag 7, 4096 bytes, for "],
        ),
        (
            "-n 3 SCRIPTS/garbage.sh",
            1,
            &["the unknown command \"rm\" to the launcher"],
        ),
        (
            "-n 3 SCRIPTS/endless.sh",
            1,
            &["an endless line to the launcher"],
        ),
        (
            "-n 3 no-such-program",
            127,
            &[
                "mpiexec: host ",
                ": cannot find the program no-such-program",
            ],
        ),
        (
            "-n 3 ./no-such-program",
            127,
            &["could not be started (./no-such-program: No such file or directory)"],
        ),
        (
            "-n 3 -wdir /nowhere true",
            127,
            &["could not be started (its working directory: No such file"],
        ),
        (
            "-n 4 -timeout 0.5 PROBE wait",
            124,
            &[
                "time allowed",
                "rank 3 (pid ",
                " on b): waiting in MPI_Barrier, for 0.",
            ],
        ),
    ] {
        let outcome = run(&two(line));
        expect(&outcome, code, errors);
        assert!(outcome.took < END_LIMIT, "too slow: {line}: {outcome:?}");
    }
}

#[test]
fn a_host_that_cannot_be_reached() {
    let outcome = run(&format!(
        "{REACH} -hosts a,unreachable -n 4 SCRIPTS/where.sh"
    ));
    expect(
        &outcome,
        1,
        &[
            "unreachable: no route to unreachable\n",
            "host unreachable, which was to run ranks 1, 3, is lost: it could not be reached; its launcher command exited with code 255 (as of ssh ",
            "drop-host.sh unreachable true)",
        ],
    );
    assert_eq!(
        outcome.out(),
        "",
        "no rank may run before every host is there"
    );
    let outcome = run(&format!("{REACH} -hosts bare -n 1 true"));
    expect(
        &outcome,
        1,
        &[
            "bare: ",
            "command exited with code 127 (a command was not found, most likely /",
            "/yamabiko on host bare; ",
        ],
    );
    for (launcher, told) in [
        ("false", "exited with code 1\n"),
        (
            "no-such-launcher",
            "is lost: no launcher command (cannot find the program no-such-launcher",
        ),
        (
            "/nowhere/ssh",
            "is lost: no launcher command (/nowhere/ssh is not there or may not be executed); -launcher-exec names another",
        ),
    ] {
        let line = format!("-launcher-exec {launcher} -hosts a -n 1 true");
        expect(&run(&line), 1, &["host a, ", told]);
    }
    expect(
        &run(&format!("{REACH} -hosts noisy,a -n 2 PROBE hello")),
        0,
        &[],
    );
}

#[test]
fn hosts_that_do_not_keep_to_the_protocol() {
    for (host, why) in [
        (
            "foreign",
            "it runs version 9.9 of Yamabiko, this is version ",
        ),
        ("garbage", "what came from it was no message"),
        ("greedy", "what came from it was no message"),
    ] {
        let outcome = run(&format!("{REACH} -hosts a,{host} -n 2 true"));
        expect(
            &outcome,
            1,
            &[&format!(
                "host {host}, which was to run rank 1, is lost: {why}"
            )],
        );
        assert!(outcome.took < END_LIMIT, "{outcome:?}");
    }
}

#[test]
fn a_host_that_takes_its_time() {
    let outcome = run(&format!("{REACH} -timeout 0.3 -hosts a,slow -n 2 true"));
    expect(
        &outcome,
        124,
        &["host slow: not reached yet; no rank has been started"],
    );
    let mut job = start(&format!("{REACH} -hosts a,slow -n 2 true"));
    wait_until(|| daemons(&job).len() == 1);
    job.wait_for_error("mpiexec: host slow has not answered for 12 s; it is waited for");
    job.signal("INT");
    let told = "mpiexec: received signal 2 (SIGINT) before any rank was started";
    expect(&job.finish(), 130, &[told]);
}

#[test]
fn input_goes_to_a_far_rank_0() {
    let mut job = start_with(&two("-n 3 SCRIPTS/count.sh"), Stdio::piped(), |_| {});
    let stdin = job.stdin();
    let feeder = std::thread::spawn(move || feed(stdin, 20_000_000));
    let outcome = job.finish();
    assert_eq!(feeder.join().unwrap(), 20_000_000);
    assert_eq!(
        outcome.sorted(),
        ["rank 0: 20000000", "rank 1: 0", "rank 2: 0"],
        "{outcome:?}"
    );

    // Held back while rank 0 does not read, and the writer notices its end.
    let mut job = start_with(&two("-n 1 SCRIPTS/sleep.sh"), Stdio::piped(), |_| {});
    job.wait_for("ready", 1);
    let stdin = job.stdin();
    let feeder = std::thread::spawn(move || feed(stdin, 50_000_000));
    std::thread::sleep(Duration::from_millis(300));
    assert!(!feeder.is_finished(), "50 MB went nowhere");
    job.signal("TERM");
    job.finish();
    assert!(feeder.join().unwrap() < 2_000_000);

    let mut job = start_with(&two("-n 2 true"), Stdio::piped(), |_| {});
    let _open = job.stdin();
    expect(&job.finish(), 0, &[]);
}

#[test]
fn a_rank_0_that_closes_its_input_is_noticed() {
    let mut job = start_with(&two("-n 1 SCRIPTS/close-input.sh"), Stdio::piped(), |_| {});
    job.wait_for("closed", 1);
    let mut stdin = job.stdin();
    let deadline = Instant::now() + common::PATIENCE;
    while stdin.write_all(b"more").is_ok() {
        assert!(
            Instant::now() < deadline,
            "nobody reads, and the writer does not notice"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
    job.signal("TERM");
    job.finish();
}

#[test]
fn output_arrives_whole() {
    let outcome = run(&two("-n 4 SCRIPTS/lines.sh 1000"));
    let lines = outcome.sorted();
    assert_eq!(lines.len(), 4000);
    assert_eq!(outcome.stdout.len(), 4000 * 201);
    for _ in 0..3 {
        let outcome = run(&two("-n 2 SCRIPTS/crash.sh"));
        expect(&outcome, 139, &[]);
        assert_eq!(
            outcome
                .out()
                .lines()
                .filter(|l| l.starts_with("line "))
                .count(),
            20_000
        );
        assert!(outcome.out().contains("last words without end of line"));
    }
    let outcome = run(&two("-n 4 head -c 10000000 /dev/zero"));
    assert_eq!(outcome.stdout.len(), 40_000_000);
    let outcome = run(&two("-l -n 4 SCRIPTS/where.sh"));
    assert!(
        outcome.sorted()[3].starts_with("[3] 3/4 1/2 "),
        "{outcome:?}"
    );
}

#[test]
fn ranks_notice_that_nobody_reads() {
    let mut job = start(&two("-n 4 SCRIPTS/endless-output.sh"));
    job.wait_for("y", 1);
    job.stop_reading();
    assert_eq!(job.finish().code, Some(141));
}

#[test]
fn signals_reach_every_rank() {
    for name in ["INT", "TERM", "HUP", "USR1", "USR2"] {
        let mut job = start(&two("-n 4 SCRIPTS/catch.sh"));
        job.wait_for("ready", 4);
        job.signal(name);
        let outcome = job.finish();
        assert_eq!(
            outcome.out().matches(&format!("got {name}")).count(),
            4,
            "{name}: {outcome:?}"
        );
        expect(&outcome, 0, &[]);
    }
    let mut job = start(&two("-n 4 SCRIPTS/ignore.sh"));
    job.wait_for("ready", 4);
    job.signal("INT");
    std::thread::sleep(Duration::from_millis(300));
    assert!(
        job.child.try_wait().unwrap().is_none(),
        "the ranks ignore the first"
    );
    job.signal("INT");
    let outcome = job.finish();
    expect(&outcome, 130, &["(SIGINT) again; the job is killed"]);
    assert!(outcome.took < END_LIMIT);
}

#[test]
fn quit_and_the_report_command_tell_where_far_ranks_wait() {
    let mut job = start(&two("-n 4 PROBE wait"));
    job.wait_for("ready", 4);
    job.signal("QUIT");
    job.wait_for_error("rank 3 (pid ");
    let report = Command::new(mpiexec().with_file_name("yamabiko"))
        .args(["report", &job.child.id().to_string()])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&report.stdout).into_owned();
    for (rank, host) in (0..4).zip(["a", "a", "b", "b"]) {
        let line = text.lines().nth(rank).unwrap_or_default();
        assert!(line.starts_with(&format!("rank {rank} (pid ")), "{text}");
        assert!(
            line.contains(&format!(" on {host}): waiting in MPI_Barrier, for ")),
            "{text}"
        );
    }
    job.signal("TERM");
    let outcome = job.finish();
    assert!(
        outcome.stderr.contains(" on b): waiting in MPI_Barrier"),
        "{outcome:?}"
    );
}

#[test]
fn mpiexec_killed() {
    for line in [
        "-n 4 SCRIPTS/sleep.sh",
        "-n 4 bash SCRIPTS/wrapper.sh wait",
        "-n 4 SCRIPTS/ignore.sh",
        "-n 4 SCRIPTS/daemons.sh stay",
    ] {
        let mut job = start(&two(line));
        job.wait_for("ready", 4);
        job.signal("KILL");
        let took = job.wait_for_extinction();
        assert!(took < END_LIMIT, "{line}: {took:?}");
    }
}

#[test]
fn a_daemon_killed() {
    for line in ["-n 4 SCRIPTS/sleep.sh", "-n 4 SCRIPTS/daemons.sh stay"] {
        let mut job = start(&two(line));
        job.wait_for("ready", 4);
        let victim = daemons(&job)[0];
        send("KILL", victim);
        let begin = Instant::now();
        let outcome = job.finish();
        assert!(begin.elapsed() < END_LIMIT + END_LIMIT, "{outcome:?}");
        expect(
            &outcome,
            1,
            &[
                "mpiexec: host ",
                " is lost with ranks ",
                "its daemon has ended",
            ],
        );
    }
}

/// Also while the job starts and ends.
#[test]
fn anything_killed_at_random_moments() {
    for round in 0..30u64 {
        let mut job = start(&two("-n 4 PROBE wait"));
        std::thread::sleep(Duration::from_micros(round * 7919 % 60_000));
        let processes = job.processes();
        let (victim, command) = &processes[(round * 31 % processes.len() as u64) as usize];
        // Nothing ends here by itself, so the number still means the same process.
        send("KILL", *victim);
        let begin = Instant::now();
        if *victim == job.child.id().cast_signed() {
            job.wait_for_extinction();
        } else {
            let outcome = job.finish();
            assert!(
                outcome.code.is_some_and(|c| c != 0),
                "{command}: {outcome:?}"
            );
        }
        assert!(
            begin.elapsed() < 2 * END_LIMIT,
            "{command}: {:?}",
            begin.elapsed()
        );
    }
}

#[test]
fn an_inner_daemon_killed() {
    let hosts: Vec<String> = (0..12).map(|i| format!("h{i}")).collect();
    let mut job = start(&format!(
        "{REACH} -hosts {} -n 12 SCRIPTS/sleep.sh",
        hosts.join(",")
    ));
    job.wait_for("ready", 12);
    let parent = |pid: i32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let after = stat.rfind(')').map_or("", |at| &stat[at + 2..]);
        after
            .split(' ')
            .nth(1)
            .and_then(|p| p.parse::<i32>().ok())
            .unwrap_or(0)
    };
    // The launcher command becomes the daemon, so a daemon below is a child of a daemon.
    let all = daemons(&job);
    let inner = all.iter().map(|pid| parent(*pid)).find(|p| all.contains(p));
    send("KILL", inner.expect("there is an inner daemon"));
    let outcome = job.finish();
    expect(
        &outcome,
        1,
        &[
            "mpiexec: host h0 is lost with rank 0: its daemon has ended",
            "host h8 is lost with rank 8: it was reached by way of h0",
        ],
    );
    assert!(!outcome.stderr.contains("h1 "), "{outcome:?}");
}

#[test]
fn a_daemon_terminated_and_a_keeper_killed() {
    let mut job = start(&two("-n 4 SCRIPTS/sleep.sh"));
    job.wait_for("ready", 4);
    send("TERM", daemons(&job)[0]);
    expect(&job.finish(), 1, &["is lost with ranks"]);

    let mut job = start(&two("-n 4 SCRIPTS/daemons.sh stay"));
    job.wait_for("ready", 4);
    send("KILL", named(&job, "yamabiko-keeper")[0]);
    let outcome = job.finish();
    expect(&outcome, 137, &["yamabiko-keeper on "]);
    assert!(outcome.took < END_LIMIT, "{outcome:?}");
}

#[test]
fn no_secret_can_be_seen() {
    let mut job = start(&two("-n 4 PROBE wait"));
    job.wait_for("ready", 4);
    let all = job.processes();
    assert!(all.len() >= 9, "mpiexec, daemons, keepers, ranks: {all:?}");
    for (pid, _) in all {
        for file in ["cmdline", "environ"] {
            let bytes = std::fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
            let is_hex = |word: &[u8]| word.len() >= 64 && word.iter().all(u8::is_ascii_hexdigit);
            let words = bytes.split(|b| !b.is_ascii_alphanumeric());
            assert!(!words.into_iter().any(is_hex), "{file} of {pid}");
        }
    }
    job.signal("TERM");
    job.finish();
}

#[test]
fn without_cleanup_who_finalizes_has_left_also_while_its_process_lives() {
    for hosts in ["", &format!("{REACH} -hosts a,b ")] {
        let outcome = run(&format!(
            "{hosts}-disable-auto-cleanup -n 2 PROBE leave-first"
        ));
        expect(&outcome, 137, &[]);
        assert_eq!(outcome.sorted(), ["gone true left true"], "{outcome:?}");
    }
}

#[test]
fn without_cleanup_the_others_learn_of_a_death() {
    let outcome = run(&two("-disable-auto-cleanup -n 4 PROBE outlive 2"));
    expect(&outcome, 9, &["rank 2 (pid ", " on b) exited with code 9"]);
    assert_eq!(
        outcome.sorted()[..3],
        [
            "0 knows of 1 death: [2]",
            "1 knows of 1 death: [2]",
            "3 knows of 1 death: [2]"
        ],
        "{outcome:?}"
    );

    // Also of a whole host's.
    let mut job = start(&two("-disable-auto-cleanup -n 4 PROBE outlive none"));
    job.wait_for("ready", 4);
    let of_b = named(&job, "yamabiko-daemon").into_iter().max().unwrap();
    send("KILL", of_b);
    job.wait_for("knows of 2 deaths", 2);
    let outcome = job.finish();
    expect(&outcome, 1, &["is lost with ranks"]);
}
