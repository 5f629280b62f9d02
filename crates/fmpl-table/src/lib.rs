//! The table of functions by which FMPL, and what is built on it, reaches the MPI library of the process.
//!
//! FMPL, BLACS and MPI of a process share one engine, so FMPL's code is linked into both MPI
//! libraries, and `libfmpl.so`, `libblacs.so` are thin: [`table`] finds the MPI library at run time, asks it
//! for its [`FmplTable`] once, and every call after that is one indirect call.
//!
//! * [`table()`]: the lookup: a library that is in the process already, whatever its ABI, else
//!   `libmpi_abi.so.1`;
//! * [`FmplTable`]: what each function does, which is what `libfmpl` and BLACS may rely on;
//! * [`code`]: the error codes, [`consts`]: the other constants of `fmpl.h`.
//!
//! Who calls it: `fmpl-lib`, `blacs-lib` (users of the table), `fmpl-entry` (which fills it).

pub mod code;
pub mod consts;
mod find;
mod layout;

pub use find::{known, table};
pub use layout::{Builtin, FmplTable, Func, UserFunction, VERSION};

/// The exported symbol of an MPI library that gives its table: `const FmplTable *(uint32_t version)`, null
/// for a version that it does not have.
pub const SYMBOL: &std::ffi::CStr = c"yamabiko_fmpl_table";
