//! A network for tests: hosts made of network namespaces on a switch, all on this machine.
//!
//! Needs root, `ip` and `tc` (Debian: iproute2) and `unshare`. Every host has an IPv4 and an IPv6
//! address, a hostname, an `/etc/hosts` that knows all others, and a `/dev/shm` and System V IPC of its
//! own, as another machine would. A [`Lab`] is removed when it is dropped, also by a panic; what a
//! killed process left is removed by the next one.

pub mod steering;

use crate::test::apt;
use crate::{Result, process};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Why there can be no lab here, if so. Installs what it takes where we may.
pub fn unavailable() -> Option<String> {
    let tools = [
        ("ip", "iproute2"),
        ("tc", "iproute2"),
        ("unshare", "util-linux"),
        ("nsenter", "util-linux"),
    ];
    if let Err(why) = apt::need(&tools) {
        return Some(why);
    }
    let trial = format!("{}trial", prefix());
    let made = quietly(Command::new("ip").args(["netns", "add", &trial]));
    let entered = made && quietly(Command::new("ip").args(["-n", &trial, "link"]));
    let _ = quietly(Command::new("ip").args(["netns", "del", &trial]));
    match (made, entered) {
        (true, true) => None,
        (false, _) => Some("network namespaces need root".into()),
        // In a plain chroot the root is no mount, and what `ip` does to enter a namespace is refused.
        (true, false) => Some("network namespaces can't be entered here".into()),
    }
}

/// A running network.
pub struct Lab {
    prefix: String,
    hosts: u32,
    folder: PathBuf,
}

impl Lab {
    /// Makes hosts `h1`, `h2`, ... on one switch, with links as fast as the machine.
    pub fn build(hosts: u32) -> Result<Lab> {
        remove_stale();
        let prefix = prefix();
        let folder = crate::build::target().join("test").join(&prefix);
        std::fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        let lab = Lab {
            prefix,
            hosts,
            folder,
        };
        lab.switch()?;
        for host in 1..=hosts {
            lab.host(host)?;
        }
        lab.files()?;
        Ok(lab)
    }

    fn switch(&self) -> Result {
        let switch = self.namespace("sw");
        ip(&["netns", "add", &switch])?;
        // Without IPv6 of its own, and without the time a spanning tree would take.
        ip(&[
            "-n",
            &switch,
            "link",
            "add",
            "br0",
            "type",
            "bridge",
            "forward_delay",
            "0",
        ])?;
        ip(&["-n", &switch, "link", "set", "br0", "up"])
    }

    fn host(&self, host: u32) -> Result {
        let (name, switch) = (self.namespace(&format!("h{host}")), self.namespace("sw"));
        let port = format!("p{host}");
        ip(&["netns", "add", &name])?;
        ip(&["-n", &name, "link", "set", "lo", "up"])?;
        let pair = [
            "link", "add", &port, "type", "veth", "peer", "name", "eth0", "netns", &name,
        ];
        ip(&[&["-n", &switch], &pair[..]].concat())?;
        ip(&["-n", &switch, "link", "set", &port, "master", "br0", "up"])?;
        let (v4, v6) = (format!("{}/24", v4(host)), format!("{}/64", v6(host)));
        ip(&["-n", &name, "addr", "add", &v4, "dev", "eth0"])?;
        // No waiting for others who might have the address.
        ip(&["-n", &name, "addr", "add", &v6, "dev", "eth0", "nodad"])?;
        ip(&["-n", &name, "link", "set", "eth0", "up"])
    }

