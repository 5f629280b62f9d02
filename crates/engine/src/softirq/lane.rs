//! A lane: a context of the daemon's, and the collectives that wait for it.
//!
//! A context has one collective at a time. Those of its lane wait, in the order of the calls, which is the same on all
//! ranks; the next one starts when the rank is in MPI after the one before. All members wait for all, so nobody starts the next one before all
//! have started this one, and none starts the one after before he has taken this one's result off the page. A communicator has a lane for its
//! non-blocking collectives; each persistent collective that fits has its own, as their starts need no order.
//!
//! # Opening
//!
//! Rank 0 has its daemon open a context and broadcasts all members' cards; each gets the page of results from its daemon, which has it only if it is the same one; and
//! all hear whether all have. Where members are on several hosts of a site, each host's first has its daemon open one ([`far`](super::far)). These are collectives of the engine's own that nobody has to wait for: what is given to the lane meanwhile
//! waits in it, and becomes ordinary if it does not open, which all hear alike.
//!
//! # Byte code
//!
//! A context has slots for operations that are byte code. Which slot an operation gets follows from the order of the lane's collectives, so ranks need
//! not speak of it: each has its daemon put the code there before it starts the first collective with it (the same bytes as the others do), when the
//! one before is over, so nobody uses what was there. A start says slot and code; whoever combines contributions looks whether that code is there. If not,
//! because no daemon answered or took it, that is the collective's outcome at all ranks, which run it in calls.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::time::Instant;

use boundary::{AlignedBuf, UserBuf};
use cad_softirq::client::{Client, NotOpen};
use cad_softirq::rank::{Card, End, Member, NotStarted, Part, Waker};
use cad_softirq::resend::Resend;
use types::Handle;

use super::far::Trial;
use super::hosts::{Hosts, Where};
use super::ways::{Pair, Ways};
use crate::comm::Comm;
use crate::group::Group;
use crate::state::Engine;

/// Bytes before the tickets where rank 0 tells them: port, entry and id.
pub(super) const HEAD: usize = 16;

/// The connection to the daemon, which ends what was opened on it.
pub(super) struct Daemon {
    client: Client,
    /// Whether an answer was missed: the next one could be that.
    confused: Cell<bool>,
    /// Starts that the kernel said again, of all lanes.
    resent: Cell<u64>,
    /// Where the job's processes are.
    pub(super) hosts: Hosts,
    /// Between which of their hosts packets arrive.
    pub(super) ways: RefCell<Ways>,
    /// Why it could not do what it was asked for last, or what it did was of no use.
    why: RefCell<Option<String>>,
}

impl Daemon {
    pub(super) fn new(client: Client, hosts: Hosts) -> Rc<Daemon> {
        Rc::new(Daemon {
            client,
            confused: Cell::new(false),
            resent: Cell::new(0),
            hosts,
            ways: RefCell::default(),
            why: RefCell::default(),
        })
    }

    /// Notes why something was of no use.
    pub(super) fn note(&self, why: String) {
        self.why.replace(Some(why));
    }

    /// What was noted last.
    pub(super) fn why(&self) -> Option<String> {
        self.why.borrow().clone()
    }

    /// Starts that the kernel said again, until the collectives that have ended last.
    pub(super) fn resent(&self) -> u64 {
        self.resent.get()
    }

    /// What it answers, if it can be asked and does not refuse.
    pub(super) fn ask<T>(&self, what: impl FnOnce(&Client) -> Result<T, NotOpen>) -> Option<T> {
        if self.confused.get() {
            return None;
        }
        let answer = what(&self.client);
        let missed = !matches!(answer, Ok(_) | Err(NotOpen::Refused(_)));
        self.confused.set(missed);
        answer.map_err(|why| self.note(why.to_string())).ok()
    }

    pub(super) fn is_gone(&self) -> bool {
        self.client.is_gone()
    }
}

/// This rank's part in a context.
pub(super) struct Seat {
    pub member: Member,
    /// What has the kernel say again what was started: made when it is wanted first, unless that is refused.
    resend: Option<Resend>,
    refused: bool,
    /// How often that has said something.
    resent: u64,
}

impl Seat {
    /// Has the kernel say again what was started, if it can.
    fn follow(&mut self) {
        if self.refused {
            return;
        }
        if self.resend.is_none() {
            self.resend = Resend::new(&self.member).ok();
        }
        let followed = self.resend.as_mut().map(|r| r.follow(&self.member));
        self.refused = !matches!(followed, Some(Ok(())));
    }

    /// How often the kernel has said something again since this was called last.
    fn newly_resent(&mut self) -> u64 {
        let before = self.resent;
        self.resent = self.resend.as_mut().map_or(before, Resend::said);
        self.resent - before
    }
}

