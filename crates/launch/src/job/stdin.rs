//! mpiexec's standard input, on its way to rank 0 in messages.
//!
//! That is the way of a terminal, which a rank cannot read itself: it is in a process group of its own,
//! so the kernel would stop it. mpiexec reads for it, and only while it is in the foreground, so that a
//! job in the background neither stops (SIGTTIN) nor takes what is typed for the shell. It is also the
//! way of anything to a rank on another host. (A file or pipe is simply inherited by a rank 0 that
//! mpiexec starts itself, and needs none of this.)

use crate::watch::Watch;
use rustix::event::PollFlags;
use rustix::io::Errno;
use std::time::{Duration, Instant};

/// How often a job in the background looks whether it has come to the foreground.
const FOREGROUND_CHECK: Duration = Duration::from_millis(250);
/// Bytes that may be on their way: rank 0's pace decides.
const WINDOW: usize = 64 << 10;

/// Standard input being read.
pub(super) struct Input {
    on_the_way: usize,
    is_terminal: bool,
}

/// What reading gave.
pub(super) enum Read {
    Bytes(Vec<u8>),
    Nothing,
    End,
}

impl Input {
    pub(super) fn new() -> Input {
        Input {
            on_the_way: 0,
            is_terminal: rustix::termios::isatty(rustix::stdio::stdin()),
        }
    }

    /// Adds what to wait for.
    pub(super) fn interest<T>(&self, watch: &mut Watch<'_, T>, token: T) {
        if self.on_the_way < WINDOW && self.may_read() {
            watch.add(rustix::stdio::stdin(), PollFlags::IN, token);
        }
    }

    /// When to look again whether this is the foreground.
    pub(super) fn deadline(&self, now: Instant) -> Option<Instant> {
        let waits = self.on_the_way < WINDOW && !self.may_read();
        waits.then(|| now + FOREGROUND_CHECK)
    }

    fn may_read(&self) -> bool {
        !self.is_terminal || in_foreground()
    }

    pub(super) fn read(&mut self) -> Read {
        if !self.may_read() {
            return Read::Nothing;
        }
        let mut bytes = [0; 16 << 10];
        match rustix::io::read(rustix::stdio::stdin(), &mut bytes[..]) {
            Ok(0) => Read::End,
            Ok(count) => {
                self.on_the_way += count;
                Read::Bytes(bytes[..count].to_vec())
            }
            // EIO: put into the background between the check and the read.
            Err(Errno::INTR | Errno::AGAIN | Errno::IO) => Read::Nothing,
            Err(_) => Read::End,
        }
    }

    /// Rank 0 has taken so many bytes.
    pub(super) fn taken(&mut self, count: u32) {
        self.on_the_way = self.on_the_way.saturating_sub(count as usize);
    }
}

fn in_foreground() -> bool {
    rustix::termios::tcgetpgrp(rustix::stdio::stdin()) == Ok(rustix::process::getpgrp())
}
