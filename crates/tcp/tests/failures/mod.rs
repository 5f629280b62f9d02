//! Peers that can't be reached, are of another job, or go away.

use std::time::{Duration, Instant};

use mtmi::{Endpoint, Matched, Outcome, SendMode, Source, TagSel, Transport};
use tcp::{Config, Tcp};

use crate::common::{
    Net, Rank, SECRET, WORLD, check, data, exchange, filled, join, launch, meet, run,
};

pub fn all(net: &Net) {
    other_version(net);
    other_secret(net);
    nobody_there(net);
    run("an untidy end", 3, net, untidy_end);
    simultaneous(net);
    no_descriptors(net);
    given_up(net);
    given_up_in_mid_call(net);
    rare_looks(net);
    parting_words(net);
    run("finalized first", 2, net, early_leave);
}

/// Waits for a failure and returns its reason.
fn failure(rank: &mut Rank, peer: u32) -> String {
    loop {
        if let Some(found) = rank.t.next_failure() {
            assert_eq!(found, Endpoint(peer));
            return rank.t.fabric().reason(found).unwrap().to_string();
        }
        if !rank.poll() {
            rank.t.wait(Some(Instant::now() + Duration::from_secs(1)));
        }
    }
}

/// One rank is of another version: the call fails at once, naming both.
fn other_version(net: &Net) {
    launch("another version", 2, |me, map| {
        let mut config = net.config();
        config.version = ["1.0.0", "2.0.0"][me as usize].to_string();
        let mut rank = Rank::new(Matched::new(join(config, map, me, 2)), me, 2);
        if me == 0 {
            let end = rank.send(1, 1, &mut [1]);
            assert_eq!(end.outcome, Outcome::PeerFailed);
            let reason = failure(&mut rank, 1);
            assert!(
                reason.contains("1.0.0") && reason.contains("2.0.0"),
                "{reason}"
            );
        }
        rank.meet(map, 1, 2);
        assert_eq!(me == 1, rank.t.fabric().strangers() > 0);
    });
}

fn impatient(net: &Net) -> Config {
    Config {
        patience: Duration::from_secs(1),
        ..net.config()
    }
}

/// One rank has another secret: it counts as a stranger, and finds nobody.
fn other_secret(net: &Net) {
    launch("another secret", 2, |me, map| {
        let listening = Tcp::listen(impatient(net)).unwrap();
        let addresses = exchange(map, 0, (me, 2), &listening.address());
        let secret = [SECRET, [1; 32]][me as usize];
        let tcp = listening.join(Endpoint(me), 2, &addresses, secret);
        let mut rank = Rank::new(Matched::new(tcp), me, 2);
        let end = rank.send(1 - me, 1, &mut [1]);
        assert_eq!(end.outcome, Outcome::PeerFailed);
        let reason = failure(&mut rank, 1 - me);
        assert!(reason.contains("can't be reached"), "{reason}");
        rank.meet(map, 1, 2);
        assert!(rank.t.fabric().strangers() > 0);
    });
}

/// A rank whose process is gone before anybody called it.
fn nobody_there(net: &Net) {
    launch("nobody there", 2, |me, map| {
        let listening = Tcp::listen(impatient(net)).unwrap();
        let addresses = exchange(map, 0, (me, 2), &listening.address());
        if me == 1 {
            drop(listening);
            meet(map, 1, 2);
            return;
        }
        meet(map, 1, 2);
        let tcp = listening.join(Endpoint(me), 2, &addresses, SECRET);
        let mut rank = Rank::new(Matched::new(tcp), me, 2);
        let never = rank.irecv(Source::From(Endpoint(1)), WORLD, TagSel::Any, data(&mut []));
        let end = rank.send(1, 1, &mut [1]);
        assert_eq!(end.outcome, Outcome::PeerFailed);
        assert_eq!(rank.wait(never).outcome, Outcome::PeerFailed);
        let reason = failure(&mut rank, 1);
        let port = u16::from_str_radix(&addresses[1].as_ref().unwrap()[2..6], 16).unwrap();
        let named = reason.contains(&format!(":{port}")) && reason.contains("refused");
        assert!(named, "{reason}");
        // From now on everything fails at once.
        assert_eq!(rank.send(1, 1, &mut [1]).outcome, Outcome::PeerFailed);
    });
}

