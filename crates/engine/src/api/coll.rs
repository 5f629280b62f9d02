//! Collectives that move data: barrier, broadcast, gather, scatter, allgather, alltoall and their
//! vector forms, blocking and not: the former run the call, the latter start it.

use boundary::{Handles, Ints, UserBuf};
use types::{Handle, Result};

use super::coll_args::*;
use crate::coll::SmallCall;
use crate::state::Engine;

/// `MPI_Barrier`.
pub fn barrier(e: &Engine, comm: Handle) -> Result<()> {
    e.run_planned(prepare_barrier(e, comm)?)
}

/// `MPI_Ibarrier`.
pub fn ibarrier(e: &Engine, comm: Handle, request: &mut Handle) -> Result<()> {
    *request = e.hand_small(prepare_barrier(e, comm)?.handed(e)?, SmallCall::Barrier)?;
    Ok(())
}

/// `MPI_Bcast`.
pub fn bcast(
    e: &Engine,
    buffer: UserBuf,
    count: i64,
    datatype: Handle,
    root: i32,
    comm: Handle,
) -> Result<()> {
    e.run_planned(prepare_bcast(e, buffer, count, datatype, root, comm)?)
}

/// `MPI_Ibcast`.
pub fn ibcast(
    e: &Engine,
    buffer: UserBuf,
    count: i64,
    datatype: Handle,
    root: i32,
    comm: Handle,
    request: &mut Handle,
) -> Result<()> {
    let call = prepare_bcast(e, buffer, count, datatype, root, comm)?.handed(e)?;
    // They are checked.
    let (root, count) = (root as u32, count as u64);
    *request = e.hand_small(call, SmallCall::Bcast { root, count })?;
    Ok(())
}

/// `MPI_Gather`.
#[expect(clippy::too_many_arguments, reason = "the standard's parameter list")]
pub fn gather(
    e: &Engine,
    sendbuf: UserBuf,
    sendcount: i64,
    sendtype: Handle,
    recvbuf: UserBuf,
    recvcount: i64,
    recvtype: Handle,
    root: i32,
    comm: Handle,
) -> Result<()> {
    e.run_planned(prepare_gather(
        e, sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root, comm,
    )?)
}

/// `MPI_Igather`.
#[expect(clippy::too_many_arguments, reason = "the standard's parameter list")]
pub fn igather(
    e: &Engine,
    sendbuf: UserBuf,
    sendcount: i64,
    sendtype: Handle,
    recvbuf: UserBuf,
    recvcount: i64,
    recvtype: Handle,
    root: i32,
    comm: Handle,
    request: &mut Handle,
) -> Result<()> {
    *request = e.hand_collective(
        prepare_gather(
            e, sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root, comm,
        )?
        .handed(e)?,
    )?;
    Ok(())
}

/// `MPI_Gatherv`.
#[expect(clippy::too_many_arguments, reason = "the standard's parameter list")]
pub fn gatherv(
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
) -> Result<()> {
    e.run_collective(prepare_gatherv(
        e, sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype, root, comm,
    )?)
}

/// `MPI_Igatherv`.
#[expect(clippy::too_many_arguments, reason = "the standard's parameter list")]
pub fn igatherv(
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
    request: &mut Handle,
) -> Result<()> {
    *request = e.hand_collective(prepare_gatherv(
        e, sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype, root, comm,
    )?)?;
    Ok(())
}

/// `MPI_Scatter`.
#[expect(clippy::too_many_arguments, reason = "the standard's parameter list")]
pub fn scatter(
    e: &Engine,
    sendbuf: UserBuf,
    sendcount: i64,
    sendtype: Handle,
    recvbuf: UserBuf,
    recvcount: i64,
    recvtype: Handle,
    root: i32,
    comm: Handle,
) -> Result<()> {
    e.run_planned(prepare_scatter(
        e, sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root, comm,
    )?)
}

/// `MPI_Iscatter`.
#[expect(clippy::too_many_arguments, reason = "the standard's parameter list")]
pub fn iscatter(
    e: &Engine,
    sendbuf: UserBuf,
    sendcount: i64,
    sendtype: Handle,
    recvbuf: UserBuf,
    recvcount: i64,
    recvtype: Handle,
    root: i32,
    comm: Handle,
    request: &mut Handle,
) -> Result<()> {
    *request = e.hand_collective(
        prepare_scatter(
            e, sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root, comm,
        )?
        .handed(e)?,
    )?;
    Ok(())
}

/// `MPI_Scatterv`.
#[expect(clippy::too_many_arguments, reason = "the standard's parameter list")]
pub fn scatterv(
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
) -> Result<()> {
    e.run_collective(prepare_scatterv(
        e, sendbuf, sendcounts, displs, sendtype, recvbuf, recvcount, recvtype, root, comm,
    )?)
}

/// `MPI_Iscatterv`.
#[expect(clippy::too_many_arguments, reason = "the standard's parameter list")]
pub fn iscatterv(
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
    request: &mut Handle,
) -> Result<()> {
    *request = e.hand_collective(prepare_scatterv(
        e, sendbuf, sendcounts, displs, sendtype, recvbuf, recvcount, recvtype, root, comm,
    )?)?;
    Ok(())
}

