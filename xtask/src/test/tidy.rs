//! Stage `tidy`: the house rules that a program can check: which crate may use which, where unsafe code
//! may be, how long files may get, and words that have no place in the repository.

use super::{Options, Tally};
use crate::spec::root;
use crate::{Result, process};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Longest source file, in lines.
const LINES_MAX: usize = 700;

/// Which crates of the workspace each crate may use. An arrow that is not here is a change of the
/// architecture: `ARCHITECTURE.md` then changes too.
const ARROWS: [(&str, &[&str]); 37] = [
    ("types", &[]),
    ("sys", &["types"]),
    ("boundary", &["types"]),
    ("layout", &["types", "boundary"]),
    ("datatype", &["types", "boundary", "layout"]),
    ("bytecode", &[]),
    ("op", &["types", "boundary", "bytecode"]),
    ("cad", &["types"]),
    ("chains", &["types", "cad"]),
    (
        "cad-run",
        &["boundary", "layout", "cad", "mtmi", "cad-softirq"],
    ),
    (
        "cad-ring",
        &[
            "types",
            "boundary",
            "sys",
            "cad",
            "chains",
            "cad-run",
            "cad-softirq",
            "tcp",
        ],
    ),
    ("cad-softirq", &["sys", "bytecode"]),
    (
        "cad-lib",
        &[
            "boundary", "sys", "cad-run", "cad-ring", "mtmi", "fabrics", "wireup", "report",
        ],
    ),
    ("mtmi", &["types", "boundary", "layout"]),
    ("shm", &["types", "boundary", "layout", "mtmi", "sys"]),
    ("tcp", &["types", "boundary", "layout", "mtmi", "sys"]),
    (
        "fabrics",
        &["types", "boundary", "layout", "sys", "mtmi", "shm", "tcp"],
    ),
    ("report", &["types", "sys"]),
    ("wireup", &["types", "sys"]),
    (
        "engine",
        &[
            "types",
            "sys",
            "boundary",
            "layout",
            "datatype",
            "bytecode",
            "op",
            "cad",
            "cad-run",
            "cad-ring",
            "cad-softirq",
            "mtmi",
            "fabrics",
            "report",
            "wireup",
        ],
    ),
    ("entry", &["types", "boundary", "engine"]),
    (
        "capi",
        &[
            "types",
            "boundary",
            "sys",
            "engine",
            "entry",
            "fmpl-entry",
            "fmpl-table",
        ],
    ),
    (
        "capi-mpich",
        &[
            "types",
            "boundary",
            "sys",
            "engine",
            "entry",
            "fmpl-entry",
            "fmpl-table",
        ],
    ),
    ("fortran", &[]),
    ("fapi", &["fortran"]),
    ("fapi-mpich", &["fortran"]),
    (
        "fmpl-entry",
        &[
            "types",
            "boundary",
            "sys",
            "mtmi",
            "fabrics",
            "engine",
            "fmpl",
            "fmpl-table",
        ],
    ),
    ("fmpl-lib", &["fmpl-table"]),
    (
        "launch",
        &[
            "types",
            "sys",
            "cad",
            "chains",
            "cad-ring",
            "cad-softirq",
            "shm",
            "tcp",
            "report",
            "wireup",
            "bench",
        ],
    ),
    ("fmpl-table", &[]),
    (
        "fmpl",
        &["types", "boundary", "layout", "op", "mtmi", "fmpl-table"],
    ),
    ("testkit", &["types", "boundary", "layout", "mtmi"]),
    ("wrappers", &[]),
    ("bench", &["types", "sys"]),
    ("blacs", &["boundary"]),
    ("blacs-lib", &["boundary", "blacs", "fmpl-table"]),
    ("xtask", &[]),
];

/// Crates that may hold unsafe code; all others forbid it. `STYLE.md` says where in them it is.
const UNSAFE: [&str; 20] = [
    "sys",
    "boundary",
    "entry",
    "capi",
    "capi-mpich",
    "fapi",
    "fapi-mpich",
    "shm",
    "tcp",
    "report",
    "wireup",
    "launch",
    "op",
    "fmpl-table",
    "fmpl-entry",
    "fmpl-lib",
    "blacs-lib",
    "cad-lib",
    "cad-ring",
    "cad-softirq",
];

