//! Sockets as this fabric uses them: never blocking, closed on exec, without delay.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt::*;
use rustix::net::{
    AddressFamily, SocketFlags, SocketType, acceptfrom_with, bind, connect, getsockname, listen,
    socket_with,
};

use crate::config::Error;
use crate::memory::{Limit, round_trip, set_limit};

/// Connections that the kernel completes before we look; it allows no more than `net.core.somaxconn`.
const BACKLOG: i32 = 4096;
/// After so much silence the kernel asks whether the other host is there,
const KEEPALIVE_IDLE: Duration = Duration::from_secs(5);
/// again after this,
const KEEPALIVE_AGAIN: Duration = Duration::from_secs(2);
/// and gives up after so many questions: together 13 s, so a cut of 5 s is survived and a dead link found
/// within 15.
const KEEPALIVE_TIMES: u32 = 4;
/// Bytes that the kernel takes beyond what it can send now: enough to keep the wire busy until we look
/// again, and no more, for whatever is in there goes before a new message.
pub(crate) const UNSENT: u32 = 256 << 10;
/// The kernel tries at least so often to send what was not confirmed, where it can be told so. Otherwise it
/// waits twice as long each time, and a connection may lie idle for as long after a cut as the cut was.
const RESEND_MS: u32 = 1000;

/// Round trips below this are those of one room.
const NEAR: Duration = Duration::from_millis(1);

fn flags() -> SocketFlags {
    SocketFlags::NONBLOCK | SocketFlags::CLOEXEC
}

/// A socket of the family of `address`.
fn stream(address: &SocketAddr) -> rustix::io::Result<OwnedFd> {
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    socket_with(family, SocketType::STREAM, flags(), None)
}

/// What every connection has, whoever called.
fn prepare(fd: &OwnedFd) {
    // Each is an improvement that a system may lack; the connection works without.
    let _ = set_tcp_nodelay(fd, true);
    let _ = set_tcp_keepidle(fd, KEEPALIVE_IDLE);
    let _ = set_tcp_keepintvl(fd, KEEPALIVE_AGAIN);
    let _ = set_tcp_keepcnt(fd, KEEPALIVE_TIMES);
    let _ = set_socket_keepalive(fd, true);
    let _ = set_limit(fd.as_fd(), Limit::Unsent, UNSENT);
    let _ = set_limit(fd.as_fd(), Limit::Resend, RESEND_MS);
}

/// Whether a socket's congestion control spaces segments by the rate it has seen, as BBR does. Messages with pauses between them never let it see that.
fn spaces(fd: BorrowedFd<'_>) -> bool {
    tcp_congestion(fd).is_ok_and(|name| name.starts_with("bbr"))
}

/// The system's choice, which a socket has that nobody has touched, if it spaces segments.
fn spacing() -> Option<&'static str> {
    static CHOICE: OnceLock<Option<String>> = OnceLock::new();
    let asked = || {
        let fresh = socket_with(AddressFamily::INET, SocketType::STREAM, flags(), None).ok()?;
        tcp_congestion(&fresh)
            .ok()
            .filter(|_| spaces(fresh.as_fd()))
    };
    CHOICE.get_or_init(asked).as_deref()
}

/// Has a socket without such spacing, from before it is connected on; what a listener takes has that from the listener. Once BBR
/// has begun, the kernel goes on spacing whatever is chosen later, at 1.2 times the window in a round trip, and a window that is never
/// used up so hardly grows. (1 MiB within one room took 300 to 400 us for the first thousand messages, and then 145, which it takes from the first on without.)
fn be_unspaced(fd: BorrowedFd<'_>) {
    if spaces(fd) {
        // A system without either keeps what it has.
        let _ = set_tcp_congestion(fd, "cubic").or_else(|_| set_tcp_congestion(fd, "reno"));
    }
}

/// Gives a connection that has just been made the system's choice, unless it is near: far away spacing does no harm and may do good.
fn space_if_far(fd: BorrowedFd<'_>) {
    match round_trip(fd) {
        // What a route says comes before what was chosen for the socket.
        Ok(time) if time < NEAR => be_unspaced(fd),
        _ => be_as_the_system_has_it(fd),
    }
}

/// Takes back what `be_unspaced` did.
fn be_as_the_system_has_it(fd: BorrowedFd<'_>) {
    if let Some(name) = spacing() {
        let _ = set_tcp_congestion(fd, name);
    }
}

/// Begins a connection; it is there, or refused, when the socket becomes writable.
pub(crate) fn dial(to: &SocketAddr) -> rustix::io::Result<OwnedFd> {
    let fd = stream(to)?;
    prepare(&fd);
    be_unspaced(fd.as_fd());
    match connect(&fd, to) {
        Ok(()) | Err(Errno::INPROGRESS | Errno::INTR) => Ok(fd),
        Err(e) => Err(e),
    }
}

/// How a begun connection ended. To be asked of each, as it then is made as fast as it can be.
pub(crate) fn dialed(fd: BorrowedFd<'_>) -> rustix::io::Result<()> {
    socket_error(fd)??;
    space_if_far(fd);
    Ok(())
}

