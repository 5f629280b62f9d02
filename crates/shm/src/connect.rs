//! How the ranks of a node come to share a segment.
//!
//! The first of them, its holder, makes it, listens on an abstract Unix socket with a random name, and publishes name and
//! a random secret through the exchange. The others connect, show version and secret, and get the
//! descriptor. Both ends check that the other belongs to the same user (`sys::unix` does); the one
//! who maps checks seals and size. Afterwards socket and descriptor are closed and nothing has a
//! name any more.

use std::fmt;
use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use mtmi::{Exchange, ExchangeError};
use sys::sparse::Sparse;
use sys::unix::{self, Kind, Socket};

use crate::Shm;
use crate::direct::Choice;
use crate::foreign;
use crate::segment::{MOST_RANKS, Segment, VERSION as LONGEST};
use crate::slots::{self, Area};

/// The version of this library, which all ranks of a node must share.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What a rank has to know to join.
#[derive(Clone, Debug)]
pub struct Config {
    /// This process, among those of the job.
    pub rank: u32,
    /// The processes that share the segment, in ascending order; this one is among them.
    pub members: Vec<u32>,
    /// How many processes the job has.
    pub endpoints: u32,
    /// Prefix of the keys used in the exchange, so that several nodes or fabrics can share it.
    pub key: String,
    /// The version that others must have too; [`VERSION`] but in tests.
    pub version: String,
    /// When to give up.
    pub deadline: Option<Instant>,
    /// How long messages go.
    pub copy: Choice,
}

impl Config {
    /// Rank `rank` of `ranks` that are all on one node and look into nobody's memory, with a minute's patience.
    pub fn new(rank: u32, ranks: u32) -> Config {
        Config {
            rank,
            members: (0..ranks).collect(),
            endpoints: ranks,
            key: "shm.0".to_string(),
            version: VERSION.to_string(),
            deadline: sys::clock::after(Duration::from_secs(60)),
            copy: Choice::Pipe,
        }
    }
}

/// Why a rank could not join.
#[derive(Debug)]
pub enum InitError {
    /// Rank or number of ranks make no sense or are too large.
    Ranks(u32, u32),
    /// The exchange failed.
    Exchange(ExchangeError),
    /// A rank runs another version.
    Version {
        /// That rank.
        rank: u32,
        /// What it runs.
        theirs: String,
        /// What this rank runs.
        ours: String,
    },
    /// The segment is out of reach, although the launcher says that it is on this machine.
    Apart {
        /// The rank that has it.
        holder: u32,
        /// What the system said.
        error: io::Error,
    },
    /// The system refused something.
    System(&'static str, io::Error),
    /// The segment could not be fetched.
    Fetch {
        /// The rank that has it.
        holder: u32,
        /// What the system said.
        error: io::Error,
    },
    /// The rank that has the segment did something that no rank does.
    Protocol {
        /// That rank.
        holder: u32,
        /// What it did.
        what: &'static str,
    },
    /// The library's version has too long a name.
    LongVersion,
}

impl fmt::Display for InitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InitError::Ranks(rank, ranks) => {
                write!(f, "rank {rank} of {ranks} cannot share a node's memory")
            }
            InitError::Exchange(e) => write!(f, "exchanging addresses failed: {e}"),
            InitError::Version { rank, theirs, ours } => write!(
                f,
                "rank {rank} runs version {theirs} of Yamabiko, this rank runs {ours}: \
                 all ranks of a job need the same version"
            ),
            InitError::Apart { holder, error } => write!(
                f,
                "rank {holder} is on this machine but its memory can't be shared ({error}): it runs in another \
                 network namespace or as another user; YAMABIKO_FABRICS=self,tcp does without"
            ),
            InitError::System(what, e) => write!(f, "{what} failed: {e}"),
            InitError::Fetch { holder, error } => write!(
                f,
                "fetching the node's shared segment from rank {holder} failed: {error}"
            ),
            InitError::Protocol { holder, what } => {
                write!(f, "joining the node's memory failed: rank {holder} {what}")
            }
            InitError::LongVersion => f.write_str("the version's name is too long"),
        }
    }
}

impl std::error::Error for InitError {}

impl From<ExchangeError> for InitError {
    fn from(e: ExchangeError) -> InitError {
        InitError::Exchange(e)
    }
}

