//! Positions in arrays of requests, which count from 1 in Fortran.

use crate::r#gen::values::UNDEFINED;

/// A position that the call sets.
pub struct Index {
    to: *mut i32,
    value: i32,
}

impl Index {
    /// Where C puts it.
    pub fn at(&mut self) -> *mut i32 {
        &raw mut self.value
    }
}

impl Drop for Index {
    fn drop(&mut self) {
        // `MPI_UNDEFINED` is negative.
        let value = if self.value >= 0 {
            self.value + 1
        } else {
            self.value
        };
        // SAFETY: made by `index_at`, whose contract says it is writable.
        unsafe { *self.to = value };
    }
}

/// A position that the call sets, `MPI_UNDEFINED` until then.
///
/// # Safety
/// `to` is writable until the guard is dropped.
pub unsafe fn index_at(to: *mut i32) -> Index {
    Index {
        to,
        value: UNDEFINED,
    }
}

/// Positions that the call sets.
pub struct Indices {
    to: *mut i32,
    count: *const i32,
}

impl Indices {
    /// Where C puts them.
    pub fn at(&mut self) -> *mut i32 {
        self.to
    }
}

impl Drop for Indices {
    fn drop(&mut self) {
        // SAFETY: made by `indices_at`, whose contract says what is readable and writable; the call has
        // set as many as it says.
        unsafe {
            for i in 0..usize::try_from(*self.count).unwrap_or(0) {
                *self.to.add(i) += 1;
            }
        }
    }
}

/// An array of positions of which the call sets `count`, which it sets too.
///
/// # Safety
/// Both are readable and writable until the guard is dropped.
pub unsafe fn indices_at(to: *mut i32, count: *mut i32) -> Indices {
    // A call that fails before it has looked has set none.
    // SAFETY: the caller's contract.
    unsafe { *count = UNDEFINED };
    Indices { to, count }
}
