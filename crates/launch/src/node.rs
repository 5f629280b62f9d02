//! The ranks of one host, as the process that started them has them: mpiexec its own, a daemon those
//! of its host. Both do with them what [`Down`] says and tell what happens as [`Up`].
//!
//! A node owns the keeper, the ranks' PMI sockets and output pipes, and rank 0's standard input where
//! that comes in messages. It decides nothing: it moves bytes, and holds back output for which nobody
//! has room (a window for each stream, refilled by [`Down::Credit`]).

mod resident;
mod start;
mod stop;

pub use start::{First, Prepared, allow_descriptors, null, prepare, start, system};

use crate::message::{self, News, Order, Received};
use crate::os;
use crate::protocol::{Breach, Down, Up};
use crate::watch::{Watch, is_writable};
use resident::{Piece, Resident};
use rustix::event::PollFlags;
use std::collections::{HashMap, VecDeque};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};
use stop::Stop;

/// Output that stays away this long after the last process's end will not come: somebody outside the
/// job holds the pipe.
const QUIET: Duration = Duration::from_millis(300);
/// Bytes that a pipe takes without blocking when poll calls it writable.
const PIPE_CHUNK: usize = 4096;

/// Where something happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Token {
    /// The keeper has news.
    Keeper,
    /// A resident's PMI socket.
    Pmi(usize),
    /// A resident's standard output (0) or error (1).
    Output(usize, usize),
    /// Rank 0's standard input.
    Input,
}

/// The ranks of a host.
pub struct Node {
    residents: Vec<Resident>,
    by_rank: HashMap<u32, usize>,
    control: OwnedFd,
    /// The keeper's process; 0 once it has been collected.
    keeper: i32,
    /// Whether some descendant lives, as far as is known.
    family_lives: bool,
    keeper_lost: bool,
    /// The keeper is stopped.
    stop: Option<Stop>,
    input: Option<Input>,
    /// How many more bytes of standard output and error may be passed on.
    credit: [u32; 2],
    last_output: Instant,
    news: VecDeque<Up>,
}

/// Standard input of rank 0, on its way into a pipe.
struct Input {
    pipe: OwnedFd,
    queue: VecDeque<u8>,
    ended: bool,
}

impl Node {
    /// The next thing that has happened.
    pub fn next_news(&mut self) -> Option<Up> {
        self.news.pop_front()
    }

    /// Whether [`next_news`](Node::next_news) has something.
    pub fn has_news(&self) -> bool {
        !self.news.is_empty()
    }

    /// Notes that a child process has ended, if it is the keeper.
    pub fn reaped(&mut self, pid: i32) {
        if self.keeper == pid {
            self.keeper = 0;
        }
    }

    /// Notes whether the keeper is stopped. To be called when a child may have been.
    pub fn look_at_keeper(&mut self, now: Instant) {
        if let Some(stopped) = stop::news_of(self.keeper) {
            self.stop = stopped.then(|| Stop::new(now));
        }
    }

    /// Whether the keeper is gone.
    pub fn is_over(&self) -> bool {
        self.keeper == 0
    }

