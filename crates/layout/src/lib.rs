//! Layout programs: where the bytes of a datatype lie in memory, as a small verified program.
//!
//! A [`Tree`] is built by combinators (`repeat`, `scatter`, `seq` ...) that normalise as they go;
//! [`Tree::compile`] turns it into a [`Program`] of 16-byte instructions. A program is immutable,
//! verified before it is ever run (also when it came from another process), has a content hash,
//! and can be sent to a peer. A [`Cursor`] executes it over `count` repetitions of the type and can
//! stop and resume at any byte. [`Data`] joins a program with a buffer; transports move `Data`.
//!
//! Invariants: a `Program` has passed the verifier, so every loop emits bytes and ends, every table
//! index is in range, and every displacement it produces lies in `[true_lb, true_ub)`. Whether the
//! memory there is the program's to touch is the business of whoever made the [`boundary::UserBuf`].
//!
//! Called by `datatype` (which compiles MPI types), `mtmi` and the fabrics (which move `Data`), and
//! the engine. Nothing here knows MPI.

#![forbid(unsafe_code)]

mod cursor;
mod data;
mod emit;
mod grid;
mod insn;
mod kernels;
mod program;
mod swap;
mod tree;
mod verify;

pub use cursor::{Cursor, Run};
pub use data::{Data, Reader, Shape, Writer, transfer};
pub use insn::{Insn, Kind, Op};
pub use program::{Bounds, MAX_DEPTH, MAX_INSNS, MAX_TABLE, Program};
pub use swap::swap;
pub use tree::Tree;

/// Why a layout could not be built or was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// A size or displacement does not fit 63 bits.
    Overflow,
    /// More instructions, table words or nesting than the limits allow.
    TooLarge,
    /// Not a well-formed program; the text says what was found.
    Malformed(&'static str),
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Error::Overflow => write!(f, "a size or displacement does not fit 63 bits"),
            Error::TooLarge => write!(f, "the layout needs more instructions than a program holds"),
            Error::Malformed(what) => write!(f, "malformed layout program: {what}"),
        }
    }
}

impl std::error::Error for Error {}
