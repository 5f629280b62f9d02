//! `cargo xtask build`: compiles everything, links the two shared libraries and lays out the
//! installation in `<target>/prefix`.
//!
//! The entry points are compiled as static libraries and linked here, since Cargo's own shared
//! libraries can't have weak aliases or an anonymous version script.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::generate::{self, Abi};
use crate::spec::root;
use crate::{Result, blacs, process, symbols};

/// Arguments of `build`.
#[derive(clap::Args, Default)]
pub struct Args {
    /// Compile quickly rather than well: no link-time optimisation, in `<target>/dev-prefix`
    #[arg(long)]
    dev: bool,
    /// Build the libraries only
    #[arg(long)]
    libs: bool,
    /// Parallel jobs for Cargo
    #[arg(long, short)]
    jobs: Option<u32>,
}

/// Cargo's target folder.
pub fn target() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(dir) => root().join(dir),
        None => root().join("target"),
    }
}

/// Folder of the laid out installation.
pub fn prefix(dev: bool) -> PathBuf {
    target().join(if dev { "dev-prefix" } else { "prefix" })
}

const LIBRARIES: [&str; 7] = [
    "capi",
    "capi-mpich",
    "fapi",
    "fapi-mpich",
    "fmpl-lib",
    "blacs-lib",
    "cad-lib",
];
const PROGRAMS: [&str; 2] = ["launch", "wrappers"];
/// Other names of programs, and the programs.
const NAMES: [(&str, &str); 11] = [
    ("mpirun", "mpiexec"),
    ("mpiexec.hydra", "mpiexec"),
    ("mpicxx", "mpicc"),
    ("mpic++", "mpicc"),
    ("mpicc_abi", "mpicc"),
    ("mpicxx_abi", "mpicc"),
    ("mpic++_abi", "mpicc"),
    ("mpifort", "mpicc"),
    ("mpifort_abi", "mpicc"),
    ("mpif77", "mpicc"),
    ("mpif90", "mpicc"),
];

/// Runs the subcommand.
pub fn run(args: &Args) -> Result {
    generate::update(true)?;
    let profile = if args.dev { "quick" } else { "release" };
    compile(args, profile)?;
    let prefix = prefix(args.dev);
    for folder in ["bin", "lib/pkgconfig", "include/mpich", "share/yamabiko"] {
        make_folder(&prefix.join(folder))?;
    }
    let compiled = target().join(profile);
    let lib = prefix.join("lib");
    for library in Library::all() {
        link(&library, &compiled, &lib)?;
        symbols::check(&library, &lib.join(library.soname))?;
    }
    crate::fmpl::link(&compiled, &prefix)?;
    crate::cad::link(&compiled, &prefix)?;
    for (name, to) in [
        ("libmpich.so.12", "libmpi.so.12"),
        ("libmpi.so", "libmpi.so.12"),
        ("libmpi_abi.so", "libmpi_abi.so.1"),
        ("libmpichfort.so.12", "libmpifort.so.12"),
        ("libmpifort.so", "libmpifort.so.12"),
        ("libmpifort_abi.so", "libmpifort_abi.so.1"),
    ] {
        symlink(to, &prefix.join("lib").join(name))?;
    }
    for header in ["mpi.h", "mpif.h"] {
        for (from, to) in [
            ("include/abi", "include"),
            ("include/mpich", "include/mpich"),
        ] {
            copy(
                &root().join(from).join(header),
                &prefix.join(to).join(header),
            )?;
        }
    }
    header("yamabiko.h", &prefix)?;
    pkg_config(&prefix)?;
    blacs::lay_out(&compiled, &prefix)?;
    missing(&prefix)?;
    kernels(&prefix)?;
    if !args.libs {
        programs(&compiled, &prefix.join("bin"))?;
    }
    println!("{}", prefix.display());
    Ok(())
}

