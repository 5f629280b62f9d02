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
        tally.test(name, all);
    }
    Ok(())
}

fn all() -> Result {
    let folder = build::target().join("test/bench");
    // What an earlier run has left must not pass for what this one writes.
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let json = folder.join("all.json");
    let prefix = build::prefix(false);
    let job = Job::new(prefix.join("bin/yamabiko"))
        .args(["bench", "all", "--quick", "--rounds", "1", "--limit", "60"])
        .args(["--json".into(), json.clone().into_os_string()])
        .args(["--svg".into(), folder.join("all.svg").into_os_string()])
        .limit_s(180)
        .watches(&prefix.join("lib"));
    job.passes(&[
        "latency: one way".to_owned(),
        "Medians of the rounds".to_owned(),
    ])?;
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
        let drawing = read(&folder.join(format!("all-{experiment}.svg")))?;
        if !drawing.starts_with("<svg") {
            return Err(format!("the drawing of {experiment} is none"));
        }
    }
    Ok(())
}

/// A panel has a figure for every series at every value.
fn complete(panel: &serde_json::Value) -> Result {
    let length = |value: &serde_json::Value| value.as_array().map_or(0, Vec::len);
    let (series, values) = (length(&panel["series"]), length(&panel["values"]));
    if series == 0 || values == 0 {
        return Err("nobody takes part".into());
    }
    let figures = &panel["rounds"][0]["figures"];
    for who in 0..series {
        let numbers = figures[who].as_array().into_iter().flatten();
        if numbers.filter(|figure| figure.is_number()).count() != values {
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
