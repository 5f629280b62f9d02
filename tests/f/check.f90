! What the Fortran tests share. A test prints "ok NAME" from rank 0 when every rank has passed; the first
! check that fails says where and aborts the job. The programs use only the standard's mpif.h.

subroutine check(is_so, what)
  implicit none
  include 'mpif.h'
  logical, intent(in) :: is_so
  character(len=*), intent(in) :: what
  integer :: rank, ierr

  if (is_so) return
  call MPI_COMM_RANK(MPI_COMM_WORLD, rank, ierr)
  print '(a,i0,2a)', 'rank ', rank, ': not so: ', what
  flush (6)
  call MPI_ABORT(MPI_COMM_WORLD, 1, ierr)
end subroutine check

subroutine done(name)
  implicit none
  include 'mpif.h'
  character(len=*), intent(in) :: name
  integer :: rank, ierr

  call MPI_BARRIER(MPI_COMM_WORLD, ierr)
  call MPI_COMM_RANK(MPI_COMM_WORLD, rank, ierr)
  if (rank == 0) print '(2a)', 'ok ', name
  call MPI_FINALIZE(ierr)
end subroutine done
