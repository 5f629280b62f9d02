//! What the Fortran routines of both ABIs share and what needs neither an ABI nor a raw address: strings
//! padded with blanks, integers that C sees by address, and functions that need a number.
//!
//! Used by `fapi` and `fapi-mpich` only.

#![forbid(unsafe_code)]

pub mod cells;
pub mod slots;
pub mod text;
