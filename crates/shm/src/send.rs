//! Sends: which way a message goes, and how it starts.

use layout::Data;
use mtmi::{Completion, Context, Outcome, Outgoing, SendMode, Submit};

use crate::Shm;
use crate::lane::WINDOW;
use crate::port::Port;
use crate::state::{Queued, Send, Sending};
use crate::wire::{EAGER, INLINE, Kind, LENT, SYNCHRONOUS, WORDS};

/// What trying to start a send led to.
pub(crate) enum Started {
    /// Nothing was done: the ring is full.
    NoRoom,
    /// Its message is out, it is not complete.
    Pending,
    /// It is complete and its entry gone.
    Complete(Completion),
}

/// Bytes of a send's name.
const NAME: usize = 8;

/// The last word of an announcement.
fn how(mode: SendMode) -> u64 {
    match mode {
        SendMode::Standard | SendMode::Ready => 0,
        SendMode::Synchronous => SYNCHRONOUS,
        SendMode::Lent => LENT,
    }
}

impl Shm {
    /// Sends to another process.
    #[inline]
    pub(crate) fn start_send(&mut self, message: Outgoing) -> Submit {
        let Outgoing {
            to,
            context,
            tag,
            mode,
            data,
            cookie,
        } = message;
        let total = data.len();
        let mut completion = Completion {
            cookie,
            source: to,
            tag,
            bytes: total,
            outcome: Outcome::Done,
        };
        if mode != SendMode::Synchronous && self.send_sheet(to.0, (context, tag), &data) {
            return Submit::Complete(completion);
        }
        if mode != SendMode::Synchronous && total <= EAGER as u64 {
            if self.send_short(to.0, (context, tag), &data) {
                return Submit::Complete(completion);
            }
            let queue = self.peers.get(to.index()).map(|p| &p.queue);
            if queue.is_some_and(|q| q.is_empty()) && self.room(to.0, total as usize) {
                self.push_data(to.0, (Kind::Eager, context, tag), &[], &data);
                return Submit::Complete(completion);
            }
        }
        if self.peers.get(to.index()).is_none_or(|p| p.failed) {
            completion.bytes = 0;
            completion.outcome = Outcome::PeerFailed;
            return Submit::Complete(completion);
        }
        let id = self.sends.insert(Send {
            cookie,
            to: to.0,
            context,
            tag,
            mode,
            total,
            sent: 0,
            chunk: 0,
            data,
            reader: None,
            state: Sending::Queued,
            cancelling: false,
            offered: false,
        });
        if self.peers[to.index()].queue.is_empty() {
            match self.start(id) {
                Started::Complete(completion) => return Submit::Complete(completion),
                Started::Pending => return Submit::Pending,
                Started::NoRoom => {}
            }
        }
        self.enqueue(to.0, Queued::Send(id));
        Submit::Pending
    }

    /// Sends a message in a sheet, if it is one for that and there is one. Where others wait for room the port is shut.
    #[inline]
    fn send_sheet(&self, to: u32, address: (Context, i32), data: &Data) -> bool {
        let total = data.len();
        if total <= INLINE as u64 || total > Port::LONGEST as u64 {
            return false;
        }
        let (Some((buf, _)), Some(port)) = (data.contiguous(), self.ports.all().get(to as usize))
        else {
            return false;
        };
        let len = total as usize;
        port.has_sheet_for(len) && port.send_sheet(address, buf, len, || true).is_some()
    }

    /// Sends a message of up to [`EAGER`] bytes in a cell, with lines of its own if it is longer, if it has no gaps and there is room. Where others
    /// wait for room the port is shut.
    #[inline]
    fn send_short(&self, to: u32, (context, tag): (Context, i32), data: &Data) -> bool {
        let len = data.len() as usize;
        match (data.contiguous(), self.ports.all().get(to as usize)) {
            (Some((buf, _)), Some(port)) if len <= INLINE => port.send(context, tag, buf, len),
            (Some((buf, _)), Some(port)) => {
                let sent = port.send_lines((context, tag), buf, len, || true);
                sent.is_some()
            }
            _ => false,
        }
    }

