//! `mpicc`, `mpicxx`, `mpifort` and their other names: run the compiler of C, C++ or Fortran with what MPI
//! programs need.
//!
//! One program under several names. It finds the installation from its own path, so an installation
//! can be moved. What it decides is in [`command`]; this file asks the system and runs the compiler.

#![forbid(unsafe_code)]

mod command;

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use command::{Answer, Wrapper};

fn main() -> ExitCode {
    let mut args = std::env::args_os();
    let name = args.next().map(PathBuf::from).unwrap_or_default();
    let name = name
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let prefix = match prefix() {
        Ok(prefix) => prefix,
        Err(why) => return fail(&name, &why),
    };
    let args: Vec<String> = args.map(|a| a.to_string_lossy().into_owned()).collect();
    let wrapper = Wrapper {
        name: &name,
        prefix: &prefix,
        env: &|key| std::env::var(key).ok(),
        found: &found,
        version: &version,
    };
    match wrapper.answer(&args) {
        Ok(Answer::Print(text)) => {
            // Whoever has seen enough need not read all of it.
            let _ = writeln!(std::io::stdout(), "{text}");
            ExitCode::SUCCESS
        }
        Ok(Answer::Run(words)) => {
            let why = Command::new(&words[0]).args(&words[1..]).exec();
            let advice = wrapper.advice();
            fail(&name, &format!("can't run {}: {why}; {advice}", words[0]))
        }
        Err(why) => fail(&name, &why),
    }
}

/// Whether a program is in the search path.
fn found(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// What a compiler says of its version, if it can be run.
fn version(compiler: &str) -> Option<String> {
    let output = Command::new(compiler).arg("-dumpversion").output().ok()?;
    String::from_utf8(output.stdout).ok()
}

/// The folder above the one that this program (links resolved) lies in.
fn prefix() -> Result<String, String> {
    let exe = std::env::current_exe().map_err(|e| format!("can't find my own path: {e}"))?;
    let prefix = exe.parent().and_then(|bin| bin.parent());
    let prefix = prefix.ok_or_else(|| format!("{} lies in no bin folder", exe.display()))?;
    Ok(prefix.to_string_lossy().into_owned())
}

fn fail(name: &str, why: &str) -> ExitCode {
    let _ = writeln!(std::io::stderr(), "{name}: {why}");
    ExitCode::FAILURE
}
