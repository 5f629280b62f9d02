//! A copy of what ranks need in a folder that any user may enter: the working tree may lie in a home that nobody else can.

use crate::test::ground::Ground;
use crate::{Result, build};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The copy; removed when it is dropped.
pub struct Public {
    folder: PathBuf,
}

impl Public {
    /// Copies the launcher, `yamabiko`, the library that programs of `tests/c` are linked to, and these programs of a folder.
    pub fn new(ground: &Ground, bin: &Path, programs: &[&str]) -> Result<Public> {
        let folder = std::env::temp_dir().join(format!("yamabiko-test-{}", std::process::id()));
        let public = Public { folder };
        for part in [public.folder.clone(), public.bin(), public.library()] {
            build::make_folder(&part)?;
            let all = fs::set_permissions(&part, Permissions::from_mode(0o755));
            all.map_err(|e| format!("{}: {e}", part.display()))?;
        }
        let installed = ground.launcher.parent().unwrap_or(Path::new("/"));
        for name in ["mpiexec", "yamabiko"] {
            copy(installed, &public.bin(), name)?;
        }
        copy(&ground.library, &public.library(), "libmpi_abi.so.1")?;
        for name in programs {
            copy(bin, &public.bin(), name)?;
        }
        Ok(public)
    }

    /// Where the programs are.
    pub fn bin(&self) -> PathBuf {
        self.folder.join("bin")
    }

    fn library(&self) -> PathBuf {
        self.folder.join("lib")
    }

    /// The same ground, of the copies.
    pub fn ground(&self, of: &Ground) -> Ground {
        Ground {
            launcher: self.bin().join("mpiexec"),
            library: self.library(),
            ..of.clone()
        }
    }
}

impl Drop for Public {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn copy(from: &Path, to: &Path, name: &str) -> Result {
    let (from, to) = (from.join(name), to.join(name));
    let done = fs::copy(&from, &to);
    let done = done.and_then(|_| fs::set_permissions(&to, Permissions::from_mode(0o755)));
    done.map_err(|e| format!("{}: {e}", from.display()))
}
