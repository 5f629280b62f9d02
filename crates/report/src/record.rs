//! One rank's record: its words, its writer and its reader.
//!
//! Word 0 is a sequence number, odd while the record is being written (a seqlock). All words are
//! atomics, so a torn reading is possible only where the writer died in the middle, and harmless.

use crate::{FD_VARIABLE, map};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use types::consts;

/// Words in a record: two cache lines, so that ranks do not disturb each other.
pub(crate) const WORDS: usize = 16;

const SEQUENCE: usize = 0;
const WHO: usize = 1; // pid | phase << 32 | length of the name << 40 | bereft << 48 | stopped << 49
const ENVELOPE: usize = 2; // peer | tag << 32
const BYTES: usize = 3;
const CONTEXT: usize = 4; // context | peer's rank in the job, plus 1 if it is told << 32
const SINCE: usize = 5;
const NAME: usize = 6;
const NAME_MAX: usize = (WORDS - NAME) * 8;

const BEREFT: u64 = 1 << 48;
const STOPPED: u64 = 1 << 49;

/// Value of a peer or tag that does not apply (a collective has no peer).
pub const NONE: i32 = i32::MIN;

/// What a rank is doing, as far as MPI knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Phase {
    /// MPI is not initialised (perhaps never will be).
    NotStarted = 0,
    /// MPI is initialised and the rank computes, or is in a call that need not wait.
    Running,
    /// A call waits; the record's other fields say which.
    Waiting,
    /// MPI is finalised.
    Finalized,
    /// The rank called `MPI_Abort`, or an error handler did.
    Aborted,
}

impl Phase {
    /// The phase of this number (`phase as u8`); of any other, [`Phase::NotStarted`].
    pub fn from_number(number: u8) -> Phase {
        match number {
            1 => Phase::Running,
            2 => Phase::Waiting,
            3 => Phase::Finalized,
            4 => Phase::Aborted,
            _ => Phase::NotStarted,
        }
    }
}

/// A rank's own record, for writing. Under another launcher there is none, and the methods do
/// nothing.
///
/// One thread at a time writes (the engine holds its lock); concurrent writers would only garble
/// what a reader sees.
pub struct ReportPage {
    own: Option<Own>,
    pid: u32,
    bereft: AtomicBool,
}

/// A rank's part of the page, and what the launcher tells all ranks in it.
#[derive(Clone, Copy)]
pub(crate) struct Own {
    pub(crate) record: &'static [AtomicU64],
    pub(crate) deaths: &'static AtomicU64,
    pub(crate) gone: &'static [AtomicU64],
    pub(crate) left: &'static [AtomicU64],
}

impl ReportPage {
    /// Maps the record of `rank` from the page the launcher passed, if it did. To be called only in
    /// a job that a launcher started: a job of one may have inherited somebody else's page.
    pub fn join(rank: u32) -> ReportPage {
        ReportPage {
            own: map::inherited(FD_VARIABLE, rank as usize),
            pid: std::process::id(),
            bereft: AtomicBool::new(false),
        }
    }

    /// A writer that writes nowhere: a job of one.
    pub fn absent() -> ReportPage {
        ReportPage {
            own: None,
            pid: 0,
            bereft: AtomicBool::new(false),
        }
    }

    /// Whether a launcher reads this.
    pub fn is_present(&self) -> bool {
        self.own.is_some()
    }

    /// How many ranks the launcher has told to be gone so far: when it changes, look with
    /// [`is_gone`](ReportPage::is_gone) which. One load. Always 0 unless the job was
    /// started with `-disable-auto-cleanup` ([`KEEPS_RUNNING_VARIABLE`](crate::KEEPS_RUNNING_VARIABLE)).
    pub fn deaths(&self) -> u32 {
        // Acquire: whoever sees the number sees the marks made before.
        self.own
            .map_or(0, |own| own.deaths.load(Ordering::Acquire) as u32)
    }

    /// Whether the launcher has told that `rank` is gone: its process has ended, or has finalised MPI.
    pub fn is_gone(&self, rank: u32) -> bool {
        self.own.is_some_and(|own| is_marked(own.gone, rank))
    }

    /// Whether a rank that is gone has finalised MPI: what it owed the others it has sent.
    pub fn has_left(&self, rank: u32) -> bool {
        self.own.is_some_and(|own| is_marked(own.left, rank))
    }

