//! One job from its start to its exit code: the event loop of mpiexec.
//!
//! A single thread polls everything: the ranks' PMI sockets and output pipes, the keeper, signals,
//! the terminal. Decisions are made by pure parts (`Server`, `Course`, `Verdict`, the output's
//! `Sink`s); this module carries bytes and time to them and their orders back.

mod events;
mod member;
mod start;
mod stdin;
mod tell;

use crate::course::{Course, Sight, Step};
use crate::message::{self, Order};
use crate::options::Options;
use crate::os::signals::Signals;
use crate::output::Sink;
use crate::pmi::Server;
use crate::verdict::{Failure, Verdict};
use crate::{family, os};
use events::Token;
use member::Member;
use report::Book;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};
use stdin::Terminal;

/// A job could not be started: a sentence, and mpiexec's exit code.
pub struct StartError {
    /// What went wrong.
    pub text: String,
    /// mpiexec's exit code.
    pub code: i32,
}

/// Runs a job and returns mpiexec's exit code.
pub fn run(options: &Options) -> Result<i32, StartError> {
    let mut job = start::start(options)?;
    job.run();
    Ok(job.verdict.exit_code())
}

/// A running job.
struct Job {
    members: Vec<Member>,
    server: Server,
    book: Book,
    /// Keeps the page's file open, where `yamabiko report` finds it.
    _page: OwnedFd,
    keeper: Keeper,
    signals: Signals,
    terminal: Option<Terminal>,
    /// What goes to standard output and standard error.
    sinks: [Sink; 2],
    /// Whether somebody still reads them.
    sinks_open: [bool; 2],
    course: Course,
    verdict: Verdict,
    cleanup: bool,
    deadline: Option<Instant>,
    last_output: Instant,
    interrupts: u32,
    announced: bool,
}

struct Keeper {
    control: OwnedFd,
    /// Whether some descendant lives, as far as is known.
    family_lives: bool,
    lost: bool,
}

impl Job {
    fn run(&mut self) {
        while !self.advance(Instant::now()) {
            let events = self.poll(self.next_deadline());
            let now = Instant::now();
            for event in events {
                self.handle(event, now);
            }
        }
        self.announce();
        for member in &mut self.members {
            member.flush(&mut self.sinks);
        }
        self.drain_sinks();
        self.dismiss_keeper();
    }

    /// Does what is due at `now`. Whether the job is over.
    fn advance(&mut self, now: Instant) -> bool {
        if self.deadline.is_some_and(|d| now >= d) {
            self.deadline = None;
            self.time_out(now);
        }
        for member in &mut self.members {
            member.flush_late(now, &mut self.sinks);
        }
        if !self.course.has_failed()
            && self.cleanup
            && let Some((missing, waiter)) = self.server.stuck()
        {
            self.fail(missing, Failure::Absent(waiter), now);
        }
        let sight = self.sight(now);
        match self.course.step(now, &sight) {
            Step::Wait => {}
            Step::Terminate => {
                self.announce();
                message::order(&self.keeper.control, Order::SignalAll(libc::SIGTERM));
            }
            Step::Kill => {
                self.announce();
                message::order(&self.keeper.control, Order::SignalAll(libc::SIGKILL));
            }
            Step::Conclude => return true,
        }
        false
    }

    fn sight(&self, now: Instant) -> Sight {
        let full = self.sinks.iter().any(|s| !s.has_room());
        Sight {
            ranks_live: self.members.iter().any(|m| !m.has_ended()),
            family_lives: self.keeper.family_lives,
            pipes_open: self.members.iter().any(Member::has_output),
            // While nobody takes the output, more of it may wait in the pipes.
            last_output: if full { now } else { self.last_output },
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        let now = Instant::now();
        let streams = self.members.iter().filter_map(Member::deadline);
        let others = [
            self.deadline,
            self.course.deadline(&self.sight(now)),
            self.terminal.as_ref().and_then(|t| t.deadline(now)),
        ];
        streams.chain(others.into_iter().flatten()).min()
    }

    /// Notes a failure of `rank` and lets the job's end begin.
    fn fail(&mut self, rank: usize, failure: Failure, now: Instant) {
        if self.course.is_ending() {
            return;
        }
        self.verdict.note(rank, failure);
        if self.cleanup {
            self.course.failed(now);
        } else {
            self.announce();
        }
    }

    fn time_out(&mut self, now: Instant) {
        if self.members.iter().all(Member::has_ended) {
            return;
        }
        self.sinks[1].say("mpiexec: the time allowed by -timeout is over; the job is ended");
        self.tell_where_ranks_are();
        self.verdict.time_out();
        self.announced = true;
        self.course.failed(now);
    }

    /// A signal to mpiexec.
    fn signal(&mut self, signal: i32, now: Instant) {
        let ends = matches!(signal, libc::SIGINT | libc::SIGTERM | libc::SIGHUP);
        if ends && self.members.iter().all(Member::has_ended) {
            // Only output is left, and whoever reads it does not: nobody wants to wait for that.
            self.abandon_output();
        }
        let forward = |job: &Job| message::order(&job.keeper.control, Order::Signal(signal));
        match signal {
            libc::SIGINT => {
                self.interrupts += 1;
                if self.interrupts == 1 {
                    forward(self);
                } else {
                    self.course.kill(now);
                }
            }
            libc::SIGQUIT => self.tell_where_ranks_are(),
            libc::SIGTSTP => {
                forward(self);
                // What the shell waits for. SIGCONT is blocked and read when this process goes on.
                os::kill(std::process::id().cast_signed(), libc::SIGSTOP);
            }
            libc::SIGCHLD => {}
            _ => forward(self),
        }
    }

    /// The keeper is gone before its time (somebody killed it): the kernel has killed the ranks with
    /// it, and their descendants are now this process's.
    fn keeper_lost(&mut self, now: Instant) {
        if self.keeper.lost {
            return;
        }
        self.keeper.lost = true;
        self.keeper.family_lives = false;
        family::exterminate(Duration::from_secs(2));
        for rank in 0..self.members.len() {
            if !self.members[rank].has_ended() {
                self.fail(rank, Failure::Signal(libc::SIGKILL), now);
                self.members[rank].set_ended();
            }
        }
        self.sinks[1].say("mpiexec: its keeper process was killed, and the ranks with it");
        self.course.kill(now);
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
            for event in self.poll(None) {
                match event {
                    Token::Sink(which) => self.write_sink(which),
                    Token::Signals => {
                        while let Some(signal) = self.signals.next() {
                            if matches!(signal, libc::SIGINT | libc::SIGTERM | libc::SIGHUP) {
                                return;
                            }
                        }
                    }
                    _ => {}
                }
            }
        }
    }

    /// Lets the keeper end and waits for it.
    fn dismiss_keeper(&mut self) {
        let _ = rustix::net::shutdown(&self.keeper.control, rustix::net::Shutdown::Write);
        let deadline = Instant::now() + Duration::from_secs(2);
        loop {
            match os::reap() {
                os::Reaped::NoChildren => return,
                os::Reaped::Ended(..) => {}
                os::Reaped::Nobody if Instant::now() > deadline => {
                    family::exterminate(Duration::from_secs(1));
                    return;
                }
                os::Reaped::Nobody => self.wait_for_child(deadline),
            }
        }
    }
}
