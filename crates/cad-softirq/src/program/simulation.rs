//! The program on simulated hosts: the same instructions, interpreted, and a network that loses and repeats packets.

use super::program;
use crate::asm::Code;
use crate::context::{Context, Peer, Way};
use crate::flat::Flat;
use crate::interpreter::Machine;
use crate::layout::{
    self, Kind, Op, SLOTS, Type, code, context, header, input, machine, map, result, scratch, what,
    what_of_code,
};
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr};

pub(super) const PORT: u16 = 7117;
/// Bytes of all headers of a packet of IPv4.
const HEADERS: usize = (scratch::DATA - scratch::ETHERNET) as usize;
/// Interfaces of simulated hosts: this and the host's number.
const INTERFACES: u32 = 10;
/// Where the entries of all hosts are, none of them the first.
const ENTRY: u32 = 2;
const BASE: u32 = 1;

/// Numbers that look random.
pub(super) fn noise(seed: &mut u64) -> u64 {
    *seed = seed
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    (*seed ^ *seed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) ^ *seed >> 32
}

/// A host.
pub(super) struct Host {
    pub machine: Machine,
    pub context: Context,
    page: usize,
}

/// A communicator on several hosts.
pub(super) struct World {
    pub code: Code,
    pub hosts: Vec<Host>,
    /// Of so many packets each, one is lost, another one is sent twice; 0 for none.
    pub lossy: u64,
    pub seed: u64,
    /// Processes that were sent a packet because they wait: on which host, at which port.
    pub woken: Vec<(usize, u16)>,
    /// Packets under way: to which host, at which interface.
    flying: VecDeque<(usize, u32, Vec<u8>)>,
    number: u64,
}

const MAPS: [usize; 6] = [0, 1, 2, 3, 4, 5];

impl World {
    /// Hosts with so many processes each, in a tree where each has `below` below it, which speak IPv4.
    pub fn new(processes: &[usize], below: usize) -> World {
        World::over(IpAddr::V4(Ipv4Addr::LOCALHOST), processes, below)
    }

    /// The same, where this is each host's address.
    pub fn over(ip: IpAddr, processes: &[usize], below: usize) -> World {
        let size = processes.len();
        let peer = |host: usize, input: usize| Peer {
            id: 1000 + host as u64,
            entry: ENTRY,
            input: input as u32,
            way: Way {
                interface: INTERFACES + host as u32,
                link: [[2; 6], [4; 6]],
                ip: [ip; 2],
                ..Way::loopback(PORT)
            },
        };
        let hosts = (0..size).map(|host| {
            let children: Vec<_> = (below * host + 1..=below * host + below)
                .filter(|&c| c < size)
                .collect();
            let up = host.checked_sub(1).map(|h| h / below);
            let context = Context {
                id: 1000 + host as u64,
                key: [0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908],
                tickets: (0..processes[host] as u64)
                    .map(|p| p * 77 + host as u64)
                    .collect(),
                parent: up.map(|up| peer(up, processes[up] + host - 1 - below * up)),
                children: children.iter().map(|&c| peer(c, 0)).collect(),
            };
            Host::new(context)
        });
        World {
            code: program(PORT),
            hosts: hosts.collect(),
            lossy: 0,
            seed: 1,
            woken: Vec::new(),
            flying: VecDeque::new(),
            number: 0,
        }
    }

    /// A host looks at a packet; what it gives. What it sends flies.
    pub fn receive(&mut self, host: usize, interface: u32, packet: &[u8]) -> u64 {
        let at = &mut self.hosts[host];
        let given = at.machine.run(&self.code, &MAPS, interface, packet);
        let sent = std::mem::take(&mut at.machine.sent);
        for (interface, packet) in sent {
            if interface == super::LOOPBACK as u32 {
                assert_eq!(packet[..12], [0; 12], "the link there has no addresses");
                let six = packet[12..14] == [0x86, 0xdd];
                let begin = if six {
                    scratch::ETHERNET_6
                } else {
                    scratch::ETHERNET
                };
                let port = (scratch::UDP + 2 - begin) as usize;
                let port = u16::from_be_bytes([packet[port], packet[port + 1]]);
                self.woken.push((host, port));
                continue;
            }
            let to = (interface - INTERFACES) as usize;
            let copies = match self.lossy {
                0 => 1,
                n => match noise(&mut self.seed) % n {
                    0 => 0,
                    1 => 2,
                    _ => 1,
                },
            };
            for _ in 0..copies {
                self.flying.push_back((to, interface, packet.clone()));
            }
        }
        given
    }

