//! Collectives in the kernel: with `YAMABIKO_CAD=ring` the non-blocking and persistent ones go to io_uring (crate
//! `cad-ring`), which moves their messages while the rank computes. This module has the executor, the channels and the ends;
//! [`crate::coll`]'s `handed` turns a call into a plan. With `YAMABIKO_CAD=auto` [`chosen`] says which go there, if any; without either
//! nothing here runs and nothing is open.
//!
//! # Who owns what
//!
//! The engine owns the [`Ring`], from `MPI_Init` to `MPI_Finalize`. A request owns its plan, the temporary buffers of its
//! graph and the memory that data with gaps are packed in (`Body::Handed`), until the plan's word says that the kernel has
//! let go of them; then the last few of those are kept for calls like theirs ([`Spent`]). A persistent request keeps all that, and the executor the chains as
//! the kernel takes them ([`Ready`]), from start to start. What
//! the kernel does not do are calculations of the plan: reductions with an operation of the standard's, one that is byte code, or one that
//! the program vouches for, are done by the handler of a signal that the kernel raises (unless [`Callback`] or the program is against it),
//! other reductions, packing and unpacking by the rank when it is next in MPI and makes progress. The ring is taken out of its
//! cell meanwhile, as the program's function may call MPI: such a call makes no progress here.
//!
//! # How ranks agree
//!
//! Whether there is a ring: each rank that can and wants to publishes a card before the fabrics start, whose own exchange has
//! a barrier; afterwards all read all cards. If one is missing, or is of another machine and some rank does not listen to the network, nobody
//! uses the ring. A rank that lets several threads call publishes none, as requests of the kernel end with the thread that made them.
//!
//! Which collectives: all non-blocking and persistent ones (with `auto`: some), by [`Engine::hand_collective`] and [`Engine::keep_handed`], on communicators
//! of more than one process that have a channel. Buffers, counts and types decide nothing: a broadcast's type may be another on each
//! rank. Operations decide nothing either. The blocking ones run in calls, as do those that make communicators.
//!
//! Channels: a plan's messages go on a channel, on which all issue in the same order. One stands for a communicator's
//! non-blocking collectives, which the standard has in order, and one for each persistent collective, since their
//! starts need not be. Its number is made of the communicator's context and the persistent collective's place in the order
//! of initialisations, which all ranks know, and is never used again; so with a ring the first half of a process's context
//! ids is given out once only, and communicators of the second have no channel. Several communicators never share a stream.
//! When a communicator or a persistent request is gone here, the executor closes the channel's streams ([`Channel`]).
//!
//! # Waiting and failure
//!
//! The ring's descriptor joins what this process sleeps on, so a completion ends a sleep in `MPI_Wait`. Progress
//! ([`crate::beside`]) lets the ring look at its completions and ends the requests whose words have changed. That a process is
//! gone, the ring finds out itself or is told by [`crate::failure`]; collectives that it takes part in end with
//! `MPI_ERR_PROC_ABORTED`. `MPI_Finalize` ends the ring after its barrier.

use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;
use std::time::Instant;

use cad_ring::{Kept, Meet, Opening, Ring};
use cad_run::{Callback, Choice, Counts, Executor, Issued, Plan, State};
use cad_softirq::client;
use fabrics::Fabrics;
use types::{Handle, Result, Status, consts, fault};
use wireup::Job;

use crate::coll::Spent;
use crate::comm::{COUNTER_BITS, Comm, UNIQUE_BITS, UNIQUE_IDS, counted, counter_of};
use crate::request::Request;
use crate::state::Engine;
use crate::world::startup_fault;

pub(crate) mod chosen;

use chosen::{Chosen, Waiting};

/// What a communicator keeps of its channels.
#[derive(Default)]
pub(crate) struct Channels {
    /// That of its non-blocking collectives.
    own: OnceCell<Channel>,
    /// Persistent collectives that were initialised so far.
    kept: Cell<u32>,
}

