//! What the tests share: random numbers, an interpreter of graphs, a simulated kernel.

#![allow(dead_code, reason = "each test file uses its own part")]

pub mod kernel;
pub mod random;

use cad::{BufId, Graph, Kind, NodeId, Region, Run};
use std::collections::{HashMap, VecDeque};

/// xorshift64*: small, seeded, good enough to shuffle.
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Rng {
        Rng((seed + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }
    pub fn below(&mut self, n: usize) -> usize {
        ((self.next() >> 33) as usize) % n
    }
    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
    pub fn pick<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())]
    }
    pub fn shuffle<T>(&mut self, list: &mut [T]) {
        for i in (1..list.len()).rev() {
            list.swap(i, self.below(i + 1));
        }
    }
}

/// The areas of a process: bytes, and the offset of the first.
#[derive(Clone, Debug, PartialEq)]
pub struct Memory(pub Vec<(i64, Vec<u8>)>);

impl Memory {
    pub fn new(rng: &mut Rng, graph: &Graph) -> Memory {
        let temps = (0..graph.temps().len() as u32).map(BufId::Temp);
        let area = |buf| {
            let (low, high) = graph.limits(buf);
            (low, (low..high).map(|_| rng.next() as u8).collect())
        };
        Memory(
            [BufId::Send, BufId::Recv]
                .into_iter()
                .chain(temps)
                .map(area)
                .collect(),
        )
    }
    pub fn bytes(&mut self, area: u32, offset: i64, n: usize) -> &mut [u8] {
        let (low, bytes) = &mut self.0[area as usize];
        let at = (offset - *low) as usize;
        &mut bytes[at..at + n]
    }
    fn region(&mut self, graph: &Graph, region: &Region) -> &mut [u8] {
        let (offset, n) = graph.plain(region).unwrap();
        let area = match region.buf {
            _ if n == 0 => return &mut [],
            BufId::Send => 0,
            BufId::Recv => 1,
            BufId::Temp(k) => k + 2,
        };
        self.bytes(area, offset, n as usize)
    }
}

/// `dst = src op dst`: does not commute, and shows an element that was cut.
pub fn calculate(unit: usize, src: &[u8], dst: &mut [u8]) {
    for (i, (s, d)) in src.iter().zip(dst).enumerate() {
        *d = s
            .wrapping_mul(3)
            .wrapping_add(d.wrapping_mul(5))
            .wrapping_add((i % unit) as u8);
    }
}

/// Does the copies that a program may leave out.
pub fn copies_first(graph: &Graph, memory: &mut Memory, min: u64) {
    for id in chains::copies_first(graph, min) {
        let node = graph.node(id);
        let data = memory.region(graph, &node.src).to_vec();
        memory.region(graph, &node.dst).copy_from_slice(&data);
    }
}

/// Runs the graphs of a team one node at a time, matching messages by tag.
pub fn interpret(graphs: &[Graph], memory: &mut [Memory]) {
    let mut runs: Vec<Run> = graphs.iter().map(Run::new).collect();
    let mut sent: HashMap<(usize, u32, u32), VecDeque<Vec<u8>>> = HashMap::new();
    let mut waiting: Vec<VecDeque<NodeId>> = vec![VecDeque::new(); graphs.len()];
    loop {
        let mut moved = false;
        for (rank, graph) in graphs.iter().enumerate() {
            while let Some(id) = runs[rank].next_ready() {
                waiting[rank].push_back(id);
            }
            for _ in 0..waiting[rank].len() {
                let id = waiting[rank].pop_front().unwrap();
                let node = *graph.node(id);
                let mut src = memory[rank].region(graph, &node.src).to_vec();
                match node.kind {
                    Kind::Send => {
                        let to = (rank, node.peer, node.tag);
                        sent.entry(to).or_default().push_back(src);
                    }
                    Kind::Recv => {
                        let from = (node.peer as usize, rank as u32, node.tag);
                        match sent.get_mut(&from).and_then(VecDeque::pop_front) {
                            Some(data) => {
                                memory[rank].region(graph, &node.dst).copy_from_slice(&data);
                            }
                            None => {
                                waiting[rank].push_back(id);
                                continue;
                            }
                        }
                    }
                    Kind::Copy | Kind::Calc => {
                        let dst = memory[rank].region(graph, &node.dst);
                        if node.kind == Kind::Calc {
                            let mut out = dst.to_vec();
                            calculate(graph.unit(&node.dst).unwrap() as usize, &src, &mut out);
                            src = out;
                        }
                        dst.copy_from_slice(&src);
                    }
                }
                runs[rank].complete(graph, id);
                moved = true;
            }
        }
        if !moved {
            break;
        }
    }
    assert!(
        runs.iter().all(Run::is_done),
        "the graphs don't fit together"
    );
}
