//! The fabric, as one process holds it, and how it comes to be.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use mtmi::{Endpoint, Names};
use rustix::io::Errno;

use crate::accept::Strangers;
use crate::address::Address;
use crate::callers::Caller;
use crate::config::{Config, Error, ReactorKind};
use crate::dial::Dial;
use crate::handshake::Job;
use crate::interfaces::Interface;
use crate::meeting;
use crate::protocol::Protocol;
use crate::reactor::{Event, Reactor};
use crate::room::{Shortage, make_room};
use crate::senders::{self, Senders};
use crate::stream::{STAGING, Stream};
use crate::timers::{Rarely, Timer, Timers};
use crate::unwatched::Unwatched;
use crate::waiting::Waker;

/// The token of the listening socket,
pub(crate) const LISTENER: u64 = u64::MAX;
/// and what is added to a rank for that of its connection. Names of callers don't reach so high.
pub(crate) const PEER: u64 = 1 << 63;

/// The fabric, as one process holds it.
pub struct Tcp {
    pub(crate) protocol: Protocol,
    pub(crate) routes: Vec<Route>,
    pub(crate) reactor: Reactor,
    /// Events being handled; empty in between.
    pub(crate) events: Vec<Event>,
    /// Peers whose connection may have something to read.
    pub(crate) readable: Vec<u32>,
    /// The peer that something came from last; none at first.
    pub(crate) recent: u32,
    /// Further tries to read from it unasked.
    pub(crate) glances: u32,
    pub(crate) unwatched: Unwatched,
    /// Whether processes outnumber processors: what asking the kernel in vain costs, another could use.
    pub(crate) crowded: bool,
    /// What is read that has no better place.
    pub(crate) staging: Box<[u8; STAGING]>,
    /// Connections that have not proved themselves, of both directions.
    pub(crate) callers: Names<Caller>,
    pub(crate) strangers: Strangers,
    pub(crate) listener: OwnedFd,
    /// Whether callers are refused from now on.
    pub(crate) deaf: bool,
    /// There are no descriptors for further connections.
    pub(crate) shortage: Option<Shortage>,
    pub(crate) timers: Timers,
    pub(crate) clock: Rarely,
    /// When to look at all peers.
    pub(crate) news: Rarely,
    /// Whether `Timer::Pulse` is set.
    pub(crate) watching: bool,
    pub(crate) senders: Senders,
    pub(crate) active: Active,
    pub(crate) patience: Duration,
    pub(crate) failures: VecDeque<Endpoint>,
    pub(crate) job: Job,
    pub(crate) mine: Vec<Interface>,
    pub(crate) stack: u64,
    /// By network stack, the address that worked.
    pub(crate) worked: HashMap<u64, IpAddr>,
    pub(crate) waker: Arc<Waker>,
}

/// The way to a peer.
#[derive(Default)]
pub(crate) struct Route {
    pub stream: Option<Stream>,
    pub dial: Option<Box<Dial>>,
    /// Where it can be reached, if by TCP at all.
    pub address: Option<Address>,
    /// Why it counts as failed.
    pub reason: Option<String>,
}

/// Time in which this process looked after its connections: a program that computes for an hour does not find
/// that its peers were silent.
pub(crate) struct Active {
    last: Instant,
    sum: Duration,
}

impl Active {
    /// What passed since the last look counts up to here.
    const STEP: Duration = Duration::from_secs(1);

    fn new() -> Active {
        Active {
            last: Instant::now(),
            sum: Duration::ZERO,
        }
    }

    /// Looks at the clock.
    pub fn tick(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.last);
        self.sum += passed.min(Active::STEP);
        self.last = now;
    }

    /// The time so far.
    pub fn now(&self) -> Duration {
        self.sum
    }
}

/// A process that listens and knows no other yet.
pub struct Listening {
    listener: OwnedFd,
    reactor: Reactor,
    waker: Arc<Waker>,
    mine: Vec<Interface>,
    address: Address,
    version: String,
    patience: Duration,
}

