//! `cargo xtask run`: shows that the library works: builds it, compiles a real example with the new
//! `mpicc` and runs it on four ranks.

use std::path::Path;
use std::process::Command;

use crate::spec::root;
use crate::{Result, build, process};

/// Ranks of the example.
const RANKS: &str = "4";

/// Builds, compiles and runs the conjugate-gradient example.
pub fn run() -> Result {
    build::run(&build::Args::default())?;
    let prefix = build::prefix(false);
    let source = root().join("examples/cg");
    let program = prefix.join("share/yamabiko/cg");
    compile(&prefix, &source, &program)?;
    let mut launch = Command::new(prefix.join("bin/mpiexec"));
    launch
        .args(["-n", RANKS])
        .arg(&program)
        .arg(source.join("poisson-80.mtx"));
    println!("$ mpiexec -n {RANKS} cg poisson-80.mtx");
    process::run(&mut launch)
}

fn compile(prefix: &Path, source: &Path, program: &Path) -> Result {
    println!("$ mpicc -O2 cg.c -o cg -lm");
    let mut mpicc = Command::new(prefix.join("bin/mpicc"));
    mpicc
        .args(["-O2", "-o"])
        .arg(program)
        .arg(source.join("cg.c"))
        .arg("-lm");
    process::run(&mut mpicc)
}