    /// Adds what to wait for. Without `room` for what they say, the ranks have to wait.
    pub fn interest<'a, T>(
        &'a self,
        watch: &mut Watch<'a, T>,
        room: bool,
        wrap: impl Fn(Token) -> T,
    ) {
        if !self.keeper_lost {
            watch.add(self.control.as_fd(), PollFlags::IN, wrap(Token::Keeper));
        }
        for (i, resident) in self.residents.iter().enumerate() {
            if let Some((fd, flags)) = resident.pmi_interest(room) {
                watch.add(fd, flags, wrap(Token::Pmi(i)));
            }
            for which in 0..2 {
                if let Some(fd) = resident.output(which)
                    && room
                    && self.credit[which] > 0
                {
                    watch.add(fd, PollFlags::IN, wrap(Token::Output(i, which)));
                }
            }
        }
        if let Some(input) = &self.input {
            // Also without bytes for it, the pipe tells when nobody reads any more.
            let flags = match input.queue.is_empty() {
                true => PollFlags::empty(),
                false => PollFlags::OUT,
            };
            watch.add(input.pipe.as_fd(), flags, wrap(Token::Input));
        }
    }

    /// When to call [`tick`](Node::tick) although nothing happens.
    pub fn deadline(&self) -> Option<Instant> {
        let stop = self.stop.map(|stop| stop.deadline());
        self.quiet_at().into_iter().chain(stop).min()
    }

    /// When no more output is waited for.
    fn quiet_at(&self) -> Option<Instant> {
        (!self.family_lives && self.has_output()).then_some(self.last_output + QUIET)
    }

    /// Does what is due at `now`, on every pass.
    pub fn tick(&mut self, now: Instant) {
        if !self.keeper_lost && self.stop.as_mut().is_some_and(|s| s.is_too_long(now)) {
            self.kill_keeper();
        }
        if self.quiet_at().is_none_or(|d| now < d) {
            return;
        }
        // While nobody took the output, more of it came to wait in the pipes than anybody has looked at.
        if self.drain_some(now) {
            self.last_output = now;
            return;
        }
        for i in 0..self.residents.len() {
            for which in 0..2 {
                self.end_output(i, which);
            }
        }
    }

    /// Reads from each pipe. Says whether there may be more: one had something, or may not be read now.
    fn drain_some(&mut self, now: Instant) -> bool {
        let mut more = false;
        for i in 0..self.residents.len() {
            for which in 0..2 {
                if self.residents[i].output(which).is_none() {
                    continue;
                }
                more |= self.credit[which] == 0 || self.read_output(i, which, now);
            }
        }
        more
    }

    fn has_output(&self) -> bool {
        let open = |r: &Resident| (0..2).any(|which| r.output(which).is_some());
        self.residents.iter().any(open)
    }

    /// Deals with an event.
    pub fn handle(&mut self, token: Token, now: Instant) {
        match token {
            Token::Keeper => self.keepers_news(),
            Token::Pmi(i) => self.converse(i),
            Token::Output(i, which) => {
                self.read_output(i, which, now);
            }
            Token::Input => self.write_input(),
        }
    }

    /// Does what mpiexec says. What concerns the whole host is the caller's business.
    pub fn obey(&mut self, order: &Down) {
        match order {
            Down::Signal(signal) => message::order(&self.control, Order::Signal(*signal)),
            // It cannot do it, but its end does.
            Down::SignalAll(libc::SIGKILL) if self.stop.is_some() => self.kill_keeper(),
            Down::SignalAll(signal) => message::order(&self.control, Order::SignalAll(*signal)),
            Down::Reply(rank, text) => {
                let Some(i) = self.by_rank.get(rank).copied() else {
                    return;
                };
                if !self.residents[i].reply(text) {
                    self.news
                        .push_back(Up::Breach(*rank, Breach::UnreadAnswers));
                }
            }
            Down::ClosePmi(rank) => {
                if let Some(i) = self.by_rank.get(rank) {
                    self.residents[*i].close_pmi();
                }
            }
            Down::Credit(which, bytes) => {
                if let Some(credit) = self.credit.get_mut(usize::from(*which)) {
                    *credit = credit.saturating_add(*bytes);
                }
            }
            Down::CloseOutput(which) => {
                for resident in &mut self.residents {
                    resident.close_output(usize::from(*which));
                }
            }
            Down::Input(bytes) => {
                if let Some(input) = &mut self.input {
                    input.queue.extend(bytes);
                    self.write_input();
                }
            }
            Down::InputEnd => {
                if let Some(input) = &mut self.input {
                    input.ended = true;
                    self.write_input();
                }
            }
            Down::Setup(_) | Down::Go | Down::Report | Down::Gone(..) | Down::Suspend => {}
            Down::Alive | Down::Dismiss => {}
        }
    }

    /// Kills the keeper, and so the ranks; its socket tells when it is gone.
    fn kill_keeper(&self) {
        os::kill(self.keeper, libc::SIGKILL);
    }

    /// Lets the keeper end, which kills whatever is left.
    pub fn end(&mut self) {
        self.input = None;
        let _ = rustix::net::shutdown(&self.control, rustix::net::Shutdown::Write);
    }

    /// Takes the keeper's messages.
    fn keepers_news(&mut self) {
        loop {
            let news = match message::next_news(&self.control) {
                Received::Message(News::Started(rank, pid)) => Up::Started(rank, pid),
                Received::Message(News::Failed(rank, step, errno)) => Up::Failed(rank, step, errno),
                Received::Message(News::Ended(rank, status)) => {
                    // What it said before it ended comes first: an abort explains the exit code.
                    if let Some(i) = self.by_rank.get(&rank).copied() {
                        self.converse(i);
                    }
                    Up::Ended(rank, status)
                }
                Received::Message(News::Alone) => {
                    self.family_lives = false;
                    Up::Alone
                }
                Received::Nothing => return,
                Received::Closed => {
                    if !self.keeper_lost {
                        self.keeper_lost = true;
                        self.family_lives = false;
                        let stopped = self.stop.take().map(|stop| stop.seconds());
                        self.news.push_back(Up::KeeperLost(stopped));
                    }
                    return;
                }
            };
            self.news.push_back(news);
        }
    }

    /// Passes a rank's PMI requests on.
    fn converse(&mut self, i: usize) {
        let resident = &mut self.residents[i];
        let rank = resident.rank;
        let was_open = resident.has_pmi();
        resident.send_pending();
        loop {
            match resident.next_line() {
                Ok(Some(line)) => self.news.push_back(Up::Line(rank, line)),
                Ok(None) => break,
                Err(breach) => {
                    resident.close_pmi();
                    self.news.push_back(Up::Breach(rank, breach));
                    break;
                }
            }
        }
        if was_open && !resident.has_pmi() {
            self.news.push_back(Up::PmiClosed(rank));
        }
    }

    /// Passes on what has come. Says whether something had.
    fn read_output(&mut self, i: usize, which: usize, now: Instant) -> bool {
        let resident = &mut self.residents[i];
        match resident.read_output(which, self.credit[which]) {
            Piece::Bytes(bytes) => {
                self.credit[which] -= u32::try_from(bytes.len()).unwrap_or(self.credit[which]);
                self.last_output = now;
                let stream = u8::from(which == 1);
                self.news
                    .push_back(Up::Output(resident.rank, stream, bytes));
                return true;
            }
            Piece::Nothing => {}
            Piece::End => self.end_output(i, which),
        }
        false
    }

    fn end_output(&mut self, i: usize, which: usize) {
        let resident = &mut self.residents[i];
        if resident.output(which).is_some() {
            resident.close_output(which);
            let stream = u8::from(which == 1);
            self.news.push_back(Up::OutputEnd(resident.rank, stream));
        }
    }

    /// Moves bytes into rank 0's standard input.
    fn write_input(&mut self) {
        let Some(input) = &mut self.input else { return };
        if input.queue.is_empty() {
            if !input.ended && !has_reader(&input.pipe) {
                self.news.push_back(Up::InputClosed);
                input.ended = true;
            }
            if input.ended {
                self.input = None;
            }
            return;
        }
        let mut taken = 0;
        while !input.queue.is_empty() && is_writable(input.pipe.as_fd()) {
            let (first, _) = input.queue.as_slices();
            match rustix::io::write(&input.pipe, &first[..first.len().min(PIPE_CHUNK)]) {
                Ok(count) => {
                    taken += count;
                    input.queue.drain(..count);
                }
                Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => break,
                Err(_) => {
                    self.input = None;
                    self.news.push_back(Up::InputClosed);
                    return;
                }
            }
        }
        if taken > 0 {
            let taken = u32::try_from(taken).unwrap_or(u32::MAX);
            self.news.push_back(Up::InputTaken(taken));
        }
        if input.queue.is_empty() && input.ended {
            self.input = None;
        }
    }
}

