//! Ranks that are gone: learning of it, and ending what needs them.
//!
//! A fabric notices that a peer's connection broke, and the launcher says so in the report page if it
//! was told not to end the job (`mpiexec -disable-auto-cleanup`). Either way transfers with that process
//! end with `MPI_ERR_PROC_ABORTED`, and so do collectives of all communicators it is in, also where this rank
//! exchanges nothing with it: whoever does has stopped. Of a rank that left in order, through `MPI_Finalize` after another's death, what it
//! sent stays, and collectives go on without it; only transfers end that still need it. A communicator of those that are left can be made with
//! `MPI_Comm_create_group`, in which only they take part. Receives from any source stay, as others
//! may satisfy them, until all others of the communicator are gone. Then they end when they are waited or tested for, and not
//! before: the program may still send to itself. With `MPI_THREAD_MULTIPLE` another thread may do that at any time, so there they stay.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::time::Duration;

use mtmi::{Endpoint, Source, Transport};
use types::{Handle, Result, Status, consts, fault};

use crate::comm::Comm;
use crate::group::Group;
use crate::request::{Body, Kind, Request};
use crate::state::Engine;

/// How often a sleeping rank looks at the launcher's page, where that may tell of deaths.
pub(crate) const LOOK: Duration = Duration::from_millis(100);

/// What is known of ranks that are gone.
#[derive(Default)]
pub struct Failures {
    /// Whether the launcher lets the job go on when a rank dies, and tells of it.
    pub(crate) told: Cell<bool>,
    /// Deaths that the launcher has told of and we have looked at.
    seen: Cell<u32>,
    pub(crate) gone: RefCell<BTreeSet<u32>>,
    /// Those among them that had finalised MPI: what they owed others has been sent.
    pub(crate) left: RefCell<BTreeSet<u32>>,
    /// Whether this rank knows that another is dead or out of reach, or has failed at one that has left.
    pub(crate) bereft: Cell<bool>,
}

impl Engine {
    /// Before a collective begins: whoever only sends in it has nothing to wait for, in which it would hear of deaths.
    #[inline]
    pub(crate) fn hear_before_giving(&self) {
        if self.failures.told.get() {
            self.progress();
        }
    }

    /// Takes note of ranks that the launcher says are dead.
    #[cold]
    pub(crate) fn hear_of_deaths(&self) {
        let gone: Vec<(u32, bool)> = match self.world.borrow().as_ref() {
            Some(world) => {
                let Some(page) = &world.report else { return };
                let deaths = page.deaths();
                if deaths == self.failures.seen.replace(deaths) {
                    return;
                }
                let ranks = 0..world.job.size();
                let gone = ranks.filter(|&rank| page.is_gone(rank));
                gone.map(|rank| (rank, page.has_left(rank))).collect()
            }
            None => return,
        };
        for (rank, left) in gone {
            match left {
                true => self.part_from(rank),
                false => self.lose(rank),
            }
        }
    }

    /// Takes note of ranks whose connection broke.
    #[inline]
    pub(crate) fn notice_failures(&self) {
        while let Some(peer) = self.transport(|m| m.next_failure()) {
            self.lose(peer.0);
        }
    }

    /// Ends the transfers with a process that is gone. Returns whether that is news.
    fn end_transfers(&self, endpoint: u32) -> bool {
        let news = self.failures.gone.borrow_mut().insert(endpoint);
        if news {
            self.transport(|m| m.peer_failed(Endpoint(endpoint)));
            let left = self.failures.left.borrow().contains(&endpoint);
            self.peer_failed_beside(Endpoint(endpoint), left);
        }
        news
    }

    /// Ends what needs a process that has left in order: transfers with it, but no collective as a whole. Its part in those that it
    /// took part in is done, and may be all that this rank needs.
    #[cold]
    fn part_from(&self, endpoint: u32) {
        self.failures.left.borrow_mut().insert(endpoint);
        self.end_transfers(endpoint);
    }

    /// Ends what needs a process that has died.
    #[cold]
    fn lose(&self, endpoint: u32) {
        if !self.end_transfers(endpoint) {
            return;
        }
        self.note_bereft();
        let requests: Vec<Handle> = self.requests.handles().map(Handle).collect();
        for handle in requests {
            let Ok(request) = self.request(handle) else {
                continue;
            };
            let concerned = match &*request.body.borrow() {
                Body::Collective(running) => running.needs(endpoint),
                _ => false,
            };
            if concerned && !request.is_done() {
                self.fail_collective(handle, request, endpoint);
            }
        }
    }

    /// Whether nobody is left who could send what somebody waits for `from` on `comm`.
    pub(crate) fn is_gone(&self, from: Source, comm: &Comm) -> bool {
        match from {
            Source::From(peer) => self.failures.gone.borrow().contains(&peer.0),
            Source::Any => self.is_forsaken(comm),
        }
    }

    /// Whether all others of a communicator are gone, and no other thread may send either.
    fn is_forsaken(&self, comm: &Comm) -> bool {
        let gone = self.failures.gone.borrow();
        let others = (0..comm.group.size()).filter(|&rank| rank != comm.rank);
        let mut others = others.map(|rank| comm.group.endpoint(rank));
        !gone.is_empty()
            && !self.is_called_by_threads()
            && comm.group.size() > 1
            && others.all(|other| gone.contains(&other))
    }

