//! What the exported functions do, in values rather than addresses. C's and Fortran's differ only in how a system
//! context is named: by C's handle table, or by the Fortran handle of an MPI communicator.

use std::ffi::c_int;

use blacs::{Combine, Element, Error, Grid, Locations, Operation, Options, Part, Scope, Shape};
use boundary::UserBuf;
use fmpl_table::code;

use crate::fmpl;
use crate::known;
use crate::say;
use crate::state::{self, State};

/// Which language a system context's name is of.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Language {
    C,
    Fortran,
}

/// What a context of a process is that is not in the grid.
const NOT_IN_CONTEXT: c_int = -1;

/// The part of a matrix, as a call names it.
#[derive(Clone, Copy)]
pub(crate) enum Named {
    /// All of it.
    General,
    /// By `UPLO` and `DIAG`.
    Trapezoid { uplo: u8, diag: u8 },
}

impl Named {
    #[inline]
    pub(crate) fn trapezoid(uplo: u8, diag: u8) -> Named {
        Named::Trapezoid { uplo, diag }
    }

    #[inline]
    fn part(self) -> Part {
        match self {
            Named::General => Part::General,
            Named::Trapezoid { uplo, diag } => Part::trapezoid(uplo, diag),
        }
    }
}

/// A matrix, and which of its elements are meant.
pub(crate) struct Matrix {
    pub(crate) element: Element,
    pub(crate) part: Named,
    pub(crate) m: c_int,
    pub(crate) n: c_int,
    pub(crate) a: UserBuf,
    pub(crate) lda: c_int,
}

impl Matrix {
    /// Its bytes, if it is one short column.
    #[inline(always)]
    fn column(&self) -> Option<usize> {
        Shape::column(self.part.part(), self.m, self.n, self.element.size())
    }

    /// Its bytes, if it is a single piece in one run.
    #[inline]
    fn piece(&self) -> Option<usize> {
        Shape::piece(
            self.part.part(),
            self.m,
            self.n,
            self.lda,
            self.element.size(),
        )
    }

    #[inline]
    fn shape(&self, call: &Call<'_>) -> Result<Shape, Error> {
        self.check(call);
        let shape = Shape::new(
            self.part.part(),
            self.m,
            self.n,
            self.lda,
            self.element.size(),
        );
        shape.ok_or(Error::Size(self.m, self.n))
    }

    /// Warns of what means nothing and is taken for something, as the BLACS of netlib does when it is built to check arguments.
    #[inline]
    fn check(&self, call: &Call<'_>) {
        if let Named::Trapezoid { uplo, diag } = self.part {
            check_letter(call, "UPLO", uplo, b"UL", "LOWER");
            check_letter(call, "DIAG", diag, b"UN", "NON-UNIT");
        }
        let (m, n, lda) = (self.m, self.n, self.lda);
        for (what, letter, size) in [("rows", 'M', m), ("columns", 'N', n)] {
            if size < 0 {
                call.warn(&format_args!(
                    "Illegal number of {what}, {letter}={size}; assumed to be 0"
                ));
            }
        }
        if Shape::is_cramped(m, n, lda) {
            call.warn(&format_args!(
                "Illegal LDA, LDA={lda}, M={m}; LDA assumed to be {m}"
            ));
        }
    }
}

/// Warns of a letter that is none of these.
#[inline]
fn check_letter(call: &Call<'_>, name: &str, given: u8, known: &[u8], meaning: &str) {
    if !known.contains(&given.to_ascii_uppercase()) {
        let given = given.escape_ascii();
        call.warn(&format_args!(
            "{name}={given}, will be assumed to mean {meaning}"
        ));
    }
}

/// Who called, for warnings.
struct Call<'a> {
    routine: &'a str,
    context: c_int,
    state: &'a State,
}

impl<'a> Call<'a> {
    #[inline]
    fn of(routine: &'a str, context: c_int, state: &'a State) -> Call<'a> {
        Call {
            routine,
            context,
            state,
        }
    }

    #[cold]
    #[inline(never)]
    fn warn(&self, what: &dyn std::fmt::Display) {
        say::warn(self.routine, self.state.origin(self.context), what);
    }
}

