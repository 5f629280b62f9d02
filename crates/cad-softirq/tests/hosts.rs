//! Two hosts, which are network namespaces with a cable between them: contributions and results go over the network.

mod world;

use cad_softirq::context::{Context, Peer, Way};
use cad_softirq::layout::{Op, Type};
use cad_softirq::rank::{Card, End, Member, Part};
use cad_softirq::tables::{Place, Tables};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::process::Command;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};
use world::{LIMIT, LOOPBACK, PORT, apart};

/// The cable's ends have this number on both hosts.
const CABLE: u32 = 7;
const ROUNDS: u64 = 200;
/// Processes of each host.
const PROCESSES: u64 = 2;

fn ip(arguments: &str) {
    let done = Command::new("ip")
        .args(arguments.split(' '))
        .output()
        .unwrap();
    assert!(done.status.success(), "ip {arguments}: {done:?}");
}

fn ticket(host: usize, process: u64) -> u64 {
    100 * host as u64 + process + 1
}

fn id(host: usize) -> u64 {
    500 + host as u64
}

/// A host, with its end of a channel to the other one.
struct Host {
    me: usize,
    /// Whether they speak IPv6.
    six: bool,
    to: Sender<u32>,
    from: Receiver<u32>,
}

impl Host {
    /// Tells the other a number, and is told one.
    fn meet(&self, number: u32) -> u32 {
        self.to.send(number).unwrap();
        self.from
            .recv_timeout(LIMIT)
            .expect("the other host is gone")
    }

    fn address(&self, host: usize) -> IpAddr {
        match self.six {
            false => Ipv4Addr::new(10, 77, 0, host as u8 + 1).into(),
            true => Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, host as u16 + 1).into(),
        }
    }

    fn link(host: usize) -> [u8; 6] {
        [2, 0, 0, 0, 0, host as u8 + 1]
    }

    /// Lays the cable from here to the other host, or takes its end.
    fn cable(&self) {
        let tid = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        let other = self.meet(tid);
        let name = ["here", "there"][self.me];
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

    fn open(&self, tables: &mut Tables) -> Place {
        let top = self.me == 0;
        let place = tables.reserve(PROCESSES as u32 + u32::from(top)).unwrap();
        let other = 1 - self.me;
        let peer = Peer {
            id: id(other),
            entry: self.meet(place.entry),
            input: PROCESSES as u32,
            way: Way {
                interface: CABLE,
                link: [self.me, other].map(Host::link),
                ip: [self.me, other].map(|host| self.address(host)),
                port: PORT,
            },
        };
        let context = Context {
            id: id(self.me),
            key: [0x1234, 0x5678],
            tickets: (0..PROCESSES).map(|p| ticket(self.me, p)).collect(),
            parent: (!top).then_some(peer),
            children: if top { vec![peer] } else { Vec::new() },
        };
        tables.open(place, &context).unwrap();
        self.meet(0);
        place
    }

    fn members(&self, tables: &Tables, place: Place) -> Vec<Member> {
        let member = |process| {
            let card = Card {
                port: PORT,
                entry: place.entry,
                id: id(self.me),
                input: process as u32,
                ticket: ticket(self.me, process),
            };
            Member::new(&card, tables.page(place).unwrap()).unwrap()
        };
        (0..PROCESSES).map(member).collect()
    }

    fn run(&self) {
        self.cable();
        let mut tables = Tables::new(PORT, 4, 64).unwrap();
        let _links = [LOOPBACK, CABLE].map(|i| tables.attach(i).unwrap());
        // Another entry than the other host's.
        if self.me == 1 {
            tables.reserve(5).unwrap();
        }
        let place = self.open(&mut tables);
        let mut members = self.members(&tables, place);
        for round in 1..=ROUNDS {
            for (process, member) in (0..).zip(&mut members) {
                let part = (round * ticket(self.me, process)) as f64;
                let part = part.to_le_bytes();
                member
                    .start(Part::Reduce(Op::Sum, Type::F64, &part))
                    .unwrap();
            }
            finish(&members);
            let mut sum = [0; 8];
            assert_eq!(members[0].result(&mut sum), Some(End::Done));
            assert_eq!(
                f64::from_le_bytes(sum),
                (round * (1 + 2 + 101 + 102)) as f64
            );
        }
        let counts = tables.counts(place).unwrap();
        assert!(counts.done == ROUNDS && counts.sent >= ROUNDS && counts.unsent == 0);
        self.meet(0);
        self.starts_from_elsewhere(&tables, place, &mut members);
        self.meet(0);
    }

    /// Host 1 says host 0's second process's start, with all that belongs to it.
    fn starts_from_elsewhere(&self, tables: &Tables, place: Place, members: &mut [Member]) {
        if self.me == 1 {
            let entry = self.meet(0);
            let socket = UdpSocket::bind((self.address(1), 0)).unwrap();
            let to = (self.address(0), PORT);
            let mut start = start(entry, ROUNDS + 1);
            socket.send_to(&start, to).unwrap();
            // After it one that is counted.
            start[4] = 2;
            socket.send_to(&start, to).unwrap();
            self.meet(0);
            members[0].start(Part::Nothing).unwrap();
            members[1].start(Part::Nothing).unwrap();
        } else {
            members[0].start(Part::Nothing).unwrap();
            self.meet(place.entry);
            let begin = Instant::now();
            while tables.counts(place).unwrap().forged == 0 {
                assert!(begin.elapsed() < LIMIT, "nothing came");
            }
            // It is not taken: what the process says itself is no repetition.
            let repeated = tables.counts(place).unwrap().repeated;
            members[1].start(Part::Nothing).unwrap();
            assert_eq!(tables.counts(place).unwrap().repeated, repeated);
            self.meet(0);
        }
        finish(members);
    }
}

/// A start of host 0's second process, for a barrier.
fn start(entry: u32, number: u64) -> Vec<u8> {
    let mut packet = vec![0; 48];
    packet[..4].copy_from_slice(b"ymb\x01");
    packet[4] = 1;
    packet[8..12].copy_from_slice(&entry.to_le_bytes());
    packet[12] = 1;
    packet[16..24].copy_from_slice(&id(0).to_le_bytes());
    packet[24..32].copy_from_slice(&number.to_le_bytes());
    packet[33] = Type::U8 as u8;
    packet[40..48].copy_from_slice(&ticket(0, 1).to_le_bytes());
    packet
}

/// Waits until it is over, saying the starts again.
fn finish(members: &[Member]) {
    let (begin, mut last) = (Instant::now(), Instant::now());
    while !members.iter().all(Member::is_over) {
        assert!(begin.elapsed() < LIMIT, "it does not end");
        if last.elapsed() > Duration::from_millis(2) {
            last = Instant::now();
            for member in members {
                member.again().unwrap();
            }
        }
    }
}

#[test]
fn hosts_combine_over_a_network() {
    combine(false);
}

#[test]
fn hosts_combine_over_ipv6() {
    combine(true);
}

fn combine(six: bool) {
    if Command::new("ip").arg("-V").output().is_err() {
        return world::skipped("there is no command ip");
    }
    let (to_1, from_0) = channel();
    let (to_0, from_1) = channel();
    let host = |me, to, from| Host { me, six, to, from };
    let hosts = [host(0, to_1, from_1), host(1, to_0, from_0)];
    std::thread::scope(|scope| {
        for host in hosts {
            let thread = std::thread::Builder::new().name(format!("host {}", host.me));
            let run = move || apart(move || host.run());
            thread.spawn_scoped(scope, run).unwrap();
        }
    });
}
