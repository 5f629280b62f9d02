//! One rule of the interface after the other.

use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use boundary::UserBuf;
use layout::{Bounds, Kind, Tree};
use mtmi::matching::has_ordinary;
use mtmi::{
    Completion, Context, Cookie, Endpoint, Outcome, SendMode, Sleeper, Source, Submit, TagSel,
    Transport,
};
use shm::{AtOnce, Config, InitError, Shm};

use crate::common::{Inherited, Rank, WORLD, check, cpu_time, data, filled, launch, run, typed};

pub fn all() {
    run("ping-pong", 2, ping_pong);
    run("probes", 2, probes);
    run("at once", 2, at_once);
    let (_fd, queued) = sys::memfd::create_sealed("queued", 4096).unwrap();
    let queued: &AtomicU32 = queued.get(0).unwrap();
    run("at once not past a queue", 2, |me| {
        at_once_not_past_a_queue(me, queued);
    });
    run("truncation", 2, truncation);
    run("synchronous sends", 2, synchronous);
    run("cancels", 2, cancels);
    run("self", 1, to_self);
    run("a failed peer", 3, failed_peer);
    run("deaths expected", 2, deaths_expected);
    run("sleeping", 2, sleeping);
    run("other threads' sleep", 2, sleeping_threads);
    run("crowded barrier", 8, crowded);
    run("no needless block", 2, no_blocking);
    other_version();
}

