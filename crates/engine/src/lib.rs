//! The engine: what MPI's objects are and how its calls behave, without a word of C.
//!
//! A generated entry point (`capi`, `capi-mpich`) enters the engine with [`enter`], converts its
//! arguments, calls one function of [`api`], and leaves through [`Guard::finish`]. All state hangs
//! on the one [`Engine`] of the process, guarded by one lock that costs a flag test until
//! `MPI_THREAD_MULTIPLE` or a progress thread is asked for. Objects change through `Cell` and `RefCell`; no `RefCell` is
//! borrowed while a callback of the program runs or while the engine waits, since both let other
//! calls in.

#![forbid(unsafe_code)]

pub mod api;
mod attr;
mod beside;
mod bound;
mod coll;
mod comm;
mod counters;
mod errhandler;
mod extension;
mod failure;
mod graphs;
mod group;
mod info;
mod internal;
mod kernel;
mod mistakes;
mod numbers;
mod ops;
mod progress;
mod progress_thread;
mod request;
mod short;
mod softirq;
mod state;
mod together;
mod topology;
mod typeobj;
mod wait;
mod world;

pub use attr::{AttrKind, Attributes, Keyval};
pub use comm::Comm;
pub use errhandler::Errhandler;
pub use extension::{EXTENSION_COOKIE, Extension};
pub use group::Group;
pub use info::Info;
pub use ops::Op;
pub use request::{Kind as RequestKind, Request};
pub use short::{Look, Over, Plain, Short, Sizes, short, wait_plain};
pub use state::{AbiHooks, Engine, Guard, Phase, When, enter, threads_flag};
pub use typeobj::TypeObj;
pub use wait::Waiting;
pub use world::Fabric;
