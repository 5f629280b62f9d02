//! An implementation: whatever kernels are compiled for and started with. It is data, so that a new kind (a
//! library whose kernels are not MPI programs, or are linked with more than one library) needs no code but the
//! function that fills it in.

use crate::experiment::Interface;
use crate::process;
use serde::Serialize;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Variables by which a job around this one, a shell's setting or a module would leak into a run. What is wanted
/// of them is said with `--env`.
const FOREIGN: [&str; 15] = [
    "PMI_",
    "PMIX_",
    "PALS_",
    "SLURM_",
    "MPI",
    "OMPI_",
    "OPAL_",
    "PRTE_",
    "I_MPI_",
    "YAMABIKO_",
    "HYDR",
    "HYDI_",
    "FI_",
    "UCX_",
    "LD_",
];

/// So many ranks a host may have.
const SLOTS: u32 = 64;

/// Whose launcher it is, which decides how that is told of hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Launcher {
    /// Ours.
    Yamabiko,
    /// Hydra, of MPICH and Intel MPI.
    Hydra,
    /// PRRTE, of Open MPI.
    Prte,
}

/// How a library can be made to progress while its caller computes.
#[derive(Clone, Debug, PartialEq)]
pub enum Progress {
    /// Not at all: only in its calls.
    Calls,
    /// By a thread, if these variables are set.
    Thread(&'static [(&'static str, &'static str)]),
    /// By the executors that the installation of Yamabiko in this folder has.
    Executors(PathBuf),
}

/// An implementation.
#[derive(Clone, Debug)]
pub struct Implementation {
    /// Its name in tables, and of its files.
    pub name: String,
    /// What kernels it can run.
    pub interface: Interface,
    /// The compiler and the arguments before the source.
    pub compiler: Vec<OsString>,
    /// The arguments after the source: libraries.
    pub libraries: Vec<OsString>,
    /// The launcher and its arguments, up to the number of ranks. None: the program starts alone, whatever the
    /// number of ranks.
    pub launcher: Vec<OsString>,
    /// Variables that compiler, launcher and kernels get.
    pub environment: Vec<(OsString, OsString)>,
    /// More of them, if there are more ranks than processors.
    pub crowded: Vec<(OsString, OsString)>,
    /// Whose launcher it is.
    pub kind: Launcher,
    /// More variables, if the ranks are on several hosts.
    pub remote: Vec<(OsString, OsString)>,
    /// How it can be made to progress while its caller computes.
    pub progress: Progress,
    /// What a line on standard error has in it where what is set here has no effect; such a run is not one of this.
    pub vain: Option<&'static str>,
    /// Whether what the network brings for its ranks is received on their processors, for which somebody has to switch that on.
    pub steered: bool,
}

/// What a report says of an implementation.
#[derive(Clone, Debug, Serialize)]
pub struct Described {
    /// Its name.
    pub name: String,
    /// What it says it is; empty until it has run.
    pub library: String,
    /// The compiler with its arguments.
    pub compiler: String,
    /// The launcher with its arguments.
    pub launcher: String,
    /// Variables set.
    pub environment: Vec<String>,
}

impl Implementation {
    /// An MPI library with `mpicc` and `mpiexec`.
    pub fn mpi(name: &str, mpicc: PathBuf, mpiexec: PathBuf) -> Implementation {
        Implementation {
            name: name.into(),
            interface: Interface::Mpi,
            compiler: vec![mpicc.into(), "-O2".into()],
            libraries: Vec::new(),
            launcher: vec![mpiexec.into(), "-n".into()],
            environment: Vec::new(),
            crowded: Vec::new(),
            kind: Launcher::Hydra,
            remote: Vec::new(),
            progress: Progress::Calls,
            vain: None,
            steered: false,
        }
    }

    /// The installation of Yamabiko in `prefix`.
    pub fn yamabiko(name: &str, prefix: &Path) -> Implementation {
        let bin = prefix.join("bin");
        Implementation {
            kind: Launcher::Yamabiko,
            progress: Progress::Executors(prefix.to_path_buf()),
            ..Implementation::mpi(name, bin.join("mpicc"), bin.join("mpiexec"))
        }
    }

    /// CAD of the installation of Yamabiko in `prefix`. Its programs need no MPI library to be linked with.
    pub fn cad(name: &str, prefix: &Path) -> Implementation {
        Implementation {
            interface: Interface::Cad,
            libraries: [libraries(&prefix.join("lib")), vec!["-lcad".into()]].concat(),
            ..Implementation::fmpl(name, prefix)
        }
    }

    /// FMPL of the installation of Yamabiko in `prefix`. Its programs need no MPI library to be linked with.
    pub fn fmpl(name: &str, prefix: &Path) -> Implementation {
        let mut include = OsString::from("-I");
        include.push(prefix.join("include"));
        Implementation {
            interface: Interface::Fmpl,
            compiler: vec![compiler(), "-std=gnu11".into(), "-O2".into(), include],
            libraries: [libraries(&prefix.join("lib")), vec!["-lfmpl".into()]].concat(),
            ..Implementation::yamabiko(name, prefix)
        }
    }

