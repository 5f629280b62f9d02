//! Persistent collectives: as [`super::coll`] and [`super::coll_reduce`], but the checked call is kept, and runs at each
//! start ([`super::persistent`]).

use boundary::{Handles, Ints, UserBuf};
use types::{Handle, Result};

use super::coll_args::*;
use super::coll_reduce::*;
use crate::coll::{Call, SmallCall};
use crate::state::Engine;

/// Makes the request of a checked call. No hint is known that would change how it runs.
pub(super) fn keep(e: &Engine, call: Call, info: Handle, request: &mut Handle) -> Result<()> {
    e.hints(info)?;
    *request = e.keep_handed(call)?;
    Ok(())
}

/// The same of a kind that may be small.
fn keep_small(
    e: &Engine,
    call: Call,
    shape: SmallCall,
    info: Handle,
    request: &mut Handle,
) -> Result<()> {
    e.hints(info)?;
    *request = e.keep_small(call, shape)?;
    Ok(())
}

/// `MPI_Barrier_init`.
pub fn barrier_init(e: &Engine, comm: Handle, info: Handle, request: &mut Handle) -> Result<()> {
    let call = prepare_barrier(e, comm)?.handed(e)?;
    keep_small(e, call, SmallCall::Barrier, info, request)
}

/// `MPI_Bcast_init`.
#[expect(clippy::too_many_arguments, reason = "the standard's parameter list")]
pub fn bcast_init(
    e: &Engine,
    buffer: UserBuf,
    count: i64,
    datatype: Handle,
    root: i32,
    comm: Handle,
    info: Handle,
    request: &mut Handle,
) -> Result<()> {
    let call = prepare_bcast(e, buffer, count, datatype, root, comm)?.handed(e)?;
    // They are checked.
    let (root, count) = (root as u32, count as u64);
    keep_small(e, call, SmallCall::Bcast { root, count }, info, request)
}

/// `MPI_Gather_init`.
#[expect(clippy::too_many_arguments, reason = "the standard's parameter list")]
pub fn gather_init(
    e: &Engine,
    sendbuf: UserBuf,
    sendcount: i64,
    sendtype: Handle,
    recvbuf: UserBuf,
    recvcount: i64,
    recvtype: Handle,
    root: i32,
    comm: Handle,
    info: Handle,
    request: &mut Handle,
) -> Result<()> {
    keep(
        e,
        prepare_gather(
            e, sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root, comm,
        )?
        .handed(e)?,
        info,
        request,
    )
}

/// `MPI_Gatherv_init`.
#[expect(clippy::too_many_arguments, reason = "the standard's parameter list")]
pub fn gatherv_init(
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
    info: Handle,
    request: &mut Handle,
) -> Result<()> {
    keep(
        e,
        prepare_gatherv(
            e, sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype, root, comm,
        )?,
        info,
        request,
    )
}

/// `MPI_Scatter_init`.
#[expect(clippy::too_many_arguments, reason = "the standard's parameter list")]
pub fn scatter_init(
    e: &Engine,
    sendbuf: UserBuf,
    sendcount: i64,
    sendtype: Handle,
    recvbuf: UserBuf,
    recvcount: i64,
    recvtype: Handle,
    root: i32,
    comm: Handle,
    info: Handle,
    request: &mut Handle,
) -> Result<()> {
    keep(
        e,
        prepare_scatter(
            e, sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root, comm,
        )?
        .handed(e)?,
        info,
        request,
    )
}

/// `MPI_Scatterv_init`.
#[expect(clippy::too_many_arguments, reason = "the standard's parameter list")]
pub fn scatterv_init(
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
    info: Handle,
    request: &mut Handle,
) -> Result<()> {
    keep(
        e,
        prepare_scatterv(
            e, sendbuf, sendcounts, displs, sendtype, recvbuf, recvcount, recvtype, root, comm,
        )?,
        info,
        request,
    )
}

/// `MPI_Allgather_init`.
#[expect(clippy::too_many_arguments, reason = "the standard's parameter list")]
pub fn allgather_init(
    e: &Engine,
    sendbuf: UserBuf,
    sendcount: i64,
    sendtype: Handle,
    recvbuf: UserBuf,
    recvcount: i64,
    recvtype: Handle,
    comm: Handle,
    info: Handle,
    request: &mut Handle,
) -> Result<()> {
    keep(
        e,
        prepare_allgather(
            e, sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm,
        )?
        .handed(e)?,
        info,
        request,
    )
}

/// `MPI_Allgatherv_init`.
#[expect(clippy::too_many_arguments, reason = "the standard's parameter list")]
pub fn allgatherv_init(
    e: &Engine,
    sendbuf: UserBuf,
    sendcount: i64,
    sendtype: Handle,
    recvbuf: UserBuf,
    recvcounts: Ints,
    displs: Ints,
    recvtype: Handle,
    comm: Handle,
    info: Handle,
    request: &mut Handle,
) -> Result<()> {
    keep(
        e,
        prepare_allgatherv(
            e, sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype, comm, true,
        )?,
        info,
        request,
    )
}

