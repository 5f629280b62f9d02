//! `cargo xtask net-bench`: time one way between two hosts of a lab, ours beside plain sockets and other MPIs. With
//! `--kacc` instead `yamabiko bench kacc` between three; with `--steer` beside it, of an imbalance and of steering against it. With `--imb`
//! what of collectives the Intel MPI Benchmarks find to go on while two hosts compute ([`imb`]).
//!
//! At full speed and over slow links. Rounds in which every side runs once, one after the other, so that what the
//! machine does meanwhile meets all of them; the medians of a round are compared within it. What is demanded of
//! the ratios ([`BARS`]) is printed beside them and decides nothing: a busy machine shows other figures.

mod imb;

use crate::netlab::steering::{self, Steering};
use crate::netlab::{self, Lab};
use crate::spec::root;
use crate::test::execs::Executor;
use crate::test::execs::kaccd::Kaccd;
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
    /// Limit the links to so many Mbit/s; 0 is full speed. Several are measured one after the other [default: 0,1000; with --imb 1000]
    #[arg(long, value_delimiter = ',')]
    mbit: Vec<u32>,
    /// Run `yamabiko bench kacc` instead, between three hosts; --sizes are those of its broadcasts, and tables, JSON and
    /// drawings are below target/test/net-kacc
    #[arg(long)]
    kacc: bool,
    /// What of it [default: what has a size in bytes]; --sizes are then what these sweep
    #[arg(long, value_delimiter = ',', requires = "kacc")]
    experiments: Vec<String>,
    /// Have one processor receive all that the network brings, and measure that beside what `yamabiko kaccd --steer` makes of it: kacc-steer, between
    /// hosts and, of small operations in the receive path, on one
    #[arg(long, requires = "kacc")]
    steer: bool,
    /// Run the collectives of IMB-NBC instead, between two hosts, and compare their overlap with what is demanded
    #[arg(long, conflicts_with_all = ["kacc", "alone", "sizes"])]
    imb: bool,
    /// Who runs them
    #[arg(long, value_enum, default_value = "ring", requires = "imb")]
    executor: Executor,
    /// Leave out other MPIs
    #[arg(long)]
    alone: bool,
    /// Sizes of messages, in bytes [default: 8 bytes to 1 MiB; 1 MiB over limited links]
    #[arg(long, value_delimiter = ',')]
    sizes: Vec<u32>,
    /// More words for `yamabiko bench`
    #[arg(last = true, requires = "kacc")]
    words: Vec<String>,
}

/// Microseconds one way, by size.
type Times = BTreeMap<u32, f64>;

impl Args {
    /// The links to measure over.
    fn links(&self) -> &[u32] {
        match (&self.mbit[..], self.imb) {
            ([], true) => &[1000],
            ([], false) => &[0, 1000],
            (some, _) => some,
        }
    }
}

struct Bench {
    lab: Lab,
    bin: PathBuf,
    sizes: Vec<String>,
}

/// The first is what the others are divided by.
const SIDES: [&str; 5] = ["raw", "ours", "mpich", "openmpi", "intel"];
const RAW: usize = 0;
const OURS: usize = 1;
/// Where other MPIs begin.
const PEERS: usize = 2;

const MIB: u32 = 1 << 20;

/// What is demanded: on limited links or not, the size, how much of the others' speed ours must have at least, and of
/// whose: plain sockets' or the best MPI's.
const BARS: [(bool, u32, f64, bool); 3] = [
    (false, 8, 1.0 / 1.15, false),
    (false, MIB, 0.9, false),
    (true, MIB, 0.98, true),
];

/// Runs the subcommand.
pub fn run(args: &Args) -> Result {
    if let Some(why) = netlab::unavailable() {
        return Err(why);
    }
    let links = args.links();
    if args.steer {
        return links.iter().try_for_each(|&mbit| steer(args, mbit));
    }
    if args.kacc {
        return links.iter().try_for_each(|&mbit| kacc(args, mbit));
    }
    if args.imb {
        return links.iter().try_for_each(|&mbit| imb::run(args, mbit));
    }
    let sides = if args.alone {
        &SIDES[..PEERS]
    } else {
        &SIDES[..]
    };
    let bin = compile(sides.len() > PEERS)?;
    for &mbit in links {
        let sizes = match (&args.sizes[..], mbit) {
            ([], 0) => &[8, 1024, 65536, MIB],
            // The others would take minutes, and say little.
            ([], _) => &[MIB][..],
            (sizes, _) => sizes,
        };
        // A lab of its own: limits are not taken back.
        let bench = Bench {
            lab: lab(2, mbit)?,
            bin: bin.clone(),
            sizes: sizes.iter().map(u32::to_string).collect(),
        };
        let mut rounds: Vec<Vec<Times>> = Vec::new();
        for round in 1..=args.rounds {
            eprintln!("round {round} of {}", args.rounds);
            let times = sides.iter().map(|side| bench.side(side));
            rounds.push(times.collect::<Result<_>>()?);
        }
        show(mbit, sizes, &rounds);
    }
    Ok(())
}

