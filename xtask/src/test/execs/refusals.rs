//! What may be refused to a process, against what it insists on: everything works all the same, and `yamabiko info` says what is lost.

use super::{Executor, Kaccd, Stage, ran, variables};
use crate::Result;
use crate::test::Tally;
use crate::test::job::Job;

/// What an executor does where something is refused.
#[derive(Clone, Copy)]
enum Outcome {
    /// It runs collectives.
    Runs,
    /// Nobody uses it, and a rank says why.
    Lost(&'static str),
}
use Outcome::{Lost, Runs};

struct Refusal {
    /// As `forbid` has it.
    what: &'static str,
    /// Whether there is a kaccd, which was started before and is refused nothing.
    kaccd: bool,
    ring: Outcome,
    softirq: Outcome,
    thread: Outcome,
    /// What `yamabiko info` says.
    info: &'static [&'static str],
}

const NO_RING: Outcome = Lost("YAMABIKO_CAD=ring has no effect: io_uring is forbidden");
const NO_KACCD: Outcome = Lost("YAMABIKO_CAD=softirq has no effect: no kaccd can be reached here");
const NO_THREAD: Outcome = Lost("YAMABIKO_CAD=thread has no effect: the system gives no thread: ");
const INFO_RING: &str = "in the kernel: not usable here: io_uring is forbidden";
const INFO_NONE: &str = "and none can be started: the kernel refuses the description of types";
const INFO_THREAD: &str = "also persistent; not for libcad: not usable here: ";
const INFO_KACCD: &str = "not usable here: no kaccd can be reached here";

const REFUSALS: [Refusal; 7] = [
    Refusal {
        what: "io_uring",
        kaccd: true,
        ring: NO_RING,
        softirq: Runs,
        thread: Runs,
        info: &[INFO_RING, "others inline; not for libcad: usable"],
    },
    Refusal {
        what: "root",
        kaccd: true,
        ring: Runs,
        softirq: Runs,
        thread: Runs,
        info: &[
            "in the kernel: usable",
            "others inline; not for libcad: usable, on this machine only: kaccd has no key of a site",
        ],
    },
    Refusal {
        what: "bpf",
        kaccd: true,
        ring: Runs,
        softirq: Runs,
        thread: Runs,
        info: &["others inline; not for libcad: usable"],
    },
    Refusal {
        what: "bpf",
        kaccd: false,
        ring: Runs,
        softirq: NO_KACCD,
        thread: Runs,
        info: &[INFO_KACCD, INFO_NONE],
    },
    Refusal {
        what: "root",
        kaccd: false,
        ring: Runs,
        softirq: NO_KACCD,
        thread: Runs,
        info: &[INFO_KACCD, INFO_NONE],
    },
    Refusal {
        what: "root,io_uring,bpf",
        kaccd: false,
        ring: NO_RING,
        softirq: NO_KACCD,
        thread: Runs,
        info: &[INFO_RING, INFO_KACCD],
    },
    Refusal {
        what: "threads",
        kaccd: false,
        ring: Runs,
        softirq: NO_KACCD,
        thread: NO_THREAD,
        info: &[INFO_THREAD, INFO_KACCD],
    },
];

/// A name that no kaccd has.
const ABSENT: &str = "kaccd-that-is-not-there";

/// Runs all of them. Programs and library are where any user finds them.
pub fn run(stage: &Stage<'_>, tally: &mut Tally, kaccd: Option<&Kaccd>) {
    for refusal in &REFUSALS {
        let there = match (refusal.kaccd, kaccd) {
            (false, _) => None,
            (true, None) => continue,
            (true, some) => some,
        };
        let with = if refusal.kaccd { ", with a kaccd" } else { "" };
        let name = format!("execs/without {}{with}", refusal.what);
        if stage.options.wants(&name) {
            tally.test(&name, || refused(stage, refusal, there));
        }
    }
}

fn refused(stage: &Stage<'_>, refusal: &Refusal, kaccd: Option<&Kaccd>) -> Result {
    let name = kaccd.map_or(ABSENT, Kaccd::name);
    let forbid = stage.bin.join("forbid");
    let under = |program: &std::path::Path| {
        let job = Job::new(&forbid).args([refusal.what]).args([program]);
        job.env("LD_LIBRARY_PATH", &stage.ground.library)
            .env("YAMABIKO_KACCD", name)
            .limit_s(120)
    };
    let launcher = &stage.ground.launcher;
    for executor in Executor::ALL {
        let outcome = match executor {
            Executor::Inline => Runs,
            Executor::Ring => refusal.ring,
            Executor::Softirq => refusal.softirq,
            Executor::Thread => refusal.thread,
        };
        let mut job = under(launcher).args(stage.ground.start(3));
        for (name, value) in variables(executor, None) {
            job = job.args(["-genv", name]).args([value]);
        }
        let job = job.args([stage.bin.join("coll_stress")]).args(["80"]);
        let done = job.passes(&["ok coll_stress".to_owned()])?;
        match outcome {
            Runs => ran(executor, 3, &done.output).map(drop)?,
            Lost(why) if done.output.contains(why) => {}
            Lost(why) => return Err(format!("no rank says `{why}`\n{}", done.output)),
        }
    }
    let says: Vec<_> = refusal.info.iter().map(|&words| words.to_owned()).collect();
    let program = launcher.with_file_name("yamabiko");
    under(&program).args(["info"]).passes(&says).map(drop)
}
