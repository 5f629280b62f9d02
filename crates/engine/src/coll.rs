//! Running collectives: a CAD graph, the buffers and types of one call, and MTMI to move the data.
//!
//! A collective is a request with one part, whose cookies carry the node in their upper half. Its
//! graph advances whenever one of its transfers completes, inside whatever MPI call makes
//! progress. Messages travel in the communicator's collective context; their tag is the number of
//! the collective on this communicator and the node's own tag, so collectives that are under way
//! together don't mix.

use std::rc::Rc;

use boundary::{AlignedBuf, UserBuf};
use cad::{BufId, Graph, NodeId, Region, Run, Shape, Team, TypeSlot};
use layout::{Data, transfer};
use mtmi::{Completion, Context, Endpoint, Outcome, SendMode, Source, Submit, TagSel, Transport};
use types::{Handle, Result, Status, consts, fault};

use crate::comm::Comm;
use crate::group::Group;
use crate::ops::Op;
use crate::request::{Body, Kind, Request, cookie};
use crate::state::Engine;
use crate::typeobj::TypeObj;
use crate::wait::Waiting;

/// Bits of a message tag that the graph uses; the collective's number fills the rest.
const NODE_TAG_BITS: u32 = cad::MAX_TAG.count_ones();

/// Largest alignment of a basic type, to which temporary elements are placed.
const ALIGN: i64 = 16;

/// What runs when a collective has completed, with its first temporary or own buffer.
pub(crate) type Then = Box<dyn FnOnce(&Engine, &mut AlignedBuf)>;

/// Types per peer, of what is sent and of what is received.
pub(crate) type PeerTypes = (Vec<Rc<TypeObj>>, Vec<Rc<TypeObj>>);

/// The buffers and types of one collective call.
pub(crate) struct Call {
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
    /// A message tag that replaces the collective's number, where only part of the communicator
    /// takes part.
    pub tag: Option<i32>,
    /// Memory of ours that stands for the receive buffer, and what to do with it at the end.
    pub own: Option<(AlignedBuf, Option<Then>)>,
}

/// A collective under way.
pub struct Running {
    call: Call,
    run: Run,
    /// Whether a process it needs is gone: nothing more is moved, and it ends with an error.
    failed: bool,
    tag: i32,
    temps: Vec<(AlignedBuf, UserBuf)>,
}

/// What the next ready node asks for, resolved to addresses.
enum Step {
    Send {
        to: Endpoint,
        tag: i32,
        data: Data,
    },
    Recv {
        from: Endpoint,
        tag: i32,
        data: Data,
    },
    Calc {
        op: Rc<Op>,
        datatype: Rc<TypeObj>,
        src: UserBuf,
        dst: UserBuf,
        count: u64,
    },
    Copy {
        src: Data,
        dst: Data,
    },
}

impl Running {
    fn new(call: Call) -> Result<Running> {
        let run = Run::new(&call.graph);
        let tag = call.tag.unwrap_or_else(|| {
            let number = call.comm.next_collective();
            (number << NODE_TAG_BITS & i32::MAX as u32) as i32
        });
        let mut running = Running {
            call,
            run,
            failed: false,
            tag,
            temps: Vec::new(),
        };
        running.temps = running.allocate()?;
        Ok(running)
    }

    /// Memory for the graph's temporaries, each with the address that its regions count from.
    fn allocate(&self) -> Result<Vec<(AlignedBuf, UserBuf)>> {
        let place = |t: &cad::Temp| {
            let lowest = match t.ty {
                TypeSlot::Bytes => 0,
                _ => t.low + self.type_of(t.ty).map_or(0, |ty| ty.datatype.true_lb()),
            };
            let mut memory = usize::try_from(t.bytes)
                .ok()
                .and_then(|n| AlignedBuf::new(n + ALIGN as usize))?;
            let start = memory.buf();
            let origin = start.offset(-lowest);
            let slack = (-(origin.addr() as i64)).rem_euclid(ALIGN);
            Some((memory, origin.offset(slack)))
        };
        self.call
            .graph
            .temps()
            .iter()
            .map(place)
            .collect::<Option<_>>()
            .ok_or_else(|| {
                let bytes: u64 = self.call.graph.temps().iter().map(|t| t.bytes).sum();
                fault(
                    consts::ERR_NO_MEM,
                    format!("no memory for {bytes} bytes of temporary buffers"),
                )
            })
    }

