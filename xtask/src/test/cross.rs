//! Stage `cross`: programs compiled by one implementation run on the other, both ways, and each
//! implementation's programs run under the other's launcher; our Fortran on the other's C libraries. The other one
//! is MPICH as PyPI has it.

use super::ground::{Ground, Over};
use super::{Options, Tally, ctests, fortran, peers};
use crate::{Result, build};

/// Runs the stage.
pub fn run(options: &Options, tally: &mut Tally) -> Result {
    let mpich = peers::mpich()?;
    let ours = Ground {
        short: true,
        ..Ground::ours(Over::Shm)
    };
    let theirs = Ground {
        launcher: mpich.join("bin/mpiexec.hydra"),
        library: mpich.join("lib"),
        short: true,
        over: Over::Shm,
        reach: None,
    };
    let folder = build::target().join("test/c");

    ctests::compile_ours(tally)?;
    for (abi, compiler) in [("standard", "mpicc_abi"), ("mpich", "mpicc")] {
        let bin = folder.join(format!("theirs-{abi}"));
        let compiler = mpich.join("bin").join(compiler);
        let compiler = compiler
            .to_str()
            .ok_or("the path of the environment is not text")?;
        ctests::compile(&[compiler], &bin, tally, &format!("cross/theirs-{abi}"))?;
    }
    let hydra = Ground {
        launcher: theirs.launcher.clone(),
        library: ours.library.clone(),
        short: true,
        over: Over::Shm,
        reach: None,
    };
    let mpiexec = Ground {
        launcher: ours.launcher.clone(),
        library: theirs.library.clone(),
        short: true,
        over: Over::Shm,
        reach: None,
    };
    // What runs, where, what it shows, and on how many ranks.
    let runs = [
        (
            "theirs-standard",
            &ours,
            "their programs on our libmpi_abi.so.1",
            &[2, 3][..],
        ),
        (
            "theirs-mpich",
            &ours,
            "their programs on our libmpi.so.12",
            &[2],
        ),
        (
            "standard",
            &theirs,
            "our programs on their libmpi_abi.so.1",
            &[2],
        ),
        ("mpich", &theirs, "our programs on their libmpi.so.12", &[2]),
        ("standard", &hydra, "ours under their launcher", &[4]),
        ("standard", &mpiexec, "theirs under our launcher", &[2]),
    ];
    for (bin, ground, what, ranks) in runs {
        for test in ctests::table()?.iter().filter(|test| test.for_peers()) {
            for &n in ranks {
                let name = format!("cross/{what}/{} -n {n}", test.name);
                if options.wants(&name) {
                    tally.test(&name, || test.run(&folder.join(bin), ground, n));
                }
            }
        }
    }
    fortran::over_theirs(options, tally, &theirs)
}