    /// Notes that this rank knows of another's death, so that its own end is no cause of the job's but an answer.
    pub fn note_bereft(&self) {
        self.bereft.store(true, Ordering::Relaxed);
        if let Some(own) = self.own {
            own.record[WHO].fetch_or(BEREFT, Ordering::Relaxed);
        }
    }

    fn write(&self, phase: Phase, call: &[u8], rest: impl FnOnce(&[AtomicU64])) {
        if let Some(own) = self.own {
            let marks = match self.bereft.load(Ordering::Relaxed) {
                true => BEREFT,
                false => 0,
            };
            write(own.record, (self.pid, marks), phase, call, now_ns(), rest);
        }
    }

    /// The call named `call` starts to wait for `bytes` bytes from or to `peer` with `tag` (either
    /// may be [`NONE`], or a wildcard).
    pub fn waiting(&self, call: &'static str, peer: i32, tag: i32, bytes: u64) {
        self.waiting_in(0, (call, None), (peer, None), tag, bytes);
    }

    /// Like [`waiting`](ReportPage::waiting), naming the communicator's context as well, the operation whose request the
    /// call waits for, and the peer's rank in the job beside that in the communicator, if these are known.
    pub fn waiting_in(
        &self,
        context: u32,
        (call, operation): (&'static str, Option<&'static str>),
        (peer, in_job): (i32, Option<u32>),
        tag: i32,
        bytes: u64,
    ) {
        let (name, length) = joined(call, operation);
        self.write(Phase::Waiting, &name[..length], |words| {
            put_envelope(words, (peer, in_job), tag, bytes, context);
        });
    }

    /// The call that waited goes on.
    pub fn running(&self) {
        self.phase(Phase::Running);
    }

    /// The rank enters `phase`.
    pub fn phase(&self, phase: Phase) {
        self.write(phase, &[], |_| {});
    }
}

/// "MPI_Wait for MPI_Ibcast", as much of it as a record takes; how long that is.
fn joined(call: &str, operation: Option<&str>) -> ([u8; NAME_MAX], usize) {
    let parts = match operation {
        Some(operation) => [call, " for ", operation],
        None => [call, "", ""],
    };
    let mut name = [0; NAME_MAX];
    let mut length = 0;
    for (to, from) in name.iter_mut().zip(parts.iter().flat_map(|p| p.bytes())) {
        *to = from;
        length += 1;
    }
    (name, length)
}

fn is_marked(bits: &[AtomicU64], rank: u32) -> bool {
    let word = bits.get(rank as usize / 64);
    // Acquire: of a rank that is gone it is known whether it had left.
    word.is_some_and(|w| w.load(Ordering::Acquire) >> (rank % 64) & 1 == 1)
}

#[inline(never)]
fn write(
    words: &[AtomicU64],
    (pid, marks): (u32, u64),
    phase: Phase,
    name: &[u8],
    since_ns: u64,
    rest: impl FnOnce(&[AtomicU64]),
) {
    let odd = words[SEQUENCE].load(Ordering::Relaxed) | 1;
    words[SEQUENCE].store(odd, Ordering::Relaxed);
    fence(Ordering::Release);
    let length = name.len().min(NAME_MAX);
    let who = u64::from(pid) | (phase as u64) << 32 | (length as u64) << 40 | marks;
    words[WHO].store(who, Ordering::Relaxed);
    put_text(&words[NAME..], &name[..length]);
    words[SINCE].store(since_ns, Ordering::Relaxed);
    rest(words);
    words[SEQUENCE].store(odd.wrapping_add(1), Ordering::Release);
}

fn put_envelope(
    words: &[AtomicU64],
    (peer, in_job): (i32, Option<u32>),
    tag: i32,
    bytes: u64,
    context: u32,
) {
    let envelope = u64::from(peer.cast_unsigned()) | u64::from(tag.cast_unsigned()) << 32;
    words[ENVELOPE].store(envelope, Ordering::Relaxed);
    words[BYTES].store(bytes, Ordering::Relaxed);
    let in_job = in_job.map_or(0, |rank| u64::from(rank.saturating_add(1)));
    words[CONTEXT].store(u64::from(context) | in_job << 32, Ordering::Relaxed);
}

