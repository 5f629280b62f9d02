//! `yamabiko daemon`: the ranks of one host, for an mpiexec elsewhere.
//!
//! mpiexec, or the daemon above, starts it through the launcher command; its standard input and output
//! are the link. It starts the daemons below, relays what goes past, and does with its ranks what
//! mpiexec says. When the link ends, or nothing is heard over it, it kills everything and ends, and so
//! do the daemons below. It needs no configuration and listens on nothing.

use crate::branches::{self, Branches, Event, Reach};
use crate::channel::{self, Channel};
use crate::frame::{Address, DOWN_MAX, Decoder, Frame};
use crate::hang::is_stopped;
use crate::job::StartError;
use crate::node::{self, First, Node, Prepared};
use crate::os::child::FOR_THE_JOB;
use crate::os::signals::{self, Mask, Signals};
use crate::protocol::{Down, Note, Setup, Up, decode, encode};
use crate::watch::Watch;
use crate::{family, os};
use report::{Book, Record};
use rustix::event::PollFlags;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

/// Longest time from the end of the link to the end of the daemon.
const END_LIMIT: Duration = Duration::from_secs(4);
/// How often mpiexec gets what ranks have noted meanwhile; `hang` tells people.
const NOTES_INTERVAL: Duration = Duration::from_secs(2);

/// Where something happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token {
    Signals,
    Parent(channel::Token),
    Branch(branches::Token),
    Node(node::Token),
}

struct Daemon {
    parent: Channel,
    signals: Signals,
    mask: Mask,
    /// What mpiexec said first, and what came of it.
    host: Option<Hosted>,
    /// The link has ended or the job is over.
    over: bool,
}

/// A daemon that knows its job.
struct Hosted {
    number: u32,
    branches: Branches,
    prepared: Option<(Prepared, First)>,
    node: Option<Node>,
    book: Book,
    page: OwnedFd,
    ranks: Vec<u32>,
    /// What mpiexec knows of the ranks' notes.
    told: Vec<Option<Record>>,
    /// Their processes; 0 before they are started and when they have ended.
    pids: Vec<u32>,
    tell_at: Instant,
}

/// The daemon's whole life; its exit code.
pub fn run() -> u8 {
    match begin() {
        Ok(mut daemon) => {
            daemon.serve();
            daemon.end();
            0
        }
        Err(error) => {
            sys::say::line(&format!("yamabiko daemon: {}", error.text));
            1
        }
    }
}

fn begin() -> Result<Daemon, StartError> {
    let _ = rustix::thread::set_name(c"yamabiko-daemon");
    // Out of the way of what is typed at a terminal, if there is one.
    let _ = rustix::process::setpgid(None, None);
    // mpiexec ignores them for the launcher command's sake; the ranks shall not inherit that.
    signals::reset(FOR_THE_JOB, &[]);
    let ends = [libc::SIGTERM, libc::SIGHUP, libc::SIGCHLD];
    let held_back = [
        libc::SIGINT,
        libc::SIGQUIT,
        libc::SIGTSTP,
        libc::SIGTTIN,
        libc::SIGTTOU,
    ];
    let (signals, mask) = Signals::new(&[&ends[..], &held_back].concat(), &ends)
        .map_err(|e| node::system("receive signals", e))?;
    os::become_subreaper().map_err(|e| node::system("become a subreaper", e))?;
    let copy =
        |fd| rustix::io::fcntl_dupfd_cloexec(fd, 3).map_err(|e| node::system("keep a link", e));
    let (input, output) = (
        copy(rustix::stdio::stdin())?,
        copy(rustix::stdio::stdout())?,
    );
    // Whatever prints something must not do so into the link.
    let null = node::null()?;
    let _ = rustix::stdio::dup2_stdin(&null);
    let _ = rustix::stdio::dup2_stdout(&null);
    let decoder = Decoder::new(DOWN_MAX, false);
    let mut parent = Channel::new(input, output, decoder, encode(&Up::Alive), Instant::now());
    branches::greet(&mut parent);
    Ok(Daemon {
        parent,
        signals,
        mask,
        host: None,
        over: false,
    })
}

