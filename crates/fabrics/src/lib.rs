//! The fabrics of a process as one: which of them reaches whom, and one wait for all.
//!
//! A process talks to itself (`self`), to those it shares memory with (`shm`), and to the others over
//! the network (`tcp`). [`Fabrics`] implements [`mtmi::Fabric`] by handing each message to the fabric that
//! reaches its peer; [`mtmi::Matched`] above keeps one set of queues for all of them, so a receive from any
//! source sees every message.
//!
//! * [`Selection`]: what `YAMABIKO_FABRICS` allows;
//! * `copying`: how long messages go inside a machine: as `YAMABIKO_COPY` says, or as is measured to be faster;
//! * [`start`](Fabrics::start): processes tell each other their *cards* (where they are, how to reach
//!   them), those of one machine join a segment, the others a network;
//! * [`Fabrics::describe`]: what is used between which ranks, and why, for people.
//!
//! Invariants: `shm` is always there, be it with this process alone, as its doorbell is what everything
//! sleeps on; `tcp` is there only where somebody needs it, and a job inside one machine that may use
//! shared memory pays nothing for it. Who calls it: the engine.

#![forbid(unsafe_code)]

mod boards;
mod card;
mod copying;
mod map;
mod neighbours;
mod routes;
mod selection;
mod sleep;
mod slots;
mod start;

pub use routes::Fabrics;
pub use selection::Selection;
pub use shm::{AtOnce, Foreign, Port, Ports, SlotPort, SlotPorts, Stretch, Taken};
pub use sleep::{Armed, Sleeper};
pub use start::{Place, StartError};

/// The tunables of all fabrics, on this machine.
pub fn tunables() -> impl Iterator<Item = types::Tunable> {
    shm::tunables().into_iter().chain(tcp::TUNABLES)
}
