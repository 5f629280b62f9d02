//! Stage `mpi4py`: the wheel from PyPI on our `libmpi.so.12`: its benchmarks, and its own tests for what is
//! built, from the list in `tests/py/mpi4py-tests.txt`. No failure, and no skip but for the listed reasons.

use super::ground::Ground;
use super::job::{Done, Job};
use super::{Options, Tally, peers};
use crate::spec::root;
use crate::{Result, build};
use std::path::Path;

/// What the list says.
#[derive(Default)]
struct List {
    files: Vec<String>,
    without: Vec<String>,
    skips: Vec<String>,
}

impl List {
    fn read() -> Result<List> {
        let path = root().join("tests/py/mpi4py-tests.txt");
        let text =
            std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        let mut list = List::default();
        for line in text
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty() && !line.starts_with('#'))
        {
            let (kind, value) = line
                .split_once(' ')
                .ok_or_else(|| format!("{}: {line}", path.display()))?;
            let values = match kind {
                "file" => &mut list.files,
                "not" => &mut list.without,
                "skip" => &mut list.skips,
                _ => return Err(format!("{}: {line}", path.display())),
            };
            values.push(value.trim().to_owned());
        }
        Ok(list)
    }
}

/// Runs the stage.
pub fn run(options: &Options, tally: &mut Tally) -> Result {
    let home = peers::mpi4py()?;
    let python = home.join("bin/python");
    let (ground, way) = (options.ground(), options.way());
    for (bench, ranks) in [
        ("helloworld", 1),
        ("helloworld", 4),
        ("ringtest", 4),
        ("pingpong", 2),
    ] {
        let name = format!("mpi4py{way}/bench {bench} -n {ranks}");
        if options.wants(&name) {
            let rest = ["-m", "mpi4py.bench", bench].map(str::to_owned);
            tally.test(&name, || {
                job(&ground, &python, ranks, &rest)
                    .limit_s(60)
                    .passes(&[])
                    .map(drop)
            });
        }
    }
    let list = List::read()?;
    let sources = peers::mpi4py_sources()?;
    let logs = build::target().join("test/mpi4py");
    for ranks in 1..=4 {
        let name = format!(
            "mpi4py{way}/its own tests, {} files, -n {ranks}",
            list.files.len()
        );
        if options.wants(&name) {
            tally.test(&name, || {
                suite(&ground, &python, &sources, &list, &logs, ranks)
            });
        }
    }
    Ok(())
}

fn job(ground: &Ground, python: &Path, ranks: u32, rest: &[String]) -> Job {
    Job::new(&ground.launcher)
        .args(ground.start(ranks))
        .args([python])
        .args(rest)
        // The wheel would rather take an MPI library inside its own environment.
        .env("MPI4PY_LIBMPI", ground.library.join("libmpi.so.12"))
        .env("LD_LIBRARY_PATH", &ground.library)
        .proves(&ground.library)
}

/// Its own tests. Each rank writes what it has to say to a file of its own.
fn suite(
    ground: &Ground,
    python: &Path,
    sources: &Path,
    list: &List,
    logs: &Path,
    ranks: u32,
) -> Result {
    std::fs::create_dir_all(logs).map_err(|e| format!("{}: {e}", logs.display()))?;
    let script = root().join("tests/py/log_per_rank.py");
    let log = logs.join(format!("{ranks}."));
    let main = sources.join("test/main.py");
    let files = format!(r"^({})\.py$", list.files.join("|"));
    let mut rest: Vec<String> = ["-u", "-B"].map(str::to_owned).to_vec();
    rest.extend([&script, &log, &main].map(|path| path.display().to_string()));
    rest.extend(["-v", "--no-builddir", "-i", &files].map(str::to_owned));
    for pattern in &list.without {
        rest.extend(["-x".to_owned(), pattern.clone()]);
    }
    let done = job(ground, python, ranks, &rest)
        .folder(sources)
        .limit_s(400)
        .run();
    let mut complaints = Vec::new();
    let mut summary = String::new();
    for rank in 0..ranks {
        let path = format!("{}{rank}", log.display());
        let text = std::fs::read_to_string(&path).map_err(|e| format!("{path}: {e}"))?;
        check(&text, list, rank, &mut complaints);
        summary = text
            .lines()
            .rev()
            .find(|line| line.starts_with("Ran "))
            .unwrap_or("")
            .to_owned();
    }
    let Done { code, output } = match done {
        Ok(done) => done,
        Err(why) => return Err(format!("{why}\n{}", complaints.join("\n"))),
    };
    if code != Some(0) {
        complaints.push(format!("exit code {code:?}\n{}", super::job::tail(&output)));
    }
    println!("      {summary}");
    if complaints.is_empty() {
        Ok(())
    } else {
        Err(complaints.join("\n"))
    }
}

/// One rank's report: failures by name, skips for unknown reasons, and an end.
fn check(text: &str, list: &List, rank: u32, complaints: &mut Vec<String>) {
    let mut last = "";
    for line in text.lines() {
        if line.starts_with("FAIL: ") || line.starts_with("ERROR: ") {
            // Subtests of one test differ behind its name, which stands in parentheses.
            let end = line.find(')').map_or(line.len(), |at| at + 1);
            complain(complaints, format!("rank {rank}: {}", &line[..end]));
        }
        if let Some((_, rest)) = line.split_once(" skipped '") {
            let reason = rest.trim_end().trim_end_matches('\'');
            if !list.skips.iter().any(|known| known == reason) {
                complain(complaints, format!("rank {rank}: skipped: {line}"));
            }
        }
        if line.contains(" ... ") || line.starts_with("test") {
            last = line;
        }
    }
    if !text.lines().any(|line| line.starts_with("Ran ")) {
        complaints.push(format!(
            "rank {rank} did not come to the end; its last test: {last}"
        ));
    }
}

fn complain(complaints: &mut Vec<String>, what: String) {
    if complaints.last() != Some(&what) {
        complaints.push(what);
    }
}
