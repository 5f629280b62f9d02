//! `mpiexec` (and `mpirun`): runs an MPI job on this machine.

use launch::options::{self, Request};
use std::ffi::OsStr;
use std::process::exit;

fn main() {
    let arguments = std::env::args_os().skip(1).collect();
    let read_file = |path: &OsStr| {
        std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.to_string_lossy()))
    };
    let options = match options::parse(arguments, &read_file, &is_local) {
        Ok(Request::Run(options)) => options,
        Ok(Request::Help) => return print!("{}", options::HELP),
        Ok(Request::Version) => {
            return println!("mpiexec (Yamabiko) {}", env!("CARGO_PKG_VERSION"));
        }
        Err(text) => fail(&text, 2),
    };
    match launch::job::run(&options) {
        Ok(code) => exit(code),
        Err(error) => fail(&error.text, error.code),
    }
}

fn fail(text: &str, code: i32) -> ! {
    eprintln!("mpiexec: {text}");
    exit(code)
}

/// Whether a host's name means this machine.
fn is_local(host: &str) -> bool {
    let system = rustix::system::uname();
    let own = system.nodename().to_string_lossy();
    let short = own.split('.').next().unwrap_or("");
    matches!(host, "localhost" | "127.0.0.1" | "::1") || host == own || host == short
}
