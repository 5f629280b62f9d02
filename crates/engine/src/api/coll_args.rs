//! The checked arguments of collectives that move data, made into the [`Call`] that runs them.
//!
//! Arguments that the standard calls significant only at the root are looked at only there. Used by
//! `api::coll` and `api::coll_init`, and in part by `api::neighbor_args`.

use std::rc::Rc;

use boundary::{Handles, Ints, UserBuf};
use cad::alltoall::BlockW;
use cad::bcast::{Relay, Spread};
use cad::{
    Block, Graph, Part, Shape, Team, allgather, alltoall as alltoall_graphs, bcast as bcast_graphs,
    gather as gather_graphs, scatter as scatter_graphs, straight,
};
use types::{Handle, Result, consts, fault};

use super::p2p::check_buffer;
use crate::coll::names::{self, Names};
use crate::coll::{Call, Planned, team};
use crate::comm::{Comm, counted};
use crate::graphs::Plan;
use crate::state::Engine;
use crate::typeobj::TypeObj;

/// One side of a collective: a buffer with its type, and what the graph needs to know of it.
pub(crate) struct Side {
    pub buf: UserBuf,
    pub datatype: Option<Rc<TypeObj>>,
    pub part: Part,
}

/// A side whose arguments don't count here.
pub(super) const NOWHERE: Side = Side {
    buf: UserBuf::NULL,
    datatype: None,
    part: Part {
        count: 0,
        ty: Shape::BYTE,
    },
};

/// What a graph needs to know of a type.
pub(crate) fn shape(datatype: &TypeObj) -> Shape {
    let d = &datatype.datatype;
    Shape {
        size: d.size(),
        extent: d.extent(),
        true_extent: (d.true_ub() - d.true_lb()) as u64,
        contiguous: datatype.is_dense(),
    }
}

/// Checks one side with equal blocks.
pub(super) fn side(e: &Engine, buf: UserBuf, count: i64, datatype: Handle) -> Result<Side> {
    let datatype = check_buffer(e, buf, count, datatype)?;
    let part = Part {
        count: count as u64,
        ty: shape(&datatype),
    };
    Ok(Side {
        buf,
        datatype: Some(datatype),
        part,
    })
}

/// Checks one side with `n` blocks, and reads its counts and displacements.
pub(super) fn blocks(
    e: &Engine,
    n: usize,
    buf: UserBuf,
    counts: Ints,
    displs: Ints,
    datatype: Handle,
) -> Result<(Side, Vec<Block>)> {
    if n > 0 && (counts.is_null() || displs.is_null()) {
        return Err(fault(
            consts::ERR_ARG,
            "the array of counts or displacements is NULL",
        ));
    }
    let read = |i: usize| match counts.get(i) {
        n if n < 0 => Err(fault(
            consts::ERR_COUNT,
            format!("count {i} is {n}, which is negative"),
        )),
        n => Ok(Block {
            count: n as u64,
            disp: displs.get(i),
        }),
    };
    let list = (0..n).map(read).collect::<Result<Vec<_>>>()?;
    let most = list.iter().map(|b| b.count).max().unwrap_or(0);
    let side = side(e, buf, most as i64, datatype)?;
    Ok((side, list))
}

/// Checks that a collective's two buffers are not one: for that there is `MPI_IN_PLACE`.
pub(crate) fn check_distinct(sendbuf: UserBuf, recvbuf: UserBuf, count: i64) -> Result<()> {
    if sendbuf != recvbuf || sendbuf.is_null() || count == 0 {
        return Ok(());
    }
    Err(fault(
        consts::ERR_BUFFER,
        "the send and the receive buffer are the same; that is what MPI_IN_PLACE is for",
    ))
}

/// Checks that the two sides of a collective are not one.
pub(super) fn check_sides(send: &Side, recv: &Side) -> Result<()> {
    check_own((send, all_of(send)), (recv, all_of(recv)))
}

/// Checks that the block that a rank sends to itself does not lie where it goes. Different types at one address may well be of different memory.
fn check_own((send, from): (&Side, Block), (recv, to): (&Side, Block)) -> Result<()> {
    let types = send.datatype.as_ref().zip(recv.datatype.as_ref());
    if types.is_none_or(|(one, other)| !Rc::ptr_eq(one, other)) {
        return Ok(());
    }
    let at = |side: &Side, block: Block| {
        let bytes = side.part.ty.extent.wrapping_mul(block.disp);
        side.buf.offset(bytes)
    };
    let bytes = send.part.ty.bytes(from.count.min(to.count));
    check_distinct(at(send, from), at(recv, to), bytes as i64)
}

