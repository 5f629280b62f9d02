//! The shelf of a process: where it puts, once, a message that processes of the machine get, each of which reads it there.
//!
//! Through pipes whoever gives the same to several copies it for each of them, and those that share its processor can't begin before it has done so for all. (Three ranks on two
//! processors of a Xeon of the fifth generation, of which the root of an `MPI_Ibcast` and a receiver share one and the other computes: 16 KiB are there 1.2 to 1.35 times as soon, 64 KiB 1.15
//! to 1.4 times.) And it needs no room for all of it in each pipe, so it leaves at once; what is for one goes there too where a collective wants that.
//!
//! A shelf has [`PLACES`] places, which are as long as their messages and lie anywhere on it. A cell tells each reader of the place. Who has read it says so in a
//! [word](turned::Turned) that its owner looks at when it wants a place. So no message goes back, and who reads late, was stopped or died holds up nobody: what finds no place goes the ordinary ways.
//! But what nobody ever receives, as its communicator has failed, keeps its places for good.
//!
//! Invariants: a place is written when none of its readers that are alive has still to read it. A reader that says what is not so harms the messages to itself. What an owner says of a place
//! is bounded before it is read; what it writes there meanwhile makes wrong data and nothing worse.
//!
//! Who calls it: collectives of a few ranks, through [`Fabric::send_to_all`](mtmi::Fabric::send_to_all); for who reads, `incoming` and `receive`.

#[cfg(all(test, not(loom)))]
mod tests;
pub(crate) mod turned;
#[cfg(all(test, loom))]
mod turned_loom;

use layout::{Data, Writer};
use mtmi::{Context, Endpoint, Message, Queues};

use crate::Shm;
use crate::lane::PLAY;
use crate::ring::Hostile;
use crate::segment::SHELF;
use crate::state::{Announced, Peer, Sink};
use crate::wire::{Header, Kind, WORDS, Words};

/// Places of a shelf: bits of a reader's word.
pub(crate) const PLACES: usize = u32::BITS as usize;
/// Messages up to here don't go there, but in a sheet or in lines, which are where both sides have them at hand.
const ABOVE: u64 = 12 << 10;
/// Longest: the longest segment of a collective. In pieces that readers copy while the next is written 64 KiB take all three 11 us in place of 13 if they wait, and
/// a tenth longer where a receiver shares the root's processor and another computes.
pub(crate) const LONGEST: u64 = 256 << 10;

/// Fewest processes of a machine that have shelves: of two, each waits for nobody but the other.
pub(crate) const RANKS: usize = 3;

/// A process's own shelf.
pub(crate) struct Shelf {
    places: Vec<Place>,
}

/// One place: bytes `start` to `end`, and who has still to read them. Nobody: it is free.
#[derive(Clone, Default, Debug)]
struct Place {
    start: usize,
    end: usize,
    readers: Vec<u32>,
}

/// A message on its sender's shelf.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Shelved {
    place: u32,
    start: usize,
    len: usize,
}

impl Shelved {
    /// What a sender says of it, whose shelf has so many bytes.
    fn of([place, len, start, _]: Words, shelf: usize) -> Result<Shelved, Hostile> {
        let end = start.checked_add(len).filter(|&end| end <= shelf as u64);
        if place >= PLACES as u64 || len > LONGEST || end.is_none() {
            return Err(Hostile);
        }
        Ok(Shelved {
            place: place as u32,
            start: start as usize,
            len: len as usize,
        })
    }

    fn words(self) -> Words {
        [self.place.into(), self.len as u64, self.start as u64, 0]
    }
}

impl Shelf {
    pub fn new() -> Shelf {
        Shelf {
            places: vec![Place::default(); PLACES],
        }
    }

    /// Frees what all have read, and finds a place for `len` bytes that begins at `phase`, modulo a page: the first on the shelf, as that was used last.
    fn find(
        &mut self,
        len: usize,
        phase: usize,
        has_read: impl Fn(u32, u32) -> bool,
    ) -> Option<Shelved> {
        for (number, place) in (0..).zip(&mut self.places) {
            place.readers.retain(|&reader| !has_read(reader, number));
        }
        let free = self.places.iter().position(|p| p.readers.is_empty())?;
        let in_the_way = |start: usize| {
            let mut used = self.places.iter().filter(|p| !p.readers.is_empty());
            used.find(|p| p.start < start + len && start < p.end)
        };
        let mut start = phase;
        while let Some(used) = in_the_way(start) {
            start = used.end.saturating_sub(phase).next_multiple_of(PLAY) + phase;
        }
        if start + len > SHELF {
            return None;
        }
        let place = &mut self.places[free];
        (place.start, place.end) = (start, start + len);
        Some(Shelved {
            place: free as u32,
            start,
            len,
        })
    }
}

