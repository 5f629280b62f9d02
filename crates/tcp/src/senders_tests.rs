//! A process that only polls, with a simulated clock: it calls who it waits for in time, and so learns if nobody is there.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use layout::Data;
use mtmi::{Context, Cookie, Endpoint, Queues, Receive, Source, TagSel};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, getsockname, socket_with};

use crate::address::Address;
use crate::dial::PATIENCE;
use crate::senders::LOOK;
use crate::timers::Timer;
use crate::{Config, Tcp};

/// Between two looks of the program.
const STEP: Duration = Duration::from_millis(250);
const CONTEXT: Context = Context(1);
const TAG: TagSel = TagSel::Exact(1);

/// Rank 0 of two, with a peer whose port refuses: it is held by the socket, which does not listen.
fn alone() -> (Tcp, OwnedFd) {
    let kind = (AddressFamily::INET, SocketType::STREAM);
    let held = socket_with(kind.0, kind.1, SocketFlags::CLOEXEC, None).unwrap();
    let ip = IpAddr::V4(Ipv4Addr::LOCALHOST);
    bind(&held, &SocketAddr::new(ip, 0)).unwrap();
    let name = SocketAddr::try_from(getsockname(&held).unwrap()).unwrap();
    let address = Address {
        port: name.port(),
        stack: 0,
        loopback: false,
        ips: vec![ip],
    };
    let listening = Tcp::listen(Config::default()).unwrap();
    let addresses = [None, Some(address.encode())];
    let tcp = listening.join(Endpoint(0), 2, &addresses, [7; 32]);
    (tcp, held)
}

/// The simulated time at which rank 1 is called, with a receive posted for it at the first of these times, withdrawn at the next, and
/// so on.
fn called_at(posted: &[Duration], limit: Duration) -> Option<Duration> {
    let (mut tcp, _held) = alone();
    let mut queues = Queues::default();
    let (start, mut time) = (Instant::now(), Duration::ZERO);
    let (mut posted, mut is_posted) = (posted.iter().peekable(), false);
    while time <= limit {
        if posted.next_if(|at| **at <= time).is_some() {
            is_posted = !is_posted;
            let cookie = Cookie(1);
            if is_posted {
                let data = Data::bytes(boundary::UserBuf::NULL, 0);
                let from = Source::From(Endpoint(1));
                let receive = Receive { data, cookie };
                queues.posted.post(from, CONTEXT, TAG, receive);
            } else {
                queues.withdraw_receive(cookie).unwrap();
            }
        }
        // Calls have timers by the true clock, which are none of this test's business.
        while let Some(timer) = tcp.timers.rung(start + time) {
            if timer == Timer::Senders {
                tcp.senders_timer(&mut queues, start + time);
            }
        }
        if tcp.routes[1].dial.is_some() {
            return Some(time);
        }
        time += STEP;
    }
    None
}

/// Who is waited for is called within 10 s, although nobody sleeps or waits, and from then on a call's own patience counts.
#[test]
fn who_is_polled_for_is_called() {
    let second = Duration::from_secs(1);
    for begin in [0, 1, 4, 5, 6, 12] {
        let called = called_at(&[begin * second], 60 * second);
        let after = called.map(|at| at - begin * second);
        let in_time = |after: Duration| after >= 5 * second && after <= 10 * second;
        assert!(after.is_some_and(in_time), "from {begin} s: {after:?}");
    }
    // Together with a call's last look at the clock, which it takes every second.
    assert!(2 * LOOK + PATIENCE + second <= 26 * second);
}

/// Nobody is called because of a short wait, nor where nothing is waited for.
#[test]
fn short_waits_call_nobody() {
    let second = Duration::from_secs(1);
    assert_eq!(called_at(&[], 60 * second), None);
    assert_eq!(called_at(&[second, 6 * second], 60 * second), None);
    assert_eq!(
        called_at(&[second, 6 * second, 7 * second], 9 * second),
        None
    );
}
