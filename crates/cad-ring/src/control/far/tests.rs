//! Two processes of different hosts in one, without a ring, and strangers.

use cad_run::State;
use tcp::Config;

use super::super::own::too_few;
use super::super::{Meet, Own};
use super::*;
use crate::lanes::{LANES, Place};
use crate::packet::{BYE, LANE, News, OVER, packet};

const SECRET: [u8; 32] = [7; 32];
const LIMIT: Duration = Duration::from_secs(60);

/// The cards of two processes, as the one sees them: the other's says that it is elsewhere.
fn seen(cards: &[String; 2], rank: usize) -> [String; 2] {
    let mut seen = cards.clone();
    let mut parts: Vec<&str> = cards[1 - rank].split('/').collect();
    parts[2] = "0123456789abcdef";
    seen[1 - rank] = parts.join("/");
    seen
}

/// Two that listen, with what each sees.
fn two_listen() -> [(Own, [String; 2]); 2] {
    let own = [0, 1].map(|_| {
        let mut own = Own::listen().unwrap();
        own.reach(1).unwrap();
        own
    });
    let cards = own.each_ref().map(Own::card);
    assert!(cards.iter().all(|c| c.len() < 400 && !c.contains(' ')));
    let mut rank = 0..;
    own.map(|own| (own, seen(&cards, rank.next().unwrap())))
}

/// Two processes that have met.
fn two() -> [Control; 2] {
    let [(a, of_a), (b, of_b)] = two_listen();
    let b = std::thread::spawn(move || b.join(1, &of_b, Some(SECRET), Meet::AtOnce).unwrap());
    let a = a.join(0, &of_a, Some(SECRET), Meet::AtOnce).unwrap();
    [a, b.join().unwrap()]
}

/// Two processes that have joined and not met.
fn two_apart() -> [Control; 2] {
    let mut rank = 0..;
    two_listen().map(|(own, cards)| {
        let rank = rank.next().unwrap();
        let joined = own.join(rank, &cards, Some(SECRET), Meet::WhenNeeded);
        joined.unwrap()
    })
}

/// As watches would say it, until something holds.
fn look_until(controls: &mut [&mut Control], so: impl Fn(&[&mut Control]) -> bool) {
    let end = Instant::now() + LIMIT;
    while !so(controls) {
        assert!(Instant::now() < end);
        for control in controls.iter_mut() {
            for id in control.watches().collect::<Vec<_>>() {
                control.event(id, true);
            }
            control.catch_up();
        }
        std::thread::yield_now();
    }
}

fn place(channel: u32, peer: u32) -> Place {
    Place {
        channel,
        lane: 1,
        peer,
    }
}

/// A connection to where a process listens.
fn stranger(to: SocketAddr) -> OwnedFd {
    let socket = meeting::dial(&to).unwrap();
    let end = Instant::now() + LIMIT;
    while !meeting::connected(socket.as_fd()).unwrap() {
        assert!(Instant::now() < end);
    }
    socket
}

/// Where the first of the two has met the second.
fn address(a: &Control) -> SocketAddr {
    a.far.as_ref().unwrap().links[&1].at
}

#[test]
fn streams_and_news_get_to_the_other_host() {
    let [mut a, mut b] = two();
    assert!(a.is_far(1) && a.lends_to_far(1) && !b.lends_to_far(0));
    assert!(!a.is_far(0) && a.has_called(1));
    a.dial(place(7, 1), 3).unwrap();
    a.dial(place(7, 1), 3).unwrap();
    a.tell_over(1, 8, 1 << 40, State::Lost);
    look_until(&mut [&mut a, &mut b], |c| {
        (c[0].news.len(), c[1].news.len()) == (1, 2)
    });
    // It is not made again before it was seen.
    a.dial(place(7, 1), 3).unwrap();
    assert_eq!(a.far.as_ref().unwrap().dials.len(), 0);
    let (made, came) = (a.news(), b.news());
    let lane = |news: &[(u32, News)], peer| {
        let of = |(from, news): &(u32, News)| match news {
            News::Lane {
                channel: 7,
                lane: 1,
                from: 3,
                socket,
            } if *from == peer => socket.try_clone().ok(),
            _ => None,
        };
        news.iter().find_map(of).unwrap()
    };
    let (near, far) = (lane(&made, 1), lane(&came, 0));
    rustix::io::write(&near, b"data").unwrap();
    let mut got = [0; 8];
    let end = Instant::now() + LIMIT;
    while recv(&far, &mut got, RecvFlags::DONTWAIT) == Err(Errno::AGAIN) {
        assert!(Instant::now() < end);
    }
    assert_eq!(&got, b"data\0\0\0\0");
    let over = |(_, news): &(u32, News)| {
        matches!(
            news,
            News::Over {
                channel: 8,
                number: 0x100_0000_0000,
                why: State::Lost
            }
        )
    };
    assert!(came.iter().any(over));
}

