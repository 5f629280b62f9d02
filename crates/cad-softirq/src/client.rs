//! How a process asks the daemon for a context, and what they say to each other: packets of a fixed layout on a Unix socket.
//!
//! Invariants: neither believes the other more than that the kernel says who he is; the daemon has to be the superuser's or the
//! caller's own, since anybody can take its name. Who calls it: a process that opens a context, and those it tells its cards; `daemon` has the
//! other side.

use crate::flat::Flat;
use crate::layout::INPUTS_MAX;
use crate::rank::Card;
use crate::site::{HOSTS_MAX, TOKEN};
use bytecode::CODE_MAX;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::fmt;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};
use sys::unix::{Kind, Socket};

/// The daemon's name.
pub const NAME: &[u8] = b"yamabiko-kaccd";

/// The environment variable that has it, where it isn't the usual one.
pub const VARIABLE: &str = "YAMABIKO_KACCD";

/// The name that the environment has, or else the usual one.
pub fn name() -> Vec<u8> {
    let chosen = std::env::var_os(VARIABLE).filter(|name| !name.is_empty());
    chosen.map_or(NAME.to_vec(), |name| name.into_encoded_bytes())
}

/// "ymk", and the version of what follows.
const MAGIC: u32 = u32::from_le_bytes(*b"ymk\x04");

/// Bytes of all hosts' offers at most.
const OFFERS_MAX: usize = HOSTS_MAX * TOKEN;

