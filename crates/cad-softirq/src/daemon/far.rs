//! Contexts of several hosts, of a daemon that has a site's key ([`site`](crate::site) says what they tell each other, and whom that keeps out).
//!
//! A client has it reserve a place and offer that to the other hosts' daemons; once he has all their offers, he has it opened. Processes get the page
//! of results with their cards as everywhere, also before. Interfaces are those that the daemon was started with, at which its
//! program looks; their addresses are asked for each time, as these change.
//!
//! A host above must not forget the last result before all below have it, as these ask for it when it was lost on the way. So such a context is left
//! by one more collective, whose contributions show that; it is closed when they are there. Should one be lost, it stays until its
//! client's connection ends.
//!
//! Invariant: an offer is opened once, with offers that all are for the same user, and his.

use super::{Daemon, Held, NotRunning, fresh};
use crate::client::{Reply, Status};
use crate::context::Peer;
use crate::interfaces;
use crate::kernel::Link;
use crate::layout::INPUTS_MAX;
use crate::site::{self, HOSTS_MAX, Key, Offer, Own, TOKEN};
use crate::tables::{Counts, Place};

/// What it has as one of a site.
pub(super) struct Site {
    key: Key,
    interfaces: Vec<u32>,
    _links: Vec<Link>,
}

impl Site {
    fn own(&self) -> Vec<Own> {
        let mut own = interfaces::own(&self.interfaces);
        own.truncate(site::ADDRESSES_MAX);
        own
    }
}

impl Daemon {
    /// Makes it one of the site with this key, whose hosts are reached by these interfaces.
    ///
    /// # Errors
    /// [`NotRunning`].
    pub fn of_site(mut self, key: Key, names: &[String]) -> Result<Daemon, NotRunning> {
        let (mut interfaces, mut _links) = (Vec::new(), Vec::new());
        for name in names {
            let interface = interfaces::number(name);
            let interface = interface.map_err(|why| NotRunning::Interface(name.clone(), why))?;
            if interface != crate::program::LOOPBACK as u32 && !interfaces.contains(&interface) {
                let link = self.tables.attach(interface);
                _links.push(link.map_err(NotRunning::Refused)?);
                interfaces.push(interface);
            }
        }
        self.site = Some(Site {
            key,
            interfaces,
            _links,
        });
        Ok(self)
    }

    /// What was counted in the context at an entry, if there is one.
    pub fn counts(&self, entry: u32) -> Option<Counts> {
        let mut held = self.clients.iter().flat_map(|c| &c.places);
        let held = held.find(|held| held.place.entry == entry)?;
        self.tables.counts(held.place).ok()
    }

    /// Who it is: its site and the numbers of its interfaces, if it is of one.
    pub(super) fn known(&self) -> Reply {
        let told = |site: &Site| {
            let interfaces = site.interfaces.iter().map(|&n| u64::from(n));
            let all = std::iter::once(site.key.name()).chain(interfaces);
            all.take(INPUTS_MAX as usize).collect()
        };
        Reply {
            id: self.host,
            tickets: self.site.as_ref().map(told).unwrap_or_default(),
            ..Reply::only(Status::Known)
        }
    }

    /// Reserves a context with so many processes of this host, which is one of so many, and offers it.
    pub(super) fn offer(
        &mut self,
        client: usize,
        processes: u32,
        [host, hosts]: [u32; 2],
    ) -> Result<Reply, Status> {
        if self.site.is_none() {
            return Err(Status::Alone);
        }
        if hosts < 2 || hosts as usize > HOSTS_MAX || host >= hosts {
            return Err(Status::Invalid);
        }
        let below = site::children(host as usize, hosts as usize).len() as u32;
        let inputs = processes.checked_add(below).ok_or(Status::Invalid)?;
        self.sweep();
        let site = self.site.as_ref().ok_or(Status::Alone)?;
        self.may_have(client, processes, inputs)?;
        let context = fresh(processes).map_err(|_| Status::System)?;
        let mut nonce = [0; 16];
        sys::random::fill(&mut nonce).map_err(|_| Status::System)?;
        let addresses = site.own().iter().map(|own| own.address).collect();
        let mut offer = Offer {
            user: self.clients[client].user,
            entry: 0,
            id: context.id,
            processes,
            host,
            hosts,
            port: self.port,
            nonce,
            addresses,
        };
        let key = site.key.clone();
        let place = self.tables.reserve(inputs).map_err(|_| Status::Full)?;
        offer.entry = place.entry;
        let token = Box::new(offer.seal(&key));
        let reply = self.hold(client, place, &context);
        let held = self.clients[client].places.last_mut();
        if let Some(held) = held {
            held.offered = Some(token.clone());
        }
        Ok(Reply {
            status: Status::Offered,
            token: Some(token),
            ..reply
        })
    }

