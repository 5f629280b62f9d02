//! Long messages that the kernel copies from one process's memory to another's: one copy in place of the pipe's two.
//!
//! Whether processes may do that to each other they find out before the first such message: each says which process it is, and where in its memory a *token* lies, a random
//! word. The other looks whether that process [is it](crate::foreign), and tries to read the word. So a number that means another process, be it in another namespace, a debugger's rights that are
//! missing and a filter of system calls are all the same: nothing is said about it, and messages go through the pipe.
//!
//! Then a message is *lent*: announced with its address. When the receiver has matched it, it reads from the front and asks the sender to
//! write from the back (`mapped`, which does the same between mapped buffers): 64 KiB, 256 KiB and 1 MiB take 3.5, 9.8 and 37 microseconds that way, and 5.6,
//! 18 and 72 where only one side copies (measured on an EPYC of the fifth generation). A short message in standard mode that nobody waits for is read and
//! kept soon, where its receiver has nothing else to copy, so that its sender is done. Where a receive has gaps, or the kernel refuses after all, the
//! receiver asks for the data through the pipe.
//!
//! Which lengths are lent the receiver decides by what it has measured ([`trial`](crate::trial)): a word in the lane says it. Where messages of a length go both
//! ways the first of the two ranks decides that for both. Of a message in mode
//! [`SendMode::Lent`] the sender does, and nothing is measured.
//!
//! All that is done where processors fetch lines slowly from each other's caches ([`TRIED_FROM`]), and where the environment asks for it ([`Choice`]).
//!
//! Invariants: a loan is pending at its sender until nobody reads its data. Whatever address a peer names is used for nothing but these
//! system calls.

use boundary::UserBuf;
use layout::Data;
use mtmi::{Endpoint, SendMode};
use sys::copy::HandOver;

use crate::Shm;
use crate::foreign::Foreign;
use crate::lane::WINDOW;
use crate::split::Cut;
use crate::state::{Announced, Offer, Send, Sending, Sink};
use crate::trial::{CLASSES, Cost, Trials, Way};
use crate::wire::{Kind, Words};

/// Shortest message that is lent. Below, system calls and words to and fro take as long as the pipe or longer everywhere: 8 KiB 1.4 microseconds
/// both ways, on a Xeon of the fifth generation; 16 KiB 2.0 in place of 2.6.
pub(crate) const SHORTEST: u64 = 16 << 10;
/// Longest chunk that is copied at once: others wait for that, 10 to 20 microseconds. A chunk costs a microsecond by itself.
pub(crate) const CHUNK: u64 = 256 << 10;
const PAGE: u64 = 4096;
/// Messages of a peer that are read alone because as many were lent to it, which it may have no receives for. In an exchange more take turns.
const LATELY: u32 = 8;
/// Messages of a class of which the first of two ranks chooses the way for both, after one of that class has gone the other way: as many as programs have on
/// their way at once. And messages that aren't lent after one of which the receive had gaps.
pub(crate) const ANSWERS: u8 = 64;
/// What a receiver wishes: a bit for each class of lengths that is to be lent, and `CLASSES` bits further up one for each of which a round has told;
const ALL: u32 = (1 << (2 * CLASSES)) - 1;
/// or none, whoever sends, as the system has refused a copy.
const NONE: u32 = 1 << 31;
/// Cycles for each 16 KiB of a message of each class that the kernel's copies take at the least on any machine that was measured: where the pipe takes
/// less, they aren't tried. On an EPYC of the fifth generation whose cores are near each other it takes 1,500 for 16 KiB, 910 for 64 KiB and 800 for
/// 1 MiB; where they are far apart 17,000; on a Xeon of the fifth generation 5,500, 3,400 and 2,800, and the kernel 4,200, 1,800 and 1,300.
pub(crate) const TRIED_FROM: [u64; CLASSES] = [3900, 2400, 1650, 1275, 1087, 993, 946, 923, 911];

