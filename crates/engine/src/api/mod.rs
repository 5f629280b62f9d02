//! One function per MPI procedure, named as the standard names it, in files by chapter.
//!
//! Parameters are in the order of the C binding; `crates/capi*/src/gen` call them. The generator
//! reads these files to learn what is built.

pub mod attribute;
pub mod bsend;
pub mod coll;
mod coll_args;
pub mod coll_init;
pub mod coll_reduce;
pub mod comm;
pub mod completion;
pub mod datatype;
pub mod dims;
pub mod dist_graph;
pub mod environment;
pub mod errhandler;
pub mod grequest;
pub mod group;
pub mod info;
pub mod neighbor;
mod neighbor_args;
pub mod op;
pub mod p2p;
pub mod pack;
pub mod persistent;
pub mod probe;
pub mod sendrecv;
mod split;
pub mod startup;
pub mod status;
pub mod tool;
pub mod tool_control;
pub mod topology;
