//! `libmpi_abi.so.1`: the C entry points of the MPI-5.0 standard ABI.
//!
//! Nothing but conversion happens here: [`abi`] says how this ABI writes handles and statuses, `gen`
//! has the generated entry points, `values` the few that return a value, `extension` what is beside MPI. Built as a static library
//! that `cargo xtask build` links into the shared one. Constants need no translation, since the
//! engine's neutral values are this ABI's.

pub mod abi;
mod extension;
mod fmpl;
#[rustfmt::skip]
mod r#gen;
mod values;
