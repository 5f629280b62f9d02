//! Running a program below callgrind, and reading what that writes.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use crate::{Result, process};

/// Instructions that were executed inside a function of the program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// All of them.
    pub total: u64,
    /// Those of that function itself and of the PLT.
    pub caller: u64,
    /// All others, by the file that they lie in and their place in it.
    pub places: BTreeMap<(String, u64), u64>,
}

/// What is said to callgrind, which writes to `file` and counts inside `function`.
pub fn options(file: &Path, function: &str) -> Vec<String> {
    let mut words = ["valgrind", "-q", "--tool=callgrind", "--dump-instr=yes"]
        .map(str::to_owned)
        .to_vec();
    words.extend(["--compress-strings=no", "--compress-pos=no"].map(str::to_owned));
    words.push(format!("--callgrind-out-file={}", file.display()));
    words.push(format!("--toggle-collect={function}"));
    words
}

/// Runs a job in which one process runs below callgrind with these [`options`].
pub fn count(job: &mut Command, file: &Path, function: &str) -> Result<Profile> {
    process::output(job)?;
    let text = std::fs::read_to_string(file).map_err(|e| format!("{}: {e}", file.display()))?;
    parse(&text, function)
        .ok_or_else(|| format!("{}: `{function}` was not counted", file.display()))
}

/// Reads callgrind's output. The line after `calls=` is the cost of a call, which is the callee's.
fn parse(text: &str, function: &str) -> Option<Profile> {
    let mut profile = Profile::default();
    let (mut object, mut inside, mut of_call, mut seen) = (String::new(), false, false, false);
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("ob=") {
            name.clone_into(&mut object);
        } else if let Some(name) = line.strip_prefix("fn=") {
            inside = name == function;
            seen |= inside;
        } else if line.starts_with("calls=") {
            of_call = true;
        } else if let Some(rest) = line.strip_prefix("0x") {
            if std::mem::take(&mut of_call) {
                continue;
            }
            let mut words = rest.split_whitespace();
            let at = u64::from_str_radix(words.next()?, 16).ok()?;
            let cost: u64 = words.nth(1)?.parse().ok()?;
            profile.total += cost;
            match inside {
                true => profile.caller += cost,
                false => *profile.places.entry((object.clone(), at)).or_default() += cost,
            }
        }
    }
    (seen && profile.total > 0).then_some(profile)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "positions: instr line\nevents: Ir\n\nob=/x/icount\nfl=icount.c\nfn=counted_send\n\
        0x20 7 4\n0x24 8 10\ncob=/x/lib.so\ncfn=PMPI_Send\ncalls=2 0x10\n0x24 8 100\n0x28 9 2\n\n\
        ob=/x/lib.so\nfn=PMPI_Send\n0x10 3 60\nfi=slab.rs\n0x14 4 40\n\nob=/x/icount\nfn=counted_send\n0x20 7 1\n\ntotals: 117\n";

    #[test]
    fn callers_share_is_what_is_its_own() {
        let profile = parse(OUTPUT, "counted_send").unwrap();
        assert_eq!((profile.total, profile.caller), (117, 17));
        let lib = |at| ("/x/lib.so".to_owned(), at);
        assert_eq!(profile.places, [(lib(0x10), 60), (lib(0x14), 40)].into());
    }

    #[test]
    fn a_function_that_did_not_run_is_no_figure() {
        assert_eq!(parse(OUTPUT, "counted_recv"), None);
        assert_eq!(parse("totals: 0\n", "counted_send"), None);
    }
}
