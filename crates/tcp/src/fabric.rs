//! The fabric as [`mtmi::Matched`] uses it.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use boundary::UserBuf;
use mtmi::{
    Cookie, Endpoint, Fabric, Limits, Outcome, Outgoing, Queues, Receive, SendMode, Submit,
};
use rustix::io::Errno;
use rustix::net::{SendFlags, Shutdown, send, shutdown};

use crate::Tcp;
use crate::frame::{EARLY, Frame, HEADER};
use crate::memory;
use crate::reactor::Event;
use crate::state::{LISTENER, PEER};
use crate::timers::Timer;
use crate::waiting::Sleeper;

/// Bytes of a message that is put together with its header and sent at once: less than what another
/// element of a gathering call costs.
const SHORT: usize = 96;
/// Bytes of a message that is sent at once from where it lies, and of which the rest is copied if the kernel does
/// not take all of it.
pub(crate) const MEDIUM: u64 = 16 << 10;
/// Tries to read from the peer that something came from last, before it is no longer expected to go on.
pub(crate) const GLANCES: u32 = 64;
/// Most such tries between two looks at all peers.
const BETWEEN: u32 = 16;
/// How long the last data may take to reach the peers' hosts after the fabric is closed.
const LINGER: Duration = Duration::from_secs(5);

impl Tcp {
    /// Sends a short message, if nothing is before it. Otherwise nothing was done.
    #[inline]
    fn send_short(&mut self, queues: &mut Queues, message: &Outgoing, total: u64) -> bool {
        let peer = message.to.0;
        let Some(stream) = self
            .routes
            .get(message.to.index())
            .and_then(|r| r.stream.as_ref())
        else {
            return false;
        };
        let Some((buf, _)) = message.data.contiguous().filter(|_| !stream.blocked) else {
            return false;
        };
        let Some(header) = self.protocol.shortcut(message, total) else {
            return false;
        };
        let len = total as usize;
        let (sent, whole) = if len <= SHORT {
            let mut frame = [0; HEADER + SHORT];
            frame[..HEADER].copy_from_slice(&header);
            buf.read(&mut frame[HEADER..][..len]);
            let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
            let sent = send(&stream.fd, &frame[..HEADER + len], flags);
            (sent, HEADER + len)
        } else {
            let sent = memory::send(stream.fd.as_fd(), &header, (buf, len));
            (sent, HEADER + len)
        };
        self.wrote(peer);
        if sent != Ok(whole) {
            self.sent_in_part(queues, peer, sent, &header, (buf, len));
        }
        true
    }

    /// The kernel took only part of a short message.
    #[cold]
    fn sent_in_part(
        &mut self,
        queues: &mut Queues,
        peer: u32,
        sent: Result<usize, Errno>,
        header: &[u8; HEADER],
        (buf, len): (UserBuf, usize),
    ) {
        let n = sent.unwrap_or(0);
        if n < HEADER {
            self.protocol.stage_rest(peer, &header[n..]);
        }
        let skip = n.saturating_sub(HEADER);
        let mut rest = vec![0; len - skip];
        buf.offset(skip as i64).read(&mut rest);
        self.protocol.stage_rest(peer, &rest);
        match sent {
            Ok(_) | Err(Errno::AGAIN) => self.block(peer),
            // It stays dirty.
            Err(Errno::INTR) => {}
            Err(e) => self.broken(queues, peer, e),
        }
    }

    /// Handles what the reactor told. Returns whether there was anything, and whether data were read
    /// meanwhile.
    #[inline]
    fn take_events(&mut self, queues: &mut Queues) -> (bool, bool) {
        let mut events = std::mem::take(&mut self.events);
        self.reactor.take(&mut events);
        let mut read = false;
        if events.is_empty() && self.reactor.hesitates() {
            // Most likely it is about the peer that sent last: reading is a system call too.
            read = self.read_recent(queues);
            if self.reactor.hesitates() {
                self.reactor.urge();
            }
            self.reactor.take(&mut events);
        }
        let some = read || !events.is_empty();
        for event in events.drain(..) {
            self.take_event(queues, event);
        }
        self.events = events;
        (some, read)
    }

