//! Stage `scalapack`: Debian's BLACS and ScaLAPACK testers, Fortran and C programs compiled for MPICH, on
//! our `libmpi.so.12` and `libmpifort.so.12`, with Debian's own BLACS inside its ScaLAPACK.
//!
//! The packages are unpacked below the target folder and not installed, so that the MPICH they depend on
//! isn't there either; which libraries a program gets is watched.

use super::job::{Done, Job, tail};
use super::{Options, Tally, apt};
use crate::{Result, build, install, process};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Ranks of each tester.
const RANKS: u32 = 4;
/// Packages of Debian.
const PACKAGES: [&str; 3] = [
    "scalapack-mpi-test",
    "scalapack-test-common",
    "libscalapack-mpich2.2",
];
/// Where the packages have their libraries.
const LIBRARIES: &str = "usr/lib/x86_64-linux-gnu";

/// Runs the stage.
pub fn run(options: &Options, tally: &mut Tally) -> Result {
    let home = build::target().join("scalapack");
    let unpacked = packages(&home)?;
    let ground = options.ground();
    let mut test = |name: &str, folder: &str, judge: fn(&Done) -> Result<String>| {
        let full = format!("scalapack{}/{name} -n {RANKS}", options.way());
        if !options.wants(&full) {
            return;
        }
        tally.test(&full, || {
            let place = place(&home, &unpacked, folder, name)?;
            let libraries =
                [&ground.library, &unpacked.join(LIBRARIES)].map(|p| p.display().to_string());
            let job = Job::new(&ground.launcher)
                .args(ground.start(RANKS))
                .args([unpacked
                    .join(LIBRARIES)
                    .join("scalapack/mpich-tests")
                    .join(name)])
                .folder(&place)
                .env("LD_LIBRARY_PATH", libraries.join(":"))
                .env("OPENBLAS_NUM_THREADS", "1")
                .limit_s(600)
                .proves(&ground.library);
            let done = job.run()?;
            let said = judge(&done).map_err(|why| format!("{why}\n{}", tail(&done.output)))?;
            println!("      {name}: {said}");
            Ok(())
        });
    };
    test("xCbtest", "BLACS", blacs);
    test("xFbtest", "BLACS", blacs);
    test("xdlu", "", scalapack);
    test("xdsyevr", "", scalapack);
    Ok(())
}

/// Gets and unpacks the packages; gives the root of the files in them.
fn packages(home: &Path) -> Result<PathBuf> {
    apt::need(&[("dpkg-deb", "dpkg")])?;
    if !Path::new("/usr/lib/x86_64-linux-gnu/libgfortran.so.5").exists() {
        apt::install(&["libgfortran5"])?;
    }
    if !Path::new("/usr/lib/x86_64-linux-gnu/liblapack.so.3").exists() {
        apt::install(&["libopenblas0-pthread"])?;
    }
    let unpacked = home.join("packages");
    let stamp = home.join("unpacked");
    if stamp.exists() {
        return Ok(unpacked);
    }
    std::fs::create_dir_all(&unpacked).map_err(|e| format!("{}: {e}", unpacked.display()))?;
    apt::download(&PACKAGES, home)?;
    for entry in std::fs::read_dir(home)
        .map_err(|e| e.to_string())?
        .flatten()
    {
        if entry.path().extension().is_some_and(|end| end == "deb") {
            process::run(
                Command::new("dpkg-deb")
                    .arg("-x")
                    .arg(entry.path())
                    .arg(&unpacked),
            )?;
        }
    }
    std::fs::write(&stamp, PACKAGES.join("\n")).map_err(|e| format!("{}: {e}", stamp.display()))?;
    Ok(unpacked)
}

/// A folder to run a tester in, with its input.
fn place(home: &Path, unpacked: &Path, folder: &str, name: &str) -> Result<PathBuf> {
    let place = home.join("run").join(name);
    let _ = std::fs::remove_dir_all(&place);
    std::fs::create_dir_all(&place).map_err(|e| format!("{}: {e}", place.display()))?;
    let input = unpacked.join("usr/share/scalapack").join(folder);
    for entry in std::fs::read_dir(&input)
        .map_err(|e| format!("{}: {e}", input.display()))?
        .flatten()
    {
        if entry.path().is_file() {
            install::copy(&entry.path(), &place.join(entry.file_name()))?;
        }
    }
    Ok(place)
}

