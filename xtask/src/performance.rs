//! `cargo xtask performance`: the README's tables of figures, and drawings of them, from runs of `yamabiko bench` beside the other libraries.
//!
//! What is between the two marks in `README.md`, and all in `docs/performance`, is written by this and by nobody else.

use std::path::Path;
use std::process::Command;

use crate::spec::root;
use crate::{Result, build, process};

/// Arguments of `performance`.
#[derive(clap::Args)]
pub struct Args {
    /// Rounds of each experiment
    #[arg(long, default_value_t = 9)]
    rounds: u32,
    /// The libraries beside ours
    #[arg(long, default_value = "openmpi,impi,mpich")]
    against: String,
}

/// Where the drawings go, from the project's folder.
const DRAWINGS: &str = "docs/performance";
/// What stands before the tables in the README, and behind them.
const BEGIN: &str = "<!-- cargo xtask performance: begin -->\n";
const END: &str = "<!-- cargo xtask performance: end -->\n";
/// What is measured: the name of its drawing, and the arguments of `yamabiko bench`.
const RUNS: [(&str, &[&str]); 3] = [
    (
        "messages",
        &["latency", "--sizes", "8,1k,8k,64k,256k,1M,4M"],
    ),
    (
        "collectives",
        &["collectives", "--sizes", "8,1k,8k,64k,1M,8M"],
    ),
    ("others", &["rate", "depth", "startup", "idle"]),
];

/// Measures, and writes all that.
pub fn run(args: &Args) -> Result {
    let drawings = root().join(DRAWINGS);
    std::fs::create_dir_all(&drawings).map_err(|e| format!("{}: {e}", drawings.display()))?;
    let told = build::target().join("performance.md");
    let mut tables = String::new();
    for (name, what) in RUNS {
        let mut bench = Command::new(build::prefix(false).join("bin/yamabiko"));
        bench.arg("bench").args(what);
        bench.args(["--against", &args.against]);
        bench.arg("--rounds").arg(args.rounds.to_string());
        bench.arg("--markdown").arg(&told);
        bench
            .arg("--svg")
            .arg(drawings.join(name).with_extension("svg"));
        process::run(&mut bench)?;
        let (what, rounds) = (what.join(" "), args.rounds);
        let against = &args.against;
        tables.push_str(&format!(
            "### `yamabiko bench {what} --against {against} --rounds {rounds}`\n\n{}\n",
            read(&told)?
        ));
    }
    let readme = root().join("README.md");
    let text = inserted(&read(&readme)?, &tables)?;
    std::fs::write(&readme, text).map_err(|e| format!("{}: {e}", readme.display()))
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
