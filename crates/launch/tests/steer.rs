//! `yamabiko kaccd --steer` changes what it says, in its own network namespace, and everything is back when it is gone, however it ended.

use rustix::fs::{FlockOperation, Mode, OFlags, flock, openat};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(60);
const LOOPBACK: &str = "lo/queues/rx-0/rps_cpus";
const CABLE: &str = "cable/queues/rx-0/rps_flow_cnt";
/// What a kaccd makes of that.
const FLOWS: &str = "32768";
const NOBODY: u32 = 65534;

fn skipped(why: &str) {
    let _ = std::io::stderr().write_all(format!("skipped: steer: {why}\n").as_bytes());
}

/// A network namespace with a cable, and RPS at its loopback interface.
struct Ground {
    sysfs: OwnedFd,
}

impl Ground {
    /// That of the calling thread from now on; nothing where that is not possible.
    fn new() -> Option<Ground> {
        let flags = rustix::thread::UnshareFlags::NEWNET;
        // SAFETY: no descriptors are unshared. Each test has a thread of its own.
        if let Err(why) = unsafe { rustix::thread::unshare_unsafe(flags) } {
            skipped(&format!("no network namespace: {why}"));
            return None;
        }
        let mut ip = Command::new("ip");
        let Ok(done) = ip
            .args("link add cable type veth peer name end".split(' '))
            .output()
        else {
            skipped("there is no command ip");
            return None;
        };
        assert!(done.status.success(), "{done:?}");
        let context = fsopen("sysfs", FsOpenFlags::FSOPEN_CLOEXEC).unwrap();
        fsconfig_create(&context).unwrap();
        let flags = FsMountFlags::FSMOUNT_CLOEXEC;
        let sysfs = fsmount(&context, flags, MountAttrFlags::empty()).unwrap();
        let ground = Ground { sysfs };
        ground.set(LOOPBACK, "1");
        Some(ground)
    }

    fn open(&self, path: &str, flags: OFlags) -> File {
        let path = format!("class/net/{path}");
        openat(&self.sysfs, path, flags | OFlags::CLOEXEC, Mode::empty())
            .unwrap()
            .into()
    }

    fn get(&self, path: &str) -> String {
        let mut text = String::new();
        self.open(path, OFlags::RDONLY)
            .read_to_string(&mut text)
            .unwrap();
        text.trim().to_owned()
    }

    fn set(&self, path: &str, value: &str) {
        self.open(path, OFlags::WRONLY)
            .write_all(value.as_bytes())
            .unwrap();
    }

    fn is_steered(&self) -> bool {
        self.get(LOOPBACK) == "0" && self.get(CABLE) == FLOWS
    }

    /// Waits until nobody steers; there is no guard either, then.
    fn rests(&self) {
        let namespace = File::open("/proc/thread-self/ns/net").unwrap();
        until("nobody steers", || {
            flock(&namespace, FlockOperation::NonBlockingLockExclusive).is_ok()
        });
    }
}

