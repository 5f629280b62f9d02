//! Fortran subroutines that C calls: operations, error handlers, generalised requests, data
//! representations.
//!
//! A subroutine gets everything by address and handles as integers. Where C's handles are integers, an
//! operation or error handler in Fortran is one in C already and is handed over as it is. Elsewhere one of
//! the functions here stands between; which subroutine it calls, its slot says ([`fortran::slots`]).
//! Callbacks with an extra state need no slots.

use fortran::slots::Slots;

use crate::r#gen::values::ERR_NO_MEM;
use crate::handle::Handle;
use crate::prelude::*;

/// How many different operations a program may have.
const OPERATIONS: usize = 256;
/// How many different error handlers, of each kind of object.
const HANDLERS: usize = 64;

static OPERATION_SLOTS: Slots<OPERATIONS> = Slots::new();
static HANDLER_SLOTS: Slots<HANDLERS> = Slots::new();

/// `[f::<0>, f::<1>, ...]` in blocks of sixteen.
macro_rules! table {
    ($function:ident <$kind:ident> $($block:literal)*) => {
        [$(
            table!(@ $function <$kind> $block + 0), table!(@ $function <$kind> $block + 1),
            table!(@ $function <$kind> $block + 2), table!(@ $function <$kind> $block + 3),
            table!(@ $function <$kind> $block + 4), table!(@ $function <$kind> $block + 5),
            table!(@ $function <$kind> $block + 6), table!(@ $function <$kind> $block + 7),
            table!(@ $function <$kind> $block + 8), table!(@ $function <$kind> $block + 9),
            table!(@ $function <$kind> $block + 10), table!(@ $function <$kind> $block + 11),
            table!(@ $function <$kind> $block + 12), table!(@ $function <$kind> $block + 13),
            table!(@ $function <$kind> $block + 14), table!(@ $function <$kind> $block + 15),
        )*]
    };
    (@ $function:ident <$kind:ident> $block:literal + $n:literal) => {
        $function::<$kind, { $block * 16 + $n }>
    };
}

/// C's form of an operation.
type Operation = unsafe extern "C" fn(*mut c_void, *mut c_void, *mut i32, *mut Datatype);

/// C's form of an error handler; more arguments may follow, which nobody reads.
type Handler<H> = unsafe extern "C" fn(*mut H, *mut i32);

/// The operation of a slot.
///
/// # Safety
/// C calls it as it does operations, and the slot is taken.
unsafe extern "C" fn operation<H: Handle, const SLOT: usize>(
    invec: *mut c_void,
    inoutvec: *mut c_void,
    len: *mut i32,
    datatype: *mut H,
) {
    type Subroutine = unsafe extern "C" fn(*mut c_void, *mut c_void, *mut i32, *mut i32);
    // SAFETY: the slot holds the address of such a subroutine, and C passes what one expects.
    unsafe {
        let subroutine: Subroutine = std::mem::transmute(OPERATION_SLOTS.function(SLOT));
        let mut datatype = (*datatype).to_int();
        subroutine(invec, inoutvec, len, &mut datatype);
    }
}

static OPERATION_TABLE: [Operation; OPERATIONS] =
    table!(operation <Datatype> 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);

/// The error handler of a slot.
///
/// # Safety
/// C calls it as it does error handlers, and the slot is taken.
unsafe extern "C" fn handler<H: Handle, const SLOT: usize>(object: *mut H, code: *mut i32) {
    type Subroutine = unsafe extern "C" fn(*mut i32, *mut i32);
    // SAFETY: the slot holds the address of such a subroutine, and C passes what one expects.
    unsafe {
        let subroutine: Subroutine = std::mem::transmute(HANDLER_SLOTS.function(SLOT));
        let mut object = (*object).to_int();
        subroutine(&mut object, code);
    }
}

/// What C gets for a subroutine: it, if C's handles are its integers, else the function in its slot.
fn stand_in<const N: usize>(
    is_int: bool,
    subroutine: usize,
    slots: &Slots<N>,
    function: impl FnOnce(usize) -> usize,
) -> Option<usize> {
    if is_int || subroutine == 0 {
        return Some(subroutine);
    }
    slots.of(subroutine).map(function)
}

routine! { pmpi_op_create_ "op_create" "OP_CREATE"
    (user_fn: usize, commute: *const i32, op: *mut i32) () {
        let function = stand_in(Datatype::IS_INT, user_fn, &OPERATION_SLOTS, |slot| {
            OPERATION_TABLE[slot] as usize
        });
        match function {
            Some(function) => MPI_Op_create(function, *commute, handle_out::<Op>(op).at()),
            None => ERR_NO_MEM,
        }
    }
}

