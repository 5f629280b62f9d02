//! The ways in which libraries can be made to progress while their caller computes, each as an implementation of its
//! own: ours with each executor that its installation says it has, others with their progress thread off and on. Called
//! by `command` for experiments that want them.

use crate::experiment::Interface;
use crate::implementation::{Implementation, Progress};
use crate::{Result, process};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// The variable that chooses an executor.
const EXECUTOR: &str = "YAMABIKO_CAD";
/// What the library says on standard error where the executor cannot serve a job after all.
const NO_EFFECT: &str = " has no effect: ";
/// Longest that an installation may take to say what it has.
const ASKING: Duration = Duration::from_secs(30);

/// The ways of all MPI libraries among `all`, and CAD with each executor, of those that serve several hosts if `far`.
///
/// # Errors
/// When an installation of Yamabiko does not say what executors it has.
pub fn ways(all: &[Implementation], far: bool) -> Result<Vec<Implementation>> {
    let mut ways = Vec::new();
    for one in all.iter().filter(|one| one.interface == Interface::Mpi) {
        match &one.progress {
            Progress::Calls => ways.push(way(one, "calls")),
            Progress::Thread(variables) => {
                let threaded = way(one, "async");
                let set = |one: Implementation, &(name, value)| one.with(name, value);
                ways.push(way(one, "calls"));
                ways.push(variables.iter().fold(threaded, set));
            }
            Progress::Executors(prefix) => ways.extend(executors_of(one, prefix, far)?),
        }
    }
    Ok(ways)
}

/// What the name of a steered way ends with.
pub const STEERED: &str = "-steered";

/// Our ways among `all` once more, with the network's work steered.
pub fn steered(all: &[Implementation]) -> Vec<Implementation> {
    let ways = all.iter().filter(|one| {
        let way = matches!(one.interface, Interface::Progress | Interface::Cad);
        way && matches!(one.progress, Progress::Executors(_))
    });
    ways.map(|one| Implementation {
        name: format!("{}{STEERED}", one.name),
        steered: true,
        ..one.clone()
    })
    .collect()
}

/// That each word of these (`ring`, `calls`) is a way that somebody has.
pub fn check_wanted(ways: &[Implementation], wanted: &[String]) -> Result<()> {
    let is_unknown = |word: &&String| ways.iter().all(|one| is_unwanted(one, &[word.to_string()]));
    let Some(unknown) = wanted.iter().find(is_unknown) else {
        return Ok(());
    };
    let mut words: Vec<_> = ways
        .iter()
        .filter_map(|one| one.name.rsplit('-').next())
        .collect();
    words.sort_unstable();
    words.dedup();
    Err(format!("--ways {unknown}: there are {}", words.join(", ")))
}

/// Whether one is a way to progress that is none of these (`ring`, `calls`), where some are asked for.
pub fn is_unwanted(one: &Implementation, wanted: &[String]) -> bool {
    let way = matches!(one.interface, Interface::Progress | Interface::Cad);
    let mut wanted = wanted.iter().peekable();
    way && wanted.peek().is_some() && !wanted.any(|word| one.name.ends_with(&format!("-{word}")))
}

/// The same library in a way of this name.
fn way(one: &Implementation, name: &str) -> Implementation {
    Implementation {
        name: format!("{}-{name}", one.name),
        interface: Interface::Progress,
        ..one.clone()
    }
}

