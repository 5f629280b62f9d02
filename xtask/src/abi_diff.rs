//! `cargo xtask abi-diff --header DIR --abi abi|mpich`: the constants in `spec/` against somebody
//! else's `mpi.h`, by compiling a program that prints them.

use std::fmt::Write;
use std::path::PathBuf;
use std::process::Command;

use crate::spec::{Constant, Spec, root};
use crate::{Result, process};

/// Arguments of `abi-diff`.
#[derive(clap::Args)]
pub struct Args {
    /// Folder of the mpi.h to compare with
    #[arg(long)]
    header: PathBuf,
    /// Compare the MPICH ABI's column rather than the standard's
    #[arg(long)]
    mpich: bool,
    /// More arguments for the C compiler, such as -DMPI_ABI
    #[arg(long, allow_hyphen_values = true)]
    cflag: Vec<String>,
}

/// Runs the subcommand.
pub fn run(args: &Args) -> Result {
    let differences = compare(&Spec::load()?, args)?;
    if differences.is_empty() {
        return Ok(());
    }
    Err(format!("constants differ:\n  {}", differences.join("\n  ")))
}

fn compare(spec: &Spec, args: &Args) -> Result<Vec<String>> {
    let value = |c: &Constant| if args.mpich { c.mpich } else { c.abi };
    let rows = spec
        .constants
        .iter()
        .flat_map(|(table, rows)| rows.iter().map(move |c| (table, c)));
    let mut program = String::from("#include <mpi.h>\n#include <stdio.h>\nint main(void) {\n");
    for (table, c) in rows {
        let Some(value) = value(c) else { continue };
        let cast = if table.starts_with("handle.") {
            "(unsigned int) (intptr_t)"
        } else {
            "(intptr_t)"
        };
        let name = c.c_name();
        writeln!(
            program,
            "if ((long long) {cast} {name} != {value}LL) \
             printf(\"{name}: %lld there, {value} in spec/\\n\", (long long) {cast} {name});"
        )
        .expect("a String takes everything");
    }
    program.push_str("return 0; }\n");
    let folder = root().join("target/abi-diff");
    std::fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let source = folder.join(if args.mpich { "mpich.c" } else { "abi.c" });
    std::fs::write(&source, program).map_err(|e| format!("{}: {e}", source.display()))?;
    let binary = source.with_extension("");
    let mut cc = Command::new("cc");
    cc.args(&args.cflag)
        .arg("-w")
        .arg("-I")
        .arg(&args.header)
        .arg(&source);
    process::run(cc.arg("-o").arg(&binary))?;
    let said = process::output(&mut Command::new(&binary))?;
    Ok(said.lines().map(String::from).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_headers_have_the_values_of_the_tables() {
        let spec = Spec::load().unwrap();
        for (folder, mpich) in [("abi", false), ("mpich", true)] {
            let header = root().join("include").join(folder);
            let args = Args {
                header,
                mpich,
                cflag: Vec::new(),
            };
            assert_eq!(compare(&spec, &args).unwrap(), Vec::<String>::new());
        }
    }
}
