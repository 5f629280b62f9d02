//! A terminal as the standard input of rank 0.
//!
//! A rank cannot read the terminal itself: it is in a process group of its own, so the kernel would
//! stop it. mpiexec reads for it, and only while it is in the foreground, so that a job in the
//! background neither stops (SIGTTIN) nor takes what is typed for the shell. (A file or pipe is
//! simply inherited by rank 0 and needs none of this.)

use super::events::Token;
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// How often a job in the background looks whether it has come to the foreground.
const FOREGROUND_CHECK: Duration = Duration::from_millis(250);

/// Bytes on their way from the terminal to rank 0.
pub(super) struct Terminal {
    pipe: OwnedFd,
    buffer: Vec<u8>,
}

impl Terminal {
    /// Passes the terminal on to `pipe`, which must not block.
    pub(super) fn new(pipe: OwnedFd) -> Terminal {
        Terminal {
            pipe,
            buffer: Vec::new(),
        }
    }

    /// Adds what to wait for. With bytes in hand nothing more is read: rank 0's pace decides.
    pub(super) fn interest<'a>(&'a self, tokens: &mut Vec<Token>, fds: &mut Vec<PollFd<'a>>) {
        if self.buffer.is_empty() {
            // Also without interest in it, the pipe tells when nobody reads any more.
            tokens.push(Token::TerminalOutput);
            fds.push(PollFd::new(&self.pipe, PollFlags::empty()));
            if in_foreground() {
                tokens.push(Token::TerminalInput);
                fds.push(PollFd::from_borrowed_fd(
                    rustix::stdio::stdin(),
                    PollFlags::IN,
                ));
            }
        } else {
            tokens.push(Token::TerminalOutput);
            fds.push(PollFd::new(&self.pipe, PollFlags::OUT));
        }
    }

    /// When to look again whether this is the foreground.
    pub(super) fn deadline(&self, now: Instant) -> Option<Instant> {
        (self.buffer.is_empty() && !in_foreground()).then(|| now + FOREGROUND_CHECK)
    }

    /// Moves bytes after an event. `false` at the end of input, or when rank 0 does not read any more.
    pub(super) fn pump(&mut self, token: Token) -> bool {
        if token == Token::TerminalInput {
            if !in_foreground() {
                return true;
            }
            let mut bytes = [0; 4096];
            match rustix::io::read(rustix::stdio::stdin(), &mut bytes[..]) {
                Ok(0) => return false,
                Ok(count) => self.buffer.extend_from_slice(&bytes[..count]),
                // EIO: put into the background between the check and the read.
                Err(Errno::INTR | Errno::AGAIN | Errno::IO) => return true,
                Err(_) => return false,
            }
        } else if self.buffer.is_empty() {
            return false; // the pipe reported an error: nobody reads it
        }
        while !self.buffer.is_empty() {
            match rustix::io::write(&self.pipe, &self.buffer) {
                Ok(count) => drop(self.buffer.drain(..count)),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return true,
                Err(_) => return false,
            }
        }
        true
    }
}

fn in_foreground() -> bool {
    rustix::termios::tcgetpgrp(rustix::stdio::stdin()) == Ok(rustix::process::getpgrp())
}
