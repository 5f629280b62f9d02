//! Stage `net`: jobs over several hosts, in a network made for it (`netlab`): what mpiexec and its daemons
//! make of slow, narrow and broken links. Skipped where no such network can be made.
//!
//! The launcher command is a connection over that network (`xtask reach`), so that a broken link breaks
//! what ssh's connection would be.

mod messages;
mod steering;

use super::job::tail;
use super::{Options, Tally, apt};
use crate::netlab::{self, Lab};
use crate::spec::root;
use crate::{Result, build, process};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Hosts of the lab.
const HOSTS: u32 = 4;
/// No job may take longer.
const PATIENCE: Duration = Duration::from_secs(120);
/// The variable that marks all processes of this stage.
const MARK: &str = "NET_STAGE";

struct Ground {
    lab: Lab,
    programs: PathBuf,
    servers: Servers,
    mark: String,
}

/// A running mpiexec, on the first host.
struct Running {
    child: Child,
    log: PathBuf,
}

type Test = fn(&Ground, soak: bool) -> Result;

const TESTS: [(&str, Test); 10] = [
    ("net/four hosts", four_hosts),
    ("net/ssh", ssh),
    ("net/IPv6", version_6),
    ("net/MTU 576", narrow),
    ("net/a slow host", slow),
    ("net/a link down for 5 s", link_down),
    ("net/a link gone", link_gone),
    ("net/a host's processes killed", host_killed),
    ("net/a rank stopped", rank_stopped),
    ("net/steering", steering::steering),
];

/// Runs the stage.
pub fn run(options: &Options, tally: &mut Tally) -> Result {
    if let Some(why) = netlab::unavailable() {
        println!("skipped: {why}");
        return Ok(());
    }
    let programs = programs()?;
    messages::compile()?;
    for (name, test) in TESTS.into_iter().chain(messages::TESTS) {
        if options.wants(name) {
            // A network of its own for each, because most leave it broken.
            tally.test(name, || {
                let ground = Ground::make(&programs)?;
                test(&ground, options.soak)?;
                ground.nothing_left(Duration::from_secs(3))
            });
        }
    }
    Ok(())
}

/// Builds the program that the launcher's own tests use; the folder it lies in.
fn programs() -> Result<PathBuf> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo
        .current_dir(root())
        .args(["build", "--quiet", "-p", "launch"]);
    process::run(cargo.args(["--example", "probe"]))?;
    Ok(build::target().join("debug/examples"))
}

impl Ground {
    fn make(programs: &Path) -> Result<Ground> {
        let mut ground = Ground {
            lab: Lab::build(HOSTS)?,
            programs: programs.to_path_buf(),
            servers: Servers(Vec::new()),
            mark: std::process::id().to_string(),
        };
        let own = std::env::current_exe().map_err(|e| e.to_string())?;
        let reach = format!("#!/bin/sh\nexec '{}' reach to \"$@\"\n", own.display());
        let path = ground.reach();
        fs::write(&path, reach).map_err(|e| format!("{}: {e}", path.display()))?;
        process::run(Command::new("chmod").arg("+x").arg(&path))?;
        for host in 1..=HOSTS {
            let mut server = ground.lab.command(host, &own);
            server
                .args(["reach", "serve"])
                .stdin(Stdio::null())
                .stdout(Stdio::piped());
            let mut server = server.spawn().map_err(|e| format!("a server: {e}"))?;
            let mut ready = [0; 6];
            if let Some(stdout) = &mut server.stdout {
                let _ = std::io::Read::read_exact(stdout, &mut ready);
            }
            ground.servers.0.push(server);
            if ready != *b"ready\n" {
                return Err(format!("the server of host {host} does not start"));
            }
        }
        Ok(ground)
    }

    fn reach(&self) -> PathBuf {
        self.lab.folder().join("reach")
    }

    /// Starts mpiexec on the first host with `xtask reach` as its launcher command; `PROBE` stands for the program of the launcher's tests.
    fn start(&self, args: &[&str]) -> Result<Running> {
        let reach = self.reach().display().to_string();
        self.start_by(&reach, args)
    }