/// How long a connection may take, and an answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Request<'a> {
    /// A context for so many processes.
    Open(u32),
    /// The end of the one with this entry.
    Close(u32),
    /// The page of results of another's, by a card of it.
    Join(Shown),
    /// That a slot of it has this byte code.
    Put(Shown, u32, &'a [u8]),
    /// A socket that [calculates](crate::calc).
    Calculate,
    /// That such a socket, which comes with it, runs this byte code in this slot, beside what it runs in the others.
    Code(u32, &'a [u8]),
    /// Which daemon it is, and of which site.
    Who,
    /// What its daemon offers for a context of several hosts: of so many processes of this host, which one of how many hosts it is.
    Offer(u32, [u32; 2]),
    /// That the context with this entry, of which there is an offer, is opened with those of all hosts.
    Bind(u32, &'a [u8]),
    /// The end of the one with this entry, once all below its host have entered the collective of this number.
    Leave(u32, u64),
}

/// What of a card shows that one has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shown {
    pub entry: u32,
    pub input: u32,
    pub id: u64,
    pub ticket: u64,
}

impl Shown {
    const NONE: Shown = Shown {
        entry: 0,
        input: 0,
        id: 0,
        ticket: 0,
    };

    fn of(card: &Card) -> Shown {
        Shown {
            entry: card.entry,
            input: card.input,
            id: card.id,
            ticket: card.ticket,
        }
    }
}

impl<'a> Request<'a> {
    /// The command with which a descriptor comes.
    const CODE: u32 = 10;
    const HEAD: usize = 40;
    /// Bytes of the beginning that tell whether a descriptor comes with it.
    pub const COMMAND: usize = 8;
    /// Bytes at most.
    pub const BYTES_MAX: usize = Request::HEAD + Request::MORE_MAX;
    const MORE_MAX: usize = if CODE_MAX > OFFERS_MAX {
        CODE_MAX
    } else {
        OFFERS_MAX
    };

    pub fn bytes(self) -> Vec<u8> {
        let only = |entry| Shown {
            entry,
            ..Shown::NONE
        };
        let (command, shown, slot, code) = match self {
            Request::Open(processes) => (1_u32, only(processes), 0, &[][..]),
            Request::Close(entry) => (2, only(entry), 0, &[][..]),
            Request::Join(shown) => (3, shown, 0, &[][..]),
            Request::Put(shown, slot, code) => (4, shown, slot, code),
            Request::Calculate => (9, Shown::NONE, 0, &[][..]),
            Request::Code(slot, code) => (Request::CODE, Shown::NONE, slot, code),
            Request::Who => (5, Shown::NONE, 0, &[][..]),
            Request::Offer(processes, [host, hosts]) => {
                let input = host;
                (
                    6,
                    Shown {
                        input,
                        ..only(processes)
                    },
                    hosts,
                    &[][..],
                )
            }
            Request::Bind(entry, tokens) => (7, only(entry), 0, tokens),
            Request::Leave(entry, id) => (8, Shown { id, ..only(entry) }, 0, &[][..]),
        };
        let mut bytes = Vec::with_capacity(Request::HEAD + code.len());
        for word in [MAGIC, command, shown.entry, shown.input] {
            bytes.extend(word.to_le_bytes());
        }
        for word in [shown.id, shown.ticket, u64::from(slot)] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(code);
        bytes
    }

    /// Whether a descriptor comes with what begins so.
    pub fn has_descriptor(begin: &[u8; Request::COMMAND]) -> bool {
        [word(begin, 0), word(begin, 4)] == [MAGIC, Request::CODE]
    }

    pub fn of(bytes: &'a [u8]) -> Option<Request<'a>> {
        let (head, code) = bytes.split_at_checked(Request::HEAD)?;
        let [magic, command, entry, input] = [0, 4, 8, 12].map(|at| word(head, at));
        let [id, ticket, slot] = [16, 24, 32].map(|at| long(&head[at..at + 8]));
        if magic != MAGIC {
            return None;
        }
        let shown = Shown {
            entry,
            input,
            id,
            ticket,
        };
        let slot = u32::try_from(slot).ok()?;
        match command {
            4 if code.len() <= CODE_MAX => Some(Request::Put(shown, slot, code)),
            7 if code.len() <= OFFERS_MAX => Some(Request::Bind(entry, code)),
            Request::CODE if code.len() <= CODE_MAX => Some(Request::Code(slot, code)),
            _ if !code.is_empty() => None,
            1 => Some(Request::Open(entry)),
            2 => Some(Request::Close(entry)),
            3 => Some(Request::Join(shown)),
            9 => Some(Request::Calculate),
            5 => Some(Request::Who),
            6 => Some(Request::Offer(entry, [input, slot])),
            8 => Some(Request::Leave(entry, id)),
            _ => None,
        }
    }
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Status {
    /// The context is open.
    Opened = 0,
    /// It is closed.
    Closed = 1,
    /// What was asked for does not exist.
    Invalid = 2,
    /// The user has as much as he may have.
    Quota = 3,
    /// The daemon has no more.
    Full = 4,
    /// The kernel refuses something to the daemon.
    System = 5,
    /// The byte code is in its slot.
    Put = 6,
    /// It says who it is.
    Known = 7,
    /// It makes an offer.
    Offered = 8,
    /// It is of no site.
    Alone = 9,
    /// An offer is not of its site, or not for this user, or not one of this context.
    Foreign = 10,
    /// None of its interfaces leads to a host.
    NoWay = 11,
    /// The daemon can't make sockets that calculate; when it began it has said why.
    NoGroup = 12,
}

impl Status {
    const ALL: [Status; 13] = [
        Status::Opened,
        Status::Closed,
        Status::Invalid,
        Status::Quota,
        Status::Full,
        Status::System,
        Status::Put,
        Status::Known,
        Status::Offered,
        Status::Alone,
        Status::Foreign,
        Status::NoWay,
        Status::NoGroup,
    ];
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Status::Opened => "it is open",
            Status::Closed => "it is closed",
            Status::Invalid => "what was asked for does not exist",
            Status::Quota => "the user has as much as he may have",
            Status::Full => "the daemon has no more",
            Status::System => "the kernel refuses something to the daemon",
            Status::Put => "it is in its slot",
            Status::Known => "it is known",
            Status::Offered => "it is offered",
            Status::Alone => "it has no site key (kaccd --site-key)",
            Status::Foreign => "what another host's kaccd offers is not of the same site and user",
            Status::NoWay => {
                "no interface that it may use (kaccd --interface) leads to another host's"
            }
            Status::NoGroup => "it has no control group for calculations, as it said when it began",
        })
    }
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reply {
    pub status: Status,
    pub port: u16,
    pub entry: u32,
    pub id: u64,
    pub tickets: Vec<u64>,
    /// What is offered, if something is.
    pub token: Option<Box<[u8; TOKEN]>>,
}

impl Reply {
    const HEAD: usize = 24;
    const BYTES_MAX: usize = Reply::HEAD + TOKEN + 8 * INPUTS_MAX as usize;

    /// One that says nothing else.
    pub fn only(status: Status) -> Reply {
        Reply {
            status,
            port: 0,
            entry: 0,
            id: 0,
            tickets: Vec::new(),
            token: None,
        }
    }

    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let words = [MAGIC, self.status as u32, u32::from(self.port), self.entry];
        bytes.extend(words.iter().flat_map(|w| w.to_le_bytes()));
        bytes.extend(self.id.to_le_bytes());
        bytes.extend(self.token.iter().flat_map(|token| &token[..]));
        bytes.extend(self.tickets.iter().flat_map(|t| t.to_le_bytes()));
        bytes
    }

    pub fn of(bytes: &[u8]) -> Option<Reply> {
        let (head, tickets) = bytes.split_at_checked(Reply::HEAD)?;
        let status = word(head, 4);
        let status = Status::ALL.into_iter().find(|s| *s as u32 == status)?;
        let (token, tickets) = match status {
            Status::Offered => {
                let (token, tickets) = tickets.split_first_chunk()?;
                (Some(Box::new(*token)), tickets)
            }
            _ => (None, tickets),
        };
        (word(head, 0) == MAGIC && tickets.len().is_multiple_of(8)).then_some(Reply {
            status,
            port: u16::try_from(word(head, 8)).ok()?,
            entry: word(head, 12),
            id: long(&head[16..]),
            tickets: tickets.chunks_exact(8).map(long).collect(),
            token,
        })
    }
}

