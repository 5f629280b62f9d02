//! The tables in `spec/`, read into structures that the generators share.
//!
//! `procedures.toml` says what the standard says, `kinds.toml` what a parameter of a kind is in C
//! and how it is converted, `constants.toml` the values of both ABIs, and `overlay.toml` what none
//! of the others can know. A word in a table that nothing explains is an error here.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::Result;

/// Direction of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dir {
    /// Read by MPI.
    In,
    /// Written by MPI.
    Out,
    /// Read and written.
    InOut,
}

/// One parameter of a procedure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Param {
    /// Its name in the standard.
    pub name: String,
    /// Its kind, a row of `kinds.toml`.
    pub kind: String,
    /// Its direction.
    pub dir: Dir,
    /// Whether what it points to is `const`.
    pub constant: bool,
    /// Whether it is an array; the name of the parameter with its length, or `*` where none says it.
    pub array: Option<String>,
    /// Whether the C form is a pointer (or is not) against the kind's habit.
    pub pointer: Option<bool>,
    /// Whether only the `_c` variant has it.
    pub large_only: bool,
    /// Whether it means something only at the root.
    pub root_only: bool,
    /// The C type of a function parameter.
    pub func: Option<String>,
}

/// One procedure or callback type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proc {
    /// Name without `MPI_`.
    pub name: String,
    /// File the entry point is generated into.
    pub chapter: String,
    /// Parameters in order.
    pub params: Vec<Param>,
    /// Kind of the returned value.
    pub ret: String,
}

/// What a parameter of a kind is in C and how entry points convert it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kind {
    /// C type.
    pub c: String,
    /// C type in the `_c` variant.
    pub large: Option<String>,
    /// How it is converted; see `kinds.toml`.
    #[serde(rename = "as")]
    pub form: String,
    /// Family of values that is translated between the ABIs (a table of `constants.toml`).
    pub family: Option<String>,
    /// Error class of a negative value, where a negative one is wrong.
    pub negative: Option<String>,
}

/// One constant.
#[derive(Clone, Debug)]
pub struct Constant {
    /// Name without its prefix.
    pub name: String,
    /// Value in the standard ABI.
    pub abi: Option<i64>,
    /// The engine's value: that of the standard ABI, but for extensions of the MPICH ABI.
    pub neutral: Option<i64>,
    /// Value in the MPICH ABI.
    pub mpich: Option<i64>,
    /// Type pointed to, for addresses.
    pub c: Option<String>,
}

impl Constant {
    /// Its name in C.
    pub fn c_name(&self) -> String {
        let extension = self.abi.is_none() && self.neutral.is_some();
        format!("{}_{}", if extension { "MPIX" } else { "MPI" }, self.name)
    }
}

/// What the distilled tables can't know.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Overlay {
    /// Procedures that may be called before init and after finalize.
    pub anytime: Vec<String>,
    /// Procedures whose entry points are written by hand.
    pub handwritten: Vec<String>,
    /// Procedures of the MPICH ABI only: conversions to and from Fortran.
    pub mpich_only: Vec<String>,
    /// Procedures of MPI-1 that MPI-3.0 removed, in the MPICH ABI only.
    pub removed: BTreeMap<String, Removed>,
    /// Procedures with a `_c` variant in the standard ABI's export list that the standard lacks.
    pub extra_large: Vec<String>,
    /// Parameters whose NULL means "not wanted" rather than an error: `Procedure.parameter`.
    pub nullable: Vec<String>,
    /// Conversions of single parameters: `Procedure.parameter` to form.
    pub forms: BTreeMap<String, String>,
    /// Room for output strings: `Procedure.parameter` (or `*.parameter`) to a Rust expression.
    pub room: BTreeMap<String, String>,
    /// Parameter that supplies the error handler where it isn't the first communicator, window,
    /// file or session.
    pub on: BTreeMap<String, String>,
    /// Deprecated procedures, with the version of MPI that says so.
    pub deprecated: BTreeMap<String, String>,
    /// Procedures whose Fortran routines are written by hand.
    pub fortran_by_hand: Vec<String>,
    /// Symbols of the MPICH ABI that aren't procedures.
    pub mpich_symbols: Vec<String>,
}

/// A removed procedure: its C parameters and the procedure that it became.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Removed {
    /// Parameters as in `procedures.toml`.
    pub params: Vec<String>,
    /// Name of the procedure that replaced it.
    pub now: String,
    /// Names of that procedure's arguments, where they differ; empty for an unwanted output.
    pub args: Option<Vec<String>>,
}

