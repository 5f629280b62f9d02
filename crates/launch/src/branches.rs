//! The links to the daemons right below, in mpiexec and in every daemon: started by the launcher
//! command, watched, and declared lost when their end comes or nothing is heard of them.
//!
//! What comes up is passed on as it came; only its origin is checked, so that a host cannot speak for
//! others than itself and those below it.

use crate::channel::{self, Channel};
use crate::environment;
use crate::frame::{Address, Decoder, GREETING, UP_MAX};
use crate::os;
use crate::os::child::{self, Descriptors, Ready};
use crate::os::signals::{self, Mask};
use crate::protocol::{Down, Up, decode, encode};
use crate::tree;
use crate::watch::Watch;
use rustix::event::PollFlags;
use rustix::pipe::PipeFlags;
use std::ffi::{CString, OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Longest time a launcher command may take to reach a host: a person may have to type a password.
const REACH_LIMIT: Duration = Duration::from_secs(120);
/// How long the launcher command's own end and last words are waited for after the link's end.
const LAST_WORDS_LIMIT: Duration = Duration::from_millis(500);
/// A child that lets this much of what it is sent wait does not keep to the protocol: far more than the
/// plans of all hosts below one.
const UNREAD_MAX: usize = 512 << 20;
/// What a launcher command said that is kept: its last words.
const SAID_MAX: usize = 2048;

/// What happened on a link: its number and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Token {
    /// On the channel.
    Channel(usize, channel::Token),
    /// The launcher command said something.
    Errors(usize),
}

/// What has come of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// This host sent this message.
    News(u32, Vec<u8>),
    /// This host, and all below it, are lost: why, and what its launcher command said.
    Lost(u32, String, Vec<u8>),
}

/// How hosts are reached: the same for all.
pub struct Reach {
    /// The launcher command; the host and the daemon's command are appended.
    pub launcher: Vec<OsString>,
    /// The signal mask of launcher commands.
    pub mask: Mask,
}

enum Stage {
    /// The launcher command has been started; the daemon has not said anything.
    Reaching { until: Instant },
    /// The daemon talks.
    Talking,
    /// The link is over for this reason; the launcher command may still say why.
    Ending { why: String, until: Instant },
    /// Over.
    Over,
}

struct Branch {
    host: u32,
    /// The host's name and the launcher command with which it was to be reached, for messages.
    name: String,
    launcher: String,
    stage: Stage,
    channel: Option<Channel>,
    errors: Option<OwnedFd>,
    said: Vec<u8>,
    pid: i32,
    status: Option<i32>,
}

/// The links to all children.
pub struct Branches {
    /// This process's place in the tree.
    me: Option<u32>,
    branches: Vec<Branch>,
    events: Vec<Event>,
    /// The job is over: an end of a link is no loss.
    dismissed: bool,
}

impl Branches {
    /// Starts the launcher commands for the hosts called `names`, which are the children of `me` in a
    /// tree of `hosts`.
    pub fn start(me: Option<u32>, hosts: u32, names: &[String], reach: &Reach) -> Branches {
        let mut branches = Branches {
            me,
            branches: Vec::new(),
            events: Vec::new(),
            dismissed: false,
        };
        for (host, name) in tree::children(me, hosts).zip(names) {
            match Branch::start(host, name, reach) {
                Ok(branch) => branches.branches.push(branch),
                Err(why) => branches.events.push(Event::Lost(host, why, Vec::new())),
            }
        }
        branches
    }

    /// Sends a message to one host below, or to all.
    pub fn send(&mut self, address: Address, body: &[u8]) {
        match address {
            Address::Everyone => {
                for branch in &mut self.branches {
                    branch.send(address, body);
                }
            }
            Address::Host(host) => {
                let next = tree::toward(self.me, host);
                let branch = self.branches.iter_mut().find(|b| Some(b.host) == next);
                if let Some(branch) = branch {
                    branch.send(address, body);
                }
            }
            Address::Hop => {}
        }
    }

    /// Tells the children that this process is about to be stopped, as far as that goes quickly.
    pub fn suspend(&mut self) {
        let body = encode(&Down::Suspend);
        for branch in &mut self.branches {
            branch.send(Address::Hop, &body);
            if let Some(channel) = &mut branch.channel {
                channel.flush();
            }
        }
    }

