//! What processes tell each other beside the data: connections that they lend, issues that end early, and
//! that they leave. And who is gone without a word.
//!
//! Each process listens on an abstract Unix socket with a random name, which it publishes together with
//! a random secret. Whoever has something to say to it, or wants to hear of its end, connects and shows
//! the secret; both ends check that the other belongs to the same user (`sys::unix` does). What a process
//! says it says on the connection that it made, so two processes that connect at the same time need
//! not agree on which connection to keep.
//!
//! That is so inside a host. Of processes on other hosts knows `far`, which has the same for them over the network.
//!
//! Invariants: nothing here waits for another process to listen: what its socket does not hold is kept
//! until it does ([`Control::is_behind`]); all numbers that come in are bounded; a process that says what no correct one says counts as lost.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use cad_run::State;
use sys::unix::{self, Kind, Listener, Socket};

use crate::headroom;
use crate::packet::{BYE, LANE, News, OVER, PACKET, news, packet};

mod far;
mod own;

use far::Far;
use own::Address;
pub(crate) use own::Own;
pub use own::{Meet, are_ports_limited};

/// The version of this library, which all ranks of a job must share.
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// First word of a card and of a hello.
const HELLO: &str = "yamabiko-ring";
/// How long connecting to a process may take whose queue of callers is full.
const CALL: Duration = Duration::from_secs(5);
/// How long leaving waits for others to hear of it: they read when they are next in a call.
const FAREWELL: Duration = Duration::from_secs(1);
/// Callers beyond the number of processes that are kept while they have not shown the secret.
const STRANGERS: usize = 64;
/// Processes that a job of several hosts may have.
pub const FAR_MAX: usize = 1024;

/// News that one look may find. Whoever is still talking then is not sane.
const NEWS_MAX: usize = 1 << 16;

/// A caller.
struct Caller {
    socket: Socket,
    /// Which process, once it has shown the secret.
    rank: Option<u32>,
}

/// A packet, and the descriptor that goes with it.
type Letter = ([u8; PACKET], Option<OwnedFd>);

/// What a watch is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Watched {
    Listener,
    Caller(u32),
    Called(u32),
    /// Where other hosts' processes call, such a caller, such a process, and a stream that is made to one.
    Reception,
    Knock(u32),
    Link(u32),
    Dial(u32),
}

/// A descriptor that is to be watched from now on, for which events of `poll`, and its name.
pub(crate) struct Watch<'a> {
    pub fd: BorrowedFd<'a>,
    pub events: i16,
    pub id: u32,
}

/// The connections of a process.
pub(crate) struct Control {
    rank: u32,
    listener: Listener,
    own: Address,
    others: Vec<Address>,
    /// Connections to others, on which this process speaks.
    called: BTreeMap<u32, Socket>,
    /// Connections from others, by the number of their watch.
    callers: BTreeMap<u32, Caller>,
    /// What is still to be said to others, in its order.
    unsaid: BTreeMap<u32, VecDeque<Letter>>,
    watched: HashMap<u32, Watched>,
    next_watch: u32,
    /// Watches that are still to be begun, and those that are to be ended: the kernel keeps what it
    /// watches open.
    unwatched: Vec<u32>,
    ended: Vec<u32>,
    lost: BTreeSet<u32>,
    /// Those that have left in order; they are not lost when their connections end.
    left: BTreeSet<u32>,
    news: Vec<(u32, News)>,
    /// Those found lost since the last look.
    newly_lost: Vec<u32>,
    /// Whether a caller could not be let in, for lack of descriptors; or one could not be heard.
    deaf: bool,
    /// Whether one could not be heard, for lack of a descriptor that may come with what it says.
    unheard: bool,
    /// The processes of other hosts, if there are such.
    far: Option<Far>,
}

fn now() -> Option<Instant> {
    Some(Instant::now())
}

/// Whether the other has not read enough yet: its queue is full, or too many descriptors are on their way.
fn is_full(error: &io::Error) -> bool {
    error.kind() == ErrorKind::TimedOut || error.raw_os_error() == Some(libc::ETOOMANYREFS)
}

/// Whether the system has too few descriptors, or too little memory, for a connection.
fn is_short(error: &io::Error) -> bool {
    let short = [libc::EMFILE, libc::ENFILE, libc::ENOMEM, libc::ENOBUFS];
    error
        .raw_os_error()
        .is_some_and(|code| short.contains(&code))
}

