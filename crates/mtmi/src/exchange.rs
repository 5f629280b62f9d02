//! How the processes of a job tell each other where they can be reached, before any fabric works.

use std::fmt;

/// A failure to exchange addresses, in words for a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExchangeError(pub String);

impl fmt::Display for ExchangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ExchangeError {}

/// The call-back through which a fabric publishes its address and learns the others'.
///
/// It is a key-value space that only the processes of this job can read, so a fabric may publish a
/// secret through it. A value that was `put` before a `barrier` is seen by every `get` after it.
/// Keys and values are printable ASCII without blanks; values up to 200 bytes are always accepted.
pub trait Exchange {
    /// Publishes `value` under `key`; a key is used once.
    fn put(&mut self, key: &str, value: &str) -> Result<(), ExchangeError>;

    /// The value under `key`.
    fn get(&mut self, key: &str) -> Result<String, ExchangeError>;

    /// Returns when all processes of the job have called it.
    fn barrier(&mut self) -> Result<(), ExchangeError>;
}
