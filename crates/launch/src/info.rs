//! `yamabiko info`: what this installation is, and what it would do here.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use cad::chosen::{RELAYED_MIN, RING_RANKS_MAX, STRAIGHT_MIN};
use cad::straight;
use cad_softirq::client::{self, Client, NotOpen};
use cad_softirq::interfaces::described;
use cad_softirq::layout::DATA_MAX;
use cad_softirq::resend;
use types::Tunable;

use crate::variables::SETTABLE;
use crate::{limits, steer};

/// The libraries: file name and ABI.
const LIBRARIES: [(&str, &str); 2] = [
    ("libmpi_abi.so.1", "standard ABI of MPI-5.0"),
    ("libmpi.so.12", "ABI of MPICH"),
];

/// The Fortran libraries over them, in the same order.
const FORTRAN: [(&str, &str); 2] = [
    ("libmpifort_abi.so.1", "mpif.h, standard ABI"),
    ("libmpifort.so.12", "mpif.h, ABI of MPICH"),
];

/// The text of `yamabiko info`.
pub fn summary() -> String {
    let place = installation();
    let mut text = format!("Yamabiko {}\n", env!("CARGO_PKG_VERSION"));
    match &place {
        Ok(prefix) => section(
            &mut text,
            "installation",
            [(prefix.display().to_string(), String::new())],
        ),
        Err(why) => section(
            &mut text,
            "installation",
            [("unknown".to_owned(), why.clone())],
        ),
    }
    let lib = place.map(|prefix| prefix.join("lib")).unwrap_or_default();
    section(
        &mut text,
        "libraries",
        LIBRARIES.iter().chain(&FORTRAN).map(|(file, abi)| {
            (
                file.to_string(),
                format!("{abi}, {}", found(&lib.join(file))),
            )
        }),
    );
    section(&mut text, "fabrics", fabrics());
    section(&mut text, "executors of libcad", executors());
    section(&mut text, limits::HEADING, limits::all());
    section(&mut text, "what reduces for the ring", callbacks());
    section(
        &mut text,
        "what YAMABIKO_CAD=auto chooses for MPI's non-blocking and persistent collectives",
        chosen(),
    );
    let launcher = format!(
        "one machine or several (ssh, or any command), PMI-1, at most {} ranks",
        crate::options::RANKS_MAX
    );
    section(&mut text, "launcher", [("mpiexec".to_owned(), launcher)]);
    section(
        &mut text,
        "steering of the network's work to the ranks' processors",
        steer::shown(),
    );
    section(
        &mut text,
        "processors",
        [processors(&sys::cpus::affinity(), sys::cpus::allowed())],
    );
    section(
        &mut text,
        "tunables, fixed when built, and where they come from",
        tunables().map(tunable),
    );
    section(&mut text, "environment variables", SETTABLE.map(owned));
    text
}

/// The text of `yamabiko info --missing`: the MPI functions that are not built yet, one a line, for
/// each library that has such. Their Fortran routines are there and give the function's error.
///
/// # Errors
/// When the installation or its lists cannot be found.
pub fn missing() -> Result<String, String> {
    let share = installation()?.join("share/yamabiko");
    let mut text = String::new();
    let lists = ["missing.txt", "missing-mpich.txt"];
    for (((library, _), (fortran, _)), list) in LIBRARIES.iter().zip(&FORTRAN).zip(lists) {
        let path = share.join(list);
        let names =
            std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        let count = names.split_whitespace().count();
        section(
            &mut text,
            &format!("{library} and {fortran}: {count} functions"),
            [],
        );
        text.extend(names.split_whitespace().map(|name| format!("  {name}\n")));
    }
    Ok(text)
}

/// The folder that has this program's `bin`.
///
/// # Errors
/// When the system does not tell where this program is.
pub fn installation() -> Result<PathBuf, String> {
    let unknown = |e| format!("cannot tell where this program is installed: {e}");
    let program = std::env::current_exe().map_err(unknown)?;
    let bin = program.parent().unwrap_or(Path::new("/"));
    Ok(bin.parent().unwrap_or(Path::new("/")).to_path_buf())
}

