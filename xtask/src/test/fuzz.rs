//! Stage `fuzz`: what others write, over a wire or as byte code, fed to what takes it, for a minute or so (an hour each with
//! `--soak`), where nightly Rust and cargo-fuzz are there. Their corpus is replayed by `cargo test` everywhere.

use super::{Options, Tally};
use crate::spec::root;
use crate::{Result, build, process};
use std::process::{Command, Stdio};

/// The crates with a folder `fuzz`, and the targets there.
const TARGETS: [(&str, &str); 4] = [
    ("tcp", "peer"),
    ("tcp", "caller"),
    ("tcp", "answer"),
    ("bytecode", "program"),
];
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
    for (package, target) in TARGETS {
        let name = format!("fuzz/{package} {target}, {seconds} s");
        if options.wants(&name) {
            tally.test(&name, || one(package, target, seconds));
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
fn one(package: &str, target: &str, seconds: u32) -> Result {
    let found = build::target().join("fuzz-corpus").join(target);
    std::fs::create_dir_all(&found).map_err(|e| format!("{}: {e}", found.display()))?;
    let folder = root().join("crates").join(package);
    let mut command = cargo_fuzz();
    command
        .current_dir(&folder)
        .arg("run")
        .arg("--target-dir")
        .arg(build::target().join("fuzz"))
        .arg(target)
        .arg(&found)
        .arg(folder.join("fuzz/corpus").join(target))
        .args(["--", "-timeout=20", "-rss_limit_mb=2048"])
        .arg(format!("-max_total_time={seconds}"))
        .stdin(Stdio::null());
    process::output(&mut command).map(|_| ())
}
