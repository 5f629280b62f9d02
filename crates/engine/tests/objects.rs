//! Objects in a job of one, through the engine's API: attributes and their callbacks, error
//! handlers, added errors, info objects, communicators, groups, operations, datatypes and memory.
//!
//! One test function: the engine is one per process, and single-threaded until asked otherwise.

use std::sync::Mutex;

use boundary::{CallbackAbi, Ints, Text, TextOut, UserBuf, UserFn};
use engine::api::{attribute, comm, datatype, environment, errhandler, group, info, op, startup};
use engine::{AbiHooks, Engine, enter};
use types::{Handle, Result, Status, consts};

/// A datatype that the ABI still has a name for.
const REMOVED: Handle = Handle(0x4c00_0010);

static HOOKS: AbiHooks = AbiHooks {
    library: "a test",
    rank: |rank| rank,
    callback: CallbackAbi {
        handle: |handle| handle.0 as usize,
        error: |error| error,
        error_back: |error| error,
    },
    status_size: 32,
    write_status: |_: &Status, _: &mut [u8; 64]| (),
    removed_types: &[(REMOVED, "MPI_GONE")],
    read_status: |_: &[u8; 64]| Status::EMPTY,
};

/// What callbacks were called with.
static CALLS: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn calls() -> Vec<String> {
    std::mem::take(&mut *CALLS.lock().unwrap())
}

extern "C" fn copy(
    object: usize,
    _: i32,
    extra: usize,
    value: usize,
    out: &mut usize,
    flag: &mut i32,
) -> i32 {
    CALLS
        .lock()
        .unwrap()
        .push(format!("copy {object:#x} {extra} {value}"));
    (*out, *flag) = (value + 1, i32::from(value != 3));
    if value == 4 { consts::ERR_OTHER } else { 0 }
}

extern "C" fn delete(object: usize, _: i32, value: usize, extra: usize) -> i32 {
    CALLS
        .lock()
        .unwrap()
        .push(format!("delete {object:#x} {extra} {value}"));
    if value == 5 { consts::ERR_INTERN } else { 0 }
}

extern "C" fn on_error(object: &usize, code: &i32) {
    CALLS
        .lock()
        .unwrap()
        .push(format!("error {object:#x} {code}"));
}

extern "C" fn multiply(a: &i32, b: &mut i32, len: &i32, _: &usize) {
    assert_eq!(*len, 1);
    *b *= a;
}

fn function(address: usize) -> UserFn {
    // SAFETY: every caller passes a function of the prototype that the call demands, or a constant.
    unsafe { UserFn::new(address) }
}

fn at<T>(place: &mut T) -> UserBuf {
    // SAFETY: the callers keep the place alive during the call.
    unsafe { UserBuf::new(place as *mut T as usize) }
}

fn ints(array: &mut [i32]) -> Ints {
    // SAFETY: the callers keep the array alive during the call and give its length.
    unsafe { Ints::narrow(array.as_mut_ptr() as usize) }
}

fn text(string: &std::ffi::CStr) -> Text {
    // SAFETY: the string outlives the call, since callers pass literals.
    unsafe { Text::new(string.as_ptr() as usize) }
}

/// Calls `f` with room for a string and gives what it wrote.
fn written(f: impl FnOnce(TextOut) -> Result<()>) -> Result<String> {
    let mut room = [0u8; 1024];
    // SAFETY: the buffer has that much room and outlives the call.
    f(unsafe { TextOut::new(room.as_mut_ptr() as usize, room.len()) })?;
    let end = room.iter().position(|&b| b == 0).unwrap();
    Ok(String::from_utf8_lossy(&room[..end]).into_owned())
}

fn class<T>(result: Result<T>) -> i32 {
    result.err().map_or(consts::SUCCESS, |fault| fault.class)
}

/// Runs a function with a handle to fill and gives that.
fn made(f: impl FnOnce(&mut Handle) -> Result<()>) -> Result<Handle> {
    let mut handle = Handle(0);
    f(&mut handle).map(|()| handle)
}