/// Longest time that the holder lets one connection keep the others waiting.
const ONE: Duration = Duration::from_secs(5);
/// First word of a hello and of its answers.
const HELLO: &str = "yamabiko-shm";
/// What comes with the descriptor of the file of slots, or without one if there is none.
const SLOTS: &str = "slots";

impl Shm {
    /// Joins the segment's processes. All processes of the job call it, whatever segment they share, as
    /// it waits for all of them once.
    pub fn init(config: &Config, exchange: &mut dyn Exchange) -> Result<Shm, InitError> {
        let ranks = config.members.len() as u32;
        let ordered = config.members.is_sorted_by(|a, b| a < b);
        let inside = config.members.last().is_some_and(|&m| m < config.endpoints);
        let place = config.members.binary_search(&config.rank);
        let (Ok(place), true) = (place, ordered && inside && ranks <= MOST_RANKS) else {
            return Err(InitError::Ranks(config.rank, ranks));
        };
        if config.version.len() >= LONGEST {
            return Err(InitError::LongVersion);
        }
        let (segment, file) = if ranks == 1 {
            if config.endpoints > 1 {
                exchange.barrier()?;
            }
            (create(config)?.1, slot_file(ranks))
        } else if place == 0 {
            serve(config, exchange)?
        } else {
            exchange.barrier()?;
            join(config, place as u32, &exchange.get(&config.key)?)?
        };
        let local = place as u32;
        segment.bell(local).open();
        segment.report_cpus(&sys::cpus::affinity());
        let area = file.and_then(|file| Area::new(file, ranks, local));
        let members = config.members.clone();
        let mut shm = Shm::new(segment, area, local, members, config.endpoints);
        shm.choose(config.copy);
        Ok(shm)
    }
}

fn create(config: &Config) -> Result<(std::os::fd::OwnedFd, Segment), InitError> {
    let made = Segment::create(config.members.len() as u32, &config.version)
        .map_err(|e| InitError::System("making the node's shared segment", e))?;
    if config.members.len() > 1 && config.copy.copies_unmeasured() && foreign::is_allowed() {
        made.1.lend();
    }
    Ok(made)
}

/// The file of slots and mapped memory. A job that uses neither does without it.
fn slot_file(ranks: u32) -> io::Result<Sparse> {
    Sparse::create("yamabiko-slots", slots::size(ranks))
}

fn hex(bytes: [u8; 16]) -> String {
    format!("{:032x}", u128::from_be_bytes(bytes))
}

fn random() -> Result<String, InitError> {
    sys::random::bytes16()
        .map(hex)
        .map_err(|e| InitError::System("getting random bytes", e))
}

/// The first of them: makes the segment and hands it to all others.
fn serve(
    config: &Config,
    exchange: &mut dyn Exchange,
) -> Result<(Segment, io::Result<Sparse>), InitError> {
    let failed = |e| InitError::System("listening for the node's ranks", e);
    let (fd, mut segment) = create(config)?;
    segment.mark(&fd, 0);
    let slots = slot_file(config.members.len() as u32);
    let more = slots.as_ref().ok().map(Sparse::fd);
    let (name, secret) = (format!("yamabiko-{}", random()?), random()?);
    let listener = unix::listen(name.as_bytes(), Kind::Packets).map_err(failed)?;
    exchange.put(&config.key, &format!("{}/{name}/{secret}", config.version))?;
    exchange.barrier()?;
    let mut joined = vec![false; config.members.len()];
    joined[0] = true;
    while joined.contains(&false) {
        let socket = listener.accept(config.deadline).map_err(failed)?;
        // Whoever does not know the secret or says nothing is not one of us.
        let Some((place, version)) = greeting(config, &socket, &secret) else {
            continue;
        };
        let deadline = sys::clock::after(ONE);
        if version != config.version {
            let answer = format!("{HELLO} version {}", config.version);
            let _ = socket.send_all(answer.as_bytes(), None, deadline);
            return Err(InitError::Version {
                rank: config.members[place],
                theirs: version,
                ours: config.version.clone(),
            });
        }
        let answer = format!("{HELLO} welcome {}", config.version);
        socket
            .send_all(answer.as_bytes(), Some(fd.as_fd()), deadline)
            .and_then(|()| socket.send_all(SLOTS.as_bytes(), more, deadline))
            .map_err(|e| InitError::System("passing the node's shared segment", e))?;
        joined[place] = true;
    }
    Ok((segment, slots))
}

