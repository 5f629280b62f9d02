#![no_main]
//! See `tcp::fuzzing::answer`. Run with `cargo +nightly fuzz run answer` in `crates/tcp`.

libfuzzer_sys::fuzz_target!(|script: &[u8]| tcp::fuzzing::answer(script));