/// Lays a header of ours out beside each `mpi.h`, so that whoever finds one finds the other.
pub fn header(name: &str, prefix: &Path) -> Result {
    let header = root().join("include").join(name);
    for folder in ["include", "include/mpich"] {
        copy(&header, &prefix.join(folder).join(name))?;
    }
    Ok(())
}

fn compile(args: &Args, profile: &str) -> Result {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command
        .current_dir(root())
        .args(["build", "--profile", profile]);
    // It takes minutes the first time: who looks on sees how far it is.
    if !std::io::stderr().is_terminal() {
        command.arg("--quiet");
    }
    let programs = if args.libs { &[][..] } else { &PROGRAMS };
    for package in LIBRARIES.iter().chain(programs) {
        command.args(["-p", package]);
    }
    if let Some(jobs) = args.jobs {
        command.arg(format!("-j{jobs}"));
    }
    process::run(&mut command)
}

/// A shared library to be linked.
pub struct Library {
    /// Its ABI.
    pub abi: Abi,
    /// Whether it is the Fortran one, which needs the other.
    pub is_fortran: bool,
    /// Its file name.
    pub soname: &'static str,
}

impl Library {
    /// All, each behind those that it needs.
    pub fn all() -> Vec<Library> {
        let one = |abi: Abi, is_fortran| Library {
            abi,
            is_fortran,
            soname: if is_fortran {
                abi.fortran_library()
            } else {
                abi.library()
            },
        };
        let both = |abi| [one(abi, false), one(abi, true)];
        Abi::ALL.into_iter().flat_map(both).collect()
    }

    fn crate_name(&self) -> &'static str {
        if self.is_fortran {
            self.abi.fortran_crate()
        } else {
            self.abi.crate_name()
        }
    }

    fn archive(&self) -> &'static str {
        match (self.is_fortran, self.abi.is_mpich()) {
            (false, false) => "libmpi_abi.a",
            (false, true) => "libmpi_mpich.a",
            (true, false) => "libmpifort_abi.a",
            (true, true) => "libmpifort.a",
        }
    }
}

/// Links one shared library from its static one.
fn link(which: &Library, compiled: &Path, lib: &Path) -> Result {
    let script = root()
        .join("crates")
        .join(which.crate_name())
        .join("src/gen/exports.map");
    // A Fortran library brings the C library beside it, also for a program that names only this one.
    let needs = which.is_fortran.then(|| lib.join(which.abi.library()));
    let archive = compiled.join(which.archive());
    link_shared(&archive, &script, &lib.join(which.soname), needs.as_deref())
}

/// Links a shared library from a static one: all of it, exporting what the script says. `needs` is a library of the
/// same folder.
pub fn link_shared(archive: &Path, script: &Path, path: &Path, needs: Option<&Path>) -> Result {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    // A new file each time: a program may have the old one mapped.
    let _ = std::fs::remove_file(path);
    let mut cc = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()));
    cc.args(["-shared", "-o"]).arg(path);
    cc.arg(format!("-Wl,-soname,{name}"));
    cc.arg(format!("-Wl,--version-script={}", script.display()));
    cc.args(["-Wl,--whole-archive"])
        .arg(archive)
        .arg("-Wl,--no-whole-archive");
    if let Some(needs) = needs {
        cc.args(["-Wl,-rpath,$ORIGIN", "-Wl,--enable-new-dtags"]);
        cc.arg(needs);
    }
    cc.args([
        "-Wl,--gc-sections",
        "-Wl,--no-undefined",
        "-Wl,--as-needed",
        "-Wl,-O1",
        "-Wl,-z,noexecstack",
        "-Wl,-z,relro",
        "-Wl,-z,now",
        // Nothing of ours may disappear under a thread or a callback.
        "-Wl,-z,nodelete",
        "-pthread",
        "-lm",
        "-ldl",
        "-lc",
        "-lgcc_s",
    ]);
    process::run(&mut cc)
}

