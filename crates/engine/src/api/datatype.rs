//! Datatypes (chapter 5): constructors, commit, inquiries. The work is done by the `datatype` crate;
//! here are handles, names and attributes.

use std::rc::Rc;

use boundary::{Handles, Ints, Text, TextOut, UserBuf, cut};
use datatype::{Contents, Datatype, match_size, value_index};
use types::basic::absent;
use types::{Handle, List, Result, consts, fault};

use crate::attr;
use crate::state::{Engine, out_of_objects};
use crate::typeobj::TypeObj;

/// Arrays of so many elements take no allocation while a call runs.
const SHORT: usize = 8;

/// Elements `0..n` of a caller's array.
fn list(array: Ints, n: i64, what: &str) -> Result<List<SHORT>> {
    let n = usize::try_from(n)
        .map_err(|_| fault(consts::ERR_COUNT, format!("the count {n} is negative")))?;
    if array.is_null() && n > 0 {
        return Err(fault(
            consts::ERR_ARG,
            format!("the array of {what} is NULL"),
        ));
    }
    Ok(List::from_fn(n, |i| array.get(i)))
}

fn old(e: &Engine, handle: Handle) -> Result<Rc<Datatype>> {
    Ok(e.type_of(handle)?.datatype.clone())
}

/// Gives `datatype` a handle.
fn give(e: &Engine, datatype: Rc<Datatype>, new: &mut Handle) -> Result<()> {
    register(e, TypeObj::new(datatype), new)
}

fn register(e: &Engine, object: TypeObj, new: &mut Handle) -> Result<()> {
    let object = Rc::new(object);
    let handle = Handle(e.types.insert(object.clone()).ok_or_else(out_of_objects)?);
    object.handle.set(handle);
    *new = handle;
    Ok(())
}

/// `MPI_Type_contiguous`; `large` for the large-count form, here and below.
pub fn type_contiguous(
    e: &Engine,
    count: i64,
    oldtype: Handle,
    newtype: &mut Handle,
    large: bool,
) -> Result<()> {
    let made = Datatype::contiguous(large, count, &old(e, oldtype)?)?;
    give(e, made, newtype)
}

/// `MPI_Type_vector`.
pub fn type_vector(
    e: &Engine,
    count: i64,
    blocklength: i64,
    stride: i64,
    oldtype: Handle,
    newtype: &mut Handle,
    large: bool,
) -> Result<()> {
    let made = Datatype::vector(large, count, blocklength, stride, &old(e, oldtype)?)?;
    give(e, made, newtype)
}

/// `MPI_Type_create_hvector`.
pub fn type_create_hvector(
    e: &Engine,
    count: i64,
    blocklength: i64,
    stride: i64,
    oldtype: Handle,
    newtype: &mut Handle,
    large: bool,
) -> Result<()> {
    let made = Datatype::hvector(large, count, blocklength, stride, &old(e, oldtype)?)?;
    give(e, made, newtype)
}

/// `MPI_Type_indexed`.
pub fn type_indexed(
    e: &Engine,
    count: i64,
    array_of_blocklengths: Ints,
    array_of_displacements: Ints,
    oldtype: Handle,
    newtype: &mut Handle,
) -> Result<()> {
    let lens = list(array_of_blocklengths, count, "block lengths")?;
    let disps = list(array_of_displacements, count, "displacements")?;
    let large = array_of_blocklengths.is_wide();
    give(
        e,
        Datatype::indexed(large, &lens, &disps, &old(e, oldtype)?)?,
        newtype,
    )
}

/// `MPI_Type_create_hindexed`.
pub fn type_create_hindexed(
    e: &Engine,
    count: i64,
    array_of_blocklengths: Ints,
    array_of_displacements: Ints,
    oldtype: Handle,
    newtype: &mut Handle,
) -> Result<()> {
    let lens = list(array_of_blocklengths, count, "block lengths")?;
    let disps = list(array_of_displacements, count, "displacements")?;
    let large = array_of_blocklengths.is_wide();
    give(
        e,
        Datatype::hindexed(large, &lens, &disps, &old(e, oldtype)?)?,
        newtype,
    )
}

/// `MPI_Type_create_indexed_block`.
pub fn type_create_indexed_block(
    e: &Engine,
    count: i64,
    blocklength: i64,
    array_of_displacements: Ints,
    oldtype: Handle,
    newtype: &mut Handle,
) -> Result<()> {
    let disps = list(array_of_displacements, count, "displacements")?;
    let large = array_of_displacements.is_wide();
    give(
        e,
        Datatype::indexed_block(large, blocklength, &disps, &old(e, oldtype)?)?,
        newtype,
    )
}

