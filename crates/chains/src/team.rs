//! What no process can see alone: whether the programs, or the graphs, of a team fit together.

use crate::flow::Flow;
use crate::order::places;
use crate::program::{Program, RECV, SEND};
use crate::verify::Fault;
use cad::{Graph, Kind, NodeId};
use std::collections::{BTreeMap, HashMap};
use std::fmt;

/// Why a team's programs don't fit together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Misfit {
    /// The program of this world rank is faulty by itself.
    Program(u32, Fault),
    /// From the first world rank to the second more or fewer bytes are sent than received.
    Bytes(u32, u32),
    /// Processes wait for each other; this one among them.
    DeadLock(u32),
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Misfit::Program(r, fault) => write!(f, "rank {r}: {fault}"),
            Misfit::Bytes(a, b) => write!(f, "from {a} to {b}: sent and received bytes differ"),
            Misfit::DeadLock(r) => write!(f, "rank {r} and others wait for each other"),
        }
    }
}

impl std::error::Error for Misfit {}

/// A node of a graph: rank, node.
type Place = (usize, NodeId);

/// Bytes of a stream that an entry moves: process, entry, end of its bytes.
type Mover = (usize, u32, u64);

/// Whether programs with these world ranks, all of a team, run to their ends together, whatever
/// runs first, even if a connection buffers nothing beyond `eager` bytes per program and direction.
///
/// Chains take nothing out of each other's order and messages go by place alone, so that who runs
/// first changes nothing of what can run: one order that gets to the end stands for all.
///
/// # Errors
/// The first misfit found.
pub fn verify(programs: &[Program], world: u32, eager: u64) -> Result<(), Misfit> {
    let mut flows = Vec::with_capacity(programs.len());
    for p in programs {
        let checked = p.verify(world).and_then(|()| Flow::new(p));
        flows.push(checked.map_err(|fault| Misfit::Program(p.rank, fault))?);
    }
    let mut streams: BTreeMap<(u32, u32), [Vec<Mover>; 2]> = BTreeMap::new();
    for (who, (p, flow)) in programs.iter().zip(&flows).enumerate() {
        for &i in &flow.sequence {
            let entry = &p.entries[i as usize];
            let (stream, side) = match entry.code {
                SEND => ((p.rank, entry.peer), 0),
                RECV => ((entry.peer, p.rank), 1),
                _ => continue,
            };
            let list = &mut streams.entry(stream).or_default()[side];
            let start = list.last().map_or(0, |m| m.2);
            list.push((who, i, start.saturating_add(entry.bytes)));
        }
    }
    let mut waits = Waits::new(programs, &flows);
    for ((from, to), [sends, recvs]) in &streams {
        let bytes = |l: &[Mover]| l.last().map_or(0, |m| m.2);
        if bytes(sends) != bytes(recvs) {
            return Err(Misfit::Bytes(*from, *to));
        }
        waits.stream(sends, recvs, bytes(sends) <= eager);
    }
    waits.run(programs)
}

/// Beginnings and ends of all entries of all programs, and which wait for which.
struct Waits {
    first: Vec<usize>,
    after: Vec<Vec<u32>>,
    left: Vec<u32>,
}

impl Waits {
    fn new(programs: &[Program], flows: &[Flow]) -> Waits {
        let mut first = vec![0];
        for p in programs {
            first.push(first[first.len() - 1] + 2 * p.entries.len());
        }
        let n = first[programs.len()];
        let mut waits = Waits {
            first,
            after: vec![Vec::new(); n],
            left: vec![0; n],
        };
        for (who, flow) in flows.iter().enumerate() {
            for &i in &flow.sequence {
                let begin = waits.begin(who, i);
                waits.add(begin, waits.end(who, i));
                if flow.at[i as usize].1 > 0 {
                    waits.add(waits.end(who, i - 1), begin);
                }
                if let Some(post) = flow.post_of[i as usize] {
                    waits.add(waits.end(who, post), begin);
                }
            }
        }
        waits
    }

    fn begin(&self, who: usize, i: u32) -> usize {
        self.first[who] + 2 * i as usize
    }

    fn end(&self, who: usize, i: u32) -> usize {
        self.begin(who, i) + 1
    }

    fn add(&mut self, before: usize, after: usize) {
        self.after[before].push(after as u32);
        self.left[after] += 1;
    }

