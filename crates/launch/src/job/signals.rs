//! Signals to mpiexec, and what each makes of the job.
//!
//! Ranks hear what mpiexec hears, so that a program can write a checkpoint, or go on. If they do not end
//! although they were asked to, they are killed: at a second signal of the kind, and after SIGTERM and
//! SIGHUP, behind which nobody may be sitting, also when [`PATIENCE`] is over. (After SIGINT a person decides:
//! a debugger or an interpreter takes the first and goes on.)

use super::{Instant, Job, Member};
use crate::course::PATIENCE;
use crate::os;
use crate::os::signals::describe;
use crate::protocol::Down;
use std::time::Duration;

/// Signals of a kind that come sooner after each other are one: `timeout` sends its own both to mpiexec
/// and to mpiexec's process group, and a closed terminal's come from the kernel and from the shell.
const ONE_REQUEST: Duration = Duration::from_millis(100);

/// Whether this signal asks mpiexec to end the job.
pub(super) fn ends(signal: i32) -> bool {
    matches!(signal, libc::SIGINT | libc::SIGTERM | libc::SIGHUP)
}

impl Job {
    /// A signal to mpiexec.
    pub(super) fn signal(&mut self, signal: i32, now: Instant) {
        match signal {
            libc::SIGCHLD => {
                self.reap();
                if let Some(node) = &mut self.node {
                    node.look_at_keeper(now);
                }
            }
            libc::SIGQUIT => self.ask_where_ranks_are(false, now),
            libc::SIGTSTP => {
                self.broadcast(&Down::Signal(signal));
                self.branches.suspend();
                // What the shell waits for. SIGCONT is blocked and read when this process goes on.
                os::kill(std::process::id().cast_signed(), libc::SIGSTOP);
            }
            _ if ends(signal) => self.end_for(signal, now),
            _ => self.pass_on(signal, now),
        }
    }

    fn end_for(&mut self, signal: i32, now: Instant) {
        if !self.started {
            let text = format!(
                "mpiexec: received {} before any rank was started",
                describe(signal)
            );
            self.sinks[1].say(&text);
            self.verdict.refuse(128 + signal);
            return self.abandon_start(now);
        }
        if self.members.iter().all(Member::has_ended) {
            // Only output is left, and whoever reads it does not: nobody wants to wait for that.
            if self.has_unread_output() {
                self.verdict.killed_for(signal);
            }
            return self.abandon_output();
        }
        let before = self.passed_on.iter().find(|(s, _)| *s == signal);
        match before.map(|(_, first)| now.duration_since(*first)) {
            None => {
                self.pass_on(signal, now);
                if signal != libc::SIGINT {
                    self.course.asked(now);
                }
            }
            Some(age) if age < ONE_REQUEST => {}
            Some(_) => {
                self.kill_for(signal, " again");
                self.course.kill(now);
            }
        }
    }

    /// The ranks did not end in the time they had after the signal that asked them to.
    pub(super) fn lose_patience(&mut self) {
        let mut asked = self.passed_on.iter().map(|(signal, _)| *signal);
        if let Some(signal) = asked.find(|s| ends(*s) && *s != libc::SIGINT) {
            let when = format!(
                ", and the ranks did not end within {} s",
                PATIENCE.as_secs()
            );
            self.kill_for(signal, &when);
        }
    }

    fn pass_on(&mut self, signal: i32, now: Instant) {
        if !self.was_passed_on(signal) {
            self.passed_on.push((signal, now));
        }
        self.broadcast(&Down::Signal(signal));
    }

    /// Whether the ranks got this signal from mpiexec.
    pub(super) fn was_passed_on(&self, signal: i32) -> bool {
        self.passed_on.iter().any(|(s, _)| *s == signal)
    }

    fn has_unread_output(&self) -> bool {
        let pending = (0..2).any(|i| self.sinks_open[i] && !self.sinks[i].pending().is_empty());
        pending || self.members.iter().any(Member::has_output)
    }

    /// Notes and says once that the ranks are killed for a signal.
    fn kill_for(&mut self, signal: i32, when: &str) {
        if self.verdict.killed_for(signal) {
            self.announced = true;
            self.signal_told = true;
            let signal = describe(signal);
            let text = format!("mpiexec: received {signal}{when}; the job is killed");
            self.sinks[1].say(&text);
        }
    }

    /// Says once that the job ends by a signal that mpiexec got: it is nobody's failure.
    pub(super) fn tell_signal(&mut self, signal: i32) {
        self.announced = true;
        if !std::mem::replace(&mut self.signal_told, true) {
            let signal = describe(signal);
            let text =
                format!("mpiexec: received {signal} and passed it to the ranks; the job is ended");
            self.sinks[1].say(&text);
        }
    }

    /// Says what asked the ranks to end, if something did, before one's failure after that.
    pub(super) fn tell_request(&mut self) {
        let mut asked = self.passed_on.iter().map(|(signal, _)| *signal);
        if let Some(signal) = asked.rfind(|s| ends(*s)) {
            let signal = describe(signal);
            self.sinks[1].say(&format!(
                "mpiexec: received {signal} and passed it to the ranks"
            ));
        }
    }
}
