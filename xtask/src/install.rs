//! `cargo xtask install --prefix DIR`: copies the laid out installation.

use std::path::{Path, PathBuf};

use crate::{Result, build};

/// Arguments of `install`.
#[derive(clap::Args)]
pub struct Args {
    /// Where to
    #[arg(long)]
    prefix: PathBuf,
}

/// Runs the subcommand.
pub fn run(args: &Args) -> Result {
    let from = build::prefix(false);
    if !from.join("bin/mpicc").exists() {
        return Err(format!("{} is not built yet: run `make`", from.display()));
    }
    copy(&from, &args.prefix)
}

/// Copies an installation.
pub fn copy(from: &Path, to: &Path) -> Result {
    let fail = |e: std::io::Error| format!("{}: {e}", to.display());
    let metadata = from.symlink_metadata().map_err(fail)?;
    if metadata.is_dir() {
        std::fs::create_dir_all(to).map_err(fail)?;
        for entry in std::fs::read_dir(from).map_err(fail)? {
            let name = entry.map_err(fail)?.file_name();
            copy(&from.join(&name), &to.join(&name))?;
        }
        return Ok(());
    }
    // Removed first: the old one may be in use, or a link to something else.
    let _ = std::fs::remove_file(to);
    if metadata.is_symlink() {
        let target = std::fs::read_link(from).map_err(fail)?;
        return std::os::unix::fs::symlink(target, to).map_err(fail);
    }
    std::fs::copy(from, to).map(|_| ()).map_err(fail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_stay_links() {
        let base = std::env::temp_dir().join(format!("yamabiko-install-{}", std::process::id()));
        let (from, to) = (base.join("from"), base.join("to"));
        std::fs::create_dir_all(from.join("lib")).unwrap();
        std::fs::write(from.join("lib/a.1"), "x").unwrap();
        std::os::unix::fs::symlink("a.1", from.join("lib/a")).unwrap();
        for _ in 0..2 {
            copy(&from, &to).unwrap();
        }
        assert_eq!(
            std::fs::read_link(to.join("lib/a")).unwrap(),
            Path::new("a.1")
        );
        assert_eq!(std::fs::read_to_string(to.join("lib/a")).unwrap(), "x");
        std::fs::remove_dir_all(&base).unwrap();
    }
}