impl Tcp {
    /// Listens.
    ///
    /// # Errors
    /// When no port can be listened on, the interface that the user insists on does not exist, or the
    /// system refuses what it takes to watch sockets.
    pub fn listen(config: Config) -> Result<Listening, Error> {
        let (listener, address, mine) = meeting::listen(&config)?;
        let watch = |e: std::io::Error| {
            let few = e.raw_os_error() == Some(Errno::MFILE.raw_os_error());
            let advice = if few {
                "; raise the limit of descriptors (ulimit -n)"
            } else {
                ""
            };
            Error(format!("sockets can't be watched: {e}{advice}"))
        };
        let mut reactor = Reactor::new(config.reactor).map_err(watch)?;
        reactor.add(listener.as_fd(), LISTENER).map_err(watch)?;
        let waker = Arc::new(Waker::new(reactor.fd()).map_err(watch)?);
        Ok(Listening {
            listener,
            reactor,
            waker,
            mine,
            address,
            version: config.version,
            patience: config.patience,
        })
    }

    /// How sockets are watched.
    pub fn reactor(&self) -> ReactorKind {
        self.reactor.kind()
    }

    /// Why a peer counts as failed, if this fabric found it out.
    pub fn reason(&self, peer: Endpoint) -> Option<&str> {
        self.routes.get(peer.index())?.reason.as_deref()
    }

    /// The other end of the connection to a peer, once there is one.
    pub fn remote(&self, peer: Endpoint) -> Option<std::net::SocketAddr> {
        let stream = self.routes.get(peer.index())?.stream.as_ref()?;
        Some(stream.remote)
    }

    /// Callers that were dropped because they did not prove to belong to the job.
    pub fn strangers(&self) -> u64 {
        self.strangers.count
    }
}

impl Listening {
    /// Where the others reach this process: up to 200 printable ASCII characters without blanks.
    pub fn address(&self) -> String {
        self.address.encode()
    }

    /// Takes part as rank `me` of `size`. `addresses` has what each rank published, `None` for those
    /// that are not reached by TCP (this one included); `secret` is what only this job knows.
    pub fn join(
        self,
        me: Endpoint,
        size: u32,
        addresses: &[Option<String>],
        secret: [u8; 32],
    ) -> Tcp {
        let mut protocol = Protocol::new(size);
        let mut routes: Vec<Route> = (0..size).map(|_| Route::default()).collect();
        for (rank, route) in (0..size).zip(&mut routes) {
            let text = addresses.get(rank as usize).and_then(|t| t.as_deref());
            route.address = text.filter(|_| rank != me.0).and_then(Address::decode);
            if route.address.is_none() && rank != me.0 {
                protocol.links[rank as usize].failed = true;
                route.reason = text.map(|t| format!("its address `{t}` can't be read"));
            }
        }
        make_room(u64::from(size));
        let mut timers = Timers::default();
        timers.set(senders::LOOK, Timer::Senders);
        Tcp {
            protocol,
            routes,
            reactor: self.reactor,
            events: Vec::new(),
            readable: Vec::new(),
            recent: u32::MAX,
            glances: 0,
            unwatched: Unwatched::default(),
            crowded: false,
            staging: Box::new([0; STAGING]),
            callers: Names::new(),
            strangers: Strangers::default(),
            listener: self.listener,
            deaf: false,
            shortage: None,
            timers,
            clock: Rarely::CLOCK,
            news: Rarely::NEWS,
            watching: false,
            senders: Senders::default(),
            active: Active::new(),
            patience: self.patience,
            failures: VecDeque::new(),
            job: Job {
                secret,
                version: self.version,
                me: me.0,
                ranks: size,
            },
            mine: self.mine,
            stack: self.address.stack,
            worked: HashMap::new(),
            waker: self.waker,
        }
    }
}

impl fmt::Debug for Listening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Listening at {:?}", self.address)
    }
}
