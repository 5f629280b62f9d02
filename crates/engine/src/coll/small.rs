//! A collective for the kernel's receive path ([`crate::softirq`]): which calls fit, what a rank contributes, and where the result goes.
//!
//! A persistent one is for it from its initialisation on, until its lane takes nothing any more: it is an ordinary one then, for good.
//!
//! Invariant: whether a call fits depends only on what is the same on all ranks of its communicator in a program that is right.

use std::rc::Rc;
use std::sync::Arc;

use boundary::UserBuf;
use cad_run::Known;
use cad_softirq::calc::{Formula, How};
use cad_softirq::flat::Flat;
use cad_softirq::layout::{self as packet, DATA_MAX};
use cad_softirq::rank::Part;
use layout::{Data, transfer};
use op::Builtin;
use types::basic::Elem;
use types::{Handle, Result, Status, consts};

use super::{Call, Running};
use crate::ops::Op;
use crate::request::{Body, Kind, Request};
use crate::softirq::Lane;
use crate::state::Engine;
use crate::typeobj::TypeObj;

/// Which collective a call is, and what its graph does not say.
#[derive(Clone, Copy)]
pub(crate) enum SmallCall {
    /// `MPI_Ibarrier`.
    Barrier,
    /// `MPI_Ibcast` of so many elements.
    Bcast { root: u32, count: u64 },
    /// `MPI_Ireduce`, or `MPI_Iallreduce` where there is no root, of so many elements.
    Reduce { root: Option<u32>, count: u64 },
}

/// What a rank does in it.
enum Work {
    Barrier,
    Bcast {
        data: Data,
        root: bool,
    },
    Reduce {
        op: packet::Op,
        ty: packet::Type,
        from: UserBuf,
        /// Where the result goes, if it gets one.
        to: Option<UserBuf>,
        bytes: usize,
    },
    Fold {
        flat: Arc<Flat>,
        elements: Elements,
        from: UserBuf,
        to: Option<UserBuf>,
    },
}

/// What byte code runs on: elements that lie in a packet as in memory, their gaps with them.
struct Elements {
    ty: Rc<TypeObj>,
    count: u64,
    bytes: usize,
}

impl Elements {
    /// So many of a type, if each keeps to its own bytes and all of them fit.
    fn of(ty: &Rc<TypeObj>, count: u64, flat: &Flat) -> Option<Elements> {
        let extent = ty.datatype.extent();
        let inside = ty.datatype.true_lb() >= 0 && ty.datatype.true_ub() <= extent;
        let bytes = fitting(count.checked_mul(u64::try_from(extent).ok()?)?)?;
        (inside && flat.fits(bytes)).then(|| Elements {
            ty: ty.clone(),
            count,
            bytes,
        })
    }

    /// Copies them without their gaps.
    fn copy(&self, from: UserBuf, to: UserBuf) {
        let data = |buf| self.ty.data(buf, self.count);
        transfer(&data(from), &data(to));
    }
}

/// A collective that the kernel's receive path has, or will have.
pub struct Small {
    work: Work,
    /// The same as an ordinary collective, not begun.
    running: Box<Running>,
    /// A persistent one's own.
    lane: Option<Rc<Lane>>,
}

impl Small {
    pub(super) fn call(&self) -> &Call {
        &self.running.call
    }
}

/// The type that elements are there.
fn type_of(elem: Elem) -> Option<packet::Type> {
    Some(match elem {
        Elem::I8 => packet::Type::I8,
        Elem::U8 => packet::Type::U8,
        Elem::I16 => packet::Type::I16,
        Elem::U16 => packet::Type::U16,
        Elem::I32 => packet::Type::I32,
        Elem::U32 => packet::Type::U32,
        Elem::I64 => packet::Type::I64,
        Elem::U64 => packet::Type::U64,
        Elem::F32 => packet::Type::F32,
        Elem::F64 => packet::Type::F64,
        _ => return None,
    })
}

