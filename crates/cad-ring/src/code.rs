//! A plan as steps of the ring, with everything but descriptors and the word filled in.
//!
//! Invariants: no chain is longer than [`CHAIN_MAX`]: where one is, it is cut, and a token of its own
//! makes the second part wait for the first. A question to the rank is followed by the token that its
//! answer posts, which no other question uses before that is taken. Where the handler of a signal may answer, it is called
//! before the rank is asked. Where the kernel may, its steps come first, and an issue has either these or the others ([`Ask::known`]).
//! Long copies that wait for nothing are no steps: whoever hands the chains over does them before ([`Code::copies`]).

use std::collections::BTreeSet;
use std::ops::Range;

use boundary::UserBuf;
use cad::{Kind, NodeId};
use cad_run::{Known, Plan};
use cad_softirq::calc::{Formula, How};
use chains::Options;
use chains::program::{BY_RANK, CALC, COPY, Entry, FILLER, POST, RECV, SEND, WAIT};

use crate::uring::CHAIN_MAX;

/// Bytes that the kernel copies in one piece at most: through a pair of sockets of the chain's own, which take
/// that many without anybody receiving.
pub(crate) const COPY_MAX: u64 = chains::PIECE_MAX;

/// Bytes of a single send or receive; the kernel cuts it somewhat below 2 GiB.
const STEP_MAX: u64 = 1 << 30;
/// Bytes from which a copy that waits for nothing is done by the rank, before its chains are handed over. The call of an allgather of 1 MiB takes 128 to 169 us
/// so in place of 308 to 344 between two hosts; shorter copies would cost a persistent collective's start more instructions than their two entries do.
const FIRST_MIN: u64 = 4 << 10;

/// A step without its descriptor.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    /// Index of the peer, memory.
    Send(u32, UserBuf, u32),
    Recv(u32, UserBuf, u32),
    SendByte(u32),
    RecvByte(u32),
    /// Index of the pair of sockets.
    CopyOut(u32, UserBuf, u32),
    CopyIn(u32, UserBuf, u32),
    /// Index of the token.
    Take(u32),
    Post(u32),
    /// Index of the question.
    Ask(u32),
    /// Index of the question: says that its calculation is due; rings for it; takes the ringing back.
    Due(u32),
    Ring(u32),
    Still(u32),
    /// Index of the question: takes its answer.
    Answered(u32),
    /// Index of the cell, memory: loads it, combines with it, stores it.
    Load(u32, UserBuf, u32),
    Combine(u32, UserBuf, u32, Formula),
    Give(u32, UserBuf, u32),
    End,
}

/// Something that the rank has to do, and how it says that it has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ask {
    pub node: NodeId,
    /// Which bytes of a node that copies.
    pub start: u64,
    pub bytes: u64,
    /// Index of the token.
    pub answer: u32,
    /// Whether the handler of a signal may do it.
    pub anywhere: bool,
    /// Whether the kernel may, where the issue has cells: it is not asked then.
    pub known: bool,
}

/// A compiled plan.
#[derive(Debug, Default)]
pub(crate) struct Code {
    pub ops: Vec<Op>,
    pub chains: Vec<Range<usize>>,
    /// The chain that ends with END.
    pub end: u32,
    pub peers: Vec<u32>,
    pub tokens: u32,
    /// Pairs of sockets to copy through.
    pub pairs: u32,
    pub asks: Vec<Ask>,
    /// Copies to be done before the chains are handed over, and how many bytes each has. The rank needs a fourth of the time that the kernel
    /// takes to send and receive them.
    pub copies: Vec<(NodeId, u64)>,
    /// Whether the handler of a signal may answer any; and any that the kernel can't.
    pub rings: bool,
    pub rings_beside: bool,
    /// Cells to calculate in, one for each chain that does.
    pub cells: u32,
    /// How many nodes calculate there.
    pub known: u64,
    /// Nodes of the plan, and how many of them the rank does.
    pub nodes: u64,
    pub in_calls: u64,
}

