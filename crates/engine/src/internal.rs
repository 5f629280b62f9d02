//! Collectives of the engine's own, over bytes in its own memory: how processes agree.

use std::rc::Rc;

use boundary::{AlignedBuf, UserBuf};
use cad::{Block, Graph, Shape, Team};
use types::{Handle, Result, consts, fault};

use crate::coll::names::Names;
use crate::coll::{Call, Tags, Then, team};
use crate::comm::Comm;
use crate::group::Group;
use crate::state::Engine;
use crate::wait::Waiting;

/// What the hang report says of a process that waits here for the others.
static MAKING: Names = Names {
    nonblocking: "MPI_Comm_idup",
    ..Names::only("communicator construction")
};
/// The same of one that waits for them to agree on a number.
static NUMBERING: Names = Names::only("initialisation of a persistent collective");

impl Engine {
    /// A collective over bytes in memory of ours, for the engine's own use.
    fn own_call(
        &self,
        names: &'static Names,
        comm: &Rc<Comm>,
        group: Rc<Group>,
        graph: Graph,
        own: AlignedBuf,
        then: Option<Then>,
    ) -> Call {
        let mut own = own;
        let recv = own.buf();
        Call {
            group,
            send: recv,
            recv,
            own: Some((own, then)),
            ..Call::new(names, comm.clone(), Rc::new(graph))
        }
    }

    /// Each rank's `mine`, of equal length, in order of rank, into `out`.
    pub(crate) fn internal_allgather(
        &self,
        comm: &Rc<Comm>,
        mine: &[u8],
        out: &mut [u8],
    ) -> Result<()> {
        self.internal_allgather_in(&MAKING, comm, mine, out)
    }

    /// The same in a call of these names, as the hang report shows it.
    pub(crate) fn internal_allgather_in(
        &self,
        names: &'static Names,
        comm: &Rc<Comm>,
        mine: &[u8],
        out: &mut [u8],
    ) -> Result<()> {
        let (graph, mut memory) = gathered(comm, mine)?;
        let recv = memory.buf();
        let call = self.own_call(names, comm, comm.group.clone(), graph, memory, None);
        self.finish_own(call, recv, out)
    }

    /// One byte of each rank, to all of them: a collective that has its number from now on, and begins when it is
    /// [begun](Engine::begin_prepared), with this rank's byte at the address that is given. `then` sees all at the end, zeros where it failed.
    pub(crate) fn internal_bytes_later(
        &self,
        comm: &Rc<Comm>,
        then: Then,
    ) -> Result<(Handle, UserBuf)> {
        let (graph, mut memory) = gathered(comm, &[0])?;
        let mine = memory.buf().offset(i64::from(comm.rank));
        let call = self.own_call(&MAKING, comm, comm.group.clone(), graph, memory, Some(then));
        Ok((self.prepare_collective(call)?, mine))
    }

    /// What ranks have to tell, each so many bytes, to all of them, in order of rank, without waiting; `then` sees it at the end.
    pub(crate) fn internal_blocks(
        &self,
        comm: &Rc<Comm>,
        lengths: &[u64],
        mine: &[u8],
        then: Then,
    ) -> Result<Handle> {
        let blocks = side_by_side(lengths);
        let mut memory = own_memory(lengths.iter().sum::<u64>() as usize)?;
        let at = blocks[comm.rank as usize].disp;
        memory.buf().offset(at).write(mine);
        let graph = cad::allgather::graph_v(&cad::allgather::ParamsV {
            team: team(comm),
            send: cad::Part {
                count: 0,
                ty: Shape::BYTE,
            },
            recv: &blocks,
            recv_ty: Shape::BYTE,
            in_place: true,
        });
        self.start_own(comm, graph, memory, then)
    }

    /// Nobody waits for this collective of the engine's own.
    pub(crate) fn leave_unattended(&self, handle: Handle) {
        if let Ok(request) = self.request(handle) {
            match request.is_done() {
                true => self.release_request(handle, request),
                false => request.unattended.set(true),
            }
        }
    }

