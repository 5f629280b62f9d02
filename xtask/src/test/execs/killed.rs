//! kaccd is killed, while jobs use it and while it makes what it needs: jobs go on, and nothing is left. (On hosts of a site: `hosts`.)

use super::kaccd::{self, Kaccd};
use super::{Executor, Stage, left, ran, variables};
use crate::test::{Tally, job};
use crate::{Result, build};
use std::time::{Duration, Instant};

/// Collectives of a job in whose middle it is killed: a second or some of them.
const COLLECTIVES: &str = "40000";
/// How long after the ranks' start that is.
const MIDDLE: Duration = Duration::from_millis(200);
/// How many are started until one is killed in its control group. It is there for some milliseconds, so the first is, mostly.
const TRIES: u32 = 20;
/// How long it may take until a job runs, or a group is made.
const LIMIT: Duration = Duration::from_secs(10);

/// Runs them, beside the stage's own kaccd.
pub fn run(stage: &Stage<'_>, tally: &mut Tally, own: &Kaccd) {
    let name = "execs/softirq/kaccd is killed in the middle";
    if stage.options.wants(name) {
        tally.test(name, || in_the_middle(stage));
    }
    let name = "execs/softirq/kaccd is killed in its control group";
    if stage.options.wants(name) {
        tally.test(name, || match calculates(own)? {
            true => in_its_group(),
            false => {
                println!("      skipped: kaccd calculates nothing here, and makes no group");
                Ok(())
            }
        });
    }
}

/// A job uses it: that goes on.
fn in_the_middle(stage: &Stage<'_>) -> Result {
    let before = left::all();
    let Some(mut kaccd) = Kaccd::start("killed")? else {
        return Ok(());
    };
    kaccd.holds_its_port()?;
    let variables = variables(Executor::Softirq, Some(&kaccd));
    let job = stage.job(4, &[], &variables, "coll_stress");
    let job = job.args([COLLECTIVES]);
    let port = kaccd.port();
    let killer = std::thread::spawn(move || {
        let (begin, runs) = (Instant::now(), || {
            left::all().iter().any(|what| what.ends_with("coll_stress"))
        });
        while !runs() && begin.elapsed() < LIMIT {
            std::thread::sleep(Duration::from_millis(10));
        }
        std::thread::sleep(MIDDLE);
        let middle = runs();
        kaccd.kill();
        middle
    });
    let done = job.passes(&["ok coll_stress".to_owned()]);
    let middle = killer.join().unwrap_or(false);
    ran(Executor::Softirq, 4, &done?.output)?;
    if !middle {
        return Err("the job was over before kaccd was killed".to_owned());
    }
    kaccd::is_free(port)?;
    left::nothing_since(&before)
}

/// It has the control group that it makes sockets in: the folder stays then, and the next one takes it away.
fn in_its_group() -> Result {
    let before = left::all();
    let mut caught = None;
    for _ in 0..TRIES {
        let mut kaccd = Kaccd::begin("group")?;
        let begin = Instant::now();
        while !left::has_group(kaccd.id()) && begin.elapsed() < LIMIT && !kaccd.has_ended() {
            std::hint::spin_loop();
        }
        kaccd.kill();
        if left::has_group(kaccd.id()) {
            caught = Some(kaccd.id());
            break;
        }
    }
    let gone = caught.ok_or_else(|| format!("of {TRIES} none was killed in its group"))?;
    let Some(mut next) = Kaccd::start("group")? else {
        return Err("kaccd could be started before".to_owned());
    };
    // It answers when it has made what it needs.
    if !calculates(&next)? || left::has_group(gone) {
        return Err("the next one did not take the group away".to_owned());
    }
    next.kill();
    left::nothing_since(&before)
}

/// Whether a kaccd calculates for the ring, by what `yamabiko info` says.
fn calculates(kaccd: &Kaccd) -> Result<bool> {
    let program = build::prefix(false).join("bin/yamabiko");
    let job = job::Job::new(program).args(["info"]);
    let done = job.env("YAMABIKO_KACCD", kaccd.name()).passes(&[])?;
    let mut lines = done.output.lines();
    Ok(lines.any(|line| line.trim_start().starts_with("program ") && line.ends_with(": usable")))
}
