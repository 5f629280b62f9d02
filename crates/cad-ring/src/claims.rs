//! Which of two processes lends the streams of a channel: the one that needs them first. So whoever issues
//! first can begin at once, whether the other comes soon or not.
//!
//! Both would bind the same abstract name to a socket, and the system lets one of them. Its name follows from
//! the secrets of both and the channel's number: nobody else can take it before. Nothing listens
//! there, and it vanishes with whoever bound it.
//!
//! Between hosts there is nobody to ask who was first, so there the process of lower rank lends.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, socket_with};

use crate::headroom;

/// What was decided so far. It stays.
#[derive(Default)]
pub(crate) struct Claims {
    /// By channel and peer: whether this process lends, and the bound socket, if that took one.
    lenders: HashMap<(u32, u32), (bool, Option<OwnedFd>)>,
}

impl Claims {
    /// Whether this process lends the channel's streams to the peer, if that was decided.
    pub fn decided(&self, channel: u32, peer: u32) -> Option<bool> {
        self.lenders.get(&(channel, peer)).map(|&(lends, _)| lends)
    }

    /// Decides with what [`take`] gave.
    pub fn decide(&mut self, channel: u32, peer: u32, held: Option<OwnedFd>) {
        self.lenders.insert((channel, peer), (held.is_some(), held));
    }

    /// Decides for a peer on another host.
    pub fn decide_afar(&mut self, channel: u32, peer: u32, lends: bool) {
        self.lenders.insert((channel, peer), (lends, None));
    }

    /// Gives up the names of a channel that is not used any more. Its lent ends must be on their way: a peer that
    /// takes the name afterwards has to find them.
    pub fn forget(&mut self, channel: u32) {
        self.lenders.retain(|&(c, _), _| c != channel);
    }

    /// Whether it was decided that this process lends.
    pub fn holds(&self, channel: u32, peer: u32) -> bool {
        self.decided(channel, peer) == Some(true)
    }
}

/// 128 bits that nobody knows who does not know the secrets.
fn name(secrets: [&str; 2], channel: u32) -> String {
    let half = |turn: u8| {
        let mut hasher = DefaultHasher::new();
        (turn, secrets, channel).hash(&mut hasher);
        hasher.finish()
    };
    format!("yamabiko-lane-{:016x}{:016x}", half(0), half(1))
}

/// What the one of two processes gets that asks first; `None` for the other. `secrets` are those of both, the lower
/// rank's first.
///
/// # Errors
/// What the system says, if it is not that the peer was quicker.
pub(crate) fn take(channel: u32, secrets: [&str; 2]) -> io::Result<Option<OwnedFd>> {
    let address = SocketAddrUnix::new_abstract_name(name(secrets, channel).as_bytes())?;
    let kind = SocketType::SEQPACKET;
    let socket = socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)?;
    headroom::keep(&socket);
    match bind(&socket, &address) {
        Ok(()) => Ok(Some(socket)),
        Err(Errno::ADDRINUSE) => Ok(None),
        Err(e) => Err(e.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_two_lends() {
        let secret = format!("{:x}", sys::random::u64().unwrap());
        let secrets = [secret.as_str(), "other"];
        let (mut a, mut b) = (Claims::default(), Claims::default());
        assert!(!a.holds(7, 1) && a.decided(7, 1).is_none());
        a.decide(7, 1, take(7, secrets).unwrap());
        b.decide(7, 0, take(7, secrets).unwrap());
        b.decide(8, 0, take(8, secrets).unwrap());
        a.decide(8, 1, take(8, secrets).unwrap());
        assert!(a.holds(7, 1) && !b.holds(7, 0) && b.holds(8, 0));
        assert_eq!(a.decided(8, 1), Some(false));
        // Another pair of the same processes' names.
        assert!(take(7, ["other", &secret]).unwrap().is_some());
        a.forget(7);
        assert!(a.decided(7, 1).is_none() && a.decided(8, 1).is_some());
        assert!(take(7, secrets).unwrap().is_some());
    }
}
