//! `net-bench --imb`: how much of non-blocking collectives goes on while two hosts compute, as Intel's own IMB-NBC finds it.
//!
//! An executor that ran nothing at a rank makes it fail. What is demanded of the overlap ([`BARS`]) is printed beside it and decides nothing;
//! and what plain sockets find, whose buffers hold whole messages, so that only the kernel's receive path and what stands for the link
//! run while the hosts compute (`tests/net/undisturbed.c`): what this machine leaves to any library.
//!
//! IMB divides by the longer of the operation alone and the computing, and measures the computing while the operation goes on. So
//! its figure is never above the shorter by the longer, which falls where the processor's speed has changed since IMB took it, and by
//! whatever time of the processor the network takes. That limit is shown, and [`Share::hidden`], which divides by the shorter: whether
//! one of them waited for the other.

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
/// What the columns are called: both together, the operation alone, the computing meanwhile, and the overlap.
const COLUMNS: [&str; 4] = ["t_ovrl[usec]", "t_pure[usec]", "t_CPU[usec]", "overlap[%]"];
/// What is demanded: these sizes in bytes, and how many per cent of overlap at least.
const BARS: [(std::ops::RangeInclusive<u32>, f64); 2] =
    [(64 << 10..=64 << 10, 90.0), (256 << 10..=4 << 20, 95.0)];

/// What was found of one benchmark and size, in per cent.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Share {
    /// What IMB calls overlap.
    overlap: f64,
    /// The most it can be with these times.
    most: f64,
    /// How much of the shorter of both went on behind the other.
    hidden: f64,
}

/// By benchmark and size.
type Overlap = BTreeMap<(&'static str, u32), Share>;

impl Share {
    /// From times in microseconds: both together, the operation alone, the computing meanwhile.
    fn new(both: f64, alone: f64, computing: f64, overlap: f64) -> Share {
        let (shorter, longer) = (alone.min(computing), alone.max(computing));
        Share {
            overlap,
            most: 100.0 * shorter / longer,
            hidden: 100.0 * (alone + computing - both) / shorter,
        }
    }

    /// Where no more than one figure is known.
    fn only(overlap: f64) -> Share {
        Share {
            overlap,
            most: 100.0,
            hidden: overlap,
        }
    }
}

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
            let [.., column] = COLUMNS;
            return Err(format!("no {column} of each benchmark and size in\n{said}"));
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

/// What the benchmarks say in those columns of their tables.
fn overlap(said: &str) -> Overlap {
    let mut all = Overlap::new();
    let (mut name, mut columns) = (None, None);
    for line in said.lines() {
        let words: Vec<_> = line.split_whitespace().collect();
        if let ["#", "Benchmarking", benchmark, ..] = words[..] {
            name = NAMES.into_iter().find(|name| *name == benchmark);
            columns = None;
        } else if let Some(at) = places(&words) {
            columns = Some(at);
        } else if let (Some(name), Some(at)) = (name, columns)
            && let Some(size) = words.first().and_then(|word| word.parse().ok())
            && size > 0
            && let Some(share) = share(&words, at)
        {
            all.insert((name, size), share);
        }
    }
    all
}

/// Where a head has the columns.
fn places(head: &[&str]) -> Option<[usize; 4]> {
    let place = |column: &str| head.iter().position(|word| *word == column);
    let [both, alone, computing, overlap] = COLUMNS.map(place);
    Some([both?, alone?, computing?, overlap?])
}

/// What a line has there.
fn share(line: &[&str], at: [usize; 4]) -> Option<Share> {
    let number = |at: usize| line.get(at).and_then(|word| word.parse().ok());
    let [both, alone, computing, overlap] = at.map(number);
    Some(Share::new(both?, alone?, computing?, overlap?))
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
        Some(named.map(move |(name, figure)| ((name, size), Share::only(figure))))
    };
    said.lines().filter_map(line).flatten().collect()
}

/// Prints the tables of one kind of link, and how they stand beside what is demanded.
fn show(executor: Executor, mbit: u32, rounds: &[Overlap]) {
    let of = |name, size, figure: fn(&Share) -> f64| {
        let shares = rounds.iter().filter_map(|all| all.get(&(name, size)));
        median(shares.map(figure))
    };
    let sizes: BTreeSet<u32> = rounds
        .iter()
        .flatten()
        .map(|((_, size), _)| *size)
        .collect();
    let table = |names: &[&'static str], figure: fn(&Share) -> f64| {
        print!("{:>9}", "bytes");
        for name in names {
            print!("{name:>12}");
        }
        println!();
        for &size in &sizes {
            print!("{size:>9}");
            for name in names {
                print!("{:>12.2}", of(name, size, figure));
            }
            println!();
        }
    };
    println!(
        "{}, {}: per cent of overlap that IMB-NBC finds, medians of {} rounds; and that of plain sockets with room for all",
        limits(mbit),
        executor.name(),
        rounds.len()
    );
    table(&[&NAMES[..], &UNDISTURBED].concat(), |share| share.overlap);
    println!("The most it could find with its own times of computing and of the operation alone");
    table(&NAMES, |share| share.most);
    println!("How much of the shorter of both was hidden behind the other");
    table(&NAMES, |share| share.hidden);
    for (range, least) in BARS {
        for &size in sizes.iter().filter(|size| range.contains(size)) {
            for name in NAMES {
                let found = of(name, size, |share| share.overlap);
                let verdict = if found >= least { "holds" } else { "MISSED" };
                let hidden = of(name, size, |share| share.hidden);
                let sockets = UNDISTURBED[usize::from(name != NAMES[0])];
                let sockets = of(sockets, size, |share| share.overlap);
                println!(
                    "{verdict}: {name}, {size} bytes: {found:.2} %, {least} % demanded; {hidden:.2} % hidden, plain sockets {sockets:.2} %"
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_columns_are_found_by_their_names() {
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
            (("Ialltoall", 65536), Share::new(644.2, 590.1, 601.0, 0.0)),
            (("Ibcast", 65536), Share::new(644.2, 590.1, 601.0, 91.0)),
            (("Ibcast", 131072), Share::new(1244.2, 1190.1, 1201.0, 95.5)),
        ];
        assert_eq!(overlap(said), Overlap::from(expected));
    }

    #[test]
    fn computing_that_takes_longer_than_the_operation_limits_the_figure() {
        let share = Share::new(110.0, 80.0, 100.0, 70.0);
        let expected = Share {
            overlap: 70.0,
            most: 80.0,
            hidden: 87.5,
        };
        assert_eq!(share, expected);
        // And the other way round.
        assert_eq!(Share::new(110.0, 100.0, 80.0, 70.0), expected);
    }

    #[test]
    fn each_figure_of_plain_sockets_has_its_name() {
        let expected = [
            (("one way", 65536), Share::only(97.5)),
            (("both ways", 65536), Share::only(95.25)),
        ];
        assert_eq!(undisturbed("65536 97.50 95.25\n"), Overlap::from(expected));
    }
}
