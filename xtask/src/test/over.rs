//! Stage `over`: what other stages run over shared memory, over the network: inside one machine and between two
//! hosts of a lab. A selection of it, and everything with `--soak`.

use super::ground::Over;
use super::{Options, Tally, ctests, hpcc, imb, mpi4py};
use crate::Result;
use crate::netlab::{self, Lab};
use std::time::Instant;

type Stage = fn(&Options, &mut Tally) -> Result;

/// Stage, way, and the part of it that always runs.
const ALWAYS: [(Stage, Over, &str); 4] = [
    (ctests::run, Over::Tcp, "/mpich/"),
    (imb::run, Over::Tcp, "-n 2"),
    (ctests::run, Over::Hosts, "/mpich/"),
    (imb::run, Over::Hosts, "-n 4"),
];

/// Everything of them, for `--soak`.
const STAGES: [(&str, Stage); 4] = [
    ("c", ctests::run),
    ("imb", imb::run),
    ("mpi4py", mpi4py::run),
    ("hpcc", hpcc::run),
];
const WAYS: [Over; 4] = [Over::Tcp, Over::IoUring, Over::Hosts, Over::Hosts6];

/// Runs the stage.
pub fn run(options: &Options, tally: &mut Tally) -> Result {
    if options.soak {
        for over in WAYS {
            for (name, stage) in STAGES {
                let started = Instant::now();
                if let Err(why) = part(stage, over, options.only.clone(), tally) {
                    // The other parts can still be seen.
                    tally.record(&format!("{name} over {}", over.name()), started, Err(why));
                }
                let seconds = started.elapsed().as_secs_f64();
                println!("   -- {name} over {}: {seconds:.0} s", over.name());
            }
        }
        return Ok(());
    }
    for (stage, over, only) in ALWAYS {
        let only = options.only.clone().unwrap_or(only.to_owned());
        part(stage, over, Some(only), tally)?;
    }
    Ok(())
}

fn part(stage: Stage, over: Over, only: Option<String>, tally: &mut Tally) -> Result {
    let lab = match over.hosts() {
        0 => None,
        hosts => {
            if let Some(why) = netlab::unavailable() {
                println!("skipped: {why}");
                return Ok(());
            }
            Some(Lab::build(hosts)?)
        }
    };
    let options = Options {
        only,
        soak: false,
        over,
        lab,
    };
    stage(&options, tally)
}
