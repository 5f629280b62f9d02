//! What went wrong in a call: an error class, a sentence, and the object whose handler decides.

use crate::Handle;

/// An error on its way to an error handler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Error class, a value of the standard ABI (`consts::ERR_*`).
    pub class: i32,
    /// One sentence: which argument, its value, what was expected. No call name and no final
    /// stop; the entry point adds the call.
    pub text: String,
    /// The communicator (or other object) whose error handler is called, where it isn't the one
    /// among the call's own arguments (a `Wait` on a request).
    pub on: Option<Handle>,
    /// The class of the request's own error, where `class` is `MPI_ERR_IN_STATUS`.
    pub of_request: Option<i32>,
}

/// Result of an engine function.
pub type Result<T = ()> = std::result::Result<T, Box<Fault>>;

/// Makes a [`Fault`] of `class` with the sentence `text`.
#[cold]
#[inline(never)]
pub fn fault(class: i32, text: impl Into<String>) -> Box<Fault> {
    Box::new(Fault {
        class,
        text: text.into(),
        on: None,
        of_request: None,
    })
}
