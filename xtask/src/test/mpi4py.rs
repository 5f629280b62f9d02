//! Stage `mpi4py`: the wheel from PyPI on our `libmpi.so.12`: its benchmarks, and its own tests for what is
//! built, from the list in `tests/py/mpi4py-tests.txt`. No failure, and no skip that MPICH does not have:
//! what it skips stands in `tests/py/mpich-skips.txt`, which `cargo xtask skips` writes.

mod skips;

use super::ground::{Ground, Over};
use super::job::{Done, Job};
use super::{Options, Tally, peers};
use crate::spec::root;
use crate::{Result, build};
use skips::{Log, Skips};
use std::path::{Path, PathBuf};

/// Numbers of ranks on which its own tests are run.
const RANKS: std::ops::RangeInclusive<u32> = 1..=4;

/// Arguments of `skips`.
#[derive(clap::Args)]
pub struct Args {
    /// Write nothing; fail if the file is out of date
    #[arg(long)]
    check: bool,
}

/// What the list says.
#[derive(Default)]
struct List {
    files: Vec<String>,
    without: Vec<String>,
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
    let way = options.way();
    for (bench, ranks) in [
        ("helloworld", 1),
        ("helloworld", 4),
        ("ringtest", 4),
        ("pingpong", 2),
    ] {
        let name = format!("mpi4py{way}/bench {bench} -n {ranks}");
        if options.wants(&name) {
            let mut rest = ["-m", "mpi4py.bench", bench].map(str::to_owned).to_vec();
            if bench == "pingpong" && !options.soak {
                // Its longest message is 1 GiB.
                rest.extend(["-n", "16777216"].map(str::to_owned));
            }
            tally.test(&name, || {
                let job = job(&python, &options.ground(), ranks, &rest);
                job.limit_s(options.over.limit_s(180)).passes(&[]).map(drop)
            });
        }
    }
    let suite = Suite::prepare(options.ground(), options.over.name())?;
    let theirs = Skips::read()?;
    for ranks in RANKS {
        let files = suite.list.files.len();
        let name = format!("mpi4py{way}/its own tests, {files} files, -n {ranks}");
        if options.wants(&name) {
            tally.test(&name, || suite.passes(ranks, &theirs));
        }
    }
    if options.soak {
        let name = "mpi4py/what MPICH skips is what the list says";
        tally.test(name, || update(&Args { check: true }));
    }
    Ok(())
}

/// Runs the subcommand `skips`: the same tests on MPICH, for what it skips.
pub fn update(args: &Args) -> Result {
    let mpich = peers::mpich()?;
    let theirs = Ground {
        launcher: mpich.join("bin/mpiexec.hydra"),
        library: mpich.join("lib"),
        short: false,
        over: Over::Shm,
        reach: None,
    };
    let suite = Suite::prepare(theirs, "mpich")?;
    let mut skips = Skips::default();
    for ranks in RANKS {
        // Its ranks poll: where they outnumber the cores, that takes long.
        let (done, texts) = suite.run(ranks, 1500)?;
        let logs: Vec<_> = texts.iter().map(|text| Log::parse(text)).collect();
        if let Some(log) = logs.iter().find(|log| log.ran.is_none()) {
            let output = super::job::tail(&done?.output);
            return Err(format!(
                "MPICH did not come to the end of {}\n{output}",
                log.last
            ));
        }
        skips.add(ranks, &logs);
    }
    if args.check {
        return skips.is_as_written();
    }
    skips.write()
}

/// Its tests of non-blocking and of persistent collectives.
pub(super) const OFFLOADED: [&str; 4] = [
    "test_cco_nb_buf",
    "test_cco_pr_buf",
    "test_cco_nb_vec",
    "test_cco_pr_vec",
];

