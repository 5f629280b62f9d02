//! Stage `c`: the programs of `tests/c`, compiled by our wrappers for both ABIs, on our libraries.
//!
//! The table `tests/c/tests.toml` says what is run; its head explains the fields. Stage `cross` uses the
//! same table with another implementation's compilers, libraries and launchers.

use super::ground::{Ground, Over};
use super::job::Job;
use super::{Options, Tally};
use crate::spec::root;
use crate::{Result, build, process};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// The table.
#[derive(Deserialize)]
struct Table {
    test: Vec<Test>,
}

/// One entry of the table.
#[derive(Deserialize, Clone)]
#[serde(deny_unknown_fields)]
pub struct Test {
    /// Name of the test.
    pub name: String,
    program: Option<String>,
    #[serde(default = "all_ranks")]
    ranks: Vec<u32>,
    #[serde(default = "mpich_ranks")]
    mpich: Vec<u32>,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default = "limit_s")]
    limit_s: u64,
    #[serde(default)]
    env: BTreeMap<String, String>,
    #[serde(default)]
    mpiexec: Vec<String>,
    says: Option<Vec<String>>,
    #[serde(default)]
    shows: bool,
    #[serde(default)]
    fails: bool,
    /// The exit code with which it has to end, if that is not 0.
    code: Option<i32>,
    #[serde(default = "yes")]
    peer: bool,
    peer_args: Option<Vec<String>>,
    #[serde(default)]
    soak: bool,
    hosts: Option<bool>,
}

fn all_ranks() -> Vec<u32> {
    vec![1, 2, 3, 4, 5, 8]
}

fn mpich_ranks() -> Vec<u32> {
    vec![2, 5]
}

fn limit_s() -> u64 {
    60
}

fn yes() -> bool {
    true
}

impl Test {
    /// Name of its C file, without the ending.
    pub fn program(&self) -> &str {
        self.program.as_deref().unwrap_or(&self.name)
    }

    /// Whether other implementations can be expected to pass it.
    pub fn for_peers(&self) -> bool {
        self.peer && !self.soak && self.mpiexec.is_empty()
    }

    /// Whether it makes sense this way.
    fn fits(&self, over: Over) -> bool {
        self.hosts.is_none_or(|hosts| hosts == (over.hosts() > 0))
    }

    /// Runs it once with the programs in `bin`.
    pub fn run(&self, bin: &Path, ground: &Ground, ranks: u32) -> Result {
        let expected = || vec![format!("ok {}", self.program())];
        let words = self.says.clone().unwrap_or_else(expected);
        let args = if ground.short {
            self.peer_args.as_ref().unwrap_or(&self.args)
        } else {
            &self.args
        };
        let mut job = Job::new(&ground.launcher)
            .args(&self.mpiexec)
            .args(ground.start(ranks))
            .limit_s(ground.over.limit_s(self.limit_s))
            .watches(&ground.library)
            .env("LD_LIBRARY_PATH", &ground.library);
        for (name, value) in &self.env {
            let value = match value.strip_prefix('@').and_then(|v| v.strip_suffix('@')) {
                Some(object) => bin.join(format!("{object}.so")).display().to_string(),
                None => value.clone(),
            };
            // For the ranks, not for the launcher.
            job = job.args(["-genv", name]).args([value]);
        }
        let job = job.args([bin.join(self.program())]).args(args);
        let done = match self.code {
            Some(code) => job.ends_with(code, &words)?,
            None if self.fails => job.fails(&words)?,
            None => job.passes(&words)?,
        };
        let shown = |line: &str| match self.shows {
            true => !line.starts_with("ok "),
            false => line.starts_with("skipped: "),
        };
        for line in done.output.lines().filter(|line| shown(line)) {
            println!("      {line}");
        }
        Ok(())
    }
}

/// Reads the table.
pub fn table() -> Result<Vec<Test>> {
    let path = root().join("tests/c/tests.toml");
    let text = std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    let table: Table = toml::from_str(&text).map_err(|e| format!("{}: {e}", path.display()))?;
    Ok(table.test)
}

/// Compiles every program of `tests/c` with this compiler into `bin`; warnings are errors.
pub fn compile(compiler: &[&str], bin: &Path, tally: &mut Tally, label: &str) -> Result {
    std::fs::create_dir_all(bin).map_err(|e| format!("{}: {e}", bin.display()))?;
    let folder = root().join("tests/c");
    let entries = std::fs::read_dir(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let mut sources: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    sources.retain(|path| path.extension().is_some_and(|end| end == "c"));
    sources.sort();
    tally.test(
        &format!("{label} compile {} programs", sources.len()),
        || {
            for source in &sources {
                compile_one(compiler, source, bin)?;
            }
            Ok(())
        },
    );
    Ok(())
}

/// Compiles one of them.
pub fn compile_one(compiler: &[&str], source: &Path, bin: &Path) -> Result {
    let stem = source
        .file_stem()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let object = stem == "profiler";
    let out = if object { format!("{stem}.so") } else { stem };
    let mut command = Command::new(compiler[0]);
    command
        .args(&compiler[1..])
        .args(["-std=c11", "-D_GNU_SOURCE", "-O1", "-g"]);
    command.args(["-Wall", "-Wextra", "-Werror"]);
    if object {
        command.args(["-shared", "-fPIC"]);
    }
    command
        .arg(source)
        .arg("-o")
        .arg(bin.join(out))
        .args(["-lm", "-lpthread"]);
    process::run(&mut command)
}

/// Compiles them with our wrapper for both ABIs: the folders below `test/c`.
pub fn compile_ours(tally: &mut Tally) -> Result {
    let mpicc = build::prefix(false).join("bin/mpicc");
    let mpicc = mpicc
        .to_str()
        .ok_or("the path of target/prefix is not text")?;
    for (abi, compiler) in [
        ("standard", &[mpicc][..]),
        ("mpich", &[mpicc, "-abi=mpich"]),
    ] {
        let bin = build::target().join("test/c").join(abi);
        compile(compiler, &bin, tally, &format!("c/{abi}"))?;
    }
    Ok(())
}

/// Runs the stage.
pub fn run(options: &Options, tally: &mut Tally) -> Result {
    compile_ours(tally)?;
    let ground = options.ground();
    for abi in ["standard", "mpich"] {
        let bin = build::target().join("test/c").join(abi);
        for test in table()? {
            let ranks = if abi == "mpich" {
                &test.mpich
            } else {
                &test.ranks
            };
            for &n in ranks {
                let name = format!("c{}/{abi}/{} -n {n}", options.way(), test.name);
                if options.wants(&name) && test.soak == options.soak && test.fits(options.over) {
                    tally.test(&name, || test.run(&bin, &ground, n));
                }
            }
        }
    }
    Ok(())
}