impl Reply {
    fn cards(&self) -> Vec<Card> {
        let card = |(input, &ticket): (usize, &u64)| Card {
            port: self.port,
            entry: self.entry,
            id: self.id,
            input: input as u32,
            ticket,
        };
        self.tickets.iter().enumerate().map(card).collect()
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(word)
}

fn long(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().unwrap_or_default())
}

/// Why there is no context.
#[derive(Debug)]
pub enum NotOpen {
    /// No daemon can be reached.
    Absent(io::Error),
    /// Who has its name is another user.
    Stranger(u32),
    /// It does not answer.
    Silent,
    /// It has ended the connection.
    Ended,
    /// It does not answer so that it could be understood.
    Garbled(io::Error),
    /// It refuses.
    Refused(Status),
}

impl fmt::Display for NotOpen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotOpen::Absent(why) => write!(f, "no kaccd can be reached here: {why}"),
            NotOpen::Stranger(user) => write!(f, "what says it is kaccd belongs to user {user}"),
            NotOpen::Silent => write!(f, "kaccd has not answered for {} s", PATIENCE.as_secs()),
            NotOpen::Ended => f.write_str(
                "kaccd has ended the connection: it has ended, or has as many of this user's as he may have (kaccd --user-processes)",
            ),
            NotOpen::Garbled(why) => write!(f, "kaccd's answer can't be understood: {why}"),
            NotOpen::Refused(why) => write!(f, "kaccd refuses: {why}"),
        }
    }
}

impl std::error::Error for NotOpen {}

impl NotOpen {
    /// Why a question had no answer.
    fn of(why: io::Error) -> NotOpen {
        use io::ErrorKind::{BrokenPipe, ConnectionReset, TimedOut};
        match why.kind() {
            TimedOut => NotOpen::Silent,
            BrokenPipe | ConnectionReset => NotOpen::Ended,
            _ => NotOpen::Garbled(why),
        }
    }
}

