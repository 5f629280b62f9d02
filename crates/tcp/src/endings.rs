//! How operations end otherwise: claimed late, cancelled, or because a peer is gone.

use mtmi::{Cookie, Endpoint, Message, Outcome, Queues, Receive, Submit, TagSel};

use crate::frame::Frame;
use crate::protocol::{Body, Protocol, Queued, Send, Sending, Sink};

impl Protocol {
    /// A receive matched a message of which part is here.
    pub fn claim(
        &mut self,
        queues: &mut Queues,
        source: Endpoint,
        tag: i32,
        name: u64,
        receive: Receive,
    ) -> Submit {
        if self.arriving.get(name).is_none() {
            // Its sender failed while it was on its way.
            let end = receive.ended(source, TagSel::Exact(tag), Outcome::PeerFailed);
            return Submit::Complete(end);
        }
        let before = queues.done.len();
        self.accept(queues, name, receive);
        if self.arriving.get(name).is_none()
            && queues.done.len() == before + 1
            && let Some(end) = queues.done.pop()
        {
            // The receive wants no more than is here.
            return Submit::Complete(end);
        }
        Submit::Pending
    }

    /// Cancels a send that has not left, or asks the receiver of an unmatched one to drop it.
    pub fn cancel(&mut self, queues: &mut Queues, cookie: Cookie) -> bool {
        let wanted = |s: &Send| s.slot.is_none() && s.message.cookie == cookie;
        let found = self.sends.iter().find(|(_, s)| wanted(s));
        let Some((id, send)) = found else {
            return false;
        };
        let (to, state) = (send.message.to, send.state);
        match state {
            Sending::Queued => {
                let queue = &mut self.links[to.index()].queue;
                queue.retain(|q| !matches!(q, Queued::Send(s) if *s == id));
                self.end_send(queues, id, Outcome::Cancelled);
                true
            }
            Sending::AwaitsMatch | Sending::AwaitsClear => {
                if let Some(send) = self.sends.get(id)
                    && !send.cancelling
                {
                    send.cancelling = true;
                    self.control(to.0, Frame::Cancel { name: id });
                }
                false
            }
            Sending::Leaving | Sending::Streams { .. } | Sending::Ends(_) => false,
        }
    }

    /// A sender asks to drop its message, if nobody has matched it.
    pub fn drop_message(&mut self, queues: &mut Queues, peer: u32, name: u64) {
        let known = self.arriving.iter();
        let parts: Vec<u64> = known
            .filter(|(_, m)| m.from == peer && m.name == name)
            .map(|(id, _)| id)
            .collect();
        let dropped = queues.withdraw(Endpoint(peer), |message| match message {
            Message::Whole { synchronous, .. } => *synchronous == Some(name),
            Message::Partial(id) => parts.contains(id),
            Message::Held(_) => false,
        });
        let answer = match dropped {
            Some(Message::Whole { body, .. }) => {
                self.consumed(peer, body.bytes().len() as u64);
                Frame::Cancelled { name }
            }
            Some(Message::Partial(id)) => {
                // A frame is complete before the next comes, so all unasked bytes are here.
                if let Some(message) = self.arriving.remove(id) {
                    self.consumed(peer, message.early);
                    if let Sink::Heap(buffer) = message.sink {
                        queues.recycle(buffer);
                    }
                }
                Frame::Cancelled { name }
            }
            Some(Message::Held(_)) | None => Frame::Kept { name },
        };
        self.control(peer, answer);
    }

    /// Ends everything that needs a peer which is gone, but posted receives.
    pub fn fail(&mut self, queues: &mut Queues, peer: u32) {
        let link = &mut self.links[peer as usize];
        link.failed = true;
        link.queue.clear();
        link.streams.clear();
        link.staged = Vec::new();
        link.staged_from = 0;
        link.tail = None;
        let missing = std::mem::take(&mut link.body_left) as u64;
        let body = std::mem::replace(&mut link.body, Body::None);
        if let Body::Matched {
            receive,
            tag,
            total,
            ..
        } = body
        {
            let mut end = receive.completion(Endpoint(peer), tag, total);
            end.bytes = end.bytes.min(total - missing.min(total));
            end.outcome = Outcome::PeerFailed;
            queues.done.push(end);
        }
        let sends: Vec<u64> = self
            .sends
            .iter()
            .filter(|(_, s)| s.message.to.0 == peer)
            .map(|(id, _)| id)
            .collect();
        for id in sends {
            self.end_send_now(queues, id, Outcome::PeerFailed);
        }
        self.slots.fail(peer);
        self.fail_arriving(queues, peer);
    }

    /// Ends what a failed peer has sent in part.
    fn fail_arriving(&mut self, queues: &mut Queues, peer: u32) {
        let cut: Vec<u64> = self
            .arriving
            .iter()
            .filter(|(_, m)| m.from == peer)
            .map(|(id, _)| id)
            .collect();
        for id in cut {
            let Some(message) = self.arriving.remove(id) else {
                continue;
            };
            match message.sink {
                Sink::User {
                    cookie, capacity, ..
                } => {
                    let mut end = message.completion(cookie, capacity);
                    end.bytes = message.arrived.min(capacity);
                    end.outcome = Outcome::PeerFailed;
                    queues.done.push(end);
                }
                Sink::Heap(buffer) => {
                    queues.withdraw(
                        Endpoint(peer),
                        |m| matches!(m, Message::Partial(p) if *p == id),
                    );
                    queues.recycle(buffer);
                }
            }
        }
    }
}
