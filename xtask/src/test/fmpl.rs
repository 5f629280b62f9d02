//! Stage `fmpl`: the programs of `tests/fmpl` over shared memory, over the network and over both.
//!
//! Most are linked with libfmpl alone, which finds the MPI library by itself; `mixed`, `table`, `threads` and `threads_self` are MPI programs, built
//! for both ABIs; `fortran` needs a Fortran compiler, which is installed where it is missing. In `lost` and `forsaken` ranks die; to `forbidden` the kernel's copies
//! are refused midway.

use super::ground::{Ground, Over};
use super::job::Job;
use super::{Options, Tally, apt};
use crate::spec::root;
use crate::{Result, build, process};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Programs without MPI.
const ALONE: [&str; 4] = ["p2p", "short", "stash", "coll"];
/// MPI programs.
const WITH_MPI: [&str; 4] = ["mixed", "table", "threads", "threads_self"];
/// Those that run in ways of their own.
const APART: [&str; 4] = ["lost", "forsaken", "refused", "forbidden"];
/// What `forbidden` is refused, and from which rank on: between one message that the kernel copies and the next.
const FORBIDDEN: [(&str, &str); 4] = [
    ("write", "0"),
    ("write", "1"),
    ("read", "1"),
    ("memory", "0"),
];
/// The collectives that a rank dies in, and whether those are tried by messages as well.
const LOST: [(&str, bool); 8] = [
    ("barrier", true),
    ("bcast", true),
    ("bcast-long", true),
    ("reduce", true),
    ("reduce-long", true),
    ("allreduce", true),
    ("allreduce-long", true),
    ("create", false),
];
/// Orders in which FMPL and MPI start and end.
const ORDERS: [&str; 3] = ["mpi-first", "fmpl-first", "fmpl-last"];
/// Ranks over shared memory, and in other ways.
const RANKS: [u32; 6] = [1, 2, 3, 4, 5, 8];
const FLAGS: [&str; 7] = [
    "-std=c11",
    "-D_GNU_SOURCE",
    "-O1",
    "-g",
    "-Wall",
    "-Wextra",
    "-Werror",
];

/// Runs the stage.
pub fn run(options: &Options, tally: &mut Tally) -> Result {
    apt::need(&[
        ("gfortran", "gfortran"),
        ("pkg-config", "pkg-config"),
        ("c++", "g++"),
    ])?;
    let bin = build::target().join("test/fmpl");
    build::make_folder(&bin)?;
    tally.test("fmpl/compile", || compile(&bin));
    for over in [Over::Shm, Over::Tcp] {
        let ground = Ground::ours(over);
        for program in ALONE.into_iter().chain(["fortran"]) {
            for ranks in RANKS {
                one(options, tally, &ground, &bin, program, &[], ranks);
            }
        }
        for abi in ["standard", "mpich"] {
            for order in ORDERS {
                for ranks in [1, 2, 5] {
                    let program = format!("mixed-{abi}");
                    one(options, tally, &ground, &bin, &program, &[order], ranks);
                }
            }
            for ranks in [1, 2, 5] {
                let program = format!("table-{abi}");
                one(options, tally, &ground, &bin, &program, &[], ranks);
            }
            for ranks in [1, 3, 4, 8] {
                let program = format!("threads-{abi}");
                one(options, tally, &ground, &bin, &program, &[], ranks);
            }
            for ranks in [1, 2, 3] {
                let program = format!("threads_self-{abi}");
                one(options, tally, &ground, &bin, &program, &[], ranks);
            }
        }
        for ranks in [2, 3] {
            one(options, tally, &ground, &bin, "refused", &[], ranks);
        }
        copied(options, tally, &ground, &bin);
        deaths(options, tally, &ground, &bin);
    }
    for ranks in [1, 4] {
        let name = format!("fmpl/the example ring -n {ranks}");
        if options.wants(&name) {
            tally.test(&name, || example(&bin, ranks));
        }
    }
    Ok(())
}

/// Runs the example that the README names.
fn example(bin: &Path, ranks: u32) -> Result {
    let ground = Ground::ours(Over::Shm);
    Job::new(&ground.launcher)
        .args(ground.start(ranks))
        .args([bin.join("ring")])
        .env("LD_LIBRARY_PATH", &ground.library)
        .passes(&[format!("{ranks} processes counted {ranks}")])
        .map(|_| ())
}

/// Tests one program, whose job is to be judged.
fn judge(
    options: &Options,
    tally: &mut Tally,
    ground: &Ground,
    (program, args, ranks): (&str, &[&str], u32),
    judged: impl FnOnce(Job) -> Result,
) {
    let way = ground.over.name();
    let name = format!("fmpl/{way}/{}", [&[program], args].concat().join(" "));
    let name = format!("{name} -n {ranks}");
    if options.wants(&name) {
        let job = Job::new(&ground.launcher)
            .watches(&ground.library)
            .env("LD_LIBRARY_PATH", &ground.library);
        tally.test(&name, || judged(job));
    }
}

