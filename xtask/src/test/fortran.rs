//! Stage `fortran`: the programs of `tests/f`, compiled by our `mpifort` for both ABIs, on our libraries.

use super::ground::Ground;
use super::job::Job;
use super::{Options, Tally, apt};
use crate::spec::root;
use crate::{Result, build, install, process};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Numbers of ranks that each program is run on.
const RANKS: [u32; 4] = [1, 2, 3, 4];

/// A program: its name, its sources, options of the compiler, and the name that it says. The variants of
/// `fixed` and `p2p` differ in how they are linked and in how the compiler writes names.
type Program = (
    &'static str,
    &'static [&'static str],
    &'static [&'static str],
    &'static str,
);

const PROGRAMS: [Program; 15] = [
    ("p2p", &["p2p.f90", "check.f90"], &[], "p2p"),
    (
        "p2p, not position-independent",
        &["p2p.f90", "check.f90"],
        &["-no-pie", "-fno-pie"],
        "p2p",
    ),
    ("strings", &["strings.f90", "check.f90"], &[], "strings"),
    ("ops", &["ops.f90", "check.f90"], &[], "ops"),
    (
        "attributes",
        &["attributes.f90", "check.f90"],
        &[],
        "attributes",
    ),
    (
        "attributes, not position-independent",
        &["attributes.f90", "check.f90"],
        &["-no-pie", "-fno-pie"],
        "attributes",
    ),
    ("errors", &["errors.f90", "check.f90"], &[], "errors"),
    ("types", &["types.f90", "check.f90"], &[], "types"),
    ("coll", &["coll.f90", "check.f90"], &[], "coll"),
    ("comms", &["comms.f90", "check.f90"], &[], "comms"),
    ("greq", &["greq.f90", "check.f90"], &[], "greq"),
    ("topology", &["topology.f90", "check.f90"], &[], "topology"),
    ("memory", &["memory.f90", "check.f90"], &[], "memory"),
    ("fixed", &["fixed.f"], &[], "fixed"),
    (
        "fixed, two underscores",
        &["fixed.f"],
        &["-fsecond-underscore"],
        "fixed",
    ),
];

/// Where the programs of an ABI are, and how they are compiled.
struct Place {
    abi: &'static str,
    bin: PathBuf,
}

impl Place {
    /// One of our wrappers with the option that chooses the ABI, in the folder of the programs.
    fn wrapper(&self, name: &str) -> Command {
        let mut command = Command::new(build::prefix(false).join("bin").join(name));
        command
            .arg(format!("-abi={}", self.abi))
            .current_dir(&self.bin);
        command
    }

    fn compile(&self, (name, sources, options, _): &Program) -> Result {
        let mut mpifort = self.wrapper("mpifort");
        // The tests mix types of data on purpose, which mpif.h can't tell the compiler.
        mpifort.args(["-O1", "-g", "-w"]).args(*options);
        for source in *sources {
            mpifort.arg(root().join("tests/f").join(source));
        }
        process::run(mpifort.arg("-o").arg(name))
    }

    /// A C program with a Fortran part in a shared library, and those with functions in C.
    fn compile_mixed(&self) -> Result {
        let source = |name: &str| root().join("tests/f").join(name);
        let part = self.bin.join("libmixed_part.so");
        let mut mpifort = self.wrapper("mpifort");
        mpifort
            .args(["-O1", "-g", "-w", "-shared", "-fPIC", "-o"])
            .arg(&part);
        process::run(
            mpifort
                .arg(source("mixed_part.f90"))
                .arg(source("check.f90")),
        )?;
        let mut mpicc = self.wrapper("mpicc");
        mpicc
            .args(["-O1", "-g", "-Wall", "-Werror", "-o", "mixed"])
            .arg(source("mixed.c"));
        process::run(
            mpicc
                .arg(&part)
                .arg(format!("-Wl,-rpath,{}", self.bin.display())),
        )?;
        self.compile_over("profiled", &root().join("tests/c/profiler.c"))?;
        self.compile_over("unbuilt", &source("stand_in.c"))
    }

    /// A Fortran program with C functions that stand in front of the library's.
    fn compile_over(&self, program: &str, functions: &Path) -> Result {
        let object = self.bin.join(format!("{program}.so"));
        let mut mpicc = self.wrapper("mpicc");
        mpicc.args(["-O1", "-g", "-Wall", "-Werror", "-shared", "-fPIC", "-o"]);
        process::run(mpicc.arg(&object).arg(functions))?;
        let source = |name: &str| root().join("tests/f").join(name);
        let mut mpifort = self.wrapper("mpifort");
        mpifort.args(["-O1", "-g", "-w", "-o", program]);
        mpifort.arg(source(&format!("{program}.f90")));
        process::run(mpifort.arg(source("check.f90")).arg(object))
    }

    fn run(&self, ground: &Ground, ranks: u32, program: &str, says: &str) -> Result {
        Job::new(&ground.launcher)
            .args(ground.start(ranks))
            .watches(&ground.library)
            .args([self.bin.join(program)])
            .passes(&[format!("ok {says}")])
            .map(|_| ())
    }
}

