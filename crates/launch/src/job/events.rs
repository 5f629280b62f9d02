//! What the event loop polls, and what it does with each event.

use super::stdin::Read;
use super::{Instant, Job};
use crate::os::{self, child};
use crate::pmi::State;
use crate::protocol::{Breach, Down};
use crate::verdict::Failure;
use crate::watch::Watch;
use crate::{branches, node};
use rustix::event::PollFlags;
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Where something happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token {
    Signals,
    /// With mpiexec's own ranks.
    Node(node::Token),
    /// On a link to a daemon.
    Branch(branches::Token),
    /// mpiexec's own standard output (0) or error (1) takes bytes.
    Sink(usize),
    /// mpiexec's own standard input has bytes.
    Input,
}

/// A pipe that polls writable takes this much without blocking.
const PIPE_CHUNK: usize = 4096;
/// Files and terminals take larger pieces.
const FILE_CHUNK: usize = 256 << 10;

impl Job {
    /// Waits until something happens or `deadline`.
    pub(super) fn poll(&self, deadline: Option<Instant>) -> Vec<Token> {
        let mut watch = Watch::new();
        self.interest_in_own(&mut watch);
        if let Some(node) = &self.node {
            node.interest(&mut watch, true, Token::Node);
        }
        self.branches.interest(&mut watch, true, Token::Branch);
        if let Some(input) = self.input.as_ref().filter(|_| self.started) {
            input.interest(&mut watch, Token::Input);
        }
        watch.wait(deadline)
    }

