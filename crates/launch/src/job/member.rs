//! One rank as mpiexec sees it: its PMI socket and its two output pipes.

use crate::output::{Sink, Stream};
use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Instant;
use wireup::wire::LineBuffer;

/// A rank that leaves this much of the answers unread does not keep to the protocol.
const UNREAD_MAX: usize = 64 << 10;

/// A rank of the job.
pub(super) struct Member {
    /// Its process, 0 before it is started.
    pub pid: i32,
    /// Its program, for messages.
    pub program: String,
    pmi: Option<OwnedFd>,
    requests: LineBuffer,
    replies: Vec<u8>,
    outputs: [(Option<OwnedFd>, Stream); 2],
    ended: bool,
}

impl Member {
    pub(super) fn new(rank: usize, program: String, pmi: OwnedFd, outputs: [OwnedFd; 2]) -> Member {
        Member {
            pid: 0,
            program,
            pmi: Some(pmi),
            requests: LineBuffer::default(),
            replies: Vec::new(),
            outputs: outputs.map(|fd| (Some(fd), Stream::new(rank))),
            ended: false,
        }
    }

    /// Whether its process has ended.
    pub(super) fn has_ended(&self) -> bool {
        self.ended
    }

    pub(super) fn set_ended(&mut self) {
        self.ended = true;
    }

    /// The PMI socket and what to wait for on it; `None` once it is closed.
    pub(super) fn pmi_interest(&self) -> Option<(BorrowedFd<'_>, PollFlags)> {
        let out = if self.replies.is_empty() {
            PollFlags::empty()
        } else {
            PollFlags::OUT
        };
        self.pmi
            .as_ref()
            .map(|fd| (fd.as_fd(), PollFlags::IN | out))
    }

    pub(super) fn close_pmi(&mut self) {
        self.pmi = None;
    }

    /// The next request, if one is complete. `Err` says how the protocol is broken.
    pub(super) fn next_line(&mut self) -> Result<Option<Vec<u8>>, String> {
        let mut bytes = [0; 4096];
        loop {
            match self.requests.next_line() {
                Ok(Some(line)) => return Ok(Some(line)),
                Ok(None) => {}
                Err(_) => return Err("an endless line".into()),
            }
            let Some(socket) = &self.pmi else {
                return Ok(None);
            };
            match rustix::net::recv(socket, &mut bytes[..], RecvFlags::DONTWAIT) {
                Ok((_, 0)) => self.pmi = None,
                Ok((_, count)) => self.requests.extend(&bytes[..count.min(bytes.len())]),
                Err(Errno::AGAIN) => return Ok(None),
                Err(Errno::INTR) => {}
                Err(_) => self.pmi = None,
            }
        }
    }

    /// Sends an answer, or keeps what does not fit. `false` if too much is kept already.
    pub(super) fn reply(&mut self, text: &str) -> bool {
        self.replies.extend_from_slice(text.as_bytes());
        self.send_pending();
        self.replies.len() <= UNREAD_MAX
    }

    /// Sends kept answers.
    pub(super) fn send_pending(&mut self) {
        let Some(socket) = &self.pmi else {
            self.replies.clear();
            return;
        };
        while !self.replies.is_empty() {
            match rustix::net::send(
                socket,
                &self.replies,
                SendFlags::DONTWAIT | SendFlags::NOSIGNAL,
            ) {
                Ok(count) => drop(self.replies.drain(..count)),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                // It is gone; the end of its socket is read next.
                Err(_) => self.replies.clear(),
            }
        }
    }

    /// The pipe of its standard output (0) or error (1), while it is open.
    pub(super) fn output(&self, which: usize) -> Option<BorrowedFd<'_>> {
        self.outputs[which].0.as_ref().map(AsFd::as_fd)
    }

    /// Whether more output may come.
    pub(super) fn has_output(&self) -> bool {
        self.outputs.iter().any(|(fd, _)| fd.is_some())
    }

    pub(super) fn close_output(&mut self, which: usize) {
        self.outputs[which].0 = None;
    }

    /// Reads what has come and passes it on.
    pub(super) fn read_output(&mut self, which: usize, now: Instant, sink: &mut Sink) {
        let (fd, stream) = &mut self.outputs[which];
        let Some(pipe) = fd else { return };
        let mut bytes = [0; 64 << 10];
        match rustix::io::read(pipe, &mut bytes[..]) {
            Ok(0) => {
                *fd = None;
                stream.flush(sink);
            }
            Ok(count) => stream.feed(&bytes[..count], now, sink),
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_) => *fd = None,
        }
    }

    /// When an unfinished line is to be passed on.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.outputs
            .iter()
            .filter_map(|(_, stream)| stream.deadline())
            .min()
    }

    /// Passes on unfinished lines whose time is over.
    pub(super) fn flush_late(&mut self, now: Instant, sinks: &mut [Sink; 2]) {
        for ((_, stream), sink) in self.outputs.iter_mut().zip(sinks) {
            if stream.deadline().is_some_and(|d| now >= d) {
                stream.flush(sink);
            }
        }
    }

    /// Passes on all unfinished lines: nothing more will come.
    pub(super) fn flush(&mut self, sinks: &mut [Sink; 2]) {
        for ((_, stream), sink) in self.outputs.iter_mut().zip(sinks) {
            stream.flush(sink);
        }
    }
}