/// Everything in `spec/`.
pub struct Spec {
    /// All procedures in order, removed ones included.
    pub procs: Vec<Proc>,
    /// Callback types.
    pub callbacks: Vec<Proc>,
    /// Kinds by name.
    pub kinds: BTreeMap<String, Kind>,
    /// Constants by table, in order.
    pub constants: Vec<(String, Vec<Constant>)>,
    /// Other names of constants.
    pub aliases: Vec<(String, String)>,
    /// The overlay.
    pub overlay: Overlay,
}

/// The directory of the workspace.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("xtask lies in the workspace")
        .into()
}

/// Parses one parameter: `name: [out|inout] [const] [large] [root] [ptr|val] KIND[(type)][\[length\]]`.
pub fn parse_param(text: &str) -> Result<Param> {
    let bad = || format!("spec: can't read parameter `{text}`");
    let (name, rest) = text.split_once(": ").ok_or_else(bad)?;
    let mut p = Param {
        name: name.into(),
        kind: String::new(),
        dir: Dir::In,
        constant: false,
        array: None,
        pointer: None,
        large_only: false,
        root_only: false,
        func: None,
    };
    for word in rest.split(' ') {
        match word {
            "out" => p.dir = Dir::Out,
            "inout" => p.dir = Dir::InOut,
            "const" => p.constant = true,
            "large" => p.large_only = true,
            "root" => p.root_only = true,
            "ptr" => p.pointer = Some(true),
            "val" => p.pointer = Some(false),
            _ => {
                let mut kind = word;
                if let Some((k, length)) = kind.strip_suffix(']').and_then(|k| k.split_once('[')) {
                    p.array = Some(length.into());
                    kind = k;
                }
                if let Some((k, func)) = kind.strip_suffix(')').and_then(|k| k.split_once('(')) {
                    p.func = Some(func.into());
                    kind = k;
                }
                p.kind = kind.into();
            }
        }
    }
    if p.kind.is_empty() { Err(bad()) } else { Ok(p) }
}

/// Parses a row of `procedures.toml`.
pub fn parse_proc(name: &str, chapter: &str, row: &[String]) -> Result<Proc> {
    let mut proc = Proc {
        name: name.into(),
        chapter: chapter.into(),
        params: Vec::new(),
        ret: "ERROR_CODE".into(),
    };
    for text in row {
        match text.strip_prefix("-> ") {
            Some(ret) => proc.ret = ret.into(),
            None => proc.params.push(parse_param(text)?),
        }
    }
    Ok(proc)
}

/// The text of one parameter, as [`parse_param`] reads it.
pub fn print_param(p: &Param) -> String {
    let mut s = format!("{}: ", p.name);
    let words = [
        (p.dir == Dir::Out, "out "),
        (p.dir == Dir::InOut, "inout "),
        (p.constant, "const "),
        (p.large_only, "large "),
        (p.root_only, "root "),
        (p.pointer == Some(true), "ptr "),
        (p.pointer == Some(false), "val "),
    ];
    words.iter().filter(|w| w.0).for_each(|w| s += w.1);
    s += &p.kind;
    if let Some(f) = &p.func {
        s += &format!("({f})");
    }
    if let Some(n) = &p.array {
        s += &format!("[{n}]");
    }
    s
}

