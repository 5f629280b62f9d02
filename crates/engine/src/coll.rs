//! Running collectives: a CAD graph, the buffers and types of one call, and MTMI to move the data.
//!
//! A collective is a request with one part, whose cookies carry the node in their upper half. Its
//! graph advances whenever one of its transfers completes, inside whatever MPI call makes
//! progress. Messages travel in the communicator's collective context; their tag is the number of
//! the collective on this communicator and the node's own tag, so collectives that are under way
//! together don't mix. A persistent collective keeps everything from start to start: its graph, its
//! temporary buffers, its number; see [`crate::numbers`].

use std::rc::Rc;

use boundary::UserBuf;
use cad::{NodeId, Region, Run, Team, TypeSlot};
use layout::{Data, transfer};
use mtmi::{Completion, Context, Endpoint, Outcome, SendMode, Source, Submit, TagSel};
use types::{Handle, Result, Status, consts, fault};

use crate::bound::{Incoming, Outgoing, Stream};
use crate::comm::Comm;
use crate::ops::Op;
use crate::request::{Body, Kind, Persistent, Request, cookie};
use crate::state::Engine;
use crate::typeobj::TypeObj;
use crate::wait::Waiting;

mod at_once;
mod awaited;
mod call;
mod ended;
mod handed;
mod joined;
pub(crate) mod names;
mod small;
mod streams;
mod tags;
mod temporaries;

pub(crate) use call::{Call, Planned, Then};
pub(crate) use ended::EndedInCalls;
pub use handed::Handed;
pub(crate) use handed::Spent;
pub use small::Small;
pub(crate) use small::SmallCall;
use streams::Streams;
pub(crate) use tags::Tags;
pub(crate) use temporaries::Spare;
use temporaries::Temporaries;

/// A collective under way, or a persistent one.
pub struct Running {
    call: Call,
    run: Run,
    /// Whether a process it needs is gone: nothing more is moved, and it ends with an error.
    failed: bool,
    tag: i32,
    /// The bits of a node's tag that go into its messages'.
    node_tag: i32,
    temps: Temporaries,
    /// Its messages that may be bound to slots, if it is persistent and has some.
    streams: Option<Streams>,
    /// Whether it is left to the [progress thread](crate::progress_thread) until it is over.
    left: bool,
}

/// How a message goes.
#[derive(Clone, Copy)]
enum Way {
    /// It is matched.
    Ordinary,
    /// It may be bound to a slot; `settled`: the one of the last start has matched.
    Stream { settled: bool },
}

/// What the next ready node asks for, resolved to addresses.
enum Step {
    Send {
        stream: Stream,
        mode: SendMode,
        data: Data,
        way: Way,
    },
    Recv {
        stream: Stream,
        data: Data,
        way: Way,
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
    /// A [joined](joined) copy's: the node behind it does both,
    Joined,
    /// as this: `to[i] = a[i] op b[i]`.
    Combine {
        kernel: op::Kernel,
        a: UserBuf,
        b: UserBuf,
        to: UserBuf,
        count: u64,
    },
}

impl Running {
    fn new(call: Call, spare: &Rc<Spare>) -> Result<Running> {
        let run = Run::new(&call.graph);
        let (tag, node_tag) = call.tags.resolve(&call.comm);
        let mut running = Running {
            call,
            run,
            failed: false,
            tag,
            node_tag,
            temps: Temporaries::new(spare),
            streams: None,
            left: false,
        };
        running.allocate()?;
        Ok(running)
    }

    /// Whether the process at `endpoint` takes part.
    pub(crate) fn needs(&self, endpoint: u32) -> bool {
        self.call.group.rank_of(endpoint).is_some()
    }

    /// Back at the start, for a persistent collective; `well`: it has not failed before.
    fn rewind(&mut self, well: bool) {
        self.failed = false;
        if let Some(streams) = &mut self.streams {
            streams.start(well);
        }
        self.run.reset(&self.call.graph);
    }

    fn type_of(&self, slot: TypeSlot) -> Option<&Rc<TypeObj>> {
        self.call.type_of(slot)
    }

    fn address(&self, region: &Region) -> UserBuf {
        self.call
            .base_of(region.buf, |k| self.temps.origin(k))
            .offset(region.offset)
    }

    fn data(&self, region: &Region) -> Data {
        self.call.data_at(self.address(region), region)
    }

    /// So many of the nodes that come next are over.
    fn skip(&mut self, nodes: usize) {
        for _ in 0..nodes {
            if let Some(id) = self.run.next_ready() {
                self.complete(id);
            }
        }
    }

    fn complete(&mut self, node: NodeId) {
        self.run.complete(&self.call.graph, node);
    }

    fn next(&mut self) -> Option<(NodeId, Step)> {
        let id = self.run.next_ready()?;
        Some((id, self.step(id)))
    }

