//! Steering between hosts: what `yamabiko kaccd --steer` makes of an imbalance, by the experiment that measures it, and that nothing of it is left.

use super::Ground;
use crate::netlab::steering::{Steering, first_processor};
use crate::{Result, build, process};
use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// The machine's table of flows, where this process can see it.
const TABLE: &str = "/proc/sys/net/core/rps_sock_flow_entries";

/// How long what was told to end may take: a shell among them sleeps a second.
const ENDING: Duration = Duration::from_secs(20);

/// Of a broadcast between two computing ranks the first processor receives all packets, and steered only those for the rank there.
pub fn steering(ground: &Ground, _: bool) -> Result {
    let lab = &ground.lab;
    let before = fs::read_to_string(TABLE).ok();
    if before.is_none() {
        println!("      skipped: the machine's table of flows can't be reached from here");
        return Ok(());
    }
    let json = lab.folder().join("report.json");
    let steering = Steering::new(lab, first_processor())?;
    let mut bench = lab.command(1, build::prefix(false).join("bin/yamabiko"));
    bench.args([
        "bench",
        "kacc-steer",
        "--only",
        "packets",
        "--quick",
        "--rounds",
        "1",
    ]);
    bench.args(["--ways", "ring,thread", "--sizes", "256k", "--ranks", "2"]);
    bench.args(["--hosts", "h1,h2", "--shell"]).arg(lab.shell());
    bench.arg("--steering").arg(steering.switch());
    bench.arg("--json").arg(&json).stdin(Stdio::null());
    process::output(&mut bench)?;
    drop(steering);
    if fs::read_to_string(TABLE).ok() != before {
        return Err("the machine's table of flows is not what it was".to_owned());
    }
    let until = Instant::now() + ENDING;
    while !left(lab.folder())?.is_empty() {
        if Instant::now() > until {
            return Err("there are kaccds left".to_owned());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let text = fs::read_to_string(&json).map_err(|e| format!("{}: {e}", json.display()))?;
    judge(&serde_json::from_str(&text).map_err(|e| e.to_string())?)
}

/// Processes whose output goes to the log in the lab's folder.
fn left(folder: &Path) -> Result<Vec<String>> {
    let entries = fs::read_dir("/proc").map_err(|e| e.to_string())?.flatten();
    let log = folder.join("log");
    let here = |pid: &String| fs::read_link(format!("/proc/{pid}/fd/2")).is_ok_and(|to| to == log);
    let pids = entries.filter_map(|entry| entry.file_name().into_string().ok());
    Ok(pids.filter(here).collect())
}

/// The most that a processor of two has of the packets where they are steered to their readers, percent: half, and the shell's, the
/// calibration's, and those of a rank that moves. A series that isn't steered has nearly all on one, or, if its readers happen to lie well,
/// as few as a steered one.
const STEERED: f64 = 75.0;

/// That each steered series has no more than that on either processor, and some series had on the first when it was not steered.
fn judge(report: &serde_json::Value) -> Result {
    let panel = &report["panels"][0];
    let series = panel["series"].as_array().map_or(&[][..], Vec::as_slice);
    let share = |who: usize| panel["rounds"][0]["figures"][who][0].as_f64();
    let mut compared = 0;
    let mut crowded = false;
    for (who, one) in series.iter().enumerate() {
        let name = one["implementation"].as_str().unwrap_or_default();
        let base = one["base"].as_u64().filter(|_| name.ends_with("-steered"));
        // None has a figure where the machine changed meanwhile.
        let Some((on, off)) = base.and_then(|base| share(who).zip(share(base as usize))) else {
            continue;
        };
        println!(
            "      {name}: {on:.0} % of the packets on the first processor, {off:.0} % before"
        );
        compared += 1;
        crowded |= off > STEERED;
        if !(100.0 - STEERED..=STEERED).contains(&on) {
            return Err(format!(
                "{name} has {on:.0} % of the packets on the first processor, as if it were not steered"
            ));
        }
    }
    let asked = |one: &serde_json::Value| one["implementation"] == "yamabiko-thread-steered";
    match series.iter().any(asked) {
        true if crowded => Ok(()),
        true if compared > 0 => Err(format!("nothing was crowded before: {panel}")),
        _ => Err(format!("nothing is compared: {panel}")),
    }
}
