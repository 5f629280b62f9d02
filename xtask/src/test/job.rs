//! One run of a program under test, usually of mpiexec: with a time limit, its output kept, and its
//! processes watched for the MPI libraries they map.
//!
//! Only processes started here are ever killed: the program itself and its descendants, by their
//! numbers. Standard error goes to the same file as standard output, in the order written.

use crate::{Result, process};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Lines of output shown for a failed run.
const LINES_SHOWN: usize = 30;

/// A run to be made.
pub struct Job {
    command: Command,
    shown: String,
    limit: Duration,
    /// Folder whose MPI library has to be the one mapped, if that is watched.
    library: Option<PathBuf>,
    /// Whether a run in which no process was seen with it fails.
    proof: bool,
}

/// A run that is over.
pub struct Done {
    /// Exit code; none if a signal ended it.
    pub code: Option<i32>,
    /// Both output streams.
    pub output: String,
}

impl Job {
    /// A run of `program`.
    pub fn new(program: impl AsRef<Path>) -> Job {
        let program = program.as_ref();
        let mut command = Command::new(program);
        // What a surrounding MPI job or a shell has set must not leak in.
        for (name, _) in std::env::vars_os() {
            let name = name.to_string_lossy().into_owned();
            let foreign = [
                "PMI_",
                "PMIX_",
                "MPI",
                "OMPI_",
                "I_MPI_",
                "YAMABIKO_",
                "HYDR",
                "LD_",
            ];
            if foreign.iter().any(|start| name.starts_with(start)) {
                command.env_remove(&name);
            }
        }
        let shown = program.display().to_string();
        Job {
            command,
            shown,
            limit: Duration::from_secs(60),
            library: None,
            proof: false,
        }
    }

    /// Adds arguments.
    pub fn args<A: Into<OsString>>(mut self, args: impl IntoIterator<Item = A>) -> Job {
        for arg in args {
            let arg = arg.into();
            self.shown.push(' ');
            self.shown.push_str(&arg.to_string_lossy());
            self.command.arg(arg);
        }
        self
    }

    /// Sets a variable.
    pub fn env(mut self, name: &str, value: impl Into<OsString>) -> Job {
        self.command.env(name, value.into());
        self
    }

    /// Sets the folder to run in.
    pub fn folder(mut self, folder: &Path) -> Job {
        self.command.current_dir(folder);
        self
    }

    /// Sets the time limit.
    pub fn limit_s(mut self, seconds: u64) -> Job {
        self.limit = Duration::from_secs(seconds);
        self
    }

    /// Demands proof that the MPI library in this folder, and no other, is mapped by the ranks.
    pub fn proves(self, library: &Path) -> Job {
        Job {
            proof: true,
            ..self.watches(library)
        }
    }

    /// Looks whether another MPI library is mapped; for runs that may be over before anybody looks.
    pub fn watches(mut self, library: &Path) -> Job {
        self.library = Some(library.to_owned());
        self
    }

    /// Runs it. An error is a run that could not start, took too long, or mapped the wrong library.
    pub fn run(mut self) -> Result<Done> {
        let log = log_path()?;
        let file = File::create(&log).map_err(|e| format!("{}: {e}", log.display()))?;
        let again = file.try_clone().map_err(|e| e.to_string())?;
        self.command.stdin(Stdio::null()).stdout(file).stderr(again);
        let mut child = self
            .command
            .spawn()
            .map_err(|e| format!("{}: {e}", self.shown))?;
        let started = Instant::now();
        let mut watch = Watch::default();
        let mut pause = Duration::from_millis(2);
        let status = loop {
            if let Some(status) = child.try_wait().map_err(|e| e.to_string())? {
                break Some(status);
            }
            if started.elapsed() > self.limit {
                let below = descendants(child.id());
                // The number is still the child's: it has not been waited for.
                let _ = child.kill();
                let _ = child.wait();
                if !below.is_empty() {
                    process::kill(&below);
                }
                break None;
            }
            if self.library.is_some() {
                watch.look(child.id());
            }
            std::thread::sleep(pause);
            // A short run has its library mapped for a moment only.
            if !self.proof || watch.has_seen_any() {
                pause = (pause * 3 / 2).min(Duration::from_millis(30));
            }
        };
        let bytes = std::fs::read(&log).map_err(|e| format!("{}: {e}", log.display()))?;
        let _ = std::fs::remove_file(&log);
        let output = String::from_utf8_lossy(&bytes).into_owned();
        let Some(status) = status else {
            let limit = self.limit.as_secs();
            return Err(format!(
                "{}\nnot over after {limit} s\n{}",
                self.shown,
                tail(&output)
            ));
        };
        if let Some(library) = &self.library {
            watch
                .verdict(library, self.proof)
                .map_err(|why| format!("{}\n{why}\n{}", self.shown, tail(&output)))?;
        }
        Ok(Done {
            code: status.code(),
            output,
        })
    }

