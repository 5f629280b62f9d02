! Routines whose C procedures do something only where there are files, windows or more processes: what
! they hand to C and get back, by way of stand_in.c.
program unbuilt
  implicit none
  include 'mpif.h'
  external :: file_handler, reads, extent
  character(len=100) :: said
  character(len=8) :: argv(3), commands(2), argvs(2, 3)
  character(len=6) :: name
  integer :: ierr, comm, codes(2), n, win, errhandler, calls
  integer(kind=MPI_ADDRESS_KIND) :: value, state, base
  logical :: flag
  common /seen/ calls

  call MPI_INIT(ierr)
  ! Arguments end with a blank one; blanks before them are theirs.
  argv = [character(len=8) :: '-a', ' b c', ' ']
  codes = 0
  call MPI_COMM_SPAWN('worker  ', argv, 4, MPI_INFO_NULL, 0, MPI_COMM_SELF, comm, codes, ierr)
  call noted(said)
  call check(said == 'spawn <worker> <-a> < b c> 4 0 1', said)
  call check(comm == MPI_COMM_WORLD .and. codes(1) == 42, 'MPI_COMM_SPAWN')
  call MPI_COMM_SPAWN('worker', MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_SELF, comm, MPI_ERRCODES_IGNORE, ierr)
  call noted(said)
  call check(said == 'spawn <worker> none 1 0 1 ignored', said)
  ! Where the caller is not the root, nobody looks at the strings.
  call MPI_COMM_SPAWN('worker', argv, 1, MPI_INFO_NULL, 7, MPI_COMM_SELF, comm, MPI_ERRCODES_IGNORE, ierr)
  call noted(said)
  call check(said == 'spawn <> none 1 7 1 ignored', said)

  commands = [character(len=8) :: 'one', 'two']
  argvs(1, :) = [character(len=8) :: '1', '2', ' ']
  argvs(2, :) = [character(len=8) :: '3', ' ', ' ']
  call MPI_COMM_SPAWN_MULTIPLE(2, commands, argvs, [5, 6], [MPI_INFO_NULL, MPI_INFO_NULL], 0, MPI_COMM_SELF, comm, &
       MPI_ERRCODES_IGNORE, ierr)
  call noted(said)
  call check(said == 'multiple 5 <one> <1> <2> 1; 6 <two> <3> 1; ignored', said)
  call MPI_COMM_SPAWN_MULTIPLE(2, commands, MPI_ARGVS_NULL, [5, 6], [MPI_INFO_NULL, MPI_INFO_NULL], 0, MPI_COMM_SELF, &
       comm, codes, ierr)
  call noted(said)
  call check(said == 'multiple 5 <one> none 1; 6 <two> none 1;', said)

  ! C counts the NUL.
  n = 0
  name = 'kept'
  call MPI_SESSION_GET_NTH_PSET(MPI_SESSION_NULL, MPI_INFO_NULL, 0, n, name, ierr)
  call noted(said)
  call check(said == 'pset 0 0' .and. n == 11 .and. name == 'kept', 'the length of a name')
  n = 6
  call MPI_SESSION_GET_NTH_PSET(MPI_SESSION_NULL, MPI_INFO_NULL, 1, n, name, ierr)
  call noted(said)
  call check(said == 'pset 1 7' .and. n == 11 .and. name == 'mpi://', 'a part of a name')

  ! Attributes of windows: an address, an integer as large, a default one.
  win = MPI_WIN_NULL
  call win_base(base)
  call MPI_WIN_GET_ATTR(win, MPI_WIN_BASE, value, flag, ierr)
  call check(flag .and. value == base, 'MPI_WIN_BASE')
  call MPI_WIN_GET_ATTR(win, MPI_WIN_SIZE, value, flag, ierr)
  call check(flag .and. value == 5_MPI_ADDRESS_KIND * 2_MPI_ADDRESS_KIND**32, 'MPI_WIN_SIZE')
  call MPI_WIN_GET_ATTR(win, MPI_WIN_DISP_UNIT, value, flag, ierr)
  call check(flag .and. value == 8, 'MPI_WIN_DISP_UNIT')
  call MPI_WIN_GET_ATTR(win, MPI_WIN_MODEL, value, flag, ierr)
  call check(.not. flag, 'no attribute')

  calls = 0
  call MPI_FILE_CREATE_ERRHANDLER(file_handler, errhandler, ierr)
  call check(calls == 1 .and. errhandler == MPI_ERRORS_RETURN, 'MPI_FILE_CREATE_ERRHANDLER')

  state = 2_MPI_ADDRESS_KIND**35
  call MPI_REGISTER_DATAREP('odd ', reads, MPI_CONVERSION_FN_NULL, extent, state, ierr)
  call noted(said)
  call check(said == 'datarep <odd> none 1 <ab> 0 24', said)
  call done('unbuilt')
end program unbuilt

subroutine file_handler(file, code)
  implicit none
  include 'mpif.h'
  integer :: file, code, calls
  common /seen/ calls

  call check(file == MPI_FILE_NULL .and. code == MPI_ERR_IO, 'arguments of an error handler of files')
  calls = calls + 1
end subroutine file_handler

subroutine reads(user, type, n, file, position, state, ierr)
  implicit none
  include 'mpif.h'
  character(len=1) :: user(3), file(3)
  integer :: type, n, ierr
  integer(kind=MPI_OFFSET_KIND) :: position
  integer(kind=MPI_ADDRESS_KIND) :: state

  call check(type == MPI_INT .and. n == 3, 'the data of a conversion function')
  call check(position == 2_MPI_OFFSET_KIND**40 .and. state == 2_MPI_ADDRESS_KIND**35, 'the place of a conversion function')
  user(1:2) = file(1:2)
  ierr = MPI_ERR_CONVERSION
end subroutine reads

subroutine extent(type, bytes, state, ierr)
  implicit none
  include 'mpif.h'
  integer :: type, ierr
  integer(kind=MPI_ADDRESS_KIND) :: bytes, state

  call check(type == MPI_INT .and. state == 2_MPI_ADDRESS_KIND**35, 'arguments of an extent function')
  bytes = 24
  ierr = MPI_SUCCESS
end subroutine extent
