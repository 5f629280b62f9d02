//! Waiting: spin a little, then tell the hang report what is waited for and sleep.

use std::time::Instant;

use mtmi::slot::{Slots, wait_until};
use mtmi::{Sleeper, Transport};
use types::{Handle, Result, consts};

use crate::beside::BINDS;
use crate::failure::LOOK;
use crate::state::{Engine, lock};
use crate::world::Fabric;

/// How a thread sleeps outside the engine's lock.
pub(crate) type Asleep = <Fabric as Transport>::Sleeper;

/// Progress passes before a wait is written to the hang report and may sleep. A message that is
/// under way arrives within a few; a longer spin of its own is the fabric's business, which knows
/// whether ranks outnumber cores.
const PASSES: u32 = 64;
/// The same where ranks share processors: whoever is waited for may need this one (8 ranks on 2 processors: a barrier by messages in 19 us
/// in place of 35).
const PASSES_SHARED: u32 = 4;

/// Most [cycles](sys::clock::cycles) between two calls of a program that polls and does little else: a microsecond or so, or four.
const BETWEEN_POLLS: u64 = 4_000;
/// So many such calls in a row give the processor away once: one that asks for several requests in turn does not do that each time. Four ranks
/// on two processors that exchange messages around a ring, and wait for them by `MPI_Test`, take some microseconds a step so in place
/// of 3,000.
const POLLS_TO_GIVE_WAY: u32 = 4;
/// The same beside a network where nobody is known to share the processor: once in some tens of microseconds, which tells whether somebody does. (Five ranks in
/// namespaces of their own, on two processors, which wait by `MPI_Test`: an integer is reduced for all in 65 to 70 us in place of 13,000.)
const POLLS_TO_LOOK: u32 = 64;
/// One that computes between its calls, so that they are no polling, gives the processor away after so many cycles, some tens of microseconds:
/// whoever it waits for may be ready to run here, and would when the system takes the processor away, milliseconds later. (Four ranks on two processors,
/// which test each 16 us: a broadcast of 8 bytes takes 50 us in place of 3,500, of 1 MiB 0.3 ms in place of 4 to 16.)
const BETWEEN_TURNS: u64 = 100_000;
/// Where others keep it for long, as those do that don't wait for anybody, it is given away more rarely, so that one part in so many is had here. (Beside
/// a rank that only computes, one that computes and tests would have 3 % of the processor.) Where less than so many ranks share a processor, they don't keep it longer and longer so.
const PART: u64 = 8;
/// But at least so often, half a millisecond or so.
const TURN_MAX: u64 = 1_000_000;

/// What a call waits for, as the hang report shows it. `MPI_UNDEFINED` where it doesn't apply.
#[derive(Clone, Copy, Debug)]
pub struct Waiting {
    /// The MPI call.
    pub call: &'static str,
    /// What was called before to have the request that it waits for, where that is known.
    pub operation: Option<&'static str>,
    /// Rank of the peer, or a sentinel.
    pub peer: i32,
    /// Tag, or a sentinel.
    pub tag: i32,
    /// Bytes of the transfer.
    pub bytes: u64,
    /// Context of the communicator.
    pub context: u32,
}

/// Communicators among which that of a wait is searched for at the most: the time of it adds to the wait.
const COMMS_SEARCHED: usize = 64;

/// What the hang report has been told of a wait.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Told {
    peer: i32,
    /// How many waits it had been told of that were over by then.
    over: u64,
}

impl Waiting {
    /// A call on the communicator of a context (0 if there is none), of which no more is known.
    pub const fn new(call: &'static str, context: u32) -> Waiting {
        Waiting {
            call,
            operation: None,
            peer: consts::UNDEFINED,
            tag: consts::UNDEFINED,
            bytes: 0,
            context,
        }
    }
}

