//! The executor: issues, what becomes of them, and what the kernel says about them. (Other processes: `peers`.)
//!
//! Invariants: an issue has a slot until all its chains have told that they are over, so no completion
//! comes to another's. On a lane of a channel one issue at a time has chains under way; the others stand in
//! line in the order of their numbers, and have no descriptors of their own yet; the system may refuse those when an issue's turn comes, and
//! then it waits for what others give back. An issue that fails tells all peers of its plan, and then closes its
//! streams, so whoever finds a stream at its end can know why.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use cad_run::{Callback, Counts, Executor, Issued, NotIssued, Plan, State};

use crate::calls::{Prepared, Ran};
use crate::cells::Cells;
use crate::channel::Channel;
use crate::claims::Claims;
use crate::code::{COPY_MAX, Code};
use crate::control::{Control, Meet, Own};
use crate::interrupt::Bell;
use crate::lanes::Lanes;
use crate::running::{Pair, Running};
use crate::uring::{Completion, Name, Unusable, Uring};

mod issue;
mod kept;
mod peers;
#[cfg(test)]
mod tests;

use kept::Keep;
pub use kept::Kept;

/// Compiled plans that are kept before the first look for those that are gone.
const CODES: usize = 64;
/// How often one call takes what the kernel tells: strangers who knock without end keep no rank in it.
const ROUNDS: usize = 8;
/// How long a look takes while an issue that failed is still in the kernel; it is cancelled again then.
const AGAIN: Duration = Duration::from_millis(1);
/// How long an issue waits for descriptors that other issues have, while none of these ends.
const STARVE: Duration = Duration::from_secs(10);
/// How long the end of the executor waits for its issues to leave the kernel.
const LEAVE: Duration = Duration::from_secs(10);

/// A process that can be reached, and does not know the others.
pub struct Opening {
    uring: Uring,
    own: Own,
}

impl Opening {
    /// Tries the kernel out.
    ///
    /// # Errors
    /// Why it does not work here.
    pub fn new() -> Result<Opening, Unusable> {
        let uring = Uring::new()?;
        let failed = |e| Unusable(format!("listening for the other ranks failed: {e}"));
        let own = Own::listen().map_err(failed)?;
        Ok(Opening { uring, own })
    }

    /// Listens to the network too, so that jobs of several hosts are served. To be called before the card is taken. `ranks`: how many of the
    /// job are on this machine, and need a port each for this and one for the fabric, which may be a limited number.
    ///
    /// # Errors
    /// Why it can't, in words for a person.
    pub fn reach(&mut self, ranks: u32) -> Result<(), Unusable> {
        self.own.reach(ranks).map_err(Unusable)
    }

    /// What all other processes of the job, and nobody else, have to know: printable, without blanks, below
    /// 400 bytes.
    pub fn card(&self) -> String {
        self.own.card()
    }

    /// Whether these cards, those of all processes in their order, are of a job that this executor serves: all
    /// processes come to the same answer.
    ///
    /// # Errors
    /// Why it is not, in words for a person.
    pub fn fits(&self, cards: &[String]) -> Result<(), String> {
        self.own.places(cards).map(drop)
    }

    /// The same, and where the processes are: equal numbers are one host, network namespace and user.
    ///
    /// # Errors
    /// As of [`fits`](Opening::fits).
    pub fn places(&self, cards: &[String]) -> Result<Vec<u64>, String> {
        self.own.places(cards)
    }

