//! Executors between the hosts of a lab: `softirq` with a kaccd on each host, of one site, what is chosen with `YAMABIKO_CAD=auto`, and the others with nothing beside them.

use super::kaccd::{self, Kaccd, Member};
use super::{Executor, Stage, Variables, chosen, left, ran, variables};
use crate::netlab::{self, Lab};
use crate::test::ground::{Ground, Over};
use crate::test::{Tally, job};
use crate::{Result, build};
use std::time::Duration;

/// What a rank says when softirq is of no use.
const NO_EFFECT: &str = "YAMABIKO_CAD=softirq has no effect: on MPI_COMM_WORLD: ";

/// More collectives than end before a kaccd is killed, whatever the machine.
const ENDLESS: &str = "1000000";

/// Runs them all.
pub(super) fn run(stage: Stage, tally: &mut Tally) -> Result {
    let over = Over::Hosts;
    if let Some(why) = netlab::unavailable() {
        println!("skipped {}: {why}", over.name());
        return Ok(());
    }
    let lab = Lab::build(over.hosts())?;
    let ground = Ground {
        reach: Some(lab.launcher()),
        ..Ground::ours(over)
    };
    let stage = Stage { ground, ..stage };
    for executor in [Executor::Inline, Executor::Ring, Executor::Thread] {
        stage.all(tally, executor, &variables(executor, None))?;
    }
    auto(&stage, tally);
    let name = format!("execs/ring over {}/ports are few", over.name());
    if stage.options.wants(&name) {
        tally.test(&name, || few_ports(&stage));
    }
    Site { stage, lab }.run(tally)
}

/// What `coll_auto` tries, with which `YAMABIKO_CAD` and how many ranks: two of a host, so that data are passed on, and no more, who may be more than there are
/// processors.
const CHOSEN: [(&str, &str, u32); 4] = [
    ("auto", "hosts", 4),
    ("auto", "refused", 4),
    ("auto", "threads", 3),
    ("", "unset", 4),
];

/// What `coll_auto` tries, with how many ranks, and what ranks say of it who are asked for a report: the second, and the others.
const WITHOUT: [(&str, u32, [&str; 2]); 2] = [
    (
        "refused",
        4,
        [
            "no ring: io_uring is forbidden here",
            "no ring: rank 1 can't have one",
        ],
    ),
    (
        "threads",
        3,
        [
            "no ring: more than its main thread may call MPI",
            "no ring: rank 1 can't have one",
        ],
    ),
];

/// Executors that are chosen for each collective.
fn auto(stage: &Stage, tally: &mut Tally) {
    let of = format!("execs/auto over {}", stage.ground.over.name());
    for (choice, how, ranks) in CHOSEN {
        let name = format!("{of}/coll_auto {how} -n {ranks}");
        if stage.options.wants(&name) {
            tally.test(&name, || quietly(stage, choice, how, ranks));
        }
    }
    for (how, ranks, why) in WITHOUT {
        let name = format!("{of}/coll_auto {how} -n {ranks} says why there is no ring");
        if stage.options.wants(&name) {
            tally.test(&name, || without(stage, how, ranks, why));
        }
    }
    let name = format!("{of}/coll_oracle -n 4");
    if stage.options.wants(&name) {
        tally.test(&name, || oracle(stage));
    }
}

/// Collectives go where the rule says, and nobody says anything.
fn quietly(stage: &Stage, choice: &str, how: &str, ranks: u32) -> Result {
    let options = ["-genv", "YAMABIKO_KACCD", "no such kaccd"];
    let variables = vec![("YAMABIKO_CAD", choice.to_owned())];
    let job = stage.job(ranks, &options, &variables, "coll_auto");
    let done = job.args([how]).passes(&["ok coll_auto".to_owned()])?;
    match done.output.contains("yamabiko:") {
        false => Ok(()),
        true => Err(format!("something is said\n{}", done.output)),
    }
}

/// Ranks who are asked for it say why they have no ring.
fn without(stage: &Stage, how: &str, ranks: u32, [second, others]: [&str; 2]) -> Result {
    let options = ["-genv", "YAMABIKO_KACCD", "no such kaccd"];
    let job = stage.job(ranks, &options, &chosen(), "coll_auto");
    let done = job.args([how]).passes(&["ok coll_auto".to_owned()])?;
    for rank in 0..ranks {
        let why = if rank == 1 { second } else { others };
        let begin = format!("yamabiko: rank {rank}: run in calls:");
        let mut lines = done.output.lines();
        if !lines.any(|line| line.contains(&begin) && line.contains(why)) {
            return Err(format!(
                "rank {rank} does not say \"{why}\"\n{}",
                done.output
            ));
        }
    }
    Ok(())
}

/// Collectives of all sizes are right, of which some ran in the ring.
fn oracle(stage: &Stage) -> Result {
    let job = stage.job(4, &[], &chosen(), "coll_oracle");
    let job = job.args(["400000", "world"]);
    let done = job.passes(&["ok coll_oracle".to_owned()])?;
    ran(Executor::Ring, 4, &done.output)?;
    ran(Executor::Inline, 4, &done.output).map(drop)
}

/// Where there are ports for the fabric only, a ring that is insisted on gives way, with a sentence.
fn few_ports(stage: &Stage) -> Result {
    let mut variables = variables(Executor::Ring, None);
    // Below those that the kernel gives to connections.
    variables.push(("YAMABIKO_PORT_RANGE", "20450:20452".to_owned()));
    let says = [
        "ok coll_stress",
        "YAMABIKO_CAD=ring has no effect: YAMABIKO_PORT_RANGE has 3 ports, and the 2 ranks of this machine need two each",
    ];
    let job = stage.job(4, &[], &variables, "coll_stress").args(["80"]);
    job.passes(&says.map(str::to_owned)).map(drop)
}