impl Daemon {
    fn serve(&mut self) {
        while !self.over {
            let now = Instant::now();
            self.pass(now);
            if self.over {
                return;
            }
            for token in self.wait() {
                self.handle(token, Instant::now());
            }
        }
    }

    /// Does what is due.
    fn pass(&mut self, now: Instant) {
        let looking = self.parent.has_room();
        if let Some(host) = &mut self.host {
            host.pass(now, looking, &mut self.parent);
        }
        self.parent.flush();
        if !self.parent.beat(now, true) {
            self.over = true;
        }
    }

    fn wait(&self) -> Vec<Token> {
        let mut watch = Watch::new();
        watch.add(self.signals.as_fd(), PollFlags::IN, Token::Signals);
        self.parent.interest(&mut watch, true, Token::Parent);
        let mut deadline = self.parent.deadline();
        if let Some(host) = &self.host {
            // What cannot be sent on is not taken: whoever sends it can wait.
            let room = self.parent.has_room();
            host.branches.interest(&mut watch, room, Token::Branch);
            if let Some(node) = &host.node {
                node.interest(&mut watch, room, Token::Node);
            }
            deadline = host.deadline().min(deadline);
        }
        watch.wait(Some(deadline))
    }

    fn handle(&mut self, token: Token, now: Instant) {
        match (token, &mut self.host) {
            (Token::Signals, _) => self.take_signals(now),
            (Token::Parent(channel::Token::In), _) => self.listen(now),
            (Token::Parent(channel::Token::Out), _) => self.parent.flush(),
            (Token::Branch(token), Some(host)) => host.branches.handle(token, now),
            (Token::Node(token), Some(host)) => {
                if let Some(node) = &mut host.node {
                    node.handle(token, now);
                }
            }
            _ => {}
        }
    }

    fn take_signals(&mut self, now: Instant) {
        while let Some(signal) = self.signals.next() {
            match signal {
                libc::SIGCHLD => {
                    self.reap();
                    if let Some(node) = self.host.as_mut().and_then(|h| h.node.as_mut()) {
                        node.look_at_keeper(now);
                    }
                }
                // Somebody wants this host back.
                _ => self.over = true,
            }
        }
    }

    /// Collects children that have ended. Whether there are others.
    fn reap(&mut self) -> bool {
        loop {
            match os::reap() {
                os::Reaped::Ended(pid, status) => {
                    if let Some(host) = &mut self.host {
                        host.reaped(pid, status);
                    }
                }
                os::Reaped::Nobody => return true,
                os::Reaped::NoChildren => return false,
            }
        }
    }

    /// Takes what comes from above.
    fn listen(&mut self, now: Instant) {
        let open = self.parent.fill(now);
        while !self.over {
            match self.parent.next_frame() {
                Ok(Some(frame)) => self.obey(frame, now),
                Ok(None) => break,
                Err(_) => self.over = true,
            }
        }
        self.over |= !open;
    }

    fn obey(&mut self, frame: Frame, now: Instant) {
        let for_me = match (frame.address, &mut self.host) {
            (Address::Hop, _) | (Address::Host(_), None) => true,
            (Address::Everyone, None) => true,
            (Address::Everyone, Some(host)) => {
                host.branches.send(frame.address, &frame.body);
                true
            }
            (Address::Host(number), Some(host)) => {
                if number != host.number {
                    host.branches.send(frame.address, &frame.body);
                }
                number == host.number
            }
        };
        if !for_me {
            return;
        }
        let Some(order) = decode::<Down>(&frame.body) else {
            self.over = true;
            return;
        };
        match (order, &mut self.host) {
            (Down::Alive, _) => {}
            (Down::Suspend, _) => self.parent.suspend(),
            (Down::Dismiss, _) => self.over = true,
            (Down::Setup(setup), None) => self.set_up(*setup, now),
            (Down::Go, Some(host)) => {
                if let Err(error) = host.go(&self.mask) {
                    host.tell(&Up::Refused(error.text, error.code), &mut self.parent);
                }
            }
            (order, Some(host)) => host.obey(&order, &mut self.parent),
            (_, None) => self.over = true,
        }
    }