/// The folder of an ABI with all programs in it.
fn compiled(abi: &'static str, tally: &mut Tally) -> Result<Place> {
    apt::need(&[("gfortran", "gfortran")])?;
    let place = Place {
        abi,
        bin: build::target().join("test/f").join(abi),
    };
    std::fs::create_dir_all(&place.bin).map_err(|e| format!("{}: {e}", place.bin.display()))?;
    let name = format!("fortran/{abi} compile {} programs", PROGRAMS.len() + 3);
    tally.test(&name, || {
        PROGRAMS
            .iter()
            .try_for_each(|program| place.compile(program))?;
        place.compile_mixed()
    });
    Ok(place)
}

/// The programs and our Fortran libraries on the C libraries of another implementation, for stage `cross`: our
/// libraries need nothing of ours below them.
pub fn over_theirs(options: &Options, tally: &mut Tally, theirs: &Ground) -> Result {
    let ours = build::target().join("test/f/libraries");
    std::fs::create_dir_all(&ours).map_err(|e| format!("{}: {e}", ours.display()))?;
    let path = format!("{}:{}", ours.display(), theirs.library.display());
    for (abi, fortran, c) in [
        ("standard", "libmpifort_abi.so.1", "libmpi_abi.so.1"),
        ("mpich", "libmpifort.so.12", "libmpi.so.12"),
    ] {
        install::copy(
            &build::prefix(false).join("lib").join(fortran),
            &ours.join(fortran),
        )?;
        let place = compiled(abi, tally)?;
        let whose = format!("cross/our Fortran on their {c}");
        tally.test(&format!("{whose}/it is theirs"), || {
            let mut ldd = Command::new("ldd");
            let ldd = ldd.arg(place.bin.join("p2p")).env("LD_LIBRARY_PATH", &path);
            let wanted = format!("{c} => {}", theirs.library.join(c).display());
            let found = process::output(ldd)?;
            found.contains(&wanted).then_some(()).ok_or(found)
        });
        for (program, _, _, says) in PROGRAMS {
            let name = format!("{whose}/{program} -n 2");
            if options.wants(&name) {
                tally.test(&name, || {
                    let job = Job::new(&theirs.launcher).args(["-n", "2"]);
                    let job = job.args([place.bin.join(program)]);
                    let says = format!("ok {says}");
                    job.env("LD_LIBRARY_PATH", &path)
                        .passes(&[says])
                        .map(|_| ())
                });
            }
        }
    }
    Ok(())
}

/// Runs the stage.
pub fn run(options: &Options, tally: &mut Tally) -> Result {
    let ground = options.ground();
    for abi in ["standard", "mpich"] {
        let place = compiled(abi, tally)?;
        let mut test = |name: &str, ranks: u32, body: &dyn Fn() -> Result| {
            let name = format!("fortran{}/{abi}/{name} -n {ranks}", options.way());
            if options.wants(&name) {
                tally.test(&name, body);
            }
        };
        for ranks in RANKS {
            for (name, _, _, says) in PROGRAMS {
                test(name, ranks, &|| place.run(&ground, ranks, name, says));
            }
            test("mixed", ranks, &|| {
                place.run(&ground, ranks, "mixed", "mixed")
            });
        }
        for program in ["profiled", "unbuilt"] {
            test(program, 2, &|| place.run(&ground, 2, program, program));
        }
    }
    tally.test("fortran/headers", headers);
    tally.test("fortran/mpifort without a compiler", no_compiler);
    Ok(())
}

/// `mpif.h` in both source forms, as strictly as the compiler can read it.
fn headers() -> Result {
    let folder = build::target().join("test/f");
    let program = "      PROGRAM P\n      IMPLICIT NONE\n      INCLUDE 'mpif.h'\n      \
                   PRINT *, MPI_STATUS_SIZE, MPI_TAG_UB\n      END\n";
    for form in ["f", "f90"] {
        let source = folder.join(format!("header.{form}"));
        std::fs::write(&source, program).map_err(|e| format!("{}: {e}", source.display()))?;
        for abi in ["abi", "mpich"] {
            let mut gfortran = Command::new("gfortran");
            gfortran.args([
                "-std=f2008",
                "-pedantic",
                "-Wall",
                "-Werror",
                "-fsyntax-only",
                "-I",
            ]);
            process::run(gfortran.arg(root().join("include").join(abi)).arg(&source))?;
        }
    }
    Ok(())
}

/// `mpifort` says plainly that there is no compiler, and shows its line nevertheless.
fn no_compiler() -> Result {
    let mpifort = build::prefix(false).join("bin/mpifort");
    let nowhere = || Job::new(&mpifort).env("PATH", "/nonexistent");
    nowhere()
        .args(["-c", "x.f90"])
        .fails(&["there is no Fortran compiler here".into()])?;
    let shown = ["-lmpifort_abi".into(), "-lmpi_abi".into()];
    nowhere().args(["-show"]).passes(&shown).map(|_| ())
}
