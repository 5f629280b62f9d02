//! What comes from a peer: frames out of a stream of bytes that is cut anywhere, and their bodies to where they belong.

use boundary::UserBuf;
use mtmi::{Body as Kept, Context, Endpoint, Message, Outcome, Queues, Receive};

use crate::frame::{Announced, Frame, HEADER, Hostile, REPORT};
use crate::protocol::{Arriving, Body, Protocol, Sink};

/// Bodies from here on are read to where they belong; a shorter one is copied out of what was read with it.
const DIRECT: usize = 4 << 10;

impl Protocol {
    /// Takes all of `bytes`, which came from `peer`.
    pub fn feed(
        &mut self,
        queues: &mut Queues,
        peer: u32,
        mut bytes: &[u8],
    ) -> Result<(), Hostile> {
        while !bytes.is_empty() {
            let link = &mut self.links[peer as usize];
            if link.body_left > 0 {
                let (now, later) = bytes.split_at(bytes.len().min(link.body_left));
                self.body(queues, peer, now);
                bytes = later;
                continue;
            }
            let header = match bytes.split_first_chunk::<HEADER>() {
                Some((header, later)) if link.header_len == 0 => {
                    bytes = later;
                    *header
                }
                _ => {
                    let n = bytes.len().min(HEADER - link.header_len);
                    let (now, later) = bytes.split_at(n);
                    link.header[link.header_len..][..n].copy_from_slice(now);
                    link.header_len += n;
                    bytes = later;
                    if link.header_len < HEADER {
                        return Ok(());
                    }
                    link.header_len = 0;
                    link.header
                }
            };
            if link.bye {
                return Err(Hostile("more after its goodbye"));
            }
            match Frame::decode(&header)? {
                Frame::Message(m) => bytes = self.message(queues, peer, m, bytes)?,
                frame => self.control_frame(queues, peer, frame)?,
            }
        }
        Ok(())
    }

    /// Where the next bytes of a long body should be read to, and how many.
    #[inline]
    pub fn direct(&mut self, peer: u32) -> Option<(UserBuf, usize)> {
        let link = &self.links[peer as usize];
        if link.body_left < DIRECT {
            return None;
        }
        let writer = match &link.body {
            Body::Matched { writer, .. } | Body::Slot { writer, .. } => writer,
            Body::Part(id) => match &self.arriving.get(*id)?.sink {
                Sink::User { writer, .. } => writer,
                Sink::Heap(_) => return None,
            },
            _ => return None,
        };
        let (buf, room) = writer.contiguous()?;
        let n = room.min(link.body_left as u64) as usize;
        (n >= DIRECT).then_some((buf, n))
    }

    /// `n` bytes came to where `direct` said.
    pub fn arrived(&mut self, queues: &mut Queues, peer: u32, n: usize) {
        let link = &mut self.links[peer as usize];
        let n = n.min(link.body_left);
        match &mut link.body {
            Body::Matched { writer, .. } | Body::Slot { writer, .. } => {
                writer.seek(writer.position() + n as u64);
            }
            Body::Part(id) => {
                if let Some(message) = self.arriving.get(*id) {
                    message.arrived += n as u64;
                    if let Sink::User { writer, .. } = &mut message.sink {
                        writer.seek(writer.position() + n as u64);
                    }
                }
            }
            Body::None | Body::Kept { .. } => {}
        }
        link.body_left -= n;
        if link.body_left == 0 {
            self.end_body(queues, peer);
        }
    }

    /// Takes the next bytes of a body.
    fn body(&mut self, queues: &mut Queues, peer: u32, bytes: &[u8]) {
        let link = &mut self.links[peer as usize];
        match &mut link.body {
            Body::Matched { writer, .. } | Body::Slot { writer, .. } => {
                writer.write(bytes);
            }
            Body::Kept { buffer, .. } => buffer.extend_from_slice(bytes),
            Body::Part(id) => {
                // An entry that is gone was ended by a failure above: nobody wants its bytes.
                if let Some(message) = self.arriving.get(*id) {
                    message.arrived += bytes.len() as u64;
                    match &mut message.sink {
                        Sink::Heap(buffer) => buffer.extend_from_slice(bytes),
                        Sink::User { writer, .. } => {
                            writer.write(bytes);
                        }
                    }
                }
            }
            Body::None => {}
        }
        link.body_left -= bytes.len();
        if link.body_left == 0 {
            self.end_body(queues, peer);
        }
    }

