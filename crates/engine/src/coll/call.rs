//! One collective call: its buffers, types and graph, and, before there is a graph, what that follows from.

use std::rc::Rc;

use boundary::{AlignedBuf, UserBuf};
use cad::chosen::Moves;
use cad::straight::LENT_MIN;
use cad::{BufId, Graph, Region, TypeSlot};
use layout::Data;
use mtmi::SendMode;

use super::Tags;
use super::names::Names;
use crate::comm::Comm;
use crate::graphs::Plan;
use crate::group::Group;
use crate::ops::Op;
use crate::state::Engine;
use crate::typeobj::TypeObj;

/// What runs when a collective has completed, with its first temporary or own buffer.
pub(crate) type Then = Box<dyn FnOnce(&Engine, &mut AlignedBuf)>;

/// Types per peer, of what is sent and of what is received.
pub(crate) type PeerTypes = (Vec<Rc<TypeObj>>, Vec<Rc<TypeObj>>);

/// The buffers and types of one collective call.
pub(crate) struct Call {
    /// What it is called.
    pub names: &'static Names,
    pub graph: Rc<Graph>,
    pub comm: Rc<Comm>,
    /// Processes by the graph's ranks: the communicator's group, or part of it.
    pub group: Rc<Group>,
    pub send: UserBuf,
    pub recv: UserBuf,
    pub send_type: Option<Rc<TypeObj>>,
    pub recv_type: Option<Rc<TypeObj>>,
    /// Alltoallw: the types per peer.
    pub types: Option<PeerTypes>,
    pub op: Option<Rc<Op>>,
    pub tags: Tags,
    /// What it moves, if it only does that and all ranks know it alike.
    pub moves: Option<Moves>,
    /// Whether receivers copy what is long from where this process has it, as they may compute: it is one that isn't persistent, of few processes that share memory.
    pub lends: bool,
    /// Memory of ours that stands for the receive buffer, and what to do with it at the end.
    pub own: Option<(AlignedBuf, Option<Then>)>,
}

impl Call {
    /// A call of all of `comm` that has no buffers yet.
    #[inline]
    pub fn new(names: &'static Names, comm: Rc<Comm>, graph: Rc<Graph>) -> Call {
        Call {
            names,
            graph,
            group: comm.group.clone(),
            comm,
            send: UserBuf::NULL,
            recv: UserBuf::NULL,
            send_type: None,
            recv_type: None,
            types: None,
            op: None,
            tags: Tags::Next,
            moves: None,
            lends: false,
            own: None,
        }
    }

    pub(super) fn type_of(&self, slot: TypeSlot) -> Option<&Rc<TypeObj>> {
        match slot {
            TypeSlot::Bytes => None,
            TypeSlot::Send => self.send_type.as_ref(),
            TypeSlot::Recv => self.recv_type.as_ref(),
            TypeSlot::SendOf(i) => self.types.as_ref().map(|(s, _)| &s[i as usize]),
            TypeSlot::RecvOf(i) => self.types.as_ref().map(|(_, r)| &r[i as usize]),
        }
    }

    /// Whether receivers copy a message of so many bytes from where it lies, whatever they have measured.
    pub(super) fn is_lent(&self, bytes: u64) -> bool {
        bytes >= LENT_MIN && (self.lends || self.graph.lends())
    }

    /// How a message of so many bytes is sent.
    pub(super) fn mode(&self, bytes: u64) -> SendMode {
        match self.is_lent(bytes) {
            true => SendMode::Lent,
            false => SendMode::Standard,
        }
    }

    /// Where a buffer begins; `temp` says where temporary ones do.
    pub(super) fn base_of(&self, buf: BufId, temp: impl FnOnce(usize) -> UserBuf) -> UserBuf {
        match buf {
            BufId::Send => self.send,
            BufId::Recv => self.recv,
            BufId::Temp(k) => temp(k as usize),
        }
    }

    /// A region's data, which begin at `buf`.
    pub(super) fn data_at(&self, buf: UserBuf, region: &Region) -> Data {
        match self.type_of(region.ty) {
            None => Data::bytes(buf, region.count),
            Some(t) => t.data(buf, region.count),
        }
    }
}

/// A collective call whose arguments are checked, and what its graph follows from.
pub(crate) struct Planned {
    pub plan: Plan,
    pub comm: Rc<Comm>,
    pub send: UserBuf,
    pub recv: UserBuf,
    pub send_type: Option<Rc<TypeObj>>,
    pub recv_type: Option<Rc<TypeObj>>,
    pub op: Option<Rc<Op>>,
}

impl Planned {
    /// The call with its graph.
    pub fn call(self, e: &Engine) -> Call {
        Call {
            moves: self.plan.moves(),
            send: self.send,
            recv: self.recv,
            send_type: self.send_type,
            recv_type: self.recv_type,
            op: self.op,
            ..Call::new(self.plan.names(), self.comm, e.graph(self.plan))
        }
    }
}
