//! Processes of other hosts: what is said to them, and the streams to them.
//!
//! All that will ever talk make a connection each when they join ([`Far::meet_all`]), as later one of two may be computing
//! and could not answer; or, where joining may not wait, when the first plan needs both, which then moves in calls only until they have met. It
//! carries packets both ways and tells of the other's end, also of its host's. The streams for data are further
//! connections, which the process of lower rank makes to where it has met the other, and which begin with a note that holds the packet of
//! a stream that is lent: the other's kernel takes them, be that process in a call or not.
//!
//! Invariants: nothing waits, after all have joined; what a stranger can make this process keep is bounded; a stream that an issue has failed
//! on ends after the packet that says so has reached the other host, so whoever finds the end can know why.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown, recv, send, shutdown};
use tcp::meeting::{self, Identity, Meeting, Met, Reception, WORDS};

use super::{Control, NEWS_MAX, Watched};
use crate::headroom;
use crate::packet::{PACKET, lane_from_afar, news};

/// Callers beyond the number of processes that are kept while they have proved nothing; then the oldest goes. One that means it calls
/// again (`dial`).
const STRANGERS: usize = 256;
/// How long one that has come may take to say who it is before it goes for want of descriptors.
const GRACE: Duration = Duration::from_millis(200);
/// Streams that are kept while this process joins. Those that lend are in their first collectives then.
const EARLY_MAX: usize = 1 << 12;
/// Callers that are let in before others have their turn.
const TURN: usize = 64;
/// How long the end of a stream waits for the other host.
const CLOSING: Duration = Duration::from_secs(2);
/// Bytes that are thrown away at a time of what comes on such a stream, and how often at once.
const DRAIN: usize = 1 << 16;
const DRAINS: usize = 16;

mod dial;
mod join;

use dial::Dials;
use join::Calls;

const _: () = assert!(WORDS == PACKET);

/// The connection to a process.
struct Link {
    socket: OwnedFd,
    /// Where it was called; nobody's address if it called.
    at: SocketAddr,
    /// What has come of the next packet.
    heard: [u8; PACKET],
    filled: usize,
    unsaid: VecDeque<u8>,
}

/// A stream that is not used any more.
struct Closing {
    peer: u32,
    socket: OwnedFd,
    /// Whether the other end was told.
    shut: bool,
    until: Instant,
}

/// What this process has to do with those of other hosts.
pub(crate) struct Far {
    rank: u32,
    identity: Identity,
    reception: Reception,
    /// Which ranks are on other hosts, and where they said that they listen.
    addresses: BTreeMap<u32, String>,
    links: BTreeMap<u32, Link>,
    /// Those whom this process calls as it needs them.
    calls: BTreeMap<u32, Calls>,
    /// What is to be said to those whom it hasn't met.
    unsaid: BTreeMap<u32, VecDeque<u8>>,
    /// Callers that have proved nothing, by the numbers of their watches.
    knocks: BTreeMap<u32, Knock>,
    dials: Dials,
    closing: Vec<Closing>,
    /// What came before this process had joined.
    early: Vec<(u32, [u8; WORDS], OwnedFd)>,
    /// Whether callers may wait whom no watch tells of: for lack of descriptors, or since others had their turn.
    crowded: bool,
}

/// A caller that has proved nothing.
struct Knock {
    meeting: Meeting,
    since: Instant,
}

impl Far {
    /// Keeps a caller; whether there are too many strangers now.
    fn take_in(&mut self, id: u32, meeting: Meeting) -> bool {
        let since = Instant::now();
        self.knocks.insert(id, Knock { meeting, since });
        self.knocks.len() > self.addresses.len() + STRANGERS
    }

    /// The oldest of those that have proved nothing, if it has had so much time.
    fn oldest(&self, grace: Duration) -> Option<u32> {
        let (&id, oldest) = self.knocks.iter().min_by_key(|(_, knock)| knock.since)?;
        (oldest.since.elapsed() >= grace).then_some(id)
    }

