//! The hosts of a job: talking to them, and losing them.

use super::{Job, Member, StartError};
use crate::branches::Event;
use crate::frame::Address;
use crate::node;
use crate::protocol::{Down, Up, WINDOW, decode, encode};
use crate::tree;
use crate::verdict::Failure;
use std::collections::HashSet;
use std::time::{Duration, Instant};

/// How long hosts may take to tell what their ranks do.
const ANSWER_LIMIT: Duration = Duration::from_secs(1);

/// A host as mpiexec sees it.
pub(super) struct Host {
    /// Its name, as the user wrote it.
    pub name: String,
    /// Its number in the tree; `None` for this machine.
    pub place: Option<u32>,
    /// Whether it can start its ranks.
    pub ready: bool,
    /// Whether processes of the job may live there.
    pub family_lives: bool,
    pub lost: bool,
    /// Bytes of output that came from it and for which it has not got new credit.
    pub owed: [u32; 2],
}

/// A question to other hosts: what do your ranks do?
pub(super) struct Asked {
    pub until: Instant,
    waiting: HashSet<usize>,
    /// The answer is part of the end after `-timeout`.
    ends: bool,
}

impl Job {
    /// Sends a message to a host.
    pub(super) fn send(&mut self, host: usize, message: &Down) {
        match self.hosts[host].place {
            Some(place) => self.branches.send(Address::Host(place), &encode(message)),
            None => {
                if let Some(node) = &mut self.node {
                    node.obey(message);
                }
            }
        }
    }

    /// Sends a message to all hosts.
    pub(super) fn broadcast(&mut self, message: &Down) {
        if let Some(node) = &mut self.node {
            node.obey(message);
        }
        self.branches.send(Address::Everyone, &encode(message));
    }

    /// Starts the ranks once every host can.
    pub(super) fn start_when_ready(&mut self) -> Result<(), StartError> {
        if self.started || self.course.has_failed() || !self.hosts.iter().all(|h| h.ready) {
            return Ok(());
        }
        self.started = true;
        if let Some((prepared, first)) = self.prepared.take() {
            let node = node::start(prepared, &self.page, first, &self.mask)?;
            self.node = Some(node);
        }
        self.branches.send(Address::Everyone, &encode(&Down::Go));
        Ok(())
    }

    /// Gives up before any rank was started.
    pub(super) fn abandon_start(&mut self, now: Instant) {
        self.announced = true;
        self.members.iter_mut().for_each(|member| {
            member.set_ended();
            (0..2).for_each(|which| member.close_output(which));
        });
        self.hosts.iter_mut().for_each(|h| h.family_lives = false);
        self.course.failed(now, true);
    }

    /// Takes what came from all hosts.
    pub(super) fn take_news(&mut self, now: Instant) {
        self.branches.tick(now, true);
        for event in self.branches.take_events() {
            match event {
                Event::News(place, body) => {
                    let host = self.far.get(place as usize).copied();
                    match (host, decode::<Up>(&body)) {
                        (Some(host), Some(news)) => self.take(host, news, now),
                        (Some(_), None) => {
                            self.lose(place, "what came from it was no message", &[], now);
                        }
                        (None, _) => {}
                    }
                }
                Event::Lost(place, why, said) => self.lose(place, &why, &said, now),
            }
        }
        let here = self.hosts.iter().position(|h| h.place.is_none());
        if let Some(node) = &mut self.node {
            node.tick(now);
        }
        while let (Some(here), Some(news)) = (here, self.node.as_mut().and_then(|n| n.next_news()))
        {
            self.take(here, news, now);
        }
    }

