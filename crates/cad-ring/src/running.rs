//! An issue that is not over, or one of a kept plan that waits for the next.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use cad_run::{Plan, State, UNBEGUN};
use io_uring::squeue::Entry;

use crate::calls::Prepared;
use crate::channel::Channel;
use crate::code::{Ask, Code, Op};
use crate::interrupt::Bell;
use crate::lanes::{LANES, Place, lane};
use crate::uring::{Act, Step, Uring};

/// A pair of sockets to copy through: what goes into the first comes out of the second.
pub(crate) type Pair = [OwnedFd; 2];

/// All chains of an issue as the ring takes them: they serve any issue in the same slot, on the same lane, with the same tokens, pairs
/// and entries of the handler's.
pub(crate) struct Image {
    pub entries: Vec<Entry>,
    /// What they name, while no issue has it.
    pub streams: Vec<Rc<OwnedFd>>,
    /// Whether they ring for calculations.
    pub rings: bool,
}

/// An issue. It keeps what its chains use until all have told that they are over.
pub(crate) struct Running {
    /// What the handler of the signal may do of it: dropped first, as it names tokens by their numbers.
    pub prepared: Prepared,
    pub plan: Rc<Plan>,
    pub code: Rc<Code>,
    pub word: Arc<AtomicU32>,
    pub channel: Rc<Channel>,
    pub number: u64,
    /// Which of the ring's slots is its.
    pub slot: usize,
    /// By the indices of the code.
    pub tokens: Vec<OwnedFd>,
    pub pairs: Vec<Pair>,
    /// The numbers of its cells; none if it has to do without.
    pub cells: Vec<u32>,
    pub streams: Vec<Rc<OwnedFd>>,
    /// For each chain, whether it is not over.
    pub under_way: Vec<bool>,
    /// Whether its chains were handed over.
    pub begun: bool,
    /// Whether END has come.
    pub ended: bool,
    /// Why it ends early.
    pub failed: Option<State>,
    /// The kept plan that it is of.
    pub kept: Option<usize>,
    /// By lane, what the next issue of that needs not make again.
    pub images: [Option<Image>; LANES as usize],
}

impl Running {
    /// An issue to come.
    pub fn new(
        plan: Rc<Plan>,
        code: Rc<Code>,
        channel: Rc<Channel>,
        word: Arc<AtomicU32>,
    ) -> Running {
        let chains = code.chains.len();
        Running {
            prepared: Prepared::default(),
            plan,
            code,
            word,
            channel,
            number: 0,
            slot: 0,
            tokens: Vec::new(),
            pairs: Vec::new(),
            cells: Vec::new(),
            streams: Vec::new(),
            under_way: vec![true; chains],
            begun: false,
            ended: false,
            failed: None,
            kept: None,
            images: [const { None }; LANES as usize],
        }
    }

    /// Gets in line, from now on as the next issue of its channel.
    pub fn enter(&mut self) {
        self.number = self.channel.enter(self.slot);
    }

    /// Waits for its turn.
    pub fn stand_in_line(&mut self) {
        self.enter();
        self.word.store(UNBEGUN, Ordering::Relaxed);
    }

    /// Its chains are handed over next.
    pub fn begin(&mut self) {
        self.begun = true;
        self.word.store(State::Pending as u32, Ordering::Relaxed);
    }

    /// Begins as the next issue of its channel, with the image of that one's lane.
    pub fn begin_with_image(&mut self) {
        self.enter();
        self.begin();
        self.prepared.renew();
        let lane = self.lane();
        if let Some(image) = &mut self.images[lane] {
            std::mem::swap(&mut image.streams, &mut self.streams);
        }
    }

    /// Does what comes before its chains.
    pub fn copy_first(&self) {
        for &(node, bytes) in &self.code.copies {
            self.plan.copy(node, 0, bytes);
        }
    }

    /// Becomes an issue to come, after it was one that came to its END.
    pub fn rest(&mut self) {
        (self.begun, self.ended) = (false, false);
        self.under_way.fill(true);
        let lane = self.lane();
        let streams = std::mem::take(&mut self.streams);
        if let Some(image) = &mut self.images[lane] {
            image.streams = streams;
        }
    }

    /// Whether the kernel does a question's calculation without asking.
    fn does(&self, ask: &Ask) -> bool {
        ask.known && !self.cells.is_empty()
    }

    /// Whether the handler of the signal may do it.
    fn may_ring(&self, ask: &Ask) -> bool {
        ask.anywhere && !self.does(ask)
    }

    /// Whether there is anything that it may do.
    pub fn wants_bell(&self) -> bool {
        match self.cells.is_empty() {
            true => self.code.rings,
            false => self.code.rings_beside,
        }
    }