/// How long messages go to other processes of the machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Choice {
    /// Through the pipe: no process reads or writes another's own memory.
    Pipe,
    /// As is faster.
    Measured,
    /// Copied by the kernel from the shortest length on, where the system lets them.
    Direct,
}

impl Choice {
    /// Whether the kernel copies in collectives, which measure nothing. Of messages of 16, 64, 256 KiB and 1 MiB it is known that they take 2.0, 3.5, 9.7
    /// and 39 microseconds by a loan on a Xeon of the fifth generation, and 2.6, 6.4, 20 and 86 through the pipe; on EPYCs whose cores are near each
    /// other the pipe takes half to a third of the time of a loan at every length.
    pub(crate) fn copies_unmeasured(self) -> bool {
        match self {
            Choice::Pipe => false,
            Choice::Measured => sys::copy::hand_over() == HandOver::Asked,
            Choice::Direct => true,
        }
    }
}

/// A word of this process's memory that nobody can guess.
pub(crate) struct Token(Option<Box<u64>>);

impl Token {
    pub fn new() -> Token {
        let random = sys::random::bytes16().ok();
        Token(random.map(|bytes| Box::new(u128::from_ne_bytes(bytes) as u64)))
    }

    /// Who this process is, as its own namespace counts, where the word lies, and the word.
    fn words(&self) -> Option<Words> {
        let word = self.0.as_deref()?;
        let at = std::ptr::from_ref(word).expose_provenance() as u64;
        Some([std::process::id().into(), at, *word, 0])
    }
}

/// What is known about reading a peer's memory.
#[derive(Default)]
pub(crate) struct Direct {
    /// Whether it was told where to try.
    introduced: bool,
    /// Its memory, if it could be read,
    memory: Option<Foreign>,
    /// and whether it can read this process's.
    open: bool,
    /// Whether the system refused later what it had allowed.
    refused: bool,
    /// The last send that was lent to it,
    lent: Option<u64>,
    /// and sends that were lent since one was found to be read, less its messages that were read alone because of them, up to [`LATELY`].
    lately: u32,
    /// Whether something of its was there when the last long message to it had been copied into the pipe, while its own are measured.
    meets: bool,
    /// What was measured of its messages.
    trials: Option<Box<Trials>>,
    /// Messages of each class still to come that count as answers to the last one that was sent to it.
    answers: [u8; CLASSES],
    /// Classes of which the peer, as the first of the two, chooses the way for both directions: a bit for each.
    follows: u32,
    /// Messages of each class still to come that it is not to lend, as this process had to ask for one that it had lent: the receive had gaps.
    declines: [u8; CLASSES],
}

impl Direct {
    /// Whether the time of a message of so many bytes is to be measured, so that it is known which way such go.
    #[inline]
    pub fn measures(&self, bytes: u64) -> bool {
        let trials = self.trials.as_deref().filter(|_| bytes >= SHORTEST);
        trials.is_some_and(|t| t.is_round(class(bytes)) && self.follows & 1 << class(bytes) == 0)
    }

    /// A message of a class has come; the peer `leads` if it is the first of the two and knows how such messages go best. If each chose by itself, they
    /// might go one way here and the other way there, which takes longest: two of 16 KiB in each direction, posted, take 10 us so, 5.5 through the pipe and
    /// 7.5 directly, on a Xeon of the fifth generation.
    fn follow(&mut self, class: usize, leads: bool) {
        let (bit, followed) = (1 << class, self.follows);
        let follows = leads && self.answers[class] > 0 && self.declines[class] == 0;
        for left in [&mut self.answers[class], &mut self.declines[class]] {
            *left = left.saturating_sub(1);
        }
        self.follows = match follows {
            true => followed | bit,
            false => followed & !bit,
        };
        if self.follows & !followed != 0 {
            // What was measured of a round that stops here will be old when it goes on.
            self.meets = false;
            self.trials.iter_mut().for_each(|t| t.begin_again(class));
        }
    }

