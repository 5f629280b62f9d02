//! How a process asks the daemon for a context, and what they say to each other: packets of a fixed layout on a Unix socket.
//!
//! Invariants: neither believes the other more than that the kernel says who he is; the daemon has to be the superuser's or the
//! caller's own, since anybody can take its name. Who calls it: a process that opens a context, and those it tells its cards; `daemon` has the
//! other side.

use crate::layout::INPUTS_MAX;
use crate::rank::Card;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};
use sys::unix::Socket;

/// The daemon's name.
pub const NAME: &[u8] = b"yamabiko-kaccd";

/// The environment variable that has it, where it isn't the usual one.
pub const VARIABLE: &str = "YAMABIKO_KACCD";

/// "ymk", and the version of what follows.
const MAGIC: u32 = u32::from_le_bytes(*b"ymk\x02");

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// A context for so many processes.
    Open(u32),
    /// The end of the one with this entry.
    Close(u32),
    /// The page of results of another's, by a card of it.
    Join {
        entry: u32,
        input: u32,
        id: u64,
        ticket: u64,
    },
}

impl Request {
    pub const BYTES: usize = 32;

    pub fn bytes(self) -> [u8; Request::BYTES] {
        let (command, number, input, id, ticket) = match self {
            Request::Open(processes) => (1_u32, processes, 0, 0, 0),
            Request::Close(entry) => (2, entry, 0, 0, 0),
            Request::Join {
                entry,
                input,
                id,
                ticket,
            } => (3, entry, input, id, ticket),
        };
        let mut bytes = [0; Request::BYTES];
        for (at, word) in [MAGIC, command, number, input].into_iter().enumerate() {
            bytes[4 * at..4 * at + 4].copy_from_slice(&word.to_le_bytes());
        }
        bytes[16..24].copy_from_slice(&id.to_le_bytes());
        bytes[24..].copy_from_slice(&ticket.to_le_bytes());
        bytes
    }

    pub fn of(bytes: &[u8; Request::BYTES]) -> Option<Request> {
        let [magic, command, number, input] = [0, 4, 8, 12].map(|at| word(bytes, at));
        if magic != MAGIC {
            return None;
        }
        match command {
            1 => Some(Request::Open(number)),
            2 => Some(Request::Close(number)),
            3 => Some(Request::Join {
                entry: number,
                input,
                id: long(&bytes[16..24]),
                ticket: long(&bytes[24..]),
            }),
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
}

impl Status {
    const ALL: [Status; 6] = [
        Status::Opened,
        Status::Closed,
        Status::Invalid,
        Status::Quota,
        Status::Full,
        Status::System,
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
}

impl Reply {
    const HEAD: usize = 24;
    const BYTES_MAX: usize = Reply::HEAD + 8 * INPUTS_MAX as usize;

    /// One that says nothing else.
    pub fn only(status: Status) -> Reply {
        Reply {
            status,
            port: 0,
            entry: 0,
            id: 0,
            tickets: Vec::new(),
        }
    }

    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let words = [MAGIC, self.status as u32, u32::from(self.port), self.entry];
        bytes.extend(words.iter().flat_map(|w| w.to_le_bytes()));
        bytes.extend(self.id.to_le_bytes());
        bytes.extend(self.tickets.iter().flat_map(|t| t.to_le_bytes()));
        bytes
    }

    pub fn of(bytes: &[u8]) -> Option<Reply> {
        let (head, tickets) = bytes.split_at_checked(Reply::HEAD)?;
        let status = word(head, 4);
        let status = Status::ALL.into_iter().find(|s| *s as u32 == status)?;
        (word(head, 0) == MAGIC && tickets.len().is_multiple_of(8)).then_some(Reply {
            status,
            port: u16::try_from(word(head, 8)).ok()?,
            entry: word(head, 12),
            id: long(&head[16..]),
            tickets: tickets.chunks_exact(8).map(long).collect(),
        })
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
    /// It does not answer, or not so that it could be understood.
    Garbled(io::Error),
    /// It refuses.
    Refused(Status),
}

impl fmt::Display for NotOpen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotOpen::Absent(why) => write!(f, "no kaccd can be reached here: {why}"),
            NotOpen::Stranger(user) => write!(f, "what says it is kaccd belongs to user {user}"),
            NotOpen::Garbled(why) => write!(f, "kaccd's answer can't be understood: {why}"),
            NotOpen::Refused(why) => write!(f, "kaccd refuses: {why}"),
        }
    }
}