/// What of `yamabiko bench kacc` has a size in bytes and takes the network's part.
const KACC: [&str; 4] = ["kacc-lost", "kacc-time", "kacc-chain", "kacc-allreduce"];

/// A lab of so many hosts, over one kind of link, limited in this way.
fn lab_limited(hosts: u32, mbit: u32, limit: impl Fn(&Lab, u32, u32) -> Result) -> Result<Lab> {
    let lab = Lab::build(hosts)?;
    for host in 1..=hosts {
        if mbit > 0 {
            limit(&lab, host, mbit)?;
        }
    }
    Ok(lab)
}

/// A lab of so many hosts, over one kind of link.
fn lab(hosts: u32, mbit: u32) -> Result<Lab> {
    lab_limited(hosts, mbit, Lab::limit)
}

/// `yamabiko bench` on the first host, with its arguments so far, those of this command, and where its files go; `hosts` are the ranks', if not that one.
fn bench(args: &Args, lab: &Lab, hosts: Option<&str>, name: &str) -> Result<Command> {
    let folder = build::target().join("test/net-kacc");
    build::make_folder(&folder)?;
    let mut command = lab.command(1, build::prefix(false).join("bin/yamabiko"));
    command.arg("bench");
    if let Some(hosts) = hosts {
        command.args(["--hosts", hosts, "--shell"]).arg(lab.shell());
    }
    command.args(["--rounds", &args.rounds.to_string()]);
    for ending in ["json", "svg"] {
        let file = folder.join(format!("{name}.{ending}"));
        command.arg(format!("--{ending}")).arg(file);
    }
    command.args(&args.words).stdin(Stdio::null());
    Ok(command)
}

/// Where network work is done on one processor, and where it is steered: between two hosts, then what takes the receive path of one host alone.
fn steer(args: &Args, mbit: u32) -> Result {
    /// What fits that path, in bytes.
    const SMALL: u32 = 1024;
    let lab = lab(3, mbit)?;
    let steering = Steering::new(&lab, steering::first_processor())?;
    let run = |hosts: Option<&str>, name: &str, sizes: &[u32], words: &[&str]| {
        let mut command = bench(args, &lab, hosts, name)?;
        command.args(words).arg("--steering").arg(steering.switch());
        if !sizes.is_empty() {
            let sizes: Vec<_> = sizes.iter().map(u32::to_string).collect();
            command.args(["--sizes", &sizes.join(",")]);
        }
        process::run(&mut command)
    };
    println!("{}", limits(mbit));
    let wanted: Vec<_> = match &args.experiments[..] {
        [] => vec!["kacc-steer"],
        some => some.iter().map(String::as_str).collect(),
    };
    run(
        Some("h1,h2,h3"),
        &format!("{mbit}-mbit-steer"),
        &args.sizes,
        &wanted,
    )?;
    // A link's limit is no matter there.
    if args.links().first() != Some(&mbit) || !args.experiments.is_empty() {
        return Ok(());
    }
    println!("one host, its own interface");
    let small = |size: &&u32| **size <= SMALL;
    let sizes: Vec<_> = args.sizes.iter().filter(small).copied().collect();
    let sizes = if sizes.is_empty() {
        vec![8, SMALL]
    } else {
        sizes
    };
    run(
        None,
        "one-host-steer",
        &sizes,
        &["kacc-steer", "--ways", "softirq"],
    )
}

/// `yamabiko bench kacc` on the first of three hosts, over one kind of link, with a kaccd on each.
fn kacc(args: &Args, mbit: u32) -> Result {
    let lab = lab(3, mbit)?;
    let kaccds = Kaccd::usual(&lab, 3)?;
    if kaccds.is_empty() {
        println!("without softirq");
    }
    let mut command = bench(args, &lab, Some("h1,h2,h3"), &format!("{mbit}-mbit"))?;
    match &args.experiments[..] {
        [] => command.args(KACC),
        some => command.args(some),
    };
    if !args.alone {
        // Here, as a host of the lab reaches no package index.
        for (name, home) in [
            ("mpich", peers::mpich()?),
            ("openmpi", peers::openmpi()?),
            ("impi", peers::intel_compiled()?),
        ] {
            command.args(["--against", &format!("{name}={}", home.display())]);
        }
    }
    if !args.sizes.is_empty() {
        let sizes: Vec<_> = args.sizes.iter().map(u32::to_string).collect();
        command.args(["--sizes", &sizes.join(",")]);
    }
    println!("{}", limits(mbit));
    process::run(&mut command)
}

/// What limits links.
fn limits(mbit: u32) -> String {
    match mbit {
        0 => "full speed".to_owned(),
        mbit => format!("{mbit} Mbit/s"),
    }
}