impl Code {
    /// Compiles the plan of a process among `size`; the kernel copies `copy_max` bytes in one piece, and combines operands as `formula` says.
    ///
    /// # Errors
    /// In words, why it can't run as chains.
    pub fn new(
        plan: &Plan,
        size: u32,
        copy_max: u64,
        mut formula: impl FnMut(&How) -> Option<Formula>,
    ) -> Result<Code, String> {
        let graph = plan.graph();
        let empty = |n: &cad::Node| n.kind == Kind::Calc && graph.bytes(&n.dst) == Some(0);
        if graph.nodes().iter().any(empty) {
            return Err("it can't run in the kernel: a calculation on no bytes".to_owned());
        }
        let bytes = |id: NodeId| graph.bytes(&graph.node(id).dst).unwrap_or(0);
        let first: Vec<_> = chains::copies_first(graph, FIRST_MIN)
            .into_iter()
            .map(|id| (id, bytes(id)))
            .collect();
        let all = graph.nodes().iter().filter(|n| n.kind == Kind::Copy);
        let copies = all.count() > first.len();
        let options = Options {
            // Copies are cut so that the kernel can do them; else the costs decide.
            piece: copies.then_some(copy_max.max(chains::PIECE_MIN)),
            kernel_copy: copy_max,
            whole_calc: true,
            copies_first: Some(FIRST_MIN),
            ..Options::default()
        };
        let world: Vec<u32> = (0..size).collect();
        let unfit = |why: &dyn std::fmt::Display| format!("it can't run in the kernel: {why}");
        let program = chains::compile(graph, &world, None, &options).map_err(|why| unfit(&why))?;
        program.verify(size).map_err(|why| unfit(&why))?;
        let mut code = Code {
            tokens: program.tokens,
            nodes: graph.nodes().len() as u64,
            copies: first,
            ..Code::default()
        };
        for chain in program.chains() {
            code.chain(plan, chain, &mut formula);
        }
        code.peers.shrink_to_fit();
        let asked: BTreeSet<NodeId> = code.asks.iter().map(|a| a.node).collect();
        code.in_calls = asked.len() as u64;
        code.rings = code.asks.iter().any(|ask| ask.anywhere);
        code.rings_beside = code.asks.iter().any(|ask| ask.anywhere && !ask.known);
        code.known = code.asks.iter().filter(|ask| ask.known).count() as u64;
        Ok(code)
    }

    fn chain(
        &mut self,
        plan: &Plan,
        entries: &[Entry],
        formula: &mut dyn FnMut(&How) -> Option<Formula>,
    ) {
        let mut ops = Vec::with_capacity(entries.len());
        let (mut answer, mut pair, mut cell) = (None, None, None);
        for entry in entries {
            match entry.code {
                SEND | RECV => self.message(entry, &mut ops),
                WAIT => ops.push(Op::Take(entry.peer)),
                POST => ops.push(Op::Post(entry.peer)),
                CALC | COPY if entry.flags & BY_RANK != 0 => {
                    let answer = *answer.get_or_insert_with(|| next(&mut self.tokens));
                    let (index, mut ask) = (self.asks.len() as u32, ask(plan, entry, answer));
                    if let Some((known, formula)) = known(plan, entry.peer, formula) {
                        let (cell, n) = (
                            *cell.get_or_insert_with(|| next(&mut self.cells)),
                            known.bytes as u32,
                        );
                        ops.push(Op::Load(cell, known.to, n));
                        ops.push(Op::Combine(cell, known.from, n, formula));
                        ops.push(Op::Give(cell, known.to, n));
                        ask.known = true;
                    }
                    if ask.anywhere {
                        ops.extend([Op::Due(index), Op::Ring(index), Op::Still(index)]);
                    }
                    ops.extend([Op::Ask(index), Op::Answered(index)]);
                    self.asks.push(ask);
                }
                COPY => {
                    let pair = *pair.get_or_insert_with(|| next(&mut self.pairs));
                    let n = entry.bytes as u32;
                    ops.push(Op::CopyOut(pair, memory(entry.from_offset), n));
                    ops.push(Op::CopyIn(pair, memory(entry.offset), n));
                }
                _ => ops.push(Op::End),
            }
        }
        self.cut(&ops);
    }