/// What lies at the beginning of a side: all of one that has a single block.
fn all_of(side: &Side) -> Block {
    block_of(side, 0)
}

/// The block of rank `rank` on a side that has one for each.
fn block_of(side: &Side, rank: u32) -> Block {
    let count = side.part.count;
    let disp = (count as i64).wrapping_mul(i64::from(rank));
    Block { count, disp }
}

/// Checks the rank of a root.
pub(crate) fn check_root(comm: &Comm, root: i32) -> Result<u32> {
    u32::try_from(root)
        .ok()
        .filter(|&r| r < comm.size())
        .ok_or_else(|| {
            fault(
                consts::ERR_ROOT,
                format!(
                    "the root is rank {root}, but the communicator has {}",
                    counted(comm.size(), "rank")
                ),
            )
        })
}

impl Engine {
    /// The team of a communicator's processes, for a collective that goes on while they compute or for one that they wait for.
    pub(super) fn team_of(&self, comm: &Comm, handed: bool) -> Team {
        let straight = handed && self.goes_straight(comm);
        Team {
            straight,
            lends: straight && self.lends(),
            ..team(comm)
        }
    }

    /// Whether few processes, all of which share memory, do without others that pass on.
    pub(crate) fn goes_straight(&self, comm: &Comm) -> bool {
        // Chains of the kernel pass on by themselves. (A thread of ours does too, when it gets a processor.)
        straight::serves(comm.size())
            && self.spread(comm) == Spread::Together
            && !self.kernel.is_insisted_on()
    }
}

/// A call of all of `comm`.
pub(super) fn call(
    names: &'static Names,
    comm: Rc<Comm>,
    graph: Graph,
    send: Side,
    recv: Side,
) -> Call {
    Call {
        send: send.buf,
        recv: recv.buf,
        send_type: send.datatype,
        recv_type: recv.datatype,
        ..Call::new(names, comm, Rc::new(graph))
    }
}

/// The same, by a plan.
fn planned(comm: Rc<Comm>, plan: Plan, send: Side, recv: Side) -> Planned {
    Planned {
        plan,
        comm,
        send: send.buf,
        recv: recv.buf,
        send_type: send.datatype,
        recv_type: recv.datatype,
        op: None,
    }
}

pub(crate) fn prepare_barrier(e: &Engine, comm: Handle) -> Result<Planned> {
    let comm = e.comm(comm)?;
    let plan = Plan::Barrier(team(&comm));
    Ok(planned(comm, plan, NOWHERE, NOWHERE))
}

pub(crate) fn prepare_bcast(
    e: &Engine,
    buffer: UserBuf,
    count: i64,
    datatype: Handle,
    root: i32,
    comm: Handle,
) -> Result<Planned> {
    let comm = e.comm(comm)?;
    let root = check_root(&comm, root)?;
    let data = side(e, buffer, count, datatype)?;
    let Part { count, ty } = data.part;
    let plan = Plan::Bcast(bcast_graphs::Params {
        team: team(&comm),
        root,
        count,
        ty,
        spread: e.spread(&comm),
    });
    Ok(planned(comm, plan, NOWHERE, data))
}

impl Planned {
    /// The call of one that goes on while its ranks compute, non-blocking or persistent, or that goes as if they did.
    pub(crate) fn handed(mut self, e: &Engine) -> Result<Call> {
        *self.plan.team_mut() = e.team_of(&self.comm, true);
        if let Plan::Bcast(params) = &mut self.plan {
            params.spread = handed_spread(e, &self.comm, params)?;
        }
        Ok(self.call(e))
    }
}

/// Where the processes are for a broadcast that goes on while its ranks compute, the same at all of them: whether this rank has a ring *by now* would not be.
fn handed_spread(e: &Engine, comm: &Comm, params: &bcast_graphs::Params) -> Result<Spread> {
    Ok(match params.spread {
        Spread::Apart(_) if e.is_for_ring(Plan::Bcast(*params).moves(), comm)? => {
            Spread::Apart(Relay::Kernel)
        }
        // Whoever would pass them on may compute. The ring passes them on all the same, and does not lend.
        Spread::Together if params.is_for_few() && e.lends() && !e.kernel.is_insisted_on() => {
            Spread::Lending
        }
        // Ranks pass data on in calls: while they compute not at all.
        Spread::Apart(_) | Spread::Blocks => Spread::Mixed,
        spread => spread,
    })
}

