//! Joining and leaving the job.

use cad_run::{Inline, State, barrier};
use fabrics::{Fabrics, Place};
use mtmi::{Exchange, ExchangeError, Matched, Transport};
use std::rc::Rc;
use std::time::{Duration, Instant};
use wireup::Job;

/// How long leaving waits for messages to leave after all processes have come as far; it only bounds
/// a receiver that died.
const FLUSH: Duration = Duration::from_secs(10);

/// The channel of the barrier at the end; not one of the program's.
pub(crate) const OWN_CHANNEL: u32 = u32::MAX;

/// This process's place, and its executor.
pub(crate) struct Process {
    job: Job,
    pub(crate) executor: Inline<Matched<Fabrics>>,
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
        let mut job = Job::join().map_err(|e| e.to_string())?;
        let place = Place {
            rank: job.rank(),
            size: job.size(),
            together: job.local_ranks().len() as u32 == job.size(),
        };
        let secret = |kvs: &mut Kvs| kvs.0.secret().map_err(exchange_error);
        let fabrics =
            Fabrics::start(place, &mut Kvs(&mut job), secret).map_err(|e| e.to_string())?;
        Ok(Process {
            job,
            executor: Inline::new(Matched::new(fabrics)),
        })
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
        let issued = self.executor.issue(&Rc::new(plan), OWN_CHANNEL);
        let issued = issued.map_err(|e| e.to_string())?;
        let state = self.executor.wait(&issued, None);
        if state != State::Done && state != State::Lost {
            return Err("the processes could not wait for each other".into());
        }
        let deadline = Instant::now().checked_add(FLUSH);
        self.executor.into_transport().finalize(deadline);
        self.job.finalize().map_err(|e| e.to_string())
    }
}
