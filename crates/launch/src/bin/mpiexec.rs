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
        Ok(Request::Help) => return answer(options::HELP),
        Ok(Request::Version) => {
            return answer(concat!(
                "mpiexec (Yamabiko) ",
                env!("CARGO_PKG_VERSION"),
                "\n"
            ));
        }
        Err(text) => fail(&text, 2),
    };
    for text in variables::mistyped(&options) {
        say(&text);
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
        Err(text) => say(&text),
    }
    options
}

fn answer(text: &str) {
    if let Err(e) = sys::say::answer(text) {
        fail(&format!("cannot write the answer: {e}"), 1)
    }
}

fn say(text: &str) {
    sys::say::line(&format!("mpiexec: {text}"));
}

fn fail(text: &str, code: i32) -> ! {
    say(text);
    exit(code)
}
