//! Collectives that compute: reduce, allreduce, reduce-scatter and scans, blocking and not.
//!
//! As for those that move data, one function per collective checks the arguments and makes the
//! call. Operands are combined in rank order unless the operation commutes.

use std::rc::Rc;

use boundary::{Ints, UserBuf};
use cad::bcast::Spread;
use cad::reduce_scatter::Counts;
use cad::{
    Graph, Shape, allreduce as allreduce_graphs, reduce as reduce_graphs,
    reduce_scatter as scatter_graphs, scan as scan_graphs,
};
use types::{Handle, Result, consts, fault};

use super::coll_args::{check_distinct, check_root, shape};
use super::p2p::check_buffer;
use crate::coll::names::{self, Names};
use crate::coll::{Call, Planned, SmallCall, team};
use crate::comm::Comm;
use crate::graphs::Plan;
use crate::ops::Op;
use crate::state::Engine;
use crate::typeobj::TypeObj;

/// The checked arguments that all reductions share.
struct Reduction {
    comm: Rc<Comm>,
    datatype: Rc<TypeObj>,
    op: Rc<Op>,
    ty: Shape,
}

impl Reduction {
    /// Checks `count` elements of `datatype` in the buffer that holds this rank's operand.
    fn check(
        e: &Engine,
        operand: UserBuf,
        count: i64,
        datatype: Handle,
        op: Handle,
        comm: &Rc<Comm>,
    ) -> Result<Reduction> {
        let datatype = check_buffer(e, operand, count, datatype)?;
        let op = e.op(op)?;
        op.check(&datatype)?;
        let ty = shape(&datatype);
        Ok(Reduction {
            comm: comm.clone(),
            datatype,
            op,
            ty,
        })
    }

    fn planned(self, plan: Plan, sendbuf: UserBuf, recvbuf: UserBuf) -> Planned {
        Planned {
            plan,
            comm: self.comm,
            send: sendbuf,
            recv: recvbuf,
            send_type: None,
            recv_type: Some(self.datatype),
            op: Some(self.op),
        }
    }

    fn call(self, names: &'static Names, graph: Graph, sendbuf: UserBuf, recvbuf: UserBuf) -> Call {
        Call {
            send: sendbuf,
            recv: recvbuf,
            recv_type: Some(self.datatype),
            op: Some(self.op),
            ..Call::new(names, self.comm, Rc::new(graph))
        }
    }
}

/// Where the operand lies: in place in the receive buffer, else in the send buffer. Both have to be
/// buffers.
fn operand(
    e: &Engine,
    sendbuf: UserBuf,
    recvbuf: UserBuf,
    count: i64,
    datatype: Handle,
) -> Result<UserBuf> {
    check_buffer(e, recvbuf, count, datatype)?;
    check_distinct(sendbuf, recvbuf, count)?;
    Ok(if sendbuf.is_in_place() {
        recvbuf
    } else {
        sendbuf
    })
}

#[expect(clippy::too_many_arguments, reason = "the standard's parameter list")]
pub(crate) fn prepare_reduce(
    e: &Engine,
    sendbuf: UserBuf,
    recvbuf: UserBuf,
    count: i64,
    datatype: Handle,
    op: Handle,
    root: i32,
    comm: Handle,
) -> Result<Planned> {
    let comm = e.comm(comm)?;
    let root = check_root(&comm, root)?;
    let at_root = comm.rank == root;
    let in_place = at_root && sendbuf.is_in_place();
    let from = if at_root {
        operand(e, sendbuf, recvbuf, count, datatype)?
    } else {
        sendbuf
    };
    let r = Reduction::check(e, from, count, datatype, op, &comm)?;
    let params = reduce_graphs::Params {
        team: team(&comm),
        root,
        count: count as u64,
        ty: r.ty,
        commutative: r.op.is_commutative(),
        in_place,
    };
    Ok(r.planned(Plan::Reduce(params), sendbuf, recvbuf))
}

