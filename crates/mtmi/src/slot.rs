//! Sender-side matching: slots, for traffic whose partner is known beforehand.
//!
//! The receiver writes a *header*, which says where its buffer is, into a slot *at the sender*; the sender
//! finds it there and writes the data home, then says so in the receiver's slot. There is no queue, no search and no
//! unexpected message, so the cost does not grow with the number of receives posted. (Matching at the sender by a
//! header in an exclusive slot is FMPL's idea; that a header names memory by segment and offset and carries a
//! generation is our addition.)
//!
//! * [`Slots`]: the interface, and the rules that every fabric keeps;
//! * [`wait_until`]: waiting for a slot and everything else at once;
//! * `own`: slots to oneself, for [`Matched`](crate::Matched).
//!
//! Who calls it: whoever knows its partner: FMPL, persistent operations, collectives. Fabrics implement it.

mod matched;
mod own;

use std::fmt;
use std::time::Instant;

use boundary::UserBuf;
use layout::Data;

use crate::patience::Patience;
use crate::transport::{Sleeper, Transport};
use crate::words::Endpoint;

pub(crate) use own::OwnSlots;

/// Slots of one kind with every endpoint. Out of [`Slots::open_slots`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SlotTable(pub u32);

/// One slot of a table: with one peer, in both directions. The receives that this process posts there and the
/// deliveries that it makes there have nothing to do with each other.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Slot {
    /// Of which table.
    pub table: SlotTable,
    /// With whom; the process itself is allowed.
    pub peer: Endpoint,
    /// Which, from 0 on.
    pub index: u32,
}

/// What came of a receive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Landed {
    /// Nothing yet.
    NotYet,
    /// So many bytes are in its memory.
    Done {
        /// How many.
        bytes: u64,
        /// What the sender said beside them.
        immediate: u32,
    },
    /// The sender had more than fits: the memory is full, the rest was dropped at the sender.
    Truncated {
        /// How many bytes the sender had.
        sent: u64,
        /// What the sender said beside them.
        immediate: u32,
    },
    /// It was taken back: nothing was written, and nothing will be.
    Withdrawn,
    /// The peer is gone. The memory may have been written in part.
    PeerFailed,
    /// No receive is posted here.
    Idle,
}

/// How far a delivery is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Delivery {
    /// The data are still read.
    Pending,
    /// The data may be used again. So many bytes went to the receiver: fewer than there were where the receive was
    /// too short, which it was told too.
    Done {
        /// How many.
        bytes: u64,
    },
    /// The peer is gone.
    PeerFailed,
    /// Nothing is being delivered here.
    Idle,
}

/// Why an operation on slots was refused. Nothing has happened then.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SlotError {
    /// The slot is in use: a receive is posted there already, or a delivery has not been seen to end.
    Busy,
    /// There is no such slot: the table is closed, or its number of slots or of endpoints exceeded.
    NoSuchSlot,
    /// The peer opened the table with another number of slots.
    Count {
        /// With how many.
        theirs: u32,
    },
    /// The receiver has posted nothing there.
    NotOffered,
    /// No receive was prepared there, or none is posted that could be withdrawn.
    NotPrepared,
    /// The peer is gone.
    PeerFailed,
    /// The system gives no memory; its number for the error.
    Memory(i32),
}

impl fmt::Display for SlotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            SlotError::Busy => f.write_str("the slot is in use"),
            SlotError::NoSuchSlot => f.write_str("there is no such slot"),
            SlotError::Count { theirs } => {
                write!(f, "the peer opened the table with {theirs} slots")
            }
            SlotError::NotOffered => f.write_str("the receiver has posted nothing in the slot"),
            SlotError::NotPrepared => f.write_str("no receive was prepared in the slot"),
            SlotError::PeerFailed => f.write_str("the peer is gone"),
            SlotError::Memory(number) => {
                let error = std::io::Error::from_raw_os_error(number);
                write!(f, "memory for slots is refused: {error}")
            }
        }
    }
}

impl std::error::Error for SlotError {}

