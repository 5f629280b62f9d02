//! Messages whose data stay where they lie: in mapped memory, or in the sender's own ([`direct`](crate::direct)), and are copied there.
//!
//! A message that is longer than a pipe and whose data lie in the sender's arena is not sent but *offered*, by its place. When the receiver has
//! matched it:
//! * if its own memory is mapped too, both sides copy ([`split`](crate::split)): the receiver begins at once at the front
//!   and asks the sender to join in from the back;
//! * otherwise the receiver copies alone and says that the message was matched;
//! * if the sender's memory can't be mapped here, it asks for the data as for any other message. (If it could at first, and
//!   both copy, the sender does the rest.)
//!
//! A message that is *lent* goes the same ways, but that the kernel copies from one's own memory to the other's: the sender can always help.
//! Where ranks share processors the receiver reads alone, a chunk each time it is its [turn](crate::turns).
//! Where the system refuses a copy to either, the receiver takes what is left, so that the sender writes no more, and
//! asks for the data through the pipe as soon as the sender has done with what it took.
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
use crate::direct::{self, There};
use crate::lane::{WINDOW, drain};
use crate::ring::Hostile;
use crate::slots::SlotState;
use crate::split::{self, Cut, FAILED, LAST, Seen, Words};
use crate::state::{Offer, Sending, Sink};
use crate::turns::{self, TURNS_FROM, Waiting};
use crate::wire::Kind;

/// Longest message out of mapped memory that is sent all the same: what fits into a pipe completes without its receiver.
pub(crate) const LONGEST_SENT: u64 = WINDOW as u64;
/// Chunks copied for one peer before others get their turn.
const TURN: u32 = 16;
/// Bytes that the receiver copies at a time where it copies alone.
const PART: u64 = 64 << 10;
/// Cycles before a short loan is kept that no receive waits for: five to eight microseconds. A receive that is posted within them takes it where it is, with
/// one copy in place of two.
pub(crate) const KEPT_AFTER: u64 = 1 << 14;

/// Messages with a peer that are copied where they lie.
#[derive(Default)]
pub(crate) struct Copies {
    /// Those that come, in the order in which they were matched.
    inward: VecDeque<u64>,
    /// Short loans that came before their receives, and when, in cycles.
    unmatched: VecDeque<(u64, u64)>,
    /// The first of them, if both sides copy it.
    split: Option<Split>,
    /// Number of the last split copy of a message that came.
    splits: u32,
    /// The message to the peer that both sides copy.
    joined: Option<Joined>,
    /// For turns to read the peer's memory, in the first message.
    waiting: Waiting,
}

/// What this process copied of a message that both sides copy.
#[derive(Clone, Copy)]
struct Split {
    number: u32,
    cut: Cut,
    /// Chunks that this side copied.
    copied: u32,
    /// Whether it could map the other side's memory at the last look; else that does everything.
    helps: bool,
    /// Whether the system refused it a copy.
    failed: bool,
}

/// A message that goes, and both sides copy.
#[derive(Clone, Copy)]
struct Joined {
    send: u64,
    /// Where the receive's memory is.
    place: Offer,
    split: Split,
}

#[cfg(all(test, not(loom)))]
impl Copies {
    /// How many messages from the peer both sides have copied.
    pub fn splits(&self) -> u32 {
        self.splits
    }
}

impl Copies {
    /// A message was matched: it is copied behind those that were before.
    pub fn take_up(&mut self, id: u64) {
        if let Some(i) = self.unmatched.iter().position(|&(other, _)| other == id) {
            self.unmatched.remove(i);
        }
        self.inward.push_back(id);
    }

    /// The first message needs no more copies.
    fn drop_first(&mut self) {
        self.inward.pop_front();
        self.waiting = Waiting::default();
    }

    /// The system has refused a copy: none is kept any more.
    pub fn keep_none(&mut self) {
        self.unmatched.clear();
    }

    pub fn is_empty(&self) -> bool {
        self.inward.is_empty() && self.joined.is_none() && self.unmatched.is_empty()
    }
}

impl Split {
    /// Whether nothing is left to take, and the other side (`back`: the sender) has copied what it took.
    fn is_over(&self, words: &Words, back: bool) -> bool {
        match words.seen(self.number) {
            Seen::Taken(front, rear) => {
                let theirs = if back { rear } else { front };
                front + rear >= self.cut.chunks() && words.has_copied(self.number, theirs, back)
            }
            Seen::Newer => true,
        }
    }

    /// The same for the sender, which was refused no copy.
    fn has_ended(&self, words: &Words) -> bool {
        !self.failed && self.is_over(words, false)
    }

