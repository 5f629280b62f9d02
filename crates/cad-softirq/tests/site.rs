//! Two daemons of one site, on hosts with a cable between them: contexts of both, and what strangers get.

mod world;

use cad_softirq::client::{Client, NotOpen, Offered, Status};
use cad_softirq::daemon::{Daemon, Limits};
use cad_softirq::layout::{Op, Type};
use cad_softirq::rank::{End, Member, Part, Waker};
use cad_softirq::site::{Key, TOKEN};
use cad_softirq::tables::Counts;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, Protocol, SocketFlags, SocketType, socket_with};
use std::net::UdpSocket;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, mpsc};
use std::time::{Duration, Instant};
use world::cable::{self, CABLE, Host, NAMES};
use world::{LIMIT, PORT};

const NAME: &[u8] = b"kaccd of a site";
const SECRET: &[u8] = b"a secret of thirty-two bytes, or";
const PROCESSES: u32 = 2;
const ROUNDS: u64 = 200;

/// What a daemon is asked from outside of it: what an entry's counts are.
type Question = (u32, mpsc::Sender<Option<Counts>>);

/// A host with a daemon that is of a site.
struct Site<'a> {
    host: &'a Host,
    client: Client,
    ask: Mutex<mpsc::Sender<Question>>,
}

impl Site<'_> {
    fn counts(&self, entry: u32) -> Counts {
        let (to, from) = mpsc::channel();
        self.ask.lock().unwrap().send((entry, to)).unwrap();
        from.recv_timeout(LIMIT).unwrap().unwrap()
    }

    /// Waits until so many were counted.
    fn counted(&self, entry: u32, what: fn(Counts) -> u64, least: u64) {
        let begin = Instant::now();
        while what(self.counts(entry)) < least {
            assert!(begin.elapsed() < LIMIT, "{:?}", self.counts(entry));
        }
    }

    fn offer(&self) -> Offered {
        let me = self.host.me as u32;
        let offered = self.client.offer(PROCESSES, me, 2);
        offered.unwrap_or_else(|e| panic!("{e}"))
    }

    /// Both hosts' tokens, in order.
    fn exchange(&self, token: &[u8]) -> Vec<u8> {
        let other = self.host.tell(token);
        match self.host.me {
            0 => [token, &other].concat(),
            _ => [&other, token].concat(),
        }
    }

    fn members(&self, offered: &Offered) -> Vec<Member> {
        let tokens = self.exchange(&offered.token[..]);
        let page = self.client.bind(&offered.cards[0], &tokens);
        let page = page.unwrap_or_else(|e| panic!("{e}"));
        // Another process gets the page by its card.
        let other = self.client.join(&offered.cards[1]).unwrap();
        let pages = [page, other];
        let pairs = offered.cards.iter().zip(&pages);
        let members = pairs.map(|(card, page)| Member::new(card, page.as_fd()).unwrap());
        let members = members.collect();
        self.host.meet(0);
        members
    }

    /// A sum of all.
    fn sum(&self, members: &mut [Member], round: u64) {
        self.start(members, round);
        finish(members);
        let mut sum = [0; 8];
        assert_eq!(members[1].result(&mut sum), Some(End::Done));
        assert_eq!(u64::from_le_bytes(sum), round * (1 + 2 + 11 + 12));
    }

    fn start(&self, members: &mut [Member], round: u64) {
        for (process, member) in (1..).zip(members) {
            let part = (round * (10 * self.host.me as u64 + process)).to_le_bytes();
            let part = Part::Reduce(Op::Sum, Type::U64, &part);
            member.start(part).unwrap();
        }
    }
}

/// Waits until it is over, saying the starts again.
fn finish(members: &[Member]) {
    let (begin, mut last) = (Instant::now(), Instant::now());
    while !members.iter().all(Member::is_over) {
        assert!(begin.elapsed() < LIMIT, "it does not end");
        if last.elapsed() > Duration::from_millis(2) {
            last = Instant::now();
            for member in members.iter().filter(|m| !m.is_over()) {
                member.again().unwrap();
            }
        }
    }
}