/// Reads a hello; its sender's place and version if it knows the secret.
fn greeting(config: &Config, socket: &Socket, secret: &str) -> Option<(usize, String)> {
    let mut packet = [0; 256];
    let n = socket
        .receive(&mut packet, sys::clock::after(ONE))
        .ok()?
        .bytes;
    let text = std::str::from_utf8(&packet[..n]).ok()?;
    let mut words = text.split(' ');
    let (hello, version, rank) = (words.next()?, words.next()?, words.next()?);
    let rank: u32 = rank.parse().ok()?;
    let proof = words.next()?;
    let place = config.members.binary_search(&rank).ok()?;
    let known = hello == HELLO && equal(proof, secret) && place > 0;
    known.then(|| (place, version.to_string()))
}

/// Compares in a time that does not tell where the difference is.
fn equal(a: &str, b: &str) -> bool {
    let differences = a.bytes().zip(b.bytes()).fold(0, |d, (x, y)| d | (x ^ y));
    a.len() == b.len() && std::hint::black_box(differences) == 0
}

/// Another rank: fetches the segment from its holder.
fn join(
    config: &Config,
    place: u32,
    address: &str,
) -> Result<(Segment, io::Result<Sparse>), InitError> {
    let holder = config.members[0];
    let wrong = |what| InitError::Protocol { holder, what };
    let failed = |error| InitError::Fetch { holder, error };
    let parts: Vec<&str> = address.split('/').collect();
    let [_, name, secret] = parts[..] else {
        return Err(wrong("published no address"));
    };
    let socket = unix::connect(name.as_bytes(), Kind::Packets, config.deadline).map_err(
        |error| match error.kind() {
            io::ErrorKind::ConnectionRefused | io::ErrorKind::PermissionDenied => {
                InitError::Apart { holder, error }
            }
            _ => failed(error),
        },
    )?;
    let hello = format!("{HELLO} {} {} {secret}", config.version, config.rank);
    socket
        .send_all(hello.as_bytes(), None, config.deadline)
        .map_err(failed)?;
    let mut packet = [0; 256];
    let got = socket
        .receive(&mut packet, config.deadline)
        .map_err(failed)?;
    let text = String::from_utf8_lossy(&packet[..got.bytes]);
    let mut words = text.split(' ');
    let (hello, verdict, version) = (words.next(), words.next(), words.next());
    if hello != Some(HELLO) {
        return Err(wrong("closed the connection"));
    }
    if verdict != Some("welcome") {
        return Err(InitError::Version {
            rank: holder,
            theirs: version.unwrap_or("unknown").to_string(),
            ours: config.version.clone(),
        });
    }
    let fd = got.fd.ok_or_else(|| wrong("passed no descriptor"))?;
    let mut segment =
        Segment::open(&fd, config.members.len() as u32, &config.version).map_err(failed)?;
    segment.mark(fd, place);
    let got = socket
        .receive(&mut packet, config.deadline)
        .map_err(failed)?;
    if packet[..got.bytes] != *SLOTS.as_bytes() {
        return Err(wrong("closed the connection"));
    }
    let file = got.fd.ok_or(io::ErrorKind::OutOfMemory.into());
    Ok((segment, file.and_then(Sparse::open)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What rank 5 says when rank 2, which has the segment, is at this address.
    fn told(address: &str) -> String {
        let config = Config {
            members: vec![2, 5],
            ..Config::new(5, 6)
        };
        let error = join(&config, 1, address).err();
        error.map_or_else(String::new, |e| e.to_string())
    }

    #[test]
    fn the_holder_is_named() {
        let why = "joining the node's memory failed: rank 2";
        assert_eq!(told("nonsense"), format!("{why} published no address"));
        let name = format!("yamabiko-{}", random().unwrap());
        let address = format!("1/{name}/secret");
        assert!(told(&address).starts_with("rank 2 is on this machine but"));
        let listener = unix::listen(name.as_bytes(), Kind::Packets).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let deadline = sys::clock::after(Duration::from_secs(20));
                for answer in [b"go away".to_vec(), format!("{HELLO} welcome 1").into()] {
                    let socket = listener.accept(deadline).unwrap();
                    // A socket closed with something unread is reset.
                    socket.receive(&mut [0; 256], deadline).unwrap();
                    socket.send_all(&answer, None, deadline).unwrap();
                }
            });
            assert_eq!(told(&address), format!("{why} closed the connection"));
            assert_eq!(told(&address), format!("{why} passed no descriptor"));
        });
    }
}