/// The library and CAD with each of its executors. An older one has none but its calls.
fn executors_of(one: &Implementation, prefix: &Path, far: bool) -> Result<Vec<Implementation>> {
    let mut info = Command::new(prefix.join("bin/yamabiko"));
    let said = process::run(info.arg("info"), ASKING)
        .map_err(|why| format!("ways of {}: `{}` {why}", one.name, process::shown(&info)))?;
    let executors = usable(&said.output, far);
    if executors.is_empty() {
        return Ok(vec![way(one, "calls")]);
    }
    let with = |one: Implementation, executor: &str| Implementation {
        vain: Some(NO_EFFECT),
        ..one.with(EXECUTOR, executor)
    };
    let mpi = executors.iter().map(|(name, _)| with(way(one, name), name));
    let cad = executors.iter().filter(|(_, graphs)| *graphs);
    let cad = cad.map(|(executor, _)| {
        let name = match one.name.as_str() {
            "yamabiko" => format!("cad-{executor}"),
            other => format!("{other}-cad-{executor}"),
        };
        let mut cad = Implementation::cad(&name, prefix);
        // It starts as the library does: also on hosts.
        cad.launcher.clone_from(&one.launcher);
        cad.environment.clone_from(&one.environment);
        with(cad, executor)
    });
    Ok(mpi.chain(cad).collect())
}

