//! `libcad.so.0`: collective action descriptors for C programs, without MPI. `include/cad.h` is its
//! documentation.
//!
//! # Design
//!
//! * `start` joins the job (launcher, fabrics, matching) and leaves it; `table` has the descriptors;
//!   `c` has the names. All that does something is in crate `cad-run`.
//! * A handle is the address of the word that END writes, so `cad_query` is one load in the program (and a call while a descriptor has not begun),
//!   with every executor and from any thread. It is never followed here: descriptors are found in a table by it,
//!   so a wrong one is an error and no access.
//! * The state belongs to the thread that called `cad_start`; a call from another finds none. It is
//!   borrowed while a call runs: one from inside an operation is an error.
//! * A process has one library that speaks to the launcher: where an MPI library of ours was first,
//!   `cad_start` fails and names it.

mod c;
mod start;
mod table;
