//! A table of programs and the exit codes, output and messages expected of mpiexec.

mod common;

use common::{END_LIMIT, run, start_with};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

struct Case {
    line: &'static str,
    code: i32,
    /// Parts of standard error; empty: it must be empty.
    errors: &'static [&'static str],
}

const fn case(line: &'static str, code: i32, errors: &'static [&'static str]) -> Case {
    Case { line, code, errors }
}

/// None of these may take longer than the promise after a failure.
const CASES: &[Case] = &[
    // No MPI at all.
    case("-n 4 true", 0, &[]),
    case("-n 2 SCRIPTS/exit.sh 0 0", 0, &[]),
    case(
        "-n 4 SCRIPTS/exit.sh 2 7",
        7,
        &[
            "rank 2 (pid ",
            "exited with code 7; it was not waiting in MPI",
        ],
    ),
    case("-n 2 SCRIPTS/exit.sh 0 255", 255, &["exited with code 255"]),
    case(
        "-n 3 SCRIPTS/die.sh 1 SEGV",
        139,
        &[
            "rank 1 (pid ",
            "was killed by signal 11 (SIGSEGV); it was not waiting in MPI",
        ],
    ),
    case(
        "-n 3 SCRIPTS/die.sh 0 KILL",
        137,
        &["rank 0 (pid ", "signal 9 (SIGKILL)"],
    ),
    case(
        "-n 3 SCRIPTS/die.sh 2 ABRT",
        134,
        &["rank 2 (pid ", "signal 6 (SIGABRT)"],
    ),
    // Ranks that do not want to end are killed.
    case(
        "-n 3 SCRIPTS/stubborn.sh",
        5,
        &["rank 0 (pid ", "exited with code 5"],
    ),
    // MPI.
    case("-n 1 PROBE hello", 0, &[]),
    case("-n 8 PROBE hello", 0, &[]),
    case("-n 2 bash SCRIPTS/wrapper.sh hello", 0, &[]),
    case("-n 2 bash SCRIPTS/twice.sh", 0, &[]),
    case(
        "-n 2 PROBE unfinalized",
        1,
        &["exited with code 0 after MPI_Init without calling MPI_Finalize"],
    ),
    case(
        "-n 2 PROBE exit-after-finalize 9",
        9,
        &[
            "rank 1 (pid ",
            "exited with code 9; it was after MPI_Finalize",
        ],
    ),
    case(
        "-n 3 PROBE abort 42",
        42,
        &["rank 1 (pid ", "aborted the job with code 42: a test\n"],
    ),
    case(
        "-n 3 PROBE abort 256",
        1,
        &["aborted the job with code 256"],
    ),
    case(
        "-n 3 PROBE die-waiting KILL",
        137,
        &[
            "rank 1 (pid ",
            "SIGKILL); it was waiting in MPI_Recv, peer 0, tag 7, 4096 bytes, for ",
        ],
    ),
    case(
        "-n 3 PROBE die-computing ABRT",
        134,
        &["rank 1 (pid ", "SIGABRT); it was not waiting in MPI"],
    ),
    case(
        "-n 3 PROBE absent",
        1,
        &[
            "rank 1 (pid ",
            "ended without calling MPI_Init, while rank ",
        ],
    ),
    case(
        "-n 2 SCRIPTS/garbage.sh",
        1,
        &["the unknown command \"rm\" to the launcher"],
    ),
    case(
        "-n 2 SCRIPTS/endless.sh",
        1,
        &["an endless line to the launcher"],
    ),
    // What cannot be started.
    case(
        "-n 2 no-such-program",
        127,
        &["cannot find the program no-such-program"],
    ),
    case(
        "-n 2 ./no-such-program",
        127,
        &["could not be started (./no-such-program: No such file or directory)\n"],
    ),
    case(
        "-n 2 /etc/passwd",
        126,
        &["could not be started (/etc/passwd: Permission denied)"],
    ),
    case(
        "-n 2 -wdir /nowhere true",
        127,
        &["could not be started (its working directory: No such file or directory)"],
    ),
    case("-n 1 true :", 2, &["a program is missing"]),
    case("-genvlist A=1 true", 2, &["A=1 is no name of a variable"]),
    case("-n 2 -frobnicate true", 2, &["unknown option -frobnicate"]),
    case(
        "-n 2 -bind-to user:1000 true",
        1,
        &["its processor binding: Invalid argument"],
    ),
    case(
        "-n 2 -launcher fork -host elsewhere true",
        2,
        &["elsewhere is not this machine"],
    ),
    case(
        "-n 2 -launcher-exec no-such-launcher -host elsewhere true",
        1,
        &[
            "host elsewhere, which was to run ranks 0-1, is lost",
            "cannot find the program no-such-launcher",
        ],
    ),
    // The time allowed.
    case(
        "-n 2 -timeout 0.3 PROBE wait",
        124,
        &[
            "time allowed by -timeout is over",
            "rank 0 (pid ",
            "rank 1 (pid ",
            ": waiting in MPI_Barrier, for 0.",
        ],
    ),
    case("-n 2 -timeout 10 true", 0, &[]),
    // Both dialects, without effect.
    case(
        "--oversubscribe --allow-run-as-root --bind-to none --map-by slot --mca btl self -np 2 true",
        0,
        &[],
    ),
    case(
        "-launcher fork -ppn 2 -genvall -host localhost -l -n 2 true",
        0,
        &[],
    ),
];

/// What would have become the program has had a number, which nobody finds a process by.
#[test]
fn what_could_not_be_started_has_no_pid() {
    let outcome = run("-n 2 ./no-such-program");
    let told = |line: &&str| line.contains("could not be started");
    let line = outcome.stderr.lines().find(told).unwrap_or_default();
    assert!(line.starts_with("mpiexec: rank "), "{outcome:?}");
    assert!(!line.contains("pid"), "{line}");
}

#[test]
fn table() {
    for case in CASES {
        let outcome = run(case.line);
        let context = format!("mpiexec {}: {outcome:?}", case.line);
        assert_eq!(outcome.code, Some(case.code), "{context}");
        for part in case.errors {
            assert!(
                outcome.stderr.contains(part),
                "{part:?} expected of {context}"
            );
        }
        if case.errors.is_empty() {
            assert_eq!(outcome.stderr, "", "{context}");
        }
        assert!(outcome.took < END_LIMIT, "too slow: {context}");
    }
}

#[test]
fn ranks_learn_who_they_are() {
    let outcome = run("-n 2 PROBE hello : -usize 7 -n 1 PROBE hello");
    assert_eq!(
        outcome.sorted(),
        [
            "rank 0 of 3 app Some(0) universe Some(7)",
            "rank 1 of 3 app Some(0) universe Some(7)",
            "rank 2 of 3 app Some(1) universe Some(7)",
        ]
    );
}

#[test]
fn starting_and_joining_works_again_and_again() {
    let mut whole: Vec<_> = (0..20).map(|_| run("-n 2 true").took).collect();
    whole.sort();
    let mut joined: Vec<u64> = Vec::new();
    for _ in 0..20 {
        let out = run("-n 2 PROBE time").out();
        joined.extend(out.lines().map(|l| l.parse::<u64>().unwrap()));
    }
    joined.sort_unstable();
    assert_eq!(joined.len(), 40);
    println!(
        "medians: mpiexec -n 2 true {:?}; joining, put, barrier, get {} us",
        whole[10], joined[20]
    );
}

#[test]
fn a_program_started_by_a_rank_is_alone() {
    let outcome = run("-n 2 PROBE nested");
    assert_eq!(outcome.sorted(), ["nested alone true 0 1"; 2]);
}

#[test]
fn stale_variables_mean_nothing() {
    // As if the descriptor had been closed, or given to a file or a foreign socket.
    let outcome = run("-n 1 bash SCRIPTS/stale.sh");
    assert_eq!(outcome.sorted(), ["alone true 0 1"; 3], "{outcome:?}");
}

#[test]
fn without_cleanup_the_others_go_on() {
    let outcome = run("-disable-auto-cleanup -n 3 SCRIPTS/one-fails.sh");
    assert_eq!(outcome.code, Some(3), "{outcome:?}");
    assert_eq!(outcome.sorted(), ["done 0", "done 2"]);
    assert!(outcome.stderr.contains("rank 1"));
}

#[test]
fn who_aborts_ends_all_also_without_cleanup() {
    let begun = std::time::Instant::now();
    let outcome = run("-disable-auto-cleanup -timeout 30 -n 3 PROBE abort 42");
    assert_eq!(outcome.code, Some(42), "{outcome:?}");
    assert!(
        outcome
            .stderr
            .contains("aborted the job with code 42: a test")
    );
    assert!(begun.elapsed().as_secs() < 20);
}

#[test]
fn processors() {
    let own = std::thread::available_parallelism().unwrap().get();
    let count = |line: &str| run(line).sorted();
    assert_eq!(count("-n 2 nproc"), [own.to_string(), own.to_string()]);
    assert_eq!(count("-bind-to hwthread -n 3 nproc"), ["1", "1", "1"]);
    assert_eq!(count("-bind-to user:0 -n 2 nproc"), ["1", "1"]);
}

/// Runs mpiexec with a limit on itself and its ranks.
fn run_limited(line: &str, resource: libc::__rlimit_resource_t, limit: u64) -> common::Outcome {
    let limited = |command: &mut Command| {
        let limit = libc::rlimit {
            rlim_cur: limit,
            rlim_max: limit,
        };
        // SAFETY: between fork and exec only a system call is made.
        unsafe {
            command.pre_exec(move || match libc::setrlimit(resource, &raw const limit) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            });
        }
    };
    start_with(line, Stdio::null(), limited).finish()
}