const SEND: &str = "BLACS send";
const RECEIVE: &str = "BLACS receive";

/// Sends a matrix of one short column, if the context is known. False: nothing was done.
#[inline(always)]
pub(crate) fn send_short(context: c_int, matrix: &Matrix, to: (c_int, c_int)) -> bool {
    matrix
        .column()
        .is_some_and(|bytes| send_known(context, matrix.a, bytes, to))
}

/// Sends a message of one piece, if the context is known.
#[inline(always)]
fn send_known(context: c_int, a: UserBuf, bytes: usize, to: (c_int, c_int)) -> bool {
    let Some((ends, table)) = known::find(context) else {
        return false;
    };
    let Some(end) = ends.next_to(to) else {
        return false;
    };
    match fmpl::send(table, end, a, bytes) {
        code::SUCCESS => true,
        code => failed(SEND, code),
    }
}

pub(crate) fn send(context: c_int, matrix: &Matrix, to: (c_int, c_int)) {
    if let Some(bytes) = matrix.piece()
        && send_known(context, matrix.a, bytes, to)
    {
        return;
    }
    state::with(SEND, context, |state| {
        let shape = matrix.shape(&Call::of(SEND, context, state))?;
        state.blacs.send(context, &shape, matrix.a, to)?;
        known::know(state, context);
        Ok(())
    });
}

/// Receives such a matrix.
#[inline(always)]
pub(crate) fn receive_short(context: c_int, matrix: &Matrix, from: (c_int, c_int)) -> bool {
    matrix
        .column()
        .is_some_and(|bytes| receive_known(context, matrix.a, bytes, from))
}

/// Receives such a message.
#[inline(always)]
fn receive_known(context: c_int, a: UserBuf, bytes: usize, from: (c_int, c_int)) -> bool {
    let Some((ends, table)) = known::find(context) else {
        return false;
    };
    let Some(end) = ends.next_from(from) else {
        return false;
    };
    match fmpl::recv(table, end, a, bytes) {
        code::SUCCESS => true,
        code => failed(RECEIVE, code),
    }
}

pub(crate) fn receive(context: c_int, matrix: &Matrix, from: (c_int, c_int)) {
    if let Some(bytes) = matrix.piece()
        && receive_known(context, matrix.a, bytes, from)
    {
        return;
    }
    state::with(RECEIVE, context, |state| {
        let shape = matrix.shape(&Call::of(RECEIVE, context, state))?;
        state.blacs.receive(context, &shape, matrix.a, from)?;
        known::know(state, context);
        Ok(())
    });
}

/// FMPL refused a message of the context that is known: ends all processes.
#[cold]
#[inline(never)]
fn failed(routine: &str, code: i32) -> bool {
    state::with(routine, known::context(), |_| Ok(fmpl::check(code)?));
    true
}

pub(crate) fn broadcast(context: c_int, scope: u8, topology: u8, matrix: &Matrix) {
    let routine = "BLACS broadcast";
    state::with(routine, context, |state| {
        let scope = Scope::of(scope)?;
        let shape = matrix.shape(&Call::of(routine, context, state))?;
        state
            .blacs
            .broadcast(context, scope, topology, &shape, matrix.a)
    });
}

pub(crate) fn receive_broadcast(
    context: c_int,
    scope: u8,
    topology: u8,
    matrix: &Matrix,
    from: (c_int, c_int),
) {
    let routine = "BLACS broadcast receive";
    state::with(routine, context, |state| {
        let scope = Scope::of(scope)?;
        let shape = matrix.shape(&Call::of(routine, context, state))?;
        state
            .blacs
            .receive_broadcast(context, scope, topology, &shape, matrix.a, from)
    });
}

/// Where the coordinates of elements go, with their leading dimension; -1 means nowhere.
pub(crate) struct Found {
    pub(crate) rows: UserBuf,
    pub(crate) columns: UserBuf,
    pub(crate) leading: c_int,
}

