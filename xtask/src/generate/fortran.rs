//! The Fortran routines of `mpif.h` in Rust: one file per chapter for each ABI, the C procedures that
//! they call, and their export list.
//!
//! A routine converts its arguments and calls the C procedure by its `MPI_` name, so that a profiler
//! written in C sees Fortran programs too. What a parameter is in Fortran follows from what it is in C:
//! everything is passed by reference, handles are integers, and a string's length comes behind `ierror`.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::convert::Converted;
use super::{Abi, File, entries};
use crate::Result;
use crate::spec::{Dir, Param, Proc, Spec};

/// The common blocks of `mpif.h`, with what they hold.
pub const COMMON_BLOCKS: [(&str, &str); 6] = [
    ("MPIFCMB5", "MPI_UNWEIGHTED"),
    ("MPIFCMB9", "MPI_WEIGHTS_EMPTY"),
    ("MPIFCMBA", "MPI_BUFFER_AUTOMATIC"),
    ("MPIPRIV1", "MPI_BOTTOM, MPI_IN_PLACE, MPI_STATUS_IGNORE"),
    ("MPIPRIV2", "MPI_STATUSES_IGNORE, MPI_ERRCODES_IGNORE"),
    ("MPIPRIVC", "MPI_ARGVS_NULL, MPI_ARGV_NULL"),
];

/// Functions for attributes that a program may hand over or call.
pub const PREDEFINED: [&str; 12] = [
    "Comm_dup_fn",
    "Comm_null_copy_fn",
    "Comm_null_delete_fn",
    "Dup_fn",
    "Null_copy_fn",
    "Null_delete_fn",
    "Type_dup_fn",
    "Type_null_copy_fn",
    "Type_null_delete_fn",
    "Win_dup_fn",
    "Win_null_copy_fn",
    "Win_null_delete_fn",
];

/// Routines without a C procedure of the same name.
const FORTRAN_ONLY: [&str; 2] = ["Conversion_fn_null", "F_sync_reg"];

/// Procedures with a Fortran routine in an ABI.
fn procedures(spec: &Spec, abi: Abi) -> impl Iterator<Item = &Proc> {
    let entries = spec.entries(abi.is_mpich()).into_iter();
    let small = entries.filter(|(_, large)| !large).map(|(proc, _)| proc);
    small.filter(|proc| !matches!(proc.chapter.as_str(), "tool" | "convert"))
}

fn by_hand(spec: &Spec, proc: &Proc) -> bool {
    let integers_for_addresses = proc.chapter == "removed";
    integers_for_addresses || spec.overlay.fortran_by_hand.contains(&proc.name)
}

/// The linker's names of a routine; the first is the one that is defined, the others are weak aliases.
pub fn manglings(name: &str) -> [String; 8] {
    let (low, up) = (name.to_lowercase(), name.to_uppercase());
    [
        format!("pmpi_{low}_"),
        format!("pmpi_{low}"),
        format!("pmpi_{low}__"),
        format!("PMPI_{up}"),
        format!("mpi_{low}_"),
        format!("mpi_{low}"),
        format!("mpi_{low}__"),
        format!("MPI_{up}"),
    ]
}

/// Names (without `MPI_`) of all routines of an ABI.
pub fn routines(spec: &Spec, abi: Abi) -> Vec<String> {
    let mut names: Vec<_> = procedures(spec, abi).map(|p| p.name.clone()).collect();
    names.extend(
        PREDEFINED
            .iter()
            .chain(&FORTRAN_ONLY)
            .map(|n| n.to_string()),
    );
    names
}

/// Every symbol that an ABI's Fortran library exports, sorted.
pub fn symbols(spec: &Spec, abi: Abi) -> Vec<String> {
    let names = routines(spec, abi);
    let mut symbols: Vec<_> = names.iter().flat_map(|n| manglings(n)).collect();
    symbols.extend(
        COMMON_BLOCKS
            .iter()
            .map(|(b, _)| format!("{}_", b.to_lowercase())),
    );
    symbols.sort();
    symbols
}

/// A parameter of a routine.
#[derive(Default)]
struct Argument {
    /// Its declaration; none if Fortran doesn't pass it.
    declared: Option<String>,
    /// The declaration of the string's length.
    length: Option<String>,
    /// What the C procedure gets.
    expr: String,
}

