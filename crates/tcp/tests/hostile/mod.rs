//! Strangers at the door.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use mtmi::{Endpoint, Matched, SendMode, Source, TagSel, Transport};
use tcp::{Config, Tcp};

use crate::common::{
    Net, Random, Rank, SECRET, WORLD, check, data, exchange, filled, join, launch, meet,
};

pub fn all(net: &Net) {
    flood(net);
    few_descriptors(net);
    nothing_is_inherited(net);
}

/// The port in a published address.
fn port(address: &str) -> u16 {
    u16::from_str_radix(&address[2..6], 16).unwrap()
}

/// Bytes of memory that this process holds.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|l| l.starts_with("VmRSS:")).unwrap();
    let kib = line.split_whitespace().nth(1).unwrap();
    kib.parse::<u64>().unwrap() * 1024
}

const RANKS: u32 = 4;
/// Hostile connections, all told.
const HOSTILE: usize = 500;

/// 500 hostile connections come while a job connects: it connects, finishes, and its memory does not grow.
fn flood(net: &Net) {
    // One more process is not of the job. It has an address, which rank 0 calls, so that it can record what a
    // true rank says.
    launch("a flood of strangers", RANKS + 1, |me, map| {
        let listening = Tcp::listen(net.config()).unwrap();
        let mut mine = listening.address();
        let local = net.interface.map_or("127.0.0.1", |_| "::1");
        let own = TcpListener::bind((local, 0)).unwrap();
        if me == RANKS {
            mine.replace_range(2..6, &format!("{:04x}", own.local_addr().unwrap().port()));
        }
        let addresses = exchange(map, 0, (me, RANKS + 1), &mine);
        if me == RANKS {
            let ports = addresses[..RANKS as usize].iter().flatten();
            let ports: Vec<u16> = ports.map(|a| port(a)).collect();
            attack(map, local, &own, &ports);
            return;
        }
        let tcp = listening.join(Endpoint(me), RANKS + 1, &addresses, SECRET);
        let mut rank = Rank::new(Matched::new(tcp), me, RANKS);
        let before = resident();
        if me == 0 {
            rank.t.connect(Endpoint(RANKS));
        }
        // The attacker has connected; from here on it begins anew what is closed.
        rank.meet(map, 1, RANKS + 1);
        let start = Instant::now();
        rank.barrier();
        all_to_all(&mut rank);
        let took = start.elapsed();
        while start.elapsed() < Duration::from_millis(700) {
            rank.poll();
        }
        all_to_all(&mut rank);
        let grown = resident().saturating_sub(before);
        if me == 0 {
            println!("among strangers: connected in {took:?}, {grown} bytes more");
        }
        assert!(took < Duration::from_secs(10), "connecting took {took:?}");
        assert!(grown < 16 << 20, "memory grew by {grown}");
        rank.barrier();
        assert!(rank.t.fabric().strangers() > 10, "they were noticed");
        rank.meet(map, 2, RANKS + 1);
        rank.finish();
    });
}

fn all_to_all(rank: &mut Rank) {
    let (me, ranks) = (rank.me, rank.ranks);
    for len in [8, 5000, 400_000] {
        let seed = |from: u32, to: u32| u64::from(from * 100 + to) << 32 | len as u64;
        let others: Vec<u32> = (0..ranks).filter(|&r| r != me).collect();
        let mut out: Vec<_> = others.iter().map(|&r| filled(seed(me, r), len)).collect();
        let mut back: Vec<_> = others.iter().map(|_| vec![0; len]).collect();
        let mut all = Vec::new();
        for (i, &r) in others.iter().enumerate() {
            let from = Source::From(Endpoint(r));
            all.push(rank.irecv(from, WORLD, TagSel::Any, data(&mut back[i])));
            all.push(rank.isend(r, WORLD, 1, SendMode::Standard, data(&mut out[i])));
        }
        for c in all {
            rank.wait(c);
        }
        for (i, &r) in others.iter().enumerate() {
            check(seed(r, me), &back[i]);
        }
    }
}

