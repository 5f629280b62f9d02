//! What an executor has to do with other processes: it lends them streams and is lent some, watches who is there, and acts on
//! what they say.
//!
//! Invariant: of a process that says what no correct one says, nothing more is heard, so what it can make this one keep is
//! bounded. Called by the rest of `ring`.

use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::{Duration, Instant};

use cad_run::{Executor, State};

use super::{AGAIN, Ring};
use crate::channel::Channel;
use crate::claims;
use crate::code::Code;
use crate::lanes::{LANES, Place, lane};
use crate::packet::News;
use crate::running::Running;

/// Ends of issues that a peer may tell of before they are issued here. One more and it is not sane.
pub(super) const OVERS_MAX: usize = 1 << 14;
/// How long an issue waits for a peer that was quicker to need streams, and is about to lend them: some microseconds, or as
/// long as the peer has lost its processor to others. After that the issue starts in a later call.
const ABOUT_TO_LEND: Duration = Duration::from_secs(5);
/// How long an issue waits for connections to other hosts that it makes: until their kernels have answered. After that
/// it starts in a later call.
const CONNECTS: Duration = Duration::from_millis(50);
/// How long it waits for streams that processes of other hosts make, and for those whom it has not met, who may be about to come to the same collective, or
/// not.
const MAY_LEND: Duration = Duration::from_millis(2);

/// Why an issue can't have a stream.
pub(super) enum Missing {
    /// A peer is not there any more, nor its stream.
    Peer,
    /// The system refuses descriptors.
    Descriptors,
}

/// The streams of all lanes to a process of another host, and how long they are waited for: this process may be in no call when the peer
/// needs one.
fn connecting(place: Place) -> impl Iterator<Item = (Place, Instant)> {
    let until = Instant::now() + CONNECTS;
    (0..LANES).map(move |lane| (Place { lane, ..place }, until))
}

impl Ring {
    /// Decides with each peer who lends the streams of a channel, and gives those that were quicker the
    /// time to do so.
    pub(super) fn meet(&mut self, code: &Code, channel: &Channel) {
        let (number, channel) = (channel.issued(), channel.number);
        let (mut coming, now) = (Vec::new(), Instant::now());
        for &peer in &code.peers {
            let place = Place {
                channel,
                lane: lane(number),
                peer,
            };
            let lends = match self.claims.decided(channel, peer) {
                Some(lends) => Some(lends),
                // Where the system refuses, the issue tries again when it is its turn.
                None => self.claim(place).ok(),
            };
            self.control.approach(peer);
            let first = number < u64::from(LANES);
            match (self.control.is_far(peer), lends) {
                (false, Some(false)) => coming.push((place, now + ABOUT_TO_LEND)),
                (true, Some(true)) if self.control.has_called(peer) => {
                    coming.extend(connecting(place));
                }
                (true, Some(_)) if first => coming.push((place, now + MAY_LEND)),
                _ => {}
            }
        }
        self.await_streams(coming);
    }

    /// Makes the streams of a channel to processes of other hosts, where that is up to this one.
    pub(super) fn lend_afar(&mut self, code: &Code, channel: u32) {
        let mut coming = Vec::new();
        for &peer in &code.peers {
            let place = Place {
                channel,
                lane: 0,
                peer,
            };
            self.control.approach(peer);
            // Where the system refuses, the first issue tries again.
            if self.control.is_far(peer) && self.claim(place).is_ok_and(|lends| lends) {
                match self.control.has_called(peer) {
                    true => coming.extend(connecting(place)),
                    false => coming.push((place, Instant::now() + MAY_LEND)),
                }
            }
        }
        self.await_streams(coming);
    }

    /// Waits for streams that are about to come, each until its time is over.
    fn await_streams(&mut self, mut coming: Vec<(Place, Instant)>) {
        coming.retain(|&(place, _)| !self.lanes.knows(place));
        while !coming.is_empty() {
            for &(place, _) in &coming {
                self.control.hear_all(place.peer);
                if self.control.is_far(place.peer) && self.control.lends_to_far(place.peer) {
                    // What could not be begun before.
                    self.lend_all(place);
                }
            }
            self.attend();
            let now = Instant::now();
            coming.retain(|&(place, until)| {
                now < until && !self.lanes.knows(place) && self.control.call(place.peer)
            });
            if !coming.is_empty() && !self.progress() {
                // The peer may need this processor.
                self.uring.wait(Some(Instant::now() + AGAIN));
            }
        }
    }

