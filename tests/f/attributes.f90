! Attributes: of MPI-1 with default integers, of MPI-2 with integers of an address's size.
program attributes
  implicit none
  include 'mpif.h'
  external :: copy, delete, old_copy, old_delete
  integer(kind=MPI_ADDRESS_KIND) :: value, state, big
  integer :: keyval, ierr, comm, other, type, twin, ivalue, istate, copies, deletions, bound
  logical :: flag
  common /counted/ copies, deletions

  call MPI_INIT(ierr)
  copies = 0
  deletions = 0

  ! Predefined ones are values.
  call MPI_COMM_GET_ATTR(MPI_COMM_WORLD, MPI_TAG_UB, value, flag, ierr)
  call check(flag .and. value >= 32767, 'MPI_TAG_UB')
  call MPI_ATTR_GET(MPI_COMM_WORLD, MPI_TAG_UB, bound, flag, ierr)
  call check(flag .and. bound == value, 'MPI_TAG_UB by MPI_ATTR_GET')
  call MPI_COMM_GET_ATTR(MPI_COMM_WORLD, MPI_WTIME_IS_GLOBAL, value, flag, ierr)
  call check(flag .and. (value == 0 .or. value == 1), 'MPI_WTIME_IS_GLOBAL')
  call MPI_COMM_GET_ATTR(MPI_COMM_WORLD, MPI_LASTUSEDCODE, value, flag, ierr)
  call check(flag .and. value >= MPI_ERR_LASTCODE, 'MPI_LASTUSEDCODE')

  ! Our own, with functions that see the extra state.
  state = 2_MPI_ADDRESS_KIND**40
  call MPI_COMM_CREATE_KEYVAL(copy, delete, keyval, state, ierr)
  state = 0
  call MPI_COMM_DUP(MPI_COMM_WORLD, comm, ierr)
  call MPI_COMM_GET_ATTR(comm, keyval, value, flag, ierr)
  call check(.not. flag, 'an attribute that nobody has set')
  big = -2_MPI_ADDRESS_KIND**50
  call MPI_COMM_SET_ATTR(comm, keyval, big, ierr)
  call MPI_COMM_GET_ATTR(comm, keyval, value, flag, ierr)
  call check(flag .and. value == big, 'MPI_COMM_GET_ATTR')
  call MPI_COMM_DUP(comm, other, ierr)
  call MPI_COMM_GET_ATTR(other, keyval, value, flag, ierr)
  call check(flag .and. value == big + 1 .and. copies == 1, 'the copy function')
  call MPI_COMM_DELETE_ATTR(comm, keyval, ierr)
  call check(deletions == 1, 'the delete function')
  call MPI_COMM_FREE(other, ierr)
  call check(deletions == 2, 'the delete function of a freed communicator')
  call MPI_COMM_FREE_KEYVAL(keyval, ierr)
  call check(keyval == MPI_KEYVAL_INVALID, 'MPI_COMM_FREE_KEYVAL')

  ! Predefined functions.
  call MPI_COMM_CREATE_KEYVAL(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, keyval, state, ierr)
  call MPI_COMM_SET_ATTR(comm, keyval, big, ierr)
  call MPI_COMM_DUP(comm, other, ierr)
  call MPI_COMM_GET_ATTR(other, keyval, value, flag, ierr)
  call check(flag .and. value == big, 'MPI_COMM_DUP_FN')
  call MPI_COMM_FREE(other, ierr)
  call MPI_COMM_FREE_KEYVAL(keyval, ierr)
  call MPI_COMM_CREATE_KEYVAL(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, keyval, state, ierr)
  call MPI_COMM_SET_ATTR(comm, keyval, big, ierr)
  call MPI_COMM_DUP(comm, other, ierr)
  call MPI_COMM_GET_ATTR(other, keyval, value, flag, ierr)
  call check(.not. flag, 'MPI_COMM_NULL_COPY_FN')
  call MPI_COMM_FREE(other, ierr)
  call MPI_COMM_FREE_KEYVAL(keyval, ierr)

  ! MPI-1's.
  istate = 17
  call MPI_KEYVAL_CREATE(old_copy, old_delete, keyval, istate, ierr)
  call MPI_ATTR_PUT(comm, keyval, -5, ierr)
  call MPI_ATTR_GET(comm, keyval, ivalue, flag, ierr)
  call check(flag .and. ivalue == -5, 'MPI_ATTR_GET')
  call MPI_COMM_GET_ATTR(comm, keyval, value, flag, ierr)
  call check(flag .and. value == -5, 'an old attribute as a new one')
  call MPI_COMM_DUP(comm, other, ierr)
  call MPI_ATTR_GET(other, keyval, ivalue, flag, ierr)
  call check(flag .and. ivalue == -10, 'the old copy function')
  copies = 0
  call MPI_ATTR_DELETE(comm, keyval, ierr)
  call check(copies == -1, 'the old delete function')
  call MPI_COMM_FREE(other, ierr)
  call MPI_KEYVAL_FREE(keyval, ierr)
  call MPI_KEYVAL_CREATE(MPI_DUP_FN, MPI_NULL_DELETE_FN, keyval, istate, ierr)
  call MPI_ATTR_PUT(comm, keyval, 12, ierr)
  call MPI_COMM_DUP(comm, other, ierr)
  call MPI_ATTR_GET(other, keyval, ivalue, flag, ierr)
  call check(flag .and. ivalue == 12, 'MPI_DUP_FN')
  call MPI_COMM_FREE(other, ierr)
  call MPI_COMM_FREE(comm, ierr)
  call MPI_KEYVAL_FREE(keyval, ierr)

  ! Datatypes have them too.
  call MPI_TYPE_CREATE_KEYVAL(MPI_TYPE_DUP_FN, MPI_TYPE_NULL_DELETE_FN, keyval, state, ierr)
  call MPI_TYPE_DUP(MPI_INTEGER, type, ierr)
  call MPI_TYPE_SET_ATTR(type, keyval, big, ierr)
  call MPI_TYPE_DUP(type, twin, ierr)
  call MPI_TYPE_GET_ATTR(twin, keyval, value, flag, ierr)
  call check(flag .and. value == big, 'MPI_TYPE_DUP_FN')
  call MPI_TYPE_DELETE_ATTR(type, keyval, ierr)
  call MPI_TYPE_FREE(type, ierr)
  call MPI_TYPE_FREE(twin, ierr)
  call MPI_TYPE_FREE_KEYVAL(keyval, ierr)
  call done('attributes')
