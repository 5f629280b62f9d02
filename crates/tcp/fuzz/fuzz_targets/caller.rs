#![no_main]
//! See `tcp::fuzzing::caller`. Run with `cargo +nightly fuzz run caller` in `crates/tcp`.

libfuzzer_sys::fuzz_target!(|script: &[u8]| tcp::fuzzing::caller(script));
