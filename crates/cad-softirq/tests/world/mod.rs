//! Communicators in the kernel, in a network namespace of their own: hosts are contexts on one loopback interface.

// Each test program uses a part of it.
#![allow(dead_code)]

pub mod cable;

use cad_softirq::asm::{Alu, Asm, Cond, Helper, Kind, Reg};
use cad_softirq::context::{Context, Peer, Way};
use cad_softirq::flat::Flat;
use cad_softirq::kernel::{Link, Prog, Sort};
use cad_softirq::layout::{Op, Type};
use cad_softirq::rank::{Card, End, Member, Part};
use cad_softirq::tables::{Place, Tables};
use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long anything may take.
pub const LIMIT: Duration = Duration::from_secs(60);
pub const PORT: u16 = 7117;
pub const LOOPBACK: u32 = 1;

/// Numbers that look random.
pub fn noise(seed: &mut u64) -> u64 {
    *seed = seed
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    (*seed ^ *seed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) ^ *seed >> 32
}

/// Says why a test is not run, also where the output of tests that pass is not shown.
pub fn skipped(why: &str) {
    let name = std::thread::current().name().unwrap_or("a test").to_owned();
    // In one piece, as others write too.
    let line = format!("skipped: {name}: {why}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
}

/// Runs `body` in a network namespace of its own, if that and the program are possible here.
pub fn apart(body: impl FnOnce() + Send) {
    let name = std::thread::current().name().unwrap_or("").to_owned();
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name(name);
        let run = || match namespace().and_then(|()| cad_softirq::usable()) {
            Ok(()) => body(),
            Err(why) => {
                // Only what a machine may lack is a reason.
                let known = ["privilege", "CAP_BPF", "tcx", "not implemented"];
                assert!(known.iter().any(|k| why.contains(k)), "{why}");
                skipped(&why);
            }
        };
        let thread = thread.spawn_scoped(scope, run).unwrap();
        if let Err(panic) = thread.join() {
            std::panic::resume_unwind(panic);
        }
    });
}

/// A network namespace for this thread and those that it makes, with a loopback interface.
fn namespace() -> Result<(), String> {
    let flags = rustix::thread::UnshareFlags::NEWNET;
    // SAFETY: no descriptors are unshared.
    let made = unsafe { rustix::thread::unshare_unsafe(flags) };
    made.map_err(|e| format!("no privilege for a network namespace: {e}"))?;
    let socket = std::net::UdpSocket::bind("0.0.0.0:0").map_err(|e| e.to_string())?;
    // SAFETY: all zeros is a value of this structure.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    request.ifr_name[..2].copy_from_slice(&[b'l' as _, b'o' as _]);
    request.ifr_ifru.ifru_flags = libc::IFF_UP as _;
    let fd = std::os::fd::AsRawFd::as_raw_fd(&socket);
    // SAFETY: the request is of the type that this call takes.
    match unsafe { libc::ioctl(fd, libc::SIOCSIFFLAGS, &raw const request) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error().to_string()),
    }
}

/// What loses one packet of 64 at the loopback interface, which is more than 1 %, and repeats another one.
pub fn lossy() -> Link {
    lossy_at(LOOPBACK)
}

/// The same at another interface.
pub fn lossy_at(interface: u32) -> Link {
    let (mut asm, [pass, drop]) = (Asm::new(), [0, 1]);
    let main = asm.declare("main", Kind::Main);
    let labels = [pass, drop].map(|_| asm.label());
    asm.begin(main);
    asm.mov(Reg::R6, Reg::R1);
    asm.call(Helper::Random);
    asm.alu(Alu::And, Reg::R0, 63);
    asm.jump_if(Cond::Eq, Reg::R0, 0, labels[drop]);
    asm.jump_if(Cond::Ne, Reg::R0, 1, labels[pass]);
    asm.mov(Reg::R1, Reg::R6);
    asm.mov(Reg::R2, interface as i32);
    // What comes in through another one is to come in again.
    asm.mov(Reg::R3, i32::from(interface != LOOPBACK));
    asm.call(Helper::CloneRedirect);
    asm.bind(labels[pass]);
    asm.give(-1);
    asm.bind(labels[drop]);
    asm.give(2);
    let prog = Prog::load(Sort::Packets, &asm.finish(), &[]).unwrap();
    prog.attach(interface, true).unwrap()
}

