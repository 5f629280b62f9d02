//! One run of another program: bounded in time and in what it may print, in a process group of its own, which
//! is all that is ever killed. Called by `kernels` and `peers`.

use crate::Result;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Most that a program may print to standard output, in bytes. A kernel prints some hundred.
const OUTPUT_MAX: usize = 256 << 10;
/// How much of the end of standard error is kept, in bytes.
const COMPLAINT_MAX: usize = 4 << 10;
/// How long a program that is told to end may clean up, before its process group is killed.
const GRACE: Duration = Duration::from_secs(3);
/// How long the output of a program that has ended may stay open, held by what it left behind.
const CLOSING: Duration = Duration::from_secs(3);

/// A run that ended well.
#[derive(Debug)]
pub struct Done {
    /// What it printed to standard output.
    pub output: String,
    /// The end of what it printed to standard error.
    pub complaint: String,
    /// How long it took, from before it was started until it had ended.
    pub wall: Duration,
}

/// From now on an interrupt from the keyboard, a request to terminate, or a terminal that is gone ends runs instead of this program. What whoever started it has
/// made it ignore (`nohup`; a shell's `&` in a script) it goes on ignoring.
///
/// # Errors
/// When the handlers cannot be installed.
pub fn catch_interrupts() -> Result<()> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        if ignores(&status, signal) {
            continue;
        }
        signal_hook::flag::register_usize(signal, caught().clone(), signal as usize)
            .map_err(|e| format!("cannot handle interrupts: {e}"))?;
    }
    Ok(())
}

/// Whether a process with this `/proc/PID/status` ignores the signal. It doesn't where that says nothing.
fn ignores(status: &str, signal: i32) -> bool {
    let mask = status.lines().find_map(|l| l.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|m| u64::from_str_radix(m.trim(), 16).ok());
    mask.is_some_and(|m| m >> (signal - 1) & 1 == 1)
}

/// Whether somebody has interrupted.
pub fn is_interrupted() -> bool {
    caught().load(Ordering::Relaxed) != 0
}

/// What a program exits with that a signal has interrupted, as shells have it: 128 and the last signal's number. None without one.
pub fn exit_code() -> Option<u8> {
    let signal = caught().load(Ordering::Relaxed);
    (signal != 0).then_some(128 + signal as u8)
}

/// The signal that has interrupted; 0 for none.
fn caught() -> &'static Arc<AtomicUsize> {
    static CAUGHT: OnceLock<Arc<AtomicUsize>> = OnceLock::new();
    CAUGHT.get_or_init(Arc::default)
}

/// The command line, as one would type it.
pub fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let quoted = words.map(|word| {
        let word = printable(&word.to_string_lossy());
        let plain = |c: char| c.is_alphanumeric() || "/-_=.,:+@%".contains(c);
        match !word.is_empty() && word.chars().all(plain) {
            true => word,
            false => format!("'{}'", word.replace('\'', "'\\''")),
        }
    });
    quoted.collect::<Vec<_>>().join(" ")
}

/// Text of another program, without what would move a terminal's cursor or colour it.
pub fn printable(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '\n' => c,
            c if c.is_control() => ' ',
            c => c,
        })
        .collect()
}

/// Runs `command`, for at most `limit`.
///
/// # Errors
/// When it cannot be started, fails, takes longer, prints too much, or somebody interrupts: a sentence, followed
/// by the end of what it said on standard error.
pub fn run(command: &mut Command, limit: Duration) -> Result<Done> {
    command.stdin(Stdio::null()).process_group(0);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let started = Instant::now();
    let mut child = command
        .spawn()
        .map_err(|e| format!("cannot be started: {e}"))?;
    let output = reader(child.stdout.take(), first);
    let complaint = reader(child.stderr.take(), last);
    let end = wait(&mut child, started, limit, &output)?;
    let wall = started.elapsed();
    let said = complaint.recv_timeout(CLOSING).unwrap_or_default();
    let complaint = printable(&String::from_utf8_lossy(&said));
    let with_complaint = |why: String| match complaint.trim() {
        "" => why,
        said => format!("{why}\n{said}"),
    };
    let (status, early) = match end {
        End::Of(status, early) => (status, early),
        End::Killed(why) => return Err(with_complaint(why)),
    };
    let bytes = early.or_else(|| output.recv_timeout(CLOSING).ok());
    // Before its status: whoever prints on meets a closed pipe.
    if bytes.as_ref().is_some_and(|bytes| bytes.len() > OUTPUT_MAX) {
        return Err(too_much());
    }
    if !status.success() {
        return Err(with_complaint(format!("ended with {status}")));
    }
    let bytes = bytes.ok_or("left processes behind that hold its standard output")?;
    match String::from_utf8(bytes) {
        Ok(output) => Ok(Done {
            output,
            complaint,
            wall,
        }),
        Err(_) => Err("printed something that is not text".into()),
    }
}

