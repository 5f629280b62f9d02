//! The ring itself: chains of steps go in, completions come out.
//!
//! Invariants:
//! * A chain gives exactly one completion, whatever comes of it. Its last step alone announces success
//!   (the others say `CQE_SKIP_SUCCESS`); the first that fails announces itself, and the kernel drops the
//!   completions of those that it thereby cancels. The name that a completion bears says which of the
//!   two it is. [`Act::Ask`] announces itself beside that.
//! * A chain is handed over in one submission, since a link does not reach into the next.
//! * What the kernel writes on its own account is either static or the word of an issue, which whoever hands it over keeps.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::time::{Duration, Instant};

use boundary::UserBuf;
use cad_run::State;
use cad_softirq::calc::{self, Formula, LEVEL};
use io_uring::types::{CancelBuilder, Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, Probe, cqueue, opcode, squeue};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{MemfdFlags, OFlags};

use crate::calls::DUE;
use crate::cells::{asked, option};

/// Steps that a chain may have: submissions that the ring takes at a time.
pub(crate) const CHAIN_MAX: usize = 256;
/// Completions that fit; the kernel keeps more for later, at some cost.
const COMPLETIONS: u32 = 1024;

/// How long ending chains that may not tell takes at most.
const END: Duration = Duration::from_secs(10);

/// What tokens are posted with, and what a message without data consists of.
static ONE: u64 = 1;
/// Where what nobody reads is written to.
static NOWHERE: AtomicU64 = AtomicU64::new(0);

/// What a completion is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Name {
    /// A chain of an issue; whether it is about the last step.
    Chain { slot: u32, chain: u32, last: bool },
    /// A chain of an issue has come to this question.
    Ask { slot: u32, ask: u32 },
    /// A descriptor that is watched.
    Watch(u32),
}

/// Issues that a name can tell apart.
pub(crate) const SLOTS_MAX: usize = 1 << 30;

impl Name {
    fn bits(self) -> u64 {
        match self {
            Name::Chain { slot, chain, last } => {
                u64::from(slot) << 32 | u64::from(chain) << 1 | u64::from(last)
            }
            Name::Ask { slot, ask } => 1 << 62 | u64::from(slot) << 32 | u64::from(ask),
            Name::Watch(id) => 2 << 62 | u64::from(id),
        }
    }

    fn of(bits: u64) -> Name {
        let slot = (bits >> 32) as u32 & (SLOTS_MAX as u32 - 1);
        let low = bits as u32;
        match bits >> 62 {
            0 => Name::Chain {
                slot,
                chain: low >> 1,
                last: low & 1 == 1,
            },
            1 => Name::Ask { slot, ask: low },
            _ => Name::Watch(low),
        }
    }
}

/// What a step does.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    /// Sends all of this memory.
    Send(UserBuf, u32),
    /// Fills this memory with what comes.
    Recv(UserBuf, u32),
    /// Sends one byte of no meaning.
    SendByte,
    /// Receives one byte of no meaning.
    RecvByte,
    /// Takes a unit of a token, when there is one.
    Take,
    /// Adds a unit to a token.
    Post,
    /// Tells the rank that the chain has come this far.
    Ask(u32),
    /// Loads a cell with this memory; combines this memory with it; stores it to this memory.
    Load(UserBuf, u32, u32),
    Combine(UserBuf, u32, u32, Formula),
    Give(UserBuf, u32, u32),
    /// Makes this word say that a calculation is due.
    Due(&'static AtomicU32),
    /// Makes this word say [`State::Done`].
    End(*mut u32),
}

/// A step of a chain, and what it is done to.
#[derive(Clone, Debug)]
pub(crate) struct Step<'a> {
    pub act: Act,
    pub fd: Option<BorrowedFd<'a>>,
}

/// A completion.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Completion {
    pub name: Name,
    /// As the system call's, or minus the error.
    pub result: i32,
    /// Whether a watch goes on.
    pub more: bool,
}

