//! Stage `cad`: the programs of `tests/cad`, which are linked with libcad and no MPI library, with each
//! executor, over shared memory, over the network and between two hosts of a lab.

use super::ground::{Ground, Over};
use super::job::Job;
use super::{Options, Tally, apt};
use crate::netlab::{self, Lab};
use crate::spec::root;
use crate::{Result, build, process};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The executors; a program is told which one it has to find at work.
const EXECUTORS: [&str; 2] = ["inline", "ring"];

/// A program, with what has to hold of its runs.
struct Program {
    name: &'static str,
    ranks: &'static [u32],
    executors: &'static [&'static str],
    /// Options of mpiexec.
    mpiexec: &'static [&'static str],
    /// Whether the job fails, as a rank of it is killed.
    fails: bool,
    says: &'static str,
}

const PROGRAMS: [Program; 4] = [
    Program {
        name: "pipeline",
        ranks: &[1, 2, 3, 4, 5],
        executors: &EXECUTORS,
        mpiexec: &[],
        fails: false,
        says: "ok pipeline",
    },
    Program {
        name: "relay",
        ranks: &[3, 4],
        executors: &["ring"],
        mpiexec: &[],
        fails: false,
        says: "ok relay",
    },
    Program {
        name: "late",
        ranks: &[1, 2, 3, 5],
        executors: &["ring"],
        mpiexec: &[],
        fails: false,
        says: "ok late",
    },
    Program {
        name: "lost",
        ranks: &[2, 3, 5],
        executors: &EXECUTORS,
        mpiexec: &["-disable-auto-cleanup"],
        fails: true,
        says: "ok lost",
    },
];

/// Runs the stage.
pub fn run(options: &Options, tally: &mut Tally) -> Result {
    apt::need(&[("pkg-config", "pkg-config"), ("c++", "g++")])?;
    let bin = build::target().join("test/cad");
    build::make_folder(&bin)?;
    tally.test("cad/compile", || compile(&bin));
    let lab = match netlab::unavailable() {
        None => Some(Lab::build(Over::Hosts.hosts())?),
        Some(why) => {
            println!("skipped {}: {why}", Over::Hosts.name());
            None
        }
    };
    let hosts = lab.as_ref().map(|lab| Ground {
        reach: Some(lab.launcher()),
        ..Ground::ours(Over::Hosts)
    });
    let here = [Over::Shm, Over::Tcp].map(Ground::ours);
    for ground in here.into_iter().chain(hosts) {
        let over = ground.over;
        for program in &PROGRAMS {
            for executor in program.executors {
                for &ranks in program.ranks {
                    let name =
                        format!("cad/{}/{executor}/{} -n {ranks}", over.name(), program.name);
                    if options.wants(&name) {
                        tally.test(&name, || play(&ground, &bin, program, executor, ranks));
                    }
                }
            }
        }
    }
    tally.test("cad/wrong executors are refused", || refused(&bin));
    tally.test("cad/what is forbidden is not used", || forbidden(&bin));
    tally.test("cad/executors of a job agree", || agree(&bin));
    Ok(())
}

fn job(ground: &Ground, program: PathBuf, options: &[&str], ranks: u32) -> Job {
    Job::new(&ground.launcher)
        .args(ground.start(ranks))
        .args(options.iter().copied())
        .args([program])
        .limit_s(90)
        .watches(&ground.library)
        .env("LD_LIBRARY_PATH", &ground.library)
}

fn play(ground: &Ground, bin: &Path, program: &Program, executor: &str, ranks: u32) -> Result {
    let job = job(ground, bin.join(program.name), program.mpiexec, ranks)
        .args([executor])
        .env("YAMABIKO_CAD", executor);
    let says = [program.says.to_owned()];
    match program.fails {
        true => job.fails(&says),
        false => job.passes(&says),
    }
    .map(|_| ())
}

/// An executor that does not exist is no reason to take another one.
fn refused(bin: &Path) -> Result {
    let ground = Ground::ours(Over::Shm);
    let says = [
        "YAMABIKO_CAD",
        "\"tasklet\"",
        "inline, ring, softirq and thread",
    ]
    .map(str::to_owned);
    job(&ground, bin.join("pipeline"), &[], 2)
        .args(["inline"])
        .env("YAMABIKO_CAD", "tasklet")
        .fails(&says)?;
    // These run no graphs.
    for executor in ["softirq", "thread"] {
        let why = format!("YAMABIKO_CAD={executor} can't be: it runs no graphs");
        job(&ground, bin.join("pipeline"), &[], 2)
            .args(["inline"])
            .env("YAMABIKO_CAD", executor)
            .fails(&[why])?;
    }
    Ok(())
}

/// Where io_uring is forbidden, asking for it fails and says so, and nothing else needs it.
fn forbidden(bin: &Path) -> Result {
    let ground = Ground::ours(Over::Shm);
    let pipeline = bin.join("pipeline").display().to_string();
    for executor in EXECUTORS {
        let job = job(&ground, bin.join("forbid"), &[], 2)
            .args(["io_uring", pipeline.as_str(), executor])
            .env("YAMABIKO_CAD", executor);
        match executor {
            "ring" => job.fails(&["YAMABIKO_CAD=ring can't be: io_uring is forbidden".to_owned()]),
            _ => job.passes(&["ok pipeline".to_owned()]),
        }?;
    }
    let info = process::output(
        Command::new(bin.join("forbid"))
            .arg("io_uring")
            .arg(ground.launcher.with_file_name("yamabiko"))
            .arg("info"),
    )?;
    match info.contains("in the kernel: not usable here: io_uring is forbidden") {
        true => Ok(()),
        false => Err(format!("yamabiko info does not say so:\n{info}")),
    }
}

/// Ranks that choose differently don't start.
fn agree(bin: &Path) -> Result {
    let ground = Ground::ours(Over::Shm);
    let program = bin.join("pipeline").display().to_string();
    let says = ["YAMABIKO_CAD=ring can't be: rank 0 does not use it".to_owned()];
    Job::new(&ground.launcher)
        .args([
            "-n",
            "1",
            "-env",
            "YAMABIKO_CAD",
            "inline",
            program.as_str(),
            "inline",
            ":",
        ])
        .args([
            "-n",
            "1",
            "-env",
            "YAMABIKO_CAD",
            "ring",
            program.as_str(),
            "ring",
        ])
        .limit_s(90)
        .env("LD_LIBRARY_PATH", &ground.library)
        .fails(&says)
        .map(|_| ())
}

fn compile(bin: &Path) -> Result {
    let prefix = build::prefix(false);
    let found = process::output(
        Command::new("pkg-config")
            .env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig"))
            .args(["--cflags", "--libs", "cad"]),
    )?;
    for name in PROGRAMS.iter().map(|p| p.name).chain(["forbid"]) {
        let mut cc = Command::new("cc");
        cc.args(["-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror"]);
        cc.arg(root().join(format!("tests/cad/{name}.c")));
        cc.arg("-o").arg(bin.join(name));
        cc.args(found.split_whitespace());
        process::run(&mut cc)?;
    }
    // The header is C++, too.
    let mut cxx = Command::new("c++");
    cxx.args(["-std=c++11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"]);
    cxx.args(["-x", "c++"]).arg(prefix.join("include/cad.h"));
    process::run(&mut cxx)
}
