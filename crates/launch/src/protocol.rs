//! What mpiexec and the daemons of its hosts tell each other. mpiexec's own ranks speak the same
//! language, without frames: [`Down`] goes to whoever has the ranks of a host, [`Up`] comes from there.
//!
//! Ranks are named by their number in the job. Whoever receives a message checks that its numbers make
//! sense there; decoding only guarantees that the message is one.

use crate::options::Binding;
use report::{Phase, Record};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

/// Output that may be on its way from one host on one stream, in bytes: more than a second's worth at
/// 1 Mbit/s, and little enough for mpiexec to hold for a thousand hosts.
pub const WINDOW: u32 = 256 << 10;

/// The ranks that one host runs, and everything they need.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// Ranks in the whole job.
    pub size: u32,
    /// This host's ranks, ascending, each with the number of its program.
    pub ranks: Vec<(u32, u32)>,
    /// The job's programs.
    pub programs: Vec<Program>,
    /// Which processors the ranks may use.
    pub binding: Binding,
    /// Whether rank 0's standard input comes in messages.
    pub input: bool,
}

/// What all ranks of a program have in common.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// The program and its arguments; never empty.
    pub argv: Vec<OsString>,
    /// Its environment.
    pub variables: BTreeMap<OsString, OsString>,
    /// Its working directory, if not that of the process that starts it.
    pub directory: Option<PathBuf>,
}

/// Everything a daemon has to know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setup {
    /// The number of its host in the tree.
    pub host: u32,
    /// Hosts in the tree.
    pub hosts: u32,
    /// The names of its children's hosts.
    pub children: Vec<String>,
    /// The launcher command, which the host's name and the daemon's command are appended to.
    pub launcher: Vec<OsString>,
    /// mpiexec's working directory.
    pub directory: PathBuf,
    /// mpiexec's file mode mask.
    pub umask: u32,
    /// Signals that mpiexec was started with ignored, which its ranks inherit.
    pub ignored: Vec<i32>,
    /// The ranks to run.
    pub plan: Plan,
}

/// From mpiexec to the ranks of a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Down {
    /// What to do; a daemon's first message from mpiexec.
    Setup(Box<Setup>),
    /// Start the ranks.
    Go,
    /// Send this signal to the process groups of all living ranks.
    Signal(i32),
    /// Send this signal to every process of the job.
    SignalAll(i32),
    /// PMI: send this text to the rank.
    Reply(u32, String),
    /// PMI: the rank broke the protocol, close its socket.
    ClosePmi(u32),
    /// So many more bytes of standard output (0) or error (1) may come.
    Credit(u8, u32),
    /// Nobody reads standard output (0) or error (1) any more.
    CloseOutput(u8),
    /// Standard input of rank 0.
    Input(#[serde(with = "serde_bytes")] Vec<u8>),
    /// There is no more standard input.
    InputEnd,
    /// Send what the ranks noted in the report page, then [`Up::Reported`].
    Report,
    /// This rank is gone and the job goes on; whether because it has finalised MPI.
    Gone(u32, bool),
    /// The sender is about to be stopped by the terminal: its silence means nothing until it speaks.
    Suspend,
    /// The sender lives.
    Alive,
    /// The job is over.
    Dismiss,
}

/// From the ranks of a host to mpiexec.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Up {
    /// A daemon's first message: its version.
    Hello(String),
    /// The host can start its ranks.
    Ready,
    /// The host cannot start its ranks: why, and mpiexec's exit code.
    Refused(String, i32),
    /// This rank has been started as this process.
    Started(u32, i32),
    /// This rank could not be started: step and errno.
    Failed(u32, u32, i32),
    /// This rank's process ended with this wait status.
    Ended(u32, i32),
    /// No process of the job is left here.
    Alone,
    /// The process that keeps the ranks was killed, and they with it: after it had been stopped for so many
    /// seconds, if it had.
    KeeperLost(Option<u32>),
    /// PMI: a line from the rank.
    Line(u32, #[serde(with = "serde_bytes")] Vec<u8>),
    /// PMI: the rank's socket is closed.
    PmiClosed(u32),
    /// PMI: the rank broke the protocol.
    Breach(u32, Breach),
    /// Bytes from the rank's standard output (0) or error (1).
    Output(u32, u8, #[serde(with = "serde_bytes")] Vec<u8>),
    /// No more of them will come.
    OutputEnd(u32, u8),
    /// Rank 0 has taken so many bytes of its standard input.
    InputTaken(u32),
    /// Rank 0 takes no more.
    InputClosed,
    /// What the rank noted in its report page.
    Note(u32, Note),
    /// All notes have been sent.
    Reported,
    /// A host below could not be reached or is gone: which, why, and what its launcher command said.
    Lost(u32, String, #[serde(with = "serde_bytes")] Vec<u8>),
    /// The sender lives.
    Alive,
}

/// How a rank broke the PMI protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Breach {
    /// It sent a line without end.
    EndlessLine,
    /// It does not read the answers.
    UnreadAnswers,
}

/// A [`Record`] between hosts, whose clocks differ: it tells ages instead of times.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    pid: u32,
    phase: u8,
    call: String,
    peer: i32,
    in_job: Option<u32>,
    tag: i32,
    bytes: u64,
    context: u32,
    age_ns: u64,
    bereft: bool,
    stopped: bool,
}

