//! The pipes for the streams of two processes' slots: one in each direction, and those that both have in common, as long messages use
//! ([`pipe`](crate::pipe)).
//!
//! They are mapped before the first receive is posted, and the way out gets memory before something goes through. Who calls it: `receive`, `flow` and `split`.

use std::io;

use mtmi::slot::SlotError;
use sys::memfd::Mapping;

use super::area::{Area, PIPE_CONTROL};
use super::table::number;
use crate::Shm;
use crate::common::Common;
use crate::lane::{COMMON_PIPE, Lane};
use crate::ring::Hostile;
use crate::space::Space;

/// The pipes to and from a peer.
pub(crate) struct Pipes {
    // The lanes point into the mappings; they are declared first, so they are dropped first.
    pub out: Lane,
    pub inward: Lane,
    pub common: Common,
    _memory: [Mapping; 3],
    /// Whether the way out has memory.
    pub backed: bool,
    pub space: Space,
    /// Whether the next chunk found no room at the last look.
    pub blocked: bool,
    /// Chunks that were taken.
    pub consumed: u32,
}

impl Pipes {
    /// Those between this process, number `here` on its node, and another.
    fn map(area: &Area, here: u32, there: u32) -> io::Result<Pipes> {
        let (out, inward) = (area.pipe(here, there)?, area.pipe(there, here)?);
        let both = area.common_pipes(here, there)?;
        let ways = |i: usize| {
            let pipe = (&both, i * COMMON_PIPE);
            (lane(&out, pipe), lane(&inward, pipe))
        };
        Ok(Pipes {
            out: lane(&out, (&out, PIPE_CONTROL)),
            inward: lane(&inward, (&inward, PIPE_CONTROL)),
            common: Common::new(ways, there < here),
            _memory: [out, inward, both],
            backed: false,
            space: Space::new(),
            blocked: false,
            consumed: 0,
        })
    }

    /// Takes up what the peer has given back, after which there may be room again.
    #[inline]
    pub fn refresh(&mut self) -> Result<(), Hostile> {
        self.blocked = false;
        self.space.refresh(self.out.drained())
    }

    /// The same from what may be old, or wrong: then it says nothing.
    #[inline]
    pub fn hear(&mut self, drained: u32) {
        if self.space.refresh(drained).is_ok() {
            self.blocked = false;
        }
    }
}

/// A lane whose words begin a mapping, over the pipe that begins at this place of a mapping.
fn lane<const ROOM: usize>(words: &Mapping, pipe: (&Mapping, usize)) -> Lane<ROOM> {
    let (words, pipe) = (words.range(0, PIPE_CONTROL), pipe.0.range(pipe.1, ROOM));
    let (Some(words), Some(pipe)) = (words, pipe) else {
        unreachable!("the area maps them whole");
    };
    // SAFETY: both ranges are in mappings that are kept beside the lane and dropped after it; in this process only lanes use them.
    unsafe { Lane::new(words, pipe) }
}

impl Shm {
    /// The pipes to and from a peer, as address space.
    pub(super) fn open_pipes(&mut self, peer: u32) -> Result<&mut Pipes, SlotError> {
        if self.slots.links[peer as usize].pipes.is_none() {
            let (there, area) = (self.peers[peer as usize].slot, &self.slots.area);
            let area = area.as_ref().map_err(|&n| SlotError::Memory(n))?;
            let pipes = Pipes::map(area, self.local, there);
            let pipes = pipes.map_err(|e| SlotError::Memory(number(&e)))?;
            self.slots.links[peer as usize].pipes = Some(pipes);
        }
        let pipes = &mut self.slots.links[peer as usize].pipes;
        pipes.as_mut().ok_or(SlotError::NoSuchSlot)
    }

    /// The same, with memory for what goes to the peer.
    pub(super) fn outward_pipes(&mut self, peer: u32) -> Result<&mut Pipes, SlotError> {
        if !self.open_pipes(peer)?.backed {
            let (there, area) = (self.peers[peer as usize].slot, &self.slots.area);
            let area = area.as_ref().map_err(|&n| SlotError::Memory(n))?;
            let backed = area.back_pipe(there);
            backed.map_err(|e| SlotError::Memory(number(&e)))?;
        }
        let pipes = self.open_pipes(peer)?;
        pipes.backed = true;
        Ok(pipes)
    }
}