impl Engine {
    /// Waits until the request is done.
    #[inline]
    pub(crate) fn wait_request(&self, handle: Handle, what: impl Fn() -> Waiting) -> Result<()> {
        let request = self.request(handle)?;
        if !request.is_done() {
            self.wait_until(what, |e| e.is_over_or_forsaken(handle, request));
        }
        Ok(())
    }

    /// Makes progress until `done`.
    pub(crate) fn wait_until(
        &self,
        what: impl Fn() -> Waiting,
        mut done: impl FnMut(&Engine) -> bool,
    ) {
        let (mut passes, mut most) = (0, PASSES);
        let mut told = None;
        while !done(self) {
            if self.progress() {
                lock().relax();
                continue;
            }
            passes += 1;
            if passes == PASSES_SHARED && self.transport(Slots::is_crowded) {
                most = PASSES_SHARED;
            }
            if passes < most {
                sys::copy::pause();
                lock().relax();
                continue;
            }
            self.report_waiting(&what, &mut told);
            if done(self) {
                break;
            }
            self.sleep();
        }
        if told.is_some() {
            self.report_running();
        }
    }

    /// Sleeps until the transport may have something to do, or another thread did something.
    fn sleep(&self) {
        self.sleep_till_woken();
        // Others had the processor meanwhile.
        let now = sys::clock::cycles();
        self.next_turn.set(now.wrapping_add(BETWEEN_TURNS));
    }

    fn sleep_till_woken(&self) {
        let deadline = self.latest_wake(None);
        let busy = self.is_busy_beside();
        if !self.is_threaded() {
            self.transport(|m| match busy {
                false => m.wait(deadline),
                true => wait_until(m, |m| self.look_beside(m), deadline),
            });
            return;
        }
        // The lock was not left since the caller looked; where it is left, others may complete what it waits for.
        let seen = self.changes.get();
        let see = |m: &mut Fabric| {
            self.changes.get() != seen || m.ready() || (busy && self.look_beside(m))
        };
        if self.poll_threaded(see, deadline) {
            return;
        }
        lock().relax();
        let sleeper = self.transport(|m| m.sleeper());
        // Announced under the lock, before the last look: whatever happens from here on ends the
        // sleep.
        let armed = sleeper.arm();
        if self.transport(see) {
            drop(armed);
            // What there is to do may have to wait for another rank, which needs this processor.
            if self.transport(|m| m.is_crowded()) {
                self.give_processor_away(sys::clock::cycles());
            }
            return;
        }
        self.sleeping.set(self.sleeping.get() + 1);
        lock().unlocked(|| Asleep::sleep(armed, deadline));
        self.sleeping.set(self.sleeping.get() - 1);
    }

    /// Polls for a while before a sleep, letting other threads in meanwhile: `true` if there is something to do. Where a
    /// thread sleeps already it doesn't poll: it would not be alone in needing the processor.
    pub(crate) fn poll_threaded(
        &self,
        mut see: impl FnMut(&mut Fabric) -> bool,
        deadline: Option<Instant>,
    ) -> bool {
        if self.sleeping.get() & !BINDS > 0 {
            return false;
        }
        let ready = |e: &mut &Engine| {
            lock().relax();
            e.transport(&mut see)
        };
        let give_way = |e: &mut &Engine| e.transport(Slots::give_way);
        let patience = self.transport(Slots::patience);
        patience.poll(&mut { self }, ready, give_way, deadline)
    }

