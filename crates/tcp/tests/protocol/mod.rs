//! One rule of the interface after the other.

use std::rc::Rc;
use std::time::{Duration, Instant};

use layout::{Bounds, Kind, Tree};
use mtmi::{
    Completion, Context, Cookie, Endpoint, Outcome, SendMode, Sleeper, Source, Submit, TagSel,
    Transport,
};

use crate::common::{Net, Rank, WORLD, check, cpu_time, data, filled, run, typed};

pub fn all(net: &Net) {
    run("ping-pong", 2, net, ping_pong);
    run("probes", 2, net, probes);
    run("truncation", 2, net, truncation);
    run("synchronous sends", 2, net, synchronous);
    run("cancels", 2, net, cancels);
    run("cancels before the connection", 2, net, cancels_early);
    run("a failed peer", 3, net, failed_peer);
    run("sleeping", 2, net, sleeping);
    run("other threads' sleep", 2, net, sleeping_threads);
    run("crowded barrier", 8, net, crowded);
    run("no needless block", 2, net, no_blocking);
}

/// A message of more than 4 GiB, out of and into memory that is used again and again.
pub fn beyond_4_gib(net: &Net) {
    run("beyond 4 GiB", 2, net, |me| {
        let len = 1 << 20;
        let tree = Tree::block(0, len, Kind::OPAQUE).unwrap();
        let bounds = Bounds { lb: 0, extent: 0 };
        let program = Rc::new(tree.compile(bounds).unwrap());
        let count = 4100;
        let mut buffer = match me.me {
            0 => filled(1, len as usize),
            _ => vec![0; len as usize],
        };
        let d = typed(&mut buffer, &program, count);
        let c = match me.me {
            0 => me.isend(1, WORLD, 1, SendMode::Standard, d),
            _ => me.irecv(from(0), WORLD, ANY, d),
        };
        let end = me.wait(c);
        assert_eq!((end.bytes, end.outcome), (count * len, Outcome::Done));
        check(1, &buffer);
    });
}

const ANY: TagSel = TagSel::Any;

fn from(rank: u32) -> Source {
    Source::From(Endpoint(rank))
}

fn ping_pong(me: &mut Rank) {
    let other = 1 - me.me;
    for (round, len) in [
        0,
        1,
        8,
        48,
        49,
        2048,
        2049,
        32_768,
        100_000,
        131_072,
        131_073,
        4 << 20,
    ]
    .into_iter()
    .cycle()
    .take(60)
    .enumerate()
    {
        let mut out = filled(round as u64, len);
        let mut back = vec![0; len];
        if me.me == 0 {
            me.send(other, 5, &mut out);
            me.recv(other, 6, &mut back);
        } else {
            me.recv(other, 5, &mut back);
            me.send(other, 6, &mut out);
        }
        check(round as u64, &back);
    }
}

/// Waits for a message to probe.
fn find(me: &mut Rank, tag: TagSel) -> mtmi::Envelope {
    loop {
        if let Some(e) = me.t.probe(Source::Any, WORLD, tag) {
            return e;
        }
        me.poll();
    }
}

const SIZES: [usize; 6] = [0, 40, 1000, 20_000, 200_000, 1 << 20];

fn probes(me: &mut Rank) {
    let all: Vec<_> = (0..).zip(SIZES).collect();
    if me.me == 0 {
        let mut buffers: Vec<_> = all.iter().map(|&(t, n)| filled(t as u64, n)).collect();
        let sends: Vec<Cookie> = buffers
            .iter_mut()
            .zip(0..)
            .map(|(b, tag)| me.isend(1, WORLD, tag, SendMode::Standard, data(b)))
            .collect();
        for s in sends {
            me.wait(s);
        }
        return;
    }
    for &(tag, len) in all.iter().rev() {
        let e = find(me, TagSel::Exact(tag));
        assert_eq!((e.source, e.tag, e.bytes), (Endpoint(0), tag, len as u64));
    }
    assert_eq!(find(me, ANY).tag, 0);
    assert!(me.t.probe(from(1), WORLD, ANY).is_none());
    for &(tag, len) in &all {
        let (id, e) = me.t.mprobe(Source::Any, WORLD, TagSel::Exact(tag)).unwrap();
        assert_eq!(e.bytes, len as u64);
        assert!(me.t.probe(Source::Any, WORLD, TagSel::Exact(tag)).is_none());
        let mut buffer = vec![0; len];
        let c = me.imrecv(id, data(&mut buffer));
        assert_eq!(me.wait(c).outcome, Outcome::Done);
        check(tag as u64, &buffer);
        let again = me.imrecv(id, data(&mut buffer));
        assert_eq!(me.wait(again).outcome, Outcome::Cancelled);
    }
}

