//! Inquiries about the library, the process and the ABI (chapter 9 and sections 11.6, 20.2), and
//! memory allocation.

use std::ffi::OsString;
use std::sync::{Mutex, MutexGuard, PoisonError};

use boundary::{TextOut, UserBuf, memory};
use types::basic::basic;
use types::{Handle, Result, consts, fault};

use crate::api::info::new_info;
use crate::info::{self, Info};
use crate::state::{Engine, Phase};

/// `MPI_Get_version`.
pub fn get_version(_e: &Engine, version: &mut i32, subversion: &mut i32) -> Result<()> {
    (*version, *subversion) = (consts::VERSION, consts::SUBVERSION);
    Ok(())
}

/// `MPI_Get_library_version`.
pub fn get_library_version(e: &Engine, version: TextOut, resultlen: &mut i32) -> Result<()> {
    let text = format!(
        "Yamabiko {}, MPI {}.{}, {}",
        env!("CARGO_PKG_VERSION"),
        consts::VERSION,
        consts::SUBVERSION,
        e.hooks.library
    );
    *resultlen = version.set(&text) as i32;
    Ok(())
}

/// `MPI_Get_processor_name`.
pub fn get_processor_name(_e: &Engine, name: TextOut, resultlen: &mut i32) -> Result<()> {
    *resultlen = name.set(info::host()) as i32;
    Ok(())
}

/// `MPI_Initialized`.
pub fn initialized(e: &Engine, flag: &mut bool) -> Result<()> {
    *flag = e.phase.get() != Phase::Before;
    Ok(())
}

/// `MPI_Finalized`.
pub fn finalized(e: &Engine, flag: &mut bool) -> Result<()> {
    *flag = e.phase.get() == Phase::Finalized;
    Ok(())
}

/// `MPI_Query_thread`.
pub fn query_thread(e: &Engine, provided: &mut i32) -> Result<()> {
    *provided = e.thread_level.get();
    Ok(())
}

/// `MPI_Is_thread_main`.
pub fn is_thread_main(e: &Engine, flag: &mut bool) -> Result<()> {
    *flag = e.is_main_thread();
    Ok(())
}

/// `MPI_Alloc_mem` of more bytes gives memory that ranks of this machine map, so that long messages between two such
/// buffers are copied by both ranks. Messages that fit into a pipe (128 KiB) are sent all the same, and less memory costs less
/// out of the heap.
const UNMAPPED: usize = 128 << 10;

/// `MPI_Alloc_mem`. Hints are read and ignored. Where mapped memory is refused, ordinary memory does as well.
///
/// After a `fork` mapped memory is the parent's and the child's together: what one writes the other reads.
pub fn alloc_mem(e: &Engine, size: i64, info: Handle, baseptr: &mut usize) -> Result<()> {
    e.hints(info)?;
    let bytes = usize::try_from(size).map_err(|_| {
        fault(
            consts::ERR_ARG,
            format!("the size is {size}; it must be 0 or more"),
        )
    })?;
    let mapped = match bytes > UNMAPPED {
        true => e.alloc_mapped(bytes),
        false => None,
    };
    *baseptr = mapped
        .map(|buf| buf.addr())
        .or_else(|| memory::alloc(bytes))
        .ok_or_else(|| fault(consts::ERR_NO_MEM, format!("no memory for {size} bytes")))?;
    Ok(())
}

/// `MPI_Free_mem`.
pub fn free_mem(e: &Engine, base: UserBuf) -> Result<()> {
    if !e.free_mapped(base) {
        memory::free(base);
    }
    Ok(())
}

/// `MPI_Get_hw_resource_info`: the resource types that `MPI_Comm_split_type` knows, and whether
/// this process is confined to one instance of each.
pub fn get_hw_resource_info(e: &Engine, hw_info: &mut Handle) -> Result<()> {
    let known = Info::of(&[(super::comm::SHARED_MEMORY, "true")]);
    *hw_info = new_info(e, known)?;
    Ok(())
}

/// `MPI_Abi_get_info`.
pub fn abi_get_info(e: &Engine, info: &mut Handle) -> Result<()> {
    let sizes = ["mpi_aint_size", "mpi_count_size", "mpi_offset_size"];
    *info = new_info(e, Info::of(&sizes.map(|key| (key, "8"))))?;
    Ok(())
}