fn too_much() -> String {
    format!("printed more than {} KiB", OUTPUT_MAX >> 10)
}

/// How a run came to its end.
enum End {
    /// By itself; with its output, if that was complete before.
    Of(ExitStatus, Option<Vec<u8>>),
    /// Killed, and why.
    Killed(String),
}

/// Waits for the end of `child`, and brings it about where that is due. Its process number stays taken until
/// the last moment, so that nothing else is ever killed.
fn wait(
    child: &mut Child,
    started: Instant,
    limit: Duration,
    output: &Receiver<Vec<u8>>,
) -> Result<End> {
    let fail = |e: std::io::Error| format!("cannot be watched: {e}");
    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let group = group.ok_or("has no process number")?;
    let pidfd = match pidfd_open(group, PidfdFlags::empty()) {
        Ok(pidfd) => pidfd,
        Err(e) => {
            let _ = kill_process_group(group, Signal::KILL);
            let _ = child.wait();
            return Err(fail(e.into()));
        }
    };
    let mut early = None;
    let why = loop {
        if ended(&pidfd, Duration::from_millis(50)) {
            // Whatever it has started in its group and left there.
            let _ = kill_process_group(group, Signal::KILL);
            return Ok(End::Of(child.wait().map_err(fail)?, early));
        }
        if let Ok(bytes) = output.try_recv() {
            if bytes.len() > OUTPUT_MAX {
                break too_much();
            }
            early = Some(bytes);
        }
        if is_interrupted() {
            break "interrupted".into();
        }
        if started.elapsed() > limit {
            break format!("not over after {} s", limit.as_secs());
        }
    };
    // A launcher ends its ranks, which may be in groups of their own, when it is asked to end.
    let _ = kill_process_group(group, Signal::TERM);
    ended(&pidfd, GRACE);
    let _ = kill_process_group(group, Signal::KILL);
    child.wait().map_err(fail)?;
    Ok(End::Killed(why))
}

/// Whether the process ends within `time`.
fn ended(pidfd: &OwnedFd, time: Duration) -> bool {
    let until = Instant::now() + time;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).ok();
        match poll(&mut [PollFd::new(pidfd, PollFlags::IN)], left.as_ref()) {
            Ok(0) => return false,
            Ok(_) => return true,
            // Somebody interrupts: the caller looks.
            Err(rustix::io::Errno::INTR) if is_interrupted() => return false,
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return false,
        }
    }
}

/// Reads a stream in a thread of its own, which ends with the stream.
fn reader<R: Read + Send + 'static>(
    stream: Option<R>,
    keep: fn(R) -> Vec<u8>,
) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    if let Some(stream) = stream {
        std::thread::spawn(move || {
            // Nobody listens any more if the run was given up.
            let _ = sender.send(keep(stream));
        });
    }
    receiver
}

/// The beginning of a stream, one byte more than allowed at most; the writer then meets a closed pipe.
fn first<R: Read>(stream: R) -> Vec<u8> {
    let mut bytes = Vec::new();
    // What was read before an error is what there is.
    let _ = stream.take(OUTPUT_MAX as u64 + 1).read_to_end(&mut bytes);
    bytes
}