pub(crate) fn prepare_allreduce(
    e: &Engine,
    sendbuf: UserBuf,
    recvbuf: UserBuf,
    count: i64,
    datatype: Handle,
    op: Handle,
    comm: Handle,
) -> Result<Planned> {
    let comm = e.comm(comm)?;
    let from = operand(e, sendbuf, recvbuf, count, datatype)?;
    let r = Reduction::check(e, from, count, datatype, op, &comm)?;
    let mut params = allreduce_graphs::Params {
        team: team(&comm),
        count: count as u64,
        ty: r.ty,
        commutative: r.op.is_commutative(),
        in_place: sendbuf.is_in_place(),
        together: false,
    };
    params.together = params.is_for_halves() && e.spread(&comm) == Spread::Together;
    Ok(r.planned(Plan::Allreduce(params), sendbuf, recvbuf))
}

#[expect(
    clippy::too_many_arguments,
    reason = "the standard's parameter list, and one more"
)]
pub(crate) fn prepare_reduce_scatter_block(
    e: &Engine,
    sendbuf: UserBuf,
    recvbuf: UserBuf,
    recvcount: i64,
    datatype: Handle,
    op: Handle,
    comm: Handle,
    handed: bool,
) -> Result<Call> {
    let comm = e.comm(comm)?;
    let from = operand(e, sendbuf, recvbuf, recvcount, datatype)?;
    let r = Reduction::check(e, from, recvcount, datatype, op, &comm)?;
    let params = scatter_graphs::Params {
        team: e.team_of(&comm, handed),
        counts: Counts::Equal(recvcount as u64),
        ty: r.ty,
        commutative: r.op.is_commutative(),
        in_place: sendbuf.is_in_place(),
    };
    let graph = scatter_graphs::graph(&params);
    Ok(r.call(&names::REDUCE_SCATTER_BLOCK, graph, sendbuf, recvbuf))
}

#[expect(
    clippy::too_many_arguments,
    reason = "the standard's parameter list, and one more"
)]
pub(crate) fn prepare_reduce_scatter(
    e: &Engine,
    sendbuf: UserBuf,
    recvbuf: UserBuf,
    recvcounts: Ints,
    datatype: Handle,
    op: Handle,
    comm: Handle,
    handed: bool,
) -> Result<Call> {
    let comm = e.comm(comm)?;
    if recvcounts.is_null() {
        return Err(fault(consts::ERR_ARG, "the array of counts is NULL"));
    }
    let read = |i: usize| {
        u64::try_from(recvcounts.get(i)).map_err(|_| {
            fault(
                consts::ERR_COUNT,
                format!(
                    "the count for rank {i} is {}, which is negative",
                    recvcounts.get(i)
                ),
            )
        })
    };
    let counts = (0..comm.size() as usize)
        .map(read)
        .collect::<Result<Vec<u64>>>()?;
    let own = counts[comm.rank as usize] as i64;
    let r = Reduction::check(
        e,
        operand(e, sendbuf, recvbuf, own, datatype)?,
        counts.iter().sum::<u64>() as i64,
        datatype,
        op,
        &comm,
    )?;
    let params = scatter_graphs::Params {
        team: e.team_of(&comm, handed),
        counts: Counts::Each(&counts),
        ty: r.ty,
        commutative: r.op.is_commutative(),
        in_place: sendbuf.is_in_place(),
    };
    let graph = scatter_graphs::graph(&params);
    Ok(r.call(&names::REDUCE_SCATTER, graph, sendbuf, recvbuf))
}

