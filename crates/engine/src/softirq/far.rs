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
//! Whether packets reach the other hosts nobody knows before some have. So a member of a communicator that is made while its members wait says
//! that it has its place only after a barrier there was over, or says no after [`TRIAL`]: something between the hosts drops the packets then, and the lane is
//! closed, of which all hear alike. Where nobody waits (`MPI_Comm_idup`, persistent collectives) there is none: their hosts are some of
//! those of `MPI_COMM_WORLD`.
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

/// Bytes that each host's first member tells: what its cards have in common, its offer, and tickets.
fn blocks(team: &Team) -> impl Iterator<Item = usize> {
    team.hosts.iter().map(|r| HEAD + TOKEN + 8 * r.len())
}

impl Lane {
    /// At a host's first member: has the daemon offer a context. What is told of it, or nothing.
    fn offer_far(&self, team: &Team) -> Vec<u8> {
        let ranks = team.hosts[team.mine].len();
        let mut told = vec![0; HEAD + TOKEN + 8 * ranks];
        let place = [team.mine, team.hosts.len()].map(|n| n as u32);
        let ask =
            |client: &cad_softirq::client::Client| client.offer(ranks as u32, place[0], place[1]);
        if let Some(offered) = self.daemon.ask(ask) {
            let mut cards = vec![0; HEAD + 8 * ranks];
            let first = lane::tell(&offered.cards, &mut cards);
            told[..HEAD].copy_from_slice(&cards[..HEAD]);
            told[HEAD..HEAD + TOKEN].copy_from_slice(&offered.token[..]);
            told[HEAD + TOKEN..].copy_from_slice(&cards[HEAD..]);
            self.card.set(first);
        }
        told
    }

    /// Takes this rank's place by what all hosts told; whether there is one.
    fn sit_far(&self, team: &Team, told: &[u8]) -> bool {
        let (mut rest, mut tokens, mut mine) = (told, Vec::new(), Vec::new());
        for (host, bytes) in blocks(team).enumerate() {
            let Some((block, behind)) = rest.split_at_checked(bytes) else {
                return false;
            };
            rest = behind;
            let (head, tickets) = (&block[..HEAD], &block[HEAD + TOKEN..]);
            if lane::card(head, None).is_none() {
                return false;
            }
            tokens.extend(&block[HEAD..HEAD + TOKEN]);
            if host == team.mine {
                mine = [head, tickets].concat();
            }
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
            match own.sit_far(&team, &told) {
                true if tried => e.try_lane(&own, answer),
                sits => e.answer_for(answer, sits),
            }
        };
        match self.internal_blocks(comm, &lengths, &mine, Box::new(then)) {
            Ok(handle) => self.leave_unattended(handle),
            // It answers no.
            Err(_) => self.begin_prepared(answer.0),
        }
    }

    fn answer_for(&self, answer: (Handle, UserBuf), has: bool) {
        answer.1.write(&[u8::from(has)]);
        self.begin_prepared(answer.0);
    }

    /// Has a lane do a barrier before this rank answers.
    fn try_lane(&self, lane: &Rc<Lane>, answer: (Handle, UserBuf)) {
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

    /// Looks at a lane that is tried; whether it is over.
    pub(super) fn follow_trial(&self, lane: &Lane) -> bool {
        let Some(trial) = lane.trial.get() else {
            return false;
        };
        let passed = lane.is_tried();
        let over = passed || lane.is_closed() || Instant::now() >= trial.until;
        if over {
            self.end_trial(lane, passed);
        }
        over
    }

    /// Ends a lane's trial, if there is one.
    pub(super) fn end_trial(&self, lane: &Lane, passed: bool) {
        let Some(trial) = lane.trial.take() else {
            return;
        };
        lane.begun.set(None);
        if !passed {
            let why = format!("packets for port {} don't reach all hosts", lane.port());
            lane.daemon.note(why);
        }
        if lane.is_opening() {
            self.answer_for(trial.answer, passed);
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