/// The number in front of the first word of `line` that begins with `word`.
fn before(line: &str, word: &str) -> Option<u64> {
    let mut last = None;
    for part in line.split_whitespace() {
        if part.starts_with(word) {
            return last.and_then(|number: &str| number.parse().ok());
        }
        last = Some(part);
    }
    None
}

/// What a BLACS tester has to say: groups of tests of which none has failed, the auxiliary tests, and in the
/// end nothing more, since the last one aborts.
fn blacs(done: &Done) -> Result<String> {
    /// Groups of tests, as the tester of ScaLAPACK 2.2 has them on 4 ranks with Debian's input.
    const GROUPS: usize = 22;
    /// Tests in them that can run on 4 ranks.
    const TESTS: u64 = 28618;
    let groups: Vec<_> = done
        .output
        .lines()
        .filter(|line| line.contains(" TESTS;"))
        .collect();
    let sum = |word: &str| {
        groups
            .iter()
            .filter_map(|line| before(line, word))
            .sum::<u64>()
    };
    let (passed, failed) = (sum("PASSED"), sum("FAILED"));
    let auxiliary = [
        "BLACS_PNUM/BLACS_PCOORD",
        "REPEATABLE SUM",
        "BLACS_GRIDMAP",
        "LOCALLY-BLOCKING CONTIGUOUS SEND",
        "LOCALLY-BLOCKING NON-CONTIGUOUS SEND",
        "BLACS_SET/BLACS_GET",
    ];
    let said = |name: &&str| done.output.contains(&format!("PASSED  {name}"));
    let said = auxiliary.iter().filter(|name| said(name)).count();
    let reached = done
        .output
        .contains("The final auxiliary test is for BLACS_ABORT.");
    let result = format!(
        "{passed} tests PASSED and {failed} FAILED in {} groups, {said} auxiliary tests passed",
        groups.len()
    );
    if groups.len() != GROUPS || passed != TESTS || failed != 0 || said != auxiliary.len() {
        return Err(format!(
            "{GROUPS} groups with {TESTS} tests expected: {result}"
        ));
    }
    if !reached || done.code == Some(0) || done.output.contains("BLACS_ABORT FAILED") {
        return Err(format!("BLACS_ABORT did not end the job: {result}"));
    }
    Ok(result + ", BLACS_ABORT ended the job")
}

/// What a ScaLAPACK tester has to say: all its tests have passed.
fn scalapack(done: &Done) -> Result<String> {
    let line = |end: &str| done.output.lines().find(|line| line.contains(end));
    let all = line("tests, with the following results").and_then(|line| before(line, "tests"));
    let passed =
        line("completed and passed residual checks").and_then(|line| before(line, "tests"));
    match (all, passed) {
        (Some(all), Some(passed)) if all == passed && all > 0 && done.code == Some(0) => {
            Ok(format!("{passed} tests PASSED"))
        }
        _ => Err(format!(
            "all tests: {all:?}, passed: {passed:?}, exit code {:?}",
            done.code
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done(output: &str, code: i32) -> Done {
        Done {
            code: Some(code),
            output: output.into(),
        }
    }

    #[test]
    fn counts_are_read() {
        let line = "REAL SUM TESTS: 1152 TESTS;  864 PASSED,  288 SKIPPED,    0 FAILED.";
        assert_eq!(
            [before(line, "PASSED"), before(line, "FAILED")],
            [Some(864), Some(0)]
        );
        assert!(blacs(&done(line, 255)).is_err());
    }

    #[test]
    fn a_test_that_fails_is_seen() {
        let text = "Finished    240 tests, with the following results:\n  \
                    @ tests completed and passed residual checks.\n";
        assert!(scalapack(&done(&text.replace('@', "240"), 0)).is_ok());
        assert!(scalapack(&done(&text.replace('@', "239"), 0)).is_err());
        assert!(scalapack(&done("", 0)).is_err());
    }
}
