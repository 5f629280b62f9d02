/* Messages round a ring, each into the next of many buffers, which together are more than caches of 32 MiB hold: what comes to a buffer the second
 * time may be written past the caches. Buffers lie at any place of a cache line and messages are of any length. Another thread, which calls nothing of
 * MPI, is told of each by an ordinary store as soon as it has come, and looks at every byte.
 *
 * Argument "multiple": with MPI_THREAD_MULTIPLE, and two threads receive, each into every other buffer.
 */
#include "check.h"
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

enum { BUFFERS = 14, TURNS = 3, LONG = 4 << 20, MOST = 2 };

/* A thread that receives into the buffers from `first` on, `step` apart, and the one that looks at them. */
typedef struct {
    MPI_Comm comm;
    int first, step, turn;
    atomic_int received;
} Way;

static unsigned char *in[BUFFERS];
static int left, right;

/* Odd numbers of bytes, and some that end with a line. */
static size_t length(int buffer)
{
    return (size_t)LONG + (buffer % 4 == 0 ? 0 : (size_t)buffer * 4099);
}

static unsigned number(const Way *way, int buffer)
{
    return (unsigned)(way->turn * BUFFERS + buffer);
}

static void *look(void *argument)
{
    Way *way = argument;
    int n = 0;
    for (int buffer = way->first; buffer < BUFFERS; buffer += way->step, n++) {
        while (atomic_load_explicit(&way->received, memory_order_acquire) == n)
            sched_yield();
        VERIFY(in[buffer], T_PLAIN, length(buffer), (unsigned)left, number(way, buffer));
    }
    return NULL;
}

/* Once through the way's buffers, which are all posted ahead. */
static void *receive(void *argument)
{
    Way *way = argument;
    pthread_t looks;
    MPI_Request receives[BUFFERS], send;
    unsigned char *out = t_alloc(length(BUFFERS - 1));
    atomic_store(&way->received, 0);
    for (int buffer = way->first; buffer < BUFFERS; buffer += way->step) {
        memset(in[buffer], 0x5A, length(buffer) + 1);
        OK(MPI_Irecv(in[buffer], (int)length(buffer), MPI_BYTE, left, buffer, way->comm, &receives[buffer]));
    }
    CHECK(pthread_create(&looks, NULL, look, way) == 0);
    for (int buffer = way->first; buffer < BUFFERS; buffer += way->step) {
        t_fill(out, T_PLAIN, length(buffer), (unsigned)t_rank, number(way, buffer));
        OK(MPI_Isend(out, (int)length(buffer), MPI_BYTE, right, buffer, way->comm, &send));
        OK(MPI_Wait(&receives[buffer], MPI_STATUS_IGNORE));
        atomic_fetch_add_explicit(&way->received, 1, memory_order_release);
        OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
    }
    CHECK(pthread_join(looks, NULL) == 0);
    free(out);
    return NULL;
}

int main(int argc, char **argv)
{
    int provided, ways = argc > 1 && strcmp(argv[1], "multiple") == 0 ? MOST : 1;
    Way all[MOST];
    pthread_t second;
    OK(MPI_Init_thread(&argc, &argv, ways > 1 ? MPI_THREAD_MULTIPLE : MPI_THREAD_FUNNELED, &provided));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &t_rank));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &t_size));
    right = (t_rank + 1) % t_size;
    left = (t_rank + t_size - 1) % t_size;
    for (int buffer = 0; buffer < BUFFERS; buffer++)
        in[buffer] = (unsigned char *)t_alloc(length(buffer) + 64) + buffer * 5 % 64;
    for (int i = 0; i < ways; i++) {
        all[i] = (Way){.first = i, .step = ways};
        OK(MPI_Comm_dup(MPI_COMM_WORLD, &all[i].comm));
    }
    for (int turn = 0; turn < TURNS; turn++) {
        for (int i = 0; i < ways; i++)
            all[i].turn = turn;
        if (ways > 1)
            CHECK(pthread_create(&second, NULL, receive, &all[1]) == 0);
        receive(&all[0]);
        if (ways > 1)
            CHECK(pthread_join(second, NULL) == 0);
    }
    for (int buffer = 0; buffer < BUFFERS; buffer++)
        free(in[buffer] - buffer * 5 % 64);
    for (int i = 0; i < ways; i++)
        OK(MPI_Comm_free(&all[i].comm));
    return t_done("p2p_past");
}