    /// All of a body has come.
    fn end_body(&mut self, queues: &mut Queues, peer: u32) {
        let link = &mut self.links[peer as usize];
        match std::mem::replace(&mut link.body, Body::None) {
            Body::None => {}
            Body::Matched {
                receive,
                tag,
                total,
                synchronous,
                ..
            } => {
                let end = receive.completion(Endpoint(peer), tag, total);
                queues.done.push(end);
                self.taken(peer, total, synchronous);
            }
            Body::Kept {
                buffer,
                tag,
                context,
                synchronous,
            } => self.arrive_whole(queues, peer, (context, tag), buffer, synchronous),
            Body::Part(id) => self.end_part(queues, id),
            Body::Slot { place, writer } => {
                self.slots.arrived(peer, place, writer.position());
            }
        }
    }

    /// A message that came whole in pieces. A receive may have been posted meanwhile.
    fn arrive_whole(
        &mut self,
        queues: &mut Queues,
        peer: u32,
        (context, tag): (u32, i32),
        buffer: Vec<u8>,
        synchronous: Option<u64>,
    ) {
        let (source, context) = (Endpoint(peer), Context(context));
        let Some(receive) = queues.posted.take(source, context, tag) else {
            let message = Message::Whole {
                body: Kept::Long(buffer),
                synchronous,
            };
            queues.unexpected.arrive(source, context, tag, message);
            return;
        };
        receive.data.writer().write(&buffer);
        let total = buffer.len() as u64;
        queues.done.push(receive.completion(source, tag, total));
        queues.recycle(buffer);
        self.taken(peer, total, synchronous);
    }

    /// A message that came whole has been received.
    #[inline]
    pub fn taken(&mut self, peer: u32, bytes: u64, synchronous: Option<u64>) {
        if let Some(name) = synchronous {
            self.control(peer, Frame::Matched { name });
        }
        self.consumed(peer, bytes);
    }

    /// Unasked bytes need no more memory here: the peer gets its credit back.
    #[inline]
    pub fn consumed(&mut self, peer: u32, bytes: u64) {
        let link = &mut self.links[peer as usize];
        link.owed += bytes;
        if link.owed >= REPORT {
            let bytes = std::mem::take(&mut link.owed);
            link.granted += bytes;
            self.control(peer, Frame::Credit { bytes });
        }
    }