/// Whether this process can have no further descriptor now.
fn is_out_of_descriptors() -> bool {
    let one = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC);
    one.is_err_and(|e| is_short(&e.into()))
}

/// Compares in a time that does not tell where the difference is.
fn equal(a: &str, b: &str) -> bool {
    let differences = a.bytes().zip(b.bytes()).fold(0, |d, (x, y)| d | (x ^ y));
    a.len() == b.len() && std::hint::black_box(differences) == 0
}

impl Control {
    pub fn size(&self) -> u32 {
        self.others.len() as u32
    }

    /// Whether a process is gone.
    pub fn is_lost(&self, peer: u32) -> bool {
        self.lost.contains(&peer)
    }

    pub fn lost(&self) -> impl Iterator<Item = u32> {
        self.lost.iter().copied()
    }

    /// Connects to a process, unless that was done; so its end will be heard of. Whether it is there, as far as is known:
    /// where the system has no descriptor for the connection, that is to be tried again.
    pub fn call(&mut self, peer: u32) -> bool {
        if self.is_lost(peer) || self.left.contains(&peer) {
            return false;
        }
        if self.has_called(peer) || self.is_far(peer) {
            return true;
        }
        let Some(Address { name, secret }) = self.others.get(peer as usize) else {
            return false;
        };
        let hello = format!("{HELLO} {VERSION} {} {secret}", self.rank);
        let deadline = sys::clock::after(CALL);
        let socket = unix::connect(name.as_bytes(), Kind::Packets, deadline).and_then(|socket| {
            socket.send_all(hello.as_bytes(), None, deadline)?;
            Ok(socket)
        });
        match socket {
            Ok(socket) => {
                self.called.insert(peer, socket);
                self.begin_watch(Watched::Called(peer));
                true
            }
            Err(e) if is_short(&e) => true,
            Err(_) => {
                self.lose(peer);
                false
            }
        }
    }

    /// Whether there is a connection to a process.
    pub fn has_called(&self, peer: u32) -> bool {
        self.called.contains_key(&peer) || self.has_link(peer)
    }

    /// The number of the next watch. Who calls may do so without end, so numbers come again.
    fn next_watch(&mut self) -> u32 {
        while self.watched.contains_key(&self.next_watch) {
            self.next_watch = self.next_watch.wrapping_add(1);
        }
        self.next_watch
    }

    fn begin_watch(&mut self, what: Watched) -> u32 {
        let id = self.next_watch();
        self.next_watch = id.wrapping_add(1);
        self.watched.insert(id, what);
        self.unwatched.push(id);
        id
    }

    /// A process is gone, or says what no correct one says.
    pub fn lose(&mut self, peer: u32) {
        if !self.left.contains(&peer) && self.lost.insert(peer) {
            self.newly_lost.push(peer);
            self.stop_calling(peer);
        }
    }

    /// A process has left in order, as somebody else tells.
    pub fn part_from(&mut self, peer: u32) {
        if !self.is_lost(peer) && !self.left.contains(&peer) {
            self.takes(peer, News::Bye);
            self.stop_calling(peer);
        }
    }

    /// A process says what no correct one says: it is lost, and nothing more is heard of it.
    pub fn shun(&mut self, peer: u32) {
        let of_peer = |(&id, c): (&u32, &Caller)| (c.rank == Some(peer)).then_some(id);
        if let Some(id) = self.callers.iter().find_map(of_peer) {
            self.hang_up(id);
        }
        self.end_link(peer);
        self.lose(peer);
    }

