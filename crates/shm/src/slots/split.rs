//! Long deliveries that both sides copy ([`split`](crate::split)): between two mapped buffers, or by the kernel between those of two processes that may read and write
//! each other's memory ([`direct`](crate::direct)), where that is measured to be faster than the pipe.
//!
//! The words lie in front of the pipe of that direction. There is one such copy at a time in each direction of a pair. The sender begins it and
//! copies on until nothing is left, so a receiver that computes meanwhile holds up nothing.
//!
//! Where the kernel refuses a copy to either, no more data are lent. The receiver takes what is left, so that the sender writes no more, and asks for a
//! [stream](super::flow) as soon as the sender has done with what it took; a sender that was refused one says so, as its receiver may be looking elsewhere.

use boundary::UserBuf;
use layout::Data;
use mtmi::SendMode;
use mtmi::slot::{Delivery, Slot};

use super::line::{Header, LONGEST, Landing, OWN, Payload, Way};
use super::receive::{outcome, place};
use super::table::{Place, Receiving, SplitIn, SplitOut};
use crate::Shm;
use crate::direct::{self, Choice, There};
use crate::ring::Hostile;
use crate::split::{Cut, FAILED, LAST, SPLIT, Seen, Words, cut};
use crate::state::Offer;
use crate::trial;
use crate::wire::Kind;

/// Looks at the receiver's count before the delivery is left pending: about what a chunk takes.
const PATIENCE: u32 = 64;

/// What a sender copies, and how.
struct Copy {
    from: UserBuf,
    to: There,
    cut: Cut,
    /// The data, if they are lent.
    lent: Option<Data>,
}

/// How data that are lent are cut. A few are one chunk, which whoever comes first copies.
fn cut_lent(bytes: u64) -> Cut {
    match bytes < SPLIT {
        true => Cut {
            bytes,
            chunk: bytes,
        },
        false => direct::cut(bytes),
    }
}

/// Whether the words can count its chunks.
fn counts(cut: Cut) -> bool {
    cut.bytes > 0 && cut.bytes.div_ceil(cut.chunk) < FAILED.into()
}

impl SplitIn {
    /// Whether the sender has copied all that it took, and nothing is left.
    fn is_over(&self, words: &Words) -> bool {
        match words.seen(self.number) {
            Seen::Taken(front, back) => {
                front + back >= self.cut.chunks() && words.has_copied(self.number, back, true)
            }
            Seen::Newer => true,
        }
    }

    /// Whether the system refused the sender a copy.
    fn is_refused(&self, words: &Words) -> bool {
        words.has_copied(self.number, FAILED, true)
    }

    fn is_lent(&self) -> bool {
        matches!(self.from, Offer::Own(_))
    }
}

impl Shm {
    /// When a message of so many bytes begins, if its time is to be measured; else 0.
    pub(super) fn begins(&self, bytes: u64) -> u64 {
        match bytes >= direct::SHORTEST && self.choice == Choice::Measured {
            true => sys::clock::cycles(),
            false => 0,
        }
    }

    /// A message of so many bytes has come this way, which its sender began at this time, or 0: that says nothing.
    pub(super) fn measured(&mut self, peer: u32, bytes: u64, way: trial::Way, since: u64) {
        let cost = (since != 0).then(|| trial::Cost {
            took: direct::cycles_since(since),
            exchanged: false,
        });
        self.learn_of(peer, bytes, way, cost);
    }

    /// Has both sides copy between mapped buffers. `None`: another copy is under way, or this one can't be.
    pub(super) fn share_mapped(
        &mut self,
        slot: Slot,
        (from, to): (UserBuf, *mut u8),
        (bytes, offset): (u64, u64),
        (sent, immediate): (u64, u32),
    ) -> Option<Delivery> {
        let copy = Copy {
            from,
            to: There::Window(to),
            cut: cut(bytes),
            lent: None,
        };
        let landing = Landing {
            way: Way::Split,
            sent,
            immediate,
        };
        self.begin_split(slot, copy, landing, offset)
    }

    /// Has the kernel copy to the memory of a receive that nobody else reaches. `None`: as above.
    pub(super) fn lend(
        &mut self,
        slot: Slot,
        data: &Data,
        (header, bytes): (Header, u64),
        immediate: u32,
    ) -> Option<Delivery> {
        let peer = slot.peer.0;
        if header.segment != OWN {
            return None;
        }
        let at = self.lent_at(peer, data, SendMode::Standard)?;
        self.count_sent(peer, bytes, SendMode::Standard);
        let (from, _) = data.contiguous()?;
        let copy = Copy {
            from,
            to: self.own_memory(peer, header.offset)?,
            cut: cut_lent(bytes),
            lent: Some(data.clone()),
        };
        let landing = Landing {
            way: Way::Lent,
            sent: data.len().min(LONGEST),
            immediate,
        };
        self.begin_split(slot, copy, landing, at)
    }