    fn message(&mut self, entry: &Entry, ops: &mut Vec<Op>) {
        let known = self.peers.iter().position(|&p| p == entry.peer);
        let peer = known.unwrap_or_else(|| {
            self.peers.push(entry.peer);
            self.peers.len() - 1
        }) as u32;
        let sends = entry.code == SEND;
        if entry.area == FILLER {
            ops.push(if sends {
                Op::SendByte(peer)
            } else {
                Op::RecvByte(peer)
            });
            return;
        }
        let (mut at, mut left) = (entry.offset, entry.bytes);
        while left > 0 {
            let n = left.min(STEP_MAX);
            ops.push(match sends {
                true => Op::Send(peer, memory(at), n as u32),
                false => Op::Recv(peer, memory(at), n as u32),
            });
            (at, left) = (at + n as i64, left - n);
        }
    }

    /// Adds a chain, in parts that the ring takes.
    fn cut(&mut self, mut ops: &[Op]) {
        let mut gate = None;
        while !ops.is_empty() {
            let start = self.ops.len();
            self.ops.extend(gate.map(Op::Take));
            let room = CHAIN_MAX - (self.ops.len() - start);
            let fits = ops.len() <= room;
            let (now, later) = ops.split_at(if fits { ops.len() } else { room - 1 });
            self.ops.extend_from_slice(now);
            gate = (!fits).then(|| next(&mut self.tokens));
            self.ops.extend(gate.map(Op::Post));
            if matches!(self.ops.last(), Some(Op::End)) {
                self.end = self.chains.len() as u32;
            }
            self.chains.push(start..self.ops.len());
            ops = later;
        }
    }
}

/// Takes a number.
fn next(count: &mut u32) -> u32 {
    *count += 1;
    *count - 1
}

/// Offsets in the graph of a plan are addresses: this is a part of a buffer that a node was made with.
fn memory(address: i64) -> UserBuf {
    UserBuf::NULL.offset(address)
}

fn ask(plan: &Plan, entry: &Entry, answer: u32) -> Ask {
    let node = entry.peer;
    let graph = plan.graph();
    let first = graph.plain(&graph.node(node).dst).map_or(0, |(at, _)| at);
    Ask {
        node,
        start: entry.offset.saturating_sub(first) as u64,
        bytes: entry.bytes,
        answer,
        anywhere: plan.is_reduction(node),
        known: false,
    }
}

