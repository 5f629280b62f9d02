! Strings: padded with blanks on their way out, without them on their way in.
program strings
  implicit none
  include 'mpif.h'
  character(len=MPI_MAX_PROCESSOR_NAME) :: name
  character(len=MPI_MAX_ERROR_STRING) :: message
  character(len=MPI_MAX_OBJECT_NAME) :: object
  character(len=MPI_MAX_LIBRARY_VERSION_STRING) :: version
  character(len=MPI_MAX_INFO_KEY) :: key
  character(len=20) :: value
  character(len=4) :: short
  character(len=0) :: nothing
  integer :: n, ierr, info, other, nkeys, code, major, minor, comm, type
  logical :: flag

  call MPI_INIT(ierr)
  name = repeat('x', len(name))
  call MPI_GET_PROCESSOR_NAME(name, n, ierr)
  call check(n > 0 .and. len_trim(name) == n .and. index(name, char(0)) == 0, 'MPI_GET_PROCESSOR_NAME')
  call MPI_GET_LIBRARY_VERSION(version, n, ierr)
  call check(len_trim(version) == n .and. n > 3, 'MPI_GET_LIBRARY_VERSION')
  call MPI_GET_VERSION(major, minor, ierr)
  call check(major == MPI_VERSION .and. minor == MPI_SUBVERSION, 'MPI_GET_VERSION')
  message = repeat('x', len(message))
  call MPI_ERROR_STRING(MPI_ERR_TAG, message, n, ierr)
  call check(n > 0 .and. len_trim(message) == n, 'MPI_ERROR_STRING')

  ! Names of objects: a short variable gets what fits.
  call MPI_COMM_GET_NAME(MPI_COMM_WORLD, object, n, ierr)
  call check(object == 'MPI_COMM_WORLD' .and. n == 14, 'MPI_COMM_GET_NAME of the world')
  call MPI_COMM_GET_NAME(MPI_COMM_WORLD, short, n, ierr)
  call check(short == 'MPI_', 'a name that is cut')
  call MPI_COMM_DUP(MPI_COMM_SELF, comm, ierr)
  call MPI_COMM_SET_NAME(comm, '  two words   ', ierr)
  call MPI_COMM_GET_NAME(comm, object, n, ierr)
  call check(object == '  two words' .and. n == 11, 'blanks behind a name are no part of it')
  call MPI_COMM_SET_NAME(comm, nothing, ierr)
  call MPI_COMM_GET_NAME(comm, object, n, ierr)
  call check(object == ' ' .and. n == 0, 'an empty name')
  call MPI_COMM_FREE(comm, ierr)
  call check(comm == MPI_COMM_NULL, 'MPI_COMM_FREE')
  call MPI_TYPE_DUP(MPI_REAL, type, ierr)
  call MPI_TYPE_SET_NAME(type, 'velocity', ierr)
  call MPI_TYPE_GET_NAME(type, object, n, ierr)
  call check(object == 'velocity' .and. n == 8, 'MPI_TYPE_GET_NAME')
  call MPI_TYPE_FREE(type, ierr)

  ! Info: blanks around keys and values don't count.
  call MPI_INFO_CREATE(info, ierr)
  call MPI_INFO_SET(info, ' colour ', '  light blue  ', ierr)
  call MPI_INFO_SET(info, 'size', '42', ierr)
  call MPI_INFO_GET_NKEYS(info, nkeys, ierr)
  call check(nkeys == 2, 'MPI_INFO_GET_NKEYS')
  call MPI_INFO_GET_NTHKEY(info, 0, key, ierr)
  call check(key == 'colour' .or. key == 'size', 'MPI_INFO_GET_NTHKEY')
  value = repeat('x', 20)
  call MPI_INFO_GET(info, 'colour', 20, value, flag, ierr)
  call check(flag .and. value == 'light blue', 'MPI_INFO_GET')
  value = repeat('x', 20)
  call MPI_INFO_GET(info, 'colour', 5, value, flag, ierr)
  call check(flag .and. value == 'light', 'MPI_INFO_GET of a part')
  call MPI_INFO_GET(info, 'shape', 20, value, flag, ierr)
  call check(.not. flag .and. value == 'light', 'a key that is not there')
  call MPI_INFO_GET_VALUELEN(info, 'colour', n, flag, ierr)
  call check(flag .and. n == 10, 'MPI_INFO_GET_VALUELEN')
  n = 0
  value = 'untouched'
  call MPI_INFO_GET_STRING(info, 'colour', n, value, flag, ierr)
  call check(flag .and. n == 10 .and. value == 'untouched', 'MPI_INFO_GET_STRING of the length')
  n = 20
  call MPI_INFO_GET_STRING(info, 'colour', n, value, flag, ierr)
  call check(flag .and. n == 10 .and. value == 'light blue', 'MPI_INFO_GET_STRING')
  n = 4
  call MPI_INFO_GET_STRING(info, 'colour', n, value, flag, ierr)
  call check(flag .and. n == 10 .and. value == 'ligh', 'MPI_INFO_GET_STRING of a part')
  call MPI_INFO_DUP(info, other, ierr)
  call MPI_INFO_DELETE(other, 'size ', ierr)
  call MPI_INFO_GET_NKEYS(other, nkeys, ierr)
  call check(nkeys == 1, 'MPI_INFO_DELETE')
  call MPI_INFO_FREE(info, ierr)
  call MPI_INFO_FREE(other, ierr)
  call check(info == MPI_INFO_NULL, 'MPI_INFO_FREE')
  call MPI_INFO_CREATE_ENV(info, ierr)
  call check(ierr == MPI_SUCCESS .and. info /= MPI_INFO_NULL, 'MPI_INFO_CREATE_ENV')
  call MPI_INFO_FREE(info, ierr)

  ! Texts of the program's own errors.
  call MPI_ADD_ERROR_CODE(MPI_ERR_OTHER, code, ierr)
  call MPI_ADD_ERROR_STRING(code, 'out of cheese  ', ierr)
  call MPI_ERROR_STRING(code, message, n, ierr)
  call check(message == 'out of cheese' .and. n == 13, 'MPI_ADD_ERROR_STRING')
  call done('strings')
end program strings
