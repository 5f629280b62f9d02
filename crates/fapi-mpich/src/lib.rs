//! `libmpifort.so.12`, also known as `libmpichfort.so.12`: the Fortran routines of `mpif.h` over the
//! MPICH ABI.
//!
//! The modules with a path are those of `fapi`, whose documentation says how it works. Here are what this
//! ABI has of its own: how it writes handles (`abi`), and routines that MPI-3.0 removed (`removed`).

#[macro_use]
#[path = "../../fapi/src/routine.rs"]
mod routine;

mod abi;
#[path = "../../fapi/src/attribute.rs"]
mod attribute;
#[path = "../../fapi/src/blocks.rs"]
mod blocks;
#[path = "../../fapi/src/callback.rs"]
mod callback;
#[rustfmt::skip]
mod r#gen;
#[path = "../../fapi/src/handle.rs"]
mod handle;
#[path = "../../fapi/src/info.rs"]
mod info;
#[path = "../../fapi/src/prelude.rs"]
mod prelude;
mod removed;
#[path = "../../fapi/src/request.rs"]
mod request;
#[path = "../../fapi/src/spawn.rs"]
mod spawn;
mod start;
#[path = "../../fapi/src/string.rs"]
mod string;
#[path = "../../fapi/src/value.rs"]
mod value;