/// A connection to the daemon: what was opened on it is closed with it.
#[derive(Debug)]
pub struct Client {
    socket: Socket,
}

/// Who a daemon is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// What only its host has.
    pub host: u64,
    /// What all hosts of its site have, if it is of one.
    pub site: Option<u64>,
}

/// A context of several hosts that is not open yet, at one of them.
#[derive(Debug)]
pub struct Offered {
    /// For each process of this host who it is.
    pub cards: Vec<Card>,
    /// What the other hosts' daemons have to see.
    pub token: Box<[u8; TOKEN]>,
}

/// A context, as those get it that take part.
#[derive(Debug)]
pub struct Opened {
    /// For each process who it is.
    pub cards: Vec<Card>,
    /// The page of results, which can only be read.
    pub page: OwnedFd,
}

impl Client {
    /// Connects to the daemon under this name.
    ///
    /// # Errors
    /// [`NotOpen::Absent`], [`NotOpen::Stranger`].
    pub fn new(name: &[u8]) -> Result<Client, NotOpen> {
        // Whoever has the name may let callers wait.
        let deadline = Some(Instant::now() + PATIENCE);
        let socket = sys::unix::connect_to_any(name, Kind::Packets, deadline);
        let socket = socket.map_err(NotOpen::Absent)?;
        let user = socket.user().map_err(NotOpen::Absent)?;
        let own = rustix::process::geteuid().as_raw();
        match user == 0 || user == own {
            true => Ok(Client { socket }),
            false => Err(NotOpen::Stranger(user)),
        }
    }

    fn ask(&self, request: Request<'_>) -> Result<(Reply, Option<OwnedFd>), NotOpen> {
        self.ask_with(request, None)
    }

    fn ask_with(
        &self,
        request: Request<'_>,
        fd: Option<BorrowedFd<'_>>,
    ) -> Result<(Reply, Option<OwnedFd>), NotOpen> {
        let deadline = Some(Instant::now() + PATIENCE);
        let mut bytes = [0; Reply::BYTES_MAX];
        let sent = self.socket.send(&request.bytes(), fd, deadline);
        let got = sent.and_then(|_| self.socket.receive(&mut bytes, deadline));
        let got = got.map_err(NotOpen::of)?;
        if got.bytes == 0 {
            return Err(NotOpen::Ended);
        }
        let reply = Reply::of(&bytes[..got.bytes]);
        let reply = reply.ok_or(NotOpen::Garbled(io::ErrorKind::InvalidData.into()))?;
        Ok((reply, got.fd))
    }

    /// Opens a context for so many processes of this host.
    ///
    /// # Errors
    /// [`NotOpen`].
    pub fn open(&self, processes: u32) -> Result<Opened, NotOpen> {
        let (reply, page) = self.ask(Request::Open(processes))?;
        if reply.status != Status::Opened {
            return Err(NotOpen::Refused(reply.status));
        }
        let page = page.filter(|_| reply.tickets.len() == processes as usize);
        let page = page.ok_or(NotOpen::Garbled(io::ErrorKind::InvalidData.into()))?;
        let cards = reply.cards();
        Ok(Opened { cards, page })
    }

    /// Who it is.
    ///
    /// # Errors
    /// [`NotOpen`].
    pub fn who(&self) -> Result<Known, NotOpen> {
        let (known, _) = self.known()?;
        Ok(known)
    }

    /// The numbers of the interfaces through which it reaches other hosts of its site: none if it is of no site.
    ///
    /// # Errors
    /// [`NotOpen`].
    pub fn interfaces(&self) -> Result<Vec<u32>, NotOpen> {
        let (_, interfaces) = self.known()?;
        Ok(interfaces)
    }