/// Runs these of [`OFFLOADED`] with these variables, of which `name` tells; what the ranks wrote.
pub(super) fn offloaded(
    ground: Ground,
    name: &str,
    files: &[&str],
    ranks: u32,
    variables: &[(&'static str, String)],
) -> Result<String> {
    let suite = Suite {
        list: List {
            files: files.iter().map(|&file| file.to_owned()).collect(),
            without: Vec::new(),
        },
        variables: variables.to_vec(),
        ..Suite::prepare(ground, name)?
    };
    let (done, texts) = suite.run(ranks, suite.ground.over.limit_s(900))?;
    let mut complaints = Vec::new();
    for (rank, text) in texts.iter().enumerate() {
        let all = Log::parse(text);
        complaints.extend(all.complaints().map(|what| format!("rank {rank}: {what}")));
    }
    let done = done.map_err(|why| format!("{why}\n{}", complaints.join("\n")))?;
    match complaints.is_empty() && done.code == Some(0) {
        true => Ok(texts.concat()),
        false => Err(format!(
            "exit code {:?}\n{}\n{}",
            done.code,
            complaints.join("\n"),
            super::job::tail(&done.output)
        )),
    }
}

fn job(python: &Path, ground: &Ground, ranks: u32, rest: &[String]) -> Job {
    Job::new(&ground.launcher)
        .args(ground.start(ranks))
        .args([python])
        .args(rest)
        // The wheel would rather take an MPI library inside its own environment.
        .env("MPI4PY_LIBMPI", ground.library.join("libmpi.so.12"))
        .env("LD_LIBRARY_PATH", &ground.library)
        .proves(&ground.library)
}

/// Its own tests, and where they are run.
struct Suite {
    ground: Ground,
    list: List,
    python: PathBuf,
    sources: PathBuf,
    logs: PathBuf,
    /// Variables of the ranks.
    variables: Vec<(&'static str, String)>,
}

impl Suite {
    fn prepare(ground: Ground, name: &str) -> Result<Suite> {
        let logs = build::target().join("test/mpi4py").join(name);
        std::fs::create_dir_all(&logs).map_err(|e| format!("{}: {e}", logs.display()))?;
        Ok(Suite {
            ground,
            list: List::read()?,
            python: peers::mpi4py()?.join("bin/python"),
            sources: peers::mpi4py_sources()?,
            logs,
            variables: Vec::new(),
        })
    }

    /// Runs them once: how the run ended, and what each rank wrote to a file of its own.
    fn run(&self, ranks: u32, limit_s: u64) -> Result<(Result<Done>, Vec<String>)> {
        let script = root().join("tests/py/log_per_rank.py");
        let log = self.logs.join(format!("{ranks}."));
        let main = self.sources.join("test/main.py");
        let files = format!(r"^({})\.py$", self.list.files.join("|"));
        let mut rest: Vec<String> = ["-u", "-B"].map(str::to_owned).to_vec();
        rest.extend([&script, &log, &main].map(|path| path.display().to_string()));
        rest.extend(["-v", "--no-builddir", "-i", &files].map(str::to_owned));
        for pattern in &self.list.without {
            rest.extend(["-x".to_owned(), pattern.clone()]);
        }
        let mut job = job(&self.python, &self.ground, ranks, &rest);
        for (name, value) in &self.variables {
            job = job.env(name, value);
        }
        let done = job.folder(&self.sources).limit_s(limit_s).run();
        let read = |rank| {
            let path = format!("{}{rank}", log.display());
            std::fs::read_to_string(&path).map_err(|e| format!("{path}: {e}"))
        };
        let logs = (0..ranks).map(read).collect::<Result<_>>()?;
        Ok((done, logs))
    }

    /// Runs them: no failure, the tests that MPICH runs, and no skip that it does not have.
    fn passes(&self, ranks: u32, theirs: &Skips) -> Result {
        let (done, texts) = self.run(ranks, self.ground.over.limit_s(900))?;
        let logs: Vec<_> = texts.iter().map(|text| Log::parse(text)).collect();
        let mut complaints = Vec::new();
        for (rank, log) in logs.iter().enumerate() {
            complaints.extend(log.complaints().map(|what| format!("rank {rank}: {what}")));
        }
        complaints.extend(theirs.complaints(ranks, &logs));
        let done = done.map_err(|why| format!("{why}\n{}", complaints.join("\n")))?;
        if done.code != Some(0) {
            let output = super::job::tail(&done.output);
            complaints.push(format!("exit code {:?}\n{output}", done.code));
        }
        if let Some(log) = logs.first() {
            println!(
                "      ran {}, skipped {}",
                log.ran.unwrap_or(0),
                log.skips.len()
            );
        }
        if complaints.is_empty() {
            Ok(())
        } else {
            Err(complaints.join("\n"))
        }
    }
}