pub(crate) fn combine(
    context: c_int,
    (scope, topology): (u8, u8),
    operation: Operation,
    matrix: &Matrix,
    found: Option<Found>,
    destination: (c_int, c_int),
) {
    let routine = "BLACS combine";
    state::with(routine, context, |state| {
        let call = Call::of(routine, context, state);
        matrix.check(&call);
        let found = found.filter(|found| found.leading != -1);
        if let Some(found) = &found
            && Shape::is_cramped(matrix.m, matrix.n, found.leading)
        {
            let (m, ldia) = (matrix.m, found.leading);
            call.warn(&format_args!("LDIA too small (LDIA={ldia}, but M={m})"));
        }
        let what = Combine {
            scope: Scope::of(scope)?,
            topology,
            operation,
            element: matrix.element,
            m: matrix.m,
            n: matrix.n,
            lda: matrix.lda,
            a: matrix.a,
            locations: found.map(|found| Locations {
                rows: found.rows,
                columns: found.columns,
                leading: found.leading.max(matrix.m).max(0) as usize,
            }),
            destination,
        };
        state.blacs.combine(context, &what)
    });
}

/// Our rank and how many processes there are.
pub(crate) fn pinfo() -> (c_int, c_int) {
    state::with("BLACS_PINFO", -1, |state| Ok((state.rank, state.size)))
}

/// A communicator for a context's name.
fn system(state: &State, language: Language, handle: c_int) -> Result<i32, Error> {
    match language {
        Language::C => state.system(handle),
        Language::Fortran => Ok(handle),
    }
}

pub(crate) fn gridinit(
    language: Language,
    handle: c_int,
    order: u8,
    rows: c_int,
    columns: c_int,
) -> c_int {
    state::with("BLACS_GRIDINIT", -1, |state| {
        Grid::check(rows, columns, state.size as usize)?;
        let map = Grid::in_order(order.eq_ignore_ascii_case(&b'c'), rows, columns);
        make(state, language, handle, &map, rows, columns)
    })
}

/// `at(row, column)` is the user's map.
pub(crate) fn gridmap(
    language: Language,
    handle: c_int,
    rows: c_int,
    columns: c_int,
    at: impl Fn(c_int, c_int) -> c_int,
) -> c_int {
    state::with("BLACS_GRIDMAP", -1, |state| {
        Grid::check(rows, columns, state.size as usize)?;
        let places = (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column)));
        let map: Vec<_> = places.map(|(row, column)| at(row, column)).collect();
        make(state, language, handle, &map, rows, columns)
    })
}

fn make(
    state: &mut State,
    language: Language,
    handle: c_int,
    map: &[c_int],
    rows: c_int,
    columns: c_int,
) -> Result<c_int, Error> {
    let parent = system(state, language, handle)?;
    let all = state.blacs.net().members(parent)?;
    let members = Grid::members(map, &all)?;
    if !members.contains(&(state.rank as u32)) {
        return Ok(NOT_IN_CONTEXT);
    }
    let comm = state.mpi.comm_create_group(state.to_c(parent), map)?;
    let comm = state.to_fortran(comm);
    state.blacs.open(&members, rows, columns, comm)
}

pub(crate) fn gridexit(context: c_int) {
    state::with("BLACS_GRIDEXIT", context, |state| close(state, context));
}

fn close(state: &mut State, context: c_int) -> Result<(), Error> {
    known::forget();
    let comm = state.blacs.close(context)?;
    state.forget_system(comm);
    Ok(state.mpi.comm_free(state.to_c(comm))?)
}

/// Sides of the grid and our place in it; all -1 where there is no such context.
pub(crate) fn gridinfo(context: c_int) -> [c_int; 4] {
    let info = state::with_started("BLACS_GRIDINFO", context, |state| {
        Ok(match state.blacs.grid(context) {
            Ok(grid) => {
                let (sides, place) = (grid.sides(), grid.place());
                [sides.0, sides.1, place.0, place.1]
            }
            Err(_) => [-1; 4],
        })
    });
    info.unwrap_or([-1; 4])
}

pub(crate) fn pnum(context: c_int, row: c_int, column: c_int) -> c_int {
    state::with("BLACS_PNUM", context, |state| {
        let number = state.blacs.grid(context)?.number_at(row, column);
        Ok(number.map_or(-1, |number| number as c_int))
    })
}