impl Note {
    /// The note that says what `record` says.
    pub fn of(record: &Record) -> Note {
        Note {
            pid: record.pid,
            phase: record.phase as u8,
            call: record.call.clone(),
            peer: record.peer,
            in_job: record.in_job,
            tag: record.tag,
            bytes: record.bytes,
            context: record.context,
            age_ns: report::now_ns().saturating_sub(record.since_ns),
            bereft: record.bereft,
            stopped: record.stopped,
        }
    }

    /// The record as it would be on this host.
    pub fn record(&self) -> Record {
        Record {
            pid: self.pid,
            phase: Phase::from_number(self.phase),
            call: self.call.clone(),
            peer: self.peer,
            in_job: self.in_job,
            tag: self.tag,
            bytes: self.bytes,
            context: self.context,
            since_ns: report::now_ns().saturating_sub(self.age_ns),
            bereft: self.bereft,
            stopped: self.stopped,
        }
    }
}

/// A message as the body of a frame.
pub fn encode<M: Serialize>(message: &M) -> Vec<u8> {
    // These messages are made of things that can always be written.
    postcard::to_allocvec(message).unwrap_or_default()
}

/// The message in the body of a frame. `None` if it is none, or something follows it.
pub fn decode<'a, M: Deserialize<'a>>(body: &'a [u8]) -> Option<M> {
    let (message, rest) = postcard::take_from_bytes(body).ok()?;
    rest.is_empty().then_some(message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn setup() -> Setup {
        let program = Program {
            argv: vec!["a b".into(), "".into()],
            variables: [("X".into(), "1=2".into())].into(),
            directory: Some("/tmp".into()),
        };
        Setup {
            host: 3,
            hosts: 9,
            children: vec!["fe80::1%eth0".into()],
            launcher: vec!["ssh".into(), "-x".into()],
            directory: "/home".into(),
            umask: 0o27,
            ignored: vec![1],
            plan: Plan {
                size: 4,
                ranks: vec![(1, 0), (3, 0)],
                programs: vec![program],
                binding: Binding::Listed(vec![vec![0], vec![1, 2]]),
                input: true,
            },
        }
    }

    #[test]
    fn a_setup_round_trips() {
        let message = Down::Setup(Box::new(setup()));
        let body = encode(&message);
        assert_eq!(decode(&body), Some(message));
        assert_eq!(decode::<Down>(&[body, vec![0]].concat()), None);
        assert_eq!(decode::<Down>(&[]), None);
    }

    #[test]
    fn times_become_ages() {
        let record = Record {
            pid: 7,
            phase: Phase::Waiting,
            call: "MPI_Recv".into(),
            peer: 1,
            in_job: Some(5),
            tag: report::NONE,
            bytes: 8,
            context: 0,
            since_ns: report::now_ns() - 5_000_000_000,
            bereft: true,
            stopped: true,
        };
        let back = Note::of(&record).record();
        assert!(back.since_ns.abs_diff(record.since_ns) < 1_000_000_000);
        assert_eq!(
            back,
            Record {
                since_ns: back.since_ns,
                ..record
            }
        );
    }

    fn up() -> impl Strategy<Value = Up> {
        let bytes = || proptest::collection::vec(any::<u8>(), 0..40);
        prop_oneof![
            ".{0,9}".prop_map(Up::Hello),
            any::<(String, i32)>().prop_map(|(t, c)| Up::Refused(t, c)),
            any::<(u32, u32, i32)>().prop_map(|(r, s, e)| Up::Failed(r, s, e)),
            (any::<u32>(), bytes()).prop_map(|(r, b)| Up::Line(r, b)),
            (any::<u32>(), any::<u8>(), bytes()).prop_map(|(r, w, b)| Up::Output(r, w, b)),
            (any::<u32>(), ".{0,9}", bytes()).prop_map(|(h, t, b)| Up::Lost(h, t, b)),
            any::<u32>().prop_map(|r| Up::Breach(r, Breach::EndlessLine)),
            Just(Up::Alone),
        ]
    }

    proptest! {
        #[test]
        fn messages_round_trip(message in up()) {
            prop_assert_eq!(decode(&encode(&message)), Some(message));
        }

        #[test]
        fn any_body_is_survived(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode::<Up>(&bytes);
            let _ = decode::<Down>(&bytes);
        }

        /// Also what is nearly a message.
        #[test]
        fn a_damaged_setup_is_survived(at in 0usize..120, value: u8) {
            let mut body = encode(&Down::Setup(Box::new(setup())));
            let at = at % body.len();
            body[at] = value;
            let _ = decode::<Down>(&body);
        }
    }
}