/// A plan for a channel, and what the ring keeps of it from its first issue on.
pub(crate) struct Ready {
    plan: Rc<Plan>,
    channel: u32,
    kept: OnceCell<Kept>,
}

impl Ready {
    pub(crate) fn new(plan: Plan, channel: u32) -> Ready {
        Ready {
            plan: Rc::new(plan),
            channel,
            kept: OnceCell::new(),
        }
    }

    /// The number of its channel.
    pub(crate) fn channel(&self) -> u32 {
        self.channel
    }
}

/// A channel in use, until dropped.
pub(crate) struct Channel {
    number: u32,
    left: Rc<RefCell<Vec<u32>>>,
}

impl Channel {
    /// Its number.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        self.left.borrow_mut().push(self.number);
    }
}

/// The executor in the kernel, and what it has in hand.
#[derive(Default)]
pub(crate) struct Kernel {
    /// Taken out while it is used.
    ring: RefCell<Option<Box<Ring>>>,
    /// This process and the job's size, if there is a ring.
    place: Cell<Option<(u32, u32)>>,
    under_way: RefCell<Vec<(Handle, Issued)>>,
    /// Channels that nobody here uses any more.
    left: Rc<RefCell<Vec<u32>>>,
    /// What collectives that have ended used.
    pub(crate) spent: Spent,
    /// How many plans were made.
    plans: Cell<u64>,
    /// When to look again, if something has to be tried again.
    again: Cell<Option<Instant>>,
    /// Collectives that the kernel ran to their end.
    done: Cell<u64>,
    /// When a test of a collective that the kernel runs last made progress, in cycles.
    looked: Cell<u64>,
    /// What the ring had run when that was last asked for.
    counted: Cell<Counts>,
    /// Non-blocking and persistent collectives that ran in calls.
    in_calls: Cell<u64>,
    /// Which go there, where that is chosen for each.
    chosen: Chosen,
}

/// The key of a rank's card.
fn key(rank: u32) -> String {
    format!("cad.{rank}")
}

/// Cycles for which tests of a collective that the kernel runs leave progress out, some microseconds: progress takes as long as 20 products of two 4 x 4 matrices
/// where there is a network, and what else is under way there takes longer than this anyway.
const REST: u64 = 20_000;

/// What a rank has as its card that was asked to use the ring, and can't.
const CANT: &str = "-";

/// What a rank has found before the fabrics start.
pub(crate) enum Asked {
    /// It was asked to have all run there: with what, or why it can't.
    Insists(std::result::Result<(Opening, Callback), String>),
    /// It was asked to choose: with what, or why it can't have a ring.
    Chooses(std::result::Result<Opening, String>),
}

/// What the engine begins with.
pub(crate) enum Joined {
    /// All non-blocking and persistent collectives go to the ring.
    Ring(Box<Ring>),
    /// Those for which it is chosen do, or none, for a reason.
    Chosen(std::result::Result<Box<Waiting>, String>),
}

/// Publishes this rank's card, if the environment asks for the ring. `settled`: whether more threads than
/// `level` has can't come to call later.
pub(crate) fn open(job: &mut Job, level: i32, settled: bool) -> Result<Option<Asked>> {
    let choice = Choice::from_environment().map_err(startup_fault)?;
    let callback = Callback::from_environment().map_err(startup_fault)?;
    if choice == Choice::Auto {
        let found = chosen::open(job, level, settled)?;
        return Ok(Some(Asked::Chooses(found)));
    }
    if choice != Choice::Ring || job.size() == 1 {
        return Ok(None);
    }
    let asked = match settled && level <= consts::THREAD_FUNNELED {
        false => Err("it serves programs in which only the main thread calls MPI".to_owned()),
        true => opening(job).map(|opening| (opening, callback)),
    };
    let card = match &asked {
        Ok((opening, _)) => opening.card(),
        Err(_) => CANT.to_owned(),
    };
    job.put(&key(job.rank()), &card).map_err(startup_fault)?;
    Ok(Some(Asked::Insists(asked)))
}

