//! Stages `unit`, `gen` and `build`: the crates' own tests, generated files up to date, and a build.

use super::job::Job;
use super::{Options, Tally, apt};
use crate::spec::root;
use crate::{Result, build, process};
use std::process::Command;

/// The cargo that runs this program.
pub fn cargo() -> std::ffi::OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// Another subcommand of this program.
fn itself(args: &[&str]) -> Result {
    let program = std::env::current_exe().map_err(|e| e.to_string())?;
    process::run(Command::new(program).args(args))
}

/// Crates with structures that loom explores.
const LOOMED: [&str; 2] = ["shm", "sys"];

/// Stage `unit`: `cargo test` over the workspace, and what loom explores, which is built apart; counted test by test.
pub fn run(_: &Options, tally: &mut Tally) -> Result {
    // The headers are compiled as C++ too.
    apt::need(&[("c++", "g++")])?;
    let all = Job::new(cargo())
        .args(["test", "--workspace", "--quiet", "--no-fail-fast"])
        .limit_s(1500);
    let loom = Job::new(cargo())
        .args(["test", "--quiet", "--no-fail-fast", "--lib", "--target-dir"])
        .args([build::target().join("loom").into_os_string()])
        .args(LOOMED.iter().flat_map(|name| ["-p", name]))
        .args(["loom"])
        .env("RUSTFLAGS", "--cfg loom")
        .limit_s(900);
    for (what, job) in [("unit tests", all), ("tests by loom", loom)] {
        let started = std::time::Instant::now();
        let done = job.folder(&root()).run()?;
        let passed = passed(&done.output);
        tally.passed += passed;
        if done.code != Some(0) || passed == 0 {
            return Err(complaints(&done.output));
        }
        let seconds = started.elapsed().as_secs_f64();
        println!("pass  {passed} {what}  ({seconds:.1} s)");
    }
    Ok(())
}

/// How many tests cargo says have passed.
fn passed(output: &str) -> usize {
    let count = |line: &str| {
        let before = line.split(" passed").next()?;
        before.rsplit(' ').next()?.parse::<usize>().ok()
    };
    let results = output.lines().filter(|l| l.starts_with("test result: "));
    results.filter_map(count).sum::<usize>()
}

/// What failed tests said: under `---- NAME stdout ----`, up to the list of their names, and what those said that are
/// programs of their own, whose processes panic. The end of the output alone is that of the crates that came later. Without
/// any (a compiler's error), the end.
fn complaints(output: &str) -> String {
    const LINES_OF_ONE: usize = 20;
    const LINES_OF_PANIC: usize = 3;
    let mut shown = Vec::new();
    let mut left = 0;
    for line in output.lines() {
        if line.starts_with("---- ") {
            left = LINES_OF_ONE;
        } else if line.contains("panicked at ") {
            left = left.max(LINES_OF_PANIC);
        } else if line == "failures:" {
            left = 0;
        }
        let rerun = line.starts_with("error: ") || line.starts_with("    `-p ");
        if left > 0 || rerun {
            shown.push(line);
        }
        left = left.saturating_sub(1);
    }
    let told = |line: &&str| line.starts_with("---- ") || line.contains("panicked at ");
    if shown.iter().any(told) {
        shown.join("\n")
    } else {
        super::job::tail(output)
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

#[cfg(test)]
mod tests {
    use super::complaints;

    #[test]
    fn failed_tests_are_heard() {
        let output = "running 2 tests\n\nfailures:\n\n---- a::b stdout ----\n\nthread panicked\n\n\n\
                      failures:\n    a::b\n\ntest result: FAILED. 1 passed\n\nrunning 0 tests\n\
                      error: 1 target failed:\n    `-p x --lib`\n";
        assert_eq!(
            complaints(output),
            "---- a::b stdout ----\n\nthread panicked\n\n\nerror: 1 target failed:\n    `-p x --lib`"
        );
        assert_eq!(
            complaints("error: it does not compile\n  at x"),
            "error: it does not compile\n  at x"
        );
    }
}