    /// Keeps what came before this process had joined, each note once: whoever heard it may repeat it.
    fn take_early(&mut self, peer: u32, words: [u8; WORDS], socket: OwnedFd) {
        let again = self.early.iter().any(|(p, w, _)| (*p, *w) == (peer, words));
        if self.has(peer) && !again && self.early.len() < EARLY_MAX {
            self.early.push((peer, words, socket));
        }
    }

    /// Whether a process is on another host.
    pub fn has(&self, peer: u32) -> bool {
        self.addresses.contains_key(&peer)
    }
}

impl Link {
    fn new(meeting: Meeting) -> Link {
        Link {
            at: meeting.remote(),
            socket: meeting.into_socket(),
            heard: [0; PACKET],
            filled: 0,
            unsaid: VecDeque::new(),
        }
    }

    /// The next packet; `None` if it hasn't come whole.
    fn hear(&mut self) -> io::Result<Option<[u8; PACKET]>> {
        loop {
            let room = &mut self.heard[self.filled..];
            match recv(&self.socket, room, RecvFlags::DONTWAIT) {
                Ok((0, _)) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok((n, _)) => self.filled += n,
                Err(Errno::AGAIN) => return Ok(None),
                Err(Errno::INTR) => {}
                Err(e) => return Err(e.into()),
            }
            if self.filled == PACKET {
                self.filled = 0;
                return Ok(Some(self.heard));
            }
        }
    }

    /// Says what is still to be said, as far as its socket takes it.
    fn speak(&mut self) -> io::Result<()> {
        while !self.unsaid.is_empty() {
            let (bytes, _) = self.unsaid.as_slices();
            match send(
                &self.socket,
                bytes,
                SendFlags::DONTWAIT | SendFlags::NOSIGNAL,
            ) {
                Ok(n) => drop(self.unsaid.drain(..n)),
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(e) => return Err(e.into()),
            }
        }
        Ok(())
    }

    /// Whether the other host has all that was said.
    fn has_said_all(&self) -> bool {
        self.unsaid.is_empty() && meeting::confirmed(self.socket.as_fd())
    }
}

impl Closing {
    /// Whether there is more to do; `link` is the connection to the process, if it is there.
    fn goes_on(&mut self, link: Option<&Link>) -> bool {
        let late = Instant::now() >= self.until;
        if !self.shut {
            if !late && link.is_some_and(|link| !link.has_said_all()) {
                return true;
            }
            // Not closed: what comes to a closed socket makes its host forget what it has not sent yet.
            self.shut = shutdown(&self.socket, Shutdown::Write).is_ok();
        }
        let mut waste = [0; DRAIN];
        for _ in 0..DRAINS {
            match recv(&self.socket, &mut waste, RecvFlags::DONTWAIT) {
                Ok((n, _)) if n > 0 => {}
                Err(Errno::AGAIN | Errno::INTR) => break,
                _ => return false,
            }
        }
        self.shut && !late
    }
}

impl Control {
    /// Whether a process is on another host.
    pub fn is_far(&self, peer: u32) -> bool {
        self.far.as_ref().is_some_and(|far| far.has(peer))
    }

    /// Whether this process makes the streams to one of another host.
    pub fn lends_to_far(&self, peer: u32) -> bool {
        self.rank < peer
    }

    /// Leaves off calling a process that is gone.
    pub(super) fn stop_calling(&mut self, peer: u32) {
        if let Some(far) = &mut self.far {
            far.calls.remove(&peer);
            far.unsaid.remove(&peer);
        }
    }

    /// Begins to watch what processes of other hosts do.
    pub(super) fn watch_far(&mut self) {
        let Some(far) = &mut self.far else { return };
        let early = std::mem::take(&mut far.early);
        let links: Vec<u32> = far.links.keys().copied().collect();
        let knocks: Vec<Knock> = std::mem::take(&mut far.knocks).into_values().collect();
        self.begin_watch(Watched::Reception);
        for peer in links {
            self.begin_watch(Watched::Link(peer));
        }
        for (peer, words, socket) in early {
            self.lane_came(peer, &words, socket);
        }
        for knock in knocks {
            self.knocks(knock.meeting);
        }
    }

