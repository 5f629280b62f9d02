//! `net-bench --imb`: how much of non-blocking collectives goes on while two hosts compute, as Intel's own IMB-NBC finds it.
//!
//! An executor that ran nothing at a rank makes it fail. What is demanded of the overlap ([`BARS`]) is printed beside it and decides nothing;
//! and what plain sockets find, whose buffers hold whole messages, so that only the kernel's receive path and what stands for the link
//! run while the hosts compute (`tests/net/undisturbed.c`): what this machine leaves to any library.

use super::{Args, compile_by, lab_limited, limits, median, sockets};
use crate::Result;
use crate::netlab::Lab;
use crate::test::execs::{Executor, ran, variables};
use crate::test::ground::{Ground, Over};
use crate::test::imb::{self, Amount};
use crate::test::peers;
use std::collections::{BTreeMap, BTreeSet};

/// One on each host.
const RANKS: u32 = 2;
/// The benchmarks.
const NAMES: [&str; 4] = ["Ibcast", "Iallreduce", "Ialltoall", "Iallgather"];
/// How much of each is run: as IMB does it, from 64 KiB to 4 MiB.
const AMOUNT: Amount = Amount {
    iter: "1000,40,100",
    time: "10",
    sizes: "16:22",
    limit_s: 120,
};
/// What the column is called.
const COLUMN: &str = "overlap[%]";
/// What is demanded: these sizes in bytes, and how many per cent of overlap at least.
const BARS: [(std::ops::RangeInclusive<u32>, f64); 2] =
    [(64 << 10..=64 << 10, 90.0), (256 << 10..=4 << 20, 95.0)];