    /// Adds mpiexec's own signals and streams to what is waited for.
    pub(super) fn interest_in_own<'a>(&'a self, watch: &mut Watch<'a, Token>) {
        watch.add(self.signals.as_fd(), PollFlags::IN, Token::Signals);
        for which in 0..2 {
            if self.sinks_open[which] && !self.sinks[which].pending().is_empty() {
                watch.add(self.own_stream(which), PollFlags::OUT, Token::Sink(which));
            }
        }
    }

    pub(super) fn handle(&mut self, token: Token, now: Instant) {
        match token {
            Token::Signals => {
                while let Some(signal) = self.signals.next() {
                    self.signal(signal, now);
                }
            }
            Token::Node(token) => {
                if let Some(node) = &mut self.node {
                    node.handle(token, now);
                }
            }
            Token::Branch(token) => self.branches.handle(token, now),
            Token::Sink(which) => self.write_sink(which),
            Token::Input => self.read_input(),
        }
    }

    pub(super) fn not_started(&mut self, rank: usize, step: u32, errno: i32, now: Instant) {
        let member = &mut self.members[rank];
        let what = match step {
            s if s == child::Step::Descriptors as u32 => "its descriptors".to_string(),
            s if s == child::Step::Directory as u32 => "its working directory".to_string(),
            s if s == child::Step::Binding as u32 => "its processor binding".to_string(),
            _ => member.program.clone(),
        };
        // A rank that was not even forked has no end of its own to wait for.
        if member.pid == 0 {
            member.set_ended();
        }
        self.fail(rank, Failure::NotStarted(what, errno), now);
    }

    /// A rank's process ended. What it said before has been taken already.
    pub(super) fn ended(&mut self, rank: usize, status: i32, now: Instant) {
        self.members[rank].set_ended();
        if !self.members[rank].pmi_open {
            self.server.gone(rank);
        }
        let failure = if libc::WIFSIGNALED(status) {
            Failure::Signal(libc::WTERMSIG(status))
        } else {
            match libc::WEXITSTATUS(status) {
                0 if self.server.state(rank) == State::Joined => Failure::Unfinalized,
                0 => return,
                code => Failure::Exit(code),
            }
        };
        if self.server.state(rank) == State::Finalized && !self.course.has_failed() {
            // It has kept its word to the others: they go on, only the exit code tells.
            let known = self.seen_from(rank, failure);
            self.verdict.note(rank, known);
        } else {
            self.fail(rank, failure, now);
        }
    }

    /// A rank may have finalised MPI. Usually all have come as far; but it may have given up one that it could not reach, and
    /// waits for nobody, while others still wait for it. Its process may live on for long.
    pub(super) fn has_left(&mut self, rank: usize) {
        if !self.cleanup && self.server.state(rank) == State::Finalized {
            self.tell_gone(rank, true);
        }
    }

    pub(super) fn pmi_closed(&mut self, rank: usize) {
        self.members[rank].pmi_open = false;
        if self.members[rank].has_ended() {
            self.server.gone(rank);
        }
    }

    pub(super) fn breach(&mut self, rank: usize, breach: Breach, now: Instant) {
        let what = match breach {
            Breach::EndlessLine => "an endless line",
            Breach::UnreadAnswers => "requests without reading the answers",
        };
        self.violation(rank, what.into(), now);
    }

    pub(super) fn violation(&mut self, rank: usize, what: String, now: Instant) {
        let number = u32::try_from(rank).unwrap_or(u32::MAX);
        self.send(self.members[rank].host, &Down::ClosePmi(number));
        self.pmi_closed(rank);
        self.fail(rank, Failure::Violation(what), now);
    }

    /// Bytes of a rank's output.
    pub(super) fn output(&mut self, rank: usize, which: u8, bytes: &[u8], now: Instant) {
        let which = usize::from(which == 1);
        if self.owe(self.members[rank].host, which, bytes.len(), now) {
            self.members[rank].feed(which, bytes, now, &mut self.sinks[which]);
        }
    }

    /// Passes standard input on to rank 0.
    fn read_input(&mut self) {
        let Some(input) = &mut self.input else { return };
        let host = self.members[0].host;
        match input.read() {
            Read::Bytes(bytes) => self.send(host, &Down::Input(bytes)),
            Read::Nothing => {}
            Read::End => {
                self.input = None;
                self.send(host, &Down::InputEnd);
            }
        }
    }

    /// Rank 0 reads no more: whoever writes to mpiexec's standard input shall notice.
    pub(super) fn close_input(&mut self) {
        if self.input.take().is_some()
            && let Ok(null) = node::null()
        {
            let _ = rustix::stdio::dup2_stdin(null);
        }
    }

    pub(super) fn write_sink(&mut self, which: usize) {
        let fd = self.own_stream(which);
        let kind = rustix::fs::fstat(fd).map(|s| FileType::from_raw_mode(s.st_mode));
        let chunk = match kind {
            Ok(FileType::RegularFile | FileType::CharacterDevice) => FILE_CHUNK,
            _ => PIPE_CHUNK,
        };
        match rustix::io::write(fd, self.sinks[which].piece(chunk)) {
            Ok(count) => {
                let had_room = self.sinks[which].has_room();
                self.sinks[which].wrote(count);
                if !had_room && self.sinks[which].has_room() {
                    let now = Instant::now();
                    self.members.iter_mut().for_each(|m| m.restart(which, now));
                }
            }
            Err(Errno::INTR | Errno::AGAIN) => {}
            // Nobody reads any more. The ranks shall notice as they would without a launcher: by
            // SIGPIPE at their next write.
            Err(Errno::PIPE) => self.close_sink(which),
            Err(error) => {
                self.close_sink(which);
                self.verdict.lose_output();
                if which == 0 {
                    let why = os::reason(error);
                    self.sinks[1].say(&format!("mpiexec: cannot write standard output: {why}"));
                }
            }
        }
    }

    /// Writes nothing more to one of mpiexec's own streams and reads nothing more for it.
    pub(super) fn close_sink(&mut self, which: usize) {
        self.sinks_open[which] = false;
        let length = self.sinks[which].pending().len();
        self.sinks[which].wrote(length);
        self.members.iter_mut().for_each(|m| m.close_output(which));
        self.broadcast(&Down::CloseOutput(u8::from(which == 1)));
    }

    fn own_stream(&self, which: usize) -> BorrowedFd<'_> {
        match (&self.terminals[which], which) {
            (Some(terminal), _) => terminal.as_fd(),
            (None, 0) => rustix::stdio::stdout(),
            (None, _) => rustix::stdio::stderr(),
        }
    }
}

/// mpiexec's own standard output (0) or error (1) once more, if it is a terminal: opened such that
/// writing does not block. A person may stop a terminal's output for long (control-S), and meanwhile
/// other hosts must not take mpiexec for dead. Changing the terminal's first opening would change it for
/// the shell, too.
pub(super) fn terminal(which: usize) -> Option<OwnedFd> {
    let is_terminal = match which {
        0 => rustix::termios::isatty(rustix::stdio::stdout()),
        _ => rustix::termios::isatty(rustix::stdio::stderr()),
    };
    if !is_terminal {
        return None;
    }
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let path = format!("/proc/self/fd/{}", which + 1);
    // Somebody else's terminal (after su) may not be opened; then what is there has to do.
    rustix::fs::open(path, flags, Mode::empty()).ok()
}
