//! A `yamabiko kaccd` of a test's own, and whether its program looks at packets.

use crate::netlab::Lab;
use crate::{Result, build, process};
use std::fs::{self, File};
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long it may take to listen, and its program to be gone.
const LIMIT: Duration = Duration::from_secs(20);
/// Ports from here on, so many for each process that runs tests: below those that the system gives away.
const PORTS: u16 = 21000;
const EACH: u16 = 16;
/// Where a packet's header says how many bytes of data it has.
const WHAT_BYTES: usize = 34;

/// Where one is that is of a site.
pub struct Member<'a> {
    pub lab: &'a Lab,
    pub host: u32,
    /// The file with the site's key.
    pub key: &'a Path,
}

/// One that runs until this is dropped.
pub struct Kaccd {
    child: Child,
    name: String,
    port: u16,
}

impl Kaccd {
    /// Starts one; `None` where the kernel refuses it what it needs, which is said.
    pub fn start(what: &str) -> Result<Option<Kaccd>> {
        Kaccd::start_at(what, None)
    }

    /// The same on a host of a lab, for collectives with other hosts' of its site too. Those of the same name are one job's.
    pub fn start_on(what: &str, member: &Member<'_>) -> Result<Option<Kaccd>> {
        Kaccd::start_at(what, Some(member))
    }

    fn start_at(what: &str, member: Option<&Member<'_>>) -> Result<Option<Kaccd>> {
        let (name, port) = own_name(what);
        Kaccd::named(name, port, member)
    }

    /// One on each host of a lab, of one site, by the usual name; none where the kernel refuses what they need.
    pub fn usual(lab: &Lab, hosts: u32) -> Result<Vec<Kaccd>> {
        let key = &site_key(lab, 1)?;
        let one = |host| {
            let member = Member { lab, host, key };
            Kaccd::named("yamabiko-kaccd".to_owned(), 7117, Some(&member))
        };
        let all: Result<Option<_>> = (1..=hosts).map(one).collect();
        all.map(Option::unwrap_or_default)
    }

    /// Starts one, and does not wait for it.
    pub fn begin(what: &str) -> Result<Kaccd> {
        let (name, port) = own_name(what);
        Kaccd::spawn(name, port, None).map(|(kaccd, _)| kaccd)
    }

    /// One that has just begun, and what it says.
    fn spawn(name: String, port: u16, member: Option<&Member<'_>>) -> Result<(Kaccd, PathBuf)> {
        let folder = build::target().join("test/execs");
        build::make_folder(&folder)?;
        let host = member.map_or(0, |member| member.host);
        let log = folder.join(format!("{name}-{host}.log"));
        let file = File::create(&log).map_err(|e| format!("{}: {e}", log.display()))?;
        let program = build::prefix(false).join("bin/yamabiko");
        let mut command = match member {
            Some(member) => member.lab.command(member.host, program),
            None => Command::new(program),
        };
        command.args(["kaccd", "--name", &name, "--port", &port.to_string()]);
        if let Some(member) = member {
            command.args(["--interface", "eth0", "--site-key"]);
            command.arg(member.key);
        }
        command.stdin(Stdio::null()).stderr(file);
        let child = command.spawn().map_err(|e| format!("kaccd: {e}"))?;
        Ok((Kaccd { child, name, port }, log))
    }

    fn named(name: String, port: u16, member: Option<&Member<'_>>) -> Result<Option<Kaccd>> {
        let (mut kaccd, log) = Kaccd::spawn(name, port, member)?;
        let begin = Instant::now();
        while !kaccd.listens() {
            if kaccd.has_ended() {
                let said = fs::read_to_string(&log).unwrap_or_default();
                if said.contains("the kernel refuses ") {
                    println!("      without softirq: {}", said.trim());
                    return Ok(None);
                }
                return Err(format!("kaccd ended: {said}"));
            }
            if begin.elapsed() > LIMIT {
                return Err("kaccd does not listen".to_owned());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = fs::remove_file(&log);
        Ok(Some(kaccd))
    }

    /// Whether it accepts connections, on its host.
    fn listens(&self) -> bool {
        const ACCEPTS: &str = "00010000";
        let name = format!("@{}", self.name);
        let sockets = format!("/proc/{}/net/unix", self.child.id());
        let sockets = fs::read_to_string(sockets).unwrap_or_default();
        sockets.lines().any(|line| {
            let words: Vec<_> = line.split_whitespace().collect();
            words.get(3) == Some(&ACCEPTS) && words.get(7) == Some(&name.as_str())
        })
    }

    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().is_ok_and(|end| end.is_some())
    }

    /// Its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn holds_its_port(&self) -> Result {
        is_held(self.port)
    }