#[test]
fn a_limit_that_is_too_low_is_named() {
    let outcome = run_limited("-n 40 true", libc::RLIMIT_NOFILE, 64);
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    assert!(
        outcome.stderr.contains("(ulimit -n), which is 64"),
        "{outcome:?}"
    );
    assert!(
        outcome.stderr.contains("the 40 asked for here up to "),
        "{outcome:?}"
    );
    let outcome = run_limited("-n 2 true", libc::RLIMIT_FSIZE, 100);
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    assert!(
        outcome.stderr.contains("(ulimit -f), which is 100 bytes"),
        "{outcome:?}"
    );
}

#[test]
fn nothing_else_is_inherited() {
    // Descriptors 0, 1, 2, the PMI socket, the page, and the one with which ls reads the directory.
    let outcome = run("-n 1 ls /proc/self/fd");
    assert_eq!(outcome.sorted().len(), 6, "{outcome:?}");
    let secret = run("-n 1 bash SCRIPTS/visible.sh");
    assert_eq!(
        secret.out(),
        "",
        "a secret stands where everybody can read it"
    );
}

#[test]
fn variables_and_directories() {
    let line = "-genv A=all -n 1 -env B one -wdir /usr bash SCRIPTS/variables.sh : -n 2 -x A=own -envlist PATH bash SCRIPTS/variables.sh";
    let outcome = run(line);
    let sorted = outcome.sorted();
    assert_eq!(
        sorted[0], "0 A=all B=one mark=yes dir=/usr ranks=3 of mine=1",
        "{outcome:?}"
    );
    assert!(
        sorted[1].starts_with("1 A=own B= mark=no dir="),
        "{outcome:?}"
    );
    assert!(sorted[2].ends_with(" ranks=3 of mine=2"), "{outcome:?}");
}

