//! Joining and leaving the job.

use cad_ring::{Meet, Opening, Ring};
use cad_run::{Callback, Choice, Executor, Inline, Issued, State, barrier};
use fabrics::{Fabrics, Place};
use mtmi::{Exchange, ExchangeError, Matched, Transport};
use report::ReportPage;
use std::rc::Rc;
use std::time::{Duration, Instant};
use wireup::Job;

/// How long leaving waits for messages to leave after all processes have come as far; it only bounds
/// a receiver that died.
const FLUSH: Duration = Duration::from_secs(10);

/// How often a waiting process looks at the launcher's page, where that may tell of deaths.
const LOOK: Duration = Duration::from_millis(100);

/// Looks at the transport in one call, if each moves something: the same as in a test of MPI's. A ring has its own bound.
const PASSES: u32 = 16;

/// The channel of the barrier at the end; not one of the program's.
pub(crate) const OWN_CHANNEL: u32 = u32::MAX;

/// This process's place, and its executors.
pub(crate) struct Process {
    job: Job,
    /// What the program's descriptors run on, unless there is a ring; and the barrier at the end.
    inline: Inline<Matched<Fabrics>>,
    ring: Option<Ring>,
    deaths: Option<Deaths>,
}

/// Where the launcher tells of deaths, if it lets the job go on then.
struct Deaths {
    page: ReportPage,
    seen: u32,
}

/// The launcher's key-value space, as fabrics use it.
struct Kvs<'a>(&'a mut Job);

fn exchange_error(e: impl std::fmt::Display) -> ExchangeError {
    ExchangeError(e.to_string())
}

impl Exchange for Kvs<'_> {
    fn put(&mut self, key: &str, value: &str) -> Result<(), ExchangeError> {
        self.0.put(key, value).map_err(exchange_error)
    }

    fn get(&mut self, key: &str) -> Result<String, ExchangeError> {
        let missing = || ExchangeError(format!("no process published {key}"));
        self.0.get(key).map_err(exchange_error)?.ok_or_else(missing)
    }

    fn barrier(&mut self) -> Result<(), ExchangeError> {
        self.0.barrier().map_err(exchange_error)
    }
}

impl Process {
    /// Joins the job; the error is a sentence.
    pub(crate) fn join() -> Result<Process, String> {
        if let Some(other) = sys::process::claim("libcad.so.0") {
            return Err(format!(
                "this process already speaks to the job through {other}"
            ));
        }
        let choice = Choice::from_environment()?;
        let callback = Callback::from_environment()?;
        let mut job = Job::join().map_err(|e| e.to_string())?;
        let place = Place {
            rank: job.rank(),
            size: job.size(),
            together: job.local_ranks().len() as u32 == job.size(),
        };
        let mut known = None;
        let secret = |kvs: &mut Kvs| {
            let secret = kvs.0.secret().map_err(exchange_error)?;
            known = Some(secret);
            Ok(secret)
        };
        let fabrics =
            Fabrics::start(place, &mut Kvs(&mut job), secret).map_err(|e| e.to_string())?;
        let ring = agree(choice, callback, &mut job, known)?;
        let told = report::keeps_running();
        // A job of its own below another process inherits that one's page, which is not its own.
        let page = (told && !job.is_singleton()).then(|| ReportPage::join(job.rank()));
        Ok(Process {
            job,
            inline: Inline::new(Matched::new(fabrics)),
            ring,
            deaths: page.map(|page| Deaths { page, seen: 0 }),
        })
    }

    /// Takes note of processes that the launcher says are dead.
    fn hear_of_deaths(&mut self) {
        let Some(deaths) = &mut self.deaths else {
            return;
        };
        let number = deaths.page.deaths();
        if number == deaths.seen {
            return;
        }
        deaths.seen = number;
        for process in 0..self.job.size() {
            if !deaths.page.is_gone(process) {
                continue;
            }
            match (&mut self.ring, deaths.page.has_left(process)) {
                (Some(ring), true) => ring.part_from(process),
                (Some(ring), false) => {
                    self.inline.lose(process);
                    ring.lose(process);
                }
                (None, _) => self.inline.lose(process),
            }
        }
    }