#[expect(clippy::too_many_arguments, reason = "the standard's parameter list")]
pub(crate) fn prepare_gather(
    e: &Engine,
    sendbuf: UserBuf,
    sendcount: i64,
    sendtype: Handle,
    recvbuf: UserBuf,
    recvcount: i64,
    recvtype: Handle,
    root: i32,
    comm: Handle,
) -> Result<Planned> {
    let comm = e.comm(comm)?;
    let root = check_root(&comm, root)?;
    let at_root = comm.rank == root;
    let in_place = at_root && sendbuf.is_in_place();
    let send = if in_place {
        NOWHERE
    } else {
        side(e, sendbuf, sendcount, sendtype)?
    };
    let recv = if at_root {
        side(e, recvbuf, recvcount, recvtype)?
    } else {
        NOWHERE
    };
    check_sides(&send, &recv)?;
    if at_root {
        check_own((&send, all_of(&send)), (&recv, block_of(&recv, root)))?;
    }
    let params = gather_graphs::Params {
        team: team(&comm),
        root,
        send: send.part,
        recv: recv.part,
        in_place,
    };
    Ok(planned(comm, Plan::Gather(params), send, recv))
}

#[expect(clippy::too_many_arguments, reason = "the standard's parameter list")]
pub(crate) fn prepare_gatherv(
    e: &Engine,
    sendbuf: UserBuf,
    sendcount: i64,
    sendtype: Handle,
    recvbuf: UserBuf,
    recvcounts: Ints,
    displs: Ints,
    recvtype: Handle,
    root: i32,
    comm: Handle,
) -> Result<Call> {
    let comm = e.comm(comm)?;
    let root = check_root(&comm, root)?;
    let at_root = comm.rank == root;
    let in_place = at_root && sendbuf.is_in_place();
    let send = if in_place {
        NOWHERE
    } else {
        side(e, sendbuf, sendcount, sendtype)?
    };
    let (recv, list) = match at_root {
        true => blocks(
            e,
            comm.size() as usize,
            recvbuf,
            recvcounts,
            displs,
            recvtype,
        )?,
        false => (NOWHERE, Vec::new()),
    };
    if at_root {
        check_own((&send, all_of(&send)), (&recv, list[root as usize]))?;
    }
    let params = gather_graphs::ParamsV {
        team: team(&comm),
        root,
        send: send.part,
        recv: &list,
        recv_ty: recv.part.ty,
        in_place,
    };
    let graph = gather_graphs::graph_v(&params);
    Ok(call(&names::GATHERV, comm, graph, send, recv))
}

#[expect(clippy::too_many_arguments, reason = "the standard's parameter list")]
pub(crate) fn prepare_scatter(
    e: &Engine,
    sendbuf: UserBuf,
    sendcount: i64,
    sendtype: Handle,
    recvbuf: UserBuf,
    recvcount: i64,
    recvtype: Handle,
    root: i32,
    comm: Handle,
) -> Result<Planned> {
    let comm = e.comm(comm)?;
    let root = check_root(&comm, root)?;
    let at_root = comm.rank == root;
    let in_place = at_root && recvbuf.is_in_place();
    let send = if at_root {
        side(e, sendbuf, sendcount, sendtype)?
    } else {
        NOWHERE
    };
    let recv = if in_place {
        NOWHERE
    } else {
        side(e, recvbuf, recvcount, recvtype)?
    };
    if at_root {
        check_own((&send, block_of(&send, root)), (&recv, all_of(&recv)))?;
    }
    let params = scatter_graphs::Params {
        team: team(&comm),
        root,
        send: send.part,
        recv: recv.part,
        in_place,
    };
    Ok(planned(comm, Plan::Scatter(params), send, recv))
}