/// `MPI_Type_create_hindexed_block`.
pub fn type_create_hindexed_block(
    e: &Engine,
    count: i64,
    blocklength: i64,
    array_of_displacements: Ints,
    oldtype: Handle,
    newtype: &mut Handle,
    large: bool,
) -> Result<()> {
    let disps = list(array_of_displacements, count, "displacements")?;
    give(
        e,
        Datatype::hindexed_block(large, blocklength, &disps, &old(e, oldtype)?)?,
        newtype,
    )
}

/// `MPI_Type_create_struct`.
pub fn type_create_struct(
    e: &Engine,
    count: i64,
    array_of_blocklengths: Ints,
    array_of_displacements: Ints,
    array_of_types: Handles,
    newtype: &mut Handle,
) -> Result<()> {
    let lens = list(array_of_blocklengths, count, "block lengths")?;
    let disps = list(array_of_displacements, count, "displacements")?;
    if array_of_types.is_null() && count > 0 {
        return Err(fault(consts::ERR_ARG, "the array of types is NULL"));
    }
    let types = (0..lens.len()).map(|i| old(e, array_of_types.get(i)));
    let types = types.collect::<Result<Vec<_>>>()?;
    let large = array_of_blocklengths.is_wide();
    give(
        e,
        Datatype::structure(large, &lens, &disps, types)?,
        newtype,
    )
}

/// `MPI_Type_create_resized`.
pub fn type_create_resized(
    e: &Engine,
    oldtype: Handle,
    lb: i64,
    extent: i64,
    newtype: &mut Handle,
    large: bool,
) -> Result<()> {
    give(
        e,
        Datatype::resized(large, lb, extent, &old(e, oldtype)?)?,
        newtype,
    )
}

/// `MPI_Type_create_subarray`.
#[allow(clippy::too_many_arguments)] // The standard's own list.
pub fn type_create_subarray(
    e: &Engine,
    ndims: i32,
    array_of_sizes: Ints,
    array_of_subsizes: Ints,
    array_of_starts: Ints,
    order: i32,
    oldtype: Handle,
    newtype: &mut Handle,
) -> Result<()> {
    let n = dimensions(ndims)?;
    let sizes = list(array_of_sizes, n, "sizes")?;
    let subsizes = list(array_of_subsizes, n, "subsizes")?;
    let starts = list(array_of_starts, n, "starts")?;
    let (large, old) = (array_of_sizes.is_wide(), old(e, oldtype)?);
    give(
        e,
        Datatype::subarray(large, &sizes, &subsizes, &starts, order, &old)?,
        newtype,
    )
}

/// `MPI_Type_create_darray`.
#[allow(clippy::too_many_arguments)] // The standard's own list.
pub fn type_create_darray(
    e: &Engine,
    size: i32,
    rank: i32,
    ndims: i32,
    array_of_gsizes: Ints,
    array_of_distribs: Ints,
    array_of_dargs: Ints,
    array_of_psizes: Ints,
    order: i32,
    oldtype: Handle,
    newtype: &mut Handle,
) -> Result<()> {
    let n = dimensions(ndims)?;
    let gsizes = list(array_of_gsizes, n, "global sizes")?;
    let distribs = list(array_of_distribs, n, "distributions")?;
    let dargs = list(array_of_dargs, n, "distribution arguments")?;
    let psizes = list(array_of_psizes, n, "process grid sizes")?;
    let made = Datatype::darray(
        array_of_gsizes.is_wide(),
        size.into(),
        rank.into(),
        &gsizes,
        &distribs,
        &dargs,
        &psizes,
        order,
        &old(e, oldtype)?,
    )?;
    give(e, made, newtype)
}

fn dimensions(ndims: i32) -> Result<i64> {
    if ndims < 1 {
        let why = format!("the number of dimensions, {ndims}, is not positive");
        return Err(fault(consts::ERR_ARG, why));
    }
    Ok(ndims.into())
}

/// `MPI_Type_create_f90_real`.
pub fn type_create_f90_real(e: &Engine, p: i32, r: i32, newtype: &mut Handle) -> Result<()> {
    f90(e, Datatype::f90_real(p, r)?, newtype)
}

/// `MPI_Type_create_f90_complex`.
pub fn type_create_f90_complex(e: &Engine, p: i32, r: i32, newtype: &mut Handle) -> Result<()> {
    f90(e, Datatype::f90_complex(p, r)?, newtype)
}

/// `MPI_Type_create_f90_integer`.
pub fn type_create_f90_integer(e: &Engine, r: i32, newtype: &mut Handle) -> Result<()> {
    f90(e, Datatype::f90_integer(r)?, newtype)
}

