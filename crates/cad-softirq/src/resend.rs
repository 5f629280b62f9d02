//! A process's start, said again and again by the kernel while the process computes: io_uring's TIMEOUT, then SEND, then the next.
//! (A timer of eBPF has no packet, so it can't send.)
//!
//! To hand a chain of these to the kernel costs as much as several starts, so one serves many: it says what is in its packet
//! when it comes to it, which is the last start, and one that is over is not taken again. A chain that has become slow is replaced.
//!
//! Invariants: what the kernel reads, the packet and the spans, is kept here until the chain has given its last completion,
//! or leaked; the packet's words are atomics, and its number is 0, which no collective has, while the others change: the kernel reads them
//! between any two instructions. Who calls it: the engine, with each start that isn't over at once.

use crate::layout::header;
use crate::rank::{Member, PACKET_MAX};
use io_uring::types::{CancelBuilder, Fd, SubmitArgs, TimeoutFlags, Timespec};
use io_uring::{IoUring, Probe, opcode, squeue};
use std::io;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::time::{Duration, Instant};

/// How often a chain says it. Twice as long passes each time, so the last one is 17 minutes after its begin; a rank that makes no
/// call for as long has to say it itself. Each time adds about 0.5 us to what it costs to make the chain.
const TIMES: usize = 20;
/// After how long first, in microseconds: a loss on a link of one site is noticed so, and no collective on a good one takes as long, unless
/// a rank is late.
const FIRST_US: u64 = 1000;
/// A start that finds its chain as far is given a new one: it would be said again after 32 ms at the earliest.
const SLOW: usize = 5;

/// The opcodes without which the kernel can't.
const NEEDED: [(u8, &str); 2] = [
    (opcode::Timeout::CODE, "TIMEOUT"),
    (opcode::Send::CODE, "SEND"),
];

/// How long a chain may take to end when it is cancelled.
const END: Duration = Duration::from_secs(10);

/// A start, as the kernel may read it while it changes.
struct Packet([AtomicU64; PACKET_MAX / 8]);
const _: () = assert!(PACKET_MAX.is_multiple_of(8) && header::NUMBER % 8 == 0);

impl Packet {
    fn new() -> Packet {
        Packet(std::array::from_fn(|_| AtomicU64::new(0)))
    }

    fn put(&self, said: &[u8]) {
        let number = header::NUMBER as usize / 8;
        self.0[number].store(0, Ordering::Relaxed);
        fence(Ordering::Release);
        let (words, _) = said.as_chunks();
        let words = words.iter().map(|word| u64::from_ne_bytes(*word));
        let all = || self.0.iter().zip(words.clone()).enumerate();
        for (_, (to, word)) in all().filter(|(at, _)| *at != number) {
            to.store(word, Ordering::Relaxed);
        }
        if let Some((_, (to, word))) = all().nth(number) {
            to.store(word, Ordering::Release);
        }
    }
}

/// What the kernel reads.
struct Kept {
    spans: [Timespec; TIMES],
    packet: Packet,
    socket: UdpSocket,
}

/// A ring for one member, with at most one chain under way.
pub struct Resend {
    ring: IoUring,
    /// None after a leak.
    kept: Option<Box<Kept>>,
    /// What the last chain is called.
    chain: u64,
    /// How often it has said it, if it is under way.
    armed: Option<usize>,
    /// How often it was said by earlier ones.
    before: u64,
}

impl Resend {
    /// A ring with nothing to do.
    ///
    /// # Errors
    /// The kernel's: io_uring is refused, or lacks something, or there are no descriptors left.
    pub fn new(member: &Member) -> io::Result<Resend> {
        let ring = ring()?;
        let span = |i: usize| Timespec::from(Duration::from_micros(FIRST_US << i));
        let kept = Box::new(Kept {
            spans: std::array::from_fn(span),
            packet: Packet::new(),
            socket: member.socket()?,
        });
        Ok(Resend {
            ring,
            kept: Some(kept),
            chain: 0,
            armed: None,
            before: 0,
        })
    }

    /// From now on the kernel says again what `member`, for whom this was made, has started last.
    ///
    /// # Errors
    /// The kernel's. Nothing is said again then.
    pub fn follow(&mut self, member: &Member) -> io::Result<()> {
        let kept = self.kept.as_ref().ok_or(io::ErrorKind::TimedOut)?;
        kept.packet.put(member.said());
        self.look();
        if self.armed.is_some_and(|said| said < SLOW) {
            return Ok(());
        }
        self.disarm()?;
        self.arm()
    }

    /// How often the kernel has said something again.
    pub fn said(&mut self) -> u64 {
        self.look();
        self.before + self.armed.unwrap_or(0) as u64
    }

