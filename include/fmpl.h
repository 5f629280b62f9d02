/* fmpl.h: FMPL, a message-passing library that matches at the sender.
 *
 * After O. Tatebe, U. Nagashima, S. Sekiguchi, H. Kitabayashi, Y. Hayashida: Design and implementation of FMPL, a
 * fast message-passing library based on remote memory operations. This is Yamabiko's, on any Linux machine.
 *
 * A receive writes where its buffer is into a slot at the sender; the send finds it there and writes the data home.
 * There are no tags but indices of a matching area: for every ordered pair of processes, `count` slots, each for one
 * message at a time. So receives that are posted ahead cost nothing to match, however many there are.
 *
 * Every function returns a code, and leaves the same in *ier, which may be NULL. FMPL_SUCCESS is 0. What is refused
 * has not begun; no error ever overwrites memory.
 *
 * FMPL and MPI live in one process and share its connections: a wait in one makes progress for the other. A program
 * may use FMPL alone (fmpl_init then starts what MPI_Init would) or beside MPI, initialised in either order. Threads
 * may call at the same time if MPI_THREAD_MULTIPLE was granted.
 *
 * Fortran: the same names and arguments, with `call` and `ier` last; include 'fmplf.h'. Sizes are default integers;
 * names with an 8 at the end take INTEGER*8 (fmplf.h has the list). FMPL_BOTTOM is NULL as the memory of fmpl_init and fmpl_sendbuf_set. */
#ifndef FMPL_H
#define FMPL_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- Codes. */
#define FMPL_SUCCESS 0
#define FMPL_ERR_NOT_INITIALISED 1 /* fmpl_init has not been called */
#define FMPL_ERR_INITIALISED 2     /* it has been called already */
#define FMPL_ERR_FINALIZED 3       /* FMPL or MPI was finalized */
#define FMPL_ERR_START 4           /* MPI could not be started, or no library was found (standard error says why) */
#define FMPL_ERR_BUFFER 5          /* a buffer of more than 0 bytes, or an address for a result, is NULL; or work overlaps buf */
#define FMPL_ERR_SIZE 6            /* a size or count is negative or too large */
#define FMPL_ERR_RANK 7            /* no process of the communicator has that rank */
#define FMPL_ERR_INDEX 8           /* the index is outside the matching area */
#define FMPL_ERR_COMM 9            /* there is no such communicator here */
#define FMPL_ERR_BUSY 10           /* that index is in flight with that process: wait for it first */
#define FMPL_ERR_TRUNCATE 11       /* the message was longer than the buffer, which holds its beginning */
#define FMPL_ERR_NOTHING 12        /* a wait or test names nothing that is in flight */
#define FMPL_ERR_STASH 13          /* the stash can't be changed while sends lie in it */
#define FMPL_ERR_FUNCTION 14       /* the reduction function is NULL or was not named to fmpl_func_set */
#define FMPL_ERR_COUNT 15          /* the processes called fmpl_init with different counts */
#define FMPL_ERR_PEER 16           /* the other process, or one that a collective needs, is gone */
#define FMPL_ERR_MEMORY 17         /* no memory (or no communicator) is left */
#define FMPL_ERR_ARGUMENT 18       /* an argument has a value that means nothing, such as memory that fmpl_alloc did not give */
#define FMPL_ERR_REENTERED 19      /* another call is inside a collective of that communicator */

/* What a code says; the text lives for ever. */
const char *fmpl_strerror(int code);

/* --- Constants. */
#define FMPL_COMM_WORLD 0
#define FMPL_COMM_NULL (-1)
#define FMPL_TAG_ANY (-1)
#define FMPL_INFINITE (-1)          /* ipara: a send waits for its receive for ever */
#define FMPL_GROWS ((size_t)-1)     /* size of a stash that grows as it needs */
#define FMPL_COUNT_MAX 32768        /* most indices of a matching area */
#define FMPL_ANY_MAX 64             /* receives with FMPL_TAG_ANY in flight from one process */
#define FMPL_COLLECTIVES_AUTO 0     /* flags and faces in shared memory where they can be used */
#define FMPL_COLLECTIVES_SOFTWARE 1 /* trees of messages always */

/* --- Start and end.
 * fmpl_init: all processes call it with the same count (1 to FMPL_COUNT_MAX), else all get FMPL_ERR_COUNT and FMPL can't
 * be used: after that fmpl_finalize is all that is left, and ends MPI as it always does. (Another error of fmpl_init changes nothing: it may be
 * called again.) ma and fa, the memory of the matching area and of the completion flags, may be NULL: what peers write lies in
 * mapped memory of the library, so memory given here is left alone.
 * fmpl_finalize: all processes call it. It returns when everything spooled anywhere was received; receives that are still
 * posted are taken back, and an fmpl_isend that met no receive and that nobody waited for is dropped. It ends MPI if fmpl_init started it
 * and neither MPI_Init nor BLACS has been called since (Cblacs_exit(0) ends it then, after this); MPI_Finalize without it waits for what is spooled, too. Where a process
 * has died (below) nobody waits for all any more, and what was spooled for the dead is lost; that is no error. */