/// What one of the standard's operations is there.
fn op_of(op: Builtin) -> Option<packet::Op> {
    Some(match op {
        Builtin::Sum => packet::Op::Sum,
        Builtin::Prod => packet::Op::Prod,
        Builtin::Min => packet::Op::Min,
        Builtin::Max => packet::Op::Max,
        Builtin::Band => packet::Op::Band,
        Builtin::Bor => packet::Op::Bor,
        Builtin::Bxor => packet::Op::Bxor,
        Builtin::Land => packet::Op::Land,
        Builtin::Lor => packet::Op::Lor,
        Builtin::Lxor => packet::Op::Lxor,
        Builtin::Maxloc | Builtin::Minloc | Builtin::Replace | Builtin::NoOp => return None,
    })
}

/// What a reduction of so many elements is for the kernel in a chain of the ring, if it can do it: its data have no gaps there.
pub(super) fn known(
    op: &Op,
    ty: &TypeObj,
    from: UserBuf,
    to: UserBuf,
    count: u64,
) -> Option<Known> {
    let how = match op {
        Op::Builtin(op) => How::Standard(Formula::of(op_of(*op)?, type_of(ty.basic()?.elem)?)?),
        Op::Bytecode { flat, .. } => How::Coded(flat.clone()?),
        Op::User { .. } => return None,
    };
    let bytes = u64::try_from(ty.datatype.extent())
        .ok()?
        .checked_mul(count)?;
    let whole = |buf| ty.data(buf, count).contiguous() == Some((buf, bytes));
    (whole(from) && whole(to) && how.fits(bytes)).then_some(Known {
        from,
        to,
        bytes,
        how,
    })
}

/// So many bytes, if there are some and they fit into a packet.
fn fitting(bytes: u64) -> Option<usize> {
    let bytes = usize::try_from(bytes).ok()?;
    (1..=DATA_MAX).contains(&bytes).then_some(bytes)
}

impl Work {
    /// What this rank does in a call, if it fits.
    fn of(call: &Call, shape: SmallCall) -> Option<Work> {
        match shape {
            SmallCall::Barrier => Some(Work::Barrier),
            SmallCall::Bcast { root, count } => {
                let data = call.recv_type.as_ref()?.data(call.recv, count);
                fitting(data.len())?;
                let root = call.comm.rank == root;
                Some(Work::Bcast { data, root })
            }
            SmallCall::Reduce { root, count } => {
                let from = if call.send.is_in_place() {
                    call.recv
                } else {
                    call.send
                };
                let takes = root.is_none_or(|root| root == call.comm.rank);
                let to = takes.then_some(call.recv);
                let ty = call.recv_type.as_ref()?;
                match call.op.as_deref()? {
                    Op::Builtin(op) => {
                        let ty = type_of(ty.basic()?.elem)?;
                        Some(Work::Reduce {
                            op: op_of(*op).filter(|op| op.supports(ty))?,
                            ty,
                            from,
                            to,
                            bytes: fitting(count.checked_mul(ty.bytes() as u64)?)?,
                        })
                    }
                    Op::Bytecode { flat, .. } => {
                        let flat = flat.as_ref()?;
                        Some(Work::Fold {
                            elements: Elements::of(ty, count, flat)?,
                            flat: flat.clone(),
                            from,
                            to,
                        })
                    }
                    Op::User { .. } => None,
                }
            }
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Work::Barrier => 0,
            Work::Bcast { data, .. } => data.len() as usize,
            Work::Reduce { bytes, .. } => *bytes,
            Work::Fold { elements, .. } => elements.bytes,
        }
    }

    /// What this rank contributes; `room` has as many bytes.
    fn part<'a>(&'a self, room: &'a mut [u8]) -> Part<'a> {
        match self {
            Work::Barrier => Part::Nothing,
            Work::Bcast { root: false, .. } => Part::Leaf(room.len()),
            Work::Bcast { data, root: true } => {
                transfer(data, &flat(room));
                Part::Root(room)
            }
            Work::Reduce { op, ty, from, .. } => {
                from.read(room);
                Part::Reduce(*op, *ty, room)
            }
            Work::Fold {
                flat,
                elements,
                from,
                ..
            } => {
                room.fill(0);
                elements.copy(*from, UserBuf::of_array(room));
                Part::Fold(flat, room)
            }
        }
    }

