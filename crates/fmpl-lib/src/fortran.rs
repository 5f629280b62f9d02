//! The Fortran names: everything by address, sizes as default `INTEGER`; those that end in `8_` take sizes as
//! `INTEGER*8`.
//!
//! `FMPL_BOTTOM` of `fmplf.h` is known by its address: a common block is a symbol that every file which includes `fmplf.h`
//! defines, and this library too, and the dynamic linker takes the executable's for all of them. So it is defined by an assembler line
//! and declared as somebody else's, which is asked for at run time.

use std::ffi::{c_char, c_void};

use fmpl_table::{UserFunction, code};

use crate::c;

/// An integer of either kind as a C size; a negative one becomes what no object has, and is refused.
trait Size: Copy {
    fn size(self) -> usize;
}

impl Size for i32 {
    fn size(self) -> usize {
        self as isize as usize
    }
}

impl Size for i64 {
    fn size(self) -> usize {
        self as usize
    }
}

::core::arch::global_asm!(".comm fmpl_private_, 4, 32");

unsafe extern "C" {
    /// The common block of `FMPL_BOTTOM`.
    static fmpl_private_: i32;
}

/// An argument that is passed on as an address.
trait Pass {
    type As;
    fn pass(self) -> Self::As;
}

/// Passed on as it is.
macro_rules! passed {
    ($($ty:ty),*) => { $(
        impl Pass for $ty {
            type As = $ty;
            #[inline(always)]
            fn pass(self) -> $ty {
                self
            }
        }
    )* };
}

passed!(*const c_void, *mut c_void, Option<UserFunction>);

/// Memory, or `FMPL_BOTTOM` for none.
#[repr(transparent)]
pub struct Memory(*mut c_void);

impl Pass for Memory {
    type As = *mut c_void;
    fn pass(self) -> *mut c_void {
        match self.0.addr() == (&raw const fmpl_private_).addr() {
            true => std::ptr::null_mut(),
            false => self.0,
        }
    }
}

/// The value of an argument.
///
/// # Safety
/// `at` is readable, as every argument of Fortran is.
unsafe fn get<T: Copy>(at: *const T) -> T {
    // SAFETY: the caller's contract.
    unsafe { at.read_unaligned() }
}

/// Names of Fortran. `in` arguments are read, the others passed on as addresses.
macro_rules! names {
    ($($name:ident $to:ident(
        $(($($pre:ident: $pty:ty),*))? $([$($size:ident: $int:ty),*])? $($arg:ident),*
        $(; $($out:ident: $oty:ty),*)?
    );)*) => { $(
        #[doc = concat!("`", stringify!($to), "` for Fortran.")]
        ///
        /// # Safety
        /// As the C name says; all arguments are addresses of what they are.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            $($($pre: $pty,)*)? $($($size: *const $int,)*)? $($arg: *const i32,)*
            $($($out: $oty,)*)? ier: *mut i32,
        ) {
            // SAFETY: the caller's contract is that of the C name.
            unsafe {
                c::$to(
                    $($($pre.pass(),)*)? $($(get($size).size(),)*)? $(get($arg),)* $($($out,)*)? ier,
                );
            }
        }
    )* };
}

names! {
    fmpl_init_ fmpl_init((ma: Memory, fa: Memory) count);
    fmpl_finalize_ fmpl_finalize();
    fmpl_initialized_ fmpl_initialized(; flag: *mut i32);
    fmpl_isend_wait_ fmpl_isend_wait(dst, mai, comm);
    fmpl_irecv_wait_ fmpl_irecv_wait(src, mai, comm);
    fmpl_isend_test_ fmpl_isend_test(dst, mai, comm; flag: *mut i32);
    fmpl_irecv_test_ fmpl_irecv_test(src, mai, comm; flag: *mut i32);
    fmpl_sendbuf_check_ fmpl_sendbuf_check(; nsend: *mut i32, nspool: *mut i32);
    fmpl_comm_free_ fmpl_comm_free(; comm: *mut i32);
    fmpl_comm_rank_ fmpl_comm_rank(comm; rank: *mut i32);
    fmpl_comm_size_ fmpl_comm_size(comm; size: *mut i32);
    fmpl_barrier_ fmpl_barrier(comm);
    fmpl_collectives_set_ fmpl_collectives_set(which);
    fmpl_progress_ fmpl_progress(; moved: *mut i32);
    fmpl_abort_ fmpl_abort(error);
    fmpl_send_ fmpl_send((buf: *const c_void) [size: i32] dst, mai, comm);
    fmpl_recv_ fmpl_recv((buf: *mut c_void) [size: i32] src, mai, comm);
    fmpl_isend_ fmpl_isend((buf: *const c_void) [size: i32] dst, mai, comm);
    fmpl_irecv_ fmpl_irecv((buf: *mut c_void) [size: i32] src, mai, comm);
    fmpl_send_any_ fmpl_send_any((buf: *const c_void) [size: i32] dst, mai, comm);
    fmpl_recv_any_ fmpl_recv_any((buf: *mut c_void) [size: i32] mai, comm);
    fmpl_sendbuf_set_ fmpl_sendbuf_set((buf: Memory) [size: i32] ipara);
    fmpl_bcast_ fmpl_bcast((buf: *mut c_void) [size: i32] root, comm);
    fmpl_func_set_ fmpl_func_set((function: Option<UserFunction>) [size: i32]);
    fmpl_alloc_ fmpl_alloc([size: i32]; memory: *mut *mut c_void);
    fmpl_send8_ fmpl_send((buf: *const c_void) [size: i64] dst, mai, comm);
    fmpl_recv8_ fmpl_recv((buf: *mut c_void) [size: i64] src, mai, comm);
    fmpl_isend8_ fmpl_isend((buf: *const c_void) [size: i64] dst, mai, comm);
    fmpl_irecv8_ fmpl_irecv((buf: *mut c_void) [size: i64] src, mai, comm);
    fmpl_send_any8_ fmpl_send_any((buf: *const c_void) [size: i64] dst, mai, comm);
    fmpl_recv_any8_ fmpl_recv_any((buf: *mut c_void) [size: i64] mai, comm);
    fmpl_sendbuf_set8_ fmpl_sendbuf_set((buf: Memory) [size: i64] ipara);
    fmpl_bcast8_ fmpl_bcast((buf: *mut c_void) [size: i64] root, comm);
    fmpl_func_set8_ fmpl_func_set((function: Option<UserFunction>) [size: i64]);
    fmpl_alloc8_ fmpl_alloc([size: i64]; memory: *mut *mut c_void);
}

