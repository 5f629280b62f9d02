//! Attribute caching (section 7.7), with the deprecated calls of MPI-1.

use boundary::{UserBuf, UserFn};
use types::{Handle, Result, consts};

use crate::attr::{self, AttrKind, Attributes};
use crate::state::Engine;

/// `MPI_Comm_create_keyval`.
pub fn comm_create_keyval(
    e: &Engine,
    copy: UserFn,
    delete: UserFn,
    keyval: &mut i32,
    extra_state: usize,
) -> Result<()> {
    *keyval = e.new_keyval(AttrKind::Comm, copy, delete, extra_state);
    Ok(())
}

/// `MPI_Comm_free_keyval`.
pub fn comm_free_keyval(e: &Engine, keyval: &mut i32) -> Result<()> {
    free_keyval(e, AttrKind::Comm, keyval)
}

/// `MPI_Comm_set_attr`.
pub fn comm_set_attr(e: &Engine, comm: Handle, keyval: i32, value: usize) -> Result<()> {
    let object = e.comm(comm)?;
    let keyval = e.keyval(AttrKind::Comm, keyval)?;
    attr::set(e, &object.attributes, comm, keyval, value)
}

/// `MPI_Comm_get_attr`. Predefined attributes are found on every communicator.
pub fn comm_get_attr(
    e: &Engine,
    comm: Handle,
    keyval: i32,
    value: UserBuf,
    flag: &mut bool,
) -> Result<()> {
    let object = e.comm(comm)?;
    let found = match attr::predefined(e, keyval) {
        Some(found) => found,
        None => get(e, AttrKind::Comm, &object.attributes, keyval)?,
    };
    give(found, value, flag);
    Ok(())
}

/// `MPI_Comm_delete_attr`.
pub fn comm_delete_attr(e: &Engine, comm: Handle, keyval: i32) -> Result<()> {
    let object = e.comm(comm)?;
    let keyval = e.keyval(AttrKind::Comm, keyval)?;
    attr::delete(e, &object.attributes, comm, &keyval)
}

/// `MPI_Type_create_keyval`.
pub fn type_create_keyval(
    e: &Engine,
    copy: UserFn,
    delete: UserFn,
    keyval: &mut i32,
    extra_state: usize,
) -> Result<()> {
    *keyval = e.new_keyval(AttrKind::Type, copy, delete, extra_state);
    Ok(())
}

/// `MPI_Type_free_keyval`.
pub fn type_free_keyval(e: &Engine, keyval: &mut i32) -> Result<()> {
    free_keyval(e, AttrKind::Type, keyval)
}

/// `MPI_Type_set_attr`.
pub fn type_set_attr(e: &Engine, datatype: Handle, keyval: i32, value: usize) -> Result<()> {
    let object = e.type_of(datatype)?;
    let keyval = e.keyval(AttrKind::Type, keyval)?;
    attr::set(e, &object.attributes, datatype, keyval, value)
}

/// `MPI_Type_get_attr`.
pub fn type_get_attr(
    e: &Engine,
    datatype: Handle,
    keyval: i32,
    value: UserBuf,
    flag: &mut bool,
) -> Result<()> {
    let object = e.type_of(datatype)?;
    give(
        get(e, AttrKind::Type, &object.attributes, keyval)?,
        value,
        flag,
    );
    Ok(())
}

/// `MPI_Type_delete_attr`.
pub fn type_delete_attr(e: &Engine, datatype: Handle, keyval: i32) -> Result<()> {
    let object = e.type_of(datatype)?;
    let keyval = e.keyval(AttrKind::Type, keyval)?;
    attr::delete(e, &object.attributes, datatype, &keyval)
}

/// `MPI_Keyval_create`.
pub fn keyval_create(
    e: &Engine,
    copy: UserFn,
    delete: UserFn,
    keyval: &mut i32,
    extra_state: usize,
) -> Result<()> {
    comm_create_keyval(e, copy, delete, keyval, extra_state)
}

/// `MPI_Keyval_free`.
pub fn keyval_free(e: &Engine, keyval: &mut i32) -> Result<()> {
    comm_free_keyval(e, keyval)
}

/// `MPI_Attr_put`.
pub fn attr_put(e: &Engine, comm: Handle, keyval: i32, value: usize) -> Result<()> {
    comm_set_attr(e, comm, keyval, value)
}

/// `MPI_Attr_get`.
pub fn attr_get(
    e: &Engine,
    comm: Handle,
    keyval: i32,
    value: UserBuf,
    flag: &mut bool,
) -> Result<()> {
    comm_get_attr(e, comm, keyval, value, flag)
}

/// `MPI_Attr_delete`.
pub fn attr_delete(e: &Engine, comm: Handle, keyval: i32) -> Result<()> {
    comm_delete_attr(e, comm, keyval)
}

fn free_keyval(e: &Engine, kind: AttrKind, keyval: &mut i32) -> Result<()> {
    e.keyval(kind, *keyval)?.freed.set(true);
    *keyval = consts::KEYVAL_INVALID;
    Ok(())
}

fn get(e: &Engine, kind: AttrKind, attributes: &Attributes, id: i32) -> Result<Option<usize>> {
    e.keyval(kind, id)?;
    Ok(attributes.get(id))
}

fn give(found: Option<usize>, value: UserBuf, flag: &mut bool) {
    *flag = found.is_some();
    if let Some(found) = found {
        value.write(&found.to_ne_bytes());
    }
}
