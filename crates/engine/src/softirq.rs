//! Small collectives in the kernel's receive path: with `YAMABIKO_CAD=softirq` non-blocking barriers, broadcasts and reductions of up to
//! 1 KiB go to the program that `yamabiko kaccd` holds (crate `cad-softirq`). This module has the connection to the daemon and each communicator's
//! lane; [`crate::coll`]'s `small` says which calls fit. Without the variable nothing here runs and nothing is open.
//!
//! # How ranks agree
//!
//! Whether at all: as for the ring, each rank that was asked to publishes before the fabrics start whether it has reached its daemon; if one hasn't,
//! nobody uses it. Whether on a communicator: where one is made by a call that waits for all its members (so not by `MPI_Comm_idup`), rank 0 has
//! its daemon open a context and tells all their cards; each gets the page of results from its daemon, which has it only if it is the same one; and
//! all hear whether all have. Which calls: by what has to be the same on all ranks, which is the operation, the basic type and the number of bytes.
//!
//! # A lane
//!
//! A context has one collective at a time. The others of its communicator wait in the lane, in the order of the calls, which is the same on all
//! ranks; the next one starts when the rank is in MPI after the one before. All members wait for all, so nobody starts the next one before all
//! have started this one, and none starts the one after before he has taken this one's result off the page.
//!
//! # Waiting and failure
//!
//! Nothing wakes a rank that sleeps: it looks again, soon at first, then up to [`LOOK_MOST`] later, says its start once more (packets get lost) and looks
//! whether the daemon is there. Each collective has its ordinary form from the start, with its number on the communicator. If the daemon is gone,
//! so is the program, and the page stays as it is: after [`GRACE`] every rank sees the same collectives over, and runs the others in calls.
//! If a process is gone, those it takes part in become ordinary ones that have failed.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::time::{Duration, Instant};

use cad_run::Choice;
use cad_softirq::client::{Client, NAME, NotOpen, VARIABLE};
use cad_softirq::layout::{DATA_MAX, INPUTS_MAX};
use cad_softirq::rank::{Card, End, Member, NotStarted, Part};
use types::{Handle, Result};
use wireup::Job;

use crate::comm::{Comm, counted};
use crate::group::Group;
use crate::state::Engine;
use crate::world::startup_fault;

/// After how long a rank looks again at first, and at most.
const LOOK_FIRST: Duration = Duration::from_micros(100);
const LOOK_MOST: Duration = Duration::from_millis(10);

/// How long after the daemon the program is surely gone, and what it was doing done.
const GRACE: Duration = Duration::from_millis(200);

/// Bytes before the tickets where rank 0 tells them: port, entry and id.
const HEAD: usize = 16;

/// What a rank has published that has reached its daemon, and one that hasn't.
const CAN: &str = "+";
const CANT: &str = "-";

fn key(rank: u32) -> String {
    format!("softirq.{rank}")
}

/// What a rank that was asked has found before the fabrics start: its daemon, or why there is none.
pub(crate) type Asked = std::result::Result<Client, NotOpen>;

/// Publishes whether this rank reaches its daemon, if the environment asks for it.
pub(crate) fn open(job: &mut Job) -> Result<Option<Asked>> {
    let choice = Choice::from_environment().map_err(startup_fault)?;
    if choice != Choice::Softirq || job.size() == 1 {
        return Ok(None);
    }
    let name = std::env::var_os(VARIABLE).filter(|name| !name.is_empty());
    let asked = Client::new(name.as_ref().map_or(NAME, |name| name.as_encoded_bytes()));
    let card = if asked.is_ok() { CAN } else { CANT };
    job.put(&key(job.rank()), card).map_err(startup_fault)?;
    Ok(Some(asked))
}

/// The daemon, if all ranks have reached one; the fabrics' start lies between this and [`open`]. If not, one rank says why for all.
pub(crate) fn join(asked: Asked, job: &mut Job) -> Result<Option<Client>> {
    let mut cards = Vec::new();
    for rank in 0..job.size() {
        let card = job.get(&key(rank)).map_err(startup_fault)?;
        cards.push(card.unwrap_or_default());
    }
    let Some(first) = cards.iter().position(|card| card != CAN) else {
        return Ok(asked.ok());
    };
    // One that wasn't asked says nothing, so another one does.
    let speaker = cards.iter().position(|card| card == CANT);
    let speaker = speaker.or_else(|| cards.iter().position(|card| card == CAN));
    if speaker == Some(job.rank() as usize) {
        match asked {
            Err(why) => say_without(job.rank(), &why),
            Ok(_) => say_without(job.rank(), &format!("rank {first} does not use it")),
        }
    }
    Ok(None)
}