/// A heading with lines of two columns.
fn section(text: &mut String, heading: &str, lines: impl IntoIterator<Item = (String, String)>) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{heading}:");
    for (left, right) in lines {
        let line = format!("  {left:<34} {right}");
        let _ = writeln!(text, "{}", line.trim_end());
    }
}

fn owned((left, right): (&str, &str)) -> (String, String) {
    (left.to_owned(), right.to_owned())
}

/// The fabrics: what each is for, and whether it works here.
fn fabrics() -> [(String, String); 3] {
    let memory = match sys::memfd::create_sealed("yamabiko-info", 4096) {
        Ok(_) => "usable".to_owned(),
        Err(e) => format!("not usable here: {e}"),
    };
    let allowed = |kind, name| tcp::is_allowed_here(kind).then_some(name);
    let reactors = [
        allowed(tcp::ReactorKind::Epoll, "epoll"),
        allowed(tcp::ReactorKind::IoUring, "io_uring"),
    ];
    let sockets = match reactors {
        [None, None] => "not usable here, as neither epoll nor io_uring is allowed".to_owned(),
        some => {
            let names: Vec<_> = some.into_iter().flatten().collect();
            format!("usable, allowed are {}", names.join(" and "))
        }
    };
    [
        ("self".to_owned(), "a process and itself: usable".to_owned()),
        (
            "shm".to_owned(),
            format!("processes on one machine: {memory}"),
        ),
        (
            "tcp".to_owned(),
            format!("processes on several machines: {sockets}"),
        ),
    ]
}

/// What can run descriptors: where each does, and whether it works here.
fn executors() -> [(String, String); 4] {
    let kernel = usable(cad_ring::usable());
    [
        (
            "inline".to_owned(),
            "in the calls of the program: usable".to_owned(),
        ),
        ("ring".to_owned(), format!("in the kernel: {kernel}")),
        (
            "softirq".to_owned(),
            format!(
                "in its receive path, on one machine or several of one site: Ibarrier, Ibcast, Ireduce and Iallreduce up to {DATA_MAX} bytes, also persistent, others inline; not for libcad: {}",
                daemon()
            ),
        ),
        (
            "thread".to_owned(),
            format!(
                "in a thread beside the program's: MPI's non-blocking collectives, also persistent; not for libcad: {}",
                thread()
            ),
        ),
    ]
}

/// The rule of `YAMABIKO_CAD=auto`.
fn chosen() -> [(String, String); 3] {
    let (straight, relayed) = (STRAIGHT_MIN >> 10, RELAYED_MIN >> 10);
    [
        (
            "inline".to_owned(),
            "on one machine, and all that is not named below; graphs of libcad".to_owned(),
        ),
        (
            "ring".to_owned(),
            format!(
                "on several machines with a processor for each rank, up to {RING_RANKS_MAX} ranks, where all can have it and none limits ports or asks for more than \
                 MPI_THREAD_FUNNELED: broadcast, gather, scatter, allgather, alltoall from {straight} KiB a block, passed on by ranks from {relayed} KiB; {}",
                usable(cad_ring::usable())
            ),
        ),
        (
            "softirq".to_owned(),
            format!(
                "on one machine whose ranks outnumber its processors and are more than {}, what fits: {}",
                straight::RANKS_MAX,
                match Client::new(&client::name()) {
                    Ok(_) => "usable".to_owned(),
                    Err(why) => format!("not usable here: {why}"),
                }
            ),
        ),
    ]
}

/// Whether a thread can be had.
fn thread() -> String {
    match sys::thread::spawn("yamabiko-info", || ()).map(|thread| thread.join()) {
        Ok(_) => "usable".to_owned(),
        Err(why) => format!("not usable here: {why}"),
    }
}

/// Whether the daemon is there that does collectives in the kernel's receive path.
fn daemon() -> String {
    match Client::new(&client::name()) {
        Ok(client) => format!("usable{}{}", site(&client), said_again(resend::usable())),
        Err(why @ NotOpen::Absent(_)) => {
            let could = match cad_softirq::usable() {
                Ok(()) => "one can be started: yamabiko kaccd".to_owned(),
                Err(why) => format!("and none can be started: {why}"),
            };
            format!("not usable here: {why}; {could}")
        }
        Err(why) => format!("not usable here: {why}"),
    }
}

