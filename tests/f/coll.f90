! Collective operations, in place where that is possible, and with arrays of datatypes.
program coll
  implicit none
  include 'mpif.h'
  integer :: rank, nranks, ierr, i, root, request, start, two(2), best(2)
  integer, allocatable :: all(:), mine(:), counts(:), places(:), types(:), wide(:)
  ! MPI_START and MPI_WAIT change it, and are not told where it is.
  integer, asynchronous :: total
  double precision :: x

  call MPI_INIT(ierr)
  call MPI_COMM_RANK(MPI_COMM_WORLD, rank, ierr)
  call MPI_COMM_SIZE(MPI_COMM_WORLD, nranks, ierr)
  allocate (all(nranks), mine(nranks), counts(nranks), places(nranks), types(nranks), wide(3 * nranks))
  root = nranks - 1

  x = rank
  call MPI_BCAST(x, 1, MPI_DOUBLE_PRECISION, root, MPI_COMM_WORLD, ierr)
  call check(x == root, 'MPI_BCAST')
  total = rank + 1
  call MPI_ALLREDUCE(MPI_IN_PLACE, total, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierr)
  call check(total == nranks * (nranks + 1) / 2, 'MPI_ALLREDUCE in place')
  total = rank + 1
  if (rank == root) then
     call MPI_REDUCE(MPI_IN_PLACE, total, 1, MPI_INTEGER, MPI_SUM, root, MPI_COMM_WORLD, ierr)
     call check(total == nranks * (nranks + 1) / 2, 'MPI_REDUCE in place')
  else
     call MPI_REDUCE(total, i, 1, MPI_INTEGER, MPI_SUM, root, MPI_COMM_WORLD, ierr)
  end if

  all = -1
  all(rank + 1) = 10 * rank
  if (rank == root) then
     call MPI_GATHER(MPI_IN_PLACE, 1, MPI_INTEGER, all, 1, MPI_INTEGER, root, MPI_COMM_WORLD, ierr)
     do i = 1, nranks
        call check(all(i) == 10 * (i - 1), 'MPI_GATHER in place')
     end do
  else
     call MPI_GATHER(all(rank + 1), 1, MPI_INTEGER, i, 1, MPI_INTEGER, root, MPI_COMM_WORLD, ierr)
  end if
  all = -1
  all(rank + 1) = 10 * rank
  call MPI_ALLGATHER(MPI_IN_PLACE, 1, MPI_INTEGER, all, 1, MPI_INTEGER, MPI_COMM_WORLD, ierr)
  do i = 1, nranks
     call check(all(i) == 10 * (i - 1), 'MPI_ALLGATHER in place')
  end do
  mine = [(100 * rank + i, i = 1, nranks)]
  call MPI_ALLTOALL(mine, 1, MPI_INTEGER, all, 1, MPI_INTEGER, MPI_COMM_WORLD, ierr)
  do i = 1, nranks
     call check(all(i) == 100 * (i - 1) + rank + 1, 'MPI_ALLTOALL')
  end do
  call MPI_ALLTOALL(MPI_IN_PLACE, 1, MPI_INTEGER, mine, 1, MPI_INTEGER, MPI_COMM_WORLD, ierr)
  do i = 1, nranks
     call check(mine(i) == all(i), 'MPI_ALLTOALL in place')
  end do

  ! One element for rank 0, two for rank 1 and so on; displacements count from 0.
  counts = [(i, i = 1, nranks)]
  places = [(i * (i - 1) / 2, i = 1, nranks)]
  wide = [(i, i = 1, 3 * nranks)]
  mine = 0
  call MPI_SCATTERV(wide, counts, places, MPI_INTEGER, mine, rank + 1, MPI_INTEGER, 0, MPI_COMM_WORLD, ierr)
  do i = 1, rank + 1
     if (places(rank + 1) + i <= 3 * nranks) call check(mine(i) == places(rank + 1) + i, 'MPI_SCATTERV')
  end do

  ! Displacements in bytes, a type for each rank.
  types = MPI_INTEGER
  counts = 1
  places = [(4 * (i - 1), i = 1, nranks)]
  mine = [(100 * rank + i, i = 1, nranks)]
  all = 0
  call MPI_ALLTOALLW(mine, counts, places, types, all, counts, places, types, MPI_COMM_WORLD, ierr)
  do i = 1, nranks
     call check(all(i) == 100 * (i - 1) + rank + 1, 'MPI_ALLTOALLW')
  end do
  all = 0
  call MPI_IALLTOALLW(mine, counts, places, types, all, counts, places, types, MPI_COMM_WORLD, request, ierr)
  call MPI_WAIT(request, MPI_STATUS_IGNORE, ierr)
  do i = 1, nranks
     call check(all(i) == 100 * (i - 1) + rank + 1, 'MPI_IALLTOALLW')
  end do
  call MPI_IALLTOALLW(MPI_IN_PLACE, counts, places, types, mine, counts, places, types, MPI_COMM_WORLD, request, ierr)
  call MPI_WAIT(request, MPI_STATUS_IGNORE, ierr)
  do i = 1, nranks
     call check(mine(i) == all(i), 'MPI_IALLTOALLW in place')
  end do

  mine = 1
  call MPI_REDUCE_SCATTER_BLOCK(mine, total, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierr)
  call check(total == nranks, 'MPI_REDUCE_SCATTER_BLOCK')
  call MPI_REDUCE_SCATTER(MPI_IN_PLACE, mine, counts, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierr)
  call check(mine(1) == nranks, 'MPI_REDUCE_SCATTER in place')
  total = 1
  call MPI_SCAN(MPI_IN_PLACE, total, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierr)
  call check(total == rank + 1, 'MPI_SCAN in place')
  two = [mod(rank + 1, nranks), rank]
  call MPI_ALLREDUCE(two, best, 1, MPI_2INTEGER, MPI_MINLOC, MPI_COMM_WORLD, ierr)
  call check(best(1) == 0 .and. best(2) == root, 'MPI_MINLOC')
  total = rank
  call MPI_IALLREDUCE(MPI_IN_PLACE, total, 1, MPI_INTEGER, MPI_MAX, MPI_COMM_WORLD, request, ierr)
  call MPI_WAIT(request, MPI_STATUS_IGNORE, ierr)
  call check(total == nranks - 1, 'MPI_IALLREDUCE in place')
  call MPI_IBARRIER(MPI_COMM_WORLD, request, ierr)
  call MPI_WAIT(request, MPI_STATUS_IGNORE, ierr)
  ! Persistent ones; their arrays of types are read when they are made.
  call MPI_ALLTOALLW_INIT(mine, counts, places, types, all, counts, places, types, MPI_COMM_WORLD, MPI_INFO_NULL, request, ierr)
  do start = 1, 3
     mine = [(100 * rank + i + start, i = 1, nranks)]
     all = 0
     call MPI_START(request, ierr)
     call MPI_WAIT(request, MPI_STATUS_IGNORE, ierr)
     do i = 1, nranks
        call check(all(i) == 100 * (i - 1) + rank + 1 + start, 'MPI_ALLTOALLW_INIT')
     end do
  end do
  call MPI_REQUEST_FREE(request, ierr)
  call MPI_ALLREDUCE_INIT(MPI_IN_PLACE, total, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, request, ierr)
  do start = 1, 3
     total = rank + start
     call MPI_START(request, ierr)
     call MPI_WAIT(request, MPI_STATUS_IGNORE, ierr)
     call check(total == nranks * (nranks - 1) / 2 + nranks * start, 'MPI_ALLREDUCE_INIT')
  end do
  call MPI_REQUEST_FREE(request, ierr)
  call check(request == MPI_REQUEST_NULL, 'MPI_REQUEST_FREE')
  call done('coll')
end program coll
