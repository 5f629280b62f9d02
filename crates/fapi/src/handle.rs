//! Handles and arrays of them on their way to C and back.
//!
//! Where C's handle is Fortran's integer, everything goes through by address. Elsewhere the guards here
//! hold C's form for the time of the call and write Fortran's when dropped.

use crate::abi::Comm;
use crate::r#gen::values::{CART, DIST_GRAPH, GRAPH, UNDEFINED};

/// A handle type of C.
pub trait Handle: Copy {
    /// Whether it is the integer that Fortran has.
    const IS_INT: bool;
    /// What an output holds before the call.
    const NONE: Self;
    /// The handle of Fortran's integer.
    fn from_int(value: i32) -> Self;
    /// Fortran's integer for it.
    fn to_int(self) -> i32;
    /// Whether the call has left it as it was.
    fn is_none(self) -> bool;
}

/// A handle that the call sets.
pub struct HandleOut<H: Handle> {
    to: *mut i32,
    value: H,
}

impl<H: Handle> HandleOut<H> {
    /// Where C puts it.
    pub fn at(&mut self) -> *mut H {
        if H::IS_INT {
            self.to.cast()
        } else {
            &raw mut self.value
        }
    }
}

impl<H: Handle> Drop for HandleOut<H> {
    fn drop(&mut self) {
        if !H::IS_INT && !self.value.is_none() {
            // SAFETY: made by `handle_out` or `handle_inout`, whose contract says it is writable.
            unsafe { *self.to = self.value.to_int() };
        }
    }
}

/// A handle that the call sets.
///
/// # Safety
/// `to` is writable until the guard is dropped.
pub unsafe fn handle_out<H: Handle>(to: *mut i32) -> HandleOut<H> {
    HandleOut { to, value: H::NONE }
}

/// A handle that the call reads and may set.
///
/// # Safety
/// `to` is readable, and writable until the guard is dropped.
pub unsafe fn handle_inout<H: Handle>(to: *mut i32) -> HandleOut<H> {
    // SAFETY: the caller's contract.
    let value = H::from_int(unsafe { *to });
    HandleOut { to, value }
}

/// An array of handles.
pub struct Handles<H: Handle> {
    from: *mut i32,
    copy: Vec<H>,
    /// Whether the copy goes back at the end.
    back: bool,
}

impl<H: Handle> Handles<H> {
    /// Where C finds it.
    pub fn at(&mut self) -> *mut H {
        if H::IS_INT {
            self.from.cast()
        } else {
            self.copy.as_mut_ptr()
        }
    }
}

impl<H: Handle> Drop for Handles<H> {
    fn drop(&mut self) {
        if !self.back {
            return;
        }
        for (i, value) in self
            .copy
            .iter()
            .enumerate()
            .filter(|(_, value)| !value.is_none())
        {
            // SAFETY: the array has as many elements as the copy, by the contract of the functions
            // that make it, and is writable.
            unsafe { *self.from.add(i) = value.to_int() };
        }
    }
}

/// # Safety
/// `from` has as many elements as `length` says, readable if `read`, writable until the guard is dropped
/// if `back`.
unsafe fn handles<H: Handle>(
    from: *mut i32,
    length: impl FnOnce() -> i32,
    read: bool,
    back: bool,
) -> Handles<H> {
    let copy = if H::IS_INT {
        Vec::new()
    } else {
        // The C procedure refuses a negative length.
        let length = usize::try_from(length()).unwrap_or(0);
        let element = |i| match read {
            // SAFETY: the caller's contract.
            true => H::from_int(unsafe { *from.add(i) }),
            false => H::NONE,
        };
        (0..length).map(element).collect()
    };
    Handles { from, copy, back }
}

/// An array of handles that the call reads; its length is asked for where it matters.
///
/// # Safety
/// `from` has so many readable elements.
pub unsafe fn handles_in<H: Handle>(from: *const i32, length: impl FnOnce() -> i32) -> Handles<H> {
    // SAFETY: the caller's contract; nothing is written.
    unsafe { handles(from.cast_mut(), length, true, false) }
}

/// An array of handles that the call reads and sets.
///
/// # Safety
/// `from` has so many readable elements that are writable until the guard is dropped.
pub unsafe fn handles_inout<H: Handle>(from: *mut i32, length: impl FnOnce() -> i32) -> Handles<H> {
    // SAFETY: the caller's contract is the same.
    unsafe { handles(from, length, true, true) }
}

/// An array of handles of which the call sets some.
///
/// # Safety
/// `to` has so many elements that are writable until the guard is dropped.
pub unsafe fn handles_out<H: Handle>(to: *mut i32, length: impl FnOnce() -> i32) -> Handles<H> {
    // SAFETY: the caller's contract is the same.
    unsafe { handles(to, length, false, true) }
}

// By their PMPI_ names: a profiler counts what the program calls.
unsafe extern "C" {
    fn PMPI_Comm_test_inter(comm: Comm, flag: *mut i32) -> i32;
    fn PMPI_Comm_remote_size(comm: Comm, size: *mut i32) -> i32;
    fn PMPI_Comm_size(comm: Comm, size: *mut i32) -> i32;
    fn PMPI_Comm_rank(comm: Comm, rank: *mut i32) -> i32;
    fn PMPI_Topo_test(comm: Comm, status: *mut i32) -> i32;
    fn PMPI_Cartdim_get(comm: Comm, ndims: *mut i32) -> i32;
    fn PMPI_Graph_neighbors_count(comm: Comm, rank: i32, nneighbors: *mut i32) -> i32;
    fn PMPI_Dist_graph_neighbors_count(comm: Comm, i: *mut i32, o: *mut i32, w: *mut i32) -> i32;
}

/// The rank of the caller in a communicator.
pub fn own_rank(comm: i32) -> i32 {
    let mut rank = 0;
    // SAFETY: the output is ours; the procedure refuses what is no communicator.
    unsafe { PMPI_Comm_rank(Comm::from_int(comm), &mut rank) };
    rank
}

/// How many ranks the arrays of a collective call have an element for.
pub fn peers(comm: i32) -> i32 {
    let comm = Comm::from_int(comm);
    let (mut inter, mut size) = (0, 0);
    // SAFETY: the outputs are ours; the procedures refuse what is no communicator.
    unsafe {
        PMPI_Comm_test_inter(comm, &mut inter);
        if inter != 0 {
            PMPI_Comm_remote_size(comm, &mut size);
        } else {
            PMPI_Comm_size(comm, &mut size);
        }
    }
    size
}

/// How many neighbours there are to receive from and to send to.
pub fn neighbor_counts(comm: i32) -> (i32, i32) {
    let rank = own_rank(comm);
    let comm = Comm::from_int(comm);
    let (mut topology, mut sources, mut targets, mut weighted) = (UNDEFINED, 0, 0, 0);
    // SAFETY: the outputs are ours; the procedures refuse what has no such topology.
    unsafe {
        PMPI_Topo_test(comm, &mut topology);
        match topology {
            CART => {
                PMPI_Cartdim_get(comm, &mut sources);
                (2 * sources, 2 * sources)
            }
            GRAPH => {
                PMPI_Graph_neighbors_count(comm, rank, &mut sources);
                (sources, sources)
            }
            DIST_GRAPH => {
                PMPI_Dist_graph_neighbors_count(comm, &mut sources, &mut targets, &mut weighted);
                (sources, targets)
            }
            _ => (0, 0),
        }
    }
}