/// What is no handle is refused in words that say what the program passed.
fn strays(e: &Engine) {
    let told = e.comm(Handle(0)).err().unwrap().text;
    let word = "NULL, or another word that is no handle,";
    assert_eq!(told, format!("{word} is not a communicator"));
    let told = e.type_of(Handle(0)).err().unwrap().text;
    assert_eq!(told, format!("{word} is not a datatype"));
    let told = e.op(Handle(0x7000_1000)).err().unwrap().text;
    assert_eq!(told, "0x70001000 is not an operation");
}

fn get(e: &Engine, comm: Handle, keyval: i32) -> Result<Option<usize>> {
    let (mut value, mut flag) = (0usize, false);
    attribute::comm_get_attr(e, comm, keyval, at(&mut value), &mut flag)?;
    Ok(flag.then_some(value))
}

#[test]
fn objects() {
    let guard = enter(&HOOKS);
    let e: &Engine = &guard;
    infos(e).unwrap();
    let mut provided = 0;
    startup::init_thread(e, 0, 0, consts::THREAD_SINGLE, &mut provided).unwrap();
    predefined_attributes(e).unwrap();
    attributes(e).unwrap();
    keyvals(e).unwrap();
    error_handlers(e).unwrap();
    added_errors(e).unwrap();
    communicators(e).unwrap();
    splitting(e).unwrap();
    groups(e).unwrap();
    operations(e).unwrap();
    datatypes(e).unwrap();
    memory(e).unwrap();
    strays(e);
    self_attributes_go_first(e).unwrap();
}

fn infos(e: &Engine) -> Result<()> {
    let i = made(|h| info::info_create(e, h))?;
    info::info_set(e, i, text(c"one"), text(c"1"))?;
    info::info_set(e, i, text(c"two"), text(c"2"))?;
    info::info_set(e, i, text(c"one"), text(c"uno"))?;
    let copy = made(|h| info::info_dup(e, i, h))?;
    info::info_delete(e, i, text(c"one"))?;
    assert_eq!(
        class(info::info_delete(e, i, text(c"one"))),
        consts::ERR_INFO_NOKEY
    );
    assert_eq!(written(|t| info::info_get_nthkey(e, i, 0, t))?, "two");
    assert_eq!(
        class(written(|t| info::info_get_nthkey(e, i, 1, t))),
        consts::ERR_ARG
    );
    let (mut n, mut flag) = (0, false);
    info::info_get_nkeys(e, copy, &mut n)?;
    assert_eq!(n, 2);
    let (mut length, mut got) = (0, String::new());
    for room in [0, 2, 4] {
        length = room;
        got = written(|t| info::info_get_string(e, copy, text(c"one"), &mut length, t, &mut flag))?;
        assert!(flag && length == 4);
    }
    assert_eq!((got.as_str(), length), ("uno", 4));
    let old = written(|t| info::info_get(e, copy, text(c"one"), 2, t, &mut flag))?;
    assert_eq!(old, "un");
    info::info_get_valuelen(e, copy, text(c"none"), &mut length, &mut flag)?;
    assert!(!flag);
    let env = consts::INFO_ENV;
    assert_eq!(
        class(info::info_set(e, env, text(c"a"), text(c"b"))),
        consts::ERR_INFO
    );
    let command = written(|t| info::info_get(e, env, text(c"command"), 1000, t, &mut flag))?;
    assert!(flag && !command.is_empty());
    for mut handle in [i, copy] {
        info::info_free(e, &mut handle)?;
        assert_eq!(handle, consts::INFO_NULL);
        assert_eq!(class(info::info_free(e, &mut handle)), consts::ERR_INFO);
    }
    Ok(())
}

