//! Where everything lies in the maps and in packets. The program, `tables` and `rank` go by it.
//!
//! Invariants: numbers are little-endian; what the program works on in words is aligned to 8 bytes; the state of
//! an input and the page of results have `WHAT`, `HAVE` and `DATA` at the same places, so that one piece of code sends either.

/// Bytes that a contribution or a result has at most.
pub const DATA_MAX: usize = 1024;
/// Inputs of an entry at most: processes of this host, and hosts below it.
pub const INPUTS_MAX: u32 = 1 << LEVELS;
/// Rounds in which the inputs of an entry are combined in pairs, at most.
pub const LEVELS: u32 = 10;
/// Hosts below a host at most.
pub const CHILDREN_MAX: u32 = 16;
/// How many operations of the program's own a context has at once.
pub const SLOTS: u32 = 4;
/// Words of one at most.
pub const WORDS_MAX: usize = 256;
/// How many steps one is allowed for all elements of two contributions, as nothing else runs on the processor meanwhile: measured, 50 µs if they
/// add integers and 70 if they add doubles (12 ns a step, on a virtual machine; a sum of 128 integers that MPI has takes 5 µs there).
pub const STEPS_MAX: u32 = 4096;
/// How often a packet is passed on at most: twice the depth of any tree of hosts, with room.
pub const HOPS_MAX: u8 = 64;

/// Numbers of the maps, as the program has them.
pub(crate) mod map {
    /// An entry for each context: who is where, and how far it is.
    pub const CONTEXTS: usize = 0;
    /// The inputs of all entries.
    pub const INPUTS: usize = 1;
    /// Pages of results, each a map.
    pub const RESULTS: usize = 2;
    /// Room for a packet, for each processor.
    pub const SCRATCH: usize = 3;
    /// Byte code: for each context [`SLOTS`](super::SLOTS) of it.
    pub const CODES: usize = 4;
    /// What runs that, for each processor.
    pub const MACHINE: usize = 5;
}

/// An entry of [`map::CONTEXTS`].
pub(crate) mod context {
    /// What packets for it say, never 0: nobody else's is the same.
    pub const ID: i16 = 0;
    /// The key, two words.
    pub const KEY: i16 = 8;
    /// How many inputs it has.
    pub const INPUTS: i16 = 24;
    /// Of these, how many are processes of this host: the first ones.
    pub const LOCAL: i16 = 28;
    /// Where its inputs begin in their map.
    pub const BASE: i16 = 32;
    /// Hosts below it, the last inputs.
    pub const CHILDREN: i16 = 36;
    /// Whether there is a host above it.
    pub const PARENT: i16 = 40;
    /// The last number of which all inputs came.
    pub const GATHERED: i16 = 48;
    /// The last number of which the result came.
    pub const DONE: i16 = 56;
    /// Packets with a wrong tag.
    pub const FORGED: i16 = 64;
    /// Packets that came again, late or early.
    pub const REPEATED: i16 = 72;
    /// Packets sent to other hosts.
    pub const SENT: i16 = 80;
    /// Packets that the system didn't send.
    pub const UNSENT: i16 = 88;
    /// Not 0 if a process of this host waits to be woken.
    pub const WAITERS: i16 = 96;
    /// The host above, then those below.
    pub const PEERS: i16 = 128;
    /// Bytes of all.
    pub const BYTES: usize =
        PEERS as usize + super::peer::BYTES * (1 + super::CHILDREN_MAX as usize);
}

/// Another host, in a context.
pub(crate) mod peer {
    /// Its [`context::ID`](super::context::ID).
    pub const ID: i16 = 0;
    /// Its entry there.
    pub const ENTRY: i16 = 8;
    /// Which of its inputs this host is.
    pub const INPUT: i16 = 12;
    /// The interface to it.
    pub const INTERFACE: i16 = 16;
    /// The sum of the IPv4 header's words, its length and its sum taken for 0.
    pub const SUM: i16 = 20;
    /// Where its packets begin in the scratch, which says whether they are IPv4 or IPv6.
    pub const START: i16 = 24;
    /// The headers of link, IP and UDP, as in the scratch.
    pub const HEAD: i16 = 32;
    /// Bytes of all.
    pub const BYTES: usize = HEAD as usize + super::scratch::OURS as usize;
}

/// What was contributed, also [`WHAT`] of a result: the operation in the lowest byte, the type in the
/// next, the length in bytes in the next two. With [`BYTECODE`] in the lowest byte the slot is in the next, and the byte code's mark in the upper half.
pub(crate) const WHAT: i16 = 8;
/// Whether there are data, of a broadcast.
pub(crate) const HAVE: i16 = 16;
/// The data.
pub(crate) const DATA: i16 = 128;