int fmpl_init(void *ma, void *fa, int count, int *ier);
int fmpl_finalize(int *ier);
int fmpl_initialized(int *flag, int *ier); /* between the two? may always be called */
int fmpl_abort(int code, int *ier);        /* ends the whole job */
double fmpl_wtime(void);                   /* seconds */

/* --- Messages by (rank, index).
 * A send returns when buf may be changed, a receive when all data are there. Messages of one index from one process to
 * one other match receives in the order sent; between different indices there is no order.
 *
 * When an index is free: for receiving, when the receive (or the wait or successful test of an fmpl_irecv) returned; for
 * sending likewise. A second use before is FMPL_ERR_BUSY. A send that was spooled (below) has returned, so its index is
 * free: more may be sent with it, and they arrive in order.
 *
 * FMPL_TAG_ANY as the index of a receive takes a message of any index of that process. There is no order between such
 * receives and others: a send takes a receive for its very index if one is posted, else the oldest FMPL_TAG_ANY receive. So messages of
 * one index may be taken again and again while older ones of other indices lie in the stash.
 * Up to FMPL_ANY_MAX may be in flight, one more is FMPL_ERR_BUSY, and they are filled in the order posted. A wait or test with FMPL_TAG_ANY means the oldest
 * for which none has returned.
 *
 * A message longer than its receive: the receive ends with FMPL_ERR_TRUNCATE, its buffer full and nothing written beyond.
 * The send ends with the same code if it had not been spooled. fmpl_irecv_wait_status tells the message's length then, not the buffer's.
 *
 * A process that has died: what it sent before can still be received, but for what it had spooled (below), which died with it. Then a receive from it is refused with FMPL_ERR_PEER, by fmpl_irecv
 * already, so that there is nothing to wait for; an fmpl_isend to it may succeed, and its wait says so;
 * an fmpl_send that goes to the stash may, until this process makes progress, as one of 16 such sends does. */
int fmpl_send(const void *buf, size_t size, int dst, int mai, int comm, int *ier);
int fmpl_recv(void *buf, size_t size, int src, int mai, int comm, int *ier);
int fmpl_isend(const void *buf, size_t size, int dst, int mai, int comm, int *ier);
int fmpl_irecv(void *buf, size_t size, int src, int mai, int comm, int *ier);
int fmpl_isend_wait(int dst, int mai, int comm, int *ier);
int fmpl_irecv_wait(int src, int mai, int comm, int *ier);
int fmpl_irecv_wait_status(int src, int mai, int comm, size_t *size, int *index, int *ier); /* NULL: not wanted */
int fmpl_isend_test(int dst, int mai, int comm, int *flag, int *ier); /* *flag: whether it is over, as after a wait */
int fmpl_irecv_test(int src, int mai, int comm, int *flag, int *ier);

/* --- Messages to whoever receives from anybody: a domain of their own, which fmpl_send and fmpl_recv don't meet.
 * An index is any number from 0 on (FMPL_TAG_ANY in a receive: any). Messages of one process to one other arrive in
 * order. Matching is at the receiver; messages of up to 2 KiB leave at once, longer ones may wait for their receive,
 * and the stash is not used. A receive ends with FMPL_ERR_PEER when all other processes of the communicator are gone and nothing
 * is left that they sent (not with MPI_THREAD_MULTIPLE, as another thread may yet send to its own process). */
int fmpl_send_any(const void *buf, size_t size, int dst, int mai, int comm, int *ier);
int fmpl_recv_any(void *buf, size_t size, int mai, int comm, int *ier);
int fmpl_recv_any_from(void *buf, size_t size, int mai, int comm, int *src, size_t *bytes, int *index, int *ier);

/* --- The stash: where sends are spooled that find no receive.
 * A blocking send waits for its receive for at least ipara ms. Then its message is copied into the stash, once, and
 * the send returns. fmpl_isend_wait does the same, counting from the fmpl_isend; fmpl_isend_test, too. ipara 0 never
 * waits; FMPL_INFINITE is the synchronous mode, and how FMPL starts. A receive that is posted already always means no
 * copy. If the stash is full, the send goes on waiting, as in synchronous mode, until its receive comes or there
 * is room: it does not fail. A message takes its length rounded up to 64 bytes, an empty one 64, and buf is used from its first address on
 * that is a multiple of 64.
 *
 * Spooled messages leave whenever this process makes progress: in any waiting, testing or checking call of FMPL or MPI.
 * buf belongs to the library until another stash is set (FMPL_ERR_STASH while messages lie in it) or FMPL ends. NULL
 * with a size: memory of the library's own, with FMPL_GROWS as much as it takes. Size 0: no stash.
 *
 * fmpl_sendbuf_check makes progress, and tells how many spooled sends have left since it was last called, and how
 * many still wait. What was spooled for a process that has died is lost and counts as left. */
