//! Receives and probes.

use layout::Data;
use mtmi::{
    Completion, Context, Cookie, Endpoint, Envelope, MessageId, Outcome, Source, Submit, TagSel,
};

use crate::Shm;
use crate::incoming::completion;
use crate::lane::drain;
use crate::state::{Body, Message, Probed, Receive, Sink};
use crate::wire::Kind;

impl Shm {
    /// Posts a receive, or satisfies it with an unexpected message.
    #[inline]
    pub(crate) fn receive(
        &mut self,
        from: Source,
        context: Context,
        tag: TagSel,
        receive: Receive,
    ) -> Submit {
        if !self.unexpected.is_empty()
            && let Some((source, tag, message)) = self.unexpected.take(from, context, tag)
        {
            return self.satisfy(source, tag, message, receive);
        }
        if let Source::From(peer) = from
            && self.peers.get(peer.index()).is_none_or(|p| p.failed)
        {
            return Submit::Complete(ended(&receive, peer, tag, Outcome::PeerFailed));
        }
        self.posted.post(from, context, tag, receive);
        Submit::Pending
    }

    /// Gives a message that came earlier to its receive.
    fn satisfy(
        &mut self,
        source: Endpoint,
        tag: i32,
        message: Message,
        receive: Receive,
    ) -> Submit {
        match message {
            Message::Whole { body, synchronous } => {
                let bytes = body.bytes();
                drain(bytes, &mut receive.data.writer());
                let completion = completion(&receive, source, tag, bytes.len() as u64);
                if let Some(name) = synchronous {
                    self.control(source.0, Kind::Matched, [name, 0, 0, 0]);
                }
                if let Body::Long(buffer) = body {
                    self.recycle(buffer);
                }
                Submit::Complete(completion)
            }
            Message::Announced(id) => self.satisfy_announced(source, tag, id, receive),
            Message::Held(id) => self.satisfy_from_self(id, &receive),
        }
    }

    fn satisfy_announced(
        &mut self,
        source: Endpoint,
        tag: i32,
        id: u64,
        receive: Receive,
    ) -> Submit {
        let Some(message) = self.announced.get(id) else {
            // Its sender failed while it was on its way.
            let tag = TagSel::Exact(tag);
            return Submit::Complete(ended(&receive, source, tag, Outcome::PeerFailed));
        };
        let mut writer = receive.data.writer();
        let capacity = receive.data.len();
        let cookie = receive.cookie;
        let old = if let Sink::Heap(buffer) = &mut message.sink {
            drain(buffer, &mut writer);
            std::mem::take(buffer)
        } else {
            Vec::new()
        };
        message.sink = Sink::User {
            writer,
            capacity,
            cookie,
        };
        self.recycle(old);
        let before = self.done.len();
        self.accept(id);
        if self.announced.get(id).is_none() && self.done.len() == before + 1 {
            // Everything was here already.
            if let Some(completion) = self.done.pop() {
                return Submit::Complete(completion);
            }
        }
        Submit::Pending
    }

    /// The first message that these arguments accept.
    pub(crate) fn look(&mut self, from: Source, context: Context, tag: TagSel) -> Option<Envelope> {
        let slot = self.unexpected.find(from, context, tag)?;
        let (source, tag, message) = self.unexpected.get(slot)?;
        let bytes = match *message {
            Message::Whole { ref body, .. } => body.bytes().len() as u64,
            Message::Announced(id) => self.announced.get(id)?.total,
            Message::Held(id) => self.sends.get(id)?.total,
        };
        Some(Envelope { source, tag, bytes })
    }

    /// Takes the first message that these arguments accept out of matching.
    pub(crate) fn look_and_take(
        &mut self,
        from: Source,
        context: Context,
        tag: TagSel,
    ) -> Option<(MessageId, Envelope)> {
        let envelope = self.look(from, context, tag)?;
        let (source, tag, message) = self.unexpected.take(from, context, tag)?;
        let id = self.probed.insert(Probed {
            source,
            tag,
            message,
        });
        Some((MessageId(id), envelope))
    }

    /// Receives a message that `look_and_take` took.
    pub(crate) fn receive_probed(&mut self, id: MessageId, data: Data, cookie: Cookie) -> Submit {
        let receive = Receive { data, cookie };
        match self.probed.remove(id.0) {
            Some(p) => self.satisfy(p.source, p.tag, p.message, receive),
            None => {
                let me = Endpoint(self.me);
                Submit::Complete(ended(&receive, me, TagSel::Any, Outcome::Cancelled))
            }
        }
    }
}

/// The completion of a receive that got no message.
pub(crate) fn ended(
    receive: &Receive,
    source: Endpoint,
    tag: TagSel,
    outcome: Outcome,
) -> Completion {
    Completion {
        cookie: receive.cookie,
        source,
        tag: match tag {
            TagSel::Exact(tag) => tag,
            TagSel::Any => 0,
        },
        bytes: 0,
        outcome,
    }
}
