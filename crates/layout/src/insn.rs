//! The instruction set: 16 bytes each, little-endian when serialised.
//!
//! Lengths are in bytes, already multiplied out. `cur` is the current displacement; a loop's body
//! starts each iteration at the loop's `cur` plus the iteration's displacement, and `cur` returns
//! to the loop's own value when the loop ends.

/// Operation codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Op {
    /// Closes a loop; at depth 0 ends the program.
    End = 0,
    /// One fragment of `a` bytes at `cur + b`.
    Blk = 1,
    /// `a` fragments of `c` bytes, the first at `cur`, `b` bytes from one to the next.
    Vec = 2,
    /// Repeats the body up to the matching `End` `a` times, `b` bytes further each time.
    Loop = 3,
    /// `cur += b`.
    Disp = 4,
    /// `a` fragments of `c` bytes at `cur + table[b + i]`.
    Ixb = 5,
    /// `a` fragments: fragment `i` at `cur + table[b + 2 i]`, of `table[b + 2 i + 1]` bytes.
    Ixv = 6,
    /// Runs the body up to the matching `End` `a` times, at `cur + table[b + i]`.
    Ixl = 7,
}

impl Op {
    /// The operation of a code, or `None` for one that doesn't exist.
    pub const fn from_code(code: u8) -> Option<Op> {
        Some(match code {
            0 => Op::End,
            1 => Op::Blk,
            2 => Op::Vec,
            3 => Op::Loop,
            4 => Op::Disp,
            5 => Op::Ixb,
            6 => Op::Ixv,
            7 => Op::Ixl,
            _ => return None,
        })
    }
}

/// What the bytes of a fragment are, for conversion between representations. Fragments of equal
/// kind may be merged; others never are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Kind(pub u8);

impl Kind {
    /// Bytes that are never converted.
    pub const OPAQUE: Kind = Kind(0);
    /// Elements of 2 bytes in the machine's byte order.
    pub const SWAP2: Kind = Kind(1);
    /// Elements of 4 bytes in the machine's byte order.
    pub const SWAP4: Kind = Kind(2);
    /// Elements of 8 bytes in the machine's byte order.
    pub const SWAP8: Kind = Kind(3);
    /// Elements of 16 bytes in the machine's byte order.
    pub const SWAP16: Kind = Kind(4);
    /// First of the kinds whose meaning belongs to whoever built the program (conversions that
    /// change a size or a floating-point format).
    pub const HOST: Kind = Kind(8);
    /// The largest kind there is.
    pub const LAST: Kind = Kind(15);

    /// Bytes of one element; 1 where the program alone can't say.
    pub const fn element(self) -> u64 {
        match self {
            Kind::SWAP2 => 2,
            Kind::SWAP4 => 4,
            Kind::SWAP8 => 8,
            Kind::SWAP16 => 16,
            _ => 1,
        }
    }

    /// Whether the kind has a meaning.
    pub const fn is_valid(self) -> bool {
        self.0 <= Kind::SWAP16.0 || (self.0 >= Kind::HOST.0 && self.0 <= Kind::LAST.0)
    }
}

/// One instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Insn {
    /// What to do.
    pub op: Op,
    /// Element class of the fragments of a leaf instruction.
    pub kind: Kind,
    /// Bytes of a fragment (`Vec`, `Ixb`).
    pub c: u16,
    /// Count, or bytes of a `Blk`.
    pub a: u32,
    /// Displacement, stride or table index.
    pub b: i64,
}

impl Insn {
    /// The end of a loop or of the program.
    pub const END: Insn = Insn {
        op: Op::End,
        kind: Kind::OPAQUE,
        c: 0,
        a: 0,
        b: 0,
    };

    /// The instruction's 16 bytes.
    pub fn to_bytes(self) -> [u8; 16] {
        let mut out = [0; 16];
        out[0] = self.op as u8;
        out[1] = self.kind.0;
        out[2..4].copy_from_slice(&self.c.to_le_bytes());
        out[4..8].copy_from_slice(&self.a.to_le_bytes());
        out[8..16].copy_from_slice(&self.b.to_le_bytes());
        out
    }

    /// The instruction in 16 bytes, or `None` where the operation code doesn't exist.
    pub fn from_bytes(bytes: &[u8; 16]) -> Option<Insn> {
        let [op, kind, c0, c1, a0, a1, a2, a3, b @ ..] = *bytes;
        Some(Insn {
            op: Op::from_code(op)?,
            kind: Kind(kind),
            c: u16::from_le_bytes([c0, c1]),
            a: u32::from_le_bytes([a0, a1, a2, a3]),
            b: i64::from_le_bytes(b),
        })
    }
}
