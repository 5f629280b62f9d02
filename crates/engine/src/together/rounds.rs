//! Rounds: publishing, waiting for what others publish, and saying what was read.

use std::cell::Cell;

use boundary::UserBuf;
use fabrics::Stretch;
use layout::Data;
use types::{Result, consts, fault};

use super::bodies::Round;
use super::moves::Chunks;
use super::reductions::Combine;
use super::{BODY, FAILED, GIVEN_UP, INLINE, LENGTH_BITS, READ, Together};
use crate::coll::Planned;
use crate::state::Engine;
use crate::wait::Waiting;

/// Bytes that fit into a head's line, beside its word.
const BESIDE: usize = 56;
/// Bytes of a word that members [tell](Way::tell) each other, and what stands for their number in such a round, which is more than any other has.
const WORD: usize = 8;
const TOLD: usize = (1 << LENGTH_BITS) - 1;
const _: () = assert!(TOLD > BODY && WORD <= BESIDE);

impl Together {
    pub(super) fn own(&self) -> &Stretch {
        &self.members[self.me]
    }

    pub(super) fn rank(&self) -> usize {
        self.me
    }

    pub(super) fn size(&self) -> usize {
        self.members.len()
    }

    /// The ranks of the others, from the next one on.
    pub(super) fn others(&self) -> impl Iterator<Item = usize> + use<> {
        let (me, size) = (self.me, self.size());
        (me + 1..size).chain(0..me)
    }

    /// Whether this member goes through long data from their end to their beginning this time: every other time.
    pub(super) fn turn(&self) -> bool {
        let turned = self.turned.get();
        self.turned.set(!turned);
        turned
    }

    /// Begins so many rounds: the number of the first.
    pub(super) fn begin(&self, rounds: u64) -> Round {
        let number = self.last.get() + 1;
        self.last.set(self.last.get() + rounds);
        Round::new(number)
    }

    /// Takes the body that two members hand to each other for rounds in which only `writer` publishes, so many bytes in all, if they are to go by it and it is its turn. Once for each collective.
    fn takes_handed(&self, writer: usize, bytes: u64) -> bool {
        bytes > INLINE as u64 && bytes <= self.lines.handed && self.hands.take(writer)
    }

    /// The bytes of a round that has so many for each of the others.
    fn for_all(&self, bytes: usize) -> usize {
        bytes * (self.size() - 1)
    }

    /// How many bytes a member has published in a round, if it has.
    #[inline(always)]
    fn published(&self, rank: usize, round: Round) -> Option<usize> {
        let word = self.members[rank].load(round.head());
        let length = word & ((1 << LENGTH_BITS) - 1);
        (word >> LENGTH_BITS >= round.number).then_some(length as usize)
    }

    fn ring_others(&self) {
        for rank in self.others() {
            self.members[rank].ring();
        }
    }

    /// Says that this process is through with all rounds up to this.
    pub(super) fn say_read(&self, round: Round) {
        self.own().store(READ, round.number);
        self.ring_others();
    }

    /// Says that this process has failed in a round, before it says that it is through with it. `again`: the collective can be done all over again.
    pub(super) fn say_failed(&self, round: Round, again: bool) {
        self.own()
            .store(FAILED, round.number << 1 | u64::from(again));
    }

    /// Whether the collective can be done all over again, if any member has failed in this round, with which all are through.
    pub(super) fn failed(&self, round: Round) -> Option<bool> {
        let words = self.members.iter().map(|member| member.load(FAILED));
        let of_round = words.filter(|word| word >> 1 == round.number);
        of_round
            .map(|word| word & 1 == 1)
            .reduce(|all, one| all && one)
    }

    /// Whether the kernel copies for all members.
    pub(super) fn is_direct(&self) -> bool {
        self.foreign.is_some() && self.direct.get()
    }

    /// All members are known to be through with the rounds up to this: they have published a later one in which everybody reads from
    /// everybody.
    pub(super) fn all_have_read(&self, round: Round) {
        self.read.set(self.read.get().max(round.number));
    }
}

impl Together {
    /// Gives the place up, as the members' lengths don't agree: who waits here for what this process will not publish or read is told.
    #[cold]
    fn give_up(&self) {
        self.spoilt.set(true);
        self.own().store(GIVEN_UP, 1);
        self.ring_others();
    }

    fn has_given_up(&self, rank: usize) -> bool {
        self.members[rank].load(GIVEN_UP) != 0
    }
}

/// Why it is in vain to wait.
enum Vain {
    /// This rank is gone.
    Gone(u32),
    GivenUp,
}

