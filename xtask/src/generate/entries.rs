//! The entry points in Rust: one file per chapter for each ABI.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::api::{Built, Function};
use super::convert::{Context, Converted};
use super::{Abi, File};
use crate::Result;
use crate::spec::{Dir, Proc, Spec};

/// C name of an entry point, without `MPI_`.
pub fn name(proc: &Proc, large: bool) -> String {
    format!("{}{}", proc.name, if large { "_c" } else { "" })
}

/// The converted parameters of an entry point.
pub fn params(spec: &Spec, proc: &Proc, large: bool, abi: Abi) -> Result<Vec<Converted>> {
    let context = Context {
        spec,
        proc,
        large,
        abi,
    };
    proc.params
        .iter()
        .filter(|p| large || !p.large_only)
        .map(|p| context.param(p))
        .collect()
}

/// The procedure of the engine that serves `proc`: itself, or what replaced a removed one.
fn served_by<'a>(spec: &'a Spec, proc: &'a Proc) -> &'a str {
    match spec.overlay.removed.get(&proc.name) {
        Some(removed) => &removed.now,
        None => &proc.name,
    }
}

/// Constructors whose envelope tells which form was called, and whose other arguments don't.
const FLAVOURED: [&str; 7] = [
    "Type_contiguous",
    "Type_vector",
    "Type_create_hvector",
    "Type_create_hindexed_block",
    "Type_create_resized",
    "Type_get_envelope",
    "Type_get_contents",
];

/// Whether the engine's function takes a last parameter that tells which form was called: where the
/// callback's type differs, or the datatype must know.
fn takes_large(spec: &Spec, proc: &Proc) -> bool {
    let callback = proc.params.iter().any(|p| p.kind == "POLYFUNCTION");
    (callback || FLAVOURED.contains(&proc.name.as_str())) && spec.has_large(proc)
}

/// Types of the parameters that the engine's function must have.
fn expected(spec: &Spec, proc: &Proc) -> Result<Vec<String>> {
    let mut types = vec!["&Engine".to_string()];
    // The engine has one function for both variants, with the parameters of the large one.
    let large = spec.has_large(proc) && !spec.overlay.removed.contains_key(&proc.name);
    types.extend(
        params(spec, proc, large, Abi::Standard)?
            .iter()
            .map(|c| c.engine.to_string()),
    );
    if takes_large(spec, proc) {
        types.push("bool".into());
    }
    Ok(types)
}

/// The engine's function for `proc`, if it is built with the parameters that it should have.
fn function<'a>(spec: &Spec, built: &'a Built, proc: &Proc) -> Result<Option<&'a Function>> {
    let Some(function) = built.get(served_by(spec, proc)) else {
        return Ok(None);
    };
    if spec.overlay.removed.contains_key(&proc.name) {
        let now = served_by(spec, proc);
        let Some(now) = spec.procs.iter().find(|p| p.name == now) else {
            return Ok(None);
        };
        return Ok((function.params == expected(spec, now)?).then_some(function));
    }
    Ok((function.params == expected(spec, proc)?).then_some(function))
}

/// Functions of the engine whose parameters aren't those of their procedure: the entry points treat
/// them as not built.
pub fn complaints(spec: &Spec, built: &Built) -> Result<Vec<String>> {
    let mut complaints = Vec::new();
    for proc in spec
        .procs
        .iter()
        .filter(|p| !spec.overlay.handwritten.contains(&p.name))
    {
        let Some(found) = built.get(&proc.name) else {
            continue;
        };
        let expected = expected(spec, proc)?;
        if found.params != expected {
            complaints.push(format!(
                "engine::api::{}::{} takes ({}), expected ({})",
                found.module,
                proc.name.to_lowercase(),
                found.params.join(", "),
                expected.join(", ")
            ));
        }
    }
    Ok(complaints)
}

/// Names (with `MPI_`) of the entry points of an ABI that aren't built.
pub fn missing(spec: &Spec, built: &Built, abi: Abi) -> Result<Vec<String>> {
    let mut missing = Vec::new();
    for (proc, large) in spec.entries(abi.is_mpich()) {
        let by_hand = spec.overlay.handwritten.contains(&proc.name);
        if !by_hand && function(spec, built, proc)?.is_none() {
            missing.push(format!("MPI_{}", name(proc, large)));
        }
    }
    missing.sort();
    Ok(missing)
}

/// Whether a procedure is about files, whose error handlers are not those of communicators.
fn is_about_files(proc: &Proc) -> bool {
    proc.chapter == "io" || proc.params.iter().any(|p| p.kind == "FILE")
}

