//! Streams to processes of other hosts that are being made: to where this process has met the other.
//!
//! A stream is there when its note is sent, and this process may compute between the connection and that. Meanwhile the other may have
//! hung up, as too many callers had said nothing, or its host has no room for callers. While the connection to that process
//! stands (`Link`), such a stream is begun again.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use tcp::meeting::{self, Identity};

use super::super::{Control, Watched};
use crate::headroom;
use crate::lanes::Place;
use crate::packet::{LANE, News, packet};

/// Streams to a process that are being made at once.
pub(super) const DIALS: usize = 8;
/// Before one is begun again.
const PAUSE: Duration = Duration::from_millis(50);
/// How long one is tried, or a process called whom this one has not met: a host that has no room for callers until its process lets them in may keep two attempts waiting, for
/// about 130 s each.
pub(super) const PATIENCE: Duration = Duration::from_secs(300);

/// A stream that is being made.
struct Dial {
    place: Place,
    /// From which issue on it will be good.
    from: u64,
    since: Instant,
    socket: OwnedFd,
}

/// One that is to be begun again.
struct Again {
    place: Place,
    from: u64,
    since: Instant,
    when: Instant,
}

/// All of these.
#[derive(Default)]
pub(super) struct Dials {
    /// By the numbers of their watches.
    under_way: BTreeMap<u32, Dial>,
    again: Vec<Again>,
}

impl Dial {
    /// Says what it is for, if the connection is there; whether it is.
    fn speak(&self, identity: &Identity) -> io::Result<bool> {
        if !meeting::connected(self.socket.as_fd())? {
            return Ok(false);
        }
        // To one that has hung up something could be sent too.
        match recv(
            &self.socket,
            &mut [0],
            RecvFlags::PEEK | RecvFlags::DONTWAIT,
        ) {
            Ok((0, _)) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(_) | Err(Errno::AGAIN | Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
        let Place {
            channel,
            lane,
            peer,
        } = self.place;
        let note = identity.note(peer, &packet(LANE, lane, channel, self.from));
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        match send(&self.socket, &note, flags)? {
            n if n == note.len() => Ok(true),
            // Its buffer was empty.
            _ => Err(ErrorKind::WriteZero.into()),
        }
    }
}

impl Dials {
    fn places(&self) -> impl Iterator<Item = Place> {
        let under_way = self.under_way.values().map(|dial| dial.place);
        under_way.chain(self.again.iter().map(|again| again.place))
    }

    /// The socket of a watch.
    pub fn socket(&self, id: u32) -> Option<BorrowedFd<'_>> {
        self.under_way.get(&id).map(|dial| dial.socket.as_fd())
    }

    /// Whether one is to be begun again.
    pub fn is_behind(&self) -> bool {
        !self.again.is_empty()
    }

    /// How many there are.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.places().count()
    }
}

impl Control {
    /// Makes a stream to a process of another host, good from an issue on, unless one is under way or news already; which it is when it is
    /// there. Where too many are under way it has to be asked for again.
    ///
    /// # Errors
    /// The system has no descriptors left.
    pub fn dial(&mut self, place: Place, from: u64) -> io::Result<()> {
        let Some(far) = &self.far else {
            return Ok(());
        };
        let mut news = self.news.iter();
        let there = || far.dials.places().filter(|p| p.peer == place.peer);
        if there().count() >= DIALS
            || there().any(|dialled| dialled == place)
            || news.any(|(peer, news)| news.is_lane(*peer, place))
        {
            return Ok(());
        }
        self.begin_dial(place, from, Instant::now())
    }

    fn begin_dial(&mut self, place: Place, from: u64, since: Instant) -> io::Result<()> {
        let id = self.next_watch();
        let Some(far) = &mut self.far else {
            return Ok(());
        };
        let Some(link) = far.links.get(&place.peer) else {
            return Ok(());
        };
        let socket = meeting::dial(&link.at)?;
        headroom::keep(&socket);
        let dial = Dial {
            place,
            from,
            since,
            socket,
        };
        far.dials.under_way.insert(id, dial);
        self.begin_watch(Watched::Dial(id));
        Ok(())
    }

    /// Begins those again whose time has come.
    pub(super) fn dial_again(&mut self) {
        let Some(far) = &mut self.far else { return };
        let now = Instant::now();
        let due: Vec<Again> = far
            .dials
            .again
            .extract_if(.., |again| again.when <= now)
            .collect();
        for Again {
            place, from, since, ..
        } in due
        {
            if self.begin_dial(place, from, since).is_err() {
                self.failed(place, from, since);
            }
        }
    }

    /// Nothing came of an attempt.
    fn failed(&mut self, place: Place, from: u64, since: Instant) {
        // It may have said before that it leaves.
        self.hear_link(place.peer);
        if !self.has_link(place.peer) || self.left.contains(&place.peer) {
            return;
        }
        if since.elapsed() > PATIENCE {
            return self.lose(place.peer);
        }
        if let Some(far) = &mut self.far {
            let when = Instant::now() + PAUSE;
            far.dials.again.push(Again {
                place,
                from,
                since,
                when,
            });
        }
    }

    /// Lets go of streams that are being made, where so, by the place and the first issue. Nothing was said on them yet.
    pub fn drop_dials(&mut self, so: impl Fn(&Place, u64) -> bool) {
        let Some(far) = &mut self.far else { return };
        far.dials
            .again
            .retain(|again| !so(&again.place, again.from));
        let gone = far
            .dials
            .under_way
            .extract_if(.., |_, dial| so(&dial.place, dial.from));
        let gone: Vec<u32> = gone.map(|(id, _)| id).collect();
        for id in gone {
            self.end_watch(Watched::Dial(id));
        }
    }

    /// Something has become of a stream that is being made.
    pub(in crate::control) fn dial_event(&mut self, id: u32) {
        let Some(far) = &mut self.far else { return };
        let Some(dial) = far.dials.under_way.get(&id) else {
            return;
        };
        let begun = dial.speak(&far.identity);
        if matches!(begun, Ok(false)) {
            return;
        }
        let Some(dial) = far.dials.under_way.remove(&id) else {
            return;
        };
        self.end_watch(Watched::Dial(id));
        let Place {
            channel,
            lane,
            peer,
        } = dial.place;
        let Dial { from, socket, .. } = dial;
        match begun {
            Ok(_) => self.news.push((
                peer,
                News::Lane {
                    channel,
                    lane,
                    from,
                    socket,
                },
            )),
            Err(_) => self.failed(dial.place, from, dial.since),
        }
    }
}
