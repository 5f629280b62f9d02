//! Info objects (section 10).

use std::ffi::OsString;
use std::rc::Rc;

use boundary::{Text, TextOut};
use types::{Handle, Result, consts, fault};

use crate::info::{Info, check_key, check_value};
use crate::state::{Engine, out_of_objects};

/// `MPI_Info_create`.
pub fn info_create(e: &Engine, info: &mut Handle) -> Result<()> {
    *info = new_info(e, Info::default())?;
    Ok(())
}

/// `MPI_Info_create_env`. The command line is the process's own, whatever `argv` the caller has.
pub fn info_create_env(e: &Engine, _argc: i32, _argv: usize, info: &mut Handle) -> Result<()> {
    *info = new_info(e, e.info_env())?;
    Ok(())
}

/// `MPI_Info_delete`.
pub fn info_delete(e: &Engine, info: Handle, key: Text) -> Result<()> {
    let object = changeable(e, info)?;
    let key = key.to_os();
    check_key(key)?;
    if object.delete(key) {
        return Ok(());
    }
    Err(fault(
        consts::ERR_INFO_NOKEY,
        format!("the info object has no key {key:?}"),
    ))
}

/// `MPI_Info_dup`.
pub fn info_dup(e: &Engine, info: Handle, newinfo: &mut Handle) -> Result<()> {
    let copy = Info::clone(&*e.info(info)?);
    *newinfo = new_info(e, copy)?;
    Ok(())
}

/// `MPI_Info_free`.
pub fn info_free(e: &Engine, info: &mut Handle) -> Result<()> {
    changeable(e, *info)?;
    e.infos.remove(info.0);
    *info = consts::INFO_NULL;
    Ok(())
}

/// `MPI_Info_get`, deprecated: `valuelen` doesn't count the NUL.
pub fn info_get(
    e: &Engine,
    info: Handle,
    key: Text,
    valuelen: i32,
    value: TextOut,
    flag: &mut bool,
) -> Result<()> {
    let limit = usize::try_from(valuelen).map_err(|_| negative("valuelen", valuelen))?;
    let found = lookup(e, info, key)?;
    *flag = found.is_some();
    if let Some(found) = found {
        value.with_limit(limit + 1).set(&found);
    }
    Ok(())
}

/// `MPI_Info_get_string`.
pub fn info_get_string(
    e: &Engine,
    info: Handle,
    key: Text,
    buflen: &mut i32,
    value: TextOut,
    flag: &mut bool,
) -> Result<()> {
    let limit = usize::try_from(*buflen).map_err(|_| negative("buflen", *buflen))?;
    let found = lookup(e, info, key)?;
    *flag = found.is_some();
    if let Some(found) = found {
        value.with_limit(limit).set(&found);
        *buflen = found.len() as i32 + 1;
    }
    Ok(())
}

/// `MPI_Info_get_nkeys`.
pub fn info_get_nkeys(e: &Engine, info: Handle, nkeys: &mut i32) -> Result<()> {
    *nkeys = e.info(info)?.pairs.borrow().len() as i32;
    Ok(())
}

/// `MPI_Info_get_nthkey`.
pub fn info_get_nthkey(e: &Engine, info: Handle, n: i32, key: TextOut) -> Result<()> {
    let object = e.info(info)?;
    let pairs = object.pairs.borrow();
    let pair = usize::try_from(n).ok().and_then(|n| pairs.get(n));
    let (name, _) = pair.ok_or_else(|| {
        fault(
            consts::ERR_ARG,
            format!("n is {n}; the info object has {} keys", pairs.len()),
        )
    })?;
    key.with_limit(consts::MAX_INFO_KEY as usize).set(name);
    Ok(())
}

/// `MPI_Info_get_valuelen`, deprecated.
pub fn info_get_valuelen(
    e: &Engine,
    info: Handle,
    key: Text,
    valuelen: &mut i32,
    flag: &mut bool,
) -> Result<()> {
    let found = lookup(e, info, key)?;
    *flag = found.is_some();
    if let Some(found) = found {
        *valuelen = found.len() as i32;
    }
    Ok(())
}

/// `MPI_Info_set`.
pub fn info_set(e: &Engine, info: Handle, key: Text, value: Text) -> Result<()> {
    let object = changeable(e, info)?;
    let (key, value) = (key.to_os(), value.to_os());
    check_key(key)?;
    check_value(value)?;
    object.set(key, value);
    Ok(())
}

/// A handle for an info object.
pub(crate) fn new_info(e: &Engine, info: Info) -> Result<Handle> {
    let handle = e.infos.insert(Rc::new(info)).map(Handle);
    handle.ok_or_else(out_of_objects)
}

fn changeable(e: &Engine, info: Handle) -> Result<Rc<Info>> {
    if info == consts::INFO_ENV {
        return Err(fault(
            consts::ERR_INFO,
            "MPI_INFO_ENV can't be changed or freed",
        ));
    }
    e.info(info)
}

fn lookup(e: &Engine, info: Handle, key: Text) -> Result<Option<OsString>> {
    let object = e.info(info)?;
    let key = key.to_os();
    check_key(key)?;
    Ok(object.get(key))
}

fn negative(name: &str, value: i32) -> Box<types::Fault> {
    fault(
        consts::ERR_ARG,
        format!("{name} is {value}; it must be 0 or more"),
    )
}
