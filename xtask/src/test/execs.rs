//! Stage `execs`: MPI's non-blocking and persistent collectives with each executor insisted on: our own tests, the Intel MPI Benchmarks,
//! mpi4py's own tests, many collectives at once; processes that are killed; and what may be refused to a process. All of it also between two hosts of a
//! lab ([`hosts`]), and by TCP inside one host what then goes another way: the ring and softirq take theirs by themselves. What an executor
//! does not run is printed before its tests, from `yamabiko info`.
//!
//! An executor that did nothing at a rank, by what that says in `MPI_Finalize` or by MPI_T's counters, is a failure. `softirq` has a kaccd of this stage's
//! ([`kaccd`]); where the kernel refuses that what it needs, the tests with it are left out, and that is said. What the stage `c` runs
//! with an executor is not run again.

mod hosts;
pub mod kaccd;
mod killed;
mod left;
mod masks;
mod public;
mod refusals;
mod traced;

use super::ground::{Ground, Over};
use super::imb::{self, Amount};
use super::job::{Job, tail};
use super::{Options, Tally, ctests, mpi4py, peers};
use crate::spec::root;
use crate::{Result, build, process};
use kaccd::Kaccd;
use public::Public;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Who runs collectives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Executor {
    /// The rank, in its calls
    Inline,
    /// The kernel, by io_uring
    Ring,
    /// The kernel, in its receive path
    Softirq,
    /// A thread of the library
    Thread,
}

impl Executor {
    const ALL: [Executor; 4] = [
        Executor::Inline,
        Executor::Ring,
        Executor::Softirq,
        Executor::Thread,
    ];

    /// As `YAMABIKO_CAD` has it.
    pub fn name(self) -> &'static str {
        match self {
            Executor::Inline => "inline",
            Executor::Ring => "ring",
            Executor::Softirq => "softirq",
            Executor::Thread => "thread",
        }
    }

    /// What a rank says before the number of collectives that it ran.
    fn says(self) -> &'static str {
        match self {
            Executor::Inline => "run in calls: ",
            Executor::Ring => "handed to the kernel: ",
            Executor::Softirq => "in the kernel's receive path: ",
            Executor::Thread => "left to a thread: ",
        }
    }
}

pub type Variables = Vec<(&'static str, String)>;

/// What has ranks use an executor, and say so.
pub fn variables(executor: Executor, kaccd: Option<&Kaccd>) -> Variables {
    let mut all = vec![
        ("YAMABIKO_CAD", executor.name().to_owned()),
        ("YAMABIKO_CAD_REPORT", "1".to_owned()),
    ];
    all.extend(kaccd.map(|kaccd| ("YAMABIKO_KACCD", kaccd.name().to_owned())));
    all
}

/// What has executors be chosen for each collective, and ranks say which.
fn chosen() -> Variables {
    let choice = ("YAMABIKO_CAD", "auto".to_owned());
    vec![choice, ("YAMABIKO_CAD_REPORT", "1".to_owned())]
}

/// Whether each of so many ranks says that the executor ran some there; how many in all.
pub fn ran(executor: Executor, ranks: u32, said: &str) -> Result<u64> {
    let mut all = 0;
    for rank in 0..ranks {
        let begin = format!("yamabiko: rank {rank}: {}", executor.says());
        let mut numbers = said.split(&begin).skip(1).map(|rest| {
            let digits = rest.split(|c: char| !c.is_ascii_digit()).next();
            digits.and_then(|n| n.parse().ok()).unwrap_or(0)
        });
        match numbers.next() {
            Some(n) if n > 0 => all += n,
            _ => {
                let name = executor.name();
                return Err(format!(
                    "rank {rank} does not say that {name} ran anything there\n{}",
                    tail(said)
                ));
            }
        }
    }
    Ok(all)
}

/// Whether any rank says that its thread brought some to their end, in a program whose ranks compute meanwhile.
fn went_on(said: &str) -> Result {
    let ended = said.split(" of which ended there").map(|before| {
        let digits = before.rsplit(|c: char| !c.is_ascii_digit()).next();
        digits.and_then(|n| n.parse::<u64>().ok()).unwrap_or(0)
    });
    let all = said.matches(" of which ended there").count();
    match ended.take(all).sum::<u64>() > 0 {
        true => Ok(()),
        false => Err(format!(
            "no rank says that its thread went on with anything\n{}",
            tail(said)
        )),
    }
}

/// How often a run of a tenth of a second is begun, in which the thread may not get a processor's time while ranks compute: of 12 on a
/// calm machine it got none in one.
const BEGINNINGS: u32 = 5;

/// Runs that until the thread has brought some to their end.
fn until_it_went_on(run: impl Fn() -> Result<String>) -> Result {
    let mut went = went_on(&run()?);
    for _ in 1..BEGINNINGS {
        if went.is_ok() {
            break;
        }
        println!("      the thread got no processor's time: once more");
        went = went_on(&run()?);
    }
    went
}

/// What all tests of the stage use.
struct Stage<'a> {
    options: &'a Options,
    ground: Ground,
    bin: PathBuf,
}

