! Run with the profiler of the C tests preloaded: it sees each call once, and nothing that the Fortran
! routines do by themselves. PMPI_ routines too are C's MPI_ procedures to it.
program profiled
  use, intrinsic :: iso_c_binding
  implicit none
  include 'mpif.h'
  integer :: rank, nranks, ierr, i, value, got, request(2), types(64), counts(64), places(64)

  interface
     function profiler_calls(name) bind(c)
       use, intrinsic :: iso_c_binding
       character(kind=c_char), intent(in) :: name(*)
       integer(c_int) :: profiler_calls
     end function profiler_calls
  end interface

  call MPI_INIT(ierr)
  call MPI_COMM_RANK(MPI_COMM_WORLD, rank, ierr)
  call MPI_COMM_SIZE(MPI_COMM_WORLD, nranks, ierr)
  value = rank
  do i = 1, 3
     call MPI_IRECV(got, 1, MPI_INTEGER, mod(rank + 1, nranks), 0, MPI_COMM_WORLD, request(1), ierr)
     call MPI_ISEND(value, 1, MPI_INTEGER, mod(rank + nranks - 1, nranks), 0, MPI_COMM_WORLD, request(2), ierr)
     call MPI_WAITALL(2, request, MPI_STATUSES_IGNORE, ierr)
  end do
  call MPI_BCAST(value, 1, MPI_INTEGER, 0, MPI_COMM_WORLD, ierr)
  call PMPI_BCAST(value, 1, MPI_INTEGER, 0, MPI_COMM_WORLD, ierr)
  types = MPI_INTEGER
  counts = 0
  places = 0
  call MPI_ALLTOALLW(value, counts, places, types, got, counts, places, types, MPI_COMM_WORLD, ierr)
  call count('MPI_Irecv', 3)
  call count('MPI_Isend', 3)
  call count('MPI_Waitall', 3)
  call count('MPI_Bcast', 2)
  call count('MPI_Allreduce', 0)
  call count('MPI_Barrier', 0)
  call done('profiled')

contains

  subroutine count(name, want)
    character(len=*), intent(in) :: name
    integer, intent(in) :: want

    call check(profiler_calls(name // c_null_char) == want, name)
  end subroutine count
end program profiled