fn truncation(me: &mut Rank) {
    for expected in [true, false] {
        for mode in [SendMode::Standard, SendMode::Synchronous] {
            for (i, len) in SIZES.into_iter().enumerate().skip(1) {
                for room in [0, len / 3, len - 1] {
                    truncated(me, expected, mode, (i as u64, len), room);
                }
            }
        }
    }
}

fn truncated(
    me: &mut Rank,
    expected: bool,
    mode: SendMode,
    (seed, len): (u64, usize),
    room: usize,
) {
    if me.me == 0 {
        if expected {
            me.barrier();
        }
        let mut out = filled(seed, len);
        let c = me.isend(1, WORLD, 1, mode, data(&mut out));
        if !expected {
            me.barrier();
        }
        assert_eq!(me.wait(c).outcome, Outcome::Done);
        return;
    }
    let mut buffer = vec![0; len];
    if !expected {
        find(me, ANY);
        me.barrier();
    }
    let c = me.irecv(from(0), WORLD, TagSel::Exact(1), data(&mut buffer[..room]));
    if expected {
        me.barrier();
    }
    let end = me.wait(c);
    assert_eq!(end.outcome, Outcome::Truncated { sent: len as u64 });
    assert_eq!(end.bytes, room as u64);
    check(seed, &buffer[..room]);
    assert!(buffer[room..].iter().all(|&b| b == 0));
}

fn synchronous(me: &mut Rank) {
    for (i, len) in SIZES.into_iter().enumerate() {
        let mut buffer = filled(i as u64, len);
        if me.me == 0 {
            let c = me.isend(1, WORLD, 1, SendMode::Synchronous, data(&mut buffer));
            let end = Instant::now() + Duration::from_millis(2);
            while Instant::now() < end {
                me.poll();
            }
            assert!(!me.ended.contains_key(&c.0), "completed unmatched");
            me.barrier();
            me.wait(c);
        } else {
            find(me, ANY);
            me.barrier();
            me.recv(0, 1, &mut buffer);
            check(i as u64, &buffer);
        }
    }
}

fn cancels(me: &mut Rank) {
    let mut byte = [0; 1];
    let c = me.irecv(Source::Any, WORLD, ANY, data(&mut byte));
    assert!(me.t.cancel_recv(c));
    assert!(!me.t.cancel_recv(c));
    assert_eq!(me.wait(c).outcome, Outcome::Cancelled);
    // Sends that the receiver has, unmatched.
    for len in SIZES {
        let mut buffer = filled(1, len);
        if me.me == 0 {
            let c = me.isend(1, WORLD, 1, SendMode::Synchronous, data(&mut buffer));
            me.barrier();
            assert!(!me.t.cancel_send(c));
            me.t.cancel_send(c);
            assert_eq!(me.wait(c).outcome, Outcome::Cancelled);
            me.barrier();
        } else {
            find(me, ANY);
            me.barrier();
            me.barrier();
            assert!(me.t.probe(Source::Any, WORLD, ANY).is_none());
        }
        me.barrier();
    }
    // A send that was matched.
    if me.me == 0 {
        let mut buffer = filled(2, 1 << 20);
        let c = me.isend(1, WORLD, 2, SendMode::Standard, data(&mut buffer));
        me.barrier();
        me.t.cancel_send(c);
        assert_eq!(me.wait(c).outcome, Outcome::Done);
    } else {
        find(me, ANY);
        let (id, _) = me.t.mprobe(Source::Any, WORLD, ANY).unwrap();
        me.barrier();
        let mut buffer = vec![0; 1 << 20];
        let c = me.imrecv(id, data(&mut buffer));
        me.wait(c);
        check(2, &buffer);
    }
    me.barrier();
}

/// Sends that wait for the connection, and one that is cancelled before it is there.
fn cancels_early(me: &mut Rank) {
    if me.me == 0 {
        let mut buffers: Vec<_> = (0..100u64).map(|i| filled(i, 500)).collect();
        let sends: Vec<_> = buffers
            .iter_mut()
            .map(|b| me.isend(1, WORLD, 3, SendMode::Standard, data(b)))
            .collect();
        let last = sends[99];
        assert!(me.t.cancel_send(last));
        for &s in &sends[..99] {
            assert_eq!(me.wait(s).outcome, Outcome::Done);
        }
        assert_eq!(me.wait(last).outcome, Outcome::Cancelled);
    } else {
        for i in 0..99 {
            let mut buffer = vec![0; 500];
            me.recv(0, 3, &mut buffer);
            check(i, &buffer);
        }
    }
    me.barrier();
    assert!(me.t.probe(Source::Any, WORLD, ANY).is_none());
}