    fn type_of(&self, slot: TypeSlot) -> Option<&Rc<TypeObj>> {
        match slot {
            TypeSlot::Bytes => None,
            TypeSlot::Send => self.call.send_type.as_ref(),
            TypeSlot::Recv => self.call.recv_type.as_ref(),
            TypeSlot::SendOf(i) => self.call.types.as_ref().map(|(s, _)| &s[i as usize]),
            TypeSlot::RecvOf(i) => self.call.types.as_ref().map(|(_, r)| &r[i as usize]),
        }
    }

    fn address(&self, region: &Region) -> UserBuf {
        let base = match region.buf {
            BufId::Send => self.call.send,
            BufId::Recv => self.call.recv,
            BufId::Temp(k) => self.temps[k as usize].1,
        };
        base.offset(region.offset)
    }

    fn data(&self, region: &Region) -> Data {
        let buf = self.address(region);
        match self.type_of(region.ty) {
            None => Data::bytes(buf, region.count),
            Some(t) => t.data(buf, region.count),
        }
    }

    fn next(&mut self) -> Option<(NodeId, Step)> {
        let id = self.run.next_ready()?;
        let node = *self.call.graph.node(id);
        let peer = || Endpoint(self.call.group.endpoint(node.peer));
        let tag = match self.call.tag {
            Some(tag) => tag,
            None => self.tag | node.tag as i32,
        };
        let step = match node.kind {
            cad::Kind::Send => Step::Send {
                to: peer(),
                tag,
                data: self.data(&node.src),
            },
            cad::Kind::Recv => Step::Recv {
                from: peer(),
                tag,
                data: self.data(&node.dst),
            },
            cad::Kind::Copy => Step::Copy {
                src: self.data(&node.src),
                dst: self.data(&node.dst),
            },
            cad::Kind::Calc => Step::Calc {
                op: self
                    .call
                    .op
                    .clone()
                    .expect("a graph with calculations has an operation"),
                datatype: self.call.recv_type.clone().expect("a reduction has a type"),
                src: self.address(&node.src),
                dst: self.address(&node.dst),
                count: node.src.count,
            },
        };
        Some((id, step))
    }
}

impl Engine {
    /// Starts a collective and gives its request.
    pub(crate) fn start_collective(&self, call: Call) -> Result<Handle> {
        self.check_whole(&call.comm)?;
        let comm = call.comm.clone();
        let running = Running::new(call)?;
        let (handle, request) = self.new_request(Kind::Collective, 1, Some(comm))?;
        request.body.replace(Body::Collective(Box::new(running)));
        self.advance(handle, request);
        Ok(handle)
    }

    /// Runs a collective to its end.
    pub(crate) fn run_collective(&self, name: &'static str, call: Call) -> Result<()> {
        let context = call.comm.context();
        let mut handle = self.start_collective(call)?;
        self.wait_request(handle, || Waiting {
            call: name,
            peer: consts::UNDEFINED,
            tag: consts::UNDEFINED,
            bytes: 0,
            context,
        })?;
        self.retire(&mut handle).map(drop)
    }

    /// A transfer of a collective has completed.
    pub(crate) fn collective_part_done(
        &self,
        handle: Handle,
        request: &Request,
        node: u32,
        done: &Completion,
    ) {
        self.note_outcome(request, done);
        if done.outcome == Outcome::PeerFailed {
            self.stop_collective(handle, request);
        }
        self.complete_node(request, node);
        self.advance(handle, request);
    }

