//! Messages out of mapped memory: copied where they lie.
//!
//! A message that is longer than a pipe and whose data lie in the sender's arena is not sent but *offered*, by its place. When the receiver has
//! matched it:
//! * if its own memory is mapped too, both sides copy ([`split`](crate::split)): the receiver begins at once at the front
//!   and asks the sender to join in from the back;
//! * otherwise the receiver copies alone and says that the message was matched;
//! * if the sender's memory can't be mapped here, it asks for the data as for any other message.
//!
//! So the receiver needs nobody to go on: a sender that computes meanwhile holds up nothing.
//!
//! Invariants: the messages of a peer are copied one after the other, so that there is one split copy at a time in each
//! direction of a pair; the receiver numbers them, and its words are in the lane by which the message came. A send stays
//! pending until nobody reads its data. Offsets and numbers that a peer names are checked before they are used.
//!
//! Who calls it: `progress`, for peers with such messages.

use std::collections::VecDeque;

use layout::Data;
use mtmi::{Outcome, Queues};

use crate::Shm;
use crate::lane::{WINDOW, drain};
use crate::ring::Hostile;
use crate::slots::SlotState;
use crate::split::{LAST, Seen, can_split, chunks, range};
use crate::state::{Sending, Sink};
use crate::wire::Kind;

/// Longest message out of mapped memory that is sent all the same: what fits into a pipe completes without its receiver.
pub(crate) const LONGEST_SENT: u64 = WINDOW as u64;
/// Chunks copied for one peer before others get their turn.
const TURN: u32 = 16;
/// Bytes that the receiver copies at a time where it copies alone.
const PART: u64 = 64 << 10;

/// Messages with a peer that are copied where they lie.
#[derive(Default)]
pub(crate) struct Copies {
    /// Those that come, in the order in which they were matched.
    pub inward: VecDeque<u64>,
    /// The first of them, if both sides copy it.
    split: Option<Split>,
    /// Number of the last split copy of a message that came.
    splits: u32,
    /// The message to the peer that both sides copy.
    joined: Option<Joined>,
}

/// What this process copied of a message that both sides copy.
#[derive(Clone, Copy)]
struct Split {
    number: u32,
    bytes: u64,
    /// Chunks that this side copied.
    copied: u32,
}

/// A message that goes, and both sides copy.
#[derive(Clone, Copy)]
struct Joined {
    send: u64,
    /// Where the receive's memory is in the peer's arena.
    offset: u64,
    split: Split,
}

impl Copies {
    pub fn is_empty(&self) -> bool {
        self.inward.is_empty() && self.joined.is_none()
    }
}

impl SlotState {
    /// Where data lie in this process's arena, if they are to be offered.
    pub fn mapped_at(&self, data: &Data) -> Option<u64> {
        let (buf, len) = data.contiguous()?;
        match len > LONGEST_SENT {
            true => self.arena.find(buf, len),
            false => None,
        }
    }
}

impl Shm {
    /// Moves on what is copied where it lies, of and for a peer. Returns whether anything moved.
    pub(crate) fn copy_mapped(&mut self, queues: &mut Queues, peer: u32) -> Result<bool, Hostile> {
        let mut moved = false;
        if self.peers[peer as usize].copies.joined.is_some() {
            moved |= self.copy_back(queues, peer);
        }
        if let Some(&id) = self.peers[peer as usize].copies.inward.front() {
            moved |= self.copy_front(queues, peer, id)?;
        }
        Ok(moved)
    }

    /// Whether `copy_mapped` would find something to do.
    pub(crate) fn copy_ready(&self, peer: u32) -> bool {
        let entry = &self.peers[peer as usize];
        let goes = entry.copies.joined.is_some_and(|joined| {
            let words = self.ports[peer].lane.split();
            let Split { number, bytes, .. } = joined.split;
            match words.seen(number) {
                Seen::Taken(front, back) => {
                    front + back < chunks(bytes) || words.has_copied(number, front, false)
                }
                Seen::Newer => true,
            }
        });
        let comes = !entry.copies.inward.is_empty()
            && entry.copies.split.is_none_or(|split| {
                let words = entry.inward.split();
                match words.seen(split.number) {
                    Seen::Taken(front, back) => {
                        front + back < chunks(split.bytes)
                            || words.has_copied(split.number, back, true)
                    }
                    Seen::Newer => true,
                }
            });
        goes || comes
    }

