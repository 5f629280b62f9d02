//! Placeholder: written by the crate's first commit.