struct Routine<'a> {
    spec: &'a Spec,
    proc: &'a Proc,
}

impl Routine<'_> {
    fn form(&self, p: &Param) -> Result<&str> {
        let key = format!("{}.{}", self.proc.name, p.name);
        let kind = self.spec.kind(&p.kind)?;
        Ok(self.spec.overlay.forms.get(&key).unwrap_or(&kind.form))
    }

    fn argument(&self, p: &Param, c: &Converted) -> Result<Argument> {
        let kind = self.spec.kind(&p.kind)?;
        let name = c.name.as_str();
        let passed = |ty: &str, expr: String| {
            Ok(Argument {
                declared: Some(format!("{name}: {ty}")),
                length: None,
                expr,
            })
        };
        let array = p.array.is_some();
        match self.form(p)? {
            "buffer" => passed("*mut c_void", format!("choice({name})")),
            "address" => passed("*mut c_void", format!("place({name})")),
            "baseptr" => passed("*mut i64", format!("{name}.cast()")),
            // The standard: the argument has the wrong type in mpif.h and is therefore unused.
            "detached" => Ok(Argument {
                declared: Some(format!("_{name}: *mut c_void")),
                length: None,
                expr: "unused().at()".into(),
            }),
            "weights" => passed("*mut i32", format!("weights_at({name})")),
            "argc" => Ok(Argument {
                expr: if p.pointer == Some(false) {
                    "0"
                } else {
                    "std::ptr::null_mut()"
                }
                .into(),
                ..Argument::default()
            }),
            "argv" => Ok(Argument {
                expr: "std::ptr::null_mut()".into(),
                ..Argument::default()
            }),
            "text" => self.text(p, name),
            "logical" | "int" | "wide" | "untranslated" | "contents" | "mapped" | "dargs" => {
                self.number(p, name, c.rust.as_deref().unwrap_or_default())
            }
            "handle" => {
                let ty = kind.c.trim_start_matches("MPI_");
                if array {
                    let (way, length) = (way(p, array), self.length(p)?);
                    let star = if p.dir == Dir::In { "*const" } else { "*mut" };
                    return passed(
                        &format!("{star} i32"),
                        format!("handles_{way}::<{ty}>({name}, {length}).at()"),
                    );
                }
                match way(p, array) {
                    "in" => passed("*const i32", format!("{ty}::from_int(*{name})")),
                    way => passed("*mut i32", format!("handle_{way}::<{ty}>({name}).at()")),
                }
            }
            "status" => match (p.dir, array) {
                (Dir::Out, false) => passed("*mut i32", format!("status_at({name})")),
                (Dir::Out, true) => passed("*mut i32", format!("statuses_at({name})")),
                _ => passed("*mut i32", format!("{name}.cast()")),
            },
            other => Err(format!(
                "spec: {}.{}: no Fortran form of `{other}`: add the procedure to fortran_by_hand",
                self.proc.name, p.name
            )),
        }
    }

    fn text(&self, p: &Param, name: &str) -> Result<Argument> {
        let length = format!("{name}_length");
        let (star, expr) = if p.dir == Dir::In {
            // Blanks before a key or value mean nothing either.
            let trim = if self.proc.chapter == "info" {
                "word"
            } else {
                "text"
            };
            ("*const", format!("{trim}_in({name}, {length}).as_ptr()"))
        } else {
            let key = format!("{}.{}", self.proc.name, p.name);
            let room = self.spec.overlay.room.get(&key);
            let room = room.filter(|room| room.starts_with("limits::"));
            let room = room.ok_or_else(|| format!("spec: {key}: no room known for Fortran"))?;
            ("*mut", format!("text_out({name}, {length}, {room}).at()"))
        };
        Ok(Argument {
            declared: Some(format!("{name}: {star} u8")),
            length: Some(length),
            expr,
        })
    }

    fn number(&self, p: &Param, name: &str, c_type: &str) -> Result<Argument> {
        let array = p.array.is_some();
        let width = if c_type.contains("i64") { "i64" } else { "i32" };
        let input = way(p, array) == "in";
        let star = if input { "*const" } else { "*mut" };
        // Positions in arrays of requests count from 1 in Fortran.
        let position = p.kind == "INDEX" && !input && self.proc.chapter == "request";
        let expr = match (input, array) {
            _ if position && array => format!("indices_at({name}, outcount).at()"),
            _ if position => format!("index_at({name}).at()"),
            (true, false) if p.kind == "KEYVAL" => format!("keyval_in(*{name})"),
            (true, false) => format!("*{name}"),
            _ => name.to_string(),
        };
        Ok(Argument {
            declared: Some(format!("{name}: {star} {width}")),
            length: None,
            expr,
        })
    }

    /// The length of an array of handles, as a closure's body.
    fn length(&self, p: &Param) -> Result<String> {
        let of = p.array.as_deref().unwrap_or_default();
        if self.proc.params.iter().any(|p| p.name == of) {
            return Ok(format!("|| *{of}"));
        }
        let neighbors = self.proc.chapter.contains("neighbor")
            || self.proc.name.to_lowercase().contains("neighbor");
        match (p.name.as_str(), neighbors) {
            ("sendtypes", false) => {
                Ok("|| if is_in_place(sendbuf) { 0 } else { peers(*comm) }".into())
            }
            ("recvtypes", false) => Ok("|| peers(*comm)".into()),
            ("sendtypes", true) => Ok("|| neighbor_counts(*comm).1".into()),
            ("recvtypes", true) => Ok("|| neighbor_counts(*comm).0".into()),
            _ => Err(format!(
                "spec: {}.{}: no length for Fortran",
                self.proc.name, p.name
            )),
        }
    }
}

