//! Packing and unpacking (sections 5.2 and 5.3): between buffers of the program, in this process.

use std::rc::Rc;

use boundary::{Text, UserBuf};
use datatype::external;
use layout::{Data, transfer};
use types::{Handle, Result, consts, fault};

use crate::state::Engine;
use crate::typeobj::TypeObj;

/// The pack buffer: `bytes` from `position` on, if they lie within its `size`.
fn window(buf: UserBuf, size: i64, position: i64, bytes: u64) -> Result<UserBuf> {
    if position < 0 || position > size {
        let why = format!("the position {position} does not lie within the {size} bytes");
        return Err(fault(consts::ERR_ARG, why));
    }
    if bytes > (size - position) as u64 {
        let why = format!(
            "{bytes} packed bytes do not fit between position {position} and the buffer's end at {size}"
        );
        return Err(fault(consts::ERR_ARG, why));
    }
    if buf.is_null() && bytes > 0 {
        return Err(fault(consts::ERR_BUFFER, "the pack buffer is NULL"));
    }
    Ok(buf.offset(position))
}

/// A committed datatype and the bytes that `count` elements of it have, as `size` tells.
fn checked(
    e: &Engine,
    datatype: Handle,
    count: i64,
    buf: UserBuf,
    size: impl Fn(&TypeObj, u64) -> Option<u64>,
) -> Result<(Rc<TypeObj>, u64)> {
    let object = e.committed_type(datatype)?;
    let bytes = packed(&object, count, size)?;
    if buf.is_null() && bytes > 0 && object.datatype.is_predefined() {
        return Err(fault(consts::ERR_BUFFER, "the buffer is NULL"));
    }
    Ok((object, bytes))
}

/// Bytes of `count` elements, which must fit `MPI_Count`.
fn packed(
    object: &TypeObj,
    count: i64,
    size: impl Fn(&TypeObj, u64) -> Option<u64>,
) -> Result<u64> {
    let count = u64::try_from(count)
        .map_err(|_| fault(consts::ERR_COUNT, format!("the count {count} is negative")))?;
    size(object, count)
        .filter(|&n| n <= i64::MAX as u64)
        .ok_or_else(|| {
            let why = format!("the packed size of {count} elements does not fit MPI_Count");
            fault(consts::ERR_COUNT, why)
        })
}

fn native(object: &TypeObj, count: u64) -> Option<u64> {
    object.size().checked_mul(count)
}

fn external32(object: &TypeObj, count: u64) -> Option<u64> {
    external::size(&object.datatype, count)
}

fn representation(datarep: &Text) -> Result<()> {
    if datarep.bytes() != b"external32" {
        let why = format!(
            "the data representation is \"{}\"; the only one there is is \"external32\"",
            datarep.to_str_lossy()
        );
        return Err(fault(consts::ERR_ARG, why));
    }
    Ok(())
}

/// `MPI_Pack`.
#[allow(clippy::too_many_arguments)] // The standard's own list.
pub fn pack(
    e: &Engine,
    inbuf: UserBuf,
    incount: i64,
    datatype: Handle,
    outbuf: UserBuf,
    outsize: i64,
    position: &mut i64,
    comm: Handle,
) -> Result<()> {
    e.comm(comm)?;
    let (object, bytes) = checked(e, datatype, incount, inbuf, native)?;
    let to = Data::bytes(window(outbuf, outsize, *position, bytes)?, bytes);
    *position += transfer(&object.data(inbuf, incount as u64), &to) as i64;
    Ok(())
}

/// `MPI_Unpack`.
#[allow(clippy::too_many_arguments)] // The standard's own list.
pub fn unpack(
    e: &Engine,
    inbuf: UserBuf,
    insize: i64,
    position: &mut i64,
    outbuf: UserBuf,
    outcount: i64,
    datatype: Handle,
    comm: Handle,
) -> Result<()> {
    e.comm(comm)?;
    let (object, bytes) = checked(e, datatype, outcount, outbuf, native)?;
    let from = Data::bytes(window(inbuf, insize, *position, bytes)?, bytes);
    *position += transfer(&from, &object.data(outbuf, outcount as u64)) as i64;
    Ok(())
}

/// `MPI_Pack_size`: exact, since packed data has no header.
pub fn pack_size(
    e: &Engine,
    incount: i64,
    datatype: Handle,
    comm: Handle,
    size: &mut i64,
) -> Result<()> {
    e.comm(comm)?;
    *size = packed(&*e.type_of(datatype)?, incount, native)? as i64;
    Ok(())
}

/// `MPI_Pack_external`.
#[allow(clippy::too_many_arguments)] // The standard's own list.
pub fn pack_external(
    e: &Engine,
    datarep: Text,
    inbuf: UserBuf,
    incount: i64,
    datatype: Handle,
    outbuf: UserBuf,
    outsize: i64,
    position: &mut i64,
) -> Result<()> {
    representation(&datarep)?;
    let (object, bytes) = checked(e, datatype, incount, inbuf, external32)?;
    let to = window(outbuf, outsize, *position, bytes)?;
    *position += external::pack(&object.datatype, incount as u64, inbuf, to)? as i64;
    Ok(())
}

/// `MPI_Unpack_external`.
#[allow(clippy::too_many_arguments)] // The standard's own list.
pub fn unpack_external(
    e: &Engine,
    datarep: Text,
    inbuf: UserBuf,
    insize: i64,
    position: &mut i64,
    outbuf: UserBuf,
    outcount: i64,
    datatype: Handle,
) -> Result<()> {
    representation(&datarep)?;
    let (object, bytes) = checked(e, datatype, outcount, outbuf, external32)?;
    let from = window(inbuf, insize, *position, bytes)?;
    *position += external::unpack(&object.datatype, outcount as u64, from, outbuf)? as i64;
    Ok(())
}

/// `MPI_Pack_external_size`.
pub fn pack_external_size(
    e: &Engine,
    datarep: Text,
    incount: i64,
    datatype: Handle,
    size: &mut i64,
) -> Result<()> {
    representation(&datarep)?;
    *size = packed(&*e.type_of(datatype)?, incount, external32)? as i64;
    Ok(())
}