/// A process that can be reached: over the network too, where the launcher does not say that all ranks run on one machine.
fn opening(job: &Job) -> std::result::Result<Opening, String> {
    let mut opening = Opening::new().map_err(|why| why.to_string())?;
    let here = job.local_ranks().len() as u32;
    if here != job.size() {
        opening.reach(here).map_err(|why| why.to_string())?;
    }
    Ok(opening)
}

/// The ring, or what it may begin with; the fabrics' start lies between this and [`open`].
/// `secret` is what only the job's ranks know, where they are on several machines.
pub(crate) fn join(
    asked: Asked,
    job: &mut Job,
    fabrics: &mut Fabrics,
    secret: Option<[u8; 32]>,
) -> Result<Option<Joined>> {
    Ok(match asked {
        Asked::Insists(asked) => {
            let ring = join_all(asked, job, fabrics, secret)?;
            ring.map(|ring| Joined::Ring(Box::new(ring)))
        }
        Asked::Chooses(found) => {
            let waiting = match found {
                Ok(opening) => chosen::wait(opening, fabrics, secret)?,
                Err(why) => Err(why),
            };
            Some(Joined::Chosen(waiting.map(Box::new)))
        }
    })
}

/// The ring that is insisted on, if all ranks have published cards that fit. If not, one rank
/// says why for all: the first that can't, or else the first that was asked to.
fn join_all(
    asked: std::result::Result<(Opening, Callback), String>,
    job: &mut Job,
    fabrics: &mut Fabrics,
    secret: Option<[u8; 32]>,
) -> Result<Option<Ring>> {
    let mut cards = Vec::new();
    for rank in 0..job.size() {
        let card = job.get(&key(rank)).map_err(startup_fault)?;
        cards.push(card.unwrap_or_default());
    }
    let fits = asked.and_then(|asked| asked.0.fits(&cards).map(|()| asked));
    match fits {
        Ok((opening, callback)) => {
            let ring = opening.join(job.rank(), &cards, secret, callback, Meet::AtOnce);
            let mut ring = ring.map_err(startup_fault)?;
            calculate(&mut ring, callback, job.rank());
            fabrics
                .sleep_on_too(std::os::fd::AsFd::as_fd(&ring))
                .map_err(startup_fault)?;
            Ok(Some(ring))
        }
        Err(why) => {
            if speaker(&cards) == Some(job.rank() as usize) {
                let (variable, rank) = (Choice::VARIABLE, job.rank());
                let text = format!("yamabiko: rank {rank}: {variable}=ring has no effect: {why}");
                sys::say::line(&text);
            }
            Ok(None)
        }
    }
}

/// Has the kernel reduce by itself, where a kaccd lets it and nothing else is asked for.
fn calculate(ring: &mut Ring, callback: Callback, rank: u32) {
    let wanted = match callback {
        Callback::Any | Callback::Program => ring.calculate_by(&client::name()),
        Callback::Signal | Callback::None => return,
    };
    // Each rank has its own, whatever the others have.
    if let (Err(why), Callback::Program) = (wanted, callback) {
        let variable = Callback::VARIABLE;
        let text = format!("yamabiko: rank {rank}: {variable}=program has no effect: {why}");
        sys::say::line(&text);
    }
}

/// The rank that says why there is no ring.
fn speaker(cards: &[String]) -> Option<usize> {
    let cant = cards.iter().position(|card| card == CANT);
    cant.or_else(|| cards.iter().position(|card| !card.is_empty()))
}