    /// Decides with the peers of an issue who lends, where that could not be done before; whether it is decided.
    pub(super) fn settle_claims(&mut self, slot: usize) -> bool {
        let Some(running) = self.slots[slot].as_ref() else {
            return false;
        };
        let peers = running.code.peers.iter();
        let places: Vec<Place> = peers.map(|&peer| running.place(peer)).collect();
        for place in places {
            let decided = self.claims.decided(place.channel, place.peer).is_some();
            if !decided && self.claim(place).is_err() {
                self.starve(slot);
                return false;
            }
        }
        true
    }

    /// Decides who lends a channel's streams; whether this process does. It lends them at once, as the peer may wait for them in a
    /// call, and in no later one.
    fn claim(&mut self, place: Place) -> io::Result<bool> {
        if self.control.is_far(place.peer) {
            let lends = self.control.lends_to_far(place.peer);
            self.claims.decide_afar(place.channel, place.peer, lends);
            if lends {
                self.lend_all(place);
            }
            return Ok(lends);
        }
        let secrets = self.control.secrets(place.peer);
        let mut held = claims::take(place.channel, secrets)?;
        if held.is_some() {
            // Who is through with the channel has given the name up, after it had lent what is needed here.
            self.control.hear_all(place.peer);
            self.hear();
            held = held.filter(|_| !self.lanes.has(place));
        }
        let lends = held.is_some();
        self.claims.decide(place.channel, place.peer, held);
        if lends && self.control.call(place.peer) {
            self.lend_all(place);
        }
        Ok(lends)
    }

    /// Lets go of a channel on which nothing more is issued, here or by peers with this process: closes its streams
    /// when its issues are over. Its number may not be used again.
    pub fn forget(&mut self, channel: u32) {
        if self.forgotten.insert(channel) {
            self.leaving.push(channel);
            self.let_go();
        }
    }

    /// Lets go of what is kept of channels that were forgotten, as far as nothing needs it.
    pub(super) fn let_go(&mut self) {
        let leaving = std::mem::take(&mut self.leaving);
        for channel in leaving {
            let busy = self.channels.get(&channel).is_some_and(|c| c.is_busy());
            let mut peers = 0..self.control.size();
            let lending = peers
                .any(|peer| self.claims.holds(channel, peer) && !self.control.has_said_all(peer));
            if busy || lending {
                self.leaving.push(channel);
                continue;
            }
            self.channels.remove(&channel);
            self.drop_images(|c| c.number == channel);
            for overs in self.overs.values_mut() {
                overs.retain(|&(c, _), _| c != channel);
            }
            self.lanes.forget(channel);
            self.control.drop_dials(|place, _| place.channel == channel);
            self.claims.forget(channel);
        }
    }

    /// The streams of an issue, made where that is up to this process; `None` if some are still missing.
    pub(super) fn streams(
        &mut self,
        running: &Running,
    ) -> Result<Option<Vec<Rc<OwnedFd>>>, Missing> {
        let mut streams = Vec::with_capacity(running.code.peers.len());
        for &peer in &running.code.peers {
            // Its end has to be heard of, whoever lends.
            let there = self.control.call(peer);
            let place = running.place(peer);
            let mut found = self.lanes.find(place, running.number);
            if found.is_none() && self.lanes.has_failed(place, running.number) {
                return Err(Missing::Peer);
            }
            if there && found.is_none() && self.claims.holds(place.channel, peer) {
                self.lend(place, running.number)
                    .map_err(|_| Missing::Descriptors)?;
                found = self.lanes.find(place, running.number);
            }
            // Whoever has left may have sent all that is needed before.
            if found.is_none() && !there {
                return Err(Missing::Peer);
            }
            if there && !self.control.has_called(peer) {
                if !self.control.is_far(peer) {
                    return Err(Missing::Descriptors);
                }
                // They have not met yet, so nothing would tell of its end.
                found = None;
            }
            streams.push(found);
        }
        Ok(streams.into_iter().collect())
    }

    /// Makes the streams to a peer for all lanes of a channel on which nothing has failed, as far as there are descriptors.
    fn lend_all(&mut self, place: Place) {
        for lane in 0..LANES {
            let place = Place { lane, ..place };
            // Issues in line may need it that are older than the one that asks.
            if !self.lanes.knows(place) && self.lend(place, 0).is_err() {
                return;
            }
        }
    }

    /// Makes a stream to a peer, good from an issue on. One to another host is not there at once.
    fn lend(&mut self, place: Place, from: u64) -> io::Result<()> {
        if self.control.is_far(place.peer) {
            return self.control.dial(place, from);
        }
        let far = self.lanes.make(place, from)?;
        let Place {
            channel,
            lane,
            peer,
        } = place;
        self.control.lend(peer, channel, lane, from, far);
        Ok(())
    }

