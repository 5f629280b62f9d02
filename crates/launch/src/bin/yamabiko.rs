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
    /// Measure, alone or beside other MPI libraries
    Bench(Box<bench::command::Args>),
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Report { pid } => launch::hang::report_of(pid),
        Command::Daemon => return ExitCode::from(launch::daemon::run()),
        Command::Info { missing: true } => launch::info::missing(),
        Command::Info { missing: false } => Ok(launch::info::summary()),
        Command::Bench(args) => launch::info::installation()
            .and_then(|prefix| bench::command::run(&args, &prefix))
            .and_then(|answer| {
                print!("{}", answer.text);
                answer.failed.map_or(Ok(String::new()), Err)
            }),
    };
    match result {
        Ok(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(text) => {
            eprintln!("yamabiko: {text}");
            ExitCode::FAILURE
        }
    }
}