int fmpl_sendbuf_set(void *buf, size_t size, int ipara, int *ier);
int fmpl_sendbuf_check(int *nsend, int *nspool, int *ier);
int fmpl_progress(int *moved, int *ier);

/* --- Communicators.
 * fmpl_comm_create: all processes of FMPL_COMM_WORLD call it. Those with the same key other than 0 make up a communicator,
 * ordered by their rank in the world; with key 0 a process takes no part and gets FMPL_COMM_NULL. A communicator
 * translates ranks; indices are those of the one matching area, whichever communicator names the two processes.
 * Where that fails *comm is FMPL_COMM_NULL. A process may be in 510 communicators beside the world at a time; the next is FMPL_ERR_MEMORY.
 * fmpl_comm_free: all members call it; where one of them is dead, each for itself. */
int fmpl_comm_create(int *comm, int key, int *ier);
int fmpl_comm_free(int *comm, int *ier);
int fmpl_comm_rank(int comm, int *rank, int *ier);
int fmpl_comm_size(int comm, int *size, int *ier);

/* --- Collectives: all members call them, in the same order on one communicator.
 * A reduction's elements are combined along a binomial tree of ranks relative to the root: v = (rank - root) mod p takes
 * from v+1, v+2, v+4, ... below its lowest bit, in this order, own = f(own, theirs). So the order depends on the
 * root and the number of processes, never on timing. fmpl_allreduce is that to rank 0, and a broadcast: all get the
 * same bits. Where elements are no numbers (NaN), max and min follow that order, too: they keep own unless theirs compares as more, or less.
 * work is as large as buf, does not overlap it, and both are the library's until the call returns; buf holds the result at the root,
 * and elsewhere intermediate results.
 *
 * All members give the same size, or count and function. Else, of a broadcast as much arrives as both have, a reduction ends with FMPL_ERR_TRUNCATE where that is seen, and
 * others may wait for ever.
 *
 * When a process dies and the job goes on (mpiexec -disable-auto-cleanup), a collective that is under way on a communicator of
 * which it was a member ends everywhere, with FMPL_ERR_PEER where it misses anybody, and every later one, fmpl_comm_create for
 * FMPL_COMM_WORLD, ends with that at once. What a collective that failed leaves in buf and work is undefined. Other communicators, and
 * messages between those that are left, go on; but of a communicator that was just being made, some may not have heard. */
typedef void fmpl_function(void *inout, const void *in, const int *count);
int fmpl_barrier(int comm, int *ier);
int fmpl_bcast(void *buf, size_t size, int root, int comm, int *ier);
int fmpl_reduce(void *buf, size_t count, fmpl_function *func, int root, int comm, void *work, int *ier);
int fmpl_allreduce(void *buf, size_t count, fmpl_function *func, int comm, void *work, int *ier);
/* A function of the program, and the bytes of its elements, before it is first used; also before fmpl_init. It may call FMPL and MPI, but no
 * collective of that communicator. FMPL's own functions need no such call, and are FMPL_ERR_FUNCTION here. */
int fmpl_func_set(fmpl_function *func, size_t size, int *ier);
/* How barrier and broadcast work from now on, the same at all processes; not while one is under way. */
int fmpl_collectives_set(int which, int *ier);

/* Predefined functions. i: int, s: float, d: double, c: complex of float, z: complex of double.
 * max and min mean the element of greatest and least absolute value, where that of a complex number is |Re| + |Im|; of
 * equal ones that of `inout` stays.
 * amax and amin do so on elements {value, int row, int column} without gaps (12, 12, 16, 16 and 24 bytes); of
 * equal ones the one with the smaller row, then the smaller column, wins. */
fmpl_function fmpl_isum, fmpl_imax, fmpl_imin, fmpl_iamax, fmpl_iamin;
fmpl_function fmpl_ssum, fmpl_smax, fmpl_smin, fmpl_samax, fmpl_samin;
fmpl_function fmpl_dsum, fmpl_dmax, fmpl_dmin, fmpl_damax, fmpl_damin;
fmpl_function fmpl_csum, fmpl_cmax, fmpl_cmin, fmpl_camax, fmpl_camin;
fmpl_function fmpl_zsum, fmpl_zmax, fmpl_zmin, fmpl_zamax, fmpl_zamin;

/* --- Memory that peers on the machine write to and read from directly: one copy for each message. Aligned to a cache line.
 * FMPL_ERR_MEMORY: there is none; any other memory works too. A child of fork shares it. fmpl_free takes what fmpl_alloc gave, once. */
int fmpl_alloc(size_t size, void **memory, int *ier);
int fmpl_free(void *memory, int *ier);

#ifdef __cplusplus
}
#endif
#endif