/// Words that stand for unfinished work, put together here so that this file does not hold them.
fn unfinished() -> [String; 4] {
    [
        ("todo", "!("),
        ("unimplemented", "!("),
        ("TO", "DO"),
        ("FIX", "ME"),
    ]
    .map(|(a, b)| format!("{a}{b}"))
}

/// Folders of the makers' own machines.
fn foreign() -> [String; 3] {
    [("/work", "/"), ("/tmp/", "plan"), ("/tmp/", "peers")].map(|(a, b)| format!("{a}{b}"))
}

/// Runs the stage.
pub fn run(_: &Options, tally: &mut Tally) -> Result {
    let files = files()?;
    tally.test("tidy/dependency arrows", arrows);
    tally.test("tidy/length of files", || each(&files, long));
    tally.test("tidy/words", || each(&files, words));
    tally.test("tidy/unsafe code says why", || each(&files, argued));
    tally.test("tidy/unsafe code only where allowed", forbidden);
    Ok(())
}

/// Every file under version control, with its path inside the repository.
fn files() -> Result<Vec<(String, PathBuf)>> {
    let list = process::output(Command::new("git").arg("-C").arg(root()).args(["ls-files"]))?;
    Ok(list
        .lines()
        .map(|path| (path.to_owned(), root().join(path)))
        .collect())
}

/// Collects what a check says about each text file.
fn each(files: &[(String, PathBuf)], check: fn(&str, &str) -> Vec<String>) -> Result {
    let mut complaints = Vec::new();
    for (name, path) in files {
        // A file that is not text, or that has just been removed, has nothing to be checked.
        if let Ok(text) = std::fs::read_to_string(path) {
            complaints.extend(check(name, &text));
        }
    }
    if complaints.is_empty() {
        Ok(())
    } else {
        Err(complaints.join("\n"))
    }
}

fn generated(name: &str) -> bool {
    name.contains("/gen/")
        || name.starts_with("include/")
        || name.starts_with("spec/")
        || name.contains("generated")
}

fn long(name: &str, text: &str) -> Vec<String> {
    let source = [".rs", ".c", ".h", ".py", ".f90", ".f"]
        .iter()
        .any(|end| name.ends_with(end));
    let lines = text.lines().count();
    if source && !generated(name) && lines > LINES_MAX {
        return vec![format!("{name}: {lines} lines, more than {LINES_MAX}")];
    }
    Vec::new()
}

fn words(name: &str, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        for word in unfinished().iter().chain(&foreign()) {
            if line.contains(word.as_str()) {
                found.push(format!("{name}:{}: `{word}`", number + 1));
            }
        }
    }
    found
}

/// How an unsafe block begins; in two pieces, so that this file doesn't contain one.
const UNSAFE_BLOCK: &str = concat!("unsafe", " {");

/// An unsafe block or implementation has an argument right above it or on its line.
fn argued(name: &str, text: &str) -> Vec<String> {
    if !name.ends_with(".rs") || generated(name) {
        return Vec::new();
    }
    let lines: Vec<_> = text.lines().collect();
    let mut found = Vec::new();
    for (number, line) in lines.iter().enumerate() {
        let code = line.split("//").next().unwrap_or("");
        if !code.contains(UNSAFE_BLOCK) && !code.trim_start().starts_with("unsafe impl") {
            continue;
        }
        // Upwards over the comment, attributes and the lines of the same statement.
        let above = lines[number.saturating_sub(12)..=number].iter();
        if !above.into_iter().any(|line| line.contains("SAFETY:")) {
            found.push(format!("{name}:{}: unsafe without SAFETY", number + 1));
        }
    }
    found
}