/// Which way a scalar or array goes.
fn way(p: &Param, array: bool) -> &'static str {
    match p.dir {
        // An input that C takes by address, such as the request of MPI_Cancel.
        Dir::In if p.pointer == Some(true) && !array => "inout",
        Dir::In => "in",
        Dir::InOut => "inout",
        Dir::Out => "out",
    }
}

/// Whether the C procedure is the `_c` variant: where the plain one of the standard ABI's header has an
/// int for the standard's MPI_Count.
fn is_large(spec: &Spec, proc: &Proc, abi: Abi) -> bool {
    !abi.is_mpich() && spec.overlay.extra_large.contains(&proc.name)
}

fn routine(spec: &Spec, proc: &Proc, abi: Abi) -> Result<String> {
    let large = is_large(spec, proc, abi);
    let converted = entries::params(spec, proc, large, abi)?;
    let routine = Routine { spec, proc };
    let params = proc.params.iter().filter(|p| large || !p.large_only);
    let (mut declared, mut lengths, mut exprs) = (Vec::new(), Vec::new(), Vec::new());
    for (p, c) in params.zip(&converted) {
        let argument = routine.argument(p, c)?;
        declared.extend(argument.declared);
        lengths.extend(argument.length);
        exprs.push(argument.expr);
    }
    let (low, up) = (proc.name.to_lowercase(), proc.name.to_uppercase());
    Ok(format!(
        "routine! {{ pmpi_{low}_ \"{low}\" \"{up}\"\n    ({}) ({})\n    MPI_{}({}) }}\n",
        declared.join(", "),
        lengths.join(", "),
        entries::name(proc, large),
        exprs.join(", ")
    ))
}

/// The C procedures that the routines call.
fn callees(spec: &Spec, abi: Abi) -> Result<String> {
    let mut text = String::from(
        "//! The C procedures. Generated by `cargo xtask gen` from `spec/`; do not edit.\n\
         #![allow(missing_docs)]\n\nuse std::ffi::{c_char, c_void};\n\nuse crate::abi::*;\n\n\
         unsafe extern \"C\" {\n",
    );
    for proc in procedures(spec, abi) {
        let large = is_large(spec, proc, abi);
        let params = entries::params(spec, proc, large, abi)?;
        let list: Vec<_> = params
            .iter()
            .filter_map(|c| Some(format!("{}: {}", c.name, c.rust.as_deref()?)))
            .collect();
        let ret = match proc.ret.as_str() {
            "WALL_TIME" | "TICK_RESOLUTION" => "f64",
            "LOCATION_SMALL" | "DISPLACEMENT" => "i64",
            _ => "i32",
        };
        let name = entries::name(proc, large);
        writeln!(text, "    pub fn MPI_{name}({}) -> {ret};", list.join(", "))
            .expect("a String takes everything");
    }
    Ok(text + "}\n")
}

