//! Out of the ring: messages from other processes, to their receives or to the unexpected queue.

use mtmi::{Context, Endpoint, Message, Outcome, Queues, Receive};

use crate::Shm;
use crate::early::Begun;
use crate::lane::{Lane, WINDOW, drain};
use crate::ring::{At, Hostile, Rx};
use crate::sheets;
use crate::state::{Announced, Offer, Sending, Sink};
use crate::wire::{Header, INLINE, Kind, LENT, SYNCHRONOUS, decode};

/// Messages taken from one ring before the next gets its turn.
const TURN: u32 = 64;
/// Bytes of a synchronous send's name, in front of its data.
const NAME: usize = 8;

/// What became of a message in the ring.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Taken {
    /// Its receive has it, or gets it.
    Matched,
    /// It is kept until there is one, or was none that has one.
    Else,
    /// Nothing: it would have to be kept, and another was matched before. Whoever waited for that may post this one's receive now, so that it is copied once
    /// and not twice.
    Left,
}

/// The receive that waits for a message.
fn receive_for(queues: &mut Queues, peer: u32, header: &Header) -> Option<Receive> {
    let (source, context) = (Endpoint(peer), Context(header.context));
    queues.posted.take(source, context, header.tag)
}

/// Keeps a message that no receive waits for.
fn keep(queues: &mut Queues, peer: u32, header: &Header, data: &[u8], synchronous: Option<u64>) {
    let (source, context) = (Endpoint(peer), Context(header.context));
    let body = queues.body(data);
    let message = Message::Whole { body, synchronous };
    queues
        .unexpected
        .arrive(source, context, header.tag, message);
}

impl Shm {
    /// Takes what is in the ring of sender number `slot`. Returns whether there was anything.
    #[inline]
    pub(crate) fn drain_ring(&mut self, queues: &mut Queues, slot: usize) -> bool {
        let peer = self.inward[slot];
        let lane = self.ports[peer].inward;
        let (mut moved, mut matched) = (false, false);
        for _ in 0..TURN {
            let number = self.ports[peer].rx.next();
            let Some(at) = Rx::find(&lane, number) else {
                break;
            };
            let header = match self.take_message(queues, peer, (lane, at), matched) {
                Ok((_, Taken::Left)) => break,
                Ok((header, taken)) => {
                    matched |= taken == Taken::Matched;
                    header
                }
                Err(Hostile) => {
                    moved = true;
                    self.suspect(peer);
                    break;
                }
            };
            moved = true;
            let port = &self.ports[peer];
            match header.len <= INLINE {
                true => port.consume(at, number),
                false => port.consume_lines(number, header.lines()),
            }
        }
        moved
    }

    /// Whether a message is in the ring of sender number `slot`.
    #[inline(always)]
    pub(crate) fn ring_ready(&self, slot: usize) -> bool {
        let port = &self.ports[self.inward[slot]];
        port.rx.ready(&port.inward)
    }

    /// Takes one message, unless it would have to be kept and `leaves` that be: its header.
    #[inline]
    fn take_message(
        &mut self,
        queues: &mut Queues,
        peer: u32,
        (lane, at): (Lane<{ sheets::ALL }>, At),
        leaves: bool,
    ) -> Result<(Header, Taken), Hostile> {
        let header = lane.read_header(at)?;
        let taken = if header.kind == Kind::Eager {
            if header.len > INLINE {
                self.ports[peer].prefetch_lines(header.lines());
            }
            let leaves = leaves && header.len > INLINE;
            self.take_eager(queues, peer, (lane, at), &header, leaves)
        } else if header.kind == Kind::Sheet {
            self.take_sheet(queues, peer, (lane, at), &header, leaves)?
        } else {
            self.take_other(queues, peer, (lane, at), &header, leaves)?
        };
        Ok((header, taken))
    }