/// Why this executor can't be used, in words for a person.
#[derive(Debug)]
pub struct Unusable(pub(crate) String);

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unusable {}

/// A ring, for the thread that made it.
pub(crate) struct Uring {
    ring: IoUring,
    /// A file whose first four bytes are [`State::Done`], the next four [`DUE`].
    words_file: OwnedFd,
    told: Vec<Completion>,
    /// Entries that are in line.
    in_line: usize,
    /// Set when the kernel took a part of a chain only: nothing is handed over any more, since
    /// the rest would run as a chain of its own.
    broken: bool,
}

impl Uring {
    /// A ring that was tried out.
    ///
    /// # Errors
    /// In words, what is missing.
    pub fn new() -> Result<Uring, Unusable> {
        let setup = IoUring::builder()
            .setup_cqsize(COMPLETIONS)
            .build(CHAIN_MAX as u32);
        let ring = setup.map_err(|e| Unusable(refusal(&e)))?;
        lacks(&ring).map_or(Ok(()), |what| Err(Unusable(what)))?;
        let system = |e: io::Error| Unusable(format!("the system refuses a descriptor: {e}"));
        let mut uring = Uring {
            ring,
            words_file: words_file().map_err(system)?,
            told: Vec::new(),
            in_line: 0,
            broken: false,
        };
        uring.try_out()?;
        Ok(uring)
    }