    /// Classes of which no message is lent for now, as their receives have gaps.
    fn declined(&self) -> u32 {
        let left = self.declines.iter().enumerate();
        left.fold(0, |all, (i, &left)| all | u32::from(left > 0) << i)
    }
}

#[cfg(all(test, not(loom)))]
impl Direct {
    /// From now on the peer's memory is that of a process that isn't there.
    pub fn refuse(&mut self) {
        self.memory = self.memory.map(|_| Foreign::new(i32::MAX));
    }

    /// What was measured.
    pub fn trials(&self) -> Option<&Trials> {
        self.trials.as_deref()
    }

    /// Classes whose messages go as the peer wishes.
    pub fn follows(&self) -> u32 {
        self.follows
    }

    /// Whether something of the peer's was there when the last long message to it had been copied.
    pub fn meets(&self) -> bool {
        self.meets
    }

    /// From now on messages are measured anew, and not read where the pipe takes less.
    pub fn tries_from(&mut self, costs: [u64; CLASSES]) {
        self.trials = self.trials.as_ref().map(|_| Box::new(Trials::new(costs)));
    }

    /// Nothing was refused.
    pub fn renew(&mut self) {
        self.refused = false;
    }

    /// The peer's memory, if it is known.
    pub fn memory(&self) -> Option<Foreign> {
        self.memory
    }

    /// It has been tried, and this is the peer's memory.
    pub fn believe(&mut self, memory: Foreign) {
        (self.introduced, self.open, self.memory) = (true, true, Some(memory));
    }
}

/// Data that another process has, as this one gets at them.
#[derive(Clone, Copy)]
pub(crate) enum There {
    /// Mapped here.
    Window(*mut u8),
    /// At this address of that process.
    Process(Foreign, u64),
}

impl There {
    /// Copies `len` bytes from byte `start` on. False: the system refuses.
    pub fn read(self, start: usize, to: UserBuf, len: usize) -> bool {
        match self {
            There::Window(from) => {
                // SAFETY: the window has as many bytes as the message, of which the caller takes a part; nobody's buffer lies in a
                // window, and whoever made `to` vouched for it.
                unsafe { sys::copy::copy(to.as_mut_ptr(), from.add(start), len) };
                true
            }
            There::Process(memory, at) => {
                let at = at.wrapping_add(start as u64);
                memory.read(at, to, len).is_ok()
            }
        }
    }

    /// Copies `len` bytes there. False: the system refuses.
    pub fn write(self, start: usize, from: UserBuf, len: usize) -> bool {
        match self {
            There::Window(to) => {
                // SAFETY: as for `read`, with the direction turned.
                unsafe { sys::copy::copy(to.add(start), from.as_mut_ptr(), len) };
                true
            }
            There::Process(memory, at) => {
                let at = at.wrapping_add(start as u64);
                memory.write(at, from, len).is_ok()
            }
        }
    }
}

/// How a loan is cut if both sides copy: in halves, unless these are long.
pub(crate) fn cut(bytes: u64) -> Cut {
    let half = bytes.div_ceil(2).next_multiple_of(PAGE);
    Cut {
        bytes,
        chunk: half.clamp(PAGE, CHUNK),
    }
}

/// Cycles since a count of them.
pub(crate) fn cycles_since(since: u64) -> u64 {
    sys::clock::cycles().saturating_sub(since)
}

/// The class of a length, from `SHORTEST` on.
fn class(bytes: u64) -> usize {
    (bytes / SHORTEST)
        .checked_ilog2()
        .unwrap_or(0)
        .min(CLASSES as u32 - 1) as usize
}

impl Shm {
    /// Says how long messages go. To be called before anything is sent.
    pub(crate) fn choose(&mut self, choice: Choice) {
        self.choice = choice;
    }

    /// Tells a peer where it may try to read this process's memory, before the first message that is long enough.
    #[inline]
    pub(crate) fn introduce(&mut self, to: u32, total: u64) {
        if total >= SHORTEST && !self.peers[to as usize].direct.introduced {
            self.introduce_first(to);
        }
    }

