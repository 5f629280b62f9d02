//! A collective as a plan for the kernel ([`crate::kernel`]): each node of its graph with the addresses of this call.
//!
//! Messages of data without gaps go from and to where they lie. Those of others go through memory of ours, and packing or
//! unpacking them is a calculation of the plan, as reductions are and copies between such data: the rank does these when it is
//! next in MPI, but reductions with an operation of the standard's, one that is byte code, or one that the program vouches for, may be done at any
//! point of the program. A message keeps the tag that its graph gives it, which is how both ends agree on the order.
//!
//! Invariant: calculations are told apart from all memory by a byte that only they name, so every edge at
//! one means that all of the one node comes before all of the other.

use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

use boundary::{AlignedBuf, UserBuf};
use cad::{Node, NodeId};
use cad_run::{Descriptor, Refused};
use layout::{Data, transfer};
use types::{Handle, Result, Status, consts, fault};

use super::ended::{Ended, Keep};
use super::{Call, Running, Tags, no_memory, small};
use crate::info::OP_ASYNC_SAFE;
use crate::kernel::{Channel, Ready};
use crate::ops::Op;
use crate::request::{Body, Kind, Persistent, Request};
use crate::state::{AbiHooks, Engine, enter};

/// A collective that the kernel has, or will have when it is started.
pub struct Handed {
    ready: Rc<Ready>,
    /// A persistent one's, in use as long as this is there.
    _kept: Option<Channel>,
    /// What the plan's nodes use: the temporary buffers, and memory for packed data.
    running: Running,
    staging: Vec<AlignedBuf>,
    /// Whether it was made to run the program's functions anywhere.
    vouched: bool,
}

impl Handed {
    /// Whether it does what this call asks for.
    fn serves(&self, call: &Call, channel: u32) -> bool {
        let own = &self.running.call;
        self.ready.channel() == channel
            && self.vouched == vouched(call)
            && own.is_like(call)
            && own.send.addr() == call.send.addr()
            && own.recv.addr() == call.recv.addr()
            && match (&own.op, &call.op) {
                (Some(a), Some(b)) => a.is(b),
                (a, b) => a.is_none() && b.is_none(),
            }
    }
}

impl Keep for Handed {
    fn call(&self) -> &Call {
        &self.running.call
    }

    fn bytes(&self) -> usize {
        let staged: usize = self.staging.iter().map(AlignedBuf::len).sum();
        self.running.temps.bytes() + staged
    }
}

/// Those that are over: a call like an earlier one, as programs make in a loop, needs no new plan.
pub(crate) type Spent = Ended<Handed, 32, { 64 << 10 }>;

/// A plan being made.
struct Maker<'a> {
    running: &'a Running,
    hooks: &'static AbiHooks,
    cad: Descriptor,
    staging: Vec<AlignedBuf>,
    /// The byte that stands for what calculations do.
    mark: UserBuf,
    /// Whether the program's functions may run anywhere.
    vouched: bool,
}

/// Whether the program says that its functions may run anywhere, where this call uses one ([`OP_ASYNC_SAFE`]).
pub(super) fn vouched(call: &Call) -> bool {
    let own = matches!(call.op.as_deref(), Some(Op::User { .. }));
    let said = || call.comm.info.borrow().get(OP_ASYNC_SAFE);
    own && said().is_some_and(|said| said == "true")
}

fn unfit(why: Refused) -> Box<types::Fault> {
    fault(consts::ERR_INTERN, format!("a collective's plan: {why}"))
}

