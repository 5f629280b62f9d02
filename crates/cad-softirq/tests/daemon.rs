//! The daemon: processes without privilege get contexts from it, and no more than they may have.

mod world;

use bytecode::{Binary, Builder, CODE_MAX, Program, Side, Type as Field, Wide};
use cad_softirq::client::{Client, NotOpen, Opened, Status};
use cad_softirq::daemon::{Daemon, Limits, NotRunning};
use cad_softirq::flat::Flat;
use cad_softirq::layout::{INPUTS_MAX, Op, Type, WORDS_MAX};
use cad_softirq::rank::{Card, End, Member, Part};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use std::os::fd::AsFd;
use std::sync::Arc;
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

/// Byte code that adds up so many times, of numbers without sign; crowded with what does nothing.
fn adds(times: usize) -> Program {
    let mut builder = Builder::new(8);
    let [a, mut b] = [Side::In, Side::Inout].map(|side| builder.load(side, Field::U64, 0));
    for _ in 0..times {
        b = builder.binary(Binary::Add, Wide::U64, b, a);
    }
    builder.store(Field::U64, 0, b);
    Program::verify(&builder.code().unwrap()).unwrap()
}

/// So many constants, each of which takes two of the kernel's words.
fn wordy(constants: usize) -> Vec<u8> {
    let mut builder = Builder::new(8);
    for _ in 0..constants {
        builder.integer(1 << 40);
    }
    let code = builder.code().unwrap();
    assert!(Program::verify(&code).is_ok());
    code
}

