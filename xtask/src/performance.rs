//! `cargo xtask performance`: tables of figures, and drawings of them, from runs of `yamabiko bench` beside the other libraries.
//!
//! What is between the two marks in `README.md`, and all in `docs/performance`, is written by this and by nobody else.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::spec::root;
use crate::{Result, build, process};

/// Arguments of `performance`.
#[derive(clap::Args)]
pub struct Args {
    /// Rounds of each experiment
    #[arg(long, default_value_t = 9)]
    rounds: u32,
    /// As many rounds near as far, waiting up to so many seconds in each part (see `yamabiko bench`)
    #[arg(long, value_name = "SECONDS")]
    each_regime: Option<u32>,
    /// The libraries beside ours
    #[arg(long, default_value = "openmpi,impi,mpich")]
    against: String,
    /// Only what goes into the README, only what goes into files, or only the experiments of papers
    #[arg(long)]
    only: Option<Place>,
}

/// Where tables go.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Place {
    /// The README.
    Readme,
    /// Files beside the drawings.
    Files,
    /// The same, of the experiments of papers, which take long beside a library that spins where ranks outnumber processors.
    Papers,
}

/// Where the drawings go, from the project's folder.
const FOLDER: &str = "docs/performance";
/// What stands before the tables in the README, and behind them.
const BEGIN: &str = "<!-- cargo xtask performance: begin -->\n";
const END: &str = "<!-- cargo xtask performance: end -->\n";
/// What is measured: the name of its files, and the arguments of `yamabiko bench`.
const RUNS: [(&str, Place, &[&str]); 4] = [
    (
        "messages",
        Place::Readme,
        &["latency", "--sizes", "8,1k,8k,64k,256k,1M,4M"],
    ),
    (
        "collectives",
        Place::Readme,
        &["collectives", "--sizes", "8,1k,8k,64k,1M,8M"],
    ),
    (
        "others",
        Place::Files,
        &[
            "rate",
            "exchange",
            "depth",
            "threads",
            "datatypes",
            "startup",
            "idle",
        ],
    ),
    ("paper", Place::Papers, &["fmpl"]),
];

/// Measures, and writes all that.
pub fn run(args: &Args) -> Result {
    build::make_folder(&root().join(FOLDER))?;
    let mut tables = String::new();
    for (name, place, what) in RUNS {
        if args.only.is_some_and(|only| only != place) {
            continue;
        }
        let told = measure(args, name, what)?;
        match place {
            Place::Readme => tables.push_str(&format!("#{told}\n")),
            Place::Files | Place::Papers => build::write(&file(name, "md"), &told)?,
        }
    }
    if tables.is_empty() {
        return Ok(());
    }
    let readme = root().join("README.md");
    build::write(&readme, &inserted(&read(&readme)?, &tables)?)
}

fn file(name: &str, ending: &str) -> PathBuf {
    root().join(FOLDER).join(name).with_extension(ending)
}

/// Runs experiments and draws them; the tables.
fn measure(args: &Args, name: &str, what: &[&str]) -> Result<String> {
    let tables = build::target().join("performance.md");
    let (against, rounds) = (&args.against, args.rounds);
    let mut how = vec!["--rounds".to_owned(), rounds.to_string()];
    if let Some(seconds) = args.each_regime {
        how.extend(["--each-regime".to_owned(), seconds.to_string()]);
    }
    let mut bench = Command::new(build::prefix(false).join("bin/yamabiko"));
    bench.arg("bench").args(what).args(["--against", against]);
    bench.args(&how).arg("--markdown").arg(&tables);
    bench.arg("--svg").arg(file(name, "svg"));
    process::run(&mut bench)?;
    let (what, how) = (what.join(" "), how.join(" "));
    let command = format!("yamabiko bench {what} --against {against} {how}");
    Ok(format!("## `{command}`\n\n{}", read(&tables)?))
}

fn read(file: &Path) -> Result<String> {
    std::fs::read_to_string(file).map_err(|e| format!("{}: {e}", file.display()))
}

/// A text with these tables between its marks.
fn inserted(text: &str, tables: &str) -> Result<String> {
    let parts = text
        .split_once(BEGIN)
        .and_then(|(before, rest)| Some((before, rest.split_once(END)?.1)));
    let (before, behind) = parts.ok_or("README.md has no place for the tables")?;
    let tables = tables.trim_end();
    Ok(format!("{before}{BEGIN}\n{tables}\n\n{END}{behind}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_take_the_place_of_others() {
        let old = format!("a\n{BEGIN}old\n{END}z\n");
        let new = inserted(&old, "new\n\n").unwrap();
        assert_eq!(new, format!("a\n{BEGIN}\nnew\n\n{END}z\n"));
        assert_eq!(inserted(&new, "new").unwrap(), new);
        assert!(inserted("a", "new").is_err());
        assert!(inserted(&format!("{END}{BEGIN}"), "new").is_err());
    }

    #[test]
    fn the_readme_has_a_place_for_them() {
        assert!(inserted(&read(&root().join("README.md")).unwrap(), "").is_ok());
    }
}
