//! Stage `kills`: a rank, or mpiexec, is killed at a random moment, over and over. The job has to end
//! soon, say whom it lost, and leave nothing.
//!
//! Which process and when is drawn from a fixed seed; what the machine makes of it differs each time.
//! Every process of a run is known by a variable that it inherits.

use super::job::tail;
use super::{Options, Tally};
use crate::spec::root;
use crate::{Result, build, process};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A job has to be over so soon after the kill.
const LIMIT: Duration = Duration::from_secs(2);
/// Runs that end before they are hit are repeated; not more often than this in all.
const MOST_RUNS: u32 = 1000;
/// The variable that marks all processes of this stage.
const MARK: &str = "KILLS_STAGE";

/// A generator of random numbers (splitmix64).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % limit
    }

    fn millis(&mut self, limit: u64) -> Duration {
        Duration::from_micros(self.below(limit * 1000))
    }
}

/// Where the runs take place.
struct Ground {
    victim: PathBuf,
    /// The temporary folder of the runs; it has to stay empty.
    temporary: PathBuf,
    log: PathBuf,
    mark: String,
}

impl Ground {
    fn make() -> Result<Ground> {
        let folder = build::target().join("test/kills");
        let temporary = folder.join("tmp");
        let _ = fs::remove_dir_all(&temporary);
        fs::create_dir_all(&temporary).map_err(|e| format!("{}: {e}", temporary.display()))?;
        let victim = folder.join("victim");
        let mut compiler = Command::new(build::prefix(false).join("bin/mpicc"));
        compiler.args(["-std=c11", "-O1", "-g", "-Wall", "-Wextra", "-Werror"]);
        compiler.arg(root().join("tests/guest/victim.c"));
        process::run(compiler.arg("-o").arg(&victim))?;
        Ok(Ground {
            victim,
            temporary,
            log: folder.join("log"),
            mark: std::process::id().to_string(),
        })
    }

    /// Starts so many ranks that work for `millis`, or for ever if it is 0.
    fn start(&self, ranks: u64, millis: u64) -> Result<Child> {
        let prefix = build::prefix(false);
        let log = File::create(&self.log).map_err(|e| format!("{}: {e}", self.log.display()))?;
        let again = log.try_clone().map_err(|e| e.to_string())?;
        Command::new(prefix.join("bin/mpiexec"))
            .args(["-n", &ranks.to_string()])
            .arg(&self.victim)
            .args([millis.to_string()])
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("LD_LIBRARY_PATH", prefix.join("lib"))
            .env("TMPDIR", &self.temporary)
            .env(MARK, &self.mark)
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(again)
            .spawn()
            .map_err(|e| format!("mpiexec: {e}"))
    }

    fn said(&self) -> String {
        fs::read(&self.log).map_or_else(
            |e| e.to_string(),
            |bytes| String::from_utf8_lossy(&bytes).into_owned(),
        )
    }

    /// The ranks that run the program already, with their numbers.
    fn ranks(&self) -> Vec<(u32, String)> {
        let mut found = Vec::new();
        for pid in self.alive() {
            let exe = fs::read_link(format!("/proc/{pid}/exe"));
            if exe.is_ok_and(|exe| exe == self.victim)
                && let Some(rank) = variable(pid, "PMI_RANK")
            {
                found.push((pid, rank));
            }
        }
        found
    }

    /// Processes of this stage that live.
    fn alive(&self) -> Vec<u32> {
        let Ok(entries) = fs::read_dir("/proc") else {
            return Vec::new();
        };
        let numbers = entries.flatten().filter_map(|entry| {
            let name = entry.file_name();
            name.to_str().and_then(|name| name.parse().ok())
        });
        numbers
            .filter(|&pid| variable(pid, MARK).as_ref() == Some(&self.mark))
            .collect()
    }

