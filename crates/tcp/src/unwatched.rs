//! The connection that is read unasked and therefore not watched.
//!
//! Each packet that comes for a watched socket has epoll note it, in the interrupt that brings the packet: 3.82 instead of 3.65 us one way
//! between plain sockets, measured. A peer that sends again and again is read without asking anyway (see [`GLANCES`]). So after [`STREAK`]
//! reads in a row that found something, all from one peer, its socket is taken out of epoll, and put back before anything relies on
//! being told of it: a sleep, a write that has to wait for room, glances in vain, another peer that sends.
//!
//! Invariants: at most one connection is unwatched, that of `Tcp::recent`, and while it is, each pass of progress reads from it or puts it
//! back. Where several threads use MPI all are watched, for one of them may sleep on epoll while another is here.

use std::cell::Cell;
use std::os::fd::AsFd;

use crate::Tcp;
use crate::config::ReactorKind;
#[cfg(doc)]
use crate::fabric::GLANCES;
use crate::state::PEER;

/// Reads in a row after which a peer is expected to go on: taking its socket out and putting it back costs what 10 packets do.
const STREAK: u32 = 64;

/// Reads in a row from a peer after which it is worth while to look there before asking who has something: where several peers send in turn most such
/// looks are in vain. (Three ranks on hosts of their own, on two processors: 8 bytes are reduced for all in 78 us in place of 103.)
const STEADY: u32 = 8;

/// Which connection is unwatched.
#[derive(Default)]
pub(crate) struct Unwatched {
    /// Whether any may be.
    allowed: bool,
    peer: Cell<Option<u32>>,
    /// Reads in a row from the peer that something came from last.
    streak: u32,
}

impl Unwatched {
    /// Whether there is one.
    #[inline]
    pub fn is_any(&self) -> bool {
        self.peer.get().is_some()
    }
}

impl Tcp {
    /// Says whether one thread alone uses this fabric, also to sleep.
    pub fn use_alone(&mut self, alone: bool) {
        self.unwatched.allowed = alone && self.reactor.kind() == ReactorKind::Epoll;
        self.watch_all();
    }

    /// Something was read from `peer`.
    #[inline]
    pub(crate) fn note_read(&mut self, peer: u32) {
        if self.recent != peer {
            self.watch_all();
            self.unwatched.streak = 0;
            self.recent = peer;
        }
        self.unwatched.streak = self.unwatched.streak.wrapping_add(1);
        if self.unwatched.streak == STREAK {
            self.unwatch(peer);
        }
    }

    /// Whether the next data are likely to come from where the last came from.
    #[inline]
    pub(crate) fn expects_more(&self) -> bool {
        self.unwatched.streak >= STEADY && !self.crowded
    }

    /// Takes the connection to `peer` out of epoll, if that may be.
    #[cold]
    fn unwatch(&mut self, peer: u32) {
        let Some(stream) = &self.routes[peer as usize].stream else {
            return;
        };
        if self.unwatched.allowed && !stream.blocked && !self.crowded {
            let token = PEER | u64::from(peer);
            self.reactor.remove(stream.fd.as_fd(), token);
            self.unwatched.peer.set(Some(peer));
        }
    }

    /// Has all connections watched again. What came meanwhile is told. `false`: the system refuses, and the unwatched one has to be
    /// read unasked still.
    #[inline]
    pub(crate) fn watch_all(&self) -> bool {
        !self.unwatched.is_any() || self.watch_again()
    }

    #[cold]
    fn watch_again(&self) -> bool {
        let Some(peer) = self.unwatched.peer.get() else {
            return true;
        };
        let stream = &self.routes[peer as usize].stream;
        let token = PEER | u64::from(peer);
        let watched = stream
            .as_ref()
            .is_none_or(|s| self.reactor.watch_again(s.fd.as_fd(), token).is_ok());
        if watched {
            self.unwatched.peer.set(None);
        }
        watched
    }

    /// Once glances were in vain: has all connections watched, or else the unwatched one read in this pass.
    #[inline]
    pub(crate) fn end_glances(&mut self) {
        self.unwatched.streak = 0;
        if !self.watch_all() {
            self.note_readable(self.recent);
        }
    }

    /// The connection to `peer` is closed.
    pub(crate) fn forget_unwatched(&mut self, peer: u32) {
        if self.unwatched.peer.get() == Some(peer) {
            self.unwatched.peer.set(None);
        }
    }
}