#[test]
fn a_mistyped_variable_is_told_once() {
    let outcome = run("-genv YAMABIKO_CADD=ring -n 2 true : -n 1 -env YAMABIKO_ROOT /opt true");
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let told = "mpiexec: the environment variable YAMABIKO_CADD has no effect here; is YAMABIKO_CAD meant?";
    assert_eq!(outcome.stderr.matches(told).count(), 1, "{outcome:?}");
    assert_eq!(outcome.stderr.lines().count(), 1, "{outcome:?}");
    assert_eq!(run("-genv YAMABIKO_CAD inline -n 1 true").stderr, "");
}

#[test]
fn the_report_tells_who_failed_after_mpi() {
    let outcome = run("-timeout 1 -n 2 PROBE stay-after-finalize 3");
    assert_eq!(outcome.code, Some(124), "{outcome:?}");
    for part in [
        "rank 0 (pid ",
        "): after MPI_Finalize",
        "rank 1 (pid ",
        ", exited with code 3): after MPI_Finalize",
    ] {
        assert!(outcome.stderr.contains(part), "{part:?} of {outcome:?}");
    }
}

#[test]
fn a_limit_from_the_environment() {
    let with = |value: &str, line: &str| {
        let job = start_with(line, Stdio::null(), |command| {
            command.env("MPIEXEC_TIMEOUT", value);
        });
        job.finish()
    };
    let ended = with("1", "-n 2 SCRIPTS/sleep.sh");
    assert_eq!(ended.code, Some(124), "{ended:?}");
    let told = "mpiexec: the time allowed by MPIEXEC_TIMEOUT is over; the job is ended\n";
    assert!(ended.stderr.contains(told), "{ended:?}");
    for none in ["0", "-1", ""] {
        let outcome = with(none, "-n 1 true");
        assert_eq!(
            (outcome.code, outcome.stderr.as_str()),
            (Some(0), ""),
            "{none}"
        );
    }
    let told = with("soon", "-n 1 true");
    assert_eq!(told.code, Some(0));
    assert_eq!(
        told.stderr,
        "mpiexec: MPIEXEC_TIMEOUT is \"soon\", which is no number of seconds; there is no limit\n"
    );
    // The option wins.
    let own = with("soon", "-timeout 20 -n 1 true");
    assert_eq!((own.code, own.stderr.as_str()), (Some(0), ""));
}
