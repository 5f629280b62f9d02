//! Matching by library: makes a transport of a fabric that only moves bytes.
//!
//! It keeps the queues, answers probes, and matches a process's messages to itself. The queues are one set
//! however many fabrics stand behind `F`.

use std::rc::Rc;
use std::time::Instant;

use boundary::UserBuf;
use layout::{Data, transfer};

use crate::fabric::{Fabric, Outgoing};
use crate::matching::{Light, Ordinary};
use crate::names::Names;
use crate::queues::{Body, Message, Queues, Receive};
use crate::slot::OwnSlots;
use crate::transport::{Sleeper as _, Transport};
use crate::words::*;

/// Messages to oneself up to here are complete without a receive, as they would be to another process.
const BUFFERED: u64 = 32 * 1024;

/// A matching transport over the fabric `F`.
pub struct Matched<F> {
    pub(crate) fabric: F,
    queues: Queues,
    light: Rc<Light>,
    /// Messages that `mprobe` took.
    probed: Names<Probed>,
    /// Sends to this process that wait for their receive.
    held: Names<Outgoing>,
    /// Slots with this process itself.
    pub(crate) own: OwnSlots,
}

struct Probed {
    source: Endpoint,
    tag: i32,
    message: Message,
}

impl<F: Fabric> Matched<F> {
    /// Over `fabric`, with nothing under way.
    pub fn new(fabric: F) -> Matched<F> {
        Matched::with(fabric, Light::new)
    }

    /// The same, where ordinary receives are noted there, for who posts light ones.
    pub fn beside(fabric: F, ordinary: &'static Ordinary) -> Matched<F> {
        Matched::with(fabric, |sources| Light::beside(sources, ordinary))
    }

    fn with(fabric: F, light: impl FnOnce(usize) -> Light) -> Matched<F> {
        let light = Rc::new(light(fabric.limits().endpoints as usize));
        let everybody = (0..fabric.limits().endpoints).map(Endpoint);
        everybody
            .filter(|&peer| fabric.failed(peer))
            .for_each(|peer| light.bar_all(peer));
        Matched {
            fabric,
            queues: Queues::with(&light),
            light,
            probed: Names::new(),
            held: Names::new(),
            own: OwnSlots::default(),
        }
    }

    /// The fabric, for what is not about matching.
    #[inline(always)]
    pub fn fabric(&mut self) -> &mut F {
        &mut self.fabric
    }

    /// Where light receives are posted.
    pub fn light(&self) -> &Rc<Light> {
        &self.light
    }

    /// Something between this process and itself has ended, or may begin, which no fabric tells: threads of it that sleep look again. (Whoever cancels or withdraws
    /// makes progress itself.)
    pub(crate) fn wake_threads(&self) {
        self.fabric.sleeper().wake();
    }

    /// Sends to this process.
    fn send_to_self(&mut self, message: Outgoing) -> Submit {
        let (me, context, tag) = (message.to, message.context, message.tag);
        let complete = message.completion(Outcome::Done);
        if let Some(receive) = self.queues.posted.take(me, context, tag) {
            transfer(&message.data, &receive.data);
            let completion = receive.completion(me, tag, message.data.len());
            self.queues.done.push(completion);
            self.wake_threads();
            return Submit::Complete(complete);
        }
        let total = message.data.len();
        if message.mode != SendMode::Synchronous && total <= BUFFERED {
            let mut buffer = self.queues.buffer();
            buffer.resize(total as usize, 0);
            message.data.reader().read(&mut buffer);
            let message = Message::Whole {
                body: Body::Long(buffer),
                synchronous: None,
            };
            self.queues.unexpected.arrive(me, context, tag, message);
            return Submit::Complete(complete);
        }
        let held = Message::Held(self.held.insert(message));
        self.queues.unexpected.arrive(me, context, tag, held);
        Submit::Pending
    }

