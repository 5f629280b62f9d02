//! The verified program, its identity, and its serialised form.
//!
//! Serialised: a header of 64 bytes, the instructions, the table (64-bit words), all little-endian.

use std::cell::OnceCell;
use std::hash::Hasher;

use siphasher::sip128::{Hasher128, SipHasher24};

use crate::grid::Grid;
use crate::verify::{Facts, Link, verify};
use crate::{Error, Insn};

/// Most instructions of a program that another process sent: what it can make us hold. A network card's limit is far
/// smaller and is a question of its capabilities, not of validity.
pub const MAX_INSNS: usize = 1 << 22;
/// Most instructions of any program: a layout may have millions of parts that nothing makes regular, and whoever lists
/// them has paid for as many.
pub(crate) const MAX_OWN_INSNS: usize = 1 << 28;
/// Most 64-bit words of a program's table.
pub const MAX_TABLE: usize = 1 << 28;
/// Most loops inside one another. A loop of two or more iterations at least doubles the bytes of its
/// body, so no layout of less than 2^63 bytes needs more.
pub const MAX_DEPTH: usize = 64;

const MAGIC: [u8; 4] = *b"UZL1";
const HEADER: usize = 64;

/// The bounds that a type declares (they may differ from where its bytes lie).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Lower bound.
    pub lb: i64,
    /// Upper bound less lower bound; repetition `i` lies `i * extent` further. May be negative.
    pub extent: i64,
}

/// A verified layout program.
#[derive(Debug)]
pub struct Program {
    pub(crate) insns: Box<[Insn]>,
    pub(crate) table: Box<[i64]>,
    /// Per instruction, what the executor needs to know about it; empty where it needs nothing of any.
    pub(crate) links: Box<[Link]>,
    /// For each `Ixv` entry, bytes up to and including it.
    pub(crate) ends: Box<[u64]>,
    pub(crate) facts: Facts,
    /// Repetitions are the columns of a [matrix](crate::grid).
    pub(crate) column: bool,
    bounds: Bounds,
    hash: OnceCell<u128>,
}

impl Program {
    /// Verifies `insns` with `table` and makes a program of them.
    pub fn new(insns: Vec<Insn>, table: Vec<i64>, bounds: Bounds) -> Result<Program, Error> {
        let (facts, links, ends) = verify(&insns, &table)?;
        bounds
            .lb
            .checked_add(bounds.extent)
            .ok_or(Error::Overflow)?;
        Ok(Program {
            column: matches!(&insns[..], [only, _end] if Grid::is_column(only, bounds.extent)),
            insns: insns.into(),
            table: table.into(),
            links: links.into(),
            ends: ends.into(),
            facts,
            bounds,
            hash: OnceCell::new(),
        })
    }

    /// Bytes of data of one repetition.
    #[inline]
    pub fn size(&self) -> u64 {
        self.facts.size
    }

    /// Declared lower bound.
    #[inline]
    pub fn lb(&self) -> i64 {
        self.bounds.lb
    }

    /// Bytes from one repetition to the next.
    #[inline]
    pub fn extent(&self) -> i64 {
        self.bounds.extent
    }

    /// Where the lowest byte lies; 0 for a program without bytes.
    pub fn true_lb(&self) -> i64 {
        self.facts.lo
    }

    /// Where the byte after the highest lies; 0 for a program without bytes.
    pub fn true_ub(&self) -> i64 {
        self.facts.hi
    }

    /// Fragments of one repetition, as the instructions name them.
    pub fn fragments(&self) -> u64 {
        self.facts.fragments
    }

    /// Loops inside one another.
    pub fn depth(&self) -> usize {
        self.facts.depth
    }

    /// The instructions.
    pub fn insns(&self) -> &[Insn] {
        &self.insns
    }

    /// For each entry of the `Ixv` at `pc`, bytes up to and including it.
    pub(crate) fn ixv_ends(&self, pc: usize) -> &[u64] {
        let from = self.links[pc].to as usize;
        &self.ends[from..from + self.insns[pc].a as usize]
    }

    /// Whether `count` repetitions are the bytes from displacement 0 to `count * size`, in order.
    #[inline]
    pub fn is_contiguous(&self) -> bool {
        self.facts.one_run
            && self.facts.lo == 0
            && self.bounds.extent == self.facts.size as i64
            && !self.facts.converts
    }

