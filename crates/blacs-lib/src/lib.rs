//! `libblacs.so`: the C and Fortran names of BLACS, for crate `blacs` on FMPL.
//!
//! A drop-in for the BLACS that is part of ScaLAPACK: the same names, argument lists, handles and messages. The
//! library is thin. It finds the MPI library of its process (of either ABI) by `fmpl-table` and shares that
//! library's engine, so BLACS and MPI may be mixed, and a wait in one makes progress in the other.
//!
//! Invariant: nothing here calls a BLACS name, since a program may have functions of its own by those names (the
//! testers of BLACS have).
//!
//! * `names`: the exported functions, which only turn arguments into Rust's types;
//! * `calls`: what they do;
//! * `state`: what a process knows: contexts, system handles, who it is;
//! * `known`: the context that was used last, for short messages;
//! * `fmpl`: FMPL as the [`blacs::Net`]; `mpi`: the few calls of MPI itself;
//! * `say`: errors and warnings.
//!
//! Who calls it: C and Fortran programs, ScaLAPACK above all.

mod calls;
mod fmpl;
mod known;
mod mpi;
mod names;
mod say;
mod state;
