//! Receives that match an announced message.

use mtmi::{Endpoint, Outcome, Queues, Receive, Submit, TagSel};

use crate::Shm;
use crate::lane::drain;
use crate::state::Sink;

impl Shm {
    /// Gives an announced message to its receive and asks for the rest of it.
    pub(crate) fn satisfy_announced(
        &mut self,
        queues: &mut Queues,
        source: Endpoint,
        tag: i32,
        id: u64,
        receive: Receive,
    ) -> Submit {
        let Some(message) = self.announced.get(id) else {
            // Its sender failed while it was on its way.
            let tag = TagSel::Exact(tag);
            return Submit::Complete(receive.ended(source, tag, Outcome::PeerFailed));
        };
        if let Some(shelved) = message.shelved {
            let total = message.total;
            self.announced.remove(id);
            self.read_shelf(source.0, shelved, &mut receive.data.writer());
            return Submit::Complete(receive.completion(source, tag, total));
        }
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
        queues.recycle(old);
        let before = queues.done.len();
        self.accept(queues, id);
        if self.announced.get(id).is_none() && queues.done.len() == before + 1 {
            // Everything was here already.
            if let Some(completion) = queues.done.pop() {
                return Submit::Complete(completion);
            }
        }
        Submit::Pending
    }
}
