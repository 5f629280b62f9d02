//! What it takes to start a persistent 8-byte `MPI_Allreduce` that the kernel runs (`YAMABIKO_CAD=ring`), up to the system call that hands
//! its chains over.
//!
//! Callgrind can't say what comes before a system call, and has signals come at other times; so each rank goes from the call on in
//! single steps (`icount_steps.c`), which count every instruction of the process: the caller's, the libraries', and handlers' of signals. What a
//! start may take depends on how many entries it hands over, which are counted too.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{callgrind::Profile, rows};
use crate::spec::root;
use crate::{Result, build, process};

/// Jobs that are counted: the more ranks, the more entries.
pub const RANKS: [u32; 3] = [2, 4, 8];
/// Starts that are counted in each.
const STARTS: usize = 5;
/// Functions that are shown.
const SHOWN: usize = 16;

/// What a start may take.
#[derive(serde::Deserialize)]
pub struct Limit {
    /// Instructions with one entry.
    first: f64,
    /// More for each further entry.
    further: f64,
}

/// A rank's starts.
#[derive(Debug, Default, PartialEq)]
struct Counted {
    /// Of each start, instructions and entries handed over.
    starts: Vec<(u64, u64)>,
    /// Where the instructions of all of them lie.
    profile: Profile,
}

/// Of a job of so many ranks, the one that hands over the most.
#[derive(serde::Serialize)]
pub struct Figure {
    ranks: u32,
    /// Of a start.
    entries: u64,
    /// The median of some starts.
    instructions: u64,
    #[serde(skip)]
    profile: Profile,
}

impl Figure {
    fn allowed(&self, limit: &Limit) -> f64 {
        limit.first + limit.further * self.entries.saturating_sub(1) as f64
    }

    /// Whether it takes no more than it may.
    pub fn judge(&self, limit: &Limit) -> Result {
        let (allowed, entries) = (self.allowed(limit), self.entries);
        match self.instructions as f64 <= allowed {
            true => Ok(()),
            false => Err(format!(
                "{} instructions for {entries} entries; tests/icount.toml allows {allowed}. `cargo xtask icount` shows where they are",
                self.instructions
            )),
        }
    }
}

/// The programs, compiled.
pub struct Programs {
    home: PathBuf,
    work: PathBuf,
    steps: PathBuf,
    issue: PathBuf,
}

impl Programs {
    /// Compiles them for an installation.
    pub fn new(prefix: &Path) -> Result<Programs> {
        let work = build::target().join("icount");
        build::make_folder(&work)?;
        let (steps, issue) = (work.join("icount_steps"), work.join("icount_issue"));
        let from = |name: &str| root().join("crates/bench/kernels").join(name);
        let mut cc = Command::new("cc");
        cc.args(["-O2", "-o"])
            .arg(&steps)
            .arg(from("icount_steps.c"));
        process::run(&mut cc)?;
        let mut mpicc = Command::new(prefix.join("bin/mpicc"));
        mpicc
            .args(["-O2", "-o"])
            .arg(&issue)
            .arg(from("icount_issue.c"));
        process::run(&mut mpicc)?;
        Ok(Programs {
            home: prefix.to_owned(),
            work,
            steps,
            issue,
        })
    }

    /// Counts in a job of so many ranks.
    pub fn count(&self, ranks: u32) -> Result<Figure> {
        let out = self.work.join("steps");
        // Anew: each rank writes a file of its own.
        let _ = std::fs::remove_dir_all(&out);
        build::make_folder(&out)?;
        let mut job = Command::new(self.home.join("bin/mpiexec"));
        job.args(["-genv", "YAMABIKO_CAD", "ring", "-n", &ranks.to_string()])
            .arg(&self.steps)
            .arg(out.join("rank"))
            .arg(&self.issue)
            .arg(STARTS.to_string());
        process::output(&mut job)?;
        let failed = |e: std::io::Error| format!("{}: {e}", out.display());
        let mut all = Vec::new();
        for file in std::fs::read_dir(&out).map_err(failed)? {
            let path = file.map_err(failed)?.path();
            let text = std::fs::read_to_string(&path).map_err(failed)?;
            let counted = parse(&text).filter(|counted| counted.starts.len() == STARTS);
            let wrong = || {
                format!(
                    "{}: {STARTS} starts of the kernel's were not counted",
                    path.display()
                )
            };
            all.push(counted.ok_or_else(wrong)?);
        }
        if all.len() != ranks as usize {
            return Err(format!("{} of {ranks} ranks were counted", all.len()));
        }
        let figures = all.into_iter().map(|counted| figure(ranks, counted));
        let most = figures.max_by_key(|figure| (figure.entries, figure.instructions));
        most.ok_or_else(|| "there are no ranks".to_owned())
    }
}

