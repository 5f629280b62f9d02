//! `cargo xtask gen`: writes everything that is generated from `spec/`.
//!
//! Output goes to `gen/` folders and `include/`, is never edited, and depends on nothing but `spec/`
//! and the list of procedures that the engine has (`crates/engine/src/api`). With `--check` nothing
//! is written and a file that is out of date is an error.

mod api;
mod consts;
mod convert;
mod entries;
mod exports;
mod fortran;
mod header;
mod mpif;
mod values;

use std::path::{Path, PathBuf};

use api::Built;

use crate::Result;
use crate::spec::{Spec, root};

/// Arguments of `gen`.
#[derive(clap::Args, Default)]
pub struct Args {
    /// Write nothing; fail if something is out of date
    #[arg(long)]
    check: bool,
}

/// One of the two ABIs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Abi {
    /// The MPI-5.0 standard ABI.
    Standard,
    /// The MPICH ABI.
    Mpich,
}

impl Abi {
    /// Both.
    pub const ALL: [Abi; 2] = [Abi::Standard, Abi::Mpich];

    /// Whether this is the MPICH ABI.
    pub fn is_mpich(self) -> bool {
        self == Abi::Mpich
    }

    /// Its crate of entry points.
    pub fn crate_name(self) -> &'static str {
        if self.is_mpich() {
            "capi-mpich"
        } else {
            "capi"
        }
    }

    /// Its library's file name, which is also the soname.
    pub fn library(self) -> &'static str {
        if self.is_mpich() {
            "libmpi.so.12"
        } else {
            "libmpi_abi.so.1"
        }
    }

    /// Its crate of Fortran routines.
    pub fn fortran_crate(self) -> &'static str {
        if self.is_mpich() {
            "fapi-mpich"
        } else {
            "fapi"
        }
    }

    /// The file name of its Fortran library, which is also the soname.
    pub fn fortran_library(self) -> &'static str {
        if self.is_mpich() {
            "libmpifort.so.12"
        } else {
            "libmpifort_abi.so.1"
        }
    }

    /// Its folder below `include/`.
    pub fn folder(self) -> &'static str {
        if self.is_mpich() { "mpich" } else { "abi" }
    }
}

/// A file to be: path from the root of the workspace, and text.
pub struct File {
    path: PathBuf,
    text: String,
}

impl File {
    fn new(path: impl Into<PathBuf>, text: String) -> File {
        File {
            path: path.into(),
            text,
        }
    }
}

/// All generated files.
pub fn files(spec: &Spec, built: &Built) -> Result<Vec<File>> {
    let mut files = vec![File::new(
        "crates/types/src/gen/consts.rs",
        consts::rust(spec),
    )];
    for abi in Abi::ALL {
        files.extend(entries::files(spec, built, abi)?);
        files.push(exports::script(
            &exports::symbols(spec, abi),
            abi.crate_name(),
        ));
        files.push(header::file(spec, abi)?);
        files.extend(fortran::files(spec, abi)?);
        files.push(mpif::file(spec, abi));
    }
    files.push(File::new(
        "crates/capi-mpich/src/gen/values.rs",
        values::mpich(spec),
    ));
    Ok(files)
}

/// Writes what differs; gives the paths that did.
pub fn update(write: bool) -> Result<Vec<PathBuf>> {
    let spec = Spec::load()?;
    let built = Built::scan(&root().join("crates/engine/src/api"))?;
    for complaint in entries::complaints(&spec, &built)? {
        eprintln!("xtask gen: {complaint}");
    }
    let mut changed = Vec::new();
    let files = files(&spec, &built)?;
    for file in &files {
        let path = root().join(&file.path);
        if std::fs::read_to_string(&path).is_ok_and(|old| old == file.text) {
            continue;
        }
        changed.push(file.path.clone());
        if write {
            let fail = |e: std::io::Error| format!("{}: {e}", path.display());
            std::fs::create_dir_all(path.parent().expect("a file lies in a folder"))
                .map_err(fail)?;
            std::fs::write(&path, &file.text).map_err(fail)?;
        }
    }
    for stale in stale(&files)? {
        if write {
            let path = root().join(&stale);
            std::fs::remove_file(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        }
        changed.push(stale);
    }
    Ok(changed)
}

/// Names of the entry points of an ABI that aren't built.
pub fn missing(abi: Abi) -> Result<Vec<String>> {
    let built = Built::scan(&root().join("crates/engine/src/api"))?;
    entries::missing(&Spec::load()?, &built, abi)
}

/// Every symbol that the library of an ABI exports, sorted.
pub fn symbols(abi: Abi) -> Result<Vec<String>> {
    Ok(exports::symbols(&Spec::load()?, abi))
}

/// Every symbol that the Fortran library of an ABI exports, sorted.
pub fn fortran_symbols(abi: Abi) -> Result<Vec<String>> {
    Ok(fortran::symbols(&Spec::load()?, abi))
}

/// Files in the `gen/` folders that nothing generates any more.
fn stale(files: &[File]) -> Result<Vec<PathBuf>> {
    let mut stale = Vec::new();
    let crates = Abi::ALL.map(|abi| [abi.crate_name(), abi.fortran_crate()]);
    for name in crates.into_iter().flatten() {
        let folder = Path::new("crates").join(name).join("src/gen");
        let Ok(entries) = std::fs::read_dir(root().join(&folder)) else {
            continue;
        };
        for entry in entries.flatten() {
            let path = folder.join(entry.file_name());
            if !files.iter().any(|f| f.path == path) {
                stale.push(path);
            }
        }
    }
    Ok(stale)
}

/// Runs the subcommand.
pub fn run(args: &Args) -> Result {
    let changed = update(!args.check)?;
    if args.check && !changed.is_empty() {
        let list: Vec<_> = changed.iter().map(|p| p.display().to_string()).collect();
        return Err(format!(
            "out of date, run `cargo xtask gen`: {}",
            list.join(", ")
        ));
    }
    for path in changed {
        println!("{}", path.display());
    }
    Ok(())
}