    fn known(&self) -> Result<(Known, Vec<u32>), NotOpen> {
        let (reply, _) = self.ask(Request::Who)?;
        if reply.status != Status::Known {
            return Err(NotOpen::Refused(reply.status));
        }
        let known = Known {
            host: reply.id,
            site: reply.tickets.first().copied(),
        };
        let interfaces = reply.tickets.iter().skip(1);
        let interfaces = interfaces.filter_map(|&n| u32::try_from(n).ok());
        Ok((known, interfaces.collect()))
    }

    /// Asks for what it offers for a context of several hosts, with so many processes of this one, which is this one of so many.
    ///
    /// # Errors
    /// [`NotOpen`].
    pub fn offer(&self, processes: u32, host: u32, hosts: u32) -> Result<Offered, NotOpen> {
        let (reply, _) = self.ask(Request::Offer(processes, [host, hosts]))?;
        if reply.status != Status::Offered {
            return Err(NotOpen::Refused(reply.status));
        }
        let cards = reply.cards();
        let token = reply.token.filter(|_| cards.len() == processes as usize);
        let token = token.ok_or(NotOpen::Garbled(io::ErrorKind::InvalidData.into()))?;
        Ok(Offered { cards, token })
    }

    /// Opens the context of this card, which was offered on this connection, with what all hosts' daemons offer, in order.
    ///
    /// # Errors
    /// [`NotOpen`].
    pub fn bind(&self, card: &Card, tokens: &[u8]) -> Result<OwnedFd, NotOpen> {
        let (reply, page) = self.ask(Request::Bind(card.entry, tokens))?;
        match reply.status {
            Status::Opened => page.ok_or(NotOpen::Garbled(io::ErrorKind::InvalidData.into())),
            other => Err(NotOpen::Refused(other)),
        }
    }

    /// The page of results of the context that this card is one of, whoever opened it.
    ///
    /// # Errors
    /// [`NotOpen`].
    pub fn join(&self, card: &Card) -> Result<OwnedFd, NotOpen> {
        let (reply, page) = self.ask(Request::Join(Shown::of(card)))?;
        match reply.status {
            Status::Opened => page.ok_or(NotOpen::Garbled(io::ErrorKind::InvalidData.into())),
            other => Err(NotOpen::Refused(other)),
        }
    }

    /// Has byte code in a slot of the context that this card is one of, for all that take part. No collective may be under way there.
    ///
    /// # Errors
    /// [`NotOpen`].
    pub fn put(&self, card: &Card, slot: u32, flat: &Flat) -> Result<(), NotOpen> {
        let request = Request::Put(Shown::of(card), slot, flat.code());
        match self.ask(request)?.0.status {
            Status::Put => Ok(()),
            other => Err(NotOpen::Refused(other)),
        }
    }

    /// A socket that [calculates](crate::calc), for as long as it is open; it does not end with the connection, nor with the daemon.
    ///
    /// # Errors
    /// [`NotOpen`].
    pub fn calculate(&self) -> Result<OwnedFd, NotOpen> {
        let (reply, socket) = self.ask(Request::Calculate)?;
        match reply.status {
            Status::Opened => socket.ok_or(NotOpen::Garbled(io::ErrorKind::InvalidData.into())),
            other => Err(NotOpen::Refused(other)),
        }
    }

    /// Has a socket that calculates run byte code in a slot. It must not be under way there.
    ///
    /// # Errors
    /// [`NotOpen`].
    pub fn code(&self, socket: BorrowedFd<'_>, slot: u32, flat: &Flat) -> Result<(), NotOpen> {
        let request = Request::Code(slot, flat.code());
        match self.ask_with(request, Some(socket))?.0.status {
            Status::Put => Ok(()),
            other => Err(NotOpen::Refused(other)),
        }
    }

    /// Whether the daemon has ended, or has ended the connection: what was opened on it is going, or gone.
    pub fn is_gone(&self) -> bool {
        let mut fds = [PollFd::new(&self.socket, PollFlags::IN)];
        let gone = PollFlags::HUP | PollFlags::ERR;
        poll(&mut fds, Some(&Timespec::default())).is_ok() && fds[0].revents().intersects(gone)
    }

