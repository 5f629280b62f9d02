//! Stage `scalapack`: Debian's BLACS and ScaLAPACK testers, Fortran and C programs compiled for MPICH, on
//! our `libmpi.so.12` and `libmpifort.so.12`: with Debian's own BLACS inside its ScaLAPACK, and with our libblacs in
//! front of that.
//!
//! The packages are unpacked below the target folder and not installed, so that the MPICH they depend on
//! isn't there either; which libraries a program gets is watched.

use super::ground::Ground;
use super::job::{Done, Job, tail};
use super::{Options, Tally, apt};
use crate::{Result, build, install, process};
use std::collections::BTreeSet;
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
        for ours in [false, true] {
            let front = if ours { ", our BLACS in front" } else { "" };
            let full = format!("scalapack{}/{name} -n {RANKS}{front}", options.way());
            if !options.wants(&full) {
                continue;
            }
            tally.test(&full, || {
                let place = place(&home, &unpacked, folder, name)?;
                let job = tester(&ground, &unpacked, &place, name, ours);
                let done = job.limit_s(600).proves(&ground.library).run()?;
                let said = judge(&done).map_err(|why| format!("{why}\n{}", tail(&done.output)))?;
                let bound = match ours {
                    true => format!(", {} BLACS symbols bind to ours", bound(&place)?),
                    false => String::new(),
                };
                println!("      {name}: {said}{bound}");
                Ok(())
            });
        }
    };
    test("xCbtest", "BLACS", blacs);
    test("xFbtest", "BLACS", blacs);
    test("xdlu", "", scalapack);
    test("xdsyevr", "", scalapack);
    Ok(())
}

/// A run of a tester in `place`; with `ours` our BLACS is found before Debian's, and the loader writes down what it
/// binds.
fn tester(ground: &Ground, unpacked: &Path, place: &Path, name: &str, ours: bool) -> Job {
    let libraries = [&ground.library, &unpacked.join(LIBRARIES)].map(|p| p.display().to_string());
    let mut job = Job::new(&ground.launcher).args(ground.start(RANKS));
    if ours {
        let library = ground.library.join(crate::blacs::LIBRARY);
        let log = place.join(BINDINGS);
        for (variable, value) in [
            ("LD_PRELOAD", library.display().to_string()),
            ("LD_DEBUG", "bindings".to_owned()),
            ("LD_DEBUG_OUTPUT", log.display().to_string()),
            // All symbols, not only those that are called. It also keeps the loader from saving vector registers on
            // the stack: xdsyevr compares variables that it never sets, and fails where they happen to be NaN.
            ("LD_BIND_NOW", "1".to_owned()),
        ] {
            job = job.args(["-genv", variable]).args([value]);
        }
    }
    let program = unpacked.join(LIBRARIES).join("scalapack/mpich-tests");
    job.args([program.join(name)])
        .folder(place)
        .env("LD_LIBRARY_PATH", libraries.join(":"))
        .env("OPENBLAS_NUM_THREADS", "1")
}

/// How the files begin in which the loader writes down what it binds, one for each process.
const BINDINGS: &str = "bindings";

/// How many of BLACS' symbols were bound to ours; an error if none were, or one to another library's (those that the
/// tester itself defines are its own).
fn bound(place: &Path) -> Result<usize> {
    let names = crate::blacs::names();
    let (mut bound, mut processes) = (BTreeSet::new(), 0);
    let entries = std::fs::read_dir(place).map_err(|e| format!("{}: {e}", place.display()))?;
    for path in entries.flatten().map(|entry| entry.path()) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if !name.starts_with(BINDINGS) {
            continue;
        }
        let text =
            std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        processes += 1;
        for (symbol, library) in text.lines().filter_map(binding) {
            if names
                .binary_search_by(|name| name.as_str().cmp(symbol))
                .is_err()
            {
                continue;
            }
            if library.contains("libscalapack") {
                return Err(format!("{symbol} binds to {library}"));
            }
            if library.ends_with(crate::blacs::LIBRARY) {
                bound.insert(symbol.to_owned());
            }
        }
    }
    match (bound.len(), processes) {
        (0, _) | (_, 0) => Err(format!(
            "{processes} processes wrote down bindings, none to ours"
        )),
        (many, _) => Ok(many),
    }
}

/// The symbol of a line about a binding, and the file that defines it.
fn binding(line: &str) -> Option<(&str, &str)> {
    let (_, rest) = line.split_once("binding file ")?;
    let (_, rest) = rest.split_once(" to ")?;
    let (library, rest) = rest.split_once(' ')?;
    let (_, symbol) = rest.split_once('`')?;
    Some((symbol.split('\'').next()?, library))
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
    // Where sums are the same each time though nobody asked for it, as with our BLACS, there is nothing to be
    // tested, and the tester says so.
    let repeats = done.output.contains("SKIPPED REPEATABLE SUM");
    let said = |name: &&str| {
        done.output.contains(&format!("PASSED  {name}")) || repeats && *name == "REPEATABLE SUM"
    };
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
    fn bindings_are_read() {
        let line =
            "      3150:\tbinding file /a/x [0] to /b/libblacs.so.2 [0]: normal symbol `Cdgesd2d'";
        assert_eq!(binding(line), Some(("Cdgesd2d", "/b/libblacs.so.2")));
        assert_eq!(binding("      3150:\tcalling init: /a"), None);
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
