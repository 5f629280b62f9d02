//! What one process gives to others and lies where they read it, once for all who get the same: in segments, each of which every receiver reads for itself.
//!
//! Whoever gives it is done as soon as all segments have found room, and waits for nobody who computes. Which transports have such a place, and how much fits, is theirs to know: crate `shm`'s is
//! the shelf, and a segment that finds no room there goes to each receiver by itself.
//!
//! Called by broadcasts, allgathers, alltoalls and reductions of few processes that share memory and may compute ([straight](crate::straight)).

use crate::graph::{Builder, MAX_TAG, NodeId, Region, TypeSlot};
use crate::shape::Shape;

/// Bytes above which crate `shm` shares a message.
pub const ABOVE: u64 = 12 << 10;

/// Longest message that lies once for several where a graph and processes [lend](crate::Graph::lends). (Of three on two processors of a Xeon of the fifth generation, one that shares the root's has longer ones no sooner
/// than by the kernel's copies, 256 KiB after 24 to 39 us both ways, and if all three wait those take half as long.)
pub const BESIDE_LOANS: u64 = 64 << 10;

/// Bytes of a segment at least. What is longer than [`AT_ONCE`] of them is cut into so many, up to [`SEGMENT_MAX`].
/// (On an EPYC of the fifth generation, if all wait for a broadcast: in segments of 64 KiB 4 MiB take up to twice as long, and in those of 256 KiB as long, but 8 MiB 0.7 to 0.8 times as long.)
pub const SEGMENT: u64 = 128 << 10;
/// Longest segment: as long as crate `shm` shares.
const SEGMENT_MAX: u64 = 256 << 10;
/// As many as crate `shm` shares at once.
const AT_ONCE: u64 = 32;
/// Segments are multiples of this, so that each lies in its pages as the first does.
const STEP: u64 = 4096;

/// Bytes of the longest of so many different blocks that find room there if a process gives them at once.
pub fn longest(given: u32) -> u64 {
    AT_ONCE / u64::from(given) * SEGMENT_MAX
}

/// Bytes of the segments of a block of so many, of which a process gives `given` different ones at once.
pub(crate) fn segment(bytes: u64, given: u32) -> u64 {
    let pieces = (AT_ONCE / u64::from(given)).max(1);
    let even = bytes.div_ceil(pieces).next_multiple_of(STEP);
    even.clamp(SEGMENT, SEGMENT_MAX)
}

/// Data that a process gives or gets, as its program has them.
pub(crate) struct Whole {
    pub region: Region,
    /// Bytes of data in it.
    pub bytes: u64,
    /// Whether they lie one after another.
    pub contiguous: bool,
}

impl Whole {
    /// So many elements of a type.
    pub fn new(region: Region, ty: &Shape) -> Whole {
        Whole {
            region,
            bytes: ty.bytes(region.count),
            contiguous: ty.contiguous,
        }
    }

    /// Segments with their tags: what is no longer than one is sent as it is.
    fn segments(&self, segment: u64) -> impl Iterator<Item = (u32, Region)> {
        let Whole { region, bytes, .. } = *self;
        (0..bytes.div_ceil(segment)).map(move |number| {
            let at = number * segment;
            let part = Region {
                offset: region.offset + at as i64,
                count: segment.min(bytes - at),
                ty: TypeSlot::Bytes,
                ..region
            };
            let uncut = bytes <= segment;
            let tag = (number & u64::from(MAX_TAG)) as u32;
            (tag, if uncut { region } else { part })
        })
    }

    /// Memory without gaps for as much.
    fn temporary(&self, b: &mut Builder) -> Whole {
        Whole {
            region: Region::bytes(b.temp_bytes(self.bytes), 0, self.bytes),
            contiguous: true,
            ..*self
        }
    }

    /// A copy without gaps, which is made after a node, and the node after which it is there.
    pub fn packed(&self, b: &mut Builder, after: NodeId) -> (Whole, NodeId) {
        let copy = self.temporary(b);
        let made = b.copy(self.region, copy.region, &[after]);
        (copy, made)
    }

    /// Whether it has to be cut and has gaps.
    fn is_cut_in_gaps(&self, segment: u64) -> bool {
        !self.contiguous && self.bytes > segment
    }
}

/// Sends data to each of these ranks, after a node.
pub(crate) fn give(
    b: &mut Builder,
    to: impl Iterator<Item = u32> + Clone,
    whole: &Whole,
    segment: u64,
    after: NodeId,
) {
    b.share();
    if !whole.is_cut_in_gaps(segment) {
        return send(b, to, whole, segment, after);
    }
    let (packed, after) = whole.packed(b, after);
    send(b, to, &packed, segment, after);
}

fn send(
    b: &mut Builder,
    to: impl Iterator<Item = u32> + Clone,
    whole: &Whole,
    segment: u64,
    after: NodeId,
) {
    for (tag, part) in whole.segments(segment) {
        for rank in to.clone() {
            b.send(rank, tag, part, &[after]);
        }
    }
}

/// Receives what another process gives, after a node.
pub(crate) fn receive(b: &mut Builder, from: u32, whole: &Whole, segment: u64, after: NodeId) {
    b.share();
    let gaps = whole.is_cut_in_gaps(segment);
    let temporary = gaps.then(|| whole.temporary(b));
    let to = temporary.as_ref().unwrap_or(whole);
    let segments = to.segments(segment);
    let arrived: Vec<NodeId> = segments
        .map(|(tag, part)| b.recv(from, tag, part, &[after]))
        .collect();
    if let Some(packed) = &temporary {
        b.copy(packed.region, whole.region, &arrived);
    }
}
