//! `yamabiko kaccd`: holds the program and its maps, for processes that have no privilege.
//!
//! It listens on a Unix socket with an abstract name, so only processes of its own network namespace reach it, which are those whose
//! loopback interface it looks at. A process asks for a context for so many processes of this host (`client`), and gets their cards
//! and a descriptor of the results' page, by which nobody can write; it hands the cards on as it likes, and who has one gets the page, and may put byte code
//! into a slot. The context, and its byte code, is closed when its
//! connection ends. A process may also get a socket that calculates ([`calc`](crate::calc)), where the daemon can make such: these
//! outlive it, as long as their processes, and so do pages of results that processes have. Nothing else outlives the daemon, and nothing of a user's outlives his processes.
//!
//! Invariants: what a client says has few lengths, is checked (byte code by its verifier, whoever has done so before), and makes nobody wait for him; a user has no more contexts, inputs and connections
//! than [`Limits`] allows, whatever he does (but pages of contexts that are closed count as his processes' memory would); who he is says the kernel (`SO_PEERCRED`). Contexts of several hosts there are where it is given the key
//! of a site ([`far`]).

use crate::calc::{Calculator, NotMade, is_there};
use crate::client::{Reply, Request, Shown, Status};
use crate::context::Context;
use crate::flat::Flat;
use crate::kernel::{Link, Refused};
use crate::layout::INPUTS_MAX;
use crate::program::LOOPBACK;
use crate::site::TOKEN;
use crate::tables::{NotOpened, Place, Tables};
use bytecode::Program;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt::set_ipv6_v6only;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, listen, socket_with,
};
use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddrV6, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};
use sys::unix::Socket;

mod closer;
mod far;

use closer::Closer;

/// The UDP port of its program, where no other was chosen. What others send to it passes.
pub const PORT: u16 = 7117;

/// How much there is, and how much of it a user may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Contexts of all.
    pub contexts: u32,
    /// Inputs of all contexts, and connections of all.
    pub inputs: u32,
    /// Contexts of a user.
    pub user_contexts: u32,
    /// Inputs of a user's contexts, and connections of his: each of his ranks has one, of all his jobs on this host.
    pub user_inputs: u32,
}

impl Limits {
    /// Descriptors that it takes to keep them. A context has a page, and one more while that is changed.
    pub fn descriptors(&self) -> u64 {
        let clients = u64::from(self.inputs) + BACKLOG as u64;
        2 * u64::from(self.contexts) + clients + CALCULATING as u64 + DESCRIPTORS
    }
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            contexts: 256,
            inputs: 4096,
            user_contexts: 64,
            user_inputs: 1024,
        }
    }
}

/// Sockets that calculate, of a user at most: his ranks on this host.
const USER_CALCULATING: usize = 256;
/// Those of all.
const CALCULATING: usize = 512;
/// Connections that wait to be accepted; so many are taken at a time.
const BACKLOG: i32 = 64;
/// How long nobody is accepted where the system has no descriptor left. Those that wait would have the daemon look again at once, for ever.
const DEAF: Duration = Duration::from_millis(100);
/// Descriptors beside those that go by [`Limits`]: the program, its maps, what calculates, and what is made ahead.
const DESCRIPTORS: u64 = 512;

/// Why it does not start.
#[derive(Debug)]
pub enum NotRunning {
    /// The program can't be loaded, or not be attached.
    Refused(Refused),
    /// There is no listening on the name: mostly, that one is running.
    Name(io::Error),
    /// Another has the UDP port of its program.
    Port(u16, io::Error),
    /// There is no such interface.
    Interface(String, io::Error),
}

impl fmt::Display for NotRunning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotRunning::Refused(why) if why.is_forbidden() => {
                write!(f, "{why} (it takes CAP_BPF and CAP_NET_ADMIN)")
            }
            NotRunning::Refused(why) => write!(f, "{why}"),
            NotRunning::Interface(name, why) => write!(f, "interface {name}: {why}"),
            NotRunning::Port(port, why) => write!(
                f,
                "UDP port {port} can't be had; does another kaccd use it? (--port) ({why})"
            ),
            NotRunning::Name(why) => write!(f, "its name can't be had; is one running? ({why})"),
        }
    }
}

