//! Stage `guest`: what MPI must leave alone in the process that it is a guest in, and where it must
//! run although the system gives little. The programs are those of `tests/guest`.

use super::ground::{Ground, Over};
use super::job::Job;
use super::{Options, Tally, apt};
use crate::spec::root;
use crate::{Result, build, process};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Tests of `guest.c`, each on 1 and 3 ranks.
const TESTS: [&str; 8] = [
    "signals",
    "descriptors",
    "fork",
    "child",
    "child-init",
    "atexit",
    "undumpable",
    "plain",
];
/// A user with no rights at all.
const NOBODY: &str = "setpriv --reuid 65534 --regid 65534 --clear-groups --no-new-privs \
                      --bounding-set=-all --inh-caps=-all";

/// Every mount but the kernel's own is read-only, and nobody can use /dev/shm.
const READ_ONLY: &str = "mount --make-rprivate / && \
    awk '{print $2}' /proc/mounts | grep -Ev '^/(proc|sys|dev)(/|$)' | \
    while read -r m; do mount -o remount,bind,ro \"$m\" 2>/dev/null; done; \
    { test ! -d /dev/shm || mount -t tmpfs -o ro,mode=0 none /dev/shm; } && \
    ! touch /tmp/writable 2>/dev/null && ! touch /dev/shm/writable 2>/dev/null || exit 90; ";

/// Where the compiled programs lie, for the standard ABI and for MPICH's, with what they need: all of
/// it readable by every user, which a target folder in a home need not be.
struct Place {
    folder: PathBuf,
}