/// Writes text into words, eight bytes each.
pub(crate) fn put_text(words: &[AtomicU64], text: &[u8]) {
    for (word, chunk) in words.iter().zip(text.chunks(8)) {
        let mut bytes = [0; 8];
        bytes[..chunk.len()].copy_from_slice(chunk);
        word.store(u64::from_le_bytes(bytes), Ordering::Relaxed);
    }
}

/// A byte of somebody's text made fit for a terminal. A call's name may have blanks: some say what is
/// done instead.
pub(crate) fn plain(byte: u8) -> char {
    if byte.is_ascii_graphic() || byte == b' ' {
        char::from(byte)
    } else {
        '?'
    }
}

/// What a rank noted, copied out and bounded; the content is only as true as the rank is honest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Process that wrote it; 0 before MPI is initialised.
    pub pid: u32,
    /// What the rank is doing.
    pub phase: Phase,
    /// Name of the call that waits, and of the operation that it waits for: printable ASCII, empty if none.
    pub call: String,
    /// The other rank, [`NONE`], or a wildcard of the standard ABI.
    pub peer: i32,
    /// The peer's rank in the job, where `peer` is one in a communicator that numbers otherwise.
    pub in_job: Option<u32>,
    /// The tag, [`NONE`], or a wildcard of the standard ABI.
    pub tag: i32,
    /// Bytes of the operation.
    pub bytes: u64,
    /// Context of the communicator, 0 if not told.
    pub context: u32,
    /// When the phase began, or the wait for this peer: `CLOCK_MONOTONIC`, nanoseconds.
    pub since_ns: u64,
    /// Whether the rank knows that another is dead or out of reach.
    pub bereft: bool,
    /// Whether its process is stopped, as its host saw it. Only of ranks on other hosts: one can't note it of itself.
    pub stopped: bool,
}

impl Record {
    /// Writes this record, as read on another host, into a page of this one.
    pub(crate) fn write(&self, words: &[AtomicU64]) {
        let bereft = if self.bereft { BEREFT } else { 0 };
        let stopped = if self.stopped { STOPPED } else { 0 };
        write(
            words,
            (self.pid, bereft | stopped),
            self.phase,
            self.call.as_bytes(),
            self.since_ns,
            |words| {
                put_envelope(
                    words,
                    (self.peer, self.in_job),
                    self.tag,
                    self.bytes,
                    self.context,
                );
            },
        );
    }

    pub(crate) fn read(words: &[AtomicU64]) -> Record {
        // A writer needs some 20 ns, so a few tries suffice, or, if it was preempted half-way, letting
        // it run; one that died half-way leaves the number odd for ever, and then what is there is
        // taken as it is.
        for _ in 0..1000 {
            let before = words[SEQUENCE].load(Ordering::Acquire);
            let copied = Record::copy(words);
            fence(Ordering::Acquire);
            if before & 1 == 0 && words[SEQUENCE].load(Ordering::Relaxed) == before {
                return Record::parse(&copied);
            }
            std::thread::yield_now();
        }
        Record::parse(&Record::copy(words))
    }

    fn copy(words: &[AtomicU64]) -> [u64; WORDS] {
        std::array::from_fn(|i| words[i].load(Ordering::Relaxed))
    }

    fn parse(words: &[u64; WORDS]) -> Record {
        let word = |i: usize| words[i];
        let low = |w: u64| (w & 0xffff_ffff) as u32;
        let who = word(WHO);
        let length = ((who >> 40 & 0xff) as usize).min(NAME_MAX);
        let name = (NAME..WORDS)
            .flat_map(|i| word(i).to_le_bytes())
            .take(length);
        let envelope = word(ENVELOPE);
        Record {
            pid: low(who),
            phase: Phase::from_number((who >> 32 & 0xff) as u8),
            call: name.map(plain).collect(),
            peer: low(envelope).cast_signed(),
            tag: low(envelope >> 32).cast_signed(),
            bytes: word(BYTES),
            in_job: low(word(CONTEXT) >> 32).checked_sub(1),
            context: low(word(CONTEXT)),
            since_ns: word(SINCE),
            bereft: who & BEREFT != 0,
            stopped: who & STOPPED != 0,
        }
    }

    /// Seconds that the phase has lasted, or the wait for this peer.
    pub fn seconds(&self) -> f64 {
        now_ns().saturating_sub(self.since_ns) as f64 / 1e9
    }
}

