//! A lane whose members are on several hosts of one site: how it is opened, tried and left.
//!
//! # Opening
//!
//! On each host the first member there has its daemon offer a context. All members hear all offers, sealed as they are
//! ([`site`](cad_softirq::site)), and the tickets; each host's first has its daemon open the context with them, and all take their places, by their
//! daemon's page. Then all hear whether all have, as in any lane.
//!
//! # Trial
//!
//! Whether packets reach the other hosts nobody knows before some have. So once all members of a communicator that is made while its members wait
//! have their places, they do a barrier there, and all hear whose was over within [`TRIAL`]. If one's wasn't, something between the hosts drops the
//! packets, and the lane is closed. What a trial said is kept ([`ways`](super::ways)): beside its offer each host's first member tells what it
//! knows of the ways between these hosts, so that all members know alike what follows. If the packets are known to arrive, there is no trial; if they are known
//! not to, or nobody waits for one (`MPI_Comm_idup`, persistent collectives: a communicator of the same hosts had one), there is no lane.
//!
//! # End
//!
//! A host's context is what another one asks that lacks a result, so it is there until that has it: each member that frees the lane enters one more
//! barrier, for whose end it doesn't wait (`cad_softirq`'s daemon says what follows). If a host's daemon is gone, what it knew is not known elsewhere: who takes part in something
//! there, or begins something, gets an error, since ranks of the other hosts can't hear that they are to do it in calls.

use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::{Duration, Instant};

use boundary::{AlignedBuf, UserBuf};
use cad_softirq::rank::Part;
use cad_softirq::site::TOKEN;
use types::{Handle, Result, consts, fault};

use super::LOOK_FIRST;
use super::hosts::Team;
use super::lane::{self, HEAD, Lane};
use super::ways::{self, Pair, Seen};
use crate::comm::Comm;
use crate::state::Engine;

/// How long a lane's first barrier may take, of members that all wait for it.
const TRIAL: Duration = Duration::from_secs(5);

/// What waits for the end of a lane's first barrier.
#[derive(Clone, Copy)]
pub(super) struct Trial {
    until: Instant,
    answer: (Handle, UserBuf),
}

/// What a member says of a lane's first barrier: it is over; or it was not for as long as it may take. Nothing else says anything of the ways.
const PASSED: u8 = 1;
const SILENT: u8 = 2;

/// Bytes that each host's first member tells: what its cards have in common, its offer, tickets, and what it has [`Seen`].
fn blocks(team: &Team) -> impl Iterator<Item = usize> {
    team.hosts.iter().map(|r| HEAD + TOKEN + 8 * r.len() + 1)
}

impl Lane {
    /// At a host's first member: has the daemon offer a context. What is told of it, or nothing.
    fn offer_far(&self, team: &Team) -> Vec<u8> {
        let ranks = team.hosts[team.mine].len();
        let tickets = HEAD + TOKEN..HEAD + TOKEN + 8 * ranks;
        let mut told = vec![0; tickets.end + 1];
        let seen = self.daemon.ways.borrow().seen(&team.pairs());
        told[tickets.end] = seen as u8;
        if seen == Seen::Bad {
            return told;
        }
        let place = [team.mine, team.hosts.len()].map(|n| n as u32);
        let ask =
            |client: &cad_softirq::client::Client| client.offer(ranks as u32, place[0], place[1]);
        if let Some(offered) = self.daemon.ask(ask) {
            let mut cards = vec![0; HEAD + 8 * ranks];
            let first = lane::tell(&offered.cards, &mut cards);
            told[..HEAD].copy_from_slice(&cards[..HEAD]);
            told[HEAD..HEAD + TOKEN].copy_from_slice(&offered.token[..]);
            told[tickets].copy_from_slice(&cards[HEAD..]);
            self.card.set(first);
        }
        told
    }

    /// Takes this rank's place by what all hosts told, if that is to be; whether there is one.
    fn sit_far(&self, team: &Team, told: &[u8], tried: bool) -> bool {
        let (mut rest, mut tokens, mut mine) = (told, Vec::new(), Vec::new());
        let (mut seen, mut all) = (Vec::new(), true);
        for (host, bytes) in blocks(team).enumerate() {
            let Some((block, behind)) = rest.split_at_checked(bytes) else {
                return false;
            };
            rest = behind;
            let (head, tickets) = (&block[..HEAD], &block[HEAD + TOKEN..bytes - 1]);
            all &= lane::card(head, None).is_some();
            seen.push(block[bytes - 1]);
            tokens.extend(&block[HEAD..HEAD + TOKEN]);
            if host == team.mine {
                mine = [head, tickets].concat();
            }
        }
        match ways::agreed(&seen) {
            Seen::Good => {}
            Seen::Nothing if tried => self.untried.set(Some(team.pairs())),
            Seen::Nothing | Seen::Bad => return false,
        }
        if !all {
            return false;
        }
        let mut page: Option<OwnedFd> = None;
        if let Some(card) = self.card.get() {
            page = self.daemon.ask(|client| client.bind(&card, &tokens));
            if page.is_none() {
                return false;
            }
        }
        self.sit(&mine, team.place, page)
    }

    /// Enters one more barrier, so that nobody is left without a result: its number.
    pub(super) fn part(&self) -> Option<u64> {
        // Where a member is gone nobody waits for the last contribution.
        let sound = self.is_open() && !self.is_closed();
        let idle = sound && self.waiting.borrow().is_empty();
        let mut seat = self.seat.borrow_mut();
        let seat = seat.as_mut().filter(|_| idle)?;
        // That it isn't sent is as if it were lost.
        let _ = seat.member.start(Part::Nothing);
        Some(seat.member.number())
    }
}