/// A program of `tests/c`, and how it is run.
struct Program {
    name: &'static str,
    args: &'static [&'static str],
    /// In the long form.
    long: &'static [&'static str],
    ranks: &'static [u32],
}

/// Our tests of collectives, of which the stage `c` runs those for the other two on one host. With few bytes, as only such are for
/// `softirq`.
const ORACLES: [Program; 4] = [
    Program {
        name: "coll_oracle",
        args: &["60", "world"],
        long: &["1100"],
        ranks: &[2, 4],
    },
    Program {
        name: "coll_reduce",
        args: &["60", "world"],
        long: &["1100", "all", "inner"],
        ranks: &[3, 8],
    },
    Program {
        name: "coll_persist",
        args: &["together"],
        long: &["together"],
        ranks: &[2, 5],
    },
    Program {
        name: "op_bytecode",
        args: &[],
        long: &[],
        ranks: &[2, 3, 4, 5],
    },
];

const PROGRAMS: [&str; 9] = [
    "tool",
    "coll_auto",
    "coll_ring_traced",
    "coll_oracle",
    "coll_reduce",
    "coll_persist",
    "op_bytecode",
    "coll_stress",
    "coll_softirq",
];

/// Helpers of `tests/cad`: they start programs to which something is refused.
const STARTERS: [&str; 2] = ["forbid", "mask"];

/// How many collectives of the stress.
const STRESS: &str = "400";
const STRESS_LONG: &str = "10000";