/// A participle, fit for "rank 1 is ..." and "it was ...": "waiting in MPI_Recv, peer 1, tag 7,
/// 8 bytes, for 2.0 s", "waiting in MPI_Wait for MPI_Ibcast, peer 3 (rank 7 of the job), context 5, for 2.0 s".
impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.phase {
            Phase::NotStarted => return f.write_str("before MPI_Init"),
            Phase::Running => return f.write_str("not waiting in MPI"),
            Phase::Finalized => return f.write_str("after MPI_Finalize"),
            Phase::Aborted => return f.write_str("in MPI_Abort"),
            Phase::Waiting => write!(f, "waiting in {}", self.call)?,
        }
        match self.peer {
            NONE => {}
            consts::ANY_SOURCE => f.write_str(", any source")?,
            peer => write!(f, ", peer {peer}")?,
        }
        if let Some(rank) = self.in_job {
            write!(f, " (rank {rank} of the job)")?;
        }
        match self.tag {
            NONE => {}
            consts::ANY_TAG => f.write_str(", any tag")?,
            tag => write!(f, ", tag {tag}")?,
        }
        // Of a collective, and of several requests, it is not told.
        if self.bytes > 0 {
            write!(f, ", {} bytes", self.bytes)?;
        }
        if self.context != 0 {
            write!(f, ", context {}", self.context)?;
        }
        write!(f, ", for {:.1} s", self.seconds())
    }
}

