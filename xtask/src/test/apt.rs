//! What the tests need of the system: asked for by what it does, installed with apt where we may.

use crate::{Result, process};
use std::path::Path;
use std::process::{Command, Stdio};

/// Python with virtual environments.
pub fn need_python() -> Result {
    need(&[("python3", "python3")])?;
    let works = Command::new("python3")
        .args(["-c", "import ensurepip, venv"])
        .stderr(Stdio::null())
        .status();
    if works.is_ok_and(|status| status.success()) {
        Ok(())
    } else {
        install(&["python3-venv"])
    }
}

/// Programs, each with the package that has it.
pub fn need(programs: &[(&str, &str)]) -> Result {
    let missing: Vec<_> = programs
        .iter()
        .filter(|(program, _)| !found(program))
        .map(|(_, package)| *package)
        .collect();
    if missing.is_empty() {
        Ok(())
    } else {
        install(&missing)
    }
}

/// Whether a program is in the search path.
pub fn found(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// Downloads packages into a folder without installing them or what they depend on.
pub fn download(packages: &[&str], folder: &Path) -> Result {
    need(&[("apt-get", "apt")])?;
    println!("      downloading {}", packages.join(" "));
    let get = || {
        let mut command = Command::new("apt-get");
        // As the user we are: the one that apt downloads as may not write here.
        command.args(["-qq", "-o", "APT::Sandbox::User=", "download"]);
        process::run(command.args(packages).current_dir(folder))
    };
    // A fresh machine may have no package lists yet.
    get().or_else(|_| {
        process::run(
            Command::new("apt-get")
                .args(["update", "-qq"])
                .stdout(Stdio::null()),
        )?;
        get()
    })
}

/// Installs packages when we are root, else says how.
pub fn install(packages: &[&str]) -> Result {
    let words = packages.join(" ");
    let root = process::output(Command::new("id").arg("-u")).is_ok_and(|id| id.trim() == "0");
    if !root || !Path::new("/usr/bin/apt-get").exists() {
        return Err(format!(
            "missing: {words}\ntype:    sudo apt-get install -y {words}"
        ));
    }
    println!("      installing {words}");
    let apt = |args: &[&str]| {
        let mut command = Command::new("apt-get");
        command
            .env("DEBIAN_FRONTEND", "noninteractive")
            .args(args)
            .stdout(Stdio::null());
        process::run(&mut command)
    };
    let install = [
        &["install", "-y", "-qq", "--no-install-recommends"][..],
        packages,
    ]
    .concat();
    if apt(&install).is_ok() {
        return Ok(());
    }
    // A fresh machine may have no package lists yet.
    apt(&["update", "-qq"])?;
    apt(&install)
}
