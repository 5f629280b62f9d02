//! The descriptors of the program, and the state of the library, by thread.

use crate::start::{OWN_CHANNEL, Process};
use cad_run::{Counts, Descriptor, Executor, Issued, NotIssued, Plan, Refused, State};
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use sys::process::ForkMark;

/// Codes of `cad.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub(crate) enum Code {
    State = -10,
    Start = -11,
    Handle = -12,
    Peer = -13,
    Node = -14,
    Memory = -15,
    Many = -16,
    Graph = -17,
    Busy = -18,
    Channel = -19,
    Executor = -20,
}

impl From<Refused> for Code {
    fn from(why: Refused) -> Code {
        match why {
            Refused::Peer(_) => Code::Peer,
            Refused::TooMany => Code::Many,
            Refused::Memory => Code::Memory,
            Refused::Node(_) => Code::Node,
            Refused::Graph(_) => Code::Graph,
        }
    }
}

impl From<NotIssued> for Code {
    fn from(why: NotIssued) -> Code {
        match why {
            NotIssued::Channel => Code::Channel,
            NotIssued::Unfit(why) => {
                sys::say::line(&format!("libcad: a descriptor was not issued: {why}"));
                Code::Executor
            }
        }
    }
}

pub(crate) type Outcome<T> = Result<T, Code>;

enum Stage {
    Making(Descriptor),
    Planned(Rc<Plan>),
    /// Its plan was refused; it can only be freed.
    Refused,
}

/// A descriptor of the program.
pub(crate) struct Entry {
    word: Arc<AtomicU32>,
    channel: u32,
    stage: Stage,
    issued: Option<Issued>,
}

impl Entry {
    fn state(&self) -> State {
        self.issued.as_ref().map_or(State::Idle, Issued::query)
    }

    /// The descriptor while nodes can be made.
    pub(crate) fn making(&mut self) -> Outcome<&mut Descriptor> {
        match &mut self.stage {
            Stage::Making(descriptor) => Ok(descriptor),
            Stage::Planned(_) => Err(Code::Busy),
            Stage::Refused => Err(Code::Graph),
        }
    }
}

/// The library's state in the thread that started it.
pub(crate) struct Library {
    process: Process,
    /// A forked child has a copy of all this, and its parent's ring, which it may not touch.
    mark: ForkMark,
    entries: HashMap<usize, Entry>,
}

thread_local! {
    static LIBRARY: RefCell<Option<Library>> = const { RefCell::new(None) };
}

/// Whether any thread has started the library: a process joins once.
static STARTED: AtomicBool = AtomicBool::new(false);

/// Runs `f` on the library's state. There is none in a forked child, nor when the thread's own data are gone: handlers of `atexit` run after that.
pub(crate) fn with<R>(f: impl FnOnce(&mut Library) -> Outcome<R>) -> Outcome<R> {
    let run = |library: &RefCell<Option<Library>>| {
        let mut library = library.try_borrow_mut().map_err(|_| Code::Busy)?;
        let library = library.as_mut().filter(|library| !library.mark.forked());
        f(library.ok_or(Code::State)?)
    };
    LIBRARY.try_with(run).unwrap_or(Err(Code::State))
}

/// Joins the job; rank and size.
pub(crate) fn start() -> Outcome<(u32, u32)> {
    if STARTED.swap(true, Ordering::Relaxed) {
        return Err(Code::State);
    }
    let process = Process::join().map_err(complain)?;
    let place = (process.rank(), process.size());
    let library = Library {
        process,
        mark: ForkMark::new(),
        entries: HashMap::new(),
    };
    let kept = LIBRARY.try_with(|l| l.replace(Some(library)));
    kept.map(|_| place).map_err(|_| Code::State)
}

fn complain(why: String) -> Code {
    sys::say::line(&format!("libcad: starting up failed: {why}"));
    Code::Start
}

/// Leaves the job. What was not freed is gone.
pub(crate) fn finish() -> Outcome<()> {
    with(|l| l.none_pending())?;
    let library = LIBRARY.with(RefCell::take).ok_or(Code::State)?;
    library.process.leave().map_err(|why| {
        sys::say::line(&format!("libcad: leaving the job failed: {why}"));
        Code::Start
    })
}

impl Library {
    fn none_pending(&mut self) -> Outcome<()> {
        let pending = |e: &Entry| e.state() == State::Pending;
        match self.entries.values().any(pending) {
            true => Err(Code::Busy),
            false => Ok(()),
        }
    }

    /// A new descriptor; its handle.
    pub(crate) fn init(&mut self, channel: u32, members: Option<Vec<u32>>) -> Outcome<usize> {
        if channel == OWN_CHANNEL {
            return Err(Code::Channel);
        }
        let size = self.process.size();
        if members
            .as_ref()
            .is_some_and(|m| m.iter().any(|&p| p >= size))
        {
            return Err(Code::Peer);
        }
        let word = Arc::new(AtomicU32::new(State::Idle as u32));
        let handle = Arc::as_ptr(&word) as usize;
        let entry = Entry {
            word,
            channel,
            stage: Stage::Making(Descriptor::new(self.process.rank(), size, members)),
            issued: None,
        };
        self.entries.insert(handle, entry);
        Ok(handle)
    }

    pub(crate) fn entry(&mut self, handle: usize) -> Outcome<&mut Entry> {
        self.entries.get_mut(&handle).ok_or(Code::Handle)
    }

    fn executor(&mut self) -> &mut dyn Executor {
        self.process.executor()
    }

    /// The executor's name, and what it has run.
    pub(crate) fn counts(&mut self) -> (&'static str, Counts) {
        let executor = self.executor();
        (executor.name(), executor.counts())
    }

    pub(crate) fn issue(&mut self, handle: usize) -> Outcome<()> {
        let entry = self.entries.get_mut(&handle).ok_or(Code::Handle)?;
        if entry.state() == State::Pending {
            return Err(Code::Busy);
        }
        let plan = match std::mem::replace(&mut entry.stage, Stage::Refused) {
            Stage::Making(descriptor) => Rc::new(descriptor.plan()?),
            Stage::Planned(plan) => plan,
            Stage::Refused => return Err(Code::Graph),
        };
        entry.stage = Stage::Planned(plan.clone());
        let issued = self
            .process
            .executor()
            .issue_with(&plan, entry.channel, entry.word.clone());
        entry.issued = Some(issued?);
        Ok(())
    }

    pub(crate) fn progress(&mut self) {
        self.process.progress(|| false);
    }

    /// How a descriptor stands after what can move has moved.
    pub(crate) fn test(&mut self, handle: usize) -> Outcome<State> {
        let entry = self.entry(handle)?;
        if entry.state() == State::Pending {
            let issued = entry.issued.clone();
            self.process
                .progress(|| issued.as_ref().is_none_or(|i| i.query() != State::Pending));
        }
        Ok(self.entry(handle)?.state())
    }

    pub(crate) fn wait(&mut self, handle: usize) -> Outcome<State> {
        match self.entry(handle)?.issued.clone() {
            Some(issued) => Ok(self.process.wait(&issued)),
            None => Ok(State::Idle),
        }
    }

    pub(crate) fn cancel(&mut self, handle: usize) -> Outcome<()> {
        if let Some(issued) = self.entry(handle)?.issued.clone() {
            self.executor().cancel(&issued);
        }
        Ok(())
    }

    pub(crate) fn free(&mut self, handle: usize) -> Outcome<()> {
        if self.entry(handle)?.state() == State::Pending {
            return Err(Code::Busy);
        }
        self.entries.remove(&handle);
        Ok(())
    }
}