impl Kernel {
    /// Whether collectives go to the kernel.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.place.get().is_some()
    }

    /// Whether all collectives that can go there do, whatever the rule for choosing says. The same at all ranks.
    pub(crate) fn is_insisted_on(&self) -> bool {
        self.is_on() && !self.chosen.is_on()
    }

    /// This process and the job's size, if there is a ring.
    pub(crate) fn place(&self) -> Option<(u32, u32)> {
        self.place.get()
    }

    /// Counts a plan that is made.
    pub(crate) fn count_plan(&self) {
        self.plans.set(self.plans.get() + 1);
    }

    /// Counts a collective that runs in calls.
    pub(crate) fn count_in_calls(&self) {
        self.in_calls.set(self.in_calls.get() + 1);
    }

    /// How many of those there were.
    pub(crate) fn in_calls(&self) -> u64 {
        self.in_calls.get()
    }

    /// Collectives that the kernel ran to their end.
    pub(crate) fn done(&self) -> u64 {
        self.done.get()
    }

    /// What the ring has run; as of its last progress, where it is in use, not there any more, or another's: only the thread that `made` it may
    /// look.
    fn counts(&self, made: bool) -> Counts {
        if made && let Some(counts) = self.with(|ring| ring.counts()) {
            self.counted.set(counts);
        }
        self.counted.get()
    }

    /// Whether progress would find something to do.
    pub(crate) fn is_ready(&self) -> bool {
        let ring = self.ring.try_borrow_mut();
        ring.is_ok_and(|mut ring| ring.as_mut().is_some_and(|ring| ring.is_ready()))
    }

    /// Whether the kernel runs the collective of this request and has nothing to tell.
    fn is_quiet_about(&self, request: Handle) -> bool {
        let under_way = self.under_way.borrow();
        let runs = |(handle, issued): &(Handle, Issued)| {
            *handle == request && issued.query() == State::Pending
        };
        under_way.iter().any(runs) && self.again.get().is_none() && !self.is_ready()
    }

    /// Until when a sleep may last.
    pub(crate) fn again(&self) -> Option<Instant> {
        self.again.get()
    }

    /// Uses the ring, if it is here. It is out of its cell meanwhile.
    fn with<R>(&self, f: impl FnOnce(&mut Ring) -> R) -> Option<R> {
        let mut ring = self.ring.take()?;
        let result = f(&mut ring);
        self.again.set(ring.look_again());
        self.ring.replace(Some(ring));
        Some(result)
    }

    /// A channel of a communicator: the same number on all its ranks, if it has one. `kept` tells its persistent collectives
    /// apart, from 1 on.
    fn channel(&self, comm: &Comm, kept: u32) -> Option<Channel> {
        let (_, size) = self.place.get()?;
        let number = number(comm.context(), size, kept).filter(|_| comm.size() > 1)?;
        Some(Channel {
            number,
            left: self.left.clone(),
        })
    }

    /// The channel of a communicator's non-blocking collectives, if they go to the kernel.
    pub(crate) fn of_comm(&self, comm: &Comm) -> Option<u32> {
        if !self.is_on() {
            return None;
        }
        let own = &comm.channels.own;
        if own.get().is_none() {
            // It was empty.
            let _ = own.set(self.channel(comm, 0)?);
        }
        own.get().map(Channel::number)
    }

    /// A channel for a persistent collective that is being initialised, if it goes to the kernel. All ranks call this in the
    /// same order.
    pub(crate) fn of_persistent(&self, comm: &Comm) -> Option<Channel> {
        if !self.is_on() {
            return None;
        }
        let before = comm.channels.kept.get();
        if self.has_kept_enough(before) {
            return None;
        }
        let kept = before.saturating_add(1);
        comm.channels.kept.set(kept);
        self.channel(comm, kept)
    }
}

/// The number of a channel in a job of `size` processes; `None` where there is none left.
fn number(context: u32, size: u32, kept: u32) -> Option<u32> {
    let (owner, counter) = (context >> (COUNTER_BITS + 1), counter_of(context));
    let bits = UNIQUE_BITS + (u32::BITS - size.saturating_sub(1).leading_zeros());
    if counter >= UNIQUE_IDS || bits >= u32::BITS || kept >> (u32::BITS - bits) != 0 {
        return None;
    }
    Some(kept << bits | owner << UNIQUE_BITS | counter)
}

impl Engine {
    /// Has the kernel take collectives, from now on or from the first that it is chosen for.
    pub(crate) fn begin_kernel(&self, joined: Joined, rank: u32, size: u32) {
        match joined {
            Joined::Ring(ring) => self.start_kernel(*ring, rank, size),
            Joined::Chosen(Err(why)) => self.kernel.chosen.is_without(why),
            Joined::Chosen(Ok(waiting)) => {
                // Of those that are made before it begins too.
                self.context_ids.begin_unique();
                self.kernel.chosen.begin(*waiting);
            }
        }
    }