/// `MPI_Allgather`.
#[expect(clippy::too_many_arguments, reason = "the standard's parameter list")]
pub fn allgather(
    e: &Engine,
    sendbuf: UserBuf,
    sendcount: i64,
    sendtype: Handle,
    recvbuf: UserBuf,
    recvcount: i64,
    recvtype: Handle,
    comm: Handle,
) -> Result<()> {
    e.run_planned(prepare_allgather(
        e, sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm,
    )?)
}

/// `MPI_Iallgather`.
#[expect(clippy::too_many_arguments, reason = "the standard's parameter list")]
pub fn iallgather(
    e: &Engine,
    sendbuf: UserBuf,
    sendcount: i64,
    sendtype: Handle,
    recvbuf: UserBuf,
    recvcount: i64,
    recvtype: Handle,
    comm: Handle,
    request: &mut Handle,
) -> Result<()> {
    *request = e.hand_collective(
        prepare_allgather(
            e, sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm,
        )?
        .handed(e)?,
    )?;
    Ok(())
}

/// `MPI_Allgatherv`.
#[expect(clippy::too_many_arguments, reason = "the standard's parameter list")]
pub fn allgatherv(
    e: &Engine,
    sendbuf: UserBuf,
    sendcount: i64,
    sendtype: Handle,
    recvbuf: UserBuf,
    recvcounts: Ints,
    displs: Ints,
    recvtype: Handle,
    comm: Handle,
) -> Result<()> {
    e.run_collective(prepare_allgatherv(
        e, sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype, comm, false,
    )?)
}

/// `MPI_Iallgatherv`.
#[expect(clippy::too_many_arguments, reason = "the standard's parameter list")]
pub fn iallgatherv(
    e: &Engine,
    sendbuf: UserBuf,
    sendcount: i64,
    sendtype: Handle,
    recvbuf: UserBuf,
    recvcounts: Ints,
    displs: Ints,
    recvtype: Handle,
    comm: Handle,
    request: &mut Handle,
) -> Result<()> {
    *request = e.hand_collective(prepare_allgatherv(
        e, sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype, comm, true,
    )?)?;
    Ok(())
}

/// `MPI_Alltoall`.
#[expect(clippy::too_many_arguments, reason = "the standard's parameter list")]
pub fn alltoall(
    e: &Engine,
    sendbuf: UserBuf,
    sendcount: i64,
    sendtype: Handle,
    recvbuf: UserBuf,
    recvcount: i64,
    recvtype: Handle,
    comm: Handle,
) -> Result<()> {
    e.run_planned(prepare_alltoall(
        e, sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm,
    )?)
}

/// `MPI_Ialltoall`.
#[expect(clippy::too_many_arguments, reason = "the standard's parameter list")]
pub fn ialltoall(
    e: &Engine,
    sendbuf: UserBuf,
    sendcount: i64,
    sendtype: Handle,
    recvbuf: UserBuf,
    recvcount: i64,
    recvtype: Handle,
    comm: Handle,
    request: &mut Handle,
) -> Result<()> {
    *request = e.hand_collective(
        prepare_alltoall(
            e, sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm,
        )?
        .handed(e)?,
    )?;
    Ok(())
}

/// `MPI_Alltoallv`.
#[expect(clippy::too_many_arguments, reason = "the standard's parameter list")]
pub fn alltoallv(
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
) -> Result<()> {
    e.run_collective(prepare_alltoallv(
        e, sendbuf, sendcounts, sdispls, sendtype, recvbuf, recvcounts, rdispls, recvtype, comm,
        false,
    )?)
}

/// `MPI_Ialltoallv`.
#[expect(clippy::too_many_arguments, reason = "the standard's parameter list")]
pub fn ialltoallv(
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
    request: &mut Handle,
) -> Result<()> {
    *request = e.hand_collective(prepare_alltoallv(
        e, sendbuf, sendcounts, sdispls, sendtype, recvbuf, recvcounts, rdispls, recvtype, comm,
        true,
    )?)?;
    Ok(())
}

/// `MPI_Alltoallw`.
#[expect(clippy::too_many_arguments, reason = "the standard's parameter list")]
pub fn alltoallw(
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
) -> Result<()> {
    e.run_collective(prepare_alltoallw(
        e, sendbuf, sendcounts, sdispls, sendtypes, recvbuf, recvcounts, rdispls, recvtypes, comm,
    )?)
}

/// `MPI_Ialltoallw`.
#[expect(clippy::too_many_arguments, reason = "the standard's parameter list")]
pub fn ialltoallw(
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
    request: &mut Handle,
) -> Result<()> {
    *request = e.hand_collective(prepare_alltoallw(
        e, sendbuf, sendcounts, sdispls, sendtypes, recvbuf, recvcounts, rdispls, recvtypes, comm,
    )?)?;
    Ok(())
}
