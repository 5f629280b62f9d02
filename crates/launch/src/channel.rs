//! One end of a link between mpiexec and a daemon, or between two daemons: frames over two
//! descriptors, heartbeats, and the judgement that the other end is gone.
//!
//! The descriptors are pipes or sockets of a launcher command, shared with programs that may not
//! expect them to refuse to block; so a write is made only when poll says that it does not block, and
//! is then no longer than what a pipe takes at once.

use crate::frame::{Address, Broken, Decoder, Frame, put};
use crate::watch::{Watch, is_writable};
use rustix::event::PollFlags;
use rustix::io::Errno;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

/// Time between two signs of life. Short against [`SILENCE`], so that TCP's doubling of its
/// retransmission times after a break of 5 s (the next one may come 3 s after its end) stays within.
pub const HEARTBEAT: Duration = Duration::from_secs(1);
/// An end that is silent for so long is gone. Less than 15 s, within which a job without one of its hosts is to be over,
/// and more than a link that is down for 5 s keeps silent (7.7 s were measured). It is twelve signs of life in a row: an
/// end sleeps between them and does next to nothing for one, so that the kernel of a crowded machine lets it go first.
pub const SILENCE: Duration = Duration::from_secs(12);
/// Bytes that a pipe takes without blocking when poll calls it writable.
const PIPE_CHUNK: usize = 4096;
/// With this much waiting to be sent, nothing more is taken on whose sender can wait.
const BACKLOG_MAX: usize = 1 << 20;

/// What happened on a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Token {
    /// Bytes have come, or the end.
    In,
    /// Bytes can be sent.
    Out,
}

/// One end of a link.
pub struct Channel {
    input: OwnedFd,
    output: OwnedFd,
    decoder: Decoder,
    queue: Vec<u8>,
    sent: usize,
    /// The body of this side's sign of life.
    alive: Vec<u8>,
    next_beat: Instant,
    heard: Instant,
    looked: Instant,
    /// The other end said that it will be silent.
    suspended: bool,
}

impl Channel {
    /// A channel that reads from `input`, writes to `output` and says `alive` all the while.
    pub fn new(
        input: OwnedFd,
        output: OwnedFd,
        decoder: Decoder,
        alive: Vec<u8>,
        now: Instant,
    ) -> Channel {
        Channel {
            input,
            output,
            decoder,
            queue: Vec::new(),
            sent: 0,
            alive,
            next_beat: now,
            heard: now,
            looked: now,
            suspended: false,
        }
    }

    /// Queues bytes outside any frame: the greeting.
    pub fn send_raw(&mut self, bytes: &[u8]) {
        self.queue.extend_from_slice(bytes);
    }

    /// Queues a frame.
    pub fn send(&mut self, address: Address, body: &[u8]) {
        put(&mut self.queue, address, body);
    }

    /// Whether more may be taken on.
    pub fn has_room(&self) -> bool {
        self.pending() < BACKLOG_MAX
    }

    /// Bytes that wait to be sent.
    pub fn pending(&self) -> usize {
        self.queue.len() - self.sent
    }

