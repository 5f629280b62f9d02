//! The environment variables that mean something here, and names that were probably meant to be one of them: a variable whose name is mistyped
//! has no effect, which is not seen otherwise.

use std::collections::BTreeSet;
use std::ffi::OsString;

use strsim::normalized_damerau_levenshtein;

use crate::environment;
use crate::options::Options;

/// Environment variables that a person may set. Those by which the parts of a job know each other
/// (`PMI_*`, `YAMABIKO_*_FD`) are not among them.
pub const SETTABLE: [(&str, &str); 16] = [
    (
        "MPIEXEC_TIMEOUT",
        "seconds after which mpiexec ends a job (default, and 0: no limit)",
    ),
    (
        "YAMABIKO_FABRICS",
        "fabrics that may be used (default: self,shm,tcp)",
    ),
    (
        "YAMABIKO_COPY",
        "long messages inside a machine: pipe, through shared memory; direct, read in the sender's memory where allowed; measured, as is faster (default)",
    ),
    (
        "YAMABIKO_TCP_INTERFACE",
        "interfaces, addresses or networks for tcp, as eth0 or 10.1.0.0/16 (default: all)",
    ),
    (
        "YAMABIKO_PORT_RANGE",
        "ports for tcp, as 50000:50100 (default: any)",
    ),
    (
        "YAMABIKO_TCP_REACTOR",
        "how tcp watches sockets: epoll or io_uring (default: epoll)",
    ),
    (
        "YAMABIKO_CAD",
        "what runs the descriptors of libcad, and MPI's non-blocking collectives: inline or ring; of the latter only: softirq, small ones by kaccd, thread, and auto, as above (default: inline)",
    ),
    (
        "YAMABIKO_CAD_CALLBACK",
        "what reduces for the ring while a rank computes: program (where kaccd lets it, and signal beside it; says why if it can't), signal, or none (default: program and signal, as far as there are)",
    ),
    (
        "YAMABIKO_CAD_REPORT",
        "set, each rank says in MPI_Finalize where its non-blocking and persistent collectives ran",
    ),
    (
        "YAMABIKO_KACCD",
        "the name of the kaccd that softirq and the ring ask (default: yamabiko-kaccd)",
    ),
    (
        "YAMABIKO_SLOTS_REPORT",
        "set, each rank says in MPI_Finalize how many persistent messages went without matching",
    ),
    (
        "YAMABIKO_CC",
        "C compiler of mpicc (also MPICH_CC, OMPI_CC)",
    ),
    (
        "YAMABIKO_CXX",
        "C++ compiler of mpicxx (also MPICH_CXX, OMPI_CXX)",
    ),
    (
        "YAMABIKO_FC",
        "Fortran compiler of mpifort (also MPICH_FC, OMPI_FC)",
    ),
    (
        "YAMABIKO_CFLAGS",
        "more options of mpicc (YAMABIKO_CXXFLAGS: of mpicxx, YAMABIKO_FCFLAGS: of mpifort)",
    ),
    (
        "YAMABIKO_LDFLAGS",
        "more options of all three when they link",
    ),
];

/// What all of Yamabiko's begin with.
const PREFIX: &str = "YAMABIKO_";

/// Others that mean something: of compilers, named in the texts above, and those by which the parts of a job know each other.
const OTHERS: [&str; 7] = [
    "YAMABIKO_CXXFLAGS",
    "YAMABIKO_FCFLAGS",
    wireup::SOCKET_IDENTITY_VARIABLE,
    wireup::REPORT_FABRICS_VARIABLE,
    wireup::MAXPROCS_VARIABLE,
    report::FD_VARIABLE,
    report::KEEPS_RUNNING_VARIABLE,
];

/// From how much likeness on, of 1, a name is taken for another that was mistyped. Names that installations set for themselves, as
/// `YAMABIKO_ROOT` or `YAMABIKO_HOME`, are below a half.
const LIKE: f64 = 0.6;

/// A sentence for each variable of the ranks that was probably meant to be another.
pub fn mistyped(options: &Options) -> Vec<String> {
    let of_program = |p| environment::common(options, p).into_keys();
    let names: BTreeSet<OsString> = options.programs.iter().flat_map(of_program).collect();
    let meant = |name: OsString| {
        let name = name.into_string().ok()?;
        let meant = meant(&name)?;
        Some(format!(
            "the environment variable {name} has no effect here; is {meant} meant? (yamabiko info lists all)"
        ))
    };
    names.into_iter().filter_map(meant).collect()
}

/// The variable that was probably meant.
fn meant(name: &str) -> Option<&'static str> {
    let word = name.strip_prefix(PREFIX)?;
    let known = || {
        let settable = SETTABLE.iter().map(|(known, _)| *known);
        settable.chain(OTHERS)
    };
    if known().any(|k| k == name) {
        return None;
    }
    let like = |k: &'static str| {
        let likeness = normalized_damerau_levenshtein(word, k.strip_prefix(PREFIX)?);
        (likeness >= LIKE).then_some((likeness, k))
    };
    let best = known().filter_map(like).max_by(|a, b| a.0.total_cmp(&b.0));
    best.map(|(_, k)| k)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistyped_names_are_told_from_others() {
        for (name, known) in [
            ("YAMABIKO_CADD", "YAMABIKO_CAD"),
            ("YAMABIKO_FABRIC", "YAMABIKO_FABRICS"),
            ("YAMABIKO_CPOY", "YAMABIKO_COPY"),
            ("YAMABIKO_PORTRANGE", "YAMABIKO_PORT_RANGE"),
            ("YAMABIKO_TCP_INTERFACES", "YAMABIKO_TCP_INTERFACE"),
        ] {
            assert_eq!(meant(name), Some(known), "{name}");
        }
        for name in [
            "YAMABIKO_CAD",
            "YAMABIKO_FCFLAGS",
            "YAMABIKO_REPORT_FD",
            "YAMABIKO_ROOT",
            "YAMABIKO_HOME",
            "YAMABIKO_DIR",
            "YAMABIKO_VERSION",
            "YAMABIKO_",
            "MPIEXEC_TIMEOUT",
            "CAD",
        ] {
            assert_eq!(meant(name), None, "{name}");
        }
    }
}