/// What is lost where the kernel can't say again for a rank what the network has lost.
fn said_again(by_the_kernel: std::io::Result<()>) -> String {
    by_the_kernel.map_or_else(
        |why| {
            format!(
                "; what the network loses is said again only when the rank is in MPI, not while it computes: {why}"
            )
        },
        |()| String::new(),
    )
}

/// With which other hosts a daemon has collectives.
fn site(client: &Client) -> String {
    let known = client
        .who()
        .and_then(|known| Ok((known.site, client.interfaces()?)));
    match known {
        Ok((Some(site), interfaces)) => {
            let through: Vec<_> = interfaces.into_iter().map(described).collect();
            format!(
                ", also between hosts of site {site:016x}, through {}",
                through.join(", ")
            )
        }
        Ok((None, _)) => {
            ", on this machine only: kaccd has no key of a site (kaccd --interface --site-key)"
                .to_owned()
        }
        Err(why) => format!(", on this machine only: {why}"),
    }
}

/// What calculates for the ring between the calls of a program.
fn callbacks() -> [(String, String); 2] {
    let program = usable(cad_ring::program_usable(&client::name()));
    let signal = usable(cad_ring::callback_usable());
    [
        (
            "program".to_owned(),
            format!(
                "kaccd's, in the kernel: the standard's operations on integers, float and double, and byte code, up to {DATA_MAX} bytes: {program}"
            ),
        ),
        (
            "signal".to_owned(),
            format!("in its handler, while the rank computes: {signal}"),
        ),
    ]
}

fn usable(tried: Result<(), cad_ring::Unusable>) -> String {
    match tried {
        Ok(()) => "usable".to_owned(),
        Err(why) => format!("not usable here: {why}"),
    }
}

fn tunables() -> impl Iterator<Item = Tunable> {
    let fabrics = shm::tunables().into_iter().chain(tcp::TUNABLES);
    let collectives = cad::TUNABLES.into_iter().chain(cad_ring::tunables());
    fabrics.chain(collectives).chain(steer::TUNABLES)
}

fn found(path: &Path) -> &'static str {
    match path.exists() {
        true => "found",
        false => "not found",
    }
}

fn processors(affinity: &[usize], allowed: usize) -> (String, String) {
    let list: Vec<_> = affinity.iter().map(usize::to_string).collect();
    (
        format!("{allowed} allowed"),
        format!("affinity: {}", list.join(" ")),
    )
}

fn tunable(t: Tunable) -> (String, String) {
    (
        t.name.to_owned(),
        format!("{:>9} {:<12} {}", t.value, t.unit, t.source),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summary_names_libraries_fabrics_and_tunables() {
        let text = summary();
        for word in [
            "libmpi_abi.so.1",
            "libmpi.so.12",
            "shm.eager_max",
            "tcp.window",
            "processes on several machines: usable, allowed are epoll",
            "YAMABIKO_PORT_RANGE",
            "in the calls of the program: usable",
            "in the kernel: ",
            "non-blocking collectives, also persistent; not for libcad: usable",
            "in its handler, while the rank computes: ",
            "cad.alltoall.bruck_max",
            "what YAMABIKO_CAD=auto chooses",
            "from 1024 KiB a block, passed on by ranks from 64 KiB",
            "cad.chosen.relayed_min",
            "MPIEXEC_TIMEOUT",
            "the machine's table",
            "kaccd.flows",
        ] {
            assert!(text.contains(word), "{word} in\n{text}");
        }
    }

    #[test]
    fn what_the_kernel_does_not_say_again_is_told() {
        assert_eq!(said_again(Ok(())), "");
        let lost = said_again(Err(std::io::Error::other("it lacks TIMEOUT")));
        assert!(lost.ends_with("not while it computes: it lacks TIMEOUT"));
    }

    #[test]
    fn tunables_have_different_names() {
        let mut names: Vec<_> = tunables().map(|t| t.name).collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
    }

    #[test]
    fn processors_are_listed() {
        let (left, right) = processors(&[0, 3], 1);
        assert_eq!(
            (left.as_str(), right.as_str()),
            ("1 allowed", "affinity: 0 3")
        );
    }
}