fn predefined_attributes(e: &Engine) -> Result<()> {
    // SAFETY: predefined attributes are addresses of ints that live as long as the process.
    let value =
        |id| get(e, consts::COMM_WORLD, id).map(|a| a.map(|a| unsafe { *(a as *const i32) }));
    assert!(value(consts::TAG_UB)? >= Some(32767));
    assert_eq!(value(consts::HOST)?, Some(consts::PROC_NULL));
    assert_eq!(value(consts::IO)?, Some(consts::ANY_SOURCE));
    assert_eq!(value(consts::LASTUSEDCODE)?, Some(consts::ERR_LASTCODE));
    let set = attribute::comm_set_attr(e, consts::COMM_WORLD, consts::TAG_UB, 1);
    assert_eq!(class(set), consts::ERR_KEYVAL);
    assert_eq!(class(get(e, consts::COMM_WORLD, 5)), consts::ERR_KEYVAL);
    assert_eq!(
        class(get(e, consts::COMM_WORLD, i32::MIN)),
        consts::ERR_KEYVAL
    );
    Ok(())
}

fn attributes(e: &Engine) -> Result<()> {
    let mut keys = [0; 3];
    let (copier, deleter) = (
        function(copy as *const () as usize),
        function(delete as *const () as usize),
    );
    attribute::comm_create_keyval(e, copier, deleter, &mut keys[0], 70)?;
    attribute::comm_create_keyval(e, function(0), deleter, &mut keys[1], 71)?;
    attribute::comm_create_keyval(e, function(1), function(0), &mut keys[2], 72)?;
    let mut old = made(|h| comm::comm_dup(e, consts::COMM_WORLD, h))?;
    let name = format!("{:#x}", old.0);
    for (i, key) in keys.into_iter().enumerate() {
        assert_eq!(get(e, old, key)?, None);
        attribute::comm_set_attr(e, old, key, 10 + i)?;
    }
    assert_eq!(calls(), [""; 0]);
    let mut new = made(|h| comm::comm_dup(e, old, h))?;
    assert_eq!(calls(), [format!("copy {name} 70 10")]);
    let found = [
        get(e, new, keys[0])?,
        get(e, new, keys[1])?,
        get(e, new, keys[2])?,
    ];
    assert_eq!(found, [Some(11), None, Some(12)]);
    attribute::comm_set_attr(e, old, keys[0], 3)?;
    assert_eq!(calls(), [format!("delete {name} 70 10")]);
    comm::comm_free(e, &mut new)?;
    assert_eq!(new, consts::COMM_NULL);
    calls();
    new = made(|h| comm::comm_dup(e, old, h))?;
    assert_eq!(get(e, new, keys[0])?, None, "the copy callback said no");
    comm::comm_free(e, &mut new)?;
    attribute::comm_set_attr(e, old, keys[0], 4)?;
    calls();
    assert_eq!(
        class(made(|h| comm::comm_dup(e, old, h))),
        consts::ERR_OTHER
    );
    attribute::comm_set_attr(e, old, keys[1], 5)?;
    calls();
    assert_eq!(
        class(attribute::comm_delete_attr(e, old, keys[1])),
        consts::ERR_INTERN
    );
    assert_eq!(get(e, old, keys[1])?, Some(5), "the delete callback failed");
    assert_eq!(class(comm::comm_free(e, &mut old)), consts::ERR_INTERN);
    assert_ne!(old, consts::COMM_NULL);
    assert_eq!(calls().len(), 2);
    Ok(())
}

