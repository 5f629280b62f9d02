//! Two hosts, made of network namespaces and a veth pair, and what may happen to the link between them. Needs root and
//! `ip`; runs only when named.

use std::os::fd::AsFd;
use std::process::Command;
use std::time::{Duration, Instant};

use mtmi::{Endpoint, Matched, Outcome, SendMode, Source, TagSel, Transport};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use sys::memfd::Mapping;

use crate::common::{Net, Rank, WORLD, check, data, filled, join, launch};

pub fn all(net: &Net) {
    within("MTU 576", net, &["link set dev v mtu 576"], small_packets);
    within("10 Mbit/s", net, &[], slow);
    within("a cut of 5 s", net, &[], cut);
    within("a stopped rank", net, &[], stopped);
    within("the link is gone", net, &[], gone);
}

/// The namespaces of this test.
struct Lab(String);

fn ip(args: &str) {
    let done = Command::new("ip").args(args.split(' ')).status().unwrap();
    assert!(done.success(), "ip {args}");
}

impl Lab {
    fn new() -> Lab {
        let lab = Lab(format!("ymb-{}", std::process::id()));
        for i in 0..2 {
            ip(&format!("netns add {}", lab.host(i)));
        }
        let (a, b) = (lab.host(0), lab.host(1));
        ip(&format!(
            "-n {a} link add v type veth peer name v netns {b}"
        ));
        for i in 0..2 {
            let host = lab.host(i);
            ip(&format!("-n {host} addr add 10.99.0.{}/24 dev v", i + 1));
            ip(&format!(
                "-n {host} addr add fd99::{}/64 dev v nodad",
                i + 1
            ));
            ip(&format!("-n {host} link set v up"));
        }
        lab
    }

    fn host(&self, i: u32) -> String {
        format!("{}-{i}", self.0)
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        for i in 0..2 {
            let host = self.host(i);
            let _ = Command::new("ip").args(["netns", "del", &host]).status();
        }
    }
}

/// Runs `body` in one rank on each host, after `setup` on both.
fn within(name: &str, net: &Net, setup: &[&str], body: fn(&mut Rank, &Lab, &Mapping)) {
    let lab = Lab::new();
    for command in setup {
        for i in 0..2 {
            ip(&format!("-n {} {command}", lab.host(i)));
        }
    }
    let start = Instant::now();
    launch(name, 2, |me, map| {
        let file = std::fs::File::open(format!("/run/netns/{}", lab.host(me))).unwrap();
        move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
        map.write(128 + me as usize * 4, &std::process::id().to_ne_bytes());
        let tcp = join(net.config(), map, me, 2);
        let mut rank = Rank::new(Matched::new(tcp), me, 2);
        rank.barrier();
        body(&mut rank, &lab, map);
        rank.finish();
    });
    println!("{name}: ok in {:?}", start.elapsed());
}

/// Both send each other a message, and check it.
fn swap(me: &mut Rank, seed: u64, len: usize) {
    let other = 1 - me.me;
    let (mut out, mut back) = (filled(seed, len), vec![0; len]);
    let s = me.isend(other, WORLD, 1, SendMode::Standard, data(&mut out));
    let end = me.recv(other, 1, &mut back);
    let why = me.t.fabric().reason(Endpoint(other));
    assert_eq!(end.outcome, Outcome::Done, "{why:?}");
    me.wait(s);
    check(seed, &back);
}

fn small_packets(me: &mut Rank, _: &Lab, _: &Mapping) {
    for (seed, len) in [8, 600, 20_000, 300_000, 8 << 20].into_iter().enumerate() {
        swap(me, seed as u64, len);
    }
}

