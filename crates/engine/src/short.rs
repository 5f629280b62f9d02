//! The short path: a message of one cache line with a predefined datatype, sent or received at once.
//!
//! `MPI_Send`, `MPI_Isend`, `MPI_Recv` and `MPI_Wait` try it first. It does something only if every check holds and nothing is
//! in the way; else it has changed nothing, and the long path does the call again from its first check, which
//! also finds the words for what is wrong. So there is one cold exit, no request, no allocation and no reference count.
//!
//! MPI has to make progress for others in every call sooner or later: each [`TURN`]th call goes the long way, which does.

use boundary::UserBuf;
use mtmi::{Context, Endpoint, TagSel, Transport};
use types::{Handle, Status, consts};

use crate::comm::Comm;
use crate::state::Engine;
use crate::typeobj::Predefined;

/// Of so many calls one goes the long way. It costs some 1,000 instructions, and it may move a ring's 64 messages to the
/// unexpected ones, which are then received the long way too: together some 100 instructions for each call.
const TURN: u32 = 1024;

/// A message that may go the short way.
struct Short<'a> {
    comm: &'a Comm,
    peer: Endpoint,
    /// Bytes of the buffer.
    bytes: usize,
}

impl Engine {
    /// Sends at once, if that is possible: `true`.
    #[inline(always)]
    pub(crate) fn send_short(
        &self,
        buf: UserBuf,
        count: i64,
        datatype: Handle,
        dest: i32,
        tag: i32,
        comm: Handle,
    ) -> bool {
        if tag < 0 {
            return false;
        }
        self.short(buf, count, datatype, dest, comm, |e, s| {
            let context = Context(s.comm.context());
            e.transport(|m| m.send_at_once(s.peer, context, tag, buf, s.bytes))
                .then_some(())
        })
        .is_some()
    }

    /// Receives a message that is there or comes within a moment. `None`: nothing was done.
    #[inline(always)]
    pub(crate) fn recv_short(
        &self,
        buf: UserBuf,
        count: i64,
        datatype: Handle,
        source: i32,
        tag: i32,
        comm: Handle,
    ) -> Option<Status> {
        let selector = match tag {
            0.. => TagSel::Exact(tag),
            consts::ANY_TAG => TagSel::Any,
            _ => return None,
        };
        self.short(buf, count, datatype, source, comm, |e, s| {
            let context = Context(s.comm.context());
            let taken =
                e.transport(|m| m.receive_at_once(s.peer, context, selector, buf, s.bytes))?;
            Some(Status {
                source,
                tag: taken.tag,
                error: consts::SUCCESS,
                bytes: taken.bytes as i64,
                cancelled: false,
            })
        })
    }

    /// Whether `request` is the one that sends share which are over.
    #[inline(always)]
    pub(crate) fn is_over(&self, request: Handle) -> bool {
        self.shared_done.get() == Some(request)
    }

    /// Checks what both directions have in common and goes on with it.
    #[inline(always)]
    fn short<R>(
        &self,
        buf: UserBuf,
        count: i64,
        datatype: Handle,
        peer: i32,
        comm: Handle,
        then: impl FnOnce(&Engine, &Short<'_>) -> Option<R>,
    ) -> Option<R> {
        let turn = self.turns.get().wrapping_add(1);
        self.turns.set(turn);
        let size = self.predefined_types.dense_size(datatype)?;
        if self.binds() {
            // Persistent requests may have to come first.
            return None;
        }
        // A count that is negative is large here; NULL and MPI_IN_PLACE are 0 and 1.
        if turn.is_multiple_of(TURN) || count as u64 > Predefined::MOST_SHORT || buf.addr() <= 1 {
            return None;
        }
        let bytes = count as usize * size;
        let with = |comm: &Comm| {
            let peer = *comm.group.members().get(peer as u32 as usize)?;
            let peer = Endpoint(peer);
            then(self, &Short { comm, peer, bytes })
        };
        match comm {
            consts::COMM_WORLD => with(self.comm_world.borrow().as_ref()?),
            other => with(&*self.comms.get(other.0)?),
        }
    }
}
