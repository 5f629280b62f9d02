//! `cargo xtask icount`: how many instructions short MPI calls take, counted by callgrind on rank 0 of two: in both libraries over shared
//! memory, in one of them over TCP, and on demand in other implementations. And how many a start of a collective that the kernel runs
//! takes ([`issue`]).
//!
//! A call's figure is the difference between a run of `N` and one of `2 N` rounds, divided by the
//! calls in `N`, so that what happens once (binding of symbols, the first message of a pair) drops
//! out. The caller's share (its loop and arguments, and the jump through the PLT) is counted too,
//! as published figures of other libraries have it, and shown. In ours it is told what the others are for ([`rows`]).
//!
//! `tests/icount.toml` has the most that each call may take; the stage `icount` of the tests holds the figures to it.

mod callgrind;
mod issue;
mod peers;
mod rows;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use callgrind::Profile;
use peers::Subject;
use rows::{ROWS, Row};

use crate::spec::root;
use crate::{Result, build, process};

/// Arguments of `icount`.
#[derive(clap::Args)]
pub struct Args {
    /// The installation to count; `<target>/prefix` unless given
    #[arg(long)]
    prefix: Option<PathBuf>,
    /// Other implementations to count as well: mpich, openmpi, impi
    #[arg(long, value_delimiter = ',')]
    against: Vec<String>,
}

/// Rounds of the shorter run,
const ROUNDS: u32 = 8;
/// and of short sends'. Of the 17 messages of a round, with the one that says that it is over, each 34th looks for room, and each 128th look makes progress for
/// others: in so many rounds that happens once, whichever round a run begins with.
const SENDS_ROUNDS: u32 = 34 * 128 / (BATCH + 1);
/// Calls in a round: `BATCH` of `icount.c`.
const BATCH: u32 = 16;

/// How often a call is counted at most before it is said to take too much. Beside busy neighbours every third count of 128 sends has had to look for room, or
/// wake its peer, once more, which is an instruction for each of its calls; three in a row were, in one of ten runs.
const ATTEMPTS: u32 = 8;

/// What is counted.
struct Call {
    /// Its name for people,
    name: &'static str,
    /// the word of `icount.c` for it,
    word: &'static str,
    /// and the function that is counted.
    function: &'static str,
    /// Rounds of the shorter run.
    rounds: u32,
}

impl Call {
    const fn new(name: &'static str, word: &'static str, function: &'static str) -> Call {
        Call {
            name,
            word,
            function,
            rounds: ROUNDS,
        }
    }

    const fn for_rounds(self, rounds: u32) -> Call {
        Call { rounds, ..self }
    }
}

const CALLS: [Call; 10] = [
    Call::new("Isend", "isend", "counted_isend").for_rounds(SENDS_ROUNDS),
    Call::new("Irecv", "irecv", "counted_irecv"),
    Call::new("Irecv, unexpected", "irecv_unexpected", "counted_irecv"),
    Call::new("Wait, send completed", "wait_send", "counted_wait"),
    Call::new("Wait, receive completed", "wait_recv", "counted_wait"),
    Call::new("Send", "send", "counted_send").for_rounds(SENDS_ROUNDS),
    Call::new("Recv, message there", "recv", "counted_recv"),
    Call::new("Isend, 64 KiB", "isend_long", "counted_isend_long"),
    Call::new("Type, made to freed", "type", "counted_type"),
    Call::new("Send, derived type", "send_type", "counted_send_type"),
];

/// Instructions of one call.
#[derive(serde::Serialize)]
pub struct Figure {
    /// Which library, and over which fabric.
    pub library: String,
    /// Which call.
    pub call: &'static str,
    /// With the caller's share and the PLT.
    pub instructions: f64,
    /// The caller's share and the PLT.
    caller: f64,
    /// The others by what they are for, where that is known.
    rows: BTreeMap<Row, f64>,
}

/// What a call of one of our libraries may take.
#[derive(serde::Deserialize)]
struct Limit {
    library: String,
    call: String,
    most: f64,
}