fn failed_peer(me: &mut Rank) {
    let mut small = filled(1, 10);
    let mut large = filled(2, 1 << 20);
    if me.me == 2 {
        me.send(0, 1, &mut small);
        // Announces a message whose rest it will never send.
        let c = me.isend(0, WORLD, 2, SendMode::Standard, data(&mut large));
        me.barrier();
        me.t.cancel_send(c);
        std::process::exit(0);
    }
    me.barrier();
    if me.me == 0 {
        let mut a = vec![0; 10];
        let mut b = vec![0; 1 << 20];
        let never = me.irecv(from(2), WORLD, TagSel::Exact(9), data(&mut small));
        let any = me.irecv(Source::Any, WORLD, TagSel::Exact(7), data(&mut b));
        let sync = me.isend(2, WORLD, 3, SendMode::Synchronous, data(&mut large));
        me.t.peer_failed(Endpoint(2));
        assert_eq!(me.wait(never).outcome, Outcome::PeerFailed);
        assert_eq!(me.wait(sync).outcome, Outcome::PeerFailed);
        let c = me.recv(2, 1, &mut a);
        assert_eq!(c.outcome, Outcome::Done);
        check(1, &a);
        let c = me.recv(2, 2, &mut a);
        assert_eq!(c.outcome, Outcome::PeerFailed);
        assert_eq!(me.send(2, 1, &mut a).outcome, Outcome::PeerFailed);
        // The others go on.
        assert_eq!(me.wait(any).source, Endpoint(1));
    } else {
        me.send(0, 7, &mut small);
    }
    // Not `finish`, whose barrier needs everybody.
    std::process::exit(0);
}

fn sleeping(me: &mut Rank) {
    let (mut byte, pause) = ([0; 1], Duration::from_secs(1));
    me.barrier();
    if me.me == 0 {
        let (start, before) = (Instant::now(), cpu_time());
        // The other's pause begins with this, however late either of us is.
        me.send(1, 1, &mut byte);
        me.recv(1, 1, &mut byte);
        let (took, used) = (start.elapsed(), cpu_time() - before);
        assert!(took >= pause);
        assert!(used < took / 50, "used {used:?} in {took:?}");
        // Nothing ends a wait before its time but one of the few timers that ring meanwhile, for which a poll looks at the clock only
        // now and then. Without sleep these would be thousands.
        let until = Instant::now() + Duration::from_millis(30);
        let mut waits = 0;
        while Instant::now() < until {
            me.t.wait(Some(until));
            me.poll();
            waits += 1;
        }
        assert!(waits <= 100, "{waits} waits");
        me.send(1, 2, &mut byte);
    } else {
        me.recv(0, 1, &mut byte);
        std::thread::sleep(pause);
        me.send(0, 1, &mut byte);
        // Nothing more comes from here before.
        me.recv(0, 2, &mut byte);
    }
}

/// The sleep that holds no transport: woken by a message and by another thread.
fn sleeping_threads(me: &mut Rank) {
    let sleeper = me.t.sleeper();
    let late = sys::clock::after(Duration::from_secs(30));
    if me.me == 0 {
        let mut byte = [0; 1];
        let c = me.irecv(from(1), WORLD, ANY, data(&mut byte));
        loop {
            let armed = sleeper.arm();
            if me.t.ready() {
                break;
            }
            <tcp::Sleeper as Sleeper>::sleep(armed, late);
        }
        me.wait(c);
        let other = sleeper.clone();
        let start = Instant::now();
        let thread = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            other.wake();
        });
        let armed = sleeper.arm();
        <tcp::Sleeper as Sleeper>::sleep(armed, late);
        assert!(start.elapsed() < Duration::from_secs(20));
        thread.join().unwrap();
    } else {
        std::thread::sleep(Duration::from_millis(50));
        me.send(0, 1, &mut [0; 1]);
    }
}

/// More ranks than processors.
fn crowded(me: &mut Rank) {
    for _ in 0..300 {
        me.barrier();
    }
}

/// Messages that nobody receives hold up no other.
fn no_blocking(me: &mut Rank) {
    let mut large = filled(3, 3 << 20);
    let mut buffer = vec![0; 3 << 20];
    let other = 1 - me.me;
    let held: Vec<_> = (0..20)
        .map(|i| me.isend(other, WORLD, i, SendMode::Standard, data(&mut large)))
        .collect();
    for len in SIZES {
        let r = me.irecv(from(other), Context(9), ANY, data(&mut buffer[..len]));
        let mut out = filled(4, len);
        let s = me.isend(other, Context(9), 0, SendMode::Standard, data(&mut out));
        me.wait(r);
        me.wait(s);
        check(4, &buffer[..len]);
    }
    for i in (0..20).rev() {
        buffer.fill(0);
        me.recv(other, i, &mut buffer);
        check(3, &buffer);
    }
    for s in held {
        let Completion { outcome, .. } = me.wait(s);
        assert_eq!(outcome, Outcome::Done);
    }
    let nothing =
        me.t.irecv(from(7), WORLD, ANY, data(&mut []), Cookie(1 << 40));
    assert!(matches!(nothing, Submit::Complete(c) if c.outcome == Outcome::PeerFailed));
}
