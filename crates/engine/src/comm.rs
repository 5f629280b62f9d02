//! Communicators: a group, a context that no other communicator of its members shares, and what
//! hangs on it.
//!
//! A context id is handed out by the new communicator's rank 0 from a space of its own, so no
//! agreement among the members is needed beyond learning the number. It is given back when the
//! last reference to the communicator (a handle, a pending operation) goes away at rank 0; a
//! correct program has by then started no operation that could mix old and new messages.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::VecDeque;
use std::ffi::OsString;
use std::rc::Rc;

use cad::bcast::{Relay, Spread};
use fabrics::Fabrics;
use types::{Handle, Result, consts, fault};

use crate::attr::Attributes;
use crate::errhandler::Errhandler;
use crate::group::Group;
use crate::info::Info;
use crate::kernel::Channels;
use crate::numbers::Numbers;
use crate::softirq::Lane;
use crate::state::Engine;
use crate::together::Meeting;
use crate::topology::Topology;

/// Bits of a context id that count within one owner.
pub(crate) const COUNTER_BITS: u32 = 14;
/// Bits of the ids that are given out once only where the kernel runs collectives: the lower half.
pub(crate) const UNIQUE_BITS: u32 = COUNTER_BITS - 1;
/// How many these are.
pub(crate) const UNIQUE_IDS: u32 = 1 << UNIQUE_BITS;

/// The counter of `MPI_COMM_WORLD`, whose owner is process 0.
pub const OF_WORLD: u16 = 0;
/// The counter of `MPI_COMM_SELF`, whose owner is each process itself.
pub const OF_SELF: u16 = 1;
/// The counter of what `MPI_Finalize` sends, so that no collective that a program has forgotten on another rank takes
/// that for its own. Its owner is process 0.
pub const OF_END: u16 = 2;

/// The context ids that this process may hand out as rank 0 of new communicators.
pub struct ContextIds {
    free: Rc<RefCell<VecDeque<u16>>>,
    next: Cell<u16>,
    /// Whether the lower half is given out once only.
    unique: Cell<bool>,
}

/// A context id in use; given back when dropped.
pub struct ContextLease {
    id: u16,
    /// Where it goes back to, if it may be used again.
    free: Option<Rc<RefCell<VecDeque<u16>>>>,
}

impl Drop for ContextLease {
    fn drop(&mut self) {
        if let Some(free) = &self.free {
            free.borrow_mut().push_back(self.id);
        }
    }
}

impl ContextIds {
    /// All ids but the three that have names.
    pub fn new() -> ContextIds {
        ContextIds {
            free: Rc::default(),
            next: Cell::new(OF_END + 1),
            unique: Cell::new(false),
        }
    }

    /// From now on the lower half of the ids is given out once only.
    pub(crate) fn begin_unique(&self) {
        self.unique.set(true);
    }

    /// Takes an id for a communicator whose rank 0 is the process `owner` (this one).
    pub fn lease(&self, owner: u32) -> Result<(u32, ContextLease)> {
        // The oldest first: this process may be ahead of a member that still receives with
        // wildcards on the communicator that was freed here last.
        let fresh = u32::from(self.next.get()) < 1 << COUNTER_BITS;
        let id = match fresh {
            true => Some(self.next.replace(self.next.get() + 1)),
            false => self.free.borrow_mut().pop_front(),
        };
        let id = id.ok_or_else(|| {
            let most = 1 << COUNTER_BITS;
            let text =
                format!("{most} communicators with this rank as their rank 0 exist; free some");
            fault(consts::ERR_OTHER, text)
        })?;
        let once = self.unique.get() && u32::from(id) < UNIQUE_IDS;
        let free = (!once).then(|| self.free.clone());
        Ok((context(owner, id), ContextLease { id, free }))
    }
}

/// The context of a communicator from its rank 0's endpoint and that process's counter. Bit 0
/// tells collectives from point-to-point.
pub fn context(owner: u32, counter: u16) -> u32 {
    (owner << COUNTER_BITS | u32::from(counter)) << 1
}

/// The counter of a communicator's context.
pub(crate) fn counter_of(context: u32) -> u32 {
    (context >> 1) & ((1 << COUNTER_BITS) - 1)
}

/// Whether only collectives' messages are in this context.
pub fn is_of_collectives(context: u32) -> bool {
    context & 1 == 1
}

