//! Established connections: reading, writing, and how they end.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use mtmi::Queues;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use crate::Tcp;
use crate::fabric::GLANCES;
use crate::frame::Hostile;
use crate::memory;
use crate::state::PEER;
use crate::timers::Timer;

/// Bytes read at once where no receive's memory is the place for them: hundreds of short messages, and of a long
/// one no more than costs little to copy (64 KiB are 1.5 microseconds slower at 64 KiB messages, measured).
pub(crate) const STAGING: usize = 16 << 10;
/// Bytes read at once behind a body that goes to its place: the next header, and little that has to be copied.
const BEHIND: usize = 4 << 10;
/// System calls for one connection before the next gets its turn.
const TURN: usize = 16;
/// How often connections with unconfirmed data are looked at,
const LOOK: Duration = Duration::from_secs(1);
/// for how long a peer's kernel must have confirmed nothing, though asked,
pub(crate) const SILENCE_MS: u32 = 10_000;
/// and in how many looks in a row. A kernel confirms for a stopped process too.
const LOOKS: u8 = 3;

/// An established connection.
pub(crate) struct Stream {
    pub fd: OwnedFd,
    pub remote: SocketAddr,
    /// Whether it is in `Tcp::readable`.
    readable: bool,
    /// The other end is done or gone: there is an end to be read.
    hung: bool,
    /// The kernel takes no more until it says so.
    pub blocked: bool,
    /// Something may be unconfirmed.
    unconfirmed: bool,
    /// Looks in a row that found silence.
    silent: u8,
}

impl Stream {
    pub fn new(fd: OwnedFd, remote: SocketAddr) -> Stream {
        Stream {
            fd,
            remote,
            readable: false,
            hung: false,
            blocked: false,
            unconfirmed: false,
            silent: 0,
        }
    }
}

impl Tcp {
    /// Puts a peer on the list of those to read from.
    #[inline]
    pub(crate) fn note_readable(&mut self, peer: u32) {
        if let Some(stream) = &mut self.routes[peer as usize].stream
            && !stream.readable
        {
            stream.readable = true;
            self.readable.push(peer);
        }
    }

    /// Something happened to an established connection.
    #[inline]
    pub(crate) fn stream_event(&mut self, peer: u32, event: crate::reactor::Event) {
        let Some(route) = self.routes.get_mut(peer as usize) else {
            return;
        };
        let Some(stream) = &mut route.stream else {
            return;
        };
        stream.hung |= event.hung;
        if event.writable && stream.blocked {
            stream.blocked = false;
            self.protocol.mark_dirty(peer);
        }
        if event.readable || event.hung {
            self.note_readable(peer);
        }
    }

    /// Reads from the peers on the list. Returns whether anything came.
    #[inline]
    pub(crate) fn read_some(&mut self, queues: &mut Queues) -> bool {
        let mut moved = false;
        for i in (0..self.readable.len()).rev() {
            let peer = self.readable[i];
            let (some, more) = self.read(queues, peer);
            moved |= some;
            if !more {
                self.readable.swap_remove(i);
                if let Some(stream) = &mut self.routes[peer as usize].stream {
                    stream.readable = false;
                }
            }
        }
        moved
    }

    /// Reads from the peer that something came from last.
    #[inline]
    pub(crate) fn read_recent(&mut self, queues: &mut Queues) -> bool {
        let peer = self.recent;
        if peer as usize >= self.routes.len() {
            return false;
        }
        let (some, more) = self.read(queues, peer);
        if more {
            self.note_readable(peer);
        }
        some
    }

    /// Reads from one peer: whether anything came, and whether there may be more.
    fn read(&mut self, queues: &mut Queues, peer: u32) -> (bool, bool) {
        let mut moved = false;
        for _ in 0..TURN {
            let Some(stream) = &self.routes[peer as usize].stream else {
                return (moved, false);
            };
            let direct = self.protocol.direct(peer);
            let (read, room) = match direct {
                Some((buf, len)) => {
                    let behind = &mut self.staging[..BEHIND];
                    let read = memory::receive(stream.fd.as_fd(), (buf, len), behind);
                    (read, len + BEHIND)
                }
                None => {
                    let read = recv(&stream.fd, &mut self.staging[..], RecvFlags::DONTWAIT);
                    (read.map(|(n, _)| n), STAGING)
                }
            };
            let n = match read {
                Ok(0) => {
                    self.lost(queues, peer, "it ended without taking leave");
                    return (true, false);
                }
                Ok(n) => n,
                Err(Errno::AGAIN) => return (moved, false),
                Err(Errno::INTR) => continue,
                Err(e) => {
                    self.lost(queues, peer, &io::Error::from(e).to_string());
                    return (true, false);
                }
            };
            moved = true;
            let (hung, blocked) = (stream.hung, stream.blocked);
            self.note_read(peer);
            self.glances = if self.expects_more() { GLANCES } else { 0 };
            if let Err(Hostile(what)) = self.took(queues, peer, direct.map_or(0, |d| d.1), n) {
                self.protocol.links[peer as usize].bye = false;
                self.lost(queues, peer, &format!("it sent {what}"));
                return (true, false);
            }
            if n < room && !hung {
                // What comes from now on is told again.
                return (moved, false);
            }
            let link = &self.protocol.links[peer as usize];
            if link.dirty && !link.is_idle() && !blocked {
                // The answer leaves before more is read: a peer that was asked for the rest of a message sends it meanwhile.
                return (moved, true);
            }
        }
        (moved, true)
    }