/// Whether there are no descriptors or memory left for another connection.
pub(crate) fn no_room(e: Errno) -> bool {
    [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM].contains(&e)
}

/// Whether a connection waits to be taken.
pub(crate) fn is_readable(listener: &OwnedFd) -> bool {
    let now = Timespec::default();
    let mut fds = [PollFd::new(listener, PollFlags::IN)];
    poll(&mut fds, Some(&now)) != Ok(0)
}

/// Takes the next connection.
pub(crate) fn accept(listener: &OwnedFd) -> rustix::io::Result<(OwnedFd, Option<SocketAddr>)> {
    let (fd, from) = acceptfrom_with(listener, flags())?;
    prepare(&fd);
    space_if_far(fd.as_fd());
    let from = from.and_then(|a| SocketAddr::try_from(a).ok());
    // IPv4 arrives in IPv6's clothes where one socket listens for both.
    let plain = |a: SocketAddr| SocketAddr::new(a.ip().to_canonical(), a.port());
    Ok((fd, from.map(plain)))
}

/// Listens on both families if there are both, on a port of the range if there is one. Returns the port and
/// whether IPv6 is heard.
pub(crate) fn listen_on(ports: Option<(u16, u16)>) -> Result<(OwnedFd, u16, bool), Error> {
    let fail = |e: Errno| {
        let e = io::Error::from(e);
        Error(match ports {
            Some((first, last)) => {
                format!(
                    "no TCP port from {first} to {last} can be listened on: {e}; \
                     YAMABIKO_PORT_RANGE has to have one for each rank of a machine that nobody else uses, \
                     with YAMABIKO_CAD=ring two"
                )
            }
            None => format!("no TCP port can be listened on: {e}"),
        })
    };
    let (first, last) = ports.unwrap_or((0, 0));
    // Not all begin at the same port, where they would wait for each other.
    let count = u64::from(last - first) + 1;
    let start = sys::random::u64().unwrap_or(0) % count;
    let mut error = Errno::ADDRINUSE;
    for ip in [
        IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        IpAddr::V4(Ipv4Addr::UNSPECIFIED),
    ] {
        for i in 0..count {
            let port = first + ((start + i) % count) as u16;
            match listen_at(&SocketAddr::new(ip, port), ports.is_some()) {
                Ok((fd, port)) => return Ok((fd, port, ip.is_ipv6())),
                Err(e) => error = e,
            }
            if error != Errno::ADDRINUSE && error != Errno::ACCESS {
                break;
            }
        }
    }
    Err(fail(error))
}

fn listen_at(address: &SocketAddr, again: bool) -> rustix::io::Result<(OwnedFd, u16)> {
    let fd = stream(address)?;
    if address.is_ipv6() {
        set_ipv6_v6only(&fd, false)?;
    }
    if again {
        // Connections of an earlier job that are not quite over do not block its port.
        set_socket_reuseaddr(&fd, true)?;
    }
    be_unspaced(fd.as_fd());
    bind(&fd, address)?;
    listen(&fd, BACKLOG)?;
    let name = SocketAddr::try_from(getsockname(&fd)?).map_err(|_| Errno::AFNOSUPPORT)?;
    Ok((fd, name.port()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_of_one_port_is_used_once() {
        let (held, port, _) = listen_on(None).unwrap();
        let error = listen_on(Some((port, port))).unwrap_err();
        assert!(error.0.contains(&port.to_string()), "{error}");
        drop(held);
        let (_again, same, _) = listen_on(Some((port, port))).unwrap();
        assert_eq!(same, port);
    }

    /// Where the system's choice is BBR, it is not that of a near connection, from either side, at no time. (One of one machine is near unless the
    /// machine stood still meanwhile.)
    #[test]
    fn near_connections_are_not_spaced() {
        let (listener, port, _) = listen_on(None).unwrap();
        let dialing = dial(&SocketAddr::from((Ipv4Addr::LOCALHOST, port))).unwrap();
        assert!(!spaces(listener.as_fd()) && !spaces(dialing.as_fd()));
        let mut fds = [PollFd::new(&dialing, PollFlags::OUT)];
        poll(&mut fds, None).unwrap();
        dialed(dialing.as_fd()).unwrap();
        let (taken, _) = accept(&listener).unwrap();
        for fd in [&dialing, &taken] {
            let is_near = round_trip(fd.as_fd()).unwrap() < NEAR;
            assert!(!is_near || !spaces(fd.as_fd()));
        }
    }

    /// A far connection has the system's choice again.
    #[test]
    fn far_connections_are_as_the_system_has_them() {
        let fresh = stream(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
        let fd = stream(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
        be_unspaced(fd.as_fd());
        be_as_the_system_has_it(fd.as_fd());
        assert_eq!(
            tcp_congestion(&fd).unwrap(),
            tcp_congestion(&fresh).unwrap()
        );
    }
}
