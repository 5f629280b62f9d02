//! What processes say to each other, as packets of sixteen bytes: kind, detail (a lane, or a state), two zeros,
//! channel, number of an issue; little-endian. A connection that is lent comes with its packet.
//!
//! Invariant: [`news`] gives only what a correct process says, whatever came in.

use std::os::fd::OwnedFd;

use cad_run::State;
use rustix::net::{AddressFamily, SocketType, sockopt};
use sys::unix::Socket;

use crate::lanes::{LANES, Place};

/// Bytes of a packet.
pub(crate) const PACKET: usize = 16;

/// What a process says.
#[derive(Debug)]
pub(crate) enum News {
    /// Here is a connection, for a lane of a channel, from this issue on. (Or one to that process, which was begun here, is there.)
    Lane {
        channel: u32,
        lane: u8,
        from: u64,
        socket: OwnedFd,
    },
    /// This issue of the channel ended early, and why.
    Over {
        channel: u32,
        number: u64,
        why: State,
    },
    /// It leaves. What it has sent before is good.
    Bye,
}

impl News {
    /// Whether this, from a process, is a connection for this place.
    pub fn is_lane(&self, peer: u32, place: Place) -> bool {
        match *self {
            News::Lane { channel, lane, .. } => {
                place
                    == Place {
                        channel,
                        lane,
                        peer,
                    }
            }
            _ => false,
        }
    }
}

/// Kinds of packets.
pub(crate) const LANE: u8 = 1;
pub(crate) const OVER: u8 = 2;
pub(crate) const BYE: u8 = 3;

/// A packet of a kind.
pub(crate) fn packet(kind: u8, detail: u8, channel: u32, number: u64) -> [u8; PACKET] {
    let mut packet = [0; PACKET];
    packet[..2].copy_from_slice(&[kind, detail]);
    packet[4..8].copy_from_slice(&channel.to_le_bytes());
    packet[8..].copy_from_slice(&number.to_le_bytes());
    packet
}

/// The kind, detail, channel and number of a packet.
fn parts(said: &[u8; PACKET]) -> Option<(u8, u8, u32, u64)> {
    let [kind, detail, 0, 0, c0, c1, c2, c3, number @ ..] = *said else {
        return None;
    };
    let channel = u32::from_le_bytes([c0, c1, c2, c3]);
    Some((kind, detail, channel, u64::from_le_bytes(number)))
}

/// The lane that a connection from another host is for, which began with this packet; `None` if no correct process sends it.
pub(crate) fn lane_from_afar(said: &[u8; PACKET], socket: OwnedFd) -> Option<News> {
    match parts(said)? {
        (LANE, lane, channel, from) if lane < LANES => Some(News::Lane {
            channel,
            lane,
            from,
            socket,
        }),
        _ => None,
    }
}

/// Reads a packet that another process sent; `None` if no correct one sends it.
pub(crate) fn news(said: &[u8], fd: Option<OwnedFd>) -> Option<News> {
    let (kind, detail, channel, number) = parts(said.try_into().ok()?)?;
    match (kind, fd) {
        (LANE, Some(fd)) if detail < LANES => {
            // A stream inside the machine between processes of this user, and nothing else.
            let socket = Socket::from_fd(fd).ok()?;
            let own = socket.user().ok()? == rustix::process::geteuid().as_raw();
            let socket = OwnedFd::from(socket);
            let unix = sockopt::socket_domain(&socket).ok()? == AddressFamily::UNIX;
            let stream = sockopt::socket_type(&socket).ok()? == SocketType::STREAM;
            (own && unix && stream).then_some(News::Lane {
                channel,
                lane: detail,
                from: number,
                socket,
            })
        }
        (OVER, None) => {
            let why = State::of(u32::from(detail));
            let early = matches!(why, State::Length | State::Lost | State::Cancelled);
            early.then_some(News::Over {
                channel,
                number,
                why,
            })
        }
        (BYE, None) => Some(News::Bye),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sys::unix::{self, Kind};

    #[test]
    fn nonsense_is_no_news() {
        let fd = || Some(OwnedFd::from(unix::pair(Kind::Stream).unwrap().0));
        assert!(news(&packet(LANE, 0, 1, 2), fd()).is_some());
        assert!(news(&packet(OVER, State::Cancelled as u8, 1, 2), None).is_some());
        let packets = OwnedFd::from(unix::pair(Kind::Packets).unwrap().0);
        let file = rustix::fs::memfd_create("x", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        assert!(news(&packet(LANE, 0, 1, 2), Some(packets)).is_none());
        assert!(news(&packet(LANE, 0, 1, 2), Some(file)).is_none());
        assert!(news(&packet(LANE, 0, 1, 2), None).is_none());
        assert!(news(&packet(LANE, LANES, 1, 2), fd()).is_none());
        assert!(news(&packet(OVER, 2, 1, 2), fd()).is_none());
        for detail in [0, 1, 5, 6, 255] {
            assert!(news(&packet(OVER, detail, 1, 2), None).is_none());
        }
        assert!(news(&packet(BYE, 0, 0, 0), None).is_some());
        assert!(news(&packet(BYE, 0, 0, 0), fd()).is_none());
        assert!(news(&packet(4, 0, 1, 2), None).is_none());
        assert!(news(&packet(OVER, 2, 1, 2)[..15], None).is_none());
        let mut odd = packet(OVER, 2, 1, 2);
        odd[2] = 1;
        assert!(news(&odd, None).is_none());
        let afar = |said: &[u8; PACKET]| lane_from_afar(said, fd().unwrap());
        assert!(afar(&packet(LANE, 1, 1, 2)).is_some());
        assert!(afar(&packet(LANE, LANES, 1, 2)).is_none());
        assert!(afar(&packet(BYE, 0, 0, 0)).is_none());
        assert!(afar(&odd).is_none());
    }
}
