//! A process's start, said again and again by the kernel while the process computes: io_uring's TIMEOUT, then SEND, then the next.
//! (A timer of eBPF has no packet, so it can't send.)
//!
//! Invariants: what the kernel reads, the packet and the spans, is kept here unchanged until the chain has given its completion,
//! of which there is one whatever happens; if it does not come, the memory is leaked. Who calls it: tests so far. It is for a
//! rank that has started a collective that isn't over at once; the engine says its starts again itself, when it is in MPI.

use crate::rank::{Member, PACKET_MAX};
use io_uring::types::{CancelBuilder, Fd, SubmitArgs, TimeoutFlags, Timespec};
use io_uring::{IoUring, opcode, squeue};
use std::io;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

/// How often it is said again. Twice as long passes each time, so the last one is 17 minutes after the start; a rank that makes no
/// call for as long has to say it itself. Each time adds about 0.5 us to what it costs to arm.
const TIMES: usize = 20;
/// After how long first, in microseconds: a loss on a link of one site is noticed so, and no collective on a good one takes as long, unless
/// a rank is late.
const FIRST_US: u64 = 1000;

/// What chains are called.
const CHAIN: u64 = 1;
/// How long a chain may take to end when it is cancelled.
const END: Duration = Duration::from_secs(10);

/// What the kernel reads.
struct Kept {
    spans: [Timespec; TIMES],
    packet: Vec<u8>,
    socket: UdpSocket,
}

impl Kept {
    fn new(socket: UdpSocket) -> Box<Kept> {
        let span = |i: usize| Timespec::from(Duration::from_micros(FIRST_US << i));
        Box::new(Kept {
            spans: std::array::from_fn(span),
            packet: Vec::with_capacity(PACKET_MAX),
            socket,
        })
    }
}

/// A ring for one member, with at most one chain under way.
pub struct Resend {
    ring: IoUring,
    /// None after a leak.
    kept: Option<Box<Kept>>,
    armed: bool,
}

impl Resend {
    /// A ring with nothing to do.
    ///
    /// # Errors
    /// The kernel's: io_uring is refused, or too old, or there are no descriptors left.
    pub fn new(member: &Member) -> io::Result<Resend> {
        let ring = IoUring::new(2 * TIMES as u32)?;
        if !ring.params().is_feature_skip_cqe_on_success() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        Ok(Resend {
            ring,
            kept: Some(Kept::new(member.socket()?)),
            armed: false,
        })
    }

    /// From now on the kernel says again what `member`, for whom this was made, has started, until [`disarm`](Resend::disarm).
    ///
    /// # Errors
    /// The kernel's. Nothing is said again then.
    pub fn arm(&mut self, member: &Member) -> io::Result<()> {
        self.disarm()?;
        let kept = self.kept.as_mut().ok_or(io::ErrorKind::TimedOut)?;
        kept.packet.clear();
        kept.packet.extend_from_slice(member.said());
        let fd = Fd(kept.socket.as_raw_fd());
        let (packet, bytes) = (kept.packet.as_ptr(), kept.packet.len() as u32);
        for (i, span) in kept.spans.iter().enumerate() {
            let wait = opcode::Timeout::new(span).flags(TimeoutFlags::ETIME_SUCCESS);
            let send = opcode::Send::new(fd, packet, bytes).flags(libc::MSG_NOSIGNAL);
            let linked = squeue::Flags::IO_LINK | squeue::Flags::SKIP_SUCCESS;
            let last = i + 1 == TIMES;
            let flags = if last { squeue::Flags::empty() } else { linked };
            let entries = [
                wait.build().flags(linked).user_data(CHAIN),
                send.build().flags(flags).user_data(CHAIN),
            ];
            // SAFETY: spans, packet and descriptor are kept until the chain's completion, or leaked.
            let pushed = unsafe { self.ring.submission().push_multiple(&entries) };
            pushed.map_err(|_| io::Error::from(io::ErrorKind::WouldBlock))?;
        }
        self.armed = true;
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
        while self.armed {
            if self.ring.completion().next().is_some() {
                self.armed = false;
                break;
            }
            if Instant::now() > deadline {
                self.leak();
                return Err(io::ErrorKind::TimedOut.into());
            }
            // Between two steps there is nothing to be cancelled: entering the kernel brings the next one.
            let name = CancelBuilder::user_data(CHAIN).all();
            let _ = self.ring.submitter().register_sync_cancel(None, name);
            let args = SubmitArgs::new();
            let flags = io_uring::EnterFlags::GETEVENTS | io_uring::EnterFlags::EXT_ARG;
            // SAFETY: nothing is submitted, and the argument is what the flag says.
            let entered = unsafe { self.ring.submitter().enter(0, 0, flags.bits(), Some(&args)) };
            if entered.is_err() {
                std::thread::yield_now();
            }
        }
        Ok(())
    }

    /// Leaves what the kernel may read to it for ever. Nothing can be armed any more.
    fn leak(&mut self) {
        std::mem::forget(self.kept.take());
        self.armed = false;
    }
}

impl Drop for Resend {
    fn drop(&mut self) {
        // If it doesn't end, the memory was leaked.
        let _ = self.disarm();
    }
}