/// A context and what waits for it.
pub(crate) struct Lane {
    /// None as long as not all members have one.
    pub(super) seat: RefCell<Option<Seat>>,
    /// The requests that it has, the first of which is started.
    pub(super) waiting: RefCell<VecDeque<Handle>>,
    /// When the first was started.
    pub(super) begun: Cell<Option<Instant>>,
    /// Whether the first will wake this rank.
    asked: Cell<bool>,
    /// Whether progress knows of it.
    pub(super) listed: Cell<bool>,
    /// Whether it is not known yet whether its members have all it takes.
    opening: Cell<bool>,
    /// Whether they have.
    open: Cell<bool>,
    /// Whether it takes nothing any more.
    closed: Cell<bool>,
    /// The hosts that send to each other, if it has to be tried whether packets arrive between them.
    pub(super) untried: Cell<Option<Vec<Pair>>>,
    /// The barrier that shows that, which is under way.
    pub(super) trial: Cell<Option<Trial>>,
    /// Whether its members are on several hosts.
    far: bool,
    /// Who says why it isn't open.
    pub(super) speaker: Cell<u32>,
    pub(super) group: Rc<Group>,
    pub(super) daemon: Rc<Daemon>,
    /// At a host's first rank, what to close.
    pub(super) card: Cell<Option<Card>>,
}

impl Drop for Lane {
    fn drop(&mut self) {
        let parted = if self.far { self.part() } else { None };
        if let Some(card) = self.card.take() {
            // If the daemon does not answer, it closes the context with the connection.
            let _ = self.daemon.ask(|client| match parted {
                Some(number) => client.leave(&card, number),
                None => client.close(&card),
            });
        }
    }
}

impl Lane {
    fn new(group: Rc<Group>, daemon: Rc<Daemon>, far: bool) -> Lane {
        Lane {
            seat: RefCell::default(),
            waiting: RefCell::default(),
            begun: Cell::new(None),
            asked: Cell::new(false),
            listed: Cell::new(false),
            opening: Cell::new(true),
            open: Cell::new(false),
            closed: Cell::new(false),
            untried: Cell::new(None),
            trial: Cell::new(None),
            far,
            speaker: Cell::new(0),
            group,
            daemon,
            card: Cell::new(None),
        }
    }

    /// Whether it takes nothing any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.get()
    }

    /// Whether its members are on several hosts.
    pub(crate) fn is_far(&self) -> bool {
        self.far
    }

    /// Whether it was open once.
    pub(super) fn is_open(&self) -> bool {
        self.open.get()
    }

    /// Whether it is not known yet whether it opens.
    pub(super) fn is_opening(&self) -> bool {
        self.opening.get()
    }

    /// Which rank says why it isn't open.
    pub(super) fn speaker(&self) -> u32 {
        self.speaker.get()
    }

    /// Starts a barrier before it is open.
    pub(super) fn try_out(&self) {
        if let Some(seat) = self.seat.borrow_mut().as_mut() {
            // What is refused is said again.
            let _ = seat.member.start(Part::Nothing);
            self.asked.set(false);
        }
    }

    /// Whether what was started last is over.
    pub(super) fn is_tried(&self) -> bool {
        let seat = self.seat.borrow();
        seat.as_ref().is_some_and(|seat| seat.member.is_over())
    }

    /// The port of its packets; 0 if it has no seat.
    pub(super) fn port(&self) -> u16 {
        let seat = self.seat.borrow();
        seat.as_ref().map_or(0, |seat| seat.member.port())
    }

    /// Takes nothing any more.
    pub(super) fn close(&self) {
        self.closed.set(true);
        self.begun.set(None);
    }

    /// Starts a collective; none while it isn't open.
    pub(super) fn start(&self, part: Part<'_>) -> Option<Result<(), NotStarted>> {
        let mut seat = self.seat.borrow_mut();
        let seat = seat.as_mut().filter(|_| self.open.get())?;
        if let Part::Fold(flat, _) = part {
            // If it can't be put there, and nobody else does, all are told so, and it runs in calls.
            let put = |client: &Client, card: &Card, slot| client.put(card, slot, flat);
            seat.member.hold(flat, |card, slot| {
                self.daemon.ask(|client| put(client, card, slot)).is_some()
            });
        }
        let started = seat.member.start(part);
        self.asked.set(false);
        if !seat.member.is_over() {
            seat.follow();
        }
        Some(started)
    }

    /// Says once more what was started.
    pub(super) fn say_again(&self) {
        if let Some(seat) = &*self.seat.borrow()
            && self.begun.get().is_some()
        {
            // What is refused is said again.
            let _ = seat.member.again();
        }
    }

    /// Whether the rank is to look: the first one is over, or can be started.
    pub(super) fn is_ready(&self) -> bool {
        let seat = self.seat.borrow();
        let over = |seat: &Seat| self.begun.get().is_none() || seat.member.is_over();
        let starts = self.open.get() || self.trial.get().is_some();
        starts && seat.as_ref().is_some_and(over)
    }

    /// What became of the first one, and when the kernel had it, if it was started and is over.
    pub(super) fn result(&self, data: &mut [u8]) -> Option<(End, u64)> {
        let mut seat = self.seat.borrow_mut();
        let seat = seat.as_mut()?;
        let end = seat.member.result(data)?;
        let resent = &self.daemon.resent;
        resent.set(resent.get() + seat.newly_resent());
        Some((end, seat.member.when()))
    }

    /// Has the first one wake this rank, if it was started.
    pub(super) fn ask(&self, waker: &Waker) {
        if self.begun.get().is_none() || self.asked.replace(true) {
            return;
        }
        if let Some(seat) = &*self.seat.borrow() {
            // Who is not woken looks.
            let _ = waker.ask(&seat.member);
        }
    }

    /// At rank 0: has the daemon open it. What is told of it then, or nothing; and the page.
    fn offer(&self, size: u32, told: &mut [u8]) -> Option<OwnedFd> {
        let opened = self.daemon.ask(|client| client.open(size))?;
        self.card.set(tell(&opened.cards, told));
        Some(opened.page)
    }

    /// Takes this rank's place in it by what was told; whether there is one.
    pub(super) fn sit(&self, told: &[u8], rank: u32, page: Option<OwnedFd>) -> bool {
        let member = card(told, Some(rank)).and_then(|card| {
            let page = page.or_else(|| self.daemon.ask(|client| client.join(&card)))?;
            Member::new(&card, page.as_fd()).ok()
        });
        self.seat.replace(member.map(|member| Seat {
            member,
            resend: None,
            refused: false,
            resent: 0,
        }));
        self.seat.borrow().is_some()
    }
}

