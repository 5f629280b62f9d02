//! How operations end otherwise: cancelled, or because a peer is gone.

use mtmi::{Cookie, Endpoint, Message, Outcome, Queues};

use crate::Shm;
use crate::state::{Queued, Sending, Sink};
use crate::wire::Kind;

impl Shm {
    /// Has every send go the ordinary way from now on, before which its owner can look whether somebody tells that the peer is gone.
    /// The short path asks nobody: the ring of a peer that is dead takes as many messages as it has cells. To be called before anything
    /// is sent.
    pub fn expect_deaths(&mut self) {
        self.wary = true;
    }

    /// Cancels a send that has not left, or asks the receiver of an unmatched one to drop it.
    pub(crate) fn cancel_sent(&mut self, queues: &mut Queues, cookie: Cookie) -> bool {
        let found = self.sends.iter().find(|(_, s)| s.cookie == cookie);
        let Some((id, send)) = found else {
            return false;
        };
        let (to, state) = (send.to, send.state);
        match state {
            Sending::Queued => {
                let queue = &mut self.peers[to as usize].queue;
                queue.retain(|q| !matches!(q, Queued::Send(s) if *s == id));
                self.end_send(queues, id, Outcome::Cancelled);
                true
            }
            Sending::AwaitsMatch | Sending::AwaitsClear => {
                if let Some(send) = self.sends.get(id)
                    && !send.cancelling
                {
                    send.cancelling = true;
                    self.control(to, Kind::Cancel, [id, 0, 0, 0]);
                }
                false
            }
            Sending::Streams { .. } | Sending::Splits => false,
        }
    }

    /// A sender asks to drop its message, if nobody has matched it.
    pub(crate) fn take_cancel(&mut self, queues: &mut Queues, peer: u32, send: u64) {
        let announced: Vec<u64> = self
            .announced
            .iter()
            .filter(|(_, m)| m.from == peer && m.send == send)
            .map(|(id, _)| id)
            .collect();
        let dropped = queues.withdraw(Endpoint(peer), |message| match message {
            Message::Whole { synchronous, .. } => *synchronous == Some(send),
            Message::Partial(id) => announced.contains(id),
            Message::Held(_) => false,
        });
        if let Some(Message::Partial(id)) = dropped {
            if let Some(message) = self.announced.get(id) {
                message.sink = Sink::Drop;
            }
            self.end_announced(queues, id);
        }
        let kind = match dropped {
            Some(_) => Kind::Cancelled,
            None => Kind::Kept,
        };
        self.control(peer, kind, [send, 0, 0, 0]);
    }

    /// Declares peers that broke the protocol failed. Returns whether there were any.
    pub(crate) fn fail_suspects(&mut self, queues: &mut Queues) -> bool {
        let suspects = std::mem::take(&mut self.suspects);
        for &peer in &suspects {
            if !self.peers[peer as usize].failed {
                self.fail(queues, peer);
                queues.fail_receives(Endpoint(peer));
                self.failures.push_back(Endpoint(peer));
            }
        }
        !suspects.is_empty()
    }

    /// Ends everything that needs a peer which is gone.
    pub(crate) fn fail(&mut self, queues: &mut Queues, peer: u32) {
        let entry = &mut self.peers[peer as usize];
        entry.failed = true;
        entry.queue.clear();
        entry.streams.clear();
        entry.early.clear();
        entry.due = 0;
        entry.copies = Default::default();
        entry.direct = Default::default();
        self.ports[peer].shut();
        self.inward.retain(|&i| i != peer);
        self.ports[peer].set_known(false);
        let sends = self.sends.iter();
        let sends: Vec<u64> = sends
            .filter(|(_, s)| s.to == peer)
            .map(|(id, _)| id)
            .collect();
        for id in sends {
            self.end_send(queues, id, Outcome::PeerFailed);
        }
        self.fail_announced(queues, peer);
        self.fail_slots(peer);
    }

    /// Ends what a failed peer announced and did not send whole.
    fn fail_announced(&mut self, queues: &mut Queues, peer: u32) {
        let cut: Vec<u64> = self
            .announced
            .iter()
            .filter(|(_, m)| m.from == peer && m.arrived < m.total)
            .map(|(id, _)| id)
            .collect();
        for id in cut {
            let Some(message) = self.announced.remove(id) else {
                continue;
            };
            if let Sink::User {
                cookie, capacity, ..
            } = message.sink
            {
                let mut completion = message.completion(cookie, capacity);
                completion.bytes = message.arrived.min(capacity);
                completion.outcome = Outcome::PeerFailed;
                queues.done.push(completion);
                continue;
            }
            queues.withdraw(
                Endpoint(peer),
                |m| matches!(m, Message::Partial(a) if *a == id),
            );
        }
    }
}