/// Per cent, by benchmark and size.
type Overlap = BTreeMap<(&'static str, u32), f64>;

/// What plain sockets find: data come, as with Ibcast; and come and go, as with all others.
const UNDISTURBED: [&str; 2] = ["one way", "both ways"];

/// Runs it over one kind of link.
pub fn run(args: &Args, mbit: u32) -> Result {
    let program = peers::intel()?.join("bin/IMB-NBC");
    let lab = lab_limited(RANKS, mbit, Lab::limit_lightly)?;
    let sockets_program = compile_by(vec![(
        "cc".into(),
        &["-std=gnu11"],
        "undisturbed.c",
        "undisturbed",
    )])?;
    let sockets_program = sockets_program.join("undisturbed");
    let ground = Ground {
        reach: Some(lab.launcher()),
        ..Ground::ours(Over::Hosts)
    };
    let names = NAMES.map(str::to_owned);
    let variables = variables(args.executor, None);
    let mut rounds = Vec::new();
    for round in 1..=args.rounds {
        eprintln!("round {round} of {}", args.rounds);
        let job = imb::suite(&ground, &program, &names, RANKS, &AMOUNT, &variables);
        let said = imb::ended(job, &names)?;
        ran(args.executor, RANKS, &said)?;
        let mut overlap = overlap(&said);
        if overlap.is_empty() || !overlap.len().is_multiple_of(NAMES.len()) {
            return Err(format!("no {COLUMN} of each benchmark and size in\n{said}"));
        }
        let sizes: BTreeSet<u32> = overlap.keys().map(|(_, size)| *size).collect();
        let sizes: Vec<_> = sizes.iter().map(u32::to_string).collect();
        let said = sockets(&lab, &sockets_program, ["call", "serve"], &sizes)?;
        overlap.extend(undisturbed(&said));
        rounds.push(overlap);
    }
    show(args.executor, mbit, &rounds);
    Ok(())
}

/// What the benchmarks say in that column of their tables.
fn overlap(said: &str) -> Overlap {
    let mut all = Overlap::new();
    let (mut name, mut column) = (None, None);
    for line in said.lines() {
        let words: Vec<_> = line.split_whitespace().collect();
        if let ["#", "Benchmarking", benchmark, ..] = words[..] {
            name = NAMES.into_iter().find(|name| *name == benchmark);
            column = None;
        } else if let Some(at) = words.iter().position(|word| *word == COLUMN) {
            column = Some(at);
        } else if let (Some(name), Some(at)) = (name, column)
            && let Some(size) = words.first().and_then(|word| word.parse().ok())
            && size > 0
            && let Some(share) = words.get(at).and_then(|word| word.parse().ok())
        {
            all.insert((name, size), share);
        }
    }
    all
}

/// What plain sockets say: a size, and their figures.
fn undisturbed(said: &str) -> Overlap {
    let line = |line: &str| {
        let words: Vec<_> = line.split_whitespace().collect();
        let [size, comes, both] = words[..] else {
            return None;
        };
        let size = size.parse().ok()?;
        let figures = [comes.parse().ok()?, both.parse().ok()?];
        let named = UNDISTURBED.into_iter().zip(figures);
        Some(named.map(move |(name, figure)| ((name, size), figure)))
    };
    said.lines().filter_map(line).flatten().collect()
}

/// Prints the table of one kind of link, and how it stands beside what is demanded.
fn show(executor: Executor, mbit: u32, rounds: &[Overlap]) {
    println!(
        "{}, {}: per cent of overlap that IMB-NBC finds, medians of {} rounds; and that of plain sockets with room for all",
        limits(mbit),
        executor.name(),
        rounds.len()
    );
    let of = |name, size| {
        median(
            rounds
                .iter()
                .filter_map(|all| all.get(&(name, size)).copied()),
        )
    };
    let mut sizes: Vec<_> = rounds
        .iter()
        .flatten()
        .map(|((_, size), _)| *size)
        .collect();
    sizes.sort_unstable();
    sizes.dedup();
    print!("{:>9}", "bytes");
    for name in NAMES.into_iter().chain(UNDISTURBED) {
        print!("{name:>12}");
    }
    println!();
    for &size in &sizes {
        print!("{size:>9}");
        for name in NAMES.into_iter().chain(UNDISTURBED) {
            print!("{:>12.2}", of(name, size));
        }
        println!();
    }
    for (range, least) in BARS {
        for &size in sizes.iter().filter(|size| range.contains(size)) {
            for name in NAMES {
                let share = of(name, size);
                let verdict = if share >= least { "holds" } else { "MISSED" };
                let most = of(UNDISTURBED[usize::from(name != NAMES[0])], size);
                println!(
                    "{verdict}: {name}, {size} bytes: {share:.2} %, {least} % demanded, {most:.2} % of plain sockets"
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_column_is_found_by_its_name() {
        let said = "\
# Benchmarking Ibcast 
# #processes = 2 
#------------------------------------------------------------------------------------------
       #bytes #repetitions t_ovrl[usec] t_pure[usec]  t_CPU[usec]   overlap[%]
            0         1000         1.00         2.00         3.00         0.00
        65536          640       644.20       590.10       601.00        91.00
       131072          320      1244.20      1190.10      1201.00        95.50
yamabiko: rank 1: handed to the kernel: 12 collectives

# Benchmarking Ibcast_pure 
       #bytes #repetitions  t_min[usec]  t_max[usec]  t_avg[usec]
        65536          640         1.00         2.00         3.00

# Benchmarking Ialltoall 
       #bytes #repetitions t_ovrl[usec] t_pure[usec]  t_CPU[usec]   overlap[%]
        65536          640       644.20       590.10       601.00         0.00
";
        let expected = [
            (("Ialltoall", 65536), 0.0),
            (("Ibcast", 65536), 91.0),
            (("Ibcast", 131072), 95.5),
        ];
        assert_eq!(overlap(said), Overlap::from(expected));
    }

    #[test]
    fn each_figure_of_plain_sockets_has_its_name() {
        let expected = [(("one way", 65536), 97.5), (("both ways", 65536), 95.25)];
        assert_eq!(undisturbed("65536 97.50 95.25\n"), Overlap::from(expected));
    }
}
