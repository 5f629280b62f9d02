//! Stage `imb`: the Intel MPI Benchmarks as Intel compiled them, on our `libmpi.so.12`, unmodified.
//!
//! They check no data; what is tested is that every benchmark runs to its end.

use super::ground::Ground;
use super::job::Job;
use super::{Options, Tally, peers};
use crate::Result;
use std::path::Path;

/// Runs the stage.
pub fn run(options: &Options, tally: &mut Tally) -> Result {
    let bin = peers::intel()?.join("bin");
    let (ground, way) = (options.ground(), options.way());
    for suite in ["IMB-MPI1", "IMB-NBC"] {
        let names = benchmarks(&ground, &bin.join(suite))?;
        for ranks in [2, 4] {
            let name = format!("imb{way}/{suite}, {} benchmarks, -n {ranks}", names.len());
            if options.wants(&name) {
                tally.test(&name, || {
                    suite_of(&ground, &bin.join(suite), &names, ranks, options.soak)
                });
            }
        }
    }
    Ok(())
}

/// All benchmarks of a suite, also those not run by default.
pub fn benchmarks(ground: &Ground, program: &Path) -> Result<Vec<String>> {
    let job = Job::new(program)
        .args(["-list"])
        .env("LD_LIBRARY_PATH", &ground.library);
    let done = job.passes(&["List of benchmarks".to_owned()])?;
    let lines = done.output.lines().filter(|line| line.starts_with("    "));
    let mut names: Vec<_> = lines
        .filter_map(|line| line.split_whitespace().next())
        .map(str::to_owned)
        .collect();
    names.sort();
    names.dedup();
    if names.len() < 20 {
        Err(format!("only {} benchmarks listed", names.len()))
    } else {
        Ok(names)
    }
}

/// How much of each benchmark is run.
pub struct Amount {
    /// Repetitions: at most, then by the size.
    pub iter: &'static str,
    /// Seconds for each size.
    pub time: &'static str,
    /// Sizes, as powers of two.
    pub sizes: &'static str,
    pub limit_s: u64,
}

fn suite_of(ground: &Ground, program: &Path, names: &[String], ranks: u32, long: bool) -> Result {
    let amount = match long {
        true => Amount {
            iter: "1000",
            time: "10",
            sizes: "0:22",
            limit_s: 3600,
        },
        false => Amount {
            iter: "20,8,20",
            time: "0.1",
            sizes: "2:20",
            limit_s: 180,
        },
    };
    run_suite(ground, program, names, ranks, &amount, &[]).map(drop)
}

/// Runs these benchmarks of a suite to their end, the ranks with these variables; what was said.
pub fn run_suite(
    ground: &Ground,
    program: &Path,
    names: &[String],
    ranks: u32,
    amount: &Amount,
    variables: &[(&str, String)],
) -> Result<String> {
    let job = suite(ground, program, names, ranks, amount, variables);
    ended(job.proves(&ground.library), names)
}

/// The run of these benchmarks, the ranks with these variables.
pub fn suite(
    ground: &Ground,
    program: &Path,
    names: &[String],
    ranks: u32,
    amount: &Amount,
    variables: &[(&str, String)],
) -> Job {
    let mut job = Job::new(&ground.launcher).args(ground.start(ranks));
    for (name, value) in variables {
        job = job.args(["-genv", name, value]);
    }
    let npmin = ranks.to_string();
    let Amount {
        iter, time, sizes, ..
    } = amount;
    job.args([program])
        .args(["-npmin", &npmin, "-iter", iter, "-time", time])
        .args(["-msglog", sizes])
        .args(names)
        .env("LD_LIBRARY_PATH", &ground.library)
        .limit_s(ground.over.limit_s(amount.limit_s))
}

/// Runs that, which has to begin all of these benchmarks and come to its end; what was said.
pub fn ended(job: Job, names: &[String]) -> Result<String> {
    let done = job.passes(&["# All processes entering MPI_Finalize".to_owned()])?;
    let begun = done
        .output
        .lines()
        .filter(|line| line.starts_with("# Benchmarking"))
        .count();
    if begun < names.len() {
        return Err(format!(
            "{begun} of {} benchmarks were begun\n{}",
            names.len(),
            super::job::tail(&done.output)
        ));
    }
    Ok(done.output)
}
