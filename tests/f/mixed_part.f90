! The Fortran part of mixed.c.
subroutine fortran_part(comm, keyval, ours)
  use, intrinsic :: iso_c_binding
  implicit none
  include 'mpif.h'
  integer :: comm, keyval, ours, ierr, total, request
  integer(kind=MPI_ADDRESS_KIND) :: value
  integer, pointer :: number
  logical :: flag

  value = -123456789012_MPI_ADDRESS_KIND
  call MPI_COMM_SET_ATTR(comm, keyval, value, ierr)
  ! What C stores, Fortran gets as an address.
  call MPI_COMM_GET_ATTR(comm, ours, value, flag, ierr)
  call c_f_pointer(transfer(value, c_null_ptr), number)
  call check(flag .and. number == 7, 'an attribute from C')
  total = 1
  call MPI_ALLREDUCE(MPI_IN_PLACE, total, 1, MPI_INTEGER, MPI_SUM, comm, ierr)
  call MPI_IRECV(total, 1, MPI_INTEGER, MPI_PROC_NULL, 0, comm, request, ierr)
  call MPI_WAIT(request, MPI_STATUS_IGNORE, ierr)
  call check(ierr == MPI_SUCCESS .and. total > 0, 'constants by address')
  call is_ignored(MPI_STATUS_IGNORE, MPI_STATUSES_IGNORE, flag)
  call check(flag, 'the ignored statuses in C')
end subroutine fortran_part