#[expect(clippy::too_many_arguments, reason = "the standard's parameter list")]
pub(crate) fn prepare_scatterv(
    e: &Engine,
    sendbuf: UserBuf,
    sendcounts: Ints,
    displs: Ints,
    sendtype: Handle,
    recvbuf: UserBuf,
    recvcount: i64,
    recvtype: Handle,
    root: i32,
    comm: Handle,
) -> Result<Call> {
    let comm = e.comm(comm)?;
    let root = check_root(&comm, root)?;
    let at_root = comm.rank == root;
    let in_place = at_root && recvbuf.is_in_place();
    let (send, list) = match at_root {
        true => blocks(
            e,
            comm.size() as usize,
            sendbuf,
            sendcounts,
            displs,
            sendtype,
        )?,
        false => (NOWHERE, Vec::new()),
    };
    let recv = if in_place {
        NOWHERE
    } else {
        side(e, recvbuf, recvcount, recvtype)?
    };
    if at_root {
        check_own((&send, list[root as usize]), (&recv, all_of(&recv)))?;
    }
    let params = scatter_graphs::ParamsV {
        team: team(&comm),
        root,
        send: &list,
        send_ty: send.part.ty,
        recv: recv.part,
        in_place,
    };
    let graph = scatter_graphs::graph_v(&params);
    Ok(call(&names::SCATTERV, comm, graph, send, recv))
}

#[expect(clippy::too_many_arguments, reason = "the standard's parameter list")]
pub(crate) fn prepare_allgather(
    e: &Engine,
    sendbuf: UserBuf,
    sendcount: i64,
    sendtype: Handle,
    recvbuf: UserBuf,
    recvcount: i64,
    recvtype: Handle,
    comm: Handle,
) -> Result<Planned> {
    let comm = e.comm(comm)?;
    let in_place = sendbuf.is_in_place();
    let recv = side(e, recvbuf, recvcount, recvtype)?;
    let send = if in_place {
        NOWHERE
    } else {
        side(e, sendbuf, sendcount, sendtype)?
    };
    check_sides(&send, &recv)?;
    check_own((&send, all_of(&send)), (&recv, block_of(&recv, comm.rank)))?;
    let params = allgather::Params {
        team: team(&comm),
        send: send.part,
        recv: recv.part,
        in_place,
    };
    Ok(planned(comm, Plan::Allgather(params), send, recv))
}

#[expect(clippy::too_many_arguments, reason = "the standard's parameter list")]
pub(crate) fn prepare_allgatherv(
    e: &Engine,
    sendbuf: UserBuf,
    sendcount: i64,
    sendtype: Handle,
    recvbuf: UserBuf,
    recvcounts: Ints,
    displs: Ints,
    recvtype: Handle,
    comm: Handle,
    handed: bool,
) -> Result<Call> {
    let comm = e.comm(comm)?;
    let in_place = sendbuf.is_in_place();
    let (recv, list) = blocks(
        e,
        comm.size() as usize,
        recvbuf,
        recvcounts,
        displs,
        recvtype,
    )?;
    let send = if in_place {
        NOWHERE
    } else {
        side(e, sendbuf, sendcount, sendtype)?
    };
    check_own((&send, all_of(&send)), (&recv, list[comm.rank as usize]))?;
    let params = allgather::ParamsV {
        team: e.team_of(&comm, handed),
        send: send.part,
        recv: &list,
        recv_ty: recv.part.ty,
        in_place,
    };
    let graph = allgather::graph_v(&params);
    Ok(call(&names::ALLGATHERV, comm, graph, send, recv))
}

#[expect(clippy::too_many_arguments, reason = "the standard's parameter list")]
pub(crate) fn prepare_alltoall(
    e: &Engine,
    sendbuf: UserBuf,
    sendcount: i64,
    sendtype: Handle,
    recvbuf: UserBuf,
    recvcount: i64,
    recvtype: Handle,
    comm: Handle,
) -> Result<Planned> {
    let comm = e.comm(comm)?;
    let in_place = sendbuf.is_in_place();
    let recv = side(e, recvbuf, recvcount, recvtype)?;
    let send = if in_place {
        NOWHERE
    } else {
        side(e, sendbuf, sendcount, sendtype)?
    };
    check_sides(&send, &recv)?;
    let params = alltoall_graphs::Params {
        team: team(&comm),
        send: send.part,
        recv: recv.part,
        in_place,
    };
    Ok(planned(comm, Plan::Alltoall(params), send, recv))
}

