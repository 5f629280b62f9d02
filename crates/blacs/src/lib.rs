//! BLACS, the communication layer of ScaLAPACK, on slots: grids of processes, and matrices that are sent, broadcast
//! and combined between them.
//!
//! This crate is the library without its C names: it knows nothing of MPI or of how messages travel, which is what
//! its caller gives it as a [`Net`] (FMPL in `blacs-lib`, a simulator of some ranks in one process in the tests).
//!
//! * [`Blacs`]: the contexts of a process and all operations on them;
//! * [`Grid`]: who sits where;
//! * [`Shape`]: which elements of a matrix are meant; contiguous ones are sent from where they lie, others pass
//!   through two faces, one of which is packed or unpacked while the other is on its way;
//! * [`Topology`]: the trees along which broadcasts and combines run;
//! * [`Element`], [`Operation`]: what a combine computes.
//!
//! BLACS has no tags. Between two processes each context has four streams (point to point, and one for each scope),
//! and within a stream messages match in the order sent: the indices of their pieces rotate.
//!
//! Who calls it: `blacs-lib`, which turns C's and Fortran's arguments into these types.

#![forbid(unsafe_code)]

mod blacs;
mod combine;
mod context;
mod element;
mod ends;
mod error;
mod flow;
mod grid;
mod net;
mod shape;
#[cfg(test)]
mod simulator;
#[cfg(test)]
mod tests;
mod topology;

pub use blacs::Blacs;
pub use combine::{Combine, Locations};
pub use context::{Options, Scope};
pub use element::{Element, Operation};
pub use ends::Ends;
pub use error::Error;
pub use grid::Grid;
pub use net::{End, Net, Trouble};
pub use shape::{Part, Shape};
pub use topology::{Topology, Tree};
