//! Runs a command in a network namespace of its own, whose loopback interface loses one packet of 128 and repeats another one: for tests.
//! Ends with the command's code, or, with a word about it, with 0 where that can't be.

#[path = "../tests/world/mod.rs"]
mod world;

use std::process::Command;

fn main() {
    let mut args = std::env::args_os().skip(1);
    let program = args.next().expect("lossy COMMAND ARGUMENTS");
    world::apart(|| {
        let _lossy = world::lossy();
        let status = Command::new(program).args(args).status().unwrap();
        assert!(status.success(), "{status}");
    });
}