#[test]
fn the_end_of_a_process_is_heard_of_and_whether_it_was_in_order() {
    for in_order in [true, false] {
        let [mut a, mut b] = two();
        if in_order {
            a.leave();
        }
        drop(a);
        look_until(&mut [&mut b], |c| !c[0].has_called(0));
        assert_eq!(b.newly_lost().is_empty(), in_order);
        assert_eq!(b.news().len(), usize::from(in_order));
        assert!(!b.call(0) && b.linked().is_empty());
    }
}

#[test]
fn who_says_nonsense_is_lost() {
    let mut odd = packet(OVER, State::Lost as u8, 1, 2);
    odd[3] = 1;
    // A stream comes with its own connection.
    for said in [odd, packet(LANE, 0, 1, 2), [0xff; PACKET]] {
        let [mut a, mut b] = two();
        a.say_far(1, said);
        look_until(&mut [&mut b], |c| c[0].is_lost(0));
        assert_eq!(b.newly_lost(), [0]);
        assert!(b.news().is_empty() && !b.has_called(0));
    }
    for said in [packet(LANE, LANES, 1, 2), packet(BYE, 0, 0, 0)] {
        let [a, mut b] = two();
        let note = a.far.as_ref().unwrap().identity.note(1, &said);
        let _socket = {
            let socket = stranger(address(&a));
            rustix::io::write(&socket, &note).unwrap();
            socket
        };
        look_until(&mut [&mut b], |c| c[0].is_lost(0));
        assert!(b.news().is_empty());
    }
}

#[test]
fn only_the_lower_rank_makes_streams() {
    let [mut a, b] = two();
    let said = packet(LANE, 0, 1, 2);
    let note = b.far.as_ref().unwrap().identity.note(0, &said);
    let reception = &a.far.as_ref().unwrap().reception;
    let socket = stranger(reception.candidates(&reception.address())[0]);
    rustix::io::write(&socket, &note).unwrap();
    look_until(&mut [&mut a], |c| c[0].is_lost(1));
    assert!(a.news().is_empty());
}

#[test]
fn strangers_are_bounded_and_in_nobodys_way() {
    let [mut a, mut b] = two();
    let to = address(&a);
    let mut guests: Vec<OwnedFd> = (0..3 * STRANGERS).map(|_| stranger(to)).collect();
    for said in [&b"GET / HTTP/1.0\r\n\r\n"[..], &[0; 200], b"yamanote"] {
        let guest = stranger(to);
        let _ = rustix::io::write(&guest, said);
        guests.push(guest);
    }
    a.dial(place(7, 1), 0).unwrap();
    look_until(&mut [&mut a, &mut b], |c| {
        (c[0].news.len(), c[1].news.len()) == (1, 1)
    });
    let knocks = |c: &Control| c.far.as_ref().unwrap().knocks.len();
    assert!(knocks(&b) <= STRANGERS + 1);
    assert!(b.newly_lost().is_empty() && a.newly_lost().is_empty());
    drop(guests);
    look_until(&mut [&mut b], |c| knocks(c[0]) == 0);
    // Watches of callers that went have to be ended.
    let watched = |w: &&Watched| matches!(w, Watched::Knock(_));
    assert_eq!(b.watched.values().filter(watched).count(), 0);
    assert!(!b.is_lost(0));
}

#[test]
fn callers_come_in_by_turns() {
    let [a, mut b] = two();
    let to = address(&a);
    let knocks = |c: &Control| c.far.as_ref().unwrap().knocks.len();
    let guests: Vec<OwnedFd> = (0..2 * TURN).map(|_| stranger(to)).collect();
    b.accept_far();
    assert_eq!(knocks(&b), TURN);
    // The others are not forgotten, though no watch tells of them.
    assert!(b.is_behind());
    let end = Instant::now() + LIMIT;
    while knocks(&b) < guests.len().min(STRANGERS) || b.is_behind() {
        assert!(Instant::now() < end);
        b.catch_up();
    }
}