    /// Adds what to wait for; without `reading` the other end has to wait.
    pub fn interest<'a, T>(
        &'a self,
        watch: &mut Watch<'a, T>,
        reading: bool,
        wrap: impl Fn(Token) -> T,
    ) {
        if reading {
            watch.add(self.input.as_fd(), PollFlags::IN, wrap(Token::In));
        }
        if self.pending() > 0 {
            watch.add(self.output.as_fd(), PollFlags::OUT, wrap(Token::Out));
        }
    }

    /// Reads what has come. `false` at the end of the stream.
    pub fn fill(&mut self, now: Instant) -> bool {
        let mut bytes = [0; 64 << 10];
        match rustix::io::read(&self.input, &mut bytes[..]) {
            Ok(0) => false,
            Ok(count) => {
                self.heard = now;
                self.suspended = false;
                self.decoder.feed(&bytes[..count]);
                true
            }
            Err(Errno::INTR | Errno::AGAIN) => true,
            Err(_) => false,
        }
    }

    /// The next frame that is complete.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, Broken> {
        self.decoder.next_frame()
    }

    /// Sends what can be sent without blocking.
    pub fn flush(&mut self) {
        while self.pending() > 0 && is_writable(self.output.as_fd()) {
            let end = self.queue.len().min(self.sent + PIPE_CHUNK);
            match rustix::io::write(&self.output, &self.queue[self.sent..end]) {
                Ok(count) => self.sent += count,
                Err(Errno::INTR | Errno::AGAIN) => break,
                // The other end is gone, which reading will tell.
                Err(_) => self.sent = self.queue.len(),
            }
        }
        if self.pending() == 0 {
            self.queue.clear();
            self.sent = 0;
        } else if self.sent > BACKLOG_MAX {
            self.queue.drain(..self.sent);
            self.sent = 0;
        }
    }

    /// Believes that the other end will be silent for a while.
    pub fn suspend(&mut self) {
        self.suspended = true;
    }

    /// To be called on every pass, after what has come was read, and at the latest at
    /// [`deadline`](Channel::deadline): queues a sign of life if it is time. `false` if the other end
    /// is gone. `looking` tells whether this side reads at all; if not, silence means nothing.
    pub fn beat(&mut self, now: Instant, looking: bool) -> bool {
        if now >= self.next_beat {
            self.next_beat = now + HEARTBEAT;
            // What waits to be sent is a sign of life by itself.
            if self.pending() == 0 {
                let alive = std::mem::take(&mut self.alive);
                self.send(Address::Hop, &alive);
                self.alive = alive;
            }
        }
        let pause = now.saturating_duration_since(self.looked);
        self.looked = now;
        // While this process was stopped, it could not hear anything.
        if !looking || pause > 2 * HEARTBEAT {
            self.heard = (self.heard + pause).min(now);
        }
        self.suspended || now.saturating_duration_since(self.heard) < SILENCE
    }

    /// When to call [`beat`](Channel::beat) next.
    pub fn deadline(&self) -> Instant {
        let silent_at = self.heard + SILENCE;
        // What has been judged already needs no second look.
        match self.suspended || silent_at <= self.looked {
            true => self.next_beat,
            false => self.next_beat.min(silent_at),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::UP_MAX;

    fn pair(now: Instant) -> (Channel, Channel) {
        let (a_in, b_out) = rustix::pipe::pipe().unwrap();
        let (b_in, a_out) = rustix::pipe::pipe().unwrap();
        let end = |i, o| Channel::new(i, o, Decoder::new(UP_MAX, false), b"alive".to_vec(), now);
        (end(a_in, a_out), end(b_in, b_out))
    }

    #[test]
    fn more_than_a_pipe_holds_does_not_block() {
        let now = Instant::now();
        let (mut a, mut b) = pair(now);
        let body = vec![7; 100_000];
        for _ in 0..20 {
            a.send(Address::Everyone, &body);
        }
        assert!(!a.has_room());
        let mut got = 0;
        while got < 20 {
            a.flush();
            assert!(b.fill(now));
            while let Some(frame) = b.next_frame().unwrap() {
                assert!(frame.body == body && frame.address == Address::Everyone);
                got += 1;
            }
        }
        assert_eq!(a.pending(), 0);
        drop(a);
        assert!(!b.fill(now));
    }

    #[test]
    fn silence_is_death_but_being_stopped_is_not() {
        let start = Instant::now();
        let (mut a, mut b) = pair(start);
        let mut at = start;
        let mut pass = |channel: &mut Channel, looking| {
            at += HEARTBEAT;
            (at, channel.beat(at, looking))
        };
        for _ in 1..SILENCE.as_secs() {
            assert!(pass(&mut a, true).1);
        }
        let (now, lives) = pass(&mut a, true);
        assert!(!lives);
        // Its own beats are a sign of life for the other end.
        a.flush();
        assert!(b.fill(now) && b.beat(now, true));
        for _ in 0..60 {
            assert!(pass(&mut b, false).1, "not looking");
        }
        let (now, _) = pass(&mut b, true);
        assert!(b.beat(now + 50 * SILENCE, true), "was stopped itself");
        b.suspend();
        let mut later = now + 50 * SILENCE;
        for _ in 0..100 {
            later += HEARTBEAT;
            assert!(
                b.beat(later, true),
                "the other end said that it will be stopped"
            );
        }
    }
}
