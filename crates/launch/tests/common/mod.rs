//! Runs mpiexec with time limits and checks that nothing is left behind.
#![allow(dead_code)] // each test file uses its part

use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

/// No job of these tests may take longer; what must be quick has its own limit.
pub const PATIENCE: Duration = Duration::from_secs(20);
/// How often such a wait looks at the clock.
const LOOK: Duration = Duration::from_millis(100);
/// A job that takes longer has not been ended but has come to its own end (the ranks of these tests
/// last 30 s). The promise is shorter: `course` keeps it in simulated time, and the stage `kills`
/// measures it; a crowded machine must not fail these tests.
pub const END_LIMIT: Duration = Duration::from_secs(10);

static NEXT_MARK: AtomicU32 = AtomicU32::new(0);

/// How a job ended.
#[derive(Debug)]
pub struct Outcome {
    pub code: Option<i32>,
    pub stdout: Vec<u8>,
    pub stderr: String,
    pub took: Duration,
}

impl Outcome {
    pub fn out(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// Lines of standard output, sorted: ranks print in any order.
    pub fn sorted(&self) -> Vec<String> {
        let mut lines: Vec<_> = self.out().lines().map(str::to_string).collect();
        lines.sort();
        lines
    }
}

/// A running mpiexec.
pub struct Running {
    pub child: Child,
    line: String,
    mark: String,
    started: Instant,
    output: Option<Receiver<(bool, Vec<u8>)>>,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

pub fn mpiexec() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_mpiexec"))
}

/// The helper program `examples/probe.rs`, which cargo builds beside the tests.
pub fn probe() -> String {
    let path = mpiexec().parent().unwrap().join("examples/probe");
    assert!(
        path.exists(),
        "{} is missing: cargo test builds it",
        path.display()
    );
    path.to_str().unwrap().to_string()
}

/// A script in the repository's `tests/launch`.
pub fn script(name: &str) -> String {
    format!("{}/../../tests/launch/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// Starts mpiexec with `line`, split at spaces; `PROBE` stands for the helper program and
/// `SCRIPTS/` for the folder of scripts.
pub fn start(line: &str) -> Running {
    start_with(line, Stdio::null(), |_| {})
}

pub fn start_with(line: &str, stdin: Stdio, adjust: impl FnOnce(&mut Command)) -> Running {
    let mark = format!(
        "{}-{}",
        std::process::id(),
        NEXT_MARK.fetch_add(1, Ordering::Relaxed)
    );
    let mut command = Command::new(mpiexec());
    for word in line.split(' ') {
        match word.strip_prefix("SCRIPTS/") {
            Some(name) => command.arg(script(name)),
            None if word == "PROBE" => command.arg(probe()),
            None => command.arg(word),
        };
    }
    command.env("LAUNCH_TEST_MARK", &mark).env("PROBE", probe());
    command
        .stdin(stdin)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    with_default_signals(&mut command);
    adjust(&mut command);
    let mut child = command.spawn().expect("mpiexec starts");
    let (sender, output) = channel();
    let pass = |mut pipe: Box<dyn Read + Send>, is_error: bool| {
        let sender = sender.clone();
        thread::spawn(move || {
            let mut bytes = [0; 65536];
            while let Ok(count @ 1..) = pipe.read(&mut bytes) {
                if sender.send((is_error, bytes[..count].to_vec())).is_err() {
                    return;
                }
            }
        });
    };
    if let Some(pipe) = child.stdout.take() {
        pass(Box::new(pipe), false);
    }
    if let Some(pipe) = child.stderr.take() {
        pass(Box::new(pipe), true);
    }
    Running {
        child,
        line: line.to_string(),
        mark,
        started: Instant::now(),
        output: Some(output),
        stdout: Vec::new(),
        stderr: Vec::new(),
    }
}

/// A shell without job control starts what it puts in the background with SIGINT and SIGQUIT ignored,
/// and a test run in the background must not pass that on: mpiexec would rightly keep it so.
pub fn with_default_signals(command: &mut Command) {
    // SAFETY: between fork and exec only system calls are made.
    unsafe {
        command.pre_exec(|| {
            for signal in [libc::SIGINT, libc::SIGQUIT, libc::SIGHUP, libc::SIGTERM] {
                libc::signal(signal, libc::SIG_DFL);
            }
            Ok(())
        });
    }
}

/// Runs mpiexec to its end.
pub fn run(line: &str) -> Outcome {
    start(line).finish()
}

impl Running {
    /// Waits until `text` stands `times` times on standard output.
    pub fn wait_for(&mut self, text: &str, times: usize) {
        self.wait_until(
            |r| String::from_utf8_lossy(&r.stdout).matches(text).count() >= times,
            text,
        );
    }

    /// Waits until `text` stands on standard error; how long that took, as [`Running::wait_until`] counts.
    pub fn wait_for_error(&mut self, text: &str) -> Duration {
        self.wait_until(|r| String::from_utf8_lossy(&r.stderr).contains(text), text)
    }

    /// Waits for it, and says for how long. Time in which this process did not run hardly counts, as mpiexec's did not run then either.
    fn wait_until(&mut self, found: impl Fn(&Running) -> bool, what: &str) -> Duration {
        let (mut waited, mut looked) = (Duration::ZERO, Instant::now());
        while !found(self) {
            let output = self.output.as_ref().expect("still reading");
            let piece = output.recv_timeout(LOOK);
            let ended = piece == Err(RecvTimeoutError::Disconnected);
            assert!(
                !ended && waited <= PATIENCE,
                "never saw {what:?}; stdout {:?}, stderr {:?}",
                String::from_utf8_lossy(&self.stdout),
                String::from_utf8_lossy(&self.stderr)
            );
            if let Ok(piece) = piece {
                self.take(piece);
            }
            let now = Instant::now();
            waited += (now - looked).min(2 * LOOK);
            looked = now;
        }
        waited
    }

    fn take(&mut self, (is_error, bytes): (bool, Vec<u8>)) {
        let to = if is_error {
            &mut self.stderr
        } else {
            &mut self.stdout
        };
        to.extend(bytes);
    }

    /// Closes mpiexec's output, as a `head` that has seen enough.
    pub fn stop_reading(&mut self) {
        self.output = None;
    }

    /// Sends mpiexec a signal and waits until it has taken it: two of a kind that wait are one.
    pub fn signal(&self, name: &str) {
        let pid = self.child.id().cast_signed();
        send(name, pid);
        let deadline = Instant::now() + PATIENCE;
        while has_pending_signals(pid) {
            assert!(
                Instant::now() < deadline,
                "mpiexec {} does not take {name}",
                self.line
            );
            thread::sleep(Duration::from_millis(1));
        }
    }

    pub fn stdin(&mut self) -> ChildStdin {
        self.child.stdin.take().expect("piped")
    }

    /// Waits for mpiexec's end and checks that no process of the job is left.
    pub fn finish(mut self) -> Outcome {
        let deadline = Instant::now() + PATIENCE;
        let status = loop {
            while let Some(Ok(piece)) = self.output.as_ref().map(Receiver::try_recv) {
                self.take(piece);
            }
            if let Some(status) = self.child.try_wait().expect("wait") {
                break status;
            }
            assert!(
                Instant::now() < deadline,
                "mpiexec {} does not end; {:?}; stderr {:?}",
                self.line,
                self.processes(),
                String::from_utf8_lossy(&self.stderr)
            );
            thread::sleep(Duration::from_millis(1));
        };
        let took = self.started.elapsed();
        // The pipes end with mpiexec unless something of the job still holds them.
        let limit = Duration::from_secs(3);
        while let Some(Ok(piece)) = self.output.as_ref().map(|o| o.recv_timeout(limit)) {
            self.take(piece);
        }
        let left = processes(&self.mark);
        assert!(
            left.is_empty(),
            "mpiexec {} left behind: {left:?}",
            self.line
        );
        Outcome {
            code: status.code(),
            stdout: std::mem::take(&mut self.stdout),
            stderr: String::from_utf8_lossy(&self.stderr).into_owned(),
            took,
        }
    }

    /// The processes of this job that live, mpiexec included.
    pub fn processes(&self) -> Vec<(i32, String)> {
        processes(&self.mark)
    }

    /// Waits until no process of the job lives and tells how long that took.
    pub fn wait_for_extinction(&mut self) -> Duration {
        let begin = Instant::now();
        loop {
            let _ = self.child.try_wait();
            let left = self.processes();
            if left.is_empty() {
                return begin.elapsed();
            }
            assert!(begin.elapsed() < PATIENCE, "still there: {left:?}");
            thread::sleep(Duration::from_millis(5));
        }
    }
}

/// A failed test leaves nothing running either: the keeper ends the ranks.
impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends a signal by its name: with the shell's own `kill`, since a small system has no other.
pub fn send(name: &str, pid: i32) {
    let status = Command::new("sh")
        .args(["-c", "kill -s \"$0\" -- \"$1\"", name, &pid.to_string()])
        .status();
    assert!(status.expect("a shell runs").success());
}

/// Whether a signal sent to this process still waits for it; a process that has ended takes none.
fn has_pending_signals(pid: i32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let field = |name: &str| {
        let line = status.lines().find_map(|l| l.strip_prefix(name));
        line.map_or("", str::trim)
    };
    let pending = field("ShdPnd:").bytes().any(|digit| digit != b'0');
    pending && !field("State:").starts_with(['Z', 'X'])
}

/// Feeds `total` bytes to a child; returns how many it took.
pub fn feed(mut stdin: ChildStdin, total: usize) -> usize {
    let block = vec![b'x'; 1 << 16];
    let mut sent = 0;
    while sent < total {
        match stdin.write(&block[..block.len().min(total - sent)]) {
            Ok(count) => sent += count,
            Err(_) => break,
        }
    }
    sent
}

/// Living processes whose environment holds the mark.
fn processes(mark: &str) -> Vec<(i32, String)> {
    let variable = format!("LAUNCH_TEST_MARK={mark}");
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").expect("/proc").flatten() {
        let Some(pid) = entry
            .file_name()
            .to_str()
            .and_then(|n| n.parse::<i32>().ok())
        else {
            continue;
        };
        let Ok(environment) = std::fs::read(entry.path().join("environ")) else {
            continue;
        };
        if environment
            .split(|b| *b == 0)
            .any(|v| v == variable.as_bytes())
        {
            let command = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
            found.push((pid, String::from_utf8_lossy(&command).replace('\0', " ")));
        }
    }
    found
}

/// A launcher command for which every host is this machine.
pub const REACH: &str = "-launcher-exec SCRIPTS/drop-host.sh";

/// A command line with two hosts, `a` with ranks 0 and 1 and `b` with the others.
pub fn two(rest: &str) -> String {
    format!("{REACH} -hosts a:2,b:2 {rest}")
}

/// Processes of the job that call themselves `comm`.
pub fn named(job: &Running, comm: &str) -> Vec<i32> {
    let is = |pid: &i32| {
        std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|c| c.trim() == comm)
    };
    let pids = job.processes().into_iter().map(|(pid, _)| pid);
    pids.filter(is).collect()
}

/// The daemons of the job.
pub fn daemons(job: &Running) -> Vec<i32> {
    named(job, "yamabiko-daemon")
}

/// Checks exit code and parts of standard error.
pub fn expect(outcome: &Outcome, code: i32, errors: &[&str]) {
    assert_eq!(outcome.code, Some(code), "{outcome:?}");
    for part in errors {
        assert!(outcome.stderr.contains(part), "{part:?} of {outcome:?}");
    }
}

/// A process's state: "R", "S", "T", ...
pub fn state(pid: i32) -> String {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let after = text.rfind(')').map_or("", |at| &text[at + 2..]);
    after.chars().take(1).collect()
}

/// Waits for 10 s at most.
pub fn wait_until(holds: impl Fn() -> bool) {
    for _ in 0..1000 {
        if holds() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("it never came true");
}