#[test]
fn whom_strangers_push_out_before_it_spoke_calls_again() {
    let [mut a, mut b] = two();
    a.dial(place(7, 1), 3).unwrap();
    let knocks = |c: &Control| c.far.as_ref().unwrap().knocks.len();
    // It is there, and its process is in no call.
    look_until(&mut [&mut b], |c| knocks(c[0]) == 1);
    let first = *b.far.as_ref().unwrap().knocks.first_key_value().unwrap().0;
    let to = address(&a);
    let mut guests = Vec::new();
    while b.far.as_ref().unwrap().knocks.contains_key(&first) {
        guests.push(stranger(to));
        b.catch_up();
        b.accept_far();
        assert!(guests.len() < 100 * STRANGERS);
    }
    drop(guests);
    look_until(&mut [&mut a, &mut b], |c| {
        (c[0].news.len(), c[1].news.len()) == (1, 1)
    });
    assert!(!a.is_lost(1) && !b.is_lost(0));
}

#[test]
fn where_descriptors_are_short_strangers_go() {
    let [a, mut b] = two();
    let to = address(&a);
    let _guests: Vec<OwnedFd> = (0..5).map(|_| stranger(to)).collect();
    let knocks = |c: &Control| c.far.as_ref().unwrap().knocks.len();
    look_until(&mut [&mut b], |c| knocks(c[0]) == 5);
    // Who has just come may be about to say something.
    let begin = Instant::now();
    let end = begin + LIMIT;
    while knocks(&b) > 0 {
        assert!(Instant::now() < end);
        b.spare();
    }
    assert!(begin.elapsed() >= GRACE / 2 && !b.is_lost(0));
}

#[test]
fn what_comes_early_is_taken_once() {
    let [mut a, _b] = two();
    let far = a.far.as_mut().unwrap();
    let end = || OwnedFd::from(sys::unix::pair(sys::unix::Kind::Stream).unwrap().0);
    for words in [[1; WORDS], [2; WORDS], [1; WORDS], [1; WORDS]] {
        far.take_early(1, words, end());
    }
    far.take_early(0, [1; WORDS], end());
    far.take_early(2, [1; WORDS], end());
    let came: Vec<(u32, u8)> = far.early.iter().map(|(p, w, _)| (*p, w[0])).collect();
    assert_eq!(came, [(1, 1), (1, 2)], "a host's, and each note once");
}

#[test]
fn an_address_is_tried_again_while_another_is_mute() {
    let mute = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let reception = Reception::open(&Config::default()).unwrap();
    let identity = |me| Identity::new("chains", &Config::default(), SECRET, me, 2);
    let to = reception.candidates(&reception.address())[0];
    let addresses = vec![mute.local_addr().unwrap(), to];
    let mut calls = join::Calls::new(addresses);
    let (mut came, mut answering) = (0, None);
    let end = Instant::now() + LIMIT;
    let met = loop {
        assert!(Instant::now() < end);
        if let Some(met) = calls.go_on(&identity(0), 1) {
            break met;
        }
        if let Some(meeting) = reception.accept(&identity(1)).unwrap() {
            came += 1;
            // The first is dropped, as strangers were too many.
            answering = (came > 1).then_some(meeting);
        }
        if let Some(meeting) = &mut answering {
            let _ = meeting.go_on(&identity(1), |_| true);
        }
    };
    assert_eq!((met.remote(), came), (to, 2));
}

#[test]
fn a_stream_ends_after_the_word_why() {
    let [mut a, mut b] = two();
    a.dial(place(7, 1), 0).unwrap();
    look_until(&mut [&mut a, &mut b], |c| {
        (c[0].news.len(), c[1].news.len()) == (1, 1)
    });
    let socket = |news: Vec<(u32, News)>| match news.into_iter().next() {
        Some((_, News::Lane { socket, .. })) => socket,
        other => panic!("{other:?}"),
    };
    let (near, far) = (socket(a.news()), socket(b.news()));
    // What comes last does not take from the other what came before.
    rustix::io::write(&near, b"data").unwrap();
    rustix::io::write(&far, b"unread").unwrap();
    a.tell_over(1, 7, 1, State::Cancelled);
    a.close_later(1, near);
    let mut end = [0; 8];
    let begin = Instant::now();
    let mut got = 0;
    loop {
        assert!(begin.elapsed() < LIMIT);
        a.catch_up();
        match recv(&far, &mut end[got..], RecvFlags::DONTWAIT) {
            Ok((0, _)) => break,
            Ok((n, _)) => got += n,
            Err(Errno::AGAIN) => {}
            Err(e) => panic!("{e}"),
        }
    }
    assert_eq!(&end[..got], b"data");
    b.hear_all(0);
    assert!(matches!(b.news()[..], [(0, News::Over { channel: 7, .. })]));
    // It is closed when the other end is.
    assert!(a.is_behind());
    drop(far);
    look_until(&mut [&mut a], |c| !c[0].is_behind());
}