/// A process ends in the middle: what it sent before counts, all else ends.
fn untidy_end(me: &mut Rank) {
    let mut long = filled(2, 1 << 20);
    if me.me == 2 {
        me.send(0, 1, &mut filled(1, 1000));
        me.isend(0, WORLD, 2, SendMode::Standard, data(&mut long));
        // Everybody is connected to everybody.
        me.barrier();
        std::process::exit(0);
    }
    me.barrier();
    let (mut a, mut b) = (vec![0; 1000], vec![0; 1 << 20]);
    let never = me.irecv(
        Source::From(Endpoint(2)),
        WORLD,
        TagSel::Exact(9),
        data(&mut []),
    );
    assert_eq!(me.wait(never).outcome, Outcome::PeerFailed);
    let reason = failure(me, 2);
    assert!(reason.contains("lost"), "{reason}");
    if me.me == 0 {
        assert_eq!(me.recv(2, 1, &mut a).outcome, Outcome::Done);
        check(1, &a);
        assert_eq!(me.recv(2, 2, &mut b).outcome, Outcome::PeerFailed);
    }
    let other = 1 - me.me;
    let c = me.isend(other, WORLD, 3, SendMode::Standard, data(&mut long));
    me.recv(other, 3, &mut b);
    me.wait(c);
    check(2, &b);
    // Not `finish`, whose barrier needs everybody.
    std::process::exit(0);
}

/// Two ranks that call each other at the same moment, again and again.
fn simultaneous(net: &Net) {
    for _ in 0..20 {
        run("simultaneous calls", 2, net, |me| {
            let other = 1 - me.me;
            for i in 0..3 {
                let (mut out, mut back) = (filled(i, 70_000), vec![0; 70_000]);
                let s = me.isend(other, WORLD, 1, SendMode::Synchronous, data(&mut out));
                me.recv(other, 1, &mut back);
                me.wait(s);
                check(i, &back);
            }
        });
    }
}

/// A rank has no descriptor left: it says so and gives up whom it has no connection to, and they it.
fn no_descriptors(net: &Net) {
    launch("no descriptors", 3, |me, map| {
        let mut rank = Rank::new(Matched::new(join(impatient(net), map, me, 3)), me, 3);
        if me == 0 {
            use rustix::process::{Resource, Rlimit, setrlimit};
            let next = std::fs::File::open("/dev/null").unwrap();
            let none = Some(std::os::fd::AsRawFd::as_raw_fd(&next) as u64);
            let limit = Rlimit {
                current: none,
                maximum: none,
            };
            drop(next);
            setrlimit(Resource::Nofile, limit).unwrap();
        }
        let start = Instant::now();
        rank.meet(map, 1, 3);
        match me {
            0 => {
                let from = Source::From(Endpoint(1));
                let never = rank.irecv(from, WORLD, TagSel::Any, data(&mut []));
                assert_eq!(rank.wait(never).outcome, Outcome::PeerFailed);
                let reason = failure(&mut rank, 1);
                assert!(reason.contains("rank 0") && reason.contains("ulimit -n"));
                assert_eq!(failure(&mut rank, 2), reason);
            }
            1 => {
                assert_eq!(rank.send(0, 1, &mut [1]).outcome, Outcome::PeerFailed);
                let reason = failure(&mut rank, 0);
                assert!(reason.contains("can't be reached"), "{reason}");
            }
            // It calls nobody and learns nothing.
            _ => {}
        }
        assert!(start.elapsed() < Duration::from_secs(15));
        rank.meet(map, 2, 3);
    });
}

/// A rank that looks only now and then, after it has heard from one peer, gives up another in time all the same.
fn rare_looks(net: &Net) {
    launch("rare looks", 3, |me, map| {
        let listening = Tcp::listen(impatient(net)).unwrap();
        let addresses = exchange(map, 0, (me, 3), &listening.address());
        if me == 2 {
            drop(listening);
            meet(map, 1, 3);
            return;
        }
        meet(map, 1, 3);
        let tcp = listening.join(Endpoint(me), 3, &addresses, SECRET);
        let mut rank = Rank::new(Matched::new(tcp), me, 2);
        rank.barrier();
        if me == 0 {
            let mut looks = 0;
            let end = rank.isend(2, WORLD, 1, SendMode::Standard, data(&mut []));
            while rank.t.next_failure().is_none() {
                rank.poll();
                std::thread::sleep(Duration::from_millis(400));
                looks += 1;
                assert!(looks < 10, "a look hears too little");
            }
            assert_eq!(rank.wait(end).outcome, Outcome::PeerFailed);
        }
        rank.meet(map, 2, 2);
    });
}

