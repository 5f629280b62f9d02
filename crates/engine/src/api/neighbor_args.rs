//! The checked arguments of neighbourhood collectives, made into the [`Call`] that runs them.

use std::rc::Rc;

use boundary::{Handles, Ints, UserBuf};
use cad::neighbor::{Blocks, Params, graph};
use types::{Handle, Result, consts, fault};

use super::coll_args::{NOWHERE, Side, blocks, call, check_sides, side, typed_blocks};
use crate::coll::names::{self, Names};
use crate::coll::{Call, team};
use crate::comm::Comm;
use crate::state::Engine;
use crate::topology::Topology;

/// A communicator with its topology.
struct Place {
    comm: Rc<Comm>,
    topology: Rc<Topology>,
}

impl Place {
    fn check(e: &Engine, comm: Handle) -> Result<Place> {
        let comm = e.comm(comm)?;
        let Some(topology) = comm.topology.clone() else {
            return Err(fault(
                consts::ERR_TOPOLOGY,
                "the communicator has no topology, so nobody has neighbours",
            ));
        };
        Ok(Place { comm, topology })
    }

    fn sources(&self) -> usize {
        self.topology.sources.len()
    }

    fn destinations(&self) -> usize {
        self.topology.destinations.len()
    }

    fn call(
        &self,
        names: &'static Names,
        (send, send_blocks): (Side, Blocks),
        (recv, recv_blocks): (Side, Blocks),
    ) -> Call {
        let made = graph(&Params {
            team: team(&self.comm),
            destinations: &self.topology.destinations,
            send: send_blocks,
            sources: &self.topology.sources,
            recv: recv_blocks,
        });
        call(names, self.comm.clone(), made, send, recv)
    }
}

/// Checks one side with equal blocks. Where there is no neighbour the buffer is not looked at.
fn blocks_for(
    e: &Engine,
    neighbors: usize,
    buf: UserBuf,
    count: i64,
    datatype: Handle,
) -> Result<Side> {
    let count = if neighbors == 0 { count.min(0) } else { count };
    side(e, buf, count, datatype)
}

#[expect(clippy::too_many_arguments, reason = "the standard's parameter list")]
pub(crate) fn prepare_neighbor_allgather(
    e: &Engine,
    sendbuf: UserBuf,
    sendcount: i64,
    sendtype: Handle,
    recvbuf: UserBuf,
    recvcount: i64,
    recvtype: Handle,
    comm: Handle,
) -> Result<Call> {
    let place = Place::check(e, comm)?;
    let send = blocks_for(e, place.destinations(), sendbuf, sendcount, sendtype)?;
    let recv = blocks_for(e, place.sources(), recvbuf, recvcount, recvtype)?;
    check_sides(&send, &recv)?;
    let (out, inn) = (Blocks::Same(send.part), Blocks::Equal(recv.part));
    Ok(place.call(&names::NEIGHBOR_ALLGATHER, (send, out), (recv, inn)))
}

#[expect(clippy::too_many_arguments, reason = "the standard's parameter list")]
pub(crate) fn prepare_neighbor_allgatherv(
    e: &Engine,
    sendbuf: UserBuf,
    sendcount: i64,
    sendtype: Handle,
    recvbuf: UserBuf,
    recvcounts: Ints,
    displs: Ints,
    recvtype: Handle,
    comm: Handle,
) -> Result<Call> {
    let place = Place::check(e, comm)?;
    let send = blocks_for(e, place.destinations(), sendbuf, sendcount, sendtype)?;
    let (recv, list) = blocks(e, place.sources(), recvbuf, recvcounts, displs, recvtype)?;
    let (out, ty) = (Blocks::Same(send.part), recv.part.ty);
    let inn = Blocks::Each(&list, ty);
    Ok(place.call(&names::NEIGHBOR_ALLGATHERV, (send, out), (recv, inn)))
}

#[expect(clippy::too_many_arguments, reason = "the standard's parameter list")]
pub(crate) fn prepare_neighbor_alltoall(
    e: &Engine,
    sendbuf: UserBuf,
    sendcount: i64,
    sendtype: Handle,
    recvbuf: UserBuf,
    recvcount: i64,
    recvtype: Handle,
    comm: Handle,
) -> Result<Call> {
    let place = Place::check(e, comm)?;
    let send = blocks_for(e, place.destinations(), sendbuf, sendcount, sendtype)?;
    let recv = blocks_for(e, place.sources(), recvbuf, recvcount, recvtype)?;
    check_sides(&send, &recv)?;
    let (out, inn) = (Blocks::Equal(send.part), Blocks::Equal(recv.part));
    Ok(place.call(&names::NEIGHBOR_ALLTOALL, (send, out), (recv, inn)))
}

#[expect(clippy::too_many_arguments, reason = "the standard's parameter list")]
pub(crate) fn prepare_neighbor_alltoallv(
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
) -> Result<Call> {
    let place = Place::check(e, comm)?;
    let (outs, ins) = (place.destinations(), place.sources());
    let (send, mine) = blocks(e, outs, sendbuf, sendcounts, sdispls, sendtype)?;
    let (recv, theirs) = blocks(e, ins, recvbuf, recvcounts, rdispls, recvtype)?;
    let out = Blocks::Each(&mine, send.part.ty);
    let inn = Blocks::Each(&theirs, recv.part.ty);
    Ok(place.call(&names::NEIGHBOR_ALLTOALLV, (send, out), (recv, inn)))
}

#[expect(clippy::too_many_arguments, reason = "the standard's parameter list")]
pub(crate) fn prepare_neighbor_alltoallw(
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
    let place = Place::check(e, comm)?;
    let (outs, ins) = (place.destinations(), place.sources());
    let (mine, send_types) = typed_blocks(e, outs, sendbuf, sendcounts, sdispls, sendtypes)?;
    let (theirs, recv_types) = typed_blocks(e, ins, recvbuf, recvcounts, rdispls, recvtypes)?;
    let (out, inn) = (Blocks::Typed(&mine), Blocks::Typed(&theirs));
    let mut made = place.call(&names::NEIGHBOR_ALLTOALLW, (NOWHERE, out), (NOWHERE, inn));
    (made.send, made.recv) = (sendbuf, recvbuf);
    made.types = Some((send_types, recv_types));
    Ok(made)
}
