//! Long deliveries between two mapped buffers: both sides copy (`crate::split`).
//!
//! The words lie in front of the pipe of that direction. There is one split copy at a time in each direction of a pair.

use boundary::UserBuf;
use mtmi::slot::{Delivery, Slot};

use super::line::{Landing, Payload, Way};
use super::receive::{outcome, place};
use super::table::{Place, Receiving, SplitIn, SplitOut};
use crate::Shm;
use crate::ring::Hostile;
use crate::split::{LAST, Seen, can_split, chunks, range};

/// Looks at the receiver's count before the delivery is left pending: about what a chunk takes.
const PATIENCE: u32 = 64;

impl Shm {
    /// Begins a split copy and does this side's part. `None`: another one is under way, or this one can't be.
    pub(super) fn begin_split(
        &mut self,
        slot: Slot,
        (from, to): (UserBuf, *mut u8),
        (bytes, offset): (u64, u64),
        (sent, immediate): (u64, u32),
    ) -> Option<Delivery> {
        let peer = slot.peer.0;
        if !can_split(bytes) || self.slots.links[peer as usize].split.is_some() {
            return None;
        }
        let words = self.outward_pipes(peer).ok()?.out;
        let words = words.split();
        let link = &mut self.slots.links[peer as usize];
        link.splits = link.splits.wrapping_add(1);
        let number = link.splits & LAST;
        words.begin(number);
        link.split = Some(SplitOut {
            place: place(slot),
            number,
            bytes,
        });
        let landing = Landing {
            way: Way::Split,
            sent,
            immediate,
        };
        self.land(slot, landing, [offset, u64::from(number), 0]);
        let all = chunks(bytes);
        let mut copied = 0;
        // A peer that turns the word back must not keep us here for ever.
        for _ in 0..all {
            let Some(i) = words.take(number, all, true) else {
                break;
            };
            let (start, len) = range(all - 1 - i, bytes);
            // SAFETY: the chunk is inside the source and inside the window, both of `bytes` bytes; nobody's buffer
            // lies in a window.
            unsafe { sys::copy::copy(to.add(start), from.as_mut_ptr().add(start), len) };
            copied += 1;
            words.set_copied(number, copied, true);
        }
        self.ports[peer].bell.get().ring();
        for _ in 0..PATIENCE {
            if self.end_split(peer) {
                return Some(Delivery::Done { bytes });
            }
            sys::copy::pause();
        }
        self.deliver_later(slot);
        Some(Delivery::Pending)
    }

    /// Ends the split copy that this process began, if the receiver has copied what it took. Returns whether it is over.
    pub(super) fn end_split(&mut self, peer: u32) -> bool {
        let link = &mut self.slots.links[peer as usize];
        let (Some(split), Some(pipes)) = (&link.split, &link.pipes) else {
            return true;
        };
        let (number, all) = (split.number, chunks(split.bytes));
        let over = match pipes.out.split().seen(number) {
            Seen::Taken(front, back) => {
                front + back >= all && pipes.out.split().has_copied(number, front, false)
            }
            // Only this process begins one.
            Seen::Newer => {
                self.suspect(peer);
                return false;
            }
        };
        if over {
            let (place, bytes) = (split.place, split.bytes);
            link.split = None;
            self.end_delivery(peer, place, Delivery::Done { bytes });
        }
        over
    }

    /// Whether the split copy that this process began can be ended.
    pub(super) fn split_ready(&self, peer: u32) -> bool {
        let link = &self.slots.links[peer as usize];
        let (Some(split), Some(pipes)) = (&link.split, &link.pipes) else {
            return false;
        };
        let number = split.number;
        match pipes.out.split().seen(number) {
            Seen::Taken(front, _) => pipes.out.split().has_copied(number, front, false),
            Seen::Newer => true,
        }
    }

    /// A receive's landing says that both sides copy.
    pub(super) fn join_split(
        &mut self,
        place: Place,
        peer: u32,
        landing: Landing,
        [offset, number, _]: Payload,
    ) -> Result<(), Hostile> {
        let (receive, _) = self.slots.receive(place, peer).ok_or(Hostile)?;
        let capacity = receive.memory.len();
        let bytes = landing.sent.min(capacity);
        if number > u64::from(LAST) || !can_split(bytes) {
            return Err(Hostile);
        }
        receive.state = Receiving::Splits;
        self.slots.links[peer as usize].split_in.push(SplitIn {
            place,
            number: number as u32,
            bytes,
            offset,
            copied: 0,
            landed: outcome(landing, capacity),
        });
        self.help_split(place, peer)
    }

    /// Does this side's part of a split copy, and ends it if the sender has done its own.
    pub(super) fn help_split(&mut self, place: Place, peer: u32) -> Result<(), Hostile> {
        let memory = self
            .slots
            .receive(place, peer)
            .map(|(r, _)| r.memory.clone());
        let rank = self.peers[peer as usize].slot;
        let (Some(memory), Ok(area)) = (memory, &self.slots.area) else {
            return Ok(());
        };
        let link = &mut self.slots.links[peer as usize];
        let found = link.split_in.iter().position(|s| s.place == place);
        let (Some(i), Some(pipes)) = (found, &link.pipes) else {
            return Ok(());
        };
        let split = &mut link.split_in[i];
        let (words, number, all) = (pipes.inward.split(), split.number, chunks(split.bytes));
        // Where the sender's memory can't be mapped, it does everything.
        let from = link.windows.find(area, rank, split.offset, split.bytes);
        let (to, _) = memory.contiguous().ok_or(Hostile)?;
        while let Some(from) = from
            && split.copied < all
            && let Some(chunk) = words.take(number, all, false)
        {
            if chunk >= all {
                return Err(Hostile);
            }
            let (start, len) = range(chunk, split.bytes);
            // SAFETY: the chunk is inside the window and inside the receive's memory, both of at least `bytes` bytes;
            // nobody's buffer lies in a window.
            unsafe { sys::copy::copy(to.as_mut_ptr().add(start), from.add(start), len) };
            split.copied += 1;
            words.set_copied(number, split.copied, false);
        }
        let over = match words.seen(number) {
            Seen::Taken(front, back) => front + back >= all && words.has_copied(number, back, true),
            Seen::Newer => true,
        };
        if split.copied > 0 {
            self.ports[peer].bell.get().ring();
        }
        if over {
            let landed = split.landed;
            link.split_in.swap_remove(i);
            self.end_receive(place, peer, landed);
        }
        Ok(())
    }
}
