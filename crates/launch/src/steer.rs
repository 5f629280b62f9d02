//! Steering: what the network brings for a rank is received on the processor that the rank runs on, whichever takes the interrupt.
//! `yamabiko kaccd --steer` asks for it, `yamabiko info` shows it ([`shown`]).
//!
//! # What steers
//!
//! KACC's paper passes its tasklets from the interrupted processor to the rank's by an interrupt between processors. With the executor `ring` part of
//! that is so by itself: chains run as task work of the rank's own thread, wherever the data came in. What is left on the interrupted processor is the
//! receive path: IP, TCP, acknowledgements. *Receive flow steering* (RFS) moves that too: the kernel notes on which processor a connection was read or
//! written last, which for task work is the rank's, and hands its packets there by such an interrupt. It follows a rank that moves, knows each connection by
//! itself, and does the same for `thread`, for `inline` and for other programs' connections. It takes a table of flows of the
//! whole machine and one for each queue of an interface.
//!
//! `softirq` is steered by leaving it alone: a rank's packet goes through the loopback interface and is taken on the rank's own processor, unless somebody has set
//! RPS there. So for a loopback interface steering means no RPS. (RFS can't: nobody reads those packets. What comes from other hosts is
//! their common host's work, no rank's.)
//!
//! Not used: plain RPS, which deals connections out by a hash and knows no rank; and an XDP program with a `cpumap`, which would vanish with its
//! descriptor, but hands packets to a thread of the kernel's, one more switch of contexts for each burst, and takes TCP's segmentation off many interfaces.
//!
//! # What it brings
//!
//! Measured by `cargo xtask net-bench --kacc --steer`: a broadcast between two computing ranks, each on one of two processors, of which the root's
//! receives everything. Steering takes half of the packets from it (97 % to 50 %).
//!
//! * `softirq` on one host, RPS taken from its loopback interface, 8 bytes and 1 KiB: 12 and 16 % of the processors' time lost instead of 38 and 39,
//!   and 0.82 and 0.67 times the time.
//! * `ring` between hosts, 1 Gbit/s: the same time, which is the link's. Of 4 MiB the leaf's processor loses 10 % instead of none, the root's no less than before,
//!   both together 30 % instead of 21: with two processors, of which the interrupted one is also the sender's, the interrupts between them cost more than they spread.
//! * `ring` between hosts at full speed: 0.86 to 0.93 times the time at 256 KiB (0.78 to 0.83 in another run); the same at 64 KiB and less, noise at 1 MiB and more.
//!
//! So it is a switch, and off unless asked for: it is for hosts where the interrupted processor has more to do than its own rank's share.
//!
//! # What is changed, and how that ends
//!
//! Invariants: only interfaces that the command names are changed, and only those of its own network namespace, by a sysfs mounted for it alone
//! ([`kernel`]); larger tables than ours stay; one process at a time steers in a network namespace (`flock` on that).
//! Settings have no descriptor with which they would end. So before the first change a second process, the [`guard`], is told what was there; it
//! waits until the daemon is gone, however it ended, and puts that back, but not what somebody else has set since. Should the guard be killed alone, the daemon
//! makes another one. Where both are killed at the same moment (all of a control group), the settings stay until they are written or the machine starts again.
//!
//! The machine's table can only be reached from the first network namespace, where containers are not; there what can be done is done, and what lacks is said.

pub mod guard;
mod kernel;

use guard::Guard;
use kernel::Kernel;
use rustix::fs::{FlockOperation, flock};
use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};
use types::Tunable;

/// Entries of the table of flows, and of those of an interface's queues together.
const FLOWS: u32 = 32_768;

/// For `yamabiko info`.
pub(crate) const TUNABLES: [Tunable; 1] = [Tunable {
    name: "kaccd.flows",
    value: FLOWS as u64,
    unit: "flows",
    source: "that --steer knows apart, of the machine and of an interface: the kernel's scaling.rst for a server of this size",
}];

/// The table of the machine; `/proc` shows it in the first network namespace only.
const TABLE: &str = "proc/sys/net/core/rps_sock_flow_entries";

/// How long a guard of one before may take to put everything back.
const PREDECESSOR: Duration = Duration::from_secs(5);