fn keyvals(e: &Engine) -> Result<()> {
    let (none, mut key) = (function(0), 0);
    attribute::comm_create_keyval(e, none, none, &mut key, 0)?;
    let mut c = made(|h| comm::comm_dup(e, consts::COMM_SELF, h))?;
    attribute::comm_set_attr(e, c, key, 8)?;
    let mut freed = key;
    attribute::comm_free_keyval(e, &mut freed)?;
    assert_eq!(freed, consts::KEYVAL_INVALID);
    assert_eq!(
        class(attribute::comm_free_keyval(e, &mut freed)),
        consts::ERR_KEYVAL
    );
    assert_eq!(
        get(e, c, key)?,
        Some(8),
        "a freed keyval lives while it is in use"
    );
    let mut other = 0;
    attribute::type_create_keyval(e, none, none, &mut other, 0)?;
    assert_ne!(other, key);
    assert_eq!(
        class(attribute::comm_set_attr(e, c, other, 1)),
        consts::ERR_KEYVAL
    );
    attribute::type_set_attr(e, consts::INT, other, 1)?;
    comm::comm_free(e, &mut c)?;
    assert_eq!(class(get(e, consts::COMM_SELF, key)), consts::ERR_KEYVAL);
    attribute::comm_create_keyval(e, none, none, &mut other, 0)?;
    assert_eq!(other, key, "a keyval that is gone is used again");
    attribute::comm_free_keyval(e, &mut other)
}

fn error_handlers(e: &Engine) -> Result<()> {
    let parent = consts::COMM_SELF;
    let current = |c| made(|h| errhandler::comm_get_errhandler(e, c, h));
    assert_eq!(current(parent)?, consts::ERRORS_ARE_FATAL);
    let address = on_error as *const () as usize;
    let handler = made(|h| errhandler::comm_create_errhandler(e, function(address), h))?;
    let mut c = made(|h| comm::comm_dup(e, parent, h))?;
    errhandler::comm_set_errhandler(e, c, handler)?;
    let mut d = made(|h| comm::comm_dup(e, c, h))?;
    assert_eq!(current(d)?, handler, "inherited, and the same handle");
    errhandler::comm_call_errhandler(e, d, consts::ERR_OTHER)?;
    assert_eq!(calls(), [format!("error {:#x} {}", d.0, consts::ERR_OTHER)]);
    for mut reference in [handler, handler] {
        errhandler::errhandler_free(e, &mut reference)?;
        assert_eq!(reference, consts::ERRHANDLER_NULL);
    }
    let freed = errhandler::errhandler_free(e, &mut { handler });
    assert_eq!(class(freed), consts::ERR_ERRHANDLER);
    errhandler::comm_call_errhandler(e, d, consts::SUCCESS)?;
    assert_eq!(calls().len(), 1, "communicators keep a freed handler");
    let mut again = current(d)?;
    errhandler::errhandler_free(e, &mut again)?;
    let set = errhandler::comm_set_errhandler(e, c, consts::ERRHANDLER_NULL);
    assert_eq!(class(set), consts::ERR_ERRHANDLER);
    errhandler::errhandler_free(e, &mut { consts::ERRORS_RETURN })?;
    comm::comm_free(e, &mut c)?;
    comm::comm_free(e, &mut d)
}

fn added_errors(e: &Engine) -> Result<()> {
    let (mut kind, mut code, mut of) = (0, 0, 0);
    errhandler::add_error_class(e, &mut kind)?;
    errhandler::add_error_code(e, kind, &mut code)?;
    assert!(kind > consts::ERR_LASTCODE && code > kind);
    errhandler::error_class(e, code, &mut of)?;
    assert_eq!(of, kind);
    let string = |code| written(|t| errhandler::error_string(e, code, t, &mut 0));
    assert_eq!(string(code)?, "");
    errhandler::add_error_string(e, code, text(c"too blue"))?;
    assert_eq!(string(code)?, "too blue");
    assert!(string(consts::ERR_TRUNCATE)?.contains("MPI_ERR_TRUNCATE"));
    let wrong = [
        errhandler::remove_error_class(e, kind),
        errhandler::remove_error_code(e, code),
        errhandler::remove_error_code(e, kind),
        errhandler::add_error_string(e, consts::ERR_ARG, text(c"x")),
        errhandler::add_error_code(e, code, &mut 0),
        errhandler::remove_error_class(e, consts::SUCCESS),
    ];
    for result in wrong {
        assert_eq!(class(result), consts::ERR_ARG);
    }
    errhandler::remove_error_string(e, code)?;
    errhandler::remove_error_code(e, code)?;
    errhandler::remove_error_class(e, kind)?;
    assert_eq!(
        class(errhandler::remove_error_class(e, kind)),
        consts::ERR_ARG
    );
    errhandler::error_class(e, code, &mut of)?;
    assert_eq!(of, consts::ERR_UNKNOWN);
    Ok(())
}