#[expect(clippy::too_many_arguments, reason = "the standard's parameter list")]
fn scan_params(
    e: &Engine,
    sendbuf: UserBuf,
    recvbuf: UserBuf,
    count: i64,
    datatype: Handle,
    op: Handle,
    comm: Handle,
    exclusive: bool,
) -> Result<(Reduction, scan_graphs::Params)> {
    let comm = e.comm(comm)?;
    // The first rank of an exclusive one gets nothing: its receive buffer is not significant.
    let from = match exclusive && comm.rank == 0 && !sendbuf.is_in_place() {
        true => sendbuf,
        false => operand(e, sendbuf, recvbuf, count, datatype)?,
    };
    let r = Reduction::check(e, from, count, datatype, op, &comm)?;
    let params = scan_graphs::Params {
        team: team(&comm),
        count: count as u64,
        ty: r.ty,
        in_place: sendbuf.is_in_place(),
    };
    Ok((r, params))
}

pub(crate) fn prepare_scan(
    e: &Engine,
    sendbuf: UserBuf,
    recvbuf: UserBuf,
    count: i64,
    datatype: Handle,
    op: Handle,
    comm: Handle,
) -> Result<Planned> {
    let (r, params) = scan_params(e, sendbuf, recvbuf, count, datatype, op, comm, false)?;
    Ok(r.planned(Plan::Scan(params), sendbuf, recvbuf))
}

pub(crate) fn prepare_exscan(
    e: &Engine,
    sendbuf: UserBuf,
    recvbuf: UserBuf,
    count: i64,
    datatype: Handle,
    op: Handle,
    comm: Handle,
) -> Result<Planned> {
    let (r, params) = scan_params(e, sendbuf, recvbuf, count, datatype, op, comm, true)?;
    Ok(r.planned(Plan::Exscan(params), sendbuf, recvbuf))
}

/// `MPI_Reduce`.
#[expect(clippy::too_many_arguments, reason = "the standard's parameter list")]
pub fn reduce(
    e: &Engine,
    sendbuf: UserBuf,
    recvbuf: UserBuf,
    count: i64,
    datatype: Handle,
    op: Handle,
    root: i32,
    comm: Handle,
) -> Result<()> {
    e.run_planned(prepare_reduce(
        e, sendbuf, recvbuf, count, datatype, op, root, comm,
    )?)
}

/// `MPI_Ireduce`.
#[expect(clippy::too_many_arguments, reason = "the standard's parameter list")]
pub fn ireduce(
    e: &Engine,
    sendbuf: UserBuf,
    recvbuf: UserBuf,
    count: i64,
    datatype: Handle,
    op: Handle,
    root: i32,
    comm: Handle,
    request: &mut Handle,
) -> Result<()> {
    let call = prepare_reduce(e, sendbuf, recvbuf, count, datatype, op, root, comm)?.handed(e)?;
    // They are checked.
    let (root, count) = (Some(root as u32), count as u64);
    *request = e.hand_small(call, SmallCall::Reduce { root, count })?;
    Ok(())
}

/// `MPI_Allreduce`.
pub fn allreduce(
    e: &Engine,
    sendbuf: UserBuf,
    recvbuf: UserBuf,
    count: i64,
    datatype: Handle,
    op: Handle,
    comm: Handle,
) -> Result<()> {
    e.run_planned(prepare_allreduce(
        e, sendbuf, recvbuf, count, datatype, op, comm,
    )?)
}

/// `MPI_Iallreduce`.
#[expect(clippy::too_many_arguments, reason = "the standard's parameter list")]
pub fn iallreduce(
    e: &Engine,
    sendbuf: UserBuf,
    recvbuf: UserBuf,
    count: i64,
    datatype: Handle,
    op: Handle,
    comm: Handle,
    request: &mut Handle,
) -> Result<()> {
    let call = prepare_allreduce(e, sendbuf, recvbuf, count, datatype, op, comm)?.handed(e)?;
    let count = count as u64;
    *request = e.hand_small(call, SmallCall::Reduce { root: None, count })?;
    Ok(())
}