    /// The executor of process `rank`, for the thread that calls this; `cards` are those of all
    /// processes, in their order. `secret` is what these alone know; it is needed where they are on several hosts, and there this waits for
    /// all to come, if they shall `meet` at once. Where the call-back does not work here, calculations wait for the rank's calls.
    ///
    /// # Errors
    /// Why it can't serve this job.
    pub fn join(
        mut self,
        rank: u32,
        cards: &[String],
        secret: Option<[u8; 32]>,
        callback: Callback,
        meet: Meet,
    ) -> Result<Ring, Unusable> {
        let control = self.own.join(rank, cards, secret, meet).map_err(Unusable)?;
        let bell = match callback {
            Callback::None => None,
            _ => Bell::new(&mut self.uring).ok(),
        };
        let mut ring = Ring {
            uring: self.uring,
            bell,
            cells: None,
            control,
            lanes: Lanes::default(),
            claims: Claims::default(),
            copy_max: copy_max(),
            slots: Vec::new(),
            unsettled: 0,
            kept: Vec::new(),
            dropped: Rc::default(),
            channels: HashMap::new(),
            overs: HashMap::new(),
            forgotten: HashSet::new(),
            leaving: Vec::new(),
            starving: None,
            codes: HashMap::new(),
            spare_tokens: Vec::new(),
            spare_pairs: Vec::new(),
            spoilt: Vec::new(),
            counts: Counts::default(),
            process: std::process::id(),
        };
        ring.attend();
        match ring.uring.is_broken() {
            true => Err(Unusable("the ring takes nothing".to_owned())),
            false => Ok(ring),
        }
    }
}

/// What the executor's will be, for whoever has to know it before: nothing is to be read there till then.
impl AsFd for Opening {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.uring.fd()
    }
}

/// The executor of one process. It belongs to the thread that made it.
pub struct Ring {
    uring: Uring,
    /// What calls the handler that calculates, if the rank need not.
    bell: Option<Bell>,
    /// Where the kernel calculates by itself.
    cells: Option<Cells>,
    control: Control,
    lanes: Lanes,
    claims: Claims,
    /// Bytes that the kernel copies in one piece.
    copy_max: u64,
    slots: Vec<Option<Box<Running>>>,
    /// How many issues in slots have not begun or have failed.
    unsettled: usize,
    /// Plans that are kept, by their index; and those whose owner has dropped them.
    kept: Vec<Option<Keep>>,
    dropped: Rc<RefCell<Vec<usize>>>,
    channels: HashMap<u32, Rc<Channel>>,
    /// By peer: what it told of the ends of issues that are still to come here.
    overs: HashMap<u32, BTreeMap<(u32, u64), State>>,
    /// Channels on which nothing more is issued; and of these, those that still need something.
    forgotten: HashSet<u32>,
    leaving: Vec<u32>,
    /// The first issue that lacks descriptors, and until when it waits for some.
    starving: Option<(usize, Instant)>,
    codes: HashMap<*const Plan, (Weak<Plan>, Rc<Code>)>,
    spare_tokens: Vec<OwnedFd>,
    spare_pairs: Vec<Pair>,
    /// Streams to processes of other hosts on which a later issue has failed, and which an earlier one still uses: closed when that is over.
    spoilt: Vec<(u32, Rc<OwnedFd>)>,
    counts: Counts,
    process: u32,
}

impl Executor for Ring {
    fn name(&self) -> &'static str {
        "ring"
    }

    fn issue_with(
        &mut self,
        plan: &Rc<Plan>,
        channel: u32,
        word: Arc<AtomicU32>,
    ) -> Result<Issued, NotIssued> {
        self.progress();
        let (code, channel) = self.ready(plan, channel)?;
        let running = Running::new(plan.clone(), code, channel, word);
        Ok(self.enter(Box::new(running)))
    }

    fn progress(&mut self) -> bool {
        if !self.has_work() {
            return false;
        }
        let mut moved = false;
        let mut completions = Vec::new();
        for _ in 0..ROUNDS {
            self.uring.take(&mut completions);
            if completions.is_empty() {
                break;
            }
            moved = true;
            for completion in completions.drain(..) {
                self.told(&completion);
            }
            self.attend();
        }
        if self.control.is_behind() {
            self.control.catch_up();
            self.attend();
        }
        if let Some(starving) = self.starving.take() {
            self.attend();
            self.starve_on(starving);
        }
        self.cancel_again();
        if !self.leaving.is_empty() {
            self.let_go();
        }
        self.let_go_of_kept();
        moved
    }

    fn wait(&mut self, issued: &Issued, deadline: Option<Instant>) -> State {
        loop {
            let state = issued.query();
            if state != State::Pending {
                return state;
            }
            if self.progress() {
                continue;
            }
            if deadline.is_some_and(|d| Instant::now() >= d) {
                return State::Pending;
            }
            let again = self.look_again();
            let until = deadline.into_iter().chain(again).min();
            self.uring.wait(until);
        }
    }

    fn cancel(&mut self, issued: &Issued) {
        self.progress();
        let running = self.slots.get(issued.slot()).and_then(Option::as_ref);
        if running.is_some_and(|r| issued.writes(&r.word)) {
            self.fail(issued.slot(), State::Cancelled);
            self.attend();
            self.progress();
        }
    }

    fn lose(&mut self, process: u32) {
        // What it said before comes first.
        self.control.hear_all(process);
        self.control.lose(process);
        self.attend();
    }

    fn counts(&mut self) -> Counts {
        // The kernel writes the word of an issue before it tells of it.
        self.progress();
        self.counts
    }
}