/// A communicator.
pub struct World {
    pub tables: Tables,
    pub places: Vec<Place>,
    pub contexts: Vec<Context>,
    /// The ranks, those of the first host first.
    pub ranks: Vec<Member>,
    _link: Link,
}

impl World {
    /// Hosts with so many processes each, in a tree where each has `below` below it.
    pub fn new(processes: &[usize], below: usize) -> World {
        let mut tables = Tables::new(PORT, 16, 256).unwrap_or_else(|e| panic!("{e}"));
        let link = tables.attach(LOOPBACK).unwrap();
        let size = processes.len();
        let children = |host: usize| {
            let all = below * host + 1..=below * host + below;
            all.filter(|&c| c < size)
        };
        let places: Vec<_> = (0..size)
            .map(|h| {
                let inputs = processes[h] + children(h).count();
                tables.reserve(inputs as u32).unwrap()
            })
            .collect();
        let peer = |host: usize, input: usize| Peer {
            id: 1000 + host as u64,
            entry: places[host].entry,
            input: input as u32,
            way: Way::loopback(PORT),
        };
        let context = |host: usize| {
            let up = host.checked_sub(1).map(|h| h / below);
            Context {
                id: 1000 + host as u64,
                key: [0x1234, 0x5678],
                tickets: (0..processes[host] as u64).map(|p| p * 77 + 1).collect(),
                parent: up.map(|up| peer(up, processes[up] + host - 1 - below * up)),
                children: children(host).map(|c| peer(c, 0)).collect(),
            }
        };
        let contexts: Vec<_> = (0..size).map(context).collect();
        let mut ranks = Vec::new();
        for (place, context) in places.iter().zip(&contexts) {
            tables
                .open(*place, context)
                .unwrap_or_else(|e| panic!("{e}"));
            for (input, &ticket) in context.tickets.iter().enumerate() {
                let card = Card {
                    port: PORT,
                    entry: place.entry,
                    id: context.id,
                    input: input as u32,
                    ticket,
                };
                ranks.push(Member::new(&card, tables.page(*place).unwrap()).unwrap());
            }
        }
        World {
            tables,
            places,
            contexts,
            ranks,
            _link: link,
        }
    }

    /// All ranks do a collective; what each has in the end. `again` is after how long they say it again.
    pub fn collective(
        &mut self,
        parts: &[Part],
        bytes: usize,
        again: Duration,
    ) -> Vec<(End, Vec<u8>)> {
        for (rank, part) in self.ranks.iter_mut().zip(parts) {
            rank.start(*part).unwrap();
        }
        let (begin, mut last) = (Instant::now(), Instant::now());
        while !self.ranks.iter().all(Member::is_over) {
            assert!(begin.elapsed() < LIMIT, "it does not end");
            if last.elapsed() > again {
                last = Instant::now();
                for rank in self.ranks.iter().filter(|r| !r.is_over()) {
                    rank.again().unwrap();
                }
            }
        }
        let result = |rank: &Member| {
            let mut data = vec![0; bytes];
            (rank.result(&mut data).unwrap(), data)
        };
        self.ranks.iter().map(result).collect()
    }

    /// A reduction of one vector for each rank, which has to give the same everywhere.
    pub fn reduce(&mut self, op: Op, ty: Type, parts: &[Vec<u8>]) -> Vec<u8> {
        let told: Vec<_> = parts.iter().map(|p| Part::Reduce(op, ty, p)).collect();
        let bytes = parts[0].len();
        let results = self.collective(&told, bytes, Duration::from_millis(2));
        for (end, data) in &results {
            assert_eq!((*end, data), (End::Done, &results[0].1));
        }
        results[0].1.clone()
    }

    /// The same with byte code, which is put where that is known to be needed.
    pub fn fold(&mut self, flat: &Arc<Flat>, parts: &[Vec<u8>]) -> Vec<(End, Vec<u8>)> {
        for rank in &mut self.ranks {
            let (tables, places) = (&self.tables, &self.places);
            let at = |entry| places.iter().find(|place| place.entry == entry).unwrap();
            rank.hold(flat, |card, slot| {
                tables.put(*at(card.entry), slot, flat).is_ok()
            });
        }
        let told: Vec<_> = parts.iter().map(|p| Part::Fold(flat, p)).collect();
        self.collective(&told, parts[0].len(), Duration::from_millis(2))
    }
}