    /// Whether a chunk is left to take.
    fn has_more(&self, words: &Words) -> bool {
        match words.seen(self.number) {
            Seen::Taken(front, rear) => front + rear < self.cut.chunks(),
            Seen::Newer => false,
        }
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
        let copies = &self.peers[peer as usize].copies;
        let waits_for_turn = copies.split.is_none() && !copies.inward.is_empty();
        if !moved && !waits_for_turn && !copies.unmatched.is_empty() {
            moved = self.keep_late(peer);
        }
        Ok(moved)
    }

    /// A loan came before its receive: it is kept unless that is posted soon.
    pub(crate) fn keep_later(&mut self, peer: u32, id: u64) {
        let copies = &mut self.peers[peer as usize].copies;
        copies.unmatched.push_back((id, sys::clock::cycles()));
        self.mark_busy(peer);
    }

    /// Nothing else of this peer is to be copied: keeps those of its loans that no receive waits for and that have been here for a while. Whether there were any.
    fn keep_late(&mut self, peer: u32) -> bool {
        // Who shares a processor with the sender can't wait for a while without keeping it waiting for longer.
        let after = match self.mover.is_some() {
            true => self.kept_after,
            false => 0,
        };
        let mut moved = false;
        while let Some(&(id, since)) = self.peers[peer as usize].copies.unmatched.front()
            && direct::cycles_since(since) >= after
        {
            self.peers[peer as usize].copies.unmatched.pop_front();
            moved |= self.keep_loan(peer, id);
        }
        moved
    }

    /// Whether `copy_mapped` would find something to do.
    pub(crate) fn copy_ready(&self, peer: u32) -> bool {
        let entry = &self.peers[peer as usize];
        let goes = entry.copies.joined.is_some_and(|joined| {
            let (words, split) = (self.ports[peer].lane.split(), joined.split);
            (split.helps && split.has_more(words)) || split.has_ended(words)
        });
        let unmatched = !entry.copies.unmatched.is_empty();
        let comes = !entry.copies.inward.is_empty()
            && entry.copies.split.is_none_or(|split| {
                let words = entry.inward.split();
                (split.helps && split.has_more(words))
                    || split.is_over(words, true)
                    || words.has_copied(split.number, FAILED, true)
            });
        goes || comes || unmatched
    }

    /// The data of an offered message.
    fn offered_at(&mut self, peer: u32, id: u64) -> Option<There> {
        let message = self.announced.get(id)?;
        let (offer, len) = (message.offer?, message.expected);
        self.there(peer, offer, len)
    }

    /// `len` bytes of a peer's.
    pub(crate) fn there(&mut self, peer: u32, offer: Offer, len: u64) -> Option<There> {
        match offer {
            Offer::Mapped(offset) => self.window(peer, offset, len).map(There::Window),
            Offer::Own(at) => self.own_memory(peer, at),
        }
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
        let begun = self.peers[peer as usize].copies.split;
        if let Some(split) = begun {
            return self.split_front(queues, peer, id, split);
        }
        let Some(from) = self.offered_at(peer, id) else {
            return Ok(self.ask_for(peer, id));
        };
        match self.begin_split_message(peer, id) {
            Some(split) => self.split_front(queues, peer, id, split),
            None => Ok(match from {
                There::Window(from) => self.copy_alone(queues, peer, (id, from)),
                There::Process(..) => self.read_alone(queues, peer, (id, from)),
            }),
        }
    }

    /// The data of an offered message can't be had where they lie, or not any more: asks for all of them.
    fn ask_for(&mut self, peer: u32, id: u64) -> bool {
        let entry = &mut self.peers[peer as usize];
        entry.copies.drop_first();
        let Some(message) = self.announced.get(id) else {
            return true;
        };
        let (send, wanted) = (message.send, message.expected);
        (message.offer, message.since) = (None, None);
        message.arrived = 0;
        if let Sink::User { writer, .. } = &mut message.sink {
            writer.seek(0);
        }
        entry.due = entry.due.saturating_add(wanted);
        self.control(peer, Kind::Clear, [send, id, wanted, 0]);
        true
    }