impl Maker<'_> {
    /// Makes the graph's nodes and edges. A message to this process (`me`) becomes a copy.
    fn graph(&mut self, me: u32) -> Result<()> {
        let call = &self.running.call;
        let graph = call.graph.clone();
        let mut made = vec![None; graph.nodes().len()];
        // By tag, messages to itself that lack their other half.
        let mut halves: HashMap<u32, VecDeque<NodeId>> = HashMap::new();
        for (id, node) in graph.nodes().iter().enumerate() {
            let message = matches!(node.kind, cad::Kind::Send | cad::Kind::Recv);
            if !message || call.group.endpoint(node.peer) != me {
                made[id] = Some(self.node(node)?);
                continue;
            }
            let lacking = halves.entry(node.tag).or_default();
            let fits = |&other: &NodeId| graph.node(other).kind != node.kind;
            let Some(other) = lacking.pop_front_if(|other| fits(other)) else {
                lacking.push_back(id as NodeId);
                continue;
            };
            let (mut whole, half) = (*node, graph.node(other));
            match node.kind {
                cad::Kind::Send => whole.dst = half.dst,
                _ => whole.src = half.src,
            }
            let (copy, last) = self.copy(&whole)?;
            let ends = Some((copy, last.unwrap_or(copy)));
            (made[id], made[other as usize]) = (ends, ends);
        }
        for (id, ends) in made.iter().enumerate() {
            for &next in graph.successors(id as NodeId) {
                let (Some((_, last)), Some((first, _))) = (ends, made[next as usize]) else {
                    continue;
                };
                self.cad.connect_node(*last, first).map_err(unfit)?;
            }
        }
        match made.contains(&None) {
            true => Err(fault(
                consts::ERR_OTHER,
                "what this process sends to itself and what it receives from itself do not fit together",
            )),
            false => Ok(()),
        }
    }

    /// Makes a node of the graph: the first and the last of those that it becomes.
    fn node(&mut self, node: &Node) -> Result<(NodeId, NodeId)> {
        let peer = self.running.call.group.endpoint(node.peer);
        match node.kind {
            cad::Kind::Send => self.send(peer, node),
            cad::Kind::Recv => self.recv(peer, node),
            cad::Kind::Copy => self.copy(node),
            cad::Kind::Calc => self.reduce(node),
        }
        .map(|(first, last)| (first, last.unwrap_or(first)))
    }

    fn send(&mut self, to: u32, node: &Node) -> Result<(NodeId, Option<NodeId>)> {
        let data = self.running.data(&node.src);
        if let Some((buf, bytes)) = data.contiguous() {
            let send = self.cad.make_tagged_send_node(buf, bytes, to, node.tag);
            return Ok((send.map_err(unfit)?, None));
        }
        let (packed, bytes) = self.stage(&data)?;
        let flat = Data::bytes(packed, bytes);
        let pack = self.by_rank(move || {
            transfer(&data, &flat);
        })?;
        let send = self.cad.make_tagged_send_node(packed, bytes, to, node.tag);
        let send = send.map_err(unfit)?;
        self.cad.connect_node(pack, send).map_err(unfit)?;
        Ok((pack, Some(send)))
    }

    fn recv(&mut self, from: u32, node: &Node) -> Result<(NodeId, Option<NodeId>)> {
        let data = self.running.data(&node.dst);
        if let Some((buf, bytes)) = data.contiguous() {
            let recv = self.cad.make_tagged_recv_node(buf, bytes, from, node.tag);
            return Ok((recv.map_err(unfit)?, None));
        }
        let (packed, bytes) = self.stage(&data)?;
        let recv = self
            .cad
            .make_tagged_recv_node(packed, bytes, from, node.tag);
        let recv = recv.map_err(unfit)?;
        let flat = Data::bytes(packed, bytes);
        let unpack = self.by_rank(move || {
            transfer(&flat, &data);
        })?;
        self.cad.connect_node(recv, unpack).map_err(unfit)?;
        Ok((recv, Some(unpack)))
    }

    fn copy(&mut self, node: &Node) -> Result<(NodeId, Option<NodeId>)> {
        let (src, dst) = (self.running.data(&node.src), self.running.data(&node.dst));
        if let (Some((from, bytes)), Some((to, room))) = (src.contiguous(), dst.contiguous())
            && bytes == room
        {
            let copy = self.cad.make_copy_node(from, to, bytes);
            return Ok((copy.map_err(unfit)?, None));
        }
        Ok((
            self.by_rank(move || {
                transfer(&src, &dst);
            })?,
            None,
        ))
    }

    fn reduce(&mut self, node: &Node) -> Result<(NodeId, Option<NodeId>)> {
        let call = &self.running.call;
        let op = call.op.clone();
        let op = op.expect("a graph with calculations has an operation");
        let datatype = call.recv_type.clone().expect("a reduction has a type");
        let (src, dst) = (
            self.running.address(&node.src),
            self.running.address(&node.dst),
        );
        let (hooks, count) = (self.hooks, node.src.count);
        if let Some(reduction) = op.anywhere(&datatype, hooks, self.vouched) {
            let reduce = move |_: UserBuf, _: UserBuf, _: u64| reduction.apply(src, dst, count);
            let node = self
                .cad
                .make_reduction_node(reduce, self.mark, self.mark, 1);
            let node = node.map_err(unfit)?;
            if let Some(known) = small::known(&op, &datatype, src, dst, count) {
                self.cad.know_reduction(node, known).map_err(unfit)?;
            }
            return Ok((node, None));
        }
        // The rank is in MPI when this runs: entering again costs a test.
        let reduce = move || enter(hooks).reduce_local(&op, &datatype, src, dst, count);
        Ok((self.by_rank(reduce)?, None))
    }

    /// A node that the rank does.
    fn by_rank(&mut self, what: impl Fn() + 'static) -> Result<NodeId> {
        let calc = Rc::new(move |_: UserBuf, _: UserBuf, _: u64| what());
        let node = self.cad.make_calc_node(calc, self.mark, self.mark, 1);
        node.map_err(unfit)
    }

    /// Memory for packed data.
    fn stage(&mut self, data: &Data) -> Result<(UserBuf, u64)> {
        let bytes = data.len();
        let memory = usize::try_from(bytes).ok().and_then(AlignedBuf::new);
        let mut memory = memory.ok_or_else(|| no_memory(bytes))?;
        let buf = memory.buf();
        self.staging.push(memory);
        Ok((buf, bytes))
    }
}

/// What the ring has of a request's collective. The program's functions may run when that is started, so nothing stays borrowed.
fn ready(request: &Request) -> Option<Rc<Ready>> {
    match &*request.body.borrow() {
        Body::Handed(handed) => Some(handed.ready.clone()),
        _ => None,
    }
}

