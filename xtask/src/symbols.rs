//! `cargo xtask symbols`: the exported symbols of a built library against its export list.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::build::Library;
use crate::generate;
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
    Library::all()
        .iter()
        .try_for_each(|library| check(library, &lib.join(library.soname)))
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

/// The strong function that a symbol of the C library is a weak alias of.
fn strong_in_c(name: &str) -> Option<String> {
    name.starts_with("MPI_").then(|| format!("P{name}"))
}

/// The strong routine that a symbol of the Fortran library is a weak alias of.
fn strong_in_fortran(name: &str) -> Option<String> {
    let low = name.to_lowercase();
    let routine = low.trim_start_matches('p').strip_prefix("mpi_")?;
    let strong = format!("pmpi_{}_", routine.trim_end_matches('_'));
    (strong != name).then_some(strong)
}

/// Everything that is wrong with the symbols of a library.
fn faults(
    expected: &[String],
    found: &BTreeMap<String, Symbol>,
    strong_of: fn(&str) -> Option<String>,
) -> Vec<String> {
    let mut faults = Vec::new();
    for name in expected {
        let Some(symbol) = found.get(name) else {
            faults.push(format!("{name} is not exported"));
            continue;
        };
        let Some(partner) = strong_of(name) else {
            continue;
        };
        let Some(strong) = found.get(&partner) else {
            continue;
        };
        if symbol.kind != 'W' {
            faults.push(format!("{name} is not weak"));
        }
        if strong.kind != 'T' {
            faults.push(format!("{partner} is not a strong function"));
        }
        if symbol.address != strong.address {
            faults.push(format!("{name} and {partner} have different addresses"));
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
/// address (in Fortran, all names weak but `pmpi_x_`), nothing else, no version nodes, no static TLS, no executable stack.
pub fn check(which: &Library, library: &Path) -> Result {
    let nm = process::output(
        Command::new("nm")
            .args(["-D", "--defined-only"])
            .arg(library),
    )?;
    let found = parse(&nm);
    let mut faults = if which.is_fortran {
        faults(
            &generate::fortran_symbols(which.abi)?,
            &found,
            strong_in_fortran,
        )
    } else {
        faults(&generate::symbols(which.abi)?, &found, strong_in_c)
    };
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
        assert_eq!(
            faults(&expected, &parse(good), strong_in_c),
            Vec::<String>::new()
        );
        let bad = "10 T MPI_A\n10 T PMPI_A\n20 W MPI_B\n28 T PMPI_B\n30 T extra\n";
        let said = faults(&expected, &parse(bad), strong_in_c);
        assert_eq!(
            said,
            [
                "MPI_A is not weak",
                "MPI_B and PMPI_B have different addresses",
                "extra should not be exported"
            ]
        );
    }

    #[test]
    fn fortran_names_are_aliases_of_one() {
        for name in ["mpi_a", "MPI_A", "PMPI_A", "pmpi_a__", "mpi_a_"] {
            assert_eq!(
                strong_in_fortran(name).as_deref(),
                Some("pmpi_a_"),
                "{name}"
            );
        }
        assert_eq!(strong_in_fortran("pmpi_a_"), None);
        assert_eq!(strong_in_fortran("mpipriv1_"), None);
    }
}