    /// Opens what was offered, with the offers of all hosts.
    pub(super) fn bind(
        &mut self,
        client: usize,
        entry: u32,
        tokens: &[u8],
    ) -> Result<(Reply, Place), Status> {
        let site = self.site.as_ref().ok_or(Status::Alone)?;
        let user = self.clients[client].user;
        let places = &mut self.clients[client].places;
        let held = places.iter_mut().find(|held| held.place.entry == entry);
        let held = held.ok_or(Status::Invalid)?;
        let mine = held.offered.as_deref().ok_or(Status::Invalid)?;
        let offers = offers(tokens, &site.key, user).ok_or(Status::Foreign)?;
        let me = tokens.chunks_exact(TOKEN).position(|token| token == mine);
        let me = me.ok_or(Status::Foreign)?;
        let own = site.own();
        let peer = |host: usize, input: u32| {
            let offer = &offers[host];
            let way = offer.way(&own).ok_or(Status::NoWay)?;
            Ok(Peer {
                id: offer.id,
                entry: offer.entry,
                input,
                way,
            })
        };
        let above = site::parent(me).map(|above| {
            let place = me - site::children(above, offers.len()).start;
            peer(above, offers[above].processes + place as u32)
        });
        let below = site::children(me, offers.len()).map(|below| peer(below, 0));
        let mut context = fresh(0).map_err(|_| Status::System)?;
        context.id = held.id;
        context.key = site.key.communicator(tokens);
        context.tickets = held.tickets.clone();
        context.parent = above.transpose()?;
        context.children = below.collect::<Result<_, _>>()?;
        // From here on it is used up.
        held.offered = None;
        let place = held.place;
        self.begin(client, place, &context)?;
        Ok((Reply::only(Status::Opened), place))
    }
}

impl Daemon {
    /// Has a context end with the contributions to a collective.
    pub(super) fn leave(&mut self, client: usize, entry: u32, number: u64) -> Status {
        let places = &mut self.clients[client].places;
        let Some(held) = places.iter_mut().find(|held| held.place.entry == entry) else {
            return Status::Invalid;
        };
        held.leaving = Some(number);
        self.sweep();
        Status::Closed
    }

    /// Ends what was left, and of which nobody lacks anything. What has to wait is looked at again when somebody wants a context.
    pub(super) fn sweep(&mut self) {
        for client in 0..self.clients.len() {
            let places = self.clients[client].places.iter();
            let gathered = |place| {
                self.tables
                    .counts(place)
                    .map_or(0, |counts| counts.gathered)
            };
            let over = |held: &&Held| held.leaving.is_some_and(|n| gathered(held.place) >= n);
            let over: Vec<_> = places.filter(over).map(|held| held.place.entry).collect();
            for entry in over {
                self.close(client, entry);
            }
        }
    }
}

/// What all hosts offer, if all is for this user and each says that it is where it stands.
fn offers(tokens: &[u8], key: &Key, user: u32) -> Option<Vec<Offer>> {
    let count = tokens.len() / TOKEN;
    if !tokens.len().is_multiple_of(TOKEN) || count > HOSTS_MAX {
        return None;
    }
    let mut all = Vec::with_capacity(count);
    for (host, token) in tokens.chunks_exact(TOKEN).enumerate() {
        let offer = Offer::of(token, key)?;
        let place = (offer.host as usize, offer.hosts as usize);
        if offer.user != user || place != (host, count) {
            return None;
        }
        all.push(offer);
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    const USER: u32 = 1000;

    fn token(host: u32, hosts: u32, change: fn(&mut Offer)) -> [u8; TOKEN] {
        let mut offer = Offer {
            user: USER,
            entry: host,
            id: 7 + u64::from(host),
            processes: 2,
            host,
            hosts,
            port: 7117,
            nonce: [host as u8; 16],
            addresses: Vec::new(),
        };
        change(&mut offer);
        offer.seal(&Key::new(b"one"))
    }

    #[test]
    fn offers_are_taken_for_their_user_and_at_their_place_alone() {
        let key = Key::new(b"one");
        let same = |_: &mut Offer| {};
        let good = [token(0, 2, same), token(1, 2, same)].concat();
        let taken = offers(&good, &key, USER).unwrap();
        assert_eq!(taken.iter().map(|o| o.id).collect::<Vec<_>>(), [7, 8]);
        assert!(offers(&good, &key, USER + 1).is_none(), "another user asks");
        assert!(offers(&good, &Key::new(b"two"), USER).is_none());
        let with = |first: [u8; TOKEN], second: [u8; TOKEN]| {
            offers(&[first, second].concat(), &key, USER).is_some()
        };
        let another = token(1, 2, |offer| offer.user += 1);
        assert!(!with(token(0, 2, same), another), "of another user");
        assert!(
            !with(token(1, 2, same), token(0, 2, same)),
            "in another order"
        );
        assert!(
            !with(token(0, 3, same), token(1, 3, same)),
            "one is missing"
        );
        assert!(
            !with(token(0, 2, same), token(0, 2, same)),
            "one host twice"
        );
        assert!(offers(&good[..2 * TOKEN - 1], &key, USER).is_none());
        let many: Vec<_> = (0..=HOSTS_MAX as u32)
            .flat_map(|host| token(host, HOSTS_MAX as u32, same))
            .collect();
        assert!(offers(&many, &key, USER).is_none(), "too many");
        let most = &many[..HOSTS_MAX * TOKEN];
        assert!(offers(most, &key, USER).is_some());
    }
}