/// An entry of [`map::INPUTS`].
pub(crate) mod input {
    /// The last number that was taken here.
    pub const CLAIMED: i16 = 0;
    /// What a process says to show that it is the one.
    pub const TICKET: i16 = 24;
    /// For each level how often one of the two halves came.
    pub const COUNTS: i16 = 32;
    /// The UDP port at which the process waits for the result, as packets have it; 0 if it does not.
    pub const PORT: i16 = 112;
    /// Bytes of all.
    pub const BYTES: usize = super::DATA as usize + super::DATA_MAX;
}

/// An entry of [`map::CODES`].
pub(crate) mod code {
    use super::WORDS_MAX;

    /// What shows which it is, in the lower half.
    pub const MARK: i16 = 0;
    /// How many words it has; 0 if there is none.
    pub const WORDS: i16 = 8;
    /// Bytes of an element.
    pub const ELEMENT: i16 = 12;
    /// The words.
    pub const TEXT: i16 = 16;
    /// Bytes of all.
    pub const BYTES: usize = TEXT as usize + 8 * WORDS_MAX;
}

/// What a socket calculates in (`program/calc.rs`).
pub(crate) mod cells {
    /// The operand that comes in.
    pub const OPERAND: i16 = 0;
    /// What runs byte code.
    pub const MACHINE: i16 = super::DATA_MAX as i16;
    /// The first cell; each has [`DATA_MAX`](super::DATA_MAX) bytes.
    pub const FIRST: i16 = 2 * super::DATA_MAX as i16;
    /// Bytes of all.
    pub const BYTES: usize = FIRST as usize + crate::calc::CELLS as usize * super::DATA_MAX;
}

/// What runs byte code.
pub(crate) mod machine {
    /// Registers of 8 bytes.
    pub const REGISTERS: i16 = 0;
    /// How many.
    pub const COUNT: i16 = 16;
    /// Which word comes next.
    pub const NEXT: i16 = REGISTERS + 8 * COUNT;
    /// Where the element lies, in bytes behind the first one.
    pub const AT: i16 = NEXT + 8;
    /// Bytes of all.
    pub const BYTES: usize = AT as usize + 8;
}

/// A page of results.
pub(crate) mod result {
    /// Whose result it is: the last that is written.
    pub const NUMBER: i16 = 0;
    /// When it was written, in nanoseconds of the monotonic clock.
    pub const WHEN: i16 = 24;
    /// Bytes of all.
    pub const BYTES: usize = super::DATA as usize + super::DATA_MAX;
}

/// A packet in [`map::SCRATCH`]. From UDP's header on it lies at the same place whatever it came with.
pub(crate) mod scratch {
    /// The link's header, 14 bytes, of a packet of IPv4.
    pub const ETHERNET: i16 = IP - super::ETHERNET_BYTES as i16;
    /// IPv4's: 20 bytes.
    pub const IP: i16 = UDP - 20;
    /// The link's header of a packet of IPv6.
    pub const ETHERNET_6: i16 = IP_6 - super::ETHERNET_BYTES as i16;
    /// IPv6's: 40 bytes.
    pub const IP_6: i16 = UDP - 40;
    /// UDP's: 8 bytes.
    pub const UDP: i16 = OURS - super::UDP_BYTES as i16;
    /// Ours.
    pub const OURS: i16 = 64;
    /// What follows it.
    pub const DATA: i16 = OURS + super::header::BYTES;
    /// Where a packet begins is no more than this, which is a mask too.
    pub const START_MAX: i32 = 31;
    /// Bytes of all: as far as a word's number of 8 bits can reach.
    pub const BYTES: usize = OURS as usize + 256 * 8;
}

/// Our header in a packet.
pub(crate) mod header {
    /// [`MAGIC`].
    pub const MAGIC_AT: i16 = 0;
    /// One of [`Kind`](super::Kind).
    pub const KIND: i16 = 4;
    /// How often it was passed on.
    pub const HOPS: i16 = 5;
    /// As [`super::HAVE`], one byte.
    pub const HAVE: i16 = 6;
    /// The receiver's entry.
    pub const ENTRY: i16 = 8;
    /// Which of its inputs is meant.
    pub const INPUT: i16 = 12;
    /// The receiver's context.
    pub const ID: i16 = 16;
    /// The collective's number on the context, from 1 on.
    pub const NUMBER: i16 = 24;
    /// As [`super::WHAT`].
    pub const WHAT: i16 = 32;
    /// What shows that it is from one of us: the ticket, or a keyed sum of header and data, this word taken for 0.
    pub const TAG: i16 = 40;
    /// Bytes of all.
    pub const BYTES: i16 = 48;
    /// "yamb", and the version of this layout.
    pub const MAGIC: u32 = u32::from_le_bytes(*b"ymb\x01");
}

