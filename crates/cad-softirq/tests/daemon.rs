//! The daemon: processes without privilege get contexts from it, and no more than they may have.

mod world;

use cad_softirq::client::{Client, NotOpen, Opened, Status};
use cad_softirq::daemon::{Daemon, Limits, NotRunning};
use cad_softirq::layout::{INPUTS_MAX, Op, Type};
use cad_softirq::rank::{End, Member, Part};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use world::{LIMIT, PORT, apart};

const NAME: &[u8] = b"kaccd of a test";

const LIMITS: Limits = Limits {
    contexts: 5,
    inputs: 100,
    user_contexts: 3,
    user_inputs: 20,
};

/// Runs `body` beside a daemon.
fn beside(limits: Limits, body: impl FnOnce() + Send) {
    apart(|| {
        let mut daemon = Daemon::new(NAME, PORT, limits).unwrap_or_else(|e| panic!("{e}"));
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    daemon.step(Duration::from_millis(20));
                }
            });
            let end = Ends(&over);
            body();
            drop(end);
        });
    });
}

/// Ends the daemon, also when a test fails.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn members(opened: &Opened) -> Vec<Member> {
    let member = |card| Member::new(card, opened.page.as_fd()).unwrap();
    opened.cards.iter().map(member).collect()
}

/// The sum of 1, 2, 3 and so on, by all members.
fn sum(members: &mut [Member]) -> u64 {
    for (i, member) in (1_u64..).zip(members.iter_mut()) {
        let part = i.to_le_bytes();
        member
            .start(Part::Reduce(Op::Sum, Type::U64, &part))
            .unwrap();
    }
    let begin = Instant::now();
    while !members.iter().all(Member::is_over) {
        assert!(begin.elapsed() < LIMIT, "it does not end");
    }
    let mut sum = [0; 8];
    for member in members {
        assert_eq!(member.result(&mut sum), Some(End::Done));
    }
    u64::from_le_bytes(sum)
}

fn refused(opened: Result<Opened, NotOpen>) -> Status {
    match opened {
        Err(NotOpen::Refused(status)) => status,
        other => panic!("{other:?}"),
    }
}

/// Asks again until the daemon has heard what happened before.
fn soon(client: &Client, processes: u32) -> Opened {
    let begin = Instant::now();
    loop {
        match client.open(processes) {
            Ok(opened) => return opened,
            Err(why) => assert!(begin.elapsed() < LIMIT, "{why}"),
        }
    }
}

#[test]
fn contexts_of_the_daemon_work() {
    beside(LIMITS, || {
        let client = Client::new(NAME).unwrap();
        let opened = [1, 2, 5].map(|n| client.open(n).unwrap());
        let mut all = opened.each_ref().map(members);
        for _ in 0..3 {
            assert_eq!(all.each_mut().map(|m| sum(m)), [1, 3, 15]);
        }
        let secrets: std::collections::BTreeSet<_> = opened
            .iter()
            .flat_map(|o| &o.cards)
            .map(|c| c.ticket)
            .collect();
        assert_eq!(secrets.len(), 8, "each has a ticket of his own");
    });
}

#[test]
fn who_has_a_card_gets_the_page() {
    beside(LIMITS, || {
        let (owner, other) = (Client::new(NAME).unwrap(), Client::new(NAME).unwrap());
        let opened = owner.open(2).unwrap();
        let second = opened.cards[1];
        let page = other.join(&second).unwrap();
        let first = Member::new(&opened.cards[0], opened.page.as_fd()).unwrap();
        let mut both = [first, Member::new(&second, page.as_fd()).unwrap()];
        assert_eq!(sum(&mut both), 3);

        let [mut ticket, mut id, mut input, mut entry] = [second; 4];
        ticket.ticket ^= 1;
        id.id ^= 1;
        input.input = 0;
        entry.entry += 1;
        let mut beyond = second;
        beyond.input = 2;
        let invalid = |card| matches!(other.join(&card), Err(NotOpen::Refused(Status::Invalid)));
        for card in [ticket, id, input, entry, beyond] {
            assert!(invalid(card), "{card:?}");
        }
        // It stays the owner's to close.
        assert!(other.close(&second).is_err());
        owner.close(&second).unwrap();
        assert!(invalid(second));
        assert!(!owner.is_gone() && !other.is_gone());
    });
}

