//! Stage `bench`: every experiment of `yamabiko bench` runs to its end on our own library, hastily, and says so in
//! all its forms, also when it is ended before. The applications among them check their solutions, with each executor: `softirq` has a kaccd of this stage's, where
//! the kernel lets it. How fast anything is, is not asked.

use super::execs::kaccd::Kaccd;
use super::job::Job;
use super::{Options, Tally};
use crate::{Result, build, process, spec};
use std::path::Path;
use std::process::Command;

/// What finds and checks a solution. Each has every executor at every number of ranks, or the test fails.
const APPLICATIONS: [&str; 2] = ["kacc-cg", "kacc-hpl"];
/// Numbers of ranks for them.
const RANKS: [u32; 5] = [1, 2, 3, 4, 5];

/// Runs the stage.
pub fn run(options: &Options, tally: &mut Tally) -> Result {
    let name = "bench/all, quick";
    if options.wants(name) {
        tally.test(name, || {
            measure(
                "all",
                &["all", "--limit", "60"],
                &["latency: one way"],
                None,
            )
        });
    }
    // `all` has as many ranks as there are processors.
    for ranks in ["2", "3", "4"] {
        let name = format!("bench/kacc, quick, -n {ranks}");
        if options.wants(&name) {
            tally.test(&name, || {
                let words = [
                    "kacc-lost",
                    "kacc-time",
                    "kacc-test",
                    "--limit",
                    "60",
                    "--ranks",
                ];
                measure(
                    &format!("kacc-{ranks}"),
                    &[&words[..], &[ranks]].concat(),
                    &["cad-inline tree"],
                    None,
                )
            });
        }
    }
    for (signal, number) in [("INT", 2), ("TERM", 15), ("HUP", 1)] {
        let name = format!("bench/ended by SIG{signal}");
        if options.wants(&name) {
            tally.test(&name, || ended(signal, Some(128 + number)));
        }
    }
    let name = "bench/without its terminal, under nohup";
    if options.wants(name) {
        tally.test(name, || ended("HUP", None));
    }
    applications(options, tally)
}

/// It is sent this signal after some seconds, when it has surely begun to measure: it says what it has measured by then and exits with
/// this code, or, without one, ignores the signal and says all; and leaves nothing behind.
fn ended(signal: &str, code: Option<i32>) -> Result {
    let ignores = code.is_none();
    let folder = build::target()
        .join("test/bench")
        .join(format!("ended-by-{signal}-{ignores}"));
    let _ = std::fs::remove_dir_all(&folder);
    let own = folder.join("tmp");
    build::make_folder(&own)?;
    let json = folder.join("report.json");
    // Whatever this process was made to ignore.
    let default = format!("--default-signal={signal}");
    let mut words = vec!["--signal", signal, "4", "env", &default];
    match code {
        Some(_) => words.insert(0, "--preserve-status"),
        None => words.push("nohup"),
    }
    let rounds = if ignores { "300" } else { "1000" };
    let job = Job::new("timeout")
        .args(words)
        .args([build::prefix(false).join("bin/yamabiko")])
        .args(["bench", "latency", "--quick", "--rounds", rounds])
        .args(["--json".into(), json.clone().into_os_string()])
        .env("TMPDIR", own.clone())
        .limit_s(120);
    // 124, of `timeout`: it was still there when the signal was sent.
    job.ends_with(code.unwrap_or(124), &["Medians of the rounds".to_owned()])?;
    let report: serde_json::Value =
        serde_json::from_str(&read(&json)?).map_err(|e| e.to_string())?;
    if report["interrupted"] != !ignores {
        return Err(format!(
            "the report says interrupted: {}",
            report["interrupted"]
        ));
    }
    let left = std::fs::read_dir(&own).map_err(|e| e.to_string())?.count();
    match left {
        0 => Ok(()),
        _ => Err(format!("left behind in {}: {left}", own.display())),
    }
}

/// The applications, and that they know when they have no solution.
fn applications(options: &Options, tally: &mut Tally) -> Result {
    let name = |ranks: u32| format!("bench/applications of kacc, quick, -n {ranks}");
    if RANKS.iter().any(|&ranks| options.wants(&name(ranks))) {
        let kaccd = Kaccd::start("bench")?;
        for ranks in RANKS
            .into_iter()
            .filter(|&ranks| options.wants(&name(ranks)))
        {
            tally.test(&name(ranks), || with_each_executor(ranks, kaccd.as_ref()));
        }
    }
    let name = "bench/kacc-cg without a solution";
    if options.wants(name) {
        tally.test(name, without_solution);
    }
    Ok(())
}

/// The applications with each executor that an installation can have here.
fn with_each_executor(ranks: u32, kaccd: Option<&Kaccd>) -> Result {
    let executors = usable(kaccd)?;
    let said = executors.iter().map(|name| format!("yamabiko-{name}"));
    let said: Vec<_> = said.collect();
    let said: Vec<_> = said.iter().map(String::as_str).collect();
    let ranks = ranks.to_string();
    let words = [
        &APPLICATIONS[..],
        &["--only", "time", "--limit", "60", "--ranks", &ranks],
    ]
    .concat();
    measure(&format!("applications-{ranks}"), &words, &said, kaccd)
}