    /// Puts the result where the call wants it.
    fn take(&self, result: &mut [u8]) {
        match self {
            Work::Barrier | Work::Bcast { root: true, .. } => {}
            Work::Bcast { data, root: false } => {
                transfer(&flat(result), data);
            }
            Work::Reduce { to, .. } => {
                if let Some(to) = to {
                    to.write(result);
                }
            }
            Work::Fold { elements, to, .. } => {
                if let Some(to) = to {
                    elements.copy(UserBuf::of_array(result), *to);
                }
            }
        }
    }
}

/// Whether a call's contributions may be combined in any order.
fn commutes(call: &Call) -> bool {
    call.op.as_deref().is_none_or(Op::is_commutative)
}

fn flat(memory: &mut [u8]) -> Data {
    let bytes = memory.len() as u64;
    Data::bytes(UserBuf::of_array(memory), bytes)
}

impl Engine {
    /// Starts a collective in the kernel's receive path, or, where it does not fit or there is none, as any other; gives its request.
    pub(crate) fn hand_small(&self, call: Call, shape: SmallCall) -> Result<Handle> {
        if !self.softirq.is_on() {
            return self.hand_collective(call);
        }
        self.check_whole(&call.comm, &call.group)?;
        if let Some(lane) = call.comm.lane.get() {
            self.check_lane(lane)?;
        }
        let lane = self.softirq.lane(&call.comm);
        // Between hosts contributions are not combined in the order of ranks.
        let lane = lane.filter(|lane| !lane.is_far() || commutes(&call));
        // Not where somebody has left in order: he starts nothing any more.
        let lane = lane.filter(|_| !self.has_gone_of(&call.group));
        let (Some(lane), Some(work)) = (lane, Work::of(&call, shape)) else {
            self.softirq.count_other();
            self.kernel.count_in_calls();
            return self.start_in_calls(call);
        };
        let comm = call.comm.clone();
        let running = Box::new(Running::new(call, &self.spare)?);
        let (handle, request) = self.new_request(Kind::Collective, 1, Some(comm))?;
        let small = Small {
            work,
            running,
            lane: None,
        };
        request.body.replace(Body::Small(Box::new(small)));
        self.enter_lane(&lane, handle);
        Ok(handle)
    }

    /// Makes the inactive request of a persistent collective for the kernel's receive path, or, where it does not fit or there is none,
    /// of any other.
    pub(crate) fn keep_small(&self, call: Call, shape: SmallCall) -> Result<Handle> {
        if !self.softirq.is_on() {
            return self.keep_handed(call);
        }
        let (comm, work) = (call.comm.clone(), Work::of(&call, shape));
        let work = work.filter(|_| commutes(&call) || !self.softirq.is_apart(&comm));
        let handle = self.keep_handed(call)?;
        let lane = work.and_then(|work| Some((work, self.begin_lane(&comm, false)?)));
        let request = self.request(handle)?;
        let mut body = request.body.borrow_mut();
        if let Some((work, lane)) = lane
            && let Body::Collective(running) = std::mem::take(&mut *body)
        {
            let lane = Some(lane);
            *body = Body::Small(Box::new(Small {
                work,
                running,
                lane,
            }));
        }
        Ok(handle)
    }

    /// Starts a persistent collective if it is one of these; `None` if not, or not any more.
    pub(super) fn restart_small(&self, handle: Handle, request: &Request) -> Option<Result<()>> {
        let lane = match &*request.body.borrow() {
            Body::Small(small) => small.lane.clone(),
            _ => None,
        };
        let (lane, comm) = (lane?, request.comm.borrow().clone()?);
        if let Err(why) = self.check_whole(&comm, &comm.group) {
            return Some(Err(why));
        }
        if let Err(why) = self.check_lane(&lane) {
            return Some(Err(why));
        }
        if !self.softirq.takes(&lane) || self.has_gone_of(&comm.group) {
            self.make_ordinary(handle);
            return None;
        }
        request.active.set(true);
        request.set_status(Status::EMPTY);
        request.post.set_parts(1);
        self.enter_lane(&lane, handle);
        Some(Ok(()))
    }