/// A rank gives another up while that has not answered its call yet; the answer comes all the same, and does no harm.
fn given_up_in_mid_call(net: &Net) {
    launch("given up in mid call", 2, |me, map| {
        let mut rank = Rank::new(Matched::new(join(impatient(net), map, me, 2)), me, 2);
        let some_looks = |rank: &mut Rank| {
            for _ in 0..50 {
                rank.poll();
                std::thread::sleep(Duration::from_millis(1));
            }
        };
        if me == 0 {
            let end = rank.isend(1, WORLD, 1, SendMode::Standard, data(&mut []));
            some_looks(&mut rank);
            rank.t.peer_failed(Endpoint(1));
            assert_eq!(rank.wait(end).outcome, Outcome::PeerFailed);
        }
        meet(map, 1, 2);
        if me == 1 {
            some_looks(&mut rank);
        }
        meet(map, 2, 2);
        some_looks(&mut rank);
        meet(map, 3, 2);
    });
}

/// A rank has given up two others, which wait for it: they learn that, be it with a receive or with nothing but probes.
fn given_up(net: &Net) {
    launch("given up", 3, |me, map| {
        let mut rank = Rank::new(Matched::new(join(impatient(net), map, me, 3)), me, 3);
        if me == 0 {
            rank.t.peer_failed(Endpoint(1));
            rank.t.peer_failed(Endpoint(2));
        }
        rank.meet(map, 1, 3);
        let from = Source::From(Endpoint(0));
        if me == 1 {
            let never = rank.irecv(from, WORLD, TagSel::Any, data(&mut []));
            assert_eq!(rank.wait(never).outcome, Outcome::PeerFailed);
        }
        if me > 0 {
            let reason = loop {
                if rank.t.next_failure() == Some(Endpoint(0)) {
                    break rank.t.fabric().reason(Endpoint(0)).unwrap().to_string();
                }
                assert_eq!(rank.t.probe(from, WORLD, TagSel::Any), None);
                rank.poll();
            };
            assert!(reason.contains("can't be reached"), "{reason}");
        }
        rank.meet(map, 2, 3);
    });
}

/// A rank sends and ends at once; the other looks only later.
fn parting_words(net: &Net) {
    launch("parting words", 2, |me, map| {
        let mut rank = Rank::new(Matched::new(join(net.config(), map, me, 2)), me, 2);
        let mut messages: Vec<_> = (0..20).map(|i| filled(i, 10_000 * i as usize)).collect();
        rank.barrier();
        if me == 0 {
            let sends: Vec<_> = messages
                .iter_mut()
                .map(|m| rank.isend(1, WORLD, 1, SendMode::Standard, data(m)))
                .collect();
            for send in &sends[..14] {
                rank.wait(*send);
            }
            let late = sys::clock::after(Duration::from_secs(20));
            assert!(rank.t.finalize(late));
            return;
        }
        std::thread::sleep(Duration::from_millis(300));
        for i in 0..20 {
            let mut buffer = vec![0; 10_000 * i as usize];
            assert_eq!(rank.recv(0, 1, &mut buffer).outcome, Outcome::Done);
            check(i, &buffer);
        }
        // It took leave, so nothing has failed.
        let gone = rank.irecv(Source::From(Endpoint(0)), WORLD, TagSel::Any, data(&mut []));
        assert_eq!(rank.wait(gone).outcome, Outcome::PeerFailed);
        assert_eq!(rank.t.next_failure(), None);
        assert!(rank.t.finalize(sys::clock::after(Duration::from_secs(20))));
    });
}

/// Both finalize at different times.
fn early_leave(me: &mut Rank) {
    me.barrier();
    if me.me == 1 {
        std::thread::sleep(Duration::from_millis(200));
    }
}
