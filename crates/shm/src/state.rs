//! What the fabric holds: one entry per peer, and the operations under way.

use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use layout::{Data, Reader, Writer};
use mtmi::{Completion, Context, Cookie, Endpoint, Names, Outcome, Patience, SendMode};

use crate::absence::Absence;
use crate::chunking;
use crate::common::Common;
use crate::direct::{Choice, Direct, TRIED_FROM, Token};
use crate::footprint::Footprint;
use crate::lane::Lane;
use crate::mapped::{Copies, KEPT_AFTER};
use crate::places::{Mover, Spread};
use crate::port::{Port, Ports};
use crate::segment::{Segment, SendersRef};
use crate::sheets::Sheets;
use crate::shelf::{Shelf, Shelved};
use crate::slots::{Area, SlotState};
use crate::space::Space;
use crate::trial::CLASSES;
use crate::waiting::SHARED;
use crate::wire::{Kind, Words};

/// The fabric, as one process holds it.
pub struct Shm {
    // Lanes and bells point into the segment; it is declared last, so it is dropped last.
    pub(crate) ports: Rc<Ports>,
    /// Peers that ever sent.
    pub(crate) inward: Vec<u32>,
    pub(crate) peers: Vec<Peer>,
    /// Peers whose entry says `busy`.
    pub(crate) busy: Vec<u32>,
    /// Who ever sent to us,
    pub(crate) senders: SendersRef,
    /// and whom of them we know.
    pub(crate) seen: Vec<u64>,
    pub(crate) sends: Names<Send>,
    pub(crate) announced: Names<Announced>,
    /// What it has put where several read it.
    pub(crate) shelf: Shelf,
    /// Where long messages were received.
    pub(crate) footprint: Footprint,
    /// When this process was last away while messages were under way.
    pub(crate) absence: Absence,
    /// Peers caught doing what no correct one does; declared failed by the next `progress`.
    pub(crate) suspects: Vec<u32>,
    /// Whether nothing goes out on the short path; see [`Shm::expect_deaths`].
    pub(crate) wary: bool,
    pub(crate) failures: VecDeque<Endpoint>,
    pub(crate) patience: Patience,
    /// With a processor per rank: how it shares one with none.
    pub(crate) mover: Option<Mover>,
    /// How this process gives way where there is not.
    pub(crate) spread: Spread,
    /// Whether all ranks' processors are known, so that `patience` is final.
    pub(crate) settled: bool,
    pub(crate) slots: SlotState,
    /// Whether long messages are read in their senders' memory,
    pub(crate) choice: Choice,
    /// from which cost of the pipe on,
    pub(crate) tried_from: [u64; CLASSES],
    /// Cycles before a short loan is kept that no receive waits for.
    pub(crate) kept_after: u64,
    /// and what of this process's memory others try that with.
    pub(crate) token: Token,
    /// This process, among those of the job,
    pub(crate) me: u32,
    /// and among those of the segment,
    pub(crate) local: u32,
    /// which are these, in order.
    pub(crate) members: Vec<u32>,
    pub(crate) segment: Arc<Segment>,
}

/// What is known about a peer beside its port.
pub(crate) struct Peer {
    /// What waits for room in the ring, in order.
    pub queue: VecDeque<Queued>,
    /// Sends that stream through the pipe, one after the other.
    pub streams: VecDeque<u64>,
    /// The pipe to the peer,
    pub space: Space,
    /// and those that are the peer's too.
    pub common: Common,
    /// Whether the first of the streams waits for room in that.
    pub blocked: bool,
    /// Messages of the peer whose early data are on their way, in order.
    pub early: VecDeque<u64>,
    /// Chunks consumed from the peer's pipe.
    pub consumed: u32,
    /// Bytes to come through the peer's pipe.
    pub due: u64,
    /// Messages that are copied where they lie.
    pub copies: Copies,
    /// The number that a process was last said to have, and whether it is the peer.
    pub process: Option<(i32, bool)>,
    /// What is known about reading each other's memory.
    pub direct: Direct,
    /// What the bits of the places of this process's shelf will be that the peer reads, when it has read all.
    pub shelved: u32,
    /// The lane from the peer.
    pub inward: Lane,
    /// Its place in the segment.
    pub slot: u32,
    /// Whether its sender bits know of us.
    pub announced: bool,
    /// Whether it is in `Shm::busy`.
    pub busy: bool,
    pub failed: bool,
}