    /// The address of the data of an offered message.
    fn offered_at(&mut self, peer: u32, id: u64) -> Option<*const u8> {
        let message = self.announced.get(id)?;
        let (offset, len) = (message.offer?, message.expected);
        self.window(peer, offset, len).map(|at| at.cast_const())
    }

    /// The address of `len` bytes of a peer's arena.
    fn window(&mut self, peer: u32, offset: u64, len: u64) -> Option<*mut u8> {
        if self.slots.links.is_empty() {
            let peers = self.peers.len();
            self.slots.links.resize_with(peers, Default::default);
        }
        let rank = self.peers[peer as usize].slot;
        let area = self.slots.area.as_ref().ok()?;
        let windows = &mut self.slots.links[peer as usize].windows;
        windows.find(area, rank, offset, len)
    }

    /// Moves the first message of a peer on.
    fn copy_front(&mut self, queues: &mut Queues, peer: u32, id: u64) -> Result<bool, Hostile> {
        let Some(from) = self.offered_at(peer, id) else {
            return Ok(self.ask_for(peer, id));
        };
        let Some(message) = self.announced.get(id) else {
            return Err(Hostile);
        };
        let begun = self.peers[peer as usize].copies.split.is_some() || message.arrived > 0;
        if !begun {
            self.begin_split_message(peer, id);
        }
        match self.peers[peer as usize].copies.split {
            Some(split) => self.split_front(queues, peer, (id, from), split),
            None => Ok(self.copy_alone(queues, peer, (id, from))),
        }
    }

    /// The data of an offered message can't be mapped: asks for them, or waits until they can again.
    fn ask_for(&mut self, peer: u32, id: u64) -> bool {
        let Some(message) = self.announced.get(id) else {
            self.peers[peer as usize].copies.inward.pop_front();
            return true;
        };
        let entry = &mut self.peers[peer as usize];
        if entry.copies.split.is_some() || message.arrived > 0 {
            return false;
        }
        let (send, wanted) = (message.send, message.expected);
        message.offer = None;
        entry.due = entry.due.saturating_add(wanted);
        entry.copies.inward.pop_front();
        self.control(peer, Kind::Clear, [send, id, wanted, 0]);
        true
    }

    /// Has both sides copy a message, if it goes to mapped memory.
    fn begin_split_message(&mut self, peer: u32, id: u64) {
        let Some(message) = self.announced.get(id) else {
            return;
        };
        let (send, wanted) = (message.send, message.expected);
        let Sink::User { writer, .. } = &message.sink else {
            return;
        };
        let Some((to, _)) = writer.contiguous() else {
            return;
        };
        let Some(place) = self.slots.arena.find(to, wanted) else {
            return;
        };
        if !can_split(wanted) {
            return;
        }
        let entry = &mut self.peers[peer as usize];
        let number = entry.copies.splits.wrapping_add(1) & LAST;
        entry.copies.splits = number;
        entry.copies.split = Some(Split {
            number,
            bytes: wanted,
            copied: 0,
        });
        entry.inward.split().begin(number);
        self.control(peer, Kind::Join, [send, wanted, place, number.into()]);
    }

    /// Copies the next parts of a message.
    fn copy_alone(&mut self, queues: &mut Queues, peer: u32, (id, from): (u64, *const u8)) -> bool {
        let Some(message) = self.announced.get(id) else {
            return false;
        };
        for _ in 0..TURN {
            let n = (message.expected - message.arrived).min(PART) as usize;
            // SAFETY: `from` is a window of `expected` bytes, of which `arrived` were taken; its owner promised not to write
            // there until told, and if it does so all the same, bytes have no invalid values.
            let part = unsafe { std::slice::from_raw_parts(from.add(message.arrived as usize), n) };
            if let Sink::User { writer, .. } = &mut message.sink {
                drain(part, writer);
            }
            message.arrived += n as u64;
            if message.arrived == message.expected {
                break;
            }
        }
        if message.arrived == message.expected {
            let send = message.send;
            self.peers[peer as usize].copies.inward.pop_front();
            self.control(peer, Kind::Matched, [send, 0, 0, 0]);
            self.end_announced(queues, id);
        }
        true
    }