impl Place {
    fn make() -> Result<Place> {
        let place = Place {
            folder: std::env::temp_dir().join(format!("guest-{}", std::process::id())),
        };
        let prefix = build::prefix(false);
        for folder in ["", "bin", "lib"] {
            let path = place.folder.join(folder);
            std::fs::create_dir_all(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        }
        for file in ["bin/mpiexec", "lib/libmpi.so.12", "lib/libmpi_abi.so.1"] {
            let to = place.folder.join(file);
            std::fs::copy(prefix.join(file), &to).map_err(|e| format!("{}: {e}", to.display()))?;
        }
        Ok(place)
    }

    fn bin(&self, name: &str) -> PathBuf {
        self.folder.join("bin").join(name)
    }

    fn lib(&self, name: &str) -> PathBuf {
        self.folder.join("lib").join(name)
    }

    fn compile(&self, source: &str, program: &str, options: &[&str]) -> Result {
        let mut command = Command::new(build::prefix(false).join("bin/mpicc"));
        command
            .args(options)
            .args(["-std=c11", "-D_GNU_SOURCE", "-O1", "-g"]);
        command.args(["-Wall", "-Wextra", "-Werror"]);
        command.arg(root().join("tests/guest").join(source));
        process::run(
            command
                .arg("-o")
                .arg(self.bin(program))
                .args(["-ldl", "-lpthread"]),
        )
    }

    /// A job of so many ranks, started by a shell after `preparation`.
    fn shell(&self, preparation: &str, ranks: u32, rest: &str) -> Job {
        let mpiexec = self.bin("mpiexec");
        let script = format!("{preparation} {} -n {ranks} {rest}", mpiexec.display());
        Job::new("sh")
            .args(["-c".to_owned(), script])
            .env("LD_LIBRARY_PATH", self.folder.join("lib"))
            .folder(Path::new("/"))
    }

    /// The same program of `guest.c` after several preparations.
    fn prepared(&self, preparation: &str, test: &str) -> Result {
        let guest = self.bin("guest");
        let rest = format!("{} {test}", guest.display());
        let job = self.shell(preparation, 3, &rest);
        job.passes(&[format!("ok {test}")]).map(|_| ())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Whether a command works here; what needs it is left out otherwise, and said so.
fn works(command: &str) -> bool {
    let out = Command::new("sh").args(["-c", command]).output();
    let works = out.is_ok_and(|out| out.status.success());
    if !works {
        println!("left out, this doesn't work here: {command}");
    }
    works
}

/// Runs the stage.
pub fn run(options: &Options, tally: &mut Tally) -> Result {
    let place = Place::make()?;
    place.compile("guest.c", "guest", &[])?;
    place.compile("guest.c", "guest-mpich", &["-abi=mpich"])?;
    place.compile("loader.c", "loader", &[])?;
    let mut test = |name: &str, body: &dyn Fn() -> Result| {
        let name = format!("guest/{name}");
        if options.wants(&name) {
            tally.test(&name, body);
        }
    };
    for (program, counts) in [("guest", &[1, 3][..]), ("guest-mpich", &[2][..])] {
        for part in TESTS {
            for &ranks in counts {
                test(&format!("{program} {part} -n {ranks}"), &|| {
                    let rest = format!("{} {part}", place.bin(program).display());
                    let job = place.shell("exec", ranks, &rest);
                    job.passes(&[format!("ok {part}")]).map(|_| ())
                });
            }
        }
    }
    test("without a launcher", &|| {
        let job = Job::new(place.bin("guest")).args(["plain"]);
        let job = job.env("LD_LIBRARY_PATH", place.folder.join("lib"));
        job.passes(&["ok plain".to_owned()]).map(|_| ())
    });
    test("MPI_Finalize is no other rank's barrier", &|| {
        let rest = format!("-timeout 1 {} early", place.bin("guest").display());
        let said = [
            "waiting in MPI_Barrier",
            "rank 1 (",
            "waiting in MPI_Finalize",
        ];
        let job = place.shell("exec", 2, &rest);
        job.fails(&said.map(str::to_owned)).map(|_| ())
    });
    loading(&place, &mut test);
    scarce(&place, &mut test);
    variables(&place, &mut test);
    test("Python", &|| python(&place));
    another_version(&place, &mut test);
    Ok(())
}

/// Libraries loaded as plug-ins.
fn loading(place: &Place, test: &mut dyn FnMut(&str, &dyn Fn() -> Result)) {
    const LIBRARIES: [&str; 2] = ["libmpi_abi.so.1", "libmpi.so.12"];
    for library in LIBRARIES {
        test(&format!("{library} by dlopen"), &|| {
            let path = place.lib(library);
            let rest = format!("{} {}", place.bin("loader").display(), path.display());
            let job = place.shell("exec", 2, &rest);
            job.passes(&["ok loader".to_owned()]).map(|_| ())
        });
    }
    let [a, b] = LIBRARIES;
    for (first, second) in [(a, b), (b, a)] {
        test(&format!("{first}, then {second}"), &|| {
            let job = Job::new(place.bin("loader")).args([place.lib(first), place.lib(second)]);
            let words = ["MPI_Init", "already uses MPI through", first, second];
            job.fails(&words.map(str::to_owned)).map(|_| ())
        });
    }
}

/// Little memory, few rights.
fn scarce(place: &Place, test: &mut dyn FnMut(&str, &dyn Fn() -> Result)) {
    for gigabytes in [4, 1] {
        test(&format!("{gigabytes} GiB of address space"), &|| {
            let limit = format!("ulimit -v {}; exec", gigabytes << 20);
            place.prepared(&limit, "plain")
        });
    }
    test("64 descriptors", &|| {
        place.prepared("ulimit -n 64; exec", "plain")
    });
    // The report page fits, the segment does not; its maker has to say so, and not to die of SIGXFSZ.
    test("files of 64 KiB at most", &|| {
        let plain = format!("{} plain", place.bin("guest").display());
        let said = ["MPI_Init", "the limit on the size of files (ulimit -f)"];
        let done = place
            .shell("ulimit -f 128; exec", 2, &plain)
            .fails(&said.map(str::to_owned))?;
        match done.output.contains("SIG") {
            true => Err(done.output),
            false => Ok(()),
        }
    });
    test("no descriptors but the three", &|| {
        place.prepared("exec 0</dev/null; exec", "descriptors")
    });
    let root = works("test $(id -u) = 0");
    if root && works(&format!("{NOBODY} true")) {
        for part in ["plain", "fork", "undumpable"] {
            test(&format!("{part} as a user without rights"), &|| {
                place.prepared(&format!("exec {NOBODY}"), part)
            });
        }
    }
    if root && works("setpriv --reuid 65534 --regid 65534 --clear-groups true") {
        another_user(place, test);
    }
    let unshare = if root { "unshare" } else { "unshare -r" };
    if works(&format!("{unshare} --pid --net --fork true")) {
        namespaces(place, unshare, test);
    }
    let apart = if root { "unshare -m" } else { "unshare -rm" };
    if works(&format!("{apart} mount --make-rprivate /")) {
        for (who, change) in [("root", ""), ("nobody", NOBODY)] {
            if who == "root" || root {
                test(&format!("nothing writable, no /dev/shm, as {who}"), &|| {
                    nothing_writable(place, apart, change)
                });
            }
        }
    }
}

/// Ranks of different users don't share memory, and say so.
fn another_user(place: &Place, test: &mut dyn FnMut(&str, &dyn Fn() -> Result)) {
    let guest = place.bin("guest");
    for (holder, first) in [("root", ""), ("nobody", NOBODY)] {
        test(
            &format!("ranks of different users, the first {holder}'s"),
            &|| {
                let second = if first.is_empty() { NOBODY } else { "" };
                let guest = guest.display();
                let rest = format!("{first} {guest} plain : -n 1 {second} {guest} plain");
                let said = [
                    "rank 0 is on this machine but its memory can't be shared",
                    "or as another user; YAMABIKO_FABRICS=self,tcp does without",
                ];
                let job = place.shell("exec", 1, &rest);
                job.fails(&said.map(str::to_owned)).map(|_| ())
            },
        );
    }
    test("ranks of different users over TCP", &|| {
        let guest = guest.display();
        let rest = format!("{guest} plain : -n 1 {NOBODY} {guest} plain");
        let job = place.shell("YAMABIKO_FABRICS=self,tcp exec", 1, &rest);
        job.passes(&["ok plain".to_owned()]).map(|_| ())
    });
}

/// What is wrong with a variable is told although shared memory has no use for it; empty ones are none.
fn variables(place: &Place, test: &mut dyn FnMut(&str, &dyn Fn() -> Result)) {
    let plain = format!("{} plain", place.bin("guest").display());
    for wrong in [
        "YAMABIKO_PORT_RANGE=50000",
        "YAMABIKO_TCP_REACTOR=uring",
        "YAMABIKO_TCP_INTERFACE=10.1.0.0/99",
    ] {
        test(&format!("{wrong} is told"), &|| {
            let (name, value) = wrong.split_once('=').unwrap_or((wrong, ""));
            let said = ["MPI_Init", name, value].map(str::to_owned);
            let job = place.shell(&format!("{wrong} exec"), 2, &plain);
            job.fails(&said).map(|_| ())
        });
    }
    test("empty variables are none", &|| {
        let empty = "YAMABIKO_FABRICS= YAMABIKO_PORT_RANGE= YAMABIKO_TCP_REACTOR= YAMABIKO_TCP_INTERFACE= \
                     YAMABIKO_REPORT_FABRICS= MPIEXEC_TIMEOUT= exec";
        let done = place
            .shell(empty, 2, &plain)
            .passes(&["ok plain".to_owned()])?;
        match done.output.contains("yamabiko:") {
            true => Err(done.output),
            false => Ok(()),
        }
    });
}

/// Ranks in namespaces of their own: of process ids, which changes nothing, and of networks, which hides them from
/// each other and is said.
fn namespaces(place: &Place, apart: &str, test: &mut dyn FnMut(&str, &dyn Fn() -> Result)) {
    let guest = place.bin("guest");
    test("ranks in different PID namespaces", &|| {
        let own = format!(
            "{apart} --pid --fork --kill-child {} plain",
            guest.display()
        );
        let job = place.shell(
            "exec",
            1,
            &format!("{own} : -n 2 {} plain", guest.display()),
        );
        job.passes(&["ok plain".to_owned()]).map(|_| ())
    });
    test("ranks in different network namespaces", &|| {
        let own = format!("{apart} --net {} plain", guest.display());
        let job = place.shell(
            "exec",
            1,
            &format!("{} plain : -n 1 {own}", guest.display()),
        );
        let said = "it runs in another network namespace or as another user; YAMABIKO_FABRICS=self,tcp does without";
        job.fails(&["rank 0 is on this machine".to_owned(), said.to_owned()])
            .map(|_| ())
    });
}

fn nothing_writable(place: &Place, apart: &str, change: &str) -> Result {
    let (mpiexec, guest) = (place.bin("mpiexec"), place.bin("guest"));
    let inner = format!(
        "{READ_ONLY} exec {change} {} -n 3 {} plain",
        mpiexec.display(),
        guest.display()
    );
    let job = Job::new(apart.split(' ').next().unwrap_or(apart))
        .args(apart.split(' ').skip(1))
        .args(["sh", "-c", &inner])
        .env("LD_LIBRARY_PATH", place.folder.join("lib"))
        .folder(Path::new("/"));
    job.passes(&["ok plain".to_owned()]).map(|_| ())
}

/// A rank of another version in the same job is refused, and named.
fn another_version(place: &Place, test: &mut dyn FnMut(&str, &dyn Fn() -> Result)) {
    let ours = format!("{} plain", place.bin("guest").display());
    let theirs = build::target().join("debug/examples/other_version");
    let theirs = theirs.display();
    for (rank, programs) in [
        (0, format!("{theirs} : -n 2 {ours}")),
        (1, format!("{ours} : -n 1 {theirs} : -n 1 {ours}")),
        (2, format!("{ours} : -n 1 {ours} : -n 1 {theirs}")),
    ] {
        test(&format!("another version as rank {rank}"), &|| {
            let example = [
                "build",
                "--quiet",
                "-p",
                "engine",
                "--example",
                "other_version",
            ];
            process::run(
                Command::new(super::unit::cargo())
                    .current_dir(root())
                    .args(example),
            )?;
            let done = place.shell("exec", 1, &programs).fails(&[
                format!("rank {rank} runs version 9.9.9 of Yamabiko, this rank runs"),
                "all ranks of a job need the same version".to_owned(),
            ])?;
            match done.output.contains("was let in") || done.output.contains("ok plain") {
                true => Err(done.output),
                false => Ok(()),
            }
        });
    }
}

/// Python's multiprocessing and subprocess in ranks.
fn python(place: &Place) -> Result {
    apt::need_python()?;
    let job = Job::new(Ground::ours(Over::Shm).launcher)
        .args(["-n", "2", "python3"])
        .args([root().join("tests/guest/guest.py")])
        .args([place.lib("libmpi.so.12")]);
    job.passes(&["ok python".to_owned()]).map(|_| ())
}