    /// Whether a request that is waited for is over, now that it is clear that nothing may come that it waits for: ends receives from any
    /// source on communicators of which nobody else is left.
    pub(crate) fn is_over_or_forsaken(&self, handle: Handle, request: &Request) -> bool {
        if !request.is_done() && self.has_lost_any() {
            self.end_if_forsaken(handle, request);
        }
        request.is_done()
    }

    #[cold]
    fn end_if_forsaken(&self, handle: Handle, request: &Request) {
        let receives = matches!(request.kind.get(), Kind::Recv | Kind::SendRecv);
        // A send-receive whose receive has failed has its send's end to wait for.
        let fails = request.status().error != consts::SUCCESS;
        let concerned = request.active.get()
            && receives
            && !fails
            && request.awaited().0 == consts::ANY_SOURCE
            && request
                .comm
                .borrow()
                .as_ref()
                .is_some_and(|c| self.is_forsaken(c));
        if !concerned {
            return;
        }
        // Where part of its message is here it is not cancelled: its end is told otherwise.
        self.cancel_recv(handle);
        let status = request.status();
        if status.cancelled {
            request.set_status(Status {
                source: consts::ANY_SOURCE,
                error: consts::ERR_PROC_ABORTED,
                cancelled: false,
                ..status
            });
        }
    }

    /// Refuses a collective of `members` of `comm` that lost one of them.
    #[inline]
    pub(crate) fn check_whole(&self, comm: &Comm, members: &Group) -> Result<()> {
        let gone = self.failures.gone.borrow();
        if gone.is_empty() {
            return Ok(());
        }
        drop(gone);
        let lost = self.lost_of(comm, members);
        lost.map_or(Ok(()), |rank| Err(self.lost_rank(comm, rank as i32)))
    }

    /// The rank in `comm` of one of these members of it that is known to be gone.
    pub(crate) fn lost_of(&self, comm: &Comm, members: &Group) -> Option<u32> {
        let gone = self.failures.gone.borrow();
        let left = self.failures.left.borrow();
        let lost = |e: &&u32| !left.contains(e) && members.rank_of(**e).is_some();
        let lost = gone.iter().find(lost);
        lost.and_then(|&e| comm.group.rank_of(e))
    }

    /// Whose absence makes it vain to wait in a collective for rank `awaited` of `comm`: a rank that is dead, or that one, which has left in
    /// order and starts nothing any more.
    #[cold]
    pub(crate) fn gone_for(&self, comm: &Comm, awaited: u32) -> Option<u32> {
        let dead = self.lost_of(comm, &comm.group);
        let has_left = |rank: &u32| {
            let gone = self.failures.gone.borrow();
            gone.contains(&comm.group.endpoint(*rank))
        };
        dead.or_else(|| Some(awaited).filter(has_left))
    }

    /// Whether one of these is dead, or has left in order.
    pub(crate) fn has_gone_of(&self, members: &Group) -> bool {
        let gone = self.failures.gone.borrow();
        gone.iter().any(|&e| members.rank_of(e).is_some())
    }

    /// The fault of an operation that needs rank `rank` of `comm`, which is gone or out of reach.
    #[cold]
    pub(crate) fn lost_rank(&self, comm: &Comm, rank: i32) -> Box<types::Fault> {
        // The program hears of it now; a send that failed at once has made no progress, which would have noticed.
        self.note_bereft();
        if rank == consts::ANY_SOURCE {
            let text = "all other processes of the communicator are gone, so nothing can come from MPI_ANY_SOURCE";
            let mut fault = fault(consts::ERR_PROC_ABORTED, text);
            fault.on = Some(self.raised_on(comm));
            return fault;
        }
        if rank == consts::UNDEFINED {
            let text = "a process of the communicator is gone, or has given the collective up, as where the \
                        system has no more descriptors for it (ulimit -n)";
            let mut fault = fault(consts::ERR_PROC_ABORTED, text);
            fault.on = Some(self.raised_on(comm));
            return fault;
        }
        let of_job = u32::try_from(rank)
            .ok()
            .filter(|&r| r < comm.group.size())
            .map(|r| comm.group.endpoint(r));
        let who = match of_job {
            Some(of_job) if of_job as i32 != rank => {
                format!(
                    "the process with rank {rank} of the communicator (rank {of_job} of the job)"
                )
            }
            _ => format!("the process with rank {rank}"),
        };
        let why = of_job
            .and_then(|peer| self.transport(|m| m.why_failed(Endpoint(peer)).map(str::to_string)));
        let text = match why {
            Some(why) => format!("no way leads to {who}: {why}"),
            None => format!("{who} is gone"),
        };
        let mut fault = fault(consts::ERR_PROC_ABORTED, text);
        fault.on = Some(self.raised_on(comm));
        fault
    }

    /// Tells the launcher, if that reads it, that what this rank does from now on may be an answer to another's end.
    pub(crate) fn note_bereft(&self) {
        self.failures.bereft.set(true);
        if let Some(page) = self.world.borrow().as_ref().and_then(|w| w.report.as_ref()) {
            page.note_bereft();
        }
    }

    /// Whether any process of the job is gone.
    pub(crate) fn has_lost_any(&self) -> bool {
        !self.failures.gone.borrow().is_empty()
    }
}
