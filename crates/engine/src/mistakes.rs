//! What is said where the library finds out that something is wrong in itself: a sentence for a person, before Rust's own words. Called when a process joins its job.

use std::panic;
use std::sync::Once;

/// From now on such words are introduced.
pub(crate) fn introduce(rank: u32) {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |what| {
            sys::say::line(&format!(
                "yamabiko: rank {rank}: an internal error. If several threads call MPI or FMPL at once, MPI_Init_thread has to be asked for MPI_THREAD_MULTIPLE \
                 (and what it provides be looked at); otherwise please report this:"
            ));
            before(what);
        }));
    });
}