/// Prints the table of one kind of link, and how it stands beside what is demanded.
fn show(mbit: u32, sizes: &[u32], rounds: &[Vec<Times>]) {
    println!(
        "{}: microseconds one way, median of {} rounds, and the median of the ratios to raw",
        limits(mbit),
        rounds.len()
    );
    let sides = rounds.first().map_or(0, Vec::len);
    let times = |side: usize, size: u32| {
        let of = move |r: &Vec<Times>| r[side].get(&size).copied();
        rounds.iter().filter_map(of)
    };
    let ratio = |a: usize, b: usize, size: u32| {
        median(times(a, size).zip(times(b, size)).map(|(a, b)| a / b))
    };
    for &size in sizes {
        print!("{size:>9}");
        for (side, name) in SIDES.iter().enumerate().take(sides) {
            let (time, ratio) = (median(times(side, size)), ratio(side, RAW, size));
            print!("   {name} {time:.3} ({ratio:.3})");
        }
        println!();
    }
    for (limited, size, least, of_peers) in BARS {
        if limited != (mbit > 0) || !sizes.contains(&size) {
            continue;
        }
        let others = if of_peers { PEERS..sides } else { RAW..OURS };
        let speeds = others.map(|other| (ratio(other, OURS, size), SIDES[other]));
        // The one that ours looks worst beside.
        if let Some((speed, other)) = speeds.min_by(|a, b| a.0.total_cmp(&b.0)) {
            let verdict = if speed >= least { "holds" } else { "MISSED" };
            println!(
                "{verdict}: {size} bytes at {speed:.3} of the speed of {other}, {least:.3} demanded"
            );
        }
    }
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Compiles the programs of `tests/net`; the folder they lie in.
fn compile(with_peers: bool) -> Result<PathBuf> {
    let mpicc = build::prefix(false).join("bin/mpicc");
    let mut compilers: Vec<Compiler<'_>> = vec![
        ("cc".into(), &[], "raw.c", "raw"),
        (mpicc.clone(), &[], "pingpong.c", "pingpong"),
    ];
    if with_peers {
        let openmpi = peers::openmpi()?.join("bin/mpicc");
        compilers.push((mpicc, &["-abi=mpich"], "pingpong.c", "pingpong-mpich"));
        compilers.push((openmpi, &[], "pingpong.c", "pingpong-openmpi"));
    }
    compile_by(compilers)
}

/// A compiler, words for it, the source, and the name of the program.
type Compiler<'a> = (PathBuf, &'a [&'a str], &'a str, &'a str);

/// Compiles these programs of `tests/net`; the folder they lie in.
fn compile_by(compilers: Vec<Compiler<'_>>) -> Result<PathBuf> {
    let bin = build::target().join("test/net");
    std::fs::create_dir_all(&bin).map_err(|e| format!("{}: {e}", bin.display()))?;
    let source = |name: &str| root().join("tests/net").join(name);
    for (compiler, flags, from, to) in compilers {
        let mut command = Command::new(compiler);
        command.args(flags).arg("-O2").arg(source(from));
        process::run(command.arg("-o").arg(bin.join(to)))?;
    }
    Ok(bin)
}

/// A program of plain sockets, one end on each host: what that of the second role says.
fn sockets(lab: &Lab, program: &Path, roles: [&str; 2], sizes: &[String]) -> Result<String> {
    let serves = |role: &str| if role == "serve" { 2 } else { 1 };
    let end = |role: &str| {
        let mut command = lab.command(serves(role), program);
        command.args([role, &netlab::v4(2), "45999"]).args(sizes);
        command.stdin(Stdio::null());
        command
    };
    let other = end(roles[0]).spawn();
    let mut other = other.map_err(|e| format!("{}: {e}", program.display()))?;
    let said = process::output(&mut end(roles[1]));
    if said.is_err() {
        let _ = other.kill();
    }
    let _ = other.wait();
    said
}

impl Bench {
    fn side(&self, side: &str) -> Result<Times> {
        let said = match side {
            "raw" => sockets(
                &self.lab,
                &self.bin.join("raw"),
                ["serve", "call"],
                &self.sizes,
            ),
            "ours" => self.ours(),
            "mpich" => self.mpich(),
            "openmpi" => self.openmpi(),
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

    /// Its own launcher, whose daemons get to the other host as through ssh.
    fn openmpi(&self) -> Result<String> {
        let home = peers::openmpi()?;
        let mut command = self.lab.command(1, "env");
        command.args([
            "OMPI_ALLOW_RUN_AS_ROOT=1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
        ]);
        command.arg(home.join("bin/mpirun"));
        command
            .args(["--prtemca", "plm_ssh_agent"])
            .arg(self.lab.shell());
        command.args(["--prtemca", "prte_if_include", "eth0"]);
        command.args(["--mca", "pml", "ob1", "--mca", "btl", "self,tcp"]);
        command.args(["--mca", "btl_tcp_if_include", "eth0"]);
        // Each host of the lab counts its processors from 0: bound, both ranks would share one.
        command.args(["--bind-to", "none", "--map-by", "node"]);
        command.args(["--host", "h1:1,h2:1", "-n", "2"]);
        command
            .arg(self.bin.join("pingpong-openmpi"))
            .args(&self.sizes);
        process::output(command.stdin(Stdio::null()))
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