/// Says something to the daemon that no client would; what that answers, if anything.
fn say(words: &[u8]) -> Option<Vec<u8>> {
    let (flags, kind) = (SocketFlags::CLOEXEC, SocketType::SEQPACKET);
    let fd = socket_with(AddressFamily::UNIX, kind, flags, None).unwrap();
    connect(&fd, &SocketAddrUnix::new_abstract_name(NAME).unwrap()).unwrap();
    let socket = sys::unix::Socket::from_fd(fd).unwrap();
    let deadline = Some(Instant::now() + LIMIT);
    socket.send(words, None, deadline).unwrap();
    let mut answer = vec![0; 100];
    let got = socket.receive(&mut answer, deadline).map_or(0, |g| g.bytes);
    answer.truncate(got);
    (got > 0).then_some(answer)
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
fn byte_code_ends_with_its_context() {
    let limits = Limits {
        contexts: 1,
        ..LIMITS
    };
    beside(limits, || {
        let flat = Arc::new(Flat::of(&adds(1)).unwrap());
        // The first puts it there, the others believe that it is there: the place is the same each time.
        for (round, wanted) in [End::Done, End::NoCode, End::NoCode]
            .into_iter()
            .enumerate()
        {
            let client = Client::new(NAME).unwrap();
            let opened = soon(&client, 2);
            let mut members = members(&opened);
            for member in &mut members {
                member.hold(&flat, |card, slot| {
                    round > 0 || client.put(card, slot, &flat).is_ok()
                });
                member.start(Part::Fold(&flat, &[1; 8])).unwrap();
            }
            let begin = Instant::now();
            while !members.iter().all(Member::is_over) {
                assert!(begin.elapsed() < LIMIT, "it does not end");
            }
            assert_eq!(members[0].result(&mut [0; 8]), Some(wanted), "{round}");
            // Whether it is closed or left makes no difference.
            if round == 0 {
                client.close(&opened.cards[0]).unwrap();
            }
        }
    });
}

#[test]
fn who_says_nonsense_is_not_listened_to() {
    beside(LIMITS, || {
        for words in [&b""[..], b"x", &[0; 12], &[7; 13], &[7; 1000], &[7; 10_000]] {
            assert_eq!(say(words), None, "{words:?}");
        }
        // Others are served all the same, and connections are given back.
        for _ in 0..100 {
            let client = Client::new(NAME).unwrap();
            assert_eq!(soon(&client, 1).cards.len(), 1);
        }
    });
}

#[test]
fn descriptors_that_nobody_asked_for_are_not_kept() {
    beside(LIMITS, || {
        let (near, far) = sys::unix::pair(sys::unix::Kind::Stream).unwrap();
        let deadline = Some(Instant::now() + LIMIT);
        let socket = sys::unix::connect_to_any(NAME, sys::unix::Kind::Packets, deadline).unwrap();
        // Who it is; and then the same with a descriptor.
        let who: Vec<u8> = [u32::from_le_bytes(*b"ymk\x04"), 5]
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .chain([0; 32])
            .collect();
        for fd in [None, Some(far.as_fd())] {
            socket.send(&who, fd, deadline).unwrap();
            let got = socket.receive(&mut [0; 100], deadline).unwrap();
            assert!(got.bytes > 0 && got.fd.is_none());
        }
        drop(far);
        assert_eq!(near.receive(&mut [0; 1], deadline).unwrap().bytes, 0);
    });
}

/// A request that puts such byte code into a slot, as client and daemon speak.
fn put(card: &Card, slot: u64, code: &[u8]) -> Vec<u8> {
    let mut bytes = b"ymk\x04".to_vec();
    for word in [4, card.entry, card.input] {
        bytes.extend(word.to_le_bytes());
    }
    for word in [card.id, card.ticket, slot] {
        bytes.extend(word.to_le_bytes());
    }
    bytes.extend(code);
    bytes
}

#[test]
fn byte_code_is_put_by_who_has_a_card() {
    beside(LIMITS, || {
        let (owner, other) = (Client::new(NAME).unwrap(), Client::new(NAME).unwrap());
        let opened = owner.open(3).unwrap();
        let mut members = members(&opened);
        let data = 5_u64.to_le_bytes();
        let mut run = |flat: &Arc<Flat>, puts: bool| {
            for member in &mut members {
                member.hold(flat, |card, slot| {
                    puts && other.put(card, slot, flat).is_ok()
                });
                member.start(Part::Fold(flat, &data)).unwrap();
            }
            let begin = Instant::now();
            while !members.iter().all(Member::is_over) {
                assert!(begin.elapsed() < LIMIT, "it does not end");
            }
            let mut sum = [0; 8];
            let end = members[2].result(&mut sum).unwrap();
            (end, u64::from_le_bytes(sum))
        };
        let codes = [1, 2, 3].map(|n| Arc::new(Flat::of(&adds(n)).unwrap()));
        assert_eq!(run(&codes[0], true), (End::Done, 15));
        assert_eq!(run(&codes[1], true), (End::Done, 5 + 2 * (5 + 2 * 5)));
        assert_eq!(run(&codes[2], false).0, End::NoCode);
        assert_eq!(run(&codes[2], true).0, End::Done);
        let mut forged = opened.cards[0];
        forged.ticket ^= 1;
        let invalid = |told| matches!(told, Err(NotOpen::Refused(Status::Invalid)));
        assert!(invalid(other.put(&forged, 0, &codes[0])));
        assert!(
            invalid(other.put(&opened.cards[0], 4, &codes[0])),
            "no slot"
        );
        owner.close(&opened.cards[0]).unwrap();
        assert!(invalid(other.put(&opened.cards[0], 0, &codes[0])));
    });
}

#[test]
fn byte_code_is_verified_again() {
    const INVALID: u32 = 2;
    const PUT: u32 = 6;
    beside(LIMITS, || {
        let client = Client::new(NAME).unwrap();
        let card = client.open(1).unwrap().cards[0];
        let told = |code: &[u8]| {
            let answer = say(&put(&card, 1, code)).unwrap();
            u32::from_le_bytes(answer[4..8].try_into().unwrap())
        };
        let good = adds(1).encoded();
        assert_eq!(told(&good), PUT);
        let mut register = good.clone();
        register[8 + 2] = 16;
        let mut uneven = good.clone();
        uneven[8 + 6] = 4;
        let mut quotient = Builder::new(8);
        let a = quotient.load(Side::In, Field::F64, 0);
        let a = quotient.binary(Binary::Div, Wide::F64, a, a);
        quotient.store(Field::F64, 0, a);
        let quotient = quotient.code().unwrap();
        assert!(Program::verify(&quotient).is_ok(), "not for the kernel");
        for code in [
            &[][..],
            &good[..8],
            &good[..good.len() - 1],
            &register,
            &uneven,
            &quotient,
            &wordy(WORDS_MAX / 2 + 1),
            &[0x55; CODE_MAX],
        ] {
            assert_eq!(told(code), INVALID, "{} bytes", code.len());
        }
        assert_eq!(told(&wordy(WORDS_MAX / 2)), PUT, "as many as there may be");
        // Longer than any byte code is: nobody listens to that.
        let long = put(&card, 1, &[0; CODE_MAX + 1]);
        assert_eq!(say(&long), None);
        assert_eq!(
            say(&put(&card, 1 << 32, &good)),
            None,
            "no slot has such a number"
        );
    });
}

#[test]
fn there_is_one_daemon_and_only_here() {
    beside(LIMITS, || {
        let second = Daemon::new(NAME, PORT, LIMITS);
        assert!(matches!(second, Err(NotRunning::Name(_))));
        let second = Daemon::new(b"another", PORT, LIMITS);
        assert!(matches!(second, Err(NotRunning::Port(PORT, _))));
        // In another network namespace there is none.
        apart(|| assert!(matches!(Client::new(NAME), Err(NotOpen::Absent(_)))));
    });
}

#[test]
fn sockets_that_calculate_are_had_without_privilege_and_outlive_connections() {
    beside(LIMITS, || {
        let client = Client::new(NAME).unwrap();
        let socket = match client.calculate() {
            Ok(socket) => socket,
            Err(NotOpen::Refused(Status::NoGroup)) => return world::skipped("no control group"),
            Err(why) => panic!("{why}"),
        };
        let flat = |times| Flat::of(&adds(times)).unwrap();
        for slot in 0..4 {
            client.code(socket.as_fd(), slot, &flat(2)).unwrap();
        }
        let refused = |slot, socket: &dyn AsFd| {
            let told = client.code(socket.as_fd(), slot, &flat(1));
            assert!(matches!(told, Err(NotOpen::Refused(Status::Invalid))));
        };
        refused(4, &socket);
        refused(u32::MAX, &socket);
        // Another socket, and none.
        refused(0, &std::net::UdpSocket::bind("0.0.0.0:0").unwrap());
        refused(0, &std::fs::File::open("/dev/null").unwrap());
        // As many as there may be; those that are closed count no more.
        let mut all = Vec::new();
        let told = loop {
            match client.calculate() {
                Ok(socket) => all.push(socket),
                Err(why) => break why,
            }
        };
        assert!(matches!(told, NotOpen::Refused(Status::Quota)), "{told}");
        assert_eq!(all.len(), 255);
        all.truncate(100);
        all.push(client.calculate().unwrap());
        drop(client);
        let client = Client::new(NAME).unwrap();
        client.code(socket.as_fd(), 0, &flat(3)).unwrap();
    });
}