    pub fn kill(&mut self) {
        process::kill(&[self.child.id()]);
        let _ = self.child.wait();
    }
}

impl Drop for Kaccd {
    fn drop(&mut self) {
        if !self.has_ended() {
            self.kill();
        }
    }
}

/// A name that only this run of tests has, and a port that only this one has of those of the run.
fn own_name(what: &str) -> (String, u16) {
    static NAMES: Mutex<Vec<String>> = Mutex::new(Vec::new());
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    let known = names.iter().position(|name| name == what);
    let place = known.unwrap_or_else(|| {
        names.push(what.to_owned());
        names.len() - 1
    });
    let number = std::process::id();
    let port = PORTS + (number % 500) as u16 * EACH + place as u16 % EACH;
    (format!("kaccd-of-test-{what}-{number}"), port)
}

/// The file with the key of such a site, for all hosts of a lab.
pub fn site_key(lab: &Lab, site: u8) -> Result<PathBuf> {
    use std::os::unix::fs::PermissionsExt;
    let path = lab.folder().join(format!("site-{site}"));
    let all = |e: std::io::Error| format!("{}: {e}", path.display());
    fs::write(&path, [site; 32]).map_err(all)?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).map_err(all)?;
    Ok(path)
}

/// A packet to this port that is ours by its first words, and has less data than it says: a program of ours drops it, whatever contexts it has.
fn send_short(port: u16) -> std::io::Result<()> {
    let mut packet = [0; 48];
    packet[..4].copy_from_slice(b"ymb\x01");
    packet[WHAT_BYTES] = 8;
    let from = UdpSocket::bind(("127.0.0.1", 0))?;
    from.send_to(&packet, ("127.0.0.1", port)).map(drop)
}

/// That a kaccd has this port, and a program takes packets of ours to it before the kaccd could have them.
fn is_held(port: u16) -> Result {
    let all = |e: std::io::Error| format!("port {port}: {e}");
    send_short(port).map_err(all)?;
    std::thread::sleep(Duration::from_millis(100));
    let sockets = fs::read_to_string("/proc/net/udp").map_err(all)?;
    let place = format!(":{port:04X}");
    let mut sockets = sockets.lines().map(str::split_whitespace);
    let socket = sockets.find_map(|mut words| {
        words.nth(1).filter(|at| at.ends_with(&place))?;
        words.nth(2)
    });
    match socket.and_then(|queues| queues.split_once(':')) {
        Some((_, waiting)) if waiting.bytes().all(|digit| digit == b'0') => Ok(()),
        Some(_) => Err(format!(
            "there is no program that takes packets to port {port}"
        )),
        None => Err(format!("nobody has port {port}")),
    }
}

/// That nobody has this port, and no program takes packets of ours to it.
pub fn is_free(port: u16) -> Result {
    let all = |e: std::io::Error| format!("port {port}: {e}");
    let to = UdpSocket::bind(("127.0.0.1", port)).map_err(all)?;
    to.set_read_timeout(Some(Duration::from_millis(200)))
        .map_err(all)?;
    let begin = Instant::now();
    loop {
        send_short(port).map_err(all)?;
        if to.recv(&mut [0; 48]).is_ok() {
            return Ok(());
        }
        // The kernel takes a program away a little after its last descriptor.
        if begin.elapsed() > LIMIT {
            return Err(format!(
                "there is still a program that takes packets to port {port}"
            ));
        }
    }
}