/// A collective on its way here.
#[derive(Clone, Copy)]
pub(super) struct Way<'a> {
    pub engine: &'a Engine,
    pub call: &'a Planned,
    pub place: &'a Together,
    /// What combines elements, of a reduction with one of the standard's operations or with byte code.
    pub kernel: Option<Combine<'a>>,
}

/// What a process publishes in a round, of which a number of bytes was written before.
#[derive(Clone, Copy)]
pub(super) struct Page<'a> {
    place: &'a Together,
    round: Round,
    bytes: usize,
    /// Where they lie.
    to: &'a Stretch,
    at: usize,
}

impl Page<'_> {
    /// Writes `bytes` packed bytes from byte `from` of `data` on.
    #[inline]
    pub fn write(&self, data: &Data, from: u64, bytes: usize) {
        write(self.to, self.at, data, from, bytes);
    }

    /// The same of a page that has so many bytes for each of the others: those for `rank`.
    #[inline]
    pub fn write_for(&self, rank: usize, data: &Data, from: u64, bytes: usize) {
        let place = self.place;
        let (host, at) = self.round.cell(place.me, rank, place.size(), bytes);
        write(&place.members[host], at, data, from, bytes);
    }

    /// Writes these words, which are all of it and fit beside the head.
    pub fn write_words(&self, words: &[u64]) {
        for (i, &word) in words.iter().enumerate() {
            self.to.store(self.at + 8 * i, word);
        }
    }

    /// Its memory, for this process to write.
    pub fn memory(&self) -> UserBuf {
        memory(self.to, self.at, self.bytes)
    }

    /// Shows it to the others.
    #[inline]
    pub fn publish(self) {
        self.show();
        self.told();
    }

    /// Shows it to the others in a round in which this process reads nothing.
    pub fn publish_only(self) {
        self.show();
        // Nobody waits for that yet, mostly, and its line may be elsewhere.
        self.place.own().store(READ, self.round.number);
        self.told();
    }

    #[inline(always)]
    fn show(&self) {
        let word = self.round.number << LENGTH_BITS | self.bytes as u64;
        self.place.own().store(self.round.head(), word);
    }

    #[inline(always)]
    fn told(&self) {
        self.place.ring_others();
        // The next one's line is fetched from those who read it last while this round goes on.
        self.place.own().claim((self.round + 1).head());
    }
}

/// Writes `bytes` packed bytes from byte `from` of `data` on to a member's memory.
#[inline]
fn write(to: &Stretch, at: usize, data: &Data, from: u64, bytes: usize) {
    if let Some((buf, _)) = data.contiguous() {
        return to.write(at, buf.offset(from as i64), bytes);
    }
    let mut reader = data.reader();
    reader.seek(from);
    let mut done = 0;
    while let Some((buf, run)) = reader.next_run(bytes - done) {
        to.write(at + done, buf, run);
        done += run;
    }
}

/// Part of a round's bytes, of which there are no more than [`BODY`].
fn memory(of: &Stretch, at: usize, bytes: usize) -> UserBuf {
    of.memory(at, bytes).expect("a round's bytes lie inside")
}

/// What another has published in a round.
#[derive(Clone, Copy)]
pub(super) struct Theirs<'a> {
    from: &'a Stretch,
    at: usize,
}

impl Theirs<'_> {
    /// Reads its first `bytes` bytes to where byte `to` of `data` and those behind it lie.
    #[inline]
    pub fn read(&self, data: &Data, to: u64, bytes: usize) {
        let at = self.at;
        if let Some((buf, _)) = data.contiguous() {
            return self.from.read(at, buf.offset(to as i64), bytes);
        }
        let mut writer = data.writer();
        writer.seek(to);
        let mut done = 0;
        while let Some((buf, run)) = writer.next_run(bytes - done) {
            self.from.read(at + done, buf, run);
            done += run;
        }
    }

    /// Asks for the first and the last line of so many bytes, which are all.
    #[inline(always)]
    fn ask(&self, bytes: usize) {
        self.from.prefetch(self.at);
        self.from.prefetch(self.at + bytes - 1);
    }

    /// The word with this number.
    pub fn word(&self, number: usize) -> u64 {
        self.from.load(self.at + 8 * number)
    }

    /// `bytes` bytes of it as memory that is read at once.
    #[inline]
    pub fn memory(&self, at: usize, bytes: usize) -> UserBuf {
        memory(self.from, self.at + at, bytes)
    }
}

impl<'a> Way<'a> {
    fn waiting(&self, rank: Option<usize>, bytes: usize) -> Waiting {
        Waiting {
            peer: rank.map_or(consts::UNDEFINED, |rank| rank as i32),
            bytes: bytes as u64,
            ..Waiting::new(self.call.plan.names().blocking, self.call.comm.context())
        }
    }

