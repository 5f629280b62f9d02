! Generalised requests: their subroutines get the extra state, which is the program's variable, and a status.
program greq
  implicit none
  include 'mpif.h'
  external :: query, free, cancel
  integer :: request, ierr, status(MPI_STATUS_SIZE), n, asked, freed, cancelled
  integer(kind=MPI_ADDRESS_KIND) :: state
  logical :: flag
  common /counted/ asked, freed, cancelled
  common /kept/ state ! what any subroutine may change

  call MPI_INIT(ierr)
  asked = 0
  freed = 0
  cancelled = 0
  state = 2_MPI_ADDRESS_KIND**33
  call MPI_GREQUEST_START(query, free, cancel, state, request, ierr)
  call MPI_TEST(request, flag, status, ierr)
  call check(.not. flag .and. request /= MPI_REQUEST_NULL, 'it is not complete yet')
  call MPI_GREQUEST_COMPLETE(request, ierr)
  call MPI_WAIT(request, status, ierr)
  call check(request == MPI_REQUEST_NULL .and. asked == 1 .and. freed == 1, 'MPI_GREQUEST_COMPLETE')
  call check(state == -1, 'what a free function made of the extra state')
  call check(status(MPI_SOURCE) == 3 .and. status(MPI_TAG) == 4, 'the status of the query function')
  call MPI_GET_ELEMENTS(status, MPI_INTEGER, n, ierr)
  call check(n == 5, 'MPI_STATUS_SET_ELEMENTS')

  state = 2_MPI_ADDRESS_KIND**33
  call MPI_GREQUEST_START(query, free, cancel, state, request, ierr)
  call MPI_CANCEL(request, ierr)
  call check(cancelled == 1, 'MPI_CANCEL')
  call MPI_GREQUEST_COMPLETE(request, ierr)
  call MPI_WAIT(request, MPI_STATUS_IGNORE, ierr)
  call check(freed == 2, 'an ignored status')
  call done('greq')
end program greq

subroutine query(state, status, ierr)
  implicit none
  include 'mpif.h'
  integer(kind=MPI_ADDRESS_KIND) :: state
  integer :: status(MPI_STATUS_SIZE), ierr, asked, freed, cancelled
  common /counted/ asked, freed, cancelled

  call check(state == 2_MPI_ADDRESS_KIND**33, 'the extra state of a query function')
  call MPI_STATUS_SET_ELEMENTS(status, MPI_INTEGER, 5, ierr)
  call MPI_STATUS_SET_CANCELLED(status, .false., ierr)
  status(MPI_SOURCE) = 3
  status(MPI_TAG) = 4
  asked = asked + 1
  ierr = MPI_SUCCESS
end subroutine query

subroutine free(state, ierr)
  implicit none
  include 'mpif.h'
  integer(kind=MPI_ADDRESS_KIND) :: state
  integer :: ierr, asked, freed, cancelled
  common /counted/ asked, freed, cancelled

  call check(state == 2_MPI_ADDRESS_KIND**33, 'the extra state of a free function')
  state = -1
  freed = freed + 1
  ierr = MPI_SUCCESS
end subroutine free

subroutine cancel(state, complete, ierr)
  implicit none
  include 'mpif.h'
  integer(kind=MPI_ADDRESS_KIND) :: state
  logical :: complete
  integer :: ierr, asked, freed, cancelled
  common /counted/ asked, freed, cancelled

  call check(state == 2_MPI_ADDRESS_KIND**33 .and. .not. complete, 'arguments of a cancel function')
  cancelled = cancelled + 1
  ierr = MPI_SUCCESS
end subroutine cancel