fn forbidden() -> Result {
    let mut complaints = Vec::new();
    for (name, folder) in packages()?.iter().map(|(name, (folder, _))| (name, folder)) {
        let roots = ["src/lib.rs", "src/main.rs"].map(|file| folder.join(file));
        let texts: Vec<_> = roots
            .iter()
            .filter_map(|path| std::fs::read_to_string(path).ok())
            .collect();
        let forbids = texts
            .iter()
            .all(|text| text.contains("#![forbid(unsafe_code)]"));
        match (forbids, UNSAFE.contains(&name.as_str())) {
            (false, false) => {
                complaints.push(format!("{name} has to say #![forbid(unsafe_code)]"));
            }
            (true, true) => {
                complaints.push(format!(
                    "{name} has no unsafe code and is listed as if it had"
                ));
            }
            _ => {}
        }
    }
    let style = std::fs::read_to_string(root().join("STYLE.md")).map_err(|e| e.to_string())?;
    complaints.extend(told(&style, &UNSAFE));
    if complaints.is_empty() {
        Ok(())
    } else {
        Err(complaints.join("\n"))
    }
}

/// What the rule on unsafe code in `STYLE.md` says otherwise than `crates`: it names each crate, or a module
/// of it, in backticks.
fn told(style: &str, crates: &[&str]) -> Vec<String> {
    let rule = style
        .split("\n* ")
        .find(|rule| rule.starts_with("**Unsafe**"));
    let words: Vec<_> = rule.unwrap_or("").split('`').skip(1).step_by(2).collect();
    let named = |name: &&&str| {
        let mut crates = words.iter().map(|word| word.split("::").next());
        crates.any(|word| word == Some(**name))
    };
    let silent = crates.iter().filter(|name| !named(name));
    silent
        .map(|name| format!("STYLE.md does not say that {name} holds unsafe code"))
        .collect()
}

fn arrows() -> Result {
    let packages = packages()?;
    let mut complaints = Vec::new();
    for (name, (_, uses)) in &packages {
        let Some((_, allowed)) = ARROWS.iter().find(|(known, _)| known == name) else {
            complaints.push(format!("{name} is not in the table of crates"));
            continue;
        };
        for used in uses.iter().filter(|used| packages.contains_key(*used)) {
            if !allowed.contains(&used.as_str()) {
                complaints.push(format!("{name} may not use {used}"));
            }
        }
    }
    if complaints.is_empty() {
        Ok(())
    } else {
        Err(complaints.join("\n"))
    }
}

/// The workspace's packages: folder and dependencies (those for tests left out).
fn packages() -> Result<BTreeMap<String, (PathBuf, Vec<String>)>> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command
        .current_dir(root())
        .args(["metadata", "--no-deps", "--format-version", "1"]);
    let text = process::output(&mut command)?;
    let all: serde_json::Value = serde_json::from_str(&text).map_err(|e| e.to_string())?;
    let mut packages = BTreeMap::new();
    for package in all["packages"].as_array().into_iter().flatten() {
        let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
        let manifest = text(&package["manifest_path"]);
        let folder = Path::new(&manifest)
            .parent()
            .unwrap_or(Path::new("."))
            .to_owned();
        let dependencies = package["dependencies"].as_array().into_iter().flatten();
        let uses = dependencies
            .filter(|one| one["kind"] != "dev")
            .map(|one| text(&one["name"]))
            .collect();
        packages.insert(text(&package["name"]), (folder, uses));
    }
    Ok(packages)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsafe_code_needs_an_argument() {
        let bare = format!("fn f() {{\n    {UNSAFE_BLOCK} g() }}\n}}\n");
        let good = bare.replace(
            "    unsafe",
            "    // SAFETY: g has no preconditions.\n    unsafe",
        );
        assert_eq!(argued("a.rs", &bare).len(), 1);
        assert!(argued("a.rs", &good).is_empty());
        assert!(argued("crates/capi/src/gen/a.rs", &bare).is_empty());
    }

    #[test]
    fn the_rule_on_unsafe_code_names_crates() {
        let style =
            "# Style\n* **Words.** `x`\n* **Unsafe** is in `a` and\n  `b::c`.\n* **Size** `d`\n";
        assert!(told(style, &["a", "b"]).is_empty());
        assert_eq!(told(style, &["a", "d", "c"]).len(), 2);
    }

    #[test]
    fn unfinished_work_is_found() {
        let text = format!("let x = {}\"later\");", unfinished()[0]);
        assert_eq!(words("a.rs", &text).len(), 1);
        assert!(words("a.rs", "let done = true;").is_empty());
    }
}