/// Names of Fortran whose argument lists follow no rule.
macro_rules! reductions {
    ($($reduce:ident $allreduce:ident $int:ty;)*) => { $(
        /// `fmpl_reduce` for Fortran.
        ///
        /// # Safety
        /// As the C name says; all arguments are addresses of what they are.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $reduce(
            buf: *mut c_void,
            count: *const $int,
            function: Option<UserFunction>,
            root: *const i32,
            comm: *const i32,
            work: *mut c_void,
            ier: *mut i32,
        ) {
            // SAFETY: the caller's contract is that of the C name.
            unsafe {
                c::fmpl_reduce(buf, get(count).size(), function, get(root), get(comm), work, ier);
            }
        }

        /// `fmpl_allreduce` for Fortran.
        ///
        /// # Safety
        /// As the C name says; all arguments are addresses of what they are.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $allreduce(
            buf: *mut c_void,
            count: *const $int,
            function: Option<UserFunction>,
            comm: *const i32,
            work: *mut c_void,
            ier: *mut i32,
        ) {
            // SAFETY: the caller's contract is that of the C name.
            unsafe { c::fmpl_allreduce(buf, get(count).size(), function, get(comm), work, ier) };
        }
    )* };
}

reductions! {
    fmpl_reduce_ fmpl_allreduce_ i32;
    fmpl_reduce8_ fmpl_allreduce8_ i64;
}

/// `fmpl_comm_create` for Fortran.
///
/// # Safety
/// All arguments are addresses of what they are.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fmpl_comm_create_(comm: *mut i32, key: *const i32, ier: *mut i32) {
    // SAFETY: the caller's contract is that of the C name.
    unsafe { c::fmpl_comm_create(comm, get(key), ier) };
}

/// `fmpl_irecv_wait_status` for Fortran; the size is an `INTEGER*8`.
///
/// # Safety
/// All arguments are addresses of what they are.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fmpl_irecv_wait_status_(
    src: *const i32,
    mai: *const i32,
    comm: *const i32,
    size: *mut i64,
    index: *mut i32,
    ier: *mut i32,
) {
    // SAFETY: the caller's contract is that of the C name.
    unsafe {
        c::fmpl_irecv_wait_status(get(src), get(mai), get(comm), size.cast(), index, ier);
    }
}

/// `fmpl_recv_any_from` for Fortran; both sizes are `INTEGER*8`.
///
/// # Safety
/// All arguments are addresses of what they are.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fmpl_recv_any_from_(
    buf: *mut c_void,
    size: *const i64,
    mai: *const i32,
    comm: *const i32,
    src: *mut i32,
    bytes: *mut i64,
    index: *mut i32,
    ier: *mut i32,
) {
    // SAFETY: the caller's contract is that of the C name.
    unsafe {
        let size = get(size).size();
        c::fmpl_recv_any_from(
            buf,
            size,
            get(mai),
            get(comm),
            src,
            bytes.cast(),
            index,
            ier,
        );
    }
}

/// `fmpl_free` for Fortran: the `TYPE(C_PTR)` that `fmpl_alloc` set.
///
/// # Safety
/// All arguments are addresses of what they are.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fmpl_free_(memory: *const *mut c_void, ier: *mut i32) {
    // SAFETY: the caller's contract is that of the C name.
    unsafe { c::fmpl_free(get(memory), ier) };
}

/// `fmpl_strerror` for Fortran: the text, filled up with blanks.
///
/// # Safety
/// All arguments are addresses of what they are; `text` has `room` characters.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fmpl_strerror_(error: *const i32, text: *mut c_char, room: usize) {
    // SAFETY: the caller's contract; a text is shorter than the `room` that it is cut to.
    unsafe {
        let words = code::text(get(error)).to_bytes();
        let n = words.len().min(room);
        text.cast::<u8>().write_bytes(b' ', room);
        text.cast::<u8>()
            .copy_from_nonoverlapping(words.as_ptr(), n);
    }
}

/// `fmpl_wtime` for Fortran.
#[unsafe(no_mangle)]
pub extern "C" fn fmpl_wtime_() -> f64 {
    c::fmpl_wtime()
}
