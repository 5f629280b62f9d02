//! `cargo xtask distil --from apis.json`: the MPI Forum's table of procedures, distilled.
//!
//! The source is `pympistandard/data/apis.json` of the Python package `pympistandard` (PyPI). What
//! entry points and headers need is kept, one line per procedure, in `spec/procedures.toml`; prose,
//! Fortran and typesetting are left out. Run it when the Forum publishes a new table, and review the
//! difference.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Deserialize;

use crate::Result;
use crate::spec::{Dir, Param, print_param, root};

/// Arguments of `distil`.
#[derive(clap::Args)]
pub struct Args {
    /// The MPI Forum's apis.json
    #[arg(long)]
    from: std::path::PathBuf,
}

#[derive(Deserialize)]
struct Api {
    name: String,
    attributes: Attributes,
    parameters: Vec<ApiParam>,
    return_kind: String,
}

#[derive(Deserialize)]
struct Attributes {
    c_expressible: bool,
    callback: bool,
    predefined_function: Option<String>,
}

#[derive(Deserialize)]
struct ApiParam {
    name: String,
    kind: String,
    param_direction: String,
    constant: serde_json::Value,
    length: serde_json::Value,
    pointer: Option<bool>,
    large_only: bool,
    root_only: bool,
    func_type: String,
    suppress: String,
}

/// Chapters (files of generated code): the first rule that fits a procedure's name names its
/// chapter. A rule is a list of prefixes; `*x` fits anywhere.
const CHAPTERS: &[(&str, &str)] = &[
    ("tool", "T_"),
    (
        "convert",
        "*_c2f *_f2c *_toint *_fromint Status_f Status_c2f08",
    ),
    ("errors", "*rrhandler Error_ Add_error Remove_error"),
    ("attribute", "*keyval *_attr Attr_ Keyval_"),
    ("io", "File_ Register_datarep"),
    ("neighborhood", "*eighbor_a"),
    (
        "rma",
        "Win_ Put Get_accumulate Accumulate Raccumulate Rget Rput Fetch_and_op Compare_and_swap",
    ),
    (
        "session",
        "Session_ Group_from_session Comm_create_from_group Intercomm_create_from",
    ),
    (
        "topology",
        "Cart Graph Dist_graph Dims_create Topo_test Get_hw_resource",
    ),
    ("partitioned", "Psend Precv Pready Parrived"),
    (
        "dynamic",
        "Close_port Open_port Comm_accept Comm_connect Comm_disconnect Comm_get_parent Comm_join \
         Comm_spawn Lookup_name Publish_name Unpublish_name",
    ),
    ("info", "Info_"),
    ("group", "Group_"),
    (
        "buffered",
        "Buffer_ Comm_attach_b Comm_detach_b Comm_flush Comm_iflush",
    ),
    ("comm", "Comm_ Intercomm_"),
    ("datatype", "Type_ Pack Unpack Get_address Aint_"),
    (
        "request",
        "Wait Test Request_ Start Cancel Grequest_ Status_ Get_count Get_elements",
    ),
    (
        "point_to_point",
        "Send Bsend Ssend Rsend Isend Ibsend Issend Irsend Recv Irecv Mrecv Imrecv Probe Iprobe \
         Mprobe Improbe Isendrecv",
    ),
    (
        "collective",
        "Bar Bcast Gather Scatter Allgather Alltoall Reduce Allreduce Scan Exscan Op_ Ib Ig Is Ia \
         Ir Ie",
    ),
    ("environment", ""),
];

fn chapter(name: &str) -> &'static str {
    let lower = name.to_lowercase();
    let sends = lower.contains("send_init") || lower.contains("recv_init");
    if name.ends_with("_init") && !sends && !name.starts_with("Neighbor") && name != "Session_init"
    {
        return "persistent";
    }
    let fits = |rule: &str| match rule.strip_prefix('*') {
        Some(part) => name.contains(part),
        None => name.starts_with(rule),
    };
    let found = CHAPTERS
        .iter()
        .find(|(_, rules)| rules.is_empty() || rules.split_whitespace().any(fits));
    let (found, _) = found.expect("the last rule fits everything");
    match *found {
        "collective" if name.starts_with('I') => "nonblocking_collective",
        c => c,
    }
}