impl Spec {
    /// Reads `spec/` of this workspace.
    pub fn load() -> Result<Spec> {
        let read = |name: &str| {
            let path = root().join("spec").join(name);
            std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))
        };
        let fail = |name: &'static str| move |e: toml::de::Error| format!("spec/{name}: {e}");
        let overlay: Overlay =
            toml::from_str(&read("overlay.toml")?).map_err(fail("overlay.toml"))?;
        let kinds = toml::from_str(&read("kinds.toml")?).map_err(fail("kinds.toml"))?;
        let table: toml::Table =
            toml::from_str(&read("procedures.toml")?).map_err(fail("procedures.toml"))?;
        let mut procs = Vec::new();
        let mut callbacks = Vec::new();
        for (chapter, rows) in &table {
            for (name, row) in rows.as_table().into_iter().flatten() {
                let words = row.as_array().into_iter().flatten();
                let row: Vec<_> = words.filter_map(|v| v.as_str().map(String::from)).collect();
                let proc = parse_proc(name, chapter, &row)?;
                if chapter == "callback" {
                    callbacks.push(proc)
                } else {
                    procs.push(proc)
                }
            }
        }
        for (name, removed) in &overlay.removed {
            procs.push(parse_proc(name, "removed", &removed.params)?);
        }
        let (constants, aliases) = read_constants(&read("constants.toml")?)?;
        Ok(Spec {
            procs,
            callbacks,
            kinds,
            constants,
            aliases,
            overlay,
        })
    }

    /// The kind of a parameter.
    pub fn kind(&self, name: &str) -> Result<&Kind> {
        self.kinds
            .get(name)
            .ok_or_else(|| format!("spec/kinds.toml: no kind {name}"))
    }

    /// Whether `proc` has a `_c` variant.
    pub fn has_large(&self, proc: &Proc) -> bool {
        self.overlay.extra_large.contains(&proc.name)
            || proc
                .params
                .iter()
                .any(|p| p.large_only || self.kinds.get(&p.kind).is_some_and(|k| k.large.is_some()))
    }

    /// Every C entry point of an ABI: each procedure with `false`, and its `_c` variant with `true`.
    pub fn entries(&self, mpich: bool) -> Vec<(&Proc, bool)> {
        let mut entries = Vec::new();
        for proc in &self.procs {
            let removed = self.overlay.removed.contains_key(&proc.name);
            if !mpich && (removed || self.overlay.mpich_only.contains(&proc.name)) {
                continue;
            }
            entries.push((proc, false));
            let extra = self.overlay.extra_large.contains(&proc.name);
            if self.has_large(proc) && !removed && !(mpich && extra) {
                entries.push((proc, true));
            }
        }
        entries
    }

    /// The constants of the tables whose name starts with `prefix`.
    pub fn family<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Constant> {
        let tables = self
            .constants
            .iter()
            .filter(move |(table, _)| table == name);
        tables.flat_map(|(_, rows)| rows)
    }
}

type Constants = (Vec<(String, Vec<Constant>)>, Vec<(String, String)>);

fn read_constants(text: &str) -> Result<Constants> {
    let table: toml::Table =
        toml::from_str(text).map_err(|e| format!("spec/constants.toml: {e}"))?;
    let (mut constants, mut aliases) = (Vec::new(), Vec::new());
    let mut tables = Vec::new();
    for (name, value) in &table {
        let Some(inner) = value.as_table() else {
            continue;
        };
        if name == "handle" || name == "value" {
            tables.extend(
                inner
                    .iter()
                    .map(|(sub, v)| (format!("{name}.{sub}"), v.clone())),
            );
        } else {
            tables.push((name.clone(), value.clone()));
        }
    }
    for (name, rows) in tables {
        let mut family = Vec::new();
        for (constant, value) in rows.as_table().into_iter().flatten() {
            if let Some(other) = value.as_str() {
                aliases.push((constant.clone(), other.to_string()));
                continue;
            }
            let number = |key: &str| value.get(key).and_then(|v| v.as_integer());
            family.push(Constant {
                name: constant.clone(),
                abi: number("abi"),
                neutral: number("abi").or(number("neutral")),
                mpich: number("mpich"),
                c: value.get("c").and_then(|v| v.as_str()).map(String::from),
            });
        }
        constants.push((name, family));
    }
    Ok((constants, aliases))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_survive_printing() {
        for text in [
            "buf: const BUFFER",
            "array_of_requests: inout REQUEST[incount]",
            "fn: FUNCTION(MPI_Comm_copy_attr_function)",
            "request: ptr REQUEST",
            "n: out large GENERIC_DTYPE_COUNT[max]",
        ] {
            assert_eq!(print_param(&parse_param(text).unwrap()), text);
        }
        assert!(parse_param("nonsense").is_err());
    }

    #[test]
    fn export_lists_have_the_right_length() {
        let spec = Spec::load().unwrap();
        assert_eq!(spec.entries(false).len(), 664);
        assert_eq!(spec.entries(true).len(), 700);
    }

    #[test]
    fn every_kind_is_known() {
        let spec = Spec::load().unwrap();
        for p in spec
            .procs
            .iter()
            .chain(&spec.callbacks)
            .flat_map(|p| &p.params)
        {
            spec.kind(&p.kind).unwrap();
        }
    }
}
