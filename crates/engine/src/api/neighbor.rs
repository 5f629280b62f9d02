//! Neighbourhood collectives (sections 8.6 to 8.9): blocking, non-blocking and persistent.

use boundary::{Handles, Ints, UserBuf};
use types::{Handle, Result};

use super::coll_init::keep;
use super::neighbor_args::*;
use crate::state::Engine;

/// `MPI_Neighbor_allgather`.
#[expect(clippy::too_many_arguments, reason = "the standard's parameter list")]
pub fn neighbor_allgather(
    e: &Engine,
    sendbuf: UserBuf,
    sendcount: i64,
    sendtype: Handle,
    recvbuf: UserBuf,
    recvcount: i64,
    recvtype: Handle,
    comm: Handle,
) -> Result<()> {
    e.run_collective(prepare_neighbor_allgather(
        e, sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm,
    )?)
}

/// `MPI_Ineighbor_allgather`.
#[expect(clippy::too_many_arguments, reason = "the standard's parameter list")]
pub fn ineighbor_allgather(
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
    *request = e.hand_collective(prepare_neighbor_allgather(
        e, sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm,
    )?)?;
    Ok(())
}

/// `MPI_Neighbor_allgather_init`.
#[expect(clippy::too_many_arguments, reason = "the standard's parameter list")]
pub fn neighbor_allgather_init(
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
        prepare_neighbor_allgather(
            e, sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm,
        )?,
        info,
        request,
    )
}

/// `MPI_Neighbor_allgatherv`.
#[expect(clippy::too_many_arguments, reason = "the standard's parameter list")]
pub fn neighbor_allgatherv(
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
    e.run_collective(prepare_neighbor_allgatherv(
        e, sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype, comm,
    )?)
}

/// `MPI_Ineighbor_allgatherv`.
#[expect(clippy::too_many_arguments, reason = "the standard's parameter list")]
pub fn ineighbor_allgatherv(
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
    *request = e.hand_collective(prepare_neighbor_allgatherv(
        e, sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype, comm,
    )?)?;
    Ok(())
}

/// `MPI_Neighbor_allgatherv_init`.
#[expect(clippy::too_many_arguments, reason = "the standard's parameter list")]
pub fn neighbor_allgatherv_init(
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
        prepare_neighbor_allgatherv(
            e, sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype, comm,
        )?,
        info,
        request,
    )
}

/// `MPI_Neighbor_alltoall`.
#[expect(clippy::too_many_arguments, reason = "the standard's parameter list")]
pub fn neighbor_alltoall(
    e: &Engine,
    sendbuf: UserBuf,
    sendcount: i64,
    sendtype: Handle,
    recvbuf: UserBuf,
    recvcount: i64,
    recvtype: Handle,
    comm: Handle,
) -> Result<()> {
    e.run_collective(prepare_neighbor_alltoall(
        e, sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm,
    )?)
}

/// `MPI_Ineighbor_alltoall`.
#[expect(clippy::too_many_arguments, reason = "the standard's parameter list")]
pub fn ineighbor_alltoall(
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
    *request = e.hand_collective(prepare_neighbor_alltoall(
        e, sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm,
    )?)?;
    Ok(())
}

/// `MPI_Neighbor_alltoall_init`.
#[expect(clippy::too_many_arguments, reason = "the standard's parameter list")]
pub fn neighbor_alltoall_init(
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
        prepare_neighbor_alltoall(
            e, sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm,
        )?,
        info,
        request,
    )
}

/// `MPI_Neighbor_alltoallv`.
#[expect(clippy::too_many_arguments, reason = "the standard's parameter list")]
pub fn neighbor_alltoallv(
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
    e.run_collective(prepare_neighbor_alltoallv(
        e, sendbuf, sendcounts, sdispls, sendtype, recvbuf, recvcounts, rdispls, recvtype, comm,
    )?)
}

/// `MPI_Ineighbor_alltoallv`.
#[expect(clippy::too_many_arguments, reason = "the standard's parameter list")]
pub fn ineighbor_alltoallv(
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
    *request = e.hand_collective(prepare_neighbor_alltoallv(
        e, sendbuf, sendcounts, sdispls, sendtype, recvbuf, recvcounts, rdispls, recvtype, comm,
    )?)?;
    Ok(())
}

/// `MPI_Neighbor_alltoallv_init`.
#[expect(clippy::too_many_arguments, reason = "the standard's parameter list")]
pub fn neighbor_alltoallv_init(
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
        prepare_neighbor_alltoallv(
            e, sendbuf, sendcounts, sdispls, sendtype, recvbuf, recvcounts, rdispls, recvtype, comm,
        )?,
        info,
        request,
    )
}

/// `MPI_Neighbor_alltoallw`.
#[expect(clippy::too_many_arguments, reason = "the standard's parameter list")]
pub fn neighbor_alltoallw(
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
    e.run_collective(prepare_neighbor_alltoallw(
        e, sendbuf, sendcounts, sdispls, sendtypes, recvbuf, recvcounts, rdispls, recvtypes, comm,
    )?)
}

/// `MPI_Ineighbor_alltoallw`.
#[expect(clippy::too_many_arguments, reason = "the standard's parameter list")]
pub fn ineighbor_alltoallw(
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
    *request = e.hand_collective(prepare_neighbor_alltoallw(
        e, sendbuf, sendcounts, sdispls, sendtypes, recvbuf, recvcounts, rdispls, recvtypes, comm,
    )?)?;
    Ok(())
}

/// `MPI_Neighbor_alltoallw_init`.
#[expect(clippy::too_many_arguments, reason = "the standard's parameter list")]
pub fn neighbor_alltoallw_init(
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
        prepare_neighbor_alltoallw(
            e, sendbuf, sendcounts, sdispls, sendtypes, recvbuf, recvcounts, rdispls, recvtypes,
            comm,
        )?,
        info,
        request,
    )
}
