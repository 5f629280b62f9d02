! Operations of the program: they get the datatype as Fortran has it, and keep the order of the ranks.
program ops
  implicit none
  include 'mpif.h'
  external :: compose, largest
  integer :: rank, nranks, ierr, op, i, mine(2), result(2), want(2), pair, one, most, type
  logical :: commutes
  integer :: calls
  common /counted/ calls, type

  call MPI_INIT(ierr)
  call MPI_COMM_RANK(MPI_COMM_WORLD, rank, ierr)
  call MPI_COMM_SIZE(MPI_COMM_WORLD, nranks, ierr)
  calls = 0
  type = MPI_INTEGER
  call MPI_OP_CREATE(largest, .true., op, ierr)
  call MPI_OP_COMMUTATIVE(op, commutes, ierr)
  call check(commutes, 'MPI_OP_COMMUTATIVE')
  one = mod(5 * rank + 3, 7)
  call MPI_ALLREDUCE(one, most, 1, MPI_INTEGER, op, MPI_COMM_WORLD, ierr)
  call check(most == maxval([(mod(5 * i + 3, 7), i = 0, nranks - 1)]), 'an operation on integers')
  call MPI_ALLREDUCE(calls, i, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierr)
  call check(i > 0 .or. nranks == 1, 'the subroutine was called somewhere')
  call MPI_REDUCE_LOCAL(one, most, 1, MPI_INTEGER, op, ierr)
  call MPI_OP_FREE(op, ierr)
  call check(op == MPI_OP_NULL, 'MPI_OP_FREE')

  ! Linear functions a*x+b: composing them does not commute.
  call MPI_TYPE_CONTIGUOUS(2, MPI_INTEGER, pair, ierr)
  call MPI_TYPE_COMMIT(pair, ierr)
  type = pair
  call MPI_OP_CREATE(compose, .false., op, ierr)
  mine = [rank + 2, rank - 1]
  want = [1, 0]
  do i = 0, nranks - 1
     want = [want(1) * (i + 2), want(2) * (i + 2) + i - 1]
  end do
  call MPI_REDUCE(mine, result, 1, pair, op, 0, MPI_COMM_WORLD, ierr)
  call check(rank /= 0 .or. all(result == want), 'MPI_REDUCE in the order of the ranks')
  result = mine
  call MPI_ALLREDUCE(MPI_IN_PLACE, result, 1, pair, op, MPI_COMM_WORLD, ierr)
  call check(all(result == want), 'MPI_ALLREDUCE in place')
  want = [1, 0]
  do i = 0, rank
     want = [want(1) * (i + 2), want(2) * (i + 2) + i - 1]
  end do
  call MPI_SCAN(mine, result, 1, pair, op, MPI_COMM_WORLD, ierr)
  call check(all(result == want), 'MPI_SCAN')
  call MPI_OP_FREE(op, ierr)
  call MPI_TYPE_FREE(pair, ierr)

  ! Many operations, one after the other.
  type = MPI_INTEGER
  do i = 1, 2000
     call MPI_OP_CREATE(largest, .true., op, ierr)
     call check(ierr == MPI_SUCCESS, 'MPI_OP_CREATE again')
     call MPI_OP_FREE(op, ierr)
  end do
  call done('ops')
end program ops

subroutine largest(in, inout, len, type)
  implicit none
  integer, intent(in) :: len, type, in(len)
  integer, intent(inout) :: inout(len)
  integer :: calls, expected
  common /counted/ calls, expected

  calls = calls + 1
  call check(type == expected, 'the datatype of an operation')
  inout = max(in, inout)
end subroutine largest

subroutine compose(in, inout, len, type)
  implicit none
  integer, intent(in) :: len, type, in(2, len)
  integer, intent(inout) :: inout(2, len)
  integer :: calls, expected
  common /counted/ calls, expected

  calls = calls + 1
  call check(type == expected, 'the derived datatype of an operation')
  inout(2, :) = in(2, :) * inout(1, :) + inout(2, :)
  inout(1, :) = in(1, :) * inout(1, :)
end subroutine compose