    /// Lets all packets arrive that fly, in any order.
    pub fn settle(&mut self) {
        while !self.flying.is_empty() {
            let any = noise(&mut self.seed) as usize % self.flying.len();
            let Some((to, interface, packet)) = self.flying.swap_remove_back(any) else {
                return;
            };
            assert_eq!(self.receive(to, interface, &packet), super::DROP as u64);
        }
    }

    /// What flies.
    pub fn flying(&mut self) -> Vec<Vec<u8>> {
        self.flying.drain(..).map(|f| f.2).collect()
    }

    /// Does the next collective; the contributions are those of host 0's processes, then host 1's and so on. All have to agree on
    /// the result, which this gives, with whether it is one.
    pub fn collective(&mut self, op: Op, ty: Type, parts: &[Option<Vec<u8>>]) -> (u64, Vec<u8>) {
        let bytes = parts.iter().flatten().next().map_or(0, Vec::len);
        self.run(what(op, ty, bytes), parts)
    }

    /// The same by byte code, which is in this slot.
    pub fn fold(&mut self, flat: &Flat, slot: u32, parts: &[Vec<u8>]) -> (u64, Vec<u8>) {
        let some: Vec<_> = parts.iter().cloned().map(Some).collect();
        self.run(what_of_code(slot, flat.mark(), parts[0].len()), &some)
    }

    /// Puts byte code into a slot of a host; behind those of the context come another's.
    pub fn put(&mut self, host: usize, slot: u32, entry: &[u8]) {
        let machine = &mut self.hosts[host].machine;
        let to = machine.entry(map::CODES, ENTRY * SLOTS + slot);
        to.copy_from_slice(entry);
    }

    /// Does what all processes want.
    fn run(&mut self, what: u64, parts: &[Option<Vec<u8>>]) -> (u64, Vec<u8>) {
        let bytes = (what >> 16) as usize & 0xffff;
        self.number += 1;
        let mut starts = Vec::new();
        let mut all = parts.iter();
        for host in 0..self.hosts.len() {
            for process in 0..self.hosts[host].context.tickets.len() {
                let part = all.next().unwrap();
                let packet = self.start(host, process, what, part.as_deref());
                starts.push((host, packet));
            }
        }
        // Any order; who is not over says it again.
        for i in (1..starts.len()).rev() {
            starts.swap(i, noise(&mut self.seed) as usize % (i + 1));
        }
        for round in 0.. {
            assert!(round < 1000, "it does not end");
            for (host, packet) in &starts {
                if self.hosts[*host].number() < self.number {
                    let given = self.receive(*host, super::LOOPBACK as u32, packet);
                    assert_eq!(given, super::DROP as u64);
                }
                if noise(&mut self.seed) & 1 == 0 {
                    self.settle();
                }
            }
            self.settle();
            if self.hosts.iter_mut().all(|h| h.number() == self.number) {
                break;
            }
            assert!(self.lossy > 0, "without loss once is enough");
        }
        let results: Vec<_> = self.hosts.iter_mut().map(|h| h.result(bytes)).collect();
        assert!(results.iter().all(|r| *r == results[0]), "{results:x?}");
        results[0].clone()
    }

    /// A process's packet.
    pub fn start(&self, host: usize, process: usize, what: u64, data: Option<&[u8]>) -> Vec<u8> {
        let context = &self.hosts[host].context;
        let bytes = (what >> 16) as usize & 0xffff;
        let mut packet = envelope(bytes.next_multiple_of(8));
        let ours = packet.len() - header::BYTES as usize - bytes.next_multiple_of(8);
        let mut put = |at: i16, bytes: &[u8]| {
            let at = ours + at as usize;
            packet[at..at + bytes.len()].copy_from_slice(bytes);
        };
        put(header::KIND, &[Kind::Start as u8]);
        put(header::HAVE, &[u8::from(data.is_some())]);
        put(header::ENTRY, &ENTRY.to_le_bytes());
        put(header::INPUT, &(process as u32).to_le_bytes());
        put(header::ID, &context.id.to_le_bytes());
        put(header::NUMBER, &self.number.to_le_bytes());
        put(header::WHAT, &what.to_le_bytes());
        let ticket = context.tickets.get(process).copied().unwrap_or(0);
        put(header::TAG, &ticket.to_le_bytes());
        put(header::BYTES, data.unwrap_or(&[]));
        packet
    }