    /// The deadline of a sleep: that given, or earlier where the launcher's page has to be looked at or the kernel asked
    /// again.
    pub(crate) fn latest_wake(&self, deadline: Option<Instant>) -> Option<Instant> {
        let deadline = deadline.into_iter().chain(self.kernel.again());
        let deadline = deadline.chain(self.softirq.again()).min();
        if !self.failures.told.get() {
            return deadline;
        }
        let look = sys::clock::after(LOOK);
        match (deadline, look) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// Lets others in, for calls that a program polls with and that found nothing: other threads, and where ranks share processors other
    /// ranks.
    #[inline]
    pub(crate) fn relax(&self) {
        lock().relax();
        self.give_way_to_ranks();
    }

    /// Where ranks share processors, gives this one to others if the program does nothing but poll, and now and then if it computes in between:
    /// whoever it waits for may need it, and would get it when the system takes it away, milliseconds later. Beside a network nobody may know of them; then
    /// it does so rarely, to hear of them.
    pub(crate) fn give_way_to_ranks(&self) {
        let (crowded, network) = self.transport(|m| (m.is_crowded(), m.fabric().has_network()));
        if !crowded && !network {
            return;
        }
        let most = match crowded {
            true => POLLS_TO_GIVE_WAY,
            false => POLLS_TO_LOOK,
        };
        let now = sys::clock::cycles();
        let polls = match now.wrapping_sub(self.polled.replace(now)) < BETWEEN_POLLS {
            true => self.polls.get() + 1,
            false => 0,
        };
        let its_turn = crowded && now.wrapping_sub(self.next_turn.get()) as i64 >= 0;
        if polls < most && !its_turn {
            self.polls.set(polls);
            return;
        }
        self.polls.set(0);
        let back = self.give_processor_away(now);
        let turn = (back.wrapping_sub(now) / PART).clamp(BETWEEN_TURNS, TURN_MAX);
        self.polled.set(back);
        self.next_turn.set(back.wrapping_add(turn));
    }

    /// Lets whoever is ready run here, from `now` on; when it was back.
    fn give_processor_away(&self, now: u64) -> u64 {
        if !self.is_threaded() {
            self.transport(Slots::give_way);
            return sys::clock::cycles();
        }
        // Others of this rank may call meanwhile.
        lock().unlocked(std::thread::yield_now);
        let back = sys::clock::cycles();
        self.transport(|m| m.fabric().gave_way(back.wrapping_sub(now)));
        back
    }

    /// Tells the hang report of a wait; and again where it is for another peer than was `told`, as a collective waits for one after the other, and
    /// who comes late is not who never comes, or where another wait has ended since: of another thread, or in a function of the program's.
    pub(crate) fn report_waiting(&self, what: impl FnOnce() -> Waiting, told: &mut Option<Told>) {
        if told.is_none() {
            self.begin_wait();
        }
        let mut now = Told::default();
        if self.is_reported() {
            let what = what();
            (now.peer, now.over) = (what.peer, self.waits_over.get());
            if *told != Some(now) {
                self.write_report(&what);
            }
        }
        *told = Some(now);
    }

    /// Whether anybody reads what this process waits for.
    fn is_reported(&self) -> bool {
        let world = self.world.borrow();
        world.as_ref().is_some_and(|w| w.report.is_some())
    }

    #[cold]
    fn write_report(&self, w: &Waiting) {
        if let Some(page) = self.world.borrow().as_ref().and_then(|w| w.report.as_ref()) {
            let known = |v| {
                if v == consts::UNDEFINED {
                    report::NONE
                } else {
                    v
                }
            };
            let names = (w.call, w.operation);
            let peer = (known(w.peer), self.peer_in_job(w));
            page.waiting_in(w.context, names, peer, known(w.tag), w.bytes);
        }
    }

    /// The rank in the job of the peer, where its communicator numbers otherwise and is still there.
    fn peer_in_job(&self, w: &Waiting) -> Option<u32> {
        let peer = u32::try_from(w.peer).ok().filter(|_| w.context > 0)?;
        let all = self.comms.handles().take(COMMS_SEARCHED);
        let mut all = all.filter_map(|c| self.comms.get(c));
        let comm = all.find(|comm| comm.context() == w.context)?;
        let process = (peer < comm.size()).then(|| comm.group.endpoint(peer))?;
        (process != peer).then_some(process)
    }

    #[cold]
    pub(crate) fn report_running(&self) {
        self.end_wait();
        self.waits_over.set(self.waits_over.get() + 1);
        if let Some(page) = self.world.borrow().as_ref().and_then(|w| w.report.as_ref()) {
            page.running();
        }
    }
}