macro_rules! error_handlers {
    ($($create:ident $low:literal $up:literal $call:ident $kind:ident;)*) => { $(
        routine! { $create $low $up (function: usize, errhandler: *mut i32) () {
            static TABLE: [Handler<$kind>; HANDLERS] = table!(handler <$kind> 0 1 2 3);
            let function = stand_in($kind::IS_INT, function, &HANDLER_SLOTS, |slot| {
                TABLE[slot] as usize
            });
            match function {
                Some(function) => $call(function, handle_out::<Errhandler>(errhandler).at()),
                None => ERR_NO_MEM,
            }
        } }
    )* };
}

error_handlers! {
    pmpi_comm_create_errhandler_ "comm_create_errhandler" "COMM_CREATE_ERRHANDLER"
        MPI_Comm_create_errhandler Comm;
    pmpi_file_create_errhandler_ "file_create_errhandler" "FILE_CREATE_ERRHANDLER"
        MPI_File_create_errhandler File;
    pmpi_session_create_errhandler_ "session_create_errhandler" "SESSION_CREATE_ERRHANDLER"
        MPI_Session_create_errhandler Session;
    pmpi_win_create_errhandler_ "win_create_errhandler" "WIN_CREATE_ERRHANDLER"
        MPI_Win_create_errhandler Win;
}

/// The subroutines of a generalised request, which is C's extra state; the last call frees it. Theirs is the program's own variable, as it is with MPICH and
/// Open MPI: what they make of it the program sees, and it has to be there until the last of them ran, which an expression is not.
struct Generalised {
    query: unsafe extern "C" fn(*mut i64, *mut i32, *mut i32),
    free: unsafe extern "C" fn(*mut i64, *mut i32),
    cancel: unsafe extern "C" fn(*mut i64, *mut i32, *mut i32),
    extra: *mut i64,
}

/// # Safety
/// C calls it as it does query functions, with a state of ours.
unsafe extern "C" fn query(state: *mut Generalised, status: *mut i32) -> i32 {
    let mut code = 0;
    // SAFETY: the caller's contract; a status is the same in both languages.
    unsafe { ((*state).query)((*state).extra, status, &mut code) };
    code
}

/// # Safety
/// C calls it as it does free functions, once, with a state of ours.
unsafe extern "C" fn free(state: *mut Generalised) -> i32 {
    let mut code = 0;
    // SAFETY: the caller's contract; C calls nothing else with this state any more.
    unsafe {
        ((*state).free)((*state).extra, &mut code);
        drop(Box::from_raw(state));
    }
    code
}

/// # Safety
/// C calls it as it does cancel functions, with a state of ours.
unsafe extern "C" fn cancel(state: *mut Generalised, complete: i32) -> i32 {
    let (mut complete, mut code) = ((complete != 0) as i32, 0);
    // SAFETY: the caller's contract.
    unsafe { ((*state).cancel)((*state).extra, &mut complete, &mut code) };
    code
}

routine! { pmpi_grequest_start_ "grequest_start" "GREQUEST_START"
    (query_fn: usize, free_fn: usize, cancel_fn: usize, extra_state: *mut i64, request: *mut i32) () {
        let state = Box::into_raw(Box::new(Generalised {
            query: std::mem::transmute::<usize, unsafe extern "C" fn(*mut i64, *mut i32, *mut i32)>(query_fn),
            free: std::mem::transmute::<usize, unsafe extern "C" fn(*mut i64, *mut i32)>(free_fn),
            cancel: std::mem::transmute::<usize, unsafe extern "C" fn(*mut i64, *mut i32, *mut i32)>(cancel_fn),
            extra: extra_state,
        }));
        let code = MPI_Grequest_start(
            query as *const () as usize, free as *const () as usize, cancel as *const () as usize,
            state.expose_provenance(), handle_out::<Request>(request).at(),
        );
        if code != 0 {
            drop(Box::from_raw(state));
        }
        code
    }
}

/// Converts data: user's buffer, datatype, count, file's buffer, position, extra state, error code.
type Conversion = unsafe extern "C" fn(
    *mut c_void,
    *mut i32,
    *mut i32,
    *mut c_void,
    *mut i64,
    *mut i64,
    *mut i32,
);