/// The executors that our installation calls usable here. Two always are, and one where there is a kaccd.
fn usable(kaccd: Option<&Kaccd>) -> Result<Vec<String>> {
    let info = with_kaccd(Job::new(build::prefix(false).join("bin/yamabiko")), kaccd);
    let said = info
        .args(["info"])
        .passes(&["executors of libcad:".to_owned()])?
        .output;
    let section = said
        .lines()
        .skip_while(|line| *line != "executors of libcad:");
    let lines = section.skip(1).take_while(|line| line.starts_with("  "));
    // With words on where, or without.
    let names = lines.filter(|line| line.ends_with(": usable") || line.contains(": usable, "));
    let names = names.filter_map(|line| line.split_whitespace().next());
    let names: Vec<_> = names.map(str::to_owned).collect();
    let mut wanted = vec!["inline", "thread"];
    wanted.extend(kaccd.map(|_| "softirq"));
    match wanted
        .iter()
        .find(|one| !names.iter().any(|name| name == *one))
    {
        None => Ok(names),
        Some(one) => Err(format!("{one} is not usable here: {said}")),
    }
}

fn with_kaccd(job: Job, kaccd: Option<&Kaccd>) -> Job {
    match kaccd {
        None => job,
        Some(kaccd) => job.env("YAMABIKO_KACCD", kaccd.name()),
    }
}

/// Iterations that are cut off are no solution, and are not taken for one.
fn without_solution() -> Result {
    let folder = build::target().join("test/bench");
    build::make_folder(&folder)?;
    let (bin, program) = (
        build::prefix(false).join("bin"),
        folder.join("kacc_cg-cut-off"),
    );
    let mut compile = Command::new(bin.join("mpicc"));
    compile.args(["-O2", "-DITERATIONS_FOR_EACH=0"]);
    compile.arg(spec::root().join("crates/bench/kernels/kacc_cg.c"));
    process::run(compile.arg("-o").arg(&program))?;
    let job = Job::new(bin.join("mpiexec")).args(["-n", "2"]);
    let job = job.args([program]).args(["1", "time", "pipelined", "40"]);
    job.fails(&["the iterations do not converge".to_owned()])
        .map(drop)
}

/// Measures hastily; `said` is in what it says. The files have this name.
fn measure(name: &str, words: &[&str], said: &[&str], kaccd: Option<&Kaccd>) -> Result {
    let folder = build::target().join("test/bench").join(name);
    // What an earlier run has left must not pass for what this one writes.
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let json = folder.join("report.json");
    let prefix = build::prefix(false);
    // It takes nothing of ours from around it for its runs.
    let kaccds = kaccd.map(|kaccd| {
        [
            "--env".to_owned(),
            format!("YAMABIKO_KACCD={}", kaccd.name()),
        ]
    });
    let job = with_kaccd(Job::new(prefix.join("bin/yamabiko")), kaccd)
        .args(["bench", "--quick", "--rounds", "1"])
        .args(kaccds.into_iter().flatten())
        .args(words)
        .args(["--json".into(), json.clone().into_os_string()])
        .args(["--svg".into(), folder.join("drawn.svg").into_os_string()])
        .limit_s(600)
        .watches(&prefix.join("lib"));
    let said = said.iter().chain(&["Medians of the rounds"]);
    job.passes(&said.map(|word| (*word).to_owned()).collect::<Vec<_>>())?;
    let text = read(&json)?;
    let report: serde_json::Value = serde_json::from_str(&text).map_err(|e| e.to_string())?;
    let panels = report["panels"].as_array().map_or(&[][..], Vec::as_slice);
    if panels.is_empty() {
        return Err("the report has no panels".into());
    }
    for panel in panels {
        complete(panel)
            .map_err(|why| format!("{} {}: {why}", panel["experiment"], panel["panel"]))?;
        let experiment = panel["experiment"].as_str().unwrap_or_default();
        let drawing = read(&folder.join(format!("drawn-{experiment}.svg")))?;
        if !drawing.starts_with("<svg") {
            return Err(format!("the drawing of {experiment} is none"));
        }
    }
    Ok(())
}

/// A panel has a figure for every series at every value. Among KACC's one may be null, except the applications': they give none
/// where a product's time changed meanwhile, and a machine that tests has other things to do.
fn complete(panel: &serde_json::Value) -> Result {
    let length = |value: &serde_json::Value| value.as_array().map_or(0, Vec::len);
    let (series, values) = (length(&panel["series"]), length(&panel["values"]));
    if series == 0 || values == 0 {
        return Err("nobody takes part".into());
    }
    let may_be_null = panel["experiment"]
        .as_str()
        .is_some_and(|name| name.starts_with("kacc-") && !APPLICATIONS.contains(&name));
    let figures = &panel["rounds"][0]["figures"];
    for who in 0..series {
        let numbers = figures[who].as_array().into_iter().flatten();
        let told = numbers.filter(|figure| figure.is_number() || may_be_null && figure.is_null());
        if told.count() != values {
            return Err(format!(
                "{} lacks figures",
                panel["series"][who]["implementation"]
            ));
        }
    }
    match length(&panel["rows"]) == values {
        true => Ok(()),
        false => Err("the table is not complete".into()),
    }
}

fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))
}
