//! From a graph of team ranks, buffers and types to nodes of world ranks, areas and bytes.

use crate::Refused;
use crate::program::{AREA_RECV, AREA_SEND, AREA_TEMPS, Area, FILLER};
use cad::{BufId, Graph, Kind, NodeId, Region};

/// Bytes of an area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub area: u32,
    pub offset: i64,
    pub bytes: u64,
}

impl Span {
    pub(crate) const NONE: Span = Span {
        area: FILLER,
        offset: 0,
        bytes: 0,
    };

    /// The bytes `[start, start + bytes)` of this span.
    pub(crate) fn part(&self, start: u64, bytes: u64) -> Span {
        Span {
            offset: self.offset + start as i64,
            bytes,
            ..*self
        }
    }

    /// Whether the spans share a byte.
    pub(crate) fn meets(&self, other: &Span) -> bool {
        self.area == other.area
            && self.area != FILLER
            && self.bytes > 0
            && other.bytes > 0
            && self.offset < other.offset + other.bytes as i64
            && other.offset < self.offset + self.bytes as i64
    }
}

/// A node, or a piece of one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Work {
    pub kind: Kind,
    /// World rank, or, of what is no message, the node.
    pub peer: u32,
    /// Read, by all but RECV.
    pub src: Span,
    /// Written, by all but SEND.
    pub dst: Span,
    /// Bytes that stay together.
    pub unit: u64,
}

impl Work {
    /// How many bytes it moves or calculates.
    pub(crate) fn bytes(&self) -> u64 {
        match self.kind {
            Kind::Send => self.src.bytes,
            _ => self.dst.bytes,
        }
    }

    pub(crate) fn part(&self, start: u64, bytes: u64) -> Work {
        let mut part = *self;
        if self.kind != Kind::Recv {
            part.src = self.src.part(start, bytes);
        }
        if self.kind != Kind::Send {
            part.dst = self.dst.part(start, bytes);
        }
        part
    }

    /// Makes it do nothing, but order others.
    pub(crate) fn leave_out(&mut self) {
        (self.src, self.dst) = (Span::NONE, Span::NONE);
    }

    /// Whether both touch a byte, one of them writing.
    pub(crate) fn conflicts(&self, other: &Work) -> bool {
        self.dst.meets(&other.dst) || self.dst.meets(&other.src) || self.src.meets(&other.dst)
    }

    pub(crate) fn is_message(&self) -> bool {
        matches!(self.kind, Kind::Send | Kind::Recv)
    }
}

/// The graph's memory.
pub(crate) fn areas(graph: &Graph) -> Vec<Area> {
    let temps = (0..graph.temps().len() as u32).map(BufId::Temp);
    [BufId::Send, BufId::Recv]
        .into_iter()
        .chain(temps)
        .map(|buf| {
            let (low, high) = graph.limits(buf);
            Area { low, high }
        })
        .collect()
}

fn span(graph: &Graph, id: NodeId, region: &Region) -> Result<Span, Refused> {
    let (offset, bytes) = graph.plain(region).ok_or(Refused::Type(id))?;
    let area = match region.buf {
        _ if bytes == 0 => return Ok(Span::NONE),
        BufId::Send => AREA_SEND,
        BufId::Recv => AREA_RECV,
        BufId::Temp(k) => AREA_TEMPS + k,
    };
    Ok(Span {
        area,
        offset,
        bytes,
    })
}

/// All nodes. `world` has the world ranks of the team.
pub(crate) fn lower(graph: &Graph, world: &[u32]) -> Result<Vec<Work>, Refused> {
    let mut out = Vec::with_capacity(graph.nodes().len());
    for (id, node) in graph.nodes().iter().enumerate() {
        let id = id as NodeId;
        let mut work = Work {
            kind: node.kind,
            peer: id,
            src: span(graph, id, &node.src)?,
            dst: span(graph, id, &node.dst)?,
            unit: 1,
        };
        if work.is_message() {
            if node.peer == graph.team().rank {
                return Err(Refused::Myself(id));
            }
            work.peer = world[node.peer as usize];
            let used = match node.kind {
                Kind::Send => &mut work.src,
                _ => &mut work.dst,
            };
            // A stream shows nothing of a message without bytes.
            used.bytes = used.bytes.max(1);
        }
        if node.kind == Kind::Calc {
            let unit = graph.unit(&node.dst).ok_or(Refused::Type(id))?.max(1);
            if unit > u64::from(u16::MAX) {
                return Err(Refused::Type(id));
            }
            work.unit = unit;
        }
        out.push(work);
    }
    Ok(out)
}
