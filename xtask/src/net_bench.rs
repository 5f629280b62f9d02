//! `cargo xtask net-bench`: time one way between two hosts of a lab, ours beside plain sockets and other MPIs.
//!
//! Rounds in which every side runs once, one after the other, so that what the machine does meanwhile meets all
//! of them; the medians of a round are compared within it.

use crate::netlab::{self, Lab};
use crate::spec::root;
use crate::test::peers;
use crate::{Result, build, process};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Arguments of `net-bench`.
#[derive(clap::Args)]
pub struct Args {
    /// Rounds
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// Limit the links to so many Mbit/s
    #[arg(long)]
    mbit: Option<u32>,
    /// Leave out other MPIs
    #[arg(long)]
    alone: bool,
    /// Sizes of messages, in bytes
    #[arg(long, value_delimiter = ',', default_values_t = [8, 1024, 65536, 1 << 20])]
    sizes: Vec<u32>,
}

/// Microseconds one way, by size.
type Times = BTreeMap<u32, f64>;

struct Bench {
    lab: Lab,
    bin: PathBuf,
    sizes: Vec<String>,
}

/// The first is what the others are divided by.
const SIDES: [&str; 4] = ["raw", "ours", "mpich", "intel"];

/// Runs the subcommand.
pub fn run(args: &Args) -> Result {
    if let Some(why) = netlab::unavailable() {
        return Err(why);
    }
    let bench = Bench {
        lab: Lab::build(2)?,
        bin: compile()?,
        sizes: args.sizes.iter().map(u32::to_string).collect(),
    };
    if let Some(mbit) = args.mbit {
        bench.lab.limit(1, mbit)?;
        bench.lab.limit(2, mbit)?;
    }
    let sides = if args.alone { &SIDES[..2] } else { &SIDES[..] };
    let mut rounds: Vec<Vec<Times>> = Vec::new();
    for round in 1..=args.rounds {
        eprintln!("round {round} of {}", args.rounds);
        let times = sides.iter().map(|side| bench.side(side));
        rounds.push(times.collect::<Result<_>>()?);
    }
    println!(
        "microseconds one way, median of {} rounds, and the median of the ratios to raw",
        args.rounds
    );
    for size in &args.sizes {
        print!("{size:>9}");
        for (i, side) in sides.iter().enumerate() {
            let of = |side: usize| {
                rounds
                    .iter()
                    .filter_map(move |r| r[side].get(size).copied())
            };
            let ratios = of(i).zip(of(0)).map(|(t, raw)| t / raw);
            print!("   {side} {:.3} ({:.3})", median(of(i)), median(ratios));
        }
        println!();
    }
    Ok(())
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Compiles the programs of `tests/net`; the folder they lie in.
fn compile() -> Result<PathBuf> {
    let bin = build::target().join("test/net");
    std::fs::create_dir_all(&bin).map_err(|e| format!("{}: {e}", bin.display()))?;
    let source = |name: &str| root().join("tests/net").join(name);
    let mpicc = build::prefix(false).join("bin/mpicc");
    let compilers: [(&Path, &[&str], &str, &str); 3] = [
        (Path::new("cc"), &[], "raw.c", "raw"),
        (&mpicc, &[], "pingpong.c", "pingpong"),
        (&mpicc, &["-abi=mpich"], "pingpong.c", "pingpong-mpich"),
    ];
    for (compiler, flags, from, to) in compilers {
        let mut command = Command::new(compiler);
        command.args(flags).arg("-O2").arg(source(from));
        process::run(command.arg("-o").arg(bin.join(to)))?;
    }
    Ok(bin)
}

impl Bench {
    fn side(&self, side: &str) -> Result<Times> {
        let said = match side {
            "raw" => self.raw(),
            "ours" => self.ours(),
            "mpich" => self.mpich(),
            _ => self.intel(),
        }?;
        let times = said.lines().filter_map(|line| {
            let (size, time) = line.split_once(' ')?;
            Some((size.parse().ok()?, time.trim().parse().ok()?))
        });
        let times: Times = times.collect();
        match times.len() == self.sizes.len() {
            true => Ok(times),
            false => Err(format!("{side} said\n{said}")),
        }
    }

    fn raw(&self) -> Result<String> {
        let end = |host: u32, role: &str| {
            let mut command = self.lab.command(host, self.bin.join("raw"));
            command
                .args([role, &netlab::v4(2), "45999"])
                .args(&self.sizes);
            command.stdin(Stdio::null());
            command
        };
        let mut server = end(2, "serve").spawn().map_err(|e| format!("raw: {e}"))?;
        let said = process::output(&mut end(1, "call"));
        if said.is_err() {
            let _ = server.kill();
        }
        let _ = server.wait();
        said
    }

    fn ours(&self) -> Result<String> {
        let mut command = Command::new(build::prefix(false).join("bin/mpiexec"));
        command.arg("-launcher-exec").arg(self.lab.launcher());
        command.args(["-hosts", "h1,h2", "-n", "2"]);
        process::output(command.arg(self.bin.join("pingpong")).args(&self.sizes))
    }

    /// Hydra, from the first host, on one rank of each.
    fn hydra(&self, home: &Path, words: &[&str], program: &str) -> Result<String> {
        let mut command = self.lab.command(1, "env");
        command.args(words).arg(home.join("bin/mpiexec.hydra"));
        command.args(["-launcher", "ssh", "-launcher-exec"]);
        command.arg(self.lab.shell());
        command.args(["-iface", "eth0", "-hosts", "h1,h2", "-ppn", "1", "-n", "2"]);
        command.arg(self.bin.join(program)).args(&self.sizes);
        process::output(command.stdin(Stdio::null()))
    }

    fn mpich(&self) -> Result<String> {
        let home = peers::mpich()?;
        let library = format!("LD_LIBRARY_PATH={}", home.join("lib").display());
        self.hydra(&home, &[&library], "pingpong")
    }

    fn intel(&self) -> Result<String> {
        let home = peers::intel()?;
        let at = |path: &str| home.join(path).display().to_string();
        let library = format!("LD_LIBRARY_PATH={}", at("lib"));
        let providers = format!("FI_PROVIDER_PATH={}", at("lib"));
        let own = format!("I_MPI_ROOT={}", home.display());
        let words = [&library, &providers, &own].map(String::as_str);
        let fixed = ["FI_PROVIDER=tcp", "I_MPI_FABRICS=shm:ofi"];
        self.hydra(&home, &[&words[..], &fixed].concat(), "pingpong-mpich")
    }
}