/// Writes down what cards have in common, and their tickets; gives the first.
pub(super) fn tell(cards: &[Card], told: &mut [u8]) -> Option<Card> {
    let first = *cards.first()?;
    told[..4].copy_from_slice(&u32::from(first.port).to_le_bytes());
    told[4..8].copy_from_slice(&first.entry.to_le_bytes());
    told[8..HEAD].copy_from_slice(&first.id.to_le_bytes());
    for (card, to) in cards.iter().zip(told[HEAD..].chunks_mut(8)) {
        to.copy_from_slice(&card.ticket.to_le_bytes());
    }
    Some(first)
}

/// A rank's card, as it was told, or, without a rank, what all have in common; `None` if there is none.
pub(super) fn card(told: &[u8], rank: Option<u32>) -> Option<Card> {
    let long = |at: usize| {
        let bytes = told.get(at..at + 8)?.try_into().ok()?;
        Some(u64::from_le_bytes(bytes))
    };
    let (first, id) = (long(0)?, long(8)?);
    Some(Card {
        port: u16::try_from(first & 0xffff_ffff).ok()?,
        entry: (first >> 32) as u32,
        id: Some(id).filter(|&id| id != 0)?,
        input: rank.unwrap_or(0),
        ticket: rank.map_or(Some(0), |rank| long(HEAD + 8 * rank as usize))?,
    })
}

impl Engine {
    /// Gives a communicator its lane, if it can have one; all its members call this and wait until it is open, or closed. If a member is gone, it is
    /// closed.
    pub(crate) fn open_lane(&self, comm: &Rc<Comm>) {
        if let Some(lane) = self.begin_lane(comm, true) {
            // It was empty.
            let _ = comm.lane.set(lane);
        }
        if let Some(lane) = comm.lane.get() {
            self.wait_until(|| Engine::making(comm), |_| !lane.opening.get());
        }
    }

    /// Waits until no lane is being opened any more.
    pub(crate) fn finish_lanes(&self) {
        if let Ok(world) = self.comm(types::consts::COMM_WORLD) {
            self.wait_until(|| Engine::making(&world), |e| e.softirq.opening.get() == 0);
        }
    }

    /// As [`open_lane`](Engine::open_lane), without waiting.
    pub(crate) fn lend_lane(&self, comm: &Rc<Comm>) {
        if let Some(lane) = self.begin_lane(comm, false) {
            // It was empty.
            let _ = comm.lane.set(lane);
        }
    }