    /// BLACS of that installation.
    pub fn blacs(name: &str, prefix: &Path) -> Implementation {
        Implementation {
            libraries: vec!["-lblacs".into()],
            ..Implementation::yamabiko(name, prefix).with_blacs("BLACS on FMPL")
        }
    }

    /// The same library as one for kernels that are BLACS programs; `whose` BLACS it is, which no BLACS tells.
    pub fn with_blacs(mut self, whose: &str) -> Implementation {
        self.interface = Interface::Blacs;
        let name = format!("-DBENCH_LIBRARY=\"{whose}\"");
        self.compiler.push(name.into());
        self
    }

    /// Sockets of the system, between ranks that the installation of Yamabiko in `prefix` starts.
    pub fn sockets(prefix: &Path) -> Implementation {
        Implementation {
            interface: Interface::Sockets,
            ..Implementation::yamabiko("sockets", prefix)
        }
    }

    /// The machine without any library.
    pub fn raw() -> Implementation {
        Implementation {
            name: "raw".into(),
            interface: Interface::Raw,
            compiler: vec![compiler(), "-std=gnu11".into(), "-O3".into()],
            libraries: Vec::new(),
            launcher: Vec::new(),
            environment: Vec::new(),
            crowded: Vec::new(),
            kind: Launcher::Yamabiko,
            remote: Vec::new(),
            progress: Progress::Calls,
            vain: None,
            steered: false,
        }
    }

    /// From now on its ranks start on these hosts in turn, by `shell`, which is called as ssh is. What has no launcher
    /// stays here.
    pub fn on_hosts(&mut self, hosts: &[String], shell: &Path) {
        let Some(count) = self.launcher.pop() else {
            return;
        };
        let list = hosts.join(",");
        let slots: Vec<_> = hosts.iter().map(|host| format!("{host}:{SLOTS}")).collect();
        let slots = slots.join(",");
        let before: &[&str] = match self.kind {
            Launcher::Yamabiko => &["-launcher-exec"],
            Launcher::Hydra => &["-launcher", "ssh", "-launcher-exec"],
            Launcher::Prte => &["--prtemca", "plm_ssh_agent"],
        };
        let after: &[&str] = match self.kind {
            Launcher::Yamabiko => &["-hosts", &list],
            Launcher::Hydra => &["-hosts", &list, "-ppn", "1"],
            // Namespaces count their processors from 0: bound, all ranks would share the first.
            Launcher::Prte => &["--bind-to", "none", "--map-by", "node", "--host", &slots],
        };
        self.launcher.extend(before.iter().map(OsString::from));
        self.launcher.push(shell.into());
        self.launcher.extend(after.iter().map(OsString::from));
        self.launcher.push(count);
        self.environment.append(&mut self.remote);
    }

