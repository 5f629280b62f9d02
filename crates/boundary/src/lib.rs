//! What a C caller hands us, wrapped once at the entry point and safe to use afterwards.
//!
//! The generated entry points make these values; making one is `unsafe` and states the MPI
//! contract for that argument (the address is valid for what the call says it holds, and stays so
//! until the operation completes). From there on the engine needs no `unsafe` of its own. The views
//! hold raw addresses: like the C interface itself, they can't protect a program that lies about
//! its buffers, and they never outlive the operation they were made for.

mod arrays;
mod callback;
pub mod memory;
mod text;
pub mod turn;
mod userbuf;

pub use arrays::{HandleCodec, Handles, Ints, StatusCodec, Statuses};
pub use callback::{CallbackAbi, UserFn};
pub use text::{Text, TextOut, cut};
pub use userbuf::{AlignedBuf, UserBuf};