/// Bytes of the link's header.
pub const ETHERNET_BYTES: usize = 14;
/// Bytes of UDP's header.
pub const UDP_BYTES: usize = 8;

/// What a packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// A process of this host enters the collective.
    Start = 1,
    /// What all below a host have contributed, to the host above.
    Up = 2,
    /// The result, to a host below.
    Down = 3,
    /// A process of this host sleeps until the result is there, and wants a packet then: where this one comes from.
    Wait = 4,
}

/// What is done with the contributions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Op {
    /// Nothing: there are no data.
    Barrier = 0,
    /// One has data, all get them.
    Bcast = 1,
    /// Sum; of integers, what fits.
    Sum = 2,
    /// Product, what fits.
    Prod = 3,
    /// The smaller one.
    Min = 4,
    /// The greater one.
    Max = 5,
    /// Bits that both have.
    Band = 6,
    /// Bits that one has.
    Bor = 7,
    /// Bits that only one has.
    Bxor = 8,
    /// 1 if neither is 0, else 0.
    Land = 9,
    /// 1 if not both are 0.
    Lor = 10,
    /// 1 if just one is 0.
    Lxor = 11,
}

impl Op {
    /// All of them.
    pub const ALL: [Op; 12] = [
        Op::Barrier,
        Op::Bcast,
        Op::Sum,
        Op::Prod,
        Op::Min,
        Op::Max,
        Op::Band,
        Op::Bor,
        Op::Bxor,
        Op::Land,
        Op::Lor,
        Op::Lxor,
    ];

    /// Whether elements of this type can be combined so here.
    pub fn supports(self, ty: Type) -> bool {
        match self {
            Op::Barrier | Op::Bcast | Op::Sum | Op::Prod | Op::Min | Op::Max => true,
            _ => !ty.is_float(),
        }
    }
}

/// The type of elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum Type {
    I8 = 0,
    U8 = 1,
    I16 = 2,
    U16 = 3,
    I32 = 4,
    U32 = 5,
    I64 = 6,
    U64 = 7,
    F32 = 8,
    F64 = 9,
}

impl Type {
    /// All of them.
    pub const ALL: [Type; 10] = [
        Type::I8,
        Type::U8,
        Type::I16,
        Type::U16,
        Type::I32,
        Type::U32,
        Type::I64,
        Type::U64,
        Type::F32,
        Type::F64,
    ];

    /// Bytes of one.
    pub fn bytes(self) -> usize {
        match self {
            Type::I8 | Type::U8 => 1,
            Type::I16 | Type::U16 => 2,
            Type::I32 | Type::U32 | Type::F32 => 4,
            Type::I64 | Type::U64 | Type::F64 => 8,
        }
    }

    /// Whether it has a sign.
    pub fn is_signed(self) -> bool {
        !matches!(self, Type::U8 | Type::U16 | Type::U32 | Type::U64)
    }

    /// Whether it is a floating-point number.
    pub fn is_float(self) -> bool {
        matches!(self, Type::F32 | Type::F64)
    }
}

/// Stands in an [`Op`]'s place where the operation is the program's own.
pub(crate) const BYTECODE: u8 = 12;

/// [`WHAT`] of contributions that do not fit together.
pub(crate) const MISMATCH: u64 = 0xff;

/// [`WHAT`] of contributions whose byte code was not in its slot.
pub(crate) const NO_CODE: u64 = 0xfe;

/// [`WHAT`] of an operation on so many bytes.
pub(crate) fn what(op: Op, ty: Type, bytes: usize) -> u64 {
    u64::from(op as u8) | u64::from(ty as u8) << 8 | (bytes as u64) << 16
}

/// [`WHAT`] of byte code with this mark, in this slot, on so many bytes.
pub(crate) fn what_of_code(slot: u32, mark: u32, bytes: usize) -> u64 {
    let low = u64::from(BYTECODE) | u64::from(slot) << 8 | (bytes as u64) << 16;
    low | u64::from(mark) << 32
}

const _: () = assert!(
    WORDS_MAX.is_power_of_two()
        && DATA_MAX.is_power_of_two()
        && machine::COUNT as usize == bytecode::REGISTERS
        && code::BYTES.is_multiple_of(8)
        && peer::BYTES.is_multiple_of(8)
        && scratch::ETHERNET_6 >= 0
        && scratch::ETHERNET <= scratch::START_MAX as i16
        && context::BYTES.is_multiple_of(8)
        && input::COUNTS + 8 * LEVELS as i16 <= input::PORT
        && input::PORT + 8 <= DATA
        && scratch::DATA as usize + DATA_MAX <= scratch::BYTES
);
