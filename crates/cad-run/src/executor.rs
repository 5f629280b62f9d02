//! What every executor is to those who issue plans.

use crate::descriptor::Plan;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

/// What has become of an issue; the numbers are those of the word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum State {
    /// END is reached.
    Done = 0,
    /// It is under way.
    Pending = 1,
    /// A message was not as long as its receive node says.
    Length = 2,
    /// A process that takes part is gone.
    Lost = 3,
    /// It was cancelled.
    Cancelled = 4,
    /// It has not been issued yet.
    Idle = 5,
}

/// The word of an issue that is pending and has not begun: a call of the program begins it, when it can.
pub const UNBEGUN: u32 = 6;

impl State {
    /// The state that a word stands for.
    pub fn of(word: u32) -> State {
        match word {
            0 => State::Done,
            1 | UNBEGUN => State::Pending,
            2 => State::Length,
            3 => State::Lost,
            4 => State::Cancelled,
            _ => State::Idle,
        }
    }
}

/// Why a plan was not issued.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotIssued {
    /// The channel is not one that the transport can tell from others.
    Channel,
    /// This executor can't run the plan, or the system refused what it needs: a sentence.
    Unfit(String),
}

impl fmt::Display for NotIssued {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotIssued::Channel => write!(f, "the channel's number is too large"),
            NotIssued::Unfit(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for NotIssued {}

/// An issue, for asking after it. It may be dropped any time.
#[derive(Clone, Debug)]
pub struct Issued {
    word: Arc<AtomicU32>,
    slot: u32,
}

impl Issued {
    /// The issue that has `slot` at its executor and writes `word`. For executors.
    pub fn new(word: Arc<AtomicU32>, slot: u32) -> Issued {
        Issued { word, slot }
    }

    /// One load.
    #[inline]
    pub fn query(&self) -> State {
        State::of(self.word.load(Ordering::Acquire))
    }

    /// Its number at its executor.
    pub fn slot(&self) -> usize {
        self.slot as usize
    }

    /// Whether `word` is what it writes.
    pub fn writes(&self, word: &Arc<AtomicU32>) -> bool {
        Arc::ptr_eq(&self.word, word)
    }
}

/// How much an executor has run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Plans that came to their END.
    pub plans: u64,
    /// Nodes that completed.
    pub nodes: u64,
    /// Of these, how many waited for a call of the program: with `Inline` all.
    pub in_calls: u64,
    /// Of these, how many ran in the handler of a signal.
    pub in_signals: u64,
    /// Of these, how many a program in the kernel calculated.
    pub by_program: u64,
}

/// Runs plans. The n-th issue on a channel belongs to the n-th of the same executor in other processes.
pub trait Executor {
    /// Its name, as `YAMABIKO_CAD` has it.
    fn name(&self) -> &'static str;

    /// Starts a plan on a channel; `word`, with which nothing else is under way, tells how it stands. It
    /// may be over when this returns.
    ///
    /// # Errors
    /// [`NotIssued`]. Nothing was done then, and nothing counted on the channel.
    fn issue_with(
        &mut self,
        plan: &Rc<Plan>,
        channel: u32,
        word: Arc<AtomicU32>,
    ) -> Result<Issued, NotIssued>;

    /// As `issue_with`, with a word of its own.
    ///
    /// # Errors
    /// As of `issue_with`.
    fn issue(&mut self, plan: &Rc<Plan>, channel: u32) -> Result<Issued, NotIssued> {
        let word = Arc::new(AtomicU32::new(State::Idle as u32));
        self.issue_with(plan, channel, word)
    }

    /// Moves what can move now; whether anything did.
    fn progress(&mut self) -> bool;

    /// Until an issue is over, or the deadline has passed.
    fn wait(&mut self, issued: &Issued, deadline: Option<Instant>) -> State;

    /// Takes an issue back; it ends when its buffers are no longer in use.
    fn cancel(&mut self, issued: &Issued);

    /// Somebody else learned that a process is gone: ends what needs it.
    fn lose(&mut self, process: u32);