/// The object whose error handler a procedure calls, as an expression.
fn on(spec: &Spec, proc: &Proc, built: bool) -> String {
    if !built && is_about_files(proc) {
        // No other file can exist.
        return "consts::FILE_NULL".into();
    }
    let objects = ["COMMUNICATOR", "WINDOW", "FILE", "SESSION"];
    let chosen = spec.overlay.on.get(&proc.name);
    let found = match chosen {
        Some(name) => proc.params.iter().find(|p| p.name == *name),
        None => proc
            .params
            .iter()
            .find(|p| objects.contains(&p.kind.as_str()) && p.dir == Dir::In && p.array.is_none()),
    };
    found
        .map(|p| format!("{}.neutral()", p.name))
        .unwrap_or_default()
}

fn entry(spec: &Spec, built: &Built, proc: &Proc, large: bool, abi: Abi) -> Result<String> {
    let name = name(proc, large);
    let anytime = proc.chapter == "tool" || spec.overlay.anytime.contains(&proc.name);
    let when = if anytime { "Always" } else { "Running" };
    let function = function(spec, built, proc)?;
    let on = on(spec, proc, function.is_some());
    let params = params(spec, proc, large, abi)?;
    let declared: Vec<_> = params
        .iter()
        .filter_map(|c| Some(format!("{}: {}", c.name, c.rust.as_deref()?)))
        .collect();
    let body = match function {
        Some(function) => {
            let mut args = vec!["e".to_string()];
            match spec
                .overlay
                .removed
                .get(&proc.name)
                .and_then(|r| r.args.as_ref())
            {
                Some(names) => args.extend(renamed(names, &params)),
                None => args.extend(params.iter().map(|c| c.expr.clone())),
            }
            // A parameter that only the large variant has.
            let small = params.len() < proc.params.len();
            if small {
                args = large_args(spec, proc, abi)?;
            }
            let server = spec.procs.iter().find(|p| p.name == served_by(spec, proc));
            if server.is_some_and(|p| takes_large(spec, p)) {
                args.push(large.to_string());
            }
            let path = served_by(spec, proc).to_lowercase();
            format!("api::{}::{path}({})", function.module, args.join(", "))
        }
        None if proc.chapter == "tool" => "unsupported(consts::T_ERR_NOT_SUPPORTED)".into(),
        None => "unsupported(consts::ERR_UNSUPPORTED_OPERATION)".into(),
    };
    let short = match SHORT.contains(&proc.name.as_str()) {
        true => {
            let args: Vec<_> = params.iter().map(short_arg).collect();
            let path = proc.name.to_lowercase();
            let args = args.join(", ");
            let then = |word: &str, all: &[&str]| match all.contains(&proc.name.as_str()) {
                true => format!(" {word} {{ short::{path}_{word}({args}) }}"),
                false => String::new(),
            };
            let (again, more) = (then("again", &AGAIN), then("more", &MORE));
            format!("    short {{ short::{path}({args}) }}{again}{more}\n")
        }
        false => String::new(),
    };
    Ok(format!(
        "entry! {{ PMPI_{name} \"MPI_{name}\" {when} [{on}]\n    ({})\n{short}    |e| {body} }}\n",
        declared.join(", ")
    ))
}

/// Procedures with a short path in `entry::short`.
const SHORT: [&str; 12] = [
    "Send", "Isend", "Recv", "Irecv", "Wait", "Test", "Waitall", "Waitany", "Waitsome", "Testall",
    "Testany", "Testsome",
];

/// Those of them that may be possible a moment later, or with what is out of the way there.
const AGAIN: [&str; 7] = [
    "Send", "Isend", "Recv", "Wait", "Waitall", "Waitany", "Waitsome",
];

/// Those of them that have a third way, for longer messages.
const MORE: [&str; 2] = ["Send", "Isend"];

/// An argument of a short path: a buffer as the engine has it, others as they are.
fn short_arg(param: &Converted) -> String {
    match param.engine {
        "UserBuf" => param.expr.clone(),
        _ => param.name.clone(),
    }
}

/// Arguments by name; an empty name is an output that nobody wants.
fn renamed(names: &[String], params: &[Converted]) -> Vec<String> {
    let find = |name: &String| params.iter().find(|c| c.name == *name);
    names
        .iter()
        .map(|n| find(n).map_or("&mut 0".into(), |c| c.expr.clone()))
        .collect()
}