/// Slots.
///
/// # Rules that every fabric keeps
/// * **One at a time.** A slot holds one receive and one delivery of this process. The receive's place is free again
///   when [`landed`](Slots::landed) said anything but `NotYet`, the delivery's when [`deliver`](Slots::deliver) or
///   [`delivered`](Slots::delivered) said `Done` or `PeerFailed`; before that, [`SlotError::Busy`].
/// * **Pairing.** The n-th delivery of a slot goes to the n-th receive that was posted there and not withdrawn. A
///   delivery takes only a receive that is already posted; nothing is ever kept for one to come.
/// * **Buffers.** A receive's memory isn't written after its end, delivered data not read after theirs. Memory that
///   was asked back is the caller's again only when `landed` says so, for the sender has to agree.
/// * **Progress.** Everything ends while both processes make progress: [`Transport::advance`] or
///   [`Transport::progress`]. On some fabrics `landed` and `offered` see news without it, but nobody may rely on that.
/// * **Waking.** What arrives in a slot ends the sleep of the process. [`Transport::ready`] does not tell of it, so
///   whoever sleeps looks at its slots between arming and sleeping; [`wait_until`] does.
/// * **Failure.** When a peer has failed, what came whole can still be seen; everything else that needs it says
///   `PeerFailed`.
/// * **Distrust.** As for [`Transport`]: a process that writes what no correct one writes counts as failed.
pub trait Slots {
    /// Opens a table of `count` slots with every endpoint, without communication. Those that open a table of the
    /// same name are joined by it; a name is used once in the life of a job, and all use the same count. Numbers of tables
    /// are given out from the lowest that is free.
    fn open_slots(&mut self, name: u32, count: u32) -> Result<SlotTable, SlotError>;

    /// Closes a table in which nothing of this process is under way. Peers that still use it get no further.
    fn close_slots(&mut self, table: SlotTable);

    /// How many slots `peer` opened the table with; `None` while it is not known to have opened it.
    fn opened(&mut self, table: SlotTable, peer: Endpoint) -> Option<u32>;

    /// Binds memory to a slot for any number of receives, each to be begun by [`start`](Slots::start).
    fn prepare(&mut self, slot: Slot, memory: &Data) -> Result<(), SlotError>;

    /// Posts the prepared receive: one word tells the sender.
    fn start(&mut self, slot: Slot) -> Result<(), SlotError>;

    /// Posts a receive into `memory`, once.
    fn post(&mut self, slot: Slot, memory: &Data) -> Result<(), SlotError>;

    /// What came of the receive. Anything but `NotYet` frees its place and is told once.
    fn landed(&mut self, slot: Slot) -> Landed;

    /// Whether `landed` would say anything but `NotYet`.
    fn has_landed(&mut self, slot: Slot) -> bool;

    /// Looks at the slot until it says that something has landed, or so many times, where that is a look at memory; elsewhere it returns at once.
    #[inline(always)]
    fn await_landing(&mut self, _slot: Slot, _looks: u32) {}

    /// Whether a receive is posted of which no end was told.
    fn is_posted(&mut self, slot: Slot) -> bool;

    /// Says whether nothing of the caller's waits to be delivered in the slot, so that short messages may go there at once. At first
    /// something may.
    #[inline(always)]
    fn set_clear(&mut self, _slot: Slot, _clear: bool) {}

    /// Asks for a posted receive's memory back. `landed` says `Withdrawn` when the sender has agreed, or what came of the
    /// receive if the sender was faster.
    fn withdraw(&mut self, slot: Slot) -> Result<(), SlotError>;

    /// Whether the peer has posted a receive that the next delivery would go to, and how many bytes it takes.
    fn offered(&mut self, slot: Slot) -> Option<u64>;

    /// Delivers `data` and `immediate` to the receive that is offered. `Pending`: the data are read until
    /// [`delivered`](Slots::delivered) says otherwise.
    fn deliver(&mut self, slot: Slot, data: &Data, immediate: u32) -> Result<Delivery, SlotError>;

    /// How far a delivery that was pending is. Anything but `Pending` frees its place and is told once.
    fn delivered(&mut self, slot: Slot) -> Delivery;

    /// Memory that peers of this machine write to and read from directly, zeroed and aligned to a cache line; other memory
    /// works everywhere too. `None` where there is none (left).
    fn alloc_mapped(&mut self, bytes: usize) -> Option<UserBuf>;

    /// Gives such memory back. False: it was not out of [`alloc_mapped`](Slots::alloc_mapped), and nothing was done.
    fn free_mapped(&mut self, memory: UserBuf) -> bool;

    /// How long to poll before sleeping.
    fn patience(&mut self) -> Patience;

    /// Whether processes outnumber processors, or nobody knows yet: then who polls keeps others from running.
    fn is_crowded(&mut self) -> bool;

    /// Gives the processor to a peer that needs it, while this process polls.
    fn give_way(&mut self);
}

/// Waits until `look` says true, the transport has something to do (the caller then makes progress), or the deadline
/// passes; may return early for no reason. `look` sees the transport to look at slots.
pub fn wait_until<T: Transport + Slots>(
    transport: &mut T,
    mut look: impl FnMut(&mut T) -> bool,
    deadline: Option<Instant>,
) {
    let patience = transport.patience();
    let ready = |t: &mut T| look(t) || t.ready();
    if patience.poll(transport, ready, T::give_way, deadline) {
        return;
    }
    let sleeper = transport.sleeper();
    let armed = sleeper.arm();
    if !look(transport) && !transport.ready() {
        T::Sleeper::sleep(armed, deadline);
    }
}