    /// Takes one message from `host`, which may only speak for its own ranks.
    fn take(&mut self, host: usize, news: Up, now: Instant) {
        if self.hosts[host].lost {
            return;
        }
        match news {
            Up::Ready => self.hosts[host].ready = true,
            Up::Refused(text, code) => {
                let text: String = text.chars().filter(|c| !c.is_control()).collect();
                let name = &self.hosts[host].name;
                self.sinks[1].say(&format!("mpiexec: host {name}: {text}"));
                self.verdict.refuse(code.clamp(1, 255));
                self.lose_ranks(host, now);
            }
            Up::Alone => self.hosts[host].family_lives = false,
            Up::KeeperLost(stopped) => self.keeper_lost(host, stopped, now),
            Up::InputTaken(count) => {
                if let Some(input) = &mut self.input {
                    input.taken(count);
                }
            }
            Up::InputClosed => self.close_input(),
            Up::Reported => {
                if let Some(asked) = &mut self.asked {
                    asked.waiting.remove(&host);
                }
            }
            Up::Lost(place, why, said) => {
                let above = self.hosts[host].place;
                if above.is_some_and(|above| tree::toward(Some(above), place).is_some()) {
                    self.lose(place, &why, &said, now);
                }
            }
            Up::Hello(_) | Up::Alive => {}
            about_a_rank => self.take_of_rank(host, about_a_rank, now),
        }
    }

    fn take_of_rank(&mut self, host: usize, news: Up, now: Instant) {
        let rank = match &news {
            Up::Started(rank, _) | Up::Failed(rank, ..) | Up::Ended(rank, _) => *rank,
            Up::Line(rank, _) | Up::PmiClosed(rank) | Up::Breach(rank, _) => *rank,
            Up::Output(rank, ..) | Up::OutputEnd(rank, _) | Up::Note(rank, _) => *rank,
            _ => return,
        };
        let rank = rank as usize;
        if self.members.get(rank).is_none_or(|m| m.host != host) {
            return;
        }
        match news {
            Up::Started(_, pid) => self.members[rank].pid = pid,
            Up::Failed(_, step, errno) => self.not_started(rank, step, errno, now),
            Up::Ended(_, status) => self.ended(rank, status, now),
            Up::Line(_, line) => {
                let before = self.server.state(rank);
                let actions = self.server.line(rank, &line);
                self.act(rank, actions, now);
                if self.server.state(rank) != before {
                    self.has_left(rank);
                }
            }
            Up::PmiClosed(_) => self.pmi_closed(rank),
            Up::Breach(_, breach) => self.breach(rank, breach, now),
            Up::Output(_, which, bytes) => self.output(rank, which, &bytes, now),
            Up::OutputEnd(_, which) => {
                let which = usize::from(which == 1);
                self.members[rank].end_output(which, &mut self.sinks[which]);
            }
            Up::Note(_, note) => self.book.store(rank, &note.record()),
            _ => {}
        }
    }

    /// Lets hosts send more where what they sent has found room.
    pub(super) fn give_credit(&mut self) {
        for host in 0..self.hosts.len() {
            for which in [0u8, 1] {
                let owed = self.hosts[host].owed[usize::from(which)];
                if owed >= WINDOW / 4 && self.sinks[usize::from(which)].has_room() {
                    self.hosts[host].owed[usize::from(which)] = 0;
                    self.send(host, &Down::Credit(which, owed));
                }
            }
        }
    }

    /// Notes that bytes of output came from a host, which may send no more than it got credit for.
    pub(super) fn owe(&mut self, host: usize, which: usize, bytes: usize, now: Instant) -> bool {
        let owed = &mut self.hosts[host].owed[which];
        *owed = owed.saturating_add(u32::try_from(bytes).unwrap_or(u32::MAX));
        let place = self.hosts[host].place;
        if self.hosts[host].owed[which] > WINDOW
            && let Some(place) = place
        {
            self.lose(place, "it sent more than it may", &[], now);
            return false;
        }
        true
    }

    /// A host, and all below it in the tree, are gone.
    fn lose(&mut self, place: u32, why: &str, said: &[u8], now: Instant) {
        let Some(first) = self.far.get(place as usize).copied() else {
            return;
        };
        if self.hosts[first].lost {
            return;
        }
        for line in String::from_utf8_lossy(said).lines() {
            let line: String = line.chars().filter(|c| !c.is_control()).collect();
            let name = &self.hosts[first].name;
            self.sinks[1].say(&format!("{name}: {line}"));
        }
        self.tell_loss(first, why);
        for at in 0..self.far.len() {
            let host = self.far[at];
            let below = u32::try_from(at).is_ok_and(|at| tree::is_within(place, at));
            if below && !self.hosts[host].lost {
                if host != first {
                    let above = &self.hosts[first].name;
                    let why = format!("it was reached by way of {above}");
                    self.tell_loss(host, &why);
                }
                self.lose_ranks(host, now);
            }
        }
    }