/// An intra-communicator.
pub struct Comm {
    /// Its handle; `COMM_NULL` once freed while operations on it are pending.
    pub handle: Cell<Handle>,
    /// See [`Comm::context`]; set late by `MPI_Comm_idup`.
    context: Cell<u32>,
    /// Its processes.
    pub group: Rc<Group>,
    /// This process's rank in it.
    pub rank: u32,
    /// Its name (`MPI_Comm_set_name`).
    pub name: RefCell<OsString>,
    /// Its error handler.
    pub errhandler: RefCell<Rc<Errhandler>>,
    /// Its cached attributes.
    pub attributes: Attributes,
    /// Its virtual topology.
    pub topology: Option<Rc<Topology>>,
    /// Its hints.
    pub info: RefCell<Info>,
    collectives: Cell<u32>,
    /// The numbers of its persistent collectives.
    pub(crate) numbers: Numbers,
    /// What tells its collectives in the kernel from others.
    pub(crate) channels: Channels,
    /// Where its small collectives go, if they go to the kernel's receive path.
    pub(crate) lane: OnceCell<Rc<Lane>>,
    /// How many lanes were begun for it, its persistent collectives' among them.
    pub(crate) lanes: Cell<u32>,
    /// Where in shared memory its blocking collectives go, if they do.
    pub(crate) meeting: Meeting,
    /// Where its processes are, once that was asked.
    spread: OnceCell<Spread>,
    _lease: Option<ContextLease>,
}

/// "1 rank", "3 ranks": a number of things as a sentence has it.
pub(crate) fn counted(number: impl Into<u64>, thing: &str) -> String {
    match number.into() {
        1 => format!("1 {thing}"),
        number => format!("{number} {thing}s"),
    }
}

impl Comm {
    /// A communicator of `group` with this process as `rank`; `lease` at its rank 0.
    pub fn new(
        context: u32,
        lease: Option<ContextLease>,
        group: Rc<Group>,
        rank: u32,
        errhandler: Rc<Errhandler>,
    ) -> Comm {
        Comm {
            handle: Cell::new(consts::COMM_NULL),
            context: Cell::new(context),
            group,
            rank,
            name: RefCell::default(),
            errhandler: RefCell::new(errhandler),
            attributes: Attributes::default(),
            topology: None,
            info: RefCell::default(),
            collectives: Cell::new(0),
            numbers: Numbers::default(),
            channels: Channels::default(),
            lane: OnceCell::new(),
            lanes: Cell::new(0),
            meeting: Meeting::default(),
            spread: OnceCell::new(),
            _lease: lease,
        }
    }

    /// Context of its point-to-point messages; that of its collectives is one more.
    #[inline]
    pub fn context(&self) -> u32 {
        self.context.get()
    }

    /// Gives a communicator that `MPI_Comm_idup` is still making the context it learnt.
    pub(crate) fn set_context(&self, context: u32) {
        self.context.set(context);
    }

    /// Number of processes.
    #[inline]
    pub fn size(&self) -> u32 {
        self.group.size()
    }

    /// The number of the next collective on this communicator, equal on all its ranks.
    pub fn next_collective(&self) -> u32 {
        self.collectives
            .replace(self.collectives.get().wrapping_add(1))
    }
}

impl Engine {
    /// Where the processes of a communicator are.
    pub(crate) fn spread(&self, comm: &Comm) -> Spread {
        let members = comm.group.members();
        let ask = |fabrics: &Fabrics| {
            if fabrics.are_together(members) {
                Spread::Together
            } else if fabrics.are_apart(members) {
                Spread::Apart(Relay::Process)
            } else if fabrics.follow_on(members) {
                Spread::Blocks
            } else {
                Spread::Mixed
            }
        };
        *(comm.spread).get_or_init(|| self.transport(|m| ask(m.fabric())))
    }

    /// Whether the processes of this machine lend each other long messages, as whoever made their segment believes: the same at all of them.
    pub(crate) fn lends(&self) -> bool {
        self.transport(|m| m.fabric().lends())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn many(ids: &ContextIds) -> Vec<u32> {
        let one = |_| ids.lease(3).map(|(context, _lease)| context);
        (0..3 << COUNTER_BITS).filter_map(|i| one(i).ok()).collect()
    }

    #[test]
    fn ids_come_back_when_they_are_free() {
        let all = many(&ContextIds::new());
        assert_eq!(all.len(), 3 << COUNTER_BITS);
        let first = context(3, OF_END + 1);
        assert!(all.iter().filter(|&&c| c == first).count() > 1);
    }

    #[test]
    fn where_channels_are_made_of_ids_the_lower_half_comes_once() {
        let ids = ContextIds::new();
        ids.begin_unique();
        let all = many(&ids);
        assert_eq!(all.len(), 3 << COUNTER_BITS);
        let mut low: Vec<u32> = all
            .into_iter()
            .filter(|&c| (c >> 1) & ((1 << COUNTER_BITS) - 1) < UNIQUE_IDS)
            .collect();
        let given = low.len();
        assert_eq!(given, UNIQUE_IDS as usize - usize::from(OF_END + 1));
        low.sort_unstable();
        low.dedup();
        assert_eq!(low.len(), given);
    }
}