    /// Sees how far the chain is.
    fn look(&mut self) {
        while let Some(entry) = self.ring.completion().next() {
            let Some(said) = self.armed.as_mut() else {
                continue;
            };
            // What was linked behind a send that failed tells so, too.
            if entry.user_data() != self.chain {
                continue;
            }
            // Only sends tell, and whatever ends the chain.
            *said += usize::from(entry.result() > 0);
            if entry.result() <= 0 || *said == TIMES {
                self.before += *said as u64;
                self.armed = None;
            }
        }
    }

    fn arm(&mut self) -> io::Result<()> {
        let kept = self.kept.as_ref().ok_or(io::ErrorKind::TimedOut)?;
        self.chain += 1;
        let fd = Fd(kept.socket.as_raw_fd());
        for (i, span) in kept.spans.iter().enumerate() {
            let wait = opcode::Timeout::new(span).flags(TimeoutFlags::ETIME_SUCCESS);
            let send = opcode::Send::new(fd, kept.packet.0.as_ptr().cast(), PACKET_MAX as u32);
            let send = send.flags(libc::MSG_NOSIGNAL);
            let last = match i + 1 == TIMES {
                true => squeue::Flags::empty(),
                false => squeue::Flags::IO_LINK,
            };
            let linked = squeue::Flags::IO_LINK | squeue::Flags::SKIP_SUCCESS;
            let entries = [
                wait.build().flags(linked).user_data(self.chain),
                send.build().flags(last).user_data(self.chain),
            ];
            // SAFETY: spans, packet and descriptor are kept until the chain's last completion, or leaked.
            let pushed = unsafe { self.ring.submission().push_multiple(&entries) };
            pushed.map_err(|_| io::Error::from(io::ErrorKind::WouldBlock))?;
        }
        self.armed = Some(0);
        match self.ring.submit() {
            Ok(taken) if taken == 2 * TIMES => Ok(()),
            // A part of a chain would be one by itself.
            other => {
                self.leak();
                let short = || io::Error::other("the kernel took a part of a submission");
                Err(other.err().unwrap_or_else(short))
            }
        }
    }

    /// Ends that. Nothing is said again after it.
    ///
    /// # Errors
    /// The kernel does not end it; it keeps what it may still read.
    pub fn disarm(&mut self) -> io::Result<()> {
        let deadline = Instant::now() + END;
        self.look();
        while self.armed.is_some() {
            if Instant::now() > deadline {
                self.leak();
                return Err(io::ErrorKind::TimedOut.into());
            }
            // Between two steps there is nothing to be cancelled: entering the kernel brings the next one.
            let name = CancelBuilder::user_data(self.chain).all();
            let _ = self.ring.submitter().register_sync_cancel(None, name);
            let args = SubmitArgs::new();
            let flags = io_uring::EnterFlags::GETEVENTS | io_uring::EnterFlags::EXT_ARG;
            // SAFETY: nothing is submitted, and the argument is what the flag says.
            let entered = unsafe { self.ring.submitter().enter(0, 0, flags.bits(), Some(&args)) };
            if entered.is_err() {
                std::thread::yield_now();
            }
            self.look();
        }
        Ok(())
    }

    /// Leaves what the kernel may read to it for ever. Nothing can be armed any more.
    fn leak(&mut self) {
        std::mem::forget(self.kept.take());
        self.armed = None;
    }
}

/// Whether the kernel can do that here.
///
/// # Errors
/// The kernel's: io_uring is refused, or lacks something.
pub fn usable() -> io::Result<()> {
    ring().map(drop)
}

/// A ring that can do it.
fn ring() -> io::Result<IoUring> {
    let ring = IoUring::new(2 * TIMES as u32)?;
    let lacks = |what| io::Error::other(format!("this kernel's io_uring lacks {what}"));
    if !ring.params().is_feature_skip_cqe_on_success() {
        return Err(lacks("chains that tell once"));
    }
    let mut probe = Probe::new();
    ring.submitter().register_probe(&mut probe)?;
    match missing(|code| probe.is_supported(code)) {
        Some(what) => Err(lacks(what)),
        None => Ok(ring),
    }
}

/// The first needed opcode that there isn't.
fn missing(is_supported: impl Fn(u8) -> bool) -> Option<&'static str> {
    let mut lacking = NEEDED.iter().filter(|(code, _)| !is_supported(*code));
    lacking.next().map(|(_, what)| *what)
}

impl Drop for Resend {
    fn drop(&mut self) {
        // If it doesn't end, the memory was leaked.
        let _ = self.disarm();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_opcode_that_is_missing_is_named() {
        for (masked, what) in NEEDED {
            assert_eq!(missing(|code| code != masked), Some(what));
        }
        assert_eq!(missing(|_| true), None);
    }
}
