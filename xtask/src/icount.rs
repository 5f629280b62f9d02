//! `cargo xtask icount`: how many instructions short MPI calls take, in both libraries, counted by
//! callgrind on rank 0 of two.
//!
//! A call's figure is the difference between a run of `N` and one of `2 N` rounds, divided by the
//! calls in `N`, so that what happens once (binding of symbols, the first message of a pair) drops
//! out. The caller's share (its loop and arguments, and the jump through the PLT) is counted too,
//! as published figures of other libraries have it, and shown. Figures are recorded, not judged.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::spec::root;
use crate::{Result, build, process};

/// Arguments of `icount`.
#[derive(clap::Args)]
pub struct Args {
    /// The installation to count; `<target>/prefix` unless given
    #[arg(long)]
    prefix: Option<PathBuf>,
}

/// Rounds of the shorter run.
const ROUNDS: u32 = 8;
/// Calls in a round: `BATCH` of `icount.c`.
const BATCH: u32 = 16;

/// What is counted: the name for people, the word of `icount.c`, its function.
const CALLS: [(&str, &str, &str); 6] = [
    ("Isend", "isend", "counted_isend"),
    ("Irecv", "irecv", "counted_irecv"),
    ("Wait, send completed", "wait_send", "counted_wait"),
    ("Wait, receive completed", "wait_recv", "counted_wait"),
    ("Send", "send", "counted_send"),
    ("Recv, message there", "recv", "counted_recv"),
];

/// The ABIs: name and options of mpicc.
const ABIS: [(&str, &[&str]); 2] = [("standard", &[]), ("mpich", &["-abi=mpich"])];

/// Instructions of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Count {
    /// All that were collected.
    total: u64,
    /// Those of the counted function itself and of the PLT.
    caller: u64,
}

/// Instructions of one call.
#[derive(serde::Serialize)]
struct Figure {
    abi: &'static str,
    call: &'static str,
    /// With the caller's share and the PLT.
    instructions: f64,
    /// The caller's share and the PLT.
    caller: f64,
}

/// Runs the subcommand.
pub fn run(args: &Args) -> Result {
    let prefix = args.prefix.clone().unwrap_or_else(|| build::prefix(false));
    let work = build::target().join("icount");
    std::fs::create_dir_all(&work).map_err(|e| format!("{}: {e}", work.display()))?;
    let mut figures = Vec::new();
    println!("4 bytes, MPI_CHAR, MPI_COMM_WORLD; instructions per call, with caller and PLT\n");
    println!(
        "{:<10}{:<26}{:>12}{:>12}{:>12}",
        "ABI", "call", "all", "caller", "library"
    );
    for (abi, options) in ABIS {
        let program = work.join(format!("icount-{abi}"));
        let mut mpicc = Command::new(prefix.join("bin/mpicc"));
        mpicc.args(options).args(["-O2", "-o"]).arg(&program);
        mpicc.arg(root().join("crates/bench/kernels/icount.c"));
        process::run(&mut mpicc)?;
        for (call, word, function) in CALLS {
            let once = count(&prefix, &program, &work, word, function, ROUNDS)?;
            let twice = count(&prefix, &program, &work, word, function, 2 * ROUNDS)?;
            let figure = Figure {
                abi,
                call,
                instructions: each(once.total, twice.total),
                caller: each(once.caller, twice.caller),
            };
            println!(
                "{:<10}{:<26}{:>12.1}{:>12.1}{:>12.1}",
                abi,
                call,
                figure.instructions,
                figure.caller,
                figure.instructions - figure.caller
            );
            figures.push(figure);
        }
    }
    let path = build::target().join("icount.json");
    let text = serde_json::to_string_pretty(&figures).map_err(|e| e.to_string())?;
    std::fs::write(&path, text + "\n").map_err(|e| format!("{}: {e}", path.display()))?;
    println!("\n{}", path.display());
    Ok(())
}

/// Instructions of one call, from runs of `ROUNDS` and twice as many.
fn each(once: u64, twice: u64) -> f64 {
    (twice as f64 - once as f64) / f64::from(ROUNDS * BATCH)
}

/// Counts what rank 0 executes inside `function`.
fn count(
    prefix: &Path,
    program: &Path,
    work: &Path,
    word: &str,
    function: &str,
    rounds: u32,
) -> Result<Count> {
    let file = work.join("callgrind.out");
    let rounds = rounds.to_string();
    let mut job = Command::new(prefix.join("bin/mpiexec"));
    job.args(["-n", "1", "valgrind", "-q", "--tool=callgrind"])
        .arg(format!("--callgrind-out-file={}", file.display()))
        .arg(format!("--toggle-collect={function}"))
        .arg(program)
        .args([word, &rounds])
        .args([":", "-n", "1"])
        .arg(program)
        .args([word, &rounds]);
    process::output(&mut job)?;
    let text = std::fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))?;
    parse(&text, function)
        .ok_or_else(|| format!("{}: `{function}` was not counted", file.display()))
}

/// Reads callgrind's output: the total, and the lines of cost of `function` itself. The line after
/// `calls=` is the cost of a call, which is the callee's.
fn parse(text: &str, function: &str) -> Option<Count> {
    let total = text
        .lines()
        .find_map(|line| {
            line.strip_prefix("totals: ")
                .or(line.strip_prefix("summary: "))
        })?
        .trim()
        .parse()
        .ok()?;
    let mut numbers = std::collections::BTreeMap::new();
    let (mut caller, mut inside, mut of_call, mut seen) = (0, false, false, false);
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("fn=").or(line.strip_prefix("cfn=")) {
            // "(5) name" gives a name its number, "(5)" uses it.
            let (number, name) = name.split_once(' ').unwrap_or((name, ""));
            if !name.is_empty() {
                numbers.insert(number.to_owned(), name.to_owned());
            }
            if line.starts_with("fn=") {
                inside = numbers.get(number).is_some_and(|known| known == function);
                seen |= inside;
            }
        } else if line.starts_with("calls=") {
            of_call = true;
        } else if line.starts_with(|c: char| c.is_ascii_digit() || "+-*".contains(c)) {
            let cost = line
                .split_whitespace()
                .nth(1)
                .and_then(|c| c.parse::<u64>().ok());
            if inside && !of_call {
                caller += cost.unwrap_or(0);
            }
            of_call = false;
        }
    }
    (seen && total > 0).then_some(Count { total, caller })
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "events: Ir\n\nob=(1) /x/icount\nfl=(1) icount.c\nfn=(1) counted_send\n20 4\n+1 10\n\
        cob=(2) /x/lib.so\ncfn=(2) PMPI_Send\ncalls=2 10\n* 100\n-1 2\n\nfn=(2)\n10 100\n\n\
        fn=(1)\n20 1\n\ntotals: 117\n";

    #[test]
    fn callers_share_is_what_is_its_own() {
        let count = parse(OUTPUT, "counted_send");
        assert_eq!(
            count,
            Some(Count {
                total: 117,
                caller: 17
            })
        );
    }

    #[test]
    fn a_function_that_did_not_run_is_no_figure() {
        assert_eq!(parse(OUTPUT, "counted_recv"), None);
        assert_eq!(parse("totals: 0\n", "counted_send"), None);
    }

    #[test]
    fn what_happens_once_drops_out() {
        assert!((each(1000 + 128 * 58, 1000 + 256 * 58) - 58.0).abs() < 1e-9);
    }
}