    fn set_up(&mut self, setup: Setup, now: Instant) {
        let number = setup.host;
        signals::reset(FOR_THE_JOB, &setup.ignored);
        rustix::process::umask(rustix::fs::Mode::from_bits_truncate(setup.umask));
        let ready = match Hosted::new(setup, self.mask, now) {
            Ok(host) => {
                self.host = Some(host);
                Up::Ready
            }
            Err(error) => Up::Refused(error.text, error.code),
        };
        self.parent.send(Address::Host(number), &encode(&ready));
    }

    /// Kills what is left and lets the daemons below end.
    fn end(mut self) {
        let deadline = Instant::now() + END_LIMIT;
        if let Some(host) = &mut self.host {
            if let Some(node) = &mut host.node {
                node.end();
            }
            // What waits to be sent down may be the word that the job is over.
            host.branches.dismiss();
            host.branches.tick(Instant::now(), true);
            host.branches.close();
        }
        while self.reap() {
            let served = self.host.as_ref().is_none_or(Hosted::is_served);
            // Whatever is left then are strays: of ranks, or of launcher commands that were killed.
            if served || Instant::now() >= deadline {
                return family::exterminate(Duration::from_secs(1));
            }
            let mut watch = Watch::new();
            watch.add(self.signals.as_fd(), PollFlags::IN, ());
            watch.wait(Some(Instant::now() + Duration::from_millis(50)));
            while self.signals.next().is_some() {}
        }
    }
}

impl Hosted {
    fn new(setup: Setup, mask: Mask, now: Instant) -> Result<Hosted, StartError> {
        enter(&setup)?;
        let prepared = node::prepare(&setup.plan)?;
        let size = setup.plan.size as usize;
        let (page, book) =
            Book::create(size).map_err(|e| node::system("make the report page", e))?;
        let ranks: Vec<u32> = setup.plan.ranks.iter().map(|(rank, _)| *rank).collect();
        let first = match setup.plan.input {
            true => First::Messages,
            false => First::Nothing,
        };
        let reach = Reach {
            launcher: setup.launcher,
            mask,
        };
        let below = !setup.children.is_empty() && reach.launcher.is_empty();
        if below || setup.host >= setup.hosts {
            return Err(StartError {
                text: "the plan of the hosts makes no sense".into(),
                code: 1,
            });
        }
        Ok(Hosted {
            number: setup.host,
            branches: Branches::start(Some(setup.host), setup.hosts, &setup.children, &reach),
            prepared: Some((prepared, first)),
            node: None,
            book,
            page,
            told: vec![None; ranks.len()],
            pids: vec![0; ranks.len()],
            ranks,
            tell_at: now + NOTES_INTERVAL,
        })
    }

    fn reaped(&mut self, pid: i32, status: i32) {
        self.branches.reaped(pid, status);
        if let Some(node) = &mut self.node {
            node.reaped(pid);
        }
    }

    /// Whether keeper and launcher commands have ended.
    fn is_served(&self) -> bool {
        self.node.as_ref().is_none_or(Node::is_over) && self.branches.pids().is_empty()
    }

    /// Starts the ranks.
    fn go(&mut self, mask: &Mask) -> Result<(), StartError> {
        if let Some((prepared, first)) = self.prepared.take() {
            self.node = Some(node::start(prepared, &self.page, first, mask)?);
        }
        Ok(())
    }

    fn obey(&mut self, order: &Down, parent: &mut Channel) {
        match order {
            Down::Report => {
                self.tell_notes(parent);
                self.tell(&Up::Reported, parent);
            }
            Down::Gone(rank, left) => self.book.mark_gone(*rank as usize, *left),
            order => {
                if let Some(node) = &mut self.node {
                    node.obey(order);
                }
            }
        }
    }