    /// A lane for members of a communicator, who all call this in the same order as they begin collectives. It will open, or be closed; where they are on
    /// several hosts and all wait for it, it may be `tried` before.
    pub(crate) fn begin_lane(&self, comm: &Rc<Comm>, tried: bool) -> Option<Rc<Lane>> {
        let daemon = self.softirq.daemon.borrow().clone()?;
        let kept = comm.lanes.get();
        if comm.size() < 2 || !self.softirq.may_have_lane(comm, kept) {
            return None;
        }
        comm.lanes.set(kept.saturating_add(1));
        let team = match daemon.hosts.of_group(&comm.group, comm.rank) {
            Where::Here => None,
            Where::Apart(team) => Some(team),
            Where::Nowhere(why) => {
                daemon.note(why.to_owned());
                return None;
            }
        };
        let lane = Rc::new(Lane::new(comm.group.clone(), daemon, team.is_some()));
        self.softirq.opening.set(self.softirq.opening.get() + 1);
        let (own, on) = (lane.clone(), comm.clone());
        let then = move |e: &Engine, all: &mut AlignedBuf| {
            let mut bytes = vec![0; own.group.members().len()];
            all.buf().read(&mut bytes);
            let lacks = bytes.iter().position(|&has| has != 1);
            own.speaker.set(lacks.unwrap_or(0) as u32);
            match own.untried.take() {
                Some(pairs) if lacks.is_none() => e.try_lane(&on, &own, pairs),
                _ => e.settle_lane(&own, lacks.is_none()),
            }
        };
        // Both collectives get their numbers here: when the first one is over is another moment on each rank.
        match self.internal_bytes_later(comm, Box::new(then)) {
            Ok((answer, mine)) => {
                self.leave_unattended(answer);
                match team {
                    Some(team) => self.open_far(comm, &lane, team, tried, (answer, mine)),
                    None => self.tell_cards(comm, &lane, (answer, mine)),
                }
            }
            Err(_) => self.settle_lane(&lane, false),
        }
        Some(lane)
    }

    /// Rank 0's cards go to all, and each answers whether it has its place.
    fn tell_cards(&self, comm: &Rc<Comm>, lane: &Rc<Lane>, answer: (Handle, UserBuf)) {
        let mut told = vec![0; HEAD + 8 * comm.size() as usize];
        let page = match comm.rank {
            0 => lane.offer(comm.size(), &mut told),
            _ => None,
        };
        let (bytes, rank, own) = (told.len(), comm.rank, lane.clone());
        let then = move |e: &Engine, memory: &mut AlignedBuf| {
            // It may have failed before.
            if own.opening.get() {
                let mut told = vec![0; bytes];
                memory.buf().read(&mut told);
                let sits = own.sit(&told, rank, page);
                answer.1.write(&[u8::from(sits)]);
                e.begin_prepared(answer.0);
            }
        };
        let memory = AlignedBuf::new(bytes).map(|mut memory| {
            memory.buf().write(&told);
            memory
        });
        let begun = memory
            .map(|memory| self.internal_ibcast(comm, 0, bytes as u64, memory, Box::new(then)));
        match begun {
            Some(Ok(handle)) => self.leave_unattended(handle),
            // It answers no.
            _ => self.begin_prepared(answer.0),
        }
    }

    /// All members have heard whether all have what it takes.
    pub(super) fn settle_lane(&self, lane: &Rc<Lane>, agreed: bool) {
        if !lane.opening.replace(false) {
            return;
        }
        self.softirq.opening.set(self.softirq.opening.get() - 1);
        if agreed {
            lane.open.set(true);
            self.drive(lane);
            return;
        }
        if let Some(card) = lane.card.take() {
            let _ = lane.daemon.ask(|client| client.close(&card));
        }
        for handle in self.empty(lane) {
            self.advance_small(handle);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cards_are_read_as_they_are_told() {
        let mut told = vec![0; HEAD + 16];
        assert_eq!(card(&told, Some(0)), None, "there is none");
        told[..4].copy_from_slice(&7117_u32.to_le_bytes());
        told[4..8].copy_from_slice(&5_u32.to_le_bytes());
        told[8..16].copy_from_slice(&(u64::MAX - 3).to_le_bytes());
        told[24..32].copy_from_slice(&77_u64.to_le_bytes());
        let second = card(&told, Some(1)).unwrap();
        let all = (
            second.port,
            second.entry,
            second.id,
            second.input,
            second.ticket,
        );
        assert_eq!(all, (7117, 5, u64::MAX - 3, 1, 77));
        assert_eq!(card(&told, Some(2)), None, "there are two");
        told[2] = 1;
        assert_eq!(card(&told, Some(1)), None, "no port is as large");
    }
}