fn figure(ranks: u32, mut counted: Counted) -> Figure {
    counted.starts.sort_unstable();
    let (instructions, entries) = counted.starts[counted.starts.len() / 2];
    Figure {
        ranks,
        entries,
        instructions,
        profile: counted.profile,
    }
}

/// Reads what `icount_steps.c` has written; `None` if a start did not come to the system call.
fn parse(text: &str) -> Option<Counted> {
    let mut counted = Counted::default();
    for line in text.lines() {
        match line.split_whitespace().collect::<Vec<_>>()[..] {
            ["start", steps, "entries", entries, "calls", _] => {
                let start = (steps.parse().ok()?, entries.parse().ok()?);
                counted.starts.push(start);
            }
            ["place", at, count, object] => {
                let place = (object.to_owned(), u64::from_str_radix(at, 16).ok()?);
                counted.profile.places.insert(place, count.parse().ok()?);
            }
            _ => return None,
        }
    }
    Some(counted)
}

/// Counts and shows all.
pub fn show(prefix: &Path, limit: &Limit) -> Result<Vec<Figure>> {
    let programs = Programs::new(prefix)?;
    println!(
        "\nMPI_Start of a persistent MPI_Allreduce of 8 bytes, YAMABIKO_CAD=ring, up to io_uring_enter\n"
    );
    println!(
        "{:>6}{:>9}{:>14}{:>9}",
        "ranks", "entries", "instructions", "allowed"
    );
    let mut figures = Vec::new();
    for ranks in RANKS {
        let figure = programs.count(ranks)?;
        let (entries, instructions) = (figure.entries, figure.instructions);
        println!(
            "{ranks:>6}{entries:>9}{instructions:>14}{:>9}",
            figure.allowed(limit)
        );
        figures.push(figure);
    }
    if let Some(figure) = figures.iter().find(|figure| figure.ranks == 4) {
        println!("\nof the job of 4 ranks, by function:");
        for (function, count) in by_function(&figure.profile)?.into_iter().take(SHOWN) {
            println!("{:>9.1}  {function}", count as f64 / STARTS as f64);
        }
    }
    Ok(figures)
}

/// Instructions by the function that holds them, the most first. What was inlined belongs to whom it was inlined into.
fn by_function(profile: &Profile) -> Result<Vec<(String, u64)>> {
    let mut functions: BTreeMap<String, u64> = BTreeMap::new();
    let mut objects: BTreeMap<&str, Vec<(u64, u64)>> = BTreeMap::new();
    for ((object, at), count) in &profile.places {
        objects.entry(object).or_default().push((*at, *count));
    }
    for (object, places) in objects {
        let frames = rows::frames(object, places.iter().map(|place| place.0))?;
        for ((_, count), frames) in places.iter().zip(frames) {
            let outer = frames.last().map_or("?", |(function, _)| function);
            *functions.entry(outer.to_owned()).or_default() += count;
        }
    }
    let mut all: Vec<_> = functions.into_iter().collect();
    all.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_read() {
        let text = "start 700 entries 23 calls 1\nstart 690 entries 23 calls 1\nstart 710 entries 23 calls 1\n\
            place 1f0 3 /x/lib.so\n";
        let counted = parse(text).unwrap();
        assert_eq!(
            counted.profile.places,
            [(("/x/lib.so".into(), 0x1f0), 3)].into()
        );
        let figure = figure(4, counted);
        assert_eq!((figure.entries, figure.instructions), (23, 700));
        let limit = |first| Limit {
            first,
            further: 15.0,
        };
        assert!(figure.judge(&limit(370.0)).is_ok() && figure.judge(&limit(369.0)).is_err());
        assert_eq!(parse("start 5 entries 1 calls 0\nstart endless\n"), None);
    }
}