fn until(what: &str, is: impl Fn() -> bool) {
    let begin = Instant::now();
    while !is() {
        assert!(begin.elapsed() < LIMIT, "{what}: not after {LIMIT:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn kaccd(steer: &str) -> Command {
    kaccd_by(Command::new(env!("CARGO_BIN_EXE_yamabiko")), steer)
}

fn kaccd_by(mut command: Command, steer: &str) -> Command {
    command.args(["kaccd", "--steer", steer]);
    command.stdin(Stdio::null()).stderr(Stdio::piped());
    command
}

/// What runs the program with all signals as they are by default: a shell's background job has SIGINT ignored, which kaccd keeps to.
fn as_by_default() -> Command {
    let mut command = Command::new("env");
    command.args(["--default-signal", env!("CARGO_BIN_EXE_yamabiko")]);
    command
}

/// A kaccd, killed when this is dropped.
struct Running(Child);

impl Running {
    fn new(ground: &Ground) -> Running {
        let mut command = kaccd_by(as_by_default(), "lo,cable");
        let running = Running(command.spawn().unwrap());
        until("it steers", || ground.is_steered());
        running
    }

    /// The guard that it has now.
    fn guard(&self) -> Option<Pid> {
        let mine = |pid: &i32| {
            let text = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            let mut words = text.rsplit(") ").next().unwrap_or_default().split(' ');
            let lives = words.next().is_some_and(|state| state != "Z");
            lives && words.next() == Some(&self.0.id().to_string())
        };
        let entries = fs::read_dir("/proc").unwrap().flatten();
        let mut pids = entries.filter_map(|e| e.file_name().to_str()?.parse().ok());
        pids.find(mine).and_then(Pid::from_raw)
    }

    fn end(&mut self, signal: Signal) {
        let pid = Pid::from_raw(self.0.id() as i32).unwrap();
        kill_process(pid, signal).unwrap();
        let begin = Instant::now();
        while self.0.try_wait().unwrap().is_none() {
            assert!(begin.elapsed() < LIMIT, "{signal:?} has not ended it");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What one says that does not start.
fn refused(command: &mut Command) -> String {
    let done = command.output().unwrap();
    assert!(!done.status.success(), "{done:?}");
    String::from_utf8(done.stderr).unwrap()
}

#[test]
fn everything_is_back_however_it_ends() {
    let Some(ground) = Ground::new() else { return };
    for signal in [Signal::KILL, Signal::TERM, Signal::INT] {
        let mut running = Running::new(&ground);
        // Here the machine's table can't be reached.
        let mut said = String::new();
        let stderr = running.0.stderr.take().unwrap();
        BufReader::new(stderr).read_line(&mut said).unwrap();
        assert!(
            said.contains("the machine's table of flows can't be reached"),
            "{said}"
        );
        running.end(signal);
        ground.rests();
        assert_eq!(
            (ground.get(LOOPBACK), ground.get(CABLE)),
            ("1".into(), "0".into())
        );
    }
}

#[test]
fn what_somebody_else_has_set_stays() {
    let Some(ground) = Ground::new() else { return };
    let mut running = Running::new(&ground);
    ground.set(CABLE, "64");
    running.end(Signal::KILL);
    ground.rests();
    assert_eq!(
        (ground.get(LOOPBACK), ground.get(CABLE)),
        ("1".into(), "64".into())
    );
    // A larger table than its own stays, too.
    ground.set(CABLE, "65536");
    let mut running = Running(kaccd("lo,cable").spawn().unwrap());
    until("it steers", || ground.get(LOOPBACK) == "0");
    assert_eq!(ground.get(CABLE), "65536");
    running.end(Signal::KILL);
    ground.rests();
    assert_eq!(
        (ground.get(LOOPBACK), ground.get(CABLE)),
        ("1".into(), "65536".into())
    );
}

#[test]
fn a_guard_that_is_killed_is_replaced() {
    let Some(ground) = Ground::new() else { return };
    let mut running = Running::new(&ground);
    // What ends a service or a terminal is not for the guard.
    let first = running.guard().unwrap();
    until("it heeds no signals", || {
        let text = fs::read_to_string(format!("/proc/{}/status", first.as_raw_nonzero())).unwrap();
        let ignored = text
            .lines()
            .find_map(|l| l.strip_prefix("SigIgn:"))
            .unwrap();
        let ignored = u64::from_str_radix(ignored.trim(), 16).unwrap();
        [Signal::TERM, Signal::INT, Signal::HUP]
            .iter()
            .all(|s| ignored >> (s.as_raw() - 1) & 1 == 1)
    });
    kill_process(first, Signal::KILL).unwrap();
    until("there is another guard", || {
        running.guard().is_some_and(|guard| guard != first)
    });
    assert!(ground.is_steered());
    running.end(Signal::KILL);
    ground.rests();
    assert_eq!(
        (ground.get(LOOPBACK), ground.get(CABLE)),
        ("1".into(), "0".into())
    );
}

#[test]
fn what_cannot_be_steered_is_said() {
    let Some(ground) = Ground::new() else { return };
    for name in ["nothing", "../lo", ""] {
        let said = refused(&mut kaccd(&format!("lo,{name}")));
        let why = format!("--steer: there is no interface {name}: ");
        assert!(said.contains(&why), "{said}");
        ground.rests();
        assert_eq!(ground.get(LOOPBACK), "1");
    }
    let _running = Running::new(&ground);
    let said = refused(&mut kaccd("lo"));
    assert!(
        said.contains("another kaccd steers in this network namespace"),
        "{said}"
    );
    assert!(ground.is_steered());
}

#[test]
fn who_may_not_is_told() {
    let mut command = kaccd("lo");
    if rustix::process::geteuid().is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    match command.spawn() {
        // Nobody may look into the folder of this program.
        Err(why) => skipped(&why.to_string()),
        Ok(mut child) => {
            child.kill().ok();
            child.wait().unwrap();
            let said = refused(&mut command);
            let why = "kaccd: --steer: the kernel refuses a sysfs of its own: ";
            assert!(
                said.contains(why) && said.contains("it takes root"),
                "{said}"
            );
        }
    }
}