    /// Takes `n` bytes that were read, the first up to `direct` of them to their place.
    #[inline]
    fn took(
        &mut self,
        queues: &mut Queues,
        peer: u32,
        direct: usize,
        n: usize,
    ) -> Result<(), Hostile> {
        if direct > 0 {
            self.protocol.arrived(queues, peer, n.min(direct));
        }
        let staged = n.saturating_sub(direct);
        self.protocol.feed(queues, peer, &self.staging[..staged])
    }

    /// Reads all that a peer has sent so far.
    pub(crate) fn read_all(&mut self, queues: &mut Queues, peer: u32) {
        while let (true, true) = self.read(queues, peer) {}
    }

    /// Sends what waits for peers that can take it. Returns whether anything left.
    pub(crate) fn pump_all(&mut self, queues: &mut Queues) -> bool {
        let mut moved = false;
        let now = self.protocol.dirty.len();
        for i in 0..now {
            let peer = self.protocol.dirty[i];
            self.protocol.links[peer as usize].dirty = false;
            moved |= self.pump(queues, peer);
        }
        // Behind them are those that were not done.
        self.protocol.dirty.drain(..now);
        moved
    }

    /// Sends what waits for a peer, as far as its kernel takes it; calls the peer if need be. Returns whether anything
    /// left.
    pub(crate) fn pump(&mut self, queues: &mut Queues, peer: u32) -> bool {
        let mut moved = false;
        for _ in 0..TURN {
            let Some(stream) = &mut self.routes[peer as usize].stream else {
                if !self.protocol.links[peer as usize].is_idle() {
                    self.call(peer);
                }
                return moved;
            };
            if stream.blocked {
                return moved;
            }
            let offer = self.protocol.offer(queues, peer);
            if offer.is_empty() {
                return moved;
            }
            let whole = offer.staged.len() + offer.tail.map_or(0, |t| t.1);
            let sent = match offer.tail {
                Some(tail) => memory::send(stream.fd.as_fd(), offer.staged, tail),
                None => send(
                    &stream.fd,
                    offer.staged,
                    SendFlags::NOSIGNAL | SendFlags::DONTWAIT,
                ),
            };
            match sent {
                Ok(n) => {
                    moved = true;
                    self.protocol.sent(queues, peer, n);
                    self.wrote(peer);
                    if n < whole {
                        self.block(peer);
                    }
                }
                Err(Errno::AGAIN) => {
                    self.block(peer);
                    return moved;
                }
                Err(Errno::INTR) => {}
                Err(e) => {
                    self.broken(queues, peer, e);
                    return true;
                }
            }
        }
        // There may be more, when others had their turn.
        self.protocol.mark_dirty(peer);
        moved
    }

    /// The kernel takes no more data for a peer.
    pub(crate) fn block(&mut self, peer: u32) {
        self.watch_all();
        if let Some(stream) = &mut self.routes[peer as usize].stream {
            stream.blocked = true;
            let token = PEER | u64::from(peer);
            self.reactor.await_room(stream.fd.as_fd(), token);
        }
    }

    /// Data left: watches whether they arrive.
    #[inline]
    pub(crate) fn wrote(&mut self, peer: u32) {
        if let Some(stream) = &mut self.routes[peer as usize].stream {
            stream.unconfirmed = true;
        }
        if !self.watching {
            self.watching = true;
            self.timers.set(LOOK, Timer::Pulse);
        }
    }

    /// Looks for peers whose host confirms nothing.
    pub(crate) fn pulse_timer(&mut self, queues: &mut Queues) {
        self.watching = false;
        let mut silent = Vec::new();
        for (peer, route) in (0u32..).zip(&mut self.routes) {
            let Some(stream) = route.stream.as_mut().filter(|s| s.unconfirmed) else {
                continue;
            };
            let Some(pulse) = memory::pulse(stream.fd.as_fd()) else {
                continue;
            };
            stream.unconfirmed = pulse.unconfirmed;
            self.watching |= pulse.unconfirmed;
            stream.silent = match pulse.silent && pulse.last_ms >= SILENCE_MS {
                true => stream.silent + 1,
                false => 0,
            };
            if stream.silent >= LOOKS {
                silent.push(peer);
            }
        }
        if self.watching {
            self.timers.set(LOOK, Timer::Pulse);
        }
        for peer in silent {
            self.lost(queues, peer, "its host has not answered for 10 s");
        }
    }

    /// A connection takes no more data: what came through it before still counts.
    #[cold]
    pub(crate) fn broken(&mut self, queues: &mut Queues, peer: u32, e: Errno) {
        self.read_all(queues, peer);
        self.lost(queues, peer, &io::Error::from(e).to_string());
    }

    /// A connection is over. Its peer has failed, unless it said that it is done.
    #[cold]
    pub(crate) fn lost(&mut self, queues: &mut Queues, peer: u32, why: &str) {
        let Some(remote) = self.hang_up(peer) else {
            return;
        };
        if self.protocol.links[peer as usize].bye {
            self.protocol.fail(queues, peer);
            queues.fail_receives(mtmi::Endpoint(peer));
        } else {
            self.fail(
                queues,
                peer,
                format!("the connection to {remote} is lost: {why}"),
            );
        }
    }

    /// Closes a connection; returns the other end's address, if there was one.
    pub(crate) fn hang_up(&mut self, peer: u32) -> Option<SocketAddr> {
        let stream = self.routes[peer as usize].stream.take()?;
        self.forget_unwatched(peer);
        let token = PEER | u64::from(peer);
        self.reactor.remove(stream.fd.as_fd(), token);
        Some(stream.remote)
    }
}
