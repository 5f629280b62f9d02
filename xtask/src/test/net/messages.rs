//! Messages over the lab: MPI programs on its hosts, while the network misbehaves.

use super::{Ground, PATIENCE, Test, signal, wants};
use crate::netlab;
use crate::spec::root;
use crate::test::{job::tail, peers};
use crate::{Result, build, process};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

pub(super) const TESTS: [(&str, Test); 17] = [
    ("net/messages between two hosts", two_hosts),
    ("net/messages by IPv6", version_6),
    ("net/messages of 32 ranks on four hosts", many),
    ("net/broadcasts of several hosts", broadcasts),
    ("net/broadcasts while some have a ring", begun),
    ("net/messages with MTU 576", narrow),
    ("net/messages at 10 Mbit/s", slow),
    ("net/messages while a link is down for 5 s", link_down),
    ("net/messages when a link is gone", link_gone),
    ("net/messages to who can't be reached", unreachable),
    ("net/messages given up", given_up),
    (
        "net/messages given up, as the launcher tells",
        given_up_told,
    ),
    ("net/messages polled for in vain", polled),
    ("net/messages waited for by tests", tested),
    ("net/messages while a rank is stopped", rank_stopped),
    ("net/messages among strangers' connections", strangers),
    ("net/messages under Hydra", hydra),
];

/// Compiles the programs of `tests/net` with our wrapper.
pub(super) fn compile() -> Result {
    let bin = folder();
    std::fs::create_dir_all(&bin).map_err(|e| format!("{}: {e}", bin.display()))?;
    for name in [
        "talk",
        "alltoall",
        "begun",
        "broadcasts",
        "pingpong",
        "polling",
        "severed",
        "tested",
    ] {
        let mut mpicc = Command::new(build::prefix(false).join("bin/mpicc"));
        mpicc.args([
            "-std=c11",
            "-D_GNU_SOURCE",
            "-O1",
            "-Wall",
            "-Wextra",
            "-Werror",
        ]);
        let source = root().join("tests/net").join(format!("{name}.c"));
        process::run(mpicc.arg(source).arg("-o").arg(bin.join(name)))?;
    }
    Ok(())
}

fn folder() -> PathBuf {
    build::target().join("test/net")
}

fn program(name: &str) -> String {
    folder().join(name).display().to_string()
}

fn two_hosts(ground: &Ground, _: bool) -> Result {
    let talk = program("talk");
    let said = ground.passes(&[
        "-report-fabrics",
        "-hosts",
        "h1:2,h2:2",
        "-n",
        "4",
        &talk,
        "2",
    ])?;
    wants(
        &said,
        &[
            "ok talk",
            "ranks 0-1: shm",
            "ranks 2-3: shm",
            "between ranks 0-1 | 2-3: tcp, as they are on different machines",
        ],
    )?;
    let said = ground.start(&[
        "-genv",
        "YAMABIKO_FABRICS",
        "self,shm",
        "-hosts",
        "h1,h2",
        "-n",
        "2",
        &talk,
        "1",
    ])?;
    // Fabrics that don't connect all are refused by name.
    let said = said.ends_badly(PATIENCE)?;
    wants(&said, &["can't reach rank", "YAMABIKO_FABRICS"])
}

fn version_6(ground: &Ground, _: bool) -> Result {
    let said = ground.passes(&[
        "-genv",
        "YAMABIKO_TCP_INTERFACE",
        "fd77::/64",
        "-hosts",
        "h1:2,h2:2",
        "-n",
        "4",
        &program("talk"),
        "1",
    ])?;
    wants(&said, &["ok talk"])
}

fn many(ground: &Ground, _: bool) -> Result {
    let since = Instant::now();
    let hosts = "h1:8,h2:8,h3:8,h4:8";
    let said = ground.passes(&["-hosts", hosts, "-n", "32", &program("alltoall")])?;
    shows(&said);
    println!("      start to end: {:.1?}", since.elapsed());
    wants(&said, &["ok alltoall"])
}

