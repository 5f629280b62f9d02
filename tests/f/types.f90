! Datatypes, addresses and MPI_BOTTOM.
program types
  implicit none
  include 'mpif.h'
  integer :: rank, nranks, ierr, other, type, inner, i, n, size, position, status(MPI_STATUS_SIZE)
  integer :: matrix(6, 5), part(6, 5), lengths(3), kinds(3), integers(10), handles(3), combiner, na, nd
  integer(kind=MPI_ADDRESS_KIND) :: places(3), lb, extent, address, addresses(3), base
  double precision :: x, y(4)
  real :: z
  character(len=5) :: word
  character(len=64) :: packed

  call MPI_INIT(ierr)
  call MPI_COMM_RANK(MPI_COMM_WORLD, rank, ierr)
  call MPI_COMM_SIZE(MPI_COMM_WORLD, nranks, ierr)
  other = ieor(rank, 1)
  if (other >= nranks) other = rank
  matrix = reshape([(100 * rank + i, i = 1, 30)], [6, 5])

  ! A row of a matrix goes into a row.
  call MPI_TYPE_VECTOR(5, 1, 6, MPI_INTEGER, type, ierr)
  call MPI_TYPE_COMMIT(type, ierr)
  part = 0
  call MPI_SENDRECV(matrix(2, 1), 1, type, other, 0, part(4, 1), 1, type, other, 0, MPI_COMM_WORLD, status, ierr)
  call check(all(part(4, :) == 100 * other + [(6 * i + 2, i = 0, 4)]) .and. count(part /= 0) == 5, 'MPI_TYPE_VECTOR')
  call MPI_GET_COUNT(status, type, n, ierr)
  call check(n == 1, 'MPI_GET_COUNT of a vector')
  call MPI_TYPE_SIZE(type, size, ierr)
  call MPI_TYPE_GET_EXTENT(type, lb, extent, ierr)
  call check(size == 20 .and. lb == 0 .and. extent == 100, 'MPI_TYPE_GET_EXTENT')
  call MPI_TYPE_FREE(type, ierr)
  call check(type == MPI_DATATYPE_NULL, 'MPI_TYPE_FREE')

  call MPI_TYPE_CREATE_SUBARRAY(2, [6, 5], [2, 3], [1, 1], MPI_ORDER_FORTRAN, MPI_INTEGER, type, ierr)
  call MPI_TYPE_COMMIT(type, ierr)
  part = 0
  call MPI_SENDRECV(matrix, 1, type, other, 0, part, 1, type, other, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierr)
  call check(all(part(2:3, 2:4) == matrix(2:3, 2:4) + 100 * (other - rank)) .and. count(part /= 0) == 6, &
       'MPI_TYPE_CREATE_SUBARRAY')
  call MPI_TYPE_FREE(type, ierr)

  ! Variables where they are.
  x = rank + 0.25d0
  word = 'rank' // char(48 + rank)
  z = -rank
  call MPI_GET_ADDRESS(x, places(1), ierr)
  call MPI_GET_ADDRESS(word, places(2), ierr)
  call MPI_GET_ADDRESS(z, places(3), ierr)
  lengths = [1, 5, 1]
  kinds = [MPI_DOUBLE_PRECISION, MPI_CHARACTER, MPI_REAL]
  call MPI_TYPE_CREATE_STRUCT(3, lengths, places, kinds, type, ierr)
  call MPI_TYPE_COMMIT(type, ierr)
  call MPI_SENDRECV_REPLACE(MPI_BOTTOM, 1, type, other, 3, other, 3, MPI_COMM_WORLD, status, ierr)
  call check(x == other + 0.25d0 .and. word == 'rank' // char(48 + other) .and. z == -other, 'MPI_BOTTOM')
  call MPI_GET_ADDRESS(MPI_BOTTOM, address, ierr)
  call check(address == 0, 'the address of MPI_BOTTOM')
  base = MPI_AINT_ADD(places(1), 8_MPI_ADDRESS_KIND)
  call check(MPI_AINT_DIFF(base, places(1)) == 8, 'MPI_AINT_DIFF')

  ! What it was made of.
  call MPI_TYPE_GET_ENVELOPE(type, n, na, nd, combiner, ierr)
  call check(n == 4 .and. na == 3 .and. nd == 3 .and. combiner == MPI_COMBINER_STRUCT, 'MPI_TYPE_GET_ENVELOPE')
  call MPI_TYPE_GET_CONTENTS(type, n, na, nd, integers, addresses, handles, ierr)
  call check(all(integers(1:4) == [3, 1, 5, 1]) .and. all(addresses == places) .and. all(handles == kinds), &
       'MPI_TYPE_GET_CONTENTS')
  call MPI_TYPE_FREE(type, ierr)

  ! A derived type in another one comes back as a handle.
  call MPI_TYPE_CONTIGUOUS(2, MPI_REAL, inner, ierr)
  call MPI_TYPE_CREATE_RESIZED(inner, 0_MPI_ADDRESS_KIND, 16_MPI_ADDRESS_KIND, type, ierr)
  call MPI_TYPE_GET_CONTENTS(type, 0, 2, 1, integers, addresses, handles, ierr)
  call check(addresses(2) == 16 .and. handles(1) /= MPI_DATATYPE_NULL, 'MPI_TYPE_GET_CONTENTS of a derived type')
  call MPI_TYPE_SIZE(handles(1), size, ierr)
  call check(size == 8, 'the type that came back')
  call MPI_TYPE_FREE(handles(1), ierr)
  call MPI_TYPE_FREE(inner, ierr)
  call MPI_TYPE_FREE(type, ierr)

  call MPI_TYPE_INDEXED(2, [1, 2], [3, 0], MPI_DOUBLE_PRECISION, type, ierr)
  call MPI_TYPE_COMMIT(type, ierr)
  y = [1, 2, 3, 4]
  position = 0
  call MPI_PACK(y, 1, type, packed, 64, position, MPI_COMM_WORLD, ierr)
  call check(position == 24, 'MPI_PACK')
  y = 0
  position = 0
  call MPI_UNPACK(packed, 64, position, y, 3, MPI_DOUBLE_PRECISION, MPI_COMM_WORLD, ierr)
  call check(all(y(1:3) == [4, 1, 2]), 'MPI_UNPACK')
  call MPI_TYPE_FREE(type, ierr)

  call MPI_TYPE_MATCH_SIZE(MPI_TYPECLASS_REAL, 8, type, ierr)
  call MPI_TYPE_SIZE(type, size, ierr)
  call check(size == 8, 'MPI_TYPE_MATCH_SIZE')
  call MPI_TYPE_CREATE_F90_REAL(12, MPI_UNDEFINED, type, ierr)
  call MPI_TYPE_SIZE(type, size, ierr)
  call check(size == 8, 'MPI_TYPE_CREATE_F90_REAL')
  call done('types')
end program types