fn param(p: &ApiParam) -> Option<Param> {
    if p.suppress.contains("c_parameter") {
        return None;
    }
    let array = match &p.length {
        serde_json::Value::Null => None,
        serde_json::Value::String(s) if s.is_empty() => Some("*".to_string()),
        serde_json::Value::String(s) => Some(s.clone()),
        other => {
            let words = other
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(|v| v.as_str());
            Some(words.collect::<Vec<_>>().join("*"))
        }
    };
    Some(Param {
        name: p.name.clone(),
        kind: p.kind.clone(),
        dir: match p.param_direction.as_str() {
            "out" => Dir::Out,
            "inout" => Dir::InOut,
            _ => Dir::In,
        },
        // The table says true, false, or the string "true".
        constant: p.constant == true || p.constant == "true",
        array,
        pointer: p.pointer,
        large_only: p.large_only,
        root_only: p.root_only,
        func: Some(p.func_type.clone()).filter(|f| !f.is_empty()),
    })
}

/// The distilled table, as text.
fn distil(apis: &BTreeMap<String, Api>) -> String {
    let mut chapters: BTreeMap<&str, String> = BTreeMap::new();
    for api in apis.values() {
        let a = &api.attributes;
        if !a.c_expressible || a.predefined_function.is_some() {
            continue;
        }
        let name = api.name.strip_prefix("MPI_").unwrap_or(&api.name);
        let params = api.parameters.iter().filter_map(param);
        let mut words: Vec<_> = params.map(|p| print_param(&p)).collect();
        if api.return_kind != "ERROR_CODE" {
            words.push(format!("-> {}", api.return_kind));
        }
        let chapter = if a.callback {
            "callback"
        } else {
            chapter(name)
        };
        let text = chapters.entry(chapter).or_default();
        let words: Vec<_> = words.iter().map(|w| format!("{w:?}")).collect();
        writeln!(text, "{name} = [{}]", words.join(", ")).expect("a String takes everything");
    }
    let mut out = String::from(
        "# Procedures of MPI-5.0 as C sees them: written by `cargo xtask distil`, not by hand.\n\
         # name: [out|inout] [const] [large] [root] [ptr|val] KIND[(C type)][[length]], and -> KIND where\n\
         # a value is returned that is no error code. Kinds are those of the standard's apis.json.\n",
    );
    for (chapter, text) in chapters {
        write!(out, "\n[{chapter}]\n{text}").expect("a String takes everything");
    }
    out
}

/// Runs the subcommand.
pub fn run(args: &Args) -> Result {
    let text =
        std::fs::read_to_string(&args.from).map_err(|e| format!("{}: {e}", args.from.display()))?;
    let apis: BTreeMap<String, Api> =
        serde_json::from_str(&text).map_err(|e| format!("{}: {e}", args.from.display()))?;
    let path = root().join("spec/procedures.toml");
    std::fs::write(&path, distil(&apis)).map_err(|e| format!("{}: {e}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::chapter;

    #[test]
    fn chapters_of_some_procedures() {
        for (name, expected) in [
            ("Isend", "point_to_point"),
            ("Ibcast", "nonblocking_collective"),
            ("Bcast_init", "persistent"),
            ("Neighbor_alltoall_init", "neighborhood"),
            ("Comm_get_attr", "attribute"),
            ("Comm_c2f", "convert"),
            ("Alltoall", "collective"),
            ("Send_init", "point_to_point"),
            ("Waitall", "request"),
            ("Init", "environment"),
        ] {
            assert_eq!(chapter(name), expected, "{name}");
        }
    }
}