impl std::error::Error for NotRunning {}

/// A context of a client's.
struct Held {
    place: Place,
    id: u64,
    tickets: Vec<u64>,
    /// What was offered of it, until it is opened.
    offered: Option<Box<[u8; TOKEN]>>,
    /// With which collective's contributions it ends.
    leaving: Option<u64>,
}

struct Client {
    socket: Socket,
    user: u32,
    places: Vec<Held>,
}

/// A socket that calculates.
struct Calculating {
    user: u32,
    /// Closed when the socket is.
    end: OwnedFd,
}

/// The daemon.
pub struct Daemon {
    tables: Tables,
    _link: Link,
    /// So nobody else has the port. Nobody reads what comes there: packets of contexts don't come so far, and others are no matter.
    _ports: Vec<OwnedFd>,
    port: u16,
    limits: Limits,
    listener: OwnedFd,
    /// Until when nobody is accepted.
    deaf: Option<Instant>,
    clients: Vec<Client>,
    closer: Closer,
    calculator: Result<Calculator, NotMade>,
    calculating: Vec<Calculating>,
    /// What only this host's processes are told by their daemon.
    host: u64,
    site: Option<far::Site>,
}

impl Daemon {
    /// Loads the program for packets to `port`, has it look at the loopback interface, and listens under `name`.
    ///
    /// # Errors
    /// [`NotRunning`].
    pub fn new(name: &[u8], port: u16, limits: Limits) -> Result<Daemon, NotRunning> {
        let listener = named(name).map_err(|e| NotRunning::Name(e.into()))?;
        let _ports = ports(port).map_err(|e| NotRunning::Port(port, e))?;
        let tables = Tables::new(port, limits.contexts, limits.inputs);
        let tables = tables.map_err(NotRunning::Refused)?;
        let link = tables.attach(LOOPBACK as u32);
        let _link = link.map_err(NotRunning::Refused)?;
        // Not before: whoever gets a connection is served.
        listen(&listener, BACKLOG).map_err(|e| NotRunning::Name(e.into()))?;
        let host = sys::random::u64().map_err(NotRunning::Name)?;
        Ok(Daemon {
            host,
            site: None,
            _link,
            _ports,
            tables,
            port,
            limits,
            listener,
            deaf: None,
            clients: Vec::new(),
            closer: Closer::new().map_err(NotRunning::Refused)?,
            calculator: Calculator::new(),
            calculating: Vec::new(),
        })
    }

    /// Why it can't make sockets that calculate, if so; all else it does.
    pub fn lacks(&self) -> Option<&NotMade> {
        self.calculator.as_ref().err()
    }

