//! Small collectives in the kernel's receive path: with `YAMABIKO_CAD=softirq` non-blocking barriers, broadcasts and reductions of up to
//! 1 KiB go to the program that `yamabiko kaccd` holds (crate `cad-softirq`). This module has the connection to the daemon and each communicator's
//! lane; [`crate::coll`]'s `small` says which calls fit. With `YAMABIKO_CAD=auto` they do on a machine whose ranks are many and outnumber its
//! processors ([`cad::chosen`]), on the communicators that are made first, and nobody says that it can't be. Without either nothing here runs and nothing is open.
//!
//! # How ranks agree
//!
//! Whether at all: as for the ring, each rank that was asked to publishes before the fabrics start whether it has reached its daemon, and which one that is; if one hasn't,
//! nobody uses it. Where there are several daemons, [`hosts`] says whose processes can have a lane together. Whether in a lane: see [`lane`]. Which calls: by what has to be the same on all ranks, which is the operation, the
//! type and the number of bytes. Byte code's place in the lane follows from the order of calls; should the kernel not have it there, it says so to all ranks, by what it
//! makes public in place of a result, and they run that collective in calls.
//!
//! # Waiting and failure
//!
//! Before a rank sleeps it asks the program for a packet when its collective is over ([`Waker`]), whose socket joins what this process
//! sleeps on. It looks all the same, soon at first, then up to [`LOOK_MOST`] later, says its start once more (packets get lost) and looks
//! whether the daemon is there. While it computes the kernel says its start again ([`Resend`]), where io_uring can. Each collective has its
//! ordinary form from the start, with its number on the communicator. If the daemon is gone,
//! so is the program, and the page stays as it is: after [`GRACE`] every rank sees the same collectives over, and runs the others in calls.
//! Where a lane's members are on several hosts the ranks of the others don't know it: [`far`] has what happens then. If a process is gone, those it takes part in become ordinary ones that have failed.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::os::fd::AsFd;
use std::rc::Rc;
use std::time::{Duration, Instant};

use cad::chosen::{KEPT_MAX, has_receive_path};
use cad_run::Choice;
use cad_softirq::client::{self, Client, Known, NotOpen};
use cad_softirq::layout::DATA_MAX;
use cad_softirq::rank::{End, NotStarted, Part, Waker};
use fabrics::Fabrics;
use types::{Handle, Result};
use wireup::Job;

use crate::comm::{Comm, counted};
use crate::kernel::chosen::{self, Said};
use crate::state::Engine;
use crate::world::startup_fault;

mod far;
mod hosts;
mod lane;
mod ways;

pub(crate) use far::LOST_DAEMON;
use hosts::Hosts;
use lane::Daemon;
pub(crate) use lane::Lane;

/// After how long a rank looks again at first, and at most.
const LOOK_FIRST: Duration = Duration::from_millis(1);
const LOOK_MOST: Duration = Duration::from_millis(100);

/// How long after the daemon the program is surely gone, and what it was doing done.
const GRACE: Duration = Duration::from_millis(200);

/// What a rank has published that hasn't reached its daemon.
const CANT: &str = "-";

fn key(rank: u32) -> String {
    format!("softirq.{rank}")
}

/// The key of what a rank says that was asked to choose.
fn key_of_chosen(rank: u32) -> String {
    format!("crowded.{rank}")
}

/// What a rank has found before the fabrics start.
pub(crate) enum Asked {
    /// It was asked to use its daemon: that, or why there is none.
    Insists(std::result::Result<Client, NotOpen>),
    /// It was asked to choose, and reaches its daemon.
    Can(Client),
}

/// Publishes whether this rank reaches its daemon, if the environment asks for it or has it chosen.
pub(crate) fn open(job: &mut Job) -> Result<Option<Asked>> {
    let choice = Choice::from_environment().map_err(startup_fault)?;
    if choice == Choice::Auto {
        return open_chosen(job);
    }
    if choice != Choice::Softirq || job.size() == 1 {
        return Ok(None);
    }
    let asked = reach();
    let card = asked.as_ref().map(|(known, _)| hosts::card(*known));
    let card = card.unwrap_or_else(|_| CANT.to_owned());
    job.put(&key(job.rank()), &card).map_err(startup_fault)?;
    Ok(Some(Asked::Insists(asked.map(|(_, client)| client))))
}

/// The daemon, if there is one.
fn reach() -> std::result::Result<(Known, Client), NotOpen> {
    let client = Client::new(&client::name())?;
    Ok((client.who()?, client))
}

