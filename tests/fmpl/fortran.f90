! The Fortran names: messages, the stash, a communicator, collectives with predefined functions and one's own.
module functions
contains
  subroutine larger(inout, in, count)
    integer :: count
    integer :: inout(count), in(count)
    inout = max(inout, in)
  end subroutine
end module

program test
  use, intrinsic :: iso_c_binding
  use functions
  implicit none
  include 'fmplf.h'
  integer :: ier, me, np, next, last, flag, comm, nsend, nspool, i
  integer*8 :: bytes
  integer :: index, src
  double precision :: x(100), y(100), work(100)
  integer :: k(3), kwork(3)
  character(len=60) :: text
  type(c_ptr) :: memory

  call fmpl_init(FMPL_BOTTOM, FMPL_BOTTOM, 4, ier)
  call good(1)
  call fmpl_comm_rank(FMPL_COMM_WORLD, me, ier)
  call fmpl_comm_size(FMPL_COMM_WORLD, np, ier)
  next = mod(me + 1, np)
  last = mod(me + np - 1, np)
  call fmpl_initialized(flag, ier)
  if (flag /= 1) call bad(2)

  x = me
  call fmpl_irecv(y, 800, last, 1, FMPL_COMM_WORLD, ier)
  call good(3)
  call fmpl_send(x, 800, next, 1, FMPL_COMM_WORLD, ier)
  call good(4)
  call fmpl_irecv_wait_status(last, 1, FMPL_COMM_WORLD, bytes, index, ier)
  call good(5)
  if (bytes /= 800 .or. index /= 1 .or. any(y /= last)) call bad(6)

  call fmpl_sendbuf_set(x, 0, 0, ier)
  call fmpl_irecv8(y, 16_8, last, FMPL_TAG_ANY, FMPL_COMM_WORLD, ier)
  call fmpl_isend8(x, 16_8, next, 2, FMPL_COMM_WORLD, ier)
  call fmpl_isend_wait(next, 2, FMPL_COMM_WORLD, ier)
  call good(7)
  call fmpl_irecv_wait(last, FMPL_TAG_ANY, FMPL_COMM_WORLD, ier)
  call good(8)
  call fmpl_sendbuf_check(nsend, nspool, ier)
  if (nspool /= 0) call bad(9)

  ! A stash that grows, and memory of the library's own: both are without an address. What is no size is refused.
  call fmpl_sendbuf_set(FMPL_BOTTOM, FMPL_GROWS, 0, ier)
  call good(30)
  call fmpl_send(x, 800, next, 3, FMPL_COMM_WORLD, ier)
  call good(31)
  call fmpl_recv(y, 800, last, 3, FMPL_COMM_WORLD, ier)
  call good(32)
  call drain()
  call fmpl_sendbuf_set8(FMPL_BOTTOM, 4096_8, 0, ier)
  call good(33)
  call fmpl_send(x, 800, next, 3, FMPL_COMM_WORLD, ier)
  call good(34)
  call fmpl_recv(y, 800, last, 3, FMPL_COMM_WORLD, ier)
  call good(35)
  if (any(y /= last)) call bad(36)
  call drain()
  call fmpl_sendbuf_set(x, FMPL_GROWS, 0, ier)
  if (ier /= FMPL_ERR_SIZE) call bad(37)
  call fmpl_sendbuf_set(x, 0, FMPL_INFINITE, ier)
  call good(38)

  call fmpl_send_any(me, 4, 0, 3, FMPL_COMM_WORLD, ier)
  call good(10)
  if (me == 0) then
    do i = 1, np
      call fmpl_recv_any_from(k, 4_8, 3, FMPL_COMM_WORLD, src, bytes, index, ier)
      if (k(1) /= src .or. bytes /= 4 .or. index /= 3) call bad(11)
    end do
  end if

  x = me + 1
  call fmpl_allreduce(x, 100, fmpl_dsum, FMPL_COMM_WORLD, work, ier)
  call good(12)
  if (any(x /= np * (np + 1) / 2)) call bad(13)
  k = (/ me, -me, 5 /)
  call fmpl_func_set(larger, 4, ier)
  call good(14)
  call fmpl_reduce(k, 3, larger, 0, FMPL_COMM_WORLD, kwork, ier)
  call good(15)
  if (me == 0 .and. any(k /= (/ np - 1, 0, 5 /))) call bad(16)

  call fmpl_comm_create(comm, mod(me, 2) + 1, ier)
  call good(17)
  k = me
  call fmpl_bcast(k, 12, 0, comm, ier)
  call good(18)
  if (any(k /= mod(me, 2))) call bad(19)
  call fmpl_barrier(comm, ier)
  call fmpl_comm_free(comm, ier)
  if (comm /= FMPL_COMM_NULL) call bad(20)

  call fmpl_send(x, 8, np, 0, FMPL_COMM_WORLD, ier)
  if (ier /= FMPL_ERR_RANK) call bad(21)
  call fmpl_strerror(ier, text)
  if (text(1:10) /= 'no process') call bad(22)
  call fmpl_alloc(1000, memory, ier)
  if (ier == FMPL_SUCCESS) call fmpl_free(memory, ier)
  if (fmpl_wtime() <= 0) call bad(23)
  call fmpl_finalize(ier)
  call good(24)
  if (me == 0) print '(a)', 'ok fortran'

contains
  ! Until nothing is spooled any more.
  subroutine drain()
    nspool = 1
    do while (nspool > 0)
      call fmpl_sendbuf_check(nsend, nspool, ier)
      call good(39)
    end do
  end subroutine
  subroutine good(where)
    integer :: where
    if (ier /= FMPL_SUCCESS) call bad(where)
  end subroutine
  subroutine bad(where)
    integer :: where
    print *, 'rank', me, 'step', where, 'ier', ier
    call abort()
  end subroutine
end program
