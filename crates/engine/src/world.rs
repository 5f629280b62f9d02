//! Start and end: who this process is, its fabric, and the two predefined communicators.

use std::rc::Rc;
use std::time::Duration;

use boundary::UserBuf;
use fabrics::{Fabrics, Place};
use mtmi::slot::Slots;
use mtmi::{Exchange, ExchangeError, Matched, Transport};
use report::{Phase as ReportPhase, ReportPage};
use types::{Fault, Result, consts, fault};
use wireup::Job;

use crate::attr;
use crate::coll::names::Names;
use crate::coll::{Call, team};
use crate::comm::{Comm, OF_END, OF_SELF, OF_WORLD, context};
use crate::graphs::Plan;
use crate::group::Group;
use crate::kernel;
use crate::mistakes;
use crate::short::short;
use crate::softirq;
use crate::state::{Engine, Phase, lock};

/// What carries this process's messages.
pub type Fabric = Matched<Fabrics>;

/// What exists between `MPI_Init` and `MPI_Finalize`.
pub struct World {
    pub(crate) job: Job,
    pub(crate) fabric: Fabric,
    pub(crate) report: Option<ReportPage>,
}

/// The barrier at the end, in the hang report.
static END: Names = Names::only("MPI_Finalize");

/// How long finalize waits for messages to leave after all ranks have reached it. By then every
/// receiver has taken what it wanted, so this only bounds a receiver that died.
const FLUSH: Duration = Duration::from_secs(10);

/// Time in which another launcher, which does not read what this rank knows, may learn of a death by itself before this rank
/// aborts the job because of it: our own waits as long.
const CAUSE: Duration = Duration::from_millis(300);

/// The launcher's key-value space, as fabrics use it.
struct Kvs<'a>(&'a mut Job);

fn exchange_error(e: impl std::fmt::Display) -> ExchangeError {
    ExchangeError(e.to_string())
}

impl Exchange for Kvs<'_> {
    fn put(&mut self, key: &str, value: &str) -> std::result::Result<(), ExchangeError> {
        self.0.put(key, value).map_err(exchange_error)
    }

    fn get(&mut self, key: &str) -> std::result::Result<String, ExchangeError> {
        let missing = || ExchangeError(format!("no process published {key}"));
        self.0.get(key).map_err(exchange_error)?.ok_or_else(missing)
    }

    fn barrier(&mut self) -> std::result::Result<(), ExchangeError> {
        self.0.barrier().map_err(exchange_error)
    }
}

pub(crate) fn startup_fault(e: impl std::fmt::Display) -> Box<Fault> {
    fault(consts::ERR_OTHER, format!("starting up failed: {e}"))
}

fn two_libraries(first: &str, second: &str) -> Box<Fault> {
    let text = format!(
        "this process already uses MPI through {first}, and {second} can't join in: one process can \
         use only one MPI library, so all its parts have to be built for the same ABI"
    );
    fault(consts::ERR_OTHER, text)
}

/// The fabrics, and what only the job's processes know, if it took that.
fn start_fabrics(job: &mut Job) -> Result<(Fabrics, Option<[u8; 32]>)> {
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
    let fabrics = Fabrics::start(place, &mut Kvs(job), secret).map_err(startup_fault)?;
    let wanted = std::env::var_os(wireup::REPORT_FABRICS_VARIABLE).is_some_and(|v| !v.is_empty());
    if place.rank == 0 && wanted {
        let lines = fabrics.describe();
        let say = |line: &String| sys::say::line(&format!("yamabiko: {line}"));
        lines.iter().for_each(say);
    }
    Ok((fabrics, known))
}

impl Engine {
    /// Joins the job and makes the predefined communicators. `settled`: whether the level of threads stays as it is.
    pub(crate) fn start_world(&self, thread_level: i32, settled: bool) -> Result<()> {
        if let Some(other) = sys::process::claim(self.hooks.library) {
            return Err(two_libraries(other.as_str(), self.hooks.library));
        }
        let mut job = Job::join().map_err(startup_fault)?;
        let (rank, size) = (job.rank(), job.size());
        mistakes::introduce(rank);
        // A job of its own below another rank inherits that rank's page, which is not its own.
        let page = match job.is_singleton() {
            true => ReportPage::absent(),
            false => ReportPage::join(rank),
        };
        let asked = kernel::open(&mut job, thread_level, settled)?;
        let daemon = softirq::open(&mut job)?;
        let (mut fabrics, secret) = start_fabrics(&mut job)?;
        let daemon = match daemon {
            Some(asked) => softirq::join(asked, &mut job, &mut fabrics)?,
            None => None,
        };
        let ring = match asked {
            Some(asked) => kernel::join(asked, &mut job, &mut fabrics, secret)?,
            None => None,
        };
        let told = report::keeps_running() && page.is_present();
        if told {
            fabrics.expect_deaths();
        }
        let fabric = Matched::beside(fabrics, short().ordinary());
        page.phase(ReportPhase::Running);
        self.least_bound.set(fabric.limits().unmatched_bytes as u64);
        self.failures.told.set(told);
        let report = page.is_present().then_some(page);
        self.world.replace(Some(World {
            job,
            fabric,
            report,
        }));
        self.make_communicators(rank, size);
        if let Some(ring) = ring {
            self.begin_kernel(ring, rank, size);
        }
        self.start_short()?;
        self.phase.set(Phase::Running);
        self.choose_progress_thread(size)?;
        self.set_thread_level(thread_level);
        match daemon {
            Some(reached) => self.start_softirq(reached),
            None => Ok(()),
        }
    }