    /// The packet of a process that waits at this port.
    pub fn wait(&self, host: usize, process: usize, port: u16) -> Vec<u8> {
        let mut packet = self.start(host, process, 0, None);
        let at = (scratch::UDP - scratch::ETHERNET) as usize;
        packet[at..at + 2].copy_from_slice(&port.to_be_bytes());
        packet[(ours_in_packet() + header::KIND) as usize] = Kind::Wait as u8;
        packet
    }

    /// The number of the collective that `start` is about.
    pub fn at(&mut self, number: u64) {
        self.number = number;
    }
}

/// Where our header begins in a packet.
fn ours_in_packet() -> i16 {
    scratch::OURS - scratch::ETHERNET
}

/// A packet to our port with our magic number, and so many zeros.
pub(super) fn envelope(data: usize) -> Vec<u8> {
    let mut packet = vec![0; HEADERS + data];
    let bytes = |packet: &mut Vec<u8>, at: i16, bytes: &[u8]| {
        let at = (at - scratch::ETHERNET) as usize;
        packet[at..at + bytes.len()].copy_from_slice(bytes);
    };
    bytes(&mut packet, scratch::IP - 2, &[8, 0, 0x45]);
    bytes(&mut packet, scratch::IP + 9, &[17]);
    bytes(&mut packet, scratch::UDP + 2, &PORT.to_be_bytes());
    bytes(&mut packet, scratch::OURS, &header::MAGIC.to_le_bytes());
    packet
}

impl Host {
    fn new(context: Context) -> Host {
        let mut simulated = Machine::new();
        // After its own comes another context's.
        let entries = ENTRY + 2;
        let inputs = BASE + context.inputs() as u32;
        let maps = [
            simulated.map(context::BYTES, entries),
            simulated.map(input::BYTES, inputs),
            simulated.map_of_maps(entries),
            simulated.map(scratch::BYTES, 1),
            simulated.map(code::BYTES, entries * SLOTS),
            simulated.map(machine::BYTES, 1),
        ];
        let wanted = [map::CONTEXTS, map::INPUTS, map::RESULTS, map::SCRATCH];
        assert_eq!(maps[..4], wanted);
        assert_eq!(maps[4..], [map::CODES, map::MACHINE]);
        let page = simulated.map(result::BYTES, 1);
        simulated.set_map(map::RESULTS, ENTRY, page);
        let entry = context.entry(BASE);
        simulated
            .entry(map::CONTEXTS, ENTRY)
            .copy_from_slice(&entry);
        for number in 0..context.inputs() {
            let bytes = context.input(number);
            let at = BASE + number as u32;
            simulated.entry(map::INPUTS, at).copy_from_slice(&bytes);
        }
        Host {
            machine: simulated,
            context,
            page,
        }
    }

    fn word(&mut self, at: i16) -> u64 {
        let page = self.machine.entry(self.page, 0);
        u64::from_le_bytes(page[at as usize..][..8].try_into().unwrap())
    }

    /// Whose result is there.
    pub fn number(&mut self) -> u64 {
        self.word(result::NUMBER)
    }

    /// What the result is of, and so many bytes of it.
    pub fn result(&mut self, bytes: usize) -> (u64, Vec<u8>) {
        let what = self.word(layout::WHAT);
        let page = self.machine.entry(self.page, 0);
        (what, page[layout::DATA as usize..][..bytes].to_vec())
    }

    /// A word of the context.
    pub fn state(&mut self, at: i16) -> u64 {
        let entry = self.machine.entry(map::CONTEXTS, ENTRY);
        u64::from_le_bytes(entry[at as usize..][..8].try_into().unwrap())
    }
}