    /// A message that lies in the ring or in lines.
    #[inline]
    fn take_eager(
        &mut self,
        queues: &mut Queues,
        peer: u32,
        (lane, at): (Lane<{ sheets::ALL }>, At),
        header: &Header,
        leaves: bool,
    ) -> Taken {
        let (source, context) = (Endpoint(peer), Context(header.context));
        let len = header.len as u64;
        if let Some(post) = queues.posted.take_at_once(source, context, header.tag, len) {
            match header.len <= INLINE {
                true => lane.read_inline(at, post.buf(), header.len),
                false => lane.read_lines(header.lines(), post.buf(), header.len),
            }
            post.finish(header.tag, len);
            return Taken::Matched;
        }
        let Some(receive) = queues.posted.take(source, context, header.tag) else {
            if leaves {
                return Taken::Left;
            }
            keep(queues, peer, header, lane.payload(at, header), None);
            return Taken::Else;
        };
        let capacity = receive.data.len();
        if header.len <= INLINE
            && let Some((buf, _)) = receive.data.contiguous()
        {
            lane.read_inline(at, buf, header.len.min(capacity as usize));
        } else {
            let mut writer = receive.data.writer();
            drain(lane.payload(at, header), &mut writer);
        }
        queues
            .done
            .push(receive.completion(source, header.tag, len));
        Taken::Matched
    }

    /// A message that lies in a sheet.
    #[inline]
    fn take_sheet(
        &mut self,
        queues: &mut Queues,
        peer: u32,
        (lane, at): (Lane<{ sheets::ALL }>, At),
        header: &Header,
        leaves: bool,
    ) -> Result<Taken, Hostile> {
        let sheet = self.ports[peer].sheet_of(at)?;
        let (source, context) = (Endpoint(peer), Context(header.context));
        let len = sheet.len() as u64;
        let mut taken = Taken::Matched;
        if let Some(post) = queues.posted.take_at_once(source, context, header.tag, len) {
            lane.read_sheet(sheet, post.buf());
            post.finish(header.tag, len);
        } else if let Some(receive) = queues.posted.take(source, context, header.tag) {
            drain(lane.sheet(sheet), &mut receive.data.writer());
            queues
                .done
                .push(receive.completion(source, header.tag, len));
        } else if leaves {
            return Ok(Taken::Left);
        } else {
            keep(queues, peer, header, lane.sheet(sheet), None);
            taken = Taken::Else;
        }
        self.ports[peer].sheets.keep(sheet);
        Ok(taken)
    }

    /// Any other message.
    fn take_other(
        &mut self,
        queues: &mut Queues,
        peer: u32,
        (lane, at): (Lane<{ sheets::ALL }>, At),
        header: &Header,
        leaves: bool,
    ) -> Result<Taken, Hostile> {
        let payload = lane.payload(at, header);
        match header.kind {
            Kind::Announce => {
                self.take_announcement(queues, peer, header, decode(payload)?, leaves)
            }
            Kind::Synchronous => self
                .take_synchronous(queues, peer, payload, header)
                .map(|()| Taken::Else),
            _ => self
                .take_words(queues, peer, header, decode(payload)?)
                .map(|()| Taken::Else),
        }
    }

    fn take_words(
        &mut self,
        queues: &mut Queues,
        peer: u32,
        header: &Header,
        words: [u64; 4],
    ) -> Result<(), Hostile> {
        match header.kind {
            Kind::Offer => self.take_offer(queues, peer, header, words, Offer::Mapped(words[2])),
            Kind::Lend => self.take_loan(queues, peer, header, words),
            Kind::Shelved => self.take_shelved(queues, peer, header, words),
            Kind::Join => self.take_join(queues, peer, words, Offer::Mapped(words[2])),
            Kind::Help => self.take_join(queues, peer, words, Offer::Own(words[2])),
            Kind::Introduce => {
                self.take_introduction(peer, words);
                Ok(())
            }
            Kind::Introduced => {
                self.take_introduced(peer, words);
                Ok(())
            }
            Kind::Clear => self.take_clear(queues, peer, words[0], words[1], words[2]),
            Kind::Matched => self.take_reply(queues, peer, words[0], Outcome::Done),
            Kind::Cancelled => self.take_reply(queues, peer, words[0], Outcome::Cancelled),
            Kind::Kept => Ok(()),
            Kind::Cancel => {
                self.take_cancel(queues, peer, words[0]);
                Ok(())
            }
            Kind::SlotStream => {
                self.take_slot_stream(peer, words[0], words[1]);
                Ok(())
            }
            Kind::SlotWithdraw => self.take_slot_withdraw(peer, words),
            Kind::SlotReturned => self.take_slot_returned(peer, words),
            Kind::SlotAgain => self.take_slot_again(peer, words[0], words[1]),
            Kind::Announce | Kind::Eager | Kind::Synchronous | Kind::Sheet => Err(Hostile),
        }
    }