/// A message of more than 4 GiB, out of and into memory that is used again and again.
pub fn beyond_4_gib() {
    run("beyond 4 GiB", 2, |me| {
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

const SIZES: [usize; 6] = [0, 40, 1000, 3000, 100_000, 1 << 20];

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

/// Sends at once as soon as the way is open.
fn send_soon(me: &mut Rank, tag: i32, v: &mut [u8]) {
    let start = Instant::now();
    // SAFETY: the message is gone when the call returns.
    let buf = unsafe { UserBuf::new(v.as_mut_ptr() as usize) };
    let ports = me.t.fabric().ports().clone();
    while !ports.all()[1].send(WORLD, tag, buf, v.len()) {
        me.poll();
        assert!(start.elapsed() < Duration::from_secs(20));
    }
}

/// As a caller has to: only where no receive is posted and no message unexpected that might come first.
fn receive_at_once(me: &mut Rank, context: Context, tag: TagSel, v: &mut [u8]) -> Option<AtOnce> {
    // SAFETY: the call is over before the memory is used for something else.
    let buf = unsafe { UserBuf::new(v.as_mut_ptr() as usize) };
    let (light, ports) = (me.t.light().clone(), me.t.fabric().ports().clone());
    if !light.rows()[0].is_clear(context, tag) || has_ordinary(light.ordinary()) {
        return None;
    }
    ports.all()[0].receive(context, tag, buf, v.len(), || ports.looks())
}

/// What is received at once is what a receive would have got, and never a message that somebody else is to have.
fn at_once(me: &mut Rank) {
    let mut a = [0; 8];
    if me.me == 0 {
        me.send(1, 1, &mut a);
        me.recv(1, 2, &mut a);
        for tag in [5, 6, 7] {
            send_soon(me, tag, &mut filled(tag as u64, 8));
        }
        let mut large = filled(8, 49);
        me.send(1, 8, &mut large);
        me.barrier();
        for tag in [9, 10, 11] {
            send_soon(me, tag, &mut filled(tag as u64, 8));
        }
        return;
    }
    me.recv(0, 1, &mut a);
    // No progress is made from here on, which would make the messages unexpected ones.
    let go = me.isend(0, WORLD, 2, SendMode::Standard, data(&mut a));
    let mut b = [0; 8];
    let exact = TagSel::Exact;
    let start = Instant::now();
    let mut first = None;
    while first.is_none() {
        assert!(start.elapsed() < Duration::from_secs(20));
        // Neither out of turn, nor of another context, nor cut short.
        assert_eq!(receive_at_once(me, WORLD, exact(6), &mut b), None);
        assert_eq!(receive_at_once(me, Context(99), exact(5), &mut b), None);
        assert_eq!(receive_at_once(me, WORLD, exact(5), &mut b[..7]), None);
        first = receive_at_once(me, WORLD, exact(5), &mut b);
    }
    assert_eq!(first, Some(AtOnce { tag: 5, bytes: 8 }));
    check(5, &b);
    let mut got = None;
    while got.is_none() {
        assert!(start.elapsed() < Duration::from_secs(20));
        got = receive_at_once(me, WORLD, ANY, &mut b);
    }
    assert_eq!(got, Some(AtOnce { tag: 6, bytes: 8 }));
    check(6, &b);
    // Not past a receive that is posted: that gets it.
    let posted = me.irecv(Source::Any, WORLD, ANY, data(&mut a));
    assert_eq!(receive_at_once(me, WORLD, exact(7), &mut b), None);
    assert_eq!(me.wait(posted).tag, 7);
    check(7, &a);
    // Not what fills more than a line.
    let mut large = [0; 64];
    assert_eq!(receive_at_once(me, WORLD, exact(8), &mut large), None);
    assert_eq!(me.recv(0, 8, &mut large).bytes, 49);
    me.wait(go);
    me.barrier();
    // Not past an unexpected message.
    find(me, exact(9));
    while me.t.probe(from(0), WORLD, exact(11)).is_none() {
        me.poll();
    }
    assert_eq!(receive_at_once(me, WORLD, exact(10), &mut b), None);
    for tag in [9, 10, 11] {
        assert_eq!(me.recv(0, tag, &mut b).outcome, Outcome::Done);
        check(tag as u64, &b);
    }
}

/// More than the ring takes, then a look at the peer when that has made room: what waits goes first all the same. The receiver
/// begins when `queued` says that something waits.
fn at_once_not_past_a_queue(me: &mut Rank, queued: &AtomicU32) {
    const MANY: i32 = 150;
    let mut a = [0; 8];
    if me.me == 1 {
        me.recv(0, 0, &mut a);
        me.send(0, 0, &mut a);
        while queued.load(Ordering::Acquire) == 0 {
            std::thread::sleep(Duration::from_micros(50));
        }
        let tags = (1..=MANY).map(|_| {
            let c = me.irecv(from(0), WORLD, ANY, data(&mut a));
            me.wait(c).tag
        });
        assert!(tags.eq(1..=MANY), "messages in another order");
        return;
    }
    me.send(1, 0, &mut a);
    me.recv(1, 0, &mut a);
    let mut sends: Vec<Cookie> = (1..MANY)
        .map(|tag| me.isend(1, WORLD, tag, SendMode::Standard, data(&mut a)))
        .collect();
    // SAFETY: the array outlives the calls that read it.
    let buf = unsafe { UserBuf::new(a.as_mut_ptr() as usize) };
    let ports = me.t.fabric().ports().clone();
    assert!(sends.iter().any(|send| !me.ended.contains_key(&send.0)));
    queued.store(1, Ordering::Release);
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(200) {
        me.t.connect(Endpoint(1));
        assert!(!ports.all()[1].send(WORLD, MANY, buf, a.len()));
    }
    sends.push(me.isend(1, WORLD, MANY, SendMode::Standard, data(&mut a)));
    for send in sends {
        me.wait(send);
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
    // Sends that wait behind a full ring, and one that has not left. How many fill the ring depends
    // on how fast the receiver empties it.
    if me.me == 0 {
        let (mut buffers, mut sends) = (Vec::new(), Vec::new());
        let last = loop {
            let mut buffer = filled(sends.len() as u64, 500);
            let send = me.isend(1, WORLD, 3, SendMode::Standard, data(&mut buffer));
            buffers.push(buffer);
            if !me.ended.contains_key(&send.0) {
                break send;
            }
            sends.push(send);
        };
        assert!(me.t.cancel_send(last));
        me.send(1, 4, &mut (sends.len() as u64).to_ne_bytes());
        for &s in &sends {
            assert_eq!(me.wait(s).outcome, Outcome::Done);
        }
        assert_eq!(me.wait(last).outcome, Outcome::Cancelled);
        me.barrier();
    } else {
        let mut count = [0; 8];
        me.recv(0, 4, &mut count);
        for i in 0..u64::from_ne_bytes(count) {
            let mut buffer = vec![0; 500];
            me.recv(0, 3, &mut buffer);
            check(i, &buffer);
        }
        me.barrier();
        assert!(me.t.probe(Source::Any, WORLD, ANY).is_none());
    }
}

fn to_self(me: &mut Rank) {
    for len in SIZES {
        for mode in [SendMode::Standard, SendMode::Synchronous] {
            let mut out = filled(9, len);
            let mut back = vec![0; len];
            let r = me.irecv(Source::Any, WORLD, ANY, data(&mut back));
            let s = me.isend(0, WORLD, 4, mode, data(&mut out));
            assert!(me.ended.contains_key(&s.0), "matched at once");
            assert_eq!(me.wait(r).bytes, len as u64);
            me.wait(s);
            check(9, &back);
            back.fill(0);
            let s = me.isend(0, WORLD, 4, mode, data(&mut out));
            let held = mode == SendMode::Synchronous || len > 32_768;
            assert_eq!(me.ended.contains_key(&s.0), !held);
            assert_eq!(
                me.t.probe(Source::Any, WORLD, ANY).unwrap().bytes,
                len as u64
            );
            let r = me.irecv(from(0), WORLD, ANY, data(&mut back));
            assert_eq!(me.wait(r).tag, 4);
            assert_eq!(me.wait(s).outcome, Outcome::Done);
            check(9, &back);
        }
    }
    let mut out = filled(9, 100_000);
    let s = me.isend(0, WORLD, 4, SendMode::Standard, data(&mut out));
    assert!(me.t.cancel_send(s));
    assert_eq!(me.wait(s).outcome, Outcome::Cancelled);
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

/// Where deaths are expected every message goes the ordinary way, also when there is room, and comes all the same.
fn deaths_expected(me: &mut Rank) {
    me.t.fabric().expect_deaths();
    let (mut byte, mut long) = ([7; 1], vec![7; 1 << 20]);
    for tag in 0..200 {
        if me.me == 1 {
            me.recv(0, tag, &mut byte);
            continue;
        }
        me.send(1, tag, &mut byte);
        let port = &me.t.fabric().ports().all()[1];
        let at_once = || port.send(WORLD, tag, UserBuf::of_array(&mut [0; 1]), 1);
        assert!(!at_once() && !port.look(), "after message {tag}");
    }
    if me.me == 1 {
        me.recv(0, 200, &mut long);
    } else {
        me.send(1, 200, &mut long);
    }
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
        // Nothing ends a wait before its time but a late ring for what has been received.
        let until = Instant::now() + Duration::from_millis(30);
        let mut waits = 0;
        while Instant::now() < until {
            me.t.wait(Some(until));
            waits += 1;
        }
        assert!(waits <= 4, "{waits} waits");
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
            <shm::Sleeper as Sleeper>::sleep(armed, late);
        }
        me.wait(c);
        let other = sleeper.clone();
        let start = Instant::now();
        let thread = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            other.wake();
        });
        let armed = sleeper.arm();
        <shm::Sleeper as Sleeper>::sleep(armed, late);
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

/// A rank of another version is refused, and both sides say which.
fn other_version() {
    launch("another version", 2, |rank, map| {
        let mut config = Config::new(rank, 2);
        config.version = ["1.0.0", "2.0.0"][rank as usize].to_string();
        let error = Shm::init(&config, &mut Inherited::new(map, 2)).err();
        match error {
            Some(InitError::Version {
                rank: other,
                theirs,
                ours,
            }) => {
                assert_eq!(other, 1 - rank);
                assert_ne!(theirs, ours);
            }
            e => panic!("{e:?}"),
        }
    });
}
