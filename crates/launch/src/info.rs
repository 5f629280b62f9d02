//! `yamabiko info`: what this installation is.

use std::path::{Path, PathBuf};

/// The text of `yamabiko info`.
pub fn summary() -> String {
    let place = installation().map_or("unknown".into(), |p| p.display().to_string());
    format!(
        "Yamabiko {}\ninstallation: {place}\nlauncher: mpiexec, one machine, PMI-1, at most {} ranks\n",
        env!("CARGO_PKG_VERSION"),
        crate::options::RANKS_MAX,
    )
}

/// The text of `yamabiko info --missing`: the MPI functions that are not built yet, one a line.
pub fn missing() -> Result<String, String> {
    let place = installation().ok_or("cannot tell where this program is installed")?;
    let path = place.join("share/yamabiko/missing.txt");
    std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))
}

/// The directory that has this program's `bin`.
fn installation() -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?;
    Some(
        program
            .parent()?
            .parent()
            .unwrap_or(Path::new("/"))
            .to_path_buf(),
    )
}
