//! An issue that is not over.

use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use cad_run::{Plan, State};

use crate::calls::Prepared;
use crate::code::{Code, Op};
use crate::interrupt::Bell;
use crate::lanes::{Place, lane};
use crate::uring::{Act, Step, Uring};

/// A pair of sockets to copy through: what goes into the first comes out of the second.
pub(crate) type Pair = [OwnedFd; 2];

/// An issue. It keeps what its chains use until all have told that they are over.
pub(crate) struct Running {
    /// What the handler of the signal may do of it: dropped first, as it names tokens by their numbers.
    pub prepared: Prepared,
    pub plan: Rc<Plan>,
    pub code: Rc<Code>,
    pub word: Arc<AtomicU32>,
    pub channel: u32,
    pub number: u64,
    /// By the indices of the code.
    pub tokens: Vec<OwnedFd>,
    pub pairs: Vec<Pair>,
    pub streams: Vec<Rc<OwnedFd>>,
    /// For each chain, whether it is under way; empty before the start.
    pub under_way: Vec<bool>,
    /// Whether END has come.
    pub ended: bool,
    /// Why it ends early.
    pub failed: Option<State>,
}

impl Running {
    /// Whether its chains were handed over.
    pub fn has_begun(&self) -> bool {
        !self.under_way.is_empty()
    }

    /// Whether the kernel may still use its buffers.
    pub fn is_busy(&self) -> bool {
        self.under_way.contains(&true)
    }

    /// Whether END has written the word, be it told or not.
    pub fn is_done(&self) -> bool {
        self.ended || self.word.load(Ordering::Acquire) == State::Done as u32
    }

    /// Its stream to a peer.
    pub fn place(&self, peer: u32) -> Place {
        Place {
            channel: self.channel,
            lane: lane(self.number),
            peer,
        }
    }

    /// The steps of a chain. It does not ring for what is not prepared.
    pub fn steps<'a>(&'a self, chain: usize, bell: Option<&'a Bell>) -> Vec<Step<'a>> {
        let range = self.code.chains.get(chain).cloned().unwrap_or(0..0);
        let ops = self.code.ops[range].iter();
        ops.filter_map(|op| self.step(op, bell)).collect()
    }

    fn step<'a>(&'a self, op: &Op, bell: Option<&'a Bell>) -> Option<Step<'a>> {
        let stream = |i: u32| self.streams.get(i as usize).map(|s| s.as_fd());
        let token = |i: u32| self.tokens.get(i as usize).map(|t| t.as_fd());
        let pair = |i: u32, end: usize| self.pairs.get(i as usize).map(|p| p[end].as_fd());
        let due = |ask: u32| self.prepared.state(ask).zip(bell);
        let (act, fd) = match *op {
            Op::Send(i, buf, n) => (Act::Send(buf, n), stream(i)),
            Op::Recv(i, buf, n) => (Act::Recv(buf, n), stream(i)),
            Op::SendByte(i) => (Act::SendByte, stream(i)),
            Op::RecvByte(i) => (Act::RecvByte, stream(i)),
            Op::CopyOut(i, buf, n) => (Act::Send(buf, n), pair(i, 0)),
            Op::CopyIn(i, buf, n) => (Act::Recv(buf, n), pair(i, 1)),
            Op::Take(i) => (Act::Take, token(i)),
            Op::Post(i) => (Act::Post, token(i)),
            Op::Ask(i) => (Act::Ask(i), None),
            Op::Due(i) => (Act::Due(due(i)?.0), None),
            Op::Ring(i) => (Act::Post, Some(due(i)?.1.to_ring())),
            Op::Still(i) => (Act::Take, Some(due(i)?.1.to_still())),
            Op::End => (Act::End(self.word.clone()), None),
        };
        Some(Step { act, fd })
    }

    /// A chain told that it is over: whether it came to its end.
    pub fn chain_over(&mut self, chain: u32, last: bool, result: i32) -> bool {
        if let Some(under_way) = self.under_way.get_mut(chain as usize) {
            *under_way = false;
        }
        let range = self.code.chains.get(chain as usize).cloned();
        let op = range.and_then(|r| self.code.ops[r].last());
        // A chain does not end with what only some issues have.
        let step = op.and_then(|op| self.step(op, None));
        let good = last && step.is_some_and(|step| result == Uring::success(&step.act));
        if good && chain == self.code.end {
            self.ended = true;
        }
        good
    }
}