    fn take_synchronous(
        &mut self,
        queues: &mut Queues,
        peer: u32,
        payload: &[u8],
        header: &Header,
    ) -> Result<(), Hostile> {
        let (name, data) = payload.split_first_chunk::<NAME>().ok_or(Hostile)?;
        let name = u64::from_ne_bytes(*name);
        let (source, context) = (Endpoint(peer), Context(header.context));
        match queues.posted.take(source, context, header.tag) {
            Some(receive) => {
                let mut writer = receive.data.writer();
                drain(data, &mut writer);
                let len = data.len() as u64;
                queues
                    .done
                    .push(receive.completion(source, header.tag, len));
                self.control(peer, Kind::Matched, [name, 0, 0, 0]);
            }
            None => keep(queues, peer, header, data, Some(name)),
        }
        Ok(())
    }

    /// A message whose data come through the pipe, those it has at once behind this.
    fn take_announcement(
        &mut self,
        queues: &mut Queues,
        peer: u32,
        header: &Header,
        [send, total, early, how]: [u64; 4],
        leaves: bool,
    ) -> Result<Taken, Hostile> {
        if early > total.min(WINDOW as u64) || total > i64::MAX as u64 {
            return Err(Hostile);
        }
        self.ports[peer].lane.prefetch_returned();
        let words = [send, total, early, how];
        let begun = match early < total || how != 0 || !self.comes_next(peer, total) {
            true => Begun::At(receive_for(queues, peer, header), 0),
            false => self.take_early(queues, peer, header, total),
        };
        let Begun::At(receive, arrived) = begun else {
            return Ok(Taken::Matched);
        };
        let taken = match receive {
            None if leaves && early > 0 => return Ok(Taken::Left),
            None => Taken::Else,
            Some(_) => Taken::Matched,
        };
        self.enter(queues, peer, header, words, None, (receive, arrived));
        Ok(taken)
    }

    /// A message of which the sender says where the data lie.
    fn take_offer(
        &mut self,
        queues: &mut Queues,
        peer: u32,
        header: &Header,
        [send, total, _, how]: [u64; 4],
        offer: Offer,
    ) -> Result<(), Hostile> {
        let words = [send, total, 0, how];
        self.take_long(queues, peer, header, words, Some(offer))
    }

    /// A message of which the sender says where in its own memory the data lie.
    fn take_loan(
        &mut self,
        queues: &mut Queues,
        peer: u32,
        header: &Header,
        words: [u64; 4],
    ) -> Result<(), Hostile> {
        if !self.may_lend(peer) {
            return Err(Hostile);
        }
        self.take_offer(queues, peer, header, words, Offer::Own(words[2]))
    }

    /// A message whose data don't come in the ring.
    fn take_long(
        &mut self,
        queues: &mut Queues,
        peer: u32,
        header: &Header,
        words: [u64; 4],
        offer: Option<Offer>,
    ) -> Result<(), Hostile> {
        if words[1] > i64::MAX as u64 {
            return Err(Hostile);
        }
        let receive = receive_for(queues, peer, header);
        self.enter(queues, peer, header, words, offer, (receive, 0));
        Ok(())
    }