fn broadcasts(ground: &Ground, _: bool) -> Result {
    for (hosts, ranks) in [
        ("h1,h2,h3", "3"),
        ("h1,h2,h3,h4", "4"),
        ("h1:2,h2:2", "4"),
        ("h1:2,h2:1,h3:2", "5"),
    ] {
        let said = ground.passes(&["-hosts", hosts, "-n", ranks, &program("broadcasts")])?;
        wants(&said, &["ok broadcasts"])?;
    }
    Ok(())
}

/// Ranks whose ring has begun, and others whose ring has not, come to the same ways.
fn begun(ground: &Ground, _: bool) -> Result {
    for (hosts, ranks) in [("h1,h2,h3", "3"), ("h1,h2,h3,h4", "4")] {
        let job = ["-hosts", hosts, "-n", ranks, &program("begun")];
        let chosen = ["-genv", "YAMABIKO_CAD", "auto"];
        let said = ground.passes(&[&chosen[..], &job].concat())?;
        wants(&said, &["ok begun"])?;
    }
    Ok(())
}

/// Four ranks that nobody knows to share processors, where the machine has fewer.
fn tested(ground: &Ground, _: bool) -> Result {
    let job = ["-hosts", "h1,h2,h3,h4", "-n", "4", &program("tested")];
    // It takes a second, and two minutes if ranks keep their processors while they poll.
    let said = ground.start(&job)?.ends(Some(0), Duration::from_secs(60))?;
    shows(&said);
    wants(&said, &["ok tested"])
}

fn narrow(ground: &Ground, _: bool) -> Result {
    ground.lab.mtu(576)?;
    let hosts = format!("{},{}", netlab::v4(1), netlab::v4(2));
    let said = ground.passes(&["-hosts", &hosts, "-n", "4", &program("talk"), "2"])?;
    wants(&said, &["ok talk"])
}

fn slow(ground: &Ground, _: bool) -> Result {
    ground.lab.limit(2, 10)?;
    let said = ground.passes(&["-hosts", "h1,h2,h3", "-n", "3", &program("talk"), "4"])?;
    shows(&said);
    wants(&said, &["ok talk"])
}

/// What is sent meanwhile arrives afterwards; nobody counts as dead.
fn link_down(ground: &Ground, _: bool) -> Result {
    let talk = program("talk");
    let job = ground.start(&["-hosts", "h1:2,h2:2", "-n", "4", &talk, "9"])?;
    std::thread::sleep(Duration::from_secs(2));
    ground.lab.plug(2, false)?;
    std::thread::sleep(Duration::from_secs(5));
    ground.lab.plug(2, true)?;
    let said = job.ends(Some(0), PATIENCE)?;
    shows(&said);
    wants(&said, &["ok talk"])
}

/// Every host has an interface of that name, and none reaches another's.
fn unreachable(ground: &Ground, _: bool) -> Result {
    let talk = program("talk");
    let only = ["-genv", "YAMABIKO_TCP_INTERFACE", "lo"];
    let job = [&only[..], &["-hosts", "h1,h2", "-n", "2", &talk, "1"]].concat();
    let said = ground.start(&job)?.ends_badly(PATIENCE)?;
    wants(
        &said,
        &[
            "no way leads to the process with rank",
            "are addresses of this host too and lead nowhere else",
        ],
    )
}

/// Two ranks that can't reach each other: who waits for the other that gave up finds out by itself.
fn given_up(ground: &Ground, _: bool) -> Result {
    severed(ground, "severed", &[], Duration::from_secs(60))
}

/// The same, where the launcher tells who has ended.
fn given_up_told(ground: &Ground, _: bool) -> Result {
    let limit = Duration::from_secs(40);
    severed(ground, "severed", &["-disable-auto-cleanup"], limit)
}

/// Two ranks that can't reach each other, and only poll: both find out.
fn polled(ground: &Ground, _: bool) -> Result {
    severed(ground, "polling", &[], Duration::from_secs(60))
}

