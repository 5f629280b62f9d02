//! The inline executor: nodes run in the calls of the program.
//!
//! Invariants: an issue under way has a slot, whose number is the upper half of its cookies, the node
//! is the lower; the slot is free again only when none of its transfers is under way, so no
//! completion comes to another's slot.

use crate::descriptor::{Action, Plan};
use crate::executor::{Counts, Executor, Issued, NotIssued, State};
use cad::{NodeId, Run};
use layout::Data;
use mtmi::{
    Completion, Context, Cookie, Endpoint, Outcome, SendMode, Source, Submit, TagSel, Transport,
};
use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

/// Bits of a tag that tell a descriptor's messages apart; the number of the issue has the rest.
const NODE_BITS: u32 = cad::MAX_TAG.count_ones();

struct Running {
    plan: Rc<Plan>,
    run: Run,
    word: Arc<AtomicU32>,
    channel: u32,
    /// The issue's number, shifted.
    tag: i32,
    /// Which messages are under way.
    pending: BTreeSet<NodeId>,
    /// Why it ends early.
    failed: Option<State>,
}

/// The executor of one process.
pub struct Inline<T: Transport> {
    transport: T,
    slots: Vec<Option<Running>>,
    issued: HashMap<u32, u32>,
    lost: BTreeSet<u32>,
    completions: Vec<Completion>,
    counts: Counts,
}

impl<T: Transport> Inline<T> {
    /// An executor with nothing to do.
    pub fn new(transport: T) -> Inline<T> {
        Inline {
            transport,
            slots: Vec::new(),
            issued: HashMap::new(),
            lost: BTreeSet::new(),
            completions: Vec::new(),
            counts: Counts::default(),
        }
    }

    /// The transport back, for its end; plans under way are forgotten, so none should be.
    pub fn into_transport(self) -> T {
        self.transport
    }
}

impl<T: Transport> Executor for Inline<T> {
    fn name(&self) -> &'static str {
        "inline"
    }

    fn issue_with(
        &mut self,
        plan: &Rc<Plan>,
        channel: u32,
        word: Arc<AtomicU32>,
    ) -> Result<Issued, NotIssued> {
        let bits = self.transport.limits().context_bits.min(32);
        if u64::from(channel) >> bits != 0 {
            return Err(NotIssued::Channel);
        }
        let number = self.issued.entry(channel).or_default();
        let tag = (*number << NODE_BITS & i32::MAX as u32) as i32;
        *number = number.wrapping_add(1);
        word.store(State::Pending as u32, Ordering::Relaxed);
        let lost = self.lost.iter().any(|&p| plan.needs(p));
        let running = Running {
            run: Run::new(&plan.graph),
            plan: plan.clone(),
            word: word.clone(),
            channel,
            tag,
            pending: BTreeSet::new(),
            failed: lost.then_some(State::Lost),
        };
        let free = self.slots.iter().position(Option::is_none);
        let slot = free.unwrap_or(self.slots.len());
        if free.is_none() {
            self.slots.push(None);
        }
        self.slots[slot] = Some(running);
        self.advance(slot);
        Ok(Issued::new(word, slot as u32))
    }

    fn progress(&mut self) -> bool {
        let mut done = std::mem::take(&mut self.completions);
        let moved = self.transport.progress(&mut done);
        for completion in done.drain(..) {
            let slot = (completion.cookie.0 >> 32) as usize;
            let node = completion.cookie.0 as NodeId;
            if let Some(Some(running)) = self.slots.get_mut(slot) {
                running.pending.remove(&node);
                self.ended(slot, node, &completion);
                self.advance(slot);
            }
        }
        self.completions = done;
        while let Some(peer) = self.transport.next_failure() {
            self.lose(peer.0);
        }
        moved
    }

    fn wait(&mut self, issued: &Issued, deadline: Option<Instant>) -> State {
        loop {
            let state = issued.query();
            if state != State::Pending {
                return state;
            }
            if !self.progress() {
                if deadline.is_some_and(|d| Instant::now() >= d) {
                    return State::Pending;
                }
                self.transport.wait(deadline);
            }
        }
    }

    fn cancel(&mut self, issued: &Issued) {
        let slot = issued.slot();
        let same = |r: &Running| issued.writes(&r.word);
        if self
            .slots
            .get(slot)
            .is_some_and(|s| s.as_ref().is_some_and(same))
        {
            self.fail(slot, State::Cancelled);
            self.advance(slot);
        }
    }

    fn lose(&mut self, process: u32) {
        if !self.lost.insert(process) {
            return;
        }
        self.transport.peer_failed(Endpoint(process));
        for slot in 0..self.slots.len() {
            let needed = |r: &Running| r.plan.needs(process);
            if self.slots[slot].as_ref().is_some_and(needed) {
                self.fail(slot, State::Lost);
                self.advance(slot);
            }
        }
    }

    fn counts(&mut self) -> Counts {
        self.counts
    }
}

