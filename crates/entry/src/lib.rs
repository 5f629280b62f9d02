//! What the generated entry points of both ABIs share: the `entry!` macro and the conversions of
//! arguments that don't depend on how an ABI writes handles and statuses.
//!
//! Used by `capi` and `capi-mpich` only. A conversion that refuses an argument returns a fault that
//! names it; a value that a call gives back is written when its guard is dropped, also when the call
//! fails (a truncated receive has a status, a failed wait frees its request).

mod check;
mod out;
pub mod short;

pub use boundary;
pub use check::{
    buffer_out, count_beside, function, handle_array, narrow, narrow_of, non_negative,
    plain_address, room, room_at, text_in, text_or_null, text_out, text_out_or_null, unsupported,
    wide, wide_of,
};
pub use engine;
pub use engine::{Engine, When};
pub use out::{
    AbiHandle, BoolOut, HandleOut, MappedOut, NarrowOut, StatusOut, bool_out, handle_inout,
    handle_out, int_out, long_out, mapped_inout, mapped_out, narrow_inout, narrow_out, unwanted,
    wanted, word_out,
};
pub use types;

/// One entry point: `PMPI_X`, and `MPI_X` as a weak alias of it at the same address.
///
/// `on` is the object whose error handler is called; the body gets the engine and returns
/// `types::Result<()>`. The crate that uses it has a module `abi` with the hooks of its ABI and the
/// function that makes its error codes. With `short` there is an expression that says what the call returns if the short path has done it; if
/// not, a function with the same parameters tries what is in `again`, and another what is in `more` before it does it, so that one jump leads to each.
#[allow(clippy::crate_in_macro_def, reason = "what differs is the user's")]
#[macro_export]
macro_rules! entry {
    ($function:ident $call:literal $when:ident [$($on:expr)?]
     ($($name:ident: $ty:ty),* $(,)?) |$e:ident| $body:expr) => {
        #[unsafe(no_mangle)]
        #[allow(unused_variables, clippy::too_many_arguments)]
        pub unsafe extern "C" fn $function($($name: $ty),*) -> i32 {
            $crate::call! { $call $when [$($on)?] |$e| $body }
        }
        $crate::alias!($call);
    };
    ($function:ident $call:literal $when:ident [$($on:expr)?]
     ($($name:ident: $ty:ty),* $(,)?) short { $short:expr } $(again { $again:expr })? $(more { $more:expr })? |$e:ident| $body:expr) => {
        #[unsafe(no_mangle)]
        #[allow(unused_variables, unused_unsafe, clippy::too_many_arguments)]
        pub unsafe extern "C" fn $function($($name: $ty),*) -> i32 {
            $crate::cold! { long ($($name: $ty),*) {
                $($crate::done! { $more })?
                $crate::call! { $call $when [$($on)?] |$e| $body }
            } }
            $crate::cold! { again ($($name: $ty),*) {
                $($crate::done! { $again })?
                // SAFETY: the arguments are the same.
                unsafe { long($($name),*) }
            } }
            $crate::done! { $short }
            // SAFETY: as above.
            unsafe { again($($name),*) }
        }
        $crate::alias!($call);
    };
}

/// A part of an entry point that most calls don't need, with all its parameters.
#[macro_export]
macro_rules! cold {
    ($function:ident ($($name:ident: $ty:ty),*) $body:block) => {
        #[cold]
        #[inline(never)]
        unsafe extern "C" fn $function($($name: $ty),*) -> i32 $body
    };
}

/// Returns what a short path says that the call returns, if it says so.
#[macro_export]
macro_rules! done {
    ($short:expr) => {
        // SAFETY: the caller keeps the contract of this MPI procedure, so each address is null, a constant of the ABI, or valid for
        // what the procedure says it holds.
        if let Some(code) = unsafe { $short } {
            return code;
        }
    };
}

/// The body of an entry point: enters the engine, and leaves it with the result.
#[allow(clippy::crate_in_macro_def, reason = "what differs is the user's")]
#[macro_export]
macro_rules! call {
    ($call:literal $when:ident [$($on:expr)?] |$e:ident| $body:expr) => {{
            let guard = $crate::engine::enter(&crate::abi::HOOKS);
            #[allow(unused_mut, unused_assignments)]
            let mut on: Option<$crate::types::Handle> = None;
            $(on = Some($on);)?
            let $e: &$crate::Engine = &guard;
            let result = $e.ready($crate::When::$when).and_then(|()| {
                // SAFETY: the caller keeps the contract of this MPI procedure, so each address is
                // null, a constant of the ABI, or valid for what the procedure says it holds.
                unsafe { $body }
            });
            crate::abi::code(guard.finish($call, on, result))
    }};
}

/// Makes `MPI_X` a weak alias of `PMPI_X`, so that a profiler's own `MPI_X` takes its place.
#[macro_export]
macro_rules! alias {
    ($call:literal) => {
        ::core::arch::global_asm!(concat!(".weak ", $call, "\n.set ", $call, ", P", $call));
    };
}