    /// Sends and receives of one stream end when all that have the same bytes have begun; eager
    /// sends by themselves.
    fn stream(&mut self, sends: &[Mover], recvs: &[Mover], eager: bool) {
        let (mut s, mut r) = (0, 0);
        while s < sends.len() && r < recvs.len() {
            let ((sender, send, sent), (receiver, recv, got)) = (sends[s], recvs[r]);
            self.add(self.begin(sender, send), self.end(receiver, recv));
            if !eager {
                self.add(self.begin(receiver, recv), self.end(sender, send));
            }
            s += usize::from(sent <= got);
            r += usize::from(got <= sent);
        }
    }

    fn run(mut self, programs: &[Program]) -> Result<(), Misfit> {
        let mut ready: Vec<u32> = (0..self.left.len() as u32)
            .filter(|&e| self.left[e as usize] == 0)
            .collect();
        while let Some(e) = ready.pop() {
            for &a in &self.after[e as usize] {
                self.left[a as usize] -= 1;
                if self.left[a as usize] == 0 {
                    ready.push(a);
                }
            }
        }
        match self.left.iter().position(|&l| l > 0) {
            None => Ok(()),
            Some(e) => {
                let who = self.first.partition_point(|&f| f <= e) - 1;
                Err(Misfit::DeadLock(programs[who].rank))
            }
        }
    }
}

/// Keys that put a team in order whose tags don't: for each graph (in order of rank), one for each
/// node. `None` if the graphs can't run at all: messages without counterpart, or processes that wait
/// for each other when a send completes only with its receive.
pub fn order(graphs: &[Graph]) -> Option<Vec<Vec<u32>>> {
    // A message, whose both nodes are one event; or a node that is no message.
    let mut event: Vec<Vec<u32>> = graphs.iter().map(|g| vec![0; g.nodes().len()]).collect();
    let mut befores: Vec<Vec<Vec<NodeId>>> = Vec::new();
    let mut sides: HashMap<(u32, u32, u32), [Vec<Place>; 2]> = HashMap::new();
    let mut events = 0;
    for (rank, graph) in graphs.iter().enumerate() {
        let (place, before) = places(graph)?;
        let mut ids: Vec<NodeId> = (0..graph.nodes().len() as NodeId).collect();
        ids.sort_by_key(|&id| place[id as usize]);
        for id in ids {
            let node = graph.node(id);
            let (key, side) = match node.kind {
                Kind::Send => ((rank as u32, node.peer, node.tag), 0),
                Kind::Recv => ((node.peer, rank as u32, node.tag), 1),
                Kind::Calc | Kind::Copy => {
                    event[rank][id as usize] = events;
                    events += 1;
                    continue;
                }
            };
            sides.entry(key).or_default()[side].push((rank, id));
        }
        befores.push(before);
    }
    for [sends, recvs] in sides.values() {
        if sends.len() != recvs.len() {
            return None;
        }
        for (&(a, send), &(b, recv)) in sends.iter().zip(recvs) {
            event[a][send as usize] = events;
            event[b][recv as usize] = events;
            events += 1;
        }
    }
    let number = sorted(&event, &befores, events)?;
    let keys = |list: &Vec<u32>| list.iter().map(|&e| number[e as usize]).collect();
    Some(event.iter().map(keys).collect())
}

/// A number for each event, above those of all events before it.
fn sorted(event: &[Vec<u32>], befores: &[Vec<Vec<NodeId>>], events: u32) -> Option<Vec<u32>> {
    let mut after = vec![Vec::new(); events as usize];
    let mut left = vec![0u32; events as usize];
    for (own, before) in event.iter().zip(befores) {
        for (id, list) in before.iter().enumerate() {
            for &b in list {
                after[own[b as usize] as usize].push(own[id]);
                left[own[id] as usize] += 1;
            }
        }
    }
    let mut ready: Vec<u32> = (0..events).filter(|&e| left[e as usize] == 0).collect();
    let mut number = vec![0; events as usize];
    let mut next = 0;
    while let Some(e) = ready.pop() {
        number[e as usize] = next;
        next += 1;
        for &a in &after[e as usize] {
            left[a as usize] -= 1;
            if left[a as usize] == 0 {
                ready.push(a);
            }
        }
    }
    (next == events).then_some(number)
}
