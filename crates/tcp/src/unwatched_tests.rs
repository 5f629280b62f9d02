//! A connection that is not watched for a while: nothing that comes over it is missed.

use std::time::{Duration, Instant};

use boundary::UserBuf;
use layout::Data;
use mtmi::{
    Completion, Context, Cookie, Endpoint, Matched, Outcome, SendMode, Source, Submit, TagSel,
    Transport,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::fabric::GLANCES;
use crate::{Config, ReactorKind, Tcp};

const CONTEXT: Context = Context(2);
const LIMIT: Duration = Duration::from_secs(30);

/// Three ranks, in one thread, each of which uses its fabric alone.
struct Three {
    ranks: Vec<Matched<Tcp>>,
    done: [Vec<Completion>; 3],
}

impl Three {
    fn new() -> Three {
        let config = || Config {
            reactor: Some(ReactorKind::Epoll),
            ..Config::default()
        };
        let listening: Vec<_> = (0..3).map(|_| Tcp::listen(config()).unwrap()).collect();
        let all: Vec<_> = listening.iter().map(|l| Some(l.address())).collect();
        let ranks = (0..).zip(listening).map(|(me, l)| {
            let mut tcp = l.join(Endpoint(me), 3, &all, [9; 32]);
            tcp.use_alone(true);
            Matched::new(tcp)
        });
        Three {
            ranks: ranks.collect(),
            done: Default::default(),
        }
    }

    fn progress(&mut self, rank: usize) -> bool {
        self.ranks[rank].progress(&mut self.done[rank])
    }

    fn send(&mut self, from: usize, to: u32, data: &mut [u8]) {
        let data = Data::bytes(UserBuf::of_array(data), data.len() as u64);
        let (to, mode) = (Endpoint(to), SendMode::Standard);
        let submit = self.ranks[from].isend(to, CONTEXT, 1, mode, data, Cookie(1));
        if let Submit::Complete(end) = submit {
            self.done[from].push(end);
        }
    }

    fn post(&mut self, at: usize, from: u32, data: &mut [u8]) {
        let data = Data::bytes(UserBuf::of_array(data), data.len() as u64);
        let (from, tag) = (Source::From(Endpoint(from)), TagSel::Exact(1));
        let submit = self.ranks[at].irecv(from, CONTEXT, tag, data, Cookie(2));
        if let Submit::Complete(end) = submit {
            self.done[at].push(end);
        }
    }

    /// Goes on with these ranks until that one has something done: which is taken.
    fn until_done(&mut self, at: usize, moving: &[usize]) -> Completion {
        let end = Instant::now() + LIMIT;
        while self.done[at].is_empty() {
            assert!(Instant::now() < end, "nothing comes");
            for &rank in moving {
                self.progress(rank);
            }
        }
        self.done[at].remove(0)
    }

    /// One message, sent and received.
    fn exchange(&mut self, from: usize, to: u32) {
        let (mut out, mut into) = ([7u8; 8], [0u8; 8]);
        self.post(to as usize, from as u32, &mut into);
        self.send(from, to, &mut out);
        self.until_done(from, &[from, to as usize]);
        self.until_done(to as usize, &[from, to as usize]);
        assert_eq!(out, into);
    }

    /// Has rank 0 send to rank 1 until the connection is not watched there.
    fn warm_up(&mut self) {
        let end = Instant::now() + LIMIT;
        while !self.is_unwatched() {
            assert!(Instant::now() < end, "it stays watched");
            self.exchange(0, 1);
        }
    }

    fn is_unwatched(&mut self) -> bool {
        self.ranks[1].fabric().unwatched.is_any()
    }
}

#[test]
fn who_may_sleep_is_told() {
    let mut t = Three::new();
    t.warm_up();
    let mut into = [0u8; 8];
    t.post(1, 0, &mut into);
    let end = Instant::now() + LIMIT;
    while t.ranks[1].ready() {
        assert!(Instant::now() < end, "it never rests");
        t.progress(1);
    }
    assert!(!t.is_unwatched());
    t.send(0, 1, &mut [5; 8]);
    let mut fds = [PollFd::from_borrowed_fd(
        t.ranks[1].fabric().fd(),
        PollFlags::IN,
    )];
    let seconds = |tv_sec| Timespec { tv_sec, tv_nsec: 0 };
    assert_eq!(poll(&mut fds, Some(&seconds(30))).unwrap(), 1);
    t.until_done(1, &[1]);
    assert_eq!(into, [5; 8]);
}

/// What came before the connection is watched again is told too.
#[test]
fn what_came_meanwhile_is_told() {
    let mut t = Three::new();
    t.warm_up();
    let mut into = [0u8; 8];
    t.post(1, 0, &mut into);
    t.send(0, 1, &mut [6; 8]);
    std::thread::sleep(Duration::from_millis(20));
    let end = Instant::now() + LIMIT;
    while !t.ranks[1].ready() {
        assert!(Instant::now() < end, "nothing is told");
    }
    assert!(!t.is_unwatched());
    t.until_done(1, &[1]);
    assert_eq!(into, [6; 8]);
}

#[test]
fn glances_in_vain_end_it() {
    let mut t = Three::new();
    t.warm_up();
    for _ in 0..2 * GLANCES {
        t.progress(1);
    }
    assert!(!t.is_unwatched());
    t.exchange(0, 1);
}

#[test]
fn another_peer_ends_it() {
    let mut t = Three::new();
    t.exchange(2, 1);
    t.warm_up();
    t.exchange(2, 1);
    assert!(!t.is_unwatched());
    t.exchange(0, 1);
    t.exchange(2, 1);
}

/// A peer that is gone is noticed without epoll.
#[test]
fn a_peer_that_ends_is_noticed() {
    let mut t = Three::new();
    t.warm_up();
    t.post(1, 0, &mut [0; 8]);
    drop(t.ranks.remove(0));
    let (mut done, end) = (Vec::new(), Instant::now() + LIMIT);
    while done.is_empty() {
        assert!(Instant::now() < end, "nobody notices");
        t.ranks[0].progress(&mut done);
    }
    assert_eq!(done[0].outcome, Outcome::PeerFailed);
    assert!(!t.ranks[0].fabric().unwatched.is_any());
}

/// A send for which there is no room goes on when there is.
#[test]
fn room_is_told() {
    let mut t = Three::new();
    let (mut out, mut into) = (vec![3u8; 32 << 20], vec![0u8; 32 << 20]);
    t.post(0, 1, &mut into);
    t.warm_up();
    t.send(1, 0, &mut out);
    t.until_done(1, &[0, 1]);
    t.until_done(0, &[0, 1]);
    assert!(into == out);
}

/// Where threads may sleep while others are here, and with io_uring, all is watched.
#[test]
fn only_who_is_alone_does_it() {
    let mut t = Three::new();
    t.ranks[1].fabric().use_alone(false);
    for _ in 0..200 {
        t.exchange(0, 1);
    }
    assert!(!t.is_unwatched());
    t.ranks[1].fabric().use_alone(true);
    t.exchange(2, 1);
    t.warm_up();
    t.ranks[1].fabric().use_alone(false);
    assert!(!t.is_unwatched());
}

/// Whoever sends a long message is asked for its rest before all that he sent of it has been read.
#[test]
fn an_answer_leaves_before_more_is_read() {
    for warm in [false, true] {
        let mut t = Three::new();
        t.exchange(0, 1);
        if warm {
            t.warm_up();
        }
        let (mut out, mut into) = (vec![4u8; 1 << 20], vec![0u8; 1 << 20]);
        t.post(1, 0, &mut into);
        t.send(0, 1, &mut out);
        let end = Instant::now() + LIMIT;
        while t.ranks[1].fabric().protocol.links[0].body_left == 0 {
            assert!(Instant::now() < end, "nothing comes");
            t.progress(1);
        }
        assert!(t.ranks[1].fabric().protocol.links[0].is_idle(), "{warm}");
        t.until_done(1, &[0, 1]);
        t.until_done(0, &[0, 1]);
        assert!(into == out);
    }
}
