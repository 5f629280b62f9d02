//! A simulated kernel that runs the programs of a team, in an order that means ill.
//!
//! Any chain that can move may move next, messages go in fragments, connections buffer little or
//! nothing, buffers of receives under way hold garbage. It panics where the real one would mix up data:
//! two entries of one stream in flight at once.

use super::{Memory, Rng, calculate};
use chains::Program;
use chains::program::{CALC, COPY, END, Entry, FILLER, LINK, POST, RECV, SEND, WAIT};
use std::collections::{HashMap, VecDeque};

/// How the kernel chooses who moves.
#[derive(Clone, Copy, Debug)]
pub enum Will {
    Random,
    /// This process only when no other can.
    Starve(usize),
    /// Chains in descending order, each as far as it goes.
    Backwards,
}

struct Chain {
    at: usize,
    end: usize,
    /// Bytes of the current entry that have moved.
    moved: u64,
}

struct Host<'a> {
    program: &'a Program,
    chains: Vec<Chain>,
    tokens: Vec<u32>,
    memory: &'a mut Memory,
}

pub struct Kernel<'a> {
    hosts: Vec<Host<'a>>,
    /// By world rank: host.
    of: HashMap<u32, usize>,
    streams: HashMap<(usize, usize), (usize, VecDeque<u8>)>,
    rng: &'a mut Rng,
}

/// Runs the programs until all have ended or nothing moves; the processes that have not ended, if any.
/// A connection takes at least `eager` bytes where a program sends no more.
pub fn run(
    rng: &mut Rng,
    programs: &[Program],
    memory: &mut [Memory],
    eager: u64,
    will: Will,
) -> Vec<usize> {
    let buffers = match eager {
        0 => vec![0],
        _ => vec![0, 1, 3, 1000],
    };
    let mut hosts = Vec::new();
    let mut streams = HashMap::new();
    let of: HashMap<u32, usize> = programs
        .iter()
        .enumerate()
        .map(|(i, p)| (p.rank, i))
        .collect();
    for (i, (program, memory)) in programs.iter().zip(memory).enumerate() {
        let mut at = 0;
        let chains = program.chains().map(|c| {
            at += c.len();
            Chain {
                at: at - c.len(),
                end: at,
                moved: 0,
            }
        });
        for (j, other) in programs.iter().enumerate() {
            let to = |e: &&Entry| e.code == SEND && e.peer == other.rank;
            let sent: u64 = program.entries.iter().filter(to).map(|e| e.bytes).sum();
            let room = if sent <= eager {
                eager as usize
            } else {
                rng.pick(&buffers)
            };
            streams.insert((i, j), (room, VecDeque::new()));
        }
        hosts.push(Host {
            program,
            chains: chains.collect(),
            tokens: vec![0; program.tokens as usize],
            memory,
        });
    }
    let mut kernel = Kernel {
        hosts,
        of,
        streams,
        rng,
    };
    kernel.play(will)
}