    /// Ends a collective that needs a process which is gone: its transfers with others too, as those
    /// end theirs.
    pub(crate) fn fail_collective(&self, handle: Handle, request: &Request, endpoint: u32) {
        let done = Completion {
            cookie: cookie(handle, 0),
            source: Endpoint(endpoint),
            tag: 0,
            bytes: 0,
            outcome: Outcome::PeerFailed,
        };
        self.note_outcome(request, &done);
        self.stop_collective(handle, request);
        self.advance(handle, request);
    }

    /// Starts no further transfer of a collective and cancels those under way; their completions
    /// lead it to its end.
    fn stop_collective(&self, handle: Handle, request: &Request) {
        let graph = match &mut *request.body.borrow_mut() {
            Body::Collective(running) if !running.failed => {
                running.failed = true;
                running.call.graph.clone()
            }
            _ => return,
        };
        for node in 0..graph.nodes().len() as NodeId {
            let cookie = cookie(handle, node);
            match graph.node(node).kind {
                cad::Kind::Recv => self.transport(|m| m.cancel_recv(cookie)),
                cad::Kind::Send => self.transport(|m| m.cancel_send(cookie)),
                cad::Kind::Copy | cad::Kind::Calc => false,
            };
        }
    }

    fn note_outcome(&self, request: &Request, done: &Completion) {
        let class = match done.outcome {
            Outcome::Done => return,
            Outcome::Truncated { .. } => consts::ERR_TRUNCATE,
            Outcome::PeerFailed | Outcome::Cancelled => consts::ERR_PROC_ABORTED,
        };
        // What came first is the cause; what is cancelled because of it is not.
        if request.status().error != consts::SUCCESS {
            return;
        }
        let rank = request
            .comm
            .borrow()
            .as_ref()
            .and_then(|c| c.group.rank_of(done.source.0));
        let source = rank.map_or(consts::UNDEFINED, |r| r as i32);
        let bytes = done.bytes as i64;
        request.set_status(Status {
            error: class,
            source,
            bytes,
            ..request.status()
        });
    }

    fn complete_node(&self, request: &Request, node: NodeId) {
        if let Body::Collective(running) = &mut *request.body.borrow_mut() {
            let graph = running.call.graph.clone();
            running.run.complete(&graph, node);
        }
    }

    /// Starts everything that is ready; at the graph's end the request is complete.
    fn advance(&self, handle: Handle, request: &Request) {
        loop {
            let next = match &mut *request.body.borrow_mut() {
                Body::Collective(running) => running.next(),
                _ => return,
            };
            let Some((node, step)) = next else { break };
            if self.has_stopped(request) {
                // Nobody wants what it would move.
            } else if let Some(done) = self.start_step(handle, request, node, step) {
                self.note_outcome(request, &done);
                if done.outcome == Outcome::PeerFailed {
                    self.stop_collective(handle, request);
                }
            } else if self.is_pending(request, node) {
                continue;
            }
            self.complete_node(request, node);
        }
        let ended = match &*request.body.borrow() {
            Body::Collective(running) => running.run.is_done(),
            _ => false,
        };
        if ended && !request.is_done() {
            self.end_collective(handle, request);
        }
    }

    fn has_stopped(&self, request: &Request) -> bool {
        matches!(&*request.body.borrow(), Body::Collective(running) if running.failed)
    }

    /// Whether the node's transfer is under way: it was submitted and did not complete at once.
    fn is_pending(&self, request: &Request, node: NodeId) -> bool {
        match &*request.body.borrow() {
            Body::Collective(running) => {
                let kind = running.call.graph.node(node).kind;
                matches!(kind, cad::Kind::Send | cad::Kind::Recv)
            }
            _ => false,
        }
    }