#[derive(serde::Deserialize)]
struct Limits {
    limit: Vec<Limit>,
    issue: issue::Limit,
}

impl Limits {
    fn read() -> Result<Limits> {
        let path = root().join("tests/icount.toml");
        let text = std::fs::read_to_string(&path);
        let text = text.map_err(|e| format!("{}: {e}", path.display()))?;
        toml::from_str(&text).map_err(|e| format!("{}: {e}", path.display()))
    }
}

/// What was counted.
#[derive(serde::Serialize)]
struct Figures {
    calls: Vec<Figure>,
    issues: Vec<issue::Figure>,
}

/// Runs the subcommand.
pub fn run(args: &Args) -> Result {
    let prefix = args.prefix.clone().unwrap_or_else(|| build::prefix(false));
    let mut subjects = peers::ours(&prefix);
    for name in &args.against {
        subjects.push(peers::other(name)?);
    }
    let mut figures = Vec::new();
    print_head();
    for subject in &subjects {
        count_all(subject, |figure| {
            print_figure(&figure);
            figures.push(figure);
        })?;
    }
    println!(
        "\nThe paper's rows are: created 367, then 20; hashed 428, then 0; type 195 and 148, then 67 and 143; transport 422, 87 and\n\
         302, then 433, 223 and 141; found 47, then 0; released 358, then 128 (Isend, Irecv, Wait; YAMPI2, then YAMPI3). It prints\n\
         1542, 1124 and 750, then 568, 408 and 352 as their sums; those of Irecv, first, and of Wait, then, are 1150 and 351."
    );
    let issues = issue::show(&prefix, &Limits::read()?.issue)?;
    let path = build::target().join("icount.json");
    let all = Figures {
        calls: figures,
        issues,
    };
    let text = serde_json::to_string_pretty(&all).map_err(|e| e.to_string())?;
    std::fs::write(&path, text + "\n").map_err(|e| format!("{}: {e}", path.display()))?;
    println!("\n{}", path.display());
    Ok(())
}

fn print_head() {
    println!(
        "MPI_CHAR, MPI_COMM_WORLD, 4 bytes unless said; instructions per call, with caller and PLT\n"
    );
    print!("{:<14}{:<26}{:>9}{:>9}", "library", "call", "all", "caller");
    for (_, name) in ROWS {
        print!("{name:>10}");
    }
    println!();
}

fn print_figure(figure: &Figure) {
    let (library, call) = (&figure.library, figure.call);
    let (all, caller) = (figure.instructions, figure.caller);
    print!("{library:<14}{call:<26}{all:>9.1}{caller:>9.1}");
    for (row, _) in ROWS {
        match figure.rows.get(&row) {
            Some(count) => print!("{count:>10.1}"),
            None if figure.rows.is_empty() => print!("{:>10}", "-"),
            None => print!("{:>10}", 0),
        }
    }
    println!();
}

/// Counts all calls in a library.
fn count_all(subject: &Subject, mut take: impl FnMut(Figure)) -> Result {
    let (program, work) = compile(subject)?;
    for call in CALLS {
        take(count(subject, &program, &work, &call)?);
    }
    Ok(())
}

/// Compiles the program for a library: it, and the folder to work in.
fn compile(subject: &Subject) -> Result<(PathBuf, PathBuf)> {
    let work = build::target().join("icount");
    std::fs::create_dir_all(&work).map_err(|e| format!("{}: {e}", work.display()))?;
    let program = work.join(format!("icount-{}", subject.name.replace(' ', "-")));
    let mut compiler = subject.compiler();
    compiler.args(["-O2", "-o"]).arg(&program);
    compiler.arg(root().join("crates/bench/kernels/icount.c"));
    process::run(&mut compiler)?;
    Ok((program, work))
}

