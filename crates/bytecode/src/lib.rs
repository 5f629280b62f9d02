//! Byte code for reductions of a program's own: what `MPI_Op_create` takes a function for, as data that can be checked.
//!
//! A program says how **one element** of `inout = in op inout` is computed. It runs from its first word to its last: there are
//! no jumps, so it ends, and there is no address in it but offsets in the element, so what it touches is known before it runs. That is
//! why such an operation may run where a function of the application may not: in the handler of a signal, or in the kernel.
//!
//! # The machine
//!
//! * 16 registers of 64 bits. What a register holds is an integer, a float or a double; which, is known from the code alone.
//! * Integers are 64 bits long and wrap. A load extends by sign or with zeros, a store takes the low bytes; `CONVERT`
//!   does the same between registers, so what is to wrap at 32 bits within an expression is converted there.
//! * An instruction's type says how it looks at its operands: `i64` and `u64` at integers with and without sign, `f32`, `f64`.
//! * Floating-point numbers are IEEE's, rounded as the thread that runs the program has it; which NaN comes out is left open.
//! * Nothing fails: an integer divided by 0 is 0, and its remainder is the dividend; the least `i64` divided by -1 wraps. Shifts
//!   count modulo 64. A floating-point number that becomes an integer is cut and saturates, NaN becomes 0.
//! * `min` is `a < b ? a : b`, `max` is `a > b ? a : b`, so with a NaN they give `b`. A comparison gives the integer 1 or 0.
//! * Loads of `inout` see earlier stores of the same element.
//!
//! # The encoding (version 1)
//!
//! Words of 64 bits in the byte order of the machine. The first is
//!
//! | bits | 0–31 | 32–39 | 40–63 |
//! |---|---|---|---|
//! | | [`MAGIC`] | [`VERSION`] | bytes of an element, 1 to [`ELEMENT_MAX`] |
//!
//! and each other an instruction, at most [`INSTRUCTIONS_MAX`]:
//!
//! | bits | 0–7 | 8–15 | 16–23 | 24–31 | 32–39 | 40–47 | 48–63 |
//! |---|---|---|---|---|---|---|---|
//! | | opcode | type | `to` | `a` | `b` | `c` | offset |
//!
//! Fields that an instruction does not use are zero. Opcodes are those of [`Opcode`], types those of [`Type`]:
//!
//! | instruction | types | uses | does |
//! |---|---|---|---|
//! | `LOAD_IN`, `LOAD_INOUT` | all | `to`, offset | `to` = the field at that offset |
//! | `STORE` | all | `a`, offset | the field at that offset of `inout` = `a` |
//! | `CONST` | `i64` `f32` `f64` | `to` | `to` = the next word (of an `f32` its low half, the other one is zero) |
//! | `ADD` `SUB` `MUL` `DIV` `MIN` `MAX` | `i64` `u64` `f32` `f64` | `to`, `a`, `b` | `to` = `a` ∘ `b` |
//! | `EQ` `NE` `LT` `LE` | `i64` `u64` `f32` `f64` | `to`, `a`, `b` | `to` = whether |
//! | `REM` `AND` `OR` `XOR` `SHL` `SHR` | `i64` `u64` | `to`, `a`, `b` | `to` = `a` ∘ `b` (`SHR` of `i64` keeps the sign) |
//! | `NEG` | `i64` `u64` `f32` `f64` | `to`, `a` | `to` = -`a` |
//! | `ABS` | `i64` `f32` `f64` | `to`, `a` | `to` = \|`a`\| |
//! | `SQRT` | `f32` `f64` | `to`, `a` | `to` = √`a` |
//! | `NOT` | `i64` `u64` | `to`, `a` | `to` = `a` with all bits turned |
//! | `SELECT` | `i64` `u64` `f32` `f64` | `to`, `a`, `b`, `c` | `to` = `a` ≠ 0 ? `b` : `c`; both are computed; `a` is an integer |
//! | `CONVERT` | all | `to`, `a`, `b` | `to` = `a`, looked at as the type with the number in `b` (`i64` `u64` `f32` `f64`), as this type |
//!
//! # What is checked
//!
//! [`Program::verify`] takes any bytes. What it accepts touches only bytes inside an element, reads no register before it has a
//! value and no value as what it is not; so running it needs no checks, no memory but 3 KiB of the stack, no lock and no
//! call of anybody's, and takes at most so many steps for each element as it has instructions.
//!
//! Who calls it: the engine, for `yamabiko_op_create_bytecode` (`include/yamabiko.h` has the same numbers as macros), and `op`, which runs
//! programs on the application's buffers. [`Builder`] writes programs in Rust; [`Program`]'s `Display` shows them.

#![forbid(unsafe_code)]

mod builder;
mod code;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod program;
mod run;
#[cfg(test)]
mod tests;
mod text;
mod verify;

pub use builder::{Builder, Crowded, Value};
pub use code::{
    Binary, CODE_MAX, ELEMENT_MAX, INSTRUCTIONS_MAX, Kind, MAGIC, Opcode, REGISTERS, Side, Type,
    Unary, VERSION, Wide, Word,
};
pub use program::{Instruction, Program, Reg};
pub use run::{Elements, Slices};
pub use verify::{Why, Wrong};
