//! What the routines import.

pub use std::ffi::c_void;

pub use crate::abi::*;
pub use crate::attribute::keyval_in;
pub use crate::blocks::{choice, is_in_place, place, status_at, statuses_at, weights_at};
pub use crate::r#gen::c::*;
pub use crate::handle::{
    Handle, handle_inout, handle_out, handles_in, handles_inout, handles_out, neighbor_counts,
    peers,
};
pub use crate::request::{index_at, indices_at};
pub use crate::string::{limits, text_in, text_out, word_in};
pub use crate::value::unused;