    /// Does what is due, and tells what has happened.
    fn pass(&mut self, now: Instant, looking: bool, parent: &mut Channel) {
        self.branches.tick(now, looking);
        for event in self.branches.take_events() {
            match event {
                Event::News(host, body) => parent.send(Address::Host(host), &body),
                Event::Lost(host, why, said) => self.tell(&Up::Lost(host, why, said), parent),
            }
        }
        if let Some(node) = &mut self.node {
            node.tick(now);
        }
        while let Some(news) = self.node.as_mut().and_then(Node::next_news) {
            self.pass_on(news, parent);
        }
        if now >= self.tell_at {
            self.tell_at = now + NOTES_INTERVAL;
            self.tell_notes(parent);
        }
    }

    fn pass_on(&mut self, news: Up, parent: &mut Channel) {
        self.note_pid(&news);
        match &news {
            // What the rank noted explains what it says and how it ends.
            Up::Line(rank, _) | Up::Ended(rank, _) => self.tell_note(*rank, parent),
            Up::KeeperLost(_) => {
                family::exterminate_but(&self.branches.pids(), Duration::from_secs(2));
                self.tell_notes(parent);
            }
            _ => {}
        }
        self.tell(&news, parent);
    }

    fn note_pid(&mut self, news: &Up) {
        let (rank, pid) = match *news {
            Up::Started(rank, pid) => (rank, pid.unsigned_abs()),
            Up::Ended(rank, _) => (rank, 0),
            _ => return,
        };
        if let Ok(i) = self.ranks.binary_search(&rank) {
            self.pids[i] = pid;
        }
    }

    fn tell(&self, news: &Up, parent: &mut Channel) {
        parent.send(Address::Host(self.number), &encode(news));
    }

    fn tell_notes(&mut self, parent: &mut Channel) {
        for i in 0..self.ranks.len() {
            self.tell_note(self.ranks[i], parent);
        }
    }

    /// Tells what a rank has noted, if that is new.
    fn tell_note(&mut self, rank: u32, parent: &mut Channel) {
        let Ok(i) = self.ranks.binary_search(&rank) else {
            return;
        };
        let mut record = self.book.read(rank as usize);
        if let Some(record) = &mut record {
            // The program may be a child of what was started.
            let lives = self.pids[i] != 0;
            record.stopped = lives && [self.pids[i], record.pid].into_iter().any(is_stopped);
        }
        if record != self.told[i]
            && let Some(record) = &record
        {
            self.tell(&Up::Note(rank, Note::of(record)), parent);
        }
        self.told[i] = record;
    }

    fn deadline(&self) -> Instant {
        let now = Instant::now();
        if self.branches.has_events() || self.node.as_ref().is_some_and(Node::has_news) {
            return now;
        }
        let others = [
            self.branches.deadline(),
            self.node.as_ref().and_then(Node::deadline),
        ];
        others
            .into_iter()
            .flatten()
            .fold(self.tell_at, Instant::min)
    }
}

/// Goes to mpiexec's working directory. It may be missing here if every program has one of its own.
fn enter(setup: &Setup) -> Result<(), StartError> {
    let Err(error) = std::env::set_current_dir(&setup.directory) else {
        return Ok(());
    };
    let programs = &setup.plan.programs;
    let relative = |program: &crate::protocol::Program| {
        program.directory.as_ref().is_none_or(|d| d.is_relative())
    };
    let mut used = setup
        .plan
        .ranks
        .iter()
        .filter_map(|(_, p)| programs.get(*p as usize));
    match used.any(relative) {
        false => Ok(()),
        true => Err(StartError {
            text: format!(
                "cannot enter the working directory {}: {} (-wdir names another)",
                setup.directory.display(),
                os::reason(error)
            ),
            code: 127,
        }),
    }
}