    /// Makes what the kernel takes as a chain.
    pub fn chain(&self, slot: u32, chain: u32, steps: &[Step<'_>], into: &mut Vec<squeue::Entry>) {
        for (i, step) in steps.iter().enumerate() {
            let last = i + 1 == steps.len();
            let mut name = Name::Chain { slot, chain, last };
            let mut flags = squeue::Flags::empty();
            if !last {
                flags |= squeue::Flags::IO_LINK | squeue::Flags::SKIP_SUCCESS;
            }
            if let Act::Ask(ask) = step.act {
                name = Name::Ask { slot, ask };
                flags -= squeue::Flags::SKIP_SUCCESS;
            }
            into.push(self.entry(step).flags(flags).user_data(name.bits()));
        }
    }

    /// Puts whole [chains](Uring::chain) in line, to be handed over with [`flush`](Uring::flush) or before.
    ///
    /// # Errors
    /// The kernel takes nothing any more, or there are more than [`CHAIN_MAX`] entries.
    ///
    /// # Safety
    /// The memory of the steps, words too, is valid, and their descriptors stay open, until the chains' completions
    /// were taken.
    pub unsafe fn push(&mut self, entries: &[squeue::Entry]) -> io::Result<()> {
        if self.broken || entries.len() > CHAIN_MAX {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        // SAFETY: the caller's contract, and the rest is static. (Without room nothing is pushed.)
        if unsafe { self.ring.submission().push_multiple(entries) }.is_err() {
            self.flush()?;
            // SAFETY: as above.
            let pushed = unsafe { self.ring.submission().push_multiple(entries) };
            pushed.map_err(|_| io::Error::from(io::ErrorKind::WouldBlock))?;
        }
        self.in_line += entries.len();
        Ok(())
    }

    fn entry(&self, step: &Step<'_>) -> squeue::Entry {
        const ALL: i32 = libc::MSG_WAITALL | libc::MSG_NOSIGNAL;
        // A step without a descriptor that needs one fails, as it should.
        let fd = Fd(step.fd.map_or(-1, |fd| fd.as_raw_fd()));
        let one = (&raw const ONE).cast::<u8>();
        let nowhere = NOWHERE.as_ptr().cast::<u8>();
        let words = Fd(self.words_file.as_raw_fd());
        match &step.act {
            Act::Send(from, n) => opcode::Send::new(fd, from.as_mut_ptr(), *n)
                .flags(ALL)
                .build(),
            Act::Recv(to, n) => opcode::Recv::new(fd, to.as_mut_ptr(), *n)
                .flags(ALL)
                .build(),
            Act::SendByte => opcode::Send::new(fd, one, 1).flags(ALL).build(),
            Act::RecvByte => opcode::Recv::new(fd, nowhere, 1).flags(ALL).build(),
            Act::Take => opcode::Read::new(fd, nowhere, 8).build(),
            Act::Post => opcode::Write::new(fd, one, 8).build(),
            Act::Ask(_) => opcode::Nop::new().build(),
            Act::Load(from, n, cell) => option(fd, LEVEL, calc::load(*cell), *from, *n),
            Act::Combine(from, n, cell, formula) => {
                option(fd, LEVEL, calc::combine(*cell, *formula), *from, *n)
            }
            Act::Give(to, n, cell) => {
                let level = libc::SOL_SOCKET as u32;
                asked(option(fd, level, calc::give(*cell), *to, *n))
            }
            Act::End(word) => opcode::Read::new(words, word.cast(), 4).build(),
            Act::Due(word) => opcode::Read::new(words, word.as_ptr().cast(), 4)
                .offset(4)
                .build(),
        }
    }

    /// The result with which a step succeeds.
    pub fn success(act: &Act) -> i32 {
        match act {
            Act::Send(_, n) | Act::Recv(_, n) => i32::try_from(*n).unwrap_or(i32::MAX),
            Act::SendByte | Act::RecvByte => 1,
            Act::Take | Act::Post => 8,
            Act::Ask(_) | Act::Load(..) | Act::Combine(..) => 0,
            Act::Give(_, n, _) => i32::try_from(*n).unwrap_or(i32::MAX),
            Act::End(_) | Act::Due(_) => 4,
        }
    }

    /// Whether the kernel takes anything.
    pub fn is_broken(&self) -> bool {
        self.broken
    }

    /// Hands over what is in line.
    ///
    /// # Errors
    /// The kernel took none or a part of it; it takes nothing any more from now on.
    pub fn flush(&mut self) -> io::Result<()> {
        let all = self.in_line;
        if all == 0 {
            return Ok(());
        }
        if self.broken {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        loop {
            // SAFETY: there is no argument.
            match unsafe { self.ring.submitter().enter::<()>(all as u32, 0, 0, None) } {
                Ok(n) if n == all => {
                    self.in_line = 0;
                    return Ok(());
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                // Its completions have to be taken first.
                Err(e) if e.raw_os_error() == Some(libc::EBUSY) => self.collect(),
                other => {
                    self.broken = true;
                    let short = || io::Error::other("the kernel took a part of a submission");
                    return Err(other.err().unwrap_or_else(short));
                }
            }
        }
    }

    /// Tells of each event among `events` (as of `poll`) at a descriptor, until it is closed.
    ///
    /// # Errors
    /// As of [`flush`](Uring::flush).
    pub fn watch(&mut self, fd: BorrowedFd<'_>, events: i16, id: u32) -> io::Result<()> {
        let poll = opcode::PollAdd::new(Fd(fd.as_raw_fd()), u32::from(events as u16)).multi(true);
        let entry = poll.build().user_data(Name::Watch(id).bits());
        if self.ring.submission().is_full() {
            self.flush()?;
        }
        // SAFETY: a poll refers to no memory.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        pushed.map_err(|_| io::Error::from(io::ErrorKind::WouldBlock))?;
        self.in_line += 1;
        self.flush()
    }

    /// Ends a watch, and with it the kernel's hold on the descriptor.
    pub fn unwatch(&mut self, id: u32) {
        let name = CancelBuilder::user_data(Name::Watch(id).bits()).all();
        // There is none, if the watch has ended by itself.
        let _ = self.ring.submitter().register_sync_cancel(None, name);
    }

    /// Cancels what a chain is at, if it is at something now; whether it was. Its completion tells.
    pub fn cancel(&mut self, slot: u32, chain: u32) -> bool {
        let mut found = false;
        for last in [false, true] {
            let name = Name::Chain { slot, chain, last };
            // A chain is at one step at a time. (Asked for all, the kernel doesn't tell whether there was one.)
            let builder = CancelBuilder::user_data(name.bits());
            let result = self.ring.submitter().register_sync_cancel(None, builder);
            // Any error but that there is none leaves it to be tried again.
            found |= !result.is_err_and(|e| e.raw_os_error() == Some(libc::ENOENT));
        }
        found
    }

    /// Cancels the chains of a slot until they are at nothing any more, whether they tell or not.
    pub fn end(&mut self, slot: u32, chains: u32) {
        let (mut idle, deadline) = (0, Instant::now() + END);
        while idle < 2 && Instant::now() < deadline {
            let found = (0..chains).fold(false, |found, chain| self.cancel(slot, chain) | found);
            // A chain between two steps is not found: this has the kernel do what it has put off, so it is at the next
            // one, or over. Should it refuse, the next round tells.
            let _ = self.enter(0, None);
            idle = if found { 0 } else { idle + 1 };
        }
    }

    /// Whether there is a completion to be taken.
    pub fn is_ready(&mut self) -> bool {
        !self.told.is_empty()
            || !self.ring.completion().is_empty()
            || self.ring.submission().cq_overflow()
    }

    /// What becomes readable when there is a completion.
    pub fn fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the ring keeps its descriptor open as long as it lives, and is borrowed.
        unsafe { BorrowedFd::borrow_raw(self.ring.as_raw_fd()) }
    }

    /// Takes the completions that are there. No system call, unless there are more than fit.
    pub fn take(&mut self, into: &mut Vec<Completion>) {
        self.collect();
        into.append(&mut self.told);
    }

    fn collect(&mut self) {
        loop {
            let all = self.ring.completion().map(|c| Completion {
                name: Name::of(c.user_data()),
                result: c.result(),
                more: cqueue::more(c.flags()),
            });
            self.told.extend(all);
            if !self.ring.submission().cq_overflow() || self.enter(0, None).is_err() {
                return;
            }
        }
    }

    /// Sleeps until there is a completion, or the deadline passes; it may return early.
    pub fn wait(&mut self, deadline: Option<Instant>) {
        if self.told.is_empty() && self.enter(1, deadline).is_err() {
            // Interrupted, or over its time: an early return like any other. Should the kernel refuse
            // to wait at all, this keeps the caller from spinning.
            std::thread::yield_now();
        }
    }

    /// Enters the kernel without handing anything over.
    fn enter(&mut self, completions: u32, deadline: Option<Instant>) -> io::Result<usize> {
        let left = deadline.map(|d| d.saturating_duration_since(Instant::now()));
        let span = left.map(Timespec::from);
        let mut args = SubmitArgs::new();
        if let Some(span) = &span {
            args = args.timespec(span);
        }
        let flags = io_uring::EnterFlags::GETEVENTS | io_uring::EnterFlags::EXT_ARG;
        // SAFETY: nothing is submitted; `EXT_ARG` says that the argument is such a structure, which
        // lives during the call, as does the time that it points to.
        unsafe {
            self.ring
                .submitter()
                .enter(0, completions, flags.bits(), Some(&args))
        }
    }

    /// Runs two chains that use every kind of step, one waiting for the other.
    fn try_out(&mut self) -> Result<(), Unusable> {
        let wrong = |what: &str| Unusable(format!("trying the ring out failed: {what}"));
        let system = |e: io::Error| wrong(&e.to_string());
        let (near, far) = sys::unix::pair(sys::unix::Kind::Stream).map_err(system)?;
        let token = token().map_err(system)?;
        let mut memory = Box::new([*b"chain", [0; 5]]);
        let bufs = memory.each_mut().map(|m| UserBuf::of_array(m));
        let word = Arc::new(AtomicU32::new(State::Pending as u32));
        let step = |act, fd| Step { act, fd: Some(fd) };
        let first = [
            step(Act::Take, token.as_fd()),
            step(Act::Recv(bufs[1], 5), near.as_fd()),
            step(Act::RecvByte, near.as_fd()),
            step(Act::End(word.as_ptr()), near.as_fd()),
        ];
        let second = [
            step(Act::Send(bufs[0], 5), far.as_fd()),
            step(Act::SendByte, far.as_fd()),
            step(Act::Ask(7), far.as_fd()),
            step(Act::Post, token.as_fd()),
        ];
        let mut entries = Vec::new();
        self.chain(0, 0, &first, &mut entries);
        self.chain(0, 1, &second, &mut entries);
        // SAFETY: this function outlives the chains: it goes on when both have given their completion; where
        // that can't be told, the memory is leaked (below). The descriptors are not closed before.
        let pushed = unsafe { self.push(&entries) };
        let pushed = pushed.and_then(|()| self.flush());
        let deadline = Instant::now() + Duration::from_secs(5);
        let (mut seen, mut over) = (Vec::new(), 0);
        while pushed.is_ok() && over < 2 {
            let mut some = Vec::new();
            self.take(&mut some);
            over += some
                .iter()
                .filter(|c| !matches!(c.name, Name::Ask { .. }))
                .count();
            seen.extend(some.iter().map(|c| (c.name, c.result)));
            if over < 2 && Instant::now() >= deadline {
                self.cancel(0, 0);
                self.cancel(0, 1);
            }
            if over < 2 {
                self.wait(Some(Instant::now() + Duration::from_millis(100)));
            }
        }
        if let Err(e) = pushed {
            std::mem::forget((memory, word));
            return Err(system(e));
        }
        let name = |chain| Name::Chain {
            slot: 0,
            chain,
            last: true,
        };
        let expected = [
            (Name::Ask { slot: 0, ask: 7 }, 0),
            (name(1), Uring::success(&Act::Post)),
            (name(0), Uring::success(&Act::End(word.as_ptr()))),
        ];
        let all = expected.iter().all(|e| seen.contains(e)) && seen.len() == expected.len();
        let ended = word.load(std::sync::atomic::Ordering::Acquire) == State::Done as u32;
        if all && ended && memory[0] == memory[1] {
            return Ok(());
        }
        Err(wrong(&format!("two small chains ended with {seen:?}")))
    }
}

/// A token without units: what takes of it waits, each unit is taken by one.
pub(crate) fn token() -> io::Result<OwnedFd> {
    let flags = EventfdFlags::SEMAPHORE | EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC;
    Ok(eventfd(0, flags)?)
}

/// The file that words are read from. It does not block, or the kernel would leave reading it to a thread.
fn words_file() -> io::Result<OwnedFd> {
    let file = rustix::fs::memfd_create("yamabiko-words", MemfdFlags::CLOEXEC)?;
    let words = [State::Done as u32, DUE].map(u32::to_ne_bytes);
    let bytes = words.as_flattened();
    if rustix::io::pwrite(&file, bytes, 0)? != bytes.len() {
        return Err(io::ErrorKind::WriteZero.into());
    }
    rustix::fs::fcntl_setfl(&file, OFlags::NONBLOCK)?;
    Ok(file)
}

fn refusal(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::ENOSYS) => "this kernel has no io_uring".to_owned(),
        Some(libc::EPERM) => {
            "io_uring is forbidden here, by kernel.io_uring_disabled or by a seccomp \
                              profile as containers have"
                .to_owned()
        }
        _ => format!("making an io_uring failed: {error}"),
    }
}

/// What a ring lacks, in words.
fn lacks(ring: &IoUring) -> Option<String> {
    let features = ring.params();
    for (there, what) in [
        (features.is_feature_ext_arg(), "waiting with a time limit"),
        (
            features.is_feature_skip_cqe_on_success(),
            "chains that tell once",
        ),
        (features.is_feature_linked_file(), "files of linked steps"),
        (features.is_feature_fast_poll(), "waiting without a thread"),
        (features.is_feature_nodrop(), "keeping completions"),
    ] {
        if !there {
            return Some(format!("this kernel's io_uring lacks {what}"));
        }
    }
    let mut probe = Probe::new();
    if let Err(e) = ring.submitter().register_probe(&mut probe) {
        return Some(format!("io_uring does not tell what it can do: {e}"));
    }
    if let Some(what) = missing(|code| probe.is_supported(code)) {
        return Some(format!("this kernel's io_uring lacks {what}"));
    }
    let nothing = CancelBuilder::user_data(u64::MAX).all();
    match ring.submitter().register_sync_cancel(None, nothing) {
        Err(e) if e.raw_os_error() == Some(libc::ENOENT) => None,
        Ok(()) => None,
        Err(e) => Some(format!("this kernel's io_uring can't cancel at once: {e}")),
    }
}

/// The opcodes without which there is no ring. (Commands to sockets, for calculations by the kernel, are tried out where these are wanted.)
const NEEDED: [(u8, &str); 6] = [
    (opcode::Nop::CODE, "NOP"),
    (opcode::Read::CODE, "READ"),
    (opcode::Write::CODE, "WRITE"),
    (opcode::Send::CODE, "SEND"),
    (opcode::Recv::CODE, "RECV"),
    (opcode::PollAdd::CODE, "POLL_ADD"),
];

/// The first needed opcode that there isn't.
fn missing(is_supported: impl Fn(u8) -> bool) -> Option<&'static str> {
    let mut lacking = NEEDED.iter().filter(|(code, _)| !is_supported(*code));
    lacking.next().map(|(_, what)| *what)
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
        assert_eq!(
            missing(|code| code == opcode::UringCmd16::CODE),
            Some("NOP")
        );
    }

    #[test]
    fn names_come_back() {
        for name in [
            Name::Watch(u32::MAX),
            Name::Ask {
                slot: SLOTS_MAX as u32 - 1,
                ask: 3,
            },
            Name::Chain {
                slot: 5,
                chain: 32_768,
                last: true,
            },
            Name::Chain {
                slot: 0,
                chain: 0,
                last: false,
            },
        ] {
            assert_eq!(Name::of(name.bits()), name);
        }
    }

    #[test]
    fn chains_that_do_not_tell_can_be_ended() {
        let Ok(mut uring) = Uring::new() else {
            return;
        };
        let pairs = [0, 1, 2].map(|_| sys::unix::pair(sys::unix::Kind::Stream).unwrap());
        let mut memory = [[0u8; 4]; 3];
        let bufs = memory.each_mut().map(|m| UserBuf::of_array(m));
        for (chain, ((near, far), buf)) in (0..).zip(pairs.iter().zip(bufs)) {
            let step = |act, fd| Step { act, fd: Some(fd) };
            let steps = [
                step(Act::RecvByte, near.as_fd()),
                step(Act::Recv(buf, 4), near.as_fd()),
                step(Act::Post, near.as_fd()),
            ];
            let mut entries = Vec::new();
            uring.chain(5, chain, &steps, &mut entries);
            // SAFETY: the memory and the sockets outlive the chains, which are ended below.
            unsafe { uring.push(&entries).unwrap() };
            uring.flush().unwrap();
            // One waits at its first step, one between two, one at the second.
            if chain > 0 {
                rustix::io::write(far, b"x").unwrap();
            }
            if chain == 2 {
                let _ = uring.enter(0, None);
            }
        }
        uring.end(5, 3);
        for (near, far) in &pairs {
            rustix::io::write(far, b"late").unwrap();
            let _ = uring.enter(0, None);
            assert_eq!(near.receive(&mut [0; 8], None).unwrap().bytes, 4);
        }
        assert_eq!(memory, [[0; 4]; 3], "nobody has received any more");
    }

    #[test]
    fn refusals_are_told_in_words() {
        let told = |code| refusal(&io::Error::from_raw_os_error(code));
        assert!(told(libc::EPERM).contains("forbidden"));
        assert!(told(libc::ENOSYS).contains("no io_uring"));
        assert!(told(libc::ENOMEM).contains("failed"));
    }
}