    /// The watches that are to be begun.
    pub fn unwatched(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.unwatched)
    }

    /// The watches that are to be ended.
    pub fn ended(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.ended)
    }

    /// All watches that were begun and not ended.
    pub fn watches(&self) -> impl Iterator<Item = u32> {
        self.watched.keys().copied()
    }

    fn end_watch(&mut self, what: Watched) {
        let ended = self.watched.extract_if(|_, w| *w == what);
        self.ended.extend(ended.map(|(id, _)| id));
    }

    /// What a watch is to be begun on, if it still is.
    pub fn watch(&self, id: u32) -> Option<Watch<'_>> {
        let hung = libc::POLLRDHUP;
        let (fd, events) = match *self.watched.get(&id)? {
            Watched::Listener => (self.listener.as_fd(), libc::POLLIN),
            Watched::Caller(id) => (self.callers.get(&id)?.socket.as_fd(), libc::POLLIN | hung),
            Watched::Called(peer) => (self.called.get(&peer)?.as_fd(), hung),
            what => self.watch_of_far(what)?,
        };
        Some(Watch { fd, events, id })
    }

    /// Something happened at a watched descriptor; `more`: the watch goes on.
    pub fn event(&mut self, id: u32, more: bool) {
        let Some(&what) = self.watched.get(&id) else {
            return;
        };
        if !more {
            self.unwatched.push(id);
        }
        match what {
            Watched::Listener => self.accept(),
            Watched::Caller(_) => self.hear(id),
            Watched::Called(peer) => {
                // What it said last comes first.
                self.hear_all(peer);
                self.drop_called(peer);
            }
            Watched::Reception => self.accept_far(),
            Watched::Knock(id) => self.hear_knock(id),
            Watched::Link(peer) => self.hear_link(peer),
            Watched::Dial(id) => self.dial_event(id),
        }
    }

    /// A process that was called is not there any more.
    fn drop_called(&mut self, peer: u32) {
        self.end_watch(Watched::Called(peer));
        self.called.remove(&peer);
        self.unsaid.remove(&peer);
        self.lose(peer);
    }

    fn accept(&mut self) {
        loop {
            let socket = match self.listener.accept(now()) {
                Ok(socket) => socket,
                Err(e) => {
                    self.deaf = self.unheard || e.kind() != ErrorKind::TimedOut;
                    return;
                }
            };
            let strangers = self.callers.values().filter(|c| c.rank.is_none());
            if strangers.count() >= self.others.len() + STRANGERS {
                continue;
            }
            let id = self.next_watch();
            self.callers.insert(id, Caller { socket, rank: None });
            self.begin_watch(Watched::Caller(id));
            self.hear(id);
        }
    }

    /// Whether something could not be done at once: let a caller in, or say something.
    #[inline]
    pub fn is_behind(&self) -> bool {
        self.deaf || !self.unsaid.is_empty() || (self.has_far() && self.is_behind_far())
    }

    /// Whether everything was said to this process that there is to say.
    pub fn has_said_all(&self, peer: u32) -> bool {
        !self.unsaid.contains_key(&peer)
    }

    /// Tries again what could not be done at once.
    pub fn catch_up(&mut self) {
        let unheard = std::mem::take(&mut self.unheard);
        if self.deaf {
            self.accept();
        }
        if unheard {
            for id in self.callers.keys().copied().collect::<Vec<_>>() {
                self.hear(id);
            }
        }
        self.catch_up_far();
        let peers: Vec<u32> = self.unsaid.keys().copied().collect();
        for peer in peers {
            match self.has_called(peer) || self.call(peer) {
                true => self.speak(peer),
                false => drop(self.unsaid.remove(&peer)),
            }
        }
    }

    /// The secrets of this process and another, the lower rank's first.
    pub fn secrets(&self, peer: u32) -> [&str; 2] {
        let theirs = self.others.get(peer as usize).map_or("", |o| &o.secret);
        match self.rank < peer {
            true => [&self.own.secret, theirs],
            false => [theirs, &self.own.secret],
        }
    }

    /// Reads all that a process has said.
    pub fn hear_all(&mut self, peer: u32) {
        if self.is_far(peer) {
            self.accept_far();
            return self.hear_link(peer);
        }
        self.accept();
        let of_peer = |(&id, c): (&u32, &Caller)| (c.rank == Some(peer)).then_some(id);
        let ids: Vec<u32> = self.callers.iter().filter_map(of_peer).collect();
        for id in ids {
            self.hear(id);
        }
    }

    /// Reads all that a caller has said.
    fn hear(&mut self, id: u32) {
        loop {
            let Some(caller) = self.callers.get(&id) else {
                return;
            };
            let mut packet = [0; 256];
            match caller.socket.peek(&mut packet[..1], now()) {
                // The system throws a descriptor away that it finds no number for, and who lent it would talk nonsense.
                Ok(n) if n > 0 && is_out_of_descriptors() => {
                    (self.unheard, self.deaf) = (true, true);
                    return;
                }
                Err(e) if e.kind() == ErrorKind::TimedOut => return,
                _ => {}
            }
            let got = match caller.socket.receive(&mut packet, now()) {
                Ok(got) if got.bytes > 0 => got,
                Err(e) if e.kind() == ErrorKind::TimedOut => return,
                _ => return self.hang_up(id),
            };
            if let Some(fd) = &got.fd {
                headroom::keep(fd);
            }
            let said = &packet[..got.bytes];
            let understood = match caller.rank {
                Some(rank) => news(said, got.fd).map(|news| self.takes(rank, news)),
                None => self.hello(said).map(|rank| {
                    if let Some(caller) = self.callers.get_mut(&id) {
                        caller.rank = Some(rank);
                    }
                }),
            };
            if understood.is_none() {
                return self.hang_up(id);
            }
            if self.news.len() > NEWS_MAX {
                return self.hang_up(id);
            }
        }
    }

    /// A process has said this.
    fn takes(&mut self, peer: u32, news: News) {
        if matches!(news, News::Bye) {
            self.left.insert(peer);
        }
        self.news.push((peer, news));
    }

    /// Whose hello it is, if that one has not called before and is not lost.
    fn hello(&self, said: &[u8]) -> Option<u32> {
        let words: Vec<&str> = std::str::from_utf8(said).ok()?.split(' ').collect();
        let [HELLO, VERSION, rank, secret] = words[..] else {
            return None;
        };
        let rank: u32 = rank.parse().ok()?;
        let known = equal(secret, &self.own.secret) && rank < self.size() && rank != self.rank;
        let again = self.callers.values().any(|c| c.rank == Some(rank));
        (known && !again && !self.is_lost(rank)).then_some(rank)
    }

    /// A caller has ended, or talks nonsense.
    fn hang_up(&mut self, id: u32) {
        self.end_watch(Watched::Caller(id));
        if let Some(rank) = self.callers.remove(&id).and_then(|c| c.rank) {
            self.lose(rank);
        }
    }

    /// What others said since the last time, and whom it came from.
    pub fn news(&mut self) -> Vec<(u32, News)> {
        std::mem::take(&mut self.news)
    }

    /// Who was found lost since the last time.
    pub fn newly_lost(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.newly_lost)
    }

    fn say(&mut self, peer: u32, packet: [u8; PACKET], fd: Option<OwnedFd>) {
        if self.is_far(peer) {
            return self.say_far(peer, packet);
        }
        if self.call(peer) {
            let unsaid = self.unsaid.entry(peer).or_default();
            unsaid.push_back((packet, fd));
            self.speak(peer);
        }
    }

    /// Says to a process what is still to be said, as far as its socket takes it.
    fn speak(&mut self, peer: u32) {
        let (Some(unsaid), Some(socket)) = (self.unsaid.get_mut(&peer), self.called.get(&peer))
        else {
            return;
        };
        while let Some((packet, fd)) = unsaid.front() {
            let fd = fd.as_ref().map(AsFd::as_fd);
            match socket.send_all(packet, fd, now()) {
                Ok(()) => drop(unsaid.pop_front()),
                Err(e) if is_full(&e) => return,
                Err(_) => return self.drop_called(peer),
            }
        }
        self.unsaid.remove(&peer);
    }

    /// Lends a connection.
    pub fn lend(&mut self, peer: u32, channel: u32, lane: u8, from: u64, socket: OwnedFd) {
        self.say(peer, packet(LANE, lane, channel, from), Some(socket));
    }

    /// Tells that an issue ended early.
    pub fn tell_over(&mut self, peer: u32, channel: u32, number: u64, why: State) {
        // Who does not hear it is lost, and then hears that.
        self.say(peer, packet(OVER, why as u8, channel, number), None);
    }

    /// Tells all that would hear of this process's end that it is in order.
    pub fn leave(&mut self) {
        self.accept();
        let callers = self.callers.values().filter_map(|c| c.rank);
        let mut all: BTreeSet<u32> = callers.chain(self.called.keys().copied()).collect();
        all.extend(self.linked());
        for peer in all {
            self.say(peer, packet(BYE, 0, 0, 0), None);
        }
        let deadline = Instant::now() + FAREWELL;
        let behind = |c: &Control| !c.unsaid.is_empty() || !c.has_said_all_far();
        while behind(self) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
            self.catch_up();
        }
    }
}

#[cfg(test)]
mod tests;