    /// Waits until nobody is `missing`: a rank that is waited for.
    #[inline(always)]
    fn wait(&self, bytes: usize, mut missing: impl FnMut() -> Option<usize>) -> Result<()> {
        if missing().is_none() {
            return Ok(());
        }
        for _ in 0..self.engine.looks_at_once() {
            sys::copy::pause();
            if missing().is_none() {
                return Ok(());
            }
        }
        self.wait_long(bytes, missing)
    }

    #[inline(never)]
    fn wait_long(&self, bytes: usize, mut missing: impl FnMut() -> Option<usize>) -> Result<()> {
        let engine = self.engine;
        let Some(rank) = missing() else {
            return Ok(());
        };
        // Who comes late is not who never comes.
        let awaited = Cell::new(rank);
        let over = engine.wait_on(
            || self.waiting(Some(awaited.get()), bytes),
            None,
            |_| match missing() {
                None => Some(None),
                Some(rank) => {
                    awaited.set(rank);
                    self.in_vain(rank, &mut missing).map(Some)
                }
            },
        );
        match over.flatten() {
            None => Ok(()),
            Some(Vain::Gone(rank)) => Err(engine.lost_rank(&self.call.comm, rank as i32)),
            Some(Vain::GivenUp) => {
                self.place.give_up();
                Err(self.unsound())
            }
        }
    }

    /// Whether it is in vain to wait for `rank`.
    #[inline]
    fn in_vain(&self, rank: usize, missing: &mut impl FnMut() -> Option<usize>) -> Option<Vain> {
        // What it had published before it gave the place up still counts.
        if self.place.has_given_up(rank) && missing() == Some(rank) {
            return Some(Vain::GivenUp);
        }
        if !self.engine.has_lost_any() {
            return None;
        }
        let gone = self.engine.gone_for(&self.call.comm, rank as u32);
        gone.map(Vain::Gone)
    }