/// Connects 500 times in all the ways that do no good, and goes on with it until the job is done.
fn attack(map: &sys::memfd::Mapping, local: &str, own: &TcpListener, ports: &[u16]) {
    let recorded = record(local, own, ports[0]);
    let mut r = Random(7);
    let mut open = Vec::new();
    let begin = |r: &mut Random, i: usize| -> Option<TcpStream> {
        let stream = TcpStream::connect((local, ports[i % ports.len()])).ok()?;
        stream.set_nonblocking(true).ok()?;
        let bytes = match i / ports.len() % 5 {
            // Half-open: says nothing.
            0 => Vec::new(),
            // What a true rank once said.
            1 => recorded.clone(),
            // Part of it.
            2 => recorded[..r.below(120) as usize].to_vec(),
            // Frames without a handshake, with huge lengths.
            3 => [1, 0, 0, 0, 255, 255, 255, 127].repeat(2000),
            _ => (0..r.below(5000)).map(|_| r.next() as u8).collect(),
        };
        let _ = (&stream).write(&bytes);
        Some(stream)
    };
    for i in 0..HOSTILE {
        open.push(begin(&mut r, i));
    }
    meet(map, 1, RANKS + 1);
    let end = Instant::now() + Duration::from_millis(1000);
    while Instant::now() < end {
        for (i, slot) in open.iter_mut().enumerate() {
            let over = match slot {
                Some(stream) => !matches!(stream.read(&mut [0; 200]), Ok(1..) | Err(_)),
                None => true,
            };
            if over {
                *slot = begin(&mut r, i);
            }
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    meet(map, 2, RANKS + 1);
}

/// Lets a rank that calls us talk to another one, and keeps what it said.
fn record(local: &str, own: &TcpListener, other: u16) -> Vec<u8> {
    let (mut caller, _) = own.accept().unwrap();
    let mut callee = TcpStream::connect((local, other)).unwrap();
    let late = Some(Duration::from_secs(20));
    caller.set_read_timeout(late).unwrap();
    callee.set_read_timeout(late).unwrap();
    let mut said = vec![0; 120];
    let mut answer = [0; 80];
    caller.read_exact(&mut said[..80]).unwrap();
    callee.write_all(&said[..80]).unwrap();
    callee.read_exact(&mut answer).unwrap();
    caller.write_all(&answer).unwrap();
    caller.read_exact(&mut said[80..]).unwrap();
    // To be let in as somebody else: the proof names whom it is for.
    callee.write_all(&said[80..]).unwrap();
    said
}

/// Strangers use up what descriptors there are; a rank that calls gets one.
fn few_descriptors(net: &Net) {
    launch("few descriptors", 3, |me, map| {
        use rustix::process::{Resource, Rlimit, setrlimit};
        if me == 0 {
            let few = Rlimit {
                current: Some(40),
                maximum: Some(40),
            };
            setrlimit(Resource::Nofile, few).unwrap();
        }
        let listening = Tcp::listen(net.config()).unwrap();
        let addresses = exchange(map, 0, (me, 3), &listening.address());
        if me == 2 {
            let local = if net.interface.is_some() {
                "::1"
            } else {
                "127.0.0.1"
            };
            let to = port(addresses[0].as_ref().unwrap());
            let open: Vec<_> = (0..100).map(|_| TcpStream::connect((local, to))).collect();
            meet(map, 1, 3);
            meet(map, 2, 3);
            drop(open);
            return;
        }
        let tcp = listening.join(Endpoint(me), 3, &addresses, SECRET);
        let mut rank = Rank::new(Matched::new(tcp), me, 2);
        rank.meet(map, 1, 3);
        rank.barrier();
        // They go one after the other, each after a while; the launch has a time limit.
        while me == 0 && rank.t.fabric().strangers() <= 50 {
            rank.poll();
        }
        all_to_all(&mut rank);
        rank.barrier();
        rank.meet(map, 2, 3);
        rank.finish();
    });
}

/// A program that is started by a rank gets none of the fabric's descriptors.
fn nothing_is_inherited(net: &Net) {
    launch("descriptors", 2, |me, map| {
        let fds = || -> Vec<i32> {
            let list = std::fs::read_dir("/proc/self/fd").unwrap();
            let names = list.map(|e| e.unwrap().file_name().into_string().unwrap());
            names.map(|n| n.parse().unwrap()).collect()
        };
        let before = fds();
        let mut rank = Rank::new(Matched::new(join(net.config(), map, me, 2)), me, 2);
        rank.barrier();
        let mut new = 0;
        for fd in fds().into_iter().filter(|fd| !before.contains(fd)) {
            // SAFETY: asks for flags; a number that is no descriptor is an error.
            let flags = unsafe { libc::fcntl(fd, libc::F_GETFD) };
            // The directory that was read is closed again.
            if flags >= 0 {
                assert!(
                    flags & libc::FD_CLOEXEC != 0,
                    "descriptor {fd} is passed on"
                );
                new += 1;
            }
        }
        assert!(new >= 4, "listener, connection, reactor and bell: {new}");
        rank.finish();
    });
}

/// The interface that the user insists on is not there, and the ports are taken.
pub fn settings() {
    let config = Config {
        interface: Some("nosuch0".into()),
        ..Config::default()
    };
    let error = Tcp::listen(config).unwrap_err().to_string();
    assert!(
        error.contains("nosuch0") && error.contains("lo 127.0.0.1"),
        "{error}"
    );
    let held = TcpListener::bind("[::]:0").unwrap();
    let taken = held.local_addr().unwrap().port();
    let config = Config {
        ports: Some((taken, taken)),
        ..Config::default()
    };
    let error = Tcp::listen(config).unwrap_err().to_string();
    assert!(error.contains(&taken.to_string()), "{error}");
}
