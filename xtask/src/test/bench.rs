//! Stage `bench`: every experiment of `yamabiko bench` runs to its end on our own library, hastily, and says so in
//! all its forms. How fast anything is, is not asked.

use super::job::Job;
use super::{Options, Tally};
use crate::{Result, build};
use std::path::Path;

/// Runs the stage.
pub fn run(options: &Options, tally: &mut Tally) -> Result {
    let name = "bench/all, quick";
    if options.wants(name) {
        tally.test(name, || {
            measure("all", &["all", "--limit", "60"], "latency: one way")
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
                    "cad-inline tree",
                )
            });
        }
    }
    Ok(())
}

/// Measures hastily; `said` is in what it says. The files have this name.
fn measure(name: &str, words: &[&str], said: &str) -> Result {
    let folder = build::target().join("test/bench").join(name);
    // What an earlier run has left must not pass for what this one writes.
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let json = folder.join("report.json");
    let prefix = build::prefix(false);
    let job = Job::new(prefix.join("bin/yamabiko"))
        .args(["bench", "--quick", "--rounds", "1"])
        .args(words)
        .args(["--json".into(), json.clone().into_os_string()])
        .args(["--svg".into(), folder.join("drawn.svg").into_os_string()])
        .limit_s(600)
        .watches(&prefix.join("lib"));
    job.passes(&[said.to_owned(), "Medians of the rounds".to_owned()])?;
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

/// A panel has a figure for every series at every value. Among KACC's one may be null: they give none where a product's time
/// changed meanwhile, and a machine that tests has other things to do.
fn complete(panel: &serde_json::Value) -> Result {
    let length = |value: &serde_json::Value| value.as_array().map_or(0, Vec::len);
    let (series, values) = (length(&panel["series"]), length(&panel["values"]));
    if series == 0 || values == 0 {
        return Err("nobody takes part".into());
    }
    let may_be_null = panel["experiment"]
        .as_str()
        .is_some_and(|name| name.starts_with("kacc-"));
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