    /// Waits until a page with so many bytes may be written.
    #[inline]
    pub fn page(&self, round: Round, bytes: usize) -> Result<Page<'a>> {
        let place = self.place;
        let due = round.due(bytes);
        if place.read.get() < due {
            self.wait_for_reading(due)?;
        }
        Ok(Page {
            place,
            round,
            bytes,
            to: &place.members[round.host(place.me, place.size(), bytes)],
            at: round.at(bytes),
        })
    }

    /// Waits until all have read what they need of the rounds up to this.
    pub fn wait_for_readers(&self, round: Round) -> Result<()> {
        self.wait_for_reading(round.number)
    }

    #[cold]
    fn wait_for_reading(&self, due: u64) -> Result<()> {
        let place = self.place;
        let read = |rank: usize| place.members[rank].load(READ);
        let missing = || place.others().find(|&rank| read(rank) < due);
        self.wait(0, missing)?;
        let all = place.others().map(read).min().unwrap_or(due);
        place.read.set(place.read.get().max(all));
        Ok(())
    }

    /// Waits until `rank` has published a round, of so many bytes.
    #[inline]
    pub fn theirs(&self, rank: usize, round: Round, bytes: usize) -> Result<Theirs<'a>> {
        let place = self.place;
        let mut theirs = bytes;
        let watched = self.watched(rank, round, bytes);
        let missing = || {
            watched.iter().for_each(|theirs| theirs.ask(bytes));
            match place.published(rank, round) {
                Some(bytes) => {
                    theirs = bytes;
                    None
                }
                None => Some(rank),
            }
        };
        self.wait(bytes, missing)?;
        match theirs == bytes {
            true => Ok(self.published_by(rank, round, bytes)),
            false => Err(self.mismatch(rank, theirs as u64, bytes as u64)),
        }
    }

    /// What is asked for while it is waited for: not what comes with the head's line, nor what has so many lines that its writer would lose some before it is through, nor what
    /// its writer has from having read there.
    #[inline]
    fn watched(&self, rank: usize, round: Round, bytes: usize) -> Option<Theirs<'a>> {
        let watched =
            bytes > BESIDE && bytes <= self.place.lines.watched && round.handed_at(bytes).is_none();
        watched.then(|| self.published_by(rank, round, bytes))
    }

    /// Takes note that another one, which has published a round, is through with those before it. Of two members that is all others. Not in an exchange, where rounds
    /// are published before those before them are read.
    #[inline]
    pub fn others_have_read_before(&self, round: Round) {
        if self.place.size() == 2 {
            self.place.all_have_read(round - 1);
        }
    }

    /// What a member, this process too, has published in a round that was waited for.
    pub fn published_by(&self, rank: usize, round: Round, bytes: usize) -> Theirs<'a> {
        Theirs {
            from: &self.place.members[round.host(rank, self.place.size(), bytes)],
            at: round.at(bytes),
        }
    }

    /// A page with a word, to be published in a round that who goes through chunks takes for none of those.
    pub fn tell(&self, round: Round, word: u64) -> Result<Page<'a>> {
        let page = self.page(round, WORD)?;
        page.write_words(&[word]);
        Ok(Page {
            bytes: TOLD,
            ..page
        })
    }

    /// Waits until `rank` has told a word in a round. It goes through chunks, of other than `ours` bytes in all, if it publishes something else there.
    pub fn told_by(&self, rank: usize, round: Round, ours: u64) -> Result<u64> {
        let place = self.place;
        let mut theirs = TOLD;
        self.wait(WORD, || match place.published(rank, round) {
            Some(bytes) => {
                theirs = bytes;
                None
            }
            None => Some(rank),
        })?;
        match theirs == TOLD {
            true => Ok(self.published_by(rank, round, WORD).word(0)),
            false => Err(self.mismatch(rank, theirs as u64, ours)),
        }
    }

    /// Waits until `rank` has published a round that has so many bytes for each: those for this process.
    #[inline]
    pub fn theirs_for_me(&self, rank: usize, round: Round, bytes: usize) -> Result<Theirs<'a>> {
        let place = self.place;
        self.theirs(rank, round, place.for_all(bytes))?;
        let (host, at) = round.cell(rank, place.me, place.size(), bytes);
        Ok(Theirs {
            from: &place.members[host],
            at,
        })
    }

    /// A page that has so many bytes for each of the others.
    #[inline]
    pub fn page_for_all(&self, round: Round, bytes: usize) -> Result<Page<'a>> {
        self.page(round, self.place.for_all(bytes))
    }

    /// Begins an exchange of so many rounds.
    pub fn begin_exchange(&self, rounds: u64) -> Round {
        self.place
            .begin(rounds)
            .turned_from(self.place.lines.exchanged_from)
    }

    /// Who publishes what another one of two members reads. Of more members there is no body that they hand over, so it doesn't matter.
    pub fn other_than(root: usize) -> usize {
        usize::from(root == 0)
    }

    /// Begins a round for each of these chunks, in which only `writer` publishes what others read: in the body that two members hand to each other, if it is its turn; or from so many bytes on in bodies that
    /// members write in turn.
    pub fn begin_written(&self, chunks: &Chunks, writer: usize, turned_from: usize) -> Round {
        let first = self.place.begin(chunks.number());
        match self.place.takes_handed(writer, chunks.bytes()) {
            true => first.in_handed(),
            false => first.turned_from(turned_from),
        }
    }

    /// Waits until all have published a round, of so many bytes.
    #[inline(always)]
    pub fn all(&self, round: Round, bytes: usize) -> Result<()> {
        let place = self.place;
        let mut others = place.others();
        let mut next = others.next();
        let mut odd = None;
        self.wait(bytes, || {
            while let Some(rank) = next {
                let Some(theirs) = place.published(rank, round) else {
                    return Some(rank);
                };
                if theirs != bytes {
                    odd = Some((rank, theirs));
                }
                next = others.next();
            }
            None
        })?;
        match odd {
            None => Ok(()),
            Some((rank, theirs)) => Err(self.mismatch(rank, theirs as u64, bytes as u64)),
        }
    }

    /// Refuses a block of this process that is not as long as those that it expects.
    #[inline]
    pub fn check_own(&self, block: &Data, bytes: u64) -> Result<()> {
        match block.len() == bytes {
            true => Ok(()),
            false => Err(self.mismatch(self.place.rank(), block.len(), bytes)),
        }
    }

    /// Refuses what comes after that.
    #[inline]
    pub fn check_sound(&self) -> Result<()> {
        match self.place.spoilt.get() {
            false => Ok(()),
            true => Err(self.unsound()),
        }
    }

    pub fn has_given_up(&self, rank: usize) -> bool {
        self.place.has_given_up(rank)
    }

    #[cold]
    pub fn unsound(&self) -> Box<types::Fault> {
        let text = "the ranks called an earlier collective of this communicator with lengths that don't fit together, so no other can follow";
        fault(consts::ERR_TRUNCATE, text)
    }

    #[cold]
    pub fn mismatch(&self, rank: usize, theirs: u64, ours: u64) -> Box<types::Fault> {
        self.place.give_up();
        let block = match theirs == TOLD as u64 {
            true => "a longer block".to_string(),
            false => format!("a block of {theirs} bytes"),
        };
        let text = format!("rank {rank} has {block} where one of {ours} is expected");
        fault(consts::ERR_TRUNCATE, text)
    }
}
