//! `mpicc`, `mpicxx` and their other names: run the C or C++ compiler with what MPI programs need.
//!
//! One program under several names. It finds the installation from its own path, so an installation
//! can be moved. What it decides is in [`command`]; this file asks the system and runs the compiler.

#![forbid(unsafe_code)]

mod command;

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
    };
    match wrapper.answer(&args) {
        Ok(Answer::Print(text)) => {
            println!("{text}");
            ExitCode::SUCCESS
        }
        Ok(Answer::Run(words)) => {
            let why = Command::new(&words[0]).args(&words[1..]).exec();
            let variable = wrapper.compiler_variable();
            fail(
                &name,
                &format!(
                    "can't run {}: {why}; set {variable} to your compiler",
                    words[0]
                ),
            )
        }
        Err(why) => fail(&name, &why),
    }
}

/// The folder above the one that this program (links resolved) lies in.
fn prefix() -> Result<String, String> {
    let exe = std::env::current_exe().map_err(|e| format!("can't find my own path: {e}"))?;
    let prefix = exe.parent().and_then(|bin| bin.parent());
    let prefix = prefix.ok_or_else(|| format!("{} lies in no bin folder", exe.display()))?;
    Ok(prefix.to_string_lossy().into_owned())
}

fn fail(name: &str, why: &str) -> ExitCode {
    eprintln!("{name}: {why}");
    ExitCode::FAILURE
}
