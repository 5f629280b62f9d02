//! The connections that carry data. Each channel has [`LANES`] lanes, and each lane a stream to every
//! peer that the channel's plans talk to. The n-th issue on a channel uses lane n modulo [`LANES`], so that
//! many issues of a channel can be under way at once, and those of different channels never meet.
//!
//! Of two processes the one that first issues a plan which needs them (`claims`) makes a channel's streams, and
//! lends the other ends to its peer. A stream that an issue left in the middle, since
//! it failed, is of no use any more: both ends close theirs, and the next issue on the lane gets a new one.
//! So a stream is good from a certain issue on.
//!
//! Invariants: a stream is used by one issue at a time; what a peer lends is bounded and only used if it
//! is of the right age.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;

use sys::unix;

use crate::headroom;

/// Issues of a channel that can be under way at once: two, so that one can move while the next is
/// already there.
pub(crate) const LANES: u8 = 2;

/// Streams that a peer may have lent without their being used. One more and it is not sane.
const LENT_MAX: usize = 1 << 14;

/// The lane of an issue.
pub(crate) fn lane(number: u64) -> u8 {
    (number % u64::from(LANES)) as u8
}

/// Which stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    pub channel: u32,
    pub lane: u8,
    pub peer: u32,
}

#[derive(Default)]
struct Stream {
    /// The socket in use, and the first issue that it is good for.
    socket: Option<(u64, Rc<OwnedFd>)>,
    /// The last issue that failed here: what is older is of no use.
    failed: Option<u64>,
    /// What was lent, by the first issue that it is good for.
    lent: BTreeMap<u64, OwnedFd>,
    /// The last issue from which on something from another host was good.
    newest: Option<u64>,
}

impl Stream {
    fn is_fresh(&self, from: u64) -> bool {
        self.failed.is_none_or(|failed| from > failed)
    }

    /// What was lent for this issue and earlier ones.
    fn take_lent(&mut self, until: u64) -> BTreeMap<u64, OwnedFd> {
        let later = self.lent.split_off(&until.saturating_add(1));
        std::mem::replace(&mut self.lent, later)
    }
}

/// All streams of a process.
#[derive(Default)]
pub(crate) struct Lanes {
    streams: HashMap<Place, Stream>,
    /// How many each peer has lent that were not used yet.
    lent: HashMap<u32, usize>,
}

impl Lanes {
    /// The stream for an issue, if there is one by now.
    pub fn find(&mut self, place: Place, number: u64) -> Option<Rc<OwnedFd>> {
        let stream = self.streams.get_mut(&place)?;
        if stream.socket.is_none() {
            let fresh = stream
                .lent
                .range(..=number)
                .next_back()
                .map(|(&from, _)| from);
            let from = fresh.filter(|&from| stream.is_fresh(from))?;
            // Older ones are of no use to any later issue either.
            let mut old = stream.take_lent(from);
            let count = self.lent.entry(place.peer).or_default();
            *count = count.saturating_sub(old.len());
            stream.socket = old.remove(&from).map(|fd| (from, Rc::new(fd)));
        }
        stream.socket.as_ref().map(|(_, fd)| fd.clone())
    }

    /// Makes the stream for an issue; the other end is for the peer.
    ///
    /// # Errors
    /// The system has no descriptors left.
    pub fn make(&mut self, place: Place, from: u64) -> io::Result<OwnedFd> {
        let (near, far) = unix::pair(unix::Kind::Stream)?;
        headroom::keep(&far);
        let stream = self.streams.entry(place).or_default();
        stream.socket = Some((from, Rc::new(near.into())));
        Ok(far.into())
    }

    /// Takes a stream that this process has made to another host, good from an issue on, unless a later one has failed meanwhile.
    pub fn own(&mut self, place: Place, from: u64, socket: OwnedFd) {
        let stream = self.streams.entry(place).or_default();
        if stream.is_fresh(from) {
            stream.socket = Some((from, Rc::new(socket)));
        }
    }

    /// Whether the channel has had a stream to the peer on this lane.
    pub fn knows(&self, place: Place) -> bool {
        self.streams.contains_key(&place)
    }

    /// Whether the channel has a stream to the peer on this lane now, or one that the peer lends.
    pub fn has(&self, place: Place) -> bool {
        let stream = self.streams.get(&place);
        stream.is_some_and(|stream| stream.socket.is_some() || !stream.lent.is_empty())
    }

    /// Closes the streams of a channel, and forgets it.
    pub fn forget(&mut self, channel: u32) {
        let gone = |place: &Place, _: &mut Stream| place.channel == channel;
        for (place, stream) in self.streams.extract_if(gone) {
            if let Some(count) = self.lent.get_mut(&place.peer) {
                *count = count.saturating_sub(stream.lent.len());
            }
        }
    }

    /// Places of which anything is known.
    #[cfg(test)]
    pub fn places(&self) -> usize {
        self.streams.len()
    }

    /// Whether that issue, or a later one, has failed with the peer on this lane. Then it gets none that it does not have already: both sides close
    /// what was good from there on or before, and a stream for it would be older than the failure.
    pub fn has_failed(&self, place: Place, number: u64) -> bool {
        let stream = self.streams.get(&place);
        stream.is_some_and(|stream| !stream.is_fresh(number))
    }

    /// A peer lends a stream; whether that was in order. One that is older than a failure is of no use, and may come more than once: who lends it has not heard
    /// of all that failed.
    pub fn lend(&mut self, place: Place, from: u64, socket: OwnedFd) -> bool {
        let count = self.lent.entry(place.peer).or_default();
        if *count >= LENT_MAX {
            return false;
        }
        let stream = self.streams.entry(place).or_default();
        if !stream.is_fresh(from) {
            return true;
        }
        if stream.lent.contains_key(&from) {
            return false;
        }
        *count += 1;
        stream.lent.insert(from, socket);
        true
    }

