//! Reading and setting statuses.

use types::{Handle, Result, Status, consts, fault};

use crate::state::Engine;

/// `MPI_Get_count`.
pub fn get_count(e: &Engine, status: &Status, datatype: Handle, count: &mut i64) -> Result<()> {
    let size = e.type_of(datatype)?.size() as i64;
    *count = match (status.bytes, size) {
        (0, _) => 0,
        (bytes, s) if s > 0 && bytes % s == 0 => bytes / s,
        _ => i64::from(consts::UNDEFINED),
    };
    Ok(())
}

/// `MPI_Get_elements`, of any width.
pub fn get_elements(e: &Engine, status: &Status, datatype: Handle, count: &mut i64) -> Result<()> {
    let datatype = e.type_of(datatype)?;
    let elements = datatype.datatype.elements_in(status.bytes as u64);
    *count = elements.map_or(i64::from(consts::UNDEFINED), |n| n as i64);
    Ok(())
}

/// `MPI_Get_elements_x`.
pub fn get_elements_x(
    e: &Engine,
    status: &Status,
    datatype: Handle,
    count: &mut i64,
) -> Result<()> {
    get_elements(e, status, datatype, count)
}

/// `MPI_Status_set_elements`, of any width.
pub fn status_set_elements(
    e: &Engine,
    status: &mut Status,
    datatype: Handle,
    count: i64,
) -> Result<()> {
    let datatype = e.type_of(datatype)?;
    let bytes = u64::try_from(count)
        .ok()
        .map(|n| datatype.datatype.bytes_of_elements(n));
    let bytes = bytes.and_then(|n| i64::try_from(n).ok());
    status.bytes = bytes.ok_or_else(|| {
        fault(
            consts::ERR_COUNT,
            format!("{count} elements are no number of this type's elements"),
        )
    })?;
    Ok(())
}

/// `MPI_Status_set_elements_x`.
pub fn status_set_elements_x(
    e: &Engine,
    status: &mut Status,
    datatype: Handle,
    count: i64,
) -> Result<()> {
    status_set_elements(e, status, datatype, count)
}

/// `MPI_Status_set_cancelled`.
pub fn status_set_cancelled(_: &Engine, status: &mut Status, flag: bool) -> Result<()> {
    status.cancelled = flag;
    Ok(())
}

/// `MPI_Test_cancelled`.
pub fn test_cancelled(_: &Engine, status: &Status, flag: &mut bool) -> Result<()> {
    *flag = status.cancelled;
    Ok(())
}

/// `MPI_Status_get_source`.
pub fn status_get_source(_: &Engine, status: &Status, source: &mut i32) -> Result<()> {
    *source = status.source;
    Ok(())
}

/// `MPI_Status_get_tag`.
pub fn status_get_tag(_: &Engine, status: &Status, tag: &mut i32) -> Result<()> {
    *tag = status.tag;
    Ok(())
}

/// `MPI_Status_get_error`.
pub fn status_get_error(_: &Engine, status: &Status, error: &mut i32) -> Result<()> {
    *error = status.error;
    Ok(())
}

/// `MPI_Status_set_source`.
pub fn status_set_source(_: &Engine, status: &mut Status, source: i32) -> Result<()> {
    status.source = source;
    Ok(())
}

/// `MPI_Status_set_tag`.
pub fn status_set_tag(_: &Engine, status: &mut Status, tag: i32) -> Result<()> {
    status.tag = tag;
    Ok(())
}

/// `MPI_Status_set_error`.
pub fn status_set_error(_: &Engine, status: &mut Status, error: i32) -> Result<()> {
    status.error = error;
    Ok(())
}