    #[cold]
    fn introduce_first(&mut self, to: u32) {
        self.peers[to as usize].direct.introduced = true;
        if self.choice != Choice::Pipe
            && let Some(words) = self.token.words()
        {
            self.control(to, Kind::Introduce, words);
        }
    }

    /// The memory of a peer that says who it is, if it is that process and can be read.
    fn tried(&mut self, peer: u32, [pid, at, token, _]: Words) -> Option<Foreign> {
        let memory = self.process(Endpoint(peer), i32::try_from(pid).ok()?)?;
        memory.has(at, token).then_some(memory)
    }

    /// A peer says where to try, and hears of it if that works.
    pub(crate) fn take_introduction(&mut self, peer: u32, theirs: Words) {
        if self.choice == Choice::Pipe {
            return;
        }
        let (Some(memory), Some(mine)) = (self.tried(peer, theirs), self.token.words()) else {
            return;
        };
        let direct = &mut self.peers[peer as usize].direct;
        match self.choice {
            Choice::Pipe => {}
            Choice::Direct => self.wish(peer, ALL),
            Choice::Measured => direct.trials = Some(Box::new(Trials::new(self.tried_from))),
        }
        self.peers[peer as usize].direct.memory = Some(memory);
        self.control(peer, Kind::Introduced, mine);
    }

    /// A peer could read this process's memory.
    pub(crate) fn take_introduced(&mut self, peer: u32, theirs: Words) {
        if self.choice != Choice::Pipe
            && let Some(memory) = self.tried(peer, theirs)
        {
            let direct = &mut self.peers[peer as usize].direct;
            direct.memory = Some(memory);
            direct.open = direct.introduced;
        }
    }

    /// A send was lent to a peer.
    pub(crate) fn has_lent(&mut self, to: u32, send: u64) {
        let direct = &mut self.peers[to as usize].direct;
        direct.lent = Some(send);
        direct.lately = LATELY.min(direct.lately + 1);
    }

    /// Whether a peer has something to read that was lent to it, and that is not much less than `bytes`.
    fn has_to_read(&mut self, peer: u32, bytes: u64) -> bool {
        let lent = self.peers[peer as usize].direct.lent;
        let send = lent.and_then(|id| self.sends.get(id));
        let unread = |s: &&mut Send| s.to == peer && s.offered && s.state == Sending::AwaitsClear;
        send.filter(unread).is_some_and(|s| s.total >= bytes / 2)
    }

    /// Whether a message of so many bytes that a peer lends is read alone, as the peer has one to read itself, so that it would be no help. It may also have
    /// no receive for that: each keeps it from helping with one.
    pub(crate) fn reads_alone(&mut self, peer: u32, bytes: u64) -> bool {
        let has_to_read = self.has_to_read(peer, bytes);
        let direct = &mut self.peers[peer as usize].direct;
        let alone = has_to_read && direct.lately > 0;
        direct.lately = match alone {
            true => direct.lately - 1,
            false => 0,
        };
        alone
    }

    /// A message of `total` bytes was copied into the pipe to a peer.
    #[inline]
    pub(crate) fn has_copied(&mut self, to: u32, total: u64) {
        if self.peers[to as usize].direct.measures(total) {
            let port = &self.ports[to];
            self.peers[to as usize].direct.meets = port.rx.ready(&port.inward);
        }
    }

    /// Whether the message of `total` bytes that a peer announces now, and that is measured, is one half of an exchange.
    pub(crate) fn is_exchanged(&mut self, peer: u32, total: u64) -> bool {
        let meets = std::mem::take(&mut self.peers[peer as usize].direct.meets);
        meets || self.has_to_read(peer, total)
    }

    /// Says which classes of lengths a peer should lend.
    pub(crate) fn wish(&self, peer: u32, classes: u32) {
        self.peers[peer as usize].inward.set_wishes(classes);
    }