fn programs(compiled: &Path, bin: &Path) -> Result {
    for program in ["mpiexec", "yamabiko", "mpicc"] {
        let built = compiled.join(program);
        if !built.exists() {
            return Err(format!("no crate builds the program `{program}`"));
        }
        let to = bin.join(program);
        // A new file each time: the old one may be running.
        let _ = std::fs::remove_file(&to);
        copy(&built, &to)?;
    }
    for (name, to) in NAMES {
        symlink(to, &bin.join(name))?;
    }
    Ok(())
}

/// Paths are not quoted here: pkgconf, which is pkg-config nearly everywhere, escapes blanks in `pcfiledir` by
/// itself.
fn pkg_config(prefix: &Path) -> Result {
    let version = env!("CARGO_PKG_VERSION");
    let (standard, mpich) = ("MPI library, standard ABI", "MPI library, MPICH ABI");
    let fortran = ["for C", "for Fortran"];
    for (name, what, include, lib) in [
        ("yamabiko", standard, "include", "mpi_abi"),
        ("yamabiko-mpich", mpich, "include/mpich", "mpi"),
        (
            "yamabiko-fortran",
            standard,
            "include",
            "mpifort_abi -lmpi_abi",
        ),
        (
            "yamabiko-mpich-fortran",
            mpich,
            "include/mpich",
            "mpifort -lmpi",
        ),
    ] {
        let language = fortran[name.ends_with("fortran") as usize];
        let text = format!(
            "prefix=${{pcfiledir}}/../..\nlibdir=${{prefix}}/lib\nincludedir=${{prefix}}/{include}\n\n\
             Name: {name}\nDescription: {what}, {language}\nVersion: {version}\n\
             Cflags: -I${{includedir}}\nLibs: -L${{libdir}} -Wl,-rpath,${{libdir}} -l{lib}\n"
        );
        write(
            &prefix.join("lib/pkgconfig").join(format!("{name}.pc")),
            &text,
        )?;
    }
    Ok(())
}

/// The list that `yamabiko info --missing` shows.
fn missing(prefix: &Path) -> Result {
    for abi in Abi::ALL {
        let list = generate::missing(abi)?.join("\n") + "\n";
        let name = if abi.is_mpich() {
            "missing-mpich.txt"
        } else {
            "missing.txt"
        };
        write(&prefix.join("share/yamabiko").join(name), &list)?;
    }
    Ok(())
}

/// The programs that `yamabiko bench` compiles; those called `icount` are for `cargo xtask icount`.
fn kernels(prefix: &Path) -> Result {
    let to = prefix.join("share/yamabiko/bench");
    // Anew, lest one that is gone stays.
    let _ = std::fs::remove_dir_all(&to);
    make_folder(&to)?;
    let from = root().join("crates/bench/kernels");
    let entries = std::fs::read_dir(&from).map_err(|e| format!("{}: {e}", from.display()))?;
    for entry in entries {
        let name = entry.map_err(|e| e.to_string())?.file_name();
        if !name.to_string_lossy().starts_with("icount") {
            copy(&from.join(&name), &to.join(&name))?;
        }
    }
    Ok(())
}

/// Makes a folder and those above it.
pub fn make_folder(path: &Path) -> Result {
    std::fs::create_dir_all(path).map_err(|e| format!("{}: {e}", path.display()))
}

/// Writes a text file.
pub fn write(path: &Path, text: &str) -> Result {
    std::fs::write(path, text).map_err(|e| format!("{}: {e}", path.display()))
}

/// Copies a file.
pub fn copy(from: &Path, to: &Path) -> Result {
    match std::fs::copy(from, to) {
        Ok(_) => Ok(()),
        Err(e) => Err(format!("{} to {}: {e}", from.display(), to.display())),
    }
}

/// Makes a symbolic link, replacing what is there.
pub fn symlink(to: &str, path: &Path) -> Result {
    let _ = std::fs::remove_file(path);
    std::os::unix::fs::symlink(to, path).map_err(|e| format!("{}: {e}", path.display()))
}