    /// The hosts' `/etc/hosts`, and the scripts that run a command on a host.
    fn files(&self) -> Result {
        let mut known = "127.0.0.1 localhost\n::1 localhost\n".to_owned();
        for host in 1..=self.hosts {
            known += &format!("{} h{host}\n{} h{host}\n", v4(host), v6(host));
        }
        let hosts = self.folder.join("hosts");
        let enter = format!(
            "#!/bin/sh\n# Runs a command on host $1. Made by the test.\nhost=$1\nshift\n\
             exec ip netns exec \"{}$host\" unshare -u -i -m sh -c '\n\
             hostname \"$0\"; mount -t tmpfs tmpfs /dev/shm; mount --bind {} /etc/hosts; exec \"$@\"' \"$host\" \"$@\"\n",
            self.prefix,
            hosts.display(),
        );
        write(&hosts, &known)?;
        let shell = format!(
            "#!/bin/sh\n# Gives the words behind host $1 to a shell there, as ssh does. Made by the test.\n\
             while [ \"${{1#-}}\" != \"$1\" ]; do shift; done\nhost=$1\nshift\n\
             exec '{}' \"$host\" sh -c \"$*\"\n",
            self.launcher().display(),
        );
        write(&self.launcher(), &enter)?;
        write(&self.shell(), &shell)?;
        let scripts = [self.launcher(), self.shell()];
        process::run(Command::new("chmod").arg("+x").args(scripts))
    }

    /// A command that is called with a host's name and a command for it: `-launcher-exec`.
    pub fn launcher(&self) -> PathBuf {
        self.folder.join("enter")
    }

    /// The same as ssh would do it: options in front are left out, and a shell reads the command.
    pub fn shell(&self) -> PathBuf {
        self.folder.join("shell")
    }

    /// A folder for the files of a test, removed with the lab.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// A command to be run on a host.
    pub fn command(&self, host: u32, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new(self.launcher());
        command.arg(format!("h{host}")).arg(program.as_ref());
        command
    }

    /// Plugs a host's cable in or out.
    pub fn plug(&self, host: u32, plugged: bool) -> Result {
        let state = if plugged { "up" } else { "down" };
        ip(&[
            "-n",
            &self.namespace("sw"),
            "link",
            "set",
            &format!("p{host}"),
            state,
        ])
    }

    /// Has the switch drop all packets of UDP that a host sends, or not any more.
    pub fn drop_udp(&self, host: u32, dropped: bool) -> Result {
        let (switch, port) = (self.namespace("sw"), format!("p{host}"));
        let tc = |what: [&str; 2], rest: &[&str]| {
            let mut tc = Command::new("tc");
            tc.args(["-n", &switch])
                .args(what)
                .args(["dev", &port])
                .args(rest);
            process::run(&mut tc)
        };
        if !dropped {
            return tc(["qdisc", "del"], &["root"]);
        }
        // A queue without room: actions that drop need a module of the kernel's that not every machine has.
        tc(["qdisc", "add"], &["root", "handle", "1:", "htb"])?;
        let class = [
            "parent", "1:", "classid", "1:3", "htb", "rate", "100mbit", "quantum", "1500",
        ];
        tc(["class", "add"], &class)?;
        let full = ["parent", "1:3", "handle", "30:", "pfifo", "limit", "0"];
        tc(["qdisc", "add"], &full)?;
        let chosen = ["u32", "match", "ip", "protocol", "17", "0xff"];
        let to = ["flowid", "1:3"];
        let filter = [&["parent", "1:", "protocol", "ip"], &chosen[..], &to].concat();
        tc(["filter", "add"], &filter)
    }

    /// Sets the largest packet of all links.
    pub fn mtu(&self, bytes: u32) -> Result {
        for host in 1..=self.hosts {
            let (name, bytes) = (self.namespace(&format!("h{host}")), bytes.to_string());
            ip(&["-n", &name, "link", "set", "eth0", "mtu", &bytes])?;
            let (switch, port) = (self.namespace("sw"), format!("p{host}"));
            ip(&["-n", &switch, "link", "set", &port, "mtu", &bytes])?;
        }
        Ok(())
    }

