//! `cargo xtask symbols`: the exported symbols of a built library against its export list.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::generate::{self, Abi};
use crate::{Result, build, process};

/// Arguments of `symbols`.
#[derive(clap::Args)]
pub struct Args {
    /// Look at the libraries of `build --dev`
    #[arg(long)]
    dev: bool,
    /// Folder of the libraries, where it isn't that of the last build
    #[arg(long)]
    lib: Option<PathBuf>,
}

/// Runs the subcommand.
pub fn run(args: &Args) -> Result {
    let lib = args
        .lib
        .clone()
        .unwrap_or_else(|| build::prefix(args.dev).join("lib"));
    Abi::ALL
        .into_iter()
        .try_for_each(|abi| check(abi, &lib.join(abi.library())))
}

/// What `nm` says of one symbol.
#[derive(Debug, PartialEq, Eq)]
struct Symbol {
    address: u64,
    kind: char,
}

fn parse(nm: &str) -> BTreeMap<String, Symbol> {
    let mut symbols = BTreeMap::new();
    for line in nm.lines() {
        let mut words = line.split_whitespace();
        let (Some(address), Some(kind), Some(name)) = (words.next(), words.next(), words.next())
        else {
            continue;
        };
        let address = u64::from_str_radix(address, 16).unwrap_or(0);
        let kind = kind.chars().next().unwrap_or('?');
        symbols.insert(name.to_string(), Symbol { address, kind });
    }
    symbols
}

/// Everything that is wrong with the symbols of a library.
fn faults(expected: &[String], found: &BTreeMap<String, Symbol>) -> Vec<String> {
    let mut faults = Vec::new();
    for name in expected {
        let Some(symbol) = found.get(name) else {
            faults.push(format!("{name} is not exported"));
            continue;
        };
        let Some(strong) = found.get(&format!("P{name}")) else {
            continue;
        };
        if symbol.kind != 'W' {
            faults.push(format!("{name} is not weak"));
        }
        if strong.kind != 'T' {
            faults.push(format!("P{name} is not a strong function"));
        }
        if symbol.address != strong.address {
            faults.push(format!("{name} and P{name} have different addresses"));
        }
    }
    for name in found.keys() {
        // A version node would show as NAME@@NODE, and as a symbol of its own.
        if expected.binary_search(name).is_err() {
            faults.push(format!("{name} should not be exported"));
        }
    }
    faults
}

/// Checks a library: every symbol of the export list, `MPI_X` weak and `PMPI_X` strong at one
/// address, nothing else, no version nodes, no static TLS, no executable stack.
pub fn check(abi: Abi, library: &Path) -> Result {
    let nm = process::output(
        Command::new("nm")
            .args(["-D", "--defined-only"])
            .arg(library),
    )?;
    let mut faults = faults(&generate::symbols(abi)?, &parse(&nm));
    let dynamic = process::output(
        Command::new("readelf")
            .args(["-d", "-l", "-W"])
            .arg(library),
    )?;
    for (word, why) in [
        ("STATIC_TLS", "it needs static TLS"),
        ("TEXTREL", "it has relocations in its code"),
        ("VERDEF", "it has version nodes"),
    ] {
        if dynamic.contains(word) {
            faults.push(why.into());
        }
    }
    let stack = dynamic
        .lines()
        .find(|l| l.contains("GNU_STACK"))
        .unwrap_or_default();
    if !stack.contains("RW ") {
        faults.push("its stack is executable".into());
    }
    if faults.is_empty() {
        return Ok(());
    }
    let many = faults.len();
    faults.truncate(20);
    Err(format!(
        "{}: {many} faults:\n  {}",
        library.display(),
        faults.join("\n  ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_found() {
        let expected = ["MPI_A", "MPI_B", "PMPI_A", "PMPI_B"].map(String::from);
        let good = "10 W MPI_A\n10 T PMPI_A\n20 W MPI_B\n20 T PMPI_B\n";
        assert_eq!(faults(&expected, &parse(good)), Vec::<String>::new());
        let bad = "10 T MPI_A\n10 T PMPI_A\n20 W MPI_B\n28 T PMPI_B\n30 T extra\n";
        let said = faults(&expected, &parse(bad));
        assert_eq!(
            said,
            [
                "MPI_A is not weak",
                "MPI_B and PMPI_B have different addresses",
                "extra should not be exported"
            ]
        );
    }
}