fn say_without(rank: u32, why: &dyn std::fmt::Display) {
    let variable = Choice::VARIABLE;
    sys::say::line(&format!(
        "yamabiko: rank {rank}: {variable}=softirq has no effect: {why}"
    ));
}

/// The connection to the daemon, which ends what was opened on it.
struct Daemon {
    client: Client,
    /// Whether an answer was missed: the next one could be that.
    confused: Cell<bool>,
}

impl Daemon {
    /// What it answers, if it can be asked and does not refuse.
    fn ask<T>(&self, what: impl FnOnce(&Client) -> std::result::Result<T, NotOpen>) -> Option<T> {
        if self.confused.get() {
            return None;
        }
        let answer = what(&self.client);
        let missed = !matches!(answer, Ok(_) | Err(NotOpen::Refused(_)));
        self.confused.set(missed);
        answer.ok()
    }
}

/// A communicator's context.
pub(crate) struct Lane {
    member: RefCell<Member>,
    /// The requests that it has, the first of which is started.
    waiting: RefCell<VecDeque<Handle>>,
    /// When the first was started.
    begun: Cell<Option<Instant>>,
    /// Whether progress knows of it.
    listed: Cell<bool>,
    /// Whether it takes nothing any more.
    closed: Cell<bool>,
    group: Rc<Group>,
    daemon: Rc<Daemon>,
    /// At rank 0, what to close.
    card: Option<Card>,
}

impl Drop for Lane {
    fn drop(&mut self) {
        if let Some(card) = &self.card {
            // If the daemon does not answer, it closes the context with the connection.
            let _ = self.daemon.ask(|client| client.close(card));
        }
    }
}

/// What the engine has of all this.
#[derive(Default)]
pub(crate) struct Softirq {
    daemon: RefCell<Option<Rc<Daemon>>>,
    /// The lanes with something under way.
    active: RefCell<Vec<Rc<Lane>>>,
    /// When to look again.
    look: Cell<Option<Instant>>,
    /// Since when the daemon is known to be gone.
    gone: Cell<Option<Instant>>,
    /// Whether nothing is given to it any more.
    dead: Cell<bool>,
    /// Collectives that ended there.
    done: Cell<u64>,
    /// Those that it was given, and that ran in calls after all.
    returned: Cell<u64>,
    /// Those that it was not given.
    others: Cell<u64>,
}

impl Softirq {
    /// Whether collectives go there.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.daemon.borrow().is_some()
    }

    /// Until when a sleep may last.
    pub(crate) fn again(&self) -> Option<Instant> {
        self.look.get()
    }

    /// Whether progress would find something to do.
    pub(crate) fn is_ready(&self) -> bool {
        let over = |lane: &Rc<Lane>| lane.begun.get().is_none() || lane.member.borrow().is_over();
        self.active.borrow().iter().any(over)
    }

    /// The lane of a communicator, if it takes collectives.
    pub(crate) fn lane(&self, comm: &Comm) -> Option<Rc<Lane>> {
        let lane = comm.lane.get().filter(|lane| !lane.closed.get());
        lane.filter(|_| !self.dead.get()).cloned()
    }

    /// Counts a collective that it is not given.
    pub(crate) fn count_other(&self) {
        self.others.set(self.others.get() + 1);
    }

    /// What the lane of a communicator of so many processes begins with, as rank 0 tells it: nothing where there is none.
    fn offer(daemon: &Daemon, size: u32, told: &mut [u8]) -> Option<(Card, OwnedFd)> {
        let opened = daemon.ask(|client| client.open(size))?;
        let first = *opened.cards.first()?;
        told[..4].copy_from_slice(&u32::from(first.port).to_le_bytes());
        told[4..8].copy_from_slice(&first.entry.to_le_bytes());
        told[8..HEAD].copy_from_slice(&first.id.to_le_bytes());
        for (card, to) in opened.cards.iter().zip(told[HEAD..].chunks_mut(8)) {
            to.copy_from_slice(&card.ticket.to_le_bytes());
        }
        Some((first, opened.page))
    }
}

/// A rank's card, as it was told; `None` if there is none.
fn card(told: &[u8], rank: u32) -> Option<Card> {
    let long = |at: usize| {
        let bytes = told.get(at..at + 8)?.try_into().ok()?;
        Some(u64::from_le_bytes(bytes))
    };
    let (first, id) = (long(0)?, long(8)?);
    Some(Card {
        port: u16::try_from(first & 0xffff_ffff).ok()?,
        entry: (first >> 32) as u32,
        id: Some(id).filter(|&id| id != 0)?,
        input: rank,
        ticket: long(HEAD + 8 * rank as usize)?,
    })
}

