//! Blocking collectives of processes that share memory: each writes what it has to its own common memory, or where it has just read, and the others read it there.
//!
//! No message, no graph, no request: a collective is one *round* or several, and in a round a process publishes at most once and reads what
//! others have published. So a barrier is a line written and the others' lines read, and where ranks share processors each needs one turn
//! of a processor for it. Longer data go in chunks, a round each; long ones the kernel copies from one program's buffer to another's, if the system allows it ([`direct`]).
//!
//! # Memory
//! A communicator has a *place* in the common memory of its members, the same at all ([`places`]). In it lie
//! [`HEADS`] pairs of lines, each a word that says which round this process has published with how many bytes, and up to
//! [`INLINE`] bytes beside it; [`BODIES`] bodies for longer data; [`EXCHANGED`] more for those of exchanges, in which all write and all read; one that two members hand to
//! each other; and a word that says up to which round this process has read all it needs. Rounds use heads and bodies in turn.
//!
//! All of that is written by its own process only, but the bodies for exchanges and broadcasts and the one that is handed over, and where a program's buffer is written by another process its own has said so in a
//! round. Those change hands: whoever writes one has read what stands in it. Whose turn it is follows from the number of the round, or, of the one that two members hand to each
//! other, from who wrote it last: as roots alternate, both then write lines that they have just read.
//!
//! # Invariants
//! * Rounds are counted alike at all members, and only ever grow, across the communicators that use a place one after the other.
//! * A head or body is written again only when all members have read what they need of it. A process knows that from the words that
//!   say so; or, without looking at these, from a round in which all read from all: who has published a round is through with those before it.
//! * Which collectives go this way depends only on what is the same at all members in a program that is right: the communicator, the
//!   operation, the bytes.
//! * What others wrote is checked: lengths against those that are expected, views against the stretch's end. Where lengths don't agree the
//!   program is wrong, and what it receives may be anything that members wrote before; whoever notices gives the place up, for good, and whoever waits for what will not come then is told.
//!
//! Who calls it: `api::coll` and `api::coll_reduce`, for blocking calls. All other collectives go by graphs and messages, and so do long ones of several members that don't lend each other their memory.

mod agreed;
mod bodies;
mod direct;
mod lines;
mod moves;
mod places;
mod reductions;
mod rounds;

use std::cell::Cell;
use std::ops::RangeInclusive;

use boundary::AlignedBuf;
use cad::together::CHUNK;
use cad::{bcast, parts};
use fabrics::{Fabrics, Foreign, Stretch};
use types::Result;

use crate::coll::Planned;
use crate::graphs::Plan;
use crate::state::Engine;

pub(crate) use places::{Meeting, Places};

use bodies::Hands;
use lines::Lines;
use places::Lease;

/// Bytes of broadcasts, and of vectors to be reduced, that go by messages where [those](Engine::shared_bytes) are sooner.
const SHARED_BCASTS: RangeInclusive<u64> = bcast::SHARED_WAITED_MIN..=bcast::SHARED_MAX;
const PARTS: RangeInclusive<u64> = parts::WAITED_MIN..=parts::MAX;

/// Distance of lines that are written apart: processors fetch lines in pairs.
const APART: usize = 128;
const PAGE: usize = 4096;
/// Lines to publish in: so many rounds may be under way of collectives that need not wait for all.
const HEADS: u64 = 16;
/// Where the word stands that says what was read.
const READ: usize = HEADS as usize * APART;
/// Where the word stands that says whether this member has given the place up.
const GIVEN_UP: usize = READ + 8;
/// Where the word stands that says in which round this member last failed to have the kernel copy what it was to: twice the round's number, and one
/// more if the collective can be done all over again.
const FAILED: usize = READ + 16;
/// Bytes beside a head's word: the rest of two lines.
const INLINE: usize = APART - 8;
/// Bytes of a body.
const BODY: usize = CHUNK;
/// Bodies: the writer is up to so many rounds ahead of the slowest reader, and writes lines that others have not just read. (Two near cores of an
/// EPYC of the fifth generation: allreduces of 256 KiB and 1 MiB take 10.1 and 41 us so, 10.7 and 44 with four; allgathers 10.0 and 45, and
/// 10.7 and 48; of 64 KiB from each of four ranks 11.4 and 13.1.)
const BODIES: u64 = 16;
/// Bodies that the members write in turn, in exchanges and broadcasts: whoever writes one has read what stands in it, and processors write over lines
/// that they have read last sooner than over their own that another has read, from [some bytes](lines) on. As it publishes two rounds ahead of what it knows to be read, four is
/// the least number; more would take more of the cache.
const EXCHANGED: u64 = 4;
/// Where the body is that two members hand to each other.
const HANDED_AT: usize = BODIES_AT + (BODIES + EXCHANGED) as usize * BODY;
/// Bytes of that one: most that goes by it. Of longer data several chunks are under way.
const HANDED: usize = 16 << 10;
/// Where the bodies begin. Long memory from `malloc` begins 16 bytes behind a page's start, and a copy between places less than a line apart within
/// their pages is slow (`sys::copy`): of two far cores of an EPYC of the fifth generation, a broadcast of 64 KiB takes 3.05 us so, and from a page's start on 3.9 into
/// such memory.
const BODIES_AT: usize = PAGE + PAGE / 2;
/// Bytes of a place.
const PLACE: usize = 2 * PAGE + (BODIES + EXCHANGED) as usize * BODY + HANDED;
/// Places in the common memory of a process: as many communicators are served at a time.
const PLACES: usize = 64;

