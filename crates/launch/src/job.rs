//! One job from its start to its exit code: the event loop of mpiexec.
//!
//! A single thread polls everything: its own ranks (`Node`), the links to daemons (`Branches`), signals,
//! standard input and output. What comes from a host, this one or another, is a [`Up`] message, what
//! goes there a [`Down`] message. Decisions are made by pure parts (`Server`, `Course`, `Verdict`, the
//! output's `Sink`s); this module carries bytes and time to them and their orders back.

mod events;
mod hosts;
mod member;
mod signals;
mod start;
mod stdin;
mod tell;

use crate::branches::Branches;
use crate::course::{Course, Sight, Step};
use crate::node::{First, Node, Prepared};
use crate::options::Options;
use crate::os::signals::{Mask, Signals};
use crate::output::Sink;
use crate::pmi::{Action, Server};
use crate::protocol::Down;
use crate::verdict::{Failure, Verdict};
use crate::watch::Watch;
use crate::{family, os};
use events::Token;
use hosts::{Asked, Host};
use member::Member;
use report::Book;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};
use stdin::Input;

/// How long the processes that serve a job may take to end after it.
const END_LIMIT: Duration = Duration::from_secs(2);
/// The same for daemons on other hosts.
const FAR_END_LIMIT: Duration = Duration::from_secs(5);

/// A job could not be started: a sentence, and mpiexec's exit code.
#[derive(Debug)]
pub struct StartError {
    /// What went wrong.
    pub text: String,
    /// mpiexec's exit code.
    pub code: i32,
}

/// Runs a job and returns mpiexec's exit code.
pub fn run(options: &Options) -> Result<i32, StartError> {
    let mut job = start::start(options)?;
    job.run()?;
    Ok(job.verdict.exit_code())
}

/// A running job.
struct Job {
    members: Vec<Member>,
    hosts: Vec<Host>,
    /// The numbers of the hosts that have daemons, in the order of the tree.
    far: Vec<usize>,
    server: Server,
    book: Book,
    /// Keeps the page's file open, where `yamabiko report` finds it.
    page: OwnedFd,
    /// mpiexec's own ranks, before and after their start.
    prepared: Option<(Prepared, First)>,
    node: Option<Node>,
    branches: Branches,
    /// Whether the ranks have been told to start.
    started: bool,
    signals: Signals,
    mask: Mask,
    input: Option<Input>,
    /// Standard output and error, if they are terminals, once more.
    terminals: [Option<OwnedFd>; 2],
    /// What goes to standard output and standard error.
    sinks: [Sink; 2],
    /// Whether somebody still reads them.
    sinks_open: [bool; 2],
    course: Course,
    verdict: Verdict,
    /// Whether a failure ends all ranks, or only who fails.
    cleanup: bool,
    /// When the time allowed is over, and what says so.
    deadline: Option<(Instant, &'static str)>,
    /// When to tell which hosts keep the job waiting.
    remind_at: Option<Instant>,
    /// Hosts that were asked what their ranks do.
    asked: Option<Asked>,
    /// Signals that mpiexec got and passed to the ranks, each with the time of the first.
    passed_on: Vec<(i32, Instant)>,
    announced: bool,
    /// Whether a signal to mpiexec that ends the job has been told.
    signal_told: bool,
}

impl Job {
    fn run(&mut self) -> Result<(), StartError> {
        while !self.advance(Instant::now())? {
            let deadline = self.next_deadline();
            let events = self.poll(deadline);
            let now = Instant::now();
            for event in events {
                self.handle(event, now);
            }
            self.take_news(now);
            // After a look at the pipes: what had come already is there.
            for member in &mut self.members {
                member.flush_late(now, &mut self.sinks);
            }
        }
        self.announce();
        for member in &mut self.members {
            member.flush(&mut self.sinks);
        }
        self.dismiss();
        self.drain_sinks();
        Ok(())
    }

    /// Does what is due at `now`. Whether the job is over.
    fn advance(&mut self, now: Instant) -> Result<bool, StartError> {
        self.start_when_ready()?;
        if let Some((_, source)) = self.deadline.take_if(|(at, _)| now >= *at) {
            self.time_out(source, now);
        }
        if self.remind_at.is_some_and(|at| now >= at) {
            self.remind_at = None;
            self.tell_who_is_late();
        }
        self.look_for_answers(now);
        if !(self.cleanup && self.course.has_failed())
            && let Some((missing, waiter)) = self.server.stuck()
        {
            self.fail(missing, Failure::Absent(waiter), now);
        }
        let sight = self.sight();
        match self.course.step(now, &sight) {
            Step::Wait => {}
            Step::Terminate => {
                self.announce();
                self.broadcast(&Down::SignalAll(libc::SIGTERM));
            }
            Step::Kill => {
                self.announce();
                self.broadcast(&Down::SignalAll(libc::SIGKILL));
            }
            Step::LosePatience => {
                self.lose_patience();
                self.broadcast(&Down::SignalAll(libc::SIGKILL));
            }
            Step::Conclude => return Ok(true),
        }
        self.give_credit();
        Ok(false)
    }

