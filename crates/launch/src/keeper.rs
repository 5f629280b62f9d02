//! The keeper: a small process between mpiexec and its ranks that outlives mpiexec if it must. On
//! other hosts it stands between the daemon and its ranks; then read "the daemon" for "mpiexec".
//!
//! It starts the ranks, is their parent, tells mpiexec how they end and passes signals on. It is a
//! subreaper, so whatever a rank leaves behind becomes its child. When its socket to mpiexec closes
//! (mpiexec ended, or was killed by SIGKILL) it kills all that is left and ends. When the keeper
//! itself is killed, the ranks get SIGKILL from the kernel and mpiexec, the next subreaper, finds
//! their descendants. It lives in a process group of its own, so that a signal to mpiexec's group
//! does not take both.

use crate::family;
use crate::message::{self, News, Order, Received};
use crate::os::child::{self, Descriptors, NOTE_SIZE, Ready};
use crate::os::signals::{Mask, Signals};
use crate::os::{self, Reaped};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::pipe::PipeFlags;
use std::collections::HashMap;
use std::os::fd::AsRawFd;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

/// What one rank's process is made of.
pub struct Rank {
    /// Its number in the job.
    pub number: u32,
    /// The program, its arguments and environment.
    pub ready: Ready,
    /// Standard input, output, error.
    pub standard: [OwnedFd; 3],
    /// The rank's end of its PMI socket.
    pub pmi: OwnedFd,
}

/// Longest that killing everything may take once mpiexec is gone.
const EXTERMINATION_LIMIT: Duration = Duration::from_secs(5);

struct Keeper {
    control: OwnedFd,
    signals: Signals,
    errors: OwnedFd,
    /// Rank of each living rank's process.
    ranks: HashMap<i32, u32>,
    started: usize,
    told_alone: bool,
}

/// The keeper's whole life, in the process forked for it. Never returns.
pub fn run(control: OwnedFd, ranks: Vec<Rank>, page: OwnedFd, mask: &Mask) -> ! {
    // mpiexec's ends must not stay open here: a pipe ends when its last holder closes it.
    let fds = ranks
        .iter()
        .flat_map(|r| r.standard.iter().chain([&r.pmi]))
        .chain([&control, &page]);
    os::close_others(fds.map(AsRawFd::as_raw_fd).collect());
    let lived = live(control, ranks, page, mask);
    family::exterminate(EXTERMINATION_LIMIT);
    os::exit_now(i32::from(lived.is_err()))
}

fn live(control: OwnedFd, ranks: Vec<Rank>, page: OwnedFd, mask: &Mask) -> std::io::Result<()> {
    let _ = rustix::process::setpgid(None, None);
    let _ = rustix::thread::set_name(c"yamabiko-keeper");
    os::become_subreaper()?;
    // mpiexec blocked the signals it handles before it forked; they stay blocked here.
    let (signals, _) = Signals::new(&[libc::SIGCHLD], &[libc::SIGCHLD])?;
    let (errors, errors_in) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
    let mut keeper = Keeper {
        control,
        signals,
        errors,
        ranks: HashMap::new(),
        started: ranks.len(),
        told_alone: false,
    };
    for rank in &ranks {
        let number = rank.number;
        let descriptors = Descriptors {
            standard: rank.standard.each_ref().map(AsFd::as_fd),
            kept: &[rank.pmi.as_fd(), page.as_fd()],
            errors: Some(errors_in.as_fd()),
        };
        match child::spawn(number, &rank.ready, &descriptors, mask) {
            Ok(pid) => {
                keeper.ranks.insert(pid, number);
                message::tell(&keeper.control, News::Started(number, pid));
            }
            Err(e) => {
                let errno = e.raw_os_error().unwrap_or(libc::EAGAIN);
                message::tell(
                    &keeper.control,
                    News::Failed(number, child::Step::Execute as u32, errno),
                );
            }
        }
    }
    drop((ranks, page, errors_in));
    let null = std::fs::File::options()
        .read(true)
        .write(true)
        .open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    rustix::stdio::dup2_stderr(&null)?;
    keeper.serve();
    Ok(())
}

impl Keeper {
    /// Until mpiexec closes the socket.
    fn serve(&mut self) {
        loop {
            self.reap();
            loop {
                match message::next_order(&self.control) {
                    Received::Message(order) => self.obey(order),
                    Received::Nothing => break,
                    Received::Closed => return,
                }
            }
            let mut fds = [
                PollFd::new(&self.control, PollFlags::IN),
                PollFd::new(&self.signals, PollFlags::IN),
            ];
            // An interruption is no event; any other error cannot happen with two open descriptors.
            let _ = poll(&mut fds, None);
            while self.signals.next().is_some() {}
        }
    }

    fn obey(&self, order: Order) {
        match order {
            Order::Signal(signal) => {
                for pid in self.ranks.keys() {
                    os::kill(-pid, signal);
                }
            }
            Order::SignalAll(signal) => {
                for member in family::descendants(&[]) {
                    os::kill(member.pid, signal);
                    // A stopped process acts on TERM only when it goes on.
                    if signal == libc::SIGTERM {
                        os::kill(member.pid, libc::SIGCONT);
                    }
                }
            }
        }
    }

    fn reap(&mut self) {
        loop {
            match os::reap() {
                Reaped::Ended(pid, status) => {
                    // The reason why it could not start was written before it ended.
                    self.pass_notes();
                    if let Some(rank) = self.ranks.remove(&pid) {
                        message::tell(&self.control, News::Ended(rank, status));
                    }
                }
                Reaped::Nobody => return,
                Reaped::NoChildren => {
                    if !self.told_alone && self.started > 0 {
                        self.told_alone = true;
                        message::tell(&self.control, News::Alone);
                    }
                    return;
                }
            }
        }
    }

    /// Passes on why ranks could not be started.
    fn pass_notes(&self) {
        let mut note = [0; NOTE_SIZE];
        while let Ok(NOTE_SIZE) = rustix::io::read(&self.errors, &mut note[..]) {
            let word = |at: usize| [note[at], note[at + 1], note[at + 2], note[at + 3]];
            let (rank, step) = (u32::from_ne_bytes(word(0)), u32::from_ne_bytes(word(4)));
            message::tell(
                &self.control,
                News::Failed(rank, step, i32::from_ne_bytes(word(8))),
            );
        }
    }
}
