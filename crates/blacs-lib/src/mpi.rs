//! The few calls of MPI itself: the communicator of a grid, which `blacs_get` gives to programs, and the end.
//!
//! They are taken by name from the library that the table came from, whichever its ABI. Handles are passed as words
//! in both: an ABI with handles of `int` looks at, and writes, the lower half.

use std::ffi::{CStr, c_int, c_void};

use blacs::Trouble;
use fmpl_table::FmplTable;

/// A handle of either ABI.
type Handle = usize;

type OfComm = unsafe extern "C" fn(Handle, *mut Handle) -> c_int;
type Include = unsafe extern "C" fn(Handle, c_int, *const c_int, *mut Handle) -> c_int;
type CreateGroup = unsafe extern "C" fn(Handle, Handle, c_int, *mut Handle) -> c_int;
type FreeOne = unsafe extern "C" fn(*mut Handle) -> c_int;
type Finalize = unsafe extern "C" fn() -> c_int;

/// Tells our communicators from others that the same processes make at the same time.
const TAG: c_int = 0x2d;

/// The calls.
pub(crate) struct Mpi {
    comm_group: OfComm,
    group_incl: Include,
    comm_create_group: CreateGroup,
    group_free: FreeOne,
    comm_free: FreeOne,
    finalize: Finalize,
}

/// The library that `table` belongs to.
fn library(table: &FmplTable) -> Option<*mut c_void> {
    // SAFETY: a structure of pointers, for which zero is a value.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    let inside = table.attach as *const c_void;
    // SAFETY: any address may be asked for, and `info` is writable.
    if unsafe { libc::dladdr(inside, &mut info) } == 0 || info.dli_fname.is_null() {
        return None;
    }
    // SAFETY: the loader's string ends with NUL; the library is there already, so nothing is loaded.
    let handle = unsafe { libc::dlopen(info.dli_fname, libc::RTLD_NOW | libc::RTLD_NOLOAD) };
    (!handle.is_null()).then_some(handle)
}

/// A function of `library`.
///
/// # Safety
/// `F` is the type of the function with that name.
unsafe fn function<F: Copy>(library: *mut c_void, name: &CStr) -> Result<F, Trouble> {
    // SAFETY: the handle is a library's, and the name ends with NUL.
    let found = unsafe { libc::dlsym(library, name.as_ptr()) };
    if found.is_null() {
        let name = name.to_string_lossy();
        return Err(Trouble::Other(format!("the MPI library has no {name}")));
    }
    // SAFETY: the caller's promise; function pointers and pointers have one size here.
    Ok(unsafe { std::mem::transmute_copy(&found) })
}

impl Mpi {
    /// Looks the calls up.
    pub(crate) fn find(table: &FmplTable) -> Result<Mpi, Trouble> {
        let library = library(table);
        let library = library.ok_or_else(|| Trouble::Other("the MPI library is gone".into()))?;
        // SAFETY: the types are those of MPI, with handles as words.
        unsafe {
            Ok(Mpi {
                comm_group: function(library, c"PMPI_Comm_group")?,
                group_incl: function(library, c"PMPI_Group_incl")?,
                comm_create_group: function(library, c"PMPI_Comm_create_group")?,
                group_free: function(library, c"PMPI_Group_free")?,
                comm_free: function(library, c"PMPI_Comm_free")?,
                finalize: function(library, c"PMPI_Finalize")?,
            })
        }
    }

    /// The communicator of `parent`'s processes with these ranks. Only they call.
    pub(crate) fn comm_create_group(
        &self,
        parent: Handle,
        ranks: &[c_int],
    ) -> Result<Handle, Trouble> {
        let (mut all, mut some, mut comm) = (0, 0, 0);
        // SAFETY: the handles are MPI's, or MPI says that they are not; the addresses are of locals and of as
        // many ranks as are said.
        unsafe {
            succeeded((self.comm_group)(parent, &mut all))?;
            let count = ranks.len() as c_int;
            succeeded((self.group_incl)(all, count, ranks.as_ptr(), &mut some))?;
            succeeded((self.comm_create_group)(parent, some, TAG, &mut comm))?;
            succeeded((self.group_free)(&mut some))?;
            succeeded((self.group_free)(&mut all))?;
        }
        Ok(comm)
    }

    /// Frees a communicator.
    pub(crate) fn comm_free(&self, mut comm: Handle) -> Result<(), Trouble> {
        // SAFETY: the address is of a local.
        succeeded(unsafe { (self.comm_free)(&mut comm) })
    }

    /// Ends MPI.
    pub(crate) fn finalize(&self) -> Result<(), Trouble> {
        // SAFETY: the caller knows that MPI runs.
        succeeded(unsafe { (self.finalize)() })
    }
}

fn succeeded(code: c_int) -> Result<(), Trouble> {
    match code {
        0 => Ok(()),
        code => Err(Trouble::Other(format!("MPI error {code}"))),
    }
}
