//! Running other programs.

use std::process::{Command, Stdio};

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

/// Kills processes; false if one was gone already. The shell's own `kill`: a small system has no other.
pub fn kill(pids: &[u32]) -> bool {
    let mut shell = Command::new("sh");
    shell.args(["-c", "kill -s KILL -- \"$@\"", "sh"]);
    shell.args(pids.iter().map(u32::to_string));
    let status = shell.stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
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