    /// Sets what the program promised of its threads; the caller is the main one.
    pub(crate) fn set_thread_level(&self, level: i32) {
        self.thread_level.set(level);
        self.main_thread.set(sys::lock::thread_pointer() as u64);
        lock().set_threaded(self.is_threaded());
        let alone = !self.is_threaded();
        self.transport(|m| m.fabric().use_alone(alone));
        self.settle_door();
    }

    fn make_communicators(&self, rank: u32, size: u32) {
        let all = Rc::new(Group::new((0..size).collect()));
        let me = Rc::new(Group::new(vec![rank]));
        let fatal = || self.errors_are_fatal.clone();
        let world = Comm::new(context(0, OF_WORLD), None, all, rank, fatal());
        let own = Comm::new(context(rank, OF_SELF), None, me, 0, fatal());
        world.handle.set(consts::COMM_WORLD);
        own.handle.set(consts::COMM_SELF);
        world.name.replace("MPI_COMM_WORLD".into());
        own.name.replace("MPI_COMM_SELF".into());
        self.comm_world.replace(Some(Rc::new(world)));
        self.comm_self.replace(Some(Rc::new(own)));
    }

    /// Memory that other ranks of this machine map; `None` where there is none.
    pub(crate) fn alloc_mapped(&self, bytes: usize) -> Option<UserBuf> {
        let mut world = self.world.borrow_mut();
        world.as_mut()?.fabric.alloc_mapped(bytes)
    }

    /// Gives such memory back. False: it is not, and nothing was done.
    pub(crate) fn free_mapped(&self, memory: UserBuf) -> bool {
        let mut world = self.world.borrow_mut();
        world.as_mut().is_some_and(|w| w.fabric.free_mapped(memory))
    }

    /// Ends MPI in this process, after all others have come as far; also where a callback that deletes an attribute fails, which is told then.
    pub(crate) fn stop_world(&self) -> Result<()> {
        let own = self.comm(consts::COMM_SELF)?;
        let cleared = attr::clear(self, &own.attributes, consts::COMM_SELF);
        let world = self.comm(consts::COMM_WORLD)?;
        let cleared = cleared.and(attr::clear(self, &world.attributes, consts::COMM_WORLD));
        self.stop_world_of(&world)?;
        cleared.map_err(|mut why| {
            why.on = Some(self.handler_of_last_resort());
            why
        })
    }

    /// The same, of the communicator of all, without its attributes.
    fn stop_world_of(&self, world: &Comm) -> Result<()> {
        if self.softirq.is_on() {
            self.finish_lanes();
        }
        self.drain("MPI_Finalize");
        let (all, fatal) = (world.group.clone(), self.errors_are_fatal.clone());
        let end = Rc::new(Comm::new(context(0, OF_END), None, all, world.rank, fatal));
        end.handle.set(consts::COMM_WORLD);
        let last = Call::new(&END, end.clone(), self.graph(Plan::Barrier(team(&end))));
        match self.run_collective(last) {
            // Who is left ends without those who are gone, also where only somebody else has found them so and has ended.
            Err(why) if self.has_lost_any() || why.class == consts::ERR_PROC_ABORTED => {}
            end => end?,
        }
        self.phase.set(Phase::Finalized);
        self.settle_door();
        if let Some(extension) = self.extension.take() {
            extension.ended();
        }
        self.report_in_calls(world.rank);
        self.stop_progress_thread(world.rank);
        self.ended.clear();
        self.stop_kernel();
        self.stop_softirq(world.rank);
        self.report_bound(world.rank);
        let Some(World {
            mut job,
            fabric,
            report,
        }) = self.world.take()
        else {
            return Ok(());
        };
        fabric.finalize(sys::clock::after(FLUSH));
        self.forget_bound();
        if let Some(page) = &report {
            page.phase(ReportPhase::Finalized);
        }
        job.finalize()
            .map_err(|e| fault(consts::ERR_OTHER, format!("leaving the job failed: {e}")))
    }

    /// Ends the whole job with `code`, saying why. It is said here and not to the launcher, which would
    /// say it again.
    pub fn abort_job(&self, code: i32, message: &str) -> ! {
        sys::say::line(&format!("yamabiko: {message}"));
        // A forked child ends alone: the job that it inherited is its parent's, who may be well.
        if !self.fork_mark.forked()
            && let Ok(mut world) = self.world.try_borrow_mut()
            && let Some(world) = world.as_mut()
        {
            match &world.report {
                Some(page) => page.phase(ReportPhase::Aborted),
                None if self.failures.bereft.get() => std::thread::sleep(CAUSE),
                None => {}
            }
            // If the launcher can't be told, ending this process still makes it end the others.
            let _ = world.job.abort(code, "");
        }
        sys::process::end(code)
    }
}
