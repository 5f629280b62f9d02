//! Stage `blacs`: the programs of `tests/blacs`, on our libblacs and both of our MPI libraries.
//!
//! `oracle` computes for itself what every process must have after each step; the others are about sends that nobody
//! answers, MPI and BLACS in one program, and what a wrong call says.

use super::ground::Ground;
use super::job::Job;
use super::{Options, Tally};
use crate::spec::root;
use crate::{Result, build, process};
use std::path::{Path, PathBuf};
use std::process::Command;

const PROGRAMS: [&str; 5] = ["oracle", "unanswered", "contexts", "coexist", "wrong"];

/// Grids of the oracle: rows and columns.
const GRIDS: [(u32, u32); 12] = [
    (1, 1),
    (1, 2),
    (2, 1),
    (3, 1),
    (2, 2),
    (1, 5),
    (2, 3),
    (3, 2),
    (7, 1),
    (2, 4),
    (8, 1),
    (1, 8),
];

/// What is wrong, on how many processes, and what has to be said of it.
const WRONG: [(&str, u32, &[&str]); 12] = [
    ("abort", 3, &["exiting with error #17"]),
    ("place", 2, &["RDEST, CDEST out of range"]),
    ("scope", 2, &["Unknown scope 'X'"]),
    ("top", 2, &["Unknown topology 'q'"]),
    ("context", 2, &["Invalid context handle"]),
    ("size", 2, &["longer than the matrix that receives it"]),
    ("lda", 2, &["Illegal LDA, LDA=2, M=3; LDA assumed to be 3"]),
    ("sum", 3, &["Illegal LDA, LDA=1, M=3; LDA assumed to be 3"]),
    ("ldia", 2, &["LDIA too small (LDIA=2, but M=3)"]),
    (
        "grids",
        2,
        &["All 64 contexts that processes can share are in use"],
    ),
    (
        "letters",
        1,
        &[
            "UPLO=X, will be assumed to mean LOWER",
            "DIAG=?, will be assumed to mean NON-UNIT",
            "Illegal number of rows, M=-1",
        ],
    ),
    (
        "exit",
        2,
        &["waiting in BLACS: sends that nobody has received, peer 1"],
    ),
];

/// Runs the stage.
pub fn run(options: &Options, tally: &mut Tally) -> Result {
    let ground = options.ground();
    for abi in ["standard", "mpich"] {
        let bin = build::target().join("test/blacs").join(abi);
        let compiled = format!("blacs/{abi} compile {} programs", PROGRAMS.len());
        tally.test(&compiled, || compile(abi, &bin));
        let way = options.way();
        let mut test = |name: String, body: &dyn Fn() -> Result| {
            let name = format!("blacs{way}/{abi}/{name}");
            if options.wants(&name) {
                tally.test(&name, body);
            }
        };
        // The programs are the same; what differs between the ABIs is little.
        let grids = if abi == "mpich" {
            &GRIDS[4..5]
        } else {
            &GRIDS[..]
        };
        let much = if options.soak { 20 } else { 1 };
        for &(rows, columns) in grids {
            for (what, rounds, most) in [("small", 1500 * much, 40), ("large", 40 * much, 900)] {
                let name = format!("oracle, {what} matrices, {rows} x {columns}");
                test(name, &|| {
                    let sides = [rows, columns, rounds, most].map(|n| n.to_string());
                    passes(&ground, &bin, "oracle", rows * columns, &sides)
                });
            }
        }
        for ranks in [2, 3] {
            test(format!("unanswered -n {ranks}"), &|| {
                passes(&ground, &bin, "unanswered", ranks, &[])
            });
        }
        for ranks in [1, 2, 3, 4, 6] {
            test(format!("contexts -n {ranks}"), &|| {
                passes(&ground, &bin, "contexts", ranks, &[])
            });
        }
        for ranks in [1, 2, 3, 4] {
            test(format!("coexist -n {ranks}"), &|| {
                passes(&ground, &bin, "coexist", ranks, &[])
            });
        }
        for (what, ranks, says) in WRONG {
            test(format!("wrong {what}"), &|| {
                let job = job(&ground, &bin, "wrong", ranks, &[what.to_owned()]);
                // That one waits for ever: what it waits for is asked for.
                let limit_s = if what == "exit" { "3" } else { "" };
                let says: Vec<_> = says.iter().map(|&words| words.to_owned()).collect();
                job.env("MPIEXEC_TIMEOUT", limit_s).fails(&says).map(|_| ())
            });
        }
    }
    Ok(())
}

fn job(ground: &Ground, bin: &Path, program: &str, ranks: u32, args: &[String]) -> Job {
    Job::new(&ground.launcher)
        .args(ground.start(ranks))
        .args([bin.join(program)])
        .args(args)
        .env("LD_LIBRARY_PATH", &ground.library)
        .watches(&ground.library)
        .limit_s(300)
}

fn passes(ground: &Ground, bin: &Path, program: &str, ranks: u32, args: &[String]) -> Result {
    job(ground, bin, program, ranks, args)
        .passes(&[format!("ok {program}")])
        .map(|_| ())
}

/// Compiles the programs; warnings are errors.
fn compile(abi: &str, bin: &PathBuf) -> Result {
    std::fs::create_dir_all(bin).map_err(|e| format!("{}: {e}", bin.display()))?;
    let prefix = build::prefix(false);
    for program in PROGRAMS {
        let mut command = Command::new(prefix.join("bin/mpicc"));
        if abi == "mpich" {
            command.arg("-abi=mpich");
        }
        command
            .args(["-std=c11", "-D_GNU_SOURCE", "-O1", "-g"])
            .args(["-Wall", "-Wextra", "-Werror"])
            .arg(root().join("tests/blacs").join(format!("{program}.c")))
            .arg("-o")
            .arg(bin.join(program))
            .args(["-lblacs", "-lm"]);
        process::run(&mut command)?;
    }
    Ok(())
}