    /// Does what the node asks for. A transfer that is over at once gives its completion.
    fn start_step(
        &self,
        handle: Handle,
        request: &Request,
        node: NodeId,
        step: Step,
    ) -> Option<Completion> {
        let context = match &*request.comm.borrow() {
            Some(comm) => Context(comm.context() + 1),
            None => return None,
        };
        let cookie = cookie(handle, node);
        let submit = match step {
            Step::Send { to, tag, data } => {
                self.transport(|m| m.isend(to, context, tag, SendMode::Standard, data, cookie))
            }
            Step::Recv { from, tag, data } => self.transport(|m| {
                m.irecv(
                    Source::From(from),
                    context,
                    TagSel::Exact(tag),
                    data,
                    cookie,
                )
            }),
            Step::Calc {
                op,
                datatype,
                src,
                dst,
                count,
            } => {
                self.reduce_local(&op, &datatype, src, dst, count);
                return None;
            }
            Step::Copy { src, dst } => {
                transfer(&src, &dst);
                return None;
            }
        };
        self.wake_waiters();
        match submit {
            Submit::Complete(done) => Some(done),
            Submit::Pending => None,
        }
    }

    fn end_collective(&self, handle: Handle, request: &Request) {
        if let Body::Collective(mut running) = request.body.take()
            && let Some((mut memory, Some(then))) = running.call.own.take()
        {
            then(self, &mut memory);
        }
        self.part_done(handle, request);
    }

    /// A collective over bytes in memory of ours, for the engine's own use.
    fn own_call(
        &self,
        comm: &Rc<Comm>,
        group: Rc<Group>,
        graph: Graph,
        own: AlignedBuf,
        then: Option<Then>,
    ) -> Call {
        let mut own = own;
        let recv = own.buf();
        Call {
            graph: Rc::new(graph),
            comm: comm.clone(),
            group,
            send: recv,
            recv,
            send_type: None,
            recv_type: None,
            types: None,
            op: None,
            tag: None,
            own: Some((own, then)),
        }
    }

    /// Each rank's `mine`, of equal length, in order of rank, into `out`.
    pub(crate) fn internal_allgather(
        &self,
        comm: &Rc<Comm>,
        mine: &[u8],
        out: &mut [u8],
    ) -> Result<()> {
        let mut memory = own_memory(out.len())?;
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
        let graph = cad::allgather::graph(&params);
        let recv = memory.buf();
        let call = self.own_call(
            comm,
            comm.group.clone(),
            graph,
            memory,
            Some(Box::new(|_, _| ())),
        );
        self.finish_own(call, recv, out)
    }

    /// `data` of rank `root` to all ranks.
    pub(crate) fn internal_bcast(&self, comm: &Rc<Comm>, root: u32, data: &mut [u8]) -> Result<()> {
        let mut memory = own_memory(data.len())?;
        memory.buf().write(data);
        let graph = byte_bcast(team(comm), root, data.len() as u64);
        let recv = memory.buf();
        let call = self.own_call(comm, comm.group.clone(), graph, memory, None);
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
        let graph = byte_bcast(
            Team {
                rank,
                size: group.size(),
            },
            0,
            data.len() as u64,
        );
        let recv = memory.buf();
        let members = Rc::new(Group::new(group.members().to_vec()));
        let mut call = self.own_call(comm, members, graph, memory, None);
        call.tag = Some(tag | i32::MIN);
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
        self.start_collective(self.own_call(comm, comm.group.clone(), graph, memory, Some(then)))
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
        self.run_collective("communicator construction", call)?;
        if kept.borrow().is_some() {
            recv.read(out);
        }
        Ok(())
    }
}

/// The team of a communicator.
pub(crate) fn team(comm: &Comm) -> Team {
    Team {
        rank: comm.rank,
        size: comm.size(),
    }
}

fn own_memory(bytes: usize) -> Result<AlignedBuf> {
    AlignedBuf::new(bytes)
        .ok_or_else(|| fault(consts::ERR_NO_MEM, format!("no memory for {bytes} bytes")))
}

fn byte_bcast(team: Team, root: u32, bytes: u64) -> Graph {
    cad::bcast::graph(&cad::bcast::Params {
        team,
        root,
        count: bytes,
        ty: Shape::BYTE,
    })
}