/// What an operation says that was in a lane which has lost its daemon.
pub(crate) const LOST_DAEMON: &str = "the kaccd of this host is gone, which did the communicator's small collectives together with those of other hosts";

impl Engine {
    /// Opens a lane of several hosts, and answers whether this rank has its place.
    pub(super) fn open_far(
        &self,
        comm: &Rc<Comm>,
        lane: &Rc<Lane>,
        team: Team,
        tried: bool,
        answer: (Handle, UserBuf),
    ) {
        let mut lengths = vec![0; comm.size() as usize];
        for (ranks, bytes) in team.hosts.iter().zip(blocks(&team)) {
            lengths[ranks[0] as usize] = bytes as u64;
        }
        let mine = match team.place {
            0 => lane.offer_far(&team),
            _ => Vec::new(),
        };
        // Hosts are in the order of their first ranks, and so are what these tell.
        let (own, all) = (lane.clone(), lengths.iter().sum::<u64>() as usize);
        let then = move |e: &Engine, memory: &mut AlignedBuf| {
            // It may have failed before.
            if !own.is_opening() {
                return;
            }
            let mut told = vec![0; all];
            memory.buf().read(&mut told);
            let sits = own.sit_far(&team, &told, tried);
            e.answer_for(answer, u8::from(sits));
        };
        match self.internal_blocks(comm, &lengths, &mine, Box::new(then)) {
            Ok(handle) => self.leave_unattended(handle),
            // It answers no.
            Err(_) => self.begin_prepared(answer.0),
        }
    }

    fn answer_for(&self, answer: (Handle, UserBuf), says: u8) {
        answer.1.write(&[says]);
        self.begin_prepared(answer.0);
    }

    /// Has a lane do a barrier, in which all members have their places, before it takes anything. All wait for it, so nothing else begins on the
    /// communicator meanwhile.
    pub(super) fn try_lane(&self, comm: &Rc<Comm>, lane: &Rc<Lane>, pairs: Vec<Pair>) {
        let own = lane.clone();
        let then = move |e: &Engine, all: &mut AlignedBuf| {
            let mut said = vec![0; own.group.members().len()];
            all.buf().read(&mut said);
            e.judge_lane(&own, &pairs, &said);
        };
        let Ok(answer) = self.internal_bytes_later(comm, Box::new(then)) else {
            return self.settle_lane(lane, false);
        };
        self.leave_unattended(answer.0);
        let now = Instant::now();
        lane.try_out();
        let until = now + TRIAL;
        lane.trial.set(Some(Trial { until, answer }));
        lane.begun.set(Some(now));
        if !lane.listed.replace(true) {
            self.softirq.active.borrow_mut().push(lane.clone());
        }
        self.softirq.look.set(Some(now + LOOK_FIRST));
    }

    /// Opens a lane, or closes it, by what all members say of its trial.
    fn judge_lane(&self, lane: &Rc<Lane>, pairs: &[Pair], said: &[u8]) {
        // Where a member is gone the others' trials are under way.
        lane.trial.set(None);
        lane.begun.set(None);
        let lacks = said.iter().position(|&says| says != PASSED);
        lane.speaker.set(lacks.unwrap_or(0) as u32);
        if said.iter().all(|says| [PASSED, SILENT].contains(says)) {
            let mut ways = lane.daemon.ways.borrow_mut();
            ways.note(pairs, lacks.is_none());
        }
        if said.contains(&SILENT) {
            let why = format!("packets for port {} don't reach all hosts", lane.port());
            lane.daemon.note(why);
        }
        self.settle_lane(lane, lacks.is_none());
    }

    /// Looks at a lane that is tried; whether it is over.
    pub(super) fn follow_trial(&self, lane: &Lane) -> bool {
        let Some(trial) = lane.trial.get() else {
            return false;
        };
        let says = match lane.is_tried() {
            true => PASSED,
            false if lane.is_closed() => 0,
            false if Instant::now() >= trial.until => SILENT,
            false => return false,
        };
        self.say_of_trial(lane, says);
        true
    }

    /// Ends a lane's trial that says nothing of the ways, if there is one.
    pub(super) fn end_trial(&self, lane: &Lane) {
        self.say_of_trial(lane, 0);
    }

    fn say_of_trial(&self, lane: &Lane, says: u8) {
        if let Some(trial) = lane.trial.take() {
            lane.begun.set(None);
            self.answer_for(trial.answer, says);
        }
    }

    /// Ends with an error what a lane of several hosts had when this host's daemon went; whether there was something.
    pub(super) fn lose_far(&self, lane: &Lane) -> bool {
        lane.close();
        let handles = lane.waiting.take();
        for &handle in &handles {
            self.small_over(handle, None);
        }
        !handles.is_empty()
    }

    /// Whether this host's daemon is gone, and with it what lanes of several hosts had.
    pub(crate) fn has_lost_daemon(&self) -> bool {
        self.softirq.dead.get()
    }

    /// That a lane has lost its daemon, which other hosts can't know.
    pub(crate) fn check_lane(&self, lane: &Lane) -> Result<()> {
        match lane.is_far() && lane.is_open() && self.softirq.dead.get() {
            true => Err(fault(consts::ERR_OTHER, LOST_DAEMON)),
            false => Ok(()),
        }
    }
}