/// Gives a predefined, unnamed type a handle: the one it has if the same arguments came before. Such
/// types are committed and can't be freed.
fn f90(e: &Engine, datatype: Rc<Datatype>, new: &mut Handle) -> Result<()> {
    let wanted = datatype.contents();
    for handle in e.types.handles() {
        let Some(object) = e.types.get(handle) else {
            continue;
        };
        if object.datatype.is_predefined()
            && object.datatype.combiner() == wanted.combiner
            && object.datatype.contents().ints == wanted.ints
        {
            *new = Handle(handle);
            return Ok(());
        }
    }
    let object = TypeObj::new(datatype);
    object.commit()?;
    register(e, object, new)
}

/// `MPI_Type_dup`. The duplicate is committed if the original is.
pub fn type_dup(e: &Engine, oldtype: Handle, newtype: &mut Handle) -> Result<()> {
    let old = e.type_of(oldtype)?;
    let mut object = TypeObj::new(Datatype::dup(&old.datatype)?);
    if old.is_committed() {
        object.commit()?;
    }
    object.attributes = attr::copy_all(e, &old.attributes, oldtype, consts::DATATYPE_NULL)?;
    register(e, object, newtype)
}

/// `MPI_Type_commit`.
pub fn type_commit(e: &Engine, datatype: &mut Handle) -> Result<()> {
    e.type_of(*datatype)?.commit()
}

/// `MPI_Type_free`. Types made of it and communication under way keep what they need.
pub fn type_free(e: &Engine, datatype: &mut Handle) -> Result<()> {
    let object = e.type_of(*datatype)?;
    if object.datatype.is_predefined() {
        return Err(fault(
            consts::ERR_TYPE,
            "a predefined datatype can't be freed",
        ));
    }
    attr::delete_all(e, &object.attributes, *datatype)?;
    e.types.remove(datatype.0);
    object.handle.set(consts::DATATYPE_NULL);
    *datatype = consts::DATATYPE_NULL;
    Ok(())
}

/// `MPI_Type_size`.
pub fn type_size(e: &Engine, datatype: Handle, size: &mut i64) -> Result<()> {
    *size = match absent(datatype).is_some() {
        true => i64::from(consts::UNDEFINED),
        false => e.type_of(datatype)?.size() as i64,
    };
    Ok(())
}

/// `MPI_Type_size_x`.
pub fn type_size_x(e: &Engine, datatype: Handle, size: &mut i64) -> Result<()> {
    type_size(e, datatype, size)
}

/// `MPI_Type_get_extent`.
pub fn type_get_extent(e: &Engine, datatype: Handle, lb: &mut i64, extent: &mut i64) -> Result<()> {
    let object = e.type_of(datatype)?;
    (*lb, *extent) = (object.datatype.lb(), object.datatype.extent());
    Ok(())
}

/// `MPI_Type_get_extent_x`.
pub fn type_get_extent_x(
    e: &Engine,
    datatype: Handle,
    lb: &mut i64,
    extent: &mut i64,
) -> Result<()> {
    type_get_extent(e, datatype, lb, extent)
}

/// `MPI_Type_get_true_extent`.
pub fn type_get_true_extent(
    e: &Engine,
    datatype: Handle,
    true_lb: &mut i64,
    true_extent: &mut i64,
) -> Result<()> {
    let object = e.type_of(datatype)?;
    (*true_lb, *true_extent) = (object.datatype.true_lb(), object.datatype.true_extent());
    Ok(())
}

/// `MPI_Type_get_true_extent_x`.
pub fn type_get_true_extent_x(
    e: &Engine,
    datatype: Handle,
    true_lb: &mut i64,
    true_extent: &mut i64,
) -> Result<()> {
    type_get_true_extent(e, datatype, true_lb, true_extent)
}

/// A type made with large counts has arguments that the other forms of these calls can't give: the
/// standard wants `MPI_ERR_TYPE` then (section 5.1.13 of MPI-5.0).
fn answerable(contents: &Contents, large: bool, call: &str) -> Result<()> {
    if large || contents.counts.is_empty() {
        return Ok(());
    }
    let why = format!("the datatype was made with large counts: ask with {call}_c");
    Err(fault(consts::ERR_TYPE, why))
}

/// `MPI_Type_get_envelope`.
#[allow(clippy::too_many_arguments)] // The standard's own list.
pub fn type_get_envelope(
    e: &Engine,
    datatype: Handle,
    num_integers: &mut i64,
    num_addresses: &mut i64,
    num_large_counts: &mut i64,
    num_datatypes: &mut i64,
    combiner: &mut i32,
    large: bool,
) -> Result<()> {
    let object = e.type_of(datatype)?;
    let contents = object.datatype.contents();
    answerable(&contents, large, "MPI_Type_get_envelope")?;
    *num_integers = contents.ints.len() as i64;
    *num_addresses = contents.aints.len() as i64;
    *num_large_counts = contents.counts.len() as i64;
    *num_datatypes = contents.types.len() as i64;
    *combiner = contents.combiner;
    Ok(())
}

