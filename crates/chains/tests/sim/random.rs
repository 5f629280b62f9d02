//! Random teams of graphs: any nodes, any edges that some order of all nodes allows.

use super::Rng;
use cad::{BufId, Builder, Graph, Kind, MAX_TAG, NodeId, Region, Shape, Team, TypeSlot};

/// Bytes of an element that is calculated with.
const UNIT: u64 = 4;
const RECV_BYTES: u64 = 64;
const SEND_BYTES: u64 = 32;
const TEMP_BYTES: u64 = 48;

struct Draft {
    kind: Kind,
    peer: u32,
    tag: u32,
    src: Region,
    dst: Region,
    before: Vec<usize>,
    /// All nodes before it.
    closure: Vec<bool>,
}

/// How tags are drawn.
#[derive(Clone, Copy, PartialEq)]
pub enum Tags {
    /// In the order of the messages of a pair.
    Rising,
    /// Any.
    Random,
}

/// A team of graphs that some order of all nodes allows to run, whatever the buffering.
pub fn team(rng: &mut Rng, tags: Tags) -> Vec<Graph> {
    let size = 2 + rng.below(4);
    let mut drafts: Vec<Vec<Draft>> = (0..size).map(|_| Vec::new()).collect();
    let mut last: Vec<Option<(usize, usize, u32)>> = vec![None; size * size];
    let dense = rng.one_in(2);
    for event in 0..1 + rng.below(40) {
        let a = rng.below(size);
        if rng.one_in(3) {
            let (kind, src, dst) = local(rng);
            add(rng, &mut drafts[a], dense, draft(kind, 0, 0, src, dst));
            continue;
        }
        let b = (a + 1 + rng.below(size - 1)) % size;
        let n = if rng.one_in(8) {
            0
        } else {
            1 + rng.below(40) as u64
        };
        let (src, dst) = (source(rng, n), target(rng, n));
        let send = draft(Kind::Send, b as u32, 0, src, Region::EMPTY);
        let recv = draft(Kind::Recv, a as u32, 0, Region::EMPTY, dst);
        let s = add(rng, &mut drafts[a], dense, send);
        let r = add(rng, &mut drafts[b], dense, recv);
        let pair = &mut last[a * size + b];
        let tag = match *pair {
            _ if tags == Tags::Random => (event as u32 * 7919 + 13) % MAX_TAG,
            None => rng.below(3) as u32,
            Some((s0, r0, t)) => {
                let ordered = drafts[a][s].closure[s0] && drafts[b][r].closure[r0];
                t + u32::from(!ordered || rng.one_in(2)) * (1 + rng.below(3) as u32)
            }
        };
        *pair = Some((s, r, tag));
        (drafts[a][s].tag, drafts[b][r].tag) = (tag, tag);
    }
    let team = |rank| Team::new(rank, size as u32);
    drafts
        .iter()
        .enumerate()
        .map(|(rank, d)| build(rng, team(rank as u32), d))
        .collect()
}

fn draft(kind: Kind, peer: u32, tag: u32, src: Region, dst: Region) -> Draft {
    Draft {
        kind,
        peer,
        tag,
        src,
        dst,
        before: vec![],
        closure: vec![],
    }
}

fn source(rng: &mut Rng, n: u64) -> Region {
    if n <= SEND_BYTES && rng.one_in(4) {
        let at = rng.below((SEND_BYTES - n + 1) as usize) as u64;
        return Region::bytes(BufId::Send, at, n);
    }
    target(rng, n)
}

fn target(rng: &mut Rng, n: u64) -> Region {
    // Often the same place, so that messages are passed on.
    let (buf, room) = rng.pick(&[(BufId::Recv, RECV_BYTES), (BufId::Temp(0), TEMP_BYTES)]);
    let at = if rng.one_in(2) {
        0
    } else {
        rng.below((room - n + 1) as usize) as u64
    };
    Region::bytes(buf, at, n)
}

fn local(rng: &mut Rng) -> (Kind, Region, Region) {
    if rng.one_in(2) {
        let n = rng.below(25) as u64;
        // Copies between overlapping bytes mean nothing.
        return (
            Kind::Copy,
            source(rng, n.min(24)),
            Region::bytes(BufId::Temp(1), 0, n),
        );
    }
    let count = 1 + rng.below(6) as u64;
    let room = (RECV_BYTES / UNIT / 2 - count + 1) as usize;
    let elements = |buf, first: usize| Region {
        buf,
        offset: (first as u64 * UNIT) as i64,
        count,
        ty: TypeSlot::Recv,
    };
    let half = (RECV_BYTES / UNIT / 2) as usize;
    let src = elements(BufId::Recv, rng.below(room));
    (
        Kind::Calc,
        src,
        elements(BufId::Recv, half + rng.below(room)),
    )
}

fn meets(a: &Region, b: &Region) -> bool {
    let bytes = |r: &Region| {
        r.count as i64
            * if r.ty == TypeSlot::Recv {
                UNIT as i64
            } else {
                1
            }
    };
    let (x, y) = (a.offset + bytes(a), b.offset + bytes(b));
    a.buf == b.buf && a.count > 0 && b.count > 0 && a.offset < y && b.offset < x
}

/// Adds a node after all that touch its bytes, and after some others.
fn add(rng: &mut Rng, list: &mut Vec<Draft>, dense: bool, mut new: Draft) -> usize {
    new.closure = vec![false; list.len()];
    for (i, d) in list.iter().enumerate().rev() {
        let clash = meets(&d.dst, &new.dst) || meets(&d.dst, &new.src) || meets(&d.src, &new.dst);
        let wanted = clash || rng.one_in(6);
        if !wanted || (new.closure[i] && !dense) {
            continue;
        }
        new.before.push(i);
        new.closure[i] = true;
        for (j, &c) in d.closure.iter().enumerate() {
            new.closure[j] |= c;
        }
    }
    list.push(new);
    list.len() - 1
}

fn build(rng: &mut Rng, team: Team, drafts: &[Draft]) -> Graph {
    let mut b = Builder::new(team);
    b.send_buffer(Shape::BYTE, SEND_BYTES);
    let element = Shape {
        size: UNIT,
        extent: UNIT as i64,
        true_extent: UNIT,
        contiguous: true,
    };
    b.recv_buffer(element, RECV_BYTES / UNIT);
    b.temp_bytes(TEMP_BYTES);
    b.temp_bytes(24);
    let mut ids: Vec<usize> = (0..drafts.len()).collect();
    if rng.one_in(2) {
        rng.shuffle(&mut ids);
    }
    let mut id_of = vec![0; ids.len()];
    for (id, &i) in ids.iter().enumerate() {
        id_of[i] = id as NodeId;
    }
    for &i in &ids {
        let d = &drafts[i];
        let after: Vec<NodeId> = d.before.iter().map(|&x| id_of[x]).collect();
        match d.kind {
            Kind::Send => b.send(d.peer, d.tag, d.src, &after),
            Kind::Recv => b.recv(d.peer, d.tag, d.dst, &after),
            Kind::Calc => b.calc(d.src, d.dst, &after),
            Kind::Copy => b.copy(d.src, d.dst, &after),
        };
    }
    b.finish()
}