/// The same where executors are chosen: nothing is said where it is of no use, by which the others see that not all have said something.
fn open_chosen(job: &mut Job) -> Result<Option<Asked>> {
    let here = job.local_ranks().len() as u32;
    if here != job.size() || here == 1 {
        return Ok(None);
    }
    // Where there is none, as on most machines, that is the quicker question.
    let Ok((known, client)) = reach() else {
        return Ok(None);
    };
    let Some(seat) = chosen::seat().filter(|seat| !seat.suffices(here)) else {
        return Ok(None);
    };
    let said = Said::text(&seat, &hosts::card(known));
    let key = key_of_chosen(job.rank());
    job.put(&key, &said).map_err(startup_fault)?;
    Ok(Some(Asked::Can(client)))
}

/// What a rank has when all have reached a daemon.
pub(crate) struct Reached {
    client: Client,
    waker: Waker,
    hosts: Hosts,
    /// Whether it was chosen, not insisted on.
    chosen: bool,
}

impl Reached {
    fn new(client: Client, hosts: Hosts, chosen: bool, fabrics: &mut Fabrics) -> Result<Reached> {
        let waker = Waker::new().map_err(startup_fault)?;
        fabrics.sleep_on_too(waker.as_fd()).map_err(startup_fault)?;
        Ok(Reached {
            client,
            waker,
            hosts,
            chosen,
        })
    }
}

/// The daemon, if all ranks have reached one, and what the fabrics then sleep on too; their start lies between this and [`open`]. If not, and it was insisted on, one rank
/// says why for all.
pub(crate) fn join(asked: Asked, job: &mut Job, fabrics: &mut Fabrics) -> Result<Option<Reached>> {
    let asked = match asked {
        Asked::Insists(asked) => asked,
        Asked::Can(client) => return join_chosen(client, job, fabrics),
    };
    let mut cards = Vec::new();
    for rank in 0..job.size() {
        let card = job.get(&key(rank)).map_err(startup_fault)?;
        cards.push(card.unwrap_or_default());
    }
    let first = match Hosts::of(&cards) {
        Ok(hosts) => {
            let Ok(client) = asked else {
                return Ok(None);
            };
            return Reached::new(client, hosts, false, fabrics).map(Some);
        }
        Err(first) => first,
    };
    // One that wasn't asked says nothing, so another one does.
    let speaker = cards.iter().position(|card| card == CANT);
    let speaker = speaker.or_else(|| cards.iter().position(|card| !card.is_empty()));
    if speaker == Some(job.rank() as usize) {
        match asked {
            Err(why) => say_without(job.rank(), &why),
            Ok(_) => say_without(job.rank(), &format!("rank {first} does not use it")),
        }
    }
    Ok(None)
}

/// The same where executors are chosen.
fn join_chosen(client: Client, job: &mut Job, fabrics: &mut Fabrics) -> Result<Option<Reached>> {
    let said = Said::by_all(job, key_of_chosen).map_err(startup_fault)?;
    let Ok(Said { seats, cards }) = said else {
        return Ok(None);
    };
    match Hosts::of(&cards) {
        Ok(hosts) if has_receive_path(&seats) => {
            Reached::new(client, hosts, true, fabrics).map(Some)
        }
        _ => Ok(None),
    }
}

fn say_without(rank: u32, why: &dyn std::fmt::Display) {
    let variable = Choice::VARIABLE;
    sys::say::line(&format!(
        "yamabiko: rank {rank}: {variable}=softirq has no effect: {why}"
    ));
}

/// What the engine has of all this.
#[derive(Default)]
pub(crate) struct Softirq {
    daemon: RefCell<Option<Rc<Daemon>>>,
    waker: RefCell<Option<Waker>>,
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
    /// When the last of them did, by the kernel: nanoseconds of the monotonic clock.
    ended: Cell<u64>,
    /// Those that it was given, and that ran in calls after all.
    returned: Cell<u64>,
    /// Those that it was not given.
    others: Cell<u64>,
    /// Lanes that are being opened.
    opening: Cell<u32>,
    /// Packets that woke this rank.
    woken: Cell<u64>,
    /// Whether it was chosen, not insisted on.
    chosen: Cell<bool>,
}

