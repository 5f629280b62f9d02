//! `cargo xtask test [STAGE...]`: all tests, or the stages named.
//!
//! A stage is a file of `test/`; each adds to a [`Tally`] and goes on after a failure, so that one run
//! tells everything. Whatever a stage needs from elsewhere it installs under the target folder.
//!
//! Stages run one after the other, but for those that mostly wait for a network: they run beside the ones that
//! mostly compile ([`COURSE`]). Programs that keep all processors busy run alone.

pub mod apt;
mod bench;
mod blacs;
mod cad;
mod cross;
mod ctests;
pub mod execs;
mod fmpl;
mod fortran;
mod fuzz;
pub mod ground;
mod guest;
mod hpcc;
mod icount;
pub mod imb;
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
    /// Which: tidy gen build unit fuzz over net install bench icount c fortran fmpl blacs cad execs guest kills cross imb mpi4py hpcc scalapack (all of them if none is named)
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
                let lines: String = why.lines().map(|line| format!("\n      {line}")).collect();
                println!("FAIL  {name}  ({seconds:.1} s){lines}");
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

type Stage = (&'static str, fn(&Options, &mut Tally) -> Result);

/// Stages that run one after the other.
type Lane = &'static [Stage];

/// All stages: steps that follow each other, and in each of them the lanes that run beside each other.
const COURSE: [&[Lane]; 3] = [
    &[&[
        ("tidy", tidy::run),
        ("gen", unit::generated),
        ("build", unit::build),
    ]],
    &[
        &[("unit", unit::run)],
        &[("fuzz", fuzz::run)],
        &[("over", over::run), ("net", net::run)],
    ],
    &[&[
        ("install", install::run),
        ("bench", bench::run),
        ("icount", icount::run),
        ("c", ctests::run),
        ("fortran", fortran::run),
        ("fmpl", fmpl::run),
        ("blacs", blacs::run),
        ("cad", cad::run),
        ("execs", execs::run),
        ("guest", guest::run),
        ("kills", kills::run),
        ("cross", cross::run),
        ("imb", imb::run),
        ("mpi4py", mpi4py::run),
        ("hpcc", hpcc::run),
        ("scalapack", scalapack::run),
    ]],
];

fn names() -> Vec<&'static str> {
    let stages = COURSE.iter().copied().flatten().copied().flatten();
    stages.map(|(name, _)| *name).collect()
}

/// Runs the subcommand.
pub fn run(args: &Args) -> Result {
    let known = names();
    if let Some(name) = args.stages.iter().find(|s| !known.contains(&s.as_str())) {
        return Err(format!(
            "there is no stage `{name}`; the stages are {}",
            known.join(" ")
        ));
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
    let asked = |name: &str| args.stages.is_empty() || args.stages.iter().any(|s| s == name);
    let mut tally = Tally::default();
    let mut times = Vec::new();
    for step in COURSE {
        let ends = std::thread::scope(|scope| {
            let start = |lane: &Lane| {
                let stages: Vec<Stage> = lane.iter().filter(|s| asked(s.0)).copied().collect();
                scope.spawn(|| follow(stages, &options))
            };
            let lanes: Vec<_> = step.iter().map(start).collect();
            lanes
                .into_iter()
                .map(|lane| lane.join())
                .collect::<Vec<_>>()
        });
        for end in ends {
            let (lane, took) = end.map_err(|_| "a stage panicked".to_owned())?;
            tally.passed += lane.passed;
            tally.failed.extend(lane.failed);
            times.extend(took);
        }
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

/// Runs the stages of a lane; what came of them, and how long each took.
fn follow(stages: Vec<Stage>, options: &Options) -> (Tally, Vec<String>) {
    let mut tally = Tally::default();
    let mut times = Vec::new();
    for (name, run) in stages {
        println!("== {name}");
        let started = Instant::now();
        // What a stage could not even begin counts as one failure of that stage.
        if let Err(why) = run(options, &mut tally) {
            tally.record(name, started, Err(why));
        }
        times.push(format!("{name} {:.0} s", started.elapsed().as_secs_f64()));
    }
    (tally, times)
}

/// Runs `cargo xtask soak`: the long forms of everything.
pub fn soak() -> Result {
    run(&Args {
        stages: [
            "fuzz",
            "build",
            "c",
            "net",
            "over",
            "execs",
            "mpi4py",
            "hpcc",
            "scalapack",
        ]
        .map(str::to_owned)
        .to_vec(),
        only: None,
        soak: true,
        over: Over::Shm,
    })
}
