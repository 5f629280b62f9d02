! Communicators and groups, and logicals.
program comms
  implicit none
  include 'mpif.h'
  integer :: rank, nranks, ierr, comm, half, group, part, i, n, result, color, request
  integer :: ranks(1), translated(1), ranges(3, 1), sent, got
  logical :: flag, inter

  call MPI_INIT(ierr)
  call MPI_INITIALIZED(flag, ierr)
  call check(flag, 'MPI_INITIALIZED')
  call MPI_FINALIZED(flag, ierr)
  call check(.not. flag, 'MPI_FINALIZED')
  call MPI_COMM_RANK(MPI_COMM_WORLD, rank, ierr)
  call MPI_COMM_SIZE(MPI_COMM_WORLD, nranks, ierr)
  call MPI_COMM_TEST_INTER(MPI_COMM_WORLD, inter, ierr)
  call check(.not. inter, 'MPI_COMM_TEST_INTER')

  color = mod(rank, 2)
  call MPI_COMM_SPLIT(MPI_COMM_WORLD, color, -rank, half, ierr)
  call MPI_COMM_SIZE(half, n, ierr)
  call check(n == (nranks + 1 - color) / 2, 'MPI_COMM_SPLIT')
  call MPI_COMM_FREE(half, ierr)
  color = MPI_UNDEFINED
  call MPI_COMM_SPLIT(MPI_COMM_WORLD, color, 0, half, ierr)
  call check(half == MPI_COMM_NULL, 'MPI_COMM_SPLIT into none')
  call MPI_COMM_IDUP(MPI_COMM_WORLD, comm, request, ierr)
  call MPI_WAIT(request, MPI_STATUS_IGNORE, ierr)
  call MPI_COMM_COMPARE(comm, MPI_COMM_WORLD, result, ierr)
  call check(result == MPI_CONGRUENT, 'MPI_COMM_IDUP')
  call MPI_COMM_FREE(comm, ierr)

  call MPI_COMM_GROUP(MPI_COMM_WORLD, group, ierr)
  ranges(:, 1) = [nranks - 1, 0, -1]
  call MPI_GROUP_RANGE_INCL(group, 1, ranges, part, ierr)
  ranks(1) = rank
  call MPI_GROUP_TRANSLATE_RANKS(group, 1, ranks, part, translated, ierr)
  call check(translated(1) == nranks - 1 - rank, 'MPI_GROUP_RANGE_INCL')
  call MPI_COMM_CREATE(MPI_COMM_WORLD, part, comm, ierr)
  call MPI_COMM_RANK(comm, i, ierr)
  call check(i == nranks - 1 - rank, 'MPI_COMM_CREATE')
  call MPI_COMM_FREE(comm, ierr)
  call MPI_GROUP_FREE(part, ierr)
  call MPI_GROUP_FREE(group, ierr)
  call check(group == MPI_GROUP_NULL, 'MPI_GROUP_FREE')

  sent = rank
  call MPI_COMM_GET_PARENT(comm, ierr)
  call check(comm == MPI_COMM_NULL, 'MPI_COMM_GET_PARENT')
  call MPI_IRECV(got, 1, MPI_INTEGER, 0, 0, MPI_COMM_SELF, request, ierr)
  call MPI_REQUEST_GET_STATUS(request, flag, MPI_STATUS_IGNORE, ierr)
  call check(.not. flag, 'MPI_REQUEST_GET_STATUS')
  call MPI_SEND(sent, 1, MPI_INTEGER, 0, 0, MPI_COMM_SELF, ierr)
  call MPI_WAIT(request, MPI_STATUS_IGNORE, ierr)
  call done('comms')
end program comms
