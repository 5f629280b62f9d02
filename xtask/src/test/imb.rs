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
fn benchmarks(ground: &Ground, program: &Path) -> Result<Vec<String>> {
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

fn suite_of(ground: &Ground, program: &Path, names: &[String], ranks: u32, long: bool) -> Result {
    // Repetitions, seconds for each size, sizes as powers of two.
    let (iter, time, sizes) = if long {
        ("1000", "10", "0:22")
    } else {
        ("20,8,20", "0.1", "2:20")
    };
    let job = Job::new(&ground.launcher)
        .args(ground.start(ranks))
        .args([program])
        .args([
            "-npmin",
            &ranks.to_string(),
            "-iter",
            iter,
            "-time",
            time,
            "-msglog",
            sizes,
        ])
        .args(names)
        .env("LD_LIBRARY_PATH", &ground.library)
        .limit_s(ground.over.limit_s(if long { 3600 } else { 180 }))
        .proves(&ground.library);
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
    Ok(())
}
