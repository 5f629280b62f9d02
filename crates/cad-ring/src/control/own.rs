//! Who a process is before it knows the others: where it listens, and the card by which all are told.
//!
//! Who calls it: `ring::Opening`, which gets from it the [`Control`] once all cards are known.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;

use sys::unix::{self, Kind, Listener};
use tcp::Config;
use tcp::meeting::{Identity, Reception};

use super::far::Far;
use super::{Control, FAR_MAX, HELLO, VERSION, Watched};

/// What a card has as its address on the network that has none.
const NOWHERE: &str = "-";
/// What the proofs of processes of other hosts are for.
const PURPOSE: &str = "chains";

/// When processes of different hosts meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meet {
    /// All when they join, which waits for all.
    AtOnce,
    /// Each two when the first plan needs both: who joins waits for nobody, and plans move in calls only until then.
    WhenNeeded,
}

/// A process that can be called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Address {
    pub name: String,
    pub secret: String,
}

/// What a process's card says.
struct Card {
    place: u64,
    address: Address,
    /// Where it listens to the network, if it does.
    network: Option<String>,
}

/// A process that can be called, before it knows the others.
pub(crate) struct Own {
    listener: Listener,
    address: Address,
    neighbourhood: u64,
    /// Where processes of other hosts call.
    pub(super) reception: Option<(Reception, Config)>,
}

fn random() -> io::Result<String> {
    let bytes = sys::random::bytes16()?;
    Ok(format!("{:032x}", u128::from_be_bytes(bytes)))
}

impl Own {
    pub fn listen() -> io::Result<Own> {
        let (name, secret) = (format!("yamabiko-cad-{}", random()?), random()?);
        Ok(Own {
            listener: unix::listen(name.as_bytes(), Kind::Packets)?,
            address: Address { name, secret },
            neighbourhood: unix::neighbourhood()?,
            reception: None,
        })
    }

    /// Listens to the network too, on a machine with so many ranks.
    pub fn reach(&mut self, ranks: u32) -> Result<(), String> {
        let config = Config::from_environment().map_err(|e| e.to_string())?;
        if let Some(ports) = too_few(&config, ranks) {
            return Err(format!(
                "YAMABIKO_PORT_RANGE has {ports} ports, and the {ranks} ranks of this machine need two each"
            ));
        }
        let reception = Reception::open(&config).map_err(|e| e.to_string())?;
        self.reception = Some((reception, config));
        Ok(())
    }

    /// What the others have to know: printable, without blanks, below 400 bytes.
    pub fn card(&self) -> String {
        let Address { name, secret } = &self.address;
        let place = self.neighbourhood;
        let network = self.reception.as_ref().map(|(r, _)| r.address());
        let network = network.as_deref().unwrap_or(NOWHERE);
        format!("{HELLO}/{VERSION}/{place:016x}/{name}/{secret}/{network}")
    }

    /// Where all processes can be called; `cards` has what they published, in their order. If not all can call each other, each
    /// process finds that.
    ///
    /// # Errors
    /// In words: whose card does not fit.
    fn read(&self, cards: &[String]) -> Result<Vec<Card>, String> {
        let mut others = Vec::with_capacity(cards.len());
        for (peer, card) in cards.iter().enumerate() {
            let parts: Vec<&str> = card.split('/').collect();
            let [HELLO, version, place, name, secret, network] = parts[..] else {
                return Err(format!("rank {peer} does not use it"));
            };
            if version != VERSION {
                return Err(format!(
                    "rank {peer} runs version {version} of Yamabiko, this rank runs {VERSION}"
                ));
            }
            let place = u64::from_str_radix(place, 16);
            others.push(Card {
                place: place.map_err(|_| format!("the card of rank {peer} can't be read"))?,
                address: Address {
                    name: name.to_owned(),
                    secret: secret.to_owned(),
                },
                network: (network != NOWHERE).then(|| network.to_owned()),
            });
        }
        let apart = others.iter().position(|c| c.place != self.neighbourhood);
        let Some(peer) = apart else { return Ok(others) };
        let why = match others.iter().position(|c| c.network.is_none()) {
            Some(deaf) => format!("rank {deaf} does not listen to the network"),
            None if others.len() > FAR_MAX => {
                format!("a job of several machines may have {FAR_MAX} ranks")
            }
            None => return Ok(others),
        };
        Err(format!(
            "rank {peer} is on another machine, in another network namespace or of another user, and {why}"
        ))
    }

    /// Where the processes with these cards are, which can call each other: equal numbers are one host, network namespace and user.
    ///
    /// # Errors
    /// In words: whose card does not fit.
    pub fn places(&self, cards: &[String]) -> Result<Vec<u64>, String> {
        let cards = self.read(cards)?;
        Ok(cards.into_iter().map(|card| card.place).collect())
    }

    /// The control of process `rank`. `secret`, which all processes of the job know and nobody else, is needed where there are several
    /// hosts.
    ///
    /// # Errors
    /// As of [`fits`](Own::fits); who of another host can't be reached.
    pub fn join(
        mut self,
        rank: u32,
        cards: &[String],
        secret: Option<[u8; 32]>,
        meet: Meet,
    ) -> Result<Control, String> {
        let cards = self.read(cards)?;
        let far = self.meet(rank, &cards, secret, meet)?;
        let others = cards.into_iter().map(|card| card.address).collect();
        let mut control = Control {
            rank,
            listener: self.listener,
            own: self.address,
            others,
            called: BTreeMap::new(),
            callers: BTreeMap::new(),
            unsaid: BTreeMap::new(),
            watched: HashMap::from([(0, Watched::Listener)]),
            next_watch: 1,
            unwatched: vec![0],
            ended: Vec::new(),
            lost: BTreeSet::new(),
            left: BTreeSet::new(),
            news: Vec::new(),
            newly_lost: Vec::new(),
            deaf: false,
            unheard: false,
            far,
        };
        control.watch_far();
        Ok(control)
    }

    /// Meets the processes of other hosts, if there are such.
    fn meet(
        &mut self,
        rank: u32,
        cards: &[Card],
        secret: Option<[u8; 32]>,
        meet: Meet,
    ) -> Result<Option<Far>, String> {
        let mut addresses = BTreeMap::new();
        for (peer, card) in (0..).zip(cards) {
            if card.place != self.neighbourhood && peer != rank {
                addresses.extend(card.network.clone().map(|network| (peer, network)));
            }
        }
        if addresses.is_empty() {
            return Ok(None);
        }
        let missing = || "this rank does not listen to the network".to_owned();
        let (reception, config) = self.reception.take().ok_or_else(missing)?;
        let missing = || "there is no secret to prove a rank by".to_owned();
        let secret = secret.ok_or_else(missing)?;
        let identity = Identity::new(PURPOSE, &config, secret, rank, cards.len() as u32);
        match meet {
            Meet::AtOnce => Far::meet_all(reception, identity, rank, addresses).map(Some),
            Meet::WhenNeeded => Ok(Some(Far::new(reception, identity, rank, addresses))),
        }
    }
}

/// How many ports there are, if they are not enough for the fabric and this on a machine with so many ranks.
pub(super) fn too_few(config: &Config, ranks: u32) -> Option<u32> {
    let (first, last) = config.ports?;
    let ports = u32::from(last - first) + 1;
    (u64::from(ports) < 2 * u64::from(ranks)).then_some(ports)
}

/// Whether the environment says on which ports processes may listen, or what it says can't be understood.
pub fn are_ports_limited() -> bool {
    Config::from_environment().map_or(true, |config| config.ports.is_some())
}
