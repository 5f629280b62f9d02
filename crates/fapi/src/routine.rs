//! The macros that make a routine, and the names under which a linker finds it.

/// Makes a function's other names weak aliases of it: as Fortran compilers write names (`mpi_x_`,
/// `mpi_x`, `mpi_x__`, `MPI_X`), for programs and, with a P, for profilers. `$low` and `$up` are the name
/// without `mpi_`; the function itself is `pmpi_x_`.
macro_rules! names {
    ($low:literal, $up:literal) => {
        names!(@ $low "mpi_" $low "_");
        names!(@ $low "mpi_" $low "");
        names!(@ $low "mpi_" $low "__");
        names!(@ $low "MPI_" $up "");
        names!(@ $low "pmpi_" $low "");
        names!(@ $low "pmpi_" $low "__");
        names!(@ $low "PMPI_" $up "");
    };
    (@ $low:literal $start:literal $name:literal $end:literal) => {
        ::core::arch::global_asm!(concat!(
            ".weak ", $start, $name, $end, "\n.set ", $start, $name, $end, ", pmpi_", $low, "_"
        ));
    };
}

/// One routine: its parameters, the lengths of its strings, and an expression for its error code.
macro_rules! routine {
    ($function:ident $low:literal $up:literal
     ($($name:ident: $ty:ty),* $(,)?) ($($length:ident),*) $body:expr) => {
        #[doc = concat!("`MPI_", $up, "`.")]
        ///
        /// # Safety
        /// The caller is a Fortran program that keeps the contract of the procedure: each argument is
        /// the address of what the procedure says, or of a constant in a common block.
        #[unsafe(no_mangle)]
        #[allow(clippy::too_many_arguments)]
        pub unsafe extern "C" fn $function($($name: $ty,)* ierror: *mut i32 $(, $length: usize)*) {
            // SAFETY: the caller's contract; what the C procedure gets is what it demands, since each
            // argument was converted by what it is in both languages.
            unsafe { *ierror = $body };
        }
        names!($low, $up);
    };
}
