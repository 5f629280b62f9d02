//! `mpiexec` (and `mpirun`): runs an MPI job.

use launch::options::{self, Options, Request};
use launch::variables;
use std::ffi::OsStr;
use std::process::exit;

fn main() {
    let arguments = std::env::args_os().skip(1).collect();
    let read_file = |path: &OsStr| {
        std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.to_string_lossy()))
    };
    let options = match options::parse(arguments, &read_file) {
        Ok(Request::Run(options)) => with_environment(options),
        Ok(Request::Help) => return print!("{}", options::HELP),
        Ok(Request::Version) => {
            return println!("mpiexec (Yamabiko) {}", env!("CARGO_PKG_VERSION"));
        }
        Err(text) => fail(&text, 2),
    };
    for text in variables::mistyped(&options) {
        eprintln!("mpiexec: {text}");
    }
    match launch::job::run(&options) {
        Ok(code) => exit(code),
        Err(error) => fail(&error.text, error.code),
    }
}

/// Adds what test suites set for any launcher: `MPIEXEC_TIMEOUT`, in seconds.
fn with_environment(mut options: Box<Options>) -> Box<Options> {
    if options.timeout.is_some() {
        return options;
    }
    let text = std::env::var_os("MPIEXEC_TIMEOUT").unwrap_or_default();
    match options::limit(&text.to_string_lossy()) {
        Ok(limit) => options.timeout = limit,
        Err(text) => eprintln!("mpiexec: {text}"),
    }
    options
}

fn fail(text: &str, code: i32) -> ! {
    eprintln!("mpiexec: {text}");
    exit(code)
}
