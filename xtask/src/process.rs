//! Running other programs.

use std::process::Command;

use crate::Result;

/// Runs a program; its failure is an error that shows the command.
pub fn run(command: &mut Command) -> Result {
    let status = command.status().map_err(|e| format!("{command:?}: {e}"))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("{command:?}: {status}"))
    }
}

/// Runs a program and gives what it printed.
pub fn output(command: &mut Command) -> Result<String> {
    let out = command.output().map_err(|e| format!("{command:?}: {e}"))?;
    if !out.status.success() {
        let said = String::from_utf8_lossy(&out.stderr);
        return Err(format!("{command:?}: {}\n{said}", out.status));
    }
    Ok(String::from_utf8_lossy(&out.stdout).into_owned())
}