/// Arguments of the engine's function where the small variant lacks parameters that the large one
/// has: outputs nobody wants, counts that are zero, and arrays that aren't there.
fn large_args(spec: &Spec, proc: &Proc, abi: Abi) -> Result<Vec<String>> {
    let context = Context {
        spec,
        proc,
        large: false,
        abi,
    };
    let mut args = vec!["e".to_string()];
    for p in &proc.params {
        args.push(match (p.large_only, p.dir, &p.array) {
            (false, ..) => context.param(p)?.expr,
            (true, Dir::In, None) => "0".into(),
            (true, _, None) => "&mut 0".into(),
            (true, _, Some(_)) => "wide(std::ptr::null())".into(),
        });
    }
    Ok(args)
}

/// The files of one ABI's crate.
pub fn files(spec: &Spec, built: &Built, abi: Abi) -> Result<Vec<File>> {
    let mut chapters: BTreeMap<&str, String> = BTreeMap::new();
    for (proc, large) in spec.entries(abi.is_mpich()) {
        if !spec.overlay.handwritten.contains(&proc.name) {
            let text = entry(spec, built, proc, large, abi)?;
            chapters.entry(&proc.chapter).or_default().push_str(&text);
        }
    }
    let folder = format!("crates/{}/src/gen", abi.crate_name());
    let mut modules = String::from(
        "//! The entry points, by chapter. Generated by `cargo xtask gen` from `spec/`; do not edit.\n\n",
    );
    let mut files = Vec::new();
    for (chapter, text) in &chapters {
        writeln!(modules, "mod {chapter};").expect("a String takes everything");
        let head = format!(
            "//! Entry points: {}. Generated by `cargo xtask gen` from `spec/`; do not edit.\n\n\
             #[allow(unused_imports)]\nuse crate::abi::prelude::*;\n\n",
            chapter.replace('_', " ")
        );
        files.push(File::new(format!("{folder}/{chapter}.rs"), head + text));
    }
    if abi.is_mpich() {
        modules.push_str("pub mod values;\n");
    }
    files.push(File::new(format!("{folder}/mod.rs"), modules));
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn declared(name: &str, large: bool, abi: Abi) -> Vec<String> {
        let spec = Spec::load().unwrap();
        let proc = spec.procs.iter().find(|p| p.name == name).unwrap();
        let params = params(&spec, proc, large, abi).unwrap();
        params
            .iter()
            .map(|c| format!("{}: {}", c.name, c.rust.as_deref().unwrap()))
            .collect()
    }

    #[test]
    fn partitioned_counts_follow_the_headers_not_the_text() {
        assert_eq!(
            declared("Psend_init", false, Abi::Standard)[2],
            "count: i32"
        );
        assert_eq!(declared("Psend_init", true, Abi::Standard)[2], "count: i64");
        assert_eq!(declared("Psend_init", false, Abi::Mpich)[2], "count: i64");
    }

    #[test]
    fn files_that_are_not_built_have_the_handler_of_files() {
        let spec = Spec::load().unwrap();
        let handler = |name: &str, built| {
            let proc = spec.procs.iter().find(|p| p.name == name).unwrap();
            on(&spec, proc, built)
        };
        for name in [
            "File_open",
            "File_close",
            "File_read",
            "File_set_errhandler",
        ] {
            assert_eq!(handler(name, false), "consts::FILE_NULL", "{name}");
        }
        assert_eq!(handler("File_read", true), "fh.neutral()");
        assert_eq!(handler("File_open", true), "comm.neutral()");
        assert_eq!(handler("Win_create", false), "comm.neutral()");
    }

    #[test]
    fn parameters_are_converted_by_kind() {
        let spec = Spec::load().unwrap();
        let exprs = |name: &str, abi| {
            let proc = spec.procs.iter().find(|p| p.name == name).unwrap();
            let params = params(&spec, proc, false, abi).unwrap();
            params.into_iter().map(|c| c.expr).collect::<Vec<_>>()
        };
        let send = exprs("Send", Abi::Mpich);
        assert_eq!(
            send[1],
            "non_negative(count as i64, \"count\", consts::ERR_COUNT)?"
        );
        assert_eq!(
            send[2..5],
            [
                "datatype.neutral()",
                "values::rank_in(dest)",
                "values::tag_in(tag)"
            ]
        );
        // Only the root's receive count means something.
        assert_eq!(exprs("Gather", Abi::Standard)[4], "recvcount as i64");
        assert_eq!(
            exprs("Cancel", Abi::Standard)[0],
            "&mut *handle_inout(request, \"request\")?"
        );
        // The number of dimensions bounds the arrays.
        assert!(exprs("Cart_create", Abi::Standard)[2].starts_with("narrow_of(dims, ndims,"));
    }
}