/// What waits for room in a ring.
pub(crate) enum Queued {
    Send(u64),
    Control(Kind, Words),
}

/// A send under way.
pub(crate) struct Send {
    pub cookie: Cookie,
    pub to: u32,
    pub context: Context,
    pub tag: i32,
    pub mode: SendMode,
    pub total: u64,
    pub sent: u64,
    /// Bytes of a chunk of what a receiver asks for, when the first of them goes; before, 0.
    pub chunk: u64,
    pub data: Data,
    /// Made when the data begin to move.
    pub reader: Option<Reader>,
    pub state: Sending,
    /// The receiver was asked to drop the message.
    pub cancelling: bool,
    /// The receiver was told where the data lie.
    pub offered: bool,
}

/// How far a send is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sending {
    /// Waits for room in the ring.
    Queued,
    /// All sent; waits to be matched.
    AwaitsMatch,
    /// Announced; waits to be asked for the rest.
    AwaitsClear,
    /// Streams up to byte `until` to the receiver's entry `target`.
    Streams { target: u64, until: u64 },
    /// Both sides copy.
    Splits,
}

/// A message whose data come through the pipe, or lie somewhere.
pub(crate) struct Announced {
    pub from: u32,
    /// The sender's name for it; `u64::MAX` where that has done with it.
    pub send: u64,
    pub tag: i32,
    pub total: u64,
    /// Bytes that come without being asked for.
    pub early: u64,
    pub arrived: u64,
    /// Bytes that come in all, as things stand.
    pub expected: u64,
    pub synchronous: bool,
    /// Where the data lie, if they don't come through the pipe.
    pub offer: Option<Offer>,
    /// Where they lie on the sender's shelf, if they do.
    pub shelved: Option<Shelved>,
    /// When it was matched, in cycles, if it was at once and had the pair for itself.
    pub since: Option<u64>,
    /// Whether this process gave its sender a message at the same time, if it is measured.
    pub exchanged: bool,
    /// Whether the way that it comes is among those that are compared.
    pub learns: bool,
    /// Whether what comes through the pipe is written past the caches.
    pub past: bool,
    pub sink: Sink,
}

/// Where the data of one process are that another copies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Offer {
    /// In its arena, from this byte on.
    Mapped(u64),
    /// At this address of its own memory.
    Own(u64),
}

/// Where the data of an announced message go.
pub(crate) enum Sink {
    /// Not matched yet.
    Heap(Vec<u8>),
    /// Into a receive's memory.
    User {
        writer: Writer,
        capacity: u64,
        cookie: Cookie,
    },
    /// Nobody wants them.
    Drop,
}

impl Announced {
    /// The completion of the receive that matched it.
    pub fn completion(&self, cookie: Cookie, capacity: u64) -> Completion {
        let outcome = if self.total > capacity {
            Outcome::Truncated { sent: self.total }
        } else {
            Outcome::Done
        };
        Completion {
            cookie,
            source: Endpoint(self.from),
            tag: self.tag,
            bytes: self.total.min(capacity),
            outcome,
        }
    }
}

impl Send {
    /// Its completion.
    pub fn completion(&self, outcome: Outcome) -> Completion {
        Completion {
            cookie: self.cookie,
            source: Endpoint(self.to),
            tag: self.tag,
            bytes: if outcome == Outcome::Done {
                self.total
            } else {
                0
            },
            outcome,
        }
    }
}