/// Runs a program in which ranks 0 and 1, which can't reach each other, find that out.
fn severed(ground: &Ground, name: &str, options: &[&str], limit: Duration) -> Result {
    for (host, other) in [(2, 3), (3, 2)] {
        for (family, address) in [("-4", netlab::v4(other)), ("-6", netlab::v6(other))] {
            let mut cut = ground.lab.command(host, "ip");
            process::run(cut.args([family, "route", "add", "unreachable", &address]))?;
        }
    }
    let program = program(name);
    let job = ["-hosts", "h2,h3,h1", "-n", "3", &program];
    let said = ground
        .start(&[options, &job].concat())?
        .ends(Some(0), limit)?;
    shows(&said);
    wants(&said, &["rank 0 fin", "rank 1 fin", "rank 2 fin"])
}

fn link_gone(ground: &Ground, _: bool) -> Result {
    let talk = program("talk");
    let job = ground.start(&["-hosts", "h1,h2,h3", "-n", "3", &talk, "60"])?;
    std::thread::sleep(Duration::from_secs(2));
    ground.lab.plug(2, false)?;
    let since = Instant::now();
    let said = job.ends_badly(Duration::from_secs(15))?;
    println!("      over after {:.1?}", since.elapsed());
    wants(&said, &["host h2 is lost with rank 1"])?;
    ground.nothing_left(Duration::from_secs(15))
}

fn rank_stopped(ground: &Ground, soak: bool) -> Result {
    let talk = program("talk");
    let job = ground.start(&["-hosts", "h1,h2", "-n", "2", &talk, "6"])?;
    std::thread::sleep(Duration::from_secs(2));
    let ranks = ground.on_host(2, "talk")?;
    if ranks.is_empty() {
        return Err(format!("no rank to stop\n{}", tail(&job.said())));
    }
    signal("STOP", &ranks);
    std::thread::sleep(Duration::from_secs(if soak { 60 } else { 15 }));
    signal("CONT", &ranks);
    let said = job.ends(Some(0), PATIENCE)?;
    shows(&said);
    wants(&said, &["ok talk"])
}

/// Whoever finds a rank's port and says something else than a rank does no harm.
fn strangers(ground: &Ground, _: bool) -> Result {
    let script = format!(
        "for i in $(seq 100); do head -c $((i * 7)) /dev/urandom >/dev/tcp/{}/50000; done; echo done",
        netlab::v4(1)
    );
    let job = ground.start(&[
        "-genv",
        "YAMABIKO_PORT_RANGE",
        "50000:50000",
        "-hosts",
        "h1,h2",
        "-n",
        "2",
        &program("talk"),
        "5",
    ])?;
    std::thread::sleep(Duration::from_secs(1));
    let mut stranger = ground.lab.command(3, "bash");
    let said = stranger
        .args(["-c", &script])
        .stdin(Stdio::null())
        .stderr(Stdio::null());
    let said = process::output(said)?;
    wants(&said, &["done"])?;
    let said = job.ends(Some(0), PATIENCE)?;
    shows(&said);
    wants(&said, &["ok talk", "dropped a TCP connection from"])
}

/// Another's launcher, which speaks PMI-1 over its own connections.
fn hydra(ground: &Ground, _: bool) -> Result {
    let hydra = peers::mpich()?.join("bin/mpiexec.hydra");
    let library = build::prefix(false).join("lib");
    let reach = ground.reach().display().to_string();
    let mut command = ground.lab.command(1, &hydra);
    command
        .args(["-launcher", "ssh", "-launcher-exec", &reach])
        .args(["-iface", "eth0", "-hosts", "h1:2,h2:2", "-n", "4"])
        .args(["-genv", "LD_LIBRARY_PATH"])
        .arg(&library)
        .args([program("talk"), "2".to_owned()])
        .stdin(Stdio::null());
    let said = process::output(&mut command)?;
    wants(&said, &["ok talk"])
}

/// Prints what a test measured.
fn shows(said: &str) {
    let measured = |line: &&str| {
        line.starts_with("rounds ")
            || line.contains(" finalized after ")
            || line.contains(" ranks: start ")
    };
    for line in said.lines().filter(measured) {
        println!("      {line}");
    }
}