    /// Adds what to wait for; without `reading` the children have to wait.
    pub fn interest<'a, T>(
        &'a self,
        watch: &mut Watch<'a, T>,
        reading: bool,
        wrap: impl Fn(Token) -> T,
    ) {
        for (i, branch) in self.branches.iter().enumerate() {
            if let Some(channel) = &branch.channel {
                channel.interest(watch, reading, |token| wrap(Token::Channel(i, token)));
            }
            if let Some(errors) = &branch.errors {
                watch.add(errors.as_fd(), PollFlags::IN, wrap(Token::Errors(i)));
            }
        }
    }

    /// Whether [`take_events`](Branches::take_events) has something.
    pub fn has_events(&self) -> bool {
        !self.events.is_empty()
    }

    /// When to call [`tick`](Branches::tick) although nothing happens.
    pub fn deadline(&self) -> Option<Instant> {
        self.branches.iter().filter_map(Branch::deadline).min()
    }

    /// Deals with an event.
    pub fn handle(&mut self, token: Token, now: Instant) {
        match token {
            Token::Channel(i, channel::Token::In) => {
                let branch = &mut self.branches[i];
                branch.read(now, &mut self.events);
            }
            Token::Channel(i, channel::Token::Out) => {
                if let Some(channel) = &mut self.branches[i].channel {
                    channel.flush();
                }
            }
            Token::Errors(i) => self.branches[i].listen(),
        }
    }

    /// Does what is due at `now`, on every pass. `looking`: whether the children are read from.
    pub fn tick(&mut self, now: Instant, looking: bool) {
        for branch in &mut self.branches {
            branch.tick(now, looking, self.dismissed, &mut self.events);
        }
    }

    /// What has come since the last call.
    pub fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    /// Notes that a child process has ended, if it is a launcher command.
    pub fn reaped(&mut self, pid: i32, status: i32) {
        if let Some(branch) = self.branches.iter_mut().find(|b| b.pid == pid) {
            branch.status = Some(status);
            branch.pid = 0;
        }
    }

    /// The launcher commands that live.
    pub fn pids(&self) -> Vec<i32> {
        let pids = self.branches.iter().map(|b| b.pid);
        pids.filter(|pid| *pid != 0).collect()
    }

    /// Expects the links to end.
    pub fn dismiss(&mut self) {
        self.dismissed = true;
    }

    /// Whether some link is open.
    pub fn any_open(&self) -> bool {
        self.branches.iter().any(|b| b.channel.is_some())
    }

    /// Closes all links, which ends the daemons below.
    pub fn close(&mut self) {
        self.dismissed = true;
        for branch in &mut self.branches {
            branch.channel = None;
            branch.errors = None;
            branch.stage = Stage::Over;
        }
    }
}

impl Branch {
    fn start(host: u32, name: &str, reach: &Reach) -> Result<Branch, String> {
        let mut words = reach.launcher.clone();
        words.push(name.into());
        words.extend(daemon_command()?);
        let system =
            |e: std::io::Error| format!("cannot start the launcher command: {}", os::reason(e));
        let path = find_launcher(&words[0])
            .map_err(|e| format!("no launcher command ({e}); -launcher-exec names another"))?;
        let ready = Ready {
            path: environment::c_string(path.as_os_str())?,
            argv: words
                .iter()
                .map(|w| environment::c_string(w))
                .collect::<Result<_, _>>()?,
            environment: std::env::vars_os().filter_map(variable).collect(),
            directory: None,
            cpus: None,
            is_rank: false,
        };
        let pipe = || rustix::pipe::pipe_with(PipeFlags::CLOEXEC).map_err(|e| system(e.into()));
        let ((stdin, to_child), (from_child, stdout), (errors, stderr)) =
            (pipe()?, pipe()?, pipe()?);
        let descriptors = Descriptors {
            standard: [stdin.as_fd(), stdout.as_fd(), stderr.as_fd()],
            kept: &[],
            errors: None,
        };
        let pid = child::spawn(0, &ready, &descriptors, &reach.mask).map_err(system)?;
        let now = Instant::now();
        let decoder = Decoder::new(UP_MAX, true);
        let channel = Channel::new(from_child, to_child, decoder, encode(&Down::Alive), now);
        let shown: Vec<_> = reach.launcher.iter().map(|w| w.to_string_lossy()).collect();
        Ok(Branch {
            host,
            name: name.to_string(),
            launcher: shown.join(" "),
            stage: Stage::Reaching {
                until: now + REACH_LIMIT,
            },
            channel: Some(channel),
            errors: Some(errors),
            said: Vec::new(),
            pid,
            status: None,
        })
    }