    /// Has both sides copy a message of which nothing was copied yet, if both get at the other's memory.
    fn begin_split_message(&mut self, peer: u32, id: u64) -> Option<Split> {
        if self.is_refused(peer) {
            // A sender that is asked late for its part of one that failed would take it for complete if a newer had begun.
            return None;
        }
        let message = self.announced.get(id)?;
        let (send, wanted) = (message.send, message.expected);
        let Sink::User { writer, .. } = &message.sink else {
            return None;
        };
        let (to, _) = writer.contiguous()?;
        let (offer, begun) = (message.offer?, message.arrived > 0);
        let (kind, place, cut) = match offer {
            Offer::Mapped(_) => {
                let place = self.slots.arena.find(to, wanted)?;
                (Kind::Join, place, split::cut(wanted))
            }
            Offer::Own(_) => (Kind::Help, to.addr() as u64, direct::cut(wanted)),
        };
        if begun || !cut.fits() {
            return None;
        }
        // Who shares a processor with the sender would wait for it, and in an exchange each has a message of its own to read.
        let lent = matches!(offer, Offer::Own(_));
        if lent && (self.mover.is_none() || self.reads_alone(peer, wanted)) {
            return None;
        }
        let entry = &mut self.peers[peer as usize];
        let number = entry.copies.splits.wrapping_add(1) & LAST;
        let split = Split {
            number,
            cut,
            copied: 0,
            helps: true,
            failed: false,
        };
        entry.copies.splits = number;
        entry.copies.split = Some(split);
        entry.inward.split().begin(number);
        self.control(peer, kind, [send, wanted, place, number.into()]);
        Some(split)
    }

