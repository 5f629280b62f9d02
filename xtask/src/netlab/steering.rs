//! An imbalance in a [`Lab`], and the switch against it: all that the hosts' interfaces bring is received on one processor, as where a
//! network's interrupts come to it, until `yamabiko kaccd --steer` on each host has it received where its readers run.
//!
//! Links of a lab have no interrupts; RPS with a single processor stands in for them: what has been sent is handed to that processor by
//! an interrupt between processors. Every host has a kaccd all the time, so that the two states differ in nothing but steering. The machine's table of flows
//! is beyond the reach of a namespace, so a further kaccd makes it, in that of this process.

use super::Lab;
use crate::{Result, build, process};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where the first namespace's kaccd takes packets, which are none.
const PORT: u16 = 7131;

/// The switch, for as long as this lives; then there is no kaccd left.
pub struct Steering {
    switch: PathBuf,
}

impl Steering {
    /// Makes the imbalance, on `processor`, and starts what does not steer yet.
    pub fn new(lab: &Lab, processor: u32) -> Result<Steering> {
        // Words of 32 bits each, as the kernel wants them.
        let mask = format!(
            "{:x}{}",
            1_u32 << (processor % 32),
            ",00000000".repeat(processor as usize / 32)
        );
        let to =
            format!("for q in /sys/class/net/*/queues/rx-*; do echo {mask} > $q/rps_cpus; done");
        for host in 1..=lab.hosts {
            process::run(lab.command(host, "sh").args(["-c", &to]))?;
        }
        let switch = lab.folder.join("steering");
        super::write(
            &switch,
            &script(lab, &build::prefix(false).join("bin/yamabiko")),
        )?;
        process::run(Command::new("chmod").arg("+x").arg(&switch))?;
        let steering = Steering { switch };
        steering.turn("off")?;
        Ok(steering)
    }

    /// The command that is called with `on` or `off`.
    pub fn switch(&self) -> &Path {
        &self.switch
    }

    fn turn(&self, to: &str) -> Result {
        process::run(Command::new(&self.switch).arg(to))
    }
}

impl Drop for Steering {
    fn drop(&mut self) {
        if let Err(why) = self.turn("end") {
            eprintln!("{why}");
        }
    }
}

/// The processor that this process may run on first.
pub fn first_processor() -> u32 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let list = status
        .lines()
        .find_map(|l| l.strip_prefix("Cpus_allowed_list:"));
    let first = list.and_then(|list| list.trim().split([',', '-']).next());
    first.and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// Ends all kaccds, waits until what they had changed is back, and starts new ones.
fn script(lab: &Lab, yamabiko: &Path) -> String {
    let (folder, enter) = (lab.folder.display(), lab.launcher());
    let (enter, yamabiko) = (enter.display(), yamabiko.display());
    let hosts: Vec<_> = (1..=lab.hosts).map(|host| format!("h{host}")).collect();
    let (hosts, prefix, first) = (hosts.join(" "), &lab.prefix, std::process::id());
    format!(
        "#!/bin/sh\n# Ends the hosts' kaccds and starts others, which steer if $1 is `on`; none if it is `end`. Made by the test.\n\
         cd '{folder}' || exit\n\
         flows() {{ ip netns exec \"{prefix}$1\" cat /sys/class/net/eth0/queues/rx-0/rps_flow_cnt; }}\n\
         listens() {{ ip netns exec \"{prefix}$1\" grep -q ' 00010000 .*@yamabiko-kaccd$' /proc/net/unix; }}\n\
         # Until a command of these words succeeds, or for some seconds.\n\
         until_so() {{ n=0; until \"$@\"; do n=$((n + 1)); [ $n -lt 100 ] || return 1; sleep 0.05; done; }}\n\
         steers() {{ [ \"$(flows \"$1\")\" -gt 0 ]; }}\n\
         rests() {{ [ \"$(flows \"$1\")\" -eq 0 ] && ! listens \"$1\"; }}\n\
         # A process that nobody has asked after is gone as well.\n\
         gone() {{ ! grep -q '^State:.[^Z]' \"/proc/$1/status\" 2>/dev/null; }}\n\
         daemon() {{ setsid \"$@\" </dev/null >/dev/null 2>>log & echo $! >>kaccds; }}\n\
         for pid in $(cat kaccds 2>/dev/null); do kill \"$pid\" 2>/dev/null; until_so gone \"$pid\"; done\n\
         rm -f kaccds; : >log\n\
         for host in {hosts}; do until_so rests $host || {{ echo \"$host is still steered\" >&2; exit 1; }}; done\n\
         case $1 in end) exit;; on) what='--steer eth0,lo';; *) what=;; esac\n\
         [ -z \"$what\" ] || daemon nsenter --net=/proc/{first}/ns/net '{yamabiko}' kaccd --name \"{prefix}first\" --port {PORT} --steer lo\n\
         for host in {hosts}; do daemon '{enter}' $host '{yamabiko}' kaccd $what; done\n\
         # They end with the process that made the lab.\n\
         daemon sh -c 'while kill -s 0 {first} 2>/dev/null; do sleep 1; done; kill \"$@\"' sh $(cat kaccds)\n\
         for host in {hosts}; do\n\
         [ -z \"$what\" ] || until_so steers $host || {{ cat log >&2; exit 1; }}\n\
         # Where the kernel refuses it its program, it only steers.\n\
         until_so listens $host || grep -q 'the kernel refuses' log || {{ cat log >&2; exit 1; }}\n\
         done\n"
    )
}