/// `MPI_Reduce_scatter_block`.
pub fn reduce_scatter_block(
    e: &Engine,
    sendbuf: UserBuf,
    recvbuf: UserBuf,
    recvcount: i64,
    datatype: Handle,
    op: Handle,
    comm: Handle,
) -> Result<()> {
    e.run_collective(prepare_reduce_scatter_block(
        e, sendbuf, recvbuf, recvcount, datatype, op, comm, false,
    )?)
}

/// `MPI_Ireduce_scatter_block`.
#[expect(clippy::too_many_arguments, reason = "the standard's parameter list")]
pub fn ireduce_scatter_block(
    e: &Engine,
    sendbuf: UserBuf,
    recvbuf: UserBuf,
    recvcount: i64,
    datatype: Handle,
    op: Handle,
    comm: Handle,
    request: &mut Handle,
) -> Result<()> {
    *request = e.hand_collective(prepare_reduce_scatter_block(
        e, sendbuf, recvbuf, recvcount, datatype, op, comm, true,
    )?)?;
    Ok(())
}

/// `MPI_Reduce_scatter`.
pub fn reduce_scatter(
    e: &Engine,
    sendbuf: UserBuf,
    recvbuf: UserBuf,
    recvcounts: Ints,
    datatype: Handle,
    op: Handle,
    comm: Handle,
) -> Result<()> {
    e.run_collective(prepare_reduce_scatter(
        e, sendbuf, recvbuf, recvcounts, datatype, op, comm, false,
    )?)
}

/// `MPI_Ireduce_scatter`.
#[expect(clippy::too_many_arguments, reason = "the standard's parameter list")]
pub fn ireduce_scatter(
    e: &Engine,
    sendbuf: UserBuf,
    recvbuf: UserBuf,
    recvcounts: Ints,
    datatype: Handle,
    op: Handle,
    comm: Handle,
    request: &mut Handle,
) -> Result<()> {
    *request = e.hand_collective(prepare_reduce_scatter(
        e, sendbuf, recvbuf, recvcounts, datatype, op, comm, true,
    )?)?;
    Ok(())
}

/// `MPI_Scan`.
pub fn scan(
    e: &Engine,
    sendbuf: UserBuf,
    recvbuf: UserBuf,
    count: i64,
    datatype: Handle,
    op: Handle,
    comm: Handle,
) -> Result<()> {
    e.run_planned(prepare_scan(
        e, sendbuf, recvbuf, count, datatype, op, comm,
    )?)
}

/// `MPI_Iscan`.
#[expect(clippy::too_many_arguments, reason = "the standard's parameter list")]
pub fn iscan(
    e: &Engine,
    sendbuf: UserBuf,
    recvbuf: UserBuf,
    count: i64,
    datatype: Handle,
    op: Handle,
    comm: Handle,
    request: &mut Handle,
) -> Result<()> {
    *request = e.hand_collective(
        prepare_scan(e, sendbuf, recvbuf, count, datatype, op, comm)?.handed(e)?,
    )?;
    Ok(())
}

/// `MPI_Exscan`.
pub fn exscan(
    e: &Engine,
    sendbuf: UserBuf,
    recvbuf: UserBuf,
    count: i64,
    datatype: Handle,
    op: Handle,
    comm: Handle,
) -> Result<()> {
    e.run_planned(prepare_exscan(
        e, sendbuf, recvbuf, count, datatype, op, comm,
    )?)
}

/// `MPI_Iexscan`.
#[expect(clippy::too_many_arguments, reason = "the standard's parameter list")]
pub fn iexscan(
    e: &Engine,
    sendbuf: UserBuf,
    recvbuf: UserBuf,
    count: i64,
    datatype: Handle,
    op: Handle,
    comm: Handle,
    request: &mut Handle,
) -> Result<()> {
    *request = e.hand_collective(
        prepare_exscan(e, sendbuf, recvbuf, count, datatype, op, comm)?.handed(e)?,
    )?;
    Ok(())
}
