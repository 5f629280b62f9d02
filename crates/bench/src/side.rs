//! One library of a comparison: where its `mpicc` and `mpiexec` are, its kernel, one run of it.
//! Called by `latency`.

use crate::Result;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The peer and its version, as the package index of Python has it.
const MPICH: &str = "mpich==5.0.2";

/// Longest a run may take, in seconds; both launchers read it from `MPIEXEC_TIMEOUT`.
const LONGEST_RUN: &str = "300";

/// A library with its kernel compiled.
pub struct Side {
    prefix: PathBuf,
    kernel: PathBuf,
}

/// What one run of the kernel printed.
#[derive(Debug, Default, PartialEq)]
pub struct Run {
    /// The library's own name for itself.
    pub library: String,
    /// Microseconds one way, for each size in the order asked for.
    pub latencies: Vec<f64>,
}

impl Side {
    /// Compiles the kernel `source` with the `mpicc` of the installation `prefix`, as `kernel`.
    pub fn new(prefix: &Path, source: &Path, kernel: PathBuf) -> Result<Side> {
        output(
            clean(&prefix.join("bin/mpicc"))
                .args(["-O2", "-o"])
                .arg(&kernel)
                .arg(source),
        )?;
        Ok(Side {
            prefix: prefix.to_path_buf(),
            kernel,
        })
    }

    /// Runs the kernel on two ranks.
    pub fn run(&self, sizes: &[u32]) -> Result<Run> {
        let mut command = clean(&self.prefix.join("bin/mpiexec"));
        command.args(["-n", "2"]).arg(&self.kernel);
        command.args(sizes.iter().map(u32::to_string));
        parse(&output(&mut command)?, sizes)
    }
}

/// Reads what the kernel prints.
fn parse(text: &str, sizes: &[u32]) -> Result<Run> {
    let mut run = Run::default();
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("library ") {
            run.library = name.trim().into();
        } else if let Some(rest) = line.strip_prefix("latency ") {
            let expected = sizes.get(run.latencies.len());
            let read = rest.split_once(' ').and_then(|(size, time)| {
                (size.parse().ok().as_ref() == expected).then_some(())?;
                time.trim().parse().ok().filter(|t: &f64| *t > 0.0)
            });
            run.latencies
                .push(read.ok_or_else(|| format!("the kernel printed `{line}`"))?);
        }
    }
    match run.latencies.len() == sizes.len() {
        true => Ok(run),
        false => Err(format!("the kernel printed too little:\n{text}")),
    }
}

/// Compiles the calibration and gives its program.
pub fn calibration(source: &Path, program: PathBuf) -> Result<PathBuf> {
    let cc = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    output(
        Command::new(cc)
            .args(["-std=c11", "-O2", "-o"])
            .arg(&program)
            .arg(source),
    )?;
    Ok(program)
}

/// Nanoseconds that a bare flag takes one way.
pub fn calibrate(program: &Path) -> Result<f64> {
    let text = output(&mut Command::new(program))?;
    text.trim()
        .strip_prefix("flag ")
        .and_then(|number| number.parse().ok())
        .ok_or_else(|| format!("the calibration printed `{text}`"))
}

/// Installs the peer in a virtual environment of its own under `cache`, unless it is there, and
/// gives its prefix.
pub fn install_mpich(cache: &Path) -> Result<PathBuf> {
    let prefix = cache.join(MPICH.replace("==", "-"));
    if !prefix.join("bin/mpicc").exists() {
        output(Command::new("python3").args(["-m", "venv"]).arg(&prefix))?;
        output(Command::new(prefix.join("bin/pip")).args(["install", "--quiet", MPICH]))?;
    }
    Ok(prefix)
}

/// A command that finds its own library only, and no job around it.
fn clean(program: &Path) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        let name_text = name.to_string_lossy();
        if ["PMI_", "PMIX_", "YAMABIKO_", "MPICH_", "MPIR_", "HYDRA_"]
            .iter()
            .any(|start| name_text.starts_with(start))
        {
            command.env_remove(&name);
        }
    }
    command.env_remove("LD_LIBRARY_PATH");
    command.env_remove("LD_PRELOAD");
    command.env("MPIEXEC_TIMEOUT", LONGEST_RUN);
    command
}

fn output(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let out = command.output().map_err(|e| format!("{name}: {e}"))?;
    if !out.status.success() {
        let said = String::from_utf8_lossy(&out.stderr);
        return Err(format!("{name}: {}\n{said}", out.status));
    }
    Ok(String::from_utf8_lossy(&out.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_output_is_read() {
        let run = parse("library X 1.0\nlatency 8 0.25\nlatency 64 1\n", &[8, 64]).unwrap();
        assert_eq!(run.library, "X 1.0");
        assert_eq!(run.latencies, [0.25, 1.0]);
    }

    #[test]
    fn other_output_is_refused() {
        assert!(parse("latency 8 0.25\n", &[8, 64]).is_err());
        assert!(parse("latency 16 0.25\n", &[8]).is_err());
        assert!(parse("latency 8 0.25\nlatency 8 0.25\n", &[8]).is_err());
        assert!(parse("latency 8 x\n", &[8]).is_err());
        assert!(parse("latency 8 0\n", &[8]).is_err());
    }
}