    /// Limits a host's link to `mbit` Mbit/s in each direction.
    pub fn limit(&self, host: u32, mbit: u32) -> Result {
        let ends = [
            (self.namespace(&format!("h{host}")), "eth0".to_owned()),
            (self.namespace("sw"), format!("p{host}")),
        ];
        let (rate, burst) = match mbit {
            // A fast limit is exact only with small segments and room for two of them.
            1000.. => (format!("{mbit}mbit"), "32000"),
            _ => (format!("{mbit}mbit"), "3200"),
        };
        for (namespace, device) in &ends {
            let size = if mbit >= 1000 { "16000" } else { "1600" };
            ip(&["-n", namespace, "link", "set", device, "gso_max_size", size])?;
            let mut tc = Command::new("tc");
            tc.args([
                "-n", namespace, "qdisc", "replace", "dev", device, "root", "tbf",
            ]);
            process::run(tc.args(["rate", &rate, "burst", burst, "latency", "50ms"]))?;
        }
        Ok(())
    }

    /// Limits what a host sends to `mbit` Mbit/s, in the way that takes least of the hosts' processors: for measurements of what is left to
    /// programs that compute meanwhile, on two hosts. A timer of a virtual machine takes 18 us of a processor. So there is one for each segment and direction, where
    /// [`limit`](Lab::limit) has up to three: this host's alone, no switch's; none of TCP's own, which the BBR of some systems has for each segment; and
    /// segments are as long as those that a host gives to a network card.
    pub fn limit_lightly(&self, host: u32, mbit: u32) -> Result {
        const SEGMENT: &str = "65536";
        // Room for one segment, and for 50 us by which the timer is late.
        const BURST: &str = "72000";
        let name = self.namespace(&format!("h{host}"));
        let device = ["dev", "eth0"];
        let link = [
            &["-n", &name, "link", "set"],
            &device[..],
            &["gso_max_size", SEGMENT],
        ];
        ip(&link.concat())?;
        let rate = format!("{mbit}mbit");
        let mut tc = Command::new("tc");
        tc.args(["-n", &name, "qdisc", "replace"]).args(device);
        tc.args([
            "root", "tbf", "rate", &rate, "burst", BURST, "latency", "50ms",
        ]);
        process::run(&mut tc)?;
        let control = "echo reno > /proc/sys/net/ipv4/tcp_congestion_control";
        ip(&["netns", "exec", &name, "sh", "-c", control])
    }

    fn namespace(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        remove(&self.prefix);
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// A host's IPv4 address.
pub fn v4(host: u32) -> String {
    format!("10.77.{}.{}", host / 256, host % 256)
}

/// A host's IPv6 address.
pub fn v6(host: u32) -> String {
    format!("fd77::{host:x}")
}

/// What the names of this process's namespaces begin with.
fn prefix() -> String {
    format!("ybk{}-", std::process::id())
}

/// Removes what processes that are gone have left.
fn remove_stale() {
    for prefix in existing() {
        let pid = prefix.trim_start_matches("ybk").trim_end_matches('-');
        if !Path::new("/proc").join(pid).exists() {
            remove(&prefix);
        }
    }
}

/// The prefixes of all labs.
fn existing() -> std::collections::BTreeSet<String> {
    let list = process::output(Command::new("ip").args(["netns", "list"])).unwrap_or_default();
    let names = list
        .lines()
        .filter_map(|line| line.split_whitespace().next());
    let prefixes = names.filter_map(|name| {
        let (prefix, _) = name.strip_prefix("ybk")?.split_once('-')?;
        prefix.parse::<u32>().ok()?;
        Some(format!("ybk{prefix}-"))
    });
    prefixes.collect()
}

fn remove(prefix: &str) {
    let list = process::output(Command::new("ip").args(["netns", "list"])).unwrap_or_default();
    let names = list
        .lines()
        .filter_map(|line| line.split_whitespace().next());
    for name in names.filter(|name| name.starts_with(prefix)) {
        let _ = quietly(Command::new("ip").args(["netns", "del", name]));
    }
}

fn ip(args: &[&str]) -> Result {
    process::run(Command::new("ip").args(args))
}

fn quietly(command: &mut Command) -> bool {
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

fn write(path: &Path, text: &str) -> Result {
    std::fs::write(path, text).map_err(|e| format!("{}: {e}", path.display()))
}