#[test]
fn who_has_not_met_the_other_does_when_it_needs_him() {
    let [mut a, mut b] = two_apart();
    assert!(a.is_far(1) && !a.has_called(1) && a.call(1));
    // What is said before comes after.
    a.tell_over(1, 8, 5, State::Lost);
    b.tell_over(0, 9, 6, State::Lost);
    // It is for the other to call.
    b.approach(0);
    assert!(!b.is_behind());
    a.approach(1);
    a.approach(1);
    assert!(a.is_behind());
    look_until(&mut [&mut a, &mut b], |c| {
        (c[0].news.len(), c[1].news.len()) == (1, 1)
    });
    assert!(a.has_called(1) && b.has_called(0) && !a.is_behind());
    drop(b);
    look_until(&mut [&mut a], |c| c[0].is_lost(1));
}

#[test]
fn ranks_of_a_machine_need_two_ports_each() {
    let with = |ports| Config {
        ports,
        ..Config::default()
    };
    let few = |ports, ranks| too_few(&with(ports), ranks);
    assert_eq!(few(None, 9), None);
    assert_eq!(few(Some((50000, 50003)), 2), None);
    assert_eq!(few(Some((50000, 50003)), 3), Some(4));
    assert_eq!(few(Some((0, 65535)), u32::MAX), Some(65536));
}

/// As if all calls had gone on for longer than anybody waits.
fn age_calls(control: &mut Control) {
    for calls in control.far.as_mut().unwrap().calls.values_mut() {
        calls.since -= dial::PATIENCE + LIMIT;
    }
}

#[test]
fn who_is_out_of_reach_for_long_is_lost() {
    let [mut a, b] = two_apart();
    a.approach(1);
    // The other computes, and its host takes the connection.
    while a.far.as_ref().unwrap().calls[&1].is_connecting() {
        a.catch_up();
    }
    age_calls(&mut a);
    a.catch_up();
    assert!(!a.is_lost(1));
    drop(b);
    look_until(&mut [&mut a], |c| {
        c[0].far.as_ref().unwrap().calls[&1].is_connecting()
    });
    age_calls(&mut a);
    look_until(&mut [&mut a], |c| c[0].is_lost(1));
    assert!(!a.is_behind());
}

#[test]
fn who_is_gone_is_not_called_any_more() {
    let [mut a, b] = two_apart();
    drop(b);
    a.approach(1);
    a.catch_up();
    assert!(a.is_behind());
    a.lose(1);
    a.approach(1);
    assert!(!a.is_behind() && !a.call(1));
}

#[test]
fn who_does_not_know_the_secret_is_not_met() {
    let [(a, of_a), (b, of_b)] = two_listen();
    let (reception, config) = b.reception.unwrap();
    let wrong = Identity::new("chains", &config, [8; 32], 1, 2);
    let right = Identity::new("chains", &Config::default(), SECRET, 1, 2);
    let addresses = BTreeMap::from([(0, of_b[0].rsplit('/').next().unwrap().to_owned())]);
    std::thread::scope(|scope| {
        let joined = scope.spawn(|| a.join(0, &of_a, Some(SECRET), Meet::AtOnce));
        // It calls, and calls again.
        let mut refused = 0;
        while refused < 3 {
            let Some(mut meeting) = reception.accept(&wrong).unwrap() else {
                continue;
            };
            let begin = Instant::now();
            loop {
                assert!(begin.elapsed() < LIMIT);
                match meeting.go_on(&wrong, |_| true) {
                    Met::Waits => {}
                    Met::Not(_) => break,
                    met => panic!("{met:?}"),
                }
            }
            refused += 1;
        }
        assert!(!joined.is_finished());
        let far = Far::meet_all(reception, right, 1, addresses);
        assert!(far.is_ok() && joined.join().unwrap().is_ok());
    });
}