    /// Begins a copy and does this side's part.
    fn begin_split(
        &mut self,
        slot: Slot,
        copy: Copy,
        landing: Landing,
        at: u64,
    ) -> Option<Delivery> {
        let (peer, cut) = (slot.peer.0, copy.cut);
        if !counts(cut) || self.slots.links[peer as usize].split.is_some() {
            return None;
        }
        let since = match self.slots.links[peer as usize].flows.is_empty() {
            true => self.begins(cut.bytes),
            false => 0,
        };
        let words = self.outward_pipes(peer).ok()?.out;
        let words = words.split();
        let link = &mut self.slots.links[peer as usize];
        link.splits = link.splits.wrapping_add(1);
        let number = link.splits & LAST;
        words.begin(number);
        link.split = Some(SplitOut {
            place: place(slot),
            number,
            cut,
            lent: copy.lent,
            failed: false,
        });
        self.land(slot, landing, [at, u64::from(number), since]);
        let (all, mut copied) = (cut.chunks(), 0);
        // A peer that turns the word back must not keep us here for ever.
        for _ in 0..all {
            let Some(i) = words.take(number, all, true).filter(|&i| i < all) else {
                break;
            };
            let (start, len) = cut.range(all - 1 - i);
            // The chunk is inside the source and inside the receive's memory, both of as many bytes as were cut.
            if !copy.to.write(start, copy.from.offset(start as i64), len) {
                words.set_copied(number, FAILED, true);
                self.refuse_split(peer);
                break;
            }
            copied += 1;
            words.set_copied(number, copied, true);
        }
        self.ports[peer].bell.get().ring();
        for _ in 0..PATIENCE {
            if self.end_split(peer) {
                return Some(Delivery::Done { bytes: cut.bytes });
            }
            sys::copy::pause();
        }
        self.deliver_later(slot);
        Some(Delivery::Pending)
    }

    /// The system has refused this process a copy that it began: its receiver hears of it.
    #[cold]
    fn refuse_split(&mut self, peer: u32) {
        self.lend_no_more(peer);
        let Some(split) = &mut self.slots.links[peer as usize].split else {
            return;
        };
        split.failed = true;
        let place = split.place;
        if let Some(target) = self.target_of(place) {
            self.announce_stream(peer, place, target);
        }
    }

    /// Ends the copy that this process began, if the receiver has copied what it took. Returns whether it is over.
    pub(super) fn end_split(&mut self, peer: u32) -> bool {
        let link = &mut self.slots.links[peer as usize];
        let (Some(split), Some(pipes)) = (&link.split, &link.pipes) else {
            return true;
        };
        let (number, all) = (split.number, split.cut.chunks());
        let over = match pipes.out.split().seen(number) {
            Seen::Taken(front, back) => {
                !split.failed
                    && front + back >= all
                    && pipes.out.split().has_copied(number, front, false)
            }
            // Only this process begins one.
            Seen::Newer => {
                self.suspect(peer);
                return false;
            }
        };
        if over {
            let (place, bytes) = (split.place, split.cut.bytes);
            link.split = None;
            self.end_delivery(peer, place, Delivery::Done { bytes });
        }
        over
    }

    /// Whether a copy with a peer can be ended.
    pub(super) fn split_ready(&self, peer: u32) -> bool {
        let link = &self.slots.links[peer as usize];
        let Some(pipes) = &link.pipes else {
            return false;
        };
        let goes = link.split.as_ref().is_some_and(|split| {
            let (words, number) = (pipes.out.split(), split.number);
            match words.seen(number) {
                Seen::Taken(front, _) => !split.failed && words.has_copied(number, front, false),
                Seen::Newer => true,
            }
        });
        let words = pipes.inward.split();
        let ended = |split: &SplitIn| split.is_over(words) || split.is_refused(words);
        goes || link.split_in.iter().any(|s| s.is_lent() && ended(s))
    }

