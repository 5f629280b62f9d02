//! How the processes of a job find each other.

use std::fmt;
use std::time::Duration;

use mtmi::{Endpoint, Exchange, ExchangeError};
use shm::{Config, InitError, Shm};
use tcp::{Listening, Tcp};

use crate::card::{self, Card};
use crate::copying;
use crate::map::JobMap;
use crate::routes::{Fabrics, Via};
use crate::selection::{Selection, VARIABLE};

/// How long the processes of a machine have to join their segment.
const JOINING: Duration = Duration::from_secs(60);

/// What a process knows of its job before any fabric works.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// This process.
    pub rank: u32,
    /// How many processes the job has.
    pub size: u32,
    /// Whether the launcher says that all of them run on one machine.
    pub together: bool,
}

/// Why the fabrics could not start, in words for a person.
#[derive(Debug)]
pub enum StartError {
    /// The environment asks for something that doesn't exist.
    Selection(String),
    /// Telling each other failed.
    Exchange(ExchangeError),
    /// Sharing memory failed.
    Shm(InitError),
    /// Joining the network failed.
    Tcp(tcp::Error),
    /// The system refused a descriptor.
    System(std::io::Error),
    /// No fabric reaches a process.
    Unreachable(String),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::Selection(e) | StartError::Unreachable(e) => f.write_str(e),
            StartError::Exchange(e) => write!(f, "exchanging addresses failed: {e}"),
            StartError::Shm(e) => e.fmt(f),
            StartError::System(e) => write!(f, "making a socket failed: {e}"),
            StartError::Tcp(e) => write!(f, "joining the network failed: {e}"),
        }
    }
}

impl std::error::Error for StartError {}

impl From<ExchangeError> for StartError {
    fn from(e: ExchangeError) -> StartError {
        StartError::Exchange(e)
    }
}

impl From<tcp::Error> for StartError {
    fn from(e: tcp::Error) -> StartError {
        StartError::Tcp(e)
    }
}

impl Place {
    /// Whether shared memory reaches everybody, so that no addresses have to be exchanged.
    fn one_segment(&self, selection: Selection) -> bool {
        self.size == 1 || (self.together && selection.shm)
    }
}

impl Fabrics {
    /// Starts the fabrics that the environment allows. All processes of the job call it. `secret` gives
    /// what only the job's processes know; it is asked for, in all of them, only if the network is needed.
    pub fn start<E: Exchange>(
        place: Place,
        exchange: &mut E,
        secret: impl FnOnce(&mut E) -> Result<[u8; 32], ExchangeError>,
    ) -> Result<Fabrics, StartError> {
        let selection = Selection::from_environment().map_err(StartError::Selection)?;
        // Also where shared memory suffices: a slip is told before it matters.
        let network = tcp::Config::from_environment()?;
        if place.one_segment(selection) {
            let everybody = (0..place.size).collect();
            let shm = share(place, everybody, exchange)?;
            let via = vec![Via::Shm; place.size as usize];
            let map = JobMap::together(place.size);
            return Fabrics::new(shm, None, via, map).map_err(StartError::System);
        }
        let secret = secret(exchange)?;
        let listening = match selection.tcp {
            true => Some(Tcp::listen(network)?),
            false => None,
        };
        let cards = introduce(place, selection, listening.as_ref(), exchange)?;
        let map = JobMap::of(&cards);
        let mine = map.segment(place.rank);
        let via = routes(place, &mine, &cards, selection)?;
        let (neighbours, sharing) = (map.neighbours(place.rank), mine.len());
        let mut shm = share(place, mine, exchange)?;
        // Of processes outside its segment shared memory knows nothing.
        if neighbours > sharing && neighbours > sys::cpus::allowed() {
            shm.share_processors();
        }
        let by_network = |(card, &via): (Card, &Via)| card.address.filter(|_| via == Via::Tcp);
        let addresses: Vec<_> = cards.into_iter().zip(&via).map(by_network).collect();
        let tcp = listening
            .map(|listening| listening.join(Endpoint(place.rank), place.size, &addresses, secret));
        Fabrics::new(shm, tcp, via, map).map_err(StartError::System)
    }
}

fn share(place: Place, members: Vec<u32>, exchange: &mut dyn Exchange) -> Result<Shm, StartError> {
    let config = Config {
        key: format!("shm.{}", members[0]),
        members,
        endpoints: place.size,
        deadline: sys::clock::after(JOINING),
        copy: copying::from_environment().map_err(StartError::Selection)?,
        ..Config::new(place.rank, place.size)
    };
    Shm::init(&config, exchange).map_err(StartError::Shm)
}

/// Publishes this process's card and learns the others'.
fn introduce(
    place: Place,
    selection: Selection,
    listening: Option<&Listening>,
    exchange: &mut dyn Exchange,
) -> Result<Vec<Card>, StartError> {
    let own = Card {
        machine: card::machine(),
        shares: selection.shm,
        address: listening.map(Listening::address),
    };
    exchange.put(&format!("card.{}", place.rank), &own.encode())?;
    exchange.barrier()?;
    let mut cards = Vec::with_capacity(place.size as usize);
    for rank in 0..place.size {
        let text = exchange.get(&format!("card.{rank}"))?;
        let card = Card::decode(&text).ok_or_else(|| {
            ExchangeError(format!(
                "rank {rank} published a card that can't be read: do all ranks use the same version?"
            ))
        })?;
        cards.push(card);
    }
    Ok(cards)
}

/// Which fabric reaches whom.
fn routes(
    place: Place,
    mine: &[u32],
    cards: &[Card],
    selection: Selection,
) -> Result<Vec<Via>, StartError> {
    (0u32..)
        .zip(cards)
        .map(|(peer, card)| {
            if mine.contains(&peer) {
                return Ok(Via::Shm);
            }
            if selection.tcp && card.address.is_some() {
                return Ok(Via::Tcp);
            }
            let text = format!(
                "rank {} can't reach rank {peer}: they don't share memory, and the network (tcp) is \
                 not among the fabrics allowed; change {VARIABLE}",
                place.rank
            );
            Err(StartError::Unreachable(text))
        })
        .collect()
}