fn count(subject: &Subject, program: &Path, work: &Path, call: &Call) -> Result<Figure> {
    let file = work.join("callgrind.out");
    let before = callgrind::options(&file, call.function);
    let run = |rounds: u32| {
        let mut job = subject.job(&before, program, [call.word, &rounds.to_string()]);
        callgrind::count(&mut job, &file, call.function)
    };
    let (once, twice) = (run(call.rounds)?, run(2 * call.rounds)?);
    let each = |once, twice| each(call.rounds, once, twice);
    let rows = match subject.ours {
        true => by_row(&once, &twice, subject.library, each)?,
        false => BTreeMap::new(),
    };
    Ok(Figure {
        library: subject.name.clone(),
        call: call.name,
        instructions: each(once.total, twice.total),
        caller: each(once.caller, twice.caller),
        rows,
    })
}

fn by_row(
    once: &Profile,
    twice: &Profile,
    library: &str,
    each: impl Fn(u64, u64) -> f64,
) -> Result<BTreeMap<Row, f64>> {
    let (once, mut twice) = (rows::count(once, library)?, rows::count(twice, library)?);
    for row in once.keys() {
        twice.entry(*row).or_default();
    }
    let one = |(row, count): (Row, u64)| (row, each(once.get(&row).copied().unwrap_or(0), count));
    Ok(twice.into_iter().map(one).collect())
}

/// Instructions of one call, from runs of `rounds` and twice as many.
fn each(rounds: u32, once: u64, twice: u64) -> f64 {
    (twice as f64 - once as f64) / f64::from(rounds * BATCH)
}

/// Counts all calls in our libraries, and hands on the name of each and whether it takes more than it may.
///
/// What is above its limit is counted again: now and then the other process's timing adds something, which is not there every time.
pub fn check(mut take: impl FnMut(&str, Result)) -> Result {
    let limits = Limits::read()?;
    for subject in peers::ours(&build::prefix(false)) {
        let (program, work) = compile(&subject)?;
        for call in CALLS {
            let attempt = || judge(&count(&subject, &program, &work, &call)?, &limits.limit);
            let result = (1..ATTEMPTS).fold(attempt(), |end, _| end.or_else(|_| attempt()));
            take(&format!("{} {}", subject.name, call.name), result);
        }
    }
    let programs = issue::Programs::new(&build::prefix(false))?;
    for ranks in issue::RANKS {
        let attempt = || programs.count(ranks)?.judge(&limits.issue);
        let result = (1..ATTEMPTS).fold(attempt(), |end, _| end.or_else(|_| attempt()));
        take(&format!("ring Start, Allreduce of {ranks}"), result);
    }
    Ok(())
}

fn judge(figure: &Figure, limits: &[Limit]) -> Result {
    let is_its = |l: &&Limit| l.library == figure.library && l.call == figure.call;
    let limit = limits.iter().find(is_its);
    let most = limit.ok_or("tests/icount.toml has no limit for it")?.most;
    let taken = figure.instructions;
    match taken <= most {
        true => Ok(()),
        false => Err(format!(
            "{taken:.1} instructions; tests/icount.toml allows {most}. `cargo xtask icount` shows what they are for"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_happens_once_drops_out() {
        assert!((each(8, 1000 + 128 * 58, 1000 + 256 * 58) - 58.0).abs() < 1e-9);
    }

    #[test]
    fn figures_are_held_to_their_own_limit() {
        let limit = |library: &str, most| Limit {
            library: library.into(),
            call: "Isend".into(),
            most,
        };
        let figure = |library: &str, instructions| Figure {
            library: library.into(),
            call: "Isend",
            instructions,
            caller: 0.0,
            rows: BTreeMap::new(),
        };
        let limits = [limit("a", 70.0), limit("b", 90.0)];
        assert!(judge(&figure("a", 70.0), &limits).is_ok());
        assert!(judge(&figure("a", 70.1), &limits).is_err());
        assert!(judge(&figure("b", 70.1), &limits).is_ok());
        assert!(judge(&figure("c", 1.0), &limits).is_err());
    }
}