/// The executors that `yamabiko info` says are usable here, and if `far`, not on one machine only; and whether each runs graphs too.
fn usable(info: &str, far: bool) -> Vec<(&str, bool)> {
    let section = info
        .lines()
        .skip_while(|line| *line != "executors of libcad:");
    let lines = section.skip(1).take_while(|line| line.starts_with("  "));
    let usable = lines.filter(|line| line.ends_with(": usable") || line.contains(": usable, "));
    // As older ones have it, and as it is said now.
    let here =
        |line: &&str| ["on one machine:", "on this machine only"].map(|only| line.contains(only));
    let reaching = usable.filter(|line| !far || here(line) == [false; 2]);
    reaching
        .filter_map(|line| {
            let name = line.split_whitespace().next()?;
            Some((name, !line.contains("not for libcad")))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use std::path::PathBuf;

    const INFO: &str = "Yamabiko 0\nfabrics:\n  self    a process and itself: usable\nexecutors of libcad:\n  \
                        inline   in the calls of the program: usable\n  softirq  in its receive path, on one machine: not \
                        usable here: refused\n  thread   in a thread; not for libcad: usable\nlauncher:\n  x  y: usable\n";

    /// A folder whose `bin/yamabiko` prints this, removed at the end.
    struct Installed(PathBuf);

    impl Installed {
        fn saying(name: &str, text: &str) -> Installed {
            let prefix = std::env::temp_dir()
                .join(format!("yamabiko-progress-{name}-{}", std::process::id()));
            std::fs::create_dir_all(prefix.join("bin")).unwrap();
            let program = prefix.join("bin/yamabiko");
            // Written by another process: one that is open for writing here may be so in a child as well, and is
            // then no program.
            let script = format!("#!/bin/sh\ncat <<'END'\n{text}END\n");
            let write = "printf %s \"$1\" > \"$2\"";
            let done = Command::new("sh")
                .args(["-c", write, "sh", &script])
                .arg(&program)
                .status()
                .unwrap();
            assert!(done.success());
            std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
            Installed(prefix)
        }
    }

    impl Drop for Installed {
        fn drop(&mut self) {
            std::fs::remove_dir_all(&self.0).unwrap();
        }
    }

    fn names(all: &[Implementation]) -> Vec<&str> {
        all.iter().map(|one| one.name.as_str()).collect()
    }

    #[test]
    fn only_what_an_installation_can_use_takes_part() {
        let installed = Installed::saying("some", INFO);
        let mut ours = Implementation::yamabiko("yamabiko", &installed.0).with("A", "b");
        ours.launcher.splice(1..1, ["-hosts".into(), "h".into()]);
        let all = ways(&[ours, Implementation::raw()], false).unwrap();
        assert_eq!(
            names(&all),
            ["yamabiko-inline", "yamabiko-thread", "cad-inline"]
        );
        let (mpi, cad) = (&all[0], &all[2]);
        assert_eq!(
            (mpi.interface, cad.interface),
            (Interface::Progress, Interface::Cad)
        );
        for one in [mpi, cad] {
            let set = [("A", "b"), ("YAMABIKO_CAD", "inline")];
            assert_eq!(
                one.environment,
                set.map(|(name, value)| (name.into(), value.into()))
            );
            assert!(one.vain.is_some() && one.launcher[1..] == ["-hosts", "h", "-n"]);
        }
        let old = Implementation::yamabiko("yamabiko-2", &installed.0);
        assert_eq!(
            names(&ways(&[old], false).unwrap())[2],
            "yamabiko-2-cad-inline"
        );
    }

    #[test]
    fn between_hosts_only_what_reaches_them_takes_part() {
        let info = INFO.replace("not usable here: refused", "usable");
        let (inline, softirq, thread) = (("inline", true), ("softirq", true), ("thread", false));
        assert_eq!(usable(&info, false), [inline, softirq, thread]);
        assert_eq!(usable(&info, true), [inline, thread]);
        let now = |rest: &str| {
            info.replace(
                "machine: usable",
                &format!("machine or several: usable, {rest}"),
            )
        };
        let alone = now("on this machine only: kaccd has no key");
        assert_eq!(usable(&alone, false), [inline, softirq, thread]);
        assert_eq!(usable(&alone, true), [inline, thread]);
        let site = now("also between hosts of site 5, through eth0");
        assert_eq!(usable(&site, true), [inline, softirq, thread]);
    }

    #[test]
    fn an_older_installation_has_its_calls() {
        let installed = Installed::saying("none", "Yamabiko 0\nfabrics:\n  x: usable\n");
        let old = Implementation::yamabiko("yamabiko-2", &installed.0);
        assert_eq!(names(&ways(&[old], false).unwrap()), ["yamabiko-2-calls"]);
        let nowhere = Implementation::yamabiko("lost", Path::new("/nonexistent"));
        let why = ways(&[nowhere], false).unwrap_err();
        assert!(
            why.contains("lost: `/nonexistent/bin/yamabiko info`"),
            "{why}"
        );
    }

    #[test]
    fn ways_that_nobody_has_are_refused() {
        let mut peer = Implementation::mpi("peer", "/p/mpicc".into(), "/p/mpiexec".into());
        peer.progress = Progress::Calls;
        let all = ways(&[peer], false).unwrap();
        let check = |words: &[&str]| {
            check_wanted(&all, &words.iter().map(|w| (*w).into()).collect::<Vec<_>>())
        };
        assert_eq!(check(&[]), Ok(()));
        assert_eq!(check(&["calls"]), Ok(()));
        assert_eq!(
            check(&["calls", "zzz"]).unwrap_err(),
            "--ways zzz: there are calls"
        );
    }

    #[test]
    fn ours_take_part_steered_too() {
        let installed = Installed::saying("steered", INFO);
        let ours = Implementation::yamabiko("yamabiko", &installed.0);
        let mut peer = Implementation::mpi("peer", "/p/mpicc".into(), "/p/mpiexec".into());
        peer.progress = Progress::Calls;
        let mut all = ways(&[ours, peer], false).unwrap();
        assert_eq!(all.len(), 4);
        let wanted = ["thread".to_owned(), "calls".to_owned()];
        assert!(!all.iter().any(|one| is_unwanted(one, &[])));
        all.retain(|one| !is_unwanted(one, &wanted));
        assert_eq!(names(&all), ["yamabiko-thread", "peer-calls"]);
        let more = steered(&all);
        assert_eq!(names(&more), ["yamabiko-thread-steered"]);
        assert!(more[0].steered && !all[0].steered);
    }

    #[test]
    fn others_take_part_with_their_thread_off_and_on() {
        let at = |program: &str| PathBuf::from("/p/bin").join(program);
        let mut peer = Implementation::mpi("peer", at("mpicc"), at("mpiexec"));
        assert_eq!(
            names(&ways(std::slice::from_ref(&peer), false).unwrap()),
            ["peer-calls"]
        );
        peer.progress = Progress::Thread(&[("ASYNC", "1")]);
        let all = ways(&[peer], true).unwrap();
        assert_eq!(names(&all), ["peer-calls", "peer-async"]);
        assert!(all[0].environment.is_empty() && all[0].vain.is_none());
        assert_eq!(all[1].environment, [("ASYNC".into(), "1".into())]);
    }
}
