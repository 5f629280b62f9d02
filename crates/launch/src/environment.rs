//! The environment of each rank, and where its program is.

use crate::options::{Inherit, Options, Program};
use std::collections::BTreeMap;
use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// Variables of launchers around this one, which would mislead the ranks.
const STALE: &[&str] = &[
    "PMI_RANK",
    "PMI_SIZE",
    "PMI_FD",
    "PMI_ID",
    "PMI_PORT",
    "PMI_SPAWNED",
    "PMI_APPNUM",
    "PMI_HOSTNAME",
    "PMIX_RANK",
    "PMIX_NAMESPACE",
    "MPI_LOCALNRANKS",
    "MPI_LOCALRANKID",
    wireup::SOCKET_IDENTITY_VARIABLE,
    wireup::MAXPROCS_VARIABLE,
    report::FD_VARIABLE,
    report::KEEPS_RUNNING_VARIABLE,
];

/// What one rank is told of itself.
pub struct Identity {
    /// Its rank.
    pub rank: usize,
    /// The job's size.
    pub size: usize,
    /// Its place among the ranks of its host, and how many those are.
    pub local: (usize, usize),
    /// Its PMI socket: descriptor and inode number.
    pub pmi: (i32, u64),
    /// The report page's descriptor.
    pub page: i32,
}

/// The variables that all ranks of `program` have in common.
pub fn common(options: &Options, program: &Program) -> BTreeMap<OsString, OsString> {
    let mut all: BTreeMap<OsString, OsString> =
        match program.inherit.as_ref().unwrap_or(&options.inherit) {
            Inherit::All => std::env::vars_os().collect(),
            Inherit::Nothing => BTreeMap::new(),
            Inherit::Listed(names) => names
                .iter()
                .filter_map(|n| Some((n.clone(), std::env::var_os(n)?)))
                .collect(),
        };
    all.retain(|name, _| !is_stale(name));
    all.extend(options.variables.iter().cloned());
    all.extend(program.variables.iter().cloned());
    if !options.cleanup {
        all.insert(report::KEEPS_RUNNING_VARIABLE.into(), "1".into());
    }
    if options.report_fabrics {
        all.insert(wireup::REPORT_FABRICS_VARIABLE.into(), "1".into());
    }
    all
}

fn is_stale(name: &OsStr) -> bool {
    STALE.iter().any(|s| name == *s) || name.as_bytes().starts_with(b"PMIX_SERVER_")
}

/// The environment block of one rank.
pub fn of_rank(
    common: &BTreeMap<OsString, OsString>,
    identity: &Identity,
) -> Result<Vec<CString>, String> {
    let own = [
        ("PMI_RANK", identity.rank.to_string()),
        ("PMI_SIZE", identity.size.to_string()),
        ("PMI_FD", identity.pmi.0.to_string()),
        (wireup::SOCKET_IDENTITY_VARIABLE, identity.pmi.1.to_string()),
        (report::FD_VARIABLE, identity.page.to_string()),
        ("MPI_LOCALNRANKS", identity.local.1.to_string()),
        ("MPI_LOCALRANKID", identity.local.0.to_string()),
    ];
    let own_block = own
        .iter()
        .map(|(name, value)| c_string(format!("{name}={value}").as_ref()));
    let is_own = |name: &OsStr| own.iter().any(|(n, _)| name == *n);
    let common_block = common
        .iter()
        .filter(|(name, _)| !is_own(name))
        .map(|(name, value)| {
            let mut pair = name.clone();
            pair.push("=");
            pair.push(value);
            c_string(&pair)
        });
    common_block.chain(own_block).collect()
}

/// The file of `program`, as a shell would find it in `path` (the value of `PATH`), or, failing that,
/// in the working directory, as other launchers do.
pub fn find_program(
    program: &OsStr,
    path: Option<&OsStr>,
    directory: Option<&Path>,
) -> Result<PathBuf, String> {
    if program.as_bytes().contains(&b'/') {
        // Relative to the rank's working directory; whether it exists shows when it is executed.
        return Ok(PathBuf::from(program));
    }
    let path = path.unwrap_or(OsStr::new("/usr/local/bin:/usr/bin:/bin"));
    let in_path = std::env::split_paths(path)
        .map(|d| d.join(program))
        .find(|p| is_executable(p));
    if let Some(found) = in_path {
        return Ok(found);
    }
    let here = directory.unwrap_or(Path::new(".")).join(program);
    if is_executable(&here) {
        return Ok(Path::new("./").join(program));
    }
    Err(format!(
        "cannot find the program {}: it is neither in PATH nor in the working directory",
        program.to_string_lossy()
    ))
}

/// Whether this is a file that may be executed.
pub fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata()
        .is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}

/// A string for the system; a NUL inside is an error.
pub fn c_string(text: &OsStr) -> Result<CString, String> {
    CString::new(text.to_os_string().into_vec()).map_err(|_| {
        format!(
            "an argument or variable holds a NUL character: {}",
            text.to_string_lossy()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_variables_win_and_stale_ones_go() {
        let common: BTreeMap<OsString, OsString> = [("A", "1"), ("PMI_RANK", "77")]
            .map(|(n, v)| (n.into(), v.into()))
            .into();
        let identity = Identity {
            rank: 1,
            size: 2,
            local: (0, 1),
            pmi: (5, 99),
            page: 6,
        };
        let block = of_rank(&common, &identity).unwrap();
        let has = |text: &str| block.iter().any(|v| v.to_str() == Ok(text));
        assert!(has("A=1") && has("PMI_RANK=1") && has("PMI_FD=5") && !has("PMI_RANK=77"));
        assert!(has("MPI_LOCALRANKID=0") && has("MPI_LOCALNRANKS=1"));
        assert!(is_stale("PMI_PORT".as_ref()) && is_stale("PMIX_SERVER_URI4".as_ref()));
        assert!(!is_stale("PMI_DEBUG".as_ref()) && !is_stale("PATH".as_ref()));
    }

    #[test]
    fn programs_are_found() {
        let find = |p: &str| find_program(p.as_ref(), Some("/nowhere:/bin".as_ref()), None);
        assert_eq!(find("sh"), Ok("/bin/sh".into()));
        assert_eq!(find("./x"), Ok("./x".into()));
        assert!(
            find("no-such-program")
                .unwrap_err()
                .contains("no-such-program")
        );
    }
}
