#![no_main]
//! See `bytecode::fuzzing::program`. Run with `cargo +nightly fuzz run program` in `crates/bytecode`.

libfuzzer_sys::fuzz_target!(|script: &[u8]| bytecode::fuzzing::program(script));
