//! `cargo xtask test [STAGE...]`: all tests, or the stages named.
//!
//! A stage is a file of `test/`; each adds to one [`Tally`] and goes on after a failure, so that one run
//! tells everything. Whatever a stage needs from elsewhere it installs under the target folder.

pub mod apt;
mod blacs;
mod cross;
mod ctests;
mod fmpl;
mod fortran;
mod fuzz;
mod ground;
mod guest;
mod hpcc;
mod imb;
mod install;
mod job;
mod kills;
mod mpi4py;
mod net;
mod over;
pub mod peers;
mod scalapack;
mod tidy;
mod unit;

use crate::Result;
use crate::netlab::Lab;
use ground::{Ground, Over};
pub use mpi4py::{Args as SkipsArgs, update as skips};
use std::time::Instant;

/// Arguments of `test`.
#[derive(clap::Args)]
pub struct Args {
    /// Which: tidy gen unit fuzz build install c fortran fmpl guest kills net over cross imb mpi4py hpcc blacs scalapack (all of them if none is named)
    stages: Vec<String>,
    /// Only tests whose name contains this
    #[arg(long)]
    only: Option<String>,
    /// The long form of each stage
    #[arg(long)]
    soak: bool,
    /// Which way messages take in the stages c, fortran, imb, mpi4py, hpcc, blacs and scalapack
    #[arg(long, value_enum, default_value_t)]
    over: Over,
}

/// What a stage may be told.
pub struct Options {
    only: Option<String>,
    soak: bool,
    over: Over,
    /// The hosts of `over`, if it needs any.
    lab: Option<Lab>,
}

impl Options {
    /// Where the stage's programs run.
    fn ground(&self) -> Ground {
        Ground {
            reach: self.lab.as_ref().map(Lab::launcher),
            ..Ground::ours(self.over)
        }
    }

    /// What to add to a stage's name to tell it from its usual form.
    fn way(&self) -> String {
        match self.over {
            Over::Shm => String::new(),
            over => format!(" over {}", over.name()),
        }
    }

    /// Whether the test of this name was asked for.
    fn wants(&self, name: &str) -> bool {
        self.only
            .as_ref()
            .is_none_or(|part| name.contains(part.as_str()))
    }
}

/// What has passed and what has not.
#[derive(Default)]
pub struct Tally {
    passed: usize,
    failed: Vec<String>,
}

impl Tally {
    /// Notes and prints the end of one test.
    fn record(&mut self, name: &str, started: Instant, result: Result) {
        let seconds = started.elapsed().as_secs_f64();
        match result {
            Ok(()) => {
                self.passed += 1;
                println!("pass  {name}  ({seconds:.1} s)");
            }
            Err(why) => {
                println!("FAIL  {name}  ({seconds:.1} s)");
                for line in why.lines() {
                    println!("      {line}");
                }
                self.failed.push(name.to_owned());
            }
        }
    }

    /// Runs one test and records it.
    fn test(&mut self, name: &str, body: impl FnOnce() -> Result) {
        let started = Instant::now();
        let result = body();
        self.record(name, started, result);
    }
}

type Stage = fn(&Options, &mut Tally) -> Result;

const STAGES: [(&str, Stage); 19] = [
    ("tidy", tidy::run),
    ("gen", unit::generated),
    ("unit", unit::run),
    ("fuzz", fuzz::run),
    ("build", unit::build),
    ("install", install::run),
    ("c", ctests::run),
    ("fortran", fortran::run),
    ("fmpl", fmpl::run),
    ("guest", guest::run),
    ("kills", kills::run),
    ("net", net::run),
    ("over", over::run),
    ("cross", cross::run),
    ("imb", imb::run),
    ("mpi4py", mpi4py::run),
    ("hpcc", hpcc::run),
    ("blacs", blacs::run),
    ("scalapack", scalapack::run),
];

/// Runs the subcommand.
pub fn run(args: &Args) -> Result {
    for name in &args.stages {
        if !STAGES.iter().any(|(known, _)| known == name) {
            let known: Vec<_> = STAGES.iter().map(|(name, _)| *name).collect();
            return Err(format!(
                "there is no stage `{name}`; the stages are {}",
                known.join(" ")
            ));
        }
    }
    let options = Options {
        only: args.only.clone(),
        soak: args.soak,
        over: args.over,
        lab: match args.over.hosts() {
            0 => None,
            hosts => Some(Lab::build(hosts)?),
        },
    };
    let mut tally = Tally::default();
    let mut times = Vec::new();
    for (name, stage) in STAGES {
        if !args.stages.is_empty() && !args.stages.iter().any(|asked| asked == name) {
            continue;
        }
        println!("== {name}");
        let started = Instant::now();
        // What a stage could not even begin counts as one failure of that stage.
        if let Err(why) = stage(&options, &mut tally) {
            tally.record(name, started, Err(why));
        }
        times.push(format!("{name} {:.0} s", started.elapsed().as_secs_f64()));
    }
    println!("== {}", times.join(", "));
    for name in &tally.failed {
        println!("failed: {name}");
    }
    println!("{} passed, {} failed", tally.passed, tally.failed.len());
    if tally.failed.is_empty() {
        Ok(())
    } else {
        Err("not all tests have passed".into())
    }
}

/// Runs `cargo xtask soak`: the long forms of everything.
pub fn soak() -> Result {
    run(&Args {
        stages: ["fuzz", "build", "c", "net", "over", "mpi4py", "hpcc"]
            .map(str::to_owned)
            .to_vec(),
        only: None,
        soak: true,
        over: Over::Shm,
    })
}