    fn start_by(&self, launcher: &str, args: &[&str]) -> Result<Running> {
        let log = self.lab.folder().join("log");
        let file = File::create(&log).map_err(|e| format!("{}: {e}", log.display()))?;
        let again = file.try_clone().map_err(|e| e.to_string())?;
        let mut command = self
            .lab
            .command(1, build::prefix(false).join("bin/mpiexec"));
        command.args(["-launcher-exec", launcher]);
        for arg in args {
            match *arg {
                "PROBE" => command.arg(self.programs.join("probe")),
                arg => command.arg(arg),
            };
        }
        // The daemons get the rest of their environment from the servers.
        command
            .env(MARK, &self.mark)
            .stdin(Stdio::null())
            .stdout(file)
            .stderr(again);
        let child = command.spawn().map_err(|e| format!("mpiexec: {e}"))?;
        Ok(Running { child, log })
    }

    /// Runs a job that has to end well.
    fn passes(&self, args: &[&str]) -> Result<String> {
        self.start(args)?.ends(Some(0), PATIENCE)
    }

    /// Living ranks and their descendants, all with mpiexec's mark.
    fn marked(&self) -> Vec<u32> {
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = entries.filter_map(|e| e.file_name().to_str()?.parse().ok());
        let variable = format!("{MARK}={}", self.mark);
        pids.filter(|pid: &u32| {
            let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environ.split(|b| *b == 0).any(|v| v == variable.as_bytes())
        })
        .collect()
    }

    /// Processes of a host with this name.
    fn on_host(&self, host: u32, comm: &str) -> Result<Vec<u32>> {
        let namespace = |pid: u32| fs::read_link(format!("/proc/{pid}/ns/net")).ok();
        // The server's process became the server by `exec` only.
        let own = namespace(self.servers.0[host as usize - 1].id());
        let entries = fs::read_dir("/proc").map_err(|e| e.to_string())?.flatten();
        let pids = entries.filter_map(|e| e.file_name().to_str()?.parse::<u32>().ok());
        let is_it = |pid: &u32| {
            let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            name.trim() == comm && namespace(*pid) == own
        };
        Ok(pids.filter(is_it).collect())
    }