impl Shm {
    /// Number `local` of the processes on a segment that all of them map. `members` are their numbers
    /// in the job, of `endpoints`; who is no member counts as failed here. `area` is for slots; without it there are none.
    pub(crate) fn new(
        segment: Segment,
        area: std::io::Result<Area>,
        local: u32,
        members: Vec<u32>,
        endpoints: u32,
    ) -> Shm {
        let segment = Arc::new(segment);
        let place = |endpoint| members.binary_search(&endpoint).ok().map(|i| i as u32);
        let ports = (0..endpoints).map(|peer| {
            // The way to oneself stands in for those that are not there: it is never opened.
            let slot = place(peer).unwrap_or(local);
            let (there, back) = (segment.lane(local, slot), segment.sheet_lane(slot, local));
            let owned = match chunking::here().common {
                true if local < slot => Sheets::FIRST,
                true if local > slot => Sheets::OTHER,
                _ => Sheets::NONE,
            };
            Port::new(there, back, segment.bell_ref(slot), (owned, local < slot))
        });
        let ports = Rc::new(Ports::new(ports, segment.clone()));
        let common = |slot| {
            let lanes = |area| {
                let lane = |from, to| segment.common_lane(from, to, area);
                (lane(local, slot), lane(slot, local))
            };
            Common::new(lanes, slot < local)
        };
        let peers = (0..endpoints)
            .map(|from| Peer {
                queue: VecDeque::new(),
                streams: VecDeque::new(),
                space: Space::new(),
                common: common(place(from).unwrap_or(local)),
                blocked: false,
                early: VecDeque::new(),
                consumed: 0,
                due: 0,
                copies: Copies::default(),
                process: None,
                direct: Direct::default(),
                shelved: 0,
                inward: segment.lane(place(from).unwrap_or(local), local),
                slot: place(from).unwrap_or(local),
                announced: false,
                busy: false,
                failed: place(from).is_none(),
            })
            .collect();
        Shm {
            ports,
            inward: Vec::new(),
            peers,
            busy: Vec::new(),
            senders: segment.senders_ref(local),
            seen: vec![0; segment.senders(local).len()],
            sends: Names::new(),
            announced: Names::new(),
            shelf: Shelf::new(),
            footprint: Footprint::new(),
            absence: Absence::default(),
            suspects: Vec::new(),
            wary: false,
            failures: VecDeque::new(),
            patience: SHARED,
            mover: None,
            spread: Spread::new(local),
            settled: false,
            slots: SlotState::new(area),
            choice: Choice::Pipe,
            tried_from: TRIED_FROM,
            kept_after: KEPT_AFTER,
            token: Token::new(),
            me: members[local as usize],
            local,
            members,
            segment,
        }
    }

    /// The shortest ways to and from all processes.
    pub fn ports(&self) -> &Rc<Ports> {
        &self.ports
    }

    /// Puts a peer on the list of those that `progress` has to serve beyond their ring.
    #[inline]
    pub(crate) fn mark_busy(&mut self, peer: u32) {
        let entry = &mut self.peers[peer as usize];
        if !entry.busy {
            entry.busy = true;
            self.busy.push(peer);
        }
    }

    /// Notes that a peer broke the protocol.
    #[cold]
    pub(crate) fn suspect(&mut self, peer: u32) {
        self.ports[peer].shut();
        self.suspects.push(peer);
    }

    /// Whether a peer sent for the first time.
    #[inline]
    pub(crate) fn has_news(&self) -> bool {
        let bits = self.senders.get().iter().zip(&self.seen);
        bits.into_iter()
            .any(|(bits, seen)| bits.load(Ordering::Relaxed) & !seen != 0)
    }

    /// Takes up peers that sent for the first time. Returns whether there are any.
    pub(crate) fn find_senders(&mut self) -> bool {
        let mut found = false;
        for i in 0..self.seen.len() {
            let bits = self.senders.get()[i].load(Ordering::Acquire);
            let mut new = bits & !self.seen[i];
            self.seen[i] |= new;
            while new != 0 {
                let slot = i * 64 + new.trailing_zeros() as usize;
                new &= new - 1;
                let peer = self.members.get(slot).copied().unwrap_or(self.me);
                if peer != self.me && !self.peers[peer as usize].failed {
                    // Taking its messages rings its bell, whether anything goes to it or not.
                    self.ports[peer].bell.get().attach();
                    self.ports[peer].set_known(true);
                    self.inward.push(peer);
                    found = true;
                }
            }
        }
        found
    }
}