    /// Makes the request of a collective that has its number on the communicator, and has not begun.
    pub(crate) fn prepare_collective(&self, call: Call) -> Result<Handle> {
        self.check_whole(&call.comm, &call.group)?;
        let comm = call.comm.clone();
        let running = Running::new(call, &self.spare)?;
        let (handle, request) = self.new_request(Kind::Collective, 1, Some(comm))?;
        request.body.replace(Body::Collective(Box::new(running)));
        Ok(handle)
    }

    /// Begins it.
    pub(crate) fn begin_prepared(&self, handle: Handle) {
        if let Ok(request) = self.request(handle) {
            self.advance(handle, request);
        }
    }

    /// A request's collective, if it is one of these.
    fn with_small<R>(&self, handle: Handle, f: impl FnOnce(&Request, &Small) -> R) -> Option<R> {
        let request = self.request(handle).ok()?;
        match &*request.body.borrow() {
            Body::Small(small) => Some(f(request, small)),
            _ => None,
        }
    }

    /// How many bytes a request's collective has, if it is one of these.
    pub(crate) fn small_bytes(&self, handle: Handle) -> Option<usize> {
        self.with_small(handle, |_, small| small.work.bytes())
    }

    /// Uses what this rank contributes, for which there is room.
    pub(crate) fn with_part<R>(
        &self,
        handle: Handle,
        room: &mut [u8],
        f: impl FnOnce(Part<'_>) -> R,
    ) -> Option<R> {
        self.with_small(handle, |_, small| f(small.work.part(room)))
    }

    /// A request's collective is over, with this result, or the ranks did not agree.
    pub(crate) fn small_over(&self, handle: Handle, result: Option<&mut [u8]>) {
        let Ok(request) = self.request(handle) else {
            return;
        };
        self.with_small(handle, |request, small| match result {
            Some(result) => small.work.take(result),
            None => request.set_status(Status {
                error: consts::ERR_OTHER,
                ..request.status()
            }),
        });
        match request.is_persistent() {
            // The next start needs it again.
            true => request.post.set_parts(0),
            false => self.part_done(handle, request),
        }
    }

    /// Makes a request's collective an ordinary one that has not begun; whether it was one of these.
    pub(crate) fn make_ordinary(&self, handle: Handle) -> bool {
        let Ok(request) = self.request(handle) else {
            return false;
        };
        let mut body = request.body.borrow_mut();
        match std::mem::take(&mut *body) {
            Body::Small(small) => {
                *body = Body::Collective(small.running);
                true
            }
            other => {
                *body = other;
                false
            }
        }
    }

    /// Begins such a one.
    pub(crate) fn advance_small(&self, handle: Handle) {
        if let Ok(request) = self.request(handle) {
            if let Body::Collective(running) = &mut *request.body.borrow_mut() {
                running.rewind(true);
            }
            self.advance(handle, request);
        }
    }

    /// Ends such a one, as a process is gone that it needs.
    pub(crate) fn fail_small(&self, handle: Handle, process: u32) {
        if let Ok(request) = self.request(handle) {
            self.fail_collective(handle, request, process);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_as_long_there() {
        for (elem, bytes) in [
            (Elem::I8, 1),
            (Elem::U16, 2),
            (Elem::F32, 4),
            (Elem::F64, 8),
        ] {
            assert_eq!(type_of(elem).map(packet::Type::bytes), Some(bytes));
        }
        for elem in [Elem::C64, Elem::L32, Elem::F80, Elem::I32Int] {
            assert_eq!(type_of(elem), None);
        }
    }

    #[test]
    fn only_what_fits_a_packet_goes_there() {
        let fits = [0, 1, 1024, 1025, u64::MAX].map(fitting);
        assert_eq!(fits, [None, Some(1), Some(1024), None, None]);
    }
}