    /// Waits until no process of the stage lives.
    fn extinction(&self, since: Instant) -> Result<Duration> {
        loop {
            let alive = self.alive();
            let took = since.elapsed();
            if alive.is_empty() {
                return Ok(took);
            }
            if took > LIMIT {
                process::kill(&alive);
                return Err(format!("processes {alive:?} are left after {took:.1?}"));
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// A variable of another process, as it was when that was started.
fn variable(pid: u32, name: &str) -> Option<String> {
    let environ = fs::read(format!("/proc/{pid}/environ")).ok()?;
    let start = format!("{name}=");
    let mut variables = environ.split(|&byte| byte == 0);
    let found = variables.find(|entry| entry.starts_with(start.as_bytes()))?;
    Some(String::from_utf8_lossy(&found[start.len()..]).into_owned())
}

/// Everything with a name that MPI could leave behind.
fn names(ground: &Ground) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (folder, all) in [
        (Path::new("/dev/shm"), false),
        (Path::new("/tmp"), false),
        (&ground.temporary, true),
    ] {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path().display().to_string();
            // Other programs come and go in the common folders.
            if all || path.to_lowercase().contains("yamabiko") {
                found.insert(path);
            }
        }
    }
    let sockets = fs::read_to_string("/proc/net/unix").unwrap_or_default();
    let named = sockets
        .lines()
        .filter_map(|line| line.split_whitespace().nth(7));
    found.extend(
        named
            .filter(|name| name.contains("yamabiko"))
            .map(str::to_owned),
    );
    found
}

/// Runs the stage.
pub fn run(options: &Options, tally: &mut Tally) -> Result {
    let ground = Ground::make()?;
    let before = names(&ground);
    let factor = if options.soak { 20 } else { 1 };
    for (name, runs, body) in [
        ("kills/a rank", 100, ranks as fn(&Ground, u32) -> Result),
        ("kills/mpiexec", 20, launchers),
    ] {
        if options.wants(name) {
            let name = format!("{name}, {} times", runs * factor);
            tally.test(&name, || body(&ground, runs * factor));
        }
    }
    tally.test("kills/nothing is left", || {
        let until = Instant::now() + LIMIT;
        loop {
            let left: Vec<_> = names(&ground).difference(&before).cloned().collect();
            if left.is_empty() {
                return Ok(());
            }
            // A job of somebody else's may be running at the same time.
            if Instant::now() > until {
                return Err(left.join("\n"));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    });
    Ok(())
}

/// Kills `wanted` ranks, each of another job.
fn ranks(ground: &Ground, wanted: u32) -> Result {
    let mut random = Random(1);
    let started = Instant::now();
    end_of(ground, &mut ground.start(4, 1)?, Instant::now() + 5 * LIMIT)?;
    let life = started.elapsed();
    let mut times = Vec::new();
    for _ in 0..MOST_RUNS {
        if times.len() as u32 == wanted {
            break;
        }
        // Short jobs are mostly start and end; every third only works.
        let endless = times.len().is_multiple_of(3);
        let millis = if endless { 0 } else { 1 };
        let delay = if endless {
            random.millis(100)
        } else {
            random.millis(life.as_millis() as u64 + 1)
        };
        if let Some(took) = one_rank(ground, &mut random, millis, delay)? {
            times.push(took);
        }
    }
    report(&mut times, wanted)
}

/// One job whose random rank is killed; none if it was over before.
fn one_rank(
    ground: &Ground,
    random: &mut Random,
    millis: u64,
    delay: Duration,
) -> Result<Option<Duration>> {
    let mut child = ground.start(3 + random.below(2), millis)?;
    std::thread::sleep(delay);
    let mut found = ground.ranks();
    while found.is_empty() && matches!(child.try_wait(), Ok(None)) {
        found = ground.ranks();
    }
    let which = random.below(found.len().max(1) as u64) as usize;
    let hit = found.into_iter().nth(which);
    let killed = hit.as_ref().is_some_and(|(pid, _)| process::kill(&[*pid]));
    let since = Instant::now();
    let code = end_of(ground, &mut child, since + LIMIT)?;
    let took = since.elapsed();
    ground.extinction(since)?;
    let said = ground.said();
    let Some((_, rank)) = hit else {
        return Ok(None);
    };
    let told = said.contains(&format!("rank {rank} ")) && said.contains("SIGKILL");
    match code {
        // It had ended by itself, or would have in the same instant.
        Some(0) if millis > 0 => Ok(None),
        Some(137) if killed && told => Ok(Some(took)),
        _ => Err(format!(
            "rank {rank} killed after {delay:.1?}: exit code {code:?}\n{}",
            tail(&said)
        )),
    }
}

/// Waits for mpiexec; its exit code, if it has one.
fn end_of(ground: &Ground, child: &mut Child, until: Instant) -> Result<Option<i32>> {
    loop {
        if let Some(status) = child.try_wait().map_err(|e| e.to_string())? {
            return Ok(status.code());
        }
        if Instant::now() > until {
            process::kill(&ground.alive());
            let _ = child.wait();
            let said = ground.said();
            return Err(format!("mpiexec did not end in time\n{}", tail(&said)));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Kills `wanted` launchers.
fn launchers(ground: &Ground, wanted: u32) -> Result {
    let mut random = Random(2);
    let mut times = Vec::new();
    for _ in 0..wanted {
        let mut child = ground.start(3, 0)?;
        std::thread::sleep(random.millis(100));
        child.kill().map_err(|e| e.to_string())?;
        let since = Instant::now();
        child.wait().map_err(|e| e.to_string())?;
        times.push(ground.extinction(since)?);
    }
    report(&mut times, wanted)
}

fn report(times: &mut [Duration], wanted: u32) -> Result {
    times.sort();
    let (Some(most), true) = (times.last(), times.len() as u32 == wanted) else {
        return Err(format!("only {} of {wanted} kills hit", times.len()));
    };
    let median = times[times.len() / 2];
    println!("      over after the kill: median {median:.1?}, at most {most:.1?}");
    if *most > LIMIT {
        return Err(format!("{most:.1?} is too long"));
    }
    Ok(())
}
