//! Routines that give a string whose length the caller says: that length has no NUL in Fortran.

use crate::prelude::*;

/// A length that counts the NUL in C: what Fortran says plus one, and back after the call. 0 asks for
/// the length only.
struct Length {
    to: *mut i32,
    value: i32,
}

impl Length {
    /// # Safety
    /// `to` is readable, and writable until the guard is dropped.
    unsafe fn new(to: *mut i32) -> Length {
        // SAFETY: the caller's contract.
        let value = unsafe { *to };
        let value = if value > 0 {
            value.saturating_add(1)
        } else {
            value
        };
        Length { to, value }
    }

    fn at(&mut self) -> *mut i32 {
        &raw mut self.value
    }

    /// Room for the string that C writes.
    fn room(&self) -> usize {
        usize::try_from(self.value).unwrap_or(0)
    }
}

impl Drop for Length {
    fn drop(&mut self) {
        // SAFETY: made by `new`, whose contract says it is writable.
        unsafe {
            *self.to = if self.value > 0 {
                self.value - 1
            } else {
                self.value
            }
        };
    }
}

routine! { pmpi_info_get_ "info_get" "INFO_GET"
    (info: *const i32, key: *const u8, valuelen: *const i32, value: *mut u8, flag: *mut i32)
    (key_length, value_length) {
        let room = usize::try_from(*valuelen).unwrap_or(0) + 1;
        let key = word_in(key, key_length);
        MPI_Info_get(Info::from_int(*info), key.as_ptr(), *valuelen,
            text_out(value, value_length, room).at(), flag)
    }
}

routine! { pmpi_info_get_string_ "info_get_string" "INFO_GET_STRING"
    (info: *const i32, key: *const u8, buflen: *mut i32, value: *mut u8, flag: *mut i32)
    (key_length, value_length) {
        let mut length = Length::new(buflen);
        let room = length.room();
        let key = word_in(key, key_length);
        MPI_Info_get_string(Info::from_int(*info), key.as_ptr(), length.at(),
            text_out(value, value_length, room).at(), flag)
    }
}

routine! { pmpi_session_get_nth_pset_ "session_get_nth_pset" "SESSION_GET_NTH_PSET"
    (session: *const i32, info: *const i32, n: *const i32, pset_len: *mut i32, pset_name: *mut u8)
    (name_length) {
        let mut length = Length::new(pset_len);
        let room = length.room();
        MPI_Session_get_nth_pset(Session::from_int(*session), Info::from_int(*info), *n, length.at(),
            text_out(pset_name, name_length, room).at())
    }
}
