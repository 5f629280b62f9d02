//! Another MPI's library under our launcher, and our PMI client under another's launcher.
//!
//! Needs MPICH: set `MPICH_PREFIX` to the directory that has its `bin`. Without it these tests say so
//! and pass.

mod common;

use common::{END_LIMIT, probe, script, start_with};
use std::path::PathBuf;
use std::process::{Command, Stdio};

fn mpich() -> Option<PathBuf> {
    let prefix = std::env::var_os("MPICH_PREFIX").map(PathBuf::from);
    if prefix.is_none() {
        eprintln!("skipped: MPICH_PREFIX is not set");
    }
    prefix
}

/// Compiles a program of `tests/launch` with MPICH's wrapper.
fn compile(prefix: &std::path::Path, name: &str) -> String {
    let program = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let status = Command::new(prefix.join("bin/mpicc"))
        .arg(script(&format!("{name}.c")))
        .arg("-o")
        .arg(&program)
        .status();
    assert!(status.unwrap().success());
    program.to_str().unwrap().to_string()
}

#[test]
fn their_library_under_our_launcher() {
    let Some(prefix) = mpich() else { return };
    let program = compile(&prefix, "mpich");
    let run = |line: String| start_with(&line, Stdio::null(), |_| {}).finish();
    let outcome = run(format!("-n 4 {program} hello"));
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert_eq!(
        outcome.sorted(),
        (0..4)
            .map(|r| format!("rank {r} of 4, sum 6"))
            .collect::<Vec<_>>()
    );
    let outcome = run(format!("-n 2 {program} hello : -n 1 {program} hello"));
    assert_eq!(outcome.sorted().len(), 3, "{outcome:?}");
    let outcome = run(format!("-n 2 {program} unfinalized"));
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    assert!(
        outcome.stderr.contains("without calling MPI_Finalize"),
        "{outcome:?}"
    );
    let outcome = run(format!("-n 3 {program} abort"));
    assert_eq!(outcome.code, Some(7), "{outcome:?}");
    assert!(
        outcome.stderr.contains("rank 1 (pid ") && outcome.took < END_LIMIT,
        "{outcome:?}"
    );
    let outcome = run(format!("-n 3 {program} die"));
    assert_eq!(outcome.code, Some(137), "{outcome:?}");
    let outcome = run(format!("-n 2 {program} spawn"));
    assert_ne!(outcome.code, Some(0), "it cannot be spawned: {outcome:?}");
}

#[test]
fn our_client_under_their_launcher() {
    let Some(prefix) = mpich() else { return };
    let run = |n: &str, request: &str| {
        let mut command = Command::new(prefix.join("bin/mpiexec.hydra"));
        command
            .args(["-n", n])
            .arg(probe())
            .arg(request)
            .stdin(Stdio::null());
        let output = command.output().unwrap();
        let mut lines: Vec<_> = String::from_utf8_lossy(&output.stdout)
            .lines()
            .map(str::to_string)
            .collect();
        lines.sort();
        (lines, output.status.code())
    };
    let (lines, code) = run("4", "hello");
    assert_eq!(code, Some(0));
    assert_eq!(lines.len(), 4);
    assert!(lines[3].starts_with("rank 3 of 4 app Some(0)"), "{lines:?}");
    let (lines, code) = run("2", "nested");
    assert_eq!(
        (lines, code),
        (vec!["nested alone true 0 1".to_string(); 2], Some(0))
    );
}