impl Softirq {
    /// Whether collectives go there.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.daemon.borrow().is_some()
    }

    /// Until when a sleep may last, for who is about to sleep: what is under way will wake him, if nothing is lost.
    pub(crate) fn again(&self) -> Option<Instant> {
        if let Some(waker) = &*self.waker.borrow() {
            self.woken.set(self.woken.get() + waker.drain());
            for lane in self.active.borrow().iter() {
                lane.ask(waker);
            }
        }
        self.look.get()
    }

    /// Whether progress would find something to do.
    pub(crate) fn is_ready(&self) -> bool {
        self.active.borrow().iter().any(|lane| lane.is_ready())
    }

    /// The lane of a communicator, if it takes collectives.
    pub(crate) fn lane(&self, comm: &Comm) -> Option<Rc<Lane>> {
        let lane = comm.lane.get().filter(|lane| self.takes(lane));
        lane.cloned()
    }

    /// Whether a communicator may have a lane, and one more for a persistent collective, of which it has had so many.
    pub(crate) fn may_have_lane(&self, comm: &Comm, kept: u32) -> bool {
        !self.chosen.get() || (chosen::is_among_first(comm) && kept < KEPT_MAX)
    }

    /// Whether a lane takes collectives.
    pub(crate) fn takes(&self, lane: &Lane) -> bool {
        !lane.is_closed() && !self.dead.get()
    }

    /// Whether a communicator's processes are on several hosts.
    pub(crate) fn is_apart(&self, comm: &Comm) -> bool {
        let daemon = self.daemon.borrow();
        daemon
            .as_ref()
            .is_some_and(|d| d.hosts.are_apart(&comm.group))
    }

    /// Collectives that ended there.
    pub(crate) fn done(&self) -> u64 {
        self.done.get()
    }

    /// When the last of them did, by the kernel: nanoseconds of the monotonic clock; 0 if there was none.
    pub(crate) fn ended(&self) -> u64 {
        self.ended.get()
    }

    /// Those that it was given, and that ran in calls after all.
    pub(crate) fn returned(&self) -> u64 {
        self.returned.get()
    }

    /// Counts a collective that it is not given.
    pub(crate) fn count_other(&self) {
        self.others.set(self.others.get() + 1);
    }
}

/// After how long the next look at a collective comes that has been under way for so long.
fn pause(under_way: Duration) -> Duration {
    (under_way / 4).clamp(LOOK_FIRST, LOOK_MOST)
}

impl Engine {
    /// Has small collectives go to the kernel's receive path from now on; all ranks of the job call this.
    pub(crate) fn start_softirq(&self, reached: Reached) -> Result<()> {
        let daemon = Daemon::new(reached.client, reached.hosts);
        self.softirq.daemon.replace(Some(daemon.clone()));
        self.softirq.waker.replace(Some(reached.waker));
        self.softirq.chosen.set(reached.chosen);
        self.beside.set(true);
        let world = self.comm(types::consts::COMM_WORLD)?;
        self.open_lane(&world);
        let speaker = match world.lane.get() {
            Some(lane) if lane.is_closed() => lane.speaker(),
            Some(_) => return Ok(()),
            None => 0,
        };
        if speaker == world.rank && !reached.chosen {
            let why = daemon.why();
            let why = why.as_deref().unwrap_or("a rank is gone");
            say_without(speaker, &format!("on MPI_COMM_WORLD: {why}"));
        }
        Ok(())
    }

    /// Says what it did, if the environment asks for it; nothing is under way any more in a program that is right.
    pub(crate) fn stop_softirq(&self, rank: u32) {
        let Some(daemon) = self.softirq.daemon.take() else {
            return;
        };
        self.softirq.active.take();
        self.softirq.waker.take();
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
        let sometimes = |what: &str, count: u64| match count {
            0 => String::new(),
            _ => format!("; {what} {}", counted(count, "time")),
        };
        let woken = sometimes("woken", self.softirq.woken.get());
        let resent = sometimes("said again by the kernel", daemon.resent());
        sys::say::line(&format!(
            "yamabiko: rank {rank}: {text}; in calls: {others}, and {returned} that it had been given{woken}{resent}"
        ));
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
            let busy = !lane.waiting.borrow().is_empty() || lane.trial.get().is_some();
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
        if lane.trial.get().is_some() {
            return self.follow_trial(lane);
        }
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
                let start = |part: Part<'_>| lane.start(part);
                let Some(started) = self.with_part(handle, data, start).flatten() else {
                    // It isn't open yet.
                    return moved;
                };
                lane.begun.set(Some(Instant::now()));
                debug_assert!(!matches!(started, Err(NotStarted::Unfit)));
            }
            let Some((end, when)) = lane.result(data) else {
                return moved;
            };
            lane.waiting.borrow_mut().pop_front();
            lane.begun.set(None);
            moved = true;
            if end == End::NoCode {
                self.softirq.returned.set(self.softirq.returned.get() + 1);
                self.make_ordinary(handle);
                self.advance_small(handle);
                continue;
            }
            self.softirq.done.set(self.softirq.done.get() + 1);
            self.softirq.ended.set(when);
            self.small_over(handle, (end == End::Done).then_some(data));
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
            lane.say_again();
        }
        self.softirq.look.set(Some(now + least));
        let daemon = self.softirq.daemon.borrow().clone();
        if self.softirq.gone.get().is_none() && daemon.is_some_and(|d| d.is_gone()) {
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
            self.end_trial(lane);
            if self.check_lane(lane).is_err() {
                moved |= self.lose_far(lane);
                continue;
            }
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
        lane.close();
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
            self.end_trial(lane);
        }
        self.list_again(lanes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_become_rarer() {
        assert_eq!(pause(Duration::ZERO), LOOK_FIRST);
        assert_eq!(pause(Duration::from_millis(80)), Duration::from_millis(20));
        assert_eq!(pause(Duration::from_secs(9)), LOOK_MOST);
    }
}