    /// Where data lie in this process's memory, if they are to be lent: as the receiver wishes, or, in mode [`SendMode::Lent`], unless that can't read them.
    #[inline]
    pub(crate) fn lent_at(&self, to: u32, data: &Data, mode: SendMode) -> Option<u64> {
        let (len, peer) = (data.len(), self.peers.get(to as usize)?);
        if len < SHORTEST || !peer.direct.open {
            return None;
        }
        let wishes = self.ports[to].lane.wishes();
        let wished = match mode {
            SendMode::Lent => wishes != NONE,
            _ => wishes & 1 << class(len) != 0,
        };
        if !wished {
            return None;
        }
        let (buf, run) = data.contiguous()?;
        (run >= len).then_some(buf.addr() as u64)
    }

    /// Whether a peer may lend.
    pub(crate) fn may_lend(&self, peer: u32) -> bool {
        self.peers[peer as usize].direct.memory.is_some()
    }

    /// Whether the system has refused a copy.
    pub(crate) fn is_refused(&self, peer: u32) -> bool {
        self.peers[peer as usize].direct.refused
    }

    /// Data of a peer at an address of its own memory.
    pub(crate) fn own_memory(&self, peer: u32, at: u64) -> Option<There> {
        let direct = &self.peers[peer as usize].direct;
        let memory = direct.memory.filter(|_| !direct.refused)?;
        Some(There::Process(memory, at))
    }

    /// Whether a loan may be kept that no receive waits for: its sender may be done with it before somebody does.
    pub(crate) fn can_keep(&self, peer: u32, total: u64, synchronous: bool) -> bool {
        !synchronous && total <= WINDOW as u64 && self.own_memory(peer, 0).is_some()
    }

    /// Reads a loan that still no receive waits for, and tells its sender. False: it stays where it is, or is gone.
    pub(crate) fn keep_loan(&mut self, peer: u32, id: u64) -> bool {
        let Some(message) = self.announced.get(id) else {
            return false;
        };
        let (send, total) = (message.send, message.total);
        let (Some(Offer::Own(at)), Sink::Heap(to)) = (message.offer, &mut message.sink) else {
            return false;
        };
        let mut kept = std::mem::take(to);
        let Some(memory) = self.own_memory(peer, at) else {
            return false;
        };
        kept.resize(total as usize, 0);
        // SAFETY: the vector is there during the call, and has so many bytes.
        let buf = unsafe { UserBuf::new(kept.as_mut_ptr().expose_provenance()) };
        if !memory.read(0, buf, total as usize) {
            self.lend_no_more(peer);
            return false;
        }
        let Some(message) = self.announced.get(id) else {
            return false;
        };
        // Its sender has done with it and can't cancel it any more.
        (message.offer, message.send) = (None, u64::MAX);
        (message.early, message.arrived, message.expected) = (total, total, total);
        message.sink = Sink::Heap(kept);
        self.control(peer, Kind::Matched, [send, 0, 0, 0]);
        true
    }

    /// The system refuses what it allowed before, or the peer is gone: no more loans.
    #[cold]
    pub(crate) fn lend_no_more(&mut self, peer: u32) {
        let direct = &mut self.peers[peer as usize].direct;
        (direct.open, direct.refused, direct.trials) = (false, true, None);
        self.peers[peer as usize].copies.keep_none();
        self.wish(peer, NONE);
    }

    /// Whether the time of a message that was just announced is to be measured: somebody waits for it (with room for so many bytes), and nothing else of
    /// this peer is under way.
    pub(crate) fn measures(&self, peer: u32, total: u64, room: Option<u64>) -> bool {
        let entry = &self.peers[peer as usize];
        entry.direct.measures(total)
            && room >= Some(total)
            && entry.due == 0
            && entry.copies.is_empty()
    }

    /// A long message has ended.
    #[inline]
    pub(crate) fn learn(&mut self, message: &Announced) {
        if !message.learns {
            return;
        }
        let way = match message.offer {
            Some(Offer::Mapped(_)) => return,
            Some(Offer::Own(_)) => Way::Direct,
            None => Way::Pipe,
        };
        // What came without being asked for waited for nobody but its receiver; what has to be asked for waits for it several times, and that is its cost.
        let waited = way == Way::Pipe && message.early >= message.total;
        let since = message.since;
        let took = since.filter(|&since| !(waited && self.absence.is_after(since)));
        let cost = took.map(|since| Cost {
            took: cycles_since(since),
            exchanged: message.exchanged,
        });
        self.learn_of(message.from, message.total, way, cost);
    }