    /// What a node asks for.
    fn step(&self, id: NodeId) -> Step {
        let node = self.call.graph.node(id);
        let stream = || Stream {
            peer: Endpoint(self.call.group.endpoint(node.peer)),
            context: Context(self.call.comm.context() + 1),
            tag: self.tag | node.tag as i32 & self.node_tag,
        };
        let settled = || self.streams.as_ref().and_then(|s| s.settled(id));
        let way = || settled().map_or(Way::Ordinary, |settled| Way::Stream { settled });
        match node.kind {
            cad::Kind::Send => {
                let data = self.data(&node.src);
                Step::Send {
                    stream: stream(),
                    mode: self.call.mode(data.len()),
                    data,
                    way: way(),
                }
            }
            cad::Kind::Recv => Step::Recv {
                stream: stream(),
                data: self.data(&node.dst),
                way: way(),
            },
            cad::Kind::Copy if self.joined(id).is_some() => Step::Joined,
            cad::Kind::Copy => Step::Copy {
                src: self.data(&node.src),
                dst: self.data(&node.dst),
            },
            cad::Kind::Calc => self.joined_with_copy(id).unwrap_or_else(|| self.calc(id)),
        }
    }

    fn calc(&self, id: NodeId) -> Step {
        let node = self.call.graph.node(id);
        let (op, datatype) = (self.call.op.clone(), self.call.recv_type.clone());
        Step::Calc {
            op: op.expect("a graph with calculations has an operation"),
            datatype: datatype.expect("a reduction has a type"),
            src: self.address(&node.src),
            dst: self.address(&node.dst),
            count: node.src.count,
        }
    }
}

impl Engine {
    /// Starts a collective and gives its request; where all of it is over at once, the one that all such share. What ends at progress may call this.
    pub(crate) fn start_collective(&self, mut call: Call) -> Result<Handle> {
        self.hear_before_giving();
        self.check_whole(&call.comm, &call.group)?;
        let sent = self.send_all_at_once(&mut call);
        if sent > 0 && sent == call.graph.nodes().len() {
            return self.done_request();
        }
        let comm = call.comm.clone();
        let mut running = self.running_for(call)?;
        running.skip(sent);
        let (handle, request) = self.new_request(Kind::Collective, 1, Some(comm))?;
        request.body.replace(Body::Collective(running));
        self.advance(handle, request);
        Ok(handle)
    }

    /// Makes the inactive request of a persistent collective.
    pub(crate) fn keep_collective(&self, mut call: Call) -> Result<Handle> {
        self.check_whole(&call.comm, &call.group)?;
        let comm = call.comm.clone();
        call.tags = Tags::Kept(self.collective_number(&comm)?);
        let mut running = Running::new(call, &self.spare)?;
        let me = comm.group.endpoint(comm.rank);
        let streams = running.streams_of(me, self.least_bound.get());
        running.streams = streams.filter(|_| self.open_streams());
        let (handle, request) = self.new_request(Kind::Collective, 0, Some(comm))?;
        request.active.set(false);
        request.persistent.replace(Some(Persistent::Collective));
        request.body.replace(Body::Collective(Box::new(running)));
        Ok(handle)
    }

    /// Starts an inactive persistent collective.
    pub(crate) fn restart_collective(&self, handle: Handle, request: &Request) -> Result<()> {
        if let Some(started) = self.restart_handed(handle, request) {
            return started;
        }
        self.hear_before_giving();
        if let Body::Collective(running) = &mut *request.body.borrow_mut() {
            self.check_whole(&running.call.comm, &running.call.group)?;
            running.rewind(request.status().error == consts::SUCCESS);
        }
        request.active.set(true);
        request.set_status(Status::EMPTY);
        request.post.set_parts(1);
        self.advance(handle, request);
        self.leave_to_thread(handle);
        Ok(())
    }

    /// Runs a collective to its end.
    pub(crate) fn run_collective(&self, call: Call) -> Result<()> {
        let (name, context) = (call.names.blocking, call.comm.context());
        let mut handle = self.start_collective(call)?;
        self.wait_request(handle, || Waiting {
            peer: self.awaited_in(handle),
            ..Waiting::new(name, context)
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
                cad::Kind::Recv => self.cancel_collective_recv(cookie),
                cad::Kind::Send => self.cancel_collective_send(cookie),
                cad::Kind::Copy | cad::Kind::Calc => {}
            }
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
            running.complete(node);
        }
    }