    fn send(&mut self, address: Address, body: &[u8]) {
        if let Some(channel) = &mut self.channel {
            channel.send(address, body);
        }
    }

    fn deadline(&self) -> Option<Instant> {
        match (&self.stage, &self.channel) {
            (Stage::Ending { until, .. }, _) => Some(*until),
            (_, Some(channel)) => Some(channel.deadline()),
            _ => None,
        }
    }

    fn read(&mut self, now: Instant, events: &mut Vec<Event>) {
        let Some(channel) = &mut self.channel else {
            return;
        };
        let open = channel.fill(now);
        loop {
            let channel = self.channel.as_mut();
            match channel.map_or(Ok(None), Channel::next_frame) {
                Ok(Some(frame)) => {
                    if let Err(why) = self.take(frame.address, frame.body, events) {
                        return self.end(why, now);
                    }
                }
                Ok(None) => break,
                Err(_) => return self.end("what came from it was no message".into(), now),
            }
        }
        if !open {
            let why = match self.stage {
                Stage::Reaching { .. } => "it could not be reached",
                _ => "its daemon has ended",
            };
            self.end(why.into(), now);
        }
    }

    fn take(
        &mut self,
        from: Address,
        body: Vec<u8>,
        events: &mut Vec<Event>,
    ) -> Result<(), String> {
        match from {
            Address::Hop => match decode::<Up>(&body) {
                Some(Up::Alive) => Ok(()),
                Some(Up::Hello(version)) if version == VERSION => {
                    self.stage = Stage::Talking;
                    Ok(())
                }
                Some(Up::Hello(version)) => {
                    let shown: String = version
                        .chars()
                        .filter(char::is_ascii_graphic)
                        .take(40)
                        .collect();
                    Err(format!(
                        "it runs version {shown} of Yamabiko, this is version {VERSION}"
                    ))
                }
                _ => Err("it sent a message out of place".into()),
            },
            Address::Host(host)
                if matches!(self.stage, Stage::Talking) && tree::is_within(self.host, host) =>
            {
                events.push(Event::News(host, body));
                Ok(())
            }
            _ => Err("it sent a message out of place".into()),
        }
    }

    /// Keeps the last of what the launcher command says.
    fn listen(&mut self) {
        let mut bytes = [0; 4096];
        let Some(errors) = &self.errors else {
            return;
        };
        match rustix::io::read(errors, &mut bytes[..]) {
            Ok(count @ 1..) => {
                self.said.extend_from_slice(&bytes[..count]);
                let excess = self.said.len().saturating_sub(SAID_MAX);
                self.said.drain(..excess);
            }
            Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => {}
            _ => self.errors = None,
        }
    }

    fn tick(&mut self, now: Instant, looking: bool, dismissed: bool, events: &mut Vec<Event>) {
        if let Some(channel) = &mut self.channel {
            channel.flush();
            let lives = channel.beat(now, looking);
            let unread = channel.pending();
            match self.stage {
                _ if unread > UNREAD_MAX => {
                    self.end("it does not take what it is sent".into(), now);
                }
                Stage::Reaching { until } if now >= until => {
                    let limit = REACH_LIMIT.as_secs();
                    self.end(format!("it could not be reached within {limit} s"), now);
                }
                Stage::Talking if !lives => {
                    let limit = channel::SILENCE.as_secs();
                    let look = silence_advice(&self.launcher, &self.name);
                    self.end(format!("nothing was heard of it for {limit} s{look}"), now);
                }
                _ => {}
            }
        }
        let complete = self.status.is_some() && self.errors.is_none();
        let over = match &self.stage {
            Stage::Ending { until, .. } => complete || now >= *until,
            _ => false,
        };
        if !over {
            return;
        }
        if let Stage::Ending { mut why, .. } = std::mem::replace(&mut self.stage, Stage::Over) {
            if let Some(status) = self.status.filter(|s| *s != 0) {
                why += &format!("; its launcher command {}", described(status));
                why += &advice(status, &self.launcher, &self.name);
            }
            // If it still runs, it waits for a host that is gone.
            os::kill(self.pid, libc::SIGKILL);
            self.errors = None;
            if !dismissed {
                events.push(Event::Lost(self.host, why, std::mem::take(&mut self.said)));
            }
        }
    }