    /// A peer on another host lends a stream; whether that was in order. One that is not newer than all before is of no use: it was
    /// overtaken, or somebody repeats what it has heard.
    pub fn lend_from_afar(&mut self, place: Place, from: u64, socket: OwnedFd) -> bool {
        let known = self.streams.get(&place).and_then(|stream| stream.newest);
        if known.is_some_and(|newest| newest >= from) {
            return true;
        }
        let taken = self.lend(place, from, socket);
        if let Some(stream) = self.streams.get_mut(&place) {
            stream.newest = Some(from);
        }
        taken
    }

    /// From which issue on the stream in use is good.
    pub fn good_from(&self, place: Place) -> Option<u64> {
        let stream = self.streams.get(&place)?;
        stream.socket.as_ref().map(|(from, _)| *from)
    }

    /// An issue failed: its stream is of no use any more, and is given back.
    pub fn spoil(&mut self, place: Place, number: u64) -> Option<Rc<OwnedFd>> {
        let stream = self.streams.entry(place).or_default();
        let spoilt = stream.socket.take_if(|(from, _)| *from <= number);
        stream.failed = stream.failed.max(Some(number));
        let old = stream.take_lent(number);
        if let Some(count) = self.lent.get_mut(&place.peer) {
            *count = count.saturating_sub(old.len());
        }
        spoilt.map(|(_, socket)| socket)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: Place = Place {
        channel: 7,
        lane: 1,
        peer: 2,
    };

    fn end() -> OwnedFd {
        unix::pair(unix::Kind::Stream).unwrap().0.into()
    }

    #[test]
    fn a_stream_serves_until_an_issue_fails_on_it() {
        let mut lanes = Lanes::default();
        assert!(lanes.find(PLACE, 1).is_none() && !lanes.knows(PLACE));
        drop(lanes.make(PLACE, 0).unwrap());
        let first = lanes.find(PLACE, 1).unwrap();
        assert!(Rc::ptr_eq(&first, &lanes.find(PLACE, 3).unwrap()));
        lanes.spoil(PLACE, 3);
        assert!(lanes.find(PLACE, 5).is_none() && lanes.knows(PLACE));
        drop(lanes.make(PLACE, 5).unwrap());
        // Somebody hears late of the failure.
        lanes.spoil(PLACE, 3);
        assert_eq!(lanes.good_from(PLACE), Some(5));
    }

    #[test]
    fn what_failed_without_a_stream_is_known_and_not_there() {
        let mut lanes = Lanes::default();
        lanes.spoil(PLACE, 1);
        assert!(lanes.knows(PLACE) && !lanes.has(PLACE));
        assert!(lanes.lend(PLACE, 3, end()));
        assert!(lanes.has(PLACE), "lent");
        lanes.find(PLACE, 3).unwrap();
        assert!(lanes.has(PLACE), "in use");
    }

    #[test]
    fn what_was_lent_before_a_failure_is_not_used_after_it() {
        let mut lanes = Lanes::default();
        assert!(lanes.lend(PLACE, 0, end()));
        assert!(!lanes.lend(PLACE, 0, end()));
        lanes.spoil(PLACE, 3);
        assert_eq!(lanes.lent[&PLACE.peer], 0);
        assert!(lanes.find(PLACE, 5).is_none());
        assert!(lanes.lend(PLACE, 7, end()));
        assert!(lanes.find(PLACE, 5).is_none());
        assert!(lanes.find(PLACE, 7).is_some());
        assert_eq!(lanes.good_from(PLACE), Some(7));
    }

    #[test]
    fn what_is_lent_behind_a_failure_is_of_no_use() {
        let mut lanes = Lanes::default();
        assert!(!lanes.has_failed(PLACE, 1));
        lanes.spoil(PLACE, 5);
        for _ in 0..2 {
            assert!(lanes.lend(PLACE, 3, end()) && lanes.lend(PLACE, 5, end()));
        }
        assert_eq!(lanes.lent[&PLACE.peer], 0);
        assert!(!lanes.has(PLACE) && lanes.find(PLACE, 7).is_none());
        assert!(lanes.has_failed(PLACE, 3) && lanes.has_failed(PLACE, 5));
        assert!(!lanes.has_failed(PLACE, 7));
        assert!(lanes.lend(PLACE, 7, end()) && !lanes.lend(PLACE, 7, end()));
    }

    #[test]
    fn what_comes_again_from_another_host_is_of_no_use() {
        let mut lanes = Lanes::default();
        assert!(lanes.lend_from_afar(PLACE, 1, end()));
        let first = lanes.find(PLACE, 1).unwrap();
        assert!(lanes.lend_from_afar(PLACE, 1, end()) && lanes.lend_from_afar(PLACE, 0, end()));
        assert_eq!(lanes.lent[&PLACE.peer], 0);
        assert!(lanes.lend_from_afar(PLACE, 5, end()));
        let spoilt = lanes.spoil(PLACE, 3).unwrap();
        assert!(Rc::ptr_eq(&first, &spoilt));
        assert!(lanes.find(PLACE, 5).is_some());
    }

    #[test]
    fn a_peer_cannot_lend_without_end() {
        let mut lanes = Lanes::default();
        lanes.lent.insert(PLACE.peer, LENT_MAX);
        assert!(!lanes.lend(PLACE, 0, end()));
        assert!(lanes.streams.is_empty());
    }
}