fn communicators(e: &Engine) -> Result<()> {
    let name = |c| written(|t| comm::comm_get_name(e, c, t, &mut 0));
    assert_eq!(name(consts::COMM_WORLD)?, "MPI_COMM_WORLD");
    assert_eq!(name(consts::COMM_NULL)?, "MPI_COMM_NULL");
    let (mut request, mut idup) = (Handle(0), Handle(0));
    let hints = made(|h| info::info_create(e, h))?;
    info::info_set(e, hints, text(c"mpi_assert_no_any_tag"), text(c"true"))?;
    comm::comm_idup_with_info(e, consts::COMM_WORLD, hints, &mut idup, &mut request)?;
    engine::api::completion::wait(e, &mut request, None)?;
    assert_eq!(name(idup)?, "");
    comm::comm_set_name(e, idup, text(c"mine"))?;
    assert_eq!(name(idup)?, "mine");
    let mut result = 0;
    let expected = [
        (consts::COMM_WORLD, consts::COMM_WORLD, consts::IDENT),
        (consts::COMM_WORLD, idup, consts::CONGRUENT),
    ];
    for (a, b, expected) in expected {
        comm::comm_compare(e, a, b, &mut result)?;
        assert_eq!(result, expected);
    }
    let hint = |c| {
        let known = made(|h| comm::comm_get_info(e, c, h))?;
        written(|t| info::info_get(e, known, text(c"mpi_assert_no_any_tag"), 9, t, &mut false))
    };
    assert_eq!(hint(idup)?, "true");
    let dup = made(|h| comm::comm_dup(e, idup, h))?;
    assert_eq!((hint(dup)?, name(dup)?), ("false".into(), "".into()));
    assert_eq!(
        class(comm::comm_remote_size(e, dup, &mut 0)),
        consts::ERR_COMM
    );
    for mut c in [idup, dup] {
        comm::comm_disconnect(e, &mut c)?;
        assert_eq!(c, consts::COMM_NULL);
    }
    let freed = comm::comm_size(e, dup, &mut 0);
    assert_eq!(class(freed), consts::ERR_COMM);
    assert_eq!(
        class(comm::comm_free(e, &mut { consts::COMM_WORLD })),
        consts::ERR_COMM
    );
    Ok(())
}

fn splitting(e: &Engine) -> Result<()> {
    let world = consts::COMM_WORLD;
    let split = |color| made(|h| comm::comm_split(e, world, color, 0, h));
    assert_eq!(split(consts::UNDEFINED)?, consts::COMM_NULL);
    assert_eq!(class(split(-1)), consts::ERR_ARG);
    let by = |kind, i| made(|h| comm::comm_split_type(e, world, kind, 0, i, h));
    let guide = made(|h| info::info_create(e, h))?;
    let guided = consts::COMM_TYPE_HW_GUIDED;
    assert_eq!(by(guided, guide)?, consts::COMM_NULL);
    info::info_set(
        e,
        guide,
        text(c"mpi_hw_resource_type"),
        text(c"mpi_shared_memory"),
    )?;
    assert_eq!(by(consts::COMM_TYPE_HW_UNGUIDED, guide)?, consts::COMM_NULL);
    assert_eq!(class(by(99, guide)), consts::ERR_ARG);
    let empty = consts::GROUP_EMPTY;
    assert_eq!(
        made(|h| comm::comm_create(e, world, empty, h))?,
        consts::COMM_NULL
    );
    assert_eq!(
        made(|h| comm::comm_create_group(e, world, empty, 0, h))?,
        consts::COMM_NULL
    );
    let null = made(|h| comm::comm_create(e, world, consts::GROUP_NULL, h));
    assert_eq!(class(null), consts::ERR_GROUP);
    let all = made(|h| group::comm_group(e, world, h))?;
    let made_by = [
        split(7)?,
        by(guided, guide)?,
        by(consts::COMM_TYPE_SHARED, consts::INFO_NULL)?,
        made(|h| comm::comm_create(e, world, all, h))?,
        made(|h| comm::comm_create_group(e, world, all, 3, h))?,
    ];
    for mut c in made_by {
        let (mut size, mut rank) = (0, -1);
        comm::comm_size(e, c, &mut size)?;
        comm::comm_rank(e, c, &mut rank)?;
        assert_eq!((size, rank), (1, 0));
        comm::comm_free(e, &mut c)?;
    }
    Ok(())
}