    /// Starts everything that is ready; at the graph's end the request is complete.
    fn advance(&self, handle: Handle, request: &Request) {
        let mut over = None;
        loop {
            let (node, step, stopped) = match &mut *request.body.borrow_mut() {
                Body::Collective(running) => {
                    if let Some(node) = over.take() {
                        running.complete(node);
                    }
                    if running.call.graph.shares() && !running.failed {
                        self.share_next(running);
                    }
                    match running.next() {
                        Some((node, step)) => (node, step, running.failed),
                        None if running.run.is_done() => break,
                        None => return,
                    }
                }
                _ => return,
            };
            if stopped {
                // Nobody wants what it would move.
                over = Some(node);
                continue;
            }
            if self.is_left_to_rank(handle, request, node, &step) {
                continue;
            }
            match self.start_step(handle, node, step) {
                Some(Submit::Pending) => continue,
                Some(Submit::Complete(done)) => {
                    self.note_outcome(request, &done);
                    if done.outcome == Outcome::PeerFailed {
                        self.stop_collective(handle, request);
                    }
                }
                None => {}
            }
            over = Some(node);
        }
        if !request.is_done() {
            self.end_collective(handle, request);
        }
    }

    /// Whether the caller is the progress thread, and leaves a node to the rank: a reduction with a function of the program's.
    fn is_left_to_rank(
        &self,
        handle: Handle,
        request: &Request,
        node: NodeId,
        step: &Step,
    ) -> bool {
        let Step::Calc { op, .. } = step else {
            return false;
        };
        if !self.progress_thread.is_on() || !matches!(**op, Op::User { .. }) {
            return false;
        }
        let is_safe = match &*request.body.borrow() {
            Body::Collective(running) => handed::vouched(&running.call),
            _ => false,
        };
        self.leave_to_rank(handle, node, is_safe)
    }

    /// Does a node that the progress thread has left to the rank.
    pub(crate) fn run_left(&self, handle: Handle, node: NodeId) {
        let Ok(request) = self.request(handle) else {
            return;
        };
        let step = match &*request.body.borrow() {
            Body::Collective(running) => running.step(node),
            _ => return,
        };
        if !self.has_stopped(request) {
            self.start_step(handle, node, step);
        }
        self.complete_node(request, node);
        self.advance(handle, request);
    }

    /// Notes that a collective is left to the progress thread; `false` if it is over.
    pub(crate) fn mark_left(&self, handle: Handle) -> bool {
        let Ok(request) = self.request(handle) else {
            return false;
        };
        match &mut *request.body.borrow_mut() {
            Body::Collective(running) if !request.is_done() => running.left = true,
            _ => return false,
        }
        true
    }

    fn has_stopped(&self, request: &Request) -> bool {
        matches!(&*request.body.borrow(), Body::Collective(running) if running.failed)
    }

    /// Does what the node asks for: how its transfer began, if it is one.
    fn start_step(&self, handle: Handle, node: NodeId, step: Step) -> Option<Submit> {
        let cookie = cookie(handle, node);
        let submit = match step {
            Step::Send {
                stream,
                mode,
                data,
                way,
            } => {
                let out = Outgoing {
                    stream,
                    mode,
                    data,
                    cookie,
                };
                match way {
                    Way::Ordinary => self.transport(|m| out.submit(m)),
                    Way::Stream { settled } => self.start_collective_send(out, settled),
                }
            }
            Step::Recv { stream, data, way } => {
                let receive = Incoming {
                    from: Source::From(stream.peer),
                    context: stream.context,
                    tag: TagSel::Exact(stream.tag),
                    data,
                    cookie,
                };
                match way {
                    Way::Ordinary => self.transport(|m| receive.submit(m)),
                    Way::Stream { settled } => self.start_collective_recv(receive, settled),
                }
            }
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
            Step::Joined => return None,
            Step::Combine {
                kernel,
                a,
                b,
                to,
                count,
            } => {
                kernel.combine(a, b, to, count);
                return None;
            }
        };
        self.wake_waiters();
        Some(submit)
    }

    fn end_collective(&self, handle: Handle, request: &Request) {
        if let Body::Collective(running) = &mut *request.body.borrow_mut()
            && std::mem::take(&mut running.left)
        {
            self.progress_thread.over();
        }
        if request.is_persistent() {
            // The next start needs it again.
            request.post.set_parts(0);
            return;
        }
        if let Body::Collective(mut running) = request.body.take() {
            if let Some((mut memory, Some(then))) = running.call.own.take() {
                then(self, &mut memory);
            }
            if request.status().error == consts::SUCCESS {
                self.ended.keep(running);
            }
        }
        self.part_done(handle, request);
    }
}

/// The fault of temporary buffers that can't be had.
fn no_memory(bytes: u64) -> Box<types::Fault> {
    let text = format!("no memory for {bytes} bytes of temporary buffers");
    fault(consts::ERR_NO_MEM, text)
}

/// The team of a communicator.
pub(crate) fn team(comm: &Comm) -> Team {
    Team::new(comm.rank, comm.size())
}