/// After how long the next look at a collective comes that has been under way for so long.
fn pause(under_way: Duration) -> Duration {
    (under_way / 4).clamp(LOOK_FIRST, LOOK_MOST)
}

impl Engine {
    /// Has small collectives go to the kernel's receive path from now on; all ranks of the job call this.
    pub(crate) fn start_softirq(&self, client: Client) -> Result<()> {
        self.softirq.daemon.replace(Some(Rc::new(Daemon {
            client,
            confused: Cell::new(false),
        })));
        self.beside.set(true);
        let world = self.comm(types::consts::COMM_WORLD)?;
        self.open_lane(&world);
        if world.lane.get().is_none() && world.rank == 0 {
            let why = "on MPI_COMM_WORLD, as kaccd gives it no context, or not all ranks reach that of rank 0";
            say_without(0, &why);
        }
        Ok(())
    }

    /// Says what it did, if the environment asks for it; nothing is under way any more in a program that is right.
    pub(crate) fn stop_softirq(&self, rank: u32) {
        if self.softirq.daemon.take().is_none() {
            return;
        }
        self.softirq.active.take();
        self.softirq.look.set(None);
        if std::env::var_os(Choice::REPORT).is_none_or(|v| v.is_empty()) {
            return;
        }
        let (done, others) = (self.softirq.done.get(), self.softirq.others.get());
        let returned = self.softirq.returned.get();
        let text = match done {
            0 => "no collective ran in the kernel's receive path".to_owned(),
            _ => format!(
                "in the kernel's receive path: {}",
                counted(done, "collective")
            ),
        };
        sys::say::line(&format!(
            "yamabiko: rank {rank}: {text}; in calls: {others}, and {returned} that it had been given"
        ));
    }

    /// Gives a communicator its lane, if it can have one; all its members call this and wait for each other. If a member is gone, it has none.
    pub(crate) fn open_lane(&self, comm: &Rc<Comm>) {
        let Some(daemon) = self.softirq.daemon.borrow().clone() else {
            return;
        };
        if comm.size() < 2 || comm.size() > INPUTS_MAX {
            return;
        }
        let mut told = vec![0; HEAD + 8 * comm.size() as usize];
        let own = match comm.rank {
            0 => Softirq::offer(&daemon, comm.size(), &mut told),
            _ => None,
        };
        let (opened, page) = own.unzip();
        let heard = self.internal_bcast(comm, 0, &mut told).is_ok();
        let card = card(&told, comm.rank).filter(|_| heard);
        let member = card.and_then(|card| {
            let page = page.or_else(|| daemon.ask(|client| client.join(&card)))?;
            Member::new(&card, page.as_fd()).ok()
        });
        let mine = [u8::from(member.is_some())];
        let mut all = vec![0; comm.size() as usize];
        let heard = self.internal_allgather(comm, &mine, &mut all).is_ok();
        let agreed = heard && all.iter().all(|&has| has == 1);
        match member.filter(|_| agreed) {
            Some(member) => {
                // It was empty.
                let _ = comm.lane.set(Rc::new(Lane {
                    member: RefCell::new(member),
                    waiting: RefCell::default(),
                    begun: Cell::new(None),
                    listed: Cell::new(false),
                    closed: Cell::new(false),
                    group: comm.group.clone(),
                    daemon,
                    card: opened,
                }));
            }
            None => {
                if let Some(card) = opened {
                    let _ = daemon.ask(|client| client.close(&card));
                }
            }
        }
    }

    /// Puts a request into a lane; it is the last of those there.
    pub(crate) fn enter_lane(&self, lane: &Rc<Lane>, handle: Handle) {
        lane.waiting.borrow_mut().push_back(handle);
        if !lane.listed.replace(true) {
            self.softirq.active.borrow_mut().push(lane.clone());
        }
        self.drive(lane);
        self.softirq.look.set(Some(Instant::now() + LOOK_FIRST));
    }

    /// Lets all lanes do what they can; whether anything moved.
    pub(crate) fn progress_softirq(&self) -> bool {
        if self.softirq.active.borrow().is_empty() {
            return false;
        }
        let lanes = self.softirq.active.take();
        let mut moved = false;
        for lane in &lanes {
            moved |= self.drive(lane);
        }
        self.list_again(lanes);
        moved | self.look_after_softirq()
    }

    /// Lists those lanes again that still have something.
    fn list_again(&self, mut lanes: Vec<Rc<Lane>>) {
        lanes.retain(|lane| {
            let busy = !lane.waiting.borrow().is_empty();
            lane.listed.set(busy);
            busy
        });
        let mut active = self.softirq.active.borrow_mut();
        lanes.append(&mut active);
        *active = lanes;
        if active.is_empty() {
            self.softirq.look.set(None);
        }
    }

