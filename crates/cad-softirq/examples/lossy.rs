//! Runs a command in a network namespace of its own, whose loopback interface loses one packet of 64 and repeats another one: for tests.
//! Where that can't be, it says so.

#[path = "../tests/world/mod.rs"]
mod world;

use std::ffi::OsString;
use std::process::Command;

fn main() {
    let args: Vec<OsString> = std::env::args_os().skip(1).collect();
    let [program, args @ ..] = &args[..] else {
        panic!("lossy COMMAND ARGUMENTS");
    };
    world::apart(|| {
        let _lossy = world::lossy();
        let status = Command::new(program).args(args).status().unwrap();
        assert!(status.success(), "{status}");
    });
}