/// What becomes readable when there is something for `progress` to do.
impl AsFd for Ring {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.uring.fd()
    }
}

impl Ring {
    /// What has run as of the last progress.
    pub fn counted(&self) -> Counts {
        self.counts
    }

    /// Whether `progress` has something to do.
    pub fn is_ready(&mut self) -> bool {
        self.uring.is_ready()
    }

    /// Until when whoever waits by other means than `wait` may sleep, if something has to be tried again.
    pub fn look_again(&self) -> Option<Instant> {
        let soon = self.is_failing() || self.control.is_behind() || self.starving.is_some();
        soon.then(|| Instant::now() + AGAIN)
    }

    /// A process has left in order: what it owed others it has said before, and issues that need nothing else of it go on.
    pub fn part_from(&mut self, process: u32) {
        self.control.hear_all(process);
        self.control.part_from(process);
        self.attend();
    }

    /// Whether `progress` has something to do, be it only to be tried again.
    #[inline]
    fn has_work(&mut self) -> bool {
        let behind = self.control.is_behind() || self.starving.is_some() || self.unsettled > 0;
        let leaves = !self.leaving.is_empty() || !self.dropped.borrow().is_empty();
        behind || leaves || self.uring.is_ready()
    }

    /// Does what can be done before the first issue of a plan on its channel: makes the streams to other hosts that it needs of
    /// this process.
    pub fn prepare(&mut self, plan: &Rc<Plan>, channel: u32) {
        let Ok(code) = self.compiled(plan) else {
            return;
        };
        self.lend_afar(&code, channel);
    }

    /// Has reductions that are [known](cad_run::Known) done by the program of the kaccd under this name. Plans that were issued before stay as they are.
    ///
    /// # Errors
    /// Why that does not work here; they are done as before.
    pub fn calculate_by(&mut self, kaccd: &[u8]) -> Result<(), Unusable> {
        // Its own may have something to tell.
        let mut trial = Uring::new()?;
        self.cells = Some(Cells::new(kaccd, &mut trial)?);
        Ok(())
    }

    /// The processes that are gone.
    pub fn lost(&self) -> impl Iterator<Item = u32> {
        self.control.lost()
    }

    /// The code of a plan, from an earlier issue or new.
    fn compiled(&mut self, plan: &Rc<Plan>) -> Result<Rc<Code>, String> {
        let key = Rc::as_ptr(plan);
        // While the weak reference is there, no other plan has the address.
        if let Some((_, code)) = self.codes.get(&key) {
            return Ok(code.clone());
        }
        let cells = &mut self.cells;
        let formula = |how: &_| cells.as_mut()?.formula(how);
        let code = Code::new(plan, self.control.size(), self.copy_max, formula)?;
        let code = Rc::new(code);
        if self.codes.len() >= CODES {
            self.codes.retain(|_, (plan, _)| plan.strong_count() > 0);
        }
        self.codes.insert(key, (Rc::downgrade(plan), code.clone()));
        Ok(code)
    }

    /// An issue lacks descriptors: it is tried again.
    fn starve(&mut self, slot: usize) {
        self.drop_idle();
        self.spare_tokens.clear();
        self.spare_pairs.clear();
        self.control.spare();
        self.starving
            .get_or_insert_with(|| (slot, Instant::now() + STARVE));
    }

