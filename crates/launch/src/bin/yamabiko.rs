//! `yamabiko`: looks at running jobs and at this installation.

use clap::{Parser, Subcommand};
use std::process::ExitCode;

#[derive(Parser)]
#[command(
    name = "yamabiko",
    version,
    about = "Looks at MPI jobs and at this installation"
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Print for each rank of a running job the call it waits in, and since when
    Report {
        /// Process number of the job's mpiexec
        pid: u32,
    },
    /// Print what this installation is
    Info {
        /// List the MPI functions that are not built yet
        #[arg(long)]
        missing: bool,
    },
    /// Run the ranks of this host for an mpiexec elsewhere, which starts this
    #[command(hide = true)]
    Daemon,
    /// Look at the graphs that collectives are
    Cad {
        #[command(subcommand)]
        command: Cad,
    },
    /// Hold the kernel's part of small collectives, for processes of this host that have no privilege
    Kaccd(launch::kaccd::Args),
    /// Put back what `kaccd --steer` has changed, when that is gone
    #[command(hide = true, name = launch::steer::guard::COMMAND)]
    Guard,
    /// Measure, alone or beside other MPI libraries
    Bench(Box<bench::command::Args>),
}

#[derive(Subcommand)]
enum Cad {
    /// Print the graph of a collective as one rank runs it, as text, picture or chains
    Show(launch::show::Args),
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Report { pid } => launch::hang::report_of(pid),
        Command::Daemon => return ExitCode::from(launch::daemon::run()),
        Command::Info { missing: true } => launch::info::missing(),
        Command::Info { missing: false } => Ok(launch::info::summary()),
        Command::Cad {
            command: Cad::Show(args),
        } => launch::show::show(&args),
        Command::Kaccd(args) => launch::kaccd::run(&args).map(|never| match never {}),
        Command::Guard => launch::steer::guard::run().map(|()| String::new()),
        Command::Bench(args) => return measured(&args),
    };
    match result {
        Ok(text) => printed(&text),
        Err(text) => complaint(&text),
    }
}

/// Measures, and prints what was measured also where something failed or somebody interrupted.
fn measured(args: &bench::command::Args) -> ExitCode {
    let answer = launch::info::installation().and_then(|prefix| bench::command::run(args, &prefix));
    let code = match answer {
        Ok(answer) => {
            let code = printed(&answer.text);
            answer.failed.map_or(code, |why| complaint(&why))
        }
        Err(text) => complaint(&text),
    };
    bench::exit_code().map_or(code, ExitCode::from)
}

/// Says what went wrong.
fn complaint(text: &str) -> ExitCode {
    sys::say::line(&format!("yamabiko: {text}"));
    ExitCode::FAILURE
}

fn printed(text: &str) -> ExitCode {
    match sys::say::answer(text) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => complaint(&format!("cannot write the answer: {e}")),
    }
}