    /// What waits for the members of a communicator that is made.
    pub(crate) fn making(comm: &Comm) -> Waiting {
        Waiting::new(MAKING.blocking, comm.context())
    }

    /// `data` of rank `root` to all ranks.
    pub(crate) fn internal_bcast(&self, comm: &Rc<Comm>, root: u32, data: &mut [u8]) -> Result<()> {
        let mut memory = own_memory(data.len())?;
        memory.buf().write(data);
        let graph = byte_bcast(team(comm), root, data.len() as u64);
        let recv = memory.buf();
        let call = self.own_call(&MAKING, comm, comm.group.clone(), graph, memory, None);
        self.finish_own(call, recv, data)
    }

    /// `data` of `group`'s rank 0 to all of `group`, which is part of the communicator's; only its
    /// members call.
    pub(crate) fn internal_group_bcast(
        &self,
        comm: &Rc<Comm>,
        group: &Group,
        tag: i32,
        data: &mut [u8],
    ) -> Result<()> {
        let me = comm.group.endpoint(comm.rank);
        let Some(rank) = group.rank_of(me) else {
            return Err(fault(
                consts::ERR_GROUP,
                "the calling process is not a member of the group",
            ));
        };
        let mut memory = own_memory(data.len())?;
        memory.buf().write(data);
        let graph = byte_bcast(Team::new(rank, group.size()), 0, data.len() as u64);
        let recv = memory.buf();
        let members = Rc::new(Group::new(group.members().to_vec()));
        let mut call = self.own_call(&MAKING, comm, members, graph, memory, None);
        call.tags = Tags::Lone(tag);
        self.finish_own(call, recv, data)
    }

    /// As [`Engine::internal_bcast`], without waiting; `then` sees the data at the end.
    pub(crate) fn internal_ibcast(
        &self,
        comm: &Rc<Comm>,
        root: u32,
        bytes: u64,
        memory: AlignedBuf,
        then: Then,
    ) -> Result<Handle> {
        let graph = byte_bcast(team(comm), root, bytes);
        self.start_own(comm, graph, memory, then)
    }

    /// Sends `parts[r]` to each rank `r`; gives what arrives, in order of rank.
    pub(crate) fn internal_exchange(&self, comm: &Rc<Comm>, parts: &[Vec<u8>]) -> Result<Vec<u8>> {
        let lengths: Vec<u64> = parts.iter().map(|p| p.len() as u64).collect();
        let part = cad::Part {
            count: 8,
            ty: Shape::BYTE,
        };
        let graph = cad::alltoall::graph(&cad::alltoall::Params {
            team: team(comm),
            send: part,
            recv: part,
            in_place: false,
        });
        let bytes: Vec<u8> = lengths.iter().flat_map(|n| n.to_le_bytes()).collect();
        let mut theirs = vec![0; bytes.len()];
        self.two_sided(comm, graph, &bytes, &mut theirs)?;
        let word = |bytes: &[u8]| bytes.iter().rev().fold(0, |w, &b| w << 8 | u64::from(b));
        let theirs: Vec<u64> = theirs.chunks_exact(8).map(word).collect();
        let mut arrived = room_for(&theirs)?;
        let graph = cad::alltoall::graph_v(&cad::alltoall::ParamsV {
            team: team(comm),
            send: &side_by_side(&lengths),
            send_ty: Shape::BYTE,
            recv: &side_by_side(&theirs),
            recv_ty: Shape::BYTE,
            in_place: false,
        });
        self.two_sided(comm, graph, &parts.concat(), &mut arrived)?;
        Ok(arrived)
    }

    /// Runs a collective from `send` to `out`, which have bytes.
    fn two_sided(&self, comm: &Rc<Comm>, graph: Graph, send: &[u8], out: &mut [u8]) -> Result<()> {
        let mut memory = own_memory(out.len() + send.len())?;
        let recv = memory.buf();
        let from = recv.offset(out.len() as i64);
        from.write(send);
        let mut call = self.own_call(&MAKING, comm, comm.group.clone(), graph, memory, None);
        call.send = from;
        self.finish_own(call, recv, out)
    }