/// A short message behind a long one over a slow link.
fn slow(me: &mut Rank, lab: &Lab, _: &Mapping) {
    let tc = format!(
        "-n {} qdisc add dev v root tbf rate 10mbit burst 32kb latency 400ms",
        lab.host(me.me)
    );
    assert!(
        Command::new("tc")
            .args(tc.split(' '))
            .status()
            .unwrap()
            .success()
    );
    me.barrier();
    let len = 3 << 20;
    let (mut long, mut short) = (filled(1, len), [7]);
    let start = Instant::now();
    if me.me == 0 {
        let s = me.isend(1, WORLD, 1, SendMode::Standard, data(&mut long));
        while start.elapsed() < Duration::from_millis(500) {
            me.poll();
        }
        me.send(1, 2, &mut short);
        me.wait(s);
    } else {
        let mut into = vec![0; len];
        let r = me.irecv(
            Source::From(Endpoint(0)),
            WORLD,
            TagSel::Exact(1),
            data(&mut into),
        );
        me.recv(0, 2, &mut short);
        println!(
            "  the short one took {:?}",
            start.elapsed() - Duration::from_millis(500)
        );
        assert!(!me.ended.contains_key(&r.0), "it waited for the long one");
        me.wait(r);
        println!("  the long one took {:?}", start.elapsed());
        check(1, &into);
    }
}

fn link(lab: &Lab, state: &str) {
    ip(&format!("-n {} link set v {state}", lab.host(0)));
}

/// The link is down for 5 s while both send.
fn cut(me: &mut Rank, lab: &Lab, _: &Mapping) {
    let start = Instant::now();
    let mut down = false;
    for round in 0.. {
        let after = start.elapsed();
        if me.me == 0 && !down && after > Duration::from_millis(300) {
            down = true;
            link(lab, "down");
            let lab = Lab(lab.0.clone());
            std::thread::spawn(move || {
                std::thread::sleep(Duration::from_secs(5));
                // IPv6 addresses go with the link.
                link(&lab, "up");
                std::mem::forget(lab);
            });
        }
        swap(me, round, 1 << 20);
        let mut over = [u8::from(after > Duration::from_secs(7))];
        match me.me {
            0 => me.send(1, 2, &mut over),
            _ => me.recv(0, 2, &mut over),
        };
        if over == [1] {
            return assert!(round > 2);
        }
    }
}

/// A rank is stopped for longer than a host may be silent.
fn stopped(me: &mut Rank, _: &Lab, map: &Mapping) {
    let mut pid = [0; 4];
    map.read(132, &mut pid);
    let pid = i32::from_ne_bytes(pid);
    let len = 64 << 20;
    if me.me == 0 {
        let mut out = filled(1, len);
        let s = me.isend(1, WORLD, 1, SendMode::Standard, data(&mut out));
        for _ in 0..200 {
            me.poll();
        }
        // SAFETY: a process of this test.
        assert_eq!(unsafe { libc::kill(pid, libc::SIGSTOP) }, 0);
        let end = Instant::now() + Duration::from_secs(16);
        while Instant::now() < end {
            me.poll();
            me.t.wait(Some(Instant::now() + Duration::from_millis(100)));
        }
        // SAFETY: as above.
        assert_eq!(unsafe { libc::kill(pid, libc::SIGCONT) }, 0);
        assert_eq!(me.wait(s).outcome, Outcome::Done);
    } else {
        let mut into = vec![0; len];
        assert_eq!(me.recv(0, 1, &mut into).outcome, Outcome::Done);
        check(1, &into);
    }
}

/// The link goes for good: one rank has data on their way, the other just waits.
fn gone(me: &mut Rank, lab: &Lab, _: &Mapping) {
    let mut out = filled(1, 8 << 20);
    let start = Instant::now();
    let mut none = [0; 1];
    let never = if me.me == 0 {
        link(lab, "down");
        me.isend(1, WORLD, 1, SendMode::Standard, data(&mut out))
    } else {
        me.irecv(
            Source::From(Endpoint(0)),
            WORLD,
            TagSel::Exact(9),
            data(&mut none),
        )
    };
    assert_eq!(me.wait(never).outcome, Outcome::PeerFailed);
    let peer = me.t.next_failure().unwrap();
    let reason = me.t.fabric().reason(peer).unwrap().to_string();
    println!("  rank {} after {:?}: {reason}", me.me, start.elapsed());
    assert!(reason.contains(":") && start.elapsed() < Duration::from_secs(30));
    // Not `finish`, whose barrier needs both.
    std::process::exit(0);
}
