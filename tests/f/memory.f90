! Memory from MPI, attached buffers, time.
program memory
  use, intrinsic :: iso_c_binding
  implicit none
  include 'mpif.h'
  integer(kind=MPI_ADDRESS_KIND) :: base
  integer, pointer :: array(:)
  character, allocatable :: buffer(:)
  integer :: ierr, rank, nranks, n, got, required, provided, dummy
  double precision :: before, after

  required = MPI_THREAD_FUNNELED
  call MPI_INIT_THREAD(required, provided, ierr)
  call check(provided >= MPI_THREAD_FUNNELED, 'MPI_INIT_THREAD')
  call MPI_QUERY_THREAD(n, ierr)
  call check(n == provided, 'MPI_QUERY_THREAD')
  call MPI_COMM_RANK(MPI_COMM_WORLD, rank, ierr)
  call MPI_COMM_SIZE(MPI_COMM_WORLD, nranks, ierr)

  call MPI_ALLOC_MEM(400_MPI_ADDRESS_KIND, MPI_INFO_NULL, base, ierr)
  call check(ierr == MPI_SUCCESS .and. base /= 0, 'MPI_ALLOC_MEM')
  call c_f_pointer(transfer(base, c_null_ptr), array, [100])
  array = rank
  call MPI_ALLREDUCE(MPI_IN_PLACE, array, 100, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierr)
  call check(all(array == nranks * (nranks - 1) / 2), 'data in memory from MPI')
  call MPI_FREE_MEM(array, ierr)
  call check(ierr == MPI_SUCCESS, 'MPI_FREE_MEM')

  call MPI_PACK_SIZE(1, MPI_INTEGER, MPI_COMM_WORLD, n, ierr)
  n = n + MPI_BSEND_OVERHEAD
  allocate (buffer(n))
  call MPI_BUFFER_ATTACH(buffer, n, ierr)
  call MPI_BSEND(rank, 1, MPI_INTEGER, mod(rank + 1, nranks), 0, MPI_COMM_WORLD, ierr)
  call MPI_RECV(got, 1, MPI_INTEGER, MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierr)
  call check(got == mod(rank + nranks - 1, nranks), 'MPI_BSEND')
  dummy = 99
  call MPI_BUFFER_DETACH(dummy, got, ierr)
  call check(got == n .and. dummy == 99, 'MPI_BUFFER_DETACH')
  call MPI_BUFFER_ATTACH(MPI_BUFFER_AUTOMATIC, 0, ierr)
  call check(ierr == MPI_SUCCESS, 'MPI_BUFFER_AUTOMATIC')
  call MPI_BUFFER_DETACH(dummy, got, ierr)

  before = MPI_WTIME()
  after = PMPI_WTIME()
  call check(after >= before .and. MPI_WTICK() > 0 .and. MPI_WTICK() < 1, 'MPI_WTIME')
  call MPI_PCONTROL(1)
  call done('memory')
end program memory
