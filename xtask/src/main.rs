//! `cargo xtask`: generation, installation layout, tests and measurements.
fn main() {}
