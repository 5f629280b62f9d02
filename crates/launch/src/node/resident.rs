//! One rank on its host: its PMI socket and its two output pipes.

use crate::protocol::Breach;
use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use wireup::wire::LineBuffer;

/// A rank that leaves this much of the answers unread does not keep to the protocol.
const UNREAD_MAX: usize = 64 << 10;
/// Longest piece of output.
const PIECE_MAX: usize = 64 << 10;

/// A rank of this host.
pub(super) struct Resident {
    /// Its number in the job.
    pub rank: u32,
    pmi: Option<OwnedFd>,
    requests: LineBuffer,
    replies: Vec<u8>,
    outputs: [Option<OwnedFd>; 2],
}

/// What reading output gave.
pub(super) enum Piece {
    Bytes(Vec<u8>),
    Nothing,
    End,
}

impl Resident {
    pub(super) fn new(rank: u32, pmi: OwnedFd, outputs: [OwnedFd; 2]) -> Resident {
        Resident {
            rank,
            pmi: Some(pmi),
            requests: LineBuffer::default(),
            replies: Vec::new(),
            outputs: outputs.map(Some),
        }
    }

    /// The PMI socket and what to wait for on it; `None` once it is closed.
    pub(super) fn pmi_interest(&self, room: bool) -> Option<(BorrowedFd<'_>, PollFlags)> {
        let mut flags = PollFlags::empty();
        flags.set(PollFlags::IN, room);
        flags.set(PollFlags::OUT, !self.replies.is_empty());
        let fd = self.pmi.as_ref().map(AsFd::as_fd);
        fd.filter(|_| !flags.is_empty()).map(|fd| (fd, flags))
    }

    pub(super) fn has_pmi(&self) -> bool {
        self.pmi.is_some()
    }

    pub(super) fn close_pmi(&mut self) {
        self.pmi = None;
    }

    /// The next request, if one is complete. `Err` says how the protocol is broken.
    pub(super) fn next_line(&mut self) -> Result<Option<Vec<u8>>, Breach> {
        let mut bytes = [0; 4096];
        loop {
            match self.requests.next_line() {
                Ok(Some(line)) => return Ok(Some(line)),
                Ok(None) => {}
                Err(_) => return Err(Breach::EndlessLine),
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
        self.outputs.get(which)?.as_ref().map(AsFd::as_fd)
    }

    pub(super) fn close_output(&mut self, which: usize) {
        if let Some(output) = self.outputs.get_mut(which) {
            *output = None;
        }
    }

    /// Reads at most `credit` bytes of what has come.
    pub(super) fn read_output(&mut self, which: usize, credit: u32) -> Piece {
        let Some(pipe) = self.output(which) else {
            return Piece::Nothing;
        };
        let mut bytes = [0; PIECE_MAX];
        let most = PIECE_MAX.min(credit as usize);
        if most == 0 {
            return Piece::Nothing;
        }
        match rustix::io::read(pipe, &mut bytes[..most]) {
            Ok(0) => Piece::End,
            Ok(count) => Piece::Bytes(bytes[..count].to_vec()),
            Err(Errno::AGAIN | Errno::INTR) => Piece::Nothing,
            Err(_) => Piece::End,
        }
    }
}