    /// What it has run.
    fn counts(&mut self) -> Counts;
}

/// The executor that the environment asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// [`Inline`](crate::Inline).
    #[default]
    Inline,
    /// For each of MPI's collectives what suits it ([`cad::chosen`]), `Inline` for graphs of a program's own.
    Auto,
    /// io_uring, crate `cad-ring`.
    Ring,
    /// The kernel's network receive path, crate `cad-softirq`: small collectives of MPI's, and no graphs.
    Softirq,
    /// A thread beside the program's, which goes on with MPI's non-blocking and persistent collectives: no graphs.
    Thread,
}

impl Choice {
    /// The variable's name.
    pub const VARIABLE: &'static str = "YAMABIKO_CAD";

    /// Set and not empty, a rank of an MPI program says at its end where its collectives ran.
    pub const REPORT: &'static str = "YAMABIKO_CAD_REPORT";

    /// What the environment says.
    ///
    /// # Errors
    /// There is no such executor: a sentence.
    pub fn from_environment() -> Result<Choice, String> {
        match std::env::var_os(Choice::VARIABLE) {
            None => Ok(Choice::default()),
            Some(value) => Choice::named(&value.to_string_lossy()),
        }
    }

    fn named(name: &str) -> Result<Choice, String> {
        match name {
            "" => Ok(Choice::default()),
            "auto" => Ok(Choice::Auto),
            "inline" => Ok(Choice::Inline),
            "ring" => Ok(Choice::Ring),
            "softirq" => Ok(Choice::Softirq),
            "thread" => Ok(Choice::Thread),
            other => Err(format!(
                "{} names an executor that does not exist: {other:?}; there are auto, inline, ring, softirq and thread",
                Choice::VARIABLE
            )),
        }
    }

    /// Its name, as the variable has it.
    pub fn name(self) -> &'static str {
        match self {
            Choice::Auto => "auto",
            Choice::Inline => "inline",
            Choice::Ring => "ring",
            Choice::Softirq => "softirq",
            Choice::Thread => "thread",
        }
    }
}

/// Who calculates what [may run anywhere](crate::Descriptor::make_reduction_node) where the kernel runs a plan, as the
/// environment has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Callback {
    /// The kernel, where it [knows](crate::Descriptor::know_reduction) how and a kaccd lets it; else as `Signal`.
    #[default]
    Any,
    /// The same, and where it can't at all, it is said why.
    Program,
    /// The handler of a signal that the kernel raises, while the program computes.
    Signal,
    /// The program's next call.
    None,
}

impl Callback {
    /// The variable's name.
    pub const VARIABLE: &'static str = "YAMABIKO_CAD_CALLBACK";

    /// What the environment says.
    ///
    /// # Errors
    /// There is no such way: a sentence.
    pub fn from_environment() -> Result<Callback, String> {
        match std::env::var_os(Callback::VARIABLE) {
            None => Ok(Callback::default()),
            Some(value) => Callback::named(&value.to_string_lossy()),
        }
    }

    fn named(name: &str) -> Result<Callback, String> {
        match name {
            "" => Ok(Callback::default()),
            "program" => Ok(Callback::Program),
            "signal" => Ok(Callback::Signal),
            "none" => Ok(Callback::None),
            other => Err(format!(
                "{} names a way that does not exist: {other:?}; there are program, signal and none",
                Callback::VARIABLE
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn call_backs_are_chosen_by_name() {
        assert_eq!(Callback::named("signal"), Ok(Callback::Signal));
        assert_eq!(Callback::named("none"), Ok(Callback::None));
        assert_eq!(Callback::named("program"), Ok(Callback::Program));
        assert_eq!(Callback::named(""), Ok(Callback::Any));
        let why = Callback::named("thread").unwrap_err();
        assert!(why.contains("\"thread\"") && why.contains("program, signal and none"));
    }

    #[test]
    fn executors_are_chosen_by_name() {
        let all = [
            Choice::Auto,
            Choice::Inline,
            Choice::Ring,
            Choice::Softirq,
            Choice::Thread,
        ];
        for choice in all {
            assert_eq!(Choice::named(choice.name()), Ok(choice));
        }
        assert_eq!(Choice::named(""), Ok(Choice::Inline));
        let why = Choice::named("Ring").unwrap_err();
        assert!(why.contains("\"Ring\"") && why.contains("auto, inline, ring, softirq and thread"));
    }

    #[test]
    fn words_stand_for_states() {
        for word in 0..=5 {
            assert_eq!(State::of(word) as u32, word);
        }
        assert_eq!(State::of(77), State::Idle);
    }
}