    #[inline]
    fn take_event(&mut self, queues: &mut Queues, event: Event) {
        if event.token == LISTENER {
            self.strangers.knocking = true;
        } else if event.token >= PEER {
            self.stream_event((event.token & !PEER) as u32, event);
        } else {
            self.caller_event(queues, event.token, event);
        }
    }

    /// Does what is due by `now`. Returns whether anything was.
    fn take_timers(&mut self, queues: &mut Queues, now: Instant) -> bool {
        self.active.tick(now);
        let mut some = false;
        while let Some(timer) = self.timers.rung(now) {
            some = true;
            match timer {
                Timer::Dial(peer) => self.dial_timer(queues, peer, now),
                Timer::Strangers => self.strangers_timer(now),
                Timer::Accept => self.strangers.knocking = true,
                Timer::Room => self.room_timer(queues),
                Timer::Pulse => self.pulse_timer(queues),
                Timer::Senders => self.senders_timer(queues, now),
            }
        }
        some
    }

    /// What is readable for `poll(2)` while there are events.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.reactor.fd()
    }

    /// Says whether processes outnumber processors here. Then the kernel is asked for news only now and then between
    /// two sleeps: 8 ranks on 2 processors asked it 140 times in each barrier, which made 1 ms of 0.1, measured.
    #[inline]
    pub fn share_processors(&mut self, crowded: bool) {
        if self.crowded != crowded {
            self.crowded = crowded;
            self.watch_all();
            self.reactor.rest(crowded);
        }
    }

    /// When `progress` has to be called next if nothing happens on `fd`.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.timers.next()
    }

    /// Whether there is work that no event will tell.
    #[inline]
    pub(crate) fn has_work(&self) -> bool {
        !self.readable.is_empty()
            || !self.protocol.dirty.is_empty()
            || self.strangers.knocking
            || !self.protocol.slots.liars.is_empty()
    }
}

impl Fabric for Tcp {
    type Sleeper = Sleeper;

    fn endpoint(&self) -> Endpoint {
        Endpoint(self.job.me)
    }

    fn limits(&self) -> Limits {
        Limits {
            tag_bits: 32,
            context_bits: 32,
            inline_bytes: MEDIUM as usize,
            eager_bytes: EARLY as usize,
            unmatched_bytes: EARLY as usize,
            endpoints: self.job.ranks,
        }
    }

    fn connect(&mut self, to: Endpoint) {
        if !self.protocol.is_gone(to) {
            self.call(to.0);
        }
    }

    fn failed(&self, peer: Endpoint) -> bool {
        self.protocol.is_gone(peer)
    }

    #[inline]
    fn send(&mut self, queues: &mut Queues, message: Outgoing) -> Submit {
        if self.send_at_once(queues, &message) {
            return Submit::Complete(message.completion(Outcome::Done));
        }
        let (to, cookie) = (message.to, message.cookie);
        let submit = self.protocol.submit(message);
        if submit == Submit::Pending {
            let before = queues.done.len();
            self.pump(queues, to.0);
            if queues.done.len() == before + 1
                && let Some(end) = queues.done.pop_if(|end| end.cookie == cookie)
            {
                return Submit::Complete(end);
            }
        }
        submit
    }

    #[inline]
    fn send_at_once(&mut self, queues: &mut Queues, message: &Outgoing) -> bool {
        let total = message.data.len();
        total <= MEDIUM
            && message.mode != SendMode::Synchronous
            && self.send_short(queues, message, total)
    }

    fn cancel_send(&mut self, queues: &mut Queues, cookie: Cookie) -> bool {
        self.protocol.cancel(queues, cookie)
    }

    fn partial_bytes(&mut self, _source: Endpoint, name: u64) -> Option<u64> {
        self.protocol.arriving.get(name).map(|m| m.total)
    }

    fn claim(
        &mut self,
        queues: &mut Queues,
        source: Endpoint,
        tag: i32,
        name: u64,
        receive: Receive,
    ) -> Submit {
        let submit = self.protocol.claim(queues, source, tag, name, receive);
        if !self.protocol.is_gone(source) {
            self.pump(queues, source.0);
        }
        submit
    }