    /// Sets a variable.
    pub fn with(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Implementation {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// The command that compiles `source` as `program`.
    pub fn compile(&self, source: &Path, program: &Path) -> Command {
        let mut command = clean(&self.compiler, &self.environment);
        command.arg("-o").arg(program).arg(source);
        command.args(&self.libraries);
        command
    }

    /// The command that starts `program` on `ranks` ranks, `crowded` if those are more than the processors.
    pub fn start(&self, program: &Path, ranks: u32, crowded: bool) -> Command {
        let mut command = match self.launcher.is_empty() {
            true => clean(&[program.into()], &self.environment),
            false => {
                let mut command = clean(&self.launcher, &self.environment);
                command.arg(ranks.to_string()).arg(program);
                command
            }
        };
        if crowded {
            command.envs(self.crowded.iter().cloned());
        }
        command
    }

    /// What a report says of it.
    pub fn described(&self) -> Described {
        let words = |words: &[OsString]| match words.split_first() {
            Some((program, arguments)) => process::shown(Command::new(program).args(arguments)),
            None => String::new(),
        };
        let variables = self
            .environment
            .iter()
            .map(|(name, value)| format!("{}={}", name.to_string_lossy(), value.to_string_lossy()));
        Described {
            name: self.name.clone(),
            library: String::new(),
            compiler: words(&self.compiler),
            launcher: words(&self.launcher),
            environment: variables.collect(),
        }
    }
}

/// The compiler for programs that no wrapper compiles.
fn compiler() -> OsString {
    std::env::var_os("CC").unwrap_or_else(|| "cc".into())
}

/// Arguments by which libraries in `folder` are found, when a program is linked and when it starts.
pub fn libraries(folder: &Path) -> Vec<OsString> {
    ["-L", "-Wl,-rpath,"]
        .map(|option| {
            let mut word = OsString::from(option);
            word.push(folder);
            word
        })
        .to_vec()
}

/// A command with these words, without foreign variables and with `environment`.
fn clean(words: &[OsString], environment: &[(OsString, OsString)]) -> Command {
    let empty = OsString::new();
    let (program, arguments) = words.split_first().unwrap_or((&empty, &[]));
    let mut command = Command::new(program);
    command.args(arguments);
    for (name, _) in std::env::vars_os() {
        if is_foreign(&name) {
            command.env_remove(&name);
        }
    }
    command.envs(environment.iter().cloned());
    command
}

fn is_foreign(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    FOREIGN.iter().any(|start| name.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_put_together() {
        let ours = Implementation::yamabiko("ours", Path::new("/p")).with("A", "b");
        let compile = ours.compile(Path::new("k.c"), Path::new("/t/k"));
        assert_eq!(process::shown(&compile), "/p/bin/mpicc -O2 -o /t/k k.c");
        let start = ours.start(Path::new("/t/k"), 4, false);
        assert_eq!(process::shown(&start), "/p/bin/mpiexec -n 4 /t/k");
        assert!(
            start
                .get_envs()
                .any(|(name, value)| name == "A" && value == Some("b".as_ref()))
        );
        let raw = Implementation::raw().start(Path::new("/t/k"), 4, false);
        assert_eq!(process::shown(&raw), "/t/k");
    }

    #[test]
    fn libraries_come_after_the_source() {
        let mut ours = Implementation::yamabiko("x", Path::new("/p"));
        ours.libraries = vec!["-lmore".into()];
        let compile = process::shown(&ours.compile(Path::new("k.c"), Path::new("k")));
        assert!(compile.ends_with("-o k k.c -lmore"), "{compile}");
    }

    #[test]
    fn fmpl_and_blacs_are_linked_from_the_prefix() {
        let fmpl = Implementation::fmpl("f", Path::new("/p"));
        let compile = process::shown(&fmpl.compile(Path::new("k.c"), Path::new("k")));
        assert!(
            compile.ends_with("-I/p/include -o k k.c -L/p/lib -Wl,-rpath,/p/lib -lfmpl"),
            "{compile}"
        );
        assert_eq!(fmpl.launcher[0], "/p/bin/mpiexec");
        let blacs = Implementation::blacs("b", Path::new("/p"));
        let compile = process::shown(&blacs.compile(Path::new("k.c"), Path::new("k")));
        assert!(
            compile.starts_with("/p/bin/mpicc -O2") && compile.ends_with("k.c -lblacs"),
            "{compile}"
        );
        assert_eq!(
            (fmpl.interface, blacs.interface),
            (Interface::Fmpl, Interface::Blacs)
        );
    }

    #[test]
    fn cad_is_linked_from_the_prefix() {
        let cad = Implementation::cad("c", Path::new("/p"));
        let compile = process::shown(&cad.compile(Path::new("k.c"), Path::new("k")));
        assert!(
            compile.ends_with("-I/p/include -o k k.c -L/p/lib -Wl,-rpath,/p/lib -lcad"),
            "{compile}"
        );
        assert_eq!(
            (cad.interface, &cad.launcher[0]),
            (Interface::Cad, &"/p/bin/mpiexec".into())
        );
    }

    #[test]
    fn launchers_are_told_of_hosts() {
        let on_hosts = |mut one: Implementation| {
            one.on_hosts(&["a".into(), "b".into()], Path::new("/sh"));
            process::shown(&one.start(Path::new("/k"), 3, false))
        };
        let ours = Implementation::yamabiko("ours", Path::new("/p"));
        let expected = "/p/bin/mpiexec -launcher-exec /sh -hosts a,b -n 3 /k";
        assert_eq!(on_hosts(ours), expected);
        let mut peer = Implementation::mpi("peer", "/q/mpicc".into(), "/q/mpiexec".into());
        peer.remote = vec![("FAR".into(), "1".into())];
        let mut far = peer.clone();
        far.on_hosts(&["a".into()], Path::new("/sh"));
        assert_eq!(far.environment, peer.remote);
        let expected = "/q/mpiexec -launcher ssh -launcher-exec /sh -hosts a,b -ppn 1 -n 3 /k";
        assert_eq!(on_hosts(peer.clone()), expected);
        peer.kind = Launcher::Prte;
        let expected = "/q/mpiexec --prtemca plm_ssh_agent /sh --bind-to none --map-by node --host a:64,b:64 -n 3 /k";
        assert_eq!(on_hosts(peer), expected);
        assert_eq!(on_hosts(Implementation::raw()), "/k");
    }

    #[test]
    fn only_a_crowd_gets_the_crowds_variables() {
        let mut peer = Implementation::yamabiko("x", Path::new("/p"));
        peer.crowded = vec![("YIELD".into(), "1".into())];
        let has = |crowded| {
            let command = peer.start(Path::new("k"), 4, crowded);
            command.get_envs().any(|(name, _)| name == "YIELD")
        };
        assert!(has(true) && !has(false));
    }

    #[test]
    fn other_jobs_stay_outside() {
        for name in [
            "PMI_RANK",
            "OMPI_COMM_WORLD_RANK",
            "LD_PRELOAD",
            "YAMABIKO_FABRICS",
            "MPIEXEC_TIMEOUT",
        ] {
            assert!(is_foreign(name.as_ref()), "{name}");
        }
        for name in ["PATH", "HOME", "TMPDIR", "CC"] {
            assert!(!is_foreign(name.as_ref()), "{name}");
        }
    }
}