impl Engine {
    /// Turns a call into what the kernel takes, for a channel.
    fn hand(&self, mut call: Call, channel: u32, kept: Option<Channel>) -> Result<Handed> {
        self.kernel.count_plan();
        // Its messages are told from others by their channel.
        call.tags = Tags::Lone(0);
        let place = self.kernel.place();
        let (me, size) = place.ok_or_else(|| fault(consts::ERR_INTERN, "there is no ring"))?;
        let members = call.group.members().to_vec();
        let vouched = vouched(&call);
        let running = Running::new(call, &self.spare)?;
        let mut mark = AlignedBuf::new(1).ok_or_else(|| no_memory(1))?;
        let mut maker = Maker {
            running: &running,
            hooks: self.hooks,
            cad: Descriptor::new(me, size, Some(members)),
            mark: mark.buf(),
            staging: vec![mark],
            vouched,
        };
        maker.graph(me)?;
        let (cad, staging) = (maker.cad, maker.staging);
        Ok(Handed {
            ready: Rc::new(Ready::new(cad.plan().map_err(unfit)?, channel)),
            _kept: kept,
            running,
            staging,
            vouched,
        })
    }

    /// Starts a collective in the kernel, or, where that takes none of its communicator's, in calls; gives its request.
    pub(crate) fn hand_collective(&self, call: Call) -> Result<Handle> {
        let channel = match self.is_for_ring(call.moves, &call.comm)? {
            true => self.kernel.of_comm(&call.comm),
            false => None,
        };
        let Some(channel) = channel else {
            let handle = self.start_in_calls(call)?;
            self.leave_to_thread(handle);
            return Ok(handle);
        };
        self.check_whole(&call.comm, &call.group)?;
        let comm = call.comm.clone();
        let handed = match self
            .kernel
            .spent
            .take(|handed| handed.serves(&call, channel))
        {
            Some(handed) => handed,
            None => Box::new(self.hand(call, channel, None)?),
        };
        let (handle, request) = self.new_request(Kind::Collective, 1, Some(comm))?;
        let ready = handed.ready.clone();
        request.body.replace(Body::Handed(handed));
        if let Err(why) = self.issue_to_kernel(handle, &ready) {
            self.release_request(handle, request);
            return Err(why);
        }
        Ok(handle)
    }

    /// Starts a collective behind which its processes may compute in calls; gives its request.
    pub(super) fn start_in_calls(&self, mut call: Call) -> Result<Handle> {
        // Into memory with gaps the kernel copies nothing at once, and others have their receives alike; and of a persistent one slots take what is long.
        let received = call.recv_type.as_ref();
        call.lends = call.types.is_none()
            && received.is_none_or(|ty| ty.is_dense())
            && self.goes_straight(&call.comm)
            && self.lends();
        self.start_collective(call)
    }

    /// Makes the inactive request of a persistent collective, as [`Engine::keep_collective`] does, for the kernel where that
    /// takes it.
    pub(crate) fn keep_handed(&self, call: Call) -> Result<Handle> {
        let channel = match self.is_for_ring(call.moves, &call.comm)? {
            true => self.kernel.of_persistent(&call.comm),
            false => None,
        };
        let Some(channel) = channel else {
            return self.keep_collective(call);
        };
        self.check_whole(&call.comm, &call.group)?;
        let comm = call.comm.clone();
        let handed = self.hand(call, channel.number(), Some(channel))?;
        self.prepare_in_kernel(&handed.ready);
        let (handle, request) = self.new_request(Kind::Collective, 0, Some(comm))?;
        request.active.set(false);
        request.persistent.replace(Some(Persistent::Collective));
        request.body.replace(Body::Handed(Box::new(handed)));
        Ok(handle)
    }

    /// Starts a persistent collective if it is one of the kernel's; `None` if not.
    pub(super) fn restart_handed(&self, handle: Handle, request: &Request) -> Option<Result<()>> {
        if let Some(ready) = ready(request) {
            return Some(self.restart_in_kernel(handle, request, &ready));
        }
        let started = self.restart_small(handle, request);
        if started.is_none() {
            self.softirq.count_other();
        }
        started
    }

    fn restart_in_kernel(&self, handle: Handle, request: &Request, ready: &Ready) -> Result<()> {
        if let Some(comm) = &*request.comm.borrow() {
            self.check_whole(comm, &comm.group)?;
        }
        request.set_status(Status::EMPTY);
        self.issue_to_kernel(handle, ready)?;
        request.active.set(true);
        request.post.set_parts(1);
        Ok(())
    }

    /// The kernel is through with a collective.
    pub(crate) fn handed_over(&self, handle: Handle, request: &Request) {
        if request.is_persistent() {
            request.post.set_parts(0);
            return;
        }
        let ended_well = request.status().error == consts::SUCCESS;
        if let Body::Handed(handed) = request.body.take()
            && ended_well
        {
            self.kernel.spent.keep(handed);
        }
        self.part_done(handle, request);
    }
}
