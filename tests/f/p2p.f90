! Point-to-point: statuses, wildcards, positions of completed requests, ignored statuses.
program p2p
  implicit none
  include 'mpif.h'
  integer :: rank, nranks, ierr, left, right, i, n, got, index, outcount
  integer :: status(MPI_STATUS_SIZE), statuses(MPI_STATUS_SIZE, 4), requests(4), indices(4), request
  integer :: data(100), other(100), message
  double precision :: real
  logical :: flag, seen(4)

  call MPI_INIT(ierr)
  call check(ierr == MPI_SUCCESS, 'MPI_INIT')
  call MPI_COMM_RANK(MPI_COMM_WORLD, rank, ierr)
  call MPI_COMM_SIZE(MPI_COMM_WORLD, nranks, ierr)
  right = mod(rank + 1, nranks)
  left = mod(rank + nranks - 1, nranks)
  data = [(1000 * rank + i, i = 1, 100)]

  ! A message to the right, received from anybody with any tag.
  call MPI_ISEND(data, 100, MPI_INTEGER, right, 7, MPI_COMM_WORLD, request, ierr)
  other = -1
  call MPI_RECV(other, 100, MPI_INTEGER, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, status, ierr)
  call check(all(other == [(1000 * left + i, i = 1, 100)]), 'the data of the left rank')
  call check(status(MPI_SOURCE) == left, 'status(MPI_SOURCE)')
  call check(status(MPI_TAG) == 7, 'status(MPI_TAG)')
  call MPI_GET_COUNT(status, MPI_INTEGER, n, ierr)
  call check(n == 100, 'MPI_GET_COUNT')
  call MPI_GET_COUNT(status, MPI_DOUBLE_PRECISION, n, ierr)
  call check(n == 50, 'MPI_GET_COUNT of a larger type')
  call MPI_WAIT(request, MPI_STATUS_IGNORE, ierr)
  call check(request == MPI_REQUEST_NULL, 'the request is null after MPI_WAIT')

  ! Nobody.
  call MPI_SEND(data, 1, MPI_INTEGER, MPI_PROC_NULL, 0, MPI_COMM_WORLD, ierr)
  call MPI_RECV(other, 1, MPI_INTEGER, MPI_PROC_NULL, 0, MPI_COMM_WORLD, status, ierr)
  call check(status(MPI_SOURCE) == MPI_PROC_NULL .and. status(MPI_TAG) == MPI_ANY_TAG, 'MPI_PROC_NULL')

  call MPI_SENDRECV(data, 3, MPI_INTEGER, right, 1, other, 3, MPI_INTEGER, left, 1, MPI_COMM_WORLD, status, ierr)
  call check(all(other(1:3) == 1000 * left + [1, 2, 3]), 'MPI_SENDRECV')
  real = rank + 0.5d0
  call MPI_SENDRECV_REPLACE(real, 1, MPI_DOUBLE_PRECISION, right, 2, left, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierr)
  call check(real == left + 0.5d0, 'MPI_SENDRECV_REPLACE')

  ! Probes.
  call MPI_ISSEND(data, 5, MPI_INTEGER, right, 9, MPI_COMM_WORLD, request, ierr)
  call MPI_PROBE(left, MPI_ANY_TAG, MPI_COMM_WORLD, status, ierr)
  call MPI_GET_ELEMENTS(status, MPI_INTEGER, n, ierr)
  call check(n == 5 .and. status(MPI_TAG) == 9, 'MPI_PROBE')
  call MPI_IPROBE(left, 8, MPI_COMM_WORLD, flag, MPI_STATUS_IGNORE, ierr)
  call check(.not. flag, 'MPI_IPROBE of what nobody sent')
  call MPI_MPROBE(left, 9, MPI_COMM_WORLD, message, status, ierr)
  call MPI_MRECV(other, 5, MPI_INTEGER, message, MPI_STATUS_IGNORE, ierr)
  call check(message == MPI_MESSAGE_NULL .and. other(5) == 1000 * left + 5, 'MPI_MRECV')
  call MPI_WAIT(request, status, ierr)

  ! Positions count from 1.
  do i = 1, 4
     call MPI_IRECV(other(10 * i), 1, MPI_INTEGER, left, i, MPI_COMM_WORLD, requests(i), ierr)
  end do
  call MPI_TESTANY(4, requests, index, flag, status, ierr)
  call check(.not. flag .and. index == MPI_UNDEFINED, 'MPI_TESTANY with nothing complete')
  call MPI_TESTSOME(4, requests, outcount, indices, statuses, ierr)
  call check(outcount == 0, 'MPI_TESTSOME with nothing complete')
  call MPI_BARRIER(MPI_COMM_WORLD, ierr)
  call MPI_SEND(data(3), 1, MPI_INTEGER, right, 3, MPI_COMM_WORLD, ierr)
  call MPI_WAITANY(4, requests, index, status, ierr)
  call check(index == 3 .and. status(MPI_TAG) == 3, 'MPI_WAITANY gives position 3')
  call check(requests(3) == MPI_REQUEST_NULL .and. requests(1) /= MPI_REQUEST_NULL, 'its request is null')
  call MPI_BARRIER(MPI_COMM_WORLD, ierr)
  call MPI_SEND(data(1), 1, MPI_INTEGER, right, 1, MPI_COMM_WORLD, ierr)
  call MPI_SEND(data(4), 1, MPI_INTEGER, right, 4, MPI_COMM_WORLD, ierr)
  seen = .false.
  got = 0
  do while (got < 2)
     call MPI_WAITSOME(4, requests, outcount, indices, statuses, ierr)
     do i = 1, outcount
        seen(indices(i)) = .true.
        call check(statuses(MPI_TAG, i) == indices(i), 'the statuses of MPI_WAITSOME')
     end do
     got = got + outcount
  end do
  call check(all(seen .eqv. [.true., .false., .false., .true.]), 'MPI_WAITSOME gives positions 1 and 4')
  call MPI_BARRIER(MPI_COMM_WORLD, ierr)
  call MPI_SEND(data(2), 1, MPI_INTEGER, right, 2, MPI_COMM_WORLD, ierr)
  flag = .false.
  do while (.not. flag)
     call MPI_TESTANY(4, requests, index, flag, MPI_STATUS_IGNORE, ierr)
  end do
  call check(index == 2, 'MPI_TESTANY gives position 2')
  call MPI_WAITANY(4, requests, index, MPI_STATUS_IGNORE, ierr)
  call check(index == MPI_UNDEFINED, 'MPI_WAITANY without active requests')
  call MPI_WAITSOME(4, requests, outcount, indices, MPI_STATUSES_IGNORE, ierr)
  call check(outcount == MPI_UNDEFINED, 'MPI_WAITSOME without active requests')
  call check(all(other(10:40:10) == 1000 * left + [1, 2, 3, 4]), 'what was received')

  ! All of them, with statuses and without; persistent requests.
  call MPI_SEND_INIT(data, 2, MPI_INTEGER, right, 5, MPI_COMM_WORLD, requests(1), ierr)
  call MPI_RECV_INIT(other, 2, MPI_INTEGER, left, 5, MPI_COMM_WORLD, requests(2), ierr)
  do i = 1, 3
     other = -1
     call MPI_STARTALL(2, requests, ierr)
     if (i == 1) then
        call MPI_WAITALL(2, requests, statuses, ierr)
        call check(statuses(MPI_SOURCE, 2) == left .and. statuses(MPI_TAG, 2) == 5, 'the statuses of MPI_WAITALL')
     else
        call MPI_WAITALL(2, requests, MPI_STATUSES_IGNORE, ierr)
     end if
     call check(requests(2) /= MPI_REQUEST_NULL .and. other(2) == 1000 * left + 2, 'a persistent request')
  end do
  call MPI_REQUEST_FREE(requests(1), ierr)
  call MPI_REQUEST_FREE(requests(2), ierr)
  call check(all(requests == MPI_REQUEST_NULL), 'freed requests are null')

  ! A receive that is cancelled.
  call MPI_IRECV(other, 1, MPI_INTEGER, left, 77, MPI_COMM_WORLD, request, ierr)
  call MPI_CANCEL(request, ierr)
  call MPI_WAIT(request, status, ierr)
  call MPI_TEST_CANCELLED(status, flag, ierr)
  call check(flag, 'MPI_TEST_CANCELLED')
  call done('p2p')
end program p2p