    /// The same, which has taken so many cycles, if they were counted.
    #[inline]
    pub(crate) fn learn_of(&mut self, from: u32, bytes: u64, way: Way, cost: Option<Cost>) {
        if bytes >= SHORTEST && self.peers[from as usize].direct.trials.is_some() {
            self.note(from, bytes, way, cost);
        }
    }

    fn note(&mut self, from: u32, bytes: u64, way: Way, cost: Option<Cost>) {
        // Cycles of 16 KiB: lengths of a class differ.
        let cost = cost.map(|cost| Cost {
            took: (cost.took.min(u64::MAX >> 14) << 14) / bytes.max(1),
            ..cost
        });
        let class = class(bytes);
        let theirs = self.ports[from].lane.wishes();
        let direct = &mut self.peers[from as usize].direct;
        let Some(trials) = &mut direct.trials else {
            return;
        };
        if direct.follows & 1 << class == 0 {
            trials.note(class, way, cost);
        }
        let mine = trials.wishes();
        direct.follow(
            class,
            from < self.me && theirs & 1 << (class + CLASSES) != 0,
        );
        let (follows, declined) = (direct.follows, direct.declined());
        self.wish(from, (mine & !follows | theirs & follows) & !declined);
    }

    /// A message of `total` bytes goes to a peer, through the pipe or as a loan.
    #[inline]
    pub(crate) fn count_sent(&mut self, to: u32, total: u64, mode: SendMode) {
        // Of those that are always lent the peer learns nothing.
        if total >= SHORTEST && mode != SendMode::Lent {
            self.peers[to as usize].direct.answers[class(total)] = ANSWERS;
        }
    }

    /// A message that a peer has lent has to be asked for, as its receive has gaps.
    pub(crate) fn decline(&mut self, peer: u32, total: u64) {
        self.peers[peer as usize].direct.declines[class(total)] = ANSWERS;
    }
}

#[cfg(all(test, not(loom)))]
impl Shm {
    /// From now on all long messages of a peer are to be lent, whatever is measured.
    pub fn insist(&mut self, peer: u32) {
        self.choice = Choice::Direct;
        self.peers[peer as usize].direct.trials = None;
        self.wish(peer, ALL);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::split::SPLIT;

    #[test]
    fn loans_are_cut_in_halves() {
        for (bytes, chunks) in [
            (SHORTEST, 2),
            (SHORTEST + 1, 2),
            (100_001, 2),
            (512 << 10, 2),
        ] {
            assert_eq!(cut(bytes).chunks(), chunks);
        }
        assert_eq!(cut((512 << 10) + 1).chunks(), 3);
        assert_eq!(cut(4 << 20).chunks(), 16);
        assert!(
            cut(SPLIT).fits()
                && !cut(SPLIT - 1).fits()
                && cut(1 << 36).fits()
                && !cut(1 << 40).fits()
        );
    }

    #[test]
    fn classes_are_powers_of_two() {
        let classes = [16, 31, 32, 63, 64, 128, 256, 512, 1024, 2048, 4096, 1 << 30];
        assert_eq!(
            classes.map(|k| class(k << 10)),
            [0, 0, 1, 1, 2, 3, 4, 5, 6, 7, 8, 8]
        );
    }

    #[test]
    fn a_wrong_token_is_no_proof() {
        let token = Token::new();
        let Some([pid, at, word, _]) = token.words() else {
            return;
        };
        let memory = Foreign::new(pid as i32);
        assert!(!memory.has(at, word ^ 1));
        assert!(!memory.has(8, word));
        assert!(!Foreign::new(i32::MAX).has(at, word));
    }
}