    /// Waits until somebody wants something, at most so long, and does it: one thing for each user, so that who has many connections
    /// makes others wait no longer.
    pub fn step(&mut self, most: Duration) {
        let deaf = self.deaf.take_if(|until| *until > Instant::now());
        let listens = match deaf {
            None => PollFlags::IN,
            Some(_) => PollFlags::empty(),
        };
        let mut fds = vec![PollFd::new(&self.listener, listens)];
        let sockets = self.clients.iter().map(|c| c.socket.as_fd());
        fds.extend(sockets.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        let most = if deaf.is_some() { most.min(DEAF) } else { most };
        let most = Timespec {
            tv_sec: most.as_secs() as i64,
            tv_nsec: i64::from(most.subsec_nanos()),
        };
        // An error is an interruption, or a lack of memory: the next step is the answer to both.
        let failed = poll(&mut fds, Some(&most)).is_err();
        let ready: Vec<_> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        self.deaf = deaf;
        if failed {
            return;
        }
        let there = self.clients.len();
        if ready[0] {
            self.accept();
        }
        let mut served = BTreeSet::new();
        // From the last one on, as some are removed.
        for client in (0..there).rev().filter(|c| ready[c + 1]) {
            if served.insert(self.clients[client].user) && !self.hear(client) {
                self.end(client);
            }
        }
    }

    /// Takes those that wait to be connected.
    fn accept(&mut self) {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        for _ in 0..BACKLOG {
            match accept_with(&self.listener, flags) {
                Ok(fd) => self.take_in(fd),
                Err(Errno::AGAIN) => return,
                Err(Errno::INTR | Errno::CONNABORTED) => {}
                Err(_) => {
                    self.deaf = Some(Instant::now() + DEAF);
                    return;
                }
            }
        }
    }

    /// A new client, unless there are, or his user has, too many.
    fn take_in(&mut self, fd: OwnedFd) {
        let Ok(socket) = Socket::from_fd(fd) else {
            return;
        };
        let Ok(user) = socket.user() else {
            return;
        };
        let same = self.clients.iter().filter(|c| c.user == user).count();
        let Limits {
            inputs,
            user_inputs,
            ..
        } = self.limits;
        if same < user_inputs as usize && self.clients.len() < inputs as usize {
            let places = Vec::new();
            self.clients.push(Client {
                socket,
                user,
                places,
            });
        }
    }

    /// A packet of a client's, and the descriptor with it where one belongs to it: to close any other might take as long as its maker likes.
    fn receive(&self, client: usize, bytes: &mut [u8]) -> io::Result<(usize, Option<OwnedFd>)> {
        let socket = &self.clients[client].socket;
        let now = Some(Instant::now());
        let mut begin = [0; Request::COMMAND];
        socket.peek(&mut begin, now)?;
        if Request::has_descriptor(&begin) && self.closer.has_room() {
            let got = socket.receive(bytes, now)?;
            return Ok((got.bytes, got.fd));
        }
        Ok((socket.receive_plain(bytes, now)?, None))
    }

    /// One packet of a client's; whether he stays.
    fn hear(&mut self, client: usize) -> bool {
        let mut bytes = [0; Request::BYTES_MAX];
        let (length, fd) = match self.receive(client, &mut bytes) {
            Ok(got) => got,
            // There was nothing after all.
            Err(e) if e.kind() == io::ErrorKind::TimedOut => return true,
            Err(_) => return false,
        };
        let stays = match Request::of(&bytes[..length]) {
            Some(request) => self.answer(client, request, fd.as_ref().map(OwnedFd::as_fd)),
            None => false,
        };
        fd.into_iter().for_each(|fd| self.closer.close(fd));
        stays
    }

    /// Does what a client asks for, and says what came of it; whether he stays.
    fn answer(&mut self, client: usize, request: Request<'_>, fd: Option<BorrowedFd<'_>>) -> bool {
        let paged = |(reply, place)| (reply, Some(place));
        let told = match request {
            Request::Calculate => return self.calculate(client),
            Request::Code(slot, code) => Err(self.code(fd, slot, code)),
            Request::Open(processes) => self.open(client, processes).map(paged),
            Request::Close(entry) => Err(self.close(client, entry)),
            Request::Join(shown) => self.join(shown).map(paged),
            Request::Put(shown, slot, code) => Err(self.put(shown, slot, code)),
            Request::Who => Ok((self.known(), None)),
            Request::Offer(processes, place) => {
                let offer = self.offer(client, processes, place);
                offer.map(|reply| (reply, None))
            }
            Request::Bind(entry, tokens) => self.bind(client, entry, tokens).map(paged),
            Request::Leave(entry, number) => Err(self.leave(client, entry, number)),
        };
        let (reply, place) = told.unwrap_or_else(|status| (Reply::only(status), None));
        let page = place.and_then(|place| self.tables.page(place));
        let now = Some(Instant::now());
        let socket = &self.clients[client].socket;
        match (socket.send(&reply.bytes(), page, now), place) {
            (Ok(_), _) => true,
            // Who does not take his answers gets none.
            (Err(e), _) if gone(&e) => false,
            (Err(_), None) => false,
            // The system takes no page along: so many descriptors are on their way, which may be others' fault. He keeps what else he has.
            (Err(_), Some(place)) => {
                let refused = Reply::only(Status::System).bytes();
                let told = socket.send(&refused, None, now).is_ok();
                if matches!(request, Request::Open(_) | Request::Bind(..)) {
                    self.close(client, place.entry);
                }
                told
            }
        }
    }

    fn open(&mut self, client: usize, processes: u32) -> Result<(Reply, Place), Status> {
        self.sweep();
        self.may_have(client, processes, processes)?;
        let context = fresh(processes).map_err(|_| Status::System)?;
        let place = self.tables.reserve(processes).map_err(|_| Status::Full)?;
        let reply = self.hold(client, place, &context);
        self.begin(client, place, &context)?;
        Ok((reply, place))
    }

    /// Whether a client's user may have another context with so many inputs, some of which are processes.
    fn may_have(&self, client: usize, processes: u32, inputs: u32) -> Result<(), Status> {
        if processes == 0 || inputs > INPUTS_MAX {
            return Err(Status::Invalid);
        }
        let user = self.clients[client].user;
        let his = self.clients.iter().filter(|c| c.user == user);
        let (mut contexts, mut all) = (0, inputs);
        for held in his.flat_map(|c| &c.places) {
            (contexts, all) = (contexts + 1, all + held.place.inputs());
        }
        match contexts >= self.limits.user_contexts || all > self.limits.user_inputs {
            true => Err(Status::Quota),
            false => Ok(()),
        }
    }

    /// Notes that a client has a place; what its processes are told.
    fn hold(&mut self, client: usize, place: Place, context: &Context) -> Reply {
        self.clients[client].places.push(Held {
            place,
            id: context.id,
            tickets: context.tickets.clone(),
            offered: None,
            leaving: None,
        });
        Reply {
            status: Status::Opened,
            port: self.port,
            entry: place.entry,
            id: context.id,
            tickets: context.tickets.clone(),
            token: None,
        }
    }

    /// Opens a context at its place, or gives that up.
    fn begin(&mut self, client: usize, place: Place, context: &Context) -> Result<(), Status> {
        self.tables.open(place, context).map_err(|why| {
            self.close(client, place.entry);
            match why {
                NotOpened::Full => Status::Full,
                _ => Status::System,
            }
        })
    }

    /// The place of a context of which somebody has a card, whoever opened it.
    fn place(&self, shown: Shown) -> Result<Place, Status> {
        let mut all = self.clients.iter().flat_map(|c| &c.places);
        let fits = |held: &&Held| {
            let own = held.tickets.get(shown.input as usize);
            held.place.entry == shown.entry && held.id == shown.id && own == Some(&shown.ticket)
        };
        let held = all.find(fits).ok_or(Status::Invalid)?;
        Ok(held.place)
    }

    /// Who has a card of a context gets its page.
    fn join(&self, shown: Shown) -> Result<(Reply, Place), Status> {
        Ok((Reply::only(Status::Opened), self.place(shown)?))
    }

    /// Who has a card puts byte code into a slot, if that is something that the program can run. How much of it there can be goes by
    /// how many contexts there are.
    fn put(&self, shown: Shown, slot: u32, code: &[u8]) -> Status {
        let flat = Program::verify(code).ok().as_ref().and_then(Flat::of);
        let put = |flat: Flat| match self.tables.put(self.place(shown)?, slot, &flat) {
            Ok(()) => Ok(Status::Put),
            Err(NotOpened::Place) => Err(Status::Invalid),
            Err(_) => Err(Status::System),
        };
        let told = flat.ok_or(Status::Invalid).and_then(put);
        told.unwrap_or_else(|status| status)
    }

    /// Gives a client a socket that calculates; whether he stays.
    fn calculate(&mut self, client: usize) -> bool {
        let user = self.clients[client].user;
        self.calculating.retain(|one| is_there(&one.end));
        let his = self.calculating.iter().filter(|one| one.user == user);
        let made = match &mut self.calculator {
            Err(_) => Err(Status::NoGroup),
            Ok(_) if his.count() >= USER_CALCULATING => Err(Status::Quota),
            Ok(_) if self.calculating.len() >= CALCULATING => Err(Status::Full),
            Ok(calculator) => calculator.socket().map_err(|_| Status::System),
        };
        let (status, pair) = match made {
            Ok(pair) => (Status::Opened, Some(pair)),
            Err(status) => (status, None),
        };
        let fd = pair.as_ref().map(|[socket, _]| socket.as_fd());
        let socket = &self.clients[client].socket;
        let sent = socket.send(&Reply::only(status).bytes(), fd, Some(Instant::now()));
        let end = pair.map(|[_, end]| end);
        self.calculating
            .extend(end.map(|end| Calculating { user, end }));
        sent.is_ok()
    }

    /// Has a socket that calculates run byte code, if it is one, and that is something that its program can run.
    fn code(&self, socket: Option<BorrowedFd<'_>>, slot: u32, code: &[u8]) -> Status {
        let flat = Program::verify(code).ok().as_ref().and_then(Flat::of);
        match (&self.calculator, socket, flat) {
            (Ok(calculator), Some(socket), Some(flat)) => {
                match calculator.put(socket, slot, &flat) {
                    Ok(()) => Status::Put,
                    Err(_) => Status::Invalid,
                }
            }
            _ => Status::Invalid,
        }
    }

    fn close(&mut self, client: usize, entry: u32) -> Status {
        let places = &mut self.clients[client].places;
        let Some(at) = places.iter().position(|p| p.place.entry == entry) else {
            return Status::Invalid;
        };
        // Where the kernel keeps it, it stays his.
        match self.tables.release(places[at].place) {
            Ok(()) => {
                places.swap_remove(at);
                Status::Closed
            }
            Err(_) => Status::System,
        }
    }

    fn end(&mut self, client: usize) {
        let client = self.clients.swap_remove(client);
        for Held { place, .. } in client.places {
            // If the kernel keeps it, nobody gets the place again.
            let _ = self.tables.release(place);
        }
    }
}

/// A context for processes of this host, so far without others.
fn fresh(processes: u32) -> io::Result<Context> {
    let mut tickets = vec![0; processes as usize];
    for ticket in &mut tickets {
        *ticket = sys::random::u64()?;
    }
    Ok(Context {
        id: sys::random::u64()?.max(1),
        key: [sys::random::u64()?, sys::random::u64()?],
        tickets,
        parent: None,
        children: Vec::new(),
    })
}

/// Whether a client does not take an answer: he is gone, or leaves them lying.
fn gone(why: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, TimedOut};
    matches!(why.kind(), BrokenPipe | ConnectionReset | TimedOut)
}

/// Takes a UDP port, of IPv4 and, where there is that, of IPv6. Two programs for one port would each lack what the other has taken.
fn ports(port: u16) -> io::Result<Vec<OwnedFd>> {
    let four = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port))?;
    let six = || -> rustix::io::Result<OwnedFd> {
        let flags = SocketFlags::CLOEXEC;
        let fd = socket_with(AddressFamily::INET6, SocketType::DGRAM, flags, None)?;
        set_ipv6_v6only(&fd, true)?;
        bind(&fd, &SocketAddrV6::new(Ipv6Addr::UNSPECIFIED, port, 0, 0))?;
        Ok(fd)
    };
    let six = match six() {
        Ok(fd) => Some(fd),
        Err(Errno::ADDRINUSE) => return Err(Errno::ADDRINUSE.into()),
        Err(_) => None,
    };
    Ok([Some(four.into()), six].into_iter().flatten().collect())
}

/// A socket that has the name, and does not listen yet.
fn named(name: &[u8]) -> rustix::io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let fd = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    bind(&fd, &SocketAddrUnix::new_abstract_name(name)?)?;
    Ok(fd)
}
