//! Stage `hpcc`: the HPC Challenge benchmark from Debian's sources, built for both ABIs, on grids of two and four ranks.
//! `tests/hpcc/run` gets, builds and prepares it; the results are judged here.

use super::ground::{Ground, Over};
use super::job::Job;
use super::{Options, Tally, apt};
use crate::spec::root;
use crate::{Result, build, process};
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

/// Process grids: rows and columns.
type Grid = (u32, u32);
const GRIDS: [Grid; 4] = [(1, 2), (2, 1), (2, 2), (1, 4)];

/// The ABIs it was built for in this run: the stage `over` comes here once for each way.
static BUILT: Mutex<Vec<&str>> = Mutex::new(Vec::new());

/// The grids of an ABI. All of them for both take long: one of two ranks each and one of four, unless asked for more;
/// over the network one with neighbours on the own host and on the other.
fn grids(abi: &str, options: &Options) -> &'static [Grid] {
    match (options.soak, options.over, abi) {
        (true, ..) => &GRIDS,
        (_, Over::Shm, "mpich") => &GRIDS[1..3],
        (_, Over::Shm, _) => &GRIDS[..1],
        _ => &GRIDS[2..3],
    }
}

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
        let named = |&(rows, columns): &Grid| {
            let name = format!("hpcc{}/{abi} {rows}x{columns}", options.way());
            (name, rows, columns)
        };
        let mut runs: Vec<_> = grids(abi, options).iter().map(named).collect();
        runs.retain(|(name, ..)| options.wants(name));
        if runs.is_empty() {
            continue;
        }
        build_for(abi, &folder, tally);
        for (name, rows, columns) in runs {
            tally.test(&name, || one(&options.ground(), &home, rows, columns));
        }
    }
    Ok(())
}

/// Builds it for an ABI, unless this run did.
fn build_for(abi: &'static str, folder: &Path, tally: &mut Tally) {
    let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    if built.contains(&abi) {
        return;
    }
    tally.test(&format!("hpcc/{abi} build"), || {
        let mut script = Command::new(root().join("tests/hpcc/run"));
        script.arg("build").arg(abi).arg(folder);
        process::run(script.arg(build::prefix(false)))?;
        built.push(abi);
        Ok(())
    });
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
        .limit_s(ground.over.limit_s(900))
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