    /// An issue has failed: its stream to a peer is not used any more.
    pub(super) fn spoil(&mut self, place: Place, number: u64) {
        self.drop_images(|c| c.number == place.channel);
        let spoilt = self.lanes.spoil(place, number);
        if self.control.is_far(place.peer) {
            self.control
                .drop_dials(|&dialled, from| dialled == place && from <= number);
            // An earlier issue may be under way on it, and then all that comes is still its own.
            self.spoilt
                .extend(spoilt.map(|socket| (place.peer, socket)));
            self.close_spoilt();
        }
    }

    /// Closes streams to other hosts on which an issue has failed, and which no other one uses.
    #[cold]
    pub(super) fn close_spoilt(&mut self) {
        let uses = |running: &Running, socket: &Rc<OwnedFd>| {
            // Chains that are being cancelled may still have it, and need nothing of it any more.
            running.failed.is_none() && running.streams.iter().any(|s| Rc::ptr_eq(s, socket))
        };
        for (peer, socket) in std::mem::take(&mut self.spoilt) {
            if self.slots.iter().flatten().any(|r| uses(r, &socket)) {
                self.spoilt.push((peer, socket));
                continue;
            }
            let own = Rc::try_unwrap(socket).or_else(|shared| shared.try_clone());
            if let Ok(socket) = own {
                self.control.close_later(peer, socket);
            }
        }
    }

    pub(super) fn watch(&mut self) {
        for id in self.control.ended() {
            self.uring.unwatch(id);
        }
        for id in self.control.unwatched() {
            if let Some(watch) = self.control.watch(id) {
                // Where it fails the ring is broken, and nothing is issued any more.
                let _ = self.uring.watch(watch.fd, watch.events, watch.id);
            }
        }
    }

    /// Acts on what others said and on who is gone; whether there was anything.
    pub(super) fn hear(&mut self) -> bool {
        let mut some = false;
        for (peer, news) in self.control.news() {
            some = true;
            match news {
                News::Lane {
                    channel,
                    lane,
                    from,
                    socket,
                } => {
                    if self.is_let_go(channel) {
                        continue;
                    }
                    let place = Place {
                        channel,
                        lane,
                        peer,
                    };
                    // If this process lends, the peer does not.
                    let sane = match (self.control.is_far(peer), self.control.lends_to_far(peer)) {
                        (true, true) => {
                            self.drop_images(|c| c.number == channel);
                            self.lanes.own(place, from, socket);
                            true
                        }
                        (true, false) => self.lanes.lend_from_afar(place, from, socket),
                        (false, _) => {
                            let holds = self.claims.holds(channel, peer);
                            !holds && self.lanes.lend(place, from, socket)
                        }
                    };
                    if !sane {
                        self.control.shun(peer);
                    }
                }
                News::Over {
                    channel,
                    number,
                    why,
                } => self.peer_is_over(peer, channel, number, why),
                // Issues that still wait for a stream of its are looked at next.
                News::Bye => {}
            }
        }
        for peer in self.control.newly_lost() {
            some = true;
            self.drop_images(|_| true);
            for slot in 0..self.slots.len() {
                let needs = |r: &Running| r.plan.needs(peer);
                if self.slots[slot].as_deref().is_some_and(needs) {
                    self.fail(slot, State::Lost);
                }
            }
        }
        some
    }

    /// Whether nothing is kept of a channel any more.
    fn is_let_go(&self, channel: u32) -> bool {
        self.forgotten.contains(&channel) && !self.leaving.contains(&channel)
    }

    /// A peer's part of an issue has ended early, and with it the stream.
    fn peer_is_over(&mut self, peer: u32, channel: u32, number: u64, why: State) {
        if self.is_let_go(channel) {
            return;
        }
        let place = Place {
            channel,
            lane: lane(number),
            peer,
        };
        let issued = self.channels.get(&channel).map_or(0, |c| c.issued());
        if number >= issued {
            let overs = self.overs.entry(peer).or_default();
            if overs.len() >= OVERS_MAX {
                self.control.shun(peer);
                return;
            }
            overs.insert((channel, number), why);
        }
        let spoilt = self
            .lanes
            .good_from(place)
            .is_some_and(|from| from <= number);
        for slot in 0..self.slots.len() {
            let hit = |r: &Running| {
                let same = r.channel.number == channel && lane(r.number) == place.lane;
                let late = r.number == number || (r.number > number && spoilt && r.begun);
                same && late && r.code.peers.contains(&peer)
            };
            if self.slots[slot].as_deref().is_some_and(hit) {
                self.fail(slot, why);
            }
        }
        self.spoil(place, number);
    }
}
