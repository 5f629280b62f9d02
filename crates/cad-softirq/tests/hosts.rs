//! Two hosts, which are network namespaces with a cable between them: contributions and results go over the network.

mod world;

use cad_softirq::context::{Context, Peer, Way};
use cad_softirq::layout::{Op, Type};
use cad_softirq::rank::{Card, End, Member, Part};
use cad_softirq::tables::{Place, Tables};
use std::net::UdpSocket;
use std::time::{Duration, Instant};
use world::cable::{self, CABLE, Host};
use world::{LIMIT, LOOPBACK, PORT};

const ROUNDS: u64 = 200;
/// Processes of each host.
const PROCESSES: u64 = 2;

fn ticket(host: usize, process: u64) -> u64 {
    100 * host as u64 + process + 1
}

fn id(host: usize) -> u64 {
    500 + host as u64
}

/// What a host does.
struct Test<'a>(&'a Host);

impl std::ops::Deref for Test<'_> {
    type Target = Host;

    fn deref(&self) -> &Host {
        self.0
    }
}

impl Test<'_> {
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
    cable::beside(false, |host| Test(host).run());
}

#[test]
fn hosts_combine_over_ipv6() {
    cable::beside(true, |host| Test(host).run());
}