    /// If there are still too few descriptors: the first issue that lacks them ends, if nothing gives any back.
    fn starve_on(&mut self, (slot, until): (usize, Instant)) {
        let Some((first, _)) = self.starving else {
            return;
        };
        let moves = |r: &Running| r.begun && r.failed.is_none();
        if first == slot {
            self.starving = Some((slot, until));
        }
        let waits = first != slot || Instant::now() < until;
        if !waits || !self.slots.iter().flatten().any(|r| moves(r)) {
            self.starving = None;
            self.fail(first, State::Lost);
            self.attend();
        }
    }

    fn told(&mut self, completion: &Completion) {
        match completion.name {
            Name::Watch(id) => self.control.event(id, completion.more),
            Name::Ask { slot, ask } => self.answer(slot as usize, ask),
            Name::Chain { slot, chain, last } => {
                let slot = slot as usize;
                let Some(running) = self.slots.get_mut(slot).and_then(Option::as_mut) else {
                    return;
                };
                if !running.chain_over(chain, last, completion.result) && running.failed.is_none() {
                    self.explain(slot);
                }
                self.finish(slot);
            }
        }
    }

    /// A chain ended early: says why.
    fn explain(&mut self, slot: usize) {
        let Some(running) = self.slots[slot].as_ref() else {
            return;
        };
        let code = running.code.clone();
        // Whoever closed a stream said why before.
        for &peer in &code.peers {
            self.control.hear_all(peer);
        }
        self.hear();
        self.fail(slot, State::Lost);
    }

    /// A chain waits for the rank.
    fn answer(&mut self, slot: usize, ask: u32) {
        let Some(running) = self.slots.get(slot).and_then(Option::as_ref) else {
            return;
        };
        if running.failed.is_some() {
            return;
        }
        match running.prepared.run(ask) {
            Ran::Not => {}
            Ran::Done => return,
            Ran::Untold => return self.fail(slot, State::Lost),
        }
        let Some(ask) = running.code.asks.get(ask as usize).copied() else {
            return;
        };
        match running.plan.graph().node(ask.node).kind {
            cad::Kind::Copy => running.plan.copy(ask.node, ask.start, ask.bytes),
            _ => running.plan.compute(ask.node),
        }
        let token = running.tokens.get(ask.answer as usize);
        // A token that has no unit takes one.
        let posted = token.map(|t| rustix::io::write(t, &1u64.to_ne_bytes()));
        if !matches!(posted, Some(Ok(8))) {
            self.fail(slot, State::Lost);
        }
    }

    /// An issue ends early, unless it is over.
    fn fail(&mut self, slot: usize, why: State) {
        let Some(running) = self.slots.get_mut(slot).and_then(Option::as_mut) else {
            return;
        };
        if running.failed.is_some() || (running.begun && running.is_done()) {
            return;
        }
        running.failed = Some(why);
        self.unsettled += usize::from(running.begun);
        self.cancel_chains(slot);
        self.finish(slot);
    }

    fn cancel_chains(&mut self, slot: usize) {
        let running = self.slots[slot].as_ref();
        let Some(running) = running.filter(|r| r.begun) else {
            return;
        };
        for (chain, _) in running.under_way.iter().enumerate().filter(|(_, u)| **u) {
            self.uring.cancel(slot as u32, chain as u32);
        }
    }

    fn is_failing(&self) -> bool {
        let failing = |r: &Running| r.failed.is_some();
        self.unsettled > 0 && self.slots.iter().flatten().any(|r| failing(r))
    }

    /// A chain between two steps can't be cancelled, so it is tried until all have told.
    fn cancel_again(&mut self) {
        if self.unsettled == 0 {
            return;
        }
        for slot in 0..self.slots.len() {
            let failing = |r: &Running| r.failed.is_some();
            if self.slots[slot].as_deref().is_some_and(failing) {
                self.cancel_chains(slot);
            }
        }
    }

    /// The kernel has stopped taking submissions: what it took of an issue is cancelled, nothing follows. A chain of which it
    /// took a part doesn't tell, so this waits until the kernel uses no buffer any more.
    fn abandon(&mut self, slot: usize) {
        let chains = self.slots[slot].as_ref().map_or(0, |r| r.under_way.len());
        self.uring.end(slot as u32, chains as u32);
        if let Some(running) = self.slots[slot].as_mut() {
            // Not settled, as a step of a chain of which this hears nothing may still be to come.
            running.prepared = Prepared::default();
            self.unsettled += usize::from(running.failed.is_none());
            running.failed = Some(State::Lost);
            running.under_way.fill(false);
        }
        self.finish(slot);
    }