    fn matched(
        &mut self,
        queues: &mut Queues,
        source: Endpoint,
        bytes: u64,
        synchronous: Option<u64>,
    ) {
        self.protocol.taken(source.0, bytes, synchronous);
        if !self.protocol.dirty.is_empty() {
            self.pump(queues, source.0);
        }
    }

    #[inline]
    fn progress(&mut self, queues: &mut Queues) -> bool {
        // Where looks are rare, or one peer always has something, glances alone would hear of everything else too late.
        let news = self.glances > 0 && self.news.is_due();
        if self.glances == 0 && self.unwatched.is_any() {
            self.end_glances();
        }
        if self.glances > 0 && !news {
            // Reading is a system call, asking whether there is something to read another.
            self.glances -= 1;
            if self.read_recent(queues) {
                if !self.protocol.dirty.is_empty() {
                    self.pump_all(queues);
                }
                return true;
            }
            if !self.glances.is_multiple_of(BETWEEN) && !self.has_work() {
                return false;
            }
        }
        let (mut moved, read) = self.take_events(queues);
        // What was just read may be all that the events are about: it is handed up first.
        if !self.readable.is_empty() && (!read || news) {
            moved |= self.read_some(queues);
        }
        if self.strangers.knocking {
            moved |= self.take_callers(queues);
        }
        // Some timer is always set.
        if self.clock.is_due() {
            moved |= self.take_timers(queues, Instant::now());
        }
        if !self.protocol.dirty.is_empty() {
            moved |= self.pump_all(queues);
        }
        if let Some(peer) = self.protocol.slots.liars.pop() {
            self.lost(queues, peer, "it posted what can't be");
        }
        moved
    }

    #[inline]
    fn ready(&self) -> bool {
        // A timer that is due ends the sleep that would follow.
        self.waker.note(self.timers.next());
        // A sleep may follow.
        !self.watch_all() || self.has_work() || self.reactor.ready()
    }

    fn wait(&mut self, deadline: Option<Instant>) {
        self.wait_for_work(deadline);
    }

    fn sleeper(&self) -> Sleeper {
        Sleeper(self.waker.clone())
    }

    fn peer_failed(&mut self, queues: &mut Queues, peer: Endpoint) {
        if peer.index() >= self.routes.len() {
            return;
        }
        self.read_all(queues, peer.0);
        self.hang_up(peer.0);
        self.close_attempts(peer.0);
        self.routes[peer.index()].dial = None;
        self.protocol.fail(queues, peer.0);
    }

    fn next_failure(&mut self) -> Option<Endpoint> {
        self.failures.pop_front()
    }

    fn why_failed(&self, peer: Endpoint) -> Option<&str> {
        self.reason(peer)
    }

    fn flushed(&self) -> bool {
        self.protocol.sends.is_empty()
            && self.protocol.links.iter().all(|l| l.is_idle() || l.failed)
    }

    fn close(&mut self) {
        let mut queues = Queues::default();
        let peers = 0..self.routes.len() as u32;
        for peer in peers.clone() {
            if self.routes[peer as usize].stream.is_some() {
                self.protocol.control(peer, Frame::Bye);
                self.pump(&mut queues, peer);
            }
        }
        // Data that a closed socket receives make its host forget what it had still to send. So each stays open, and
        // is read, until the other host has everything.
        let end = Instant::now() + LINGER;
        let mut pause = Duration::from_micros(50);
        loop {
            let mut open = false;
            for peer in peers.clone() {
                self.read_all(&mut queues, peer);
                self.pump(&mut queues, peer);
                let Some(stream) = &self.routes[peer as usize].stream else {
                    continue;
                };
                let idle = self.protocol.links[peer as usize].is_idle();
                let pulse = memory::pulse(stream.fd.as_fd());
                if idle && pulse.is_none_or(|p| !p.unconfirmed) {
                    let _ = shutdown(&stream.fd, Shutdown::Both);
                    self.hang_up(peer);
                } else {
                    open = true;
                }
            }
            if !open || Instant::now() >= end {
                return;
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(5));
            self.take_events(&mut queues);
        }
    }
}