    /// Posts a receive, or satisfies it with an unexpected message.
    #[inline]
    fn receive(&mut self, from: Source, context: Context, tag: TagSel, receive: Receive) -> Submit {
        if !self.queues.unexpected.is_empty()
            && let Some((source, tag, message)) = self.queues.unexpected.take(from, context, tag)
        {
            return self.satisfy(source, tag, message, receive);
        }
        if let Source::From(peer) = from
            && self.fabric.failed(peer)
        {
            return Submit::Complete(receive.ended(peer, tag, Outcome::PeerFailed));
        }
        self.queues.posted.post(from, context, tag, receive);
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
                let len = bytes.len() as u64;
                receive.data.writer().write(bytes);
                if source != self.fabric.endpoint() {
                    self.fabric
                        .matched(&mut self.queues, source, len, synchronous);
                }
                if let Body::Long(buffer) = body {
                    self.queues.recycle(buffer);
                }
                Submit::Complete(receive.completion(source, tag, len))
            }
            Message::Partial(name) => {
                self.fabric
                    .claim(&mut self.queues, source, tag, name, receive)
            }
            Message::Held(name) => self.satisfy_held(source, name, &receive),
        }
    }

    /// Gives a held send of ours to its receive.
    fn satisfy_held(&mut self, me: Endpoint, name: u64, receive: &Receive) -> Submit {
        let Some(send) = self.held.remove(name) else {
            let ended = receive.ended(me, TagSel::Any, Outcome::Cancelled);
            return Submit::Complete(ended);
        };
        self.queues.done.push(send.completion(Outcome::Done));
        self.wake_threads();
        transfer(&send.data, &receive.data);
        Submit::Complete(receive.completion(me, send.tag, send.data.len()))
    }

    /// Cancels a send to this process. `None`: there is no such send.
    fn cancel_held(&mut self, cookie: Cookie) -> Option<bool> {
        let (name, to) = self
            .held
            .iter()
            .find(|(_, s)| s.cookie == cookie)
            .map(|(name, s)| (name, s.to))?;
        let this = |m: &Message| matches!(m, Message::Held(n) if *n == name);
        if self.queues.withdraw(to, this).is_none() {
            // `mprobe` has matched it.
            return Some(false);
        }
        let send = self.held.remove(name)?;
        let completion = send.completion(Outcome::Cancelled);
        self.queues.done.push(completion);
        Some(true)
    }

    fn is_flushed(&self) -> bool {
        self.held.is_empty() && self.fabric.flushed()
    }
}

impl<F: Fabric> Transport for Matched<F> {
    type Sleeper = F::Sleeper;

    fn endpoint(&self) -> Endpoint {
        self.fabric.endpoint()
    }

    fn limits(&self) -> Limits {
        self.fabric.limits()
    }

    fn connect(&mut self, to: Endpoint) {
        if to != self.fabric.endpoint() {
            self.fabric.connect(to);
        }
    }

    #[inline]
    fn isend(
        &mut self,
        to: Endpoint,
        context: Context,
        tag: i32,
        mode: SendMode,
        data: Data,
        cookie: Cookie,
    ) -> Submit {
        let message = Outgoing {
            to,
            context,
            tag,
            mode,
            data,
            cookie,
        };
        if to == self.fabric.endpoint() {
            self.send_to_self(message)
        } else {
            self.fabric.send(&mut self.queues, message)
        }
    }

    #[inline]
    fn send_at_once(&mut self, to: Endpoint, context: Context, tag: i32, data: Data) -> bool {
        let message = Outgoing {
            to,
            context,
            tag,
            mode: SendMode::Standard,
            data,
            cookie: Cookie(0),
        };
        to != self.fabric.endpoint() && self.fabric.send_at_once(&mut self.queues, &message)
    }

    #[inline]
    fn send_to_all(
        &mut self,
        to: impl Iterator<Item = Endpoint> + Clone,
        context: Context,
        tag: i32,
        data: &Data,
    ) -> bool {
        self.fabric
            .send_to_all(&mut self.queues, to, (context, tag), data)
    }

    #[inline]
    fn irecv(
        &mut self,
        from: Source,
        context: Context,
        tag: TagSel,
        data: Data,
        cookie: Cookie,
    ) -> Submit {
        self.receive(from, context, tag, Receive { data, cookie })
    }

    #[inline]
    fn receive_coming(
        &mut self,
        from: Endpoint,
        wanted: (Context, TagSel),
        to: (UserBuf, u64),
    ) -> Option<(i32, u64)> {
        match from == self.fabric.endpoint() {
            true => None,
            false => self.fabric.receive_coming(from, wanted, to),
        }
    }

    fn receive_at_once(
        &mut self,
        from: Endpoint,
        context: Context,
        tag: TagSel,
        (buf, capacity): (UserBuf, u64),
    ) -> Option<(i32, u64)> {
        let mut long = None;
        let (from, unexpected) = (Source::From(from), &mut self.queues.unexpected);
        let (source, tag, len) =
            unexpected.take_if(from, context, tag, |source, tag, message| {
                let Message::Whole {
                    body,
                    synchronous: None,
                } = message
                else {
                    return None;
                };
                let bytes = body.bytes();
                let len = bytes.len() as u64;
                if len > capacity {
                    return None;
                }
                buf.write(bytes);
                if let Body::Long(buffer) = body {
                    long = Some(std::mem::take(buffer));
                }
                Some((source, tag, len))
            })?;
        if source != self.fabric.endpoint() {
            self.fabric.matched(&mut self.queues, source, len, None);
        }
        if let Some(buffer) = long {
            self.queues.recycle(buffer);
        }
        Some((tag, len))
    }

