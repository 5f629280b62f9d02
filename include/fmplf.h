! fmplf.h: FMPL's constants and functions for Fortran; fits fixed and free form.
! What the calls do stands in fmpl.h. With INTEGER*8 sizes and counts there are fmpl_send8, recv8, isend8, irecv8, send_any8, recv_any8,
! bcast8, reduce8, allreduce8, sendbuf_set8, func_set8 and alloc8. The sizes of fmpl_irecv_wait_status and fmpl_recv_any_from are always
! INTEGER*8. Where a file passes several types to the same call, gfortran from 10 on wants -fallow-argument-mismatch; POINTER
! arrays have to be CONTIGUOUS. fmpl_alloc sets a TYPE(C_PTR), which fmpl_free takes; call fmpl_strerror(code, text) sets a CHARACTER*(*).
! FMPL_COLLECTIVES_SOFTWARE is FMPL_SOFTWARE here, FMPL_COLLECTIVES_AUTO is FMPL_AUTO.
      integer FMPL_SUCCESS
      parameter (FMPL_SUCCESS=0)
      integer FMPL_ERR_NOT_INITIALISED
      parameter (FMPL_ERR_NOT_INITIALISED=1)
      integer FMPL_ERR_INITIALISED
      parameter (FMPL_ERR_INITIALISED=2)
      integer FMPL_ERR_FINALIZED
      parameter (FMPL_ERR_FINALIZED=3)
      integer FMPL_ERR_START
      parameter (FMPL_ERR_START=4)
      integer FMPL_ERR_BUFFER
      parameter (FMPL_ERR_BUFFER=5)
      integer FMPL_ERR_SIZE
      parameter (FMPL_ERR_SIZE=6)
      integer FMPL_ERR_RANK
      parameter (FMPL_ERR_RANK=7)
      integer FMPL_ERR_INDEX
      parameter (FMPL_ERR_INDEX=8)
      integer FMPL_ERR_COMM
      parameter (FMPL_ERR_COMM=9)
      integer FMPL_ERR_BUSY
      parameter (FMPL_ERR_BUSY=10)
      integer FMPL_ERR_TRUNCATE
      parameter (FMPL_ERR_TRUNCATE=11)
      integer FMPL_ERR_NOTHING
      parameter (FMPL_ERR_NOTHING=12)
      integer FMPL_ERR_STASH
      parameter (FMPL_ERR_STASH=13)
      integer FMPL_ERR_FUNCTION
      parameter (FMPL_ERR_FUNCTION=14)
      integer FMPL_ERR_COUNT
      parameter (FMPL_ERR_COUNT=15)
      integer FMPL_ERR_PEER
      parameter (FMPL_ERR_PEER=16)
      integer FMPL_ERR_MEMORY
      parameter (FMPL_ERR_MEMORY=17)
      integer FMPL_ERR_ARGUMENT
      parameter (FMPL_ERR_ARGUMENT=18)
      integer FMPL_ERR_REENTERED
      parameter (FMPL_ERR_REENTERED=19)
      integer FMPL_COMM_WORLD
      parameter (FMPL_COMM_WORLD=0)
      integer FMPL_COMM_NULL
      parameter (FMPL_COMM_NULL=-1)
      integer FMPL_TAG_ANY
      parameter (FMPL_TAG_ANY=-1)
      integer FMPL_INFINITE
      parameter (FMPL_INFINITE=-1)
      integer FMPL_GROWS
      parameter (FMPL_GROWS=-1)
      integer FMPL_COUNT_MAX
      parameter (FMPL_COUNT_MAX=32768)
      integer FMPL_ANY_MAX
      parameter (FMPL_ANY_MAX=64)
      integer FMPL_AUTO
      parameter (FMPL_AUTO=0)
      integer FMPL_SOFTWARE
      parameter (FMPL_SOFTWARE=1)
      external fmpl_isum, fmpl_imax, fmpl_imin, fmpl_iamax, fmpl_iamin
      external fmpl_ssum, fmpl_smax, fmpl_smin, fmpl_samax, fmpl_samin
      external fmpl_dsum, fmpl_dmax, fmpl_dmin, fmpl_damax, fmpl_damin
      external fmpl_csum, fmpl_cmax, fmpl_cmin, fmpl_camax, fmpl_camin
      external fmpl_zsum, fmpl_zmax, fmpl_zmin, fmpl_zamax, fmpl_zamin
! For no memory, where fmpl.h has NULL: in fmpl_init, and in fmpl_sendbuf_set with a size or FMPL_GROWS.
      integer FMPL_BOTTOM
      common /FMPL_PRIVATE/ FMPL_BOTTOM
      save /FMPL_PRIVATE/
      double precision fmpl_wtime
      external fmpl_wtime