/// The constants that the hand-written parts need, as C has them.
fn values(spec: &Spec, abi: Abi) -> String {
    let mut text = String::from(
        "//! Constants of the C library. Generated by `cargo xtask gen` from `spec/`; do not edit.\n\
         #![allow(missing_docs, dead_code)]\n\n",
    );
    let wanted = [
        "limit",
        "fortran",
        "pointer",
        "value.error",
        "value.keyval",
        "value.topology",
        "value.undefined",
    ];
    for (table, rows) in &spec.constants {
        if !wanted.contains(&table.as_str()) {
            continue;
        }
        let ty = if table == "pointer" { "isize" } else { "i32" };
        for c in rows {
            if let Some(value) = if abi.is_mpich() { c.mpich } else { c.abi } {
                writeln!(text, "pub const {}: {ty} = {value};", c.name)
                    .expect("a String takes everything");
            }
        }
    }
    text
}

/// The files of one ABI's crate.
pub fn files(spec: &Spec, abi: Abi) -> Result<Vec<File>> {
    let mut chapters: BTreeMap<&str, String> = BTreeMap::new();
    for proc in procedures(spec, abi).filter(|proc| !by_hand(spec, proc)) {
        let text = routine(spec, proc, abi)?;
        chapters.entry(&proc.chapter).or_default().push_str(&text);
    }
    let folder = format!("crates/{}/src/gen", abi.fortran_crate());
    let mut modules = String::from(
        "//! The routines, by chapter. Generated by `cargo xtask gen` from `spec/`; do not edit.\n\n\
         pub mod c;\npub mod values;\n",
    );
    let mut files = vec![
        File::new(format!("{folder}/c.rs"), callees(spec, abi)?),
        File::new(format!("{folder}/values.rs"), values(spec, abi)),
    ];
    for (chapter, text) in &chapters {
        writeln!(modules, "mod {chapter};").expect("a String takes everything");
        let head = format!(
            "//! Fortran routines: {}. Generated by `cargo xtask gen` from `spec/`; do not edit.\n\n\
             #[allow(unused_imports)]\nuse crate::prelude::*;\n\n",
            chapter.replace('_', " ")
        );
        files.push(File::new(format!("{folder}/{chapter}.rs"), head + text));
    }
    files.push(File::new(format!("{folder}/mod.rs"), modules));
    let list = symbols(spec, abi);
    files.push(super::exports::script(&list, abi.fortran_crate()));
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(name: &str, abi: Abi) -> String {
        let spec = Spec::load().unwrap();
        let proc = procedures(&spec, abi).find(|p| p.name == name).unwrap();
        routine(&spec, proc, abi).unwrap()
    }

    #[test]
    fn arguments_are_converted_by_what_they_are_in_c() {
        let recv = text("Recv", Abi::Standard);
        assert!(recv.contains("(buf: *mut c_void, count: *const i32, datatype: *const i32,"));
        assert!(recv.contains(
            "MPI_Recv(choice(buf), *count, Datatype::from_int(*datatype), *source, *tag, \
             Comm::from_int(*comm), status_at(status))"
        ));
        assert!(text("Waitany", Abi::Mpich).contains("index_at(index).at()"));
        assert!(
            text("Waitsome", Abi::Mpich).contains("indices_at(array_of_indices, outcount).at()")
        );
        assert!(text("Comm_set_name", Abi::Mpich).contains("(comm_name_length)"));
        // The standard's count is an MPI_Count, which only the _c variant of its header takes.
        assert!(
            text("Psend_init", Abi::Standard)
                .contains("MPI_Psend_init_c(choice(buf), *partitions, *count")
        );
        assert!(
            text("Psend_init", Abi::Mpich)
                .contains("MPI_Psend_init(choice(buf), *partitions, *count")
        );
    }

    #[test]
    fn every_routine_has_the_names_of_all_manglings() {
        let spec = Spec::load().unwrap();
        let list = symbols(&spec, Abi::Mpich);
        for name in [
            "mpi_send_",
            "pmpi_send_",
            "MPI_SEND",
            "mpi_send__",
            "mpi_type_struct_",
            "mpipriv1_",
        ] {
            assert!(list.iter().any(|s| s == name), "{name}");
        }
        assert!(
            !symbols(&spec, Abi::Standard)
                .iter()
                .any(|s| s == "mpi_type_struct_")
        );
        assert!(
            !list
                .iter()
                .any(|s| s.contains("_t_init") || s.contains("f2c"))
        );
    }
}
