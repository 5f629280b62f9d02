//! Two hosts, which are network namespaces with a cable between them.

use super::{LIMIT, apart, skipped};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::process::Command;
use std::sync::mpsc::{Receiver, Sender, channel};

/// The cable's ends have this number on both hosts.
pub const CABLE: u32 = 7;
/// What they are called.
pub const NAMES: [&str; 2] = ["here", "there"];

/// A host, with its end of a channel to the other one.
pub struct Host {
    pub me: usize,
    /// Whether they speak IPv6.
    pub six: bool,
    to: Sender<Vec<u8>>,
    from: Receiver<Vec<u8>>,
}

fn ip(arguments: &str) {
    let done = Command::new("ip")
        .args(arguments.split(' '))
        .output()
        .unwrap();
    assert!(done.status.success(), "ip {arguments}: {done:?}");
}

impl Host {
    /// Tells the other something, and is told something.
    pub fn tell(&self, what: &[u8]) -> Vec<u8> {
        self.to.send(what.to_vec()).unwrap();
        self.from
            .recv_timeout(LIMIT)
            .expect("the other host is gone")
    }

    /// Tells the other a number, and is told one.
    pub fn meet(&self, number: u32) -> u32 {
        u32::from_le_bytes(self.tell(&number.to_le_bytes()).try_into().unwrap())
    }

    /// A host's address on the cable.
    pub fn address(&self, host: usize) -> IpAddr {
        match self.six {
            false => Ipv4Addr::new(10, 77, 0, host as u8 + 1).into(),
            true => Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, host as u16 + 1).into(),
        }
    }

    pub fn link(host: usize) -> [u8; 6] {
        [2, 0, 0, 0, 0, host as u8 + 1]
    }

    /// Lays the cable from here to the other host, or takes its end.
    fn cable(&self) {
        let tid = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        let other = self.meet(tid);
        let name = NAMES[self.me];
        if self.me == 0 {
            let there = format!("/proc/{}/task/{other}/ns/net", std::process::id());
            let [a, b] = [0, 1].map(|host| format!("02:00:00:00:00:0{}", host + 1));
            ip(&format!(
                "link add here index {CABLE} address {a} type veth \
                 peer name there index {CABLE} address {b} netns {there}"
            ));
        }
        self.meet(0);
        let (prefix, more) = if self.six { (64, " nodad") } else { (24, "") };
        let address = self.address(self.me);
        ip(&format!("addr add {address}/{prefix} dev {name}{more}"));
        ip(&format!("link set {name} up"));
        self.meet(0);
    }
}

/// Two hosts do this, beside each other.
pub fn beside(six: bool, run: impl Fn(&Host) + Sync) {
    if Command::new("ip").arg("-V").output().is_err() {
        return skipped("there is no command ip");
    }
    let (to_1, from_0) = channel();
    let (to_0, from_1) = channel();
    let host = |me, to, from| Host { me, six, to, from };
    let hosts = [host(0, to_1, from_1), host(1, to_0, from_0)];
    std::thread::scope(|scope| {
        for host in hosts {
            let thread = std::thread::Builder::new().name(format!("host {}", host.me));
            let both = || {
                let run = &run;
                move || {
                    apart(move || {
                        host.cable();
                        run(&host);
                        host.meet(0);
                    });
                }
            };
            thread.spawn_scoped(scope, both()).unwrap();
        }
    });
}
