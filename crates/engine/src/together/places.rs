//! Which place in their common memory the members of a communicator use.
//!
//! The members agree when it is worth it: at the second blocking collective of a communicator, by an allgather of messages. Each
//! says which places are free at it, and the highest number of a round that it has seen. The lowest place that is free
//! at all is the communicator's, and its rounds count on from the highest number, so nothing that is left there is taken for new.
//!
//! A place comes back when a member gives its communicator up; it is free there when all members have read what this one wrote,
//! which is sure when they have given it up too.
//!
//! With the same messages they find out whether the system lets each read all the others' memory ([`super::direct`]), where that is faster at
//! all, and what kind of processor all take theirs for ([`super::lines`]).

use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;

use cad::together::RANKS_MAX;
use fabrics::{Foreign, Stretch};
use mtmi::Endpoint;
use types::Result;

use super::bodies::Hands;
use super::lines::{self, Lines};
use super::{PLACE, PLACES, READ, Together};
use crate::coll::Planned;
use crate::coll::names::Names;
use crate::comm::Comm;
use crate::internal::own_memory;
use crate::state::Engine;

/// Blocking collectives of a communicator before its members agree on a place: one that is used once needs none.
const CALLS_BEFORE: u32 = 1;
/// The same after they found none that is free at all.
const CALLS_BETWEEN: u32 = 1000;
/// They don't share memory, or are too many.
const NEVER: u32 = u32::MAX;
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
    /// Collectives in which the kernel copied.
    copied: Cell<u64>,
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
    pub(super) fn count_copied(&self) {
        self.copied.set(self.copied.get() + 1);
    }

    /// How many collectives there were in which the kernel copied.
    pub(crate) fn copied(&self) -> u64 {
        self.copied.get()
    }

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
        if self.spoilt.get() {
            // Whoever used the place next would find it given up.
            return;
        }
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
pub(crate) struct Meeting {
    /// Blocking collectives until they try to agree, or [`NEVER`].
    left: Cell<u32>,
    place: OnceCell<Together>,
}

impl Default for Meeting {
    fn default() -> Meeting {
        Meeting {
            left: Cell::new(CALLS_BEFORE),
            place: OnceCell::new(),
        }
    }
}

/// What a member says.
#[derive(Clone, Copy)]
struct Offer {
    /// The places that are free at it, and the highest round that it has seen.
    free: u64,
    highest: u64,
    /// A proof that its memory can be reached: its number, and where in its memory a token lies.
    pid: i32,
    at: u64,
    token: u64,
}

impl Offer {
    const BYTES: usize = 40;

    fn to_bytes(self) -> [u8; Offer::BYTES] {
        let words = [
            self.free,
            self.highest,
            self.pid as u64,
            self.at,
            self.token,
        ];
        let mut bytes = [0; Offer::BYTES];
        for (out, word) in bytes.chunks_exact_mut(8).zip(words) {
            out.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Offer {
        let word = |i: usize| {
            bytes[8 * i..8 * i + 8]
                .iter()
                .rev()
                .fold(0, |w, &b| w << 8 | u64::from(b))
        };
        Offer {
            free: word(0),
            highest: word(1),
            pid: word(2) as i32,
            at: word(3),
            token: word(4),
        }
    }
}

/// What members say in the second message, in bits: that they can read and write the memory of all,
const READABLE: u8 = 1;
/// and that they take their processor for [one that asks for lines](lines::asks).
const ASKS: u8 = 2;

fn said(is_so: bool, what: u8) -> u8 {
    if is_so { what } else { 0 }
}

/// The place and the highest round that follow from the members' offers, if any place is free at all.
fn agreed(offers: &[Offer]) -> Option<(u32, u64)> {
    let free = offers.iter().fold(u64::MAX, |all, o| all & o.free);
    let highest = offers.iter().map(|o| o.highest).max().unwrap_or(0);
    (free != 0 && highest < MOST_ROUNDS).then(|| (free.trailing_zeros(), highest))
}

impl Engine {
    /// The place of the communicator of a blocking collective that all its members call.
    #[inline]
    pub(super) fn meeting<'a>(&self, planned: &'a Planned) -> Result<Option<&'a Together>> {
        match planned.comm.meeting.place.get() {
            Some(place) => Ok(Some(place)),
            None => self.meet(planned.plan.names(), &planned.comm),
        }
    }

    #[cold]
    fn meet<'a>(&self, names: &'static Names, comm: &'a Rc<Comm>) -> Result<Option<&'a Together>> {
        let meeting = &comm.meeting;
        let left = meeting.left.get();
        if left == NEVER {
            return Ok(None);
        }
        if left > 0 {
            meeting.left.set(left - 1);
            return Ok(None);
        }
        if !self.can_meet(comm) {
            meeting.left.set(NEVER);
            return Ok(None);
        }
        meeting.left.set(CALLS_BETWEEN);
        let Some(place) = self.agree(names, comm)? else {
            return Ok(None);
        };
        Ok(Some(meeting.place.get_or_init(|| place)))
    }

