//! `cargo xtask build`: compiles everything, links the two shared libraries and lays out the
//! installation in `<target>/prefix`.
//!
//! The entry points are compiled as static libraries and linked here, since Cargo's own shared
//! libraries can't have weak aliases or an anonymous version script.

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

const LIBRARIES: [&str; 4] = ["capi", "capi-mpich", "fmpl-lib", "blacs-lib"];
const PROGRAMS: [&str; 2] = ["launch", "wrappers"];
/// Other names of programs, and the programs.
const NAMES: [(&str, &str); 7] = [
    ("mpirun", "mpiexec"),
    ("mpiexec.hydra", "mpiexec"),
    ("mpicxx", "mpicc"),
    ("mpic++", "mpicc"),
    ("mpicc_abi", "mpicc"),
    ("mpicxx_abi", "mpicc"),
    ("mpic++_abi", "mpicc"),
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
    for abi in Abi::ALL {
        link(abi, &compiled, &prefix.join("lib"))?;
        symbols::check(abi, &prefix.join("lib").join(abi.library()))?;
    }
    crate::fmpl::link(&compiled, &prefix)?;
    for (name, to) in [
        ("libmpich.so.12", "libmpi.so.12"),
        ("libmpi.so", "libmpi.so.12"),
        ("libmpi_abi.so", "libmpi_abi.so.1"),
    ] {
        symlink(to, &prefix.join("lib").join(name))?;
    }
    copy(
        &root().join("include/abi/mpi.h"),
        &prefix.join("include/mpi.h"),
    )?;
    copy(
        &root().join("include/mpich/mpi.h"),
        &prefix.join("include/mpich/mpi.h"),
    )?;
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

fn compile(args: &Args, profile: &str) -> Result {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command
        .current_dir(root())
        .args(["build", "--quiet", "--profile", profile]);
    let programs = if args.libs { &[][..] } else { &PROGRAMS };
    for package in LIBRARIES.iter().chain(programs) {
        command.args(["-p", package]);
    }
    if let Some(jobs) = args.jobs {
        command.arg(format!("-j{jobs}"));
    }
    process::run(&mut command)
}

/// Links one shared library from its static one.
fn link(abi: Abi, compiled: &Path, lib: &Path) -> Result {
    let crate_name = abi.crate_name();
    let archive = if abi.is_mpich() {
        "libmpi_mpich.a"
    } else {
        "libmpi_abi.a"
    };
    let script = root()
        .join("crates")
        .join(crate_name)
        .join("src/gen/exports.map");
    let library = abi.library();
    link_shared(&compiled.join(archive), &script, &lib.join(library))
}

/// Links a shared library from a static one: all of it, exporting what the script says.
pub fn link_shared(archive: &Path, script: &Path, path: &Path) -> Result {
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
    for (name, what, include, lib) in [
        (
            "yamabiko",
            "MPI library, standard ABI",
            "include",
            "mpi_abi",
        ),
        (
            "yamabiko-mpich",
            "MPI library, MPICH ABI",
            "include/mpich",
            "mpi",
        ),
    ] {
        let text = format!(
            "prefix=${{pcfiledir}}/../..\nlibdir=${{prefix}}/lib\nincludedir=${{prefix}}/{include}\n\n\
             Name: {name}\nDescription: {what}\nVersion: {version}\n\
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

/// The programs that `yamabiko bench` compiles.
fn kernels(prefix: &Path) -> Result {
    let to = prefix.join("share/yamabiko/bench");
    make_folder(&to)?;
    for name in ["latency.c", "flag.c"] {
        copy(
            &root().join("crates/bench/kernels").join(name),
            &to.join(name),
        )?;
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