impl Stage<'_> {
    /// What its tests with an executor are called.
    fn of(&self, executor: Executor) -> String {
        match self.ground.over {
            Over::Shm => format!("execs/{}", executor.name()),
            over => format!("execs/{} over {}", executor.name(), over.name()),
        }
    }

    fn job(&self, ranks: u32, options: &[&str], variables: &Variables, program: &str) -> Job {
        let mut job = Job::new(&self.ground.launcher)
            .args(self.ground.start(ranks))
            .args(options.iter().copied());
        for (name, value) in variables {
            job = job.args(["-genv", name, value]);
        }
        job.args([self.bin.join(program)])
            .limit_s(
                self.ground
                    .over
                    .limit_s(if self.options.soak { 900 } else { 180 }),
            )
            .watches(&self.ground.library)
            .env("LD_LIBRARY_PATH", &self.ground.library)
    }

    /// Runs a program that has to pass, with the executor.
    fn passes(
        &self,
        program: &Program,
        ranks: u32,
        executor: Executor,
        variables: &Variables,
    ) -> Result {
        let job = self.job(ranks, &[], variables, program.name);
        let job = job.args(self.args(program));
        let done = job.passes(&[format!("ok {}", program.name)])?;
        ran(executor, ranks, &done.output).map(drop)
    }

    fn args(&self, program: &Program) -> Vec<&'static str> {
        let args = if self.options.soak {
            program.long
        } else {
            program.args
        };
        args.to_vec()
    }

    /// The program that asks MPI_T which executor has run how many.
    fn counters(&self, tally: &mut Tally, executor: Executor, variables: &Variables) {
        for ranks in [2, 3] {
            let name = format!("execs/{}/tool -n {ranks}", executor.name());
            if self.options.wants(&name) {
                tally.test(&name, || {
                    let job = self.job(ranks, &[], variables, "tool");
                    let done = job
                        .args([executor.name()])
                        .passes(&["ok tool".to_owned()])?;
                    ran(executor, ranks, &done.output).map(drop)
                });
            }
        }
    }

    /// What is run with each executor, whichever way messages take.
    fn all(&self, tally: &mut Tally, executor: Executor, variables: &Variables) -> Result {
        self.oracles(tally, executor, variables);
        self.stress(tally, executor, variables);
        self.imb(tally, executor, variables)?;
        self.mpi4py(tally, executor, variables);
        Ok(())
    }

    fn oracles(&self, tally: &mut Tally, executor: Executor, variables: &Variables) {
        if executor != Executor::Softirq && self.ground.over == Over::Shm {
            return;
        }
        // What is not the kernel's has fewer ways.
        let all = self.options.soak || [Executor::Ring, Executor::Softirq].contains(&executor);
        for program in &ORACLES {
            let first = if all { 0 } else { program.ranks.len() - 1 };
            for &ranks in &program.ranks[first..] {
                let (name, args) = (program.name, self.args(program).join(" "));
                let name = format!("{}/{name} {args} -n {ranks}", self.of(executor));
                if self.options.wants(&name) {
                    tally.test(&name, || self.passes(program, ranks, executor, variables));
                }
            }
        }
    }

    /// The benchmarks of non-blocking collectives.
    fn imb(&self, tally: &mut Tally, executor: Executor, variables: &Variables) -> Result {
        let long = self.options.soak;
        let (ranks, amount) = match long {
            true => (
                &[2, 3, 4, 8][..],
                Amount {
                    iter: "100,64,100",
                    time: "1",
                    sizes: "2:20",
                    limit_s: 1800,
                },
            ),
            false => (
                &[2, 4][..],
                Amount {
                    iter: "4,1,4",
                    time: "0.02",
                    sizes: "3:9",
                    limit_s: 180,
                },
            ),
        };
        let program = peers::intel()?.join("bin/IMB-NBC");
        let names = imb::benchmarks(&self.ground, &program)?;
        for &ranks in ranks {
            let name = format!("{}/IMB-NBC -n {ranks}", self.of(executor));
            if self.options.wants(&name) {
                let run = || {
                    let ground = &self.ground;
                    let said = imb::run_suite(ground, &program, &names, ranks, &amount, variables)?;
                    ran(executor, ranks, &said).map(|_| said)
                };
                tally.test(&name, || match executor {
                    Executor::Thread => until_it_went_on(run),
                    _ => run().map(drop),
                });
            }
        }
        Ok(())
    }

    fn mpi4py(&self, tally: &mut Tally, executor: Executor, variables: &Variables) {
        let here = self.ground.over == Over::Shm;
        let ranks = match self.options.soak {
            true if here => &[2, 3, 4, 5, 8][..],
            // Minutes each.
            true => &[2, 3, 8][..],
            false => &[2][..],
        };
        let files = match self.options.soak {
            true => &mpi4py::OFFLOADED[..],
            // Each persistent collective waits for kaccd there, and there are thousands.
            false if executor == Executor::Softirq || !here => &mpi4py::OFFLOADED[..1],
            false => &mpi4py::OFFLOADED[..2],
        };
        let mut variables = variables.clone();
        // The ring serves programs in which only the main thread calls.
        variables.push(("MPI4PY_RC_THREAD_LEVEL", "funneled".to_owned()));
        for &ranks in ranks {
            let name = format!(
                "{}/mpi4py's offloaded collectives -n {ranks}",
                self.of(executor)
            );
            if self.options.wants(&name) {
                tally.test(&name, || {
                    let folder = format!("execs-{} {}", executor.name(), self.ground.over.name());
                    let ground = self.ground.clone();
                    let said = mpi4py::offloaded(ground, &folder, files, ranks, &variables)?;
                    ran(executor, ranks, &said).map(drop)
                });
            }
        }
    }

    /// Many at once, and a rank that is killed in the middle of many.
    fn stress(&self, tally: &mut Tally, executor: Executor, variables: &Variables) {
        let amount = match self.options.soak {
            true => STRESS_LONG,
            false => STRESS,
        };
        let name = format!("{}/{amount} collectives, eight at once", self.of(executor));
        if self.options.wants(&name) {
            tally.test(&name, || {
                let job = self.job(4, &[], variables, "coll_stress").args([amount]);
                let done = job.passes(&["ok coll_stress".to_owned()])?;
                ran(executor, 4, &done.output).map(drop)
            });
        }
        let name = format!("{}/a rank is killed among a hundred", self.of(executor));
        let times = if self.options.soak { 20 } else { 1 };
        if self.options.wants(&name) {
            tally.test(&name, || {
                let once = || {
                    let options = ["-disable-auto-cleanup"];
                    let job = self.job(4, &options, variables, "coll_stress");
                    let says = ["ok coll_stress", "rank 3 ", "SIGKILL"].map(str::to_owned);
                    let done = job.args(["lost"]).fails(&says)?;
                    ran(executor, 3, &done.output)
                };
                // The first has kaccd make what it keeps ready for those that come.
                once()?;
                let before = left::at_rest();
                for _ in 0..times {
                    once()?;
                }
                left::nothing_since(&before)
            });
        }
    }

    /// Where executors are chosen, and more ranks are on a machine than processors, small collectives go to kaccd.
    fn crowded(&self, kaccd: &Kaccd) -> Result {
        let mut variables = chosen();
        variables.push(("YAMABIKO_KACCD", kaccd.name().to_owned()));
        // On one processor, whatever this machine has, and more than do without it.
        let ranks = 9;
        let job = Job::new("taskset")
            .args(["-c", "0"])
            .args([&self.ground.launcher]);
        let mut job = job.args(self.ground.start(ranks));
        for (name, value) in variables {
            job = job.args(["-genv", name]).args([value]);
        }
        let job = job.args([self.bin.join("tool")]).args(["softirq"]);
        let job = job.env("LD_LIBRARY_PATH", &self.ground.library);
        let done = job.limit_s(120).passes(&["ok tool".to_owned()])?;
        ran(Executor::Softirq, ranks, &done.output).map(drop)
    }

    /// Ranks compute while the network loses what they say, and the kernel says it again for them; or, where it has no time limits for that (an opcode is
    /// masked), they do themselves when they are in MPI.
    fn loses_packets(&self, masked: Option<&str>) -> Result {
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.current_dir(root()).args(["build", "--quiet"]);
        process::run(cargo.args(["-p", "cad-softirq", "--example", "lossy"]))?;
        let lossy = build::target().join("debug/examples/lossy");
        let mut job = Job::new(lossy);
        if let Some(masked) = masked {
            job = job.args([self.bin.join("mask")]).args([masked]);
        }
        job = job.args([&self.ground.launcher]);
        job = job.args(self.ground.start(4));
        for (name, value) in variables(Executor::Softirq, None) {
            job = job.args(["-genv", name]).args([value]);
        }
        let job = job
            .args([self.bin.join("coll_softirq")])
            .args(["computing"]);
        let job = job
            .env("LD_LIBRARY_PATH", &self.ground.library)
            .limit_s(180);
        let done = job.passes(&["ok coll_softirq".to_owned()])?;
        ran(Executor::Softirq, 4, &done.output)?;
        let by_the_kernel = done.output.contains("; said again by the kernel ");
        match by_the_kernel == masked.is_none() {
            true => Ok(()),
            false => Err(format!(
                "said again by the kernel: {by_the_kernel}\n{}",
                tail(&done.output)
            )),
        }
    }
}

