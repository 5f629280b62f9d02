//! A `yamabiko kaccd` of a test's own, and whether its program looks at packets.

use crate::{Result, build, process};
use std::fs::{self, File};
use std::net::UdpSocket;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long it may take to listen, and its program to be gone.
const LIMIT: Duration = Duration::from_secs(20);
/// Ports from here on, by the number of this process.
const PORTS: u16 = 21000;

/// One that runs until this is dropped.
pub struct Kaccd {
    child: Child,
    name: String,
    port: u16,
}

impl Kaccd {
    /// Starts one; `None` where the kernel refuses it what it needs, which is said.
    pub fn start(what: &str) -> Result<Option<Kaccd>> {
        let number = std::process::id();
        let name = format!("kaccd-of-test-{what}-{number}");
        let port = PORTS + (number % 4000) as u16 * 2 + what.len() as u16 % 2;
        let folder = build::target().join("test/execs");
        build::make_folder(&folder)?;
        let log = folder.join(format!("{name}.log"));
        let file = File::create(&log).map_err(|e| format!("{}: {e}", log.display()))?;
        let mut command = Command::new(build::prefix(false).join("bin/yamabiko"));
        command.args(["kaccd", "--name", &name, "--port", &port.to_string()]);
        command.stdin(Stdio::null()).stderr(file);
        let child = command.spawn().map_err(|e| format!("kaccd: {e}"))?;
        let mut kaccd = Kaccd { child, name, port };
        let begin = Instant::now();
        while !kaccd.listens() {
            if kaccd.child.try_wait().is_ok_and(|end| end.is_some()) {
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

    /// Whether it accepts connections.
    fn listens(&self) -> bool {
        const ACCEPTS: &str = "00010000";
        let name = format!("@{}", self.name);
        let sockets = fs::read_to_string("/proc/net/unix").unwrap_or_default();
        sockets.lines().any(|line| {
            let words: Vec<_> = line.split_whitespace().collect();
            words.get(3) == Some(&ACCEPTS) && words.get(7) == Some(&name.as_str())
        })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn holds_its_port(&self, wanted: bool) -> Result {
        holds(self.port, wanted)
    }

    pub fn kill(&mut self) {
        process::kill(&[self.child.id()]);
        let _ = self.child.wait();
    }
}

impl Drop for Kaccd {
    fn drop(&mut self) {
        if self.child.try_wait().is_ok_and(|end| end.is_none()) {
            self.kill();
        }
    }
}

/// Whether a program takes packets of ours to this port: then nobody else gets them.
pub fn holds(port: u16, wanted: bool) -> Result {
    let all = |e: std::io::Error| format!("port {port}: {e}");
    let (to, from) = (
        UdpSocket::bind(("127.0.0.1", port)).map_err(all)?,
        UdpSocket::bind(("127.0.0.1", 0)).map_err(all)?,
    );
    to.set_read_timeout(Some(Duration::from_millis(200)))
        .map_err(all)?;
    let begin = Instant::now();
    loop {
        // Ours by its first words, of no context.
        let mut packet = [0; 48];
        packet[..4].copy_from_slice(b"ymb\x01");
        from.send_to(&packet, ("127.0.0.1", port)).map_err(all)?;
        let came = to.recv(&mut packet).is_ok();
        if came != wanted {
            return Ok(());
        }
        // The kernel takes a program away a little after its last descriptor.
        if wanted || begin.elapsed() > LIMIT {
            let is = if wanted { "no" } else { "still a" };
            return Err(format!(
                "there is {is} program that takes packets to port {port}"
            ));
        }
    }
}