    /// Has the kernel take collectives from now on.
    fn start_kernel(&self, ring: Ring, rank: u32, size: u32) {
        self.kernel.ring.replace(Some(Box::new(ring)));
        self.kernel.place.set(Some((rank, size)));
        self.context_ids.begin_unique();
        self.beside.set(true);
    }

    /// Says what ran in calls, if the environment asks for it and no other executor takes all it can or has that in its report.
    pub(crate) fn report_in_calls(&self, rank: u32) {
        let others =
            self.kernel.is_insisted_on() || self.softirq.is_on() || self.progress_thread.is_on();
        if others || std::env::var_os(Choice::REPORT).is_none_or(|v| v.is_empty()) {
            return;
        }
        let ran = counted(self.kernel.in_calls.get(), "collective");
        let why = self.kernel.chosen.why_without();
        let why = why.map_or(String::new(), |why| format!("; no ring: {why}"));
        sys::say::line(&format!("yamabiko: rank {rank}: run in calls: {ran}{why}"));
    }

    /// What the ring has run, as far as the calling thread can know.
    pub(crate) fn ring_counts(&self) -> Counts {
        self.kernel.counts(self.is_main_thread())
    }

    /// Ends that; nothing is under way any more in a program that is right.
    pub(crate) fn stop_kernel(&self) {
        self.kernel.chosen.end();
        let Some((rank, _)) = self.kernel.place.take() else {
            return;
        };
        let counts = self.ring_counts();
        let Some(ring) = self.kernel.ring.take() else {
            return;
        };
        if std::env::var_os(Choice::REPORT).is_some_and(|v| !v.is_empty()) {
            let Counts {
                plans,
                nodes,
                in_calls,
                in_signals,
                by_program,
            } = counts;
            let text = match plans {
                0 => "no collective was handed to the kernel".to_string(),
                _ => {
                    let plans = counted(plans, "collective");
                    let nodes = counted(nodes, "node");
                    let made = counted(self.kernel.plans.get(), "plan");
                    format!(
                        "handed to the kernel: {plans} of {nodes}, {in_calls} of which were done in calls, {in_signals} in a \
                         signal's handler, {by_program} by kaccd's program; {made}"
                    )
                }
            };
            sys::say::line(&format!("yamabiko: rank {rank}: {text}"));
        }
        drop(ring);
        self.kernel.under_way.take();
        self.kernel.spent.clear();
    }

    /// Hands a plan over for a request, which has to own what it uses.
    pub(crate) fn issue_to_kernel(&self, handle: Handle, ready: &Ready) -> Result<()> {
        let refused = |why: &str| {
            let text = format!("the kernel does not take the collective: {why}");
            fault(consts::ERR_OTHER, text)
        };
        let issued = self.kernel.with(|ring| {
            let keep = || ring.keep(&ready.plan, ready.channel);
            let kept = ready.kept.get_or_init(keep);
            ring.issue_kept(kept)
        });
        let issued = issued.ok_or_else(|| refused("a reduction function started it"))?;
        let issued = issued.map_err(|why| refused(&why.to_string()))?;
        self.kernel.under_way.borrow_mut().push((handle, issued));
        Ok(())
    }

    /// Prepares the first issue of a plan on its channel.
    pub(crate) fn prepare_in_kernel(&self, ready: &Ready) {
        // While a reduction function has it, the first issue does that.
        let _ = self
            .kernel
            .with(|ring| ring.prepare(&ready.plan, ready.channel));
    }

    /// Whether a test of this request may leave progress out, as the kernel runs its collective, has nothing to tell, and the last test that made
    /// progress, for whatever else is under way, was within [`REST`].
    pub(crate) fn may_leave_to_kernel(&self, request: Handle) -> bool {
        if !self.kernel.is_on() || !self.kernel.is_quiet_about(request) {
            return false;
        }
        let now = sys::clock::cycles();
        let rests = now.wrapping_sub(self.kernel.looked.get()) < REST;
        if !rests {
            self.kernel.looked.set(now);
        }
        rests
    }

