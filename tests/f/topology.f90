! Topologies: arrays of logicals, weights that are none, and arrays of datatypes for neighbours. A library
! without topologies has to say so.
program topology
  implicit none
  include 'mpif.h'
  integer :: rank, nranks, ierr, comm, half, n, result
  integer :: dims(2), coords(2), up, down, neighbors(2)
  integer :: ins, outs, weights(2), sources(2), targets(2), sent(2), got(2), types(2), counts(2)
  integer(kind=MPI_ADDRESS_KIND) :: places(2)
  logical :: periods(2), remain(2), weighted

  call MPI_INIT(ierr)
  call MPI_COMM_RANK(MPI_COMM_WORLD, rank, ierr)
  call MPI_COMM_SIZE(MPI_COMM_WORLD, nranks, ierr)
  call MPI_COMM_SET_ERRHANDLER(MPI_COMM_WORLD, MPI_ERRORS_RETURN, ierr)
  dims = [1, nranks]
  periods = .false.
  call MPI_CART_CREATE(MPI_COMM_WORLD, 2, dims, periods, .false., comm, ierr)
  if (ierr /= MPI_SUCCESS) then
     call MPI_ERROR_CLASS(ierr, result, ierr)
     call check(result == MPI_ERR_UNSUPPORTED_OPERATION, 'MPI_CART_CREATE')
     call done('topology')
     stop
  end if
  call MPI_COMM_FREE(comm, ierr)
  call MPI_COMM_SET_ERRHANDLER(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL, ierr)

  ! A grid that is a ring in the second dimension only.
  dims = [1, 0]
  call MPI_DIMS_CREATE(nranks, 2, dims, ierr)
  call check(dims(2) == nranks, 'MPI_DIMS_CREATE')
  periods = [.false., .true.]
  call MPI_CART_CREATE(MPI_COMM_WORLD, 2, dims, periods, .false., comm, ierr)
  periods = [.true., .false.]
  call MPI_CART_GET(comm, 2, dims, periods, coords, ierr)
  call check((.not. periods(1)) .and. periods(2) .and. coords(2) == rank, 'MPI_CART_GET')
  call MPI_CART_SHIFT(comm, 0, 1, up, down, ierr)
  call check(up == MPI_PROC_NULL .and. down == MPI_PROC_NULL, 'MPI_CART_SHIFT beyond the edge')
  call MPI_CART_SHIFT(comm, 1, 1, up, down, ierr)
  call check(up == mod(rank + nranks - 1, nranks) .and. down == mod(rank + 1, nranks), 'MPI_CART_SHIFT')
  remain = [.true., .false.]
  call MPI_CART_SUB(comm, remain, half, ierr)
  call MPI_COMM_SIZE(half, n, ierr)
  call check(n == 1, 'MPI_CART_SUB')
  call MPI_TOPO_TEST(comm, result, ierr)
  call check(result == MPI_CART, 'MPI_TOPO_TEST')
  call MPI_COMM_FREE(half, ierr)
  call MPI_COMM_FREE(comm, ierr)

  ! A ring as a graph, without weights.
  neighbors = [mod(rank + nranks - 1, nranks), mod(rank + 1, nranks)]
  call MPI_DIST_GRAPH_CREATE_ADJACENT(MPI_COMM_WORLD, 1, neighbors, MPI_UNWEIGHTED, 1, neighbors(2), MPI_UNWEIGHTED, &
       MPI_INFO_NULL, .false., comm, ierr)
  call MPI_DIST_GRAPH_NEIGHBORS_COUNT(comm, ins, outs, weighted, ierr)
  call check(ins == 1 .and. outs == 1 .and. .not. weighted, 'MPI_UNWEIGHTED')
  sources = -1
  call MPI_DIST_GRAPH_NEIGHBORS(comm, 1, sources, MPI_UNWEIGHTED, 1, targets, MPI_UNWEIGHTED, ierr)
  call check(sources(1) == neighbors(1) .and. targets(1) == neighbors(2), 'MPI_DIST_GRAPH_NEIGHBORS')
  counts = 1
  types = MPI_INTEGER
  places = 0
  sent = rank
  got = -1
  call MPI_NEIGHBOR_ALLTOALLW(sent, counts, places, types, got, counts, places, types, comm, ierr)
  call check(got(1) == neighbors(1) .and. got(2) == -1, 'MPI_NEIGHBOR_ALLTOALLW')
  call MPI_COMM_FREE(comm, ierr)

  ! The same with weights, and nothing at all for a rank with no neighbours.
  weights = [3, 4]
  if (rank == 0 .and. nranks > 1) then
     call MPI_DIST_GRAPH_CREATE_ADJACENT(MPI_COMM_WORLD, 0, sources, MPI_WEIGHTS_EMPTY, 0, targets, &
          MPI_WEIGHTS_EMPTY, MPI_INFO_NULL, .false., comm, ierr)
  else
     sources = rank
     call MPI_DIST_GRAPH_CREATE_ADJACENT(MPI_COMM_WORLD, 1, sources, weights, 1, sources, weights(2), MPI_INFO_NULL, &
          .false., comm, ierr)
  end if
  call MPI_DIST_GRAPH_NEIGHBORS_COUNT(comm, ins, outs, weighted, ierr)
  call check(weighted .and. (ins == 0 .eqv. (rank == 0 .and. nranks > 1)), 'MPI_WEIGHTS_EMPTY')
  if (ins == 1) then
     weights = 0
     call MPI_DIST_GRAPH_NEIGHBORS(comm, 1, sources, weights, 1, targets, weights(2), ierr)
     call check(weights(1) == 3 .and. weights(2) == 4, 'weights')
  end if
  call MPI_COMM_FREE(comm, ierr)

  call done('topology')
end program topology