    /// A caller has come.
    fn knocks(&mut self, meeting: Meeting) {
        let id = self.next_watch();
        let Some(far) = &mut self.far else { return };
        let many = far.take_in(id, meeting);
        self.begin_watch(Watched::Knock(id));
        if many {
            self.send_away(Duration::ZERO);
        }
        self.hear_knock(id);
    }

    /// Lets callers of other hosts in: some, as strangers may come without end.
    pub(super) fn accept_far(&mut self) {
        for _ in 0..TURN {
            let Some(far) = &mut self.far else { return };
            let came = far.reception.accept(&far.identity);
            far.crowded = came.is_err();
            match came {
                Ok(Some(meeting)) => {
                    headroom::keep(&meeting);
                    self.knocks(meeting);
                }
                Ok(None) => return,
                Err(_) if self.spare() => {}
                Err(_) => return,
            }
        }
        if let Some(far) = &mut self.far {
            far.crowded = true;
        }
    }

    /// Gives back a descriptor that a stranger has, if there is one. Whether that was so.
    pub fn spare(&mut self) -> bool {
        self.send_away(GRACE)
    }

    /// Hangs up on the oldest of those that have proved nothing, if it has had so much time. What has come of it is heard first: it may be
    /// the proof, which this process was not in a call to read. Whether one went.
    fn send_away(&mut self, grace: Duration) -> bool {
        let Some(id) = self.far.as_ref().and_then(|far| far.oldest(grace)) else {
            return false;
        };
        self.hear_knock(id);
        let gone = self.far.as_mut().and_then(|far| far.knocks.remove(&id));
        if gone.is_some() {
            self.end_watch(Watched::Knock(id));
        }
        gone.is_some()
    }

    /// A caller has said something.
    pub(super) fn hear_knock(&mut self, id: u32) {
        let Some(far) = &mut self.far else { return };
        let Some(mut knock) = far.knocks.remove(&id) else {
            return;
        };
        let identity = far.identity.clone();
        let met = knock.meeting.go_on(&identity, |p| self.is_welcome(p));
        match met {
            Met::Waits => {
                if let Some(far) = &mut self.far {
                    far.knocks.insert(id, knock);
                }
                return;
            }
            Met::Noted(peer, words) => {
                self.lane_came(peer, &words, knock.meeting.into_socket());
            }
            Met::With(peer) => self.met(peer, knock.meeting),
            Met::Not(_) => {}
        }
        self.end_watch(Watched::Knock(id));
    }

    /// A process of another host has lent a stream.
    fn lane_came(&mut self, peer: u32, words: &[u8; WORDS], socket: OwnedFd) {
        if !self.is_far(peer) || self.is_lost(peer) {
            return;
        }
        match lane_from_afar(words, socket) {
            // If this process lends, the peer does not.
            Some(news) if self.news.len() < NEWS_MAX && !self.lends_to_far(peer) => {
                self.news.push((peer, news));
            }
            _ => self.shun(peer),
        }
    }

    /// Reads all that a process of another host has said.
    pub(super) fn hear_link(&mut self, peer: u32) {
        loop {
            let link = self.far.as_mut().and_then(|far| far.links.get_mut(&peer));
            let Some(link) = link else { return };
            match link.hear() {
                Ok(Some(packet)) => match news(&packet, None) {
                    Some(news) if self.news.len() < NEWS_MAX => self.takes(peer, news),
                    _ => return self.end_link(peer),
                },
                Ok(None) => return,
                Err(_) => return self.end_link(peer),
            }
        }
    }

    /// A process of another host is not there any more, or talks nonsense.
    pub(super) fn end_link(&mut self, peer: u32) {
        let Some(far) = &mut self.far else { return };
        if far.links.remove(&peer).is_some() {
            self.end_watch(Watched::Link(peer));
            self.lose(peer);
        }
    }

