//! For tests: a job whose processes are threads, or objects of one thread, over a simulated fabric.
//!
//! [`World`] is what they share; each takes its [`Sim`] out of it with [`World::join`] and, by
//! [`mtmi::Matched`], has a whole transport with messages and slots:
//!
//! ```
//! use mtmi::slot::{Landed, Slot, Slots};
//! use mtmi::{Endpoint, Matched, Transport};
//! use testkit::{Bytes, Manner, World};
//!
//! let world = World::new(2, Manner::NETWORK);
//! let mut a = Matched::new(world.join(0));
//! let mut b = Matched::new(world.join(1));
//! let (ta, tb) = (a.open_slots(7, 4).unwrap(), b.open_slots(7, 4).unwrap());
//! let from_a = Slot { table: tb, peer: Endpoint(0), index: 3 };
//! let to_b = Slot { table: ta, peer: Endpoint(1), index: 3 };
//! let (mut out, mut back) = (Bytes::of(b"echo"), Bytes::new(10));
//! b.post(from_a, &back.data()).unwrap();
//! a.advance();
//! assert_eq!(a.offered(to_b), Some(10));
//! let _ = a.deliver(to_b, &out.data(), 5).unwrap();
//! b.advance();
//! assert_eq!(b.landed(from_a), Landed::Done { bytes: 4, immediate: 5 });
//! assert_eq!(back.bytes()[..4], *b"echo");
//! ```
//!
//! [`Manner`] says how nasty the fabric is. It keeps the rules of [`mtmi::Transport`] and [`mtmi::slot::Slots`] and no
//! promise beyond them, so what works over it does not rely on how a fabric happens to be.
//!
//! [`suite`] is what every implementation of slots has to pass.
//!
//! Only tests use this crate.

#![forbid(unsafe_code)]

mod boards;
mod bytes;
mod fabric;
mod sleeper;
mod slots;
pub mod suite;
mod world;

pub use bytes::Bytes;
pub use fabric::Sim;
pub use sleeper::{Armed, Sleeper};
pub use world::{Manner, World};
