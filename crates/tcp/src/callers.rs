//! Connections that have not proved themselves yet: a fixed buffer each, and the next step of the handshake.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};

use mtmi::Queues;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use crate::Tcp;
use crate::handshake::{Acceptor, Dialer, LONGEST};
use crate::reactor::Event;
use crate::state::PEER;
use crate::stream::Stream;

/// Such a connection.
pub(crate) struct Caller {
    pub fd: OwnedFd,
    /// The other end.
    pub remote: SocketAddr,
    pub role: Role,
    /// What came of the message that is next.
    pub buffer: [u8; LONGEST],
    pub filled: usize,
}

/// Who called.
pub(crate) enum Role {
    /// We call this peer.
    Dials {
        peer: u32,
        dialer: Box<Dialer>,
        stage: Stage,
    },
    /// Somebody calls us, and said hello or not.
    Answers {
        acceptor: Box<Acceptor>,
        greeted: bool,
    },
}

/// How far our call is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stage {
    /// The kernel connects.
    Connects,
    /// We said hello.
    Greeted,
    /// So did the other end; another call to the same peer is further.
    Held,
    /// We sent our proof.
    Proved,
}

/// What came of reading.
pub(crate) enum Filled {
    /// There is more to come.
    Partly,
    /// The message is complete.
    Wholly,
    /// Nothing more comes.
    Closed(String),
}

impl Caller {
    /// Reads the next bytes of a message of `need` bytes, and none beyond.
    pub fn fill(&mut self, need: usize) -> Filled {
        while self.filled < need {
            let room = &mut self.buffer[self.filled..need];
            match recv(&self.fd, room, RecvFlags::DONTWAIT) {
                Ok((0, _)) => return Filled::Closed("it closed the connection".into()),
                Ok((n, _)) => self.filled += n,
                Err(Errno::AGAIN) => return Filled::Partly,
                Err(Errno::INTR) => {}
                Err(e) => return Filled::Closed(io::Error::from(e).to_string()),
            }
        }
        Filled::Wholly
    }

    /// The first bytes of the message that is complete; the next begins.
    pub fn message<const N: usize>(&mut self) -> [u8; N] {
        self.filled = 0;
        let mut out = [0; N];
        out.copy_from_slice(&self.buffer[..N]);
        out
    }

    /// Sends a message of the handshake. The socket's buffer is empty, so all of it is taken at once or the
    /// connection is broken.
    pub fn say(&self, bytes: &[u8]) -> Result<(), String> {
        match send(&self.fd, bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
            Ok(n) if n == bytes.len() => Ok(()),
            Ok(_) => Err("it takes no data".into()),
            Err(e) => Err(io::Error::from(e).to_string()),
        }
    }
}

impl Tcp {
    /// Something happened to a connection that has not proved itself.
    pub(crate) fn caller_event(&mut self, queues: &mut Queues, name: u64, event: Event) {
        match self.callers.get(name) {
            Some(Caller {
                role: Role::Dials { .. },
                ..
            }) => self.dial_event(queues, name, event),
            Some(_) => self.answer_event(queues, name),
            // Told before it was closed.
            None => {}
        }
    }

    /// Closes such a connection.
    pub(crate) fn drop_caller(&mut self, name: u64) {
        if let Some(caller) = self.callers.remove(name) {
            self.reactor.remove(caller.fd.as_fd(), name);
        }
    }

    /// A connection is proved to lead to `peer`: it becomes the one.
    pub(crate) fn establish(&mut self, queues: &mut Queues, peer: u32, name: u64) {
        let Some(caller) = self.callers.remove(name) else {
            return;
        };
        // Where one finds room, others may.
        self.shortage = None;
        let dial = self.routes[peer as usize].dial.take();
        for attempt in dial.iter().flat_map(|d| &d.attempts) {
            self.drop_caller(*attempt);
        }
        let token = PEER | u64::from(peer);
        let watched = self.reactor.rename(caller.fd.as_fd(), name, token);
        let route = &mut self.routes[peer as usize];
        if let (Role::Dials { .. }, Some(address)) = (&caller.role, &route.address) {
            self.worked.insert(address.stack, caller.remote.ip());
        }
        route.stream = Some(Stream::new(caller.fd, caller.remote));
        self.note_readable(peer);
        if !self.protocol.links[peer as usize].is_idle() {
            self.protocol.mark_dirty(peer);
        }
        if let Err(e) = watched {
            self.lost(
                queues,
                peer,
                &format!("its connection can't be watched: {e}"),
            );
        }
    }
}