/// `MPI_Alltoall_init`.
#[expect(clippy::too_many_arguments, reason = "the standard's parameter list")]
pub fn alltoall_init(
    e: &Engine,
    sendbuf: UserBuf,
    sendcount: i64,
    sendtype: Handle,
    recvbuf: UserBuf,
    recvcount: i64,
    recvtype: Handle,
    comm: Handle,
    info: Handle,
    request: &mut Handle,
) -> Result<()> {
    keep(
        e,
        prepare_alltoall(
            e, sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm,
        )?
        .handed(e)?,
        info,
        request,
    )
}

/// `MPI_Alltoallv_init`.
#[expect(clippy::too_many_arguments, reason = "the standard's parameter list")]
pub fn alltoallv_init(
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
    info: Handle,
    request: &mut Handle,
) -> Result<()> {
    keep(
        e,
        prepare_alltoallv(
            e, sendbuf, sendcounts, sdispls, sendtype, recvbuf, recvcounts, rdispls, recvtype,
            comm, true,
        )?,
        info,
        request,
    )
}

/// `MPI_Alltoallw_init`.
#[expect(clippy::too_many_arguments, reason = "the standard's parameter list")]
pub fn alltoallw_init(
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
    info: Handle,
    request: &mut Handle,
) -> Result<()> {
    keep(
        e,
        prepare_alltoallw(
            e, sendbuf, sendcounts, sdispls, sendtypes, recvbuf, recvcounts, rdispls, recvtypes,
            comm,
        )?,
        info,
        request,
    )
}

/// `MPI_Reduce_init`.
#[expect(clippy::too_many_arguments, reason = "the standard's parameter list")]
pub fn reduce_init(
    e: &Engine,
    sendbuf: UserBuf,
    recvbuf: UserBuf,
    count: i64,
    datatype: Handle,
    op: Handle,
    root: i32,
    comm: Handle,
    info: Handle,
    request: &mut Handle,
) -> Result<()> {
    let call = prepare_reduce(e, sendbuf, recvbuf, count, datatype, op, root, comm)?.handed(e)?;
    let (root, count) = (Some(root as u32), count as u64);
    keep_small(e, call, SmallCall::Reduce { root, count }, info, request)
}

/// `MPI_Allreduce_init`.
#[expect(clippy::too_many_arguments, reason = "the standard's parameter list")]
pub fn allreduce_init(
    e: &Engine,
    sendbuf: UserBuf,
    recvbuf: UserBuf,
    count: i64,
    datatype: Handle,
    op: Handle,
    comm: Handle,
    info: Handle,
    request: &mut Handle,
) -> Result<()> {
    let call = prepare_allreduce(e, sendbuf, recvbuf, count, datatype, op, comm)?.handed(e)?;
    let (root, count) = (None, count as u64);
    keep_small(e, call, SmallCall::Reduce { root, count }, info, request)
}

/// `MPI_Reduce_scatter_block_init`.
#[expect(clippy::too_many_arguments, reason = "the standard's parameter list")]
pub fn reduce_scatter_block_init(
    e: &Engine,
    sendbuf: UserBuf,
    recvbuf: UserBuf,
    recvcount: i64,
    datatype: Handle,
    op: Handle,
    comm: Handle,
    info: Handle,
    request: &mut Handle,
) -> Result<()> {
    keep(
        e,
        prepare_reduce_scatter_block(e, sendbuf, recvbuf, recvcount, datatype, op, comm, true)?,
        info,
        request,
    )
}

/// `MPI_Reduce_scatter_init`.
#[expect(clippy::too_many_arguments, reason = "the standard's parameter list")]
pub fn reduce_scatter_init(
    e: &Engine,
    sendbuf: UserBuf,
    recvbuf: UserBuf,
    recvcounts: Ints,
    datatype: Handle,
    op: Handle,
    comm: Handle,
    info: Handle,
    request: &mut Handle,
) -> Result<()> {
    keep(
        e,
        prepare_reduce_scatter(e, sendbuf, recvbuf, recvcounts, datatype, op, comm, true)?,
        info,
        request,
    )
}

/// `MPI_Scan_init`.
#[expect(clippy::too_many_arguments, reason = "the standard's parameter list")]
pub fn scan_init(
    e: &Engine,
    sendbuf: UserBuf,
    recvbuf: UserBuf,
    count: i64,
    datatype: Handle,
    op: Handle,
    comm: Handle,
    info: Handle,
    request: &mut Handle,
) -> Result<()> {
    keep(
        e,
        prepare_scan(e, sendbuf, recvbuf, count, datatype, op, comm)?.handed(e)?,
        info,
        request,
    )
}

/// `MPI_Exscan_init`.
#[expect(clippy::too_many_arguments, reason = "the standard's parameter list")]
pub fn exscan_init(
    e: &Engine,
    sendbuf: UserBuf,
    recvbuf: UserBuf,
    count: i64,
    datatype: Handle,
    op: Handle,
    comm: Handle,
    info: Handle,
    request: &mut Handle,
) -> Result<()> {
    keep(
        e,
        prepare_exscan(e, sendbuf, recvbuf, count, datatype, op, comm)?.handed(e)?,
        info,
        request,
    )
}