impl Shm {
    /// Puts a message on the shelf and tells all its receivers. False: nothing was done.
    #[inline]
    pub(crate) fn share(
        &mut self,
        to: impl Iterator<Item = Endpoint> + Clone,
        (context, tag): (Context, i32),
        data: &Data,
    ) -> bool {
        let len = data.len();
        if len <= ABOVE || len > LONGEST {
            return false;
        }
        self.share_long(to, (context, tag), data)
    }

    fn share_long(
        &mut self,
        to: impl Iterator<Item = Endpoint> + Clone,
        (context, tag): (Context, i32),
        data: &Data,
    ) -> bool {
        if self.segment.shelf_bytes() == 0 || !to.clone().all(|peer| self.hears_at_once(peer)) {
            return false;
        }
        let (len, mut from) = (data.len(), data.reader());
        let Some(shelved) = self.find_place(len as usize, &from) else {
            return false;
        };
        let Shelved { place, start, len } = shelved;
        self.segment.fill_shelf(self.local, start, len, &mut from);
        for Endpoint(peer) in to {
            let readers = &mut self.shelf.places[place as usize].readers;
            debug_assert!(!readers.contains(&peer), "each once");
            readers.push(peer);
            self.peers[peer as usize].shelved ^= 1 << place;
            self.push_words(peer, (Kind::Shelved, context, tag), shelved.words());
        }
        true
    }

    /// Whether a peer is there and would be told of something now, before which nothing waits.
    fn hears_at_once(&mut self, Endpoint(peer): Endpoint) -> bool {
        let entry = self.peers.get(peer as usize);
        peer != self.me
            && entry.is_some_and(|p| !p.failed && p.queue.is_empty())
            && self.room(peer, WORDS)
    }

    fn find_place(&mut self, len: usize, from: &layout::Reader) -> Option<Shelved> {
        let (ports, peers) = (&self.ports, &self.peers);
        let has_read = |reader: u32, place| {
            let peer = &peers[reader as usize];
            peer.failed || ports[reader].lane.turned().has_read(place, peer.shelved)
        };
        let phase = self.segment.shelf_phase(self.local, from);
        self.shelf.find(len, phase, has_read)
    }

    /// A peer tells of a message on its shelf. It stays there while no receive waits for it.
    pub(crate) fn take_shelved(
        &mut self,
        queues: &mut Queues,
        peer: u32,
        header: &Header,
        words: Words,
    ) -> Result<(), Hostile> {
        let shelved = Shelved::of(words, self.segment.shelf_bytes())?;
        let (source, context) = (Endpoint(peer), Context(header.context));
        let total = shelved.len as u64;
        if let Some(receive) = queues.posted.take(source, context, header.tag) {
            self.read_shelf(peer, shelved, &mut receive.data.writer());
            let done = receive.completion(source, header.tag, total);
            queues.done.push(done);
            return Ok(());
        }
        let id = self.announced.insert(Announced {
            from: peer,
            send: u64::MAX,
            tag: header.tag,
            total,
            early: total,
            arrived: total,
            expected: total,
            synchronous: false,
            offer: None,
            shelved: Some(shelved),
            since: None,
            exchanged: false,
            learns: false,
            past: false,
            sink: Sink::Heap(Vec::new()),
        });
        let message = Message::Partial(id);
        queues
            .unexpected
            .arrive(source, context, header.tag, message);
        Ok(())
    }

    /// Reads a message on a peer's shelf, and says so.
    pub(crate) fn read_shelf(&self, peer: u32, shelved: Shelved, to: &mut Writer) {
        let Peer { slot, inward, .. } = &self.peers[peer as usize];
        self.segment
            .drain_shelf(*slot, shelved.start, shelved.len, to);
        inward.turned().turn(shelved.place);
    }
}