    /// Takes what is over in a lane, and starts the next one; whether anything moved.
    fn drive(&self, lane: &Lane) -> bool {
        let mut moved = false;
        let mut data = [0; DATA_MAX];
        loop {
            let Some(handle) = lane.waiting.borrow().front().copied() else {
                return moved;
            };
            let Some(bytes) = self.small_bytes(handle) else {
                // Somebody has ended it.
                lane.waiting.borrow_mut().pop_front();
                lane.begun.set(None);
                continue;
            };
            let data = &mut data[..bytes];
            if lane.begun.get().is_none() {
                let mut member = lane.member.borrow_mut();
                let started = self.with_part(handle, data, |part: Part<'_>| member.start(part));
                lane.begun.set(Some(Instant::now()));
                debug_assert!(!matches!(started, Some(Err(NotStarted::Unfit))));
            }
            let end = lane.member.borrow().result(data);
            let Some(end) = end else {
                return moved;
            };
            lane.waiting.borrow_mut().pop_front();
            lane.begun.set(None);
            self.softirq.done.set(self.softirq.done.get() + 1);
            self.small_over(handle, (end == End::Done).then_some(data));
            moved = true;
        }
    }

    /// If it is time: says once more what was said, and looks whether the daemon is there. Whether anything moved.
    fn look_after_softirq(&self) -> bool {
        let now = Instant::now();
        if self.softirq.look.get().is_none_or(|look| now < look) {
            return false;
        }
        let mut least = LOOK_MOST;
        for lane in self.softirq.active.borrow().iter() {
            let begun = lane.begun.get().unwrap_or(now);
            least = least.min(pause(now.saturating_duration_since(begun)));
            // What is refused is said again.
            let _ = lane.member.borrow().again();
        }
        self.softirq.look.set(Some(now + least));
        let daemon = self.softirq.daemon.borrow().clone();
        if self.softirq.gone.get().is_none() && daemon.is_some_and(|d| d.client.is_gone()) {
            self.softirq.gone.set(Some(now));
        }
        match self.softirq.gone.get() {
            Some(gone) if now.saturating_duration_since(gone) >= GRACE => self.leave_softirq(),
            _ => false,
        }
    }

    /// The daemon is gone: whatever is not over runs in calls. Whether there was anything.
    fn leave_softirq(&self) -> bool {
        self.softirq.dead.set(true);
        let lanes = self.softirq.active.take();
        let mut moved = false;
        for lane in &lanes {
            moved |= self.drive(lane);
            lane.listed.set(false);
            for handle in self.empty(lane) {
                self.advance_small(handle);
                moved = true;
            }
        }
        self.softirq.look.set(None);
        moved
    }

    /// Closes a lane: what was in it are ordinary collectives now, which have not begun.
    fn empty(&self, lane: &Lane) -> VecDeque<Handle> {
        lane.closed.set(true);
        lane.begun.set(None);
        let mut handles = lane.waiting.take();
        handles.retain(|&handle| self.make_ordinary(handle));
        let returned = self.softirq.returned.get() + handles.len() as u64;
        self.softirq.returned.set(returned);
        handles
    }

    /// Ends what a process takes part in that is gone.
    pub(crate) fn peer_failed_in_softirq(&self, process: u32) {
        let lanes = self.softirq.active.take();
        for lane in &lanes {
            self.drive(lane);
            if lane.group.rank_of(process).is_none() {
                continue;
            }
            for handle in self.empty(lane) {
                self.fail_small(handle, process);
            }
        }
        self.list_again(lanes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cards_are_read_as_they_are_told() {
        let mut told = vec![0; HEAD + 16];
        assert_eq!(card(&told, 0), None, "there is none");
        told[..4].copy_from_slice(&7117_u32.to_le_bytes());
        told[4..8].copy_from_slice(&5_u32.to_le_bytes());
        told[8..16].copy_from_slice(&(u64::MAX - 3).to_le_bytes());
        told[24..32].copy_from_slice(&77_u64.to_le_bytes());
        let second = card(&told, 1).unwrap();
        let all = (
            second.port,
            second.entry,
            second.id,
            second.input,
            second.ticket,
        );
        assert_eq!(all, (7117, 5, u64::MAX - 3, 1, 77));
        assert_eq!(card(&told, 2), None, "there are two");
        told[2] = 1;
        assert_eq!(card(&told, 1), None, "no port is as large");
    }

    #[test]
    fn looks_become_rarer() {
        assert_eq!(pause(Duration::ZERO), LOOK_FIRST);
        assert_eq!(pause(Duration::from_millis(8)), Duration::from_millis(2));
        assert_eq!(pause(Duration::from_secs(9)), LOOK_MOST);
    }
}
