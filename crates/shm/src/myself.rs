//! Messages of a process to itself: matched at once, copied once.

use layout::{Data, transfer};
use mtmi::{Completion, Context, Cookie, Endpoint, Outcome, SendMode, Submit};

use crate::Shm;
use crate::lane::CHUNK;
use crate::state::{Body, Message, Receive, Send, Sending};

/// Messages up to here are complete without a receive, as they would be to another process.
const BUFFERED: u64 = CHUNK as u64;

impl Shm {
    /// Sends to this process.
    pub(crate) fn send_to_self(
        &mut self,
        context: Context,
        tag: i32,
        mode: SendMode,
        data: Data,
        cookie: Cookie,
    ) -> Submit {
        let me = Endpoint(self.me);
        let total = data.len();
        let completion = Completion {
            cookie,
            source: me,
            tag,
            bytes: total,
            outcome: Outcome::Done,
        };
        if let Some(receive) = self.posted.take(me, context, tag) {
            self.copy_to(&data, &receive, tag);
            return Submit::Complete(completion);
        }
        if mode != SendMode::Synchronous && total <= BUFFERED {
            let mut buffer = self.buffer();
            buffer.resize(total as usize, 0);
            data.reader().read(&mut buffer);
            let message = Message::Whole {
                body: Body::Long(buffer),
                synchronous: None,
            };
            self.unexpected.arrive(me, context, tag, message);
            return Submit::Complete(completion);
        }
        let id = self.sends.insert(Send {
            cookie,
            to: self.me,
            context,
            tag,
            mode,
            total,
            sent: 0,
            data,
            reader: None,
            state: Sending::Held,
            cancelling: false,
        });
        self.unexpected.arrive(me, context, tag, Message::Held(id));
        Submit::Pending
    }

    /// Gives a held send of ours to its receive.
    pub(crate) fn satisfy_from_self(&mut self, id: u64, receive: &Receive) -> Submit {
        let Some(send) = self.sends.remove(id) else {
            let me = Endpoint(self.me);
            return Submit::Complete(crate::receive::ended(
                receive,
                me,
                mtmi::TagSel::Any,
                Outcome::Cancelled,
            ));
        };
        self.done.push(send.completion(Outcome::Done));
        self.copy_to(&send.data, receive, send.tag);
        match self.done.pop() {
            Some(completion) => Submit::Complete(completion),
            None => Submit::Pending,
        }
    }

    /// Copies a message of ours into a receive of ours, whose completion is added.
    fn copy_to(&mut self, data: &Data, receive: &Receive, tag: i32) {
        transfer(data, &receive.data);
        let me = Endpoint(self.me);
        self.done
            .push(crate::incoming::completion(receive, me, tag, data.len()));
    }
}