    /// Does this side's part of a message that comes, and ends it if the sender has done its own.
    fn split_front(
        &mut self,
        queues: &mut Queues,
        peer: u32,
        (id, from): (u64, *const u8),
        mut split: Split,
    ) -> Result<bool, Hostile> {
        let message = self.announced.get(id).ok_or(Hostile)?;
        let bytes = message.expected;
        let Sink::User { writer, .. } = &message.sink else {
            return Err(Hostile);
        };
        let (to, _) = writer.contiguous().ok_or(Hostile)?;
        let all = chunks(bytes);
        let entry = &mut self.peers[peer as usize];
        let (lane, before) = (entry.inward, split.copied);
        let words = lane.split();
        while split.copied < before + TURN
            && let Some(chunk) = words.take(split.number, all, false)
        {
            if chunk >= all {
                return Err(Hostile);
            }
            let (start, len) = range(chunk, bytes);
            // SAFETY: the chunk is inside the window and inside the receive's memory, both of at least `bytes` bytes;
            // nobody's buffer lies in a window.
            unsafe { sys::copy::copy(to.as_mut_ptr().add(start), from.add(start), len) };
            split.copied += 1;
            words.set_copied(split.number, split.copied, false);
        }
        entry.copies.split = Some(split);
        let moved = split.copied > before;
        if moved {
            self.ports[peer].bell.get().ring();
        }
        let over = match words.seen(split.number) {
            Seen::Taken(front, back) => {
                front + back >= all && words.has_copied(split.number, back, true)
            }
            // Only this process begins one.
            Seen::Newer => return Err(Hostile),
        };
        if over {
            message.arrived = bytes;
            entry.copies.split = None;
            entry.copies.inward.pop_front();
            self.end_announced(queues, id);
        }
        Ok(moved || over)
    }

    /// The receiver of an offered message asks for help with it.
    pub(crate) fn take_join(
        &mut self,
        queues: &mut Queues,
        peer: u32,
        [id, bytes, offset, number]: [u64; 4],
    ) -> Result<(), Hostile> {
        if self.peers[peer as usize].copies.joined.is_some() {
            // The receiver knows it to be over.
            self.copy_back(queues, peer);
        }
        let entry = &mut self.peers[peer as usize];
        let send = self.sends.get(id).ok_or(Hostile)?;
        let fits = bytes <= send.total && can_split(bytes) && number <= u64::from(LAST);
        let awaits = send.to == peer && send.offered && send.state == Sending::AwaitsClear;
        if !fits || !awaits || entry.copies.joined.is_some() {
            return Err(Hostile);
        }
        send.state = Sending::Splits;
        entry.copies.joined = Some(Joined {
            send: id,
            offset,
            split: Split {
                number: number as u32,
                bytes,
                copied: 0,
            },
        });
        self.mark_busy(peer);
        self.copy_back(queues, peer);
        Ok(())
    }

    /// Does this side's part of a message that goes, and ends it if the receiver has done its own. Returns whether anything
    /// moved.
    fn copy_back(&mut self, queues: &mut Queues, peer: u32) -> bool {
        let Some(mut joined) = self.peers[peer as usize].copies.joined else {
            return false;
        };
        // Where the receiver's memory can't be mapped, it does everything.
        let Split { number, bytes, .. } = joined.split;
        let to = self.window(peer, joined.offset, bytes);
        let from = self
            .sends
            .get(joined.send)
            .and_then(|s| s.data.contiguous());
        let all = chunks(bytes);
        let lane = self.ports[peer].lane;
        let (words, before) = (lane.split(), joined.split.copied);
        while joined.split.copied < before + TURN
            && let (Some(to), Some((from, _))) = (to, from)
            && let Some(taken) = words.take(number, all, true)
        {
            if taken >= all {
                self.suspect(peer);
                break;
            }
            let (start, len) = range(all - 1 - taken, bytes);
            // SAFETY: the chunk is inside the send's data and inside the window, both of at least `bytes` bytes; nobody's
            // buffer lies in a window.
            unsafe { sys::copy::copy(to.add(start), from.as_mut_ptr().add(start), len) };
            joined.split.copied += 1;
            words.set_copied(number, joined.split.copied, true);
        }
        let moved = joined.split.copied > before;
        if moved {
            self.ports[peer].bell.get().ring();
        }
        let over = match words.seen(number) {
            Seen::Taken(front, back) => {
                front + back >= all && words.has_copied(number, front, false)
            }
            Seen::Newer => true,
        };
        let left = &mut self.peers[peer as usize].copies.joined;
        *left = (!over).then_some(joined);
        if over {
            self.end_send(queues, joined.send, Outcome::Done);
        }
        moved || over
    }
}