/// A setting of the kernel's that is changed.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Change {
    path: String,
    old: String,
    new: String,
}

/// Changed settings, which go back to what they were when this is dropped, or its process ends.
pub(crate) struct Steering {
    guard: Guard,
    /// What could not be done, in words for a person.
    pub lacks: Vec<String>,
}

impl Steering {
    /// Steers what these interfaces receive.
    ///
    /// # Errors
    /// Why not, in words for a person; nothing is changed then.
    pub fn begin(interfaces: &[String]) -> Result<Steering, String> {
        let lock = lock()?;
        let kernel = Kernel::here().map_err(|e| refused("a sysfs of its own", &e))?;
        let (changes, lacks) = plan(&kernel, interfaces)?;
        let guard = Guard::start(lock, &changes).map_err(|e| format!("no guard: {e}"))?;
        for change in &changes {
            // An error drops the guard, which undoes what was done.
            let set = kernel.write(&change.path, &change.new);
            set.map_err(|e| refused(&change.path, &e))?;
        }
        Ok(Steering { guard, lacks })
    }

    /// Keeps it until this process ends.
    pub fn keep(self) {
        self.guard.keep();
    }
}

fn refused(what: &str, why: &io::Error) -> String {
    let forbidden = why.kind() == io::ErrorKind::PermissionDenied;
    let takes = match forbidden {
        true => " (it takes root, with CAP_SYS_ADMIN and CAP_NET_ADMIN)",
        false => "",
    };
    format!("the kernel refuses {what}: {why}{takes}")
}

