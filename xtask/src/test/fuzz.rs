//! Stage `fuzz`: what comes over a wire, fed to its parsers for a minute (an hour each with `--soak`), where nightly
//! Rust and cargo-fuzz are there. Their corpus is replayed by `cargo test` everywhere.

use super::{Options, Tally};
use crate::spec::root;
use crate::{Result, build, process};
use std::process::{Command, Stdio};

/// The fuzz targets of `crates/tcp/fuzz`.
const TARGETS: [&str; 3] = ["peer", "caller", "answer"];
/// Seconds for each.
const SHORT: u32 = 20;
const LONG: u32 = 3600;

/// Runs the stage.
pub fn run(options: &Options, tally: &mut Tally) -> Result {
    let there = cargo_fuzz()
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    if !there.is_ok_and(|status| status.success()) {
        println!("skipped: nightly Rust with cargo-fuzz is not here");
        return Ok(());
    }
    let seconds = if options.soak { LONG } else { SHORT };
    for target in TARGETS {
        let name = format!("fuzz/tcp {target}, {seconds} s");
        if options.wants(&name) {
            tally.test(&name, || one(target, seconds));
        }
    }
    Ok(())
}

fn cargo_fuzz() -> Command {
    let mut command = Command::new("cargo");
    // Cargo, which runs this, names its own toolchain in the environment.
    command.env_remove("CARGO").env_remove("RUSTUP_TOOLCHAIN");
    command.args(["+nightly", "fuzz"]);
    command
}

/// What is found new goes to a folder of its own, not to the corpus in the repository.
fn one(target: &str, seconds: u32) -> Result {
    let found = build::target().join("fuzz-corpus").join(target);
    std::fs::create_dir_all(&found).map_err(|e| format!("{}: {e}", found.display()))?;
    let fuzz = root().join("crates/tcp/fuzz");
    let mut command = cargo_fuzz();
    command
        .current_dir(root().join("crates/tcp"))
        .arg("run")
        .arg("--target-dir")
        .arg(build::target().join("fuzz"))
        .arg(target)
        .arg(&found)
        .arg(fuzz.join("corpus").join(target))
        .args(["--", "-timeout=20", "-rss_limit_mb=2048"])
        .arg(format!("-max_total_time={seconds}"))
        .stdin(Stdio::null());
    process::output(&mut command).map(|_| ())
}
