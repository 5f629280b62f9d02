//! What a process knows: its contexts, its system handles, and the libraries below.

use std::ffi::c_int;
use std::sync::{Mutex, MutexGuard, PoisonError};

use blacs::{Blacs, Error, Grid, Net, Trouble};
use fmpl_table::FmplTable;

use crate::fmpl::Fmpl;
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

// SAFETY: what keeps it from being sent are addresses (the faces, handles of the loader), which mean the same
// in all threads, and the lock around it lets one in at a time.
unsafe impl Send for State {}

static STATE: Mutex<Option<State>> = Mutex::new(None);

/// Takes the lock; a panic ends the process, so nobody left it half changed.
fn lock() -> MutexGuard<'static, Option<State>> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs `call` on the process's BLACS, which it starts if need be. An error ends all processes.
#[inline]
pub(crate) fn with<T>(
    routine: &str,
    context: c_int,
    call: impl FnOnce(&mut State) -> Result<T, Error>,
) -> T {
    let mut guard = lock();
    let state = guard.get_or_insert_with(|| start(routine));
    match call(state) {
        Ok(value) => value,
        Err(error) => {
            let (table, origin) = (state.table, state.origin(context));
            drop(guard);
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
    let started = lock().is_some();
    started.then(|| with(routine, context, call))
}

/// Forgets everything; the next call starts anew.
pub(crate) fn take() -> Option<State> {
    lock().take()
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
