//! A socket that a doorbell's ringers write to, for an owner that sleeps on descriptors too.
//!
//! The owner binds a datagram socket to a random name in the abstract namespace and writes the name
//! beside the bell's words; a ringer that finds the owner asleep sends one byte there in place of
//! the futex call. A byte means nothing but "look": anybody in the network namespace who knows
//! the name can cause a useless look, and a hostile peer that changes the name one that doesn't
//! come. Nothing is left behind: the name goes with the socket.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, bind, recv,
    sendto, socket_with,
};

/// The name of a bell's socket; zero is none.
pub(crate) type Name = [u64; 2];

const FLAGS: SocketFlags = SocketFlags::CLOEXEC.union(SocketFlags::NONBLOCK);

/// Where knocks on a bell arrive: readable once somebody rang while its owner slept.
#[derive(Debug)]
pub struct Knocks {
    socket: OwnedFd,
}

fn address(name: Name) -> rustix::io::Result<SocketAddrUnix> {
    let text = format!("yamabiko-bell-{:016x}{:016x}", name[0], name[1]);
    SocketAddrUnix::new_abstract_name(text.as_bytes())
}

fn datagrams() -> rustix::io::Result<OwnedFd> {
    socket_with(AddressFamily::UNIX, SocketType::DGRAM, FLAGS, None)
}

impl Knocks {
    /// Listens under a new name.
    pub(crate) fn listen() -> io::Result<(Knocks, Name)> {
        let bytes = crate::random::bytes16()?;
        let (high, low) = bytes.split_at(8);
        let word = |b: &[u8]| b.iter().fold(0, |w, &b| w << 8 | u64::from(b));
        // Never zero, which says that there is no socket.
        let name = [word(high) | 1, word(low)];
        let socket = datagrams()?;
        bind(&socket, &address(name)?)?;
        Ok((Knocks { socket }, name))
    }

    /// Forgets the knocks so far. To be called when awake, before looking for work.
    pub fn drain(&self) {
        let mut byte = [0u8; 8];
        while recv(&self.socket, &mut byte, RecvFlags::DONTWAIT).is_ok() {}
    }
}

impl AsFd for Knocks {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Sends one byte to the owner of a name.
pub(crate) fn knock(name: Name) {
    static SENDER: OnceLock<Option<OwnedFd>> = OnceLock::new();
    let Some(sender) = SENDER.get_or_init(|| datagrams().ok()) else {
        return;
    };
    // Refused: the owner is gone. Full: it has knocks enough to wake up by.
    if let Ok(address) = address(name) {
        let _ = sendto(sender, &[1], SendFlags::DONTWAIT, &address);
    }
}
