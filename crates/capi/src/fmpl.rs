//! The table by which FMPL, and what is built on it, shares this library's engine.

use engine::AbiHooks;
use fmpl_table::FmplTable;
use types::Handle;

use crate::abi;

/// This library's ABI, as FMPL sees it.
struct This;

impl fmpl_entry::Abi for This {
    const HOOKS: &'static AbiHooks = &abi::HOOKS;

    fn comm_in(word: usize) -> Handle {
        abi::decode(word)
    }

    fn comm_out(handle: Handle) -> usize {
        abi::encode(handle)
    }

    fn fortran_in(handle: i32) -> Handle {
        Handle(handle as u32)
    }

    fn fortran_out(handle: Handle) -> i32 {
        handle.0 as i32
    }
}

/// FMPL's functions; null for a version that this library does not have.
#[unsafe(no_mangle)]
pub extern "C" fn yamabiko_fmpl_table(version: u32) -> *const FmplTable {
    fmpl_entry::table::<This>(version).map_or(std::ptr::null(), |table| table)
}
