//! The fabric against raw sockets: 8-byte and 1 MiB ping-pong between two processes, in turns.
//!
//! `pingpong [INTERFACE [NAMESPACE NAMESPACE]]`: on loopback, or over what the interface (name, address or network) is
//! in each of two network namespaces. `slots` is the first fabric again, with a slot in place of messages. The raw ends look for data as the fabric's reactors do (`raw-epoll` asks epoll
//! first) or just try to read (`raw-spin`); nobody sleeps.

#[path = "../tests/common/mod.rs"]
mod common;

use std::io::{Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use common::{Net, Rank, exchange, launch};
use mtmi::slot::{Delivery, Landed, Slot, SlotTable, Slots, wait_until};
use mtmi::{Cookie, Endpoint, Matched, SendMode, Source, Submit, TagSel, Transport};
use rustix::event::epoll;
use rustix::thread::LinkNameSpaceType;
use tcp::{ReactorKind, Tcp};

/// Sizes with the number of rounds per turn.
const SIZES: [(usize, usize); 3] = [(8, 2000), (64 << 10, 300), (1 << 20, 60)];
const TURNS: usize = 7;

fn main() {
    let args: Vec<&'static str> = std::env::args().skip(1).map(|a| &*a.leak()).collect();
    println!("one way, median of {TURNS} turns (and the least), microseconds:");
    launch("pingpong", 2, |me, map| {
        // One processor each, or raw ends that never yield may share one.
        let mut cpus = rustix::thread::CpuSet::new();
        cpus.set(me as usize);
        let _ = rustix::thread::sched_setaffinity(None, &cpus);
        if let Some(name) = args.get(1 + me as usize) {
            let file = std::fs::File::open(format!("/run/netns/{name}")).unwrap();
            let kind = Some(LinkNameSpaceType::Network);
            rustix::thread::move_into_link_name_space(file.as_fd(), kind).unwrap();
        }
        let reactors = [ReactorKind::Epoll, ReactorKind::IoUring];
        let mut fabrics = reactors.map(|reactor| {
            let net = Net {
                interface: args.first().copied(),
                reactor,
            };
            let listening = Tcp::listen(net.config()).unwrap();
            let place = 1 + reactor as usize * 2;
            let addresses = exchange(map, place, (me, 2), &listening.address());
            let tcp = listening.join(Endpoint(me), 2, &addresses, common::SECRET);
            // Nobody publishes anew before all have read.
            common::meet(map, place + 1, 2);
            let mut rank = Rank::new(Matched::new(tcp), me, 2);
            rank.t.open_slots(1, 1).unwrap();
            rank.barrier();
            rank
        });
        let remote = fabrics[0].t.fabric().remote(Endpoint(1 - me)).unwrap();
        let mut raw = connect(me, map, remote.ip());
        for (len, rounds) in SIZES {
            let mut times: Vec<Vec<f64>> = vec![Vec::new(); 3 + fabrics.len()];
            for _ in 0..TURNS {
                for (i, t) in times.iter_mut().enumerate() {
                    let took = match i {
                        0 => raw_turn(&mut raw, me, len, rounds, false),
                        1 => raw_turn(&mut raw, me, len, rounds, true),
                        4 => slot_turn(&mut fabrics[0], me, len, rounds),
                        _ => fabric_turn(&mut fabrics[i - 2], me, len, rounds),
                    };
                    t.push(took.as_secs_f64() * 1e6 / (2 * rounds) as f64);
                }
            }
            if me == 0 {
                let names = ["raw-spin", "raw-epoll", "epoll", "io_uring", "slots"];
                for (name, t) in names.iter().zip(&mut times) {
                    t.sort_by(f64::total_cmp);
                    println!(
                        "{len:>8} B  {name:<10} {:>8.2}  ({:.2})",
                        t[TURNS / 2],
                        t[0]
                    );
                }
            }
        }
        for fabric in fabrics {
            fabric.finish();
        }
    });
}

fn fabric_turn(rank: &mut Rank, me: u32, len: usize, rounds: usize) -> Duration {
    let mut buffer = vec![1; len];
    let other = 1 - me;
    rank.barrier();
    let data = common::data(&mut buffer);
    let (tag, from) = (TagSel::Exact(1), Source::From(Endpoint(other)));
    let mut done = Vec::new();
    let start = Instant::now();
    for _ in 0..rounds {
        for turn in 0..2 {
            let (t, data) = (&mut rank.t, data.clone());
            let submit = if turn == me {
                let mode = SendMode::Standard;
                t.isend(Endpoint(other), common::WORLD, 1, mode, data, Cookie(0))
            } else {
                t.irecv(from, common::WORLD, tag, data, Cookie(0))
            };
            while submit == Submit::Pending && done.is_empty() {
                if !t.progress(&mut done) {
                    t.wait(None);
                }
            }
            done.clear();
        }
    }
    start.elapsed()
}

/// The same with a slot: the next receive is posted before the send.
fn slot_turn(rank: &mut Rank, me: u32, len: usize, rounds: usize) -> Duration {
    let mut memory = [vec![1; len], vec![0; len]];
    let [out, back] = memory.each_mut().map(|m| common::data(m));
    let slot = Slot {
        table: SlotTable(0),
        peer: Endpoint(1 - me),
        index: 0,
    };
    rank.barrier();
    let t = &mut rank.t;
    let look = |t: &mut Matched<Tcp>, over: &mut dyn FnMut(&mut Matched<Tcp>) -> bool| {
        while !over(t) {
            if !t.advance() {
                wait_until(t, &mut *over, None);
            }
        }
    };
    let start = Instant::now();
    for _ in 0..rounds {
        t.post(slot, &back).unwrap();
        for turn in 0..2 {
            if turn == me {
                look(t, &mut |t| t.offered(slot).is_some());
                let begun = t.deliver(slot, &out, 0).unwrap();
                look(t, &mut |t| {
                    begun != Delivery::Pending || t.delivered(slot) != Delivery::Pending
                });
            } else {
                look(t, &mut |t| t.has_landed(slot));
                let landed = t.landed(slot);
                assert!(matches!(landed, Landed::Done { .. }));
            }
        }
    }
    start.elapsed()
}

struct Raw {
    stream: TcpStream,
    epoll: rustix::fd::OwnedFd,
}

fn connect(me: u32, map: &sys::memfd::Mapping, other: IpAddr) -> Raw {
    let stream = if me == 0 {
        let listener = TcpListener::bind("[::]:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        map.write(64, &port.to_ne_bytes());
        common::meet(map, 20, 2);
        listener.accept().unwrap().0
    } else {
        common::meet(map, 20, 2);
        let mut port = [0; 2];
        map.read(64, &mut port);
        TcpStream::connect((other, u16::from_ne_bytes(port))).unwrap()
    };
    stream.set_nodelay(true).unwrap();
    stream.set_nonblocking(true).unwrap();
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
    let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
    epoll::add(&epoll, &stream, epoll::EventData::new_u64(0), flags).unwrap();
    Raw { stream, epoll }
}

fn raw_turn(raw: &mut Raw, me: u32, len: usize, rounds: usize, ask: bool) -> Duration {
    let mut buffer = vec![1; len];
    // Both are here.
    for turn in 0..2 {
        raw_move(raw, turn == me, &mut buffer[..1], false);
    }
    let start = Instant::now();
    for _ in 0..rounds {
        for turn in 0..2 {
            raw_move(raw, turn == me, &mut buffer, ask);
        }
    }
    start.elapsed()
}

fn raw_move(raw: &mut Raw, send: bool, buffer: &mut [u8], ask: bool) {
    let (mut done, mut told) = (0, !ask || send);
    while done < buffer.len() {
        if !told {
            let mut events = [epoll::Event {
                flags: epoll::EventFlags::empty(),
                data: epoll::EventData::new_u64(0),
            }];
            let now = rustix::event::Timespec::default();
            if epoll::wait(&raw.epoll, &mut events[..], Some(&now)) == Ok(0) {
                continue;
            }
            told = true;
        }
        let moved = match send {
            true => raw.stream.write(&buffer[done..]),
            false => raw.stream.read(&mut buffer[done..]),
        };
        match moved {
            Ok(0) => panic!("the other end is gone"),
            Ok(n) => done += n,
            Err(e) => {
                assert_eq!(e.kind(), std::io::ErrorKind::WouldBlock);
                told = !ask || send;
            }
        }
    }
}