/// `MPI_Abi_get_fortran_info`: null until a Fortran library has told.
pub fn abi_get_fortran_info(e: &Engine, info: &mut Handle) -> Result<()> {
    let known = fortran().types.clone();
    *info = match known {
        None => consts::INFO_NULL,
        Some(pairs) => {
            let known = Info::default();
            pairs.iter().for_each(|(k, v)| known.set(k, v));
            new_info(e, known)?
        }
    };
    Ok(())
}

/// `MPI_Abi_set_fortran_info`. Only the first call counts, and only sizes that the predefined
/// datatypes of this library have can be accepted.
pub fn abi_set_fortran_info(e: &Engine, info: Handle) -> Result<()> {
    let told = e.info(info)?;
    let mut fortran = fortran();
    if fortran.types.is_some() {
        return Err(fault(
            consts::ERR_ABI,
            "the Fortran types are already known",
        ));
    }
    for (key, datatype) in SIZES {
        let ours = basic(datatype).map(|b| OsString::from(b.size.to_string()));
        let theirs = told.get(key);
        if theirs.is_some() && theirs != ours {
            return Err(fault(
                consts::ERR_ABI,
                format!(
                    "{key} is {}; this library was built for {}",
                    theirs.unwrap_or_default().display(),
                    ours.unwrap_or_default().display()
                ),
            ));
        }
    }
    fortran.types = Some(told.pairs.borrow().clone());
    Ok(())
}

/// `MPI_Abi_get_fortran_booleans`. `logical_true` and `logical_false` point to as many bytes as
/// `logical_size` says.
pub fn abi_get_fortran_booleans(
    _e: &Engine,
    logical_size: i32,
    logical_true: UserBuf,
    logical_false: UserBuf,
    is_set: &mut bool,
) -> Result<()> {
    let size = logical_width(logical_size)?;
    let values = fortran().booleans;
    *is_set = values.is_some();
    if let Some((yes, no)) = values {
        logical_true.write(&yes.to_le_bytes()[..size]);
        logical_false.write(&no.to_le_bytes()[..size]);
    }
    Ok(())
}

/// `MPI_Abi_set_fortran_booleans`. Only the first call counts.
pub fn abi_set_fortran_booleans(
    _e: &Engine,
    logical_size: i32,
    logical_true: UserBuf,
    logical_false: UserBuf,
) -> Result<()> {
    let size = logical_width(logical_size)?;
    let mut fortran = fortran();
    if fortran.booleans.is_some() {
        return Err(fault(
            consts::ERR_ABI,
            "the Fortran logicals are already known",
        ));
    }
    fortran.booleans = Some((
        sign_extended(logical_true, size),
        sign_extended(logical_false, size),
    ));
    Ok(())
}

/// What a Fortran library told of its compiler.
struct Fortran {
    types: Option<Vec<(OsString, OsString)>>,
    /// True and false, to be cut to the size of a logical.
    booleans: Option<(i128, i128)>,
}

/// Outside the engine's state since it is set before and outlives `MPI_Init`.
static FORTRAN: Mutex<Fortran> = Mutex::new(Fortran {
    types: None,
    booleans: None,
});

fn fortran() -> MutexGuard<'static, Fortran> {
    FORTRAN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keys of sizes, with the predefined datatypes that must have them.
const SIZES: [(&str, Handle); 4] = [
    ("mpi_logical_size", consts::LOGICAL),
    ("mpi_integer_size", consts::INTEGER),
    ("mpi_real_size", consts::REAL),
    ("mpi_double_precision_size", consts::DOUBLE_PRECISION),
];

fn logical_width(logical_size: i32) -> Result<usize> {
    match logical_size {
        1 | 2 | 4 | 8 | 16 => Ok(logical_size as usize),
        _ => Err(fault(
            consts::ERR_ARG,
            format!("logical_size is {logical_size}; Fortran logicals have 1, 2, 4, 8 or 16 bytes"),
        )),
    }
}

/// A value of `size` bytes, read so that wider logicals of the same meaning can be made of it.
fn sign_extended(value: UserBuf, size: usize) -> i128 {
    let mut bytes = [0; 16];
    value.read(&mut bytes[..size]);
    let unused = 128 - 8 * size as u32;
    i128::from_le_bytes(bytes) << unused >> unused
}
