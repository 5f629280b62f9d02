//! Functions that the program hands to MPI and MPI calls back.
//!
//! Handles are passed in the ABI's form (`usize`, as the `encode` of that ABI makes it). A
//! `usize` serves both ABIs: by value the MPICH ABI reads the low 32 bits of the register, and by
//! address its `int` is the first half of the word on the little-endian machines we support.

use crate::UserBuf;

const _: () = assert!(
    cfg!(target_endian = "little"),
    "callbacks pass handles as little-endian words"
);

/// How the ABI of this library wants values in callbacks.
#[derive(Clone, Copy)]
pub struct CallbackAbi {
    /// A neutral handle in the ABI's form.
    pub handle: fn(types::Handle) -> usize,
    /// A standard-ABI error class or code in the ABI's form, and back.
    pub error: fn(i32) -> i32,
    /// An error code of the ABI as a class or code of the standard ABI.
    pub error_back: fn(i32) -> i32,
}

/// A callback: the address of a C function, or a small predefined constant of the standard ABI.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UserFn(usize);

impl UserFn {
    /// Wraps a function's address.
    ///
    /// # Safety
    /// `addr` is a predefined constant, or a function of the prototype that the MPI call it was
    /// passed to demands.
    pub const unsafe fn new(addr: usize) -> UserFn {
        UserFn(addr)
    }

    /// The address or constant.
    pub const fn addr(self) -> usize {
        self.0
    }

    /// Whether NULL was passed (which is also the constant of `NULL_COPY_FN`).
    pub const fn is_null(self) -> bool {
        self.0 == 0
    }

    /// Calls it as an `MPI_User_function` (or, `large`, `MPI_User_function_c`).
    pub fn call_op(self, invec: UserBuf, inout: UserBuf, len: i64, datatype: usize, large: bool) {
        let mut datatype = datatype;
        let datatype: *mut usize = &mut datatype;
        // SAFETY: the constructor's contract says the prototype matches.
        unsafe {
            if large {
                let f: unsafe extern "C" fn(*mut u8, *mut u8, *mut i64, *mut usize) =
                    std::mem::transmute(self.0);
                let mut len = len;
                f(invec.as_mut_ptr(), inout.as_mut_ptr(), &mut len, datatype)
            } else {
                let f: unsafe extern "C" fn(*mut u8, *mut u8, *mut i32, *mut usize) =
                    std::mem::transmute(self.0);
                let mut len = len as i32;
                f(invec.as_mut_ptr(), inout.as_mut_ptr(), &mut len, datatype)
            }
        }
    }

    /// Calls it as a reduction function of FMPL: combines `count` elements of `input` into `inout`.
    pub fn call_combine(self, inout: UserBuf, input: UserBuf, count: i32) {
        // SAFETY: the constructor's contract says the prototype matches.
        unsafe {
            let f: unsafe extern "C" fn(*mut u8, *const u8, *const i32) =
                std::mem::transmute(self.0);
            f(inout.as_mut_ptr(), input.as_mut_ptr(), &count)
        }
    }

    /// Calls it as an attribute copy function; gives the return code, the copied value and the flag.
    pub fn call_attr_copy(
        self,
        object: usize,
        keyval: i32,
        extra_state: usize,
        value: usize,
    ) -> (i32, usize, bool) {
        let (mut out, mut flag) = (0usize, 0i32);
        // SAFETY: the constructor's contract says the prototype matches; both outputs are ours.
        let code = unsafe {
            let f: unsafe extern "C" fn(usize, i32, usize, usize, *mut usize, *mut i32) -> i32 =
                std::mem::transmute(self.0);
            f(object, keyval, extra_state, value, &mut out, &mut flag)
        };
        (code, out, flag != 0)
    }

    /// Calls it as an attribute delete function; gives the return code.
    pub fn call_attr_delete(
        self,
        object: usize,
        keyval: i32,
        value: usize,
        extra_state: usize,
    ) -> i32 {
        // SAFETY: the constructor's contract says the prototype matches.
        unsafe {
            let f: unsafe extern "C" fn(usize, i32, usize, usize) -> i32 =
                std::mem::transmute(self.0);
            f(object, keyval, value, extra_state)
        }
    }

    /// Calls it as an error handler function with the object and the code, both in the ABI's form.
    pub fn call_errhandler(self, object: usize, code: i32) {
        let (mut object, mut code) = (object, code);
        // SAFETY: the constructor's contract; the prototype is variadic, and a variadic call passes
        // these two pointers in the same registers (no vector arguments, so `al` is free to be 0).
        unsafe {
            let f: unsafe extern "C" fn(*mut usize, *mut i32, ...) = std::mem::transmute(self.0);
            f(&mut object, &mut code)
        }
    }

    /// Calls it as a generalised request's query function. `status` is in the ABI's form.
    pub fn call_grequest_query(self, extra_state: usize, status: UserBuf) -> i32 {
        // SAFETY: the constructor's contract; `status` is a whole status of the ABI.
        unsafe {
            let f: unsafe extern "C" fn(usize, *mut u8) -> i32 = std::mem::transmute(self.0);
            f(extra_state, status.as_mut_ptr())
        }
    }

    /// Calls it as a generalised request's free function.
    pub fn call_grequest_free(self, extra_state: usize) -> i32 {
        // SAFETY: the constructor's contract says the prototype matches.
        unsafe {
            let f: unsafe extern "C" fn(usize) -> i32 = std::mem::transmute(self.0);
            f(extra_state)
        }
    }

    /// Calls it as a generalised request's cancel function.
    pub fn call_grequest_cancel(self, extra_state: usize, complete: bool) -> i32 {
        // SAFETY: the constructor's contract says the prototype matches.
        unsafe {
            let f: unsafe extern "C" fn(usize, i32) -> i32 = std::mem::transmute(self.0);
            f(extra_state, complete as i32)
        }
    }
}
