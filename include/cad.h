/* CAD: collective action descriptors. A collective operation of one process is a graph of nodes that send,
 * receive, calculate and copy; it is issued as a whole and progresses node by node. Works alone, without MPI:
 * the processes are those that mpiexec starts.
 *
 * All functions are called by one thread, the one that called cad_start, but cad_query by any. Functions that
 * give an int give zero or a node's number, or one of the negative codes below (cad_error_string has the words).
 *
 * Who runs the nodes is chosen by the environment variable YAMABIKO_CAD, the same for all processes:
 * inline (the default)  the calls cad_issue, cad_progress, cad_test and cad_wait. (With auto too.)
 * ring                  the kernel (io_uring), while the program computes. Sends, receives and copies need no call, nor do
 *                       reductions (cad_make_reduction_node), which the handler of SIGURG does on the program's thread, so
 *                       calls as poll may give EINTR (no handler where the program has its own, nor with
 *                       YAMABIKO_CAD_CALLBACK=none: reductions are calculations then). Other
 *                       calculations wait for the next call, as does the news of a failure. The third descriptor that is under way on a
 *                       channel begins in a call too, or in cad_query, as do the first after a failure there and the first two on a channel
 *                       with a process of lower rank on another machine, if that issues its own later. Messages between two processes arrive in the order in
 *                       which their nodes were made: a descriptor whose edges want another is not issued
 *                       (CAD_ERR_EXECUTOR), and lengths that differ are not noticed (CAD_LENGTH).
 * `yamabiko info` says which work here. Where the one chosen does not, cad_start fails and says why.
 */
#ifndef YAMABIKO_CAD_H
#define YAMABIKO_CAD_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A descriptor. Its only visible part is the word that END writes. */
typedef struct cad_descriptor { uint32_t word; } *cad_t;

/* What the word, cad_test and cad_wait say. Beyond CAD_PENDING: why it ended early, or CAD_IDLE. */
enum {
    CAD_DONE = 0,      /* END is reached: all nodes have completed */
    CAD_PENDING = 1,   /* issued, not over */
    CAD_LENGTH = 2,    /* a message was not as long as its receive node says */
    CAD_LOST = 3,      /* a process that takes part is gone */
    CAD_CANCELLED = 4,
    CAD_IDLE = 5       /* not issued yet */
};

/* Codes of functions. */
enum {
    CAD_ERR_STATE = -10,   /* cad_start was not called or failed, or by another thread, or cad_finish was called */
    CAD_ERR_START = -11,   /* joining the job failed; standard error says why */
    CAD_ERR_HANDLE = -12,  /* no such descriptor */
    CAD_ERR_PEER = -13,    /* no such process, not a member, or the caller itself */
    CAD_ERR_NODE = -14,    /* no such node */
    CAD_ERR_MEMORY = -15,  /* a null buffer with bytes, or beyond the end of memory */
    CAD_ERR_MANY = -16,    /* more than 32768 nodes for one process and direction */
    CAD_ERR_GRAPH = -17,   /* the nodes wait for each other */
    CAD_ERR_BUSY = -18,    /* the descriptor is under way, or was issued and can't change; or called by an operation */
    CAD_ERR_CHANNEL = -19, /* the channel is too large */
    CAD_ERR_EXECUTOR = -20 /* this executor can't run the descriptor; standard error says why */
};

/* Before and after all nodes, for cad_connect_node. */
enum { CAD_START = -1, CAD_END = -2 };

/* inout = in op inout, on `bytes` bytes. May not call CAD. */
typedef void cad_operation(const void *in, void *inout, size_t bytes, void *context);

/* Joins the job. Once in a process. The caller's number and how many there are (where not NULL). */
int cad_start(int *rank, int *size);
/* Leaves the job, after all others have come as far. No descriptor may be under way. */
int cad_finish(void);

/* A new descriptor. The n-th issue on a channel (0 to 2^32 - 2) in one process belongs to the n-th in the
 * others. `members` are the `count` processes that take part; NULL: all. */
int cad_init(cad_t *cad, uint32_t channel, const int *members, int count);
/* Nodes: each gives its number. The k-th send node made for a process belongs to the k-th receive node that
 * this makes for the caller. Buffers have to stay until the descriptor is over. */
int cad_make_send_node(cad_t cad, const void *from, size_t bytes, int to);
int cad_make_recv_node(cad_t cad, void *to, size_t bytes, int from);
int cad_make_calc_node(cad_t cad, cad_operation *op, void *context, const void *in, void *inout, size_t bytes);
/* The same, with an operation that may run at any point of the program, in the handler of a signal too: it takes no lock,
 * allocates nothing, and calls nothing that does (it is async-signal-safe, as POSIX has it). */
int cad_make_reduction_node(cad_t cad, cad_operation *op, void *context, const void *in, void *inout, size_t bytes);
int cad_make_copy_node(cad_t cad, const void *from, void *to, size_t bytes);
/* `after` begins when `before` has completed. Nodes that nothing leads to begin at once. */
int cad_connect_node(cad_t cad, int before, int after);

/* Starts it; again, when it is over. After the first time it can't be changed. */
int cad_issue(cad_t cad);
/* What the word says of a descriptor that is pending and has not begun, and what cad_query then calls. */
#define CAD_UNBEGUN 6
int cad_query_unbegun(cad_t cad);
/* How it stands: one load, once it has begun; before (see above), a try to begin it, if the thread is cad_start's. Doesn't make
 * progress else: use cad_progress, cad_test or cad_wait for that, or the executor "ring". */
static inline int cad_query(cad_t cad)
{
    int state = (int)__atomic_load_n(&cad->word, __ATOMIC_ACQUIRE);
    return state == CAD_UNBEGUN ? cad_query_unbegun(cad) : state;
}
/* Moves whatever can move, of all descriptors. */
int cad_progress(void);
/* Progress, unless it is over, then how it stands. */
int cad_test(cad_t cad);
/* Until it is over; asleep where nothing can move. */
int cad_wait(cad_t cad);
/* Takes it back: it is over as soon as its buffers are no longer used. The others' parts stay with the executor
 * "inline"; with "ring" they are cancelled too, where they are not over. */
int cad_cancel(cad_t cad);
/* Gives a descriptor back that is not under way, and sets it to NULL. */
int cad_free(cad_t *cad);

/* Which executor runs descriptors ("inline" or "ring"), how many nodes it has run, and how many of these waited
 * for a call of the program (where not NULL). */
int cad_executor(const char **name, uint64_t *nodes, uint64_t *in_calls);

/* Words for a code or a state. */
const char *cad_error_string(int code);

#ifdef __cplusplus
}
#endif
#endif