pub(crate) fn pcoord(context: c_int, number: c_int) -> (c_int, c_int) {
    state::with("BLACS_PCOORD", context, |state| {
        let place = state.blacs.grid(context)?.place_of(number);
        Ok(place.unwrap_or((-1, -1)))
    })
}

pub(crate) fn barrier(context: c_int, scope: u8) {
    state::with("BLACS_BARRIER", context, |state| {
        state.blacs.barrier(context, Scope::of(scope)?)
    });
}

/// What is sent need not be kept by us, so there is nothing to free; who waits wants to know that all has gone.
pub(crate) fn freebuff(wait: c_int) {
    state::with_started("BLACS_FREEBUFF", -1, |state| {
        if wait != 0 {
            state.blacs.net().drain()?;
        }
        Ok(())
    });
}

/// Frees all contexts; ends MPI unless the program says that it goes on with it.
pub(crate) fn exit(not_done: c_int) {
    state::with_started("BLACS_EXIT", -1, |state| {
        for context in state.blacs.numbers() {
            close(state, context)?;
        }
        Ok(state.blacs.net().drain()?)
    });
    if not_done != 0 {
        return;
    }
    let Some(state) = state::take() else {
        return;
    };
    // SAFETY: BLACS attached once when it started. The phase may always be asked for.
    let running = unsafe {
        (state.table.detach)();
        (state.table.phase)() == fmpl_table::consts::PHASE_RUNNING
    };
    // Whoever started MPI: BLACS ends it.
    if running && let Err(trouble) = state.mpi.finalize() {
        let origin = state.origin(-1);
        say::fatal(Some(state.table), "BLACS_EXIT", origin, &trouble);
    }
}

pub(crate) fn abort(context: c_int, code: c_int) {
    let found = state::with_started("BLACS_ABORT", context, |state| {
        Ok((state.table, state.origin(context)))
    });
    let (table, origin) = found.unzip();
    let origin = origin.unwrap_or(say::Origin::NOWHERE);
    let ((row, column), rank) = (origin.place, origin.rank);
    say::line(format_args!(
        "{{{row},{column}}}, pnum={rank}, Contxt={context}, killed other procs, exiting with error #{code}.\n"
    ));
    say::end(table, code)
}

/// What `blacs_get` and `blacs_set` name.
mod what {
    pub(super) const SYSTEM: i32 = 0;
    pub(super) const IDS: i32 = 1;
    pub(super) const DEBUG: i32 = 2;
    pub(super) const CONTEXT: i32 = 10;
    pub(super) const BROADCAST_RINGS: i32 = 11;
    pub(super) const BROADCAST_BRANCHES: i32 = 12;
    pub(super) const COMBINE_RINGS: i32 = 13;
    pub(super) const COMBINE_BRANCHES: i32 = 14;
    pub(super) const REPEATABLE: i32 = 15;
    pub(super) const COHERENT: i32 = 16;
}

/// One value or two; none where the question is unknown.
pub(crate) fn get(
    language: Language,
    context: c_int,
    question: c_int,
) -> Option<(c_int, Option<c_int>)> {
    state::with("BLACS_GET", context, |state| {
        let handle = |state: &mut State, comm| match language {
            Language::C => state.enter_system(comm),
            Language::Fortran => Ok(comm),
        };
        let value = match question {
            what::SYSTEM => handle(state, state.world.1)?,
            what::IDS => {
                let most = blacs::Net::indices(state.blacs.net()) as c_int - 1;
                return Ok(Some((0, Some(most))));
            }
            // Arguments are always checked.
            what::DEBUG => 1,
            what::CONTEXT => {
                let comm = state.blacs.system(context)?;
                handle(state, comm)?
            }
            _ => match option(state.blacs.options(context)?, question) {
                Some(Choice::Number(number)) => *number,
                Some(Choice::Flag(flag)) => c_int::from(*flag),
                None => {
                    let origin = state.origin(context);
                    say::warn("BLACS_GET", origin, &format!("Unknown WHAT ({question})"));
                    return Ok(None);
                }
            },
        };
        Ok(Some((value, None)))
    })
}