    /// Runs it; it has to end with code 0 and say each of `words`.
    pub fn passes(self, words: &[String]) -> Result<Done> {
        self.ends_with(0, words)
    }

    /// Runs it; it has to end with exit code `code` and say each of `words`.
    pub fn ends_with(self, code: i32, words: &[String]) -> Result<Done> {
        let shown = self.shown.clone();
        let done = self.run()?;
        if done.code != Some(code) {
            let code = done
                .code
                .map_or("a signal".into(), |c| format!("exit code {c}"));
            return Err(format!(
                "{shown}\nended with {code}\n{}",
                tail(&done.output)
            ));
        }
        done.says(&shown, words)?;
        Ok(done)
    }

    /// Runs it; it has to fail and say each of `words`.
    pub fn fails(self, words: &[String]) -> Result<Done> {
        let shown = self.shown.clone();
        let done = self.run()?;
        if done.code == Some(0) {
            return Err(format!(
                "{shown}\nended with exit code 0\n{}",
                tail(&done.output)
            ));
        }
        done.says(&shown, words)?;
        Ok(done)
    }
}

impl Done {
    fn says(&self, shown: &str, words: &[String]) -> Result {
        match words
            .iter()
            .find(|word| !self.output.contains(word.as_str()))
        {
            Some(word) => Err(format!(
                "{shown}\ndid not say `{word}`\n{}",
                tail(&self.output)
            )),
            None => Ok(()),
        }
    }
}

/// The end of a long output.
pub fn tail(output: &str) -> String {
    let lines: Vec<_> = output.lines().collect();
    lines[lines.len().saturating_sub(LINES_SHOWN)..].join("\n")
}

fn log_path() -> Result<PathBuf> {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let folder = crate::build::target().join("test/logs");
    std::fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    Ok(folder.join(format!("{}-{number}.log", std::process::id())))
}

/// Which processes were seen, and which MPI libraries each had mapped.
#[derive(Default)]
struct Watch {
    mapped: BTreeMap<u32, BTreeSet<PathBuf>>,
}

impl Watch {
    fn look(&mut self, root: u32) {
        for pid in descendants(root) {
            let Ok(maps) = std::fs::read_to_string(format!("/proc/{pid}/maps")) else {
                continue;
            };
            let libraries = maps
                .lines()
                .filter_map(|line| line.split_whitespace().nth(5))
                .filter(is_mpi);
            self.mapped
                .entry(pid)
                .or_default()
                .extend(libraries.map(PathBuf::from));
        }
    }

    /// Whether any MPI library was seen.
    fn has_seen_any(&self) -> bool {
        self.mapped.values().any(|libraries| !libraries.is_empty())
    }

    /// At least one process maps a library of `folder`, none maps another MPI library.
    fn verdict(&self, folder: &Path, proof: bool) -> Result {
        let folder = folder
            .canonicalize()
            .map_err(|e| format!("{}: {e}", folder.display()))?;
        let all: BTreeSet<_> = self.mapped.values().flatten().collect();
        if let Some(other) = all.iter().find(|path| !path.starts_with(&folder)) {
            return Err(format!(
                "another MPI library was mapped: {}",
                other.display()
            ));
        }
        if proof && all.is_empty() {
            return Err(format!(
                "no process was seen with the library of {}",
                folder.display()
            ));
        }
        Ok(())
    }
}

/// Whether a mapped file is an MPI library, ours or anybody's.
fn is_mpi(path: &&str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let library = [
        "libmpi.so",
        "libmpi_abi.so",
        "libmpich.so",
        "libmpichfort",
        "libmpifort",
        "libopen-pal",
        "libpmpi",
    ];
    library.iter().any(|start| name.starts_with(start))
}

/// All living processes below `root`, from the parents in /proc.
fn descendants(root: u32) -> Vec<u32> {
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    for entry in entries.flatten() {
        let Some(pid) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse::<u32>().ok())
        else {
            continue;
        };
        let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else {
            continue;
        };
        // The name may hold anything; what follows its last parenthesis is regular.
        let parent = stat
            .rsplit(')')
            .next()
            .and_then(|rest| rest.split_whitespace().nth(1));
        if let Some(parent) = parent.and_then(|word| word.parse().ok()) {
            children.entry(parent).or_default().push(pid);
        }
    }
    let mut found = Vec::new();
    let mut next = vec![root];
    while let Some(pid) = next.pop() {
        for child in children.remove(&pid).unwrap_or_default() {
            found.push(child);
            next.push(child);
        }
    }
    found
}