impl std::error::Error for NotOpen {}

/// A connection to the daemon: what was opened on it is closed with it.
#[derive(Debug)]
pub struct Client {
    socket: Socket,
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
        let connected = || -> rustix::io::Result<OwnedFd> {
            let flags = SocketFlags::CLOEXEC;
            let fd = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
            connect(&fd, &SocketAddrUnix::new_abstract_name(name)?)?;
            Ok(fd)
        };
        let fd = connected().map_err(|e| NotOpen::Absent(e.into()))?;
        let socket = Socket::from_fd(fd).map_err(NotOpen::Absent)?;
        let user = socket.user().map_err(NotOpen::Absent)?;
        let own = rustix::process::geteuid().as_raw();
        match user == 0 || user == own {
            true => Ok(Client { socket }),
            false => Err(NotOpen::Stranger(user)),
        }
    }

    fn ask(&self, request: Request) -> Result<(Reply, Option<OwnedFd>), NotOpen> {
        let deadline = Some(Instant::now() + PATIENCE);
        let mut bytes = [0; Reply::BYTES_MAX];
        let sent = self.socket.send(&request.bytes(), None, deadline);
        let got = sent.and_then(|_| self.socket.receive(&mut bytes, deadline));
        let got = got.map_err(NotOpen::Garbled)?;
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
        let card = |(input, &ticket): (usize, &u64)| Card {
            port: reply.port,
            entry: reply.entry,
            id: reply.id,
            input: input as u32,
            ticket,
        };
        let cards = reply.tickets.iter().enumerate().map(card).collect();
        Ok(Opened { cards, page })
    }

    /// The page of results of the context that this card is one of, whoever opened it.
    ///
    /// # Errors
    /// [`NotOpen`].
    pub fn join(&self, card: &Card) -> Result<OwnedFd, NotOpen> {
        let (reply, page) = self.ask(Request::Join {
            entry: card.entry,
            input: card.input,
            id: card.id,
            ticket: card.ticket,
        })?;
        match reply.status {
            Status::Opened => page.ok_or(NotOpen::Garbled(io::ErrorKind::InvalidData.into())),
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
        match self.ask(Request::Close(card.entry))?.0.status {
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
        let join = Request::Join {
            entry: 1,
            input: 2,
            id: u64::MAX - 2,
            ticket: 3 << 60,
        };
        let others = [Request::Open(0), Request::Open(u32::MAX), Request::Close(7)];
        for request in others.into_iter().chain([join]) {
            assert_eq!(Request::of(&request.bytes()), Some(request));
        }
        let reply = Reply {
            status: Status::Opened,
            port: 7117,
            entry: 3,
            id: u64::MAX - 1,
            tickets: vec![1, u64::MAX],
        };
        assert_eq!(Reply::of(&reply.bytes()), Some(reply.clone()));
        for status in Status::ALL {
            let only = Reply::only(status);
            assert_eq!(Reply::of(&only.bytes()), Some(only));
        }
        let good = reply.bytes();
        assert_eq!(Reply::of(&good[..good.len() - 1]), None);
        assert_eq!(Reply::of(&good[..20]), None);
        for at in [0, 5, 11] {
            let mut bad = good.clone();
            bad[at] ^= 0x40;
            assert_eq!(Reply::of(&bad), None, "byte {at}");
        }
        let mut bad = Request::Open(1).bytes();
        bad[4] = 4;
        assert_eq!(Request::of(&bad), None);
    }
}