    /// Enters such a message, of which `arrived` bytes are in its receive.
    fn enter(
        &mut self,
        queues: &mut Queues,
        peer: u32,
        header: &Header,
        [send, total, early, how]: [u64; 4],
        offer: Option<Offer>,
        (receive, arrived): (Option<Receive>, u64),
    ) {
        let matched = receive.is_some();
        let room = receive.as_ref().map(|r| r.data.len());
        let [synchronous, learns] = [how & SYNCHRONOUS != 0, how & LENT == 0];
        let since = (learns && self.measures(peer, total, room)).then(sys::clock::cycles);
        let exchanged = since.is_some() && self.is_exchanged(peer, total);
        let sink = match receive {
            Some(receive) => {
                let mut writer = receive.data.writer();
                writer.seek(arrived);
                Sink::User {
                    writer,
                    capacity: receive.data.len(),
                    cookie: receive.cookie,
                }
            }
            None => {
                let mut buffer = queues.buffer();
                buffer.reserve(early as usize);
                Sink::Heap(buffer)
            }
        };
        let id = self.announced.insert(Announced {
            from: peer,
            send,
            tag: header.tag,
            total,
            early,
            arrived,
            expected: early,
            synchronous,
            offer,
            shelved: None,
            since,
            exchanged,
            learns,
            past: false,
            sink,
        });
        if early > 0 {
            let entry = &mut self.peers[peer as usize];
            entry.early.push_back(id);
            entry.due = entry.due.saturating_add(early - arrived);
            self.mark_busy(peer);
        }
        if matched {
            self.accept(queues, id);
        } else {
            let lent = matches!(offer, Some(Offer::Own(_)));
            if lent && self.can_keep(peer, total, synchronous) {
                self.keep_later(peer, id);
            }
            let (source, context) = (Endpoint(peer), Context(header.context));
            queues
                .unexpected
                .arrive(source, context, header.tag, Message::Partial(id));
        }
    }

    /// An announced message was matched: asks for the rest of its data, or tells the sender, and
    /// ends it if nothing is to come.
    pub(crate) fn accept(&mut self, queues: &mut Queues, id: u64) {
        let Some(message) = self.announced.get(id) else {
            return;
        };
        let Sink::User {
            ref writer,
            capacity,
            ..
        } = message.sink
        else {
            return;
        };
        let (peer, send) = (message.from, message.send);
        if message.early < message.total {
            let wanted = message.total.min(capacity);
            if message.offer.is_some() && wanted > 0 {
                message.expected = wanted;
                self.peers[peer as usize].copies.take_up(id);
                self.mark_busy(peer);
                return;
            }
            let more = wanted.saturating_sub(message.early);
            message.expected = message.early + more;
            if message.total > WINDOW as u64
                && let Some((rest, _)) = writer.contiguous()
            {
                let at = rest.offset(-(writer.position() as i64));
                message.past = self.footprint.receives(at.addr() as u64, wanted);
            }
            let entry = &mut self.peers[peer as usize];
            entry.due = entry.due.saturating_add(more);
            self.mark_busy(peer);
            self.control(peer, Kind::Clear, [send, id, wanted, 0]);
        } else if message.synchronous {
            self.control(peer, Kind::Matched, [send, 0, 0, 0]);
        }
        self.end_announced(queues, id);
    }

    /// The receiver of an announced message asks for its data up to byte `wanted`.
    fn take_clear(
        &mut self,
        queues: &mut Queues,
        peer: u32,
        id: u64,
        target: u64,
        wanted: u64,
    ) -> Result<(), Hostile> {
        self.end_help(peer, id);
        let send = self.sends.get(id).ok_or(Hostile)?;
        if send.to != peer || send.state != Sending::AwaitsClear || wanted > send.total {
            return Err(Hostile);
        }
        if wanted <= send.sent {
            self.end_send(queues, id, Outcome::Done);
            return Ok(());
        }
        send.state = Sending::Streams {
            target,
            until: wanted,
        };
        self.peers[peer as usize].streams.push_back(id);
        self.mark_busy(peer);
        self.pump_streams(queues, peer);
        Ok(())
    }

    /// The receiver matched a synchronous send, or dropped a cancelled one.
    fn take_reply(
        &mut self,
        queues: &mut Queues,
        peer: u32,
        id: u64,
        outcome: Outcome,
    ) -> Result<(), Hostile> {
        let send = self.sends.get(id).ok_or(Hostile)?;
        let expected = match outcome {
            Outcome::Done => match send.state {
                Sending::AwaitsMatch => true,
                // The receiver has copied it.
                Sending::AwaitsClear => send.offered,
                _ => false,
            },
            _ => {
                send.cancelling && matches!(send.state, Sending::AwaitsMatch | Sending::AwaitsClear)
            }
        };
        if send.to != peer || !expected {
            return Err(Hostile);
        }
        self.end_send(queues, id, outcome);
        Ok(())
    }
}
