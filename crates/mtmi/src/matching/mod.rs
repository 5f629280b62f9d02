//! The matching library: posted receives and unexpected messages.
//!
//! A fabric that only moves bytes keeps one [`Posted`] and one [`Unexpected`]. Up to eight entries
//! are a short list, searched in order: that is what most programs have, and nothing is faster.
//! Beyond, entries are also in hash bins keyed by (context, source, tag), so the cost of a match does
//! not grow with the number of entries. Receives with wildcards have bins of their own, keyed by
//! what they do fix; a sequence number decides between the candidates of the (at most four) kinds of
//! receive. Messages are put into the bins that wildcards look in only once such a receive or probe
//! was made.
//!
//! A receive of contiguous bytes from one source need not become an entry: it lies in its owner's request ([`Post`]), in a list of its
//! source, and whoever takes a receive from [`Posted`] sees both kinds. Where such a list is long and what came first is not wanted first, its
//! receives go to bins as they are.
//!
//! Invariants: entries lie in a slab linked by indices and slots are used again, so nothing is
//! allocated once the largest depth was reached; a list and every bin are in order of arrival; bins
//! are kept from the ninth entry until all entries are gone.

mod binned;
mod bins;
mod light;
mod posted;
#[cfg(test)]
mod tests;
mod unexpected;

pub use bins::Slot;
pub use light::{Light, Ordinary, Post, Row, has_ordinary};
pub use posted::Posted;
pub use unexpected::Unexpected;
