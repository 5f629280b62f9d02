//! Why a job failed, in a sentence, and the exit code that follows. Pure.

use crate::os::{self, signals};
use std::fmt;

/// Exit code after `-timeout`, as of `timeout(1)`.
pub const TIMED_OUT: i32 = 124;

/// What went wrong with a rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// It ended with this code, which is not 0.
    Exit(i32),
    /// It was killed by this signal.
    Signal(i32),
    /// It called `MPI_Abort`, or an error handler did.
    Abort(i32, String),
    /// It ended with code 0 between `MPI_Init` and `MPI_Finalize`.
    Unfinalized,
    /// It ended without joining a barrier in which this other rank waits.
    Absent(usize),
    /// It broke the PMI protocol.
    Violation(String),
    /// It could not be started: what was tried, and errno.
    NotStarted(String, i32),
    /// Its host is lost, which is told by itself.
    HostLost,
    /// It failed so when it knew that another rank was dead or out of reach: itself, or its error handler, gave up.
    Answer(Box<Failure>),
}

impl Failure {
    /// The same of a rank that knew of another's death. What nobody does by himself stays what it is.
    pub fn into_answer(self) -> Failure {
        match self {
            // abort() is what assertions and uncaught exceptions come to.
            Failure::Exit(_)
            | Failure::Abort(..)
            | Failure::Unfinalized
            | Failure::Signal(libc::SIGABRT) => Failure::Answer(Box::new(self)),
            other => other,
        }
    }

    fn exit_code(&self) -> i32 {
        match self {
            // Only the low 8 bits reach the shell; an error must not become a success there.
            Failure::Exit(code) | Failure::Abort(code, _) => match (code & 0xff, *code) {
                (0, 0) => 0,
                (0, _) => 1,
                (low, _) => low,
            },
            Failure::Answer(how) => how.exit_code(),
            Failure::Signal(signal) => 128 + signal,
            Failure::Unfinalized | Failure::Absent(_) | Failure::Violation(_) => 1,
            Failure::HostLost => 1,
            Failure::NotStarted(_, libc::EACCES) => 126,
            Failure::NotStarted(_, libc::ENOENT | libc::ENOTDIR) => 127,
            Failure::NotStarted(..) => 1,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // A shell around the program reports its signal so.
            Failure::Exit(code @ 129..=192) => {
                write!(
                    f,
                    "exited with code {code} (128 + {})",
                    signals::describe(code - 128)
                )
            }
            Failure::Exit(code) => write!(f, "exited with code {code}"),
            Failure::Signal(signal) => write!(f, "was killed by {}", signals::describe(*signal)),
            Failure::Abort(code, message) if message.is_empty() => {
                write!(f, "aborted the job with code {code}")
            }
            Failure::Abort(code, message) => {
                write!(f, "aborted the job with code {code}: {message}")
            }
            Failure::Answer(how) => write!(f, "{how}, when it could not reach another rank"),
            Failure::Unfinalized => {
                f.write_str("exited with code 0 after MPI_Init without calling MPI_Finalize (with FMPL or BLACS alone: fmpl_finalize, blacs_exit)")
            }
            Failure::Absent(waiter) => write!(
                f,
                "ended without calling MPI_Init, while rank {waiter} waits for it in MPI_Init or MPI_Finalize"
            ),
            Failure::Violation(what) => write!(f, "sent {what} to the launcher"),
            Failure::NotStarted(what, errno) => {
                let why = os::reason(std::io::Error::from_raw_os_error(*errno));
                write!(f, "could not be started ({what}: {why})")
            }
            Failure::HostLost => f.write_str("was lost with its host"),
        }
    }
}

/// All failures of a job in the order they became known.
#[derive(Default, Debug)]
pub struct Verdict {
    failures: Vec<(usize, Failure)>,
    /// A crash counts no more than what came before it: ranks go on after a failure.
    in_order: bool,
    /// mpiexec's exit code if no rank was started.
    not_started: Option<i32>,
    timed_out: bool,
    /// The signal to mpiexec for which the job was killed.
    killed_for: Option<i32>,
    output_lost: bool,
}

impl Verdict {
    /// No failures yet. `in_order`: the first that is no answer to another is the one that counts.
    pub fn new(in_order: bool) -> Verdict {
        Verdict {
            in_order,
            ..Verdict::default()
        }
    }

    /// Notes that the job could not be started, which has been told, and the exit code for that.
    pub fn refuse(&mut self, code: i32) {
        self.not_started.get_or_insert(code);
    }

    /// Notes a failure of `rank`; only a rank's first counts. Whether this one did.
    pub fn note(&mut self, rank: usize, failure: Failure) -> bool {
        let first = self.failures.iter().all(|(r, _)| *r != rank);
        if first {
            self.failures.push((rank, failure));
        }
        first
    }

    /// Notes that the time allowed is over.
    pub fn time_out(&mut self) {
        self.timed_out = true;
    }