    fn end(&mut self, why: String, now: Instant) {
        self.channel = None;
        self.stage = Stage::Ending {
            why,
            until: now + LAST_WORDS_LIMIT,
        };
    }
}

/// What daemon and mpiexec must have in common.
const VERSION: &str = env!("CARGO_PKG_VERSION");

fn find_launcher(word: &OsStr) -> Result<PathBuf, String> {
    let path = std::env::var_os("PATH");
    let found = environment::find_program(word, path.as_deref(), None)?;
    match environment::is_executable(&found) {
        true => Ok(found),
        false => Err(format!(
            "{} is not there or may not be executed",
            found.display()
        )),
    }
}

/// What is run on the other host. ssh joins the words with spaces and lets a shell split them again.
fn daemon_command() -> Result<Vec<OsString>, String> {
    let own = std::env::current_exe()
        .map_err(|e| format!("cannot tell where this program is installed: {e}"))?;
    let program = own.with_file_name("yamabiko").into_os_string().into_vec();
    let is_plain = |b: &u8| b.is_ascii_alphanumeric() || b"/._+-".contains(b);
    let word = if program.iter().all(is_plain) {
        program
    } else {
        let inner = program.iter().flat_map(|b| match b {
            b'\'' => b"'\\''".to_vec(),
            b => vec![*b],
        });
        [b'\''].into_iter().chain(inner).chain([b'\'']).collect()
    };
    Ok(vec![OsString::from_vec(word), "daemon".into()])
}

fn variable((name, value): (OsString, OsString)) -> Option<CString> {
    let mut pair = name;
    pair.push("=");
    pair.push(value);
    environment::c_string(&pair).ok()
}

fn described(status: i32) -> String {
    if libc::WIFSIGNALED(status) {
        format!(
            "was killed by {}",
            signals::describe(libc::WTERMSIG(status))
        )
    } else {
        format!("exited with code {}", libc::WEXITSTATUS(status))
    }
}

/// What a launcher command's exit code means, where it means something, and what to do.
fn advice(status: i32, launcher: &str, host: &str) -> String {
    if !libc::WIFEXITED(status) {
        return String::new();
    }
    let daemon = daemon_command().map_or_else(|_| "yamabiko".into(), |words| words[0].clone());
    let daemon = daemon.to_string_lossy();
    let install = format!(
        "Yamabiko must be installed there under the same path, so that this works: {launcher} {host} {daemon} --version"
    );
    match libc::WEXITSTATUS(status) {
        127 => {
            format!(" (a command was not found, most likely {daemon} on host {host}; {install})")
        }
        126 => format!(
            " (a command may not be executed, most likely {daemon} on host {host}; {install})"
        ),
        255 => format!(
            " (as of ssh when it cannot connect or log in; this must work without a question: {launcher} {host} true)"
        ),
        _ => String::new(),
    }
}

/// What may be the matter with a host that is silent, and how to see it.
fn silence_advice(launcher: &str, host: &str) -> String {
    format!(
        "; is the machine down, out of reach, or its daemon stopped (state T)? This tells: {launcher} {host} ps -o pid,stat -C yamabiko-daemon"
    )
}

/// Begins a daemon's end of a link.
pub fn greet(channel: &mut Channel) {
    channel.send_raw(GREETING);
    channel.send(Address::Hop, &encode(&Up::Hello(VERSION.into())));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_of_launcher_commands_are_explained() {
        let told = |code: i32| advice(code << 8, "ssh -x", "h1");
        let not_found = told(127);
        for part in [
            "not found",
            "/yamabiko on host h1",
            "same path",
            "ssh -x h1 /",
        ] {
            assert!(not_found.contains(part), "{part}: {not_found}");
        }
        assert!(told(126).contains("may not be executed"), "{}", told(126));
        assert!(told(255).contains("log in") && told(255).contains(": ssh -x h1 true"));
        assert_eq!(told(1), "");
        assert_eq!(advice(libc::SIGKILL, "ssh", "h1"), "");
        let silent = silence_advice("ssh -x", "h1");
        assert!(silent.ends_with(": ssh -x h1 ps -o pid,stat -C yamabiko-daemon"));
    }
}