/// `MPI_Type_get_contents`. Derived types among the datatypes get new handles, to be freed.
#[allow(clippy::too_many_arguments)] // The standard's own list.
pub fn type_get_contents(
    e: &Engine,
    datatype: Handle,
    max_integers: i64,
    max_addresses: i64,
    max_large_counts: i64,
    max_datatypes: i64,
    array_of_integers: Ints,
    array_of_addresses: Ints,
    array_of_large_counts: Ints,
    array_of_datatypes: Handles,
    large: bool,
) -> Result<()> {
    let object = e.type_of(datatype)?;
    let contents = object.datatype.contents();
    answerable(&contents, large, "MPI_Type_get_contents")?;
    if contents.combiner == consts::COMBINER_NAMED {
        return Err(fault(
            consts::ERR_TYPE,
            "a named predefined datatype has no contents",
        ));
    }
    copy_out(array_of_integers, max_integers, &contents.ints, "integers")?;
    copy_out(
        array_of_addresses,
        max_addresses,
        &contents.aints,
        "addresses",
    )?;
    copy_out(
        array_of_large_counts,
        max_large_counts,
        &contents.counts,
        "large counts",
    )?;
    if max_datatypes < contents.types.len() as i64 {
        return Err(too_small("datatypes", max_datatypes, contents.types.len()));
    }
    let mut given: Vec<(&Rc<Datatype>, Handle)> = Vec::new();
    for (i, part) in contents.types.iter().enumerate() {
        let handle = match part_handle(e, part) {
            Ok(handle) => handle,
            Err(error) => {
                let derived = given.iter().filter(|(part, _)| !part.is_predefined());
                derived.for_each(|(_, handle)| drop(e.types.remove(handle.0)));
                return Err(error);
            }
        };
        given.push((part, handle));
        array_of_datatypes.set(i, handle);
    }
    Ok(())
}

fn too_small(what: &str, room: i64, needed: usize) -> Box<types::Fault> {
    let why = format!("the array of {what} has room for {room}; there are {needed}");
    fault(consts::ERR_ARG, why)
}

fn copy_out(to: Ints, room: i64, values: &[i64], what: &str) -> Result<()> {
    if room < values.len() as i64 {
        return Err(too_small(what, room, values.len()));
    }
    values
        .iter()
        .enumerate()
        .for_each(|(i, &value)| to.set(i, value));
    Ok(())
}

/// A handle for a type that another was made of.
fn part_handle(e: &Engine, part: &Rc<Datatype>) -> Result<Handle> {
    let mut handle = consts::DATATYPE_NULL;
    match part.basic_type() {
        Some(basic) if part.combiner() == consts::COMBINER_NAMED => {
            return Ok(basic.handle);
        }
        Some(_) => f90(e, part.clone(), &mut handle)?,
        None => give(e, part.clone(), &mut handle)?,
    }
    Ok(handle)
}

/// `MPI_Type_set_name`. A longer name is cut.
pub fn type_set_name(e: &Engine, datatype: Handle, type_name: Text) -> Result<()> {
    let name = cut(type_name.to_os(), consts::MAX_OBJECT_NAME as usize - 1);
    e.type_of(datatype)?.name.replace(name.to_os_string());
    Ok(())
}

/// `MPI_Type_get_name`. `MPI_DATATYPE_NULL` has a name too.
pub fn type_get_name(
    e: &Engine,
    datatype: Handle,
    type_name: TextOut,
    resultlen: &mut i32,
) -> Result<()> {
    let length = match (datatype, absent(datatype)) {
        (consts::DATATYPE_NULL, _) => type_name.set("MPI_DATATYPE_NULL"),
        (_, Some(name)) => type_name.set(name),
        (datatype, None) => type_name.set(&*e.type_of(datatype)?.name.borrow()),
    };
    *resultlen = length as i32;
    Ok(())
}

/// `MPI_Get_address`.
pub fn get_address(_e: &Engine, location: UserBuf, address: &mut i64) -> Result<()> {
    *address = location.addr() as i64;
    Ok(())
}

/// `MPI_Type_match_size`.
pub fn type_match_size(
    _e: &Engine,
    typeclass: i32,
    size: i32,
    datatype: &mut Handle,
) -> Result<()> {
    *datatype = match_size(typeclass, size)?;
    Ok(())
}

/// `MPI_Type_get_value_index`. Pairs that the standard doesn't name are `MPI_DATATYPE_NULL`.
pub fn type_get_value_index(
    e: &Engine,
    value_type: Handle,
    index_type: Handle,
    pair_type: &mut Handle,
) -> Result<()> {
    e.type_of(value_type)?;
    e.type_of(index_type)?;
    *pair_type = value_index(value_type, index_type);
    Ok(())
}
