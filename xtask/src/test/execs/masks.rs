//! io_uring without single opcodes, or without something else that a ring takes, as an older kernel's is (`tests/cad/mask.c`): what lacks is named, by a rank and
//! by `yamabiko info`, and everything works all the same.

use super::{Executor, Kaccd, Stage, ran, variables};
use crate::Result;
use crate::test::Tally;
use crate::test::job::Job;

struct Mask {
    /// As `mask` has it.
    what: &'static str,
    /// Which executor is insisted on.
    executor: Executor,
    /// Why it has no effect, if so.
    lost: Option<&'static str>,
    /// What `yamabiko info` says.
    info: &'static str,
}

const fn of_ring(what: &'static str, lost: &'static str) -> Mask {
    Mask {
        what,
        executor: Executor::Ring,
        lost: Some(lost),
        info: lost,
    }
}

/// What the ring takes, and what else is lost with what it doesn't.
const MASKS: [Mask; 11] = [
    of_ring("NOP", "this kernel's io_uring lacks NOP"),
    of_ring("READ", "this kernel's io_uring lacks READ"),
    of_ring("WRITE", "this kernel's io_uring lacks WRITE"),
    of_ring("SEND", "this kernel's io_uring lacks SEND"),
    of_ring("RECV", "this kernel's io_uring lacks RECV"),
    of_ring("POLL_ADD", "this kernel's io_uring lacks POLL_ADD"),
    of_ring("probe", "io_uring does not tell what it can do: "),
    of_ring("cancel", "this kernel's io_uring can't cancel at once: "),
    // Reductions are done in the signal's handler.
    Mask {
        what: "URING_CMD",
        executor: Executor::Ring,
        lost: None,
        info: "trying a calculation in a chain out failed: io_uring's commands to sockets: ",
    },
    // The ring waits for no time.
    Mask {
        what: "TIMEOUT",
        executor: Executor::Ring,
        lost: None,
        info: "in the kernel: usable",
    },
    Mask {
        what: "TIMEOUT",
        executor: Executor::Softirq,
        lost: None,
        info: "not while it computes: this kernel's io_uring lacks TIMEOUT",
    },
];

/// Runs all of them, those with a kaccd if there is one.
pub fn run(stage: &Stage<'_>, tally: &mut Tally, kaccd: Option<&Kaccd>) -> Result {
    if let Some(why) = impossible(stage)? {
        println!("skipped: io_uring without single opcodes: {why}");
        return Ok(());
    }
    for mask in &MASKS {
        let (what, executor) = (mask.what, mask.executor.name());
        let name = format!("execs/{executor}, io_uring without {what}");
        let takes_kaccd = mask.executor == Executor::Softirq || what == "URING_CMD";
        if stage.options.wants(&name) && (kaccd.is_some() || !takes_kaccd) {
            tally.test(&name, || masked(stage, mask, kaccd));
        }
    }
    let name = "execs/softirq, io_uring without TIMEOUT, packets are lost while ranks compute";
    if kaccd.is_some() && stage.options.soak && stage.options.wants(name) {
        tally.test(name, || stage.loses_packets(Some("TIMEOUT")).map(drop));
    }
    Ok(())
}

/// Why nothing can be masked here, if so.
fn impossible(stage: &Stage<'_>) -> Result<Option<String>> {
    let done = Job::new(stage.bin.join("mask"))
        .args(["NOP", "/bin/true"])
        .run()?;
    Ok((done.code != Some(0)).then_some(done.output))
}

fn masked(stage: &Stage<'_>, mask: &Mask, kaccd: Option<&Kaccd>) -> Result {
    let under = |program: &std::path::Path| {
        let job = Job::new(stage.bin.join("mask")).args([mask.what]);
        let job = job.args([program]).limit_s(120);
        let job = job.env("LD_LIBRARY_PATH", &stage.ground.library);
        match kaccd {
            Some(kaccd) => job.env("YAMABIKO_KACCD", kaccd.name()),
            None => job,
        }
    };
    let launcher = &stage.ground.launcher;
    let mut job = under(launcher).args(stage.ground.start(3));
    for (name, value) in variables(mask.executor, None) {
        job = job.args(["-genv", name]).args([value]);
    }
    let job = job.args([stage.bin.join("coll_stress")]).args(["80"]);
    let done = job.passes(&["ok coll_stress".to_owned()])?;
    match mask.lost {
        None => ran(mask.executor, 3, &done.output).map(drop)?,
        Some(why) if done.output.contains(&format!("has no effect: {why}")) => {}
        Some(why) => return Err(format!("no rank says `{why}`\n{}", done.output)),
    }
    let says = [mask.info.to_owned()];
    let program = launcher.with_file_name("yamabiko");
    under(&program).args(["info"]).passes(&says).map(drop)
}