/// What a node combines and how, if the kernel can do it.
fn known<'a>(
    plan: &'a Plan,
    node: NodeId,
    formula: &mut dyn FnMut(&How) -> Option<Formula>,
) -> Option<(&'a Known, Formula)> {
    let known = plan
        .known(node)
        .filter(|known| known.how.fits(known.bytes))?;
    Some((known, formula(&known.how)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use cad_run::{Calc, Descriptor};
    use std::rc::Rc;

    fn compiled(make: impl FnOnce(&mut Descriptor)) -> Code {
        let mut cad = Descriptor::new(1, 4, None);
        make(&mut cad);
        Code::new(&cad.plan().unwrap(), 4, COPY_MAX, |_| None).unwrap()
    }

    #[test]
    fn a_relay_is_few_chains() {
        let mut memory = [0u8; 100];
        let code = compiled(|cad| {
            for part in memory.chunks_mut(10) {
                let buf = UserBuf::of_array(part);
                let recv = cad.make_recv_node(buf, 10, 0).unwrap();
                let send = cad.make_send_node(buf, 10, 2).unwrap();
                cad.connect_node(recv, send).unwrap();
            }
        });
        assert_eq!(code.peers, [0, 2]);
        assert!(code.chains.len() <= 3, "{code:?}");
        assert_eq!((code.nodes, code.in_calls), (20, 0));
        let end = &code.ops[code.chains[code.end as usize].clone()];
        assert!(matches!(end.last(), Some(Op::End)));
    }

    #[test]
    fn long_chains_are_cut_and_joined() {
        let code = compiled(|cad| {
            let mut before = cad_run::START;
            for _ in 0..3 * CHAIN_MAX {
                let node = cad.make_send_node(UserBuf::NULL, 0, 3).unwrap();
                cad.connect_node(before, node).unwrap();
                before = node;
            }
        });
        let lengths: Vec<_> = code.chains.iter().map(|c| c.len()).collect();
        assert!(lengths.len() >= 4 && lengths.iter().all(|&n| n <= CHAIN_MAX));
        let sends = code.ops.iter().filter(|o| matches!(o, Op::SendByte(0)));
        assert_eq!(sends.count(), 3 * CHAIN_MAX);
        for token in 0..code.tokens {
            let posts = code
                .ops
                .iter()
                .filter(|o| matches!(o, Op::Post(t) if *t == token));
            let takes = code
                .ops
                .iter()
                .filter(|o| matches!(o, Op::Take(t) if *t == token));
            assert_eq!((posts.count(), takes.count()), (1, 1));
        }
    }

    #[test]
    fn calculations_stay_whole_and_copies_are_cut() {
        let mut memory = vec![0u8; 600_000];
        let (from, to) = memory.split_at_mut(300_000);
        let (from, to) = (UserBuf::of_array(from), UserBuf::of_array(to));
        let op: Calc = Rc::new(|_, _, _| {});
        let code = compiled(|cad| {
            let calc = cad.make_calc_node(op, from, to, 300_000).unwrap();
            let copy = cad.make_copy_node(to, from, 300_000).unwrap();
            cad.connect_node(calc, copy).unwrap();
        });
        assert_eq!(code.asks.len(), 1);
        assert_eq!((code.asks[0].start, code.asks[0].bytes), (0, 300_000));
        assert_eq!((code.nodes, code.in_calls), (2, 1));
        let out = code.ops.iter().filter(|o| matches!(o, Op::CopyOut(..)));
        assert_eq!(out.count(), 5);
        assert_eq!(code.pairs, 1);
    }

    #[test]
    fn copies_that_wait_for_nothing_are_no_steps() {
        let mut memory = vec![0u8; 3 * 5000];
        let [a, b, c] = [0, 5000, 10_000].map(|at| UserBuf::of_array(&mut memory).offset(at));
        let code = compiled(|cad| {
            // Made in the opposite order.
            let second = cad.make_copy_node(b, c, 5000).unwrap();
            let first = cad.make_copy_node(a, b, 5000).unwrap();
            let send = cad.make_send_node(c, 100, 2).unwrap();
            cad.connect_node(first, second).unwrap();
            cad.connect_node(second, send).unwrap();
        });
        assert_eq!(code.copies, [(1, 5000), (0, 5000)]);
        assert!(
            matches!(code.ops[..], [Op::Send(0, _, 100), Op::End]),
            "{:?}",
            code.ops
        );
        assert_eq!((code.nodes, code.in_calls, code.pairs), (3, 0, 0));
    }

    #[test]
    fn what_may_run_anywhere_rings_before_it_asks() {
        let mut memory = [0u8; 16];
        let (from, to) = memory.split_at_mut(8);
        let (from, to) = (UserBuf::of_array(from), UserBuf::of_array(to));
        let code = compiled(|cad| {
            let first = cad.make_reduction_node(|_, _, _| {}, from, to, 8).unwrap();
            let second = cad.make_calc_node(Rc::new(|_, _, _| {}), from, to, 8);
            cad.connect_node(first, second.unwrap()).unwrap();
        });
        let anywhere: Vec<bool> = code.asks.iter().map(|a| a.anywhere).collect();
        assert_eq!(anywhere, [true, false]);
        assert!(
            matches!(
                code.ops[..],
                [
                    Op::Due(0),
                    Op::Ring(0),
                    Op::Still(0),
                    Op::Ask(0),
                    Op::Answered(0),
                    Op::Ask(1),
                    Op::Answered(1),
                    Op::End
                ]
            ),
            "{:?}",
            code.ops
        );
    }

    #[test]
    fn calculations_on_nothing_are_refused() {
        let mut cad = Descriptor::new(0, 2, None);
        let op: Calc = Rc::new(|_, _, _| {});
        cad.make_calc_node(op, UserBuf::NULL, UserBuf::NULL, 0)
            .unwrap();
        assert!(Code::new(&cad.plan().unwrap(), 2, COPY_MAX, |_| None).is_err());
    }

    #[test]
    fn orders_that_streams_cannot_have_are_refused() {
        let mut cad = Descriptor::new(0, 2, None);
        let first = cad.make_send_node(UserBuf::NULL, 0, 1).unwrap();
        let second = cad.make_send_node(UserBuf::NULL, 0, 1).unwrap();
        cad.connect_node(second, first).unwrap();
        let why = Code::new(&cad.plan().unwrap(), 2, COPY_MAX, |_| None).unwrap_err();
        assert!(why.contains("order of tags"), "{why}");
    }
}