impl Kernel<'_> {
    fn play(&mut self, will: Will) -> Vec<usize> {
        let mut all: Vec<(usize, usize)> = Vec::new();
        for h in 0..self.hosts.len() {
            for c in 0..self.hosts[h].chains.len() {
                self.begin(h, c);
                all.push((h, c));
            }
        }
        loop {
            match will {
                Will::Backwards => all.sort_by_key(|&e| std::cmp::Reverse(e)),
                Will::Random => self.rng.shuffle(&mut all),
                Will::Starve(host) => {
                    self.rng.shuffle(&mut all);
                    all.sort_by_key(|e| e.0 == host);
                }
            }
            if !(0..all.len()).any(|i| self.step(all[i].0, all[i].1)) {
                break;
            }
        }
        let ended = |h: &Host| h.chains.iter().all(|c| c.at == c.end);
        let stuck: Vec<usize> = (0..self.hosts.len())
            .filter(|&h| !ended(&self.hosts[h]))
            .collect();
        if stuck.is_empty() {
            assert!(self.hosts.iter().all(|h| h.tokens.iter().all(|&t| t == 0)));
            let empty = self.streams.values().all(|s| s.1.is_empty());
            assert!(empty, "bytes nobody received");
        }
        stuck
    }

    fn entry(&self, h: usize, c: usize) -> Option<Entry> {
        let chain = &self.hosts[h].chains[c];
        (chain.at < chain.end).then(|| self.hosts[h].program.entries[chain.at])
    }

    /// The chain has come to an entry.
    fn begin(&mut self, h: usize, c: usize) {
        let Some(entry) = self.entry(h, c) else {
            return;
        };
        if matches!(entry.code, SEND | RECV) {
            let twin = |d: usize| {
                d != c
                    && self
                        .entry(h, d)
                        .is_some_and(|e| (e.code, e.peer) == (entry.code, entry.peer))
            };
            let twins = (0..self.hosts[h].chains.len()).any(twin);
            assert!(!twins, "two entries of one stream in flight: {entry}");
        }
        if entry.code == RECV && entry.area != FILLER {
            let n = entry.bytes as usize;
            self.hosts[h]
                .memory
                .bytes(entry.area, entry.offset, n)
                .fill(0xDD);
        }
    }

    fn advance(&mut self, h: usize, c: usize) {
        let chain = &mut self.hosts[h].chains[c];
        chain.moved = 0;
        chain.at += 1;
        self.begin(h, c);
    }

    /// Lets a chain move on by an entry or a fragment, if it can.
    fn step(&mut self, h: usize, c: usize) -> bool {
        let Some(entry) = self.entry(h, c) else {
            return false;
        };
        match entry.code {
            SEND => return self.send(h, c, &entry),
            RECV => return self.receive(h, c, &entry),
            WAIT => match &mut self.hosts[h].tokens[entry.peer as usize] {
                0 => return false,
                n => *n -= 1,
            },
            POST => self.hosts[h].tokens[entry.peer as usize] += 1,
            CALC | COPY => self.local(h, &entry),
            END => {
                let over = |(d, c): (usize, &Chain)| c.at >= c.end || self.last(h, d);
                assert!(
                    self.hosts[h].chains.iter().enumerate().all(over),
                    "END too early"
                );
            }
            code => panic!("code {code}"),
        }
        self.advance(h, c);
        true
    }

    /// Whether the chain is at END, or past the last thing END can wait for: its POST to it.
    fn last(&self, h: usize, c: usize) -> bool {
        self.entry(h, c)
            .is_some_and(|e| e.code == END && e.flags & LINK == 0)
    }

    fn local(&mut self, h: usize, e: &Entry) {
        let (n, memory) = (e.bytes as usize, &mut self.hosts[h].memory);
        let src = memory.bytes(e.from_area, e.from_offset, n).to_vec();
        let dst = memory.bytes(e.area, e.offset, n);
        match e.code {
            COPY => dst.copy_from_slice(&src),
            _ => calculate(e.unit as usize, &src, dst),
        }
    }

    fn fragment(&mut self, room: u64) -> u64 {
        match self.rng.below(3) {
            0 => room,
            _ => 1 + self.rng.below(room as usize) as u64,
        }
    }

    fn moved(&mut self, h: usize, c: usize, n: u64) {
        let bytes = self.entry(h, c).unwrap().bytes;
        let chain = &mut self.hosts[h].chains[c];
        chain.moved += n;
        if chain.moved == bytes {
            self.advance(h, c);
        }
    }

    fn send(&mut self, h: usize, c: usize, e: &Entry) -> bool {
        let to = self.of[&e.peer];
        let done = self.hosts[h].chains[c].moved;
        let (room, queue) = &self.streams[&(h, to)];
        let (mut room, buffered) = ((*room - queue.len().min(*room)) as u64, *room > 0);
        let receiver = (0..self.hosts[to].chains.len()).find(|&d| {
            let mine = self.hosts[h].program.rank;
            self.entry(to, d)
                .is_some_and(|r| r.code == RECV && r.peer == mine)
        });
        if !buffered {
            let Some(d) = receiver else { return false };
            room = self.entry(to, d).unwrap().bytes - self.hosts[to].chains[d].moved;
        }
        if room == 0 {
            return false;
        }
        let n = self.fragment(room.min(e.bytes - done));
        let data = match e.area {
            FILLER => vec![0xEE; n as usize],
            area => self.hosts[h]
                .memory
                .bytes(area, e.offset + done as i64, n as usize)
                .to_vec(),
        };
        self.streams.get_mut(&(h, to)).unwrap().1.extend(data);
        self.moved(h, c, n);
        if let (false, Some(d)) = (buffered, receiver) {
            self.take(to, d, h, n);
        }
        true
    }

    fn receive(&mut self, h: usize, c: usize, e: &Entry) -> bool {
        let from = self.of[&e.peer];
        let there = self.streams[&(from, h)].1.len() as u64;
        if there == 0 {
            return false;
        }
        let n = self.fragment(there.min(e.bytes - self.hosts[h].chains[c].moved));
        self.take(h, c, from, n);
        true
    }

    fn take(&mut self, h: usize, c: usize, from: usize, n: u64) {
        let e = self.entry(h, c).unwrap();
        let done = self.hosts[h].chains[c].moved as i64;
        let queue = &mut self.streams.get_mut(&(from, h)).unwrap().1;
        let data: Vec<u8> = queue.drain(..n as usize).collect();
        if e.area != FILLER {
            let memory = &mut self.hosts[h].memory;
            memory
                .bytes(e.area, e.offset + done, n as usize)
                .copy_from_slice(&data);
        }
        self.moved(h, c, n);
    }
}