/// Tells a datatype's extent: datatype, extent, extra state, error code.
type Extent = unsafe extern "C" fn(*mut i32, *mut i64, *mut i64, *mut i32);

/// The subroutines of a data representation, which is C's extra state. A representation is there until
/// the program ends, and so is this.
struct Representation {
    read: Option<Conversion>,
    write: Option<Conversion>,
    extent: Extent,
    extra: i64,
}

/// # Safety
/// The subroutine belongs to the state, and C calls this as it does conversion functions.
unsafe fn convert(
    subroutine: Option<Conversion>,
    state: *mut Representation,
    (userbuf, filebuf): (*mut c_void, *mut c_void),
    datatype: Datatype,
    count: i32,
    position: i64,
) -> i32 {
    let (mut datatype, mut count, mut position, mut code) = (datatype.to_int(), count, position, 0);
    if let Some(subroutine) = subroutine {
        // SAFETY: the caller's contract.
        unsafe {
            let extra = &raw mut (*state).extra;
            subroutine(
                userbuf,
                &mut datatype,
                &mut count,
                filebuf,
                &mut position,
                extra,
                &mut code,
            );
        }
    }
    code
}

/// # Safety
/// C calls it as it does conversion functions, with a state of ours.
unsafe extern "C" fn read(
    userbuf: *mut c_void,
    datatype: Datatype,
    count: i32,
    filebuf: *mut c_void,
    position: i64,
    state: *mut Representation,
) -> i32 {
    // SAFETY: the caller's contract.
    unsafe {
        convert(
            (*state).read,
            state,
            (userbuf, filebuf),
            datatype,
            count,
            position,
        )
    }
}

/// # Safety
/// C calls it as it does conversion functions, with a state of ours.
unsafe extern "C" fn write(
    userbuf: *mut c_void,
    datatype: Datatype,
    count: i32,
    filebuf: *mut c_void,
    position: i64,
    state: *mut Representation,
) -> i32 {
    // SAFETY: the caller's contract.
    unsafe {
        convert(
            (*state).write,
            state,
            (userbuf, filebuf),
            datatype,
            count,
            position,
        )
    }
}

/// # Safety
/// C calls it as it does extent functions, with a state of ours.
unsafe extern "C" fn extent(
    datatype: Datatype,
    extent: *mut i64,
    state: *mut Representation,
) -> i32 {
    let (mut datatype, mut code) = (datatype.to_int(), 0);
    // SAFETY: the caller's contract.
    unsafe { ((*state).extent)(&mut datatype, extent, &raw mut (*state).extra, &mut code) };
    code
}

/// `MPI_CONVERSION_FN_NULL`: no conversion; known by its address.
#[unsafe(no_mangle)]
pub extern "C" fn pmpi_conversion_fn_null_() {}
names!("conversion_fn_null", "CONVERSION_FN_NULL");

unsafe extern "C" {
    // By the name that programs hand over: the dynamic linker decides which address that has.
    fn mpi_conversion_fn_null_();
}

/// The conversion at an address, unless that is `MPI_CONVERSION_FN_NULL`'s.
///
/// # Safety
/// It is the address of such a subroutine.
unsafe fn conversion(address: usize) -> Option<Conversion> {
    let null = mpi_conversion_fn_null_ as *const () as usize;
    // SAFETY: the caller's contract.
    (address != null).then(|| unsafe { std::mem::transmute::<usize, Conversion>(address) })
}

routine! { pmpi_register_datarep_ "register_datarep" "REGISTER_DATAREP"
    (datarep: *const u8, read_fn: usize, write_fn: usize, extent_fn: usize, extra_state: *const i64)
    (datarep_length) {
        let (reads, writes) = (conversion(read_fn), conversion(write_fn));
        let function = |converts: bool, function: usize| if converts { function } else { 0 };
        let (reader, writer) = (
            function(reads.is_some(), read as *const () as usize),
            function(writes.is_some(), write as *const () as usize),
        );
        let state = Box::into_raw(Box::new(Representation {
            read: reads,
            write: writes,
            extent: std::mem::transmute::<usize, Extent>(extent_fn),
            extra: *extra_state,
        }));
        let code = MPI_Register_datarep(
            text_in(datarep, datarep_length).as_ptr(), reader, writer, extent as *const () as usize,
            state.expose_provenance(),
        );
        if code != 0 {
            drop(Box::from_raw(state));
        }
        code
    }
}