    /// Moves whatever can move, as long as something does, but not for ever, and until `over`.
    pub(crate) fn progress(&mut self, over: impl Fn() -> bool) {
        self.hear_of_deaths();
        let passes = if self.ring.is_some() { 1 } else { PASSES };
        let executor = self.executor();
        for _ in 0..passes {
            if !executor.progress() || over() {
                break;
            }
        }
    }

    /// Until an issue of an executor is over.
    pub(crate) fn wait(&mut self, issued: &Issued) -> State {
        self.wait_on(issued, Process::executor)
    }

    fn wait_on(
        &mut self,
        issued: &Issued,
        executor: fn(&mut Process) -> &mut dyn Executor,
    ) -> State {
        loop {
            self.hear_of_deaths();
            let look = self.deaths.as_ref().and_then(|_| sys::clock::after(LOOK));
            let state = executor(self).wait(issued, look);
            if state != State::Pending {
                return state;
            }
        }
    }

    /// What the program's descriptors run on.
    pub(crate) fn executor(&mut self) -> &mut dyn Executor {
        match &mut self.ring {
            Some(ring) => ring,
            None => &mut self.inline,
        }
    }

    pub(crate) fn rank(&self) -> u32 {
        self.job.rank()
    }

    pub(crate) fn size(&self) -> u32 {
        self.job.size()
    }

    /// Leaves the job, after all others that are alive have come as far.
    pub(crate) fn leave(mut self) -> Result<(), String> {
        let plan = barrier(self.rank(), self.size()).map_err(|e| e.to_string())?;
        let issued = self.inline.issue(&Rc::new(plan), OWN_CHANNEL);
        let issued = issued.map_err(|e| e.to_string())?;
        let state = self.wait_on(&issued, |process| &mut process.inline);
        if state != State::Done && state != State::Lost {
            return Err("the processes could not wait for each other".into());
        }
        let deadline = Instant::now().checked_add(FLUSH);
        drop(self.ring);
        self.inline.into_transport().finalize(deadline);
        self.job.finalize().map_err(|e| e.to_string())
    }
}

/// What the card of a process says that runs inline.
const INLINE: &str = "inline";
/// What the card of a process says whose executor does not work.
const NONE: &str = "-";

/// The ring, if that is the choice. All processes of the job call this, and make the same choice, or all
/// that differ from the first fail. `secret` is what only they know, where they are on several machines.
fn agree(
    choice: Choice,
    callback: Callback,
    job: &mut Job,
    secret: Option<[u8; 32]>,
) -> Result<Option<Ring>, String> {
    let refused = |why: &dyn std::fmt::Display| {
        format!("{}={} can't be: {why}", Choice::VARIABLE, choice.name())
    };
    if matches!(choice, Choice::Softirq | Choice::Thread) {
        return Err(refused(&"it runs no graphs, only collectives of MPI"));
    }
    let apart = job.local_ranks().len() as u32 != job.size();
    let opening = (choice == Choice::Ring).then(|| {
        let mut opening = Opening::new()?;
        if apart {
            opening.reach(job.local_ranks().len() as u32)?;
        }
        Ok::<_, cad_ring::Unusable>(opening)
    });
    let card = match &opening {
        None => INLINE.to_owned(),
        Some(Ok(opening)) => opening.card(),
        Some(Err(_)) => NONE.to_owned(),
    };
    let key = |rank: u32| format!("cad.{rank}");
    let told = |e: wireup::Error| e.to_string();
    let mut cards = Vec::new();
    if job.size() > 1 {
        job.put(&key(job.rank()), &card).map_err(told)?;
        job.barrier().map_err(told)?;
        // Whoever runs inline only has to know that the first does.
        let asked = if opening.is_some() { job.size() } else { 1 };
        for rank in 0..asked {
            cards.push(job.get(&key(rank)).map_err(told)?.unwrap_or_default());
        }
    } else {
        cards.push(card);
    }
    let Some(opening) = opening else {
        return match cards.first().is_some_and(|c| c == INLINE) {
            true => Ok(None),
            false => Err(refused(&"rank 0 uses another executor")),
        };
    };
    let opening = opening.map_err(|why| refused(&why))?;
    let ring = opening.join(job.rank(), &cards, secret, callback, Meet::AtOnce);
    ring.map(Some).map_err(|why| refused(&why))
}
