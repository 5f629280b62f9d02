//! An issue that is not over.

use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use cad_run::{Plan, State};

use crate::code::{Code, Op};
use crate::lanes::{Place, lane};
use crate::uring::{Act, Step, Uring};

/// A pair of sockets to copy through: what goes into the first comes out of the second.
pub(crate) type Pair = [OwnedFd; 2];

/// An issue. It keeps what its chains use until all have told that they are over.
pub(crate) struct Running {
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

    /// The steps of a chain.
    pub fn steps(&self, chain: usize) -> Vec<Step<'_>> {
        let range = self.code.chains.get(chain).cloned().unwrap_or(0..0);
        self.code.ops[range]
            .iter()
            .map(|op| self.step(op))
            .collect()
    }

    fn step(&self, op: &Op) -> Step<'_> {
        let stream = |i: u32| self.streams.get(i as usize).map(|s| s.as_fd());
        let token = |i: u32| self.tokens.get(i as usize).map(|t| t.as_fd());
        let pair = |i: u32, end: usize| self.pairs.get(i as usize).map(|p| p[end].as_fd());
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
            Op::End => (Act::End(self.word.clone()), None),
        };
        Step { act, fd }
    }

    /// A chain told that it is over: whether it came to its end.
    pub fn chain_over(&mut self, chain: u32, last: bool, result: i32) -> bool {
        if let Some(under_way) = self.under_way.get_mut(chain as usize) {
            *under_way = false;
        }
        let range = self.code.chains.get(chain as usize).cloned();
        let op = range.and_then(|r| self.code.ops[r].last());
        let good = last && op.is_some_and(|op| result == Uring::success(&self.step(op).act));
        if good && chain == self.code.end {
            self.ended = true;
        }
        good
    }
}
