//! The socket to the launcher: one request line, one answer line, at most one outstanding.

use crate::Error;
use crate::wire::{Line, LineBuffer};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// A connection to the launcher.
pub(crate) struct Link {
    socket: OwnedFd,
    received: LineBuffer,
}

impl Link {
    pub(crate) fn new(socket: OwnedFd) -> Link {
        Link {
            socket,
            received: LineBuffer::default(),
        }
    }

    /// Keeps the socket from programs that this process starts.
    pub(crate) fn close_on_exec(&self) {
        // Failing would need a closed descriptor, and that shows at the next request.
        let _ = rustix::io::fcntl_setfd(&self.socket, rustix::io::FdFlags::CLOEXEC);
    }

    /// Gives the descriptor back to whoever inherited it: used when it turned out to be somebody
    /// else's, which must stay open.
    pub(crate) fn release(self) {
        std::mem::forget(self.socket);
    }

    /// Sends `request` (without terminator) and returns the answer, which must be `expected`.
    /// Without `limit` it waits as long as the launcher lives.
    pub(crate) fn ask(
        &mut self,
        request: &str,
        expected: &str,
        limit: Option<Duration>,
    ) -> Result<Answer, Error> {
        let deadline = limit.map(|l| Instant::now() + l);
        self.send(request)?;
        let line = self.receive(request, deadline)?;
        let malformed = || Error::Malformed(format!("to \"{}\"", name(request)));
        let parsed = Line::parse(&line).ok_or_else(malformed)?;
        if parsed.command() != expected {
            return Err(malformed());
        }
        Ok(Answer(line))
    }

    /// Sends a request that has no answer.
    pub(crate) fn send(&mut self, request: &str) -> Result<(), Error> {
        let line = format!("{request}\n");
        let mut rest = line.as_bytes();
        while !rest.is_empty() {
            // NOSIGNAL: a launcher that died must not kill the application by SIGPIPE.
            match rustix::net::send(&self.socket, rest, SendFlags::NOSIGNAL) {
                Ok(sent) => rest = &rest[sent..],
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => self.wait(PollFlags::OUT, request, None)?,
                Err(e) => return Err(lost(request, e)),
            }
        }
        Ok(())
    }

    fn receive(&mut self, request: &str, deadline: Option<Instant>) -> Result<Vec<u8>, Error> {
        let mut bytes = [0u8; 2048];
        loop {
            let too_long = |_| Error::Malformed(format!("endless line to \"{}\"", name(request)));
            if let Some(line) = self.received.next_line().map_err(too_long)? {
                return Ok(line);
            }
            self.wait(PollFlags::IN, request, deadline)?;
            match rustix::net::recv(&self.socket, &mut bytes[..], RecvFlags::DONTWAIT) {
                Ok((_, 0)) => return Err(Error::Lost(format!("in \"{}\"", name(request)))),
                Ok((_, n)) => self.received.extend(&bytes[..n.min(2048)]),
                Err(Errno::INTR | Errno::AGAIN) => {}
                Err(e) => return Err(lost(request, e)),
            }
        }
    }

    fn wait(
        &self,
        flags: PollFlags,
        request: &str,
        deadline: Option<Instant>,
    ) -> Result<(), Error> {
        loop {
            let left = deadline.map(|d| d.saturating_duration_since(Instant::now()));
            let limit = left.map(|l| Timespec {
                tv_sec: i64::try_from(l.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: i64::from(l.subsec_nanos()),
            });
            match poll(&mut [PollFd::new(&self.socket, flags)], limit.as_ref()) {
                Ok(0) => return Err(Error::Late(format!("in \"{}\"", name(request)))),
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(e) => return Err(lost(request, e)),
            }
        }
    }
}

/// The line that answered a request; it parsed once and so it does again.
pub(crate) struct Answer(Vec<u8>);

impl Answer {
    /// A field's text.
    pub(crate) fn text(&self, field: &str) -> Option<&str> {
        Line::parse(&self.0)?.get(field)
    }

    /// A field's number.
    pub(crate) fn number(&self, field: &str) -> Option<i64> {
        Line::parse(&self.0)?.number(field)
    }

    /// Whether the request succeeded; an answer without `rc` is a success.
    pub(crate) fn succeeded(&self) -> bool {
        self.number("rc").unwrap_or(0) == 0
    }
}

fn name(request: &str) -> &str {
    request
        .split(' ')
        .next()
        .unwrap_or("")
        .trim_start_matches("cmd=")
}

fn lost(request: &str, error: Errno) -> Error {
    Error::Lost(format!("in \"{}\": {error}", name(request)))
}
