//! The interface itself.

use std::time::Instant;

use boundary::UserBuf;
use layout::Data;

use crate::words::*;

/// The part of a transport that one thread may sleep on while another uses the transport.
///
/// To sleep: [`arm`](Sleeper::arm), then, with the transport in hand, look at
/// [`Transport::ready`]; if that says no, let the transport go and [`sleep`](Sleeper::sleep), else drop
/// what `arm` returned. What happens after `arm` ends the sleep, so no wake-up is lost.
pub trait Sleeper: Clone + Send + Sync {
    /// An announced sleep; dropping it takes that back.
    type Armed<'a>
    where
        Self: 'a;

    /// Announces a sleep.
    fn arm(&self) -> Self::Armed<'_>;

    /// Sleeps until the transport may have something to do, somebody calls
    /// [`wake`](Sleeper::wake), or the deadline passes. It may return early for no reason.
    fn sleep(armed: Self::Armed<'_>, deadline: Option<Instant>);

    /// Ends the sleep of every thread of this process that sleeps here.
    fn wake(&self);
}

/// Memory of another process that was registered there, as `put`, `get` and atomics address it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Remote {
    /// Whose memory.
    pub endpoint: Endpoint,
    /// What `register` returned there.
    pub key: u64,
    /// Bytes from the start of the registered memory.
    pub offset: u64,
}

/// A matching transport.
///
/// # Rules that every fabric keeps
/// * **Order.** Two messages of one process to one other in one context are matched in the order in
///   which they were sent. A receive posted earlier is matched before a later one that would accept
///   the same message.
/// * **One completion.** An operation that returned [`Submit::Pending`] ends with exactly one
///   [`Completion`] out of [`progress`](Transport::progress), however it ends: done, cancelled or
///   because the peer failed. `Submit::Complete` is that completion, given at once.
/// * **Buffers.** `data` of a send isn't read, and that of a receive not written, after its completion.
/// * **Progress.** Everything that can complete does so while this process calls `progress` (or
///   `wait`) again and again and the peer does too; no operation needs a call other than these. A
///   standard send of up to [`Limits::eager_bytes`] bytes may complete before its receive is posted.
///   A message that waits to be received never holds up another.
/// * **Self.** A process may send to its own endpoint.
/// * **Distrust.** What another process wrote is checked before it is used. A process that sends
///   what no correct one sends counts as failed from then on; nothing here panics for it.
/// * **Static.** The trait is used by static dispatch, one thread at a time (`&mut self`).
pub trait Transport {
    /// What a sleeping thread holds.
    type Sleeper: Sleeper;

    /// This process.
    fn endpoint(&self) -> Endpoint;

    /// What this transport can hold.
    fn limits(&self) -> Limits;

    /// Makes ready to talk to `to`. Never needed for correctness: the first message does it too.
    fn connect(&mut self, to: Endpoint);

    /// Sends `data` to `to`.
    fn isend(
        &mut self,
        to: Endpoint,
        context: Context,
        tag: i32,
        mode: SendMode,
        data: Data,
        cookie: Cookie,
    ) -> Submit;

    /// Sends a message in standard mode, if it leaves this process within the call: `true`, and it is complete. Else nothing
    /// was done. It saves its caller a request where nothing is there to be waited for.
    fn send_at_once(&mut self, to: Endpoint, context: Context, tag: i32, data: Data) -> bool;

    /// Sends the same message in standard mode to one or several processes, each once, if it leaves this process within the call and with less work than one at a time: `true`, and it is
    /// complete. Else nothing was done, as where this process is among them.
    fn send_to_all(
        &mut self,
        to: impl Iterator<Item = Endpoint> + Clone,
        context: Context,
        tag: i32,
        data: &Data,
    ) -> bool;

    /// Receives a message into `data`.
    fn irecv(
        &mut self,
        from: Source,
        context: Context,
        tag: TagSel,
        data: Data,
        cookie: Cookie,
    ) -> Submit;

    /// Receives a message that is here whole, was not sent in synchronous mode and fits: its tag and length in bytes. It
    /// saves its caller a request. `None`: nothing was done.
    fn receive_at_once(
        &mut self,
        from: Endpoint,
        context: Context,
        tag: TagSel,
        to: (UserBuf, u64),
    ) -> Option<(i32, u64)>;

    /// Receives a message that comes right now, as [`receive_at_once`](Transport::receive_at_once) one that is here. No receive may be posted that
    /// it might match, and no message of `from` be unexpected. `None`: nothing was done, but to what is in the buffer.
    fn receive_coming(
        &mut self,
        from: Endpoint,
        wanted: (Context, TagSel),
        to: (UserBuf, u64),
    ) -> Option<(i32, u64)>;

