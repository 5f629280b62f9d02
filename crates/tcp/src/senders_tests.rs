//! A process that only polls, with a simulated clock: it learns in time that who it waits for is not there.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use layout::Data;
use mtmi::{Context, Cookie, Endpoint, Fabric, Queues, Receive, Source, TagSel};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, getsockname, socket_with};

use crate::address::Address;
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

/// The simulated time after which rank 1 has failed, with a receive posted for it at each of these times and withdrawn at the next.
fn knows_after(posted: &[Duration], limit: Duration) -> Option<Duration> {
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
        tcp.take_events(&mut queues);
        tcp.take_timers(&mut queues, start + time);
        if let Some(failed) = tcp.next_failure() {
            assert_eq!(failed, Endpoint(1));
            assert!(tcp.reason(failed).unwrap().contains("can't be reached"));
            let ended = queues.done.iter().filter(|end| end.cookie == Cookie(1));
            assert_eq!(ended.count(), 1);
            return Some(time);
        }
        time += STEP;
    }
    None
}

/// As `mpiexec` finds a lost host: who is waited for is called within 10 s, and given up after 15 more.
#[test]
fn who_only_polls_learns_that_nobody_is_there() {
    let second = Duration::from_secs(1);
    for begin in [0, 1, 4, 5, 6, 12] {
        let knew = knows_after(&[begin * second], 60 * second);
        let after = knew.map(|knew| knew - begin * second);
        let in_time = |after: Duration| after > 19 * second && after <= 26 * second;
        assert!(after.is_some_and(in_time), "from {begin} s: {after:?}");
    }
}

/// Nobody is called because of a short wait, nor where nothing is waited for.
#[test]
fn short_waits_call_nobody() {
    let second = Duration::from_secs(1);
    assert_eq!(knows_after(&[], 60 * second), None);
    assert_eq!(knows_after(&[second, 6 * second], 60 * second), None);
}