/// Runs the stage.
pub fn run(options: &Options, tally: &mut Tally) -> Result {
    let bin = build::target().join("test/execs");
    build::make_folder(&bin)?;
    tally.test("execs/compile", || compile(&bin));
    let stage = Stage {
        options,
        ground: Ground::ours(Over::Shm),
        bin,
    };
    let kaccd = Kaccd::start("execs")?;
    let info =
        process::output(Command::new(build::prefix(false).join("bin/yamabiko")).arg("info"))?;
    for executor in Executor::ALL {
        if options.wants(&stage.of(executor)) {
            print_limits(&info, executor)?;
        }
        let mine = kaccd.as_ref().filter(|_| executor == Executor::Softirq);
        if executor == Executor::Softirq && mine.is_none() {
            continue;
        }
        let variables = variables(executor, mine);
        stage.counters(tally, executor, &variables);
        stage.all(tally, executor, &variables)?;
    }
    let name = "execs/auto/ranks outnumber processors";
    if let Some(kaccd) = kaccd.as_ref().filter(|_| options.wants(name)) {
        tally.test(name, || stage.crowded(kaccd));
    }
    let name = "execs/softirq/packets are lost while ranks compute";
    if kaccd.is_some() && options.wants(name) {
        tally.test(name, || stage.loses_packets(None));
    }
    if let Some(kaccd) = &kaccd {
        killed::run(&stage, tally, kaccd);
    }
    masks::run(&stage, tally, kaccd.as_ref())?;
    let public = Public::new(
        &stage.ground,
        &stage.bin,
        &["forbid", "coll_stress", "coll_ring_traced"],
    )?;
    let of_all = Stage {
        options,
        ground: public.ground(&stage.ground),
        bin: public.bin(),
    };
    refusals::run(&of_all, tally, kaccd.as_ref());
    traced::run(&of_all, tally);
    by_tcp(options, stage.bin.clone(), tally)?;
    hosts::run(stage, tally)
}

