//! What a fabric that only moves bytes implements; [`Matched`](crate::Matched) makes a transport of it.

use std::time::Instant;

use boundary::UserBuf;
use layout::Data;

use crate::queues::{Queues, Receive};
use crate::transport::Sleeper;
use crate::words::*;

/// A message to be sent.
#[derive(Debug)]
pub struct Outgoing {
    /// To whom; never the process itself.
    pub to: Endpoint,
    /// In which context.
    pub context: Context,
    /// With which tag.
    pub tag: i32,
    /// When it is complete.
    pub mode: SendMode,
    /// What.
    pub data: Data,
    /// Whose request it is.
    pub cookie: Cookie,
}

impl Outgoing {
    /// Its completion.
    pub fn completion(&self, outcome: Outcome) -> Completion {
        let bytes = match outcome {
            Outcome::Done => self.data.len(),
            _ => 0,
        };
        Completion {
            cookie: self.cookie,
            source: self.to,
            tag: self.tag,
            bytes,
            outcome,
        }
    }
}

/// A fabric that moves bytes and leaves matching to the library.
///
/// Where a method is given [`Queues`], the fabric takes posted receives out of them for messages that
/// arrive, puts in messages that nobody waits for, and pushes the completions of what was pending.
/// The rules of [`Transport`](crate::Transport) hold for what it does: order, one completion, progress, distrust.
pub trait Fabric {
    /// What a sleeping thread holds.
    type Sleeper: Sleeper;

    /// This process.
    fn endpoint(&self) -> Endpoint;

    /// What this fabric can hold.
    fn limits(&self) -> Limits;

    /// As [`Transport::connect`](crate::Transport::connect).
    fn connect(&mut self, to: Endpoint);

    /// Whether `peer` has failed, or was never there.
    fn failed(&self, peer: Endpoint) -> bool;

    /// Sends a message to another process.
    fn send(&mut self, queues: &mut Queues, message: Outgoing) -> Submit;

    /// As [`Transport::send_at_once`](crate::Transport::send_at_once), where no request has `message`'s cookie. A fabric need not, also
    /// where its short messages go another way before they come here.
    fn send_at_once(&mut self, _queues: &mut Queues, _message: &Outgoing) -> bool {
        false
    }

    /// As [`Transport::send_to_all`](crate::Transport::send_to_all). A fabric need not.
    fn send_to_all(
        &mut self,
        _queues: &mut Queues,
        _to: impl Iterator<Item = Endpoint> + Clone,
        _address: (Context, i32),
        _data: &Data,
    ) -> bool {
        false
    }

    /// As [`Transport::receive_coming`](crate::Transport::receive_coming), of another process. A fabric need not.
    fn receive_coming(
        &mut self,
        _from: Endpoint,
        _wanted: (Context, TagSel),
        _to: (UserBuf, u64),
    ) -> Option<(i32, u64)> {
        None
    }

    /// As [`Transport::cancel_send`](crate::Transport::cancel_send).
    fn cancel_send(&mut self, queues: &mut Queues, cookie: Cookie) -> bool;

    /// The whole length of a [`Message::Partial`](crate::Message::Partial) of `source`, unless it is gone.
    fn partial_bytes(&mut self, source: Endpoint, name: u64) -> Option<u64>;

    /// A receive matched a [`Message::Partial`](crate::Message::Partial) of `source`, which the fabric put into
    /// the queue earlier.
    fn claim(
        &mut self,
        queues: &mut Queues,
        source: Endpoint,
        tag: i32,
        name: u64,
        receive: Receive,
    ) -> Submit;

    /// A [`Message::Whole`](crate::Message::Whole) of `source` with `bytes` bytes left the queue of unexpected messages
    /// for a receive. `synchronous` is its sender's name for it, if that wants to hear of it.
    fn matched(
        &mut self,
        queues: &mut Queues,
        source: Endpoint,
        bytes: u64,
        synchronous: Option<u64>,
    );

    /// Moves what can move; completions go to `queues.done`. Says whether anything moved.
    fn progress(&mut self, queues: &mut Queues) -> bool;

    /// Whether `progress` would find something to do now. Cheap.
    fn ready(&self) -> bool;

    /// As [`Transport::wait`](crate::Transport::wait).
    fn wait(&mut self, deadline: Option<Instant>);

    /// What threads sleep on that can't hold the fabric meanwhile.
    fn sleeper(&self) -> Self::Sleeper;

    /// Somebody above learned that `peer` is gone: takes in what it sent before, then ends all
    /// that needs it (but posted receives, which the caller ends).
    fn peer_failed(&mut self, queues: &mut Queues, peer: Endpoint);

    /// The next process that this fabric found to have failed, each told once. The fabric has ended
    /// all that needed it, posted receives included.
    fn next_failure(&mut self) -> Option<Endpoint>;

    /// Why a process that has failed could not be reached, in words for a person, if that is how it failed.
    fn why_failed(&self, _peer: Endpoint) -> Option<&str> {
        None
    }

    /// Whether all that was sent is out of this process's hands.
    fn flushed(&self) -> bool;

    /// Tells peers, where the fabric has a way to, that nothing more comes; called once, when flushed
    /// or when the time for that is over.
    fn close(&mut self);
}
