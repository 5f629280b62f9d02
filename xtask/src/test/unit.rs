//! Stages `unit`, `gen` and `build`: the crates' own tests, generated files up to date, and a build.

use super::job::Job;
use super::{Options, Tally};
use crate::spec::root;
use crate::{Result, process};
use std::process::Command;

fn cargo() -> std::ffi::OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// Another subcommand of this program.
fn itself(args: &[&str]) -> Result {
    let program = std::env::current_exe().map_err(|e| e.to_string())?;
    process::run(Command::new(program).args(args))
}

/// Stage `unit`: `cargo test` over the workspace, counted test by test.
pub fn run(options: &Options, tally: &mut Tally) -> Result {
    let _ = options;
    let started = std::time::Instant::now();
    let run = || {
        Job::new(cargo())
            .args(["test", "--workspace", "--quiet", "--no-fail-fast"])
            .folder(&root())
            .limit_s(1500)
            .run()
    };
    let mut done = run()?;
    if done.code != Some(0) {
        // Tests of processes and signals have failed once in many runs on a crowded machine, with a
        // cause not found yet: what fails twice is broken, what fails once is shown.
        println!(
            "      failed, running again:\n{}",
            super::job::tail(&done.output)
        );
        done = run()?;
    }
    let mut passed = 0;
    for line in done.output.lines() {
        if let Some(rest) = line.strip_prefix("test result: ") {
            let count = |word: &str| -> usize {
                let before = rest.split(word).next().unwrap_or("");
                before
                    .trim_end()
                    .rsplit(' ')
                    .next()
                    .and_then(|n| n.parse().ok())
                    .unwrap_or(0)
            };
            passed += count("passed");
        }
    }
    println!(
        "pass  {passed} unit tests  ({:.1} s)",
        started.elapsed().as_secs_f64()
    );
    tally.passed += passed;
    if done.code == Some(0) {
        Ok(())
    } else {
        Err(super::job::tail(&done.output))
    }
}

/// Stage `gen`: the generated files are what the generator writes.
pub fn generated(_: &Options, tally: &mut Tally) -> Result {
    tally.test("gen --check", || itself(&["gen", "--check"]));
    Ok(())
}

/// Stage `build`: a release build laid out in the prefix.
pub fn build(_: &Options, tally: &mut Tally) -> Result {
    tally.test("build", || itself(&["build"]));
    Ok(())
}