/// That nobody else steers in this network namespace. It ends with the last process that has it.
fn lock() -> Result<File, String> {
    let namespace = File::open("/proc/thread-self/ns/net").map_err(|e| e.to_string())?;
    let begin = Instant::now();
    while let Err(why) = flock(&namespace, FlockOperation::NonBlockingLockExclusive) {
        if why != rustix::io::Errno::WOULDBLOCK || begin.elapsed() > PREDECESSOR {
            return Err("another kaccd steers in this network namespace".to_owned());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(namespace)
}

/// What has to be changed for these interfaces, and what lacks all the same.
fn plan(kernel: &Kernel, interfaces: &[String]) -> Result<(Vec<Change>, Vec<String>), String> {
    let (mut changes, mut lacks) = (Vec::new(), Vec::new());
    let mut to = |path: String, want: &dyn Fn(&str) -> String| {
        let old = kernel.read(&path).map_err(|e| refused(&path, &e))?;
        let new = want(&old);
        if !is_same(&old, &new) {
            changes.push(Change { path, old, new });
        }
        Ok::<_, String>(())
    };
    let mut reads = false;
    for interface in interfaces {
        let queues = kernel.queues(interface);
        let queues = queues.map_err(|e| format!("there is no interface {interface}: {e}"))?;
        if queues.is_empty() {
            return Err(format!("{interface} has no queues, or the kernel no RPS"));
        }
        let flows = (FLOWS / queues.len() as u32).next_power_of_two();
        for queue in &queues {
            match kernel.is_loopback(interface) {
                true => to(format!("{queue}/rps_cpus"), &|_| "0".to_owned())?,
                false => {
                    reads = true;
                    to(format!("{queue}/rps_flow_cnt"), &at_least(flows))?;
                }
            }
        }
    }
    match kernel.read(TABLE) {
        Ok(_) => to(TABLE.to_owned(), &at_least(FLOWS))?,
        // A loopback interface needs none.
        Err(_) if !reads => {}
        Err(_) => lacks.push(
            "the machine's table of flows can't be reached from this network namespace: packets stay where they are unless one is made in the \
             first one, by a kaccd with --steer there or by net.core.rps_sock_flow_entries"
                .to_owned(),
        ),
    }
    Ok((changes, lacks))
}

/// What is there, if it is as much.
fn at_least(flows: u32) -> impl Fn(&str) -> String {
    move |old| match old.parse::<u64>() {
        Ok(more) if more >= u64::from(flows) => old.to_owned(),
        _ => flows.to_string(),
    }
}

/// Whether two settings are the same number, or the same set of processors, as the kernel writes these.
fn is_same(a: &str, b: &str) -> bool {
    let plain = |text: &str| {
        let digits = text.trim().replace(',', "");
        digits.trim_start_matches('0').to_owned()
    };
    plain(a) == plain(b)
}

/// What steers in this network namespace now, whoever set it: lines for `yamabiko info`.
pub(crate) fn shown() -> Vec<(String, String)> {
    let table = match read(&Path::new("/").join(TABLE)) {
        None => "not to be seen in this network namespace".to_owned(),
        Some(none) if is_same(&none, "0") => {
            "none, so nothing is steered: yamabiko kaccd --steer INTERFACE makes one".to_owned()
        }
        Some(flows) => format!("{flows} flows"),
    };
    let mut lines = vec![("the machine's table".to_owned(), table)];
    let Ok(interfaces) = fs::read_dir("/sys/class/net") else {
        return lines;
    };
    let mut interfaces: Vec<_> = interfaces.flatten().collect();
    interfaces.sort_by_key(fs::DirEntry::file_name);
    for interface in interfaces.into_iter().take(SHOWN) {
        let name = interface.file_name().to_string_lossy().into_owned();
        let is_loopback = read(&interface.path().join("type")).as_deref() == Some(kernel::LOOPBACK);
        let queues = fs::read_dir(interface.path().join("queues"));
        let queues = queues.into_iter().flatten().flatten();
        let queues: Vec<_> = queues
            .filter(|q| q.file_name().to_string_lossy().starts_with("rx-"))
            .map(|queue| {
                ["rps_flow_cnt", "rps_cpus"].map(|file| {
                    let value = read(&queue.path().join(file));
                    value.filter(|value| !is_same(value, "0"))
                })
            })
            .collect();
        if !queues.is_empty() {
            lines.push((name, interface_shown(&queues, is_loopback)));
        }
    }
    lines
}

/// Interfaces that are shown at most.
const SHOWN: usize = 32;

/// What is done with the packets of an interface: flows and processors of each of its queues, if there are any.
fn interface_shown(queues: &[[Option<String>; 2]], is_loopback: bool) -> String {
    let steered = queues.iter().filter(|[flows, _]| flows.is_some()).count();
    let masks: Vec<_> = queues.iter().filter_map(|[_, cpus]| cpus.clone()).collect();
    let all = queues.len();
    match (is_loopback, steered, &masks[..]) {
        (true, _, []) => "received where they are sent".to_owned(),
        (false, 1.., _) => {
            format!("received where their readers run, on {steered} of {all} queues")
        }
        (false, 0, []) => "received where the interrupt comes".to_owned(),
        (_, _, [mask, ..]) => format!("dealt out by RPS, to the processors {mask}"),
    }
}

fn read(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_compared_as_the_kernel_writes_them() {
        assert!(is_same("0", "00000000,00000000\n"));
        assert!(is_same("00000000,00000003", "3"));
        assert!(is_same("32768\n", "32768"));
        assert!(!is_same("00000001,00000000", "1"));
        assert!(!is_same("0", "1"));
    }

    #[test]
    fn larger_tables_stay() {
        assert_eq!(at_least(1024)("0"), "1024");
        assert_eq!(at_least(1024)("4096"), "4096");
        assert_eq!(at_least(1024)("nonsense"), "1024");
    }

    #[test]
    fn interfaces_are_described() {
        let set = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let queue = |flows, cpus| [set(flows), set(cpus)];
        let of = |queues: &[[Option<String>; 2]], lo| interface_shown(queues, lo);
        assert!(of(&[queue("", "")], true).contains("where they are sent"));
        assert!(of(&[queue("", "1")], true).contains("processors 1"));
        assert!(of(&[queue("", "")], false).contains("the interrupt comes"));
        assert!(of(&[queue("", "3")], false).contains("processors 3"));
        let two = [queue("8", "1"), queue("", "1")];
        assert!(of(&two, false).ends_with("on 1 of 2 queues"));
    }

    #[test]
    fn this_machine_can_be_asked() {
        let lines = shown();
        assert_eq!(lines[0].0, "the machine's table");
        assert!(lines.len() <= SHOWN + 1);
    }
}
