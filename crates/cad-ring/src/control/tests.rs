//! Two processes' control in one, without a ring.

use super::*;

/// Two processes that know each other.
fn two() -> [Control; 2] {
    let own = [0, 1].map(|_| Own::listen().unwrap());
    let cards = own.each_ref().map(Own::card);
    assert!(cards.iter().all(|c| c.len() < 200 && !c.contains(' ')));
    let mut rank = 0..;
    own.map(|o| {
        o.join(rank.next().unwrap(), &cards, None, Meet::AtOnce)
            .ok()
            .unwrap()
    })
}

/// As a watch would say it: somebody calls, or callers have said something.
fn look(control: &mut Control) {
    for id in control.watches().collect::<Vec<_>>() {
        if !matches!(control.watched.get(&id), Some(Watched::Called(_))) {
            control.event(id, true);
        }
    }
}

#[test]
fn news_come_with_whom_they_are_from() {
    let [mut a, mut b] = two();
    let (near, far) = unix::pair(Kind::Stream).unwrap();
    a.lend(1, 7, 1, 3, far.into());
    a.tell_over(1, 8, 1 << 40, State::Lost);
    look(&mut b);
    let news = b.news();
    let [
        (
            0,
            News::Lane {
                channel: 7,
                lane: 1,
                from: 3,
                socket,
            },
        ),
        (0, over),
    ] = &news[..]
    else {
        panic!("{news:?}");
    };
    let lost = News::Over {
        channel: 8,
        number: 1 << 40,
        why: State::Lost,
    };
    assert_eq!(format!("{over:?}"), format!("{lost:?}"));
    rustix::io::write(socket, b"x").unwrap();
    assert_eq!(near.receive(&mut [0; 4], now()).unwrap().bytes, 1);
    assert!(b.newly_lost().is_empty() && a.newly_lost().is_empty());
}

#[test]
fn the_end_of_a_process_is_heard_of_by_both_ways() {
    let [mut a, mut b] = two();
    assert!(a.call(1) && b.call(0));
    look(&mut a);
    look(&mut b);
    drop(a);
    look(&mut b);
    assert_eq!(b.newly_lost(), [0]);
    assert!(b.is_lost(0) && !b.call(0));
    // The caller's watch has to be ended.
    assert_eq!(b.ended().len(), 1);
    let called = b.watched.iter().find(|(_, w)| **w == Watched::Called(0));
    let id = *called.unwrap().0;
    b.event(id, true);
    assert_eq!(b.ended(), [id]);
    assert!(b.newly_lost().is_empty());
}

#[test]
fn nothing_is_lost_on_one_who_does_not_listen() {
    const MANY: u64 = 5000;
    let [mut a, mut b] = two();
    for number in 0..MANY {
        a.tell_over(1, 8, number, State::Lost);
    }
    assert!(a.is_behind() && !a.is_lost(1));
    let mut heard = Vec::new();
    while (heard.len() as u64) < MANY {
        let before = heard.len();
        look(&mut b);
        heard.extend(b.news().into_iter().filter_map(|(_, n)| match n {
            News::Over { number, .. } => Some(number),
            News::Lane { .. } | News::Bye => None,
        }));
        assert!(heard.len() > before);
        a.catch_up();
    }
    assert!(!a.is_behind() && heard.into_iter().eq(0..MANY));
}

#[test]
fn who_leaves_is_not_lost() {
    let [mut a, mut b] = two();
    assert!(b.call(0));
    a.leave();
    drop(a);
    look(&mut b);
    let called = b.watched.iter().find(|(_, w)| **w == Watched::Called(0));
    let id = *called.unwrap().0;
    b.event(id, true);
    assert!(matches!(b.news()[..], [(0, News::Bye)]));
    assert!(b.newly_lost().is_empty() && !b.is_lost(0) && !b.call(0));
    assert!(b.called.is_empty() && b.callers.is_empty());
}

#[test]
fn nobody_is_there_who_does_not_listen() {
    let [mut a, b] = two();
    drop(b);
    assert!(!a.call(1));
    assert_eq!(a.newly_lost(), [1]);
}

#[test]
fn hellos_need_the_secret_and_come_once() {
    let [mut a, b] = two();
    let secret = b.own.secret.clone();
    let hello = |rank: &str, secret: &str| format!("{HELLO} {VERSION} {rank} {secret}");
    assert_eq!(b.hello(hello("0", &secret).as_bytes()), Some(0));
    for wrong in [
        hello("1", &secret),
        hello("2", &secret),
        hello("-1", &secret),
        hello("0", &secret[1..]),
        hello("0", ""),
        hello("0", &secret).replace(VERSION, "0.0.0"),
        hello("0", &secret) + " more",
    ] {
        assert_eq!(b.hello(wrong.as_bytes()), None, "{wrong}");
    }
    assert_eq!(b.hello(&[0xff, 0xfe]), None);
    let mut b = b;
    assert!(a.call(1));
    look(&mut b);
    assert_eq!(b.hello(hello("0", &secret).as_bytes()), None);
}

#[test]
fn cards_of_others_elsewhere_are_refused() {
    let refused = |change: fn(&str) -> String| {
        let own = Own::listen().unwrap();
        let cards = [own.card(), change(&own.card())];
        own.join(0, &cards, None, Meet::AtOnce).err().unwrap()
    };
    assert_eq!(refused(|_| "inline".into()), "rank 1 does not use it");
    let elsewhere = |card: &str| {
        let mut parts: Vec<String> = card.split('/').map(String::from).collect();
        parts[2] = "0123456789abcdef".into();
        parts.join("/")
    };
    assert!(refused(elsewhere).contains("on another machine"));
    let older = |card: &str| card.replace(VERSION, "0.0.0");
    assert!(refused(older).contains("version 0.0.0"));
}

#[test]
fn callers_that_say_nothing_are_bounded() {
    let [_, mut b] = two();
    let name = b.others[1].name.clone();
    let guests: Vec<Socket> = (0..2 * STRANGERS)
        .map(|_| unix::connect(name.as_bytes(), Kind::Packets, sys::clock::after(CALL)).unwrap())
        .collect();
    look(&mut b);
    assert!(b.callers.len() <= STRANGERS + 2);
    drop(guests);
    look(&mut b);
    assert!(b.callers.is_empty() && b.newly_lost().is_empty());
}