    /// Sends a message that needs no entry: one in standard mode that goes into the ring, a sheet or the pipe as a whole.
    pub(crate) fn send_whole(&mut self, message: &Outgoing) -> bool {
        let (to, total) = (message.to.0, message.data.len());
        let address = (message.context, message.tag);
        let Some(peer) = self.peers.get(to as usize) else {
            return false;
        };
        if total > WINDOW as u64 || !peer.queue.is_empty() {
            return false;
        }
        if self.send_sheet(to, address, &message.data) {
            return true;
        }
        if total <= EAGER as u64 {
            if self.send_short(to, address, &message.data) {
                return true;
            }
            let room = self.room(to, total as usize);
            if room {
                self.push_data(to, (Kind::Eager, address.0, address.1), &[], &message.data);
            }
            return room;
        }
        self.introduce(to, total);
        if !self.room(to, WORDS)
            || self.lent_at(to, &message.data, message.mode).is_some()
            || !self.begin_early(to, total)
        {
            return false;
        }
        self.count_sent(to, total, message.mode);
        // Nobody will ask for more of it, so it has no name.
        let words = [u64::MAX, total, total, 0];
        self.push_words_unrung(to, (Kind::Announce, address.0, address.1), words);
        let mut reader = message.data.reader();
        self.push_early(to, &mut reader, total, total);
        self.own_ahead(to, total);
        true
    }

    /// Puts the first message of a send into the ring, if there is room.
    pub(crate) fn start(&mut self, id: u64) -> Started {
        let Some(send) = self.sends.get(id) else {
            // Its entry went with a cancel; there is nothing to wait for.
            return Started::Pending;
        };
        let (to, total) = (send.to, send.total);
        let address = (send.context, send.tag);
        let synchronous = send.mode == SendMode::Synchronous;
        let front = if synchronous { NAME } else { 0 };
        if total > (EAGER - front) as u64 {
            return self.announce(id, to);
        }
        if !self.room(to, front + total as usize) {
            return Started::NoRoom;
        }
        if synchronous {
            let Some(send) = self.sends.get(id) else {
                return Started::Pending;
            };
            send.state = Sending::AwaitsMatch;
            let data = send.data.clone();
            let kind = (Kind::Synchronous, address.0, address.1);
            self.push_data(to, kind, &id.to_ne_bytes(), &data);
            return Started::Pending;
        }
        match self.sends.remove(id) {
            Some(send) => {
                let kind = (Kind::Eager, address.0, address.1);
                self.push_data(to, kind, &[], &send.data);
                Started::Complete(send.completion(Outcome::Done))
            }
            None => Started::Pending,
        }
    }

    /// Announces a message whose data stay where they lie. False: they don't.
    fn announce_in_place(&mut self, id: u64, to: u32) -> bool {
        let Some(send) = self.sends.get(id) else {
            return false;
        };
        let (data, total, address) = (send.data.clone(), send.total, (send.context, send.tag));
        let mode = send.mode;
        let (kind, at) = match self.slots.mapped_at(&data) {
            Some(offset) => (Kind::Offer, offset),
            None => match self.lent_at(to, &data, mode) {
                Some(at) => (Kind::Lend, at),
                None => return false,
            },
        };
        if let Some(send) = self.sends.get(id) {
            send.state = Sending::AwaitsClear;
            send.offered = true;
        }
        if kind == Kind::Lend {
            self.has_lent(to, id);
            self.count_sent(to, total, mode);
        }
        self.push_words(to, (kind, address.0, address.1), [id, total, at, how(mode)]);
        true
    }

    /// Announces a long message; what there is room for in the pipe goes at once, and what lies in mapped memory stays there.
    fn announce(&mut self, id: u64, to: u32) -> Started {
        let total = self.sends.get(id).map_or(0, |send| send.total);
        self.introduce(to, total);
        if !self.room(to, WORDS) {
            return Started::NoRoom;
        }
        if self.announce_in_place(id, to) {
            return Started::Pending;
        }
        let early = match total.min(WINDOW as u64) {
            early if self.begin_early(to, early) => early,
            _ => 0,
        };
        let Some(send) = self.sends.get(id) else {
            return Started::Pending;
        };
        let (mode, synchronous) = (send.mode, send.mode == SendMode::Synchronous);
        let kind = (Kind::Announce, send.context, send.tag);
        let words = [id, send.total, early, how(send.mode)];
        let whole = early == send.total;
        send.state = match whole {
            true => Sending::AwaitsMatch,
            false => Sending::AwaitsClear,
        };
        let mut reader = send.data.reader();
        send.sent = early;
        // First the announcement: the receiver can match while the first chunk is copied.
        self.push_words_unrung(to, kind, words);
        self.push_early(to, &mut reader, early, total);
        if let Some(send) = self.sends.get(id) {
            send.reader = Some(reader);
        }
        self.count_sent(to, total, mode);
        if whole {
            self.own_ahead(to, early);
        }
        if whole && !synchronous {
            match self.sends.remove(id) {
                Some(send) => Started::Complete(send.completion(Outcome::Done)),
                None => Started::Pending,
            }
        } else {
            Started::Pending
        }
    }
}