/// Whether somebody may still read from the other end of a pipe.
fn has_reader(pipe: &OwnedFd) -> bool {
    use rustix::event::{PollFd, Timespec, poll};
    let mut fds = [PollFd::new(pipe, PollFlags::empty())];
    let at_once = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    poll(&mut fds, Some(&at_once)) != Ok(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
    use rustix::pipe::{PipeFlags, pipe_with};

    /// A node whose only rank has ended, and the writing ends of its pipes, which somebody still holds.
    fn after_the_end(credit: u32) -> (Node, [OwnedFd; 2]) {
        let flags = PipeFlags::CLOEXEC | PipeFlags::NONBLOCK;
        let [(out, out_in), (err, err_in)] = [0; 2].map(|_| pipe_with(flags).unwrap());
        let (pmi, _) = socketpair(
            AddressFamily::UNIX,
            SocketType::STREAM,
            SocketFlags::CLOEXEC,
            None,
        )
        .unwrap();
        let node = Node {
            residents: vec![Resident::new(0, pmi, [out, err])],
            by_rank: HashMap::from([(0, 0)]),
            control: null().unwrap(),
            keeper: 0,
            family_lives: false,
            keeper_lost: false,
            stop: None,
            input: None,
            credit: [credit; 2],
            last_output: Instant::now(),
            news: VecDeque::new(),
        };
        (node, [out_in, err_in])
    }

    fn ends(node: &mut Node) -> usize {
        let news: Vec<Up> = std::iter::from_fn(|| node.next_news()).collect();
        let end = |up: &&Up| matches!(up, Up::OutputEnd(..));
        news.iter().filter(end).count()
    }

    /// Bytes of standard output among the news.
    fn said(node: &mut Node) -> usize {
        let mut bytes = 0;
        while let Some(up) = node.next_news() {
            match up {
                Up::Output(0, 0, piece) => bytes += piece.len(),
                other => panic!("{other:?}"),
            }
        }
        bytes
    }

    #[test]
    fn what_waits_in_a_pipe_comes_before_its_end() {
        let (mut node, [out, _err]) = after_the_end(1 << 20);
        rustix::io::write(&out, &[b'x'; 100]).unwrap();
        let mut now = Instant::now() + 10 * QUIET;
        node.tick(now);
        assert_eq!(said(&mut node), 100);
        now += QUIET / 2;
        node.tick(now);
        assert!(!node.has_news());
        now += QUIET;
        node.tick(now);
        assert_eq!(ends(&mut node), 2);
    }

    #[test]
    fn output_that_nobody_takes_is_waited_for() {
        let (mut node, [out, _err]) = after_the_end(0);
        rustix::io::write(&out, &[b'x'; 100]).unwrap();
        let mut now = Instant::now() + 10 * QUIET;
        node.tick(now);
        assert!(!node.has_news());
        // Room comes when the clock has run out again.
        now += 10 * QUIET;
        node.obey(&Down::Credit(0, 60));
        node.obey(&Down::Credit(1, 60));
        node.tick(now);
        assert_eq!(said(&mut node), 60);
        now += 10 * QUIET;
        node.tick(now);
        assert!(!node.has_news());
        node.obey(&Down::Credit(0, 60));
        now += 10 * QUIET;
        node.tick(now);
        assert_eq!(said(&mut node), 40);
        now += 10 * QUIET;
        node.tick(now);
        assert_eq!(ends(&mut node), 2);
    }
}
