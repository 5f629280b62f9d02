//! Arrays of a C caller: integers of either width, handles and statuses in either ABI's form.
//!
//! Elements are read and written one at a time where they lie, so no call allocates for its
//! arrays. The length is the call's business: indices come from the counts that the standard says
//! belong to the array.

use types::{Handle, Status};

/// An array of `int`, or of `MPI_Aint`/`MPI_Count`, in or out.
#[derive(Clone, Copy)]
pub struct Ints {
    addr: usize,
    wide: bool,
}

impl Ints {
    /// An array of C `int`.
    ///
    /// # Safety
    /// `addr` is NULL or points to as many `int`s as the call's counts say.
    #[inline]
    pub const unsafe fn narrow(addr: usize) -> Ints {
        Ints { addr, wide: false }
    }

    /// An array of 64-bit integers.
    ///
    /// # Safety
    /// `addr` is NULL or points to as many 64-bit integers as the call's counts say.
    #[inline]
    pub const unsafe fn wide(addr: usize) -> Ints {
        Ints { addr, wide: true }
    }

    /// Whether the caller passed NULL.
    pub const fn is_null(self) -> bool {
        self.addr == 0
    }

    /// The address the caller passed (sentinels such as `MPI_UNWEIGHTED` are addresses).
    pub const fn addr(self) -> usize {
        self.addr
    }

    /// Whether elements are 64 bits wide (the `_c` form of a call, or an array of `MPI_Aint`).
    pub const fn is_wide(self) -> bool {
        self.wide
    }

    /// Element `i`.
    #[inline]
    pub fn get(self, i: usize) -> i64 {
        // SAFETY: the constructor's contract; `i` is below the call's count. Unaligned reads cost
        // nothing here and forgive callers that pack their arrays.
        unsafe {
            match self.wide {
                true => (self.addr as *const i64).add(i).read_unaligned(),
                false => (self.addr as *const i32).add(i).read_unaligned() as i64,
            }
        }
    }

    /// Sets element `i`; a value that `int` can't hold becomes `MPI_UNDEFINED`.
    #[inline]
    pub fn set(self, i: usize, value: i64) {
        // SAFETY: as for `get`; the array is an output of the call.
        unsafe {
            match self.wide {
                true => (self.addr as *mut i64).add(i).write_unaligned(value),
                false => (self.addr as *mut i32)
                    .add(i)
                    .write_unaligned(i32::try_from(value).unwrap_or(types::consts::UNDEFINED)),
            }
        }
    }
}

/// How one ABI writes handles in memory.
pub struct HandleCodec {
    /// Bytes of a handle in an array.
    pub size: usize,
    /// From the ABI's handle to the neutral one; what isn't a handle becomes `Handle(0)`.
    pub decode: fn(usize) -> Handle,
    /// From the neutral handle to the ABI's.
    pub encode: fn(Handle) -> usize,
}

/// An array of handles, in or out.
#[derive(Clone, Copy)]
pub struct Handles {
    addr: usize,
    codec: &'static HandleCodec,
}

impl Handles {
    /// The array at `addr` in the form that `codec` knows.
    ///
    /// # Safety
    /// `addr` is NULL or points to as many handles as the call's counts say.
    #[inline]
    pub const unsafe fn new(addr: usize, codec: &'static HandleCodec) -> Handles {
        Handles { addr, codec }
    }

    /// Whether the caller passed NULL.
    pub const fn is_null(self) -> bool {
        self.addr == 0
    }

    /// Handle `i`.
    #[inline]
    pub fn get(self, i: usize) -> Handle {
        let at = self.addr + i * self.codec.size;
        // SAFETY: the constructor's contract; `i` is below the call's count.
        let raw = unsafe {
            match self.codec.size {
                8 => (at as *const usize).read_unaligned(),
                _ => (at as *const u32).read_unaligned() as usize,
            }
        };
        (self.codec.decode)(raw)
    }

    /// Sets handle `i`.
    #[inline]
    pub fn set(self, i: usize, handle: Handle) {
        let at = self.addr + i * self.codec.size;
        let raw = (self.codec.encode)(handle);
        // SAFETY: as for `get`; the array is an output of the call.
        unsafe {
            match self.codec.size {
                8 => (at as *mut usize).write_unaligned(raw),
                _ => (at as *mut u32).write_unaligned(raw as u32),
            }
        }
    }
}

/// How one ABI writes statuses in memory.
pub struct StatusCodec {
    /// Bytes of an `MPI_Status`.
    pub size: usize,
    /// Writes a whole status except its error field.
    pub write: unsafe fn(*mut u8, &Status),
    /// Writes the error field only (an error class of the standard ABI).
    pub write_error: unsafe fn(*mut u8, i32),
}

/// An array of statuses, out; or `MPI_STATUSES_IGNORE`.
#[derive(Clone, Copy)]
pub struct Statuses {
    addr: usize,
    codec: &'static StatusCodec,
}

impl Statuses {
    /// The array at `addr`, 0 where the caller ignores statuses.
    ///
    /// # Safety
    /// `addr` is 0 or points to as many statuses as the call's counts say.
    #[inline]
    pub const unsafe fn new(addr: usize, codec: &'static StatusCodec) -> Statuses {
        Statuses { addr, codec }
    }

    /// Whether the caller ignores statuses.
    pub const fn is_ignored(self) -> bool {
        self.addr == 0
    }

    /// Sets status `i`, leaving its error field alone.
    #[inline]
    pub fn set(self, i: usize, status: &Status) {
        if !self.is_ignored() {
            // SAFETY: the constructor's contract; `i` is below the call's count.
            unsafe { (self.codec.write)((self.addr + i * self.codec.size) as *mut u8, status) }
        }
    }

    /// Sets the error field of status `i` to a class of the standard ABI.
    #[inline]
    pub fn set_error(self, i: usize, class: i32) {
        if !self.is_ignored() {
            // SAFETY: as for `set`.
            unsafe { (self.codec.write_error)((self.addr + i * self.codec.size) as *mut u8, class) }
        }
    }
}