    fn sight(&self) -> Sight {
        Sight {
            ranks_live: self.members.iter().any(|m| !m.has_ended()),
            family_lives: self.hosts.iter().any(|h| h.family_lives),
            pipes_open: self.members.iter().any(Member::has_output),
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        let now = Instant::now();
        if self.branches.has_events() || self.node.as_ref().is_some_and(Node::has_news) {
            return Some(now);
        }
        let unfinished = |m: &Member| m.deadline(&self.sinks);
        let streams = self.members.iter().filter_map(unfinished);
        let others = [
            self.deadline.map(|(at, _)| at),
            self.remind_at,
            self.course.deadline(&self.sight()),
            self.input.as_ref().and_then(|i| i.deadline(now)),
            self.node.as_ref().and_then(Node::deadline),
            self.branches.deadline(),
            self.asked.as_ref().map(|a| a.until),
        ];
        streams.chain(others.into_iter().flatten()).min()
    }

    /// Notes a failure of `rank` and lets the job's end begin, or lets the others go on without it.
    fn fail(&mut self, rank: usize, failure: Failure, now: Instant) {
        if self.course.is_ending() {
            return;
        }
        let known = self.seen_from(rank, failure.clone());
        let is_cause = !matches!(known, Failure::Answer(_));
        // How a rank ends that has failed already is no news.
        if !self.verdict.note(rank, known) {
            return;
        }
        // Who aborts means all, also where the others were to go on without a rank that fails.
        self.cleanup |= matches!(failure, Failure::Abort(..));
        if self.cleanup {
            self.course.failed(now, is_cause);
        } else {
            match failure {
                Failure::Signal(signal) if self.was_passed_on(signal) => self.tell_signal(signal),
                _ => self.tell_failure(rank, &failure),
            }
            self.announced = true;
            self.tell_gone(rank, false);
            let actions = self.server.excuse(rank);
            self.act(rank, actions, now);
        }
    }

    /// What a failure of `rank` is, given what that rank knew of others.
    fn seen_from(&self, rank: usize, failure: Failure) -> Failure {
        match self.book.read(rank) {
            Some(record) if record.bereft => failure.into_answer(),
            _ => failure,
        }
    }

    /// Tells all ranks that `rank` will do nothing more, and whether it has kept its word to them (`finalized`).
    fn tell_gone(&mut self, rank: usize, finalized: bool) {
        self.book.mark_gone(rank, finalized);
        let number = u32::try_from(rank).unwrap_or(u32::MAX);
        self.broadcast(&Down::Gone(number, finalized));
    }

    /// Does what the PMI server makes of a line of `rank`.
    fn act(&mut self, rank: usize, actions: Vec<Action>, now: Instant) {
        for action in actions {
            match action {
                Action::Reply(to, text) => {
                    let rank = u32::try_from(to).unwrap_or(u32::MAX);
                    self.send(self.members[to].host, &Down::Reply(rank, text));
                }
                Action::Abort { code, message } => {
                    self.fail(rank, Failure::Abort(code, message), now);
                }
                Action::Violation(what) => self.violation(rank, what, now),
            }
        }
    }

    /// Collects children that have ended. Whether there are others.
    fn reap(&mut self) -> bool {
        loop {
            match os::reap() {
                os::Reaped::Ended(pid, status) => {
                    self.branches.reaped(pid, status);
                    if let Some(node) = &mut self.node {
                        node.reaped(pid);
                    }
                }
                os::Reaped::Nobody => return true,
                os::Reaped::NoChildren => return false,
            }
        }
    }

    /// Gives up what has not been written yet.
    fn abandon_output(&mut self) {
        for which in 0..2 {
            self.close_sink(which);
        }
    }

    /// Writes out what is left. A person who interrupts again does not want to wait for it.
    fn drain_sinks(&mut self) {
        while (0..2).any(|i| self.sinks_open[i] && !self.sinks[i].pending().is_empty()) {
            let mut watch = Watch::new();
            self.interest_in_own(&mut watch);
            for event in watch.wait(None) {
                match event {
                    Token::Sink(which) => self.write_sink(which),
                    Token::Signals => {
                        while let Some(signal) = self.signals.next() {
                            if signals::ends(signal) {
                                self.verdict.killed_for(signal);
                                return;
                            }
                        }
                    }
                    _ => {}
                }
            }
        }
    }

    /// Lets keeper and daemons end, and waits for them.
    fn dismiss(&mut self) {
        self.broadcast(&Down::Dismiss);
        self.branches.dismiss();
        if let Some(node) = &mut self.node {
            node.end();
        }
        let limit = match self.branches.any_open() {
            true => FAR_END_LIMIT,
            false => END_LIMIT,
        };
        let deadline = Instant::now() + limit;
        while self.reap() {
            let now = Instant::now();
            let served = self.node.as_ref().is_none_or(Node::is_over);
            // Whatever is left then are strays: of ranks, or of launcher commands that were killed.
            if now >= deadline || served && self.branches.pids().is_empty() {
                self.branches.close();
                family::exterminate(Duration::from_secs(1));
                return;
            }
            self.branches.tick(now, true);
            let mut watch = Watch::new();
            self.interest_in_own(&mut watch);
            self.branches.interest(&mut watch, true, Token::Branch);
            let soon = now + Duration::from_millis(50);
            for event in watch.wait(Some(soon.min(deadline))) {
                match event {
                    Token::Signals => while self.signals.next().is_some() {},
                    Token::Branch(token) => self.branches.handle(token, now),
                    Token::Sink(which) => self.write_sink(which),
                    _ => {}
                }
            }
        }
    }
}