    /// Closes the context of this card, which was opened on this connection.
    ///
    /// # Errors
    /// [`NotOpen`].
    pub fn close(&self, card: &Card) -> Result<(), NotOpen> {
        self.end(Request::Close(card.entry))
    }

    /// Closes the context of this card, which was opened on this connection, once all processes below this host have entered the
    /// collective of this number: the last one, which says that nobody lacks anything of those before.
    ///
    /// # Errors
    /// [`NotOpen`].
    pub fn leave(&self, card: &Card, number: u64) -> Result<(), NotOpen> {
        self.end(Request::Leave(card.entry, number))
    }

    fn end(&self, request: Request<'_>) -> Result<(), NotOpen> {
        match self.ask(request)?.0.status {
            Status::Closed => Ok(()),
            other => Err(NotOpen::Refused(other)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_comes_back() {
        let shown = Shown {
            entry: 1,
            input: 2,
            id: u64::MAX - 2,
            ticket: 3 << 60,
        };
        for request in [
            Request::Open(0),
            Request::Open(u32::MAX),
            Request::Close(7),
            Request::Join(shown),
            Request::Put(shown, 3, b"some code"),
            Request::Put(shown, u32::MAX, b""),
            Request::Calculate,
            Request::Code(2, b"some code"),
            Request::Who,
            Request::Leave(3, u64::MAX),
            Request::Offer(3, [4, 5]),
            Request::Bind(7, &[1; 2 * TOKEN]),
        ] {
            assert_eq!(Request::of(&request.bytes()), Some(request));
        }
        let reply = Reply {
            status: Status::Opened,
            port: 7117,
            entry: 3,
            id: u64::MAX - 1,
            tickets: vec![1, u64::MAX],
            token: None,
        };
        assert_eq!(Reply::of(&reply.bytes()), Some(reply.clone()));
        let offered = Reply {
            status: Status::Offered,
            token: Some(Box::new([7; TOKEN])),
            ..reply.clone()
        };
        assert_eq!(Reply::of(&offered.bytes()), Some(offered.clone()));
        assert_eq!(Reply::of(&offered.bytes()[..24 + TOKEN - 1]), None);
        for status in Status::ALL.into_iter().filter(|s| *s != Status::Offered) {
            let only = Reply::only(status);
            assert_eq!(Reply::of(&only.bytes()), Some(only));
        }
        let good = reply.bytes();
        assert_eq!(Reply::of(&good[..good.len() - 1]), None);
        assert_eq!(Reply::of(&good[..20]), None);
        assert_eq!(Request::of(&[0; 39]), None);
        for at in [0, 5, 11] {
            let mut bad = good.clone();
            bad[at] ^= 0x40;
            assert_eq!(Reply::of(&bad), None, "byte {at}");
        }
        let mut bad = Request::Open(1).bytes();
        bad[4] = 11;
        assert_eq!(Request::of(&bad), None);
        let long = [0; OFFERS_MAX + 1];
        assert_eq!(Request::of(&Request::Bind(1, &long).bytes()), None);
        let mut bad = Request::Open(1).bytes();
        bad.push(0);
        assert_eq!(Request::of(&bad), None);
    }

    proptest::proptest! {
        #[test]
        fn whatever_comes_is_refused_or_understood_in_one_way(
            mut bytes in proptest::collection::vec(0_u8.., 0..3 * TOKEN),
            command in 0_u8..12,
        ) {
            for (at, byte) in MAGIC.to_le_bytes().into_iter().chain([command, 0, 0, 0]).enumerate() {
                if let Some(to) = bytes.get_mut(at) {
                    *to = byte;
                }
            }
            if let Some(request) = Request::of(&bytes) {
                let said = request.bytes();
                proptest::prop_assert_eq!(Request::of(&said), Some(request));
            }
            if let Some(reply) = Reply::of(&bytes) {
                proptest::prop_assert_eq!(reply.bytes(), bytes);
            }
        }
    }
}