/// This host's `CLOCK_MONOTONIC` in nanoseconds, which records tell time by.
pub fn now_ns() -> u64 {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    (t.tv_sec.unsigned_abs()) * 1_000_000_000 + t.tv_nsec.unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Book;
    use proptest::prelude::*;

    fn writer(fd: &std::os::fd::OwnedFd, rank: usize) -> ReportPage {
        ReportPage {
            own: map::own(fd, rank),
            pid: 77,
            bereft: AtomicBool::new(false),
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let (fd, book) = Book::create(3).unwrap();
        assert_eq!(book.read(1).unwrap().phase, Phase::NotStarted);
        assert_eq!(book.read(3), None);
        let page = writer(&fd, 1);
        assert!(page.is_present());
        page.waiting_in(
            5,
            ("MPI_Recv", None),
            (consts::ANY_SOURCE, None),
            -7,
            1 << 40,
        );
        let record = Book::open(&fd).unwrap().read(1).unwrap();
        assert_eq!(
            (record.pid, record.phase, record.call.as_str()),
            (77, Phase::Waiting, "MPI_Recv")
        );
        assert_eq!(
            (record.peer, record.tag, record.bytes, record.context),
            (consts::ANY_SOURCE, -7, 1 << 40, 5)
        );
        assert!(record.to_string().starts_with(
            "waiting in MPI_Recv, any source, tag -7, 1099511627776 bytes, context 5, for 0."
        ));
        page.waiting("communicator construction", NONE, NONE, 8);
        let text = book.read(1).unwrap().to_string();
        assert!(
            text.starts_with("waiting in communicator construction, 8 bytes, for 0."),
            "{text}"
        );
        page.waiting_in(5, ("MPI_Wait", Some("MPI_Ibcast")), (3, Some(0)), NONE, 0);
        let text = book.read(1).unwrap().to_string();
        let begin =
            "waiting in MPI_Wait for MPI_Ibcast, peer 3 (rank 0 of the job), context 5, for 0.";
        assert!(text.starts_with(begin), "{text}");
        page.waiting("MPI_\u{1b}[7m\n", NONE, NONE, 8);
        assert_eq!(book.read(1).unwrap().call, "MPI_?[7m?");
        page.running();
        assert_eq!(book.read(1).unwrap().to_string(), "not waiting in MPI");
        assert_eq!(book.read(0).unwrap().phase, Phase::NotStarted);
    }

    #[test]
    fn the_longest_names_fit() {
        let (fd, book) = Book::create(1).unwrap();
        let page = writer(&fd, 0);
        let call = "MPI_Request_get_status_some";
        let operation = "MPI_Neighbor_allgatherv_init";
        page.waiting_in(0, (call, Some(operation)), (NONE, None), NONE, 0);
        let whole = format!("{call} for {operation}");
        assert_eq!(book.read(0).unwrap().call, whole);
        let long: &'static str = "M".repeat(NAME_MAX - 7).leak();
        page.waiting_in(0, (long, Some(operation)), (NONE, None), NONE, 0);
        assert_eq!(book.read(0).unwrap().call, format!("{long} for MP"));
    }

    #[test]
    fn other_files_are_refused() {
        let plain = rustix::fs::memfd_create("x", rustix::fs::MemfdFlags::ALLOW_SEALING).unwrap();
        rustix::fs::ftruncate(&plain, 4096).unwrap();
        assert!(Book::open(&plain).is_none(), "not sealed");
        let seals = rustix::fs::SealFlags::SHRINK | rustix::fs::SealFlags::GROW;
        rustix::fs::fcntl_add_seals(&plain, seals).unwrap();
        assert!(Book::open(&plain).is_none(), "no magic");
        assert!(Book::open(std::fs::File::open("/dev/null").unwrap()).is_none());
        assert!(map::own(&Book::create(2).unwrap().0, 2).is_none());
        assert!(Book::create(0).is_err());
    }

    #[test]
    fn deaths_are_seen() {
        let (fd, book) = Book::create(130).unwrap();
        let page = writer(&fd, 0);
        assert_eq!(page.deaths(), 0);
        for rank in [0, 64, 129, 129, 130] {
            book.mark_gone(rank, rank % 2 == 0);
        }
        assert_eq!(
            page.deaths(),
            3,
            "a rank dies once, and only a rank of the job"
        );
        let dead: Vec<u32> = (0..200).filter(|r| page.is_gone(*r)).collect();
        assert_eq!(dead, [0, 64, 129]);
        assert!(page.has_left(0) && page.has_left(64) && !page.has_left(129));
        assert_eq!(
            (
                ReportPage::absent().deaths(),
                ReportPage::absent().is_gone(0)
            ),
            (0, false)
        );
    }

    #[test]
    fn a_rank_stays_bereft() {
        let (fd, book) = Book::create(1).unwrap();
        let page = writer(&fd, 0);
        page.waiting("MPI_Recv", 1, 2, 3);
        assert!(!book.read(0).unwrap().bereft);
        page.note_bereft();
        let noted = book.read(0).unwrap();
        assert!(noted.bereft && noted.phase == Phase::Waiting && noted.call == "MPI_Recv");
        page.running();
        assert!(book.read(0).unwrap().bereft);
    }

    #[test]
    fn records_of_other_hosts() {
        let (fd, book) = Book::create(3).unwrap();
        writer(&fd, 1).waiting_in(5, ("MPI_Recv", None), (2, Some(9)), 7, 40);
        let (copy, record) = (Book::create(3).unwrap().1, book.read(1).unwrap());
        copy.store(1, &record);
        copy.store(3, &record);
        copy.set_host(
            1,
            "node7\u{1b}.a.very.long.name.of.a.host.in.a.domain.somewhere.in.the.world",
        );
        assert_eq!(copy.read(1), Some(record));
        assert_eq!(copy.read(0).unwrap().phase, Phase::NotStarted);
        assert_eq!(copy.host(1).unwrap().len(), 64);
        assert!(copy.host(1).unwrap().starts_with("node7?.a"));
        assert_eq!((copy.host(0), copy.host(3)), (None, None));
    }

    #[test]
    fn a_reader_never_sees_two_writes_mixed() {
        let (fd, book) = Book::create(1).unwrap();
        let page = writer(&fd, 0);
        std::thread::scope(|scope| {
            let writing = scope.spawn(|| {
                for _ in 0..500 {
                    page.waiting("MPI_Send", 1, 1, 1);
                    page.waiting("MPI_Barrier_with_a_long_name", 2, 2, 2);
                    // A rank notes a wait once in a while, not without pause.
                    std::thread::sleep(std::time::Duration::from_micros(20));
                }
            });
            while !writing.is_finished() {
                let r = book.read(0).unwrap();
                let expected = match r.bytes {
                    0 => continue,
                    1 => ("MPI_Send", 1, 1),
                    _ => ("MPI_Barrier_with_a_long_name", 2, 2),
                };
                assert_eq!((r.call.as_str(), r.peer, r.tag), expected);
            }
        });
    }

    proptest! {
        #[test]
        fn any_bits_can_be_read(words in proptest::collection::vec(any::<u64>(), WORDS)) {
            let words: Vec<AtomicU64> = words.into_iter().map(AtomicU64::new).collect();
            let record = Record::read(&words);
            prop_assert!(record.call.len() <= NAME_MAX && record.call.is_ascii());
            prop_assert!(record.to_string().len() < 400);
        }
    }
}