    /// Takes a message's header, and its body if that is here; returns the bytes behind.
    #[inline]
    fn message<'a>(
        &mut self,
        queues: &mut Queues,
        peer: u32,
        m: Announced,
        bytes: &'a [u8],
    ) -> Result<&'a [u8], Hostile> {
        let link = &mut self.links[peer as usize];
        let early = u64::from(m.early);
        link.granted = link
            .granted
            .checked_sub(early)
            .ok_or(Hostile("more data than it has credit for"))?;
        let (source, context) = (Endpoint(peer), Context(m.context));
        let synchronous = m.synchronous.then_some(m.name);
        let whole = match early == m.total {
            true => bytes.split_at_checked(m.early as usize),
            false => None,
        };
        if let Some((body, later)) = whole
            && synchronous.is_none()
            && let Some(post) = queues.posted.take_at_once(source, context, m.tag, early)
        {
            post.buf().write(body);
            post.finish(m.tag, early);
            self.consumed(peer, early);
            return Ok(later);
        }
        let receive = queues.posted.take(source, context, m.tag);
        if early < m.total {
            self.partial(queues, peer, m, receive);
            return Ok(bytes);
        }
        if let Some((body, later)) = whole {
            match receive {
                Some(receive) => {
                    receive.data.writer().write(body);
                    let end = receive.completion(source, m.tag, m.total);
                    queues.done.push(end);
                    self.taken(peer, early, synchronous);
                }
                None => {
                    let body = queues.body(body);
                    let message = Message::Whole { body, synchronous };
                    queues.unexpected.arrive(source, context, m.tag, message);
                }
            }
            return Ok(later);
        }
        link.body_left = m.early as usize;
        link.body = match receive {
            Some(receive) => Body::Matched {
                writer: receive.data.writer(),
                receive,
                tag: m.tag,
                total: m.total,
                synchronous,
            },
            None => {
                let mut buffer = queues.buffer();
                buffer.reserve(m.early as usize);
                Body::Kept {
                    buffer,
                    tag: m.tag,
                    context: m.context,
                    synchronous,
                }
            }
        };
        Ok(bytes)
    }

    /// A message of which more has to be asked for.
    fn partial(&mut self, queues: &mut Queues, peer: u32, m: Announced, receive: Option<Receive>) {
        let early = u64::from(m.early);
        let id = self.arriving.insert(Arriving {
            from: peer,
            name: m.name,
            tag: m.tag,
            total: m.total,
            early,
            arrived: 0,
            expected: early,
            sink: Sink::Heap(queues.buffer()),
        });
        let link = &mut self.links[peer as usize];
        if early > 0 {
            link.body = Body::Part(id);
            link.body_left = m.early as usize;
        }
        match receive {
            Some(receive) => self.accept(queues, id, receive),
            None => {
                let (source, context) = (Endpoint(peer), Context(m.context));
                let message = Message::Partial(id);
                queues.unexpected.arrive(source, context, m.tag, message);
            }
        }
    }

    /// A message was matched: what came of it goes to the receive, and the rest is asked for.
    pub fn accept(&mut self, queues: &mut Queues, id: u64, receive: Receive) {
        let Some(message) = self.arriving.get(id) else {
            return;
        };
        let (mut writer, capacity) = (receive.data.writer(), receive.data.len());
        if let Sink::Heap(buffer) = &mut message.sink {
            writer.write(buffer);
            queues.recycle(std::mem::take(buffer));
        }
        message.sink = Sink::User {
            writer,
            capacity,
            cookie: receive.cookie,
        };
        let wanted = message.total.min(capacity);
        message.expected = wanted.max(message.early);
        let (peer, name) = (message.from, message.name);
        if message.arrived == message.early {
            // Otherwise the credit goes back when the rest of them has come.
            let early = message.early;
            self.consumed(peer, early);
        }
        let target = id;
        self.control(
            peer,
            Frame::Clear {
                name,
                target,
                wanted,
            },
        );
        self.end_arriving(queues, id);
    }

    /// All bytes of a frame have come.
    fn end_part(&mut self, queues: &mut Queues, id: u64) {
        let Some(message) = self.arriving.get(id) else {
            return;
        };
        // A later frame has more.
        let all_early = message.arrived == message.early;
        if all_early && matches!(message.sink, Sink::User { .. }) {
            let (peer, early) = (message.from, message.early);
            self.consumed(peer, early);
        }
        self.end_arriving(queues, id);
    }

    /// Ends a message if nothing more comes and somebody waits for it.
    fn end_arriving(&mut self, queues: &mut Queues, id: u64) {
        let Some(message) = self.arriving.get(id) else {
            return;
        };
        let Sink::User {
            cookie, capacity, ..
        } = message.sink
        else {
            return;
        };
        if message.arrived < message.expected {
            return;
        }
        let end = message.completion(cookie, capacity);
        queues.done.push(end);
        self.arriving.remove(id);
    }

    fn control_frame(
        &mut self,
        queues: &mut Queues,
        peer: u32,
        frame: Frame,
    ) -> Result<(), Hostile> {
        match frame {
            Frame::Data { target, len } => return self.data(peer, target, len),
            Frame::Clear {
                name,
                target,
                wanted,
            } => return self.cleared(queues, peer, (name, target, wanted)),
            Frame::Matched { name } => return self.answered(queues, peer, name, Outcome::Done),
            Frame::Cancelled { name } => {
                return self.answered(queues, peer, name, Outcome::Cancelled);
            }
            Frame::Credit { bytes } => return self.credited(peer, bytes),
            Frame::Cancel { name } => self.drop_message(queues, peer, name),
            Frame::Bye => self.links[peer as usize].bye = true,
            // The message was matched before it could be dropped: it goes on as if nothing was asked.
            Frame::Kept { .. } => {}
            Frame::Message(_) => {}
            Frame::SlotQuery { .. }
            | Frame::SlotCount { .. }
            | Frame::SlotPost { .. }
            | Frame::SlotData { .. }
            | Frame::SlotMore { .. }
            | Frame::SlotWithdraw { .. }
            | Frame::SlotReturned { .. } => return self.slot_frame(peer, frame),
        }
        Ok(())
    }

    /// The header of more data.
    fn data(&mut self, peer: u32, target: u64, len: u32) -> Result<(), Hostile> {
        const STRANGE: Hostile = Hostile("data that nobody asked for");
        let message = self.arriving.get(target).ok_or(STRANGE)?;
        let fits = u64::from(len) <= message.expected.saturating_sub(message.arrived);
        let asked = matches!(message.sink, Sink::User { .. });
        if message.from != peer || !fits || !asked || message.arrived < message.early {
            return Err(STRANGE);
        }
        let link = &mut self.links[peer as usize];
        link.body = Body::Part(target);
        link.body_left = len as usize;
        Ok(())
    }
}