#[test]
fn it_is_noticed_that_it_is_gone() {
    let mut left = None;
    beside(LIMITS, || left = Some(Client::new(NAME).unwrap()));
    assert!(left.unwrap().is_gone());
}

#[test]
fn users_have_no_more_than_they_may() {
    beside(LIMITS, || {
        let client = Client::new(NAME).unwrap();
        for n in [0, INPUTS_MAX + 1, u32::MAX] {
            assert_eq!(refused(client.open(n)), Status::Invalid);
        }
        assert_eq!(refused(client.open(21)), Status::Quota);
        let first = client.open(18).unwrap();
        let other = Client::new(NAME).unwrap();
        assert_eq!(refused(other.open(3)), Status::Quota);
        let [second, _third] = [1, 1].map(|n| other.open(n).unwrap());
        client.close(&first.cards[0]).unwrap();
        assert_eq!(other.open(18).unwrap().cards.len(), 18);
        assert_eq!(refused(client.open(1)), Status::Quota);
        // What another connection has opened is not closed by this one.
        let stolen = client.close(&second.cards[0]);
        assert!(matches!(stolen, Err(NotOpen::Refused(Status::Invalid))));
        drop(other);
        assert_eq!(soon(&client, 20).cards.len(), 20);
    });
}

#[test]
fn what_a_connection_opened_ends_with_it() {
    let limits = Limits {
        contexts: 1,
        ..LIMITS
    };
    beside(limits, || {
        let client = Client::new(NAME).unwrap();
        let opened = client.open(2).unwrap();
        let mut old = members(&opened);
        assert_eq!(sum(&mut old), 3);
        assert_eq!(refused(client.open(1)), Status::Full);
        drop(client);
        let client = Client::new(NAME).unwrap();
        let mut new = members(&soon(&client, 2));
        // The old ones' packets fit nothing any more, although the place is the same.
        for member in &mut old {
            let _ = member.start(Part::Nothing);
        }
        assert!(!old[0].is_over() && !new[0].is_over() || new[0].result(&mut []).is_some());
        assert_eq!(sum(&mut new), 3);
        assert!(!old[0].is_over());
    });
}

#[test]
fn who_says_nonsense_is_not_listened_to() {
    beside(LIMITS, || {
        for words in [&b""[..], b"x", &[0; 12], &[7; 13], &[7; 1000]] {
            let flags = SocketFlags::CLOEXEC;
            let kind = SocketType::SEQPACKET;
            let fd = socket_with(AddressFamily::UNIX, kind, flags, None).unwrap();
            connect(&fd, &SocketAddrUnix::new_abstract_name(NAME).unwrap()).unwrap();
            let socket = sys::unix::Socket::from_fd(fd).unwrap();
            let deadline = Some(Instant::now() + LIMIT);
            socket.send(words, None, deadline).unwrap();
            let got = socket.receive(&mut [0; 100], deadline);
            assert!(got.map_or(0, |g| g.bytes) == 0, "{words:?}");
        }
        // Others are served all the same, and connections are given back.
        for _ in 0..100 {
            let client = Client::new(NAME).unwrap();
            assert_eq!(soon(&client, 1).cards.len(), 1);
        }
    });
}

#[test]
fn there_is_one_daemon_and_only_here() {
    beside(LIMITS, || {
        let second = Daemon::new(NAME, PORT, LIMITS);
        assert!(matches!(second, Err(NotRunning::Name(_))));
        // In another network namespace there is none.
        apart(|| assert!(matches!(Client::new(NAME), Err(NotOpen::Absent(_)))));
    });
}