/// Runs one program.
fn one(
    options: &Options,
    tally: &mut Tally,
    ground: &Ground,
    bin: &Path,
    program: &str,
    args: &[&str],
    ranks: u32,
) {
    judge(options, tally, ground, (program, args, ranks), |job| {
        let said = program.split('-').next().unwrap_or(program);
        job.args(ground.start(ranks))
            .args([bin.join(program)])
            .args(args.iter().copied())
            .limit_s(90)
            .passes(&[format!("ok {said}")])
            .map(|_| ())
    });
}

/// Runs those whose long messages the kernel is to copy, whatever is faster here; over the network nothing is.
fn copied(options: &Options, tally: &mut Tally, ground: &Ground, bin: &Path) {
    if ground.over != Over::Shm {
        return;
    }
    let mut test = |program: &str, args: &[&str], ranks: u32| {
        let name = format!("copied {program}");
        judge(options, tally, ground, (&name, args, ranks), |job| {
            job.args(["-genv", "YAMABIKO_COPY", "direct"])
                .args(ground.start(ranks))
                .args([bin.join(program)])
                .args(args.iter().copied())
                .limit_s(90)
                .passes(&[format!("ok {program}")])
                .map(|_| ())
        });
    };
    for ranks in [2, 3] {
        for program in ["p2p", "coll"] {
            test(program, &[], ranks);
        }
        for (what, from) in FORBIDDEN {
            test("forbidden", &[what, from], ranks);
        }
    }
}

/// Runs the programs in which ranks die.
fn deaths(options: &Options, tally: &mut Tally, ground: &Ground, bin: &Path) {
    let mut test = |program: &str, args: &[&str], ranks: u32| {
        judge(options, tally, ground, (program, args, ranks), |job| {
            job.args(["-disable-auto-cleanup"])
                .args(ground.start(ranks))
                .args([bin.join(program)])
                .args(args.iter().copied())
                .limit_s(ground.over.limit_s(60))
                // With the killed rank's code.
                .fails(&[format!("ok {program}"), "SIGKILL".to_owned()])
                .map(|_| ())
        });
    };
    let all: &[u32] = match ground.over {
        Over::Shm => &[2, 4, 5],
        _ => &[4],
    };
    for (what, by_messages) in LOST {
        for &ranks in all {
            // Of the roots, leaves and members between, each is one of these in some of the runs.
            let victim = (ranks - 1).to_string();
            test("lost", &[what, &victim], ranks);
            test("lost", &[what, "0"], ranks);
            // Communicators run out where they are made without end.
            if what != "create" {
                test("lost", &[what, "1", "midway"], ranks);
            }
            if by_messages {
                test("lost", &[what, &victim, "software"], ranks);
                test("lost", &[what, "1", "software"], ranks);
                test("lost", &[what, "1", "software", "midway"], ranks);
            }
        }
    }
    for ranks in [2, 3, 5] {
        test("forsaken", &[], ranks);
    }
}

fn compile(bin: &Path) -> Result {
    let prefix = build::prefix(false);
    let source = |name: &str| root().join("tests/fmpl").join(name);
    let modules = prefix.join("lib/pkgconfig");
    let found = process::output(
        Command::new("pkg-config")
            .env("PKG_CONFIG_PATH", &modules)
            .args(["--cflags", "--libs", "fmpl"]),
    )?;
    let fmpl: Vec<&str> = found.split_whitespace().collect();
    for program in ALONE.into_iter().chain(APART) {
        let mut cc = Command::new("cc");
        cc.args(FLAGS).arg(source(&format!("{program}.c")));
        cc.arg("-o").arg(bin.join(program)).args(&fmpl).arg("-lm");
        process::run(&mut cc)?;
    }
    let mut cc = Command::new("cc");
    cc.args(FLAGS).arg(root().join("examples/fmpl/ring.c"));
    process::run(cc.arg("-o").arg(bin.join("ring")).args(&fmpl))?;
    let abis = ["standard", "mpich"].into_iter();
    for (abi, program) in abis.flat_map(|abi| WITH_MPI.map(|program| (abi, program))) {
        let mut cc = Command::new(prefix.join("bin/mpicc"));
        cc.arg(format!("-abi={abi}")).args(FLAGS);
        // A handle is an integer in one ABI and a pointer in the other.
        cc.args(["-Wno-int-to-pointer-cast", "-Wno-pointer-to-int-cast"]);
        cc.args(["-Wno-cast-function-type"]);
        cc.arg(source(&format!("{program}.c"))).arg("-o");
        cc.arg(bin.join(format!("{program}-{abi}")));
        cc.args(&fmpl).args(["-lpthread", "-ldl"]);
        process::run(&mut cc)?;
    }
    // The header is C++, too.
    let mut cxx = Command::new("c++");
    cxx.args(["-std=c++11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"]);
    cxx.args(["-x", "c++"]).arg(header(&prefix));
    process::run(&mut cxx)?;
    // Calls with arguments of several types in one place are how such interfaces are used.
    let mut fortran = Command::new("gfortran");
    fortran.args(["-g", "-fallow-argument-mismatch", "-w"]);
    fortran.arg(source("fortran.f90")).arg("-J").arg(bin);
    fortran.arg("-o").arg(bin.join("fortran")).args(&fmpl);
    process::run(&mut fortran)
}

fn header(prefix: &Path) -> PathBuf {
    prefix.join("include/fmpl.h")
}
