//! What a rank wrote while it ran mpi4py's tests, and the list of tests that skip themselves on MPICH.

use crate::Result;
use crate::spec::root;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// The beginning of the list.
const HEAD: &str = "\
# Which of mpi4py's own tests skip themselves on MPICH 5.0.2, on some rank at least; of the files and tests in
# mpi4py-tests.txt. Written by `cargo xtask skips`; the stage mpi4py compares ours with it.
#
# ran RANKS TESTS          how many tests are run, the skipped ones counted too
# skip RANKS TEST REASON   the numbers of ranks with which this test is skipped
";

/// One rank's report.
#[derive(Default, Debug, PartialEq, Eq)]
pub struct Log {
    /// How many tests it ran; none if it did not come to the end.
    pub ran: Option<usize>,
    /// The tests skipped, and why.
    pub skips: BTreeMap<String, String>,
    /// The test that began last.
    pub last: String,
    /// Tests that failed.
    failed: BTreeSet<String>,
    /// How many skips its summary counts, and how many were seen.
    counted: usize,
    seen: usize,
}

impl Log {
    /// Reads what `unittest -v` wrote: `name (module.Class.name) ... skipped 'why'`.
    pub fn parse(text: &str) -> Log {
        let mut log = Log::default();
        for line in text.lines() {
            if let Some(test) = test_begun(line) {
                test.clone_into(&mut log.last);
            }
            let named = line.strip_prefix("FAIL: ").or(line.strip_prefix("ERROR: "));
            if let Some(rest) = named {
                // Subtests of one test differ behind its name, which stands in parentheses.
                let end = rest.find(')').map_or(rest.len(), |at| at + 1);
                log.failed.insert(rest[..end].to_owned());
            }
            if let Some((_, reason)) = line.split_once("skipped ").filter(|_| is_result(line)) {
                log.seen += 1;
                let reason = reason.trim().trim_matches(['\'', '"']).to_owned();
                log.skips.insert(log.last.clone(), reason);
            }
            if let Some(rest) = line.strip_prefix("Ran ") {
                log.ran = rest.split(' ').next().and_then(|n| n.parse().ok());
            }
            let summary = line.starts_with("OK (") || line.starts_with("FAILED (");
            if let Some((_, rest)) = line.split_once("skipped=").filter(|_| summary) {
                let digits = rest.split(|c: char| !c.is_ascii_digit()).next();
                log.counted = digits.and_then(|n| n.parse().ok()).unwrap_or(0);
            }
        }
        log
    }

    /// What is wrong with it in itself.
    pub fn complaints(&self) -> impl Iterator<Item = String> {
        let failed = self.failed.iter().map(|test| format!("failed: {test}"));
        let end = self
            .ran
            .is_none()
            .then(|| format!("did not come to the end; its last test: {}", self.last));
        let unread = (self.ran.is_some() && self.counted != self.seen)
            .then(|| format!("{} tests skipped, but {} seen", self.counted, self.seen));
        failed.chain(end).chain(unread)
    }
}

/// The test whose line this is: `name (module.Class.name)`.
fn test_begun(line: &str) -> Option<&str> {
    let (name, rest) = line.split_once(" (")?;
    let (test, _) = rest.split_once(')')?;
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
    (test.contains('.') && name.chars().all(plain) && test.chars().all(plain)).then_some(test)
}

/// Whether the line tells a test's result: on the test's own line, or, if it wrote something, alone.
fn is_result(line: &str) -> bool {
    line.contains(" ... skipped ") || line.starts_with("skipped ")
}

/// The list: what MPICH runs and skips.
#[derive(Default, Debug, PartialEq, Eq)]
pub struct Skips {
    /// Tests run for each number of ranks.
    ran: BTreeMap<u32, usize>,
    /// For each test, the numbers of ranks and the reason.
    skips: BTreeMap<String, (BTreeSet<u32>, String)>,
}

impl Skips {
    fn path() -> PathBuf {
        root().join("tests/py/mpich-skips.txt")
    }

    /// Reads the list.
    pub fn read() -> Result<Skips> {
        let path = Skips::path();
        let text =
            std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        Skips::parse(&text).map_err(|line| format!("{}: {line}", path.display()))
    }

    /// The error is the line that is none.
    fn parse(text: &str) -> Result<Skips> {
        let mut list = Skips::default();
        for line in text
            .lines()
            .filter(|l| !l.is_empty() && !l.starts_with('#'))
        {
            let wrong = || line.to_owned();
            let mut words = line.splitn(4, ' ');
            let (kind, ranks) = words.next().zip(words.next()).ok_or_else(wrong)?;
            let what = words.next().ok_or_else(wrong)?;
            let ranks: BTreeSet<u32> = ranks
                .split(',')
                .map(|n| n.parse().map_err(|_| wrong()))
                .collect::<Result<_>>()?;
            match (kind, words.next()) {
                ("ran", None) => {
                    let tests = what.parse().map_err(|_| wrong())?;
                    list.ran.extend(ranks.iter().map(|n| (*n, tests)));
                }
                ("skip", Some(reason)) => {
                    list.skips
                        .insert(what.to_owned(), (ranks, reason.to_owned()));
                }
                _ => return Err(wrong()),
            }
        }
        Ok(list)
    }