/// Two hosts do this, each beside a daemon with such a key that may use these interfaces.
fn sites(six: bool, keys: [&[u8]; 2], names: [&str; 2], run: impl Fn(&Site<'_>) + Sync) {
    cable::beside(six, |host| {
        let limits = Limits::default();
        let names = [names[host.me].to_owned()];
        let daemon = Daemon::new(NAME, PORT, limits);
        let daemon = daemon.and_then(|d| d.of_site(Key::new(keys[host.me]), &names));
        let mut daemon = daemon.unwrap_or_else(|e| panic!("{e}"));
        let (ask, asked) = mpsc::channel::<Question>();
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let ended = &over;
            scope.spawn(move || {
                while !ended.load(Ordering::Relaxed) {
                    daemon.step(Duration::from_millis(5));
                    for (entry, to) in asked.try_iter() {
                        to.send(daemon.counts(entry)).unwrap();
                    }
                }
            });
            let _end = Ends(&over);
            let client = Client::new(NAME).unwrap();
            let ask = Mutex::new(ask);
            run(&Site { host, client, ask });
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

fn combine(site: &Site<'_>) {
    // The entries are others on the two hosts.
    let _other = (site.host.me == 1).then(|| site.client.open(5).unwrap());
    let offered = [site.offer(), site.offer()];
    let mut all = offered.each_ref().map(|offered| site.members(offered));
    for round in 1..=ROUNDS {
        for members in &mut all {
            site.sum(members, round);
        }
    }
    for offered in &offered {
        let counts = site.counts(offered.cards[0].entry);
        assert!(counts.done == ROUNDS && counts.sent >= ROUNDS, "{counts:?}");
        assert_eq!((counts.unsent, counts.forged), (0, 0));
    }
}

#[test]
fn daemons_of_a_site_have_contexts_of_both() {
    sites(false, [SECRET; 2], NAMES, combine);
}

#[test]
fn they_have_them_over_ipv6() {
    sites(true, [SECRET; 2], NAMES, combine);
}

#[test]
fn they_have_them_over_a_lossy_cable() {
    sites(false, [SECRET; 2], NAMES, |site| {
        let _lossy = world::lossy_at(CABLE);
        combine(site);
    });
}

#[test]
fn they_know_each_other() {
    sites(false, [SECRET; 2], NAMES, |site| {
        let known = site.client.who().unwrap();
        let told = [known.host, known.site.unwrap()].map(u64::to_le_bytes);
        let other = site.host.tell(&told.concat());
        assert_eq!(other[8..], told[1], "one site");
        assert_ne!(other[..8], told[0], "two hosts");
        assert_eq!(site.client.interfaces().unwrap(), [CABLE]);
    });
}

fn refused<T: std::fmt::Debug>(told: Result<T, NotOpen>) -> Status {
    match told {
        Err(NotOpen::Refused(status)) => status,
        other => panic!("{other:?}"),
    }
}

#[test]
fn another_sites_offer_is_refused() {
    let other = b"another one, of thirty-two bytes";
    sites(false, [SECRET, other], NAMES, |site| {
        let known = site.client.who().unwrap();
        let mine = known.site.unwrap().to_le_bytes();
        assert_ne!(site.host.tell(&mine), mine);
        let offered = site.offer();
        let tokens = site.exchange(&offered.token[..]);
        let told = site.client.bind(&offered.cards[0], &tokens);
        assert_eq!(refused(told), Status::Foreign);
    });
}

#[test]
fn only_what_all_hosts_offer_now_is_taken() {
    sites(false, [SECRET; 2], NAMES, |site| {
        let [old, offered] = [site.offer(), site.offer()];
        let card = offered.cards[0];
        let told = |tokens: &[u8]| refused(site.client.bind(&card, tokens));
        let before = site.exchange(&old.token[..]);
        let tokens = site.exchange(&offered.token[..]);
        let (first, second) = tokens.split_at(TOKEN);
        assert_eq!(told(&before), Status::Foreign, "mine is not among them");
        for tokens in [
            &[][..],
            first,
            second,
            &[second, first].concat(),
            &[first, first].concat(),
            &[first, second, second].concat(),
            &tokens[..2 * TOKEN - 1],
            &[first, &[0; TOKEN]].concat(),
        ] {
            assert_eq!(told(tokens), Status::Foreign, "{}", tokens.len());
        }
        for at in (0..2 * TOKEN).step_by(7) {
            let mut changed = tokens.clone();
            changed[at] ^= 1;
            assert_eq!(told(&changed), Status::Foreign, "byte {at}");
        }
        let mut other = card;
        other.entry += 1000;
        let absent = site.client.bind(&other, &tokens);
        assert_eq!(refused(absent), Status::Invalid);
        site.client.bind(&card, &tokens).unwrap();
        assert_eq!(told(&tokens), Status::Invalid, "once");
        for (processes, host, hosts) in [(0, 0, 2), (1, 2, 2), (1, 0, 1), (1, 0, 129), (1024, 0, 2)]
        {
            let told = site.client.offer(processes, host, hosts);
            assert_eq!(refused(told), Status::Invalid);
        }
    });
}

#[test]
fn only_interfaces_that_it_may_use_are_used() {
    // Host 1 has the cable too, and may not use it.
    sites(false, [SECRET; 2], [NAMES[0], "lo"], |site| {
        let offered = site.offer();
        let tokens = site.exchange(&offered.token[..]);
        let told = site.client.bind(&offered.cards[0], &tokens);
        assert_eq!(refused(told), Status::NoWay);
    });
}

#[test]
fn a_daemon_without_a_key_is_alone() {
    sites(false, [SECRET; 2], NAMES, |site| {
        let mut daemon = Daemon::new(b"another", PORT + 1, Limits::default()).unwrap();
        let client = Client::new(b"another").unwrap();
        let stepping = std::thread::scope(|scope| {
            scope.spawn(|| (0..3).for_each(|_| daemon.step(LIMIT)));
            let known = client.who().unwrap();
            (known.site, refused(client.offer(1, 0, 2)))
        });
        assert_eq!(stepping, (None, Status::Alone));
        let nothing = Daemon::new(b"a third", PORT + 2, Limits::default()).unwrap();
        let told = nothing.of_site(Key::new(SECRET), &["nothing".to_owned()]);
        assert!(told.is_err_and(|why| why.to_string().contains("interface nothing")));
        site.host.meet(0);
    });
}

#[test]
fn what_one_host_held_back_is_not_waited_for_by_another_context() {
    sites(false, [SECRET; 2], NAMES, |site| {
        // Host 1 is given an old offer of host 0's: the keys differ.
        let [old, offered] = [site.offer(), site.offer()];
        let others = site.exchange(&old.token[..]);
        let mut tokens = site.exchange(&offered.token[..]);
        if site.host.me == 1 {
            tokens[..TOKEN].copy_from_slice(&others[..TOKEN]);
        }
        let page = site.client.bind(&offered.cards[0], &tokens).unwrap();
        let cards = offered.cards.iter();
        let members = cards.map(|card| Member::new(card, page.as_fd()).unwrap());
        let mut members: Vec<_> = members.collect();
        site.host.meet(0);
        site.start(&mut members, 1);
        for _ in 0..20 {
            std::thread::sleep(Duration::from_millis(1));
            members[0].again().unwrap();
        }
        site.host.meet(0);
        assert!(!members[0].is_over());
        assert_eq!(site.counts(offered.cards[0].entry).done, 0);
    });
}

#[test]
fn what_is_left_ends_when_nobody_lacks_a_result() {
    sites(false, [SECRET; 2], NAMES, |site| {
        let offered = site.offer();
        let card = offered.cards[0];
        let mut members = site.members(&offered);
        site.sum(&mut members, 1);
        site.host.meet(0);
        // Host 1 enters the last one when host 0 has left already.
        if site.host.me == 1 {
            site.host.meet(0);
        }
        members
            .iter_mut()
            .for_each(|m| m.start(Part::Nothing).unwrap());
        site.client.leave(&card, members[0].number()).unwrap();
        let is_there = || site.client.join(&card).is_ok();
        if site.host.me == 0 {
            assert!(is_there(), "host 1 may lack the first one's result");
            site.host.meet(0);
        }
        site.host.meet(0);
        let begin = Instant::now();
        while is_there() {
            assert!(begin.elapsed() < LIMIT);
            // It is looked at when something is wanted.
            drop(site.client.open(1).map(|o| site.client.close(&o.cards[0])));
        }
    });
}

/// Each host's processes wait for the other's in turn, asleep.
fn wake(site: &Site<'_>) {
    let waker = Waker::new().unwrap();
    let offered = site.offer();
    let mut members = site.members(&offered);
    for round in 1..=20 {
        let sleeps = round % 2 == site.host.me as u64;
        if !sleeps {
            site.host.meet(0);
        }
        site.start(&mut members, round);
        if sleeps {
            for member in &members {
                waker.ask(member).unwrap();
            }
            site.host.meet(0);
            assert!(woken(&waker), "nothing came");
            assert!(members.iter().all(Member::is_over), "too early");
            // Of each member one comes.
            let (mut came, begin) = (0, Instant::now());
            while came < PROCESSES as u64 {
                came += waker.drain();
                assert!(begin.elapsed() < LIMIT, "{came} came");
            }
        }
        finish(&members);
        site.host.meet(0);
        assert_eq!(waker.drain(), 0);
    }
}

/// Whether something has come to a waker, soon or at all.
fn woken(waker: &Waker) -> bool {
    let mut fds = [PollFd::new(waker, PollFlags::IN)];
    let limit = Timespec::try_from(LIMIT).unwrap();
    poll(&mut fds, Some(&limit)).unwrap() == 1
}

#[test]
fn who_sleeps_is_woken_by_another_hosts_packet() {
    sites(false, [SECRET; 2], NAMES, wake);
}

#[test]
fn who_sleeps_is_woken_over_ipv6() {
    sites(true, [SECRET; 2], NAMES, wake);
}

/// A socket for whole packets of the cable, which sees those that leave too.
fn tap() -> OwnedFd {
    let all = std::num::NonZeroU32::new(u32::from((libc::ETH_P_ALL as u16).to_be()));
    let (flags, protocol) = (SocketFlags::CLOEXEC, all.map(Protocol::from_raw));
    let fd = socket_with(AddressFamily::PACKET, SocketType::RAW, flags, protocol).unwrap();
    // SAFETY: all zeros is a value of this structure.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
    address.sll_ifindex = CABLE as i32;
    let length = size_of_val(&address) as libc::socklen_t;
    // SAFETY: the address is as long as told.
    let bound = unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), length) };
    assert_eq!(bound, 0);
    let timeout = Some(LIMIT);
    rustix::net::sockopt::set_socket_timeout(&fd, rustix::net::sockopt::Timeout::Recv, timeout)
        .unwrap();
    fd
}

/// The next packet of ours on the cable.
fn ours(tap: &OwnedFd) -> Vec<u8> {
    loop {
        let mut bytes = vec![0; 2000];
        let (got, _) =
            rustix::net::recv(tap, &mut bytes[..], rustix::net::RecvFlags::empty()).unwrap();
        bytes.truncate(got);
        if bytes.get(42..46) == Some(b"ymb\x01") {
            return bytes;
        }
    }
}

#[test]
fn what_is_forged_or_said_again_is_dropped_and_counted() {
    sites(false, [SECRET; 2], NAMES, |site| {
        let offered = site.offer();
        let entry = offered.cards[0].entry;
        let tap = tap();
        let mut members = site.members(&offered);
        site.sum(&mut members, 1);
        if site.host.me == 1 {
            // Its own packet of the first round, as anybody on the cable may have seen it.
            let up = ours(&tap);
            site.host.meet(0);
            let socket = UdpSocket::bind((site.host.address(1), 0)).unwrap();
            let to = (site.host.address(0), PORT);
            let send = |frame: &[u8]| {
                let flags = rustix::net::SendFlags::empty();
                rustix::net::send(&tap, frame, flags).unwrap();
            };
            for _ in 0..5 {
                send(&up);
                // With another number, operation or contribution, and what a process can send.
                for at in [42 + 24, 42 + 32, up.len() - 1, 42 + 40] {
                    let mut forged = up.clone();
                    forged[at] ^= 2;
                    send(&forged);
                    socket.send_to(&forged[42..], to).unwrap();
                }
            }
            site.host.meet(0);
        } else {
            let before = site.counts(entry);
            site.host.meet(0);
            site.host.meet(0);
            site.counted(entry, |c| c.forged, before.forged + 40);
            site.counted(entry, |c| c.repeated, before.repeated + 5);
            assert_eq!(site.counts(entry).done, 1);
        }
        site.host.meet(0);
        for round in 2..10 {
            site.sum(&mut members, round);
        }
        assert_eq!(site.counts(entry).done, 9);
    });
}
