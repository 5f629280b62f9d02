//! The lookup.

use std::ffi::{CStr, CString, c_char, c_void};
use std::ptr::{self, null_mut};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::layout::{FmplTable, VERSION};

/// The library that is loaded when the process has none.
const LIBRARY: &CStr = c"libmpi_abi.so.1";

/// The library of the other ABI.
const OTHER: &CStr = c"libmpi.so.12";

static TABLE: OnceLock<Result<&'static FmplTable, String>> = OnceLock::new();

/// The same, or null: what every call after the first needs is one load.
static KNOWN: AtomicPtr<FmplTable> = AtomicPtr::new(null_mut());

/// The table, if it was looked up before.
#[inline(always)]
pub fn known() -> Option<&'static FmplTable> {
    // SAFETY: null, or a table that was found, which stays for ever.
    unsafe { KNOWN.load(Ordering::Acquire).as_ref() }
}

/// The table of this process, looked up at the first call. The error is a sentence for a person.
#[inline]
pub fn table() -> Result<&'static FmplTable, &'static str> {
    match known() {
        Some(table) => Ok(table),
        None => table_at_first(),
    }
}

#[cold]
fn table_at_first() -> Result<&'static FmplTable, &'static str> {
    match TABLE.get_or_init(look) {
        Ok(table) => {
            KNOWN.store(ptr::from_ref(*table).cast_mut(), Ordering::Release);
            Ok(table)
        }
        Err(why) => Err(why),
    }
}

fn look() -> Result<&'static FmplTable, String> {
    // SAFETY: the name ends with NUL, and the pseudo-handle is always valid.
    let here = unsafe { libc::dlsym(libc::RTLD_DEFAULT, crate::SYMBOL.as_ptr()) };
    if !here.is_null() {
        return ask(here);
    }
    // A library that a plug-in loaded for itself alone is not seen by the look above.
    for name in [LIBRARY, OTHER] {
        // SAFETY: the name ends with NUL; nothing is loaded.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_NOLOAD) };
        if !handle.is_null() {
            // SAFETY: the handle is a loaded library, and the name ends with NUL.
            let found = unsafe { libc::dlsym(handle, crate::SYMBOL.as_ptr()) };
            if !found.is_null() {
                return ask(found);
            }
        }
    }
    let mut why = String::new();
    let names = beside_us().into_iter().chain([LIBRARY.to_owned()]);
    for name in names {
        // Global, so that whoever looks next, in this library or another, finds the same one.
        // SAFETY: the name ends with NUL; constructors of that library are ours.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
        if handle.is_null() {
            why = error();
            continue;
        }
        // SAFETY: the handle is a loaded library, and the name ends with NUL.
        let found = unsafe { libc::dlsym(handle, crate::SYMBOL.as_ptr()) };
        if !found.is_null() {
            return ask(found);
        }
        why = format!("{} has no FMPL in it", name.to_string_lossy());
    }
    Err(format!(
        "no MPI library of Yamabiko's was found ({why}); link the program with libmpi_abi or libmpi of \
         Yamabiko, or name the folder of libmpi_abi.so.1 in LD_LIBRARY_PATH"
    ))
}

fn ask(symbol: *mut c_void) -> Result<&'static FmplTable, String> {
    // SAFETY: the symbol's name is ours alone, and this is its type in every version.
    let get: unsafe extern "C" fn(u32) -> *const FmplTable = unsafe { std::mem::transmute(symbol) };
    // SAFETY: the function takes any number, and gives null or a table that lives for ever.
    let table = unsafe { get(VERSION).as_ref() };
    match table {
        Some(table)
            if table.version == VERSION && table.size as usize >= size_of::<FmplTable>() =>
        {
            Ok(table)
        }
        _ => Err(format!(
            "the MPI library of this process does not have version {VERSION} of FMPL; it and libfmpl are \
             of different releases: install both from one"
        )),
    }
}

/// The MPI library in the folder of the library that this code is part of.
fn beside_us() -> Option<CString> {
    // SAFETY: a structure of pointers and integers, for which zero is a value.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    let inside = beside_us as fn() -> Option<CString> as *const c_void;
    // SAFETY: any address may be asked for, and `info` is writable.
    if unsafe { libc::dladdr(inside, &mut info) } == 0 || info.dli_fname.is_null() {
        return None;
    }
    // SAFETY: the loader's strings end with NUL and live as long as the library, which is running.
    let name = unsafe { CStr::from_ptr(info.dli_fname) }.to_str().ok()?;
    let folder = name.rsplit_once('/')?.0;
    CString::new(format!("{folder}/{}", LIBRARY.to_str().ok()?)).ok()
}

/// What the loader says went wrong.
fn error() -> String {
    // SAFETY: the string lives until the next call of the loader in this thread, and is copied before.
    let text: *const c_char = unsafe { libc::dlerror() };
    if text.is_null() {
        return "the loader says nothing".to_owned();
    }
    // SAFETY: as above; it ends with NUL.
    unsafe { CStr::from_ptr(text) }
        .to_string_lossy()
        .into_owned()
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_process_without_mpi_is_told_what_to_do() {
        // The test program has no MPI library in it, and none lies beside it.
        let why = super::table().err().unwrap_or_default();
        assert!(why.contains("LD_LIBRARY_PATH"), "{why}");
    }

    #[test]
    fn every_code_has_a_text() {
        for code in 0..=19 {
            let text = crate::code::text(code).to_str().unwrap();
            assert!(!text.contains("unknown error code"), "{code}");
        }
        let other = crate::code::text(1000).to_str().unwrap();
        assert_eq!(other, "unknown error code");
    }
}