    fn probe(&mut self, from: Source, context: Context, tag: TagSel) -> Option<Envelope> {
        let Some(slot) = self.queues.unexpected.find(from, context, tag) else {
            self.queues.note_vain_probe(from);
            return None;
        };
        let (source, tag, message) = self.queues.unexpected.get(slot)?;
        let bytes = match *message {
            Message::Whole { ref body, .. } => body.bytes().len() as u64,
            Message::Partial(name) => self.fabric.partial_bytes(source, name)?,
            Message::Held(name) => self.held.get(name)?.data.len(),
        };
        Some(Envelope { source, tag, bytes })
    }

    fn mprobe(
        &mut self,
        from: Source,
        context: Context,
        tag: TagSel,
    ) -> Option<(MessageId, Envelope)> {
        let envelope = self.probe(from, context, tag)?;
        let (source, tag, message) = self.queues.unexpected.take(from, context, tag)?;
        let id = self.probed.insert(Probed {
            source,
            tag,
            message,
        });
        Some((MessageId(id), envelope))
    }

    fn imrecv(&mut self, message: MessageId, data: Data, cookie: Cookie) -> Submit {
        let receive = Receive { data, cookie };
        match self.probed.remove(message.0) {
            Some(p) => self.satisfy(p.source, p.tag, p.message, receive),
            None => {
                let me = self.fabric.endpoint();
                Submit::Complete(receive.ended(me, TagSel::Any, Outcome::Cancelled))
            }
        }
    }

    fn accepting(&self, source: Endpoint, context: Context, tag: i32) -> Vec<Cookie> {
        let message = (source, context, tag);
        let posted = &self.queues.posted;
        posted.accepting(message, |receive| receive.cookie, |post| post.cookie())
    }

    fn cancel_recv(&mut self, cookie: Cookie) -> bool {
        let Some((from, tag, receive)) = self.queues.withdraw_receive(cookie) else {
            return false;
        };
        let source = match from {
            Source::From(peer) => peer,
            Source::Any => self.fabric.endpoint(),
        };
        let ended = receive.ended(source, tag, Outcome::Cancelled);
        self.queues.done.push(ended);
        true
    }

    fn cancel_send(&mut self, cookie: Cookie) -> bool {
        self.cancel_held(cookie)
            .unwrap_or_else(|| self.fabric.cancel_send(&mut self.queues, cookie))
    }

    #[inline]
    fn progress(&mut self, done: &mut Vec<Completion>) -> bool {
        let mut moved = self.fabric.progress(&mut self.queues);
        if !self.queues.done.is_empty() {
            done.append(&mut self.queues.done);
            moved = true;
        }
        moved
    }

    #[inline]
    fn advance(&mut self) -> bool {
        self.fabric.progress(&mut self.queues)
    }

    fn wait(&mut self, deadline: Option<Instant>) {
        if self.queues.done.is_empty() {
            self.fabric.wait(deadline);
        }
    }

    fn ready(&self) -> bool {
        !self.queues.done.is_empty() || self.fabric.ready()
    }

    fn sleeper(&self) -> F::Sleeper {
        self.fabric.sleeper()
    }

    fn peer_failed(&mut self, peer: Endpoint) {
        if peer == self.fabric.endpoint() || self.fabric.failed(peer) {
            return;
        }
        self.fabric.peer_failed(&mut self.queues, peer);
        self.queues.fail_receives(peer);
    }

    fn next_failure(&mut self) -> Option<Endpoint> {
        self.fabric.next_failure()
    }

    fn why_failed(&self, peer: Endpoint) -> Option<&str> {
        self.fabric.why_failed(peer)
    }

    fn flushed(&self) -> bool {
        self.is_flushed()
    }

    fn finalize(mut self, deadline: Option<Instant>) -> bool {
        let mut done = Vec::new();
        let flushed = loop {
            while self.progress(&mut done) {
                done.clear();
            }
            if self.is_flushed() {
                break true;
            }
            if deadline.is_some_and(|d| Instant::now() >= d) {
                break false;
            }
            self.wait(deadline);
        };
        self.fabric.close();
        flushed
    }
}