    /// Copies the next parts of a message.
    fn copy_alone(&mut self, queues: &mut Queues, peer: u32, (id, from): (u64, *mut u8)) -> bool {
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
            self.end_alone(queues, peer, id);
        }
        true
    }

    /// Reads the next part of a message that is lent.
    fn read_alone(&mut self, queues: &mut Queues, peer: u32, (id, from): (u64, There)) -> bool {
        let Some(message) = self.announced.get(id) else {
            return false;
        };
        let Sink::User { writer, .. } = &mut message.sink else {
            return false;
        };
        let (done, left) = (message.arrived, message.expected - message.arrived);
        let Some((to, _)) = writer.contiguous().filter(|&(_, run)| run >= left) else {
            // Its memory has gaps.
            let (total, learns) = (message.total, message.learns);
            if learns {
                self.decline(peer, total);
            }
            return self.ask_for(peer, id);
        };
        let n = left.min(direct::CHUNK);
        let entry = &mut self.peers[peer as usize];
        let shared = self.mover.is_none() && message.total >= TURNS_FROM;
        let turn = shared.then(|| self.segment.turn(entry.slot));
        let (local, total) = (self.local, message.total);
        let waiting = &mut entry.copies.waiting;
        if turn.is_some_and(|word| !waiting.may_read(word, local, total, sys::clock::cycles())) {
            return false;
        }
        let read = from.read(done as usize, to, n as usize);
        if let Some(word) = turn {
            if n < left {
                waiting.give_way(word, local, total, sys::clock::cycles());
            }
            turns::end(word, local);
        }
        if !read {
            self.lend_no_more(peer);
            return self.ask_for(peer, id);
        }
        writer.seek(done + n);
        message.arrived += n;
        if n == left {
            self.end_alone(queues, peer, id);
        }
        true
    }

    /// Ends a message that this process has copied alone.
    fn end_alone(&mut self, queues: &mut Queues, peer: u32, id: u64) {
        if let Some(message) = self.announced.get(id) {
            let send = message.send;
            self.peers[peer as usize].copies.drop_first();
            self.control(peer, Kind::Matched, [send, 0, 0, 0]);
            self.end_announced(queues, id);
        }
    }

    /// Does this side's part of a message that comes, and ends it if the sender has done its own.
    fn split_front(
        &mut self,
        queues: &mut Queues,
        peer: u32,
        id: u64,
        mut split: Split,
    ) -> Result<bool, Hostile> {
        let lane = self.peers[peer as usize].inward;
        let words = lane.split();
        let more = split.has_more(words);
        let from = if more {
            self.offered_at(peer, id)
        } else {
            None
        };
        split.helps = !more || from.is_some();
        let offer = self.announced.get(id).and_then(|m| m.offer);
        let lent = matches!(offer, Some(Offer::Own(_)));
        // Other loans were refused meanwhile.
        split.failed |= lent && !split.helps;
        let turn = if lent { 1 } else { TURN };
        let message = self.announced.get(id).ok_or(Hostile)?;
        let Sink::User { writer, .. } = &message.sink else {
            return Err(Hostile);
        };
        let (to, _) = writer.contiguous().ok_or(Hostile)?;
        let (all, before) = (split.cut.chunks(), split.copied);
        while let Some(from) = from
            && split.copied < all.min(before + turn)
            && let Some(chunk) = words.take(split.number, all, false)
        {
            if chunk >= all {
                return Err(Hostile);
            }
            let (start, len) = split.cut.range(chunk);
            // Receive and offer have at least as many bytes as were cut.
            if !from.read(start, to.offset(start as i64), len) {
                split.failed = true;
                break;
            }
            split.copied += 1;
            words.set_copied(split.number, split.copied, false);
        }
        // Then nothing is left to the sender, and the copies are not complete for it.
        if split.failed {
            words.take_rest(split.number, all);
        }
        let copies = &mut self.peers[peer as usize].copies;
        copies.split = Some(split);
        let moved = split.copied > before;
        if moved {
            self.ports[peer].bell.get().ring();
        }
        if words.seen(split.number) == Seen::Newer {
            // Only this process begins one.
            return Err(Hostile);
        }
        let refused = words.has_copied(split.number, FAILED, true);
        let over = split.is_over(words, true) || refused;
        if over {
            copies.split = None;
            if split.failed || refused {
                self.lend_no_more(peer);
                return Ok(self.ask_for(peer, id));
            }
            message.arrived = split.cut.bytes;
            copies.drop_first();
            self.end_announced(queues, id);
        }
        Ok(moved || over)
    }

    /// A sender is gone: what it did of the message that both sides copied counts.
    pub(crate) fn end_split_of_gone(&mut self, queues: &mut Queues, peer: u32) {
        let copies = &self.peers[peer as usize].copies;
        if let (Some(split), Some(&id)) = (copies.split, copies.inward.front()) {
            // If it is not over, or the peer did something wrong, the message fails with the peer.
            let _ = self.split_front(queues, peer, id, split);
        }
    }

    /// The receiver of an offered message asks for help with it.
    pub(crate) fn take_join(
        &mut self,
        queues: &mut Queues,
        peer: u32,
        [id, bytes, _, number]: [u64; 4],
        place: Offer,
    ) -> Result<(), Hostile> {
        if self.peers[peer as usize].copies.joined.is_some() {
            // The receiver knows it to be over.
            self.copy_back(queues, peer);
        }
        let entry = &mut self.peers[peer as usize];
        let send = self.sends.get(id).ok_or(Hostile)?;
        let cut = match place {
            Offer::Mapped(_) => split::cut(bytes),
            Offer::Own(_) => direct::cut(bytes),
        };
        let fits = bytes <= send.total && cut.fits() && number <= u64::from(LAST);
        let awaits = send.to == peer && send.offered && send.state == Sending::AwaitsClear;
        if !fits || !awaits || entry.copies.joined.is_some() {
            return Err(Hostile);
        }
        send.state = Sending::Splits;
        entry.copies.joined = Some(Joined {
            send: id,
            place,
            split: Split {
                number: number as u32,
                cut,
                copied: 0,
                helps: true,
                failed: false,
            },
        });
        self.mark_busy(peer);
        self.copy_back(queues, peer);
        Ok(())
    }

    /// The receiver of a message that both sides copy asks for the data after all.
    pub(crate) fn end_help(&mut self, peer: u32, id: u64) {
        let joined = &mut self.peers[peer as usize].copies.joined;
        let lent = |j: &Joined| j.send == id && matches!(j.place, Offer::Own(_));
        if joined.as_ref().is_some_and(lent)
            && let Some(send) = self.sends.get(id)
        {
            *joined = None;
            send.state = Sending::AwaitsClear;
        }
    }

    /// Does this side's part of a message that goes, and ends it if the receiver has done its own. Returns whether anything
    /// moved.
    fn copy_back(&mut self, queues: &mut Queues, peer: u32) -> bool {
        let Some(mut joined) = self.peers[peer as usize].copies.joined else {
            return false;
        };
        let lane = self.ports[peer].lane;
        let (words, split) = (lane.split(), &mut joined.split);
        // Where nothing is left to do, the receiver may have given its memory back.
        let more = split.has_more(words) && !split.failed;
        let to = match more {
            true => self.there(peer, joined.place, split.cut.bytes),
            false => None,
        };
        split.helps = !split.failed && (!more || to.is_some());
        let send = self.sends.get(joined.send);
        let from = send.and_then(|s| s.data.contiguous());
        let (all, before) = (split.cut.chunks(), split.copied);
        let turn = match joined.place {
            Offer::Mapped(_) => TURN,
            Offer::Own(_) => 1,
        };
        while let (Some(to), Some((from, _))) = (to, from)
            && split.copied < all.min(before + turn)
            && let Some(taken) = words.take(split.number, all, true)
        {
            if taken >= all {
                self.suspect(peer);
                break;
            }
            let (start, len) = split.cut.range(all - 1 - taken);
            // The send's data and the receive's memory have at least as many bytes as were cut.
            if !to.write(start, from.offset(start as i64), len) {
                (split.failed, split.helps) = (true, false);
                words.set_copied(split.number, FAILED, true);
                break;
            }
            split.copied += 1;
            words.set_copied(split.number, split.copied, true);
        }
        let moved = split.copied > before || (split.failed && more);
        if moved {
            self.ports[peer].bell.get().ring();
        }
        let over = split.has_ended(words);
        let left = &mut self.peers[peer as usize].copies.joined;
        *left = (!over).then_some(joined);
        if over {
            self.end_send(queues, joined.send, Outcome::Done);
        }
        moved || over
    }
}
