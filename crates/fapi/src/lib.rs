//! `libmpifort_abi.so.1`: the Fortran routines of `mpif.h` over the standard ABI.
//!
//! Each routine converts its arguments and calls the C procedure of the same name, `MPI_X` and not
//! `PMPI_X`, so that a profiler written in C sees Fortran programs. Nothing here knows the engine: the
//! library needs `libmpi_abi.so.1` and only what the standard says of it, so it works on another one
//! as well. No Fortran compiler is needed to build it; common blocks are symbols ([`blocks`]) and the
//! length of a string is an argument behind the last one, as gfortran and its like pass it.
//!
//! `gen` has the generated routines, the other modules those that are written by hand. `fapi-mpich`
//! compiles these modules too, with its own `abi` and `gen`: what differs between the ABIs is there.

#[macro_use]
mod routine;

mod abi;
mod attribute;
mod blocks;
mod callback;
#[rustfmt::skip]
mod r#gen;
mod handle;
mod info;
mod prelude;
mod request;
mod spawn;
mod string;
mod value;