    /// Lets the ring do what it can, and ends what is over. Says whether anything moved.
    pub(crate) fn progress_kernel(&self) -> bool {
        let left = self.kernel.left.take();
        let moved = self.kernel.with(|ring| {
            left.iter().for_each(|&channel| ring.forget(channel));
            let moved = ring.progress();
            self.kernel.counted.set(ring.counted());
            moved
        });
        match moved {
            Some(moved) => self.settle_kernel() || moved,
            None => {
                // Somebody up the stack has it.
                self.kernel.left.borrow_mut().extend(left);
                false
            }
        }
    }

    /// Tells the ring that a process is gone, or has left in order.
    pub(crate) fn peer_failed_in_kernel(&self, process: u32, left: bool) {
        let told = self.kernel.with(|ring| match left {
            true => ring.part_from(process),
            false => ring.lose(process),
        });
        if told.is_some() {
            self.settle_kernel();
        }
    }

    /// Ends the requests whose words have changed; whether there were any.
    fn settle_kernel(&self) -> bool {
        let over = |(_, issued): &mut (Handle, Issued)| issued.query() != State::Pending;
        let ended: Vec<_> = self
            .kernel
            .under_way
            .borrow_mut()
            .extract_if(.., over)
            .collect();
        for (handle, issued) in &ended {
            if issued.query() == State::Done {
                self.kernel.done.set(self.kernel.done.get() + 1);
            }
            if let Ok(request) = self.request(*handle) {
                if issued.query() != State::Done {
                    self.note_failed(request);
                }
                self.handed_over(*handle, request);
            }
        }
        !ended.is_empty()
    }

    /// A collective ended early: some process of its communicator is gone, or has given it up.
    fn note_failed(&self, request: &Request) {
        if request.status().error != consts::SUCCESS {
            return;
        }
        let comm = request.comm.borrow().clone();
        let culprit = comm.and_then(|comm| {
            let ring = self.kernel.ring.borrow();
            let mut lost = ring.iter().flat_map(|ring| ring.lost());
            let known = self.lost_of(&comm, &comm.group);
            known.or_else(|| lost.find_map(|process| comm.group.rank_of(process)))
        });
        request.set_status(Status {
            error: consts::ERR_PROC_ABORTED,
            source: culprit.map_or(consts::UNDEFINED, |rank| rank as i32),
            ..request.status()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comm::context;
    use std::collections::HashSet;

    #[test]
    fn channels_are_numbered_apart() {
        for size in [2, 3, 8, 9] {
            let mut seen = HashSet::new();
            for owner in 0..size {
                for counter in [0, 1, 2, 500, UNIQUE_IDS - 1] {
                    for kept in [0, 1, 2, 4000] {
                        let number = number(context(owner, counter as u16), size, kept);
                        assert!(
                            seen.insert(number.unwrap()),
                            "{size} {owner} {counter} {kept}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn one_rank_says_why_there_is_no_ring() {
        let spoken = |cards: [&str; 3]| speaker(&cards.map(str::to_owned));
        assert_eq!(spoken(["", "card", "card"]), Some(1));
        assert_eq!(spoken(["card", "", CANT]), Some(2));
        assert_eq!(spoken([CANT, "card", CANT]), Some(0));
        assert_eq!(spoken(["", "", ""]), None);
    }

    #[test]
    fn where_numbers_end_there_is_no_channel() {
        let none =
            |counter: u32, size, kept| number(context(1, counter as u16), size, kept).is_none();
        assert!(none(UNIQUE_IDS, 2, 0) && !none(UNIQUE_IDS - 1, 2, 0));
        assert!(none(5, 8, 1 << 16) && !none(5, 8, (1 << 16) - 1));
        assert!(none(5, 1 << 20, 0));
    }
}