    /// If the bytes of `count` repetitions are one run in ascending order: where it starts.
    #[inline]
    pub fn run_start(&self, count: u64) -> Option<i64> {
        let f = &self.facts;
        let dense = count <= 1 || self.bounds.extent == f.size as i64;
        (f.one_run && dense).then_some(f.lo)
    }

    /// Whether some fragment has a kind that conversion would change.
    pub fn converts(&self) -> bool {
        self.facts.converts
    }

    /// The 128-bit content hash: the program's identity between processes.
    ///
    /// SipHash-2-4 (crate `siphasher`) with a fixed key: its value is specified, so two builds agree
    /// (`std`'s hasher promises nothing), and it mixes well, so that types which differ in one bit of
    /// a table don't collide by accident (FNV does worse on long runs of zeros). It need not resist an
    /// adversary: a receiver computes the hash itself, so a forged program harms its sender only.
    pub fn hash(&self) -> u128 {
        *self.hash.get_or_init(|| {
            let mut h = SipHasher24::new();
            h.write(&self.header());
            for insn in &self.insns {
                h.write(&insn.to_bytes());
            }
            for word in &self.table {
                h.write(&word.to_le_bytes());
            }
            h.finish128().as_u128()
        })
    }

    fn header(&self) -> [u8; HEADER] {
        let f = &self.facts;
        let mut out = [0; HEADER];
        out[..4].copy_from_slice(&MAGIC);
        out[4..6].copy_from_slice(&(u16::from(f.converts)).to_le_bytes());
        out[6..8].copy_from_slice(&(f.depth as u16).to_le_bytes());
        out[8..12].copy_from_slice(&(self.insns.len() as u32).to_le_bytes());
        out[12..16].copy_from_slice(&(self.table.len() as u32).to_le_bytes());
        let words = [
            f.size as i64,
            self.bounds.lb,
            self.bounds.extent,
            f.lo,
            f.hi,
            f.fragments as i64,
        ];
        for (slot, word) in out[16..].as_chunks_mut::<8>().0.iter_mut().zip(words) {
            *slot = word.to_le_bytes();
        }
        out
    }

    /// Bytes of the serialised form.
    pub fn serialised_len(&self) -> usize {
        HEADER + self.insns.len() * 16 + self.table.len() * 8
    }

    /// The program as bytes that another process can run.
    pub fn serialise(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.serialised_len());
        out.extend_from_slice(&self.header());
        for insn in &self.insns {
            out.extend_from_slice(&insn.to_bytes());
        }
        for word in &self.table {
            out.extend_from_slice(&word.to_le_bytes());
        }
        out
    }

    /// Reads and verifies a serialised program, which may be hostile. The header must say exactly
    /// what the verifier finds.
    pub fn deserialise(bytes: &[u8]) -> Result<Program, Error> {
        let short = Error::Malformed("shorter than its header says");
        let (header, rest) = bytes.split_first_chunk::<HEADER>().ok_or(short)?;
        if header[..4] != MAGIC {
            return Err(Error::Malformed("unknown magic number"));
        }
        let word = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|i| header[at + i])) as usize;
        let long = |at: usize| i64::from_le_bytes([0, 1, 2, 3, 4, 5, 6, 7].map(|i| header[at + i]));
        let (n_insns, n_table) = (word(8), word(12));
        if n_insns > MAX_INSNS || n_table > MAX_TABLE {
            return Err(Error::TooLarge);
        }
        if rest.len() != n_insns * 16 + n_table * 8 {
            return Err(short);
        }
        let (code, table) = rest.split_at(n_insns * 16);
        let insns = code.as_chunks::<16>().0.iter().map(Insn::from_bytes);
        let insns = insns
            .collect::<Option<Vec<_>>>()
            .ok_or(Error::Malformed("operation code"))?;
        let table = table
            .as_chunks::<8>()
            .0
            .iter()
            .map(|w| i64::from_le_bytes(*w))
            .collect();
        let bounds = Bounds {
            lb: long(24),
            extent: long(32),
        };
        let program = Program::new(insns, table, bounds)?;
        if program.header() != *header {
            return Err(Error::Malformed("header does not match the instructions"));
        }
        Ok(program)
    }
}

impl PartialEq for Program {
    fn eq(&self, other: &Program) -> bool {
        self.bounds == other.bounds && self.insns == other.insns && self.table == other.table
    }
}