fn groups(e: &Engine) -> Result<()> {
    let all = made(|h| group::comm_group(e, consts::COMM_SELF, h))?;
    let mut from = [0, consts::PROC_NULL];
    let mut to = [9, 9];
    group::group_translate_ranks(
        e,
        all,
        2,
        ints(&mut from),
        consts::GROUP_EMPTY,
        ints(&mut to),
    )?;
    assert_eq!(to, [consts::UNDEFINED, consts::PROC_NULL]);
    let range = made(|h| group::group_range_incl(e, all, 1, ints(&mut [0, 0, 1]), h))?;
    let rest = made(|h| group::group_range_excl(e, all, 1, ints(&mut [0, 0, 1]), h))?;
    let (mut result, mut size) = (0, 0);
    group::group_compare(e, all, range, &mut result)?;
    group::group_size(e, range, &mut size)?;
    assert_eq!(
        (result, size, rest),
        (consts::IDENT, 1, consts::GROUP_EMPTY)
    );
    let bad = made(|h| group::group_incl(e, all, 1, ints(&mut [1]), h));
    assert_eq!(class(bad), consts::ERR_RANK);
    for mut g in [all, range, rest] {
        group::group_free(e, &mut g)?;
        assert_eq!(g, consts::GROUP_NULL);
    }
    assert_eq!(
        class(group::group_size(e, all, &mut size)),
        consts::ERR_GROUP
    );
    Ok(())
}

fn operations(e: &Engine) -> Result<()> {
    let address = multiply as *const () as usize;
    let mut mine = made(|h| op::op_create(e, function(address), false, h, false))?;
    let mut commute = true;
    op::op_commutative(e, mine, &mut commute)?;
    assert!(!commute);
    let (mut a, mut b) = (6, 7);
    op::reduce_local(e, at(&mut a), at(&mut b), 1, consts::INT, mine)?;
    assert_eq!((a, b), (6, 42));
    let aliased = op::reduce_local(e, at(&mut a), at(&mut a), 1, consts::INT, mine);
    assert_eq!(class(aliased), consts::ERR_BUFFER);
    let null = op::reduce_local(e, UserBuf::NULL, at(&mut a), 1, consts::INT, mine);
    assert_eq!(class(null), consts::ERR_BUFFER);
    op::op_free(e, &mut mine)?;
    assert_eq!(mine, consts::OP_NULL);
    assert_eq!(class(op::op_free(e, &mut { consts::SUM })), consts::ERR_OP);
    bytecode(e)
}