    /// Ends an issue, if it is over and the kernel has let go of its buffers.
    fn finish(&mut self, slot: usize) {
        let over = |r: &Running| !r.is_busy() && (r.ended || r.failed.is_some());
        if !self.slots[slot].as_deref().is_some_and(over) {
            return;
        }
        let Some(mut running) = self.slots[slot].take() else {
            return;
        };
        self.unsettled -= usize::from(running.failed.is_some());
        running.channel.leave(running.number, slot);
        if let Some((_, until)) = &mut self.starving {
            *until = Instant::now() + STARVE;
        }
        if running.ended {
            self.done(running);
            if !self.spoilt.is_empty() {
                self.close_spoilt();
            }
            return;
        }
        running.prepared.settle();
        if !self.uring.is_broken() {
            // Else a chain may not have told everything.
            self.reclaim(&mut running);
        }
        let why = running.failed.unwrap_or(State::Lost);
        running.streams.clear();
        for &peer in &running.code.peers {
            let (channel, number) = (running.channel.number, running.number);
            self.control.tell_over(peer, channel, number, why);
            self.spoil(running.place(peer), number);
        }
        self.close_spoilt();
        running.word.store(why as u32, Ordering::Release);
    }

    /// An issue came to its END.
    fn done(&mut self, mut running: Box<Running>) {
        let keeps = running.prepared.is_kept();
        let by_handler = match keeps {
            true => running.prepared.rest(),
            false => running.prepared.settle(),
        };
        self.counts.plans += 1;
        self.counts.nodes += running.code.nodes;
        let by_program = running.by_program();
        self.counts.in_calls += running.code.in_calls - by_handler - by_program;
        self.counts.in_signals += by_handler;
        self.counts.by_program += by_program;
        self.park(running);
    }

    /// Everything that follows from what was heard: until nothing does.
    fn attend(&mut self) {
        loop {
            while self.start_waiting() {}
            self.watch();
            if !self.hear() {
                return;
            }
        }
    }

    /// Starts the issues that can; whether any issue ended of that, as then it may be the turn of one that was looked at before.
    fn start_waiting(&mut self) -> bool {
        if self.unsettled == 0 {
            return false;
        }
        let under_way = |ring: &Ring| ring.slots.iter().flatten().count();
        let before = under_way(self);
        for slot in 0..self.slots.len() {
            let waits = |r: &Running| !r.begun && r.failed.is_none();
            if self.slots[slot].as_deref().is_some_and(waits) {
                self.start(slot);
            }
        }
        under_way(self) < before
    }
}

/// Bytes that a pair of sockets takes while nobody receives; 0 if not worth it.
fn copy_max() -> u64 {
    let mut bytes = COPY_MAX;
    while bytes >= 4096 {
        let taken = sys::unix::pair(sys::unix::Kind::Stream)
            .and_then(|(a, _b)| Ok(rustix::io::write(a, &vec![0; bytes as usize])?));
        if taken.is_ok_and(|n| n as u64 == bytes) {
            return bytes;
        }
        bytes /= 2;
    }
    0
}

impl Drop for Ring {
    fn drop(&mut self) {
        // A forked child has a copy of this, but not the requests.
        if self.process != std::process::id() {
            return;
        }
        for slot in 0..self.slots.len() {
            self.fail(slot, State::Cancelled);
        }
        let end = Instant::now() + LEAVE;
        while self.slots.iter().flatten().any(|r| r.is_busy()) && Instant::now() < end {
            if !self.progress() {
                self.uring.wait(Some(Instant::now() + AGAIN));
            }
        }
        // The kernel may still use what these have.
        let busy = |slot: &mut Option<Box<Running>>| slot.take_if(|r| r.is_busy());
        self.slots
            .iter_mut()
            .filter_map(busy)
            .for_each(std::mem::forget);
        self.drop_idle();
        self.control.leave();
        for id in self.control.watches().collect::<Vec<_>>() {
            self.uring.unwatch(id);
        }
    }
}
