//! A simulated process: its messages.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use boundary::AlignedBuf;
use mtmi::{
    Completion, Context, Cookie, Endpoint, Fabric, Limits, Message, Names, Outcome, Outgoing,
    Queues, Receive, SendMode, Submit, TagSel,
};

use crate::sleeper::Sleeper;
use crate::slots::Table;
use crate::world::{Event, Shared};

/// A simulated process, as a fabric.
pub struct Sim {
    pub(crate) shared: Arc<Shared>,
    pub(crate) me: u32,
    pub(crate) failed: Vec<bool>,
    failures: VecDeque<Endpoint>,
    /// Synchronous sends that nobody has matched.
    sends: Names<Completion>,
    pub(crate) tables: Vec<Option<Table>>,
    pub(crate) mapped: Vec<AlignedBuf>,
    /// Deliveries that have not ended.
    pub(crate) pending: u32,
}

impl Sim {
    pub(crate) fn new(shared: Arc<Shared>, me: u32) -> Sim {
        Sim {
            failed: vec![false; shared.ranks as usize],
            shared,
            me,
            failures: VecDeque::new(),
            sends: Names::new(),
            tables: Vec::new(),
            mapped: Vec::new(),
            pending: 0,
        }
    }

    fn tell(&self, to: u32, event: Event) {
        let mut state = self.shared.lock();
        self.shared.tell(&mut state, to, event);
    }

    fn take(&mut self, queues: &mut Queues, event: Event) {
        match event {
            Event::Message {
                from,
                context,
                tag,
                bytes,
                synchronous,
            } => {
                let (source, context) = (Endpoint(from), Context(context));
                match queues.posted.take(source, context, tag) {
                    Some(receive) => {
                        receive.data.writer().write(&bytes);
                        let len = bytes.len() as u64;
                        queues.done.push(receive.completion(source, tag, len));
                        self.matched(queues, source, len, synchronous);
                    }
                    None => {
                        let body = queues.body(&bytes);
                        let message = Message::Whole { body, synchronous };
                        queues.unexpected.arrive(source, context, tag, message);
                    }
                }
            }
            Event::Matched(name) => queues.done.extend(self.sends.remove(name)),
            Event::Died(rank) => {
                self.failures.push_back(Endpoint(rank));
                self.peer_failed(queues, Endpoint(rank));
                queues.fail_receives(Endpoint(rank));
            }
            event => self.slot_event(event),
        }
    }
}

impl Fabric for Sim {
    type Sleeper = Sleeper;

    fn endpoint(&self) -> Endpoint {
        Endpoint(self.me)
    }

    fn limits(&self) -> Limits {
        Limits {
            tag_bits: 32,
            context_bits: 32,
            inline_bytes: 48,
            eager_bytes: self.shared.manner.unmatched,
            unmatched_bytes: self.shared.manner.unmatched,
            endpoints: self.shared.ranks,
        }
    }

    fn connect(&mut self, _to: Endpoint) {}

    fn failed(&self, peer: Endpoint) -> bool {
        self.failed.get(peer.index()).copied().unwrap_or(true)
    }

    fn send(&mut self, _queues: &mut Queues, message: Outgoing) -> Submit {
        if self.failed(message.to) {
            return Submit::Complete(message.completion(Outcome::PeerFailed));
        }
        let end = message.completion(Outcome::Done);
        let long = message.data.len() > self.shared.manner.unmatched as u64;
        let synchronous = message.mode == SendMode::Synchronous || long;
        let mut bytes = vec![0; message.data.len() as usize];
        message.data.reader().read(&mut bytes);
        let name = synchronous.then(|| self.sends.insert(end));
        let event = Event::Message {
            from: self.me,
            context: message.context.0,
            tag: message.tag,
            bytes,
            synchronous: name,
        };
        self.tell(message.to.0, event);
        match name {
            Some(_) => Submit::Pending,
            None => Submit::Complete(end),
        }
    }

    /// What was sent is with its receiver at once, and stays there.
    fn cancel_send(&mut self, _queues: &mut Queues, _cookie: Cookie) -> bool {
        false
    }

    fn partial_bytes(&mut self, _source: Endpoint, _name: u64) -> Option<u64> {
        None
    }

    fn claim(
        &mut self,
        _queues: &mut Queues,
        source: Endpoint,
        tag: i32,
        _name: u64,
        receive: Receive,
    ) -> Submit {
        // Messages are whole here, so there is none of this name.
        let end = receive.ended(source, TagSel::Exact(tag), Outcome::Cancelled);
        Submit::Complete(end)
    }

    fn matched(
        &mut self,
        _queues: &mut Queues,
        source: Endpoint,
        _bytes: u64,
        synchronous: Option<u64>,
    ) {
        if let Some(name) = synchronous {
            self.tell(source.0, Event::Matched(name));
        }
    }

    fn progress(&mut self, queues: &mut Queues) -> bool {
        let inbox = {
            let mut state = self.shared.lock();
            std::mem::take(&mut state.ranks[self.me as usize].inbox)
        };
        let moved = !inbox.is_empty();
        for event in inbox {
            self.take(queues, event);
        }
        moved
    }

    fn ready(&self) -> bool {
        !self.shared.lock().ranks[self.me as usize].inbox.is_empty()
    }

    fn wait(&mut self, deadline: Option<Instant>) {
        let sleeper = self.sleeper();
        let armed = mtmi::Sleeper::arm(&sleeper);
        if !self.ready() {
            <Sleeper as mtmi::Sleeper>::sleep(armed, deadline);
        }
    }

    fn sleeper(&self) -> Sleeper {
        Sleeper {
            shared: self.shared.clone(),
            me: self.me,
        }
    }

    fn peer_failed(&mut self, queues: &mut Queues, peer: Endpoint) {
        self.failed[peer.index()] = true;
        let to_it = self.sends.iter().filter(|(_, end)| end.source == peer);
        let names: Vec<u64> = to_it.map(|(name, _)| name).collect();
        for name in names {
            if let Some(mut end) = self.sends.remove(name) {
                end.outcome = Outcome::PeerFailed;
                end.bytes = 0;
                queues.done.push(end);
            }
        }
        self.fail_slots(peer);
    }

    fn next_failure(&mut self) -> Option<Endpoint> {
        self.failures.pop_front()
    }

    fn flushed(&self) -> bool {
        self.sends.is_empty() && self.pending == 0
    }

    fn close(&mut self) {}
}