/// An operation of byte code, and what is said of those that don't fit.
fn bytecode(e: &Engine) -> Result<()> {
    use ::bytecode::{Binary, Builder, Side, Type, Wide};
    let mut builder = Builder::new(4);
    let a = builder.load(Side::In, Type::I32, 0);
    let b = builder.load(Side::Inout, Type::I32, 0);
    let product = builder.binary(Binary::Mul, Wide::I64, a, b);
    builder.store(Type::I32, 0, product);
    let mut code = builder.code().unwrap();
    let (bytes, code_at) = (code.len(), UserBuf::of_array(&mut code));
    let mut mine = made(|h| op::op_create_bytecode(e, code_at, bytes, true, h))?;
    let (mut a, mut b) = (6, 7);
    op::reduce_local(e, at(&mut a), at(&mut b), 1, consts::INT, mine)?;
    assert_eq!((a, b), (6, 42));
    let wrong = op::reduce_local(e, at(&mut a), at(&mut b), 1, consts::DOUBLE, mine);
    let wrong = wrong.unwrap_err();
    assert_eq!(wrong.class, consts::ERR_OP);
    assert!(wrong.text.contains("elements of 4 bytes"), "{wrong:?}");
    op::op_free(e, &mut mine)?;
    let cut = made(|h| op::op_create_bytecode(e, code_at, bytes - 4, true, h)).unwrap_err();
    assert_eq!(cut.class, consts::ERR_ARG);
    assert!(cut.text.contains("word 4"), "{cut:?}");
    let null = made(|h| op::op_create_bytecode(e, UserBuf::NULL, 8, true, h));
    assert_eq!(class(null), consts::ERR_ARG);
    Ok(())
}

fn datatypes(e: &Engine) -> Result<()> {
    let mut size = 0;
    let refused = datatype::type_size(e, REMOVED, &mut size).unwrap_err();
    assert_eq!(refused.class, consts::ERR_TYPE);
    assert!(refused.text.contains("MPI_GONE was removed"), "{refused:?}");
    let mut large = made(|h| datatype::type_contiguous(e, 3, consts::INT, h, true))?;
    let (mut ni, mut na, mut nc, mut nd, mut combiner) = (0, 0, 0, 0, 0);
    let mut envelope = |large_form| {
        datatype::type_get_envelope(
            e,
            large,
            &mut ni,
            &mut na,
            &mut nc,
            &mut nd,
            &mut combiner,
            large_form,
        )
    };
    assert_eq!(class(envelope(false)), consts::ERR_TYPE);
    envelope(true)?;
    assert_eq!((ni, na, nc, nd), (0, 0, 1, 1));
    datatype::type_free(e, &mut large)
}

fn memory(e: &Engine) -> Result<()> {
    let mut address = 0;
    environment::alloc_mem(e, 100, consts::INFO_NULL, &mut address)?;
    // SAFETY: the address is what `alloc_mem` just gave.
    let buf = unsafe { UserBuf::new(address) };
    buf.write(&[1; 100]);
    environment::free_mem(e, buf)?;
    let huge = environment::alloc_mem(e, i64::MAX, consts::INFO_NULL, &mut address);
    assert_eq!(class(huge), consts::ERR_NO_MEM);
    // More than the machine has: refused, or promised by the system, and in no case got.
    match environment::alloc_mem(e, 1 << 40, consts::INFO_NULL, &mut address) {
        // SAFETY: as above.
        Ok(()) => environment::free_mem(e, unsafe { UserBuf::new(address) })?,
        refused => assert_eq!(class(refused), consts::ERR_NO_MEM),
    }
    let mut flag = false;
    environment::is_thread_main(e, &mut flag)?;
    assert!(flag);
    Ok(())
}

fn self_attributes_go_first(e: &Engine) -> Result<()> {
    let deleter = function(delete as *const () as usize);
    let mut keys = [0; 2];
    for (i, key) in keys.iter_mut().enumerate() {
        attribute::comm_create_keyval(e, function(0), deleter, key, i)?;
    }
    attribute::comm_set_attr(e, consts::COMM_SELF, keys[1], 21)?;
    attribute::comm_set_attr(e, consts::COMM_SELF, keys[0], 20)?;
    calls();
    startup::finalize(e)?;
    assert_eq!(
        calls(),
        ["delete 0x102 0 20", "delete 0x102 1 21"],
        "last set, first deleted"
    );
    let mut flag = false;
    environment::finalized(e, &mut flag)?;
    assert!(flag);
    Ok(())
}