struct Site<'a> {
    stage: Stage<'a>,
    lab: Lab,
}

impl Site<'_> {
    fn run(&self, tally: &mut Tally) -> Result {
        let Some(kaccds) = self.kaccds("one", [7, 7])? else {
            return Ok(());
        };
        let softirq = variables(Executor::Softirq, Some(&kaccds[0]));
        self.stage.all(tally, Executor::Softirq, &softirq)?;
        for (how, ranks) in [("", 2), ("", 4), ("", 5), ("kept", 4), ("asleep", 4)] {
            self.test(tally, &format!("coll_softirq {how} -n {ranks}"), || {
                self.small(how, ranks, &softirq)
            });
        }
        self.test(tally, "another site's kaccd has no part in it", || {
            self.of_two_sites()
        });
        self.test(tally, "info says through which interfaces", || {
            self.info(&kaccds[0])
        });
        for how in ["", "kept"] {
            let name = format!("coll_softirq {how}, whose packets don't reach the other host");
            self.test(tally, &name, || self.cut_off(how, &softirq));
        }
        self.test(tally, "kaccd of a host is killed in the middle", || {
            self.killed()
        });
        Ok(())
    }

    fn test(&self, tally: &mut Tally, what: &str, body: impl FnOnce() -> Result) {
        let name = format!("{}/{what}", self.stage.of(Executor::Softirq));
        if self.stage.options.wants(&name) {
            tally.test(&name, body);
        }
    }

    /// A kaccd on each host with the key of such a site.
    fn kaccds(&self, what: &str, sites: [u8; 2]) -> Result<Option<Vec<Kaccd>>> {
        let mut all = Vec::new();
        for (host, site) in (1..).zip(sites) {
            let key = kaccd::site_key(&self.lab, site)?;
            let member = Member {
                lab: &self.lab,
                host,
                key: &key,
            };
            match Kaccd::start_on(what, &member)? {
                Some(kaccd) => all.push(kaccd),
                None => return Ok(None),
            }
        }
        Ok(Some(all))
    }

    fn job(&self, ranks: u32, variables: &Variables, args: &[&str]) -> job::Job {
        let job = self.stage.job(ranks, &[], variables, args[0]);
        job.args(args[1..].iter().copied())
    }

    /// The program for small collectives.
    fn small(&self, how: &str, ranks: u32, variables: &Variables) -> Result {
        let args = ["coll_softirq", how].into_iter().filter(|a| !a.is_empty());
        let args: Vec<_> = args.collect();
        let job = self.job(ranks, variables, &args);
        let mut says = vec!["ok coll_softirq".to_owned()];
        match how {
            "kept" => says.push("in calls: 0, and 0 that it had been given".to_owned()),
            "asleep" => says.push("; woken ".to_owned()),
            _ => {}
        }
        let done = job.passes(&says)?;
        ran(Executor::Softirq, ranks, &done.output).map(drop)
    }

    /// What `yamabiko info` says on a host.
    fn info(&self, kaccd: &Kaccd) -> Result {
        let program = build::prefix(false).join("bin/yamabiko");
        let job = job::Job::new(self.lab.launcher()).args(["h1"]);
        let job = job.args([program]).args(["info"]);
        let job = job.env("YAMABIKO_KACCD", kaccd.name());
        let says = [
            "usable, also between hosts of site ".to_owned(),
            format!(
                ", through eth0 ({}/24, {}/64)",
                netlab::v4(1),
                netlab::v6(1)
            ),
        ];
        job.passes(&says).map(drop)
    }

    /// Ranks of hosts of two sites do it in calls, and say why.
    fn of_two_sites(&self) -> Result {
        let Some(kaccds) = self.kaccds("another", [7, 8])? else {
            return Ok(());
        };
        let variables = variables(Executor::Softirq, Some(&kaccds[0]));
        let why = format!(
            "{NO_EFFECT}its ranks are on several hosts whose kaccds are not all of one site"
        );
        let says = ["ok coll_softirq".to_owned(), why];
        self.job(4, &variables, &["coll_softirq"]).passes(&says)?;
        Ok(())
    }

    /// The switch drops the program's packets: ranks find that out at the start, and do everything in calls.
    fn cut_off(&self, how: &str, variables: &Variables) -> Result {
        self.lab.drop_udp(2, true)?;
        let says = ["ok coll_softirq", NO_EFFECT, "don't reach all hosts"].map(str::to_owned);
        let args = ["coll_softirq", how].into_iter().filter(|a| !a.is_empty());
        let args: Vec<_> = args.collect();
        let done = self.job(4, variables, &args).passes(&says);
        self.lab.drop_udp(2, false)?;
        done.map(drop)
    }

    /// The kaccd of one host is killed while a job uses it: the job says so and ends.
    fn killed(&self) -> Result {
        let before = left::at_rest();
        let Some(mut kaccds) = self.kaccds("killed", [9, 9])? else {
            return Ok(());
        };
        let variables = variables(Executor::Softirq, Some(&kaccds[0]));
        let job = self.job(4, &variables, &["coll_stress", ENDLESS]);
        let killer = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_secs(2));
            kaccds[1].kill();
            kaccds
        });
        let done = job.fails(&["the kaccd of this host is gone".to_owned()]);
        // The other host's has to be gone too before what is left is counted.
        drop(killer.join());
        done?;
        left::nothing_since(&before)
    }
}