    /// Whether there is a connection to a process of another host.
    pub(super) fn has_link(&self, peer: u32) -> bool {
        let far = self.far.as_ref();
        far.is_some_and(|far| far.links.contains_key(&peer))
    }

    /// Says something to a process of another host.
    pub(super) fn say_far(&mut self, peer: u32, packet: [u8; PACKET]) {
        let gone = self.is_lost(peer) || self.left.contains(&peer);
        let Some(far) = &mut self.far else { return };
        match far.links.get_mut(&peer) {
            Some(link) => {
                link.unsaid.extend(packet);
                self.speak_far(peer);
            }
            None if gone => {}
            None => far.unsaid.entry(peer).or_default().extend(packet),
        }
    }

    fn speak_far(&mut self, peer: u32) {
        let link = self.far.as_mut().and_then(|far| far.links.get_mut(&peer));
        if link.is_some_and(|link| link.speak().is_err()) {
            // What it said last comes first.
            self.hear_link(peer);
            self.end_link(peer);
        }
    }

    /// Lets go of a stream on which an issue has failed, after the process at the other end was told.
    pub fn close_later(&mut self, peer: u32, socket: OwnedFd) {
        if let Some(far) = self.far.as_mut().filter(|far| far.has(peer)) {
            far.closing.push(Closing {
                peer,
                socket,
                shut: false,
                until: Instant::now() + CLOSING,
            });
            self.catch_up_far();
        }
    }

    /// Whether the job has other hosts.
    #[inline]
    pub(super) fn has_far(&self) -> bool {
        self.far.is_some()
    }

    /// Whether something is still to be said to other hosts, or to be closed there.
    pub(super) fn is_behind_far(&self) -> bool {
        self.far.as_ref().is_some_and(|far| {
            far.crowded
                || far.dials.is_behind()
                || !far.calls.is_empty()
                || !far.closing.is_empty()
                || far.links.values().any(|link| !link.unsaid.is_empty())
        })
    }

    /// Tries again what could not be done at once.
    pub(super) fn catch_up_far(&mut self) {
        if self.far.as_ref().is_some_and(|far| far.crowded) {
            self.accept_far();
        }
        self.go_on_calling();
        self.dial_again();
        let Some(far) = &self.far else { return };
        let unsaid = far.links.iter().filter(|(_, l)| !l.unsaid.is_empty());
        let unsaid: Vec<u32> = unsaid.map(|(&peer, _)| peer).collect();
        for peer in unsaid {
            self.speak_far(peer);
        }
        if let Some(far) = &mut self.far {
            let links = &far.links;
            far.closing.retain_mut(|c| c.goes_on(links.get(&c.peer)));
        }
    }

    /// Whether all hosts have what was said to their processes.
    pub(super) fn has_said_all_far(&self) -> bool {
        let far = self.far.as_ref();
        far.is_none_or(|far| far.links.values().all(Link::has_said_all))
    }

    /// The processes of other hosts that are there.
    pub(super) fn linked(&self) -> Vec<u32> {
        let far = self.far.as_ref();
        far.map_or_else(Vec::new, |far| far.links.keys().copied().collect())
    }

    /// What a watch of this module's is to be begun on.
    pub(super) fn watch_of_far(&self, what: Watched) -> Option<(BorrowedFd<'_>, i16)> {
        let far = self.far.as_ref()?;
        let hears = libc::POLLIN | libc::POLLRDHUP;
        Some(match what {
            Watched::Reception => (far.reception.as_fd(), libc::POLLIN),
            Watched::Knock(id) => (far.knocks.get(&id)?.meeting.as_fd(), hears),
            Watched::Link(peer) => (far.links.get(&peer)?.socket.as_fd(), hears),
            Watched::Dial(id) => (far.dials.socket(id)?, libc::POLLOUT),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests;