    /// Whether all members share memory, and are several and few.
    fn can_meet(&self, comm: &Comm) -> bool {
        let members = comm.group.members();
        let number = 2..=RANKS_MAX as usize;
        number.contains(&members.len()) && members.iter().all(|&m| self.stretch_of(m, 0).is_some())
    }

    fn stretch_of(&self, member: u32, place: u32) -> Option<Stretch> {
        let at = place as usize * PLACE;
        self.transport(|m| m.fabric().common(Endpoint(member), at, PLACE))
    }

    /// The members' processes, if the memory of all can be read and written.
    fn processes(&self, comm: &Comm, offers: &[Offer]) -> Option<Box<[Foreign]>> {
        let members = comm.group.members().iter().zip(offers);
        let process = |(&member, offer): (&u32, &Offer)| {
            let found = self.transport(|m| m.fabric().process(Endpoint(member), offer.pid));
            found.filter(|process| process.is_open(offer.at, offer.token))
        };
        members.map(process).collect()
    }

    fn agree(&self, names: &'static Names, comm: &Rc<Comm>) -> Result<Option<Together>> {
        let places = self.places.clone();
        // Two agreements at a time might choose the same: to the second nothing is free.
        let alone = !places.agreeing.replace(true);
        let free = if alone { places.free() } else { 0 };
        let agreed = self.agree_on(names, comm, free);
        if alone {
            places.agreeing.set(false);
        }
        agreed
    }

    fn agree_on(
        &self,
        names: &'static Names,
        comm: &Rc<Comm>,
        free: u64,
    ) -> Result<Option<Together>> {
        let places = self.places.clone();
        let mut memory = own_memory(8)?;
        let token = sys::clock::cycles() ^ u64::from(std::process::id()) << 32;
        memory.buf().write(&token.to_ne_bytes());
        let mine = Offer {
            free,
            highest: places.highest.get(),
            pid: std::process::id() as i32,
            at: memory.buf().addr() as u64,
            token,
        };
        let mut bytes = vec![0; comm.size() as usize * Offer::BYTES];
        self.internal_allgather_in(names, comm, &mine.to_bytes(), &mut bytes)?;
        let offers: Vec<Offer> = bytes
            .chunks_exact(Offer::BYTES)
            .map(Offer::from_bytes)
            .collect();
        let Some((place, highest)) = agreed(&offers) else {
            return Ok(None);
        };
        places.taken.set(places.taken.get() | 1 << place);
        places.saw(highest);
        // All members are asked, and none touches a token after its process has heard from all.
        let pays = self.transport(|m| m.fabric().copies_between());
        let processes = if pays {
            self.processes(comm, &offers)
        } else {
            None
        };
        let mut all = vec![0; comm.size() as usize];
        let mine = said(processes.is_some(), READABLE) | said(lines::asks(), ASKS);
        self.internal_allgather_in(names, comm, &[mine], &mut all)?;
        let of_all = |what| all.iter().all(|said| said & what != 0);
        let foreign = processes.filter(|_| of_all(READABLE));
        let members = comm.group.members().iter();
        let members: Option<Box<[Stretch]>> = members.map(|&m| self.stretch_of(m, place)).collect();
        Ok(members.map(|members| Together {
            members,
            foreign,
            direct: Cell::new(true),
            me: comm.rank as usize,
            lines: Lines::of(all.len(), of_all(ASKS)),
            last: Cell::new(highest),
            read: Cell::new(highest),
            spoilt: Cell::new(false),
            hands: Hands::default(),
            turned: Cell::new(false),
            scratch: Cell::default(),
            lease: Lease { place, places },
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer(free: u64, highest: u64) -> Offer {
        Offer {
            free,
            highest,
            pid: -7,
            at: 3 << 40,
            token: u64::MAX - 5,
        }
    }

    #[test]
    fn the_lowest_place_that_is_free_at_all() {
        let offers = [offer(0b1100, 7), offer(0b0110, 9), offer(u64::MAX, 0)];
        assert_eq!(agreed(&offers), Some((2, 9)));
        assert_eq!(agreed(&[offer(0b1000, 7), offer(0b0110, 9)]), None);
        assert_eq!(agreed(&[offer(1, MOST_ROUNDS), offer(1, 9)]), None);
    }

    #[test]
    fn offers_travel_as_bytes() {
        let there = Offer::from_bytes(&offer(1 << 63, 5).to_bytes());
        assert_eq!((there.free, there.highest, there.pid), (1 << 63, 5, -7));
        assert_eq!((there.at, there.token), (3 << 40, u64::MAX - 5));
    }

    #[test]
    fn places_run_out() {
        let places = Places::default();
        assert_eq!(places.free(), u64::MAX);
        places.taken.set(u64::MAX);
        assert_eq!(places.free(), 0);
    }
}
