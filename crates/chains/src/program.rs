//! What the compiler makes: chains of entries in one flat array.
//!
//! A chain is a run of entries, each but the last with [`LINK`]; entries of a chain run one after
//! the other, chains run beside each other. An executor submits a chain as linked submissions:
//!
//! | entry | submissions |
//! |---|---|
//! | SEND, RECV | SEND or RECV with `MSG_WAITALL` on the connection to `peer` |
//! | WAIT, POST | READ or WRITE of 8 bytes on the token's semaphore (`EFD_SEMAPHORE`, non-blocking) |
//! | CALC, COPY | a call of the kernel's program; with [`BY_RANK`] a WRITE that asks the rank and a READ of the chain's answer token |
//! | END | whatever stores the word of completion |
//!
//! Invariants, which [`Program::verify`](crate::verify) checks: a token has one chain that posts and
//! one that waits, as often as the other, so that no two waiters meet and all tokens are zero at the
//! end (a program can be submitted again as it is); entries of one connection and direction are
//! ordered, so that no two of them are in flight at once; END comes after all others.
//!
//! Messages are runs of plain bytes, without headers: what arrives is told apart by its place in
//! the stream alone. A message without data is one byte of [`FILLER`].

use std::fmt;

/// Entry code: send `bytes` from (`area`, `offset`) to `peer`.
pub const SEND: u8 = 1;
/// Entry code: receive `bytes` from `peer` into (`area`, `offset`).
pub const RECV: u8 = 2;
/// Entry code: (`area`, `offset`) = (`from_area`, `from_offset`) op (`area`, `offset`).
pub const CALC: u8 = 3;
/// Entry code: copy `bytes` from (`from_area`, `from_offset`) to (`area`, `offset`).
pub const COPY: u8 = 4;
/// Entry code: take one unit of token `peer`, when there is one.
pub const WAIT: u8 = 5;
/// Entry code: add one unit to token `peer`.
pub const POST: u8 = 6;
/// Entry code: the collective is complete.
pub const END: u8 = 7;

/// Flag: the next entry belongs to the same chain.
pub const LINK: u8 = 1;
/// Flag of CALC and COPY: the rank does it when the entry's turn has come, not the kernel.
pub const BY_RANK: u8 = 2;

/// Area of the send buffer.
pub const AREA_SEND: u32 = 0;
/// Area of the receive buffer.
pub const AREA_RECV: u32 = 1;
/// Area of the first temporary buffer; the others follow.
pub const AREA_TEMPS: u32 = 2;
/// As an area: one byte that nobody reads, for messages without data.
pub const FILLER: u32 = u32::MAX;

/// Entries of a program at most: a submission queue's greatest length, since a chain is submitted
/// whole.
pub const MAX_ENTRIES: usize = 32_768;

/// Entries times chains of a program at most: that many words a check may need.
pub const MAX_CLOCKS: usize = 1 << 25;

/// One entry; fields that its code doesn't name are zero.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// What it does: [`SEND`] to [`END`].
    pub code: u8,
    /// [`LINK`], [`BY_RANK`].
    pub flags: u8,
    /// Bytes of an element of a CALC.
    pub unit: u16,
    /// World rank of the other process, index of the token, or the node of the graph that a CALC or COPY
    /// is (a piece of).
    pub peer: u32,
    /// Memory that is sent, received into, or calculated or copied into.
    pub area: u32,
    /// Memory that a CALC or COPY reads.
    pub from_area: u32,
    /// Bytes from the area's address.
    pub offset: i64,
    /// Bytes from the other area's address.
    pub from_offset: i64,
    /// How many bytes.
    pub bytes: u64,
}

/// The bytes of an area that may be touched, counted from its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Area {
    /// The first byte.
    pub low: i64,
    /// The byte after the last.
    pub high: i64,
}

/// The chains of one process for one collective.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// World rank of the process that runs it.
    pub rank: u32,
    /// Memory: send buffer, receive buffer, temporary buffers.
    pub areas: Vec<Area>,
    /// Number of tokens, all zero at the start.
    pub tokens: u32,
    /// The chains, one behind the other.
    pub entries: Vec<Entry>,
}

impl Program {
    /// The chains.
    pub fn chains(&self) -> impl Iterator<Item = &[Entry]> {
        self.entries
            .split_inclusive(|e| e.flags & LINK == 0)
            .filter(|c| !c.is_empty())
    }

    /// Submissions that a round of the program takes.
    pub fn submissions(&self) -> usize {
        let asks = self.entries.iter().filter(|e| e.flags & BY_RANK != 0);
        self.entries.len() + asks.count()
    }
}

fn place(area: u32, offset: i64) -> String {
    match area {
        AREA_SEND => format!("send+{offset}"),
        AREA_RECV => format!("recv+{offset}"),
        FILLER => "filler".into(),
        n => format!("temp{}+{offset}", n - AREA_TEMPS),
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let to = place(self.area, self.offset);
        let from = place(self.from_area, self.from_offset);
        let who = if self.flags & BY_RANK != 0 {
            ", by the rank"
        } else {
            ""
        };
        let (n, peer) = (self.bytes, self.peer);
        match self.code {
            SEND => write!(f, "SEND {n} B of {to} to {peer}"),
            RECV => write!(f, "RECV {n} B into {to} from {peer}"),
            CALC => write!(f, "CALC {n} B of {from} into {to}{who}"),
            COPY => write!(f, "COPY {n} B of {from} to {to}{who}"),
            WAIT => write!(f, "WAIT token {peer}"),
            POST => write!(f, "POST token {peer}"),
            END => write!(f, "END"),
            code => write!(f, "unknown code {code}"),
        }
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, chain) in self.chains().enumerate() {
            writeln!(f, "chain {i}:")?;
            for entry in chain {
                writeln!(f, "  {entry}")?;
            }
        }
        Ok(())
    }
}