enum Choice<'a> {
    Number(&'a mut i32),
    Flag(&'a mut bool),
}

fn option(options: &mut Options, question: c_int) -> Option<Choice<'_>> {
    Some(match question {
        what::BROADCAST_RINGS => Choice::Number(&mut options.broadcast_rings),
        what::BROADCAST_BRANCHES => Choice::Number(&mut options.broadcast_branches),
        what::COMBINE_RINGS => Choice::Number(&mut options.combine_rings),
        what::COMBINE_BRANCHES => Choice::Number(&mut options.combine_branches),
        what::REPEATABLE => Choice::Flag(&mut options.repeatable),
        what::COHERENT => Choice::Flag(&mut options.coherent),
        _ => return None,
    })
}

pub(crate) fn set(context: c_int, question: c_int, value: c_int) {
    state::with("BLACS_SET", context, |state| {
        let origin = state.origin(context);
        let refuse = |why: String| say::warn("BLACS_SET", origin, &why);
        match question {
            what::SYSTEM => refuse("Cannot set BLACS system context, can only BLACS_GET".into()),
            what::IDS => refuse("No need to set a range of message IDs".into()),
            what::DEBUG => refuse("Cannot set BLACS debug level".into()),
            what::CONTEXT => refuse("Cannot set BLACS context, can only BLACS_GET".into()),
            _ => match option(state.blacs.options(context)?, question) {
                Some(Choice::Flag(flag)) => *flag = value != 0,
                Some(Choice::Number(number)) => {
                    let rings = [what::BROADCAST_RINGS, what::COMBINE_RINGS].contains(&question);
                    match value {
                        0 => refuse("The number of rings or branches cannot be zero".into()),
                        ..0 if !rings => refuse(format!("Illegal number of branches ({value})")),
                        _ => *number = value,
                    }
                }
                None => refuse(format!("Unknown WHAT ({question})")),
            },
        }
        Ok(())
    });
}

/// A system handle for an MPI communicator of C.
pub(crate) fn sys2blacs(comm: usize) -> c_int {
    state::with("SYS2BLACS_HANDLE", -1, |state| {
        let comm = state.to_fortran(comm);
        state.enter_system(comm)
    })
}

/// The MPI communicator of C of a system handle.
pub(crate) fn blacs2sys(handle: c_int) -> usize {
    state::with("BLACS2SYS_HANDLE", -1, |state| {
        Ok(state.to_c(state.system(handle)?))
    })
}

pub(crate) fn free_system(handle: c_int) {
    state::with("FREE_BLACS_SYSTEM_HANDLE", -1, |state| {
        if !state.free_system(handle) {
            let what = format!("Trying to free non-existent system context handle {handle}");
            say::warn("FREE_BLACS_SYSTEM_HANDLE", state.origin(-1), &what);
        }
        Ok(())
    });
}

pub(crate) fn send_id(context: c_int, to: (c_int, c_int)) -> c_int {
    state::with("KSENDID", context, |state| {
        Ok(state.blacs.send_id(context, to)? as c_int)
    })
}

pub(crate) fn receive_id(context: c_int, from: (c_int, c_int)) -> c_int {
    state::with("KRECVID", context, |state| {
        Ok(state.blacs.receive_id(context, from)? as c_int)
    })
}

pub(crate) fn broadcast_id(context: c_int, scope: u8) -> c_int {
    state::with("KBSID, KBRID", context, |state| {
        let scope = Scope::of(scope)?;
        Ok(state.blacs.broadcast_id(context, scope)? as c_int)
    })
}

/// Seconds of a clock that all processes of a machine share.
pub(crate) fn wall_time() -> f64 {
    clock(libc::CLOCK_MONOTONIC)
}

/// Seconds of processor time of this process.
pub(crate) fn cpu_time() -> f64 {
    clock(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// -1, BLACS' word for it, where the system does not tell.
fn clock(which: libc::clockid_t) -> f64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the address is of a local.
    match unsafe { libc::clock_gettime(which, &mut time) } {
        0 => time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9,
        _ => -1.0,
    }
}