    /// Notes that the job was killed because mpiexec got this signal. Whether that is news.
    pub fn killed_for(&mut self, signal: i32) -> bool {
        let news = self.killed_for.is_none();
        self.killed_for.get_or_insert(signal);
        news
    }

    /// Notes that output could not be written (a full disk), which must not pass for success.
    pub fn lose_output(&mut self) {
        self.output_lost = true;
    }

    /// The failure that explains the others: a crash if there is one (an exit or abort beside it is
    /// more likely somebody's answer to the crash), else the first that is no answer to another, else the first.
    pub fn root(&self) -> Option<&(usize, Failure)> {
        let crash = self
            .failures
            .iter()
            .find(|(_, f)| matches!(f, Failure::Signal(_) | Failure::HostLost) && !self.in_order);
        let causes = || {
            let is_cause = |(_, f): &&(usize, Failure)| !matches!(f, Failure::Answer(_));
            self.failures.iter().find(is_cause)
        };
        crash.or_else(causes).or(self.failures.first())
    }

    /// How this rank failed, if it did.
    pub fn of(&self, rank: usize) -> Option<&Failure> {
        let found = self.failures.iter().find(|(r, _)| *r == rank);
        found.map(|(_, failure)| failure)
    }

    /// How many other ranks failed as well, and not because they could not reach one that had.
    pub fn others(&self) -> usize {
        let root = self.root().map(|(rank, _)| *rank);
        let other = |(rank, how): &&(usize, Failure)| {
            Some(*rank) != root && !matches!(how, Failure::Answer(_))
        };
        self.failures.iter().filter(other).count()
    }

    /// mpiexec's exit code.
    pub fn exit_code(&self) -> i32 {
        if self.timed_out {
            return TIMED_OUT;
        }
        if let Some(code) = self.not_started {
            return code;
        }
        if let Some(signal) = self.killed_for {
            return 128 + signal;
        }
        match self.root() {
            // The ranks die of SIGPIPE because nobody could write what they said.
            Some((_, Failure::Signal(libc::SIGPIPE))) | None if self.output_lost => 1,
            Some((_, failure)) => failure.exit_code(),
            None => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes() {
        let code = |f: Failure| f.exit_code();
        assert_eq!(code(Failure::Exit(3)), 3);
        assert_eq!(code(Failure::Abort(256, String::new())), 1);
        assert_eq!(code(Failure::Abort(-1, String::new())), 255);
        assert_eq!(code(Failure::Abort(0, String::new())), 0);
        assert_eq!(code(Failure::Signal(11)), 139);
        assert_eq!(code(Failure::Unfinalized), 1);
        assert_eq!(code(Failure::NotStarted("x".into(), libc::ENOENT)), 127);
        assert_eq!(code(Failure::NotStarted("x".into(), libc::EACCES)), 126);
        assert_eq!(Verdict::default().exit_code(), 0);
    }

    #[test]
    fn a_crash_explains_an_abort() {
        let mut v = Verdict::default();
        assert!(v.note(1, Failure::Abort(5, "peer died".into())));
        assert!(!v.note(1, Failure::Exit(5)));
        assert_eq!(v.exit_code(), 5);
        assert!(matches!(v.of(1), Some(Failure::Abort(5, _))) && v.of(0).is_none());
        assert!(v.note(0, Failure::Signal(9)));
        assert_eq!(
            (v.root().unwrap().0, v.exit_code(), v.others()),
            (0, 137, 1)
        );
        let mut answered = Verdict::default();
        answered.note(2, Failure::Abort(1, String::new()).into_answer());
        assert_eq!((answered.exit_code(), answered.others()), (1, 0));
        answered.note(1, Failure::Exit(3));
        assert_eq!(answered.others(), 0);
        answered.note(4, Failure::Exit(5));
        answered.note(3, Failure::Exit(1).into_answer());
        assert_eq!(answered.others(), 1);
        assert_eq!((answered.root().unwrap().0, answered.exit_code()), (1, 3));
        // An assertion about a call that failed is no crash of its own; another signal is.
        let mut asserted = Verdict::default();
        asserted.note(2, Failure::Signal(libc::SIGABRT).into_answer());
        assert_eq!(asserted.exit_code(), 134);
        asserted.note(1, Failure::Exit(3));
        assert_eq!(asserted.exit_code(), 3);
        asserted.note(0, Failure::Signal(11).into_answer());
        assert_eq!(asserted.exit_code(), 139);
        let mut first = Verdict::new(true);
        first.note(2, Failure::Exit(1).into_answer());
        first.note(1, Failure::Exit(3));
        first.note(0, Failure::Signal(9));
        assert_eq!(first.exit_code(), 3);
        first.refuse(127);
        assert_eq!(first.exit_code(), 127);
        assert!(v.killed_for(2) && !v.killed_for(15));
        assert_eq!(v.exit_code(), 130);
        v.time_out();
        assert_eq!(v.exit_code(), TIMED_OUT);
    }
}