end program attributes

subroutine copy(comm, keyval, state, in, out, flag, ierr)
  implicit none
  include 'mpif.h'
  integer :: comm, keyval, ierr, copies, deletions
  integer(kind=MPI_ADDRESS_KIND) :: state, in, out
  logical :: flag
  common /counted/ copies, deletions

  call check(comm /= MPI_COMM_NULL .and. keyval /= MPI_KEYVAL_INVALID, 'arguments of a copy function')
  call check(state == 2_MPI_ADDRESS_KIND**40, 'the extra state of a copy function')
  out = in + 1
  flag = .true.
  copies = copies + 1
  ierr = MPI_SUCCESS
end subroutine copy

subroutine delete(comm, keyval, value, state, ierr)
  implicit none
  include 'mpif.h'
  integer :: comm, keyval, ierr, copies, deletions
  integer(kind=MPI_ADDRESS_KIND) :: value, state
  common /counted/ copies, deletions

  call check(comm /= MPI_COMM_NULL .and. keyval /= MPI_KEYVAL_INVALID, 'arguments of a delete function')
  call check(state == 2_MPI_ADDRESS_KIND**40, 'the extra state of a delete function')
  call check(value < -2_MPI_ADDRESS_KIND**49, 'the value of a delete function')
  deletions = deletions + 1
  ierr = MPI_SUCCESS
end subroutine delete

subroutine old_copy(comm, keyval, state, in, out, flag, ierr)
  implicit none
  include 'mpif.h'
  integer :: comm, keyval, state, in, out, ierr
  logical :: flag

  call check(comm /= MPI_COMM_NULL .and. keyval /= MPI_KEYVAL_INVALID, 'arguments of an old copy function')
  call check(state == 17, 'the extra state of an old copy function')
  out = 2 * in
  flag = .true.
  ierr = MPI_SUCCESS
end subroutine old_copy

subroutine old_delete(comm, keyval, value, state, ierr)
  implicit none
  include 'mpif.h'
  integer :: comm, keyval, value, state, ierr, copies, deletions
  common /counted/ copies, deletions

  call check(comm /= MPI_COMM_NULL .and. keyval /= MPI_KEYVAL_INVALID, 'arguments of an old delete function')
  call check(state == 17 .and. (value == -5 .or. value == -10), 'an old delete function')
  copies = copies - 1
  ierr = MPI_SUCCESS
end subroutine old_delete