#[expect(clippy::too_many_arguments, reason = "the standard's parameter list")]
pub(crate) fn prepare_alltoallv(
    e: &Engine,
    sendbuf: UserBuf,
    sendcounts: Ints,
    sdispls: Ints,
    sendtype: Handle,
    recvbuf: UserBuf,
    recvcounts: Ints,
    rdispls: Ints,
    recvtype: Handle,
    comm: Handle,
    handed: bool,
) -> Result<Call> {
    let comm = e.comm(comm)?;
    let in_place = sendbuf.is_in_place();
    let (recv, theirs) = blocks(
        e,
        comm.size() as usize,
        recvbuf,
        recvcounts,
        rdispls,
        recvtype,
    )?;
    let (send, mine) = match in_place {
        true => (NOWHERE, Vec::new()),
        false => blocks(
            e,
            comm.size() as usize,
            sendbuf,
            sendcounts,
            sdispls,
            sendtype,
        )?,
    };
    if let Some(from) = mine.get(comm.rank as usize) {
        check_own((&send, *from), (&recv, theirs[comm.rank as usize]))?;
    }
    let params = alltoall_graphs::ParamsV {
        team: e.team_of(&comm, handed),
        send: &mine,
        send_ty: send.part.ty,
        recv: &theirs,
        recv_ty: recv.part.ty,
        in_place,
    };
    let graph = alltoall_graphs::graph_v(&params);
    Ok(call(&names::ALLTOALLV, comm, graph, send, recv))
}

/// Reads one side of an alltoallw: `n` blocks, each with its type.
pub(super) fn typed_blocks(
    e: &Engine,
    n: usize,
    buf: UserBuf,
    counts: Ints,
    displs: Ints,
    types: Handles,
) -> Result<(Vec<BlockW>, Vec<Rc<TypeObj>>)> {
    if n > 0 && (counts.is_null() || displs.is_null() || types.is_null()) {
        return Err(fault(
            consts::ERR_ARG,
            "the array of counts, displacements or types is NULL",
        ));
    }
    let read = |i: usize| {
        // With MPI_BOTTOM displacements are addresses, for basic types too.
        let at = if buf.is_null() {
            buf.offset(displs.get(i))
        } else {
            buf
        };
        // A block of nothing may be without a type: programs fill in those that they use, and MPICH takes that.
        let datatype = match (counts.get(i), types.get(i)) {
            (0, consts::DATATYPE_NULL) => consts::BYTE,
            (_, datatype) => datatype,
        };
        let datatype = check_buffer(e, at, counts.get(i), datatype)?;
        let block = BlockW {
            count: counts.get(i) as u64,
            disp: displs.get(i),
            size: datatype.size(),
        };
        Ok((block, datatype))
    };
    (0..n).map(read).collect()
}

#[expect(clippy::too_many_arguments, reason = "the standard's parameter list")]
pub(crate) fn prepare_alltoallw(
    e: &Engine,
    sendbuf: UserBuf,
    sendcounts: Ints,
    sdispls: Ints,
    sendtypes: Handles,
    recvbuf: UserBuf,
    recvcounts: Ints,
    rdispls: Ints,
    recvtypes: Handles,
    comm: Handle,
) -> Result<Call> {
    let comm = e.comm(comm)?;
    let in_place = sendbuf.is_in_place();
    let (theirs, recv_types) = typed_blocks(
        e,
        comm.size() as usize,
        recvbuf,
        recvcounts,
        rdispls,
        recvtypes,
    )?;
    let (mine, send_types) = match in_place {
        true => Default::default(),
        false => typed_blocks(
            e,
            comm.size() as usize,
            sendbuf,
            sendcounts,
            sdispls,
            sendtypes,
        )?,
    };
    let own = comm.rank as usize;
    if let Some(from) = mine.get(own)
        && Rc::ptr_eq(&send_types[own], &recv_types[own])
    {
        let to = &theirs[own];
        let bytes = from.count.min(to.count).saturating_mul(from.size);
        let at = (sendbuf.offset(from.disp), recvbuf.offset(to.disp));
        check_distinct(at.0, at.1, bytes as i64)?;
    }
    let params = alltoall_graphs::ParamsW {
        team: team(&comm),
        send: &mine,
        recv: &theirs,
        in_place,
    };
    let graph = Rc::new(alltoall_graphs::graph_w(&params));
    Ok(Call {
        send: sendbuf,
        recv: recvbuf,
        types: Some((send_types, recv_types)),
        ..Call::new(&names::ALLTOALLW, comm, graph)
    })
}