    fn text(&self) -> String {
        let ran = self
            .ran
            .iter()
            .map(|(n, tests)| format!("ran {n} {tests}\n"));
        let skips = self.skips.iter().map(|(test, (ranks, reason))| {
            let ranks: Vec<_> = ranks.iter().map(u32::to_string).collect();
            format!("skip {} {test} {reason}\n", ranks.join(","))
        });
        HEAD.to_owned() + "\n" + &ran.collect::<String>() + &skips.collect::<String>()
    }

    /// Adds what the ranks of one run report.
    pub fn add(&mut self, ranks: u32, logs: &[Log]) {
        for log in logs {
            self.ran.insert(ranks, log.ran.unwrap_or(0));
            for (test, reason) in &log.skips {
                let entry = self.skips.entry(test.clone()).or_default();
                entry.0.insert(ranks);
                entry.1.clone_from(reason);
            }
        }
    }

    /// Writes the list.
    pub fn write(&self) -> Result {
        let path = Skips::path();
        std::fs::write(&path, self.text()).map_err(|e| format!("{}: {e}", path.display()))
    }

    /// Fails if the list written is another.
    pub fn is_as_written(&self) -> Result {
        let written = Skips::read()?.text();
        let now = self.text();
        if now == written {
            return Ok(());
        }
        let (old, new): (BTreeSet<_>, BTreeSet<_>) =
            (written.lines().collect(), now.lines().collect());
        let gone = old.difference(&new).map(|line| format!("-{line}"));
        let come = new.difference(&old).map(|line| format!("+{line}"));
        let lines: Vec<_> = gone.chain(come).collect();
        Err(format!(
            "{} is out of date; `cargo xtask skips` writes it\n{}",
            Skips::path().display(),
            lines.join("\n")
        ))
    }

    /// What a run of ours on `ranks` skips that MPICH runs, and tests that only one of the two has.
    pub fn complaints(&self, ranks: u32, logs: &[Log]) -> Vec<String> {
        let mut found = BTreeSet::new();
        for log in logs {
            for (test, reason) in &log.skips {
                let theirs = self
                    .skips
                    .get(test)
                    .is_some_and(|(all, _)| all.contains(&ranks));
                if !theirs {
                    found.insert(format!("only we skip {test}: {reason}"));
                }
            }
            if let Some(ran) = log.ran.filter(|ran| self.ran.get(&ranks) != Some(ran)) {
                found.insert(format!(
                    "{ran} tests, on MPICH {}; after a change of mpi4py-tests.txt: `cargo xtask skips`",
                    self.ran.get(&ranks).copied().unwrap_or(0)
                ));
            }
        }
        found.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "\
[0@vm] Python 3.11 (/x/bin/python)
testA (test_a.T.testA) ... ok
testB (test_a.T.testB) ... skipped 'cupy'
testC (test_a.T.testC) ... a warning of its own
skipped \"MPICH's way\"
testD (test_a.T.testD) ... FAIL
======================================================================
FAIL: testD (test_a.T.testD) (i=3)
----------------------------------------------------------------------
Ran 4 tests in 0.1s

FAILED (failures=1, skipped=2)
";

    #[test]
    fn a_report_is_read() {
        let log = Log::parse(LOG);
        assert_eq!(log.ran, Some(4));
        let skips: Vec<_> = log
            .skips
            .iter()
            .map(|(t, r)| (t.as_str(), r.as_str()))
            .collect();
        assert_eq!(
            skips,
            [
                ("test_a.T.testB", "cupy"),
                ("test_a.T.testC", "MPICH's way")
            ]
        );
        assert_eq!(
            log.complaints().collect::<Vec<_>>(),
            ["failed: testD (test_a.T.testD)"]
        );
        let cut = Log::parse(LOG.split("testD").next().unwrap());
        assert_eq!(
            cut.complaints().collect::<Vec<_>>(),
            ["did not come to the end; its last test: test_a.T.testC"]
        );
        let unread = Log::parse(&LOG.replace("... skipped 'cupy'", "... cupy"));
        assert!(
            unread
                .complaints()
                .any(|c| c == "2 tests skipped, but 1 seen")
        );
    }

    #[test]
    fn what_only_we_skip_is_named() {
        let log = || vec![Log::parse(LOG)];
        let mut theirs = Skips::default();
        theirs.add(2, &log());
        assert!(theirs.complaints(2, &log()).is_empty());
        assert_eq!(Skips::parse(&theirs.text()), Ok(Skips { ..theirs }));

        let one = LOG.replace("testC) ... a warning", "testC) ... ok, a warning");
        let mut theirs = Skips::default();
        theirs.add(2, &[Log::parse(&one.replace("skipped \"", "said \""))]);
        assert_eq!(
            theirs.complaints(2, &log()),
            ["only we skip test_a.T.testC: MPICH's way"]
        );
        assert_eq!(
            theirs.complaints(3, &log()).len(),
            3,
            "other numbers of ranks are other runs"
        );
        assert!(Skips::parse("skip x y z").is_err() && Skips::parse("ran 1").is_err());
    }
}