    fn nothing_left(&self, limit: Duration) -> Result {
        let until = Instant::now() + limit;
        loop {
            let left = self.marked();
            if left.is_empty() {
                return Ok(());
            }
            if Instant::now() > until {
                return Err(format!("processes {left:?} are left"));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        signal("KILL", &self.marked());
    }
}

impl Running {
    fn said(&self) -> String {
        fs::read(&self.log).map_or_else(
            |e| e.to_string(),
            |bytes| String::from_utf8_lossy(&bytes).into_owned(),
        )
    }

    fn wait_for(&mut self, text: &str, times: usize) -> Result {
        let until = Instant::now() + PATIENCE;
        while self.said().matches(text).count() < times {
            let over = self.child.try_wait().map_err(|e| e.to_string())?;
            if over.is_some() || Instant::now() > until {
                return Err(format!("never said `{text}`\n{}", tail(&self.said())));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// Waits for its end with an error; what it said.
    fn ends_badly(self, limit: Duration) -> Result<String> {
        self.over(|code| code != Some(0), limit)
    }

    /// Waits for its end with this exit code; what it said.
    fn ends(self, code: Option<i32>, limit: Duration) -> Result<String> {
        self.over(|other| other == code, limit)
    }

    fn over(mut self, good: impl Fn(Option<i32>) -> bool, limit: Duration) -> Result<String> {
        let since = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().map_err(|e| e.to_string())? {
                let said = self.said();
                return match good(status.code()) {
                    true => Ok(said),
                    false => Err(format!("{status}\n{}", tail(&said))),
                };
            }
            if since.elapsed() > limit {
                let _ = self.child.kill();
                let _ = self.child.wait();
                return Err(format!(
                    "not over after {limit:.0?}\n{}",
                    tail(&self.said())
                ));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

fn signal(name: &str, pids: &[u32]) {
    if !pids.is_empty() {
        let numbers = pids.iter().map(u32::to_string);
        let mut kill = Command::new("kill");
        let _ = kill
            .args(["-s", name, "--"])
            .args(numbers)
            .stderr(Stdio::null())
            .status();
    }
}

fn wants(said: &str, words: &[&str]) -> Result {
    match words.iter().find(|word| !said.contains(**word)) {
        Some(word) => Err(format!("did not say `{word}`\n{}", tail(said))),
        None => Ok(()),
    }
}

fn four_hosts(ground: &Ground, _: bool) -> Result {
    let said = ground.passes(&["-hosts", "h1,h2,h3,h4", "-n", "4", "hostname"])?;
    wants(&said, &["h1\n", "h2\n", "h3\n", "h4\n"])?;
    let said = ground.passes(&["-hosts", "h1:2,h2:2,h3:2,h4:2", "-n", "8", "PROBE", "hello"])?;
    wants(&said, &["rank 0 of 8", "rank 7 of 8"])
}

/// The usual launcher command, with servers of this test's own.
fn ssh(ground: &Ground, _: bool) -> Result {
    apt::need(&[("ssh-keygen", "openssh-client")])?;
    let server = Path::new("/usr/sbin/sshd");
    if !server.exists() {
        apt::install(&["openssh-server"])?;
    }
    let folder = ground.lab.folder();
    let path = |name: &str| folder.join(name).display().to_string();
    for key in ["host-key", "own-key"] {
        let mut make = Command::new("ssh-keygen");
        process::run(make.args(["-q", "-t", "ed25519", "-N", "", "-f", &path(key)]))?;
    }
    let config = format!(
        "HostKey {}\nAuthorizedKeysFile {}.pub\nPermitRootLogin yes\nStrictModes no\nUsePAM no\nPidFile none\n",
        path("host-key"),
        path("own-key"),
    );
    fs::write(path("sshd_config"), config).map_err(|e| e.to_string())?;
    fs::create_dir_all("/run/sshd").map_err(|e| format!("/run/sshd: {e}"))?;
    let mut servers = Servers(Vec::new());
    for host in 1..=2 {
        let mut command = ground.lab.command(host, server);
        command.args(["-D", "-f", &path("sshd_config")]);
        let child = command.stdin(Stdio::null()).stderr(Stdio::null()).spawn();
        servers.0.push(child.map_err(|e| format!("sshd: {e}"))?);
    }
    let launcher = format!(
        "ssh -x -i {} -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR \
         -o ConnectionAttempts=20",
        path("own-key")
    );
    let args = ["-hosts", "h1:2,h2:2", "-n", "4", "PROBE", "hello"];
    let said = ground.start_by(&launcher, &args)?.ends(Some(0), PATIENCE)?;
    wants(&said, &["rank 3 of 4"])?;
    // mpiexec is killed: everything at the far ends goes, too.
    let args = ["-hosts", "h1:2,h2:2", "-n", "4", "PROBE", "wait"];
    let mut job = ground.start_by(&launcher, &args)?;
    job.wait_for("ready", 4)?;
    signal("KILL", &[job.child.id()]);
    let since = Instant::now();
    ground.nothing_left(Duration::from_secs(2))?;
    println!(
        "      over {:.1?} after mpiexec was killed",
        since.elapsed()
    );
    job.ends(None, PATIENCE).map(|_| ())
}

/// Processes that end with the test.
struct Servers(Vec<Child>);

impl Drop for Servers {
    fn drop(&mut self) {
        for server in &mut self.0 {
            let _ = server.kill();
            let _ = server.wait();
        }
    }
}

fn version_6(ground: &Ground, _: bool) -> Result {
    let hosts = format!("[{}],[{}]:2", netlab::v6(1), netlab::v6(2));
    let said = ground.passes(&["-hosts", &hosts, "-n", "3", "PROBE", "hello"])?;
    wants(&said, &["rank 2 of 3"])
}

fn narrow(ground: &Ground, _: bool) -> Result {
    ground.lab.mtu(576)?;
    // IPv6 needs 1280, so only IPv4 is left.
    let hosts = format!("{},{}", netlab::v4(1), netlab::v4(2));
    let said = ground.passes(&["-hosts", &hosts, "-n", "4", "PROBE", "hello"])?;
    wants(&said, &["rank 3 of 4"])
}

/// At 10 Mbit/s, 5 MB take 4 s, during which the host must count as alive.
fn slow(ground: &Ground, _: bool) -> Result {
    ground.lab.limit(2, 10)?;
    let since = Instant::now();
    let said = ground.passes(&["-hosts", "h1,h2", "-n", "2", "sh", "-c", WRITE_MUCH])?;
    let took = since.elapsed();
    let lines = said.lines().filter(|line| line.len() == 99).count();
    if lines != 50_000 || took < Duration::from_secs(3) {
        return Err(format!("{lines} lines in {took:.1?}"));
    }
    println!("      5 MB of output over 10 Mbit/s: {took:.1?}");
    Ok(())
}

/// Rank 1 writes 50,000 lines of 100 bytes.
const WRITE_MUCH: &str = "[ $PMI_RANK = 0 ] || seq -f %099.0f 1 50000";

/// Counts seconds on both hosts.
const COUNT: &str = "for i in 1 2 3 4 5 6 7 8 9 10; do echo \"$PMI_RANK counts $i\"; sleep 1; done";

fn link_down(ground: &Ground, _: bool) -> Result {
    let mut job = ground.start(&["-hosts", "h1,h2", "-n", "2", "sh", "-c", COUNT])?;
    job.wait_for("counts 2", 2)?;
    ground.lab.plug(2, false)?;
    std::thread::sleep(Duration::from_secs(5));
    ground.lab.plug(2, true)?;
    let said = job.ends(Some(0), PATIENCE)?;
    let counted = |rank: u32| said.matches(&format!("{rank} counts ")).count();
    match (counted(0), counted(1)) {
        (10, 10) => Ok(()),
        other => Err(format!("lines of the ranks: {other:?}\n{}", tail(&said))),
    }
}

fn link_gone(ground: &Ground, _: bool) -> Result {
    let mut job = ground.start(&["-hosts", "h1,h2,h3", "-n", "3", "PROBE", "wait"])?;
    job.wait_for("ready", 3)?;
    ground.lab.plug(2, false)?;
    let since = Instant::now();
    let said = job.ends(Some(1), Duration::from_secs(15))?;
    println!("      over after {:.1?}", since.elapsed());
    wants(
        &said,
        &["mpiexec: host h2 is lost with rank 1: nothing was heard of it"],
    )?;
    // The ranks beyond the broken link end as well, by themselves.
    ground.nothing_left(Duration::from_secs(15))
}

fn host_killed(ground: &Ground, _: bool) -> Result {
    let mut job = ground.start(&["-hosts", "h1,h2", "-n", "4", "PROBE", "wait"])?;
    job.wait_for("ready", 4)?;
    for name in ["yamabiko-daemon", "yamabiko-keeper", "probe"] {
        signal("KILL", &ground.on_host(2, name)?);
    }
    let since = Instant::now();
    let said = job.ends(Some(1), Duration::from_secs(15))?;
    println!("      over after {:.1?}", since.elapsed());
    wants(
        &said,
        &["mpiexec: host h2 is lost with ranks 1, 3: its daemon has ended"],
    )
}

fn rank_stopped(ground: &Ground, soak: bool) -> Result {
    let mut job = ground.start(&["-hosts", "h1,h2", "-n", "2", "sh", "-c", COUNT])?;
    job.wait_for("counts 1", 2)?;
    let ranks: Vec<u32> = ground.on_host(2, "sh")?;
    let marked = ground.marked();
    let ranks: Vec<u32> = ranks
        .into_iter()
        .filter(|pid| marked.contains(pid))
        .collect();
    signal("STOP", &ranks);
    std::thread::sleep(Duration::from_secs(if soak { 60 } else { 15 }));
    signal("CONT", &ranks);
    if ranks.is_empty() {
        return Err("no rank was found to be stopped".into());
    }
    job.ends(Some(0), PATIENCE).map(|_| ())
}