    /// A receive's landing says that both sides copy.
    pub(super) fn join_split(
        &mut self,
        place: Place,
        peer: u32,
        landing: Landing,
        [at, number, since]: Payload,
    ) -> Result<(), Hostile> {
        let (receive, _) = self.slots.receive(place, peer).ok_or(Hostile)?;
        let capacity = receive.memory.len();
        let bytes = landing.sent.min(capacity);
        let (cut, from, since) = match landing.way {
            Way::Lent if receive.awaited => (cut_lent(bytes), Offer::Own(at), since),
            Way::Lent => (cut_lent(bytes), Offer::Own(at), 0),
            _ => (cut(bytes), Offer::Mapped(at), 0),
        };
        if number > u64::from(LAST) || !counts(cut) {
            return Err(Hostile);
        }
        receive.state = Receiving::Splits;
        let link = &mut self.slots.links[peer as usize];
        link.split_in.push(SplitIn {
            place,
            number: number as u32,
            cut,
            from,
            copied: 0,
            failed: false,
            landed: outcome(landing, capacity),
            since,
        });
        self.help_split(place, peer)
    }

    /// Does this side's part of a copy, and ends it if the sender has done its own.
    pub(super) fn help_split(&mut self, place: Place, peer: u32) -> Result<(), Hostile> {
        let receive = self.slots.receive(place, peer);
        let begun = receive.filter(|(r, _)| r.state == Receiving::Splits);
        let memory = begun.map(|(r, _)| r.memory.clone());
        let link = &self.slots.links[peer as usize];
        let found = link.split_in.iter().position(|s| s.place == place);
        let (Some(memory), Some(i), Some(pipes)) = (memory, found, &link.pipes) else {
            return Ok(());
        };
        let (to, _) = memory.contiguous().ok_or(Hostile)?;
        let lane = pipes.inward;
        let (split, words) = (&link.split_in[i], lane.split());
        let (from, bytes, lent) = (split.from, split.cut.bytes, split.is_lent());
        // Who shares a processor with the sender would have it wait.
        let from = match lent && self.mover.is_none() {
            true => None,
            // Where the sender's memory can't be mapped, it does everything.
            false => self.there(peer, from, bytes),
        };
        let split = &mut self.slots.links[peer as usize].split_in[i];
        let (number, all) = (split.number, split.cut.chunks());
        while let Some(from) = from
            && split.copied < all
            && !split.failed
            && let Some(chunk) = words.take(number, all, false)
        {
            if chunk >= all {
                return Err(Hostile);
            }
            let (start, len) = split.cut.range(chunk);
            // The chunk is inside the sender's data and inside the receive's memory, both of as many bytes as were cut.
            split.failed = !from.read(start, to.offset(start as i64), len);
            if !split.failed {
                split.copied += 1;
                words.set_copied(number, split.copied, false);
            }
        }
        self.finish_split_in(peer, i, words)
    }

    /// Ends a copy that the peer began, if both have done what they took.
    fn finish_split_in(&mut self, peer: u32, i: usize, words: &Words) -> Result<(), Hostile> {
        let split = &mut self.slots.links[peer as usize].split_in[i];
        let (place, number, all) = (split.place, split.number, split.cut.chunks());
        if split.failed {
            // Then nothing is left to the sender, for which the copies are not complete.
            words.take_rest(number, all);
            words.set_copied(number, FAILED, false);
        }
        let (copied, failed) = (split.copied > 0, split.failed);
        let (landed, bytes, since) = (split.landed, split.cut.bytes, split.since);
        let lent = split.is_lent();
        let theirs = lent && split.is_refused(words);
        let over = split.is_over(words);
        if copied || failed {
            self.ports[peer].bell.get().ring();
        }
        if failed || theirs {
            self.lend_no_more(peer);
        }
        if over && !failed {
            self.slots.links[peer as usize].split_in.swap_remove(i);
            if lent {
                self.measured(peer, bytes, trial::Way::Direct, since);
            }
            self.end_receive(place, peer, landed);
        } else if over || theirs {
            if words.seen(number) == Seen::Newer {
                // The sender doesn't begin another before it was asked for a stream in place of this.
                return Err(Hostile);
            }
            self.slots.links[peer as usize].split_in.swap_remove(i);
            self.ask_again(peer, place);
        } else if failed {
            self.slots.mark_busy(peer);
        }
        Ok(())
    }

    /// Asks for a stream in place of what the kernel would not copy.
    #[cold]
    fn ask_again(&mut self, peer: u32, place: Place) {
        let Some(target) = self.target_of(place) else {
            return;
        };
        if let Some((receive, side)) = self.slots.receive(place, peer) {
            receive.state = Receiving::Again;
            let generation = side.generation.get().into();
            self.control(peer, Kind::SlotAgain, [target, generation, 0, 0]);
        }
    }
}