const _: () = assert!(BODIES <= HEADS && READ + APART <= PAGE && PLACES * PLACE <= Fabrics::COMMON);
/// Bits of a head's word for the bytes, below the number of the round.
const LENGTH_BITS: u32 = 16;
const _: () = assert!(BODY < 1 << LENGTH_BITS);
const _: () = assert!(INLINE < HANDED && HANDED <= BODY && HANDED_AT + HANDED <= PLACE);

/// A communicator's place, as one member uses it.
pub(crate) struct Together {
    /// The members' memory, by rank.
    members: Box<[Stretch]>,
    /// Their other memory, if all may read and write it,
    foreign: Option<Box<[Foreign]>>,
    /// and none has failed to yet.
    direct: Cell<bool>,
    me: usize,
    /// What depends on the members' processor.
    lines: &'static Lines,
    /// The last round that was begun.
    last: Cell<u64>,
    /// All members have read what they need of the rounds up to this.
    read: Cell<u64>,
    /// Whether the members' lengths did not agree: then they may not agree on the number of rounds either, and nothing more goes here.
    spoilt: Cell<bool>,
    hands: Hands,
    /// Whether this member goes through long data from their end to their beginning next.
    turned: Cell<bool>,
    /// Memory for what is combined and not kept.
    scratch: Cell<AlignedBuf>,
    lease: Lease,
}

impl Engine {
    /// Runs a collective to its end: here if it fits, else by its graph.
    pub(crate) fn run_planned(&self, planned: Planned) -> Result<()> {
        let Some(way) = self.way_of(&planned)? else {
            return self.run_collective(planned.call(self));
        };
        self.check_whole(&planned.comm, &planned.comm.group)?;
        way.check_sound()?;
        match self.shared_bytes(&planned) {
            // Not what the kernel copies from buffer to buffer.
            Some(bytes) if !way.place.is_direct() => way.agree(&planned.plan, bytes)?,
            _ => return way.run(&planned.plan),
        }
        self.run_collective(planned.handed(self)?)
    }

    /// Bytes of a collective that is over sooner if it goes as one behind which ranks compute: by long messages that lie where all read them.
    fn shared_bytes(&self, planned: &Planned) -> Option<u64> {
        let (bytes, sooner) = match &planned.plan {
            Plan::Bcast(p) => (p.ty.bytes(p.count), SHARED_BCASTS),
            Plan::Reduce(p) => (p.ty.bytes(p.count), PARTS),
            Plan::Allreduce(p) => (p.ty.bytes(p.count), PARTS),
            _ => return None,
        };
        let fits = sooner.contains(&bytes) && self.goes_straight(&planned.comm);
        (fits && !self.lends()).then_some(bytes)
    }

    /// How a collective goes here, if it does.
    fn way_of<'a>(&'a self, planned: &'a Planned) -> Result<Option<rounds::Way<'a>>> {
        let Some(place) = self.meeting(planned)? else {
            return Ok(None);
        };
        let way = rounds::Way {
            engine: self,
            call: planned,
            place,
            kernel: reductions::kernel(planned),
        };
        Ok(way.fits(&planned.plan).then_some(way))
    }
}

impl rounds::Way<'_> {
    fn run(&self, plan: &Plan) -> Result<()> {
        match plan {
            Plan::Barrier(_) => self.barrier(),
            Plan::Bcast(p) => self.bcast(p),
            Plan::Gather(p) => self.gather(p),
            Plan::Scatter(p) => self.scatter(p),
            Plan::Allgather(p) => self.allgather(p),
            Plan::Alltoall(p) => self.alltoall(p),
            Plan::Reduce(p) => self.reduce(p),
            Plan::Allreduce(p) => self.allreduce(p),
            Plan::Scan(p) => self.scan(p, true),
            Plan::Exscan(p) => self.scan(p, false),
        }
    }
}
