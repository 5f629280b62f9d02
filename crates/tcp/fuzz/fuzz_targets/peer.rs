#![no_main]
//! See `tcp::fuzzing::peer`. Run with `cargo +nightly fuzz run peer` in `crates/tcp`.

libfuzzer_sys::fuzz_target!(|script: &[u8]| tcp::fuzzing::peer(script));