/// The end of a stream.
fn last<R: Read>(mut stream: R) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut piece = [0; COMPLAINT_MAX];
    while let Ok(got) = stream.read(&mut piece) {
        if got == 0 {
            break;
        }
        bytes.extend_from_slice(&piece[..got]);
        let spare = bytes.len().saturating_sub(COMPLAINT_MAX);
        bytes.drain(..spare);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    fn run_for(script: &str, limit: Duration) -> Result<Done> {
        run(&mut shell(script), limit)
    }

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn output_and_time_come_back() {
        let done = run_for("sleep 0.1; echo x; echo y >&2", LONG).unwrap();
        assert_eq!(
            (done.output.as_str(), done.complaint.as_str()),
            ("x\n", "y\n")
        );
        assert!(done.wall >= Duration::from_millis(100));
    }

    #[test]
    fn what_is_ignored_is_seen() {
        let status = "SigBlk:\t0000000000000000\nSigIgn:\t0000000000001003\n";
        assert!(ignores(status, SIGHUP) && ignores(status, SIGINT) && !ignores(status, SIGTERM));
        assert!(!ignores("", SIGHUP) && !ignores("SigIgn:\tnothing", SIGHUP));
    }

    #[test]
    fn failure_says_why() {
        let why = run_for(
            "echo nonsense; printf 'no \\033[31mluck\\n' >&2; exit 3",
            LONG,
        )
        .unwrap_err();
        assert!(
            why.contains("exit status: 3") && why.contains("no  [31mluck"),
            "{why:?}"
        );
        let why = run_for("kill -9 $$", LONG).unwrap_err();
        assert!(why.contains("signal: 9"), "{why}");
        let why = run(&mut Command::new("/nonexistent/program"), LONG).unwrap_err();
        assert!(why.contains("cannot be started"), "{why}");
    }

    #[test]
    fn what_takes_too_long_is_ended_with_its_children() {
        let before = Instant::now();
        let limit = Duration::from_millis(300);
        let why = run_for("sleep 1000 & echo $! >&2; wait", limit).unwrap_err();
        assert!(why.starts_with("not over after"), "{why}");
        assert!(before.elapsed() < Duration::from_secs(30));
        let pid = why.lines().last().unwrap();
        assert!(gone(pid), "{pid} is still there");
    }

    #[test]
    fn what_ignores_the_request_to_end_is_killed() {
        let limit = Duration::from_millis(200);
        let why = run_for(
            "trap '' TERM; echo $$ >&2; while :; do sleep 0.1; done",
            limit,
        )
        .unwrap_err();
        assert!(gone(why.lines().nth(1).unwrap()), "{why}");
    }

    #[test]
    fn endless_output_is_cut() {
        let why = run_for("yes", LONG).unwrap_err();
        assert!(why.contains("printed more than"), "{why}");
        let why = run_for(
            "trap '' PIPE; while :; do echo yyyyyyyyyyyyyyyyyyyyyyyyyyyyyy; done 2>/dev/null",
            LONG,
        );
        assert!(why.unwrap_err().contains("printed more than"));
    }

    #[test]
    fn endless_complaints_are_no_error() {
        let done = run_for("yes | head -c 3000000 >&2; echo fine", LONG).unwrap();
        assert_eq!(done.output, "fine\n");
    }

    #[test]
    fn what_is_left_in_the_group_is_killed() {
        let done = run_for("sleep 1000 >/dev/null 2>&1 & echo $!", LONG).unwrap();
        assert!(gone(done.output.trim()), "{}", done.output);
    }

    #[test]
    fn bytes_that_are_no_text_are_refused() {
        let why = run_for("printf '\\377\\376'", LONG).unwrap_err();
        assert!(why.contains("not text"), "{why}");
    }

    #[test]
    fn commands_are_shown_as_typed() {
        let mut command = Command::new("/bin/a b");
        command.args(["-n", "2", "", "it's", "x=1,2"]);
        assert_eq!(shown(&command), "'/bin/a b' -n 2 '' 'it'\\''s' x=1,2");
    }

    /// Whether a process ends soon; one that nobody has waited for yet has ended too.
    fn gone(pid: &str) -> bool {
        let stat = format!(
            "/proc/{}/stat",
            pid.parse::<u32>().expect("a process number")
        );
        (0..500).any(|_| {
            let text = std::fs::read_to_string(&stat);
            let ended = text.is_ok_and(|text| !text.contains(") Z ")) as u8 == 0;
            if !ended {
                std::thread::sleep(Duration::from_millis(20));
            }
            ended
        })
    }
}