    /// The first message that a receive with these arguments would match now. It sees what earlier
    /// calls of `progress` brought in.
    fn probe(&mut self, from: Source, context: Context, tag: TagSel) -> Option<Envelope>;

    /// As `probe`, and takes the message out of matching; it must be given to `imrecv` then.
    fn mprobe(
        &mut self,
        from: Source,
        context: Context,
        tag: TagSel,
    ) -> Option<(MessageId, Envelope)>;

    /// Receives a message that `mprobe` returned. An identity that isn't (or no longer) one
    /// completes with [`Outcome::Cancelled`].
    fn imrecv(&mut self, message: MessageId, data: Data, cookie: Cookie) -> Submit;

    /// The pending receives that would match this message if it came next, in the order of posting.
    fn accepting(&self, source: Endpoint, context: Context, tag: i32) -> Vec<Cookie>;

    /// Cancels a pending receive. True: it was still unmatched and its completion will say
    /// [`Outcome::Cancelled`]. False: it was matched (or isn't pending) and completes as usual.
    fn cancel_recv(&mut self, cookie: Cookie) -> bool;

    /// Cancels a pending send. True: it had not left and its completion will say
    /// [`Outcome::Cancelled`]. False: the receiver decides (the completion says `Cancelled` if it was
    /// unmatched there), or it is too late. Either way the send completes without a receive.
    fn cancel_send(&mut self, cookie: Cookie) -> bool;

    /// Moves everything that can move now, appends what completed to `done`, and says whether
    /// anything moved.
    fn progress(&mut self, done: &mut Vec<Completion>) -> bool;

    /// As `progress`, but keeps the completions for the next `progress`: for those who use the transport for
    /// something else than messages ([`Slots`](crate::slot::Slots)) beside somebody who sends them.
    fn advance(&mut self) -> bool;

    /// Returns when `progress` may find something to do (at once if that is now), or the deadline
    /// passed. It spins first and then sleeps, as suits the machine.
    fn wait(&mut self, deadline: Option<Instant>);

    /// Whether `progress` would find something to do now. Cheap: it is what `wait` spins on.
    fn ready(&self) -> bool;

    /// What threads sleep on that can't hold the transport meanwhile.
    fn sleeper(&self) -> Self::Sleeper;

    /// Somebody above learned that `peer` is gone. Sends to it and receives that only it could
    /// satisfy complete with [`Outcome::PeerFailed`], also later ones; messages that arrived whole can
    /// still be received. Receives from [`Source::Any`] stay.
    fn peer_failed(&mut self, peer: Endpoint);

    /// The next process that this transport found to have failed, each told once.
    fn next_failure(&mut self) -> Option<Endpoint>;

    /// Why a process that has failed could not be reached, in words for a person, if that is how it failed.
    fn why_failed(&self, peer: Endpoint) -> Option<&str>;

    /// Whether all that this process has sent is out of its hands, so that it may exit.
    fn flushed(&self) -> bool;

    /// Waits until all that this process has sent is out of its hands or the deadline passes, then
    /// lets go of what the transport holds. Returns whether everything was flushed.
    fn finalize(self, deadline: Option<Instant>) -> bool;

    /// Optional: registers memory for `put`, `get` and atomics, and returns its key.
    fn register(&mut self, _data: &Data) -> Result<u64, Unsupported> {
        Err(Unsupported("registered memory"))
    }

    /// Optional: writes `data` to remote memory.
    fn put(&mut self, _data: Data, _to: Remote, _cookie: Cookie) -> Result<Submit, Unsupported> {
        Err(Unsupported("put"))
    }

    /// Optional: reads remote memory into `data`.
    fn get(&mut self, _data: Data, _from: Remote, _cookie: Cookie) -> Result<Submit, Unsupported> {
        Err(Unsupported("get"))
    }

    /// Optional: adds to a 64-bit word of remote memory; the old value arrives in `old`.
    fn fetch_add(
        &mut self,
        _add: u64,
        _to: Remote,
        _old: Data,
        _cookie: Cookie,
    ) -> Result<Submit, Unsupported> {
        Err(Unsupported("fetch_add"))
    }

    /// Optional: replaces a 64-bit word of remote memory if it is `expected`; the old value arrives
    /// in `old`.
    fn compare_swap(
        &mut self,
        _expected: u64,
        _new: u64,
        _to: Remote,
        _old: Data,
        _cookie: Cookie,
    ) -> Result<Submit, Unsupported> {
        Err(Unsupported("compare_swap"))
    }
}
