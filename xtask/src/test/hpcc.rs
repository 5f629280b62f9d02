//! Stage `hpcc`: the HPC Challenge benchmark from Debian's sources, built for both ABIs, on four grids.
//! `tests/hpcc/run` gets, builds and prepares it; the results are judged here.

use super::ground::Ground;
use super::job::Job;
use super::{Options, Tally, apt};
use crate::spec::root;
use crate::{Result, build, process};
use std::path::Path;
use std::process::Command;

/// Process grids: rows and columns.
const GRIDS: [(u32, u32); 4] = [(1, 2), (2, 1), (2, 2), (1, 4)];

/// Runs the stage.
pub fn run(options: &Options, tally: &mut Tally) -> Result {
    apt::need(&[
        ("make", "make"),
        ("cc", "gcc"),
        ("dpkg-deb", "dpkg"),
        ("xz", "xz-utils"),
    ])?;
    if !Path::new("/usr/include/x86_64-linux-gnu/openblas-pthread/cblas.h").exists() {
        apt::install(&["libopenblas-pthread-dev"])?;
    }
    let folder = build::target().join("hpcc");
    for abi in ["standard", "mpich"] {
        let home = folder.join(abi);
        let name = format!("hpcc/{abi} build");
        if !options.wants("hpcc") && !options.wants(&name) {
            continue;
        }
        tally.test(&name, || {
            let mut script = Command::new(root().join("tests/hpcc/run"));
            process::run(
                script
                    .arg("build")
                    .arg(abi)
                    .arg(&folder)
                    .arg(build::prefix(false)),
            )
        });
        for (number, (rows, columns)) in GRIDS.into_iter().enumerate() {
            // All grids for both ABIs take long: one of two ranks each and one of four, unless asked for more.
            let short = match abi {
                "mpich" => matches!(number, 1 | 2),
                _ => number == 0,
            };
            if !options.soak && !short {
                continue;
            }
            let name = format!("hpcc{}/{abi} {rows}x{columns}", options.way());
            if options.wants(&name) {
                tally.test(&name, || one(&options.ground(), &home, rows, columns));
            }
        }
    }
    Ok(())
}

fn one(ground: &Ground, home: &Path, rows: u32, columns: u32) -> Result {
    let folder = home.join(format!("{rows}x{columns}"));
    let mut script = Command::new(root().join("tests/hpcc/run"));
    process::run(
        script
            .arg("input")
            .arg(&folder)
            .args([rows.to_string(), columns.to_string()]),
    )?;
    let job = Job::new(&ground.launcher)
        .args(ground.start(rows * columns))
        .args([home.join("hpcc")])
        .folder(&folder)
        .env("LD_LIBRARY_PATH", &ground.library)
        .env("OPENBLAS_NUM_THREADS", "1")
        .env("OMP_NUM_THREADS", "1")
        .limit_s(900)
        .proves(&ground.library);
    job.passes(&[])?;
    let path = folder.join("hpccoutf.txt");
    let text = std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    if !text.lines().any(|line| line.trim() == "Success=1") {
        return Err(format!(
            "{}: no `Success=1`\n{}",
            path.display(),
            super::job::tail(&text)
        ));
    }
    let residuals: Vec<_> = text
        .lines()
        .filter(|line| line.contains("||Ax-b||_oo") && line.contains("......"))
        .collect();
    if residuals.is_empty() || residuals.iter().any(|line| !line.contains("PASSED")) {
        return Err(format!("{}: {}", path.display(), residuals.join("\n")));
    }
    if text.contains("FAILED")
        && text
            .lines()
            .any(|line| line.contains("FAILED") && !line.contains(" 0 "))
    {
        return Err(format!("{}: something FAILED", path.display()));
    }
    Ok(())
}