    fn lose_ranks(&mut self, host: usize, now: Instant) {
        self.hosts[host].lost = true;
        self.hosts[host].family_lives = false;
        if !self.started {
            self.verdict.refuse(1);
            return self.abandon_start(now);
        }
        for rank in 0..self.members.len() {
            if self.members[rank].host != host {
                continue;
            }
            for which in 0..2 {
                self.members[rank].end_output(which, &mut self.sinks[which]);
            }
            if !self.members[rank].has_ended() {
                self.members[rank].set_ended();
                self.fail(rank, Failure::HostLost, now);
            }
            self.pmi_closed(rank);
        }
        if let Some(asked) = &mut self.asked {
            asked.waiting.remove(&host);
        }
    }

    /// The keeper of a host is gone before its time (somebody killed it, or its parent did since it was
    /// `stopped`): the kernel has killed the ranks with it, and their descendants are now children of its parent.
    fn keeper_lost(&mut self, host: usize, stopped: Option<u32>, now: Instant) {
        self.hosts[host].family_lives = false;
        if self.hosts[host].place.is_none() {
            crate::family::exterminate_but(&self.branches.pids(), Duration::from_secs(2));
        }
        for rank in 0..self.members.len() {
            if self.members[rank].host == host && !self.members[rank].has_ended() {
                let failure = match stopped {
                    None => Failure::Signal(libc::SIGKILL),
                    Some(_) => Failure::HostLost,
                };
                self.fail(rank, failure, now);
                self.members[rank].set_ended();
            }
        }
        let place = self.on_host(host);
        let what = match stopped {
            None => "was killed, and the ranks with it".to_string(),
            Some(seconds) => format!(
                "has been stopped for {seconds} s (as kill -STOP does), so it was killed, and the ranks with it; \
                 to suspend a job, send TSTP to mpiexec"
            ),
        };
        self.sinks[1].say(&format!(
            "mpiexec: yamabiko-keeper{place}, the process that starts and watches the ranks, {what}"
        ));
        if self.cleanup {
            self.course.kill(now);
        }
    }

    /// Lets every host tell what its ranks do, and prints it when they have. `ends`: because the time
    /// allowed is over.
    pub(super) fn ask_where_ranks_are(&mut self, ends: bool, now: Instant) {
        let mut waiting = HashSet::new();
        if self.started {
            let far = self.far.iter().copied();
            waiting.extend(far.filter(|h| !self.hosts[*h].lost));
            self.broadcast(&Down::Report);
        }
        self.asked = Some(Asked {
            until: now + ANSWER_LIMIT,
            waiting,
            ends: ends || self.asked.as_ref().is_some_and(|a| a.ends),
        });
        self.look_for_answers(now);
    }

    /// Prints where ranks are, if everybody has told or is late.
    pub(super) fn look_for_answers(&mut self, now: Instant) {
        let complete = |a: &Asked| a.waiting.is_empty() || now >= a.until;
        if !self.asked.as_ref().is_some_and(complete) {
            return;
        }
        let ends = self.asked.take().is_some_and(|a| a.ends);
        if self.started {
            self.tell_where_ranks_are();
        } else {
            self.tell_which_hosts_are_ready();
        }
        if ends {
            self.announced = true;
            if self.started {
                self.course.failed(now, true);
            } else {
                self.abandon_start(now);
            }
        }
    }

    /// Ends the job, whose time is over, as `source` says.
    pub(super) fn time_out(&mut self, source: &str, now: Instant) {
        if self.members.iter().all(Member::has_ended) {
            return;
        }
        self.sinks[1].say(&format!(
            "mpiexec: the time allowed by {source} is over; the job is ended"
        ));
        self.verdict.time_out();
        self.ask_where_ranks_are(true, now);
    }
}