    /// How many nodes the kernel calculates without asking.
    pub fn by_program(&self) -> u64 {
        match self.cells.is_empty() {
            true => 0,
            false => self.code.known,
        }
    }

    /// Books the handler's entries for its calculations, or gives them back if it does not ring.
    pub fn prepare(&mut self, rings: bool) {
        if rings && self.prepared.is_kept() {
            return self.prepared.renew();
        }
        if !rings && self.prepared.is_empty() {
            return;
        }
        // They name other entries, or none.
        self.images = Default::default();
        self.prepared.settle();
        if rings {
            let wanted = |ask: &Ask| self.may_ring(ask);
            self.prepared = Prepared::book(&self.plan, &self.code.asks, &self.tokens, wanted);
        }
    }

    /// Keeps its chains for the next issue of its lane, if the handler's entries can be kept too.
    pub fn keep_image(&mut self, entries: Vec<Entry>, rings: bool) {
        let anywhere = self.code.asks.iter().filter(|ask| self.may_ring(ask));
        if rings && !self.prepared.keep(anywhere.count()) {
            return;
        }
        self.images[self.lane()] = Some(Image {
            entries,
            streams: Vec::new(),
            rings,
        });
    }

    /// Its lane.
    pub fn lane(&self) -> usize {
        usize::from(lane(self.number))
    }

    /// Whether the kernel may still use its buffers.
    pub fn is_busy(&self) -> bool {
        self.begun && self.under_way.contains(&true)
    }

    /// Whether END has written the word, be it told or not.
    pub fn is_done(&self) -> bool {
        self.ended || self.word.load(Ordering::Acquire) == State::Done as u32
    }

    /// Its stream to a peer.
    pub fn place(&self, peer: u32) -> Place {
        Place {
            channel: self.channel.number,
            lane: lane(self.number),
            peer,
        }
    }

    /// The steps of a chain. It does not ring for what is not prepared.
    pub fn steps<'a>(
        &'a self,
        chain: usize,
        bell: Option<&'a Bell>,
        socket: Option<BorrowedFd<'a>>,
    ) -> Vec<Step<'a>> {
        let range = self.code.chains.get(chain).cloned().unwrap_or(0..0);
        let ops = self.code.ops[range].iter();
        ops.filter_map(|op| self.step(op, bell, socket)).collect()
    }

    fn step<'a>(
        &'a self,
        op: &Op,
        bell: Option<&'a Bell>,
        socket: Option<BorrowedFd<'a>>,
    ) -> Option<Step<'a>> {
        let stream = |i: u32| self.streams.get(i as usize).map(|s| s.as_fd());
        let token = |i: u32| self.tokens.get(i as usize).map(|t| t.as_fd());
        let pair = |i: u32, end: usize| self.pairs.get(i as usize).map(|p| p[end].as_fd());
        let due = |ask: u32| self.prepared.state(ask).zip(bell);
        let asked = |i: u32| self.code.asks.get(i as usize).filter(|ask| !self.does(ask));
        let cell = |i: u32| self.cells.get(i as usize).copied();
        let (act, fd) = match *op {
            Op::Send(i, buf, n) => (Act::Send(buf, n), stream(i)),
            Op::Recv(i, buf, n) => (Act::Recv(buf, n), stream(i)),
            Op::SendByte(i) => (Act::SendByte, stream(i)),
            Op::RecvByte(i) => (Act::RecvByte, stream(i)),
            Op::CopyOut(i, buf, n) => (Act::Send(buf, n), pair(i, 0)),
            Op::CopyIn(i, buf, n) => (Act::Recv(buf, n), pair(i, 1)),
            Op::Take(i) => (Act::Take, token(i)),
            Op::Post(i) => (Act::Post, token(i)),
            Op::Ask(i) => (asked(i).map(|_| Act::Ask(i))?, None),
            Op::Answered(i) => (Act::Take, token(asked(i)?.answer)),
            Op::Load(i, buf, n) => (Act::Load(buf, n, cell(i)?), socket),
            Op::Combine(i, buf, n, how) => (Act::Combine(buf, n, cell(i)?, how), socket),
            Op::Give(i, buf, n) => (Act::Give(buf, n, cell(i)?), socket),
            Op::Due(i) => (Act::Due(due(i)?.0), None),
            Op::Ring(i) => (Act::Post, Some(due(i)?.1.to_ring())),
            Op::Still(i) => (Act::Take, Some(due(i)?.1.to_still())),
            Op::End => (Act::End(self.word.as_ptr()), None),
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
        let step = op.and_then(|op| self.step(op, None, None));
        let good = last && step.is_some_and(|step| result == Uring::success(&step.act));
        if good && chain == self.code.end {
            self.ended = true;
        }
        good
    }
}
