//! What a process knows: its contexts, its system handles, and the libraries below.

use std::cell::{RefCell, RefMut};
use std::ffi::c_int;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use blacs::{Blacs, Error, Grid, Net, Trouble};
use fmpl_table::FmplTable;

use crate::fmpl::Fmpl;
use crate::known;
use crate::mpi::Mpi;
use crate::say::{self, Origin};

/// `MPI_COMM_WORLD` of the MPICH ABI, by which that ABI is recognised: its handles are `int`.
const MPICH_WORLD: usize = 0x4400_0000;

/// BLACS in this process, from the first call that needs it to `blacs_exit`.
pub(crate) struct State {
    pub(crate) table: &'static FmplTable,
    pub(crate) blacs: Blacs<Fmpl>,
    pub(crate) mpi: Mpi,
    /// `MPI_COMM_WORLD`: C's handle and Fortran's.
    pub(crate) world: (usize, i32),
    pub(crate) rank: i32,
    pub(crate) size: i32,
    /// The MPI communicators behind C's system handles, as Fortran handles. The first is `MPI_COMM_WORLD`.
    systems: Vec<Option<i32>>,
}

/// The state and what guards it. The mutex is taken only where MPI says that several threads may call at the same time, as
/// taking and leaving it costs as much as a third of a short message. (It is also taken before that can be known.)
struct Shared {
    /// MPI's flag, null until BLACS is first started.
    threads: AtomicPtr<AtomicBool>,
    lock: Mutex<()>,
    state: RefCell<Option<State>>,
}

// SAFETY: `state` is reached through `enter` only, so by one thread at a time: the mutex sees to it, or the program
// promised it by its thread level, which is the engine's own reason. What it holds are addresses (the faces, handles of the
// loader), which mean the same in all threads.
unsafe impl Sync for Shared {}

static SHARED: Shared = Shared {
    threads: AtomicPtr::new(null_mut()),
    lock: Mutex::new(()),
    state: RefCell::new(None),
};

/// The state, for one thread at a time.
struct Entered {
    // Declared first, so given back first.
    state: RefMut<'static, Option<State>>,
    _lock: Option<MutexGuard<'static, ()>>,
}

/// Enters.
#[inline]
fn enter() -> Entered {
    // A panic ends the process, so nobody left it half changed.
    let take = || SHARED.lock.lock().unwrap_or_else(PoisonError::into_inner);
    let lock = may_be_threaded().then(take);
    Entered {
        state: SHARED.state.borrow_mut(),
        _lock: lock,
    }
}

#[inline(always)]
fn may_be_threaded() -> bool {
    // SAFETY: null, or MPI's flag, which is there for ever.
    let threads = unsafe { SHARED.threads.load(Ordering::Relaxed).as_ref() };
    threads.is_none_or(|flag| flag.load(Ordering::Relaxed))
}

/// Runs `call` on the process's BLACS, which it starts if need be. An error ends all processes.
#[inline]
pub(crate) fn with<T>(
    routine: &str,
    context: c_int,
    call: impl FnOnce(&mut State) -> Result<T, Error>,
) -> T {
    let mut entered = enter();
    let state = entered.state.get_or_insert_with(|| start(routine));
    match call(state) {
        Ok(value) => value,
        Err(error) => {
            let (table, origin) = (state.table, state.origin(context));
            drop(entered);
            say::fatal(Some(table), routine, origin, &error)
        }
    }
}

/// As [`with`], where BLACS was not started there is nothing to do.
pub(crate) fn with_started<T>(
    routine: &str,
    context: c_int,
    call: impl FnOnce(&mut State) -> Result<T, Error>,
) -> Option<T> {
    let started = enter().state.is_some();
    started.then(|| with(routine, context, call))
}

/// Forgets everything; the next call starts anew.
pub(crate) fn take() -> Option<State> {
    known::forget();
    enter().state.take()
}

#[cold]
fn start(routine: &str) -> State {
    match fmpl_table::table() {
        Ok(table) => match State::new(table) {
            Ok(state) => state,
            Err(trouble) => say::fatal(Some(table), routine, Origin::NOWHERE, &trouble),
        },
        Err(why) => say::fatal(None, routine, Origin::NOWHERE, &why),
    }
}

impl State {
    fn new(table: &'static FmplTable) -> Result<State, Trouble> {
        let net = Fmpl::start(table)?;
        let mpi = Mpi::find(table)?;
        let (rank, size) = (net.rank() as i32, net.size() as i32);
        // SAFETY: the table's function has no preconditions.
        let threads = unsafe { (table.threads)() };
        SHARED.threads.store(threads.cast_mut(), Ordering::Relaxed);
        let (mut c, mut fortran) = (0, 0);
        // SAFETY: the addresses are of locals.
        crate::fmpl::check(unsafe { (table.mpi_world)(&mut c, &mut fortran) })?;
        Ok(State {
            table,
            blacs: Blacs::new(net),
            mpi,
            world: (c, fortran),
            rank,
            size,
            systems: vec![Some(fortran)],
        })
    }

    /// Who we are in this context.
    pub(crate) fn origin(&self, context: c_int) -> Origin {
        let place = self.blacs.grid(context).map(Grid::place);
        Origin {
            place: place.unwrap_or((-1, -1)),
            rank: self.rank,
            context,
        }
    }

    /// The Fortran handle of a handle of C.
    pub(crate) fn to_fortran(&self, comm: usize) -> i32 {
        // The upper half of an argument of type int is not defined.
        let comm = match self.world.0 {
            MPICH_WORLD => comm & 0xffff_ffff,
            _ => comm,
        };
        // SAFETY: any value may be given.
        unsafe { (self.table.mpi_comm_c2f)(comm) }
    }

    /// The handle of C of a Fortran handle.
    pub(crate) fn to_c(&self, comm: i32) -> usize {
        // SAFETY: any value may be given.
        unsafe { (self.table.mpi_comm_f2c)(comm) }
    }

    /// The system handle of a communicator; it is entered if it is new.
    pub(crate) fn enter_system(&mut self, comm: i32) -> Result<i32, Error> {
        if let Some(known) = self.systems.iter().position(|one| *one == Some(comm)) {
            return Ok(known as i32);
        }
        // One that isn't a communicator is refused here rather than when it is used.
        self.blacs.net().members(comm)?;
        let place = self.systems.iter().position(Option::is_none);
        let place = place.unwrap_or_else(|| {
            self.systems.push(None);
            self.systems.len() - 1
        });
        self.systems[place] = Some(comm);
        Ok(place as i32)
    }

    /// The communicator behind a system handle, as Fortran handle.
    pub(crate) fn system(&self, handle: i32) -> Result<i32, Error> {
        let place = usize::try_from(handle).ok();
        let comm = place.and_then(|place| self.systems.get(place).copied().flatten());
        comm.ok_or_else(|| {
            Error::Message(Trouble::Other(format!(
                "No system context corresponding to BLACS system context handle {handle}"
            )))
        })
    }

    /// Forgets a system handle; that of `MPI_COMM_WORLD` stays. Whether there was one.
    pub(crate) fn free_system(&mut self, handle: i32) -> bool {
        let place = usize::try_from(handle).unwrap_or(usize::MAX);
        match self.systems.get_mut(place) {
            Some(Some(_)) if place == 0 => true,
            Some(comm) => comm.take().is_some(),
            None => false,
        }
    }

    /// Forgets the system handle of a communicator that is about to be freed.
    pub(crate) fn forget_system(&mut self, comm: i32) {
        for one in self.systems.iter_mut().skip(1) {
            if *one == Some(comm) {
                *one = None;
            }
        }
    }
}