impl<T: Transport> Inline<T> {
    /// Nothing more is started; what is under way is taken back.
    fn fail(&mut self, slot: usize, why: State) {
        let Some(running) = &mut self.slots[slot] else {
            return;
        };
        if running.failed.is_some() {
            return;
        }
        running.failed = Some(why);
        for &node in &running.pending {
            let cookie = cookie(slot, node);
            // Its completion says what came of it.
            let _ = match running.plan.actions[node as usize] {
                Action::Send(..) => self.transport.cancel_send(cookie),
                _ => self.transport.cancel_recv(cookie),
            };
        }
    }

    /// A message is over, for better or worse.
    fn ended(&mut self, slot: usize, node: NodeId, done: &Completion) {
        let Some(running) = &mut self.slots[slot] else {
            return;
        };
        let expected = match running.plan.actions[node as usize] {
            Action::Recv(_, bytes) => bytes,
            _ => done.bytes,
        };
        running.run.complete(&running.plan.graph, node);
        match done.outcome {
            Outcome::Done if done.bytes == expected => self.counts.nodes += 1,
            Outcome::Done | Outcome::Truncated { .. } => self.fail(slot, State::Length),
            Outcome::PeerFailed => self.fail(slot, State::Lost),
            Outcome::Cancelled => self.fail(slot, State::Cancelled),
        }
    }

    /// Starts all that is ready; at the end writes the word.
    fn advance(&mut self, slot: usize) {
        loop {
            let Some(running) = &mut self.slots[slot] else {
                return;
            };
            let next = match running.failed {
                Some(_) => None,
                None => running.run.next_ready(),
            };
            let Some(node) = next else { break };
            if running.plan.is_message(node) {
                running.pending.insert(node);
                if let Submit::Complete(done) = self.submit(slot, node) {
                    if let Some(running) = &mut self.slots[slot] {
                        running.pending.remove(&node);
                    }
                    self.ended(slot, node, &done);
                }
                continue;
            }
            running.plan.compute(node);
            running.run.complete(&running.plan.graph, node);
            self.counts.nodes += 1;
        }
        let Some(running) = &self.slots[slot] else {
            return;
        };
        let over =
            running.pending.is_empty() && (running.failed.is_some() || running.run.is_done());
        if over {
            let state = running.failed.unwrap_or(State::Done);
            self.counts.plans += u64::from(state == State::Done);
            self.counts.in_calls = self.counts.nodes;
            running.word.store(state as u32, Ordering::Release);
            self.slots[slot] = None;
        }
    }

    fn submit(&mut self, slot: usize, node: NodeId) -> Submit {
        let nothing = Submit::Pending;
        let Some(running) = &self.slots[slot] else {
            return nothing;
        };
        let (context, cookie) = (Context(running.channel), cookie(slot, node));
        let in_graph = running.plan.graph.node(node);
        let peer = Endpoint(in_graph.peer);
        let tag = running.tag | in_graph.tag as i32;
        match running.plan.actions[node as usize] {
            Action::Send(buf, bytes) => {
                let data = Data::bytes(buf, bytes);
                self.transport
                    .isend(peer, context, tag, SendMode::Standard, data, cookie)
            }
            Action::Recv(buf, bytes) => {
                let data = Data::bytes(buf, bytes);
                let (from, tag) = (Source::From(peer), TagSel::Exact(tag));
                self.transport.irecv(from, context, tag, data, cookie)
            }
            Action::Calc(..) | Action::Reduce(..) | Action::Copy(..) => nothing,
        }
    }
}

fn cookie(slot: usize, node: NodeId) -> Cookie {
    Cookie((slot as u64) << 32 | u64::from(node))
}
