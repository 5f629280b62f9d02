//! What can go wrong between a rank and its launcher.

use std::fmt;

/// A failure of the conversation with the launcher.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// The launcher closed the connection or it broke; the text says while doing what.
    Lost(String),
    /// The launcher answered something that the protocol does not allow.
    Malformed(String),
    /// The launcher refused a request; the text is its reason.
    Refused(String),
    /// A key or value is too long or holds a character the wire cannot carry.
    Unfit(String),
    /// No answer within the time allowed.
    Late(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Lost(what) => write!(f, "the launcher (mpiexec) is gone ({what})"),
            Error::Malformed(what) => {
                write!(f, "the launcher (mpiexec) sent a malformed answer ({what})")
            }
            Error::Refused(what) => write!(f, "the launcher (mpiexec) refused: {what}"),
            Error::Unfit(what) => write!(f, "not fit for the launcher's key-value space: {what}"),
            Error::Late(what) => {
                write!(f, "the launcher (mpiexec) did not answer in time ({what})")
            }
        }
    }
}

impl std::error::Error for Error {}
