//! Reduction functions: the predefined ones, which are recognised by their addresses, and the program's, which were
//! named with the size of their elements.
//!
//! A predefined function is a real one, so a program may call it, too. A program that is not position-independent may see
//! another address of it than this library does (its own entry for it), so the loader's address counts as well.

use std::collections::HashMap;
use std::ffi::{CStr, c_void};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{OnceLock, PoisonError, RwLock};

use fmpl_table::{Builtin, Func, UserFunction, code};

static USERS: RwLock<Vec<(usize, u32)>> = RwLock::new(Vec::new());

/// Names a function of the program.
pub fn set(function: Option<UserFunction>, size: i64) -> i32 {
    let Some(function) = function else {
        return code::ERR_FUNCTION;
    };
    let Ok(size @ 1..) = u32::try_from(size) else {
        return code::ERR_SIZE;
    };
    let at = function as usize;
    if predefined().contains_key(&at) {
        return code::ERR_FUNCTION;
    }
    let mut users = USERS.write().unwrap_or_else(PoisonError::into_inner);
    users.retain(|&(known, _)| known != at);
    users.push((at, size));
    code::SUCCESS
}

/// What a function argument is.
pub fn find(function: Option<UserFunction>) -> Result<Func, i32> {
    let function = function.ok_or(code::ERR_FUNCTION)?;
    let at = function as usize;
    if let Some(func) = predefined().get(&at) {
        return Ok(*func);
    }
    let users = USERS.read().unwrap_or_else(PoisonError::into_inner);
    let known = users.iter().find(|(known, _)| *known == at);
    known
        .map(|&(_, element)| Func {
            builtin: 0,
            element,
            function: Some(function),
        })
        .ok_or(code::ERR_FUNCTION)
}

type Known = HashMap<usize, Func, BuildHasherDefault<AddressHasher>>;

/// Spreads addresses of functions, which nobody chooses to have them collide: it takes one multiplication, as this is on the way
/// of each reduction.
#[derive(Default)]
struct AddressHasher(u64);

impl Hasher for AddressHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes
            .iter()
            .for_each(|&byte| self.write_usize(usize::from(byte)));
    }

    #[inline]
    fn write_usize(&mut self, address: usize) {
        // Upper and lower bits of 2^64 / the golden ratio's product both count.
        let product = (self.0 ^ address as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = product ^ (product >> 32);
    }
}

/// The predefined functions by all their addresses.
fn predefined() -> &'static Known {
    static KNOWN: OnceLock<Known> = OnceLock::new();
    KNOWN.get_or_init(|| {
        let mut known = Known::default();
        for &(name, own, func) in ALL {
            known.insert(own as usize, func);
            // SAFETY: the name ends with NUL, and the pseudo-handle is always valid.
            let seen = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
            if !seen.is_null() {
                known.insert(seen as usize, func);
            }
        }
        known
    })
}

/// A predefined function as a function.
///
/// # Safety
/// The arrays hold `*count` elements of the function's type.
unsafe fn apply(func: &Func, inout: *mut c_void, input: *const c_void, count: *const i32) {
    if count.is_null() {
        return;
    }
    // SAFETY: not null, so a count by the caller's contract.
    let count = i64::from(unsafe { count.read_unaligned() });
    if let Ok(table) = crate::table() {
        // SAFETY: the caller's contract. A function has no code to give: what it refuses it leaves as it is.
        unsafe { (table.apply)(func, inout, input, count) };
    }
}

macro_rules! functions {
    ($($letter:literal: $sum:ident $max:ident $min:ident $amax:ident $amin:ident,
       $fsum:ident $fmax:ident $fmin:ident $famax:ident $famin:ident;)*) => {
        $(
            function!($letter Sum $sum $fsum);
            function!($letter Max $max $fmax);
            function!($letter Min $min $fmin);
            function!($letter MaxAt $amax $famax);
            function!($letter MinAt $amin $famin);
        )*
        static ALL: &[(&CStr, UserFunction, Func)] = &[
            $(
                entry!($letter Sum $sum), entry!($letter Sum $fsum),
                entry!($letter Max $max), entry!($letter Max $fmax),
                entry!($letter Min $min), entry!($letter Min $fmin),
                entry!($letter MaxAt $amax), entry!($letter MaxAt $famax),
                entry!($letter MinAt $amin), entry!($letter MinAt $famin),
            )*
        ];
    };
}

macro_rules! function {
    ($letter:literal $operation:ident $($name:ident)*) => { $(
        /// A predefined reduction function; see `fmpl.h`.
        ///
        /// # Safety
        /// Both arrays hold `*count` elements of its type.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            inout: *mut c_void,
            input: *const c_void,
            count: *const i32,
        ) {
            const FUNC: Func = func($letter, Builtin::$operation);
            // SAFETY: the caller's contract is the same.
            unsafe { apply(&FUNC, inout, input, count) }
        }
    )* };
}

macro_rules! entry {
    ($letter:literal $operation:ident $name:ident) => {
        (
            match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                Ok(name) => name,
                Err(_) => panic!("a name without NUL"),
            },
            $name as UserFunction,
            func($letter, Builtin::$operation),
        )
    };
}

const fn func(letter: u8, operation: Builtin) -> Func {
    match Func::builtin(letter, operation) {
        Some(func) => func,
        None => panic!("a letter of no type"),
    }
}

functions! {
    b'i': fmpl_isum fmpl_imax fmpl_imin fmpl_iamax fmpl_iamin,
          fmpl_isum_ fmpl_imax_ fmpl_imin_ fmpl_iamax_ fmpl_iamin_;
    b's': fmpl_ssum fmpl_smax fmpl_smin fmpl_samax fmpl_samin,
          fmpl_ssum_ fmpl_smax_ fmpl_smin_ fmpl_samax_ fmpl_samin_;
    b'd': fmpl_dsum fmpl_dmax fmpl_dmin fmpl_damax fmpl_damin,
          fmpl_dsum_ fmpl_dmax_ fmpl_dmin_ fmpl_damax_ fmpl_damin_;
    b'c': fmpl_csum fmpl_cmax fmpl_cmin fmpl_camax fmpl_camin,
          fmpl_csum_ fmpl_cmax_ fmpl_cmin_ fmpl_camax_ fmpl_camin_;
    b'z': fmpl_zsum fmpl_zmax fmpl_zmin fmpl_zamax fmpl_zamin,
          fmpl_zsum_ fmpl_zmax_ fmpl_zmin_ fmpl_zamax_ fmpl_zamin_;
}

#[cfg(test)]
mod tests {
    use super::*;

    unsafe extern "C" fn mine(_: *mut c_void, _: *const c_void, count: *const i32) {
        // SAFETY: only its address is used.
        let _ = unsafe { *count };
    }

    #[test]
    fn functions_are_told_apart() {
        assert_eq!(find(None).err(), Some(code::ERR_FUNCTION));
        assert_eq!(find(Some(fmpl_dmax)).unwrap().builtin, 2 * 16 + 2);
        assert_eq!(find(Some(fmpl_zamin_)).unwrap().builtin, 4 * 16 + 5);
        assert_eq!(find(Some(mine)).err(), Some(code::ERR_FUNCTION));
        assert_eq!(set(Some(mine), 0), code::ERR_SIZE);
        assert_eq!(set(Some(fmpl_isum), 4), code::ERR_FUNCTION);
        assert_eq!(set(Some(mine), 12), code::SUCCESS);
        assert_eq!(set(Some(mine), 24), code::SUCCESS);
        let found = find(Some(mine)).unwrap();
        assert_eq!((found.builtin, found.element), (0, 24));
    }
}
