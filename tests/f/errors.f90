! Error handlers of the program, and error codes.
program errors
  implicit none
  include 'mpif.h'
  external :: handler
  integer :: ierr, errhandler, old, class, data, comm, seen_comm, seen_code, calls, mine, code
  common /seen/ calls, seen_comm, seen_code

  call MPI_INIT(ierr)
  calls = 0
  call MPI_COMM_DUP(MPI_COMM_WORLD, comm, ierr)
  call MPI_COMM_GET_ERRHANDLER(comm, old, ierr)
  call check(old == MPI_ERRORS_ARE_FATAL, 'the handler at the start')
  call MPI_COMM_SET_ERRHANDLER(comm, MPI_ERRORS_RETURN, ierr)
  call MPI_SEND(data, 1, MPI_INTEGER, 999, 0, comm, ierr)
  call check(ierr /= MPI_SUCCESS, 'MPI_ERRORS_RETURN')
  call MPI_ERROR_CLASS(ierr, class, ierr)
  call check(class == MPI_ERR_RANK, 'MPI_ERROR_CLASS')

  call MPI_COMM_CREATE_ERRHANDLER(handler, errhandler, ierr)
  call check(errhandler /= MPI_ERRHANDLER_NULL, 'MPI_COMM_CREATE_ERRHANDLER')
  call MPI_COMM_SET_ERRHANDLER(comm, errhandler, ierr)
  call MPI_SEND(data, -1, MPI_INTEGER, 0, 0, comm, code)
  call check(calls == 1 .and. seen_comm == comm .and. seen_code == code, 'the handler was called')
  call MPI_ERROR_CLASS(code, class, ierr)
  call check(class == MPI_ERR_COUNT, 'the code that the handler got')
  call MPI_ADD_ERROR_CLASS(mine, ierr)
  call MPI_COMM_CALL_ERRHANDLER(comm, mine, ierr)
  call check(calls == 2 .and. seen_code == mine, 'MPI_COMM_CALL_ERRHANDLER')
  call MPI_ERRHANDLER_FREE(errhandler, ierr)
  call check(errhandler == MPI_ERRHANDLER_NULL, 'MPI_ERRHANDLER_FREE')
  call MPI_SEND(data, -1, MPI_INTEGER, 0, 0, comm, ierr)
  call check(calls == 3, 'the handler is there as long as somebody uses it')
  call MPI_COMM_FREE(comm, ierr)
  call done('errors')
end program errors

subroutine handler(comm, code)
  implicit none
  integer :: comm, code, calls, seen_comm, seen_code
  common /seen/ calls, seen_comm, seen_code

  calls = calls + 1
  seen_comm = comm
  seen_code = code
end subroutine handler
