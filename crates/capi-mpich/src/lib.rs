//! `libmpi.so.12`: the C entry points of the MPICH ABI.
//!
//! Nothing but conversion happens here: [`abi`] says how this ABI writes handles and statuses, `gen`
//! has the generated entry points and the tables of constants; `values`, `contents`, `fortran`, `extension` and
//! `removed` are the few that are written by hand, `data` the symbols that aren't functions. Built
//! as a static library
//! that `cargo xtask build` links into the shared one. This is a sibling of `capi`, not a wrapper
//! around it: an int becomes an object in one step.

pub mod abi;
mod contents;
mod data;
mod extension;
mod fmpl;
mod fortran;
#[rustfmt::skip]
mod r#gen;
mod removed;
mod values;
