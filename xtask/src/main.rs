//! `cargo xtask`: what builds, generates, checks and installs Yamabiko. One file per subcommand.

#![forbid(unsafe_code)]

mod abi_diff;
mod blacs;
mod build;
mod cad;
mod distil;
mod fmpl;
mod generate;
mod icount;
mod install;
mod net_bench;
mod netlab;
mod performance;
mod process;
mod reach;
mod run;
mod spec;
mod symbols;
mod test;

use clap::Parser;

/// Result of a subcommand: the error is a sentence for the person at the terminal.
pub type Result<T = ()> = std::result::Result<T, String>;

#[derive(Parser)]
#[command(
    name = "cargo xtask",
    about = "Builds, generates, checks and installs Yamabiko"
)]
enum Command {
    /// Write the generated files from spec/ (or, with --check, say which are out of date)
    #[command(name = "gen")]
    Generate(generate::Args),
    /// Distil spec/procedures.toml from the MPI Forum's apis.json
    Distil(distil::Args),
    /// Compare the constants in spec/ with those of an mpi.h
    AbiDiff(abi_diff::Args),
    /// Build both libraries and all programs, and lay out target/prefix
    Build(build::Args),
    /// Check the exported symbols of the built libraries against the export lists
    Symbols(symbols::Args),
    /// Copy target/prefix to --prefix
    Install(install::Args),
    /// Build, compile the example with the new mpicc and run it on 4 ranks
    Run,
    /// Count the instructions of short MPI calls (with valgrind)
    Icount(icount::Args),
    /// Time one way between two hosts of a lab, beside plain sockets and other MPIs
    NetBench(net_bench::Args),
    /// Measure, and write the README's tables and docs/performance (nothing else may keep the machine busy)
    Performance(performance::Args),
    /// Run all tests, or the stages named
    Test(test::Args),
    /// Write tests/py/mpich-skips.txt: which of mpi4py's own tests MPICH skips
    Skips(test::SkipsArgs),
    /// Run the long tests: an hour and more
    Soak,
    /// A remote shell for the stage `net`
    #[command(subcommand, hide = true)]
    Reach(reach::Args),
}

fn main() -> std::process::ExitCode {
    let done = match Command::parse() {
        Command::Generate(args) => generate::run(&args),
        Command::Distil(args) => distil::run(&args),
        Command::AbiDiff(args) => abi_diff::run(&args),
        Command::Build(args) => build::run(&args),
        Command::Symbols(args) => symbols::run(&args),
        Command::Install(args) => install::run(&args),
        Command::Run => run::run(),
        Command::Icount(args) => icount::run(&args),
        Command::NetBench(args) => net_bench::run(&args),
        Command::Performance(args) => performance::run(&args),
        Command::Test(args) => test::run(&args),
        Command::Skips(args) => test::skips(&args),
        Command::Soak => test::soak(),
        Command::Reach(args) => reach::run(&args),
    };
    match done {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("xtask: {message}");
            std::process::ExitCode::FAILURE
        }
    }
}
