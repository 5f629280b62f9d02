//! Which place in their common memory the members of a communicator use.
//!
//! The members agree when it is worth it: at the second blocking collective of a communicator, by an allgather of messages. Each
//! says which places are free at it, and the highest number of a round that it has seen. The lowest place that is free
//! at all is the communicator's, and its rounds count on from the highest number, so nothing that is left there is taken for new.
//!
//! A place comes back when a member gives its communicator up; it is free there when all members have read what this one wrote,
//! which is sure when they have given it up too.

use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;

use fabrics::Stretch;
use mtmi::Endpoint;
use types::Result;

use super::{MOST_MEMBERS, PLACE, PLACES, READ, Together};
use crate::comm::Comm;
use crate::state::Engine;

/// Blocking collectives of a communicator before its members agree on a place: one that is used once needs none.
const CALLS_BEFORE: u32 = 1;
/// The same after they found none that is free at all.
const CALLS_BETWEEN: u32 = 1000;
/// A number of rounds that no program reaches: what claims more is no such number.
const MOST_ROUNDS: u64 = 1 << 40;
const _: () = assert!(PLACES == u64::BITS as usize);

/// The places of this process's common memory.
#[derive(Default)]
pub(crate) struct Places {
    /// Those that are in use, or that somebody may still read.
    taken: Cell<u64>,
    retired: RefCell<Vec<Retired>>,
    /// The highest number of a round in a place that came back, or is in use, when its communicator got it.
    highest: Cell<u64>,
    /// Whether a thread of this process is about to agree on one.
    agreeing: Cell<bool>,
}

/// A place that was given up.
struct Retired {
    place: u32,
    last: u64,
    members: Box<[Stretch]>,
}

impl Retired {
    /// Whether all who used it have read what they need.
    fn is_free(&self) -> bool {
        self.members.iter().all(|m| m.load(READ) >= self.last)
    }
}

impl Places {
    /// A bit for each place that is free.
    fn free(&self) -> u64 {
        let mut taken = self.taken.get();
        self.retired.borrow_mut().retain(|r| {
            let free = r.is_free();
            if free {
                taken &= !(1 << r.place);
            }
            !free
        });
        self.taken.set(taken);
        !taken
    }

    fn saw(&self, round: u64) {
        self.highest.set(self.highest.get().max(round));
    }
}

/// A communicator's place, until it is dropped.
pub(super) struct Lease {
    place: u32,
    places: Rc<Places>,
}

impl Drop for Together {
    fn drop(&mut self) {
        let (place, last) = (self.lease.place, self.last.get());
        let places = self.lease.places.clone();
        self.own().store(READ, last);
        places.saw(last);
        places.retired.borrow_mut().push(Retired {
            place,
            last,
            members: std::mem::take(&mut self.members),
        });
    }
}

/// How far the members of a communicator are with a place.
#[derive(Default)]
pub(crate) struct Meeting {
    /// Blocking collectives until they try to agree; of those that never do, none is counted.
    calls: Cell<u32>,
    never: Cell<bool>,
    place: OnceCell<Together>,
}

/// What a member says: the places that are free, and the highest round.
type Offer = [u8; 16];

fn offer(free: u64, highest: u64) -> Offer {
    let mut offer = [0; 16];
    offer[..8].copy_from_slice(&free.to_le_bytes());
    offer[8..].copy_from_slice(&highest.to_le_bytes());
    offer
}

/// The place and the highest round that follow from the members' offers, if any place is free at all.
fn agreed(offers: &[u8]) -> Option<(u32, u64)> {
    let word = |bytes: &[u8]| bytes.iter().rev().fold(0, |w, &b| w << 8 | u64::from(b));
    let (mut free, mut highest) = (u64::MAX, 0);
    for offer in offers.chunks_exact(16) {
        free &= word(&offer[..8]);
        highest = highest.max(word(&offer[8..]));
    }
    (free != 0 && highest < MOST_ROUNDS).then(|| (free.trailing_zeros(), highest))
}

impl Engine {
    /// The place of a communicator, for a blocking collective `name` that all its members call.
    #[inline]
    pub(super) fn meeting<'a>(
        &self,
        name: &'static str,
        comm: &'a Rc<Comm>,
    ) -> Result<Option<&'a Together>> {
        match comm.meeting.place.get() {
            Some(place) => Ok(Some(place)),
            None => self.meet(name, comm),
        }
    }

    #[cold]
    fn meet<'a>(&self, name: &'static str, comm: &'a Rc<Comm>) -> Result<Option<&'a Together>> {
        let meeting = &comm.meeting;
        if meeting.never.get() {
            return Ok(None);
        }
        if !self.can_meet(comm) {
            meeting.never.set(true);
            return Ok(None);
        }
        let calls = meeting.calls.replace(meeting.calls.get() + 1);
        if calls < CALLS_BEFORE || !(calls - CALLS_BEFORE).is_multiple_of(CALLS_BETWEEN) {
            return Ok(None);
        }
        let Some(place) = self.agree(name, comm)? else {
            return Ok(None);
        };
        Ok(Some(meeting.place.get_or_init(|| place)))
    }

    /// Whether all members share memory, and are several and few.
    fn can_meet(&self, comm: &Comm) -> bool {
        let members = comm.group.members();
        let number = 2..=MOST_MEMBERS as usize;
        number.contains(&members.len()) && members.iter().all(|&m| self.stretch_of(m, 0).is_some())
    }

    fn stretch_of(&self, member: u32, place: u32) -> Option<Stretch> {
        let at = place as usize * PLACE;
        self.transport(|m| m.fabric().common(Endpoint(member), at, PLACE))
    }

    fn agree(&self, name: &'static str, comm: &Rc<Comm>) -> Result<Option<Together>> {
        let places = self.places.clone();
        // Two agreements at a time might choose the same: to the second nothing is free.
        let alone = !places.agreeing.replace(true);
        let free = if alone { places.free() } else { 0 };
        let mut offers = vec![0; comm.size() as usize * size_of::<Offer>()];
        let mine = offer(free, places.highest.get());
        let heard = self.internal_allgather_in(name, comm, &mine, &mut offers);
        if alone {
            places.agreeing.set(false);
        }
        heard?;
        let Some((place, highest)) = agreed(&offers) else {
            return Ok(None);
        };
        let members = comm.group.members().iter();
        let members: Option<Box<[Stretch]>> = members.map(|&m| self.stretch_of(m, place)).collect();
        let Some(members) = members else {
            return Ok(None);
        };
        places.taken.set(places.taken.get() | 1 << place);
        places.saw(highest);
        Ok(Some(Together {
            members,
            me: comm.rank as usize,
            last: Cell::new(highest),
            read: Cell::new(highest),
            lease: Lease { place, places },
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_place_that_is_free_at_all() {
        let offers = [offer(0b1100, 7), offer(0b0110, 9), offer(u64::MAX, 0)];
        assert_eq!(agreed(&offers.concat()), Some((2, 9)));
        let offers = [offer(0b1000, 7), offer(0b0110, 9)];
        assert_eq!(agreed(&offers.concat()), None);
        let offers = [offer(1, MOST_ROUNDS), offer(1, 9)];
        assert_eq!(agreed(&offers.concat()), None);
    }

    #[test]
    fn places_run_out() {
        let places = Places::default();
        assert_eq!(places.free(), u64::MAX);
        places.taken.set(u64::MAX);
        assert_eq!(places.free(), 0);
    }
}