/// What takes another way inside a host, where fabrics are chosen.
fn by_tcp(options: &Options, bin: PathBuf, tally: &mut Tally) -> Result {
    let stage = Stage {
        options,
        ground: Ground::ours(Over::Tcp),
        bin,
    };
    for executor in [Executor::Inline, Executor::Thread] {
        stage.all(tally, executor, &variables(executor, None))?;
    }
    Ok(())
}

/// Prints what an executor does not run.
fn print_limits(info: &str, executor: Executor) -> Result {
    let section = info
        .lines()
        .skip_while(|line| !line.starts_with("what executors do not run"));
    let lines = section.skip(1).take_while(|line| line.starts_with("  "));
    let words = lines.filter_map(|line| line.trim_start().split_once(' '));
    let own: Vec<_> = words.filter(|(name, _)| *name == executor.name()).collect();
    for (name, what) in &own {
        println!("      {name} does not run: {}", what.trim_start());
    }
    match own.is_empty() {
        true => Err(format!(
            "yamabiko info does not say what {} does not run",
            executor.name()
        )),
        false => Ok(()),
    }
}

fn compile(bin: &Path) -> Result {
    let mpicc = build::prefix(false).join("bin/mpicc");
    let mpicc = mpicc
        .to_str()
        .ok_or("the path of target/prefix is not text")?;
    for name in PROGRAMS {
        let source = root().join(format!("tests/c/{name}.c"));
        ctests::compile_one(&[mpicc], &source, bin)?;
    }
    for name in STARTERS {
        let source = root().join(format!("tests/cad/{name}.c"));
        ctests::compile_one(&["cc"], &source, bin)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_executor_that_ran_nothing_is_found() {
        let said = "yamabiko: rank 1: handed to the kernel: 12 collectives of 3 nodes\n\
                    x yamabiko: rank 0: handed to the kernel: 1 collective of 2 nodes\n\
                    yamabiko: rank 2: no collective was handed to the kernel\n";
        assert_eq!(ran(Executor::Ring, 2, said), Ok(13));
        assert!(ran(Executor::Ring, 3, said).is_err());
        assert!(ran(Executor::Softirq, 1, said).is_err());
        let said = "yamabiko: rank 0: left to a thread: 4 collectives, 0 of which ended there; at once in calls: 9\n\
                    yamabiko: rank 1: left to a thread: 7 collectives, 2 of which ended there; at once in calls: 0\n";
        assert_eq!(ran(Executor::Thread, 2, said), Ok(11));
        assert!(went_on(said).is_ok() && went_on("3").is_err());
        let idle = said.replace("2 of", "0 of");
        assert!(went_on(&idle).is_err());
        let runs = std::cell::Cell::new(0);
        let begin = |needed: u32| {
            runs.set(runs.get() + 1);
            let said = if runs.get() < needed { &idle } else { said };
            Ok(said.to_owned())
        };
        assert!(until_it_went_on(|| begin(3)).is_ok() && runs.replace(0) == 3);
        assert!(until_it_went_on(|| begin(u32::MAX)).is_err() && runs.get() == BEGINNINGS);
        assert!(
            ran(
                Executor::Inline,
                1,
                "yamabiko: rank 0: run in calls: 0 collectives"
            )
            .is_err()
        );
    }
}
