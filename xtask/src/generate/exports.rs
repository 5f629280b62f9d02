//! Export lists: anonymous version scripts for the final link.
//!
//! The script has no version name, so that the libraries have no version nodes: a program linked
//! with ours must load on another implementation of the same ABI.

use super::{Abi, File, entries};
use crate::spec::Spec;

/// What is beside MPI's: what gives FMPL's functions, and the extensions (`include/yamabiko.h`).
const BESIDE: [&str; 2] = ["yamabiko_fmpl_table", "yamabiko_op_create_bytecode"];

/// Every symbol that a library exports, sorted.
pub fn symbols(spec: &Spec, abi: Abi) -> Vec<String> {
    let mut symbols = Vec::new();
    for (proc, large) in spec.entries(abi.is_mpich()) {
        let name = entries::name(proc, large);
        symbols.push(format!("MPI_{name}"));
        symbols.push(format!("PMPI_{name}"));
    }
    if abi.is_mpich() {
        symbols.extend(spec.overlay.mpich_symbols.iter().cloned());
    }
    symbols.extend(BESIDE.map(str::to_owned));
    symbols.sort();
    symbols
}

/// The version script of the library that a crate becomes.
pub fn script(symbols: &[String], crate_name: &str) -> File {
    let mut text = String::from("{\n  global:\n");
    for symbol in symbols {
        text += &format!("    {symbol};\n");
    }
    text += "  local:\n    *;\n};\n";
    File::new(format!("crates/{crate_name}/src/gen/exports.map"), text)
}
