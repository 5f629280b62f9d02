//! What the event loop polls, and what it does with each event.

use super::{Instant, Job};
use crate::message::{self, News, Received};
use crate::os::{self, child};
use crate::pmi::{Action, State};
use crate::verdict::Failure;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::FileType;
use rustix::io::Errno;
use std::os::fd::BorrowedFd;

/// Where something happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token {
    Keeper,
    Signals,
    Pmi(usize),
    /// A rank's standard output (0) or error (1).
    Output(usize, usize),
    /// mpiexec's own standard output (0) or error (1) takes bytes.
    Sink(usize),
    TerminalInput,
    TerminalOutput,
}

/// A pipe that polls writable takes this much without blocking.
const PIPE_CHUNK: usize = 4096;
/// Files and terminals take larger pieces.
const FILE_CHUNK: usize = 256 << 10;

impl Job {
    /// Waits until something happens or `deadline`.
    pub(super) fn poll(&self, deadline: Option<Instant>) -> Vec<Token> {
        let mut tokens = vec![Token::Signals];
        let mut fds = vec![PollFd::new(&self.signals, PollFlags::IN)];
        if !self.keeper.lost {
            tokens.push(Token::Keeper);
            fds.push(PollFd::new(&self.keeper.control, PollFlags::IN));
        }
        for (rank, member) in self.members.iter().enumerate() {
            if let Some((fd, flags)) = member.pmi_interest() {
                tokens.push(Token::Pmi(rank));
                fds.push(PollFd::from_borrowed_fd(fd, flags));
            }
            for which in 0..2 {
                if let Some(fd) = member
                    .output(which)
                    .filter(|_| self.sinks[which].has_room())
                {
                    tokens.push(Token::Output(rank, which));
                    fds.push(PollFd::from_borrowed_fd(fd, PollFlags::IN));
                }
            }
        }
        for which in 0..2 {
            if self.sinks_open[which] && !self.sinks[which].pending().is_empty() {
                tokens.push(Token::Sink(which));
                fds.push(PollFd::from_borrowed_fd(own_stream(which), PollFlags::OUT));
            }
        }
        if let Some(terminal) = &self.terminal {
            terminal.interest(&mut tokens, &mut fds);
        }
        let limit = deadline.map(|d| {
            let left = d.saturating_duration_since(Instant::now());
            Timespec {
                tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: i64::from(left.subsec_nanos()),
            }
        });
        // An interruption is no event; the loop comes back here.
        if poll(&mut fds, limit.as_ref()).is_err() {
            return Vec::new();
        }
        let ready = fds.iter().map(|fd| !fd.revents().is_empty());
        tokens
            .into_iter()
            .zip(ready)
            .filter(|(_, ready)| *ready)
            .map(|(token, _)| token)
            .collect()
    }

    pub(super) fn handle(&mut self, token: Token, now: Instant) {
        match token {
            Token::Signals => {
                while let Some(signal) = self.signals.next() {
                    self.signal(signal, now);
                }
            }
            Token::Keeper => self.news(now),
            Token::Pmi(rank) => self.converse(rank, now),
            Token::Output(rank, which) => self.read_output(rank, which, now),
            Token::Sink(which) => self.write_sink(which),
            Token::TerminalInput | Token::TerminalOutput => {
                if let Some(terminal) = &mut self.terminal
                    && !terminal.pump(token)
                {
                    self.terminal = None;
                }
            }
        }
    }

    /// Takes the keeper's messages.
    fn news(&mut self, now: Instant) {
        loop {
            match message::next_news(&self.keeper.control) {
                Received::Message(News::Started(rank, pid)) => {
                    if let Some(member) = self.members.get_mut(rank as usize) {
                        member.pid = pid;
                    }
                }
                Received::Message(News::Failed(rank, step, errno)) => {
                    self.not_started(rank as usize, step, errno, now);
                }
                Received::Message(News::Ended(rank, status)) => {
                    self.ended(rank as usize, status, now);
                }
                Received::Message(News::Alone) => self.keeper.family_lives = false,
                Received::Nothing => return,
                Received::Closed => {
                    self.keeper_lost(now);
                    return;
                }
            }
        }
    }

    fn not_started(&mut self, rank: usize, step: u32, errno: i32, now: Instant) {
        let Some(member) = self.members.get_mut(rank) else {
            return;
        };
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

    /// A rank's process ended.
    fn ended(&mut self, rank: usize, status: i32, now: Instant) {
        if rank >= self.members.len() {
            return;
        }
        // What it said before it ended comes first: an abort explains the exit code.
        self.converse(rank, now);
        self.members[rank].set_ended();
        if self.members[rank].pmi_interest().is_none() {
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
            self.verdict.note(rank, failure);
        } else {
            self.fail(rank, failure, now);
        }
    }

    /// Reads a rank's PMI requests and answers them.
    fn converse(&mut self, rank: usize, now: Instant) {
        self.members[rank].send_pending();
        loop {
            let line = match self.members[rank].next_line() {
                Ok(Some(line)) => line,
                Ok(None) => break,
                Err(what) => {
                    self.violation(rank, what, now);
                    break;
                }
            };
            for action in self.server.line(rank, &line) {
                match action {
                    Action::Reply(to, text) => {
                        if !self.members[to].reply(&text) {
                            self.violation(to, "requests without reading the answers".into(), now);
                        }
                    }
                    Action::Abort { code, message } => {
                        self.fail(rank, Failure::Abort(code, message), now);
                    }
                    Action::Violation(what) => self.violation(rank, what, now),
                }
            }
        }
        if self.members[rank].pmi_interest().is_none() && self.members[rank].has_ended() {
            self.server.gone(rank);
        }
    }

    fn violation(&mut self, rank: usize, what: String, now: Instant) {
        self.members[rank].close_pmi();
        self.fail(rank, Failure::Violation(what), now);
    }

    fn read_output(&mut self, rank: usize, which: usize, now: Instant) {
        self.members[rank].read_output(which, now, &mut self.sinks[which]);
        self.last_output = now;
    }

    pub(super) fn write_sink(&mut self, which: usize) {
        let fd = own_stream(which);
        let kind = rustix::fs::fstat(fd).map(|s| FileType::from_raw_mode(s.st_mode));
        let chunk = match kind {
            Ok(FileType::RegularFile | FileType::CharacterDevice) => FILE_CHUNK,
            _ => PIPE_CHUNK,
        };
        let pending = self.sinks[which].pending();
        match rustix::io::write(fd, &pending[..pending.len().min(chunk)]) {
            Ok(count) => {
                self.sinks[which].wrote(count);
                self.last_output = Instant::now();
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
    }

    /// Waits for a child's end, at most until `deadline`.
    pub(super) fn wait_for_child(&self, deadline: Instant) {
        let left = deadline.saturating_duration_since(Instant::now());
        let limit = Timespec {
            tv_sec: 0,
            tv_nsec: i64::from(left.subsec_nanos().clamp(1, 50_000_000)),
        };
        let _ = poll(
            &mut [PollFd::new(&self.signals, PollFlags::IN)],
            Some(&limit),
        );
        while self.signals.next().is_some() {}
    }
}

fn own_stream(which: usize) -> BorrowedFd<'static> {
    match which {
        0 => rustix::stdio::stdout(),
        _ => rustix::stdio::stderr(),
    }
}