    /// The bits that are set in `bits` of any rank, all of equal length, into `bits`.
    pub(crate) fn internal_union(&self, comm: &Rc<Comm>, bits: &mut [u8]) -> Result<()> {
        let mut memory = own_memory(bits.len())?;
        memory.buf().write(bits);
        let graph = cad::allreduce::graph(&cad::allreduce::Params {
            team: team(comm),
            count: bits.len() as u64,
            ty: Shape::BYTE,
            commutative: true,
            in_place: true,
            together: false,
        });
        let recv = memory.buf();
        let mut call = self.own_call(&NUMBERING, comm, comm.group.clone(), graph, memory, None);
        call.recv_type = Some(self.type_of(consts::BYTE)?);
        call.op = Some(self.op(consts::BOR)?);
        self.finish_own(call, recv, bits)
    }

    /// Starts a collective of all of `comm`.
    fn start_own(
        &self,
        comm: &Rc<Comm>,
        graph: Graph,
        memory: AlignedBuf,
        then: Then,
    ) -> Result<Handle> {
        let group = comm.group.clone();
        self.start_collective(self.own_call(&MAKING, comm, group, graph, memory, Some(then)))
    }

    /// Runs a collective whose receive buffer is memory of ours and copies that out.
    fn finish_own(&self, mut call: Call, recv: UserBuf, out: &mut [u8]) -> Result<()> {
        // The memory outlives the run: it is taken back out of the call by the closing step, which
        // keeps it in `kept` until the bytes are copied.
        let kept: Rc<std::cell::RefCell<Option<AlignedBuf>>> = Rc::default();
        let keep = kept.clone();
        if let Some((_, then)) = call.own.as_mut() {
            *then = Some(Box::new(move |_, memory| {
                keep.replace(Some(std::mem::take(memory)));
            }));
        }
        self.run_collective(call)?;
        if kept.borrow().is_some() {
            recv.read(out);
        }
        Ok(())
    }
}

/// Each rank's `mine` to all: the graph, and the memory with this rank's.
fn gathered(comm: &Comm, mine: &[u8]) -> Result<(Graph, AlignedBuf)> {
    let mut memory = own_memory(mine.len() * comm.size() as usize)?;
    memory
        .buf()
        .offset((comm.rank as usize * mine.len()) as i64)
        .write(mine);
    let part = cad::Part {
        count: mine.len() as u64,
        ty: Shape::BYTE,
    };
    let params = cad::allgather::Params {
        team: team(comm),
        send: part,
        recv: part,
        in_place: true,
    };
    Ok((cad::allgather::graph(&params), memory))
}

/// Zeroed memory of ours.
pub(crate) fn own_memory(bytes: usize) -> Result<AlignedBuf> {
    AlignedBuf::new(bytes)
        .ok_or_else(|| fault(consts::ERR_NO_MEM, format!("no memory for {bytes} bytes")))
}

fn byte_bcast(team: Team, root: u32, bytes: u64) -> Graph {
    cad::bcast::graph(&cad::bcast::Params {
        team,
        root,
        count: bytes,
        ty: Shape::BYTE,
        // What the engine tells is short.
        spread: cad::bcast::Spread::Mixed,
    })
}

/// Blocks of these lengths, one behind the other.
fn side_by_side(lengths: &[u64]) -> Vec<Block> {
    let mut at = 0;
    let block = |&count: &u64| {
        let disp = at;
        at += count as i64;
        Block { count, disp }
    };
    lengths.iter().map(block).collect()
}

/// Room for as many bytes as others announced.
fn room_for(lengths: &[u64]) -> Result<Vec<u8>> {
    let total = lengths.iter().try_fold(0u64, |sum, &n| sum.checked_add(n));
    let mut room = Vec::new();
    let fits = total
        .and_then(|n| usize::try_from(n).ok())
        .filter(|&n| n <= isize::MAX as usize / 2 && room.try_reserve_exact(n).is_ok());
    let Some(n) = fits else {
        return Err(fault(
            consts::ERR_NO_MEM,
            "no memory for what the other processes send",
        ));
    };
    room.resize(n, 0);
    Ok(room)
}
